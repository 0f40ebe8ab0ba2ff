"""Estimates of exposure and entropy from count spectra: pure functions, no I/O."""
