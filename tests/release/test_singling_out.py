"""Singling out: reference figures, the best attacker on tiny laws, and the attacks at work."""

from __future__ import annotations

import itertools
import json
import math
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fpmonitor.cli import run
from fpmonitor.errors import InputError, PolicyError
from fpmonitor.estimate.entropy import average_min_entropy_bits
from fpmonitor.release.attacks import (
    attack_counts,
    attack_groups,
    draw_hash,
    hash_bits,
    read_by_counts,
    success_limits,
)
from fpmonitor.release.examples import (
    bit_suppression_success,
    composition_attack,
    composition_success,
    hash_attack_on_bits,
    hash_attack_success,
    interval_attack,
    interval_bucket_success,
    positional_attack_on_bits,
    suppress_bits,
)
from fpmonitor.release.query_audit import isolation_within_reach, query_limit, query_verdict
from fpmonitor.release.singling_out import (
    average_min_entropy_floor,
    best_baseline,
    best_baseline_above,
    count_attack_success,
    count_bound,
    dp_bound,
    dp_bound_above,
    first_cut,
    isolation_baseline,
    leftover_distance,
    reached_baseline,
    repeated_attack_success,
)
from fpmonitor.spectrum import CountSpectrum
from tests.release.expected import expected_group_success

if TYPE_CHECKING:
    from collections.abc import Callable

REFERENCE = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "reference" / "singling_out.json").read_text("utf-8")
)
PAPERS = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "reference" / "papers.json").read_text("utf-8")
)
BILLION = 10**9


def random_words(users: int, seed: int) -> Any:
    return np.random.default_rng(seed).integers(2**64, size=users, dtype=np.uint64)


def holds(value: float, figure: dict[str, Any]) -> bool:
    return bool(abs(value - figure["value"]) <= figure["tolerance"])


def within_four_sigma(successes: int, trials: int, probability: float) -> bool:
    return abs(successes - trials * probability) <= 4 * math.sqrt(
        trials * probability * (1 - probability)
    )


def test_baselines_have_the_reference_figures() -> None:
    for figure in REFERENCE["baseline"]:
        assert holds(isolation_baseline(figure["users"], figure["weight"]), figure), figure


def test_composed_counts_have_the_reference_success() -> None:
    for figure in REFERENCE["count_attack"]:
        success = count_attack_success(
            figure["users"], figure["bits"], factor=figure["factor"], disguised=figure["disguised"]
        )
        assert holds(success, figure), figure


def test_private_releases_have_the_reference_epsilon() -> None:
    for figure in REFERENCE["dp_epsilon"]:
        users, weight, epsilon = figure["users"], figure["weight"], figure["epsilon"]
        raised = epsilon - (users - 1) * math.log1p(-weight)
        assert holds(raised, figure), figure
        bound = dp_bound(users, weight, epsilon=epsilon, delta=1e-12)
        expected = math.exp(raised) * isolation_baseline(users, weight) + users * 1e-12
        assert bound == pytest.approx(expected, rel=1e-9)


def test_bit_suppression_has_the_reference_success() -> None:
    for figure in REFERENCE["bit_suppression"]:
        assert holds(bit_suppression_success(figure["k"]), figure), figure


def test_hash_predicates_have_the_reference_success() -> None:
    for figure in REFERENCE["hash_attack"]:
        success = hash_attack_success(
            figure["users"],
            figure["k"],
            columns=figure["columns"],
            weight=2.0 ** -figure["weight_bits"],
        )
        assert holds(success, figure), figure


def test_interval_buckets_have_the_reference_success() -> None:
    for figure in REFERENCE["interval"]:
        assert holds(interval_bucket_success(figure["users"], figure["bits"]), figure), figure


@pytest.mark.long
def test_hash_predicates_work_on_sorted_groups() -> None:
    for figure in REFERENCE["sorted_groups"]:
        rng = np.random.default_rng(79)
        successes = 0
        for _ in range(400):
            records = rng.random((figure["users"], figure["columns"])) < figure["ones"]
            records = records[np.lexsort(records.T[::-1])]
            successes += hash_attack_on_bits(records, figure["k"], weight=1.0, rng=rng)
        assert within_four_sigma(successes, 400, figure["value"])


