"""Binomial probabilities far beyond the smallest float: logarithms, and tails by their first term.

scipy's binomial loses digits for a billion trials and underflows below 1e-308; privacy parameters
are differences of such numbers.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fpmonitor.errors import UndecidableError
from fpmonitor.estimate.saddle_point import deviance, factorial_remainder

_FAR = 8.0  # standard deviations from which on the continued fraction converges quickly
_MAX_STEPS = 1000
_PRECISION = 1e-12  # rounding of the fraction itself is near 1e-13 for a billion trials


def log_pmf(count: ArrayLike, trials: ArrayLike, p: float, q: float) -> NDArray[np.float64]:
    """`ln P(Bin(trials, p) = count)`, nats, without cancellation for a billion trials.

    Args:
        count, trials: Whole numbers, any shapes that broadcast; counts outside 0..trials have
            probability 0.
        p, q: Probability of success and of failure, each given to full precision.

    Notes:
        The saddle-point form of Loader (2000), "Fast and accurate computation of binomial
        probabilities".
    """
    counts, totals = _together(count, trials)
    inside = (counts >= 0) & (counts <= totals)
    x, n = counts[inside], totals[inside]
    excess = x * q - (n - x) * p
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithm = factorial_remainder(n) - factorial_remainder(x) - factorial_remainder(n - x)
        logarithm -= deviance(x, n * p, excess) + deviance(n - x, n * q, -excess)
    result = np.full(counts.shape, -np.inf)
    result[inside] = logarithm
    return result


def tail_ratio(count: ArrayLike, trials: ArrayLike, p: float, q: float) -> NDArray[np.float64]:
    """`P(X >= count) / P(X = count)` for `X ~ Bin(trials, p)` and counts in 1..trials."""
    counts, totals = _together(count, trials)
    mean = totals * p
    far = counts - mean > _FAR * np.sqrt(mean * q)
    ratio = np.empty(counts.shape)
    ratio[far] = q * _beta_fraction(counts[far], totals[far] - counts[far] + 1, p)
    x, n = counts[~far], totals[~far]
    ratio[~far] = scipy.special.betainc(x, n - x + 1, p) / np.exp(log_pmf(x, n, p, q))
    return ratio


def log_tail(count: ArrayLike, trials: ArrayLike, p: float, q: float) -> NDArray[np.float64]:
    """`ln P(Bin(trials, p) >= count)`, nats; -inf exactly where the event is impossible."""
    counts, totals = _together(count, trials)
    logarithm = np.where(counts <= 0, 0.0, -np.inf)
    possible = (counts >= 1) & (counts <= totals)
    x, n = counts[possible], totals[possible]
    far = x - n * p > _FAR * np.sqrt(n * p * q)
    tail = np.empty(x.shape)
    tail[far] = log_pmf(x[far], n[far], p, q) + np.log(tail_ratio(x[far], n[far], p, q))
    with np.errstate(divide="ignore"):
        tail[~far] = np.log(scipy.special.betainc(x[~far], n[~far] - x[~far] + 1, p))
    logarithm[possible] = tail
    return logarithm


def _together(count: ArrayLike, trials: ArrayLike) -> tuple[NDArray[np.float64], ...]:
    """Both as arrays of one shape."""
    return np.broadcast_arrays(np.asarray(count, np.float64), np.asarray(trials, np.float64))


def _beta_fraction(a: NDArray[np.float64], b: NDArray[np.float64], x: float) -> NDArray[np.float64]:
    """Continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method."""
    c = np.ones(a.shape)
    d = 1 / (1 - (a + b) * x / (a + 1))
    value = d.copy()
    for m in range(1, _MAX_STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / (1 + even * d)
        c = 1 + even / c
        value *= c * d
        d = 1 / (1 + odd * d)
        c = 1 + odd / c
        change = c * d
        value *= change
        if np.all(np.abs(change - 1) <= _PRECISION):
            return value
    raise UndecidableError("a binomial tail did not converge", hint="please report the numbers")
