"""The sharpest weights of a score: a convex programme, solved by an interior-point method.

With tilted weights `w`, `phi(c) = w(c) c`, and a line `(a, b)` in units of the price of one user,
the certified share of the budget under a reference law is the ratio of `N = a Q* + b + 1` to the
mean tilted score `D`, under the conditions `ln E exp(sign phi(C)) / lambda <= a F + b` at every
grid point, which are convex. Where some rows are no users, what they may hide is taken off: their
number times the largest fall of `phi` from one count to the next, another unknown. The ratio is
raised step by step (Dinkelbach 1967) within a primal-dual method with slack variables (Wright
1997, "Primal-Dual Interior-Point Methods").

With a fixed ratio of 1 the same programme maximises the mean logarithm of the e-value under a law:
its weights grow fastest there, and their value is the most that any score could tell of it.

Only sharpness rests on this module: whatever it returns, the bound is proved for it afterwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy

from fpmonitor.estimate.poisson import (
    SMALLEST_MOMENT,
    PoissonLaws,
    log_moments,
    sees_far,
    tail_nats,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.estimate.exposure import Sign

_EVERY, _POINTS = 2, 1000  # of the grid; the bound takes all of its points
_GROWING_POINTS = 250  # of a menu of designs: two thirds of the time, and no limit differs by 1 %
_FAR_POINTS = 150  # where weights end late: a third of the time, for limits that differ by 0.5 %
_LARGEST_SCORE = 60.0  # tilted, of one value
_LARGEST_EXPONENT = 600.0
_MOST_STEPS = 200
_GAP, _VIOLATION = 2e-3, 0.02  # in prices
_STRAYED = 10.0  # times the gap; to go back to the conditions earlier takes twice the steps
_TO_THE_BORDER = 0.995
_SHORTER, _MOST_SHORTENINGS = 0.6, 25
_RAREST_MEMBER = 1e-3  # the reference law starts at this many users of the population
_RARE_SHARE = 1e-3  # share of the reference law on values that no two users share
_UNIT = 3.0  # nats: what makes a difference to an e-value


def sharpest_weights(
    laws: PoissonLaws,
    *,
    sign: Sign,
    budget: float,
    log_term: float,
    monotone: bool,
    fakes: float = 0.0,
) -> NDArray[np.float64]:
    """Tilted free weights that decide exposures nearest to the budget, shape (W,).

    Args:
        sign: -1 for an upper limit, +1 for a lower limit.
        log_term: `ln(1 / level)`, nats.
        monotone: Whether the weights must not be negative nor increase with the count.
        fakes: Number of rows that are no users.
    """
    programme = _Programme(
        laws, sign, budget, log_term / laws.mean, monotone, fakes / log_term, reference_law(laws)
    )
    return programme.solve()


def growing_weights(
    laws: PoissonLaws,
    shares: NDArray[np.float64],
    *,
    sign: Sign,
    budget: float,
    monotone: bool,
    fakes: float = 0.0,
) -> NDArray[np.float64]:
    """Tilted free weights whose e-value has the greatest mean logarithm under a law, shape (W,).

    Args:
        shares: float64, shape (P,): share of the users with values at each mean of the grid.
    """
    price = _UNIT / laws.mean
    return _Programme(laws, sign, budget, price, monotone, fakes / _UNIT, shares, ratio=1.0).solve()


def reference_law(laws: PoissonLaws) -> NDArray[np.float64]:
    """Shares of users with values at the means of the grid, log-uniform, shape (P,)."""
    rarest = _RAREST_MEMBER * laws.mean / laws.function.population
    shares = np.gradient(np.log(laws.means[1:])) * (laws.means[1:] >= rarest)
    return np.append(_RARE_SHARE, (1 - _RARE_SHARE) * shares / shares.sum())


class _State(NamedTuple):
    """Values at one point: what each condition has left, and the moments of all grid points."""

    left: NDArray[np.float64]
    moments: NDArray[np.float64]
    powers: NDArray[np.float64]


@dataclass(slots=True)
class _Programme:
    """Unknowns are the parameters of the weights, `a` and `b` in prices; and the largest fall.

    The last one is there only where some rows are no users. `shares` is the law of the mean score;
    without a fixed `ratio` the best one is sought.
    """

    laws: PoissonLaws
    sign: Sign
    budget: float
    price: float
    monotone: bool
    fakes: float
    shares: NDArray[np.float64]
    ratio: float | None = None
    basis: NDArray[np.float64] = field(init=False)
    exponent: NDArray[np.float64] = field(init=False)
    start: NDArray[np.float64] = field(init=False)
    mean_score: NDArray[np.float64] = field(init=False)
    rows: NDArray[np.float64] = field(init=False)
    offset: NDArray[np.float64] = field(init=False)
    rates: NDArray[np.float64] = field(init=False)
    means: NDArray[np.float64] = field(init=False)
    unweighted: NDArray[np.float64] = field(init=False)
    exposure: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        laws = self.laws
        last = laws.means.size - 1
        wanted = _POINTS if self.ratio is None else _GROWING_POINTS
        if sees_far(laws.mean, laws.function):
            wanted = _FAR_POINTS
        chosen = np.unique(np.append(np.arange(0, last, max(_EVERY, last // wanted)), last))
        size = laws.starts.size - 1
        self.rates, self.means = laws.rates[chosen], laws.means[chosen]
        self.exposure = laws.exposure[self.sign][chosen]
        self.unweighted = laws.unweighted[chosen]
        by_atom = (self.shares @ laws.rates) * laws.atoms
        first = np.interp(laws.starts[:-1], laws.means, laws.exposure[self.sign])
        # The flat bins are surely exposed; the grid may start beyond them.
        first[0] = 1.0
        ends = (laws.starts[1:] - 1).astype(np.float64)
        weights = self._best_tilt(first[laws.weight_of_atom], by_atom) * first
        most = max(_LARGEST_SCORE, 1.2 * tail_nats(laws.mean, laws.function))
        largest = max(most, 2 * float(np.abs(weights * ends).max()))
        unit = float(weights[0])
        # Monotone weights by their drops: by the weights themselves Newton's method stalls.
        if self.monotone:
            self.basis = np.triu(np.ones((size, size))) * unit
            weights = np.maximum.accumulate(weights[::-1])[::-1]
            weights = weights + 1e-3 * unit * np.linspace(1, 0.5, size)
            shape = np.eye(size)
        else:
            self.basis = np.diag(unit * ends[0] / ends)
            shape = np.empty((0, size))
        # The average over thinnings smooths what happens within a bin.
        falls = (np.diag(ends) - np.diag(ends[1:], 1)) @ self.basis
        falls /= np.append(np.diff(ends), 1)[:, np.newaxis]
        falls = falls[: size if self.fakes else 0]
        by_weight = self.basis[laws.weight_of_atom]
        self.exponent = self.sign * laws.atoms[:, np.newaxis] * by_weight
        box = (ends / largest)[:, np.newaxis] * self.basis
        points = self.means.size
        linear = np.vstack([shape, -falls, -box, box])
        self.rows = np.zeros((points + len(linear) + 1, size + self.prices.size))
        self.rows[:points, size], self.rows[:points, size + 1] = self.exposure, 1.0
        self.rows[points:-1, :size] = linear
        self.rows[points + len(shape) : -1 - 2 * size, size + 2 :] = 1.0
        self.rows[-1, size] = self.sign
        self.offset = np.zeros(len(self.rows))
        self.offset[-1 - 2 * size : -1] = 1.0
        self.mean_score = by_atom @ by_weight / self.price
        parameters = np.linalg.solve(self.basis, weights)
        others = np.zeros(self.prices.size)
        others[2:] = (falls @ parameters).max(initial=0.0) + 0.1
        self.start = self._with_line(np.concatenate([parameters, others]))

    @property
    def prices(self) -> NDArray[np.float64]:
        """What a unit of each of the other unknowns adds to `N`."""
        return np.array([self.budget, 1.0, self.fakes][: 3 if self.fakes else 2])

    def _best_tilt(self, weights: NDArray[np.float64], by_atom: NDArray[np.float64]) -> float:
        """Tilt of given weights at the atoms with the best certified share, without margins."""
        mean = float(by_atom @ weights)
        if not mean:  # this law has no value near the threshold, and all tilts are alike
            return 1.0
        tilts = np.geomspace(1e-3, 8, 40)
        tilts = tilts[tilts * np.abs(self.laws.atoms * weights).max() <= _LARGEST_EXPONENT]

        # The edge above the budget is enough: with all vertices of each tilt's envelope, ten limits
        # took 2.0 s, and 1.3 s so.
        def share(place: int) -> float:
            tilt = tilts[place]
            level = self._level(self._bounds(self.sign * tilt * self.laws.atoms * weights)[0])
            return float(-(level + self.price) / (tilt * mean))

        # The level is the most of functions that are convex in the tilt, so the share has one peak:
        # a quarter of the tilts tell it.
        low, high = 0, tilts.size - 1
        while low < high:
            middle = (low + high) // 2
            if share(middle) < share(middle + 1):
                low = middle + 1
            else:
                high = middle
        return float(tilts[low]) if tilts.size else 1.0

    def _bounds(
        self, exponents: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """`ln E f(C) / lambda` at the grid points, nats per user; `E f(C)`; `f` at the atoms."""
        powers = np.exp(exponents)
        rate = self.rates @ np.expm1(exponents)
        moments = self.unweighted + self.means * (self.rates @ powers)
        bounds = log_moments(self.means[1:] * rate[1:], moments[1:]) / self.means[1:]
        return np.concatenate((rate[:1], bounds)), np.maximum(moments, SMALLEST_MOMENT), powers

    def _level(self, bounds: NDArray[np.float64]) -> float:
        """Least `a Q* + b` over the lines above all grid points, nats per user."""
        return least_level(self.sign * self.exposure, bounds, self.sign * self.budget)

    def _with_line(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Take the best line for the weights of `x`, strictly above all grid points."""
        points, size = self.means.size, x.size - self.prices.size
        bounds = -self.state(x).left[:points]
        corners = envelope(self.exposure, bounds, self.sign)
        slope, _ = best_line(corners, self.exposure, bounds, self.sign, self.budget)
        # Strictly inside: an interior-point method cannot start on the border.
        x[size] = self.sign * max(self.sign * slope, 1e-6)
        x[size + 1] = float((bounds - x[size] * self.exposure).max()) + 0.1
        return x

    def state(self, x: NDArray[np.float64]) -> _State:
        """Evaluate all conditions."""
        size, points = x.size - self.prices.size, self.means.size
        exponents = np.minimum(self.exponent @ x[:size], _LARGEST_EXPONENT)
        bounds, moments, powers = self._bounds(exponents)
        left = self.offset + self.rows @ x
        left[:points] -= bounds / self.price
        return _State(left, moments, powers)

    def gradient(self, state: _State) -> NDArray[np.float64]:
        """Gradients of all bounds at the grid points by the parameters, in prices, shape (P, W)."""
        gradient = self.rates @ (self.exponent * state.powers[:, np.newaxis])
        gradient /= self.price * state.moments[:, np.newaxis]
        return gradient

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")  # `_solved` stops there
    def system(
        self,
        state: _State,
        dual: NDArray[np.float64],
        slack: NDArray[np.float64],
        rows: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Matrix of Newton's method: of the conditions, whose gradients are `rows`, and curvature.

        The second derivatives of a bound are those of its moment, less its gradient times itself.
        """
        by_row = dual / slack
        matrix = np.empty((rows.shape[1],) * 2)
        size = rows.shape[1] - self.prices.size
        matrix[:, size:] = rows.T @ (rows[:, size:] * by_row[:, np.newaxis])
        matrix[size:] = matrix[:, size:].T
        points = self.means.size
        by_row[:points] -= dual[:points] * self.means * self.price
        inner = rows[:, :size]
        matrix[:size, :size] = (inner * by_row[:, np.newaxis]).T @ inner
        second = (dual[:points] / state.moments) @ self.rates * state.powers / self.price
        matrix[:size, :size] += (self.exponent.T * second) @ self.exponent
        return matrix

    def merit(self, x: NDArray[np.float64], state: _State) -> float:
        """Return what is to be large, once `b` is raised until all conditions hold."""
        size = self.mean_score.size
        score = float(self.mean_score @ x[:size])
        cost = float(x[size:] @ self.prices) - min(float(state.left[: self.means.size].min()), 0)
        if self.ratio is not None:
            return self.sign * self.ratio * score - cost
        return -(cost + 1) / score if score > 0 else -math.inf

    def solve(self) -> NDArray[np.float64]:
        """Tilted weights of the best feasible point on the way."""
        points, size = self.means.size, self.mean_score.size
        x = self.start
        state = self.state(x)
        slack = state.left.copy()  # linear conditions stay strictly satisfied
        slack[:points] = np.maximum(slack[:points], 1.0)
        dual = 1 / slack
        best, best_point, centring = self.merit(x, state), x, 0.2
        rows = self.rows.copy()
        for _ in range(_MOST_STEPS):
            rows[:points, :size] = -self.gradient(state)
            miss, gap = state.left - slack, float(dual @ slack)
            if gap < _GAP and np.abs(miss).max() < _VIOLATION:
                break
            # Dinkelbach: the ratio reached so far takes the place of the one sought.
            by_score = best if self.ratio is None else -self.sign * self.ratio
            cost = np.append(by_score * self.mean_score, self.prices)
            target = centring * gap / slack.size
            move = _solved(
                self.system(state, dual, slack, rows),
                rows.T @ ((target - dual * miss) / slack) - cost,
            )
            if move is None:
                break
            slack_move = rows @ move + miss
            dual_move = (target - dual * slack - dual * slack_move) / slack
            length = min(_length(slack, slack_move), _length(dual, dual_move))
            allowed = 1.5 * np.abs(miss).max() + 0.1 + 0.3 * gap
            for _ in range(_MOST_SHORTENINGS):  # where the curvature is too strong, go less far
                state = self.state(x + length * move)
                missed = np.abs(state.left - slack - length * slack_move).max()
                if missed <= allowed:
                    break
                length *= _SHORTER
            x = x + length * move
            slack, dual = slack + length * slack_move, dual + length * dual_move
            centring = 0.1 if length > 0.7 else 0.3 if length > 0.2 else 0.7
            if np.abs(state.left - slack).max() > _STRAYED * float(dual @ slack) + 1:
                centring = 1.0
            merit = self.merit(x, state)
            if merit > best:
                best, best_point = merit, x
        weights = self.basis @ best_point[:size]
        # Drops may be negative by rounding, on which the order of sets must not hang.
        return np.maximum(np.minimum.accumulate(weights), 0) if self.monotone else weights


def _length(values: NDArray[np.float64], moves: NDArray[np.float64]) -> float:
    """How much of a move keeps positive values positive."""
    down = moves < 0
    return min(1.0, _TO_THE_BORDER * float((-values[down] / moves[down]).min(initial=np.inf)))


def _solved(matrix: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Solve a symmetric system that may be nearly singular; None if it holds no numbers."""
    if not np.isfinite(matrix).all():
        return None
    scale = 1 / np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    scaled = matrix * scale[:, np.newaxis] * scale
    # Weights of nearly equal bins make the matrix singular but for rounding.
    scaled[np.diag_indices(scale.size)] += 1e-13
    # LAPACK itself: half of the time of cho_factor and cho_solve is what they do around it.
    factor, failed = scipy.linalg.lapack.dpotrf(scaled, clean=False)
    if failed:
        solution = np.linalg.lstsq(scaled, scale * right, rcond=1e-14)[0]
    else:
        solution = scipy.linalg.lapack.dpotrs(factor, scale * right)[0]
    moved: NDArray[np.float64] = scale * solution
    return moved


def best_line(
    corners: tuple[NDArray[np.float64], NDArray[np.float64]],
    exposure: NDArray[np.float64],
    bounds: NDArray[np.float64],
    sign: Sign,
    budget: float,
) -> tuple[float, float]:
    """Line `a F + b` above all points that is least at the budget, with `a` of the sign `sign`.

    `corners` are the points' `envelope`.
    """
    x, y = corners
    right = int(np.searchsorted(x, budget, side="right"))
    if x.size == 1 or not 0 < right < x.size:
        return 0.0, float(y.max())
    slope = float(y[right] - y[right - 1]) / float(x[right] - x[right - 1])
    slope = sign * max(sign * slope, 0.0)
    return slope, float((bounds - slope * exposure).max())


def least_level(x: NDArray[np.float64], y: NDArray[np.float64], place: float) -> float:
    """Least value at a place of the lines above all points that do not fall, as `best_line`'s.

    The edge of the envelope above the place is found from two points by the point that is highest
    above their line, which takes the place of one: a few steps, where all vertices take hundreds.
    """
    left, right = int(np.lexsort((-y, x))[0]), int(np.argmax(y))
    if not x[left] <= place < x[right]:
        return float(y[right])
    level = -np.inf
    for _ in range(x.size):  # every step passes a point
        slope = (y[right] - y[left]) / (x[right] - x[left])
        above = y - slope * x
        highest = int(np.argmax(above))
        level = float(above[highest] + slope * place)
        if not above[highest] > max(above[left], above[right]):
            break
        left, right = (highest, right) if x[highest] <= place else (left, highest)
    return level


def envelope(
    exposure: NDArray[np.float64], bound: NDArray[np.float64], sign: Sign
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Vertices of the least concave function above the points, on one side of its maximum."""
    # Of equal exposures the highest bound comes last, and takes the place of the others.
    order = np.lexsort((bound, exposure))
    xs: list[float] = []
    ys: list[float] = []
    for x, y in zip(exposure[order].tolist(), bound[order].tolist(), strict=True):
        # The last corner goes where it is on or below the line from the one before it.
        while xs and (
            xs[-1] == x
            or (
                len(xs) > 1 and (ys[-1] - ys[-2]) * (x - xs[-2]) <= (y - ys[-2]) * (xs[-1] - xs[-2])
            )
        ):
            xs.pop()
            ys.pop()
        xs.append(x)
        ys.append(y)
    top = int(np.argmax(ys))
    side = slice(top, None) if sign < 0 else slice(top + 1)
    return np.array(xs)[side], np.array(ys)[side]
