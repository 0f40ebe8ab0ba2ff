"""The trend over many windows, and the false alarms and the power of its drift tests.

    python benchmarks/trend.py speed --windows 30 --users 1000000 [--db FILE] [--seconds 280]
    python benchmarks/trend.py drift --runs 1000

`speed` fills a database window by window with the rows that ingest would leave, and goes on where
it was stopped, so that a large one can be made in turns; then it times `Monitor.trend`, adds
another window, and times the trend that reads this one alone. Baseline: one statement of DuckDB
that groups the users of the same windows by one API and counts, which is the least that any trend
from nothing must read. It also takes the processor's time of a `watch --once` that stores a log of
1,000 late users of the newest window and looks at it, in a new process, beside one that ends at
once (`watch --help`). Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import polars as pl

from fpmonitor.estimate.drift import adjust_p_values, compare_laws, compare_spectra
from fpmonitor.monitor import Monitor
from fpmonitor.store.snapshot import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.answers.trend import TrendReport

START, LATE = datetime(2025, 1, 1), 1000  # noqa: DTZ001 -- UTC, as stored; users
# API -> number of its values; a value's share falls with its number.
APIS = {"Navigator.userAgent": 600, "Screen.height": 80, "Navigator.language": 40}
BASELINE = """
SELECT count(*) FROM (
    SELECT date_trunc('day', "time") AS day, value_id, count(*) AS users
    FROM observation JOIN visit USING (visit_id) WHERE api_id = 1 GROUP BY ALL
)
"""


def prepare(path: Path) -> int:
    """Make the database and its dictionary; how many windows it holds already."""
    Monitor(path, create=True).close()
    with duckdb.connect(path) as connection:
        if not connection.execute("SELECT count(*) FROM api").fetchall()[0][0]:
            for number, (api, values) in enumerate(APIS.items(), 1):
                connection.execute("INSERT INTO api VALUES (?, ?)", [number, api])
                connection.execute(
                    "INSERT INTO value SELECT ?, i, 'value', 'v' || i FROM range(1, ?) r(i)",
                    [number, values + 1],
                )
        return int(connection.execute("SELECT count(*) FROM batch").fetchall()[0][0])


def add_window(connection: duckdb.DuckDBPyConnection, window: int, users: int) -> None:
    """One day of users out of twice as many; every month one in fifty updates the browser."""
    first = window * users
    scatter = "(i * 7919 + 104729 * $window) % (2 * $users)"
    bound = {"window": window, "users": users, "first": first}
    connection.execute("BEGIN")
    connection.execute(
        f"""INSERT INTO visit SELECT ($first + i)::INTEGER, ({scatter})::INTEGER,
        TIMESTAMP '2025-01-01' + to_days($window::INTEGER) + to_seconds(i % 86400), NULL,
        $window + 1 FROM range($users::BIGINT) r(i)""",
        bound,
    )
    for number, values in enumerate(APIS.values(), 1):
        update = "+ $window // 28 * (hash(u, 7) % 50 = 0)::INTEGER" if number == 1 else ""
        connection.execute(
            f"""INSERT INTO observation SELECT ($first + i)::INTEGER, {number},
            1 + (pow(hash(u, {number}) % 1000003 / 1000003.0, 3) * {values - 14})::INTEGER {update}
            FROM (SELECT i, {scatter} AS u FROM range($users::BIGINT) r(i))""",
            bound,
        )
    connection.execute(
        """INSERT INTO batch (batch_id, digest, source, collector, ingested_at, read, stored,
        duplicates, rejected, users, apis, seconds) VALUES ($window + 1, 'day ' || $window,
        'benchmark', 'wide', TIMESTAMP '2025-01-01', $users, $users, 0, 0, $users, 3, 0)""",
        {"window": window, "users": users},
    )
    connection.execute("COMMIT")


def speed(arguments: argparse.Namespace) -> dict[str, Any]:
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.db or Path(folder) / "trend.duckdb"
        done = prepare(path)
        with duckdb.connect(path) as connection:
            while done < arguments.windows:
                if time.perf_counter() - started > arguments.seconds:
                    return {"filled": done, "of": arguments.windows, "note": "run again to go on"}
                add_window(connection, done, arguments.users)
                done += 1
            connection.execute("CHECKPOINT")
        return measure(path, arguments)


def measure(path: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    watched = Watched(path)
    report, seconds = timed_trend(path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with duckdb.connect(path) as connection:
        add_window(connection, len(report.windows), arguments.users)
        connection.execute("CHECKPOINT")
    next_day, next_seconds = timed_trend(path)
    assert len(next_day.windows) == len(report.windows) + 1
    look, started_only = watched.seconds(len(report.windows)), processor("watch", "--help")
    with duckdb.connect(path, config={"memory_limit": "1200MB"}) as connection:
        started = time.perf_counter()
        connection.execute(BASELINE).fetchall()
        baseline = time.perf_counter() - started
    return {
        "windows": len(report.windows),
        "users_a_window": arguments.users,
        "apis": len(APIS),
        "tests": report.tests,
        "alarms": len(report.alarms),
        "database_bytes": path.stat().st_size,
        "baseline": "one GROUP BY of DuckDB over one API of all windows",
        "baseline_seconds": round(baseline, 2),
        "trend_seconds": round(seconds, 2),
        "ratio": round(seconds / baseline, 2),
        "next_day_seconds": round(next_seconds, 2),
        "next_day_ratio": round(next_seconds / baseline, 4),
        "look_processor_seconds": round(look, 2),
        "look_baseline": "watch --help, which loads all that a look does",
        "look_baseline_seconds": round(started_only, 2),
        "look_ratio": round(look / started_only, 2),
        "peak_megabytes_before": before // 1024,
        "peak_megabytes": peak // 1024,
    }


class Watched:
    """A decision on the users of the first window, at whose newest one somebody has looked."""

    def __init__(self, path: Path) -> None:
        self._path, self._kept = path, tempfile.TemporaryDirectory()
        self._folder = Path(self._kept.name)
        with Monitor(path, window=Window(until=START + timedelta(days=1))) as monitor:
            decision = monitor.decide(k=10, population=10_000_000, budget=0.05, visits="last")
        self._decision = self._folder / "decision.json"
        self._decision.write_text(json.dumps(decision.to_json()), encoding="utf-8")
        (self._folder / "in").mkdir()
        self._look()

    def seconds(self, window: int) -> float:
        """Store a late log of a window, and look at it: the processor's seconds of a process."""
        moment = START + timedelta(days=window, hours=12)
        users = {"user": [f"late {user}" for user in range(LATE)], "time": [moment] * LATE}
        values = {api: ["v1"] * LATE for api in APIS}
        pl.DataFrame(users | values).write_parquet(self._folder / "in" / "late.parquet")
        return self._look()

    def _look(self) -> float:
        folder, options = str(self._folder / "in"), ["--by", "day", "--settle", "0", "--once"]
        options += ["--db", str(self._path), "--decision", str(self._decision)]
        return processor("watch", folder, *options)


