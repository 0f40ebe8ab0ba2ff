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
from fpmonitor.private.shuffler import PoolFullError
from fpmonitor.private.status import status_of
from fpmonitor.private.store import ClosedAsk, ConflictError, PublishedAsk
from fpmonitor.private.study import MAX_FILE_BYTES, CollectionRequest
from fpmonitor.private.transport import BYTES_TYPE
from fpmonitor.private.wire import MAX_BATCH_BYTES
from fpmonitor.safe_files import state_of_file
from fpmonitor.serve.group_commit import GroupCommit

try:
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.cors import CORSMiddleware
    from starlette.responses import Response
    from starlette.routing import Route
except ImportError as error:
    raise InputError(f"the services need {error.name}", hint=install("private,serve")) from error

from fpmonitor.serve.auth import AuthGuard
from fpmonitor.serve.requests import (
    HEADERS,
    BodyBudget,
    RefusedRequestError,
    answered,
    read_body,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from starlette.requests import Request

    from fpmonitor.private.delivery import Delivery
    from fpmonitor.private.recipient import Recipient
    from fpmonitor.private.shuffler import Shuffler
    from fpmonitor.private.store import Receipt
    from fpmonitor.serve.requests import Handler

LOG = logging.getLogger("fpmonitor.private")
CONFIGS_TYPE = "application/ppm-dap;message=hpke-config-list"
MAX_UPLOADS_BYTES = 4_000_000
FULL_SECONDS = 60
GROUP_BYTES = 16_000_000

_KEY_PROBLEM = "https://iana.org/assignments/http-problem-types#ohttp-key"
_JSON_TYPES = ("application/json", BYTES_TYPE)


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
    service = _ShufflerService(shuffler, password, keys, delivery)
    middleware = []
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
            *(
                service.route(path, service.public)
                for path in ("/ohttp-keys", "/study", "/asks", "/asks/{ask}")
            ),
            service.route("/asks/{ask}/close", service.close, "POST", needs_password=True),
            service.route("/asks/{ask}/drop", service.close, "POST", needs_password=True),
            service.route("/uploads", service.uploads, "POST"),
            service.route("/ohttp", service.ohttp, "POST"),
            *service.shared_routes(),
        ],
        middleware=middleware,
        lifespan=service.alive,
    )


def recipient_app(recipient: Recipient, *, password: str, keys: Path | None = None) -> Starlette:
    """Return the application of the curator or the analyst.

    Adding a request, delivering a batch and reading the status require the password. `keys` is the
    file of its keys, which is read again whenever it was replaced.
    """
    service = _RecipientService(recipient, password, keys)
    return Starlette(
        routes=[
            service.route("/asks/{ask}/close", service.close, "POST", needs_password=True),
            service.route("/batches", service.batches, "POST", needs_password=True),
            *service.shared_routes(),
        ]
    )


class _RoleService:
    """What all roles do, for anybody and for callers with the password."""

    def __init__(self, role: Shuffler | Recipient, password: str, keys: Path | None) -> None:
        self._role = role
        self._guard = AuthGuard(
            lambda given: hmac.compare_digest(given.encode(), password.encode()), name="password"
        )
        self._keys = keys
        # Unlike the state of any file: the first request reads it.
        self._seen: tuple[int, ...] | None = ()

    def shared_routes(self) -> list[Route]:
        """Return the addresses that all roles have."""
        return [
            self.route("/hpke_config", self.public),
            self.route("/keys", self.public),
            self.route("/asks", self.add_ask, "POST", needs_password=True),
            self.route("/status", self.status, needs_password=True),
        ]

    def route(
        self, path: str, handler: Handler, method: str = "GET", *, needs_password: bool = False
    ) -> Route:
        """Return an address; errors are answered as JSON."""

        async def handled(request: Request) -> Response:
            self._refresh_keys()
            if needs_password:
                self._guard.check(request)
            # Only here: uploads see what was closed in their own transaction, and the rest, which
            # anybody may ask for, need not read the store.
            if path.startswith("/asks"):
                await self.refresh()
            return await handler(request)

        return Route(path, answered(handled, refusal=_refusal_of), methods=[method])

    def _refresh_keys(self) -> None:
        """Reread the keys when their file was replaced.

        So a message sealed for a new key can be opened as soon as the key is written.
        """
        if self._keys is None or (found := state_of_file(self._keys)) == self._seen:
            return
        # Before reading: a broken file is told once, not with each request.
        self._seen = found
        try:
            ring = read_secret_keys(self._keys)
            if ring.configs != self._role.ring.configs:
                self._role.use_keys(ring)
                LOG.info("keys %s from now on", ", ".join(str(key.id) for key in ring.keys))
        except InputError as error:
            LOG.error("the keys stay as they were: %s", error)  # noqa: TRY400 -- no bug of ours

    async def public(self, request: Request) -> Response:
        content_type, content = self.document(request.scope["path"])
        return _bytes(content, content_type)

    async def refresh(self) -> None:
        """Take in the requests that a command beside the service added or closed."""
        await asyncio.to_thread(self._role.store.refresh)

    def document(self, path: str) -> tuple[str, bytes]:
        """Return type and content at a public path."""
        match path.strip("/"):
            case "hpke_config":
                return CONFIGS_TYPE, self._role.ring.configs
            case "keys":
                return "application/json", self._role.ring.public.to_bytes()
            case _:
                raise RefusedRequestError(404, "not found")

    async def add_ask(self, request: Request) -> Response:
        ask = CollectionRequest.from_bytes(await read_body(request, MAX_FILE_BYTES, _JSON_TYPES))
        store = self._role.store
        store.check_open(ask.id)
        new = ask.id not in store.asks
        await asyncio.to_thread(self._role.add_ask, ask)
        return _json(PublishedAsk(id=ask.id.hex(), new=new), 201 if new else 200)

    async def status(self, request: Request) -> Response:
        del request
        return _json(status_of(self._role))

    def known_ask(self, text: str) -> bytes:
        """Return the id of a request that is known, of its hexadecimal digits."""
        try:
            ask_id = bytes.fromhex(text)
        except ValueError:
            ask_id = b""
        if ask_id not in self._role.store.asks:
            raise RefusedRequestError(404, "no such request")
        return ask_id


