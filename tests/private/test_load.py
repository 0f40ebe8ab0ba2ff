"""Too much at once, and too much in all: the shuffler says so and stays within its bounds."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs
from starlette.testclient import TestClient

from fpmonitor.cli import run
from fpmonitor.errors import InputError
from fpmonitor.private import sending
from fpmonitor.private.binary_http import Request, decode_response
from fpmonitor.private.client import AnsweredRequests, seal_answers
from fpmonitor.private.files import encode
from fpmonitor.private.folder import RoleFolder, make_pilot
from fpmonitor.private.keys import SecretKeys
from fpmonitor.private.ohttp import REQUEST_TYPE, seal_request
from fpmonitor.private.sending import send_uploads
from fpmonitor.private.services import shuffler_app
from fpmonitor.private.shuffler import PoolFullError, Shuffler, upload_bytes
from fpmonitor.private.study import Study, first_ask
from fpmonitor.private.transport import UnreachableError, seconds_of
from fpmonitor.serve import requests

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fpmonitor.private.study import CollectionRequest

STUDY = Study(name="test", apis=("A.one",), population=1000, k=3, budget=0.5, minimum_batch=4)
FIRST = first_ask(STUDY)
RINGS = {role: SecretKeys.generate(role) for role in ("shuffler", "curator")}
KEYS = {
    "shuffler": RINGS["shuffler"].keys[0].config, "recipient": RINGS["curator"].keys[0].config
}  # fmt: skip
PASSWORD = "t" * 43
AUTHORISED = {"authorization": f"Bearer {PASSWORD}"}
ONE = upload_bytes(STUDY)


def body(users: int, ask: CollectionRequest = FIRST) -> bytes:
    return b"".join(
        upload.encode()
        for _ in range(users)
        for upload in seal_answers(STUDY, ask, {"A.one": "=x"}, answered=AnsweredRequests(), **KEYS)
    )


class SlowShuffler(Shuffler):
    """One that keeps uploads only when it is let."""

    may_write = threading.Event()
    largest_group = 0

    def take(self, bodies: Any) -> Any:
        assert self.may_write.wait(20)
        self.largest_group = max(self.largest_group, sum(map(len, bodies)))
        return super().take(bodies)


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[SlowShuffler, TestClient]]:
    with ExitStack() as stack:
        shuffler = SlowShuffler(tmp_path / "s.db", STUDY, RINGS["shuffler"])
        shuffler.may_write = threading.Event()
        stack.enter_context(shuffler.store)
        shuffler.add_ask(FIRST)
        yield shuffler, stack.enter_context(TestClient(shuffler_app(shuffler, password=PASSWORD)))


def posted_at_once(client: TestClient, bodies: list[bytes], shuffler: SlowShuffler) -> list[Any]:
    """Answers to uploads that all are under way before the first is written."""
    answers: list[Any] = []
    threads = [
        threading.Thread(
            target=lambda one=one: answers.append(client.post("/uploads", content=one))
        )
        for one in bodies
    ]
    for thread in threads:
        thread.start()
        time.sleep(0.02)
    time.sleep(0.2)
    shuffler.may_write.set()
    for thread in threads:
        thread.join(20)
    return answers


def check_put_off(answers: list[Any], kept: int) -> None:
    statuses = [answer.status_code for answer in answers]
    assert statuses.count(200) == kept
    assert statuses.count(503) == len(answers) - kept > 0
    for answer in answers:
        if answer.status_code == 503:
            assert answer.headers["retry-after"] == "5"
            assert answer.json() == {"error": "too much at once"}


def test_bytes_under_way_are_bounded_and_what_was_put_off_is_taken_later(
    slow: tuple[SlowShuffler, TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    shuffler, client = slow
    monkeypatch.setattr(requests, "MAX_UNDER_WAY_BYTES", 4 * ONE + 10)
    bodies = [body(1) for _ in range(10)]
    answers = posted_at_once(client, bodies, shuffler)
    check_put_off(answers, kept=4)
    again = [client.post("/uploads", content=one).json() for one in bodies]
    assert sum(one["accepted"] for one in again) == 6
    assert sum(one["refused"].get("replayed", 0) for one in again) == 4
    assert shuffler.store.tally()[FIRST.id]["accepted"] == 10
    assert shuffler.largest_group <= 4 * ONE


def test_requests_under_way_are_bounded_before_they_are_read(
    slow: tuple[SlowShuffler, TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    shuffler, client = slow
    monkeypatch.setattr(requests, "MAX_UNDER_WAY", 3)
    check_put_off(posted_at_once(client, [body(1) for _ in range(8)], shuffler), kept=3)
    assert client.post("/uploads", content=body(1)).json()["accepted"] == 1


def test_a_refused_request_gives_its_room_back(
    slow: tuple[SlowShuffler, TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    shuffler, client = slow
    shuffler.may_write.set()
    monkeypatch.setattr(requests, "MAX_UNDER_WAY", 1)
    monkeypatch.setattr(requests, "MAX_UNDER_WAY_BYTES", 2 * ONE)
    for content, kind, status in (
        (b"x" * (3 * ONE), "application/octet-stream", 503),
        (b"x", "text/html", 415),
        (b"x", REQUEST_TYPE, 400),
        (b"", "application/octet-stream", 200),
    ):
        for _ in range(3):
            path = "/ohttp" if kind == REQUEST_TYPE else "/uploads"
            answer = client.post(path, content=content, headers={"content-type": kind})
            assert answer.status_code == status
    assert client.post("/uploads", content=body(2)).json()["accepted"] == 2


def test_a_body_that_does_not_come_is_not_waited_for(
    slow: tuple[SlowShuffler, TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    shuffler, client = slow
    shuffler.may_write.set()
    monkeypatch.setattr(requests, "BODY_SECONDS", 0.05)

    async def trickle() -> dict[str, Any]:
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b"x", "more_body": True}

    answered = []

    async def send(message: Any) -> None:
        answered.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/uploads", "headers": [], "query_string": b"",
        "http_version": "1.1", "scheme": "http", "server": ("t", 1), "client": ("t", 1),
    }  # fmt: skip
    asyncio.run(client.app(scope, trickle, send))  # type: ignore[arg-type]
    assert answered[0]["status"] == 408
    assert client.post("/uploads", content=body(1)).json()["accepted"] == 1


def test_a_body_whose_time_is_just_over_makes_room_as_well() -> None:
    budget = requests.BodyBudget(10)

    async def late() -> int:
        with budget.one("late") as old, budget.one("new") as new:
            old.grow(10)
            with suppress(TimeoutError):
                async with asyncio.timeout(0) as old.timeout:
                    asyncio.get_running_loop().call_soon(new.grow, 10)
                    await asyncio.sleep(5)
            return new.held

    assert asyncio.run(late()) == 10


# ---- The pool


def pool(users: int) -> int:
    """Bytes of a store that has room for about so many messages."""
    return 20 * 8192 + users * (ONE + 300)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Shuffler]:
    shuffler = Shuffler(tmp_path / "s.db", STUDY, RINGS["shuffler"], most_bytes=pool(60))
    with shuffler.store:
        shuffler.add_ask(FIRST)
        yield shuffler


def fill(shuffler: Shuffler) -> int:
    """Send until the pool is full; messages that were taken."""
    for taken in range(200):
        try:
            [receipt] = shuffler.take([body(1)])
        except PoolFullError:
            return taken
        assert receipt.accepted == 1
    pytest.fail("the pool was never full")


def test_a_full_pool_keeps_what_it_has_and_takes_again_when_something_has_left(
    small: Shuffler, tmp_path: Path
) -> None:
    taken = fill(small)
    assert 30 < taken < 150
    for _ in range(5):
        with pytest.raises(PoolFullError):
            small.take([body(1)])
    assert small.store.tally()[FIRST.id] == {"accepted": taken, "held": taken}
    assert (tmp_path / "s.db").stat().st_size < pool(60) + 10 * 8192
    assert small.release() == taken - 4
    for batch_id in small.unsent():
        small.sent(batch_id)
    assert small.take([body(3)])[0].accepted == 3
    assert small.store.tally()[FIRST.id]["held"] == 7


def test_a_full_pool_is_a_clear_answer_with_and_without_a_relay(small: Shuffler) -> None:
    with TestClient(shuffler_app(small, password=PASSWORD)) as client:
        fill(small)
        answer = client.post("/uploads", content=body(1))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "60")
        assert answer.json()["error"].startswith("the pool is full")
        fields = (("content-type", "application/octet-stream"),)
        request = Request("POST", "https", "s", "/uploads", fields, body(1))
        sealed, exchange = seal_request(request.encode(), KEYS["shuffler"])
        outer = client.post("/ohttp", content=sealed, headers={"content-type": REQUEST_TYPE})
        assert outer.status_code == 200, "the relay sees no difference"
        inner = decode_response(exchange.open_response(outer.content))
        assert (inner.status, dict(inner.fields)["retry-after"]) == (503, "60")
        assert client.get("/study").status_code == 200
        close = client.post(f"/asks/{FIRST.id.hex()}/close", headers=AUTHORISED)
        assert close.status_code == 200


def test_an_ask_that_could_never_leave_the_pool_is_refused(tmp_path: Path) -> None:
    shuffler = Shuffler(tmp_path / "s.db", STUDY, RINGS["shuffler"], most_bytes=15 * ONE)
    with shuffler.store, pytest.raises(InputError, match=r"4 minimum batches are .* MB"):
        shuffler.add_ask(FIRST)


def test_the_folder_says_the_size_of_the_pool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terms = Study(name="t", apis=("A.one",), population=10**6, k=3, budget=0.5, minimum_batch=1000)
    large = make_pilot(tmp_path / "pilot", terms)
    shuffler = RoleFolder.of(tmp_path / "pilot", "shuffler")
    small = structs.replace(shuffler.config, pool_mb=1)
    (shuffler.path / "role.json").write_bytes(encode(small))
    (tmp_path / "ask.json").write_bytes(structs.replace(first_ask(large), round=2).to_bytes())
    arguments = ["--ask", str(tmp_path / "ask.json"), "--folder", str(shuffler.path)]
    assert run(["private", "shuffle", *arguments]) == 2
    assert "the pool has 1 MB" in capsys.readouterr().err


# ---- Those who send


def test_who_sends_waits_as_long_as_told_and_sends_the_same_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(sending.time, "sleep", waited.append)
    sent: list[bytes] = []
    told: list[str] = []

    def send(content: bytes) -> bytes:
        sent.append(content)
        if len(sent) < 3:
            raise UnreachableError("503", answered=True, retry_after=[7, 100_000][len(sent) - 1])
        return b'{"accepted": 1, "refused": {}}'

    assert send_uploads([b"one"], send, told.append) == {"accepted": 1}
    assert told == ["503; again in 7 s", "503; again in 60 s"]
    assert sent == [b"one"] * 3
    assert waited == [7, 60]


@pytest.mark.parametrize("retry_after", [None, 1])
def test_who_sends_gives_up_in_the_end(
    monkeypatch: pytest.MonkeyPatch, retry_after: int | None
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(sending.time, "sleep", waited.append)

    def send(_: bytes) -> bytes:
        raise UnreachableError("no", answered=True, retry_after=retry_after)

    with pytest.raises(UnreachableError):
        send_uploads([b"one"], send)
    assert len(waited) == (0 if retry_after is None else 5)


def test_retry_after_is_seconds_or_nothing() -> None:
    texts = ("5", "0", "", "-1", "Wed, 21 Oct 2026 07:28:00 GMT", "1.5", "9" * 400, "٣")
    assert [seconds_of(text) for text in texts] == [5, 0, *[None] * 6]
