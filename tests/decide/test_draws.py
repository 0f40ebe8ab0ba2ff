"""Draws of users follow from their values: the same users in other rows are drawn alike."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cli import run
from tests.stored import stored

if TYPE_CHECKING:
    from pathlib import Path

LEVELS = """
[[component]]
name = "m"
apis = ["memory"]
levels = [{raw = true}, {design = {buckets = 4}}]
[[component]]
name = "a"
apis = ["agent"]
levels = [{raw = true}, {design = {frequent = 3}}]
"""
DRAWS = ((), ("--cluster", "household"), ("--strata", "shares.toml"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    draw = random.Random(3)
    rows = [
        {
            "memory": int(draw.expovariate(0.2)),
            "agent": f"v{int(draw.expovariate(0.3))}",
            "household": f"h{draw.randrange(500)}",
        }
        for _ in range(800)
    ]
    stored(tmp_path, rows)
    (tmp_path / "levels.toml").write_text(LEVELS)
    (tmp_path / "shares.toml").write_text('by = "agent"\n[shares]\nv0 = 0.1\nother = 0.9\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answers(folder: Path, name: str) -> list[Any]:
    levels = ["decide", "--levels", "levels.toml", "--design-share", "30%", "--budget", "20%"]
    found = []
    for at, asked in enumerate(
        (
            [*levels, "--k", "5"],
            *(["exposure", "--apis", "memory,agent", *more] for more in DRAWS),
        )
    ):
        path = folder / f"{name}{at}.json"
        assert run([*asked, "--db", "d.duckdb", "--format", "json", "-o", str(path)]) == 0
        found.append(json.loads(path.read_text()))
    found[0]["seconds"] = 0
    return found


def test_the_same_users_in_other_rows_are_drawn_alike(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = answers(folder, "before")
    said = " ".join(capsys.readouterr().err.split())
    assert "designed from 240 users, who were drawn blindly (30 %), and tested on the other" in said
    assert "Data: d.duckdb, 800 users" in said
    log = folder / "log.jsonl"
    assert run(["db", "forget", "--batch", str(log), "--db", "d.duckdb", "-q"]) == 0
    log.write_text("".join(reversed(log.read_text().splitlines(keepends=True))))
    assert run(["ingest", "log.jsonl", "--db", "d.duckdb", "-q"]) == 0
    assert answers(folder, "after") == before
    capsys.readouterr()
    decision = before[0]
    assert decision["design"]["by"] == "values"
    # A search that was cut short is settled on the same users.
    cut = folder / "cut.json"
    lists = {name: [] for name in ("allow", "block", "undecided")}
    recommended = type(decision["recommended"])()
    cut.write_text(json.dumps(decision | lists | {"recommended": recommended, "complete": False}))
    assert run(["gate", str(cut), "--exit-zero", "--want", "m=1,a=1", "--db", "d.duckdb"]) == 0
    judged = json.loads(capsys.readouterr().out)["verdict"]
    assert run(["gate", "before0.json", "--exit-zero", "--want", "m=1,a=1"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == judged
    # A file of before was made of other users, drawn by their rows.
    del decision["design"]["by"]
    lists = {name: [] for name in ("allow", "block", "undecided")}
    recommended = type(decision["recommended"])()
    cut.write_text(json.dumps(decision | lists | {"recommended": recommended, "complete": False}))
    assert run(["gate", str(cut), "--want", "m=1,a=1", "--db", "d.duckdb"]) == 2
    assert "drawn by the order of their rows" in " ".join(capsys.readouterr().err.split())
