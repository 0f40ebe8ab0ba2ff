"""The dashboard at `/`, and the scripts that pages load.

Where a read token is configured, the dashboard wants it: in the header `Authorization: Bearer ..`,
or once in the form at `/login`, which leaves a cookie with a random session and never the token.
Without one, only requests to this machine by its own name are answered.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import jinja2
import markupsafe
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from fpmonitor.answers.counted import counted_answer
from fpmonitor.decide.guarantee import who_was_drawn
from fpmonitor.errors import FpmonitorError
from fpmonitor.render.answers import WORDS_OF_APIS
from fpmonitor.render.decisions import bounds, counted, headline, tolerance
from fpmonitor.render.figures import of_conflicts, of_tolerance
from fpmonitor.render.html import chips
from fpmonitor.render.numbers import percent
from fpmonitor.render.svg import chart_style
from fpmonitor.render.tables import html
from fpmonitor.serve.auth import AuthGuard, bearer_token
from fpmonitor.serve.figures import (
    MOST_SETS,
    apis_table,
    check_table,
    draw_history,
    draw_limits,
    history_table,
)
from fpmonitor.serve.overview import History, Overview, take_overview
from fpmonitor.serve.requests import refusal_of
from fpmonitor.serve.service import log
from fpmonitor.serve.snippet import SCRIPTS, Script, script_named
from fpmonitor.unit import spoken

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request

    from fpmonitor.decide.decision import Verdict
    from fpmonitor.population.exposure_index import IndexedExposure
    from fpmonitor.serve.service import Service

    Handler = Callable[[Request], Awaitable[Response]]

COOKIE = "fpmonitor_session"
SESSION_SECONDS = 12 * 3600
_FORM_BYTES = 4096
_SESSIONS = 1000
_YEAR = 31_536_000
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the explorer shows of the ticked APIs; `verdict` is null without a decision."""

    explored: IndexedExposure
    chart: str
    verdict: Verdict | None
    because: tuple[str, ...]


def routes(service: Service) -> list[Route]:
    """Routes of the dashboard and of the scripts."""
    board = _DashboardViews(service)
    door = _Sessions(service)
    return [
        Route("/", door.guarded(board.page)),
        Route("/login", door.login, methods=["GET", "POST"]),
        Route("/dashboard/live", door.guarded(board.live)),
        Route("/dashboard/apis", door.guarded(board.apis)),
        Route("/dashboard/explore", door.guarded(board.explore)),
        *(Route(f"/dashboard/{name}", partial(_static, name)) for name in _STATIC),
        *(Route(f"/v1/{name}", partial(_script, name)) for name in SCRIPTS),
    ]


