"""Whether a list that is in use still keeps the budget of a decision on the current users."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fpmonitor.answers.check import CheckReport, report_check
from fpmonitor.answers.decide import called_as

if TYPE_CHECKING:
    from fpmonitor.decide.decision import ApiSet, Decision, Verdict
    from fpmonitor.export.in_use import ListInUse
    from fpmonitor.population.population import Population


def check_list(population: Population, decision: Decision, in_use: ListInUse) -> CheckReport:
    """Test what a list leaves readable, by the tests of a decision.

    It passes by all that may stay readable, and is violated by what surely does. What it lets
    sites read of other APIs than the candidates, or of those without evidence, passes nothing.

    Args:
        population: The current users, seen as the decision saw its own.
        decision: The decision.
        in_use: What the list leaves.
    """
    original_decision, decision = decision, called_as(decision, population)

    def called(apis: ApiSet) -> ApiSet:
        names = (api if api in population.apis else original_decision.means(api) for api in apis)
        return tuple(sorted(population.named(names)))

    left = {called(each.most): called(each.least) for each in in_use.left}
    # Both ends of each list in one check, whose limits hold together.
    sets = sorted({apis for pair in left.items() for apis in pair if apis})
    report = report_check(population, replace(decision, allow=tuple(sets)))
    verdicts: dict[ApiSet, Verdict] = {}
    limits: dict[ApiSet, tuple[float, float]] = {}
    for most, least in left.items():
        # The empty set was not tested, as it exposes nobody.
        within, above = (report.verdicts.get(apis, "allow") for apis in (most, least))
        is_known = not (in_use.strangers or decision.no_evidence.keys() & {*most})
        passes: Verdict = "allow" if within == "allow" and is_known else "undecided"
        verdicts[most] = "block" if above == "block" else passes
        (lower, _), (_, upper) = (report.limits.get(apis, (0.0, 0.0)) for apis in (least, most))
        # Of what nobody observed nothing is limited from above.
        limits[most] = (lower, upper if is_known else 1.0)
    return replace(
        report,
        decision=replace(decision, allow=tuple(verdicts)),
        verdicts=verdicts,
        limits=limits,
        of_list=True,
    )
