"""What a decision is asked: the policy, how sets are searched, and what else is to be told.

The command line, the settings, Python and the page fill one `DecideQuestion`, which is handed on
whole. A new option is a field here and an option of `cli.questions.Deciding`; what it cannot go
with is a line of `_NOT_WITH`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import Signature, signature
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, get_args

from fpmonitor.decide.decision import Setting
from fpmonitor.errors import InputError
from fpmonitor.policy import PLAIN_DRAWS, CohortBudget, LinkBudget, Visits
from fpmonitor.population.contents import Engine
from fpmonitor.question import Question, own_number

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from fpmonitor.decide.decision import Decision
    from fpmonitor.policy import SampleModel
    from fpmonitor.population.levels import Component
    from fpmonitor.question import Missing

P = ParamSpec("P")
Asked = TypeVar("Asked")
Keeper = TypeVar("Keeper")
Answer = TypeVar("Answer")

_SETS_ONLY = (
    *("candidates", "realised", "register", "weights", "forecast", "tolerance", "max-size"),
    *("search-users", "confirm", "engine"),
)
# An option -> others that it cannot go with, as the command line calls them.
_NOT_WITH: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_SETS_ONLY, ("levels",)),
    "search-users": (
        *("levels", "setting sample", "realised", "must", "never", "time-limit", "max-size"),
        # Queries divide the users by another rule: whoever chooses an engine would draw again.
        *("max-sets", "forecast", "tolerance", "resume", "engine"),
    ),
    "forecast": ("levels", "realised", "bias", "strata", "fake-share", "cluster"),
    "given": (
        *("levels", "setting sample", "realised", "bias", "strata", "fake-share", "search-users"),
        *("forecast", "tolerance", "missing exposed"),
    ),
    "link-budget": (
        *("levels", "setting sample", "realised", "bias", "strata", "fake-share", "cluster"),
        *("search-users", "forecast", "tolerance", "missing exposed"),
    ),
    "after": ("given", "missing drop"),
    "union-with": ("levels", "setting sample", "search-users"),
    "unit": (
        *("levels", "setting sample", "realised", "bias", "strata", "fake-share", "cluster"),
        *("search-users", "given", "forecast", "tolerance", "missing exposed", "missing drop"),
    ),
}
# An option that says nothing without another, and what to do then.
_ONLY_WITH = {
    "confirm": ("search-users", "on which users?", "say how many to search: --search-users"),
    "design-share": ("levels", "is of levels", "name them by --levels"),
    "budget-each": ("given", "of which cohorts?", "name what defines them: --given family,system"),
    "after": ("link-budget", "of which share?", "say how many may be linked: --link-budget 3%"),
    "least-share": ("given", "of which cohorts?", "name what defines them: --given family,system"),
    "given-menu": ("given", "which of it?", "name what defines cohorts: --given family,system"),
    "worst-share": ("given", "of which cohorts?", "name what defines them: --given family,system"),
}
# What must hold of the answer, as `must` and `realised`, is never passed over.
_HOW_SETS_ARE_SEARCHED = frozenset(
    ("candidates", "confirm", "design-share", "engine", "forecast", "max-sets", "max-size")
) | {"search-users", "time-limit", "tolerance", "weights"}
_EACH, _LEAST_SHARE = 4, 0.05  # times the budget, of each cohort; and of all users
# Words that say no more than no word; elsewhere a column may be called so.
_UNSAID = {"engine": "auto", "visits": "auto"}
_OPTIONS = {
    "components": "levels",
    "known": "resume",
    "confirm_chains": "confirm",
    "visits": "unit",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How far sets are searched, and what else is found of them.

    Attributes:
        time_limit, max_size: Seconds and number of APIs at which the search stops; what is proven
            stays valid. Of more than `deciding.MANY` candidates, and of levels, a minute by
            default.
        max_sets: How many sets each list holds at most; by default all, of more than `MANY`
            candidates 500, or else up to 5,000 APIs and pairs that are not allowed. Lists that were
            cut are not complete: first come the recommended set, some that differ from it, for each
            API a set that holds it, and those of the greatest utility, and the smallest that are
            not allowed.
        forecast: Say for each undecided set how many users would decide it.
        tolerance: Say for each allowed set how biased the sample may be.
        known: An earlier decision of the same question on the same data, perhaps not complete: what
            it proves is not computed again.
        progress: Told now and then in words how far the search is.
    """

    time_limit: float | None = None
    max_size: int | None = None
    max_sets: int | None = None
    forecast: bool = False
    tolerance: bool = False
    known: Decision | None = None
    progress: Callable[[str], None] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideQuestion(Search):
    """All that is asked of some users, who are seen in the window and the view of a population.

    Attributes:
        k, population, delta, missing, sample: As in `Question`.
        budget: Largest tolerated exposure, a share of the users.
        candidates: The APIs to decide on; all that may be named by default.
        setting: `population`: certified; `sample`: exact, for the observed users alone.
        realised: Certify the share of the users of one population, not its average over
            populations.
        fixed_question: The caller says that candidates, view, budget, k and population were fixed
            before the users were seen: sets are then tested at higher levels, and the guarantee
            names the condition.
        must, never, weights: See `decide.utility.recommend`; APIs as in `candidates`.
        assume: Candidates to take in though the users are no evidence of how they divide them:
            others of which they are none are in no set.
        given: What tells cohorts, which sites see with every set: APIs, `family`, `system`.
        budget_each, least_share: Largest tolerated exposure of every cohort that has at least a
            share of the users: by default four times the budget, and 5 %.
        given_menu: What `given` may be chosen from after looking, fixed beforehand: the level is
            shared among all choices.
        worst_share: Any cohorts that together have the least share must keep the budget together.
        link_budget, after: Largest tolerated share of the users who are linked by equal values, or
            equal parts of them, that many days after a visit; of those who come back. Without days:
            by any means, ever.
        search_users: Search among so many of the users, and confirm on all others: see
            `decide.confirming`. The question is taken to have been fixed before the users were
            seen.
        confirm_chains: How many chains of sets are tested on the others; null: `confirming.CHAINS`.
        components: Decide how coarse these must be shown, not which APIs may be read; they were
            fixed before the users were seen.
        visits: What counts as a value of a user: see `policy.Visits`. `auto`: last values, and one
            visit, too, where users came several times and all that is asked goes with it.
        design_share: Share of the users, in no order, from whom levels are designed; the others are
            tested.
        engine: What counts the groups: rows in memory, queries, or rows if they have room.
        union_with: Files of other decisions: what each recommends is tested together with what this
            one does, and the verdict noted.

    Raises:
        InputError: Options that cannot go together, or a setting or an engine that does not exist.
    """

    k: int
    budget: float
    population: int | None = None
    delta: float = 0.05
    missing: Missing = "value"
    sample: SampleModel = PLAIN_DRAWS
    candidates: Sequence[str] | None = None
    setting: Setting = "population"
    realised: bool = False
    fixed_question: bool = False
    must: Iterable[str] = ()
    never: Iterable[str] = ()
    assume: Iterable[str] = ()
    given: Sequence[str] = ()
    given_menu: Sequence[str] = ()
    budget_each: float | None = None
    least_share: float | None = None
    worst_share: bool = False
    link_budget: float | None = None
    after: Sequence[float] = ()
    visits: Visits | Literal["auto"] = "auto"
    weights: Mapping[str, float] | None = None
    search_users: int | None = None
    confirm_chains: int | None = None
    components: Sequence[Component] = ()
    design_share: float | None = None
    engine: Engine = "auto"
    union_with: Sequence[str | Path] = ()

    def __post_init__(self) -> None:
        for name, words in (
            ("engine", get_args(Engine)),
            ("setting", get_args(Setting)),
            ("visits", (*get_args(Visits), "auto")),
        ):
            if (word := getattr(self, name)) not in words:
                raise InputError(f"{name}: must be one of {', '.join(words)}, got {word!r}")
        for name, least in (("time_limit", 0), ("max_size", 0), ("max_sets", 1)):
            # `not`: not-a-number is no end either.
            if (most := getattr(self, name)) is not None and not most >= least:
                raise InputError(f"{name}: must be at least {least}, got {most}")
        # What is read of a frame is of numpy, which neither JSON nor the database takes.
        given = {each.name: own_number(getattr(self, each.name)) for each in fields(self)}
        if given["weights"]:
            given["weights"] = {api: own_number(each) for api, each in given["weights"].items()}
        for name, value in given.items():
            object.__setattr__(self, name, value)
        check_options(self._given)
        if self.search_users is not None:
            self.sample.check_plain_draws("search-users")
            if not self.sample.is_plain:
                raise InputError("search-users: is for users who all count", hint="omit --cluster")

    @property
    def _given(self) -> dict[str, Any]:
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**given, **dict.fromkeys(self.sample.options, True)}

    def goes_with(self, option: str) -> bool:
        """Whether an option, as the command line calls it, excludes nothing that is asked."""
        return _said(self._given).isdisjoint(_NOT_WITH[option])

    @property
    def question(self) -> Question:
        """What is asked of the users, whatever the API set."""
        exact = self.setting == "sample"
        given = tuple(self.given)
        return Question(
            self.k,
            self.population,
            self.delta,
            self.missing,
            self.sample,
            exact,
            given,
            "last" if self.visits == "auto" else self.visits,
            () if self.links is None else self.links.after,
        )

    @property
    def links(self) -> LinkBudget | None:
        """How many users may be linked; null where nothing is asked of it."""
        if self.link_budget is None:
            return None
        return LinkBudget(budget=self.link_budget, after=tuple(map(_days, self.after)))

    def cohorts(self, given: Sequence[str], menu: Sequence[str] = ()) -> CohortBudget | None:
        """Return what cohorts must keep, told by what the log calls what tells them.

        Raises:
            InputError: Nobody said what each may have, and four times the budget are all users.
        """
        if not given:
            return None
        budget = self.budget_each
        if budget is None:
            budget = _EACH * self.budget
            if budget >= 1:
                raise InputError(
                    f"--given: a cohort may have {_EACH} times the budget, which is no limit here",
                    hint="say what each may have: --budget-each SHARE, or a budget below 25 %",
                )
        least = _LEAST_SHARE if self.least_share is None else self.least_share
        return CohortBudget(
            given=tuple(given),
            budget=budget,
            least_share=least,
            worst_share=self.worst_share,
            menu=tuple(menu),
        )


