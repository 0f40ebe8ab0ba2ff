"""Mechanisms of local differential privacy: their samplers, their matrices, their refusals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fpmonitor.errors import PolicyError
from fpmonitor.ldp.mechanisms import (
    LocalHash,
    RandomisedResponse,
    StochasticMatrix,
    UnaryEncoding,
    basic_rappor,
    binary_local_hash,
    compose,
    hadamard_response,
    mixture,
    optimised_unary_encoding,
    product,
)
from fpmonitor.ldp.metrics import average_privacy
from fpmonitor.ldp.priors import DirichletPrior
from fpmonitor.ldp.subsets import SubsetSelection

if TYPE_CHECKING:
    from collections.abc import Callable

    from fpmonitor.ldp.mechanisms import PureMechanism

PURE: list[PureMechanism] = [
    RandomisedResponse(5, 1.2),
    basic_rappor(5, 1.2),
    optimised_unary_encoding(5, 1.2),
    LocalHash(5, 1.2, 4),
    SubsetSelection(5, 1.2, 2),
]
TALLY = np.array([40_000, 30_000, 20_000, 10_000, 0])


@pytest.mark.parametrize("mechanism", PURE, ids=str)
def test_ldp_level_is_the_largest_log_ratio_of_the_matrix(mechanism: PureMechanism) -> None:
    matrix = mechanism.matrix()
    assert matrix.sum(axis=0) == pytest.approx(np.ones(5))
    ratios = matrix.max(axis=1) / matrix.min(axis=1)
    assert mechanism.ldp_level == pytest.approx(math.log(ratios.max()))
    assert mechanism.ldp_level == pytest.approx(1.2)


@pytest.mark.parametrize("mechanism", PURE, ids=str)
def test_reports_support_values_as_often_as_promised(mechanism: PureMechanism) -> None:
    rng = np.random.default_rng(3)
    users = int(TALLY.sum())
    codes = np.repeat(np.arange(5), TALLY)
    reports: Any = mechanism.sample(codes, rng)
    expected = TALLY * mechanism.true_support + (users - TALLY) * mechanism.false_support
    spread = 5 * math.sqrt(users / 4)
    counts = mechanism.support_counts(reports)
    assert counts.dtype == np.int64
    assert np.abs(counts - expected).max() < spread


def test_a_matrix_is_sampled_in_its_law() -> None:
    matrix = np.array([[0.5, 0.1, 0.2], [0.3, 0.6, 0.1], [0.2, 0.2, 0.4], [0, 0.1, 0.3]])
    codes = np.tile(np.arange(3), 100_000)
    reports = StochasticMatrix(matrix).sample(codes, np.random.default_rng(5))
    for value in range(3):
        shares = np.bincount(reports[codes == value], minlength=4) / 100_000
        assert np.abs(shares - matrix[:, value]).max() < 5 * math.sqrt(0.25 / 100_000)
    assert not np.any(reports[codes == 0] == 3)


def test_the_sampler_of_bits_is_that_of_the_matrix() -> None:
    mechanism, users = UnaryEncoding(3, 0.7, 0.2), 200_000
    bits = mechanism.sample(np.full(users, 1), np.random.default_rng(6))
    shares = np.bincount(bits @ np.array([1, 2, 4]), minlength=8) / users
    assert np.abs(shares - mechanism.matrix()[:, 1]).max() < 5 * math.sqrt(0.25 / users)


def test_a_million_reports_come_from_vectorised_samplers() -> None:
    codes = np.random.default_rng(7).integers(12, size=1_000_000)
    rng = np.random.default_rng(8)
    for mechanism in (
        RandomisedResponse(12, 1.0),
        optimised_unary_encoding(12, 1.0),
        LocalHash(12, 1.0, 4),
        StochasticMatrix(RandomisedResponse(12, 1.0).matrix()),
    ):
        reports = mechanism.sample(codes, rng)
        assert len(reports[1] if isinstance(reports, tuple) else reports) == len(codes)


def test_same_seed_gives_the_same_reports() -> None:
    codes = np.arange(5)
    for mechanism in PURE[:3]:
        first, second = (mechanism.sample(codes, np.random.default_rng(1)) for _ in range(2))
        assert np.array_equal(first, second)  # type: ignore[arg-type]


def test_composition_product_and_mixture_are_those_of_matrices() -> None:
    first, second = (
        RandomisedResponse(3, 1.0),
        StochasticMatrix(np.array([[0.2, 0.5, 1.0], [0.8, 0.5, 0]])),
    )
    one, other = first.matrix(), second.matrix()
    assert compose(first, second).matrix() == pytest.approx(other @ one)
    assert product(first, second).matrix()[3] == pytest.approx(one[1] * other[1])
    either = mixture([first, second], [1, 3])
    assert either.matrix()[0] == pytest.approx(0.25 * one[0])
    assert either.matrix()[4] == pytest.approx(0.75 * other[1])
    assert math.isinf(either.ldp_level)


def test_two_values_with_their_own_mechanisms_spend_both_budgets() -> None:
    first, second = RandomisedResponse(2, 0.4).matrix(), RandomisedResponse(3, 0.7).matrix()
    assert StochasticMatrix(np.kron(first, second)).ldp_level == pytest.approx(1.1)


@pytest.mark.parametrize(
    ("argument", "make"),
    [
        ("epsilon", lambda: RandomisedResponse(3, 0.0)),
        ("epsilon", lambda: RandomisedResponse(3, -1.0)),
        ("epsilon", lambda: basic_rappor(3, math.nan)),
        ("epsilon", lambda: optimised_unary_encoding(3, math.inf)),
        ("epsilon", lambda: binary_local_hash(3, 0.0)),
        ("epsilon", lambda: LocalHash(3, 0.0)),
        ("epsilon", lambda: LocalHash(3, 0.0, 2)),
        ("values", lambda: RandomisedResponse(1, 1.0)),
        ("values", lambda: basic_rappor(0, 1.0)),
        ("values", lambda: LocalHash(True, 1.0, 2)),
        ("values", lambda: basic_rappor(40, 1.0).matrix()),
        ("hash_range", lambda: LocalHash(3, 1.0, 1)),
        ("true_support", lambda: UnaryEncoding(3, 0.2, 0.2)),
        ("true_support", lambda: UnaryEncoding(3, 1.2, 0.2)),
        ("matrix", lambda: StochasticMatrix(np.array([[0.5, 0.6], [0.5, 0.5]]))),
        ("matrix", lambda: StochasticMatrix(np.array([[1.5, 0.5], [-0.5, 0.5]]))),
        ("matrix", lambda: StochasticMatrix(np.array([[math.nan, 1], [0, 0]]))),
        ("matrix", lambda: StochasticMatrix(np.array([0.5, 0.5]))),
        ("matrix", lambda: StochasticMatrix(np.array([[1.0]]))),
        ("codes", lambda: RandomisedResponse(3, 1.0).sample([3], np.random.default_rng(1))),
        ("codes", lambda: basic_rappor(3, 1.0).sample([-1], np.random.default_rng(1))),
        ("codes", lambda: LocalHash(3, 1.0).sample([0.5], np.random.default_rng(1))),
        ("reports", lambda: RandomisedResponse(3, 1.0).support_counts([5])),
        ("reports", lambda: basic_rappor(3, 1.0).support_counts(np.array([[0, 1, 2]]))),
        ("second", lambda: compose(RandomisedResponse(3, 1.0), RandomisedResponse(4, 1.0))),
        ("second", lambda: product(RandomisedResponse(3, 1.0), RandomisedResponse(4, 1.0))),
        ("weights", lambda: mixture([RandomisedResponse(3, 1.0)], [0.5, 0.5])),
        ("weights", lambda: mixture([RandomisedResponse(3, 1.0)], [0.0])),
        ("mechanisms", lambda: mixture([PURE[0], RandomisedResponse(3, 1.0)], [1, 1])),
    ],
)
def test_wrong_arguments_are_named(argument: str, make: Callable[[], object]) -> None:
    with pytest.raises(PolicyError) as caught:
        make()
    assert caught.value.argument == argument


def test_a_report_that_excludes_a_value_has_no_finite_level_and_an_impossible_one_none() -> None:
    assert math.isinf(StochasticMatrix(np.array([[0.0, 0.5], [1.0, 0.5]])).ldp_level)
    useless = StochasticMatrix(np.array([[0.2, 0.5], [0.8, 0.5], [0.0, 0.0]]))
    assert useless.ldp_level == pytest.approx(math.log(2.5))


@pytest.mark.parametrize("values", [2, 3, 7, 8, 50])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 3.0, 20.0])
def test_hadamard_response_keeps_its_epsilon_and_tells_all_values_apart(
    values: int, epsilon: float
) -> None:
    matrix = hadamard_response(values, epsilon).matrix()
    assert matrix.sum(axis=0) == pytest.approx(np.ones(values))
    ratios = np.log(matrix.max(axis=1) / matrix.min(axis=1))
    assert ratios.max() == pytest.approx(epsilon)
    assert np.linalg.matrix_rank(matrix) == values
    assert len(matrix) <= 8 * values + 8, "reports of a few bits"


@pytest.mark.parametrize(
    ("values", "epsilon"), [(6, 1.0), (9, 0.1), (5, 4.0), (4, 20.0), (12, 1.5)]
)
def test_subset_selection_supports_values_as_its_matrix_says(values: int, epsilon: float) -> None:
    made = SubsetSelection(values, epsilon)
    matrix = made.matrix()
    inside = matrix[:, 0] > matrix[:, 0].min() * (1 + 1e-12)
    other = matrix[:, 1] > matrix[:, 1].min() * (1 + 1e-12)
    assert (
        made.ldp_level
        == pytest.approx(np.log(matrix.max() / matrix.min()))
        == pytest.approx(epsilon)
    )
    assert made.true_support == pytest.approx(matrix[inside, 0].sum())
    assert made.false_support == pytest.approx(matrix[other, 0].sum())


def test_what_sets_tell_is_what_their_matrix_tells() -> None:
    for prior in (DirichletPrior.jeffreys(6), DirichletPrior((1.0, 2.0, 3.0, 1.0, 1.0, 2.0))):
        made = SubsetSelection(6, 1.0)
        assert average_privacy(made, prior) == pytest.approx(
            average_privacy(StochasticMatrix(made.matrix()), prior), abs=1e-10
        )


def test_no_set_size_has_less_variance_than_the_one_taken() -> None:
    for values, epsilon in ((10, 0.5), (40, 1.0), (100, 2.0), (7, 5.0)):
        trials = [SubsetSelection(values, epsilon, size) for size in range(1, values)]
        variances = [
            one.false_support
            * (1 - one.false_support)
            / (one.true_support - one.false_support) ** 2
            for one in trials
        ]
        taken = SubsetSelection(values, epsilon).size
        assert variances[taken - 1] <= 1.02 * min(variances)


@pytest.mark.parametrize("values", [2, 100_000])
@pytest.mark.parametrize("epsilon", [0.01, 20.0])
def test_sets_of_odd_domains_are_drawn_or_refused_by_name(values: int, epsilon: float) -> None:
    made = SubsetSelection(values, epsilon)
    reports = made.sample(np.array([0, values - 1]), np.random.default_rng(1))
    assert made.support_counts(reports).sum() == 2 * made.size
    if values > 2:
        for wrong in (made.matrix, lambda: hadamard_response(values, epsilon)):
            with pytest.raises(PolicyError, match="values"):
                wrong()
    prior = DirichletPrior.jeffreys(min(values, 1000))
    assert 0 < average_privacy(SubsetSelection(prior.values, epsilon), prior) < 1
    for size in (-1, values):
        with pytest.raises(PolicyError, match="size"):
            SubsetSelection(values, epsilon, size)
    with pytest.raises(PolicyError, match="sets of"):
        made.support_counts(np.zeros((1, values)))
