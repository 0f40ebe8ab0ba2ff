"""How many users an undecided API set needs, as a forecast, not a guarantee.

A distribution of the value probabilities is fitted to the spectrum; the certificate of a
larger sample is then applied to the scores that samples of this distribution would have. The
certificate holds at every look, so one may look while users come in, and stop when it decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy

from fpmonitor.estimate.looks import Criteria, decision_criteria

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.spectrum import CountSpectrum

MOST_USERS = 10**8
_GROWTH = 2  # between the sample sizes that are tried
_LARGEST_UNCERTAIN_COUNT = 200
_GRID_POINTS = 150
_ITERATIONS = 200

_criteria = lru_cache(maxsize=64)(decision_criteria)  # the same for all sets of a policy


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FittedDistribution:
    """Probabilities of values, and the share of the users that has values of each.

    Attributes
    ----------
    probabilities
        float64, shape (s,), in (0, 1].
    shares
        float64, shape (s,), not negative, adding up to 1.
    """

    probabilities: NDArray[np.float64]
    shares: NDArray[np.float64]


def fit_law(spectrum: CountSpectrum, *, population: int) -> FittedDistribution:
    """Most likely distribution of the value probabilities, nearly: counts as Poisson variables.

    Values of many users keep their observed share. For the others the likelihood of the spectrum,
    values not seen included, is raised by a fixed number of steps of the EM algorithm from a
    log-uniform start, which leaves the distribution smooth where the data say nothing.

    Parameters
    ----------
    spectrum
        Count spectrum of the sample.
    population
        `n`, users; the distribution reaches down to a thousandth of one of them.

    Notes
    -----
    Nonparametric maximum likelihood of a mixture (Laird 1978), here of Poisson distributions cut
    off at 0.
    """
    users = spectrum.users
    certain = spectrum.counts > _LARGEST_UNCERTAIN_COUNT
    counts, values = spectrum.counts[~certain], spectrum.values[~certain]
    most = min(2.0 * _LARGEST_UNCERTAIN_COUNT, users)
    means = np.geomspace(1e-3 * min(1.0, users / population), most, _GRID_POINTS)
    column = counts[:, np.newaxis]
    # Expected number of values with each count, for all users at one mean.
    kernel = (
        np.exp(scipy.special.xlogy(column - 1, means) - means - scipy.special.gammaln(column + 1))
        * users
    )
    seen = -np.expm1(-means) / means * users
    shares = np.full(means.size, 1 / means.size)
    for _ in range(_ITERATIONS if counts.size else 0):
        shares = shares * (kernel.T @ (values / np.maximum(kernel @ shares, 1e-300))) / seen
    large = spectrum.counts[certain] * spectrum.values[certain] / users
    shares = shares * ((1 - large.sum()) / shares.sum())
    return FittedDistribution(
        probabilities=np.concatenate([means / users, spectrum.counts[certain] / users]),
        shares=np.concatenate([shares, large]),
    )


def users_needed(
    spectrum: CountSpectrum,
    size: int,
    *,
    users: int,
    k: int,
    population: int,
    budget: float,
    delta: float,
    universe: int,
) -> int | None:
    """Observed users at which an undecided set is likely decided; None if not with 100 million.

    A forecast in steps of a factor of 2. The first call for a policy takes up to a second for each
    step, later ones milliseconds.

    Parameters
    ----------
    spectrum
        Count spectrum of the set.
    size
        Number of APIs in the set.
    users
        `m`, users observed so far.
    k, population, budget, delta, universe
        As in `decision_criteria`.

    Raises
    ------
    PolicyError
        An argument is out of its range; the error names it.
    """
    law = fit_law(spectrum, population=population)
    while users * _GROWTH <= MOST_USERS:
        users *= _GROWTH
        criteria = _criteria(
            users=users,
            k=k,
            population=population,
            budget=budget,
            delta=delta,
            universe=universe,
        )
        if _decides(criteria, law, size, users):
            return users
    return None


def _decides(criteria: Criteria, law: FittedDistribution, size: int, users: int) -> bool:
    """Whether a sample is likely decided: by a score one standard deviation off."""
    allow, refute = criteria.allow, criteria.refute
    mean, variance = _score_moments(allow.weights, users, law)
    if mean + math.sqrt(variance) <= allow.limits[size]:
        return True
    mean, variance = _score_moments(refute.weights, users, law)
    return bool(mean - math.sqrt(variance) > refute.limits[size])


def _score_moments(
    weights: NDArray[np.float64], users: int, law: FittedDistribution
) -> tuple[float, float]:
    """Mean and variance of the score of independent Poisson counts.

    For a count `C` of mean `c`, `E C h(C) = c E h(C + 1)`. The variance is bounded by the second
    moments, `E (C h(C))^2 = c E (C + 1) h(C + 1)^2`.
    """
    changes = np.flatnonzero(np.diff(weights)) + 1
    means = users * law.probabilities[:, np.newaxis]
    below = np.where(changes > 1, scipy.special.pdtr(np.maximum(changes - 2, 0), means), 0)
    weight = below @ -np.diff(weights)[changes - 1] + weights[-1]
    below_two = np.where(changes > 2, scipy.special.pdtr(np.maximum(changes - 3, 0), means), 0)
    drops = -np.diff(weights**2)[changes - 1]
    squares = (means * below_two + below) @ drops
    return users * float(law.shares @ weight), users * float(law.shares @ squares)
