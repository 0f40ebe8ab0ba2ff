"""From how many users on any test could decide a set."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from fpmonitor.estimate.ceiling import nats_possible, users_possible
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.looks import Drawing, decision_criteria
from fpmonitor.spectrum import CountSpectrum

USERS = 3_000


def drawn(law: np.ndarray, users: int, seed: int = 0) -> CountSpectrum:
    counts = np.random.default_rng(seed).multinomial(users, law)
    return CountSpectrum.from_mapping(Counter(counts[counts > 0].tolist()))


def zipf(values: int = 2_000, power: float = 1.2) -> np.ndarray:
    law = np.arange(1, values + 1) ** -power
    return law / law.sum()


def possible(spectrum: CountSpectrum, users: int, budget: float, **others: int) -> int | None:
    question = {"k": 10, "population": users, **others}
    [found] = users_possible([spectrum], users=users, budget=budget, delta=0.05, **question)
    return found


@pytest.mark.parametrize("k", [5, 10, 25])
def test_more_is_needed_the_nearer_the_budget_is(k: int) -> None:
    spectrum = drawn(zipf(), USERS)
    truth = spectrum.users_below(k) / USERS
    above = [possible(spectrum, USERS, truth * far, k=k) or 10**9 for far in (2, 1.5, 1.2)]
    below = [possible(spectrum, USERS, truth * far, k=k) or 10**9 for far in (0.5, 0.7, 0.85)]
    assert above == sorted(above)
    assert below == sorted(below)
    assert max(above[0], below[0]) < USERS / 10


def test_two_laws_that_no_counts_tell_apart_are_not_decided() -> None:
    """Of so many more users nobody knows who is alone: a law across the budget looks the same."""
    law = zipf(3_000)
    population = 100 * USERS
    truth = float(law @ exposure_probability(law, k=10, population=population))
    for far in (0.8, 1.25):
        found = possible(drawn(law, USERS), USERS, truth * far, population=population)
        assert found is None or found > 10 * USERS


@pytest.mark.parametrize("delta", [0.5, 0.9])
def test_where_a_coin_decides_one_user_is_enough_or_nobody_can_tell(delta: float) -> None:
    question = {"users": 1_000, "k": 5, "population": 1_000, "budget": 0.05}
    spectra = [CountSpectrum.from_counts([1] * rare + [1_000 - rare]) for rare in (0, 50, 200)]
    assert [*users_possible(spectra, delta=delta, **question)] == [1, None, 1]


def test_tiers_are_told_apart_as_one_binomial_test_tells_them() -> None:
    """Four tiers, k a tenth: the exponent of the one small tier is known in closed form."""
    users, share, budget = 14_192, 0.0276, 0.036
    spectrum = CountSpectrum.from_mapping(Counter([392, 2_696, 8_515, 2_589]))
    kl = share * np.log(share / budget) + (1 - share) * np.log((1 - share) / (1 - budget))
    needed = possible(spectrum, users, budget, k=10**5, population=10**6)
    assert needed == pytest.approx(1.353 / kl, rel=0.5)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_what_our_tests_decide_somebody_could(seed: int) -> None:
    """The ceiling is above what the menu does: a decided set is never beyond it."""
    law = zipf(400, 1.0 + 0.2 * seed)
    spectrum = drawn(law, USERS, seed)
    for budget in (0.02, 0.05, 0.1, 0.3):
        criteria = decision_criteria(
            users=USERS,
            k=10,
            population=USERS,
            budget=budget,
            delta=0.05,
            universe=1,
            drawing=Drawing(look="first"),
        )
        if criteria.allow.holds(spectrum, 1) or not criteria.block.holds(spectrum, 1):
            assert (possible(spectrum, USERS, budget) or 10**9) < 1.2 * USERS


@pytest.mark.parametrize("k", [2, 60])
def test_a_law_without_a_value_near_the_threshold_has_a_ceiling_without_a_warning(k: int) -> None:
    law = np.array([0.1, 0.2, 0.3, 0.4])
    for budget in (1e-3, 0.1, 0.9):
        assert nats_possible(law, users=20_000, k=k, population=30_000, budget=budget) > 2
