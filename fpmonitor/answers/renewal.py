"""Whether to decide again: what a decision does not know of the users of now."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fpmonitor.answers.decide import called_as, question_of
from fpmonitor.decide.evidence import needed_evidence
from fpmonitor.errors import shortened, some_of
from fpmonitor.population.browsers import BROWSER_APIS, browser_of
from fpmonitor.safe_files import untyped
from fpmonitor.vocabulary import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import date, datetime

    from fpmonitor.answers.panel import NamedValue, PanelFinding
    from fpmonitor.decide.decision import ApiSet, Decision, Verdict
    from fpmonitor.population.population import Population
    from fpmonitor.unit import Unit

FALSE_MOVES = 0.01  # probability that users who keep to one distribution are ever said to move
_NAMED = 3
_CHANGED = "{unit}s who had come on {since} have changed {apis}"
_OTHERS = "{unit}s who come now are others than on {since}, by {apis}"
_GONE = "{api} {values} {are} gone: fewer than {k} {unit}s have {it}, many had on {since}{also}"
_CAME = "{api} {values} {are} new: many {unit}s have {it}, fewer than {k} had on {since}"
_LETTERS = 40  # of the name of a value, which others share


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedApi:
    """An API whose values are others than on the days of the decision.

    Attributes:
        api: Its name.
        moved: Estimated share of the users of the window: of those who came in both where they
            changed.
        changed: Whether users who came in both have changed their values; else others come.
        releases: Browsers that new values name, as `chromium 142`.
        gone: Whether others come, of whom k had a value that fewer than k of all users have now,
            and a smaller share: no wave of bots looks like it.
        lost: Names of such values, those of most users first; of browsers, which are updated, none.
        came: Names of values that many have and fewer than k of all users had, likewise.
    """

    api: str
    moved: float
    changed: bool
    releases: tuple[str, ...] = ()
    gone: bool = False
    lost: tuple[str, ...] = ()
    came: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """What speaks for deciding again.

    Attributes:
        made, age_days: Day of the decision, and days since then; null where it does not say.
        decided_on, days: Users that were decided on, and their first and last day; null where it
            does not say.
        vanished, unknown: Candidates that fewer than k users have now, and other APIs that k users
            have.
        moved: The surest first; null where it was not looked at: without calendar windows, without
            k earlier users in the database to compare with, and where values are made coarser.
        moved_since: First day of the users who were compared with; null where none were.
        would_allow, would_block: Sets that the decision does not allow, and those that it leaves
            undecided, of which these users show that they are within the budget, or above it.
        tested, listed: Of how many such sets that was found out, the smallest first, and how many
            there are.
        k: Anonymity threshold of the decision.
        unit: What is counted.
    """

    made: date | None
    age_days: int | None
    decided_on: int
    days: tuple[date, date] | None
    vanished: tuple[str, ...]
    unknown: tuple[str, ...]
    moved: tuple[MovedApi, ...] | None
    moved_since: date | None
    would_allow: tuple[ApiSet, ...]
    would_block: tuple[ApiSet, ...]
    tested: int
    listed: int
    k: int
    unit: Unit = "user"

    @property
    def advised(self) -> bool:
        """Whether a new decision would say something else, or be about other users."""
        return bool(self.vanished or self.moved or self.would_allow or self.would_block)

    @property
    def reasons(self) -> list[str]:
        """A sentence for each thing that has changed; values that k users had may be named."""
        found = [f"{api} has vanished" for api in self.vanished[:_NAMED]]
        for changed in (True, False):
            apis = [one for one in self.moved or () if one.changed == changed]
            found += [self.said_of(apis)] if apis else []
        return found + self.sets

    def said_of(self, moved: Sequence[MovedApi]) -> str:
        """Say that some APIs have moved, which all were changed, or of which others come."""
        first = moved[0]
        if len(moved) == 1 and first.lost and not first.changed:
            also = f"; {_few(first.came)} new" if first.came else ""
            return self._of_values(_GONE, first.api, first.lost, also=also)
        said = _CHANGED if first.changed else _OTHERS
        apis = some_of([*map(_one, moved)], _NAMED)
        return said.format(unit=self.unit, since=self.moved_since, apis=apis)

    def said_of_new(self, api: str, value: str) -> str:
        """Say that an API has a new value."""
        return self._of_values(_CAME, api, [value])

    def _of_values(self, said: str, api: str, values: Sequence[str], **words: str) -> str:
        are, it = ("are", "each") if len(values) > 1 else ("is", "it")
        named = some_of(values, _NAMED)
        known = {"unit": self.unit, "since": self.moved_since, "k": self.k}
        return said.format(api=api, values=named, are=are, it=it, **known, **words)

    @property
    def sets(self) -> list[str]:
        """A sentence on sets whose verdict would be another one."""
        found = []
        for what, sets in (("within", self.would_allow), ("above", self.would_block)):
            if sets:
                named = some_of([" + ".join(apis) for apis in sets], _NAMED)
                found.append(
                    f"these {self.unit}s show what the decision does not: {what} the budget: "
                    f"{named}"
                )
        return found

    @property
    def known(self) -> str:
        """A sentence on the age of the decision, its users, and the APIs that it does not know."""
        ages = {0: " today", 1: " yesterday"}
        days_ago = self.age_days
        age = "" if days_ago is None else ages.get(days_ago, f" {days_ago:,} days ago")
        days = "" if self.days is None else f" of {self.days[0]} to {self.days[1]}"
        lacks = f"; it does not cover {some_of(self.unknown, _NAMED)}" if self.unknown else ""
        return f"decided{age} on {self.decided_on:,} {self.unit}s{days}{lacks}"

    @property
    def wrong_by(self) -> str | None:
        """What the sentences on moves may be wrong by; null where moves were not looked for."""
        if self.moved is None:
            return None
        return (
            f"With probability {1 - FALSE_MOVES:g}, this is never said of {self.unit}s who keep "
            "their values and come as before, each as often as it likes, however long they are "
            "watched."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the members of a notice."""
        members: dict[str, Any] = untyped(self)
        del members["k"]  # of the policy
        if self.unit == "user":
            del members["unit"]
        return members | {
            "advised": self.advised,
            "reasons": self.reasons,
            "wrong_by": self.wrong_by,
        }


