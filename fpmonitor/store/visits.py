"""All visits of the users of a snapshot, each with the values that it brought itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fpmonitor.store.snapshot import SnapshotTable, Window, users_of_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.store.database import Database

NO_TIME = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class VisitRows:
    """Visits in the order of users and of time; arrays have an entry for each."""

    rows: NDArray[np.intp]  # intp, not decreasing: row of the user.
    users: NDArray[np.int64]  # int64, number of the user, the same in every window.
    # int64, microseconds of UTC since 1970; `NO_TIME` where the log has none.
    times: NDArray[np.int64]
    # API -> codes, 0 where the visit brought no value.
    codes: Mapping[str, NDArray[np.integer[Any]]]

    def only(self, chosen: NDArray[np.bool_]) -> VisitRows:
        """Return some of the visits, and number the rows of their users anew."""
        _, rows = np.unique(self.rows[chosen], return_inverse=True)
        return VisitRows(
            rows=rows,
            users=self.users[chosen],
            times=self.times[chosen],
            codes={api: codes[chosen] for api, codes in self.codes.items()},
        )

    @property
    def starts(self) -> NDArray[np.intp]:
        """Place of the first visit of each user."""
        return np.flatnonzero(np.diff(self.rows, prepend=-1))


def read_visits(
    database: Database, table: SnapshotTable, window: Window, apis: Sequence[str]
) -> VisitRows:
    """Read the visits of a window; those of one session of a page are one visit.

    Of several values within a session the latest counts, as corrections come late.
    """
    found = database.arrays("snapshot/sessions", **window.bounds)
    ids = np.asarray(found["visit_id"], dtype=np.int64)
    times = np.asarray(found["time"]).astype(np.int64)  # NO_TIME where it is not known
    numbers = users_of_rows(database, window, table.users)
    users = np.asarray(found["user_id"], dtype=np.int64)
    row = np.minimum(np.searchsorted(numbers, users), len(numbers) - 1)
    is_present = numbers[row] == users  # visits that brought nothing leave no row
    order = np.flatnonzero(is_present)[np.lexsort((ids[is_present], times[is_present]))]
    # In the order of time: the lowest place of a session is that of its first visit.
    sessions, place = np.unique(np.asarray(found["session"])[order], return_inverse=True)
    first = np.full(len(sessions), len(order))
    np.minimum.at(first, place, np.arange(len(order)))
    of_session = order[first]
    in_order = np.lexsort((first, row[of_session]))
    codes = {}
    for api in apis:
        api_id = int(table.column_of(api).removeprefix("a"))
        brought = np.zeros(len(ids), dtype=np.int64)
        brought_values = database.arrays(
            "snapshot/observations_of_api", api=api_id, first=int(ids[0]), last=int(ids[-1])
        )
        visit = np.asarray(brought_values["visit_id"], dtype=np.int64)
        at = np.minimum(np.searchsorted(ids, visit), len(ids) - 1)
        inside = ids[at] == visit
        brought[at[inside]] = np.asarray(brought_values["value_id"], dtype=np.int64)[inside]
        by_time = brought[order]
        latest = np.zeros(len(sessions), dtype=np.int64)
        # numpy assigns in order: the last value of a session stays.
        latest[place[by_time > 0]] = by_time[by_time > 0]
        codes[api] = latest[in_order]
    chosen = of_session[in_order]
    return VisitRows(rows=row[chosen], users=users[chosen], times=times[chosen], codes=codes)
