"""Exact counts compose: what a reader has had answered is kept, limited, and listed."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.cli import run
from fpmonitor.errors import PolicyError
from fpmonitor.monitor import Monitor
from fpmonitor.release.estimated import estimated_guarantee, unseen_limit
from fpmonitor.release.partial_knowledge import histogram_guarantee
from fpmonitor.spectrum import CountSpectrum
from tests.asked import answer_of

if TYPE_CHECKING:
    from conftest import FixtureDistribution

APIS = ("Navigator.maxTouchPoints", "Screen.height", "Screen.width", "Window.devicePixelRatio")


@pytest.fixture(scope="module")
def source(fixture_database: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = Path(shutil.copy(fixture_database, tmp_path_factory.mktemp("readers")))
    with Monitor(path) as monitor:
        monitor.population()
    return path.read_bytes()


@pytest.fixture
def db(source: bytes, tmp_path: Path) -> str:
    path = tmp_path / "logs.duckdb"
    path.write_bytes(source)
    return str(path)


def exposure(db: str, *sets: str, limit: str = "3", reader: str = "ann") -> int:
    arguments = [word for apis in sets for word in ("--apis", apis)]
    return run(
        [
            "exposure",
            *arguments,
            "--db",
            db,
            "--reader",
            reader,
            "--query-limit",
            limit,
            "--k",
            "10",
        ]
    )


def test_a_reader_gets_so_many_different_counts_and_no_more(
    db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exposure(db, APIS[0]) == 0
    assert exposure(db, APIS[1], APIS[2]) == 0
    capsys.readouterr()
    assert exposure(db, APIS[3]) == 1
    refused = capsys.readouterr()
    assert refused.out == ""
    assert "ann has had 3 of 3" in refused.err
    assert exposure(db, APIS[1]) == 0, "a count asked again tells nothing new"
    assert exposure(db, APIS[3], reader="bob") == 0, "each reader has its own"
    assert exposure(db, *APIS, reader="eve") == 1, "more than the limit at once"
    assert run(["exposure", "--apis", APIS[3], "--db", db]) == 0, "the owner has no limit"


@pytest.mark.parametrize(
    "command",
    [
        ["db", "apis"],
        ["exposure", "--rank", "--size", "1"],
        ["exposure", "--curve", "--apis", "Screen.height"],
        ["release", "--apis", "Screen.height", "--k", "50", "-o", "table.parquet"],
    ],
)
def test_commands_that_answer_many_counts_at_once_are_refused(
    command: list[str], db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*command, "--db", db, "--reader", "ann", "--query-limit", "4"]) == 1
    assert not Path("table.parquet").exists()
    assert run([*command, "--db", db, "--reader", "ann", "--query-limit", "100000"]) == 0


def test_a_limit_that_is_no_number_is_refused(db: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["exposure", "--apis", APIS[3], "--db", db, "--reader", "ann", "--query-limit"]
    for limit in ("0", "some", "9" * 5000):
        assert run([*asked, limit]) == 2
        assert "query-limit: must be log2 or a number" in capsys.readouterr().err


UNCOUNTED = [
    ["decide", "--budget", "0.05"],
    ["check", "decision.json"],
    ["exposure", "--by", "week"],
    ["check", "--compare", "{db}", "{db}", "--split", "2026-01-12"],
    ["export", "--preview", "decision.json", "--to", "firefox-policies"],
    ["export", "--report", "-o", "report.html"],
    ["exposure", "--plot", "exposure", "-o", "plot.svg"],
    ["audit", "histogram", "--apis", "Screen.height", "--k", "10", "--epsilon", "1"],
    ["audit", "several", "--apis", "Screen.height", "--k", "10", "--epsilon", "1"],
    ["collect", "shares", "--apis", "Screen.height"],
    ["ldp", "plan", "--epsilon", "1"],
]


@pytest.mark.parametrize("how", ["environment", "settings"])
@pytest.mark.parametrize("command", UNCOUNTED, ids=lambda command: " ".join(command[:2]))
def test_what_is_not_counted_is_refused_to_a_named_reader(  # noqa: PLR0917 -- fixtures
    command: list[str],
    how: str,
    db: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = f'db = "{db}"\n'
    if how == "environment":
        monkeypatch.setenv("FPMONITOR_READER", "ann")
    else:
        settings = 'reader = "ann"\n' + settings
    Path("fpmonitor.toml").write_text(settings)
    before = {path.name for path in tmp_path.iterdir()}
    assert run([word.format(db=db) for word in command]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "not counted for ann" in told.err
    assert {path.name for path in tmp_path.iterdir()} == before, "nothing is written"


def test_a_named_reader_stops_no_ingest_and_no_help(
    db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FPMONITOR_READER", "ann")
    Path("more.jsonl").write_text('{"user": "x", "api": "Screen.height", "value": 800}\n')
    assert run(["ingest", "more.jsonl", "--db", db, "-q"]) == 0
    assert run(["audit", "queries", "--db", db]) == 0
    assert run(["db", "batches", "--db", db]) == 0
    assert run(["decide", "--help"]) == 0
    assert run(["audit", "histogram", "--help"]) == 0


def test_the_limit_and_the_reader_may_stand_in_the_settings(
    db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fpmonitor.toml").write_text(f'db = "{db}"\nreader = "ann"\nquery_limit = "1"\n')
    assert run(["exposure", "--apis", APIS[0]]) == 0
    assert run(["exposure", "--apis", APIS[1]]) == 1


def test_readers_are_listed_with_what_is_within_reach(
    db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["audit", "queries", "--db", db]) == 0
    assert json.loads(capsys.readouterr().out) == []
    exposure(db, *APIS[:3], limit="log2")
    [line] = answer_of(capsys, "audit", "queries", "--db", db)
    assert (line["reader"], line["answered"]) == ("ann", 3)
    assert line["limit"] == math.ceil(math.log2(20_000))
    assert line["weight_within_reach"] == 0.25
    assert run(["audit", "queries", "--db", db, "--format", "table"]) == 0
    capsys.readouterr()
    assert run(["audit", "queries", "--db", db, "--forget", "ann"]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize("limit", ["0", "many", "-3", "1.5", "²"])
def test_a_limit_is_a_number_or_log2(limit: str, db: str) -> None:
    assert exposure(db, APIS[0], limit=limit) == 2


# ---- The law as the users tell it ---------------------------------------------------------------


def test_the_unseen_limit_solves_its_equation_and_falls_with_users() -> None:
    for users in (1, 10, 1000, 10**6):
        limit = unseen_limit(users, 0.01)
        assert (1 - limit) ** users / limit == pytest.approx(0.01, rel=1e-6)
    assert unseen_limit(1000, 0.01) < unseen_limit(100, 0.01)


@pytest.mark.long
def test_certified_deltas_cover_the_law_that_the_users_came_from(
    fixture_law: FixtureDistribution,
) -> None:
    weights = fixture_law.weights(["Screen.height"]).to_numpy()
    law = weights / weights.sum()
    rng = np.random.default_rng(4)
    failures = 0
    for _ in range(20):
        counts = rng.multinomial(5000, 0.9 * law)
        absent = 5000 - counts.sum()
        found = estimated_guarantee(
            CountSpectrum.from_counts(counts[counts > 0]),
            int(absent),
            release_users=5000,
            k=40,
            epsilon=1.0,
        )
        split = found.certified
        rare = law * 0.9 <= (split.rare_up_to or 0)
        common = law * 0.9 >= (split.common_from or 2)
        failures += not (rare | common).all()
    assert failures <= 20 * 0.05 + 4 * math.sqrt(20 * 0.05 * 0.95)


@settings(deadline=None, max_examples=40)
@given(
    counts=st.lists(st.integers(1, 400), min_size=1, max_size=12),
    absent=st.integers(0, 400),
    k=st.integers(2, 60),
)
def test_what_is_certified_is_never_better_than_what_is_estimated(
    counts: list[int], absent: int, k: int
) -> None:
    found = estimated_guarantee(
        CountSpectrum.from_counts(counts), absent, release_users=1000, k=k, epsilon=0.7
    )
    shares = np.array(counts) / (sum(counts) + absent)
    assert found.estimated == histogram_guarantee(1000, shares, k=k, epsilon=0.7)
    assert found.certified.delta >= found.estimated.delta - 1e-12


def test_a_histogram_without_absent_values_is_certified(
    db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everybody has a user agent: the rare ones together hide those who lack a common one."""
    arguments = ["--apis", "Navigator.userAgent", "--epsilon", "1", "--format", "json", "--db", db]
    assert run(["audit", "smallest-k", "--delta", "0.01", *arguments]) == 0
    least = json.loads(capsys.readouterr().out)
    assert 2 < least["k_estimated"] <= least["k_certified"]
    for which in ("estimated", "certified"):
        for k, reached in ((least[f"k_{which}"], True), (least[f"k_{which}"] - 1, False)):
            assert run(["audit", "histogram", "--k", str(k), *arguments]) == 0
            delta = json.loads(capsys.readouterr().out)[f"delta_{which}"]
            assert (delta <= 0.01) == reached


