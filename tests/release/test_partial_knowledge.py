"""Partial knowledge: reference figures, enumeration of tiny releases, and the numerics far out."""

from __future__ import annotations

import itertools
import json
import math
from collections import defaultdict
from decimal import Decimal, localcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.errors import PolicyError
from fpmonitor.release import partial_knowledge
from fpmonitor.release.partial_knowledge import (
    active_delta,
    blanket_delta,
    count_delta,
    delta_curve,
    histogram_guarantee,
    pair_delta,
    pitfalls,
    poisson_binomial_delta,
    smallest_k,
    split_guarantee,
    threshold_delta,
    value_guarantee,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

REFERENCE = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "reference" / "partial_knowledge.json").read_text(
        "utf-8"
    )
)
PAPERS = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "reference" / "papers.json").read_text("utf-8")
)
LAW = REFERENCE["laws"]["truncated"]
BILLION = 10**9


def inputs(figure: dict[str, Any]) -> dict[str, Any]:
    return {name: figure[name] for name in figure if name not in {"value", "tolerance"}}


def holds(value: float, figure: dict[str, Any]) -> bool:
    """Within the tolerance; and of small figures eight digits, which 1e-30 does not ask for."""
    relative = 1e-8 * abs(figure["value"])
    return abs(value - figure["value"]) <= max(min(figure["tolerance"], relative), 1e-15 * value)


def outcomes(others: int, law: Sequence[float], k: int, own: int) -> dict[tuple[int, ...], float]:
    """Law of the published histogram, by enumeration; the last category is never published."""
    published: dict[tuple[int, ...], float] = defaultdict(float)
    for counts in itertools.product(range(others + 1), repeat=len(law) - 1):
        rest = others - sum(counts)
        if rest < 0:
            continue
        full = (*counts, rest)
        ways = math.factorial(others) // math.prod(math.factorial(c) for c in full)
        weight = ways * math.prod(p**c for p, c in zip(law, full, strict=True))
        shown = [c + (i == own) for i, c in enumerate(full)][:-1]
        published[tuple(c if c >= k else 0 for c in shown)] += weight
    return published


def enumerated_delta(users: int, law: Sequence[float], k: int, pair: Any, epsilon: float) -> float:
    first, second = (outcomes(users - 1, law, k, own) for own in pair)
    return max(
        sum(max(a.get(y, 0) - math.exp(epsilon) * b.get(y, 0), 0) for y in a.keys() | b.keys())
        for a, b in ((first, second), (second, first))
    )


def test_thresholding_has_the_reference_delta() -> None:
    for figure in REFERENCE["threshold"]:
        assert holds(threshold_delta(**inputs(figure)), figure), figure


def test_counts_have_the_reference_delta() -> None:
    for figure in REFERENCE["count"]:
        assert holds(count_delta(**inputs(figure)), figure), figure


def test_common_values_have_the_reference_delta() -> None:
    for figure in REFERENCE["common"]:
        assert holds(blanket_delta(**inputs(figure)), figure), figure


def test_pairs_have_the_reference_delta() -> None:
    for figure in REFERENCE["pair"]:
        assert holds(pair_delta(**inputs(figure)), figure), figure


def test_unequal_records_have_the_reference_delta() -> None:
    for figure in REFERENCE["poisson_binomial"]:
        others = (
            0.1 + 0.4 * np.arange(50) / 49
            if figure["others"] == "rising"
            else np.tile([0.05, 0.3], 30)
        )
        k = figure["k"] if figure["k"] > 1 else None
        assert holds(poisson_binomial_delta(others, figure["epsilon"], k=k), figure), figure


def test_splits_have_the_reference_delta() -> None:
    for figure in REFERENCE["split"]:
        guarantee = split_guarantee(
            figure["users"],
            common=figure["least"],
            rare=figure["rare"],
            k=figure["k"],
            epsilon=figure["epsilon"],
        )
        uncut = max(
            guarantee.common_common,
            guarantee.rare_absent,
            guarantee.rare_rare,
            guarantee.rare_common,
        )
        assert holds(uncut, figure), figure
        assert guarantee.delta == min(uncut, 1)


