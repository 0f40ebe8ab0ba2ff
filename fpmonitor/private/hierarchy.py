"""Rounds of pairs, triples and so on: only for undecided sets, and never for rare values.

Source: Bravo-Hermsdorff, Busa-Fekete, Gunderson, Munoz Medina, Syed (2022), "Statistical
anonymity: Quantifying reidentification risks without reidentifying users", section 8.2. Why the
limits hold although rare values are withheld: docs/private-selection.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import polars as pl

from fpmonitor.private.knowledge import Knowledge, Promise, Setting, knowledge_name
from fpmonitor.private.selection import heaviest_set, utility_of
from fpmonitor.private.study import CollectionRequest, RedactionRule, Study, first_ask
from fpmonitor.private.table import count_reports, redact_table
from fpmonitor.private.tokens import REDACTED
from fpmonitor.results import Members

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fpmonitor.private.counts import ApiSet, Tuples

StopReason = Literal[
    "nothing left to ask",
    "the study allows no larger sets",
    "all APIs are safe together",
    "too little gained",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round, and what it gained."""

    number: int  # From 1.
    sets: tuple[ApiSet, ...]  # The requested sets; every user sends one message for each.
    withheld: float  # Share of the tokens of the requested APIs that were redacted, over all users.
    # safe, unsafe: Number of requested sets that are within the budget by their own counts, or are
    # not.
    safe: int
    unsafe: int
    # recommended, promise: The set of greatest weight within the budget after the round, and its
    # upper limit.
    recommended: ApiSet
    promise: Promise
    # weight, gain: Its weight, and by how much the round raised it.
    weight: float
    gain: float

    @property
    def messages(self) -> int:
        """Number of messages that each user sends."""
        return len(self.sets)

    def to_json(self) -> dict[str, Any]:
        """Return the round as the CLI prints it."""
        return {
            "round": self.number,
            "asked": knowledge_name(max(map(len, self.sets))),
            "sets": len(self.sets),
            "messages_per_user": self.messages,
            "withheld": self.withheld,
            "safe": self.safe,
            "unsafe": self.unsafe,
            "weight": self.weight,
            "gain": self.gain,
            "recommended": list(self.recommended),
            "upper": self.promise.upper,
            "rule": self.promise.rule,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy(Members):
    """All rounds, and why they stopped."""

    JSON: ClassVar[str] = "setting users rounds messages_per_user=messages stopped"

    setting: Setting
    users: int
    rounds: tuple[Round, ...]
    stopped: StopReason

    @property
    def messages(self) -> int:
        """Number of messages that each user sends in all rounds."""
        return sum(one.messages for one in self.rounds)


def open_sets(knowledge: Knowledge, size: int) -> list[ApiSet]:
    """List the sets of a size that are not known to be above the budget.

    A set with a known part above the budget is above it, too: exposure grows with the set. Sets
    of one API are requested first, so that all of them are known. An API that users randomise is in
    no larger set: it would be sent plainly there.
    """
    if size == 1:
        counted = [api for api in knowledge.study.apis if api not in knowledge.randomised]
        return [(api,) for api in counted if knowledge.is_promised((api,))]
    smaller = set(open_sets(knowledge, size - 1))
    grown = [
        (*apis, api)
        for apis in sorted(smaller)
        for api in knowledge.study.apis
        # By its last API only, so that each larger set comes once.
        if api > apis[-1]
        and all((*apis[:at], *apis[at + 1 :], api) in smaller for at in range(size - 1))
    ]
    return [apis for apis in grown if apis not in knowledge.asked or knowledge.is_promised(apis)]


def next_sets(knowledge: Knowledge, *, thrifty: bool = False) -> tuple[ApiSet, ...]:
    """List the undecided sets of the next round, all of the smallest size with unknown sets.

    There are none when all are decided or the study allows no more. `thrifty` omits sets that are
    within the budget already: fewer messages, but looser limits of larger sets, which are composed
    of known ones.
    """
    for size in range(2, knowledge.study.largest_set + 1):
        sets = [apis for apis in open_sets(knowledge, size) if apis not in knowledge.asked]
        if thrifty:
            sets = [apis for apis in sets if not knowledge.is_promised(apis)]
        if sets:
            return tuple(sets)
    return ()


def keep_rules(knowledge: Knowledge, apis: Iterable[str]) -> dict[str, RedactionRule]:
    """Return rules that withhold the values of fewer than `k` reports in round 1.

    Their users are known to be exposed in every set that holds the API, so nothing is lost.
    """
    return {
        api: RedactionRule(
            keep=frozenset(
                token
                for (token,), number in knowledge.counts[api,].items()
                if number >= knowledge.study.k
            )
        )
        for api in sorted(apis)
    }


def next_ask(
    knowledge: Knowledge, *, epoch: int, number: int, thrifty: bool = False
) -> CollectionRequest | None:
    """Return the request of the curator's next round; None when nothing is left to request.

    `number` is that of the round; `thrifty` is as in `next_sets`.
    """
    sets = next_sets(knowledge, thrifty=thrifty)
    if not sets:
        return None
    return CollectionRequest(
        study=knowledge.study.id.hex(),
        epoch=epoch,
        round=number,
        recipient="curator",
        sets=sets,
        redact=keep_rules(knowledge, {api for one in sets for api in one}),
    )


def simulate_hierarchy(
    table: pl.DataFrame,
    study: Study,
    *,
    setting: Setting = "statistical",
    weights: Mapping[str, float] | None = None,
    least_gain: float = 0.0,
    thrifty: bool = False,
) -> Hierarchy:
    """Simulate all rounds with users whose tokens are known.

    Args:
        table: Tokens, a row per user, a text column per API of the study.
        study: The policy; `largest_set` limits the rounds.
        least_gain: Stop after a round, from the second on, that raises the weight by less.
    """
    ask = first_ask(study)
    counts: dict[ApiSet, Tuples] = {}
    rounds: list[Round] = []
    stopped: StopReason | None = None
    while stopped is None:
        shown = redact_table(table, ask.redact)
        counts |= count_reports(shown, ask.sets)
        knowledge = Knowledge(study, counts, setting)
        rounds.append(
            _round(knowledge, ask, withheld=_withheld(shown, ask), weights=weights, before=rounds)
        )
        following = next_ask(knowledge, epoch=1, number=len(rounds) + 1, thrifty=thrifty)
        stopped = _stopped(knowledge, rounds, following, least_gain)
        ask = following or ask
    return Hierarchy(setting=setting, users=len(table), rounds=tuple(rounds), stopped=stopped)


def _round(
    knowledge: Knowledge,
    ask: CollectionRequest,
    *,
    withheld: float,
    weights: Mapping[str, float] | None,
    before: Sequence[Round],
) -> Round:
    chosen, _ = heaviest_set(knowledge, weights)
    weight = utility_of(chosen, weights)
    limits = [knowledge.limit(apis).upper for apis in ask.sets]
    safe = sum(upper <= knowledge.study.budget for upper in limits)
    return Round(
        number=ask.round,
        sets=ask.sets,
        withheld=withheld,
        safe=safe,
        unsafe=len(limits) - safe,
        recommended=chosen,
        promise=knowledge.promise(chosen),
        weight=weight,
        gain=weight - (before[-1].weight if before else 0.0),
    )


def _stopped(
    knowledge: Knowledge,
    rounds: Sequence[Round],
    following: CollectionRequest | None,
    least_gain: float,
) -> StopReason | None:
    """Return why no further round is wanted or possible; None if one is."""
    study = knowledge.study
    if rounds[-1].recommended == study.apis:
        return "all APIs are safe together"
    if following is None:
        larger = open_sets(knowledge, study.largest_set + 1)
        if all(map(knowledge.is_promised, larger)):
            return "nothing left to ask"
        return "the study allows no larger sets"
    if len(rounds) > 1 and rounds[-1].gain < least_gain:
        return "too little gained"
    return None


def _withheld(shown: pl.DataFrame, ask: CollectionRequest) -> float:
    """Return the share of the tokens of the requested APIs that are redacted."""
    requested_apis = sorted({api for one in ask.sets for api in one})
    redacted = shown.select((pl.col(requested_apis) == REDACTED).mean())
    return float(np.mean(redacted.row(0)))
