"""The drift tests: exact levels, power where it is promised, and what they must not depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fpmonitor.errors import InputError
from fpmonitor.estimate.drift import (
    POOLED_USERS,
    DriftTest,
    adjust_p_values,
    compare_laws,
    compare_spectra,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


@pytest.mark.parametrize("users", [(30, 30), (40, 12)])
def test_p_value_of_a_value_is_exact_over_all_outcomes(users: tuple[int, int]) -> None:
    both, total = POOLED_USERS + 4, sum(users)
    law = stats.hypergeom(total, both, users[1])
    outcomes = np.arange(max(0, both - users[0]), min(both, users[1]) + 1)
    p_values = []
    for later in outcomes.tolist():
        earlier = both - later
        test = compare_laws([earlier, users[0] - earlier], [later, users[1] - later], seed=1)
        p_values.append(test.cell_p_values[0])
        # Of two values one tells the other, so the two looks are the only correction.
        tail = min(law.sf(later - 1), law.cdf(later))
        assert test.cell_p_values[0] in (pytest.approx(min(1, 4 * tail)), 1.0)
    assert min(p_values) < 1e-3
    for level in (0.001, 0.01, 0.05, 0.2):
        assert law.pmf(outcomes)[np.array(p_values) <= level].sum() <= level


@pytest.mark.long
@pytest.mark.parametrize("sizes", [(3000, 3000), (6000, 1500)])
@pytest.mark.parametrize("compare", [compare_laws, compare_spectra])
def test_no_more_false_alarms_than_stated(sizes: tuple[int, int], compare: object) -> None:
    assert callable(compare)
    rng = np.random.default_rng(8)
    law = np.concatenate([[0.4, 0.2, 0.1, 0.1], np.full(200, 0.001)])
    p_values = np.array(
        [
            compare(
                rng.multinomial(sizes[0], law), rng.multinomial(sizes[1], law), seed=run
            ).p_value
            for run in range(1000)
        ]
    )
    for level in (0.01, 0.05, 0.2):
        assert (p_values <= level).sum() <= stats.binom.isf(1e-4, 1000, level)


def test_users_with_a_value_of_their_own_are_users_that_moved() -> None:
    rng = np.random.default_rng(2)
    law = 1 / np.arange(1, 201)
    windows = rng.multinomial(1500, law / law.sum(), size=2)
    alone = np.eye(2, dtype=np.int64)[1].repeat(300).reshape(2, 300)
    test = compare_laws(*np.hstack([windows, alone]), seed=1)
    assert test.p_value < 1e-6
    assert test.moved == pytest.approx(300 / 1800, abs=0.05)


@pytest.mark.long
@pytest.mark.parametrize("values", [8, 60, 1000])
def test_one_percent_of_users_moved_is_found_at_50000_users(values: int) -> None:
    rng = np.random.default_rng(values)
    found = 0
    for run in range(20):
        law = rng.dirichlet(np.full(values, 0.3))
        moved = law.copy()
        top, other = int(np.argmax(law)), int(np.argmin(law))
        moved[top] -= 0.01
        moved[other] += 0.01
        before, after = rng.multinomial(50_000, law), rng.multinomial(50_000, moved)
        test = compare_laws(before, after, seed=run)
        found += test.p_value <= 0.01 / 1000  # as one of a thousand tests
        assert test.cell_p_values[other] < 1e-4
    assert found == 20


@pytest.mark.long
def test_many_small_changes_that_agree_are_found_though_no_value_alone_tells() -> None:
    rng = np.random.default_rng(3)
    law = np.full(400, 1 / 400)
    changed = law * (1 + 0.12 * rng.choice([-1, 1], 400))
    changed /= changed.sum()
    tests = [
        compare_laws(rng.multinomial(50_000, law), rng.multinomial(50_000, changed), seed=run)
        for run in range(10)
    ]
    assert max(test.p_value for test in tests) < 1e-6
    assert max(test.moved for test in tests) < 0.06  # the distance; half of the users tell it
    assert min(test.moved for test in tests) > 0.01
    assert np.median([test.cell_p_values.min() for test in tests]) > 1e-6


def test_rarer_users_are_found_though_no_value_has_a_name_in_both_windows() -> None:
    before = np.concatenate([np.full(10, 500), np.zeros(300, dtype=np.int64)])
    after = np.concatenate([np.full(10, 470), np.ones(300, dtype=np.int64)])
    assert compare_spectra(before, after, seed=1).p_value < 1e-20
    shuffled = np.random.default_rng(1).permutation(310)
    again = compare_spectra(before[shuffled], after[shuffled], seed=1)
    assert again.p_value == compare_spectra(before, after, seed=1).p_value


def told_to_others(counts: NDArray[np.int64], k: int) -> tuple[NDArray[np.int64], int]:
    """Count fewer than k users with rare values as others are told them, and who may be hidden."""
    rare = counts < k
    hidden = int(counts[rare].sum())
    if hidden >= k:
        return counts, 0
    told = np.where(rare, 0, counts)
    told[told.argmax()] += hidden
    return told, k - 1


@pytest.mark.long
@pytest.mark.parametrize("compare", [compare_laws, compare_spectra])
@pytest.mark.parametrize("k", [3, 10, 50])
def test_users_who_are_hidden_never_make_a_change_surer(compare: Any, k: int) -> None:
    rng = np.random.default_rng(k)
    hidden = sure = 0
    for run in range(1500):
        means = rng.choice([0, 1, 2, 5, 10, 20, 50, 300], size=(2, 8))
        windows = np.hstack(
            [
                rng.poisson(means),
                rng.random((2, 100)) < rng.choice([0, 0.02, 0.1, 0.4], size=(2, 1)),
                rng.permuted([[0, 3 * k], [0, 3 * k]], axis=1),
            ]
        )
        told, may_be_hidden = zip(*(told_to_others(counts, k) for counts in windows), strict=True)
        if any(may_be_hidden):
            test = compare(*told, seed=run, hidden=may_be_hidden)
            assert test.p_value >= compare(*windows, seed=run).p_value * (1 - 1e-9)
            hidden += 1
            sure += test.p_value < 0.01
    assert min(hidden, sure) > 200


@pytest.mark.long
@pytest.mark.parametrize("users", [(600, 600), (600, 5000), (5000, 600)])
@pytest.mark.parametrize("compare", [compare_laws, compare_spectra])
def test_windows_of_which_one_hides_its_rare_values_raise_no_more_alarms_than_stated(
    compare: Any, users: tuple[int, int]
) -> None:
    rng = np.random.default_rng(4)
    alarms = hidden = 0
    for run in range(300):
        for k in (10, 50):
            rare = k / min(users) / 5  # so the smaller window has about k users with rare values
            law = np.concatenate([np.array([0.5, 0.3, 0.2]) * (1 - 5 * rare), np.full(5, rare)])
            windows = [rng.multinomial(number, law) for number in users]
            told = [told_to_others(counts, k) for counts in windows]
            may_be_hidden = told[0][1], told[1][1]
            test = compare(told[0][0], told[1][0], seed=run, hidden=may_be_hidden)
            alarms += test.p_value <= 0.01
            hidden += any(may_be_hidden) and not all(may_be_hidden)
    assert hidden > 150
    assert alarms <= stats.binom.isf(1e-4, 600, 0.01)


def test_a_new_value_and_many_users_with_values_of_their_own_are_found_beside_hidden_ones() -> None:
    before = np.array([400, 200, *[0] * 201])
    new_value = np.array([370, 190, 40, *[0] * 200])
    own_values = np.array([280, 120, 0, *[1] * 200])
    for k in (10, 50):
        hidden = k - 1
        test = compare_laws(before, own_values, seed=1, hidden=(hidden, 0))
        assert test.p_value < 1e-6
        assert test.moved == pytest.approx(1 / 3, abs=0.1)
        test = compare_spectra(before, own_values, seed=1, hidden=(hidden, 0))
        assert test.p_value < 1e-4
    test = compare_laws(before, new_value, seed=1, hidden=(9, 9))
    assert test.cell_p_values[2] < 1e-3


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=30),
    st.integers(0, 2**63),
)
def test_any_counts_have_a_p_value(pairs: list[tuple[int, int]], seed: int) -> None:
    before, after = (np.array(column) for column in zip(*pairs, strict=True))
    if min(before.sum(), after.sum()) < 2:
        with pytest.raises(InputError):
            compare_laws(before, after, seed=seed)
        return
    for test in (compare_laws(before, after, seed=seed), compare_spectra(before, after, seed=seed)):
        assert isinstance(test, DriftTest)
        assert 0 <= test.p_value <= 1
        assert 0 <= test.moved <= 1
    assert compare_laws(before, before, seed=seed).cell_p_values.min() == 1


@pytest.mark.parametrize(
    ("before", "after"), [([1, 2], [3]), ([], []), ([-1, 4], [2, 2]), ([0.5], [1.5]), ([1], [5])]
)
def test_counts_that_are_none_are_refused(before: list[float], after: list[float]) -> None:
    with pytest.raises(InputError, match="drift"):
        compare_laws(before, after, seed=0)


def test_adjusted_p_values_are_those_of_holm() -> None:
    assert adjust_p_values([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx(
        [0.03, 0.06, 0.06, 0.02]
    )
    assert adjust_p_values([0.9, 0.8]).tolist() == [1.0, 1.0]
    assert adjust_p_values([]).tolist() == []
