"""Other decisions on the same users: what a site reads that has the lists of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fpmonitor.answers.decide import called_as, question_of
from fpmonitor.answers.exposure import report_exposure
from fpmonitor.errors import FpmonitorError
from fpmonitor.export.headline import between_shares
from fpmonitor.policy import per_cent

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date

    from fpmonitor.decide.decision import ApiSet, Decision, Verdict
    from fpmonitor.decide.questions import ListedQuestion
    from fpmonitor.population.population import Population


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What the recommended sets of two decisions let a site read together.

    Attributes:
        day: On which the other question was last answered (UTC).
        other: What it recommends beyond the decision's own set.
        verdict: On all of both.
        limits: Of the exposure of all of both, in [0, 1], without a share of the decision's delta;
            null where it was not measured.
        budget: Of the decision.
    """

    day: date
    other: ApiSet
    verdict: Verdict
    limits: tuple[float, float] | None
    budget: float

    @property
    def text(self) -> str:
        """Say what both lists together let a site read."""
        begin = f"a decision of {self.day} on these users exposes {', '.join(self.other)} as well"
        budget = f"the budget of {per_cent(self.budget)} %"
        if self.limits is None:
            said = {"allow": "is within", "block": "is above"}.get(self.verdict)
            end = f"reading both {said} {budget}" if said else "reading both was not tested"
        else:
            exposes = f"both together expose {between_shares(self.limits)} % of the users"
            said = {"allow": "within", "block": "above"}.get(self.verdict, "not certified within")
            end = f"{exposes}, {said} {budget}"
        wrong = "" if self.verdict == "allow" else "; decide on all of them at once"
        return f"{begin}: {end}{wrong}"


def decisions_beside(
    population: Population, decision: Decision, listed: Iterable[ListedQuestion]
) -> list[Beside]:
    """Test what a decision recommends together with what others on the same users recommend.

    Of each choice of candidates the last answer counts. Others that recommend nothing more, and
    those whose candidates are the decision's own, which replace it, are left out.

    Args:
        population: The users of now, seen as the decision saw its own.
        listed: What their database lists, in the order of asking.
    """
    decision = called_as(decision, population)
    own = frozenset(decision.recommended)
    candidates = frozenset(decision.policy.candidates)
    # A dict keeps the last of each key, and the list is in the order of asking.
    last = {
        frozenset(each.question.policy.candidates): each
        for each in listed
        if each.answer is not None
    }
    found = []
    for others, each in last.items():
        more = frozenset() if each.answer is None else frozenset(each.answer.recommended) - own
        if others == candidates or not more or not own:
            continue
        found.append(_tested(population, decision, each, tuple(sorted(more))))
    return found


def _tested(
    population: Population, decision: Decision, each: ListedQuestion, more: ApiSet
) -> Beside:
    both = tuple(sorted({*decision.recommended, *more}))
    limits = None
    verdict: Verdict = "undecided"
    if {*both} <= {*decision.policy.candidates}:
        # The decision has tested this set already, whatever was chosen after looking; limits would
        # not.
        verdict = decision.verdict(both)[0]
    else:
        limits = _limits(population, decision, both)
        if limits is not None and limits[0] > decision.policy.budget:
            verdict = "block"
        elif limits is not None and limits[1] <= decision.policy.budget:
            verdict = "allow"
    return Beside(
        day=each.asked_at.date(),
        other=more,
        verdict=verdict,
        limits=limits,
        budget=decision.policy.budget,
    )


def _limits(population: Population, decision: Decision, apis: ApiSet) -> tuple[float, float] | None:
    """Limits of the exposure of a set; null where these users have not all of it."""
    try:
        wanted = tuple(sorted(population.named(apis)))
        sample = population.sample(question_of(decision), [wanted])
    except FpmonitorError:
        return None
    sample.ask([wanted])
    report = report_exposure(sample, wanted)
    return report.lower, report.upper
