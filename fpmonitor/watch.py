"""The watch: reads new logs of a folder as they arrive, and reports when a verdict changes.

All that it must know is in the database, in transactions: which files were read, which batch a
decision was checked on, and which changes of the verdict were reported. So it may be killed at any
moment; what was not finished is done again at the next start. A change is reported at least once:
twice only if the watch ended between reporting it and recording that it did.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import shlex
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from fpmonitor.answers.check import CheckReport, Outcome, of_recommended, report_check
from fpmonitor.answers.gauges import gauges
from fpmonitor.answers.ledger import compare_windows, read_users
from fpmonitor.answers.notices import encoded, message
from fpmonitor.answers.standing import (
    LACKS_ALL,
    TOO_FEW,
    Problem,
    Standing,
    again,
    changes,
    is_news,
    judged,
    known_again,
    late,
    next_steps,
    probable_causes,
    problem,
    taken_back,
    vanished,
)
from fpmonitor.decide.evidence import identity_of
from fpmonitor.disclosure import Audience
from fpmonitor.errors import FpmonitorError, InputError, UndecidableError, UnknownNameError
from fpmonitor.export.exporter import printable
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.logs.finding import is_log
from fpmonitor.monitor import Monitor, ledger_of, windows_that_decide
from fpmonitor.population.browsers import USER_AGENTS
from fpmonitor.safe_files import write_bytes
from fpmonitor.store.database import Database
from fpmonitor.store.files import NO_PATIENCE, Patience, identity_of_file, is_as_left
from fpmonitor.store.ingest import ingest_files
from fpmonitor.store.snapshot import Window
from fpmonitor.store.watching import (
    FileState,
    Notice,
    digest_of_reading,
    last_checked,
    mark_delivered,
    read_files,
    record_check,
    remember_files,
    stored_data,
    undelivered_notices,
    users_of_the_future,
)
from fpmonitor.store.windows import Period, end_of, start_before, whole_span, window_at
from fpmonitor.unit import spoken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from fpmonitor.decide.decision import ApiSet, Decision
    from fpmonitor.store.batches import BatchReport

_TIMEOUT = 30.0
_MOST_WAITING = 3
_NAMED = 3
_FALSE_CAUSES = 0.01
_MOST_DETAILS = 1000  # files of notices that are kept
_TURN = 1.0  # seconds for which files are read before others may use the database
_UNKNOWN_SIZE = -1
_MOST_DAYS = 31  # that are looked at for faults, the newest


class DeliveryError(FpmonitorError):
    """A notice could not be delivered; it is kept, and tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """What is watched, and how.

    Attributes:
        folder: Where logs arrive, also in its subfolders.
        database: The database file; created if it does not exist.
        decision: What is checked after every new log.
        by, new_users: As in `Monitor.check`.
        whole: Check every set on the allow list, not the recommended one alone.
        collector, digest_values: As in `Monitor.ingest`.
        column_map: Reads the column map, which may change while the watch runs.
        settle: Seconds for which a file must not have changed before it is read.
        metrics: File for the numbers of Prometheus, written at each look; null for none.
    """

    folder: Path
    database: Path
    decision: Decision
    by: Period | None = None
    new_users: bool = False
    whole: bool = False
    collector: str | None = None
    column_map: Callable[[], ColumnMap] = ColumnMap
    digest_values: bool = False
    settle: float = 2.0
    key_file: Path | None = None
    patience: Patience = NO_PATIENCE
    metrics: Path | None = None

    @property
    def watched(self) -> str:
        """Name of what is watched: the decision, and how it is checked unless as by default."""
        identity = identity_of(self.checked)
        options = (None, self.by, self.new_users)  # as databases have it
        return identity if options == (None, None, False) else f"{identity}/{options}"

    @property
    def checked(self) -> Decision:
        """The decision with the sets that are checked."""
        return self.decision if self.whole else of_recommended(self.decision)

    def open_database(self) -> Database:
        """Open the database, which is created if it does not exist."""
        return Database(self.database, create=True, key_file=self.key_file, patience=self.patience)

    def open_monitor(self) -> Monitor:
        """Open the database for questions whose answers go to others."""
        return Monitor(
            self.database,
            create=True,
            audience=Audience.OTHERS,
            key_file=self.key_file,
            patience=self.patience,
        )


