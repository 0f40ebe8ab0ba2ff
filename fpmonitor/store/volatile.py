"""Volatile APIs: their value changes between visits of one user by design, so that it names nobody.

Repeat visits decide where there are enough of them, the vocabulary elsewhere. Where neither knows,
values count as they are: that overstates the exposure of a randomised API, which is the safe side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.vocabulary import FAMILIES, volatile_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from fpmonitor.store.browsers import Browsers
    from fpmonitor.store.database import Database
    from fpmonitor.store.snapshot import Snapshot, Window

MIN_CHANCES = 3
MIN_CHANGED = 0.5


@dataclass(frozen=True, slots=True)
class Volatility:
    """What is known of one API.

    Attributes
    ----------
    rows
        bool, one entry a row of the snapshot: whether the API is volatile in that user's browser.
    measured
        Whether repeat visits decided for at least one browser family.
    """

    rows: NDArray[np.bool_]
    measured: bool

    @property
    def verdict(self) -> bool | None:
        """Whether it is volatile for some user; null when nothing is known of it."""
        if self.rows.any():
            return True
        return False if self.measured else None


def read_volatility(
    database: Database, snapshot: Snapshot, browsers: Browsers, window: Window
) -> dict[str, Volatility]:
    """Find out for every API of a snapshot in which users' browsers it is volatile.

    An API is volatile in a browser family if at least half of the repeat visits of its users (three
    or more) brought a new value.

    Parameters
    ----------
    database, snapshot, window
        The snapshot, and the window that it was taken of.
    browsers
        Browser of each of its rows.
    """
    evidence = _evidence(database, snapshot, browsers, window)
    return {api: volatility_of(api, browsers, evidence.get(api, {})) for api in snapshot.apis}


def volatility_of(api: str, browsers: Browsers, evidence: Mapping[int, bool]) -> Volatility:
    """Find out in which browsers one API is volatile.

    Parameters
    ----------
    browsers
        Browsers to tell it of, one each entry.
    evidence
        Browser family -> what repeat visits say, where they say something; see `weigh_repeats`.
    """
    rows = np.zeros(len(browsers.family), dtype=np.bool_)
    known = volatile_in(api)
    for number, family in enumerate(FAMILIES):
        if number not in evidence and family in known:
            rows |= (browsers.family == number) & (browsers.version >= known[family])
    for number, is_volatile in evidence.items():
        if is_volatile:
            rows |= browsers.family == number
    return Volatility(rows, bool(evidence))


def _evidence(
    database: Database, snapshot: Snapshot, browsers: Browsers, window: Window
) -> dict[str, dict[int, bool]]:
    """Tell from repeat visits: API -> browser family -> whether it is volatile."""
    if snapshot.visits == snapshot.users:
        return {}
    repeats = database.arrays("snapshot/repeats", **window.bounds)
    users = np.unique(np.asarray(database.arrays("snapshot/visits", **window.bounds)["user_id"]))
    if len(users) != snapshot.users:  # visits that brought nothing leave no row
        users = np.asarray(database.arrays("snapshot/observed_users", **window.bounds)["user_id"])
    families = browsers.family[np.searchsorted(users, np.asarray(repeats["user_id"]))]
    chances = np.asarray(repeats["visits"], dtype=np.int64) - 1
    changes = np.minimum(np.asarray(repeats["values"], dtype=np.int64) - 1, chances)
    api_ids = np.asarray(repeats["api_id"])
    evidence: dict[str, dict[int, bool]] = {}
    for api, column in snapshot.columns.items():
        of_api = api_ids == int(column.removeprefix("a"))
        for number in np.unique(families[of_api]):
            inside = of_api & (families == number)
            tried, changed = int(chances[inside].sum()), int(changes[inside].sum())
            verdict = weigh_repeats(tried, changed)
            if verdict is not None:
                evidence.setdefault(api, {})[int(number)] = verdict
    return evidence


def weigh_repeats(tried: int, changed: int) -> bool | None:
    """Say whether an API is volatile of which repeat visits could bring new values; null: too few.

    Parameters
    ----------
    tried, changed
        Repeat visits of users of one browser family, and those of them that brought a new value.
    """
    return changed >= MIN_CHANGED * tried if tried >= MIN_CHANCES else None
