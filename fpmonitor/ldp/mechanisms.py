"""Mechanisms: how a user's value becomes the report that leaves the device.

A mechanism is a stochastic matrix `Q[y, x]`: probability of report `y` for value `x`. Values are
numbered from 0. Beside the general matrix stand three protocols whose matrix is structured: each
report *supports* some values, its own with probability `true_support`, every other one with
`false_support` (a "pure" protocol in Wang, Blocki, Li and Jha 2017, "Locally differentially private
protocols for frequency estimation", USENIX Security).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from fpmonitor.errors import PolicyError
from fpmonitor.estimate.mixing import GOLDEN, splitmix64
from fpmonitor.ldp.checks import (
    check_bits,
    check_cells,
    check_codes,
    check_epsilon,
    check_values,
    check_whole_number,
)
from fpmonitor.ldp.subsets import SubsetSelection

_SUM_TOLERANCE = 1e-9
_BLOCK_CELLS = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class StochasticMatrix:
    """Any mechanism with finitely many reports.

    Raises:
        PolicyError: `matrix`: not two-dimensional, fewer than two values, a negative entry, a
            column that does not sum to 1.
    """

    # float64, shape (b, a): `Q[y, x]`, in [0, 1]; columns sum to 1. Kept read-only.
    probabilities: NDArray[np.float64]

    def __post_init__(self) -> None:
        matrix = np.array(self.probabilities, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] < 1 or matrix.shape[1] < 2:
            raise PolicyError("matrix", f"needs reports x values >= 2, got shape {matrix.shape}")
        if not (np.isfinite(matrix).all() and matrix.min() >= 0):
            raise PolicyError("matrix", "entries must be probabilities")
        sums = matrix.sum(axis=0)
        worst = int(np.argmax(np.abs(sums - 1)))
        if abs(sums[worst] - 1) > _SUM_TOLERANCE:
            raise PolicyError(
                "matrix",
                f"column {worst + 1} must sum to 1, sums to {sums[worst]:.12g}",
                hint="rows are reports, columns are values",
            )
        # Files round: from here on sums are exact.
        matrix /= sums
        matrix.flags.writeable = False
        object.__setattr__(self, "probabilities", matrix)

    @property
    def values(self) -> int:
        """Number of values, `a`."""
        return int(self.probabilities.shape[1])

    @property
    def ldp_level(self) -> float:
        """Largest log ratio within a row, nats; infinite when a report excludes a value."""
        rows = self.probabilities[self.probabilities.max(axis=1) > 0]
        if rows.min() == 0:
            return math.inf
        return float(np.log(rows.max(axis=1) / rows.min(axis=1)).max())

    @property
    def independent_bits(self) -> None:
        """A general matrix has no structure."""
        return None

    def matrix(self) -> NDArray[np.float64]:
        """Probabilities `Q[y, x]`."""
        return self.probabilities

    def sample(self, codes: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
        """Report numbers for the values `codes`, both int64 of shape (users,)."""
        user_codes = check_codes(codes, self.values)
        cumulative = np.cumsum(self.probabilities, axis=0)
        # Rounding may leave it below a draw.
        cumulative[-1] = 1
        reports = np.empty(user_codes.shape, dtype=np.int64)
        order = np.argsort(user_codes, kind="stable")
        bounds = np.searchsorted(user_codes[order], np.arange(self.values + 1))
        for value in np.unique(user_codes):
            users = order[bounds[value] : bounds[value + 1]]
            drawn = rng.random(users.size)
            reports[users] = np.searchsorted(cumulative[:, value], drawn, side="right")
        return reports


@dataclass(frozen=True, slots=True)
class RandomisedResponse:
    """Generalised randomised response: report the truth, or any other value equally likely.

    Raises:
        PolicyError: `values` or `epsilon` out of range.
    """

    values: int  # Number of values, `a`, at least 2.
    epsilon: float  # LDP level, nats, positive.

    def __post_init__(self) -> None:
        check_values(self.values)
        check_epsilon(self.epsilon)

    @property
    def ldp_level(self) -> float:
        """The epsilon of its construction."""
        return self.epsilon

    @property
    def independent_bits(self) -> None:
        """Exactly one value is supported: no independent bits."""
        return None

    @property
    def true_support(self) -> float:
        """Probability of reporting the own value."""
        return 1 / (1 + (self.values - 1) * math.exp(-self.epsilon))

    @property
    def false_support(self) -> float:
        """Probability of reporting a given other value."""
        return 1 / (math.exp(self.epsilon) + self.values - 1)

    def distinct_rows(
        self, alpha: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the rows that differ under a Dirichlet prior, and their multiplicity."""
        _, values, times = np.unique(alpha, return_index=True, return_counts=True)
        rows = np.full((len(values), self.values), self.false_support)
        rows[np.arange(len(values)), values] = self.true_support
        return rows, times.astype(np.int64)

    def matrix(self) -> NDArray[np.float64]:
        """Probabilities `Q[y, x]`, square."""
        check_cells(self.values, self.values)
        matrix = np.full((self.values, self.values), self.false_support)
        np.fill_diagonal(matrix, self.true_support)
        return matrix

    def sample(self, codes: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the reported values for the values `codes`, both int64 of shape (users,)."""
        user_codes = check_codes(codes, self.values)
        other = rng.integers(self.values - 1, size=user_codes.shape)
        # Skips the own value.
        other += other >= user_codes
        return np.where(rng.random(user_codes.shape) < self.true_support, user_codes, other)

    def support_counts(self, reports: ArrayLike) -> NDArray[np.int64]:
        """Count the reports that support each value, int64, shape (a,)."""
        report_codes = check_codes(reports, self.values, "reports")
        return np.bincount(report_codes, minlength=self.values).astype(np.int64)


@dataclass(frozen=True, slots=True)
class UnaryEncoding:
    """One bit per value, flipped independently: basic RAPPOR, OUE, BLH's parameters.

    Raises:
        PolicyError: An argument out of range.
    """

    values: int  # Number of values, `a`, at least 2.
    true_support: float  # Probability that the bit of the user's own value is set, in (0, 1].
    false_support: float  # Probability that any other bit is set, in [0, true_support).

    def __post_init__(self) -> None:
        check_values(self.values)
        if not 0 <= self.false_support < self.true_support <= 1:
            raise PolicyError(
                "true_support",
                f"must exceed false_support, both in [0, 1], got {self.true_support} "
                f"and {self.false_support}",
            )

    @property
    def ldp_level(self) -> float:
        """Log ratio of two reports that differ in the user's own and one other bit, nats."""
        if self.false_support == 0 or self.true_support == 1:
            return math.inf
        return _log_odds(self.true_support) - _log_odds(self.false_support)

    @property
    def independent_bits(self) -> tuple[float, float] | None:
        """The two probabilities; None when no other bit is ever set."""
        if self.false_support == 0:
            return None
        return self.true_support, self.false_support

    def matrix(self) -> NDArray[np.float64]:
        """Probabilities `Q[y, x]` of all `2^a` bit strings, value 0 being the lowest bit."""
        if self.values > 24:
            raise PolicyError("values", f"2^{self.values} reports make too large a matrix")
        check_cells(2**self.values, self.values)
        bits = _all_bits(self.values)
        others = np.where(bits, self.false_support, 1 - self.false_support)
        own = np.where(bits, self.true_support, 1 - self.true_support)
        matrix = np.empty(bits.shape)
        for value in range(self.values):
            # Not divided out of the whole product: the probability of a bit may be 0.
            rest = np.delete(others, value, axis=1).prod(axis=1)
            matrix[:, value] = own[:, value] * rest
        return matrix

    def sample(self, codes: ArrayLike, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Bits for the values `codes`: shape (users, a)."""
        user_codes = check_codes(codes, self.values)
        reports = np.empty((user_codes.size, self.values), dtype=np.bool_)
        block = max(1, _BLOCK_CELLS // self.values)
        for start in range(0, user_codes.size, block):
            part = reports[start : start + block]
            part[:] = rng.random(part.shape) < self.false_support
        reports[np.arange(user_codes.size), user_codes] = (
            rng.random(user_codes.size) < self.true_support
        )
        return reports

    def support_counts(self, reports: ArrayLike) -> NDArray[np.int64]:
        """Count the reports that support each value, int64, shape (a,)."""
        return np.asarray(check_bits(reports, self.values).sum(axis=0), dtype=np.int64)


# Reports of local hashing: their hash functions, uint64, shape (users,); and the noisy hashes,
# int64, same shape, in `range(hash_range)`.
HashedReports = tuple[NDArray[np.uint64], NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class LocalHash:
    """Local hashing: randomised response on a random hash of the value.

    The metrics are those of a hash drawn from all functions. Two values then hash alike
    independently, which makes supports independent bits: the distribution of the likelihoods is
    that of unary encoding with the same support probabilities.

    Raises:
        PolicyError: An argument out of range.
    """

    values: int  # Number of values, `a`, at least 2.
    epsilon: float  # LDP level, nats, positive.
    # Number of hashes, `g`, at least 2; 0, the default, stands for that of least variance,
    # `e^epsilon + 1` (Wang, Blocki, Li and Jha 2017, optimised local hashing).
    hash_range: int = 0

    def __post_init__(self) -> None:
        check_values(self.values)
        check_epsilon(self.epsilon)
        if self.hash_range == 0:
            best = min(round(math.exp(min(self.epsilon, 21))) + 1, 2**31)
            object.__setattr__(self, "hash_range", best)
        check_whole_number("hash_range", self.hash_range, least=2, most=2**31)

    @property
    def ldp_level(self) -> float:
        """The epsilon of its construction (there are at least two values and two hashes)."""
        return self.epsilon

    @property
    def true_support(self) -> float:
        """Probability that a report names the hash of the user's own value."""
        return 1 / (1 + (self.hash_range - 1) * math.exp(-self.epsilon))

    @property
    def false_support(self) -> float:
        """Probability that a report names the hash of a given other value."""
        return 1 / self.hash_range

    @property
    def independent_bits(self) -> tuple[float, float]:
        """The two probabilities."""
        return self.true_support, self.false_support

    def matrix(self) -> NDArray[np.float64]:
        """Probabilities `Q[y, x]` of all pairs of a function and a hash."""
        # Cut off, as it is refused anyway: the exact number may have millions of digits.
        size = self.hash_range ** min(self.values + 1, 64)
        check_cells(size, self.values)
        functions = np.array(
            list(itertools.product(range(self.hash_range), repeat=self.values)), dtype=np.int64
        )
        reported_hashes = np.arange(self.hash_range)[None, :, None]
        lie = (1 - self.true_support) / (self.hash_range - 1)
        rows = np.where(functions[:, None, :] == reported_hashes, self.true_support, lie) / len(
            functions
        )
        return rows.reshape(size, self.values)

    def sample(self, codes: ArrayLike, rng: np.random.Generator) -> HashedReports:
        """Hash functions and noisy hashes for the values `codes`."""
        user_codes = check_codes(codes, self.values)
        seeds = rng.integers(2**64, size=user_codes.shape, dtype=np.uint64)
        truth = hash_codes(seeds, user_codes, self.hash_range)
        noise = RandomisedResponse(self.hash_range, self.epsilon)
        return seeds, noise.sample(truth, rng)

    def support_counts(self, reports: HashedReports) -> NDArray[np.int64]:
        """Count the reports that support each value, int64, shape (a,)."""
        seeds, hashes = reports
        counts = np.zeros(self.values, dtype=np.int64)
        # Value by value: a cell for each user and value would not fit into memory.
        for value in range(self.values):
            code = np.full(seeds.shape, value)
            matches = hash_codes(seeds, code, self.hash_range) == hashes
            counts[value] = np.count_nonzero(matches)
        return counts


PureMechanism = RandomisedResponse | UnaryEncoding | LocalHash | SubsetSelection
# All have `values`, `a`; `ldp_level`, the least epsilon, nats, for which they are locally private;
# `independent_bits`, the support probabilities of the own and of another value where supports are
# independent bits; and `matrix`, `Q[y, x]`, whose columns sum to 1.
Mechanism = PureMechanism | StochasticMatrix


def basic_rappor(values: int, epsilon: float) -> UnaryEncoding:
    """Return the unary encoding that flips all bits alike (Erlingsson, Pihur, Korolova 2014)."""
    check_epsilon(epsilon)
    keep = 1 / (1 + math.exp(-epsilon / 2))
    return UnaryEncoding(values, keep, 1 / (1 + math.exp(epsilon / 2)))


def optimised_unary_encoding(values: int, epsilon: float) -> UnaryEncoding:
    """Return the unary encoding that sends the own bit with probability 1/2 (Wang et al. 2017)."""
    check_epsilon(epsilon)
    return UnaryEncoding(values, 0.5, 1 / (1 + math.exp(epsilon)))


def binary_local_hash(values: int, epsilon: float) -> UnaryEncoding:
    """Return the unary encoding with the support probabilities of hashing into two values."""
    check_epsilon(epsilon)
    return UnaryEncoding(values, 1 / (1 + math.exp(-epsilon)), 0.5)


def hadamard_response(values: int, epsilon: float) -> StochasticMatrix:
    """Return Hadamard response: a report is the number of a column of a Hadamard matrix.

    Values are dealt to blocks of columns; columns of the own block where the own row is 1 are
    e^epsilon times as likely as all others. It has the least error up to a constant at every
    epsilon, and reports of a few bits.

    Notes:
        Acharya, Sun and Zhang (2019), "Hadamard response: estimating distributions privately,
        efficiently, and with little communication", section 5.
    """
    check_values(values)
    check_epsilon(epsilon)
    blocks = 2 ** max(math.ceil(math.log2(min(math.exp(epsilon), 2 * values))) - 1, 0)
    width = 2 ** math.ceil(math.log2(values / blocks + 1))
    check_cells(blocks * width, values)
    hadamard = scipy.linalg.hadamard(width) > 0
    likely = np.zeros((blocks * width, values), dtype=bool)
    # The first row of a Hadamard matrix is 1 everywhere, and tells nothing.
    for value in range(values):
        block, row = value % blocks, value // blocks + 1
        likely[block * width : (block + 1) * width, value] = hadamard[row]
    total = blocks * width - width / 2 + math.exp(epsilon) * width / 2
    return StochasticMatrix(np.where(likely, math.exp(epsilon), 1.0) / total)


def compose(first: Mechanism, second: Mechanism) -> StochasticMatrix:
    """Apply the second mechanism to the report of the first: `R Q`.

    Raises:
        PolicyError: `second`: takes another number of values than the first has reports.
    """
    inner, outer = first.matrix(), second.matrix()
    if outer.shape[1] != inner.shape[0]:
        raise PolicyError(
            "second",
            f"must take {inner.shape[0]} values, the reports of the first, takes {outer.shape[1]}",
        )
    return StochasticMatrix(outer @ inner)


def product(first: Mechanism, second: Mechanism) -> StochasticMatrix:
    """Apply both mechanisms to one value, independently; LDP levels add up at most.

    Raises:
        PolicyError: `second`: has another number of values.
    """
    one, other = first.matrix(), second.matrix()
    if one.shape[1] != other.shape[1]:
        raise PolicyError("second", f"must have {one.shape[1]} values, has {other.shape[1]}")
    both = one[:, None, :] * other[None, :, :]
    return StochasticMatrix(both.reshape(-1, one.shape[1]))


def mixture(mechanisms: Sequence[Mechanism], weights: Sequence[float]) -> StochasticMatrix:
    """Apply one of the mechanisms, drawn by weight; the report names it.

    Raises:
        PolicyError: `weights`: not one positive weight per mechanism; `mechanisms`: not all of the
            same values.
    """
    shares = np.array(weights, dtype=np.float64)
    if shares.shape != (len(mechanisms),) or not (shares > 0).all():
        raise PolicyError("weights", "must be one positive number per mechanism")
    if len({mechanism.values for mechanism in mechanisms}) != 1:
        raise PolicyError("mechanisms", "must be at least one, all on the same values")
    shares /= shares.sum()
    return StochasticMatrix(
        np.vstack([w * mechanism.matrix() for w, mechanism in zip(shares, mechanisms, strict=True)])
    )


def _log_odds(probability: float) -> float:
    return math.log(probability) - math.log1p(-probability)


def _all_bits(width: int) -> NDArray[np.bool_]:
    numbers = np.arange(2**width)[:, None]
    return np.asarray((numbers >> np.arange(width)) & 1, dtype=np.bool_)


def hash_codes(
    seeds: NDArray[np.uint64], codes: NDArray[np.int64], hash_range: int
) -> NDArray[np.int64]:
    """Return keyed hashes in `range(hash_range)`: the finaliser of SplitMix64."""
    mixed = splitmix64(seeds + (codes.astype(np.uint64) + np.uint64(1)) * GOLDEN)
    return np.asarray(mixed % np.uint64(hash_range), dtype=np.int64)
