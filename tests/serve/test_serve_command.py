"""`fpmonitor collect serve` where strangers send half and wait, and where its disk is full."""

from __future__ import annotations

import json
import random
import resource
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2 as httpx
import pytest

from tests.patience import patience

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = 320  # that the service may have open, and so 160 connections
BODY_SECONDS = 2.0
SERVER = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))
from fpmonitor.serve import connections, requests
connections.WAIT_SECONDS = 1.5
requests.BODY_SECONDS = {BODY_SECONDS}
requests.MAX_UNDER_WAY_BYTES = 4_000_000
from fpmonitor.cli import run
sys.exit(run(sys.argv[1:]))
"""
HALF_BODY = b"POST /v1/observations HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
CANVAS = "HTMLCanvasElement.toDataURL"  # whose values may differ between all users
LARGE = json.dumps({"user": "u", "api": "A.a", "value": "x" * 990_000})
HALF_FORM = HALF_BODY.replace(b"v1/observations", b"login").replace(
    b"text/plain", b"application/x-www-form-urlencoded"
)
HALF_FORM += b"Content-Length: 99\r\n\r\ntoken="
HALF_BODY += b"Content-Length: 999999\r\n\r\n" + b"x" * 990_000


class Running:
    """The command `fpmonitor collect serve` on a folder of its own."""

    def __init__(self, folder: Path, script: str, settings: str, *before: str) -> None:
        self.log = folder / "log"
        self.connections = ExitStack()
        config = folder / "serve.toml"
        config.write_text(f'db = "disk/s.duckdb"\n{settings}')
        (folder / "disk").mkdir()
        command = [*before, sys.executable, "-P", "-c", script, "collect", "serve", "--port", "0"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--config", str(config)], cwd=folder, stderr=log
            )
        end = time.monotonic() + patience(60)
        while "started" not in self.log.read_text() and time.monotonic() < end:
            time.sleep(0.05)
        self.port = int(self.log.read_text().split("/ ")[0].rpartition(":")[2])

    def stop(self) -> None:
        self.connections.close()
        self.process.terminate()
        self.process.wait(60)

    def connect(self, sent: bytes) -> socket.socket:
        address = ("127.0.0.1", self.port)
        made = self.connections.enter_context(socket.create_connection(address, timeout=20))
        made.sendall(sent)
        return made

    def post(self, body: str = '{"user": "u", "api": "A.a", "value": 1}') -> int:
        address = f"http://localhost:{self.port}/v1/observations"
        answer = httpx.post(
            address, content=body, headers={"content-type": "text/plain"}, timeout=20
        )
        return answer.status_code

    def get(self, path: str) -> tuple[int, Any]:
        answer = httpx.get(f"http://localhost:{self.port}{path}", timeout=20)
        return answer.status_code, answer.json()

    def megabytes(self) -> float:
        numbers = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii")
        return int(numbers.split()[1]) * resource.getpagesize() / 1e6

    def files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))


def ended(connection: socket.socket) -> bool:
    """Whether the service has closed a connection, or does so in time."""
    connection.settimeout(10)
    try:
        while connection.recv(4000):
            pass
    except TimeoutError:
        return False
    except ConnectionResetError:
        pass
    return True


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    service = Running(tmp_path, SERVER, "")
    try:
        yield service
    finally:
        service.stop()


def test_half_sent_requests_end_by_themselves_and_keep_nobody_else_out(running: Running) -> None:
    before = running.megabytes()
    half = [b"POST /v1/observations HTTP/1.1\r\nX: "] * FILES
    with ThreadPoolExecutor(4) as strangers:
        idle = list(strangers.map(running.connect, half))
    assert running.post() == 202
    assert running.files() < FILES
    assert all(map(ended, idle))

    form = running.connect(HALF_FORM)
    bodies = [running.connect(HALF_BODY) for _ in range(12)]
    end = time.monotonic() + BODY_SECONDS
    assert running.megabytes() - before < 40
    assert running.post(LARGE) == 202, "half-sent bodies make room for one that comes"
    bodies.pop().close()
    answers = [connection.recv(40).split()[1] for connection in bodies]
    assert {*answers} == {b"408", b"503"}
    assert form.recv(40).split()[1] == b"408"
    assert time.monotonic() - end < BODY_SECONDS
    assert running.post() == 202
    assert [running.post("no record") for _ in range(50)] == [400] * 50

    unread = running.connect(b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
    assert unread.recv(12) == b"HTTP/1.1 200"
    for _ in range(20):
        running.connect(b"\0\r\n\r\n").close()
    assert ended(unread)  # a body that no answer waited for

    logged = running.log.read_text()
    assert "Traceback" not in logged
    assert logged.count("Invalid HTTP request") == 1
    assert logged.count('"status": 400') == 1
    assert len(logged.splitlines()) < 30


@pytest.mark.parametrize("path", ["v1/observations", "login", "healthz"])
def test_a_body_in_crumbs_is_refused_before_it_takes_the_time_of_others(
    running: Running, path: str
) -> None:
    head = f"POST /{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
    crumbs = running.connect(
        f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + b"1\r\n \r\n" * 5_000
    )
    assert ended(crumbs)
    record = b'{"user": "u", "api": "A.a", "value": 1}'
    parts = b"".join(b"1\r\n%c\r\n" % byte for byte in record)
    whole = running.connect(
        HALF_BODY.partition(b"Content-L")[0] + b"Transfer-Encoding: chunked\r\n\r\n"
    )
    whole.sendall(parts + b"0\r\n\r\n")
    assert whole.recv(12) == b"HTTP/1.1 202", "whoever sends little may send it in any form"
    assert "Traceback" not in running.log.read_text()


def test_nobody_who_comes_while_the_service_is_busy_has_to_come_again(running: Running) -> None:
    """The system drops whom it has no room for; they try again a second later."""
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    running.process.send_signal(signal.SIGSTOP)
    try:
        senders = [running.connect(request) for _ in range(100)]  # a service takes 160 at once
    finally:
        running.process.send_signal(signal.SIGCONT)
    assert {one.recv(12) for one in senders} == {b"HTTP/1.1 200"}


ON_SMALL_DISK = [
    "unshare",
    "-rm",
    "sh",
    "-c",
    'mount -t tmpfs -o size=16m t disk && exec "$@"',
    "-",
]


@pytest.mark.skipif(
    subprocess.run(["unshare", "-rm", "true"], check=False).returncode != 0,
    reason="a disk of its own needs namespaces",
)
def test_a_spool_leaves_the_database_room_on_the_disk_and_recovers_by_itself(
    tmp_path: Path,
) -> None:
    """What fills the disk is only what waits: all of it reaches the database, and more is taken."""
    script = "import sys; from fpmonitor.cli import run; sys.exit(run(sys.argv[1:]))"
    settings = "flush_seconds = 2\nmin_free_bytes = 2_000_000\n"
    running = Running(tmp_path, script, settings, *ON_SMALL_DISK)
    try:
        taken, status = 0, 202
        while status == 202 and taken < 100:
            values = random.Random(taken).randbytes(250_000).hex()
            record = {"api": CANVAS, "value": ""}
            lines = [
                json.dumps(record | {"user": f"{taken}.{i}", "value": values[i : i + 250]})
                for i in range(0, len(values), 250)
            ]
            status = running.post("\n".join(lines))
            taken += status == 202
        assert status == 429
        assert running.get("/healthz")[0] == 503
        end = time.monotonic() + patience(120)
        while running.get("/healthz")[0] != 200 and time.monotonic() < end:
            time.sleep(0.5)
        assert running.get("/healthz") == (
            200, {"status": "ok", "waiting_bytes": 0, "refused_bytes": 0},
        )  # fmt: skip
        assert running.get(f"/v1/exposure?apis={CANVAS}")[1]["users"] == taken * 2000
        assert running.post() == 202
    finally:
        running.stop()
