"""What `exposure` says of a set and what `decide` says of it never contradict each other."""

from __future__ import annotations

import numpy as np
import pytest

from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.looks import decision_criteria
from fpmonitor.spectrum import CountSpectrum


def random_law(
    rng: np.random.Generator, threshold: float, budget: float
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Few values, a power law, or values near the threshold whose users are near the budget."""
    kind = rng.integers(3)
    if kind == 0:
        return rng.dirichlet(np.full(rng.integers(2, 60), rng.uniform(0.1, 2)))
    if kind == 1:
        law = np.arange(1.0, rng.integers(10, 5_000)) ** -rng.uniform(0.5, 2)
        return np.asarray(law / law.sum())
    share = min(threshold * 10 ** rng.uniform(-1, 1), 0.3)
    values = int(min(max(1, rng.uniform(0.2, 4) * budget / share), 0.9 / share))
    return np.append(np.full(values, share), 1 - values * share)


@pytest.mark.parametrize(
    ("seed", "questions", "sets"), [(1, 3, 60), pytest.param(2, 14, 72, marks=pytest.mark.long)]
)
def test_limits_and_verdicts_on_random_questions_never_contradict(
    seed: int, questions: int, sets: int
) -> None:
    rng, settled = np.random.default_rng(seed), {"both": 0, "one": 0}
    for _ in range(questions):
        users = int(10 ** rng.uniform(2.5, 4.3))
        population = int(users * 10 ** rng.uniform(-0.5, 2.5))
        k = int(min(max(2, 10 ** rng.uniform(0.5, 2.5)), population // 5))
        budget = float(10 ** rng.uniform(-2, -0.7))
        question = {"users": users, "k": k, "population": population, "delta": 0.05}
        limits = exposure_limits(**question)
        tests = decision_criteria(**question, budget=budget, universe=1)
        for _ in range(sets):
            counts = rng.multinomial(users, random_law(rng, k / population, budget))
            spectrum = CountSpectrum.from_counts(counts[counts > 0].tolist())
            lower, upper = limits.of(spectrum)
            allowed, blocked = tests.allow.holds(spectrum, 1), tests.refute.refutes(spectrum, 1)
            said = (users, population, k, budget, lower, upper)
            assert not (allowed and blocked), said
            assert not (allowed and lower > budget), said
            assert not (blocked and upper <= budget), said
            by_limits = upper <= budget or lower > budget
            settled["both"] += (allowed or blocked) and by_limits
            settled["one"] += (allowed or blocked) != by_limits
    assert settled["one"] < settled["both"] / 5, "each knows nearly what the other does"
