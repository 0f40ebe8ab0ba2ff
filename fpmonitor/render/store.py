"""What the database holds and what was released of it, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fpmonitor.render.numbers import percent
from fpmonitor.render.output import Output
from fpmonitor.render.tables import Table, columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.release.audit import ReleaseAudit
    from fpmonitor.store.ingest import BatchReport


def batches(reports: Sequence[BatchReport]) -> Output:
    """Return what became of logs."""
    table = Table(
        title="Ingested",
        columns=[
            *columns("text", "log", "collector"),
            *columns("count", "read", "stored", "duplicates", "rejected", "users", "APIs"),
            *columns("decimal", "seconds", digits=1),
        ],
        rows=[
            (
                report.source,
                report.collector,
                report.read,
                report.stored,
                report.duplicates,
                report.rejected,
                report.users,
                report.apis,
                report.seconds,
            )
            for report in reports
        ],
    )
    rows = [report.to_json() for report in reports]
    return Output(tables=[table], rows=rows, document={"batches": rows})


def rejects(rows: Sequence[Mapping[str, Any]]) -> Output:
    """Return the records that could not be stored."""
    table = Table(
        title="Rejected records",
        columns=columns("text", "log", "line", "reason", "record begins"),
        rows=[
            (row["source"], str(row["line"] or "–"), row["reason"], row["excerpt"]) for row in rows
        ],
    )
    return Output(tables=[table], rows=rows)


def meanings(rows: Sequence[Mapping[str, Any]]) -> Output:
    """Return what a name of an API means to each source."""
    table = Table(
        title="What it means",
        columns=columns("text", "source", "name", "API", "kind", "group", "volatile in"),
        rows=[(*list(row.values())[:-1], ", ".join(row["volatile"]) or None) for row in rows],
    )
    return Output(tables=[table], rows=rows)


def attacks(outcome: ReleaseAudit) -> Output:
    """Return what attacks on a release achieved."""
    table = Table(
        title=f"Singling out among {outcome.users:,} users",
        caption=outcome.in_plain_words,
        columns=[
            *columns("text", "attack"),
            *columns("significant", "weight"),
            *columns("share", "success", digits=1),
            *columns("right", "limits"),
            *columns("share", "by luck"),
        ],
        rows=[
            (
                attack.attack,
                attack.weight,
                attack.success,
                f"{percent(attack.lower, 1)} – {percent(attack.upper, 1)}",
                attack.baseline,
            )
            for attack in outcome.attacks
        ],
    )
    return Output(
        tables=[table],
        rows=[attack.to_json() for attack in outcome.attacks],
        document=outcome.to_json(),
    )


def pairs(rows: Sequence[tuple[str, object]], *, names: tuple[str, str], title: str = "") -> Table:
    """Return a table of names and what belongs to them."""
    return Table(title=title, columns=columns("text", *names), rows=[(a, str(b)) for a, b in rows])


def members(answer: Mapping[str, Any], shown: Mapping[str, Any] | None = None) -> Output:
    """Return one object; as a table a line a member, or of what is `shown` of it."""
    table = Table(
        columns=columns("text", "", ""),
        rows=[
            (
                name.replace("_", " "),
                f"{value:.6g}"
                if isinstance(value, float)
                else None
                if value is None
                else str(value),
            )
            for name, value in (answer if shown is None else shown).items()
        ],
    )
    return Output(tables=[table], rows=[answer], document=answer)


def points(rows: Sequence[Mapping[str, float]]) -> Output:
    """Return points of a curve, a line each."""
    table = Table(
        columns=columns("text", *rows[0]),
        rows=[[f"{value:.4g}" for value in row.values()] for row in rows],
    )
    return Output(tables=[table], rows=rows)
