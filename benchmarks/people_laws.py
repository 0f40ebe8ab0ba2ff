"""How often verdicts on cohorts, visits and links are wrong, at the hardest laws that were found.

    PYTHONPATH=. python benchmarks/people_laws.py [--runs 10000] [--seed 1]

Each law is above its budget by half a per cent of it, or exactly at its share. A test has the whole
of delta = 20 %, for one fixed set: an e-value of 5 or more is an error. JSON, for each law: errors,
runs, and what their probability is at most (Clopper and Pearson, 95 %).

* `cohorts`: rare values of x k/n in a cohort of share P; at one look, and at twelve of one base.
* `together`: cohorts that have the least share only together, by the test of the worst share.
* `lists`: three APIs, each above its budget in another cohort, so no set may be allowed.
* `visits`: five visits of each user, of independent values or the same; mean over eight draws.
* `linked`, `stars`, `marked`: both limits of the share linked by anybody, of that in small groups
  of values that were kept, and of the users that kept a value and are named by it.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from fpmonitor.estimate.cohort_budget import CohortTest, cohort_test
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.linking import linked_probability
from fpmonitor.estimate.looks import Drawing, decision_criteria
from fpmonitor.estimate.marked import marked_limits
from fpmonitor.policy import CohortBudget
from fpmonitor.spectrum import CohortSpectrum, CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

DELTA, ABOVE = 0.2, 1.005
NEEDED = math.log(1 / DELTA)  # nats
BUDGET, LEAST = 0.2, 0.05  # of each cohort, and its least share
SIZES = ((5_000, 5_000, 10), (5_000, 50_000, 10), (20_000, 2_000, 5))  # m, n, k
RARE = (0.05, 0.4, 0.8)  # probability of a rare value, in k/n
ONE_LOOK = Drawing(look="first")
LOOKS = tuple(np.linspace(4_400, 6_400, 12).astype(int).tolist())
Found = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description="Errors at the hardest laws.")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    found: dict[str, list[Found]] = {}
    for part in (cohorts, looks, together, lists, visits, linked, stars, marked):
        found[part.__name__] = []
        for law in part(options.runs, rng):
            found[part.__name__].append(law)
            print(f"{part.__name__}: {json.dumps(law)}", file=sys.stderr, flush=True)
    worst = {name: max(law["at most"] for law in laws) for name, laws in found.items()}
    print(json.dumps({"promised": DELTA, "worst": worst, "laws": found}, indent=1))


def told(wrong: int, runs: int, **law: float) -> Found:
    most = 1.0 if wrong == runs else float(stats.beta.ppf(0.95, wrong + 1, runs - wrong))
    return {**law, "wrong": int(wrong), "runs": runs, "at most": round(most, 5)}


def exposed(p: float, n: int, k: int) -> float:
    return float(exposure_probability(p, k=k, population=n))


def rare_share(p: float, n: int, k: int, budget: float) -> float:
    """Share of rare values, at probability p each, that exposes a little more than a budget."""
    return ABOVE * budget / exposed(p, n, k)


def design_of(
    m: int, n: int, k: int, *, together: bool = False, drawing: Drawing = ONE_LOOK
) -> CohortTest:
    least = 2 * LEAST if together else LEAST
    asked = CohortBudget(given=("family",), budget=BUDGET, least_share=least, worst_share=together)
    return cohort_test(asked, users=m, k=k, population=n, delta=DELTA, universe=1, drawing=drawing)


def spectrum_of(groups: Sequence[NDArray[np.int64]]) -> CohortSpectrum:
    """Cohorts, of each the sizes of its groups."""
    seen = [each[each > 0] for each in groups]
    numbers = np.repeat(np.arange(len(seen)), [len(each) for each in seen])
    return CohortSpectrum.of_groups(np.concatenate(seen), numbers, len(seen))


def evidence(test: CohortTest, groups: Sequence[NDArray[np.int64]]) -> float:
    """Evidence that all cohorts are within the budget, nats; one of nobody was not seen at all."""
    seen = [each for each in groups if each.sum()]
    return -test.score(spectrum_of(seen)) if seen else float(test.unseen.constant)


def some_rare(
    rng: np.random.Generator, users: int, share: float, rare: float, values: int
) -> NDArray[np.int64]:
    """Sizes of the groups of a cohort: a share of it has one of many values, the others one."""
    some = rng.binomial(users, share * rare)
    others = rng.binomial(users - some, share * (1 - rare) / (1 - share * rare))
    return np.append(np.bincount(rng.integers(0, values, some)), others)


def cohorts(runs: int, rng: np.random.Generator) -> Iterator[Found]:
    for m, n, k in SIZES:
        test = design_of(m, n, k)
        for share in (0.05, 0.15, 0.5, 1.0):
            for x in RARE:
                p = x * k / n
                rare = rare_share(p, n, k, BUDGET)
                if rare >= 1 or share * rare < p:
                    continue
                values = max(round(share * rare / p), 1)
                wrong = sum(
                    evidence(test, [some_rare(rng, m, share, rare, values)]) >= NEEDED
                    for _ in range(runs)
                )
                yield told(wrong, runs, m=m, n=n, k=k, share=share, x=x)


def looks(runs: int, rng: np.random.Generator) -> Iterator[Found]:
    """Twelve looks of one base while users come: of its whole part of delta."""
    for n, share in ((6_000, 0.1), (60_000, 0.06)):
        k, p = 10, 0.4 * 10 / n
        rare = rare_share(p, n, k, BUDGET)
        values = max(round(share * rare / p), 1)
        tests = [(m, design_of(m, n, k, drawing=Drawing())) for m in LOOKS]
        wrong, some = 0, runs // 5
        for _ in range(some):
            within = rng.random(LOOKS[-1]) < share
            is_rare = rng.random(LOOKS[-1]) < rare
            value = np.where(is_rare, rng.integers(0, values, LOOKS[-1]), values)
            wrong += any(
                evidence(test, [np.bincount(value[:m][within[:m]])]) >= NEEDED for m, test in tests
            )
        yield told(wrong, some, n=n, share=share, looks=len(LOOKS))


def together(runs: int, rng: np.random.Generator) -> Iterator[Found]:
    m, n, k, least = 20_000, 20_000, 10, 2 * LEAST
    test, p = design_of(m, n, k, together=True), 0.4 * k / n
    rare, some = rare_share(p, n, k, BUDGET), max(runs // 10, 1)
    for number in (20, 4):
        values = max(round(least / number * rare / p), 1)
        shares, wrong = [least / number] * number + [(1 - least) / 4] * 4, 0
        for _ in range(some):
            groups = []
            for place, users in enumerate(rng.multinomial(m, shares).tolist()):
                exposed_users = rng.binomial(users, rare) if place < number else 0
                sizes = np.bincount(rng.integers(0, values, exposed_users))
                groups.append(np.append(sizes, users - exposed_users))
            wrong += evidence(test, groups) >= NEEDED
        yield told(wrong, some, cohorts=number)


def lists(runs: int, rng: np.random.Generator) -> Iterator[Found]:
    m, n, k, shares = 3_000, 3_000, 10, (0.1, 0.3, 0.6)
    p = 0.05 * k / n
    test, rare, wrong = design_of(m, n, k), rare_share(p, n, k, BUDGET), 0
    some = max(runs // 2, 1)
    for _ in range(some):
        users = rng.multinomial(m, shares)
        for bad, share in enumerate(shares):
            values = max(round(share * rare / p), 1)
            singled = rng.binomial(int(users[bad]), rare)
            groups = [np.array([count]) for count in users.tolist()]
            sizes = np.bincount(rng.integers(0, values, singled))
            groups[bad] = np.append(sizes, users[bad] - singled)
            # each of the three minimal sets has its level: a third of delta
            if evidence(test, groups) >= NEEDED + math.log(3):
                wrong += 1
                break
    yield told(wrong, some, m=m, n=n, apis=3)


def visits(runs: int, rng: np.random.Generator) -> Iterator[Found]:
    m = n = 2_000
    k, budget, number, draws = 10, 0.05, 5, 8
    criteria = decision_criteria(users=m, k=k, population=n, budget=budget, delta=DELTA, universe=1)
    assert criteria.allow is not None
    mean, limit = criteria.allow.score.mean_of(draws), criteria.allow.limits[1]
    for x in RARE:
        p = x * k / n
        rare = rare_share(p, n, k, budget)
        values = max(round(rare / p), 1)
        for same in (False, True):
            wrong = 0
            for _ in range(runs):
                seen = np.where(
                    rng.random((number, m)) < rare, rng.integers(0, values, (number, m)), values
                )
                if same:
                    seen[:] = seen[0]
                drawn = seen[rng.integers(0, number, (draws, m)), np.arange(m)]
                drawn += np.arange(draws)[:, np.newaxis] * (values + 1)
                counts = np.bincount(drawn.ravel())
                wrong += mean(CountSpectrum.from_counts(counts[counts > 0])) <= limit
            yield told(wrong, runs, x=x, same=same)


def linked(runs: int, rng: np.random.Generator) -> Iterator[Found]:
    m, rare = 5_000, 0.1
    for n in (5_000, 50_000, 1_000):
        limits = exposure_limits(users=m, k=None, population=n, delta=DELTA, drawing=ONE_LOOK)
        for x in (0.02, 0.1, 0.5, 2.0):
            values = max(round(rare / (x * 10 / n)), 1)
            p = rare / values
            truth = rare * float(linked_probability(p, n))
            truth += (1 - rare) * float(linked_probability(1 - rare, n))
            below = above = 0
            for _ in range(runs):
                lower, upper = limits.of(crowd_and_rare(rng, m, rare, values))
                below, above = below + (upper < truth), above + (lower > truth)
            yield told(max(below, above), runs, n=n, x=x, below=int(below), above=int(above))


def crowd_and_rare(
    rng: np.random.Generator, m: int, rare: float, values: int, changed: float = 0.0
) -> CountSpectrum:
    some = rng.binomial(m, rare)
    stars = rng.binomial(m - some, changed / (1 - rare))
    sizes = np.append(np.bincount(rng.integers(0, values, some)), [stars, m - some - stars])
    return CountSpectrum.from_counts(sizes[sizes > 0])


def stars(runs: int, rng: np.random.Generator) -> Iterator[Found]:
    """Who changed a rare value shows a star; who kept it is in a group of those who did."""
    m, k, share = 5_000, 10, 0.05
    for n, x, kept in ((5_000, 0.4, 0.5), (50_000, 0.8, 0.9)):
        limits = exposure_limits(users=m, k=k, population=n, delta=DELTA, drawing=ONE_LOOK)
        values = max(round(share * kept / (x * k / n)), 1)
        truth, below, above = share * kept * exposed(share * kept / values, n, k), 0, 0
        for _ in range(runs):
            spectrum = crowd_and_rare(rng, m, share * kept, values, share * (1 - kept))
            lower, upper = limits.of(spectrum)
            below, above = below + (upper < truth), above + (lower > truth)
        yield told(max(below, above), runs, n=n, x=x, kept=kept, below=int(below), above=int(above))


def marked(runs: int, rng: np.random.Generator) -> Iterator[Found]:
    """A mark is known of all, so the limits spend little on how many have it."""
    m, rare, some = 5_000, 0.1, max(runs // 10, 1)
    for n in (5_000, 50_000):
        for x in RARE:
            values = max(round(rare / (x * 10 / n)), 1)
            for kept, hidden in ((0.5, 0.0), (0.5, 0.5), (0.05, 0.9), (1.0, 0.0)):
                truth = rare * kept * float(linked_probability(rare / values, n))
                truth += (1 - rare) * hidden * float(linked_probability(1 - rare, n))
                below = above = 0
                for _ in range(some):
                    counts, marks = with_marks(rng, m, rare, values, (kept, hidden))
                    lower, upper = marked_limits(counts, marks, users=m, population=n, delta=DELTA)
                    below, above = below + (upper < truth), above + (lower > truth)
                law = {"n": n, "x": x, "kept": kept, "others": hidden}
                yield told(max(below, above), some, **law, below=int(below), above=int(above))


def with_marks(
    rng: np.random.Generator, m: int, rare: float, values: int, chances: tuple[float, float]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sizes of groups, and the marked users in groups of each size."""
    some = rng.binomial(m, rare)
    sizes = np.append(np.bincount(rng.integers(0, values, some), minlength=values), m - some)
    marks = rng.binomial(sizes, np.append(np.full(values, chances[0]), chances[1]))
    counts, place = np.unique(sizes, return_inverse=True)
    return counts, np.bincount(place, marks).astype(np.int64)


if __name__ == "__main__":
    main()
