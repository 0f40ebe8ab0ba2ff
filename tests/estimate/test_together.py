"""Several assumptions at once, of one population: what hides its exposed users does not pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.looks import Drawing, decision_criteria
from fpmonitor.estimate.realised import average_budget
from fpmonitor.estimate.strata import draw_by_shares, expected_users
from fpmonitor.policy import PLAIN_DRAWS, SampleModel, Strata
from fpmonitor.spectrum import CountSpectrum
from tests.estimate.test_fakes import with_fakes

if TYPE_CHECKING:
    from fpmonitor.estimate.criterion import Criterion

USERS = N = 5_000
QUESTION = {"k": 10, "population": N, "budget": 0.05, "delta": 0.05}
RUNS = 30


def criterion(
    users: int, sample: SampleModel = PLAIN_DRAWS, *, realised: bool = False
) -> Criterion:
    """Test of one set, for the average over populations or for one population."""
    question = QUESTION
    if realised:
        average = average_budget(**QUESTION | {"delta": 0.025}, candidates=1)
        question = QUESTION | {"budget": (average.exposure, 0.05), "delta": (0.025, 0.05)}
    return decision_criteria(
        users=users, universe=1, **question, drawing=Drawing.of(sample, users)
    ).allow


def allowed(test: Criterion, counts: np.ndarray) -> bool:
    return test.holds(CountSpectrum.from_counts(counts[counts > 0]), 1)


def above(counts: np.ndarray) -> bool:
    """Whether more of the users of one population are exposed than the budget."""
    return bool(counts[counts < QUESTION["k"]].sum() > QUESTION["budget"] * N)


@pytest.mark.long
def test_bias_and_added_rows_together_do_not_hide_exposed_users() -> None:
    bias, added, p = 1.25, 250, 0.8 * 10 / N
    values = int(1.15 * 0.05 / float(exposure_probability(p, k=10, population=N)) / p)
    there, here = (
        np.append(np.full(values, p * factor), 1 - values * p * factor) for factor in (1, bias)
    )
    sample = SampleModel(bias=bias, fake_share=added / (USERS + added) + 1e-6)
    tests = criterion(USERS + added), criterion(USERS + added, sample, realised=True)
    rng = np.random.default_rng(7)
    wrong = np.zeros(2)
    for _ in range(RUNS):
        users = np.append(rng.multinomial(USERS, here), 0)
        if above(rng.multinomial(N, there)):
            wrong += [
                allowed(each, with_fakes(users, each.score.weights[0], added)) for each in tests
            ]
    plain, assumed = wrong / RUNS
    assert plain > 0.8
    assert assumed <= QUESTION["delta"]


@pytest.mark.long
def test_strata_bias_and_several_ids_together_do_not_hide_exposed_users() -> None:
    """Phones are four in five and observed as one in five; exposed ones have forty ids."""
    bias, share, sizes, common, rare = 1.25, 0.8, np.array([4_000, 1_000]), 20, 50_000
    exposed = 1.2 * QUESTION["budget"]
    seen = exposed / share / bias
    there, here = (
        np.append(np.full(common, (1 - part) / common), np.full(rare, part / rare))
        for part in (exposed, seen)
    )
    shares = np.array([1 - share, share])
    strata = Strata(
        by="", shares={"a": 1 - share, "b": share}, expected=expected_users(sizes, shares)
    )
    sample = SampleModel(bias=bias, strata=strata, cluster="person")
    rng = np.random.default_rng(7)
    wrong = np.zeros(2)
    for _ in range(RUNS):
        persons = np.append(rng.choice(common, sizes[0]), rng.choice(here.size, sizes[1], p=here))
        rows = np.repeat(persons, np.where(persons < common, 1, 40))
        kept, _ = draw_by_shares(np.repeat([0, 1], sizes), shares, rng)
        if above(rng.multinomial(N, there)):
            tests = criterion(len(rows)), criterion(len(kept), sample, realised=True)
            drawn = (rows, persons[kept])
            wrong += [
                allowed(test, np.bincount(each)) for test, each in zip(tests, drawn, strict=True)
            ]
    plain, assumed = wrong / RUNS
    assert plain > 0.9
    assert assumed <= QUESTION["delta"]
