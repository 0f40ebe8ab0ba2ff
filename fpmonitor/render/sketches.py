"""Sketches, and what is limited by them, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fpmonitor.errors import some_of
from fpmonitor.policy import per_cent
from fpmonitor.render.output import Output
from fpmonitor.render.tables import Table, columns
from fpmonitor.sketch.file import Sketch, share_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.answers.sketch import SketchExposure

_SHOWN_PARTS = 12


def sketch(found: Sketch) -> Output:
    """Return what a sketch holds: sets and numbers, neither words nor users of values."""
    rows = [
        {
            "apis": list(values.apis),
            "share": share_text(values.level),
            "level": values.level,
            "kept_values": len(values.words),
        }
        for values in found.sets
    ]
    parts = [
        {"digest": part.digest, "users": None if part.users is None else str(part.users)}
        for part in found.parts
    ]
    document = {
        "key": found.key,
        "users": found.users,
        "entries": found.entries,
        "planned_level": found.planned,
        "view": found.view,
        "digest": found.digest,
        "parts": parts,
        "sets": rows,
    }
    part_names = [f"{part['users'] or 'all users'} ({str(part['digest'])[:12]})" for part in parts]
    table = Table(
        title=f"Sketch of {found.users:,} users",
        caption=f"Key {found.key}. Made of {some_of(part_names, _SHOWN_PARTS)}.",
        columns=[
            *columns("text", "API set"),
            *columns("right", "share of values"),
            *columns("count", "kept values"),
        ],
        rows=[
            (", ".join(values.apis), share_text(values.level), len(values.words))
            for values in found.sets
        ],
    )
    return Output(tables=[table], rows=rows, document=document)


def sketch_exposures(reports: Sequence[SketchExposure]) -> Output:
    """Return the exposure of some sets by a sketch."""
    rows = [report.to_json() for report in reports]
    first = reports[0]
    table = Table(
        title=(
            f"Share of users in groups of fewer than {first.k}, in a population of "
            f"{first.population:,}"
        ),
        caption=(
            f"Limits from {_in_words(reports)}, {first.users:,} users in all. Each limit is wrong "
            f"with probability at most {per_cent(first.delta)} %. `estimate`: nothing is said of "
            "how far it may be off."
        ),
        columns=[
            *columns("text", "API set"),
            *columns("right", "share of values"),
            *columns("count", "kept values"),
            *columns("share", "estimate", "lower", "upper"),
        ],
        rows=[
            (
                ", ".join(report.apis),
                report.share,
                report.kept_values,
                report.estimate,
                report.lower,
                report.upper,
            )
            for report in reports
        ],
    )
    return Output(tables=[table], rows=rows, document=rows)


def _in_words(reports: Sequence[SketchExposure]) -> str:
    levels = {report.level for report in reports}
    if levels == {0}:
        return "all values"
    level = levels.pop() if len(levels) == 1 else None
    few = "few values" if level is None else f"1 in {1 << level:,} values"
    return f"{few}, chosen by a secret hash; all users of a chosen value were counted"
