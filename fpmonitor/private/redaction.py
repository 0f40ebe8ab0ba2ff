"""Rules that withhold single values, so that an exposing set can be released.

Every user applies the rules; a value that is not kept becomes `redacted`. Cover redactions, of
kept values at random, keep a redaction from revealing that the value is rare.

Source: Bravo-Hermsdorff, Busa-Fekete, Gunderson, Munoz Medina, Syed (2022), "Statistical
anonymity: Quantifying reidentification risks without reidentifying users", section 8.1. Statements
and proofs: docs/private-selection.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fpmonitor.errors import InputError, PolicyError, UndecidableError
from fpmonitor.estimate.exposure import empirical_exposure
from fpmonitor.private.files import content_digest
from fpmonitor.private.knowledge import Knowledge, Setting, certified_limits
from fpmonitor.private.study import RedactionRule, SetPromise, Study
from fpmonitor.private.table import count_reports, redact_table
from fpmonitor.private.tokens import REDACTED
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.private.counts import ApiSet, Counts, Tuples

SUSPICION = 0.5
_MOST_POINTS = 2000
# Certified one after the other, the least loss first, each at its share of delta.
_TARGETS = (1.0, 0.8, 0.6, 0.4, 0.2)
_DRAWS = 5
_CLOSER_LOOKS = 50
# Each is judged by all draws.
_MOST_RESTORED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRedaction:
    """Effect of the rules on one API."""

    api: str
    # values, kept: Number of observed tokens, and of those that are sent.
    values: int
    kept: int
    rare: float  # Share of the users whose token is not kept.
    cover: float  # Probability with which a kept token is redacted as well.
    redacted: float  # Expected share of the users whose token is redacted.
    # Probability that a redacted token hides one that is not kept, by Bayes' rule. 0 where nothing
    # is kept: that every token is redacted reveals nothing about anyone.
    suspicion: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionPlan:
    """Rules for one set, their cost and their effect."""

    apis: ApiSet
    basis: str  # Source of the limits: `marginals`, `certificate` or `count`.
    # before, after: Upper limits of the exposure without and with the rules, shares, in the same
    # sense.
    before: float
    after: float
    loss: float  # Expected share of redacted tokens, weighted.
    within_budget: bool  # Whether `after` is.
    per_api: tuple[ApiRedaction, ...]  # Effect on each API.
    rules: Mapping[str, RedactionRule]  # By API; an API without a rule is sent unchanged.

    @property
    def promise(self) -> SetPromise:
        """What is promised of the set under the rules."""
        return SetPromise(digest=content_digest(self), upper=self.after)


def cover_for(rare: float, suspicion: float) -> float:
    """Return the cover with which a redacted token is a rare one with probability `suspicion`.

    `rare / (rare + (1 - rare) cover) = suspicion`, by Bayes' rule.

    Args:
        rare: Share of the users whose token is not kept, below `suspicion`.
        suspicion: In (0, 1]; 1: no cover.

    Raises:
        PolicyError: `suspicion` is out of range, or too many users have no kept token for any
            cover.
    """
    check_suspicion(suspicion)
    if rare >= suspicion:
        raise PolicyError("suspicion", f"cannot be lower than the share of rare values, {rare:.3g}")
    return rare * (1 - suspicion) / (suspicion * (1 - rare))


def check_suspicion(suspicion: float) -> None:
    """Check the largest probability that a redacted token is a rare one.

    Raises:
        PolicyError: It is not in (0, 1].
    """
    if not 0 < suspicion <= 1:
        raise PolicyError("suspicion", f"must be above 0 and at most 1, got {suspicion}")


def plan_from_marginals(
    study: Study,
    counts: Counts,
    apis: ApiSet,
    *,
    setting: Setting = "statistical",
    weights: Mapping[str, float] | None = None,
    suspicion: float = SUSPICION,
) -> RedactionPlan:
    """Choose the tokens of each API to keep, by the counts of single APIs alone.

    Whatever the joint distribution, `r + 1` tokens of each API, the kept ones and `redacted`, have
    at most `prod (r + 1)` joint values, each of which exposes at most `Knowledge.cell`. So the
    limit needs no sample: `cell prod (r + 1)`. In the fixed setting values beyond the `r`
    are shown as well, their users counted as exposed, as far as the budget goes.

    Args:
        study, counts, setting: As in `Knowledge`. Only values of `k` reports or more are kept: the
            rules are public.
        weights: What a redacted token of each API costs; 1 where not named.
        suspicion: Largest probability that a redacted token hides one that is not kept, in (0, 1].

    Raises:
        InputError, PolicyError, UndecidableError: As `Knowledge`; `suspicion` out of its range; or
            a single value of all users is above the budget.
    """
    check_suspicion(suspicion)
    knowledge = Knowledge(study, counts, setting)
    price = [(weights or {}).get(api, 1.0) for api in apis]
    if (before := knowledge.promise(apis).upper) <= study.budget:
        return _nothing_to_do(knowledge.counts, apis, before, "marginals")
    tokens, ranked = zip(*(_ranked(knowledge.counts[api,], study.k) for api in apis), strict=True)
    closed = setting == "fixed"
    kept_counts, shown, size = _best_way(ranked, price, knowledge.cell, study.budget, closed=closed)
    keep = {
        api: ranking[:number]
        for api, ranking, number in zip(apis, tokens, kept_counts, strict=True)
    }
    per_api, rules = _rules(knowledge.counts, keep, suspicion, closed=closed)
    after = knowledge.cell * size + shown
    return RedactionPlan(
        apis=apis,
        rules=rules,
        before=before,
        after=after,
        basis="marginals",
        per_api=per_api,
        loss=_loss(per_api, price),
        within_budget=after <= study.budget,
    )


def _ranked(tuples: Tuples, k: int) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Return the tokens of an API that may be kept, those of `k` reports, most frequent first.

    With them the share of the users outside of the first `r`, float64, shape (tokens + 1,).
    """
    frequent = sorted((-n, token) for (token,), n in tuples.items() if n >= k)
    ranked = [(token, -n) for n, token in frequent if token != REDACTED]
    users = sum(tuples.values())
    covered_users = np.cumsum([0, *(n for _, n in ranked)])
    return tuple(token for token, _ in ranked), (users - covered_users) / users


