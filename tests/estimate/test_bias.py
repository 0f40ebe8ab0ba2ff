"""A biased sample: the worst exposure that its shares allow, and tests that reckon with it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.estimate.exposure import biased_exposure, exposure_probability, statistical_exposure
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.looks import Drawing, decision_criteria
from fpmonitor.policy import SampleModel
from fpmonitor.spectrum import CountSpectrum

M = N = 5000
K, BUDGET, DELTA = 10, 0.05, 0.05
RUNS = 200


@settings(deadline=None)
@given(
    st.sampled_from([(2, 2), (3, 3), (2, 200), (10, 200), (50, 20_000), (10, 10**8)]),
    st.floats(1.01, 5),
    st.floats(-4, 3),
)
def test_the_worst_exposure_is_that_of_the_worst_share_within_the_bias(
    question: tuple[int, int], bias: float, rarity: float
) -> None:
    k, n = question
    p = min(float(np.exp(rarity)) * k / n, 1.0)
    there = np.minimum(p * np.geomspace(1 / bias, bias, 2001), 1)
    exposed = there * exposure_probability(there, k=k, population=n) / p
    worst, least = (
        float(biased_exposure(p, k=k, population=n, factors=(1 / bias, bias), sign=sign))
        for sign in (-1, 1)
    )
    assert exposed.max() - 1e-9 <= worst <= exposed.max() * 1.001 + 1e-9
    assert exposed.min() - 1e-9 <= least <= exposed.min() * 1.001 + 1e-9


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1.05, 1.5, 3.0]))
def test_no_population_within_the_bias_exposes_more_or_fewer_than_its_limits(
    seed: int, bias: float
) -> None:
    rng = np.random.default_rng(seed)
    observed = rng.dirichlet(np.full(int(rng.choice([3, 30, 300])), rng.choice([0.05, 0.5, 5.0])))
    observed = observed[observed > 1e-12] / observed[observed > 1e-12].sum()
    there = observed * bias ** rng.uniform(-0.5, 0.5, observed.size)  # as sums to 1 may double it
    there /= there.sum()
    truth = statistical_exposure(there, k=K, population=N)
    worst, least = (
        observed @ biased_exposure(observed, k=K, population=N, factors=(1 / bias, bias), sign=sign)
        for sign in (-1, 1)
    )
    assert least - 1e-9 <= truth <= worst + 1e-9


def hidden(bias: float) -> tuple[np.ndarray, np.ndarray]:
    """Laws of the population and of the sample, where users with rare values are seldom asked."""
    rare = np.full(200_000, 1.005 * BUDGET / 200_000)
    there = np.append(rare, 1 - rare.sum())
    here = np.append(rare / bias, 1 - rare.sum() / bias)
    return there, here


def enlarged(bias: float) -> tuple[np.ndarray, np.ndarray]:
    """The same where values on the border of exposure look common."""
    p = K / N
    exposed = float(exposure_probability(p, k=K, population=N))
    values = int(np.ceil(1.005 * BUDGET / exposed / p))
    there = np.append(np.full(values, p), 1 - values * p)
    here = np.append(np.full(values, p * bias), 1 - values * p * bias)
    return there, here


@pytest.mark.long
@pytest.mark.parametrize(("laws", "bias"), [(hidden, 1.5), (enlarged, 1.25), (enlarged, 2.0)])
def test_a_biased_sample_of_a_population_above_the_budget_is_allowed_without_bias_only(
    laws: object, bias: float
) -> None:
    there, here = laws(bias)  # type: ignore[operator]
    assert BUDGET < statistical_exposure(there, k=K, population=N) < 1.02 * BUDGET
    assert max((there / here).max(), (here / there).max()) <= bias * (1 + 1e-9)
    question = {"users": M, "k": K, "population": N, "budget": BUDGET, "delta": DELTA}
    departure = SampleModel(bias=bias).departure
    plain = decision_criteria(**question, universe=1).allow
    biased = decision_criteria(**question, universe=1, drawing=Drawing(departure=departure)).allow
    rng = np.random.default_rng(7)
    spectra = [CountSpectrum.from_counts(rng.multinomial(M, here)) for _ in range(RUNS)]
    assert np.mean([plain.holds(spectrum, 1) for spectrum in spectra]) > 0.7
    assert np.mean([biased.holds(spectrum, 1) for spectrum in spectra]) <= DELTA


@pytest.mark.long
def test_a_set_within_the_budget_is_not_blocked_for_a_bias_that_enlarges_it() -> None:
    rare = np.full(200_000, 0.9 * BUDGET / 200_000)
    here = np.append(rare * 1.5, 1 - rare.sum() * 1.5)
    question = {"users": M, "k": K, "population": N, "budget": BUDGET, "delta": DELTA}
    departure = SampleModel(bias=1.5).departure
    plain = decision_criteria(**question, universe=1).refute
    biased = decision_criteria(**question, universe=1, drawing=Drawing(departure=departure)).refute
    rng = np.random.default_rng(7)
    spectra = [CountSpectrum.from_counts(rng.multinomial(M, here)) for _ in range(RUNS)]
    assert np.mean([plain.refutes(spectrum, 1) for spectrum in spectra]) > 0.7
    assert np.mean([biased.refutes(spectrum, 1) for spectrum in spectra]) <= DELTA


def test_limits_of_a_biased_sample_hold_the_exposure_that_plain_ones_miss() -> None:
    there, here = hidden(1.5)
    truth = statistical_exposure(there, k=K, population=N)
    spectrum = CountSpectrum.from_counts(np.random.default_rng(7).multinomial(M, here))
    question = {"users": M, "k": K, "population": N, "delta": DELTA}
    plain, biased = (
        exposure_limits(**question, drawing=Drawing(departure=SampleModel(bias=bias).departure)).of(
            spectrum
        )
        for bias in (1.0, 1.5)
    )
    assert plain[1] < truth
    assert biased[0] < plain[0]
    assert truth < biased[1]
