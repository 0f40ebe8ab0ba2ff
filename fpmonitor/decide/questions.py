"""Which share of delta the tests of a question have: registered ones, and any view by its name.

Views of the users are as many as anybody likes to try, so each has a weight that its name alone
fixes before the first user, and the weights add up to at most 1: docs/certificate.md, section 4.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any, Self

import msgspec

from fpmonitor.decide.decision import Setting  # noqa: TC001 -- msgspec reads the annotation
from fpmonitor.errors import UndecidableError
from fpmonitor.policy import Policy, SampleModel
from fpmonitor.population.views import View, Volatile
from fpmonitor.question import Missing, read_strata
from fpmonitor.results import Result
from fpmonitor.safe_files import read_toml, typed, untyped
from fpmonitor.store.snapshot import Window, naive_utc
from fpmonitor.store.transforms import Transform  # noqa: TC001 -- msgspec reads the annotation

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from fpmonitor.decide.decision import Decision

BASE_WEIGHT = 0.5  # of the view that no option changes
_CHANGE = math.log(9)  # a view may differ in six ways: (1 + 1/9)^6 < 2
_MOST_COST = 600.0  # nats; no data decide beyond
# Sources that our collectors name, before their versions.
_LIBRARIES = (
    *("accesslog", "amiunique", "clientjs", "creepjs", "fingerprintjs", "glean", "glean-json"),
    *("har", "identifiability", "long", "openwpm", "thumbmarkjs", "wide"),
)
_NUMBER = "(?:0|[1-9][0-9]{0,17})"
_VERSION = re.compile(rf"{_NUMBER}(?:\.{_NUMBER})*")
_THIS_CENTURY, _DAYS = range(2000, 2100), 36_525


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuestion:
    """All that a decision answers: the policy, and the view of the users.

    Attributes
    ----------
    policy, setting, missing, view
        As in `Decision`.
    window
        Observations that count; times are UTC.
    """

    policy: Policy
    setting: Setting = "population"
    missing: Missing = "value"
    view: View = field(default_factory=View)
    window: Window = field(default_factory=Window)

    def __post_init__(self) -> None:
        seen = self.window
        window = Window(naive_utc(seen.since), naive_utc(seen.until), seen.source)
        object.__setattr__(self, "window", window)


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """Share of delta that all tests of a question have together.

    Attributes
    ----------
    level
        Tolerated probability of error of each side, in (0, 1); null where nothing is estimated.
    registered
        Whether the question was registered before the first user was stored.
    view_weight
        Share that the view has by its name; null where the view is fixed with the question.
    """

    level: float | None
    registered: bool = False
    view_weight: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSummary:
    """What became of a question: users, level and the lengths of the lists of its decision."""

    users: int
    universe: int | None
    level: float | None
    registered: bool
    view_weight: float | None
    allow: int
    block: int
    undecided: int
    complete: bool

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
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedQuestion(Result):
    """A question that a database lists.

    Attributes
    ----------
    asked_at
        UTC.
    question
        All that was asked.
    answer
        Null for a question that was registered before the first user was stored.
    """

    asked_at: datetime
    question: AskedQuestion
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

    Parameters
    ----------
    question
        What is asked.
    registered
        What was registered in the database.
    universe
        APIs that may be chosen after looking; null for a question fixed before.

    Raises
    ------
    UndecidableError
        The name of the view is too long for any data to decide.
    """
    delta = question.policy.delta
    if delta is None:
        return Level(level=None)
    if question in registered:
        return Level(level=delta / 2 / len(registered), registered=True)
    if universe is None:
        return Level(level=delta)
    cost = view_cost(question, universe=universe)
    if cost > _MOST_COST:
        raise UndecidableError(
            "no data decide for a view with so long a name",
            hint="register the question before the first user is stored, or declare it fixed with "
            "--fixed-question",
        )
    weight = BASE_WEIGHT * math.exp(-cost)
    return Level(level=delta * weight / (2 if registered else 1), view_weight=weight)


