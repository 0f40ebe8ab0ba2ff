"""Exporters: one file per product format."""
