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

from fpmonitor.decide.decision import ByVisits
from fpmonitor.errors import InputError
from fpmonitor.estimate.exposure import empirical_exposure
from fpmonitor.policy import told_from
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

    from numpy.typing import NDArray

    from fpmonitor.population.population import Population
    from fpmonitor.population.sample import CertifiedSample
    from fpmonitor.question import Question

_NOTED_FROM = 1.5  # times what one visit exposes
MOST_CELLS = 20_000_000  # values of visits that are read where nobody asked for them
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


def beyond_last(
    population: Population, question: Question, apis: Sequence[str], empirical: float
) -> ByVisits | None:
    """Tell what visits show of a set where last values show far fewer exposed users.

    Null elsewhere, and where nobody can tell: for others, and of more visits than are read at once.

    Args:
        population, question: The users and the question, as they are asked of the set.
        apis: The set.
        empirical: Share of the users whom last values expose.
    """
    came = (population.visits or 0) - population.snapshot.users
    held = (population.visits or 0) * len(apis)
    if came <= 0 or not 0 < held <= MOST_CELLS or not population.snapshot.in_memory(len(apis)):
        return None
    groups = _Groups.of(population, apis, whole=question.missing == "drop")
    if groups is None:
        return None
    found, users = groups.told(question.k), len(groups.visits.starts)
    most = max(found.visit, found.path)
    noted = most >= _NOTED_FROM * max(empirical, 1 / users)
    return found if noted and (most - empirical) * users >= told_from(question.k) else None


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """Groups by one visit of each user, for several draws, and by all visits."""

    visits: VisitRows
    ids: NDArray[np.intp]  # of the whole tuple of each visit
    drawn: Sequence[CountSpectrum]
    path: CountSpectrum

    @classmethod
    def of(cls, population: Population, apis: Sequence[str], *, whole: bool) -> _Groups | None:
        """Group the visits that brought a value of a set; null where none did."""
        visits = with_values(population.visit_rows(apis), apis, whole=whole)
        if not len(visits.rows):
            return None
        ids = tuple_ids(visits, apis)
        places = drawn_visits(visits, DRAWS)
        drawn = [CountSpectrum.from_counts(np.bincount(ids[place])) for place in places]
        return cls(visits, ids, drawn, path_spectrum(visits, ids, population.snapshot.key))

    def exposed(self, k: int) -> ByVisits:
        """Share of the users in groups smaller than k."""
        visit = np.mean([empirical_exposure(each, k) for each in self.drawn])
        return ByVisits(visit=float(visit), path=empirical_exposure(self.path, k))

    def told(self, k: int) -> ByVisits:
        """Share of the users as lists may tell it: that of few users is of one fewer than told."""
        found, users = self.exposed(k), len(self.visits.starts)
        few = (told_from(k) - 1) / users
        shares = (share and max(share, few) for share in (found.visit, found.path))
        return ByVisits(**dict(zip(("visit", "path"), shares, strict=True)))


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

    Raises:
        InputError: No visit brought a value of the set.
    """
    groups = _Groups.of(population, apis, whole=sample.question.missing == "drop")
    if groups is None:
        raise InputError("visits: none brought a value of these APIs", hint="name others")
    visits, users = groups.visits, len(groups.visits.starts)
    limits = sample.certificate(apis, users=users)
    found = groups.exposed(sample.question.k)
    visit, path = limits.of_mean(groups.drawn, len(apis)), limits.of(groups.path, len(apis))
    return VisitReport(
        users=users,
        visits=len(groups.ids),
        days=_days(visits),
        visit=Exposed(empirical=found.visit, lower=visit[0], upper=visit[1]),
        path=Exposed(empirical=found.path, lower=path[0], upper=path[1]),
        changing=_changing(visits, apis),
    )


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
