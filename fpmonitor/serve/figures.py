"""Charts and tables of the dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fpmonitor.render.charts import Series, line_chart, range_chart
from fpmonitor.render.numbers import between, percent
from fpmonitor.render.tables import Table, columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.answers.apis import ApiOverview
    from fpmonitor.answers.check import CheckReport
    from fpmonitor.population.exposure_index import IndexedExposure
    from fpmonitor.serve.overview import Measurement


MOST_SETS = 10


def draw_limits(explored: IndexedExposure, budget: float | None) -> str:
    """Draw the limits and the estimate of one set, and the budget."""
    return range_chart(
        [("", explored.lower, explored.upper, explored.unbiased)],
        title=f"Exposure from {percent(explored.lower)} to {percent(explored.upper)}",
        x_label="exposure",
        budget=budget,
    )


def draw_history(readings: Sequence[Measurement], budget: float | None, *, k: int) -> str:
    """Draw the exposure over time: the estimate where there is one, else the upper limit."""
    last = readings[-1]
    heights = [
        reading.upper if reading.estimate is None else reading.estimate for reading in readings
    ]
    limit = "" if budget is None else f", budget {percent(budget)}"
    return line_chart(
        [
            Series(
                name=", ".join(last.apis),
                x=[reading.time.timestamp() for reading in readings],
                y=heights,
                lower=[reading.lower for reading in readings],
                upper=[reading.upper for reading in readings],
                notes=[
                    f"{reading.time:%Y-%m-%d %H:%M}: {percent(height)}"
                    for reading, height in zip(readings, heights, strict=True)
                ],
            )
        ],
        title=(
            f"Share of users in groups of fewer than {k} over time; limits now "
            f"{percent(last.lower)} to {percent(last.upper)}{limit}"
        ),
        x_label="UTC",
        y_label="exposure",
        shares=True,
        names=[
            (reading.time.timestamp(), f"{reading.time:%Y-%m-%d %H:%M}") for reading in readings
        ],
        budget=budget,
        low=True,
    )


def history_table(readings: Sequence[Measurement]) -> Table:
    """Return the readings of the recommended set."""
    return Table.of(
        readings,
        [
            *columns("text", ("Time (UTC)", lambda reading: f"{reading.time:%Y-%m-%d %H:%M:%S}")),
            *columns("count", "Users"),
            *columns("short share", "Estimate", "Lower", "Upper"),
        ],
    )


def check_table(check: CheckReport) -> Table:
    """Return the allow list with its verdicts now, what is in doubt first."""
    order = ("block", "undecided", "allow")
    rows = sorted(check.verdicts.items(), key=lambda line: order.index(line[1]))
    return Table(
        columns=[
            *columns("text", "Allowed set"),
            *columns("check", "Now"),
            *columns("right", "Exposes"),
        ],
        rows=[
            (", ".join(apis), verdict, between(*check.limits[apis]))
            for apis, verdict in rows[:MOST_SETS]
        ],
    )


def apis_table(overview: Sequence[ApiOverview]) -> Table:
    """Return every API alone."""
    return Table.of(
        overview,
        [
            *columns("text", "API"),
            *columns("short share", ("Exposed alone", "exposure")),
            *columns("decimal", ("Entropy, bits", "entropy_bits")),
            *columns(
                "count", "Values", ("Users", lambda x: "hidden" if x.users is None else x.users)
            ),
            *columns("short share", "Coverage"),
            *columns("text", ("Changes by design", lambda x: "volatile" if x.volatile else "")),
            *columns("short share", ("Changes between visits", "changes")),
        ],
    )
