"""What is learnt from randomised reports: frequencies, posteriors, exposure."""

from __future__ import annotations

import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import betainc

from fpmonitor.errors import PolicyError, UndecidableError
from fpmonitor.estimate.exposure import statistical_exposure
from fpmonitor.ldp.exposure import ApiReports, randomised_limits
from fpmonitor.ldp.frequency import (
    decoding_matrix,
    estimate_frequencies,
    estimate_from_reports,
    frequency_limits,
)
from fpmonitor.ldp.mechanisms import (
    LocalHash,
    PureMechanism,
    RandomisedResponse,
    StochasticMatrix,
    hadamard_response,
    optimised_unary_encoding,
)
from fpmonitor.ldp.planner import PROTOCOLS, compare_at_equal_terms, plan_api
from fpmonitor.ldp.priors import DirichletPrior
from fpmonitor.ldp.reports import exact_posterior, sample_posterior
from fpmonitor.ldp.subsets import SubsetSelection
from fpmonitor.spectrum import CountSpectrum

PATH = Path(__file__).parents[2] / "fixtures" / "reference" / "ldp.json"
REFERENCE: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
LAW = np.array([0.5, 0.3, 0.15, 0.05])
MECHANISMS = [
    RandomisedResponse(4, 1.5),
    optimised_unary_encoding(4, 1.5),
    LocalHash(4, 1.5, 4),
    SubsetSelection(4, 1.5, 2),
]


