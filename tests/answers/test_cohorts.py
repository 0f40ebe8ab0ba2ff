"""Cohort limits: valid for all cohorts together, and consistent with the whole."""

from __future__ import annotations

import math
import runpy
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fpmonitor.errors import InputError, PolicyError
from fpmonitor.estimate import cohorts
from fpmonitor.estimate.cohorts import cohort_exposure, cohort_limits, share_limits
from fpmonitor.estimate.exposure import unbiased_exposure
from fpmonitor.estimate.limits import Limits, exposure_limits
from fpmonitor.spectrum import CountSpectrum

SIMULATION = runpy.run_path(
    str(Path(__file__).parents[2] / "benchmarks" / "coverage_bounds.py"), run_name="simulation"
)
USERS, RUNS = 600, 24


@cache
def limits_of(users: int) -> Limits:
    return exposure_limits(users=users, k=5, population=users, delta=0.05)


def most_misses(runs: int, delta: float) -> float:
    """Share of misses that `runs` samples exceed in 1 of 1000 cases, at a true share of delta."""
    return delta + 3.1 * math.sqrt(delta * (1 - delta) / runs)


@pytest.mark.parametrize("delta", [0.005, 0.2])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
def test_share_limits_are_ever_wrong_with_probability_of_at_most_delta_times_the_share(
    delta: float, share: float
) -> None:
    """Exact, while users come in: paths on which the share was outside are taken away."""
    users = 110
    inside, wrong = np.array([1.0]), 0.0
    for seen_of in range(1, users + 1):
        inside = np.append(inside * (1 - share), 0) + np.append(0, inside * share)
        for seen in np.flatnonzero(inside):
            low, high = share_limits(int(seen), seen_of, delta)
            if not low <= share <= high:
                wrong += inside[seen]
                inside[seen] = 0
    assert wrong <= delta * share
    assert wrong > 0 or delta * share < 0.01


def test_share_limits_grow_with_the_users_and_enclose_the_observed_share() -> None:
    limits = np.array([share_limits(seen, 1000, 0.01) for seen in range(0, 1001, 50)])
    assert np.all(np.diff(limits, axis=0) > 0)
    observed = np.arange(0, 1001, 50) / 1000
    assert np.all((limits[:, 0] <= observed) & (observed <= limits[:, 1]))


def test_a_cohort_seen_once_has_no_limits() -> None:
    found = cohort_limits(limits_of(USERS), CountSpectrum.from_counts([1]))
    assert (found.lower, found.upper) == (0, 1)


def test_limits_of_a_cohort_of_everybody_are_those_of_the_whole_a_little_wider() -> None:
    spectrum = CountSpectrum.from_counts([260, 150, 100, *[3] * 30])
    found = cohort_limits(limits_of(USERS), spectrum)
    lower, upper = limits_of(USERS).of(spectrum)
    assert upper <= found.upper <= upper + 0.03
    assert lower - 0.03 <= found.lower <= lower


def test_a_cohort_among_more_users_has_wider_limits() -> None:
    cohort = CountSpectrum.from_counts([3_000, *[2] * 100])
    uppers = [cohort_limits(limits_of(users), cohort).upper for users in (30_000, 10_000, 3_300)]
    assert uppers[0] > uppers[1] > uppers[2]


def test_cohort_exposures_mix_to_the_exposure_of_all() -> None:
    rng = np.random.default_rng(3)
    parts = [rng.integers(1, 40, size=size) for size in (5, 20, 60)]
    users = int(sum(part.sum() for part in parts))
    whole = CountSpectrum.from_counts(np.concatenate(parts))
    for k, population in ((5, users), (10, users // 3)):
        exposures = [
            cohort_exposure(
                CountSpectrum.from_counts(part), k=k, population=population, users=users
            )
            for part in parts
        ]
        mixture = sum(
            part.sum() / users * (exposure or 0)
            for part, exposure in zip(parts, exposures, strict=True)
        )
        assert mixture == pytest.approx(unbiased_exposure(whole, k=k, population=population))


def test_no_estimate_for_a_population_above_the_sample() -> None:
    spectrum = CountSpectrum.from_counts([5, 5])
    assert cohort_exposure(spectrum, k=5, population=101, users=100) is None


@pytest.mark.long
@pytest.mark.parametrize("population", [USERS // 2, USERS, 20 * USERS])
def test_limits_of_all_cohorts_hold_together(population: int) -> None:
    rows = SIMULATION["cohorts"](USERS, population, RUNS, 5)
    assert len(rows) >= 4
    for row in rows:
        assert row["upper_missed"] <= most_misses(RUNS, 0.05), row
        assert row["lower_missed"] <= most_misses(RUNS, 0.05), row


def test_simulation_finds_limits_that_take_every_cohort_for_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cohorts, "share_limits", lambda *_: (1.0, 1.0))
    rows = SIMULATION["cohorts"](USERS, USERS, 8, 5)
    assert max(row["upper_missed"] for row in rows) > 0.9


@pytest.mark.long
@pytest.mark.parametrize("population", [USERS, 20 * USERS])
def test_bounds_of_the_paper_and_composition_rarely_miss(population: int) -> None:
    rows = SIMULATION["paper_bounds"](USERS, population, RUNS, 5)
    rows += SIMULATION["composition"](USERS, population, RUNS // 2, 5)
    assert len({row["bound"] for row in rows}) == 5
    for row in rows:
        assert row["upper_missed"] <= most_misses(RUNS // 2, 0.05), row
        assert row["lower_missed"] <= most_misses(RUNS // 2, 0.05), row


def test_numbers_that_do_not_fit_are_refused() -> None:
    pair = CountSpectrum.from_counts([2])
    with pytest.raises(InputError, match="cohort"):
        cohort_limits(limits_of(USERS), CountSpectrum.from_counts([USERS + 1]))
    with pytest.raises(InputError, match="cohort"):
        cohort_exposure(pair, k=2, population=5, users=1)
    with pytest.raises(InputError, match="cohort"):
        share_limits(5, 4, 0.1)
    with pytest.raises(PolicyError, match="delta"):
        share_limits(1, 4, 0)
