"""All that can be said of the exposure of one API set."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from fpmonitor.answers.bounds import NamedBound, compare_bounds, told_interval
from fpmonitor.disclosure import is_withheld, most_exposing
from fpmonitor.estimate.bounds import Interval, theorem5, theorem6_floor, theorem8
from fpmonitor.estimate.entropy import (
    ENTROPY_ESTIMATORS,
    entropy_bits,
    min_entropy_bits,
    misleading_factor,
    naive_group_size,
    normalised_entropy,
    unbiased_tsallis_entropy,
)
from fpmonitor.estimate.exposure import (
    empirical_exposure,
    plug_in_exposure,
    unbiased_exposure,
)
from fpmonitor.results import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.answers.cohorts import CohortReport
    from fpmonitor.answers.trust import TrustLevel
    from fpmonitor.population.sample import CertifiedSample


_ESTIMATES = ("empirical", "plug_in", "unbiased", "lower", "upper")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundsReport:
    """All bounds of one API set.

    Attributes
    ----------
    support
        Number of values that users can have, as declared; null when unknown.
    bounds
        The certificate, then the bounds of "Statistical anonymity".
    theorem6_floor
        Worst-case error that no estimator of the exposure curve can beat, for the declared support,
        or for as many values as were seen; null for a single value.
    """

    support: int | None
    bounds: tuple[NamedBound, ...]
    theorem6_floor: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntropyLine:
    """One measure of entropy by one estimator."""

    measure: str
    estimator: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureReport(Result):
    """Exposure of one API set: point estimates, limits, and the entropy reading beside them.

    All numbers are those of the set together with the given APIs, which a site sees anyway.

    Attributes
    ----------
    apis, given
        The set, and the APIs that cannot be hidden.
    users, values
        Observed users, and distinct values among them.
    k, population, delta
        The question.
    empirical
        Share of the observed users in groups smaller than k.
    plug_in, unbiased
        Estimates of the statistical exposure, shares; `unbiased` is null for a population above
        the number of users.
    lower, upper
        Limits of the certificate, each wrong with probability at most delta.
    theorem5, theorem8
        The limits of "Statistical anonymity", for comparison.
    entropy_bits
        Shannon entropy of the observed users, bits.
    naive_group_size
        How many of the population share a value by the usual reading, `n / 2^H`.
    misleading_factor
        How many times larger that reading is than the group of a typical user; above 1 it flatters.
    bounds, entropies, trust, cohorts
        What was asked for beside: all bounds, all measures of entropy, what less knowledge could
        promise, and the exposure within the cohorts of the given APIs.
    suppressed
        Whether 1 to k - 1 users are exposed: estimates and entropies are then those of the most
        exposing case, k - 1 users (see `disclosure.most_exposing`).
    volatile, left_out
        APIs of the set whose value some browsers randomise, which counts as one token for each
        browser family here; and the same question without these APIs.
    """

    apis: tuple[str, ...]
    given: tuple[str, ...]
    users: int
    values: int
    k: int
    population: int
    delta: float
    empirical: float
    plug_in: float
    unbiased: float | None
    lower: float
    upper: float
    theorem5: Interval
    theorem8: Interval
    entropy_bits: float
    naive_group_size: float
    misleading_factor: float
    bounds: BoundsReport | None = None
    entropies: tuple[EntropyLine, ...] = ()
    trust: tuple[TrustLevel, ...] = ()
    cohorts: CohortReport | None = None
    suppressed: bool = False
    volatile: tuple[str, ...] = ()
    left_out: ExposureReport | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the report as the CLI prints it."""
        return {
            "apis": list(self.apis),
            "users": self.users,
            "values": self.values,
            "k": self.k,
            "population": self.population,
            "delta": self.delta,
            "empirical": self.empirical,
            "suppressed": self.suppressed,
            "plug_in": self.plug_in,
            "unbiased": self.unbiased,
            "lower": self.lower,
            "upper": self.upper,
            "paper": {
                "theorem5": [self.theorem5.lower, self.theorem5.upper],
                "theorem8": [self.theorem8.lower, self.theorem8.upper],
            },
            "entropy_bits": self.entropy_bits,
            "naive_group_size": self.naive_group_size,
            "misleading_factor": self.misleading_factor,
        } | self._details()

    def _details(self) -> dict[str, Any]:
        details: dict[str, Any] = {}
        if self.bounds is not None:
            details["support"] = self.bounds.support
            details["bounds"] = [bound.to_json() for bound in self.bounds.bounds]
            details["theorem6_floor"] = self.bounds.theorem6_floor
        if self.entropies:
            details["entropies"] = [asdict(line) for line in self.entropies]
        if self.trust:
            details["trust"] = [level.to_json() for level in self.trust]
        if self.cohorts is not None:
            details["given"] = list(self.given)
            details |= self.cohorts.to_json()
        if self.left_out is not None:
            details["volatile"] = list(self.volatile)
            other = self.left_out.to_json()
            details["without_volatile"] = {name: other[name] for name in _ESTIMATES}
        return details


