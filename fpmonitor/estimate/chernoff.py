"""Worst-case tail bounds of a score of independent Poisson counts, and the best weights for them.

The score of an API set is `S = sum_v C_v h(C_v)`, with `C_v ~ Poisson(mu p_v)` independent. For
a tilt `l > 0` and a sign (-1 for an upper limit of the exposure, +1 for a lower one) let
`w(p) = ln E exp(sign l C h(C)) / p` for `C ~ Poisson(mu p)`, and let `W` be the least concave
function with `W(F(p)) >= w(p)` for all p in (0, 1]. Then for every distribution of exposure `Q(n,
k) = Q`

    ln E exp(sign l S) = sum_v p_v w(p_v) <= W(sum_v p_v F(p_v)) = W(Q),

by Jensen's inequality, because the probabilities sum to 1. Markov's inequality makes it a bound on
the tail of `S`. The supporting lines of `W` are the pairs (a, b) of the theorem in
docs/certificate.md. This module counts in units of `mu`: `w / mu`, `S / mu`, `ln(1/delta) / mu`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.estimate.margins import Cells
from fpmonitor.estimate.programme import envelope, sharpest_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.estimate.margins import Sign
    from fpmonitor.estimate.poisson import PoissonLaws

_TILTS = np.unique(np.concatenate([np.geomspace(0.25, 4, 33), np.geomspace(1e-3, 1e2, 31)]))
_LARGEST_EXPONENT = 600.0
_WEIGHT_UNIT = 2.0**-20  # sums of such weights are exact for 10^8 users, in any order


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TailBound:
    """For each tilt, the bound `W` of the log moment of the score as a function of the exposure.

    Attributes
    ----------
    sign
        -1: bounds exposure from above, by scores that are too small. +1: from below.
    mean
        `mu`, mean number of kept users.
    weights
        float64, shape (C + 2,): weight of one user by the count of its value.
    tilts
        float64, shape (T,), positive.
    envelopes
        For each tilt the vertices of `W / mu`: exposures (increasing) and values, on the side of
        its maximum where `W` falls (sign -1) or rises (sign +1).
    """

    sign: Sign
    mean: float
    weights: NDArray[np.float64]
    tilts: NDArray[np.float64]
    envelopes: tuple[tuple[NDArray[np.float64], NDArray[np.float64]], ...]

    def limit(self, score: float, log_term: float | NDArray[np.float64]) -> float:
        """Upper (sign -1) or lower (sign +1) confidence limit of the exposure, a share.

        Wrong with probability at most `exp(-log_term)`. For a lower limit, scores above `mu` count
        as `mu`: no exposure explains them, only a large number of kept users does. `log_term` may
        be another one for each tilt, shape (T,).
        """
        if self.sign > 0:
            score = min(score, self.mean)
        levels = (self.tilts * score - self.sign * log_term) / self.mean
        limits = [
            float(np.interp(level, self.sign * bound, exposure))
            for level, (exposure, bound) in zip(levels, self.envelopes, strict=True)
        ]
        limit = max(limits) if self.sign > 0 else min(limits)
        return min(max(limit, 0.0), 1.0)  # corrected exposures may be a little outside


def sharpest_bound(
    laws: PoissonLaws, *, sign: Sign, budget: float, log_term: float, monotone: bool = True
) -> TailBound:
    """Tail bound with the weights that decide exposures nearest to the budget.

    The choice depends on the arguments alone, never on data. Sharpest means: under a reference
    distribution with log-uniform probabilities, the true exposure that is just certified to be
    within the budget is the largest (sign -1), the one that is just certified to be above it the
    smallest (sign +1).

    Parameters
    ----------
    laws
        Distributions of the counts.
    sign
        -1 for an upper limit, +1 for a lower limit.
    budget
        `Q*`, a share of the users.
    log_term
        `ln(1 / delta)`, nats.
    monotone
        Whether the weights must not be negative nor increase with the count, so that the score
        grows with the API set. Other weights are sharper for populations above the sample.
    """
    weights = sharpest_weights(laws, sign=sign, budget=budget, log_term=log_term, monotone=monotone)
    tilt = float(weights[0])
    weights = np.round(weights / tilt / _WEIGHT_UNIT) * _WEIGHT_UNIT
    return _tail_bound(laws, weights, sign, tilt * _TILTS)


def exposed_users_bound(laws: PoissonLaws, tilts: NDArray[np.float64]) -> TailBound:
    """Tail bound of the number of exposed users of a population of random size, for some tilts.

    Parameters
    ----------
    laws
        Of `poisson.small_group_laws`.
    tilts
        float64, increasing, positive.
    """
    return _tail_bound(laws, np.ones(1), 1, tilts)


def _tail_bound(
    laws: PoissonLaws, weights: NDArray[np.float64], sign: Sign, tilts: NDArray[np.float64]
) -> TailBound:
    """Tail bound of given weights, for the given tilts as far as the numerics go."""
    largest = _LARGEST_EXPONENT / np.abs(laws.atoms * weights[laws.weight_of_atom]).max()
    tilts = np.minimum(tilts, largest)
    cells = Cells.of(laws)
    return TailBound(
        sign=sign,
        mean=laws.mean,
        weights=laws.weight_by_count(weights),
        tilts=tilts,
        envelopes=tuple(
            envelope(cells.exposure[sign], cells.bounds(tilt * weights, sign), sign)
            for tilt in tilts
        ),
    )
