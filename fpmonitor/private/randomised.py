"""Randomised answers: planning the request, and estimating from the counts.

The last value of a randomisation stands for all values that are not listed. The limits of the
exposure hold whatever these are: they expose least as one group, and most if all are exposed.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.estimate.composition import SizedTails
from fpmonitor.ldp.exposure import ApiReports, randomised_limits
from fpmonitor.ldp.mechanisms import LocalHash, Mechanism, StochasticMatrix
from fpmonitor.ldp.planner import PROTOCOLS, ApiPlan, plan_api
from fpmonitor.private.counts import ApiSet, projected
from fpmonitor.private.study import (
    MATRIX_TOTAL,
    MECHANISMS,
    UNARY,
    CollectionRequest,
    MechanismName,
    Randomisation,
    Study,
    check_ask,
)
from fpmonitor.private.tokens import REDACTED, fitting, is_report
from fpmonitor.private.wire import token_limit
from fpmonitor.spectrum import CountSpectrum

_NO_REPORT = "counts: a token is not a report of the randomisation"


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedShare:
    """Estimated share of a value."""

    token: str  # The value as listed; the last one stands for all others.
    share: float  # Unbiased estimate of its probability; may be negative or above 1.
    # lower, upper: Limits of the probability.
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomisedApi:
    """Estimates from the randomised answers on one API, or on several together."""

    # api, mechanism, epsilon: The API, or APIs separated by commas, and how they are randomised;
    # epsilon in nats, null where a matrix has no LDP level.
    api: str
    mechanism: str
    epsilon: float | None
    users: int  # Number of reports.
    # lower, upper: Limits of the statistical exposure `Q(n, k)`, shares of the users.
    lower: float
    upper: float
    # All listed values. All limits hold together with probability `1 - delta`.
    values: tuple[EstimatedShare, ...]


# Randomised answers on an API set: the request, and the number of users by tokens.
RandomisedAnswers: TypeAlias = "tuple[CollectionRequest, Mapping[tuple[str, ...], int]]"


def mechanism_of(plan: Randomisation) -> Mechanism:
    """Return the mechanism that users apply."""
    if plan.matrix is not None:
        return StochasticMatrix(np.array(plan.matrix) / MATRIX_TOTAL)
    if plan.hash_range is not None:
        return LocalHash(len(plan.values), plan.level, plan.hash_range)
    return PROTOCOLS[plan.mechanism](len(plan.values), plan.level)


def estimate(
    study: Study,
    ask: CollectionRequest,
    apis: ApiSet,
    counts: Mapping[tuple[str, ...], int],
    *,
    delta: float,
) -> RandomisedApi:
    """Estimate the frequencies and the exposure of an API set from its randomised answers.

    Args:
        study, ask, apis: The terms, the request, and APIs that it randomises, in one set.
        counts: Number of users by tokens of these APIs alone.
        delta: Tolerated probability that any of the limits fails, in (0, 1).

    Raises:
        InputError: An API is not randomised, or is redacted, too; a token is not a report on it;
            or a matrix is not faithful.
        UndecidableError: Fewer than `k` users answered.
    """
    name = ", ".join(apis)
    if not any(set(apis) <= set(one) for one in ask.sets) or not set(apis) <= ask.randomise.keys():
        raise InputError(f"ask: does not randomise {name}")
    if any(api in ask.redact for api in apis):
        raise InputError(
            f"ask: redacts the reports on {name}, so that frequencies cannot be estimated"
        )
    users = sum(counts.values())
    if users < study.k:
        raise UndecidableError(f"{name}: fewer than k = {study.k} users answered")
    plans = [ask.randomise[api] for api in apis]
    reports = _reports_of(study, ask, apis, counts)
    low, high = reports.limits(delta)
    shares = reports.frequencies()
    lower, upper = limits_of_exposure(study, low, high, rest=_rest_of(plans))
    levels = [plan.epsilon for plan in plans if plan.epsilon is not None]
    return RandomisedApi(
        api=name,
        mechanism=", ".join(dict.fromkeys(plan.mechanism for plan in plans)),
        epsilon=sum(levels) if len(levels) == len(plans) else None,
        users=users,
        lower=lower,
        upper=upper,
        values=tuple(
            EstimatedShare(
                token=", ".join(tokens), share=float(one), lower=float(least), upper=float(most)
            )
            for tokens, one, least, most in zip(
                _joint_values(plans), shares, low, high, strict=True
            )
        ),
    )


def _joint_values(plans: Sequence[Randomisation]) -> list[tuple[str, ...]]:
    """Return the joint values of some APIs, in the order of their joint matrix."""
    return list(itertools.product(*(plan.values for plan in plans)))


def _rest_of(plans: Sequence[Randomisation]) -> NDArray[np.bool_]:
    """Return which joint values stand for others: those in which an API has its last value."""
    lasts = [np.arange(len(plan.values)) == len(plan.values) - 1 for plan in plans]
    return np.asarray(reduce(np.logical_or.outer, lasts).ravel(), dtype=np.bool_)


def limits_of_exposure(
    study: Study,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    *,
    rest: NDArray[np.bool_] | None = None,
) -> tuple[float, float]:
    """Return limits of the exposure, whatever lies behind values that stand for others.

    `low` and `high` limit the probabilities of all listed values, shares; `rest` says which of them
    stand for others, the last one by default.
    """
    lower, upper = randomised_limits(low, high, k=study.k, population=study.population)
    others = float(high[-1] if rest is None else high[rest].sum())
    return lower, min(1.0, upper + others)


def with_parts(
    randomised: Mapping[ApiSet, RandomisedAnswers],
) -> dict[ApiSet, RandomisedAnswers]:
    """Return the answers, with those on all sets within the requested ones.

    A user draws one report on an API, so that reports on a part are those of the whole.
    """
    known = dict(randomised)
    for apis, (ask, counts) in randomised.items():
        for size in range(1, len(apis)):
            for part in itertools.combinations(apis, size):
                places = [apis.index(api) for api in part]
                known.setdefault(part, (ask, projected(counts, places)))
    return known


def ranked_values(
    study: Study,
    apis: ApiSet,
    answers: RandomisedAnswers,
    *,
    delta: float,
    rng: np.random.Generator,
) -> tuple[list[tuple[str, ...]], SizedTails]:
    """Rank the listed values by one half of the answers, and bound what the first ones leave out.

    Args:
        delta: Tolerated probability that any of the tails fails, in (0, 1).
        rng: Splits the answers: the other half must not know by which order it is counted.
    """
    ask, by_token = answers
    plans = [ask.randomise[api] for api in apis]
    tokens = sorted(by_token)
    counts = np.array([by_token[token] for token in tokens], dtype=np.int64)
    # A coin for each user, not half of each count: both halves are independent draws then.
    first = rng.binomial(counts, 0.5)
    halves = [dict(zip(tokens, half.tolist(), strict=True)) for half in (first, counts - first)]
    listed = np.flatnonzero(~_rest_of(plans))
    if not listed.size or not all(sum(half.values()) for half in halves):
        return [], SizedTails(sizes=np.ones(1), tails=np.ones(1))
    ranking, held_out = (_reports_of(study, ask, apis, half) for half in halves)
    order = listed[np.argsort(-ranking.frequencies()[listed], kind="stable")]
    # Each size costs a share of delta: few, and none far from the best one.
    sizes = np.unique(np.geomspace(1, listed.size, 4 * listed.size.bit_length()).round())
    inside = [held_out.least_inside(order[: int(size)], delta / sizes.size) for size in sizes]
    values = _joint_values(plans)
    return [values[at] for at in order], SizedTails(sizes=sizes, tails=1 - np.array(inside))


def _reports_of(
    study: Study, ask: CollectionRequest, apis: ApiSet, counts: Mapping[tuple[str, ...], int]
) -> ApiReports:
    """Return the reports by which values they support, or by their number for a matrix."""
    if len(apis) > 1:
        return _joint_reports(study, [ask.randomise[api] for api in apis], counts)
    plan = ask.randomise[apis[0]]
    by_token = {token: users for (token,), users in counts.items()}
    mechanism = mechanism_of(plan)
    if isinstance(mechanism, StochasticMatrix):
        support = _report_counts(plan, by_token, len(mechanism.probabilities))
    else:
        support = _support_counts(study, plan, by_token)
    return ApiReports(mechanism=mechanism, support_counts=support, users=sum(by_token.values()))


def _joint_reports(
    study: Study,
    plans: Sequence[Randomisation],
    counts: Mapping[tuple[str, ...], int],
) -> ApiReports:
    """Return reports on several APIs, each randomised on its own: their matrices' product."""
    matrix: NDArray[np.float64] = np.ones((1, 1))
    for plan in plans:
        matrix = np.asarray(np.kron(matrix, mechanism_of(plan).matrix()), dtype=np.float64)
    numbers = []
    for plan in plans:
        names = [f"={number}" for number in range(len(plan.matrix))] if plan.matrix else plan.values
        numbers.append(_numbers_of(study, names))
    found = np.zeros([1 + max(one.values()) for one in numbers], dtype=np.int64)
    for tokens, users in counts.items():
        if not all(token in one for token, one in zip(tokens, numbers, strict=True)):
            raise InputError(_NO_REPORT)
        found[*(one[token] for token, one in zip(tokens, numbers, strict=True))] += users
    return ApiReports(
        mechanism=StochasticMatrix(matrix), support_counts=found.ravel(), users=int(found.sum())
    )


