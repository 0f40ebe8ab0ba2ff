"""Logs of any size, drawn from the law of the fixture logs, for the benchmarks of ingest.

`python benchmarks/data.py FILE --users 1000000` writes a log in the form that the name of FILE
says: .csv, .parquet or .jsonl (wide: a row a user; with --long a line an observation). The bytes
depend on the users, the seed and the version of Polars only. JSON about the file goes to stdout.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

LAW = Path(__file__).parents[1] / "fixtures" / "law"
SEED = 20260303
FIRST_VISIT = 1000 * int(datetime(2026, 3, 2, tzinfo=UTC).timestamp())  # milliseconds
MILLISECONDS = 1000 * 7 * 24 * 3600
LEFT_OUT = ("Navigator.oscpu", "http:accept-encoding")  # 20 of the 22 APIs of the law stay
WHOLE_NUMBERS = (
    "Navigator.hardwareConcurrency",
    "Navigator.maxTouchPoints",
    "Screen.colorDepth",
    "Screen.height",
    "Screen.width",
)
USERS_AT_ONCE = 50_000  # of a long log, whose rows are made in memory


def draw_rows(weights: NDArray[np.int64], users: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw rows of the law with replacement, in proportion to their weights."""
    ends = np.cumsum(weights)
    rows: NDArray[np.intp] = np.searchsorted(
        ends, np.floor(rng.random(users) * ends[-1]), side="right"
    )
    return rows


def browsers(users: int, *, seed: int = SEED) -> pl.DataFrame:
    """Draw a wide log: `user`, `time`, 20 API columns of text or whole numbers; null is absent."""
    rng = np.random.default_rng(seed)
    law = pl.read_parquet(LAW / "law.parquet")
    values: dict[str, list[str]] = json.loads((LAW / "values.json").read_text(encoding="utf-8"))
    rows = draw_rows(law["weight"].cast(pl.Int64).to_numpy(), users, rng)
    milliseconds = FIRST_VISIT + np.sort(np.floor(rng.random(users) * MILLISECONDS)).astype(
        np.int64
    )
    visits = pl.Series("time", milliseconds).cast(pl.Datetime("ms", "UTC"))
    texts = [
        pl.Series(api, [None, *values[api]], dtype=pl.String).gather(law[api].to_numpy()[rows])
        for api in values
        if api not in LEFT_OUT
    ]
    number = pl.int_range(1, users + 1, eager=True).cast(pl.String).str.zfill(8)
    frame = pl.DataFrame([("b" + number).alias("user"), visits, *texts])
    return frame.with_columns(pl.col(WHOLE_NUMBERS).cast(pl.Int64))


def with_text_time(frame: pl.DataFrame) -> pl.DataFrame:
    """Time as ISO 8601 text, as text logs hold it."""
    if "time" not in frame.columns:
        return frame
    return frame.with_columns(pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"))


def observations(frame: pl.DataFrame) -> pl.DataFrame:
    """Long form of a wide frame: a row an observation, users together, values as text."""
    apis = frame.columns[2:]
    text = frame.with_columns(pl.col(apis).cast(pl.String))
    long = text.with_row_index("order").unpivot(
        apis, index=["order", "user", "time"], variable_name="api"
    )
    return long.drop_nulls("value").sort("order", "api").drop("order")


def write_long(frame: pl.DataFrame, path: Path) -> None:
    """Write long JSONL, some users at a time."""
    with path.open("wb") as file:
        for part in with_text_time(frame).iter_slices(USERS_AT_ONCE):
            observations(part).write_ndjson(file)


def write(frame: pl.DataFrame, path: Path) -> None:
    """Write a wide log in the form that the suffix of `path` says."""
    match path.suffix:
        case ".csv":
            with_text_time(frame).write_csv(path)
        case ".jsonl":
            with_text_time(frame).write_ndjson(path)
        case ".parquet":
            frame.write_parquet(path, compression="zstd")
        case other:
            raise SystemExit(f"no form for {other or path.name!r}: .csv, .jsonl or .parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--long", action="store_true", help="long JSONL")
    options = parser.parse_args()
    frame = browsers(options.users, seed=options.seed)
    if options.long:
        write_long(frame, options.file)
    else:
        write(frame, options.file)
    apis = frame.select(pl.exclude("user", "time"))
    facts = {
        "file": options.file.name,
        "users": frame.height,
        "apis": apis.width,
        "cells": int(apis.count().sum_horizontal().item()),
        "bytes": options.file.stat().st_size,
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
