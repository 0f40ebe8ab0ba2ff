"""fpmonitor: which combinations of browser APIs stay k-anonymous, with a guarantee."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fpmonitor.results import Result

if TYPE_CHECKING:
    from fpmonitor.answers.counts import CountsExposure, exposure
    from fpmonitor.decide.decision import Decision, read_decision
    from fpmonitor.errors import (
        BusyError,
        EngineLostError,
        FpmonitorError,
        InputError,
        PolicyError,
        RefusedError,
        StoreError,
        UndecidableError,
        UnknownNameError,
    )
    from fpmonitor.monitor import Monitor
    from fpmonitor.policy import Policy
    from fpmonitor.population.views import View
    from fpmonitor.spectrum import CountSpectrum, SpectrumSource

__all__ = [
    "BusyError",
    "CountSpectrum",
    "CountsExposure",
    "Decision",
    "EngineLostError",
    "FpmonitorError",
    "InputError",
    "Monitor",
    "Policy",
    "PolicyError",
    "RefusedError",
    "SpectrumSource",
    "StoreError",
    "UndecidableError",
    "UnknownNameError",
    "View",
    "exposure",
    "read_decision",
]
__version__ = "0.1.0"

_HOMES = {
    "answers.counts": ("CountsExposure", "exposure"),
    "decide.decision": ("Decision", "read_decision"),
    "errors": tuple(name for name in __all__ if name.endswith("Error")),
    "monitor": ("Monitor",),
    "policy": ("Policy",),
    "spectrum": ("CountSpectrum", "SpectrumSource"),
    "population.views": ("View",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # A part of the package, such as a collector, loads without all of the statistics.
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def _to_html(result: Result) -> str:
    """Return the tables of a result as HTML."""
    # What draws results is loaded when one is drawn.
    drawn: str = import_module("fpmonitor.render.notebook").html(result)
    return drawn


Result.to_html = _to_html
