"""The matrix that tells most at a given LDP level, for a prior under which all values are alike."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.errors import PolicyError, UndecidableError
from fpmonitor.ldp.checks import check_epsilon
from fpmonitor.ldp.fisher import sobol_distributions
from fpmonitor.ldp.mechanisms import StochasticMatrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.ldp.priors import DirichletPrior

MAX_OPTIMAL_VALUES = 10
_POINTS = 256
_STEPS = 5_000
_SMALL = 0.01
_TOLERANCE = 1e-4  # of the asymptotic utility times 2 (a - 1), nats


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OptimalMatrix:
    """The matrix of greatest asymptotic utility at an LDP level, and how it is mixed.

    Attributes
    ----------
    matrix
        The mechanism: a report is a set of values.
    weights
        Probability that a report is a set of 1, 2, ... values, shape (a - 1,).
    """

    matrix: StochasticMatrix
    weights: NDArray[np.float64]


def optimal_matrix(
    prior: DirichletPrior, epsilon: float, *, rng: np.random.Generator
) -> OptimalMatrix:
    """Return the matrix of greatest asymptotic utility among all of an LDP level.

    Parameters
    ----------
    prior
        With equal parameters, on at most 10 values.
    epsilon
        LDP level, nats, above 0.
    rng
        For the points of the prior at which the utility is averaged.

    Raises
    ------
    PolicyError
        The prior favours values, or has too many; `epsilon` is out of range.
    UndecidableError
        The search did not come within its tolerance.

    Notes
    -----
    "LDP metrics", section 11, leaves it open. A report with the row `r` of the matrix adds
    `r r' / (r.p)` to the Fisher information, which is convex in `r`: to split a report never tells
    less. Rows of an LDP level are sums of such with the entries 1 and `e^epsilon` only (Holohan,
    Leith, Mason 2017, "Extreme points of the local differential privacy polytope"): so a report
    is a set of values, and each value in it `e^epsilon` times as likely as each outside. The mean
    log determinant is concave, so that for a symmetric prior sets of equal size are equally likely.
    What remains is the probability of each size, a D-optimal design, found by the multiplicative
    algorithm (Silvey, Titterington, Torsney 1978); the utility lacks at most the excess of its
    largest derivative over `a`.
    """
    values = prior.values
    check_epsilon(epsilon)
    if len(set(prior.alpha)) > 1:
        raise PolicyError("prior", "must have equal parameters: the best matrix is for no value")
    if values > MAX_OPTIMAL_VALUES:
        raise PolicyError("values", f"must be at most {MAX_OPTIMAL_VALUES}, got {values}")
    rows = [_subsets(values, size, epsilon) for size in range(1, values)]
    points = sobol_distributions(prior, _POINTS, rng)
    information = np.array(
        [np.einsum("yi,ny,yj->nij", row, 1 / (points @ row.T), row) for row in rows]
    )
    weights = np.full(values - 1, 1 / (values - 1))
    for _ in range(_STEPS):
        inverse = np.linalg.inv(np.tensordot(weights, information, axes=1))
        slopes = np.einsum("nij,gnji->g", inverse, information) / _POINTS
        if slopes.max() - values <= _TOLERANCE:
            break
        weights = weights * slopes / values
    else:
        raise UndecidableError("matrix: no best one was found", hint="choose a larger epsilon")
    # Less of these sizes tells more; the algorithm only tends to 0.
    weights[(weights < _SMALL) & (slopes < values)] = 0
    weights /= weights.sum()
    kept = [weight * row for weight, row in zip(weights, rows, strict=True) if weight]
    return OptimalMatrix(matrix=StochasticMatrix(np.vstack(kept)), weights=weights)


def _subsets(values: int, size: int, epsilon: float) -> NDArray[np.float64]:
    """Matrix whose reports are all sets of a size."""
    sets = np.array(list(itertools.combinations(range(values), size)))
    inside = np.zeros((len(sets), values))
    inside[np.arange(len(sets))[:, None], sets] = 1
    with_own = math.comb(values - 1, size - 1)
    without = math.comb(values - 1, size) * math.exp(-epsilon)
    return np.where(inside > 0, 1.0, math.exp(-epsilon)) / (with_own + without)
