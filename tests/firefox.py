"""Firefox, driven by a few commands of Mozilla's Marionette protocol."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.patience import patience

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIREFOX = shutil.which("firefox-esr")
SECONDS = 30
TAB, ENTER = "\ue004", "\ue007"  # keys, as WebDriver names them


class Firefox:
    """The few commands of Mozilla's Marionette protocol that are needed."""

    def __init__(self, port: int) -> None:
        seconds = patience(4 * SECONDS)
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=seconds)
        self._file = self._socket.makefile("rb")
        self._read()
        self._call("WebDriver:NewSession", {})

    def open(self, address: str) -> None:
        self._call("WebDriver:Navigate", {"url": address})

    def run(self, expression: str) -> Any:
        script = {"script": f"return {expression}", "args": []}
        return self._call("WebDriver:ExecuteScript", script)["value"]

    def press(self, key: str) -> None:
        """Press and release a key."""
        strokes = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        self._call(
            "WebDriver:PerformActions",
            {"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]},
        )

    @contextmanager
    def tab(self) -> Iterator[Firefox]:
        first = self._call("WebDriver:GetWindowHandle", {})["value"]
        opened = self._call("WebDriver:NewWindow", {"type": "tab"})["handle"]
        self._call("WebDriver:SwitchToWindow", {"handle": opened})
        yield self
        self._call("WebDriver:CloseWindow", {})
        self._call("WebDriver:SwitchToWindow", {"handle": first})

    @contextmanager
    def offline(self) -> Iterator[None]:
        self._set_offline("true")
        yield
        self._set_offline("false")

    def _set_offline(self, state: str) -> None:
        # connections that are open would stay so
        self.run_inside('Services.obs.notifyObservers(null, "net:cancel-all-connections")')
        self.run_inside(f"Services.io.offline = {state}")

    def run_inside(self, expression: str) -> Any:
        """Run code as Firefox's own, and not as a page's."""
        self._call("Marionette:SetContext", {"value": "chrome"})
        found = self.run(expression)
        self._call("Marionette:SetContext", {"value": "content"})
        return found

    def sized(self, width: int, height: int) -> list[int]:
        """Width and height that a page sees of a window of this size."""
        self._call("WebDriver:SetWindowRect", {"width": width, "height": height})
        return list(self.run("[innerWidth, innerHeight]"))

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def _call(self, name: str, given: dict[str, Any]) -> Any:
        message = json.dumps([0, 1, name, given]).encode()
        self._socket.sendall(f"{len(message)}:".encode() + message)
        _, _, error, result = self._read()
        assert error is None, error
        return result

    def _read(self) -> Any:
        digits = b""
        while (byte := self._file.read(1)) != b":":
            digits += byte
        return json.loads(self._file.read(int(digits)))


@contextmanager
def firefox(folder: Path, preferences: str = "") -> Iterator[Firefox]:
    if FIREFOX is None:
        pytest.skip("firefox-esr is not installed")
    profile = folder / "profile"
    profile.mkdir(exist_ok=True)
    (profile / "MarionetteActivePort").unlink(missing_ok=True)  # of an earlier session
    (profile / "user.js").write_text(
        'user_pref("marionette.port", 0);\n'
        'user_pref("network.disable-localhost-when-offline", true);\n' + preferences,
        encoding="utf-8",
    )
    with ExitStack() as stack:
        try:
            port = stack.enter_context(_started(profile, folder))
        except TimeoutError:  # on a busy machine a few hang
            port = stack.enter_context(_started(profile, folder))
        yield stack.enter_context(closing(Firefox(port)))


@contextmanager
def _started(profile: Path, folder: Path) -> Iterator[int]:
    """Start a Firefox; gives its port."""
    assert FIREFOX is not None
    process = subprocess.Popen(
        [
            *(FIREFOX, "--headless", "--no-remote", "--profile", str(profile)),
            *("--marionette", "--remote-allow-system-access"),
        ],
        env={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + patience(SECONDS)
        while not (port := read_if_there(profile / "MarionetteActivePort")):
            if time.monotonic() > end:
                raise TimeoutError
            time.sleep(0.1)
        yield int(port)
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def read_if_there(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""
