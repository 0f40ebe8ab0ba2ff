"""Connections of anybody: so many at once, and so long for a request."""

from __future__ import annotations

import logging
import resource
import time
from collections import Counter
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

if TYPE_CHECKING:
    import asyncio
    import socket

    from starlette.types import ASGIApp, Receive, Scope, Send

# 1,500 half-sent headers used up the files that the service may open, and filled its log with
# 63 MB of errors.
WAIT_SECONDS = 30.0
_BACKLOG = 64
_QUEUE = 1 << 12  # connections that the system keeps until one is taken; it may keep fewer
_MOST_CHUNKS = 1 << 12  # of one body
_QUIET_SECONDS = 60.0
_CLOSE = {"Connection": "close"}
_ONCE = (b"authorization", b"content-type", b"content-encoding")


def bounded_connections(most: int) -> Any:
    """Return what makes connections, at most so many, and half of the files that may be open."""
    return partial(BoundedConnection, most=min(most, _files() // 2))


def backlog() -> int:
    """Return how many connections one turn of the loop accepts before any of them is counted.

    Some four turns pass until another one is closed for them: together a quarter of the files.
    """
    return min(_BACKLOG, max(_files() // 16, 1))


class Listener(uvicorn.Server):
    """A server before which more connections wait than one turn of its loop accepts.

    uvicorn takes one number for both. Where 100 senders came at once, the system dropped what 65
    of them sent first, and they sent it again a second later.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen at sockets."""
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(_QUEUE)


def _files() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class _FewChunks(h11.Connection):
    """What parses requests: a body in crumbs is none.

    A chunk of one byte costs as much of the processor as one of a thousand, and what is read at
    once, a quarter of a megabyte, is parsed at once, before anybody else is heard.
    """

    _chunks = 0

    def next_event(self) -> type[h11.NEED_DATA | h11.PAUSED] | h11.Event:
        """Return the next part of a request.

        Raises:
            RemoteProtocolError: The request is malformed, or its body has too many chunks.
        """
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = 0
        elif isinstance(event, h11.Data) and event.chunk_end:
            self._chunks += 1
            if self._chunks > _MOST_CHUNKS:
                raise h11.RemoteProtocolError("too many chunks")
        return event


class BoundedConnection(H11Protocol):
    """A connection that ends if the other side keeps it waiting, for a request or as a reader.

    Where there are too many, a new one takes the place of the one that has waited longest for its
    request, of the network that has most of these.
    """

    def __init__(self, *arguments: Any, most: int, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.conn = _FewChunks(h11.SERVER)
        self._most = most
        self._since = time.monotonic()
        self._late: asyncio.TimerHandle | None = None
        self._network = b""

    @property
    def network(self) -> bytes:
        """What one stranger may have many ports of: an IPv4 address, or 64 bits of IPv6."""
        return self._network

    @property
    def is_unfinished(self) -> bool:
        """Whether the other side has to send, or to read, before it gets its next answer."""
        return self._is_idle or bool(self.cycle.more_body)

    @property
    def since(self) -> float:
        """When it was made, or had its last answer; monotonic seconds."""
        return self._since

    @property
    def _is_idle(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete or self.flow.write_paused

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, and make room for it."""
        super().connection_made(transport)
        if self.client is not None:
            self._network = ip_address(self.client[0].partition("%")[0]).packed[:8]
        if len(self.connections) > self._most:
            self._make_room()
        self._watch()

    def _make_room(self) -> None:
        others = [one for one in self.connections if isinstance(one, BoundedConnection)]
        found = [one for one in others if one is not self and one.is_unfinished]
        connections_of = Counter(one.network for one in found)
        first = min(found, key=lambda one: (-connections_of[one.network], one.since), default=self)
        # At once: `connection_lost` is called a turn of the loop later, when more may have come.
        # Aborted, as closing would wait until the stranger has read the rest of an answer.
        self.connections.discard(first)
        first.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take what was sent; the time for a request ends with its header fields."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._since = time.monotonic()
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Wait for a slow reader."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Go on with an answer."""
        super().resume_writing()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._unwatch()

    def _watch(self) -> None:
        if not self._is_idle:
            self._unwatch()
        elif self._late is None and not self.transport.is_closing():
            self._late = self.loop.call_later(WAIT_SECONDS, self.transport.abort)

    def _unwatch(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class Strict:
    """Refuses what other servers on the way may read as two requests, and closes the connection.

    A request with both Content-Length and Transfer-Encoding ends in two places, and one of HTTP/1.0
    does where a server knows Transfer-Encoding and another does not (RFC 9112, 6.1). Of two tokens
    or types of content one server takes the first, another the last.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        reason = _ambiguity(scope) if scope["type"] == "http" else ""
        if reason:
            await JSONResponse({"error": reason}, 400, _CLOSE)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _ambiguity(scope: Scope) -> str:
    """Say what may be read in two ways; empty where nothing is."""
    names = [name for name, _ in scope["headers"]]
    if b"transfer-encoding" in names:
        is_old = scope["http_version"] == "1.0"
        if is_old or b"content-length" in names:
            return f"both {'HTTP/1.0' if is_old else 'Content-Length'} and Transfer-Encoding"
    twice = next((name for name in _ONCE if names.count(name) > 1), b"")
    return f"two fields {twice.decode()}" if twice else ""


class OnceAMinute(logging.Filter):
    """Lets a message of other packages through once a minute: strangers can cause as many."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[object, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log a record."""
        if record.name.startswith("fpmonitor"):
            return True
        # By the text before it is filled in: what strangers sent would make each message a new one.
        kind = (
            record.name,
            str(record.msg).partition("\n")[0],
            record.exc_info and record.exc_info[0],
        )
        now = time.monotonic()
        if now - self._last.get(kind, -_QUIET_SECONDS) < _QUIET_SECONDS:
            return False
        self._last[kind] = now
        return True
