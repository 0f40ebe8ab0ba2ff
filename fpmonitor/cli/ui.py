"""The commands `ui` and `mcp`: one page for the owner, and tools for an assistant."""

from __future__ import annotations

import secrets
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from fpmonitor.cli.context import INVOCATION
from fpmonitor.cli.listening import run_application
from fpmonitor.cli.options import DB, DEFAULT_DB, K
from fpmonitor.cli.spellings import shows_pages
from fpmonitor.disclosure import Audience
from fpmonitor.errors import PolicyError


def ui(
    paths: Annotated[
        list[str] | None,
        typer.Argument(help="Logs to look at; nothing is stored before you say so."),
    ] = None,
    *,
    db: DB = DEFAULT_DB,
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.", min=0)] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Whether to open a browser.")
    ] = True,
) -> None:
    """Open one page: what a log holds, what a set of APIs exposes, which list follows."""
    from fpmonitor.ui.app import create_app  # noqa: PLC0415 -- for this command only
    from fpmonitor.ui.desk import Desk  # noqa: PLC0415

    invocation = INVOCATION.get()
    if invocation.audience is Audience.OTHERS:
        raise PolicyError("ui", "is for the owner of the data only")
    token = secrets.token_urlsafe(24)
    desk = Desk(
        paths or [],
        Path(db),
        key_file=invocation.key_file,
        patience=invocation.patience,
    )
    run_application(
        create_app(desk, token),
        "127.0.0.1",
        port,
        path=f"?token={token}",
        ready=_open if browser else None,
    )


def mcp(
    *,
    db: DB = DEFAULT_DB,
    decision: Annotated[
        Path | None, typer.Option(help="Decision that says what a site may read.")
    ] = None,
    k: K = 10,
) -> None:
    """Answer an assistant or editor by the Model Context Protocol, reading only, as for others."""
    from fpmonitor.assistant import Tools, make_server  # noqa: PLC0415 -- for this command only

    invocation = INVOCATION.get()
    tools = Tools(
        db=Path(db),
        decision=decision,
        k=k,
        key_file=invocation.key_file,
        patience=invocation.patience,
    )
    make_server(tools).run("stdio")


def _open(address: str) -> None:
    """Open a browser, where there is one."""
    if shows_pages():
        webbrowser.open(address, new=2)
