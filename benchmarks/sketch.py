"""What sketches of values cost, and what they say, beside a full group-by of DuckDB.

    python benchmarks/sketch.py FOLDER --users 100000000

makes users of eight columns in Parquet parts of ten million, sketches each part at the level that
keeps a million values per set of all users, merges, and groups all users of some sets by DuckDB,
every step in a process of its own on one thread. What FOLDER
holds already is not made again, so that an interrupted run goes on. JSON goes to stdout: processor
seconds, peak memory, bytes, the limits beside the exact exposure, and `cpu` of the sketch of all
sets as a ratio to the full group-bys of the same sets, added up, also of those that ended for want
of memory. `--full` names fewer sets to group
by, where the others do not fit; the ratio is then to these alone.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
from pathlib import Path
from time import process_time
from typing import Any

import duckdb

from fpmonitor.answers.sketch import report_sketch
from fpmonitor.cluster.engine import DuckEngine
from fpmonitor.duckdb_connection import SETTINGS
from fpmonitor.estimate.value_sample import planned_level
from fpmonitor.question import Question
from fpmonitor.sketch.file import read_sketch, write_sketch
from fpmonitor.sketch.making import SketchPlan, sketch_table
from fpmonitor.sketch.merge import merge_sketches
from fpmonitor.sketch.words import SketchKey

PART = 10_000_000
KEY = SketchKey(bytes(range(32)))
ENTRIES = 1_000_000
K, DELTA = 10, 0.05
# Column -> what its text begins with, how many values a Zipf law of exponent 1 has.
COLUMNS = {
    "browser": ("Browser/", 60),
    "canvas": ("c", 40_000),
    "gpu": ("ANGLE (GPU ", 3_000),
    "language": ("", 150),
    "os": ("OS ", 8),
    "screen": ("", 400),
    "zone": ("UTC", 120),
}
SETS = (
    ("fonts",),
    ("browser", "os"),
    ("browser", "gpu", "os"),
    ("language", "screen", "zone"),
    ("browser", "gpu", "screen"),
    ("canvas", "os", "zone"),
    ("browser", "canvas", "fonts", "gpu", "language", "os", "screen", "zone"),
)


def main() -> None:
    """Run the steps that are asked for, or all and print what they found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--users", type=int, default=100_000_000)
    parser.add_argument("--full", action="append", help="a set to group by; default: all")
    parser.add_argument("--step", help="used by the steps themselves")
    asked = parser.parse_args()
    if asked.step:
        step, _, argument = asked.step.partition(":")
        print(json.dumps(STEPS[step](asked.folder, argument)))
        return
    print(json.dumps(compared(asked.folder, asked.users, asked.full), indent=2))


def compared(folder: Path, users: int, full: list[str] | None) -> dict[str, Any]:
    """Run all steps that are not done."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = math.ceil(users / PART)
    for part in range(parts):
        if not part_of(folder, part).exists():
            run(folder, f"make:{part},{min(PART, users - part * PART)}")
    level = planned_level(users, ENTRIES)
    made = [run(folder, f"sketch:{part},{level}", keep=True) for part in range(parts)]
    merged = run(folder, f"merge:{parts},{level}")
    names = [",".join(apis) for apis in SETS]
    grouped = {name: run(folder, f"full:{parts};{name}", keep=True) for name in full or names}
    found = read_sketch(folder / "all.sketch")
    reports = report_sketch(found, Question(K, None, DELTA))
    limits = {",".join(report.apis): report for report in reports}
    cpu = sum(one["cpu"] for one in made) + merged["cpu"]
    return {
        "users": found.users,
        "bytes": sum(part_of(folder, part).stat().st_size for part in range(parts)),
        "sketch": {
            "cpu": cpu,
            "cpu_ratio": cpu / sum(one["cpu"] for one in grouped.values()),
            "peak_megabytes": max(one["peak_megabytes"] for one in made),
            "merge_cpu": merged["cpu"],
            "bytes": (folder / "all.sketch").stat().st_size,
        },
        "sets": {
            name: {
                "share": limits[name].share,
                "kept_values": limits[name].kept_values,
                "lower": limits[name].lower,
                "upper": limits[name].upper,
                "full": grouped.get(name),
            }
            for name in names
        },
    }


def part_of(folder: Path, part: int) -> Path:
    """File of a part of the users."""
    return folder / f"users{part:04d}.parquet"


def sketch_of(folder: Path, part: int, level: int) -> Path:
    """Sketch of a part of the users."""
    return folder / f"users{part:04d}-{level}.sketch"


def run(folder: Path, step: str, *, keep: bool = False) -> dict[str, Any]:
    """Run a step in a process of its own; what it found may be kept beside its file."""
    kept = folder / f"{step.replace(':', '-').replace(';', '-').replace(',', '.')}.json"
    if keep and kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return found
    done = subprocess.run(
        [sys.executable, __file__, str(folder), "--step", step], stdout=subprocess.PIPE, check=True
    )
    if keep:
        kept.write_bytes(done.stdout)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


# Steps: each is a process


def uniform(column: int) -> str:
    """A number in [0, 1) that follows from the user's number."""
    return f"((hash(i * 32 + {column}) >> 12) / {1 << 52}::DOUBLE)"