def test_enumerated_histograms_stay_within_the_guarantee() -> None:
    for figure in REFERENCE["truncated"]:
        names = list(LAW)
        pair = [names.index(name) for name in figure["pair"]]
        users, k, epsilon = figure["users"], figure["k"], figure["epsilon"]
        exact = enumerated_delta(users, list(LAW.values()), k, pair, epsilon)
        assert exact == pytest.approx(figure["value"], abs=1e-11)
        bound = split_guarantee(users, common=0.30, rare=0.02, k=k, epsilon=epsilon)
        kinds = {name: "rare" if name == "rare" else "common" for name in names}
        kinds["absent"] = "absent" if "rare" in figure["pair"] else "common"
        of_pair = {
            ("rare", "absent"): bound.rare_absent,
            ("rare", "common"): bound.rare_common,
            ("common", "common"): bound.common_common,
        }[kinds[figure["pair"][0]], kinds[figure["pair"][1]]]
        assert exact <= of_pair * (1 + 1e-9)


def test_a_pair_is_exact_without_threshold() -> None:
    exact = enumerated_delta(9, [0.2, 0.5, 0.3], 1, (0, 1), 0.4)
    assert pair_delta(9, 0.2, 0.5, 0.4) == pytest.approx(exact, rel=1e-10)
    exact = enumerated_delta(9, [0.2, 0.5, 0.3], 1, (0, 2), 0.4)
    assert pair_delta(9, 0.2, 0.3, 0.4) == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_the_guarantee_of_a_law_covers_every_pair_of_values(epsilon: float) -> None:
    law = [0.02, 0.08, 0.3, 0.25, 0.35]
    guarantee = histogram_guarantee(8, law[:-1], k=3, epsilon=epsilon)
    for pair in itertools.combinations(range(5), 2):
        assert enumerated_delta(8, law, 3, pair, epsilon) <= guarantee.delta * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_rare_values_hide_common_ones_where_nobody_lacks_a_value(epsilon: float) -> None:
    """The number of users is known, and so is how many are suppressed: by exact enumeration."""
    for law in ([0.02, 0.07, 0.41, 0.5], [0.004, 0.003, 0.293, 0.7], [0.05, 0.95]):
        for users, k in ((6, 3), (7, 4)):
            guarantee = histogram_guarantee(users, law, k=k, epsilon=epsilon)
            pairs = itertools.combinations(range(len(law)), 2)
            exact = max(enumerated_delta(users, [*law, 0.0], k, pair, epsilon) for pair in pairs)
            assert exact <= guarantee.delta * (1 + 1e-9)
    law = [*np.full(50, 0.002), 0.4, 0.5]
    assert histogram_guarantee(10_000, law, k=60, epsilon=1.0).delta < 1e-6


def test_the_count_of_one_value_alone_understates_the_histogram() -> None:
    assert count_delta(20, 0.3, 1.0) < enumerated_delta(20, [0.3, 0.4, 0.3], 1, (0, 1), 1.0)


def test_equal_records_are_a_special_case_of_unequal_ones() -> None:
    assert poisson_binomial_delta(np.full(39, 0.2), 0.3) == pytest.approx(
        count_delta(40, 0.2, 0.3), rel=1e-12
    )


def test_unequal_records_stay_within_the_delta_of_the_least_probability() -> None:
    assert REFERENCE["largest_ratio_to_common"]["value"] <= 1
    rng = np.random.default_rng(3)
    for _ in range(100):
        least, users = float(rng.uniform(0.02, 0.5)), int(rng.integers(5, 80))
        epsilon = float(rng.uniform(0, 1.5))
        others = rng.uniform(least, 1 - least, users - 1)
        bound = blanket_delta(users, least, epsilon)
        assert poisson_binomial_delta(others, epsilon) <= bound * (1 + 1e-9)


