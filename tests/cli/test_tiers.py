"""Tiers, each of which has to hold a share of all devices: k is a share of the population."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fpmonitor.cli import run
from fpmonitor.errors import PolicyError
from fpmonitor.question import threshold_of
from tests.stored import stored

TIERS = {"a": 394, "b": 2751, "c": 8570, "d": 2477}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tiers")
    return stored(folder, ({"tier": name} for name, users in TIERS.items() for _ in range(users)))


def test_a_share_of_the_population_is_a_number_of_users_rounded_up() -> None:
    assert threshold_of(0.1, 30) == 3
    assert threshold_of(0.1, 31) == 4
    assert threshold_of(7, None) == threshold_of(7.0, None) == 7
    for k in (10.7, float("nan"), float("inf"), -0.5):
        with pytest.raises(PolicyError, match="whole number or a share below 1"):
            threshold_of(k, None)


@pytest.mark.long
def test_tiers_of_a_larger_population_are_told_and_decided(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--k", "10%", "-n", "1M", "--db", database]
    assert run(["exposure", "--apis", "tier", *asked, "--format", "json"]) == 0
    [report] = json.loads(capsys.readouterr().out)
    assert (report["k"], report["users"]) == (100_000, sum(TIERS.values()))
    assert 0.019 <= report["lower"] <= 394 / 14_192 <= report["upper"] <= 0.038
    made = tmp_path / "decision.json"
    assert run(["decide", "--budget", "5%", *asked, "-q", "-o", str(made)]) == 0
    assert json.loads(made.read_text())["allow"] == [["tier"]]
    assert run(["decide", "--budget", "1.5%", *asked, "-q", "-o", str(made)]) == 0
    assert json.loads(made.read_text())["block"] == [["tier"]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--k", "10%"], "a share of which population?"),
        (["--k", "100%", "-n", "1M"], "is not a share"),
        (["--k", "0%", "-n", "1M"], "is not a share"),
        (["--k", "ten", "-n", "1M"], "is not a whole number"),
    ],
)
def test_a_share_that_says_nothing_is_refused(
    options: list[str], said: str, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["exposure", "--apis", "tier", *options, "--db", database]) == 2
    assert said in capsys.readouterr().err


def test_others_are_told_of_tiers_whatever_k_is(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who may be recognised in an answer does not depend on k: here k is above all users."""
    asked = ["exposure", "--apis", "tier", "-n", "1M", "--db", database, "--format", "json"]
    told = []
    for audience in ([], ["--for-others"]):
        assert run([*audience, *asked, "--k", "10%"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    [owner], [others] = told
    assert others["suppressed"]  # as if nine users had a value of their own
    assert others["lower"] <= owner["lower"]
    assert owner["upper"] <= others["upper"] <= 0.05


def test_others_are_told_nothing_of_fewer_than_ten_users(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nine users in a group of their own look as five do, though k is 1,000."""
    told = []
    for few in (5, 9):
        folder = tmp_path / str(few)
        folder.mkdir()
        tiers = ["rare"] * few + ["a"] * 1_200 + ["b"] * (1_300 - few)
        db = stored(folder, [{"tier": tier, "other": "x"} for tier in tiers])
        capsys.readouterr()
        asked = ["exposure", "--apis", "tier", "--k", "1000", "-n", "1M", "--db", db]
        assert run(["--for-others", *asked, "--format", "json"]) == 0
        told.append(json.loads(capsys.readouterr().out)[0])
        assert told[-1]["suppressed"]
    assert told[0] == told[1]


@pytest.mark.long
def test_levels_are_designed_where_k_is_above_all_users(tmp_path: Path) -> None:
    """How many tiers of cores, and where, so that each holds a tenth of a million."""
    cores = [2, 4, 8, 16]
    rows = [{"cores": cores[i % 4], "other": "x"} for i in range(8_000)]
    db = stored(tmp_path, rows)
    levels, made = tmp_path / "levels.toml", tmp_path / "made.json"
    levels.write_text('[[component]]\napis = ["cores"]\nlevels = [{design = {buckets = 6}}]\n')
    asked = ["decide", "--levels", str(levels), "--design-share", "30%", "--budget", "5%"]
    asked += ["--k", "10%", "-n", "1M", "--db", db, "-q", "-o", str(made)]
    assert run(asked) == 0
    decided = json.loads(made.read_text())
    [level] = decided["components"][0]["levels"]
    assert decided["allow"] == [{"cores": 1}]
    assert len(level["edges"]) > 1


def test_a_gate_carries_out_what_was_decided_where_k_is_above_all_users(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether an API is evidence is judged once, also of users who are fewer than k."""
    rows: list[dict[str, str]] = [{"tier": "ab"[i % 2], "constant": "x"} for i in range(400)]
    db, made = stored(tmp_path, rows), str(tmp_path / "made.json")
    asked = ["decide", "--budget", "5%", "--k", "10%", "-n", "1B", "--db", db, "-q", "-o", made]
    assert run(asked) in {0, 3}
    assert json.loads(Path(made).read_text())["no_evidence"] == {"constant": "one value"}
    told = set()
    for users in ([], ["--db", db]):
        capsys.readouterr()
        run(["gate", made, "--want", "constant", *users, "--format", "json"])
        told.add(json.loads(capsys.readouterr().out)["verdict"])
    assert told == {"no evidence"}
