"""What marginals, pairs and triples buy, what redaction costs, and how fast a set is chosen.

    python benchmarks/private_selection.py [--users 20000] [--k 10] [--budget 0.05]

Users are drawn from the law of the fixture logs. JSON on stdout; every figure is a ratio:

* `promised`: APIs in the largest set that is promised when sets of up to so many APIs are known, to
  those in the largest set that is safe by the joint counts of the same users (fixed setting).
* `loss`: tokens that redaction withholds to make a set safe, to those that are lost by dropping
  whole APIs, the fewest that make it safe; from marginals, and from the joint tokens.
* `search`: time to choose the best set from marginals, to that of trying all sets.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl

from fpmonitor.private.hierarchy import simulate_hierarchy
from fpmonitor.private.knowledge import Knowledge
from fpmonitor.private.redaction import plan_from_marginals, plan_from_sample
from fpmonitor.private.selection import heaviest_set
from fpmonitor.private.study import Study
from fpmonitor.private.table import count_reports

LAW = Path(__file__).parents[1] / "fixtures" / "law" / "law.parquet"
CANDIDATES = (
    "HTMLMediaElement.canPlayType#audio",
    "MediaDevices.enumerateDevices",
    "Navigator.deviceMemory",
    "Navigator.hardwareConcurrency",
    "Navigator.maxTouchPoints",
    "Navigator.platform",
    "Screen.colorDepth",
    "css:dynamic-range",
)
REDACTED = ("Navigator.hardwareConcurrency", "Navigator.userAgent", "Screen.colorDepth")


def draw_users(users: int) -> pl.DataFrame:
    law = pl.read_parquet(LAW)
    rng = np.random.default_rng(1)
    weights = law["weight"].to_numpy().astype(np.float64)
    drawn = law[rng.choice(len(law), users, p=weights / weights.sum())]
    return drawn.select(
        ("=" + pl.col(api).cast(pl.String)).alias(api) for api in law.columns if api != "weight"
    )


def study_of(apis: tuple[str, ...], asked: argparse.Namespace, largest_set: int = 1) -> Study:
    return Study(
        name="benchmark",
        apis=apis,
        population=asked.users,
        k=asked.k,
        budget=asked.budget,
        largest_set=largest_set,
    )


def promised(table: pl.DataFrame, asked: argparse.Namespace) -> dict[str, object]:
    whole = simulate_hierarchy(table, study_of(CANDIDATES, asked, len(CANDIDATES)), setting="fixed")
    safe = whole.rounds[-1].weight
    found = {}
    for level in (1, 2, 3):
        played = simulate_hierarchy(table, study_of(CANDIDATES, asked, level), setting="fixed")
        found[str(level)] = {
            "apis": played.rounds[-1].weight,
            "messages": played.messages,
            "ratio": played.rounds[-1].weight / safe,
        }
    return {"baseline_apis": safe, "candidates": len(CANDIDATES), "known_up_to": found}


def exposed_share(table: pl.DataFrame, apis: tuple[str, ...], k: int) -> float:
    sizes = table.group_by(apis).len()["len"].to_numpy()
    return float(sizes[sizes < k].sum() / len(table))


def loss(table: pl.DataFrame, asked: argparse.Namespace) -> dict[str, object]:
    study = study_of(REDACTED, asked)
    kept = max(
        size
        for size in range(len(REDACTED) + 1)
        for apis in itertools.combinations(REDACTED, size)
        if not apis or exposed_share(table, apis, asked.k) <= asked.budget
    )
    dropped = 1 - kept / len(REDACTED)
    if not dropped:
        raise SystemExit("the set is safe as it is: take fewer users or a smaller budget")
    counts = count_reports(table, [(api,) for api in REDACTED])
    found: dict[str, object] = {"baseline_loss": dropped, "apis": len(REDACTED)}
    for suspicion in (1.0, 0.5):
        blind = plan_from_marginals(study, counts, REDACTED, setting="fixed", suspicion=suspicion)
        seeing = plan_from_sample(
            study,
            table,
            REDACTED,
            rng=np.random.default_rng(2),
            setting="fixed",
            suspicion=suspicion,
        )
        found[f"suspicion_{suspicion}"] = {
            "marginals_ratio": blind.loss / dropped,
            "sample_ratio": seeing.loss / dropped,
            "within_budget": blind.within_budget and seeing.within_budget,
        }
    return found


def search(table: pl.DataFrame, asked: argparse.Namespace) -> dict[str, object]:
    apis = tuple(sorted(table.columns))[:14]
    study = study_of(apis, asked)
    counts = count_reports(table, [(api,) for api in apis])

    begun = time.perf_counter()
    chosen, _ = heaviest_set(Knowledge(study, counts, "fixed"))
    chosen_in = time.perf_counter() - begun

    begun = time.perf_counter()
    knowledge = Knowledge(study, counts, "fixed")
    sets = (one for size in range(1, 15) for one in itertools.combinations(apis, size))
    most = max((len(one) for one in sets if knowledge.is_promised(one)), default=0)
    tried_in = time.perf_counter() - begun
    return {"apis": len(apis), "same_size": len(chosen) >= most, "ratio": chosen_in / tried_in}


def main() -> None:
    parser = argparse.ArgumentParser(description="What marginals promise, and what redaction costs")
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--budget", type=float, default=0.05)
    asked = parser.parse_args()
    table = draw_users(asked.users)
    results = {
        "users": asked.users,
        "k": asked.k,
        "budget": asked.budget,
        "promised": promised(table, asked),
        "loss": loss(table, asked),
        "search": search(table, asked),
    }
    json.dump(results, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