def drawn_counts(
    mechanism: Any, law: NDArray[np.float64], users: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    reports = mechanism.sample(rng.choice(len(law), users, p=law), rng)
    return np.asarray(mechanism.support_counts(reports))


@pytest.mark.parametrize("name", ["grr", "oue"])
def test_frequencies_are_those_of_an_independent_library(name: str) -> None:
    other = REFERENCE["independent_library"]
    mechanism = PROTOCOLS[name](len(other["tally"]), other["epsilon"])
    users, reports = sum(other["tally"]), other["reports"][name]
    found = estimate_frequencies(mechanism, reports["support_counts"], users)
    assert found * users == pytest.approx(reports["estimated_users"], abs=1e-9)
    misses = found - np.array(other["tally"]) / users
    chances = np.array(reports["support_counts"]) / users
    gain = mechanism.true_support - mechanism.false_support
    assert np.all(np.abs(misses) < 4 * np.sqrt(chances * (1 - chances) / users) / gain)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_frequencies_are_unbiased(mechanism: PureMechanism) -> None:
    rng, users, runs = np.random.default_rng(9), 500, 4000
    estimates = np.array(
        [
            estimate_frequencies(mechanism, drawn_counts(mechanism, LAW, users, rng), users)
            for _ in range(runs)
        ]
    )
    noise = estimates.std(axis=0) / np.sqrt(runs)
    assert np.all(np.abs(estimates.mean(axis=0) - LAW) < 4.5 * noise)


def test_frequencies_of_many_values_take_no_square_of_memory() -> None:
    mechanism = RandomisedResponse(5_000, 4.0)
    tracemalloc.start()
    try:
        estimate_frequencies(mechanism, np.full(5_000, 2), 10_000)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_hadamard_response_is_unbiased_with_the_stated_covariance() -> None:
    mechanism, users, runs = hadamard_response(4, 1.5), 500, 4000
    rng = np.random.default_rng(10)
    found = [
        estimate_from_reports(mechanism, rng.multinomial(users, mechanism.matrix() @ LAW))
        for _ in range(runs)
    ]
    estimates = np.array([frequencies for frequencies, _ in found])
    covariance = np.mean([covariance for _, covariance in found], axis=0)
    assert np.abs(estimates.mean(axis=0) - LAW).max() < 4 * np.sqrt(covariance.max() / runs)
    assert np.cov(estimates.T) == pytest.approx(covariance, abs=0.1 * covariance.max())


def test_any_faithful_matrix_gives_unbiased_frequencies() -> None:
    matrix = StochasticMatrix(np.array(REFERENCE["matrices"]["four by three"]))
    decoder = decoding_matrix(matrix)
    assert decoder @ matrix.matrix() == pytest.approx(np.eye(3))
    assert decoder.sum(axis=0) == pytest.approx(np.ones(4))
    law, rng, users = np.array([0.2, 0.5, 0.3]), np.random.default_rng(10), 400
    runs = rng.multinomial(users, matrix.matrix() @ law, size=4000)
    found = [estimate_from_reports(matrix, counts) for counts in runs]
    estimates = np.array([frequencies for frequencies, _ in found])
    assert estimates.sum(axis=1) == pytest.approx(np.ones(4000))
    assert estimates.mean(axis=0) == pytest.approx(law, abs=0.01)
    stated = np.mean([covariance for _, covariance in found], axis=0)
    assert np.cov(estimates.T) == pytest.approx(stated, rel=0.15, abs=2e-4)


def test_the_two_estimates_of_randomised_response_agree() -> None:
    mechanism, counts = RandomisedResponse(4, 1.5), np.array([40, 30, 20, 10])
    by_support = estimate_frequencies(mechanism, counts, 100)
    assert by_support == pytest.approx(estimate_from_reports(mechanism, counts)[0])


@pytest.mark.long
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_frequency_limits_hold_together_as_often_as_promised(mechanism: PureMechanism) -> None:
    rng, users, delta, missed = np.random.default_rng(11), 300, 0.1, 0
    for _ in range(1500):
        counts = drawn_counts(mechanism, LAW, users, rng)
        low, high = frequency_limits(mechanism, counts, users, delta=delta)
        missed += bool(np.any((low > LAW) | (high < LAW)))
    assert 0.01 * 1500 < missed < 0.1 * 1500


@pytest.mark.parametrize("row", REFERENCE["posterior"], ids=str)
def test_posterior_has_the_reference_figures(row: dict[str, Any]) -> None:
    mechanism = (
        RandomisedResponse(3, row["epsilon"])
        if row["mechanism"] == "grr"
        else StochasticMatrix(np.array(REFERENCE["matrices"]["square"]))
    )
    prior, at = DirichletPrior.jeffreys(3), row["at"]
    posterior = exact_posterior(mechanism, prior, row["report_counts"])
    match row["quantity"]:
        case "mean":
            found = float(posterior.mean[at])
        case "density":
            found = posterior.density(at)
        case "evidence":
            found = math.exp(posterior.log_evidence)
        case _:
            users = sum(row["report_counts"])
            scale = (2 + math.exp(row["epsilon"])) ** users * math.gamma(0.5) ** 3 / math.gamma(1.5)
            found = math.exp(posterior.log_evidence) * scale
    assert found == pytest.approx(row["value"], abs=row["tolerance"])


def test_sampled_posterior_agrees_with_the_exact_one() -> None:
    mechanism, prior = RandomisedResponse(3, 2.0), DirichletPrior((0.5, 1.0, 0.5))
    counts = [20, 8, 3]
    exact = exact_posterior(mechanism, prior, counts)
    rng = np.random.default_rng(12)
    drawn = sample_posterior(mechanism, prior, counts, draws=4000, rng=rng)
    assert drawn.sum(axis=1) == pytest.approx(np.ones(4000))
    assert drawn.mean(axis=0) == pytest.approx(exact.mean, abs=0.015)
    for at in (0.5, 0.7):
        share = float(np.mean(drawn[:, 0] <= at))
        own, total = 0.5 + exact.tallies[:, 0], prior.total + sum(counts)
        below = exact.weights @ betainc(own, total - own, at)
        assert share == pytest.approx(below, abs=0.04)


def test_the_posterior_of_a_rare_report_is_finite_and_an_impossible_one_refused() -> None:
    matrix = StochasticMatrix(np.array([[1.0, 0.5], [0.0, 0.5], [0.0, 0.0]]))
    prior = DirichletPrior.jeffreys(2)
    assert exact_posterior(matrix, prior, [5, 1, 0]).mean.sum() == pytest.approx(1)
    with pytest.raises(PolicyError, match="report_counts"):
        exact_posterior(matrix, prior, [1, 0, 1])
    with pytest.raises(UndecidableError, match="sample"):
        exact_posterior(RandomisedResponse(8, 1.0), DirichletPrior.jeffreys(8), [1000] * 8)


def test_exposure_limits_of_a_known_law_are_its_exposure() -> None:
    law = np.array([0.9, 0.06, 0.03, 0.01])
    lower, upper = randomised_limits(law, law, k=5, population=200)
    exact = statistical_exposure(law, k=5, population=200)
    assert lower <= exact <= upper
    assert upper - lower < 1e-6


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_exposure_limits_hold_for_every_law_within(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 6))
    cells = st.floats(0.001, 1)
    law = np.array(data.draw(st.lists(cells, min_size=size, max_size=size)))
    law /= law.sum()
    slack = np.array(data.draw(st.lists(st.floats(0, 0.2), min_size=size, max_size=size)))
    k, population = data.draw(st.sampled_from([(2, 50), (10, 300), (40, 300)]))
    low, high = np.maximum(law - slack, 0), np.minimum(law + slack, 1)
    lower, upper = randomised_limits(low, high, k=k, population=population)
    exact = statistical_exposure(law, k=k, population=population)
    assert lower <= exact <= upper
    wider = randomised_limits(low / 2, np.minimum(high * 2, 1), k=k, population=population)
    assert wider[0] <= lower + 1e-6
    assert wider[1] >= upper - 1e-6


