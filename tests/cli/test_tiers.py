"""Tiers, each of which has to hold a share of all devices: k is a share of the population."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from fpmonitor.cli import run
from fpmonitor.question import threshold_of
from tests.stored import stored

if TYPE_CHECKING:
    from pathlib import Path

TIERS = {"a": 394, "b": 2751, "c": 8570, "d": 2477}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tiers")
    return stored(folder, ({"tier": name} for name, users in TIERS.items() for _ in range(users)))


def test_a_share_of_the_population_is_a_number_of_users_rounded_up() -> None:
    assert threshold_of(0.1, 30) == 3
    assert threshold_of(0.1, 31) == 4
    assert threshold_of(7, None) == 7


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


def test_others_are_told_nothing_of_fewer_than_k_users(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["exposure", "--apis", "tier", "--k", "10%", "-n", "1M", "--db", database]
    assert run(["--for-others", *asked]) == 3
    assert "nothing is told of them" in capsys.readouterr().err