def _numbers_of(study: Study, values: Sequence[str]) -> dict[str, int]:
    """Return the number of each value by its token, a digest where a request left less room.

    Reports on a part of a requested set are those of the whole, which has the least room.
    """
    sizes = range(1, study.largest_set + 1)
    limits = {token_limit(study.report_bytes, ("",) * size) for size in sizes}
    return {
        fitting(value, limit, study.id): number
        for number, value in enumerate(values)
        for limit in limits
    }


def _report_counts(
    plan: Randomisation, by_token: Mapping[str, int], reports: int
) -> NDArray[np.int64]:
    """Count the users who sent each report of a matrix, int64, shape (reports,)."""
    if not all(is_report(token, plan) for token in by_token):
        raise InputError(_NO_REPORT)
    return np.array([by_token.get(f"={number}", 0) for number in range(reports)], dtype=np.int64)


def _support_counts(
    study: Study, plan: Randomisation, by_token: Mapping[str, int]
) -> NDArray[np.int64]:
    """Count the reports that support each value, int64, shape (values,)."""
    numbers = _numbers_of(study, plan.values)
    if not all(_is_report(token, plan, numbers) for token in by_token):
        raise InputError(_NO_REPORT)
    if plan.is_unary:
        rows = [[users * (bit == "1") for bit in token[1:]] for token, users in by_token.items()]
        return np.asarray(np.array(rows, dtype=np.int64).sum(axis=0), dtype=np.int64)
    if plan.hash_range is not None:
        return _hash_support(LocalHash(len(plan.values), plan.level, plan.hash_range), by_token)
    found = np.zeros(len(plan.values), dtype=np.int64)
    for token, users in by_token.items():
        found[numbers[token]] += users
    return found


