"""A look at what is stored: which windows are to be checked, and what is news of them."""

from __future__ import annotations

import itertools
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fpmonitor.answers.check import report_check
from fpmonitor.answers.ledger import compare_windows, read_users
from fpmonitor.answers.standing import (
    LACKS_ALL,
    TOO_FEW,
    Problem,
    Standing,
    again,
    called_anew,
    changed_source,
    changes,
    faults_of,
    faults_of_first,
    is_news,
    judged,
    known_again,
    lasting,
    late,
    mended,
    news,
    next_steps,
    over,
    probable_causes,
    problem,
    taken_back,
    told_before,
    vanished,
)
from fpmonitor.decide.evidence import identity_of
from fpmonitor.errors import UndecidableError, UnknownNameError, some_of
from fpmonitor.estimate.kept_weights import kept, take_in
from fpmonitor.export.exporter import printable
from fpmonitor.monitor import ledger_of, windows_that_decide
from fpmonitor.population.browsers import USER_AGENTS
from fpmonitor.store.snapshot import Window
from fpmonitor.store.watching import (
    corrected_users,
    keep_designs,
    kept_designs,
    last_checked,
    latest_notices,
    record_check,
    stored_data,
    stored_until,
    users_of_the_future,
)
from fpmonitor.store.windows import end_of, start_before, whole_span, window_at
from fpmonitor.unit import spoken
from fpmonitor.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from fpmonitor.answers.check import BrokenFirst, CheckReport
    from fpmonitor.answers.ledger import Ledger
    from fpmonitor.decide.decision import ApiSet, Decision
    from fpmonitor.lookout.settings import WatchSettings
    from fpmonitor.monitor import Monitor
    from fpmonitor.population.population import Population

_FALSE_CAUSES = 0.01
_NUMBERS = re.compile(r"\d+")
_MOST_DAYS = 31  # that are looked at for faults, the newest
_MOST_NOTICES = 50  # that are read for what was told already, the newest


