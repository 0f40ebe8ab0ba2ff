"""Decisions about levels, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fpmonitor.render.decisions import border, drawn
from fpmonitor.render.numbers import percent
from fpmonitor.render.output import Output
from fpmonitor.render.tables import Column, Table, columns

if TYPE_CHECKING:
    from fpmonitor.decide.level_decision import LevelDecision
    from fpmonitor.population.levels import Vector


def level_decision(decided: LevelDecision, data: str) -> Output:
    """Return the answer, the guarantee, the data, a level per component, and some vectors."""
    return Output(
        preface=tuple(
            filter(
                None,
                (answer(decided), decided.guarantee, _designed(decided), drawn(decided), data),
            )
        ),
        tables=[*_recommended(decided), _borders(decided)],
        rows=decided.rows(),
        document=decided.to_json(),
    )


def answer(decided: LevelDecision) -> str:
    """Say at which levels a site may read the components, and how good that is."""
    budget = percent(decided.policy.budget, 2)
    if decided.recommended is None:
        return f"No level vector is certified to expose at most {budget} of the users."
    shown = [
        f"{component.name} ({component.words(level)})"
        for component, level in zip(decided.components, decided.recommended, strict=True)
        if level
    ]
    said = f"A site may read {', '.join(shown) or 'nothing'}: a utility of {decided.utility:.6g}"
    if decided.utility_bound > decided.utility:
        return f"{said}, and no allowed vector has more than {decided.utility_bound:.6g}."
    return f"{said}, and no allowed vector has more."


def _designed(decided: LevelDecision) -> str:
    """Say from whom levels were designed."""
    part = decided.design
    if part is None:
        return ""
    number = f"{part.tried:,} design was" if part.tried == 1 else f"{part.tried:,} designs were"
    return (
        f"Levels were designed from {part.users:,} users, {percent(part.share, 2)} drawn blindly, "
        f"and tested on the other {decided.users:,}: {number} tested, from coarse to fine."
    )


def _recommended(decided: LevelDecision) -> list[Table]:
    if decided.recommended is None:
        return []
    pairs = list(zip(decided.components, decided.recommended, strict=True))
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
                for component, level in pairs
            ],
        )
    ]


def _borders(decided: LevelDecision) -> Table:
    ending = "" if decided.complete else " The search was stopped early: more may be allowed."
    listed = {
        "allowed, with all that are coarser": decided.allow,
        "blocked, with all that are finer": decided.block,
        "undecided": decided.undecided,
    }
    return Table(
        title="Borders",
        caption=(
            f"{decided.evaluated:,} tests of level vectors in {decided.seconds:.1f} s. Levels are "
            f"counted from 0, withheld.{ending}"
        ),
        columns=[Column("verdict"), Column("vectors", "count"), Column("for example")],
        rows=[
            border(verdict, [_named(decided, vector) for vector in vectors])
            for verdict, vectors in listed.items()
        ],
        sections=frozenset(range(len(listed))),
    )


def _named(decided: LevelDecision, vector: Vector) -> str:
    return ", ".join(f"{name} {level}" for name, level in decided.shown(vector).items())
