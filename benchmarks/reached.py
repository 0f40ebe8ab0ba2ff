"""What the commands reach beside what the certificate's theory promised: tiers, visitors, Adult.

    python benchmarks/reached.py --cache FOLDER [tiers] [visitors] [adult]    # needs npm and pip

Tables are those of `known_truth_laws.py`, each row a user, at the first look at a new database.
Tiers: limits of `exposure --k 10%`. Visitors and Adult: how many of some thousand sets are within a
set that `decide` allows, or hold one that it blocks. `promised` is what theorems A to H gave in a
programme of their own, with scores that need not be monotone beyond 30 m (which no command uses).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import tempfile
import time
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from known_truth_laws import TABLES

from fpmonitor.cli import run

if TYPE_CHECKING:
    from collections.abc import Iterable

USERS, MORE, LARGEST = 10_000, 1_000, 4
TIERS = {"small": 394, "second": 2_751, "large": 8_570, "third": 2_477}
TWO = {"small": 3_122, "large": 11_070}


def main() -> None:
    parser = argparse.ArgumentParser(description="What the commands reach.")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("parts", nargs="*", default=["tiers", "visitors", "adult"])
    options = parser.parse_args()
    options.cache.mkdir(exist_ok=True)
    found: dict[str, Any] = {}
    if "tiers" in options.parts:
        found["four tiers, n = 10^6"] = of_tiers(TIERS, "1M", [0.0230, 0.0343])
        found["four tiers, n = 14,192"] = of_tiers(TIERS, "14192", [0.0231, 0.0345])
        found["two tiers, n = 10^6"] = of_tiers(TWO, "1M", [0.0, 0.0010])
    for part, table, asked in (
        ("visitors", "User agents 2025", {"1M": (3_467, 0), "100k": (2_413, 1_338)}),
        ("adult", "Adult", {"1M": (846, 816)}),
    ):
        for population, promised in asked.items() if part in options.parts else ():
            frame = TABLES[table](options.cache)
            found[f"{table}, n = {population}"] = of_sets(frame, population, promised)
    print(json.dumps(found, indent=1))


def command(*words: str) -> str:
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        code = run(words)
    if code not in {0, 3}:
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


def of_sets(frame: pl.DataFrame, population: str, promised: tuple[int, int]) -> dict[str, Any]:
    frame = frame.sample(min(USERS, len(frame)), seed=1)
    columns = [f"a{i}" for i in range(frame.width)]
    frame = frame.rename(dict(zip(frame.columns, columns, strict=True))).cast(pl.String)
    chosen, sets = random.Random(3), list[frozenset[str]]()
    for size in range(1, LARGEST + 1):
        sets += map(frozenset, combinations(columns, size))
    sizes = range(LARGEST + 1, min(9, len(columns)))
    sets += [frozenset(chosen.sample(columns, chosen.choice(sizes))) for _ in range(MORE)]
    with tempfile.TemporaryDirectory() as folder:
        db, made = stored(folder, frame.to_dicts()), Path(folder) / "decision.json"
        began = time.process_time()
        asked = ["--budget", "5%", "-n", population, "--max-size", "8", "--time-limit", "300"]
        command("decide", *asked, "--db", db, "--quiet", "--output", str(made))
        seconds = time.process_time() - began
        decided = json.loads(made.read_text())
    allow, block = ([frozenset(one) for one in decided[name]] for name in ("allow", "block"))
    allowed = sum(any(one <= other for other in allow) for one in sets)
    blocked = sum(any(one >= other for other in block) for one in sets)
    return {
        "sets": len(sets),
        "allowed": allowed,
        "blocked": blocked,
        "promised": promised,
        "complete": decided["complete"],
        "seconds": round(seconds, 1),
    }


if __name__ == "__main__":
    main()