def check_options(given: Mapping[str, Any], only_set: Collection[str] = ()) -> dict[str, Any]:
    """Check that options can go together.

    Args:
        given: Name -> value; one that is empty, or its word for the default, is not given.
        only_set: Those that the settings say for all commands: where they say how sets are
            searched, and cannot go with what was asked, they are passed over.

    Returns:
        dict: The options without those that are passed over.

    Raises:
        InputError: Two cannot go together, or one says nothing without another.
    """
    option, said = {name: _option(name) for name in given}, _said(given)
    free = {option[name] for name in only_set} & _HOW_SETS_ARE_SEARCHED
    for one, others in _NOT_WITH.items():
        for other in others:
            if {one, other} <= said:
                if not free & {one, other}:
                    hint = f"omit --{one} or --{other}"
                    raise InputError(f"--{one}: not with --{other}", hint=hint)
                # What was asked for a command goes before what the settings say for all.
                said.discard(one if one in free else other)
    for one, (other, why, then) in _ONLY_WITH.items():
        if one in said and other not in said:
            if one not in free:
                raise InputError(f"--{one}: {why}", hint=then)
            said.discard(one)
    # Last values exclude nothing, but handed on they keep `auto` from testing a visit, too.
    said |= {"unit"} if given.get("visits") == "last" else set()
    return {name: value for name, value in given.items() if option[name] in said}


