"""Information of the reports of finitely many users about the distribution, by exact finite sums.

The probability of a sequence of reports, over the prior, is the mean of a product of linear forms
of the distribution. "LDP metrics", Propositions D.10 and D.13, expand it into monomials; here it is
summed with positive terms only, and sequences that a symmetry makes alike are summed once.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy

from fpmonitor.ldp.fisher import broken_sticks
from fpmonitor.ldp.integrals import expected_xlogx, expected_xlogx_of_bits
from fpmonitor.ldp.mechanisms import Mechanism, RandomisedResponse
from fpmonitor.ldp.tallies import all_tallies, log_arrangements, number_of_tallies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from fpmonitor.ldp.fisher import Nodes
    from fpmonitor.ldp.priors import DirichletPrior

MAX_PARTITIONS = 60_000
MAX_RESPONSE_USERS = 1_500  # beyond, terms leave the range of double precision
MAX_PATTERNS = 200_000
MAX_PATTERN_USERS = 4
MAX_TALLIES = 2_500_000
MAX_NODE_CELLS = 600_000_000
_BLOCK_CELLS = 4_000_000


def exact_information(
    mechanism: Mechanism, matrix: NDArray[np.float64] | None, prior: DirichletPrior, users: int
) -> float | None:
    """`I(Y; P)`, nats, by a finite sum; None where the sum is out of reach.

    Args:
        mechanism, prior: On the same values.
        matrix: Of the mechanism, reports of equal likelihood ratios merged; None where it is too
            large.
        users: `n`, at least 1.

    Notes:
        "LDP metrics", Propositions D.10 and D.13; Table 10.2 counts their terms.
    """
    alike = len(set(prior.alpha)) == 1
    bits = mechanism.independent_bits
    if isinstance(mechanism, RandomisedResponse) and _partitions(mechanism, prior, users):
        return _of_response(mechanism, prior, users)
    if matrix is not None and _nodes_within_reach(matrix, users):
        return _by_nodes(matrix, prior, users)
    # Numbers of patterns have no bound in the users: only of few are they counted.
    few = users <= MAX_PATTERN_USERS and (
        math.comb(prior.values + 2**users - 1, prior.values) <= MAX_PATTERNS
    )
    return _of_bits(*bits, prior, users) if bits is not None and alike and few else None


# ---- Randomised response: a sum over partitions of the users ------------------------------------


def _partitions(mechanism: RandomisedResponse, prior: DirichletPrior, users: int) -> bool:
    """Whether there are few enough tallies, up to a symmetry."""
    if users > MAX_RESPONSE_USERS:
        return False
    if len(set(prior.alpha)) == 1:
        return _number_of_partitions(users, min(mechanism.values, users)) <= MAX_PARTITIONS
    return number_of_tallies(users, mechanism.values) <= MAX_PARTITIONS


@lru_cache(maxsize=64)
def _number_of_partitions(total: int, parts: int) -> int:
    """Ways to write a number as a sum of at most so many, cut off where it is too many."""
    ways = [1] + [0] * total
    for part in range(1, parts + 1):
        for value in range(part, total + 1):
            ways[value] += ways[value - part]
        # Further parts only add ways.
        if ways[total] > MAX_PARTITIONS:
            break
    return ways[total]


def _of_response(mechanism: RandomisedResponse, prior: DirichletPrior, users: int) -> float:
    """Sum over the tallies of reports; each mean is a convolution of one polynomial per value."""
    alpha, total = prior.parameters, prior.total
    alike = bool((alpha == alpha[0]).all())
    own, other = mechanism.true_support - mechanism.false_support, mechanism.false_support
    counts = np.arange(users + 1)
    # Times (e / n)^t, which keeps factorials within double precision.
    tilt = counts * (1 - math.log(users))
    rising = scipy.special.gammaln(total + counts) - scipy.special.gammaln(total)
    last = np.exp(-(rising + tilt))

    def polynomial(parameter: float, count: int) -> NDArray[np.float64]:
        t = counts[: count + 1]
        logs = scipy.special.gammaln(count + 1) - scipy.special.gammaln(t + 1)
        logs += -scipy.special.gammaln(count - t + 1) + (count - t) * math.log(other)
        logs += t * math.log(own) + tilt[: count + 1]
        logs += scipy.special.gammaln(parameter + t) - scipy.special.gammaln(parameter)
        return np.asarray(np.exp(logs), dtype=np.float64)

    made = lru_cache(maxsize=None)(polynomial)
    entropy = 0.0
    for tally in _tallies(users, mechanism.values, alike=alike):
        product = np.ones(1)
        # Tallies up to their order have no zeros at the end, and are shorter.
        for parameter, count in zip(alpha, tally, strict=False):
            if count:
                product = np.convolve(product, made(float(parameter), count))
        mean = float(product @ last[: len(product)])
        entropy -= _sequences(tally, users, mechanism.values, alike=alike) * _xlogx(mean)
    rows, times = mechanism.distinct_rows(alpha)
    given = -float(times @ expected_xlogx(rows, alpha))
    return max(entropy - users * given, 0.0)


def _xlogx(mean: float) -> float:
    return mean * math.log(mean) if mean > 0 else 0.0


def _sequences(tally: tuple[int, ...], users: int, values: int, *, alike: bool) -> float:
    """Sequences of reports with a tally, or with one that is the same up to the order of values."""
    logs = math.lgamma(users + 1) - sum(math.lgamma(count + 1) for count in tally)
    if alike:
        times = [*np.unique([count for count in tally if count], return_counts=True)[1]]
        empty = values - sum(times)
        logs += math.lgamma(values + 1) - sum(math.lgamma(int(n) + 1) for n in [*times, empty])
    return math.exp(logs)


def _tallies(users: int, values: int, *, alike: bool) -> Iterator[tuple[int, ...]]:
    """All tallies, or one of each that a permutation of the values makes alike."""

    def parts(left: int, most: int, places: int) -> Iterator[tuple[int, ...]]:
        if places == 0 or left == 0:
            if left == 0:
                yield (0,) * (0 if alike else places)
            return
        for count in range(min(left, most), -1 if not alike else 0, -1):
            for rest in parts(left - count, count if alike else left, places - 1):
                yield (count, *rest)

    yield from parts(users, users, values)


# ---- Any matrix: Gauss quadrature, exact for the polynomials of n users -------------------------


def _nodes_within_reach(matrix: NDArray[np.float64], users: int) -> bool:
    reports, values = matrix.shape
    nodes = (users // 2 + 1) ** (values - 1)
    tallies = number_of_tallies(users, reports)
    return tallies <= MAX_TALLIES and tallies * nodes <= MAX_NODE_CELLS


def _by_nodes(matrix: NDArray[np.float64], prior: DirichletPrior, users: int) -> float:
    """Means of products of `n` linear forms at `n // 2 + 1` nodes for each stick."""
    # m nodes are exact up to the degree 2 m - 1, and products have the degree n.
    distributions, weights = gauss_nodes(prior, users // 2 + 1)
    with np.errstate(divide="ignore"):
        logs, log_weights = np.log(matrix @ distributions.T), np.log(weights)
    tallies = all_tallies(users, len(matrix))
    entropy = 0.0
    block = max(1, _BLOCK_CELLS // len(weights))
    for start in range(0, len(tallies), block):
        part = tallies[start : start + block]
        # A report that is impossible at a node, 0 times, is no obstacle.
        products = part @ np.maximum(logs, -1e300) + log_weights
        means = scipy.special.logsumexp(products, axis=1)
        chances = np.exp(log_arrangements(part) + means)
        entropy -= float(np.where(chances > 0, chances * means, 0.0).sum())
    given = -float(expected_xlogx(matrix, prior.parameters).sum())
    return max(entropy - users * given, 0.0)


def gauss_nodes(
    prior: DirichletPrior, size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes, shape (points, a), and weights of sum 1: Gauss and Jacobi for each broken stick."""

    def nodes(own: float, rest: float) -> Nodes:
        points, weights = scipy.special.roots_jacobi(size, rest - 1, own - 1)
        return (1 + points) / 2, (1 - points) / 2, weights / weights.sum()

    return broken_sticks(prior, nodes)


