"""The exposure curve of one API set with its confidence band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fpmonitor.answers.sets import sorted_sets
from fpmonitor.disclosure import check_users, may_count_below
from fpmonitor.estimate.exposure import exposure_curve, gamma_dkw, limits_within
from fpmonitor.policy import PLAIN_DRAWS, Drawn, SampleModel
from fpmonitor.population.population import Population
from fpmonitor.population.sample import sample_members
from fpmonitor.question import Question
from fpmonitor.results import Result
from fpmonitor.spectrum import DisclosedSpectra
from fpmonitor.unit import Unit, told_unit


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """Exposure at one threshold.

    Attributes:
        threshold: Users: those in smaller groups are exposed (strict).
        share: The threshold as a share `t` of the observed users.
        empirical: Share of the observed users in groups smaller than the threshold.
        lower, upper: Limits of `Q(t)`, the share of the population whose value has probability
            below `t`.
    """

    threshold: int
    share: float
    empirical: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveReport(Result):
    """Exposure curve of an API set, wherever it steps.

    Attributes:
        apis: The set.
        users: Observed users.
        delta: Tolerated probability that any limit at any threshold fails.
        points: Increasing in the threshold; between two points the curve is that of the later one.
        masked: APIs of the set whose volatile values the view masks.
        sample, drawn: As of `ExposureReport`.
        unit: What was counted: see `fpmonitor.unit`.
    """

    JSON: ClassVar[str] = "apis users delta points masked"

    apis: tuple[str, ...]
    users: int
    delta: float
    points: tuple[CurvePoint, ...]
    masked: tuple[str, ...] = ()
    sample: SampleModel = PLAIN_DRAWS
    drawn: Drawn | None = None
    unit: Unit = "user"

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each point."""
        return [asdict(point) for point in self.points]

    def to_json(self) -> dict[str, Any]:
        """Return the curve as the CLI prints it."""
        members: dict[str, Any] = Result.to_json(self)
        return members | sample_members(self.sample, self.drawn) | told_unit(self.unit)


def report_curve(
    population: Population,
    question: Question,
    apis: Sequence[str],
    *,
    show_counts_below_k: bool = False,
) -> CurveReport:
    """Exposure curve of one API set, with limits that hold at all thresholds together.

    The curve is the most exposing one that is told, with the lower limits of the least exposing.

    Args:
        population, question: The users, and what is asked of them; `k` is the smallest threshold
            that is shown: smaller ones would tell how many users are in groups of each size below
            it.
        show_counts_below_k: Show all thresholds, to the owner.
    """
    [wanted] = sorted_sets([population.named(apis)])
    unsafe = may_count_below(population.audience, wanted=show_counts_below_k)
    eligible_users = population.for_question(question, wanted)
    sample = eligible_users.model(question.sample)
    sample.check_plain_draws("curve:")
    if not unsafe:
        check_users(eligible_users.users, question.k)
    spectra = eligible_users.disclosed(wanted, question.k)
    curve = curve_of(wanted, spectra, question, show_counts_below_k=unsafe)
    masked = eligible_users.masked(wanted, question.k)
    return replace(
        curve, masked=masked, sample=sample, drawn=eligible_users.drawn, unit=eligible_users.unit
    )


def curve_of(
    apis: tuple[str, ...],
    spectra: DisclosedSpectra,
    question: Question,
    *,
    show_counts_below_k: bool = False,
) -> CurveReport:
    """Exposure curve of what is told of a set."""
    most, least = exposure_curve(spectra.most), exposure_curve(spectra.least)
    # Also k itself, where no group has that size: the curve between two steps is the later one's.
    thresholds = np.union1d(most.thresholds, [question.k])
    if not show_counts_below_k:
        thresholds = thresholds[thresholds >= question.k]
    users = spectra.most.users
    shares = thresholds / users
    gamma = gamma_dkw(users, question.delta)
    lower, upper = limits_within(least, gamma, shares)[0], limits_within(most, gamma, shares)[1]
    # Exposure is of groups strictly smaller than the threshold, as everywhere.
    empirical = most.exposure[most.position(thresholds)]
    columns = (thresholds, shares, empirical, lower, upper)
    return CurveReport(
        apis=apis,
        users=users,
        delta=question.delta,
        points=tuple(
            CurvePoint(threshold=c, share=t, empirical=q, lower=low, upper=high)
            for c, t, q, low, high in zip(*(column.tolist() for column in columns), strict=True)
        ),
    )