def best_attacker(
    law: list[Fraction],
    users: int,
    release: Callable[[tuple[int, ...]], dict[Any, Fraction]],
    wanted: Callable[[Fraction], bool],
) -> Fraction:
    """Success of the best choice of a predicate for every output, over all data sets."""
    values = range(len(law))
    predicates = [
        frozenset(chosen)
        for size in range(len(law) + 1)
        for chosen in itertools.combinations(values, size)
        if wanted(sum((law[v] for v in chosen), Fraction(0)))
    ]
    success: dict[Any, dict[Any, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for data in itertools.product(values, repeat=users):
        chance = math.prod((law[v] for v in data), start=Fraction(1))
        for output, share in release(data).items():
            for predicate in predicates:
                if sum(v in predicate for v in data) == 1:
                    success[output][predicate] += chance * share
    return sum((max(by.values()) for by in success.values()), Fraction(0))


def randomised(data: tuple[int, ...]) -> dict[Any, Fraction]:
    outputs = itertools.product(range(8), repeat=len(data))
    return {
        output: math.prod(
            (Fraction(2 if y == x else 1, 9) for y, x in zip(output, data, strict=True)),
            start=Fraction(1),
        )
        for output in outputs
    }


RELEASES: dict[str, Callable[[tuple[int, ...]], dict[Any, Fraction]]] = {
    "nothing": lambda _: {0: Fraction(1)},
    "everything": lambda data: {data: Fraction(1)},
    "count of odd": lambda data: {sum(v % 2 for v in data): Fraction(1)},
    "each odd": lambda data: {tuple(v % 2 for v in data): Fraction(1)},
    "randomised response, e^epsilon = 2": randomised,
}


@pytest.mark.parametrize("figure", REFERENCE["enumerated"], ids=str)
def test_the_best_attacker_stays_within_the_bounds(figure: dict[str, Any]) -> None:
    users, words = figure["users"], figure["law"].split()
    side, limit = figure["weight"].rsplit(" ", 1)
    limit = Fraction(limit)
    if words[0] == "uniform" and int(words[1]) > 8:
        weight = math.floor(limit * int(words[1])) / int(words[1])
        assert holds(best_baseline(users, weight), figure)
        return
    law = (
        [Fraction(1, int(words[1]))] * int(words[1])
        if words[0] == "uniform"
        else [Fraction(word) for word in words]
    )
    best = best_attacker(
        law,
        users,
        RELEASES[figure["release"]],
        (lambda weight: weight <= limit) if side == "at most" else (lambda weight: weight >= limit),
    )
    assert holds(float(best), figure)
    if "odd" in figure["release"]:
        assert float(best) <= count_bound(users, float(limit))
    if "response" in figure["release"]:
        assert float(best) <= dp_bound(users, float(limit), epsilon=math.log(2))


@pytest.mark.long
def test_knowing_one_record_of_the_nearest_pair_gives_away_more_than_print_says() -> None:
    for figure in REFERENCE["nearest_pair"]:
        users, values = figure["users"], figure["values"]
        seen: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        pairs = list(itertools.permutations(range(users), 2))
        for data in itertools.product(range(values), repeat=users):
            _, i, j = min(((data[j] - data[i]) % values, i, j) for i, j in pairs)
            seen[data[i]][data[j]] += 1
        guessed = sum(max(after.values()) for after in seen.values()) / values**users
        bits = -math.log2(guessed)
        assert holds(bits, figure), figure
        assert bits < math.log2(values) - math.log2(users), "print of Lemma 6.3 has at least this"
        combinations = users * math.comb(users - 1, 1)
        assert bits >= math.log2(values) - math.log2(combinations), "what is true"


@pytest.mark.parametrize("figure", REFERENCE["hash_weight"], ids=str)
def test_hash_predicates_need_the_right_divisor(figure: dict[str, Any]) -> None:
    words, weight = 2 ** figure["bits"], Fraction(figure["weight"])
    cut = weight - Fraction(2, words)

    def share(divisor: int) -> Fraction:
        return Fraction(sum(Fraction(y, divisor) <= cut for y in range(words)), words)

    assert share(words - 1) == Fraction(figure["printed"])
    assert share(words) == Fraction(figure["corrected"]) == Fraction(figure["claimed"])


def test_no_count_bound_is_below_the_baseline_and_none_above_one() -> None:
    assert count_bound(1000, 1e-6, counts=0) == pytest.approx(best_baseline(1000, 1e-6))
    assert count_bound(1000, 1e-6) == pytest.approx(1001 * best_baseline(1000, 1e-6))
    assert count_bound(1000, 1e-6, counts=5) == 1


def test_baselines_hold_for_a_billion_users_and_weights_near_nothing() -> None:
    assert isolation_baseline(BILLION, 1e-9) == pytest.approx(math.exp(-1), rel=1e-8)
    assert isolation_baseline(BILLION, 1e-300) == pytest.approx(1e-291)
    assert 0 < isolation_baseline(BILLION, 0.5) < 1e-300
    assert isolation_baseline(1, 1.0) == 1
    assert isolation_baseline(2, 1.0) == 0
    assert isolation_baseline(2, 0.0) == 0
    assert dp_bound(BILLION, 1e-300, epsilon=1) == pytest.approx(math.e * 1e-291)


@pytest.mark.long
@pytest.mark.parametrize(
    ("factor", "disguised"), [(1, False), (1, True), (2, True)], ids=["4.6", "4.7", "4.7 doubled"]
)
def test_composed_counts_single_out_as_often_as_computed(factor: int, disguised: bool) -> None:
    words = random_words(100, 5)
    result = attack_counts(
        words,
        bits=20,
        trials=1500,
        rng=np.random.default_rng(24),
        factor=factor,
        disguised=disguised,
    )
    expected = count_attack_success(100, 20, factor=factor, disguised=disguised)
    assert within_four_sigma(result.successes, 1500, expected)
    assert result.singles_out
    assert result.weight == 2.0**-20


def test_disguised_counts_are_never_small() -> None:
    numbers = random_words(500, 2) >> np.uint64(44)
    numbers[0] = 2  # else the first count might end it
    answers: list[int] = []

    def count(predicate: Any) -> int:
        answers.append(int(predicate(numbers).sum()))
        return answers[-1]

    read_by_counts(count, 500, 20, disguised=True)
    assert len(answers) == 22
    assert min(answers) > 200


@pytest.mark.long
@pytest.mark.parametrize("k", [2, 3, 5])
def test_positional_predicates_single_out_as_often_as_computed(k: int) -> None:
    rng = np.random.default_rng(k)
    trials = 500
    successes = sum(positional_attack_on_bits(rng.random((k, 128)) < 0.5, k) for _ in range(trials))
    assert within_four_sigma(successes, trials, bit_suppression_success(k))


def test_hash_predicates_on_bits_single_out_as_often_as_computed() -> None:
    rng = np.random.default_rng(77)
    successes = sum(
        hash_attack_on_bits(rng.random((40, 256)) < 0.5, 5, weight=2.0**-12, rng=rng)
        for _ in range(800)
    )
    expected = hash_attack_success(40, 5, columns=256, weight=2.0**-12)
    assert within_four_sigma(successes, 800, expected)
    assert expected > 10 * best_baseline(40, 2.0**-12)


def test_bit_suppression_is_k_anonymous() -> None:
    records = np.random.default_rng(1).random((23, 64)) < 0.5
    groups = suppress_bits(records, 5)
    assert sorted(row for rows, _ in groups for row in rows) == list(range(23))
    for rows, suppressed in groups:
        assert len(rows) >= 5
        assert len(np.unique(records[rows][:, ~suppressed], axis=0)) == 1


@pytest.mark.long
def test_interval_ends_single_out_as_often_as_computed() -> None:
    rng = np.random.default_rng(8)
    successes = sum(interval_attack(rng.integers(0, 256, 100)) for _ in range(2000))
    assert within_four_sigma(successes, 2000, interval_bucket_success(100, 8))


@pytest.mark.long
@pytest.mark.parametrize("bits", [8, 16])
def test_two_harmless_releases_single_out_together(bits: int) -> None:
    rng = np.random.default_rng(49)
    successes = sum(
        composition_attack(rng.random((128, bits + 1)) < 0.5, bits) for _ in range(1000)
    )
    expected = composition_success(128, bits)
    assert within_four_sigma(successes, 1000, expected)


def test_a_sixteenth_of_the_users_is_a_key_that_hardly_ever_fails() -> None:
    users = 960
    assert composition_success(users, users // 16) > 1 - math.exp(-users / 32)
    assert composition_success(users, users // 8) < 0.53


@pytest.mark.long
def test_groups_of_low_weight_are_singled_out_and_others_are_not() -> None:
    users, k, weight = 3000, 10, 1e-6
    groups = np.repeat(np.arange(users // k), k)
    words = random_words(users, 3)
    low = np.arange(users // k) % 2 == 0
    weights = np.where(low, 1e-8, k / users)
    exact = expected_group_success(groups, words, weights, weight=weight)
    assert exact[low] == pytest.approx(isolation_baseline(k, 1 / k))
    assert exact[~low] == pytest.approx(best_baseline(users, weight), rel=0.01)
    result = attack_groups(
        groups, words, weights, weight=weight, trials=1500, rng=np.random.default_rng(61)
    )
    assert within_four_sigma(result.successes, 1500, float(exact.mean()))
    assert result.singles_out


def test_equal_records_are_never_isolated() -> None:
    groups = np.zeros(50, dtype=np.int64)
    words = np.repeat(np.arange(25, dtype=np.uint64), 2)
    assert expected_group_success(groups, words, np.array([1e-9]), weight=1e-3) == 0
    result = attack_groups(
        groups,
        words,
        np.array([1e-9]),
        weight=1e-3,
        trials=300,
        rng=np.random.default_rng(0),
    )
    assert result.successes == 0


def test_success_limits_cover_and_touch_the_ends() -> None:
    assert success_limits(0, 10, 0.05) == pytest.approx((0, 1 - 0.05**0.1))
    assert success_limits(10, 10, 0.05) == pytest.approx((0.05**0.1, 1))
    rng = np.random.default_rng(9)
    missed = sum(
        not success_limits(int(hits), 100, 0.05)[0] <= 0.3 for hits in rng.binomial(100, 0.3, 2000)
    )
    assert missed <= 0.05 * 2000 + 4 * math.sqrt(0.05 * 0.95 * 2000)


def test_answered_counts_add_up_and_stop_before_the_attack() -> None:
    limit = query_limit("log2", users=1000)
    assert limit == 10
    verdicts = [query_verdict(had, had + 1, limit) for had in range(12)]
    assert verdicts == ["answer"] * 4 + ["warn"] * 6 + ["refuse"] * 2
    assert query_verdict(12, 12, limit) == "warn", "a repeated count tells nothing new"
    assert query_verdict(1, 21, limit) == "refuse"
    assert isolation_within_reach(1000, limit) == best_baseline(1000, 1 / 1000)
    assert isolation_within_reach(1000, 30) < 1e-5
    assert [query_verdict(0, had, limit=1) for had in (1, 2)] == ["warn", "refuse"]
    with pytest.raises(PolicyError, match="query-limit"):
        query_limit("0", users=1000)


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("users", lambda: isolation_baseline(0, 0.5)),
        ("weight", lambda: isolation_baseline(10, -0.1)),
        ("weight", lambda: dp_bound(10, 1.1, epsilon=1)),
        ("epsilon", lambda: dp_bound(10, 0.1, epsilon=-1)),
        ("delta", lambda: dp_bound(10, 0.1, epsilon=1, delta=2)),
        ("factor", lambda: first_cut(10, 8, factor=0)),
        ("counts", lambda: isolation_within_reach(10, 0)),
    ],
)
def test_errors_name_the_argument(argument: str, call: Callable[[], object]) -> None:
    with pytest.raises(PolicyError) as caught:
        call()
    assert caught.value.argument == argument


def test_a_release_without_users_is_refused() -> None:
    with pytest.raises(InputError, match="no user belongs"):
        attack_groups(
            np.full(5, -1),
            np.arange(5, dtype=np.uint64),
            np.array([0.1]),
            weight=0.1,
            trials=1,
            rng=np.random.default_rng(0),
        )


# ---- What the paper states beyond its attacks ---------------------------------------------------


def test_high_weights_isolate_as_rarely_as_their_baseline() -> None:
    for figure in PAPERS["baseline_above"]:
        found = best_baseline_above(figure["users"], figure["weight"])
        assert found == pytest.approx(figure["value"], rel=1e-9), figure


def test_hash_functions_are_2_universal() -> None:
    """Over all functions on few bits, two hashes are uniform and independent, exactly."""
    for figure in PAPERS["two_universal"]:
        assert figure["largest_deviation"] == 0, figure
    rng = np.random.default_rng(1)
    words = np.array([0, 1, 2**32, 2**32 + 1, 2**64 - 1], dtype=np.uint64)
    hashes = np.array([hash_bits(words, draw_hash(rng), 2) for _ in range(40_000)])
    for one, other in itertools.combinations(range(len(words)), 2):
        pairs = np.bincount((hashes[:, one] * 4 + hashes[:, other]).astype(np.int64), minlength=16)
        assert np.abs(pairs - 2500).max() < 5 * math.sqrt(2500 * 15 / 16)


def test_predicates_of_low_weight_exist_where_records_have_entropy() -> None:
    """No predicate of the family is worse on average than what is promised of it."""
    for figure in PAPERS["reached"]:
        promised = reached_baseline(figure["users"], figure["weight"], figure["min_entropy"])
        assert promised <= figure["mean_success"] * (1 + 1e-9), figure
    enough = reached_baseline(1000, 1e-4, 60.0)
    assert enough == pytest.approx(best_baseline(1000, 1e-4), rel=1e-3)
    assert reached_baseline(1000, 1e-4, 5.0) == 0, "32 records have no predicate of weight 1e-4"


def test_the_leftover_hash_lemma_holds_for_all_functions_of_a_small_family() -> None:
    for figure in PAPERS["leftover"]:
        bound = leftover_distance(figure["min_entropy"], figure["bits"])
        assert figure["distance"] <= bound + 1e-12, figure


def test_repeated_attacks_succeed_nearly_always() -> None:
    for figure in PAPERS["repeated"]:
        found = repeated_attack_success(figure["users"], figure["bits"], figure["attempts"])
        assert found == pytest.approx(figure["value"], rel=1e-9), figure
    words = random_words(100, 8)
    result = attack_counts(words, bits=20, trials=400, rng=np.random.default_rng(3), attempts=20)
    assert result.success >= 0.985
    assert repeated_attack_success(100, 20, 20) > 0.9999


def test_private_releases_cannot_isolate_by_high_weights() -> None:
    """The best attacker on randomised response, over all data sets of a tiny law."""
    for figure in PAPERS["private_high"]:
        users, weight = figure["users"], Fraction(figure["weight"])
        ratio = figure["ratio"]
        values = figure["values"]

        def answers(data: tuple[int, ...], ratio: int = ratio, values: int = values) -> Any:
            outputs = itertools.product(range(values), repeat=len(data))
            return {
                output: math.prod(
                    (
                        Fraction(ratio if y == x else 1, ratio + values - 1)
                        for y, x in zip(output, data, strict=True)
                    ),
                    start=Fraction(1),
                )
                for output in outputs
            }

        law = [Fraction(1, values)] * values
        best = best_attacker(law, users, answers, lambda w, least=weight: w >= least)
        assert best == Fraction(figure["best"]), figure
        bound = dp_bound_above(users, float(weight), epsilon=math.log(ratio))
        assert float(best) <= bound + 1e-12, figure
    assert dp_bound_above(100_000, 0.9, epsilon=1.0) < 1e-9
    assert dp_bound_above(100_000, 0.9, epsilon=1.0, delta=1e-9) < 1e-4
    assert dp_bound_above(1000, 0.3, epsilon=0.1) < 1e-20


def test_average_min_entropy_has_the_reference_figures() -> None:
    for figure in PAPERS["average_min_entropy"]:
        joint = [[Fraction(cell) for cell in row] for row in figure["joint"]]
        users = math.lcm(*(cell.denominator for row in joint for cell in row))
        known = (CountSpectrum.from_counts([int(n * users) for n in row if n]) for row in joint)
        assert average_min_entropy_bits(known) == pytest.approx(figure["bits"], abs=1e-12)
    for figure in REFERENCE["nearest_pair"]:
        floor = average_min_entropy_floor(math.log2(figure["values"]), figure["users"], 2)
        assert floor <= figure["value"]


def test_examples_of_the_paper_succeed_as_computed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "examples", "--trials", "300", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["source"] for row in rows} == {
        *("Theorem 4.6", "Remark 4.7", "Corollary B.2", "Theorem 4.9", "Theorem 6.1"),
        "section 6.2",
    }
    for row in rows:
        assert row["lower"] <= row["exact"] <= row["upper"], row
        assert row["lower"] > row["by_luck"], row


def test_the_command_bounds_what_a_reader_can_reach(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["audit", "baseline", "-n", "365", "-w", "0.05", "--counts", "2"]
    arguments += ["--epsilon", "0.01", "--min-entropy", "40", "--format", "json"]
    assert run(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["largest_from_weight_on"] == pytest.approx(isolation_baseline(365, 0.05))
    assert found["largest_up_to_weight"] == pytest.approx(isolation_baseline(365, 1 / 365))
    assert found["count_bound"] == 1
    assert found["dp_bound_from_weight_on"] < 1e-3
    assert found["reached"] == pytest.approx(isolation_baseline(365, 1 / 365), rel=1e-3)
