"""Whether to decide again: what a decision does not know of the users of now."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from fpmonitor.answers.decide import called_as, question_of
from fpmonitor.answers.trend import compare_windows
from fpmonitor.decide.horizon import needed_evidence
from fpmonitor.errors import UndecidableError
from fpmonitor.safe_files import untyped
from fpmonitor.store.snapshot import Window
from fpmonitor.store.windows import end_of, position, whole_span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from fpmonitor.decide.decision import ApiSet, Decision, Verdict
    from fpmonitor.population.population import Population
    from fpmonitor.population.windows import Windows
    from fpmonitor.unit import Unit

FALSE_MOVES = 0.01  # probability that users who keep to one distribution are ever said to move
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedApi:
    """An API whose values are others than on the days of the decision.

    `moved` estimates the share of the users who moved; on average it does not overstate it.
    """

    api: str
    moved: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """What speaks for deciding again.

    Attributes
    ----------
    made, age_days
        Day of the decision, and days since then; null where it does not say.
    decided_on, days
        Users that were decided on, and their first and last day; null where it does not say.
    vanished, unknown
        Candidates that fewer than k users have now, and other APIs that k users have.
    moved
        The surest first; null where it was not looked at: without calendar windows, without k
        earlier users in the database to compare with, and where values are made coarser.
    moved_since
        First day of the users who were compared with; null where none were.
    would_allow, would_block
        Sets that the decision does not allow, and those that it leaves undecided, of which these
        users show that they are within the budget, or above it.
    tested, listed
        Of how many such sets that was found out, the smallest first, and how many there are.
    unit
        What is counted.
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
    unit: Unit = "user"

    @property
    def advised(self) -> bool:
        """Whether a new decision would say something else, or be about other users."""
        return bool(self.vanished or self.moved or self.would_allow or self.would_block)

    @property
    def reasons(self) -> list[str]:
        """A sentence for each thing that has changed, without values."""
        found = [f"{api} has vanished" for api in self.vanished[:_NAMED]]
        if self.moved:
            apis = [f"{one.api} (about {_percent(one.moved)})" for one in self.moved]
            found.append(
                f"{self.unit}s have moved since {self.moved_since} to other values of {_some(apis)}"
            )
        for what, sets in (("within", self.would_allow), ("above", self.would_block)):
            if sets:
                named = _some([" + ".join(apis) for apis in sets])
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
        lacks = f"; it knows nothing of {_some(self.unknown)}" if self.unknown else ""
        return f"decided{age} on {self.decided_on:,} {self.unit}s{days}{lacks}"

    @property
    def wrong_by(self) -> str | None:
        """What the sentences on moves may be wrong by; null where moves were not looked for."""
        if self.moved is None:
            return None
        return (
            f"With probability {1 - FALSE_MOVES:g}, users who keep to one distribution are "
            "never said to have moved, however long they are watched."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the members of a notice."""
        told: dict[str, Any] = untyped(self)
        if self.unit == "user":
            del told["unit"]
        return told | {"advised": self.advised, "reasons": self.reasons, "wrong_by": self.wrong_by}


def find_renewal(
    population: Population,
    decision: Decision,
    *,
    others: Mapping[ApiSet, Verdict],
    vanished: tuple[str, ...],
    windows: Windows | None,
    origin: datetime | None,
    now: datetime,
) -> Renewal:
    """Find out what a decision does not know of the users of a check.

    Parameters
    ----------
    population, decision
        The users of the check, seen as the decision saw its own, and the decision.
    others, vanished
        See `CheckReport.others` and `CheckReport.vanished`.
    windows
        Calendar windows, of which the users are one; null where moves are not looked for. They are
        compared with the users of the days of the decision.
    origin
        Begin of the first window that was checked: where the database has fewer than k users of the
        days of the decision, users are compared with those of this window.
    now
        UTC.
    """
    decision = called_as(decision, population)
    candidates, undecided = {*decision.policy.candidates}, {*decision.undecided}
    apis = population.askable_apis(question_of(decision))
    compared = None
    if windows is not None:
        observed = sorted(candidates.intersection(apis))
        compared = _compared(windows, population, decision, origin, observed)
    moved_since, moved = compared or (None, None)
    had = population.coverage(apis, decision.policy.k)
    made = decision.made
    return Renewal(
        made=made,
        age_days=None if made is None else max(0, (now.date() - made).days),
        decided_on=decision.users,
        days=decision.days,
        vanished=vanished,
        unknown=tuple(api for api in apis if api not in candidates and had[api] is not None),
        moved=moved,
        moved_since=moved_since,
        would_allow=tuple(apis for apis, verdict in others.items() if verdict == "allow"),
        would_block=tuple(
            apis for apis, verdict in others.items() if verdict == "block" and apis in undecided
        ),
        tested=len(others),
        listed=len({*decision.block, *undecided}),
        unit=decision.unit,
    )


def _compared(
    windows: Windows,
    population: Population,
    decision: Decision,
    origin: datetime | None,
    apis: Sequence[str],
) -> tuple[date, tuple[MovedApi, ...]] | None:
    """Find the APIs whose values are others now, and since when; None without k users each.

    Fewer users are as good as none, so that they show in no answer. The shares of all windows add
    up to 1.
    """
    begin, limits = windows.window.since, []
    if begin is None or not apis:
        return None
    if decision.days is not None:
        first, last = decision.days
        limits.append((datetime.combine(first, time.min), datetime.combine(last, time.max)))
    if origin is not None:
        limits.append((origin, end_of(origin, windows.division)))
    now = whole_span(windows.database, windows.window)
    for since, until in limits:
        last_place = position(until - timedelta(microseconds=1), windows.division)
        place = position(begin, windows.division) - last_place
        level = math.exp(-needed_evidence(FALSE_MOVES, place=place, successes=0))
        with suppress(UndecidableError):
            before = whole_span(windows.database, Window(since, until, windows.window.source))
            alarms = compare_windows(
                windows, before, now, population, apis, k=decision.policy.k, false_alarms=level
            )
            if alarms is not None:
                moved = (MovedApi(api=alarm.apis[0], moved=alarm.moved) for alarm in alarms)
                return since.date(), tuple(moved)
    return None


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest:,} more" if rest > 0 else "")
