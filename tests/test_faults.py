"""Killed at any moment of an ingest, the database opens and the batch is whole or absent."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from fpmonitor.store.database import Database

if TYPE_CHECKING:
    from pathlib import Path

USERS = 40_000
KILLS = 4
SEED = 20260304

INGEST = """
import sys
from pathlib import Path
from fpmonitor.logs import ColumnMap, log_files
from fpmonitor.store.database import Database
from fpmonitor.store.ingest import choose_collector, ingest

with Database(Path(sys.argv[1]), create=True) as database, log_files(sys.argv[2:]) as (log,):
    print("ready", flush=True)
    ingest(database, log, choose_collector(log, ColumnMap()))
"""

CONTENT = """
SELECT count(*), sum(hash(visit_id, user_id, "time", api.name, status, text))::VARCHAR
FROM observation
JOIN visit USING (visit_id)
JOIN api USING (api_id)
JOIN value ON value.api_id = observation.api_id AND value.value_id = observation.value_id
"""
TABLES = ("batch", "reject", "api", "value", "user", "source", "visit", "observation")


@pytest.fixture(scope="module")
def log_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(SEED)
    path = tmp_path_factory.mktemp("log") / "log.csv"
    apis = {f"Interface.member{i}": rng.integers(0, 5**i, USERS) for i in range(10)}
    frame = pl.DataFrame({"user": np.arange(USERS)} | apis)
    frame.write_csv(path)
    with path.open("a", encoding="utf-8") as file:
        file.write("broken\n" * 10)
    return path


def start(database: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start an ingest, and come back when it begins."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", INGEST, str(database), str(log)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def finish(process: subprocess.Popen[bytes]) -> int:
    with process:
        return process.wait()


def rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    with Database(database) as opened:
        found: list[tuple[Any, ...]] = opened._connection.execute(query).fetchall()
        return found


def sizes(database: Path) -> tuple[int, ...]:
    """Rows of every table."""
    counts = (f"(SELECT count(*) FROM {table})" for table in TABLES)
    return rows(database, f"SELECT {', '.join(counts)}")[0]


def test_killed_ingest_leaves_the_whole_batch_or_nothing(log_path: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole.duckdb"
    began = time.monotonic()
    assert finish(start(whole, log_path)) == 0
    duration = time.monotonic() - began
    expected = sizes(whole)
    assert expected[0] == 1

    database = tmp_path / "killed.duckdb"
    rng = random.Random(SEED)
    outcomes = []
    for _ in range(KILLS):
        process = start(database, log_path)
        time.sleep(rng.uniform(0, duration))
        process.kill()
        finish(process)
        found = sizes(database)
        outcomes.append(found == expected)
        assert found in (expected, (0,) * len(TABLES))
        if outcomes[-1]:
            database.unlink()
    assert not all(outcomes), "no kill came before the end: the test shows nothing"

    assert finish(start(database, log_path)) == 0
    assert sizes(database) == expected
    assert rows(database, CONTENT) == rows(whole, CONTENT)


def test_kill_in_a_second_ingest_leaves_the_first(log_path: Path, tmp_path: Path) -> None:
    database = tmp_path / "two.duckdb"
    first = tmp_path / "first.jsonl"
    first.write_text('{"user":"u","a":1}\n', encoding="utf-8")
    assert finish(start(database, first)) == 0
    before = sizes(database), rows(database, CONTENT)
    process = start(database, log_path)
    time.sleep(0.1)
    process.kill()
    finish(process)
    assert (sizes(database), rows(database, CONTENT)) == before
