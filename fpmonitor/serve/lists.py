"""The lists of the decision that is served, searched again in the background on users of now."""

from __future__ import annotations

import asyncio
import os
import platform
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fpmonitor.decide.deciding import judging
from fpmonitor.decide.effort import Effort
from fpmonitor.decide.refresh import border_sets, can_refresh, refreshed
from fpmonitor.errors import FpmonitorError
from fpmonitor.population.disclosed import DisclosedSource
from fpmonitor.population.kept_spectra import KeptSpectra

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fpmonitor.decide.decision import ApiSet, Decision
    from fpmonitor.population.kept_spectra import Codes
    from fpmonitor.population.memory import MemorySource

_SECONDS = 100.0  # of one search; what it counted is not lost
_NICENESS = 10


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class UsersOfNow:
    """Users that lists are made of."""

    # source, columns: Their values, merged where they agree on all APIs, and in the order of their
    # rows.
    source: MemorySource
    columns: Mapping[str, Codes]
    seal: str  # Digest of their data, as decisions note it.
    read: float  # When they were read, by the monotonic clock, seconds.


class CurrentLists:
    """The lists of a decision, and the thread that searches them again, one search at a time.

    Others are told them, so sets are judged by what others are told of their spectra. They stay as
    they are where a search does not come to its end.

    Args:
        decision: As it stands in the file.
        log: Told why lists could not be made.
    """

    def __init__(self, decision: Decision, log: Callable[[str], None]) -> None:
        self.decision = self._file = decision
        self._log = log
        self._kept = KeptSpectra()
        self._thread = ThreadPoolExecutor(max_workers=1, initializer=_give_way)
        self._waiting: UsersOfNow | None = None
        self._now = decision.digest, 0.0
        self._behind: float | None = None
        self._effort = Effort()
        self._task: asyncio.Task[None] | None = None

    def see(self, seal: str, read: float) -> None:
        """Take note of the users that there are now, by their digest and when they were read."""
        self._now, self._waiting = (seal, read), None
        if seal == self.decision.digest:
            self._behind, self._effort.stopped = None, True  # others are not looked for any more
        elif self._behind is None:
            self._behind = read

    def follow(self, users: UsersOfNow) -> None:
        """Make the lists of these users, after those that are being made."""
        self.see(users.seal, users.read)
        same_names = {*users.source.apis} == {*self.decision.policy.candidates}
        if self._behind is None or not (can_refresh(self.decision) and same_names):
            return
        self._waiting = users
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._make())

    def state(self, users: int | None, *, is_read: bool) -> dict[str, Any]:
        """Tell of which users the lists are, and for how long others have been known.

        Args:
            users: How many were read last; null where there are none to judge on.
            is_read: Whether nothing came in since.
        """
        behind = 0.0 if self._behind is None else time.monotonic() - self._behind
        return {
            "users": self.decision.users,
            "users_now": users,
            "is_now": is_read and self._behind is None,
            "behind_seconds": round(behind, 1),
        }

    def words(self, *, is_read: bool) -> str:
        """Say of which users the lists are; `is_read` as of `state`."""
        words = f"The lists at /v1/decision are as of {self.decision.users:,} users"
        if self._behind is not None:
            stay = "" if can_refresh(self.decision) else ", and they stay as in the file"
            return f"{words}; others have come in since{stay}."
        return f"{words}; these are the current ones." if is_read else f"{words}."

    async def stop(self) -> None:
        """Make no lists any more; a search that runs ends at its next look."""
        self._waiting, self._effort.stopped = None, True
        if self._task is not None:
            await asyncio.wait([self._task])
        self._thread.shutdown()

    async def _make(self) -> None:
        while self._waiting is not None:
            users, self._waiting = self._waiting, None
            self._effort = Effort.of(_SECONDS)
            loop = asyncio.get_running_loop()
            try:
                made = await loop.run_in_executor(self._thread, self._made, users, self._effort)
            except FpmonitorError as error:
                self._log(error.message)
                continue
            if not self._effort.stopped:
                self._take(made)
            elif not self._effort.left:
                self._log(f"the lists were not made within {_SECONDS:.0f} s")

    def _take(self, made: Decision) -> None:
        # Users may have come in during the search: then the lists are behind once they are made.
        (seal, read), self.decision = self._now, made
        self._behind = None if seal == made.digest else read

    def _made(self, users: UsersOfNow, effort: Effort) -> Decision:
        # Of visits the file alone tells: what it allows comes back once last values allow it again.
        begun = self._file if self._file.policy.visits == "last+visit" else self.decision
        decision, source = begun.at_later_look(), users.source

        def look(number: int) -> None:
            effort.check(f"{number:,} sets counted")

        known: Mapping[ApiSet, Any] = {}
        with effort.until_stopped():
            known = self._kept.follow(users.columns, border_sets(decision), look=look)
        disclosed_source = DisclosedSource(source, decision.policy.k, known)
        # The days of the file are those of its users: the tests of others must not name them.
        tests = judging(replace(decision, days=None), source.users)
        return refreshed(decision, disclosed_source, tests=tests, seal=users.seal, effort=effort)


def _give_way() -> None:
    """Let all other threads of the machine go first, where a thread has a priority of its own."""
    if platform.system() == "Linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
