"""The paper's bounds: reference constants, validity by simulation, and honesty about nothing."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from fpmonitor.errors import InputError, PolicyError
from fpmonitor.estimate.bounds import (
    Interval,
    entropy_upper_bits,
    gamma_hoeffding,
    lipschitz_constant,
    proposition9,
    theorem5,
    theorem6_floor,
    theorem8,
    users_for_gamma,
)
from fpmonitor.estimate.entropy import entropy_bits
from fpmonitor.estimate.exposure import binomial_probability, gamma_dkw, statistical_exposure
from fpmonitor.spectrum import CountSpectrum

REFERENCE = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "reference" / "exposure.json").read_text("utf-8")
)
LAWS = {
    "uniform": np.full(20, 0.05),
    "zipf": np.arange(1.0, 61) ** -1.2 / (np.arange(1.0, 61) ** -1.2).sum(),
    "at the threshold": np.array([0.25, *[0.01] * 75]),
    "nearly constant": np.array([0.97, 0.01, 0.01, 0.01]),
}


def test_lipschitz_constant_matches_the_reference() -> None:
    for case in REFERENCE["lipschitz_constant"]:
        got = lipschitz_constant(case["k"], case["population"])
        assert got == pytest.approx(case["value"], rel=1e-11)


@pytest.mark.parametrize(("k", "expected"), [(10, 0.9), (20, 1.15)])
def test_lipschitz_constant_hardly_depends_on_a_large_population(k: int, expected: float) -> None:
    for population in (10**4, 10**7, 10**10):
        assert lipschitz_constant(k, population) == pytest.approx(expected, abs=0.01)


def test_exposure_changes_at_most_by_the_lipschitz_constant_times_the_distance() -> None:
    rng = np.random.default_rng(2)
    closest = 0.0
    for _ in range(500):
        n = int(rng.integers(2, 200))
        k = int(rng.integers(2, n + 1))
        size = rng.integers(2, 6)
        p, q = rng.dirichlet(np.full(size, rng.choice([0.05, 0.5, 5])), size=2)
        q = p + rng.choice([1, 0.1, 0.001]) * (q - p)
        change = abs(
            statistical_exposure(p, k=k, population=n) - statistical_exposure(q, k=k, population=n)
        )
        allowed = lipschitz_constant(k, n) * np.abs(p - q).sum()
        assert change <= allowed + 1e-12
        closest = max(closest, change / max(allowed, 1e-9))
    assert closest > 0.5


@pytest.mark.parametrize(
    "case", REFERENCE["theorem_8_counter_example"]["cases"], ids=lambda case: str(case)[:40]
)
def test_theorem_8_as_printed_fails_where_the_replacement_holds(case: dict[str, Any]) -> None:
    n, x = case["population"], case["x"]
    arguments = {"k": n, "population": n}
    error = abs(
        statistical_exposure([1 - x, x], **arguments) - statistical_exposure([1, 0], **arguments)
    )
    assert error == pytest.approx(case["error"], abs=case["tolerance"])
    assert error > case["printed_bound"]
    valid = lipschitz_constant(n, n) * 2 * x
    assert valid == pytest.approx(case["valid_bound"], abs=case["tolerance"])
    assert error <= valid


@pytest.mark.parametrize("case", REFERENCE["appendix_g_square_roots"]["cases"], ids=str)
def test_the_printed_sum_of_square_roots_is_unbounded(case: dict[str, Any]) -> None:
    p = np.array(case["probabilities"])
    total = np.sqrt(p / (1 - p)).sum()
    assert total == pytest.approx(case["sum"], abs=case["tolerance"])
    printed = p.size / math.sqrt(p.size - 1)
    assert printed == pytest.approx(case["printed_bound"], abs=case["tolerance"])


@pytest.mark.parametrize("case", REFERENCE["theorem_5_search"]["cases"], ids=str)
def test_the_proven_gamma_of_theorem_5_is_twice_the_printed_risk(case: dict[str, Any]) -> None:
    values, users, gamma = case["values"], case["users"], case["gamma_just_below"]
    samples = list(itertools.product(range(values), repeat=users))
    far = sum(
        np.abs(np.bincount(sample, minlength=values) / users - 1 / values).max() > gamma - 1e-9
        for sample in samples
    )
    assert far / len(samples) == pytest.approx(case["probability"], abs=case["tolerance"])
    printed = values * math.exp(-2 * users * gamma**2)
    assert printed == pytest.approx(case["printed_bound"], abs=case["tolerance"])
    ratio = case["probability"] / printed
    assert ratio == pytest.approx(case["ratio"], abs=case["tolerance"])
    # Half of the proven risk is the printed one.
    shorter = gamma_hoeffding(users, values, 0.5)
    assert 2 * values * math.exp(-2 * users * shorter**2) == pytest.approx(0.5)


def theorem5_misses(p: np.ndarray, *, support: int | None, delta: float) -> int:
    rng = np.random.default_rng(3)
    k, population = 50, 2000
    truth = float(p[p * population < k].sum())
    misses = 0
    for sample in rng.multinomial(1500, p, size=400):
        interval = theorem5(
            CountSpectrum.from_counts(sample),
            k=k,
            population=population,
            delta=delta,
            support=support,
        )
        misses += not interval.lower <= truth <= interval.upper
    return misses


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("known", [True, False])
def test_theorem_5_covers_the_truth(name: str, known: bool) -> None:
    p = LAWS[name]
    assert theorem5_misses(p, support=p.size if known else None, delta=0.2) <= 80


@pytest.mark.parametrize("name", LAWS)
def test_theorem_8_covers_the_truth(name: str) -> None:
    p = LAWS[name]
    rng = np.random.default_rng(4)
    k, population, delta = 10, 300, 0.2
    truth = statistical_exposure(p, k=k, population=population)
    misses = 0
    for sample in rng.multinomial(20_000, p, size=100):
        interval = theorem8(
            CountSpectrum.from_counts(sample),
            k=k,
            population=population,
            delta=delta,
            support=p.size,
        )
        misses += not interval.lower <= truth <= interval.upper
        assert interval.width < 0.6
    assert misses <= 20


def test_a_known_support_never_widens_theorem_5() -> None:
    rng = np.random.default_rng(6)
    for _ in range(200):
        spectrum = CountSpectrum.from_counts(rng.integers(1, 400, rng.integers(1, 30)))
        arguments = {"k": int(rng.integers(2, 300)), "population": 1000, "delta": 0.05}
        free = theorem5(spectrum, **arguments)
        known = theorem5(spectrum, **arguments, support=spectrum.support + 5)
        assert known.lower >= free.lower
        assert known.upper <= free.upper
        assert 0 <= known.lower <= known.upper <= 1


def test_theorem_5_by_hand() -> None:
    spectrum = CountSpectrum.from_counts([5000, 3000, 1500, 500])
    arguments = {"k": 1000, "population": 10_000, "delta": 0.05, "support": 10}
    gamma = math.sqrt(math.log(2 * 10 / 0.05) / 20_000)
    interval = theorem5(spectrum, **arguments)
    # Only the value of 500 is below t - gamma; three values are seen at least t + gamma.
    assert interval.lower == pytest.approx(0.05 - gamma)
    assert interval.upper == pytest.approx(0.05 + 3 * gamma)


def test_unknown_support_makes_theorem_8_vacuous_and_says_why() -> None:
    spectrum = CountSpectrum.from_counts([500, 500])
    interval = theorem8(spectrum, k=5, population=1000, delta=0.05)
    assert (interval.lower, interval.upper) == (0, 1)
    assert interval.vacuous
    assert "values" in interval.reason
    assert not theorem8(spectrum, k=5, population=1000, delta=0.05, support=2).vacuous


def test_bounds_tighten_with_more_users() -> None:
    widths = [
        theorem8(
            CountSpectrum.from_counts([400 * scale, 100 * scale]),
            k=5,
            population=100,
            delta=0.05,
            support=2,
        ).width
        for scale in (1, 10, 100)
    ]
    assert widths == sorted(widths, reverse=True)
    assert gamma_dkw(10_000, 0.05) == pytest.approx(gamma_dkw(100, 0.05) / 10)


@pytest.mark.parametrize("support", [2, 5, 5000])
def test_no_support_makes_the_floor_of_theorem_6_lower(support: int) -> None:
    """The worst of many values is at least as bad as the worst of two."""
    assert theorem6_floor(support) == 1 / 32
    with pytest.raises(InputError, match="support"):
        theorem6_floor(1)


@pytest.mark.parametrize("bound", [theorem5, theorem8])
def test_a_support_smaller_than_what_was_seen_is_refused(bound: Any) -> None:
    with pytest.raises(InputError, match="support: 2"):
        bound(CountSpectrum.from_counts([5, 5, 5]), k=2, population=10, delta=0.05, support=2)


@pytest.mark.parametrize("bound", [theorem5, theorem8])
@pytest.mark.parametrize(
    ("argument", "change"), [("k", {"k": 1}), ("delta", {"delta": 0}), ("population", {"k": 11})]
)
def test_bad_numbers_name_the_argument(bound: Any, argument: str, change: dict[str, Any]) -> None:
    arguments = {"k": 2, "population": 10, "delta": 0.05, **change}
    with pytest.raises(PolicyError) as caught:
        bound(CountSpectrum.from_counts([5, 5]), **arguments)
    assert caught.value.argument == argument


def test_an_interval_knows_when_it_says_nothing() -> None:
    assert Interval(lower=0.0, upper=1.0).vacuous
    assert not Interval(lower=0.1, upper=1.0).vacuous
    assert Interval(lower=0.25, upper=0.75).width == 0.5


@pytest.mark.parametrize(
    ("successes", "trials", "p"),
    [(9, 127, 10 / 128), (999_999, 10**10 - 1, 1e-4), (49, 10**7 - 1, 5e-6), (0, 10, 0.3)],
)
def test_binomial_probability_keeps_its_digits(successes: int, trials: int, p: float) -> None:
    expected = float(binom.pmf(successes, trials, p))
    assert binomial_probability(successes, trials, p) == pytest.approx(expected, rel=1e-12)


def test_binomial_probability_of_a_sure_success() -> None:
    assert binomial_probability(5, 5, 1.0) == 1
    assert binomial_probability(4, 5, 1.0) == 0


def test_one_user_moves_the_plug_in_entropy_by_at_most_what_the_limit_assumes() -> None:
    rng = np.random.default_rng(6)
    closest = 0.0
    for users in (3, 10, 100):
        for _ in range(300):
            counts = rng.multinomial(users, rng.dirichlet(np.full(6, 0.3)))
            moved = counts.copy()
            moved[rng.choice(np.flatnonzero(counts))] -= 1
            moved[rng.integers(6)] += 1
            before, after = (
                entropy_bits(CountSpectrum.from_counts(sizes)) for sizes in (counts, moved)
            )
            allowed = (math.log(users) + 1) / users / math.log(2)
            closest = max(closest, abs(after - before) / allowed)
    assert 0.7 < closest <= 1


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
def test_entropy_limit_holds_and_is_not_trivial(law: np.ndarray) -> None:
    rng = np.random.default_rng(7)
    truth = float(-law @ np.log2(law))
    uppers = [
        entropy_upper_bits(
            CountSpectrum.from_counts(rng.multinomial(5000, law)), support=law.size, delta=0.05
        )
        for _ in range(100)
    ]
    assert np.mean(np.array(uppers) < truth) <= 0.05
    assert max(uppers) <= math.log2(law.size)
    assert max(uppers) < truth + 0.5


def test_proposition_9_says_nothing_without_a_support() -> None:
    spectrum = CountSpectrum.from_counts([50, 40, 10])
    unknown = proposition9(spectrum, k=10, population=1000, delta=0.05)
    assert unknown.vacuous
    assert unknown.reason
    known = proposition9(spectrum, k=10, population=1000, delta=0.05, support=3)
    assert 0.2 < known.upper < 1
    assert proposition9(spectrum, k=10, population=10, delta=0.05, support=3).vacuous


def test_a_vacuous_bound_says_why() -> None:
    spectrum = CountSpectrum.from_counts([1] * 60)
    for bound in (theorem5, theorem8, proposition9):
        interval = bound(spectrum, k=10, population=60, delta=0.05, support=10**6)
        assert interval.vacuous, bound
        assert interval.reason, bound


def test_as_many_users_as_theorem_5_asks_for() -> None:
    """The least sample at which the distance of the theorem is reached, by trying them."""
    for gamma, delta, support in ((0.01, 0.05, 50), (0.1, 0.01, 2), (0.02, 0.05, None)):
        found = users_for_gamma(gamma, delta=delta, support=support)

        def distance(users: int, delta: float = delta, support: int | None = support) -> float:
            known = math.inf if support is None else gamma_hoeffding(users, support, delta)
            return min(gamma_dkw(users, delta), known)

        assert distance(found) <= gamma < distance(found - 1)
    assert users_for_gamma(0.01, delta=0.05, support=10**9) == users_for_gamma(0.01, delta=0.05)
    with pytest.raises(PolicyError, match="gamma"):
        users_for_gamma(0.0, delta=0.05)
