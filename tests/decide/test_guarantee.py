"""The sentence of a decision: it says what is proved, for whom, and who lacks a candidate."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from fpmonitor.decide.guarantee import guarantee, in_short, limits
from fpmonitor.monitor import Monitor
from fpmonitor.policy import Policy
from tests.decided import decided

if TYPE_CHECKING:
    from pathlib import Path

    from fpmonitor.decide.decision import Decision, Setting

USERS = 2000


def decision_of(policy: Policy, setting: Setting) -> Decision:
    return decided(policy.candidates, policy=policy, setting=setting, users=USERS)


def test_the_sentence_bounds_an_average_over_populations() -> None:
    policy = Policy(k=10, population=1000, budget=0.05, delta=0.05, candidates=("A",))
    said = guarantee(decision_of(policy, "population"))
    assert "at most 5 % of the users" in said
    assert "on average over populations of 1,000" in said
    exact = Policy(k=10, population=USERS, budget=0.05, delta=None, candidates=("A",))
    assert "average" not in guarantee(decision_of(exact, "sample"))
    for together, promise in ((False, "a set named before looking"), (True, "hold together")):
        said = limits(population=1000, users=USERS, delta=0.05, together=together)
        assert promise in said
        assert "average over populations of 1,000" in said
        assert "however often" in said


@pytest.mark.parametrize(("delta", "sure"), [(1e-8, "0.99999999"), (0.025, "0.975")])
def test_a_sentence_promises_what_was_tested_and_no_rounded_number(delta: float, sure: str) -> None:
    """Six digits of 1 - 1e-8 are 1, and six of a budget may be less than it."""
    policy = Policy(k=10, population=1000, budget=0.012345444, delta=delta, candidates=("A",))
    decision = decision_of(policy, "population")
    said = guarantee(decision)
    assert said.startswith(f"With probability at least {sure}, ")
    assert "at most 1.2345444 % of the users" in said
    assert "more than 1.2345444 % of 1,000 users" in in_short(decision)[0]
    assert f"probability {sure} for a set" in limits(population=1000, users=USERS, delta=delta)


def test_a_decision_says_which_candidates_many_users_lack(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with log.open("w") as lines:
        for i in range(USERS):
            seen = {"Screen.angle": i % 3, "Screen.height": i} if i else {"Screen.angle": 0}
            rare = {"Canvas.hash": f"h{i}"} if i % 50 == 0 else {}
            few = {"Screen.depth": 24} if i < 3 else {}
            lines.write(json.dumps({"user": f"u{i}", **seen, **rare, **few}) + "\n")
    with Monitor(tmp_path / "d.duckdb", create=True) as monitor:
        monitor.ingest([str(log)])
        decision = monitor.decide(k=10, budget=0.3)
        narrow = monitor.decide(k=10, budget=0.3, candidates=["Screen.angle", "Screen.height"])
    assert decision.to_json()["coverage"] == {
        "Canvas.hash": 0.02,
        "Screen.depth": None,
        "Screen.height": 1.0,
        "Screen.angle": 1.0,
    }
    assert "no evidence about Screen.depth" in decision.guarantee
    assert "a value of Canvas.hash (2 %)" in decision.guarantee
    assert "Not all" not in narrow.guarantee
