"""Parts of the saddle-point form of binomial and hypergeometric probabilities.

Loader (2000), "Fast and accurate computation of binomial probabilities": differences of `gammaln`
lose all digits for millions of trials, sums of these do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def factorial_remainder(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """`ln x! - x ln x + x`, float64, without cancellation for large `x`."""
    large = np.maximum(x, 16)
    series = np.polynomial.polynomial.polyval(
        large**-2.0, (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)
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
    far = ~(np.abs(v) < 0.1)
    deviance[far] = scipy.special.xlogy(x[far], x[far] / mean[far]) - difference[far]
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
