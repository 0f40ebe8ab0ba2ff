"""The realised share: populations of laws at the proved limit, and whole decisions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

from fpmonitor.decide import deciding
from fpmonitor.decide.decision import Decision
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.realised import _price_of_fixed_size, average_budget, realised_limits
from fpmonitor.policy import Policy
from fpmonitor.spectrum import CountSpectrum

N, K, BUDGET, DELTA = 1000, 10, 0.05, 0.05
RUNS = 2000


def law_of(exposure: float, group: float, *, k: int = K, population: int = N) -> np.ndarray:
    """Values of `group` k/n users each, as many as make the exposure, and one value of the rest."""
    share = group * k / population
    exposed = float(exposure_probability(np.array([share]), k=k, population=population)[0])
    values = int(exposure / (share * exposed))
    law = np.full(values, share)
    return np.append(law, 1 - law.sum())


def exceeding(law: np.ndarray, rng: np.random.Generator) -> float:
    """Share of populations in which more users than the budget are exposed."""
    counts = rng.multinomial(N, law, size=RUNS)
    return float((np.where(counts < K, counts, 0).sum(axis=1) > BUDGET * N).mean())


def test_the_share_of_a_population_exceeds_the_budget_where_the_average_does_not() -> None:
    rng = np.random.default_rng(1)
    assert exceeding(law_of(0.965 * BUDGET, 1.3), rng) > 0.3


@pytest.mark.long
@pytest.mark.parametrize("delta", [0.2, 0.025])
def test_within_the_average_few_populations_exceed_the_budget(delta: float) -> None:
    rng = np.random.default_rng(2)
    average = average_budget(k=K, population=N, budget=BUDGET, delta=delta, candidates=1).exposure
    assert 0.001 < average < BUDGET
    for group in (0.2, 0.7, 1.0, 1.2, 1.4):
        law = law_of(average, group)
        if law[-1] > 0.02:
            assert exceeding(law, rng) <= delta + 3 * math.sqrt(delta / RUNS), group


@pytest.mark.long
def test_averages_fall_with_the_level_and_approach_the_budget() -> None:
    for k, population in ((2, 1000), (10, 10**6), (500, 1000), (2, 10**10), (500, 10**10)):
        averages = np.array(
            [
                average_budget(
                    k=k, population=population, budget=0.05, delta=delta, candidates=1
                ).exposure
                for delta in (0.4, 0.05, 5e-5)
            ]
        )
        assert (np.diff(averages) <= 0).all()
        assert (averages <= 0.05).all()
        if population == 10**10:
            assert averages[-1] > 0.045, (k, averages)


def realised_shares(law: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    counts = rng.multinomial(N, law, size=runs)
    return np.where(counts < K, counts, 0).sum(axis=1) / N


@pytest.mark.long
@pytest.mark.parametrize("delta", [0.2, 0.025])
def test_few_populations_are_outside_the_limits_of_their_average(delta: float) -> None:
    rng = np.random.default_rng(4)
    for exposure in (0.02, 0.1, 0.4):
        for group in (0.2, 1.0, 1.4):
            law = law_of(exposure, group)
            if law[-1] < 0.02:
                continue
            truth = float(law @ exposure_probability(law, k=K, population=N))
            lower, upper = realised_limits(truth, truth, k=K, population=N, delta=delta)
            assert lower <= truth <= upper < truth + 0.2
            shares = realised_shares(law, RUNS, rng)
            most = delta + 3 * math.sqrt(delta / RUNS)
            assert (shares > upper + 1e-12).mean() <= most, (exposure, group)
            assert (shares < lower - 1e-12).mean() <= most, (exposure, group)


@pytest.mark.long
def test_limits_of_the_average_are_broken_by_populations_and_realised_ones_are_not() -> None:
    """Many observed users tell the average well, and one population differs from it."""
    rng, users = np.random.default_rng(5), 50_000
    law = law_of(0.1, 1.0)
    shares = realised_shares(law, RUNS, rng)
    spectrum = CountSpectrum.from_counts(rng.multinomial(users, law))
    lower, upper = exposure_limits(users=users, k=K, population=N, delta=DELTA).of(spectrum)
    assert ((shares < lower) | (shares > upper)).mean() > 0.5
    average = exposure_limits(users=users, k=K, population=N, delta=DELTA / 2).of(spectrum)
    lower, upper = realised_limits(*average, k=K, population=N, delta=DELTA / 2)
    assert (shares < lower).mean() <= DELTA
    assert (shares > upper).mean() <= DELTA


def test_limits_of_realised_shares_are_shares_at_every_size() -> None:
    for k, population in ((2, 2), (10, 10), (500, 1000), (10**5, 10**6), (10, 10**7)):
        for average in (0.0, 1e-6, 0.3, 1.0):
            lower, upper = realised_limits(average, average, k=k, population=population, delta=1e-3)
            assert 0 <= lower <= average + 1e-9
            assert average - 1e-9 <= upper <= 1


def test_a_fixed_number_of_users_costs_no_less_than_it_must() -> None:
    """Exact sums over all counts of two values: moments at n users and at Poisson(n) users."""
    n, k = 12, 4
    tilts = np.array([0.05, 0.3, 1.0])
    price = _price_of_fixed_size(n, k, tilts)
    for p in (0.05, 0.2, 0.5):
        for tilt, cost in zip(tilts, price, strict=True):
            counts = np.arange(n + 1)
            exposed = np.where(counts < k, counts, 0) + np.where(n - counts < k, n - counts, 0)
            fixed = scipy.stats.binom.pmf(counts, n, p) @ np.exp(tilt * exposed)
            many = np.arange(80)
            random = math.prod(
                scipy.stats.poisson.pmf(many, n * q) @ np.exp(tilt * np.where(many < k, many, 0))
                for q in (p, 1 - p)
            )
            assert math.log(fixed) <= math.log(random) + cost


@pytest.mark.long
def test_no_decision_allows_what_a_population_breaks_more_often_than_delta() -> None:
    """The law that the default allows, and of which two populations in five break the budget."""
    rng, users = np.random.default_rng(3), 200_000
    laws = [law_of(share * BUDGET, group) for share in (0.9, 0.4) for group in (0.5, 1.0, 1.3)]
    worst = {}
    for realised in (False, True):
        policy = Policy(
            k=K, population=N, budget=BUDGET, delta=DELTA, candidates=("a",), realised=realised
        )
        tests = deciding.tests_of(Decision.begun(policy), users)
        failures = []
        for law in laws:
            allowed = []
            for _ in range(20):
                counts = rng.multinomial(users, law)
                spectrum = CountSpectrum.from_counts(counts[counts > 0])
                allowed.append(tests.allow.holds(spectrum, 1))
            failures.append(float(np.mean(allowed)) * exceeding(law, rng))
        worst[realised] = max(failures)
    assert worst[False] > 0.2
    assert worst[True] <= DELTA


def test_many_candidates_pay_for_all_their_sets() -> None:
    averages = [
        average_budget(k=K, population=10_000, budget=BUDGET, delta=DELTA, candidates=apis).exposure
        for apis in (1, 2, 10)
    ]
    assert BUDGET > averages[0] > averages[1] > averages[2] > 0
