"""Commands to a Chromium through a pair of pipes."""

from __future__ import annotations

import json
import os
import threading
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ATTACH = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}


class DevTools:
    """Two pipes; a browser that is started by `command` with `passed` descriptors obeys."""

    def __init__(self) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        self.passed = (to_browser, from_browser)
        self._numbers, self._buffer = count(1), b""

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command of a Chromium with these pipes."""
        shell = 'exec "$@" 3<&{} 4>&{}'.format(*self.passed)
        return ["bash", "-c", shell, "sh", *command, "--remote-debugging-pipe"]

    def started(self) -> None:
        """Close the ends that the browser has now."""
        for end in self.passed:
            os.close(end)

    def send(self, method: str, session: str | None = None, **params: Any) -> int:
        """Send a command; return its number."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        return number

    def receive(self) -> dict[str, Any]:
        """Wait for an answer or an event.

        Raises
        ------
        EOFError
            The browser has ended.
        """
        while b"\0" not in self._buffer:
            part = os.read(self._read, 1 << 16)
            if not part:
                raise EOFError
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found

    def __call__(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command and return its result.

        Raises
        ------
        RuntimeError
            The browser refuses.
        """
        number = self.send(method, session, **params)
        while (answer := self.receive()).get("id") != number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def give_hints(self, hints: Mapping[str, Any]) -> None:
        """Give every page, frame and worker from now on these hints of its user agent."""

        def attach() -> None:
            try:
                self.send("Target.setAutoAttach", **_ATTACH)
                while True:
                    event = self.receive()
                    if event.get("method") != "Target.attachedToTarget":
                        continue
                    session = event["params"]["sessionId"]
                    self.send("Target.setAutoAttach", session, **_ATTACH)
                    for domain in ("Emulation", "Network"):  # pages, and workers
                        self.send(f"{domain}.setUserAgentOverride", session, **hints)
                    self.send("Runtime.runIfWaitingForDebugger", session)
            except (EOFError, OSError):
                return

        threading.Thread(target=attach, daemon=True).start()
