"""Real rows on an engine and in a database file: snapshot, decision and view must be the same.

`python benchmarks/cluster.py ROWS.parquet... --users 1000000` repeats the rows of Parquet files
with new user names until there are so many, half of the columns nested in a struct, with ties and
late visits (one user in ten), and takes a snapshot of their latest visits on Sail (`--engine spark`
needs SPARK_HOME and Java). The same visits go into a database file by `ingest`. Digest and decision
are compared, with the rows in memory and with every spectrum counted by the engine; any difference
is exit code 1. JSON on stdout: seconds of each stage, rows and bytes that the decision brought.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import spark_cluster

from fpmonitor.cluster.folder import FolderSnapshot
from fpmonitor.cluster.snapshot import take_engine_snapshot
from fpmonitor.cluster.spark import SparkEngine
from fpmonitor.monitor import Monitor
from fpmonitor.population.views import View
from fpmonitor.snapshots import SnapshotMonitor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LATEST = (
    "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY user "
    "ORDER BY time DESC NULLS LAST, batch DESC, visit DESC) AS place FROM {0}) AS numbered "
    "WHERE place = 1"
)
VIEW = View(volatile="raw")  # what the rows are; repeats are made up


class Clock:
    """Seconds of named stages."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - started, 1)
        print(name, self.seconds[name], file=sys.stderr, flush=True)


class CountedEngine(SparkEngine):
    """Counts what it answers."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.queries = self.rows = self.bytes = 0

    def frame(self, text: str) -> pl.DataFrame:
        """Return the rows of a query."""
        found = super().frame(text)
        self.queries, self.rows = self.queries + 1, self.rows + len(found)
        self.bytes += int(found.estimated_size())
        return found


def visits_of(rows: Sequence[Path], users: int) -> pl.DataFrame:
    """Visits of so many users: the rows again and again; a tenth has a second visit, or a tie."""
    real = pl.concat([pl.read_parquet(path) for path in rows], how="diagonal_relaxed")
    # The file keeps what an earlier visit had where a later one is silent; the query does not.
    real = real.select(pl.col(pl.String).fill_null(""), pl.col(pl.Int64, pl.Float64).fill_null(-1))
    real = real.drop("user_id", "release", strict=False)
    frame = pl.concat([real] * -(-users // len(real))).head(users)
    time = pl.lit(1_000_000, pl.Int64)
    numbered = frame.select(
        pl.int_range(pl.len()).cast(pl.String).alias("user"), time.alias("time"), pl.all()
    )
    # Another row of the data for the same user: earlier, later, or at the same time.
    again = numbered.sample(fraction=0.1, seed=1).with_columns(
        numbered["user"].sample(fraction=0.1, seed=2).alias("user"),
        (time + pl.int_range(pl.len()) % 3 - 1).alias("time"),
    )
    return pl.concat([numbered, again])


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    clock = Clock()
    visits = visits_of(options.rows, options.users)
    flat = folder / "visits.parquet"
    visits.write_parquet(flat)
    apis = visits.columns[2:]
    inner = pl.struct(apis[: len(apis) // 2]).alias("nested")
    visits.with_row_index("visit").select(
        "user", "time", pl.lit("one").alias("batch"), "visit", inner, *apis[len(apis) // 2 :]
    ).write_parquet(folder / "nested.parquet")
    nested_names = {api: f"nested.{api}" for api in apis[: len(apis) // 2]}
    visits.rename(nested_names).write_parquet(flat)
    candidates = [nested_names.get(api, api) for api in apis][: options.candidates]
    question: dict[str, Any] = {
        "k": 10,
        "budget": 0.05,
        "population": 10 * options.users,
        "candidates": candidates,
    }
    with Monitor(folder / "file.duckdb", create=True, view=VIEW) as monitor:
        with clock.stage("file: ingest"):
            monitor.ingest([str(flat)])
        with clock.stage("file: snapshot"):
            digest = monitor.population().digest
        with clock.stage("file: decide"):
            here = monitor.decide(**question)
    if options.engine == "sail":
        starting = spark_cluster.sail(folder)
    else:
        starting = spark_cluster.spark(folder, Path(os.environ["SPARK_HOME"]))
    with starting as server:
        with SparkEngine(server.url) as engine:
            engine.define_table("visits", str(folder / "nested.parquet"))
            latest = folder / "latest"
            with clock.stage("engine: latest visits"):
                engine.write(LATEST.format("visits"), str(latest))
            with clock.stage("engine: snapshot"):
                taken = take_engine_snapshot(engine, str(latest), str(folder / "snapshots"))
            with clock.stage("engine: the same snapshot again"):
                assert not take_engine_snapshot(
                    engine, str(latest), str(folder / "snapshots")
                ).is_new
        with (
            SnapshotMonitor(taken.folder, view=VIEW) as monitor,
            clock.stage("folder: decide in memory"),
        ):
            local = monitor.decide(**question)
        FolderSnapshot.in_memory = lambda _self, _apis: False  # type: ignore[method-assign]
        with SnapshotMonitor(taken.folder, server.url, view=VIEW) as monitor:
            counted = CountedEngine(server.url)
            monitor.snapshot = FolderSnapshot(taken.folder, counted)
            with clock.stage("engine: decide by queries"):
                there = monitor.decide(**question)
            counted.close()
    size = sum(file.stat().st_size for file in Path(taken.folder).rglob("users-*/*.parquet"))
    # The digests in them are keyed, by the database or by the snapshot.
    answers = [(d.allow, d.block, d.undecided, d.recommended) for d in (here, local, there)]
    return {
        "engine": options.engine,
        "visits": len(visits),
        "users": taken.manifest.users,
        "apis": len(apis),
        "same_digest": taken.manifest.digest == digest,
        "same_decision": answers[0] == answers[1] == answers[2],
        "seconds": clock.seconds,
        "queries": counted.queries,
        "rows_brought": counted.rows,
        "bytes_brought": counted.bytes,
        "bytes_a_user": round(size / taken.manifest.users, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path, nargs="+", help="Parquet, one row a user")
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--candidates", type=int, default=8, help="APIs that are decided on")
    parser.add_argument("--engine", choices=["sail", "spark"], default="sail")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run(options, Path(folder))
    print(json.dumps(found, indent=2))
    sys.exit(not (found["same_digest"] and found["same_decision"]))


if __name__ == "__main__":
    main()
