"""Whether an allow list holds on one window of many, all of which share its delta."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fpmonitor.answers.check import (
    RUN_LENGTH,
    CheckReport,
    RunAlarm,
    coverage_of,
    lack_all,
    other_sets,
    report_of,
    touched,
)
from fpmonitor.answers.decide import called_as, recheck_sets, users_meant
from fpmonitor.answers.visits import as_read
from fpmonitor.decide.evidence import (
    Evidence,
    identity_of,
    log_above,
    needed_evidence,
    prices_of_choice,
    tests_by_unit,
    weigh,
)
from fpmonitor.errors import InputError
from fpmonitor.estimate.evalues import LEAST_USERS, go_on, log_best, log_mean, taken_in, window_test
from fpmonitor.population.pairs import WITHIN
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
from fpmonitor.store.windows import position

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from fpmonitor.decide.decision import Decision
    from fpmonitor.population.population import Population
    from fpmonitor.spectrum import SpectrumSource
    from fpmonitor.store.database import Database
    from fpmonitor.store.windows import Period

_SHORTEST: dict[Period, int] = {"day": 1, "week": 7, "month": 28}  # days
_LATEST_WINDOWS = 400  # that are added up where users were forgotten
_LIKE_A_YEAR = 52  # windows so far, of which each has passed


@dataclass(frozen=True, slots=True)
class _Series:
    """The windows of a list in a database, of which one has the users `asked`."""

    database: Database
    name: str
    decision: Decision
    known: CheckedList
    asked: Population

    @classmethod
    def of(
        cls,
        database: Database,
        name: str,
        decision: Decision,
        known: CheckedList,
        population: Population,
    ) -> _Series:
        """Return the windows of a list, tested as the users of one of them can be read."""
        decision = as_read(population, decision)
        return cls(database, name, decision, known, users_meant(population, decision))


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

    Args:
        population: The users of the window, seen as the decision saw its own.
        period, origin: Length of calendar windows, and beginning of the newest one, which gets the
            first number where the list is new; None for other windows, which are numbered as they
            come.
        new_users: The caller says that the list was decided on none of the users in the database.
        faulty: As of `report_check`. Its evidence is kept, so that mended logs of the window pass
            only where both looks show it.
    """
    check_has_windows(decision, period)
    identity, decision = identity_of(decision), called_as(decision, population)
    window, sets = population.window, decision.allow
    name = _digest(identity, period, window.source, population.audience.value)
    known = read_list(database, name, origin, made=decision.made)
    last_visit = -1 if new_users else known.last_visit
    decided, seen = users_before(database, window, last_visit, rows=population.snapshot.users)
    # Where the list may be of anybody, its choice is paid for instead.
    are_new, doubted = not decided.any(), last_visit is None
    series = _Series.of(database, name, decision, known, population)
    coverage = coverage_of(population, decision)
    lacking = lack_all(coverage, sets)
    label, place = _number(series, population, period)
    evidence = _evidence(series, population, place, are_new=are_new)
    # Users without a candidate show nothing of it: a later look at the window decides alone.
    is_blind = lacking and decision.missing == "value"
    cannot_pass = lacking or bool(touched(sets, faulty))

    def first_look() -> CheckedWindow:
        new = ~(seen if doubted else decided | seen)
        run = None if period is None or lacking else _run(series, population, new=new)
        made = _first_look(series, evidence, place, is_blind=is_blind, cannot_pass=cannot_pass)
        return replace(made, run=run)

    before, lowered = _recorded(series, label, evidence, first_look, lowers=not is_blind)
    report = _reported(population, decision, before, lowered, coverage=coverage, faulty=faulty)
    above = zip(sets, evidence.above, lowered.above, strict=False)
    return replace(
        report,
        period=period,
        new_users=are_new,
        doubted=doubted,
        # All logs of the window would have shown it, and the smaller evidence that counts does not.
        late=tuple(apis for apis, now, least in above if now >= before.terms[1] > least),
        alarm=_alarm(series, before, until=window.since, doubted=doubted),
        origin=known.origin,
    )


