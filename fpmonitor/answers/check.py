"""Whether the allow list of a decision still holds on the current users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from fpmonitor.answers.decide import called_as, recheck_sets, users_meant
from fpmonitor.answers.renewal import Renewal
from fpmonitor.answers.visits import as_read
from fpmonitor.decide.decision import ApiSet, Decision, Verdict
from fpmonitor.decide.guarantee import draws, visits_read, who_was_drawn
from fpmonitor.disclosure import publishable_count
from fpmonitor.errors import UndecidableError
from fpmonitor.estimate.evalues import LEAST_USERS
from fpmonitor.estimate.exposure import empirical_exposure
from fpmonitor.policy import PLAIN_DRAWS, Drawn, disclosed_from, per_cent, sureness
from fpmonitor.population.beside import USERS, draws_by_unit, unit_source
from fpmonitor.population.disclosed import told_parts
from fpmonitor.population.population import Population
from fpmonitor.population.sample import CertifiedSample, sample_members
from fpmonitor.question import Question
from fpmonitor.results import Result
from fpmonitor.safe_files import untyped
from fpmonitor.spectrum import SpectrumSource
from fpmonitor.store.windows import LeftOut, Period
from fpmonitor.unit import spoken

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from fpmonitor.export.in_use import ListInUse


Outcome = Literal["holds", "violated", "cannot tell"]
BrokenFirst = tuple[datetime, Mapping[str, str]]  # begin of a window, and its faults by API
_ANY = 0.05  # delta of a question that estimates nothing
RUN_LENGTH = 3650  # windows without a false alarm, on average
_OTHER_SETS = 50  # that are not on the list, and tested to see whether to decide again


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAlarm:
    """What the windows tell together, of users who came in one of them for the first time.

    Attributes:
        raised: Whether it is an alarm.
        log_evidence: Mean over the sets of their runs, nats; where `after` is given, see
            `log_best`.
        run_length: Windows to the first alarm, on average at least, while no window is above the
            budget; where `after` is given, windows for each from which a false alarm is raised.
        after: Only windows that begin after this moment count, as users of earlier ones were
            forgotten, or runs of another database were copied in; null: all count.
    """

    raised: bool
    log_evidence: float
    run_length: int = RUN_LENGTH
    after: datetime | None = None


class SourceChange(NamedTuple):
    """What has become of a source since the days of the decision, also in words."""

    became: Literal["new", "gone", "fewer"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport(Result):
    """Every set on the allow list of a decision, tested on the current data.

    Attributes:
        decision: The decision.
        verdicts: Set on its allow list -> `allow` (still within the budget), `block` (above it),
            `undecided`.
        limits: Set -> lower and upper limit of its exposure, shares; equal where the decision is
            exact. They hold for all sets of this check together; its tests are sharper near the
            budget, and stricter where windows share delta. Where two units count, from the larger
            lower limit to the larger upper one.
        coverage: Candidate -> share of the users who have a value of it, as decisions have it: null
            where fewer than k do; the others count as if they shared one.
        users: Users of now; null where they are fewer than k.
        since, until: The window that was looked at; null where it is open.
        place: `check`: number of the window among those that share the delta; `delta`: what it has
            of that. Null for a check alone.
        masked: Candidates whose volatile values the view masks in the current data.
        period: Length of the calendar windows that are checked; null where they are not of the
            calendar.
        new_users: Whether the list was decided on none of these users, as far as the database
            knows; null where that makes no difference, and for others.
        doubted: Whether users were forgotten on whom the list may have been decided: they would
            come again unrecognised, so that any user may be one of them.
        late: Sets that these users, had all of them been there at the first look at their window,
            would have shown to be above the budget.
        alarm: See `RunAlarm`; null where the window adds nothing to the runs.
        left_out: Newer windows that were not checked, and why; others are not told.
        drawn: Of how many the users of this check were drawn by shares; null where all count.
        others: Verdicts on sets that are not on the allow list, the smallest, at the same share of
            delta for all together.
        origin: Begin of the first calendar window that the list was checked on; null where none is
            known.
        renewal: Whether to decide again; null where that was not asked.
        faults: API -> what is wrong with its values in the log: see `log_faults`. No set with it
            passes.
        broken_first: The window that others are compared with, where its own values are at fault.
        sources: Source -> what has become of it since the days of the decision.
        source_users: Source -> its users, as far as they may leave beside those of the window.
        faulty_sources: Source -> APIs at fault by its users alone, of those that were judged.
        of_list: Whether the sets are those that a list in use leaves readable.
        visits_unread: Whether last values alone were tested, as the visits are too many to read.
    """

    decision: Decision
    verdicts: Mapping[ApiSet, Verdict]
    limits: Mapping[ApiSet, tuple[float, float]]
    coverage: Mapping[str, float | None]
    users: int | None
    since: datetime | None
    until: datetime | None
    place: Mapping[str, float] | None
    masked: tuple[str, ...] = ()
    period: Period | None = None
    new_users: bool | None = None
    doubted: bool = False
    late: tuple[ApiSet, ...] = ()
    alarm: RunAlarm | None = None
    left_out: tuple[LeftOut, ...] = ()
    drawn: Drawn | None = None
    others: Mapping[ApiSet, Verdict] = field(default_factory=dict)
    origin: datetime | None = None
    renewal: Renewal | None = None
    faults: Mapping[str, str] = field(default_factory=dict)
    broken_first: BrokenFirst | None = None
    sources: Mapping[str, SourceChange] = field(default_factory=dict)
    source_users: Mapping[str, int] = field(default_factory=dict)
    faulty_sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    of_list: bool = False
    visits_unread: bool = False

    @property
    def outcome(self) -> Outcome:
        """Verdict on the whole list."""
        if "block" in self.verdicts.values():
            return "violated"
        return "cannot tell" if "undecided" in self.verdicts.values() else "holds"

    @property
    def lacking(self) -> tuple[str, ...]:
        """Candidates that fewer than k users have a value of."""
        return tuple(api for api, share in self.coverage.items() if share is None)

    @property
    def lacks_all(self) -> bool:
        """Whether that is all of the list: these users say nothing of it, and no set passes."""
        return lack_all(self.coverage, self.decision.allow)

    @property
    def vanished(self) -> tuple[str, ...]:
        """Candidates that fewer than k users have a value of, unless it was so when decided on."""
        had = self.decision.coverage or {}
        return tuple(api for api in self.lacking if had.get(api, 1.0) is not None)

    @property
    def guarantee(self) -> str:
        """What holds of checks like this one."""
        window = "these days" if self.period is None else f"one {self.period}"
        reads = visits_read(self.decision, window)
        said = f"{self._promise()} {_UNREAD if self.visits_unread else reads}".rstrip()
        return spoken(f"{said} {_violations(self.decision)}".rstrip(), self.decision.unit)

    def _promise(self) -> str:
        delta = self.decision.policy.delta
        if delta is None:
            return "Exact, for the users of this check."
        sample = self.decision.policy.sample
        provided = "the users of each check are independent draws from one distribution"
        if sample.options:
            provided = f"the users of each check and those of the population are {draws(sample)}"
        if self.decision.looked_at_once and self.place is None:
            said = (
                f"With probability at least {sureness(delta)}, this check passes no set that is "
                f"above the budget; one of other users is another test. Provided that {provided}. "
            )
            return (said + who_was_drawn(self.drawn)).rstrip()
        if self.place is None:
            return (
                f"With probability at least {sureness(delta)}, no check of the growing data passes "
                "a set that is above the budget, however often it is made, provided that "
                f"{provided}."
            )
        chosen = (
            "" if self.period else " and that which users are checked does not follow from a look"
        )
        return (
            f"Of all passes of this list{_BY[self.period]}, on average at most {per_cent(delta)} % "
            "are wrong, however long you go on, and so of all violations, provided that "
            f"{provided}{chosen}."
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each set on the allow list."""
        found = zip(self.verdicts.items(), self.limits.values(), strict=True)
        return [
            {"verdict": verdict, "apis": list(apis), "lower": lower, "upper": upper}
            for (apis, verdict), (lower, upper) in found
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the report as `watch` posts it."""
        members = {
            "outcome": self.outcome,
            "sets": self.rows(),
            "lacking": self.lacking,
            "users": self.users,
            "since": self.since,
            "until": self.until,
            "masked": self.masked,
            "policy": self.decision.policy,
            "place": self.place,
            "guarantee": self.guarantee,
            "new_users": self.new_users,
            "doubted": self.doubted,
            "late": self.late,
            "faults": self.faults,
            "sources": {name: change.text for name, change in self.sources.items()},
            "alarm": self.alarm,
            **sample_members(PLAIN_DRAWS, self.drawn),
            "renewal": None if self.renewal is None else self.renewal.to_json(),
            "left_out": self.left_out,
        }
        found: dict[str, Any] = untyped(members)
        return found

    @property
    def exact(self) -> bool:
        """Whether the decision is on the observed users themselves."""
        return self.decision.policy.delta is None


_UNREAD = (
    "Last values alone were tested: the visits are too many to read at once. Shorter windows "
    "(`--by`) hold fewer."
)


def _violations(decision: Decision) -> str:
    """Say what shows no violation, though it keeps sets from passing."""
    policy = decision.policy
    conditions = ["cohorts"] * (policy.cohorts is not None) + ["links"] * (policy.links is not None)
    if policy.delta is None or not conditions:
        return ""
    return (
        f"Violations and alarms go by the exposure of all users: {' and '.join(conditions)} only "
        "keep a set from passing."
    )


_BY: dict[Period | None, str] = {
    None: "",
    "day": " by day",
    "week": " by week",
    "month": " by month",
}


def of_recommended(decision: Decision) -> Decision:
    """Return a decision whose allow list is what sites read: its recommended set.

    Its windows count for themselves: what other sets did changes nothing of its promise. Sites also
    read its allowed unions with sets of other decisions.
    """
    unions = tuple(one for one in decision.union_with if one.verdict == "allow")
    listed = replace(decision, union_with=unions).with_unions_listed()
    if decision.recommended not in decision.allow:
        return listed
    read = [decision.union(one.apis) for one in unions]
    allow = [apis for apis in read if apis in listed.allow]
    return replace(listed, allow=tuple(dict.fromkeys([decision.recommended, *allow])))


def other_sets(decision: Decision) -> tuple[ApiSet, ...]:
    """Blocked and undecided sets that are tested beside the allow list, the smallest first."""
    listed = {*decision.block, *decision.undecided}
    return tuple(sorted(listed, key=lambda apis: (len(apis), apis))[:_OTHER_SETS])


def report_check(
    population: Population,
    decision: Decision,
    *,
    beside: bool = False,
    faulty: Collection[str] = (),
) -> CheckReport:
    """Test every set on the allow list of a decision on the current users, as it was decided.

    Args:
        population: The users, seen as the decision saw its own.
        beside: Test the `other_sets` as well.
        faulty: APIs whose values are at fault: no set with one of them passes.
    """
    decision = called_as(decision, population)
    others = other_sets(decision) if beside else ()
    found = recheck_sets(population, as_read(population, decision), others)
    verdicts = {apis: found[apis] for apis in decision.allow}
    return report_of(
        population,
        decision,
        verdicts,
        None,
        others={apis: found[apis] for apis in others},
        coverage=coverage_of(population, decision),
        faulty=faulty,
    )


def usable(population: Population, decision: Decision) -> bool:
    """Whether a window has enough users for a check; if they have no candidate, it cannot tell."""
    decision = called_as(decision, population)
    policy = decision.policy
    least = policy.k if policy.delta is None else LEAST_USERS
    # Where users without all candidates are left out, nobody is left.
    if decision.missing != "drop" and lack_all(coverage_of(population, decision), decision.allow):
        return population.users >= least
    try:
        eligible_users = users_meant(population, decision)
        if policy.links is not None and policy.links.after:
            # which somebody must have come back for
            eligible_users.told_source(policy.candidates, policy.k)
    except UndecidableError:
        return False
    return eligible_users.users >= least


def coverage_of(population: Population, decision: Decision) -> dict[str, float | None]:
    """Return the share of the users who have each candidate: see `CheckReport`."""
    return population.coverage(decision.policy.candidates, decision.policy.k)


def lack_all(coverage: Mapping[str, float | None], sets: Iterable[ApiSet]) -> bool:
    """Whether fewer than k users have any API of some sets; any candidate, where these hold none.

    Others that are still there say nothing of the sets, whose values nobody has.
    """
    read = {*chain(*sets)} & coverage.keys() or coverage.keys()
    return all(coverage[api] is None for api in read)


def report_of(
    population: Population,
    decision: Decision,
    verdicts: Mapping[ApiSet, Verdict],
    slot: Mapping[str, float] | None,
    *,
    others: Mapping[ApiSet, Verdict],
    coverage: Mapping[str, float | None],
    faulty: Collection[str],
) -> CheckReport:
    """Put together what a check found; a set with values at fault passes nothing."""
    policy = decision.policy
    read = as_read(population, decision)
    eligible_users = users_meant(population, read)
    limits = _limits(eligible_users, read)
    if lack_all(coverage, decision.allow):
        # All of them may go by other names now, whose values nobody has looked at.
        verdicts, others = _without_passes(verdicts), _without_passes(others)
        limits = {apis: (lower, 1.0) for apis, (lower, _) in limits.items()}
    verdicts, others = (
        {**found, **_without_passes({apis: found[apis] for apis in touched(found, faulty)})}
        for found in (verdicts, others)
    )
    return CheckReport(
        decision=decision,
        verdicts=verdicts,
        others=others,
        limits=limits,
        coverage=coverage,
        users=publishable_count(population.snapshot.users, policy.k, population.audience),
        since=population.window.since,
        until=population.window.until,
        place=slot,
        masked=population.masked(policy.candidates, policy.k),
        drawn=eligible_users.drawn,
        visits_unread=read is not decision,
    )


def touched(sets: Iterable[ApiSet], faulty: Collection[str]) -> list[ApiSet]:
    """Return the sets with an API whose values are at fault."""
    return [apis for apis in sets if not {*apis}.isdisjoint(faulty)]


def _without_passes(verdicts: Mapping[ApiSet, Verdict]) -> dict[ApiSet, Verdict]:
    return {
        apis: "undecided" if verdict == "allow" else verdict for apis, verdict in verdicts.items()
    }


def _limits(eligible_users: Population, decision: Decision) -> dict[ApiSet, tuple[float, float]]:
    """Limits of all listed sets, by the users of this check alone."""
    policy, sets = decision.policy, decision.allow
    if not sets or eligible_users.users < disclosed_from(policy.k):
        return dict.fromkeys(sets, (0.0, 1.0))
    delta = decision.tested_at
    question = Question(
        policy.k, policy.population, delta or _ANY, sample=policy.sample, counted=delta is None
    )
    # Together, as whoever reads a check looks at the worst of its sets.
    sample = eligible_users.sample(question, sets, chosen=True)
    if policy.visits != "last":
        told = eligible_users.told_source(policy.candidates, policy.k)
        return _limits_by_visits(sample, told, decision)
    sample.ask(sets)
    found = {}
    for apis in sets:
        if delta is None:
            spectra = sample.disclosed(apis)
            found[apis] = (
                empirical_exposure(spectra.least, policy.k),
                empirical_exposure(spectra.most, policy.k),
            )
        elif policy.realised:
            found[apis] = sample.realised(apis)
        else:
            found[apis] = sample.limits(apis)
    return found


def _limits_by_visits(
    sample: CertifiedSample, source: SpectrumSource, decision: Decision
) -> dict[ApiSet, tuple[float, float]]:
    """Limits by what counts as a value; of two units those of the larger exposure."""
    users, units, found = unit_source(source, USERS), draws_by_unit(decision.policy), {}
    for apis in decision.allow:
        limits, size = sample.certificate(apis, users=users.users), len(apis)
        told = {name: told_parts(unit_source(source, name), apis) for name in units}
        # Which exposure is the larger one follows from no user, and which lower limit is does.
        lower = max(
            limits.of_mean(told[name], draws, size, 1 / len(units))[0]
            for name, draws in units.items()
        )
        upper = max(limits.of_mean(told[name], draws, size)[1] for name, draws in units.items())
        found[apis] = min(lower, upper), upper
    return found


def check_list(population: Population, decision: Decision, in_use: ListInUse) -> CheckReport:
    """Test what a list leaves readable, by the tests of a decision.

    It passes by all that may stay readable, and is violated by what surely does. What it lets
    sites read of other APIs than the candidates, or of those without evidence, passes nothing.

    Args:
        population: The current users, seen as the decision saw its own.
    """
    # The lists in use have the names of the decision, the users those of their log.
    original_decision, decision = decision, called_as(decision, population)

    def called(apis: ApiSet) -> ApiSet:
        names = (api if api in population.apis else original_decision.means(api) for api in apis)
        return tuple(sorted(population.named(names)))

    left = {called(most): called(least) for most, least in in_use.left}
    # Both ends of each list in one check, whose limits hold together.
    sets = sorted({apis for pair in left.items() for apis in pair if apis})
    report = report_check(population, replace(decision, allow=tuple(sets)))
    verdicts: dict[ApiSet, Verdict] = {}
    limits: dict[ApiSet, tuple[float, float]] = {}
    for most, least in left.items():
        # The empty set was not tested, as it exposes nobody.
        within, above = (report.verdicts.get(apis, "allow") for apis in (most, least))
        is_known = not (in_use.strangers or decision.no_evidence.keys() & {*most})
        passes: Verdict = "allow" if within == "allow" and is_known else "undecided"
        verdicts[most] = "block" if above == "block" else passes
        (lower, _), (_, upper) = (report.limits.get(apis, (0.0, 0.0)) for apis in (least, most))
        # Of what nobody observed nothing is limited from above.
        limits[most] = (lower, upper if is_known else 1.0)
    return replace(
        report,
        decision=replace(decision, allow=tuple(verdicts)),
        verdicts=verdicts,
        limits=limits,
        of_list=True,
    )
