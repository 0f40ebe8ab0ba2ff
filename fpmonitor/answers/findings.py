"""What a report on a decision tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain

from fpmonitor.answers.apis import ApiOverview, list_apis
from fpmonitor.answers.automation import AutomationReport, report_automation
from fpmonitor.answers.curve import CurveReport, report_curve
from fpmonitor.answers.decide import called_as, question_of, users_meant
from fpmonitor.answers.demand import DemandLine
from fpmonitor.answers.exposure import ExposureDetails, ExposureReport, report_exposures
from fpmonitor.answers.preview import preview_sets
from fpmonitor.answers.rank import Ranking, rank_sets
from fpmonitor.answers.trend import TrendReport, report_trend
from fpmonitor.answers.trust import Knowledge
from fpmonitor.decide.decision import Decision
from fpmonitor.errors import UndecidableError, UnknownNameError
from fpmonitor.export.coverage import Coverage
from fpmonitor.policy import NO_DEPARTURE, PLAIN_DRAWS
from fpmonitor.population.population import Population
from fpmonitor.population.snapshot import Days
from fpmonitor.population.windows import Windows
from fpmonitor.question import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All that the report tells.

    Attributes:
        decision: The question and its answer.
        name: What the data are called.
        users, visits, days: Those that were measured, and as of `Population.visits` and
            `Population.days`.
        is_current: Whether the decision was made on the same data.
        alone, recommended, one_more: Exposure of each candidate alone; of the recommended set (null
            where it is empty), with the price of trust; of the recommended set with each further
            candidate.
        curves: Exposure curves of the recommended set and of the most exposing API.
        ranking: Sets of one and two candidates by entropy and exposure.
        overview: All observed APIs.
        demand: What scripts read, if a log of it was stored.
        coverage: What each export format can carry out.
        automation: Users that look automated; null where the database keeps no values to tell by.
        sources: APIs whose values come from several sources.
        trend: The recommended set by week; null without two weeks.
        untold: What these users could not be asked, in sentences.
        made: When the report was made.
    """

    decision: Decision
    name: str
    users: int
    visits: int | None
    days: Days | None
    is_current: bool
    alone: Sequence[ExposureReport]
    recommended: ExposureReport | None
    one_more: Sequence[ExposureReport]
    curves: Sequence[CurveReport]
    ranking: Ranking
    overview: Sequence[ApiOverview]
    demand: Sequence[DemandLine]
    coverage: Coverage
    automation: AutomationReport | None
    sources: Sequence[str]
    trend: TrendReport | None
    untold: Sequence[str] = ()
    made: datetime


def gather_findings(
    population: Population,
    decision: Decision,
    *,
    name: str,
    coverage: Coverage,
    pairs: bool = True,
    demand: Sequence[DemandLine] = (),
    windows: Windows | None = None,
    untold: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _stage: None,
) -> Findings:
    """Ask all that a report tells.

    Args:
        population: The users of now, seen as the decision saw its own.
        pairs: Rank pairs of candidates besides the candidates.
        windows: The users by week; None where they are not known.
    """
    decision = called_as(decision, population)
    recommended, candidates = decision.recommended, decision.policy.candidates
    is_current = users_meant(population, decision).seal == decision.digest
    # Visits are for the owner; figures for all are of last values.
    question = replace(question_of(decision), visits="last", after=())
    eligible_users = population.for_question(question, candidates)
    progress("measuring each API alone")
    alone = preview_sets(population, decision, [[api] for api in candidates])
    largest = max(alone, key=lambda report: (report.empirical, report.apis))
    progress("measuring the recommended set")
    exposed = _with_trust(eligible_users, question, recommended)
    progress("measuring what one more API would cost")
    one_more = [[*recommended, api] for api in candidates if recommended and api not in recommended]
    costs = preview_sets(population, decision, one_more) if one_more else []
    progress("drawing exposure curves")
    curves = _curves(population, eligible_users, question, [recommended, largest.apis])
    progress("ranking by entropy and by exposure")
    ranking = rank_sets(eligible_users, question, size=2 if pairs else 1, candidates=candidates)
    progress("following the weeks")
    trend = None if windows is None else _trend_of(windows, _counted(question), recommended)
    progress("describing the users")
    return Findings(
        decision=decision,
        name=name,
        users=eligible_users.users,
        visits=population.visits,
        days=population.days(question.k),
        is_current=is_current,
        alone=alone,
        recommended=exposed,
        one_more=costs,
        curves=curves,
        ranking=ranking,
        overview=list_apis(population, k=question.k),
        demand=demand,
        coverage=coverage,
        automation=_automation_of(population, question.k),
        sources=sorted({*chain(*population.mixed_sources(question.k).values())}),
        trend=trend,
        untold=untold,
        made=datetime.now(UTC),
    )


def _with_trust(
    eligible_users: Population, question: Question, apis: tuple[str, ...]
) -> ExposureReport | None:
    """Measure a set, with the price of trust where that is known; null for the empty set."""
    if not apis:
        return None
    trust: Knowledge | None = "joint" if question.sample.is_plain else None
    return report_exposures(eligible_users, question, [apis], ExposureDetails(trust=trust))[0]


def _automation_of(population: Population, k: int) -> AutomationReport | None:
    return None if population.snapshot.values_are_digested else report_automation(population, k=k)


def _counted(question: Question) -> Question:
    """Return a question about the observed users alone, without limits for others."""
    return replace(question, sample=PLAIN_DRAWS, counted=True)


def _curves(
    population: Population,
    eligible_users: Population,
    question: Question,
    sets: Iterable[tuple[str, ...]],
) -> list[CurveReport]:
    """Draw the curves of sets that are not empty: of the users where the sample has no limits."""
    exact = eligible_users.model(question.sample).departure == NO_DEPARTURE
    described = (eligible_users, question) if exact else (population, _counted(question))
    # Once, where the recommended set is the most exposing API.
    return [report_curve(*described, apis) for apis in dict.fromkeys(sets) if apis]


def _trend_of(windows: Windows, question: Question, apis: tuple[str, ...]) -> TrendReport | None:
    """Follow a set by week; null without two weeks, or where no log holds one of its APIs."""
    if not apis:
        return None
    try:
        found = report_trend(windows, question, [apis])
    except (UndecidableError, UnknownNameError):
        return None
    return found if sum(bool(window.sets) for window in found.windows) > 1 else None
