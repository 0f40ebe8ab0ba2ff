"""Draws of users follow from their values: the same users in other rows are drawn alike."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cli import run
from tests.asked import answer_of
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
    lists: dict[str, object] = {name: [] for name in ("allow", "block", "undecided")}
    lists |= {"recommended": type(decision["recommended"])(), "utility": 0.0, "complete": False}
    cut.write_text(json.dumps(decision | lists))
    assert run(["gate", str(cut), "--exit-zero", "--want", "m=1,a=1", "--db", "d.duckdb"]) == 0
    judged = json.loads(capsys.readouterr().out)["verdict"]
    assert run(["gate", "before0.json", "--exit-zero", "--want", "m=1,a=1"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == judged
    # A file of before was made of other users, drawn by their rows.
    del decision["design"]["by"]
    cut.write_text(json.dumps(decision | lists))
    assert run(["gate", str(cut), "--want", "m=1,a=1", "--db", "d.duckdb"]) == 2
    assert "drawn by the order of their rows" in " ".join(capsys.readouterr().err.split())


@pytest.mark.long
@pytest.mark.parametrize(
    "what_if",
    [("memory", "constant = '1'"), ("memory", "round = 2"), ("unheard", "constant = '0'")],
)
@pytest.mark.parametrize(
    "drawn",
    [
        ("--cluster", "household", "--candidates", "agent"),
        ("--strata", "shares.toml", "--candidates", "other"),
        ("--search-users", "300", "--candidates", "agent,other"),
    ],
)
def test_a_view_that_costs_nothing_draws_nobody_anew(
    tmp_path: Path,
    drawn: tuple[str, ...],
    what_if: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A draw is one of those that the theorem is about only if nobody can have another for free."""
    draw = random.Random(4)
    rows = [
        {
            "memory": int(draw.expovariate(0.2)),
            "agent": f"v{int(draw.expovariate(0.3))}",
            "other": f"o{int(draw.expovariate(0.2))}",
            "household": f"h{draw.randrange(500)}",
        }
        | ({"unheard": draw.randrange(3)} if draw.random() < 0.5 else {})
        for _ in range(800)
    ]
    db = stored(tmp_path, rows)
    shares = tmp_path / "shares.toml"
    shares.write_text('by = "agent"\n[shares]\nv0 = 0.1\nother = 0.9\n')
    asked = [str(shares) if each == "shares.toml" else each for each in drawn]
    less = tmp_path / "less.toml"
    less.write_text("[{}]\n{}\n".format(*what_if))
    found = []
    for view in ([], ["--what-if", str(less)]):
        path = tmp_path / f"{len(found)}.json"
        command = ["decide", "--db", db, "--budget", "30%", "--k", "5", *asked, *view]
        assert run([*command, "-q", "-o", str(path)]) == 0
        content = json.loads(path.read_text())
        found.append({name: content.get(name) for name in ("allow", "block", "undecided")})
        confirmed = content.get("confirmation") or {}
        found[-1] |= {"chains": confirmed.get("chains"), "searched": confirmed.get("searched")}
        if "--search-users" in drawn:
            assert "and the number of users to search among were fixed" in content["guarantee"]
        spectra = ["exposure", "--db", db, "--k", "5", *[e for e in asked if e != "--candidates"]]
        if "--search-users" not in drawn:
            spectra[-1:] = ["--apis", drawn[-1]]
            [told] = answer_of(capsys, *spectra, *view)
            found[-1] |= {name: told[name] for name in ("users", "empirical", "values")}
    assert found[0] == found[1]
