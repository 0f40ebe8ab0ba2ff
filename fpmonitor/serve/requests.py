"""Requests of anybody: their bodies, and refusals as JSON."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from starlette.datastructures import QueryParams
from starlette.responses import JSONResponse, Response

from fpmonitor.errors import FpmonitorError, StoreError, UndecidableError, UnknownNameError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    Handler = Callable[[Request], Awaitable[Response]]

# Of all bodies together: 800 unfinished ones took 915 MB when each had a limit of its own.
MAX_UNDER_WAY = 1000
MAX_UNDER_WAY_BYTES = 64_000_000
BODY_SECONDS = 60.0
BUSY_SECONDS = 5
_LISTS = frozenset({"api", "apis", "have", "want"})  # members that may stand several times
_NAME_LENGTH = 100  # of what is told back; to look for names near a megabyte takes a second
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class RefusedRequestError(Exception):
    """A request that is answered with an error; the reason holds no content of the request.

    `headers` are more fields of the answer. `retry_after` is the number of seconds after which to
    send it again; null where that is no use.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        headers: Mapping[str, str] | None = None,
        *,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(reason)
        self.status = status
        later = {} if retry_after is None else {"Retry-After": str(retry_after)}
        self.headers = {**(headers or {}), **later}


@dataclass(slots=True, eq=False)
class Body:
    """A body of a stranger, from its first byte to its answer."""

    budget: BodyBudget  # What it is part of.
    sender: str  # Whose it is.
    held: int = 0  # Its bytes in memory.
    timeout: asyncio.Timeout | None = None  # Until when it must have come; null before and after.
    gave_way: bool = False  # Whether it was ended for others.

    def grow(self, size: int) -> None:
        """Take memory; bodies that are still on their way give way, those of who has most first."""
        self.budget.make_room(size, self)
        self.budget.hold(self, size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.budget.end(self)

    def give_way(self) -> None:
        """End at once."""
        # A timeout that is just over cannot be set again.
        if self.timeout is not None and not self.timeout.expired():
            self.timeout.reschedule(asyncio.get_running_loop().time())
        self.budget.hold(self, -self.held)
        self.timeout, self.gave_way = None, True


class BodyBudget:
    """Limits the requests of strangers and their bytes, from the first ones to the answer.

    `most_bytes` is what all bodies together may have.
    """

    def __init__(self, most_bytes: int | None = None) -> None:
        self._most_bytes = most_bytes
        self._under_way: dict[Body, None] = {}
        self._held = 0

    def one(self, sender: str = "") -> Body:
        """Reserve memory for one request, which grows with the bytes received, until it ends.

        Raises:
            RefusedRequestError: There are too many already.
        """
        if len(self._under_way) >= MAX_UNDER_WAY:
            raise _busy()
        body = Body(self, sender)
        self._under_way[body] = None
        return body

    def end(self, body: Body) -> None:
        """Free what a request had."""
        del self._under_way[body]
        self.hold(body, -body.held)

    def hold(self, body: Body, size: int) -> None:
        """Count bytes of a body that are in memory from now on, or fewer."""
        body.held += size
        self._held += size

    def make_room(self, size: int, wanted_by: Body) -> None:
        """End the oldest unfinished bodies of who has most, until there is room; or refuse."""
        most = self._most_bytes or MAX_UNDER_WAY_BYTES
        while self._held + size > most:
            bytes_of: Counter[str] = Counter()
            for one in self._under_way:
                bytes_of[one.sender] += one.held
            # Bodies that are whole have no timeout any more: their records are being kept.
            slow = [one for one in self._under_way if one.timeout and one.held]
            first = max(slow, key=lambda one: bytes_of[one.sender], default=wanted_by)
            if first is wanted_by:
                raise _busy()
            first.give_way()


def _busy() -> RefusedRequestError:
    return RefusedRequestError(503, "too much at once", retry_after=BUSY_SECONDS)


async def read_body(
    request: Request,
    most: int,
    types: Collection[str],
    under_way: Body | None = None,
) -> bytes:
    """Read a body of one of some content types.

    With `under_way`, it is that of a stranger: all of it must come in time, and takes memory. Of
    others, each part must.

    Raises:
        RefusedRequestError: Another type, more than `most` bytes, too slow, in the way of others,
            or not whole.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in types:
        raise RefusedRequestError(415, f"content-type must be {' or '.join(filter(None, types))}")
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS) as timeout:
            if under_way is not None:
                under_way.timeout = timeout
            is_whole = False
            while not is_whole:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise RefusedRequestError(400, "the body is cut short")
                part, is_whole = message.get("body", b""), not message.get("more_body")
                size += len(part)
                if size > most:
                    raise RefusedRequestError(413, f"more than {most} bytes")
                if under_way is not None:
                    under_way.grow(len(part))
                else:
                    timeout.reschedule(asyncio.get_running_loop().time() + BODY_SECONDS)
                parts.append(part)
    except TimeoutError as error:
        if under_way is not None and under_way.gave_way:
            raise _busy() from error
        raise RefusedRequestError(408, "the body did not arrive in time") from error
    finally:
        if under_way is not None:
            under_way.timeout = None
    return b"".join(parts)


def refusal_of(error: RefusedRequestError | FpmonitorError) -> RefusedRequestError:
    """Say an error to whoever asked: of the database not where it is, and not who holds it."""
    if isinstance(error, RefusedRequestError):
        return error
    if isinstance(error, StoreError):
        return RefusedRequestError(503, "the database cannot be read now", retry_after=10)
    if isinstance(error, UndecidableError):
        return RefusedRequestError(503, error.message)
    return RefusedRequestError(404 if isinstance(error, UnknownNameError) else 400, error.message)


def refused(refusal: RefusedRequestError) -> Response:
    """Return an error as JSON."""
    return JSONResponse({"error": str(refusal)}, refusal.status, HEADERS | refusal.headers)


def answered(
    handler: Handler,
    show: Callable[[RefusedRequestError], Response] = refused,
    refusal: Callable[[RefusedRequestError | FpmonitorError], RefusedRequestError] = refusal_of,
) -> Handler:
    """Answer errors of a handler, too: as `refusal` says them, and `show` shows them."""

    async def answered(request: Request) -> Response:
        try:
            return await handler(request)
        except (RefusedRequestError, FpmonitorError) as error:
            return show(refusal(error))

    return answered


def check_members(given: Iterable[str], known: Collection[str], kind: str = "member") -> None:
    """Raise RefusedRequestError for what nothing reads, as a typo, or what is said twice."""
    seen = set()
    for name in given:
        if name in seen and name not in _LISTS:
            raise RefusedRequestError(400, f"{kind} {name!r} stands twice")
        seen.add(name)
        if name not in known:
            reason = str(UnknownNameError(kind, name[:_NAME_LENGTH], known))
            raise RefusedRequestError(400, reason if known else f"{reason}; none is taken here")


class KnownMembers:
    """Refuses addresses with members that nothing reads, by `members` of each path.

    Other paths are none of ours, or files: pages add to the address of a script what names its
    version.
    """

    def __init__(self, app: ASGIApp, members: Mapping[str, Collection[str]]) -> None:
        self._app, self._members = app, members

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http" and scope["query_string"] and scope["path"] in self._members:
            try:
                given = QueryParams(scope["query_string"]).multi_items()
                check_members((name for name, _ in given), self._members[scope["path"]])
            except RefusedRequestError as error:
                await refused(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)
