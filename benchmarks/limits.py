"""How sharp are the limits of exposures of every size, and what do they cost in time?

    python benchmarks/limits.py

prints JSON. `limits` are those at the mean scores of a law whose exposed users have log-uniform
value probabilities from a thousandth of a user of the population upward, and whose other users are
safe, divided by the true exposure: of one set, of a set of three APIs among all sets together, and
for values of k/n. `seconds` are CPU times: of a new question, of one more number of users, and of
one set from its spectrum, the last also as a ratio to one `np.sort` of a million 64-bit words.
"""

from __future__ import annotations

import json
import math
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.policy import UNIVERSE
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from fpmonitor.estimate.limits import Limits

DELTA = 0.05
EXPOSURES = (0.005, 0.05, 0.3)
SIZES = [  # m, n, k
    (2_000, 2_000, 10),
    (10**4, 10**4, 10),
    (10**5, 10**5, 10),
    (10**6, 10**5, 10),
    (10**6, 10**6, 50),
    (10**5, 10**7, 50),
    (10**5, 10**6, 50),
    (10**6, 10**7, 1000),
]


def mean_scores(weights: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Mean score of a user with a value of each mean count, `E h(C + 1)`."""
    changes = np.flatnonzero(np.diff(weights)) + 1
    drops = -np.diff(weights)[changes - 1]
    below = np.where(changes > 1, special.pdtr(np.maximum(changes - 2, 0), means[:, None]), 0)
    return below @ drops + weights[-1]


def relative(limits: Limits, p: np.ndarray, k: int, population: int, size: int) -> list[str]:
    """Lower and upper limit by the true exposure, for each exposure that values of `p` reach."""
    level = DELTA / limits.bases
    if limits.universe is not None:
        level /= size * (size + 1) * math.comb(limits.universe, size)
    most = float(exposure_probability(p, k=k, population=population).mean())
    scores = [
        np.array([mean_scores(one, limits.users * p).mean() for one in side.weights])
        for side in limits.sides
    ]
    found = []
    for exposure in EXPOSURES:
        users = exposure / most * limits.users
        upper, lower = (
            side.limit(users * sums, -math.log(level))
            for side, sums in zip(limits.sides, scores, strict=True)
        )
        ratio = f"{lower / exposure:.3f} / {upper / exposure:.3f}"
        found.append(ratio if exposure < most else "-")
    return found


def row(users: int, population: int, k: int, sort: float) -> dict[str, object]:
    """One size."""
    question = {"k": k, "population": population, "delta": DELTA}
    started = time.process_time()
    limits = exposure_limits(users=users, **question)
    new = time.process_time() - started
    started = time.process_time()
    exposure_limits(users=users - 1, **question)
    more = time.process_time() - started
    spectrum = CountSpectrum.from_mapping({1: users // 20, users - users // 20: 1})
    started = time.process_time()
    for _ in range(1_000):
        limits.of(spectrum)
    one = (time.process_time() - started) / 1_000
    together = exposure_limits(users=users, **question, universe=UNIVERSE)
    p = np.geomspace(1e-3 / population, 1, 801)
    return {
        "users": users,
        "population": population,
        "k": k,
        "one set": relative(limits, p, k, population, 1),
        "three of all sets": relative(together, p, k, population, 3),
        "values of k/n": relative(limits, np.array([k / population]), k, population, 1),
        "seconds": {"new": round(new, 2), "more": round(more, 3), "set": round(one, 7)},
        "set to sort": round(one / sort, 5),
    }


def main() -> None:
    words = np.random.default_rng(1).integers(0, 2**64, size=10**6, dtype=np.uint64)
    started = time.process_time()
    np.sort(words)
    sort = time.process_time() - started
    rows = [row(*size, sort) for size in SIZES]
    json.dump({"delta": DELTA, "exposures": EXPOSURES, "limits": rows}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
