"""Upper limits beside the best valid rival and beside what nobody could pass, on random cases.

    python benchmarks/grid.py [--cases 500] [--seed 1]

Few, many and mixed values; m from 10^3 to 10^6, n from a tenth of m to 1,000 m, k from 2 to n / 5.
One set at the first look, delta = 5 %. The rival of users whose values nobody declared is the
leave-one-out share of users with small counts with McDiarmid's inequality; of declared ones the
limits of Clopper and Pearson for each value, by Bonferroni. Each rival has the whole of delta.
`possible` is the least exposure at which the best test, which knows the law, passes in half of the
samples (docs/certificate/ceiling.md). JSON: how many cases are wider than 1.25 times either, and
each of these with its reason; misses of all.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from known_truth_laws import made_laws
from scipy import special, stats

from fpmonitor.estimate.ceiling import nats_possible
from fpmonitor.estimate.declared import Looked, declared_limits
from fpmonitor.estimate.exposure import (
    exposure_probability,
    share_of_most_exposed,
    statistical_exposure,
)
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.looks import Drawing
from fpmonitor.policy import EXACT_PART
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from numpy.typing import NDArray

DELTA, WIDE, SMALL = 0.05, 1.25, 0.005
NEEDED = stats.norm.ppf(1 - DELTA) ** 2 / 2  # nats
DECLARED = 3_000  # values, up to which somebody may have declared them
REASONS = {
    "unknown": "few values, which the rival knows too",
    "possible": "nobody knows the law: the menu, half of delta for later looks, and Markov",
    "declared": "that no value is unseen is worth more than a score can know",
}
COUNTS = (0, 1, 2, 3, 5, 8, 12, 20, 40, 80, 160, 400, 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description="Upper limits beside rivals and the ceiling.")
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    cases = []
    for law in islice(made_laws(options.cases, rng), options.cases):
        cases.append(case(law.probabilities, rng))
        print(f"{len(cases)}: {json.dumps(cases[-1])}", file=sys.stderr)
    print(json.dumps(summary(cases), indent=1))


def case(law: NDArray[np.float64], rng: np.random.Generator) -> dict[str, Any]:
    users = int(10 ** rng.uniform(3, 6))
    population = int(min(users * 10 ** rng.uniform(-1, 3), 10**9))
    k = max(int(2 * (population / 10) ** rng.uniform(0, 1)), 2)
    counts = rng.multinomial(users, law)
    spectrum = CountSpectrum.from_counts(counts[counts > 0].tolist())
    truth = statistical_exposure(law, k=k, population=population)
    asked = {"k": k, "population": population}

    def ours(delta: float) -> float:
        return exposure_limits(users=users, delta=delta, **asked, drawing=Drawing(look="first")).of(
            spectrum
        )[1]

    found = {
        "users": users,
        **asked,
        "values": len(law),
        "truth": truth,
        "ours": ours(DELTA),
        "unknown": leave_one_out(spectrum, k, population),
        "possible": possible(law, users, truth, k, population),
    }
    if len(law) <= DECLARED:
        exact = declared_limits(
            spectrum, len(law), looked=Looked.of(EXACT_PART * DELTA, "first"), **asked
        )[1]
        found["ours declared"] = min(ours((1 - EXACT_PART) * DELTA), exact)
        found["declared"] = clopper_pearson(counts, k, population)
    return {name: round(value, 6) for name, value in found.items()}


def leave_one_out(spectrum: CountSpectrum, k: int, population: int) -> float:
    """Share of users with few, by Good and Turing, with McDiarmid's inequality; the best of 13."""
    users, best = spectrum.users, 1.0
    grid = np.geomspace(1e-9, 1, 4000)
    safe = grid[exposure_probability(grid, k=k, population=population) <= 1e-4]
    largest = float(safe[0]) if safe.size else 1.0
    for most in COUNTS:
        above = 1 - float(special.bdtr(most, users - 1, largest)) if largest < 1 else 1.0
        if above > 0.5:
            continue
        few = float(spectrum.users_below(most + 2)) / users
        margin = 2 * (most + 2) * math.sqrt(math.log(len(COUNTS) / DELTA) / (2 * users))
        best = min(best, (few + margin) / (1 - above) + 1e-4)
    return best


def clopper_pearson(counts: NDArray[np.int64], k: int, population: int) -> float:
    """Limits of the share of each value; the worst that all of them may expose."""
    users, level = int(counts.sum()), DELTA / len(counts) / 2
    lower = stats.beta.ppf(level, np.maximum(counts, 1), users - counts + 1)
    lower = np.where(counts > 0, lower, 0.0)
    upper = stats.beta.ppf(1 - level, counts + 1, np.maximum(users - counts, 1))
    upper = np.where(counts < users, upper, 1.0)
    worst = np.clip(share_of_most_exposed(k, population), lower, upper)
    exposed = worst * exposure_probability(worst, k=k, population=population)
    return min(float(exposed.sum()), 1.0)


def possible(law: NDArray[np.float64], users: int, truth: float, k: int, population: int) -> float:
    """Least exposure above the truth that the best test tells from this law in half of samples."""
    low, high = max(truth, 1e-6), 0.99
    for _ in range(9):
        middle = math.sqrt(low * high)
        enough = nats_possible(law, users=users, k=k, population=population, budget=middle)
        low, high = (low, middle) if enough >= NEEDED else (middle, high)
    return high


def summary(cases: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {"cases": len(cases)}
    for name, rival in (("ours", "unknown"), ("ours declared", "declared"), ("ours", "possible")):
        compared = [each for each in cases if each.get(rival, 1.0) < 1]
        wider = [
            each
            for each in compared
            if each[name] > WIDE * each[rival] and each[name] > each[rival] + SMALL
        ]
        found[f"{name} beside {rival}"] = {
            "cases": len(compared),
            "wider": len(wider),
            "median": float(np.median([each[name] / max(each[rival], 1e-9) for each in compared])),
            "each": [each | {"reason": REASONS[rival]} for each in wider],
        }
    names = ("ours", "ours declared", "unknown", "declared")
    misses = {name: sum(each.get(name, 1) < each["truth"] for each in cases) for name in names}
    return found | {"misses": misses}


if __name__ == "__main__":
    main()