# ---- Independent bits on many values: a sum over what all users tell of one value ---------------


def _of_bits(true_support: float, false_support: float, prior: DirichletPrior, users: int) -> float:
    """Sum over how many values have each pattern of bits in the reports of all users.

    For gamma variables `G` the mean of a product of forms `c_i . G` is a sum over the permutations
    of the users: a product, over their cycles, of `sum_x alpha prod c_ix`.
    """
    values, alpha = prior.values, prior.alpha[0]
    high, low = true_support / false_support, (1 - true_support) / (1 - false_support)
    bits = (np.arange(2**users)[:, None] >> np.arange(users)) & 1
    ratios = np.where(bits, high, low)
    chances = np.where(bits, false_support, 1 - false_support).prod(axis=1)
    patterns = all_tallies(values, 2**users)
    means = np.zeros(len(patterns))
    blocks = {
        block: alpha * (patterns @ ratios[:, list(block)].prod(axis=1))
        for size in range(1, users + 1)
        for block in itertools.combinations(range(users), size)
    }
    for partition in _set_partitions(list(range(users))):
        # A block of s users is a cycle in (s - 1)! ways.
        orders = math.prod(math.factorial(len(block) - 1) for block in partition)
        means += orders * np.prod([blocks[block] for block in partition], axis=0)
    means /= math.prod(prior.total + i for i in range(users))
    base = patterns @ np.log(chances)
    weights = np.exp(log_arrangements(patterns) + base)
    # Of P(report) = base * mean only the mean depends on the distribution.
    entropy = -float((weights * means) @ np.log(means))
    given = -users * expected_xlogx_of_bits(high, low, false_support, prior.parameters)
    return max(entropy - given, 0.0)


def _set_partitions(items: list[int]) -> Iterator[list[tuple[int, ...]]]:
    """All ways to divide items into blocks, each in ascending order."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for size in range(len(rest) + 1):
        for others in itertools.combinations(rest, size):
            left = [item for item in rest if item not in others]
            for partition in _set_partitions(left):
                yield [(first, *others), *partition]
