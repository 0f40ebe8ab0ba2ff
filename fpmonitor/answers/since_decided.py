"""What the users of a window are compared with: those of the days of a decision."""

from __future__ import annotations

import functools
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING

from fpmonitor.answers.log_faults import find_faults
from fpmonitor.answers.trend import window_users
from fpmonitor.errors import UndecidableError
from fpmonitor.store.snapshot import Window
from fpmonitor.store.windows import end_of, position, whole_span, window_at

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fpmonitor.answers.panel import WindowUsers
    from fpmonitor.decide.decision import Decision
    from fpmonitor.population.windows import Windows
    from fpmonitor.store.windows import Span

_TRIED = 60  # windows, of which the first that has k users is compared with


@dataclass(frozen=True)
class SinceDecided:
    """A calendar window that is checked, and the windows of the decision.

    Attributes
    ----------
    windows
        Calendar windows, of which `windows.window` is the one in question.
    decision
        What was decided.
    apis
        Its candidates that were ever observed.
    """

    windows: Windows
    decision: Decision
    apis: Sequence[str]

    def faults(self) -> dict[str, str]:
        """Find APIs whose values are at fault in the window: see `find_faults`."""
        days = self.decision.days
        found = None if days is None else self.before(datetime.combine(days[1], time.min))
        if found is None:
            return {}
        k = self.decision.policy.k
        return find_faults(self.read(found), self.read(self.now), k=k)

    def before(self, base: datetime, *, like: bool = False) -> Span | None:
        """Return the first window of k users from a moment on, before the one in question.

        Where it must be `like` this one, and days have their weekday, it may begin a week before.
        """
        begin, division = self.windows.window.since, self.windows.division
        if begin is None or not self.apis:
            return None
        is_weekday = like and division == "day"
        since = window_at(base, division)
        since -= timedelta(days=(since - begin).days % 7) if is_weekday else timedelta()
        for _ in range(_TRIED):
            if since >= begin:
                return None
            source = self.windows.window.source
            with suppress(UndecidableError):
                limits = Window(since, end_of(since, division), source)
                span = whole_span(self.windows.database, limits)
                if self.read(span).size >= self.decision.policy.k:
                    return span
            since = end_of(since, division)
            [(oldest,)] = self.windows.database.rows("windows/oldest", since=since)
            if oldest is None:
                return None
            since = max(since, window_at(oldest, division))
            since += timedelta(days=(begin - since).days % 7) if is_weekday else timedelta()
        return None

    def place(self, base: datetime) -> int:
        """Place of the window after the one of a moment."""
        begin, division = self.windows.window.since, self.windows.division
        if begin is None:
            return 0
        return position(begin, division) - position(window_at(base, division), division)

    @functools.cached_property
    def now(self) -> Span:
        """Visits of the window."""
        return whole_span(self.windows.database, self.windows.window)

    @functools.cached_property
    def read(self) -> Callable[[Span], WindowUsers]:
        """Read the users of a window, once."""
        k = self.decision.policy.k
        return functools.cache(lambda span: window_users(self.windows, span, self.apis, k=k))
