"""What `watch` keeps of a list from one window to the next, and what of it somebody is told.

A `Standing` holds the certain verdict on each set and what keeps the list from being judged. Here
are its steps (`judged`, `taken_back`, `again`) and its comparisons (`is_news`, `changes`); it is
stored by `lookout`, and worded by `notices`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from fpmonitor.answers.check import Outcome  # noqa: TC001 -- msgspec reads the annotation
from fpmonitor.answers.renewal import releases_in
from fpmonitor.decide.decision import Verdict  # noqa: TC001 -- msgspec reads the annotation
from fpmonitor.errors import some_of
from fpmonitor.export.exporter import printable
from fpmonitor.population.beside import days_in_words
from fpmonitor.population.browsers import KINDS
from fpmonitor.store.watching import StoredUntil  # noqa: TC001 -- msgspec reads the annotation
from fpmonitor.vocabulary import join_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from pathlib import Path

    from fpmonitor.answers.check import BrokenFirst, CheckReport, SourceChange
    from fpmonitor.answers.panel import PanelFinding
    from fpmonitor.answers.renewal import MovedApi, Renewal
    from fpmonitor.decide.decision import ApiSet, Decision
    from fpmonitor.policy import CohortBudget

ProblemKind = Literal[
    "refused",
    "no logs",
    "late logs",
    "cannot judge",
    "future",
    "vanished",
    "appeared",
    "decide again",
    "fault",
    "source",
]
_ENDING: frozenset[ProblemKind] = frozenset({"fault", "source", "vanished"})
_USUAL_WINDOWS = 28
_NAMED = 3
_ENDS_AFTER = 2  # windows in a row that do not show it any more
_SAID_AGAIN = timedelta(days=28)  # what who decided again was told before is news again


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that keeps a list from being judged, or that its decision knows nothing of.

    Attributes:
        kind, what: What it is, and of which file, window or API; told once.
        text: A sentence without values of few users.
        seen: Last day of the window that showed it, of a reason that lasts.
        part_of: Of a source, or a new value, of an API that has a problem: what that one is of. A
            notice on that one names both.
        quiet: Windows in a row that have not shown it any more.
    """

    kind: ProblemKind
    what: str
    text: str
    seen: str | None = None  # those of before have it in their text
    part_of: str | None = None
    quiet: int = 0

    @property
    def key(self) -> tuple[ProblemKind, str]:
        """What it is known again by."""
        return self.kind, self.what

    @property
    def ends(self) -> bool:
        """Whether somebody is told that it is over; a reason to decide again lasts."""
        return self.kind in _ENDING or (self.kind == "decide again" and self.part_of is not None)


_TEXTS: dict[ProblemKind, str] = {
    "refused": "{what} cannot be read; `fpmonitor ingest` says why",
    "no logs": "the {by} from {what} on has too few users for a check, or no logs",
    "late logs": "by all of its logs, of which some came after its first look, the {by} from "
    "{what} on would be above the budget: {sets}",
    "cannot judge": "{text}",
    "future": "visits{of} have a time in the future; no window holds them before it has passed",
    "vanished": "fewer than {k} users have a value of {what}; {lacking}",
    "appeared": "{what} is new in the logs, and the decision does not cover it",
    "decide again": "{text}",
    "fault": "the logs{day} look broken: {what} has {words}; no set with it passes until they are "
    "mended and stored again, or it is decided again",
    "source": "{text}",
}
_LACKING = {
    "value": "it counts as one that all share",
    "drop": "the others are left out",
    "exposed": "the others count as exposed by it",
}


def problem(kind: ProblemKind, what: str, **words: object) -> Problem:
    """Return a problem in the words of its kind."""
    return Problem(kind=kind, what=what, text=_TEXTS[kind].format(what=what, **words))


TOO_FEW = problem("cannot judge", "users", text="the logs hold too few users for a check")
LACKS_ALL = problem(
    "cannot judge",
    "apis",
    text="these users have none of the APIs of the list: nothing can be said of it",
)


