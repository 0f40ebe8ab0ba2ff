"""Choice of mechanism and epsilon: comparisons at equal terms, and plans for an API."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy

from fpmonitor.errors import PolicyError
from fpmonitor.estimate.exposure import most_exposed
from fpmonitor.ldp.checks import (
    MAX_EPSILON,
    check_epsilon,
    check_values,
    check_whole_number,
)
from fpmonitor.ldp.exposure import randomised_limits
from fpmonitor.ldp.frequency import clopper_pearson, decoding_matrix
from fpmonitor.ldp.mechanisms import (
    LocalHash,
    Mechanism,
    PureMechanism,
    RandomisedResponse,
    StochasticMatrix,
    basic_rappor,
    binary_local_hash,
    hadamard_response,
    optimised_unary_encoding,
)
from fpmonitor.ldp.metrics import (
    asymptotic_utility,
    average_privacy,
    participation,
    worst_case_privacy,
)
from fpmonitor.ldp.optimal import optimal_matrix
from fpmonitor.ldp.priors import DirichletPrior, prior_of
from fpmonitor.ldp.subsets import SubsetSelection
from fpmonitor.policy import check_share, check_threshold

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fpmonitor.spectrum import CountSpectrum

PROTOCOLS: dict[str, Callable[[int, float], PureMechanism]] = {
    "grr": RandomisedResponse,
    "rappor": basic_rappor,
    "oue": optimised_unary_encoding,
    "blh": binary_local_hash,
}
MATRIX = "matrix"
_LEAST_EPSILON = 1e-3
_EPSILON_TOLERANCE = 1e-9
_NOTICEABLE = 1.001  # above what the search of the best matrix leaves open
# Each 7 % above the one before.
_PLAN_EPSILONS = np.geomspace(0.05, 16, 85)
MAX_PLANNED_VALUES = 10  # for which the best matrix is found in a moment
TRADE_OFF_EPSILONS = tuple(float(epsilon) for epsilon in np.geomspace(0.1, 8, 25))


_ALL: dict[str, Callable[[int, float], PureMechanism]] = {**PROTOCOLS, "lh": LocalHash}
# Compared at equal epsilon only: the page snippet does not speak them, but takes any matrix.
OF_SETS: dict[str, Callable[[int, float], SubsetSelection | StochasticMatrix]] = {
    "ss": SubsetSelection,
    "hr": hadamard_response,
}
_MAX_SET_VALUES = 1_000
_MOST_SETS = 2_000  # of which the asymptotic utility is integrated in a moment


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMechanism:
    """One mechanism of a comparison."""

    mechanism: str  # Name of the protocol.
    # LDP level, nats; None, as all that follows, when the protocol cannot meet the terms.
    epsilon: float | None
    hash_range: int | None = None  # Number of hashes of local hashing; None for others.
    # average_privacy, worst_case_privacy: `S_mu` and `S^wc`, shares.
    average_privacy: float | None = None
    worst_case_privacy: float | None = None
    asymptotic_utility: float | None = None  # `U^as`, nats.
    asymptotic_utility_error: float | None = None  # Standard error of it.
    participation: float | None = None  # `F_mu`, a share.
    equivalent_users: float | None = None  # Number of truthful users with the same utility.
    # Standard error of the estimated share of a value that all values share evenly.
    frequency_error: float | None = None


def compare_at_equal_terms(
    values: int,
    users: int,
    *,
    epsilon: float | None = None,
    privacy: float | None = None,
    utility: float | None = None,
    alpha: Sequence[float] | None = None,
    seed: int = 0,
) -> list[ComparedMechanism]:
    """Compare the protocols at equal epsilon, equal average privacy, or equal utility.

    Args:
        values: Number of values.
        users: Number of users who report.
        epsilon: LDP level of all, nats: equal worst-case privacy.
        privacy: Average privacy `S_mu` of all, in (0, 1).
        utility: Effective participation `F_mu` of all, in (0, 1), which grows with the asymptotic
            utility.
        alpha: Parameters of the Dirichlet prior, one per value; Jeffreys' by default.
        seed: Of the quasi Monte Carlo integrals.

    Raises:
        PolicyError: Not exactly one of the three terms, or a number out of range.
    """
    check_values(values)
    check_whole_number("users", users, least=1, most=10**10)
    prior = prior_of(alpha, values)
    if [epsilon, privacy, utility].count(None) != 2:
        raise PolicyError("epsilon", "give exactly one of epsilon, privacy and utility")
    rows = []
    for name, protocol in _ALL.items():
        if privacy is not None:
            check_share("privacy", privacy)
            found = _mechanism_where(name, prior, _excess_privacy(prior, privacy))
        elif utility is not None:
            check_share("utility", utility)
            found = _mechanism_where(name, prior, _lacking_participation(prior, utility, seed))
        else:
            found = (epsilon or 0.0, protocol(values, epsilon or 0.0))
        rows.append(_compared(name, prior, users, found, seed))
    return rows


def compare_protocols_of_sets(
    values: int,
    users: int,
    epsilon: float,
    *,
    alpha: Sequence[float] | None = None,
    seed: int = 0,
) -> list[ComparedMechanism]:
    """Compare the protocols of `OF_SETS` at an epsilon; none beyond 1,000 values.

    Arguments as of `compare_at_equal_terms`.
    """
    prior = prior_of(alpha, values)
    return [
        _compared(name, prior, users, (epsilon, make(values, epsilon)), seed)
        for name, make in (OF_SETS if values <= _MAX_SET_VALUES else {}).items()
    ]


def _compared(
    name: str,
    prior: DirichletPrior,
    users: int,
    found: tuple[float, Mechanism] | None,
    seed: int,
) -> ComparedMechanism:
    if found is None:
        return ComparedMechanism(mechanism=name, epsilon=None)
    epsilon, mechanism = found
    row = ComparedMechanism(
        mechanism=name,
        epsilon=epsilon,
        hash_range=_hash_range(mechanism),
        worst_case_privacy=worst_case_privacy(mechanism),
        frequency_error=_frequency_error(mechanism, users),
    )
    if isinstance(mechanism, SubsetSelection) and mechanism.sets > _MOST_SETS:
        return row if len(set(prior.alpha)) > 1 else _private(row, mechanism, prior)
    utility = asymptotic_utility(mechanism, prior, rng=np.random.default_rng(seed))
    factor = participation(utility, prior).value
    return replace(
        _private(row, mechanism, prior),
        asymptotic_utility=utility.value,
        asymptotic_utility_error=utility.standard_error,
        participation=factor,
        equivalent_users=factor * users,
    )


def _private(
    row: ComparedMechanism, mechanism: Mechanism, prior: DirichletPrior
) -> ComparedMechanism:
    return replace(row, average_privacy=average_privacy(mechanism, prior))


def _frequency_error(mechanism: Mechanism, users: int) -> float:
    """Return the standard error of the share of a value where all are as frequent."""
    if isinstance(mechanism, StochasticMatrix):
        scores = decoding_matrix(mechanism)[0]
        variance = scores**2 @ mechanism.matrix().mean(axis=1) - 1 / mechanism.values**2
        return math.sqrt(variance / users)
    gain = mechanism.true_support - mechanism.false_support
    chance = mechanism.false_support + gain / mechanism.values
    return math.sqrt(chance * (1 - chance) / users) / gain


def _hash_range(mechanism: Mechanism) -> int | None:
    return mechanism.hash_range if isinstance(mechanism, LocalHash) else None


def _excess_privacy(prior: DirichletPrior, privacy: float) -> Callable[[PureMechanism], float]:
    return lambda mechanism: average_privacy(mechanism, prior) - privacy


def _lacking_participation(
    prior: DirichletPrior, share: float, seed: int
) -> Callable[[PureMechanism], float]:
    """Use the same quasi Monte Carlo points at every epsilon, so that the search sees no noise."""

    def lacking(mechanism: PureMechanism) -> float:
        utility = asymptotic_utility(mechanism, prior, rng=np.random.default_rng(seed))
        return math.log(share) - math.log(participation(utility, prior).value)

    return lacking


def _mechanism_where(
    name: str, prior: DirichletPrior, falling: Callable[[PureMechanism], float]
) -> tuple[float, PureMechanism] | None:
    """Return epsilon and mechanism where a measure that falls with epsilon is 0; None if nowhere.

    The number of hashes follows epsilon in jumps: it is fixed first, then epsilon once more.
    """
    protocol = _ALL[name]
    epsilon = _root(lambda trial: falling(protocol(prior.values, trial)))
    if epsilon is None:
        return None
    hashes = _hash_range(protocol(prior.values, epsilon))
    if hashes is None:
        return epsilon, protocol(prior.values, epsilon)
    epsilon = _root(lambda trial: falling(LocalHash(prior.values, trial, hashes)))
    return None if epsilon is None else (epsilon, LocalHash(prior.values, epsilon, hashes))


def _root(falling: Callable[[float], float]) -> float | None:
    """Return the epsilon at which a falling function of it is 0; None if it is nowhere."""

    def of_logarithm(log_epsilon: float) -> float:
        return falling(math.exp(log_epsilon))

    ends = math.log(_LEAST_EPSILON), math.log(MAX_EPSILON / 2)
    if of_logarithm(ends[0]) < 0 or of_logarithm(ends[1]) > 0:
        return None
    return math.exp(float(scipy.optimize.brentq(of_logarithm, *ends, xtol=_EPSILON_TOLERANCE)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiPlan:
    """How to collect one API."""

    api: str
    values: int  # Number of values to list before collection.
    # mechanism, epsilon: The protocol that meets the accuracy with the greatest average privacy,
    # and its least epsilon, nats; None when none does. At a given epsilon, the mechanism that tells
    # most, which may be the best `matrix`.
    mechanism: str | None = None
    epsilon: float | None = None
    hash_range: int | None = None  # Number of hashes of local hashing; None for others.
    average_privacy: float | None = None  # `S_mu` of it under Jeffreys' prior, a share.
    # Half the expected distance of the limits of the exposure, a share of the users; None at a
    # given epsilon.
    accuracy: float | None = None
    # Number of users whose answers are expected to prove the exposure within a given budget, 0
    # where so few values cannot expose more; None without a budget.
    users: int | None = None


def plan_api(
    api: str,
    spectrum: CountSpectrum,
    *,
    users: int,
    k: int,
    population: int,
    accuracy: float | None = None,
    budget: float | None = None,
    delta: float,
    mechanisms: Sequence[str] = tuple(_ALL),
    rest: int | None = None,
) -> ApiPlan:
    """Return the mechanism and the least epsilon by which an API is known well enough.

    The distribution is taken to be that of the spectrum. Limits are foreseen at the expected
    reports.

    Args:
        api: Name of the API.
        spectrum: Users with each value, from a collection without randomisation.
        users: Number of users who will report.
        k, population: Anonymity threshold and `n`, users, of the exposure.
        accuracy: Largest half width of the limits, a share of the users, in (0, 1).
        budget: In place of it: largest upper limit.
        delta: Tolerated probability that a limit fails, in (0, 1).
        mechanisms: Names of the mechanisms to choose from.
        rest: Number of users besides those of the spectrum, whose values will be reported as one
            more value for the rest; all of them may be exposed.
    """
    check_threshold(k, population)
    for name, wanted in (("accuracy", accuracy), ("budget", budget)):
        if wanted is not None:
            check_share(name, wanted)
    check_share("delta", delta)
    check_whole_number("users", users, least=1, most=10**10)
    values = spectrum.support + (rest is not None)

    def half_width_within(mechanism: PureMechanism) -> float | None:
        limits = _foreseen(
            mechanism, spectrum, rest=rest, users=users, k=k, population=population, delta=delta
        )
        return _half_width_within(limits, accuracy, budget)

    plans: list[ApiPlan] = []
    for name in mechanisms if values > 1 else ():
        series = [_ALL[name](values, float(epsilon)) for epsilon in _PLAN_EPSILONS]
        first = _first_within_terms(series, lambda one: half_width_within(one) is not None)
        if first is not None:
            plan = ApiPlan(
                api=api,
                values=values,
                mechanism=name,
                epsilon=float(_PLAN_EPSILONS[first]),
                hash_range=_hash_range(series[first]),
                average_privacy=average_privacy(series[first], DirichletPrior.jeffreys(values)),
                accuracy=half_width_within(series[first]),
            )
            plans.append(plan)
    nothing = ApiPlan(api=api, values=values)
    return max(plans, key=lambda plan: plan.average_privacy or 0.0, default=nothing)


def _half_width_within(
    limits: tuple[float, float], accuracy: float | None, budget: float | None
) -> float | None:
    """Return the half width of limits that meet the terms; None if they do not."""
    lower, upper = limits
    half_width = (upper - lower) / 2
    far = accuracy is not None and half_width > accuracy
    return None if far or (budget is not None and upper > budget) else half_width


def fewest_users(
    api: str,
    spectrum: CountSpectrum,
    *,
    epsilon: float,
    k: int,
    population: int,
    budget: float,
    delta: float,
) -> ApiPlan:
    """Return the mechanism of an LDP level by which the fewest users prove an API within a budget.

    The distribution is taken to be that of the spectrum; the upper limit is foreseen at the
    expected reports. None is found where more than 10^10 users would be needed.

    Args:
        epsilon: LDP level, nats, above 0.
        budget: Largest tolerated exposure, a share of the users, in (0, 1).
    """
    check_threshold(k, population)
    check_share("budget", budget)
    check_share("delta", delta)
    check_epsilon(epsilon)
    values = spectrum.support
    if needs_no_answers(values, k=k, population=population, accuracy=budget / 2):
        return ApiPlan(api=api, values=values, epsilon=epsilon, users=0)
    plans = []
    for name in _ALL if values > 1 else ():
        mechanism = _ALL[name](values, epsilon)

        def upper(users: int, made: PureMechanism = mechanism) -> float:
            seen = _foreseen(
                made, spectrum, rest=None, users=users, k=k, population=population, delta=delta
            )
            return seen[1]

        users = _first_within(upper, budget)
        if users is not None:
            prior = DirichletPrior.jeffreys(values)
            plan = ApiPlan(
                api=api,
                values=values,
                mechanism=name,
                epsilon=epsilon,
                hash_range=_hash_range(mechanism),
                average_privacy=average_privacy(mechanism, prior),
                users=users,
            )
            plans.append(plan)
    nothing = ApiPlan(api=api, values=values)
    return min(plans, key=lambda plan: plan.users or 0, default=nothing)


def _first_within(upper: Callable[[int], float], budget: float) -> int | None:
    """Return the least number of users, to a percent, from which on a falling limit is within."""
    most = next((10**size for size in range(11) if upper(10**size) <= budget), None)
    if most is None or most == 1:
        return most
    least = most // 10
    while most > 1.01 * least + 1:
        middle = round(math.sqrt(least * most))
        least, most = (least, middle) if upper(middle) <= budget else (middle, most)
    return most


def needs_no_answers(values: int, *, k: int, population: int, accuracy: float) -> bool:
    """Whether the accuracy is met without any answer: `s` values cannot expose more.

    On average over populations: half of `s (k - 1) / n` at k = 5, nine tenths at 1,000.
    """
    return values * most_exposed(k, population) <= 2 * accuracy


def most_telling(api: str, values: int, epsilon: float) -> ApiPlan:
    """Return the mechanism of greatest asymptotic utility at an LDP level, Jeffreys' prior.

    Args:
        api: Name of the API.
        values: How many it can have. Up to 10, the best matrix of all is among the candidates.
        epsilon: LDP level, nats, above 0.

    Notes:
        "LDP metrics", section 11, asks for the best mechanism at given privacy: see
        `optimal.optimal_matrix`.
    """
    check_epsilon(epsilon)
    if values < 2:
        return ApiPlan(api=api, values=values)
    rows = compare_at_equal_terms(values, 1, epsilon=epsilon)
    found = max(rows, key=lambda row: row.participation or 0.0)
    plan = ApiPlan(
        api=api,
        values=values,
        mechanism=found.mechanism,
        epsilon=epsilon,
        hash_range=found.hash_range,
        average_privacy=found.average_privacy,
    )
    if values > MAX_PLANNED_VALUES:
        return plan
    prior = DirichletPrior.jeffreys(values)
    best, _ = optimal_matrix(prior, epsilon, rng=np.random.default_rng(0))
    if _participation(best, prior) <= (found.participation or 0.0) * _NOTICEABLE:
        return plan
    return replace(
        plan,
        mechanism=MATRIX,
        hash_range=None,
        average_privacy=average_privacy(best, prior),
    )


def _participation(mechanism: Mechanism, prior: DirichletPrior) -> float:
    utility = asymptotic_utility(mechanism, prior, rng=np.random.default_rng(0))
    return participation(utility, prior).value


def participations_of(plan: ApiPlan) -> dict[str, float | None]:
    """Compare a planned mechanism with the best matrix that is as private in the worst case.

    Effective participation `F_mu` under Jeffreys' prior, shares; null above 10 values. The best
    matrix of an LDP level: see `optimal.optimal_matrix`.
    """
    if plan.mechanism is None or plan.epsilon is None or plan.values > MAX_PLANNED_VALUES:
        return {"participation": None, "best_participation": None}
    prior = DirichletPrior.jeffreys(plan.values)
    best, _ = optimal_matrix(prior, plan.epsilon, rng=np.random.default_rng(0))
    planned: Mechanism = best
    if plan.mechanism != MATRIX:
        hashes = () if plan.hash_range is None else (plan.hash_range,)
        protocol = LocalHash if hashes else _ALL[plan.mechanism]
        planned = protocol(plan.values, plan.epsilon, *hashes)
    return {
        "participation": _participation(planned, prior),
        "best_participation": _participation(best, prior),
    }


def _first_within_terms(
    series: Sequence[PureMechanism], is_within: Callable[[PureMechanism], bool]
) -> int | None:
    """Return the position of the first mechanism, of rising epsilon, that is within; bisects."""
    if not is_within(series[-1]):
        return None
    return bisect_left(series, x=True, hi=len(series) - 1, key=is_within)


def _foreseen(
    mechanism: PureMechanism,
    spectrum: CountSpectrum,
    *,
    rest: int | None,
    users: int,
    k: int,
    population: int,
    delta: float,
) -> tuple[float, float]:
    """Return the limits of the exposure at the expected support counts of a mechanism."""
    group_sizes, values = spectrum.counts, spectrum.values
    if rest is not None:
        group_sizes, values = np.append(group_sizes, rest), np.append(values, 1)
    gain = mechanism.true_support - mechanism.false_support
    chances = mechanism.false_support + gain * group_sizes / (group_sizes @ values)
    counts = np.rint(users * chances).astype(np.int64)
    limits = clopper_pearson(counts, users, delta / (2 * mechanism.values))
    low, high = (np.clip((limit - mechanism.false_support) / gain, 0, 1) for limit in limits)
    lower, upper = randomised_limits(low, high, k=k, population=population, multiplicities=values)
    # Nobody knows whether the rest is one value or thousands: all of it may be exposed.
    exposed_rest = 0.0 if rest is None else float(high[-1])
    return lower, min(1.0, upper + exposed_rest)


def trade_off_curves(
    prior: DirichletPrior, epsilons: Sequence[float], *, seed: int = 0
) -> dict[str, tuple[list[float], list[float]]]:
    """Return average privacy and asymptotic utility of each protocol at each epsilon."""
    curves = {}
    for name, protocol in _ALL.items():
        mechanisms = [protocol(prior.values, epsilon) for epsilon in epsilons]
        curves[name] = (
            [average_privacy(mechanism, prior) for mechanism in mechanisms],
            [
                asymptotic_utility(mechanism, prior, rng=np.random.default_rng(seed)).value
                for mechanism in mechanisms
            ],
        )
    return curves
