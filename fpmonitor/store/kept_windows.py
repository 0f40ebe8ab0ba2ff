"""What questions found in calendar windows, kept until the visits of a window change.

Visits and observations have numbers in the order in which they were stored. So what came since the
last look is found at the end of both tables, however late its time is, and whoever forgets visits
says so before: nothing else changes a window.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fpmonitor.errors import UndecidableError
from fpmonitor.store.database import utc_now
from fpmonitor.store.snapshot import Window
from fpmonitor.store.windows import Division, Span, end_of, list_spans

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from fpmonitor.store.database import Database

_QUESTIONS = 8  # that are kept, those asked last


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptWindow:
    """A calendar window, and what a question found in it."""

    span: Span
    # Begin of the window that it was compared with, UTC; null where it was with none.
    against: datetime | None = None
    content: bytes | None = None  # What was found; null where it has to be read.


def kept_windows(
    database: Database, question: str, period: Division, source: str | None
) -> list[KeptWindow]:
    """Return all calendar windows with visits, in the order of time, and what is kept of them.

    Args:
        question: Name of all that the content follows from, apart from the visits.
        period, source: Length of the windows, and which visits count.
    """
    with database.transaction():
        take_in_changes(database)
        database.run("windows/ask", question=question, asked_at=utc_now())
    rows = database.rows("windows/kept", question=question)
    found = {
        since: KeptWindow(
            span=Span(
                name=f"{since:%Y-%m-%d}",
                window=Window(since, end_of(since, period), source),
                visits=visits,
                first=first,
                last=last,
            ),
            against=against,
            content=content,
        )
        for since, visits, first, last, against, content in rows
        if content is not None
    }
    stale = [since for since, *_, content in rows if content is None]
    # Only the stretch from the first changed window to the last is counted anew.
    limits = Window(source=source)
    if found and stale:
        limits = Window(stale[0], end_of(stale[-1], period), source)
    if not found or stale:
        with suppress(UndecidableError):
            for span in list_spans(database, period, limits):
                if span.window.since is not None:
                    found.setdefault(span.window.since, KeptWindow(span=span))
    if not found:
        list_spans(database, period, limits)  # tells why there is none
    return [found[since] for since in sorted(found)]


def keep_windows(
    database: Database, question: str, period: Division, windows: Iterable[KeptWindow]
) -> None:
    """Keep what a question found in windows that it read; those that have gone are forgotten."""
    now = utc_now()
    with database.transaction():
        database.run("windows/forget_unread", question=question)
        for window in windows:
            since = window.span.window.since
            database.run("windows/forget_kept", question=question, since=since)
            database.run(
                "windows/keep",
                question=question,
                period=period,
                since=since,
                against=window.against,
                visits=window.span.visits,
                first=window.span.first,
                last=window.span.last,
                content=window.content,
                asked_at=now,
            )
        database.run("windows/forget_old_questions", most=_QUESTIONS)


def take_in_changes(database: Database) -> None:
    """Drop what is kept of windows whose visits have changed since the last look."""
    until = database.rows("windows/kept_until")
    if until:
        [(last_visit, observations)] = until
        database.run("windows/mark_new", last_visit=last_visit, observations=observations)
        _drop_marked(database)
    look_until_now(database)


def drop_forgotten(database: Database) -> None:
    """Drop what is kept of windows of the visits in the table `forgotten`, which are still there.

    `look_until_now` is to be called once they are gone.
    """
    take_in_changes(database)
    database.run("windows/mark_forgotten")
    _drop_marked(database)


def look_until_now(database: Database) -> None:
    """Note that all that is stored was taken in."""
    database.run("windows/forget_until")
    database.run("windows/keep_until")


def _drop_marked(database: Database) -> None:
    database.run("windows/drop_changed")
    database.run("windows/add_changed")
