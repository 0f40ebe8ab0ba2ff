"""An independent program proves the certificates in ball arithmetic, and no false one."""

from __future__ import annotations

import copy
import json
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from flint import arb, ctx

from fpmonitor.decide.decision import ProofSide
from fpmonitor.estimate.looks import Drawing, decision_criteria
from fpmonitor.proof.design import ROUNDING, _means_left
from fpmonitor.proof.files import check_proof
from fpmonitor.safe_files import typed

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = [  # users, population, k, budget, universe
    (10_000, 10_000, 10, 0.05, 1000),
    (23, 23, 2, 0.5, 4),
    (50, 50, 2, 0.2, 4),
    (100, 10, 5, 0.2, 10),
    (200, 10**10, 2, 0.5, 2),
    (1_000, 1_000, 5, 0.05, 1),
    (1_000, 10**6, 10, 0.1, 8),
    (10_000, 1_000, 50, 0.05, 1000),  # moments of e^-300
    (6_000, 6_000, 1_000, 0.05, 1000),  # a sixth of the users share a value: once, minutes
    (10_000, 10**6, 5, 0.01, 1000),
    (100_000, 100_000, 10, 0.05, 8),
    (100_000, 10**6, 50, 0.01, 20),
    (100_000, 10**7, 50, 0.05, 1000),
    (10**6, 10**6, 50, 0.001, 1000),
    (10**6, 10**8, 5, 0.05, 1000),
    (10**6, 10**7, 1000, 0.05, 1000),
    (10**8, 10**8, 10, 0.05, 1000),
    (10**8, 10**10, 1000, 0.5, 1000),
]
CHANGED = [(10_000, 10_000, 10, 0.05, 1000), (100_000, 10**6, 50, 0.01, 20)]


def proofs(size: tuple[int, int, int, float, int]) -> dict[str, dict[str, Any]]:
    users, population, k, budget, universe = size
    criteria = decision_criteria(
        users=users, k=k, population=population, budget=budget, delta=0.05, universe=universe
    )
    written = json.dumps(criteria.proofs(min(universe, 12)), allow_nan=False)
    content: dict[str, dict[str, Any]] = json.loads(written)
    assert set(content) == {"allow", "block"}
    return content


@pytest.mark.parametrize("size", SIZES)
def test_every_certificate_is_proved_by_another_program(
    size: tuple[int, int, int, float, int],
) -> None:
    for name, content in proofs(size).items():
        assert check_proof(content) == "", name


def test_a_design_of_another_number_than_was_expected_has_no_more_of_delta() -> None:
    """One look gives nearly all of delta to the design of one number, which was known before."""

    def answers(expected: int) -> set[str]:
        criteria = decision_criteria(
            users=2000,
            k=10,
            population=2000,
            budget=0.05,
            delta=0.05,
            universe=3,
            drawing=Drawing(expected=expected),
        )
        return {check_proof(content, once=True) for content in criteria.proofs(3).values()}

    assert answers(2000) == {""}
    assert answers(2050) == {"form"}


def test_one_look_at_many_users_with_k_a_half_of_the_population_is_proved() -> None:
    """5,000 of a value at the threshold are enough: the mean is then below 0.9 of the users."""
    criteria = decision_criteria(
        users=12_000,
        k=100,
        population=200,
        budget=0.05,
        delta=0.05,
        universe=4,
        drawing=Drawing(expected=12_000),
        whole_menu=False,
    )
    content = criteria.proofs(4)["allow"]
    [design] = content["designs"]
    assert design["mean"] < 0.9 * 12_000
    assert check_proof(content, once=True) == ""
    for factor in (0.98, 1.005):  # of another base, which has a smaller share of delta
        other = content | {"designs": [design | {"mean": factor * design["mean"]}]}
        assert check_proof(other, once=True) == "form"


def _nats(content: dict[str, Any]) -> None:
    content["nats"][1:] = [nats - 1e-6 for nats in content["nats"][1:]]


def _weight(content: dict[str, Any]) -> None:
    for design in content["designs"]:
        design["weights"][2] *= 1 + 0.02 * content["sign"]


def _first_weight(content: dict[str, Any]) -> None:
    content["designs"][-1]["phi"][0] *= 1.05


def _line(content: dict[str, Any]) -> None:
    design = content["designs"][0]
    design["intercept"] -= 1e-3 * (abs(design["intercept"]) + abs(design["slope"]))


def _last_line(content: dict[str, Any]) -> None:
    design = content["designs"][-1]
    design["intercept"] -= 1e-3 * (abs(design["intercept"]) + abs(design["slope"]))


def _clock(content: dict[str, Any]) -> None:
    content["designs"][3]["clock"]["log_factor"] += 1e-3


def _clock_share(content: dict[str, Any]) -> None:
    content["designs"][2]["clock"]["shares"][0] *= 1.01


def _charge(content: dict[str, Any]) -> None:
    content["designs"][1]["charge"] *= -1


def _design_share(content: dict[str, Any]) -> None:
    """The best design in place of the sum: its mean is above 1."""
    for design in content["designs"]:
        design["share"] = 1.0


def _one_share(content: dict[str, Any]) -> None:
    content["designs"][4]["share"] += 1e-3


def _negative_share(content: dict[str, Any]) -> None:
    content["designs"][4]["share"] += 1.0
    content["designs"][5]["share"] -= 1.0


def _another_mean(content: dict[str, Any]) -> None:
    content["designs"][5]["mean"] *= 0.999


def _another_budget(content: dict[str, Any]) -> None:
    content["designs"][5]["budget"] *= 1 - 0.01 * content["sign"]


def _users(content: dict[str, Any]) -> None:
    for part in (content, *content["designs"]):
        part["users"] = round(part["users"] * 0.95)


