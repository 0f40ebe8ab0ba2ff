"""What readers ask: a request of one without its connection, and one flight for equal ones."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

from fpmonitor.serve.requests import RefusedRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message

# Questions under way: of all readers, and of one, who leaves half to the others.
_MOST = 32
_MOST_OF_ONE = 16
_AGAIN_SECONDS = 5


class ForwardedRequest(msgspec.Struct, frozen=True):
    """A question: its address, under which name of the service, who asks, and if in a session."""

    path: str
    query: bytes
    scheme: str
    host: bytes
    reader: str
    in_session: bool = False


class ForwardedAnswer(msgspec.Struct, frozen=True):
    """The answer to a question."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


async def respond(app: ASGIApp, question: ForwardedRequest) -> ForwardedAnswer:
    """Return the answer of an application to a question."""
    status, headers, body = 500, list[tuple[bytes, bytes]](), list[bytes]()
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": question.scheme,
        "path": question.path,
        "raw_path": question.path.encode(),
        "root_path": "",
        "query_string": question.query,
        "headers": [(b"host", question.host)],
        "server": None,
        "client": None,
        "reader": question.reader,
        "in_session": question.in_session,
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], list(message["headers"])
        else:
            body.append(message.get("body", b""))

    await app(scope, receive, send)
    return ForwardedAnswer(status, headers, b"".join(body))


class Flights:
    """Answers readers: equal questions share one answer, and there are so many at once.

    Args:
        respond: Answers a question.
        state: What the answers are about: questions before and after a change are not equal.
        by_reader: Whether those of different readers are not, either, as where counts are limited.
    """

    def __init__(
        self,
        respond: Callable[[ForwardedRequest], Coroutine[None, None, ForwardedAnswer]],
        state: Callable[[], object],
        *,
        by_reader: bool,
    ) -> None:
        self._respond, self._state, self._by_reader = respond, state, by_reader
        self._flights: dict[tuple[ForwardedRequest, object], asyncio.Task[ForwardedAnswer]] = {}
        self._of: Counter[str] = Counter()

    async def answer(self, request: Request, reader: str, *, in_session: bool = False) -> Response:
        """Answer a request of a reader; errors as of `answer_to`."""
        question = ForwardedRequest(
            request.url.path,
            request.scope["query_string"],
            request.url.scheme,
            request.url.netloc.encode(),
            reader if self._by_reader else "",
            in_session,
        )
        found = await self.answer_to(question, reader)
        response = Response(found.body, found.status)
        response.raw_headers = [*found.headers]
        return response

    async def answer_to(self, question: ForwardedRequest, reader: str) -> ForwardedAnswer:
        """Answer a question of a reader.

        Raises:
            RefusedRequestError: Too many questions are under way, of this reader or of all.
            StoreError: The database cannot be asked now.
        """
        name = question, self._state()
        flight = self._flights.get(name)
        if flight is None:
            if self._of[reader] >= _MOST_OF_ONE:
                raise RefusedRequestError(429, "too many questions", retry_after=_AGAIN_SECONDS)
            if len(self._flights) >= _MOST:
                raise RefusedRequestError(503, "too much at once", retry_after=_AGAIN_SECONDS)
            flight = self._flights[name] = asyncio.create_task(self._respond(question))
            self._of[reader] += 1
            flight.add_done_callback(partial(self._land, name, reader))
        # One who goes away must not end the flight that others wait for.
        return await asyncio.shield(flight)

    def _land(
        self,
        name: tuple[ForwardedRequest, object],
        reader: str,
        flight: asyncio.Task[ForwardedAnswer],
    ) -> None:
        if not flight.cancelled():
            flight.exception()  # whoever waits is told
        del self._flights[name]
        self._of[reader] -= 1
        if not self._of[reader]:
            del self._of[reader]
