"""Composition: no bound below the truth on random joint laws, and each rule where it is best."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fpmonitor.errors import InputError, PolicyError
from fpmonitor.estimate.composition import (
    MarginalDistribution,
    best_composition,
    composition_bounds,
    composition_from_sample,
    sampled_tails,
    sharpened_composition,
    theorem2_composition,
    theorem3_composition,
    top_r_composition,
)
from fpmonitor.estimate.exposure import exposure_probability, most_exposed, statistical_exposure
from fpmonitor.spectrum import CountSpectrum
from tests.laws import REFERENCE, law

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.estimate.allocation import Pieces

ROUNDING = 1e-11
ADULT_RACE = [271, 311, 1039, 3124, 27816]
ADULT_SEX = [10771, 21790]
ADULT_WORKCLASS = [7, 14, 960, 1116, 1298, 1836, 2093, 2541, 22696]


def marginal(joint: np.ndarray, apis: tuple[int, ...]) -> np.ndarray:
    others = tuple(axis for axis in range(joint.ndim) if axis not in apis)
    return joint.sum(axis=others).ravel()


def of_probabilities(probabilities: Sequence[float] | np.ndarray) -> MarginalDistribution:
    shares = np.asarray(probabilities)
    distinct, values = np.unique(shares[shares > 0], return_counts=True)
    return MarginalDistribution(probabilities=distinct, values=values)


def single_laws(joint: np.ndarray) -> list[MarginalDistribution]:
    return [of_probabilities(marginal(joint, (api,))) for api in range(joint.ndim)]


def pair_laws(joint: np.ndarray) -> dict[tuple[int, int], MarginalDistribution]:
    return {
        pair: of_probabilities(marginal(joint, pair))
        for pair in itertools.combinations(range(joint.ndim), 2)
    }


def at(pieces: Pieces, t: float) -> float:
    """Value of a function of a threshold; everybody is exposed above its last piece."""
    piece = int(np.searchsorted(pieces.highest, math.log(t)))
    if piece == pieces.highest.size:
        return 1.0 if pieces.growth == "odds" else 1 + float(pieces.weight[0]) * t
    weight = pieces.weight[piece]
    growth = t / (1 - t) if pieces.growth == "odds" and weight else t
    return float(pieces.offset[piece] + weight * growth)


def random_joint(rng: np.random.Generator, most_apis: int = 3) -> np.ndarray:
    shape = rng.integers(1, 6, rng.integers(1, most_apis + 1))
    return rng.dirichlet(np.full(shape.prod(), rng.choice([0.05, 0.3, 1, 5]))).reshape(shape)


def random_threshold(rng: np.random.Generator, joint: np.ndarray) -> float:
    """Just above some joint probability, where the exposure has just jumped."""
    return min(float(rng.choice(joint[joint > 0])) * (1 + 1e-9), 0.999)


def test_slack_of_one_api_matches_the_reference() -> None:
    for case in REFERENCE["composition_slack"]:
        one = of_probabilities(law(case["law"]))
        t, tolerance = case["t"], case["tolerance"]
        assert at(one.pieces(), t) == pytest.approx(case["exposure"], abs=tolerance)
        theorem2 = at(one.pieces(weight=one.support), t)
        assert theorem2 == pytest.approx(case["theorem_2"], abs=tolerance)
        sharpened = at(one.sharpened_pieces(), t)
        assert sharpened == pytest.approx(case["sharpened"], abs=tolerance)
        p = law(case["law"])
        direct = np.minimum(p, case["t"] * (1 - p) / (1 - case["t"])).sum()
        assert sharpened == pytest.approx(direct, abs=1e-12)


def test_one_value_of_probability_t_carries_exactly_t() -> None:
    case = REFERENCE["lemma_11"]
    one = of_probabilities([case["p"], 1 - case["p"]])
    rest = case["q"] * case["p"] / (1 - case["q"])
    assert at(one.sharpened_pieces(), case["q"]) - rest == pytest.approx(
        case["bound"], abs=case["tolerance"]
    )


def test_sharpened_slack_never_falls_below_the_joint_exposure() -> None:
    rng = np.random.default_rng(1)
    worst = -1.0
    for _ in range(5000):
        joint = rng.dirichlet(np.full(9, rng.choice([0.1, 0.5, 2]))).reshape(3, 3)
        first, second = single_laws(joint)
        t = random_threshold(rng, joint)
        split = t ** rng.uniform(0, 1)
        exposed = joint[joint < t * (1 - 1e-12)].sum()
        bound = at(first.pieces(), split) + at(second.sharpened_pieces(), t / split)
        worst = max(worst, exposed - bound)
    case = REFERENCE["composition_violation"]
    assert worst <= case["value"] + case["tolerance"]
    assert worst > -1e-3


@pytest.mark.parametrize("laws", [20, pytest.param(60, marks=pytest.mark.long)])
def test_no_rule_falls_below_the_truth_and_none_contradicts_the_order(laws: int) -> None:
    rng = np.random.default_rng(2)
    for _ in range(laws):
        joint = random_joint(rng)
        threshold = random_threshold(rng, joint)
        bounds = composition_bounds(single_laws(joint), threshold=threshold, pairs=pair_laws(joint))
        upper = {bound.rule: bound.upper for bound in bounds}
        truth = joint[joint < threshold].sum()
        assert min(upper.values()) >= truth - ROUNDING, (joint, threshold, upper)
        assert upper["sharpened theorem 2"] <= upper["theorem 2"] + ROUNDING
        assert upper["top-r"] <= upper["theorem 3"] + ROUNDING
        if joint.ndim > 1:
            assert upper["top-r"] <= upper["theorem 2"] + ROUNDING


@pytest.mark.long
def test_top_r_stays_above_the_truth_on_hundreds_of_joint_laws() -> None:
    rng = np.random.default_rng(3)
    closest = 1.0
    for _ in range(500):
        joint = random_joint(rng, most_apis=4)
        threshold = random_threshold(rng, joint)
        upper = top_r_composition(single_laws(joint), threshold=threshold).upper
        truth = joint[joint < threshold].sum()
        assert upper >= truth - ROUNDING
        closest = min(closest, upper - truth)
    assert closest < 0.01


def test_the_best_bound_is_the_smallest_and_names_its_rule() -> None:
    laws = single_laws(random_joint(np.random.default_rng(4)))
    bounds = composition_bounds(laws, threshold=0.01)
    best = best_composition(laws, threshold=0.01)
    assert best in bounds
    assert best.upper == min(bound.upper for bound in bounds)


@pytest.mark.parametrize("rule", [theorem2_composition, sharpened_composition])
def test_thresholds_multiply_to_the_asked_one_and_give_the_bound(rule: Any) -> None:
    laws = [of_probabilities(law(name)) for name in ("four steps", "skew")]
    bound = rule(laws, threshold=0.01)
    t = bound.parameters["t"]
    assert math.prod(t) == pytest.approx(0.01, rel=1e-9)
    assert math.prod(t) >= 0.01
    slack = [
        at(
            one.sharpened_pieces()
            if rule is sharpened_composition
            else one.pieces(weight=one.support),
            x,
        )
        for one, x in zip(laws, t, strict=True)
    ]
    spared = [at(one.pieces(), x) for one, x in zip(laws, t, strict=True)]
    assert bound.upper == pytest.approx(min(spared[0] + slack[1], slack[0] + spared[1]))


def slack_at(rule: Any, p: np.ndarray, t: float) -> float:
    """What one API adds to a bound, from its definition."""
    if rule is sharpened_composition:
        return float(np.minimum(p, t * (1 - p) / (1 - t)).sum()) if t < 1 else 1.0
    return float(p[p < t].sum() + t * p.size)


@pytest.mark.parametrize("rule", [theorem2_composition, sharpened_composition])
def test_two_apis_reach_the_least_of_all_thresholds(rule: Any) -> None:
    """The spared API exposes least for its slack at one of its own probabilities."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        laws = [rng.dirichlet(np.full(size, 0.4)) for size in rng.integers(1, 7, 2)]
        threshold = float(10 ** rng.uniform(-4, -0.5))
        least = min(
            spared[spared < t].sum() + slack_at(rule, other, threshold / t)
            for spared, other in (laws, laws[::-1])
            for t in [*spared[spared >= threshold], 1.0]
        )
        got = rule([*map(of_probabilities, laws)], threshold=threshold)
        assert got.upper == pytest.approx(min(least, 1), abs=2e-12)


