"""How fast does the exposure index answer for sets of 20 APIs of many users?

    python benchmarks/explore.py [--users 1000000] [--sets 40]

prints JSON: for each law of the users the rows that are left after merging equal users, the time
to hold them, and for random sets of every size the median and the largest time of an answer
(spectrum, estimate, both limits), milliseconds and as a ratio to one `np.sort` of as many random
64-bit words as there are users, in the same run. `fixture` is the law of the fixture logs;
`independent` makes nearly every user unique, the worst case.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from fpmonitor.disclosure import Audience
from fpmonitor.population.exposure_index import ExposureIndex
from fpmonitor.population.memory import MemorySource
from fpmonitor.population.sample import CertifiedSample
from fpmonitor.question import Question

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

LAW = Path(__file__).parents[1] / "fixtures" / "law" / "law.parquet"
APIS = 20
SEED = 20261121


def fixture(users: int, rng: np.random.Generator) -> list[NDArray[np.integer]]:
    law = pl.read_parquet(LAW)
    weights = law["weight"].to_numpy()
    rows = rng.choice(len(law), users, p=weights / weights.sum())
    return [law[api].to_numpy()[rows] for api in law.columns[:APIS]]


def independent(users: int, rng: np.random.Generator) -> list[NDArray[np.integer]]:
    sizes = np.geomspace(2, 1000, APIS).astype(int)
    return [np.minimum(rng.zipf(1.6, users), size) - 1 for size in sizes]


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def measure(
    codes: list[NDArray[np.integer]], sets: int, rng: np.random.Generator, base: float
) -> dict[str, float]:
    users = len(codes[0])
    apis = [f"api{i:02}" for i in range(APIS)]
    start = time.perf_counter()
    rows = MemorySource(apis, codes).restricted(apis)
    question = Question(10, 10 * users)
    sample = CertifiedSample(question, rows, digest="", seal="", audience=Audience.OWNER)
    index = ExposureIndex(sample)
    held = time.perf_counter() - start
    sizes = np.linspace(1, APIS, sets).astype(int)
    asked = [rng.choice(apis, size, replace=False).tolist() for size in sizes]
    times = [milliseconds(lambda one=one: index.explore(one)) for one in asked]
    return {
        "rows": len(rows.source.table.weights),
        "hold_s": round(held, 3),
        "median_ms": round(float(np.median(times)), 1),
        "max_ms": round(max(times), 1),
        "median_to_sort": round(float(np.median(times)) / base, 2),
        "max_to_sort": round(max(times) / base, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--sets", type=int, default=40)
    options = parser.parse_args()
    rng = np.random.default_rng(SEED)
    words = rng.integers(2**63, size=options.users)
    base = min(milliseconds(lambda: np.sort(words)) for _ in range(5))
    laws = {"fixture": fixture, "independent": independent}
    found = {
        name: measure(draw(options.users, rng), options.sets, rng, base)
        for name, draw in laws.items()
    }
    print(json.dumps({"users": options.users, "apis": APIS, "sort_ms": round(base, 1)} | found))


if __name__ == "__main__":
    main()
