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

from fpmonitor.errors import InputError
from fpmonitor.estimate.chernoff import TailBound, sharpest_bound
from fpmonitor.estimate.criterion import score
from fpmonitor.estimate.poisson import PoissonLaws, poisson_laws, useful_mean
from fpmonitor.estimate.thinning import thinning_mean
from fpmonitor.policy import check_share, check_threshold

if TYPE_CHECKING:
    from fpmonitor.spectrum import CountSpectrum

THINNING_SHARE = 0.1  # of delta, spent on the thinning
_FREE_FROM = 2.0  # times the mean number of kept users


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
        from_below=sharpest_bound(
            laws,
            sign=1,
            budget=budget,
            log_term=log_term,
            # Free weights are sharper only here, and only near the budget.
            monotone=population <= _FREE_FROM * laws.mean,
        ),
    )


def _laws(users: int, k: int, population: int, budget: float, delta: float) -> PoissonLaws:
    """Distributions of the counts after the thinning that the arguments, once checked, ask for."""
    check_threshold(k, population)
    check_share("budget", budget)
    check_share("delta", delta)
    mean = thinning_mean(users, THINNING_SHARE * delta)
    mean = useful_mean(mean, k=k, population=population, budget=budget)
    return poisson_laws(mean=mean, k=k, population=population, budget=budget)


def _log_term(delta: float) -> float:
    """`ln(1 / delta)` for what the thinning leaves of delta."""
    return -math.log((1 - THINNING_SHARE) * delta)
