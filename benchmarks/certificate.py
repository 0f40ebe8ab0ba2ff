"""How much of the budget does the certificate give away, and what does it cost in time?

    python benchmarks/certificate.py [--grid]

prints JSON. `certified_share` is defined for a reference law whose users have log-uniform value
probabilities between 1e-9 and 1, mixed with users of safe values until the true exposure is x: the
share is x / Q* for the largest x at which the mean score of the sample is still within the critical
score. `refuted_share` is the smallest x / Q* at which the mean score is above the critical score of
the block side. Both hold at every look; `fixed` is for one set that was fixed beforehand,
`any_choice` for sets of 1, 3, 5 and 10 APIs chosen after looking. `table` holds the sizes of
docs/certificate.md, `--grid` adds a grid of sizes. Times are ratios to one `np.sort` of a million
random 64-bit words in the same run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from fpmonitor.estimate.averaging import clock
from fpmonitor.estimate.criterion import score
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.looks import UNIVERSE, _base, decision_criteria
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Callable

DELTA = 0.05
CHOSEN = (1, 3, 5, 10)  # APIs of a set
TABLE = [  # m, n, k, Q*
    (10**4, 10**4, 10, 0.05),
    (10**5, 10**5, 10, 0.05),
    (10**6, 10**5, 10, 0.01),
    (10**6, 10**6, 50, 0.02),
    (10**5, 10**7, 50, 0.05),
    (10**5, 10**6, 50, 0.05),
    (10**6, 10**7, 1000, 0.05),
]
GRID = [
    (users, int(users * ratio), k, budget)
    for users, ratio, k, budget in itertools.product(
        (10**4, 10**5, 10**6), (0.1, 1, 10, 100), (5, 50), (0.01, 0.05)
    )
]


def reference_law(mean: float, k: int, population: int) -> tuple[np.ndarray, float]:
    """Mean counts of the values of equally many users each, and the exposure of these users."""
    probabilities = np.geomspace(1e-9, 1, 4001)
    exposure = exposure_probability(probabilities, k=k, population=population)
    return mean * probabilities, float(exposure.mean())


def mean_score(weights: np.ndarray, means: np.ndarray) -> float:
    """Mean score per user, `E h(C + 1)` for `C ~ Poisson(mean)`, averaged over the means."""
    changes = np.flatnonzero(np.diff(weights)) + 1  # counts at which the weight changes
    drops = -np.diff(weights)[changes - 1]
    below = np.where(changes > 1, special.pdtr(np.maximum(changes - 2, 0), means[:, None]), 0)
    return float((below @ drops + weights[-1]).mean())


def shares(
    size: tuple[int, int, int, float], universe: int, sizes: tuple[int, ...]
) -> dict[str, list[float]]:
    """Certified and refuted shares of the budget for sets of some sizes."""
    users, population, k, budget = size
    criteria = decision_criteria(
        users=users,
        k=k,
        population=population,
        budget=budget,
        delta=DELTA,
        universe=universe,
    )
    means, exposure = reference_law(users, k, population)
    return {
        name: [
            round(float(test.limits[apis]) / users * exposure / score / budget, 4) for apis in sizes
        ]
        for name, test in (("allow", criteria.allow), ("block", criteria.refute))
        for score in (mean_score(test.weights, means),)
    }


def row(size: tuple[int, int, int, float]) -> dict[str, object]:
    """One line of the result."""
    fixed, chosen = shares(size, 1, (1,)), shares(size, UNIVERSE, CHOSEN)
    return {
        **dict(zip(("users", "population", "k", "budget"), size, strict=True)),
        "fixed": {"certified_share": fixed["allow"][0], "refuted_share": fixed["block"][0]},
        "any_choice": {"certified_share": chosen["allow"], "refuted_share": chosen["block"]},
    }


def seconds(action: Callable[[], object], repeats: int) -> float:
    """Median time of an action."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def speed() -> dict[str, object]:
    """Times for a million users, as ratios to one sort."""
    rng = np.random.default_rng(1)
    words = rng.integers(0, 2**64, size=10**6, dtype=np.uint64)
    spectrum = CountSpectrum.from_counts(rng.zipf(1.5, size=10**5).clip(max=10**5))
    question = {"users": 10**6, "k": 10, "population": 10**6, "budget": 0.05, "delta": DELTA}
    criteria = decision_criteria(**question)

    def new_policy() -> None:
        _base.cache_clear()
        clock.cache_clear()
        decision_criteria(**question)

    baseline = seconds(lambda: np.sort(words), 5)
    actions = {
        "criteria": (new_policy, 3),
        "one_set": (lambda: score(criteria.allow.weights, spectrum), 200),
    }
    timed = {name: seconds(*action) for name, action in actions.items()}
    return {
        "baseline": "np.sort of 1,000,000 random uint64",
        "baseline_seconds": round(baseline, 4),
        "seconds": {name: round(value, 6) for name, value in timed.items()},
        "ratio": {name: round(value / baseline, 6) for name, value in timed.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grid", action="store_true", help="add a grid of 48 sizes")
    options = parser.parse_args()
    table = [row(size) for size in TABLE]
    result = {"delta": DELTA, "table": table, "speed": speed()}
    if options.grid:
        result["grid"] = [row(size) for size in GRID if math.prod(size[2:]) < size[1]]
    json.dump(result, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
