"""The roles over HTTP, as ASGI applications.

They log no address, no query and no body.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from fpmonitor.errors import FpmonitorError, InputError, StoreError, install
from fpmonitor.private.binary_http import Response as InnerResponse
from fpmonitor.private.binary_http import decode_request
from fpmonitor.private.files import decode
from fpmonitor.private.keys import SealError, read_secret_keys
from fpmonitor.private.ohttp import (
    KEYS_TYPE,
    REQUEST_TYPE,
    RESPONSE_TYPE,
    UnknownKeyError,
    encode_keys,
    open_request,
)
from fpmonitor.private.recipient import WrongKeysError
from fpmonitor.private.shuffler import PoolFullError
from fpmonitor.private.status import status_of
from fpmonitor.private.store import ClosedAsk, ConflictError, PublishedAsk
from fpmonitor.private.study import MAX_FILE_BYTES, CollectionRequest
from fpmonitor.private.transport import BYTES_TYPE
from fpmonitor.private.wire import MAX_BATCH_BYTES
from fpmonitor.safe_files import state_of_file
from fpmonitor.serve.auth import AuthGuard, Refusal
from fpmonitor.serve.group_commit import GroupCommit

try:
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.cors import CORSMiddleware
    from starlette.responses import Response
    from starlette.routing import Route
except ImportError as error:
    raise InputError(f"the services need {error.name}", hint=install("private,serve")) from error

from fpmonitor.private.recipient import Recipient
from fpmonitor.private.shuffler import Shuffler
from fpmonitor.private.store import Receipt, RoleStore
from fpmonitor.serve.requests import (
    HEADERS,
    BodyBudget,
    RefusedRequestError,
    read_body,
    refusal_of,
    refused,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from fpmonitor.private.delivery import Delivery

    Handler = Callable[[Request], Awaitable[Response]]

LOG = logging.getLogger("fpmonitor.private")
CONFIGS_TYPE = "application/ppm-dap;message=hpke-config-list"
MAX_UPLOADS_BYTES = 4_000_000
FULL_SECONDS = 60
GROUP_BYTES = 16_000_000

_KEY_PROBLEM = "https://iana.org/assignments/http-problem-types#ohttp-key"


def shuffler_app(
    shuffler: Shuffler,
    *,
    password: str,
    keys: Path | None = None,
    delivery: Delivery | None = None,
    origins: Sequence[str] = (),
) -> Starlette:
    """Return the application of the shuffler.

    Args:
        password: What the curator presents to add or close a request and to see the status.
        keys: File of its keys, which is read again whenever it was replaced.
        delivery: Sends the batches; without it they wait in the store.
        origins: Origins of pages that may send uploads; `*` for any.
    """
    service = _ShufflerService(shuffler, delivery)
    shared = _Shared(shuffler, password)
    close = _answered(shared.authorised(service.close_ask))
    middleware = _fresh_keys(shuffler, keys)
    if origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(origins),
                allow_methods=["GET", "POST"],
                allow_headers=["Content-Type"],
                max_age=3600,
            )
        )
    return Starlette(
        routes=[
            *(Route(path, _answered(service.public)) for path in _PUBLIC_PATHS),
            Route("/asks", _answered(shared.authorised(shared.add_ask)), methods=["POST"]),
            Route("/asks/{ask}/close", close, methods=["POST"]),
            Route("/asks/{ask}/drop", close, methods=["POST"]),
            Route("/uploads", _answered(service.uploads), methods=["POST"]),
            Route("/ohttp", _answered(service.ohttp), methods=["POST"]),
            Route("/status", _answered(shared.authorised(shared.status))),
        ],
        middleware=middleware,
        lifespan=service.alive,
    )


def recipient_app(recipient: Recipient, *, password: str, keys: Path | None = None) -> Starlette:
    """Return the application of the curator or the analyst.

    Adding a request, delivering a batch and reading the status require the password. `keys` is the
    file of its keys, which is read again whenever it was replaced.
    """
    shared = _Shared(recipient, password)
    service = _RecipientService(recipient)
    return Starlette(
        routes=[
            Route("/hpke_config", _answered(service.hpke_config)),
            Route("/keys", _answered(service.keys)),
            Route("/asks", _answered(shared.authorised(shared.add_ask)), methods=["POST"]),
            Route(
                "/asks/{ask}/close", _answered(shared.authorised(service.close)), methods=["POST"]
            ),
            Route("/batches", _answered(shared.authorised(service.batches)), methods=["POST"]),
            Route("/status", _answered(shared.authorised(shared.status))),
        ],
        middleware=_fresh_keys(recipient, keys),
    )


def _fresh_keys(role: Shuffler | Recipient, keys: Path | None) -> list[Middleware]:
    return [] if keys is None else [Middleware(_FreshKeys, role=role, path=keys)]


class _FreshKeys:
    """Rereads the keys of a role, before the next request, when their file was replaced.

    So a message sealed for a new key can be opened as soon as the key is written.
    """

    def __init__(self, app: ASGIApp, *, role: Shuffler | Recipient, path: Path) -> None:
        self._app = app
        self._role = role
        self._path = path
        # Unlike the state of any file: the first request reads it.
        self._seen: tuple[int, ...] | None = ()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self._refresh()
        await self._app(scope, receive, send)

    def _refresh(self) -> None:
        found = state_of_file(self._path)
        if found == self._seen:
            return
        # Before reading: a broken file is told once, not with each request.
        self._seen = found
        try:
            ring = read_secret_keys(self._path)
            if ring.configs != self._role.ring.configs:
                self._role.use_keys(ring)
                LOG.info("keys %s from now on", ", ".join(str(key.id) for key in ring.keys))
        except InputError as error:
            LOG.error("the keys stay as they were: %s", error)  # noqa: TRY400 -- no bug of ours


def _answered(handler: Handler) -> Handler:
    """Answer errors as JSON."""

    async def answered(request: Request) -> Response:
        try:
            return await handler(request)
        except (RefusedRequestError, FpmonitorError) as error:
            return refused(*_refusal_of(error))

    return answered


class _Shared:
    """What all roles do for callers with the password."""

    def __init__(self, role: Shuffler | Recipient, password: str) -> None:
        self._role = role
        self._guard = AuthGuard(
            lambda given: hmac.compare_digest(given.encode(), password.encode()), name="password"
        )

    def authorised(self, handler: Handler) -> Handler:
        """Answer only callers that present the password."""

        async def authorised(request: Request) -> Response:
            refusal = self._guard.refusal(request)
            return await handler(request) if refusal is None else refused(*refusal)

        return authorised

    async def add_ask(self, request: Request) -> Response:
        body = await read_body(request, MAX_FILE_BYTES, ("application/json", BYTES_TYPE))
        ask = CollectionRequest.from_bytes(body)
        store = self._role.store
        store.check_open(ask.id)
        new = ask.id not in store.asks
        await asyncio.to_thread(self._role.add_ask, ask)
        return _json(PublishedAsk(id=ask.id.hex(), new=new), 201 if new else 200)

    async def status(self, request: Request) -> Response:
        del request
        return _json(status_of(self._role))


class _RecipientService:
    def __init__(self, recipient: Recipient) -> None:
        self._recipient = recipient

    async def hpke_config(self, request: Request) -> Response:
        del request
        return _bytes(self._recipient.ring.configs, CONFIGS_TYPE)

    async def keys(self, request: Request) -> Response:
        del request
        return _bytes(self._recipient.ring.public.to_bytes(), "application/json")

    async def batches(self, request: Request) -> Response:
        body = await read_body(request, MAX_BATCH_BYTES, (BYTES_TYPE,))
        return _json(await asyncio.to_thread(self._recipient.take, body))

    async def close(self, request: Request) -> Response:
        ask_id = _known_ask(self._recipient.store, request.path_params["ask"])
        body = await read_body(request, MAX_FILE_BYTES, ("application/json", BYTES_TYPE))
        closed = decode(body, ClosedAsk, "closed request")
        await asyncio.to_thread(self._recipient.close_ask, ask_id, closed.passed_on)
        return _json(closed)


_PUBLIC_PATHS = ("/hpke_config", "/keys", "/ohttp-keys", "/study", "/asks", "/asks/{ask}")


class _ShufflerService:
    def __init__(self, shuffler: Shuffler, delivery: Delivery | None) -> None:
        self._shuffler = shuffler
        self._delivery = delivery
        self._intake = _Intake(shuffler, self._released)
        self._room = BodyBudget()

    @asynccontextmanager
    async def alive(self, app: Starlette) -> AsyncIterator[None]:
        """Take uploads and deliver batches while the application runs."""
        del app
        task = asyncio.create_task(self._intake.run())
        if self._delivery is not None:
            self._delivery.start()
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            if self._delivery is not None:
                await asyncio.to_thread(self._delivery.stop)

    def _released(self) -> None:
        if self._delivery is not None:
            self._delivery.wake()

    # ---- Public

    async def public(self, request: Request) -> Response:
        content_type, content = self._document(request.scope["path"])
        return _bytes(content, content_type)

    def _document(self, path: str) -> tuple[str, bytes]:
        """Return the content at a public path."""
        store = self._shuffler.store
        match path.strip("/").split("/"):
            case ["hpke_config"]:
                return CONFIGS_TYPE, self._shuffler.ring.configs
            case ["keys"]:
                return "application/json", self._shuffler.ring.public.to_bytes()
            case ["ohttp-keys"]:
                return KEYS_TYPE, encode_keys(key.config for key in self._shuffler.ring.keys)
            case ["study"]:
                return "application/json", store.study.to_bytes()
            case ["asks"]:
                asks = [
                    {
                        "id": ask.id.hex(),
                        "epoch": ask.epoch,
                        "round": ask.round,
                        "recipient": ask.recipient,
                        "open": not store.is_closed(ask.id),
                    }
                    for ask in store.asks.values()
                ]
                return "application/json", json.dumps(asks).encode()
            case ["asks", ask_id]:
                return "application/json", store.asks[_known_ask(store, ask_id)].to_bytes()
            case _:
                raise RefusedRequestError(404, "not found")

    # ---- Uploads

    async def uploads(self, request: Request) -> Response:
        with self._room.one() as room:
            # A page that sends bytes names no type, so that the browser need not ask first.
            body = await read_body(request, MAX_UPLOADS_BYTES, (BYTES_TYPE, ""), room)
            return _json(await self._intake.take(body))

    async def ohttp(self, request: Request) -> Response:
        with self._room.one() as room:
            body = await read_body(request, MAX_UPLOADS_BYTES, (REQUEST_TYPE,), room)
            try:
                inner, exchange = open_request(body, self._shuffler.ring.by_id())
            except UnknownKeyError:
                problem = {"type": _KEY_PROBLEM, "title": "key identifier unknown"}
                return _bytes(json.dumps(problem).encode(), "application/problem+json", 400)
            except SealError as error:
                raise RefusedRequestError(400, error.message) from error
            answer = await self._inner(inner)
            return _bytes(exchange.seal_response(answer.encode()), RESPONSE_TYPE)

    async def _inner(self, data: bytes) -> InnerResponse:
        """Answer a request through the relay; errors, too, so that the relay sees none."""
        try:
            request = decode_request(data)
            if request.method == "POST" and request.path == "/uploads":
                receipt = await self._intake.take(request.content)
                content_type, content = "application/json", msgspec.json.encode(receipt)
            elif request.method == "GET":
                content_type, content = self._document(request.path)
            else:
                raise RefusedRequestError(404, "not found")  # noqa: TRY301
        except (RefusedRequestError, FpmonitorError) as error:
            return _inner_error(_refusal_of(error))
        return InnerResponse(200, (("content-type", content_type),), content)

    async def close_ask(self, request: Request) -> Response:
        ask_id = _known_ask(self._shuffler.store, request.path_params["ask"])
        drop = request.url.path.endswith("/drop")
        closed = await asyncio.to_thread(self._shuffler.close_ask, ask_id, drop=drop)
        self._released()
        return _json(closed)


class _Intake:
    """Uploads that wait together share one commit and are answered after it."""

    def __init__(self, shuffler: Shuffler, released: Callable[[], None]) -> None:
        self._shuffler = shuffler
        self._released = released
        self._queue = GroupCommit(self._commit, size=len, most_bytes=GROUP_BYTES)

    async def take(self, body: bytes) -> Receipt:
        """Store uploads; returns when they are on disk.

        Raises:
            RefusedRequestError: The store is full.
            StoreError: They could not be written.
        """
        try:
            return await self._queue.put(body)
        except PoolFullError as error:
            raise RefusedRequestError(503, error.message, retry_after=FULL_SECONDS) from error

    async def run(self) -> None:
        """Write what waits, in groups, until cancelled."""
        await self._queue.run()

    async def _commit(self, bodies: list[bytes]) -> list[Receipt]:
        return await asyncio.to_thread(self._write, bodies)

    def _write(self, bodies: list[bytes]) -> list[Receipt]:
        receipts = self._shuffler.take(bodies)
        if self._shuffler.release():
            self._released()
        return receipts


def _known_ask(store: RoleStore, text: str) -> bytes:
    try:
        ask_id = bytes.fromhex(text)
    except ValueError:
        ask_id = b""
    if ask_id not in store.asks:
        raise RefusedRequestError(404, "no such request")
    return ask_id


def _bytes(content: bytes, content_type: str, status: int = 200) -> Response:
    return Response(content, status, HEADERS | {"Content-Type": content_type})


def _json(content: Any, status: int = 200) -> Response:
    return _bytes(msgspec.json.encode(content), "application/json", status)


def _refusal_of(error: RefusedRequestError | FpmonitorError) -> Refusal:
    """Say an error as the service does, but for what roles alone refuse."""
    if isinstance(error, StoreError):  # its message holds a path
        LOG.error("the store cannot be used", exc_info=error)
        later = {"Retry-After": str(FULL_SECONDS)}
        return Refusal(503, "messages cannot be stored now", later)
    if isinstance(error, WrongKeysError | ConflictError):
        return Refusal(409, str(error))
    return refusal_of(error) if isinstance(error, RefusedRequestError) else Refusal(400, str(error))


def _inner_error(refusal: Refusal) -> InnerResponse:
    content = json.dumps({"error": refusal.reason}).encode()
    later = ((name.lower(), value) for name, value in (refusal.headers or {}).items())
    return InnerResponse(refusal.status, (("content-type", "application/json"), *later), content)
