"""A level of pairs on a distributed engine, against its bare GROUP BY and against DuckDB.

`python benchmarks/spark.py FOLDER --rows 1000000` reads coded users from Parquet files made by
spark_data.py (what is missing is made), asks for the spectra of pairs of the 20 columns in batches
of twenty in three ways, one after the other for each batch, and writes JSON to stdout: seconds,
their ratios, and the peak memory of the engine. `--pairs 0:40` takes a part of the 190 pairs, so
that long runs can be cut. `--engine spark` needs SPARK_HOME and Java. `--plot a.json b.json` draws
the answers of earlier runs as SVG instead.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import signal
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import duckdb
import spark_cluster
import spark_data
from svg import COLOURS

from fpmonitor.cluster.portable import SETS_A_STATEMENT, EngineSource
from fpmonitor.cluster.spark import SparkEngine
from fpmonitor.sql import statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_cluster import Server

PAIRS = list(itertools.combinations([f"a{i}" for i in range(20)], 2))
WAYS = ("fpmonitor", "bare", "duckdb")


class Peak:
    """Largest resident memory of a server's processes while the block runs."""

    def __init__(self, server: Server) -> None:
        self.bytes, self._server, self._done = 0, server, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            self.bytes = max(self.bytes, self._server.resident_bytes())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def engine_spectra(engine: SparkEngine, rows: int, pairs: Sequence[tuple[str, str]]) -> list[Any]:
    """Spectra as the search asks for them."""
    source = EngineSource(engine, "users", {api: api for api in sum(PAIRS, ())}, rows)
    return [(s.counts.tolist(), s.values.tolist()) for s in source.spectra(pairs)]


def bare_group_by(engine: SparkEngine, pairs: Sequence[tuple[str, str]]) -> None:
    """GROUP BY of each pair and nothing else; one row comes back."""
    for a, b in pairs:
        engine.frame(
            f"SELECT count(*), sum(n) FROM (SELECT count(*) AS n FROM users GROUP BY {a}, {b})"
        )


def duckdb_spectra(paths: Sequence[Path], pairs: Sequence[tuple[str, str]]) -> list[Any]:
    """Spectra by DuckDB from the same files, on two threads."""
    files = ", ".join(f"'{path}'" for path in paths)
    found = []
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.execute(f"CREATE VIEW users AS SELECT * FROM read_parquet([{files}])")
        for pair in pairs:
            text = statement("spectrum/of_set", snapshot="users", columns=", ".join(pair))
            arrays = connection.execute(text).fetchnumpy()
            found.append((arrays["users"].tolist(), arrays["tuples"].tolist()))
    return found


def measure(server: Server, paths: list[Path], rows: int, part: slice) -> dict[str, Any]:
    """Seconds of each way, batch by batch, the engine's ways in turn first."""
    pairs = PAIRS[part]
    seconds = dict.fromkeys(WAYS, 0.0)
    with SparkEngine(server.url) as engine:
        engine.define_files("users", [str(path) for path in paths])
        engine.frame("SELECT count(*) FROM users WHERE a0 > 0")
        with Peak(server) as peak:
            for number, start in enumerate(range(0, len(pairs), SETS_A_STATEMENT)):
                batch = pairs[start : start + SETS_A_STATEMENT]
                answers: dict[str, Any] = {}
                for way in ("fpmonitor", "bare") if number % 2 else ("bare", "fpmonitor"):
                    started = time.perf_counter()
                    if way == "bare":
                        bare_group_by(engine, batch)
                    else:
                        answers[way] = engine_spectra(engine, rows, batch)
                    seconds[way] += time.perf_counter() - started
                started = time.perf_counter()
                answers["duckdb"] = duckdb_spectra(paths, batch)
                seconds["duckdb"] += time.perf_counter() - started
                if answers["fpmonitor"] != answers["duckdb"]:
                    raise SystemExit("the spectra of the engines differ")
    return {
        "rows": rows,
        "pairs": [part.start, part.start + len(pairs)],
        "seconds": {way: round(value, 3) for way, value in seconds.items()},
        "seconds_per_pair": {way: round(v / len(pairs), 4) for way, v in seconds.items()},
        "peak_bytes_of_engine": peak.bytes,
        "same_spectra_as_duckdb": True,
        "ratio": {
            "fpmonitor / bare GROUP BY of the engine": round(
                seconds["fpmonitor"] / seconds["bare"], 3
            ),
            "fpmonitor / duckdb": round(seconds["fpmonitor"] / seconds["duckdb"], 3),
        },
    }