def _bases(content: dict[str, Any]) -> None:
    """One share of delta more than there are."""
    content["bases"] -= 1


def _universe(content: dict[str, Any]) -> None:
    content["universe"] += 1


def _delta(content: dict[str, Any]) -> None:
    content["delta"] *= 0.999


def _threshold(content: dict[str, Any]) -> None:
    """A question that is harder to pass (allow) or to fail (block)."""
    for part in (content, *content["designs"]):
        part["k"] -= content["sign"] * max(1, content["k"] // 20)


MUTATIONS: list[Callable[[dict[str, Any]], None]] = [
    *(_nats, _weight, _first_weight, _line, _last_line, _clock, _clock_share, _charge),
    *(_design_share, _one_share, _negative_share, _another_mean, _another_budget),
    *(_users, _bases, _universe, _delta, _threshold),
]


@pytest.mark.parametrize("mutate", MUTATIONS)
@pytest.mark.parametrize("size", CHANGED)
def test_no_changed_certificate_is_proved(
    mutate: Callable[[dict[str, Any]], None], size: tuple[int, int, int, float, int]
) -> None:
    for name, content in proofs(size).items():
        changed = copy.deepcopy(content)
        mutate(changed)
        assert check_proof(changed), name


@pytest.mark.long
def test_certificates_of_few_large_groups_are_proved() -> None:
    """Where k is a tenth of n, weights end 22 standard deviations above the threshold, not 6."""
    question = {"users": 500, "k": 1000, "population": 10_000, "budget": 0.05, "delta": 0.05}
    for name, content in decision_criteria(**question, universe=3).proofs(3).items():
        assert check_proof(content) == "", name


def test_a_capped_design_is_proved_and_only_where_it_is_one() -> None:
    """Theorem H: a value counts for the budget at most."""
    question = {"users": 500, "k": 1000, "population": 10_000, "budget": 0.05, "delta": 0.05}
    content = decision_criteria(**question, universe=3).proofs(3)["allow"]
    assert all(design["capped"] for design in content["designs"])
    plain = content | {"designs": [{**each, "capped": False} for each in content["designs"]]}
    assert check_proof(plain).startswith("line")
    wide = [{**each, "budget": 0.1} for each in content["designs"]]
    assert check_proof(content | {"budget": 0.1, "designs": wide}).startswith("line")


@pytest.mark.parametrize("member", ["weights", "nats"])
def test_what_allows_must_not_increase(member: str) -> None:
    """Else a set above the budget is allowed while the smaller one that stands for it is not."""
    content = proofs(CHANGED[0])["allow"]
    if member == "weights":
        weights = content["designs"][1]["weights"]
        weights[-2] = weights[0]  # on the safe side, by itself
    else:
        content["nats"][3] = content["nats"][4] + 1
    assert "must not increase" in check_proof(content)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("mean", math.nan),
        ("mean", -1.0),
        ("scale", 0.0),
        ("starts", [1]),
        ("starts", [1, 10**12]),
        ("users", 10.5),
        ("users", True),
        ("weights", []),
        ("nats", [0.0]),
        ("nats", []),
        ("designs", []),
        ("designs", [{}]),
        ("share", 0.0),
        ("share", math.inf),
        ("clock", {}),
        ("delta", "x"),
        ("k", 10**400),
    ],
)
def test_nonsense_is_not_proved(member: str, value: object) -> None:
    content = proofs(CHANGED[0])["allow"]
    designs = [{**each, member: value} for each in content["designs"]]
    assert check_proof(
        content | {member: value} | ({} if member == "designs" else {"designs": designs})
    )


@pytest.mark.parametrize("size", CHANGED)
def test_a_file_of_before_is_proved_by_its_one_design_and_its_limits(
    size: tuple[int, int, int, float, int],
) -> None:
    users, population, k, budget, universe = size
    criteria = decision_criteria(
        users=users, k=k, population=population, budget=budget, delta=0.05, universe=universe
    )
    sides = {"allow": criteria.allowing, "block": criteria.blocking}
    for name, terms in zip(sides, criteria.log_terms, strict=True):
        mixture = sides[name]
        assert mixture is not None
        score = mixture.scores[0]
        critical = score.critical(terms[:4]).tolist()
        shared = {"delta": 0.05, "bases": criteria.bases, "universe": universe}
        before = {**score.to_json(), **shared, "limits": [float(users), *critical[1:]]}
        before |= {"weights": score.weights.tolist(), "scale": score.scale}
        content = json.loads(json.dumps(before))
        assert check_proof(content) == "", name
        looser = -1 if name == "block" else 1
        changed = [limit + looser * 0.01 * abs(limit) for limit in content["limits"]]
        assert check_proof(content | {"limits": changed}).startswith("limit of"), name
        assert typed(content, ProofSide, "a proof").limits == content["limits"], "readers take it"


@pytest.mark.parametrize(
    ("end", "known", "share"), [(5, 3, 0.4), (90, 300, 0.999), (400, 257, 0.2)]
)
def test_means_in_double_precision_lose_no_more_than_is_reckoned_with(
    end: int, known: int, share: float
) -> None:
    """Steps together at a time, below, at and beyond their number; half of 12 roundings a step."""
    f = np.append(np.exp(np.random.default_rng(end).normal(0, 9, end)), 1.0)
    found = _means_left(f, share, 1 - share, known)
    with ctx.workprec(400):
        left = [arb(float(value)) for value in f] + [arb(1)] * known
        kept, lost = arb(share), 1 - arb(share)
        for count, mean in enumerate(found.tolist()):
            assert abs(arb(mean) / left[0] - 1) <= (6 * count + 2) * ROUNDING, count
            left = [lost * a + kept * b for a, b in pairwise(left)]
