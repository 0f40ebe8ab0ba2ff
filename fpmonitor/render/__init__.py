"""Answers as terminal tables, CSV, JSON, SVG and HTML."""
