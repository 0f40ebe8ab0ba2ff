"""Checks without end: passes, wrong passes, alarms, and what tests of the decision would give.

    python benchmarks/checks.py windows   # 2,000 windows, from the count spectra
    python benchmarks/checks.py alarms    # windows to an alarm
    python benchmarks/checks.py year --runs 5 [--first 0]  # 365 days through the database

A run of `year` takes two minutes; it prints a line for each, so that others can go on from the seed
`--first`.

Windows above the budget are so by a thousandth of it: users with values of their own, all others in
large groups.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.decide.evidence import needed_evidence
from fpmonitor.estimate.evalues import WindowTest, go_on, log_mean, window_test
from fpmonitor.estimate.looks import decision_criteria
from fpmonitor.monitor import Monitor
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Iterator

K, BUDGET, DELTA = 10, 0.05, 0.05
ABOVE = 1.001  # exposure over the budget
BAD = 0.3  # share of the windows
WINDOWS = 2000


def spectra(
    rng: np.random.Generator, users: int, population: int, exposure: float, number: int
) -> Iterator[CountSpectrum]:
    """Draw windows of one distribution."""
    groups = max(population // (30 * K), 1)
    for rare in rng.binomial(users, exposure * BUDGET, number):
        common = rng.multinomial(users - rare, np.full(groups, 1 / groups))
        yield CountSpectrum.from_counts(np.concatenate([np.ones(rare, dtype=np.int64), common]))


def windows(runs: int) -> None:
    """Passes and wrong passes, for good windows of several exposures."""
    rng = np.random.default_rng(1)
    users = population = 10_000
    test = window_test(users=users, k=K, population=population, budget=BUDGET, log_terms=(8.0, 8.0))
    criteria = {
        checks: decision_criteria(
            users=users, k=K, population=population, budget=BUDGET, delta=DELTA / checks
        )
        for checks in (1, 365)
    }
    drawn = {
        exposure: list(spectra(rng, users, population, exposure, 1500))
        for exposure in (0.65, 0.7, 0.75, 0.8, 0.85, ABOVE)
    }
    nats = {
        exposure: np.array([test.log_within(spectrum) for spectrum in pool])
        for exposure, pool in drawn.items()
    }
    for exposure in list(drawn)[:-1]:
        before = [
            np.mean([tests.allow.holds(spectrum, 1) for spectrum in drawn[exposure]])
            for tests in criteria.values()
        ]
        for price, what in ((0.0, "new users"), (math.log(1000), "users of the decision")):
            found, wrong = [], []
            for _ in range(runs):
                bad = rng.random(WINDOWS) < BAD
                seen = np.where(
                    bad, rng.choice(nats[ABOVE], WINDOWS), rng.choice(nats[exposure], WINDOWS)
                )
                passes = false = 0
                for place, (evidence, is_bad) in enumerate(zip(seen - price, bad, strict=True)):
                    if evidence >= needed_evidence(DELTA, place=place, successes=passes):
                        passes, false = passes + 1, false + int(is_bad)
                found.append((passes - false) / (~bad).sum())
                wrong.append(false / max(passes, 1))
            print(
                f"exposure {exposure} of the budget, {what}: {np.mean(found):.1%} of the good "
                f"windows pass, {np.mean(wrong):.2%} of the passes are wrong; tests of the decision"
                f" at delta / 365 {before[1]:.1%}, at delta {before[0]:.1%}"
            )


def windows_to_alarm(rng: np.random.Generator, evidence: list[float], limit: float) -> int:
    """Go on until the run of one set reaches a limit."""
    run, number = [0.0], 0
    while log_mean(run) < math.log(limit):
        run, number = go_on(run, [float(rng.choice(evidence))]), number + 1
    return number


def alarms(runs: int) -> None:
    """Windows to a false alarm at a small limit, and to a true one at 3,650."""
    rng = np.random.default_rng(2)
    for users, population in ((300, 1000), (1000, 1000), (1000, 10_000), (10_000, 100_000)):
        test: WindowTest = window_test(
            users=users, k=K, population=population, budget=BUDGET, log_terms=(8.0, 8.0)
        )
        evidence = {
            exposure: [
                test.log_above(spectrum)
                for spectrum in spectra(rng, users, population, exposure, 2000)
            ]
            for exposure in (1.0, 1.2, 1.5, 2.0)
        }
        false = [windows_to_alarm(rng, evidence[1.0], 100) for _ in range(runs)]
        true = {
            exposure: [windows_to_alarm(rng, pool, 3650) for _ in range(runs)]
            for exposure, pool in evidence.items()
            if exposure > 1
        }
        print(
            f"{users} users a window, n = {population}: a false alarm at 100 after "
            f"{np.mean(false):.0f} windows; at 3,650, "
            + ", ".join(f"{x} of the budget {np.mean(t):.1f}" for x, t in true.items())
        )


def year(runs: int, first: int = 0) -> None:
    """A year of daily checks through the database: new users each day, a list made before."""
    users, start = 2000, date(2025, 1, 1)
    for seed in range(first, first + runs):
        rng = np.random.default_rng(seed)
        outcomes: list[tuple[bool, str]] = []
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            for day in range(-1, 365):
                is_bad = day >= 0 and rng.random() < BAD
                share = BUDGET * (ABOVE if is_bad else 0.2)
                moment = f"{start + timedelta(days=day)}T12:00:00Z"
                lines = (
                    json.dumps(
                        {"user": f"{day}-{i}", "time": moment, "a": f"{day}-{i}" if rare else "x"}
                    )
                    for i, rare in enumerate(rng.random(users) < share)
                )
                (path / "day.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
                with Monitor(path / "db", create=True) as monitor:
                    monitor.ingest([path / "day.jsonl"])
                    if day < 0:
                        decision = monitor.decide(k=K, population=users, budget=BUDGET)
                        monitor.check(decision, by="day")
                    else:
                        outcomes.append((is_bad, monitor.check(decision, by="day").outcome))
        passes = [is_bad for is_bad, outcome in outcomes if outcome == "holds"]
        good = sum(not is_bad for is_bad, _ in outcomes)
        print(
            f"{len(passes)} passes of {good} good and {365 - good} bad days, {sum(passes)} wrong; "
            f"{sum(outcome == 'violated' for _, outcome in outcomes)} violations",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("windows", "alarms", "year"))
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--first", type=int, default=0, help="seed of the first year")
    arguments = parser.parse_args()
    if arguments.what == "year":
        year(arguments.runs, arguments.first)
    else:
        {"windows": windows, "alarms": alarms}[arguments.what](arguments.runs)