def _is_report(token: str, plan: Randomisation, numbers: Collection[str]) -> bool:
    return token in numbers if plan.mechanism == "grr" else is_report(token, plan)


def _hash_support(mechanism: LocalHash, users: Mapping[str, int]) -> NDArray[np.int64]:
    parts = [token[1:].split(".") for token in users for _ in range(users[token])]
    seeds = np.array([int(seed, 16) for seed, _ in parts], dtype=np.uint64)
    hashes = np.array([int(hash_text) for _, hash_text in parts], dtype=np.int64)
    return mechanism.support_counts((seeds, hashes))


def plan_randomisation(
    api: str,
    tokens: Mapping[str, int],
    *,
    study: Study,
    users: int,
    accuracy: float | None = None,
    budget: float | None = None,
    joined: bool = False,
) -> tuple[ApiPlan, Randomisation | None]:
    """Choose how to randomise an API, by a collection without randomisation.

    Values of fewer than `k` users are not listed, since a request is public: they are the rest.

    Args:
        tokens: Number of users by token.
        study: `k` and `n` of the exposure, and `delta`, which its APIs share evenly.
        users: Users who will report.
        accuracy: Largest half distance of the limits of the exposure, in (0, 1).
        budget: In place of it: largest upper limit, as a curator would have it.
        joined: Whether reports on several APIs are sent together.

    Returns:
        The plan, and its randomisation; None where no mechanism is accurate enough.
    """
    listed = _listed(api, tokens, study)
    rest = sum(tokens.values()) - sum(tokens[token] for token in listed)
    plan = plan_api(
        api,
        CountSpectrum.from_counts([tokens[token] for token in listed]),
        rest=rest,
        users=users,
        k=study.k,
        population=study.population,
        accuracy=accuracy,
        budget=budget,
        # With a budget, the share that `Knowledge` will have for tails of a single API.
        delta=study.delta / len(study.apis) / (1 if budget is None else 2 * study.largest_set),
        # Reports on several APIs are decoded by one matrix: bits and hashes have too many.
        mechanisms=("grr",) if joined else _with_room(study, len(listed) + 1),
    )
    return plan, randomisation_of(plan, listed_values(api, tokens, study=study))


