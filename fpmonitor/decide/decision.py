"""The decision: which API sets are allowed, which are blocked, and what is guaranteed.

A decision file alone answers a gate, so this module needs neither numbers nor a database.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fpmonitor.decide.decision_file import check_decision
from fpmonitor.errors import InputError
from fpmonitor.policy import Policy
from fpmonitor.population.views import View
from fpmonitor.question import Missing
from fpmonitor.results import Result
from fpmonitor.safe_files import read_json, untyped

ApiSet = tuple[str, ...]
Setting = Literal["population", "sample"]
Verdict = Literal["allow", "block", "undecided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Result):
    """The answer to a policy, as it stands in a decision file.

    Attributes
    ----------
    policy
        The question.
    setting
        `population`: certified for a population of `policy.population`; `sample`: exact, for the
        observed users alone.
    missing
        Whether absent was a value, exposed its user, or users lacking a candidate were left out.
    users
        Observed users.
    digest
        Digest of the data that was decided on, keyed by whoever keeps them.
    guarantee
        What holds, in one sentence.
    allow, block, undecided
        Maximal allowed sets; minimal blocked sets; minimal sets that are neither. Every set that
        contains no blocked or undecided one is within an allowed one, if `complete`.
    recommended
        The allowed set of the greatest utility, empty when no API is allowed.
    complete
        Whether the search went to its end; if not, the lists hold what is proven.
    evaluated
        Number of sets whose exposure was computed.
    seconds
        Wall time.
    users_needed
        For each undecided set a forecast of the observed users that would decide it, null where
        100 million would not; null as a whole when it was not asked for.
    view, source
        How the users were looked at, and the one source whose observations counted, null for all.
    utility, utility_bound
        Total weight of `recommended`, and one that no allowed set exceeds; equal if `complete`.
    engine
        What counted the groups: `memory`, `duckdb`, or the address of another engine.
    coverage
        Candidate -> share of the users with a value of it: 1 where fewer than k lack it, null where
        fewer than k have it; null as a whole in files of before.
    """

    policy: Policy
    setting: Setting
    missing: Missing
    users: int
    digest: str
    guarantee: str
    allow: tuple[ApiSet, ...]
    block: tuple[ApiSet, ...]
    undecided: tuple[ApiSet, ...]
    recommended: ApiSet
    complete: bool
    evaluated: int
    seconds: float
    users_needed: tuple[int | None, ...] | None = None
    view: View = field(default_factory=View)
    source: str | None = None
    utility: float | None = None
    utility_bound: float | None = None
    engine: str | None = None
    coverage: Mapping[str, float | None] | None = None

    def verdict(self, apis: Iterable[str]) -> tuple[Verdict, ApiSet]:
        """Verdict on reading `apis`, and the listed set that settles it (empty when none does).

        Raises
        ------
        UnknownNameError
            One of them is not a candidate of the policy.
        """
        asked = set(apis)
        self.policy.check_candidates(asked)
        for blocked in self.block:
            if asked >= set(blocked):
                return "block", blocked
        for allowed in self.allow:
            if asked <= set(allowed):
                return "allow", allowed
        for open_set in self.undecided:
            if asked >= set(open_set):
                return "undecided", open_set
        return ("allow", ()) if not asked else ("undecided", ())

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each listed set with its verdict, the recommended one first."""
        listed = (
            ("recommended", (self.recommended,)),
            ("allow", self.allow),
            ("block", self.block),
            ("undecided", self.undecided),
        )
        return [{"verdict": word, "apis": list(apis)} for word, sets in listed for apis in sets]

    def to_json(self) -> dict[str, Any]:
        """Return the decision as it stands in a decision file."""
        forecast = {} if self.users_needed is None else {"users_needed": [*self.users_needed]}
        return {
            "policy": untyped(self.policy),
            "setting": self.setting,
            "missing": self.missing,
            "view": {"source": self.source, **self.view.to_json()},
            "data": {"users": self.users, "digest": self.digest},
            **({} if self.coverage is None else {"coverage": dict(self.coverage)}),
            "guarantee": self.guarantee,
            "allow": [list(apis) for apis in self.allow],
            "block": [list(apis) for apis in self.block],
            "undecided": [list(apis) for apis in self.undecided],
            **forecast,
            "recommended": list(self.recommended),
            "utility": self.utility,
            "utility_bound": self.utility_bound,
            "complete": self.complete,
            "evaluated": self.evaluated,
            "seconds": self.seconds,
            "engine": self.engine,
        }

    @classmethod
    def from_json(cls, content: Any) -> Decision:
        """Read what `to_json` gave.

        Raises
        ------
        InputError
            Not a decision: a member is missing or of the wrong kind.
        PolicyError
            A number of its policy is out of range.
        """
        read = check_decision(content)
        policy, view = read.policy, content.get("view")
        return cls(
            policy=Policy(
                k=policy.k,
                population=policy.population,
                budget=policy.budget,
                delta=policy.delta,
                candidates=tuple(policy.candidates),
                realised=policy.realised,
            ),
            setting=read.setting,
            missing=read.missing,
            users=read.data.users,
            digest=read.data.digest,
            guarantee=read.guarantee,
            allow=_sets(read.allow),
            block=_sets(read.block),
            undecided=_sets(read.undecided),
            recommended=tuple(read.recommended),
            complete=read.complete,
            evaluated=read.evaluated,
            seconds=read.seconds,
            users_needed=None if read.users_needed is None else tuple(read.users_needed),
            engine=read.engine,
            coverage=read.coverage,
            utility=read.utility,
            utility_bound=read.utility_bound,
            view=View() if view is None else View.from_json(view),
            source=None if read.view is None else read.view.source,
        )


def read_decision(path: Path) -> Decision:
    """Read a decision file.

    Raises
    ------
    InputError
        No such file, not JSON, or not a decision.
    """
    hint = "make one with `fpmonitor decide ... -o decision.json`"
    content = read_json(path, "no readable decision file:", hint=hint)
    try:
        return Decision.from_json(content)
    except InputError as error:
        raise InputError(f"{path}: {error.message}", hint=error.hint) from error


def _sets(content: Iterable[Iterable[str]]) -> tuple[ApiSet, ...]:
    return tuple(tuple(apis) for apis in content)