class _DashboardViews:
    """Looks at the database when it has changed, and shows what it saw last."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._history = History(service.history_path)
        self._overview: Overview | None = None
        self._batches, self._others = 0, 0
        self._lock = asyncio.Lock()

    async def _look(self) -> Overview:
        async with self._lock:
            decision = self._service.decision
            batches = await self._service.ask(lambda monitor: len(monitor.batches()))
            others = self._service.changes_of_others()
            if self._overview is None or (self._batches, self._others) != (batches, others):
                self._overview = await self._service.ask(
                    lambda monitor: take_overview(monitor, decision)
                )
                self._batches, self._others = batches, others
                if self._overview.reading is not None:
                    try:
                        await run_in_threadpool(self._history.add, self._overview.reading)
                    except OSError:  # readers are answered all the same
                        log("disk", reason="the history cannot be written")
            return self._overview

    async def page(self, request: Request) -> Response:
        overview = await self._look()
        recommended = overview.recommended.apis if overview.recommended else ()
        ticked = request.query_params.getlist("api") or recommended
        decision = self._service.decision
        return _html(
            "dashboard.html",
            **self._live_values(overview),
            ticked=ticked,
            **await self._answer(overview, ticked, request.scope["reader"]),
            decision=decision,
            tolerated=None if decision is None else of_tolerance(decision),
            conflicts=None if decision is None else of_conflicts(decision),
            scripts=[script_named(name) for name in SCRIPTS],
            origin=f"{request.url.scheme}://{request.url.netloc}",
            script=_static_path("dashboard.js"),
        )

    async def live(self, request: Request) -> Response:
        del request
        return _html("live.html", **self._live_values(await self._look()))

    async def apis(self, request: Request) -> Response:
        del request
        overview = await self._look()
        return _html("apis.html", overview=overview, apis_table=html(apis_table(overview.apis)))

    async def explore(self, request: Request) -> Response:
        is_old = self._service.limits_counts or self._others != self._service.changes_of_others()
        overview = await self._look() if is_old or self._overview is None else self._overview
        ticked = request.query_params.getlist("api")
        values = await self._answer(overview, ticked, request.scope["reader"])
        status = 403 if values["refusal"] else 200
        return _html("answer.html", status=status, overview=overview, **values)

    async def _answer(
        self, overview: Overview, ticked: Sequence[str], reader: str
    ) -> dict[str, Any]:
        """Answer for what is ticked, or say why there is none."""
        explorer = overview.explorer
        if explorer is None or not ticked:
            return {"answer": None, "refusal": ""}
        explored = await run_in_threadpool(explorer.explore, ticked)
        name = counted_answer(explored.apis, explorer)
        if refusal := await self._service.refusal_of_count(reader, name):
            return {"answer": None, "refusal": refusal}
        judged = await self._service.judged(explored.apis, explorer)
        answer = Answer(
            explored=explored,
            chart=draw_limits(explored, overview.budget),
            verdict=judged.get("verdict"),
            because=judged.get("because", ()),
        )
        return {"answer": answer, "refusal": ""}

    def _live_values(self, overview: Overview) -> dict[str, Any]:
        readings = self._history.readings(overview.reading) if overview.reading else []
        check = overview.check
        values = {
            "overview": overview,
            "check": check,
            "most_sets": MOST_SETS,
            "check_table": "" if check is None else html(check_table(check)),
            "apis_table": html(apis_table(overview.apis)),
            "readings": readings,
            "lists": self._service.words_of_lists,
        }
        if readings:
            values["history"] = draw_history(readings, overview.budget, k=overview.question.k)
            values["history_table"] = html(history_table(readings))
        return values


class _Sessions:
    """Lets in who may read: by the token, or by the session that the token opened."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._guard = AuthGuard(
            service.is_read_token if service.wants_read_token else None, name="read token"
        )
        self._sessions: dict[str, tuple[float, str]] = {}

    def guarded(self, handler: Handler) -> Handler:
        """Answer those who may read; send the others to the form."""

        async def guarded(request: Request) -> Response:
            reader = self._reader_of_session(request)
            refusal = None if reader else self._guard.refusal(request)
            if refusal is None:
                request.scope["reader"] = reader or self._service.reader_of(bearer_token(request))
                return await _answered(handler, request)
            is_for_token = refusal.status == 401 and not request.headers.get("authorization")
            if is_for_token and request.url.path == "/":
                return RedirectResponse("/login", status_code=303, headers=_HEADERS)
            return _refusal(*refusal)

        return guarded

    async def login(self, request: Request) -> Response:
        """Form for the token; the right one opens a session."""
        if request.method == "GET":
            return _html("login.html", wrong=False)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _FORM_BYTES:
                return _refusal(413, "too much for a token")
        fields = parse_qs(body.decode("utf-8", errors="replace"))
        token = fields.get("token", [""])[0]
        if not self._service.is_read_token(token):
            return _html("login.html", status=401, wrong=True)
        answer = RedirectResponse("/", status_code=303, headers=_HEADERS)
        answer.set_cookie(
            COOKIE,
            self._new_session(self._service.reader_of(token)),
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    def _reader_of_session(self, request: Request) -> str:
        # Random 256 bits: what the time of a lookup reveals is of no use.
        end, reader = self._sessions.get(request.cookies.get(COOKIE, ""), (0.0, ""))
        return reader if end > time.monotonic() else ""

    def _new_session(self, reader: str) -> str:
        now = time.monotonic()
        alive = {name: one for name, one in self._sessions.items() if one[0] > now}
        self._sessions = dict(list(alive.items())[-_SESSIONS + 1 :])
        session = secrets.token_urlsafe(32)
        self._sessions[session] = now + SESSION_SECONDS, reader
        return session


async def _answered(handler: Handler, request: Request) -> Response:
    """Return the answer of a handler; a user-fixable error is one line of text."""
    try:
        return await handler(request)
    except FpmonitorError as error:
        return _refusal(*refusal_of(error))


def _refusal(status: int, text: str, more: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(text + "\n", status_code=status, headers=_HEADERS | (more or {}))


@cache
def _templates() -> jinja2.Environment:
    loader = jinja2.PackageLoader("fpmonitor.serve")
    templates = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    templates.globals |= {
        "percent": percent,
        "headline": headline,
        "bounds": bounds,
        "counted": counted,
        "who_was_drawn": who_was_drawn,
        "tolerance": tolerance,
        "chips": chips,
        "words_of_apis": WORDS_OF_APIS,
    }
    templates.filters["breakable"] = _breakable
    return templates


def _breakable(api: str) -> markupsafe.Markup:
    """Name of an API that narrow screens break at its dots."""
    return markupsafe.Markup("<wbr>").join(re.split(r"(?<=[.#])", api))


def _html(template: str, *, status: int = 200, **values: Any) -> Response:
    text = _templates().get_template(template).render(style=_static_path("dashboard.css"), **values)
    if overview := values.get("overview"):
        text = spoken(text, overview.unit)
    return HTMLResponse(text, status_code=status, headers=_HEADERS | {"Cache-Control": "no-store"})


_STATIC = {"dashboard.css": "text/css", "dashboard.js": "text/javascript"}


@cache
def _static_file(name: str) -> Script:
    content = (resources.files("fpmonitor.serve") / "static" / name).read_bytes()
    if name.endswith(".css"):
        content += chart_style().encode()
    return Script(name, content)


def _static_path(name: str) -> str:
    return f"/dashboard/{name}?v={_static_file(name).version}"


async def _static(name: str, request: Request) -> Response:
    return _cached(_static_file(name), _STATIC[name], request, _HEADERS)


async def _script(name: str, request: Request) -> Response:
    """Serve a script to pages of any origin, which check its integrity."""
    headers = {
        "Access-Control-Allow-Origin": "*",
        "Cross-Origin-Resource-Policy": "cross-origin",
        "X-Content-Type-Options": "nosniff",
    }
    return _cached(script_named(name), "text/javascript", request, headers)


def _cached(file: Script, kind: str, request: Request, headers: dict[str, str]) -> Response:
    """Return a file; under an address that names its content, it may be cached without a limit."""
    tag = f'"{hashlib.sha256(file.content).hexdigest()}"'
    named = request.query_params.get("v") == file.version
    caching = f"public, max-age={_YEAR}, immutable" if named else "no-cache"
    headers = headers | {"ETag": tag, "Cache-Control": caching}
    known = {one.strip() for one in request.headers.get("if-none-match", "").split(",")}
    if known & {tag, f"W/{tag}", "*"}:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=f"{kind}; charset=utf-8", headers=headers)
