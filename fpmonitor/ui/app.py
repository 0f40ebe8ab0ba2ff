"""The addresses of the page, for one user of this machine who has the token."""

from __future__ import annotations

import asyncio
import io
import secrets
import shlex
import zipfile
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, QueryParams
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from fpmonitor.account import summary
from fpmonitor.errors import FpmonitorError, InputError
from fpmonitor.render.answers import overview
from fpmonitor.serve.pages import PAGE_HEADERS, draw_limits, text_refusal
from fpmonitor.ui.asked import DEFAULT_K, OF_API, PageQuestion, column_map_of
from fpmonitor.ui.pages import fragment, page, static_routes
from fpmonitor.ui.words import alone_in_words, sentences, words_of
from fpmonitor.unit import VISITOR_RULE
from fpmonitor.vocabulary import join_names, meanings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from fpmonitor.decide.decision import Decision
    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.render.output import Output
    from fpmonitor.store.accounts import Judged
    from fpmonitor.ui.desk import Desk, Explored

    Handler = Callable[[Request], Awaitable[Response]]

_COOKIE = "fpmonitor_ui"
_LOCAL = {"127.0.0.1", "localhost", "[::1]"}
_JSON = "application/json"
_MOST_BYTES = 4_000_000
_MOST_GROUPS = 20
_MAP = "columns.toml"
_CHOICES = (
    ("API", "an API"),
    ("ignore", "no API: leave out"),
    ("user", "who the user is"),
    ("time", "when it was seen"),
    ("source", "where it was seen"),
    ("weight", "how many users"),
)
_UNITS = (
    ("", "As the log says: its users, if a column names them"),
    ("visitor", f"A visitor: {VISITOR_RULE}"),
    ("row", "Nobody knows: the rows themselves are counted"),
)


def _choices_of(path: str) -> tuple[tuple[str, str], ...]:
    """Return what a member may be said to be; the APIs of its name, where there are several."""
    found = meanings(path)
    return (*((f"{OF_API}{api}", api) for api in found if len(found) > 1), *_CHOICES)


def create_app(desk: Desk, token: str) -> Starlette:
    """Return the application; whoever has the token may ask everything."""
    addresses = _Addresses(desk)
    routes = [
        Route("/", _answered(addresses.page)),
        Route("/account", _answered(addresses.account), methods=["GET", "POST"]),
        Route("/account.json", _answered(addresses.account_json)),
        Route("/map.toml", _answered(addresses.column_map), methods=["POST"]),
        Route("/store", _answered(addresses.store), methods=["POST"]),
        Route("/apis.json", _answered(addresses.apis_json)),
        Route("/apis.csv", _answered(addresses.apis_csv)),
        Route("/alone.json", _answered(addresses.alone_json)),
        Route("/exposure", _answered(addresses.exposure)),
        Route("/exposure.json", _answered(addresses.exposure_json)),
        Route("/why", addresses.decided(addresses.why)),
        Route("/why.json", addresses.decided(addresses.why_json)),
        Route("/decide", _answered(addresses.decide), methods=["POST"]),
        Route("/decision.json", addresses.decided(addresses.decision_json)),
        Route("/lists", addresses.decided(addresses.lists)),
        Route("/lists.json", addresses.decided(addresses.lists_json)),
        Route("/visitor", addresses.decided(addresses.visitor)),
        Route("/list/{name}", addresses.decided(addresses.list_file)),
        *static_routes(),
    ]

    @asynccontextmanager
    async def reading_ahead(app: Starlette) -> AsyncIterator[None]:
        del app
        reading = asyncio.create_task(run_in_threadpool(desk.warm))
        yield
        await reading

    return Starlette(
        routes=routes, middleware=[Middleware(_Owner, token=token)], lifespan=reading_ahead
    )


