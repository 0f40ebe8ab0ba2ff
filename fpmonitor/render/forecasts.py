"""Forecasts for people: a model's value, labelled as such, beside its test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fpmonitor.policy import sureness
from fpmonitor.render.numbers import percent
from fpmonitor.render.tables import Cell, Table, columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.answers.exposure import ExposureReport
    from fpmonitor.estimate.forecast import BackTest


def forecast_table(reports: Sequence[ExposureReport]) -> Table:
    """Return what a model expects of some sets, and how many of the next users are new."""
    first = reports[0]
    return Table(
        title=f"Forecast for a population of {first.population:,}: a model, not promised",
        caption=(
            "The model was fitted to a part of the observed users and had to predict the exposure "
            "of all. It has a forecast only where it did. `next users with a new value`: share of "
            "the next users who show a value not seen yet; each limit holds with probability "
            f"{sureness(first.delta)}, at every look."
        ),
        columns=[
            *columns("text", "API set", "model", "test"),
            *columns("share", "next users with a new value", "at least", "at most"),
        ],
        rows=[_row(report) for report in reports],
    )


def _row(report: ExposureReport) -> tuple[Cell, ...]:
    forecast = report.forecast
    if forecast is None:
        return (list(report.together), None, None, None, None, None)
    value = "no forecast" if forecast.exposure is None else percent(forecast.exposure, 2)
    return (list(report.together), value, _test(forecast.test), *forecast.unseen)


def _test(test: BackTest | None) -> str:
    if test is None:
        return "too few users to test it"
    said, true = percent(test.predicted, 2), percent(test.observed, 2)
    result = "passed" if test.passed else "failed"
    return f"{result}: from {test.fitted:,} users {said}, in truth {true}"
