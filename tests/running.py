"""`fpmonitor collect serve` on a folder of its own, and requests to it, byte by byte or not."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

import httpx2 as httpx
from starlette.testclient import TestClient

from fpmonitor.serve.app import service_app
from fpmonitor.serve.config import ServeConfig, read_config
from fpmonitor.serve.keys import add_key
from tests.patience import wait

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HANGS = 300.0  # seconds after which nothing comes any more, also where ten tests share a core
COMMAND = "import sys; from fpmonitor.cli import run; sys.exit(run(sys.argv[1:]))"


class Running:
    """A service with a write key for each of `senders` and the read token of `ann`."""

    def __init__(
        self, folder: Path, *senders: str, settings: str = "", arguments: tuple[str, ...] = ()
    ) -> None:
        self.folder, self.log = folder, folder / "log"
        self.config = ServeConfig(db=folder / "s.duckdb")
        known = self.config.keys_file.exists()
        names = [] if known else [("write", name) for name in senders] + [("read", "ann")]
        self.keys = {name: add_key(self.config.keys_file, kind, name) for kind, name in names}  # type: ignore[arg-type]
        self._arguments, self._settings = arguments, settings
        self._connections = ExitStack()
        self.start()

    def _configured(self) -> Path:
        """Write the settings; return their file."""
        path = self.folder / "serve.toml"
        often = "" if "flush_seconds" in self._settings else "flush_seconds = 0.3\n"
        path.write_text(f'db = "s.duckdb"\n{often}{self._settings}')
        return path

    def start(self) -> None:
        self.client = self._connections.enter_context(httpx.Client(verify=False, timeout=HANGS))
        path = self._configured()
        command = [
            sys.executable,
            "-P",
            "-c",
            COMMAND,
            "collect",
            "serve",
            "--port",
            "0",
            "--config",
        ]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, str(path), *self._arguments], cwd=self.folder, stderr=log
            )
        self.until(lambda: "started" in self.log.read_text(), "it does not start")
        told = self.log.read_text().split("/ (Ctrl")[0]
        self.port = int(told.rpartition(":")[2])

    def stop(self, *, kill: bool = False) -> None:
        self._connections.close()
        (self.process.kill if kill else self.process.terminate)()
        self.process.wait(HANGS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()

    @property
    def address(self) -> str:
        return f"http://localhost:{self.port}"

    def request(
        self, method: str, path: str, *, key: str = "", timeout: float = HANGS, **more: Any
    ) -> httpx.Response:
        headers = dict(more.pop("headers", {}))
        if key:
            headers["authorization"] = f"Bearer {self.keys[key]}"
        return self.client.request(
            method, self.address + path, headers=headers, timeout=timeout, **more
        )

    def post(self, content: object, key: str, path: str = "/v1/observations") -> httpx.Response:
        """Send records, as JSON or as these bytes."""
        body = content if isinstance(content, str | bytes) else json.dumps(content)
        headers = {"content-type": "text/plain"}
        return self.request("POST", path, key=key, content=body, headers=headers)

    def get(self, path: str, key: str = "", **more: Any) -> httpx.Response:
        return self.request("GET", path, key=key, **more)

    def health(self) -> str:
        return str(self.get("/healthz").json()["status"])

    def connect(self, sent: bytes) -> socket.socket:
        address = ("127.0.0.1", self.port)
        made = self._connections.enter_context(socket.create_connection(address, timeout=HANGS))
        made.sendall(sent)
        return made

    def settled(self) -> None:
        """Wait until nothing is in the spool."""
        self.until(lambda: not any(self.config.spool_folder.glob("*.frames")), "nothing is stored")

    def until(self, happened: Callable[[], bool], otherwise: str) -> None:
        """Wait for what the service does; only one that ends or hangs fails, however slow it is."""
        end = time.monotonic() + HANGS
        while not happened():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, otherwise
            time.sleep(0.02)


class Inside(Running):
    """The same service within this process: a start takes a tenth of the time."""

    def start(self) -> None:
        app, address = service_app(read_config(self._configured())), "http://localhost"
        client = TestClient(app, address, raise_server_exceptions=False, follow_redirects=False)
        self.client = self._connections.enter_context(client)

    @property
    def address(self) -> str:
        return "http://localhost"

    def stop(self, *, kill: bool = False) -> None:
        assert not kill, "only a process can be killed"
        self._connections.close()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def request(
        self, method: str, path: str, *, key: str = "", timeout: float = HANGS, **more: Any
    ) -> Any:
        del timeout  # nothing is between the client and the service
        headers = dict(more.pop("headers", {}))
        if key:
            headers["authorization"] = f"Bearer {self.keys[key]}"
        return self.client.request(method, path, headers=headers, **more)

    def until(self, happened: Callable[[], bool], otherwise: str) -> None:
        del otherwise
        wait(happened)
