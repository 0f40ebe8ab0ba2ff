"""The roles over HTTP: who may do what, what is answered, and that files are the same bytes."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections import Counter
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient

from fpmonitor.cli import run
from fpmonitor.errors import InputError, StoreError
from fpmonitor.private.client import AnsweredRequests, seal_answers
from fpmonitor.private.delivery import Delivery
from fpmonitor.private.keys import SecretKeys
from fpmonitor.private.recipient import Recipient
from fpmonitor.private.sending import send_uploads, straight
from fpmonitor.private.services import MAX_UPLOADS_BYTES, recipient_app, shuffler_app
from fpmonitor.private.shuffler import Shuffler
from fpmonitor.private.status import RoleStatus, reconciled
from fpmonitor.private.store import Receipt
from fpmonitor.private.study import CollectionRequest, Study, first_ask
from fpmonitor.private.transport import (
    RoleClient,
    UnreachableError,
    make_password,
    read_answer,
    read_password,
)
from fpmonitor.private.wire import decode_configs
from fpmonitor.safe_files import typed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

APIS = ("A.one", "A.two")
STUDY = Study(name="test", apis=APIS, population=1000, k=3, budget=0.5, minimum_batch=4)
FIRST = first_ask(STUDY)
RINGS = {role: SecretKeys.generate(role) for role in ("shuffler", "curator", "analyst")}
PASSWORD = "t" * 43
AUTHORISED = {"authorization": f"Bearer {PASSWORD}"}
BYTES = {"content-type": "application/octet-stream"}


def body(users: range, ask: CollectionRequest = FIRST) -> bytes:
    shuffler, recipient = RINGS["shuffler"].keys[0].config, RINGS["curator"].keys[0].config
    uploads = [
        upload.encode()
        for number in users
        for upload in seal_answers(
            STUDY, ask, {"A.one": f"={number % 2}", "A.two": "=x"}, answered=AnsweredRequests(),
            shuffler=shuffler, recipient=recipient,
        )
    ]  # fmt: skip
    return b"".join(uploads)


class ToClient(RoleClient):
    """A service that is a test client, without a network."""

    def __init__(self, client: TestClient, password: str = PASSWORD) -> None:
        super().__init__("http://127.0.0.1:9", password)
        self._client = client
        self._headers = {"authorization": f"Bearer {password}"}

    def post(
        self, path: str, content: bytes, content_type: str = "application/octet-stream"
    ) -> bytes:
        headers = {"content-type": content_type, **self._headers}
        response = self._client.post(path, content=content, headers=headers)
        if response.status_code != 200:
            raise UnreachableError(f"{response.status_code}", answered=True)
        return response.content


class World:
    def __init__(self, folder: Path, stack: ExitStack, origins: tuple[str, ...] = ()) -> None:
        self.shuffler = Shuffler(folder / "shuffler.db", STUDY, RINGS["shuffler"])
        self.curator = Recipient(folder / "curator.db", STUDY, RINGS["curator"])
        for role in (self.shuffler, self.curator):
            stack.enter_context(role.store)
        self.at_curator = stack.enter_context(
            TestClient(recipient_app(self.curator, password=PASSWORD))
        )
        self.told: list[str] = []
        reached = {"curator": ToClient(self.at_curator)}
        self.delivery = Delivery(self.shuffler, reached, self.told.append)
        app = shuffler_app(
            self.shuffler, password=PASSWORD, delivery=self.delivery, origins=origins
        )
        self.at_shuffler = stack.enter_context(TestClient(app))

    def publish(self, ask: CollectionRequest = FIRST) -> None:
        for client in (self.at_shuffler, self.at_curator):
            headers = AUTHORISED | {"content-type": "application/json"}
            assert client.post("/asks", content=ask.to_bytes(), headers=headers).status_code == 201


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        made = World(tmp_path, stack)
        made.publish()
        yield made


def wait_for(happened: Any) -> None:
    for _ in range(200):
        if happened():
            return
        threading.Event().wait(0.05)
    pytest.fail("it did not happen within ten seconds")


def test_uploads_reach_the_counts_of_the_curator(world: World) -> None:
    answer = world.at_shuffler.post("/uploads", content=body(range(11)), headers=BYTES)
    assert answer.json() == {"accepted": 22, "refused": {}}
    close = world.at_shuffler.post(f"/asks/{FIRST.id.hex()}/close", headers=AUTHORISED)
    assert close.status_code == 200
    wait_for(lambda: not world.shuffler.unsent())
    assert world.curator.counts(FIRST) == {
        ("A.one",): {("=0",): 6, ("=1",): 5},
        ("A.two",): {("=x",): 11},
    }
    assert not world.told


def commands_beside(world: World, folder: Path, stack: ExitStack) -> tuple[Shuffler, Recipient]:
    """Roles on the same files, as commands have them, to which the first request was added."""
    shuffler = Shuffler(folder / "shuffler.db", world.shuffler.store.study, RINGS["shuffler"])
    curator = Recipient(folder / "curator.db", world.curator.store.study, RINGS["curator"])
    for role in (shuffler, curator):
        stack.enter_context(role.store)
        role.add_ask(FIRST)
    return shuffler, curator


def test_what_commands_added_and_closed_beside_a_service_is_delivered(tmp_path: Path) -> None:
    """The thread that delivers ended on a request it did not know, until a restart."""
    with ExitStack() as stack:
        world = World(tmp_path, stack)
        shuffler, _ = commands_beside(world, tmp_path, stack)
        shuffler.take([body(range(11))])
        shuffler.close_ask(FIRST.id)
        world.delivery.wake()
        wait_for(lambda: not world.shuffler.unsent())
        assert not world.told


def test_what_commands_added_and_closed_beside_a_service_is_known_to_it(tmp_path: Path) -> None:
    """`GET /asks/{id}` answered 404, and `/asks` that the request is open."""
    with ExitStack() as stack:
        world = World(tmp_path, stack)
        shuffler, _ = commands_beside(world, tmp_path, stack)
        address = f"/asks/{FIRST.id.hex()}"
        assert world.at_shuffler.get(address).status_code == 200
        closed = {"passed_on": 22, "dropped": 0}
        answer = world.at_curator.post(f"{address}/close", json=closed, headers=AUTHORISED)
        assert answer.status_code == 200, answer.text
        shuffler.take([body(range(11))])
        shuffler.close_ask(FIRST.id)
        assert [listed["open"] for listed in world.at_shuffler.get("/asks").json()] == [False]
        again = world.at_shuffler.post(
            "/asks",
            content=FIRST.to_bytes(),
            headers=AUTHORISED | {"content-type": "application/json"},
        )
        assert again.status_code == 409, again.text


def test_sending_again_is_answered_and_counts_once(world: World) -> None:
    data = body(range(3))
    for expected in ({"accepted": 6, "refused": {}}, {"accepted": 0, "refused": {"replayed": 6}}):
        assert world.at_shuffler.post("/uploads", content=data, headers=BYTES).json() == expected


def test_answers_to_a_closed_request_are_told_apart_and_do_not_count(world: World) -> None:
    """Through the service and its client: the same words as from a file."""
    world.at_shuffler.post("/uploads", content=body(range(11)), headers=BYTES)
    world.at_shuffler.post(f"/asks/{FIRST.id.hex()}/close", headers=AUTHORISED)
    wait_for(lambda: not world.shuffler.unsent())
    late = world.at_shuffler.post("/uploads", content=body(range(11, 14)), headers=BYTES)
    assert late.json() == {"accepted": 0, "refused": {"closed ask": 6}}
    sent = send_uploads([body(range(14, 15))], straight(ToClient(world.at_shuffler)), print)
    assert {name: number for name, number in sent.items() if number} == {"closed ask": 2}
    assert sum(world.curator.counts(FIRST)[("A.one",)].values()) == 11
    assert world.shuffler.store.tally()[FIRST.id]["closed ask"] == 8


def test_a_page_may_send_bytes_without_a_type(world: World) -> None:
    answer = world.at_shuffler.post("/uploads", content=body(range(1)))
    assert answer.json()["accepted"] == 2


def test_what_everybody_may_read_is_given_byte_by_byte(world: World) -> None:
    get = world.at_shuffler.get
    keys = get("/hpke_config")
    assert keys.headers["content-type"] == "application/ppm-dap;message=hpke-config-list"
    assert decode_configs(keys.content) == (RINGS["shuffler"].keys[0].config,)
    assert Study.from_bytes(get("/study").content) == STUDY
    [listed] = get("/asks").json()
    assert listed == {
        "id": FIRST.id.hex(), "epoch": 1, "round": 1, "recipient": "curator", "open": True
    }  # fmt: skip
    assert get(f"/asks/{FIRST.id.hex()}").content == FIRST.to_bytes()
    assert CollectionRequest.from_bytes(get(f"/asks/{FIRST.id.hex()}").content).id == FIRST.id
    for client, role in ((world.at_shuffler, "shuffler"), (world.at_curator, "curator")):
        assert client.get("/keys").content == RINGS[role].public.to_bytes()
    at_curator = world.at_curator.get("/hpke_config")
    assert decode_configs(at_curator.content) == (RINGS["curator"].keys[0].config,)


@pytest.mark.parametrize("path", ["/asks/" + "0" * 32, "/asks/xyz", "/asks/é", "/counts", "/"])
def test_nothing_else_is_there(world: World, path: str) -> None:
    assert world.at_shuffler.get(path).status_code == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/asks"), ("GET", "/status"), ("POST", f"/asks/{FIRST.id.hex()}/close")],
)
@pytest.mark.parametrize("given", [None, "", "Bearer", "Bearer wrong", f"Basic {PASSWORD}", "é"])
def test_only_who_has_the_password_gives_and_closes_asks(
    world: World, method: str, path: str, given: str | None
) -> None:
    headers = {} if given is None else {"authorization": given.encode()}
    answer = world.at_shuffler.request(method, path, content=b"{}", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert not world.shuffler.store.is_closed(FIRST.id)


def test_batches_need_the_password(world: World) -> None:
    world.shuffler.take([body(range(8))])
    world.shuffler.release()
    [batch] = map(world.shuffler.batch, world.shuffler.unsent())
    assert world.at_curator.post("/batches", content=batch, headers=BYTES).status_code == 401
    assert world.curator.counts(FIRST)[("A.one",)] == {}
    answer = world.at_curator.post("/batches", content=batch, headers=BYTES | AUTHORISED)
    assert answer.json() == {"accepted": 8, "refused": {}}
    again = world.at_curator.post("/batches", content=batch, headers=BYTES | AUTHORISED)
    assert again.json() == {"accepted": 0, "refused": {"taken before": 8}}


@pytest.mark.parametrize(
    ("path", "content", "kind", "status"),
    [
        ("/uploads", b"x", "text/html", 415),
        ("/uploads", b"x" * (MAX_UPLOADS_BYTES + 1), "application/octet-stream", 413),
        ("/asks", b"{}", "text/plain", 415),
        ("/asks", b"{}", "application/json", 400),
        ("/asks", b"\xff", "application/json", 400),
        ("/ohttp", b"x", "application/octet-stream", 415),
        ("/ohttp", b"x", "message/ohttp-req", 400),
    ],
)
def test_wrong_requests_get_an_error_in_json(
    world: World, path: str, content: bytes, kind: str, status: int
) -> None:
    headers = AUTHORISED | {"content-type": kind}
    answer = world.at_shuffler.post(path, content=content, headers=headers)
    assert answer.status_code == status
    assert answer.json()["error"]


def test_a_batch_for_an_unknown_ask_is_refused_and_waits(tmp_path: Path) -> None:
    with ExitStack() as stack:
        world = World(tmp_path, stack)
        world.shuffler.add_ask(FIRST)
        world.at_shuffler.post("/uploads", content=body(range(5)), headers=BYTES)
        world.at_shuffler.post(f"/asks/{FIRST.id.hex()}/close", headers=AUTHORISED)
        wait_for(lambda: world.told)
        assert world.shuffler.unsent()
        world.curator.add_ask(FIRST)
        wait_for(lambda: not world.shuffler.unsent())
        assert world.curator.counts(FIRST)[("A.two",)] == {("=x",): 5}


def test_status_tells_numbers_of_messages_only(world: World) -> None:
    world.at_shuffler.post("/uploads", content=body(range(2)) + b"torn", headers=BYTES)
    status = world.at_shuffler.get("/status", headers=AUTHORISED).json()
    assert status["role"] == "shuffler"
    messages = {one["id"]: one["messages"] for one in status["asks"]}
    assert messages == {FIRST.id.hex(): {"accepted": 4, "held": 4}, None: {"unreadable": 1}}
    assert world.at_curator.get("/status", headers=AUTHORISED).json()["role"] == "curator"


def test_status_counts_the_answers_that_came_too_late(world: World) -> None:
    world.at_shuffler.post("/uploads", content=body(range(11)), headers=BYTES)
    assert world.at_shuffler.post(f"/asks/{FIRST.id.hex()}/close", headers=AUTHORISED).is_success
    world.at_shuffler.post("/uploads", content=body(range(3)), headers=BYTES)
    answers = [
        service.get("/status", headers=AUTHORISED)
        for service in (world.at_shuffler, world.at_curator)
    ]
    [found] = reconciled([typed(one.json(), RoleStatus, "status") for one in answers])
    assert (found.accepted, found.late) == (22, 6)


def test_only_pages_that_are_named_may_read_the_answers(tmp_path: Path) -> None:
    origin = {"origin": "https://page.example"}
    with ExitStack() as stack:
        world = World(tmp_path, stack)
        answer = world.at_shuffler.get("/study", headers=origin)
        assert "access-control-allow-origin" not in answer.headers
    with ExitStack() as stack:
        world = World(tmp_path, stack, origins=("https://page.example",))
        answer = world.at_shuffler.post("/uploads", content=b"", headers=origin)
        assert answer.headers["access-control-allow-origin"] == "https://page.example"
        other = world.at_shuffler.get("/study", headers={"origin": "https://other.example"})
        assert "access-control-allow-origin" not in other.headers
        asked = world.at_shuffler.options(
            "/status",
            headers=origin | {"access-control-request-method": "GET",
                              "access-control-request-headers": "authorization"},
        )  # fmt: skip
        assert asked.status_code == 400


def test_logs_hold_no_address_and_nothing_of_a_message(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "fpmonitor.private")
    world.at_shuffler.post("/uploads?marked=1", content=body(range(1)) + b"torn", headers=BYTES)
    world.shuffler.store.close()
    assert world.at_shuffler.post("/uploads", content=body(range(2))).status_code == 503
    ours = [record for record in caplog.records if record.name.startswith("fpmonitor")]
    assert ours
    text = "\n".join(str([record.getMessage(), record.args, record.exc_text]) for record in ours)
    assert not any(word in text for word in ("testclient", "marked", "torn", "127.0.0.1"))


def test_closing_below_the_minimum_deletes_nothing_unless_it_is_said(world: World) -> None:
    world.at_shuffler.post("/uploads", content=body(range(3)), headers=BYTES)
    answer = world.at_shuffler.post(f"/asks/{FIRST.id.hex()}/close", headers=AUTHORISED)
    assert answer.status_code == 409
    assert "6 messages wait, below the minimum of 8" in answer.json()["error"]
    assert "--drop" in answer.json()["error"]
    answer = world.at_shuffler.post(f"/asks/{FIRST.id.hex()}/drop", headers=AUTHORISED)
    assert answer.json() == {"passed_on": 0, "dropped": 6}


def test_batches_that_the_curator_cannot_open_wait_until_it_can(world: World) -> None:
    ring = world.curator.ring
    world.curator.use_keys(ring.rotated().retired(1))
    world.at_shuffler.post("/uploads", content=body(range(8)), headers=BYTES)
    wait_for(lambda: world.told)
    assert len(world.shuffler.unsent()) == 1
    assert world.curator.store.tally()[FIRST.id] == {}
    world.curator.use_keys(ring)
    wait_for(lambda: not world.shuffler.unsent())
    assert world.curator.store.tally()[FIRST.id] == {"accepted": 8}


def test_delivery_goes_on_after_the_store_could_not_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsent = world.shuffler.unsent

    def broken() -> dict[bytes, bytes]:
        monkeypatch.setattr(world.shuffler, "unsent", unsent)
        raise StoreError("shuffler.db: cannot be read (disk I/O error)")

    monkeypatch.setattr(world.shuffler, "unsent", broken)
    world.at_shuffler.post("/uploads", content=body(range(8)), headers=BYTES)
    wait_for(lambda: world.told)
    wait_for(lambda: world.curator.store.tally()[FIRST.id] == {"accepted": 8})


# ---- From one service to another


@pytest.fixture
def odd_service() -> Iterator[str]:
    """Answers as the path says."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, content = {
                "/teapot": (418, b'{"error": "short and stout"}'),
                "/moved": (302, b""),
                "/text": (200, b"no JSON"),
                "/leaves": (200, b"1"),
                "/deep": (400, b"[" * 300_000),
                "/status": (200, b'{"role": "curator", "asks": []}'),
            }[self.path]
            self.close_connection = self.path == "/leaves"
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.send_header("location", "/text")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_status_of_another_role_is_refused(
    odd_service: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With two addresses of role.json in each other's place there was no shuffler to compare."""
    study = ("--apis", "A,B", "--population", "100", "--k", "5", "--budget", "0.1")
    assert run(["private", "init", str(tmp_path), *study, "--minimum-batch", "5"]) == 0
    path = tmp_path / "curator" / "role.json"
    config = json.loads(path.read_text())
    config["services"]["shuffler"] = odd_service
    path.write_text(json.dumps(config))
    capsys.readouterr()
    assert run(["private", "status", "--folder", str(tmp_path)]) == 2
    assert f"{odd_service}: is the curator, not the shuffler" in capsys.readouterr().err


def test_answers_that_are_none_are_one_error(odd_service: str) -> None:
    with RoleClient(odd_service) as service:
        with pytest.raises(UnreachableError, match="418 short and stout"):
            service.get("/teapot")
        with pytest.raises(UnreachableError, match="302"):
            service.get("/moved")
        with pytest.raises(UnreachableError, match="400 without a reason"):
            service.get("/deep")
        with pytest.raises(UnreachableError, match="JSON"):
            read_answer(service.get("/text"), Receipt)
    with (
        RoleClient("http://127.0.0.1:9") as nobody,
        pytest.raises(UnreachableError, match="no answer"),
    ):
        nobody.get("/")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nX-Header: ",
        b"HTTP/1.1 200 OK\r\n\r\n",  # its end is that of the connection
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
    ],
)
def test_an_answer_that_comes_byte_by_byte_holds_no_role_up(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fpmonitor.private.transport._TIMEOUT_SECONDS", 0.4)
    stop = threading.Event()

    def drip() -> None:
        with suppress(OSError), listening.accept()[0] as connection:
            connection.recv(1 << 16)
            connection.sendall(answer)
            while not stop.wait(0.02):
                connection.sendall(b"a")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip)
        thread.start()
        with (
            RoleClient(f"http://127.0.0.1:{listening.getsockname()[1]}") as service,
            pytest.raises(UnreachableError, match="no answer within"),
        ):
            service.get("/keys")
        stop.set()
        thread.join()


