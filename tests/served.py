"""What the dashboard needs of the service, around one database."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.routing import Route

from fpmonitor.serve.asked import Flights, respond
from fpmonitor.serve.dashboard import PEOPLE, Dashboard
from fpmonitor.serve.door import Door
from fpmonitor.serve.keys import Key
from fpmonitor.serve.pages import refused_as_text, service_files
from fpmonitor.serve.requests import answered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fpmonitor.decide.decision import Decision
    from fpmonitor.monitor import Monitor
    from fpmonitor.population.exposure_index import ExposureIndex


def routes(service: DashboardService) -> list[Route]:
    """Addresses of the dashboard of a service in this process."""
    handlers = Dashboard(cast("Any", service)).handlers
    app = Starlette(routes=[Route(path, handler) for path, handler in handlers.items()])

    door = Door(service, Flights(partial(respond, app), lambda: None, by_reader=True))
    return [
        *(Route(path, answered(door.for_people, refused_as_text)) for path in PEOPLE),
        Route("/login", answered(door.login, refused_as_text), methods=["GET", "POST"]),
        Route("/logout", door.logout, methods=["POST"]),
        *service_files(),
    ]


READER = Key("read", "reader", "0" * 64)


class DashboardService:
    """Answers readers of a database; whoever has the token is one, if there is a token."""

    limits_counts = False
    words_of_lists = None

    def __init__(self, monitor: Monitor, decision: Decision | None = None, token: str = "") -> None:
        self.decision = decision
        self.history_path = Path(os.devnull)
        self.wants_read_token = bool(token)
        self.monitor, self._token, self._lock = monitor, token, threading.Lock()

    def changes_of_others(self) -> int:
        return 0

    def reader_of(self, token: str) -> Key | None:
        return READER if self._token and token == self._token else None

    def is_reader(self, key: Key) -> bool:
        return key == READER

    async def refusal_of_count(self, reader: str, name: str) -> str:
        assert reader
        assert name
        return ""

    async def judged(self, apis: Sequence[str], explorer: ExposureIndex) -> dict[str, Any]:
        assert explorer.users
        return {} if self.decision is None else self.decision.answer(apis)

    async def ask(self, question: Callable[[Monitor], Any]) -> Any:
        def locked() -> Any:
            with self._lock:
                return question(self.monitor)

        return await run_in_threadpool(locked)