def test_three_apis_are_never_above_a_fine_grid_of_thresholds() -> None:
    rng = np.random.default_rng(15)
    for _ in range(20):
        laws = [rng.dirichlet(np.full(size, 0.4)) for size in rng.integers(2, 6, 3)]
        threshold = float(10 ** rng.uniform(-6, -2))
        grid = threshold ** np.linspace(0, 1, 41)
        for rule in (theorem2_composition, sharpened_composition):
            slack = [[slack_at(rule, law, t) for t in grid] for law in laws[1:]]
            least = min(
                laws[0][laws[0] < grid[40 - i - j] * (1 - 1e-9)].sum() + slack[0][i] + slack[1][j]
                for i in range(41)
                for j in range(41 - i)
            )
            got = rule([*map(of_probabilities, laws)], threshold=threshold)
            assert got.upper <= least + 1e-12


def test_theorem_3_and_top_r_are_the_least_of_all_choices() -> None:
    rng = np.random.default_rng(6)
    for _ in range(60):
        laws = [rng.dirichlet(np.full(size, 0.3)) for size in (3, 4, 5)]
        threshold = float(10 ** rng.uniform(-4, -0.5))
        spectra = [of_probabilities(law) for law in laws]
        thresholds = [t for t in itertools.product(*laws) if math.prod(t) >= threshold]
        theorem_3 = min(
            (
                sum(law[law < t].sum() for law, t in zip(laws, chosen, strict=True))
                + threshold / math.prod(chosen)
                for chosen in thresholds
            ),
            default=1.0,
        )
        got = theorem3_composition(spectra, threshold=threshold).upper
        assert got == pytest.approx(min(theorem_3, 1), abs=2e-12)
        kept = min(
            sum(np.sort(law)[::-1][r:].sum() for law, r in zip(laws, sizes, strict=True))
            + threshold * math.prod(sizes)
            for sizes in itertools.product(*(range(1, law.size + 1) for law in laws))
        )
        got = top_r_composition(spectra, threshold=threshold).upper
        assert got == pytest.approx(min(kept, 1), abs=2e-12)


