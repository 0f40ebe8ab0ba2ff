"""Half of delta for sets of the names of the first log."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.looks import LARGEST_BLOCKED, Drawing, decision_criteria, level_terms
from fpmonitor.spectrum import CountSpectrum

NAMES, FIRST = 6, 3


def levels(first: int | None) -> np.ndarray:
    """Levels of allowing the sets of each size, by delta."""
    return np.asarray(np.exp(-level_terms(0.05, NAMES, first)[0]) / 0.05)


def heaviest_antichain(level: dict[int, float]) -> float:
    """Most that levels of sets add up to of which none holds another: a linear programme."""
    rows, columns = [], []
    for row, order in enumerate(itertools.permutations(range(NAMES))):
        members = 0
        for name in order:
            members |= 1 << name
            rows.append(row)
            columns.append(members)
    chains = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(row + 1, 1 << NAMES))
    weights = -np.array([level.get(members, 0.0) for members in range(1 << NAMES)])
    found = linprog(weights, A_ub=chains, b_ub=np.ones(row + 1), bounds=(0, 1), method="highs")
    return float(-found.fun)


def test_the_heaviest_antichain_has_delta_and_without_the_weights_more() -> None:
    within, beyond, alone = levels(FIRST), levels(0), levels(None)
    first = (1 << FIRST) - 1
    sizes = {members: members.bit_count() for members in range(1, 1 << NAMES)}
    noted = {
        members: float((beyond if members & ~first else within)[size])
        for members, size in sizes.items()
    }
    assert heaviest_antichain(noted) == pytest.approx(1, abs=1e-6)
    for smaller, larger in itertools.combinations(sizes, 2):
        if smaller & larger == smaller:
            assert noted[smaller] >= noted[larger] - 1e-15
    own = [1 / math.comb(FIRST, min(size, FIRST // 2)) for size in range(NAMES + 1)]
    greedy = {
        members: float(alone[size] if members & ~first else own[size])
        for members, size in sizes.items()
    }
    assert heaviest_antichain(greedy) > 1.2


def test_the_levels_of_blocking_add_up_to_delta() -> None:
    universe, first = 12, 7
    within, beyond = (np.exp(-level_terms(0.05, universe, first)[1]) for first in (first, 0))
    total = 0.0
    for size in range(1, universe + 1):
        own, all_of_it = math.comb(first, size), math.comb(universe, size)
        total += own * within[min(size, universe)] + (all_of_it - own) * beyond[size]
    assert total <= 0.05 * (1 + 1e-9)
    assert total > 0.03
    assert len({*np.round(within[1 : LARGEST_BLOCKED + 1], 12).tolist()}) == 1


@pytest.mark.parametrize("first", [0, 150])
def test_limits_of_a_large_set_of_many_names_are_limits(first: int) -> None:
    """A collection of more than 1,000 names: 1 / C(10,000, 200) is no float above 0."""
    asked = {"users": 1000, "k": 5, "population": 1000, "delta": 0.05, "universe": 10_000}
    limits = exposure_limits(**asked, drawing=Drawing(first=first))
    alone = exposure_limits(**asked)
    assert limits.log_term(200) - alone.log_term(200) == pytest.approx(math.log(2), abs=1e-9)
    lower, upper = limits.of(CountSpectrum.from_counts([1000]), 200)
    assert 0 == lower < upper <= 1


def test_what_each_pays() -> None:
    within, beyond, before = (level_terms(0.05, 1000, first)[0] for first in (15, 0, None))
    free = math.log(1 / 0.05)
    assert np.round(within[1:5] - free, 1).tolist() == [3.4, 5.3, 6.8, 7.9]
    assert np.allclose(beyond - before, math.log(2))


@pytest.mark.long
def test_a_set_of_the_first_names_is_decided_where_others_are_not() -> None:
    question = {"users": 3_000, "k": 10, "population": 3_000, "budget": 0.05, "delta": 0.05}
    most = [
        decision_criteria(**question, drawing=Drawing(first=first)).log_terms[0][3]
        for first in (15, None, 0)
    ]
    assert most[0] < most[1] - 10 < most[2] - 10