def test_bad_laws_are_refused() -> None:
    with pytest.raises(PolicyError, match="alpha"):
        estimated_guarantee(
            CountSpectrum.from_counts([3]), 1, release_users=10, k=2, epsilon=1, alpha=1.5
        )


def test_the_command_tells_both_deltas(db: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--apis", "Screen.height", "--k", "100", "--epsilon", "1", "--db", db]
    assert run(["audit", "histogram", *arguments, "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert 0 <= answer["delta_estimated"] <= answer["delta_certified"] <= 1
    assert answer["users"] == 20_000
    assert run(["audit", "histogram", *arguments, "--format", "table"]) == 0


# ---- What changes a figure is another figure ----------------------------------------------------


def answered(db: str, capsys: pytest.CaptureFixture[str], *options: str) -> int:
    """Ask as ann, without a limit, and count what she has had by now."""
    asked = ["exposure", "--apis", APIS[1], "--db", db, "--reader", "ann"]
    assert run([*asked, "--query-limit", "1000", *options]) == 0
    [line] = answer_of(capsys, "audit", "queries", "--db", db)
    return int(line["answered"])


@pytest.mark.long
def test_what_changes_a_figure_is_counted_once(db: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = answered(db, capsys)
    for options in (
        ["--population", "30000"],
        ["--missing", "drop"],
        ["--drop-automation"],
        ["--k", "11"],
        ["--entropies"],
        ["--trust", "joint"],
    ):
        after = answered(db, capsys, *options)
        assert after > before, options
        assert answered(db, capsys, *options) == after, options
        before = after
    assert answered(db, capsys) == before


def test_each_cohort_is_counted(db: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = answered(db, capsys)
    asked = ["exposure", "--apis", APIS[1], "--given", APIS[0], "--db", db]
    assert run([*asked, "--format", "json"]) == 0
    [report] = json.loads(capsys.readouterr().out)
    cohorts = len(report["cohorts"]) + (report["others"] is not None)
    assert cohorts > 1
    assert answered(db, capsys, "--given", APIS[0]) == before + 1 + 2 * cohorts
    few = ["--reader", "eve", "--query-limit", str(2 * cohorts)]
    assert run([*asked, *few]) == 1


def test_exposure_tells_how_many_users_are_enough(
    db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["exposure", "--apis", "Screen.height", "--db", db, "--users-for", "1%"]
    assert run([*asked, "--support", "1000", "--format", "json"]) == 0
    printed = capsys.readouterr()
    [found] = json.loads(printed.out)
    assert found["users_for_gamma"] == math.ceil(math.log(2 * 1000 / 0.05) / 2 / 0.01**2)
    assert "users are enough" in printed.err