def test_adult_marginals_reach_the_least_bounds() -> None:
    """Counts of the 32,561 rows of the UCI Adult data; the least bounds by full search."""
    counts = {
        "race": ADULT_RACE,
        "sex": ADULT_SEX,
        "workclass": ADULT_WORKCLASS,
    }
    laws = {
        name: MarginalDistribution.from_spectrum(CountSpectrum.from_counts(values))
        for name, values in counts.items()
    }
    users = sum(ADULT_SEX)
    two = theorem2_composition([laws["race"], laws["workclass"]], threshold=1000 / users)
    assert two.upper == pytest.approx(0.533683, abs=1e-6)
    three = theorem3_composition([laws["sex"], laws["race"]], threshold=2 / users)
    assert three.upper == pytest.approx(0.022310, abs=1e-6)


def test_many_equal_apis_are_searched_in_no_time() -> None:
    """Without an order among equal APIs, each of their permutations would be searched."""
    laws = [of_probabilities([0.99, 0.007, 0.003])] * 20
    kept = min(
        ones * 0.01 + twos * 0.003 + 1e-5 * 2**twos * 3**threes
        for ones, twos in itertools.product(range(21), repeat=2)
        if (threes := 20 - ones - twos) >= 0
    )
    assert top_r_composition(laws, threshold=1e-5).upper == pytest.approx(kept, abs=2e-12)


