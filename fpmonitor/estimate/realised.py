"""The realised share: how many users of one population are exposed, not how many are on average.

`X` is the share of the `n` users of one population, independent draws, that are in groups smaller
than `k`; its expectation is the statistical exposure `Q(n, k)`. Theorem and proof:
docs/certificate.md, section 12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy

from fpmonitor.estimate.margins import Cells
from fpmonitor.estimate.poisson import small_group_laws
from fpmonitor.estimate.programme import envelope

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.estimate.exposure import Sign

_TILTS = 120
_MOST_SIZES = 200_000  # of a population of random size; leaving some out errs on the safe side
_ROUNDING = 1e-3  # of a logarithm of a probability, from 10^10 users


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Moments:
    """Bounds `ln E exp(sign t n X) <= U(Q)` for a tilt `t`."""

    tilt: float  # Positive.
    price: float  # What a population of exactly n users costs, nats.
    # exposures, bounds: Vertices of `U`, with the price, nats.
    exposures: NDArray[np.float64]
    bounds: NDArray[np.float64]

    def bound(self, exposure: float) -> float:
        """Return the bound at an exposure, nats."""
        return float(np.interp(exposure, self.exposures, self.bounds))


@lru_cache(maxsize=16)
def _moments(k: int, population: int, sign: Sign) -> tuple[_Moments, ...]:
    """Bound the moments of the exposed users of a population, for all tilts."""
    cells = Cells.of(small_group_laws(k, population))
    tilts = np.geomspace(0.05 / math.sqrt(population * k), 30 / k, _TILTS)
    found = []
    for tilt, price in zip(tilts, _price_of_fixed_size(population, k, tilts, sign), strict=True):
        bounds = population * cells.bounds(np.array([tilt]), sign)
        exposures, values = envelope(cells.exposure[sign], bounds, sign)
        found.append(
            _Moments(
                tilt=float(tilt), price=float(price), exposures=exposures, bounds=values + price
            )
        )
    return tuple(found)


class Average(NamedTuple):
    """A statistical exposure, and what proves that it keeps a realised share within its budget."""

    exposure: float  # A share; 0 where nothing is known.
    tilt: float  # `t`, nats by an exposed user.
    # slope, intercept: Line that is nowhere below the logarithm of the moment of `Poisson(n)`
    # users, nats.
    slope: float
    intercept: float


@lru_cache(maxsize=16)
def average_budget(
    *, k: int, population: int, budget: float, delta: float, candidates: int
) -> Average:
    """Statistical exposure that keeps the realised shares of all sets of some APIs together.

    For every distribution, all sets of the candidates with at most this exposure have a realised
    share of at most `budget`, with probability at least `1 - delta`.
    """
    log_term = math.log(math.comb(candidates, candidates // 2)) - math.log(delta)
    # As the decimal that was typed: 0.29 * 100 is below 29, and 29 would be too many.
    too_many = math.floor(Fraction(repr(budget)) * population) + 1
    best = Average(0.0, 0.0, 0.0, 0.0)
    for m in _moments(k, population, 1):
        allowed = m.tilt * too_many - log_term
        # An average above the budget proves nothing of a share within it.
        exposure = min(float(np.interp(allowed, m.bounds, m.exposures)), budget)
        if exposure > best.exposure and m.bounds.size > 1:
            # The edge of U that holds the exposure: its line is nowhere below U, which is concave.
            end = min(max(int(np.searchsorted(m.exposures, exposure)), 1), m.bounds.size - 1)
            slope = float(m.bounds[end] - m.bounds[end - 1])
            slope /= float(m.exposures[end] - m.exposures[end - 1])
            intercept = float(m.bounds[end]) - m.price - slope * float(m.exposures[end])
            best = Average(exposure, m.tilt, slope, intercept)
    return best


def realised_limits(
    lower: float, upper: float, *, k: int, population: int, delta: float
) -> tuple[float, float]:
    """Limits of the realised share of one population, from those of its expectation; shares.

    Each is wrong with probability at most `delta`, where the expectation is within its limits: also
    if these come from users who are in the population, as the law of both is one.

    Args:
        lower, upper: Limits of the statistical exposure.
    """
    price = -math.log(delta)
    most = min((m.bound(upper) + price) / m.tilt for m in _moments(k, population, 1))
    few = max(-(m.bound(lower) + price) / m.tilt for m in _moments(k, population, -1))
    # A number of users, and below `most`, above `few`.
    highest = min(math.ceil(most) - 1, population)
    lowest = max(math.floor(few) + 1, 0)
    return min(lowest, highest) / population, highest / population


def _price_of_fixed_size(
    population: int, k: int, tilts: NDArray[np.float64], sign: Sign = 1
) -> NDArray[np.float64]:
    """`-ln A` for each tilt: what a population of exactly n users costs, nats; shape (T,).

    One user more exposes at most one more, one user less at most `k - 1` more.
    """
    reach = min(math.ceil(10 * math.sqrt(population)), _MOST_SIZES)
    more = np.arange(-min(reach, population), reach + 1)
    sizes = population + more.astype(np.float64)
    chances = scipy.special.xlogy(sizes, population) - population - scipy.special.gammaln(sizes + 1)
    exposing = sign * more  # users between the two populations: added, or taken away where negative
    change = np.where(exposing < 0, -exposing, (k - 1) * exposing)
    return np.array(
        [_ROUNDING - scipy.special.logsumexp(chances - tilt * change) for tilt in tilts]
    )
