"""fpmonitor: which browser APIs a site may read together, with certified limits."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fpmonitor.results import Answers, Result
from fpmonitor.version import __version__ as __version__

if TYPE_CHECKING:
    from fpmonitor.answers.counts import exposure
    from fpmonitor.decide.decision import Decision
    from fpmonitor.decide.files import read_decision
    from fpmonitor.errors import FpmonitorError, InputError
    from fpmonitor.log import Log, read
    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.monitor import Monitor
    from fpmonitor.population.views import View

# What people write. The other names of `_HOMES` are what these return and take.
__all__ = [
    "Answers",
    "ColumnMap",
    "Decision",
    "FpmonitorError",
    "InputError",
    "Log",
    "Monitor",
    "Result",
    "View",
    "exposure",
    "read",
    "read_decision",
]

_HOMES = {
    "account": ("Account", "Member"),
    "answers.apis": ("ApiOverview",),
    "answers.check": ("CheckReport",),
    "answers.counts": ("CountsExposure", "exposure"),
    "answers.curve": ("CurveReport",),
    "answers.demand": ("DemandLine",),
    "answers.exposure": ("ExposureReport",),
    "answers.findings": ("Findings",),
    "answers.rank": ("Ranking",),
    "answers.trend": ("TrendReport",),
    "decide.asked": ("DecideQuestion",),
    "decide.decision": ("Decision",),
    "decide.files": ("read_any_decision", "read_decision"),
    "decide.lattice": ("Lattice",),
    "disclosure": ("Audience",),
    "errors": (
        "BusyError",
        "EngineLostError",
        "FpmonitorError",
        "InputError",
        "PolicyError",
        "RefusedError",
        "StoreError",
        "UndecidableError",
        "UnknownNameError",
    ),
    "export.coverage": ("Coverage",),
    "log": ("Log", "read"),
    "logs.column_map": ("ColumnMap",),
    "logs.frames": ("Frame", "LazyFrame"),
    "monitor": ("Monitor", "RejectedRecord"),
    "policy": ("Departure", "Drawn", "Policy", "SampleModel"),
    "population.exposure_index": ("ExposureIndex", "IndexedExposure"),
    "population.levels": ("Component",),
    "population.population": ("Population",),
    "population.views": ("View",),
    "population.windows": ("Windows",),
    "question": ("Question",),
    "spectrum": ("CountSpectrum", "SpectrumSource"),
    "store.demand": ("DemandReport",),
    "store.files": ("Patience",),
    "store.batches": ("BatchReport",),
    "store.snapshot": ("Window",),
    "store.transforms": ("Transform",),
    "store.windows": ("LeftOut",),
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
    drawn: str = import_module("fpmonitor.render.notebook").notebook_html(result)
    return drawn


def _plot(result: Result) -> Any:
    """Return the figure of a result, which shows itself in a notebook."""
    return import_module("fpmonitor.render.notebook").figure(result)


def _do(result: Result, action: str, *given: Any, **options: Any) -> Any:
    """Do with a result what rooms above it can, such as write a list."""
    return import_module("fpmonitor.log").ACTIONS[action](result, *given, **options)


Result.to_html = _to_html
Result.plot = _plot
Result.do = _do
