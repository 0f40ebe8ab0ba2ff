"""Calendar windows: the users of a day, a week or a month, read one window at a time.

What a window holds is what its snapshot would: the latest value of every API of every user. But
only the APIs that are asked for are read, and nothing is kept, so that a year of windows fits in
memory.
Logs that arrive in the order of time are read fastest: a window is then a stretch of visits.

What browsers randomise is told by the vocabulary alone. Repeat visits, which tell it elsewhere, are
few in a short window and tell one thing in one window and another in the next: that would look like
a change of the users.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from fpmonitor.errors import InputError, UndecidableError, UnknownNameError
from fpmonitor.store.browsers import TELLING_APIS
from fpmonitor.store.snapshot import ABSENT, Snapshot, Window, read_codes
from fpmonitor.store.views import look
from fpmonitor.vocabulary import FAMILIES, volatile_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.store.database import Database
    from fpmonitor.store.views import View

Period = Literal["day", "week", "month"]
_TABLE = "window_codes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A calendar window (UTC) that holds visits.

    Attributes
    ----------
    since, until
        Its beginning (included) and end (excluded); a week begins on Monday.
    source
        The source that all its visits are of; None for any.
    visits
        How many.
    first, last
        The lowest and the highest number of a visit.
    """

    since: datetime
    until: datetime
    source: str | None
    visits: int
    first: int
    last: int

    @property
    def bounds(self) -> dict[str, Any]:
        """What statements bind."""
        return {**self.window.bounds, "first": self.first, "last": self.last}

    @property
    def window(self) -> Window:
        """The same as a window of a snapshot."""
        return Window(self.since, self.until, self.source)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WindowUsers:
    """Users of a window.

    Attributes
    ----------
    users
        How many there are.
    codes
        API -> int64, shape (users,): number of the user's value; 0 is absent; see `ApiCodes.names`
        for numbers beyond the values. The numbers mean the same in every window.
    """

    users: int
    codes: Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCodes:
    """An API, and how many numbers its values take.

    Attributes
    ----------
    api_id
        Its number in the database.
    values
        Largest number of a value; beyond it a token for each browser family stands for values that
        browsers randomise, the first for unknown browsers.
    """

    api_id: int
    values: int

    @property
    def size(self) -> int:
        """Numbers that can occur, absent and the tokens included."""
        return self.values + 2 + len(FAMILIES)


def list_spans(
    database: Database, period: Period, window: Window | None = None
) -> tuple[Span, ...]:
    """Windows with visits, in the order of time.

    Parameters
    ----------
    database
        The open database.
    period
        Length of the windows.
    window
        Only visits of this time and source; it cuts windows that it does not hold.

    Raises
    ------
    UndecidableError
        No visit has a time, or none lies in the window.
    """
    window = window or Window()
    rows = database.rows("windows/spans", period=period, **window.bounds)
    if not rows:
        raise UndecidableError(
            "no visit with a time",
            hint="windows need logs with a time; name its column with `ingest --time`",
        )
    return tuple(
        Span(
            since=max(since, _naive(window.since) or since),
            until=min(_end(since, period), _naive(window.until) or datetime.max),  # noqa: DTZ901
            source=window.source,
            visits=visits,
            first=first,
            last=last,
        )
        for since, visits, first, last in rows
    )


def count_timeless(database: Database) -> int:
    """Visits without a time, which no window holds."""
    return int(database.rows("windows/timeless")[0][0])


def number_apis(database: Database, apis: Sequence[str]) -> dict[str, ApiCodes]:
    """Numbers of APIs and of their values.

    Raises
    ------
    UnknownNameError
        No observation of one of them.
    """
    known = {name: api_id for api_id, name in database.rows("snapshot/apis")}
    for api in apis:
        if api not in known:
            raise UnknownNameError("API", api, known)
    return {
        api: ApiCodes(
            api_id=known[api], values=int(database.rows("windows/values", api=known[api])[0][0])
        )
        for api in apis
    }


def read_window(
    database: Database, span: Span, apis: Mapping[str, ApiCodes], view: View
) -> WindowUsers:
    """Read the users of a window as a view shows them.

    Parameters
    ----------
    database, span
        The open database and one of its windows.
    apis
        The APIs to read, as `number_apis` gives them.
    view
        How to look at the users.

    Raises
    ------
    InputError
        A view with transforms: what they make of values has no number that all windows share.
    UndecidableError
        No user has an observation, or every user looks automated.
    """
    if view.transforms:
        raise InputError("windows: values made coarser cannot be compared between windows")
    visits = _read_visits(database, span)
    telling = [api for api in TELLING_APIS if api not in apis] if _changes(view, apis) else []
    known = {name: api_id for api_id, name in database.rows("snapshot/apis")}
    numbers = {api: code.api_id for api, code in apis.items()}
    numbers |= {api: known[api] for api in telling if api in known}
    codes = {api: _latest(database, span, visits, api_id) for api, api_id in numbers.items()}
    codes = _without_unobserved(database, span, visits, codes)
    users = len(next(iter(codes.values())))
    if users == 0:
        raise UndecidableError(f"no observation from {span.since:%Y-%m-%d} on")
    if not _changes(view, apis):
        return WindowUsers(users=users, codes=codes)
    return _looked_at(database, span, codes, numbers=numbers, view=view, apis=apis)


