"""The option --engine: what counts the groups of users, on this computer or on a server."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from fpmonitor.cli.options import Engine
from fpmonitor.cli.output import note
from fpmonitor.errors import InputError
from fpmonitor.monitor import Monitor
from fpmonitor.remote import RemoteMonitor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fpmonitor.decide.decision import Decision
    from fpmonitor.store.snapshot import Window
    from fpmonitor.store.views import View

COUNTER = Annotated[
    str,
    typer.Option(
        "--engine",
        help="What counts groups: rows in memory, DuckDB, or a server of Spark Connect that reads "
        "the store or logs at --source.",
        metavar="auto|memory|duckdb|sc://HOST:PORT",
    ),
]


def _server(engine: str) -> str:
    if engine != "auto" and not engine.startswith("sc://"):
        raise InputError(f"--engine: {engine!r} is no server", hint="it looks like sc://HOST:PORT")
    return engine


SERVER = Annotated[
    str,
    typer.Option(
        "--engine",
        help="A server of Spark Connect that reads the store or logs at --source.",
        metavar="sc://HOST:PORT",
        callback=_server,
        show_default=False,
    ),
]
SOURCE_OR_PATH = Annotated[
    str | None,
    typer.Option(
        "--source",
        help="Only observations of this source, for example 'fingerprintjs 5.2.0'; with the "
        "address of a server: the folder of a store, or logs, as the server names them.",
        metavar="NAME|PATH",
    ),
]
STORE_OF_LOGS = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="Where a server keeps what it makes of logs. [default: PATH.fpmonitor]",
        metavar="FOLDER",
    ),
]


@contextmanager
def opened(
    engine: str, db: Path, window: Window, view: View, store: str | None
) -> Iterator[Monitor | RemoteMonitor]:
    """Open the database, or what a server reads; say so when the server was lost on the way.

    Raises
    ------
    InputError
        The engine has no such name, or does not offer what was asked for.
    """
    if not engine.startswith("sc://"):
        _check_local(engine, store)
        with Monitor(db, window=window, view=view) as monitor:
            yield monitor
        return
    if ";" in engine:
        raise InputError(
            "--engine: an address with parameters may hold a token, which others could read here",
            hint="put it into FPMONITOR_ENGINE, and use the commands of `fpmonitor remote`",
        )
    path = window.source
    if path is None:
        raise InputError(
            "--engine: a server needs --source", hint="name the folder of a store, or logs"
        )
    window = replace(window, source=None)
    with RemoteMonitor.of_source(engine, path, store=store, window=window, view=view) as remote:
        yield remote
    note_lost(remote)


def note_lost(monitor: RemoteMonitor) -> None:
    """Say how to go on when the engine was lost."""
    if monitor.lost:
        note("the engine was lost: the decision holds what was proven; go on with --resume")


def _check_local(engine: str, store: str | None) -> None:
    if engine not in set(Engine):
        raise InputError(
            f"--engine: no engine {engine!r}", hint=f"one of {', '.join(Engine)}, sc://HOST:PORT"
        )
    if store is not None:
        raise InputError("--store: only a server keeps a store", hint="the database is --db PATH")


def deciding(monitor: Monitor | RemoteMonitor, engine: str) -> Callable[..., Decision]:
    """Return the method that decides, with the counter that was asked for."""
    if isinstance(monitor, RemoteMonitor):
        return monitor.decide
    return partial(monitor.decide, engine=Engine(engine).value)
