"""Databases of rows that a test makes up."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fpmonitor.cli import run

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
