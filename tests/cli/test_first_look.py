"""`fpmonitor LOG` where no browser is: what a first look says, and how to go on from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.cli.spellings import understood

if TYPE_CHECKING:
    from pathlib import Path

AGENTS = [f"Mozilla/5.0 rv:{number % 7}" for number in range(300)]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table whose users are in a column that no other log calls so."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISPLAY", ":0")  # options of reading are asked in the terminal all the same
    people = [f"p{number % 250}" for number in range(300)]
    columns = {
        "person_key": people,
        "Navigator.userAgent": AGENTS,
        "Navigator.language": [None] * 300,
    }
    pl.DataFrame(columns).with_columns(when=pl.lit("2026-05-04")).write_csv("visits.csv")
    return "visits.csv"


@pytest.mark.parametrize(
    "options",
    [["--user", "person_key"], ["--user", "person_key", "--time", "when"], ["--user=person_key"]],
)
def test_a_look_takes_the_options_that_its_refusal_names(
    log: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([log, *options]) == 0
    said = capsys.readouterr().out
    assert "250 users" in said
    [ingest] = [line for line in said.splitlines() if line.startswith("  fpmonitor ingest")]
    assert "--user person_key" in ingest
    assert ("--time when" in ingest) == ("when" in options)
    assert run(ingest.split()[1:]) == 0  # the command that it prints runs


def test_an_exposure_says_of_which_apis_the_log_is_no_evidence(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A share of 0 % would be read as: this API tells nobody apart."""
    assert run(["ingest", log, "--user", "person_key", "-q"]) == 0
    capsys.readouterr()
    assert run(["exposure"]) == 0
    noted = capsys.readouterr().err
    assert "no evidence about Navigator.language: fewer than 10 users have a value" in noted
    assert "userAgent" not in noted
    assert run(["--for-others", "exposure"]) == 0
    assert "no evidence" not in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--db=other.duckdb", "--db other.duckdb", "--port=8123"])
def test_options_of_the_page_mean_the_page(log: str, option: str) -> None:
    assert understood([log, *option.split()], ["ui", "look"], {})[0] == "ui"
