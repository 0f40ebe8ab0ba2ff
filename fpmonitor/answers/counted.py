"""Names of the exact figures that answers tell, by which a reader's share of them is limited.

Each count of users is one, and so is all else that is told of one way to group the users: what
changes any of it changes the name. Names are of the users that were asked for; whoever keeps them
adds the data and the view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fpmonitor.release.query_audit import name_exposure

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fpmonitor.answers.curve import CurveReport
    from fpmonitor.answers.exposure import ExposureReport
    from fpmonitor.answers.rank import Ranking
    from fpmonitor.population.exposure_index import ExposureIndex
    from fpmonitor.question import Question


def counted_exposures(reports: Sequence[ExposureReport], question: Question) -> list[str]:
    """Name the figures of exposures that were asked for together."""
    sets = [report.together for report in reports]
    names = _counted(sets, question, reports[0].population)
    # Where absent users are dropped, the last name is of their number and of no set.
    for name, report in zip(names.copy(), reports, strict=False):
        if report.left_out is not None:
            names.append(f"{name}, without volatile values")
        if report.entropies:
            names.append(f"{name}, entropies")
        if report.visits is not None:
            names += [f"{name}, by one visit", f"{name}, by all visits"]
        # All digits: days that print alike take in other visits, so each is a figure of its own.
        names += [f"{name}, after {line.days:.17g} days" for line in report.followed]
        names += [f"{name}, {level.knowledge}" for level in report.trust]
        if report.cohorts is not None:
            cohorts = [str(sorted(cohort.given.items())) for cohort in report.cohorts.cohorts]
            if report.cohorts.others is not None:
                cohorts.append("others")
            names += [f"users of cohort {cohort}" for cohort in cohorts]
            names += [f"{name}, of cohort {cohort}" for cohort in cohorts]
    return names


def counted_ranks(ranking: Ranking, question: Question) -> list[str]:
    """Name the figures of a ranking, which are among those of its exposures."""
    return _counted([line.apis for line in ranking.sets], question, ranking.population)


def counted_curve(report: CurveReport, question: Question) -> list[str]:
    """Name the points of a curve."""
    return [
        name
        for point in report.points
        for name in _counted([report.apis], question, None, k=point.threshold)
    ]


def counted_answer(apis: Sequence[str], index: ExposureIndex) -> str:
    """Name the figures of a set of the users in memory."""
    return _counted([apis], index.sample.question, index.population, among=index.apis)[0]


def _counted(
    sets: Sequence[Sequence[str]],
    question: Question,
    population: int | None,
    *,
    k: int | None = None,
    among: Iterable[str] | None = None,
) -> list[str]:
    """Name the figures of each set, and then the number of users where it is not that of all."""
    drops = question.missing == "drop"
    present = sorted({api for apis in sets for api in apis} if among is None else among)
    names = [
        name_exposure(
            apis,
            question.k if k is None else k,
            population=population,
            missing=question.missing,
            present=present if drops else (),
        )
        for apis in sets
    ]
    return [*names, f"users with all of {present}"] if drops else names