def test_exposure_limits_are_nearly_those_of_the_best_law() -> None:
    """Against a linear programme over a grid, on boxes where the bound has a gap to show."""
    low, high = np.array([0.3, 0.0, 0.0, 0.0]), np.array([0.95, 0.2, 0.2, 0.2])
    k, population = 10, 200
    grid = np.linspace(0, 1, 401)
    masses = np.array([p * float(_exposed(p, k, population)) for p in grid])
    columns = [(v, i) for v in range(4) for i, p in enumerate(grid) if low[v] <= p <= high[v]]
    equal = np.zeros((5, len(columns)))
    for number, (v, i) in enumerate(columns):
        equal[v, number], equal[4, number] = 1, grid[i]
    best = linprog(
        [-masses[i] for _, i in columns], A_eq=equal, b_eq=[1, 1, 1, 1, 1], bounds=(0, 1)
    )
    _, upper = randomised_limits(low, high, k=k, population=population)
    assert -best.fun <= upper <= -best.fun * 1.05 + 1e-3


def _exposed(p: float, k: int, population: int) -> float:
    return sum(
        math.comb(population - 1, j) * p**j * (1 - p) ** (population - 1 - j) for j in range(k - 1)
    )


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_exposure_limits_from_reports_hold_as_often_as_promised(mechanism: PureMechanism) -> None:
    law, rng, users = np.array([0.7, 0.2, 0.08, 0.02]), np.random.default_rng(13), 2000
    exact = statistical_exposure(law, k=20, population=400)
    missed, widths = 0, []
    for _ in range(60):
        counts = drawn_counts(mechanism, law, users, rng)
        reports = ApiReports(mechanism=mechanism, support_counts=counts, users=users)
        lower, upper = randomised_limits(*reports.limits(0.1), k=20, population=400)
        missed += not lower <= exact <= upper
        widths.append(upper - lower)
    assert missed <= 12  # binomial(60, 0.1) exceeds it once in 100
    assert np.mean(widths) < 0.15  # the limits say something


