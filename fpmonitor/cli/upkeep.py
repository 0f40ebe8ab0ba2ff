"""Commands of maintenance: db verify, db forget, db compact, db views."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from fpmonitor.cli.context import INVOCATION, open_database
from fpmonitor.cli.options import DB, DEFAULT_DB, OUTPUT, QUIET
from fpmonitor.cli.output import Shown, emit, note
from fpmonitor.errors import InputError, StoreError
from fpmonitor.render import store
from fpmonitor.sql import statement
from fpmonitor.store.upkeep import compact_database as write_anew
from fpmonitor.store.upkeep import (
    forget_batch,
    forget_before,
    forget_key,
    forget_user,
    let_in,
    verify_database,
    would_forget,
)

EXIT_FLAWED = EXIT_NOT_DONE = 1
_MOST_SECONDS_TO_REWRITE = 60  # a service beside it opens the file for each of its batches
_VIEWS = ("views/users", "views/observations", "views/apis")
_USER_VARIABLE = "FPMONITOR_FORGET_USER"


def verify(*, db: DB = DEFAULT_DB, shown: Shown) -> int:
    """Read a whole database and look for contradictions.

    Exit code 0: sound, 1: contradictions found.
    """
    with open_database(db) as database:
        content, flaws = verify_database(database)
    shown.show(store.verification(content, flaws))
    return EXIT_FLAWED if any(flaws.values()) else 0


BEFORE = Annotated[
    datetime | None, typer.Option("--before", help="Delete visits before this time (UTC).")
]
USER = Annotated[
    bool,
    typer.Option(
        "--user", help=f"Delete the user whose id is in the environment variable {_USER_VARIABLE}."
    ),
]
KEY = Annotated[
    str | None,
    typer.Option("--key", help="Delete what came to the service by the write key of this name."),
]
BATCH = Annotated[
    str | None,
    typer.Option(
        "--batch",
        help="Delete what came from the logs of this name, as `db batches` has it; they may "
        "be stored again.",
        metavar="LOG",
    ),
]
LET_IN_AGAIN = Annotated[
    bool, typer.Option("--undo", help="With --user: store the user again from now on.")
]
DRY_RUN = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be deleted, and delete nothing.")
]
YES = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask; only on a terminal it is asked.")
]


def forget(
    before: BEFORE = None,
    user: USER = False,
    key: KEY = None,
    batch: BATCH = None,
    let_in_again: LET_IN_AGAIN = False,
    dry_run: DRY_RUN = False,
    yes: YES = False,
    db: DB = DEFAULT_DB,
    quiet: QUIET = False,
) -> int:
    """Delete visits, and every trace of them in the file.

    Of a user, a keyed digest of the id stays, by which no log brings the user back. Exit code 1:
    nothing is stored of the user, or it was not confirmed.
    """
    name = os.environ.get(_USER_VARIABLE, "") if user else ""
    if (
        (before is not None) + user + (key is not None) + (batch is not None) != 1
        or (user and not name)
        or (let_in_again and not user)
    ):
        raise InputError(
            "db forget: give --before TIME, --key NAME, --batch LOG or --user (with it, --undo)",
            hint=f"with --user, put the id into {_USER_VARIABLE}, not on the command line",
        )
    with open_database(db) as database:
        if let_in_again:
            let_in(database, name)
            return 0
        deletion = would_forget(database, before=before, user=name or None, key=key, batch=batch)
    # The database is closed while somebody is asked: others may go on with it.
    asks = not (yes or dry_run) and sys.stdin.isatty() and sys.stderr.isatty()
    if dry_run or asks:
        note(_what(*deletion))
    if dry_run:
        return 0
    if asks and not typer.confirm("Delete them?", err=True):
        note("nothing was deleted", quiet=quiet)
        return EXIT_NOT_DONE
    with open_database(db) as database:
        if key is not None:
            visits = forget_key(database, key)
        elif batch is not None:
            visits = forget_batch(database, batch)
        elif before is not None:
            visits = forget_before(database, before)
        else:
            visits = forget_user(database, name)
    if user and not visits:
        note("nothing is stored of this user; no log will bring the user from now on")
        return EXIT_NOT_DONE
    # DuckDB leaves the bytes of deleted rows in the file until it writes over them.
    _leave_no_trace(db, visits)
    note(f"{visits:,} visits deleted", quiet=quiet)
    return 0


def _leave_no_trace(db: Path, visits: int) -> None:
    """Write the file anew after a deletion; whoever opened it in between is waited for."""
    invocation = INVOCATION.get()
    seconds = max(invocation.patience.seconds, _MOST_SECONDS_TO_REWRITE)
    patience = replace(invocation.patience, seconds=seconds)
    try:
        write_anew(db, key_file=invocation.key_file, patience=patience)
    except StoreError as error:
        raise StoreError(
            f"{visits:,} visits are deleted, but the file still holds traces of them: {error}",
            hint="`fpmonitor db compact` removes them, once nobody has the database open",
        ) from error


def _what(
    visits: int, users: int, of_visits: int, first: datetime | None, last: datetime | None
) -> str:
    """Say what would be deleted."""
    times = "" if first is None else f", {first:%Y-%m-%d} to {last:%Y-%m-%d}"
    return f"this deletes {visits:,} of {of_visits:,} visits, of {users:,} users{times}"


def compact(db: DB = DEFAULT_DB, quiet: QUIET = False) -> None:
    """Rewrite a database without the space of deleted data."""
    # Opened first: what is no database of ours is refused, and not written anew.
    with open_database(db):
        pass
    invocation = INVOCATION.get()
    before, after = write_anew(db, key_file=invocation.key_file, patience=invocation.patience)
    note(f"{before:,} bytes before, {after:,} after", quiet=quiet)


def views(output: OUTPUT = None) -> None:
    """Print SQL that shows any database as tables to read, for DuckDB's shell and libraries.

    The views are temporary: a database that holds views is refused as tampered with.
    """
    emit("".join(f"{statement(name).rstrip()};\n\n" for name in _VIEWS), output)
