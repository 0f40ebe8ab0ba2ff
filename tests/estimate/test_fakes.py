"""Rows that are no users: what they may hide is taken off, however they were chosen."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.estimate.averaging import one_thinning
from fpmonitor.estimate.exposure import exposure_probability, statistical_exposure
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.looks import Drawing, decision_criteria, design_size
from fpmonitor.policy import NO_DEPARTURE, SampleModel
from fpmonitor.spectrum import CountSpectrum

USERS = N = 5_000
K, BUDGET, DELTA = 10, 0.05, 0.05
FAKES = 100
RUNS = 100


def with_fakes(counts: np.ndarray, weights: np.ndarray, fakes: int) -> np.ndarray:
    """Counts with rows added one by one where the score of a group falls most by one more."""
    scores = np.arange(weights.size) * weights
    gain = np.append(scores[:-1] - scores[1:], 0.0)
    gain[0] = -np.inf
    counts = counts.copy()
    for _ in range(fakes):
        counts[np.argmax(gain[np.minimum(counts, gain.size - 1)])] += 1
    return counts


@settings(deadline=None)
@given(st.integers(20, 10**6), st.floats(0.01, 0.9), st.floats(0.5, 1))
def test_one_thinning_is_nowhere_above_a_poisson_number_by_more_than_its_factor(
    users: int, share: float, kept: float
) -> None:
    there = max(int(kept * users), 20)
    clock = one_thinning(share * users, users, there)
    [part] = clock.shares
    numbers = np.arange(max(int(there * part) - 50, 0), min(int(there * part) + 50, there) + 1)
    ratio = scipy.stats.binom.logpmf(numbers, there, part)
    ratio -= scipy.stats.poisson.logpmf(numbers, there * part)
    assert clock.log_factor + ratio.max() <= 1e-7
    assert clock.log_factor + ratio.max() > -0.75


@settings(deadline=None)
@given(st.integers(20, 10**7), st.floats(1e-6, 0.5))
def test_whoever_adds_rows_has_two_designs_to_choose_from(users: int, share: float) -> None:
    most = int(users / (1 - share))
    rows = np.unique(np.linspace(users, most, 50).astype(int))
    rows = rows[np.floor(rows * share) >= rows - users]
    sizes = [design_size(int(each), share) for each in rows]
    steps = {round(np.log(size) / -np.log1p(-share), 1) for size in sizes}
    assert all(users <= size for size in sizes)
    assert len(set(sizes)) <= 2 or max(steps) - min(steps) < 1 + 1 / (users * share)


@pytest.mark.long
def test_rows_that_hide_exposed_users_do_not_make_a_set_allowed() -> None:
    p = 0.8 * K / N
    values = int(1.02 * BUDGET / float(exposure_probability(p, k=K, population=N)) / p)
    law = np.append(np.full(values, p), 1 - values * p)
    exposure = statistical_exposure(law, k=K, population=N)
    assert BUDGET < exposure < 1.1 * BUDGET
    sample = SampleModel(fake_share=FAKES / (USERS + FAKES) + 1e-6)
    question = {"k": K, "population": N, "budget": BUDGET, "delta": DELTA, "universe": 1}
    rng = np.random.default_rng(7)
    found = []
    for departure in (NO_DEPARTURE, sample.departure):
        test = decision_criteria(
            users=USERS + FAKES, **question, drawing=Drawing(departure=departure)
        ).allow
        allowed = 0
        for _ in range(RUNS):
            users = np.append(rng.multinomial(USERS, law), 0)
            rows = with_fakes(users, test.score.weights[0], FAKES)
            allowed += test.holds(CountSpectrum.from_counts(rows[rows > 0]), 1)
        found.append(allowed / RUNS)
    plain, robust = found
    assert plain > 0.9
    assert robust <= DELTA


@pytest.mark.long
def test_a_set_that_fakes_enlarge_is_not_blocked_and_limits_hold_its_exposure() -> None:
    rare = np.full(20_000, 0.95 * BUDGET / 20_000)
    law = np.append(rare, 1 - rare.sum())
    truth = statistical_exposure(law, k=K, population=N)
    fakes = 2 * FAKES
    rows = USERS + fakes
    departures = (NO_DEPARTURE, SampleModel(fake_share=0.04).departure)
    question = {"k": K, "population": N, "delta": DELTA, "users": rows}
    tests = [
        decision_criteria(
            **question, budget=BUDGET, universe=1, drawing=Drawing(departure=each)
        ).refute
        for each in departures
    ]
    limits = [exposure_limits(**question, drawing=Drawing(departure=each)) for each in departures]
    rng = np.random.default_rng(7)
    refuted, missed = np.zeros(2), np.zeros(2)
    for _ in range(RUNS):
        counts = np.append(rng.multinomial(USERS, law), np.ones(fakes, dtype=int))
        spectrum = CountSpectrum.from_counts(counts[counts > 0])
        refuted += [test.refutes(spectrum, 1) for test in tests]
        missed += [each.of(spectrum)[0] > truth for each in limits]
    assert refuted[0] > 0.5 * RUNS
    assert missed[0] > 0.5 * RUNS
    assert refuted[1] == missed[1] == 0


@pytest.mark.parametrize("share", [0.001, 0.2])
def test_a_set_far_below_the_budget_is_allowed_with_fakes(share: float) -> None:
    users = 50_000
    question = {"k": K, "population": users, "budget": BUDGET, "delta": DELTA, "universe": 1}
    test = decision_criteria(
        users=users, **question, drawing=Drawing(departure=SampleModel(fake_share=share).departure)
    ).allow
    spectrum = CountSpectrum.from_counts(np.append(np.full(100, 490), np.ones(1000, dtype=int)))
    assert test.holds(spectrum, 1) == (share < 0.1)
