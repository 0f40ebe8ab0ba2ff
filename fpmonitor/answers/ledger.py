"""The ledger of windows: who came in each calendar window, and how a window differs from another.

Check, trend, the age of a decision and the watch are readings of it. What a check found in a window
is recorded by `store.checks`.
"""

from __future__ import annotations

import functools
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from fpmonitor.answers.check import SourceChange, usable
from fpmonitor.answers.decide import called_as, question_of
from fpmonitor.answers.log_faults import NEW_FORM, are_enough, changed_sources, find_faults
from fpmonitor.answers.panel import PanelFinding, WindowUsers, certain, compare
from fpmonitor.answers.window_check import check_has_windows
from fpmonitor.disclosure import Audience, publishable_members
from fpmonitor.errors import UndecidableError
from fpmonitor.estimate.drift import adjust_p_values
from fpmonitor.policy import disclosed_from
from fpmonitor.population.windows import Windows
from fpmonitor.store.snapshot import Window
from fpmonitor.store.windows import (
    Division,
    LeftOut,
    Period,
    Span,
    end_of,
    list_spans,
    position,
    users_of_sources,
    whole_span,
    whole_windows,
    window_at,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from fpmonitor.answers.check import BrokenFirst
    from fpmonitor.decide.decision import Decision
    from fpmonitor.population.population import Population
    from fpmonitor.store.database import Database

_TRIED = 60  # windows, of which the first that has k users is compared with
_AGREE = 3  # windows that say so make the first one broken: logs may break on the second day
_NAMED = 3


def read_users(windows: Windows, span: Span, apis: Sequence[str], *, k: int) -> WindowUsers:
    """Read the users of a window with some APIs, as all windows are seen; k is for others."""
    return _users_among(windows.population(span, apis), windows, apis, k=k)


def _users_among(
    population: Population, windows: Windows, apis: Sequence[str], *, k: int
) -> WindowUsers:
    population = population.without_few(k)
    columns: dict[str, NDArray[np.integer[Any]]] = {}
    with suppress(UndecidableError):  # every user looks automated
        columns = {api: population.column(api) for api in apis}
    size = len(next(iter(columns.values()), ()))
    # Which values are noise follows from visits of all windows, so what is kept may change with
    # them.
    looks_back = windows.may_be_masked(apis) and population.may_be_contradicted
    return WindowUsers(
        people=population.people if size else None,
        columns=columns if size else {},
        texts=functools.cache(population.value_texts),
        masked=population.masked(apis, k) if size else (),
        contradicted=windows.contradicted(apis) if looks_back else None,
    )


def compare_windows(
    before: WindowUsers, after: WindowUsers, *, k: int, false_alarms: float, audience: Audience
) -> tuple[PanelFinding, ...]:
    """Return which APIs have other values in a window of k users than in another, the surest first.

    `false_alarms` is as of `TrendReport`.
    """
    tables = [(api,) for api in after.columns]
    tested = list(compare(before, after, tables, rarity_of=(), k=k, audience=audience))
    # Holm's method over all tests of a look (certificate/panel.md).
    adjusted = adjust_p_values([one.p_value for one in tested])
    order = sorted(range(len(tested)), key=lambda i: adjusted[i])
    return tuple(
        replace(
            tested[i],
            p_value=float(adjusted[i]),
            values=tuple(certain(tested[i].values, len(tested), false_alarms, audience)),
            lost=tuple(v for v in tested[i].lost if v.p_value * len(tested) <= false_alarms),
            came=tuple(v for v in tested[i].came if v.p_value * len(tested) <= false_alarms),
        )
        for i in order
        if adjusted[i] <= false_alarms
    )


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The calendar windows of a database, as a decision looks at their users.

    Attributes:
        database, period: The open database, and the length of the windows.
        decision: Whose source, view and candidates count.
        limits: Windows that these cut are not checked.
        now: Which windows are over, UTC without a zone.
        audience: Who is told.
        population: Reads the users of a window, as the decision saw its own.
    """

    database: Database
    period: Period
    decision: Decision
    limits: Window
    now: datetime
    audience: Audience
    population: Callable[[Window], Population]
    _read: dict[tuple[Span, tuple[str, ...]], WindowUsers] = field(default_factory=dict)

    def newest(self, limits: Window | None = None) -> tuple[Population, tuple[LeftOut, ...]]:
        """Return the users of the newest window that can be checked, and the newer windows.

        Raises:
            UndecidableError: No visit has a time, or no window can be checked; the message says
                why.
            InputError: No window of this length ever can.
        """
        limits, left_out = limits or self.limits, []
        # The newest first.
        for span in whole_windows(self.database, self.period, limits, now=self.now):
            if isinstance(span, LeftOut):
                left_out.append(span)
                continue
            users = self.population(span.window)
            if usable(users, self.decision):
                return users, tuple(left_out)
            # An older window is asked for, in place of one that can neither pass nor fail.
            left_out.append(span.left_out("has too few users"))
        check_has_windows(self.decision, self.period)  # which longer logs would not help
        disclosed_gaps = left_out[:_NAMED] if self.audience is Audience.OWNER else ()
        why = "; ".join(f"that of {gap.since:%Y-%m-%d} {gap.why}" for gap in disclosed_gaps)
        raise UndecidableError(
            f"no {self.period} that is over has enough users{why and ': ' + why}",
            hint="ingest more logs, or choose longer windows with --by",
        )

    def over(self, since: datetime) -> list[Window]:
        """Windows with visits from a moment on that are over, in their order."""
        try:
            spans = list_spans(self.database, self.period, Window(since, source=self.limits.source))
        except UndecidableError:  # no visit since then
            return []
        # A window that goes on may still change, and is judged once.
        return [span.window for span in spans if (span.window.until or self.now) <= self.now]

    def users_of(self, window: Window) -> Population | None:
        """Return the users of a window that can be checked; null for too few."""
        with suppress(UndecidableError):
            users = self.population(window)
            if usable(users, self.decision):
                return users
        return None

    def gap(self, since: datetime, until: datetime) -> datetime | None:
        """Return when the first window begins that cannot be checked, of those between."""
        while since < until:
            if self.users_of(Window(since, end_of(since, self.period), self.limits.source)) is None:
                return since
            since = end_of(since, self.period)
        return None

    def beside(self, users: Population) -> SinceDecided | None:
        """Return what a window is compared with; values made coarser cannot be."""
        if self.decision.view.transforms:
            return None
        windows = Windows(
            database=self.database,
            division=self.period,
            window=users.window,
            view=self.decision.view,
            audience=self.audience,
        )
        decision = called_as(self.decision, users)
        apis = {*decision.policy.candidates}.intersection(users.askable_apis(question_of(decision)))
        # What is masked follows from who came in the window itself: nothing is shared then.
        known = {} if windows.may_be_masked(sorted(apis)) else self._read
        since = SinceDecided(windows, decision, tuple(sorted(apis)), known)
        if known is self._read and users.people is not None:  # in memory: not read once more
            found = _users_among(users, windows, since.apis, k=decision.policy.k)
            known[since.now, since.apis] = found
        return since


@dataclass(frozen=True)
class SinceDecided:
    """A window that is checked, beside those of the decision.

    Attributes:
        windows: Calendar windows, of which `windows.window` is the one in question.
        decision: What was decided.
        apis: Its candidates that were ever observed.
        known: Users of windows that were read already, by these APIs.
    """

    windows: Windows
    decision: Decision
    apis: tuple[str, ...]
    known: dict[tuple[Span, tuple[str, ...]], WindowUsers]

    def faults(self) -> dict[str, str]:
        """Find APIs whose values are at fault in the window: see `find_faults`."""
        return self._found[0]

    def broken_first(self) -> BrokenFirst | None:
        """Find the window that others are compared with to be at fault itself: its begin, and why.

        Else all later windows would look broken, until it is decided again.
        """
        first, (_, found) = self._first, self._found
        since = None if first is None else first.window.since
        return (since, found) if since is not None and found else None

    @property
    def is_judged(self) -> bool:
        """Whether enough users came in the window, and before, for faults to show."""
        first = self._first
        return first is not None and are_enough(self._read(first), self._read(self.now), k=self._k)

    def sources(self) -> dict[str, SourceChange]:
        """Find sources that vanished, came, or send fewer than half of their share of the users.

        What fewer than k users come by shows in nothing.
        """
        before = self._before(self._decided)
        if before is None or self.windows.window.source is not None:
            return {}
        had, has = (
            {name: users for name, users in found.items() if users >= self._k}
            for found in (users_of_sources(self.windows.database, before), self._now_by_source)
        )
        return dict(changed_sources(had, has, then=before.name, k=self._k))

    def source_users(self, users: int) -> dict[str, int]:
        """Return the users of each source, as far as they may leave beside those of the window."""
        if self.windows.window.source is not None:
            return {}
        return publishable_members(self._now_by_source, users, self._k, self.windows.audience)

    def faulty_sources(self, faults: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Judge the own users of each source: source -> APIs at fault; none where it is sound.

        Left out is what is new, or has too few users to be judged.
        """
        found = {}
        for name, users in self._now_by_source.items() if faults else ():
            if users >= disclosed_from(self._k) and not name.startswith("!"):  # no name of a source
                window = replace(self.windows.window, source=name)
                alone = replace(
                    self,
                    windows=replace(self.windows, window=window),
                    # Only what is at fault in the window: the sources are to say by whom.
                    apis=tuple(sorted({*faults}.intersection(self.apis))),
                    known={},
                )
                if alone.is_judged:
                    found[name] = tuple(sorted(alone.faults()))
        return found

    @functools.cached_property
    def _now_by_source(self) -> dict[str, int]:
        return users_of_sources(self.windows.database, self.now)

    def moved(
        self, origin: datetime | None, level: Callable[[int], float]
    ) -> tuple[date, tuple[PanelFinding, ...]] | None:
        """Find APIs whose values are others than on a day; None without k users each.

        Fewer users are as good as none, so that they show in no answer.

        Args:
            origin: Begin of the window that counts where the decision names no days; null for none.
            level: Tolerated probability of any alarm, by how many windows later this one is.
        """
        # A file of an earlier version names no days: the first window that was checked stands for
        # them.
        base, begin = self._decided or origin, self.windows.window.since
        if base is None or begin is None:
            return None
        first = window_at(base, self._period)
        place, k = position(begin, self._period) - position(first, self._period), self._k
        before = self._before(base) if place >= 1 else None
        if before is None or self._read(self.now).size < k:
            return None
        while before is not None and before.window.since is not None:
            found = compare_windows(
                self._read(before),
                self._read(self.now),
                k=k,
                false_alarms=level(place),
                audience=self.windows.audience,
            )
            if not self._is_at_fault(before, found):
                return before.window.since.date(), found
            before = self._before(self._next_like(before.window.since))
        return None

    def _is_at_fault(self, span: Span, found: Sequence[PanelFinding]) -> bool:
        """Whether a window that others were compared with has broken values of what they found.

        That these are gone would be news of a log. Nothing is read where nothing was found.
        """
        if not found:
            return False
        faults = self._found[1] if span == self._first else self._judged(span)[0]
        return any(not faults.keys().isdisjoint(one.apis) for one in found)

    @functools.cached_property
    def _first(self) -> Span | None:
        """The window that others are compared with for faults."""
        return self._before(self._decided, like=False)

    @functools.cached_property
    def _found(self) -> tuple[dict[str, str], dict[str, str]]:
        return self._judged(self.now)

    def _judged(self, span: Span) -> tuple[dict[str, str], dict[str, str]]:
        """Find what is at fault in a later window, and what in the first one instead."""
        first = self._first
        if first is None:
            return {}, {}
        found = self._faults_beside(first, span)
        # What later windows have lost is no fault of the first, however many agree.
        doubted = {api for api, words in found.items() if words == NEW_FORM}
        known = self._broken_first if doubted else {}
        of_first = {api: words for api, words in known.items() if api in doubted}
        if of_first:
            by_next = self._faults_beside(self._after_first[0], span)
            found = {api: words for api, words in found.items() if api not in of_first}
            found |= {api: words for api, words in by_next.items() if api in of_first}
        return found, of_first

    def _faults_beside(self, sound: Span, span: Span) -> dict[str, str]:
        return find_faults(self._read(sound), self._read(span), k=self._k)

    @functools.cached_property
    def _broken_first(self) -> dict[str, str]:
        """Find what is at fault in the first window by the next ones, which agree with each other.

        The first window of the days that were decided on must not agree with that of their end.
        """
        first, nexts = self._first, self._after_first
        if first is None or len(nexts) < _AGREE:
            return {}
        found = [self._faults_beside(one, first) for one in nexts]
        if self.decision.days is not None:
            begun = self._before(datetime.combine(self.decision.days[0], time.min), like=False)
            if begun is not None and begun != first:
                found.append(self._faults_beside(begun, first))
        differ = {api for one in nexts[1:] for api in self._faults_beside(nexts[0], one)}
        agreed = set.intersection(*map(set, found)) - differ
        return {api: words for api, words in found[0].items() if api in agreed}

    @functools.cached_property
    def _after_first(self) -> list[Span]:
        """The next windows of k users after the first, up to that in question."""
        found, last = list[Span](), self._first
        while last is not None and len(found) < _AGREE:
            last = self._before(last.window.until, like=False)
            found += [] if last is None else [last]
        return [*found, self.now][:_AGREE]

    def _next_like(self, since: datetime) -> datetime:
        return since + timedelta(days=7) if self._period == "day" else end_of(since, self._period)

    @property
    def _period(self) -> Division:
        return self.windows.division

    @property
    def _k(self) -> int:
        return self.decision.policy.k

    @property
    def _decided(self) -> datetime | None:
        days = self.decision.days
        return None if days is None else datetime.combine(days[1], time.min)

    def _before(self, base: datetime | None, *, like: bool = True) -> Span | None:
        """Return the first window of k users from a moment on, before the one in question.

        Where it is to be `like` this one, and days have their weekday, it may begin a week before.
        """
        begin, period, source = self.windows.window.since, self._period, self.windows.window.source
        if base is None or begin is None or not self.apis:
            return None
        # A Sunday has other users than a Monday: days are compared with days of their weekday.
        is_weekday = like and period == "day"
        since = window_at(base, period)
        # Logs of a clock that was never set are of the year 1, before which there is no week.
        back = (since - begin).days % 7 if is_weekday and since.year > 1 else 0
        since -= timedelta(days=back)
        for _ in range(_TRIED):
            if since >= begin:
                return None
            with suppress(UndecidableError):
                limits = Window(since, end_of(since, period), source)
                span = whole_span(self.windows.database, limits)
                if self._read(span).size >= self._k:
                    return span
            since = end_of(since, period)
            # A gap of years in the logs would use up all that are tried.
            [(oldest,)] = self.windows.database.rows("windows/oldest", since=since)
            if oldest is None:
                return None
            since = max(since, window_at(oldest, period))
            since += timedelta(days=(begin - since).days % 7) if is_weekday else timedelta()
        return None

    @functools.cached_property
    def now(self) -> Span:
        """The window in question."""
        return whole_span(self.windows.database, self.windows.window)

    def _read(self, span: Span) -> WindowUsers:
        """Read the users of a window, once."""
        if (span, self.apis) not in self.known:
            self.known[span, self.apis] = read_users(self.windows, span, self.apis, k=self._k)
        return self.known[span, self.apis]
