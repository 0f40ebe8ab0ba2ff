"""Exposure of an API set cohort by cohort, and in the worst of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from fpmonitor.disclosure import Audience, complement_of, disclosed_spectra, is_publishable
from fpmonitor.errors import InputError
from fpmonitor.estimate.cohorts import cohort_exposure, cohort_limits
from fpmonitor.estimate.entropy import average_min_entropy_bits, conditional_entropy_bits
from fpmonitor.estimate.exposure import empirical_exposure
from fpmonitor.results import Members

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fpmonitor.population.sample import CertifiedSample
    from fpmonitor.spectrum import CohortSpectra


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """Users that share the values of the given APIs.

    Attributes:
        given: Each given API and its value; null where absent.
        users, share: Observed users of the cohort, and the same as a share of all observed users.
        empirical: Share of them in groups smaller than k, of equal values of the given APIs and the
            set; others are told that of k - 1 users, also in the estimate and the limits, where
            they are fewer. Null, as is the estimate, where it would give that of another cohort
            away; the limits are then 0 and 1.
        estimate: Estimate of the cohort's statistical exposure; null for a population above the
            users.
        lower, upper: Its limits; the upper ones of all cohorts hold together, and the lower ones.
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

    Attributes:
        cohorts, users, empirical: How many there are, their observed users, and the share of those
            in groups smaller than k. One larger cohort joins them when they have fewer than k users
            together. Others are told so also where there is no small one, and the largest number
            and share that are possible.
    """

    cohorts: int
    users: int
    empirical: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortReport(Members):
    """Exposure of an API set within the cohorts of given APIs.

    Attributes:
        cohorts: Those of at least k observed users, the one with the highest upper limit first.
        others: The rest, pooled; null when there is none.
        conditional_entropy_bits: Entropy that the set adds for a site that knows the cohort, bits.
        average_min_entropy_bits: `-log2` of the share of the observed users whose values of the set
            are guessed right by who knows the cohort and guesses the commonest; null for others,
            whom it may tell of few users.
    """

    JSON: ClassVar[str] = "cohorts worst others conditional_entropy_bits average_min_entropy_bits"

    cohorts: tuple[Cohort, ...]
    others: PooledCohorts | None
    conditional_entropy_bits: float
    average_min_entropy_bits: float | None

    @property
    def worst(self) -> Cohort | None:
        """Listed cohort with the highest upper limit."""
        return self.cohorts[0] if self.cohorts else None


def report_cohorts(
    sample: CertifiedSample,
    apis: Sequence[str],
    given: Sequence[str],
    texts: Mapping[str, Mapping[int, str | None]],
) -> CohortReport:
    """Estimate the exposure of an API set within each cohort of the given APIs.

    Args:
        sample: The users and the question; it knows the given APIs as such.
        apis, given: The set, and the APIs that cannot be hidden.
        texts: For each given API, what its codes stand for.

    Raises:
        InputError: No API is given.
    """
    if not given:
        raise InputError("given: name at least one API")
    k, audience = sample.question.k, sample.audience
    listed, pooled = _split(sample.cohorts(given, apis), k, audience)
    cohorts = [_cohort(sample, cohort, apis, given, texts) for cohort in listed]
    # The exposure of all users is told, and the users of small cohorts are all exposed.
    parts = [cohort.spectrum.users_below(k) for cohort in listed]
    parts.append(sum(cohort.spectrum.users_below(k) for cohort in pooled))
    hidden = complement_of(parts, k, audience)
    if hidden is not None and hidden < len(cohorts):
        cohorts[hidden] = replace(
            cohorts[hidden], empirical=None, estimate=None, lower=0.0, upper=1.0
        )
    joint, cohort_sizes = sample.disclosed([*given, *apis]).most, sample.disclosed(given).most
    # What others are told of the whole may be coarser than of the cohorts.
    fits = joint.support >= cohort_sizes.support
    return CohortReport(
        cohorts=tuple(sorted(cohorts, key=lambda cohort: (-cohort.upper, -cohort.users))),
        others=_pool(pooled, k, audience, is_hidden=hidden == len(cohorts)),
        conditional_entropy_bits=conditional_entropy_bits(joint, cohort_sizes) if fits else 0.0,
        average_min_entropy_bits=(
            None
            if audience is Audience.OTHERS
            else average_min_entropy_bits(cohort.spectrum for cohort in (*listed, *pooled))
        ),
    )


def _split(
    spectra: Iterable[CohortSpectra], k: int, audience: Audience
) -> tuple[list[CohortSpectra], list[CohortSpectra]]:
    """Cohorts that may be listed, and the others: none of either follows from the rest."""
    # The smallest first: the next one is the smallest that can join them.
    ordered = sorted(spectra, key=lambda cohort: cohort.spectrum.users)
    small = sum(cohort.spectrum.users < k for cohort in ordered)
    # Else their number of users would follow from the total and from all that are listed.
    if not is_publishable(sum(cohort.spectrum.users for cohort in ordered[:small]), k, audience):
        small += 1
    return ordered[small:], ordered[:small]


def _cohort(
    sample: CertifiedSample,
    cohort: CohortSpectra,
    apis: Sequence[str],
    given: Sequence[str],
    texts: Mapping[str, Mapping[int, str | None]],
) -> Cohort:
    question, users = sample.question, cohort.spectrum.users
    spectra = disclosed_spectra(cohort.spectrum, question.k, sample.audience)
    # Scores may depend on all that divides users, the level on what was chosen among.
    certificate = sample.certificate([*given, *apis])
    limits = cohort_limits(certificate, spectra.least, len(set(apis)), hidden=spectra.hidden)
    return Cohort(
        given={api: texts[api].get(code) for api, code in zip(given, cohort.codes, strict=True)},
        users=users,
        share=users / sample.users,
        empirical=empirical_exposure(spectra.most, question.k),
        estimate=cohort_exposure(
            spectra.most, k=question.k, population=question.users, users=sample.users
        ),
        lower=limits.lower,
        upper=limits.upper,
    )


def _pool(
    pooled: Sequence[CohortSpectra], k: int, audience: Audience, *, is_hidden: bool
) -> PooledCohorts | None:
    users = sum(cohort.spectrum.users for cohort in pooled)
    if not users:
        return None
    exposed = sum(cohort.spectrum.users_below(k) for cohort in pooled)
    number = len(pooled)
    if audience is Audience.OTHERS:
        small = sum(cohort.spectrum.users for cohort in pooled if cohort.spectrum.users < k)
        if small < k:  # as many as can be, whatever their number
            number = sum(cohort.spectrum.users >= k for cohort in pooled) + k - 1
        # The true number, with the total, would give away that of a cohort which is withheld.
        if is_hidden:
            exposed = users
        elif exposed < k:
            exposed = min(k - 1, users)
    return PooledCohorts(cohorts=number, users=users, empirical=exposed / users)
