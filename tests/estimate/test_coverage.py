"""The limits miss the truth in at most delta of the samples, also all together."""

from __future__ import annotations

import math
import runpy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.looks import decision_criteria
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from conftest import FixtureDistribution

SIMULATION = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "coverage.py"))
USERS = 600
RUNS = 60


def most_misses(runs: int, delta: float) -> float:
    """Share of misses that `runs` samples exceed in 1 of 1000 cases, at a true share of delta."""
    return delta + 3.1 * math.sqrt(delta * (1 - delta) / runs)


@pytest.mark.parametrize("population", [USERS // 2, USERS, 100 * USERS])
def test_each_limit_misses_rarely_for_every_law(population: int) -> None:
    rows = SIMULATION["single_sets"](USERS, [population], RUNS, 5)
    assert len(rows) >= 5
    for row in rows:
        assert row["upper_missed"] <= most_misses(RUNS, 0.05), row
        assert row["lower_missed"] <= most_misses(RUNS, 0.05), row


def test_simulation_finds_the_misses_that_a_large_level_permits() -> None:
    limits = exposure_limits(users=USERS, k=5, population=USERS, delta=0.6)
    limits = replace(limits, bases=0.2)  # a level of 3: Markov's inequality leaves few misses below
    law = SIMULATION["with_rest"](SIMULATION["uniform"](5 / USERS), 0.3)
    truth = SIMULATION["true_exposure"](law, USERS)
    row = SIMULATION["misses"](limits, law, truth, 300, np.random.default_rng(3))
    assert row["upper_missed"] > 0.05
    assert row["lower_missed"] > 0.01


@pytest.mark.parametrize("population", [USERS // 2, USERS, 20 * USERS])
def test_decisions_over_all_subsets_are_rarely_wrong_anywhere(population: int) -> None:
    row = SIMULATION["families"](USERS, population, RUNS, 2)
    assert row["safe_sets"] > 0
    assert row["any_false_allow"] <= most_misses(RUNS, 0.05)
    assert row["any_false_block"] <= most_misses(RUNS, 0.05)


def test_decisions_on_browsers_of_a_known_law_are_right(fixture_law: FixtureDistribution) -> None:
    users, k, population, budget = 20_000, 10, 20_000, 0.05
    apis = fixture_law.apis[:5]
    criteria = decision_criteria(
        users=users, k=k, population=population, budget=budget, delta=0.05, universe=len(apis)
    )
    weights = fixture_law.rows["weight"].to_numpy().astype(float)
    rng = np.random.default_rng(11)
    rows = fixture_law.rows[rng.choice(weights.size, size=users, p=weights / weights.sum())]
    for size in range(1, len(apis) + 1):
        chosen = apis[:size]
        spectrum = CountSpectrum.from_counts(rows.group_by(chosen).len()["len"].to_numpy())
        truth = fixture_law.true_exposure(chosen, k, population)
        assert not criteria.allow.holds(spectrum, size) or truth <= budget
        assert not criteria.refute.refutes(spectrum, size) or truth > budget
