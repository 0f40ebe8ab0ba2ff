"""Two decisions on parts of the candidates do not add up: each command that can know says so."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from fpmonitor.answers.beside import Beside, decisions_beside
from fpmonitor.answers.questions import list_questions
from fpmonitor.cli import run
from fpmonitor.decide.files import read_decision
from fpmonitor.monitor import Monitor

if TYPE_CHECKING:
    from pathlib import Path

SCREEN = "Screen.height,Screen.width"
OTHERS = "Navigator.hardwareConcurrency,Navigator.language"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users whose pairs of values are common, and whose fours of values are not; two decisions."""
    found, draw = tmp_path_factory.mktemp("beside"), random.Random(44)
    lines = ["user,Screen.width,Screen.height,Navigator.language,Navigator.hardwareConcurrency"]
    lines += [
        f"u{user},{1000 + draw.randrange(6)},{700 + draw.randrange(6)},"
        f"l{draw.randrange(6)},{draw.randrange(6)}"
        for user in range(2000)
    ]
    (found / "log.csv").write_text("\n".join(lines), encoding="utf-8")
    assert run(["ingest", str(found / "log.csv"), "--db", str(found / "d.duckdb"), "-q"]) == 0
    return found


def decide(folder: Path, candidates: str, name: str, *more: str) -> str:
    path = str(folder / name)
    arguments = ["decide", "--db", str(folder / "d.duckdb"), "--k", "10", "--budget", "5%"]
    assert run([*arguments, "--candidates", candidates, "-o", path, *more]) == 0
    return path


def beside(folder: Path, name: str) -> list[Beside]:
    decision = read_decision(folder / name)
    with Monitor(folder / "d.duckdb") as monitor:
        listed = list_questions(monitor.database)
        return decisions_beside(monitor.population_as(decision), decision, listed)


def test_a_second_decision_on_other_candidates_is_tested_together_with_the_first(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = str(folder / "d.duckdb")
    one = decide(folder, SCREEN, "one.json")
    assert "as well" not in capsys.readouterr().err, "there is no other yet"
    assert run(["check", one, "--db", db]) == 0
    assert "as well" not in capsys.readouterr().err
    decide(folder, OTHERS, "two.json")
    said = capsys.readouterr().err
    assert "exposes Screen.height, Screen.width as well: both together expose" in said
    assert "above the budget of 5 %; decide on all of them at once" in said
    for command in (["check", one, "--db", db], ["export", one, "csv", "--db", db]):
        assert run(command) == 0
        said = capsys.readouterr().err
        assert "Navigator.hardwareConcurrency, Navigator.language as well" in said, command
        assert "above the budget" in said, command
    text = folder / "list.json"
    assert run(["export", one, "json", "-o", str(text)]) == 0
    written = json.loads(text.read_text())
    assert "is for this list alone" in written["scope"]
    assert written["about"] == SCREEN.split(",")
    assert written["others"] == "not covered"
    assert f"covers 2 of the {written['vocabulary']:,} known APIs" in written["scope"]


def test_the_whole_decided_at_once_is_told_by_its_own_verdict_and_replaced_ones_say_nothing(
    folder: Path,
) -> None:
    decide(folder, OTHERS, "again.json")
    every = decide(folder, f"{SCREEN},{OTHERS}", "every.json")
    found = beside(folder, "every.json")
    both = [
        each
        for each in beside(folder, "again.json")
        if "Screen.width" in each.other and "Screen.height" in each.other
    ]
    own = set(json.loads((folder / "every.json").read_text())["recommended"])
    assert every
    assert all(not own & {*each.other} for each in found)
    assert {each.verdict for each in found} <= {"block", "undecided"}
    assert both
    for alone in both:
        assert alone.limits is not None
        assert alone.limits[0] > 0.05
        assert alone.verdict == "block"
