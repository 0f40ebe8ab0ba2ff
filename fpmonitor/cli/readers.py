"""Limits on the exact counts that a reader may receive, and the command that lists readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from fpmonitor.cli.context import open_database
from fpmonitor.cli.options import DB, DEFAULT_DB
from fpmonitor.cli.output import Shown, note
from fpmonitor.errors import RefusedError
from fpmonitor.monitor import Monitor
from fpmonitor.release.query_audit import isolation_within_reach, query_limit
from fpmonitor.release.stored import count_answers
from fpmonitor.render import store
from fpmonitor.store.answers import forget_reader, list_readers
from fpmonitor.store.snapshot import take_snapshot

READER = Annotated[
    str | None,
    typer.Option(
        "--reader",
        envvar="FPMONITOR_READER",
        help="Who receives the answer; each reader may receive a limited number of exact counts.",
        show_default="you, without a limit",
        metavar="NAME",
        rich_help_panel="Output",
    ),
]
QUERY_LIMIT = Annotated[
    str,
    typer.Option(
        "--query-limit",
        help="Largest number of exact counts per reader: a number, or log2 of the users.",
        metavar="N|log2",
        rich_help_panel="Output",
    ),
]
DEFAULT_LIMIT = "log2"


@dataclass(frozen=True, kw_only=True)
class ReaderOptions:
    """Options for who receives the answer."""

    reader: READER = None
    query_limit: QUERY_LIMIT = DEFAULT_LIMIT

    def ask(self, monitor: Monitor, queries: Sequence[str]) -> None:
        """Count what the reader is about to learn.

        Raises:
            RefusedError: It would go beyond the limit; nothing of it is answered.
        """
        if self.reader is None:
            return
        verdict, answered, most = count_answers(
            monitor.database, monitor.population(), self.reader, queries, limit=self.query_limit
        )
        had = f"{self.reader} has had {answered} of {most} exact counts answered"
        if verdict == "refuse":
            raise RefusedError(
                f"{had}, and asks for {len(queries)}: together they could single out users",
                hint="see `fpmonitor audit queries`",
            )
        if verdict == "warn":
            note(had)


def queries(
    *,
    limit: QUERY_LIMIT = DEFAULT_LIMIT,
    forget: Annotated[
        str | None,
        typer.Option(
            help="Reset the count of this reader; safe only if the users have been replaced."
        ),
    ] = None,
    db: DB = DEFAULT_DB,
    shown: Shown,
) -> None:
    """List the readers of exact counts, and how near they are to singling out users."""
    with open_database(db) as database:
        if forget is not None:
            with database.transaction():
                forget_reader(database, forget)
        readers = list_readers(database)
        # Without readers nothing is listed, and no users need be read.
        users = take_snapshot(database).users if readers else 1
    most = query_limit(limit, users)
    rows = [
        {
            "reader": reader,
            "answered": answered,
            "limit": most,
            "last": f"{last:%Y-%m-%dT%H:%M:%SZ}",
            # Each count but one reads a bit of a record (singling out, Theorem 4.6).
            "weight_within_reach": 2.0 ** -(answered - 1),
            "isolation_by_luck": isolation_within_reach(users, answered),
        }
        for reader, answered, last in readers
    ]
    shown.show(store.readers(rows))
