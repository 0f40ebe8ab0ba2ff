"""Ingest against bare DuckDB, which reads the same file into a table of a database on disk.

`python benchmarks/ingest.py --users 1000000` writes wide logs as Parquet, CSV and JSON lines, then
runs both in turn, each in a process of its own. JSON goes to stdout: medians of seconds and of CPU
seconds, `speed` and `cpu_speed` as ratios to bare DuckDB in the same rounds (1 is as fast), peak
memory in bytes, sizes of the databases, and the seconds of storing the same file once more and of
a file that repeats all but a hundredth of it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from data import browsers, write

FORMATS = {"parquet": "read_parquet", "csv": "read_csv", "jsonl": "read_json"}

BARE = """
import sys
import duckdb

connection = duckdb.connect(sys.argv[1])
connection.execute("SET enable_progress_bar = false")
connection.execute(f"CREATE TABLE t AS SELECT * FROM {sys.argv[3]}('{sys.argv[2]}')")
connection.close()
"""

OURS = """
import sys
from pathlib import Path
from fpmonitor.logs import ColumnMap, log_files
from fpmonitor.store.database import Database
from fpmonitor.store.ingest import choose_collector, ingest

with Database(Path(sys.argv[1]), create=True) as database, log_files([sys.argv[2]]) as (log,):
    ingest(database, log, choose_collector(log, ColumnMap()))
"""


@dataclass(frozen=True)
class Run:
    """One process: seconds, CPU seconds of all threads, largest resident memory in bytes."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int


def run(script: str, *arguments: object) -> Run:
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)])
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    if status:
        raise SystemExit(f"a run failed with status {status}")
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def median(runs: list[Run], field: str) -> float:
    return float(statistics.median(getattr(run, field) for run in runs))


def compare(log: Path, rounds: int) -> dict[str, Any]:
    reader = FORMATS[log.suffix[1:]]
    bare_path, our_path = log.with_suffix(".bare"), log.with_suffix(".duckdb")
    bare, ours = [], []
    for _ in range(rounds):
        bare_path.unlink(missing_ok=True)
        our_path.unlink(missing_ok=True)
        bare.append(run(BARE, bare_path, log, reader))
        ours.append(run(OURS, our_path, log))
    return {
        "log_bytes": log.stat().st_size,
        "bare": report(bare, bare_path),
        "ours": report(ours, our_path),
        "speed": round(median(bare, "seconds") / median(ours, "seconds"), 2),
        "cpu_speed": round(median(bare, "cpu_seconds") / median(ours, "cpu_seconds"), 2),
        "same_file_again": round(run(OURS, our_path, log).seconds, 2),
    }


def report(runs: list[Run], database: Path) -> dict[str, float]:
    return {
        "seconds": round(median(runs, "seconds"), 2),
        "cpu_seconds": round(median(runs, "cpu_seconds"), 2),
        "peak_bytes": max(run.peak_bytes for run in runs),
        "database_bytes": database.stat().st_size,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--folder", type=Path, help="keep the logs here and use them again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        logs = [folder / f"{options.users}.{name}" for name in options.formats]
        if not all(log.is_file() for log in logs):
            frame = browsers(options.users)
            for log in logs:
                write(frame, log)
        results = {log.suffix[1:]: compare(log, options.rounds) for log in logs}
        overlap = folder / "overlap.parquet"
        frame = browsers(options.users)
        hundredth = frame.head(max(options.users // 100, 1))
        write(pl.concat([frame, hundredth.with_columns(pl.col("user") + "new")]), overlap)
        results["overlap"] = {
            "seconds": round(run(OURS, logs[0].with_suffix(".duckdb"), overlap).seconds, 2)
        }
    print(json.dumps({"users": options.users, "rounds": options.rounds, **results}, indent=1))


if __name__ == "__main__":
    main()
