"""Tallies: how many of `n` items fall into each of some classes, numbered in one order.

The number of a tally is its rank in the combinatorial number system of the positions of the bars
in its stars-and-bars picture.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import scipy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.ldp.priors import DirichletPrior


def number_of_tallies(items: int, classes: int) -> int:
    """Return the number of tallies of `items` in `classes`."""
    return math.comb(items + classes - 1, classes - 1)


def all_tallies(items: int, classes: int) -> NDArray[np.int64]:
    """Return all tallies, int64, shape (tallies, classes), in the order of `ranks`."""
    bars = np.array(
        list(itertools.combinations(range(items + classes - 1), classes - 1)), dtype=np.int64
    ).reshape(number_of_tallies(items, classes), classes - 1)
    edges = np.pad(bars, ((0, 0), (1, 1)), constant_values=-1)
    edges[:, -1] = items + classes - 1
    tallies = np.diff(edges, axis=1) - 1
    return tallies[np.argsort(ranks(tallies))]


def ranks(tallies: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of tallies of equally many items, int64."""
    classes = tallies.shape[1]
    positions = np.cumsum(tallies, axis=1)[:, :-1] + np.arange(classes - 1)
    largest = int(tallies[0].sum()) + classes - 1 if len(tallies) else 0
    choose = np.array(
        [[math.comb(n, r) for r in range(1, classes)] for n in range(largest + 1)], dtype=np.int64
    ).reshape(largest + 1, classes - 1)
    return np.asarray(choose[positions, np.arange(classes - 1)].sum(axis=1), dtype=np.int64)


def log_arrangements(tallies: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the log of the number of sequences with each tally."""
    return np.asarray(
        scipy.special.gammaln(tallies.sum(axis=1) + 1)
        - scipy.special.gammaln(tallies + 1).sum(axis=1),
        dtype=np.float64,
    )


def log_prior_of_sequence(tallies: NDArray[np.int64], prior: DirichletPrior) -> NDArray[np.float64]:
    """Return the log probability, over the prior, of one sequence of values with each tally."""
    alpha, total = prior.parameters, prior.total
    rising = (scipy.special.gammaln(alpha + tallies) - scipy.special.gammaln(alpha)).sum(axis=1)
    whole = scipy.special.gammaln(total + tallies.sum(axis=1)) - scipy.special.gammaln(total)
    return np.asarray(rising - whole, dtype=np.float64)
