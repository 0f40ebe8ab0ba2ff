"""Is the mean of the evidence at most 1 at laws on the border of the budget?

    python benchmarks/borders.py [--runs 100000] [--seed 8]

Misses are too rare to show an error: one in a thousand samples where one in twenty is allowed. The
mean of an e-value shows it, as it must be at most 1. Its tail is heavy, so what is averaged is the
e-value cut at 1,000, whose mean is at most 1, too. Tests are those of a fixed question at its first
look, allowing and blocking; the laws are just across the budget: users of values of a multiple of
k/n, all others alike or in values of 2.5 k/n. JSON lines: the largest mean of each test with
its standard error and law, and the largest share of samples that are decided wrongly.
"""

from __future__ import annotations

import argparse
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fpmonitor.estimate.exposure import exposure_probability, statistical_exposure
from fpmonitor.estimate.looks import Drawing, decision_criteria
from fpmonitor.estimate.mixture import log_evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from fpmonitor.estimate.mixture import Mixture

MOST, DELTA = 1000.0, 0.05
SETTINGS = (  # m, k, n, Q*
    (1_000, 5, 1_000, 0.05),
    (1_000, 5, 20_000, 0.05),
    (1_000, 10, 100_000, 0.05),
    (1_000, 100, 1_000, 0.05),
    (1_000, 2_000, 10_000, 0.05),
    (2_000, 200, 2_000, 0.1),
)
GROUPS = (0.05, 0.3, 0.9, 1.2)  # times k/n
RESTS = (None, 2.5)  # the same; None: one value
MOST_VALUES = 30_000


def border_laws(k: int, n: int, budget: float, sign: int) -> Iterator[tuple[str, NDArray[Any]]]:
    """Laws just above the budget, which must not be allowed, or within it, not blocked."""
    aim = budget * (1.0001 if sign < 0 else 0.9999)
    for group in GROUPS:
        p = group * k / n
        exposed = float(exposure_probability(np.array([p]), k=k, population=n)[0])
        values = aim / exposed / p
        number = math.ceil(values) if sign < 0 else math.floor(values)
        left = 1 - number * p
        if not 0 < number <= MOST_VALUES or left <= 0:
            continue
        for rest in RESTS:
            others = 1 if rest is None else int(left * n / k / rest)
            if others:
                law = np.append(np.full(number, p), np.full(others, left / others))
                exposure = statistical_exposure(law, k=k, population=n)
                if exposure > budget if sign < 0 else budget >= exposure > 0.8 * budget:
                    yield f"{group} k/n, others {rest or 'alike'}", law


def evidence(mixture: Mixture, law: NDArray[Any], users: int, runs: int, seed: int) -> NDArray[Any]:
    """Evidence of samples of a law, nats."""
    rng, offsets = np.random.default_rng(seed), mixture.offsets()
    sums = np.empty((runs, offsets.size))
    weights = mixture.weights * np.arange(mixture.weights.shape[1])
    last = mixture.weights.shape[1] - 1
    for run in range(runs):
        numbers = np.bincount(rng.multinomial(users, law))
        sums[run] = weights[:, : numbers.size] @ numbers[: last + 1]
        if numbers.size > last + 1:  # the last weight holds for all larger counts
            counts = np.arange(last + 1, numbers.size)
            sums[run] += mixture.weights[:, last] * float(numbers[last + 1 :] @ counts)
    return log_evidence(sums, mixture.scales, offsets)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=8)
    options = parser.parse_args()
    for users, k, n, budget in SETTINGS:
        question = {"users": users, "k": k, "population": n, "budget": budget, "delta": DELTA}
        tests = decision_criteria(**question, universe=1, drawing=Drawing(look="first"))
        for name, mixture in (("allow", tests.allowing), ("block", tests.blocking)):
            if mixture is None or mixture.is_empty:
                continue
            rows = []
            for told, law in border_laws(k, n, budget, mixture.sign):
                nats = evidence(mixture, law, users, options.runs, options.seed)
                cut = np.minimum(np.exp(np.minimum(nats, 50.0)), MOST)
                error = float(cut.std() / math.sqrt(options.runs))
                wrong = float(np.mean(nats >= math.log(1 / DELTA)))
                rows.append((float(cut.mean()), error, told, wrong))
            if not rows:  # no law of these exposes so few
                continue
            mean, error, told, _ = max(rows)
            row = {"mean": round(mean, 4), "error": round(error, 4), "law": told}
            row |= {"laws": len(rows), "runs": options.runs, "wrong": max(each[3] for each in rows)}
            print(json.dumps({**question, "side": name, **row}), flush=True)


if __name__ == "__main__":
    main()
