"""What a batch costs that changes one user in a hundred: verdicts on watched sets, and the borders.

    python benchmarks/keeps_up.py [--users 1000000] [--sets 50] [--share 0.01]

prints JSON. The users are those of the table 20x1M of `search_data.py`; the batch changes half of
the share, and as many come in. The sets are random ones; each is counted by what changed
(`KeptSpectra`) and judged, and counted from nothing and judged. All spectra are compared.
Milliseconds are CPU time. `tests_ms` is what the tests for the new number of users cost, once a
batch and not of the ratio.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from search_data import many_users

from fpmonitor.decide.deciding import Judge, decide
from fpmonitor.estimate.looks import UNIVERSE
from fpmonitor.policy import Policy
from fpmonitor.population.kept_spectra import KeptSpectra
from fpmonitor.population.memory import MemorySource

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

SEED, K, BUDGET, DELTA = 20261123, 10, 0.05, 0.05


def milliseconds(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    found = work()
    return found, round(1000 * (time.process_time() - began), 1)


def random_sets(apis: list[str], number: int) -> list[tuple[str, ...]]:
    """Sets of two to eight APIs, of few values and of many."""
    rng, found = np.random.default_rng(SEED), dict[tuple[str, ...], None]()
    while len(found) < number:
        size = int(rng.integers(2, 9))
        found[tuple(sorted(rng.choice(apis, size, replace=False).tolist()))] = None
    return list(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--sets", type=int, default=50)
    parser.add_argument("--share", type=float, default=0.01)
    asked = parser.parse_args()
    half = int(asked.users * asked.share / 2)
    table = many_users("users", asked.users + 2 * half)
    before: dict[str, NDArray[Any]] = {}
    after: dict[str, NDArray[Any]] = {}
    changing = np.random.default_rng(SEED).choice(asked.users, half, replace=False)
    for api, column in zip(table.apis, table.codes, strict=True):
        codes = column.astype(np.min_scalar_type(int(column.max())))  # as snapshots have them
        before[api] = codes[: asked.users]
        after[api] = codes[: asked.users + half].copy()
        after[api][changing] = codes[asked.users + half :]
    sets = random_sets(table.apis, asked.sets)
    kept = KeptSpectra()
    _, build = milliseconds(lambda: kept.follow(before, sets))
    users, first = asked.users + half, table.apis[0]
    policy = Policy(
        k=K, population=10 * asked.users, budget=BUDGET, delta=DELTA, candidates=(first,)
    )
    source = MemorySource([first], [before[first]])
    decision = decide(source, policy, seal="", universe=UNIVERSE)
    judge, tests = milliseconds(lambda: Judge.of(decision, users))

    def judged(spectra: dict[tuple[str, ...], Any]) -> list[str]:
        return [judge.verdict(len(apis), spectrum) for apis, spectrum in spectra.items()]

    followed, follow = milliseconds(lambda: kept.follow(after, sets))
    verdicts, judging = milliseconds(lambda: judged(followed))
    source = MemorySource(table.apis, list(after.values()))
    anew, counting = milliseconds(lambda: {apis: source.spectrum(apis) for apis in sets})
    for apis, spectrum in anew.items():
        same = followed[apis]
        assert np.array_equal(spectrum.counts, same.counts), apis
        assert np.array_equal(spectrum.values, same.values), apis
    print(
        json.dumps(
            {
                "users": users,
                "apis": len(table.apis),
                "sets": len(sets),
                "rows_changed": 2 * half,
                "verdicts": {verdict: verdicts.count(verdict) for verdict in sorted({*verdicts})},
                "first_count_ms": build,
                "follow_ms": follow,
                "judge_ms": judging,
                "tests_ms": tests,
                "from_nothing_ms": round(counting + judging, 1),
                "ratio": round((follow + judging) / (counting + judging), 3),
            }
        )
    )


if __name__ == "__main__":
    main()
