"""Which share of delta the tests of a question have: registered ones, and any view by its name.

Views of the users are as many as anybody likes to try, so each has a weight that its name alone
fixes before the first user, and the weights add up to at most 1: docs/certificate.md, section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import msgspec

from fpmonitor.decide.decision import Setting  # noqa: TC001 -- msgspec reads the annotation
from fpmonitor.decide.view_weight import BASE_WEIGHT, view_cost
from fpmonitor.errors import UndecidableError
from fpmonitor.policy import Policy, SampleModel, Visits
from fpmonitor.population.browsers import KINDS
from fpmonitor.population.views import View, Volatile
from fpmonitor.question import Missing, read_strata
from fpmonitor.results import Result
from fpmonitor.safe_files import read_toml, typed, untyped
from fpmonitor.store.snapshot import Window, naive_utc
from fpmonitor.store.transforms import Transform  # noqa: TC001 -- msgspec reads the annotation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from fpmonitor.decide.decision import Decision

_MOST_COST = 600.0  # nats; no data decide beyond


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuestion:
    """All that a decision answers: the policy, and the view of the users."""

    # policy, setting, missing, view: As in `Decision`.
    policy: Policy
    setting: Setting = "population"
    missing: Missing = "value"
    view: View = field(default_factory=View)
    window: Window = field(default_factory=Window)  # Observations that count; times are UTC.

    def __post_init__(self) -> None:
        seen = self.window
        window = Window(naive_utc(seen.since), naive_utc(seen.until), seen.source)
        object.__setattr__(self, "window", window)
        if self.policy.visits == "last+visit":  # what is tested besides takes no share of delta
            object.__setattr__(self, "policy", replace(self.policy, visits="last"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """Share of delta that all tests of a question have together."""

    # Tolerated probability of error of each side, in (0, 1); null where nothing is estimated.
    level: float | None
    # Whether the question was registered before the first user was stored.
    registered: bool = False
    # Share that the view has by its name; null where the view is fixed with the question.
    view_weight: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSummary:
    """What became of a question: users, level, the lengths of the lists, what is recommended."""

    users: int
    universe: int | None
    level: float | None
    registered: bool
    view_weight: float | None
    allow: int
    block: int
    undecided: int
    complete: bool
    recommended: tuple[str, ...] = ()

    @classmethod
    def of(cls, decision: Decision) -> Self:
        """Summarise a decision."""
        return cls(
            users=decision.users,
            universe=decision.universe,
            level=decision.level,
            registered=decision.registered,
            view_weight=decision.view_weight,
            allow=len(decision.allow),
            block=len(decision.block),
            undecided=len(decision.undecided),
            complete=decision.complete,
            recommended=decision.recommended,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedQuestion(Result):
    """A question that a database lists."""

    asked_at: datetime  # UTC.
    question: AskedQuestion  # All that was asked.
    # Null for a question that was registered before the first user was stored.
    answer: AnswerSummary | None

    def to_json(self) -> dict[str, Any]:
        """Return the question and its answer as the CLI prints them."""
        content: dict[str, Any] = untyped(self)
        question = content.pop("question")
        return {
            "asked_at": content["asked_at"],
            "kind": "registered" if self.answer is None else "asked",
            **question,
            "answer": content["answer"],
        }


def level_of(
    question: AskedQuestion,
    registered: Collection[AskedQuestion],
    *,
    universe: int | None,
) -> Level:
    """Return the level of a question.

    Registered questions share half of delta evenly, and all others have the other half; where none
    is registered, these have the whole.

    Args:
        registered: What was registered in the database.
        universe: APIs that may be chosen after looking; null for a question fixed before.

    Raises:
        UndecidableError: The name of the view is too long for any data to decide.
    """
    delta = question.policy.delta
    if delta is None:
        return Level(level=None)
    # As a whole, view and window included: another one is another question.
    if question in registered:
        return Level(level=delta / 2 / len(registered), registered=True)
    if universe is None:
        return Level(level=delta)
    seen = question.window
    bounds = [bound for bound in (seen.since, seen.until) if bound is not None]
    cost = view_cost(
        question.view,
        question.policy.candidates,
        question.missing,
        seen.source,
        bounds,
        universe=universe,
    )
    # exp(-cost) of that is 1e-261; the levels of sets must still be numbers beside it.
    if cost > _MOST_COST:
        raise UndecidableError(
            "no data decide for a view with so long a name",
            hint="register the question before the first user is stored, or declare it fixed with "
            "--fixed-question",
        )
    weight = BASE_WEIGHT * math.exp(-cost)
    return Level(level=delta * weight / (2 if registered else 1), view_weight=weight)


def questions_before(
    question: AskedQuestion,
    listed: Iterable[ListedQuestion],
    *,
    fixed: bool,
    users: int | None = None,
) -> int | None:
    """Count other questions that were asked before one.

    Args:
        listed: What a database lists, in the order of asking.
        fixed: Whether candidates and view were to be fixed, too: otherwise they may be chosen.
        users: Count up to where the question was first answered on so many users; null: all.

    Returns:
        int or None
            Null where the question is not listed with so many users.
    """
    bound = partial(_bound, fixed=fixed)
    others: list[Any] = []
    for each in listed:
        if each.answer is None:
            continue
        if (
            users is not None
            and each.answer.users == users
            and bound(each.question) == bound(question)
        ):
            return len(others)
        if bound(each.question) not in (bound(question), *others):
            others.append(bound(each.question))
    return len(others) if users is None else None


def days_asked(
    question: AskedQuestion, listed: Iterable[ListedQuestion], *, fixed: bool, users: int
) -> tuple[date, date] | None:
    """Return the first and last day (UTC) on which a question was answered on so many users.

    Arguments as of `questions_before`; null where it is not listed.
    """
    wanted = _bound(question, fixed=fixed)
    days = [
        each.asked_at.date()
        for each in listed
        if each.answer is not None
        and each.answer.users == users
        and _bound(each.question, fixed=fixed) == wanted
    ]
    return (min(days), max(days)) if days else None


def _bound(question: AskedQuestion, *, fixed: bool) -> Any:
    """Return what must not follow from a look at the users."""
    bound: dict[str, Any] = untyped(replace(question, window=Window(source=question.window.source)))
    policy, cohorts = bound["policy"], question.policy.cohorts
    if cohorts is not None and cohorts.menu:  # any of it may be given, and is then no candidate
        policy["candidates"] = sorted({*policy["candidates"], *cohorts.menu})
        free = {*cohorts.menu} - {*cohorts.given} - {*KINDS.values()}
        left = free - {*question.policy.candidates}
        # Else each choice of candidates from the menu would be a question that counts as none.
        policy["cohorts"]["given"] = sorted(left) if fixed and left != free else None
    return bound if fixed else {**policy, "candidates": None}


class PolicyFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A question as it is written down: docs/outputs.md."""

    k: int
    population: int
    budget: float
    candidates: list[str]
    delta: float = 0.05
    realised: bool = False
    bias: float = 1.0
    strata: str | None = None
    fake_share: float = 0.0
    cluster: str | None = None
    rows_are_users: bool = False
    missing: Missing = "value"
    unit: Visits = "last"
    source: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    volatile: Volatile = "shared"
    drop_automation: bool = False
    transforms: dict[str, Transform] = {}


