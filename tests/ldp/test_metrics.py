"""Metrics of local differential privacy: reference figures, brute force, and inequalities."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

from fpmonitor.errors import PolicyError, UndecidableError
from fpmonitor.ldp import finite, finite_sums
from fpmonitor.ldp import sampled as sampled_information
from fpmonitor.ldp.finite import reports_information
from fpmonitor.ldp.fisher import (
    expected_log_determinant,
    information_of_bits,
    is_faithful,
    merged_matrix,
)
from fpmonitor.ldp.mechanisms import (
    LocalHash,
    RandomisedResponse,
    StochasticMatrix,
    UnaryEncoding,
    basic_rappor,
    compose,
    mixture,
    optimised_unary_encoding,
    product,
)
from fpmonitor.ldp.metrics import (
    asymptotic_utility,
    average_privacy,
    participation,
    participation_bound,
    prior_free_participation_bound,
    report_information,
    worst_case_privacy,
)
from fpmonitor.ldp.optimal import optimal_matrix
from fpmonitor.ldp.planner import PROTOCOLS
from fpmonitor.ldp.point_priors import (
    PointPrior,
    average_privacy_of_points,
    point_utilities,
)
from fpmonitor.ldp.priors import DirichletPrior, prior_of, truthful_utility_floor

if TYPE_CHECKING:
    from fpmonitor.ldp.mechanisms import Mechanism

PATH = Path(__file__).parents[2] / "fixtures" / "reference" / "ldp.json"
REFERENCE: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
PAPERS: dict[str, Any] = json.loads(PATH.with_name("papers.json").read_text(encoding="utf-8"))
MATRICES = {name: StochasticMatrix(np.array(m)) for name, m in REFERENCE["matrices"].items()}
MATRICES["truth"] = StochasticMatrix(np.eye(3))


def generator() -> np.random.Generator:
    return np.random.default_rng(20)


def utility(mechanism: Mechanism, prior: DirichletPrior) -> float:
    return asymptotic_utility(mechanism, prior, rng=generator()).value


def quantity(name: str, mechanism: Mechanism, prior: DirichletPrior) -> float:
    match name:
        case "ldp_level":
            return mechanism.ldp_level
        case "average_privacy":
            return average_privacy(mechanism, prior)
        case "asymptotic_utility":
            return utility(mechanism, prior)
        case "participation":
            found = asymptotic_utility(mechanism, prior, rng=generator())
            return participation(found, prior).value
    raise AssertionError(name)


def mechanism_named(name: str, values: int, epsilon: float | None) -> Mechanism:
    if name in MATRICES:
        return MATRICES[name]
    assert epsilon is not None
    return PROTOCOLS[name](values, epsilon)


@pytest.mark.parametrize("name", ["grr", "rappor", "oue", "blh"])
def test_protocols_have_the_reference_metrics(name: str) -> None:
    rows = [row for row in REFERENCE["protocols"] if row["protocol"] == name]
    assert len(rows) > 20
    for row in rows:
        mechanism = PROTOCOLS[name](row["values"], row["epsilon"])
        found = quantity(row["quantity"], mechanism, prior_of(row["prior"], row["values"]))
        assert found == pytest.approx(row["value"], abs=row["tolerance"], rel=0), row


def test_priors_have_the_reference_entropies() -> None:
    for row in REFERENCE["priors"]:
        given_prior = row["prior"]
        prior = (
            DirichletPrior.jeffreys(given_prior)
            if isinstance(given_prior, int)
            else DirichletPrior(tuple(given_prior))
        )
        found = getattr(prior, row["quantity"])
        assert found == pytest.approx(row["value"], abs=row["tolerance"], rel=0)


@pytest.mark.parametrize("row", REFERENCE["matrix_metrics"], ids=str)
def test_matrices_have_the_reference_metrics(row: dict[str, Any]) -> None:
    mechanism = MATRICES[row["matrix"]]
    found = quantity(row["quantity"], mechanism, prior_of(row["prior"], mechanism.values))
    assert found == pytest.approx(row["value"], abs=row["tolerance"], rel=0)


@pytest.mark.parametrize("row", REFERENCE["local_hash"], ids=str)
def test_local_hashing_has_the_reference_metrics(row: dict[str, Any]) -> None:
    mechanism = LocalHash(row["values"], row["epsilon"], row["hash_range"])
    found = quantity(row["quantity"], mechanism, DirichletPrior.jeffreys(row["values"]))
    assert found == pytest.approx(row["value"], abs=row["tolerance"], rel=0)


def test_composition_has_the_reference_metrics() -> None:
    both = compose(RandomisedResponse(3, 2.0), RandomisedResponse(3, 1.5))
    for row in REFERENCE["randomised_response_1.5_after_2_on_3_values"]:
        found = quantity(row["quantity"], both, DirichletPrior.jeffreys(3))
        assert found == pytest.approx(row["value"], abs=row["tolerance"], rel=0)


def test_limits_of_large_epsilon_have_the_reference_metrics() -> None:
    for row in REFERENCE["limits"]:
        mechanism = UnaryEncoding(row["values"], row["true_support"], row["false_support"])
        assert math.isinf(mechanism.ldp_level)
        found = quantity(row["quantity"], mechanism, DirichletPrior.jeffreys(row["values"]))
        assert found == pytest.approx(row["value"], abs=row["tolerance"], rel=0)


def test_average_privacy_by_number_of_values_has_the_reference_figures() -> None:
    for row in REFERENCE["average_privacy_at_epsilon_2"]:
        prior = DirichletPrior.jeffreys(row["values"])
        for name, protocol in PROTOCOLS.items():
            mechanism = protocol(row["values"], 2.0)
            assert average_privacy(mechanism, prior) == pytest.approx(row[name], abs=1e-9)
            assert worst_case_privacy(mechanism) == pytest.approx(row["worst_case"], abs=1e-12)


def test_a_posterior_that_is_nearly_certain_approaches_the_worst_case() -> None:
    for row in REFERENCE["worst_case_ratio_of_randomised_response_2_on_3_values"]:
        log_rare = row["log10_rare_probability"] * math.log(10)
        rare = math.exp(log_rare)
        shrunk = rare * math.exp(-2) / (1 - rare + rare * math.exp(-2))
        if rare == 0:  # -p log p and -log(1 - p) to the first order
            found = math.exp(-2) * (1 + 2 - log_rare) / (1 - log_rare)
        else:
            found = binary_entropy(shrunk) / binary_entropy(rare)
        assert found == pytest.approx(row["value"], abs=row["tolerance"])
        assert found > worst_case_privacy(RandomisedResponse(3, 2.0))


def binary_entropy(p: float) -> float:
    return -p * math.log(p) - (1 - p) * math.log1p(-p)


def test_metrics_of_few_users_have_the_reference_figures() -> None:
    for row in REFERENCE["users"]:
        mechanism = mechanism_named(row["mechanism"], row["values"], row["epsilon"])
        prior, users, nats = prior_of(row["prior"], row["values"]), row["users"], row["nats"]
        found = reports_information(mechanism, prior, users, rng=generator())
        given_law = users * report_information(mechanism, prior)
        expected = {
            "reports_and_law": found.of_distribution,
            "reports_and_tally": found.of_tally,
            "reports_and_tally_given_law": found.of_tally - found.of_distribution,
            "reports_and_values_given_law": given_law,
            "reports_and_values": found.of_distribution + given_law,
            "reports_and_values_given_tally": found.of_distribution + given_law - found.of_tally,
            "values": prior.values_entropy(users),
            "tally": prior.tally_entropy(users),
            "values_given_tally": prior.values_entropy(users) - prior.tally_entropy(users),
            "values_given_law": users * prior.value_entropy_given_distribution,
            "values_and_law": prior.distribution_information(users),
            "tally_given_law": prior.tally_entropy(users) - prior.distribution_information(users),
            "law": prior.distribution_entropy,
            "distribution_utility": found.distribution_utility(prior),
            "tally_utility": found.tally_utility(prior),
            "digit_utility": found.digit_utility(prior),
            "average_privacy": average_privacy(mechanism, prior),
        }
        assert set(expected) == set(nats)
        assert found.exact
        for name, value in expected.items():
            assert value == pytest.approx(nats[name], abs=row["tolerance"]), name


def log_moment(prior: DirichletPrior, tally: np.ndarray[Any, Any]) -> float:
    alpha = prior.parameters
    rising = gammaln(alpha + tally) - gammaln(alpha)
    return float(rising.sum() - gammaln(prior.total + tally.sum()) + gammaln(prior.total))


@pytest.mark.parametrize("users", [1, 2, 3])
def test_information_on_the_law_is_that_of_all_sequences_of_values_and_reports(users: int) -> None:
    mechanism, prior = MATRICES["four by three"], DirichletPrior((1.0, 2.0, 0.5))
    matrix = mechanism.matrix()
    entropy, joint = 0.0, {}
    for reports in itertools.product(range(4), repeat=users):
        chance = 0.0
        for values in itertools.product(range(3), repeat=users):
            tally = np.bincount(values, minlength=3)
            both = math.exp(log_moment(prior, tally)) * math.prod(
                matrix[y, x] for y, x in zip(reports, values, strict=True)
            )
            chance += both
            key = (reports, tuple(tally))
            joint[key] = joint.get(key, 0.0) + both
        entropy -= chance * math.log(chance)
    laws = prior.sample(400_000, generator())
    chances = laws @ matrix.T
    logs = np.where(chances > 0, chances * np.log(np.maximum(chances, 1e-300)), 0).sum(axis=1)
    found = reports_information(mechanism, prior, users, rng=generator())
    noise = 5 * users * float(logs.std()) / math.sqrt(len(logs))
    assert found.of_distribution == pytest.approx(entropy + users * float(logs.mean()), abs=noise)
    of_reports: dict[Any, float] = {}
    of_tallies: dict[Any, float] = {}
    for (reports, tally), chance in joint.items():
        of_reports[reports] = of_reports.get(reports, 0) + chance
        of_tallies[tally] = of_tallies.get(tally, 0) + chance
    of_tally = sum(
        chance * math.log(chance / of_reports[reports] / of_tallies[tally])
        for (reports, tally), chance in joint.items()
        if chance > 0
    )
    assert found.of_tally == pytest.approx(of_tally, abs=1e-12)


def test_average_privacy_agrees_with_simulation() -> None:
    row = REFERENCE["monte_carlo"]
    mechanism, prior = MATRICES[row["matrix"]], DirichletPrior.jeffreys(3)
    assert average_privacy(mechanism, prior) == pytest.approx(
        row["average_privacy"], abs=row["tolerance"]
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("mechanism", "users"),
    [(RandomisedResponse(3, 1.0), 40), (RandomisedResponse(2, 2.0), 120)],
)
def test_sampled_information_agrees_with_the_exact_one(
    mechanism: Mechanism, users: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    prior = DirichletPrior.jeffreys(mechanism.values)
    exact = reports_information(mechanism, prior, users, rng=generator())
    assert exact.exact
    matrix = merged_matrix(mechanism)
    monkeypatch.setattr(sampled_information, "exact_information", lambda *_: None)
    sampled = finite._by_sampling(mechanism, matrix, prior, users, generator())
    assert not sampled.exact
    assert abs(sampled.of_distribution - exact.of_distribution) < 4 * sampled.standard_error
    assert sampled.standard_error < 0.15
    beyond = exact.of_tally - exact.of_distribution
    assert sampled.of_tally - sampled.of_distribution == pytest.approx(beyond, abs=0.03)


@pytest.mark.long
def test_digit_utility_approaches_its_limit_for_a_smooth_prior() -> None:
    prior, mechanism = DirichletPrior((2.0, 2.0)), RandomisedResponse(2, 2.0)
    limit = utility(mechanism, prior)
    gaps = []
    for users in (50, 200, 500):
        found = reports_information(mechanism, prior, users, rng=generator())
        gaps.append(found.digit_utility(prior) - math.log(users) / 2 - limit)
    assert abs(gaps[2]) < abs(gaps[1]) < abs(gaps[0])
    assert abs(gaps[2]) < 0.02


def test_information_of_bits_is_that_of_all_bit_strings() -> None:
    laws = DirichletPrior.jeffreys(5).sample(6, generator())
    for mechanism in (basic_rappor(5, 2.0), LocalHash(5, 3.0, 4), UnaryEncoding(5, 1.0, 0.3)):
        bits = mechanism.independent_bits
        assert bits is not None
        matrix = merged_matrix(mechanism)
        for law, found in zip(laws, information_of_bits(*bits, laws), strict=True):
            expected = (matrix / (matrix @ law)[:, None]).T @ matrix
            assert found == pytest.approx(expected, rel=1e-8)


def test_quasi_monte_carlo_states_its_error() -> None:
    prior, mechanism = DirichletPrior.jeffreys(6), RandomisedResponse(6, 1.0)
    exact = expected_log_determinant(mechanism, prior, rng=generator()).value
    doubled = StochasticMatrix(np.vstack([0.4 * mechanism.matrix(), 0.6 * mechanism.matrix()]))
    exact_again = expected_log_determinant(doubled, prior, rng=generator())
    assert exact_again.standard_error > 0
    assert abs(exact_again.value - exact) < 5 * exact_again.standard_error + 1e-3


def test_a_remark_of_the_paper_a_mixture_may_tell_more_than_both_parts() -> None:
    first = StochasticMatrix(np.array([[3, 0, 0], [0, 2, 1], [0, 1, 2]]) / 3)
    second = StochasticMatrix(first.matrix()[::-1, ::-1])
    prior = DirichletPrior((1.0, 1.0, 1.0))
    both = mixture([first, second], [1, 1])
    assert average_privacy(both, prior) == pytest.approx(average_privacy(first, prior))
    # As printed in Remark 7.9.
    assert utility(first, prior) == pytest.approx(-0.98709, abs=5e-6)
    assert utility(second, prior) == pytest.approx(-0.98709, abs=5e-6)
    assert utility(both, prior) == pytest.approx(-0.69123, abs=5e-6)


def random_matrix(data: st.DataObject, reports: int, values: int) -> StochasticMatrix:
    cell = st.floats(0.02, 1)
    cells = data.draw(st.lists(cell, min_size=reports * values, max_size=reports * values))
    matrix = np.array(cells).reshape(reports, values)
    return StochasticMatrix(matrix / matrix.sum(axis=0))


def random_prior(data: st.DataObject, values: int) -> DirichletPrior:
    parameter = st.floats(0.2, 4)
    return DirichletPrior(tuple(data.draw(st.lists(parameter, min_size=values, max_size=values))))


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_inequalities_of_metrics_hold(data: st.DataObject) -> None:
    values = data.draw(st.integers(2, 3))
    prior = random_prior(data, values)
    first, second = random_matrix(data, values, values), random_matrix(data, 3, values)
    after = random_matrix(data, 3, 3)
    privacy = [average_privacy(mechanism, prior) for mechanism in (first, second)]
    assert privacy[0] >= worst_case_privacy(first) - 1e-12
    processed = compose(second, after)
    assert average_privacy(processed, prior) >= privacy[1] - 1e-12
    assert processed.ldp_level <= second.ldp_level + 1e-12
    both = product(first, second)
    assert average_privacy(both, prior) >= sum(privacy) - 1 - 1e-12
    assert average_privacy(both, prior) <= min(privacy) + 1e-12
    assert both.ldp_level <= first.ldp_level + second.ldp_level + 1e-12
    mixed = mixture([first, second], [0.3, 0.7])
    assert average_privacy(mixed, prior) == pytest.approx(0.3 * privacy[0] + 0.7 * privacy[1])
    assert mixed.ldp_level == pytest.approx(max(first.ldp_level, second.ldp_level))


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_participation_is_bounded_by_the_ldp_level(data: st.DataObject) -> None:
    values = data.draw(st.integers(2, 3))
    prior, mechanism = random_prior(data, values), random_matrix(data, values, values)
    if np.linalg.cond(mechanism.matrix()) > 1e6:
        return
    found = asymptotic_utility(mechanism, prior, rng=generator())
    share = participation(found, prior).value
    assert found.value <= prior.truthful_utility + 1e-9
    half_log = math.log(2 * math.pi * math.e) / 2
    floor = values * math.log(values) / (2 * values - 2) - half_log
    assert prior.truthful_utility >= floor
    # Theorem 8.1, and with the floor a bound for every prior, which the paper says does not exist.
    excess = math.expm1(mechanism.ldp_level) ** 2 if mechanism.ldp_level < 300 else math.inf
    assert share <= excess * math.exp(-2 * (half_log + prior.truthful_utility)) + 1e-12
    common = float(mechanism.matrix().min(axis=1).sum())
    assert share <= excess * math.exp(-2 * (half_log + floor)) * common + 1e-12


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_privacy_falls_and_utility_grows_with_epsilon(name: str) -> None:
    prior = DirichletPrior.jeffreys(3)
    mechanisms = [PROTOCOLS[name](3, epsilon) for epsilon in (0.2, 0.7, 1.5, 3, 6)]
    privacy = [average_privacy(mechanism, prior) for mechanism in mechanisms]
    utilities = [utility(mechanism, prior) for mechanism in mechanisms]
    assert privacy == sorted(privacy, reverse=True)
    assert utilities == sorted(utilities)


def test_which_protocol_tells_most_at_equal_average_privacy() -> None:
    """At three values: randomised response near full privacy, then OUE, then RAPPOR."""
    prior = DirichletPrior.jeffreys(3)

    def best(privacy: float) -> str:
        found = {}
        for name, protocol in PROTOCOLS.items():
            grid = np.geomspace(0.05, 14, 60)
            reached = [average_privacy(protocol(3, float(e)), prior) for e in grid]
            if reached[-1] > privacy:
                continue
            epsilon = float(np.interp(-privacy, -np.array(reached), grid))
            found[name] = utility(protocol(3, epsilon), prior)
        return max(found, key=lambda name: found[name])

    assert [best(privacy) for privacy in (0.95, 0.75, 0.3)] == ["grr", "oue", "rappor"]


def test_hashing_into_two_is_unary_encoding_with_its_parameters() -> None:
    prior = DirichletPrior((0.5, 1.0, 2.0, 0.3))
    hashed, encoded = LocalHash(4, 1.3, 2), PROTOCOLS["blh"](4, 1.3)
    matrix = StochasticMatrix(hashed.matrix())
    for mechanism in (encoded, matrix, StochasticMatrix(encoded.matrix())):
        expected = average_privacy(hashed, prior)
        assert average_privacy(mechanism, prior) == pytest.approx(expected, abs=1e-12)
        assert utility(mechanism, prior) == pytest.approx(utility(hashed, prior), abs=1e-9)
        assert mechanism.ldp_level == pytest.approx(1.3)


@pytest.mark.parametrize(
    "mechanism",
    [RandomisedResponse(4, 1.5), optimised_unary_encoding(4, 1.5), LocalHash(4, 1.0, 3)],
    ids=str,
)
def test_the_structured_route_is_that_of_the_matrix(mechanism: Mechanism) -> None:
    prior = DirichletPrior((0.5, 1.0, 0.5, 2.0))
    matrix = StochasticMatrix(mechanism.matrix())
    assert matrix.ldp_level == pytest.approx(mechanism.ldp_level)
    assert average_privacy(matrix, prior) == pytest.approx(average_privacy(mechanism, prior))
    assert utility(matrix, prior) == pytest.approx(utility(mechanism, prior), abs=1e-9)


@pytest.mark.long
def test_mechanisms_that_are_not_faithful_tell_nothing_in_the_limit() -> None:
    merged = StochasticMatrix(np.array([[0.7, 0.7, 0.2], [0.3, 0.3, 0.8]]))
    prior = DirichletPrior.jeffreys(3)
    assert not is_faithful(merged)
    found = asymptotic_utility(merged, prior, rng=generator())
    assert found.value == -math.inf
    assert participation(found, prior).value == 0
    assert 0 < average_privacy(merged, prior) < 1
    assert reports_information(merged, prior, 5, rng=generator()).of_distribution > 0
    told = reports_information(merged, prior, 10_000, rng=generator())
    two = StochasticMatrix(np.array([[0.7, 0.2], [0.3, 0.8]]))
    of_classes = reports_information(two, DirichletPrior((1.0, 0.5)), 10_000, rng=generator())
    same = pytest.approx(of_classes.of_distribution)
    assert told.of_distribution == same, "values that no report tells apart count as one"
    assert 0 < told.tally_utility(prior) < 1


def test_metrics_name_the_argument_that_is_wrong() -> None:
    mechanism = RandomisedResponse(3, 1.0)
    for prior in (DirichletPrior.jeffreys(2), DirichletPrior.jeffreys(4)):
        for metric in (average_privacy, utility):
            with pytest.raises(PolicyError) as caught:
                metric(mechanism, prior)
            assert caught.value.argument == "prior"
    for users in (0, -1, 10**9):
        with pytest.raises(PolicyError) as caught:
            reports_information(mechanism, DirichletPrior.jeffreys(3), users, rng=generator())
        assert caught.value.argument == "users"
    with pytest.raises(UndecidableError, match="users"):
        reports_information(
            basic_rappor(40, 1.0), DirichletPrior.jeffreys(40), 100, rng=generator()
        )


@pytest.mark.parametrize("alpha", [(), (1.0,), (1.0, 0.0), (1.0, math.nan), (1.0, math.inf)])
def test_a_prior_must_be_one(alpha: tuple[float, ...]) -> None:
    with pytest.raises(PolicyError) as caught:
        DirichletPrior(alpha)
    assert caught.value.argument == "prior"


def test_a_prior_at_the_corners_is_refused_rather_than_computed_wrongly() -> None:
    with pytest.raises(PolicyError, match="prior"):
        utility(RandomisedResponse(2, 1.0), DirichletPrior((1e-3, 1e-3)))


@pytest.mark.parametrize(("values", "epsilon", "size"), [(4, 2.0, 1), (6, 0.5, 2), (8, 0.5, 3)])
def test_no_matrix_of_a_level_tells_more_than_the_best(
    values: int, epsilon: float, size: int
) -> None:
    """Protocols, and random matrices of the level; section 11 leaves the optimum open."""
    prior, rng = DirichletPrior.jeffreys(values), np.random.default_rng(2)
    best, weights = optimal_matrix(prior, epsilon, rng=generator())
    assert np.argmax(weights) + 1 == size
    assert best.ldp_level == pytest.approx(epsilon)
    most = utility(best, prior)
    others: list[Mechanism] = [protocol(values, epsilon) for protocol in PROTOCOLS.values()]
    for _ in range(5):
        rows = np.exp(epsilon * rng.random((3 * values, values)))
        sizes = scipy.optimize.nnls(rows.T, np.ones(values))[0]
        if np.allclose(rows.T @ sizes, 1):
            others.append(StochasticMatrix(rows[sizes > 0] * sizes[sizes > 0, None]))
    assert len(others) > len(PROTOCOLS)
    assert all(utility(other, prior) <= most + 2e-3 for other in others)
    if size > 1:
        assert all(utility(other, prior) < most - 0.01 for other in others)
    with pytest.raises(PolicyError, match="values"):
        optimal_matrix(DirichletPrior((1.0,) * 6 + (2.0,)), epsilon, rng=rng)


def test_a_prior_that_favours_values_has_a_best_matrix_too() -> None:
    prior, rng = DirichletPrior((1.0, 2.0, 0.5)), np.random.default_rng(2)
    best, _ = optimal_matrix(prior, 1.0, rng=generator())
    assert best.ldp_level == pytest.approx(1.0)
    most = utility(best, prior)
    others: list[Mechanism] = [protocol(3, 1.0) for protocol in PROTOCOLS.values()]
    for _ in range(10):
        rows = np.exp(rng.random((9, 3)))
        sizes = scipy.optimize.nnls(rows.T, np.ones(3))[0]
        if np.allclose(rows.T @ sizes, 1):
            others.append(StochasticMatrix(rows[sizes > 0] * sizes[sizes > 0, None]))
    assert all(utility(other, prior) <= most + 2e-3 for other in others)


@pytest.mark.long
@pytest.mark.parametrize("alpha", [(0.5, 0.5, 0.5), (1.0, 2.0, 0.5)])
def test_the_best_matrix_at_an_average_privacy_tells_the_truth_to_some(
    alpha: tuple[float, ...],
) -> None:
    """Truth with probability 1 - S has the average privacy S and the participation 1 - S."""
    prior, privacy = DirichletPrior(alpha), 0.8
    best, _ = optimal_matrix(prior, privacy=privacy, rng=generator())
    assert average_privacy(best, prior) == pytest.approx(privacy, abs=1e-3)
    found = participation(asymptotic_utility(best, prior, rng=generator()), prior).value
    nothing = np.full((1, 3), privacy)
    some = StochasticMatrix(np.vstack([(1 - privacy) * np.eye(3), nothing]))
    assert average_privacy(some, prior) == pytest.approx(privacy)
    truth = participation(asymptotic_utility(some, prior, rng=generator()), prior).value
    assert truth == pytest.approx(1 - privacy)
    assert found > 0.97 * truth, "the largest level of the family is 12"
    with pytest.raises(PolicyError, match="epsilon"):
        optimal_matrix(prior, rng=generator())


# ---- Finite sums, priors of points, bounds of participation -------------------------------------


def exact_mechanism(figure: dict[str, Any]) -> Mechanism:
    if figure["mechanism"] == "grr":
        return RandomisedResponse(figure["values"], math.log(figure["ratio"]))
    return UnaryEncoding(figure["values"], figure["true_support"], figure["false_support"])


@pytest.mark.parametrize("figure", PAPERS["information"], ids=str)
def test_finite_sums_are_those_over_all_sequences_of_reports(figure: dict[str, Any]) -> None:
    mechanism, users = exact_mechanism(figure), figure["users"]
    prior = DirichletPrior(tuple(figure["alpha"]))
    found = reports_information(mechanism, prior, users, rng=generator())
    assert found.of_distribution == pytest.approx(figure["nats"], abs=1e-9)
    matrix = merged_matrix(mechanism)
    assert finite_sums._by_nodes(matrix, prior, users) == pytest.approx(figure["nats"], abs=1e-9)
    summed = finite_sums.exact_information(mechanism, matrix, prior, users)
    assert summed == pytest.approx(figure["nats"], abs=1e-9)
    bits = mechanism.independent_bits
    if bits is not None and len(set(prior.alpha)) == 1 and users <= 3:
        by_pattern = finite_sums._of_bits(*bits, prior, users)
        assert by_pattern == pytest.approx(figure["nats"], abs=1e-9)


@pytest.mark.parametrize(
    ("mechanism", "users"),
    [
        (RandomisedResponse(5, 1.0), 60),
        (RandomisedResponse(3, 2.0), 300),
        (optimised_unary_encoding(3, 1.0), 20),
        (basic_rappor(14, 2.0), 3),
    ],
    ids=str,
)
def test_sums_are_exact_where_enumeration_of_values_is_out_of_reach(
    mechanism: Mechanism, users: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    prior = DirichletPrior.jeffreys(mechanism.values)
    found = reports_information(mechanism, prior, users, rng=generator())
    assert found.standard_error == 0
    if mechanism.values < 14:
        monkeypatch.setattr(sampled_information, "exact_information", lambda *_: None)
        again = reports_information(mechanism, prior, users, rng=generator())
        assert abs(again.of_distribution - found.of_distribution) < 5 * again.standard_error


@pytest.mark.long
def test_bits_on_many_values_are_sampled() -> None:
    prior, mechanism = DirichletPrior((2.0,) * 14), basic_rappor(14, 3.0)
    found = reports_information(mechanism, prior, 1000, rng=generator())
    assert 0 < found.standard_error < 0.4
    assert found.of_distribution < found.of_tally
    limit = utility(mechanism, prior) + math.log(1000) / 2
    assert found.digit_utility(prior) == pytest.approx(limit, abs=0.15)


@pytest.mark.long
def test_a_matrix_that_is_not_faithful_is_told_of_for_many_users() -> None:
    """A value whose reports are those of the two others, mixed: no two columns are equal."""
    first, second = np.array([0.8, 0.1, 0.1]), np.array([0.1, 0.2, 0.7])
    mechanism = StochasticMatrix(np.column_stack([first, second, (first + second) / 2]))
    prior = DirichletPrior.jeffreys(3)
    assert not is_faithful(mechanism)
    exact = reports_information(mechanism, prior, 12, rng=generator())
    assert exact.exact
    many = reports_information(mechanism, prior, 3000, rng=generator())
    assert exact.of_distribution < many.of_distribution
    assert 0 < many.tally_utility(prior) < 1
    assert many.distribution_utility(prior) < 0.75, "the limit is 1/2"


@pytest.mark.parametrize("figure", PAPERS["points"], ids=str)
def test_priors_of_points_are_finite_sums(figure: dict[str, Any]) -> None:
    mechanism = exact_mechanism(figure)
    prior = PointPrior(np.array(figure["weights"]), np.array(figure["distributions"]))
    privacy = average_privacy_of_points(mechanism, prior)
    assert privacy == pytest.approx(figure["average_privacy"], abs=1e-12)
    found = point_utilities(mechanism, prior, figure["users"])
    assert found[0] == pytest.approx(figure["distribution_utility"], abs=1e-10)
    assert found[1] == pytest.approx(figure["tally_utility"], abs=1e-10)


@pytest.mark.parametrize(
    ("weights", "points"),
    [([1.0], [[0.5, 0.6]]), ([0.5, 0.6], [[0.5, 0.5]] * 2), ([1.0], [[1.5, -0.5]]), ([1.0], [[1]])],
)
def test_points_that_are_no_prior_are_refused(weights: list[float], points: Any) -> None:
    with pytest.raises(PolicyError, match="prior"):
        PointPrior(np.array(weights), np.array(points))


@pytest.mark.parametrize("name", ["grr", "rappor", "oue", "blh"])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_participation_is_within_its_bounds(name: str, epsilon: float) -> None:
    for prior in (DirichletPrior.jeffreys(4), DirichletPrior((2.0, 1.0, 0.5, 3.0))):
        mechanism = PROTOCOLS[name](4, epsilon)
        found = participation(asymptotic_utility(mechanism, prior, rng=generator()), prior).value
        bound = participation_bound(mechanism, prior)
        free = prior_free_participation_bound(mechanism)
        assert found <= bound + 1e-9
        assert found <= free + 1e-9
        assert prior.truthful_utility >= truthful_utility_floor(4)
        # (e^eps - 1)^2 / (2 pi e) e^(-2 C), and at the floor of C: a^(-a / (a - 1)).
        known = math.expm1(epsilon) ** 2 * math.exp(-2 * prior.truthful_utility)
        assert bound == pytest.approx(known / (2 * math.pi * math.e))
        assert free <= math.expm1(epsilon) ** 2 * 4 ** (-4 / 3) * (1 + 1e-12)
