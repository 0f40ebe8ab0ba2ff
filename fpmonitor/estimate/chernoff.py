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

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from fpmonitor.estimate.poisson import PoissonLaws

Sign = Literal[-1, 1]

_TILTS = 48
_NEAR_TILTS = np.geomspace(0.4, 2.5, 7)
_LARGEST_EXPONENT = 600.0
_ROUNDS, _STEP = 8, 0.7
_FREE_ROUNDS, _FREE_STEP = 24, 0.3
_MOST_FREE_WEIGHTS = 40  # with more, weights that need not be monotone gain less than 0.5 %
_KEPT_TANGENTS, _FREE_KEPT_TANGENTS = 300, 1200
_MOST_ITERATIONS = 10_000  # of one linear programme; the usual number is below 2,000
_LARGEST_WEIGHT = 30.0  # of weights that need not be monotone
_SMALLEST_FACTOR = 1e-9
_DESIGN_POINTS = 150
_RAREST_MEMBER = 1e-3  # the reference distribution starts at this many users of the population
_RARE_SHARE = 1e-3  # share of the reference distribution on values that no two users share
_EXPOSURE_ROUNDING = 1e-9  # F(p) has no digits left for what it lacks to 1
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

    def critical_scores(self, exposure: float, log_terms: ArrayLike) -> NDArray[np.float64]:
        """Scores that are this extreme with probability at most `exp(-log_term)`.

        For sign -1: `P(S <= score) <= exp(-log_term)` whenever the exposure is at least `exposure`
        (negative when no score is evidence enough). For sign +1: `P(S >= score)` whenever it is at
        most `exposure` (above `mu` when only a large number of kept users could give such a score).

        Parameters
        ----------
        exposure
            A share of the users.
        log_terms
            `ln(1 / delta)`, nats, any shape.
        """
        bounds = np.array([np.interp(exposure, *envelope) for envelope in self.envelopes])
        prices = np.asarray(log_terms, dtype=np.float64) / self.mean
        per_tilt = np.add.outer(prices, bounds) / self.tilts
        critical: NDArray[np.float64] = self.sign * self.mean * per_tilt.min(axis=-1)
        return critical

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
        return max(limits) if self.sign > 0 else min(limits)


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
    distributions
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

    Notes
    -----
    For `phi = l c h(c)` the conditions `ln E exp(sign phi) / p <= alpha F(p) + beta` are convex,
    and the certified share of the budget is a ratio of linear functions of (phi, alpha, beta). The
    linear programme replaces each condition by its tangents at the points tried so far, and the
    substitution of Charnes and Cooper (1962) makes it linear in the ratio. Whatever it returns,
    the bound is made valid afterwards for exactly these weights.
    """
    design = _Design(laws=laws, sign=sign, budget=budget, price=log_term / laws.mean)
    best = _tail_bound(laws, design.first_weights(), sign)
    best = design.improve(best, rounds=_ROUNDS, step=_STEP, monotone=True)
    if not monotone and laws.population > laws.mean and laws.starts.size <= _MOST_FREE_WEIGHTS:
        best = design.improve(best, rounds=_FREE_ROUNDS, step=_FREE_STEP, monotone=False)
    return _tail_bound(laws, best.weights[laws.starts[:-1]], sign)


def exposed_users_bound(laws: PoissonLaws, tilts: NDArray[np.float64]) -> TailBound:
    """Tail bound of the number of exposed users of a population of random size, for some tilts.

    Parameters
    ----------
    laws
        Of `poisson.small_group_laws`.
    tilts
        float64, increasing, positive.
    """
    return _tail_bound(laws, np.ones(1), 1, tilts=tilts)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Design:
    """The programme whose solution are the weights of a bound; `price` is `ln(1/delta) / mu`."""

    laws: PoissonLaws
    sign: Sign
    budget: float
    price: float

    def improve(self, best: TailBound, *, rounds: int, step: float, monotone: bool) -> TailBound:
        """Best bound found by a number of linear programmes, not worse than the given one.

        Each round goes a `step` of the way from the best weights so far to those of the programme.
        """
        inside = self.tilted_weights(best)
        tangents = np.vstack([self.tangents(np.zeros_like(inside)), self.tangents(inside)])
        for _ in range(rounds):
            solution = self.solve(tangents, monotone=monotone)
            if solution is None:
                break
            outside, slack = solution
            tried = self._tame(inside + step * (outside - inside), inside)
            if monotone:  # the solver keeps its conditions up to a tolerance only
                tried = np.maximum(np.minimum.accumulate(tried), 0)
            bound = _tail_bound(self.laws, tried, self.sign, tilts=tried[0] * _NEAR_TILTS)
            nearest = np.argsort(slack)[: _KEPT_TANGENTS if monotone else _FREE_KEPT_TANGENTS]
            added = [self.tangents(tried), self.tangents(self.tilted_weights(bound))]
            tangents = np.vstack([tangents[nearest], *added])
            if self.sign * (self.certified_exposure(best) - self.certified_exposure(bound)) > 0:
                best, inside = bound, self.tilted_weights(bound)
        return best

    def first_weights(self) -> NDArray[np.float64]:
        """Weights to start from: the exposure probability at the observed share."""
        weights = np.interp(self.laws.starts[:-1], self.laws.means, self.laws.exposure)
        weights[0] = 1
        return weights

    def certified_exposure(self, bound: TailBound) -> float:
        """Exposure under the reference distribution whose mean score is just the critical score."""
        critical = bound.critical_scores(self.budget, self.price * bound.mean) / bound.mean
        weights = bound.weights[self.laws.starts[:-1]]
        return float(critical * self._reference() @ self.laws.exposure / (self._scores() @ weights))

    def tilted_weights(self, bound: TailBound) -> NDArray[np.float64]:
        """Free weights times the best tilt."""
        levels = [np.interp(self.budget, *envelope) for envelope in bound.envelopes]
        best = int(np.argmin((np.array(levels) + self.price) / bound.tilts))
        return float(bound.tilts[best]) * bound.weights[self.laws.starts[:-1]]

    def tangents(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows of `A x <= 0` that touch the conditions at tilted `weights`.

        `x` holds the weights, the factor of Charnes and Cooper, alpha and beta.
        """
        laws = self.laws
        points = np.unique(np.linspace(0, laws.means.size - 1, _DESIGN_POINTS).astype(np.intp))
        exponents = self.sign * laws.atoms * weights[laws.weight_of_atom]
        rates, means = laws.rates[points], laws.means[points]
        values = laws.cumulants(self.sign * exponents, self.sign)[points]
        moments = np.exp(means * values)
        slopes = self.sign * rates * (laws.atoms * np.exp(exponents)) / moments[:, np.newaxis]
        slopes = _sum_by_weight(laws, slopes)
        offsets = values - slopes @ weights
        return np.column_stack([slopes, offsets, -laws.exposure[points], -np.ones(points.size)])

    def solve(
        self, tangents: NDArray[np.float64], *, monotone: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Best tilted weights within the tangents, and how far each is from being touched.

        None if the programme has no solution or the solver gives up.
        """
        free = self.laws.starts.size - 1
        shape = _non_increasing(free) if monotone else _limited(free)
        rows = np.vstack([np.pad(shape, ((0, 0), (0, 3))), tangents])
        alpha = (None, 0) if self.sign < 0 else (0, None)
        solution = scipy.optimize.linprog(
            np.concatenate([np.zeros(free), [self.price, self.budget, 1]]),
            A_ub=rows,
            b_ub=np.zeros(len(rows)),
            A_eq=np.concatenate([self._scores(), np.zeros(3)])[np.newaxis],
            b_eq=[1],
            bounds=[(None, None)] * free + [(_SMALLEST_FACTOR, None), alpha, (None, None)],
            method="highs",
            options={"maxiter": _MOST_ITERATIONS},
        )
        if solution.status != 0 or solution.x[free] <= 0:
            return None
        return solution.x[:free] / solution.x[free], solution.slack[len(shape) :]

    def _tame(
        self, weights: NDArray[np.float64], inside: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Tilted weights without scores far beyond those of the weights `inside`."""
        counts = self.laws.starts[1:] - 1
        largest = np.clip(2 * np.abs(inside * counts).max(), 5, _LARGEST_EXPONENT)
        return np.clip(weights, -largest / counts, largest / counts)

    def _reference(self) -> NDArray[np.float64]:
        """Shares of users in the reference distribution at the means of the grid, shape (P,)."""
        rarest = _RAREST_MEMBER * self.laws.mean / self.laws.population
        shares = np.gradient(np.log(self.laws.means[1:])) * (self.laws.means[1:] >= rarest)
        return np.append(_RARE_SHARE, (1 - _RARE_SHARE) * shares / shares.sum())

    def _scores(self) -> NDArray[np.float64]:
        """Mean score per kept user, reference distribution, for a unit of each weight; (W,)."""
        return _sum_by_weight(self.laws, (self._reference() @ self.laws.rates) * self.laws.atoms)


def _sum_by_weight(laws: PoissonLaws, by_atom: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum over the atoms of each free weight, along the last axis."""
    chosen = laws.weight_of_atom[:, np.newaxis] == np.arange(laws.starts.size - 1)
    by_weight: NDArray[np.float64] = by_atom @ chosen.astype(np.float64)
    return by_weight


def _non_increasing(size: int) -> NDArray[np.float64]:
    """Rows of `A x <= 0` that say: x does not increase, and ends at 0 or above."""
    return np.eye(size, k=1) - np.eye(size)


def _limited(size: int) -> NDArray[np.float64]:
    """Rows of `A x <= 0` that say: no |x| exceeds a multiple of the first."""
    rows = np.vstack([np.eye(size), -np.eye(size)])
    rows[:, 0] -= _LARGEST_WEIGHT
    return rows


def _tail_bound(
    laws: PoissonLaws,
    weights: NDArray[np.float64],
    sign: Sign,
    tilts: NDArray[np.float64] | None = None,
) -> TailBound:
    """Tail bound for given free weights, scaled to 1 for a single user and rounded.

    For the given tilts as far as the numerics go, or for all that may ever be useful.
    """
    weights = np.round(weights / weights[0] / _WEIGHT_UNIT) * _WEIGHT_UNIT
    scores = laws.atoms * weights[laws.weight_of_atom]
    largest = _LARGEST_EXPONENT / np.abs(scores).max()
    if tilts is None:
        smallest = min(1e-3 * math.sqrt(largest / laws.mean), largest) / 100
        tilts = np.geomspace(smallest, min(largest, 8), _TILTS)
    tilts = np.minimum(tilts, largest)
    margin = laws.between(laws.exposure) + _EXPOSURE_ROUNDING
    exposure = np.clip(laws.exposure - sign * margin, 0, 1)
    envelopes = []
    for tilt in tilts:
        cumulants = laws.cumulants(scores, sign * tilt)
        envelopes.append(_envelope(exposure, cumulants + laws.between(cumulants), sign))
    return TailBound(
        sign=sign,
        mean=laws.mean,
        weights=laws.weight_by_count(weights),
        tilts=tilts,
        envelopes=tuple(envelopes),
    )


def _envelope(
    exposure: NDArray[np.float64], bound: NDArray[np.float64], sign: Sign
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Vertices of the least concave function above the points, on one side of its maximum."""
    corners: list[tuple[float, float]] = []
    order = np.lexsort((bound, exposure))
    for x, y in zip(exposure[order].tolist(), bound[order].tolist(), strict=True):
        while corners and (corners[-1][0] == x or (len(corners) > 1 and _below(corners, x, y))):
            corners.pop()
        corners.append((x, y))
    vertices = np.array(corners)
    top = int(np.argmax(vertices[:, 1]))
    side = vertices[top:] if sign < 0 else vertices[: top + 1]
    return side[:, 0], side[:, 1]


def _below(corners: list[tuple[float, float]], x: float, y: float) -> bool:
    """Whether the last corner lies on or below the line from the one before it to (x, y)."""
    (x0, y0), (x1, y1) = corners[-2:]
    return (y1 - y0) * (x - x0) <= (y - y0) * (x1 - x0)
