"""What the dashboard needs of the service, around one database."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from fpmonitor.decide.decision import Decision
    from fpmonitor.monitor import Monitor
    from fpmonitor.population.exposure_index import ExposureIndex


class DashboardService:
    """Answers readers of a database; whoever has the token is one, if there is a token."""

    limits_counts = False
    words_of_lists = None

    def __init__(self, monitor: Monitor, decision: Decision | None = None, token: str = "") -> None:
        self.decision = decision
        self.history_path: Path | None = None
        self.wants_read_token = bool(token)
        self.monitor, self._token, self._lock = monitor, token, threading.Lock()

    def changes_of_others(self) -> int:
        return 0

    def reader_of(self, token: str) -> str:
        return token or "local"

    async def refusal_of_count(self, reader: str, name: str) -> str:
        assert reader
        assert name
        return ""

    async def judged(self, apis: Sequence[str], explorer: ExposureIndex) -> dict[str, Any]:
        assert explorer.users
        return {} if self.decision is None else self.decision.answer(apis)

    def is_read_token(self, token: str) -> bool:
        return bool(self._token) and token == self._token

    async def ask(self, question: Callable[[Monitor], Any]) -> Any:
        def locked() -> Any:
            with self._lock:
                return question(self.monitor)

        return await run_in_threadpool(locked)
