"""Which length of windows has enough users to confirm what a decision allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fpmonitor.answers.decide import called_as, question_of
from fpmonitor.decide.evidence import needed_evidence, weigh

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.decide.decision import Decision
    from fpmonitor.population.population import Population
    from fpmonitor.store.windows import Period

_LIKE_A_YEAR = 52  # windows so far, of which each has passed


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """How many of so many listed sets a window of a length can confirm, with so many users."""

    period: Period
    users: int
    sets: int
    listed: int


def count_confirmed(
    population: Population, decision: Decision, period: Period, *, new_users: bool
) -> Confirmed:
    """Count the sets that windows like this one confirm, after as many that passed as in a year.

    Nothing is recorded: windows are numbered by the calendar, so a look changes no share.
    """
    decision = called_as(decision, population)
    eligible_users = population.for_question(question_of(decision), decision.policy.candidates)
    disclosed_source = eligible_users.told_source(
        decision.policy.candidates, decision.policy.k, sets=decision.allow
    )
    evidence = weigh(decision, disclosed_source, new_users=new_users)
    needed = needed_evidence(
        decision.policy.delta or 1.0, place=_LIKE_A_YEAR, successes=_LIKE_A_YEAR
    )
    return Confirmed(
        period=period,
        users=eligible_users.users,
        sets=sum(found >= needed for found in evidence.within),
        listed=len(decision.allow),
    )


def longer_windows(found: Sequence[Confirmed], by: Period | None) -> str | None:
    """Say which length of windows decides more than one does, or than the shortest; null for none.

    Args:
        found: What windows of each length confirm, the shortest first.
        by: The length in question.
    """
    [*own] = (one for one in found if by in {None, one.period})
    if not own or own[0].sets == own[0].listed:
        return None
    best, [one, *_] = max(found, key=lambda one: one.sets), own
    could = f"can confirm {one.sets:,} of {one.listed:,} sets"
    more, than = f" {best.sets:,}", "confirm more: wait, or deploy fewer APIs"
    if one.listed == 1:
        could, more, than = "cannot confirm the set", " can", "can: wait, or deploy fewer APIs"
    said = f"{one.period}s of {one.users:,} users {could}, "
    if best.sets <= one.sets:
        return f"{said}and no longer windows that there are {than}"
    return f"{said}{best.period}s of {best.users:,}{more}: use `--by {best.period}`"
