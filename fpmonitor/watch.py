"""The watch: reads new logs of a folder as they arrive, and reports when a verdict changes.

All that it must know is in the database, in transactions: which files were read, which batch a
decision was checked on, and which changes of the verdict were reported. So it may be killed at any
moment; what was not finished is done again at the next start. A change is reported at least once:
twice only if the watch ended between reporting it and recording that it did.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fpmonitor.answers.gauges import gauges
from fpmonitor.decide.evidence import identity_of
from fpmonitor.lookout.delivery import Deliveries, DeliveryError
from fpmonitor.lookout.incoming import Incoming
from fpmonitor.lookout.looking import Look, standing_of
from fpmonitor.lookout.settings import WatchSettings
from fpmonitor.safe_files import write_bytes
from fpmonitor.store.files import is_as_left
from fpmonitor.store.watching import last_checked, undelivered_notices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import date

    from fpmonitor.answers.check import CheckReport, Outcome
    from fpmonitor.answers.standing import Standing
    from fpmonitor.decide.decision import Decision
    from fpmonitor.monitor import Monitor
    from fpmonitor.store.watching import Notice

__all__ = ["DeliveryError", "Watch", "WatchSettings"]

_TURN = 1.0  # seconds for which files are read before others may use the database


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
        self._incoming = Incoming(settings, note=note, on_other=self._begin_anew)
        self._deliveries = Deliveries(settings, deliver, note)
        self._note, self._checked = note, checked
        # Of the decisions that were watched, the newest last; earlier versions watched whole lists.
        self._lists = [*{replace(settings, whole=True).watched: 0, settings.watched: 0}]
        self._pending = True
        self._day: date | None = None
        self._standing: Standing | None = None  # at the last look
        self._measured: tuple[Standing | None, int] | None = None  # by the last look

    def go_over_to(self, decision: Decision) -> None:
        """Watch another decision from the next look on; notices on those before are delivered."""
        self._incoming.settings = settings = replace(self._settings, decision=decision)
        watched = settings.watched
        self._lists = [*(each for each in self._lists if each != watched), watched]
        self._pending = True

    def step(self) -> None:
        """Look once, and say in numbers what is known: see `_look_once`."""
        try:
            self._look_once()
        except DeliveryError:
            self._measure()
            raise
        self._measure()

    @property
    def waiting(self) -> bool:
        """Whether there are files that may still be written to."""
        return self._incoming.waiting

    @property
    def refused(self) -> list[str]:
        """Files in the folder that could not be read, as they can be printed."""
        return self._incoming.refused

    @property
    def outcome(self) -> Outcome | None:
        """Outcome of the last check, null where there was none."""
        return None if self._standing is None else self._standing.outcome

    @property
    def _settings(self) -> WatchSettings:
        return self._incoming.settings

    def _begin_anew(self) -> None:
        self._deliveries.told.clear()
        self._pending = True

    def _measure(self) -> None:
        """Write the gauges; a watch that ends, or cannot look, leaves the time of its last look."""
        settings = self._settings
        if settings.metrics is None:
            return
        if self._measured is None:  # a look failed; else the database stays closed
            with settings.open_database() as database:
                standing = standing_of(last_checked(database, self._lists[-1])[1])
                notices = [undelivered_notices(database, one) for one in self._lists]
            self._measured = standing, sum(map(len, notices))
        standing, waiting = self._measured
        seen = self._incoming.seen.values()
        text = gauges(
            settings.decision,
            standing,
            identity=identity_of(settings.decision),
            undelivered=waiting,
            newest_log=max((one.modified / 1e9 for one, _ in seen), default=None),
            now=datetime.now(UTC),
        )
        write_bytes(settings.metrics, [text.encode()])

    def _look_once(self) -> None:
        """Read what has arrived, check, and report; return when there is nothing left to do."""
        incoming = self._incoming
        settled = incoming.settled()
        today = datetime.now(UTC).date()
        if self._settings.by is not None and today != self._day:  # a window may have ended
            self._pending = True
        is_recalled = incoming.is_recalled
        if is_recalled and not self._pending and not any(map(incoming.is_fresh, settled)):
            return
        # A backup that was put back knows less.
        is_recalled = is_recalled and is_as_left(self._settings.database)
        with self._settings.open_monitor() as monitor:  # once: to open and close takes 0.1 s
            if not is_recalled:
                incoming.recall(monitor.database)
            fresh = deque(path for path in settled if incoming.is_fresh(path))
            if not fresh and not self._pending:
                return
            self._pending, self._measured = True, None
            notices = self._take_in(monitor, fresh)
        while fresh:  # in between others may use the database
            with self._settings.open_monitor() as monitor:
                notices = self._take_in(monitor, fresh)
        incoming.corrected.clear()
        self._deliveries.tell(notices)
        self._measured = self._standing, 0
        self._pending, self._day = False, today

    def _take_in(self, monitor: Monitor, rest: deque[str]) -> list[Notice]:
        """Read new files for a moment; check when none is left, and return what is to be told."""
        incoming = self._incoming
        incoming.ingest(monitor, rest, until=time.monotonic() + _TURN)
        if rest:
            return []
        Look(
            settings=self._settings,
            watched=self._lists[-1],
            monitor=monitor,
            now=datetime.now(UTC),
            refused=incoming.refused,
            corrected=incoming.corrected,
            note=self._note,
            checked=self._checked,
        ).check()
        self._standing = standing_of(last_checked(monitor.database, self._lists[-1])[1])
        notices = [
            notice
            for watched in self._lists
            for notice in undelivered_notices(monitor.database, watched)
        ]
        return sorted(notices, key=lambda notice: notice.number)
