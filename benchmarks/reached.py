"""What the commands reach beside what the certificate's theory promised: tiers, visitors, Adult.

    python benchmarks/reached.py TABLE ... [--population 1M 100k] [--no-tiers]

A table (Parquet or CSV) has a row for each user, of whom 10,000 count, at the first look at a new
database. Tiers: limits of `exposure --k 10%`. Tables: how many of some thousand sets, all of up to
four columns and 1,000 larger ones, are within a set that `decide --budget 5%` allows, or hold one
that it blocks. `promised` is what theorems A to H gave in a programme of their own, with scores
that need not be monotone beyond 30 m (which no command uses). `possible` is how many sets somebody
could decide who tests each by itself, and knows its law.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import tempfile
import time
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fpmonitor.cli import run
from fpmonitor.estimate.ceiling import users_possible
from fpmonitor.population.memory import MemorySource

if TYPE_CHECKING:
    from collections.abc import Iterable

PROMISED = {  # sets allowed and blocked, by table and population
    ("useragents_1.1.666", "1M"): (3_467, 0),
    ("useragents_1.1.666", "100k"): (2_413, 1_338),
    ("useragents_1.0.38", "100k"): (2_693, 1_808),
    ("adult", "1M"): (846, 816),
}
USERS, MORE, LARGEST = 10_000, 1_000, 4
TIERS = {"small": 394, "second": 2_751, "large": 8_570, "third": 2_477}
TWO = {"small": 3_122, "large": 11_070}


def main() -> None:
    parser = argparse.ArgumentParser(description="What the commands reach.")
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--population", nargs="+", default=["1M", "100k"])
    parser.add_argument("--no-tiers", action="store_true")
    options = parser.parse_args()
    if not options.no_tiers:
        row("four tiers, n = 10^6", of_tiers(TIERS, "1M", [0.0230, 0.0343]))
        row("four tiers, n = 14,192", of_tiers(TIERS, "14192", [0.0231, 0.0345]))
        row("two tiers, n = 10^6", of_tiers(TWO, "1M", [0.0, 0.0010]))
    for table, population in product(options.tables, options.population):
        promised = PROMISED.get((table.stem, population))
        row(f"{table.stem}, n = {population}", of_sets(users_of(table), population, promised))


def row(name: str, found: dict[str, Any]) -> None:
    print(json.dumps({"of": name, **found}), flush=True)


def users_of(table: Path) -> pl.DataFrame:
    """10,000 rows, in which no value is absent."""
    read = pl.read_csv if table.suffix == ".csv" else pl.read_parquet
    frame = read(table).select(pl.exclude("user_id").cast(pl.String).fill_null("none"))
    chosen = np.random.default_rng(1).permutation(frame.height)[:USERS]
    return frame[chosen.tolist()] if frame.height > USERS else frame


def command(*words: str) -> str:
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        code = run(words)
    if not told.getvalue() and code not in {0, 3}:  # else it is that of a verdict
        raise SystemExit(code)
    return told.getvalue()


def stored(folder: str, rows: Iterable[dict[str, Any]]) -> str:
    log, db = Path(folder) / "log.jsonl", str(Path(folder) / "users.duckdb")
    with log.open("w") as lines:
        lines.writelines(json.dumps({"user": f"u{i}"} | row) + "\n" for i, row in enumerate(rows))
    command("ingest", str(log), "--db", db, "--quiet")
    return db


def of_tiers(tiers: dict[str, int], population: str, promised: list[float]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        rows = ({"tier": name} for name, users in tiers.items() for _ in range(users))
        asked = ["--k", "10%", "-n", population, "--db", stored(folder, rows), "--format", "json"]
        [report] = json.loads(command("exposure", "tier", *asked))
    limits = [round(report[name], 4) for name in ("lower", "upper")]
    return {"limits": limits, "promised": promised}


def of_sets(
    frame: pl.DataFrame, population: str, promised: tuple[int, int] | None
) -> dict[str, Any]:
    columns = [f"a{i}" for i in range(frame.width)]
    frame = frame.rename(dict(zip(frame.columns, columns, strict=True)))
    chosen, sets = random.Random(3), list[frozenset[str]]()
    for size in range(1, LARGEST + 1):
        sets += map(frozenset, combinations(columns, size))
    sizes = range(LARGEST + 1, min(9, len(columns)))
    sets += [frozenset(chosen.sample(columns, chosen.choice(sizes))) for _ in range(MORE)]
    with tempfile.TemporaryDirectory() as folder:
        db, made = stored(folder, frame.to_dicts()), Path(folder) / "decision.json"
        began = time.process_time()
        asked = ["--budget", "5%", "-n", population]
        command("decide", *asked, "--db", db, "--quiet", "--output", str(made))
        seconds = time.process_time() - began
        decided = json.loads(made.read_text())
    allow, block = ([frozenset(one) for one in decided[name]] for name in ("allow", "block"))
    # a column of one value tells nothing, and is no evidence: it stands in no list
    alike = {name for name in columns if frame[name].n_unique() == 1}
    allowed = sum(any(one - alike <= other for other in [*allow, set()]) for one in sets)
    blocked = sum(any(one >= other for other in block) for one in sets)
    return {
        "sets": len(sets),
        "allowed": allowed,
        "blocked": blocked,
        "promised": promised,
        "possible": possible(frame, sets, decided["policy"]),
        "complete": decided["complete"],
        "seconds": round(seconds, 1),
    }


def possible(frame: pl.DataFrame, sets: list[frozenset[str]], policy: dict[str, Any]) -> int:
    """How many sets any test could decide from so many users."""
    codes = [frame[name].rank("dense").to_numpy() for name in frame.columns]
    source = MemorySource(frame.columns, codes)
    asked = {name: policy[name] for name in ("k", "population", "budget", "delta")}
    needed = users_possible(source.spectra(map(sorted, sets)), users=source.users, **asked)
    return sum(users is not None and users <= source.users for users in needed)


if __name__ == "__main__":
    main()