@dataclass(frozen=True, slots=True)
class _Visits:
    """Visits of a window: their numbers, the row of the user of each number, the order in time."""

    ids: NDArray[np.int64]
    users: int
    row_of: NDArray[np.int64]
    order_of: NDArray[np.int64] | None


def _read_visits(database: Database, span: Span) -> _Visits:
    """Read visits, and give each user a row."""
    arrays = database.arrays("windows/visits", **span.bounds)
    ids = np.asarray(arrays["visit_id"], dtype=np.int64)
    user_ids = np.asarray(arrays["user_id"], dtype=np.int64)
    row_of = np.full(span.last - span.first + 1, -1, dtype=np.int64)
    users = _count_distinct(user_ids)
    if users == len(ids):
        row_of[ids - span.first] = np.arange(users)
        return _Visits(ids, users, row_of, None)
    row_of[ids - span.first] = np.unique(user_ids, return_inverse=True)[1]
    return _Visits(ids, users, row_of, _order_in_time(database, span))


def _count_distinct(numbers: NDArray[np.int64]) -> int:
    """Count by marks where the numbers lie close enough, which is many times cheaper."""
    first, last = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    if last - first > 64 * len(numbers):
        return len(np.unique(numbers))
    marks = np.zeros(last - first + 1, dtype=np.bool_)
    marks[numbers - first] = True
    return int(np.count_nonzero(marks))


def _order_in_time(database: Database, span: Span) -> NDArray[np.int64]:
    """Place in time of each visit number; of equal times that of the number."""
    arrays = database.arrays("windows/moments", **span.bounds)
    ids = np.asarray(arrays["visit_id"], dtype=np.int64)
    order = np.lexsort((ids, np.asarray(arrays["moment"], dtype=np.int64)))
    order_of = np.zeros(span.last - span.first + 1, dtype=np.int64)
    order_of[ids[order] - span.first] = np.arange(len(ids))
    return order_of


def _latest(database: Database, span: Span, visits: _Visits, api_id: int) -> NDArray[np.int64]:
    """Latest value of every user, 0 where absent; of equal times the last that was stored."""
    arrays = database.arrays("windows/observations_of_api", api=api_id, **span.bounds)
    places = np.asarray(arrays["visit_id"], dtype=np.int64) - span.first
    values = np.asarray(arrays["value_id"], dtype=np.int64)
    rows = visits.row_of[places]
    if len(visits.ids) < len(visits.row_of):
        inside = rows >= 0
        places, values, rows = places[inside], values[inside], rows[inside]
    if visits.order_of is not None:
        order = np.argsort(visits.order_of[places], kind="stable")
        values, rows = values[order], rows[order]
    latest = np.zeros(visits.users, dtype=np.int64)
    # numpy assigns in order: of several values of a user the last one stays.
    latest[rows] = values
    return latest


def _without_unobserved(
    database: Database, span: Span, visits: _Visits, codes: dict[str, NDArray[np.int64]]
) -> dict[str, NDArray[np.int64]]:
    """Leave out users of whom no API at all was observed, as a snapshot does."""
    silent = ~np.any([column != ABSENT for column in codes.values()], axis=0)
    if not silent.any():
        return codes
    asked = visits.ids[silent[visits.row_of[visits.ids - span.first]]]
    with database.frame("asked", pl.DataFrame({"visit_id": asked})):
        arrays = database.arrays("windows/observed_visits", **span.bounds)
    observed = visits.row_of[np.asarray(arrays["visit_id"], dtype=np.int64) - span.first]
    silent[observed] = False
    return {api: column[~silent] for api, column in codes.items()}


def _changes(view: View, apis: Mapping[str, ApiCodes]) -> bool:
    """Whether the view can show users otherwise than they were logged."""
    return view.drop_automation or (
        view.volatile != "raw" and any(volatile_in(api) for api in apis)
    )


def _looked_at(
    database: Database,
    span: Span,
    codes: Mapping[str, NDArray[np.int64]],
    *,
    numbers: Mapping[str, int],
    view: View,
    apis: Mapping[str, ApiCodes],
) -> WindowUsers:
    columns = {api: f"a{numbers[api]}" for api in codes}
    frame = pl.DataFrame({columns[api]: column for api, column in codes.items()})
    with database.frame("codes", frame):
        database.run("windows/create")
    # As many visits as users: none of them is a repeat visit that could tell what is volatile.
    raw = Snapshot(_TABLE, columns, len(frame), len(frame), "")
    try:
        viewed = look(database, raw, view, span.window).snapshot
        return WindowUsers(
            users=viewed.users,
            codes={
                api: _same_tokens(
                    np.asarray(column, dtype=np.int64), int(codes[api].max()), apis[api].values
                )
                for api, column in zip(apis, read_codes(database, viewed, list(apis)), strict=True)
            },
        )
    finally:
        database.run("windows/drop")
        database.run("windows/drop_view")


def _same_tokens(column: NDArray[np.int64], largest: int, values: int) -> NDArray[np.int64]:
    """Move the tokens of a view, which begin after a window's largest code, behind all values."""
    return np.where(column > largest, column - largest + values, column)


def _end(since: datetime, period: Period) -> datetime:
    if period == "month":
        return (since.replace(day=1) + timedelta(days=32)).replace(day=1)
    return since + timedelta(days=7 if period == "week" else 1)


def _naive(moment: datetime | None) -> datetime | None:
    """UTC without its zone, as the store keeps times."""
    if moment is None or moment.tzinfo is None:
        return moment
    return moment.astimezone(UTC).replace(tzinfo=None)