def report_exposure(
    sample: CertifiedSample,
    apis: Sequence[str],
    *,
    given: Sequence[str] = (),
    support: int | None = None,
    show_counts_below_k: bool = False,
) -> ExposureReport:
    """Estimate the exposure of one API set in every way.

    Parameters
    ----------
    sample
        The users and the question.
    apis, given
        The set, and the APIs that cannot be hidden.
    support
        Number of values that users can have, declared beforehand; None when unknown.
    show_counts_below_k
        Tell fewer than k exposed users as they are.

    Raises
    ------
    InputError
        `support` is smaller than the number of values seen.
    UnknownNameError
        An API that was never observed.
    """
    together = sorted({*apis, *given})
    spectrum = sample.full.spectrum(together)
    lower, upper = sample.limits(together)
    k, population, delta = sample.k, sample.population, sample.delta
    suppressed = not show_counts_below_k and is_withheld(spectrum, k)
    told = most_exposing(spectrum, k) if suppressed else spectrum
    bits = entropy_bits(told)
    theorems = [
        told_interval(
            theorem,
            spectrum,
            k=k,
            population=population,
            delta=delta,
            support=support,
            suppressed=suppressed,
        )
        for theorem in (theorem5, theorem8)
    ]
    return ExposureReport(
        apis=tuple(apis),
        given=tuple(given),
        users=spectrum.users,
        values=spectrum.support,
        k=k,
        population=population,
        delta=delta,
        empirical=empirical_exposure(told, k),
        suppressed=suppressed,
        plug_in=plug_in_exposure(told, k=k, population=population),
        unbiased=unbiased_exposure(told, k=k, population=population),
        lower=lower,
        upper=upper,
        theorem5=theorems[0],
        theorem8=theorems[1],
        entropy_bits=bits,
        naive_group_size=naive_group_size(bits, population),
        misleading_factor=misleading_factor(told),
    )


def report_bounds(
    sample: CertifiedSample, report: ExposureReport, *, support: int | None = None
) -> BoundsReport:
    """Put all bounds of a reported set side by side; errors as in `report_exposure`."""
    spectrum = sample.full.spectrum(sorted({*report.apis, *report.given}))
    values = spectrum.support if support is None else support
    return BoundsReport(
        support=support,
        bounds=compare_bounds(
            spectrum,
            Interval(lower=report.lower, upper=report.upper),
            k=sample.k,
            population=sample.population,
            delta=sample.delta,
            support=support,
            suppressed=report.suppressed,
        ),
        theorem6_floor=theorem6_floor(values) if values > 1 else None,
    )


def report_entropies(sample: CertifiedSample, report: ExposureReport) -> tuple[EntropyLine, ...]:
    """Every measure of entropy that others report, of a reported set and at least 2 users.

    Raises
    ------
    InputError
        Fewer than 2 users.
    """
    spectrum = sample.full.spectrum(sorted({*report.apis, *report.given}))
    spectrum = most_exposing(spectrum, sample.k) if report.suppressed else spectrum
    shannon = [
        EntropyLine(measure="Shannon", estimator=name, value=estimate(spectrum), unit="bits")
        for name, estimate in ENTROPY_ESTIMATORS.items()
    ]
    others = [
        ("normalised", "plug-in", normalised_entropy(spectrum), "share of log2 m"),
        ("min-entropy", "plug-in", min_entropy_bits(spectrum), "bits"),
        ("Tsallis, order 2", "unbiased", unbiased_tsallis_entropy(spectrum), "share of pairs"),
    ]
    return (
        *shannon,
        *(EntropyLine(measure=m, estimator=e, value=v, unit=u) for m, e, v, u in others),
    )