@pytest.mark.long
def test_comparison_meets_its_terms() -> None:
    by_privacy = compare_at_equal_terms(4, 1000, privacy=0.8)
    assert [row.average_privacy for row in by_privacy] == pytest.approx([0.8] * 5, abs=1e-6)
    by_utility = compare_at_equal_terms(3, 1000, utility=0.05)
    assert [row.participation for row in by_utility] == pytest.approx([0.05] * 5, abs=1e-6)
    assert by_utility[0].equivalent_users == pytest.approx(50, rel=1e-4)
    by_level = compare_at_equal_terms(4, 1000, epsilon=1.0)
    assert [row.worst_case_privacy for row in by_level] == pytest.approx([math.exp(-1)] * 5)
    assert [row.hash_range for row in by_level] == [None] * 4 + [4]  # round(e) + 1
    # Optimised local hashing costs what OUE costs (Wang et al. 2017, table 1).
    errors = {
        row.mechanism: row.frequency_error or 0
        for row in compare_at_equal_terms(500, 1000, epsilon=4.0)
    }
    assert errors["lh"] == pytest.approx(errors["oue"], rel=0.02)
    # OUE leaves at least half of the entropy whatever its epsilon.
    low = {row.mechanism: row.epsilon for row in compare_at_equal_terms(4, 1000, privacy=0.3)}
    assert low["oue"] is None
    assert low["grr"] is not None
    with pytest.raises(PolicyError) as caught:
        compare_at_equal_terms(4, 1000, epsilon=1.0, privacy=0.5)
    assert caught.value.argument == "epsilon"
    for terms in ({"privacy": 1.5}, {"utility": 0.0}, {"epsilon": -1.0}):
        with pytest.raises(PolicyError) as caught:
            compare_at_equal_terms(4, 1000, **terms)
        assert caught.value.argument in terms


def test_a_plan_reaches_its_accuracy_in_simulation() -> None:
    spectrum = CountSpectrum.from_counts([6000, 2500, 1000, 300, 150, 50])
    users, k, population, accuracy = 40_000, 50, 2000, 0.01
    plan = plan_api(
        "Screen.height",
        spectrum,
        users=users,
        k=k,
        population=population,
        accuracy=accuracy,
        delta=0.05,
    )
    assert plan.mechanism is not None
    assert plan.epsilon is not None
    assert plan.accuracy is not None
    assert plan.accuracy <= accuracy
    protocols = {**PROTOCOLS, "lh": LocalHash}
    mechanism = protocols[plan.mechanism](plan.values, plan.epsilon)
    law = np.repeat(spectrum.counts, spectrum.values) / spectrum.users
    rng = np.random.default_rng(15)
    widths = []
    for _ in range(10):
        counts = drawn_counts(mechanism, law, users, rng)
        reports = ApiReports(mechanism=mechanism, support_counts=counts, users=users)
        lower, upper = randomised_limits(*reports.limits(0.05), k=k, population=population)
        widths.append((upper - lower) / 2)
    assert np.mean(widths) < 1.3 * accuracy
    looser = plan_api(
        "x", spectrum, users=users, k=k, population=population, accuracy=0.02, delta=0.05
    )
    assert looser.epsilon is not None
    assert looser.average_privacy is not None
    assert plan.average_privacy is not None
    assert looser.average_privacy >= plan.average_privacy


def test_a_plan_says_when_nothing_reaches_the_accuracy() -> None:
    spectrum = CountSpectrum.from_counts([5] * 300)
    plan = plan_api("x", spectrum, users=100, k=10, population=1000, accuracy=0.01, delta=0.05)
    assert plan.mechanism is None
    assert plan.epsilon is None


@pytest.mark.parametrize(
    ("argument", "support_counts", "users"),
    [
        ("support_counts", [1, 2, 3], 10),
        ("support_counts", [1, 2, 3, 11], 10),
        ("support_counts", [1, 2, 3, -1], 10),
        ("support_counts", [0.5, 2, 3, 1], 10),
        ("users", [0, 0, 0, 0], 0),
    ],
)
def test_wrong_counts_are_named(argument: str, support_counts: list[int], users: int) -> None:
    for estimate in (
        lambda: estimate_frequencies(MECHANISMS[0], support_counts, users),
        lambda: frequency_limits(MECHANISMS[0], support_counts, users, delta=0.1),
    ):
        with pytest.raises(PolicyError) as caught:
            estimate()
        assert caught.value.argument == argument


def test_a_mechanism_that_is_not_faithful_gives_no_frequencies() -> None:
    merged = StochasticMatrix(np.array([[0.7, 0.7, 0.2], [0.3, 0.3, 0.8]]))
    with pytest.raises(PolicyError, match="mechanism"):
        estimate_from_reports(merged, [3, 4])
