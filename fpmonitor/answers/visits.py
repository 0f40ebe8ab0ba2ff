"""What one visit of each user exposes, and what all visits of a user together do.

The values that users showed last may come from several visits, so nobody need have shown them
together. A visit is a whole tuple: one is drawn of each user, and the mean of the score over draws
is tested, so no draw decides. The path is the tuples in their order, repeats left out: what a site
sees that knows its users again. Theorems: docs/certificate/visits.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.errors import InputError
from fpmonitor.estimate.exposure import empirical_exposure
from fpmonitor.population.visits import (
    DRAWS,
    drawn_visits,
    path_spectrum,
    tuple_ids,
    with_values,
)
from fpmonitor.results import Members
from fpmonitor.spectrum import CountSpectrum
from fpmonitor.store.visits import NO_TIME, VisitRows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.estimate.limits import Limits
    from fpmonitor.population.population import Population
    from fpmonitor.population.sample import CertifiedSample
    from fpmonitor.question import Question

_NOTED_FROM = 1.5  # times what one visit exposes
_MICROSECONDS = 86_400_000_000  # of a day


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposed(Members):
    """Share of users in groups smaller than k: of the observed ones, and limits."""

    JSON = "empirical lower upper"

    empirical: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitReport(Members):
    """Exposure by one visit of each user, and by all visits of a user.

    Attributes:
        users, visits: Those with a visit that brought a value of the set.
        days: From the first of these visits to the last, days; null without times.
        visit: One visit of each user, drawn: means over draws.
        path: All visits of each user in their order, repeats left out.
        changing: API -> share of the users with several visits whose value differed between two,
            the largest share first.
    """

    JSON = "users visits days visit path changing"

    users: int
    visits: int
    days: float | None
    visit: Exposed
    path: Exposed
    changing: Mapping[str, float]

    @property
    def is_noted(self) -> bool:
        """Whether a site that knows its users again sees half as much again, or more."""
        return self.path.empirical >= _NOTED_FROM * max(self.visit.empirical, 1 / self.users)


def check_visits(question: Question, given: Sequence[str], **asked: object) -> None:
    """Refuse what has no limits by visits.

    Args:
        question, given: What is asked.
        asked: Options that read visits, as Python calls them, and what was given for each.

    Raises:
        InputError: Absent users who count as exposed, given APIs, or users who are no plain draws.
    """
    for option in (name.replace("_", "-") for name, value in asked.items() if value):
        if question.missing == "exposed":
            raise InputError(f"{option}: not with --missing exposed", hint="ask value or drop")
        if given:
            raise InputError(f"{option}: not with --given", hint="name all APIs in the set")
        if not question.sample.is_plain:
            named = ", ".join(f"--{name}" for name in question.sample.options)
            raise InputError(f"{option}: has no limits with {named}", hint=f"leave {named} away")


def report_visits(
    population: Population, sample: CertifiedSample, apis: Sequence[str]
) -> VisitReport:
    """Limit what visits expose.

    Args:
        population, sample: The users and the question, as they are asked of the set.
        apis: The set.
    """
    visits = with_values(population.visit_rows(apis), apis, whole=sample.question.missing == "drop")
    ids = tuple_ids(visits, apis)
    k, starts = sample.question.k, visits.starts
    limits = sample.certificate(apis, users=len(starts))
    drawn = [
        CountSpectrum.from_counts(np.bincount(ids[place])) for place in drawn_visits(visits, DRAWS)
    ]
    path = path_spectrum(visits, ids, population.snapshot.key)
    lower, upper = limits.of_mean(drawn, len(apis))
    return VisitReport(
        users=len(starts),
        visits=len(ids),
        days=_days(visits),
        visit=Exposed(
            empirical=float(np.mean([empirical_exposure(each, k) for each in drawn])),
            lower=lower,
            upper=upper,
        ),
        path=_exposed(path, limits, k, len(apis)),
        changing=_changing(visits, apis),
    )


def _exposed(spectrum: CountSpectrum, limits: Limits, k: int, size: int) -> Exposed:
    lower, upper = limits.of(spectrum, size)
    return Exposed(empirical=empirical_exposure(spectrum, k), lower=lower, upper=upper)


def _changing(visits: VisitRows, apis: Sequence[str]) -> dict[str, float]:
    """Share of the users with several visits whose values differ, by API; absent is a value."""
    starts = visits.starts
    several = np.diff(np.append(starts, len(visits.rows))) > 1
    if not several.any():
        return {}
    found = {}
    for api in apis:
        codes = visits.codes[api]
        differs = np.maximum.reduceat(codes, starts) != np.minimum.reduceat(codes, starts)
        found[api] = float(differs[several].mean())
    return dict(sorted(found.items(), key=lambda entry: (-entry[1], entry[0])))


def _days(visits: VisitRows) -> float | None:
    known = visits.times[visits.times != NO_TIME]
    return float(np.ptp(known) / _MICROSECONDS) if len(known) else None
