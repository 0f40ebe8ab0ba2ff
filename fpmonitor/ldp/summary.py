"""All metrics of a mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fpmonitor.errors import UndecidableError
from fpmonitor.ldp.finite import reports_information
from fpmonitor.ldp.fisher import classes_of_values, matrix_rank
from fpmonitor.ldp.metrics import (
    asymptotic_utility,
    average_privacy,
    participation,
    participation_bound,
    prior_free_participation_bound,
    worst_case_privacy,
)
from fpmonitor.ldp.point_priors import PointPrior, average_privacy_of_points, point_utilities
from fpmonitor.results import Members

if TYPE_CHECKING:
    import numpy as np

    from fpmonitor.ldp.mechanisms import Mechanism
    from fpmonitor.ldp.priors import DirichletPrior


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics(Members):
    """The metrics of a mechanism under a prior, in nats or shares; in JSON null where infinite.

    Attributes:
        ldp: LDP level: the largest log ratio of the probabilities of a report; infinite when a
            report can exclude a value.
        average_privacy: `S_mu`: share of what was unknown about a value that stays unknown to
            somebody who knows the distribution.
        worst_case_privacy: `S^wc`, `e^-ldp`: what is promised whatever others answer.
        asymptotic_utility: `U^as`: limit of the digit utility minus `log(n) / 2`; minus infinity
            when the mechanism is not faithful.
        participation: `F_mu`: share of truthful users with the same utility.
        participation_bound, participation_bound_any_prior: Upper bounds of it from the LDP level,
            for this prior and for every one with a density; infinite where the level is, and above
            1 where they say nothing.
        entropy_given_p: `H(X | P)`: entropy of a value, given the distribution.
        rank: `d`: rank of the matrix; the number of values when the mechanism is faithful.
        classes: `b'`: classes of values that no report confounds; 1 for a finite LDP level.
        distribution_utility, tally_utility: Share of the information on the distribution, and of
            the entropy of the tally, that reports of a number of users have; null without one.
        distribution_utility_limit, tally_utility_limit: Their limits for many users,
            `(d - 1) / (a - 1)` and `(d + b' - 2) / (2a - 2)` for `a` values.
        digit_utility: Each coordinate is known to about `e^-U` from a number of users; null
            without one.
        asymptotic_utility_error, digit_utility_error: Standard errors where Monte Carlo was needed,
            else 0.
        tally_utility_error: Standard error of what `tally_utility` has beyond the distribution; NaN
            where that is its limit for many users.
        obstacle: Why there are none although a number of users was given; else empty.
    """

    ldp: float
    average_privacy: float
    worst_case_privacy: float
    asymptotic_utility: float
    participation: float
    participation_bound: float
    participation_bound_any_prior: float
    entropy_given_p: float
    rank: int
    classes: int
    distribution_utility_limit: float
    tally_utility_limit: float
    distribution_utility: float | None
    tally_utility: float | None
    digit_utility: float | None
    asymptotic_utility_error: float
    digit_utility_error: float
    tally_utility_error: float
    obstacle: str

    JSON: ClassVar[str] = (
        "ldp average_privacy worst_case_privacy asymptotic_utility participation "
        "participation_bound participation_bound_any_prior entropy_given_p rank classes "
        "distribution_utility_limit tally_utility_limit distribution_utility tally_utility "
        "digit_utility"
    )

    def to_json(self) -> dict[str, float | None]:
        """Return the metrics without their errors; null where infinite."""
        return {
            name: None if value is None or math.isinf(value) else value
            for name, value in Members.to_json(self).items()
        }


def metrics_of(
    mechanism: Mechanism,
    prior: DirichletPrior,
    *,
    users: int | None = None,
    rng: np.random.Generator,
) -> Metrics:
    """Return all metrics of a mechanism; those for a number of users if `users` is given.

    Notes:
        "LDP metrics", Theorem 6.7(2) and Corollary 6.8: the reports tell about `(d - 1) log(n) / 2`
        nats of the distribution and `(d + b' - 2) log(n) / 2` of the tally, true values `(a - 1)
        log(n) / 2` and `(a - 1) log n`. (C.2), in the proof of the corollary, has `b' = a - 1` for
        true values and the growth `(d + b' - 1) / 2`: the theorem's are right.
    """
    utility = asymptotic_utility(mechanism, prior, rng=rng)
    finite, obstacle = None, ""
    if users is not None:
        try:
            finite = reports_information(mechanism, prior, users, rng=rng)
        except UndecidableError as error:
            obstacle = str(error)
    dimensions, classes = matrix_rank(mechanism), int(classes_of_values(mechanism).max()) + 1
    return Metrics(
        ldp=mechanism.ldp_level,
        average_privacy=average_privacy(mechanism, prior),
        worst_case_privacy=worst_case_privacy(mechanism),
        asymptotic_utility=utility.value,
        participation=participation(utility, prior).value,
        participation_bound=participation_bound(mechanism, prior),
        participation_bound_any_prior=prior_free_participation_bound(mechanism),
        entropy_given_p=prior.value_entropy_given_distribution,
        rank=dimensions,
        classes=classes,
        distribution_utility_limit=(dimensions - 1) / (prior.values - 1),
        tally_utility_limit=(dimensions + classes - 2) / (2 * prior.values - 2),
        distribution_utility=None if finite is None else finite.distribution_utility(prior),
        tally_utility=None if finite is None else finite.tally_utility(prior),
        digit_utility=None if finite is None else finite.digit_utility(prior),
        asymptotic_utility_error=utility.standard_error,
        digit_utility_error=0.0 if finite is None else finite.standard_error / (prior.values - 1),
        tally_utility_error=0.0
        if finite is None or users is None
        else finite.tally_error / prior.tally_entropy(users),
        obstacle=obstacle,
    )


def metrics_of_points(
    mechanism: Mechanism, prior: PointPrior, *, users: int | None = None
) -> Metrics:
    """Return the metrics of a mechanism under a prior of finitely many distributions.

    Finitely many distributions are told apart with certainty in the end, at no rate of digits: the
    asymptotic and the digit utility are infinite, and there is no participation.
    """
    distribution = tally = None
    obstacle = ""
    if users is not None:
        try:
            distribution, tally = point_utilities(mechanism, prior, users)
        except UndecidableError as error:
            obstacle = str(error)
    return Metrics(
        ldp=mechanism.ldp_level,
        average_privacy=average_privacy_of_points(mechanism, prior),
        worst_case_privacy=worst_case_privacy(mechanism),
        asymptotic_utility=math.inf,
        participation=math.inf,
        participation_bound=math.inf,
        participation_bound_any_prior=math.inf,
        entropy_given_p=prior.value_entropy_given_distribution,
        rank=matrix_rank(mechanism),
        classes=int(classes_of_values(mechanism).max()) + 1,
        distribution_utility_limit=math.inf,
        tally_utility_limit=math.inf,
        distribution_utility=distribution,
        tally_utility=tally,
        digit_utility=None,
        asymptotic_utility_error=0.0,
        digit_utility_error=0.0,
        tally_utility_error=0.0,
        obstacle=obstacle,
    )
