"""What a report on a decision tells, asked of a monitor, wherever it holds its users."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fpmonitor.answers.apis import ApiOverview
    from fpmonitor.answers.automation import AutomationReport
    from fpmonitor.answers.curve import CurveReport
    from fpmonitor.answers.demand import DemandLine
    from fpmonitor.answers.exposure import ExposureReport
    from fpmonitor.answers.rank import Ranking
    from fpmonitor.answers.trend import TrendReport
    from fpmonitor.answers.trust import Knowledge
    from fpmonitor.decide.decision import Decision, Missing
    from fpmonitor.export.coverage import Coverage


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All that the report tells.

    Attributes
    ----------
    decision
        The question and its answer.
    alone, recommended, one_more
        Exposure of each candidate alone; of the recommended set (null where it is empty), with the
        price of trust; of the recommended set with each further candidate.
    curves
        Exposure curves of the recommended set and of the most exposing API.
    ranking
        Sets of one and two candidates by entropy and exposure.
    overview
        All observed APIs.
    demand
        What scripts read, if a log of it was stored.
    coverage
        What each export format can carry out.
    automation
        Users that look automated; null where the database keeps no values to tell by.
    sources
        APIs whose values come from several sources.
    visits
        Visits behind the users.
    trend
        The recommended set by week; null without two weeks.
    untold
        What these users could not be asked, in sentences.
    made
        When the report was made.
    """

    decision: Decision
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
    visits: int
    trend: TrendReport | None
    untold: Sequence[str] = ()
    made: datetime


class Asked(Protocol):
    """A monitor that looks at the users as the decision did; arguments as of `Monitor`."""

    def exposure(
        self,
        sets: Iterable[Sequence[str]],
        *,
        k: int,
        population: int | None = None,
        delta: float = 0.05,
        missing: Missing = "value",
        trust: Knowledge | None = None,
    ) -> list[ExposureReport]:
        """Exposure of API sets."""

    def preview(
        self, decision: Decision, sets: Iterable[Sequence[str]], *, delta: float = 0.05
    ) -> list[ExposureReport]:
        """Exposure of subsets of a decision's candidates, as its own question."""

    def rank(
        self,
        sets: Iterable[Sequence[str]] = (),
        *,
        size: int = 1,
        candidates: Sequence[str] | None = None,
        k: int = 10,
        population: int | None = None,
        delta: float = 0.05,
        missing: Missing = "value",
    ) -> Ranking:
        """Rank API sets by entropy and by exposure."""

    def curve(
        self, apis: Sequence[str], *, k: int = 10, delta: float = 0.05, missing: Missing = "value"
    ) -> CurveReport:
        """Exposure curve of one API set."""

    def apis(self, *, k: int = 10) -> list[ApiOverview]:
        """Overview of every API."""

    def mixed_sources(self, *, k: int = 10) -> Mapping[str, Sequence[str]]:
        """APIs whose values come from several sources."""


def gather_findings(
    asked: Asked,
    decision: Decision,
    *,
    coverage: Coverage,
    pairs: bool,
    visits: int,
    automation: AutomationReport | None,
    demand: Sequence[DemandLine] = (),
    trend: TrendReport | None = None,
    untold: Sequence[str] = (),
) -> Findings:
    """Ask all that a report tells.

    Parameters
    ----------
    asked
        Looks at the users of now as the decision did.
    decision
        The question and its answer.
    coverage, visits, automation, demand, trend, untold
        As of `Findings`.
    pairs
        Rank pairs of candidates besides the candidates.

    Raises
    ------
    PolicyError, UnknownNameError, UndecidableError
        The data of now lack a candidate, or hold too few users.
    """
    policy, recommended = decision.policy, decision.recommended
    candidates, k, missing = policy.candidates, policy.k, decision.missing
    population, delta = policy.population, policy.delta or 0.05
    rest = [api for api in candidates if api not in recommended]
    alone = asked.preview(decision, [[api] for api in candidates])
    largest = max(alone, key=lambda report: (report.empirical, report.apis))
    exposed = (
        asked.exposure(
            [recommended], k=k, population=population, delta=delta, missing=missing, trust="joint"
        )
        if recommended
        else []
    )
    shown = dict.fromkeys([recommended, largest.apis])
    mixed = asked.mixed_sources(k=k).values()
    return Findings(
        decision=decision,
        alone=alone,
        recommended=exposed[0] if exposed else None,
        one_more=asked.preview(decision, [[*recommended, api] for api in rest])
        if recommended
        else [],
        curves=[asked.curve(apis, k=k, delta=delta, missing=missing) for apis in shown if apis],
        ranking=asked.rank(
            size=2 if pairs else 1,
            candidates=candidates,
            k=k,
            population=population,
            delta=delta,
            missing=missing,
        ),
        overview=asked.apis(k=k),
        demand=demand,
        coverage=coverage,
        automation=automation,
        sources=sorted({name for names in mixed for name in names}),
        visits=visits,
        trend=trend,
        untold=untold,
        made=datetime.now(UTC),
    )
