"""Thinning keeps a Poisson number of users, chosen by their words alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fpmonitor.errors import InputError, PolicyError
from fpmonitor.estimate.thinning import dropped_positions, seed_of, thinning_mean


@pytest.mark.parametrize("users", [2, 3, 17, 1000, 10**6, 10**8])
@pytest.mark.parametrize("delta0", [0.4, 0.005, 1e-10])
def test_mean_is_the_largest_that_rarely_asks_for_more_users_than_there_are(
    users: int, delta0: float
) -> None:
    mean = thinning_mean(users, delta0)
    assert stats.poisson.sf(users, mean) <= delta0
    assert stats.poisson.sf(users, mean * (1 + 1e-6)) > delta0


@pytest.mark.parametrize(("users", "delta0"), [(1, 0.1), (0, 0.1), (True, 0.1), (10, 0.0), (10, 1)])
def test_mean_names_the_argument_that_is_out_of_range(users: int, delta0: float) -> None:
    with pytest.raises(PolicyError) as caught:
        thinning_mean(users, delta0)
    assert caught.value.argument == ("delta0" if users == 10 else "users")


@given(
    users=st.integers(0, 300),
    mean=st.floats(0.01, 300),
    seed=st.integers(0, 2**64 - 1),
)
@settings(deadline=None, max_examples=60)
def test_dropped_positions_depend_on_the_words_and_not_on_their_order(
    users: int, mean: float, seed: int
) -> None:
    words = np.random.default_rng(1).permutation(np.arange(users, dtype=np.uint64))
    dropped = dropped_positions(words, mean=mean, seed=seed)
    assert np.all(np.diff(dropped) > 0)
    assert set(dropped.tolist()) <= set(range(users))
    again = dropped_positions(words[::-1].copy(), mean=mean, seed=seed)
    assert set(words[::-1][again].tolist()) == set(words[dropped].tolist())


@pytest.mark.parametrize("mean", [0.3, 40.0, 3000.0])
def test_number_of_kept_users_is_poisson(mean: float) -> None:
    words = np.arange(2 * int(mean) + 200, dtype=np.uint64)
    kept = np.array(
        [words.size - dropped_positions(words, mean=mean, seed=seed).size for seed in range(2000)]
    )
    assert abs(kept.mean() - mean) < 4 * np.sqrt(mean / kept.size)
    assert abs(kept.var() / mean - 1) < 4 * np.sqrt((2 + 1 / mean) / kept.size)


def test_every_user_is_as_likely_to_be_kept() -> None:
    words = np.arange(40, dtype=np.uint64)
    drops = np.zeros(words.size)
    for seed in range(2000):
        drops[dropped_positions(words, mean=20.0, seed=seed)] += 1
    expected = drops.mean()
    assert np.abs(drops - expected).max() < 4.5 * np.sqrt(expected / 2)


def test_nobody_is_dropped_when_the_draw_exceeds_the_users() -> None:
    dropped = dropped_positions(np.arange(5, dtype=np.uint64), mean=1000.0, seed=3)
    assert dropped.size == 0
    assert dropped.dtype == np.int64


@pytest.mark.parametrize(
    ("words", "mean", "seed"),
    [
        (np.arange(5), 2.0, 1),
        (np.zeros((2, 2), dtype=np.uint64), 2.0, 1),
        (np.arange(5, dtype=np.uint64), 0.0, 1),
        (np.arange(5, dtype=np.uint64), np.nan, 1),
        (np.arange(5, dtype=np.uint64), 2.0, 2**64),
    ],
)
def test_unusable_arguments_are_refused(words: np.ndarray, mean: float, seed: int) -> None:
    with pytest.raises(InputError):
        dropped_positions(words, mean=mean, seed=seed)


def test_seed_depends_on_every_part_and_on_their_borders() -> None:
    seeds = {seed_of("ab", "c"), seed_of("a", "bc"), seed_of("abc"), seed_of("abc", ""), seed_of()}
    assert len(seeds) == 5


def test_seed_and_choice_never_change_so_that_decisions_can_be_repeated() -> None:
    assert seed_of("policy", "snapshot") == 0x31E7200C41054248
    dropped = dropped_positions(np.arange(20, dtype=np.uint64), mean=12.0, seed=7)
    assert dropped.tolist() == [7, 16, 17]
