"""Limits of the exposure follow from counts alone, hold at every look, and are sharp everywhere."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from fpmonitor.errors import InputError, PolicyError
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.looks import BASES
from fpmonitor.spectrum import CountSpectrum

DELTA = 0.05
RARE = 10**8  # a population in which no two users share what few have
EXTREME = [
    (2, 10**6, 10**10),
    (22, 2, 100),
    (10**8, 2, 10**10),
    (10**7, 10**5, 10**8),
    (10**8, 2, 2),
    (25, 500, 1_000),
]


def apart(users: int, rare: int) -> CountSpectrum:
    """Users of whom `rare` have values of their own, and all others share one."""
    if users - rare == 1:
        rare = users
    return CountSpectrum.from_mapping({c: n for c, n in ((1, rare), (users - rare, 1)) if c and n})


@given(
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=40),
    delta=st.sampled_from([1e-9, 0.05]),
)
@settings(deadline=None, max_examples=40)
def test_limits_are_shares_in_order_and_widen_with_smaller_delta(
    counts: list[int], delta: float
) -> None:
    spectrum = CountSpectrum.from_counts([*counts, 2_500 - sum(counts)])
    question = {"users": 2_500, "k": 5, "population": 2_500}
    lower, upper = exposure_limits(**question, delta=delta).of(spectrum)
    widest = exposure_limits(**question, delta=1e-9).of(spectrum)
    assert 0 <= lower <= upper <= 1
    assert widest[1] >= upper - 0.05  # other weights: not exactly nested
    assert widest[0] <= lower + 0.05


@pytest.mark.parametrize(("users", "k", "population"), EXTREME)
def test_extreme_sizes_give_limits_that_are_numbers(users: int, k: int, population: int) -> None:
    limits = exposure_limits(users=users, k=k, population=population, delta=0.01)
    for rare in (0, 1, users // 2, users):
        lower, upper = limits.of(apart(users, rare))
        assert 0 <= lower <= upper <= 1


@pytest.mark.parametrize("users", [2, 22])
def test_too_few_users_prove_nothing(users: int) -> None:
    limits = exposure_limits(users=users, k=2, population=100, delta=0.3)
    assert limits.of(CountSpectrum.from_counts([users])) == (0, 1)


def test_users_that_are_all_alike_are_safe_and_all_different_are_exposed() -> None:
    limits = exposure_limits(users=100_000, k=10, population=1_000_000, delta=DELTA)
    assert limits.of(apart(100_000, 0))[1] < 0.001
    assert limits.of(apart(100_000, 100_000))[0] > 0.9


@pytest.mark.parametrize(
    ("users", "k", "population", "widths"),
    [
        (2_000, 10, 2_000, (5.0, 1.2, 0.4)),
        (100_000, 10, 100_000, (0.45, 0.13, 0.06)),
        (1_000_000, 50, 1_000_000, (0.13, 0.05, 0.02)),
        (100_000, 50, 1_000_000, (0.45, 0.15, 0.08)),
    ],
)
def test_limits_are_sharp_for_small_and_for_large_exposures(
    users: int, k: int, population: int, widths: tuple[float, ...]
) -> None:
    limits = exposure_limits(users=users, k=k, population=population, delta=DELTA)
    for exposure, width in zip((0.005, 0.05, 0.3), widths, strict=True):
        lower, upper = limits.of(apart(users, round(exposure * users)))
        assert lower <= exposure <= upper
        assert upper - lower < width * exposure


def test_limits_depend_on_nothing_but_the_group_sizes() -> None:
    sizes = np.random.default_rng(3).geometric(0.05, 800)
    users = int(sizes.sum())
    first = exposure_limits(users=users, k=10, population=users, delta=DELTA)
    again = exposure_limits(users=users, k=10, population=users, delta=DELTA + 4.3e-11)
    known = first.of(CountSpectrum.from_counts(sizes))
    assert known == first.of(CountSpectrum.from_counts(sizes[::-1]))
    assert again.of(CountSpectrum.from_counts(sizes)) == pytest.approx(known, abs=1e-6)


def test_looking_until_it_pleases_does_not_help() -> None:
    rng, runs, exposure = np.random.default_rng(6), 300, 0.3
    rare, before = np.zeros(runs, dtype=int), 0
    missed = np.zeros((3, runs), dtype=np.bool_)
    for users in np.unique(np.geomspace(100, 30_000, 30).astype(int)).tolist():
        rare += rng.binomial(users - before, exposure, runs)
        before = users
        limits = exposure_limits(users=users, k=10, population=RARE, delta=DELTA)
        found = {count: limits.of(apart(users, count)) for count in np.unique(rare).tolist()}
        lower, upper = np.array([found[count] for count in rare.tolist()]).T
        exact_for_one_look = special.betaincinv(rare + 1, users - rare, 1 - DELTA)
        missed |= np.array([lower > exposure, upper < exposure, exact_for_one_look < exposure])
    assert missed[:2].mean(axis=1).max() < 0.02
    assert missed[2].mean() > 3 * DELTA


def test_the_lowest_limit_of_all_pairs_of_1000_apis_holds_where_limits_hold_together() -> None:
    rng, users, exposure = np.random.default_rng(5), 2_000, 0.05
    pairs = math.comb(1000, 2)
    chances = -np.expm1(np.log1p(-rng.random(2_000)) / pairs)
    lowest = stats.binom.ppf(chances, users, exposure).astype(int)
    question = {"users": users, "k": 10, "population": RARE, "delta": DELTA}
    missed = []
    for limits in (exposure_limits(**question), exposure_limits(**question, universe=1000)):
        found = {
            count: limits.of(apart(users, count), 2)[1] for count in np.unique(lowest).tolist()
        }
        missed.append(np.mean([found[count] < exposure for count in lowest.tolist()]))
    assert missed[0] > DELTA
    assert missed[1] < 0.01


@pytest.mark.parametrize("universe", [1, 5, 1000])
def test_levels_of_all_sets_add_up_to_the_level_of_one(universe: int) -> None:
    shares = [1 / (size * (size + 1)) for size in range(1, universe + 1)]
    limits = exposure_limits(users=500, k=5, population=500, delta=DELTA, universe=universe)
    one = exposure_limits(users=500, k=5, population=500, delta=DELTA)
    assert sum(shares) < 1
    assert one.bases == BASES
    spectrum = apart(500, 40)
    assert limits.of(spectrum, 1)[1] >= one.of(spectrum)[1]
    if universe > 2:
        assert limits.of(spectrum, 3)[1] > limits.of(spectrum, 1)[1]


@pytest.mark.parametrize("population", [300, 300_000])
def test_what_is_not_told_is_within_the_limits(population: int) -> None:
    """Fewer than k users in small groups, however they are grouped, beside what is told."""
    k, largest, others = 6, 120, [40, 40, 100]
    limits = exposure_limits(users=300, k=k, population=population, delta=DELTA)
    told = limits.of(CountSpectrum.from_counts([largest, *others]), hidden=k)
    plain = []
    for hidden in range(k):
        for cut in itertools.product((False, True), repeat=max(hidden - 1, 0)):
            groups = np.diff([0, *(np.flatnonzero(cut) + 1), hidden]) if hidden else []
            spectrum = CountSpectrum.from_counts([largest - hidden, *others, *groups])
            plain.append(limits.of(spectrum))
    lowers, uppers = np.array(plain).T
    assert told[0] <= lowers.min()
    assert uppers.max() <= told[1]
    assert told[1] < uppers.max() + 0.02
    assert limits.of(CountSpectrum.from_counts([300]), hidden=301) == (0, 1)


@pytest.mark.parametrize("population", [10_000, 10_000_000])
def test_growing_limits_do_not_fall_where_groups_are_split(population: int) -> None:
    rng = np.random.default_rng(8)
    limits = exposure_limits(users=4_000, k=10, population=population, delta=DELTA, growing=True)
    for _ in range(40):
        sizes = rng.multinomial(4_000, rng.dirichlet(np.full(60, 0.1)))
        sizes = sizes[sizes > 0]
        at = int(np.argmax(sizes))
        part = int(rng.integers(1, sizes[at]))
        split = np.append(sizes, part)
        split[at] -= part
        before, after = (limits.of(CountSpectrum.from_counts(s))[1] for s in (sizes, split))
        assert after >= before - 1e-12


def test_limits_enclose_the_truth_for_values_at_the_threshold() -> None:
    """The laws at which a count tells least of the exposure."""
    rng = np.random.default_rng(9)
    users, k = 5_000, 10
    for population in (1_000, 5_000, 100_000):
        limits = exposure_limits(users=users, k=k, population=population, delta=DELTA)
        for at in (0.5, 1.0, 2.0):
            law = np.full(round(0.3 / (at * k / population)), at * k / population)
            law = np.append(law, 1 - law.sum())
            truth = float(law @ exposure_probability(law, k=k, population=population))
            for _ in range(20):
                counts = rng.multinomial(users, law)
                lower, upper = limits.of(CountSpectrum.from_counts(counts))
                assert lower <= truth <= upper


@pytest.mark.long
def test_a_population_far_below_the_users_is_limited_as_sharply_as_any() -> None:
    """A million users tell of 2,000 what 3 % of them are exposed to, whatever their values are."""
    users, k, population = 1_000_000, 50, 2_000
    limits = exposure_limits(users=users, k=k, population=population, delta=DELTA)
    for group in (0.3, 0.9, 1.1):
        p = group * k / population
        exposed = float(exposure_probability(np.array([p]), k=k, population=population)[0])
        values = round(0.03 / exposed / p)
        counts = np.full(values, round(users * p))
        spectrum = CountSpectrum.from_counts(np.append(counts, users - counts.sum()))
        lower, upper = limits.of(spectrum)
        truth = values * p * exposed
        assert 0.8 * truth < lower < truth < upper < 1.35 * truth, group


def test_a_spectrum_of_other_users_is_refused() -> None:
    limits = exposure_limits(users=50, k=5, population=50, delta=DELTA)
    with pytest.raises(InputError, match="users"):
        limits.of(CountSpectrum.from_counts([49]))


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("users", 1),
        ("users", 2.5),
        ("k", 1),
        ("population", 4),
        ("delta", 0.0),
        ("delta", math.nan),
    ],
)
def test_bad_arguments_are_named(argument: str, value: float) -> None:
    question = {"users": 100, "k": 5, "population": 100, "delta": 0.05}
    with pytest.raises(PolicyError) as caught:
        exposure_limits(**{**question, argument: value})  # type: ignore[arg-type]
    assert caught.value.argument == argument


@pytest.mark.long
@pytest.mark.parametrize(
    ("population", "at_least", "at_most"), [(1_000_000, 0.0195, 0.037), (14_192, 0.0205, 0.037)]
)
def test_a_few_tiers_are_told_apart_where_k_is_a_tenth_of_the_population(
    population: int, at_least: float, at_most: float
) -> None:
    tiers = CountSpectrum.from_counts(np.array([394, 2751, 8570, 2477]))
    limits = exposure_limits(
        users=14_192, k=math.ceil(population / 10), population=population, delta=0.05
    )
    lower, upper = limits.of(tiers)
    assert at_least <= lower <= 394 / 14_192 <= upper <= at_most
