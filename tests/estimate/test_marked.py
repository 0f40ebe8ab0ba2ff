"""Limits of marked users: groups are of all users, and the moment is that of marks, not of all."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fpmonitor.estimate.averaging import clock, mean_scores
from fpmonitor.estimate.linking import LinkedFunction, linked_probability
from fpmonitor.estimate.looks import base_cells, base_of
from fpmonitor.estimate.marked import _designs, marked_limits

USERS = 3_000


def counted(values: np.ndarray, marks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sizes of groups of all users, and the marked ones in groups of each size."""
    sizes = np.bincount(values)
    counts = np.unique(sizes[sizes > 0])
    return counts, np.bincount(sizes[values[marks]], minlength=counts[-1] + 1)[counts]


LAWS = {
    "all": np.ones,
    "a third": lambda values: np.full(values, 1 / 3),
    "few": lambda values: np.full(values, 0.02),
    "none": np.zeros,
    "the rare": lambda values: (np.arange(values) > 20).astype(float),
    "the crowd": lambda values: (np.arange(values) <= 20).astype(float),
}


@pytest.mark.long
@pytest.mark.parametrize("population", [300, 3_000, 30_000])
@pytest.mark.parametrize("name", LAWS)
def test_limits_are_wrong_no_more_often_than_they_say(name: str, population: int) -> None:
    law = 1 / np.arange(1, 2_001) ** 1.1
    law /= law.sum()
    theta = LAWS[name](len(law))
    truth = float((law * theta) @ linked_probability(law, population))
    rng, missed, runs = np.random.default_rng(population), np.zeros(2), 25
    for _ in range(runs):
        values = rng.choice(len(law), USERS, p=law)
        marks = rng.random(USERS) < theta[values]
        lower, upper = marked_limits(
            *counted(values, marks), users=USERS, population=population, delta=0.2
        )
        missed += [lower > truth, upper < truth]
    assert (missed / runs <= 0.2).all()


def test_limits_say_something_and_groups_are_of_all_users() -> None:
    """One in twenty of a crowd is marked: they hide among all, not among the marked."""
    rng = np.random.default_rng(3)
    values = rng.integers(60, size=30_000)
    marks = rng.random(30_000) < 0.05
    truth = 0.05 * float(linked_probability(1 / 60, 30_000))
    lower, upper = marked_limits(
        *counted(values, marks), users=30_000, population=30_000, delta=0.05
    )
    assert lower <= truth <= upper < 0.005
    alone = np.unique(values[marks], return_inverse=True)[1]  # what must not be done
    wrong = marked_limits(
        *counted(alone, np.ones(len(alone), dtype=bool)),
        users=len(alone),
        population=30_000,
        delta=0.05,
    )
    assert wrong[0] * 0.05 < lower or wrong[1] > upper


@pytest.mark.parametrize("sign", [-1, 1])
def test_bound_of_marks_is_above_the_exact_moment_also_between_grid_points(sign: int) -> None:
    serving = base_of(USERS)
    assert serving is not None
    function = LinkedFunction(population=USERS)
    cells, _ = base_cells(serving, function, 0.003)
    for mean, phi, exposures, bounds in _designs(serving, function, sign, 8.0):
        assert mean == cells.laws.mean
        counts = np.arange(len(phi))
        for p in np.geomspace(1e-6, 0.5, 37):
            moment = stats.poisson.pmf(counts, mean * p) @ np.expm1(sign * phi)
            bound = np.interp(linked_probability(p, USERS), exposures, bounds)
            assert moment / p <= bound + 1e-7 * abs(bound) + 1e-6


@pytest.mark.parametrize("sign", [-1, 1])
def test_weights_by_count_are_means_over_thinnings_on_the_safe_side(sign: int) -> None:
    phi = np.concatenate([[0.0], np.linspace(2, -1, 30), [0.0]])
    thinnings = clock(USERS, 2_400.0)
    weights, charge = mean_scores(phi, thinnings, sign, USERS)
    kept = np.arange(len(phi))
    for count in (1, 2, 7, 25, 40, 60):
        chances = stats.binom.pmf(kept[:, None], count, thinnings.shares)
        exact = float(phi @ chances @ thinnings.weights) / count
        assert weights[count] == pytest.approx(exact, abs=1e-5)
        assert sign * (exact - weights[count]) > -1e-8
    assert 0 < charge < 1e-2


def test_too_few_users_prove_nothing_but_how_many_are_marked() -> None:
    counts, marked = np.array([1]), np.array([5])
    lower, upper = marked_limits(counts, marked, users=20, population=100, delta=0.05)
    assert lower == 0
    assert 0.25 < upper <= 1
