"""The addresses of the service, as an ASGI application."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import cache, partial
from http import HTTPStatus
from importlib import resources
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route

from fpmonitor.errors import FpmonitorError
from fpmonitor.serve.asked import Flights, ForwardedRequest
from fpmonitor.serve.asking import Apart, Here
from fpmonitor.serve.auth import ASK_FOR_TOKEN, write_key
from fpmonitor.serve.below import asked_app
from fpmonitor.serve.dashboard import PEOPLE
from fpmonitor.serve.door import Door
from fpmonitor.serve.log import log
from fpmonitor.serve.pages import refused_as_text, service_files
from fpmonitor.serve.programs import GAUGES, PROGRAMS
from fpmonitor.serve.questions import Questions
from fpmonitor.serve.records import (
    Arrival,
    observations_of,
    reports_of,
    split_records,
    unpacked,
)
from fpmonitor.serve.requests import (
    HEADERS,
    MAX_UNDER_WAY_BYTES,
    Body,
    BodyBudget,
    KnownMembers,
    RefusedRequestError,
    answered,
    read_body,
)
from fpmonitor.serve.service import Service
from fpmonitor.store.files import state_of_database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from fpmonitor.serve.config import ServeConfig

    Reads = Callable[[Service, Request, list[bytes], str, set[str]], Arrival]

_QUIET_SECONDS = 60.0
_GAUGES_SECONDS = 2.0  # for which `/metrics` waits for the database
# What may stand behind `?`.
MEMBERS: dict[str, tuple[str, ...]] = {
    "/v1/observations": ("key",),
    "/v1/reports": ("key",),
    "/v1/gate": ("have", "want"),
    "/v1/decision": (),
    "/v1/exposure": ("apis",),
    "/v1/openapi.json": (),
    "/metrics": (),
    "/healthz": (),
    "/": ("api",),
    "/dashboard/live": (),
    "/dashboard/apis": (),
    "/dashboard/explore": ("api",),
    "/login": (),
    "/logout": (),
}
_FIRST_SECONDS = 5.0  # for what an earlier service has left, before requests are taken


def service_app(
    config: ServeConfig, *, key_file: Path | None = None, apart: bool = False
) -> Starlette:
    """Return the application.

    Args:
        key_file: Holds the key of an encrypted database.
        apart: Whether a process of its own has the database, so that readers take no time from
            senders.
    """
    questions = Questions(config, key_file=key_file)
    store = Apart(config, key_file) if apart else Here(questions, asked_app(questions))
    service = Service(config, store, key_file=key_file)
    flights = Flights(
        store.respond,
        lambda: state_of_database(config.db),
        by_reader=config.query_limit is not None,
    )
    door = Door(service, flights)
    # Where the settings allow bodies above the usual bound of all, four of them still fit.
    room = BodyBudget(max(MAX_UNDER_WAY_BYTES, 4 * config.max_body_bytes))
    collect = {
        "/v1/observations": _Collect(service, room, _observations),
        "/v1/reports": _Collect(service, room, _reports),
    }
    # The first is the outermost: what the others refuse is counted, too, and senders who are taken
    # before all routes still get the header fields of CORS.
    middleware = [Middleware(_Watched, service=service)]
    if config.origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(config.origins),
                allow_methods=["POST"],
                allow_headers=["Authorization", "Content-Encoding", "Content-Type"],
                max_age=3600,
            )
        )
    middleware.append(Middleware(KnownMembers, members=MEMBERS))
    middleware.append(Middleware(_SendersFirst, collect=collect))
    app = Starlette(
        routes=[
            *(Route(path, one, methods=["POST"]) for path, one in collect.items()),
            *(Route(path, answered(door.for_programs)) for path in PROGRAMS),
            Route("/v1/openapi.json", _openapi),
            Route("/metrics", answered(partial(_metrics, service, flights, door))),
            Route("/healthz", partial(_health, service, door)),
            *(Route(path, answered(door.for_people, refused_as_text)) for path in PEOPLE),
            Route("/login", answered(door.login, refused_as_text), methods=["GET", "POST"]),
            Route("/logout", door.logout, methods=["POST"]),
            *service_files(),
        ],
        middleware=middleware,
        lifespan=partial(_alive, service, store),
    )
    app.state.service, app.state.questions = service, questions
    return app


@asynccontextmanager
async def _alive(service: Service, store: Here | Apart, app: Starlette) -> AsyncIterator[None]:
    """Write and store in the background; at the end store what is left."""
    del app
    first = asyncio.create_task(service.move())
    # Without records senders would wait for nothing but the start of the process below.
    if service.spool.waiting_bytes or isinstance(store, Here):
        # The database may be another's for hours.
        await asyncio.wait([first], timeout=_FIRST_SECONDS)
    for work in (service.spool.run(), service.move_for_ever()):
        service.tasks.append(asyncio.create_task(work))
    log("started")
    try:
        yield
    finally:
        # In this order: nothing else moves while what is left is stored, and the spool outlives the
        # process that reads its segments.
        for task in (first, *service.tasks):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await service.move()
        await store.close()
        service.spool.close()
        log("stopped")


class _Collect:
    """Takes records at one address: 202 means that they are on disk.

    `room` is what all bodies may have, `read` what makes typed records of those of a source and
    adds the API names that they bring to a set.
    """

    def __init__(self, service: Service, room: BodyBudget, read: Reads) -> None:
        self._service, self._room, self._read = service, room, read
        self._answer = answered(self._taken)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        response = await self._answer(Request(scope, receive))
        await response(scope, receive, send)

    async def _taken(self, request: Request) -> Response:
        if not self._may_come_from(request.headers.get("origin")):
            raise RefusedRequestError(403, "pages of this origin may not send records")
        source = self._service.source_of(write_key(request))
        if source is None:
            raise RefusedRequestError(401, "a write key is needed", ASK_FOR_TOKEN)
        with self._room.one(source) as room:
            return await self._kept(request, source, room)

    async def _kept(self, request: Request, source: str, room: Body) -> Response:
        service = self._service
        body = await read_body(request, service.config.max_body_bytes, _BODY_TYPES, room)
        encoding = request.headers.get("content-encoding", "").strip().lower()
        body = unpacked(body, encoding, service.config.max_body_bytes)
        records = split_records(body, service.config.max_records)
        names = set[str]()
        found = self._read(service, request, records, source, names)
        wait = service.accounts.seconds_to_wait(source, found.records)
        if wait:
            raise RefusedRequestError(429, "too much at once", retry_after=wait)
        # Before anything is awaited: requests at the same time would have the same room.
        service.accounts.count_names(source, names)
        try:
            await service.spool.append(source, found.contents)
        except OSError as error:
            log("disk", reason="the spool cannot be written")
            raise RefusedRequestError(503, "records cannot be kept now", retry_after=60) from error
        for content in found.contents:
            service.metrics.accepted.add(content.kind, amount=len(content.records))
        answer = b'{"accepted":%d,"refused":%d}' % (found.records, found.refused)
        return Response(answer, 202, HEADERS, media_type="application/json")

    def _may_come_from(self, origin: str | None) -> bool:
        allowed = self._service.config.origins
        return origin is None or "*" in allowed or origin in allowed


def _observations(
    service: Service, request: Request, records: list[bytes], source: str, names: set[str]
) -> Arrival:
    """Read records; API names that they bring are added to `names`."""
    headers = {
        f"http:{name}": request.headers[name]
        for name in service.config.headers
        if name in request.headers
    }
    takes = partial(service.accounts.takes_names, source, brought=names)
    return observations_of(records, time=_now(), source=source, headers=headers, takes_names=takes)


def _reports(
    _service: Service, _request: Request, records: list[bytes], source: str, _names: set[str]
) -> Arrival:
    return reports_of(records, time=_now(), source=source)


class _SendersFirst:
    """Takes records before what only pages and questions need: a tenth of a request's time."""

    def __init__(self, app: ASGIApp, collect: Mapping[str, _Collect]) -> None:
        self._app, self._collect = app, collect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_sent = scope["type"] == "http" and scope["method"] == "POST"
        app = self._collect.get(scope["path"], self._app) if is_sent else self._app
        await app(scope, receive, send)


