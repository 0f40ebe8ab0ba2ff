"""Absent values: who lacks one may count as exposed, in every engine and in every set."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.cli import run
from fpmonitor.errors import InputError
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.monitor import Monitor
from fpmonitor.policy import SampleModel, Strata
from fpmonitor.population.population import Population
from fpmonitor.population.snapshot import MemorySnapshot
from fpmonitor.question import Missing, Question, strata_file
from tests.stored import stored

if TYPE_CHECKING:
    from pathlib import Path

USERS, ASKED = 5000, 50
EXPOSED = Question(2, missing="exposed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everybody has one of three values; one user in fifty was asked for a value of its own."""
    folder = tmp_path_factory.mktemp("absent")
    with (folder / "log.jsonl").open("w") as lines:
        for i in range(USERS):
            own = {"Canvas.hash": f"h{i}"} if i % ASKED == 0 else {}
            lines.write(json.dumps({"user": f"u{i}", "Screen.orientation": i % 3, **own}) + "\n")
    with Monitor(folder / "d.duckdb", create=True) as monitor:
        monitor.ingest([str(folder / "log.jsonl")])
    return folder


def test_an_api_that_few_were_asked_for_is_allowed_in_silence_no_longer(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = str(folder / "d.duckdb")
    asked = ["decide", "--k", "10", "--budget", "0.05", "--db", db, "--format", "json"]
    assert run(asked) == 0
    printed = capsys.readouterr()
    decision = json.loads(printed.out)
    assert ["Canvas.hash", "Screen.orientation"] in decision["allow"]
    assert "not all users have a value of Canvas.hash (2 %)" in printed.err
    assert "Canvas.hash (2 %)" in decision["guarantee"]
    assert run([*asked, "--missing", "exposed"]) == 0
    decision = json.loads(capsys.readouterr().out)
    assert decision["allow"] == [["Screen.orientation"]]
    assert decision["block"] == [["Canvas.hash"]]
    assert "count as exposed" in decision["guarantee"]


def test_a_check_counts_absent_users_as_the_decision_did(folder: Path, tmp_path: Path) -> None:
    db, out = str(folder / "d.duckdb"), str(tmp_path / "decision.json")
    options = ["--budget", "0.05", "--db", db, "-o", out, "--quiet"]
    assert run(["decide", *options, "--missing", "exposed"]) == 0
    content = json.loads((tmp_path / "decision.json").read_text())
    assert content["missing"] == "exposed"
    assert run(["check", out, "--db", db]) == 0
    assert content["utility"] == content["utility_bound"] == 1
    content |= {
        "allow": [["Canvas.hash"], ["Screen.orientation"]],
        "recommended": ["Canvas.hash"],
        "block": [],
    }
    content |= {"undecided": [["Canvas.hash", "Screen.orientation"]]}
    (tmp_path / "decision.json").write_text(json.dumps(content))
    assert run(["check", out, "--db", db]) == 2  # these very users do not bear it out
    content["data"]["digest"] = "of others"
    (tmp_path / "decision.json").write_text(json.dumps(content))
    assert run(["check", out, "--db", db]) == 1  # a decision on other users is violated by these


def test_engines_count_absent_users_alike(folder: Path) -> None:
    sets = [(), ("Canvas.hash",), ("Screen.orientation",), ("Canvas.hash", "Screen.orientation")]
    with Monitor(folder / "d.duckdb") as monitor:
        users = monitor.population().for_question(Question(10, missing="exposed"), [])
        for apis in sets:
            rows = users.source(("Canvas.hash", "Screen.orientation"), "memory").spectrum(apis)
            queries = users.source(("Canvas.hash", "Screen.orientation"), "duckdb").spectrum(apis)
            assert rows.counts.tolist() == queries.counts.tolist(), apis
            assert rows.values.tolist() == queries.values.tolist(), apis
        alone = users.spectrum(["Canvas.hash"])
        assert (alone.counts.tolist(), alone.values.tolist()) == ([1], [USERS])
        assert users.users_of_apis()["Canvas.hash"] == USERS // ASKED
        [report] = monitor.exposure([["Canvas.hash"]], k=10, missing="exposed")
        assert report.empirical == report.upper == 1
        with pytest.raises(InputError, match="given"):
            monitor.exposure(
                [["Canvas.hash"]], k=10, missing="exposed", given=["Screen.orientation"]
            )


@given(
    st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=3, max_size=30),
    st.integers(2, 4),
)
@settings(deadline=None)
def test_a_larger_set_never_exposes_fewer(rows: list[list[int]], k: int) -> None:
    table = np.array(rows, dtype=np.uint8)
    columns = {name: table[:, i] for i, name in enumerate("abc")}
    users = Population(MemorySnapshot(columns=columns, texts=lambda _api: {}))
    alone = users.for_question(EXPOSED, "abc")
    for larger, smaller in (("ab", "a"), ("abc", "ab"), ("ac", "c")):
        exposed = alone.spectrum(larger).users_below(k)
        assert exposed >= alone.spectrum(smaller).users_below(k)
        assert exposed >= (table[:, ["abc".index(api) for api in larger]] == 0).any(axis=1).sum()
        assert exposed >= users.spectrum(larger).users_below(k)


