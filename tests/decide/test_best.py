"""The best of many APIs: proven against all borders, and its bound holds whenever it is stopped."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fpmonitor.decide.best import BestSet, best_set
from fpmonitor.decide.deciding import decide
from fpmonitor.decide.effort import Effort
from fpmonitor.decide.search import search
from fpmonitor.decide.utility import recommend
from fpmonitor.estimate.criterion import Criterion
from fpmonitor.estimate.looks import decision_criteria
from fpmonitor.policy import Policy
from fpmonitor.population.memory import MemorySource

if TYPE_CHECKING:
    from collections.abc import Iterator


def devices(seed: int, *, columns: int, rows: int) -> MemorySource:
    """Columns that follow a device, each with noise of its own."""
    rng = np.random.default_rng(seed)
    device = (rng.pareto(0.8, rows) + 1).astype(int) % 40
    codes = [
        np.where(
            rng.random(rows) < rng.uniform(0.6, 1),
            device * int(rng.integers(1, 99)) % values,
            rng.integers(0, values, rows),
        )
        for values in rng.choice([1, 2, 2, 3, 4, 6, 10, 30], columns)
    ]
    return MemorySource([f"a{place:02d}" for place in range(columns)], codes)


def question(seed: int) -> tuple[MemorySource, Criterion, dict[str, float]]:
    """Eleven columns, limits that fall with the size, and weights of which some are 0."""
    source, rng = devices(seed, columns=11, rows=1500), np.random.default_rng(seed)
    weights = np.r_[1, np.sort(rng.random(9))[::-1], 0]
    weights[1] = 1
    limits = np.sort(rng.uniform(0.03, 0.3) * 1500 * (1 - 0.2 * rng.random(12)))[::-1]
    utility = rng.choice([0.0, 0.1, 1, 1, 2, 3.5, 7], 11)
    return source, Criterion(weights, limits), dict(zip(source.apis, utility.tolist(), strict=True))


def best_of(
    question: tuple[MemorySource, Criterion, dict[str, float]], effort: Effort, **asked: Any
) -> BestSet:
    source, criterion, utility = question
    limits = criterion.limits.tolist()
    return best_set(source, criterion, limits, weights=utility, effort=effort, **asked)


@pytest.mark.parametrize("must", [(), ("a03",), ("a01", "a06")])
def test_the_best_set_is_the_one_of_the_complete_borders(must: tuple[str, ...]) -> None:
    for seed in range(25):
        source, criterion, utility = question(seed)
        never = {"a05"} if seed % 2 else set[str]()
        borders = search(source, allow=criterion, block=criterion, must=must, never=never)
        truth = recommend(borders.allow, weights=utility)
        best = best_of((source, criterion, utility), Effort(), must=must, never=never)
        if not borders.allow:
            assert (best.sets, best.bound) == ([], 0)
            continue
        assert best.proven, seed
        assert math.fsum(utility[api] for api in best.sets[0]) == best.bound == truth.weight, seed
        for apis in best.sets:
            assert set(must) <= set(apis) <= set(source.apis) - never
            assert criterion.holds(source.spectrum(apis), len(apis))
        for apis in best.refused:
            assert not criterion.holds(source.spectrum(apis), len(apis))


def test_the_bound_holds_wherever_the_search_is_stopped() -> None:
    source, criterion, _ = asked = question(4)
    truth = best_of(asked, Effort()).bound
    bounds, stopped = list[float](), True
    while stopped:
        words = itertools.count(-5 * len(bounds) - 5)

        def interrupt(_: str, words: Iterator[int] = words) -> None:
            if next(words) == 0:
                raise KeyboardInterrupt

        effort = Effort(progress=interrupt)
        part = best_of(asked, effort)
        stopped = effort.stopped
        bounds.append(part.bound)
        for apis in part.sets:
            assert criterion.holds(source.spectrum(apis), len(apis))
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] == truth
    assert len(set(bounds)) >= 3


def test_more_than_25_candidates_are_recommended_a_set_and_two_bounds() -> None:
    source = devices(1, columns=30, rows=20_000)
    policy = Policy(k=10, population=20_000, budget=0.05, delta=0.05, candidates=tuple(source.apis))
    decision = decide(source, policy, seal="", time_limit=4)
    criteria = decision_criteria(
        users=20_000, k=10, population=20_000, budget=0.05, delta=0.05, universe=30
    )
    assert criteria.allow.holds(source.spectrum(decision.recommended), len(decision.recommended))
    assert decision.utility == len(decision.recommended)
    assert decision.utility_bound is not None
    assert decision.utility_possible is not None
    assert decision.utility <= decision.utility_bound <= decision.utility_possible < 30
    part = decide(source, policy, seal="", time_limit=0)
    assert (part.complete, part.utility_bound, part.utility_possible) == (False, 30, 30)
