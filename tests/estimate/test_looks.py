"""What is certified holds at every look and for every choice, and follows from spectra alone."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from fpmonitor.errors import PolicyError
from fpmonitor.estimate.averaging import Base, averaged, clock
from fpmonitor.estimate.criterion import Score
from fpmonitor.estimate.exposure import biased_exposure, exposure_probability
from fpmonitor.estimate.looks import (
    Criteria,
    base_of,
    decision_criteria,
    level_terms,
)
from fpmonitor.estimate.margins import Cells
from fpmonitor.estimate.poisson import ExposureFunction, poisson_laws, useful_mean
from fpmonitor.estimate.programme import best_line, envelope, least_level
from fpmonitor.policy import universe_of
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.estimate.exposure import Sign

DELTA = 0.05
RARE = 10**8  # a population in which no two users share what few have


def small_base(h: list[float], sign: Sign, mean: float) -> Base:
    """Base of any weights; its bound is not asked for."""
    return Base(
        sign=sign,
        monotone=True,
        k=2,
        population=10,
        budget=0.1,
        mean=mean,
        starts=np.arange(1, len(h) + 2),
        weights=np.array(h),
        exposures=np.array([0.0, 1.0]),
        bounds=np.array([0.0, 0.0]),
        slope=0.0,
        intercept=0.0,
    )


def average_over_subsets(counts: list[int], exponents: NDArray[np.float64], mean: float) -> float:
    """`R_m` by the polynomial whose coefficients add up all subsets of each size."""
    polynomial = np.array([1.0])
    for count in counts:
        kept = np.arange(count + 1)
        terms = special.comb(count, kept) * np.exp(exponents[np.minimum(kept, exponents.size - 1)])
        polynomial = np.convolve(polynomial, terms)
    users = sum(counts)
    sizes = np.arange(users + 1)
    return float(stats.poisson.pmf(sizes, mean) @ (polynomial / special.comb(users, sizes)))


def one_user_less(counts: list[int]) -> list[tuple[float, list[int]]]:
    return [
        (count / sum(counts), [c - (i == place) for i, c in enumerate(counts) if c > (i == place)])
        for place, count in enumerate(counts)
    ]


def random_case(rng: np.random.Generator) -> tuple[Sign, list[float], list[int], float]:
    sign: Sign = -1 if rng.random() < 0.5 else 1
    h = np.sort(rng.random(rng.integers(2, 6)))[::-1] * rng.choice([0.1, 1.0, 3.0])
    counts = rng.integers(1, 7, rng.integers(2, 7)).tolist()
    return sign, h.tolist(), counts, float(rng.uniform(0.1, 0.95) * sum(counts))


def test_the_average_never_grows_in_the_mean_when_a_user_is_taken_away() -> None:
    rng = np.random.default_rng(1)
    without_smoothing = 0
    for _ in range(400):
        sign, h, counts, mean = random_case(rng)
        exponents = sign * small_base(h, sign, mean).phi()
        now = average_over_subsets(counts, exponents, mean)
        before = sum(
            share * average_over_subsets(less, exponents, mean)
            for share, less in one_user_less(counts)
        )
        assert before <= now * (1 + 1e-12)

        def plain(sizes: list[int], by_count: NDArray[np.float64] = exponents) -> float:
            return math.exp(sum(by_count[min(size, by_count.size - 1)] for size in sizes))

        expected = sum(share * plain(less) for share, less in one_user_less(counts))
        without_smoothing += expected > plain(counts) * (1 + 1e-12)
    assert without_smoothing > 100  # what the average is needed for


def test_the_sum_over_values_is_on_the_safe_side_of_the_average() -> None:
    rng = np.random.default_rng(2)
    for _ in range(400):
        sign, h, counts, mean = random_case(rng)
        if mean < 1:
            continue
        base = small_base(h, sign, mean)
        certified = averaged(base, users=sum(counts))
        points = Score(certified.weights)(CountSpectrum.from_counts(counts))
        bound = certified.clock.log_factor + sign * certified.scale * points - certified.charge
        exact = math.log(average_over_subsets(counts, sign * base.phi(), mean))
        assert bound <= exact
        assert bound > exact - 1 - abs(exact)


@pytest.mark.parametrize(
    ("users", "mean"), [(30, 20.0), (500, 300.5), (5_000, 4_400.0), (5_000, 30.0), (90_000, 8e4)]
)
def test_no_thinning_of_the_clock_is_more_likely_than_the_poisson_number(
    users: int, mean: float
) -> None:
    thinnings = clock(users, mean)
    kept = np.arange(users + 1)
    mixture = stats.binom.pmf(kept[:, np.newaxis], users, thinnings.shares) @ thinnings.weights
    poisson = stats.poisson.pmf(kept, mean)
    assert thinnings.weights.sum() == pytest.approx(1, abs=1e-12)
    assert np.all(mixture * math.exp(thinnings.log_factor) <= poisson * (1 + 1e-8) + 1e-300)
    assert np.any(mixture > poisson * (1 + 1e-8) + 1e-300)  # what the factor is needed for
    assert thinnings.log_factor > -0.1


def moments_between(
    cells: Cells, weights: NDArray[np.float64], sign: Sign, means: NDArray[np.float64]
) -> NDArray[np.float64]:
    """`ln E f(C) / lambda` by summing over every count."""
    starts = cells.laws.starts
    counts = np.arange(1, starts[-1])
    exponents = sign * counts * np.repeat(weights, np.diff(starts))
    chances = stats.poisson.pmf(counts, means[:, np.newaxis])
    excess = chances @ np.expm1(exponents)
    others = np.exp(-means) + stats.poisson.sf(starts[-1] - 1, means)
    logarithms = np.where(
        excess > -0.5,
        np.log1p(np.maximum(excess, -0.5)),
        np.log(others + chances @ np.exp(exponents)),
    )
    return logarithms / means


@pytest.mark.long
def test_bounds_of_any_weights_hold_between_the_grid_points_and_need_their_margins() -> None:
    rng = np.random.default_rng(3)
    exceeded = 0
    for case in range(25):
        mean, k = 10 ** rng.uniform(1, 5), int(rng.choice([2, 5, 50]))
        population = k + int(10 ** rng.uniform(1, 7))
        budget = float(rng.choice([1e-3, 0.05, 0.5]))
        mean = useful_mean(mean, ExposureFunction(k, population), budget, largest_count=2_000)
        factors = ((1.0, 1.0), (0.9, 0.9), (0.8, 1.2), (0.25, 4.0))[case % 4]
        laws = poisson_laws(mean, ExposureFunction(k, population, factors), budget)
        size = laws.starts.size - 1
        shapes = [
            np.sort(rng.random(size))[::-1],
            rng.normal(size=size),
            (-1.0) ** np.arange(size) * rng.random(size),
        ]
        sign: Sign = -1 if rng.random() < 0.5 else 1
        weights = shapes[rng.integers(3)]
        weights *= 10 ** rng.uniform(-2, 0.5) / np.abs(weights * laws.starts[1:]).max() * 10
        cells = Cells.of(laws)
        cell = rng.integers(1, laws.means.size - 1, 60)
        inside = laws.means[cell] + np.diff(laws.means)[cell] * rng.random(60)
        exact = moments_between(cells, weights, sign, inside)
        exposure = biased_exposure(
            np.minimum(inside / mean, 1), k=k, population=population, factors=factors, sign=sign
        )
        slack = []
        for corrected, bounds in (
            (cells.exposure[sign], cells.bounds(weights, sign)),
            (
                laws.exposure[sign],
                np.append(0, moments_between(cells, weights, sign, laws.means[1:])),
            ),
        ):
            # lines through pairs of corners, raised above all of them
            slopes = sign * np.abs(np.append(0, np.diff(bounds[::40]) / 0.01))
            lines = [(slope, float((bounds - slope * corrected).max())) for slope in slopes]
            slack.append(min(float((slope * exposure + top - exact).min()) for slope, top in lines))
        assert slack[0] >= -1e-12 * np.abs(exact).max()
        exceeded += slack[1] < -1e-12 * np.abs(exact).max()
    assert exceeded > 3


def criteria_of(users: int = 20_000, population: int = 20_000, universe: int = 1000) -> Criteria:
    return decision_criteria(
        users=users, k=10, population=population, budget=0.05, delta=DELTA, universe=universe
    )


@given(
    counts=st.lists(st.integers(1, 300), min_size=1, max_size=30),
    place=st.integers(0, 29),
    part=st.floats(0.01, 0.99),
    population=st.sampled_from([20_000, 10**6]),
)
@settings(deadline=None, max_examples=60)
def test_splitting_a_group_never_lowers_the_score(
    counts: list[int], place: int, part: float, population: int
) -> None:
    criteria = criteria_of(population=population)
    whole = counts[place % len(counts)]
    taken = max(1, min(whole - 1, round(whole * part)))
    split = [*counts, taken] if whole > 1 else counts
    if whole > 1:
        split[place % len(counts)] = whole - taken
    for criterion in (criteria.allow, criteria.block):
        assert criterion.score(CountSpectrum.from_counts(split)) >= criterion.score(
            CountSpectrum.from_counts(counts)
        )


def test_nothing_is_random_and_nobody_gains_by_asking_a_little_otherwise() -> None:
    first, other = (
        decision_criteria(users=30_000, k=10, population=30_000, budget=0.05, delta=delta)
        for delta in (0.05, 0.05 + 4.3e-11)
    )
    for name in ("allow", "block"):
        one, two = getattr(first, name), getattr(other, name)
        assert np.allclose(one.limits, two.limits, rtol=1e-5)
        assert np.allclose(one.score.weights, two.score.weights, atol=1e-5)
        assert np.allclose(one.score.offsets, two.score.offsets, rtol=1e-5)


def test_the_base_follows_from_the_number_of_users_alone_and_keeps_fewer() -> None:
    numbers = np.unique(np.geomspace(2, 10**9, 2_000).astype(int)).tolist()
    positions = [base_of(users) for users in numbers]
    known = [position for position in positions if position is not None]
    assert positions == [None] * (len(positions) - len(known)) + sorted(known)
    assert sum(Fraction(1, serving.bases) for serving in set(known)) <= 1  # none has more than all
    for users in (23, 100, 5_000, 10**6):
        allowing = decision_criteria(
            users=users, k=3, population=10**6, budget=0.2, delta=DELTA
        ).allowing
        assert allowing is not None
        assert all(one.base.mean <= 0.9 * users + 1e-9 for one in allowing.scores)


def test_limits_do_not_increase_with_the_size_and_leave_room_between() -> None:
    criteria = criteria_of()
    assert criteria.allow.limits.size == criteria.block.limits.size == 1001
    assert np.all(criteria.allow.limits[1:] <= criteria.allow.limits[:-1])
    sparse = CountSpectrum.from_mapping({1: 2_000, 400: 45})  # exposure near 10 %
    dense = CountSpectrum.from_mapping({1: 400, 400: 49})  # exposure near 2 %
    for size in (1, 2, 3):
        assert criteria.allow.holds(dense, size)
        assert criteria.block.holds(dense, size)
        assert not criteria.allow.holds(sparse, size)
        assert not criteria.block.holds(sparse, size)
        assert criteria.refute.refutes(sparse, size)
        assert not criteria.refute.refutes(dense, size)
    assert criteria.block.holds(sparse, 4)  # the search looks for small sets
    assert np.all(np.diff(criteria.refute.limits[1:500]) >= 0)


def test_free_weights_block_where_the_population_is_much_larger() -> None:
    criteria = criteria_of(users=100_000, population=10**6)
    assert not criteria.refute.monotone
    sparse = CountSpectrum.from_mapping({1: 8_000, 9_200: 10})  # exposure near 8 %
    dense = CountSpectrum.from_mapping({1: 4_000, 9_600: 10})
    assert criteria.refute.refutes(sparse, 1)
    assert not criteria.refute.refutes(dense, 1)
    assert criteria.block.holds(sparse, 1)


@given(
    universe=st.integers(1, 6),
    picks=st.lists(st.integers(0, 2**6 - 1), max_size=12),
)
@settings(deadline=None, max_examples=100)
def test_levels_of_the_sets_that_may_err_add_up_to_delta(universe: int, picks: list[int]) -> None:
    chosen = {pick % 2**universe for pick in picks}
    minimal = [j for j in chosen if not any(i != j and i & j == i for i in chosen)]
    allow, block = (np.exp(-terms) for terms in level_terms(DELTA, universe))
    assert sum(allow[j.bit_count()] for j in minimal) <= DELTA * (1 + 1e-9)
    every = sum(block[j.bit_count()] for j in range(1, 2**universe))
    assert every <= DELTA * (1 + 1e-9)


def test_levels_of_allowing_would_not_do_for_blocking() -> None:
    """If all sets of six APIs are within the budget, and each test errs by itself at its level."""
    wrong = [
        1 - math.prod((1 - math.exp(-terms[s])) ** math.comb(6, s) for s in range(1, 7))
        for terms in level_terms(DELTA, 6)
    ]
    assert wrong[0] > 3 * DELTA
    assert wrong[1] <= DELTA


@pytest.mark.parametrize("users", [2, 22])
def test_too_few_users_prove_nothing(users: int) -> None:
    criteria = decision_criteria(users=users, k=2, population=100, budget=0.5, delta=0.3)
    alike = CountSpectrum.from_counts([users])
    assert criteria.allow.holds(alike, 0)
    assert not criteria.allow.holds(alike, 1)
    assert criteria.block.holds(CountSpectrum.from_mapping({1: users}), 1)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("users", 1), ("k", 1), ("population", 4), ("delta", 1.0), ("budget", 0.0), ("universe", 0)],
)
def test_bad_arguments_are_named(argument: str, value: float) -> None:
    question = {"users": 100, "k": 5, "population": 100, "budget": 0.1, "delta": 0.05}
    with pytest.raises(PolicyError) as caught:
        decision_criteria(**{**question, argument: value})  # type: ignore[arg-type]
    assert caught.value.argument == argument


@pytest.mark.parametrize(("apis", "universe"), [(1, 1000), (1000, 1000), (1001, 10_000)])
def test_the_apis_that_may_be_chosen_hardly_depend_on_a_collection(
    apis: int, universe: int
) -> None:
    assert universe_of(apis) == universe


@pytest.mark.parametrize(
    ("users", "k", "population", "budget"),
    [
        (30, 10**6, 10**10, 0.001),
        (10**8, 2, 10**10, 1e-6),
        (10**8, 2, 2, 0.01),
        (25, 500, 1_000, 0.3),
        (23, 2, 10**10, 0.999),
        (5 * 10**8, 10, 10**9, 0.001),
    ],
)
def test_extreme_sizes_give_tests_that_agree(
    users: int, k: int, population: int, budget: float
) -> None:
    question = {"users": users, "k": k, "population": population}
    for delta, universe in ((0.3, 1), (1e-9, 1000)):
        criteria = decision_criteria(**question, budget=budget, delta=delta, universe=universe)
        for values in ({users: 1}, {1: users}):
            spectrum = CountSpectrum.from_mapping(values)
            within = criteria.allow.holds(spectrum, 1)
            assert not (within and criteria.refute.refutes(spectrum, 1))


def decided_share(score: Score, limit: float, users: int, k: int, population: int) -> float:
    """Exposure at which mean scores reach a limit, for log-uniform values between 1e-9 and 1."""
    p = np.geomspace(1e-9, 1, 1001)
    exposure = exposure_probability(p, k=k, population=population).mean()
    sums = np.array([users * mean_weight(one, users * p) for one in score.weights])
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        passes = score.of_sums(middle * sums) <= limit
        low, high = (middle, high) if passes else (low, middle)
    return float(low * exposure)


def mean_weight(weights: NDArray[np.float64], means: NDArray[np.float64]) -> float:
    """Mean weight of a user, whose value has one of the mean counts."""
    changes = np.flatnonzero(np.diff(weights)) + 1
    below = special.pdtr(np.maximum(changes - 2, 0), means[:, np.newaxis])
    at = np.where(changes > 1, below, 0) @ -np.diff(weights)[changes - 1]
    return float(at.mean() + weights[-1])


@pytest.mark.parametrize(
    ("size", "universe", "least"),
    [
        ((10**4, 10**4, 10), 1, (0.825,)),
        ((10**5, 10**5, 10), 1, (0.934,)),
        ((10**5, 10**6, 50), 1, (0.886,)),
        ((10**4, 10**4, 10), 1000, (0.75, 0.687, 0.633)),
        ((10**5, 10**5, 10), 1000, (0.914, 0.892, 0.872)),
        ((10**6, 10**6, 10), 1000, (0.968, 0.961, 0.955)),
        ((10**5, 10**6, 50), 1000, (0.867, 0.846, 0.828)),
        ((10**5, 10**4, 1000), 1000, (0.85, 0.82, 0.8)),  # moments of e^-50
    ],
)
def test_the_documented_share_of_the_budget_is_certified_at_every_look(
    size: tuple[int, int, int], universe: int, least: tuple[float, ...]
) -> None:
    users, population, k = size
    criteria = decision_criteria(
        users=users, k=k, population=population, budget=0.05, delta=DELTA, universe=universe
    )
    limits = criteria.allow.limits[1:6:2][: len(least)].tolist()
    shares = [
        decided_share(criteria.allow.score, limit, users, k, population) / 0.05 for limit in limits
    ]
    assert all(share >= bound for share, bound in zip(shares, least, strict=True)), shares


def evidence(test: Score, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Evidence of samples, by rows of the counts of their values, nats."""
    weights = test.weights.take(counts, axis=1, mode="clip")
    found = test.of_sums(np.einsum("isv,sv->si", weights, counts.astype(float)))
    return test.least - found if test.falls else test.least + found


