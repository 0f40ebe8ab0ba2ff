"""Requests of anybody: their bodies, and refusals as JSON."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from fpmonitor.errors import FpmonitorError, StoreError, UndecidableError, UnknownNameError
from fpmonitor.serve.auth import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from starlette.requests import Request
    from starlette.responses import Response

MAX_UNDER_WAY = 1000
MAX_UNDER_WAY_BYTES = 64_000_000
BODY_SECONDS = 60.0
BUSY_SECONDS = 5
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class RefusedRequestError(Exception):
    """A request that is answered with an error; the reason holds no content of the request.

    `retry_after` is the number of seconds after which to send it again; null where that is no use.
    """

    def __init__(self, status: int, reason: str, *, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        """Header fields of the answer."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


class BodyBudget:
    """Limits the requests of strangers and their bytes, from the first ones to the answer.

    `most_bytes` is what all bodies together may have.
    """

    def __init__(self, most_bytes: int | None = None) -> None:
        self._most_bytes = most_bytes
        self._requests = 0
        self._bytes = 0

    @contextmanager
    def one(self) -> Iterator[Callable[[int], None]]:
        """Reserve memory for one request; call the result with the number of bytes received.

        Raises
        ------
        RefusedRequestError
            There is too much already, now or when it is called.
        """
        if self._requests >= MAX_UNDER_WAY:
            raise _busy()
        self._requests += 1
        held = 0

        def grow(size: int) -> None:
            nonlocal held
            if self._bytes + size > (self._most_bytes or MAX_UNDER_WAY_BYTES):
                raise _busy()
            held += size
            self._bytes += size

        try:
            yield grow
        finally:
            self._requests -= 1
            self._bytes -= held


def _busy() -> RefusedRequestError:
    return RefusedRequestError(503, "too much at once", retry_after=BUSY_SECONDS)


async def read_body(
    request: Request,
    most: int,
    types: Collection[str],
    grow: Callable[[int], None] | None = None,
) -> bytes:
    """Read a body of one of some content types.

    With `grow`, it is that of a stranger: it must come in time, and `grow` is told its bytes.

    Raises
    ------
    RefusedRequestError
        Another type, more than `most` bytes, too slow, or not whole.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in types:
        raise RefusedRequestError(415, f"content-type must be {' or '.join(filter(None, types))}")
    parts, size = [], 0
    try:
        async with asyncio.timeout(None if grow is None else BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise RefusedRequestError(413, f"more than {most} bytes")
                if grow is not None:
                    grow(len(part))
                parts.append(part)
    except TimeoutError as error:
        raise RefusedRequestError(408, "the body did not arrive in time") from error
    except ClientDisconnect as error:
        raise RefusedRequestError(400, "the body is cut short") from error
    return b"".join(parts)


def refusal_of(error: FpmonitorError) -> Refusal:
    """Say an error to whoever asked: of the database not where it is, and not who holds it."""
    if isinstance(error, StoreError):
        return Refusal(503, "the database cannot be read now", {"Retry-After": "10"})
    if isinstance(error, UndecidableError):
        return Refusal(503, error.message)
    return Refusal(404 if isinstance(error, UnknownNameError) else 400, error.message)


def refused(status: int, reason: str, headers: dict[str, str] | None = None) -> Response:
    """Return an error as JSON."""
    return JSONResponse({"error": reason}, status, HEADERS | (headers or {}))
