"""Posterior of the distribution of the values, given the reports."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

from fpmonitor.errors import PolicyError, UndecidableError
from fpmonitor.ldp.frequency import check_report_counts
from fpmonitor.ldp.priors import DirichletPrior, check_prior
from fpmonitor.ldp.tallies import (
    all_tallies,
    log_prior_of_sequence,
    number_of_tallies,
    ranks,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from fpmonitor.ldp.mechanisms import Mechanism

MAX_TALLIES = 2_000_000
MAX_STEPS = 200_000_000


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Posterior:
    """Exact posterior: a mixture of Dirichlet distributions, one for each tally of values.

    Notes:
        "LDP metrics", section 9 and (10.7). The normalising constant `C_y` has three meanings
        there: in (9.3) the evidence, in (9.5) times `B(alpha)`, in (10.7) times `(a + e^eps - 1)^n`
        as well.
    """

    prior: DirichletPrior  # The prior.
    tallies: NDArray[np.int64]  # int64, shape (m, a): number of users of each value.
    # float64, shape (m,): probability of each tally given the reports.
    weights: NDArray[np.float64]
    log_evidence: float  # Log probability of one sequence of reports with these counts.

    @property
    def mean(self) -> NDArray[np.float64]:
        """Expected probabilities, shape (a,)."""
        users = int(self.tallies[0].sum())
        alpha = self.prior.parameters + self.weights @ self.tallies
        return np.asarray(alpha / (self.prior.total + users), dtype=np.float64)

    def density(self, distribution: ArrayLike) -> float:
        """Density at a distribution, in the coordinates of all probabilities but the last."""
        point = np.asarray(distribution, dtype=np.float64)
        alpha = self.prior.parameters + self.tallies
        logs = scipy.special.gammaln(alpha.sum(axis=1)) - scipy.special.gammaln(alpha).sum(axis=1)
        logs = logs + scipy.special.xlogy(alpha - 1, point).sum(axis=1)
        return float(np.exp(logs) @ self.weights)


def exact_posterior(
    mechanism: Mechanism, prior: DirichletPrior, report_counts: ArrayLike
) -> Posterior:
    """Return the posterior by expanding the likelihood into a polynomial of the distribution.

    Args:
        mechanism, prior: On the same values.
        report_counts: Users who sent each report, whole numbers, shape (b,).

    Raises:
        PolicyError: `prior` or `report_counts` do not fit; the reports are impossible.
        UndecidableError: Too many users: use `sample_posterior`.
    """
    check_prior(prior, mechanism.values)
    matrix = mechanism.matrix()
    counts = check_report_counts(report_counts, matrix.shape[0])
    users, values = int(counts.sum()), mechanism.values
    tallies = number_of_tallies(users, values)
    if tallies > MAX_TALLIES or tallies * users * values > MAX_STEPS:
        raise UndecidableError(
            f"report_counts: {users} users make {tallies} tallies of {values} values",
            hint="sample the posterior instead",
        )
    log_coefficients = _log_polynomial(matrix, np.repeat(np.arange(len(counts)), counts))
    table = all_tallies(users, values)
    logs = log_coefficients + log_prior_of_sequence(table, prior)
    evidence = float(scipy.special.logsumexp(logs))
    if evidence == -math.inf:
        raise PolicyError("report_counts", "cannot come from this mechanism")
    return Posterior(
        prior=prior, tallies=table, weights=np.exp(logs - evidence), log_evidence=evidence
    )


def _log_polynomial(matrix: NDArray[np.float64], reports: NDArray[np.intp]) -> NDArray[np.float64]:
    """Log coefficients of `prod (Qp)_y` over the reports, by the tally of the exponents."""
    coefficients, log_scale = np.ones(1), 0.0
    for done, report in enumerate(reports):
        before = all_tallies(done, matrix.shape[1])
        after = np.zeros(number_of_tallies(done + 1, matrix.shape[1]))
        for value, probability in enumerate(matrix[report]):
            more = before.copy()
            more[:, value] += 1
            after[ranks(more)] += probability * coefficients
        largest = float(after.max()) or 1.0
        coefficients, log_scale = after / largest, log_scale + math.log(largest)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(coefficients) + log_scale, dtype=np.float64)


def sample_posterior(
    mechanism: Mechanism,
    prior: DirichletPrior,
    report_counts: ArrayLike,
    *,
    draws: int,
    rng: np.random.Generator,
    burn_in: int = 500,
    thinning: int = 10,
) -> NDArray[np.float64]:
    """Draw distributions from the posterior, by Gibbs sampling of the values.

    Successive draws are dependent, the more so the noisier the mechanism: raise `thinning`.

    Args:
        mechanism, prior, report_counts: As `exact_posterior`.
        draws: Number of distributions, at least 1.
        burn_in, thinning: Steps before the first draw, and steps per draw.

    Returns:
        float64, shape (draws, a).

    Raises:
        PolicyError: An argument out of range.
    """
    check_prior(prior, mechanism.values)
    matrix = mechanism.matrix()
    counts = check_report_counts(report_counts, matrix.shape[0])
    if draws < 1 or burn_in < 0 or thinning < 1:
        raise PolicyError("draws", "draws and thinning must be positive, burn_in not negative")
    seen = counts > 0
    rows, users = matrix[seen], counts[seen]
    distribution, drawn = prior.mean, np.empty((draws, prior.values))
    for step in range(burn_in + draws * thinning):
        joint = rows * distribution
        held = rng.multinomial(users, joint / joint.sum(axis=1, keepdims=True)).sum(axis=0)
        distribution = rng.dirichlet(prior.parameters + held)
        if step >= burn_in:
            drawn[(step - burn_in) // thinning] = distribution
    return drawn
