"""Entropy: closed forms, second routes to every estimator, and what the common reading hides."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.errors import InputError, PolicyError
from fpmonitor.estimate.entropy import (
    ENTROPY_ESTIMATORS,
    average_min_entropy_bits,
    best_entropy_polynomial,
    chao_shen_entropy_bits,
    chow_liu_upper_bits,
    conditional_entropy_bits,
    entropy_bits,
    exposure_bound_from_entropy,
    extremal_law,
    grassberger_entropy_bits,
    miller_madow_entropy_bits,
    min_entropy_bits,
    misleading_factor,
    misleading_factors,
    mutual_information_bits,
    naive_group_size,
    normalised_entropy,
    unbiased_tsallis_entropy,
)
from fpmonitor.spectrum import CountSpectrum
from tests.laws import REFERENCE, law

group_sizes = st.lists(st.integers(1, 200), min_size=2, max_size=40)


def true_bits(p: np.ndarray) -> float:
    return float(-p @ np.log2(p))


def spectrum_of(rows: np.ndarray) -> CountSpectrum:
    return CountSpectrum.from_counts(np.unique(rows, axis=0, return_counts=True)[1])


@pytest.mark.parametrize("case", REFERENCE["entropy_nats"], ids=str)
def test_plug_in_entropy_of_an_exact_sample_matches_the_reference(case: dict[str, Any]) -> None:
    # A sample whose shares are the law to 15 digits.
    counts = np.round(law(case["law"]) * 1e15).astype(np.int64)
    nats = entropy_bits(CountSpectrum.from_counts(counts)) * math.log(2)
    assert nats == pytest.approx(case["value"], abs=1e-10)


@pytest.mark.parametrize("bits", [0, 1, 5, 10])
def test_entropy_of_equally_common_values_is_their_number_in_bits(bits: int) -> None:
    spectrum = CountSpectrum.from_mapping({7: 2**bits})
    assert entropy_bits(spectrum) == pytest.approx(bits, abs=1e-12)
    assert min_entropy_bits(spectrum) == pytest.approx(bits, abs=1e-12)
    assert naive_group_size(entropy_bits(spectrum), spectrum.users) == pytest.approx(7)
    for share in (0.01, 0.5, 0.99):
        assert misleading_factor(spectrum, share=share) == pytest.approx(1)


def test_the_naive_reading_flatters_when_a_few_users_are_alone() -> None:
    spectrum = CountSpectrum.from_mapping({1: 50, 950: 1})
    assert naive_group_size(entropy_bits(spectrum), spectrum.users) > 500
    assert misleading_factor(spectrum, share=0.05) > 500
    assert misleading_factor(spectrum) < 1
    median, worst_5, worst_1 = misleading_factors(spectrum, least=9)
    assert median == misleading_factor(spectrum)
    assert worst_5 == worst_1 == pytest.approx(misleading_factor(spectrum, share=0.05) / 9)


def test_miller_madow_adds_half_a_value_per_user() -> None:
    spectrum = CountSpectrum.from_counts([4, 3, 3])
    expected = entropy_bits(spectrum) + 2 / 20 / math.log(2)
    assert miller_madow_entropy_bits(spectrum) == pytest.approx(expected)


def test_chao_shen_by_hand() -> None:
    # Coverage 1 - 1/4: shares 9/16 and 3/16.
    expected = sum(-p * math.log2(p) / (1 - (1 - p) ** 4) for p in (9 / 16, 3 / 16))
    assert chao_shen_entropy_bits(CountSpectrum.from_counts([3, 1])) == pytest.approx(expected)


def test_chao_shen_survives_a_sample_of_singletons_and_of_one_value() -> None:
    assert chao_shen_entropy_bits(CountSpectrum.from_counts([1] * 50)) > math.log2(50)
    assert chao_shen_entropy_bits(CountSpectrum.from_counts([50])) == 0


def test_grassberger_follows_its_recurrence() -> None:
    # G(2j + 1) = G(2j) and G(2j + 2) = G(2j) + 2 / (2j + 1), from the two values at the start.
    g = {1: -np.euler_gamma - math.log(2), 2: 2 - np.euler_gamma - math.log(2)}
    for count in range(3, 40):
        g[count] = g[count - 1] if count % 2 else g[count - 2] + 2 / (count - 1)
    sizes = [1, 1, 2, 3, 8, 17, 39]
    nats = math.log(sum(sizes)) - sum(size * g[size] for size in sizes) / sum(sizes)
    got = grassberger_entropy_bits(CountSpectrum.from_counts(sizes))
    assert got == pytest.approx(nats / math.log(2), abs=1e-12)


@pytest.mark.parametrize("degree", [2, 5, 9, 14])
def test_the_minimax_polynomial_equioscillates(degree: int) -> None:
    coefficients = best_entropy_polynomial(degree)
    x = (1 - np.cos(np.linspace(0, np.pi, 20_001))) / 2
    exact = -x * np.log(np.maximum(x, 1e-300))
    error = np.polynomial.polynomial.polyval(x, [0, *coefficients]) - exact
    worst = np.abs(error).max()
    # De la Vallee Poussin: alternating errors of nearly the same size prove near-optimality.
    signs = np.sign(error[np.abs(error) > 0.98 * worst])
    assert np.count_nonzero(np.diff(signs)) >= degree
    assert worst * degree**2 == pytest.approx(0.32, abs=0.02)


def test_the_minimax_polynomial_is_estimated_without_bias() -> None:
    # All counts rare: the estimate is the polynomial, whose mean over the binomial is exact.
    users, width = 40, 2 * math.log(40) / 40
    coefficients = best_entropy_polynomial(4)
    p = 0.3 * width
    mean = 0.0
    for count in range(users + 1):
        chance = math.comb(users, count) * p**count * (1 - p) ** (users - count)
        falling = 1.0
        for power, coefficient in enumerate(coefficients):
            falling *= (count - power) / (users - power) / width
            mean += chance * width * coefficient * falling
    exact = width * np.polynomial.polynomial.polyval(p / width, [0, *coefficients])
    assert mean == pytest.approx(float(exact), abs=1e-9)


@pytest.mark.parametrize("exponent", [0, 0.5, 1])
def test_better_estimators_beat_the_plug_in_when_most_values_are_rare(exponent: float) -> None:
    p = np.arange(1.0, 3001) ** -exponent
    p /= p.sum()
    samples = np.random.default_rng(7).multinomial(3000, p, size=10)
    spectra = [CountSpectrum.from_counts(sample) for sample in samples]
    errors = {
        name: math.sqrt(np.mean([(estimate(s) - true_bits(p)) ** 2 for s in spectra]))
        for name, estimate in ENTROPY_ESTIMATORS.items()
    }
    assert all(errors[name] < 0.7 * errors["plug-in"] for name in errors if name != "plug-in")
    assert errors["minimax"] < 0.2 * errors["plug-in"]


@pytest.mark.parametrize("name", ENTROPY_ESTIMATORS)
def test_every_estimator_finds_the_entropy_of_a_large_sample(name: str) -> None:
    p = law("zipf 1.5 of 100")
    spectrum = CountSpectrum.from_counts(np.random.default_rng(8).multinomial(10**6, p))
    assert ENTROPY_ESTIMATORS[name](spectrum) == pytest.approx(true_bits(p), abs=0.01)


@pytest.mark.parametrize("name", ENTROPY_ESTIMATORS)
@given(sizes=group_sizes)
@settings(deadline=None, max_examples=30)
def test_every_estimate_is_finite_and_not_negative(name: str, sizes: list[int]) -> None:
    estimate = ENTROPY_ESTIMATORS[name](CountSpectrum.from_counts(sizes))
    assert 0 <= estimate < math.inf


@pytest.mark.parametrize("name", ENTROPY_ESTIMATORS)
def test_every_estimate_takes_a_hundred_thousand_distinct_counts(name: str) -> None:
    counts = np.arange(1, 100_001)
    spectrum = CountSpectrum(counts, np.ones_like(counts))
    assert ENTROPY_ESTIMATORS[name](spectrum) == pytest.approx(entropy_bits(spectrum), abs=1e-3)


@given(sizes=group_sizes)
@settings(deadline=None, max_examples=60)
def test_entropies_of_higher_order_are_smaller(sizes: list[int]) -> None:
    spectrum = CountSpectrum.from_counts(sizes)
    bits = entropy_bits(spectrum)
    assert min_entropy_bits(spectrum) <= bits + 1e-9
    assert bits <= math.log2(spectrum.support) + 1e-9
    assert 0 <= normalised_entropy(spectrum) <= 1 + 1e-12


def test_unbiased_tsallis_is_right_on_average_over_all_samples() -> None:
    p = np.array([0.5, 0.3, 0.2])
    for order in (2, 3):
        mean = sum(
            p[list(sample)].prod()
            * unbiased_tsallis_entropy(CountSpectrum.from_counts(np.bincount(sample)), order)
            for sample in itertools.product(range(3), repeat=5)
        )
        assert mean == pytest.approx((1 - (p**order).sum()) / (order - 1), abs=1e-12)


def test_conditional_entropy_and_mutual_information_come_from_the_joint() -> None:
    rng = np.random.default_rng(10)
    x = rng.integers(0, 4, 500)
    y = np.where(rng.random(500) < 0.7, x, rng.integers(0, 4, 500))
    joint, given = spectrum_of(np.column_stack([x, y])), spectrum_of(x)
    direct = sum(
        (x == value).mean() * entropy_bits(spectrum_of(y[x == value])) for value in range(4)
    )
    assert conditional_entropy_bits(joint, given) == pytest.approx(direct)
    shared = mutual_information_bits(joint, given, spectrum_of(y))
    assert shared == pytest.approx(entropy_bits(spectrum_of(y)) - direct)


def test_chow_liu_is_at_least_the_joint_entropy() -> None:
    rng = np.random.default_rng(11)
    for _ in range(50):
        rows = rng.integers(0, 3, (200, 4))
        rows[:, 1] = np.where(rng.random(200) < 0.6, rows[:, 0], rows[:, 1])
        rows[:, 3] = (rows[:, 1] + rows[:, 2]) % 3
        singles = [spectrum_of(rows[:, i]) for i in range(4)]
        pairs = {
            pair: spectrum_of(rows[:, list(pair)]) for pair in itertools.combinations(range(4), 2)
        }
        bound = chow_liu_upper_bits(singles, pairs)
        assert bound >= entropy_bits(spectrum_of(rows)) - 1e-9
        assert bound <= chow_liu_upper_bits(singles, {(0, 1): pairs[0, 1]}) + 1e-9
        assert chow_liu_upper_bits(singles, {}) == pytest.approx(sum(map(entropy_bits, singles)))


def test_chow_liu_picks_the_best_tree() -> None:
    # A copies B, B nearly copies C: the tree A-B-C, found by trying all three.
    rng = np.random.default_rng(12)
    b = rng.integers(0, 5, 1000)
    rows = np.column_stack([b, b, np.where(rng.random(1000) < 0.8, b, 0)])
    singles = [spectrum_of(rows[:, i]) for i in range(3)]
    pairs = {pair: spectrum_of(rows[:, list(pair)]) for pair in itertools.combinations(range(3), 2)}
    trees = [
        sum(map(entropy_bits, singles))
        - sum(mutual_information_bits(pairs[pair], *(singles[i] for i in pair)) for pair in tree)
        for tree in itertools.combinations(pairs, 2)
    ]
    assert chow_liu_upper_bits(singles, pairs) == pytest.approx(min(trees))
    assert min(trees) == pytest.approx(entropy_bits(spectrum_of(rows)))


def test_exposure_curve_and_its_entropy_bound_match_the_reference() -> None:
    for case in REFERENCE["exposure_curve"]:
        p = law(case["law"])
        t, tolerance = case["threshold"], 1e-9
        exposure = [p[p < threshold].sum() for threshold in (t, np.nextafter(t, 1))]
        assert exposure == pytest.approx([case["below"], case["up_to"]], abs=tolerance)
        bound = exposure_bound_from_entropy(true_bits(p), t)
        assert bound == pytest.approx(min(case["entropy_bound"], 1), abs=tolerance)
        assert exposure[1] <= bound + tolerance


def test_entropy_is_the_integral_of_the_exposure() -> None:
    p = np.sort(law("four steps"))
    jumps = np.append(p, 1)
    exposure = np.append(np.cumsum(p), 1)[:-1]
    # Q is constant between its jumps, so each piece of Q(t)/t integrates to a logarithm.
    integral = float(exposure @ np.log2(jumps[1:] / jumps[:-1]))
    assert integral == pytest.approx(true_bits(p))


def test_the_extremal_law_reaches_the_bound_it_was_made_for() -> None:
    case = REFERENCE["proposition_13"]
    rare_bits = case["rare_entropy_nats"] / math.log(2)
    *rare, common = extremal_law(rare_bits, case["threshold"]).tolist()
    assert sum(rare) == pytest.approx(case["up_to"], abs=case["tolerance"])
    nats = true_bits(np.array([*rare, common])) * math.log(2)
    assert nats == pytest.approx(case["entropy_nats"], abs=case["tolerance"])
    most = (rare_bits + math.log2(math.e) / math.e) * math.log(2)
    assert most == pytest.approx(case["entropy_bound_nats"], abs=case["tolerance"])
    assert nats <= most
    assert sum(p for p in rare if p < case["threshold"]) == case["below"] == 0
    assert common > case["threshold"]
    assert exposure_bound_from_entropy(rare_bits, case["threshold"]) == pytest.approx(sum(rare))


def test_the_extremal_law_may_have_no_common_value() -> None:
    assert extremal_law(3, 1 / 8).tolist() == [1 / 8] * 8


@pytest.mark.parametrize("name", [name for name in ENTROPY_ESTIMATORS if name != "plug-in"])
def test_one_user_says_nothing_about_a_population(name: str) -> None:
    with pytest.raises(InputError, match="one user"):
        ENTROPY_ESTIMATORS[name](CountSpectrum.from_counts([1]))


def test_the_naive_reading_of_any_entropy_is_a_number() -> None:
    assert naive_group_size(2000.0, 10) == naive_group_size(np.float64(2000), 10) == 0
    assert naive_group_size(1030.0, 10) == pytest.approx(10 * 2.0**-1030)


def test_bad_arguments_are_named() -> None:
    spectrum, other = CountSpectrum.from_counts([3, 2]), CountSpectrum.from_counts([3, 3])
    for bits in (-1, math.nan, math.inf):
        with pytest.raises(InputError, match="entropy_bits"):
            naive_group_size(bits, 10)
    for order in (1, 6, 2.5):
        with pytest.raises(InputError, match="order"):
            unbiased_tsallis_entropy(spectrum, order)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="5 and 6 users"):
        conditional_entropy_bits(spectrum, other)
    with pytest.raises(InputError, match="fewer values"):
        conditional_entropy_bits(CountSpectrum.from_counts([5]), spectrum)
    with pytest.raises(InputError, match="positions"):
        chow_liu_upper_bits([spectrum], {(0, 1): spectrum})
    with pytest.raises(PolicyError, match="t:"):
        exposure_bound_from_entropy(3, 1)
    with pytest.raises(PolicyError, match="share"):
        misleading_factor(spectrum, share=0)
    for bits in (0.0, 9.0):
        with pytest.raises(InputError, match="rare_entropy_bits"):
            extremal_law(bits, 1 / 8)


def test_average_min_entropy_is_that_of_the_best_guess() -> None:
    cohorts = [CountSpectrum.from_counts(counts) for counts in ([4, 1, 1], [3, 3], [1])]
    assert average_min_entropy_bits(cohorts) == pytest.approx(-math.log2((4 + 3 + 1) / 13))
