"""Parts of the saddle-point form of binomial and hypergeometric probabilities.

Loader (2000), "Fast and accurate computation of binomial probabilities": differences of `gammaln`
lose all digits for millions of trials, sums of these do not.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

_TERMS = 1 << 12  # of a sum, taken at once


def factorial_remainder(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """`ln x! - x ln x + x`, float64, without cancellation for large `x`."""
    large = np.maximum(x, 16)
    series = np.polynomial.polynomial.polyval(
        # Stirling's series; from 16 on the first term left out is below 1e-15.
        large**-2.0,
        (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188),
    )
    remainder = 0.5 * np.log(2 * np.pi * large) + series / large
    few = x < 16
    small = x[few]
    remainder[few] = scipy.special.gammaln(small + 1) - scipy.special.xlogy(small, small) + small
    return remainder


def deviance(
    x: NDArray[np.float64], mean: NDArray[np.float64], difference: NDArray[np.float64]
) -> NDArray[np.float64]:
    """`x ln(x / mean) - x + mean` for `x = mean + difference`, float64, without cancellation."""
    v = difference / (x + mean)
    series = np.polynomial.polynomial.polyval(v * v, [1 / (2 * j + 3) for j in range(8)])
    deviance = 2 * x * v**3 * series + v * difference
    # `~ <`: 0 / 0, where both are 0, is far, too.
    far = ~(np.abs(v) < 0.1)
    deviance[far] = scipy.special.xlogy(x[far], x[far] / mean[far]) - difference[far]
    # x ln x is 0 there, for which neither form has a number.
    return np.where(x == 0, mean, deviance)


def log_poisson(count: ArrayLike, mean: ArrayLike) -> NDArray[np.float64]:
    """`ln P(Poisson(mean) = count)`, float64, of the shape that both together have; means > 0."""
    counts, means = (np.array(part, float) for part in np.broadcast_arrays(count, mean))
    return -deviance(counts, means, counts - means) - factorial_remainder(counts)


def log_binomial(hits: ArrayLike, trials: ArrayLike, probability: ArrayLike) -> NDArray[np.float64]:
    """`ln P(Bin(trials, probability) = hits)`, float64; probabilities strictly within (0, 1)."""
    x, n, p = (np.array(part, float) for part in np.broadcast_arrays(hits, trials, probability))
    distance = x - n * p
    remainder = factorial_remainder(n) - factorial_remainder(x) - factorial_remainder(n - x)
    return remainder - deviance(x, n * p, distance) - deviance(n - x, n * (1 - p), -distance)


def log_hypergeometric(
    members: NDArray[np.float64], group: NDArray[np.float64], draws: float, total: float
) -> NDArray[np.float64]:
    """`ln P(members)` of a group of `group` in `draws` out of `total`, float64, of one shape."""
    rest = total - group
    share, left = draws / total, (total - draws) / total
    # Of one cell alone: all four differ from their means by the same number.
    excess = members - group * share
    cells = (
        (members, group * share, excess),
        (group - members, group * left, -excess),
        (draws - members, rest * share, -excess),
        (rest - draws + members, rest * left, excess),
    )
    logarithm = factorial_remainder(group) + factorial_remainder(rest)
    in_draw, out_of_draw, in_all = factorial_remainder(np.array([draws, total - draws, total]))
    logarithm += in_draw + out_of_draw - in_all
    for cell, mean, difference in cells:
        logarithm -= factorial_remainder(cell) + deviance(cell, mean, difference)
    return logarithm


def hypergeometric_lower_tail(
    most: NDArray[np.float64], group: NDArray[np.float64], draws: float, total: float
) -> NDArray[np.float64]:
    """Probability of at most `most` members of a group of `group` in `draws` out of `total`.

    Whole numbers, float64, `most` and `group` of one shape, `most` not above the mean: summed from
    there downward, which is short.
    """
    tail = np.zeros(group.shape)
    active = np.flatnonzero((most >= 0) & (most >= group + draws - total))
    members, group = most[active], group[active]
    term = np.exp(log_hypergeometric(members, group, draws, total))
    while active.size:
        steps = np.arange(max(1, _TERMS // active.size))
        taken = np.maximum(members[:, None] - steps, 0)  # none from 0 members: that factor is 0
        rest = (total - group - draws)[:, None] + taken
        terms = term[:, None] * np.cumprod(
            (taken / (group[:, None] - taken + 1)) * (rest / (draws - taken + 1)), axis=1
        )
        tail[active] += term + terms[:, :-1].sum(axis=1)
        term, members = terms[:, -1], members - steps.size
        # Terms fall faster and faster below the mean, so the rest is smaller still.
        going = term > 1e-20 * tail[active]
        active, members, group, term = active[going], members[going], group[going], term[going]
    return tail
