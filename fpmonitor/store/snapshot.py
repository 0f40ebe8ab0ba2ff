"""Snapshots: one row per user with the latest value of every API, as integers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fpmonitor.account import KINDS, Kind
from fpmonitor.errors import InputError, UndecidableError, UnknownNameError
from fpmonitor.estimate.mixing import digest_of_sums, multiset_sums
from fpmonitor.sql import quote_name
from fpmonitor.store.database import Database
from fpmonitor.unit import Unit
from fpmonitor.vocabulary import known_apis

ABSENT = 0


@dataclass(frozen=True, slots=True)
class Window:
    """Observations from `since` (included) until `until` (excluded), UTC, of one source.

    Null is open. A source is a library and its version, as the log or its collector names it, or
    the name of a write key of the service: then also of the libraries whose results came by it.
    With `!` before its name, everything else is meant, what has no source included.
    """

    since: datetime | None = None
    until: datetime | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        """Refuse a name that is no text."""
        try:
            (self.source or "").encode()
        except UnicodeEncodeError as error:
            raise InputError("source: not a text in UTF-8") from error

    @property
    def bounds(self) -> dict[str, Any]:
        """What statements bind."""
        return {"window_from": self.since, "window_to": self.until, "source": self.source}


def naive_utc(moment: datetime | None) -> datetime | None:
    """UTC without its zone, as the store keeps times."""
    if moment is None or moment.tzinfo is None:
        return moment
    return moment.astimezone(UTC).replace(tzinfo=None)


@dataclass(frozen=True, slots=True)
class SnapshotTable:
    """A table of one row per user and one integer column per API."""

    table: str  # Name of the table in the database; empty where the rows are in memory alone.
    # API -> its column; the code 0 is absent, others are the numbers of the API's values.
    columns: Mapping[str, str]
    users: int  # Rows.
    visits: int  # Visits of the window, all users together.
    # Digest of the multiset of the rows' values: independent of user ids and of the order of
    # ingest.
    digest: str

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs, sorted."""
        return tuple(sorted(self.columns))

    def column(self, api: str) -> str:
        """Quoted column of an API."""
        return quote_name(self.column_of(api))

    def column_of(self, api: str) -> str:
        """Column of an API, not quoted; errors as of `column`."""
        if api not in self.columns:
            # Other names are told by those who know how many users have them.
            raise UnknownNameError("API", api, self.columns.keys() & known_apis().keys())
        return self.columns[api]


def take_snapshot(database: Database, window: Window | None = None) -> SnapshotTable:
    """Snapshot of the window (default: all time); made once and kept until the next batch."""
    window = window or Window()
    bounds = window.bounds
    columns = api_columns(database)
    found = database.rows("snapshot/find", **bounds)
    if found:
        snapshot_id, users, visits, digest = found[0]
        return SnapshotTable(f"snapshot_{snapshot_id}", columns, users, visits, digest)
    coded, visits = read_coded_users(
        database, window, columns.values(), partial(value_words, database)
    )
    frame, digest = pl.DataFrame(coded.codes), coded.digest
    with database.transaction():
        for (stale,) in database.rows("snapshot/others"):
            database.run("snapshot/drop", fragments={"snapshot": f"snapshot_{stale}"})
            database.run("snapshot/forget", snapshot=stale)
        snapshot_id = database.rows("snapshot/next_id")[0][0]
        table = f"snapshot_{snapshot_id}"
        with database.frame("codes", frame):
            database.run("snapshot/create", fragments={"snapshot": table})
        database.run(
            "snapshot/add",
            snapshot=snapshot_id,
            last_batch=database.rows("snapshot/last_batch")[0][0],
            users=len(frame),
            visits=visits,
            digest=digest,
            **bounds,
        )
    return SnapshotTable(table, columns, len(frame), visits, digest)


def units_of(database: Database, window: Window) -> list[Unit | None]:
    """Return who the rows of a window are, by the logs that its visits came from."""
    units = [unit for (unit,) in database.rows("snapshot/all_units")]
    if len(units) > 1:
        units = [unit for (unit,) in database.rows("snapshot/units", **window.bounds)]
    return units


def kinds_of_members(database: Database, k: int) -> dict[Kind, int]:
    """Count the members of all stored logs by what they were taken for.

    One that differs between logs counts as the first of `KINDS`; one that some records have, and
    fewer than k, does not count.
    """
    kinds: dict[str, set[Kind]] = defaultdict(set)
    records: Counter[str] = Counter()
    for path, kind, having in database.rows("snapshot/members"):
        kinds[path].add(kind)
        records[path] += having
    disclosed = [path for path in kinds if not 0 < records[path] < k]
    counts = Counter(min(kinds[path], key=KINDS.index) for path in disclosed)
    return {kind: counts[kind] for kind in KINDS if counts[kind]}


