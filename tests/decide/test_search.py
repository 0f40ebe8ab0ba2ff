from __future__ import annotations

import inspect
import itertools
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fpmonitor.decide import refinement
from fpmonitor.decide.best import best_set
from fpmonitor.decide.coherence import Family, mask
from fpmonitor.decide.effort import Effort, OutOfTimeError
from fpmonitor.decide.search import Borders, Sought, search
from fpmonitor.errors import InputError, UndecidableError, UnknownNameError
from fpmonitor.estimate.criterion import Criterion, Refutation, Score
from fpmonitor.estimate.looks import LARGEST_BLOCKED, decision_criteria
from fpmonitor.population.memory import MemorySource
from fpmonitor.spectrum import SpectrumSource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fpmonitor.decide.decision import ApiSet
    from fpmonitor.spectrum import CountSpectrum

SEEDS = st.integers(0, 2**32 - 1)


@dataclass
class PlainSource(SpectrumSource):
    """Any other spectrum source: it can only be asked for spectra, and counts the questions."""

    source: MemorySource
    asked: int = 0
    interrupt_after: int | None = None

    @property
    def apis(self) -> tuple[str, ...]:
        return self.source.apis

    @property
    def users(self) -> int:
        return self.source.users

    def spectrum(self, apis: Sequence[str]) -> CountSpectrum:
        self.asked += 1
        if self.asked == self.interrupt_after:
            raise KeyboardInterrupt
        return self.source.spectrum(apis)


def exact(k: int, limit: int, columns: int) -> Criterion:
    """Users in groups of fewer than k."""
    weights = np.ones(k + 1)
    weights[k] = 0
    return Criterion(Score(weights), np.full(columns + 1, float(limit)))


def random_source(rng: np.random.Generator, *, columns: int, rows: int) -> MemorySource:
    """Columns of few values, some that follow another one, some constant, some twice."""
    codes: list[np.ndarray] = []
    for _ in range(columns):
        kind = rng.random()
        if codes and kind < 0.3:
            column = codes[rng.integers(len(codes))] % rng.integers(1, 5)
        else:
            column = rng.integers(0, rng.integers(1, 6), rows)
        if codes and kind > 0.8:
            column = np.where(rng.random(rows) < 0.95, codes[-1], column)
        codes.append(column)
    weights = rng.integers(1, 6, rows) if rng.random() < 0.5 else None
    return MemorySource([f"api{place:02d}" for place in range(columns)], codes, weights)


def random_criteria(
    rng: np.random.Generator, users: int, columns: int
) -> tuple[Criterion, Criterion]:
    """Weights and limits in eighths, so that sums are exact; blocking weighs less than allowing."""
    steps = rng.integers(0, 3, rng.integers(2, 20))
    weights = np.cumsum(steps)[::-1] / 8
    limit = float(rng.integers(0, users))
    shrink = np.sort(rng.integers(0, 3, columns + 1))
    allow = Criterion(Score(weights), limit - shrink)
    return allow, Criterion(Score(weights * 0.5), np.full(columns + 1, limit))


def sets_of(apis: Sequence[str]) -> list[ApiSet]:
    return [
        chosen
        for size in range(len(apis) + 1)
        for chosen in itertools.combinations(sorted(apis), size)
    ]


def brute_force(
    source: SpectrumSource,
    allow: Criterion,
    block: Criterion,
    inside: Callable[[ApiSet], bool] = lambda _: True,
) -> tuple[list[ApiSet], list[ApiSet], list[ApiSet]]:
    """Judge every set by itself."""
    allowed, blocked, open_sets = [], [], []
    for apis in filter(inside, sets_of(source.apis)):
        spectrum = source.spectrum(apis)
        if allow.holds(spectrum, len(apis)):
            allowed.append(apis)
        else:
            (open_sets if block.holds(spectrum, len(apis)) else blocked).append(apis)
    refused = minimal(blocked + open_sets)
    return (
        maximal(allowed),
        minimal(blocked),
        sorted(set(refused) & set(open_sets)),
    )