def view_cost(question: AskedQuestion, *, universe: int) -> float:
    """Length of the name of a view in nats: 0 for the base view, which no option changes.

    `exp(-cost)` of all views add up to at most 2, so the weights to at most 1.
    """
    view, window = question.view, question.window
    changes = []
    if view.volatile != "shared":
        changes.append(math.log(2))
    if view.drop_automation:
        changes.append(0.0)
    if question.missing != "value":
        changes.append(math.log(2))
    if window.source is not None:
        changes.append(_source_cost(window.source))
    bounds = [bound for bound in (window.since, window.until) if bound is not None]
    if bounds:
        changes.append(math.log(3) + sum(map(_time_cost, bounds)))
    # What is done to other APIs makes no difference to sets of candidates.
    transforms = [
        _transform_cost(transform)
        for api, transform in view.transforms.items()
        if api in question.policy.candidates
    ]
    if transforms:
        few = len(transforms)
        named = math.log(few * (few + 1)) + math.log(math.comb(universe, few))
        changes.append(named + sum(transforms))
    return sum(_CHANGE + detail for detail in changes)


def most_weight(decision: Decision) -> float:
    """Weight of the view of a decision; its `--since` and `--until`, which no file names, lower it.

    The decision is for any choice.
    """
    asked = AskedQuestion(
        policy=decision.policy,
        missing=decision.missing,
        view=decision.view,
        window=Window(source=decision.source),
    )
    return BASE_WEIGHT * math.exp(-view_cost(asked, universe=decision.universe or 1))


def _source_cost(source: str) -> float:
    """Tell libraries of ours with a version of numbers from any text."""
    library, space, version = source.partition(" ")
    if library in _LIBRARIES and (not space or _VERSION.fullmatch(version)):
        numbers = [int(number) for number in version.split(".")] if space else []
        parts = sum(math.log(2) + _count_cost(number) for number in numbers)
        return 2 * math.log(2) + math.log(len(_LIBRARIES)) + parts
    content = source.encode()
    return math.log(2) + _count_cost(len(content)) + 8 * math.log(2) * len(content)


def _time_cost(moment: datetime) -> float:
    """Name a month, day, second or microsecond of a century; half is for this one."""
    if moment.microsecond:
        units = _DAYS * 86_400 * 10**6
    elif moment.time() != time():
        units = _DAYS * 86_400
    else:
        units = 1200 if moment.day == 1 else _DAYS
    return math.log(4) + math.log(2 if moment.year in _THIS_CENTURY else 200) + math.log(units)


def _transform_cost(transform: Transform) -> float:
    """Name a constant, whichever; or some of four steps, and a multiple `c 10^e` to round to."""
    if transform.constant is not None:
        return math.log(2)
    if not transform.round:
        return 6 * math.log(2)
    digits = str(transform.round).rstrip("0")
    zeros = len(str(transform.round)) - len(digits)
    return (7 + zeros) * math.log(2) + _count_cost(int(digits) - 1)


def _count_cost(number: int) -> float:
    """Name a whole number from 0 on: its weight is `1 / ((number + 1) (number + 2))`."""
    return math.log((number + 1) * (number + 2))


class _PolicyFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
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
    source: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    volatile: Volatile = "shared"
    drop_automation: bool = False
    transforms: dict[str, Transform] = {}


def read_policy(path: Path) -> AskedQuestion:
    """Read a question that is to be registered from a TOML file: docs/formats.md.

    Raises
    ------
    InputError
        Not readable, not TOML, or with members that a question does not have.
    PolicyError
        A number is out of its range.
    """
    content = read_toml(path, "policy")
    asked = typed(
        {name: _with_time(value) for name, value in content.items()},
        _PolicyFile,
        f"a policy: {path}",
        hint="k, population, budget and candidates, as the options of `fpmonitor decide`",
    )
    return AskedQuestion(
        policy=Policy(
            k=asked.k,
            population=asked.population,
            budget=asked.budget,
            delta=asked.delta,
            candidates=tuple(asked.candidates),
            realised=asked.realised,
            sample=SampleModel(
                bias=asked.bias,
                strata=None if asked.strata is None else read_strata(path.parent / asked.strata),
                fake_share=asked.fake_share,
                cluster=asked.cluster,
                rows_are_users=asked.rows_are_users,
            ),
        ),
        missing=asked.missing,
        view=View(
            volatile=asked.volatile,
            drop_automation=asked.drop_automation,
            transforms=asked.transforms,
        ),
        window=Window(asked.since, asked.until, asked.source),
    )


def _with_time(value: Any) -> Any:
    is_day = isinstance(value, date) and not isinstance(value, datetime)
    return datetime.combine(value, time()) if is_day else value
