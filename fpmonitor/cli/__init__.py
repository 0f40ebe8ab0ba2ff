"""Command line: one file per command family; parses, calls, prints."""
