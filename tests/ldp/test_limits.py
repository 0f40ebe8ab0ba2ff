"""Limits of probabilities from reports of any matrix: they hold, and are not idle."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.errors import PolicyError
from fpmonitor.estimate.exposure import statistical_exposure
from fpmonitor.ldp.exposure import ApiReports, randomised_limits
from fpmonitor.ldp.frequency import (
    estimate_from_reports,
    frequency_limits,
    least_share_inside,
    limits_from_reports,
)
from fpmonitor.ldp.mechanisms import (
    LocalHash,
    RandomisedResponse,
    StochasticMatrix,
    mixture,
    optimised_unary_encoding,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

SKEWED = StochasticMatrix(np.array([[0.7, 0.1], [0.2, 0.3], [0.1, 0.6]]))
ERASING = StochasticMatrix(np.array([[0.5, 0, 0], [0, 0.5, 0], [0, 0, 0.5], [0.5, 0.5, 0.5]]))
UNEVEN = StochasticMatrix(
    np.array([[0.6, 0.05, 0.3], [0.3, 0.85, 0.1], [0.05, 0.05, 0.1], [0.05, 0.05, 0.5]])
)
MATRICES = [SKEWED, ERASING, UNEVEN]


def outcomes(reports: int, users: int) -> list[NDArray[np.int64]]:
    """All counts of reports that so many users can send."""
    bars = itertools.combinations(range(users + reports - 1), reports - 1)
    ends = ((-1, *bar, users + reports - 1) for bar in bars)
    return [np.diff(np.array(end)) - 1 for end in ends]


def chance(counts: NDArray[np.int64], law: NDArray[np.float64]) -> float:
    """Multinomial probability."""
    ways = math.factorial(int(counts.sum())) / math.prod(math.factorial(int(c)) for c in counts)
    return float(ways * np.prod(law**counts))


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("users", [1, 3, 7])
def test_no_limit_fails_more_often_than_its_share_of_delta(
    matrix: StochasticMatrix, users: int
) -> None:
    """Exactly, by all outcomes of few users, for laws all over the simplex."""
    delta = 0.4
    found = [
        (counts, *limits_from_reports(matrix, counts, delta=delta))
        for counts in outcomes(len(matrix.probabilities), users)
    ]
    corners = np.eye(matrix.values)
    inner = np.random.default_rng(3).dirichlet(np.ones(matrix.values), size=40)
    for law in (*corners, *inner):
        told = matrix.probabilities @ law
        failed = np.zeros((2, matrix.values))
        for counts, low, high in found:
            failed += chance(counts, told) * np.array([low > law, high < law])
        assert failed.max() <= delta / (2 * matrix.values) + 1e-12


@pytest.mark.parametrize("matrix", MATRICES)
def test_limits_close_around_the_law_as_users_come(matrix: StochasticMatrix) -> None:
    law = np.random.default_rng(5).dirichlet(np.ones(matrix.values))
    widths = []
    for users in (10**3, 10**5, 10**7):
        counts = np.rint(users * (matrix.probabilities @ law)).astype(np.int64)
        low, high = limits_from_reports(matrix, counts, delta=0.05)
        assert np.all((low < law) & (law < high))
        widths.append(float((high - low).max()))
    assert widths[1] / widths[0] == pytest.approx(0.1, rel=0.15)
    assert widths[2] / widths[1] == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize(
    ("values", "epsilon", "users"), [(4, 1.5, 1500), (12, 1.0, 100_000), (30, 3.0, 10**6)]
)
def test_a_protocol_as_a_matrix_has_limits_little_wider_than_its_own(
    values: int, epsilon: float, users: int
) -> None:
    protocol = RandomisedResponse(values, epsilon)
    rng = np.random.default_rng(1)
    codes = rng.choice(values, users, p=rng.dirichlet(np.ones(values)))
    counts = protocol.support_counts(protocol.sample(codes, rng))
    low, high = frequency_limits(protocol, counts, users, delta=0.05)
    matrix = StochasticMatrix(protocol.matrix())
    lower, upper = limits_from_reports(matrix, counts, delta=0.05)
    assert np.mean(upper - lower) < 1.35 * np.mean(high - low)
    assert np.mean(upper - lower) > np.mean(high - low)
    centre = estimate_from_reports(matrix, counts)[0]
    assert np.all((lower <= np.maximum(centre, 0)) & (centre <= upper))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    values=st.integers(2, 6),
    more=st.integers(0, 6),
    users=st.sampled_from([1, 50, 10_000, 10**9]),
)
def test_limits_are_shares_in_order_for_any_reports_whatever(
    seed: int, values: int, more: int, users: int
) -> None:
    rng = np.random.default_rng(seed)
    reports = values + more
    noise = StochasticMatrix(rng.dirichlet(np.ones(reports), size=values).T)
    matrix = mixture([noise, StochasticMatrix(np.eye(reports, values))], [1, 1])
    counts = rng.multinomial(users, rng.dirichlet(np.full(2 * reports, 0.3)))
    low, high = limits_from_reports(matrix, counts, delta=0.1)
    assert np.all((low >= 0) & (high <= 1))
    assert np.isfinite([low, high]).all()


def test_reports_of_bits_tell_as_much_by_their_matrix() -> None:
    protocol = optimised_unary_encoding(6, 1.0)
    rng = np.random.default_rng(2)
    codes = rng.integers(6, size=20_000)
    bits = protocol.sample(codes, rng)
    counts = np.bincount(bits @ (1 << np.arange(6)), minlength=64)
    lower, upper = limits_from_reports(StochasticMatrix(protocol.matrix()), counts, delta=0.05)
    assert np.all((lower < 1 / 6) & (upper > 1 / 6))
    low, high = frequency_limits(protocol, protocol.support_counts(bits), 20_000, delta=0.05)
    assert np.mean(upper - lower) < 1.25 * np.mean(high - low)


@pytest.mark.parametrize("matrix", [SKEWED, UNEVEN])
def test_exposure_from_reports_of_a_matrix_holds_in_repeated_collections(
    matrix: StochasticMatrix,
) -> None:
    law = np.array([0.97, 0.03]) if matrix is SKEWED else np.array([0.9, 0.06, 0.04])
    truth = statistical_exposure(law, k=40, population=1000)
    held, uppers = 0, []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        counts = np.bincount(
            matrix.sample(rng.choice(len(law), size=20_000, p=law), rng),
            minlength=len(matrix.probabilities),
        )
        reports = ApiReports(mechanism=matrix, support_counts=counts, users=20_000)
        lower, upper = randomised_limits(*reports.limits(0.2), k=40, population=1000)
        held += lower <= truth <= upper
        uppers.append(upper)
    assert held >= 24
    assert np.mean(uppers) < 0.3
    wrong = ApiReports(mechanism=matrix, support_counts=counts, users=19_999)
    with pytest.raises(PolicyError, match="users: must be 20000"):
        wrong.limits(0.2)


def test_what_tells_nothing_is_refused() -> None:
    flat = StochasticMatrix(np.full((2, 2), 0.5))
    with pytest.raises(PolicyError, match="faithful"):
        limits_from_reports(flat, [1, 2], delta=0.1)
    for counts, delta in (([1, 2], 0.1), ([0, 0, 0], 0.1), ([1, -1, 2], 0.1), ([1, 2, 3], 1.0)):
        with pytest.raises(PolicyError):
            limits_from_reports(SKEWED, counts, delta=delta)


@pytest.mark.parametrize("matrix", MATRICES)
def test_a_share_of_several_values_fails_no_more_often_than_its_delta(
    matrix: StochasticMatrix,
) -> None:
    """Exactly, by all outcomes of five users, for laws all over the simplex."""
    delta, users, width = 0.4, 5, matrix.values
    places = np.arange(width - 1)
    outcome = outcomes(len(matrix.probabilities), users)
    limits = [least_share_inside(matrix, one, users, places, delta=delta) for one in outcome]
    for law in itertools.product(np.linspace(0, 1, 6), repeat=width - 1):
        if sum(law) <= 1:
            shares = np.append(law, 1 - sum(law))
            wrong = sum(
                chance(counts, matrix.probabilities @ shares)
                for counts, limit in zip(outcome, limits, strict=True)
                if limit > shares[places].sum() + 1e-12
            )
            assert wrong <= delta


@pytest.mark.parametrize(
    "mechanism",
    [RandomisedResponse(21, 2.0), optimised_unary_encoding(21, 2.0), LocalHash(21, 2.0, 8)],
    ids=["grr", "oue", "lh"],
)
def test_a_share_of_several_values_is_sharper_than_the_sum_of_theirs(
    mechanism: RandomisedResponse | LocalHash,
) -> None:
    rng = np.random.default_rng(3)
    law = np.array([0.08] * 10 + [0.018] * 10 + [0.02])
    codes, places = rng.choice(21, 20_000, p=law), np.arange(20)
    counts = mechanism.support_counts(mechanism.sample(codes, rng))
    together = least_share_inside(mechanism, counts, codes.size, places, delta=0.001)
    alone, _ = frequency_limits(mechanism, counts, codes.size, delta=0.01)
    truth = float((codes < 20).mean())
    assert alone[:20].sum() < 0.65
    assert 0.8 < together < truth
