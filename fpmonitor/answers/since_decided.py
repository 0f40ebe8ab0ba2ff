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
    from collections.abc import Callable, Iterator, Sequence

    from fpmonitor.answers.panel import WindowUsers
    from fpmonitor.decide.decision import Decision
    from fpmonitor.population.windows import Windows
    from fpmonitor.store.windows import Span

_SURE = 5  # times k users, of whom chance is no half
_FEWER = 0.5  # of the users of a source, beside those of all
_TRIED = 60  # windows, of which the first that has k users is compared with


def _changed_sources(
    had: dict[str, int], has: dict[str, int], *, then: str, k: int
) -> Iterator[tuple[str, str]]:
    both = {*had} & {*has}
    season = sum(has[name] for name in both) / max(sum(had[name] for name in both), 1)
    for name in sorted({*had, *has}):
        expected, users = had.get(name, 0), has.get(name, 0)
        if len(both) > 1 or name not in both:
            expected = round(min(season or 1.0, 1.0) * expected)
        if not had.get(name):
            yield name, f"the source {name} is new since {then}"
        elif not users and expected >= _SURE * k:
            yield name, f"the source {name} has sent fewer than {k} users, and many on {then}"
        elif _SURE * k <= expected and users < _FEWER * expected:
            fewer = 100 * (1 - users / expected)
            yield name, f"the source {name} sends {fewer:.0f} % fewer users than on {then}"


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

    def sources(self) -> dict[str, str]:
        """Find sources that vanished, came, or send fewer than half of their share of the users.

        A day is compared with one of the same weekday, and what fewer than k users come by shows
        in nothing.
        """
        days, source = self.decision.days, self.windows.window.source
        base = None if days is None else datetime.combine(days[1], time.min)
        before = None if base is None else self.before(base, like=True)
        if before is None or before.window.since is None or source is not None:
            return {}
        k = self.decision.policy.k
        had, has = (
            {
                str(name): int(users)
                for name, users in self.windows.database.rows("windows/sources", **span.bounds)
                if users >= k
            }
            for span in (before, self.now)
        )
        then = f"{before.window.since:%Y-%m-%d}"
        return dict(_changed_sources(had, has, then=then, k=k))

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
