"""The forecast of the users needed comes true in simulation."""

from __future__ import annotations

import numpy as np
import pytest

from fpmonitor.errors import PolicyError
from fpmonitor.estimate.exposure import exposure_probability, statistical_exposure
from fpmonitor.estimate.looks import decision_criteria
from fpmonitor.estimate.sample_size import fit_law, users_needed
from fpmonitor.spectrum import CountSpectrum

ZIPF = np.arange(1, 20_001) ** -1.3
ZIPF /= ZIPF.sum()
USERS, POPULATION = 3_000, 100_000
QUESTION = {"k": 10, "population": POPULATION, "budget": 0.05, "delta": 0.05, "universe": 5}


def sample(mean: float, seed: int) -> CountSpectrum:
    return CountSpectrum.from_counts(np.random.default_rng(seed).poisson(mean * ZIPF))


def test_fitted_law_has_about_the_exposure_of_the_true_one() -> None:
    truth = statistical_exposure(ZIPF, k=10, population=POPULATION)
    law = fit_law(sample(50_000, 1), population=POPULATION)
    exposed = exposure_probability(law.probabilities, k=10, population=POPULATION)
    assert law.shares.sum() == pytest.approx(1)
    assert law.shares @ exposed == pytest.approx(truth, rel=0.1)


def test_forecast_is_within_a_factor_of_four_of_what_decides() -> None:
    forecast = users_needed(sample(USERS, 2), 3, users=USERS, **QUESTION)
    assert forecast is not None

    def decided(users: int) -> float:
        criteria = decision_criteria(users=users, **QUESTION)
        spectra = [sample(users, seed) for seed in range(20)]
        return float(
            np.mean([criteria.allow.holds(s, 3) or criteria.refute.refutes(s, 3) for s in spectra])
        )

    assert decided(4 * forecast) > 0.9
    assert decided(forecast // 4) < 0.5


@pytest.mark.parametrize("counts", [[1], [2_900], [1] * 2_900, [250, 1]])
def test_every_spectrum_has_a_forecast_or_none(counts: list[int]) -> None:
    spectrum = CountSpectrum.from_counts(counts)
    question = {**QUESTION, "population": 3_000}
    forecast = users_needed(spectrum, 1, users=USERS, **question)
    assert forecast is None or forecast >= 2 * USERS


def test_a_set_at_the_budget_stays_undecided() -> None:
    users, population = 15_000_000, 3_000
    law = np.append(np.full(1000, 0.05 / 1000), np.full(100, 0.95 / 100))  # exposure 5 %
    counts = np.random.default_rng(3).poisson(1000 * population * law)
    question = {**QUESTION, "population": population}
    assert users_needed(CountSpectrum.from_counts(counts), 1, users=users, **question) is None


def test_a_bad_policy_is_refused() -> None:
    with pytest.raises(PolicyError):
        users_needed(sample(USERS, 1), 1, users=USERS, **{**QUESTION, "k": 1})
