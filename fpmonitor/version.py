"""The version, for all that names it."""

__version__ = "0.1.0"
