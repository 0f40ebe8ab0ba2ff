"""Information of the reports of finitely many users about the distribution and the tally.

Exact for few users, by enumeration of all tallies of values and of reports. For more users the
information on the distribution is a finite sum (`finite_sums`), and beyond its reach estimated by
importance sampling (`sampled`), with its standard error. The information on the tally beyond the
distribution is a mean of exact entropies (`tally_law`) where values or reports are few, and else
that of the Gaussian limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from fpmonitor.errors import UndecidableError
from fpmonitor.ldp.checks import check_whole_number
from fpmonitor.ldp.finite_sums import exact_information
from fpmonitor.ldp.fisher import Expectation, merged_matrix
from fpmonitor.ldp.integrals import expected_xlogx
from fpmonitor.ldp.mechanisms import Mechanism, RandomisedResponse, StochasticMatrix
from fpmonitor.ldp.priors import MAX_USERS, DirichletPrior, check_prior
from fpmonitor.ldp.sampled import sample_bits, sample_information
from fpmonitor.ldp.tallies import (
    all_tallies,
    log_arrangements,
    log_prior_of_sequence,
    number_of_tallies,
    ranks,
)

MAX_EXACT_CELLS = 4_000_000
MAX_EXACT_STEPS = 400_000_000
MAX_SAMPLED_CELLS = 100_000
MAX_BITS = 12
MAX_SAMPLED_BITS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportsInformation:
    """Information in the reports `Y` of all users, nats."""

    users: int  # `n`.
    of_distribution: float  # `I(Y; P)`.
    of_tally: float  # `I(Y; T)`, with `T` the number of users of each value.
    standard_error: float  # Of `of_distribution`, from Monte Carlo; 0 when it is exact.
    exact: bool  # Whether both are, by enumeration.
    # Standard error of `of_tally - of_distribution`; NaN where that is its limit for many users.
    tally_error: float

    def distribution_utility(self, prior: DirichletPrior) -> float:
        """`U^distr = I(Y; P) / I(X; P)`, a share ("LDP metrics", Definition 4.3)."""
        return self.of_distribution / prior.distribution_information(self.users)

    def tally_utility(self, prior: DirichletPrior) -> float:
        """`U^tally = I(Y; T) / H(T)`, a share ("LDP metrics", Definition 4.3)."""
        return self.of_tally / prior.tally_entropy(self.users)

    def digit_utility(self, prior: DirichletPrior) -> float:
        """`U^digit = (I(Y; P) - h(P)) / (a - 1)`, nats ("LDP metrics", Definition 4.6).

        The distribution is known to an accuracy of about `exp(-U^digit)` in each coordinate; Remark
        6.9(2) lacks the sign.
        """
        return (self.of_distribution - prior.distribution_entropy) / (prior.values - 1)


def reports_information(
    mechanism: Mechanism, prior: DirichletPrior, users: int, *, rng: np.random.Generator
) -> ReportsInformation:
    """Return the information of the reports of `users` users about distribution and tally.

    Args:
        mechanism, prior: On the same values.
        users: `n`, at least 1.
        rng: For the Monte Carlo estimate, where enumeration is out of reach.

    Notes:
        "LDP metrics", Table 4.1. `I(X; P) = H(X) - n H(X_1 | P)`: the first sign in (D.20) is
        wrong.
    """
    check_prior(prior.values, mechanism.values)
    check_whole_number("users", users, least=1, most=MAX_USERS)
    if mechanism.independent_bits is not None and mechanism.values > MAX_BITS:
        return _of_many_bits(mechanism, prior, users, rng)
    matrix = merged_matrix(mechanism)
    if _within_reach(matrix, users):
        return _by_enumeration(matrix, prior, users)
    merged = _without_twins(mechanism, matrix, prior)
    if merged is not None:
        # Values that no report tells apart: what is told is of their classes.
        return reports_information(*merged, users, rng=rng)
    return _by_sampling(mechanism, matrix, prior, users, rng)


def _without_twins(
    mechanism: Mechanism, matrix: NDArray[np.float64], prior: DirichletPrior
) -> tuple[StochasticMatrix, DirichletPrior] | None:
    """Merge values with equal columns, and their probabilities; None where there are none."""
    # These tell all values apart.
    if mechanism.independent_bits is not None or isinstance(mechanism, RandomisedResponse):
        return None
    columns, labels = np.unique(np.round(matrix, 14), axis=1, return_inverse=True)
    if columns.shape[1] == matrix.shape[1] or columns.shape[1] < 2:
        return None
    labels = labels.reshape(-1)
    first = [int(np.flatnonzero(labels == label)[0]) for label in range(columns.shape[1])]
    return StochasticMatrix(matrix[:, first]), prior.merged(labels)


def _too_many(values: int) -> UndecidableError:
    return UndecidableError(
        f"users: the reports on {values} values are too many to enumerate or to sample",
        hint="the asymptotic utility plus log(n) / 2 is the limit of the digit utility",
    )


def _within_reach(matrix: NDArray[np.float64], users: int) -> bool:
    reports, values = matrix.shape
    if number_of_tallies(users, reports) > MAX_EXACT_CELLS:
        return False
    cells = number_of_tallies(users, reports) * number_of_tallies(users, values)
    return cells <= MAX_EXACT_CELLS and cells * users * reports <= MAX_EXACT_STEPS


def _by_enumeration(
    matrix: NDArray[np.float64], prior: DirichletPrior, users: int
) -> ReportsInformation:
    values, reports = (all_tallies(users, size) for size in (matrix.shape[1], matrix.shape[0]))
    of_values = np.exp(log_arrangements(values) + log_prior_of_sequence(values, prior))
    given_values = report_tallies_given_values(matrix, users)
    of_reports = of_values @ given_values
    tally_entropy = -float(scipy.special.xlogy(of_reports, of_reports).sum())
    given_tally = -float(of_values @ scipy.special.xlogy(given_values, given_values).sum(axis=1))
    # Given their tally, all orders of the reports are equally likely.
    sequence_entropy = tally_entropy + float(of_reports @ log_arrangements(reports))
    return ReportsInformation(
        users=users,
        of_distribution=max(sequence_entropy - users * _report_entropy(matrix, prior), 0.0),
        of_tally=max(tally_entropy - given_tally, 0.0),
        standard_error=0.0,
        exact=True,
        tally_error=0.0,
    )


def _report_entropy(matrix: NDArray[np.float64], prior: DirichletPrior) -> float:
    """`H(Y_1 | P)`, nats."""
    return -float(expected_xlogx(matrix, prior.parameters).sum())


def report_tallies_given_values(matrix: NDArray[np.float64], users: int) -> NDArray[np.float64]:
    """Probability of each tally of reports (columns) for each tally of values (rows)."""
    reports, values = matrix.shape
    distribution = np.ones((1, 1))
    for done in range(users):
        before, after = all_tallies(done, reports), all_tallies(done + 1, values)
        # A tally of one user more is one without its last user, and that user.
        last = np.argmax(after > 0, axis=1)
        fewer = after.copy()
        fewer[np.arange(len(after)), last] -= 1
        previous = distribution[ranks(fewer)]
        distribution = np.zeros((len(after), number_of_tallies(done + 1, reports)))
        for report in range(reports):
            more = before.copy()
            more[:, report] += 1
            distribution[:, ranks(more)] += matrix[report, last][:, None] * previous
    return distribution


def _by_sampling(
    mechanism: Mechanism,
    matrix: NDArray[np.float64],
    prior: DirichletPrior,
    users: int,
    rng: np.random.Generator,
) -> ReportsInformation:
    if matrix.size > MAX_SAMPLED_CELLS:
        raise _too_many(prior.values)
    gain, beyond = sample_information(mechanism, matrix, prior, users, rng=rng)
    return _limited(gain, beyond, prior, users)


def _of_many_bits(
    mechanism: Mechanism, prior: DirichletPrior, users: int, rng: np.random.Generator
) -> ReportsInformation:
    """Sum over patterns for few users; else sample, from the reports that occur."""
    exact = exact_information(mechanism, None, prior, users)
    if exact is None and prior.values > MAX_SAMPLED_BITS:
        raise _too_many(prior.values)
    gain, beyond = sample_bits(mechanism, prior, users, exact=exact, rng=rng)
    return _limited(gain, beyond, prior, users)


def _limited(
    gain: Expectation, beyond: Expectation, prior: DirichletPrior, users: int
) -> ReportsInformation:
    """Cut off what no reports can tell."""
    of_distribution = min(max(gain.value, 0.0), prior.distribution_information(users))
    return ReportsInformation(
        users=users,
        of_distribution=of_distribution,
        of_tally=min(of_distribution + beyond.value, prior.tally_entropy(users)),
        standard_error=gain.standard_error,
        exact=False,
        tally_error=beyond.standard_error,
    )