def faults_of(
    found: Mapping[str, str], sources: Mapping[str, tuple[str, ...]], day: datetime | None
) -> list[Problem]:
    """Return that APIs are at fault in a window, and each source that sends them so.

    Args:
        found: API -> what is wrong, in words.
        sources: Judged source -> APIs that it sends at fault.
        day: Begin of the window.
    """
    of = "" if day is None else f" of {day:%Y-%m-%d}"
    problems = []
    for api, words in found.items():
        bad, sound = (
            [printable(name) for name, apis in sources.items() if (api in apis) is at_fault]
            for at_fault in (True, False)
        )
        named = f", from {some_of(bad, _NAMED)}, not from {some_of(sound, _NAMED)}"
        all_words = words + named if bad and sound else words
        problems.append(problem("fault", api, words=all_words, day=of))
        for name in bad:
            part = problem("fault", f"{api} from {name}", words=words, day=of)
            problems.append(replace(part, part_of=api))
    return problems


def faults_of_first(broken: BrokenFirst | None) -> list[Problem]:
    """Return that the window that others are compared with is itself at fault."""
    if broken is None:
        return []
    day, found = f"{broken[0]:%Y-%m-%d}", broken[1]
    text = "the logs of {} look broken beside those since: {} has {}"
    return [
        Problem(kind="fault", what=f"{api} on {day}", text=text.format(day, api, words))
        for api, words in found.items()
    ]


def changed_source(name: str, change: SourceChange) -> list[Problem]:
    """Return what has become of a source: one that sent fewer users and then none is told twice."""
    found = problem("source", printable(name), text=change.text)
    if change.became != "gone":
        return [found]
    gone = problem("source", f"{found.what} (gone)", text=change.text)
    return [found, replace(gone, part_of=found.what)]


def vanished(api: str, decision: Decision) -> Problem:
    """Return that too few users have a value of an API."""
    lacking = _LACKING[decision.missing]
    return problem("vanished", api, k=decision.policy.k, lacking=lacking)