def test_a_law_with_values_kept_secret_is_never_more_exposing_than_with_their_users_alone() -> None:
    """Sum of f(p) over a law is at most that over the values seen, and all users not seen."""
    rng = np.random.default_rng(5)
    for _ in range(200):
        law = rng.dirichlet(np.full(rng.integers(2, 40), rng.choice([0.05, 1.0])))
        seen = law * rng.random(law.size) ** rng.choice([0.1, 1, 5])
        k, population = int(rng.integers(2, 12)), int(rng.integers(20, 2000))
        truth, told = (
            float(p @ exposure_probability(p, k=k, population=population)) for p in (law, seen)
        )
        assert truth <= told + (law - seen).sum() + 1e-12


def test_larger_sets_are_of_the_same_users_with_every_way_to_count_absent_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever lacks a candidate is dropped before strata are drawn, whose shares are then kept."""
    rng = np.random.default_rng(3)
    apis = ("A.a", "B.b", "C.c")
    rows = []
    for i in range(4000):
        kind = "phone" if i % 2 else "desktop"
        row: dict[str, object] = {"kind": kind}
        for api, values in zip(apis, (3, 30, 300), strict=True):
            if kind == "desktop" or rng.random() < 0.7:  # on phones not all are asked
                row[api] = int(rng.integers(values))
        rows.append(row)
    db = stored(tmp_path, rows)
    strata = Strata(by="kind", shares={"phone": 0.6, "desktop": 0.4})
    sets = [s for size in (1, 2, 3) for s in itertools.combinations(apis, size)]
    with Monitor(db) as monitor:
        users = monitor.population()
        for missing, known in itertools.product(get_args(Missing), (None, strata)):
            question = Question(10, missing=missing, sample=SampleModel(strata=known))
            asked = users.for_question(question, apis)
            source = asked.source(apis)
            exposed = {s: source.spectrum(s).users_below(10) for s in sets}
            assert all(exposed[a] <= exposed[b] for a in sets for b in sets if set(a) <= set(b))
            if missing == "drop":
                assert all(asked.column(api).all() for api in apis), "nobody lacks one"
            if known is not None:
                kind, called = asked.kinds("kind")
                share = np.bincount(kind)[called.index("phone")] / asked.users
                assert abs(share - 0.6) < 0.04
    (tmp_path / "shares.toml").write_text(strata_file(strata, "made up"))
    decision = str(tmp_path / "decision.json")
    asked_by = ["decide", "--budget", "20%", "-n", "4000", "--missing", "drop", "--db", db]
    assert run([*asked_by, "--strata", str(tmp_path / "shares.toml"), "-o", decision]) == 0
    capsys.readouterr()
    assert run(["audit", "certificate", decision, "--db", db]) == 0
    assert run(["check", decision, "--db", db]) == 0