def read_codes(
    database: Database, snapshot: SnapshotTable, apis: Sequence[str]
) -> list[NDArray[np.unsignedinteger[Any]]]:
    """Codes of some APIs, one unsigned array per API, in the order of the snapshot's rows."""
    columns = [snapshot.column(api) for api in apis]
    selected = ", ".join(f"{column} AS c{i}" for i, column in enumerate(columns))
    arrays = database.arrays(
        "snapshot/codes", fragments={"snapshot": snapshot.table, "columns": selected}
    )
    return [np.asarray(arrays[f"c{i}"]) for i in range(len(columns))]


def read_texts(
    database: Database,
    snapshot: SnapshotTable,
    apis: Sequence[str],
    written: Callable[[str, str, str | None], str],
    *,
    absent: str | None = None,
) -> pl.DataFrame:
    """Return what all users have of some APIs: a row each, a text column per API.

    Args:
        written: Makes the text of an API, a status and a value.
        absent: What stands where a user lacks one.
    """
    columns = []
    for api, codes in zip(apis, read_codes(database, snapshot, apis), strict=True):
        texts = [absent] * (int(codes.max(initial=0)) + 1)
        for number, status, text in database.rows("report/value_texts", api=api):
            # Larger codes are of values that none of these users has.
            if number < len(texts):
                texts[number] = written(api, status, text)
        columns.append(pl.Series(api, texts, dtype=pl.String).gather(codes.astype(np.int64)))
    return pl.DataFrame(columns)


@dataclass(frozen=True, slots=True, eq=False)
class CodedUsers:
    """Users with an observation, in the order of their numbers; arrays have an entry for each."""

    users: NDArray[np.int64]  # int64, their numbers.
    codes: Mapping[str, NDArray[np.unsignedinteger[Any]]]  # Column -> codes of the latest values.
    content: NDArray[np.uint64]  # uint64, sum of the words of each user's values.

    @classmethod
    def of(
        cls,
        users: NDArray[np.int64],
        values: Iterable[tuple[str, NDArray[np.unsignedinteger[Any]], NDArray[np.uint64]]],
    ) -> CodedUsers:
        """Code users by columns, with the latest values of all and the words of values by number.

        Users without any observation are left out.
        """
        codes: dict[str, NDArray[np.unsignedinteger[Any]]] = {}
        content = np.zeros(len(users), dtype=np.uint64)
        seen = np.zeros(len(users), dtype=np.bool_)
        for column, latest, words in values:
            # A byte a user where an API has fewer than 256 values.
            codes[column] = latest.astype(np.min_scalar_type(int(latest.max(initial=0))))
            content += words[latest]
            seen |= latest != ABSENT
        if seen.all():  # as nearly always
            return cls(users, codes, content)
        return cls(
            users[seen], {column: numbers[seen] for column, numbers in codes.items()}, content[seen]
        )

    @property
    def digest(self) -> str:
        """Digest of the multiset of their values."""
        return digest_of_sums(len(self.content), multiset_sums(self.content))


def api_columns(database: Database) -> dict[str, str]:
    """Return API -> its column in snapshots."""
    return {name: f"a{api_id}" for api_id, name in database.rows("snapshot/apis")}


def read_coded_users(
    database: Database,
    window: Window,
    columns: Iterable[str],
    words_of: Callable[[int], NDArray[np.uint64]],
) -> tuple[CodedUsers, int]:
    """Read all users of a window, and count its visits.

    Args:
        columns: Of all its APIs.
        words_of: Number of an API -> words of its values, by their numbers.

    Raises:
        UndecidableError: The database, or the window, holds no observation.
    """
    visits, users = visits_of_users(database, "snapshot/visits", **window.bounds)
    if not len(visits.ids):
        raise UndecidableError(
            "no observation to estimate from",
            hint="ingest logs, or widen the window",
        )
    names = [*columns]
    numbers = [int(column.removeprefix("a")) for column in names]
    latest = latest_values(database, visits, numbers)
    values = (
        (column, codes, words_of(api_id))
        for column, codes, api_id in zip(names, latest, numbers, strict=True)
    )
    return CodedUsers.of(users, values), len(visits.ids)


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """Visits of a window, and the rows of their users."""

    ids: NDArray[np.int64]  # Their numbers.
    users: int  # Rows.
    first: int  # The lowest number; the arrays below have an entry for each number from it on.
    row_of: NDArray[np.int64]  # Row of the user; -1 for a number that is not in the window.
    # Place in time, of equal times that of the number; None where nobody came twice.
    order_of: NDArray[np.int64] | None


