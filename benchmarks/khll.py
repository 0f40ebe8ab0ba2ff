"""Sketches of values beside KHyperLogLog at equal bytes: how far is each off the exposure?

    python benchmarks/khll.py FOLDER [--users 1000000] [--runs 40] [--values 4096]

takes the first users of FOLDER, which benchmarks/sketch.py has filled, and for each of `--runs`
keys makes of the same words both: KHyperLogLog (Chia and others 2019), the `--values` least words
with a HyperLogLog of the users of each (datasketches, 2^11 registers, compact), and a sketch of
ours that keeps the most values in a file of at most as many bytes. JSON goes to stdout: bytes, and
the root mean square of the error of the share of users below k, as a share of it. A KHyperLogLog
merges where the same users are in both, which a sketch refuses.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import datasketches
import numpy as np
import polars as pl

from fpmonitor.answers.sketch import report_sketch
from fpmonitor.question import Question
from fpmonitor.sketch.file import Sketch, made_at_once, write_sketch
from fpmonitor.sketch.words import KeptValues, SketchKey, is_kept

K, DELTA = 10, 0.05
LG_REGISTERS = 11
WORD_BYTES = 8
SETS = (
    ("fonts",),
    ("language", "screen", "zone"),
    ("browser", "gpu", "screen"),
    ("canvas", "os", "zone"),
)


def main() -> None:
    """Compare the sets one by one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--values", type=int, default=4096)
    asked = parser.parse_args()
    users = pl.scan_parquet(asked.folder / "users0000.parquet").head(asked.users).collect()
    found = {",".join(apis): compared(users, apis, asked.runs, asked.values) for apis in SETS}
    print(json.dumps({"users": len(users), "k": K, "runs": asked.runs, "sets": found}, indent=2))


def compared(users: pl.DataFrame, apis: tuple[str, ...], runs: int, values: int) -> dict[str, Any]:
    """Errors of both, with the same keys."""
    groups = users.select(apis).with_row_index("one").group_by(apis).agg("one").sort(apis)
    counts = groups["one"].list.len().to_numpy().astype(np.int64)
    exposure = counts[counts < K].sum() / len(users)
    codes = {api: np.unique(groups[api].to_numpy(), return_inverse=True) for api in apis}
    found = []
    for run in range(runs):
        key = SketchKey(hashlib.sha256(f"khll {run}".encode()).digest())
        words = key.chained(
            [
                key.words(api, (f"value\x1f{value}" for value in shown)).take(places)
                for api, (shown, places) in codes.items()
            ]
        )
        size, estimate = khll(words, groups["one"], values, len(users))
        found.append((size, estimate, *ours(key, apis, words, counts, size)))
    khll_bytes, khll_share, own_bytes, kept, share, lower, upper = np.array(found).T
    return {
        "exposure": exposure,
        "khll": {"bytes": khll_bytes.mean(), "error": error(khll_share, exposure)},
        "sketch": {
            "bytes": own_bytes.mean(),
            "values": kept.mean(),
            "error": error(share, exposure),
            "mean_limits": [lower.mean(), upper.mean()],
        },
    }


def error(estimates: np.ndarray, truth: float) -> float:
    """Root mean square, as a share of the truth."""
    return float(np.sqrt(np.mean((estimates / truth - 1) ** 2)))


def khll(words: np.ndarray, members: pl.Series, values: int, users: int) -> tuple[int, float]:
    """Bytes, and share of the users whose value has fewer than k by its HyperLogLog."""
    order = np.argsort(words)[: values + 1]
    # The values below the next word: each was kept with the chance that this word is of all.
    chance = float(words[order[values]]) / 2.0**64 if len(order) > values else 1.0
    size, below = 0, 0.0
    for place in order[:values]:
        registers = datasketches.hll_sketch(LG_REGISTERS)
        for user in members[int(place)]:
            registers.update(user)
        size += WORD_BYTES + len(registers.serialize_compact())
        estimate = registers.get_estimate()
        below += estimate if estimate < K - 0.5 else 0
    return size, below / chance / users


def ours(
    key: SketchKey, apis: tuple[str, ...], words: np.ndarray, counts: np.ndarray, most: int
) -> tuple[float, ...]:
    """Bytes, kept values, estimate and limits of the largest sketch of at most so many bytes."""
    level, users = 0, int(counts.sum())
    while True:
        inside = np.flatnonzero(is_kept(words, level))
        inside = inside[np.argsort(words[inside])]
        kept = KeptValues(apis=apis, level=level, words=words[inside], counts=counts[inside])
        whole = Sketch(key=key.id, users=users, entries=None, view="", sets=(kept,))
        sketch = made_at_once(whole)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "one.sketch"
            write_sketch(sketch, path)
            size = path.stat().st_size
        if size <= most:
            break
        level += 1
    [report] = report_sketch(sketch, Question(K, None, DELTA))
    assert report.estimate is not None
    assert report.lower is not None
    assert report.upper is not None
    return size, len(inside), report.estimate, report.lower, report.upper


if __name__ == "__main__":
    main()