def test_made_up_columns_show_what_each_rule_can_do() -> None:
    weights = [1 / np.arange(1, size + 1) for size in (2, 2, 5, 9)]
    laws = [of_probabilities(weight / weight.sum()) for weight in weights]
    upper = {bound.rule: bound.upper for bound in composition_bounds(laws, threshold=1e-4)}
    assert upper["top-r"] == pytest.approx(0.018)
    assert all(upper[rule] > 5 * upper["top-r"] for rule in upper if rule != "top-r")


def test_two_by_two_example_where_the_slack_of_theorem_2_is_needed() -> None:
    case = REFERENCE["composition_example"]
    epsilon = 5e-13
    joint = np.array([[0.1 - epsilon, 0.4 + epsilon], [0.4 + epsilon, 0.1 - epsilon]])
    exposed = joint[joint < 0.1].sum()
    assert exposed == pytest.approx(case["exposure"], abs=case["tolerance"])
    laws = single_laws(joint)
    assert all(at(one.pieces(), 0.5) == 0 for one in laws)
    assert all(bound.upper >= exposed for bound in composition_bounds(laws, threshold=0.1))


def test_an_api_rounded_above_certainty_subtracts_nothing() -> None:
    almost = of_probabilities([1 + 4e-16])
    assert (almost.sharpened_pieces().weight >= 0).all()
    assert (almost.sharpened_pieces().highest <= 0).all()


def test_one_api_alone_is_its_own_exposure() -> None:
    one = of_probabilities(law("four steps"))
    assert theorem2_composition([one], threshold=0.25).upper == pytest.approx(0.3)
    assert sharpened_composition([one], threshold=0.25).upper == pytest.approx(0.3)


def test_a_constant_api_costs_nothing() -> None:
    constant = of_probabilities([1.0])
    one = of_probabilities(law("four steps"))
    for rule in (sharpened_composition, top_r_composition):
        with_constant = rule([one, constant, constant], threshold=0.05).upper
        assert with_constant == pytest.approx(rule([one], threshold=0.05).upper)


def test_known_pairs_help_when_apis_determine_each_other() -> None:
    # Three copies of one API: 8 joint values, of which marginals must fear 512.
    joint = np.zeros((8, 8, 8))
    joint[range(8), range(8), range(8)] = 1 / 8
    singles, pairs = single_laws(joint), pair_laws(joint)
    alone = best_composition(singles, threshold=1e-3).upper
    together = best_composition(singles, threshold=1e-3, pairs=pairs)
    assert together.rule == "join size"
    # Sets of 8 pairs that cover each API twice: 8^(3/2) joint values.
    assert together.upper == pytest.approx(8**1.5 * 1e-3)
    assert alone == pytest.approx(0.512)


def test_join_size_weights_cover_every_api() -> None:
    rng = np.random.default_rng(7)
    for _ in range(6):
        joint = rng.dirichlet(np.full(64, 0.1)).reshape(4, 4, 4)
        pairs = pair_laws(joint)
        bound = composition_bounds(single_laws(joint), threshold=0.003, pairs=pairs)[-1]
        parts = [(0,), (1,), (2,), *pairs]
        for api in range(3):
            weights = zip(parts, bound.parameters["cover"], strict=True)
            assert sum(weight for part, weight in weights if api in part) >= 1


def sample_spectra(
    rng: np.random.Generator, joint: np.ndarray, users: int, parts: list[tuple[int, ...]]
) -> list[CountSpectrum]:
    counts = rng.multinomial(users, joint.ravel()).reshape(joint.shape)
    return [CountSpectrum.from_counts(marginal(counts, part)) for part in parts]


@pytest.mark.long
@pytest.mark.parametrize("with_pairs", [False, True])
def test_sampled_composition_covers_the_statistical_exposure(with_pairs: bool) -> None:
    rng = np.random.default_rng(8)
    misses, useful = 0, 0
    for _ in range(60):
        joint = rng.dirichlet(np.full(60, 0.05)).reshape(3, 4, 5)
        parts = list(itertools.combinations(range(3), 2))
        spectra = sample_spectra(rng, joint, 2000, [(0,), (1,), (2,), *parts])
        bound = composition_from_sample(
            spectra[:3],
            k=5,
            population=4000,
            delta=0.2,
            rng=rng,
            pairs=dict(zip(parts, spectra[3:], strict=True)) if with_pairs else None,
        )
        truth = statistical_exposure(joint.ravel(), k=5, population=4000)
        misses += bound.upper < truth
        useful += bound.upper < 0.2
        assert bound.rule == ("join size" if with_pairs else "top-r")
    assert misses <= 12
    assert useful >= 54


