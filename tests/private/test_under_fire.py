"""The roles under fire: half-sent, repeated, oversized and misdirected bytes, and odd tokens."""

from __future__ import annotations

import json
import socket
import time
from collections import Counter
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from fpmonitor.private.client import AnsweredRequests, seal_answers
from fpmonitor.private.folder import make_role
from fpmonitor.private.keys import SecretKeys, write_secret_keys
from fpmonitor.private.recipient import Recipient
from fpmonitor.private.services import MAX_UPLOADS_BYTES, recipient_app
from fpmonitor.private.status import status_of
from fpmonitor.private.study import Study, first_ask
from fpmonitor.private.transport import RoleClient, make_password
from fpmonitor.private.wire import Upload
from tests.patience import wait
from tests.piloted import Serving, counts, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fpmonitor.private.study import CollectionRequest, Role

ROLES: tuple[Role, ...] = ("shuffler", "curator", "analyst")
RINGS = {role: SecretKeys.generate(role) for role in ROLES}
KEYS = {role: ring.keys[0].config for role, ring in RINGS.items()}
STUDY = Study(
    name="fire",
    apis=("A.one", "A.two"),
    population=1000,
    k=3,
    budget=0.3,
    minimum_batch=4,
    report_bytes=256,
    curator_key=RINGS["curator"].verifying,
)
FIRST = first_ask(STUDY)
PASSWORD = "t" * 43
# What would be several lines, rows, members or tokens to whoever read it as text again.
ODD = (
    '=x\n{"tokens":["=y"],"users":9}',
    '="],["=y',
    "=\0",
    "=\x1b[2J\r\n::error::x",
    "='); DROP TABLE counts; --",
    "=\u2028\ufeff\U0001f600",
    "==",
    "=undefined",
    "undefined",
)


def sealed(number: int, ask: CollectionRequest = FIRST) -> list[Upload]:
    tokens = {"A.one": ODD[number % len(ODD)], "A.two": "=x"}
    return seal_answers(
        STUDY,
        ask,
        tokens,
        answered=AnsweredRequests(),
        shuffler=KEYS["shuffler"],
        recipient=KEYS["curator"],
    )


def body(uploads: list[Upload]) -> bytes:
    return b"".join(upload.encode() for upload in uploads)


@pytest.fixture
def roles(tmp_path: Path) -> Iterator[dict[str, Serving]]:
    port = free_ports()
    for role, ring in RINGS.items():
        made = make_role(tmp_path / role, role, port=port)
        write_secret_keys(made.keys, ring)
        (made.path / "study.json").write_bytes(STUDY.to_bytes())
        for name in ("password", *(f"{other}.password" for other in ROLES if other != role)):
            make_password(made.path / name, PASSWORD)
    with ExitStack() as stack:
        running: dict[str, Serving] = {}
        for name in ("curator", "shuffler"):
            running[name] = Serving(tmp_path / name)
            stack.callback(running[name].kill)
            with RoleClient(running[name].address, PASSWORD) as service:
                service.post("/asks", FIRST.to_bytes(), "application/json")
        yield running


def connected(role: Serving) -> socket.socket:
    address = urlsplit(role.address)
    assert address.hostname is not None
    return socket.create_connection((address.hostname, address.port or 0), timeout=20)


def raw(role: Serving, sent: bytes) -> bytes:
    """All that is answered until the connection is closed."""
    with connected(role) as connection:
        connection.sendall(sent)
        found = b""
        while part := connection.recv(65536):
            found += part
        return found


def head(path: str, *lines: str) -> bytes:
    text = "\r\n".join((f"POST {path} HTTP/1.1", "Host: localhost", *lines))
    return f"{text}\r\n\r\n".encode()


@pytest.mark.long
def test_under_fire_each_answer_counts_once_and_as_it_was_checked(
    roles: dict[str, Serving], tmp_path: Path
) -> None:
    """What the curator stores are the tokens that were checked, whatever is in them."""
    shuffler, honest = roles["shuffler"], [sealed(number) for number in range(2 * len(ODD))]
    with ExitStack() as stack:
        for start in (b"POST /uploads HTTP/1.1\r\nHo", head("/uploads", "Content-Length: 900")):
            for _ in range(5):
                held = stack.enter_context(closing(connected(shuffler)))
                held.sendall(start + body(honest[0])[: 100 if b"Length" in start else 0])
        for path in ("/uploads", "/ohttp", "/asks", "/hpke_config", "/status"):
            found = raw(
                shuffler,
                head(path, "Content-Length: 5", "Transfer-Encoding: chunked")
                + b"0\r\n\r\nGET /study HTTP/1.1\r\nHost: localhost\r\n\r\n",
            )
            assert found.startswith(b"HTTP/1.1 400")
            assert found.count(b"HTTP/1.1 ") == 1, path
        kind, large = "Content-Type: application/octet-stream", MAX_UPLOADS_BYTES + 1
        sent = head("/uploads", kind, f"Content-Length: {large}", "Connection: close")
        assert b" 413 " in raw(shuffler, sent + bytes(large)).split(b"\r\n")[0]
        with RoleClient(shuffler.address) as service:
            outcomes: Counter[str] = Counter()
            for uploads in honest:
                cut = body(uploads)[:-7]
                misdirected = [Upload(bytes(16), one.sealed) for one in uploads]
                for content in (cut, body(misdirected), body(uploads), body(uploads) * 2):
                    receipt = json.loads(service.post("/uploads", content))
                    outcomes.update(accepted=receipt["accepted"])
                    outcomes.update(receipt["refused"])
    n = len(honest)
    # A cut body counts up to where it is cut; the rest of its last upload is sent again.
    assert outcomes == {"accepted": 2 * n, "replayed": 5 * n, "unreadable": n, "unknown ask": 2 * n}
    with RoleClient(shuffler.address, PASSWORD) as service:
        service.post(f"/asks/{FIRST.id.hex()}/close", b"", "")
        wait(lambda: not json.loads(service.get("/status"))["asks"][0]["undelivered"])
    assert counts(tmp_path, "curator", FIRST) == {
        ("A.one",): {(token,): 2 for token in ODD},
        ("A.two",): {("=x",): n},
    }


@pytest.mark.parametrize("passed_on", [-1, 2**53 + 1, 2**63, 10**40, "1", 1.5, None])
def test_a_closing_of_impossible_numbers_is_refused_and_leaves_the_request_open(
    passed_on: object, tmp_path: Path
) -> None:
    content = json.dumps({"passed_on": passed_on, "dropped": 0})
    recipient = Recipient(tmp_path / "curator.db", STUDY, RINGS["curator"])
    with recipient.store, TestClient(recipient_app(recipient, password=PASSWORD)) as client:
        recipient.add_ask(FIRST)
        for sent in (content, content.replace("passed_on", "x").replace("dropped", "passed_on")):
            answer = client.post(
                f"/asks/{FIRST.id.hex()}/close",
                content=sent.replace('"x"', '"dropped"'),
                headers={"authorization": f"Bearer {PASSWORD}", "content-type": "application/json"},
            )
            assert answer.status_code == 400
        assert not recipient.store.is_closed(FIRST.id)
        assert not recipient.store.tally()[FIRST.id]


def test_no_request_is_younger_than_now_when_the_clock_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipient = Recipient(tmp_path / "curator.db", STUDY, RINGS["curator"])
    with recipient.store:
        recipient.add_ask(FIRST)
        recipient.store.add_to_tally(FIRST.id, {"accepted": 1})
        monkeypatch.setattr(time, "time", lambda: 0.0)
        [ask] = status_of(recipient).asks
        assert ask.seconds == 0
