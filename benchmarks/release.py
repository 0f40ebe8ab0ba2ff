"""Deltas, curves and attacks of releases, beside one evaluation of scipy's binomial tail.

    python benchmarks/release.py [--users 100000] [--rounds 5]

Prints JSON: seconds, and each figure as a ratio to its baseline of the same run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
from data import browsers
from scipy.stats import binom

from fpmonitor.release.audit import audit_release, weights_of_rows
from fpmonitor.release.exclusion import boxes_of
from fpmonitor.release.histogram import ReleaseTerms, group_of_users, make_release
from fpmonitor.release.partial_knowledge import (
    _pair_delta,
    delta_curve,
    histogram_guarantee,
    smallest_k,
    value_guarantee,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from fpmonitor.release.histogram import Mechanism

BILLION = 10**9
EPSILONS = [float(epsilon) for epsilon in np.linspace(0, 3, 61)]
APIS = ("Navigator.maxTouchPoints", "Navigator.userAgent", "Screen.height", "Screen.width")


def seconds(action: Callable[[], object], rounds: int) -> float:
    """Median wall seconds of an action, with nothing kept from the round before."""
    times = []
    for _ in range(rounds):
        _pair_delta.cache_clear()
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def formulas(rounds: int) -> dict[str, object]:
    law = 0.9 * np.arange(1, 1001) ** -1.5 / np.sum(np.arange(1, 1001) ** -1.5)
    near = [float(epsilon) for epsilon in np.linspace(0, 1e-4, 61)]
    actions: dict[str, Callable[[], object]] = {
        "one value": lambda: value_guarantee(BILLION, 1e-4, k=100_000, epsilon=0.1),
        "curve of 61 epsilons": lambda: delta_curve(BILLION, 1e-4, k=100_000, epsilons=EPSILONS),
        "curve near 0, p = 1/4": lambda: delta_curve(BILLION, 0.25, k=100_000, epsilons=near),
        "law of 1,000 values": lambda: histogram_guarantee(10**6, law, k=100, epsilon=0.5),
        "smallest k": lambda: smallest_k(10**6, law, epsilon=0.5, delta=1e-6),
    }
    base = seconds(lambda: binom.sf(np.full(1000, 10**5), BILLION - 1, 1e-4), rounds)
    figures = {name: seconds(action, rounds) for name, action in actions.items()}
    return {
        "baseline": {"1,000 tails of scipy's binomial, seconds": base},
        **{name: {"seconds": time, "ratio": time / base} for name, time in figures.items()},
    }


def tables(users: int, rounds: int) -> dict[str, object]:
    frame = browsers(users, seed=1)
    values = frame.select(frame[api].cast(str) for api in APIS)
    words = frame.select(frame.columns[2:]).hash_rows().to_numpy()
    base = seconds(lambda: values.group_by(APIS).len(), rounds)
    made = datetime(2026, 3, 2, tzinfo=UTC)

    def release(mechanism: Mechanism) -> object:
        return make_release(
            values, ReleaseTerms(k=20, mechanism=mechanism, budget=0.2), digest="", made=made
        )

    table = make_release(values, ReleaseTerms(k=20), digest="", made=made)
    groups = group_of_users(table, values)
    weights = weights_of_rows(groups, len(table.table))
    actions: dict[str, Callable[[], object]] = {
        "histogram": lambda: release("histogram"),
        "local suppression": lambda: release("cells"),
        "rows of all users": lambda: group_of_users(table, values),
        "audit, 1,000 runs": lambda: audit_release(
            groups,
            words,
            {"the shares of the users": weights},
            boxes_of(table, values),
            rng=np.random.default_rng(0),
        ),
    }
    figures = {name: seconds(action, rounds) for name, action in actions.items()}
    return {
        "users": users,
        "baseline": {"bare group_by of polars over the same columns, seconds": base},
        **{name: {"seconds": time, "ratio": time / base} for name, time in figures.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    figures = {
        "formulas": formulas(options.rounds),
        "tables": tables(options.users, options.rounds),
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
