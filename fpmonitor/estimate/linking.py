"""The share of users whose visits can be linked at all, as an exposure: no threshold k.

Whoever sees the values of `n` users at one time, and later visits of the same users, can name for
each of these the earlier one of the same user in `G(n)` of the cases at most, on average: the
number of different values among the `n` users, by `n`. Earlier visits of one value are alike, so a
value's visits are named rightly once at most. That holds whatever else is known, such as how values
change, and `G(n) = sum_v p_v F_1(p_v)` is an exposure whose function is `F_1(p) =
E 1/(1 + Bin(n - 1, p))` in place of `F`. Proofs: docs/certificate/linking.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.estimate.poisson import ExposureFunction
from fpmonitor.policy import AS_OBSERVED

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from fpmonitor.estimate.exposure import Sign
    from fpmonitor.policy import Factors

_FLOOR = 0.002  # of `F_1`: weights end at groups of 500, which costs sharpness alone
_HALVINGS = 60
_NEVER_ALONE = 1e-9  # `F_1` above 1 less this is not asked for by shares


def linked_probability(p: ArrayLike, population: int) -> NDArray[np.float64]:
    """`F_1(p)`: chance to name a user's visit among those of the same value, of `n` users.

    Args:
        p: Probabilities of values, shares in [0, 1], any shape.
        population: `n`, users, at least 1.

    Returns:
        float64 of the shape of `p`: 1 at 0, not increasing, `1 / n` at 1.
    """
    shares = np.asarray(p, dtype=np.float64)
    with np.errstate(divide="ignore"):
        # 1 - (1 - p)^n loses all digits where n p is small.
        seen = -np.expm1(population * np.log1p(-shares))
    mean = population * shares
    # Below, the next term of the series is lost in rounding, and the quotient may be 0 / 0.
    return np.where(mean > 1e-15, seen / np.maximum(mean, 1e-300), 1.0)


@dataclass(frozen=True, slots=True)
class LinkedFunction(ExposureFunction):
    """`F_1` in place of `F`: `p F_1(p)` is concave and rises, so nothing else of theorems changes.

    `k` is the size of group from which on somebody is not surely linked, for the choice of scores.
    """

    k: int = field(init=False, default=2)

    def at(self, p: NDArray[np.float64]) -> dict[Sign, NDArray[np.float64]]:
        """For each sign what a share of the population may be linked for, by one of the sample."""
        least, most = (
            factor * linked_probability(np.minimum(factor * p, 1.0), self.population)
            for factor in self.factors
        )
        return {-1: most, 1: least}

    def quantile(self, exposure: float) -> float:
        """Share in the population of a value whose users are linked with this probability."""
        wanted = max(exposure, _FLOOR)
        if wanted > 1 - _NEVER_ALONE:
            return _NEVER_ALONE / self.population
        if wanted * self.population <= 1:
            return 1.0
        # By halves of the logarithm: to load scipy.optimize takes longer than all else.
        low, high = math.log(_NEVER_ALONE / self.population), 0.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if float(linked_probability(math.exp(middle), self.population)) > wanted:
                low = middle
            else:
                high = middle
        return math.exp((low + high) / 2)

    def bend(
        self, low: NDArray[np.float64], high: NDArray[np.float64], sign: Sign
    ) -> NDArray[np.float64]:
        """How far `p F_1` may be beyond its chord: above it alone, as `-f'' = (n-1)(1-p)^(n-2)`."""
        # f is concave: never below its chord.
        if sign > 0:
            return np.where(high <= 1, 0.0, np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            falls = (self.population - 2) * np.log1p(-np.minimum(low, 1.0))
        steepest = np.exp(np.where(np.isnan(falls), 0.0, falls))  # n = 2: the same everywhere
        return (high - low) ** 2 / 8 * (self.population - 1) * steepest * (1 + 1e-6)

    @property
    def steepest_fall(self) -> float:
        """What one user more with a value takes from those who are linked: nothing."""
        return 0.0


def function_of(k: int | None, population: int, factors: Factors = AS_OBSERVED) -> ExposureFunction:
    """Return what groups smaller than k expose; without k, what can be linked at all."""
    if k is None:
        return LinkedFunction(population=population, factors=factors)
    return ExposureFunction(k, population, factors)
