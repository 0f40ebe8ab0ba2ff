"""Do limits from a sample of values hold, how sharp are they, and does each misuse break them?

    python benchmarks/value_sample.py [--runs 1000] [--seed 1]

prints JSON. `coverage`: for settings and laws of values, the mean limits, and the share of samples
whose upper limit is below the exposure, or whose lower one is above it; at most delta are allowed.
Laws are common ones, and the pair of probabilities at which the bound
of the upper limit is attained. `misuses`, at that pair: the same for what must not be done; each
must be far above delta, or the right use says nothing. `certified`: share of the budget that one
set, or twelve together, are certified for, by all values and by few, under the law of
docs/certificate/reach.md.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import TYPE_CHECKING

import numpy as np
from certificate import mean_score, reference_law

from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.looks import decision_criteria
from fpmonitor.estimate.value_sample import value_criteria, value_limits
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from fpmonitor.estimate.averaging import AveragedScore

DELTA = 0.05
SETTINGS = [  # users, population, k, budget, level
    (10**6, 10**6, 10, 0.05, 8),
    (10**6, 10**6, 10, 0.05, 6),
    (10**6, 10**7, 10, 0.05, 8),
    (200_000, 20_000, 10, 0.1, 8),
]
PRICES = [  # users and population, k, budget, level
    (10**8, 10, 0.01, 10),
    (10**9, 10, 0.01, 7),
    (10**9, 10, 0.01, 10),
    (10**9, 10, 0.01, 13),
    (10**9, 10, 0.001, 10),
    (10**9, 50, 0.01, 10),
]
KEYS, MISUSES = 200, 200


def test_of(setting: tuple[int, int, int, float, int]) -> AveragedScore:
    """Score that decides the budget from above."""
    users, population, k, budget, level = setting
    allowing = value_criteria(
        users=users, k=k, population=population, budget=budget, delta=DELTA, level=level
    ).allowing
    assert allowing is not None
    return allowing.scores[0]


def hardest_law(setting: tuple[int, int, int, float, int]) -> tuple[np.ndarray, np.ndarray]:
    """Two probabilities and how many values have them, whose moment is the greatest."""
    _, population, k, budget, level = setting
    base = test_of(setting).base
    phi, p = base.sign * base.phi(), np.geomspace(1e-2 / population, 200 * k / population, 1500)
    log_factorials = np.cumsum(np.log(np.maximum(np.arange(phi.size), 1)))
    means = base.mean * p[:, None]
    chances = np.exp(np.arange(phi.size) * np.log(means) - means - log_factorials)
    bounds = np.log1p(0.5**level * (chances @ np.expm1(phi))) / p
    exposed = exposure_probability(p, k=k, population=population)
    low, high = np.flatnonzero(exposed <= budget), np.flatnonzero(exposed > budget)
    part = (budget - exposed[low][:, None]) / (exposed[high] - exposed[low][:, None])
    total = (1 - part) * bounds[low][:, None] + part * bounds[high]
    i, j = np.unravel_index(np.argmax(total), total.shape)
    pair, mass = p[[low[i], high[j]]], np.array([1 - part[i, j], part[i, j]])
    return pair, np.round(mass / pair).astype(int)


def laws(setting: tuple[int, int, int, float, int]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Probabilities of values, and how many values have each."""
    n, budget = setting[1], setting[3]
    zipf = 1 / np.arange(1, 400_001) ** 1.3
    return {
        "at the bound": hardest_law(setting),
        "zipf 1.3": (zipf / zipf.sum(), np.ones(zipf.size, dtype=int)),
        "budget at 7/n, the rest alike": (
            np.array([1 - budget, 7 / n]),
            np.array([1, round(budget * n / 7)]),
        ),
        "a tenth at 12/n": (np.array([0.1, 12 / n]), np.array([9, round(0.1 * n / 12)])),
        "a hundredth at 1/(100 n)": (np.array([0.99, 0.01 / n]), np.array([1, n])),
        "all at 17/n": (np.array([17 / n]), np.array([n // 17])),
    }


def kept_counts(
    rng: np.random.Generator, p: np.ndarray, values: np.ndarray, users: int, share: float
) -> np.ndarray:
    """Users of each kept value, of exactly so many users."""
    kept = np.repeat(p, rng.binomial(values, share))
    rest = max(1 - kept.sum(), 0.0)
    return rng.multinomial(users, np.append(kept, rest))[:-1]


def spectrum_of(counts: np.ndarray) -> CountSpectrum | None:
    return CountSpectrum.from_counts(counts) if counts.any() else None


def coverage(runs: int, rng: np.random.Generator) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for setting in SETTINGS:
        users, population, k, _, level = setting
        limits = value_limits(users=users, k=k, population=population, delta=DELTA, level=level)
        for name, (p, values) in laws(setting).items():
            p = p / float(p @ values)  # noqa: PLW2901 -- rounded numbers of values
            truth = float((p * values) @ exposure_probability(p, k=k, population=population))
            found = np.array(
                [
                    limits.of(spectrum_of(kept_counts(rng, p, values, users, 0.5**level)))
                    for _ in range(runs)
                ]
            )
            row = dict(zip(("users", "population", "k", "budget", "level"), setting, strict=True))
            rows.append(
                {
                    **row,
                    "law": name,
                    "exposure": round(truth, 5),
                    "mean_limits": found.mean(axis=0).round(5).tolist(),
                    "upper_missed": float((found[:, 1] < truth).mean()),
                    "lower_missed": float((found[:, 0] > truth).mean()),
                }
            )
            print(name, file=sys.stderr)
    return rows


def misuses(rng: np.random.Generator) -> dict[str, float]:
    setting = SETTINGS[0]
    users, population, k, budget, level = setting
    share, test = 0.5**level, test_of(setting)
    p, values = hardest_law(setting)
    p = p / float(p @ values)
    truth = float((p * values) @ exposure_probability(p, k=k, population=population))
    grid = np.linspace(0, 0.3, 601)

    def upper(test: AveragedScore, counts: np.ndarray, times: float = 1.0) -> float:
        critical = test.base.sign * (test.prices(grid) - math.log(DELTA)) / test.scale
        points = times * float(test.weights.take(counts, mode="clip") @ counts)
        return float(np.interp(points, critical, grid))

    criteria = decision_criteria(
        users=users, k=k, population=population, budget=budget, delta=DELTA, universe=1
    )
    assert criteria.allowing is not None
    whole = criteria.allowing.scores[0]
    everything = rng.multinomial(users, np.repeat(p, values))
    two = np.array([1 - budget, 7 / population]), np.array([1, round(budget * population / 7)])
    exposed_twice = float(
        (two[0] * two[1]) @ exposure_probability(two[0], k=k, population=population)
    )
    missed = dict.fromkeys(
        (
            "right use",
            "best of 200 keys",
            "share declared 1.5 times too large",
            "limits of all values, for the score divided by the share",
            "values of most users, not by a hash",
            "each user counted twice",
        ),
        0,
    )
    for _ in range(MISUSES):
        counts = kept_counts(rng, p, values, users, share)
        missed["right use"] += upper(test, counts) < truth
        scores = [kept_counts(rng, p, values, users, share) for _ in range(KEYS)]
        least = min(scores, key=lambda one: float(test.weights.take(one, mode="clip") @ one))
        missed["best of 200 keys"] += upper(test, least) < truth
        missed["share declared 1.5 times too large"] += upper(test, counts, 1 / 1.5) < truth
        name = "limits of all values, for the score divided by the share"
        missed[name] += upper(whole, counts, 1 / share) < truth
        largest = np.sort(everything)[::-1][: int(share * everything.size)]
        missed["values of most users, not by a hash"] += upper(test, largest) < truth
        twice = 2 * kept_counts(rng, *two, users, share)
        missed["each user counted twice"] += upper(test, twice) < exposed_twice
    return {name: number / MISUSES for name, number in missed.items()}


def certified() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for users, k, budget, level in PRICES:
        means, exposure = reference_law(users, k, users)
        row: dict[str, object] = {"users": users, "k": k, "budget": budget, "level": level}
        for name, at, tests in (
            ("all_values", 0, 1),
            ("one_set", level, 1),
            ("twelve_sets", level, 12),
        ):
            criteria = value_criteria(
                users=users,
                k=k,
                population=users,
                budget=budget,
                delta=DELTA,
                level=at,
                tests=tests,
            )
            score = mean_score(criteria.allow.weights, means) * 0.5**at
            limit = float(criteria.allow.limits[1]) / users
            row[name] = round(limit * exposure / score / budget, 4)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    answer = {
        "certified": certified(),
        "misuses": misuses(rng),
        "coverage": coverage(options.runs, rng),
    }
    json.dump(answer, sys.stdout, indent=2)


if __name__ == "__main__":
    main()
