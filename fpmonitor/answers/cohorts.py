"""Exposure of an API set cohort by cohort, and in the worst of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from fpmonitor.disclosure import FOR_OTHERS, complement_of, is_publishable, most_exposing
from fpmonitor.errors import InputError
from fpmonitor.estimate.cohorts import cohort_exposure, cohort_limits
from fpmonitor.estimate.entropy import conditional_entropy_bits
from fpmonitor.estimate.exposure import empirical_exposure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fpmonitor.population.duckdb import CohortSpectra
    from fpmonitor.population.sample import CertifiedSample


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """Users that share the values of the given APIs.

    Attributes
    ----------
    given
        Each given API and its value; null where absent.
    users, share
        Observed users of the cohort, and the same as a share of all observed users.
    empirical
        Share of them in groups smaller than k, of equal values of the given APIs and the set; that
        of k - 1 users, also in the estimate, where they are fewer, but not none. Null, as is the
        estimate, where it would give that of another cohort away.
    estimate
        Estimate of the cohort's statistical exposure; null for a population above the users.
    lower, upper
        Its limits; the upper ones of all cohorts hold together, and the lower ones.
    """

    given: Mapping[str, str | None]
    users: int
    share: float
    empirical: float | None
    estimate: float | None
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledCohorts:
    """Cohorts of fewer than k users, which are not listed one by one.

    Attributes
    ----------
    cohorts, users, empirical
        How many there are, their observed users, and the share of those in groups smaller than k.
        One larger cohort joins them when they have fewer than k users together, and those in which
        1 to k - 1 users are exposed when no cohort exposes more.
    """

    cohorts: int
    users: int
    empirical: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortReport:
    """Exposure of an API set within the cohorts of given APIs.

    Attributes
    ----------
    cohorts
        Those of at least k observed users, the one with the highest upper limit first.
    others
        The rest, pooled; null when there is none.
    conditional_entropy_bits
        Entropy that the set adds for a site that knows the cohort, bits.
    """

    cohorts: tuple[Cohort, ...]
    others: PooledCohorts | None
    conditional_entropy_bits: float

    @property
    def worst(self) -> Cohort | None:
        """Listed cohort with the highest upper limit."""
        return self.cohorts[0] if self.cohorts else None

    def to_json(self) -> dict[str, Any]:
        """Return the report as the CLI prints it."""
        return {
            "cohorts": [asdict(cohort) for cohort in self.cohorts],
            "worst": asdict(self.worst) if self.worst else None,
            "others": asdict(self.others) if self.others else None,
            "conditional_entropy_bits": self.conditional_entropy_bits,
        }


def report_cohorts(
    sample: CertifiedSample,
    apis: Sequence[str],
    given: Sequence[str],
    texts: Mapping[str, Mapping[int, str | None]],
    *,
    show_counts_below_k: bool = False,
) -> CohortReport:
    """Estimate the exposure of an API set within each cohort of the given APIs.

    Parameters
    ----------
    sample
        The users and the question.
    apis, given
        The set, and the APIs that cannot be hidden.
    texts
        For each given API, what its value numbers stand for.
    show_counts_below_k
        Tell fewer than k exposed users as they are.

    Raises
    ------
    InputError
        No API is given.
    UnknownNameError
        An API that was never observed.
    """
    if not given:
        raise InputError("given: name at least one API")
    spectra = sample.thinned.cohorts(given, apis)
    least = sample.k if FOR_OTHERS.get() and not show_counts_below_k else 0
    listed, pooled = _split(spectra, sample.k, least)
    cohorts = [_cohort(sample, cohort, given, texts, least) for cohort in listed]
    # The exposure of all users is told, and the users of small cohorts are all exposed.
    hidden = complement_of([_exposed([cohort], sample.k) for cohort in listed], least)
    if hidden is not None:
        cohorts[hidden] = replace(cohorts[hidden], empirical=None, estimate=None)
    return CohortReport(
        cohorts=tuple(sorted(cohorts, key=lambda cohort: (-cohort.upper, -cohort.users))),
        others=_pool(pooled, sample.k, least),
        conditional_entropy_bits=conditional_entropy_bits(
            most_exposing(sample.full.spectrum([*given, *apis]), least),
            most_exposing(sample.full.spectrum(given), least),
        ),
    )


def _split(
    spectra: Iterable[CohortSpectra], k: int, least: int
) -> tuple[list[CohortSpectra], list[CohortSpectra]]:
    """Cohorts that may be listed, and the others: none of either can be told by subtraction."""
    ordered = sorted(spectra, key=lambda cohort: cohort.spectrum.users)
    small = sum(cohort.spectrum.users < k for cohort in ordered)
    if small and sum(cohort.spectrum.users for cohort in ordered[:small]) < k:
        small += 1
    listed, pooled = ordered[small:], ordered[:small]
    exposed = [_exposed([cohort], k) for cohort in listed]
    if pooled and not any(count >= least for count in exposed):
        # No exposed users hide how many are so in these.
        pooled += [
            cohort
            for cohort, count in zip(listed, exposed, strict=True)
            if not is_publishable(count, least)
        ]
        listed = [
            cohort
            for cohort, count in zip(listed, exposed, strict=True)
            if is_publishable(count, least)
        ]
    return listed, pooled


def _cohort(
    sample: CertifiedSample,
    cohort: CohortSpectra,
    given: Sequence[str],
    texts: Mapping[str, Mapping[int, str | None]],
    least: int,
) -> Cohort:
    users = cohort.spectrum.users
    told = most_exposing(cohort.spectrum, least)
    limits = cohort_limits(sample.certificate, cohort.kept, seen=users)
    return Cohort(
        given={api: texts[api].get(code) for api, code in zip(given, cohort.codes, strict=True)},
        users=users,
        share=users / sample.users,
        empirical=empirical_exposure(told, sample.k),
        estimate=cohort_exposure(
            told, k=sample.k, population=sample.population, users=sample.users
        ),
        lower=limits.lower,
        upper=limits.upper,
    )


def _pool(pooled: Sequence[CohortSpectra], k: int, least: int) -> PooledCohorts | None:
    users = sum(cohort.spectrum.users for cohort in pooled)
    if not users:
        return None
    exposed = _exposed(pooled, k)
    exposed = exposed if is_publishable(exposed, least) else min(k - 1, users)
    return PooledCohorts(cohorts=len(pooled), users=users, empirical=exposed / users)


def _exposed(cohorts: Sequence[CohortSpectra], k: int) -> int:
    return sum(cohort.spectrum.users_below(k) for cohort in cohorts)
