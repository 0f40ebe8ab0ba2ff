"""Exposure: reference numbers, brute force on tiny cases, and the numerics at the far end."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.errors import InputError, PolicyError
from fpmonitor.estimate.exposure import (
    ExposureCurve,
    empirical_exposure,
    exposure_curve,
    exposure_probability,
    gamma_dkw,
    limits_within,
    plug_in_exposure,
    statistical_exposure,
    subsample_exposure_probability,
    unbiased_exposure,
)
from fpmonitor.spectrum import CountSpectrum
from tests.laws import REFERENCE, law

BILLION = 10**9

group_sizes = st.lists(st.integers(1, 40), min_size=2, max_size=30)


def binomial_cdf(trials: int, most: int, p: float) -> float:
    with localcontext(prec=40):
        chance = Decimal(p)
        odds = chance / (1 - chance)
        term = total = (1 - chance) ** trials
        for j in range(1, most + 1):
            term *= (trials - j + 1) * odds / j
            total += term
        return float(total)


def hypergeometric_cdf(total: int, group: int, draws: int, most: int) -> float:
    """Sum from no member upward, with 40 digits; the group must fit outside of the draw."""
    with localcontext(prec=40):
        term = Decimal(1)
        for member in range(group):
            term *= Decimal(total - draws - member) / Decimal(total - member)
        cdf = term
        for j in range(most):
            term *= Decimal((group - j) * (draws - j))
            term /= Decimal((j + 1) * (total - group - draws + j + 1))
            cdf += term
        return float(cdf)


def test_statistical_exposure_of_known_laws_matches_the_reference() -> None:
    for case in REFERENCE["statistical_exposure"]:
        got = statistical_exposure(law(case["law"]), k=case["k"], population=case["population"])
        assert got == pytest.approx(case["value"], abs=case["tolerance"], rel=1e-9)


def test_estimates_from_a_spectrum_match_the_reference() -> None:
    for case in REFERENCE["spectrum"]["estimates"]:
        spectrum = CountSpectrum(
            np.array(REFERENCE["spectrum"]["counts"]), np.array(REFERENCE["spectrum"]["values"])
        )
        arguments = {"k": case["k"], "population": case["population"]}
        tolerance = case["tolerance"]
        assert plug_in_exposure(spectrum, **arguments) == pytest.approx(
            case["plug_in"], abs=tolerance
        )
        unbiased = unbiased_exposure(spectrum, **arguments)
        assert unbiased == pytest.approx(case["unbiased"], abs=tolerance)


def test_multiplicities_stand_for_repeated_probabilities() -> None:
    repeated = statistical_exposure([0.5] + [0.05] * 10, k=4, population=50)
    merged = statistical_exposure([0.5, 0.05], k=4, population=50, multiplicities=[1, 10])
    assert merged == pytest.approx(repeated, abs=1e-15)


def test_plug_in_misses_the_tail_of_a_larger_population() -> None:
    p = np.arange(1.0, 1_000_001) ** -1.1
    p /= p.sum()
    sample = np.random.default_rng(1).multinomial(100_000, p)
    arguments = {"k": 50, "population": 10_000_000}
    assert statistical_exposure(p, **arguments) == pytest.approx(0.181, abs=5e-4)
    assert plug_in_exposure(CountSpectrum.from_counts(sample), **arguments) < 1e-3


@pytest.mark.parametrize(("population", "k"), [(2, 2), (3, 2), (5, 5), (7, 3), (12, 11)])
def test_exposure_probability_is_the_exact_binomial_sum(population: int, k: int) -> None:
    for p in (Fraction(0), Fraction(1, 64), Fraction(3, 8), Fraction(1, 2), Fraction(1)):
        exact = sum(
            math.comb(population - 1, j) * p**j * (1 - p) ** (population - 1 - j)
            for j in range(k - 1)
        )
        got = exposure_probability(float(p), k=k, population=population)
        assert float(got) == pytest.approx(float(exact), rel=1e-14)


@pytest.mark.parametrize(
    ("population", "k"),
    [
        (10 * BILLION, 2),
        (10 * BILLION, 1000),
        (142_027_777, 1001),  # scipy's inverse of the beta function is wrong here
        (10**6, 50),
        (20_000, 15_000),
    ],
)
@pytest.mark.parametrize("factor", [0.7, 1, 1.2, 1.5])
def test_exposure_probability_keeps_its_digits(population: int, k: int, factor: float) -> None:
    p = min(factor * k / population, 0.999)
    got = float(exposure_probability(p, k=k, population=population))
    assert got == pytest.approx(binomial_cdf(population - 1, k - 2, p), rel=1e-10, abs=1e-290)


def test_exposure_probability_at_the_largest_policy() -> None:
    population, k = 10 * BILLION, 10**6
    p = np.linspace(0.9, 1.1, 201) * k / population
    got = exposure_probability(p, k=k, population=population)
    # The mean of a binomial with median k - 2 lies within ln 2 of it; a million users are normal
    # to three digits.
    spread = (k - 1.5 - (population - 1) * p) / np.sqrt((population - 1) * p * (1 - p))
    normal = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in spread])
    np.testing.assert_allclose(got, normal, atol=1e-3)
    assert not np.isnan(got).any()
    assert (np.diff(got) <= 0).all()
    assert (got[0], got[-1]) == (1, 0)


@pytest.mark.parametrize("k", [2, 10, 10**3, 10**6])
@pytest.mark.parametrize("population", [10**6, 10 * BILLION])
def test_exposure_probability_is_a_falling_share_over_all_p(population: int, k: int) -> None:
    p = np.concatenate([[0], np.logspace(-14, 0, 2000)])
    got = exposure_probability(p, k=k, population=population)
    assert got[0] == 1
    assert got[-1] == 0
    assert (np.diff(got) <= 0).all()


def test_nobody_is_exposed_below_two_and_everybody_in_a_small_population() -> None:
    p = np.array([[0.0, 0.5], [0.9, 1.0]])
    assert (exposure_probability(p, k=1, population=10) == 0).all()
    assert (exposure_probability(p, k=11, population=10) == 1).all()
    assert exposure_probability(p, k=11, population=10).shape == p.shape


@pytest.mark.parametrize("sizes", [(3, 2, 1, 1), (4, 3), (1, 1, 1, 1, 1), (6, 1)])
def test_unbiased_estimate_is_the_average_over_all_sub_databases(sizes: tuple[int, ...]) -> None:
    users = [value for value, size in enumerate(sizes) for _ in range(size)]
    for population in range(2, len(users) + 1):
        for k in range(2, population + 1):
            databases = list(itertools.combinations(users, population))
            exposed = sum(
                size for database in databases for size in Counter(database).values() if size < k
            )
            exact = exposed / population / len(databases)
            got = unbiased_exposure(CountSpectrum.from_counts(sizes), k=k, population=population)
            assert got == pytest.approx(exact, abs=1e-13)


def test_unbiased_estimate_is_right_on_average_over_all_samples() -> None:
    p = (Fraction(1, 2), Fraction(1, 3), Fraction(1, 6))
    for population, k in ((2, 2), (3, 2), (4, 3), (5, 2)):
        mean = 0.0
        for sample in itertools.product(range(3), repeat=5):
            chance = float(math.prod(p[value] for value in sample))
            spectrum = CountSpectrum.from_counts(np.bincount(sample))
            estimate = unbiased_exposure(spectrum, k=k, population=population)
            assert estimate is not None
            mean += chance * estimate
        truth = statistical_exposure([float(x) for x in p], k=k, population=population)
        assert mean == pytest.approx(truth, abs=1e-12)


@given(users=st.integers(2, 400), data=st.data(), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=60)
def test_subsample_probability_is_the_exact_hypergeometric_sum(
    users: int, data: st.DataObject, seed: int
) -> None:
    population = data.draw(st.integers(2, users))
    k = data.draw(st.integers(2, population))
    counts = np.unique(np.random.default_rng(seed).integers(1, users + 1, 8))
    got = subsample_exposure_probability(counts, k=k, population=population, users=users)
    for count, probability in zip(counts.tolist(), got, strict=True):
        exact = Fraction(
            sum(
                math.comb(count - 1, j) * math.comb(users - count, population - 1 - j)
                for j in range(min(k - 1, count))
            ),
            math.comb(users - 1, population - 1),
        )
        assert probability == pytest.approx(float(exact), rel=1e-10, abs=1e-300)


@pytest.mark.parametrize(
    ("users", "population", "k", "count"),
    [
        (BILLION, BILLION // 2, 1000, 1950),
        (10 * BILLION, BILLION, 1000, 10_300),
        (10 * BILLION, 9 * BILLION, 5000, 5600),
        (BILLION, 10**6, 10, 9700),
    ],
)
def test_subsample_probability_keeps_its_digits_for_billions_of_users(
    users: int, population: int, k: int, count: int
) -> None:
    exact = hypergeometric_cdf(users - 1, count - 1, population - 1, k - 2)
    got = subsample_exposure_probability(np.array([count]), k=k, population=population, users=users)
    assert float(got[0]) == pytest.approx(exact, rel=1e-10)


def test_estimates_stay_shares_for_hundreds_of_thousands_of_distinct_counts() -> None:
    counts = np.arange(1, 200_001)
    spectrum = CountSpectrum(counts, np.ones_like(counts))
    for k, population in ((10**6, 10 * BILLION), (1000, 10**6), (20_000, 10 * BILLION)):
        estimate = unbiased_exposure(spectrum, k=k, population=population)
        assert estimate is not None
        assert 0 <= estimate <= 1
        assert 0 <= plug_in_exposure(spectrum, k=k, population=population) <= 1


@given(sizes=group_sizes, k=st.integers(2, 50))
@settings(deadline=None, max_examples=100)
def test_unbiased_equals_empirical_for_the_whole_sample(sizes: list[int], k: int) -> None:
    spectrum = CountSpectrum.from_counts(sizes)
    if k <= spectrum.users:
        got = unbiased_exposure(spectrum, k=k, population=spectrum.users)
        assert got == empirical_exposure(spectrum, k)


def test_no_unbiased_estimate_beyond_the_sample() -> None:
    spectrum = CountSpectrum.from_counts([3, 2])
    assert unbiased_exposure(spectrum, k=2, population=6) is None
    assert unbiased_exposure(spectrum, k=2, population=5) is not None


def estimates(sizes: list[int], k: int, population: int) -> list[float]:
    spectrum = CountSpectrum.from_counts(sizes)
    unbiased = unbiased_exposure(spectrum, k=k, population=min(population, spectrum.users))
    assert unbiased is not None
    return [
        empirical_exposure(spectrum, k),
        plug_in_exposure(spectrum, k=k, population=population),
        unbiased,
    ]


@given(sizes=group_sizes, k=st.integers(2, 20), population=st.integers(21, 2000))
@settings(deadline=None, max_examples=100)
def test_exposure_grows_with_k(sizes: list[int], k: int, population: int) -> None:
    sizes = [*sizes, 40]
    low, high = estimates(sizes, k, population), estimates(sizes, k + 1, population)
    assert all(one <= two + 1e-12 for one, two in zip(low, high, strict=True))


@given(sizes=group_sizes, k=st.integers(2, 20), population=st.integers(21, 2000), data=st.data())
@settings(deadline=None, max_examples=100)
def test_exposure_grows_when_a_value_is_split(
    sizes: list[int], k: int, population: int, data: st.DataObject
) -> None:
    whole = data.draw(st.integers(2, 60))
    part = data.draw(st.integers(1, whole - 1))
    merged = estimates([*sizes, 40, whole], k, population)
    split = estimates([*sizes, 40, part, whole - part], k, population)
    assert all(one <= two + 1e-12 for one, two in zip(merged, split, strict=True))


def test_groups_of_exactly_the_threshold_are_safe() -> None:
    spectrum = CountSpectrum.from_counts([5, 5, 3])
    assert empirical_exposure(spectrum, 5) == 3 / 13
    assert empirical_exposure(spectrum, 6) == 1
    assert empirical_exposure(spectrum, 3) == 0


@given(sizes=group_sizes)
@settings(deadline=None, max_examples=50)
def test_the_curve_is_the_empirical_exposure_at_every_threshold(sizes: list[int]) -> None:
    spectrum = CountSpectrum.from_counts(sizes)
    curve = exposure_curve(spectrum)
    for count in range(2, 45):
        assert curve.at(count) == empirical_exposure(spectrum, count)
    assert curve.at(0) == curve.at(1) == 0
    assert curve.exposure[-1] == 1


def band_of(curve: ExposureCurve, delta: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Thresholds as shares, and the limits that hold at all of them together."""
    shares = curve.thresholds / curve.users
    return shares, *limits_within(curve, gamma_dkw(curve.users, delta), shares)


