"""Windows: the users of a day, a week or a month, of a batch or a source, read one at a time.

What a window holds is what its snapshot would: the latest value of every API of every user. But
only the APIs that are asked for are read, and nothing is kept, so that a year of windows fits in
memory.
Logs that arrive in the order of time are read fastest: a window is then a stretch of visits.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import polars as pl

from fpmonitor.errors import InputError, UndecidableError, UnknownNameError
from fpmonitor.store.snapshot import (
    ABSENT,
    Visits,
    Window,
    latest_values,
    naive_utc,
    visits_of_users,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from fpmonitor.store.database import Database

Period = Literal["day", "week", "month"]
Division = Literal["day", "week", "month", "batch", "source"]
_VISITS_OF_A_USER = 100  # that are looked at first
PARTS = frozenset({"batch", "source"})  # divisions that are not of the calendar


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Visits of a calendar window (UTC), or those of a batch or a source within a window."""

    # First day of a calendar window (a week begins on Monday); number and log of a batch; source.
    name: str
    window: Window  # Observations that count.
    visits: int
    # first, last: The lowest and the highest number of a visit.
    first: int
    last: int
    # column, part: Column that the visits share, and its value; null for a calendar window.
    column: str | None = None
    part: int | None = None

    @property
    def bounds(self) -> dict[str, Any]:
        """What statements bind."""
        return {**self.window.bounds, "first": self.first, "last": self.last}

    def left_out(self, why: str) -> LeftOut:
        """Return a note that the window is not checked."""
        since, until = self.window.since or datetime.min, self.window.until or datetime.max  # noqa: DTZ901
        return LeftOut(since=since, until=until, why=why)


def list_spans(
    database: Database, division: Division, window: Window | None = None
) -> tuple[Span, ...]:
    """Windows with visits, in the order of time; batches and sources as they were first stored.

    Args:
        division: Length of calendar windows, or what else divides the visits.
        window: Only visits of this time and source; it cuts windows that it does not hold.

    Raises:
        InputError: There is no such division.
        UndecidableError: No visit has a time, or none lies in the window.
    """
    window = window or Window()
    if division not in get_args(Division):
        words = ", ".join(get_args(Division))
        raise InputError(f"period: must be one of {words}, got {division!r}")
    if division in PARTS:
        return _list_parts(database, division, window)
    rows = database.rows("windows/spans", period=division, **window.bounds)
    if not rows:
        raise _no_visit_with_a_time()
    spans = []
    for since, visits, first, last in rows:
        begin = max(since, naive_utc(window.since) or since)
        end = min(end_of(since, division), naive_utc(window.until) or datetime.max)  # noqa: DTZ901
        spans.append(
            Span(
                name=f"{begin:%Y-%m-%d}",
                window=Window(begin, end, window.source),
                visits=visits,
                first=first,
                last=last,
            )
        )
    return tuple(spans)


def whole_span(database: Database, window: Window) -> Span:
    """Return the visits of a window that has a begin as one; errors as of `list_spans`."""
    [(visits, first, last)] = database.rows("windows/whole", **window.bounds)
    if not visits:
        raise _no_visit_with_a_time()
    name = f"{naive_utc(window.since):%Y-%m-%d}"
    return Span(name=name, window=window, visits=visits, first=first, last=last)


def _no_visit_with_a_time() -> UndecidableError:
    return UndecidableError(
        "no visit with a time",
        hint="windows need logs with a time; name its column with `ingest --time`, or take each "
        "batch for a window: --by batch",
    )


