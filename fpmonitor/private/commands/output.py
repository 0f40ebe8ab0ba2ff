"""What the commands on private collection print and write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from fpmonitor.cli.options import OutputFormat
from fpmonitor.cli.output import emit_rows, percent, plain
from fpmonitor.safe_files import read_json, typed

if TYPE_CHECKING:
    from fpmonitor.private.recipient import Recipient
    from fpmonitor.private.selection import JointComparison, PromisedSet
    from fpmonitor.private.study import CollectionRequest


def by_round(role: Recipient) -> list[CollectionRequest]:
    """List the asks of a recipient, the first first."""
    return sorted(role.store.asks.values(), key=lambda ask: (ask.epoch, ask.round))


def shown(role: Recipient, ask: CollectionRequest, *, unsafe: bool) -> dict[str, Any]:
    """Return what an ask brought; of groups smaller than k how many there are."""
    k = 1 if unsafe else role.store.study.k
    sets = []
    for apis, counts in role.counts(ask).items():
        users = sum(counts.values())
        groups = sorted(counts.items(), key=lambda group: (-group[1], group[0]))
        sets.append(
            {
                "apis": list(apis),
                "users": users if users >= k else None,
                "groups": [
                    {"tokens": list(tokens), "users": size} for tokens, size in groups if size >= k
                ],
                "smaller_groups": sum(size < k for _, size in groups),
            }
        )
    return {
        "ask": ask.id.hex(),
        "epoch": ask.epoch,
        "round": ask.round,
        "messages": dict(role.store.tally()[ask.id]),
        "sets": sets,
    }


def emit_counts(
    document: dict[str, Any],
    wanted: OutputFormat | None,
    output: Path | None,
    compared: JointComparison | None = None,
) -> None:
    """Print what asks brought; as a table, the comparison instead where there is one."""
    rows = [
        {"round": ask["round"], "apis": one["apis"], **group}
        for ask in document["asks"]
        for one in ask["sets"]
        for group in one["groups"]
    ]

    def table() -> Table:
        if compared is not None:
            return _comparison_table(compared)
        drawn = Table("round", "APIs", "users", "groups of k", "smaller", "largest group")
        for ask in document["asks"]:
            for one in ask["sets"]:
                largest = one["groups"][0]["users"] if one["groups"] else None
                cells = (one["users"], len(one["groups"]), one["smaller_groups"], largest)
                drawn.add_row(
                    str(ask["round"]),
                    plain(", ".join(one["apis"])),
                    *("–" if cell is None else str(cell) for cell in cells),
                )
        return drawn

    emit_rows(rows, table=table, wanted=wanted, output=output, document=document)


def _comparison_table(compared: JointComparison) -> Table:
    drawn = Table("exposure", "share of users", "from", title=plain(", ".join(compared.apis)))
    drawn.add_row("promised, these users", percent(compared.fixed.upper), compared.fixed.rule)
    drawn.add_row(
        "promised, population", percent(compared.statistical.upper), compared.statistical.rule
    )
    drawn.add_row("found, these users", percent(compared.empirical), f"{compared.users} reports")
    drawn.add_row("at least, population", percent(compared.lower), "certificate")
    drawn.add_row("at most, population", percent(compared.upper), "certificate")
    return drawn


def counts_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Draw rows of which not every one has every column."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    drawn = Table(*columns)
    for row in rows:
        drawn.add_row(*(plain(_cell(row.get(column, 0))) for column in columns))
    return drawn


def _cell(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def promised(path: Path) -> PromisedSet:
    """Read the recommended set from what `private select` printed as JSON."""
    from fpmonitor.private.selection import Selection  # noqa: PLC0415 -- slow to load

    content = read_json(path, "selection", hint="`private select --format json` writes one")
    return typed(content, Selection, f"a selection in {path}").recommended
