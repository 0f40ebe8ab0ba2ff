"""Killed at any moment of an ingest, the database opens and the batch is whole or absent."""

from __future__ import annotations

import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.errors import StoreError
from fpmonitor.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Iterator

USERS = 40_000
KILLS = 3
SEED = 20260304

INGEST = """
import sys
from pathlib import Path
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.logs.finding import log_files
from fpmonitor.store.database import Database
from fpmonitor.collectors.choosing import choose_collector
from fpmonitor.store.ingest import ingest_log

with Database(Path(sys.argv[1]), create=True) as database, log_files(sys.argv[2:]) as (log,):
    print("ready", flush=True)
    ingest_log(database, log, choose_collector(log, ColumnMap()))
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
    apis = {f"Interface.member{i}": rng.integers(0, min(5**i, 10_000), USERS) for i in range(10)}
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


@pytest.mark.long
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
    for number in range(KILLS):
        process = start(database, log_path)
        time.sleep(duration * (number + rng.random()) / KILLS)
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


@pytest.mark.long
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


KINDS = ("cut", "damage", "damage-log")  # kills and full disks have tests of their own here


@pytest.fixture(scope="module")
def faults() -> Iterator[Any]:
    """The benchmark itself, whose commands begin in one server of processes for all tests here."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
        yield importlib.import_module("faults")


@pytest.mark.long
def test_a_few_rounds_of_the_benchmark_lose_nothing_and_double_nothing(
    faults: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Hundreds of rounds of more kinds are run by hand: see docs/store.md."""
    options = ["--rounds", "1", "--users", "200", "--seed", "7", "--folder", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["faults.py", *options, "--kinds", *KINDS])
    faults.main()
    found = json.loads(capsys.readouterr().out)
    assert found["rounds"] == len(KINDS)
    for kind, counts in found["kinds"].items():
        told = f"{kind}: {counts}"
        assert not any(counts[name] for name in ("lost", "twice", "unclear", "stuck")), told
        cut_off = counts.get("end cut off: unnoticed", 0) if kind == "damage-log" else 0
        assert counts.get("unnoticed", 0) == cut_off, told


@pytest.mark.long
def test_the_benchmark_sees_a_loss(faults: Any, tmp_path: Path) -> None:
    """Its judgement is tried on a database that a careless ingest has left."""
    judge = faults.Faults(faults.World(tmp_path, 100))
    known = judge.undisturbed("ingest")
    with judge.fresh("ingest") as folder:
        with duckdb.connect(folder / "d.duckdb") as connection:
            connection.execute("DELETE FROM observation WHERE visit_id = 7")
            connection.execute("INSERT INTO observation FROM observation LIMIT 1")
        counts: Counter[str] = Counter()
        ending = faults.Ending(code=-9, seconds=0, out="", err="", peak_bytes=0)
        judge.judge("ingest", folder, known, ending, counts)
    assert counts["lost"]
    assert counts["twice"]
    assert counts["stuck"], "the second run does not mend it"


def test_a_folder_that_may_not_be_looked_into_is_an_error_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(_path: Path, **_options: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", forbidden)
        with pytest.raises(StoreError, match="Permission denied"):
            Database(tmp_path / "d.duckdb")
    assert run(["db", "apis", "--db", str(tmp_path / "none" / "d.duckdb")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.long
def test_a_full_disk_is_told_with_the_file_and_what_was_stored_stays(
    log_path: Path, tmp_path: Path
) -> None:
    path = tmp_path / "d.duckdb"
    first = tmp_path / "first.jsonl"
    first.write_text('{"user":"u","a":1}\n', encoding="utf-8")
    assert finish(start(path, first)) == 0
    limited = (
        "import resource, sys; from fpmonitor.cli import run; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); "
        "sys.exit(run(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-BP", "-c", limited, "ingest", str(log_path), "--db", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert re.fullmatch(
        r"fpmonitor: error: cannot write \S*d\.duckdb(\.wal)? \(File too large\); .*\n", done.stderr
    )
    assert sizes(path)[0] == 1
    assert finish(start(path, log_path)) == 0
    assert sizes(path)[0] == 2


SPILL = """
import sys, time
from pathlib import Path
from fpmonitor.store.database import Database

database = Database(Path(sys.argv[1]), create=True)
database._execute("SET memory_limit = '40MB'")
database._execute("CREATE TEMP TABLE x AS SELECT hash(range)::VARCHAR AS text FROM range(2000000)")
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.long
def test_what_a_killed_process_has_spilled_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "d.duckdb"
    with subprocess.Popen(
        [sys.executable, "-P", "-c", SPILL, str(path)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.kill()
    spills = list((tmp_path / "d.duckdb.tmp").iterdir())
    assert spills, "nothing was spilled: the test shows nothing"
    assert {spill.stat().st_mode & 0o777 for spill in spills} == {0o600}
    with Database(path, create=True):
        assert not (tmp_path / "d.duckdb.tmp").exists()


def test_what_is_reported_is_in_the_file_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log beside the file that is cut or left behind can lose what was not reported only."""
    log, path = tmp_path / "log.jsonl", tmp_path / "d.duckdb"
    log.write_text('{"user":"u","a":1}\n', encoding="utf-8")
    reported = []

    def report(rows: object, *_options: object) -> None:
        copy = Path(shutil.copy(path, tmp_path / "copy.duckdb"))  # without a log
        reported.append((rows, sizes(copy)[0]))

    monkeypatch.setattr("fpmonitor.cli.output.show", report)
    link = tmp_path / "link.duckdb"
    link.symlink_to(path)
    for name in (path, link):
        log.write_text(f'{{"user":"{name.stem}","a":1}}\n', encoding="utf-8")
        assert run(["ingest", str(log), "--db", str(name), "--quiet"]) == 0
    assert [batches for _, batches in reported] == [1, 2]


def test_a_kill_while_the_file_is_made_leaves_no_damaged_database(tmp_path: Path) -> None:
    command = "import sys; from pathlib import Path; from fpmonitor.store.database import Database"
    command += "; Database(Path(sys.argv[1]), create=True)"
    for attempt in range(6):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        database = folder / "new.duckdb"
        making = subprocess.Popen([sys.executable, "-P", "-c", command, str(database)])
        while not os.listdir(folder):  # noqa: PTH208 (the fastest look at it that there is)
            pass
        making.send_signal(signal.SIGKILL)
        making.wait()
        Database(database, create=True).close()
        assert [path.name for path in folder.iterdir()] == [database.name]
