"""What repeated checks of a decision must remember: their windows and outcomes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.store.database import utc_now
from fpmonitor.store.snapshot import Window, users_of_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fpmonitor.store.database import Database


_ANYBODY = 2**63 - 1  # a number of a visit up to which everybody came


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedList:
    """An allow list that is checked window by window."""

    # Number of the last visit that may have made the list; null where its users may be anybody, as
    # some were forgotten since, and would come again under other numbers.
    last_visit: int | None
    # Only windows that begin after this moment count in runs, UTC; null: all. Users of earlier ones
    # were forgotten, and would count again.
    runs_after: datetime | None
    # Beginning of the first window, UTC; null for windows that are not of the calendar.
    origin: datetime | None
    # windows, passed, violated: Windows so far, and how many passed and violated.
    windows: int
    passed: int
    violated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedWindow:
    """A window that a list was checked on."""

    number: int  # Which share of delta it has, from 1.
    terms: tuple[float, float]  # Evidence that was asked for, nats: to pass, to be violated.
    # within, above: Evidence of each set, nats.
    within: tuple[float, ...]
    above: tuple[float, ...]
    # passed, violated: What came out at the first look.
    passed: bool
    violated: bool
    # Runs of all sets up to this window, nats; null where it takes no part in them.
    run: tuple[float, ...] | None


def doubt_lists(database: Database, *, first: int, last: datetime | None) -> None:
    """Remember that users are forgotten who may come again as others.

    Args:
        database, first, last: The open database, and of their visits the lowest number and the
            latest time, UTC without a zone; null where none has a time.
    """
    now = utc_now()
    database.run("checks/doubt_lists", first=first, anybody=_ANYBODY)
    database.run("checks/note_runs_after", moment=None if last is None else min(last, now))
    database.run("checks/note_forgetting", day=f"{now:%Y-%m-%d}")


def read_list(
    database: Database, series: str, origin: datetime | None, *, made: date | None
) -> CheckedList:
    """Return what is known of a list; one that is new may have been made from all stored visits.

    Args:
        database, series, origin: The open database, the list, and the first window if it is new.
        made: Day on which it was made, null where that is not known: see `doubt_lists`.
    """
    if not database.rows("checks/list", series=series):
        day = "" if made is None else f"{made:%Y-%m-%d}"
        database.run("checks/add_list", series=series, origin=origin, made=day, anybody=_ANYBODY)
    [(last_visit, first, runs_after)] = database.rows("checks/list", series=series)
    [(windows, passed, violated)] = database.rows("checks/totals", series=series)
    return CheckedList(
        last_visit=None if last_visit == _ANYBODY else last_visit,
        runs_after=runs_after,
        origin=first,
        windows=windows,
        passed=passed,
        violated=violated,
    )


def read_checked(database: Database, series: str, label: str) -> CheckedWindow | None:
    """Return the outcome of a list's check on a window; None if it was not checked."""
    rows = database.rows("checks/window", series=series, label=label)
    if not rows:
        return None
    number, terms, within, above, passed, violated, run = rows[0]
    return CheckedWindow(
        number=number,
        terms=tuple(json.loads(terms)),
        within=tuple(json.loads(within)),
        above=tuple(json.loads(above)),
        passed=passed,
        violated=violated,
        run=None if run is None else tuple(json.loads(run)),
    )


def add_checked(
    database: Database, series: str, label: str, since: datetime | None, window: CheckedWindow
) -> None:
    """Record the outcome of the first look at a window."""
    database.run(
        "checks/add_window",
        series=series,
        label=label,
        number=window.number,
        since=since,
        terms=json.dumps(window.terms),
        within=json.dumps(window.within),
        above=json.dumps(window.above),
        passed=window.passed,
        violated=window.violated,
        run=None if window.run is None else json.dumps(window.run),
        checked_at=utc_now(),
    )


def lower_checked(
    database: Database,
    series: str,
    label: str,
    *,
    within: Sequence[float],
    above: Sequence[float],
) -> None:
    """Record the evidence of a window that a later look has lowered."""
    database.run(
        "checks/lower_window",
        series=series,
        label=label,
        within=json.dumps(within),
        above=json.dumps(above),
    )


def last_runs(
    database: Database, series: str, *, until: datetime | None = None, most: int = 1
) -> list[tuple[datetime, tuple[float, ...]]]:
    """Return the newest windows that the runs of a list have taken in, and these runs, nats.

    Args:
        until, most: The begin of the newest window, null for any; and how many, which come in their
            order.
    """
    rows = database.rows("checks/last_runs", series=series, until=until, most=most)
    return [(since, tuple(json.loads(run))) for since, run in reversed(rows)]


def users_before(
    database: Database, window: Window, last_visit: int | None, *, rows: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Tell for each row of a window's snapshot, of which there are so many, who came before.

    Returns:
        tuple
            bool, shape (users,): whether a visit up to `last_visit` may be theirs; whether they may
            have come before the window. Both are false of users who were first stored later, unless
            these may be anybody.
    """
    bounds = window.bounds
    last = -1 if last_visit is None else last_visit
    [(first,)] = database.rows("checks/stretch", **bounds)
    [(decided, seen)] = database.rows("checks/boundaries", last_visit=last, first=first)
    users = users_of_rows(database, window, rows)
    anybody = np.ones(len(users), dtype=np.bool_)
    late = database.arrays("checks/late", first=first, **bounds)["user_id"]
    return (
        anybody if last_visit is None else users <= decided,
        anybody if window.since is None else (users <= seen) | np.isin(users, late),
    )
