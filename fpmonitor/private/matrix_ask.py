"""Stochastic matrices in a request: the integer weights to draw by, and what to expect."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.errors import PolicyError
from fpmonitor.ldp.fisher import is_faithful
from fpmonitor.ldp.frequency import limits_at_shares
from fpmonitor.ldp.metrics import average_privacy
from fpmonitor.ldp.planner import ApiPlan
from fpmonitor.ldp.priors import DirichletPrior
from fpmonitor.private.randomised import limits_of_exposure, mechanism_of
from fpmonitor.private.study import (
    MATRIX_TOTAL,
    Randomisation,
    Study,
    check_matrix_size,
    matrix_epsilon,
)
from fpmonitor.private.tokens import fitting
from fpmonitor.private.wire import token_limit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.ldp.mechanisms import StochasticMatrix


def matrix_randomisation(
    matrix: StochasticMatrix, values: Sequence[str], *, study: Study
) -> Randomisation:
    """Return the randomisation by a matrix, its probabilities rounded by less than 1e-10.

    Users draw from the rounded distributions, and estimates use them. `values` are the tokens of
    the columns, the last one for all others; those too long for a report of the study are listed by
    their digests.

    Raises:
        PolicyError: `mechanism`: not faithful, so that shares cannot be estimated from the reports.
        InputError: Values are missing or repeated, or the matrix is too large for a request.
    """
    check_matrix_size(*matrix.probabilities.shape)
    if not is_faithful(matrix):
        raise PolicyError(
            "mechanism",
            "is not faithful: different distributions of the values have the same reports",
        )
    limit = token_limit(study.report_bytes, ("",))
    rows = _in_whole_numbers(matrix.probabilities)
    level = matrix_epsilon(rows)
    return Randomisation(
        mechanism="matrix",
        epsilon=level if level < math.inf else None,
        values=tuple(fitting(value, limit, study.id) for value in values),
        matrix=rows,
    )


def _in_whole_numbers(probabilities: NDArray[np.float64]) -> tuple[tuple[int, ...], ...]:
    """Return multiples of `1 / MATRIX_TOTAL`; only 0 becomes 0, at the cost of the largest cell."""
    cells = np.maximum(np.rint(probabilities * MATRIX_TOTAL), probabilities > 0).astype(np.int64)
    columns = np.arange(cells.shape[1])
    cells[cells.argmax(axis=0), columns] += MATRIX_TOTAL - cells.sum(axis=0)
    return tuple(map(tuple, cells.tolist()))


def foresee_matrix(
    api: str,
    plan: Randomisation,
    *,
    study: Study,
    tokens: Mapping[str, int] | None = None,
    users: int = 0,
) -> ApiPlan:
    """Foresee the privacy of a matrix in a request, and the accuracy of the exposure.

    `tokens` and `users` are the number of users by token, from a collection without randomisation,
    and how many will report; without them the accuracy is not known.
    """
    mechanism = mechanism_of(plan)
    accuracy = None
    if tokens is not None:
        chances = mechanism.matrix() @ _shares(plan, tokens, study)
        delta = study.delta / len(study.apis)
        limits = limits_at_shares(mechanism, chances, users, delta=delta)
        lower, upper = limits_of_exposure(study, *limits)
        accuracy = (upper - lower) / 2
    return ApiPlan(
        api=api,
        values=len(plan.values),
        mechanism=plan.mechanism,
        epsilon=plan.epsilon,
        average_privacy=average_privacy(mechanism, DirichletPrior.jeffreys(len(plan.values))),
        accuracy=accuracy,
    )


def _shares(plan: Randomisation, tokens: Mapping[str, int], study: Study) -> NDArray[np.float64]:
    """Return the share of users with each listed value, all others at the last."""
    limit = token_limit(study.report_bytes, ("",))
    places = {value: place for place, value in enumerate(plan.values)}
    value_counts = np.zeros(len(plan.values))
    for token, number in tokens.items():
        value_counts[places.get(fitting(token, limit, study.id), -1)] += number
    return np.asarray(value_counts / value_counts.sum(), dtype=np.float64)
