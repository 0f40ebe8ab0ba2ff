"""fpmonitor: which combinations of browser APIs stay k-anonymous, with a guarantee."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "CountSpectrum": "fpmonitor.spectrum",
    "Decision": "fpmonitor.decide.decision",
    "FpmonitorError": "fpmonitor.errors",
    "Monitor": "fpmonitor.monitor",
    "Policy": "fpmonitor.policy",
    "SpectrumSource": "fpmonitor.spectrum",
    "read_decision": "fpmonitor.decide.decision",
}


def __getattr__(name: str) -> Any:
    # A part of the package, such as a collector, loads without all of the statistics.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
