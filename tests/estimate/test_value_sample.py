"""Limits from a sample of values: what they promise, and that each misuse breaks it."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fpmonitor.errors import InputError, PolicyError
from fpmonitor.estimate.averaging import AveragedScore, averaged, design_base
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.looks import Drawing, design_cells
from fpmonitor.estimate.poisson import ExposureFunction
from fpmonitor.estimate.value_sample import (
    level_share,
    planned_level,
    value_criteria,
    value_limits,
)
from fpmonitor.proof.files import check_proof
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.estimate.exposure import Sign

USERS = POPULATION = 1_000_000
K, BUDGET, DELTA = 10, 0.05, 0.05
LEVEL = 8
RUNS = 200


@cache
def score_of(sign: Sign, level: int) -> AveragedScore:
    """Score of the test of one set."""
    criteria = value_criteria(
        users=USERS, k=K, population=POPULATION, budget=BUDGET, delta=DELTA, level=level
    )
    test = criteria.allowing if sign < 0 else criteria.blocking
    assert test is not None
    return test.scores[0]


def moments(test: AveragedScore, p: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """`ln E exp(sign phi(BC)) / p`, by the sum over all counts."""
    base = test.base
    phi = base.sign * base.phi()
    chances = stats.poisson.pmf(np.arange(phi.size), base.mean * p[:, np.newaxis])
    return np.log1p(share * (chances @ np.expm1(phi))) / p


@cache
def hardest_law() -> tuple[NDArray[np.float64], float]:
    """Return the law of two kinds of values at the budget of the greatest moment; its exposure."""
    test = score_of(-1, LEVEL)
    p = np.geomspace(1e-2 / POPULATION, 200 * K / POPULATION, 1500)
    bounds = moments(test, p, 0.5**LEVEL)
    exposed = exposure_probability(p, k=K, population=POPULATION)
    low, high = np.flatnonzero(exposed <= BUDGET), np.flatnonzero(exposed > BUDGET)
    part = (BUDGET - exposed[low][:, None]) / (exposed[high] - exposed[low][:, None])
    mean = (1 - part) * bounds[low][:, None] + part * bounds[high]
    i, j = np.unravel_index(np.argmax(mean), mean.shape)
    pair, mass = p[[low[i], high[j]]], np.array([1 - part[i, j], part[i, j]])
    law = np.repeat(pair, np.round(mass / pair).astype(int))
    law /= law.sum()
    return law, float(law @ exposure_probability(law, k=K, population=POPULATION))


def missed(limits: NDArray[np.float64], exposure: float) -> float:
    """Share of the upper limits that are below the exposure."""
    return float(np.mean(limits < exposure))


def upper(test: AveragedScore, samples: list[NDArray[np.int64]]) -> NDArray[np.float64]:
    """Upper limits of one score: the exposures whose critical score is the one of each sample."""
    exposures = np.linspace(0, 0.2, 401)
    critical = test.base.sign * (test.prices(exposures) - math.log(DELTA)) / test.scale
    points = [float(test.weights.take(counts, mode="clip") @ counts) for counts in samples]
    return np.interp(points, critical, exposures)


def kept_counts(rng: np.random.Generator, law: NDArray[np.float64], share: float) -> NDArray[Any]:
    """Users of each value that is kept, of exactly so many users in all."""
    kept = law[rng.random(law.size) < share]
    return rng.multinomial(USERS, np.append(kept, 1 - kept.sum()))[:-1]


@pytest.mark.long
def test_limits_hold_at_the_law_that_is_hardest_for_them() -> None:
    law, exposure = hardest_law()
    rng = np.random.default_rng(1)
    limits = value_limits(users=USERS, k=K, population=POPULATION, delta=DELTA, level=LEVEL)
    samples = [kept_counts(rng, law, 0.5**LEVEL) for _ in range(RUNS)]
    lows, highs = np.array([limits.of(CountSpectrum.from_counts(one)) for one in samples]).T
    assert missed(upper(score_of(-1, LEVEL), samples), exposure) <= DELTA
    assert missed(highs, exposure) <= DELTA
    assert missed(-lows, -exposure) <= DELTA
    assert 0.02 < lows.mean() < exposure < highs.mean() < 0.09  # they say something


@pytest.mark.long
def test_each_misuse_breaks_the_limits() -> None:
    """At the law where they have no slack; a misuse that went unnoticed would test nothing."""
    law, exposure = hardest_law()
    rng = np.random.default_rng(2)
    runs, keys = 40, 100
    test = score_of(-1, LEVEL)
    # other keys keep other values, whose counts hardly depend on each other
    samples = [kept_counts(rng, law, 0.5**LEVEL) for _ in range(runs * keys)]
    best_of_keys = upper(test, samples).reshape(runs, keys).min(axis=1)
    assert missed(best_of_keys, exposure) > 0.3
    fewer = [kept_counts(rng, law, 0.5**LEVEL / 1.6) for _ in range(runs)]
    assert missed(upper(test, fewer), exposure) > 0.3  # than was declared
    whole = averaged(
        design_base(
            design_cells(0.98 * USERS, ExposureFunction(K, POPULATION), BUDGET),
            sign=-1,
            budget=BUDGET,
            log_term=-math.log(DELTA),
            share=0.98,
            monotone=True,
        ),
        users=USERS,
    )
    # as if the score of all users had been divided by the share
    divided = replace(whole, scale=whole.scale * 2.0**LEVEL)
    assert missed(upper(divided, samples[:runs]), exposure) > 0.3
    counts = rng.multinomial(USERS, law)
    largest_first = np.sort(counts)[::-1][: law.size >> LEVEL]  # as codes by frequency would
    assert upper(test, [largest_first])[0] < exposure


@pytest.mark.parametrize("level", [0, 3, 10])
@pytest.mark.parametrize("sign", [-1, 1])
def test_no_moment_exceeds_the_bound_between_the_points_of_the_grid(sign: Sign, level: int) -> None:
    test = score_of(sign, level)
    rng = np.random.default_rng(3)
    p = np.exp(rng.uniform(math.log(1e-4 / POPULATION), math.log(300 * K / POPULATION), 2000))
    exposed = exposure_probability(p, k=K, population=POPULATION)
    line = test.base.slope * exposed + test.base.intercept
    direct = moments(test, p, 0.5**level)
    assert np.all(direct <= line + 1e-9 * np.abs(line))


def test_all_values_have_the_limits_of_before() -> None:
    spectrum = CountSpectrum.from_counts(np.random.default_rng(4).poisson(8, 4000))
    users = spectrum.users
    all_values = value_limits(users=users, k=K, population=10**6, delta=DELTA, level=0)
    before = exposure_limits(
        users=users, k=K, population=10**6, delta=DELTA, drawing=Drawing(expected=users)
    )
    assert all_values.of(spectrum) == pytest.approx(before.of(spectrum), rel=1e-9)


def test_a_set_of_which_no_value_is_kept_has_limits_too() -> None:
    limits = value_limits(users=USERS, k=K, population=POPULATION, delta=DELTA, level=LEVEL)
    lower, upper = limits.of(None)
    assert lower == 0.0
    assert 0 < upper < 0.05
    assert limits.estimate(None) == 0.0


@given(st.integers(1, 10**10), st.integers(1, 10**7))
def test_the_planned_level_is_the_first_with_so_few_values(users: int, entries: int) -> None:
    level = planned_level(users, entries)
    assert users <= entries * 2**level
    assert level == 0 or users > entries * 2 ** (level - 1)


def test_all_levels_that_may_be_chosen_share_delta() -> None:
    assert sum(level_share(level, 5) for level in range(5, 41)) <= 1
    assert level_share(7) == 1
    with pytest.raises(InputError, match="below"):
        level_share(4, 5)


def test_words_that_are_too_short_for_so_many_values_are_refused() -> None:
    with pytest.raises(PolicyError, match="too small"):
        value_limits(users=10**10, k=10, population=10**10, delta=1e-3, level=1, tests=100)
    with pytest.raises(PolicyError, match="too small"):  # where all are kept, two may have one word
        value_limits(users=10**10, k=10, population=10**10, delta=1e-3, level=0)


@pytest.mark.long
def test_the_proof_holds_for_the_share_of_values_that_it_names_and_no_other() -> None:
    criteria = value_criteria(
        users=USERS, k=K, population=POPULATION, budget=BUDGET, delta=DELTA, level=LEVEL, tests=12
    )
    allow, block = criteria.proofs(1).values()
    assert check_proof(allow) == ""
    assert check_proof(block) == ""
    for side, factor in ((allow, 0.7), (block, 1.4)):
        designs = [
            {**design, "value_share": design["value_share"] * factor} for design in side["designs"]
        ]
        assert check_proof(side | {"designs": designs}).startswith("line")
    added = [{**design, "fakes": {"rows": USERS, "most": 10}} for design in allow["designs"]]
    assert check_proof({**allow, "designs": added}) == "form"
