"""fpmonitor: which combinations of browser APIs stay k-anonymous, with a guarantee."""

from __future__ import annotations

from fpmonitor.errors import FpmonitorError
from fpmonitor.policy import Policy
from fpmonitor.spectrum import CountSpectrum, SpectrumSource

__all__ = ["CountSpectrum", "FpmonitorError", "Policy", "SpectrumSource"]
__version__ = "0.1.0"
