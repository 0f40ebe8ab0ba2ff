"""Frequencies of values, estimated from reports."""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fpmonitor.errors import PolicyError
from fpmonitor.ldp.checks import check_counts, check_whole_number
from fpmonitor.ldp.fisher import is_faithful
from fpmonitor.ldp.mechanisms import Mechanism, PureMechanism, RandomisedResponse, StochasticMatrix
from fpmonitor.ldp.subsets import SubsetSelection
from fpmonitor.policy import check_share

_TILTS = 100
_LARGEST_TILT = 50.0
# By which limits are widened, so that rounding makes none fail.
_ROUNDING = 1e-9


def estimate_frequencies(
    mechanism: PureMechanism, support_counts: ArrayLike, users: int
) -> NDArray[np.float64]:
    """Estimate frequencies, unbiased, from the number of reports that support each value.

    Args:
        mechanism: Randomised response, unary encoding, local hashing or subset selection.
        support_counts: Whole numbers, shape (a,), from 0 to `users`.
        users: Reports, at least 1.

    Returns:
        float64, shape (a,); may be negative or above 1.

    Notes:
        Wang, Blocki, Li and Jha (2017), equation (1).
    """
    # No covariance: of 10,000 values it would take 800 MB.
    counts = _checked(support_counts, mechanism.values, users)
    gain = mechanism.true_support - mechanism.false_support
    frequencies: NDArray[np.float64] = (counts / users - mechanism.false_support) / gain
    return frequencies


