"""fpmonitor: which browser APIs a site may read together, with certified limits."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fpmonitor.results import Result
from fpmonitor.version import __version__ as __version__

if TYPE_CHECKING:
    from fpmonitor.account import Account, Member
    from fpmonitor.answers.apis import ApiOverview
    from fpmonitor.answers.check import CheckReport
    from fpmonitor.answers.counts import CountsExposure, exposure
    from fpmonitor.answers.curve import CurveReport
    from fpmonitor.answers.demand import DemandLine
    from fpmonitor.answers.exposure import ExposureReport
    from fpmonitor.answers.findings import Findings
    from fpmonitor.answers.rank import Ranking
    from fpmonitor.answers.trend import TrendReport
    from fpmonitor.decide.decision import Decision
    from fpmonitor.decide.files import read_decision, read_level_decision
    from fpmonitor.decide.level_decision import LevelDecision
    from fpmonitor.disclosure import Audience
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
    from fpmonitor.export.coverage import Coverage
    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.frames import Frame, LazyFrame
    from fpmonitor.monitor import Monitor, RejectedRecord
    from fpmonitor.policy import Departure, Drawn, Policy, SampleModel
    from fpmonitor.population.exposure_index import ExposureIndex, IndexedExposure
    from fpmonitor.population.population import Population
    from fpmonitor.population.views import View
    from fpmonitor.population.windows import Windows
    from fpmonitor.question import Question
    from fpmonitor.spectrum import CountSpectrum, SpectrumSource
    from fpmonitor.store.batches import BatchReport
    from fpmonitor.store.demand import DemandReport
    from fpmonitor.store.files import Patience
    from fpmonitor.store.snapshot import Window
    from fpmonitor.store.transforms import Transform
    from fpmonitor.store.windows import LeftOut

__all__ = [
    "Account",
    "ApiOverview",
    "Audience",
    "BatchReport",
    "BusyError",
    "CheckReport",
    "ColumnMap",
    "CountSpectrum",
    "CountsExposure",
    "Coverage",
    "CurveReport",
    "Decision",
    "DemandLine",
    "DemandReport",
    "Departure",
    "Drawn",
    "EngineLostError",
    "ExposureIndex",
    "ExposureReport",
    "Findings",
    "FpmonitorError",
    "Frame",
    "IndexedExposure",
    "InputError",
    "LazyFrame",
    "LeftOut",
    "LevelDecision",
    "Member",
    "Monitor",
    "Patience",
    "Policy",
    "PolicyError",
    "Population",
    "Question",
    "Ranking",
    "RefusedError",
    "RejectedRecord",
    "Result",
    "SampleModel",
    "SpectrumSource",
    "StoreError",
    "Transform",
    "TrendReport",
    "UndecidableError",
    "UnknownNameError",
    "View",
    "Window",
    "Windows",
    "exposure",
    "read_decision",
    "read_level_decision",
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
    "decide.decision": ("Decision",),
    "decide.files": ("read_decision", "read_level_decision"),
    "decide.level_decision": ("LevelDecision",),
    "disclosure": ("Audience",),
    "errors": tuple(name for name in __all__ if name.endswith("Error")),
    "export.coverage": ("Coverage",),
    "logs.column_map": ("ColumnMap",),
    "logs.frames": ("Frame", "LazyFrame"),
    "monitor": ("Monitor", "RejectedRecord"),
    "policy": ("Departure", "Drawn", "Policy", "SampleModel"),
    "population.exposure_index": ("ExposureIndex", "IndexedExposure"),
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
    drawn: str = import_module("fpmonitor.render.notebook").html(result)
    return drawn


Result.to_html = _to_html