class _RecipientService(_RoleService):
    def __init__(self, recipient: Recipient, password: str, keys: Path | None) -> None:
        super().__init__(recipient, password, keys)
        self._recipient = recipient

    async def batches(self, request: Request) -> Response:
        body = await read_body(request, MAX_BATCH_BYTES, (BYTES_TYPE,))
        return _json(await asyncio.to_thread(self._recipient.take, body))

    async def close(self, request: Request) -> Response:
        ask_id = self.known_ask(request.path_params["ask"])
        body = await read_body(request, MAX_FILE_BYTES, _JSON_TYPES)
        closed = decode(body, ClosedAsk, "closed request")
        await asyncio.to_thread(self._recipient.close_ask, ask_id, closed.passed_on)
        return _json(closed)


class _ShufflerService(_RoleService):
    def __init__(
        self, shuffler: Shuffler, password: str, keys: Path | None, delivery: Delivery | None
    ) -> None:
        super().__init__(shuffler, password, keys)
        self._shuffler = shuffler
        self._delivery = delivery
        # Uploads that wait together share one commit and are answered after it.
        self._intake = GroupCommit(self._commit, size=len, most_bytes=GROUP_BYTES)
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

    async def _commit(self, bodies: list[bytes]) -> list[Receipt]:
        return await asyncio.to_thread(self._write, bodies)

    def _write(self, bodies: list[bytes]) -> list[Receipt]:
        receipts = self._shuffler.take(bodies)
        if self._shuffler.release():
            self._released()
        return receipts

    def _released(self) -> None:
        if self._delivery is not None:
            self._delivery.wake()

    def document(self, path: str) -> tuple[str, bytes]:
        store = self._shuffler.store
        match path.strip("/").split("/"):
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
                return "application/json", store.asks[self.known_ask(ask_id)].to_bytes()
            case _:
                return super().document(path)

    async def uploads(self, request: Request) -> Response:
        with self._room.one() as room:
            # A page that sends bytes names no type, so that the browser need not ask first.
            body = await read_body(request, MAX_UPLOADS_BYTES, (BYTES_TYPE, ""), room)
            return _json(await self._intake.put(body))

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
                receipt = await self._intake.put(request.content)
                content_type, content = "application/json", msgspec.json.encode(receipt)
            elif request.method == "GET":
                await self.refresh()
                content_type, content = self.document(request.path)
            else:
                raise RefusedRequestError(404, "not found")  # noqa: TRY301
        except (RefusedRequestError, FpmonitorError) as error:
            return _inner_error(_refusal_of(error))
        return InnerResponse(200, (("content-type", content_type),), content)

    async def close(self, request: Request) -> Response:
        ask_id = self.known_ask(request.path_params["ask"])
        drop = request.url.path.endswith("/drop")
        closed = await asyncio.to_thread(self._shuffler.close_ask, ask_id, drop=drop)
        self._released()
        return _json(closed)


def _bytes(content: bytes, content_type: str, status: int = 200) -> Response:
    return Response(content, status, HEADERS | {"Content-Type": content_type})


def _json(content: Any, status: int = 200) -> Response:
    return _bytes(msgspec.json.encode(content), "application/json", status)


def _refusal_of(error: RefusedRequestError | FpmonitorError) -> RefusedRequestError:
    """Say an error as the service does, but for what roles alone refuse."""
    if isinstance(error, RefusedRequestError):
        return error
    if isinstance(error, StoreError):  # its message holds a path
        LOG.error("the store cannot be used", exc_info=error)
        return RefusedRequestError(503, "messages cannot be stored now", retry_after=FULL_SECONDS)
    if isinstance(error, PoolFullError):
        return RefusedRequestError(503, error.message, retry_after=FULL_SECONDS)
    return RefusedRequestError(409 if isinstance(error, ConflictError) else 400, str(error))


def _inner_error(refusal: RefusedRequestError) -> InnerResponse:
    content = json.dumps({"error": str(refusal)}).encode()
    later = ((name.lower(), value) for name, value in refusal.headers.items())
    return InnerResponse(refusal.status, (("content-type", "application/json"), *later), content)