def listed_values(api: str, tokens: Mapping[str, int], *, study: Study) -> tuple[str, ...]:
    """List the values of an API for a request: those of `k` users or more, and the rest."""
    limit = token_limit(study.report_bytes, ("",))
    listed = (fitting(token, limit, study.id) for token in _listed(api, tokens, study))
    return (*listed, REDACTED)


def _listed(api: str, tokens: Mapping[str, int], study: Study) -> list[str]:
    listed = sorted(
        token for token, users in tokens.items() if users >= study.k and token != REDACTED
    )
    if not listed:
        raise UndecidableError(f"{api}: no value has k = {study.k} users")
    return listed


def randomisation_of(plan: ApiPlan, values: tuple[str, ...]) -> Randomisation | None:
    """Return the randomisation of a plan; None where the plan found no mechanism.

    `values` are the tokens to be listed, the last one for all others.

    Raises:
        InputError: The number of values is not the planned one.
    """
    if plan.mechanism is None or plan.epsilon is None:
        return None
    if len(values) != plan.values:
        raise InputError(f"{plan.api}: planned for {plan.values} values, not {len(values)}")
    [mechanism] = [name for name in MECHANISMS if name == plan.mechanism]
    return Randomisation(
        mechanism=mechanism, epsilon=plan.epsilon, values=values, hash_range=plan.hash_range
    )


def _with_room(study: Study, values: int) -> tuple[MechanismName, ...]:
    """Return the mechanisms whose reports fit into a message of the study."""
    if values < token_limit(study.report_bytes, ("",)):
        return MECHANISMS
    return tuple(name for name in MECHANISMS if name not in UNARY)


def randomised_ask(
    study: Study,
    plans: Mapping[str, Randomisation],
    *,
    epoch: int,
    size: int = 1,
) -> CollectionRequest:
    """Return round 1: all sets of a size of the planned APIs; others are not requested."""
    ask = CollectionRequest(
        study=study.id.hex(),
        epoch=epoch,
        round=1,
        recipient="curator",
        sets=tuple(itertools.combinations(sorted(plans), min(size, len(plans)))),
        randomise=plans,
    )
    check_ask(study, ask)
    return ask