@given(sizes=group_sizes, delta=st.floats(0.001, 0.9))
@settings(deadline=None, max_examples=50)
def test_the_band_surrounds_the_empirical_curve(sizes: list[int], delta: float) -> None:
    curve = exposure_curve(CountSpectrum.from_counts([size * 50 for size in sizes]))
    _, lower, upper = band_of(curve, delta)
    assert (lower <= curve.exposure + 1e-12).all()
    assert (upper >= curve.exposure - 1e-12).all()


def test_the_band_covers_the_true_curve_and_says_something() -> None:
    p = np.sort(np.concatenate([np.full(10, 0.02), np.full(4, 0.1), [0.15, 0.25]]))
    rng = np.random.default_rng(5)
    misses = 0
    for sample in rng.multinomial(4000, p, size=300):
        shares, lower, upper = band_of(exposure_curve(CountSpectrum.from_counts(sample)), 0.1)
        truth = np.array([p[p < t].sum() for t in shares])
        misses += bool(((truth < lower) | (truth > upper)).any())
    assert misses <= 30
    assert lower[-1] > 0.5
    assert upper[5] < 1


def limit_violations(reach: float) -> int:
    """Runs in which limits for `reach` times the true distance miss the truth."""
    rng = np.random.default_rng(9)
    violations = 0
    for _ in range(300):
        p = rng.dirichlet(np.full(rng.integers(2, 12), rng.choice([0.1, 0.5, 5])))
        counts = rng.multinomial(rng.integers(5, 200), p)
        gamma = reach * float(np.abs(counts / counts.sum() - p).max()) + 1e-12
        t = np.sort(rng.uniform(0, 1.2, 20) * p.max())
        truth = np.array([p[p < threshold].sum() for threshold in t])
        curve = exposure_curve(CountSpectrum.from_counts(counts))
        for support in (None, p.size):
            lower, upper = limits_within(curve, gamma, t, support=support)
            violations += bool(((lower > truth + 1e-9) | (upper < truth - 1e-9)).any())
    return violations


def test_limits_hold_for_every_law_within_reach_and_need_all_of_it() -> None:
    assert limit_violations(1) == 0
    assert limit_violations(0.3) > 0


@pytest.mark.parametrize(
    ("argument", "k", "population"),
    [("k", 1, 10), ("k", 2.5, 10), ("population", 5, 4), ("population", 5, 10**11)],
)
def test_bad_thresholds_name_the_argument(argument: str, k: int, population: int) -> None:
    spectrum = CountSpectrum.from_counts([3, 2])
    for estimate in (plug_in_exposure, unbiased_exposure):
        with pytest.raises(PolicyError) as caught:
            estimate(spectrum, k=k, population=population)
        assert caught.value.argument == argument


@pytest.mark.parametrize("delta", [0, 1, -0.1, math.nan])
def test_a_band_needs_a_share_for_delta(delta: float) -> None:
    with pytest.raises(PolicyError, match="delta"):
        gamma_dkw(5, delta)


@pytest.mark.parametrize("probabilities", [[0.5, 0.4], [1.5, -0.5], [math.nan, 1], []])
def test_a_law_must_be_a_law(probabilities: list[float]) -> None:
    with pytest.raises(InputError):
        statistical_exposure(probabilities, k=2, population=10)
