"""Dirichlet priors of the distribution of the values, and entropies that depend on them only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy
from numpy.typing import NDArray

from fpmonitor.errors import PolicyError
from fpmonitor.ldp.checks import check_whole_number

HALF_LOG_2_PI_E = 0.5 * math.log(2 * math.pi * math.e)
MAX_USERS = 10**7


@dataclass(frozen=True, slots=True)
class DirichletPrior:
    """Dirichlet prior of the probabilities `P` of the values.

    Raises:
        PolicyError: `prior`: fewer than two parameters, or one that is not positive and finite.
    """

    alpha: tuple[float, ...]  # One positive parameter per value, at least two.

    def __post_init__(self) -> None:
        alpha = tuple(float(parameter) for parameter in self.alpha)
        if len(alpha) < 2:
            raise PolicyError("prior", f"needs at least two parameters, got {len(alpha)}")
        for parameter in alpha:
            if not (math.isfinite(parameter) and parameter > 0):
                raise PolicyError("prior", f"parameters must be positive, got {parameter}")
        object.__setattr__(self, "alpha", alpha)

    @classmethod
    def jeffreys(cls, values: int) -> Self:
        """Return Jeffreys' prior of a distribution on `values` values: all parameters one half."""
        return cls((0.5,) * values)

    @property
    def values(self) -> int:
        """Number of values, `a`."""
        return len(self.alpha)

    @property
    def parameters(self) -> NDArray[np.float64]:
        """The parameters as float64, shape (a,)."""
        return np.array(self.alpha)

    @property
    def total(self) -> float:
        """Sum of the parameters."""
        return math.fsum(self.alpha)

    @property
    def mean(self) -> NDArray[np.float64]:
        """Expected probabilities, shape (a,)."""
        return self.parameters / self.total

    @property
    def value_entropy_given_distribution(self) -> float:
        """`H(X | P)`, nats: entropy of one user's value when the distribution is known."""
        alpha = self.parameters
        return float(
            scipy.special.digamma(self.total + 1) - self.mean @ scipy.special.digamma(alpha + 1)
        )

    @property
    def distribution_entropy(self) -> float:
        """`h(P)`, nats: differential entropy of all probabilities but one."""
        alpha, total = self.parameters, self.total
        log_beta = float(scipy.special.gammaln(alpha).sum() - scipy.special.gammaln(total))
        spread = float(
            (total - self.values) * scipy.special.digamma(total)
            - (alpha - 1) @ scipy.special.digamma(alpha)
        )
        return log_beta + spread

    @property
    def truthful_utility(self) -> float:
        """`C_mu`, nats: asymptotic utility of users who report their true values.

        Notes:
            "LDP metrics", section 6.2 and (10.1). It has the lower bound of
            `truthful_utility_floor`; the paper says that there is none.
        """
        expected_logs = scipy.special.digamma(self.parameters) - scipy.special.digamma(self.total)
        return float(-HALF_LOG_2_PI_E - expected_logs.sum() / (2 * (self.values - 1)))

    def values_entropy(self, users: int) -> float:
        """`H(X_1..X_n)`, nats, of the values of all users."""
        rising = self._expected_log_gamma(users, shift=None) - scipy.special.gammaln(
            self.parameters
        )
        return float(
            scipy.special.gammaln(self.total + users)
            - scipy.special.gammaln(self.total)
            - rising.sum()
        )

    def tally_entropy(self, users: int) -> float:
        """`H(T)`, nats, of the number of users of each value."""
        arrangements = (
            scipy.special.gammaln(users + 1) - self._expected_log_gamma(users, shift=1.0).sum()
        )
        return self.values_entropy(users) - float(arrangements)

    def tally_entropy_given_distribution(self, users: int) -> float:
        """`H(T | P)`, nats, of the number of users of each value when the distribution is known."""
        return self.tally_entropy(users) - self.distribution_information(users)

    def merged(self, labels: NDArray[np.intp]) -> DirichletPrior:
        """Prior of the probabilities of classes of values, which are numbered from 0."""
        return DirichletPrior(tuple(np.bincount(labels, weights=self.parameters).tolist()))

    def distribution_information(self, users: int) -> float:
        """`I(X_1..X_n; P)`, nats: information of the values of all users about the distribution."""
        return self.values_entropy(users) - users * self.value_entropy_given_distribution

    def sample(self, draws: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw distributions from the prior, shape (draws, a), each row summing to 1."""
        return rng.dirichlet(self.alpha, size=draws)

    def _expected_log_gamma(self, users: int, shift: float | None) -> NDArray[np.float64]:
        """`E log Gamma(T_x + shift)` of the beta-binomial tallies; shift None means `alpha_x`."""
        check_whole_number("users", users, least=1, most=MAX_USERS)
        counts = np.arange(users + 1)
        log_choose = (
            scipy.special.gammaln(users + 1)
            - scipy.special.gammaln(counts + 1)
            - scipy.special.gammaln(users - counts + 1)
        )
        found: dict[float, float] = {}
        # Most priors have one parameter, of all values.
        for alpha in set(self.alpha):
            rest = self.total - alpha
            log_distribution = log_choose + scipy.special.betaln(
                alpha + counts, rest + users - counts
            )
            distribution = np.exp(log_distribution - scipy.special.betaln(alpha, rest))
            by = alpha if shift is None else shift
            # By its sum, which rounding leaves a little off 1.
            found[alpha] = float(distribution @ scipy.special.gammaln(counts + by)) / float(
                distribution.sum()
            )
        return np.array([found[alpha] for alpha in self.alpha])


def truthful_utility_floor(values: int) -> float:
    """Lower bound of `C_mu`, nats, over all priors with a density on `values` values.

    Notes:
        By the inequality of the means, `-sum log P_x >= a log a`. "LDP metrics", after Theorem 8.1,
        says that no such bound exists.
    """
    return -HALF_LOG_2_PI_E + values * math.log(values) / (2 * values - 2)


def prior_of(alpha: Sequence[float] | None, values: int) -> DirichletPrior:
    """Return the prior with the given parameters, Jeffreys' if there are none."""
    if alpha is None:
        return DirichletPrior.jeffreys(values)
    prior = DirichletPrior(tuple(alpha))
    check_prior(prior.values, values)
    return prior


def check_prior(parameters: int, values: int) -> None:
    """Check that a prior has one parameter for each value.

    Raises:
        PolicyError: `prior`: it does not.
    """
    if parameters != values:
        raise PolicyError(
            "prior", f"must have {values} parameters, one per value, got {parameters}"
        )