def few_alone(test: Score, users: int, rare: NDArray[np.int64]) -> NDArray[np.float64]:
    """Evidence of APIs by which `rare` users differ from all others, who are alike."""
    rest, weights = users - rare, test.weights
    sums = np.outer(rare, weights[:, 1]) + weights.take(rest, axis=1, mode="clip").T * rest[:, None]
    return test.least - test.of_sums(sums)


def test_the_best_looking_of_200_apis_is_not_wrongly_allowed() -> None:
    users, budget = 2_000, 0.05
    rare = np.random.default_rng(5).binomial(users, 1.002 * budget, (4_000, 200)).min(axis=1)
    chosen, fixed = (
        decision_criteria(
            users=users, k=10, population=RARE, budget=budget, delta=DELTA, universe=universe
        )
        for universe in (1000, 1)
    )
    assert np.mean(few_alone(fixed.allow.score, users, rare) >= -math.log(DELTA)) > DELTA
    needed = chosen.log_terms[0][1]
    assert np.mean(few_alone(chosen.allow.score, users, rare) >= needed) < 0.002


@pytest.mark.long
def test_looking_until_it_pleases_does_not_help() -> None:
    rng = np.random.default_rng(6)
    rare, before = np.zeros(4_000, dtype=int), 0
    ever, ever_one_look = np.zeros((2, rare.size), dtype=bool)
    for users in np.unique(np.geomspace(100, 10**6, 80).astype(int)).tolist():
        rare += rng.binomial(users - before, 0.050005, rare.size)
        before = users
        criteria = decision_criteria(
            users=users, k=10, population=RARE, budget=0.05, delta=DELTA, universe=1
        )
        found = few_alone(criteria.allow.score, users, rare)
        ever |= found >= criteria.log_terms[0][1]
        ever_one_look |= found >= -math.log(DELTA)
    assert ever_one_look.mean() > DELTA / 3
    assert ever.mean() < 0.01


