"""Fisher information about the distribution in the reports, and its expected log determinant.

In the coordinates `p_1..p_{a-1}` the information of one report has the determinant of
`J = Q' diag(1 / Qp) Q`: since `J p = 1`, bordering by `p` changes nothing.
"""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy

from fpmonitor.errors import PolicyError, UndecidableError
from fpmonitor.ldp.integrals import expected_logs
from fpmonitor.ldp.mechanisms import Mechanism, RandomisedResponse, UnaryEncoding
from fpmonitor.ldp.subsets import SubsetSelection

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from fpmonitor.ldp.priors import DirichletPrior

    Nodes = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]

MAX_QUADRATURE_VALUES = 4
MAX_SUBSETS = 2_000
MAX_BIT_VALUES = 1_000
# Mechanisms that tell all values apart in one way, whatever their number.
SYMMETRIC = (RandomisedResponse, SubsetSelection)
_QUADRATURE_STEPS = {2: 0.03, 3: 0.08, 4: 0.18}
_REPLICATES = 8
_BLOCK_CELLS = 8_000_000
_RANK_TOLERANCE = 1e-12


class Expectation(NamedTuple):
    """A number, and the standard error of its Monte Carlo estimate (0 when none was needed)."""

    value: float
    standard_error: float


def matrix_rank(mechanism: Mechanism) -> int:
    """`d`: column rank of the matrix, one more than the parameters that reports can tell of."""
    if mechanism.independent_bits is not None or isinstance(mechanism, SYMMETRIC):
        return mechanism.values
    singular = np.linalg.svd(mechanism.matrix(), compute_uv=False)
    return int(np.count_nonzero(singular > _RANK_TOLERANCE * singular[0]))


def is_faithful(mechanism: Mechanism) -> bool:
    """Whether distributions of the values can be told apart by the reports: full column rank."""
    return matrix_rank(mechanism) == mechanism.values


def classes_of_values(mechanism: Mechanism) -> NDArray[np.intp]:
    """Return the class of each value, numbered from 0, which a report reveals with certainty.

    Values are of one class when a report is possible for both, or a chain of values links them.
    There are `b'` classes.

    Notes:
        "LDP metrics", Theorem 6.7(2). Remark 6.9(1) says that `b' > 1` only if the LDP level is 0;
        it is infinite then.
    """
    if mechanism.independent_bits is not None or isinstance(mechanism, SYMMETRIC):
        return np.zeros(mechanism.values, dtype=np.intp)
    possible = (mechanism.matrix() > 0).astype(np.int64)
    _, labels = scipy.sparse.csgraph.connected_components(possible.T @ possible, directed=False)
    return np.asarray(labels, dtype=np.intp)


def expected_log_determinant(
    mechanism: Mechanism, prior: DirichletPrior, *, rng: np.random.Generator
) -> Expectation:
    """`E log det J` over the prior, nats; minus infinity when the mechanism is not faithful.

    A square matrix needs one-dimensional integrals only, up to four values take quadrature, more
    take quasi Monte Carlo, with the standard error over independent scramblings.

    Notes:
        "LDP metrics", Theorem 6.7. Near the boundary of the simplex an LU decomposition of `J`
        loses all digits when the matrix has zeros; the Cauchy-Binet sum has positive terms only.
    """
    if not is_faithful(mechanism):
        return Expectation(-math.inf, 0.0)
    if isinstance(mechanism, RandomisedResponse):
        return Expectation(_of_randomised_response(mechanism, prior), 0.0)
    if mechanism.independent_bits is None:
        matrix = mechanism.matrix()
        matrix = matrix[matrix.max(axis=1) > 0]
        if matrix.shape[0] == matrix.shape[1]:
            return Expectation(_of_square(matrix, prior), 0.0)
    if mechanism.values <= MAX_QUADRATURE_VALUES:
        return Expectation(_by_quadrature(merged_matrix(mechanism), prior), 0.0)
    return _by_quasi_monte_carlo(mechanism, prior, rng)


def _of_square(matrix: NDArray[np.float64], prior: DirichletPrior) -> float:
    """`2 log |det Q| - sum_y E log (Qp)_y`."""
    log_determinant = float(np.linalg.slogdet(matrix)[1])
    return 2 * log_determinant - float(expected_logs(matrix, prior.parameters).sum())


