"""Redaction: rules keep their promise, cost as little as they can, and do not tell."""

from __future__ import annotations

import itertools
import json
import math
import random
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fpmonitor.cli import run
from fpmonitor.errors import InputError, PolicyError, UndecidableError
from fpmonitor.estimate.exposure import statistical_exposure
from fpmonitor.private.client import reports_for
from fpmonitor.private.folder import make_pilot
from fpmonitor.private.group import SealedChannel
from fpmonitor.private.keys import SecretKeys
from fpmonitor.private.redaction import cover_for, plan_from_marginals, plan_from_sample
from fpmonitor.private.study import (
    CollectionRequest,
    RedactionRule,
    SetPromise,
    Study,
    check_ask,
    first_ask,
    release_ask,
)
from fpmonitor.private.table import count_reports, redact_table
from fpmonitor.private.tokens import REDACTED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from fpmonitor.private.counts import Counts

NAMES = ("a", "b", "c")


RING = SecretKeys.generate("curator")


def study_of(apis: Sequence[str] = NAMES, **numbers: float) -> Study:
    terms = {"population": 1000, "k": 3, "budget": 0.2} | numbers
    return Study(
        name="test", apis=tuple(apis), minimum_batch=2, curator_key=RING.verifying, **terms
    )  # type: ignore[arg-type]


def random_table(seed: int, users: int = 150) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    rows = rng.geometric(rng.uniform(0.25, 0.8, 3), (users, 3)).clip(max=9)
    return pl.DataFrame({api: [f"={v}" for v in rows[:, i]] for i, api in enumerate(NAMES)})


def marginals(table: pl.DataFrame) -> Counts:
    return count_reports(table, [(api,) for api in NAMES])


def exposed_share(table: pl.DataFrame, k: int) -> float:
    sizes = table.group_by(table.columns).len()["len"].to_numpy()
    return float(sizes[sizes < k].sum() / len(table))


@settings(deadline=None)
@given(st.floats(0, 0.99), st.floats(0.01, 1))
def test_a_redacted_token_is_rare_as_often_as_asked(rare: float, suspicion: float) -> None:
    if rare >= suspicion:
        with pytest.raises(PolicyError, match="share of rare values"):
            cover_for(rare, suspicion)
        return
    cover = cover_for(rare, suspicion)
    assert 0 <= cover < 1
    redacted = rare + (1 - rare) * cover
    assert rare == pytest.approx(suspicion * redacted, abs=1e-12)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32), st.integers(0, 9))
def test_redaction_without_cover_never_raises_the_exposure(seed: int, kept: int) -> None:
    table = random_table(seed)
    keep = frozenset(random.Random(seed).sample([f"={v}" for v in range(1, 10)], kept))
    rules = {api: RedactionRule(keep=keep) for api in NAMES[: 1 + seed % 3]}
    for k in (2, 3, 7):
        assert exposed_share(redact_table(table, rules), k) <= exposed_share(table, k)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 2**32), st.integers(2, 5), st.floats(0.03, 0.5), st.sampled_from([0.4, 0.7, 1.0])
)
def test_rules_from_marginals_keep_their_promise_for_the_users_who_made_them(
    seed: int, k: int, budget: float, suspicion: float
) -> None:
    table = random_table(seed)
    counts = marginals(table)
    study = study_of(k=k, budget=budget)
    plan = plan_from_marginals(study, counts, NAMES, setting="fixed", suspicion=suspicion)
    assert plan.within_budget
    assert plan.after <= budget
    for api, rule in plan.rules.items():
        assert all(counts[api,][token,] >= k for token in rule.keep)
    for draw in range(5):
        shown = redact_table(table, plan.rules, np.random.default_rng(draw))
        assert exposed_share(shown, k) <= plan.after + 1e-9
    assert all(one.suspicion <= suspicion + 1e-9 for one in plan.per_api)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32), st.floats(0.01, 0.1))