def minimal(sets: list[ApiSet]) -> list[ApiSet]:
    return sorted(one for one in sets if not any(set(other) < set(one) for other in sets))


def maximal(sets: list[ApiSet]) -> list[ApiSet]:
    return sorted(one for one in sets if not any(set(other) > set(one) for other in sets))


def level_wise(source: SpectrumSource, criterion: Criterion) -> tuple[list[ApiSet], list[ApiSet]]:
    """Search all allowed sets size by size, as one would by queries."""
    allowed: set[ApiSet] = {()}
    refused: list[ApiSet] = []
    level: list[ApiSet] = [(api,) for api in source.apis]
    while level:
        holds = {apis: criterion.holds(source.spectrum(apis), len(apis)) for apis in level}
        refused += [apis for apis in level if not holds[apis]]
        passed = [apis for apis in level if holds[apis]]
        allowed.update(passed)
        joined = {(*one, api) for one in passed for api in source.apis if api > one[-1]}
        level = [
            apis
            for apis in sorted(joined)
            if all(apis[:place] + apis[place + 1 :] in allowed for place in range(len(apis)))
        ]
    return maximal(list(allowed)), sorted(refused)


def triple(borders: Borders) -> tuple[list[ApiSet], list[ApiSet], list[ApiSet]]:
    return borders.allow, borders.block, borders.undecided


@pytest.fixture(params=["rows as they are", "rows merged at every step", "rows in two threads"])
def _rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "rows as they are":
        monkeypatch.setattr(refinement, "SMALL", 2)
    if request.param == "rows in two threads":
        monkeypatch.setattr(refinement, "BATCH", 2)


def check_sample(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(1, 9))
    source = random_source(rng, columns=columns, rows=int(rng.integers(1, 200)))
    criterion = exact(int(rng.integers(2, 12)), int(rng.integers(0, source.users)), columns)
    borders = search(source, allow=criterion, block=criterion)
    assert borders.complete
    assert triple(borders) == brute_force(source, criterion, criterion)


def check_population(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(1, 8))
    source = random_source(rng, columns=columns, rows=int(rng.integers(1, 200)))
    allow, block = random_criteria(rng, source.users, columns)
    expected = brute_force(source, allow, block)
    assert triple(search(source, allow=allow, block=block)) == expected
    assert triple(search(PlainSource(source), allow=allow, block=block)) == expected


@pytest.mark.usefixtures("_rows")
def test_sample_setting_gives_the_sets_of_brute_force() -> None:
    @settings(deadline=None, max_examples=120)
    @given(SEEDS)
    def check(seed: int) -> None:
        check_sample(seed)

    check()


@pytest.mark.usefixtures("_rows")
def test_population_setting_gives_the_sets_of_brute_force() -> None:
    @settings(deadline=None, max_examples=60)
    @given(SEEDS)
    def check(seed: int) -> None:
        check_population(seed)

    check()


@pytest.mark.long
@pytest.mark.usefixtures("_rows")
def test_eleven_columns_give_the_sets_of_brute_force_and_level_wise() -> None:
    source = random_source(np.random.default_rng(11), columns=11, rows=600)
    criterion = exact(5, 60, 11)
    borders = search(source, allow=criterion, block=criterion)
    assert len(borders.allow) > 10
    assert triple(borders) == brute_force(source, criterion, criterion)
    assert (borders.allow, borders.block) == level_wise(source, criterion)


def correlated_source(*, columns: int, rows: int, models: int, own: float = 0.05) -> MemorySource:
    """Device models fix most values, as in real logs; some are each user's `own`."""
    rng = np.random.default_rng(columns)
    model = (models * rng.random(rows) ** 3).astype(int)
    codes = []
    for column in range(columns):
        cardinality = 2 + column * 2
        typical = (cardinality * rng.random(models) ** 2).astype(int)
        value = (cardinality * rng.random(rows) ** 2).astype(int)
        codes.append(np.where(rng.random(rows) < own, value, typical[model]))
    return MemorySource([f"api{column:02d}" for column in range(columns)], codes)


