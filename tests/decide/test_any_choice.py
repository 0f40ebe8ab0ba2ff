"""A decision is the same whatever is chosen or changed around it, and carries its proof."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from fpmonitor.decide.deciding import recheck
from fpmonitor.decide.decision import Decision
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.estimate.looks import decision_criteria
from fpmonitor.monitor import Monitor
from fpmonitor.policy import Policy
from fpmonitor.population.memory import MemorySource
from fpmonitor.spectrum import CountSpectrum, SpectrumSource
from tests.decided import decide_on as decide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

USERS = 20_000


def columns(seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    device = rng.zipf(1.4, USERS).clip(max=30)
    return {
        "height": device % 7,
        "width": device % 11,
        "language": rng.zipf(1.7, USERS).clip(max=50),
        "plugins": rng.zipf(1.3, USERS).clip(max=4_000),
        "canvas": rng.integers(0, 15_000, USERS),
        "timezone": rng.integers(0, 12, USERS),
    }


def decision_on(
    users: Mapping[str, np.ndarray], candidates: tuple[str, ...] | None = None, **options: Any
) -> Decision:
    asked = tuple(sorted(candidates or users))
    policy = Policy(
        k=10,
        population=options.pop("population", USERS),
        budget=0.05,
        delta=options.pop("delta", 0.05),
        candidates=asked,
    )
    source = MemorySource(list(asked), [users[api] for api in asked])
    return decide(source, policy, seal="", **{"universe": 1000, **options})


def lists(decision: Decision) -> tuple[Any, ...]:
    return decision.allow, decision.block, decision.undecided


def test_naming_other_candidates_changes_no_verdict() -> None:
    users = columns()
    whole = decision_on(users)
    for candidates in (("height",), ("height", "language"), ("canvas", "timezone", "width")):
        part = decision_on(users, candidates)
        for apis in (*part.allow, *part.block):
            assert whole.verdict(apis)[0] == part.verdict(apis)[0]
    assert whole.block
    assert whole.allow


@pytest.mark.parametrize("seed", range(4))
def test_what_is_allowed_by_itself_is_allowed_with_all_its_subsets(seed: int) -> None:
    users = columns(seed)
    tests = decision_criteria(users=USERS, k=10, population=USERS, budget=0.05, delta=0.05)
    source = MemorySource(list(users), list(users.values()))
    allowed = {
        apis: tests.allow.holds(source.spectrum(apis), len(apis))
        for size in range(len(users) + 1)
        for apis in itertools.combinations(sorted(users), size)
    }
    assert 1 < sum(allowed.values()) < len(allowed)
    for apis, holds in allowed.items():
        for less in itertools.combinations(apis, len(apis) - 1) if apis else ():
            assert allowed[less] or not holds


def test_order_names_of_users_batches_and_a_tenth_digit_change_nothing() -> None:
    users = columns()
    first = decision_on(users)
    order = np.random.default_rng(2).permutation(USERS)
    shuffled = {api: codes[order] for api, codes in users.items()}
    renamed = {api: 20_000 - codes for api, codes in users.items()}
    for other in (shuffled, renamed):
        assert lists(decision_on(other)) == lists(first)
    assert lists(decision_on(users, delta=0.05 + 4.3e-11)) == lists(first)


@pytest.mark.long
def test_a_database_gives_one_verdict_whatever_its_batches_order_and_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    table = pl.DataFrame(
        {
            "user": [f"u{i}" for i in range(4_000)],
            "language": rng.zipf(2.2, 4_000).clip(max=12),
            "width": rng.zipf(1.5, 4_000).clip(max=40),
            "canvas": rng.integers(0, 2_500, 4_000),
        }
    )
    other = table.sample(fraction=1, shuffle=True, seed=1).with_columns(
        user="other " + pl.col("user"), canvas="value " + pl.col("canvas").cast(pl.String)
    )
    found = []
    for name, batches in (
        ("whole", [table]),
        ("parts", [other[:700], other[700:701], other[701:]]),
    ):
        with Monitor(tmp_path / name, create=True) as monitor:
            for batch in batches:
                monitor.ingest(batch)
            for delta in (0.05, 0.05 + 4.3e-11, 0.05 - 1e-11):
                found.append(monitor.decide(k=10, budget=0.1, population=4_000, delta=delta))
    assert found[0].block
    assert found[0].allow
    assert all(lists(decision) == lists(found[0]) for decision in found)
    assert found[3].proof == found[0].proof


def test_a_question_fixed_beforehand_decides_more_and_says_so() -> None:
    users = columns(3)
    chosen, fixed = decision_on(users), decision_on(users, universe=None)
    for apis in chosen.allow:
        assert fixed.verdict(apis)[0] == "allow"
    assert "whichever APIs and view of the users are chosen after looking" in chosen.guarantee
    assert "k, population and budget were fixed before the data were seen" in chosen.guarantee
    assert "this question and its view of the users were fixed before" in fixed.guarantee
    assert (chosen.universe, fixed.universe) == (1000, None)


@pytest.mark.parametrize("population", [USERS, 50 * USERS])
def test_every_verdict_follows_from_the_proof_and_a_count_spectrum(population: int) -> None:
    users = columns()
    decision = decision_on(users, population=population)
    written = json.loads(json.dumps(decision.to_json(), allow_nan=False))
    assert Decision.from_json(written) == decision
    source = MemorySource(list(users), list(users.values()))

    def evidence(side: str, apis: tuple[str, ...]) -> float:
        """By docs/certificate.md alone: the sum over designs, nats."""
        proof, spectrum = written["proof"][side], source.spectrum(apis)
        terms = []
        for design in proof["designs"]:
            weights: list[float] = design["weights"]
            groups = zip(spectrum.counts.tolist(), spectrum.values.tolist(), strict=True)
            points = sum(weights[min(count, len(weights) - 1)] * count * n for count, n in groups)
            price = design["slope"] * design["budget"] + design["intercept"] + design["charge"]
            price -= design["clock"]["log_factor"]
            terms.append(
                math.log(design["share"]) + design["sign"] * design["scale"] * points - price
            )
        return max(terms) + math.log(sum(math.exp(term - max(terms)) for term in terms))

    assert decision.allow
    for apis in decision.allow:
        assert evidence("allow", apis) >= written["proof"]["allow"]["nats"][len(apis)]
    for apis in (*decision.block, *decision.undecided):
        assert evidence("allow", apis) < written["proof"]["allow"]["nats"][len(apis)]
    for apis in decision.block:
        assert evidence("block", apis) >= written["proof"]["block"]["nats"][len(apis)]


def test_a_large_set_is_blocked_although_no_smaller_one_is_above_the_budget() -> None:
    rng = np.random.default_rng(1)
    users = {api: rng.integers(0, 12, USERS) for api in "abcde"}
    policy = Policy(k=50, population=10**6, budget=0.6, delta=0.05, candidates=tuple(users))
    source = MemorySource(list(users), list(users.values()))
    decision = decide(source, policy, seal="", universe=1000)
    # values of four APIs belong to 48 users each: half of them are exposed
    assert len(decision.undecided) == 5
    assert decision.block == (tuple(users),)


def test_resuming_never_tests_by_the_weights_of_the_file() -> None:
    users = columns()
    part = decision_on(users, max_size=1)
    assert part.proof is not None
    proof = json.loads(json.dumps(part.proof))
    proof["allow"]["nats"][1:] = [1e9] * (len(users))
    refusing = replace(part, allow=(), block=(), undecided=(), proof=proof)
    assert lists(decision_on(users, known=refusing)) == lists(decision_on(users))
    assert lists(decision_on(users, known=part)) == lists(decision_on(users))
    with pytest.raises(InputError, match="proof"):
        decision_on(users, known=replace(part, proof=None))
    with pytest.raises(InputError, match="universe"):
        decision_on(users, known=part, universe=None)


def test_groups_too_large_for_the_tables_are_an_error_that_says_so() -> None:
    policy = Policy(k=2, population=2, budget=0.05, delta=0.05, candidates=("a",))
    source = MemorySource(["a"], [np.array([0])], np.array([10**8]))
    with pytest.raises(UndecidableError, match="100,000,000 of the observed"):
        decide(source, policy, seal="", universe=1000)


def test_a_decision_holds_on_the_users_that_it_was_made_on() -> None:
    users = columns()
    decision = decision_on(users)
    verdicts = recheck(decision, MemorySource(list(users), list(users.values())))
    assert set(verdicts.values()) == {"allow"}


def test_an_unsafe_list_is_found_out() -> None:
    users = columns()
    decision = replace(decision_on(users), allow=(("canvas",), ("canvas", "plugins")))
    verdicts = recheck(decision, MemorySource(list(users), list(users.values())))
    assert set(verdicts.values()) == {"block"}


class MaskedSource(SpectrumSource):
    """Users of whom nothing but their number may be known: alone at most, all together at least."""

    def __init__(self, apis: tuple[str, ...], users: int, *, is_least: bool = False) -> None:
        self._apis, self._users, self._is_least = apis, users, is_least

    @property
    def apis(self) -> tuple[str, ...]:
        return self._apis

    @property
    def users(self) -> int:
        return self._users

    @property
    def least(self) -> MaskedSource | None:
        return None if self._is_least else MaskedSource(self._apis, self._users, is_least=True)

    def spectrum(self, apis: Sequence[str]) -> CountSpectrum:
        whole = self._is_least or not apis
        return CountSpectrum.from_mapping({self._users: 1} if whole else {1: self._users})


def test_groups_that_may_be_safe_block_nothing() -> None:
    users = columns()
    decision = replace(decision_on(users), allow=(("canvas",), ("canvas", "plugins")))
    masked = MaskedSource(tuple(sorted(users)), len(users["canvas"]))
    assert set(recheck(decision, masked).values()) == {"undecided"}
    assert set(recheck(decision, masked.least or masked).values()) == {"allow"}
