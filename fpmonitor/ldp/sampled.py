"""Information of finitely many reports, by importance sampling from the posterior."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import scipy

from fpmonitor.errors import UndecidableError
from fpmonitor.ldp.finite_sums import exact_information
from fpmonitor.ldp.fisher import (
    MAX_QUADRATURE_VALUES,
    MAX_SUBSETS,
    Expectation,
    classes_of_values,
    expected_log_determinant,
    information_of_bits,
    is_faithful,
    log_determinants,
)
from fpmonitor.ldp.mechanisms import Mechanism, UnaryEncoding
from fpmonitor.ldp.tally_law import tally_beyond_distribution

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.ldp.priors import DirichletPrior

_REPLICATES = 256
_DRAWS = 1_000
_LARGEST_BIAS = 0.25  # nats, of the information on the distribution
# Heavier tails than a posterior has, or few draws would have all the weight.
_DEGREES_OF_FREEDOM = 5
_NEWTON_STEPS = 60


def sample_information(
    mechanism: Mechanism,
    matrix: NDArray[np.float64],
    prior: DirichletPrior,
    users: int,
    *,
    rng: np.random.Generator,
) -> tuple[Expectation, Expectation]:
    """`I(Y; P)`, and what the reports tell of the tally beyond it, nats.

    The error of the second is NaN where it is the limit for many users.

    Args:
        mechanism, prior, users: As in `finite.reports_information`; the mechanism need not be
            faithful.
        matrix: Of the mechanism, reports of equal likelihood ratios merged.
        rng: Draws distributions and reports.
    """
    # Where parameters are small some draws are 0, of which there is no logarithm.
    distributions = np.maximum(prior.sample(_REPLICATES, rng), 1e-290)
    beyond = tally_beyond_distribution(matrix, prior, users, rng=rng)
    if beyond is None:
        beyond = _tally_limit(mechanism, matrix, prior, users, distributions)
    exact = exact_information(mechanism, matrix, prior, users)
    if exact is not None:
        return Expectation(exact, 0.0), beyond
    gains, biases = np.empty(_REPLICATES), np.empty(_REPLICATES)
    counts = np.empty((_REPLICATES, len(matrix)), dtype=np.int64)
    for replicate, distribution in enumerate(distributions):
        chances = matrix @ distribution
        counts[replicate] = rng.multinomial(users, chances / chances.sum())
        gains[replicate], biases[replicate] = _gain(
            matrix, prior, counts[replicate], distribution, rng
        )
    controls = np.empty((_REPLICATES, 0))
    if is_faithful(mechanism) and (matrix.min() > 0 or _is_integrable(matrix)):
        expected = expected_log_determinant(mechanism, prior, rng=rng)
        controls = _controls(matrix, distributions, counts, expected.value)
    return _mean_gain(gains, biases, controls, prior), beyond


def _tally_limit(
    mechanism: Mechanism,
    matrix: NDArray[np.float64],
    prior: DirichletPrior,
    users: int,
    distributions: NDArray[np.float64],
) -> Expectation:
    """`I(Y; T | P)`, nats, in the Gaussian limit of many users; its error is not known."""
    classes = classes_of_values(mechanism)
    within = [
        sum(
            _gaussian_information(matrix[:, one], distribution[one] / distribution[one].sum())
            for one in (classes == label for label in range(classes.max() + 1))
        )
        for distribution in distributions
    ]
    # Which class a value is of is certain: their tally is known, and counted exactly.
    beyond = float(np.mean(within))
    if classes.any():
        beyond += prior.merged(classes).tally_entropy_given_distribution(users)
    return Expectation(beyond, math.nan)


def sample_bits(
    mechanism: Mechanism,
    prior: DirichletPrior,
    users: int,
    *,
    exact: float | None,
    rng: np.random.Generator,
) -> tuple[Expectation, Expectation]:
    """As `sample_information` for independent bits, whose reports are too many to list.

    Only the reports that occur have a row; the information of all is `information_of_bits`.
    """
    bits = mechanism.independent_bits
    if bits is None:
        raise UndecidableError("users: the reports are not independent bits")
    encoding = UnaryEncoding(prior.values, *bits)
    high, low = bits[0] / bits[1], (1 - bits[0]) / (1 - bits[1])
    distributions = np.maximum(prior.sample(_REPLICATES, rng), 1e-290)
    known = information_of_bits(*bits, distributions)
    within = [
        _log_ratio_of_covariances(distribution, information * np.outer(distribution, distribution))
        for distribution, information in zip(distributions, known, strict=True)
    ]
    beyond = Expectation(float(np.mean(within)), math.nan)
    if exact is not None:
        return Expectation(exact, 0.0), beyond
    gains, biases = np.empty(_REPLICATES), np.empty(_REPLICATES)
    for replicate, distribution in enumerate(distributions):
        user_codes = rng.choice(prior.values, size=users, p=distribution / distribution.sum())
        distinct_reports, counts = np.unique(
            encoding.sample(user_codes, rng), axis=0, return_counts=True
        )
        rows = np.where(distinct_reports, high, low)
        gains[replicate], biases[replicate] = _gain(rows, prior, counts, distribution, rng)
    return _mean_gain(gains, biases, np.empty((_REPLICATES, 0)), prior), beyond


def _gain(
    matrix: NDArray[np.float64],
    prior: DirichletPrior,
    counts: NDArray[np.int64],
    distribution: NDArray[np.float64],
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Log likelihood ratio of the distribution to the prior, and the bias of its estimate."""
    evidence, effective = _log_evidence(matrix, prior, counts, distribution, rng)
    gain = float(scipy.special.xlogy(counts, matrix @ distribution).sum()) - evidence
    return gain, 1 / (2 * effective)


def _mean_gain(
    gains: NDArray[np.float64],
    biases: NDArray[np.float64],
    controls: NDArray[np.float64],
    prior: DirichletPrior,
) -> Expectation:
    """Mean of the gains, and its standard error with the bias in it."""
    bias = float(biases.mean())
    if bias > _LARGEST_BIAS:
        raise UndecidableError(
            f"users: the posterior on {prior.values} values is too far from normal to sample",
            hint="the asymptotic utility plus log(n) / 2 is the limit of the digit utility",
        )
    mean = _controlled_mean(gains, controls)
    return Expectation(mean.value, math.hypot(mean.standard_error, bias))


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
    return _log_ratio_of_covariances(distribution, known)


def _log_ratio_of_covariances(
    distribution: NDArray[np.float64], known: NDArray[np.float64]
) -> float:
    before = (np.diag(distribution) - np.outer(distribution, distribution))[:-1, :-1]
    after = (np.diag(distribution) - known)[:-1, :-1]
    # The same for both, so that it cancels: shares of many sizes cost digits.
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
    # Off the border, where logits are infinite.
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
