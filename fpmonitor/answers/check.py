"""Whether the allow list of a decision still holds on the current users."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from fpmonitor.answers.decide import called_as, question_of, recheck_sets
from fpmonitor.answers.renewal import Renewal
from fpmonitor.decide.decision import ApiSet, Decision, Verdict
from fpmonitor.decide.evidence import (
    Evidence,
    identity_of,
    needed_evidence,
    prices_of_choice,
    weigh,
)
from fpmonitor.decide.guarantee import draws, who_was_drawn
from fpmonitor.disclosure import Audience, publishable_count, told_from
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.estimate.evalues import (
    LEAST_USERS,
    go_on,
    log_best,
    log_mean,
    taken_in,
    window_test,
)
from fpmonitor.estimate.exposure import empirical_exposure
from fpmonitor.estimate.realised import realised_limits
from fpmonitor.policy import PLAIN_DRAWS, Drawn
from fpmonitor.population.population import Population
from fpmonitor.population.sample import sample_members
from fpmonitor.population.told import ToldSource
from fpmonitor.question import Question
from fpmonitor.results import Result
from fpmonitor.safe_files import untyped
from fpmonitor.store.checks import (
    CheckedList,
    CheckedWindow,
    add_checked,
    last_runs,
    lower_checked,
    read_checked,
    read_list,
    users_before,
)
from fpmonitor.store.windows import LeftOut, Period, position
from fpmonitor.unit import spoken

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from fpmonitor.spectrum import SpectrumSource
    from fpmonitor.store.database import Database

Outcome = Literal["holds", "violated", "cannot tell"]
_ANY = 0.05  # delta of a question that estimates nothing
RUN_LENGTH = 3650  # windows without a false alarm, on average
_LIKE_A_YEAR = 52  # windows so far, of which each has passed
_LATEST_WINDOWS = 400  # that are added up where users were forgotten
_OTHER_SETS = 50  # that are not on the list, and tested to see whether to decide again


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAlarm:
    """What the windows tell together, of users who came in one of them for the first time.

    Attributes
    ----------
    raised
        Whether it is an alarm.
    log_evidence
        Mean over the sets of their runs, nats; where `after` is given, see `log_best`.
    run_length
        Windows to the first alarm, on average at least, while no window is above the budget; where
        `after` is given, windows for each from which a false alarm is raised.
    after
        Only windows that begin after this moment count, as users of earlier ones were forgotten, or
        runs of another database were copied in; null: all count.
    """

    raised: bool
    log_evidence: float
    run_length: int = RUN_LENGTH
    after: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSlot:
    """Number of a window among all that are checked, and its tolerated probability of error."""

    check: int
    delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport(Result):
    """Every set on the allow list of a decision, tested on the current data.

    Attributes
    ----------
    decision
        The decision.
    verdicts
        Set on its allow list -> `allow` (still within the budget), `block` (above it), `undecided`.
    limits
        Set -> lower and upper limit of its exposure, shares; equal where the decision is exact.
        They hold for all sets of this check together; its tests are sharper near the budget, and
        stricter where windows share delta.
    coverage
        Candidate -> share of the users who have a value of it, as decisions have it: null where
        fewer than k do; the others count as if they shared one.
    users
        Users of now; null where they are fewer than k.
    since, until
        The window that was looked at; null where it is open.
    place
        Slot among the windows that share the delta; null for a check alone.
    masked
        Candidates whose volatile values the view masks in the current data.
    period
        Length of the calendar windows that are checked; null where they are not of the calendar.
    new_users
        Whether the list was decided on none of these users, as far as the database knows; null
        where that makes no difference, and for others.
    doubted
        Whether users were forgotten on whom the list may have been decided: they would come again
        unrecognised, so that any user may be one of them.
    late
        Sets that these users, had all of them been there at the first look at their window, would
        have shown to be above the budget.
    alarm
        See `RunAlarm`; null where the window adds nothing to the runs.
    left_out
        Newer windows that were not checked, and why; others are not told.
    drawn
        Of how many the users of this check were drawn by shares; null where all count.
    others
        Verdicts on sets that are not on the allow list, the smallest, at the same share of delta
        for all together.
    origin
        Begin of the first calendar window that the list was checked on; null where none is known.
    renewal
        Whether to decide again; null where that was not asked.
    faults
        API -> what is wrong with its values in the log: see `log_faults`. No set with it passes.
    sources
        Source -> what has become of it since the days of the decision, in words.
    of_list
        Whether the sets are those that a list in use leaves readable.
    """

    decision: Decision
    verdicts: Mapping[ApiSet, Verdict]
    limits: Mapping[ApiSet, tuple[float, float]]
    coverage: Mapping[str, float | None]
    users: int | None
    since: datetime | None
    until: datetime | None
    place: CheckSlot | None
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
    sources: Mapping[str, str] = field(default_factory=dict)
    of_list: bool = False

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
        """Whether that is all of them: these users say nothing of the list, and no set passes."""
        return _lacks_all(self.coverage)

    @property
    def vanished(self) -> tuple[str, ...]:
        """Candidates that fewer than k users have a value of, unless it was so when decided on."""
        had = self.decision.coverage or {}
        return tuple(api for api in self.lacking if had.get(api, 1.0) is not None)

    @property
    def guarantee(self) -> str:
        """What holds of checks like this one."""
        return spoken(self._promise(), self.decision.unit)

    def _promise(self) -> str:
        delta = self.decision.policy.delta
        if delta is None:
            return "Exact, for the users of this check."
        sample = self.decision.policy.sample
        provided = "the users of each check are independent draws from one distribution"
        if sample.options:
            provided = f"the users of each check and those of the population are {draws(sample)}"
        if sample.looked_at_once:
            said = (
                f"With probability at least {1 - delta:.6g}, this check passes no set that is "
                f"above the budget; one of other users is another test. Provided that {provided}. "
            )
            return (said + who_was_drawn(self.drawn)).rstrip()
        if self.place is None:
            return (
                f"With probability at least {1 - delta:.6g}, no check of the growing data passes a "
                f"set that is above the budget, however often it is made, provided that {provided}."
            )
        chosen = (
            "" if self.period else " and that which users are checked does not follow from a look"
        )
        return (
            f"Of all passes of this list{_BY[self.period]}, on average at most {100 * delta:.6g} % "
            "are wrong, however long you go on, and so of all violations, provided that "
            f"{provided}{chosen}."
        )

    def listed(self) -> list[dict[str, Any]]:
        """Return the verdict on each set on the allow list."""
        return [{"verdict": verdict, "apis": list(apis)} for apis, verdict in self.verdicts.items()]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each set on the allow list."""
        return [
            row | {"lower": lower, "upper": upper}
            for row, (lower, upper) in zip(self.listed(), self.limits.values(), strict=True)
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the report as `watch` posts it."""
        told = {
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
            "sources": self.sources,
            "alarm": self.alarm,
            **sample_members(PLAIN_DRAWS, self.drawn),
            "renewal": None if self.renewal is None else self.renewal.to_json(),
            "left_out": self.left_out,
        }
        found: dict[str, Any] = untyped(told)
        return found

    @property
    def exact(self) -> bool:
        """Whether the decision is on the observed users themselves."""
        return self.decision.policy.delta is None


_BY: dict[Period | None, str] = {
    None: "",
    "day": " by day",
    "week": " by week",
    "month": " by month",
}


def of_recommended(decision: Decision) -> Decision:
    """Return a decision whose allow list is its recommended set alone, which is what sites read.

    Its windows count for themselves: what other sets did changes nothing of its promise.
    """
    is_listed = decision.recommended in decision.allow
    return replace(decision, allow=(decision.recommended,)) if is_listed else decision


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

    Parameters
    ----------
    population
        The users, seen as the decision saw its own.
    decision
        The decision.
    beside
        Test the `other_sets` as well.
    faulty
        APIs whose values are at fault: no set with one of them passes.
    """
    decision = called_as(decision, population)
    others = other_sets(decision) if beside else ()
    found = recheck_sets(population, replace(decision, allow=(*decision.allow, *others)))
    verdicts = {apis: found[apis] for apis in decision.allow}
    return _report(
        population,
        decision,
        verdicts,
        None,
        others={apis: found[apis] for apis in others},
        coverage=_coverage(population, decision),
        faulty=faulty,
    )


def usable(population: Population, decision: Decision) -> bool:
    """Whether a window has enough users for a check; if they have no candidate, it cannot tell."""
    decision = called_as(decision, population)
    policy = decision.policy
    least = policy.k if policy.delta is None else LEAST_USERS
    # Where users without all candidates are left out, nobody is left.
    if decision.missing != "drop" and _lacks_all(_coverage(population, decision)):
        return population.users >= least
    try:
        asked = population.asked(question_of(decision), policy.candidates)
    except UndecidableError:
        return False
    return asked.users >= least


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """How many of so many listed sets a window of a length can confirm, with so many users."""

    period: Period
    users: int
    sets: int
    listed: int


def count_confirmed(
    population: Population, decision: Decision, period: Period, *, new_users: bool
) -> Confirmed:
    """Count the sets that windows like this one confirm, after as many that passed as in a year.

    Nothing is recorded: windows are numbered by the calendar, so a look changes no share.
    """
    decision = called_as(decision, population)
    asked = population.asked(question_of(decision), decision.policy.candidates)
    source = asked.source(decision.policy.candidates)
    most, least = _told(source, population, decision.policy.k)
    evidence = weigh(decision, most, least=least, new_users=new_users)
    needed = needed_evidence(
        decision.policy.delta or 1.0, place=_LIKE_A_YEAR, successes=_LIKE_A_YEAR
    )
    return Confirmed(
        period=period,
        users=asked.users,
        sets=sum(found >= needed for found in evidence.within),
        listed=len(decision.allow),
    )


def longer_windows(found: Sequence[Confirmed], by: Period | None) -> str | None:
    """Say which length of windows decides more than one does, or than the shortest; null for none.

    Parameters
    ----------
    found
        What windows of each length confirm, the shortest first.
    by
        The length in question.
    """
    [*own] = (one for one in found if by in {None, one.period})
    if not own or own[0].sets == own[0].listed:
        return None
    best, [one, *_] = max(found, key=lambda one: one.sets), own
    could = f"can confirm {one.sets:,} of {one.listed:,} sets"
    more, than = f" {best.sets:,}", "confirm more: wait, or deploy fewer APIs"
    if one.listed == 1:
        could, more, than = "cannot confirm the set", " can", "can: wait, or deploy fewer APIs"
    said = f"{one.period}s of {one.users:,} users {could}, "
    if best.sets <= one.sets:
        return f"{said}and no longer windows that there are {than}"
    return f"{said}{best.period}s of {best.users:,}{more}: use `--by {best.period}`"


def check_window(
    population: Population,
    decision: Decision,
    *,
    database: Database,
    period: Period | None = None,
    origin: datetime | None = None,
    new_users: bool = False,
    faulty: Collection[str] = (),
) -> CheckReport:
    """Test the allow list of a decision on one window of many; what comes out is recorded.

    A window is tested once: what a later look finds can only take away from its evidence. One whose
    users have no candidate passes nothing, and takes no part in the runs.

    Parameters
    ----------
    population
        The users of the window, seen as the decision saw its own.
    decision
        A decision on a population.
    database
        Keeps the numbers and outcomes of the windows.
    period, origin
        Length of calendar windows, and beginning of the newest one, which gets the first number
        where the list is new; None for other windows, which are numbered as they come.
    new_users
        The caller says that the list was decided on none of the users in the database.
    faulty
        As of `report_check`. Its evidence is kept, so that mended logs of the window pass only
        where both looks show it.

    Raises
    ------
    PolicyError, UnknownNameError, UndecidableError
        The data lack a candidate, or hold too few users.
    """
    if decision.policy.sample.looked_at_once:
        raise InputError(
            "check: users who are drawn, or of whom some may be none, are looked at once",
            hint="leave --by and --last away, or decide without that option",
        )
    if decision.policy.cohorts is not None or decision.policy.visits != "last":
        raise InputError(
            "check: windows have no tests of cohorts and visits",
            hint="leave --by and --last away: each check then tests the users of now, all together",
        )
    identity, decision = identity_of(decision), called_as(decision, population)
    window, sets, others = population.window, decision.allow, other_sets(decision)
    series = _digest(identity, period, window.source, population.audience.value)
    known = read_list(database, series, origin, made=decision.made)
    last_visit = -1 if new_users else known.last_visit
    decided, seen = users_before(database, window, last_visit, rows=population.snapshot.users)
    # Where the list may be of anybody, its choice is paid for instead.
    are_new, doubted = not decided.any(), last_visit is None
    old = seen if doubted else decided | seen
    asked = population.asked(question_of(decision), decision.policy.candidates)
    source = asked.source(decision.policy.candidates)
    most, least = _told(source, population, decision.policy.k)
    coverage = _coverage(population, decision)
    lacks_all = _lacks_all(coverage)
    delta = decision.policy.delta or 1.0
    label = _digest(population.digest, str(window.since), str(window.until))
    place = known.windows
    if period is not None and window.since is not None and known.origin is not None:
        label = window.since.isoformat()
        place = position(window.since, period) - position(known.origin, period)
    if decision.policy.realised:
        alone = math.exp(-needed_evidence(delta, place=place, successes=0))
        evidence = _all_or_nothing(population, decision, alone)
    else:
        evidence = _weigh_all(decision, most, least=least, new_users=are_new)
    whole, before = evidence, read_checked(database, series, label)
    # Users without a candidate show nothing of it: a later look at the window decides alone.
    is_blind = lacks_all and decision.missing == "value"
    if before is None:
        passes, violates = (
            needed_evidence(delta, place=place, successes=successes)
            for successes in (known.passed, known.violated)
        )
        found = evidence.split(len(sets))[0].verdicts(sets, (passes, violates)).values()
        before = CheckedWindow(
            number=place,
            terms=(passes, violates),
            within=_unlimited(evidence.within) if is_blind else evidence.within,
            above=_unlimited(evidence.above) if is_blind else evidence.above,
            passed=not (lacks_all or _touched(sets, faulty))
            and all(verdict == "allow" for verdict in found),
            violated="block" in found,
            run=None
            if period is None or lacks_all
            else _run(database, series, asked, decision, new=~old, after=known.runs_after),
        )
        add_checked(database, series, label, window.since, before)
    else:
        evidence = evidence.lowered(Evidence(within=before.within, above=before.above))
        if not is_blind:
            lower_checked(database, series, label, within=evidence.within, above=evidence.above)
    slot = CheckSlot(check=before.number, delta=math.exp(-before.terms[0]))
    listed, beside = evidence.split(len(sets))
    # The shares of all windows add up to 1, so all that is ever found of the others holds together.
    term = needed_evidence(delta, place=before.number, successes=0)
    report = _report(
        population,
        decision,
        listed.verdicts(sets, before.terms),
        slot,
        others=beside.verdicts(others[: len(beside.within)], (term, term)),
        coverage=coverage,
        faulty=faulty,
    )
    return replace(
        report,
        period=period,
        new_users=are_new,
        doubted=doubted,
        late=tuple(
            apis
            for apis, now, above in zip(sets, whole.above, listed.above, strict=False)
            if now >= before.terms[1] > above
        ),
        alarm=None
        if before.run is None or window.since is None
        else _alarm(database, series, decision, known, until=window.since, doubted=doubted),
        origin=known.origin,
    )


def _unlimited(evidence: tuple[float, ...]) -> tuple[float, ...]:
    return (math.inf,) * len(evidence)


def _coverage(population: Population, decision: Decision) -> dict[str, float | None]:
    return population.coverage(decision.policy.candidates, decision.policy.k)


def _lacks_all(coverage: Mapping[str, float | None]) -> bool:
    return all(share is None for share in coverage.values())


def _report(
    population: Population,
    decision: Decision,
    verdicts: Mapping[ApiSet, Verdict],
    slot: CheckSlot | None,
    *,
    others: Mapping[ApiSet, Verdict],
    coverage: Mapping[str, float | None],
    faulty: Collection[str],
) -> CheckReport:
    policy = decision.policy
    asked = population.asked(question_of(decision), policy.candidates)
    limits = _limits(asked, decision)
    if _lacks_all(coverage):
        # All of them may go by other names now, whose values nobody has looked at.
        verdicts, others = _without_passes(verdicts), _without_passes(others)
        limits = {apis: (lower, 1.0) for apis, (lower, _) in limits.items()}
    verdicts, others = (
        {**found, **_without_passes({apis: found[apis] for apis in _touched(found, faulty)})}
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
        drawn=asked.drawn,
    )


def _touched(sets: Iterable[ApiSet], faulty: Collection[str]) -> list[ApiSet]:
    """Return the sets with an API whose values are at fault."""
    return [apis for apis in sets if not {*apis}.isdisjoint(faulty)]


def _without_passes(verdicts: Mapping[ApiSet, Verdict]) -> dict[ApiSet, Verdict]:
    return {
        apis: "undecided" if verdict == "allow" else verdict for apis, verdict in verdicts.items()
    }


def _limits(asked: Population, decision: Decision) -> dict[ApiSet, tuple[float, float]]:
    """Limits of all listed sets, by the users of this check alone."""
    policy, sets = decision.policy, decision.allow
    if not sets or asked.users < told_from(policy.k) or policy.visits != "last":
        return dict.fromkeys(sets, (0.0, 1.0))
    delta = decision.level or policy.delta
    question = Question(
        policy.k, policy.population, delta or _ANY, sample=policy.sample, counted=delta is None
    )
    sample = asked.sample(question, sets, chosen=True)
    sample.ask(sets)
    found = {}
    for apis in sets:
        if delta is None:
            told = sample.told(apis)
            found[apis] = (
                empirical_exposure(told.least, policy.k),
                empirical_exposure(told.most, policy.k),
            )
        elif policy.realised:
            found[apis] = realised_limits(
                *sample.limits(apis, delta / 2),
                k=policy.k,
                population=policy.population,
                delta=delta / 2,
            )
        else:
            found[apis] = sample.limits(apis)
    return found


def _told(
    source: SpectrumSource, population: Population, k: int
) -> tuple[SpectrumSource, SpectrumSource | None]:
    """Return what sets are passed by, and what they are violated by where it differs."""
    if population.audience is Audience.OWNER:
        return source, None
    return ToldSource(source, k, "most"), ToldSource(source, k, "least")


def _weigh_all(
    decision: Decision,
    source: SpectrumSource,
    *,
    least: SpectrumSource | None,
    new_users: bool,
) -> Evidence:
    """Weigh the sets of the allow list, and after them the other sets, all of these together."""
    listed = weigh(decision, source, least=least, new_users=new_users)
    others = other_sets(decision)
    if not others:
        return listed
    beside = weigh(replace(decision, allow=others), source, least=least, new_users=new_users)
    return listed.joined(beside, math.log(len(others)) if new_users else 0.0)


def _all_or_nothing(population: Population, decision: Decision, delta: float) -> Evidence:
    """Weigh a promise about one population: by its own test at a share of delta."""
    sets = (*decision.allow, *other_sets(decision))
    verdicts = recheck_sets(population, replace(decision, allow=sets).with_delta(delta))
    full = -math.log(delta)
    return Evidence(
        within=tuple(full if verdict == "allow" else -full for verdict in verdicts.values()),
        above=tuple(full if verdict == "block" else -full for verdict in verdicts.values()),
    )


def _run(
    database: Database,
    series: str,
    population: Population,
    decision: Decision,
    *,
    new: NDArray[Any],
    after: datetime | None,
) -> tuple[float, ...] | None:
    """Take the users who first came in this window into the runs of all sets, if it is the next."""
    policy, since = decision.policy, population.window.since
    before = last_runs(database, series)
    last = max((begin for begin in (after, *(begin for begin, _ in before)) if begin), default=None)
    if last is not None and since is not None and since <= last:
        return None
    if not population.snapshot.in_memory(len(policy.candidates)):
        return None
    source = population.source_among(new, policy.candidates)
    if source is None or source.users < max(LEAST_USERS, policy.k):
        return None
    _, least = _told(source, population, policy.k)
    test = window_test(
        users=source.users,
        k=policy.k,
        population=policy.population,
        budget=policy.budget,
        log_terms=(math.log(RUN_LENGTH), math.log(RUN_LENGTH)),
        monotone=least is not None,
    )
    evidence = [test.log_above((least or source).spectrum(apis)) for apis in decision.allow]
    return tuple(go_on(before[0][1] if before else [0.0] * len(evidence), evidence))


def _alarm(
    database: Database,
    series: str,
    decision: Decision,
    known: CheckedList,
    *,
    until: datetime,
    doubted: bool,
) -> RunAlarm | None:
    """Tell what the runs up to a window say; null where it does not count any more."""
    sets, after = decision.allow, known.runs_after
    if after is None:
        [(_, run)] = last_runs(database, series, until=until)
        evidence = log_mean(run)
    elif until <= after:
        return None
    else:
        runs = last_runs(database, series, until=until, most=_LATEST_WINDOWS + 1)
        before = [[0.0] * len(sets), *(run for _, run in runs)]
        found = [
            taken_in(run, earlier)
            for (since, run), earlier in zip(runs, before, strict=False)
            if since > after
        ]
        _, block = prices_of_choice(decision)
        chosen = [float(block[len(apis)]) for apis in sets]
        prices = chosen if doubted else [math.log(len(sets))] * len(sets)
        # What the first of so many has taken in is not known.
        evidence = log_best(found[-_LATEST_WINDOWS:], prices)
    return RunAlarm(raised=evidence >= math.log(RUN_LENGTH), log_evidence=evidence, after=after)


def _digest(*parts: str | None) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
