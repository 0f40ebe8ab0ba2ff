"""The realised share: how many users of one population are exposed, not how many are on average.

`X` is the share of the `n` users of one population, independent draws, that are in groups smaller
than `k`; its expectation is the statistical exposure `Q(n, k)`. Theorem and proof:
docs/certificate.md, section 12.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy

from fpmonitor.estimate.chernoff import exposed_users_bound
from fpmonitor.estimate.poisson import small_group_laws

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_TILTS = 120
_MOST_SIZES = 200_000  # of a population of random size; leaving some out errs on the safe side
_ROUNDING = 1e-3  # of a logarithm of a probability, from 10^10 users


def average_budgets(
    *, k: int, population: int, budget: float, log_terms: ArrayLike
) -> NDArray[np.float64]:
    """Statistical exposures that keep the realised share within a budget, shares.

    For every distribution with an exposure of at most the result, the share of exposed users of one
    population exceeds `budget` with probability at most `exp(-log_term)`; 0 where nothing is known.

    Parameters
    ----------
    k, population
        Anonymity threshold and `n`, users.
    budget
        `Q*`, a share of the users, in (0, 1).
    log_terms
        `ln(1 / delta)`, nats, any shape; the result has the same, and does not increase with it.
    """
    too_many = math.floor(Fraction(repr(budget)) * population) + 1
    tilts = np.geomspace(0.05 / math.sqrt(population * budget * k), 30 / k, _TILTS)
    bound = exposed_users_bound(small_group_laws(k, population), tilts)
    price = _price_of_fixed_size(population, k, bound.tilts)
    terms = np.asarray(log_terms, dtype=np.float64)
    averages = [min(bound.limit(too_many, term + price), budget) for term in terms.ravel()]
    return np.array(averages).reshape(terms.shape)


@lru_cache(maxsize=16)
def average_budget(
    *, k: int, population: int, budget: float, delta: float, candidates: int
) -> float:
    """Statistical exposure that keeps the realised shares of all sets of some APIs together.

    For every distribution, all sets of the candidates with at most this exposure have a realised
    share of at most `budget`, with probability at least `1 - delta`. Parameters as of
    `average_budgets`, and the number of candidates.
    """
    log_term = math.log(math.comb(candidates, candidates // 2)) - math.log(delta)
    return float(average_budgets(k=k, population=population, budget=budget, log_terms=log_term))


def _price_of_fixed_size(
    population: int, k: int, tilts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """`-ln A` for each tilt: what a population of exactly n users costs, nats; shape (T,).

    One user more exposes at most one more, one user less at most `k - 1` more.
    """
    reach = min(math.ceil(10 * math.sqrt(population)), _MOST_SIZES)
    more = np.arange(-min(reach, population), reach + 1)
    sizes = population + more.astype(np.float64)
    chances = scipy.special.xlogy(sizes, population) - population - scipy.special.gammaln(sizes + 1)
    change = np.where(more < 0, -more, (k - 1) * more)
    return np.array(
        [_ROUNDING - scipy.special.logsumexp(chances - tilt * change) for tilt in tilts]
    )
