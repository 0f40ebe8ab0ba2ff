"""Volatile APIs: a browser draws their value anew in each session by design, so it names nobody.

The vocabulary alone says which: an API, a browser family and its versions. Data can only contradict
it: where some users of these versions came back with the value that they had, the API counts there
as it was logged. That makes groups smaller and exposures larger, never the other way round, and no
visit of other users takes it back. Values that change for another reason, as user agents do with
every release, count as they are: each user has one at a time, and may be alone with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.population.snapshot import Returned
from fpmonitor.vocabulary import FAMILIES, certain_meaning, randomised_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from fpmonitor.population.browsers import BrowserGroups
    from fpmonitor.population.snapshot import Repeats, Snapshot
    from fpmonitor.population.views import View

MIN_KEPT = 3  # users


@dataclass(frozen=True, slots=True, eq=False)
class Volatility:
    """In which browsers an API is volatile.

    Attributes
    ----------
    groups
        bool, one entry a browser group.
    versions
        The families with their first and last version, null where it goes on.
    """

    groups: NDArray[np.bool_]
    versions: tuple[tuple[str, int, int | None], ...]


def volatility_of(snapshot: Snapshot, groups: BrowserGroups) -> dict[str, Volatility]:
    """Find the APIs that browsers of the users randomise by design, and that no data contradict.

    Only a column that bears the name of such an API, or was said to hold it, counts as one.
    Users of an unknown browser or version, or whose values contradict each other on their engine or
    system, are in none of the groups.
    """
    said = snapshot.said
    known = {
        api: families
        for api in snapshot.apis
        if (families := randomised_in(certain_meaning(api, said)))
    }
    repeats: Repeats = snapshot.repeats(groups) if known else {}
    trusted = groups.consistent
    found = {}
    for api, families in known.items():
        volatile = np.zeros(len(groups.users), dtype=np.bool_)
        versions = []
        for family, entry in families.items():
            number, since, until = FAMILIES.index(family), entry.since, entry.until
            inside = (groups.family == number) & (groups.version >= since) & trusted
            if until is not None:
                inside &= groups.version <= until
            kept = sum(
                returned.kept
                for (of, version), returned in repeats.get(api, {}).items()
                if of == number and since <= version and (until is None or version <= until)
            )
            if inside.any() and kept < MIN_KEPT:
                volatile |= inside
                versions.append((family, since, until))
        if versions:
            found[api] = Volatility(volatile, tuple(versions))
    return found


def may_be_masked(apis: Iterable[str], view: View, said: Mapping[str, str]) -> bool:
    """Whether a view masks values of some of the APIs unless data contradict it."""
    return view.volatile != "raw" and any(randomised_in(certain_meaning(api, said)) for api in apis)


def returned_with(repeats: Repeats) -> Mapping[str, Returned]:
    """Users of any browser who came back with each API."""
    return {api: sum(parts.values(), Returned()) for api, parts in repeats.items()}
