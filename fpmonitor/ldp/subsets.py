"""Subset selection: the report is a set of values, which has the user's own one with some odds.

Source: Ye and Barg (2018), "Optimal schemes for discrete distribution estimation under locally
differential privacy"; Wang et al. (2016), "Mutual information optimally local private discrete
distribution estimation".
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fpmonitor.errors import PolicyError
from fpmonitor.ldp.checks import (
    check_bits,
    check_cells,
    check_codes,
    check_epsilon,
    check_values,
    check_whole_number,
)

_BLOCK_CELLS = 4_000_000


@dataclass(frozen=True, slots=True)
class SubsetSelection:
    """Report a random set of `size` values; sets with the own one are e^epsilon times as likely.

    Raises:
        PolicyError: An argument out of range.
    """

    values: int  # Number of values, `a`, at least 2.
    epsilon: float  # LDP level, nats, positive.
    # Number of values in a set; 0, the default, stands for `a / (e^epsilon + 1)`, that of least
    # variance, and at least 1: randomised response.
    size: int = 0

    def __post_init__(self) -> None:
        check_values(self.values)
        check_epsilon(self.epsilon)
        if self.size == 0:
            best = max(1, round(self.values / (math.exp(self.epsilon) + 1)))
            object.__setattr__(self, "size", best)
        check_whole_number("size", self.size, least=1, most=self.values - 1)

    @property
    def ldp_level(self) -> float:
        """The epsilon of its construction."""
        return self.epsilon

    @property
    def independent_bits(self) -> None:
        """Sets have one size: no independent bits."""
        return None

    @property
    def true_support(self) -> float:
        """Probability that the own value is in the set."""
        return 1 / (1 + (self.values - self.size) / self.size * math.exp(-self.epsilon))

    @property
    def false_support(self) -> float:
        """Probability that a given other value is in the set."""
        return (self.size - self.true_support) / (self.values - 1)

    @property
    def densities(self) -> tuple[float, float]:
        """Probability of a set with the own value, and without it, times the number of sets."""
        own, left = self.true_support, self.values - self.size
        return own * self.values / self.size, (1 - own) * self.values / left

    @property
    def sets(self) -> float:
        """Number of sets; infinite where it is far beyond any list of them."""
        small = min(self.size, self.values - self.size)
        return math.comb(self.values, small) if small < 60 else math.inf

    def matrix(self) -> NDArray[np.float64]:
        """Probabilities `Q[y, x]` of all sets, in lexicographic order."""
        check_cells(self.sets, self.values)
        rows = list(itertools.combinations(range(self.values), self.size))
        inside = np.zeros((len(rows), self.values), dtype=bool)
        inside[np.arange(len(rows))[:, None], rows] = True
        return np.where(inside, *self.densities) / len(rows)

    def sample(self, codes: ArrayLike, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Draw sets for the values `codes`, as bits: shape (users, a)."""
        user_codes = check_codes(codes, self.values)
        reports = np.zeros((user_codes.size, self.values), dtype=np.bool_)
        block = max(1, _BLOCK_CELLS // self.values)
        for start in range(0, user_codes.size, block):
            own = user_codes[start : start + block]
            users = np.arange(own.size)
            order = rng.random((own.size, self.values))
            # The own value comes first where it is in the set, and last where it is not.
            order[users, own] = np.where(rng.random(own.size) < self.true_support, -1, 2)
            chosen = np.argpartition(order, self.size - 1, axis=1)[:, : self.size]
            reports[start + users[:, None], chosen] = True
        return reports

    def support_counts(self, reports: ArrayLike) -> NDArray[np.int64]:
        """Count the sets that have each value, int64, shape (a,)."""
        bits = check_bits(reports, self.values)
        if (bits.sum(axis=1) != self.size).any():
            raise PolicyError("reports", f"must be sets of {self.size} values")
        return np.asarray(bits.sum(axis=0), dtype=np.int64)
