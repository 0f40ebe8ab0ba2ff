"""The Poisson certificate: finite-sample confidence limits of statistical exposure.

The limits need no support size, no prior and no large-sample approximation, and hold for
populations below, at and above the number of observed users. Users must be independent draws from
the population. Theorem, proof and measurements: docs/certificate.md.

All spectra here are of *thinned* users: see `thinning`, with the `mean` of the certificate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.errors import InputError, PolicyError
from fpmonitor.estimate.chernoff import TailBound, sharpest_bound
from fpmonitor.estimate.criterion import Criterion, score
from fpmonitor.estimate.poisson import PoissonLaws, poisson_laws, useful_mean
from fpmonitor.estimate.realised import average_budgets
from fpmonitor.estimate.thinning import thinning_mean
from fpmonitor.policy import check_share, check_threshold

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.spectrum import CountSpectrum

THINNING_SHARE = 0.1  # of delta, spent on the thinning
_ROUNDING = 1e-9
_LEAST_SHARPNESS = 0.01  # of the budget; what certifies less is of no use


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Certificate:
    """Confidence limits of the statistical exposure `Q(n, k)` of one API set.

    Each of the two limits is wrong with probability at most `delta`, the thinning included.

    Attributes
    ----------
    users
        `m`, observed users before thinning.
    mean
        Mean of the number of users that thinning keeps.
    delta
        Tolerated probability of error, for each limit.
    from_above, from_below
        The tail bounds that the limits come from.
    """

    users: int
    mean: float
    delta: float
    from_above: TailBound
    from_below: TailBound

    def upper(self, spectrum: CountSpectrum) -> float:
        """Upper limit of the exposure, a share in [0, 1], from the thinned spectrum.

        Raises
        ------
        InputError
            The spectrum has more users than were observed.
        """
        return self._limit(self.from_above, spectrum)

    def lower(self, spectrum: CountSpectrum) -> float:
        """Lower limit of the exposure, a share in [0, 1], from the thinned spectrum.

        Raises
        ------
        InputError
            The spectrum has more users than were observed.
        """
        return min(self._limit(self.from_below, spectrum), self.upper(spectrum))

    def _limit(self, bound: TailBound, spectrum: CountSpectrum) -> float:
        if spectrum.users > self.users:
            raise InputError(
                f"spectrum: has {spectrum.users} users, the certificate is for {self.users}"
            )
        return bound.limit(score(bound.weights, spectrum), _log_term(self.delta))


def certificate(
    *, users: int, k: int, population: int, delta: float, budget: float = 0.05
) -> Certificate:
    """Certificate for one API set, fixed before the data are seen.

    Parameters
    ----------
    users
        `m`, observed users, at least 2.
    k, population
        Anonymity threshold and `n`, users.
    delta
        Tolerated probability of error of each limit, in (0, 1).
    budget
        Exposure near which the limits are sharpest, in (0, 1). They hold everywhere.

    Raises
    ------
    PolicyError
        An argument is out of its range; the error names it.
    """
    laws = _laws(users, k, population, budget, delta)
    log_term = _log_term(delta)
    return Certificate(
        users=users,
        mean=laws.mean,
        delta=delta,
        from_above=sharpest_bound(laws, sign=-1, budget=budget, log_term=log_term),
        from_below=sharpest_bound(laws, sign=1, budget=budget, log_term=log_term, monotone=False),
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Criteria:
    """Tests of all subsets of the candidates together, on spectra of thinned users.

    With probability at least `1 - delta` no set that `allow` holds for is above the budget; with
    probability at least `1 - delta` no set that `block` does not hold for is within it.

    Attributes
    ----------
    mean
        Mean of the number of users that thinning keeps.
    allow
        A set is certified within the budget when its score is at most the limit of its size.
    block
        A set is certified above the budget when its score exceeds the limit of its size.
    """

    mean: float
    allow: Criterion
    block: Criterion


def decision_criteria(
    *,
    users: int,
    k: int,
    population: int,
    budget: float,
    delta: float,
    candidates: int,
    realised: bool = False,
) -> Criteria:
    """Criteria that certify all subsets of the candidates within or above the budget at once.

    The empty set, which one value of all users describes, is always allowed.

    Parameters
    ----------
    users
        `m`, observed users, at least 2.
    k, population
        Anonymity threshold and `n`, users.
    budget
        `Q*`, the largest tolerated exposure, in (0, 1).
    delta
        Tolerated probability that any allowed set is above the budget; and of the same size,
        that any blocked set is within it; in (0, 1).
    candidates
        `d`, number of APIs that the sets are taken from, at least 1.
    realised
        Whether allowing is about the share of exposed users of one population, and not about its
        expectation; half of delta is then spent on the population. Blocking is as it was.

    Raises
    ------
    PolicyError
        An argument is out of its range; the error names it.

    Notes
    -----
    An allowed set above the budget has a subset that is minimal among the sets above the budget,
    and is allowed too. Those minimal sets form an antichain, so by the inequality of Lubell (1966),
    Yamamoto and Meshalkin their `1 / C(d, size)` add up to at most 1: it suffices to test a set
    at `delta / C(d, size)`. The limits must not increase with the size, so the largest binomial
    coefficient up to the size stands there. Blocking is the mirror image.
    """
    if candidates < 1:
        raise PolicyError("candidates", f"must be at least one API, got {candidates}")
    _check(k, population, budget, delta)
    allow_terms, block_terms = _terms_by_size(delta, candidates)
    budgets = np.full(candidates + 1, budget)
    if realised:
        allow_terms += math.log(2)
        budgets = averages_by_size(
            k=k, population=population, budget=budget, delta=delta, candidates=candidates
        )
    sharpest = max(float(budgets[-1]), _LEAST_SHARPNESS * budget)
    laws = _laws(users, k, population, sharpest, delta)
    above = sharpest_bound(laws, sign=-1, budget=sharpest, log_term=allow_terms[-1])
    below = sharpest_bound(laws, sign=1, budget=budget, log_term=block_terms[0])
    if realised:
        critical = np.array(
            [above.critical_scores(*pair) for pair in zip(budgets, allow_terms, strict=True)]
        )
    else:
        critical = above.critical_scores(budget, allow_terms)
    allow_limits = np.minimum.accumulate(critical) * (1 - _ROUNDING)
    block_limits = below.critical_scores(budget, block_terms) * (1 + _ROUNDING)
    block_limits[block_limits > laws.mean] = users  # only too many kept users would exceed them
    return Criteria(
        mean=laws.mean,
        allow=Criterion(above.weights, _always_for_empty_set(allow_limits, users)),
        block=Criterion(below.weights, _always_for_empty_set(block_limits, users)),
    )


def averages_by_size(
    *, k: int, population: int, budget: float, delta: float, candidates: int
) -> NDArray[np.float64]:
    """Exposure that a set of each size may have, so that no realised share exceeds the budget.

    Shares, shape (candidates + 1,), not increasing. Parameters as of `decision_criteria`: with
    probability at least `1 - delta / 2` this holds for all sets of such exposures together.
    """
    terms, _ = _terms_by_size(delta, candidates)
    return average_budgets(k=k, population=population, budget=budget, log_terms=terms + math.log(2))


def _terms_by_size(
    delta: float, candidates: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`ln(1 / level)` of each size of set, to allow and to block."""
    middle, sizes = candidates // 2, range(candidates + 1)
    allow, block = (
        np.array([_log_term(delta) + _log_choose(candidates, size) for size in tested])
        for tested in ([min(s, middle) for s in sizes], [max(s, middle) for s in sizes])
    )
    return allow, block


def _laws(users: int, k: int, population: int, budget: float, delta: float) -> PoissonLaws:
    """Distributions of the counts after the thinning that the arguments, once checked, ask for."""
    _check(k, population, budget, delta)
    mean = thinning_mean(users, THINNING_SHARE * delta)
    mean = useful_mean(mean, k=k, population=population, budget=budget)
    return poisson_laws(mean=mean, k=k, population=population, budget=budget)


def _check(k: int, population: int, budget: float, delta: float) -> None:
    check_threshold(k, population)
    check_share("budget", budget)
    check_share("delta", delta)


def _log_term(delta: float) -> float:
    """`ln(1 / delta)` for what the thinning leaves of delta."""
    return -math.log((1 - THINNING_SHARE) * delta)


def _log_choose(total: int, size: int) -> float:
    """Natural logarithm of a binomial coefficient."""
    return math.log(math.comb(total, size))


def _always_for_empty_set(limits: NDArray[np.float64], users: int) -> NDArray[np.float64]:
    """Limits of the score, none below -1 (never) or above the number of users (always).

    No score exceeds the number of users, because no weight exceeds 1.
    """
    limits = np.clip(limits, -1, users)
    limits[0] = users
    return limits
