"""`decide` that is told to end, at any moment: a valid file, or a line that says why none."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cli import run
from fpmonitor.decide import confirming, deciding
from fpmonitor.decide import search as searching
from fpmonitor.decide.files import read_decision
from fpmonitor.population import kept_values
from fpmonitor.population.population import Population
from fpmonitor.render import decisions
from tests.running import COMMAND
from tests.stored import stored

if TYPE_CHECKING:
    from pathlib import Path

APIS = {"a": 2, "b": 3, "c": 4, "d": 8, "e": 20, "f": 60}  # and their numbers of values
SIGNALS = (signal.SIGTERM, signal.SIGINT)
Moment = tuple[Any, str]  # where a function is, and its name
ASKED = ("--budget", "20%", "--k", "5", "--quiet")


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> str:
    draw = random.Random(1)
    rows = [
        {api: str(int(most * draw.random() ** 3)) for api, most in APIS.items()}
        for _ in range(4000)
    ]
    return stored(tmp_path_factory.mktemp("interrupted"), rows)


def end_at(patch: pytest.MonkeyPatch, place: Any, name: str, number: int) -> None:
    """Tell this process to end as soon as it calls a function."""
    function = getattr(place, name)

    def called(*given: Any, **options: Any) -> Any:
        signal.raise_signal(number)
        return function(*given, **options)

    patch.setattr(place, name, called)


def decide(db: str, file: Path, *options: str) -> int:
    return run(["decide", "--db", db, *ASKED, "-o", str(file), *options])


@pytest.mark.parametrize("number", SIGNALS)
def test_an_end_before_the_search_leaves_a_file_that_can_be_resumed(
    db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    file, whole = tmp_path / "decision.json", tmp_path / "whole.json"
    assert decide(db, whole) == 0
    with monkeypatch.context() as patch:
        end_at(patch, deciding, "tests_of", number)
        assert decide(db, file) == 0
    stopped = read_decision(file)
    assert (stopped.allow, stopped.block, stopped.undecided) == ((), (), ())
    assert (stopped.complete, stopped.evaluated) == (False, 0)
    assert stopped.utility_bound == len(APIS)
    assert "stopped before it began" in decisions.counted(stopped)
    assert run(["gate", str(file), "--want", "a,b", "--exit-zero", "--db", db]) == 0
    assert decide(db, file, "--resume", str(file)) == 0
    assert read_decision(file).allow == read_decision(whole).allow


@pytest.mark.long
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    "moment",
    [
        (searching, "_borders"),
        (deciding, "recommend"),
        (deciding, "guarantee"),
        (decisions, "data_of"),
    ],
)
def test_an_end_after_the_search_loses_nothing_of_it(
    db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: Moment, number: int
) -> None:
    file = tmp_path / "decision.json"
    end_at(monkeypatch, *moment, number)
    assert decide(db, file) == 0
    found = read_decision(file)
    assert found.complete
    assert found.allow


@pytest.mark.long
@pytest.mark.parametrize(
    "moment", [(deciding, "tests_of"), (searching, "_run"), (kept_values, "kept_spectrum")]
)
def test_an_end_before_the_sets_are_confirmed_says_why_nothing_is_written(
    db: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    moment: Moment,
) -> None:
    file = tmp_path / "decision.json"
    why = "interrupted before the sets were confirmed, so none is certified; nothing is written"
    for number in SIGNALS:
        with monkeypatch.context() as patch:
            end_at(patch, *moment, number)
            assert decide(db, file, "--search-users", "2000") == 130
        assert not file.exists()
        assert capsys.readouterr().err == f"fpmonitor: error: {why}\n"


@pytest.mark.parametrize("number", SIGNALS)
def test_an_end_while_users_are_read_says_that_nothing_is_written(
    db: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
) -> None:
    file = tmp_path / "decision.json"
    end_at(monkeypatch, Population, "for_question", number)
    assert decide(db, file) == 130
    assert not file.exists()
    why = "interrupted before the decision was made; nothing is written"
    assert capsys.readouterr().err == f"fpmonitor: error: {why}\n"


@pytest.mark.long
@pytest.mark.parametrize("number", SIGNALS)
def test_an_end_after_the_sets_were_confirmed_keeps_them_and_no_false_bound(
    db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    file, before = tmp_path / "decision.json", signal.getsignal(number)
    end_at(monkeypatch, confirming, "search", number)
    assert decide(db, file, "--search-users", "2000") == 0
    found = read_decision(file)
    assert not found.complete
    assert found.confirmation is not None
    assert found.utility is not None
    assert found.utility_bound is not None
    assert found.utility <= found.utility_bound
    assert "--resume goes on" not in str(decisions.decision(found).tables[1].caption)
    assert signal.getsignal(number) is before


def test_a_second_interrupt_ends_at_once(
    db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "decision.json"
    end_at(monkeypatch, deciding, "recommend", signal.SIGINT)
    end_at(monkeypatch, deciding, "guarantee", signal.SIGINT)
    assert decide(db, file) == 130
    assert not file.exists()


def test_a_reader_that_is_gone_after_a_line_keeps_no_file_from_being_written(
    db: str, tmp_path: Path
) -> None:
    """`decide -o FILE 2>&1 | head -1`: notes are told on the way, the file is written last."""
    for command in (
        ["decide", "--db", db, "--budget", "20%", "--k", "5", "-o", "file"],
        ["export", "decision.json", "--to", "json", "-o", "file", "--partial"],
    ):
        reads, writes = os.pipe()
        os.close(reads)  # what is written there fails, as behind a reader that has ended
        try:
            subprocess.run(
                [sys.executable, "-c", COMMAND, *command], cwd=tmp_path, stderr=writes, check=False
            )
        finally:
            os.close(writes)
        [made] = tmp_path.glob("file*")
        assert made.stat().st_size
        made.rename(tmp_path / "decision.json") if command[0] == "decide" else made.unlink()
