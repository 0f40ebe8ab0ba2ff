"""Commands of the service: serve, and keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fpmonitor.cli.context import INVOCATION
from fpmonitor.cli.listening import run_application
from fpmonitor.cli.options import DB, DEFAULT_DB, database_file
from fpmonitor.cli.output import Shown, emit, note
from fpmonitor.errors import InputError, install
from fpmonitor.render import store

if TYPE_CHECKING:
    from fpmonitor.serve.config import ServeConfig


keys = typer.Typer()
KIND = Annotated[
    Literal["write", "read"], typer.Argument(help="Whether the key sends records or reads answers.")
]
NAME = Annotated[str, typer.Argument(help="Name of the sender or of the reader.")]
KEYS_FILE = Annotated[
    Path | None,
    typer.Option(
        "--keys", help="File with the hashes of the keys.", show_default="next to the database"
    ),
]


def serve(
    config: Annotated[
        Path | None, typer.Option(help="TOML file with the settings of the service.")
    ] = None,
    decision: Annotated[
        Path | None,
        typer.Option(
            help="Decision to serve and to show on the dashboard.", metavar="DECISION.json"
        ),
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Port to listen on; 0 picks a free one.", show_default="8017", min=0),
    ] = None,
    db: Annotated[
        Path | None,
        typer.Option(
            envvar="FPMONITOR_DB", help="Database file.", metavar="PATH", parser=database_file
        ),
    ] = None,
) -> None:
    """Collect records over HTTP, answer questions, and show a dashboard."""
    try:
        from fpmonitor.serve.app import service_app  # noqa: PLC0415 -- an extra
        from fpmonitor.serve.config import ServeConfig, read_config  # noqa: PLC0415
    except ImportError as error:
        raise InputError(f"serve: {error.name} is not installed", hint=install("serve")) from error
    settings: ServeConfig = ServeConfig() if config is None else read_config(config)
    settings = settings.with_options(decision=decision, host=host, port=port, db=db)
    if settings.origins and settings.source is None:
        note(
            "pages may send, and any reader of a page can make up users; these count in all "
            'answers, unless `source = "!KEY"` leaves the key of the pages out'
        )
    invocation = INVOCATION.get()
    run_application(
        service_app(settings, key_file=invocation.key_file, apart=True),
        settings.host,
        settings.port,
        most_connections=settings.max_connections,
    )


@keys.command("add")
def add(kind: KIND, name: NAME, db: DB = DEFAULT_DB, keys_file: KEYS_FILE = None) -> None:
    """Create a key and print it. It is shown only once; a hash of it is stored."""
    from fpmonitor.serve.keys import add_key  # noqa: PLC0415 -- for this command only

    secret = add_key(_file(db, keys_file), kind, name)
    emit(f"{secret}\n", None)
    note("store it now: it is not shown again")


@keys.command("remove")
def remove(kind: KIND, name: NAME, db: DB = DEFAULT_DB, keys_file: KEYS_FILE = None) -> None:
    """Remove a key."""
    from fpmonitor.serve.keys import remove_key  # noqa: PLC0415 -- for this command only

    remove_key(_file(db, keys_file), kind, name)


@keys.command("list")
def list_keys(*, db: DB = DEFAULT_DB, keys_file: KEYS_FILE = None, shown: Shown) -> None:
    """List the keys: what each allows, and its name."""
    from fpmonitor.serve.keys import read_keys  # noqa: PLC0415 -- for this command only

    found = read_keys(_file(db, keys_file))
    rows = [{"kind": key.kind, "name": key.name} for key in found]
    shown.show(store.listing(rows))


def _file(db: Path, keys_file: Path | None) -> Path:
    return keys_file or db.with_name(f"{db.name}.keys.json")
