"""How many of the API sets that are above the budget does a decision block?

    python benchmarks/blocking.py TABLE.parquet ... [--samples 3] [--seed 5] [--monotone]

Each table (a row a browser, a column an attribute) is taken for a whole population, so that the
exposure of every set is known. Decisions on users drawn from it are compared with the truth, for
populations as large as the sample and much larger ones. Prints JSON: shares of the sets above the
budget that are blocked, and of those within it that are allowed; and wrong verdicts. `--monotone`
blocks by weights that do not increase, whatever the population.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np
import polars as pl

from fpmonitor.decide.deciding import decide
from fpmonitor.estimate import looks
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.policy import Policy
from fpmonitor.population.memory import MemorySource

DELTA, APIS = 0.05, 8
SETTINGS = [  # m, n
    (2_000, 100_000),
    (5_000, 150_000),
    (2_000, 300_000),
    (5_000, 20_000),
    (5_000, 5_000),
    (5_000, 1_000),
]
BUDGETS = (0.02, 0.1)
K = 50


def codes_of(table: Path) -> dict[str, np.ndarray]:
    """Codes of the attributes of most values, at most 8 of them."""
    frame = pl.read_parquet(table)
    columns = {
        name: frame[name].cast(pl.String).fill_null("").to_physical().rank("dense").to_numpy() - 1
        for name in frame.columns
        if 1 < frame[name].n_unique() < frame.height / 2
    }
    chosen = sorted(columns, key=lambda name: -int(columns[name].max()))[:APIS]
    return {name: columns[name] for name in sorted(chosen)}


def exposures(codes: dict[str, np.ndarray], k: int, population: int) -> dict[frozenset, float]:
    """True exposure of every set."""
    source = MemorySource(list(codes), list(codes.values()))
    found = {}
    for size in range(1, len(codes) + 1):
        for apis in itertools.combinations(codes, size):
            spectrum = source.spectrum(apis)
            shares = spectrum.counts / source.users
            exposed = exposure_probability(shares, k=k, population=population)
            found[frozenset(apis)] = float((spectrum.values * shares) @ exposed)
    return found


def compare(
    codes: dict[str, np.ndarray],
    policy: Policy,
    users: int,
    universe: int | None,
    rng: np.random.Generator,
) -> dict[str, int]:
    """Count the verdicts of one decision, and the wrong ones."""
    truth = exposures(codes, policy.k, policy.population)
    drawn = rng.integers(0, len(next(iter(codes.values()))), users)
    source = MemorySource(list(codes), [column[drawn] for column in codes.values()])
    decision = decide(source, policy, seal="", universe=universe)
    verdicts = {apis: decision.verdict(apis)[0] for apis in truth}
    above = {apis for apis, exposure in truth.items() if exposure > policy.budget}
    blocked = {apis for apis, verdict in verdicts.items() if verdict == "block"}
    allowed = {apis for apis, verdict in verdicts.items() if verdict == "allow"}
    return {
        "above": len(above),
        "blocked": len(blocked & above),
        "within": len(truth) - len(above),
        "allowed": len(allowed - above),
        "wrong": len(blocked - above) + len(allowed & above),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--monotone", action="store_true")
    options = parser.parse_args()
    if options.monotone:
        looks._FREE_FROM = math.inf
    rows = []
    for (users, population), universe in itertools.product(SETTINGS, (looks.UNIVERSE, None)):
        total: dict[str, int] = {}
        rng = np.random.default_rng(options.seed)
        for table, budget in itertools.product(options.tables, BUDGETS):
            codes = codes_of(table)
            policy = Policy(
                k=K, population=population, budget=budget, delta=DELTA, candidates=tuple(codes)
            )
            for _ in range(options.samples):
                for name, count in compare(codes, policy, users, universe, rng).items():
                    total[name] = total.get(name, 0) + count
        rows.append(
            {
                "users": users,
                "population": population,
                "choice": "fixed" if universe is None else "any",
                **total,
                "blocked_share": round(total["blocked"] / max(total["above"], 1), 3),
                "allowed_share": round(total["allowed"] / max(total["within"], 1), 3),
            }
        )
    json.dump({"delta": DELTA, "samples": options.samples, "rows": rows}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
