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

    from fpmonitor.population.browsers import BrowserGroups
    from fpmonitor.population.snapshot import Snapshot

MIN_CHANCES = 3
MIN_CHANGED = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Volatility:
    """What is known of one API.

    Attributes
    ----------
    groups
        bool, one entry a browser group: whether the API is volatile in these browsers.
    measured
        Whether repeat visits decided for at least one browser family.
    """

    groups: NDArray[np.bool_]
    measured: bool


def volatility_of(snapshot: Snapshot, groups: BrowserGroups) -> dict[str, Volatility]:
    """Find out for every API of a snapshot in which browsers it is volatile.

    An API is volatile in a browser family if at least half of the repeat visits of its users (three
    or more) brought a new value.
    """
    repeats = snapshot.repeats(groups)
    return {api: _volatility(api, groups, repeats.get(api, {})) for api in snapshot.apis}


def _volatility(
    api: str, groups: BrowserGroups, repeats: Mapping[int, tuple[int, int]]
) -> Volatility:
    evidence = {family: weigh_repeats(*counts) for family, counts in repeats.items()}
    decided = {family: verdict for family, verdict in evidence.items() if verdict is not None}
    volatile = np.zeros(len(groups.users), dtype=np.bool_)
    known = volatile_in(api)
    for number, family in enumerate(FAMILIES):
        if number not in decided and family in known:
            volatile |= (groups.family == number) & (groups.version >= known[family])
    for number, is_volatile in decided.items():
        if is_volatile:
            volatile |= groups.family == number
    return Volatility(volatile, bool(decided))


def weigh_repeats(tried: int, changed: int) -> bool | None:
    """Say whether an API is volatile of which repeat visits could bring new values; null: too few.

    Parameters
    ----------
    tried, changed
        Repeat visits of users of one browser family, and those of them that brought a new value.
    """
    return changed >= MIN_CHANGED * tried if tried >= MIN_CHANCES else None
