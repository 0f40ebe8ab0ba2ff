"""For how long users can be followed by some APIs: pairs of visits by the time between them.

Three limits for each time: of who looks for the same value (from both sides), of who looks for
parts of it that have not changed, and of any method. Theorems: docs/certificate/followed.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fpmonitor.errors import InputError
from fpmonitor.estimate.marked import marked_limits
from fpmonitor.population.browsers import USER_AGENTS, browser_of, system_of
from fpmonitor.population.memory import kinds_of_rows
from fpmonitor.population.visits import with_values
from fpmonitor.results import Members
from fpmonitor.spectrum import CountSpectrum
from fpmonitor.store.visits import NO_TIME, VisitRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from fpmonitor.population.population import Population
    from fpmonitor.population.sample import CertifiedSample

DAY = 86_400  # seconds
_SECOND = 1_000_000  # microseconds
_WITHIN = 7  # a later visit counts within this part of the time that is asked for
_STAR = -1  # a part of a value that has changed
Half = Literal["more", "fewer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedLine(Members):
    """Of n users who come back after some days, the share whose visits can be linked.

    Attributes:
        days, within: Time between the visits, and how far it may differ, days.
        users, returned: Those whose first visit was long enough ago, and those of them who came
            back then.
        kept: Share of the returned whose values were all the same.
        same_lower, same_upper: Limits of what a site links that looks for the same value.
        parts_upper: Limit of what a site links that looks for parts that have not changed,
            whichever these are.
        any_lower, any_upper: Limits of what any method links; the lower one holds as long as values
            stay.
        half: Whether the same value links more than half of those who can be linked at once, or
            fewer; null where that is not known.
    """

    JSON = (
        "days within users returned kept same_lower same_upper parts_upper any_lower any_upper half"
    )

    days: float
    within: float
    users: int
    returned: int
    kept: float
    same_lower: float
    same_upper: float
    parts_upper: float
    any_lower: float
    any_upper: float

    @property
    def half(self) -> Half | None:
        """Compare the same value with any method at once."""
        if self.same_lower > self.any_upper / 2:
            return "more"
        return "fewer" if self.same_upper <= self.any_lower / 2 else None


def report_followed(
    population: Population,
    sample: CertifiedSample,
    apis: Sequence[str],
    days: Sequence[float],
) -> tuple[FollowedLine, ...]:
    """Limit the share of returning users who are linked, for some times between two visits.

    All lower limits hold together, and all upper ones, each with probability `1 - delta`.

    Args:
        population, sample: The users and the question, as they are asked of the set.
        apis: The set.
        days: Times between visits, increasing, fixed before looking.

    Raises:
        InputError: A log without times, or shorter than the time that is asked for.
    """
    visits = population.visit_rows(apis)
    last = int(visits.times.max(initial=NO_TIME))
    if last == NO_TIME:
        raise InputError("followed: the log has no times", hint="name its column of time")
    visits = with_values(visits, apis, whole=sample.question.missing == "drop")
    visits = visits.only(visits.times != NO_TIME)
    return tuple(
        _line(population, sample, visits, apis, each, last=last, tests=2 * len(days))
        for each in days
    )


def _line(
    population: Population,
    sample: CertifiedSample,
    visits: VisitRows,
    apis: Sequence[str],
    days: float,
    *,
    last: int,
    tests: int,
) -> FollowedLine:
    lag = round(days * DAY)
    first, later, users = pairs(visits, lag, lag // _WITHIN, last)
    if not users:
        span = (last - int(visits.times.min())) / _SECOND / DAY
        raise InputError(
            f"followed: the log covers {span:.3g} days, too few to follow anybody for {days:g}",
            hint=f"ask for up to {span * _WITHIN / (_WITHIN + 1):.2g} days",
        )
    before = [visits.codes[api][first] for api in apis]
    after = [visits.codes[api][later] for api in apis]
    same = np.logical_and.reduce([one == other for one, other in zip(before, after, strict=True)])
    delta, n = sample.question.delta / tests, sample.question.users
    any_lower, any_upper, parts, marked = 0.0, 1.0, 1.0, (0.0, 1.0)
    if len(first) > 1:
        certificate = sample.certificate(apis, delta, linked=True, users=len(first))
        groups = kinds_of_rows(before)
        any_lower, any_upper = certificate.of(CountSpectrum.from_counts(np.bincount(groups)))
        stars = [
            np.where(one == other, one, _STAR)
            for one, other in _parts(population, apis, before, after)
        ]
        sizes = np.bincount(kinds_of_rows(stars))
        parts = min(certificate.of(CountSpectrum.from_counts(sizes))[1], any_upper)
        marked = _of_same(groups, same, population=n, delta=delta)
    return FollowedLine(
        days=days,
        within=days / _WITHIN,
        users=users,
        returned=len(first),
        kept=float(same.mean()) if len(first) else 0.0,
        same_lower=marked[0],
        same_upper=min(marked[1], any_upper),
        parts_upper=parts,
        any_lower=any_lower,
        any_upper=any_upper,
    )


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
    over = starts[moments[starts] + lag + within <= last // _SECOND]
    if not len(over):
        return over, over, 0
    step = int(np.ptp(moments)) + lag + 2 * within + 2
    key = visits.rows.astype(np.int64) * step + (moments - moments.min())
    wanted = key[over] + lag
    after = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    nearest = np.where(
        np.abs(key[after - 1] - wanted) <= np.abs(key[after] - wanted), after - 1, after
    )
    came = (visits.rows[nearest] == visits.rows[over]) & (np.abs(key[nearest] - wanted) <= within)
    return over[came], nearest[came], len(over)


def _parts(
    population: Population,
    apis: Sequence[str],
    before: Sequence[NDArray[np.integer[Any]]],
    after: Sequence[NDArray[np.integer[Any]]],
) -> Iterator[tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]]:
    """Yield parts of values at both visits: each API, and of a user agent what it names, too.

    A new version of a browser changes the text, and neither its family nor the system.
    """
    for api, one, other in zip(apis, before, after, strict=True):
        yield one, other
        if population.means.get(api) not in USER_AGENTS or population.snapshot.values_are_digested:
            continue
        named = np.zeros((3, int(max(one.max(), other.max())) + 1), dtype=np.int64)
        for code, (status, text) in population.snapshot.values(api).items():
            if status == "value" and text is not None and code < named.shape[1]:
                family, version = browser_of(USER_AGENTS[0], text)
                named[:, code] = family, version, system_of(text)
        for part in named:
            yield part[one], part[other]


def _of_same(
    groups: NDArray[np.intp], same: NDArray[np.bool_], *, population: int, delta: float
) -> tuple[float, float]:
    """Limit what the same value links: groups are of all who came back, marked who kept it."""
    sizes = np.bincount(groups)
    counts = np.unique(sizes)
    marked = np.bincount(sizes[groups[same]], minlength=int(counts[-1]) + 1)[counts]
    return marked_limits(counts, marked, users=len(groups), population=population, delta=delta)