def test_no_other_numbers_of_kept_values_lose_less(seed: int, budget: float) -> None:
    table = random_table(seed, users=400)
    study = study_of(population=800, k=3, budget=budget)
    plan = plan_from_marginals(study, marginals(table), NAMES, suspicion=1.0)
    if not plan.rules:
        return
    ranked = [
        np.sort([n for n in tuples.values() if n >= 3])[::-1]
        for tuples in marginals(table).values()
    ]
    possible = itertools.product(*(range(one.size + 1) for one in ranked))
    least = min(
        sum(401 - one[:r].sum() for one, r in zip(ranked, kept, strict=True)) / 401 / 3
        for kept in possible
        if 2 / 800 * math.prod(r + 1 for r in kept) <= budget
    )
    assert plan.loss <= least + 0.005  # the one more user of the rule of succession


def test_nothing_is_withheld_from_a_set_that_is_safe_as_it_is() -> None:
    table = pl.DataFrame({api: [f"={i % 2}" for i in range(200)] for api in NAMES})
    study = study_of(k=3, budget=0.2, population=200)
    for plan in (
        plan_from_marginals(study, marginals(table), NAMES, setting="fixed"),
        plan_from_sample(study, table, NAMES, rng=np.random.default_rng(0), setting="fixed"),
    ):
        assert (plan.rules, plan.loss, plan.before) == ({}, 0.0, plan.after)


def test_rules_from_a_sample_are_within_the_budget_and_beat_those_from_marginals() -> None:
    """Columns that say the same: their joint values are few, which marginals cannot know."""
    rng = np.random.default_rng(1)
    value = rng.geometric(0.2, 2000)
    table = pl.DataFrame({api: [f"={v}" for v in value] for api in NAMES})
    study = study_of(k=10, budget=0.01, population=2000)
    plan = plan_from_sample(study, table, NAMES, rng=rng, setting="fixed", suspicion=1.0)
    assert plan.before == exposed_share(table, 10) > 0.01
    assert plan.after == exposed_share(redact_table(table, plan.rules), 10) <= 0.01
    blind = plan_from_marginals(study, marginals(table), NAMES, setting="fixed", suspicion=1.0)
    assert plan.loss < blind.loss / 3
    looser = study_of(k=10, budget=0.015, population=2000)
    covered = plan_from_sample(looser, table, NAMES, rng=rng, setting="fixed", suspicion=0.5)
    assert covered.within_budget
    assert plan.loss < covered.loss < 0.6


def law_after(joint: np.ndarray, rules: Mapping[str, RedactionRule]) -> np.ndarray:
    """Law of the redacted tuples of independent dice; the last place of an axis is `redacted`."""
    law = np.pad(joint, [(0, 1)] * 3)
    for axis, api in enumerate(NAMES):
        if api not in rules:
            continue
        moved = np.moveaxis(law, axis, 0)
        size = moved.shape[0] - 1
        sent = np.array(
            [(f"={v}" in rules[api].keep) * (1 - rules[api].cover) for v in range(size)]
        )
        out = moved[:size] * (1 - sent).reshape(-1, 1, 1)
        moved[size] += out.sum(0)
        moved[:size] *= sent.reshape(-1, 1, 1)
    return law.ravel()


@pytest.mark.parametrize("suspicion", [0.6, 1.0])
def test_the_certificate_after_redaction_holds_for_the_law_of_redacted_tuples(
    suspicion: float,
) -> None:
    joint = np.random.default_rng(3).dirichlet(np.full(60, 0.3)).reshape(5, 4, 3)
    study = study_of(population=700, k=4, budget=0.04, delta=0.2)
    rng = np.random.default_rng(4)
    failed, within, runs = 0, 0, 25
    for _ in range(runs):
        drawn = np.unravel_index(rng.choice(60, 800, p=joint.ravel()), joint.shape)
        table = pl.DataFrame(
            {api: [f"={v}" for v in column] for api, column in zip(NAMES, drawn, strict=True)}
        )
        plan = plan_from_sample(study, table, NAMES, rng=rng, suspicion=suspicion)
        truth = statistical_exposure(law_after(joint, plan.rules), k=4, population=700)
        failed += truth > plan.after
        within += plan.within_budget
        assert plan.rules
    assert within > runs / 2
    assert stats.binom.sf(failed - 1, runs, 0.2) > 1e-3