def latest_values(
    database: Database, visits: Visits, api_ids: Iterable[int]
) -> Iterator[NDArray[np.unsignedinteger[Any]]]:
    """Yield the latest value of every user of each API, 0 where absent.

    Of equal times the last that was stored counts. Most visits tell all APIs: rows that were found
    for one are not looked for again.
    """
    last = visits.first + len(visits.row_of) - 1
    rows, chosen = _order_of(visits, np.zeros(0, dtype=np.int64))
    told: NDArray[np.generic] = np.zeros(0, dtype=np.int32)
    for api_id in api_ids:
        arrays = database.arrays(
            "snapshot/observations_of_api", api=api_id, first=visits.first, last=last
        )
        ids = np.asarray(arrays["visit_id"])
        if not np.array_equal(ids, told):
            told = ids
            rows, chosen = _order_of(visits, ids.astype(np.int64) - visits.first)
        yield _in_order(np.asarray(arrays["value_id"]), visits.users, rows, chosen)


def latest_of(
    visits: Visits, places: NDArray[np.int64], values: NDArray[np.int64]
) -> NDArray[np.unsignedinteger[Any]]:
    """Latest of some values, in the order in which they were stored, of every user.

    Each is of the visit with the number `places` beyond the lowest; others may be of other visits.
    """
    return _in_order(values, visits.users, *_order_of(visits, places))


def _in_order(
    values: NDArray[np.integer[Any]],
    users: int,
    rows: NDArray[np.int64],
    chosen: NDArray[np.intp] | None,
) -> NDArray[np.unsignedinteger[Any]]:
    """Value of every user, 0 where absent; arguments as of `_order_of`."""
    # In few bytes, which are set many times faster.
    values = values.astype(np.min_scalar_type(int(values.max(initial=0))))
    latest = np.zeros(users, dtype=values.dtype)
    # numpy assigns in order: of several values of a user the last one stays.
    latest[rows] = values if chosen is None else values[chosen]
    return latest


def _order_of(
    visits: Visits, places: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.intp] | None]:
    """Order observations, the latest of each user last.

    Returns the rows of their users, and the places of those that count; null for all, as they come.
    """
    rows, chosen = visits.row_of[places], None
    if len(visits.ids) < len(visits.row_of):
        chosen = np.flatnonzero(rows >= 0)
    if visits.order_of is not None:
        # Stable: of the values of one visit the last that was stored stays the last.
        times = visits.order_of[places if chosen is None else places[chosen]]
        in_time = np.argsort(times, kind="stable")
        chosen = in_time if chosen is None else chosen[in_time]
    return rows if chosen is None else rows[chosen], chosen


def visits_of_users(
    database: Database, statement: str, **bounds: Any
) -> tuple[Visits, NDArray[np.int64]]:
    """Visits that a statement selects, and the users of the rows, in the order of their numbers."""
    arrays = database.arrays(statement, **bounds)
    ids = np.asarray(arrays["visit_id"], dtype=np.int64)
    if not len(ids):
        return Visits(ids, 0, 0, ids, None), ids
    user_ids, rows = distinct(np.asarray(arrays["user_id"], dtype=np.int64))
    first = int(ids.min())
    row_of = np.full(int(ids.max()) - first + 1, -1, dtype=np.int64)
    row_of[ids - first] = rows
    if len(user_ids) == len(ids):
        return Visits(ids, len(user_ids), first, row_of, None), user_ids
    # Without a time, which is the lowest number here, a visit is before all others, and among its
    # like in the order of storing.
    order = np.lexsort((ids, np.asarray(arrays["time"]).astype(np.int64)))
    order_of = np.zeros(len(row_of), dtype=np.int64)
    order_of[ids[order] - first] = np.arange(len(ids))
    return Visits(ids, len(user_ids), first, row_of, order_of), user_ids


def distinct(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each number once, increasing, and the place of every number among these."""
    if not len(numbers):
        return numbers, numbers
    first, last = int(numbers.min()), int(numbers.max())
    # Marks are a byte for each number in between: at most 64 for each of these.
    if last - first > 64 * len(numbers):
        return np.unique(numbers, return_inverse=True)
    marks = np.zeros(last - first + 1, dtype=np.bool_)  # many times cheaper than to sort
    marks[numbers - first] = True
    places = np.cumsum(marks) - 1
    return np.flatnonzero(marks) + first, places[numbers - first]


def users_of_rows(database: Database, window: Window, rows: int) -> NDArray[np.int64]:
    """Return the users of the rows of a snapshot, in their order."""
    bounds = window.bounds
    found = database.arrays("snapshot/users", **bounds)
    users, _ = distinct(np.asarray(found["user_id"], dtype=np.int64))
    if len(users) != rows:  # visits that brought nothing leave no row
        found = database.arrays("snapshot/observed_users", **bounds)
        users = np.asarray(found["user_id"], dtype=np.int64)
    return users


def value_words(database: Database, api_id: int, *, after: int = 0) -> NDArray[np.uint64]:
    """Word of each value number of an API above `after`; the word of absent is 0."""
    arrays = database.arrays("snapshot/value_words", api=api_id, after=after)
    numbers = np.asarray(arrays["value_id"], dtype=np.int64) - after
    words = np.zeros(int(np.max(numbers, initial=0)) + 1, dtype=np.uint64)
    words[numbers] = arrays["word"]
    return words
