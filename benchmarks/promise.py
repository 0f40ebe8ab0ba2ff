"""The promise on the whole way a user goes, against laws that are made to break it.

    python benchmarks/promise.py way        # how often a printed sentence is false, step by step
    python benchmarks/promise.py averages   # what a realised share leaves of the budget
    python benchmarks/promise.py views      # views of the users, tried until one pleases

Each row of `way` is a way to come to an allow list, with the share of runs in which it holds a set
that it should not. That may be so in at most delta of them, but for rows marked `not promised`:
docs/certificate/sentences.md says what their sentence leaves out. `views` is exact: every window of
a day has other users with a law of its own, above the budget.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import binom

from fpmonitor.answers.decide import decide_sets, recheck_sets
from fpmonitor.answers.rank import rank_sets
from fpmonitor.decide import deciding
from fpmonitor.decide.asked import DecideQuestion
from fpmonitor.decide.horizon import share_delta
from fpmonitor.decide.questions import AskedQuestion, level_of
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.looks import decision_criteria
from fpmonitor.estimate.realised import average_budget
from fpmonitor.policy import UNIVERSE, Policy
from fpmonitor.population.population import Population
from fpmonitor.population.snapshot import MemorySnapshot
from fpmonitor.store.snapshot import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from fpmonitor.decide.decision import Decision
    from fpmonitor.question import Missing

    Rows = Mapping[str, NDArray[np.uint32]]

K, POPULATION, BUDGET, DELTA = 10, 2000, 0.05, 0.05
USERS = 2000
ABOVE = 1.005  # exposure of the laws over the budget
RARE = 1 << 24  # values of an exposed user: no two users share one
QUESTION = DecideQuestion(k=K, population=POPULATION, delta=DELTA, budget=BUDGET, engine="memory")

# The criteria follow from the question alone; a run would spend its time on them.
vars(deciding)["decision_criteria"] = lru_cache(None)(decision_criteria)


def rare_users(rng: np.random.Generator, users: int, apis: int, share: float) -> Rows:
    """Draw independent APIs that each expose a share of the users, and all others to nobody."""
    return {
        f"api{i:02}": np.where(rng.random(users) < share, rng.integers(2, RARE, users), 1).astype(
            np.uint32
        )
        for i in range(apis)
    }


def population_of(rng: np.random.Generator, rows: Rows) -> Population:
    """Users in memory, with pseudo-random words as a database has them."""
    len(next(iter(rows.values())))
    digest = rng.bytes(16).hex()
    return Population(MemorySnapshot(columns=rows, texts=lambda _api: {}, digest=digest))


def decided(users: Population, question: DecideQuestion = QUESTION, **options: Any) -> Decision:
    """Decide in memory."""
    return decide_sets(users, replace(question, **options))


def first(rows: Rows, users: int) -> Rows:
    """Take the users that were collected first."""
    return {api: column[:users] for api, column in rows.items()}


def named(rng: np.random.Generator) -> bool:
    """Six candidates were named before looking; every set of them is above the budget."""
    return bool(decided(population_of(rng, rare_users(rng, USERS, 6, BUDGET * ABOVE))).allow)


def chosen(rng: np.random.Generator) -> bool:
    """The best of forty APIs by `rank` is then decided on alone."""
    users = population_of(rng, rare_users(rng, USERS, 40, BUDGET * ABOVE))
    best = rank_sets(users, QUESTION.question).sets[-1].apis
    return bool(decided(users, candidates=best).allow)


def best_of_many(rng: np.random.Generator) -> bool:
    """The API with the fewest rare users among two hundred is decided on alone."""
    rows = rare_users(rng, USERS, 200, BUDGET * ABOVE)
    best = min(rows, key=lambda api: int(np.count_nonzero(rows[api] > 1)))
    return bool(decided(population_of(rng, {best: rows[best]})).allow)


def tried(rng: np.random.Generator, *, fixed_question: bool) -> bool:
    """One API is decided on in forty windows of other users, until it is allowed."""
    day = datetime(2026, 3, 2)  # noqa: DTZ001 -- as the store keeps times
    windows = (Window(day + timedelta(days=i), day + timedelta(days=i + 1)) for i in range(40))
    return any(
        decided(
            Population(
                population_of(rng, rare_users(rng, USERS, 1, BUDGET * ABOVE)).snapshot,
                window=window,
            ),
            fixed_question=fixed_question,
        ).allow
        for window in windows
    )


def among(rng: np.random.Generator) -> bool:
    """Forty APIs are ranked, and decided on together; those above stay above."""
    users = population_of(rng, rare_users(rng, USERS, 40, BUDGET * ABOVE))
    rank_sets(users, QUESTION.question)
    return bool(decided(users, max_size=1).allow)


def again(rng: np.random.Generator) -> bool:
    """One API is decided on at ten sizes of the growing data, until it is allowed."""
    rows = rare_users(rng, USERS * 16, 1, BUDGET * ABOVE)
    sizes = np.geomspace(USERS, USERS * 16, 10).astype(int).tolist()
    return any(decided(population_of(rng, first(rows, size))).allow for size in sizes)


def year(rng: np.random.Generator, *, shared: bool) -> bool:
    """A good decision is checked every month, after the users have changed for the worse."""
    decision = decided(population_of(rng, rare_users(rng, USERS, 1, BUDGET / 10)))
    tested = share_delta(decision, 12) if shared else decision
    months = (rare_users(rng, USERS, 1, BUDGET * ABOVE) for _ in range(12))
    return any(
        "allow" in recheck_sets(population_of(rng, rows), tested).values() for rows in months
    )


def absent(rng: np.random.Generator, *, missing: Missing) -> bool:
    """Exposed users are those who lack the value."""
    rows = rare_users(rng, USERS, 1, BUDGET * ABOVE)
    hidden = {api: np.where(column > 1, 0, column) for api, column in rows.items()}
    users = population_of(rng, hidden)
    return bool(decided(users, replace(QUESTION, missing=missing)).allow)


def one_population(rng: np.random.Generator, *, realised: bool) -> bool:
    """Values of 1.3 k/n: the average is within the budget, one population often is not."""
    size, share = 1000, 1.3 * K / 1000
    exposed = float(exposure_probability(np.array([share]), k=K, population=size)[0])
    values = int(0.965 * BUDGET / (share * exposed))
    law = np.append(np.full(values, share), 1 - values * share)
    counts = rng.multinomial(200_000, law)
    rows = {"api": np.repeat(np.arange(1, law.size + 1, dtype=np.uint32), counts)}
    users = population_of(rng, rows)
    future = rng.multinomial(size, law)
    broken = np.where(future < K, future, 0).sum() > BUDGET * size
    question = replace(QUESTION, population=size)
    return bool(decided(users, question, realised=realised).allow) and bool(broken)


WAYS: dict[str, tuple[bool, Callable[[np.random.Generator], bool]]] = {
    "decide on six candidates": (True, named),
    "rank 40, decide on all": (True, among),
    "rank 40, decide on the best alone": (True, chosen),
    "the best of two hundred alone": (True, best_of_many),
    "decide at ten sizes of growing data": (True, again),
    "forty windows, until one is allowed": (True, partial(tried, fixed_question=False)),
    "forty windows, --fixed-question": (False, partial(tried, fixed_question=True)),
    "check for a year, --horizon 12": (True, partial(year, shared=True)),
    "check for a year, each alone": (False, partial(year, shared=False)),
    "exposed users are absent, --missing value": (False, partial(absent, missing="value")),
    "exposed users are absent, --missing drop": (False, partial(absent, missing="drop")),
    "exposed users are absent, --missing exposed": (True, partial(absent, missing="exposed")),
    "one population, its average promised": (False, partial(one_population, realised=False)),
    "one population, --realised": (True, partial(one_population, realised=True)),
}


def way(runs: int) -> None:
    """Print how often each way ends in a false sentence."""
    print(f"delta = {DELTA:.0%}, k = {K}, n = {POPULATION:,}, budget {BUDGET:.0%}, {runs} runs\n")
    print("| way | false | may be |\n|---|---|---|")
    for seed, (name, (is_promised, take)) in enumerate(WAYS.items()):
        rng = np.random.default_rng(seed)
        false = sum(take(rng) for _ in range(runs)) / runs
        most = f"{DELTA:.0%}" if is_promised else "not promised"
        print(f"| {name} | {false:.1%} | {most} |", flush=True)


def wrong_allow(*, level: float, universe: int, budget: float, looks: bool = True) -> float:
    """Probability that one API is allowed when a share of the users has values of their own."""
    criteria = decision_criteria(
        users=USERS, k=K, population=POPULATION, budget=budget, delta=level, universe=universe
    )
    score = criteria.allow.score
    needed = criteria.log_terms[0][1] if looks else -math.log(level)
    alone = np.arange(USERS + 1)
    others = USERS - alone
    sums = np.outer(alone, score.weights[:, 1])
    sums += score.weights.take(others, axis=1, mode="clip").T * others[:, None]
    allowed = score.least - score.of_sums(sums) >= needed
    return float(binom.pmf(alone, USERS, ABOVE * budget)[allowed].sum())


def views() -> None:
    """Print how often one of many views is allowed: as if each were the only one, and by name."""
    day = datetime(2026, 3, 2)  # noqa: DTZ001 -- as the store keeps times
    policy = Policy(k=K, population=POPULATION, budget=BUDGET, delta=DELTA, candidates=("api",))
    asked = AskedQuestion(policy=policy, window=Window(day, day + timedelta(days=1)))
    named = level_of(asked, (), universe=UNIVERSE).level or 1
    rules = {
        "one look, one set": {"level": DELTA, "universe": 1, "looks": False},
        "fixed question": {"level": DELTA, "universe": 1},
        "any choice of APIs alone": {"level": DELTA, "universe": UNIVERSE},
        "and of views, by name": {"level": named, "universe": UNIVERSE},
    }
    print(f"| Q* | views tried | {' | '.join(rules)} |\n|---|---|{'---|' * len(rules)}")
    for budget in (BUDGET, 0.3):
        single = [wrong_allow(budget=budget, **rule) for rule in rules.values()]
        for tried in (1, 100, 1000, 10**4, 10**6, 10**8):
            cells = [f"{-100 * math.expm1(tried * math.log1p(-wrong)):.2g} %" for wrong in single]
            print(f"| {budget} | {tried:,} | {' | '.join(cells)} |", flush=True)


def averages() -> None:
    """Print the average that a realised share allows, for one API and for sets of ten."""
    ks = (5, 10, 50)
    print(f"| budget | n | {' | '.join(f'k = {k}' for k in ks)} |")
    print(f"|---|---|{'---|' * len(ks)}")
    for budget in (0.01, 0.05):
        for population in (10**3, 10**4, 10**5, 10**6, 10**8):
            cells = []
            for k in ks:
                one, ten = (
                    average_budget(
                        k=k, population=population, budget=budget, delta=DELTA / 2, candidates=d
                    ).exposure
                    for d in (1, 10)
                )
                cells.append(f"{one / budget:.1%} / {ten / budget:.1%}")
            print(f"| {budget:.0%} | {population:,} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Run what is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["way", "averages", "views"])
    parser.add_argument("--runs", type=int, default=400)
    arguments = parser.parse_args()
    {"way": lambda: way(arguments.runs), "averages": averages, "views": views}[arguments.what]()


if __name__ == "__main__":
    main()