def _recorded(
    series: _Series,
    label: str,
    evidence: Evidence,
    first_look: Callable[[], CheckedWindow],
    *,
    lowers: bool,
) -> tuple[CheckedWindow, Evidence]:
    """Record a look at a window; return what its first one found, and the evidence of all looks.

    `lowers`: a later look takes away from the evidence that is kept.
    """
    database, name = series.database, series.name
    before = read_checked(database, name, label)
    if before is None:
        made = first_look()
        add_checked(database, name, label, series.asked.window.since, made)
        return made, evidence
    # An e-value replaced by the smaller one of a later look stays one (certificate/windows.md, 13).
    lowered = evidence.lowered(Evidence(within=before.within, above=before.above))
    if lowers:
        lower_checked(database, name, label, within=lowered.within, above=lowered.above)
    return before, lowered


def _reported(
    population: Population,
    decision: Decision,
    window: CheckedWindow,
    evidence: Evidence,
    *,
    coverage: Mapping[str, float | None],
    faulty: Collection[str],
) -> CheckReport:
    """Say what the evidence about all sets of a window shows by the terms that it got."""
    listed, beside = evidence.split(len(decision.allow))
    # The shares of all windows add up to 1, so all that is ever found of the others holds together.
    term = needed_evidence(decision.policy.delta or 1.0, place=window.number, successes=0)
    others = other_sets(decision)[: len(beside.within)]
    return report_of(
        population,
        decision,
        listed.verdicts(decision.allow, window.terms),
        {"check": window.number, "delta": math.exp(-window.terms[0])},
        others=beside.verdicts(others, (term, term)),
        coverage=coverage,
        faulty=faulty,
    )


def check_has_windows(decision: Decision, period: Period | None) -> None:
    """Refuse a decision that is tested on all users together, at most.

    Raises:
        InputError: It is one, or windows are over before users could come back.
    """
    if decision.policy.sample.looked_at_once:
        raise InputError(
            "check: users who are drawn, or of whom some may be none, are looked at once",
            hint="omit --by and --last, or decide without that option",
        )
    after = () if decision.policy.links is None else decision.policy.links.after
    shortest = math.inf if period is None else _SHORTEST[period]
    if after and max(after) * (WITHIN + 1) / WITHIN >= shortest:
        raise InputError(
            f"check: nobody can come back after {max(after):g} days within a {period}",
            hint="omit --by: each check then tests all current users together",
        )


def _number(series: _Series, population: Population, period: Period | None) -> tuple[str, int]:
    """Name a window in its series, and its number: by the calendar, or as it comes."""
    window, origin = population.window, series.known.origin
    if period is None or window.since is None or origin is None:
        # The users themselves name a window without a period: the same ones are one window.
        label = _digest(population.digest, str(window.since), str(window.until))
        return label, series.known.windows
    return window.since.isoformat(), position(window.since, period) - position(origin, period)


def _evidence(series: _Series, population: Population, place: int, *, are_new: bool) -> Evidence:
    """Weigh the sets of the allow list, and after them the others."""
    decision = series.decision
    if decision.policy.realised or decision.policy.has_conditions:
        delta = decision.policy.delta or 1.0
        alone = math.exp(-needed_evidence(delta, place=place, successes=0))
        return _all_or_nothing(population, decision, alone)
    sets = (*decision.allow, *other_sets(decision))
    told = series.asked.told_source(decision.policy.candidates, decision.policy.k, sets=sets)
    return _weigh_all(decision, told, new_users=are_new)


def _first_look(
    series: _Series, evidence: Evidence, place: int, *, is_blind: bool, cannot_pass: bool
) -> CheckedWindow:
    """Return what is recorded of a window that nobody looked at before, but for the runs."""
    known, sets = series.known, series.decision.allow
    passes, violates = (
        needed_evidence(series.decision.policy.delta or 1.0, place=place, successes=successes)
        for successes in (known.passed, known.violated)
    )
    # The sets of the list alone decide whether the window passes; others are looked at beside.
    found = evidence.split(len(sets))[0].verdicts(sets, (passes, violates)).values()
    # So that the evidence of a later look, once the log has its APIs again, is not lowered.
    unlimited = (math.inf,) * len(evidence.within)
    return CheckedWindow(
        number=place,
        terms=(passes, violates),
        within=unlimited if is_blind else evidence.within,
        above=unlimited if is_blind else evidence.above,
        passed=not cannot_pass and all(verdict == "allow" for verdict in found),
        violated="block" in found,
        run=None,
    )


