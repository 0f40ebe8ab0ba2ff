"""Running an HTTP application until it is stopped."""

from __future__ import annotations

import gc
import logging
import socket
import sys
from collections.abc import Callable
from typing import Any

from fpmonitor.cli.output import note
from fpmonitor.errors import InputError, install
from fpmonitor.serve.config import MAX_CONNECTIONS

_LAST_PORT = 65_535


def run_application(
    application: Any,
    host: str,
    port: int,
    *,
    most_connections: int = MAX_CONNECTIONS,
    hint: str = "name another --port",
    path: str = "",
    ready: Callable[[str], object] | None = None,
) -> None:
    """Serve at an address, and print it; port 0 takes a free one.

    `hint` says what to do about an address that cannot be had. `path` is what follows the slash of
    the address that is printed, and that `ready` is told once it can be asked.

    Raises:
        InputError: The address is in use, or cannot be had; or uvicorn is not installed.
    """
    try:
        import uvicorn  # noqa: PLC0415 -- an extra

        from fpmonitor.serve import connections  # noqa: PLC0415 -- needs uvicorn
    except ImportError as error:
        raise InputError("uvicorn is not installed", hint=install("serve")) from error
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if port > _LAST_PORT:
        raise InputError(f"{host}:{port}: cannot listen there (no such port)", hint=hint)
    try:
        listening = socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:  # the latter of what is no name of a host
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{host}:{port}: cannot listen there ({reason})", hint=hint) from error
    # asyncio sets it only where the protocol of a socket is named; without it the end of an answer
    # waits until the client has acknowledged its beginning, which clients put off for 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    settings = uvicorn.Config(
        connections.Strict(application),
        http=connections.bounded_connections(most_connections),
        ws="none",
        backlog=connections.backlog(),
        access_log=False,  # it would hold addresses and keys
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=10,
    )
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr, force=True)
    for handler in logging.getLogger().handlers:
        handler.addFilter(connections.OnceAMinute())
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}/{path}"
    note(f"{address} (Ctrl-C stops)")
    if ready is not None:
        ready(address)  # the socket listens already: what is asked now waits
    # What is loaded stays: to look through it for garbage takes a tenth of a request's time.
    gc.collect()
    gc.freeze()
    connections.Listener(settings).run(sockets=[listening])
