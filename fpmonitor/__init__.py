"""fpmonitor: which combinations of browser APIs stay k-anonymous, with a guarantee."""

from __future__ import annotations

from fpmonitor.decide.decision import Decision, read_decision
from fpmonitor.errors import FpmonitorError
from fpmonitor.monitor import Monitor
from fpmonitor.policy import Policy
from fpmonitor.spectrum import CountSpectrum, SpectrumSource

__all__ = [
    "CountSpectrum",
    "Decision",
    "FpmonitorError",
    "Monitor",
    "Policy",
    "SpectrumSource",
    "read_decision",
]
__version__ = "0.1.0"