def _weigh_all(decision: Decision, source: SpectrumSource, *, new_users: bool) -> Evidence:
    """Weigh the sets of the allow list, and after them the other sets, all of these together."""
    listed = weigh(decision, source, new_users=new_users)
    others = other_sets(decision)
    if not others:
        return listed
    beside = weigh(replace(decision, allow=others), source, new_users=new_users, by_any=False)
    return listed.joined(beside, math.log(len(others)) if new_users else 0.0)


def _all_or_nothing(population: Population, decision: Decision, delta: float) -> Evidence:
    """Weigh what has no e-values, as a promise about one population or about cohorts.

    It is tested as it was decided, at a share of delta.
    """
    verdicts = recheck_sets(population, decision.with_delta(delta), other_sets(decision))
    # An e-value of 1/delta where the test at delta passes; else it reaches no threshold.
    full = -math.log(delta)
    return Evidence(
        within=tuple(full if verdict == "allow" else -full for verdict in verdicts.values()),
        above=tuple(full if verdict == "block" else -full for verdict in verdicts.values()),
    )


def _run(series: _Series, population: Population, *, new: NDArray[Any]) -> tuple[float, ...] | None:
    """Take the users who first came in this window into the runs of all sets, if it is the next."""
    policy, since, after = series.decision.policy, population.window.since, series.known.runs_after
    before = last_runs(series.database, series.name)
    last = max((begin for begin in (after, *(begin for begin, _ in before)) if begin), default=None)
    # A run goes on from window to window: one that comes out of turn is left out.
    if last is not None and since is not None and since <= last:
        return None
    eligible_users = series.asked
    if not eligible_users.snapshot.in_memory(len(policy.candidates)):
        return None
    told = eligible_users.told_among(new, policy.candidates, policy.k)
    if told is None or told.users < max(LEAST_USERS, policy.k):
        return None
    test = window_test(
        users=told.users,
        k=policy.k,
        population=policy.population,
        budget=policy.budget,
        log_terms=(math.log(RUN_LENGTH), math.log(RUN_LENGTH)),
        monotone=told.least is not None,
    )
    units, least = tests_by_unit(policy, test), told.least or told
    evidence = [log_above(units, least.spectrum(one)) for one in series.decision.allow]
    return tuple(go_on(before[0][1] if before else [0.0] * len(evidence), evidence))


def _alarm(
    series: _Series, window: CheckedWindow, *, until: datetime | None, doubted: bool
) -> RunAlarm | None:
    """Tell what the runs up to a window say; null where it is in none, or does not count now."""
    if window.run is None or until is None:
        return None
    decision, sets, after = series.decision, series.decision.allow, series.known.runs_after
    if after is None:
        [(_, run)] = last_runs(series.database, series.name, until=until)
        evidence = log_mean(run)
    elif until <= after:
        return None
    else:
        runs = last_runs(series.database, series.name, until=until, most=_LATEST_WINDOWS + 1)
        before = [[0.0] * len(sets), *(run for _, run in runs)]
        found = [
            taken_in(run, earlier)
            for (since, run), earlier in zip(runs, before, strict=False)
            if since > after
        ]
        _, block = prices_of_choice(decision)
        # Where the list may be of these users, its sets were chosen by looking at them.
        chosen = [float(block[len(apis)]) for apis in sets]
        prices = chosen if doubted else [math.log(len(sets))] * len(sets)
        # What the first of so many has taken in is not known.
        evidence = log_best(found[-_LATEST_WINDOWS:], prices)
    return RunAlarm(raised=evidence >= math.log(RUN_LENGTH), log_evidence=evidence, after=after)


def _digest(*parts: str | None) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


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
    decision = as_read(population, called_as(decision, population))
    eligible_users = users_meant(population, decision)
    disclosed_source = eligible_users.told_source(
        decision.policy.candidates, decision.policy.k, sets=decision.allow
    )
    evidence = weigh(decision, disclosed_source, new_users=new_users)
    needed = needed_evidence(
        decision.policy.delta or 1.0, place=_LIKE_A_YEAR, successes=_LIKE_A_YEAR
    )
    return Confirmed(
        period=period,
        users=eligible_users.users,
        sets=sum(found >= needed for found in evidence.within),
        listed=len(decision.allow),
    )


def longer_windows(found: Sequence[Confirmed], by: Period | None) -> str | None:
    """Say which length of windows decides more than one does, or than the shortest; null for none.

    Args:
        found: What windows of each length confirm, the shortest first.
        by: The length in question.
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
