"""Spectrum sources: where count spectra come from."""
