"""What the recommended set of a decision does to people: who can be followed, and who pays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fpmonitor.answers.cohorts import CohortReport, report_cohorts
from fpmonitor.answers.decide import called_as, question_of
from fpmonitor.answers.visits import VisitReport, as_read, report_visits
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.estimate.cohorts import SHARE_LIMITS_SHARE, share_limits
from fpmonitor.population.browsers import BROWSER_FAMILY, OPERATING_SYSTEM

if TYPE_CHECKING:
    from fpmonitor.answers.cohorts import Cohort
    from fpmonitor.decide.decision import Decision
    from fpmonitor.population.population import Population
    from fpmonitor.population.sample import CertifiedSample

LEAST_SHARE = 0.05  # of the users, of a cohort that the limit of all of them is about
LISTED_FROM = 0.01  # of the users: nearly all of fewer are in small groups, whatever is read


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleReport:
    """Who is behind the average of a recommended set; limits hold whichever set was chosen.

    Attributes:
        population, delta: The question.
        linked: Share of n users whose visits any method can link by the set alone, at most.
        cohorts: Exposure within each browser family and operating system; null where nobody knows
            these, or where cohorts have no limits.
        most: What no cohort of at least `least_share` of the users is above, seen or not; null
            without cohorts.
        visits: What one visit and all visits expose, where these were decided on; cohorts are then
            of last values. Null elsewhere.
        kinds, least_share, listed_from: What tells cohorts, and the least shares of the users of
            one that is limited and named.
    """

    population: int
    delta: float
    linked: float
    cohorts: CohortReport | None
    most: float | None
    visits: VisitReport | None = None
    kinds: tuple[str, ...] = ()
    least_share: float = LEAST_SHARE
    listed_from: float = LISTED_FROM

    @property
    def worst(self) -> Cohort | None:
        """Cohort of at least `listed_from` of the users of whom the largest share was exposed."""
        found = () if self.cohorts is None else self.cohorts.cohorts
        large = [each for each in found if each.share >= self.listed_from]
        return max(large, key=lambda each: (each.empirical or 0, each.upper), default=None)


def report_people(population: Population, decision: Decision) -> PeopleReport | None:
    """Tell who is behind the average of a decision's recommended set; null where nobody is asked.

    That is where nothing is recommended, where observed users were counted, and where rows are not
    in memory: a decision is not to wait for it.

    Args:
        population: The users, seen as the decision saw them.
    """
    if decision.is_exact or not decision.recommended or not population.snapshot.in_memory(1):
        return None
    apis, question = called_as(decision, population).recommended, question_of(decision)
    users = population
    cohort: tuple[str, ...] = ()
    cohort_budget = decision.policy.cohorts
    if cohort_budget is not None:
        users, cohort = population.with_kinds(cohort_budget.given)
    elif question.sample.is_plain and question.missing != "exposed":
        users, cohort = _with_known_kinds(population)
    shared = 1.0 if cohort_budget is None else cohort_budget.level_share
    # What tells cohorts may have been chosen of a menu: that choice has its share of delta.
    tested = replace(question, delta=question.delta * shared)
    sample = users.sample(tested, [apis, cohort], given=cohort)
    # It was chosen among all that may be asked for, or among the candidates that were fixed before.
    sample.universe = decision.universe or len(decision.policy.candidates)
    visits = None
    if as_read(population, decision).policy.visits != "last":
        eligible_users = users.for_question(sample.question, sample.source.apis)
        rows, key = eligible_users.visit_rows(apis), eligible_users.snapshot.key
        visits = report_visits(rows, key, sample, apis)
    linked = sample.linked(apis) if visits is None else visits.linked
    found, most = None, 1.0
    least = LEAST_SHARE if cohort_budget is None else cohort_budget.least_share
    if cohort:
        texts = {kind: users.value_texts(kind) for kind in cohort}
        found = report_cohorts(sample, apis, cohort, texts)
        most = _most_of_all(found, sample, least)
        if cohort_budget is not None:  # as the decision promises it
            most = min(most, cohort_budget.budget)
    return PeopleReport(
        population=sample.question.users,
        delta=question.delta,
        linked=linked[1],
        cohorts=found,
        most=None if found is None else most,
        visits=visits,
        kinds=cohort,
        least_share=least,
    )


def _with_known_kinds(population: Population) -> tuple[Population, tuple[str, ...]]:
    """Return users with columns for family and system, as far as the log tells them."""
    known: list[str] = []
    for kind in (BROWSER_FAMILY, OPERATING_SYSTEM):
        try:
            population, (name,) = population.with_kinds([kind])
        except (InputError, UndecidableError):  # nobody's is known, or digests are kept alone
            continue
        known.append(name)
    return population, tuple(known)


def _most_of_all(found: CohortReport, sample: CertifiedSample, least: float) -> float:
    """Return what no cohort of the least share is above; all limits of all of them hold together.

    One that may be as large as that counts, and so do those that are not listed or were not seen.
    """
    delta = sample.question.delta * SHARE_LIMITS_SHARE

    def may_count(seen: int) -> bool:
        return share_limits(seen, sample.users, delta)[1] >= least

    # Cohorts that are not listed have no limits of their own: one of them may be the worst.
    if may_count(0 if found.others is None else found.others.users):
        return 1.0
    return max((each.upper for each in found.cohorts if may_count(each.users)), default=0.0)
