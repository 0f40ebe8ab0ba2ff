"""What lies between the grid points of `poisson`, proved: the corners of one cell cover it.

A cell is the interval between two neighbouring means `x < y` of the grid. If the moment and the
exposure, each corrected as here, satisfy `K <= a T + b lambda` at both ends of a cell, with
`K = ln E f(C)`, `T = lambda F` and `a` of the sign of the bound, then they satisfy it without
correction at every mean between. Lemma and proof: docs/certificate.md, "Between the grid points".
The tabulated probabilities are taken to be right to a relative 1e-9, `F` to an absolute one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from fpmonitor.estimate.poisson import PoissonLaws, log_moments
from fpmonitor.estimate.saddle_point import log_poisson

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.estimate.exposure import Sign

ACCURACY = 1e-9  # of tabulated probabilities (relative) and of F (absolute)
_UNDERFLOW = 1e-300


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Cells:
    """The cells of a grid, and what the corrections need of each."""

    laws: PoissonLaws  # Distributions of the counts at the grid points.
    # For each sign, float64, shape (P,): corrected exposures; may leave [0, 1], and must.
    exposure: dict[Sign, NDArray[np.float64]]
    # int64, shape (B,): counts `c` at which `f(c + 2) - 2 f(c + 1) + f(c)` may be negative.
    counts: NDArray[np.int64]
    # intp, shape (3, B): index of the free weight of `c`, `c + 1` and `c + 2`.
    weight_at: NDArray[np.intp]
    # float64, shape (P - 1, B): probabilities to see these counts at the positive means.
    probabilities: NDArray[np.float64]
    is_capped: bool = False  # Whether these are `capped`.

    @classmethod
    def of(cls, laws: PoissonLaws) -> Self:
        """Prepare the cells of a grid."""
        # Within a bin f is geometric, hence convex: only steps of the weight bend it downwards.
        counts = np.unique(np.concatenate([laws.starts[1:] - 2, laws.starts[1:] - 1]))
        counts = counts[counts >= 0]
        weight_at = [
            np.maximum(np.searchsorted(laws.starts, counts + step, side="right") - 1, 0)
            for step in range(3)
        ]
        return cls(
            laws=laws,
            exposure={-1: _corrected_exposure(laws, -1), 1: _corrected_exposure(laws, 1)},
            counts=counts,
            weight_at=np.array(weight_at),
            probabilities=laws.value_share
            * np.exp(log_poisson(counts, laws.means[1:, np.newaxis])),
        )

    def capped(self, most: float) -> Self:
        """Return the cells for laws of more exposure than a share: no value counts for more of it.

        `sum_v min(p_v F(p_v), Q*) >= Q*` for each law of exposure `Q* = most` or more: either no
        term is cut, or one is `Q*` alone. So `F` may be replaced by `min(F, Q* / p)` for upper
        limits of exposures up to `Q*` (docs/certificate/menu.md). A cell that touches the
        cut has `Q* / p` at both ends, where `p F` is nowhere above `Q*` within it.
        """
        laws, p = self.laws, self.laws.means[1:] / self.laws.mean
        # The corrected exposure: a cell must not be cut where p F is still below the budget.
        over = np.append(False, p * self.exposure[-1][1:] >= most)
        if not over.any():
            return self
        near = over.copy()
        near[1:] |= over[:-1]
        near[:-1] |= over[1:]
        near[0] = False
        cut = most / np.append(1.0, p) * (1 + ACCURACY)
        exposure = np.where(near, cut, self.exposure[-1])
        known = np.where(near, np.minimum(cut, 1.0), laws.exposure[-1])
        return replace(
            self,
            laws=replace(laws, exposure={**laws.exposure, -1: known}),
            exposure={**self.exposure, -1: exposure},
            is_capped=True,
        )

    def bounds(self, weights: NDArray[np.float64], sign: Sign) -> NDArray[np.float64]:
        """Corrected `ln E f(C) / lambda`, nats per user, shape (P,); row 0 is the first cell.

        Args:
            weights: float64, shape (W,): free weights times the tilt; `f(c) = exp(sign weight(c)
                c)`.
            sign: -1 for an upper limit, +1 for a lower limit.
        """
        laws, means = self.laws, self.laws.means[1:]
        exponents = sign * laws.atoms * weights[laws.weight_of_atom]
        excess = np.expm1(exponents)
        above = self._excess_of_moments(excess)
        # Both forms of one number: near 1 only the excess keeps its digits, near 0 only the sum.
        moments = laws.unweighted[1:] + means * (laws.rates[1:] @ np.exp(exponents))
        moments *= 1 + ACCURACY
        rise = self._rise(weights, sign)
        low, high = (
            log_moments(above[part] + rise, moments[part] + rise)
            for part in (slice(None, -1), slice(1, None))
        )
        # how far the logarithm of a chord may be above the chord of the logarithms
        apart = np.abs(high - low)
        bend = np.minimum(np.expm1(np.minimum(apart, 8)) ** 2 / 8, apart)
        return self._covering(low + bend, high + bend, excess)

    def marked_bounds(self, weights: NDArray[np.float64], sign: Sign) -> NDArray[np.float64]:
        """Corrected `(E f(C) - 1) / lambda`, per user, as `bounds`: for scores of marked users.

        The mean itself is what must stay below chords, so its rise above them is all there is.
        """
        excess = np.expm1(sign * self.laws.atoms * weights[self.laws.weight_of_atom])
        above, rise = self._excess_of_moments(excess), self._rise(weights, sign)
        return self._covering(above[:-1] + rise, above[1:] + rise, excess)

    def _excess_of_moments(self, excess: NDArray[np.float64]) -> NDArray[np.float64]:
        """`E f(C) - 1` at the positive means, or a little more, by `f - 1` at the atoms."""
        laws, means = self.laws, self.laws.means[1:]
        return means * (laws.rates[1:] @ excess + ACCURACY * (laws.rates[1:] @ np.abs(excess)))

    def _covering(
        self, low: NDArray[np.float64], high: NDArray[np.float64], excess: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Bounds per user at all means, from what each cell must have at its two ends."""
        means = self.laws.means[1:]
        bounds = np.full(self.laws.means.size, -np.inf)
        # Each grid point is the end of two cells, and must cover both.
        bounds[1:-1] = low / means[:-1]
        bounds[2:] = np.maximum(bounds[2:], high / means[1:])
        bounds[0] = self._first_cell(excess)
        return bounds

    def _first_cell(self, excess: NDArray[np.float64]) -> float:
        """Bound for all means up to the first: `ln E f <= E f - 1`, term by term."""
        laws, smallest = self.laws, self.laws.means[1]
        single = laws.atoms == 1
        # Only a single user has a first-order term; several together are second order in the mean.
        largest = float(excess[single].max())
        several = laws.rates[1] @ np.where(single, 0, np.maximum(excess, 0))
        first = laws.value_share * (largest if largest > 0 else largest * np.exp(-smallest))
        return float(first + (1 + ACCURACY) * several * np.exp(smallest)) + 1e-15

    def _rise(self, weights: NDArray[np.float64], sign: Sign) -> NDArray[np.float64]:
        """How far `E f(C)` may rise above its chord in each cell, shape (P - 2,)."""
        # The weight from the last start on, which `weight_at` points to.
        tilted = np.append(weights, 0.0)
        f = [
            np.exp(sign * tilted[self.weight_at[step]] * (self.counts + step)) for step in range(3)
        ]
        concave = np.maximum(2 * f[1] - f[0] - f[2], 0)
        dents = np.log(np.maximum((1 + ACCURACY) * self.probabilities @ concave, _UNDERFLOW))
        means = self.laws.means[1:]
        # e^lambda times the mean of the dents is log-convex in ln lambda.
        between = np.maximum(dents[:-1], dents[1:]) + means[1:] * np.diff(np.log(means)) ** 2 / 8
        # Probabilities of counts below the mean fall with it.
        above = means[:-1] >= self.counts[-1]
        between[above] = dents[:-1][above]
        most = math.log(max(self.laws.value_share * float(concave.max()), _UNDERFLOW))
        rise: NDArray[np.float64] = np.diff(means) ** 2 / 8 * np.exp(np.minimum(between, most))
        return rise


