"""Does the forecast of the users needed come true for those who look until a set is decided?

    python benchmarks/forecast.py [--runs 100] [--seed 1] [--table rows.csv --columns a,b]

prints JSON. Each collection is one API set, looked at every 5 % from 1,000 users on. Where it is
undecided at first, its forecast is made, and users are drawn until it is decided: the mean of these
numbers beside the mean forecast, and the share of collections that end before the range that is
forecast, and after it (10 % each are promised). `--table`: values are drawn from columns of a CSV
file with a header, too.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl

from fpmonitor.estimate.exposure import statistical_exposure
from fpmonitor.estimate.looks import Criteria, decision_criteria
from fpmonitor.estimate.sample_size import users_needed
from fpmonitor.spectrum import CountSpectrum

FIRST, LOOK, MOST = 1_000, 1.05, 1_000_000
K, DELTA, UNIVERSE, SIZE = 10, 0.05, 1_000, 3
criteria_of = lru_cache(maxsize=None)(decision_criteria)


def holds(criteria: Criteria, spectrum: CountSpectrum) -> bool:
    return criteria.allow.holds(spectrum, SIZE) or criteria.refute.refutes(spectrum, SIZE)


def setting(
    law: np.ndarray, population: int, ratio: float, runs: int, rng: np.random.Generator
) -> dict[str, object]:
    exposure = statistical_exposure(law, k=K, population=population)
    question = {
        "k": K,
        "population": population,
        "budget": float(f"{exposure / ratio:.4g}"),
        "delta": DELTA,
        "universe": UNIVERSE,
    }
    needed, forecasts, places = [], [], Counter[str]()
    for _ in range(runs):
        users, first = FIRST, None
        counts = rng.multinomial(users, law)
        while users <= MOST:
            spectrum = CountSpectrum.from_counts(counts)
            if holds(criteria_of(users=users, **question), spectrum):
                break
            if first is None:
                generator = np.random.default_rng(1)
                (first,) = users_needed(
                    [(spectrum, SIZE)],
                    lambda observed: criteria_of(users=observed, **question, whole_menu=False),
                    users=users,
                    population=population,
                    generator=generator,
                )
            more = math.ceil(LOOK * users) - users
            counts += rng.multinomial(more, law)
            users += more
        if first is None:
            continue
        needed.append(users)
        forecasts.append(first.mean)
        places["before"] += first.low is None or users < first.low
        places["after"] += first.high is not None and users > first.high
    known = [mean for mean in forecasts if mean is not None]
    return {
        "exposure / budget": round(exposure / question["budget"], 3),
        "undecided at first": len(needed),
        "needed, mean": round(float(np.mean(needed))),
        "not yet decided": sum(users > MOST for users in needed),
        "forecast, quartiles": np.quantile(known, (0.25, 0.5, 0.75)).round().tolist(),
        "forecast, none": len(needed) - len(known),
        **{f"{name} the range": round(places[name] / len(needed), 3) for name in places},
    }


def laws(
    table: Path | None, columns: str, budget: float = 0.05
) -> dict[str, tuple[np.ndarray, int]]:
    zipf = np.arange(1, 20_001) ** -1.3
    single = np.full(50_000, budget / 50_000)
    uniform = np.full(5_000, 0.1 / 5_000)
    found = {
        "rare values and one large": (np.append(single, 1 - single.sum()), 10_000),
        "Zipf(1.3)": (zipf / zipf.sum(), 100_000),
        "a tenth near the threshold": (np.append(uniform, 1 - uniform.sum()), 400_000),
    }
    if table:
        rows = pl.read_csv(table, infer_schema=False)
        groups = rows.group_by(columns.split(",")).len()["len"].to_numpy()
        found[table.name] = groups / groups.sum(), rows.height
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--columns", default="")
    options = parser.parse_args()
    result = {
        f"{name}, {ratio}": setting(
            law, population, ratio, options.runs, np.random.default_rng(options.seed)
        )
        for name, (law, population) in laws(options.table, options.columns).items()
        for ratio in (0.5, 0.7, 1.4)
    }
    json.dump(result, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
