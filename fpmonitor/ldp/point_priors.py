"""Priors that are not Dirichlet: finitely many distributions, as of hypotheses.

Two points are a test of two hypotheses. Any other prior is as near as one likes to one of points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

from fpmonitor.errors import PolicyError, UndecidableError
from fpmonitor.ldp.checks import check_whole_number
from fpmonitor.ldp.finite import report_tallies_given_values
from fpmonitor.ldp.fisher import merged_matrix
from fpmonitor.ldp.priors import MAX_USERS, check_prior
from fpmonitor.ldp.tallies import all_tallies, log_arrangements, number_of_tallies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fpmonitor.ldp.mechanisms import Mechanism

MAX_CELLS = 20_000_000
_SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class PointPrior:
    """Prior that is one of finitely many distributions.

    Raises:
        PolicyError: `prior`: shapes that do not fit, a negative number, or a sum that is not 1.
    """

    weights: NDArray[np.float64]  # float64, shape (points,): probability of each, of sum 1.
    # float64, shape (points, a): the probabilities of the values, each row of sum 1.
    distributions: NDArray[np.float64]

    def __post_init__(self) -> None:
        weights, points = (np.array(part, float) for part in (self.weights, self.distributions))
        if points.ndim != 2 or points.shape[1] < 2 or weights.shape != points.shape[:1]:
            raise PolicyError("prior", "needs a weight, and probabilities of two values or more")
        sums = np.append(points.sum(axis=1), weights.sum())
        if not (min(weights.min(), points.min()) >= 0 and np.allclose(sums, 1, 0, _SUM_TOLERANCE)):
            raise PolicyError("prior", "weights, and the probabilities of each, must sum to 1")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "distributions", points)

    @property
    def values(self) -> int:
        """Number of values, `a`."""
        return int(self.distributions.shape[1])

    @property
    def value_entropy_given_distribution(self) -> float:
        """`H(X | P)`, nats."""
        return float(self.weights @ _entropies(self.distributions))


def average_privacy_of_points(mechanism: Mechanism, prior: PointPrior) -> float:
    """`S_mu = H(X | Y, P) / H(X | P)`, a share; 1 where the distribution tells the value.

    Notes:
        "LDP metrics", Definition 4.1 for any prior (Remark 4.4), a finite sum.
    """
    check_prior(prior.values, mechanism.values)
    entropy = prior.value_entropy_given_distribution
    if entropy <= 0:
        return 1.0
    matrix = merged_matrix(mechanism)
    # H(X | Y, p) = H(X | p) + H(Y | X, p) - H(Y | p)
    given_value = prior.distributions @ -scipy.special.xlogy(matrix, matrix).sum(axis=0)
    left = given_value - _entropies(prior.distributions @ matrix.T)
    return min(max(1 + float(prior.weights @ left) / entropy, 0.0), 1.0)


def point_utilities(
    mechanism: Mechanism, prior: PointPrior, users: int
) -> tuple[float | None, float | None]:
    """`U^distr` and `U^tally` of `users` users, shares; null where the prior leaves nothing open.

    Args:
        mechanism, prior: On the same values.
        users: `n`, at least 1.

    Raises:
        PolicyError: `prior` or `users` out of range.
        UndecidableError: Too many tallies to enumerate.

    Notes:
        "LDP metrics", Definition 4.3 for any prior (Remark 4.4): the tally of the reports is
        multinomial for each distribution, and everything is a sum over tallies.
    """
    check_prior(prior.values, mechanism.values)
    check_whole_number("users", users, least=1, most=MAX_USERS)
    matrix = merged_matrix(mechanism)
    reports, values = matrix.shape
    cells = number_of_tallies(users, reports) * number_of_tallies(users, values)
    if cells > MAX_CELLS:
        raise UndecidableError(
            f"users: the reports of {users} users are too many to enumerate for this prior",
            hint="ask for fewer users",
        )
    of_values = _tally_laws(prior.distributions, users)
    of_reports = _tally_laws(prior.distributions @ matrix.T, users)
    of_distribution = _information(of_reports, prior.weights)
    all_told = _information(of_values, prior.weights)
    mixed = prior.weights @ of_values
    given = report_tallies_given_values(matrix, users)
    of_tally = _information(given, mixed)
    entropy = float(_entropies(mixed[None, :])[0])
    return (
        of_distribution / all_told if all_told > 0 else None,
        of_tally / entropy if entropy > 0 else None,
    )


def _tally_laws(chances: NDArray[np.float64], users: int) -> NDArray[np.float64]:
    """Multinomial probabilities of all tallies, shape (points, tallies)."""
    tallies = all_tallies(users, chances.shape[1])
    logs = np.log(np.maximum(chances, 1e-300)) @ tallies.T + log_arrangements(tallies)
    return np.asarray(np.exp(logs), dtype=np.float64)


def _information(laws: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Mutual information of which law it is, and what is drawn from it, nats."""
    mixed = weights @ laws
    return max(float(_entropies(mixed[None, :])[0] - weights @ _entropies(laws)), 0.0)


def _entropies(laws: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(-scipy.special.xlogy(laws, laws).sum(axis=1), dtype=np.float64)
