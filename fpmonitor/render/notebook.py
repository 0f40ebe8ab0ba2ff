"""Results as a notebook shows them: as tables, and as figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fpmonitor.errors import InputError
from fpmonitor.render import answers, decisions, figures, store
from fpmonitor.results import Answers, Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from fpmonitor.render.figures import Figure
    from fpmonitor.render.output import Output

# By name: whoever has a result has loaded its class, and the others need not be.
_OUTPUTS: dict[str, Callable[[Any], Output]] = {
    "AutomationReport": answers.automation_output,
    "CheckReport": answers.check_output,
    "ComparedSet": lambda line: answers.comparison_output(
        [line], population=line.before.population, k=line.before.k
    ),
    "CountsExposure": answers.counts_exposure,
    "CurveReport": answers.curve_output,
    "Decision": decisions.decision,
    "ExposureReport": lambda report: answers.exposures([report]),
    "Ranking": answers.ranking,
    "TrendReport": answers.trend_output,
}
_FIGURES: dict[str, Callable[[Any], Figure | None]] = {
    "CurveReport": figures.of_curve,
    "Decision": lambda made: figures.of_conflicts(made) or figures.of_tolerance(made),
    "ExposureReport": lambda report: (
        figures.of_followed(report)
        if report.followed
        else figures.of_exposures([report], title="Exposure")
    ),
    "Ranking": figures.of_ranking,
    "TrendReport": figures.of_trend,
}


def figure(result: Result) -> Figure:
    """Return the figure of a result.

    Raises:
        InputError: It has none.
    """
    name = type(result[0] if isinstance(result, Answers) and result else result).__name__
    drawn = None
    if isinstance(result, Answers) and name == "ExposureReport":
        drawn = figures.of_exposures(result, title="Exposure")
    elif name in _FIGURES and not isinstance(result, Answers):
        drawn = _FIGURES[name](result)
    if drawn is None:
        raise InputError(f"there is no figure of {name}", hint="see its table: to_polars()")
    return drawn.of(getattr(result, "unit", "user"))


def notebook_html(result: Result) -> str:
    """Return a result as tables of HTML, in words for what was counted."""
    if isinstance(result, Answers) and result:
        are_exposures = type(result[0]).__name__ == "ExposureReport"
        several = answers.exposures(result) if are_exposures else store.listing(result.rows())
        return several.of(getattr(result[0], "unit", "user")).html()
    made = _OUTPUTS.get(type(result).__name__)
    output = store.listing(result.rows()) if made is None else made(result)
    decided = getattr(result, "decision", result)
    return output.of(getattr(decided, "unit", "user")).html()
