"""No linker names more visits than there are values, and limits of that number hold."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from fpmonitor.estimate.exposure import statistical_exposure
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.linking import LinkedFunction, linked_probability
from fpmonitor.estimate.looks import Drawing
from fpmonitor.policy import Departure
from fpmonitor.spectrum import CountSpectrum

LAWS = {
    "zipf": 1 / np.arange(1, 3_001),
    "steep": 1 / np.arange(1, 3_001) ** 2.0,
    "crowds": np.ones(40),
    "all apart": np.ones(200_000),
    "crowd and few": np.append(2_000.0, np.ones(200)),
    "at the end of the weights": np.append(np.full(4, 1.0), np.full(300, 0.002)),
}


def linked(shares: np.ndarray, population: int) -> float:
    """`G(n)` of a distribution: different values of `n` users, by `n`."""
    return float(-np.expm1(population * np.log1p(-shares)).sum() / population)


@pytest.mark.parametrize("population", [1, 2, 3, 40, 10**6])
def test_chance_to_be_named_is_the_mean_of_one_by_the_group(population: int) -> None:
    shares = np.array([0.0, 1e-17, 1e-9, 0.001, 0.3, 1.0])
    found = linked_probability(shares, population)
    for share, chance in zip(shares.tolist(), found.tolist(), strict=True):
        if population > 100 and share > 0.01:
            assert chance == pytest.approx(1 / (population * share), rel=1e-9)
            continue
        others = np.arange(min(population, 5_000))
        exact = stats.binom.pmf(others, population - 1, share) @ (1 / (1 + others))
        assert chance == pytest.approx(exact, rel=1e-9)
    assert (np.diff(found) <= 0).all()


def test_share_linked_is_a_sum_of_exposures_of_all_thresholds() -> None:
    shares, population = LAWS["zipf"][:50] / LAWS["zipf"][:50].sum(), 30
    by_k = math.fsum(
        statistical_exposure(shares, k=k, population=population) / (k * (k - 1))
        for k in range(2, population + 1)
    )
    assert by_k + 1 / population == pytest.approx(linked(shares, population))
    exposed = statistical_exposure(shares, k=5, population=population)
    assert linked(shares, population) <= exposed + (1 - exposed) / 5


def optimal(law: np.ndarray, change: np.ndarray, users: int) -> float:
    """Share of the visits that the best of all linkers names, which knows law and changes."""
    orders = np.array(list(itertools.permutations(range(users))))
    right = 0.0
    values = range(len(law))
    for earlier in itertools.product(values, repeat=users):  # by place, in no order
        for later in itertools.product(values, repeat=users):  # by user
            # order[j]: the place of the earlier visit of user j, each order alike
            likely = np.array(
                [
                    math.prod(change[earlier[order[j]], later[j]] for j in range(users))
                    for order in orders
                ]
            ) / len(orders)
            likely *= math.prod(law[list(earlier)])
            right += sum(
                max(likely[orders[:, j] == place].sum() for place in range(users))
                for j in range(users)
            )
    return right / users


@pytest.mark.parametrize("seed", range(4))
def test_no_linker_of_small_worlds_names_more_than_the_number_of_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.full(3, 0.7))
    change = [rng.dirichlet(np.full(3, 0.3), 3), np.roll(np.eye(3), 1, axis=1)][seed % 2]
    assert optimal(law, change, 3) <= linked(law, 3) + 1e-12
    if seed % 2:  # values that change by a rule hide nothing from who knows it
        assert optimal(law, change, 3) == pytest.approx(linked(law, 3))


@pytest.mark.parametrize("factors", [(1.0, 1.0), (0.5, 3.0)])
@pytest.mark.parametrize("population", [2, 3, 10, 20_000])
def test_nothing_between_grid_points_is_beyond_the_correction(
    population: int, factors: tuple[float, float]
) -> None:
    function = LinkedFunction(population=population, factors=factors)
    grid = np.geomspace(1e-7, 1.0, 40)
    for sign, factor in ((-1, factors[1]), (1, factors[0])):
        ends = factor * grid
        bend = function.bend(ends[:-1], ends[1:], sign)
        for cell in range(len(grid) - 1):
            within = np.linspace(grid[cell], grid[cell + 1], 60)
            members = within * function.at(within)[sign]
            chord = np.interp(within, within[[0, -1]], members[[0, -1]])
            assert (-sign * (members - chord)).max() <= bend[cell] + 1e-12


@pytest.mark.parametrize("wanted", [1 - 1e-7, 0.9999, 0.5, 0.01, 1e-7])
def test_weights_end_where_somebody_is_one_of_five_hundred(wanted: float) -> None:
    function = LinkedFunction(population=20_000)
    chance = float(linked_probability(function.quantile(wanted), 20_000))
    assert chance == pytest.approx(max(wanted, 0.002), rel=1e-6)
    assert LinkedFunction(population=100).quantile(wanted) <= 1


@pytest.mark.parametrize(("users", "population"), [(3_000, 3_000), (3_000, 300), (2_000, 20_000)])
def test_limits_of_the_share_linked_are_wrong_no_more_often_than_they_say(
    users: int, population: int
) -> None:
    limits = exposure_limits(users=users, k=None, population=population, delta=0.2)
    rng = np.random.default_rng(users + population)
    for name, weights in LAWS.items():
        law = weights / weights.sum()
        truth, runs = linked(law, population), 60
        found = np.array(
            [limits.of(CountSpectrum.from_counts(rng.multinomial(users, law))) for _ in range(runs)]
        )
        assert (found[:, 0] > truth + 1e-9).mean() < 0.15, name
        assert (found[:, 1] < truth - 1e-9).mean() < 0.15, name


def test_limits_are_sharp_where_users_are_many() -> None:
    law = LAWS["zipf"] / LAWS["zipf"].sum()
    counts = np.random.default_rng(1).multinomial(100_000, law)
    limits = exposure_limits(users=100_000, k=None, population=100_000, delta=0.05)
    lower, upper = limits.of(CountSpectrum.from_counts(counts))
    assert lower <= linked(law, 100_000) <= upper < 1.1 * lower


def test_who_was_not_observed_may_all_be_recognised_and_hides_nobody() -> None:
    spectrum = CountSpectrum.from_counts(np.full(40, 500))
    plain = exposure_limits(users=20_000, k=None, population=20_000, delta=0.05)
    away = exposure_limits(
        users=20_000,
        k=None,
        population=20_000,
        delta=0.05,
        drawing=Drawing(departure=Departure(unobserved=0.03)),
    )
    assert away.of(spectrum)[1] == pytest.approx(plain.of(spectrum)[1] + 0.03)
    assert away.of(spectrum)[0] == pytest.approx(plain.of(spectrum)[0])


@pytest.mark.parametrize("bias", [1.5, 4.0])
def test_bias_of_the_sample_moves_limits_by_what_it_may(bias: float) -> None:
    """A kind of user that is rarer in the sample than in the population may be many values."""
    rng = np.random.default_rng(8)
    law = np.append(np.full(1_000, 0.3 / 1_000), np.full(10, 0.07))
    others = np.append(np.full(1_000, 0.3 * bias / 1_000), np.full(10, (1 - 0.3 * bias) / 10))
    bias = max(bias, float((law / others).max()))
    if bias > 1.6:  # the rest may not be rarer than this allows
        others = np.append(np.full(1_000, 0.3 / bias / 1_000), np.full(10, (1 - 0.3 / bias) / 10))
    limits = exposure_limits(
        users=20_000,
        k=None,
        population=20_000,
        delta=0.05,
        drawing=Drawing(departure=Departure((1 / bias, bias))),
    )
    lower, upper = limits.of(CountSpectrum.from_counts(rng.multinomial(20_000, law)))
    assert lower <= linked(others, 20_000) <= upper
