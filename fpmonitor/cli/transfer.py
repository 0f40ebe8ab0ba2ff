"""Commands that move data: db copy-out, db copy-in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from fpmonitor.cli.context import open_database
from fpmonitor.cli.options import DB, DEFAULT_DB, FORMAT, OUTPUT, QUIET
from fpmonitor.cli.output import emit_rows, note
from fpmonitor.store.transfer import export_data as export_to
from fpmonitor.store.transfer import import_data as import_from
from fpmonitor.store.transfer import read_export

FOLDER = Annotated[Path, typer.Argument(help="The folder of the export.", metavar="FOLDER")]


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
    with open_database(db) as database:
        manifest = export_to(database, folder)
    files = {table: msgspec.to_builtins(file) for table, file in manifest.files.items()}

    def table() -> Table:
        drawn = Table("table", "rows", "bytes", title=f"Digest {manifest.digest}")
        for name, file in manifest.files.items():
            drawn.add_row(name, f"{file.rows:,}", f"{file.bytes:,}")
        return drawn

    emit_rows(
        [{"table": name, **file} for name, file in files.items()],
        table=table,
        wanted=output_format,
        output=output,
        document=msgspec.to_builtins(manifest),
    )
    note(f"{folder} holds the key of the user ids: keep it as secret as {db}", quiet=quiet)


def copy_in(
    folder: FOLDER,
    db: DB = DEFAULT_DB,
    output_format: FORMAT = None,
    output: OUTPUT = None,
) -> None:
    """Add data written by `db copy-out`; a new database becomes a copy."""
    export = read_export(folder)
    with open_database(db, create=True) as database:
        row = import_from(database, export).to_json()

    def table() -> Table:
        drawn = Table("what", "stored", title="Imported")
        for name, number in row.items():
            drawn.add_row(name.replace("_", " "), f"{number:,}")
        return drawn

    emit_rows([row], table=table, wanted=output_format, output=output, document=row)
