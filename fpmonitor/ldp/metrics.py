"""Privacy and utility of a mechanism: the metrics of "LDP metrics".

All are in nats or shares. `mu` is the prior of the distribution `P` of the values.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from fpmonitor.ldp.fisher import Expectation, expected_log_determinant
from fpmonitor.ldp.integrals import expected_xlogx, expected_xlogx_of_bits
from fpmonitor.ldp.mechanisms import Mechanism, RandomisedResponse
from fpmonitor.ldp.priors import HALF_LOG_2_PI_E, DirichletPrior, check_prior
from fpmonitor.ldp.subsets import SubsetSelection


def report_information(mechanism: Mechanism, prior: DirichletPrior) -> float:
    """`I(X; Y | P)`, nats: information of a report about its user, given the distribution.

    Notes:
        "LDP metrics", (10.4) and (10.10), by the one-dimensional integrals of `integrals`.
    """
    check_prior(prior.values, mechanism.values)
    bits = mechanism.independent_bits
    if bits is not None:
        return _information_of_bits(*bits, prior)
    if isinstance(mechanism, RandomisedResponse):
        rows, times = mechanism.distinct_rows(prior.parameters)
    elif isinstance(mechanism, SubsetSelection) and len(set(prior.alpha)) == 1:
        # All sets are alike; their number, a factor of each row, cancels.
        inside = np.arange(mechanism.values) < mechanism.size
        rows, times = np.where(inside, *mechanism.densities)[None, :], np.ones(1, dtype=np.int64)
    else:
        matrix = mechanism.matrix()
        rows = matrix[matrix.max(axis=1) > 0]
        times = np.ones(len(rows), dtype=np.int64)
    given_value = scipy.special.xlogy(rows, rows) @ prior.mean
    return float(times @ (given_value - expected_xlogx(rows, prior.parameters)))


def _information_of_bits(true_support: float, false_support: float, prior: DirichletPrior) -> float:
    high = true_support / false_support
    low = (1 - true_support) / (1 - false_support)
    given_value = float(
        scipy.special.xlogy(true_support, high) + scipy.special.xlogy(1 - true_support, low)
    )
    return given_value - expected_xlogx_of_bits(high, low, false_support, prior.parameters)


def average_privacy(mechanism: Mechanism, prior: DirichletPrior) -> float:
    """`S_mu = H(X | Y, P) / H(X | P)`: share of a value's entropy that a report leaves, in [0, 1].

    Notes:
        "LDP metrics", Definition 4.1.
    """
    share = 1 - report_information(mechanism, prior) / prior.value_entropy_given_distribution
    return min(max(share, 0.0), 1.0)


def worst_case_privacy(mechanism: Mechanism) -> float:
    """`S^wc = exp(-LDP)`: the least share of entropy left, over all distributions and reports.

    Notes:
        "LDP metrics", Theorem 5.3. The proof uses the prior of the distribution where its posterior
        is meant (B.7, B.15); the theorem holds. The infimum is approached, for distributions that
        put all but `e` on one value, only like `1 + LDP / |log e|`.
    """
    return math.exp(-mechanism.ldp_level)


def asymptotic_utility(
    mechanism: Mechanism, prior: DirichletPrior, *, rng: np.random.Generator
) -> Expectation:
    """`U^as`, nats: limit of `digit utility - log(n) / 2` for many users.

    Minus infinity when the mechanism is not faithful: then no number of users reveals the
    distribution.

    Args:
        mechanism, prior: On the same values.
        rng: For the quasi Monte Carlo integral, which only mechanisms on five values or more need
            that are not square.

    Notes:
        "LDP metrics", Definition 6.5 and Theorem 6.7. The sign of `log(2 pi e) / 2` is wrong in
        Lemma C.7, (C.19), (C.25), (C.26). For Jeffreys' prior the limit is approached like `n^-1/4`
        only.
    """
    check_prior(prior.values, mechanism.values)
    expected = expected_log_determinant(mechanism, prior, rng=rng)
    digits = 2 * (mechanism.values - 1)
    return Expectation(expected.value / digits - HALF_LOG_2_PI_E, expected.standard_error / digits)


def participation(utility: Expectation, prior: DirichletPrior) -> Expectation:
    """`F_mu = exp(2 (U^as - C_mu))`: share of truthful users with the same utility, in [0, 1].

    Notes:
        "LDP metrics", Definition 6.10.
    """
    factor = math.exp(2 * (utility.value - prior.truthful_utility))
    return Expectation(min(factor, 1.0), 2 * factor * utility.standard_error)


def participation_bound(mechanism: Mechanism, prior: DirichletPrior) -> float:
    """Upper bound of `F_mu` from the LDP level: `(e^LDP - 1)^2 e^(-2 C_mu) / (2 pi e)`.

    Infinite where the LDP level is.

    Notes:
        "LDP metrics", Theorem 8.1. A step of its proof is misprinted (A.14): the factor is
        `e^LDP - 1`, not its square, and the row minima may sum to less than 1.
    """
    return _squared_excess(mechanism) * math.exp(-2 * (HALF_LOG_2_PI_E + prior.truthful_utility))


def prior_free_participation_bound(mechanism: Mechanism) -> float:
    """Upper bound of `F_mu` for every prior with a density.

    `(e^LDP - 1)^2 a^(-a / (a - 1)) sum_y min_x Q[y, x]`; the last sum is omitted (1) where the
    matrix is not at hand.

    Notes:
        Not in "LDP metrics", which says after Theorem 8.1 that no such bound exists: see
        `priors.truthful_utility_floor`.
    """
    values = mechanism.values
    constant = math.exp(-values / (values - 1) * math.log(values))
    return _squared_excess(mechanism) * constant * _common(mechanism)


def _squared_excess(mechanism: Mechanism) -> float:
    level = mechanism.ldp_level
    # The square of e^355 is no double.
    return math.expm1(level) ** 2 if level < 300 else math.inf


def _common(mechanism: Mechanism) -> float:
    """Probability mass that the distributions of the reports share for all values; at most 1."""
    if math.isinf(mechanism.ldp_level) or mechanism.independent_bits is not None:
        return 1.0
    if isinstance(mechanism, SubsetSelection):
        return mechanism.densities[1]
    return float(mechanism.matrix().min(axis=1).sum())
