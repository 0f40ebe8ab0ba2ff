"""Upper limits count no value for more than the budget, and add up the e-values of their designs.

Means of e-values are computed here as products of sums over all counts, and not drawn.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from fpmonitor.estimate.averaging import Base, design_base
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.looks import decision_criteria, design_cells
from fpmonitor.estimate.poisson import ExposureFunction
from fpmonitor.spectrum import CountSpectrum

SIZES = [  # users, k, population, budget
    (1_000, 100, 1_000, 0.05),
    (1_000, 2_000, 10_000, 0.05),
    (500, 300, 1_000, 0.2),
    (2_000, 40, 1_000, 0.02),
]


@cache
def design(users: int, k: int, population: int, budget: float, cap: float) -> Base:
    """Design of a budget whose values count for `cap` at most."""
    cells = design_cells(0.97 * users, ExposureFunction(k, population), 0.01).capped(cap)
    return design_base(cells, sign=-1, budget=budget, log_term=3.0, share=0.97, monotone=True)


def exposed(base: Base, p: float) -> float:
    share = np.array([p])
    return float(p * exposure_probability(share, k=base.k, population=base.population)[0])


def log_moment(base: Base, p: float) -> float:
    """`ln E exp(-phi(C))` of the count of a value."""
    phi = base.phi()
    chances = stats.poisson.pmf(np.arange(phi.size), base.mean * p)
    return math.log(float(chances @ np.exp(-phi)) + stats.poisson.sf(phi.size - 1, base.mean * p))


@pytest.mark.parametrize("size", SIZES)
def test_the_line_of_a_capped_design_is_above_every_value(
    size: tuple[int, int, int, float],
) -> None:
    """Theorem H, between the grid points, too, and where `p F(p)` meets the cap."""
    *_, budget = size
    base = design(*size, budget)
    assert base.capped
    below = np.geomspace(1e-4, 1, 400)
    parts = np.array([exposed(base, p) for p in below])
    meets = below[np.flatnonzero(np.diff(parts > budget))]
    near = np.concatenate([at * np.linspace(0.98, 1.03, 60) for at in meets])
    assert near.size
    for p in np.minimum(np.concatenate([below, near]), 1.0).tolist():
        line = base.slope * min(exposed(base, p), budget) + base.intercept * p
        assert log_moment(base, p) <= line + 1e-9 * abs(line), p


@pytest.mark.parametrize("size", SIZES)
def test_a_cap_below_the_budget_would_be_no_cap(size: tuple[int, int, int, float]) -> None:
    """At a law of one value whose exposure is the budget, the mean of the e-value is above 1."""
    *_, budget = size
    honest, wrong = design(*size, budget), design(*size, budget / 2)
    at = np.linspace(1e-3, 0.9, 4_000)
    parts = np.array([exposed(honest, p) for p in at])
    for p in at[np.flatnonzero(np.diff(parts >= 1.001 * budget))]:
        law = [one for one in (p + 1e-3, p - 1e-3, p) if exposed(honest, one) >= budget][:1]
        law = [*law, 1 - law[0]]
        means = [sum(log_moment(base, one) for one in law) - base.bound for base in (honest, wrong)]
        assert means[0] <= 1e-9
        assert means[1] > 0.1


def test_designs_of_limits_are_one_e_value_with_weights_that_add_up_to_one() -> None:
    """The sum with weights 1 in place of 1 / I has a mean above 1 at the border of an exposure."""
    limits = exposure_limits(users=1_000, k=5, population=20_000, delta=0.05)
    upper = limits.sides[0]
    number = len(upper.scales)
    assert number > 1
    assert np.exp(upper.fixed).sum() <= 1  # with what thinnings and large counts cost


@pytest.mark.long
def test_tiers_that_hold_a_tenth_each_are_allowed() -> None:
    """Five tiers of 12 % and more of 10,000 users, of whom k is a tenth of a million.

    Of 100 samples 59 had an upper limit below 5 % where delta was divided by the designs.
    """
    limits = exposure_limits(users=10_000, k=100_000, population=1_000_000, delta=0.05)
    rng, law = np.random.default_rng(3), [0.12, 0.15, 0.2, 0.23, 0.3]
    found = [
        limits.of(CountSpectrum.from_counts(rng.multinomial(10_000, law)))[1] for _ in range(40)
    ]
    assert np.mean(np.array(found) <= 0.05) >= 0.75
    unsafe = [0.095, 0.205, 0.3, 0.4]  # one of them is below a tenth
    found = [
        limits.of(CountSpectrum.from_counts(rng.multinomial(10_000, unsafe)))[1] for _ in range(40)
    ]
    assert min(found) > 0.095


@pytest.mark.long
def test_a_decision_allows_tiers_that_hold_a_tenth_each() -> None:
    """Of 40 samples of a fixed question; none where a tier is a little below a tenth."""
    criteria = decision_criteria(
        users=10_000, k=100_000, population=1_000_000, budget=0.05, delta=0.05, universe=1
    )
    rng = np.random.default_rng(3)

    def allowed(law: list[float]) -> int:
        spectra = (CountSpectrum.from_counts(rng.multinomial(10_000, law)) for _ in range(40))
        return sum(criteria.allow.holds(spectrum, 1) for spectrum in spectra)

    assert allowed([0.12, 0.15, 0.2, 0.23, 0.3]) >= 30
    assert allowed([0.095, 0.205, 0.3, 0.4]) == 0
