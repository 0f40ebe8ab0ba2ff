"""Several designs in one test: the mean of the sum is at most 1 wherever it must be."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fpmonitor.estimate.averaging import proved_base
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.looks import decision_criteria, design_cells
from fpmonitor.estimate.mixture import design_menu, log_evidence
from fpmonitor.estimate.poisson import ExposureFunction
from fpmonitor.estimate.programme import growing_weights
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.estimate.exposure import Sign
    from fpmonitor.estimate.margins import Cells
    from fpmonitor.estimate.mixture import Mixture

MOST = 1000.0  # the mean of what is cut at it is at most 1, too, and can be estimated


def exposure_of(law: NDArray[np.float64], k: int, population: int) -> float:
    return float(law @ exposure_probability(law, k=k, population=population))


def border_law(group: float, k: int, population: int, budget: float) -> NDArray[np.float64]:
    """Values of a multiple of k/n whose users are just above the budget; all others are alike."""
    p = group * k / population
    exposed = float(exposure_probability(np.array([p]), k=k, population=population)[0])
    values = math.ceil(1.0001 * budget / exposed / p)
    return np.append(np.full(values, p), 1 - values * p)


def means(
    mixture: Mixture, law: NDArray[np.float64], runs: int, users: int, weights: Any = None
) -> tuple[float, float]:
    """Mean of the e-value on samples of a law, cut at `MOST`, and its standard error.

    With `weights` that of the largest of the e-values with these weights.
    """
    rng, offsets = np.random.default_rng(8), mixture.offsets()
    found = []
    for _ in range(runs):
        counts = rng.multinomial(users, law)
        counts = counts[counts > 0]
        sums = mixture.weights.take(counts, axis=1, mode="clip") @ counts.astype(float)
        nats = sums * mixture.scales + offsets - np.log(mixture.shares)
        found.append(
            float(log_evidence(sums, mixture.scales, offsets))
            if weights is None
            else float((nats + np.log(weights)).max())
        )
    cut = np.minimum(np.exp(np.minimum(found, 50.0)), MOST)
    return float(cut.mean()), float(cut.std() / math.sqrt(runs))


def menu_at_one_look(
    users: int, k: int, population: int, budget: float, sign: Sign, *, monotone: bool
) -> Mixture:
    cells = design_cells(0.97 * users, ExposureFunction(k, population), min(budget, 0.01))
    return design_menu(
        cells,
        sign=sign,
        budget=budget,
        log_term=3.0,
        share=cells.laws.mean / users,
        monotone=monotone,
    ).averaged(users=users)


@pytest.mark.long
@pytest.mark.parametrize("monotone", [True, False])
def test_the_sum_over_designs_is_an_e_value_and_the_best_of_them_is_none(monotone: bool) -> None:
    users, k, population, budget = 1_000, 5, 20_000, 0.05
    mixture = menu_at_one_look(users, k, population, budget, -1, monotone=monotone)
    assert mixture.shares.sum() <= 1 + 1e-12
    for group in (0.05, 0.5, 0.9):
        law = border_law(group, k, population, budget)
        mean, error = means(mixture, law, 3_000, users)
        assert mean <= 1 + 4 * error, group
    law = border_law(0.05, k, population, budget)
    ones = np.ones(mixture.shares.size)
    best, error = means(mixture, law, 6_000, users, ones)
    assert best > 1 - 2 * error, "a mean that this test could not see"
    three, error = means(mixture, law, 6_000, users, None)
    assert three < best / 2


@pytest.mark.parametrize(("k", "population"), [(5, 1_000), (5, 20_000), (100, 1_000)])
def test_blocking_is_an_e_value_within_the_budget(k: int, population: int) -> None:
    users, budget = 1_000, 0.05
    mixture = menu_at_one_look(users, k, population, budget, 1, monotone=False)
    for group in (0.05, 0.9):
        law = border_law(group, k, population, 0.98 * budget)
        assert exposure_of(law, k, population) <= budget or group > 0.5
        if exposure_of(law, k, population) <= budget:
            mean, error = means(mixture, law, 1_500, users)
            assert mean <= 1 + 4 * error


def designed_for(
    cells: Cells, law: NDArray[np.float64], budget: float, tested: Cells | None = None
) -> float:
    """Mean logarithm of the e-value that is made for a law, nats."""
    laws = cells.laws
    at = np.searchsorted(laws.means, law * laws.mean).clip(1, laws.means.size - 1)
    shares = np.zeros(laws.means.size)
    np.add.at(shares, at, law)
    weights = growing_weights(laws, shares, sign=-1, budget=budget, monotone=True)
    base = proved_base(tested or cells, weights, sign=-1, budget=budget, monotone=True)
    by_atom = (shares @ laws.rates) * laws.atoms
    return -float(laws.mean * (by_atom @ base.weights[laws.weight_of_atom])) - base.bound


def test_a_value_counts_for_the_budget_at_most() -> None:
    """Five tiers of 12 % and more, each of which must hold a tenth."""
    law = np.array([0.12, 0.15, 0.2, 0.23, 0.3])
    cells = design_cells(0.97 * 2_000, ExposureFunction(100_000, 1_000_000), 0.01)
    capped, plain = (designed_for(each, law, 0.05) for each in (cells.capped(0.05), cells))
    assert capped >= 2.9
    assert plain < 1.2


def test_tiers_are_told_apart_near_the_limits_of_a_textbook() -> None:
    law = np.array([394, 2751, 8570, 2477]) / 14_192
    cells = design_cells(0.97 * 14_192, ExposureFunction(1419, 14_192), 0.01)
    assert designed_for(cells, law, 0.036) >= 10  # 1.9 with weights that end at six deviations


def test_a_cap_below_the_budget_is_no_cap() -> None:
    """At a law of one value whose exposure is the budget the mean of the e-value is above 1."""
    users, k, population, budget = 1_000, 100, 1_000, 0.05
    function = ExposureFunction(k, population)
    p = np.linspace(0.05, 0.2, 20_000)
    exposed = p * exposure_probability(p, k=k, population=population)
    one = p[np.flatnonzero(exposed >= 1.001 * budget)[-1]]
    law = np.array([one, 1 - one])
    assert exposure_of(law, k, population) >= budget
    cells = design_cells(0.97 * users, function, 0.01)
    found = []
    for cap in (budget, budget / 2):
        cut = cells.capped(cap)
        at = np.searchsorted(cells.laws.means, law * cells.laws.mean)
        shares = np.zeros(cells.laws.means.size)
        np.add.at(shares, at.clip(1, shares.size - 1), [0.15, 0.85])
        weights = growing_weights(cut.laws, shares, sign=-1, budget=budget, monotone=True)
        base = proved_base(cut, weights, sign=-1, budget=budget, monotone=True)
        phi = base.phi()
        draws = np.random.default_rng(3).poisson(base.mean * law, (20_000, 2))
        nats = -phi[np.minimum(draws, phi.size - 1)].sum(axis=1)
        found.append(float(np.minimum(np.exp(nats - base.bound), MOST).mean()))
    assert found[0] <= 1.02
    assert found[1] > 1.1


def test_the_menu_blocks_where_the_design_of_the_level_alone_does_not() -> None:
    """Values of 0.9 k/n, whose users are 14 times the budget."""
    criteria = decision_criteria(
        users=2_000, k=50, population=100_000, budget=0.02, delta=0.05, universe=8
    )
    mixture, rng = criteria.blocking, np.random.default_rng(1)
    assert mixture is not None
    law = np.append(np.full(888, 4.5e-4), 1 - 888 * 4.5e-4)
    alone = mixture.scores[0].critical(criteria.log_terms[1][1])
    blocked = by_one = 0
    for _ in range(40):
        spectrum = CountSpectrum.from_counts(rng.multinomial(2_000, law))
        blocked += criteria.refute.refutes(spectrum, 1)
        taken = mixture.weights[0].take(spectrum.counts, mode="clip")
        by_one += float(taken @ spectrum.members.astype(float)) > float(alone)
        assert not criteria.allow.holds(spectrum, 1)
    assert blocked >= 8
    assert by_one <= 4