def estimate_from_reports(
    mechanism: Mechanism, report_counts: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Estimate frequencies, unbiased, from the number of users with each report, for any matrix.

    The left inverse of the matrix that is best for the uniform distribution; the frequencies sum to
    1.

    Args:
        mechanism: Faithful.
        report_counts: Whole numbers, shape (b,), not all zero.

    Returns:
        The frequencies, shape (a,), as of `estimate_frequencies`; and their covariance, shape
        (a, a), for users drawn from the distribution, itself estimated.
    """
    matrix = mechanism.matrix()
    counts = check_report_counts(report_counts, matrix.shape[0])
    decoder = decoding_matrix(mechanism)
    users = counts.sum()
    chances = counts / users
    spread = decoder * chances @ decoder.T
    frequencies = decoder @ chances
    covariance = (spread - np.outer(frequencies, frequencies)) / users
    return frequencies, covariance


def limits_from_reports(
    mechanism: Mechanism, report_counts: ArrayLike, *, delta: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper limits of all probabilities, which hold together, for any matrix.

    Args:
        mechanism, report_counts: As `estimate_from_reports`.
        delta: Tolerated probability that any of the limits fails, in (0, 1).

    Returns:
        Two float64 arrays of shape (a,), shares.

    Notes:
        Each report scores its entry in the row of a value of the decoder. By Chernoff's bound
        (1952) a share `t` of the value is refuted, at `delta / 2a` a limit, when the mean score is
        improbable whatever the other users hold: `(t M + (1 - t) N)^n exp(-h s) <= delta / 2a` for
        a tilt `h`, with the moment `M` of the value's scores and the largest `N` of another's.
        Finite-sample, and valid for any scores and tilts, so that rounding of the decoder cannot
        break it.
    """
    counts = check_report_counts(report_counts, mechanism.matrix().shape[0])
    check_share("delta", delta)
    return limits_at_shares(mechanism, counts / counts.sum(), int(counts.sum()), delta=delta)


def limits_at_shares(
    mechanism: Mechanism, chances: NDArray[np.float64], users: int, *, delta: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return limits as `limits_from_reports`, for reports with these shares, shape (b,)."""
    matrix = mechanism.matrix()
    level = math.log(delta / (2 * mechanism.values)) / users
    lower, upper = np.zeros(mechanism.values), np.ones(mechanism.values)
    for value, scores in enumerate(decoding_matrix(mechanism)):
        centred = scores - scores @ chances
        tilts = _tilts(float(np.abs(centred).max()), level)
        own, other = _moments(matrix, centred, tilts, value)
        lower[value] = _least_share(own, other, math.exp(level))
        # An upper limit of a share is a lower one of all others together.
        own, other = _moments(matrix, centred, -tilts, value)
        upper[value] = 1 - _least_share(other, own, math.exp(level))
    return np.clip(lower - _ROUNDING, 0, 1), np.clip(upper + _ROUNDING, 0, 1)


def _tilts(largest: float, level: float) -> NDArray[np.float64]:
    """Grid around the best tilt, which is `sqrt(-2 level)` over the deviation of the scores."""
    least = min(math.sqrt(-2 * level), 1.0) / 2
    return np.geomspace(least, _LARGEST_TILT, _TILTS) / max(largest, np.finfo(float).tiny)


def _moments(
    matrix: NDArray[np.float64], scores: NDArray[np.float64], tilts: NDArray[np.float64], value: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Moments `E exp(tilt score)` of the reports on a value, and the largest on another one."""
    moments = np.exp(np.outer(tilts, scores)) @ matrix
    return moments[:, value], np.delete(moments, value, axis=1).max(axis=1)


def least_share_inside(
    mechanism: Mechanism,
    counts: ArrayLike,
    users: int,
    places: NDArray[np.intp],
    *,
    delta: float,
) -> float:
    """Return a lower limit of the share of users whose value is one of several.

    Far sharper than the sum of limits of the single values: their errors add up, those of the
    reports on all of them together mostly cancel.

    Args:
        mechanism: Faithful if it is a matrix.
        counts: Whole numbers: reports that support each value, shape (a,); for a matrix, the
            reports of each number, shape (b,).
        users: Reports, at least 1.
        places: Positions of the values; not all of them.
        delta: Tolerated probability that the limit fails, in (0, 1).

    Notes:
        Chernoff's bound as in `limits_from_reports`, on how many of the values a report supports.
        Given the user's value, supports are independent bits, exclude each other (randomised
        response), or are of a random set.
    """
    check_share("delta", delta)
    level = math.log(delta) / users
    if isinstance(mechanism, StochasticMatrix):
        scores = decoding_matrix(mechanism)[places].sum(axis=0)
        centred = scores - scores @ check_report_counts(counts, scores.size) / users
        tilts = _tilts(float(np.abs(centred).max()), level)
        moments = np.exp(np.outer(tilts, centred)) @ mechanism.matrix()
        inside = moments[:, places].max(axis=1)
        outside = np.delete(moments, places, axis=1).max(axis=1)
    else:
        mean = int(_checked(counts, mechanism.values, users)[places].sum()) / users
        tilts = _tilts(float(places.size), level)
        own, other = mechanism.true_support, mechanism.false_support
        others, growth = places.size - 1, np.expm1(tilts)
        if isinstance(mechanism, RandomisedResponse):
            inside, outside = 1 + (own + others * other) * growth, 1 + places.size * other * growth
        elif isinstance(mechanism, SubsetSelection):
            inside, outside = _moments_of_subsets(mechanism, places.size, tilts)
        else:
            alone = (1 + other * growth) ** others
            inside, outside = alone * (1 + own * growth), alone * (1 + other * growth)
        inside, outside = inside * np.exp(-tilts * mean), outside * np.exp(-tilts * mean)
    return max(_least_share(inside, outside, math.exp(level)) - _ROUNDING, 0.0)


def _moments_of_subsets(
    mechanism: SubsetSelection, places: int, tilts: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Moments of how many of some values a set has, where the own one is of them and is not."""
    own, left, size = mechanism.true_support, mechanism.values - 1, mechanism.size

    def moments(others: int, drawn: int) -> NDArray[np.float64]:
        found = np.arange(min(others, drawn) + 1)
        law = scipy.stats.hypergeom.pmf(found, left, others, drawn)
        return np.asarray(np.exp(np.outer(tilts, found)) @ law)

    inside = own * np.exp(tilts) * moments(places - 1, size - 1)
    inside += (1 - own) * moments(places - 1, size)
    outside = own * moments(places, size - 1) + (1 - own) * moments(places, size)
    return inside, outside


def _least_share(inside: NDArray[np.float64], outside: NDArray[np.float64], level: float) -> float:
    """Largest share `t` for which `t inside + (1 - t) outside`, as all below, is at most `level`.

    Where `inside` is not the larger one, all shares have at most the `outside`.
    """
    # 1 only avoids a division by 0: such shares are replaced below.
    gap = np.where(inside > outside, inside - outside, 1.0)
    shares = np.where(inside > outside, (level - outside) / gap, outside <= level)
    return float(np.clip(shares, 0, 1).max())


def decoding_matrix(mechanism: Mechanism) -> NDArray[np.float64]:
    """Left inverse of the matrix, shape (a, b), whose columns sum to 1.

    Raises:
        PolicyError: `mechanism`: not faithful, so that different distributions look alike.
    """
    if not is_faithful(mechanism):
        raise PolicyError(
            "mechanism",
            "is not faithful: different distributions of the values have the same reports",
        )
    matrix = mechanism.matrix()
    total = matrix.sum(axis=1)
    weighted = matrix / np.where(total > 0, total, 1)[:, None]
    return np.asarray(np.linalg.solve(weighted.T @ matrix, weighted.T), dtype=np.float64)


def frequency_limits(
    mechanism: PureMechanism, support_counts: ArrayLike, users: int, *, delta: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper limits of all probabilities, which hold together.

    Args:
        mechanism, support_counts, users: As `estimate_frequencies`.
        delta: Tolerated probability that any of the limits fails, in (0, 1).

    Returns:
        Two float64 arrays of shape (a,), shares.

    Notes:
        The number of reports that support a value is binomial, whatever the distribution, with a
        mean that grows with the value's probability: Clopper and Pearson (1934), at `delta / 2a`
        per limit. Finite-sample; the randomisation is accounted for.
    """
    counts = _checked(support_counts, mechanism.values, users)
    check_share("delta", delta)
    level = delta / (2 * mechanism.values)
    low, high = clopper_pearson(counts, users, level)
    gain = mechanism.true_support - mechanism.false_support
    lower = np.clip((low - mechanism.false_support) / gain, 0, 1)
    upper = np.clip((high - mechanism.false_support) / gain, 0, 1)
    return lower, upper


def clopper_pearson(
    counts: NDArray[np.int64], users: int, level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return limits of binomial probabilities, each wrong with probability at most `level`."""
    successes = counts.astype(np.float64)
    low, high = np.zeros(counts.shape), np.ones(counts.shape)
    some, short = counts > 0, counts < users
    low[some] = scipy.special.betaincinv(successes[some], users - successes[some] + 1, level)
    high[short] = scipy.special.betaincinv(
        successes[short] + 1, users - successes[short], 1 - level
    )
    return low, high


def _checked(support_counts: ArrayLike, values: int, users: int) -> NDArray[np.int64]:
    check_whole_number("users", users, least=1, most=2**53)
    return check_counts("support_counts", support_counts, values, most=users)


def check_report_counts(report_counts: ArrayLike, reports: int) -> NDArray[np.int64]:
    """Numbers of users with each report as int64.

    Raises:
        PolicyError: `report_counts`: not one whole number per report, or none positive.
    """
    counts = check_counts("report_counts", report_counts, reports)
    if counts.max() == 0:
        raise PolicyError("report_counts", "must not be all zero")
    return counts
