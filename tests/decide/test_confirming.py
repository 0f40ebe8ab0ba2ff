"""`decide --search-users`: searched among some users, confirmed on all others."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fpmonitor.answers.decide import asked_question, decide_sets
from fpmonitor.cli import run
from fpmonitor.decide import confirming
from fpmonitor.decide.asked import DecideQuestion
from fpmonitor.decide.decision import Decision
from fpmonitor.decide.files import read_decision
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.estimate.looks import Drawing, decision_criteria
from fpmonitor.policy import Policy
from fpmonitor.population import stored as rows_of_store
from fpmonitor.population.kept_values import kept_in_memory
from fpmonitor.population.memory import MemorySource
from fpmonitor.population.population import Population
from fpmonitor.population.snapshot import MemorySnapshot
from fpmonitor.proof.files import check_proofs
from fpmonitor.spectrum import CountSpectrum
from tests.decided import decided
from tests.stored import stored

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


APIS = ("a", "b", "c", "d", "e")
USERS = 60_000


def texts_of(_api: str) -> dict[int, tuple[str, str]]:
    """Values of all codes: what has none is no evidence."""
    return {code: ("value", str(code)) for code in range(30_000)}


def population(seed: int, users: int = USERS) -> Population:
    """Independent values, more of each API than of the one before."""
    rng = np.random.default_rng(seed)
    columns = {
        api: 1 + np.minimum(rng.geometric(0.3 / place, users), 40 * place)
        for place, api in enumerate(APIS, 1)
    }
    return Population(MemorySnapshot(columns=columns, texts=texts_of, digest=str(seed)))


def sets_of(decision: Decision) -> tuple[set[tuple[str, ...]], set[tuple[str, ...]]]:
    """All sets that a decision allows, and that it blocks."""
    every = [apis for size in range(1, 6) for apis in combinations(APIS, size)]
    return tuple(  # type: ignore[return-value]
        {apis for apis in every if decision.verdict(apis)[0] == verdict}
        for verdict in ("allow", "block")
    )


def test_others_confirm_what_few_users_leave_open_and_every_proof_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(confirming, "ENTRIES", 15_000)  # so that few values are kept
    users = population(1)
    few = decide_sets(
        Population(
            MemorySnapshot(columns={api: users.column(api)[:6000] for api in APIS}, texts=texts_of)
        ),
        DecideQuestion(k=10, population=USERS, budget=0.05, fixed_question=True),
    )
    question = DecideQuestion(k=10, population=USERS, budget=0.05)
    confirmed = decide_sets(users, replace(question, search_users=6000))
    whole = decide_sets(users, replace(question, fixed_question=True))
    allowed, blocked = sets_of(confirmed)
    assert len(allowed) > len(sets_of(few)[0])
    assert allowed <= sets_of(whole)[0]
    assert not blocked & sets_of(whole)[0]
    tested = confirmed.confirmation
    assert tested is not None
    assert (confirmed.users, tested.searched, tested.level) == (USERS, 6000, 2)
    assert "6,000 users were searched" in confirmed.guarantee
    assert "decided once, provided that this question" in confirmed.guarantee
    path = tmp_path / "decision.json"
    path.write_text(json.dumps(confirmed.to_json()))
    assert read_decision(path) == confirmed
    assert run(["audit", "certificate", str(path), "--format", "json"]) == 3  # without the users
    content = confirmed.to_json()
    content["confirmation"]["proof"]["allow"]["delta"] *= 1.1
    path.write_text(json.dumps(content))
    assert run(["audit", "certificate", str(path), "--format", "json"]) == 1
    assert "proof of allow by the others" in capsys.readouterr().out


def test_a_registered_question_has_its_level_for_the_search_and_the_others_together() -> None:
    users = population(1, 6000)
    question = DecideQuestion(k=10, population=6000, budget=0.3, search_users=1500)
    policy = Policy(k=10, population=6000, budget=0.3, delta=0.05, candidates=APIS)
    same = asked_question(users, Decision.begun(policy))
    decision = decide_sets(users, question, registered=[same])
    tested = decision.confirmation
    assert decision.registered
    assert tested is not None
    assert tested.chains
    assert decision.level == pytest.approx(0.2 * 0.025)
    for side in tested.proof.values():
        assert side["delta"] == pytest.approx(0.8 * 0.025 / len(tested.chains))
    content = decision.to_json()
    assert {finding.answer for finding in check_proofs(content)} == {"proved"}
    tested.proof["allow"]["delta"] = 0.8 * 0.05 / len(tested.chains)  # that of all questions
    assert "another question: level" in {found.reason for found in check_proofs(decision.to_json())}


def test_a_proof_for_few_values_proves_nothing_of_users_who_all_count() -> None:
    question = {"users": 5000, "k": 5, "population": 5000, "budget": 0.2, "delta": 0.05}
    proof = decision_criteria(**question, universe=2, drawing=Drawing(value_share=0.25)).proofs(2)
    policy = {name: question[name] for name in ("k", "population", "budget", "delta")}
    content = {
        "policy": policy | {"candidates": ["a", "b"]},
        "data": {"users": 5000},
        "proof": proof,
    }
    found = [finding.reason for finding in check_proofs(content)]
    assert found == ["another question: value_share"] * 2


@pytest.mark.long
def test_what_was_confirmed_is_proved_again_from_the_database_and_from_spectra(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = [population(1).column(api)[:12_000].tolist() for api in APIS]
    rows = zip(*columns, strict=True)
    db = stored(tmp_path, (dict(zip(APIS, row, strict=True)) for row in rows))
    made, spectra = tmp_path / "decision.json", tmp_path / "spectra.json"
    asked = ["decide", "--db", db, "--budget", "0.1", "--search-users", "3000", "-q"]
    assert run([*asked, "-o", str(made)]) == 0
    audit = ["audit", "certificate", str(made), "--format", "json"]
    content = json.loads(made.read_text())
    assert content["confirmation"]["confirmed"]
    capsys.readouterr()
    assert run([*audit, "--db", db, "--write-spectra", str(spectra), "--unsafe-counts"]) == 0
    claims = {row["claim"] for row in json.loads(capsys.readouterr().out)}
    assert {"confirmed", "allow", "block", "names"} <= claims
    assert run([*audit, "--spectra", str(spectra)]) == 0
    blocked = content["block"].pop(0)
    for name in ("block", "undecided"):
        content[name] = [apis for apis in content[name] if not {*apis} <= {*blocked}]
    for changed in (
        content | {"allow": [*content["allow"], blocked]},
        content
        | {
            "allow": [*content["allow"], blocked],
            "confirmation": content["confirmation"]
            | {"confirmed": [*content["confirmation"]["confirmed"], blocked]},
        },
    ):
        made.write_text(json.dumps(changed))
        assert run([*audit, "--db", db]) == 1


def test_an_audit_divides_the_users_as_the_decision_did_whatever_room_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows in memory and queries divide by other rules: the file tells which."""
    draw = random.Random(1)
    rates = {"a": 1.0, "b": 0.2, "c": 0.02, "d": 0.05}
    rows = [{api: int(draw.expovariate(rate)) for api, rate in rates.items()} for _ in range(4000)]
    db, made = stored(tmp_path, rows), str(tmp_path / "decision.json")
    asked = ["decide", "--db", db, "--budget", "10%", "--k", "5", "--search-users", "1000"]
    monkeypatch.setattr(rows_of_store, "has_room_for", lambda *_: False)
    assert run([*asked, "--quiet", "-o", made]) == 0
    monkeypatch.setattr(rows_of_store, "has_room_for", lambda *_: True)
    assert run(["audit", "certificate", made, "--db", db]) == 0
    assert run(["gate", made, "--db", db, "--want", "a", "--exit-zero"]) == 0