def _of_randomised_response(mechanism: RandomisedResponse, prior: DirichletPrior) -> float:
    """As `_of_square`; the eigenvalues are 1 and, `a - 1` times, the gain in support."""
    rows, times = mechanism.distinct_rows(prior.parameters)
    gain = mechanism.true_support - mechanism.false_support
    logs = 2 * (mechanism.values - 1) * math.log(gain)
    return logs - float(times @ expected_logs(rows, prior.parameters))


def merged_matrix(mechanism: Mechanism) -> NDArray[np.float64]:
    """Return the matrix with reports of equal likelihood ratios merged."""
    bits = mechanism.independent_bits
    # Hashing has the likelihoods of these bits, and g^(a + 1) reports of its own.
    matrix = (UnaryEncoding(mechanism.values, *bits) if bits else mechanism).matrix()
    matrix = matrix[matrix.max(axis=1) > 0]
    # Equal ratios differ in their last digits.
    shape = np.round(matrix / matrix.sum(axis=1, keepdims=True), 14)
    _, first, inverse = np.unique(shape, axis=0, return_index=True, return_inverse=True)
    weights = np.bincount(inverse.reshape(-1), weights=matrix.sum(axis=1))
    directions = matrix[first] / matrix[first].sum(axis=1, keepdims=True)
    return np.asarray(directions * weights[:, None], dtype=np.float64)


