"""The curator's choice: the most useful set whose limit, by what it knows, is in the budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.decide.utility import recommend
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.estimate.exposure import empirical_exposure
from fpmonitor.private.counts import ApiSet  # noqa: TC001 -- msgspec reads the annotation
from fpmonitor.private.files import content_digest
from fpmonitor.private.knowledge import Knowledge, Promise, Setting, certified_limits
from fpmonitor.private.study import SetPromise
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fpmonitor.private.counts import Counts, Tuples
    from fpmonitor.private.randomised import RandomisedAnswers
    from fpmonitor.private.study import Study

SETTINGS: tuple[Setting, ...] = ("fixed", "statistical")
_MOST_SETS = 50_000
_MULTIPLIERS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedSet:
    """An API set and the limits of its exposure."""

    apis: ApiSet  # Sorted names.
    fixed: Promise  # Upper limit for the observed users themselves.
    statistical: Promise  # Upper limit for the population.
    entropy_upper_bits: float  # Upper bound of the joint entropy of the observed users, bits.

    def promise(self, setting: Setting) -> Promise:
        """Return the upper limit in a setting."""
        return self.fixed if setting == "fixed" else self.statistical


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a curator chose, and by what knowledge."""

    # Whose exposure is within the budget: `fixed`, the observed users; `statistical`, the
    # population.
    setting: Setting
    # What the curator knows of the joint distribution: `marginals`, `pairs`, `triples`, `sets of
    # 4`.
    level: str
    users: int  # Observed users, `m`.
    # The set of greatest weight within the budget; empty when there is none.
    recommended: PromisedSet
    weight: float  # Its weight: the number of its APIs unless weights were given.
    # Whether no set within the budget by the rules `top-r` (from marginals) or `blocks` (from more)
    # has a greater weight; false if the search was cut short.
    best: bool
    singles: tuple[PromisedSet, ...]  # Every API of the study alone.
    # Limits of the recommended set by every rule, in each setting, the smallest first.
    rules: Mapping[Setting, tuple[Promise, ...]]

    @property
    def promise(self) -> SetPromise:
        """What is promised of the recommended set."""
        upper = self.recommended.promise(self.setting).upper
        return SetPromise(digest=content_digest(self), upper=upper)


def select_values(
    study: Study,
    counts: Counts,
    *,
    randomised: Mapping[ApiSet, RandomisedAnswers] | None = None,
    setting: Setting = "statistical",
    weights: Mapping[str, float] | None = None,
) -> Selection:
    """Choose the set of the greatest weight whose limit is within the budget.

    Args:
        weights: Utility of each API, finite and not negative; 1 where not named.

    Raises:
        InputError: The counts do not fit the study, the setting is unknown, or a weight is not a
            utility.
        UndecidableError: There are fewer than 2 reports.
    """
    if setting not in SETTINGS:
        raise InputError(f"setting: {setting!r} is not one of {', '.join(SETTINGS)}")
    return select_known(known_of(study, counts, randomised), setting, weights)


def known_of(
    study: Study, counts: Counts, randomised: Mapping[ApiSet, RandomisedAnswers] | None = None
) -> dict[Setting, Knowledge]:
    """Return what is known in each setting."""
    return {one: Knowledge(study, counts, one, randomised) for one in SETTINGS}


