"""The report on a decision about levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fpmonitor.render.charts import scatter_chart
from fpmonitor.render.decisions import answer_of, borders, designed, drawn, named, recommended
from fpmonitor.render.figures import Figure
from fpmonitor.render.html import figure_html, html_page, paragraphs, table_html
from fpmonitor.render.numbers import percent
from fpmonitor.render.tables import Table, TableColumn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from fpmonitor.answers.trade_off import TradeOff
    from fpmonitor.decide.decision import ApiSet, Decision


def level_page(
    decided: Decision,
    points: Sequence[TradeOff],
    data: str,
    *,
    made: datetime,
    practice: ApiSet | None = None,
) -> str:
    """Write the report on a decision about levels, an HTML document of its own."""
    levels = "".join(map(table_html, recommended(decided)))
    drawing = figure_html(of_level_trade_offs(decided, points, practice))
    sections = [
        ("recommended", "What one site may read together", levels),
        ("trade-off", "What finer levels cost", drawing),
        ("border", "All that is allowed", table_html(borders(decided))),
    ]
    lead = paragraphs(
        (answer_of(decided),), (decided.guarantee,), (designed(decided), drawn(decided)), (data,)
    )
    title = "How coarse browser APIs must be shown"
    return html_page(title, lead, sections, made=made, k=decided.policy.k, unit=decided.unit)


def of_level_trade_offs(
    decided: Decision, points: Sequence[TradeOff], practice: ApiSet | None = None
) -> Figure:
    """Draw what vectors expose against how useful they are."""
    title = "Exposure against utility"
    lines = [
        (
            point,
            (named(decided, point.apis) or "nothing shown")
            + " (today's practice)" * (point.apis == practice),
        )
        for point in points
    ]
    return Figure(
        note=(
            "Each dot is a level vector: the sum of the utilities of its levels, and at most its "
            "exposure, estimated from current users. Orange: the recommended one"
            + ("; green: today's practice" if practice is not None else "")
            + ". The dashed line is the budget; between it and the allowed vectors is what these "
            "users leave undecided."
        ),
        svg=scatter_chart(
            [
                (
                    point.utility,
                    point.exposure,
                    f"{name}: {percent(point.exposure)}",
                    _class(decided, point, practice),
                )
                # Practice and recommendation come first, and are drawn last: above all others.
                for point, name in reversed(lines)
            ],
            title=title,
            x_label="utility",
            y_label="exposure",
            budget=decided.policy.budget,
        ),
        table=Table(
            title=title,
            columns=[
                TableColumn("levels"),
                TableColumn("utility", "significant"),
                TableColumn("exposure", "short share"),
                TableColumn("verdict", "verdict"),
            ],
            rows=[(name, point.utility, point.exposure, point.verdict) for point, name in lines],
        ),
    )


def _class(decided: Decision, point: TradeOff, practice: ApiSet | None) -> str:
    """Class of a dot: the practice, the recommended vector, or any other."""
    if point.apis == practice:
        return "s2"
    return "far" if point.apis == decided.recommended else "s0"
