"""Information of the reports of finitely many users about the distribution and the tally.

Exact for few users, by enumeration of all tallies of values and of reports. For more users the
information on the distribution is estimated by importance sampling from the posterior, with its
standard error, and the information on the tally beyond the distribution is that of the Gaussian
limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

from fpmonitor.errors import UndecidableError
from fpmonitor.ldp.checks import check_whole_number
from fpmonitor.ldp.fisher import (
    MAX_QUADRATURE_VALUES,
    MAX_SUBSETS,
    Expectation,
    classes_of_values,
    expected_log_determinant,
    is_faithful,
    log_determinants,
    merged_matrix,
)
from fpmonitor.ldp.integrals import expected_xlogx
from fpmonitor.ldp.priors import MAX_USERS, check_prior
from fpmonitor.ldp.tallies import (
    all_tallies,
    log_arrangements,
    log_prior_of_sequence,
    number_of_tallies,
    ranks,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.ldp.mechanisms import Mechanism
    from fpmonitor.ldp.priors import DirichletPrior

MAX_EXACT_CELLS = 4_000_000
MAX_EXACT_STEPS = 400_000_000
MAX_SAMPLED_CELLS = 100_000
MAX_BITS = 12
_REPLICATES = 256
_DRAWS = 1_000
_LARGEST_BIAS = 0.25  # nats, of the information on the distribution
_DEGREES_OF_FREEDOM = 5
_NEWTON_STEPS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportsInformation:
    """Information in the reports `Y` of all users, nats.

    Attributes
    ----------
    users
        `n`.
    of_distribution
        `I(Y; P)`.
    of_tally
        `I(Y; T)`, with `T` the number of users of each value.
    standard_error
        Of `of_distribution`, from Monte Carlo; 0 when it is exact.
    exact
        Whether they are; otherwise `of_tally - of_distribution` is its limit for many users.
    """

    users: int
    of_distribution: float
    of_tally: float
    standard_error: float
    exact: bool

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

    Parameters
    ----------
    mechanism, prior
        On the same values.
    users
        `n`, at least 1.
    rng
        For the Monte Carlo estimate, where enumeration is out of reach.

    Raises
    ------
    PolicyError
        `prior` or `users` out of range.
    UndecidableError
        Too many values or reports for enumeration and for sampling.

    Notes
    -----
    "LDP metrics", Table 4.1. `I(X; P) = H(X) - n H(X_1 | P)`: the first sign in (D.20) is wrong.
    """
    check_prior(prior, mechanism.values)
    check_whole_number("users", users, least=1, most=MAX_USERS)
    if mechanism.independent_bits is not None and mechanism.values > MAX_BITS:
        raise _too_many(prior.values)
    matrix = merged_matrix(mechanism)
    if _within_reach(matrix, users):
        return _by_enumeration(matrix, prior, users)
    return _by_sampling(mechanism, matrix, prior, users, rng)


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
    sequence_entropy = tally_entropy + float(of_reports @ log_arrangements(reports))
    return ReportsInformation(
        users=users,
        of_distribution=max(sequence_entropy - users * _report_entropy(matrix, prior), 0.0),
        of_tally=max(tally_entropy - given_tally, 0.0),
        standard_error=0.0,
        exact=True,
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
    if not is_faithful(mechanism):
        raise UndecidableError(
            f"users: {users} users of a mechanism that is not faithful cannot be enumerated"
        )
    distributions = np.maximum(prior.sample(_REPLICATES, rng), 1e-290)
    gains, biases, within = np.empty(_REPLICATES), np.empty(_REPLICATES), np.empty(_REPLICATES)
    classes = classes_of_values(mechanism)
    counts = np.empty((_REPLICATES, len(matrix)), dtype=np.int64)
    for replicate, distribution in enumerate(distributions):
        chances = matrix @ distribution
        counts[replicate] = rng.multinomial(users, chances / chances.sum())
        evidence, effective = _log_evidence(matrix, prior, counts[replicate], distribution, rng)
        gains[replicate] = float(scipy.special.xlogy(counts[replicate], chances).sum()) - evidence
        biases[replicate] = 1 / (2 * effective)
        within[replicate] = sum(
            _gaussian_information(matrix[:, one], distribution[one] / distribution[one].sum())
            for one in (classes == label for label in range(classes.max() + 1))
        )
    bias = float(biases.mean())
    if bias > _LARGEST_BIAS:
        raise UndecidableError(
            f"users: the posterior on {prior.values} values is too far from normal to sample",
            hint="the asymptotic utility plus log(n) / 2 is the limit of the digit utility",
        )
    gain = Expectation(float(gains.mean()), float(np.std(gains, ddof=1)) / math.sqrt(_REPLICATES))
    if matrix.min() > 0 or _is_integrable(matrix):
        expected = expected_log_determinant(mechanism, prior, rng=rng)
        gain = _controlled_mean(gains, _controls(matrix, distributions, counts, expected.value))
    of_distribution = min(max(gain.value, 0.0), prior.distribution_information(users))
    # Which class a value is of is certain: their tally is known, and counted exactly.
    beyond = float(within.mean())
    if classes.any():
        beyond += prior.merged(classes).tally_entropy_given_distribution(users)
    return ReportsInformation(
        users=users,
        of_distribution=of_distribution,
        of_tally=min(of_distribution + beyond, prior.tally_entropy(users)),
        standard_error=math.hypot(gain.standard_error, bias),
        exact=False,
    )


def _is_integrable(matrix: NDArray[np.float64]) -> bool:
    """Whether the expected log determinant of a matrix with zeros has all its digits."""
    reports, values = matrix.shape
    few = values <= MAX_QUADRATURE_VALUES and math.comb(reports, values) <= MAX_SUBSETS
    return few or reports == values


def _controls(
    matrix: NDArray[np.float64],
    distributions: NDArray[np.float64],
    counts: NDArray[np.int64],
    mean_log_determinant: float,
) -> NDArray[np.float64]:
    """Numbers of mean 0 per replicate, which explain most of the gain when users are many.

    Half the log determinant of the Fisher information, and half the score statistic; that has no
    variance where reports are rare without limit, as those of a matrix with zeros.
    """
    determinants = log_determinants(matrix, distributions) - mean_log_determinant
    if matrix.min() == 0:
        return np.asarray(determinants[:, None] / 2, dtype=np.float64)
    users, values = counts[0].sum(), matrix.shape[1]
    chances = distributions @ matrix.T
    information = np.matmul((matrix / chances[:, :, None]).transpose(0, 2, 1), matrix)
    scores = ((counts - users * chances) / chances) @ matrix
    solved = np.linalg.solve(information, scores[:, :, None])[:, :, 0]
    statistic = np.einsum("ij,ij->i", scores, solved) / users
    centred = np.column_stack([determinants, statistic - (values - 1)])
    return np.asarray(centred / 2, dtype=np.float64)


def _controlled_mean(gains: NDArray[np.float64], controls: NDArray[np.float64]) -> Expectation:
    """Mean of the gains with the controls regressed out, and its standard error."""
    design = np.column_stack([np.ones(len(gains)), controls])
    coefficients = np.linalg.lstsq(design, gains)[0]
    residuals = gains - design @ coefficients
    freedom = len(gains) - design.shape[1]
    variance = float(residuals @ residuals) / freedom * np.linalg.inv(design.T @ design)[0, 0]
    return Expectation(float(coefficients[0]), math.sqrt(variance))


def _gaussian_information(matrix: NDArray[np.float64], distribution: NDArray[np.float64]) -> float:
    """`I(Y; T | P = p)` of one class of values for many users: half a log ratio of covariances.

    They are those of the tally before and after the reports, per user, without the last value.
    """
    matrix = matrix[matrix.max(axis=1) > 0]
    chances = matrix @ distribution
    known = (matrix / chances[:, None]).T @ matrix * np.outer(distribution, distribution)
    before = (np.diag(distribution) - np.outer(distribution, distribution))[:-1, :-1]
    after = (np.diag(distribution) - known)[:-1, :-1]
    scale = 1 / np.sqrt(np.diag(before))
    scaling = np.outer(scale, scale)
    signs, logs = np.linalg.slogdet(np.stack([before * scaling, after * scaling]))
    return 0.5 * float(logs[0] - logs[1]) if (signs > 0).all() else math.inf


def _log_evidence(
    matrix: NDArray[np.float64],
    prior: DirichletPrior,
    counts: NDArray[np.int64],
    start: NDArray[np.float64],
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Log probability of a sequence of reports with these counts, over the prior.

    Importance sampling in the logits of the distribution, from a t distribution about the posterior
    mode; the second number is that of effective draws.
    """
    alpha = prior.parameters
    mode = _posterior_mode(matrix, alpha, counts, start)
    spread = np.linalg.inv(np.linalg.cholesky(_precision(matrix, alpha, counts, mode))).T
    degrees, draws = _DEGREES_OF_FREEDOM, _DRAWS
    normal = rng.standard_normal((draws, prior.values - 1))
    stretch = np.sqrt(degrees / rng.chisquare(degrees, draws))[:, None]
    standard = normal * stretch
    logits = np.log(mode[:-1] / mode[-1]) + standard @ spread.T
    log_proposal = _log_t_density(standard, degrees) - np.linalg.slogdet(spread)[1]
    log_weights = _log_posterior(matrix, alpha, counts, logits) - log_proposal
    evidence = float(scipy.special.logsumexp(log_weights) - math.log(draws))
    effective = math.exp(
        2 * scipy.special.logsumexp(log_weights) - scipy.special.logsumexp(2 * log_weights)
    )
    return evidence, effective


def _log_distributions(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    whole = np.pad(logits, ((0, 0), (0, 1)))
    return np.asarray(
        whole - scipy.special.logsumexp(whole, axis=1, keepdims=True), dtype=np.float64
    )


def _log_posterior(
    matrix: NDArray[np.float64],
    alpha: NDArray[np.float64],
    counts: NDArray[np.int64],
    logits: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Log of prior density times likelihood, in the logits."""
    seen = counts > 0
    log_distributions = _log_distributions(logits)
    likelihood = np.log(np.exp(log_distributions) @ matrix[seen].T) @ counts[seen]
    log_beta = scipy.special.gammaln(alpha).sum() - scipy.special.gammaln(alpha.sum())
    return np.asarray(log_distributions @ alpha + likelihood - log_beta, dtype=np.float64)


def _posterior_mode(
    matrix: NDArray[np.float64],
    alpha: NDArray[np.float64],
    counts: NDArray[np.int64],
    start: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Distribution at the mode in the logits, by Newton steps that are halved until they climb."""
    seen = counts > 0
    distribution = np.maximum(start, 1 / (counts.sum() + alpha.sum()))
    logits = np.log(distribution[:-1] / distribution[-1])
    height = _log_posterior(matrix, alpha, counts, logits[None, :])[0]
    for _ in range(_NEWTON_STEPS):
        distribution = np.exp(_log_distributions(logits[None, :])[0])
        pull = matrix[seen].T @ (counts[seen] / (matrix[seen] @ distribution))
        gradient = (alpha - alpha.sum() * distribution + distribution * (pull - counts.sum()))[:-1]
        step = np.linalg.solve(_precision(matrix, alpha, counts, distribution), gradient)
        scales = 0.5 ** np.arange(12)
        heights = _log_posterior(matrix, alpha, counts, logits + scales[:, None] * step)
        best = int(np.argmax(heights))
        if heights[best] <= height + 1e-9:
            break
        logits, height = logits + scales[best] * step, heights[best]
    return np.asarray(np.exp(_log_distributions(logits[None, :])[0]), dtype=np.float64)


def _precision(
    matrix: NDArray[np.float64],
    alpha: NDArray[np.float64],
    counts: NDArray[np.int64],
    distribution: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Curvature of the log posterior in the logits, at a distribution that is the mode.

    Everywhere positive definite. At the mode the gradient vanishes, which makes the curvature of
    the prior and of the softmax together that of `sum alpha_x (eta_x - p.eta)^2 / 2`.
    """
    moves = np.diag(distribution) - np.outer(distribution, distribution)
    pull = matrix * (np.sqrt(counts) / (matrix @ distribution))[:, None] @ moves
    centring = np.eye(distribution.size) - distribution
    curvature = pull.T @ pull + (centring.T * alpha) @ centring
    return np.asarray(curvature[:-1, :-1], dtype=np.float64)


def _log_t_density(points: NDArray[np.float64], degrees: int) -> NDArray[np.float64]:
    """Log density of the spherical t distribution at each row."""
    size = points.shape[1]
    constant = scipy.special.gammaln((degrees + size) / 2) - scipy.special.gammaln(degrees / 2)
    constant -= size / 2 * math.log(degrees * math.pi)
    distance = np.einsum("ij,ij->i", points, points) / degrees
    return np.asarray(constant - (degrees + size) / 2 * np.log1p(distance), dtype=np.float64)