def test_a_connection_that_the_service_has_closed_is_made_again(odd_service: str) -> None:
    with RoleClient(odd_service) as service:
        for _ in range(3):
            assert service.get("/leaves") == b"1"
            threading.Event().wait(0.05)


@pytest.mark.parametrize(
    "address",
    [
        "shuffler.example", "ftp://x", "http://", "http://h:99999", "https://h/?a=1", "file:///etc",
        "http://[::1", "http://a..b", "http://a b", f"http://{'a' * 64}/", "http://h/\xe4",
    ],
)  # fmt: skip
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(InputError, match="not the address"):
        RoleClient(address)


def test_addresses_of_any_alphabet_are_taken() -> None:
    for address in ("http://b\xfccher.example/x", "http://[::1]:8027", "https://h:1/a/"):
        RoleClient(address).close()


def test_a_password_does_not_travel_in_the_clear() -> None:
    with pytest.raises(InputError, match="unencrypted"):
        RoleClient("http://curator.example", PASSWORD)
    for address in ("https://curator.example", "http://127.0.0.1:1", "http://localhost:1"):
        with RoleClient(address, PASSWORD):
            pass


def test_a_password_is_a_secret_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "password"
    make_password(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(read_password(path)) == 43
    path.chmod(0o644)
    with pytest.raises(InputError, match="others may read"):
        read_password(path)
    path.chmod(0o600)
    path.write_text("short")
    with pytest.raises(InputError, match="32"):
        read_password(path)


# ---- Files and HTTP hold the same bytes


def test_files_and_http_may_be_mixed(world: World, tmp_path: Path) -> None:
    """Sealed into a file, sent over HTTP, passed on as a file, counted from the file."""
    world.delivery.stop()
    folder = tmp_path
    log = folder / "log.jsonl"
    users = [{"user": f"u{number}", "A.one": number % 3, "A.two": "x"} for number in range(9)]
    log.write_text("".join(json.dumps(one) + "\n" for one in users))
    (folder / "study.json").write_bytes(STUDY.to_bytes())
    (folder / "ask.json").write_bytes(FIRST.to_bytes())
    for role in ("shuffler", "curator"):
        (folder / f"{role}.pub").write_bytes(RINGS[role].public.to_bytes())
    arguments = [
        "private", "seal", "--from", str(log), "--study", str(folder / "study.json"),
        "--ask", str(folder / "ask.json"), "--shuffler-key", str(folder / "shuffler.pub"),
        "--recipient-key", str(folder / "curator.pub"), "-o", str(folder / "uploads"), "--quiet",
    ]  # fmt: skip
    assert run(arguments) == 0
    sealed = (folder / "uploads").read_bytes()
    assert world.at_shuffler.post("/uploads", content=sealed).json()["accepted"] == 18
    world.shuffler.close_ask(FIRST.id)
    for number, batch_id in enumerate(world.shuffler.unsent()):
        content = world.shuffler.batch(batch_id)
        assert content is not None
        (folder / f"{number}.batch").write_bytes(content)
    for path in folder.glob("*.batch"):
        world.curator.take(path.read_bytes())
    counts = world.curator.counts(FIRST)
    assert counts[("A.one",)] == Counter({("=0",): 3, ("=1",): 3, ("=2",): 3})
    assert counts[("A.two",)] == {("=x",): 9}