@pytest.mark.parametrize("group", [0.01, 0.5, 1.0, 1.3])
def test_all_looks_of_one_base_together_err_by_its_level(group: float) -> None:
    """Users just above the budget, in values of a multiple of k/n; all others are alike."""
    rng = np.random.default_rng(7)
    k, population, budget = 10, 6_000, 0.05
    p = group * k / population
    exposed = float(exposure_probability(np.array([p]), k=k, population=population)[0])
    values = math.ceil(1.001 * budget / exposed / p)
    law = np.append(np.full(values, p), 1 - values * p)
    looks = np.geomspace(4_400, 6_400, 12).astype(int).tolist()
    assert len({base_of(users) for users in looks}) == 1
    counts, before = np.zeros((200, law.size), dtype=np.int64), 0
    ever = np.zeros(len(counts), dtype=bool)
    for users in looks:
        counts += rng.multinomial(users - before, law, size=len(counts))
        before = users
        test = decision_criteria(
            users=users, k=k, population=population, budget=budget, delta=DELTA, universe=1
        ).allow.score
        ever |= evidence(test, counts) >= -math.log(DELTA)
    assert ever.mean() <= DELTA


@pytest.mark.parametrize(
    ("size", "most"),
    [
        ((10**4, 10**4, 10), 1.38),
        ((10**5, 10**5, 10), 1.15),
        ((10**5, 10**6, 50), 1.17),
        ((90_000, 10**6, 10), 1.25),
        ((10**5, 10**7, 50), 1.42),  # 1082 % with monotone weights
    ],
)
def test_the_documented_share_of_the_budget_is_refuted(
    size: tuple[int, int, int], most: float
) -> None:
    users, population, k = size
    refute = decision_criteria(
        users=users, k=k, population=population, budget=0.05, delta=DELTA
    ).refute
    found = decided_share(refute.score, float(refute.limits[1]), users, k, population)
    assert 0.05 < found <= most * 0.05


def test_the_level_that_chooses_a_tilt_is_that_of_the_best_line() -> None:
    rng = np.random.default_rng(4)
    for points in (1, 2, 3, 40, 300):
        for sign in (-1, 1):
            x, y = np.round(rng.random(points), 2), rng.normal(size=points)
            for place in (-0.1, 0.025, 0.225, float(np.median(x)) + 0.005, 0.955, 1.1):
                slope, intercept = best_line(envelope(x, y, sign), x, y, sign, place)
                found = least_level(sign * x, y, sign * place)
                assert found == pytest.approx(slope * place + intercept, abs=1e-9)
