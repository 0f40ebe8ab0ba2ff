"""What a watch does: finds logs that arrive, looks at windows, and delivers notices."""
