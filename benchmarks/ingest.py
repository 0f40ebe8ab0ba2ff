"""Ingest against bare DuckDB, which reads the same file into a table of a database on disk.

`python benchmarks/ingest.py --users 1000000` writes wide logs as Parquet, CSV and JSON lines, then
runs both in turn, each in a process of its own. JSON goes to stdout: medians of seconds and of CPU
seconds, `speed` and `cpu_speed` as ratios to bare DuckDB in the same rounds (1 is as fast), peak
memory in bytes, sizes of the databases, and the seconds of storing the same file once more and of
a file that repeats all but a hundredth of it.

`--table FILE.parquet` takes the rows of a real table, whose first column names the user, instead:
they are repeated up to `--users` rows, each with a new user. `--variants` adds logs that differ in
form alone: CSV with lines that end in CR LF, packed CSV, JSON lines that leave absent members out,
and CSV and JSON lines with one broken record in the middle. `--access` compares instead the log of
a server (combined) with the same requests as JSON lines; both count visitors.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
from data import browsers, with_text_time, write

VARIANTS = ("crlf.csv", "packed.csv.gz", "absent.jsonl", "broken.csv", "broken.jsonl")
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
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.logs.finding import log_files
from fpmonitor.store.database import Database
from fpmonitor.collectors.choosing import choose_collector
from fpmonitor.store.ingest import ingest_log

with Database(Path(sys.argv[1]), create=True) as database, log_files([sys.argv[2]]) as (log,):
    column_map = ColumnMap(visitor=len(sys.argv) > 3)
    ingest_log(database, log, choose_collector(log, column_map), column_map)
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


def repeated(table: Path, users: int) -> pl.DataFrame:
    """Rows of a real table, over and over, each of a user of its own."""
    rows = pl.read_parquet(table)
    frame = pl.concat([rows] * -(-users // rows.height)).head(users)
    number = pl.int_range(1, users + 1, eager=True).cast(pl.String).str.zfill(8)
    return frame.select(("b" + number).alias("user"), *frame.columns[1:])


def write_variant(frame: pl.DataFrame, log: Path) -> None:
    """Write a log whose name says in what it differs."""
    form = log.name.split(".", 1)[1]
    plain = with_text_time(frame)
    if form == "crlf.csv":
        plain.write_csv(log, line_terminator="\r\n")
    elif form == "packed.csv.gz":
        with gzip.open(log, "wb", compresslevel=1) as file:
            plain.write_csv(file)
    elif form == "absent.jsonl":
        with log.open("w", encoding="utf-8") as file:
            for row in plain.iter_rows(named=True):
                present = {name: value for name, value in row.items() if value is not None}
                file.write(json.dumps(present) + "\n")
    else:
        write(frame, log)
        lines = log.read_bytes().split(b"\n")
        lines.insert(len(lines) // 2, b'{"user": "broken"' if form == "broken.jsonl" else b"broken")
        log.write_bytes(b"\n".join(lines))


def write_requests(folder: Path, requests: int) -> tuple[Path, Path]:
    """Write requests as a combined log and as JSON lines of the same members."""
    text, lines = folder / f"{requests}.access.log", folder / f"{requests}.access.jsonl"
    begin = datetime(2026, 11, 1, tzinfo=UTC)
    with text.open("w", encoding="utf-8") as plain, lines.open("w", encoding="utf-8") as structured:
        for number in range(requests):
            address = f"10.{number % 200}.{number // 200 % 250}.{number % 7}"
            time = begin + timedelta(seconds=number)
            request, size = f"GET /page{number % 97} HTTP/1.1", 1000 + number % 4000
            agent = (
                f"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
                f"Chrome/{130 + number % 26}.0.0.0 Safari/537.36"
            )
            plain.write(
                f'{address} - - [{time:%d/%b/%Y:%H:%M:%S} +0000] "{request}" 200 {size} "-" '
                f'"{agent}"\n'
            )
            members = {
                "remote_addr": address, "time_iso8601": time.isoformat(), "request": request,
                "status": 200, "body_bytes_sent": size, "http_user_agent": agent,
            }  # fmt: skip
            structured.write(json.dumps(members) + "\n")
    return text, lines


def compare_requests(folder: Path, requests: int, rounds: int) -> dict[str, Any]:
    """Store the requests in both forms, in turn; `cpu_times` is the text log's times the JSON's."""
    runs: dict[str, list[Run]] = {"text": [], "json": []}
    logs = dict(zip(runs, write_requests(folder, requests), strict=True))
    for _ in range(rounds):
        for form, log in logs.items():
            database = folder / f"{form}.duckdb"
            database.unlink(missing_ok=True)
            runs[form].append(run(OURS, database, log, "visitor"))
    found = {form: report(each, folder / f"{form}.duckdb") for form, each in runs.items()}
    times = median(runs["text"], "cpu_seconds") / median(runs["json"], "cpu_seconds")
    return {"requests": requests, "rounds": rounds, **found, "cpu_times": round(times, 2)}


def compare(log: Path, rounds: int) -> dict[str, Any]:
    """Run both on one log."""
    form = log.name.removesuffix(".gz").rsplit(".", 1)[1]
    reader = FORMATS[form]
    # Bare DuckDB reads the same log without the broken record.
    whole = log.with_name(f"{log.name.split('.')[0]}.{form}") if "broken" in log.name else log
    bare_path, our_path = log.with_suffix(".bare"), log.with_suffix(".duckdb")
    bare, ours = [], []
    for _ in range(rounds):
        bare_path.unlink(missing_ok=True)
        our_path.unlink(missing_ok=True)
        bare.append(run(BARE, bare_path, whole, reader))
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
    parser.add_argument("--table", type=Path, help="rows of a real table")
    parser.add_argument("--variants", action="store_true", help="logs of other forms, too")
    parser.add_argument("--access", action="store_true", help="logs of servers, as text and JSON")
    options = parser.parse_args()
    if options.access:
        with tempfile.TemporaryDirectory() as scratch:
            found = compare_requests(Path(scratch), options.users, options.rounds)
        print(json.dumps(found, indent=1))
        return
    source = partial(repeated, options.table) if options.table else browsers
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        logs = [folder / f"{options.users}.{name}" for name in options.formats]
        if not all(log.is_file() for log in logs):
            frame = source(options.users)
            for log in logs:
                write(frame, log)
        results = {log.suffix[1:]: compare(log, options.rounds) for log in logs}
        for variant in VARIANTS if options.variants else ():
            write_variant(source(options.users), log := folder / f"{options.users}.{variant}")
            results[variant] = compare(log, options.rounds)
        overlap = folder / "overlap.parquet"
        frame = source(options.users)
        hundredth = frame.head(max(options.users // 100, 1))
        write(pl.concat([frame, hundredth.with_columns(pl.col("user") + "new")]), overlap)
        results["overlap"] = {
            "seconds": round(run(OURS, logs[0].with_suffix(".duckdb"), overlap).seconds, 2)
        }
    print(json.dumps({"users": options.users, "rounds": options.rounds, **results}, indent=1))


if __name__ == "__main__":
    main()
