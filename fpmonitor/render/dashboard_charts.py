"""Geometry of the dashboard's two figures; colours are the style sheet's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.population.exposure_index import IndexedExposure
    from fpmonitor.serve.overview import Measurement

WIDTH, HEIGHT = 640, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 8, 10, 28
_STEPS = (1, 2, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFigure:
    """Exposure over time: a line within the band of its limits, and the budget.

    Attributes
    ----------
    line, band
        Points of SVG.
    dots
        Places of the readings on the line.
    estimated
        Whether the line is the unbiased estimate; else it is the upper limit.
    budget
        Height of the budget's line; null without one.
    ticks
        Height and label of the lines of the grid.
    first, last
        Labels of the ends of time.
    """

    line: str
    band: str
    dots: tuple[tuple[float, float], ...]
    estimated: bool
    budget: float | None
    ticks: tuple[tuple[float, str], ...]
    first: str
    last: str
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    width: int = WIDTH
    height: int = HEIGHT


def draw_history(readings: Sequence[Measurement], budget: float | None) -> HistoryFigure:
    """Place one reading or more."""
    top = nice_ceiling(max(budget or 0, *(max(r.upper, r.estimate or 0) for r in readings)))
    first, last = readings[0].time, readings[-1].time
    span = (last - first).total_seconds()

    def across(reading: Measurement) -> float:
        share = (reading.time - first).total_seconds() / span if span else 0.5
        return round(_LEFT + share * (WIDTH - _LEFT - _RIGHT), 1)

    def down(share: float) -> float:
        return round(_TOP + (1 - share / top) * (HEIGHT - _TOP - _BOTTOM), 1)

    upper = [(across(reading), down(reading.upper)) for reading in readings]
    lower = [(across(reading), down(reading.lower)) for reading in readings]
    estimates = [
        (across(reading), down(reading.estimate))
        for reading in readings
        if reading.estimate is not None
    ]
    dots = tuple(estimates or upper)
    return HistoryFigure(
        line=_points(dots),
        band=_points([*upper, *reversed(lower)]),
        dots=dots,
        estimated=bool(estimates),
        budget=None if budget is None else down(budget),
        ticks=tuple((down(top * part / 4), percent(top * part / 4)) for part in range(5)),
        first=f"{first:%Y-%m-%d %H:%M}",
        last=f"{last:%Y-%m-%d %H:%M}" if span else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsBar:
    """Limits, unbiased estimate and budget of a set on a scale to 100; `top` is its label."""

    lower: float
    upper: float
    estimate: float | None
    budget: float | None
    top: str


def draw_limits(explored: IndexedExposure, budget: float | None) -> LimitsBar:
    """Place the limits of one set."""
    top = nice_ceiling(max(explored.upper, explored.unbiased or 0, 1.3 * (budget or 0)))

    def along(share: float) -> float:
        return round(100 * share / top, 2)

    return LimitsBar(
        lower=along(explored.lower),
        upper=along(explored.upper),
        estimate=None if explored.unbiased is None else along(explored.unbiased),
        budget=None if budget is None else along(budget),
        top=percent(top),
    )


def nice_ceiling(share: float) -> float:
    """Least of 1, 2, 5 times a power of ten that is not below a share; at most 1."""
    power = 1e-6
    while power < 1:
        for step in _STEPS:
            if step * power >= share:
                return step * power
        power *= 10
    return 1.0


def percent(share: float | None) -> str:
    """Return a share as per cent with three digits that count; a dash where there is none."""
    if share is None:
        return "–"
    if share == 0:
        return "0 %"
    decimals = 4 if share < 1e-4 else 3 if share < 1e-3 else 2 if share < 0.1 else 1
    return f"{100 * share:.{decimals}f} %"


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in places)
