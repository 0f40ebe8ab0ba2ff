"""`exposure` says how many users can be recognised at all, and the truth is within its limits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fpmonitor.cli import run
from fpmonitor.policy import UP
from fpmonitor.render.numbers import percent
from tests.asked import answer_of

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import FixtureDistribution

SETS = ["Navigator.userAgent", "Screen.height,Screen.width", "FontFaceSet.check"]


@pytest.mark.long
@pytest.mark.parametrize("population", [2_000, 20_000, 200_000])
def test_share_linked_under_the_law_is_within_the_limits_of_a_command(
    population: int,
    fixture_database: Path,
    fixture_law: FixtureDistribution,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["exposure", *SETS, "--population", str(population), "--format", "json"]
    for audience in ([], ["--for-others"]):
        assert run([*audience, *asked, "--db", str(fixture_database)]) == 0
        for found in json.loads(capsys.readouterr().out):
            weights = fixture_law.weights(found["apis"]).to_numpy()
            shares = weights / weights.sum()
            truth = float(-np.expm1(population * np.log1p(-shares)).sum() / population)
            assert found["linked_lower"] <= truth <= found["linked_upper"]
            # at most who is in a group below k, and one of k of the others
            assert found["linked_upper"] < found["upper"] + (1 - found["upper"]) / found["k"]


def test_screen_says_it_in_a_sentence_for_one_set_and_in_a_column_for_several(
    fixture_database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["exposure", "--db", str(fixture_database), "--format", "table"]
    assert run([*asked, SETS[0]]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "No method that uses these APIs alone links the visits of more than 1." in said
    assert "linkable" not in said
    assert run([*asked, *SETS]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "linkable" in said
    assert "≤ 1." in said


def test_no_api_links_nobody_but_by_chance(tmp_path: Path) -> None:
    log = tmp_path / "alike.csv"
    rows = "".join(f"u{i},1920\n" for i in range(3_000))
    log.write_text(f"user,Screen.width\n{rows}", encoding="utf-8")
    database = str(tmp_path / "alike.duckdb")
    assert run(["ingest", str(log), "--db", database]) == 0
    out = tmp_path / "out.json"
    assert run(["exposure", "Screen.width", "--db", database, "-o", str(out)]) == 0
    [found] = json.loads(out.read_text(encoding="utf-8"))
    assert 0 <= found["linked_lower"] <= 1 / 3_000 <= found["linked_upper"] < 0.01


def test_who_is_in_no_small_group_is_linked_by_a_guess_and_both_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Groups of about 40: nobody is below k, and who names one of them is right in 1 of 40."""
    log, users = tmp_path / "guess.csv", 8_000
    rows = "".join(f"u{i},{i % 200}\n" for i in range(users))
    log.write_text(f"user,Screen.width\n{rows}", encoding="utf-8")
    database = str(tmp_path / "guess.duckdb")
    assert run(["ingest", str(log), "--db", database, "-q"]) == 0
    asked = ["exposure", "Screen.width", "--db", database, "--format"]
    [found] = answer_of(capsys, *asked, "json")
    assert found["empirical"] == 0
    assert found["upper"] < found["linked_lower"] <= 1 / 40 <= found["linked_upper"]
    assert run([*asked, "table"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "in groups of fewer than 10" in said
    assert f"links the visits of more than {percent(found['linked_upper'], 2, away=UP)}" in said
