"""Exposure among the users that share what cannot be hidden from a site: a cohort.

A site that sees the values of some APIs anyway, `X`, tells a user apart by `X` and `J` together. A
user of cohort `c`, the value of `X`, is exposed by `J` when fewer than `k` users of the population
share both its cohort and its value of `J`:

    Q_c(n, k) = sum_v p_cv F(p_cv) / P(X = c),    sum_c P(X = c) Q_c(n, k) = Q(n, k) of J and X,

with `F` of Definition 7 of "Statistical anonymity". All limits here hold for all cohorts together,
whatever their number, seen or not, and at every look. Proofs: docs/certificate.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import scipy

from fpmonitor.errors import InputError
from fpmonitor.estimate.bounds import Interval
from fpmonitor.estimate.exposure import subsample_exposure_probability
from fpmonitor.policy import check_share, check_threshold

if TYPE_CHECKING:
    from fpmonitor.estimate.limits import Limits
    from fpmonitor.spectrum import CountSpectrum

SHARE_LIMITS_SHARE = 0.1  # of delta, spent on the shares of the cohorts
_BISECTIONS = 80
_SMALLEST = 1e-300


def cohort_limits(
    limits: Limits, spectrum: CountSpectrum, size: int = 1, *, hidden: int = 0
) -> Interval:
    """Limits of the exposure of one cohort, a share of it.

    With probability at least `1 - delta` no upper limit of any cohort is ever below its exposure,
    and with probability at least `1 - delta` no lower limit of any cohort is ever above it.

    Args:
        limits: Made for all observed users, not for the cohort.
        spectrum: Count spectrum of the cohort's observed users.
        size, hidden: As in `Limits.of`: the APIs that were chosen, without those that make the
            cohorts.

    Notes:
        Jensen's inequality within the cohort gives `ln E exp(sign S_c) <= P(c) W(Q_c)`. The error
        probability of its limits is `P(c)` times a share of delta, which sums to that share over
        any number of cohorts. `P(c)` is not known, and the limits of `share_limits` take its place.
    """
    low, high = share_limits(spectrum.users, limits.users, limits.delta * SHARE_LIMITS_SHARE)
    if low == 0:
        return Interval(lower=0.0, upper=1.0)
    log_term = limits.log_term(size, 1 - SHARE_LIMITS_SHARE)
    lower, upper = limits.of_part(spectrum, log_term, (low, high), hidden=hidden)
    return Interval(lower=lower, upper=upper)


def cohort_exposure(
    spectrum: CountSpectrum, *, k: int, population: int, users: int
) -> float | None:
    """Estimate of the exposure of one cohort, or None for a population above the sample.

    The cohort's part of the unbiased estimate for all users, divided by its observed share. For
    `n = m` the observed share of its users that are in groups of fewer than `k`.

    Args:
        spectrum: Of the cohort's observed users.
        k, population: Anonymity threshold and `n`, users of the whole population.
        users: `m`, observed users of all cohorts.

    Raises:
        InputError: The cohort has more users than there are.
    """
    check_threshold(k, population)
    if spectrum.users > users:
        raise InputError(f"cohort: {spectrum.users} users of {users}")
    if population > users:
        return None
    exposed = subsample_exposure_probability(
        spectrum.counts, k=k, population=population, users=users
    )
    return min(float(exposed @ spectrum.members) / spectrum.users, 1.0)


def share_limits(seen: int, users: int, delta: float) -> tuple[float, float]:
    """Limits of the share of a cohort, ever wrong with probability at most `delta` times the share.

    So the limits of any number of cohorts hold together, while users come in, with probability
    `1 - delta`.

    Args:
        seen, users: Observed users of the cohort, and of all cohorts.

    Raises:
        InputError: More users seen than there are.

    Notes:
        The likelihood of a beta mixture of shares, divided by that of the true share `p`, is a
        martingale: it ever reaches `1 / (delta p)` with probability at most `delta p` (Ville 1939,
        Robbins 1970). The shares at which it has not are an interval, as the condition is concave.
    """
    check_share("delta", delta)
    if not 0 <= seen <= users:
        raise InputError(f"cohort: {seen} users seen of {users}")
    # (S - 1) ln P + (m - S) ln(1 - P) > const of docs/certificate/cohorts.md; B(1/2, 1/2) is pi.
    least = float(
        scipy.special.betaln(seen + 0.5, users - seen + 0.5) - math.log(math.pi)
    ) + math.log(delta)
    least -= 1e-9 * abs(least)  # rounding

    def possible(share: float) -> bool:
        likelihood = (seen - 1) * math.log(share) + scipy.special.xlog1py(users - seen, -share)
        return bool(likelihood > least)

    # The observed share is possible, so each limit lies between it and one end.
    observed = max(seen / users, _SMALLEST)
    lower, upper = 0.0, 1.0
    if seen >= 2:  # one user proves nothing at an error probability that falls with the share
        low, high = _SMALLEST, observed
        for _ in range(_BISECTIONS):
            # By halves of the logarithm: shares of 1e-9 need as many digits as those of a half.
            middle = math.sqrt(low * high)
            low, high = (low, middle) if possible(middle) else (middle, high)
        # The end that is ruled out, as is `upper`: an interval is never too narrow.
        lower = low
    if seen < users:
        low, high = observed, 1.0
        for _ in range(_BISECTIONS):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if possible(middle) else (low, middle)
        upper = high
    return lower, upper
