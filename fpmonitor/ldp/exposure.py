"""Exposure of APIs from randomised reports: limits that account for the randomisation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fpmonitor.errors import PolicyError
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.ldp.frequency import (
    check_report_counts,
    estimate_frequencies,
    estimate_from_reports,
    frequency_limits,
    least_share_inside,
    limits_from_reports,
)
from fpmonitor.ldp.mechanisms import Mechanism, StochasticMatrix
from fpmonitor.policy import check_threshold

_CELLS = 3_000
_MULTIPLIER_RANGE = (-60.0, 2.0)
_ROUNDING = 1e-9
_SUM_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ApiReports:
    """Reports on one API."""

    mechanism: Mechanism  # How the reports were made.
    # int64: reports that support each value, shape (a,); for a matrix, the reports of each number,
    # shape (b,).
    support_counts: NDArray[np.int64]
    users: int  # Number of reports.

    def frequencies(self) -> NDArray[np.float64]:
        """Return unbiased frequencies of the values, shape (a,)."""
        if isinstance(self.mechanism, StochasticMatrix):
            return estimate_from_reports(self.mechanism, self._report_counts(self.mechanism))[0]
        return estimate_frequencies(self.mechanism, self.support_counts, self.users)

    def limits(self, delta: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return limits of all probabilities, which hold together with probability `1 - delta`."""
        if isinstance(self.mechanism, StochasticMatrix):
            counts = self._report_counts(self.mechanism)
            return limits_from_reports(self.mechanism, counts, delta=delta)
        return frequency_limits(self.mechanism, self.support_counts, self.users, delta=delta)

    def least_inside(self, places: NDArray[np.intp], delta: float) -> float:
        """Return a lower limit of the share of users with one of these values, by position."""
        return least_share_inside(
            self.mechanism, self.support_counts, self.users, places, delta=delta
        )

    def _report_counts(self, matrix: StochasticMatrix) -> NDArray[np.int64]:
        counts = check_report_counts(self.support_counts, len(matrix.probabilities))
        if counts.sum() != self.users:
            raise PolicyError("users", f"must be {counts.sum()}, the number of reports")
        return counts


def randomised_limits(
    low: ArrayLike,
    high: ArrayLike,
    *,
    k: int,
    population: int,
    multiplicities: ArrayLike | None = None,
) -> tuple[float, float]:
    """Return the least and largest exposure of all distributions within limits.

    Args:
        low, high: Limits of the probabilities, shape (s,), in [0, 1].
        k, population: Anonymity threshold and `n`, users.
        multiplicities: Number of values with each pair of limits; one each by default.

    Returns:
        Two shares, the first rounded down and the second up: the distribution is bound to sum to 1
        by a multiplier, which is valid for any multiplier (weak duality), and between grid points
        the exposure probability is bounded by its monotony. No distribution at all within the
        limits gives (0, 1).

    Raises:
        PolicyError: `k` or `population` out of range, `high` below `low`.
    """
    check_threshold(k, population)
    lows, highs = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    if not ((lows >= 0).all() and (lows <= highs).all() and (highs <= 1).all()):
        raise PolicyError("high", "limits must lie in [0, 1], high not below low")
    times = np.ones(lows.shape) if multiplicities is None else np.asarray(multiplicities)
    if lows @ times > 1 + _SUM_TOLERANCE or highs @ times < 1 - _SUM_TOLERANCE:
        return 0.0, 1.0
    # Values with equal limits are one box, however many they are.
    boxes, inverse = np.unique(np.column_stack([lows, highs]), axis=0, return_inverse=True)
    edges = _edges(boxes, k / population)
    exposed = exposure_probability(edges, k=k, population=population)
    bound = partial(
        _bound,
        edges=edges,
        masses=edges * exposed,
        ranges=np.searchsorted(edges, boxes).tolist(),
        times=np.bincount(inverse.reshape(-1), weights=times).astype(np.float64),
    )
    # p times a falling probability: in a cell at most its right end by the value at its left.
    upper = bound(edges[1:] * exposed[:-1], sign=1)
    lower = bound(edges[:-1] * exposed[1:], sign=-1)
    return max(lower - _ROUNDING, 0.0), min(upper + _ROUNDING, 1.0)


def _edges(boxes: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Return a grid of probabilities, fine around `k / n`, that contains all limits."""
    grid = np.geomspace(min(1e-5 * share, 1e-3), 1, _CELLS)
    around = share * np.geomspace(0.05, 5, _CELLS)
    return np.unique(np.concatenate([[0.0], grid, around[around < 1], boxes.ravel()]))


def _bound(
    cells: NDArray[np.float64],
    *,
    sign: int,
    edges: NDArray[np.float64],
    masses: NDArray[np.float64],
    ranges: list[tuple[int, int]],
    times: NDArray[np.float64],
) -> float:
    """Bound the exposed mass from above (`sign` 1) or below (-1), given its bounds in cells.

    `edges` are the grid points, `masses` the exposed mass at them, and `ranges` the boxes of
    probabilities as cells of the grid, each so many `times`.
    """
    linear = np.minimum if sign > 0 else np.maximum

    def dual(multiplier: float) -> float:
        ends = multiplier * edges
        inner = sign * (cells - linear(ends[:-1], ends[1:]))
        at_points = sign * (masses - ends)
        # All limits are on the grid: a box of no width is a point of it.
        best = [inner[a:b].max() if b > a else at_points[a] for a, b in ranges]
        return float(sign * multiplier + np.asarray(best) @ times)

    found = scipy.optimize.minimize_scalar(dual, bounds=_MULTIPLIER_RANGE, method="bounded")
    # Any multiplier gives a valid bound, so that a poor search only costs sharpness.
    return sign * min(float(found.fun), dual(0.0))