def select_known(
    both: Mapping[Setting, Knowledge], setting: Setting, weights: Mapping[str, float] | None = None
) -> Selection:
    """Choose by what is known in both settings: see `select_values`."""
    chosen, best = heaviest_set(both[setting], weights)
    return Selection(
        setting=setting,
        level=both[setting].level,
        users=both[setting].users,
        recommended=describe(both, chosen),
        weight=utility_of(chosen, weights),
        best=best,
        singles=tuple(describe(both, (api,)) for api in both[setting].study.apis),
        rules={
            one: tuple(
                sorted(knowledge.rules(chosen, beaten=True), key=lambda promise: promise.upper)
            )
            for one, knowledge in both.items()
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JointComparison(PromisedSet):
    """A set and its limits from what the curator knew, beside what the analyst's counts show."""

    users: int  # Reports that the analyst holds.
    # Share of them in groups of fewer than `k`; redacted tokens are ordinary values.
    empirical: float
    # lower, upper: Certificate for the population: each limit is wrong with probability at most
    # `delta`, although the set was chosen by answers of the same users.
    lower: float
    upper: float


def compare_with_joint(study: Study, promised: PromisedSet, joint: Tuples) -> JointComparison:
    """Compare the analyst's counts of a set, `joint`, with the limits from the curator's knowledge.

    Raises:
        UndecidableError: There are fewer than 2 reports.
    """
    users = sum(joint.values())
    if users < 2:
        raise UndecidableError("at least 2 reports are needed")
    spectrum = CountSpectrum.from_counts([*joint.values()])
    size = len(promised.apis)
    # Whichever set was chosen: `delta` is shared by all sizes, and by all sets of a size.
    delta = study.delta / len(study.apis) / math.comb(len(study.apis), size)
    lower, upper = certified_limits(study, spectrum, delta=delta)
    return JointComparison(
        apis=promised.apis,
        fixed=promised.fixed,
        statistical=promised.statistical,
        entropy_upper_bits=promised.entropy_upper_bits,
        users=users,
        empirical=empirical_exposure(spectrum, study.k),
        lower=lower,
        upper=upper,
    )


def utility_of(apis: Sequence[str], weights: Mapping[str, float] | None) -> float:
    """Return the utility of a set: the sum of the weights of its APIs, 1 where not named."""
    return math.fsum((weights or {}).get(api, 1.0) for api in apis)


def describe(both: Mapping[Setting, Knowledge], apis: ApiSet) -> PromisedSet:
    """Return the limits of a set in both settings."""
    return PromisedSet(
        apis=apis,
        fixed=both["fixed"].promise(apis),
        statistical=both["statistical"].promise(apis),
        entropy_upper_bits=both["fixed"].entropy_upper_bits(apis),
    )


def heaviest_set(
    knowledge: Knowledge, weights: Mapping[str, float] | None = None
) -> tuple[ApiSet, bool]:
    """Return the set of the greatest weight within the budget, and whether it is the best.

    The best: no set that is composed within the budget has a greater weight.

    Branch and bound over the sets that can be composed within the budget; then the known sets that
    are safe by their own counts, and any API that another rule lets in.
    """
    study = knowledge.study
    safe = [apis for apis in knowledge.asked if knowledge.limit(apis).upper <= study.budget]
    start = recommend(safe, weights=weights)
    search = _Search(knowledge, weights, start)
    search.explore((), 0)
    return _extended(knowledge, search.best, weights), search.complete


def _extended(knowledge: Knowledge, apis: ApiSet, weights: Mapping[str, float] | None) -> ApiSet:
    """Add APIs, the heaviest first, as long as the set stays within the budget by any rule."""
    others = [api for api in knowledge.study.apis if api not in apis]
    for api in sorted(others, key=lambda one: (-utility_of([one], weights), one)):
        larger = tuple(sorted((*apis, api)))
        if knowledge.promise(larger).upper <= knowledge.study.budget:
            apis = larger
    return apis


class _Search:
    """Branch and bound over composed sets.

    For a multiplier `l` the cheapest way to keep an API costs `c = min over r of tail + l ln r`,
    of a set that was asked for its share of that. Whatever is composed within the budget `Q` has
    `sum of c <= Q + l ln(l / cell) - l`, since `cell R >= l (1 + ln(R cell / l))`. So the best
    weight is at most that of a knapsack, whose relaxation is solved by sorting.
    """

    def __init__(
        self, knowledge: Knowledge, weights: Mapping[str, float] | None, start: ApiSet
    ) -> None:
        self.knowledge = knowledge
        self.best = start
        self.weight = utility_of(start, weights)
        self.complete = True
        self._left = _MOST_SETS
        budget, cell = knowledge.study.budget, knowledge.cell
        self._multipliers = np.geomspace(cell, max(budget, 2 * cell), _MULTIPLIERS)
        self._room = budget + self._multipliers * (np.log(self._multipliers / cell) - 1)
        costs = {api: self._cost(api) for api in knowledge.study.apis}
        gain = {api: utility_of([api], weights) for api in costs}
        # An API of which all users have one value costs nothing.
        self._apis = sorted(costs, key=lambda api: (-gain[api] / (costs[api].min() + 1e-9), api))
        self._costs = np.array([costs[api] for api in self._apis])
        self._gain = np.array([gain[api] for api in self._apis])
        self._orders = [
            np.argsort(-self._gain / (column + 1e-12), kind="stable") for column in self._costs.T
        ]

    def _cost(self, api: str) -> NDArray[np.float64]:
        """Return the least that an API adds to the cost of a set, for each multiplier."""
        costs = []
        for part in self.knowledge.asked:
            if api in part:
                offer = self.knowledge.tails(part)
                ways = offer.tails + np.multiply.outer(self._multipliers, np.log(offer.sizes))
                costs.append(ways.min(axis=1) / len(part))
        least: NDArray[np.float64] = np.min(costs, axis=0)
        return least

    def explore(self, chosen: tuple[int, ...], first: int) -> None:
        """Try all sets of the chosen APIs and others from position `first` on."""
        apis = tuple(sorted(self._apis[place] for place in chosen))
        front = self.knowledge.front(apis)
        self.complete &= front.whole
        if not front.sizes.size:
            return
        weight = float(self._gain[list(chosen)].sum())
        if weight > self.weight:
            self.best, self.weight = apis, weight
        for place in range(first, len(self._apis)):
            # The bound falls with the place: no later one gains more.
            if weight + self._most_gain(chosen, place) <= self.weight * (1 + 1e-12):
                return
            if self._left == 0:
                self.complete = False
                return
            self._left -= 1
            self.explore((*chosen, place), place + 1)

    def _most_gain(self, chosen: tuple[int, ...], first: int) -> float:
        """Return an upper bound of the weight that the APIs from `first` on can add."""
        room = self._room - self._costs[list(chosen)].sum(axis=0)
        return min(
            _relaxed_knapsack(self._gain, self._costs[:, at], order[order >= first], float(left))
            for at, (order, left) in enumerate(zip(self._orders, room, strict=True))
        )


def _relaxed_knapsack(
    gain: NDArray[np.float64],
    cost: NDArray[np.float64],
    order: NDArray[np.intp],
    room: float,
) -> float:
    """Return the most gain that fits, the last item perhaps in part; items by gain per cost."""
    # The chosen ones alone cost too much; rounding aside.
    if room < -1e-12:
        return 0.0
    used = np.cumsum(cost[order])
    whole = int(np.searchsorted(used, room + 1e-12, side="right"))
    total = float(gain[order[:whole]].sum())
    if whole == order.size:
        return total
    before = float(used[whole - 1]) if whole else 0.0
    part = (room - before) / float(cost[order[whole]])
    return total + min(max(part, 0.0), 1.0) * float(gain[order[whole]])