def _best_way(
    ranked: Sequence[NDArray[np.float64]],
    price: Sequence[float],
    cell: float,
    budget: float,
    *,
    closed: bool,
) -> tuple[Sequence[int], float, float]:
    """How many tokens of each API to keep, the share shown beyond, and joint values."""
    sizes, outside, kept = _ways(ranked, price, cell, budget, closed=closed)
    if not outside.size:
        raise UndecidableError(
            "the limit is above the budget even with everything redacted",
            hint="raise the budget, or collect from more users",
        )
    most = budget - cell * sizes if closed else np.zeros_like(sizes)
    # What the slack can save at most decides which ways are worth a closer look.
    promising = np.argsort(outside - max(price) * most, kind="stable")[:_CLOSER_LOOKS]
    ways = (
        (*_restored(ranked, price, kept[at], float(most[at])), float(sizes[at])) for at in promising
    )
    kept_counts, shown, _, size = min(ways, key=lambda one: (one[2], one[1]))
    return kept_counts, shown, size


def _ways(
    ranked: Sequence[NDArray[np.float64]],
    price: Sequence[float],
    cell: float,
    budget: float,
    *,
    closed: bool,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return the undominated choices of kept tokens within the budget; at most 2,000.

    These are the joint values of each, the weighted share of users outside, and the tokens by API.
    """
    sizes, outside, kept = np.ones(1), np.zeros(1), np.empty((1, 0), dtype=np.int64)
    for one, weight in zip(ranked, price, strict=True):
        numbers = np.arange(one.size)
        # Where everything that was seen is kept, nobody sends `redacted`.
        all_kept = closed & (one <= 0) & (numbers > 0)
        sizes = np.multiply.outer(sizes, numbers + 1 - all_kept).ravel()
        outside = np.add.outer(outside, weight * one).ravel()
        before, number = np.divmod(np.arange(sizes.size), numbers.size)
        order = np.lexsort((outside, sizes))
        order = order[cell * sizes[order] <= budget]
        earlier = np.append(np.inf, np.minimum.accumulate(outside[order]))[: order.size]
        order = order[outside[order] < earlier]
        if order.size > _MOST_POINTS:
            order = order[np.linspace(0, order.size - 1, _MOST_POINTS).astype(np.int64)]
        kept = np.column_stack([kept[before[order]], number[order]])
        sizes, outside = sizes[order], outside[order]
    return sizes, outside, kept


def _restored(
    ranked: Sequence[NDArray[np.float64]],
    price: Sequence[float],
    kept_counts: NDArray[np.int64],
    slack: float,
) -> tuple[tuple[int, ...], float, float]:
    """Keep further tokens while their users fit into the slack, the costliest APIs first.

    Return the numbers of kept tokens, the share of the users counted as exposed for it, and the
    weighted share that stays outside.
    """
    numbers, shown = kept_counts.tolist(), 0.0
    for at in sorted(range(len(ranked)), key=lambda at: -price[at]):
        outside = ranked[at]
        # `outside` falls: the first place from which on those beyond fit into the slack.
        room = outside[numbers[at]] - (slack - shown)
        further = int(np.searchsorted(-outside, -room))
        further = max(min(further, outside.size - 1), numbers[at])
        # Where rounding went one too far: the promise is kept exactly.
        while outside[numbers[at]] - outside[further] > slack - shown:
            further -= 1
        shown += float(outside[numbers[at]] - outside[further])
        numbers[at] = further
    left = math.fsum(
        weight * float(one[number])
        for one, weight, number in zip(ranked, price, numbers, strict=True)
    )
    return tuple(numbers), shown, left


def _rules(
    counts: Counts, keep: Mapping[str, Sequence[str]], suspicion: float, *, closed: bool
) -> tuple[tuple[ApiRedaction, ...], dict[str, RedactionRule]]:
    """Return rules with covers; an API with too few kept tokens for a cover is withheld."""
    per_api, rules = [], {}
    for api, tokens in keep.items():
        tuples = counts[api,]
        users = sum(tuples.values())
        rare = users - sum(tuples[token,] for token in tokens)
        # In a population some users have values that were not observed.
        share = rare / users if closed else (rare + 1) / (users + 1)
        kept_tokens = tokens if share < suspicion else ()
        cover = cover_for(share, suspicion) if kept_tokens else 0.0
        redacted = share + (1 - share) * cover if kept_tokens else 1.0
        per_api.append(
            ApiRedaction(
                api=api,
                values=len(tuples),
                kept=len(kept_tokens),
                rare=share if kept_tokens else 1.0,
                cover=cover,
                redacted=redacted,
                suspicion=share / redacted if kept_tokens and redacted else 0.0,
            )
        )
        if share > 0 or not kept_tokens:
            rules[api] = RedactionRule(keep=frozenset(kept_tokens), cover=cover)
    return tuple(per_api), rules


def _loss(per_api: Sequence[ApiRedaction], price: Sequence[float]) -> float:
    """Return the expected share of redacted tokens, weighted."""
    total = math.fsum(price)
    cost = math.fsum(w * one.redacted for one, w in zip(per_api, price, strict=True))
    return cost / total if total else 0.0


def _nothing_to_do(counts: Counts, apis: ApiSet, before: float, basis: str) -> RedactionPlan:
    everything = {api: [token for (token,) in counts[api,]] for api in apis}
    # A suspicion of 1 needs no cover.
    per_api, _ = _rules(counts, everything, 1.0, closed=True)
    return RedactionPlan(
        apis=apis,
        rules={},
        before=before,
        after=before,
        basis=basis,
        per_api=per_api,
        loss=0.0,
        within_budget=True,
    )


def plan_from_sample(
    study: Study,
    table: pl.DataFrame,
    apis: ApiSet,
    *,
    rng: np.random.Generator,
    setting: Setting = "statistical",
    weights: Mapping[str, float] | None = None,
    suspicion: float = SUSPICION,
) -> RedactionPlan:
    """Choose the tokens of each API to keep, by users whose joint tokens are known.

    Greedily: values with the largest share of exposed users are withheld first; those that turn
    out unnecessary to withhold are restored.

    Args:
        table: Tokens, a row per user, a text column per API of the set; at least 4 users.
        rng: Splits the users and draws covers. Derive its seed from the data.
        setting: `fixed`: `after` is the largest share of the users of the table exposed in a few
            draws of the covers. `statistical`: the rules are chosen on one half of the users, and
            certified on the other: redaction is then a function that has nothing to do with these
            users, their redacted tuples are independent draws, and the certificate holds for them
            unchanged.

    Raises:
        InputError, PolicyError, UndecidableError: The table lacks an API, `suspicion` is out of
            range, or there are too few users.
    """
    check_suspicion(suspicion)
    if not set(apis) <= set(table.columns) or not apis:
        raise InputError("redaction: the set names an API that the sample lacks")
    if len(table) < 4:
        raise UndecidableError("at least 4 users are needed")
    user_tokens = table.select(apis)
    price = [(weights or {}).get(api, 1.0) for api in apis]
    if setting == "fixed":
        return _least_loss_among(
            study,
            user_tokens,
            user_tokens,
            price=price,
            suspicion=suspicion,
            rng=rng,
            setting=setting,
        )
    order = rng.permutation(len(user_tokens))
    half = len(user_tokens) // 2
    chosen_on, certified_on = user_tokens[order[:half]], user_tokens[order[half : 2 * half]]
    return _least_loss_among(
        study, chosen_on, certified_on, price=price, suspicion=suspicion, rng=rng, setting=setting
    )


def _least_loss_among(
    study: Study,
    chosen_on: pl.DataFrame,
    certified_on: pl.DataFrame,
    *,
    price: Sequence[float],
    suspicion: float,
    rng: np.random.Generator,
    setting: Setting,
) -> RedactionPlan:
    """Lower the target until the rules hold for the users that judge them."""
    apis = tuple(chosen_on.columns)
    basis = "count" if setting == "fixed" else "certificate"
    before = _exposure(study, setting, _groups_in(certified_on))
    counts: Counts = count_reports(chosen_on, [(api,) for api in apis])
    if before <= study.budget:
        return _nothing_to_do(counts, apis, before, basis)
    plans = []
    for target in _TARGETS:
        greedy = _Greedy(
            study, chosen_on, price=price, suspicion=suspicion, setting=setting, rng=rng
        )
        keep = greedy.kept_tokens(target * study.budget)
        per_api, rules = _rules(counts, keep, suspicion, closed=setting == "fixed")
        # In a population one draw is certified: each more would need its share of delta.
        draws = range(_DRAWS if setting == "fixed" else 1)
        sent = (_groups_in(redact_table(certified_on, rules, rng)) for _ in draws)
        after = max(_exposure(study, setting, groups) for groups in sent)
        plans.append(
            RedactionPlan(
                apis=apis,
                rules=rules,
                before=before,
                after=after,
                basis=basis,
                per_api=per_api,
                loss=_loss(per_api, price),
                within_budget=after <= study.budget,
            )
        )
        if plans[-1].within_budget:
            break
    return plans[-1]


def _groups_in(user_tokens: pl.DataFrame) -> NDArray[np.integer[Any]]:
    """Return the sizes of the groups of users by their tokens; `redacted` is an ordinary value."""
    return user_tokens.group_by(user_tokens.columns).len()["len"].to_numpy()


def _exposure(study: Study, setting: Setting, groups: NDArray[np.integer[Any]]) -> float:
    """Return the exposure of users in groups of these sizes, or its limit in the population."""
    spectrum = CountSpectrum.from_counts(groups.astype(np.int64))
    if setting == "fixed":
        return empirical_exposure(spectrum, study.k)
    # One share of delta for the set as it is, one for each target.
    delta = study.delta / (1 + len(_TARGETS))
    return certified_limits(study, spectrum, delta=delta)[1]


class _Greedy:
    """Withholds values one after the other, by users whose joint tokens are known."""

    def __init__(
        self,
        study: Study,
        user_tokens: pl.DataFrame,
        *,
        price: Sequence[float],
        suspicion: float,
        setting: Setting,
        rng: np.random.Generator,
    ) -> None:
        self._apis = user_tokens.columns
        self._price = price
        self._suspicion = suspicion
        self._study, self._setting = study, setting
        self._users = len(user_tokens)
        self._tokens: list[list[str]] = []
        self._codes: list[NDArray[np.int64]] = []
        for column in user_tokens.get_columns():
            tokens = column.unique().sort().to_list()
            self._tokens.append(tokens)
            place = column.replace_strict(tokens, range(len(tokens)), return_dtype=pl.Int64)
            self._codes.append(place.to_numpy())
        self._numbers = [np.bincount(codes) for codes in self._codes]
        # The same dice at every look, so that only what is withheld changes the exposure.
        # Judged by the worst of some draws, or the choice would fit one draw of the covers.
        draws = _DRAWS if suspicion < 1 else 1
        self._dice = rng.random((draws, len(self._codes), self._users))
        # The rules are public: they contain no value of fewer than k users.
        self._may_keep = [numbers >= study.k for numbers in self._numbers]
        self._kept = [may.copy() for may in self._may_keep]
        # Groups of k in the population are smaller among the users of a sample.
        scale = 1.0 if setting == "fixed" else min(self._users / study.population, 1.0)
        self._small = max(2, math.ceil(study.k * scale))

    def kept_tokens(self, target: float) -> dict[str, list[str]]:
        """Return the tokens of each API to keep for an exposure of at most the target."""
        while True:
            exposure, groups = self._worst_draw()
            small = np.bincount(groups)[groups] < self._small
            if exposure <= target or not self._withhold(small, exposure - target):
                break
        self._restore(target)
        return {
            api: [
                token for token, is_kept in zip(tokens, keep_mask.tolist(), strict=True) if is_kept
            ]
            for api, tokens, keep_mask in zip(self._apis, self._tokens, self._kept, strict=True)
        }

    def _withhold(self, exposed: NDArray[np.bool_], excess: float) -> bool:
        """Withhold the values with most exposed users; return whether there was one left.

        So many at once that they hold half of the excess exposed users.
        """
        offers = []
        for at, (codes, numbers) in enumerate(zip(self._codes, self._numbers, strict=True)):
            caught = np.bincount(codes, exposed, minlength=numbers.size)
            # Of values without an exposed user the rarest goes first; a price of 0 divides nothing.
            worth = (caught + 1e-9) / (numbers * max(self._price[at], 1e-9))
            offers += [
                (-worth[code], at, code, caught[code]) for code in np.flatnonzero(self._kept[at])
            ]
        enough = excess * self._users / 2
        for _, at, code, caught in sorted(offers):
            self._kept[at][code] = False
            enough -= caught
            if enough <= 0:
                break
        return bool(offers)

    def _restore(self, target: float) -> None:
        """Restore withheld values, the costliest first, where the target allows it."""
        withheld = [
            (-self._price[at] * self._numbers[at][code], at, code)
            for at, may_keep in enumerate(self._may_keep)
            for code in np.flatnonzero(may_keep & ~self._kept[at])
        ]
        for _, at, code in sorted(withheld)[:_MOST_RESTORED]:
            self._kept[at][code] = True
            if self._worst_draw()[0] > target:
                self._kept[at][code] = False

    def _worst_draw(self) -> tuple[float, NDArray[np.int64]]:
        """Return the largest exposure over all draws of the covers, and each user's group there."""
        sent = []
        for codes, numbers, keep_mask in zip(self._codes, self._numbers, self._kept, strict=True):
            rare = 1 - numbers[keep_mask].sum() / self._users
            hopeless = rare >= self._suspicion
            cover = 1.0 if hopeless else cover_for(rare, self._suspicion)
            sent.append((np.where(keep_mask[codes], codes + 1, 0), cover))
        draws = [self._groups(sent, dice) for dice in self._dice]
        exposures = [_exposure(self._study, self._setting, np.bincount(one)) for one in draws]
        worst = int(np.argmax(exposures))
        return exposures[worst], draws[worst]

    def _groups(
        self, sent: Sequence[tuple[NDArray[np.int64], float]], dice: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return the group of each user by its redacted tokens."""
        groups = np.zeros(self._users, dtype=np.int64)
        for (columns, cover), drawn, numbers in zip(sent, dice, self._numbers, strict=True):
            shown = np.where(drawn >= cover, columns, 0)
            # Numbered anew after each API, or products of numbers would leave int64.
            groups = np.unique(groups * (numbers.size + 1) + shown, return_inverse=True)[1]
        return groups
