"""The matrix that tells most of the distribution to `n` users' reports, at equal privacy.

The information `I(Y; P)` of `n` reports and its derivatives are the finite sums of `finite_sums`;
sequential quadratic programming climbs from several starts. What is found is exact; that nothing is
better is proved for two values at an LDP level only, and else a search.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy

from fpmonitor.errors import PolicyError
from fpmonitor.ldp.checks import check_epsilon, check_whole_number
from fpmonitor.ldp.finite_sums import gauss_nodes
from fpmonitor.ldp.fisher import merged_matrix
from fpmonitor.ldp.integrals import expected_logs
from fpmonitor.ldp.mechanisms import Mechanism, StochasticMatrix
from fpmonitor.ldp.priors import MAX_USERS, DirichletPrior
from fpmonitor.ldp.tallies import all_tallies, log_arrangements, number_of_tallies
from fpmonitor.policy import check_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    Slope = tuple[float, NDArray[np.float64]]

MAX_SEARCHED_CELLS = 600_000
MAX_SEARCHED_VALUES = 4
_STARTS = 3
_STEPS = 120
_PRECISION = 1e-10
_RARE = 1e-6  # probability of a report that the search leaves out
_LEAST = 1e-9  # probability of a report in the search
_SLACK = 1e-12
_TIDY = 1e-6  # nats that a simpler matrix may tell less


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BestForUsers:
    """The best matrix that a search found for so many users."""

    matrix: StochasticMatrix
    distribution_utility: float  # `U^distr` of it, exact, a share.
    reports: int  # Most different reports of the matrices searched.
    proved: bool  # Whether no matrix of this privacy has more.


@dataclass(frozen=True)
class _Sum:
    """`I(Y; P)` of matrices with so many reports, and its derivatives."""

    prior: DirichletPrior
    users: int
    reports: int

    @cached_property
    def nodes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        distributions, weights = gauss_nodes(self.prior, self.users // 2 + 1)
        return distributions, np.log(np.maximum(weights, 1e-300))

    @cached_property
    def tallies(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        tallies = all_tallies(self.users, self.reports)
        return tallies, log_arrangements(tallies)

    def information(self, matrix: NDArray[np.float64]) -> Slope:
        """`I(Y; P)`, nats, and its derivative by each entry."""
        distributions, log_weights = self.nodes
        tallies, arrangements = self.tallies
        forms = np.maximum(matrix @ distributions.T, 1e-300)
        products = tallies @ np.log(forms) + log_weights
        most = products.max(axis=1)
        shares = np.exp(products - most[:, None])
        sums = shares.sum(axis=1)
        means = most + np.log(sums)
        chances = np.exp(arrangements + means)
        factors = -(1 + means) * chances / sums
        slope = ((tallies * factors[:, None]).T @ shares / forms) @ distributions
        logs, slopes = _mean_xlogx(matrix, self.prior)
        value = -float(chances @ means) + self.users * logs
        return value, slope + self.users * slopes


def _mean_xlogx(matrix: NDArray[np.float64], prior: DirichletPrior) -> Slope:
    """`-H(Y_1 | P)`, nats, and its derivative: `E p_x (log Qp + 1)` is a mean for `alpha + 1_x`."""
    alpha = prior.parameters
    logs = np.column_stack([expected_logs(matrix, alpha + one) for one in np.eye(prior.values)])
    return float((matrix * logs * prior.mean).sum()), prior.mean * (logs + 1)


def _told(matrix: NDArray[np.float64], prior: DirichletPrior) -> Slope:
    """`I(X; Y | P)` of a report about its user, nats, and its derivative."""
    logs, slopes = _mean_xlogx(matrix, prior)
    known = float((scipy.special.xlogy(matrix, matrix) @ prior.mean).sum())
    return known - logs, prior.mean * (np.log(np.maximum(matrix, 1e-300)) + 1) - slopes


def within_search(prior: DirichletPrior, users: int, reports: int) -> bool:
    """Whether the information of matrices with so many reports can be searched."""
    nodes = (users // 2 + 1) ** (prior.values - 1)
    return bool(number_of_tallies(users, reports) * nodes <= MAX_SEARCHED_CELLS)


def best_for_users(
    prior: DirichletPrior,
    users: int,
    epsilon: float | None = None,
    *,
    privacy: float | None = None,
    others: Sequence[Mechanism] = (),
    rng: np.random.Generator,
) -> BestForUsers | None:
    """Return the matrix of greatest `U^distr` for `users` users; None where it is out of reach.

    Args:
        prior: Of the distribution.
        users: `n`, at least 1.
        epsilon: LDP level, nats, above 0.
        privacy: Instead: average privacy `S_mu` that is kept at least, a share.
        others: Mechanisms of this privacy to start from: the result tells no less than any of them
            that is within reach.
        rng: For the other starts.

    Raises:
        PolicyError: A number is out of range, or both or neither of `epsilon` and `privacy` is
            given.

    Notes:
        "LDP metrics", section 11, asks for the greatest `U^distr` at a given `S_mu`. To split a
        report never tells less, so that at an LDP level reports are sets of values, as for
        `optimal_matrix`, and only their weights are searched; for two values they are fixed, and
        randomised response is the best for every `n`. At an average privacy splitting costs, and
        matrices are searched of up to twice as many reports as values.
    """
    check_whole_number("users", users, least=1, most=MAX_USERS)
    few = prior.values <= MAX_SEARCHED_VALUES
    if epsilon is not None and privacy is None:
        check_epsilon(epsilon)
        return _at_level(prior, users, epsilon, rng) if few else None
    if privacy is not None and epsilon is None:
        check_share("privacy", privacy)
        return _at_privacy(prior, users, privacy, others, rng) if few else None
    raise PolicyError("epsilon", "give one of epsilon and privacy")


def _at_level(
    prior: DirichletPrior, users: int, epsilon: float, rng: np.random.Generator
) -> BestForUsers | None:
    """Search over how often each set of values is reported."""
    values = prior.values
    # Without the sets of no and of all values, which tell nothing.
    inside = np.array(list(itertools.product((0, 1), repeat=values))[1:-1])
    rows = np.where(inside > 0, 1.0, math.exp(-epsilon))
    if not within_search(prior, users, len(rows)):
        return None
    finite = _Sum(prior, users, len(rows))

    def height(weights: NDArray[np.float64]) -> Slope:
        value, slope = finite.information(rows * weights[:, None])
        return -value, -(slope * rows).sum(axis=1)

    sums = {"type": "eq", "fun": lambda w: rows.T @ w - 1, "jac": lambda _: rows.T}
    even = [(inside.sum(axis=1) == size) / 1.0 for size in range(1, values)]
    starts = [one / (rows.T @ one).mean() for one in even]
    starts += [_scaled(rows, rng.exponential(size=len(rows))) for _ in range(_STARTS)]
    best, most = np.ones((1, values)), 0.0
    for start in starts if values > 2 else starts[:1]:
        found = [start] if values == 2 else [start, _climbed(height, start, [sums])]
        for weights, least in itertools.product(found, (0.0, _RARE)):
            # What the search left of the sums; a scaling by values would lose epsilon.
            usual = weights > least
            matrix = rows[usual] * _scaled(rows[usual], weights[usual])[:, None]
            matrix = matrix[matrix.max(axis=1) > 0]
            if np.abs(matrix.sum(axis=0) - 1).max() > _SLACK:
                continue
            value = _Sum(prior, users, len(matrix)).information(matrix)[0]
            # Simpler ones come last.
            if value > most - _SLACK:
                best, most = matrix, value
    return _result(best, prior, users, len(rows), proved=values == 2)


def _scaled(rows: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest weights, not negative, of which the reports of each value sum to 1."""
    # Sums count a million times as much as the distance, and are made exact below.
    stiff = 1e6
    system = np.vstack([stiff * rows.T, np.eye(len(weights))])
    target = np.append(np.full(rows.shape[1], stiff), weights / (rows.T @ weights).mean())
    found = scipy.optimize.nnls(system, target)[0]
    seen = found > 0
    if seen.any():
        found[seen] -= np.linalg.lstsq(rows[seen].T, rows[seen].T @ found[seen] - 1)[0]
    return np.asarray(found, dtype=np.float64)


