"""Whether the allow list of a decision still holds on the current users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from fpmonitor.answers.decide import called_as, recheck_sets
from fpmonitor.decide.decision import ApiSet, Decision, Verdict
from fpmonitor.decide.horizon import CheckSlot, share_delta
from fpmonitor.disclosure import publishable_count
from fpmonitor.population.population import Population
from fpmonitor.results import Result
from fpmonitor.safe_files import untyped

Outcome = Literal["holds", "violated", "cannot tell"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport(Result):
    """Every set on the allow list of a decision, tested on the current data.

    Attributes
    ----------
    decision
        The decision.
    verdicts
        Set on its allow list -> `allow` (still within the budget), `block` (above it), `undecided`.
    users
        Users of now; null where they are fewer than k.
    since, until
        The window that was looked at; null where it is open.
    place
        Slot among the checks that share the delta; null for a check alone.
    masked
        Candidates whose volatile values the view masks in the current data.
    """

    decision: Decision
    verdicts: Mapping[ApiSet, Verdict]
    users: int | None
    since: datetime | None
    until: datetime | None
    place: CheckSlot | None
    masked: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """Verdict on the whole list."""
        if "block" in self.verdicts.values():
            return "violated"
        return "cannot tell" if "undecided" in self.verdicts.values() else "holds"

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each set on the allow list."""
        return [{"verdict": verdict, "apis": list(apis)} for apis, verdict in self.verdicts.items()]

    def to_json(self) -> dict[str, Any]:
        """Return the report as `watch` posts it."""
        return {
            "outcome": self.outcome,
            "sets": [
                {"verdict": verdict, "apis": list(apis)} for apis, verdict in self.verdicts.items()
            ],
            "users": self.users,
            "since": None if self.since is None else self.since.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
            "masked": list(self.masked),
            "policy": untyped(self.decision.policy),
            "place": None if self.place is None else asdict(self.place),
        }

    @property
    def exact(self) -> bool:
        """Whether the decision is on the observed users themselves."""
        return self.decision.policy.delta is None


def report_check(
    population: Population, decision: Decision, slot: CheckSlot | None = None
) -> CheckReport:
    """Test every set on the allow list of a decision on the current users.

    Parameters
    ----------
    population
        The users, seen as the decision saw its own.
    decision
        The decision.
    slot
        Which of the checks it is that share the decision's delta; None for a check alone.

    Raises
    ------
    PolicyError, UnknownNameError, UndecidableError
        The current data lack a candidate, or hold too few users.
    """
    decision = called_as(decision, population)
    tested = decision if slot is None else share_delta(decision, slot.horizon)
    users, k = population.snapshot.users, decision.policy.k
    return CheckReport(
        decision=decision,
        verdicts=recheck_sets(population, tested),
        users=publishable_count(users, k, population.audience),
        since=population.window.since,
        until=population.window.until,
        place=slot,
        masked=population.masked(decision.policy.candidates, k),
    )
