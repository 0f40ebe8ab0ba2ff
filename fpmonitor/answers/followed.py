"""For how long users can be followed by some APIs: pairs of visits by the time between them.

Three limits for each time: of who looks for the same value (from both sides), of who looks for
parts of it that have not changed, and of any method. Theorems: docs/certificate/followed.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from fpmonitor.estimate.marked import marked_limits
from fpmonitor.population.memory import kinds_of_rows
from fpmonitor.population.pairs import WITHIN, check_came_back, pairs_after, star_source
from fpmonitor.results import Members
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fpmonitor.population.pairs import Pairs
    from fpmonitor.population.population import Population
    from fpmonitor.population.sample import CertifiedSample

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
        days: Times between visits, increasing, fixed before looking.
    """
    whole = sample.question.missing == "drop"
    found = pairs_after(population.visit_rows(apis), apis, days, whole=whole, option="followed")
    check_came_back(found, "followed")
    # Upper limits are three at each time: of the same value, of the same parts, of any method.
    return tuple(_line(population, sample, each, apis, tests=3 * len(days)) for each in found)


def _line(
    population: Population,
    sample: CertifiedSample,
    found: Pairs,
    apis: Sequence[str],
    *,
    tests: int,
) -> FollowedLine:
    before, after = zip(*map(found.codes, apis), strict=True)
    same = np.logical_and.reduce([one == other for one, other in zip(before, after, strict=True)])
    delta, n = sample.question.delta / tests, sample.question.users
    returned = len(found.first)
    any_lower, any_upper, parts, marked = 0.0, 1.0, 1.0, (0.0, 1.0)
    # One user who came back has no group to be hidden in, and no test: limits stay 0 and 1.
    if returned > 1:
        certificate = sample.certificate(apis, delta, linked=True, users=returned)
        groups = kinds_of_rows(before)
        any_lower, any_upper = certificate.of(CountSpectrum.from_counts(np.bincount(groups)))
        stars = star_source(found, apis, population.means, population.snapshot)
        # No method links more than any can: the sharper of two limits that hold.
        parts = min(certificate.of(stars.spectrum(apis))[1], any_upper)
        marked = _of_same(groups, same, population=n, delta=delta)
    return FollowedLine(
        days=found.days,
        within=found.days / WITHIN,
        users=found.users,
        returned=returned,
        kept=float(same.mean()) if returned else 0.0,
        same_lower=marked[0],
        same_upper=min(marked[1], any_upper),
        parts_upper=parts,
        any_lower=any_lower,
        any_upper=any_upper,
    )


def _of_same(
    groups: NDArray[np.intp], same: NDArray[np.bool_], *, population: int, delta: float
) -> tuple[float, float]:
    """Limit what the same value links: groups are of all who came back, marked who kept it."""
    sizes = np.bincount(groups)
    counts = np.unique(sizes)
    # By the size of the group of all, since a site cannot tell who of it kept the value.
    marked = np.bincount(sizes[groups[same]], minlength=int(counts[-1]) + 1)[counts]
    return marked_limits(counts, marked, users=len(groups), population=population, delta=delta)
