"""A decision from what a curator knows: lists of sets, as products, gates and checks read them.

A set is allowed whose limit by some rule is within the budget, and blocked where it holds a set
whose own answers expose more. All other minimal sets are undecided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fpmonitor.decide.coherence import TooManyStepsError, uncovered
from fpmonitor.decide.decision import Decision, PartsKnown
from fpmonitor.decide.guarantee import guarantee
from fpmonitor.decide.utility import recommend
from fpmonitor.policy import Policy
from fpmonitor.population.evidence import Lack, Seen, find_lack
from fpmonitor.private.selection import utility_of
from fpmonitor.private.tokens import ABSENT, REDACTED, holds_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fpmonitor.decide.decision import ApiSet
    from fpmonitor.private.knowledge import Knowledge
    from fpmonitor.private.selection import Selection

# Limits of sets, of which each takes a millisecond or more, and far more of overlapping parts.
_MOST_LIMITS = 2000


def decision_of(
    knowledge: Knowledge, selection: Selection, weights: Mapping[str, float] | None = None
) -> Decision:
    """Return the decision that follows from what a curator knows.

    Args:
        knowledge: In the setting of the selection.
        selection: What was chosen by it.
        weights: Utility of each API, 1 where not named.
    """
    study = knowledge.study
    lacks = {api: lack for api in study.apis if (lack := _lack(knowledge, api)) is not None}
    evident = [api for api in study.apis if api not in lacks]
    begun = Decision.begun(
        Policy(
            k=study.k,
            population=knowledge.population,
            budget=study.budget,
            delta=None if knowledge.setting == "fixed" else study.delta,
            candidates=study.apis,
        ),
        "sample" if knowledge.setting == "fixed" else "population",
        digest=selection.promise.digest,
    )
    chosen = frozenset(api for api in selection.recommended.apis if api not in lacks)
    search = _Borders(knowledge, evident, chosen)
    complete = search.search()
    allow = _listed(search.allow)
    # Among sets of equal weight the chosen one, which the same command requests. A heavier set is
    # recommended that only overlapping answers prove; and no API without evidence ever is.
    best = recommend(
        allow,
        weights=weights,
        exposure=lambda tied: [float(frozenset(one) != chosen) for one in tied],
    )
    utility = utility_of(best, weights)
    decision = replace(
        begun,
        made=datetime.now(UTC).date(),
        users=knowledge.users,
        no_evidence=lacks,
        parts=PartsKnown(largest=knowledge.largest, randomised=tuple(sorted(knowledge.randomised))),
        allow=allow,
        block=_listed(search.block),
        undecided=_listed(search.refused - search.block),
        recommended=best,
        weights=dict(weights or {}),
        utility=utility,
        # A search that was cut short bounds nothing below all APIs together.
        utility_bound=utility if complete else utility_of(evident, weights),
        complete=complete,
        evaluated=search.limits,
    )
    return replace(decision, guarantee=guarantee(decision))


def _lack(knowledge: Knowledge, api: str) -> Lack | None:
    """Say why the answers on an API are no evidence, by its plain ones; None if they are."""
    if api in knowledge.randomised:
        return None
    seen = [
        Seen(users, kind="value" if holds_value(token) else "error")
        for (token,), users in knowledge.counts[(api,)].items()
        if token not in (ABSENT, REDACTED)
    ]
    return find_lack(seen, knowledge.study.k, api)


class _Borders:
    """Maximal sets within the budget and minimal ones that are not, from one to the next.

    A set that no list settles is enlarged as far as it is within the budget, or else made smaller:
    Gunopulos and others 2003, "Discovering all most specific sentences".
    """

    def __init__(self, knowledge: Knowledge, apis: Sequence[str], chosen: frozenset[str]) -> None:
        self._knowledge, self._apis = knowledge, apis
        above = [frozenset(one) for one in knowledge.asked if knowledge.is_above(one)]
        # The chosen set is allowed, so that none of its parts can be blocked.
        above = [one for one in above if one.issubset(apis) and not one <= chosen]
        self.block = {one for one in above if not any(less < one for less in above)}
        self.allow, self.refused = {chosen} if chosen else set(), set(self.block)
        self.limits = 0

    def search(self) -> bool:
        """Search them all; return whether that came to its end."""
        try:
            while (found := uncovered(self._apis, self.allow, self.refused)) is not None:
                self._settle(frozenset(found))
                if self.limits > _MOST_LIMITS:
                    return False
        except TooManyStepsError:
            return False
        return True

    def _settle(self, apis: frozenset[str]) -> None:
        if not self._is_within(apis):
            # In one order, so that the same answers give the same lists.
            for api in sorted(apis):
                if not self._is_within(apis - {api}):
                    apis -= {api}
            self.refused.add(apis)
            return
        for api in self._apis:
            if self._is_within(apis | {api}):
                apis |= {api}
        # Limits need not grow with sets, as other rules apply: what is within one is within.
        self.allow = {one for one in self.allow if not one <= apis} | {apis}
        self.refused = {one for one in self.refused if not one <= apis}

    def _is_within(self, apis: frozenset[str]) -> bool:
        if any(one <= apis for one in self.block):
            return False
        if any(apis <= one for one in self.allow):
            return True
        self.limits += 1
        upper = self._knowledge.promise(tuple(sorted(apis))).upper
        return upper <= self._knowledge.study.budget


def _listed(sets: Iterable[frozenset[str]]) -> tuple[ApiSet, ...]:
    return tuple(sorted(tuple(sorted(apis)) for apis in sets if apis))
