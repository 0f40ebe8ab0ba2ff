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

from fpmonitor.population.snapshot import Repeats, Returned, Snapshot
from fpmonitor.vocabulary import FAMILIES, certain_meaning, randomised_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from fpmonitor.population.browsers import BrowserGroups
    from fpmonitor.population.views import View

MIN_KEPT = 3  # users
Versions = tuple[str, int, int | None]  # a family, its first and last version; null: it goes on


@dataclass(frozen=True, slots=True, eq=False)
class Volatility:
    """In which browsers an API is volatile."""

    groups: NDArray[np.bool_]  # bool, one entry a browser group.
    # The families with their first and last version, null where it goes on.
    versions: tuple[Versions, ...]


def volatility_of(snapshot: Snapshot, groups: BrowserGroups) -> dict[str, Volatility]:
    """Find the APIs that browsers of the users randomise by design, and that no data contradict.

    Only a column that bears the name of such an API, or was said to hold it, counts as one.
    Users of an unknown browser or version, or whose values contradict each other on their engine or
    system, are in none of the groups.
    """
    seen = _randomised_here(snapshot, groups)
    repeats: Repeats = snapshot.repeats(groups) if seen else {}
    found: dict[str, Volatility] = {}
    for (api, version), inside in seen.items():
        if _is_contradicted(repeats, api, version):
            continue
        known = found.get(api, Volatility(np.zeros_like(inside), ()))
        found[api] = Volatility(known.groups | inside, (*known.versions, version))
    return found


def may_be_contradicted(snapshot: Snapshot, groups: BrowserGroups) -> bool:
    """Whether who came back makes a difference: users have browsers that randomise an API."""
    return bool(_randomised_here(snapshot, groups))


def contradicted(
    repeats: Repeats, apis: Iterable[str], said: Mapping[str, str]
) -> tuple[tuple[str, Versions], ...]:
    """Return which of some APIs count as they were logged, and in which browsers, sorted."""
    return tuple(
        (api, version)
        for api in sorted(apis)
        for version in _randomising(api, said)
        if _is_contradicted(repeats, api, version)
    )


def _randomising(api: str, said: Mapping[str, str]) -> list[Versions]:
    """List the browsers that randomise what a column is certain to hold."""
    families = randomised_in(certain_meaning(api, said))
    return [(family, entry.since, entry.until) for family, entry in families.items()]


def _randomised_here(
    snapshot: Snapshot, groups: BrowserGroups
) -> dict[tuple[str, Versions], NDArray[np.bool_]]:
    """Browser groups with users, of each API and the browsers that randomise it."""
    found = {}
    for api in snapshot.apis:
        for family, since, until in _randomising(api, snapshot.said):
            inside = (groups.family == FAMILIES.index(family)) & (groups.version >= since)
            # Who claims to be another browser need not randomise as that one does.
            inside &= groups.consistent
            if until is not None:
                inside &= groups.version <= until
            if inside.any():
                found[api, (family, since, until)] = inside
    return found


def _is_contradicted(repeats: Repeats, api: str, versions: Versions) -> bool:
    family, since, until = versions
    kept_users = sum(
        returned.kept
        for (of, version), returned in repeats.get(api, {}).items()
        if of == FAMILIES.index(family) and since <= version and (until is None or version <= until)
    )
    return kept_users >= MIN_KEPT


def may_be_masked(apis: Iterable[str], view: View, said: Mapping[str, str]) -> bool:
    """Whether a view masks values of some of the APIs unless data contradict it."""
    return view.volatile != "raw" and may_be_volatile(apis, said)


def may_be_volatile(apis: Iterable[str], said: Mapping[str, str]) -> bool:
    """Whether some browser randomises one of the APIs."""
    return any(randomised_in(certain_meaning(api, said)) for api in apis)


def returned_with(repeats: Repeats) -> Mapping[str, Returned]:
    """Users of any browser who came back with each API."""
    return {api: sum(parts.values(), Returned()) for api, parts in repeats.items()}
