"""Commands of maintenance: db verify, db forget, db compact, db views."""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from fpmonitor.cli.context import INVOCATION, open_database
from fpmonitor.cli.options import DB, DEFAULT_DB, OUTPUT, QUIET
from fpmonitor.cli.output import Shown, emit, note
from fpmonitor.errors import InputError
from fpmonitor.render import store
from fpmonitor.sql import statement
from fpmonitor.store.upkeep import compact as write_anew
from fpmonitor.store.upkeep import forget_batch, forget_before, forget_key, forget_user, let_in
from fpmonitor.store.upkeep import verify as verify_database

if TYPE_CHECKING:
    from pathlib import Path

EXIT_FLAWED = 1
_VIEWS = ("views/users", "views/observations", "views/apis")
_USER_VARIABLE = "FPMONITOR_FORGET_USER"


def verify(*, db: DB = DEFAULT_DB, shown: Shown) -> int:
    """Read a whole database and look for contradictions.

    Exit code 0: sound, 1: contradictions found.
    """
    with open_database(db) as database:
        found = verify_database(database)
    shown.show(store.verification(found))
    return EXIT_FLAWED if any(flaw.found for flaw in found.flaws) else 0


def forget(
    before: Annotated[
        datetime | None, typer.Option("--before", help="Delete visits before this time (UTC).")
    ] = None,
    user: Annotated[
        bool,
        typer.Option(
            "--user",
            help=f"Delete the user whose id is in the environment variable {_USER_VARIABLE}.",
        ),
    ] = False,
    key: Annotated[
        str | None,
        typer.Option(
            "--key", help="Delete what came to the service by the write key of this name."
        ),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(
            "--batch",
            help="Delete what came from the logs of this name, as `db batches` has it; they may "
            "be stored again.",
            metavar="LOG",
        ),
    ] = None,
    let_in_again: Annotated[
        bool,
        typer.Option(
            "--undo",
            help="With --user: store the user again from now on.",
        ),
    ] = False,
    db: DB = DEFAULT_DB,
    quiet: QUIET = False,
) -> None:
    """Delete visits, and every trace of them in the file.

    Of a user, a keyed digest of the id stays, by which no log brings the user back.
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
            return
        if key is not None:
            visits = forget_key(database, key)
        elif batch is not None:
            visits = forget_batch(database, batch)
        elif before is not None:
            visits = forget_before(database, before)
        else:
            visits = forget_user(database, name)
    _write_anew(db)
    note(f"{visits:,} visits deleted", quiet=quiet)


def compact(db: DB = DEFAULT_DB, quiet: QUIET = False) -> None:
    """Rewrite a database without the space of deleted data."""
    with open_database(db):
        pass
    before, after = _write_anew(db)
    note(f"{before:,} bytes before, {after:,} after", quiet=quiet)


def views(output: OUTPUT = None) -> None:
    """Print SQL that shows any database as tables to read, for DuckDB's shell and libraries.

    The views are temporary: a database that holds views is refused as tampered with.
    """
    emit("".join(f"{statement(name).rstrip()};\n\n" for name in _VIEWS), output)


def _write_anew(db: Path) -> tuple[int, int]:
    invocation = INVOCATION.get()
    return write_anew(db, key_file=invocation.key_file, patience=invocation.patience)
