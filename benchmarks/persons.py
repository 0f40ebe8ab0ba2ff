"""What sketches say of 325,361,484 real persons, beside what was counted, and what they cost.

    python benchmarks/persons.py FOLDER [--entries 100000]

fetches US births by name, sex, year and state (see known_truth_laws.py), writes a table with a row
for each person, and runs `scale sketch make` and `scale sketch exposure` on all 15 sets of the four
columns. FOLDER keeps the package and the table for the next run. JSON goes to stdout:
processor seconds and peak memory of each command, bytes, and for each set the limits, in per cent,
beside the share of the persons that are in groups of fewer than k, counted.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
from known_truth_laws import PERSONS, births, law_of
from scale import run

COLUMNS = ("name", "sex", "state", "year")
SETS = [names for size in range(1, 5) for names in combinations(COLUMNS, size)]
K = 10


def write_table(cache: Path, table: Path) -> None:
    """Write the counts, and a row for each person in their order."""
    counted = cache / "births.parquet"
    births(cache).write_parquet(counted)
    chosen = f"SELECT {', '.join(COLUMNS)}, unnest(range(births)) AS person FROM '{counted}'"
    duckdb.execute("SET enable_progress_bar = false")
    duckdb.execute(f"COPY ({chosen}) TO '{table}.part' (FORMAT parquet, COMPRESSION zstd)")
    Path(f"{table}.part").rename(table)


def asked(cache: Path, entries: int) -> dict[str, Any]:
    """Make a sketch of all sets, ask it, and hold the truth beside it."""
    table = cache / "persons.parquet"
    if not table.exists():
        # In a process of its own: the memory of this one would count as that of the commands, as
        # it did: 2,251 MB in place of 469.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
            apart.submit(write_table, cache, table).result()
    with tempfile.TemporaryDirectory() as scratch:
        key, sketch, answers = (Path(scratch) / name for name in ("key", "sketch", "answers.json"))
        run(["scale", "sketch", "key", str(key)])
        sets = [word for names in SETS for word in ("--apis", ",".join(names))]
        made = ["--from", str(table), "--key-file", str(key), "--entries", str(entries)]
        costs = {
            "sketch make": run(["scale", "sketch", "make", *sets, *made, "-o", str(sketch)]),
            "sketch exposure": run(
                ["scale", "sketch", "exposure", str(sketch), "--k", str(K), "--format", "json",
                 "-o", str(answers)]
            ),
        }  # fmt: skip
        sizes = {path.name: path.stat().st_size for path in (table, sketch)}
        found = json.loads(answers.read_text(encoding="utf-8"))
    return {"bytes": sizes, "commands": costs, "sets": beside_truth(cache, found)}


def beside_truth(cache: Path, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Limits of each set, and what it exposes, per cent.

    That is the share that was counted, whose mean over populations is what is limited. The exposure
    of the law that has the counted shares is another number: it gives nobody a value of its own.
    """
    counted = pl.read_parquet(cache / "births.parquet")
    lines = []
    for one in found:
        share = law_of(PERSONS, one["apis"], counted, "births").share_of_persons(K)
        assert share is not None
        numbers = {"lower": one["lower"], "counted": share, "upper": one["upper"]}
        lines.append({"apis": one["apis"], **{name: 100 * x for name, x in numbers.items()}})
    return lines


def main() -> None:
    """Run all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--entries", type=int, default=100_000, help="values that a set keeps")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    print(json.dumps(asked(chosen.folder, chosen.entries), indent=2))


if __name__ == "__main__":
    main()
