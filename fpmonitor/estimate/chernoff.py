"""Worst-case tail bounds of a score of independent Poisson counts, and the best weights for them.

The score of an API set is `S = sum_v C_v h(C_v)`, with `C_v ~ Poisson(mu p_v)` independent. For
a tilt `l > 0` and a sign (-1 for an upper limit of the exposure, +1 for a lower one) let
`w(p) = ln E exp(sign l C h(C)) / p` for `C ~ Poisson(mu p)`, and let `W` be the least concave
function with `W(F(p)) >= w(p)` for all p in (0, 1]. Then for every law of exposure `Q(n, k) = Q`

    ln E exp(sign l S) = sum_v p_v w(p_v) <= W(sum_v p_v F(p_v)) = W(Q),

by Jensen's inequality, because the probabilities sum to 1. Markov's inequality makes it a bound on
the tail of `S`. The supporting lines of `W` are the pairs (a, b) of the theorem in
docs/certificate.md. This module counts in units of `mu`: `w / mu`, `S / mu`, `ln(1/delta) / mu`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.optimize import linprog

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from fpmonitor.estimate.poisson import PoissonLaws

Sign = Literal[-1, 1]

_TILTS = 48
_LARGEST_EXPONENT = 600.0
_ROUNDS = 5
_DESIGN_POINTS = 200
_RAREST_MEMBER = 1e-3  # the reference law starts at this many users of the population
_RARE_SHARE = 1e-3  # share of the reference law that no user of the population has in common
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
        float64, shape (C + 2,): weight of one user by the count of its value; non-increasing.
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

    def critical_scores(self, exposure: float, log_terms: ArrayLike) -> NDArray[np.float64]:
        """Scores that are this extreme with probability at most `exp(-log_term)`.

        For sign -1: `P(S <= score) <= exp(-log_term)` whenever the exposure is at least `exposure`
        (negative when no score is evidence enough). For sign +1: `P(S >= score)` whenever it is at
        most `exposure`.

        Parameters
        ----------
        exposure
            A share of the users.
        log_terms
            `ln(1 / delta)`, nats, any shape.
        """
        bounds = np.array([np.interp(exposure, *envelope) for envelope in self.envelopes])
        per_tilt = (bounds[:, np.newaxis] + np.ravel(log_terms) / self.mean) / self.tilts[:, None]
        return self.sign * self.mean * per_tilt.min(axis=0).reshape(np.shape(log_terms))

    def limit(self, score: float, log_term: float) -> float:
        """Upper (sign -1) or lower (sign +1) confidence limit of the exposure, a share.

        Wrong with probability at most `exp(-log_term)`.
        """
        levels = (self.tilts * score - self.sign * log_term) / self.mean
        if self.sign < 0:
            limits = [
                np.interp(level, -bound, exposure)
                for level, (exposure, bound) in zip(levels, self.envelopes, strict=True)
            ]
            return float(min(limits))
        limits = [
            np.interp(level, bound, exposure)
            for level, (exposure, bound) in zip(levels, self.envelopes, strict=True)
        ]
        return float(max(limits))


def sharpest_bound(laws: PoissonLaws, *, sign: Sign, budget: float, log_term: float) -> TailBound:
    """Tail bound with the weights that decide exposures nearest to the budget.

    The choice depends on the arguments alone, never on data. Sharpest means: under a reference law
    with log-uniform probabilities, the true exposure that is just certified to be within the budget
    is the largest (sign -1), the one that is just certified to be above it the smallest (sign +1).

    Parameters
    ----------
    laws
        Laws of the counts.
    sign
        -1 for an upper limit, +1 for a lower limit.
    budget
        `Q*`, a share of the users.
    log_term
        `ln(1 / delta)`, nats.

    Notes
    -----
    For `phi = l c h(c)` the conditions `ln E exp(sign phi) / p <= alpha F(p) + beta` are convex, and
    the certified share of the budget is a ratio of linear functions of (phi, alpha, beta). The
    linear programme replaces each condition by its tangents at the solutions found so far, and is
    made linear in the ratio by the substitution of Charnes and Cooper (1962). Whatever it
    returns, the bound is made valid afterwards for exactly these weights.
    """
    exposure, reference = laws.exposure, _reference_scores(laws)
    weights = np.minimum.accumulate(_first_weights(laws))
    best = _bound(laws, weights, sign)
    tangents = [_tangents(laws, np.zeros_like(weights), sign)]
    for _ in range(_ROUNDS):
        tilt = _best_tilt(best, budget, log_term)
    return best
