"""Commands that move data: db copy-out, db copy-in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from fpmonitor.cli.context import open_database
from fpmonitor.cli.options import DB, DEFAULT_DB, QUIET
from fpmonitor.cli.output import Shown, note
from fpmonitor.render import store
from fpmonitor.store.transfer import export_data as export_to
from fpmonitor.store.transfer import import_data as import_from
from fpmonitor.store.transfer import read_export

FOLDER = Annotated[Path, typer.Argument(help="Folder of the copy.", metavar="FOLDER")]


def copy_out(*, folder: FOLDER, db: DB = DEFAULT_DB, shown: Shown, quiet: QUIET = False) -> None:
    """Write all data of a database to a new folder of Parquet files.

    They are as confidential as the database.
    """
    with open_database(db) as database:
        manifest = export_to(database, folder)
    shown.show(store.exported(manifest, msgspec.to_builtins(manifest)))
    note(f"{folder} contains the key of the user ids: keep it as secret as {db}", quiet=quiet)


def copy_in(*, folder: FOLDER, db: DB = DEFAULT_DB, shown: Shown) -> None:
    """Add data written by `db copy-out`; a new database becomes a copy."""
    manifest = read_export(folder)
    with open_database(db, create=True) as database:
        row = import_from(database, folder, manifest)
    shown.show(store.added(row))
