"""Privacy under partial knowledge for a distribution that is estimated from users."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

from fpmonitor.ldp.frequency import clopper_pearson
from fpmonitor.policy import check_share
from fpmonitor.release.partial_knowledge import (
    HistogramGuarantee,
    histogram_guarantee,
    split_guarantee,
)

if TYPE_CHECKING:
    from fpmonitor.spectrum import CountSpectrum

_MAX_SPLITS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedGuarantee:
    """Delta of a truncated histogram, by shares of users and by their limits."""

    users: int  # Users that the distribution was estimated from.
    # values, absent: Distinct values seen; users without a value.
    values: int
    absent: int
    epsilon: float  # Nats.
    estimated: HistogramGuarantee  # Guarantee if the distribution were the shares of the users.
    certified: HistogramGuarantee  # Guarantee of every distribution that the users leave possible.
    # Probability at least with which the distribution is one of these, if the users are independent
    # draws.
    confidence: float


def estimated_guarantee(
    spectrum: CountSpectrum,
    absent: int,
    *,
    release_users: int,
    k: int,
    epsilon: float,
    known: int = 0,
    alpha: float = 0.05,
) -> EstimatedGuarantee:
    """Guarantee of the truncated histogram of a distribution that only a sample tells.

    Args:
        spectrum: Users with each value.
        absent: Users without a value.
        release_users, k, epsilon, known: As `users` and others in
            `partial_knowledge.split_guarantee`.
        alpha: Tolerated probability that the distribution is not within the limits, in (0, 1).

    Notes:
        Partial knowledge, Theorem 5, takes the distribution as known. Here each split takes the
        lower limits of the common values and of absent, and the upper limits of the rare ones and
        of any value that nobody had: Clopper-Pearson limits and `unseen_limit`, together wrong with
        probability `alpha`.

        Half of `alpha` limits the probability of all values but the `r` most frequent, for every
        `r` at `alpha / (2 r (r + 1))`: the `r` values that most users have are at most as probable
        as the `r` most probable ones, and at least as many users have them.
    """
    check_share("alpha", alpha)
    users = spectrum.users + absent
    shares = np.repeat(spectrum.counts / users, spectrum.values)
    return EstimatedGuarantee(
        users=users,
        values=spectrum.support,
        absent=absent,
        epsilon=epsilon,
        estimated=histogram_guarantee(release_users, shares, k=k, epsilon=epsilon, known=known),
        certified=_certified(
            spectrum, absent, release_users, k=k, epsilon=epsilon, known=known, alpha=alpha
        ),
        confidence=1 - alpha,
    )


def _certified(
    spectrum: CountSpectrum,
    absent: int,
    release_users: int,
    *,
    k: int,
    epsilon: float,
    known: int,
    alpha: float,
) -> HistogramGuarantee:
    users = spectrum.users + absent
    # Two limits of each value and of absent, and one of the values that nobody had.
    each = alpha / 2 / (2 * (spectrum.support + 1) + 1)
    counts = spectrum.counts
    lowest, highest = clopper_pearson(counts, users, each)
    unseen = unseen_limit(users, each)
    least_absent = float(clopper_pearson(np.array([absent]), users, each)[0][0])
    rare = max(float(highest[-1]), unseen)
    best = split_guarantee(release_users, common=None, rare=rare, k=k, epsilon=epsilon, known=known)
    for place in np.unique(np.linspace(0, counts.size - 1, _MAX_SPLITS).astype(int)):
        hidden = _mass_below(spectrum, int(place), users, alpha / 2)
        for suppressed, least in ((False, least_absent), (True, hidden)):
            split = split_guarantee(
                release_users,
                common=min(float(lowest[place]), least),
                # Values that nobody had are rare ones.
                rare=max(float(highest[place - 1]), unseen) if place else unseen,
                k=k,
                epsilon=epsilon,
                known=known,
                suppressed=suppressed,
            )
            best = min(best, split, key=lambda one: one.delta)
    return best


def _mass_below(spectrum: CountSpectrum, place: int, users: int, alpha: float) -> float:
    """Lower limit of the probability of absent and all values but those of counts from a place."""
    values = int(spectrum.values[place:].sum())
    common = int(spectrum.counts[place:] @ spectrum.values[place:])
    if common == users:
        return 0.0
    level = alpha / (values * (values + 1))
    return 1 - float(scipy.special.betaincinv(common + 1, users - common, 1 - level))


def unseen_limit(users: int, alpha: float) -> float:
    """Probability that no value which nobody had exceeds, but with probability `alpha`.

    There are at most `1/p` values of probability `p` or more, and each is missed by all users with
    probability `(1 - p)^users` at most: the limit solves `(1 - p)^users / p = alpha`.
    """

    def excess(logarithm: float) -> float:
        return users * math.log1p(-math.exp(logarithm)) - logarithm - math.log(alpha)

    return math.exp(float(scipy.optimize.brentq(excess, math.log(1e-300), math.log1p(-1e-12))))
