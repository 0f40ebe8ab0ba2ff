"""Lists of a decision on users of now: listed sets are tested again, what changed is searched.

Where every listed set is still what it was, the lists are the borders of now: every set is within
an allowed one or holds one that is not (Mannila, Toivonen 1997). Else only sets that the others
leave open are asked for. Lists of a search that was stopped, or that were cut, hold what is still
proven of the same sets and of APIs alone: nothing else is asked for.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from fpmonitor.decide.deciding import recommended_of, without_empty
from fpmonitor.decide.effort import Effort
from fpmonitor.decide.guarantee import guarantee
from fpmonitor.decide.search import Borders, Sought, search, smallest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fpmonitor.decide.deciding import Tests
    from fpmonitor.decide.decision import ApiSet, Decision
    from fpmonitor.estimate.criterion import Criterion
    from fpmonitor.spectrum import SpectrumSource


def can_refresh(decision: Decision) -> bool:
    """Whether lists can be made again: they are certified at every look.

    With other users another set is recommended, whose unions are others.
    """
    is_alone = not decision.union_with
    return is_alone and decision.setting == "population" and not decision.rests_on_file


def border_sets(decision: Decision) -> tuple[ApiSet, ...]:
    """Return the listed sets that are tested again: what was once blocked stays blocked."""
    return (*decision.allow, *decision.undecided)


def refreshed(
    decision: Decision,
    disclosed_source: SpectrumSource,
    *,
    tests: Tests,
    seal: str,
    effort: Effort,
) -> Decision:
    """Return a decision with the lists of users of now, by the tests for their number.

    Of what was recommended it recommends the largest part that is allowed now, or one that is where
    the lists are not complete. What was told of the users of before, or searched by weights that it
    does not hold, it does not have.

    Args:
        decision: One that `can_refresh`.
        disclosed_source: The users of now over its candidates, as others are told of them.
        tests: Those that `judging` makes for so many users.
        seal: The digest of their data as the decision may tell it.
        effort: When to end; the lists are then not complete, and hold what was found by then.
    """
    began = time.perf_counter()
    allowed = _tested_again(decision, disclosed_source, tests.allow, effort)
    borders = search(
        disclosed_source,
        allow=tests.allow,
        block=tests.allow,
        sought=Sought(never=decision.no_evidence),
        known=Borders(
            allow=[apis for apis, holds in allowed.items() if holds],
            block=list(decision.block),
            undecided=[apis for apis, holds in allowed.items() if not holds],
            complete=False,
            evaluated=0,
        ),
        # Without time nothing new is searched: lists that were cut stay what is proven.
        effort=effort if decision.complete else Effort.of(0.0),
    )
    borders = _as_visits_allow(borders, decision)
    blocked, undecided = _divided(
        decision, borders.block, disclosed_source.least or disclosed_source, tests, effort
    )
    parts = [tuple(sorted({*decision.recommended} & {*apis})) for apis in borders.allow]
    recommended = recommended_of(parts, disclosed_source, tests.allow, weights={})
    is_same = recommended == decision.recommended
    made = replace(
        _without_findings(decision),
        users=disclosed_source.users,
        digest=seal,
        allow=without_empty(borders.allow),
        block=tuple(sorted(blocked)),
        undecided=tuple(undecided),
        recommended=recommended,
        utility=decision.utility if is_same else None,
        complete=borders.complete and not effort.stopped,
        evaluated=len(allowed) + borders.evaluated,
        seconds=round(time.perf_counter() - began, 3),
        engine="memory",
        proof=tests.proof,
    )
    return replace(made, guarantee=guarantee(made))


def _as_visits_allow(borders: Borders, decision: Decision) -> Borders:
    """Return what is allowed now, and was by one visit of each user where that counts.

    Nobody reads visits here: the users of now take away from such a list, and add nothing to it.
    """
    if decision.policy.visits != "last+visit":
        return borders
    failing = smallest({*borders.block, *decision.undecided})
    listed = borders.keeping(replace(borders, allow=list(decision.allow)))
    return replace(listed, block=sorted(failing, key=len), undecided=[])


def _without_findings(decision: Decision) -> Decision:
    """Return a decision without what was told of the users of before, and of the search."""
    return replace(
        decision,
        days=None,
        made=None,
        coverage=None,
        users_possible=None,
        users_needed=None,
        users_range=None,
        bias_tolerated=None,
        utility_bound=None,
        utility_possible=None,
        search=None,
        cut=None,
    )


def _tested_again(
    decision: Decision, disclosed_source: SpectrumSource, criterion: Criterion, effort: Effort
) -> dict[ApiSet, bool]:
    """Tell of listed sets, and of a part of what was recommended, whether they are allowed now."""
    allowed: dict[ApiSet, bool] = {}
    with effort.until_stopped():
        for apis in border_sets(decision):
            effort.check(f"{len(allowed):,} sets tested again")
            allowed[apis] = criterion.holds(disclosed_source.spectrum(apis), len(apis))
        # Complete lists hold each part of it that is allowed; those of a stopped search may not.
        if not decision.complete and decision.recommended:
            part = _part(decision.recommended, disclosed_source, criterion, effort)
            allowed |= {part: True} if part else {}
    return allowed


def _divided(
    decision: Decision,
    refused: Iterable[ApiSet],
    least: SpectrumSource,
    tests: Tests,
    effort: Effort,
) -> tuple[list[ApiSet], list[ApiSet]]:
    """Divide refused sets: those that are blocked, with those of before, and all others."""
    once, blocked = [{*apis} for apis in decision.block], [*decision.block]
    # What was blocked once stays blocked: that holds at every look.
    undecided = [apis for apis in refused if not any(map({*apis}.issuperset, once))]
    with effort.until_stopped():
        for apis in [*undecided]:
            effort.check(f"{len(blocked):,} sets blocked")
            if tests.above(least.spectrum(apis), len(apis), least=True):
                undecided.remove(apis)
                blocked.append(apis)
    return blocked, undecided


def _part(apis: ApiSet, source: SpectrumSource, criterion: Criterion, effort: Effort) -> ApiSet:
    """Take APIs out of a set, always the one without which least is exposed, until it passes."""
    while apis and not criterion.holds(source.spectrum(apis), len(apis)):
        effort.check("what was recommended is tested again")
        parts = {part: source.spectrum(part) for part in combinations(apis, len(apis) - 1)}
        apis = min(parts, key=lambda part: criterion.score(parts[part]))
    return apis
