"""All that can be said of the exposure of one API set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from fpmonitor.answers.bounds import NamedBound, compare_bounds, disclosed_interval
from fpmonitor.answers.cohorts import CohortReport, report_cohorts
from fpmonitor.answers.followed import FollowedLine, report_followed
from fpmonitor.answers.forecast import ExpectedExposure, forecast_exposure
from fpmonitor.answers.sets import declared_supports, sorted_sets
from fpmonitor.answers.trust import Knowledge, TrustLevel, parts_of, price_of_trust
from fpmonitor.answers.visits import VisitReport, came_several_times, check_visits, report_visits
from fpmonitor.disclosure import Audience, smallest_told_group
from fpmonitor.errors import InputError
from fpmonitor.estimate.bounds import Interval, theorem5, theorem6_floor, theorem8, users_for_gamma
from fpmonitor.estimate.declared import Looked, declared_limits
from fpmonitor.estimate.entropy import (
    ENTROPY_ESTIMATORS,
    entropy_bits,
    min_entropy_bits,
    misleading_factors,
    naive_group_size,
    normalised_entropy,
    unbiased_tsallis_entropy,
)
from fpmonitor.estimate.exposure import empirical_exposure, plug_in_exposure, unbiased_exposure
from fpmonitor.policy import EXACT_PART, PLAIN_DRAWS, Drawn, SampleModel
from fpmonitor.population.population import Population
from fpmonitor.population.sample import CertifiedSample, sample_members
from fpmonitor.population.snapshot import Days
from fpmonitor.question import Question
from fpmonitor.results import Result
from fpmonitor.store.visits import VisitRows
from fpmonitor.unit import Unit, told_unit

_ESTIMATES = ("empirical", "plug_in", "unbiased", "lower", "upper")


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

    Attributes:
        apis, given: The set, and the APIs that cannot be hidden.
        users, values: Observed users, and distinct values among them.
        k, population, delta: The question.
        empirical: Share of the observed users in groups smaller than k.
        plug_in, unbiased: Estimates of the statistical exposure, shares; `unbiased` is null for a
            population above the number of users.
        lower, upper: Limits of the certificate, each wrong with probability at most delta.
        linked: Limits of the share of n users whose visits can be linked by these APIs alone, each
            wrong with probability at most delta: at most by any method; at least, as long as values
            stay, by who names one of the visits of the same value.
        realised: Limits of the share of one population of n users, where asked for; each is wrong
            with probability at most delta.
        theorem5, theorem8: The limits of "Statistical anonymity", for comparison.
        entropy_bits: Shannon entropy of the observed users, bits.
        naive_group_size: How many of the population share a value by the usual reading, `n / 2^H`.
        misleading_factor, misleading_factor_worst_5, misleading_factor_worst_1: How many times
            larger that reading is than the group of the median user, and than the largest group
            among the 5 % and the 1 % of the users in the smallest groups; for others, groups
            smaller than k count as groups of k - 1.
        bounds, entropies, trust, cohorts: What was asked for beside: the certificate and the bounds
            of "Statistical anonymity", all measures of entropy, what less knowledge could promise,
            and the exposure within the cohorts of the given APIs.
        support, theorem6_floor: With the bounds: number of values that users can have, as declared,
            null when unknown; and the worst-case error that no estimator of the exposure curve can
            beat, null where users can have a single value, by that or as far as was seen.
        visits: What visits expose, where users came several times or it was asked for; `linked` is
            then of one visit of each user, all other numbers of the last value of each API.
        followed: The share that is linked after some days, where asked for.
        days: First and last day (UTC) of the visits that tell who is followed; for others those
            with visits of at least k users. Null where nothing is asked of it.
        forecast: What a model expects, where asked for; no promise.
        users_for_gamma: Users that are enough for all shares to be known to within the wanted
            distance.
        suppressed: Whether fewer than k users are exposed, and others are not told how many:
            `values`, estimates and entropies are then those of k - 1 users (see
            `disclosure.disclosed_spectra`).
        masked, left_out: APIs of the set whose values some browsers randomise by design and the
            view masks; and, where they count as one token for each browser family, the same
            question without these.
        sample, drawn: How the observed users may differ from the population; and of how many they
            were drawn, where they were by the shares of strata.
        unit: What was counted: see `fpmonitor.unit`.
    """

    JSON: ClassVar[str] = (
        "apis users values k population delta empirical suppressed plug_in unbiased lower upper "
        "linked_lower=linked.lower linked_upper=linked.upper paper entropy_bits naive_group_size "
        "misleading_factor misleading_factor_worst_5 misleading_factor_worst_1"
    )

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
    misleading_factor_worst_5: float
    misleading_factor_worst_1: float
    linked: Interval
    realised: Interval | None = None
    bounds: tuple[NamedBound, ...] = ()
    support: int | None = None
    theorem6_floor: float | None = None
    entropies: tuple[EntropyLine, ...] = ()
    trust: tuple[TrustLevel, ...] = ()
    cohorts: CohortReport | None = None
    users_for_gamma: int | None = None
    visits: VisitReport | None = None
    followed: tuple[FollowedLine, ...] = ()
    days: Days | None = None
    forecast: ExpectedExposure | None = None
    suppressed: bool = False
    masked: tuple[str, ...] = ()
    left_out: ExposureReport | None = None
    sample: SampleModel = PLAIN_DRAWS
    drawn: Drawn | None = None
    unit: Unit = "user"

    @property
    def together(self) -> tuple[str, ...]:
        """The set and the given APIs, sorted."""
        return tuple(sorted({*self.apis, *self.given}))

    @property
    def paper(self) -> dict[str, list[float]]:
        """The limits of "Statistical anonymity" by theorem, for comparison."""
        theorems = {"theorem5": self.theorem5, "theorem8": self.theorem8}
        return {name: [limits.lower, limits.upper] for name, limits in theorems.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the report as the CLI prints it."""
        members: dict[str, Any] = Result.to_json(self)
        return members | self._details()

    def _details(self) -> dict[str, Any]:
        details = sample_members(self.sample, self.drawn) | told_unit(self.unit)
        if self.realised is not None:
            details["realised_lower"] = self.realised.lower
            details["realised_upper"] = self.realised.upper
        if self.bounds:
            details["support"] = self.support
            details["bounds"] = [bound.to_json() for bound in self.bounds]
            details["theorem6_floor"] = self.theorem6_floor
        if self.users_for_gamma is not None:
            details["users_for_gamma"] = self.users_for_gamma
        if self.entropies:
            details["entropies"] = [asdict(line) for line in self.entropies]
        if self.trust:
            details["trust"] = [level.to_json() for level in self.trust]
        if self.cohorts is not None:
            details["given"] = list(self.given)
            details |= self.cohorts.to_json()
        if self.forecast is not None:
            details |= self.forecast.to_json()
        if self.visits is not None:
            details["visits"] = self.visits.to_json()
        if self.followed:
            details["followed"] = [line.to_json() for line in self.followed]
            details["days"] = self.days and [day.isoformat() for day in self.days]
        if self.masked:
            details["masked"] = list(self.masked)
        if self.left_out is not None:
            other = self.left_out.to_json()
            details["without_volatile"] = {name: other[name] for name in _ESTIMATES}
        return details


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureDetails:
    """What is told of API sets besides their exposure."""

    # APIs that cannot be hidden: exposure of each set together with them, and by cohort, the users
    # that share their values. `family` and `system` are those that the user agent tells.
    given: Sequence[str] = ()
    realised: bool = False  # Also limit the share of one population, not only its average.
    bounds: bool = False  # The certificate and all bounds of "Statistical anonymity".
    # Number of values that users can have, one for each set, declared beforehand.
    supports: Sequence[int] = ()
    # What the marginals, pairs and the joint distribution can each promise, up to this level.
    trust: Knowledge | None = None
    entropies: bool = False  # Every measure and estimator of the entropy.
    forecast: bool = False  # What a model expects, if it passes a test on the users.
    # How many users are enough for all shares of a set to be within this of their probabilities.
    gamma: float | None = None
    # Limit what one visit of each user exposes, and what all visits of a user together do; null:
    # where users came several times.
    visits: bool | None = None
    # Days, fixed before looking: limit the share of the users that is linked after so many.
    followed: Sequence[float] = ()


_NO_DETAILS = ExposureDetails()


def report_exposures(
    population: Population,
    question: Question,
    sets: Iterable[Sequence[str]],
    details: ExposureDetails = _NO_DETAILS,
) -> list[ExposureReport]:
    """Estimate the exposure of API sets, each limit holding for its set alone, at every look.

    Args:
        population, question: The users, and what is asked of them; all sets together name the APIs
            that a user must have where absent ones are dropped.

    Raises:
        InputError: Cohorts where absent users count as exposed.
    """
    wanted = sorted_sets(population.named(apis) for apis in sets)
    declared = declared_supports(details.supports, wanted)
    population, cohort = population.with_kinds(details.given)
    if cohort and question.missing == "exposed":
        raise InputError(
            "given: users who lack a given API are a cohort, which --missing exposed has not",
            hint="ask with --missing value or drop",
        )
    together = [tuple(sorted({*apis, *cohort})) for apis in wanted]
    sample = population.sample(question, [*together, cohort], given=cohort)
    check_visits(question, cohort, visits=details.visits, followed=details.followed)
    by_visits = details.visits
    if by_visits is None:
        # Nobody said: visits are read where users came again, whose last values may be of several.
        by_visits = came_several_times(population, question, cohort, sum(map(len, wanted)))
    users = population
    if by_visits or details.followed:
        users = population.for_question(sample.question, sample.source.apis)
    rows = users.visit_rows(sample.source.apis) if by_visits else None
    for option, option_value in (("given", cohort), ("trust", details.trust)):
        if option_value:
            sample.question.sample.check_plain_draws(f"sample: --{option}")
    # All spectra in one pass over the users, those of marginals and pairs included.
    sample.ask([*together, *parts_of(together, details.trust)])
    reports = []
    for apis, support in zip(wanted, declared, strict=True):
        report = report_exposure(sample, apis, given=cohort, support=support)
        report = _detailed(sample, report, details, support=support)
        if rows is not None:
            report = _with_visits(sample, report, rows, users.snapshot.key)
        if details.followed:
            days = sorted({*details.followed})
            followed = report_followed(users, sample, report.together, days)
            report = replace(report, followed=followed, days=population.days(question.k))
        if cohort:
            texts = {api: population.value_texts(api) for api in cohort}
            report = replace(report, cohorts=report_cohorts(sample, apis, cohort, texts))
        reports.append(replace(report, unit=population.unit))
    return _with_volatile_excluded(population, question, reports)


def _detailed(
    sample: CertifiedSample,
    report: ExposureReport,
    details: ExposureDetails,
    *,
    support: int | None,
) -> ExposureReport:
    """Add what follows from the counts of a reported set, as far as it was asked for."""
    if details.realised:
        lower, upper = sample.realised(report.together)
        report = replace(report, realised=Interval(lower=lower, upper=upper))
    if details.bounds:
        report = _with_bounds(sample, report, support)
    if details.gamma is not None:
        needed = users_for_gamma(details.gamma, delta=sample.question.delta, support=support)
        report = replace(report, users_for_gamma=needed)
    if details.entropies:
        report = replace(report, entropies=_report_entropies(sample, report))
    if details.forecast:
        report = replace(report, forecast=forecast_exposure(sample, report.together))
    if details.trust is not None:
        levels = price_of_trust(sample, report.together, details.trust)
        report = replace(report, trust=levels)
    return report


def _with_visits(
    sample: CertifiedSample, report: ExposureReport, rows: VisitRows, key: str
) -> ExposureReport:
    """Add what visits tell of a reported set."""
    visits = report_visits(rows, key, sample, report.together)
    if visits is None:
        return report
    linked = Interval(lower=visits.linked[0], upper=visits.linked[1])
    return replace(report, visits=visits, linked=linked)


def _with_volatile_excluded(
    population: Population, question: Question, reports: list[ExposureReport]
) -> list[ExposureReport]:
    """Put the exposure without the masked APIs beside the one where they share a token."""
    if population.view.volatile != "shared" or not any(report.masked for report in reports):
        return reports
    # A site that removes the noise reads more than the shared token: both cases are shown.
    others = population.seen_by(replace(population.view, volatile="left-out"))
    sample = others.sample(question, [report.together for report in reports])
    return [
        replace(report, left_out=report_exposure(sample, report.together))
        if report.masked
        else report
        for report in reports
    ]


def report_exposure(
    sample: CertifiedSample,
    apis: Sequence[str],
    *,
    given: Sequence[str] = (),
    support: int | None = None,
) -> ExposureReport:
    """Estimate the exposure of one API set in every way.

    Args:
        apis, given: The set, and the APIs that cannot be hidden.
        support: Number of values that users can have, declared beforehand; None when unknown.
    """
    together = sorted({*apis, *given})
    question, spectra = sample.question, sample.disclosed(together)
    lower, upper = limits_of(sample, together, support)
    least, most = sample.linked(together)
    k, population = question.k, question.users
    bits = entropy_bits(spectra.most)
    theorems = [
        disclosed_interval(theorem, spectra, question, support=support)
        for theorem in (theorem5, theorem8)
    ]
    # Groups below k count as k - 1 for others: the factor of the worst users would tell their size.
    smallest = smallest_told_group(k, sample.audience)
    median, worst_5, worst_1 = misleading_factors(spectra.most, least=smallest)
    return ExposureReport(
        apis=tuple(apis),
        given=tuple(given),
        users=sample.users,
        values=spectra.most.support,
        k=k,
        population=population,
        delta=question.delta,
        empirical=empirical_exposure(spectra.most, k),
        suppressed=spectra.suppressed,
        plug_in=plug_in_exposure(spectra.most, k=k, population=population),
        unbiased=unbiased_exposure(spectra.most, k=k, population=population),
        lower=lower,
        upper=upper,
        theorem5=theorems[0],
        theorem8=theorems[1],
        entropy_bits=bits,
        naive_group_size=naive_group_size(bits, population),
        misleading_factor=median,
        misleading_factor_worst_5=worst_5,
        misleading_factor_worst_1=worst_1,
        linked=Interval(lower=least, upper=most),
        masked=tuple(api for api in together if api in sample.masked),
        sample=question.sample,
        drawn=sample.drawn,
    )


def limits_of(
    sample: CertifiedSample, apis: Sequence[str], support: int | None = None
) -> tuple[float, float]:
    """Lower and upper limit of a set, the sharper ones where its possible values were declared.

    Those of declared values are for the owner, as others are not told all groups, and of users who
    count as they came.
    """
    question = sample.question
    if support is None or sample.audience is Audience.OTHERS or not question.sample.is_plain:
        return sample.limits(apis)
    # Union bound: a quarter of delta is for declared values (certificate/declared.md), here the
    # rest.
    lower, upper = sample.limits(apis, (1 - EXACT_PART) * question.delta)
    least, most = declared_limits(
        sample.disclosed(apis).most,
        support,
        k=question.k,
        population=question.users,
        looked=Looked.of(EXACT_PART * question.delta, question.sample.look),
    )
    return max(lower, least), min(upper, most)


def _with_bounds(
    sample: CertifiedSample, report: ExposureReport, support: int | None
) -> ExposureReport:
    """Put all bounds of a reported set side by side."""
    values = report.values if support is None else support
    certified = Interval(lower=report.lower, upper=report.upper)
    spectra = sample.disclosed(report.together)
    return replace(
        report,
        bounds=compare_bounds(spectra, certified, sample.question, support=support),
        support=support,
        # With one value everybody shares it: no curve is left to be estimated.
        theorem6_floor=theorem6_floor(values) if values > 1 else None,
    )


def _report_entropies(sample: CertifiedSample, report: ExposureReport) -> tuple[EntropyLine, ...]:
    """Every measure of entropy that others report, of a reported set and at least 2 users."""
    spectrum = sample.disclosed(report.together).most
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
