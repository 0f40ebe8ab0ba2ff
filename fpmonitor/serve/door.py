"""Who may read: the holder of a read token, and the session that the token opened.

Where a read token is configured, the dashboard wants it: in the header `Authorization: Bearer ..`,
or once in the form at `/login`, which leaves a cookie with a random session and never the token. A
session ends with its token, and at `/logout`. Without a token, only requests to this machine by its
own name are answered.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.responses import RedirectResponse, Response

from fpmonitor.serve.auth import AuthGuard, bearer_token
from fpmonitor.serve.pages import PAGE_HEADERS, service_page
from fpmonitor.serve.requests import BodyBudget, RefusedRequestError, check_members, read_body

if TYPE_CHECKING:
    from starlette.requests import Request

    from fpmonitor.serve.asked import Flights
    from fpmonitor.serve.keys import Key
    from fpmonitor.serve.service import Service

COOKIE = "fpmonitor_session"
SESSION_SECONDS = 12 * 3600
_FORM_BYTES = 4096
_FORM_TYPES = ("application/x-www-form-urlencoded", "")
_SESSIONS = 1000


class Door:
    """Lets in who may read, and asks for them."""

    def __init__(self, readers: Service, flights: Flights) -> None:
        self._readers, self._flights = readers, flights
        self._sessions: dict[str, tuple[float, Key]] = {}
        self._room = BodyBudget()

    def reader(self, request: Request) -> str:
        """Name of who may read, `local` where there is no token; an error for who may not."""
        readers = self._readers
        key = readers.reader_of(bearer_token(request))
        is_token = (lambda _: key is not None) if readers.wants_read_token else None
        AuthGuard(is_token, name="read token").check(request)
        return key.name if key else "local"

    async def for_programs(self, request: Request) -> Response:
        """Answer a program."""
        return await self._flights.answer(request, self.reader(request))

    async def for_people(self, request: Request) -> Response:
        """Answer a browser; one without a token is sent to the form."""
        of_session = self._reader_of_session(request)
        try:
            reader = of_session or self.reader(request)
        except RefusedRequestError as error:
            is_for_token = error.status == 401 and not request.headers.get("authorization")
            if is_for_token and request.url.path == "/":
                return RedirectResponse("/login", status_code=303, headers=PAGE_HEADERS)
            raise
        return await self._flights.answer(request, reader, in_session=bool(of_session))

    async def login(self, request: Request) -> Response:
        """Form for the token; the right one opens a session."""
        if request.method == "GET":
            return service_page("login.html", wrong=False)
        with self._room.one() as room:
            body = await read_body(request, _FORM_BYTES, _FORM_TYPES, room)
        fields = parse_qsl(body.decode("utf-8", errors="replace"))
        check_members((name for name, _ in fields), ("token",))
        key = self._readers.reader_of(dict(fields).get("token", ""))
        if key is None:
            return service_page("login.html", status=401, wrong=True)
        answer = RedirectResponse("/", status_code=303, headers=PAGE_HEADERS)
        answer.set_cookie(
            COOKIE,
            self._new_session(key),
            max_age=SESSION_SECONDS,
            httponly=True,
            # No link on another site comes with the session.
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    async def logout(self, request: Request) -> Response:
        """End the session."""
        self._sessions.pop(request.cookies.get(COOKIE, ""), None)
        answer = RedirectResponse("/login", status_code=303, headers=PAGE_HEADERS)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer

    def _reader_of_session(self, request: Request) -> str:
        # Random 256 bits: what the time of a lookup reveals is of no use.
        end, key = self._sessions.get(request.cookies.get(COOKIE, ""), (0.0, None))
        is_open = end > time.monotonic()
        return key.name if key and is_open and self._readers.is_reader(key) else ""

    def _new_session(self, key: Key) -> str:
        now = time.monotonic()
        alive = {name: one for name, one in self._sessions.items() if one[0] > now}
        # All sessions last equally long, so those that were opened first end first.
        self._sessions = dict(list(alive.items())[-_SESSIONS + 1 :])
        session = secrets.token_urlsafe(32)
        self._sessions[session] = now + SESSION_SECONDS, key
        return session
