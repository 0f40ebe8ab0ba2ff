"""Commands that move data: db copy-out, db copy-in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from fpmonitor.cli.options import DB, DEFAULT_DB, FORMAT, OUTPUT, QUIET
from fpmonitor.cli.output import note, show
from fpmonitor.monitor import Monitor
from fpmonitor.render import store
from fpmonitor.store.transfer import read_export

FOLDER = Annotated[Path, typer.Argument(help="Folder of the copy.", metavar="FOLDER")]


def copy_out(
    folder: FOLDER,
    db: DB = DEFAULT_DB,
    output_format: FORMAT = None,
    output: OUTPUT = None,
    quiet: QUIET = False,
) -> None:
    """Write all data of a database to a new folder of Parquet files.

    They are as confidential as the database.
    """
    with Monitor(db) as monitor:
        manifest = monitor.export_data(folder)
    show(store.exported(manifest, msgspec.to_builtins(manifest)), output_format, output)
    note(f"{folder} contains the key of the user ids: keep it as secret as {db}", quiet=quiet)


def copy_in(
    folder: FOLDER,
    db: DB = DEFAULT_DB,
    output_format: FORMAT = None,
    output: OUTPUT = None,
) -> None:
    """Add data written by `db copy-out`; a new database becomes a copy."""
    export = read_export(folder)
    with Monitor(db, create=True) as monitor:
        row = monitor.import_data(export).to_json()
    show(store.added(row), output_format, output)