def test_sampled_tails_cover_the_best_tails_of_the_law() -> None:
    p = law("zipf 1.5 of 100")
    rng = np.random.default_rng(9)
    misses = 0
    for _ in range(300):
        offer = sampled_tails(
            CountSpectrum.from_counts(rng.multinomial(400, p)), delta=0.5, rng=rng
        )
        truth = 1 - np.cumsum(p)[offer.sizes.astype(int) - 1]
        misses += bool((offer.tails < truth - 1e-12).any())
    assert misses <= 150
    # Within reach of the truth: not the trivial limit.
    assert offer.tails[-1] < 0.35


def test_sampled_composition_is_reproducible_and_tightens_with_data() -> None:
    joint = np.outer(law("zipf 1.5 of 100"), law("skew"))
    rng = np.random.default_rng(10)
    bounds = []
    for users in (100, 10_000, 1_000_000):
        spectra = sample_spectra(rng, joint, users, [(0,), (1,)])
        arguments = {"k": 10, "population": 10**6, "delta": 0.05}
        once, again = (
            composition_from_sample(spectra, rng=np.random.default_rng(0), **arguments)
            for _ in range(2)
        )
        assert once == again
        bounds.append(once.upper)
    assert bounds == sorted(bounds, reverse=True)
    exact = top_r_composition(single_laws(joint), threshold=most_exposed(10, 10**6)).upper
    assert exact <= bounds[-1] <= exact + 0.01


@pytest.mark.parametrize("k", [2, 10, 1000])
def test_a_joint_value_counts_for_what_one_value_exposes_at_most_and_no_more(k: int) -> None:
    """In place of (k - 1)/n; a joint law in which each value does so is above no bound."""
    n = 100 * k * k
    shares = np.linspace(0, 3 * k / n, 10_001)
    most = (shares * exposure_probability(shares, k=k, population=n)).max()
    assert most <= most_exposed(k, n) <= most * (1 + 1e-6)
    side = round((n / k) ** 0.5 * 1.2)  # two APIs, whose joint values expose nearly as many
    truth = statistical_exposure(np.full(side * side, side**-2.0), k=k, population=n)
    whole = CountSpectrum.from_counts([10**7] * side)
    arguments = {"k": k, "population": n, "delta": 0.05, "rng": np.random.default_rng(3)}
    bound = composition_from_sample([whole, whole], **arguments).upper
    assert truth <= bound
    assert bound <= min(1.0, side**2 * most_exposed(k, n)) + 1e-4
    assert most_exposed(k, n) < (k - 1) / n


def test_tiny_samples_promise_nothing() -> None:
    offer = sampled_tails(
        CountSpectrum.from_counts([1, 1]), delta=0.05, rng=np.random.default_rng(0)
    )
    assert (offer.tails > 0.9).all()


def test_bad_arguments_are_refused() -> None:
    one, spectrum = (
        of_probabilities([0.5, 0.5]),
        CountSpectrum.from_counts([5, 5]),
    )
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="at least one API"):
        composition_bounds([], threshold=0.1)
    with pytest.raises(PolicyError, match="threshold"):
        composition_bounds([one], threshold=1)
    with pytest.raises(InputError, match="positions"):
        composition_bounds([one], threshold=0.1, pairs={(0, 1): one})
    with pytest.raises(PolicyError, match="delta"):
        composition_from_sample([spectrum], k=2, population=10, delta=0, rng=rng)
    with pytest.raises(PolicyError, match="population"):
        composition_from_sample([spectrum], k=20, population=10, delta=0.1, rng=rng)
    with pytest.raises(InputError, match="one user"):
        sampled_tails(CountSpectrum.from_counts([1]), delta=0.1, rng=rng)
