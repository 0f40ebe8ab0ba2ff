"""Several histograms of the same users: what they guarantee together, and what they do not.

Deltas and epsilons of releases of the same users do not add up: what hides a record in one of them,
the randomness of the other users, may be undone by another one. Two counts, of "A" and of "B", each
hide a record well; where B is nearly always the opposite of A their sum does not hide it at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fpmonitor.errors import InputError, PolicyError
from fpmonitor.release.partial_knowledge import (
    HistogramGuarantee,
    blanket_delta,
    check_release_epsilon,
    guarantee_of,
    threshold_delta,
)

_MAX_SPLITS = 200


def several_guarantee(
    users: int,
    probabilities: ArrayLike,
    projected: ArrayLike,
    *,
    ks: Sequence[int],
    epsilon: float,
    known: int = 0,
) -> HistogramGuarantee:
    """Guarantee of several truncated histograms of the same users, with the best split.

    Args:
        probabilities: float64, shape (values,): of every joint value of the APIs of all releases;
            what is missing to 1 is absent from all of them.
        projected: float64, shape (releases, values): probability of the row of each release that
            the joint value belongs to; 0 where it belongs to none.
        ks: Threshold of each release.

    Raises:
        InputError: The shapes do not fit.
        PolicyError: A number is out of its range; the error names it.

    Notes:
        Own; "partial knowledge" leaves it open. Two arguments survive composition. A rare value,
        against absent: a release differs only if its row passes its threshold, so all of them
        together differ with at most the sum of the probabilities, whatever depends on what. Common
        values: every release is a function of the whole joint histogram, so its delta, for joint
        values, bounds any number of releases, and does not grow with it. The split is that of
        Theorem 5.
    """
    check_release_epsilon(epsilon)
    shares, rows = np.asarray(probabilities, np.float64), np.asarray(projected, np.float64)
    if shares.ndim != 1 or not shares.size or rows.shape != (len(ks), shares.size):
        raise InputError("several: probabilities of values, and of a row for each release")
    total = math.fsum(shares)
    if not (shares.min() >= 0 and total <= 1 + 1e-9):
        raise PolicyError("probabilities", "must be at least one, not negative, of sum at most 1")
    absent = max(1 - total, 0.0)
    passing = np.sum(
        [_passing(users, row, k, known) for row, k in zip(rows, ks, strict=True)], axis=0
    )
    order = np.argsort(shares, kind="stable")
    # The worst of all rare values, up to each place.
    shares, passing = shares[order], np.maximum.accumulate(passing[order])
    best = guarantee_of(epsilon, None, float(shares[-1]), 0.0, float(passing[-1]))
    for place in np.unique(np.linspace(0, shares.size - 1, _MAX_SPLITS).astype(int)):
        rare = float(shares[place - 1]) if place else None
        least = min(float(shares[place]), absent if place or absent > 0 else 1.0)
        by_numbers = blanket_delta(users, min(least, 0.5), epsilon, known=known)
        by_rarity = float(passing[place - 1]) if place else 0.0
        split = guarantee_of(epsilon, float(shares[place]), rare, by_numbers, by_rarity)
        best = min(best, split, key=lambda one: one.delta)
    return best


def _passing(users: int, row: NDArray[np.float64], k: int, known: int) -> NDArray[np.float64]:
    """Probability that each row passes the threshold with the user in question."""
    # Rows are far fewer than joint values, which share them; a tail is the costly part.
    distinct, places = np.unique(row, return_inverse=True)
    deltas = [threshold_delta(users, float(p), k, known=known) if p else 0.0 for p in distinct]
    return np.asarray(np.array(deltas)[places.reshape(-1)], dtype=np.float64)
