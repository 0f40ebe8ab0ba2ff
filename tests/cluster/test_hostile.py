"""Folders of snapshots that somebody else wrote: read as they are, or refused in one line."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.cluster.snapshot import NO_TEXT, SEPARATOR, VERSION

if TYPE_CHECKING:
    from pathlib import Path

USERS = 300
NAME = "x\n::error::h\x1b[2J"
QUESTIONS = (
    ["exposure", "--apis", "A.a,A.b", "--k", "3"],
    ["db", "apis"],
    ["exposure", "--rank", "--size", "1"],
    ["decide", "--budget", "5%", "-n", "1000", "--quiet"],
    ["scale", "sample", "--users", "10", "-o", "sample.parquet"],
)
CHANGES: dict[str, dict[str, Any]] = {
    "users": {"users": -1},
    "as many users as memory has not": {"users": 10**30},
    "fewer users": {"users": USERS - 1},
    "visits": {"visits": -5},
    "no API": {"seen": {}},
    "negative": {"seen": {"A.a": -1, "A.b": 10**30}},
    "names": {"seen": {NAME: USERS, "A.b": USERS}, "digest": NAME, "said": {"A.b": NAME}},
    "a column too few": {"seen": {"A.a": USERS, "A.b": USERS, "A.c": USERS}},
    "a part elsewhere": {"part": "../../etc"},
    "a part of no name": {"part": "\0"},
    "a part of any name": {"part": "*"},
    "a later version": {"version": VERSION + 1},
}
COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "codes that are texts": ("a0", ["x"] * USERS),
    "negative codes": ("a0", [-1] * USERS),
    "no codes": ("a0", [None] * USERS),
    "codes for which no memory is there": ("a0", [2**63 - 1] * USERS),
    "codes that no value has": ("a0", [99] * USERS),
    "codes that are no numbers": ("a0", [float("nan")] * USERS),
    "lists": ("a0", [[1]] * USERS),
    "negative hashes": ("high", [-1] * USERS),
    "long hashes": ("high", [2**40] * USERS),
    "one hash": ("low", [0] * USERS),
    "cells of no kind": ("cell", ["x"] * 5),
    "no cells": ("cell", [None] * 5),
    "cells that command": ("cell", [f"value{SEPARATOR}{NAME}"] * 5),
    "numbers for cells": ("cell", [5] * 5),
    "codes of cells that are texts": ("code", ["a"] * 5),
    "negative codes of cells": ("code", [-1] * 5),
    "cells of no column": ("number", [7] * 5),
}


def write(folder: Path, manifest: dict[str, Any], column: tuple[str, list[Any]] | None) -> None:
    """Write what `fpmonitor scale snapshot` would, but for some members or a column."""
    shutil.rmtree(folder, ignore_errors=True)
    content = {
        "version": VERSION,
        "digest": "ab" * 32,
        "users": USERS,
        "visits": USERS,
        "seen": {"A.a": USERS, "A.b": USERS},
        "part": "p",
        "key": "cd" * 32,
    }
    users: dict[str, list[Any]] = {
        "high": [number * 7919 for number in range(USERS)],
        "low": list(range(USERS)),
        "a0": [1 + number % 3 for number in range(USERS)],
        "a1": [1 + number % 2 for number in range(USERS)],
    }
    values: dict[str, list[Any]] = {
        "number": [0, 0, 0, 1, 1],
        "cell": [*(f"value{SEPARATOR}{text}" for text in "1231"), f"error{SEPARATOR}{NO_TEXT}"],
        "code": [1, 2, 3, 1, 2],
    }
    if column is not None:
        (users if column[0] in users else values)[column[0]] = column[1]
    parts: dict[str, dict[str, list[Any]]] = {
        "manifest": {"manifest": [json.dumps(content | manifest)]},
        "users-p": users,
        "values-p": values,
    }
    for name, columns in parts.items():
        (folder / name).mkdir(parents=True)
        pl.DataFrame(columns, strict=False).write_parquet(folder / name / "0.parquet")


def test_a_sound_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "snapshot", {}, None)
    assert [run([*asked, "--snapshot", "snapshot"]) for asked in QUESTIONS] == [0] * len(QUESTIONS)


@pytest.mark.parametrize("what", [*CHANGES, *COLUMNS])
def test_a_hostile_folder_is_read_or_refused_in_one_line(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "snapshot", CHANGES.get(what, {}), COLUMNS.get(what))
    for asked in QUESTIONS:
        assert run([*asked, "--snapshot", "snapshot"]) in {0, 2, 3}, asked
        for said in capsys.readouterr():
            assert said.replace("\n", "").isprintable() or not said
            assert not any(line.lstrip().startswith("::") for line in said.splitlines())
