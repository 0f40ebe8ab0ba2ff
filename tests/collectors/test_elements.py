"""A list is its elements where `--elements` says so: each is shown or hidden by itself."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cli import run
from fpmonitor.collectors.elements import MOST_ELEMENTS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LISTS: list[Any] = [["Arial", "Menlo"], ["Arial"], [], ["Arial", "Arial", "A.B"], None] * 12


def written(folder: Path, form: str, lists: Sequence[Any] = LISTS) -> str:
    """A log of one list a user."""
    path = folder / f"log.{form}"
    with path.open("w", newline="") as file:
        if form == "csv":
            rows = csv.writer(file)
            rows.writerow(["user", "fonts", "cores"])
            texts = ["" if each is None else json.dumps(each) for each in lists]
            rows.writerows([f"u{i}", text, i % 3] for i, text in enumerate(texts))
            return str(path)
        for i, each in enumerate(lists):
            value = json.dumps(each) if form == "texts.jsonl" and each is not None else each
            file.write(json.dumps({"user": f"u{i}", "fonts": value, "cores": i % 3}) + "\n")
    return str(path)


@pytest.mark.parametrize("form", ["jsonl", "texts.jsonl", "csv"])
def test_each_element_is_an_api_in_every_form(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = str(tmp_path / "d.duckdb")
    log = written(tmp_path, form)
    assert run(["ingest", log, "--db", db, "--elements", "fonts", "-q"]) == 0
    capsys.readouterr()
    asked = ["exposure", "--db", db, "--k", "10", "--format", "json"]
    for name, exposed in (("fonts.Arial", 0), ("fonts.Menlo", 0), ("fonts.A_B", 0)):
        assert run([*asked, "--apis", name]) == 0
        [found] = json.loads(capsys.readouterr().out)
        assert (found["users"], found["values"], found["empirical"]) == (60, 3, exposed)
    assert run([*asked, "--apis", "fonts.Arial,fonts.Menlo,fonts.A_B"]) == 0
    [together] = json.loads(capsys.readouterr().out)
    assert together["values"] == 5
    assert run([*asked, "--apis", "fonts"]) == 2
    assert "fonts" in capsys.readouterr().err
    assert run([*asked, "--apis", "cores"]) == 0


@pytest.mark.long
def test_the_best_subset_is_proven(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two elements are crowds, a third splits them into small groups."""
    lists = [
        [name for name, shown in (("A", i % 2), ("B", i % 4 < 2), (f"r{i % 40}", True)) if shown]
        for i in range(6_000)
    ]
    db, made = str(tmp_path / "d.duckdb"), tmp_path / "made.json"
    log = written(tmp_path, "jsonl", lists)
    path = tmp_path / "log.jsonl"
    path.write_text(path.read_text().replace('"fonts"', '"traits"'))
    assert run(["ingest", log, "--db", db, "--elements", "traits", "-q"]) == 0
    capsys.readouterr()
    names = "traits.A,traits.B,traits.r1,traits.r2"
    asked = ["decide", "--db", db, "--candidates", names, "--k", "50", "--budget", "1%"]
    assert run([*asked, "-q", "-o", str(made)]) == 0
    decided = json.loads(made.read_text())
    assert {"traits.A", "traits.B"} <= {*decided["recommended"]}


def test_a_column_map_and_its_plan_keep_elements(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = tmp_path / "map.toml"
    columns.write_text('elements = ["fonts"]\n')
    log, db = written(tmp_path, "jsonl"), str(tmp_path / "d.duckdb")
    assert run(["ingest", log, "--db", db, "--columns", str(columns), "-q"]) == 0
    capsys.readouterr()
    assert run(["exposure", "--db", db, "--apis", "fonts.Menlo", "--format", "json"]) == 0
    columns.write_text('elements = "fonts"\n')
    assert run(["ingest", log, "--db", db, "--columns", str(columns), "-q"]) == 2
    assert "lists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lists", "said"),
    [
        (["text"] * 20, "holds no list"),
        ([[f"f{i}"] for i in range(MOST_ELEMENTS + 1)], "different ones"),
    ],
)
def test_what_is_no_short_list_is_refused(
    lists: list[Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = written(tmp_path, "jsonl", lists)
    arguments = ["ingest", log, "--db", str(tmp_path / "d.duckdb"), "--elements", "fonts", "-q"]
    assert run(arguments) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "'f5" not in told


def test_broken_records_are_rejected_as_without_elements(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.jsonl"
    lines = [json.dumps({"user": f"u{i}", "fonts": ["A"] * (i % 2)}) for i in range(20)]
    path.write_text("\n".join([*lines[:3], '{"user": "x", "fonts": [', *lines[3:]]) + "\n")
    db = str(tmp_path / "d.duckdb")
    assert run(["ingest", str(path), "--db", db, "--elements", "fonts", "-q"]) == 0
    [report] = json.loads(capsys.readouterr().out)["batches"]
    assert report["rejected"] == 1


def test_other_members_stay_as_they_were_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """1.10 and 1e3 are texts of a browser: reading a list must not make 1.1 and 1000 of them."""
    path = tmp_path / "log.jsonl"
    lines = [
        f'{{"user": "u{i}", "fonts": ["A"], "ratio": {("1.10", "1.1")[i % 2]}}}' for i in range(40)
    ]
    path.write_text("\n".join(lines) + "\n")
    told = []
    for more in ([], ["--elements", "fonts"]):
        db = str(tmp_path / f"d{len(more)}.duckdb")
        assert run(["ingest", str(path), "--db", db, *more, "-q"]) == 0
        capsys.readouterr()
        assert run(["exposure", "--db", db, "--apis", "ratio", "--format", "json"]) == 0
        told.append(json.loads(capsys.readouterr().out)[0]["values"])
    assert told[0] == told[1]
