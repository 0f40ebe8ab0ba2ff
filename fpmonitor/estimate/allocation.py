"""The exact minimum of a sum of jumping functions whose arguments have a least sum.

All composition rules ask for it: what an API exposes jumps as its threshold grows, and the product
of the thresholds is given.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

_BISECTIONS = 56
_LOG_SLOPES = (-50.0, 50.0)
_TOLERANCE = 1e-12
_MOST_VISITS = 1_000


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Pieces:
    """A function `offset + weight * growth(u)` on each of its pieces, convex there."""

    # float64, shape (pieces,), increasing: greatest `u` of each piece, at most 0; a piece begins
    # where the one before it ends.
    highest: NDArray[np.float64]
    # offset, weight: float64, same shape: at least 0, and such that the function does not decrease.
    offset: NDArray[np.float64]
    weight: NDArray[np.float64]
    growth: Literal["linear", "odds"] = "linear"  # `linear`: `e^u`; `odds`: `e^u / (1 - e^u)`.

    def equals(self, other: Pieces) -> bool:
        """Whether both are the same function."""
        return self.growth == other.growth and all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in ("highest", "offset", "weight")
        )


class Allocation(NamedTuple):
    """The least sum and where it is."""

    value: float  # The sum; 1 where none is below 1.
    arguments: tuple[float, ...]  # `u` of each function; 0 where no sum is below 1.


class _Part(NamedTuple):
    """Ranges of pieces, a lower bound of the sum in them, and the jump at which to divide them."""

    lower: float
    number: int
    ranges: NDArray[np.intp]
    function: int
    piece: int


def least_sum(functions: Sequence[Pieces], total: float) -> Allocation:
    """Minimise `sum_j f_j(u_j)`, up to 1, over all arguments whose sum is at least `total`.

    Args:
        functions: At least one.
        total: At most 0.

    Notes:
        Branch and bound. For every slope `l >= 0`, `l total + sum_j min_u (f_j(u) - l u)` is a
        lower bound of the minimum. Where it is greatest, only functions whose minimiser jumps from
        one piece to another keep it from being the minimum; the pieces of one are divided at its
        jump and both parts searched. With one piece for each function the problem is convex, and
        the bound attained. Of equal functions the earlier ones are given the smaller arguments. A
        search of many functions that are nearly equal is given up after 1,000 parts; the sum is
        then the least that was found.
    """
    search = _Search(functions, total)
    equal = np.array([[one.equals(other) for other in functions] for one in functions])
    search.visit(np.array([[0, one.highest.size] for one in functions]))
    while search.parts and search.parts[0].lower < search.best - _TOLERANCE:
        if search.visits > _MOST_VISITS:
            break
        part = heapq.heappop(search.parts)
        # Equal functions are divided together: else each order of their arguments is searched.
        alike, order = equal[part.function], np.arange(len(functions))
        later, earlier = part.ranges.copy(), part.ranges.copy()
        np.maximum(later[:, 0], part.piece, out=later[:, 0], where=alike & (order >= part.function))
        np.minimum(
            earlier[:, 1], part.piece, out=earlier[:, 1], where=alike & (order <= part.function)
        )
        search.visit(later)
        search.visit(earlier)
    return Allocation(search.best, search.arguments)


class _Search:
    """The pieces of all functions in a row, the best arguments, and the parts to divide."""

    def __init__(self, functions: Sequence[Pieces], total: float) -> None:
        self.total = total
        self.best = 1.0
        self.arguments: tuple[float, ...] = (0.0,) * len(functions)
        self.parts: list[_Part] = []
        self.visits = 0
        self._low = np.concatenate([np.append(-np.inf, one.highest[:-1]) for one in functions])
        self._high = np.concatenate([one.highest for one in functions])
        self._offset = np.concatenate([one.offset for one in functions])
        self._weight = np.concatenate([one.weight for one in functions])
        sizes = [one.highest.size for one in functions]
        self._odds = np.repeat([one.growth == "odds" for one in functions], sizes)
        self._starts = np.append(0, np.cumsum(sizes)[:-1])

    def visit(self, ranges: NDArray[np.intp]) -> None:
        """Bound the sum within ranges of pieces, by bisection for the best slope."""
        self.visits += 1
        # Even the greatest arguments of these ranges add up to less than the total.
        if self._high[self._starts + ranges[:, 1] - 1].sum() < self.total:
            return
        inside = np.concatenate([np.arange(*span) for span in self._starts[:, None] + ranges])
        firsts = np.append(0, np.cumsum(ranges[:, 1] - ranges[:, 0])[:-1])
        left, right = _LOG_SLOPES
        below, above = (
            self._minimisers(log_slope, inside, firsts)[0] for log_slope in (left, right)
        )
        lower = -math.inf
        for _ in range(_BISECTIONS):
            middle = (left + right) / 2
            at, arguments, values = self._minimisers(middle, inside, firsts)
            excess = float(arguments.sum()) - self.total
            # Weak duality: a bound at every slope, so the bisection need not have converged.
            lower = max(lower, float(values.sum()) - math.exp(middle) * excess)
            if lower >= self.best - _TOLERANCE:
                return
            if excess < 0:
                left, below = middle, at
                continue
            right, above = middle, at
            if values.sum() < self.best:
                self.best, self.arguments = float(values.sum()), tuple(arguments.tolist())
        jumps = above - below
        if jumps.any():
            function = int(jumps.argmax())
            piece = int(above[function] - self._starts[function])
            heapq.heappush(self.parts, _Part(lower, self.visits, ranges, function, piece))

    def _minimisers(
        self, log_slope: float, inside: NDArray[np.intp], firsts: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
        """Piece, argument and value of each function where it lies lowest above a sloping line."""
        weight, odds = self._weight[inside], self._odds[inside]
        with np.errstate(divide="ignore", invalid="ignore"):
            # Where the derivative of `weight t`, or of `weight t / (1 - t)`, by `log t` is that.
            flat = weight / math.exp(log_slope)
            t = np.where(odds, 2 / (2 + flat + np.sqrt(flat * (4 + flat))), 1 / flat)
            u = np.clip(np.log(t), self._low[inside], self._high[inside])
            growth = np.where(odds, 1 / np.expm1(-u), np.exp(u))
            values = self._offset[inside] + np.where(weight > 0, weight * growth, 0)
        reduced = values - math.exp(log_slope) * u
        least = np.minimum.reduceat(reduced, firsts)
        sizes = np.diff(np.append(firsts, inside.size))
        lowest = np.flatnonzero(reduced == np.repeat(least, sizes))
        at = lowest[np.searchsorted(lowest, firsts)]
        return inside[at], u[at], values[at]
