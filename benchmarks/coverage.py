"""How often do the limits of the certificate miss the true exposure?

    python benchmarks/coverage.py --runs 1000 --markdown coverage.md

simulates samples from laws with a known exposure, and prints JSON: per law and population the share
of runs in which the upper limit is below the truth and in which the lower limit is above it, which
may each be at most delta; then the share of runs in which the decision over all subsets of six
attributes allows or blocks a set wrongly.
"""

from __future__ import annotations

import argparse
import itertools
import json
import pathlib
import sys

import numpy as np

from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.limits import Limits, exposure_limits
from fpmonitor.estimate.looks import decision_criteria
from fpmonitor.spectrum import CountSpectrum

DELTA = 0.05
K = 5
BUDGET = 0.1  # of the decision over all sets
ATTRIBUTES = 6


def laws(users: int, population: int) -> dict[str, np.ndarray]:
    """Probabilities of the values, by the name of the law."""
    threshold = K / population
    zipf = np.arange(1, 10 * users + 1) ** -1.1
    return {
        "uniform at k/n": uniform(threshold),
        "one large value, 5 % at k/n": with_rest(uniform(threshold), 0.05),
        "half at 2k/n": with_rest(uniform(2 * threshold), 0.5),
        "Zipf(1.1) over 10 m values": zipf / zipf.sum(),
        "10 % of the users at 1/(100 m)": with_rest(uniform(0.01 / users), 0.1),
        "geometric": with_rest(0.8 ** np.arange(60), 1.0),
        "30 % at 1/m": with_rest(uniform(1 / users), 0.3),
    }


def uniform(probability: float) -> np.ndarray:
    """Values of (nearly) this probability each; at most a million of them."""
    values = min(max(round(1 / probability), 1), 10**6)
    return np.full(values, 1 / values)


def with_rest(probabilities: np.ndarray, share: float) -> np.ndarray:
    """Law that gives `share` of the users to values of these probabilities, the rest to one."""
    size = max(1, round(share * probabilities.size))
    chosen = probabilities[:size] if np.ptp(probabilities) == 0 else probabilities
    chosen = chosen * (share / chosen.sum())
    return chosen if share == 1 else np.append(chosen, 1 - share)


def true_exposure(probabilities: np.ndarray, population: int) -> float:
    """`Q(n, k)` of the law."""
    return float(probabilities @ exposure_probability(probabilities, k=K, population=population))


def misses(
    limits: Limits,
    probabilities: np.ndarray,
    truth: float,
    runs: int,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Share of the runs in which each limit is on the wrong side, and the mean limits."""
    upper, lower = np.empty(runs), np.empty(runs)
    for run in range(runs):
        spectrum = CountSpectrum.from_counts(rng.multinomial(limits.users, probabilities))
        lower[run], upper[run] = limits.of(spectrum)
    return {
        "truth": truth,
        "upper_missed": float(np.mean(upper < truth)),
        "lower_missed": float(np.mean(lower > truth)),
        "mean_upper": float(upper.mean()),
        "mean_lower": float(lower.mean()),
    }


def single_sets(
    users: int, populations: list[int], runs: int, seed: int
) -> list[dict[str, object]]:
    """One row per population and law."""
    rows: list[dict[str, object]] = []
    for population in populations:
        limits = exposure_limits(users=users, k=K, population=population, delta=DELTA)
        for name, probabilities in laws(users, population).items():
            rng = np.random.default_rng([seed, population, len(rows)])
            truth = true_exposure(probabilities, population)
            row = misses(limits, probabilities, truth, runs, rng)
            rows.append({"users": users, "population": population, "law": name, **row})
    return rows


def random_table(population: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes of six dependent attributes, shape (cells, 6), and the probabilities of the cells.

    Made so that small sets are within a budget of 10 % and large ones above it.
    """
    rng = np.random.default_rng([seed, population])
    cells = 4 * population // K
    device = rng.zipf(1.3, size=cells).clip(max=40)
    most = rng.integers(2, 3 + int(population**0.3), size=ATTRIBUTES)
    own = rng.integers(0, most, size=(cells, ATTRIBUTES))
    follows = rng.random((cells, ATTRIBUTES)) < rng.uniform(0.3, 0.9, size=ATTRIBUTES)
    codes = np.where(follows, device[:, np.newaxis] % (3 + 2 * np.arange(ATTRIBUTES)), own)
    probabilities = rng.pareto(1.0, size=cells) + 1e-3
    return codes, probabilities / probabilities.sum()


def groups(codes: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Size of each non-empty set of attributes, and the group number of each cell under it."""
    sets = itertools.chain.from_iterable(
        itertools.combinations(range(ATTRIBUTES), size) for size in range(1, ATTRIBUTES + 1)
    )
    radix = 64 ** np.arange(ATTRIBUTES)
    return [
        (len(chosen), np.unique((codes * radix)[:, chosen].sum(axis=1), return_inverse=True)[1])
        for chosen in sets
    ]


def families(users: int, population: int, runs: int, seed: int) -> dict[str, object]:
    """Errors of the decision over all sets of six attributes."""
    criteria = decision_criteria(
        users=users,
        k=K,
        population=population,
        budget=BUDGET,
        delta=DELTA,
        universe=ATTRIBUTES,
    )
    codes, probabilities = random_table(population, seed)
    sets = groups(codes)
    exposures = [true_exposure(np.bincount(group, probabilities), population) for _, group in sets]
    safe = np.array(exposures) <= BUDGET
    allowed, blocked = np.zeros((2, runs, len(sets)), dtype=bool)
    for run in range(runs):
        rng = np.random.default_rng([seed, population, run])
        cell_of_user = rng.choice(len(codes), size=users, p=probabilities)
        counts = np.bincount(cell_of_user, minlength=len(codes))
        for position, (size, group) in enumerate(sets):
            sizes = np.bincount(group, counts).astype(np.int64)
            spectrum = CountSpectrum.from_counts(sizes)
            allowed[run, position] = criteria.allow.holds(spectrum, size)
            blocked[run, position] = criteria.refute.refutes(spectrum, size)
    return {
        "users": users,
        "population": population,
        "runs": runs,
        "safe_sets": int(safe.sum()),
        "unsafe_sets": int((~safe).sum()),
        "any_false_allow": float((allowed & ~safe).any(axis=1).mean()),
        "any_false_block": float((blocked & safe).any(axis=1).mean()),
        "allowed_of_safe": share(allowed[:, safe]),
        "blocked_of_unsafe": share(blocked[:, ~safe]),
    }


def share(answers: np.ndarray) -> float | None:
    """Share of true answers; None when nothing was asked."""
    return float(answers.mean()) if answers.size else None


def markdown(rows: list[dict[str, object]]) -> str:
    """Table of the single sets."""
    lines = [
        "| n | law | true exposure | upper below it | lower above it | mean upper | mean lower |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['population']:,} | {row['law']} | {row['truth']:.4f} |"
            f" {row['upper_missed']:.2%} | {row['lower_missed']:.2%} |"
            f" {row['mean_upper']:.4f} | {row['mean_lower']:.4f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--family-runs", type=int, default=500)
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--markdown", type=pathlib.Path)
    options = parser.parse_args()
    populations = [options.users // 2, options.users, 100 * options.users]
    rows = single_sets(options.users, populations, options.runs, options.seed)
    family = [
        families(options.users, population, options.family_runs, options.seed)
        for population in populations
    ]
    if options.markdown:
        options.markdown.write_text(markdown(rows))
    result = {"delta": DELTA, "k": K, "runs": options.runs, "sets": rows, "families": family}
    json.dump(result, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