@given(
    users=st.integers(2, 60),
    probability=st.floats(0.01, 0.45),
    k=st.integers(2, 10),
    epsilon=st.floats(0, 3),
    more=st.integers(1, 20),
)
@settings(deadline=None, max_examples=40)
def test_more_users_and_more_epsilon_never_cost_privacy(
    users: int, probability: float, k: int, epsilon: float, more: int
) -> None:
    here = value_guarantee(users, probability, k=k, epsilon=epsilon)
    crowded = value_guarantee(users + more, probability, k=k, epsilon=epsilon)
    lenient = value_guarantee(users, probability, k=k, epsilon=epsilon + 0.1 * more)
    assert crowded.delta_histogram <= here.delta_histogram * (1 + 1e-9)
    assert crowded.delta_threshold >= here.delta_threshold * (1 - 1e-9)
    assert lenient.delta_histogram <= here.delta_histogram * (1 + 1e-9)
    assert 0 <= here.delta <= min(here.delta_histogram, 1)
    assert here.delta_count <= here.delta_histogram * (1 + 1e-9)


def test_tails_of_a_billion_users_have_nine_digits() -> None:
    trials, p, k = BILLION - 1, 1e-9, 50
    with localcontext(prec=50):
        q = 1 - Decimal(p)
        term = total = (
            Decimal(math.comb(trials, k - 1)) * Decimal(p) ** (k - 1) * (q ** (trials - k + 1))
        )
        for count in range(k, k + 30):
            term *= Decimal(trials - count + 1) / count * Decimal(p) / q
            total += term
    assert threshold_delta(BILLION, p, k) == pytest.approx(float(total), rel=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [0.0, 1e-4, 0.01])
def test_count_of_a_billion_users_agrees_with_the_plain_sum(epsilon: float) -> None:
    trials, p = 10**6, 0.2
    counts = np.arange(150_000, 250_000, dtype=np.float64)
    logs = partial_knowledge.log_pmf(counts, trials, p, 1 - p)
    law = np.exp(logs)
    expected = partial_knowledge._hockey_stick(np.append(0, law), np.append(law, 0), epsilon)
    back = partial_knowledge._hockey_stick(np.append(law, 0), np.append(0, law), epsilon)
    assert count_delta(trials + 1, p, epsilon) == pytest.approx(max(expected, back), rel=1e-7)


@pytest.mark.parametrize(
    ("probability", "epsilon", "low", "high"),
    [(0.25, 0.003, 1e-300, 1e-200), (0.01, 0.016, 1e-300, 1e-200), (1e-6, 1.8, 1e-300, 1e-100)],
)
def test_deltas_of_a_billion_users_do_not_underflow(
    probability: float, epsilon: float, low: float, high: float
) -> None:
    assert low < pair_delta(BILLION, probability, probability, epsilon) < high


def test_an_event_that_can_happen_never_has_probability_zero() -> None:
    assert 0 < threshold_delta(BILLION, 1e-9, 100_000) < 1e-307
    assert 0 < pair_delta(BILLION, 0.5, 0.5, 5.0) < 1e-307
    assert threshold_delta(10, 0.5, 11) == 0
    assert threshold_delta(10, 0.0, 2) == 0


