"""Strangers who send half and wait: the service answers others, and stays within its bounds."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2 as httpx
import pytest

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
HALF_BODY += b"Content-Length: 999999\r\n\r\n" + b"x" * 990_000


class Running:
    """The command `fpmonitor serve` on a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.connections = ExitStack()
        command = [sys.executable, "-P", "-c", SERVER, "serve", "--port", "0"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--db", str(folder / "s.duckdb")], cwd=folder, stderr=log
            )
        end = time.monotonic() + 60
        while "started" not in self.log.read_text() and time.monotonic() < end:
            time.sleep(0.05)
        self.port = int(self.log.read_text().split("/ ")[0].rpartition(":")[2])

    def connect(self, sent: bytes) -> socket.socket:
        address = ("127.0.0.1", self.port)
        made = self.connections.enter_context(socket.create_connection(address, timeout=20))
        made.sendall(sent)
        return made

    def post(self) -> int:
        body = '{"user": "u", "api": "A.a", "value": 1}'
        address = f"http://localhost:{self.port}/v1/observations"
        answer = httpx.post(
            address, content=body, headers={"content-type": "text/plain"}, timeout=20
        )
        return answer.status_code

    def megabytes(self) -> float:
        numbers = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii")
        return int(numbers.split()[1]) * resource.getpagesize() / 1e6

    def files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    service = Running(tmp_path)
    try:
        yield service
    finally:
        service.connections.close()
        service.process.terminate()
        service.process.wait(60)


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


def test_half_sent_requests_end_by_themselves_and_keep_nobody_else_out(running: Running) -> None:
    before = running.megabytes()
    idle = [running.connect(b"POST /v1/observations HTTP/1.1\r\nX: ") for _ in range(2 * FILES)]
    assert running.post() == 202
    assert running.files() < FILES
    assert all(map(ended, idle))

    bodies = [running.connect(HALF_BODY) for _ in range(12)]
    end = time.monotonic() + BODY_SECONDS
    assert running.megabytes() - before < 40
    bodies.pop().close()
    answers = [connection.recv(40).split()[1] for connection in bodies]
    assert {*answers} == {b"408", b"503"}
    assert time.monotonic() - end < BODY_SECONDS
    assert running.post() == 202

    unread = running.connect(b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
    assert unread.recv(12) == b"HTTP/1.1 200"
    for _ in range(20):
        running.connect(b"\0\r\n\r\n").close()
    assert ended(unread)  # a body that no answer waited for

    logged = running.log.read_text()
    assert "Traceback" not in logged
    assert logged.count("Invalid HTTP request") == 1
    assert len(logged.splitlines()) < 30
