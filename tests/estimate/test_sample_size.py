"""The forecast of the users needed comes true for those who look until a set is decided."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from fpmonitor.errors import PolicyError
from fpmonitor.estimate.exposure import exposure_probability, statistical_exposure
from fpmonitor.estimate.looks import Criteria, decision_criteria
from fpmonitor.estimate.sample_size import Forecast, fit_law, users_needed
from fpmonitor.spectrum import CountSpectrum

ZIPF = np.arange(1, 20_001) ** -1.3
ZIPF /= ZIPF.sum()
USERS, POPULATION = 3_000, 100_000
QUESTION = {"k": 10, "population": POPULATION, "budget": 0.05, "delta": 0.05, "universe": 5}


def sample(mean: float, seed: int) -> CountSpectrum:
    return CountSpectrum.from_counts(np.random.default_rng(seed).poisson(mean * ZIPF))


def forecast_of(spectrum: CountSpectrum, size: int, users: int, **question: float) -> Forecast:
    (found,) = users_needed(
        [(spectrum, size)],
        lambda observed: decision_criteria(users=observed, **question, whole_menu=False),
        users=users,
        population=question["population"],
        generator=np.random.default_rng(1),
    )
    return found


def test_fitted_law_has_about_the_exposure_of_the_true_one() -> None:
    truth = statistical_exposure(ZIPF, k=10, population=POPULATION)
    law = fit_law(sample(50_000, 1), population=POPULATION)
    exposed = exposure_probability(law.probabilities, k=10, population=POPULATION)
    assert law.shares.sum() == pytest.approx(1)
    assert law.shares @ exposed == pytest.approx(truth, rel=0.1)


@pytest.mark.long
def test_who_looks_until_a_set_is_decided_needs_as_many_users_as_forecast() -> None:
    budget = round(statistical_exposure(ZIPF, k=10, population=POPULATION) / 0.7, 3)
    question = {**QUESTION, "budget": budget}

    @cache
    def criteria(users: int) -> Criteria:
        return decision_criteria(users=users, **question)

    needed, means, within = [], [], 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        users, counts = USERS, rng.multinomial(USERS, ZIPF)
        forecast = forecast_of(CountSpectrum.from_counts(counts), 3, users, **question)
        while not (
            criteria(users).allow.holds(CountSpectrum.from_counts(counts), 3)
            or criteria(users).refute.refutes(CountSpectrum.from_counts(counts), 3)
        ):
            more = math.ceil(0.05 * users)
            users, counts = users + more, counts + rng.multinomial(more, ZIPF)
        assert forecast.mean is not None
        assert forecast.low is not None
        needed.append(users)
        means.append(forecast.mean)
        within += forecast.low <= users <= (forecast.high or math.inf)
    assert 0.6 < np.median(means) / np.mean(needed) < 1.7
    assert within >= 6


@pytest.mark.parametrize("counts", [[1], [2_900], [1] * 2_900, [250, 1]])
def test_every_spectrum_has_a_forecast_or_none(counts: list[int]) -> None:
    spectrum = CountSpectrum.from_counts(counts)
    found = forecast_of(spectrum, 1, USERS, **{**QUESTION, "population": 3_000})
    for number in (found.mean, found.low, found.high):
        assert number is None or number > USERS
    assert found.high is None or (found.low is not None and found.low <= found.high)


def test_a_set_at_the_budget_stays_undecided() -> None:
    users, population = 15_000_000, 3_000
    law = np.append(np.full(1000, 0.05 / 1000), np.full(100, 0.95 / 100))  # exposure 5 %
    counts = np.random.default_rng(3).poisson(1000 * population * law)
    question = {**QUESTION, "population": population}
    assert forecast_of(CountSpectrum.from_counts(counts), 1, users, **question).mean is None


@pytest.mark.long
def test_more_users_than_are_forecast_have_a_next_look() -> None:
    found = forecast_of(CountSpectrum.from_counts([10**8 - 10]), 1, 2 * 10**8, **QUESTION)
    assert found == Forecast(None, None, None)


def test_a_bad_policy_is_refused() -> None:
    with pytest.raises(PolicyError):
        forecast_of(sample(USERS, 1), 1, USERS, **{**QUESTION, "k": 1})
