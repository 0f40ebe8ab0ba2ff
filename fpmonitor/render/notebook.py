"""Results as a notebook shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fpmonitor.render import answers, decisions, levels, store

if TYPE_CHECKING:
    from collections.abc import Callable

    from fpmonitor.render.output import Output
    from fpmonitor.results import Result

# By name: whoever has a result has loaded its class, and the others need not be.
_OUTPUTS: dict[str, Callable[[Any], Output]] = {
    "AutomationReport": answers.automation,
    "CheckReport": answers.check,
    "ComparedSet": lambda line: answers.comparison(
        [line], population=line.before.population, k=line.before.k
    ),
    "CountsExposure": answers.counts_exposure,
    "CurveReport": answers.curve,
    "Decision": decisions.decision,
    "LevelDecision": lambda decided: levels.level_decision(decided, ""),
    "ExposureReport": lambda report: answers.exposures([report]),
    "Ranking": answers.ranking,
    "TrendReport": answers.trend,
}


def html(result: Result) -> str:
    """Return a result as tables of HTML, in words for what was counted."""
    made = _OUTPUTS.get(type(result).__name__)
    output = store.listing(result.rows()) if made is None else made(result)
    decided = getattr(result, "decision", result)
    return output.of(getattr(decided, "unit", "user")).html()
