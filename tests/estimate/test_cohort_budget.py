"""Budgets of cohorts: exact moments, error rates at hard laws, and what wrong versions would do."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import scipy

from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.estimate.cohort_budget import CohortTest, cohort_test, evidence_together
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.looks import Drawing
from fpmonitor.policy import CohortBudget
from fpmonitor.population.memory import CohortSource
from fpmonitor.spectrum import CohortSpectrum, CountSpectrum

USERS, K, POPULATION = 5_000, 10, 5_000
BUDGET, LEAST = 0.2, 0.05


def made(
    *,
    users: int = USERS,
    population: int = POPULATION,
    delta: float = 0.2,
    universe: int = 1,
    worst_share: bool = False,
) -> CohortTest:
    asked = CohortBudget(
        given=("family",), budget=BUDGET, least_share=LEAST, worst_share=worst_share
    )
    return cohort_test(
        asked,
        users=users,
        k=K,
        population=population,
        delta=delta,
        universe=universe,
        drawing=Drawing(expected=users),
    )


def alone(counts: np.ndarray) -> CohortSpectrum:
    """Spectrum of one cohort."""
    sizes = counts[counts > 0].astype(np.int64)
    return CohortSpectrum.of_groups(sizes, np.zeros(len(sizes), dtype=np.int64), 1)


def exposed(share: float) -> float:
    return float(exposure_probability(share, k=K, population=POPULATION))


def log_moment(mean: float, tilt: float, phi: np.ndarray) -> float:
    counts = np.arange(int(mean + 12 * math.sqrt(mean) + 60))
    scores = phi[np.minimum(counts, len(phi) - 1)]
    logs = scipy.stats.poisson.logpmf(counts, mean) + tilt * counts - scores
    return float(scipy.special.logsumexp(logs))


@pytest.mark.parametrize("share", [1.0, 0.3, 0.05])
def test_the_poisson_moment_of_a_cohort_at_its_budget_is_at_most_one(share: float) -> None:
    """Theorem 1, exactly: and with the mean that no budget has lowered it is far above."""
    for part in made().parts:
        full, phi = part.score.base.mean, part.score.base.phi()
        right, unlowered = [], []
        for at in (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0):
            p = at * K / POPULATION
            if exposed(p) < BUDGET:
                continue
            part_exposed = BUDGET / exposed(p)
            values, crowd = share * part_exposed / p, 30 * K / POPULATION
            crowds = share * (1 - part_exposed) / crowd
            tilt = math.log(full / part.mean)
            for mean, found in ((part.mean, right), (full, unlowered)):
                rare, many = log_moment(mean * p, tilt, phi), log_moment(mean * crowd, tilt, phi)
                found.append(values * rare + crowds * many)
        assert max(right) <= 1e-9
        assert max(unlowered) > share
        assert part.mean < full


def drawn(rng: np.random.Generator, share: float, exposure: float) -> np.ndarray:
    """Users of a cohort: some with values of a twentieth of k, the others alike."""
    p = 0.05 * K / POPULATION
    rare = min(exposure / exposed(p), 1.0)
    values = max(round(share * rare / p), 1)
    some = rng.binomial(USERS, share * rare)
    others = rng.binomial(USERS - some, share * (1 - rare) / (1 - share * rare))
    return np.append(np.bincount(rng.integers(0, values, some)), others)


def test_cohorts_just_above_their_budget_pass_seldom_and_wrong_versions_let_them_pass() -> None:
    test, rng, runs = made(), np.random.default_rng(3), 300
    passed = exempt = observed = all_exposed = 0
    for _ in range(runs):
        counts = drawn(rng, LEAST, 1.005 * BUDGET)
        passed += test.holds(alone(counts), 1)
        observed += counts[counts < K].sum() <= BUDGET * counts.sum()
        hopeless = drawn(rng, LEAST, 1.0)
        all_exposed += test.holds(alone(hopeless), 1)
        exempt += hopeless.sum() < LEAST * USERS
    assert passed <= 0.2 * runs
    assert all_exposed <= 0.05 * runs
    # what was observed of the cohort, or its observed share, in place of a test
    assert observed > 0.3 * runs
    assert exempt > 0.3 * runs


def test_the_best_of_a_menu_passes_seldom_and_the_best_of_any_cohorts_often() -> None:
    """Who looks at a hundred ways to tell cohorts finds one whose cohort passes by luck."""
    menu = tuple(f"api{i}" for i in range(100))
    chosen = CohortBudget(given=menu[:1], budget=BUDGET, least_share=LEAST, menu=menu)
    rng, runs, anyhow, of_menu = np.random.default_rng(17), 60, 0, 0
    fixed, shared = made(), made(delta=0.2 * chosen.level_share)
    for _ in range(runs):
        cohorts = [alone(drawn(rng, LEAST, 1.005 * BUDGET)) for _ in menu]
        anyhow += any(fixed.holds(cohort, 1) for cohort in cohorts)
        of_menu += any(shared.holds(cohort, 1) for cohort in cohorts)
    assert of_menu <= 0.2 * runs
    assert anyhow > 0.4 * runs


def test_levels_of_all_choices_of_a_menu_add_up_to_less_than_one() -> None:
    menu = ("a", "b", "c", "d", "e")
    choices = [one for few in range(1, 6) for one in combinations(menu, few)]
    shares = [
        CohortBudget(given=one, budget=BUDGET, least_share=LEAST, menu=menu).level_share
        for one in choices
    ]
    assert sum(shares) == pytest.approx(1 - 1 / 6)
    assert shares[0] == pytest.approx(1 / (1 * 2 * 5))


def test_harmless_cohorts_of_the_least_share_pass() -> None:
    rng = np.random.default_rng(5)
    test = made(delta=0.05)
    runs = [test.holds(alone(np.array([rng.binomial(USERS, LEAST)])), 1) for _ in range(50)]
    assert sum(runs) > 45


@pytest.mark.parametrize("users", [60, 150, 400, 1_000, 4_000])
def test_a_cohort_that_was_not_seen_is_ruled_out_only_where_it_would_have_been(users: int) -> None:
    test = made(users=users, population=1_000, delta=0.05)
    missed = (1 - LEAST) ** users
    if users >= 400:
        test.check_decides(users)
        assert missed < 0.05
    else:
        with pytest.raises(UndecidableError, match="cannot be told apart from absent ones below"):
            test.check_decides(users)


def least_of_parts(constants: np.ndarray, added: np.ndarray) -> float:
    """Least logarithm of the sum of designs over parts of cohorts, each from 0 to 1; convex."""

    def together(parts: np.ndarray) -> tuple[float, np.ndarray]:
        told = constants + added @ parts
        return float(scipy.special.logsumexp(told)), scipy.special.softmax(told) @ added

    cohorts = added.shape[1]
    return min(
        scipy.optimize.minimize(
            together,
            np.full(cohorts, start),
            jac=True,
            method="SLSQP",
            bounds=[(0, 1)] * cohorts,
            options={"ftol": 1e-14, "maxiter": 2_000},
        ).fun
        for start in (0.0, 0.3, 1.0)
    )


def test_evidence_that_cohorts_have_together_is_never_above_that_of_the_worst_of_them() -> None:
    """Theorem 4, against all unions of a few, and all parts of them, where it is the least sum."""
    rng = np.random.default_rng(11)
    for _ in range(60):
        designs, cohorts = int(rng.integers(1, 8)), int(rng.integers(1, 8))
        constants = rng.normal(-2, 5, designs)
        added = rng.normal(1, rng.choice([1, 5, 30]), (designs, cohorts))
        unions = [
            union for size in range(cohorts + 1) for union in combinations(range(cohorts), size)
        ]
        worst = min(
            scipy.special.logsumexp(constants + added[:, list(union)].sum(axis=1))
            for union in unions
        )
        found = evidence_together(constants, added)
        assert found <= worst + 1e-9
        assert designs > 1 or found == pytest.approx(worst)
        assert found == pytest.approx(least_of_parts(constants, added), abs=1e-5, rel=1e-6)


def test_cohorts_that_are_above_together_pass_seldom_and_one_by_one_they_all_pass() -> None:
    """Twenty cohorts of a share of 1/20 of the least one each, just above the budget."""
    rng, runs, parts = np.random.default_rng(13), 200, 20
    one_by_one, together = made(), made(worst_share=True)
    passed = hidden = 0
    for _ in range(runs):
        drawn_parts = [drawn(rng, LEAST / parts, 1.005 * BUDGET) for _ in range(parts)]
        sizes = np.concatenate([counts[counts > 0] for counts in drawn_parts]).astype(np.int64)
        of = np.repeat(range(parts), [int((counts > 0).sum()) for counts in drawn_parts])
        spectrum = CohortSpectrum.of_groups(sizes, of, parts)
        passed += together.holds(spectrum, 1)
        hidden += one_by_one.holds(spectrum, 1)
    assert passed <= 0.2 * runs
    assert hidden > 0.5 * runs


def test_another_cohort_changes_no_evidence() -> None:
    """Conditions are free: delta is not shared among cohorts."""
    test, one = made(), np.array([300, 40, 3, 2, 1], dtype=np.int64)
    whole = CohortSpectrum.of_groups(
        np.append(one, [2_000, 900]), np.array([0] * 5 + [1, 2], dtype=np.int64), 3
    )
    assert test.evidence(whole)[0] == test.evidence(alone(one))[0]
    with_worse = CohortSpectrum.of_groups(
        np.append(one, np.ones(300, dtype=np.int64)), np.array([0] * 5 + [1] * 300), 2
    )
    assert test.score(with_worse) > test.score(alone(one))


def test_larger_sets_never_have_more_evidence_and_limits_never_rise() -> None:
    rng = np.random.default_rng(7)
    test = made(universe=5)
    assert (np.diff(test.limits) <= 0).all()
    for _ in range(6):
        codes = [rng.zipf(1.6, USERS).clip(max=top) for top in (2, 5, 30, 400)]
        source = CohortSource("abcd", codes, always=rng.integers(0, 4, USERS))
        for size in range(4):
            for apis in combinations("abcd", size):
                here = test.evidence(source.spectrum(apis))
                for other in set("abcd") - {*apis}:
                    assert (test.evidence(source.spectrum([*apis, other])) <= here + 1e-9).all()


def test_groups_are_of_the_cohort_and_the_set_together_among_all_users() -> None:
    rng = np.random.default_rng(9)
    screen, cohort = rng.integers(0, 40, 900), rng.zipf(1.7, 900).clip(max=6)
    other = rng.integers(0, 3, 900)
    source = CohortSource(["other", "screen"], [other, screen], always=cohort)
    for apis, columns in ((["screen"], [screen]), ([], []), (["screen", "other"], [screen, other])):
        spectrum = source.spectrum(apis)
        both = np.stack([cohort, *columns])
        sizes = np.unique(both, axis=1, return_counts=True)[1]
        assert spectrum.users == 900
        assert sorted(np.repeat(spectrum.counts, spectrum.values)) == sorted(sizes)
        below = [
            sum(users for size, _, users in groups if size < K)
            for groups in spectrum.groups_by_cohort()
        ]
        assert sum(below) == spectrum.users_below(K)
        assert spectrum.cohort_users.sum() == 900
    part = source.restricted(["screen"])
    assert (part.spectrum(["screen"]).counts == source.spectrum(["screen"]).counts).all()


def test_counts_that_tell_no_cohort_are_refused() -> None:
    with pytest.raises(InputError, match="cohorts"):
        made().holds(CountSpectrum.from_counts([3, 4]), 1)