@contextmanager
def started(engine: str, memory: str) -> Iterator[Server]:
    """Start the engine in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        if engine == "sail":
            with spark_cluster.sail(Path(folder)) as server:
                yield server
        else:
            home = Path(os.environ["SPARK_HOME"])
            with spark_cluster.spark(Path(folder), home, memory=memory) as server:
                yield server


def plot(paths: Sequence[Path]) -> str:
    """Seconds a pair against rows, both logarithmic: one line an engine and way."""
    sums: dict[tuple[str, str], dict[int, list[float]]] = {}
    for path in paths:
        answer = json.loads(path.read_text())
        for line in answer["levels"]:
            first, last = line["pairs"]
            for way in WAYS:
                name = "DuckDB" if way == "duckdb" else answer["engine"]
                total = sums.setdefault((name, way), {}).setdefault(line["rows"], [0.0, 0.0])
                total[0] += line["seconds"][way]
                total[1] += last - first
    return _drawing(
        {
            (name if way == "duckdb" else f"{name}, {'bare GROUP BY' if way == 'bare' else way}"): {
                rows: seconds / pairs for rows, (seconds, pairs) in points.items()
            }
            for (name, way), points in sums.items()
        }
    )


def _drawing(lines: dict[str, dict[int, float]]) -> str:
    """Draw lines on decades of rows and seconds."""
    every = [v for points in lines.values() for v in points.values()]
    low, high = math.floor(math.log10(min(every))), math.ceil(math.log10(max(every)))
    rows = [r for points in lines.values() for r in points]
    left, right = math.floor(math.log10(min(rows))), math.ceil(math.log10(max(rows)))

    def x(value: float) -> float:
        return 70 + 420 * (math.log10(value) - left) / (right - left)

    def y(value: float) -> float:
        return 400 - 340 * (math.log10(value) - low) / (high - low)

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 460">',
        '<g font-family="sans-serif" font-size="12">',
        '<rect width="760" height="460" fill="white"/>',
        '<text x="70" y="30" font-size="15">Seconds per pair of columns against users</text>',
        '<text x="280" y="448" text-anchor="middle">users (rows of Parquet)</text>',
    ]
    for power in range(left, right + 1):
        parts += [
            f'<line x1="{x(10**power)}" x2="{x(10**power)}" y1="60" y2="400" stroke="#ddd"/>',
            f'<text x="{x(10**power)}" y="420" text-anchor="middle">{10**power:,}</text>',
        ]
    for power in range(low, high + 1):
        parts += [
            f'<line x1="70" x2="490" y1="{y(10.0**power)}" y2="{y(10.0**power)}" stroke="#ddd"/>',
            f'<text x="62" y="{y(10.0**power) + 4}" text-anchor="end">{10.0**power:g} s</text>',
        ]
    for number, (name, points) in enumerate(sorted(lines.items())):
        colour = COLOURS[number % len(COLOURS)]
        at = [(x(r), y(v)) for r, v in sorted(points.items())]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in at)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in at]
        place = 80 + 20 * number
        parts.append(f'<rect x="505" y="{place - 9}" width="14" height="4" fill="{colour}"/>')
        parts.append(f'<text x="525" y="{place - 2}">{name}</text>')
    return "\n".join([*parts, "</g></svg>"]) + "\n"


def main() -> None:
    """Measure, or draw what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=lambda text: Path(text).resolve(), nargs="?")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--pairs", default="0:190")
    parser.add_argument("--engine", choices=("sail", "spark"), default="sail")
    parser.add_argument("--memory", default="3g", help="of each Spark executor")
    parser.add_argument("--plot", type=Path, nargs="+")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers end as well
    if options.plot:
        sys.stdout.write(plot(options.plot))
        return
    part = slice(*map(int, options.pairs.split(":")))
    with started(options.engine, options.memory) as server:
        levels = [
            measure(server, spark_data.write_files(options.folder, rows), rows, part)
            for rows in options.rows
        ]
    answer = {"engine": options.engine, "threads": 2, "duckdb": duckdb.__version__}
    print(json.dumps(answer | {"levels": levels}, indent=1))


if __name__ == "__main__":
    main()