def _corrected_exposure(laws: PoissonLaws, sign: Sign) -> NDArray[np.float64]:
    """`F` moved to the unfavourable side by what `lambda F` may be beyond its chords, shape (P,).

    A biased `p F` consists of `p F` at larger and smaller shares, and of a constant.
    """
    means, exposure, most = laws.means[1:], laws.exposure[sign][1:], laws.function.factors[1]
    p = np.minimum(means / laws.mean, 1.0)
    slack = means[1:] * np.maximum(exposure[:-1] - exposure[1:], 0)  # F does not increase
    shares = [factor * p for factor in {*laws.function.factors}]
    # Where two of its parts meet the slope is 0, so the larger bend covers both (bias.md).
    bends = [laws.function.bend(at[:-1], at[1:], sign) for at in shares]
    slack = np.minimum(slack, laws.mean * np.maximum.reduce(bends))
    margin = np.zeros(means.size)
    margin[:-1] = slack / means[:-1]
    margin[1:] = np.maximum(margin[1:], slack / means[1:])
    # Not cut to [0, 1]: part of a cell would be left uncovered (docs/certificate/grid.md).
    corrected = exposure - sign * (margin + most * ACCURACY)
    first = most * (1 + ACCURACY) if sign < 0 else corrected[0]  # of all smaller means
    return np.append(first, corrected)
