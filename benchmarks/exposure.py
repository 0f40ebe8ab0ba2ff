"""Exposure of one set and the certificate, beside the bare query of DuckDB.

    python benchmarks/exposure.py [--users 1000000] [--rounds 11]

Prints JSON: seconds, and each figure as a ratio to its baseline of the same run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from data import browsers, write

from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.looks import decision_criteria
from fpmonitor.monitor import Monitor
from fpmonitor.population.duckdb import DuckDBSource
from fpmonitor.store.database import Database
from fpmonitor.store.snapshot import take_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SET_SIZE = 8
K, POPULATION, BUDGET, DELTA, CANDIDATES = 10, 1_000_000, 0.05, 0.05, 20


def seconds(action: Callable[[], object], rounds: int) -> float:
    """Median wall seconds of an action."""
    return interleaved([action], rounds)[0]


def interleaved(actions: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Median wall seconds of each action; the rounds take turns, so that noise hits all alike."""
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(rounds):
        for action, measured in zip(actions, times, strict=True):
            started = time.perf_counter()
            action()
            measured.append(time.perf_counter() - started)
    return [statistics.median(measured) for measured in times]


def run(folder: Path, users: int, rounds: int) -> dict[str, object]:
    log, path = folder / "log.parquet", folder / "log.duckdb"
    write(browsers(users, seed=1), log)
    with Monitor(path, create=True) as monitor:
        monitor.ingest([str(log)])
    with Database(path) as database:
        started = time.perf_counter()
        snapshot = take_snapshot(database)
        made = time.perf_counter() - started
        apis = snapshot.apis[:SET_SIZE]
        source = DuckDBSource(database, snapshot)
        columns = ", ".join(snapshot.column(api) for api in apis)
        query = (
            f"SELECT sum(c) FILTER (c < {K}) / sum(c) "
            f"FROM (SELECT count(*) AS c FROM {snapshot.table} GROUP BY {columns})"
        )
        bare, ours = interleaved(
            [
                lambda: database._connection.execute(query).fetchall(),
                lambda: source.spectrum(apis),
            ],
            rounds,
        )
        spectrum = source.spectrum(apis)
    policy = {"users": users, "k": K, "population": POPULATION, "delta": DELTA}
    new_policy = seconds(lambda: decision_criteria(**policy, budget=BUDGET, universe=CANDIDATES), 1)
    criteria = decision_criteria(**policy, budget=BUDGET, universe=CANDIDATES)
    per_set = seconds(lambda: criteria.allow.holds(spectrum, SET_SIZE), 20)
    question = {"users": users, "k": K, "population": POPULATION, "delta": DELTA}
    new_limits = seconds(lambda: exposure_limits(**question), 1)
    table = exposure_limits(**question)
    limits = seconds(lambda: table.of(spectrum), 20)
    return {
        "users": users,
        "apis": SET_SIZE,
        "baseline": {"bare DuckDB GROUP BY over the same integer codes, seconds": bare},
        "spectrum": {"seconds": ours, "ratio": ours / bare},
        "snapshot": {"seconds": made, "ratio": made / bare},
        "criteria of a new policy": {"seconds": new_policy},
        "one set against the criteria": {"seconds": per_set, "ratio": per_set / bare},
        "limits of a new question": {"seconds": new_limits},
        "limits of one set": {"seconds": limits, "ratio": limits / bare},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=11)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(run(Path(folder), arguments.users, arguments.rounds), indent=2))


if __name__ == "__main__":
    main()