def processor(*words: str) -> float:
    """Run a command in a new process; return the processor's seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "fpmonitor", *words]
    ended = subprocess.run(command, capture_output=True, check=False)
    assert ended.returncode in {0, 1, 3}, ended.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def timed_trend(path: Path) -> tuple[TrendReport, float]:
    started = time.perf_counter()
    with Monitor(path) as monitor:
        report = monitor.trend([list(APIS)], by="day", k=10)
    return report, time.perf_counter() - started


def laws(rng: np.random.Generator) -> list[NDArray[np.float64]]:
    """Laws of five APIs, from two values to a thousand with a long tail."""
    return [rng.dirichlet(np.full(size, 0.3)) for size in (2, 8, 40, 200, 1000)]


def family(
    samples: list[list[NDArray[np.int64]]], seed: int
) -> tuple[NDArray[np.float64], list[int]]:
    """Adjusted p-values of all tests of a trend, and the API of each."""
    p_values, apis = [], []
    for window in range(1, len(samples)):
        for api, (before, after) in enumerate(zip(*samples[window - 1 : window + 1], strict=True)):
            for compare in (compare_laws, compare_spectra):
                p_values.append(compare(before, after, seed=seed + len(p_values)).p_value)
                apis.append(api)
    return adjust_p_values(p_values), apis


def drift(arguments: argparse.Namespace) -> dict[str, Any]:
    """Null runs of five windows, and runs with 1 % of the users of one API moved in the last."""
    false = found = elsewhere = 0
    found_by_api = [[0, 0] for _ in range(5)]
    started = time.perf_counter()
    for run in range(arguments.runs):
        rng = np.random.default_rng([arguments.seed, run])
        truth = laws(rng)
        null = [[rng.multinomial(arguments.users, law) for law in truth] for _ in range(5)]
        false += bool((family(null, run * 1000)[0] <= arguments.false_alarms).any())
        changed = run % 5
        moved = move(truth[changed], rng)
        null[4][changed] = rng.multinomial(arguments.users, moved)
        adjusted, apis = family(null, run * 1000)
        alarmed = {
            api for api, p in zip(apis, adjusted, strict=True) if p <= arguments.false_alarms
        }
        found += changed in alarmed
        elsewhere += bool(alarmed - {changed})
        found_by_api[changed][0] += changed in alarmed
        found_by_api[changed][1] += 1
    return {
        "runs": arguments.runs,
        "windows": 5,
        "users_a_window": arguments.users,
        "tests_a_run": 40,
        "stated_false_alarm_rate": arguments.false_alarms,
        "runs_with_a_false_alarm": false,
        "moved_users": 0.01,
        "found": found,
        "found_by_values_of_the_api": {
            str(size): f"{hits} of {tries}"
            for size, (hits, tries) in zip((2, 8, 40, 200, 1000), found_by_api, strict=True)
        },
        "alarms_on_another_api": elsewhere,
        "seconds": round(time.perf_counter() - started, 1),
    }


def move(law: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Move 1 % of the users from the most frequent value to one drawn from all others."""
    moved = law.copy()
    top = int(np.argmax(law))
    other = int(rng.choice(np.delete(np.arange(len(law)), top)))
    moved[top] -= 0.01
    moved[other] += 0.01
    return moved


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    timed = commands.add_parser("speed")
    timed.add_argument("--windows", type=int, default=30)
    timed.add_argument("--users", type=int, default=100_000)
    timed.add_argument("--db", type=Path)
    timed.add_argument("--seconds", type=float, default=280, help="longest time to fill")
    tested = commands.add_parser("drift")
    tested.add_argument("--runs", type=int, default=1000)
    tested.add_argument("--users", type=int, default=50_000)
    tested.add_argument("--false-alarms", type=float, default=0.01)
    tested.add_argument("--seed", type=int, default=20251101)
    arguments = parser.parse_args()
    print(json.dumps({"speed": speed, "drift": drift}[arguments.command](arguments), indent=2))


if __name__ == "__main__":
    main()