def late(by: str, since: datetime, sets: Sequence[ApiSet]) -> Problem:
    """Return that late logs would have shown sets of a window to be above the budget."""
    more = f" and {len(sets) - _NAMED:,} sets more" if len(sets) > _NAMED else ""
    named = " and ".join(", ".join(apis) for apis in sets[:_NAMED]) + more
    return problem("late logs", f"{since:%Y-%m-%d}", by=by, sets=named)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetStanding:
    """What was certain of one set last: its verdict, and since when.

    `undecided` before there was one, and where a violation is over: `quiet` windows in a row have
    not shown it any more. `limits` of its exposure are those of the last check, shares.
    """

    apis: tuple[str, ...]
    verdict: Verdict
    since: str
    quiet: int = 0
    limits: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is known of a watched list.

    Attributes:
        outcome: Of the last check.
        sets: What was certain of each set last.
        alarm: Whether the windows so far raise an alarm.
        problems: What is in the way, and what was until lately: see `Problem.quiet`.
        apis: Names of APIs that others may see, so that a new one shows.
        until: End of the newest window that was checked; null without windows.
        users: Users of the windows that were checked last, the newest at the end.
        moved: APIs with other values in the newest window than on the days of the decision.
        came: Those with new values in it -> which.
        gone: API -> values that were told to be gone.
        shows_sets: Whether that window shows what the decision does not say of some sets.
        faulty: Begins of the windows whose logs are at fault, as far as is known; and of days in
            them.
        day: End of the last day that was looked at for faults, where windows are longer.
        stored: Doubtful windows -> what was stored when they were looked at last.
        source_users, faulty_sources: As of the last `CheckReport`; the latter as of the last day
            that was judged, where windows are longer.
    """

    outcome: Outcome
    sets: tuple[SetStanding, ...] = ()
    alarm: bool = False
    problems: tuple[Problem, ...] = ()
    apis: tuple[str, ...] = ()
    until: str | None = None
    users: tuple[int, ...] = ()
    moved: tuple[str, ...] = ()
    came: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gone: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shows_sets: bool = False
    faulty: tuple[str, ...] = ()
    day: str | None = None
    stored: Mapping[str, StoredUntil] = field(default_factory=dict)
    source_users: Mapping[str, int] = field(default_factory=dict)
    faulty_sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def at_fault(self, since: datetime | None) -> Standing:
        """Return the same with a window whose logs are at fault."""
        windows = () if since is None else (since.isoformat(),)
        # The first ones stay: a window that is left out would count as mended.
        faulty = tuple(dict.fromkeys([*self.faulty, *windows]))[:_USUAL_WINDOWS]
        return replace(self, faulty=faulty)

    @property
    def in_the_way(self) -> list[Problem]:
        """What the newest window shows, or lasts."""
        return [one for one in self.problems if not one.quiet]

    @property
    def doubtful(self) -> list[str]:
        """Begins of windows of which corrected logs may say something else."""
        # A window that showed a violation may have had a wrong log, too.
        since = [found.since for found in self.sets if found.verdict == "block"]
        return list(dict.fromkeys([*self.faulty, *since]))

    @property
    def usual_users(self) -> int | None:
        """Users of the median window before the newest one; null where there was none."""
        return int(median(self.users[:-1])) if len(self.users) > 1 else None

    @property
    def state(self) -> Outcome:
        """Verdict on the whole list by what was certain of each set last."""
        verdicts = {found.verdict for found in self.sets}
        if "block" in verdicts:
            return "violated"
        return "cannot tell" if "undecided" in verdicts or not verdicts else "holds"

    @property
    def above(self) -> frozenset[ApiSet]:
        """Sets that are above the budget, as far as is known."""
        return frozenset(found.apis for found in self.sets if found.verdict == "block")


def judged(before: Standing | None, report: CheckReport, *, now: str) -> Standing:
    """Return what is known after a check; a set that cannot be told is what it was known to be.

    Args:
        before: What was known, null at first.
        now: When it was made, where it is of no window.
    """
    known = {} if before is None else {found.apis: found for found in before.sets}
    since = now if report.since is None else report.since.isoformat()
    until = None if report.until is None else report.until.isoformat()
    # A window that is looked at again, as after late logs, is not quiet once more.
    is_next = until is not None and before is not None and until != before.until
    # A window without any API of the list ends no violation.
    is_next = is_next and not report.lacks_all
    sets = []
    for apis, verdict in report.verdicts.items():
        found = known.get(apis, SetStanding(apis=apis, verdict="undecided", since=since))
        if verdict not in {"undecided", found.verdict}:
            found = replace(found, verdict=verdict, since=since, quiet=0)
        elif verdict == found.verdict:
            found = replace(found, quiet=0)
        # Quiet windows are counted in a row, without those whose logs are at fault.
        elif found.verdict == "block" and is_next and report.faults.keys().isdisjoint(apis):
            quiet = found.quiet + 1
            is_over = quiet >= _ENDS_AFTER
            found = replace(found, quiet=quiet)
            found = replace(found, verdict="undecided", since=since, quiet=0) if is_over else found
        sets.append(replace(found, limits=report.limits[apis]))
    users = () if before is None else before.users
    if report.users is not None and until != (None if before is None else before.until):
        # Each window once: a second look at one must not weigh twice in the median.
        users = (*users, report.users)[-_USUAL_WINDOWS:]
    renewal = report.renewal
    moved = () if renewal is None else renewal.moved or ()
    alarm = before is not None and before.alarm  # a window that adds nothing leaves it as it was
    if report.alarm is not None:
        alarm = report.alarm.raised
    # Days are looked at beside longer windows: the newest day that was judged counts.
    is_same = report.period not in {None, "day"} and before is not None and until == before.until
    after = Standing(
        outcome=report.outcome,
        sets=tuple(sets),
        alarm=alarm,
        until=until,
        users=users,
        moved=tuple(one.api for one in moved),
        came={one.api: one.came for one in moved if one.came},
        gone=_gone(before, moved),
        shows_sets=renewal is not None and bool(renewal.sets) and not report.faults,
        faulty=() if before is None else before.faulty,
        day=None if before is None else before.day,
        stored={} if before is None else before.stored,
        source_users=report.source_users,
        faulty_sources=before.faulty_sources if before and is_same else report.faulty_sources,
    )
    after = after.at_fault(report.since) if report.faults else after
    return after if report.broken_first is None else after.at_fault(report.broken_first[0])


def _gone(before: Standing | None, moved: Iterable[MovedApi]) -> dict[str, tuple[str, ...]]:
    known = {} if before is None else {**before.gone}
    for one in moved:
        if one.lost:
            known[one.api] = tuple(dict.fromkeys([*known.get(one.api, ()), *one.lost]))
    return known


def taken_back(
    before: Standing, report: CheckReport | None, since: str, *, faults: Collection[str]
) -> Standing:
    """Return what is known once the logs of an earlier window were corrected.

    Args:
        before: What was known.
        report, since: Another look at that window, and its begin; null where it is a day in one.
        faults: APIs whose values are at fault in it.
    """
    sets = []
    for found in before.sets:
        # A day within a longer window has no verdicts of its own: then nothing is taken back of
        # sets.
        now = {} if report is None else report.verdicts
        is_shown = now.get(found.apis, found.verdict) == "block"
        was_here = found.verdict == "block" and found.since == since
        is_over = was_here and not is_shown
        sets.append(replace(found, verdict="undecided", quiet=0) if is_over else found)
    faulty = before.faulty
    if not faults:
        faulty = tuple(window for window in faulty if window != since)
    return replace(before, sets=tuple(sets), faulty=faulty)


def again(
    before: Standing | None,
    after: Standing,
    renewal: Renewal,
    *,
    told: Sequence[Mapping[str, Any]] = (),
) -> list[Problem]:
    """Return why to decide again: what was found once lasts, until there is another decision.

    Two windows in a row must show it: a wave of bots goes by, and a wrong log is corrected. At once
    is told that a value is gone, and a new release that users of both windows have, which may be
    taken back within a week, with what as many users at most have changed along.
    Each API is told by its name, and again when it has other browsers, or when more of its values
    are gone.

    Args:
        before, after: What was known, null at first, and what is.
        renewal: What was found.
        told: Earlier notices: see `told_before`.
    """
    known = {found.what: found for found in known_again(before)}
    found, parts = dict[str, str](), list[Problem]()
    # The same window looked at again, as after late logs, is no second one.
    last = before if before is not None and before.until != after.until else None
    lasts = after.until is None or (last is not None and last.shows_sets and after.shows_sets)
    if renewal.sets and lasts and not any(_tells_sets(body, renewal) for body in told):
        found["sets"] = "; ".join(renewal.sets)
    moved = renewal.moved or ()
    # A new browser changes other APIs for those who have it, so for as many users at most.
    updated = max((one.moved for one in moved if one.changed and one.releases), default=0.0)
    for other in moved:
        is_release = other.changed and other.moved <= updated
        one = other if is_release else replace(other, came=_stayed(before, last, other))
        stays = is_release or one.gone or (last is not None and one.api in last.moved)
        if stays and one.api in after.moved and not any(_tells(body, one) for body in told):
            name = _name(one.api, one.releases)
            found[name] = renewal.said_of([one])
            had = before.gone.get(one.api, ()) if before is not None else ()
            more = tuple(value for value in one.lost if value not in had)
            if more and name in known:  # which says nothing of them
                also = replace(one, changed=False, lost=more, came=())
                found[_without(name, more)] = renewal.said_of([also])
            for value in one.came:
                text = renewal.said_of_new(one.api, value)
                part = problem("decide again", _with(one.api, value), text=text)
                parts.append(replace(part, part_of=name))
    seen = None
    if after.until is not None:
        seen = f"{datetime.fromisoformat(after.until) - timedelta(microseconds=1):%Y-%m-%d}"
    now = {
        what: replace(problem("decide again", what, text=text), seen=seen)
        for what, text in found.items()
    }
    return [*(known | now).values(), *parts]


def _stayed(before: Standing | None, last: Standing | None, one: MovedApi) -> tuple[str, ...]:
    """Return the new values of an API that two windows in a row show, and those that were told."""
    told = {known.what for known in (before.problems if before else ()) if known.part_of}
    had = () if last is None else last.came.get(one.api, ())
    return tuple(name for name in one.came if name in had or _with(one.api, name) in told)


def told_before(
    notices: Iterable[Mapping[str, Any]], decision: Decision, after: Standing
) -> list[Mapping[str, Any]]:
    """Return the notices that who made a decision knew, and that are too new to be repeated.

    A slow change goes on after each decision: who decides again would hear of it every week.
    """
    if decision.made is None or after.until is None:
        return []
    oldest = datetime.fromisoformat(after.until) - _SAID_AGAIN
    # Without windows nobody knows which days a notice was about.
    known = [body for body in notices if body.get("until") is not None]
    ends = [datetime.fromisoformat(body["until"]) for body in known]
    return [
        body
        for body, end in zip(known, ends, strict=True)
        if end > oldest and end.date() <= decision.made
    ]


def _tells_sets(body: Mapping[str, Any], renewal: Renewal) -> bool:
    """Whether a notice told the same of all sets that a renewal names."""
    had = body.get("renewal") or {}
    return "sets" in _reasons(body) and all(
        {*map(tuple, now)} <= {*map(tuple, had.get(name) or ())}
        for name, now in (
            ("would_allow", renewal.would_allow),
            ("would_block", renewal.would_block),
        )
    )


def _tells(body: Mapping[str, Any], one: MovedApi) -> bool:
    """Whether a notice told that an API has moved, of the same browsers and half as many users.

    Notices of before may lack members.
    """
    reasons = _reasons(body)
    for had in (body.get("renewal") or {}).get("moved") or ():
        releases = had.get("releases") or ()
        is_same = (had["api"], had.get("changed")) == (one.api, one.changed)
        name = _name(one.api, releases)
        is_told = is_same and any(
            reason == name or reason.startswith((_without(name), _with(name))) for reason in reasons
        )
        is_told = is_told and one.gone <= bool(had.get("gone")) and _tells_values(had, one)
        has_browsers = bool(one.releases) == bool(releases) and {*one.releases} <= {*releases}
        if is_told and has_browsers and one.moved < 2 * had["moved"]:
            return True
    return False


def _tells_values(had: Mapping[str, Any], one: MovedApi) -> bool:
    """Whether a notice told which values are gone, and which are new."""
    lost, came = had.get("lost", one.lost), had.get("came", one.came)
    return {*one.lost} <= {*lost} and {*one.came} <= {*came}


def _reasons(body: Mapping[str, Any]) -> set[str]:
    """Return what a notice named as a new reason to decide again."""
    found = (one for one in body.get("problems", ()) if one["kind"] == "decide again")
    return {one["what"] for one in found if one.get("new")}


def _name(api: str, releases: Sequence[str]) -> str:
    return ": ".join(filter(None, [api, ", ".join(releases)]))


def _without(name: str, values: Sequence[str] = ()) -> str:
    return f"{name} without {', '.join(values)}"


def _with(name: str, value: str = "") -> str:
    return f"{name} with {value}"


def known_again(before: Standing | None) -> list[Problem]:
    """Return why to decide again, as far as it was known, but for new values, which may go."""
    problems = () if before is None else before.problems
    return [one for one in problems if one.kind == "decide again" and one.part_of is None]


def lasting(
    before: Standing | None, after: Standing, found: Sequence[Problem], *, judged: bool
) -> list[Problem]:
    """Return what is in the way, and what was: until two windows in a row have not shown it.

    So what comes and goes is told once, and its end as well. Mended logs end a fault at once.

    Args:
        before, after: What was known, null at first, and what is.
        found: What the newest window shows, or lasts.
        judged: Whether there was a check.
    """
    if before is None:
        return [*found]
    shown, is_mended = {one.key for one in found}, bool(mended(before, after))
    # Without windows each check is of other users. A window that is looked at again is the same.
    is_next = before.until != after.until or (judged and after.until is None)
    kept = []
    for one in before.problems:
        if one.ends and one.key not in shown and not (is_mended and one.kind == "fault"):
            # Faults alone are looked for on days, beside longer windows.
            is_next_day = one.kind == "fault" and before.day != after.day
            quiet = one.quiet + (is_next or is_next_day)
            kept += [replace(one, quiet=quiet)] if quiet < _ENDS_AFTER else []
    return [*found, *kept]


def mended(before: Standing | None, after: Standing) -> list[str]:
    """Return the begins of windows that were at fault: what was said of them is taken back."""
    return sorted({*(before.faulty if before else ())} - {*after.faulty})


def over(before: Standing | None, after: Standing) -> list[Problem]:
    """Return what is in the way no longer, unless mended logs tell it, or what it was part of."""
    if before is None:
        return []
    known = {one.key for one in after.problems}
    ended = [one for one in before.problems if one.ends and one.key not in known]
    if mended(before, after):
        ended = [one for one in ended if one.kind != "fault"]
    keys = {one.key for one in ended}
    return [one for one in ended if (one.kind, one.part_of) not in keys]


def news(before: Standing | None, after: Standing) -> list[Problem]:
    """Return the problems that nobody was told of, but for parts of one that names them."""
    known = {one.key for one in (before.problems if before else ())}
    new = [one for one in after.problems if one.key not in known]
    keys = {one.key for one in new}
    return [one for one in new if (one.kind, one.part_of) not in keys]


def is_news(before: Standing | None, after: Standing) -> bool:
    """Whether somebody should be told: of a certain change, an alarm, a problem, or an end."""
    if before is None or news(before, after):
        return True
    if mended(before, after) or over(before, after):
        return True
    return (before.state, before.above, before.alarm) != (after.state, after.above, after.alarm)


def changes(
    before: Standing | None,
    after: Standing,
    limits: Mapping[ApiSet, tuple[float, float]],
    *,
    without_automation: Mapping[ApiSet, tuple[float, float]],
) -> list[dict[str, Any]]:
    """Return the sets of which something else is certain now.

    Args:
        before, after: What was known, null at first, and what is.
        limits, without_automation: Limits of the exposure of each set in the last check, shares;
            and without browsers that look automated, where that was looked at.
    """
    was = {} if before is None else {found.apis: found.verdict for found in before.sets}
    return [
        {
            "apis": list(found.apis),
            "was": was.get(found.apis),
            "now": found.verdict,
            "since": found.since,
            "lower": limits[found.apis][0],
            "upper": limits[found.apis][1],
            "without_automation": without_automation.get(found.apis),
        }
        for found in after.sets
        if was.get(found.apis) != found.verdict
    ]


def probable_causes(alarms: Iterable[PanelFinding]) -> list[dict[str, Any]]:
    """Return the APIs whose values are others than in the window before, the surest first.

    `moved` is a share of the users, `new_values` a number of values that at least k users have now
    and fewer had before; `releases` are the browsers that these name.
    """
    causes: list[dict[str, Any]] = []
    for alarm in alarms:
        [api] = alarm.apis
        if any(cause["api"] == api for cause in causes):
            continue
        new = [one.value for one in alarm.values if one.value and one.grew and one.before is None]
        causes.append(
            {
                "api": api,
                "moved": alarm.moved,
                "new_values": len(new),
                "releases": releases_in(api, new),
            }
        )
    return causes


def next_steps(
    decision: Decision, after: Standing, *, by: str | None, folder: Path, database: Path
) -> list[str]:
    """Return commands for a shell that help with what was found.

    Args:
        decision, after: What is watched, and what is known of it.
        by: Length of its windows, null without.
        folder, database: Where logs arrive, and where they are stored.
    """
    stored, steps = ["--db", str(database)], []
    if after.above:
        # The first by name, so that a notice that is sent again names the same.
        apis = join_names(min(after.above))
        when = ["--by", by or "week"]
        steps.append(["exposure", *when, "--apis", apis, "--k", str(decision.policy.k)])
    for problem in after.in_the_way:
        if problem.kind == "refused":
            steps.append(["ingest", str(folder / problem.what)])
    kinds = {problem.kind for problem in after.in_the_way}
    if kinds & {"no logs", "late logs", "fault"}:
        steps.append(["db", "batches"])
    found = [shlex.join(["fpmonitor", *step, *stored]) for step in steps]
    if after.above or kinds & {"appeared", "vanished", "decide again"}:
        vanished, appeared = (
            [one.what for one in after.in_the_way if one.kind == kind]
            for kind in ("vanished", "appeared")
        )
        found.append(decide_again(decision, database, vanished=vanished, appeared=appeared))
    return found


def called_anew(made: Decision, checked: Decision) -> Decision:
    """Return a decision as the log of a check calls it, whose sets may hold APIs of unions."""
    own = {*map(made.means, made.policy.candidates)}
    candidates = tuple(api for api in checked.policy.candidates if checked.means(api) in own)
    policy = replace(checked.policy, candidates=candidates)
    return replace(checked, policy=policy, union_with=made.union_with)


def decide_again(
    decision: Decision,
    database: Path,
    *,
    vanished: Collection[str] = (),
    appeared: Sequence[str] = (),
) -> str:
    """Return the command that asks the question of a decision of the users of now.

    It is about the APIs of now: who pasted it with those that have vanished was told so again.
    """
    policy, view = decision.policy, decision.view
    # Ten digits: `repr` of a share that was computed may have seventeen.
    words = ["fpmonitor", "decide", "--k", str(policy.k), "--budget", f"{policy.budget:.10g}"]
    if policy.delta is None:
        words += ["--setting", "sample"]
    else:
        words += ["-n", str(policy.population), "--delta", f"{policy.delta:.10g}"]
    sample = policy.sample
    for option, value, usual in (
        ("missing", decision.missing, "value"),
        ("volatile", view.volatile, "shared"),
        ("source", decision.source, None),
        ("bias", f"{sample.bias:.10g}", "1"),
        ("fake-share", f"{sample.fake_share:.10g}", "0"),
        ("cluster", sample.cluster, None),
        # What stands in a file is named as one: the decision does not know where it was.
        ("strata", "SHARES.toml" if sample.strata else None, None),
        ("what-if", "TRANSFORMS.toml" if view.transforms else None, None),
    ):
        if value != usual:
            words += [f"--{option}", str(value)]
    words += _cohort_words(policy.cohorts)
    if (links := policy.links) is not None:
        words += ["--link-budget", f"{links.budget:.10g}"]
        words += ["--after", ",".join(map(days_in_words, links.after))] if links.after else []
    words += ["--unit", policy.visits]  # by default it would follow from the users of now
    words += ["--union-with", "OTHER.json"] * len(decision.union_with)
    words += ["--rows-are-users"] if sample.rows_are_users else []
    words += ["--realised"] if policy.realised else []
    words += ["--drop-automation"] if view.drop_automation else []
    for option, wished in (("must", decision.must), ("never", decision.never)):
        left = [api for api in wished if api not in vanished]
        words += [f"--{option}", join_names(left)] if left else []
    words += ["--weights", "WEIGHTS.toml"] if decision.weights else []
    now = [*(api for api in policy.candidates if api not in vanished), *appeared]
    now = now or [*policy.candidates]
    words += [word for api in decision.assumed if api in now for word in ("--assume", api)]
    if decision.confirmation is not None:
        words += ["--search-users", str(decision.confirmation.searched)]
    elif decision.universe is None and not (decision.is_exact or decision.registered):
        # Candidates that were changed by what the users show were not fixed before.
        words += ["--fixed-question"] if {*now} == {*policy.candidates} else []
    words += ["--candidates", join_names(now)]
    return shlex.join([*words, "--db", str(database), "-o", "new.json"])


def _cohort_words(cohorts: CohortBudget | None) -> list[str]:
    """Return the options of what cohorts must keep."""
    if cohorts is None:
        return []
    words = list[str]()
    # The short names, as `family`: the long ones have spaces.
    kinds = {kind: name for name, kind in KINDS.items() if name != kind}
    for option, told in (("given", cohorts.given), ("given-menu", cohorts.menu)):
        named = join_names(kinds.get(each, each) for each in told)
        words += [f"--{option}", named] if named else []
    words += ["--budget-each", f"{cohorts.budget:.10g}"]
    words += ["--least-share", f"{cohorts.least_share:.10g}"]
    words += ["--worst-share"] * cohorts.worst_share
    return words
