"""Coded users of any number as Parquet files, for the benchmark of the distributed engine.

`python benchmarks/spark_data.py FOLDER --rows 100000000` writes files of a million rows each, with
20 whole-number columns a0..a19 of 2 to 20,000 values. The bytes depend on the seed, the number of
the file and the version of Polars only; files that are there are kept, so that work can stop and
go on. JSON about the files goes to stdout.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import polars as pl

SEED = 20260101
ROWS_OF_FILE = 1_000_000
MODELS = 4000  # browsers of one model mostly agree
CARDINALITIES = (
    *(2, 2, 3, 4, 5, 6, 8, 10, 12, 16),
    *(24, 32, 50, 80, 120, 250, 500, 1500, 5000, 20000),
)


def zipf_ends(values: int, exponent: float) -> np.ndarray:
    """Upper ends of the intervals of [0, 1) that stand for each of `values` values."""
    weights = np.arange(1, values + 1, dtype=np.float64) ** -exponent
    return np.cumsum(weights) / weights.sum()


def users(rows: int, number: int) -> pl.DataFrame:
    """Draw the users of one file: the model of the browser fixes most values."""
    law = np.random.default_rng(SEED)
    rng = np.random.default_rng([SEED, number])
    model = np.searchsorted(zipf_ends(MODELS, 1.05)[:-1], rng.random(rows, dtype=np.float32))
    columns = {}
    for column, values in enumerate(CARDINALITIES):
        ends = zipf_ends(values, 1.1 + 0.02 * column)[:-1]
        of_model = np.searchsorted(ends, law.random(MODELS)).astype(np.int32)
        kept = 0.97 - 0.15 * column / len(CARDINALITIES)
        drawn = of_model[model]
        others = np.flatnonzero(rng.random(rows, dtype=np.float32) >= kept)
        drawn[others] = np.searchsorted(ends, rng.random(len(others)))
        columns[f"a{column}"] = drawn + 1
    return pl.DataFrame(columns)


def write_files(folder: Path, rows: int) -> list[Path]:
    """Write what is missing of the files that together hold `rows` users."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, start in enumerate(range(0, rows, ROWS_OF_FILE)):
        size = min(ROWS_OF_FILE, rows - start)
        path = folder / f"{number:05d}-{size}.parquet"
        if not path.exists():
            scratch = path.with_suffix(".part")
            users(size, number).write_parquet(scratch, compression="zstd")
            scratch.replace(path)
        paths.append(path)
    return paths


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    paths = write_files(options.folder, options.rows)
    size = sum(path.stat().st_size for path in paths)
    print(json.dumps({"rows": options.rows, "files": len(paths), "bytes": size}))


if __name__ == "__main__":
    main()