def _at_privacy(
    prior: DirichletPrior,
    users: int,
    privacy: float,
    others: Iterable[Mechanism],
    rng: np.random.Generator,
) -> BestForUsers | None:
    """Search over all matrices of a few reports."""
    values = prior.values
    limit = (1 - privacy) * prior.value_entropy_given_distribution
    sizes = [n for n in (values, values + 1, 2 * values) if within_search(prior, users, n)]
    if len(sizes) < 2:
        return None
    starts = [merged_matrix(other) for other in others]
    # The truth to some, which is the best for many users.
    starts.append(np.vstack([(1 - privacy) * np.eye(values), np.full((1, values), privacy)]))
    for size in sizes:
        starts += [rng.dirichlet(np.full(size, 0.3), size=values).T for _ in range(_STARTS)]
    best, most = np.ones((1, values)), 0.0
    for start in starts:
        if not within_search(prior, users, len(start)):
            continue
        finite = _Sum(prior, users, len(start))
        found = [start]
        if len(start) <= max(sizes):
            found.append(_best_near(finite, start, limit))
        for matrix in found:
            private_matrix = _kept(matrix, prior, limit)
            value = finite.information(private_matrix)[0]
            if value > most:
                best, most = private_matrix, value
    simpler = _kept(_tidied(best), prior, limit)
    if _Sum(prior, users, len(simpler)).information(simpler)[0] > most - _TIDY:
        best = simpler
    return _result(best, prior, users, max(sizes), proved=False)