@dataclass(frozen=True, kw_only=True)
class Look:
    """One look of a watch at an open database.

    Attributes:
        settings, watched: What is watched, and its name in the database.
        monitor, now: The open database, and the time.
        refused, corrected: Files that could not be read, and logs of k users or more that others
            have corrected.
        note, checked: As of `Watch`.
    """

    settings: WatchSettings
    watched: str
    monitor: Monitor
    now: datetime
    refused: Sequence[str]
    corrected: Collection[str]
    note: Callable[[str], None]
    checked: Callable[[CheckReport], None]

    @cached_property
    def _days(self) -> Ledger:
        """The days of the logs; what they are compared with is read once."""
        return ledger_of(self.monitor, self.settings.checked, "day")

    def check(self) -> None:
        """Check each window that nobody looked at, and record what is known now."""
        settings, database, now = self.settings, self.monitor.database, self.now
        stored = stored_data(database)
        if stored is None and not self.refused:
            return
        day = "" if settings.by is None else f"/{now:%Y-%m-%d}"
        data = "/".join([f"{stored}{day}", *self.refused])
        checked, standing = last_checked(database, self.watched)
        if data == checked:
            return
        designs = kept_designs(database)
        take_in(designs, __version__)
        before = standing_of(standing)
        known = self._taken_back(before)
        for until in self._missed(known):
            known = self._look(before, now, data="", until=until, known=known)
            before = known
        self._look(before, now, data=data, known=known)
        if (found := kept(__version__)) != designs:
            keep_designs(database, found)

    def _taken_back(self, before: Standing | None) -> Standing | None:
        """Look again at windows that were at fault, or above the budget, and are corrected now."""
        by = self.settings.by
        if before is None or by is None:
            return before
        corrected, known = [*filter(partial(self._is_corrected, before), before.doubtful)], before
        for since in corrected:
            begin, report = datetime.fromisoformat(since).replace(tzinfo=None), None
            with suppress(UndecidableError):
                report = self.monitor.check(
                    self.settings.checked,
                    by=by,
                    until=end_of(begin, by),
                    new_users=self.settings.new_users,
                )
            if report is not None and report.since != begin:
                report = None
            faults = {} if report is None else report.faults
            day = Window(begin, end_of(begin, "day"), self.settings.decision.source)
            found = ({}, {}, None) if by == "day" else self._faults_of(day)
            if report is not None or (by != "day" and since in known.faulty and found is not None):
                known = taken_back(
                    known, report, since, faults=[*faults, *(found[0] if found else ())]
                )
        # Others keep theirs, so that corrections of few users at each look add up.
        stored = {since: one for since, one in known.stored.items() if since not in corrected}
        return replace(known, stored=stored)

    def _is_corrected(self, before: Standing, since: str) -> bool:
        """Whether visits of k users of a window were corrected, by whoever stored the log."""
        by, begin = self.settings.by, datetime.fromisoformat(since).replace(tzinfo=None)
        known = before.stored.get(since)
        if known is None or by is None:
            return False
        users = corrected_users(self.monitor.database, begin, end_of(begin, by), known)
        return users >= self.settings.decision.policy.k

    def _came(self, day: Window) -> Population | None:
        """Return the users of a day; null for fewer than k, and for too few to be judged."""
        users = self._days.users_of(day)
        few = users is None or users.users < self.settings.decision.policy.k
        return None if few else users

    def _faults_of(
        self, day: Window
    ) -> tuple[Mapping[str, str], Mapping[str, tuple[str, ...]], BrokenFirst | None] | None:
        """Find what is at fault on a day, by API and by source, and on the first one.

        Null where too few users came.
        """
        users = self._came(day)
        if users is None:
            return None
        beside = self._days.beside(users)
        if beside is None:
            return {}, {}, None
        found = beside.faults()
        return found, beside.faulty_sources(found), beside.broken_first()

    def _with_faulty_days(self, after: Standing, now: datetime) -> Standing:
        """Find days at fault or without logs that are over, where their window is not."""
        if self.settings.by in {None, "day"}:
            return after
        since = window_at(now, "day") - timedelta(days=1)
        if after.day is not None:
            since = datetime.fromisoformat(after.day)
        problems = {one.key: one for one in after.problems}
        missing = self._missing_day(since, now)
        if missing is not None:
            gap = problem("no logs", f"{missing:%Y-%m-%d}", by="day")
            problems.setdefault(gap.key, gap)
        for day in self._days.over(since)[-_MOST_DAYS:]:
            if day.since is None or day.until is None:
                continue
            day_found = self._faults_of(day)
            if day_found is None:  # a few visits are as good as none
                continue
            found, sources, first = day_found
            after = after.at_fault(day.since) if found else after
            after = after.at_fault(first[0]) if first is not None else after
            for one in [*faults_of(found, sources, day.since), *faults_of_first(first)]:
                problems.setdefault(one.key, one)
            after = replace(after, day=day.until.isoformat(), faulty_sources=sources)
        return replace(after, problems=tuple(problems.values()))

    def _missing_day(self, since: datetime, now: datetime) -> datetime | None:
        """Find a day that k users came a week before, and not now; the next one is over."""
        source, week = self.settings.decision.source, timedelta(days=7)

        def has_users(day: datetime) -> bool:
            return self._came(Window(day, end_of(day, "day"), source)) is not None

        last = window_at(now, "day") - timedelta(days=2)
        for _ in range(_MOST_DAYS):
            if since > last:
                break
            if not has_users(since) and has_users(since - week):
                return since
            since = end_of(since, "day")
        return None

    def _missed(self, before: Standing | None) -> Iterator[datetime]:
        """Find where the windows end that nobody looked at since the last one, but the newest."""
        by = self.settings.by
        if by is None or before is None or before.until is None:
            return
        ledger = ledger_of(self.monitor, self.settings.decision, by)
        for window in ledger.over(datetime.fromisoformat(before.until))[:-1]:
            if window.until is not None and ledger.users_of(window) is not None:
                yield window.until

    def _look(
        self,
        before: Standing | None,
        now: datetime,
        *,
        data: str,
        until: datetime | None = None,
        known: Standing | None,
    ) -> Standing:
        """Check the newest window, or that which ends then, and record what is known now.

        `before` is what was told last, and `known` what corrected logs have made of it.
        """
        settings, database, report = self.settings, self.monitor.database, None
        after = replace(known or Standing(outcome="cannot tell"), outcome="cannot tell")
        problems = [problem("refused", file) for file in self.refused]
        problems += self._in_the_future(*users_of_the_future(database, now))
        try:
            if stored_data(database) is not None:
                report, after = self._judge(known, now, until)
                problems += after.problems
                self.checked(report)
        except UndecidableError as error:
            self.note(f"cannot be checked: {error}")
            problems += [TOO_FEW, *known_again(before)]
        except UnknownNameError as error:
            self.note(f"cannot be checked: {error}")
            problems += [LACKS_ALL, *self._all_gone(), *known_again(before)]
        if before is None and settings.by is not None and after.outcome == "cannot tell":
            longer = windows_that_decide(
                self.monitor, settings.checked, settings.by, new_users=settings.new_users
            )
            if longer is not None:
                self.note(longer)
        after = replace(after, problems=tuple(problems))
        if until is None:
            after = self._with_faulty_days(after, now)
        after = replace(
            after, problems=tuple(lasting(before, after, after.problems, judged=report is not None))
        )
        newest = stored_until(database)
        stored = {since: after.stored.get(since, newest) for since in after.doubtful}
        after = replace(after, stored=stored)
        record_check(
            database,
            self.watched,
            decision=identity_of(settings.decision),
            data=data,
            standing=msgspec.json.encode(after).decode(),
            body=self._message(before, after, report) if is_news(before, after) else None,
        )
        return after

    def _judge(
        self,
        before: Standing | None,
        now: datetime,
        until: datetime | None,
    ) -> tuple[CheckReport, Standing]:
        """Check the list, and look for APIs and windows that should be there."""
        settings, policy = self.settings, self.settings.checked.policy
        report = self.monitor.check(
            settings.checked,
            by=settings.by,
            until=until,
            new_users=settings.new_users,
        )
        window = Window(report.since, report.until, settings.decision.source)
        apis = {*self.monitor.population(window=window).publishable_apis(policy.k)}
        after = judged(before, report, now=now.isoformat(timespec="seconds"))
        # Where users without a value count as exposed, that all lack it says enough.
        is_blind = report.lacks_all and settings.decision.missing == "value"
        problems = [LACKS_ALL] if is_blind and report.outcome != "violated" else []
        problems += [vanished(api, settings.decision) for api in report.vanished]
        seen = {*policy.candidates} if before is None else {*before.apis, *policy.candidates}
        new = sorted(apis - seen)
        is_first = before is None or not before.apis
        # At first a list may know fewer APIs than logs have, but a vanished one may be renamed.
        if not is_first or report.lacks_all or len(new) <= len(report.vanished):
            problems += [problem("appeared", api) for api in new]
        problems += self._without_logs(before, report, until or now)
        for change in report.sources.items():
            problems += changed_source(*change)
        problems += faults_of(report.faults, report.faulty_sources, report.since)
        problems += faults_of_first(report.broken_first)
        if report.late and settings.by is not None and report.since is not None:
            problems.append(late(settings.by, report.since, report.late))
        if report.renewal is not None:
            # Read only where there is something that may have been told: 50 may be megabytes.
            most = _MOST_NOTICES if report.renewal.advised else 0
            notices = latest_notices(self.monitor.database, settings.list_key, most=most)
            told = told_before(notices, settings.decision, after)
            problems += again(before, after, report.renewal, told=told)
        return report, replace(after, problems=tuple(problems), apis=tuple(sorted(apis | seen)))

    def _all_gone(self) -> list[Problem]:
        """Tell what logs that hold no API of the list have in their place."""
        decision = self.settings.checked
        window, policy = Window(source=decision.source), decision.policy
        apis = self.monitor.population(window=window).publishable_apis(policy.k)
        gone = [vanished(api, decision) for api in policy.candidates]
        return [*gone, *(problem("appeared", api) for api in apis)]

    def _without_logs(
        self, before: Standing | None, report: CheckReport, now: datetime
    ) -> list[Problem]:
        """Tell that windows are missing: between two that were checked, or for a whole one now."""
        by = self.settings.by
        if by is None or report.since is None or report.until is None:
            return []
        gap = None
        if before is not None and before.until is not None:
            # A watch that was away may have missed good windows.
            ledger = ledger_of(self.monitor, self.settings.decision, by)
            gap = ledger.gap(datetime.fromisoformat(before.until), report.since)
        if gap is None and end_of(end_of(report.until, by), by) <= now.replace(tzinfo=None):
            gap = report.until
        return [] if gap is None else [problem("no logs", f"{gap:%Y-%m-%d}", by=by)]

    def _in_the_future(
        self, users: int, hosts: Sequence[tuple[int, Mapping[str, int]]]
    ) -> list[Problem]:
        """Tell of visits whose clock is ahead, and of which log, where k users have such visits.

        A clock that stays wrong is told once. The users of a host are counted together: one that
        writes a log a minute has few in each. A log with fewer than k is not named.
        """
        k = self.settings.decision.policy.k
        if users:
            self.note(f"{users:,} users have visits of the future, which no window holds yet")
        told: dict[str, list[str]] = {}
        for in_all, logs in hosts:
            if in_all >= k:
                names = [self._name(log) for log, count in logs.items() if count >= k]
                what = _NUMBERS.sub("*", self._name(next(iter(logs))))
                told.setdefault(what, []).extend(names)
        if users >= k and not told:
            return [problem("future", "visits", of="")]
        return [
            problem("future", what, of=f" of {some_of(names or [what], 1)}")
            for what, names in told.items()
        ]

    def _name(self, log: str) -> str:
        """Name a log within the watched folder: that of a host may be one of its folders."""
        path = Path(log)
        folder = self.settings.folder
        inside = path.relative_to(folder) if path.is_relative_to(folder) else Path(path.name)
        return printable(str(inside))

    def _message(
        self,
        before: Standing | None,
        after: Standing,
        report: CheckReport | None,
    ) -> dict[str, Any]:
        """Return what others are told: what is certain now, what to do, and the last check."""
        settings, decision = self.settings, self.settings.decision
        new = {one.key for one in news(before, after)}
        # Also what one window did not show: it may come back, and is no news then.
        standing = {one.kind for one in after.problems}
        body: dict[str, Any] = {
            "list": settings.list_key,
            "was": None if before is None else before.state,
            "state": after.state,
            "changed": [],
            "causes": [],
            "problems": [
                {**_told(one, decision), "seen": one.seen, "new": one.key in new}
                for one in after.in_the_way
                if one.part_of is None or one.key in new
            ],
            "over": [
                {**_told(one, decision), "ended": one.kind not in standing}
                for one in over(before, after)
            ],
            "corrected": sorted(self.corrected),
            "mended": mended(before, after),
            "alarm_over": before is not None and before.alarm and not after.alarm,
            "usual_users": after.usual_users,
            "unit": decision.unit,
            "next": next_steps(
                decision if report is None else called_anew(decision, report.decision),
                after,
                by=settings.by,
                folder=settings.folder,
                database=settings.database,
            ),
        }
        if report is None:
            return body | {"outcome": after.outcome, "sets": [], "users": None}
        is_worse = bool(after.above - (before.above if before else frozenset()))
        body["causes"] = self._causes(report, after) if is_worse else []
        body["changed"] = changes(
            before,
            after,
            report.limits,
            without_automation=self._without_automation(report) if is_worse else {},
        )
        return body | report.to_json()

    def _causes(self, report: CheckReport, after: Standing) -> list[dict[str, Any]]:
        """Return what changed against the window before, of the sets above and the browsers."""
        decision, by, since = self.settings.decision, self.settings.by, report.since
        if by is None or since is None:
            return []
        window = Window(start_before(since, by), report.until, decision.source)
        seen = self.monitor.population(window=window).publishable_apis(decision.policy.k)
        apis = {*USER_AGENTS, *itertools.chain.from_iterable(after.above)}.intersection(seen)
        try:
            halves = replace(window, until=since), replace(window, since=since)
            before, now = (whole_span(self.monitor.database, half) for half in halves)
        except UndecidableError:
            return []
        # The window before is no like day, but what newly exposes users is there anyway.
        windows, k = self.monitor.windows(by, window=window), decision.policy.k
        pair = [read_users(windows, span, sorted(apis), k=k) for span in (before, now)]
        if min(users.size for users in pair) < k:
            return []
        alarms = compare_windows(*pair, k=k, false_alarms=_FALSE_CAUSES, audience=windows.audience)
        return probable_causes(alarms)

    def _without_automation(self, report: CheckReport) -> Mapping[ApiSet, tuple[float, float]]:
        """Return the limits of each set without browsers that look automated."""
        decision = self.settings.checked
        if decision.view.drop_automation:
            return {}
        decision = replace(decision, view=replace(decision.view, drop_automation=True))
        users = self.monitor.population_as(decision, window=Window(report.since, report.until))
        try:
            return report_check(users, decision).limits
        except UndecidableError:
            return {}


def _told(one: Problem, decision: Decision) -> dict[str, Any]:
    return {"kind": one.kind, "what": one.what, "text": spoken(one.text, decision.unit)}


def standing_of(standing: str | None) -> Standing | None:
    """Read what was told last, as the database has it."""
    return None if standing is None else msgspec.json.decode(standing, type=Standing)
