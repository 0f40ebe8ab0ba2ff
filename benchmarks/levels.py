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
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fpmonitor.answers.decide import decide_by_levels
from fpmonitor.decide.asked import DecideQuestion
from fpmonitor.decide.deciding import tests_of_vectors
from fpmonitor.decide.effort import Effort
from fpmonitor.decide.levels import decide_levels
from fpmonitor.decide.vectors import VectorSearch
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.monitor import Monitor
from fpmonitor.policy import Policy, SampleModel
from fpmonitor.population.level_source import LevelSource
from fpmonitor.population.levels import Component, LevelMap, read_levels
from fpmonitor.population.memory import CodeTable
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from fpmonitor.population.levels import Vector

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
        decided = decide_by_levels(
            users,
            DecideQuestion(
                k=K,
                budget=budget,
                sample=SampleModel(rows_are_users=True),
                components=components,
            ),
        )
        source = LevelSource(users, decided.components)
    chains = [len(component.levels) for component in components]
    rows, shares = source.table, source.table.weights / source.users

    @cache
    def groups(vector: Vector) -> np.ndarray:
        keys, _ = rows.keys(source.columns(vector))
        return np.unique(keys, return_inverse=True)[1]

    def truth(vector: Vector) -> float:
        law = np.minimum(np.bincount(groups(vector), shares), 1)
        return float(law @ exposure_probability(law, k=K, population=source.users))

    search = VectorSearch(chains, lambda vector: truth(vector) <= budget, Effort())
    search.borders()
    tests = tests_of_vectors(decided.policy, "population", source.users, chains, once=False)
    wrong = dict.fromkeys(("allowed", "blocked", "observed share allowed"), 0)
    rng = np.random.default_rng(1)
    for _ in range(runs):
        drawn = rng.multinomial(source.users, shares)
        above, within = (
            [(v, np.bincount(groups(v), drawn).astype(np.int64)) for v in border]
            for border in (search.failed, search.passed)
        )
        wrong["allowed"] += any(
            tests.allow.holds(CountSpectrum.from_counts(users), sum(v)) for v, users in above
        )
        wrong["blocked"] += any(
            tests.above(CountSpectrum.from_counts(users), sum(v), least=False)
            for v, users in within
            if any(v)
        )
        wrong["observed share allowed"] += any(
            users[users < K].sum() <= budget * source.users for _, users in above
        )
    return {
        "table": table.name,
        "users": source.users,
        "budget": budget,
        "vectors": int(np.prod([length + 1 for length in chains])),
        "maximal within": len(search.passed),
        "minimal above": len(search.failed),
        "allowed": len(decided.allow),
        "blocked": len(decided.block),
        "tests": decided.evaluated,
        "seconds": decided.seconds,
        "utility": decided.utility,
        "true exposure": truth(decided.recommended or (0,) * len(chains)),
        "runs": runs,
        "wrong": wrong,
    }


class MadeUp(LevelSource):
    """Users whose components follow a device, with noise; each level halves what a finer shows."""

    def __init__(self, components: int, levels: int, users: int) -> None:
        rng = np.random.default_rng(3)
        device = np.minimum(rng.pareto(0.8, users) + 1, 1e9).astype(np.int64) % 3000
        columns, cardinalities = [], []
        for _ in range(components):
            finest = np.where(
                rng.random(users) < 0.95,
                device * int(rng.integers(1, 9999)) // 7 % (3 << levels),
                rng.integers(0, 3 << levels, users),
            )
            for level in range(levels):
                columns.append((finest >> 2 * level).astype(np.uint32))
                cardinalities.append(int(columns[-1].max()) + 1)
        self.users, self._levels = users, [levels] * components
        weights = np.ones(users, dtype=np.int64)
        self.table = CodeTable(tuple(columns), tuple(cardinalities), weights)


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
    source = MadeUp(components, levels, users)
    started = time.process_time()
    decided = decide_levels(
        source, declared, policy, seal="", time_limit=seconds, missing="value", names={}
    )
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