class _Owner:
    """Lets in who came with the token, under a name of this machine, and from this page.

    The name of the host is checked since a page of a stranger may have its own name point here;
    the origin, since it may send forms.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(scope)) is not None:
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = {
            name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]
        }
        host = headers.get("host", "")
        # Browsers name no port where it is 80.
        if not _LOCAL.intersection((host, host.rpartition(":")[0])):
            return text_refusal(403, "this page is for this machine only")
        origin = headers.get("origin")
        # Compared as it is: to take it apart fails for `http://[`, which anybody can send.
        if scope["method"] != "GET" and (origin or "").partition("://")[2] != host:
            return text_refusal(403, "this came from another page")
        fields = parse_qs(scope["query_string"].decode("latin-1"))
        if "token" in fields:
            return self._opened(scope, fields)
        cookies = headers.get("cookie", "").split("; ")
        wanted = f"{self._cookie(host)}={self._token}"
        # In the same time whatever is sent: else the token could be found letter by letter.
        if any(secrets.compare_digest(one.encode(), wanted.encode()) for one in cookies):
            return None
        return text_refusal(403, "open the address that fpmonitor printed: it has the token")

    def _opened(self, scope: Scope, fields: Mapping[str, list[str]]) -> Response:
        if not secrets.compare_digest(fields["token"][0].encode(), self._token.encode()):
            return text_refusal(403, "this token is not the one that fpmonitor printed")
        rest = QueryParams(scope["query_string"]).multi_items()
        # Out of the address, as that is in histories, and in what people paste.
        parameters = QueryParams([(name, text) for name, text in rest if name != "token"])
        address = scope["path"] + (f"?{parameters}" if parameters else "")
        # Two slashes would be another host.
        answer = RedirectResponse("/" + address.lstrip("/"), 303, headers=PAGE_HEADERS)
        host = Headers(scope=scope)["host"]
        # Strict: a link on a page of others opens nothing with it.
        answer.set_cookie(self._cookie(host), self._token, httponly=True, samesite="strict")
        return answer

    @staticmethod
    def _cookie(host: str) -> str:
        """Name of the cookie: browsers keep one jar for all ports of a host."""
        return f"{_COOKIE}_{host.rpartition(':')[2]}"


class _Addresses:
    """Answers each address from the desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._account: dict[str, str] = {}  # what was last said of the logs
        self._is_stored = not desk.logs

    # ---- The page

    async def page(self, request: Request) -> Response:
        """Show everything; the slow parts ask for themselves."""
        problem = ""
        try:
            question = PageQuestion.of(request.query_params)
        except FpmonitorError as error:
            question, problem = PageQuestion(), str(error)
        stored = await run_in_threadpool(self._desk.stored, question.k)
        decision = await run_in_threadpool(self._desk.decision)
        return page(
            "page.html",
            words=words_of(question, 0 if stored is None else stored.users),
            unit="user" if stored is None else stored.unit,
            name=self._desk.db.name,
            file=self._desk.decision_file.name,
            logs=() if self._is_stored else self._desk.logs,
            asked=question,
            stored=stored,
            decision=decision,
            command="" if decision is None else self._decide_command(decision),
            problem=problem,
            chosen={},
            summary=summary,
            # After the page was sent, so that the first tick does not wait for the users to be
            # read.
            background=BackgroundTask(self._desk.warm),
        )

    # ---- Is this column the API?

    async def account(self, request: Request) -> Response:
        """Show what the members of the logs are, as the form says."""
        self._account = await _form(request) if request.method == "POST" else {}
        column_map, problem = column_map_of(self._account), ""
        planned: dict[str, Judged] = {}
        try:
            planned = await run_in_threadpool(self._desk.plan, column_map)
        except FpmonitorError as error:
            problem = error.message
            # What the members are can be seen all the same, and one of them may name the users.
            as_rows = replace(column_map, columns={"user": "row"} | dict(column_map.columns))
            if as_rows != column_map and not column_map.visitor:
                with suppress(FpmonitorError):
                    planned = await run_in_threadpool(self._desk.plan, as_rows)
        return fragment(
            "account.html",
            planned=planned,
            problem=problem,
            units=_UNITS,
            choices_of=_choices_of,
            row=self._account.get("unit", ""),
            chosen={name.removeprefix("member:"): value for name, value in self._account.items()},
            name=self._desk.db.name,
            command=self._ingest_command(column_map),
            summary=summary,
        )

    async def account_json(self, request: Request) -> Response:
        """Return what the members of the logs are, as was last said, or as was stored."""
        del request
        if self._is_stored:
            stored = await run_in_threadpool(self._desk.stored, DEFAULT_K)
            batches = () if stored is None else stored.batches
            found = {b.source: b.account.to_json() for b in batches if b.account is not None}
        else:
            planned = await run_in_threadpool(self._desk.plan, column_map_of(self._account))
            found = {label: judged.account.to_json() for label, judged in planned.items()}
        return JSONResponse(found, headers=PAGE_HEADERS)

    async def column_map(self, request: Request) -> Response:
        """Return the column map that the form says."""
        column_map = column_map_of(await _form(request))
        text = await run_in_threadpool(self._desk.map_text, column_map)
        return _download(text.encode(), _MAP, "text/plain")

    async def store(self, request: Request) -> Response:
        """Store the logs as the form says."""
        column_map = column_map_of(await _form(request))
        await run_in_threadpool(self._desk.store, column_map)
        self._is_stored = True
        return RedirectResponse("/#question", 303, headers=PAGE_HEADERS)

    # ---- What does a set expose?

    async def apis_json(self, request: Request) -> Response:
        """Return every API alone."""
        del request
        return _download((await self._apis()).text("json").encode(), "apis.json", _JSON)

    async def apis_csv(self, request: Request) -> Response:
        """Return every API alone."""
        del request
        return _download((await self._apis()).text("csv").encode(), "apis.csv", "text/csv")

    async def _apis(self) -> Output:
        """Return what `fpmonitor db apis` prints: cells that a spreadsheet would run are quoted."""
        stored = await run_in_threadpool(self._desk.stored, DEFAULT_K)
        return overview(() if stored is None else stored.apis, DEFAULT_K)

    async def exposure(self, request: Request) -> Response:
        """Show what the ticked APIs expose; what was counted first, where limits take longer."""
        question = PageQuestion.of(request.query_params)
        # The answer that was counted asks for the rest by itself, with `whole`.
        at_once = "whole" not in request.query_params
        explored = await run_in_threadpool(self._desk.explore, question, at_once=at_once)
        return fragment(
            "exposure.html",
            unit=explored.unit,
            asked=question,
            chart=""
            if explored.exposure is None
            else draw_limits(explored.exposure, question.budget),
            explored=explored,
            most=_MOST_GROUPS,
            command=self._exposure_command(question, explored),
            python=self._exposure_python(question, explored),
            told=sentences(explored, question),
        )

    async def alone_json(self, request: Request) -> Response:
        """Return what is said beside each API."""
        question = PageQuestion.of(request.query_params)
        found = await run_in_threadpool(self._desk.alone, question)
        in_words = {api: alone_in_words(share) for api, share in found.items()}
        return JSONResponse(in_words, headers=PAGE_HEADERS)

    async def exposure_json(self, request: Request) -> Response:
        """Return what the ticked APIs expose."""
        question = PageQuestion.of(request.query_params)
        explored = await run_in_threadpool(self._desk.explore, question)
        found = asdict(question) | asdict(explored)
        return JSONResponse(found, headers=PAGE_HEADERS)

    # ---- What follows?

    def decided(self, handler: Callable[..., Awaitable[Response]]) -> Handler:
        """Hand on the decision, and what the address names; before there is one, say so."""

        async def answered(request: Request) -> Response:
            decision = await run_in_threadpool(self._desk.decision)
            if decision is None:
                return text_refusal(404, "nothing is decided yet")
            return await handler(decision, **request.path_params)

        return _answered(answered)

    async def decide(self, request: Request) -> Response:
        """Decide the ticked APIs."""
        question = PageQuestion.of(QueryParams((await _form(request)).get("asked", "")))
        await run_in_threadpool(self._desk.decide, question)
        return RedirectResponse(question.address() + "#lists", 303, headers=PAGE_HEADERS)

    async def decision_json(self, decision: Decision) -> Response:
        """Return the decision."""
        del decision  # as its file has it
        return _download(self._desk.decision_file.read_bytes(), "decision.json", _JSON)

    async def lists(self, decision: Decision) -> Response:
        """Show what each product would hide."""
        found, is_current = await run_in_threadpool(self._desk.lists, decision)
        command = self._export_command("ublock")
        return fragment("lists.html", lists=found, is_current=is_current, command=command)

    async def lists_json(self, decision: Decision) -> Response:
        """Return what each product would hide."""
        found, _ = await run_in_threadpool(self._desk.lists, decision)
        rows = []
        for one in found:
            headline = one.result.headline if one.result else None
            row: dict[str, Any] = {"name": one.name, "problem": one.problem, "breaks": one.breaks}
            rows.append(row | ({} if headline is None else asdict(headline)))
        return JSONResponse(rows, headers=PAGE_HEADERS)

    async def why(self, decision: Decision) -> Response:
        """Show why APIs are withheld, and what would change that."""
        found = await run_in_threadpool(self._desk.withheld, decision)
        return fragment("why.html", found=found, decision=decision, unit=decision.unit)

    async def why_json(self, decision: Decision) -> Response:
        """Return why APIs are withheld, and what would change that."""
        found = await run_in_threadpool(self._desk.withheld, decision)
        return JSONResponse([one.to_json() for one in found], headers=PAGE_HEADERS)

    async def visitor(self, decision: Decision) -> Response:
        """Show the page for visitors, whose own policy lets it send nothing."""
        result = await run_in_threadpool(self._desk.list_of, decision, "visitor-page")
        policy = {"Content-Security-Policy": "frame-ancestors 'none'", "Cache-Control": "no-store"}
        return HTMLResponse(result.text, headers=PAGE_HEADERS | policy)

    async def list_file(self, decision: Decision, name: str) -> Response:
        """Return one list: a file, or an archive of several."""
        result = await run_in_threadpool(self._desk.list_of, decision, name)
        if not result.files:
            ending = "html" if name == "visitor-page" else "txt"
            return _download(result.text.encode(), f"{name}.{ending}", "text/plain")
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for file, text in result.files.items():
                archive.writestr(file, text)
        return _download(packed.getvalue(), f"{name}.zip", "application/zip")

    # ---- The commands for this

    def _ingest_command(self, column_map: ColumnMap) -> str:
        words = ["fpmonitor", "ingest", *self._desk.logs, "--db", str(self._desk.db)]
        if "source" in column_map.columns:  # which no option says: the map is to be downloaded
            return shlex.join([*words, "--columns", _MAP])
        for field, name in column_map.columns.items():
            words += [f"--{field}", name]
        words += ["--visitor"] * column_map.visitor
        for name in sorted(column_map.ignore):
            words += ["--ignore", name]
        for name, api in column_map.apis.items():
            words += ["--as", f"{name}={api}"]
        return shlex.join(words)

    def _exposure_command(self, page_question: PageQuestion, explored: Explored) -> str:
        words = ["fpmonitor", "exposure", "--apis", join_names(explored.apis)]
        words += ["--k", str(page_question.k), "--db", str(self._desk.db)]
        words += ["--population", str(page_question.population)] * (
            page_question.population is not None
        )
        words += ["--rows-are-users"] * page_question.rows_are_users
        words += ["--given", join_names([page_question.given])] * bool(page_question.given)
        return shlex.join(words)

    def _exposure_python(self, page_question: PageQuestion, explored: Explored) -> str:
        keeper, size, taken = "log", "n", ""
        if page_question.rows_are_users:  # which a `Log` cannot be told
            keeper, size = "log.monitor", "population"
            taken = ", sample=fp.SampleModel(rows_are_users=True)"
        population = page_question.population
        named = "" if population is None else f", {size}={population}"
        given = f", given=[{page_question.given!r}]" if page_question.given else ""
        asked = f"[{list(explored.apis)!r}], k={page_question.k}{named}{taken}{given}"
        return (
            "import fpmonitor as fp\n\n"
            f"log = fp.Log({str(self._desk.db)!r})\n"
            f"{keeper}.exposure({asked})"
        )

    def _decide_command(self, decision: Decision) -> str:
        policy = decision.policy
        words = ["fpmonitor", "decide", "--candidates", join_names(policy.candidates)]
        words += ["--k", str(policy.k), "--population", str(policy.population)]
        words += ["--budget", repr(policy.budget), "--db", str(self._desk.db)]
        words += ["--rows-are-users"] * policy.sample.rows_are_users
        return shlex.join([*words, "-o", str(self._desk.decision_file)])

    def _export_command(self, name: str) -> str:
        words = ["fpmonitor", "export", str(self._desk.decision_file), "--to", name]
        return shlex.join([*words, "--db", str(self._desk.db), "-o", f"{name}.txt"])


async def _form(request: Request) -> dict[str, str]:
    """Read a form, without files: `parse_qs` needs no library of its own."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        # While it comes in: a length that is stated may be wrong, or missing.
        if len(body) > _MOST_BYTES:
            raise InputError(f"a form of more than {_MOST_BYTES:,} bytes")
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
    return {name: values[-1] for name, values in fields.items()}


def _download(content: bytes, name: str, kind: str) -> Response:
    headers = PAGE_HEADERS | {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=kind, headers=headers)


def _answered(handler: Handler) -> Handler:
    """Answer; a user-fixable error is one line on the page."""

    async def answered(request: Request) -> Response:
        try:
            return await handler(request)
        except FpmonitorError as error:
            return fragment("problem.html", status=422, problem=str(error))

    return answered
