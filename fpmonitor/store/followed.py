"""Users of a window that are held in memory: only what was stored since is read again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fpmonitor.store.snapshot import (
    CodedUsers,
    SnapshotTable,
    Window,
    api_columns,
    latest_of,
    read_coded_users,
    value_words,
    visits_of_users,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from fpmonitor.store.database import Database


class Follower:
    """Reads the users of one database again and again, all of them once and then what changed.

    Logs may be stored meanwhile. Once anything else was done to the file (users were forgotten, it
    was rewritten or replaced), begin with a new one: rows and numbers of values are then others.

    Args:
        most: Windows whose users are held, the newest, while nothing is stored; null for all.
    """

    def __init__(self, *, most: int | None = None) -> None:
        self._most = most
        # Users of each window, and the row of the last observation of then.
        self._followed: dict[Window, tuple[CodedUsers, int]] = {}
        self._words: dict[int, NDArray[np.uint64]] = {}

    def read(self, database: Database, window: Window) -> tuple[SnapshotTable, CodedUsers]:
        """Return what `take_snapshot` does, but for a table, and the users that it would hold.

        Arrays that were returned before stay as they are. Errors as of `take_snapshot`.
        """
        columns = api_columns(database)
        # Reads all observations ever stored: 0.1 s of 100 million.
        last = 0 if self._most else database.rows("snapshot/last_observation")[0][0]
        known = self._followed.pop(window, None)
        words_of = partial(self._words_of, database)
        if known is None:
            coded, visits = read_coded_users(database, window, columns.values(), words_of)
        else:
            [(visits,)] = database.rows("snapshot/count_visits", **window.bounds)
            coded, then = known
            if last != then:
                changed = self._changed(database, window, columns.values(), after=then)
                coded = _with_changed(coded, changed)
        self._followed[window] = coded, last
        for earlier in [*self._followed][: -self._most] if self._most else ():
            del self._followed[earlier]
        snapshot = SnapshotTable("", columns, len(coded.users), visits, coded.digest)
        return snapshot, coded

    def _changed(
        self, database: Database, window: Window, columns: Collection[str], *, after: int
    ) -> CodedUsers:
        """Read the users of whom an observation was stored after a row."""
        visits, users = visits_of_users(
            database, "snapshot/visits_of_changed", last=after, **window.bounds
        )
        with database.frame("asked", pl.DataFrame({"visit_id": visits.ids})):
            arrays = database.arrays("snapshot/observations_of_visits")
        places = np.asarray(arrays["visit_id"], dtype=np.int64) - visits.first
        values = np.asarray(arrays["value_id"], dtype=np.int64)
        apis = np.asarray(arrays["api_id"], dtype=np.int64)

        def of_column(
            column: str,
        ) -> tuple[str, NDArray[np.unsignedinteger[Any]], NDArray[np.uint64]]:
            api_id = int(column.removeprefix("a"))
            begin, end = np.searchsorted(apis, [api_id, api_id + 1])
            latest = latest_of(visits, places[begin:end], values[begin:end])
            return column, latest, self._words_of(database, api_id)

        return CodedUsers.of(users, map(of_column, columns))

    def _words_of(self, database: Database, api_id: int) -> NDArray[np.uint64]:
        """Words of the values of an API; those that are known are not computed again."""
        known = self._words.get(api_id, np.zeros(1, dtype=np.uint64))
        more = value_words(database, api_id, after=len(known) - 1)
        self._words[api_id] = np.concatenate([known, more[1:]])
        return self._words[api_id]


def _with_changed(before: CodedUsers, changed: CodedUsers) -> CodedUsers:
    """Put users who changed in the place of what they were, and new ones between the others."""
    places = before.users.searchsorted(changed.users)
    known = before.users.take(places, mode="clip") == changed.users
    absent = np.zeros(len(before.users), dtype=np.uint8)

    def joint(earlier: NDArray[Any], now: NDArray[Any]) -> NDArray[Any]:
        # New values may have numbers that need more bytes.
        earlier = earlier.astype(np.promote_types(earlier.dtype, now.dtype))
        earlier[places[known]] = now[known]
        # Places are those of before the first is put in: the order of users is kept.
        return np.insert(earlier, places[~known], now[~known])

    return CodedUsers(
        users=np.insert(before.users, places[~known], changed.users[~known]),
        codes={
            column: joint(before.codes.get(column, absent), now)
            for column, now in changed.codes.items()
        },
        content=joint(before.content, changed.content),
    )
