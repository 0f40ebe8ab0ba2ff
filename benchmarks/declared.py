"""Limits where the possible values are declared, beside those of scores alone.

    python benchmarks/declared.py

Few to 300 values, m = 1,000 and 10,000, n = m and 100 m, k from 5 to n / 5. JSON: in how many
questions both together are narrower by a fifth or more than scores with the whole of delta, of
those that are wider than half a per cent; how often either missed; and each of them.
"""

from __future__ import annotations

import json

import numpy as np

from fpmonitor.estimate.declared import PART, declared_limits
from fpmonitor.estimate.exposure import statistical_exposure
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.spectrum import CountSpectrum

DELTA, SEED = 0.05, 1
NARROWER, WIDE = 0.8, 0.005
RNG = np.random.default_rng(SEED)
LAWS = {
    "two tiers": np.array([0.22, 0.78]),
    "four tiers": np.array([0.028, 0.194, 0.604, 0.174]),
    "five tiers of 12 % and more": np.array([0.12, 0.15, 0.2, 0.23, 0.3]),
    "three tiers": np.array([0.2, 0.3, 0.5]),
    "30 alike": np.full(30, 1 / 30),
    "10 alike": np.full(10, 0.1),
    "geometric": np.exp(-np.arange(12) / 2) / np.exp(-np.arange(12) / 2).sum(),
    "300 values": RNG.dirichlet(np.ones(300)),
}


def main() -> None:
    found = []
    for users in (1_000, 10_000):
        for population in (users, 100 * users):
            for k in (5, population // 100, population // 10, population // 5):
                question = {"k": k, "population": population}
                rest, alone = (
                    exposure_limits(users=users, delta=delta, **question)
                    for delta in ((1 - PART) * DELTA, DELTA)
                )
                for name, law in LAWS.items():
                    seen = CountSpectrum.from_counts(RNG.multinomial(users, law))
                    exact = declared_limits(seen, law.size, delta=PART * DELTA, **question)
                    scores = rest.of(seen)
                    found.append(
                        {
                            "law": name,
                            "users": users,
                            **question,
                            "truth": statistical_exposure(law, **question),
                            "scores": alone.of(seen),
                            "both": (max(scores[0], exact[0]), min(scores[1], exact[1])),
                        }
                    )
    widths = [[upper - lower for lower, upper in (e["scores"], e["both"])] for e in found]
    missed = [not e["both"][0] <= e["truth"] * (1 + 1e-9) <= e["both"][1] + 1e-9 for e in found]
    counts = {
        "questions": len(found),
        "narrower": sum(both < NARROWER * alone and alone > WIDE for alone, both in widths),
        "missed": sum(missed),
    }
    print(json.dumps({**counts, "answers": found}, indent=1))


if __name__ == "__main__":
    main()
