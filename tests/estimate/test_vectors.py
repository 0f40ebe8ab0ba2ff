"""Levels of level vectors: one delta for all points of a product of chains."""

from __future__ import annotations

import itertools
import math

import numpy as np
import scipy

from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.looks import decision_criteria, vector_terms, vectors_of_ranks
from fpmonitor.spectrum import CountSpectrum


def vectors(chains: list[int]) -> np.ndarray:
    return np.array(list(itertools.product(*(range(length + 1) for length in chains))))


def heaviest_antichain(chains: list[int], weights: np.ndarray) -> float:
    """Largest total weight of vectors of which none is below another: a linear programme.

    Its dual is a cover by chains, so that one constraint a maximal chain makes it exact.
    """
    points = {tuple(vector): place for place, vector in enumerate(vectors(chains).tolist())}
    rows = []
    steps = [place for place, length in enumerate(chains) for _ in range(length)]
    for order in {*itertools.permutations(steps)}:
        vector, row = [0] * len(chains), np.zeros(len(points))
        row[points[tuple(vector)]] = 1
        for place in order:
            vector[place] += 1
            row[points[tuple(vector)]] = 1
        rows.append(row)
    solved = scipy.optimize.linprog(-weights, np.array(rows), np.ones(len(rows)))
    return float(-solved.fun)


def test_vectors_of_each_rank_are_counted() -> None:
    for chains in ([1, 1, 1, 1], [5, 4, 3], [0, 2, 0, 1], [7]):
        ranks = vectors(chains).sum(axis=1)
        assert vectors_of_ranks(chains) == np.bincount(ranks).tolist()


def test_sets_are_the_vectors_of_one_level() -> None:
    """An API set is the case of one level, to the last bit of its limits.

    Sets are designed for three APIs, vectors for the largest rank: here they are one.
    """
    question = {"users": 20_000, "k": 10, "population": 20_000, "budget": 0.05, "delta": 0.05}
    sets = decision_criteria(
        **question, universe=3
    )  # of three, sets and vectors are designed alike
    levels = decision_criteria(**question, universe=[1, 1, 1])
    assert np.array_equal(sets.allow.limits, levels.allow.limits)
    assert np.array_equal(sets.allow.score.weights, levels.allow.score.weights)


def test_levels_of_an_antichain_add_up_to_delta_and_those_of_sets_would_not() -> None:
    chains, delta = [5, 3], 0.05
    ranks = vectors(chains).sum(axis=1)
    terms, _ = vector_terms(delta, chains)
    assert heaviest_antichain(chains, np.exp(-terms)[ranks]) <= delta * (1 + 1e-9)
    own = 1 / np.array(vectors_of_ranks(chains))[ranks]
    assert math.isclose(heaviest_antichain(chains, own), 1, rel_tol=1e-6)
    shown = (vectors(chains) > 0).sum(axis=1)
    as_sets = 1 / np.array([math.comb(len(chains), int(size)) for size in shown])
    assert heaviest_antichain(chains, as_sets) > 3


def test_no_vector_above_the_budget_is_allowed_where_the_observed_shares_always_allow_one() -> None:
    """Nine in ten users are alike; for the others each level adds a fair bit.

    All vectors of the middle rank are just above the budget: the law that finds every gap.
    """
    chains, users, k, delta, runs = [3, 3, 3, 3], 4000, 10, 0.05, 100
    rank = 6
    steps = [range(3 * place, 3 * place + 3) for place in range(len(chains))]
    columns = [
        [column for step, level in zip(steps, vector, strict=True) for column in step[:level]]
        for vector in vectors(chains).tolist()
        if sum(vector) == rank
    ]
    law = np.r_[0.9, np.full(1 << rank, 0.1 / (1 << rank))]
    budget = float(law @ exposure_probability(law, k=k, population=users)) * (1 - 1e-6)
    tests = decision_criteria(
        users=users, k=k, population=users, delta=delta, budget=budget, universe=chains
    )
    rng, wrong = np.random.default_rng(0), np.zeros(2)
    for _ in range(runs):
        rare = rng.binomial(users, 0.1)
        bits = rng.integers(0, 2, (rare, sum(chains)))
        allowed = np.zeros(2, dtype=np.bool_)
        for shown in columns:
            groups = np.bincount(bits[:, shown] @ (1 << np.arange(rank)))
            spectrum = CountSpectrum.from_counts(np.r_[users - rare, groups])
            observed = groups[groups < k].sum() <= budget * users
            allowed |= [tests.allow.holds(spectrum, rank), observed]
        wrong += allowed
    assert wrong[0] <= delta * runs
    assert wrong[1] > runs / 2