def _by_quadrature(matrix: NDArray[np.float64], prior: DirichletPrior) -> float:
    """Double-exponential quadrature over the sticks that break the simplex."""
    nodes = partial(_beta_nodes, step=_QUADRATURE_STEPS[prior.values])
    distributions, weights = broken_sticks(prior, nodes)
    total = 0.0
    block = max(1, _BLOCK_CELLS // (matrix.shape[0] * matrix.shape[1] * 4))
    for start in range(0, len(distributions), block):
        part = slice(start, start + block)
        total += float(weights[part] @ log_determinants(matrix, distributions[part]))
    return total


def broken_sticks(
    prior: DirichletPrior, nodes: Callable[[float, float], Nodes]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes, shape (points, a), and weights that sum to 1, from those of each beta distribution.

    `nodes` returns for its two parameters the nodes, their complements to 1, and the weights.
    """
    alpha = prior.parameters
    distributions, remaining, weights = np.empty((1, 0)), np.ones(1), np.ones(1)
    for index in range(len(alpha) - 1):
        stick, rest, weight = nodes(alpha[index], alpha[index + 1 :].sum())
        pieces = np.outer(remaining, stick).reshape(-1, 1)
        distributions = np.hstack([np.repeat(distributions, len(stick), axis=0), pieces])
        remaining = np.outer(remaining, rest).ravel()
        weights = np.outer(weights, weight).ravel()
    return np.hstack([distributions, remaining[:, None]]), weights


def _beta_nodes(alpha: float, beta: float, *, step: float) -> Nodes:
    """Nodes for `broken_sticks` by the tanh-sinh rule."""
    # Where the weight is below e^-40 at either end.
    end = math.asinh(40 / (math.pi * min(alpha, beta, 1)))
    grid = np.arange(-math.ceil(end / step), math.ceil(end / step) + 1) * step
    logit = math.pi * np.sinh(grid)
    log_stick, log_rest = -np.logaddexp(0, -logit), -np.logaddexp(0, logit)
    weights = np.exp(alpha * log_stick + beta * log_rest) * np.cosh(grid)
    return np.exp(log_stick), np.exp(log_rest), weights / weights.sum()


def log_determinants(
    matrix: NDArray[np.float64], distributions: NDArray[np.float64]
) -> NDArray[np.float64]:
    """`log det J` at each distribution, by factorising `J` unless the matrix has zeros."""
    if matrix.min() == 0:
        return _log_determinants_by_cauchy_binet(matrix, distributions)
    information = np.matmul(
        (matrix / (distributions @ matrix.T)[:, :, None]).transpose(0, 2, 1), matrix
    )
    return _checked_log_determinants(information)


def _log_determinants_by_cauchy_binet(
    matrix: NDArray[np.float64], distributions: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return `log det J` at each distribution: squared minors over report probabilities."""
    reports, values = matrix.shape
    if math.comb(reports, values) > MAX_SUBSETS:
        raise PolicyError("matrix", f"{reports} reports with zeros are too many to integrate")
    subsets = np.array(list(itertools.combinations(range(reports), values)))
    signs, log_minors = np.linalg.slogdet(matrix[subsets])
    subsets, log_minors = subsets[signs != 0], log_minors[signs != 0]
    log_reports = np.log(distributions @ matrix.T)
    terms = 2 * log_minors - log_reports[:, subsets].sum(axis=2)
    return np.asarray(scipy.special.logsumexp(terms, axis=1), dtype=np.float64)


def _checked_log_determinants(information: NDArray[np.float64]) -> NDArray[np.float64]:
    signs, logs = np.linalg.slogdet(information)
    if not ((signs > 0).all() and np.isfinite(logs).all()):
        raise UndecidableError(
            "asymptotic utility: the Fisher information is singular in double precision",
            hint="the mechanism is too close to one that shows nothing of some value",
        )
    return np.asarray(logs, dtype=np.float64)


def _by_quasi_monte_carlo(
    mechanism: Mechanism, prior: DirichletPrior, rng: np.random.Generator
) -> Expectation:
    """Mean over scrambled Sobol points, each a distribution of the prior."""
    values = mechanism.values
    if values > MAX_BIT_VALUES:
        raise PolicyError("values", f"utility needs at most {MAX_BIT_VALUES} values, got {values}")
    # A power of two, without which Sobol points are not balanced.
    points = max(2, min(256, 2 ** int(math.log2(1 + 5e7 / (values**2 * 80)))))
    bits = mechanism.independent_bits
    if bits is None:
        at = partial(log_determinants, merged_matrix(mechanism))
    else:
        at = partial(_log_determinants_of_bits, bits)
    means = [float(at(sobol_distributions(prior, points, rng)).mean()) for _ in range(_REPLICATES)]
    error = float(np.std(means, ddof=1)) / math.sqrt(_REPLICATES)
    return Expectation(float(np.mean(means)), error)


def _log_determinants_of_bits(
    bits: tuple[float, float], distributions: NDArray[np.float64]
) -> NDArray[np.float64]:
    return _checked_log_determinants(information_of_bits(*bits, distributions))


def sobol_distributions(
    prior: DirichletPrior, points: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return distributions from the prior at scrambled Sobol points, by broken sticks."""
    alpha = prior.parameters
    uniform = scipy.stats.qmc.Sobol(prior.values - 1, rng=rng).random(points)
    # At 0 and 1 some probability would be 0, of which there is no logarithm.
    uniform = np.clip(uniform, 1e-15, 1 - 1e-15)
    distributions, remaining = np.empty((points, prior.values)), np.ones(points)
    for index in range(prior.values - 1):
        stick = scipy.special.betaincinv(alpha[index], alpha[index + 1 :].sum(), uniform[:, index])
        distributions[:, index] = remaining * stick
        remaining = remaining * (1 - stick)
    distributions[:, -1] = remaining
    return distributions


def information_of_bits(
    true_support: float, false_support: float, distributions: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Fisher information `J` of independent support bits, shape (distributions, a, a).

    Its reports are too many to add up, but `1 / Qp = int exp(-t Qp) dt` makes the sum over reports
    a product over values: `J` is one integral of rank-one matrices, by the trapezoidal rule in
    `log t`.

    Args:
        true_support, false_support: Probability of the bit of the user's own value, of another
            value; the latter in (0, 1).
        distributions: Probabilities of the values, shape (distributions, a).
    """
    high = true_support / false_support
    low = (1 - true_support) / (1 - false_support)
    times, steps = _waiting_times(high, low, distributions)
    information = np.empty((len(distributions), distributions.shape[1], distributions.shape[1]))
    for index, distribution in enumerate(distributions):
        log_high, log_low = (
            -np.outer(times, high * distribution),
            -np.outer(times, low * distribution),
        )
        ratio = np.exp(log_high - log_low) * false_support / (1 - false_support)
        log_factors = log_low + np.log1p(ratio) + math.log1p(-false_support)
        weights = steps * np.exp(log_factors.sum(axis=1))
        share = ratio / (1 + ratio)
        first = low + (high - low) * share
        spread = (high - low) ** 2 * share * (1 - share)
        information[index] = (first * weights[:, None]).T @ first
        information[index] += np.diag(weights @ spread)
    return information


def _waiting_times(
    high: float, low: float, distributions: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights of the integral over `t`: it ends where `exp(-t Qp)` does."""
    slowest = max(low, float(distributions[distributions > 0].min()) * high if low == 0 else low)
    grid = np.arange(math.log(1e-12 / high), math.log(40 / slowest) + 1.5, 0.25)
    times = np.exp(grid)
    # dt = t d(log t).
    return times, 0.25 * times
