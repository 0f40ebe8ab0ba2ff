"""How much of the budget does the certificate give away, and what does it cost in time?

    python benchmarks/certificate.py [--grid]

prints JSON. `certified_share` is defined for a reference law whose users have log-uniform value
probabilities between 1e-9 and 1, mixed with users of safe values until the true exposure is x: the
share is x / Q* for the largest x at which the mean score of the sample is still within the critical
score. `refuted_share` is the smallest x / Q* at which the mean score is above the critical score of
the block side, null where the law has no such exposure; `refuted_rare` is that of values of k/10
users of the population. All but `one_look` hold at every look; `fixed` and `one_look` are for one
set that was fixed beforehand, `any_choice` for sets of 1, 3, 5 and 10 APIs chosen after looking.
`ceiling` is what no test can pass, however it works: at these exposures a law on the border of the
budget exists that looks so much the same that the best test of these two laws, at one look and at
the level delta, tells them apart in half of the samples only (by the normal approximation). `table`
holds the sizes of docs/certificate/reach.md, `--grid` adds a grid of sizes, without ceilings. Times
are ratios to one `np.sort` of a million random 64-bit words in the same run.
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
from scipy import linalg, optimize, special, stats

from fpmonitor.estimate.averaging import averaged, clock, design_base
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.looks import (
    _menu,
    decision_criteria,
    design_cells,
)
from fpmonitor.estimate.poisson import ExposureFunction
from fpmonitor.policy import UNIVERSE
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Callable

    from fpmonitor.estimate.criterion import Criterion, Refutation

DELTA = 0.05
CHOSEN = (1, 3, 5, 10)  # APIs of a set
GRID_POINTS = 400
MOST_MEMBERS = 200
ONE_LOOK = 0.95  # of the users, that a score for one look keeps
TABLE = [  # m, n, k, Q*
    (10**4, 10**4, 10, 0.05),
    (10**5, 10**5, 10, 0.05),
    (10**6, 10**5, 10, 0.01),
    (10**6, 10**6, 50, 0.02),
    (10**5, 10**7, 50, 0.05),
    (10**5, 10**6, 50, 0.05),
    (10**6, 10**7, 1000, 0.05),
    (10**6, 10**6, 10, 0.05),
    (90_000, 10**6, 10, 0.05),
    (10**6, 10**7, 50, 0.01),
    (10**4, 10**6, 5, 0.01),
    (10**6, 10**8, 5, 0.05),
    (10**3, 10**3, 5, 0.05),
    (10**6, 10**6, 1000, 0.05),
    (10**5, 10**4, 1000, 0.05),
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
) -> dict[str, list[object]]:
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
    rare = np.array([k / 10 / population])
    rare_exposure = float(exposure_probability(rare, k=k, population=population)[0])

    def found(test: Criterion | Refutation, means: np.ndarray, most: float) -> list[object]:
        reached = [exposure_at_limit(test, users, means, most, apis) for apis in sizes]
        return [None if each is None else round(each / budget, 4) for each in reached]

    return {
        "certified_share": found(criteria.allow, means, exposure),
        "refuted_share": found(criteria.refute, means, exposure),
        "refuted_rare": found(criteria.refute, users * rare, rare_exposure),
    }


def exposure_at_limit(
    test: Criterion | Refutation, users: int, means: np.ndarray, most: float, apis: int = 1
) -> float | None:
    """Exposure at which the test of mean sums meets its limit, where all values have `most`."""
    sums = users * np.array([mean_score(weights, means) for weights in test.score.weights])
    low, high, limit = 0.0, 1.0, float(test.limits[apis])
    if test.score.of_sums(high * sums) <= limit:
        return None
    for _ in range(50):
        middle = (low + high) / 2
        met = test.score.of_sums(middle * sums) > limit
        low, high = (low, middle) if met else (middle, high)
    return high * most


def share(limit: float, score: float, most: float, budget: float) -> object:
    """Share of the budget at which a mean score per user meets the limit; None if none does."""
    reached = limit * most / score if score > 0 else 1.0
    return round(reached / budget, 4) if reached <= most else None


def one_look(size: tuple[int, int, int, float]) -> dict[str, object]:
    """Certified and refuted share of one fixed set that is looked at once, by its own design."""
    users, population, k, budget = size
    cells = design_cells(ONE_LOOK * users, ExposureFunction(k, population), budget)
    means, exposure = reference_law(users, k, population)
    found = {}
    for name, sign in (("certified_share", -1), ("refuted_share", 1)):
        base = design_base(
            cells,
            sign=sign,
            budget=budget,
            log_term=-math.log(DELTA),
            share=cells.laws.mean / users,
            monotone=sign < 0 or population <= 2 * cells.laws.mean,
        )
        test = averaged(base, users=users)
        limit = float(test.critical(-math.log(DELTA))) / users
        found[name] = share(limit, mean_score(test.weights, means), exposure, budget)
    return found


def distance(
    size: tuple[int, int, int, float], probabilities: np.ndarray, shares: np.ndarray
) -> float:
    """Standard deviations between a law and the nearest one whose exposure is the budget.

    The law: probabilities of values, increasing, and the share of the users that has values of
    each. By the numbers of values with 1, 2, ... users, taken as normal.
    The nearest law moves users between values of all probabilities that may be exposed
    (non-negative least squares); safe values take what is too much.
    """
    users, population, k, budget = size
    means = users * probabilities
    exposed = exposure_probability(probabilities, k=k, population=population)
    exposure = float(shares @ exposed)
    top = float(max(means[exposed > 1e-12].max(), 3 * users * k / population))
    counts = np.arange(1, int(top + 12 * math.sqrt(top) + 40))
    covariance = np.zeros((counts.size, counts.size))
    for part in np.array_split(np.arange(means.size), 20):
        chances = stats.poisson.pmf(counts, means[part, None])
        values = users * shares[part] / means[part]
        covariance[np.diag_indices(counts.size)] += values @ chances
        covariance -= (chances.T * values) @ chances
    covariance[np.diag_indices(counts.size)] += 1e-12
    scale = np.sqrt(np.diag(covariance))
    correlation = covariance / scale[:, None] / scale + 1e-9 * np.eye(counts.size)
    factor = linalg.cholesky(correlation, lower=True)
    grid = np.geomspace(min(means[0], 1e-3 * users / population), top, GRID_POINTS)
    nearest = np.abs(np.log(means / grid[:, None])).argmin(axis=0)
    taken = np.bincount(nearest, weights=shares, minlength=grid.size)
    taken[-1] = 0  # also holds what is beyond the grid
    exposed = exposure_probability(grid / users, k=k, population=population)
    moved = users / grid * stats.poisson.pmf(counts[:, None], grid) / scale[:, None]
    moved = linalg.solve_triangular(factor, moved, lower=True)
    strictly = 1e4 * math.sqrt(users)  # the exposure must change so much
    matrix = np.vstack([moved, strictly * exposed])
    change = strictly * (budget - exposure + exposed @ taken)
    norms = np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)
    found, _ = optimize.nnls(matrix / norms, np.append(moved @ taken, change), maxiter=5_000)
    return float(np.linalg.norm(moved @ (found / norms - taken)))


def ceiling(size: tuple[int, int, int, float]) -> dict[str, float] | None:
    """Best certified and refuted shares that any test of one set can have at one look.

    None where the groups of k of n users are so large that the covariance would be.
    """
    if size[0] * size[2] / size[1] > MOST_MEMBERS:
        return None
    quantile = float(stats.norm.isf(DELTA))
    means, exposure = reference_law(1.0, size[2], size[1])
    alike = size[3] / exposure / means.size

    def missing(share: float) -> float:
        return distance(size, means, np.full(means.size, share * alike)) - quantile

    return {
        name: round(optimize.brentq(missing, *ends, xtol=1e-4), 4)
        for name, ends in (("certified_share", (0.2, 0.9999)), ("refuted_share", (1.0001, 5)))
    }


def row(size: tuple[int, int, int, float]) -> dict[str, object]:
    """One line of the result."""
    return {
        **dict(zip(("users", "population", "k", "budget"), size, strict=True)),
        "one_look": one_look(size),
        "fixed": {name: found[0] for name, found in shares(size, 1, (1,)).items()},
        "any_choice": shares(size, UNIVERSE, CHOSEN),
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
        design_cells.cache_clear()
        _menu.cache_clear()
        clock.cache_clear()
        decision_criteria(**question)

    baseline = seconds(lambda: np.sort(words), 5)
    actions = {
        "criteria": (new_policy, 3),
        "one_set": (lambda: criteria.allow.score(spectrum), 200),
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
    table = [row(size) | {"ceiling": ceiling(size)} for size in TABLE]
    result = {"delta": DELTA, "table": table, "speed": speed()}
    if options.grid:
        result["grid"] = [row(size) for size in GRID if math.prod(size[2:]) < size[1]]
    json.dump(result, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
