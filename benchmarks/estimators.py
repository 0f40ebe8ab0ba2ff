"""Time of every estimator on a spectrum of a million distinct counts, and at the largest sizes.

    python benchmarks/estimators.py [--counts 1000000] [--rounds 3]

Prints JSON: median CPU seconds, and the ratio to the baseline of the same run, numpy's logarithm of
all counts; and the value, which must be a finite number.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.estimate import bounds, entropy, exposure
from fpmonitor.estimate.composition import MarginalDistribution, sampled_tails
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTIONS = [(10, 10**4), (10, 10**10), (1000, 10**7), (10**6, 10**10), (10**6, 10**6)]
DELTA = 0.05


def spectrum_of(counts: int) -> CountSpectrum:
    """Every count from 1 up, one value each."""
    return CountSpectrum(np.arange(1, counts + 1), np.ones(counts, dtype=np.int64))


def estimators(spectrum: CountSpectrum) -> dict[str, Callable[[], object]]:
    """Everything that takes a spectrum, by name."""
    calls: dict[str, Callable[[], object]] = {
        f"entropy, {name}": lambda estimate=estimate: estimate(spectrum)  # type: ignore[misc]
        for name, estimate in entropy.ENTROPY_ESTIMATORS.items()
    }
    calls |= {
        "entropy, normalised": lambda: entropy.normalised_entropy(spectrum),
        "entropy, Tsallis": lambda: entropy.unbiased_tsallis_entropy(spectrum),
        "misleading factor": lambda: entropy.misleading_factor(spectrum),
        "empirical exposure, k = 10": lambda: exposure.empirical_exposure(spectrum, 10),
        "exposure curve and band": lambda: largest_limit(spectrum),
        "tails, sampled": lambda: float(
            sampled_tails(spectrum, delta=DELTA, rng=np.random.default_rng(1)).tails[0]
        ),
        "tails, fixed": lambda: float(
            MarginalDistribution.from_spectrum(spectrum).tails().tails[0]
        ),
    }
    for k, population in QUESTIONS:
        question = {"k": k, "population": population}
        limited = question | {"delta": DELTA, "support": 2 * spectrum.support}
        size = f"k = {k:,}, n = {population:,}"
        calls |= {
            f"plug-in exposure, {size}": lambda q=question: exposure.plug_in_exposure(
                spectrum, **q
            ),
            f"unbiased exposure, {size}": lambda q=question: exposure.unbiased_exposure(
                spectrum, **q
            ),
            f"theorem 5, {size}": lambda q=limited: bounds.theorem5(spectrum, **q).upper,
            f"theorem 8, {size}": lambda q=limited: bounds.theorem8(spectrum, **q).upper,
            f"proposition 9, {size}": lambda q=limited: bounds.proposition9(spectrum, **q).upper,
        }
    return calls


def largest_limit(spectrum: CountSpectrum) -> float:
    return float(exposure.dkw_band(exposure.exposure_curve(spectrum), DELTA).upper[-1])


def seconds(action: Callable[[], object], rounds: int) -> tuple[float, object]:
    """Median CPU seconds of an action, and what it gives."""
    times, value = [], None
    for _ in range(rounds):
        started = time.process_time()
        value = action()
        times.append(time.process_time() - started)
    return statistics.median(times), value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", type=int, default=10**6)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    spectrum = spectrum_of(arguments.counts)
    baseline, _ = seconds(lambda: np.log(spectrum.counts), arguments.rounds)
    rows = []
    for name, call in estimators(spectrum).items():
        took, value = seconds(call, arguments.rounds)
        number = float(value)  # type: ignore[arg-type]
        if not math.isfinite(number):
            raise ArithmeticError(f"{name}: {number}")
        rows.append({"estimator": name, "value": number, "seconds": took, "ratio": took / baseline})
    report = {
        "counts": arguments.counts,
        "users": spectrum.users,
        "baseline": "numpy.log of all counts",
        "baseline_seconds": baseline,
        "slowest_seconds": max(row["seconds"] for row in rows),
        "rows": rows,
    }
    json.dump(report, sys.stdout, indent=2)


if __name__ == "__main__":
    main()