@pytest.mark.usefixtures("_rows")
@pytest.mark.parametrize(("columns", "rows", "models"), [(12, 20_000, 300), (15, 5_000, 60)])
def test_evaluations_stay_within_twice_the_borders_and_the_square_of_the_columns(
    columns: int, rows: int, models: int
) -> None:
    source = correlated_source(columns=columns, rows=rows, models=models)
    criterion = exact(10, source.users // 50, columns)
    borders = search(source, allow=criterion, block=criterion)
    assert (borders.allow, borders.block) == level_wise(source, criterion)
    assert len(borders.block) > 30
    bound = 2 * (len(borders.allow) + len(borders.block)) + columns**2
    assert borders.evaluated <= bound


@pytest.mark.parametrize("seed", range(3))
def test_many_rows_give_the_sets_of_level_wise_search(seed: int) -> None:
    """Weights between 0 and 1, limits that fall with the size, and rows that must be narrowed."""
    rng = np.random.default_rng(seed)
    source = correlated_source(columns=9, rows=40_000, models=2_000, own=0.3)
    assert len(source.restricted(source.apis).table.weights) > 2 * refinement.SMALL
    weights = np.sort(rng.integers(0, 9, 30))[::-1] / 8
    weights[0] = weights[1]
    limits = source.users // 20 - np.sort(rng.integers(0, 300, 10))
    criterion = Criterion(Score(weights), limits)
    borders = search(source, allow=criterion, block=criterion)
    assert len(borders.block) > 10
    assert (borders.allow, borders.block) == level_wise(source, criterion)


@settings(deadline=None, max_examples=60)
@given(SEEDS)
def test_a_column_is_hopeless_only_if_it_fails(seed: int) -> None:
    rng = np.random.default_rng(seed)
    source = random_source(rng, columns=5, rows=int(rng.integers(20, 300)))
    criterion, _ = random_criteria(rng, source.users, 5)
    data = refinement.refinement_of(source, criterion, source.apis, [0])
    columns = [1, 2, 3, 4]
    scores = dict(zip(columns, data.steps(columns).scores.tolist(), strict=True))
    limit = float(rng.uniform(0, max(scores.values())))
    assert all(scores[column] > limit for column in data.hopeless(columns, limit))


@pytest.mark.long
def test_a_column_far_above_the_limit_is_found_by_a_part_of_the_rows() -> None:
    """Thousand users in groups of ten, of which the column makes single ones, say it of all."""
    rows = np.arange(100_000)
    base = np.where(rows < 1_000, rows // 10 + 1, 0)
    source = MemorySource(["base", "fine", "plain"], [base, rows % 10, base * 0])
    data = refinement.refinement_of(source, exact(10, 500, 3), source.apis, [0])
    assert data.hopeless([1, 2], 500.0) == [1]


@settings(deadline=None, max_examples=80)
@given(SEEDS)
def test_rows_that_drop_a_column_after_the_other_score_as_all_rows_do(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(2, 7))
    source = random_source(rng, columns=columns, rows=int(rng.integers(1, 200)))
    criterion, _ = random_criteria(rng, source.users, columns)
    base = [*range(int(rng.integers(0, 2)))]
    kept = rng.permutation(range(len(base), columns)).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refinement, "SMALL", 2)
        data = refinement.refinement_of(source, criterion, source.apis, base)
        while kept:
            data, whole = data.narrowed(kept)
            expected = criterion.score(source.spectrum([source.apis[c] for c in [*base, *kept]]))
            assert whole in {None, expected}
            assert data.union(kept) == expected
            if rng.random() < 0.2:
                base.append(kept.pop(int(rng.integers(len(kept)))))
                data = data.joined(base[-1])
            else:
                del kept[0 if rng.random() < 0.8 else -1]


def test_evaluated_counts_the_questions_to_a_plain_source() -> None:
    source = PlainSource(correlated_source(columns=8, rows=2_000, models=50))
    criterion = exact(10, 40, 8)
    borders = search(source, allow=criterion, block=criterion)
    assert source.asked >= borders.evaluated > 0
    # A base is asked once more for its number of groups.
    assert source.asked <= 2 * borders.evaluated


@settings(deadline=None, max_examples=60)
@given(SEEDS)
def test_must_and_never_restrict_what_is_searched(seed: int) -> None:
    rng = np.random.default_rng(seed)
    source = random_source(rng, columns=6, rows=80)
    allow, block = random_criteria(rng, source.users, 6)
    must, never = {"api01"}, {"api04", "api05"}
    borders = search(source, allow=allow, block=block, sought=Sought(must=must, never=never))
    expected = brute_force(
        source, allow, block, lambda apis: must <= set(apis) and not never & set(apis)
    )
    assert triple(borders) == expected


def test_empty_set_alone_allowed_and_not_even_that() -> None:
    source = MemorySource(["a", "b"], [[0, 0, 1], [0, 1, 1]])
    only_empty = search(source, allow=exact(3, 2, 2), block=exact(3, 2, 2))
    assert (only_empty.allow, only_empty.block) == ([()], [("a",), ("b",)])
    nothing = search(source, allow=exact(4, 2, 2), block=exact(4, 2, 2))
    assert (nothing.allow, nothing.block) == ([], [()])
    assert nothing.complete


def test_source_without_apis_has_the_empty_set() -> None:
    source = MemorySource(["a"], [[0, 1, 1]])
    borders = search(source, allow=exact(2, 0, 0), block=exact(2, 0, 0), sought=Sought(never=["a"]))
    assert (borders.allow, borders.block, borders.complete) == ([()], [], True)


def within(sets: list[ApiSet], apis: ApiSet) -> bool:
    return any(set(apis) <= set(other) for other in sets)


def containing(sets: list[ApiSet], apis: ApiSet) -> bool:
    return any(set(apis) >= set(other) for other in sets)


def check_proven(part: Borders, whole: Borders) -> None:
    """What a partial answer says is true, and its lists hold no set within another."""
    assert all(within(whole.allow, apis) for apis in part.allow)
    assert all(containing(whole.block, apis) for apis in part.block)
    assert all(containing(whole.block + whole.undecided, apis) for apis in part.undecided)
    assert part.allow == maximal(part.allow)
    assert part.block == minimal(part.block)


@pytest.mark.parametrize("questions", [1, 2, 12, 40, 75])
def test_interrupt_leaves_what_is_proven(questions: int) -> None:
    source = correlated_source(columns=10, rows=2_000, models=60)
    criterion = exact(10, 60, 10)
    whole = search(source, allow=criterion, block=criterion)
    stopped = PlainSource(source, interrupt_after=questions)
    part = search(stopped, allow=criterion, block=criterion)
    assert stopped.asked == questions
    assert not part.complete
    check_proven(part, whole)
    resumed = search(source, allow=criterion, block=criterion, known=part)
    assert triple(resumed) == triple(whole)
    assert resumed.complete


def test_interrupt_while_the_second_border_is_searched() -> None:
    rng = np.random.default_rng(5)
    source = random_source(rng, columns=6, rows=150)
    allow, block = exact(10, 20, 6), exact(5, 20, 6)
    whole = search(source, allow=allow, block=block)
    questions = PlainSource(source)
    search(questions, allow=allow, block=block)
    for stop in range(1, questions.asked + 1, 3):
        part = search(PlainSource(source, interrupt_after=stop), allow=allow, block=block)
        assert not part.complete
        check_proven(part, whole)


def test_time_limit_ends_the_search_with_what_is_proven() -> None:
    source = correlated_source(columns=12, rows=5_000, models=100)
    criterion = exact(10, 100, 12)
    part = search(source, allow=criterion, block=criterion, effort=Effort.of(0.0))
    assert not part.complete
    check_proven(part, search(source, allow=criterion, block=criterion))


@pytest.mark.usefixtures("_rows")
@pytest.mark.parametrize("size", [0, 1, 2, 3, 8])
def test_no_larger_set_than_the_maximal_size_is_looked_at(size: int) -> None:
    source = random_source(np.random.default_rng(19), columns=8, rows=400)
    criterion = exact(8, source.users // 4, 8)
    whole = search(source, allow=criterion, block=criterion)
    assert max(map(len, whole.allow)) > 3
    part = search(source, allow=criterion, block=criterion, sought=Sought(max_size=size))
    assert max(map(len, part.allow + part.block)) <= size
    small = [apis for apis in sets_of(source.apis) if len(apis) <= size]
    assert part.allow == maximal([apis for apis in small if within(whole.allow, apis)])
    assert part.block == [apis for apis in whole.block if len(apis) <= size]
    assert part.complete == (size == 8)


def test_progress_is_told_and_never_falls() -> None:
    words: list[str] = []
    source = correlated_source(columns=8, rows=1_000, models=60)
    criterion = exact(10, 30, 8)
    borders = search(source, allow=criterion, block=criterion, effort=Effort(progress=words.append))
    told = [int(text.split()[0].replace(",", "")) for text in words]
    assert told
    assert told == sorted(told)
    assert told[-1] <= borders.evaluated


def test_forty_candidates_give_a_useful_answer_in_time() -> None:
    source = correlated_source(columns=40, rows=3_000, models=30)
    criterion = exact(10, 150, 40)
    part = search(source, allow=criterion, block=criterion, effort=Effort.of(1.0))
    assert max(map(len, part.allow)) >= 2
    assert all(criterion.holds(source.spectrum(apis), len(apis)) for apis in part.allow)


@pytest.mark.parametrize("best", [False, True], ids=["borders", "best set"])
@pytest.mark.each
def test_a_set_may_have_more_apis_than_calls_fit_within_each_other(*, best: bool) -> None:
    """Telemetry of 600 columns ended in a RecursionError: each column of a set was two calls."""
    columns, exposed = 60, 2  # users of each, by that API alone
    users = np.arange(4 * columns)
    codes = [np.where(users // exposed == place, 2, 1) for place in range(columns)]
    source = MemorySource([f"a{place:03d}" for place in range(columns)], codes)
    criterion = exact(10, exposed * (columns - 10), columns)
    looks, limit = itertools.count(), sys.getrecursionlimit()

    def end_at_last(_message: str) -> None:
        if next(looks) > 3_000:
            raise OutOfTimeError

    effort = Effort(progress=end_at_last)
    sys.setrecursionlimit(len(inspect.stack(0)) + columns)
    try:
        if best:
            found = best_set(source, criterion, criterion.limits.tolist(), effort=effort).sets[0]
        else:
            found = max(search(source, allow=criterion, block=criterion, effort=effort).allow)
    finally:
        sys.setrecursionlimit(limit)
    assert len(found) == columns - 10


def test_criteria_that_contradict_each_other_are_refused() -> None:
    source = MemorySource(["a"], [[0, 1, 1]])
    with pytest.raises(UndecidableError, match="both within and above"):
        search(source, allow=exact(2, 1, 1), block=exact(3, 0, 1))


def test_bad_names_and_limits_are_refused() -> None:
    source = MemorySource(["a", "b"], [[0, 1], [0, 1]])
    good = exact(2, 1, 2)
    with pytest.raises(UnknownNameError, match="c"):
        search(source, allow=good, block=good, sought=Sought(must=["c"]))
    with pytest.raises(InputError, match="both must and must not"):
        search(source, allow=good, block=good, sought=Sought(must=["a"], never=["a"]))
    with pytest.raises(InputError, match="2 APIs need 3 limits"):
        search(source, allow=good, block=exact(2, 1, 1))


@settings(deadline=None, max_examples=100)
@given(st.lists(st.sets(st.integers(0, 6)), max_size=8), st.sets(st.integers(0, 6)))
def test_family_answers_containment(sets: list[set[int]], members: set[int]) -> None:
    family = Family(7, map(mask, sets))
    assert family.has_superset(mask(members)) == any(members <= other for other in sets)
    assert family.has_subset(mask(members)) == any(members >= other for other in sets)
    columns = sorted(set(range(7)) - members)
    assert family.extended(mask(members), mask(columns)) == mask(
        column for column in columns if family.has_superset(mask(members | {column}))
    )
    if not family.has_subset(mask(members)):
        assert family.completed(mask(members), mask(columns)) == mask(
            column for column in columns if family.has_subset(mask(members | {column}))
        )
    assert set(family.maximal()) == {
        mask(one) for one in sets if not any(one < other for other in sets)
    }
    assert set(family.minimal()) == {
        mask(one) for one in sets if not any(one > other for other in sets)
    }


@given(seed=SEEDS, columns=st.integers(1, 5), monotone=st.booleans())
@example(seed=250, columns=5, monotone=True)  # a column that adds nothing joins a blocked set
@settings(deadline=None, max_examples=60)
def test_few_apis_are_blocked_by_search_and_single_sets_by_refutation(
    seed: int, columns: int, monotone: bool
) -> None:
    rng = np.random.default_rng(seed)
    source = random_source(rng, columns=columns, rows=int(rng.integers(5, 60)))
    allow, block = random_criteria(rng, source.users, columns)
    block = Criterion(block.score, block.limits, LARGEST_BLOCKED)
    refute = Refutation(
        block.score,
        block.limits[0] + np.sort(rng.integers(0, 4, columns + 1)) / 4,
        monotone,
    )
    if not monotone:  # then nothing else blocks
        block = Criterion(Score(np.ones(2)), np.full(columns + 1, float(source.users)))

    def refuted(apis: ApiSet) -> bool:
        return refute.refutes(source.spectrum(apis), len(apis))

    refused = [
        apis for apis in sets_of(source.apis) if not allow.holds(source.spectrum(apis), len(apis))
    ]
    blocked = [
        apis
        for apis in refused
        if not block.holds(source.spectrum(apis), len(apis))
        or (not monotone and apis and refuted(apis))
        or (apis in minimal(refused) and refuted(apis))
    ]
    expected = [
        minimal(blocked),
        [a for a in minimal(refused) if not any(set(b) <= set(a) for b in blocked)],
    ]
    for users in (source, PlainSource(source)):
        borders = search(users, allow=allow, block=block, refute=refute)
        assert borders.complete
        assert [borders.block, borders.undecided] == expected


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_what_is_allowed_with_a_condition_is_what_both_allow(seed: int) -> None:
    """Lists of thousands of sets were compared set by set: see `Borders.keeping`."""
    rng, names = np.random.default_rng(seed), "abcdef"
    subsets = [apis for size in range(1, 7) for apis in itertools.combinations(names, size)]

    def some(number: int) -> list[ApiSet]:
        return [subsets[place] for place in rng.choice(len(subsets), number, replace=False)]

    def borders(allow: list[ApiSet], block: list[ApiSet]) -> Borders:
        return Borders(allow=allow, block=block, undecided=[], complete=True, evaluated=1)

    one, other = (borders(some(rng.integers(1, 9)), some(rng.integers(0, 5))) for _ in range(2))
    found = one.keeping(other)
    within = [
        {*apis}
        for apis in [(), *subsets]
        if all(any({*apis} <= {*listed} for listed in each.allow) for each in (one, other))
    ]
    largest = [apis for apis in within if not any(apis < more for more in within)]
    assert found.allow == sorted(tuple(sorted(apis)) for apis in largest)
    open_sets = [apis for apis in other.block if not any({*no} <= {*apis} for no in one.block)]
    assert found.undecided == open_sets
    assert (found.complete, found.evaluated) == (True, 2)


def test_what_another_test_blocked_blocks_nothing_more_when_a_search_goes_on() -> None:
    """Sets blocked one by one by a refutation, where the test of the search always holds."""
    rng, users = np.random.default_rng(0), 20_000
    columns = [np.minimum(rng.geometric(0.5 / place, users), 9 * place) for place in range(1, 7)]
    source = MemorySource(list("abcdef"), columns)
    criteria = decision_criteria(
        users=users, k=10, population=20 * users, budget=0.05, delta=0.05, universe=6
    )
    tests = {"allow": criteria.allow, "block": criteria.block, "refute": criteria.refute}
    assert not criteria.refute.monotone
    whole = search(source, **tests)
    assert triple(search(source, **tests, known=whole)) == triple(whole)
