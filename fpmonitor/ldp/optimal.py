"""The matrix that tells most, at a given LDP level or at a given average privacy."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import scipy

from fpmonitor.errors import PolicyError, UndecidableError
from fpmonitor.ldp.checks import check_epsilon
from fpmonitor.ldp.fisher import sobol_distributions
from fpmonitor.ldp.integrals import expected_xlogx
from fpmonitor.ldp.mechanisms import StochasticMatrix
from fpmonitor.policy import check_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fpmonitor.ldp.priors import DirichletPrior

MAX_OPTIMAL_VALUES = 12
MAX_UNEQUAL_VALUES = 6
_POINTS = 256
_STEPS = 2_000
_SMALL = 0.01
_TOLERANCE = 1e-4  # of the asymptotic utility times 2 (a - 1), nats
_LEVELS = tuple(np.geomspace(0.05, 12, 24).tolist())  # of the sets, at an average privacy
_NEWTON_STEPS = 60
_CONDITION_ERROR = 1e-8
_CELLS = 4_000_000


def optimal_matrix(
    prior: DirichletPrior,
    epsilon: float | None = None,
    *,
    privacy: float | None = None,
    rng: np.random.Generator,
) -> tuple[StochasticMatrix, NDArray[np.float64]]:
    """Return the matrix of greatest asymptotic utility at an LDP level or an average privacy.

    Args:
        prior: On at most 12 values; on at most 6 where its parameters are not all equal.
        epsilon: LDP level, nats, above 0.
        privacy: Instead: average privacy `S_mu` that is kept at least, a share.
        rng: For the points of the prior at which the utility is averaged.

    Returns:
        The mechanism, a report of which is a set of values; and the probability that a report is a
        set of 1, 2, ... values, shape (a - 1,), averaged over the values.

    Raises:
        PolicyError: The prior has too many values; a number is out of range, or both or neither is
            given.
        UndecidableError: The search did not come within its tolerance.

    Notes:
        "LDP metrics", section 11, leaves it open. A report with the row `r` of the matrix adds `r
        r' / (r.p)` to the Fisher information, which is convex in `r`: to split a report never tells
        less. Rows of an LDP level are sums of such with the entries 1 and `e^epsilon` only
        (Holohan, Leith, Mason 2017, "Extreme points of the local differential privacy polytope"):
        so a report is a set of values, and each value in it `e^epsilon` times as likely as each
        outside; for a symmetric prior sets of equal size are equally likely. At an average privacy,
        whose entropy is a sum over the reports, the family is sets of all sizes and of 24 levels up
        to 12.

        What remains is how often each kind occurs: the mean log determinant is concave in that, and
        Jensen's inequality gives steps that never lose, `w slope / (multipliers . sums + nu cost)`,
        the multiplicative algorithm of optimal designs (Silvey, Titterington, Torsney 1978) with
        more than one condition. The multipliers bound what the result lacks.
    """
    if (epsilon is None) == (privacy is None):
        raise PolicyError("epsilon", "give one of epsilon and privacy")
    alike = len(set(prior.alpha)) == 1
    most = MAX_OPTIMAL_VALUES if alike else MAX_UNEQUAL_VALUES
    if prior.values > most:
        raise PolicyError("values", f"must be at most {most} for this prior, got {prior.values}")
    levels: tuple[float, ...] = _LEVELS
    largest_cost = math.inf
    if epsilon is not None:
        check_epsilon(epsilon)
        levels = (epsilon,)
    if privacy is not None:
        check_share("privacy", privacy)
        largest_cost = (1 - privacy) * prior.value_entropy_given_distribution
    points = sobol_distributions(prior, _POINTS, rng)
    kinds = _kinds(prior, levels, alike=alike)
    sums, costs = _conditions(prior, kinds, alike=alike)
    information = np.array([_information(rows, points) for rows in kinds])
    weights = _best_mixture(information, sums, costs, largest_cost)
    weighted = zip(weights, kinds, strict=True)
    matrix = np.vstack([weight * rows for weight, rows in weighted if weight])
    return StochasticMatrix(matrix / matrix.sum(axis=0)), _sizes(matrix, prior.mean)


def _sizes(matrix: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probability that a report is a set of 1, 2, ... values."""
    middle = (matrix.max(axis=1) + matrix.min(axis=1)) / 2
    size = (matrix > middle[:, None]).sum(axis=1)
    counted = np.bincount(size, weights=matrix @ mean, minlength=matrix.shape[1])
    return np.asarray(counted[1:], dtype=np.float64)


def _kinds(
    prior: DirichletPrior, levels: tuple[float, ...], *, alike: bool
) -> list[NDArray[np.float64]]:
    """Kinds of reports to mix: rows of a matrix, those that a symmetry makes alike together."""
    rows = []
    for level, size in itertools.product(levels, range(1, prior.values)):
        sets = _subsets(prior.values, size, level)
        rows += [sets] if alike else [row[None, :] for row in sets]
    return rows


