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
from fpmonitor.policy import DRAWS, disclosed_from
from fpmonitor.population.visits import PathSource, VisitSource, visits_of_set, with_values
from fpmonitor.results import Members
from fpmonitor.spectrum import DisclosedSpectra
from fpmonitor.store.visits import NO_TIME, VisitRows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.decide.asked import DecideQuestion
    from fpmonitor.decide.decision import Decision
    from fpmonitor.policy import Visits
    from fpmonitor.population.population import Population
    from fpmonitor.population.sample import CertifiedSample
    from fpmonitor.question import Question
    from fpmonitor.spectrum import CountSpectrum

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
        users: All of them; with absent users left out, those with a visit that brought all values.
        visits: Those that brought a value of the set; one of each user who has none.
        days: From the first of these visits to the last, days; null without times.
        visit: One visit of each user, drawn: means over draws.
        path: All visits of each user in their order, repeats left out.
        changing: API -> share of the users with several visits whose value differed between two,
            the largest share first.
        linked: Limits of the share of the users whose visits any method links, shares.
    """

    JSON = "users visits days visit path changing"

    users: int
    visits: int
    days: float | None
    visit: Exposed
    path: Exposed
    changing: Mapping[str, float]
    linked: tuple[float, float]

    @property
    def is_noted(self) -> bool:
        """Whether a site that knows its users again sees half as much again, or more."""
        # At least one user: of nobody any share would be half as much again.
        return self.path.empirical >= _NOTED_FROM * max(self.visit.empirical, 1 / self.users)


def unit_decided_by(
    population: Population, decide_question: DecideQuestion, apis: int, *, most: int
) -> Visits:
    """Return what counts as a value of a user where nobody said.

    Last values, and one visit besides where some users came back: at least k, as lists tell others
    which it was. Whoever looks at the users may add a condition at no price, not put one in the
    place of another: docs/certificate/visits.md.

    Args:
        population, decide_question: The users, and what is asked of them.
        apis, most: Number of candidates, and that above which the best set is searched: by last
            values, so that of 40 candidates the condition left a utility of 3 where 8 was possible.
    """
    if decide_question.visits != "auto":
        return decide_question.visits
    if decide_question.known is not None:
        return decide_question.known.policy.visits
    is_told = (
        decide_question.goes_with("unit")
        and apis <= most
        and has_visits(population, apis)
        and population.can_read_visits(apis, DRAWS)
        and population.came_back(decide_question.k)
    )
    return "last+visit" if is_told else "last"


def as_read(population: Population, decision: Decision) -> Decision:
    """Return a decision as users test it: by last values where their visits are too many to read.

    The same number as above which nobody decides by visits unasked.
    """
    is_few = population.can_read_visits(len(decision.asked), DRAWS)
    return decision if is_few else decision.by_last_values


def came_several_times(
    population: Population, question: Question, given: Sequence[str], apis: int
) -> bool:
    """Whether visits tell more than last values, and have limits with what is asked."""
    plain = question.missing != "exposed" and not given and question.sample.is_plain
    return plain and has_visits(population, apis)


def has_visits(population: Population, apis: int) -> bool:
    """Whether users came several times, and their visits are few enough to be read unasked."""
    visits = population.visits or 0  # none where they may not be told
    if visits <= population.snapshot.users or not hasattr(population.snapshot, "visit_rows"):
        return False
    return population.can_read_visits(apis)


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
    if not has_visits(population, len(apis)):
        return None
    rows, key = population.visit_rows(apis), population.snapshot.key
    groups = _Groups.of(rows, apis, key, whole=question.missing == "drop")
    if groups is None:
        return None
    found, users = groups.disclosed(question.k), len(groups.visits.starts)
    most = max(found.visit, found.path)
    noted = most >= _NOTED_FROM * max(empirical, 1 / users)
    return found if noted and (most - empirical) * users >= disclosed_from(question.k) else None


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """Groups by one visit of each user, in all draws together, and by all visits."""

    visits: VisitRows
    drawn: CountSpectrum
    path: CountSpectrum

    @classmethod
    def of(cls, rows: VisitRows, apis: Sequence[str], key: str, *, whole: bool) -> _Groups | None:
        """Group the visits that brought a value of a set; null where none did.

        Who has no such visit has one without values; where `whole`, none.
        """
        visits = with_values(rows, apis, whole=True) if whole else visits_of_set(rows, apis)
        if not any(visits.codes[api].any() for api in apis):
            return None
        paths = PathSource(visits, key)
        return cls(visits, VisitSource(visits).spectrum(apis), paths.spectrum(apis))

    def exposed(self, k: int) -> ByVisits:
        """Share of the users in groups smaller than k."""
        visit, path = (empirical_exposure(groups, k) for groups in (self.drawn, self.path))
        return ByVisits(visit=visit, path=path)

    def disclosed(self, k: int) -> ByVisits:
        """Share of the users as lists may tell it: that of few users is of one fewer than told."""
        found, users = self.exposed(k), len(self.visits.starts)
        # The share is written into lists, which are handed on: fewer than k users show as k - 1.
        few = (disclosed_from(k) - 1) / users
        visit, path = (share and max(share, few) for share in (found.visit, found.path))
        return ByVisits(visit=visit, path=path)


def check_visits(question: Question, given: Sequence[str], **options: object) -> None:
    """Refuse what has no limits by visits.

    Args:
        question, given: What is asked.
        options: Options that read visits, as Python calls them, and what was given for each.

    Raises:
        InputError: Absent users who count as exposed, given APIs, or users who are no plain draws.
    """
    for option in (name.replace("_", "-") for name, value in options.items() if value):
        if question.missing == "exposed":
            raise InputError(f"{option}: not with --missing exposed", hint="ask value or drop")
        if given:
            raise InputError(f"{option}: not with --given", hint="name all APIs in the set")
        if not question.sample.is_plain:
            named = ", ".join(f"--{name}" for name in question.sample.options)
            raise InputError(f"{option}: has no limits with {named}", hint=f"omit {named}")


def report_visits(
    rows: VisitRows, key: str, sample: CertifiedSample, apis: Sequence[str]
) -> VisitReport | None:
    """Limit what visits expose, and the share that any method links from one to another.

    Null where no visit brought a value of the set, or all of them are left out.

    Args:
        rows, key: All visits of the users who are asked of, and what words of paths are made with.
        sample, apis: The question of the set.
    """
    groups = _Groups.of(rows, apis, key, whole=sample.question.missing == "drop")
    if groups is None:
        return None
    visits, users = groups.visits, len(groups.visits.starts)
    limits = sample.certificate(apis, users=users)
    found = groups.exposed(sample.question.k)
    # 16 draws of one visit of each user, together: the mean of their scores is tested (24).
    drawn = [DisclosedSpectra.all_of(groups.drawn)]
    visit = limits.of_mean(drawn, DRAWS, len(apis))
    path = limits.of(groups.path, len(apis))
    # Linking compares whole visits, so it is of one visit of each user, not of last values.
    linked = sample.certificate(apis, users=users, linked=True)
    return VisitReport(
        users=users,
        visits=len(visits.rows),
        days=_days(visits),
        visit=Exposed(empirical=found.visit, lower=visit[0], upper=visit[1]),
        path=Exposed(empirical=found.path, lower=path[0], upper=path[1]),
        changing=_changing(visits, apis),
        linked=linked.of_mean(drawn, DRAWS, len(apis)),
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
        # Equal ends of a user's visits are equal codes in between; no sort is needed.
        differs = np.maximum.reduceat(codes, starts) != np.minimum.reduceat(codes, starts)
        found[api] = float(differs[several].mean())
    return dict(sorted(found.items(), key=lambda entry: (-entry[1], entry[0])))


def _days(visits: VisitRows) -> float | None:
    known = visits.times[visits.times != NO_TIME]
    return float(np.ptp(known) / _MICROSECONDS) if len(known) else None