def read_policy(path: Path) -> AskedQuestion:
    """Read a question that is to be registered from a TOML file: docs/outputs.md."""
    content = read_toml(path, "policy")
    policy_file = typed(
        {name: _with_time(value) for name, value in content.items()},
        PolicyFile,
        f"a policy: {path}",
        hint="k, population, budget and candidates, as the options of `fpmonitor decide`",
    )
    return AskedQuestion(
        policy=Policy(
            k=policy_file.k,
            population=policy_file.population,
            budget=policy_file.budget,
            delta=policy_file.delta,
            candidates=tuple(policy_file.candidates),
            realised=policy_file.realised,
            sample=SampleModel(
                bias=policy_file.bias,
                strata=None
                if policy_file.strata is None
                else read_strata(path.parent / policy_file.strata),
                fake_share=policy_file.fake_share,
                cluster=policy_file.cluster,
                rows_are_users=policy_file.rows_are_users,
            ),
            visits=policy_file.unit,
        ),
        missing=policy_file.missing,
        view=View(
            volatile=policy_file.volatile,
            drop_automation=policy_file.drop_automation,
            transforms=policy_file.transforms,
        ),
        window=Window(policy_file.since, policy_file.until, policy_file.source),
    )


def _with_time(value: Any) -> Any:
    # TOML has days, and a datetime is a date to Python.
    is_day = isinstance(value, date) and not isinstance(value, datetime)
    return datetime.combine(value, time()) if is_day else value
