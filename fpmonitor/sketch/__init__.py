"""Sketches of values: a secret key keeps few values, and all of their users are counted."""
