"""What `decide` is asked: one question for the command line, the settings and Python."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

import fpmonitor
from fpmonitor.cli import run
from fpmonitor.decide.asked import DecideQuestion, check_options
from fpmonitor.errors import InputError
from fpmonitor.monitor import Monitor
from fpmonitor.policy import SampleModel
from fpmonitor.safe_files import read_json
from tests.decided import component
from tests.stored import stored

if TYPE_CHECKING:
    from pathlib import Path

QUESTION = DecideQuestion(k=5, budget=0.2)
SCREEN = component("Screen.width", 1)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"search_users": 10, "must": ["a"]}, "--search-users: not with --must"),
        ({"search_users": 10, "setting": "sample"}, "--search-users: not with --setting sample"),
        ({"search_users": 10, "time_limit": 0.0}, "--search-users: not with --time-limit"),
        ({"forecast": True, "realised": True}, "--forecast: not with --realised"),
        ({"forecast": True, "sample": SampleModel(bias=2)}, "--forecast: not with --bias"),
        ({"components": (SCREEN,), "weights": {"a": 1.0}}, "--weights: not with --levels"),
        ({"components": (SCREEN,), "engine": "duckdb"}, "--engine: not with --levels"),
        ({"confirm_chains": 2}, "--confirm: on which users"),
        ({"design_share": 0.3}, "--design-share: is of levels"),
        ({"engine": "spark"}, "engine: must be one of auto"),
        ({"max_sets": -1}, "max_sets: must be at least 1, got -1"),
        ({"time_limit": float("nan")}, "time_limit: must be at least 0, got nan"),
        ({"setting": "all"}, "setting: must be one of population"),
    ],
)
def test_what_cannot_go_together_is_refused_before_any_user_is_read(
    members: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as refused:
        replace(QUESTION, **members)
    assert message in str(refused.value)
    assert refused.value.hint or "must be" in message


def test_settings_for_all_commands_pass_over_what_does_not_apply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    db = stored(tmp_path, ({"Screen.width": i % 7, "Screen.height": i % 90} for i in range(900)))
    monkeypatch.chdir(tmp_path)
    asked = ["decide", "--db", db, "--budget", "0.5", "--k", "5", "-q", "--search-users", "300"]
    (tmp_path / "fpmonitor.toml").write_text("max-size = 1\ntime-limit = 9\nforecast = true\n")
    assert run(asked) == 0
    assert run([*asked, "--max-size", "1"]) == 2  # as it was asked for, it is refused
    assert "not with --max-size" in capsys.readouterr().err
    (tmp_path / "fpmonitor.toml").write_text("[decide]\nmust = 'Screen.width'\n")
    assert run(asked) == 2  # what must hold of the answer is never passed over
    assert "not with --must" in capsys.readouterr().err
    (tmp_path / "fpmonitor.toml").write_text("confirm = 3\ndesign-share = '30%'\n")
    assert run(asked[:-2]) == 0


def test_zero_is_said_and_what_is_empty_is_not() -> None:
    given = {"time_limit": 0.0, "must": (), "known": None, "engine": "auto", "forecast": False}
    assert check_options(given) == {"time_limit": 0.0}


def test_a_method_that_asks_has_the_members_of_the_question_as_arguments(tmp_path: Path) -> None:
    arguments = signature(Monitor.decide).parameters
    assert next(iter(arguments)) == "self"
    assert {*signature(DecideQuestion).parameters} < {*arguments}
    with (
        Monitor(tmp_path / "d.duckdb", create=True) as monitor,
        pytest.raises(TypeError, match="tolerence"),
    ):
        monitor.decide(k=5, budget=0.1, tolerence=True)  # type: ignore[call-arg]


def test_python_decides_levels_and_does_with_them_what_it_does_with_sets(tmp_path: Path) -> None:
    rows = [{"user": f"u{i}", "Screen.width": i % 7, "Screen.height": i} for i in range(900)]
    log = fpmonitor.read(pl.DataFrame(rows), user="user")
    components = [component("Screen.width", 1), component("Screen.height", 1)]
    decision = log.decide(components=components, budget=0.5, k=5)
    assert [each.name for each in decision.components] == ["Screen.width", "Screen.height"]
    assert decision.recommended == ("Screen.width=1",)
    assert decision.gate(["Screen.width=1"])["verdict"] == "allow"
    assert decision.gate(["Screen.width=1"], ["Screen.height=1"])["verdict"] == "block"
    decision.export("tiers", tmp_path / "tiers.json")
    assert read_json(tmp_path / "tiers.json", "tiers")["tiers"]
    decision.report(tmp_path / "report.html", log)
    assert "What finer levels cost" in (tmp_path / "report.html").read_text()
    assert "<table" in decision.to_html()
    with pytest.raises(InputError, match="a decision about levels is written"):
        decision.export("ublock")
    with pytest.raises(InputError, match="is about levels"):
        log.monitor.check(decision)


@pytest.mark.parametrize(
    "more",
    [
        {"setting": "sample"},
        {"realised": True},
        {"k": np.int64(5), "n": np.int64(400), "delta": np.float64(0.1)},
        {"weights": {"Screen.width": np.float64(2)}},
    ],
)
def test_python_decides_by_numbers_of_numpy(more: dict[str, Any]) -> None:
    rows = [{"user": f"u{i}", "Screen.width": i % 7} for i in range(300)]
    log = fpmonitor.read(pl.DataFrame(rows), user="user")
    numbers = {"k": 5, "budget": np.float64(0.5)} | more
    assert log.decide(**numbers).allow == (("Screen.width",),)