def _list_parts(database: Database, division: Division, window: Window) -> tuple[Span, ...]:
    column = f"{division}_id"
    label = "source" if division == "batch" else "name"
    fragments = {"part": column, "table": division, "label": label}
    rows = database.rows("windows/parts", fragments=fragments, **window.bounds)
    if not rows:
        raise UndecidableError("no visit to estimate from", hint="ingest logs, or widen the window")
    return tuple(
        Span(
            name=f"{part}: {text}" if division == "batch" else text or "(no source)",
            window=window,
            visits=visits,
            first=first,
            last=last,
            column=column,
            part=part,
        )
        for part, text, visits, first, last in rows
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A calendar window that is not checked, and why; the times as of `Span`."""

    since: datetime
    until: datetime
    why: str


def whole_windows(
    database: Database, period: Period, window: Window, *, now: datetime
) -> Iterator[Span | LeftOut]:
    """Calendar windows within some limits, the newest first: those that can be checked, and others.

    Args:
        window: Its source, and the limits; windows that they cut cannot be checked.
        now: UTC, without a zone; windows must have ended.
    """
    if period in PARTS:
        raise InputError(f"period: must be one of {', '.join(get_args(Period))}, got {period!r}")
    since = naive_utc(window.since) or datetime.min  # noqa: DTZ901
    until = naive_utc(window.until) or datetime.max  # noqa: DTZ901
    for span in _newest_first(database, period, window.source):
        left_out = span.left_out("")
        begin, end = left_out.since, left_out.until
        if end <= since or begin >= until:
            continue
        if begin >= now:
            why = "lies in the future"
        elif end > now:
            why = "is not over"
        elif begin < since or end > until:
            why = "is cut by the limits of time"
        else:
            yield span
            continue
        yield replace(left_out, why=why)


def _newest_first(database: Database, period: Period, source: str | None) -> Iterator[Span]:
    """List the windows of a source, the newest first; a few cost little, however many there are."""
    end, found, at_once = None, False, 1
    while newest := database.rows("windows/newest", period=period, before=end)[0][0]:
        begin = newest
        for _ in range(at_once - 1):
            # There is no date before year 1.
            begin = start_before(begin, period) if begin.year > 1 else datetime.min  # noqa: DTZ901
        # A few windows are asked for most often; years without one take a few steps.
        at_once *= 2
        with suppress(UndecidableError):
            for span in reversed(list_spans(database, period, Window(begin, end, source))):
                found = True
                yield span
        end = begin
    if not found:
        list_spans(database, period, Window(source=source))  # tells why there is none


def position(moment: datetime, period: Division) -> int:
    """Place of the calendar window that begins at a moment among all windows of its length."""
    if period == "month":
        return 12 * moment.year + moment.month
    return moment.toordinal() // (7 if period == "week" else 1)


def count_timeless(database: Database) -> int:
    """Visits without a time, which no window holds."""
    return int(database.rows("windows/timeless")[0][0])


def has_users(database: Database, api_id: int, least: int) -> bool:
    """Whether at least so many users have an observation of an API, whose first ones mostly show.

    Args:
        database, api_id: The open database, and the number of the API.
        least: 1 or more.
    """
    arrays = database.arrays("windows/visits_of_api", api=api_id, most=least * _VISITS_OF_A_USER)
    visits = np.asarray(arrays["visit_id"], dtype=np.int64)
    if not len(visits):
        return False
    first, last = int(visits.min()), int(visits.max())
    with database.frame("asked", pl.DataFrame({"visit_id": visits})):
        [(users,)] = database.rows("windows/users_of_visits", first=first, last=last)
    if users < least:
        [(users,)] = database.rows("windows/users_of_api", api=api_id)
    return bool(users >= least)


def users_of_sources(database: Database, span: Span) -> dict[str, int]:
    """Count the users of each source that the visits of a window came from, by its name."""
    arrays = database.arrays("windows/sources", **span.bounds)
    # A number for each user of a source: sorted, a million visits take a third of what
    # `count(DISTINCT)` does.
    source_ids, users = (
        np.asarray(arrays[name], dtype=np.int64) for name in ("source_id", "user_id")
    )
    users = source_ids << 32 | users
    users.sort()
    sources = users[np.flatnonzero(np.diff(users, prepend=-1))] >> 32
    counts = dict(zip(*(part.tolist() for part in np.unique_counts(sources)), strict=True))
    names = database.rows("windows/source_names")
    return {name: counts[source] for source, name in names if source in counts}


def read_window(
    database: Database, span: Span, apis: Sequence[str]
) -> tuple[NDArray[np.int64], dict[str, NDArray[np.unsignedinteger[Any]]]]:
    """Read the users of a window: their numbers, int64, and the codes of each API in their order.

    Args:
        apis: Their codes mean the same in every window.

    Raises:
        UnknownNameError: No observation of one of them, at any time.
    """
    known = {name: api_id for api_id, name in database.rows("snapshot/apis")}
    for api in apis:
        if api not in known:
            raise UnknownNameError("API", api, known)
    visits, people = _visits_of(database, span)
    numbers = [known[api] for api in apis]
    latest = dict(zip(apis, latest_values(database, visits, numbers), strict=True))
    observed = _observed(database, span, visits, latest)
    observed_codes = {api: codes[observed] for api, codes in latest.items()}
    return people[observed] if latest else people[:0], {
        api: codes.astype(np.min_scalar_type(int(codes.max(initial=0))))
        for api, codes in observed_codes.items()
    }


def _visits_of(database: Database, span: Span) -> tuple[Visits, NDArray[np.int64]]:
    """Visits of a window, and the users of its rows."""
    if span.column is None:
        return visits_of_users(database, "windows/visits", **span.bounds)
    part = {"fragments": {"part": span.column}, "part": span.part}
    return visits_of_users(database, "windows/part_visits", **part, **span.bounds)


def _observed(
    database: Database,
    span: Span,
    visits: Visits,
    codes: dict[str, NDArray[np.unsignedinteger[Any]]],
) -> NDArray[np.bool_] | slice:
    """Tell the rows of users of whom any API at all was observed, as a snapshot has them."""
    silent = np.ones(visits.users, dtype=np.bool_)
    for column in codes.values():
        silent &= column == ABSENT
    if not np.any(silent):
        return slice(None)
    visits_to_ask = visits.ids[silent[visits.row_of[visits.ids - visits.first]]]
    with database.frame("asked", pl.DataFrame({"visit_id": visits_to_ask})):
        arrays = database.arrays("windows/observed_visits", **span.bounds)
    observed = visits.row_of[np.asarray(arrays["visit_id"], dtype=np.int64) - visits.first]
    silent[observed] = False
    return np.asarray(~silent)


def start_before(since: datetime, period: Division) -> datetime:
    """Return when the calendar window before the one that begins at a moment begins."""
    if period == "month":
        return (since - timedelta(days=1)).replace(day=1)
    return since - timedelta(days=7 if period == "week" else 1)


def window_at(moment: datetime, period: Division) -> datetime:
    """Return when the calendar window of a moment begins."""
    day = datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001 -- UTC, as stored
    if period == "month":
        return day.replace(day=1)
    return day - timedelta(days=day.weekday()) if period == "week" else day


def end_of(since: datetime, period: Division) -> datetime:
    """Return when the calendar window that begins at a moment ends."""
    # No overflow: only times of the years 1 to 9998 are stored.
    if period == "month":
        return (since.replace(day=1) + timedelta(days=32)).replace(day=1)
    return since + timedelta(days=7 if period == "week" else 1)
