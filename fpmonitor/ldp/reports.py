"""Randomised reports that were collected elsewhere: a CSV file, and what it tells of the values."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

from fpmonitor.errors import InputError, PolicyError, UndecidableError
from fpmonitor.ldp.frequency import (
    check_report_counts,
    estimate_frequencies,
    estimate_from_reports,
    frequency_limits,
    limits_from_reports,
)
from fpmonitor.ldp.mechanisms import RandomisedResponse, StochasticMatrix, UnaryEncoding
from fpmonitor.ldp.priors import DirichletPrior, check_prior
from fpmonitor.ldp.tallies import (
    all_tallies,
    log_prior_of_sequence,
    number_of_tallies,
    ranks,
)
from fpmonitor.safe_files import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from fpmonitor.ldp.mechanisms import Mechanism

    Reported = RandomisedResponse | UnaryEncoding | StochasticMatrix


MAX_TALLIES = 2_000_000
MAX_STEPS = 200_000_000
_BURN_IN, _THINNING = 500, 10  # steps before the first draw, and steps per draw


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
    check_prior(prior.values, mechanism.values)
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
        # Scaled at each step: products of thousands of probabilities underflow.
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
) -> NDArray[np.float64]:
    """Draw distributions from the posterior, by Gibbs sampling of the values.

    Successive draws are dependent, the more so the noisier the mechanism.

    Args:
        mechanism, prior, report_counts: As `exact_posterior`.
        draws: Number of distributions, at least 1.

    Returns:
        float64, shape (draws, a).

    Raises:
        PolicyError: `draws` below 1.
    """
    check_prior(prior.values, mechanism.values)
    matrix = mechanism.matrix()
    counts = check_report_counts(report_counts, matrix.shape[0])
    if draws < 1:
        raise PolicyError("draws", f"must be at least 1, got {draws}")
    seen = counts > 0
    rows, users = matrix[seen], counts[seen]
    distribution, drawn = prior.mean, np.empty((draws, prior.values))
    for step in range(_BURN_IN + draws * _THINNING):
        joint = rows * distribution
        tally = rng.multinomial(users, joint / joint.sum(axis=1, keepdims=True)).sum(axis=0)
        distribution = rng.dirichlet(prior.parameters + tally)
        if step >= _BURN_IN:
            drawn[(step - _BURN_IN) // _THINNING] = distribution
    return drawn


MAX_POSTERIOR_BITS = 12
MAX_POSTERIOR_VALUES = 1_000
_MOST_USERS = 2**53
_HINT = (
    "a line for each report, its number from 0, or for rappor, oue and blh its bits such as 0110, "
    "the first for value 0; a second column may say how many users sent it"
)


def read_reports(path: Path, mechanism: Reported) -> dict[int, int]:
    """Read how many users sent each report, by its number; of bits, the lowest is value 0.

    Raises:
        InputError: The file cannot be read, or a line is not a report of the mechanism.
    """
    bits = isinstance(mechanism, UnaryEncoding)
    most = _reports(mechanism)
    counts: Counter[int] = Counter()
    try:
        lines = list(csv.reader(io.StringIO(read_text(path, "reports"), newline="")))
    except csv.Error as error:
        raise InputError(f"reports {path}: not CSV ({error})", hint=_HINT) from error
    for number, line in enumerate(lines, start=1):
        if not line or (number == 1 and line[0] == "report"):
            continue
        text, *rest = line
        times = rest[0] if rest else "1"
        fits = len(text) == mechanism.values and set(text) <= {"0", "1"} if bits else _whole(text)
        if not (fits and _whole(times) and len(rest) <= 1):
            raise InputError(f"reports {path}: line {number} is not a report", hint=_HINT)
        # The first bit is value 0, the lowest bit of the number.
        report = int(text[::-1], 2) if bits else int(text)
        if report >= most:
            raise InputError(f"reports {path}: line {number}: there are {most} reports", hint=_HINT)
        counts[report] += int(times)
    if not 0 < sum(counts.values()) <= _MOST_USERS:
        raise InputError(f"reports {path}: must be of 1 to 2^53 users together", hint=_HINT)
    return counts


def estimate_values(
    mechanism: Reported,
    prior: DirichletPrior,
    counts: dict[int, int],
    *,
    delta: float,
    draws: int,
    rng: np.random.Generator,
) -> list[dict[str, object]]:
    """Estimate the probabilities of the values: unbiased, limited, and by the posterior.

    Args:
        mechanism, prior: On the same values; the mechanism faithful.
        counts: As `read_reports` returns them.
        delta: Limits of the probabilities of all values hold together with probability 1 - delta.
        draws, rng: How many from the posterior, by Gibbs sampling, and what draws them.

    Returns:
        A row for each value, from 0. Estimates may be negative; standard errors are of users drawn
        from the distribution. The interval of the posterior, null where it cannot be drawn, leaves
        out delta / 2 on each side.
    """
    users, values = sum(counts.values()), mechanism.values
    if isinstance(mechanism, UnaryEncoding | RandomisedResponse):
        support = np.zeros(values, dtype=np.int64)
        for report, times in counts.items():
            if isinstance(mechanism, RandomisedResponse):
                support[report] = times
            else:
                support += times * np.array([report >> bit & 1 for bit in range(values)])
        estimates = estimate_frequencies(mechanism, support, users)
        chances, gain = support / users, mechanism.true_support - mechanism.false_support
        errors = np.sqrt(chances * (1 - chances) / users) / gain
        lower, upper = frequency_limits(mechanism, support, users, delta=delta)
    else:
        dense = _dense(counts, _reports(mechanism))
        estimates, covariance = estimate_from_reports(mechanism, dense)
        errors = np.sqrt(np.diag(covariance))
        lower, upper = limits_from_reports(mechanism, dense, delta=delta)
    posterior = np.full((3, values), np.nan)
    bits = isinstance(mechanism, UnaryEncoding)
    if draws and values <= (MAX_POSTERIOR_BITS if bits else MAX_POSTERIOR_VALUES):
        dense = _dense(counts, _reports(mechanism))
        drawn = sample_posterior(mechanism, prior, dense, draws=draws, rng=rng)
        posterior = np.vstack(
            [drawn.mean(axis=0), np.quantile(drawn, [delta / 2, 1 - delta / 2], axis=0)]
        )
    posterior_rows = [[None if np.isnan(one) else float(one) for one in line] for line in posterior]
    return [
        {
            "value": value,
            "estimate": float(estimates[value]),
            "standard_error": float(errors[value]),
            "lower": float(lower[value]),
            "upper": float(upper[value]),
            "posterior_mean": posterior_rows[0][value],
            "posterior_lower": posterior_rows[1][value],
            "posterior_upper": posterior_rows[2][value],
        }
        for value in range(values)
    ]


def _reports(mechanism: Reported) -> int:
    """Return the number of different reports."""
    if isinstance(mechanism, UnaryEncoding):
        return int(2**mechanism.values)
    if isinstance(mechanism, RandomisedResponse):
        return mechanism.values
    return len(mechanism.probabilities)


def _dense(counts: dict[int, int], reports: int) -> NDArray[np.int64]:
    dense = np.zeros(reports, dtype=np.int64)
    dense[list(counts)] = list(counts.values())
    return dense


def _whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_USERS))
