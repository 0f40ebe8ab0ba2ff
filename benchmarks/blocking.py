"""How many of the API sets that are above the budget does a decision block?

    python benchmarks/blocking.py TABLE.parquet ... [--k 50 100 ...] [--samples 3] [--seed 5]
        [--monotone]

Each table (a row a browser, a column an attribute) is taken for a whole population, so that the
exposure of every set is known. Decisions on users drawn from it are compared with the truth, for
populations as large as the sample and much larger ones. Prints JSON: shares of the sets above the
budget that are blocked, and of those within it that are allowed; wrong verdicts; and `ceiling`, the
share that could be blocked if each set had a test of its own at one look, made by somebody who
knows its law: the best test against the nearest law within the budget (see certificate.py), of its
groups or of those of a subset. `--k`: threshold of each table. `--monotone` blocks by weights that
do not increase, whatever the population.
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
from certificate import distance
from scipy import stats

from fpmonitor.decide.deciding import decide
from fpmonitor.decide.decision import Decision
from fpmonitor.estimate import looks
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.policy import UNIVERSE, Policy
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


Laws = dict[frozenset, tuple[np.ndarray, np.ndarray]]


def laws_of(codes: dict[str, np.ndarray]) -> Laws:
    """Probabilities of the values of every set, and the share of the users with values of each."""
    source = MemorySource(list(codes), list(codes.values()))
    found = {}
    for size in range(1, len(codes) + 1):
        for apis in itertools.combinations(codes, size):
            spectrum = source.spectrum(apis)
            probabilities = spectrum.counts / source.users
            found[frozenset(apis)] = probabilities, spectrum.values * probabilities
    return found


def exposures(laws: Laws, policy: Policy) -> dict[frozenset, float]:
    """True exposure of every set."""
    question = {"k": policy.k, "population": policy.population}
    return {
        apis: float(shares @ exposure_probability(p, **question))
        for apis, (p, shares) in laws.items()
    }


def best_blocked(laws: Laws, above: set[frozenset], policy: Policy, users: int) -> float:
    """How many of the sets above the budget the best tests of single sets block, on average."""
    size = users, policy.population, policy.k, policy.budget
    needed = float(stats.norm.isf(DELTA))
    power = {apis: stats.norm.sf(needed - distance(size, *laws[apis])) for apis in above}
    return float(sum(max(power[one] for one in power if one <= apis) for apis in above))


def compare(
    codes: dict[str, np.ndarray],
    truth: dict[frozenset, float],
    policy: Policy,
    *,
    users: int,
    universe: int | None,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Count the verdicts of one decision, and the wrong ones."""
    drawn = rng.integers(0, len(next(iter(codes.values()))), users)
    source = MemorySource(list(codes), [column[drawn] for column in codes.values()])
    decision = decide(source, Decision.begun(policy, universe=universe))
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
    parser.add_argument("--k", nargs="+", type=int, default=[50])
    options = parser.parse_args()
    if options.monotone:
        looks._FREE_FROM = math.inf
    codes_by_table = [codes_of(table) for table in options.tables]
    populations = [
        (codes, laws_of(codes), k)
        for codes, k in zip(codes_by_table, itertools.cycle(options.k), strict=False)
    ]
    rows = []
    for users, population in SETTINGS:
        totals: dict[str, dict[str, float]] = {"any": {}, "fixed": {}}
        generators = {choice: np.random.default_rng(options.seed) for choice in totals}
        ceiling = 0.0
        for (codes, laws, k), budget in itertools.product(populations, BUDGETS):
            policy = Policy(
                k=k, population=population, budget=budget, delta=DELTA, candidates=tuple(codes)
            )
            truth = exposures(laws, policy)
            above = {apis for apis, exposure in truth.items() if exposure > budget}
            ceiling += options.samples * best_blocked(laws, above, policy, users)
            for choice, total in totals.items():
                universe = UNIVERSE if choice == "any" else None
                for _ in range(options.samples):
                    rng = generators[choice]
                    found = compare(codes, truth, policy, users=users, universe=universe, rng=rng)
                    for name, count in found.items():
                        total[name] = total.get(name, 0) + count
        for choice, total in totals.items():
            rows.append(
                {
                    "users": users,
                    "population": population,
                    "choice": choice,
                    **total,
                    "blocked_share": round(total["blocked"] / max(total["above"], 1), 3),
                    "ceiling": round(ceiling / max(total["above"], 1), 3),
                    "allowed_share": round(total["allowed"] / max(total["within"], 1), 3),
                }
            )
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    json.dump({"delta": DELTA, "samples": options.samples, "rows": rows}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
