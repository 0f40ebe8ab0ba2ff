"""Populations: one row per user, coded, and the count spectra of any API set."""
