"""Two decisions whose users are apart: a bound of both by how many values each set has."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fpmonitor.cli import run
from fpmonitor.estimate.exposure import statistical_exposure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

USERS, POPULATION = 4_000, 20_000


def decided(
    folder: Path, seed: int, values: dict[str, int], *options: str, days: Sequence[str] = ("01",)
) -> list[str]:
    """Store users with so many values of each API, and decide on them: the file, and --db."""
    folder.mkdir()
    log, database, output = folder / "log.csv", folder / "log.duckdb", folder / "d.json"
    rng = np.random.default_rng(seed)
    with log.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["user", "time", *values])
        for user in range(USERS):
            shown = [f"v{rng.integers(each)}" for each in values.values()]
            lines.writerows([f"u{user}", f"2026-03-{day}", *shown] for day in days)
    assert run(["ingest", str(log), "--db", str(database), "-q"]) == 0
    words = ["decide", "--k", "10", "--budget", "5%", "-n", str(POPULATION), "--fixed-question"]
    words += [word for api in values for word in ("--assume", api)]
    words += [*options, "--db", str(database), "-q"]
    assert run([*words, "-o", str(output)]) == 0
    return [str(output), "--db", str(database)]


def bounded(
    capsys: pytest.CaptureFixture[str], parts: Sequence[list[str]], code: int
) -> dict[str, Any]:
    capsys.readouterr()
    words = ["audit", "union", *(word for part in parts for word in part), "--format", "json"]
    assert run(words) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_sets_of_few_values_are_bounded_together_and_those_of_many_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each set by itself exposes nobody; what both have together nobody saw."""
    few = [decided(tmp_path / "a", 1, {"a": 6, "b": 5}), decided(tmp_path / "c", 2, {"c": 5})]
    found = bounded(capsys, few, 0)
    assert (found["apis"], found["kept"], found["users"]) == (["a", "b", "c"], [30, 5], [USERS] * 2)
    # 150 values add 0.515 k/n each; halves of the users bound what is beyond them
    assert 150 * 0.515 * 10 / POPULATION < found["upper"] < 0.05
    many = [decided(tmp_path / "d", 3, {"d": 200}), decided(tmp_path / "e", 4, {"e": 200})]
    truth = statistical_exposure(np.full(40_000, 1 / 40_000), k=10, population=POPULATION)
    assert truth > 0.99
    assert bounded(capsys, many, 3)["upper"] >= truth


def test_draws_of_a_visit_are_no_further_users(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All sixteen draws were counted, as if there were so many users: a third of the limit."""
    options = ["--unit", "visit", "--link-budget", "60%", "--after", "4d"]
    parts = [
        decided(tmp_path / api, seed, {api: 5}, *options, days=("01", "05", "09"))
        for seed, api in enumerate("ab")
    ]
    found = bounded(capsys, parts, 0)
    assert (found["kept"], found["users"]) == ([5, 5], [USERS] * 2)


def test_sets_may_be_chosen_by_looking_at_the_same_users(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of many sets the one that looks safest is safe by luck: each has its part of the level."""
    fixed = [decided(tmp_path / "a", 1, {"a": 6}), decided(tmp_path / "b", 2, {"b": 5})]
    alone = bounded(capsys, fixed, 0)["upper"]
    for path in (tmp_path / "a" / "d.json", tmp_path / "b" / "d.json"):
        database = path.with_name("log.duckdb")
        words = ["decide", "--k", "10", "--budget", "5%", "-n", str(POPULATION), "--db"]
        candidates = path.parent.name
        words += [str(database), "-q", "--candidates", candidates, "--assume", candidates]
        assert run([*words, "-o", str(path)]) == 0
    assert bounded(capsys, fixed, 0)["upper"] > 1.2 * alone


def test_apis_of_both_count_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = [{"a": 6, "b": 5}, {"b": 5, "c": 5}]
    parts = [decided(tmp_path / str(place), place, values) for place, values in enumerate(both)]
    assert bounded(capsys, parts, 0)["kept"] == [30, 5]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--unit", "path"], "all visits of a user"),
        (["--missing", "drop"], "drop"),
        (["--bias", "1.5"], "bias"),
    ],
)
def test_what_has_no_such_bound_is_refused_in_a_line(
    options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = decided(tmp_path / "a", 1, {"a": 6})
    other = decided(tmp_path / "b", 2, {"b": 5}, *options)
    capsys.readouterr()
    assert run(["audit", "union", *one, *other]) == 2
    [said] = capsys.readouterr().err.strip().splitlines()
    assert words in said
