"""Databases of rows that a test makes up."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fpmonitor.cli import run
from fpmonitor.duckdb_connection import connect

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


def stored(folder: Path, rows: Iterable[Mapping[str, Any]]) -> str:
    """Database in a folder of one visit a row, of users `u0`, `u1`, ..."""
    with (folder / "log.jsonl").open("w") as lines:
        for i, row in enumerate(rows):
            lines.write(json.dumps({"user": f"u{i}", **row}) + "\n")
    db = str(folder / "d.duckdb")
    assert run(["ingest", str(folder / "log.jsonl"), "--db", db, "--quiet"]) == 0
    return db


def looked_at_by_an_earlier_version(db: str | Path) -> None:
    """Let a database say what those of earlier versions say: nobody noted looks or first names.

    Its tests are then those of users of whom nobody keeps count, such as answers of a warehouse:
    all of delta is for every look.
    """
    with connect(str(db)) as connection:
        connection.execute(
            "INSERT OR REPLACE INTO meta VALUES ('first_look', 'every'), ('first_apis', '')"
        )