def zipf(column: int, values: int) -> str:
    """A value of a law whose ranks are log-uniform."""
    return f"floor({values}::DOUBLE ** {uniform(column)})::BIGINT"


def make(folder: Path, argument: str) -> dict[str, Any]:
    """Write a part of the users: few font lists are common, and a tail has 300 million others."""
    part, users = map(int, argument.split(","))
    columns = [
        f"'{prefix}' || {zipf(place, values)} AS {name}"
        for place, (name, (prefix, values)) in enumerate(COLUMNS.items())
    ]
    rare = f"5000 + floor(3e8 * {uniform(20)} * {uniform(21)})::BIGINT"
    columns.append(f"CASE WHEN {uniform(22)} < 0.98 THEN {zipf(23, 5000)} ELSE {rare} END AS fonts")
    rows = f"SELECT {', '.join(columns)} FROM range({part * PART}, {part * PART + users}) t(i)"
    scratch = part_of(folder, part).with_suffix(".part")
    connected().execute(f"COPY ({rows}) TO '{scratch}' (FORMAT parquet, COMPRESSION zstd)")
    scratch.rename(part_of(folder, part))
    return measured_step()


def sketch(folder: Path, argument: str) -> dict[str, Any]:
    """Sketch all sets of a part in one pass."""
    part, level = map(int, argument.split(","))
    SETTINGS["threads"] = 1
    plan = SketchPlan(key=KEY, sets=SETS, level=level)
    with DuckEngine() as engine:
        found = sketch_table(engine, str(part_of(folder, part)), plan)
    write_sketch(found, sketch_of(folder, part, level))
    return measured_step()


def merge(folder: Path, argument: str) -> dict[str, Any]:
    """Merge the sketches of all parts: each row is another user."""
    parts, level = map(int, argument.split(","))
    paths = [sketch_of(folder, part, level) for part in range(parts)]
    merged = merge_sketches(((str(path), read_sketch(path)) for path in paths), disjoint=True)
    write_sketch(merged, folder / "all.sketch")
    return measured_step()


def full(folder: Path, argument: str) -> dict[str, Any]:
    """Group all users by a set; values and observed exposure, null where memory does not do."""
    parts, _, names = argument.partition(";")
    files = [str(part_of(folder, part)) for part in range(int(parts))]
    grouped = f"SELECT count(*) AS users FROM read_parquet({files}) GROUP BY {names}"
    spectrum = f"SELECT users, count(*) FROM ({grouped}) GROUP BY users"
    try:
        counts = dict(connected().execute(spectrum).fetchall())
    except duckdb.OutOfMemoryException:
        return measured_step() | {"values": None, "exposed": None}
    below = sum(users * values for users, values in counts.items() if users < K)
    users = sum(users * values for users, values in counts.items())
    return measured_step() | {"values": sum(counts.values()), "exposed": below / users}


def connected() -> duckdb.DuckDBPyConnection:
    """Return a connection with one thread that keeps to its memory."""
    return duckdb.connect(config={"threads": 1, "memory_limit": "10GB", "temp_directory": ""})


def measured_step() -> dict[str, Any]:
    """Processor seconds and peak memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"cpu": process_time(), "peak_megabytes": peak}


STEPS = {"make": make, "sketch": sketch, "merge": merge, "full": full}


if __name__ == "__main__":
    main()