def _option(name: str) -> str:
    return _OPTIONS.get(name, name.replace("_", "-"))


def _said(given: Mapping[str, Any]) -> set[str]:
    """Return the options that say something, as the command line calls them; last values none."""
    said = {_option(name) for name, value in given.items() if _is_said(name, value)}
    # These go by their word: `--setting sample` excludes what `--setting population` does not.
    said |= {f"{name} {given[name]}" for name in ("setting", "missing") if given.get(name)}
    return said - {"unit"} if given.get("visits") == "last" else said


def _days(days: Any) -> float:
    if isinstance(days, int | float):
        return days
    raise InputError(f"after: must be numbers of days, got {days!r}", hint="such as [7, 28]")


def _is_said(name: str, value: Any) -> bool:
    # 0 is said, while false, none and nothing are not.
    return type(value) in {int, float} or (bool(value) and value != _UNSAID.get(name))


def asking(
    question: Callable[P, Asked],
) -> Callable[[Callable[[Keeper, Asked], Answer]], Callable[Concatenate[Keeper, P], Answer]]:
    """Let a method of a question take the members of the question, typed and documented as such."""

    def of_members(
        method: Callable[[Keeper, Asked], Answer],
    ) -> Callable[Concatenate[Keeper, P], Answer]:
        @wraps(method)
        def wrapper(self: Keeper, /, *args: P.args, **members: P.kwargs) -> Answer:
            return method(self, question(*args, **members))

        itself, *_ = signature(method).parameters.values()
        members = signature(question).parameters.values()
        # So that `help()` and the reference show the members, and not `*args`.
        wrapper.__signature__ = Signature([itself, *members])  # type: ignore[attr-defined]
        return wrapper

    return of_members
