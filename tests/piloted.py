"""A pilot of private collection for tests: its services as processes, and what its roles hold."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cli import run
from fpmonitor.private.folder import RoleFolder
from fpmonitor.private.store import RoleStore, read_counts
from tests.patience import wait

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fpmonitor.private.study import CollectionRequest, Role


PAGE = (Path(__file__).parents[1] / "docs" / "private.md").read_text(encoding="utf-8")
APIS = ("Navigator.maxTouchPoints", "Navigator.platform", "Screen.colorDepth")


def user(number: int) -> dict[str, Any]:
    return dict(zip(APIS, (number % 2, "Linux", 24 + number // 117), strict=True))


def write_log(path: Path, users: Iterable[int]) -> None:
    rows = [{"user": f"user-{number}", **user(number)} for number in users]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def ran(*arguments: str, code: int = 0) -> str:
    """What a command prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert run([*arguments]) == code, arguments
    return printed.getvalue()


def perform(command: str, code: int = 0) -> str:
    """A command of the page, on a small log and with a minimum that it reaches."""
    command = command.replace("fixtures/logs/browsers-3.parquet", "users.jsonl")
    command, _, target = command.replace("-batch 500", "-batch 50").partition(" > ")
    program, *words = shlex.split(command)
    assert program == "fpmonitor"
    arguments = [
        str(path)
        for word in words
        for path in (sorted(Path().glob(word)) if "*" in word else [word])
    ]
    printed = ran(*arguments, code=code)
    if target:
        Path(target).write_text(printed, encoding="utf-8")
    return printed


def free_ports() -> int:
    """First of three free ports in a row, below those that the system gives to other tests."""
    for first in range(20_000 + os.getpid() % 5_000, 32_000, 3):
        with contextlib.suppress(OSError), contextlib.ExitStack() as held:
            for port in range(first, first + 3):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
    pytest.fail("no three ports in a row are free")


class Serving:
    """`private serve FOLDER` as a process, until it is stopped."""

    def __init__(self, folder: Path, services: int = 1) -> None:
        self._folder, self._services = folder, services
        if services == 1:
            made = RoleFolder(folder)
            self.role: Role = made.config.role
            self.address = made.address(self.role)
        self.log = folder.with_name(f"{folder.name}.log")
        self.start()

    def start(self) -> None:
        """Start it; returns when it listens."""
        command = [sys.executable, "-P", "-m", "fpmonitor", "private", "serve", str(self._folder)]
        with self.log.open("w") as lines:
            self._process = subprocess.Popen(command, stderr=lines)
        wait(self._is_listening)

    def _is_listening(self) -> bool:
        assert self._process.poll() is None, self.log.read_text()
        return len(re.findall(r":\d+/ ", self.log.read_text())) == self._services

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


def counts(folder: Path, role: Role, ask: CollectionRequest) -> Any:
    """Users by tokens, for each set of a request, in the store of a role."""
    made = RoleFolder.of(folder, role)
    with RoleStore(made.store, made.study, role) as store:
        return read_counts(store, ask)
