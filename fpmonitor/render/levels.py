"""Decisions about levels, for people and for programs, and the report on one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fpmonitor.decide.guarantee import in_short
from fpmonitor.render.charts import scatter_chart
from fpmonitor.render.decisions import border, drawn, with_ceilings
from fpmonitor.render.figures import Figure
from fpmonitor.render.html import figure_html, html_page, paragraphs, table_html
from fpmonitor.render.numbers import percent
from fpmonitor.render.output import Output
from fpmonitor.render.tables import Table, TableColumn, columns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from fpmonitor.answers.trade_off import TradeOff
    from fpmonitor.decide.decision import ApiSet
    from fpmonitor.decide.level_decision import LevelDecision


def level_decision(decided: LevelDecision, data: str) -> Output:
    """Return the answer, the guarantee, the data, a level per component, and some vectors."""
    return Output(
        preface=tuple(
            filter(
                None,
                (
                    level_answer_output(decided),
                    *in_short(decided),
                    _designed(decided),
                    drawn(decided),
                    data,
                ),
            )
        ),
        tables=[*_recommended(decided), _borders(decided)],
        rows=decided.rows(),
        document=decided.to_json(),
    )


def level_answer_output(decided: LevelDecision) -> str:
    """Say at which levels a site may read the components, and how good that is."""
    budget = percent(decided.policy.budget, 2)
    if not decided.allow:
        return f"No level vector is certified to expose at most {budget} of the users."
    shown = [
        f"{component.name} ({component.words(level)})"
        for component, level in decided.recommended_levels()
        if level
    ]
    said = f"A site may read {', '.join(shown) or 'nothing'}: a utility of {decided.utility:.6g}"
    if (decided.utility_bound or 0.0) > (decided.utility or 0.0):
        return f"{said}, and no allowed vector has more than {decided.utility_bound:.6g}."
    return f"{said}, and no allowed vector has more."


def level_page(
    decided: LevelDecision,
    points: Sequence[TradeOff],
    data: str,
    *,
    made: datetime,
    practice: ApiSet | None = None,
) -> str:
    """Write the report on a decision about levels, an HTML document of its own."""
    sections = [
        ("recommended", "What one site may read together", _html(_recommended(decided))),
        (
            "trade-off",
            "What finer levels cost",
            figure_html(of_level_trade_offs(decided, points, practice)),
        ),
        ("border", "All that is allowed", _html([_borders(decided)])),
    ]
    lead = paragraphs(
        (level_answer_output(decided),),
        (decided.guarantee,),
        (_designed(decided), drawn(decided)),
        (data,),
    )
    title = "How coarse browser APIs must be shown"
    return html_page(title, lead, sections, made=made, k=decided.policy.k, unit=decided.unit)


def of_level_trade_offs(
    decided: LevelDecision, points: Sequence[TradeOff], practice: ApiSet | None = None
) -> Figure:
    """Draw what vectors expose against how useful they are."""
    title = "Exposure against utility"
    named = [
        (
            point,
            (_named(decided, point.apis) or "nothing shown")
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
                for point, name in reversed(named)
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
            rows=[(name, point.utility, point.exposure, point.verdict) for point, name in named],
        ),
    )


def _class(decided: LevelDecision, point: TradeOff, practice: ApiSet | None) -> str:
    """Class of a dot: the practice, the recommended vector, or any other."""
    if point.apis == practice:
        return "s2"
    return "far" if point.apis == decided.recommended else "s0"


def _html(tables: Sequence[Table]) -> str:
    return "".join(map(table_html, tables))


def _designed(decided: LevelDecision) -> str:
    """Say from whom levels were designed."""
    part = decided.design
    if part is None:
        return ""
    tested = f", {part.tried:,} designs from coarse to fine" if part.tried > 1 else ""
    return (
        f"Levels were designed from {part.users:,} users, who were drawn blindly "
        f"({100 * part.share:.6g} %), and tested on the other {decided.users:,}{tested}."
    )


def _recommended(decided: LevelDecision) -> list[Table]:
    if not decided.allow:
        return []
    return [
        Table(
            title="What one site may read together",
            columns=[
                *columns("text", "component"),
                *columns("count", "level", "of"),
                *columns("text", "shows", "the next finer one shows"),
            ],
            rows=[
                (
                    component.name,
                    level,
                    len(component.levels),
                    component.words(level),
                    component.words(level + 1) if level < component.most else None,
                )
                for component, level in decided.recommended_levels()
            ],
        )
    ]


def _borders(decided: LevelDecision) -> Table:
    listed = {
        "allowed, with all that are coarser": _all_named(decided, decided.allow),
        "blocked, with all that are finer": _all_named(decided, decided.block),
        "undecided": with_ceilings(decided, _all_named(decided, decided.undecided)),
    }
    return Table(
        title="Borders",
        caption=(
            f"{decided.evaluated:,} tests of level vectors in {decided.seconds:.1f} s. Levels are "
            f"counted from 0, withheld. {decided.unlisted}".rstrip()
        ),
        columns=[
            TableColumn("verdict"),
            TableColumn("vectors", "count"),
            TableColumn("for example"),
        ],
        rows=[border(verdict, vectors) for verdict, vectors in listed.items()],
        sections=frozenset(range(len(listed))),
    )


def _all_named(decided: LevelDecision, vectors: Sequence[ApiSet]) -> list[str]:
    return [_named(decided, vector) for vector in vectors]


def _named(decided: LevelDecision, apis: ApiSet) -> str:
    return ", ".join(f"{name} {level}" for name, level in decided.shown(apis).items())
