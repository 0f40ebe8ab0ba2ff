"""Do the attacks on a certificate that is asked again, of a choice after looking, still work?

    python benchmarks/looks.py [--runs 4000] [--seed 1]

prints JSON: the share of runs with a wrong allow, which may be at most delta, and the upper limit
of its probability (Clopper and Pearson, 95 %). In each attack the
exposure is just above the budget: some users have values of their own, all others share one, which
is the hardest law. `one_look` is the same score with the limit of one set that is looked at once.

* `looks`: look 120 times while users come in, from 100 to a million, and stop at the first allow;
* `rank`: name the best-looking of 200 APIs as the only candidate;
* `redraw`: ask with 300 values of delta that differ in the tenth digit;
* `laws`: 12 looks within one base, at a level of delta for this base alone, where the exposed users
  have values of 0.5, 1 or 1.3 times k/n.

`stopping`, for exposures below the budget: users on average, and in nine of ten cases, at which
somebody stops who looks every 5 % from 150 users on, for one fixed set and for sets of 5 of 200.
"""

from __future__ import annotations

import argparse
import json
import math
import sys

import numpy as np
from scipy import stats

from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.looks import Criteria, decision_criteria
from fpmonitor.policy import UNIVERSE

DELTA, K, POPULATION, FEW = 0.05, 10, 10**8, 6_000
LOOKS, APIS, VARIANTS = 120, 200, 300
STOPPING = (0.5, 0.7, 0.8, 0.9)  # exposures by the budget of 0.05


def criteria_of(users: int, budget: float, universe: int, delta: float = DELTA) -> Criteria:
    return decision_criteria(
        users=users,
        k=K,
        population=POPULATION,
        budget=budget,
        delta=delta,
        universe=universe,
    )


def evidence(criteria: Criteria, rare: np.ndarray) -> np.ndarray:
    """Evidence for APIs by which `rare` users differ from all others, who are alike, nats."""
    score, rest = criteria.allow.score, criteria.allowing.scores[0].users - rare
    sums = np.outer(rare, score.weights[:, 1])
    sums += score.weights.take(rest, axis=1, mode="clip").T * rest[:, None]
    return score.least - score.of_sums(sums)


def allowed(criteria: Criteria, rare: np.ndarray, size: int = 1) -> np.ndarray:
    return evidence(criteria, rare) >= criteria.log_terms[0][size]


def looks(budget: float, runs: int, rng: np.random.Generator) -> dict[str, float]:
    rare, before = np.zeros(runs, dtype=int), 0
    fixed, chosen, one_look = np.zeros((3, runs), dtype=bool)
    for users in np.unique(np.geomspace(100, 10**6, LOOKS).astype(int)).tolist():
        rare += rng.binomial(users - before, 1.0001 * budget, runs)
        before = users
        single, many = criteria_of(users, budget, 1), criteria_of(users, budget, UNIVERSE)
        fixed |= allowed(single, rare)
        one_look |= evidence(single, rare) >= -math.log(DELTA)
        chosen |= allowed(many, rare)
    return {"one_look": one_look.mean(), "fixed": fixed.mean(), "any_choice": chosen.mean()}


def rank(budget: float, runs: int, rng: np.random.Generator) -> dict[str, float]:
    users = 2_000
    rare = np.array([rng.binomial(users, 1.002 * budget, APIS).min() for _ in range(runs)])
    single, many = criteria_of(users, budget, 1), criteria_of(users, budget, UNIVERSE)
    return {
        "one_look": float(np.mean(evidence(single, rare) >= -math.log(DELTA))),
        "any_choice": float(np.mean(allowed(many, rare))),
    }


def redraw(budget: float, runs: int, rng: np.random.Generator) -> dict[str, float]:
    users = 2_000
    rare = rng.binomial(users, 1.002 * budget, runs)
    first, any_of = np.zeros((2, runs), dtype=bool)
    for variant in range(VARIANTS):
        single = criteria_of(users, budget, 1, DELTA + variant * 1e-11)
        found = allowed(single, rare)
        first = found if variant == 0 else first
        any_of |= found
    return {"first": float(first.mean()), "any_of_300": float(any_of.mean())}


def laws(budget: float, runs: int, rng: np.random.Generator) -> dict[str, float]:
    users_at = np.geomspace(4_400, 6_400, 12).astype(int).tolist()
    tests = [
        decision_criteria(
            users=users, k=K, population=FEW, budget=budget, delta=DELTA, universe=1
        ).allow.score
        for users in users_at
    ]
    wrong = {}
    for group in (0.5, 1.0, 1.3):
        p = group * K / FEW
        exposed = float(exposure_probability(np.array([p]), k=K, population=FEW)[0])
        values = math.ceil(1.0001 * budget / exposed / p)
        law = np.append(np.full(values, p), 1 - values * p)
        found = 0
        for part in np.array_split(np.arange(runs), max(runs // 5_000, 1)):
            counts, before = np.zeros((part.size, law.size), dtype=np.int64), 0
            ever = np.zeros(part.size, dtype=bool)
            for users, test in zip(users_at, tests, strict=True):
                counts += rng.multinomial(users - before, law, size=part.size)
                before = users
                weights = test.weights.take(counts, axis=1, mode="clip")
                sums = np.einsum("isv,sv->si", weights, counts.astype(float))
                ever |= test.least - test.of_sums(sums) >= -math.log(DELTA)
            found += int(ever.sum())
        wrong[f"{group} k/n"] = found / runs
    return wrong


def stopping(runs: int, rng: np.random.Generator) -> dict[str, dict[str, list[float]]]:
    users_at = (150 * 1.05 ** np.arange(175)).astype(int).tolist()
    found: dict[str, dict[str, list[float]]] = {}
    for name, universe, size in (("fixed", 1, 1), ("5 of 200", 200, 5)):
        tests = [criteria_of(users, 0.05, universe) for users in users_at]
        for exposure in STOPPING:
            rare, before = np.zeros(runs, dtype=int), 0
            stop = np.full(runs, np.inf)
            for users, test in zip(users_at, tests, strict=True):
                rare += rng.binomial(users - before, exposure * 0.05, runs)
                before = users
                stop = np.where(allowed(test, rare, size), np.minimum(stop, users), stop)
            needed = [float(stop.mean()), float(np.quantile(stop, 0.9))]
            found.setdefault(name, {})[str(exposure)] = needed
    return found


def upper_limit(share: float, runs: int) -> float:
    """Upper limit of a probability, by the share of runs, at 95 % confidence."""
    wrong = round(share * runs)
    return float(stats.beta.ppf(0.95, wrong + 1, runs - wrong)) if wrong < runs else 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=4_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    result = {
        attack.__name__: {
            str(budget): {
                name: [round(float(share), 5), round(upper_limit(float(share), options.runs), 5)]
                for name, share in attack(
                    budget, options.runs, np.random.default_rng(options.seed)
                ).items()
            }
            for budget in budgets
        }
        for attack, budgets in (
            (looks, (0.05, 0.3)),
            (rank, (0.05, 0.3)),
            (redraw, (0.05, 0.3)),
            (laws, (0.05,)),
        )
    }
    result["stopping"] = stopping(options.runs, np.random.default_rng(options.seed))
    json.dump({"delta": DELTA, "runs": options.runs, **result}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
