"""Sending uploads to the shuffler: directly, or through an Oblivious HTTP relay."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from fpmonitor.private.store import Receipt
from fpmonitor.private.transport import (
    BYTES_TYPE,
    RoleClient,
    UnreachableError,
    address_parts,
    authority_of,
    read_answer,
    seconds_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fpmonitor.private.wire import HpkeConfig

    Send = Callable[[bytes], bytes]

# The shuffler takes 4 MB at once; what fails is sent again as a whole.
BODY_BYTES = 1_000_000
_TRIES = 5
_LONGEST_WAIT_SECONDS = 60


def straight(shuffler: RoleClient) -> Send:
    """Return a sender to the shuffler, which then sees the address of the client."""
    return lambda body: shuffler.post("/uploads", body)


def through_relay(relay: RoleClient, gateway: HpkeConfig, shuffler: str) -> Send:
    """Return a sender through a relay, which sees the address and nothing else (RFC 9458).

    The sealed requests are posted to the relay; `gateway` is the key of the shuffler's gateway, and
    `shuffler` its address.
    """
    from fpmonitor.private.binary_http import Request, decode_response  # noqa: PLC0415
    from fpmonitor.private.ohttp import REQUEST_TYPE, seal_request  # noqa: PLC0415 -- pyhpke

    parts = address_parts(shuffler)
    authority = authority_of(parts)

    def send(body: bytes) -> bytes:
        fields = (("content-type", BYTES_TYPE),)
        request = Request("POST", parts.scheme, authority, "/uploads", fields, body)
        sealed, exchange = seal_request(request.encode(), gateway)
        answer = relay.post("", sealed, REQUEST_TYPE)
        response = decode_response(exchange.open_response(answer))
        if response.status != 200:
            raise UnreachableError(
                f"{shuffler}: {response.status} through the relay",
                answered=True,
                retry_after=seconds_of(dict(response.fields).get("retry-after", "")),
            )
        return response.content

    return send


def send_uploads(
    bodies: Iterable[bytes], send: Send, tell: Callable[[str], None] = lambda _: None
) -> dict[str, int]:
    """Send bodies of sealed uploads; return the number of messages by outcome.

    A busy shuffler is retried a few times, after as long as it says; `tell` is called then.
    """
    outcomes: Counter[str] = Counter()
    for body in bodies:
        outcomes.update(read_answer(_insist(send, body, tell), Receipt).outcomes)
    return dict(outcomes)


def _insist(send: Send, body: bytes, tell: Callable[[str], None]) -> bytes:
    for _ in range(_TRIES):
        try:
            return send(body)
        except UnreachableError as error:
            if error.retry_after is None:
                raise
            seconds = min(error.retry_after, _LONGEST_WAIT_SECONDS)
            tell(f"{error.message}; again in {seconds} s")
            time.sleep(seconds)
    return send(body)
