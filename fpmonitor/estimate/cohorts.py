"""Exposure among the users that share what cannot be hidden from a site: a cohort.

A site that sees the values of some APIs anyway, `X`, tells a user apart by `X` and `J` together. A
user of cohort `c`, the value of `X`, is exposed by `J` when fewer than `k` users of the population
share both its cohort and its value of `J`:

    Q_c(n, k) = sum_v p_cv F(p_cv) / P(X = c),    sum_c P(X = c) Q_c(n, k) = Q(n, k) of J and X,

with `F` of Definition 7 of "Statistical anonymity". All limits here hold for all cohorts together,
whatever their number, seen or not. Derivation: docs/theory.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import scipy

from fpmonitor.errors import InputError
from fpmonitor.estimate.certificate import THINNING_SHARE
from fpmonitor.estimate.criterion import score
from fpmonitor.estimate.exposure import subsample_exposure_probability
from fpmonitor.policy import check_share, check_threshold

if TYPE_CHECKING:
    from collections.abc import Callable

    from fpmonitor.estimate.certificate import Certificate
    from fpmonitor.estimate.chernoff import TailBound
    from fpmonitor.spectrum import CountSpectrum

SHARE_LIMITS_SHARE = 0.1  # of delta, spent on the shares of the cohorts
_BISECTIONS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortLimits:
    """Confidence limits for one cohort; all upper limits of all cohorts hold together.

    Attributes
    ----------
    share_lower, share_upper
        Limits of the cohort's share of the population.
    lower, upper
        Limits of its exposure `Q_c(n, k)`, a share of the cohort.
    """

    share_lower: float
    share_upper: float
    lower: float
    upper: float


def cohort_limits(
    certificate: Certificate, thinned: CountSpectrum | None, *, seen: int
) -> CohortLimits:
    """Limits of the exposure of one cohort.

    With probability at least `1 - delta` no upper limit of any cohort is below its exposure, and
    with probability at least `1 - delta` no lower limit of any cohort is above it.

    Parameters
    ----------
    certificate
        Made for all observed users, not for the cohort.
    thinned
        Count spectrum of the cohort's users that the thinning of all users keeps; None if it keeps
        none.
    seen
        Observed users of the cohort, before thinning.

    Raises
    ------
    InputError
        More thinned users than observed ones, or more of them than the certificate is for.

    Notes
    -----
    Jensen's inequality within the cohort turns the theorem of docs/certificate.md into
    `ln E exp(-S_c) <= P(c) W(Q_c)`: the limit of a sample whose mean size is `mu P(c)`. Its error
    probability is `P(c)` times a share of delta, which sums to that share over any number of
    cohorts. `P(c)` is not known, and the limits of `share_limits` take its place.
    """
    if seen > certificate.users or (thinned is not None and thinned.users > seen):
        raise InputError(f"cohort: {seen} users seen do not fit the thinned or all users")
    share_lower, share_upper = share_limits(
        seen, certificate.users, certificate.delta * SHARE_LIMITS_SHARE / 2
    )
    if share_lower == 0:
        return CohortLimits(share_lower=0.0, share_upper=share_upper, lower=0.0, upper=1.0)
    tails = 1 - THINNING_SHARE - SHARE_LIMITS_SHARE
    log_term = -math.log(tails * certificate.delta * share_lower)
    upper = _limit(certificate.from_above, thinned, share_lower, log_term)
    lower = _limit(certificate.from_below, thinned, share_upper, log_term)
    return CohortLimits(
        share_lower=share_lower, share_upper=share_upper, lower=min(lower, upper), upper=upper
    )


def cohort_exposure(
    spectrum: CountSpectrum, *, k: int, population: int, users: int
) -> float | None:
    """Estimate of the exposure of one cohort, or None for a population above the sample.

    The cohort's part of the unbiased estimate for all users, divided by its observed share. For
    `n = m` the observed share of its users that are in groups of fewer than `k`.

    Parameters
    ----------
    spectrum
        Count spectrum of the cohort's observed users.
    k, population
        Anonymity threshold and `n`, users of the whole population.
    users
        `m`, observed users of all cohorts.

    Raises
    ------
    InputError
        The cohort has more users than there are.
    PolicyError
        `k` or `population` is out of its range.
    """
    check_threshold(k, population)
    if spectrum.users > users:
        raise InputError(f"cohort: {spectrum.users} users of {users}")
    if population > users:
        return None
    exposed = subsample_exposure_probability(
        spectrum.counts, k=k, population=population, users=users
    )
    return min(float(exposed @ (spectrum.counts * spectrum.values)) / spectrum.users, 1.0)


def share_limits(seen: int, users: int, delta: float) -> tuple[float, float]:
    """Limits of the share of a cohort, each wrong with probability at most `delta` times the share.

    So all lower limits of any number of cohorts hold together with probability `1 - delta`, and
    all upper limits.

    Parameters
    ----------
    seen, users
        Observed users of the cohort, and of all cohorts.
    delta
        In (0, 1).

    Raises
    ------
    InputError
        More users seen than there are.
    PolicyError
        `delta` outside (0, 1).

    Notes
    -----
    Clopper and Pearson (1934) with the error probability `delta p` at the share `p` in place of a
    constant: the rejected numbers of users stay a half-line for every `p`.
    """
    check_share("delta", delta)
    if not 0 <= seen <= users:
        raise InputError(f"cohort: {seen} users seen of {users}")
    observed = seen / users
    lower, upper = 0.0, 1.0
    if seen >= 2:  # one user proves nothing at an error probability that falls with the share
        lower, _ = _bisect(
            lambda p: float(scipy.special.betainc(seen, users - seen + 1, p)) > delta * p,
            1e-300,
            observed,
        )
    if seen < users:
        _, upper = _bisect(
            lambda p: float(scipy.special.betaincc(seen + 1, users - seen, p)) <= delta * p,
            max(observed, 1e-300),
            1.0,
        )
    return (lower if lower > 1e-290 else 0.0), upper


def _bisect(above: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Points, close to each other, below and above which a condition begins to hold."""
    for _ in range(_BISECTIONS):
        middle = math.sqrt(low * high)
        if above(middle):
            high = middle
        else:
            low = middle
    return low, high


def _limit(bound: TailBound, thinned: CountSpectrum | None, share: float, log_term: float) -> float:
    points = 0.0 if thinned is None else score(bound.weights, thinned)
    return replace(bound, mean=bound.mean * share).limit(points, log_term)