def test_a_user_redacts_as_the_simulation_does() -> None:
    table = random_table(5, users=30)
    study = study_of()
    rules = {api: RedactionRule(keep=frozenset({"=1", "=2"})) for api in ("a", "c")}
    promise = SetPromise(digest="", upper=0.1)
    ask = release_ask(study, promise, NAMES, RING.sign, rules=rules)
    answered = [reports_for(study, ask, row)[0][1] for row in table.iter_rows(named=True)]
    assert answered == redact_table(table, rules).rows()
    assert REDACTED in {token for tokens in answered for token in tokens}


def test_covers_redact_kept_values_as_often_as_they_say() -> None:
    table = pl.DataFrame({"a": ["=1"] * 4000})
    rule = RedactionRule(keep=frozenset({"=1"}), cover=0.3)
    shown = redact_table(table, {"a": rule}, np.random.default_rng(0))
    hidden = int((shown["a"] == REDACTED).sum())
    assert stats.binomtest(hidden, 4000, 0.3).pvalue > 1e-4
    with pytest.raises(InputError, match="generator"):
        redact_table(table, {"a": rule})


def test_what_cannot_be_planned_is_said() -> None:
    table = random_table(1)
    counts = marginals(table)
    with pytest.raises(PolicyError, match="suspicion"):
        plan_from_marginals(study_of(), counts, NAMES, suspicion=0.0)
    with pytest.raises(UndecidableError, match="everything redacted"):
        plan_from_marginals(study_of(k=100, budget=0.01), counts, NAMES, setting="fixed")
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="lack"):
        plan_from_sample(study_of(), table, ("a", "z"), rng=rng)
    with pytest.raises(UndecidableError, match="4 users"):
        plan_from_sample(study_of(), table[:3], NAMES, rng=rng)


def test_the_command_writes_the_rules_into_the_ask_of_the_analyst(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unlike = pl.DataFrame({"b": [f"={number}" for number in range(120)]})
    table = random_table(7, users=120).with_columns(unlike)
    study = make_pilot(tmp_path / "pilot", study_of(population=5000, k=3, budget=0.02))
    channel = SealedChannel(tmp_path / "pilot")
    channel(first_ask(study), list(table.iter_rows(named=True)))
    channel.close()
    ask = tmp_path / "ask.json"
    arguments = [str(tmp_path / "pilot"), "--redact", "c,a"]
    assert run(["private", "select", *arguments, "-o", str(ask)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["after"] <= 0.02 < printed["before"]
    written = CollectionRequest.read(ask)
    check_ask(study, written)
    assert (written.sets, written.recipient) == ((("a", "c"),), "analyst")
    assert {one["kept"] for one in printed["per_api"]} == {
        len(rule.keep) for rule in written.redact.values()
    }
    log, db = tmp_path / "users.csv", str(tmp_path / "users.duckdb")
    pl.DataFrame({"user": range(120)}).hstack(table).write_csv(log)
    assert run(["ingest", str(log), "--db", db, "--ignore", "b"]) == 0
    capsys.readouterr()
    fixed = ["--setting", "fixed", "--suspicion", "1", "--sample", db]
    assert run(["private", "select", *arguments, *fixed]) == 0
    seeing = json.loads(capsys.readouterr().out)
    assert seeing["basis"] == "count"
    assert seeing["before"] == exposed_share(table.select("a", "c"), 3)
    assert seeing["after"] <= 0.02 < seeing["before"]
    run(["private", "select", str(tmp_path / "pilot"), "--redact", "b"])
    assert "nothing of b is kept: drop this API from the set instead" in capsys.readouterr().err
    assert run(["private", "select", *arguments, "--suspicion", "2"]) == 2
    assert "suspicion" in capsys.readouterr().err