def find_renewal(
    population: Population,
    decision: Decision,
    *,
    others: Mapping[ApiSet, Verdict],
    vanished: tuple[str, ...],
    compared: tuple[date, Sequence[PanelFinding]] | None,
    faults: AbstractSet[str],
    now: datetime,
) -> Renewal:
    """Find out what a decision does not know of the users of a check.

    Args:
        population, decision: The users of the check, seen as the decision saw its own, and the
            decision.
        others, vanished: See `CheckReport.others` and `CheckReport.vanished`.
        compared: The day whose users they were compared with, and what was found; null without.
        faults: APIs whose values are at fault, of which nothing is said.
        now: UTC.
    """
    decision = called_as(decision, population)
    candidates, undecided = {*decision.policy.candidates}, {*decision.undecided}
    apis = population.askable_apis(question_of(decision))
    moved_since, found = compared or (None, ())
    findings = [one for one in found if faults.isdisjoint(one.apis)]
    had = population.coverage(apis, decision.policy.k)
    made = decision.made
    return Renewal(
        made=made,
        age_days=None if made is None else max(0, (now.date() - made).days),
        decided_on=decision.users,
        days=decision.days,
        vanished=vanished,
        # Coverage is null of fewer than k users: an API of a single client is not named.
        unknown=tuple(api for api in apis if api not in candidates and had[api] is not None),
        moved=None if compared is None else _moved(findings),
        moved_since=moved_since,
        would_allow=tuple(apis for apis, verdict in others.items() if verdict == "allow"),
        # Blocked sets that these users block as well are no news.
        would_block=tuple(
            apis for apis, verdict in others.items() if verdict == "block" and apis in undecided
        ),
        tested=len(others),
        listed=len({*decision.block, *undecided}),
        k=decision.policy.k,
        unit=decision.unit,
    )


def share_of_false_moves(place: int) -> float:
    """Return what a window may be wrong by; the shares of all windows add up to all."""
    # Its share by the calendar, as windows have of delta (certificate/windows.md, 13).
    return math.exp(-needed_evidence(FALSE_MOVES, place=place, successes=0))


def _moved(alarms: Sequence[PanelFinding]) -> tuple[MovedApi, ...]:
    """Name each API once: where its values were changed, that tells why others seem to come.

    Not why a value is gone, unless it is of a browser, whose versions go all the time.
    """
    found: dict[str, MovedApi] = {}
    # `setdefault` keeps the first: a change of values explains why others seem to come.
    for alarm in sorted(alarms, key=lambda alarm: alarm.compared != "changed"):
        [api] = alarm.apis
        new = [one.value for one in alarm.values if one.value and one.grew]
        moved = MovedApi(
            api=api,
            moved=alarm.moved,
            changed=alarm.compared == "changed",
            releases=tuple(releases_in(api, new)),
            gone=alarm.gone,
            lost=_value_names(api, alarm.lost),
            came=_value_names(api, alarm.came),
        )
        known = found.setdefault(api, moved)
        if moved.lost:
            known = replace(known, gone=True, lost=moved.lost)
        found[api] = replace(known, came=tuple(dict.fromkeys([*known.came, *moved.came])))
    return tuple(found.values())


def _value_names(api: str, values: Iterable[NamedValue]) -> tuple[str, ...]:
    if api in BROWSER_APIS:
        return ()
    return tuple(dict.fromkeys(_value_name(one.value) for one in values))


def releases_in(api: str, values: Sequence[str]) -> list[str]:
    """Return the browsers that values of an API name, as `chromium 142`, sorted."""
    browsers = {browser_of(api, value) for value in values}
    return sorted({f"{FAMILIES[family]} {version}" for family, version in browsers if version})


def _value_name(text: str) -> str:
    """Name a value on one line, by what it begins with."""
    # Values come from clients: a newline would forge a line of the log of whoever is told.
    line = "".join(letter for letter in " ".join(text.split()) if letter.isprintable())
    return shortened(line, _LETTERS)


def _one(moved: MovedApi) -> str:
    now = ", ".join(filter(None, [*moved.releases, some_of(moved.came, _NAMED)]))
    gone = f"{_few(moved.lost) if moved.lost else 'a value is'} gone" if moved.gone else ""
    # The estimate is of half of the users: of few who moved it may see none.
    about = f"about {_percent(moved.moved)}" if moved.moved > 0 else ""
    shown = ": ".join(filter(None, [about, f"now {now}" if now else ""]))
    told = "; ".join(filter(None, [shown, gone]))
    return f"{moved.api} ({told})" if told else moved.api


def _few(values: Sequence[str]) -> str:
    return f"{some_of(values, _NAMED)} {'are' if len(values) > 1 else 'is'}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"