def _now() -> str:
    return f"{datetime.now(UTC).isoformat(timespec='microseconds')[:-6]}Z"


# `text/plain` is what a beacon, or a page that wants no preflight request, may send.
_BODY_TYPES = (
    "application/json",
    "application/x-ndjson",
    "application/reports+json",
    "application/csp-report",
    "text/plain",
)


async def _metrics(service: Service, flights: Flights, door: Door, request: Request) -> Response:
    door.reader(request)
    text = service.metrics.text()
    # What waits is told also while another has the database, or users are read for the first time.
    with suppress(FpmonitorError, RefusedRequestError, TimeoutError):
        async with asyncio.timeout(_GAUGES_SECONDS):
            response = await flights.answer_to(
                ForwardedRequest(GAUGES, b"", "http", b"", ""), GAUGES
            )
            text += response.body if response.status == HTTPStatus.OK else b""
    return Response(text, media_type="text/plain; version=0.0.4", headers=HEADERS)


async def _health(service: Service, door: Door, request: Request) -> Response:
    """Whether records are taken, else 503; `ok` only if those that were taken can be stored.

    Who may not read is told no figures: they are the lengths of what others send.
    """
    status = service.status
    status_members: dict[str, object] = {"status": status}
    with suppress(RefusedRequestError):
        door.reader(request)
        status_members |= service.metrics.backlog
    return JSONResponse(
        status_members, status_code=503 if status in {"full", "failing"} else 200, headers=HEADERS
    )


@cache
def openapi_document() -> bytes:
    """Describe the addresses for programs: OpenAPI 3.1, JSON."""
    return (resources.files("fpmonitor.serve") / "openapi.json").read_bytes()


async def _openapi(request: Request) -> Response:
    del request
    return Response(openapi_document(), media_type="application/json", headers=HEADERS)


class _Watched:
    """Counts, times and logs requests by their route: never their query, body or address."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service
        self._refused: dict[tuple[str, int], tuple[float, int]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            self._note(scope, status, time.perf_counter() - started)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = _route_of(scope)
        self._service.metrics.note_request(route, status, seconds)
        if status >= 400:
            self._log(route, status)

    def _log(self, route: str, status: int) -> None:
        """Log refused requests, those of a route and status once a minute: anybody can cause them.

        `times` is how many there were since the last line.
        """
        last, times = self._refused.get((route, status), (-math.inf, 0))
        now, times = time.monotonic(), times + 1
        if now - last >= _QUIET_SECONDS:
            log("request", route=route, status=status, times=times)
            last, times = now, 0
        self._refused[route, status] = last, times


def _route_of(scope: Scope) -> str:
    """Return the path of the route that answered; all other requests are counted together."""
    app: Any = scope.get("app")
    path = scope["path"]
    for route in app.routes if app is not None else ():
        if route.path == path or route.matches(scope)[0] is not Match.NONE:
            return str(route.path)
    return "other"
