"""Finitely many users: the tally from any matrix, and the matrix that tells most."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

from fpmonitor.errors import PolicyError
from fpmonitor.ldp.finite import reports_information
from fpmonitor.ldp.fisher import matrix_rank
from fpmonitor.ldp.mechanisms import RandomisedResponse, StochasticMatrix
from fpmonitor.ldp.metrics import average_privacy
from fpmonitor.ldp.optimal_users import best_for_users
from fpmonitor.ldp.priors import DirichletPrior
from fpmonitor.ldp.tallies import all_tallies, number_of_tallies, ranks
from fpmonitor.ldp.tally_law import entropy_of_sum

PATH = Path(__file__).parents[2] / "fixtures" / "reference" / "papers.json"
PAPERS: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))


def generator() -> np.random.Generator:
    return np.random.default_rng(7)


# ---- The tally ----------------------------------------------------------------------------------


@pytest.mark.parametrize("figure", PAPERS["tally"], ids=lambda figure: str(figure["users"]))
def test_the_tally_from_a_matrix_that_is_not_faithful(
    figure: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism = StochasticMatrix(
        np.array([[float(Fraction(cell)) for cell in row] for row in figure["matrix"]])
    )
    prior, users = DirichletPrior(tuple(figure["alpha"])), figure["users"]
    assert matrix_rank(mechanism) < mechanism.values
    monkeypatch.setattr("fpmonitor.ldp.finite.MAX_EXACT_CELLS", 0)
    found = reports_information(mechanism, prior, users, rng=generator())
    assert not found.exact
    assert 0 < found.tally_error < 0.003
    assert found.of_tally == pytest.approx(figure["of_tally"], abs=4 * found.tally_error)


@pytest.mark.parametrize("counts", [(5, 0, 3), (60, 20, 0), (0, 0, 300)])
def test_the_entropy_of_a_sum_of_multinomials_is_that_of_its_law(counts: tuple[int, ...]) -> None:
    """Users, one after the other; a window is smaller than the law for many."""
    chances = np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0], [0.05, 0.15, 0.8]])
    size = sum(counts) + 1
    law = np.zeros((size, size))
    law[0, 0] = 1.0
    for chance, count in zip(chances, counts, strict=True):
        for _ in range(count):
            before, law = law, law * chance[2]
            law[1:] += before[:-1] * chance[0]
            law[:, 1:] += before[:, :-1] * chance[1]
    expected = -float(scipy.special.xlogy(law, law).sum())
    assert entropy_of_sum(chances, np.array(counts)) == pytest.approx(expected, abs=1e-9)


# ---- The best matrix ----------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    "figure", PAPERS["best_at_users"], ids=lambda figure: f"{figure['matrices']} {figure['users']}"
)
def test_no_matrix_of_a_grid_tells_more_than_the_best_for_so_many_users(
    figure: dict[str, Any],
) -> None:
    prior, users = DirichletPrior.jeffreys(figure["values"]), figure["users"]
    best = best_for_users(prior, users, privacy=figure["privacy"], rng=generator())
    assert best is not None
    assert not best.proved
    assert average_privacy(best.matrix, prior) >= figure["privacy"] - 1e-9
    exact = reports_information(best.matrix, prior, users, rng=generator())
    assert exact.distribution_utility(prior) == pytest.approx(best.distribution_utility, abs=1e-9)
    assert figure["utility"] - 2e-6 <= best.distribution_utility < 1.03 * figure["utility"]


@pytest.mark.long
@pytest.mark.parametrize(("alpha", "users"), [((1.0, 2.0), 6), ((0.5, 1.0, 2.0), 3)])
def test_no_random_matrix_of_a_privacy_tells_more_for_any_prior(
    alpha: tuple[float, ...], users: int
) -> None:
    prior, rng, privacy = DirichletPrior(alpha), np.random.default_rng(3), 0.7
    best = best_for_users(prior, users, privacy=privacy, rng=generator())
    assert best is not None
    tried = 0
    for _ in range(60):
        matrix = rng.dirichlet(np.full(4, 0.4), size=prior.values).T
        made = StochasticMatrix(matrix)
        if average_privacy(made, prior) >= privacy:
            tried += 1
            told = reports_information(made, prior, users, rng=rng).distribution_utility(prior)
            assert told <= best.distribution_utility
    assert tried > 5


@pytest.mark.parametrize(("values", "users"), [(2, 1), (2, 40), (3, 5), (4, 2)])
def test_the_best_for_users_at_a_level_keeps_it(values: int, users: int) -> None:
    """A matrix of the level is a merger of sets; random ones tell less."""
    prior, epsilon, rng = DirichletPrior.jeffreys(values), 1.0, np.random.default_rng(5)
    best = best_for_users(prior, users, epsilon, rng=generator())
    assert best is not None
    assert best.proved == (values == 2)
    assert best.matrix.ldp_level <= epsilon + 1e-12
    response = RandomisedResponse(values, epsilon)
    told = reports_information(response, prior, users, rng=rng).distribution_utility(prior)
    assert told <= best.distribution_utility + 1e-9
    rows = np.exp(epsilon * np.array(list(itertools.product((0, 0.5, 1), repeat=values))[1:-1]))
    for _ in range(5):
        some = rows[rng.choice(len(rows), size=values, replace=False)]
        sizes = scipy.optimize.nnls(some.T, np.ones(values))[0]
        if np.allclose(some.T @ sizes, 1):
            other = StochasticMatrix(some[sizes > 0] * sizes[sizes > 0, None])
            told = reports_information(other, prior, users, rng=rng).distribution_utility(prior)
            assert told <= best.distribution_utility + 1e-9


def test_a_search_for_users_says_where_it_ends() -> None:
    prior = DirichletPrior.jeffreys(3)
    assert best_for_users(prior, 10_000, privacy=0.8, rng=generator()) is None
    assert best_for_users(DirichletPrior.jeffreys(6), 2, 1.0, rng=generator()) is None
    for asked in ({}, {"epsilon": 1.0, "privacy": 0.5}, {"privacy": 1.5}, {"epsilon": -1.0}):
        with pytest.raises(PolicyError):
            best_for_users(prior, 3, rng=generator(), **asked)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="users"):
        best_for_users(prior, 0, 1.0, rng=generator())


def test_reports_that_tell_nothing_tell_nothing_of_any_number_of_users() -> None:
    prior, same = DirichletPrior.jeffreys(2), StochasticMatrix(np.array([[0.3, 0.3], [0.7, 0.7]]))
    for users in (1, 40):
        found = reports_information(same, prior, users, rng=generator())
        assert (found.of_distribution, found.of_tally) == pytest.approx((0, 0), abs=1e-9)


@pytest.mark.parametrize(("items", "classes"), [(0, 3), (5, 1), (7, 3), (3, 60), (2, 200)])
def test_tallies_are_numbered_in_their_order(items: int, classes: int) -> None:
    """Of many classes the whole triangle of Pascal is beyond whole numbers of 64 bits."""
    tallies = all_tallies(items, classes)
    assert (tallies.sum(axis=1) == items).all()
    assert ranks(tallies).tolist() == list(range(number_of_tallies(items, classes)))
