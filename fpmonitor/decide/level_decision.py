"""The decision about levels: which vectors are allowed, which are blocked, and on what terms."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from fpmonitor.account import Kind
from fpmonitor.decide.coherence import TooManyStepsError, contradiction
from fpmonitor.decide.decision import (
    STOPPED_EARLY,
    Proof,
    ProofSide,
    Setting,
    Verdict,
)
from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.policy import PLAIN_DRAWS, Drawn, Policy
from fpmonitor.population.evidence import Lack
from fpmonitor.population.levels import Component, Vector, check_components, is_below
from fpmonitor.population.views import View
from fpmonitor.question import Missing
from fpmonitor.results import Result
from fpmonitor.safe_files import typed, untyped
from fpmonitor.unit import Unit


@dataclass(frozen=True, slots=True)
class DesignPart:
    """From whom levels were designed: the guarantee is of the other users' decision.

    Attributes
    ----------
    share, users
        Share of the users who were observed, and how many these are.
    tried
        Designs that were tested, from coarse to fine, until one failed.
    by
        What the draw of these users follows: their values; in files of before the order of rows.
    """

    share: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    users: int
    tried: int
    by: Literal["values", "rows"] = "rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelDecision(Result):
    """Which level vectors stay within the budget.

    A vector has a level for each component, in their order; 0 is withheld.

    Attributes
    ----------
    components
        What is shown at levels: see `Component`.
    allow, block, undecided
        Maximal allowed vectors, with all that are coarser; minimal blocked ones, with all that are
        finer; minimal ones that are neither. If `complete`, these are all.
    recommended
        The allowed vector of the greatest utility; null where none is allowed.
    utility, utility_bound
        Of `recommended`, and one that no allowed vector exceeds.
    complete
        Whether both borders are known.
    evaluated
        Number of vectors whose exposure was computed.
    design
        From whom levels were designed; null where none were.
    drawn
        How many users count where not all that were observed do; null where all do.
    policy, setting, missing, users, digest, guarantee, seconds, view, source, masked, coverage,
    account
        As in `Decision`.
    assumed
        As in `Decision`; a decision about levels is about no other APIs without evidence.
    names, proof
        As in `Decision`; the limits of the proof are by the sum of the levels above the lowest.
    """

    components: tuple[Component, ...]
    policy: Policy
    setting: Setting
    missing: Missing
    unit: Unit = "user"
    users: int
    digest: str
    guarantee: str
    allow: tuple[Vector, ...]
    block: tuple[Vector, ...]
    undecided: tuple[Vector, ...]
    recommended: Vector | None
    utility: float
    utility_bound: float
    complete: bool
    evaluated: int
    seconds: float
    view: View = field(default_factory=View)
    source: str | None = None
    masked: tuple[str, ...] = ()
    coverage: Mapping[str, float | None] | None = None
    account: Mapping[Kind, int] = field(default_factory=dict)
    assumed: Mapping[str, Lack] = field(default_factory=dict)
    names: Mapping[str, str]
    design: DesignPart | None = None
    drawn: Drawn | None = None
    proof: Proof | None = None

    # What the words of a guarantee ask of a decision: the question was fixed with the levels.
    promised = "every level vector on the allow list, like every coarser one,"
    registered = False
    universe = None
    first_names = None
    asked_before = 0
    confirmation = None
    no_evidence: ClassVar[Mapping[str, Lack]] = {}

    @property
    def fixed(self) -> str:
        """What must have been fixed before the users were seen."""
        designed = ", how others are designed" if self.design else ""
        return f"this question, its levels{designed} and its view of the users"

    @property
    def unlisted(self) -> str:
        """Say why the lists may not hold all vectors; the empty string where they do."""
        return "" if self.complete else STOPPED_EARLY

    @property
    def observed(self) -> int:
        """Users who were observed, with those from whom levels were designed or who were left."""
        if self.drawn is not None:
            return self.drawn.observed
        return self.users + (0 if self.design is None else self.design.users)

    def shown(self, vector: Vector) -> dict[str, int]:
        """Level of each component that is not withheld."""
        pairs = zip(self.components, vector, strict=True)
        return {component.name: level for component, level in pairs if level}

    def utility_of(self, vector: Vector) -> float:
        """Sum of the utilities of the levels of a vector."""
        chosen = zip(self.components, vector, strict=True)
        return sum(component.utility[level] for component, level in chosen)

    def recommended_levels(self) -> list[tuple[Component, int]]:
        """Return each component with its recommended level.

        Raises
        ------
        InputError
            No vector is allowed.
        """
        if self.recommended is None:
            raise InputError("no level vector is allowed", hint="a larger --budget")
        return list(zip(self.components, self.recommended, strict=True))

    def vector(self, levels: Mapping[str, int]) -> Vector:
        """Return the vector of some components at levels, and all others withheld.

        Raises
        ------
        InputError
            A component or a level that there is not.
        """
        names = [component.name for component in self.components]
        for name, level in levels.items():
            if name not in names:
                raise UnknownNameError("component", name, names)
            most = len(self.components[names.index(name)].levels)
            if not 0 <= level <= most:
                raise InputError(f"{name}: levels are 0 to {most}, got {level}")
        return tuple(levels.get(name, 0) for name in names)

    def vector_of(self, entries: Iterable[str]) -> Vector:
        """Read COMPONENT=LEVEL; of a component that is named twice the finer level.

        Raises
        ------
        InputError
            An entry without a level, or as of `vector`.
        """
        levels: dict[str, int] = {}
        for entry in entries:
            name, equals, level = entry.rpartition("=")
            if not equals or not re.fullmatch(r"\s*[0-9]{1,9}\s*", level):
                raise InputError(
                    f"{entry!r} names no level", hint="the decision is about levels: NAME=LEVEL"
                )
            levels[name.strip()] = max(int(level), levels.get(name.strip(), 0))
        return self.vector(levels)

    def check_same(self, **asked: object) -> None:
        """Check that the decision answers what is asked, by members of the decision.

        Raises
        ------
        InputError
            It does not; the message names what differs.
        """
        differing = [name for name, now in asked.items() if getattr(self, name) != now]
        if differing:
            raise InputError(
                f"resume: the decision file differs in {', '.join(differing)}",
                hint="only the same question on the same data can be resumed",
            )

    def verdict(self, vector: Vector) -> Verdict:
        """Verdict on showing the components at some levels; `unknown` after a search cut short."""
        if any(is_below(vector, allowed) for allowed in self.allow):
            return "allow"
        if any(is_below(blocked, vector) for blocked in self.block):
            return "block"
        if self.complete or any(is_below(open_one, vector) for open_one in self.undecided):
            return "undecided"
        return "unknown"

    def uncovered(self) -> str | None:
        """Return a level vector that no list settles, as NAME=LEVEL; null where none is.

        Raises
        ------
        TooManyStepsError
            There are too many vectors to look at each.
        """
        ranges = [range(each.least, each.most + 1) for each in self.components]
        if math.prod(map(len, ranges)) > _MOST_VECTORS:
            raise TooManyStepsError
        refused = (*self.block, *self.undecided)
        for vector in product(*ranges):
            settled = any(is_below(vector, allowed) for allowed in self.allow)
            if not settled and not any(is_below(each, vector) for each in refused):
                return ", ".join(f"{name}={level}" for name, level in self.shown(vector).items())
        return None

    def answer(
        self, vector: Vector, judge: Callable[[Vector], Verdict] | None = None
    ) -> dict[str, Any]:
        """Return what a gate answers: the verdict, the listed vector that settles it, and why.

        A vector that is unknown is asked of `judge`, where there is one.
        """
        verdict = self.verdict(vector)
        settling = {
            "allow": [each for each in self.allow if is_below(vector, each)],
            "block": [each for each in self.block if is_below(each, vector)],
            "undecided": [each for each in self.undecided if is_below(each, vector)],
            "unknown": [],
        }[verdict]
        because = settling[0] if settling else vector
        budget = f"{100 * self.policy.budget:.6g} %"
        reason = {
            "allow": "at most as fine as an allowed vector",
            "block": f"at least as fine as a vector that exposes more than {budget} of the users",
            "undecided": f"{self.users:,} users do not tell whether it exposes more than {budget}",
            "unknown": "the search was stopped before it came to this vector",
        }[verdict]
        if verdict == "unknown" and judge is not None:
            verdict, reason = judge(vector), "found out now"
        return {"verdict": verdict, "because": self.shown(because), "reason": reason}

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each listed vector with its verdict, the recommended one first."""
        recommended = () if self.recommended is None else (self.recommended,)
        listed = (
            ("recommended", recommended),
            *((word, getattr(self, word)) for word in ("allow", "block", "undecided")),
        )
        names = [component.name for component in self.components]
        return [
            {"verdict": word, **dict(zip(names, vector, strict=True))}
            for word, vectors in listed
            for vector in vectors
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the decision as the CLI prints it; vectors by the names of their components."""
        content: dict[str, Any] = untyped(self)
        for name in ("allow", "block", "undecided"):
            content[name] = [self.shown(vector) for vector in getattr(self, name)]
        content["recommended"] = None if self.recommended is None else self.shown(self.recommended)
        for name in ("design", "drawn", "coverage", "account", "masked", "assumed"):
            if not content[name]:
                del content[name]
        if self.unit == "user":
            del content["unit"]
        content["policy"]["sample"] = self.policy.sample.to_json()
        if self.policy.sample == PLAIN_DRAWS:
            del content["policy"]["sample"]
        for component, told in zip(self.components, content["components"], strict=True):
            told["shows"] = [component.words(level) for level in range(len(component.levels) + 1)]
        return content

    @classmethod
    def from_json(cls, content: Any) -> LevelDecision:
        """Read what `to_json` gave; other members are passed over.

        Raises
        ------
        InputError
            Not a decision about levels: a member is missing, or of the wrong kind.
        """
        named = typed(content, _Listed, _NAME)
        bare = typed(
            content | dict.fromkeys(("allow", "block", "undecided"), ()) | {"recommended": None},
            cls,
            _NAME,
        )
        check_components(bare.components)
        if any(component.designed for component in bare.components):
            raise InputError(f"not {_NAME}: a level is still to be designed")
        if named.proof is not None and len(named.proof) != 2:
            raise InputError(f"not {_NAME}: `proof` lacks a side")
        recommended = named.recommended
        decision = replace(
            bare,
            allow=tuple(map(bare.vector, named.allow)),
            block=tuple(map(bare.vector, named.block)),
            undecided=tuple(map(bare.vector, named.undecided)),
            recommended=None if recommended is None else bare.vector(recommended),
        )
        contradicted = contradiction(
            {
                name: [*map(_all_shown, getattr(decision, name))]
                for name in ("allow", "block", "undecided")
            },
            _all_shown(decision.recommended or ()),
        )
        if contradicted:
            raise InputError(f"not {_NAME}: {contradicted}", hint="decide again")
        return decision


_NAME = "a decision about levels"
_MOST_VECTORS = 100_000


def _all_shown(vector: Vector) -> frozenset[tuple[int, int]]:
    """Each component's levels up to that of a vector: so one vector is within another."""
    return frozenset(
        (component, level)
        for component, finest in enumerate(vector)
        for level in range(1, finest + 1)
    )


class _Listed(msgspec.Struct):
    """Vectors and tests as they stand in a file."""

    allow: tuple[dict[str, int], ...]
    block: tuple[dict[str, int], ...]
    undecided: tuple[dict[str, int], ...]
    recommended: dict[str, int] | None
    proof: dict[Literal["allow", "block"], ProofSide] | None = None
