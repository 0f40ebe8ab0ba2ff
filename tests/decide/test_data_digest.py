"""The digest in what is handed on: reproducible for the owner, of no use to who guesses."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cli import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

KNOWN = [
    {"Navigator.platform": random.Random(i).choice("abc"), "Screen.width": i % 3}
    for i in range(300)
]
VICTIM = {"Navigator.platform": "rare-7", "Screen.width": 9}


def database_of(rows: Sequence[dict[str, Any]], folder: Path, name: str) -> str:
    log, db = folder / f"{name}.jsonl", str(folder / f"{name}.duckdb")
    records = ({"user": f"{name}{i}", **row} for i, row in enumerate(rows))
    log.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert run(["ingest", str(log), "--db", db, "--quiet"]) == 0
    return db


def of_decision(db: str, folder: Path) -> str:
    out = str(folder / "decision.json")
    options = ["--budget", "0.5", "--population", "300", "--db", db, "-o", out, "--quiet"]
    assert run(["--for-others", "decide", *options]) == 0
    return str(json.loads((folder / "decision.json").read_text())["data"]["digest"])


def of_release(db: str, folder: Path) -> str:
    out = str(folder / "table.parquet")
    assert (
        run(["release", "--apis", "Screen.width", "--k", "10", "--db", db, "-o", out, "--quiet"])
        == 0
    )
    manifest = json.loads((folder / "table.manifest.json").read_text())
    return str(manifest["data"]["digest"])


@pytest.mark.parametrize("told", [of_decision, of_release])
def test_who_knows_all_users_but_one_cannot_confirm_a_guess(
    told: Callable[[str, Path], str], tmp_path: Path
) -> None:
    published = told(database_of([*KNOWN, VICTIM], tmp_path, "published"), tmp_path)
    right = told(database_of([*KNOWN, VICTIM], tmp_path, "right"), tmp_path)
    wrong = told(database_of([*KNOWN, VICTIM | {"Screen.width": 8}], tmp_path, "wrong"), tmp_path)
    assert len({published, right, wrong}) == 3


@pytest.mark.parametrize("told", [of_decision, of_release])
def test_the_owner_finds_the_same_digest_in_the_database_and_its_copies(
    told: Callable[[str, Path], str], tmp_path: Path
) -> None:
    db = database_of([*KNOWN, VICTIM], tmp_path, "own")
    copy, folder = str(tmp_path / "copy.duckdb"), str(tmp_path / "out")
    first = told(db, tmp_path)
    assert told(db, tmp_path) == first
    assert run(["db", "compact", "--db", db]) == 0
    assert told(db, tmp_path) == first
    assert run(["db", "copy-out", folder, "--db", db]) == 0
    assert run(["db", "copy-in", folder, "--db", copy]) == 0
    assert told(copy, tmp_path) == first