def _tidied(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return it without rare reports, and those that tell nearly the same merged."""
    matrix = matrix[matrix.mean(axis=1) > _RARE]
    shape = np.round(matrix / matrix.sum(axis=1, keepdims=True), 3)
    _, labels = np.unique(shape, axis=0, return_inverse=True)
    merged = np.zeros((labels.max() + 1, matrix.shape[1]))
    np.add.at(merged, labels.reshape(-1), matrix)
    return merged


def _best_near(finite: _Sum, start: NDArray[np.float64], limit: float) -> NDArray[np.float64]:
    """Climb from a matrix, over all of its size, within the limit of what a report may tell."""
    shape, prior = start.shape, finite.prior

    def height(flat: NDArray[np.float64]) -> Slope:
        value, slope = finite.information(flat.reshape(shape))
        return -value, -slope.ravel()

    sums = np.tile(np.eye(shape[1]), shape[0])
    conditions = [
        {"type": "eq", "fun": lambda flat: sums @ flat - 1, "jac": lambda _: sums},
        {
            "type": "ineq",
            "fun": lambda flat: limit - _told(flat.reshape(shape), prior)[0],
            "jac": lambda flat: -_told(flat.reshape(shape), prior)[1].ravel(),
        },
    ]
    # Off the border, where slopes are infinite.
    mixed = 0.98 * start + 0.02 / len(start)
    found = np.maximum(_climbed(height, mixed.ravel(), conditions).reshape(shape), _LEAST)
    return np.asarray(found / found.sum(axis=0), dtype=np.float64)


def _climbed(
    height: Callable[[NDArray[np.float64]], Slope],
    start: NDArray[np.float64],
    conditions: list[dict[str, object]],
) -> NDArray[np.float64]:
    found = scipy.optimize.minimize(
        height,
        np.clip(start, _LEAST, 1),
        jac=True,
        method="SLSQP",
        bounds=[(_LEAST, 1)] * len(start),
        constraints=conditions,
        options={"maxiter": _STEPS, "ftol": _PRECISION},
    )
    usable = np.isfinite(found.x).all()
    return np.asarray(found.x if usable else start, dtype=np.float64)


def _kept(matrix: NDArray[np.float64], prior: DirichletPrior, limit: float) -> NDArray[np.float64]:
    """Return the matrix, with as many reports at random as keep what a report tells to the limit.

    What a report tells is convex in the matrix, and 0 where all are at random.
    """
    matrix = matrix / matrix.sum(axis=0)
    if _told(matrix, prior)[0] <= limit:
        return matrix
    blind = np.repeat((matrix @ prior.mean)[:, None], prior.values, axis=1)
    low, high = 0.0, 1.0
    while high - low > _SLACK:
        middle = (low + high) / 2
        if _told((1 - middle) * matrix + middle * blind, prior)[0] <= limit:
            high = middle
        else:
            low = middle
    # The end of the bisection at which the limit is kept.
    return np.asarray((1 - high) * matrix + high * blind, dtype=np.float64)


def _result(
    matrix: NDArray[np.float64], prior: DirichletPrior, users: int, reports: int, *, proved: bool
) -> BestForUsers:
    made = StochasticMatrix(matrix / matrix.sum(axis=0))
    information = _Sum(prior, users, len(matrix)).information(made.matrix())[0]
    return BestForUsers(
        matrix=made,
        distribution_utility=max(information, 0.0) / prior.distribution_information(users),
        reports=reports,
        proved=proved,
    )
