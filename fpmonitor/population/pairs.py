"""Pairs of visits of users who came back after some days, and what has not changed between them.

Of a pair of values the star value is, part by part, the value where it is the same at both times,
else a star. Star values of a set follow from those of a larger one, so an exposure of them grows
with the set as that of users does. Theorems: docs/certificate/followed.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.policy import MOST_DAYS
from fpmonitor.population.browsers import USER_AGENTS, browser_of, system_of
from fpmonitor.population.memory import MemorySource, kinds_of_rows
from fpmonitor.population.visits import with_values
from fpmonitor.store.visits import NO_TIME, VisitRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.population.snapshot import Snapshot

DAY = 86_400  # seconds
WITHIN = 7  # a later visit counts within this part of the time that is asked for
_SECOND = 1_000_000  # microseconds
_SHORTEST = 0.01  # days that are told as a longest time
_STAR = -1  # a part of a value that has changed


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Pairs:
    """Visits of those who came back after some days: the first one and a later one of each.

    Attributes:
        days: Time between both, days; it may differ by a part of it.
        visits: All visits.
        first, later: Places of both visits of each user who came back.
        users: How many there are whose time to come back is over.
    """

    days: float
    visits: VisitRows
    first: NDArray[np.intp]
    later: NDArray[np.intp]
    users: int

    def codes(self, api: str) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]:
        """Codes of an API at both visits."""
        codes = self.visits.codes[api]
        return codes[self.first], codes[self.later]


def pairs_after(
    visits: VisitRows, apis: Sequence[str], days: Iterable[float], *, whole: bool, option: str
) -> list[Pairs]:
    """Pair the first visit of each user with the one nearest to some days after it.

    Args:
        visits: All of the users.
        apis, whole: Those count that brought a value of some of these APIs; or of all.
        days: Times between both.
        option: What asks for it.

    Raises:
        InputError: No visit has a time, or days are less than a second, or too many.
        UndecidableError: The log is shorter than that.
    """
    known = visits.times != NO_TIME
    if not known.any():
        raise InputError(f"{option}: the log has no times", hint="name its column of time")
    last = int(visits.times.max())
    span = (last - int(visits.times[known].min())) / _SECOND / DAY
    visits = with_values(visits.only(known), apis, whole=whole)
    found = []
    for each in days:
        # `not`: of not-a-number no comparison holds, and `round` ends in an error of its own.
        if not 0 < each <= MOST_DAYS:
            raise InputError(f"{option}: must be days from 0 to {MOST_DAYS:,}, got {each!r}")
        lag = round(each * DAY)
        if not lag:  # each visit would come back as itself
            raise InputError(f"{option}: {each:g} days are less than a second")
        first, later, users = pairs(visits, lag, lag // WITHIN, last)
        if not users:
            longest = span * WITHIN / (WITHIN + 1)
            raise UndecidableError(
                f"{option}: the log covers {span:.3g} days, too few to follow anybody for {each:g}",
                hint=f"ask for up to {longest:.2g} days"
                if longest >= _SHORTEST
                else "ask of a longer log",
            )
        found.append(Pairs(days=each, visits=visits, first=first, later=later, users=users))
    return found


def pairs(
    visits: VisitRows, lag: int, within: int, last: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], int]:
    """Pair the first visit of each user with the one nearest to a time after it.

    Args:
        visits: With times.
        lag, within: Time after the first visit, and how far from it another may be, seconds.
        last: Last moment of the log, microseconds: who might still come back counts nowhere.

    Returns:
        Places of the first visits and of the later ones, of those who came back; and how many users
        there are whose time to come back is over.
    """
    starts = visits.starts
    moments = visits.times // _SECOND  # with users in one number of 64 bits
    # Who might still come back would count as one who did not.
    over = starts[moments[starts] + lag + within <= last // _SECOND]
    if not len(over):
        return over, over, 0
    # Users stand further apart than any two moments that are compared.
    step = int(np.ptp(moments)) + lag + 2 * within + 2
    key = visits.rows.astype(np.int64) * step + (moments - moments.min())
    wanted = key[over] + lag
    # 0 for a single visit alone, as each is before what it wants: that one is too early to count.
    after = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    nearest = np.where(
        np.abs(key[after - 1] - wanted) <= np.abs(key[after] - wanted), after - 1, after
    )
    came = (visits.rows[nearest] == visits.rows[over]) & (np.abs(key[nearest] - wanted) <= within)
    return over[came], nearest[came], len(over)


def star_columns(
    found: Pairs, apis: Sequence[str], means: Mapping[str, str], snapshot: Snapshot
) -> list[NDArray[np.intp]]:
    """Return the star value of each API as codes, of each user who came back.

    Args:
        found, apis: The pairs, and the APIs.
        means, snapshot: What the log calls an API, and what its codes stand for.
    """
    return [
        kinds_of_rows(
            [
                np.where(one == other, one.astype(np.int64), _STAR)
                for one, other in _parts(*found.codes(api), api, means, snapshot)
            ]
        )
        for api in apis
    ]


def star_source(
    found: Pairs, apis: Sequence[str], means: Mapping[str, str], snapshot: Snapshot
) -> MemorySource:
    """Return the star values of those who came back, as a source of spectra."""
    check_came_back([found], "after")
    return MemorySource(apis, star_columns(found, apis, means, snapshot))


def check_came_back(found: Sequence[Pairs], option: str) -> None:
    """Check that somebody came back after some of the days.

    Raises:
        UndecidableError: Nobody did; named by the option that asks for them.
    """
    if any(len(each.first) for each in found):
        return
    days = found[0].days
    within = days / WITHIN
    raise UndecidableError(
        f"{option}: nobody came back after {days:g} days ({days - within:.3g} to "
        f"{days + within:.3g})",
        hint=f"ask for other days, or without --{option}",
    )


def _parts(
    one: NDArray[np.integer[Any]],
    other: NDArray[np.integer[Any]],
    api: str,
    means: Mapping[str, str],
    snapshot: Snapshot,
) -> Iterator[tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]]:
    """Yield parts of values at both visits: the API, and of a user agent what it names, too.

    A new version of a browser changes the text, and neither its family nor the system.
    """
    yield one, other
    if means.get(api) not in USER_AGENTS or snapshot.values_are_digested:
        return
    codes = int(max(one.max(initial=0), other.max(initial=0))) + 1
    named = np.zeros((3, codes), dtype=np.int64)
    for code, text in snapshot.texts_of_values(api, codes).items():
        family, version = browser_of(USER_AGENTS[0], text)
        named[:, code] = family, version, system_of(text)
    for part in named:
        yield part[one], part[other]
