"""The search for borders among levels of APIs: against all vectors, and valid when stopped."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpmonitor.decide.best import best_set
from fpmonitor.decide.effort import Effort
from fpmonitor.decide.search import Borders, Sought, search
from fpmonitor.estimate.criterion import Criterion, Refutation, Score
from fpmonitor.population.levels import coarser
from fpmonitor.population.memory import MemorySource

if TYPE_CHECKING:
    from collections.abc import Iterable

Vector = tuple[int, ...]


def users_of(chains: list[int], seed: int, rows: int) -> MemorySource:
    """Components that follow a device, with noise; each level tells less than the finer ones."""
    rng = np.random.default_rng(seed)
    device = (rng.pareto(0.8, rows) + 1).astype(int) % 40
    columns = {}
    for place, length in enumerate(chains):
        shown = np.where(
            rng.random(rows) < 0.7, device * (place + 3) % 29, rng.integers(0, 29, rows)
        )
        for level in range(length, 0, -1):
            columns[f"c{place}={level}"] = shown
            shown = shown // int(rng.integers(1, 4))  # by one: a level that is as fine
    return MemorySource([*columns], [*columns.values()])


LEVELS = Sought(along=coarser)


def words(vector: Iterable[int]) -> tuple[str, ...]:
    return tuple(
        sorted(coarser(f"c{place}={level}" for place, level in enumerate(vector) if level))
    )


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[int], MemorySource, Criterion, Criterion]:
    chains = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    rows = draw(st.sampled_from([30, 300, 9000]))
    weights = np.r_[1, 1, np.sort(rng.random(8))[::-1], 0]
    size = sum(chains) + 1
    falling = 1 - 0.7 * np.sort(rng.random(size)) * draw(st.booleans())
    limits = rng.uniform(0.02, 0.5) * rows * falling
    limits[0] = rows
    source = users_of(chains, draw(st.integers(0, 1000)), rows)
    return (
        chains,
        source,
        Criterion(Score(weights), limits),
        Criterion(Score(weights), limits * 1.5),
    )


def maximal(sets: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return sorted(a for a in sets if not any({*a} < {*b} for b in sets))


def minimal(sets: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return sorted(a for a in sets if not any({*b} < {*a} for b in sets))


@given(questions())
def test_borders_are_those_of_all_vectors_by_their_rank(
    drawn: tuple[list[int], MemorySource, Criterion, Criterion],
) -> None:
    chains, source, allow, block = drawn
    vectors = [words(v) for v in itertools.product(*(range(length + 1) for length in chains))]
    passing = [v for v in vectors if allow.holds(source.spectrum(v), len(v))]
    blocked = [v for v in vectors if not block.holds(source.spectrum(v), len(v))]
    for blocking in (allow, block):
        found = search(source, allow=allow, block=blocking, sought=LEVELS)
        assert found.complete
        assert found.allow == maximal(passing)
        above = blocked if blocking is block else [v for v in vectors if v not in passing]
        assert found.block == minimal(above)
        again = search(source, allow=allow, block=blocking, sought=LEVELS, known=found)
        assert (again.allow, again.block) == (found.allow, found.block)
    refused = minimal([v for v in vectors if v not in passing])
    held = [v for v in refused if not any({*b} <= {*v} for b in found.block)]
    assert found.undecided == held


@given(questions())
def test_what_must_and_must_not_be_shown_is_kept(
    drawn: tuple[list[int], MemorySource, Criterion, Criterion],
) -> None:
    chains, source, allow, _ = drawn
    place = next(place for place, length in enumerate(chains) if length)
    last = max(place for place, length in enumerate(chains) if length)
    must, never = f"c{place}=1", f"c{last}={chains[last]}"
    if must == never:
        return
    meant_alone = Sought(must=[must], never=[never], along=coarser)
    found = search(source, allow=allow, block=allow, sought=meant_alone)
    vectors = [words(v) for v in itertools.product(*(range(length + 1) for length in chains))]
    meant = [v for v in vectors if must in v and never not in v]
    assert found.allow == maximal([v for v in meant if allow.holds(source.spectrum(v), len(v))])
    known = search(source, allow=allow, block=allow, sought=LEVELS)
    again = search(source, allow=allow, block=allow, sought=meant_alone, known=known)
    assert again.allow == found.allow  # what is known of other vectors is in no list


@given(questions(), st.booleans(), st.integers(0, 1000))
def test_the_best_vector_is_proven_against_all_of_them(
    drawn: tuple[list[int], MemorySource, Criterion, Criterion], is_bound: bool, seed: int
) -> None:
    chains, source, allow, _ = drawn
    place = next(place for place, length in enumerate(chains) if length)
    must = [f"c{place}=1"] if is_bound else []
    utility = np.random.default_rng(seed).choice([0.0, 0.25, 1, 1, 3], len(source.apis))
    weights = dict(zip(source.apis, map(float, utility), strict=True))
    sought = Sought(must=must, along=coarser, weights=weights)
    limits = allow.limits.tolist()
    found = best_set(source, allow, limits, sought=sought, effort=Effort())
    every = [words(v) for v in itertools.product(*(range(length + 1) for length in chains))]
    meant = [v for v in every if {*must} <= {*v}]
    passing = [v for v in meant if allow.holds(source.spectrum(v), len(v))]
    for refused in found.refused:
        assert refused in meant
        assert refused not in passing
    assert {*found.sets} <= {*passing}
    if passing:
        best = max(sum(weights[word] for word in v) for v in passing)
        assert found.proven
        assert found.bound == pytest.approx(best)
        assert sum(weights[word] for word in found.sets[0]) == pytest.approx(best)
    else:
        assert not found.sets


@pytest.mark.parametrize("monotone", [False, True])
def test_vectors_are_blocked_by_a_test_of_single_ones(monotone: bool) -> None:
    chains = [3, 2, 3]
    source = users_of(chains, 5, 3000)
    weights = np.r_[1, 1, np.linspace(0.9, 0.1, 8), 0]
    allow = Criterion(Score(weights), np.linspace(700, 300, 9))
    refute = Refutation(Score(weights), np.linspace(900, 700, 9), monotone)
    never = Criterion(Score(weights), np.full(9, 3000.0))
    found = search(source, allow=allow, block=never, refute=refute, sought=LEVELS)
    vectors = [words(v) for v in itertools.product(range(4), range(3), range(4))]
    for vector in found.block:
        assert refute.score(source.spectrum(vector)) > refute.limits[len(vector)]
    refused = [v for v in vectors if not allow.holds(source.spectrum(v), len(v))]
    held = [*found.block, *found.undecided]
    assert all(any({*each} <= {*v} for each in held) for v in refused)


@pytest.mark.parametrize("tests", [1, 7, 60])
def test_what_a_stopped_search_says_is_true(tests: int) -> None:
    chains = [5, 4, 5, 4, 3]
    source = users_of(chains, 7, 4000)
    allow = Criterion(Score(np.r_[np.ones(10), 0]), np.full(sum(chains) + 1, 900.0))

    class Stopping(Effort):
        left = tests

        def check(self, told: str) -> None:
            Stopping.left -= 1
            if Stopping.left < 0:
                raise KeyboardInterrupt
            super().check(told)

    found = search(source, allow=allow, block=allow, effort=Stopping(), sought=LEVELS)
    assert not found.complete
    for vector in found.allow:
        assert {*coarser(vector)} == {*vector}
        assert allow.holds(source.spectrum(vector), len(vector))
    for vector in found.block:
        assert not allow.holds(source.spectrum(vector), len(vector))


@pytest.mark.each
@given(questions(), st.integers(0, 1000))
def test_what_another_test_allows_is_allowed_with_all_coarser_vectors(
    drawn: tuple[list[int], MemorySource, Criterion, Criterion], seed: int
) -> None:
    """Also where their scores are too large, and those of what they hold."""
    chains, source, allow, _ = drawn
    vectors = [words(v) for v in itertools.product(*(range(length + 1) for length in chains))]
    rng = np.random.default_rng(seed)
    chosen = [vectors[place] for place in rng.integers(0, len(vectors), 2)]
    known = Borders.nothing().proving(chosen, [], evaluated=2)
    within = [v for v in vectors if any({*v} <= {*one} for one in chosen)]
    passing = [v for v in vectors if v in within or allow.holds(source.spectrum(v), len(v))]
    found = search(source, allow=allow, block=allow, sought=LEVELS, known=known)
    assert found.complete
    assert found.allow == maximal(passing)
    assert found.block == minimal([v for v in vectors if v not in passing])
