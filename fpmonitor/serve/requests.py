"""Requests of anybody: their bodies, and refusals as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from fpmonitor.errors import FpmonitorError, StoreError, UndecidableError, UnknownNameError
from fpmonitor.serve.auth import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from starlette.requests import Request
    from starlette.responses import Response

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


async def read_body(
    request: Request,
    most: int,
    types: Collection[str],
    grow: Callable[[int], None] = lambda _: None,
) -> bytes:
    """Read a body of one of some content types; `grow` is told the bytes as they arrive.

    Raises
    ------
    RefusedRequestError
        Another type, or more than `most` bytes.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in types:
        raise RefusedRequestError(415, f"content-type must be {' or '.join(filter(None, types))}")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise RefusedRequestError(413, f"more than {most} bytes")
        grow(len(part))
        parts.append(part)
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
