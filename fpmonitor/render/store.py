"""What the database holds and what was released of it, for people and for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fpmonitor.account import summary
from fpmonitor.policy import DOWN, UP
from fpmonitor.render.numbers import percent
from fpmonitor.render.output import Output
from fpmonitor.render.tables import Table, TableColumn, columns

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from fpmonitor.account import Account
    from fpmonitor.release.audit import ReleaseAudit
    from fpmonitor.render.tables import Cell, Kind
    from fpmonitor.store.batches import BatchReport
    from fpmonitor.store.content import Content
    from fpmonitor.store.transfer import ExportManifest


def batches_output(reports: Sequence[BatchReport]) -> Output:
    """Return what became of logs."""
    table = Table.of(
        reports,
        title="Ingested",
        columns=[
            *columns("text", ("log", "source")),
            *columns("text", "collector", spare=True),
            *columns("count", "read", "stored"),
            *columns("count", "duplicates", spare=True),
            *columns("count", "rejected"),
            *columns("right", ("counted", _counted)),
            *columns("count", "APIs"),
            *columns("count", ("set aside", _set_aside), spare=True),
            *columns("decimal", "seconds", digits=1, spare=True),
        ],
    )
    documents = [report.to_json() for report in reports]
    # An account has a row per member, which no cell of CSV can hold.
    rows = [
        {name: cell for name, cell in document.items() if name != "account"}
        for document in documents
    ]
    return Output(tables=[table], rows=rows, document={"batches": documents})


def accounts(by_label: Mapping[str, Account]) -> Output:
    """Return what the members of logs are."""
    rows = [
        {"log": label, **asdict(member)}
        for label, account in by_label.items()
        for member in account.members
    ]
    tables = [
        Table.of(
            account.members,
            title=f"{label}: {summary(account.members)}",
            columns=[
                *columns("text", ("member", "path"), ("taken for", "kind"), "why"),
                *columns("count", "records", "values"),
                *columns("text", ("commonest value", "commonest"), spare=True),
            ],
        )
        for label, account in by_label.items()
    ]
    document = {label: account.to_json() for label, account in by_label.items()}
    return Output(tables=tables, rows=rows, document={"accounts": document})


def _set_aside(report: BatchReport) -> int | None:
    return len(report.set_aside) if report.account else None


def _counted(report: BatchReport) -> str:
    return f"{report.users:,} {report.unit or 'user'}s"


def rejects_output(rows: Sequence[Mapping[str, Any]]) -> Output:
    """Return the records that could not be stored."""
    table = Table.of(
        rows,
        title="Rejected records",
        columns=columns(
            "text",
            ("log", "source"),
            ("line", lambda row: str(row["line"] or "–")),
            "reason",
            ("record begins", "excerpt"),
        ),
    )
    return Output(tables=[table], rows=rows)


def meanings_output(rows: Sequence[Mapping[str, Any]]) -> Output:
    """Return what a name of an API means to each source."""
    table = Table(
        title="What it means",
        columns=columns("text", "source", "name", "API", "kind", "group", "randomised by"),
        rows=[(*list(row.values())[:-1], ", ".join(row["volatile"]) or None) for row in rows],
    )
    return Output(tables=[table], rows=rows)


def attacks(outcome: ReleaseAudit) -> Output:
    """Return what attacks on a release achieved."""
    table = Table.of(
        outcome.attacks,
        title=f"Singling out among {outcome.users:,} users",
        caption=outcome.in_plain_words,
        columns=[
            *columns("text", "attack"),
            *columns("significant", "weight"),
            *columns("share", "success", digits=1),
            *columns("right", ("limits", _limits)),
            *columns("share", ("by luck", "baseline")),
        ],
    )
    return Output(
        tables=[table],
        rows=[attack.to_json() for attack in outcome.attacks],
        document=outcome.to_json(),
    )


def _limits(attack: Any) -> str:
    return f"{percent(attack.lower, 1, away=DOWN)} – {percent(attack.upper, 1, away=UP)}"


def exported(manifest: ExportManifest, document: Mapping[str, Any]) -> Output:
    """Return the tables that were written, and the digest of them all."""
    table = Table(
        title=f"Digest {manifest.digest}",
        columns=[*columns("text", "table"), *columns("count", "rows", "bytes")],
        rows=[(name, file.rows, file.bytes) for name, file in manifest.files.items()],
    )
    rows = [{"table": name, **file} for name, file in document["files"].items()]
    return Output(tables=[table], rows=rows, document=document)


def added(row: Mapping[str, int]) -> Output:
    """Return what a copy added to a database."""
    table = Table(
        title="Imported",
        columns=[*columns("text", "what"), *columns("count", "stored")],
        rows=[(name.replace("_", " "), number) for name, number in row.items()],
    )
    return Output(tables=[table], rows=[row], document=row)


def verification(content: Content, times_of: Mapping[str, int]) -> Output:
    """Return the rows of a database, and how often there is each contradiction among them."""
    flaws = [{"what": what, "found": times} for what, times in times_of.items()]
    table = Table(
        title=f"Digest {content.digest}",
        columns=[*columns("text", "rows or flaw"), *columns("count", "found")],
        rows=[*content.rows.items(), *times_of.items()],
        sections=frozenset({len(content.rows) - 1}),
    )
    return Output(tables=[table], rows=flaws, document=asdict(content) | {"flaws": flaws})


def readers(rows: Sequence[Mapping[str, Any]]) -> Output:
    """Return how many exact counts each reader has had answered."""
    table = Table(
        title="Exact counts that readers have had answered",
        caption=(
            "Together, this many counts find predicates of this weight that isolate a user in "
            "about 1/e of the attempts; by luck, in the share shown beside it."
        ),
        columns=[
            *columns("text", "reader"),
            *columns("count", "answered", "limit"),
            *columns("text", "last"),
            *columns("significant", "weight", "by luck"),
        ],
        rows=[list(row.values()) for row in rows],
    )
    return Output(tables=[table], rows=rows)


def listing(
    rows: Sequence[Mapping[str, Any]],
    *,
    title: str = "",
    digits: int = 3,
    document: Any = None,
    missing: Cell = None,
    spare: Collection[str] = (),
) -> Output:
    """Return rows whose members are the columns, in the order of their first appearance.

    Rows hold names, numbers, and lists of names; `missing` is the cell of a member that a row
    lacks. Numbers that are not whole have `digits` significant digits. For JSON, `document` is
    taken in place of the rows. Members in `spare` give way where a terminal is too narrow.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = {name: [_listed(row.get(name, missing)) for row in rows] for name in names}
    kinds: dict[str, Kind] = {
        name: "significant"
        if any(isinstance(row.get(name), int | float) for row in rows)
        else "text"
        for name in names
    }
    table = Table(
        title=title,
        columns=[
            TableColumn(name.replace("_", " "), kinds[name], digits, spare=name in spare)
            for name in names
        ],
        rows=list(zip(*cells.values(), strict=True)),
    )
    return Output(tables=[table], rows=rows, document=document)


def _listed(value: Any) -> Cell:
    """Return whole numbers as they are: identifiers are not counts."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return value if value is None or isinstance(value, float) else str(value)


def metrics_output(found: Mapping[str, float | None]) -> Output:
    """Return the privacy and the utility of a mechanism."""
    table = Table(
        title="Metrics, nats and shares",
        columns=[*columns("text", "metric"), *columns("decimal", "value", digits=6)],
        rows=list(found.items()),
    )
    return Output(tables=[table], rows=[found], document=found)


def members(answer: Mapping[str, Any], shown: Mapping[str, Any] | None = None) -> Output:
    """Return one object; as a table, one line per member, or per member of `shown`."""
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


def points_output(rows: Sequence[Mapping[str, float]]) -> Output:
    """Return points of a curve, one line each."""
    table = Table(
        columns=columns("text", *rows[0]),
        rows=[[f"{value:.4g}" for value in row.values()] for row in rows],
    )
    return Output(tables=[table], rows=rows)