class Watch:
    """A watch over one folder and one decision.

    Args:
        deliver: Deliver a notice, in this order; raise `DeliveryError` on failure.
        note: Called with remarks: files read or refused, failed deliveries.
        checked: Called with each check.

    Raises:
        InputError: The folder does not exist.
    """

    def __init__(
        self,
        settings: WatchSettings,
        *,
        deliver: Iterable[Callable[[Notice], None]],
        note: Callable[[str], None] = lambda _text: None,
        checked: Callable[[CheckReport], None] = lambda _report: None,
    ) -> None:
        self._settings = settings
        self._require_folder()
        self._deliver = tuple(deliver)
        self._note = note
        self._checked = checked
        # Of the decisions that were watched, the newest last; earlier versions watched whole lists.
        self._lists = [*{replace(settings, whole=True).watched: 0, settings.watched: 0}]
        self._seen: dict[str, tuple[FileState, float]] = {}
        self._known: dict[str, FileState] | None = None
        self._file: tuple[int, int] | None = None  # of the database that knows them
        self._key: str | None = None
        self._column_map = ColumnMap()
        self._reading = ""
        self._pending = True
        self._corrected: set[str] = set()  # logs, of k users or more, since the last check
        self._day: date | None = None
        self._measured: tuple[Standing | None, int] | None = None  # by the last look
        self._told: dict[int, set[int]] = {}  # by which ways, where another failed

    def go_over_to(self, decision: Decision) -> None:
        """Watch another decision from the next look on; notices on those before are delivered."""
        self._settings = replace(self._settings, decision=decision)
        watched = self._settings.watched
        self._lists = [*(each for each in self._lists if each != watched), watched]
        self._pending = True

    @property
    def _watched(self) -> str:
        return self._lists[-1]

    def step(self) -> None:
        """Look once, and say in numbers what is known: see `_look_once`."""
        try:
            self._look_once()
        except DeliveryError:
            self._measure()
            raise
        self._measure()

    def _measure(self) -> None:
        """Write the gauges; a watch that ends, or cannot look, leaves the time of its last look."""
        settings = self._settings
        if settings.metrics is None:
            return
        if self._measured is None:  # else the database stays closed
            with settings.open_database() as database:
                standing = _known(last_checked(database, self._watched)[1])
                notices = [undelivered_notices(database, one) for one in self._lists]
            self._measured = standing, sum(map(len, notices))
        standing, waiting = self._measured
        text = gauges(
            settings.decision,
            standing,
            identity=identity_of(settings.decision),
            undelivered=waiting,
            newest_log=max((one.modified / 1e9 for one, _ in self._seen.values()), default=None),
            now=datetime.now(UTC),
        )
        write_bytes(settings.metrics, [text.encode()])

    def _look_once(self) -> None:
        """Read what has arrived, check, and report; return when there is nothing left to do."""
        settled = self._settled()
        is_recalled = self._recall()
        fresh = [path for path in settled if self._is_fresh(path)]
        today = datetime.now(UTC).date()
        if self._settings.by is not None and today != self._day:  # a window may have ended
            self._pending = True
        if not fresh and not self._pending:
            return
        self._pending, self._measured = True, None
        if not is_recalled and not is_as_left(self._settings.database):
            self._known = None  # a backup that was put back knows less
            self._recall()
            fresh = [path for path in settled if self._is_fresh(path)]
        notices = self._take_in(fresh)
        self._corrected.clear()
        self._tell(notices)
        self._pending, self._day = False, today

    def _take_in(self, fresh: list[str]) -> list[Notice]:
        """Read new files and check; return what is still to be delivered.

        Where they are many, others may use the database in between.
        """
        rest = deque(fresh)
        while True:
            with self._settings.open_monitor() as monitor:
                self._ingest(monitor, rest, until=time.monotonic() + _TURN)
                if not rest:
                    self._check(monitor)
                    notices = [
                        notice
                        for watched in self._lists
                        for notice in undelivered_notices(monitor.database, watched)
                    ]
                    return sorted(notices, key=lambda notice: notice.number)

    @property
    def waiting(self) -> bool:
        """Whether there are files that may still be written to."""
        known = self._known or {}
        return any(known.get(path) != state for path, (state, _) in self._seen.items())

    @property
    def outcome(self) -> Outcome | None:
        """Outcome of the last check, null where there was none."""
        with self._settings.open_database() as database:
            standing = _known(last_checked(database, self._watched)[1])
        return None if standing is None else standing.outcome

    @property
    def refused(self) -> list[str]:
        """Files in the folder that could not be read, as they can be printed."""
        known = self._known or {}
        refused = [path for path in sorted(self._seen) if path in known and known[path].refused]
        names = (str(Path(path).relative_to(self._settings.folder)) for path in refused)
        return list(map(printable, names))

    def _require_folder(self) -> None:
        folder = self._settings.folder
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder")
        if not _is_readable(folder):
            raise InputError(f"{folder}: cannot be read", hint="check its permissions")

    def _settled(self) -> list[str]:
        """Find logs in the folder that are no longer written to, in the order of their names."""
        self._require_folder()
        now, settle = time.monotonic(), self._settings.settle
        present: dict[str, tuple[FileState, float]] = {}
        settled = []
        for path in sorted(self._settings.folder.rglob("*")):
            try:
                state = _state_of(path)
            except (FileNotFoundError, PermissionError):  # moved away; in a folder that is told
                continue
            if state is None:
                continue
            before, since = self._seen.get(str(path), (state, now))
            since = since if before == state else now
            present[str(path)] = state, since
            if now - since >= settle or time.time() - state.modified / 1e9 >= settle:
                settled.append(str(path))
        self._seen = present
        return settled

    def _recall(self) -> bool:
        """Look up which files are done, if that may have changed; return whether it was done.

        Refused ones are not done once logs are read otherwise, and none is in another database.
        """
        settings, known = self._settings, self._known
        column_map = settings.column_map()
        if (
            known is not None
            and column_map == self._column_map
            and identity_of_file(settings.database) == self._file
            and not any(known[path].refused for path in self._seen if path in known)
        ):
            return False
        with settings.open_database() as database:
            self._reading = digest_of_reading(database, settings.collector, column_map)
            self._known = read_files(database, self._reading)
            self._file, key = identity_of_file(settings.database), database.meta("user_key")
        if self._key not in {None, key}:
            self._note(f"{settings.database} is another database now: what it lacks is read again")
            self._told.clear()
            self._pending = True
        self._key = key
        self._column_map = column_map
        return True

    def _is_fresh(self, path: str) -> bool:
        return (self._known or {}).get(path) != self._seen[path][0]

    def _ingest(self, monitor: Monitor, rest: deque[str], *, until: float) -> None:
        """Read files until a moment; one that cannot be read keeps no other from being read."""
        settings = self._settings
        while rest and time.monotonic() < until:
            stored = ingest_files(
                monitor.database,
                tuple(rest),
                collector=settings.collector,
                column_map=replace(
                    self._column_map, expected=frozenset(settings.decision.policy.candidates)
                ),
                digest_values=settings.digest_values,
            )
            try:
                for reports in stored:
                    paths = [rest.popleft() for _ in reports]
                    for path, report in zip(paths, reports, strict=True):
                        self._note_stored(path, report)
                    self._remember(monitor, paths)
                    if time.monotonic() >= until:
                        break
            except InputError as error:
                path = rest.popleft()
                self._note(f"{path}: not read, until it or how logs are read changes: {error}")
                self._remember(monitor, [path], refusal=str(error))
            finally:
                stored.close()

    def _note_stored(self, path: str, report: BatchReport) -> None:
        self._note(f"{path}: {report.stored:,} stored, {report.rejected:,} rejected")
        for source, visits in report.corrects.items():
            self._note(f"{path} corrects {visits:,} visits of {source}")
            if report.corrected_users[source] >= self._settings.decision.policy.k:
                self._corrected.add(printable(Path(source).name))

    def _remember(
        self, monitor: Monitor, paths: Iterable[str], *, refusal: str | None = None
    ) -> None:
        files = {path: self._seen[path][0] for path in paths}
        remember_files(monitor.database, files, reading=self._reading, refusal=refusal)
        known = {} if self._known is None else self._known
        for path, state in files.items():
            known[path] = replace(state, refused=refusal is not None)
        self._known = known

    def _check(self, monitor: Monitor) -> None:
        settings, database, now = self._settings, monitor.database, datetime.now(UTC)
        stored = stored_data(database)
        if stored is None and not self.refused:
            return
        day = "" if settings.by is None else f"/{now:%Y-%m-%d}"
        data = "/".join([f"{stored}{day}", *self.refused])
        checked, told = last_checked(database, self._watched)
        if data == checked:
            return
        before = _known(told)
        known = self._taken_back(monitor, before)
        for until in self._missed(monitor, known):
            known = self._look(monitor, before, now, data="", until=until, known=known)
            before = known
        self._look(monitor, before, now, data=data, known=known)

    def _taken_back(self, monitor: Monitor, before: Standing | None) -> Standing | None:
        """Look again at windows that were at fault, or above the budget, and are corrected now."""
        by = self._settings.by
        if before is None or by is None or not self._corrected:
            return before
        known = before
        for since in before.doubtful:
            begin, report = datetime.fromisoformat(since).replace(tzinfo=None), None
            with suppress(UndecidableError):
                report = monitor.check(
                    self._settings.checked,
                    by=by,
                    until=end_of(begin, by),
                    new_users=self._settings.new_users,
                )
            if report is not None and report.since != begin:
                report = None
            faults = {} if report is None else report.faults
            day = Window(begin, end_of(begin, "day"), self._settings.decision.source)
            found = {} if by == "day" else self._faults_of(monitor, day)
            if report is not None or (by != "day" and since in known.faulty and found is not None):
                known = taken_back(known, report, since, faults=[*faults, *(found or ())])
        return known

    def _faults_of(self, monitor: Monitor, day: Window) -> Mapping[str, str] | None:
        """Find APIs whose values are at fault on a day; null where too few users came."""
        ledger = ledger_of(monitor, self._settings.checked, "day")
        if not ledger.has_users(day):
            return None
        beside = ledger.beside(ledger.population(day))
        return {} if beside is None else beside.faults()

    def _with_faulty_days(self, monitor: Monitor, after: Standing, now: datetime) -> Standing:
        """Find what is at fault in days that are over, where the window that they are in is not."""
        if self._settings.by in {None, "day"}:
            return after
        since = window_at(now, "day") - timedelta(days=1)
        if after.day is not None:
            since = datetime.fromisoformat(after.day)
        problems = {(one.kind, one.what): one for one in after.problems}
        for day in ledger_of(monitor, self._settings.checked, "day").over(since)[-_MOST_DAYS:]:
            if day.since is None or day.until is None:
                continue
            found = self._faults_of(monitor, day) or {}
            if found:
                after = after.at_fault(day.since)
            for api, words in found.items():
                seen = problem("fault", api, words=words, day=f" of {day.since:%Y-%m-%d}")
                problems.setdefault(("fault", api), seen)
            after = replace(after, day=day.until.isoformat())
        return replace(after, problems=tuple(problems.values()))

    def _missed(self, monitor: Monitor, before: Standing | None) -> Iterator[datetime]:
        """Find where the windows end that nobody looked at since the last one, but the newest."""
        by = self._settings.by
        if by is None or before is None or before.until is None:
            return
        ledger = ledger_of(monitor, self._settings.decision, by)
        for window in ledger.over(datetime.fromisoformat(before.until))[:-1]:
            if window.until is not None and ledger.has_users(window):
                yield window.until

    def _look(
        self,
        monitor: Monitor,
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
        settings, database, report = self._settings, monitor.database, None
        after = replace(known or Standing(outcome="cannot tell"), outcome="cannot tell")
        problems = [problem("refused", file) for file in self.refused]
        problems += self._in_the_future(*users_of_the_future(database, now))
        try:
            if stored_data(database) is not None:
                report, after = self._judge(monitor, known, now, until)
                problems += after.problems
                self._checked(report)
        except UndecidableError as error:
            self._note(f"cannot be checked: {error}")
            problems += [TOO_FEW, *known_again(before)]
        except UnknownNameError as error:
            self._note(f"cannot be checked: {error}")
            problems += [LACKS_ALL, *self._all_gone(monitor), *known_again(before)]
        if before is None and settings.by is not None and after.outcome == "cannot tell":
            longer = windows_that_decide(
                monitor, settings.checked, settings.by, new_users=settings.new_users
            )
            if longer is not None:
                self._note(longer)
        after = replace(after, problems=tuple(problems))
        if until is None:
            after = self._with_faulty_days(monitor, after, now)
        record_check(
            database,
            self._watched,
            decision=identity_of(settings.decision),
            data=data,
            standing=msgspec.json.encode(after).decode(),
            body=self._message(monitor, before, after, report) if is_news(before, after) else None,
        )
        return after

    def _judge(
        self,
        monitor: Monitor,
        before: Standing | None,
        now: datetime,
        until: datetime | None,
    ) -> tuple[CheckReport, Standing]:
        """Check the list, and look for APIs and windows that should be there."""
        settings, policy = self._settings, self._settings.decision.policy
        report = monitor.check(
            settings.checked,
            by=settings.by,
            until=until,
            new_users=settings.new_users,
        )
        window = Window(report.since, report.until, settings.decision.source)
        apis = {*monitor.population(window=window).publishable_apis(policy.k)}
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
        problems += self._without_logs(monitor, before, report, until or now)
        problems += [problem("source", name, text=text) for name, text in report.sources.items()]
        day = "" if report.since is None else f" of {report.since:%Y-%m-%d}"
        problems += [
            problem("fault", api, words=words, day=day) for api, words in report.faults.items()
        ]
        if report.late and settings.by is not None and report.since is not None:
            problems.append(late(settings.by, report.since, report.late))
        if report.renewal is not None:
            problems += again(before, after, report.renewal)
        return report, replace(after, problems=tuple(problems), apis=tuple(sorted(apis | seen)))

    def _all_gone(self, monitor: Monitor) -> list[Problem]:
        """Tell what logs that hold no API of the list have in their place."""
        decision = self._settings.decision
        window, policy = Window(source=decision.source), decision.policy
        apis = monitor.population(window=window).publishable_apis(policy.k)
        gone = [vanished(api, decision) for api in policy.candidates]
        return [*gone, *(problem("appeared", api) for api in apis)]

    def _without_logs(
        self, monitor: Monitor, before: Standing | None, report: CheckReport, now: datetime
    ) -> list[Problem]:
        """Tell that windows are missing: between two that were checked, or for a whole one now."""
        by = self._settings.by
        if by is None or report.since is None or report.until is None:
            return []
        gap = None
        if before is not None and before.until is not None:
            # A watch that was away may have missed good windows.
            ledger = ledger_of(monitor, self._settings.decision, by)
            gap = ledger.gap(datetime.fromisoformat(before.until), report.since)
        if gap is None and end_of(end_of(report.until, by), by) <= now.replace(tzinfo=None):
            gap = report.until
        return [] if gap is None else [problem("no logs", f"{gap:%Y-%m-%d}", by=by)]

    def _in_the_future(self, users: int, logs: Mapping[str, int]) -> list[Problem]:
        """Tell of visits whose clock is ahead, and of which log, where k users have such visits."""
        k = self._settings.decision.policy.k
        if users:
            self._note(f"{users:,} users have visits of the future, which no window holds yet")
        named = [printable(Path(log).name) for log, count in logs.items() if count >= k]
        more = f" and {len(named) - 1:,} more" if len(named) > 1 else ""
        of = f" of {named[0]}{more}" if named else ""
        return [problem("future", named[0] if named else "visits", of=of)] if users >= k else []

    def _message(
        self,
        monitor: Monitor,
        before: Standing | None,
        after: Standing,
        report: CheckReport | None,
    ) -> dict[str, Any]:
        """Return what others are told: what is certain now, what to do, and the last check."""
        settings, decision = self._settings, self._settings.decision
        known = {(one.kind, one.what) for one in (before.problems if before else ())}
        told: dict[str, Any] = {
            "was": None if before is None else before.state,
            "state": after.state,
            "changed": [],
            "causes": [],
            "problems": [
                asdict(problem)
                | {
                    "text": spoken(problem.text, decision.unit),
                    "new": (problem.kind, problem.what) not in known,
                }
                for problem in after.problems
            ],
            "corrected": sorted(self._corrected),
            "mended": sorted({*(before.faulty if before else ())} - {*after.faulty}),
            "usual_users": after.usual_users,
            "unit": decision.unit,
            "next": next_steps(
                decision,
                after,
                by=settings.by,
                folder=settings.folder,
                database=settings.database,
            ),
        }
        if report is None:
            return told | {"outcome": after.outcome, "sets": [], "users": None}
        is_worse = bool(after.above - (before.above if before else frozenset()))
        told["causes"] = self._causes(monitor, report, after) if is_worse else []
        told["changed"] = changes(
            before,
            after,
            report.limits,
            without_automation=self._without_automation(monitor, report) if is_worse else {},
        )
        return told | report.to_json()

    def _causes(
        self, monitor: Monitor, report: CheckReport, after: Standing
    ) -> list[dict[str, Any]]:
        """Return what changed against the window before, of the sets above and the browsers."""
        decision, by, since = self._settings.decision, self._settings.by, report.since
        if by is None or since is None:
            return []
        window = Window(start_before(since, by), report.until, decision.source)
        seen = monitor.population(window=window).publishable_apis(decision.policy.k)
        apis = {*USER_AGENTS, *itertools.chain.from_iterable(after.above)}.intersection(seen)
        try:
            halves = replace(window, until=since), replace(window, since=since)
            before, now = (whole_span(monitor.database, half) for half in halves)
        except UndecidableError:
            return []
        # The window before is no like day, but what newly exposes users is there anyway.
        windows, k = monitor.windows(by, window=window), decision.policy.k
        pair = [read_users(windows, span, sorted(apis), k=k) for span in (before, now)]
        if min(users.size for users in pair) < k:
            return []
        alarms = compare_windows(*pair, k=k, false_alarms=_FALSE_CAUSES, audience=windows.audience)
        return probable_causes(alarms)

    def _without_automation(
        self, monitor: Monitor, report: CheckReport
    ) -> Mapping[ApiSet, tuple[float, float]]:
        """Return the limits of each set without browsers that look automated."""
        decision = self._settings.checked
        if decision.view.drop_automation:
            return {}
        decision = replace(decision, view=replace(decision.view, drop_automation=True))
        users = monitor.population_as(decision, window=Window(report.since, report.until))
        try:
            return report_check(users, decision).limits
        except UndecidableError:
            return {}

    def _with_details(self, notice: Notice) -> Notice:
        """Write all that is known into a file for the owner, beside a database that is readable."""
        settings = self._settings
        if settings.key_file is not None:
            return notice
        folder = settings.database.with_name(f"{settings.database.name}.notices")
        path = folder / f"{notice.number}.json"
        text = json.dumps(notice.body, indent=1, ensure_ascii=False) + "\n"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            write_bytes(path, [text.encode()], mode=0o600)
            (folder / f"{notice.number - _MOST_DETAILS}.json").unlink(missing_ok=True)
        except (OSError, InputError) as error:
            self._note(f"{path}: cannot be written ({error})")
            return notice
        return replace(notice, details=str(path))

    def _tell(self, notices: Iterable[Notice]) -> None:
        """Deliver by each way, in order; one that fails keeps nothing from the others."""
        failed: dict[int, DeliveryError] = {}
        for notice in map(self._with_details, notices):
            told = self._told.setdefault(notice.number, set())
            for way, deliver in enumerate(self._deliver):
                if way in told or way in failed:
                    continue
                try:
                    deliver(notice)
                except DeliveryError as error:
                    failed[way] = error
                else:
                    told.add(way)
            if len(told) == len(self._deliver):
                with self._settings.open_database() as database:
                    mark_delivered(database, notice)
                del self._told[notice.number]
        if failed:
            [why, *_] = failed.values()
            raise DeliveryError(f"notices are kept, and will be sent again: {why}")


def _state_of(path: Path) -> FileState | None:
    """Return the state of a log, or of a folder that cannot be read; None for all else.

    The size of what cannot be read is not known, so that it is another state once it can.
    """
    if path.name.startswith(".") or not (path.is_dir() or is_log(path)):
        return None
    status, is_readable = path.stat(), _is_readable(path)
    if path.is_dir() and is_readable:
        return None
    size = status.st_size if is_readable else _UNKNOWN_SIZE
    return FileState(size=size, modified=status.st_mtime_ns)


def _is_readable(path: Path) -> bool:
    return os.access(path, os.R_OK | os.X_OK if path.is_dir() else os.R_OK)


def _known(standing: str | None) -> Standing | None:
    return None if standing is None else msgspec.json.decode(standing, type=Standing)


def run_command(command: str) -> Callable[[Notice], None]:
    """Deliver to a command: the notice is JSON on its standard input; no shell is involved.

    Raises:
        InputError: The command is empty, or its quotes do not close.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"command: {error}") from error
    if not words:
        raise InputError("command: it is empty")

    def deliver(notice: Notice) -> None:
        try:
            subprocess.run(  # noqa: S603 -- the user's own command
                words, input=_body(notice), timeout=_TIMEOUT, check=True, stdout=subprocess.DEVNULL
            )
        except subprocess.CalledProcessError as error:
            raise DeliveryError(f"{words[0]} ended with {error.returncode}") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DeliveryError(f"{words[0]} did not run to its end ({error})") from error

    return deliver


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """What was posted to one address is not sent on to another."""

    def redirect_request(self, *_arguments: Any, **_keywords: Any) -> None:
        return None


def post_to(url: str) -> Callable[[Notice], None]:
    """Deliver to a webhook: the notice is posted as JSON.

    The address stays out of all messages but for its host: it often holds a secret.

    Raises:
        InputError: Not an address of http or https.
    """
    refusal = InputError("webhook: must be an address that begins with https:// or http://")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its text may be the address
        raise refusal from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise refusal
    asked = parts.path + parts.query
    if not asked.isascii() or " " in asked:
        raise InputError("webhook: letters beyond ASCII and spaces must be written as %20 is")
    opener = urllib.request.build_opener(_NoRedirect)
    waiting: list[threading.Thread] = []  # for answers that do not end

    def post(notice: Notice) -> None:
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": f"{notice.body['decision'][:16]}-{notice.number}",
        }
        request = urllib.request.Request(  # noqa: S310 -- the scheme was checked
            url, data=_body(notice), headers=headers, method="POST"
        )
        try:
            with opener.open(request, timeout=_TIMEOUT):
                pass
        except urllib.error.HTTPError as error:
            error.close()
            raise DeliveryError(f"{parts.hostname} answered {error.code}") from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise DeliveryError(f"{parts.hostname} cannot be reached ({reason})") from None
        except (http.client.HTTPException, UnicodeError) as error:  # its text may be the address
            raise DeliveryError(
                f"{parts.hostname} gave no answer of HTTP ({type(error).__name__})"
            ) from None

    def deliver(notice: Notice) -> None:
        waiting[:] = [thread for thread in waiting if thread.is_alive()]
        if len(waiting) >= _MOST_WAITING:
            raise DeliveryError(f"{parts.hostname} has not yet answered earlier notices")
        outcomes: list[DeliveryError | None] = []

        def attempt() -> None:
            try:
                post(notice)
            except DeliveryError as error:
                outcomes.append(error)
            else:
                outcomes.append(None)

        # The time limit of a socket begins anew with each byte; names are looked up without one.
        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        thread.join(_TIMEOUT)
        if not outcomes:
            waiting.append(thread)
            raise DeliveryError(f"{parts.hostname} did not answer within {_TIMEOUT:.0f} seconds")
        if outcomes[0] is not None:
            raise outcomes[0]

    return deliver


def _body(notice: Notice) -> bytes:
    return encoded(message(notice.body, details=notice.details))