@pytest.mark.parametrize(
    ("users", "p", "other", "epsilon"),
    [
        (10**6, 0.2, 0.25, 0.03),
        (10**5, 0.2, 0.3, 0.2),
        (10**6, 0.02, 0.04, 0.2),
        (10**6, 0.02, 0.02, 0.1),
        (10**7, 0.001, 0.001, 0.05),
        (10**9, 0.0001, 0.0001, 0.003),
    ],
)
def test_evenly_spaced_crowds_err_high_and_by_little(
    users: int, p: float, other: float, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    spaced = pair_delta(users, p, other, epsilon)
    monkeypatch.setattr(partial_knowledge, "_EXACT_POINTS", 10**8)
    partial_knowledge._pair_delta.cache_clear()
    exact = pair_delta(users, p, other, epsilon)
    partial_knowledge._pair_delta.cache_clear()
    assert exact < spaced <= exact * (1 + 0.03 * epsilon**2 + 1e-5)


def test_known_records_shrink_the_crowd_and_do_not_move_the_average_threshold() -> None:
    users, p, k, known = 200, 0.02, 8, 60
    assert count_delta(users, p, 0.5, known=known) == count_delta(users - known, p, 0.5)
    average = sum(
        math.comb(known, copies)
        * p**copies
        * (1 - p) ** (known - copies)
        * (threshold_delta(users, p, k, known=known, copies=copies) if copies < k else 1)
        for copies in range(known + 1)
    )
    assert threshold_delta(users, p, k, known=known) == pytest.approx(average, rel=1e-9)
    assert threshold_delta(users, p, k, known=known, copies=k - 1) == 1


def test_simulated_thresholding_agrees_within_four_sigma() -> None:
    rng = np.random.default_rng(5)
    draws, delta = 40_000, threshold_delta(500, 0.01, 9)
    hits = int((rng.binomial(499, 0.01, draws) >= 8).sum())
    assert abs(hits - draws * delta) <= 4 * math.sqrt(draws * delta * (1 - delta))


def test_pitfalls_carry_the_numbers() -> None:
    absent, active = pitfalls(1000, 6e-5, k=5, epsilon=0.5)
    assert "0.942" in absent  # with none absent the suppressed count shows: P(nobody else) = 0.942
    assert "5.1e-07" in absent
    assert "4 fake users" in active
    assert "0.943" in active, "the others hide a user still, and 0.9421 is rounded up"


def test_planted_records_give_the_delta_of_all_counts_of_the_others() -> None:
    for figure in PAPERS["active"]:
        asked = {name: value for name, value in figure.items() if name != "delta"}
        assert active_delta(**asked) == pytest.approx(figure["delta"], rel=1e-9), figure
    deltas = [active_delta(500, 0.02, 9, 0.7, planted=planted) for planted in range(12)]
    assert all(a <= b * (1 + 1e-12) for a, b in itertools.pairwise(deltas[:9]))
    told = value_guarantee(20_000, 1e-4, k=20, epsilon=1)
    assert told.delta_active == pytest.approx(PAPERS["active"][-1]["delta"], rel=1e-9)


def test_the_smallest_threshold_is_where_the_guarantee_begins() -> None:
    law = [0.3, 0.3, 1e-4, 5e-5]
    k = smallest_k(10_000, law, epsilon=0.5, delta=1e-6)
    assert k is not None
    assert histogram_guarantee(10_000, law, k=k, epsilon=0.5).delta <= 1e-6
    assert histogram_guarantee(10_000, law, k=k - 1, epsilon=0.5).delta > 1e-6
    assert smallest_k(10, [0.9], epsilon=0.1, delta=1e-9) is None


def test_a_better_split_is_found_than_all_rare_or_all_common() -> None:
    law = [0.3, 0.3, 1e-4]
    best = histogram_guarantee(10_000, law, k=30, epsilon=0.5)
    assert (best.common_from, best.rare_up_to) == (0.3, 1e-4)
    assert best.delta < 1e-20


def test_curves_fall() -> None:
    curve = delta_curve(10_000, 0.05, k=400, epsilons=[0.0, 0.1, 0.3, 0.6])
    assert np.all(np.diff(curve) < 0)


@pytest.mark.parametrize(
    ("argument", "change"),
    [
        ("users", {"users": 0}),
        ("users", {"users": 10**11}),
        ("probability", {"probability": 1.5}),
        ("probability", {"probability": math.nan}),
        ("k", {"k": 1}),
        ("k", {"k": 2.0}),
        ("epsilon", {"epsilon": -0.1}),
        ("epsilon", {"epsilon": math.inf}),
        ("known", {"known": 100}),
        ("copies", {"known": 5, "copies": 6}),
    ],
)
def test_errors_name_the_argument(argument: str, change: dict[str, Any]) -> None:
    question: dict[str, Any] = {"users": 100, "probability": 0.1, "k": 5, "epsilon": 1.0} | change
    with pytest.raises(PolicyError) as caught:
        value_guarantee(**question)
    assert caught.value.argument == argument


def test_laws_that_are_none_are_refused() -> None:
    with pytest.raises(PolicyError, match="probabilities"):
        histogram_guarantee(100, [0.7, 0.7], k=5, epsilon=1)
    with pytest.raises(PolicyError, match="probabilities"):
        poisson_binomial_delta([0.5, 1.1], 1)
    with pytest.raises(PolicyError, match="least"):
        blanket_delta(100, 0.6, 1)
    with pytest.raises(PolicyError, match="delta"):
        smallest_k(100, [0.1], epsilon=1, delta=0)
