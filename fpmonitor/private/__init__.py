"""Collection without seeing what a user holds."""
