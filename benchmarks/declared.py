"""Limits where the possible values are declared, beside those of scores alone.

    python benchmarks/declared.py
    python benchmarks/declared.py --tiers

Few to 300 values, m = 1,000 and 10,000, n = m and 100 m, k from 5 to n / 5. JSON: in how many
questions both together are narrower by a fifth or more than scores with the whole of delta, of
those that are wider than half a per cent; how often either missed; and each of them.
With --tiers: decisions about the tiers of docs/tiers.json, by scores alone and by both: each is
allowed or blocked, k a tenth of a million, of 20 samples of m users at their first look.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from fpmonitor.estimate.declared import Looked, declared_limits
from fpmonitor.estimate.exposure import statistical_exposure
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.looks import Drawing, decision_criteria
from fpmonitor.policy import EXACT_PART
from fpmonitor.spectrum import CountSpectrum

DELTA, SEED = 0.05, 1
LOOKED = Looked.of(EXACT_PART * DELTA, "first")
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


TIERS = Path(__file__).parent.parent / "docs" / "tiers.json"
NO_VALUES = 4  # of a number with edges beside its tiers: below, `other`, absent, undefined
SAMPLES = 20


def decide_tiers(users: int, budget: float) -> dict[str, Any]:
    """How many samples of tiers are decided by scores alone, and by both."""
    asked = {"k": 100_000, "population": 1_000_000}
    alone, beside = (
        decision_criteria(
            users=users,
            **asked,
            budget=budget,
            delta=delta,
            universe=(1,),
            drawing=Drawing(look="first"),
        )
        for delta in (DELTA, (1 - EXACT_PART) * DELTA)
    )
    found = dict.fromkeys(
        ("safe", "allowed by scores", "allowed", "unsafe", "blocked by scores", "blocked", "wrong"),
        0,
    )
    tables = json.loads(TIERS.read_text(encoding="utf-8")).values()
    designs = [api[end] for apis in tables for api in apis.values() for end in ("passed", "failed")]
    laws = [np.array(one["counts"]) / sum(one["counts"]) for one in designs if one]
    for law in (LAWS["four tiers"], *laws):
        is_safe = statistical_exposure(law, **asked) <= budget
        for seed in range(SAMPLES):
            counts = np.random.default_rng(seed).multinomial(users, law)
            seen = CountSpectrum.from_counts(counts)
            values = law.size + NO_VALUES
            lower, upper = declared_limits(seen, values, looked=LOOKED, others=True, **asked)
            allowed = beside.allow.holds(seen, 1) or upper <= budget
            blocked = beside.refute.refutes(seen, 1) or lower > budget
            found["safe" if is_safe else "unsafe"] += 1
            found["wrong"] += blocked if is_safe else allowed
            if is_safe:
                found["allowed by scores"] += alone.allow.holds(seen, 1)
                found["allowed"] += allowed
            else:
                found["blocked by scores"] += alone.refute.refutes(seen, 1)
                found["blocked"] += blocked
    return {"users": users, "budget": budget, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiers", action="store_true", help="decisions about tiers")
    if parser.parse_args().tiers:
        questions = [(users, budget) for budget in (0.01, 0.05) for users in (1_000, 3_000, 10_000)]
        print(json.dumps([decide_tiers(*question) for question in questions], indent=1))
        return
    found = []
    for users in (1_000, 10_000):
        for population in (users, 100 * users):
            for k in (5, population // 100, population // 10, population // 5):
                question = {"k": k, "population": population}
                rest, alone = (
                    exposure_limits(
                        users=users, delta=delta, **question, drawing=Drawing(look="first")
                    )
                    for delta in ((1 - EXACT_PART) * DELTA, DELTA)
                )
                for name, law in LAWS.items():
                    seen = CountSpectrum.from_counts(RNG.multinomial(users, law))
                    exact = declared_limits(seen, law.size, looked=LOOKED, **question)
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
