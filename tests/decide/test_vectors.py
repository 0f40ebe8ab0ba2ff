"""Search among level vectors: against all of them, and valid whenever it is stopped."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.decide.effort import Effort
from fpmonitor.decide.vectors import BestVector, VectorSearch
from fpmonitor.population.levels import is_below

Vector = tuple[int, ...]


def every(chains: list[int]) -> list[Vector]:
    return list(itertools.product(*(range(length + 1) for length in chains)))


@st.composite
def searches(draw: st.DrawFn) -> tuple[list[int], list[Vector], list[list[float]]]:
    """Chains, vectors that fail with all above them, and utilities."""
    chains = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(any))
    vectors = every(chains)
    failing = draw(st.lists(st.sampled_from(vectors[1:]), max_size=8))
    gains = [
        draw(st.lists(st.sampled_from([0, 0.25, 1, 3]), min_size=n, max_size=n)) for n in chains
    ]
    return chains, failing, [[*np.cumsum([0, *gain]).tolist()] for gain in gains]


@settings(deadline=None)  # the first programme loads its solver
@given(searches())
def test_borders_and_the_best_vector_are_those_of_all_vectors(
    drawn: tuple[list[int], list[Vector], list[list[float]]],
) -> None:
    chains, failing, utilities = drawn
    asked: list[Vector] = []

    def passes(vector: Vector) -> bool:
        asked.append(vector)
        return not any(is_below(low, vector) for low in failing)

    def utility(vector: Vector) -> float:
        return math.fsum(gains[level] for gains, level in zip(utilities, vector, strict=True))

    good = [vector for vector in every(chains) if not any(is_below(low, vector) for low in failing)]
    bad = [vector for vector in every(chains) if vector not in good]
    search = VectorSearch(chains, passes, Effort())
    best = BestVector.unknown(tuple(chains), utilities)
    best.offer((0,) * len(chains), utilities)
    search.best(utilities, best)
    assert best.vector in good
    assert best.utility == best.bound == max(map(utility, good))
    search.borders()
    assert search.complete
    assert search.passed == sorted(
        v for v in good if not any(is_below(v, other) for other in good if other != v)
    )
    assert search.failed == sorted(
        v for v in bad if not any(is_below(other, v) for other in bad if other != v)
    )
    assert len(asked) == len({*asked}) == search.tested, "nothing is tested twice"


@pytest.mark.parametrize("tests", [1, 7, 60])
def test_what_a_stopped_search_says_is_true(tests: int) -> None:
    chains = [5, 4, 5, 4, 3]

    def passes(vector: Vector) -> bool:
        if search.tested > tests:
            raise KeyboardInterrupt
        return sum(level * level for level in vector) <= 30

    effort = Effort()
    search = VectorSearch(chains, passes, effort)
    utilities = [[float(level) for level in range(length + 1)] for length in chains]
    best = BestVector.unknown(tuple(chains), utilities)
    best.offer((0,) * len(chains), utilities)
    with effort.until_stopped():
        search.best(utilities, best)
        search.borders()
    assert not search.complete
    good = [v for v in every(chains) if sum(level * level for level in v) <= 30]
    assert best.vector in good
    assert best.bound >= max(map(sum, good)) >= best.utility
    assert set(search.passed) <= set(good)
    assert not set(search.failed) & set(good)