def _conditions(
    prior: DirichletPrior, rows: Sequence[NDArray[np.float64]], *, alike: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the conditions of a mixture: sums and costs of each kind.

    Sums are those of the rows over the reports, shape (kinds, columns), and a single column where
    all are alike: the mixture sums to 1. Costs are what a kind adds to `I(X; Y | P)`, nats.
    """
    # The mean probability of the value given such a report is 1: prior entropy is not lost.
    costs = []
    for row in rows:
        first = row[:1] if alike else row
        given_value = scipy.special.xlogy(first, first) @ prior.mean
        value_information = given_value - expected_xlogx(first, prior.parameters)
        costs.append(float(value_information.sum()) * len(row) / len(first))
    if alike:
        # Over all sets of a size the mean over the values is that of any one set.
        sums = np.array([[float(row.sum()) / prior.values] for row in rows])
    else:
        # Kinds of single sets: the sum to 1 is a condition for each value.
        sums = np.array([row.sum(axis=0) for row in rows])
    return sums, np.maximum(np.array(costs), 0.0)


def _information(rows: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fisher information of reports at each point, shape (points, a, a)."""
    values = rows.shape[1]
    found = np.zeros((len(points), values, values))
    block = max(1, _CELLS // (len(points) * values))
    for start in range(0, len(rows), block):
        part = rows[start : start + block]
        scaled = (1 / (points @ part.T))[:, :, None] * part
        found += np.matmul(scaled.transpose(0, 2, 1), part)
    return found


def _best_mixture(
    information: NDArray[np.float64],
    sums: NDArray[np.float64],
    costs: NDArray[np.float64],
    largest_cost: float,
) -> NDArray[np.float64]:
    """Weights of the kinds, given the Fisher information of each at the points of the prior."""
    conditions = sums
    limits = np.ones(conditions.shape[1])
    if math.isfinite(largest_cost):
        conditions = np.column_stack([conditions, costs])
        limits = np.append(limits, largest_cost)
    kinds, values = len(sums), information.shape[-1]
    weights = np.full(kinds, 1.0) / (kinds * sums.mean())
    multipliers = np.ones(len(limits))
    gap = math.inf
    slopes = prices = np.ones(kinds)
    for step in range(_STEPS):
        inverse = np.linalg.inv(np.tensordot(weights, information, axes=1))
        slopes = np.einsum("nij,gnji->g", inverse, information) / _POINTS
        gains = weights * slopes
        multipliers = _multipliers(gains, conditions, limits, multipliers)
        prices = conditions @ multipliers
        weights = gains / prices
        if step % 5 == 0:
            # Scaled so that no kind is worth more than its price, they bound every mixture.
            gap = float(multipliers @ limits * (slopes / prices).max()) - values
        if gap <= _TOLERANCE:
            break
    if gap > 50 * _TOLERANCE:
        raise UndecidableError("matrix: no best one was found", hint="choose another level")
    # Less of these kinds tells more; the algorithm only tends to 0.
    shares = weights * sums.mean(axis=1)
    least = _SMALL if math.isinf(largest_cost) else _SMALL / 10
    rare = (shares < least * shares.sum()) & (slopes < prices)
    weights = np.where(rare, 0.0, weights)
    weights[~rare] = _projected(weights[~rare], conditions[~rare], limits)
    return weights


def _projected(
    weights: NDArray[np.float64], conditions: NDArray[np.float64], limits: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the nearest weights that meet the conditions, by proportions."""
    found = weights
    for _ in range(3):
        found = found / (conditions @ _multipliers(found, conditions, limits, np.ones(len(limits))))
    return found


def _multipliers(
    gains: NDArray[np.float64],
    conditions: NDArray[np.float64],
    limits: NDArray[np.float64],
    start: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Multipliers at which `gains / (conditions . multipliers)` meets the limits, by Newton steps.

    They minimise `limits . m - gains . log(conditions . m)`, which is convex. Where the last limit
    is not reached, its multiplier is 0.
    """
    if len(limits) > 1 and conditions.shape[1] == len(limits):
        loose = _newton(gains, conditions[:, :-1], limits[:-1], start[:-1])
        if loose is not None:
            spent = float((gains / (conditions[:, :-1] @ loose)) @ conditions[:, -1])
            if spent <= limits[-1]:
                return np.append(loose, 0.0)
    found = _newton(gains, conditions, limits, start)
    if found is None:
        raise UndecidableError("matrix: no best one was found", hint="choose another level")
    return found


def _newton(
    gains: NDArray[np.float64],
    conditions: NDArray[np.float64],
    limits: NDArray[np.float64],
    start: NDArray[np.float64],
) -> NDArray[np.float64] | None:
    total = float(gains.sum())
    at = start * total / float(start @ limits)

    def height(point: NDArray[np.float64]) -> float:
        prices = conditions @ point
        if not (prices[gains > 0] > 0).all():
            return math.inf
        return float(limits @ point - gains[gains > 0] @ np.log(prices[gains > 0]))

    slope = limits
    for _ in range(_NEWTON_STEPS):
        prices = conditions @ at
        slope = limits - conditions.T @ (gains / prices)
        if np.abs(slope).max() <= 1e-13 * np.abs(limits).max():
            return at
        curvature = (conditions * (gains / prices**2)[:, None]).T @ conditions
        step = np.linalg.lstsq(curvature, -slope)[0]
        scale, here = 1.0, height(at)
        # Near the minimum a full step is right, and heights are equal to all their digits.
        while scale > 1e-12 and height(at + scale * step) > here + 1e-12 * total:
            scale /= 2
        at = at + scale * step
    return at if np.abs(slope).max() <= _CONDITION_ERROR * np.abs(limits).max() else None


def _subsets(values: int, size: int, epsilon: float) -> NDArray[np.float64]:
    """Matrix whose reports are all sets of a size."""
    sets = np.array(list(itertools.combinations(range(values), size)))
    inside = np.zeros((len(sets), values))
    inside[np.arange(len(sets))[:, None], sets] = 1
    with_own = math.comb(values - 1, size - 1)
    without = math.comb(values - 1, size) * math.exp(-epsilon)
    return np.where(inside > 0, 1.0, math.exp(-epsilon)) / (with_own + without)