def test_nobody_draws_again_by_another_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = stored(tmp_path, ({"Screen.width": i % 7, "Screen.height": i % 211} for i in range(900)))
    asked = ["decide", "--db", db, "--budget", "0.2", "--k", "5", "--search-users", "300"]
    assert run([*asked, "--engine", "duckdb"]) == 2
    assert "--search-users: not with --engine" in capsys.readouterr().err


def test_such_a_decision_is_no_test_of_other_users(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = stored(tmp_path, ({"Screen.width": i % 7, "Screen.height": i % 211} for i in range(3000)))
    decided = str(tmp_path / "decision.json")
    asked = ["decide", "--db", db, "--budget", "0.2", "--k", "5", "--quiet", "-o", decided]
    assert run([*asked, "--search-users", "1000"]) == 0
    assert run(["gate", decided, "--exit-zero", "--want", "Screen.width"]) == 0
    assert run(["check", decided, "--db", db]) == 2
    assert "confirmed on the others, once" in capsys.readouterr().err
    for option in ("--realised", "--forecast", "--tolerance"):
        assert run([*asked, "--search-users", "1000", option]) == 2
        assert f"not with {option}" in capsys.readouterr().err
    assert run([*asked, "--search-users", "1000", "--resume", decided]) == 2
    assert "not with --resume" in capsys.readouterr().err
    assert run([*asked, "--search-users", "2999"]) == 2
    assert "must be 2 to 2,998" in capsys.readouterr().err
    assert run([*asked, "--confirm", "3"]) == 2
    assert "say how many to search: --search-users" in capsys.readouterr().err


@pytest.mark.long
def test_an_allowed_set_above_the_budget_is_rarer_than_delta() -> None:
    """Chosen by the users searched, among sets all of which are just above the budget."""
    rng = np.random.default_rng(2)
    rare = 6_000  # values of equally many users each, k/n or less: nearly all of these are exposed
    wrong = 0
    for seed in range(12):
        columns = {
            api: np.where(rng.random(20_000) < 0.055, 2 + rng.integers(0, rare, 20_000), 1)
            for api in APIS
        }
        users = Population(MemorySnapshot(columns=columns, texts=texts_of, digest=f"s{seed}"))
        decision = decide_sets(
            users, DecideQuestion(k=10, population=20_000, budget=0.05, search_users=2000)
        )
        wrong += bool(decision.allow)
    assert wrong <= 1


def test_chains_stop_at_the_first_set_that_does_not_pass() -> None:
    """An error needs that the first set that is otherwise comes out wrongly."""
    sets = [("a",), ("a", "b"), ("a", "b", "c")]
    alike, alone = (CountSpectrum.from_counts(counts) for counts in ([20_000], [1] * 20_000))

    @dataclass
    class Others:
        exposing: set[tuple[str, ...]]
        users: int = 20_000

        def kept_spectra(self, asked: Sequence[tuple[str, ...]], _level: int) -> object:
            return [alone if apis in self.exposing else alike for apis in asked]

    policy = Policy(k=20, population=20_000, budget=0.05, delta=0.05, candidates=("a", "b", "c"))
    begun = decided("abc", policy=policy, level=0.01)
    for exposing, confirmed, refuted in (
        ({sets[1]}, (sets[0],), ()),
        ({sets[1], sets[2]}, (sets[0],), (sets[1],)),
        ({sets[0], sets[1]}, (), ()),
    ):
        tested = confirming.on_others(begun, 2000, Others(exposing), [sets])  # type: ignore[arg-type]
        assert (tested.confirmed, tested.refuted) == (confirmed, refuted)


@pytest.mark.parametrize("level", [0, 3, 6])
def test_values_are_kept_whole_and_as_many_as_the_level_says(level: int) -> None:
    rng = np.random.default_rng(3)
    source = MemorySource(["a", "b"], [rng.integers(0, 300, 50_000), rng.integers(0, 90, 50_000)])
    [kept] = kept_in_memory(source, "x").kept_spectra([("a", "b")], level)
    whole = source.spectrum(("a", "b"))
    assert kept is not None
    expected = whole.support / 2**level
    assert abs(kept.support - expected) <= 5 * np.sqrt(expected) * (level > 0)
    mean = kept.users / kept.support  # all users of each
    assert mean == pytest.approx(whole.users / whole.support, rel=0.1 * (level > 0))


@dataclass(frozen=True)
class OtherValues:
    """Users of whom nobody, or everybody, shares a value with another, after a while."""

    users: int
    others: int

    def kept_spectra(self, sets: Sequence[Sequence[str]], level: int) -> list[CountSpectrum | None]:
        time.sleep(0.2)
        kept = max(1, self.users // self.others >> level)
        return [CountSpectrum.from_counts(np.full(kept, self.others))] * len(sets)


@pytest.fixture(scope="module")
def of_few() -> tuple[Decision, MemorySource]:
    """A decision of few users, and these."""
    users = population(1)
    columns = {api: users.column(api)[:6000] for api in APIS}
    few = Population(MemorySnapshot(columns=columns, texts=texts_of))
    decision = decide_sets(
        few, DecideQuestion(k=10, population=USERS, budget=0.05, fixed_question=True)
    )
    return decision, MemorySource(APIS, list(columns.values()))


def test_the_time_and_the_sets_of_both_parts_are_told(
    of_few: tuple[Decision, MemorySource],
) -> None:
    found, searched = of_few
    decided = confirming.confirm(found, searched, OtherValues(54_000, 54_000), chains=1)
    assert decided.seconds >= found.seconds + 0.2
    assert decided.evaluated > found.evaluated
    assert decided.confirmation is not None
    assert decided.confirmation.confirmed


def test_others_who_contradict_the_users_searched_end_it_with_a_hint(
    of_few: tuple[Decision, MemorySource],
) -> None:
    found, searched = of_few
    allowed = replace(found, undecided=(("a",),), allow=(("a",),), block=())
    with pytest.raises(UndecidableError, match="both within and above") as raised:
        confirming.confirm(allowed, searched, OtherValues(54_000, 1))
    assert raised.value.hint


def test_a_search_of_all_users_is_refused() -> None:
    with pytest.raises(InputError, match="search-users"):
        population(1, 100).searched_and_rest(100, APIS)


def test_as_many_are_searched_as_were_asked_for_and_the_same_by_that_number() -> None:
    """By a share, 15 of 55 were 14, and 14 were 13: no audit found the users again."""
    users = population(1, 55)
    for number in (15, 14):
        searched, rest = users.searched_and_rest(number, APIS)
        assert (searched.users, rest.users) == (number, 55 - number)
