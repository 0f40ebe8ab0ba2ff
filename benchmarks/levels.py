"""Level vectors: wrong verdicts over resamples of real rows, and seconds of large searches.

    python benchmarks/levels.py TABLE.parquet --levels LEVELS.toml [--user COLUMN] [--budget 0.05]

takes the rows of a table as the population, finds its true borders, and decides samples of as many
users drawn from them. A sample errs where a truly minimal vector above the budget is allowed, or a
truly maximal one within it blocked; beside it stands the share of exposed users as observed.

    python benchmarks/levels.py --made 12 5 [--users 100000] [--seconds 60]

decides made-up components of so many levels, to the end or to the limit. Both print JSON.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fpmonitor.answers.decide import decide_sets
from fpmonitor.decide.asked import DecideQuestion, Search
from fpmonitor.decide.deciding import decide, judging
from fpmonitor.decide.decision import Decision
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.monitor import Monitor
from fpmonitor.policy import Policy, SampleModel
from fpmonitor.population.level_source import level_source
from fpmonitor.population.levels import (
    Component,
    LevelMap,
    Vector,
    coarser,
    level_words,
    read_levels,
)
from fpmonitor.population.memory import MemorySource
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


K, DELTA = 10, 0.05


def resampled(table: Path, levels: Path, *, user: str, budget: float, runs: int) -> dict[str, Any]:
    """Errors over samples from the rows of a table."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Monitor(f"{folder}/d.duckdb", create=True) as monitor,
    ):
        monitor.ingest(table, column_map=ColumnMap({"user": user}))
        users = monitor.population()
        components = read_levels(levels)
        decided = decide_sets(
            users,
            DecideQuestion(
                k=K,
                budget=budget,
                sample=SampleModel(rows_are_users=True),
                components=components,
            ),
        )
        source = level_source(users, components)
    chains = [len(component.levels) for component in components]
    shown = decided.lattice.told(decided.recommended)
    recommended = tuple(shown.get(component.name, 0) for component in components)
    rows, shares = source.table, source.table.weights / source.users

    @cache
    def groups(vector: Vector) -> np.ndarray:
        words = level_words(components, vector)
        keys, _ = rows.keys([source.apis.index(word) for word in words])
        return np.unique(keys, return_inverse=True)[1]

    def truth(vector: Vector) -> float:
        law = np.minimum(np.bincount(groups(vector), shares), 1)
        return float(law @ exposure_probability(law, k=K, population=source.users))

    within, above = borders(chains, lambda vector: truth(vector) <= budget)
    judge = judging(decided, source)

    def judged(vector: Vector, users: np.ndarray) -> str:
        shown = coarser(level_words(components, vector))
        return judge.verdict(shown, CountSpectrum.from_counts(users))

    wrong = dict.fromkeys(("allowed", "blocked", "observed share allowed"), 0)
    rng = np.random.default_rng(1)
    for _ in range(runs):
        drawn = rng.multinomial(source.users, shares)
        exposing, safe = (
            [(v, np.bincount(groups(v), drawn).astype(np.int64)) for v in border]
            for border in (above, within)
        )
        wrong["allowed"] += any(judged(v, users) == "allow" for v, users in exposing)
        wrong["blocked"] += any(judged(v, users) == "block" for v, users in safe if any(v))
        wrong["observed share allowed"] += any(
            users[users < K].sum() <= budget * source.users for _, users in exposing
        )
    return {
        "table": table.name,
        "users": source.users,
        "budget": budget,
        "vectors": int(np.prod([length + 1 for length in chains])),
        "maximal within": len(within),
        "minimal above": len(above),
        "allowed": len(decided.allow),
        "blocked": len(decided.block),
        "tests": decided.evaluated,
        "seconds": decided.seconds,
        "utility": decided.utility,
        "true exposure": truth(recommended),
        "runs": runs,
        "wrong": wrong,
    }


def made_up(components: int, levels: int, users: int) -> MemorySource:
    """Users whose components follow a device, with noise; each level halves what a finer shows."""
    rng = np.random.default_rng(3)
    device = np.minimum(rng.pareto(0.8, users) + 1, 1e9).astype(np.int64) % 3000
    columns = {}
    for place in range(components):
        finest = np.where(
            rng.random(users) < 0.95,
            device * int(rng.integers(1, 9999)) // 7 % (3 << levels),
            rng.integers(0, 3 << levels, users),
        )
        for level in range(levels):
            columns[f"c{place}={levels - level}"] = finest >> 2 * level
    return MemorySource([*columns], [*columns.values()])


def borders(
    chains: Sequence[int], passes: Callable[[Vector], bool]
) -> tuple[list[Vector], list[Vector]]:
    """Return the largest vectors that pass, and the smallest that do not."""
    passing, failing = set[Vector](), []

    def beside(vector: Vector, step: int) -> list[Vector]:
        return [
            (*vector[:place], level + step, *vector[place + 1 :])
            for place, level in enumerate(vector)
            if 0 <= level + step <= chains[place]
        ]

    for vector in sorted(product(*(range(length + 1) for length in chains)), key=sum):
        if passing.issuperset(beside(vector, -1)):
            if passes(vector):
                passing.add(vector)
            else:
                failing.append(vector)
    return [each for each in passing if passing.isdisjoint(beside(each, 1))], failing


def made(components: int, levels: int, *, users: int, seconds: float) -> dict[str, Any]:
    """Seconds, tests and bounds of a large search."""
    utility = tuple(level / levels for level in range(levels + 1))
    maps = (LevelMap(raw=True),) * levels
    named = [f"c{place}" for place in range(components)]
    declared = [
        Component(name=name, apis=(name,), levels=maps, utility=utility, least=0, most=levels)
        for name in named
    ]
    policy = Policy(k=K, population=users, budget=0.05, delta=DELTA, candidates=tuple(named))
    source = made_up(components, levels, users)
    started = time.process_time()
    begun = replace(Decision.begun(policy), components=tuple(declared))
    decided = decide(source, begun, Search(time_limit=seconds))
    return {
        "components": components,
        "levels": levels,
        "users": users,
        "utility": decided.utility,
        "bound": decided.utility_bound,
        "complete": decided.complete,
        "allowed": len(decided.allow),
        "tests": decided.evaluated,
        "seconds": decided.seconds,
        "CPU seconds": round(time.process_time() - started, 2),
    }


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path, nargs="?")
    parser.add_argument("--levels", type=Path)
    parser.add_argument("--user", default="user")
    parser.add_argument("--budget", type=float, default=0.05)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--made", type=int, nargs=2)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60)
    given = parser.parse_args()
    if given.made:
        found = made(*given.made, users=given.users, seconds=given.seconds)
    else:
        found = resampled(
            given.table, given.levels, user=given.user, budget=given.budget, runs=given.runs
        )
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
