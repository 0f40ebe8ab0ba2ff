"""The decision about levels: a decision whose sets are of APIs at levels.

A set names the level of each component that is not withheld, as `screen=2`, and whoever sees it
sees all coarser ones.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, ClassVar, Literal, Self

import msgspec

from fpmonitor.decide.coherence import TooManyStepsError, contradiction
from fpmonitor.decide.decision import ApiSet, Decision, DesignPart, ProofSide
from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.policy import Drawn
from fpmonitor.population.levels import (
    Component,
    Vector,
    check_components,
    coarser,
    finest,
    level_words,
)
from fpmonitor.safe_files import typed, untyped

_NAME = "a decision about levels"
_MOST_VECTORS = 100_000
_LISTS = ("allow", "block", "undecided")
# Members as they stand in a file; those in the second tuple only where there is any.
_FIRST = ("components", "policy", "setting", "missing")
_THEN = ("users", "digest", "guarantee", *_LISTS, "recommended", "utility", "utility_bound")
_LAST = ("complete", "evaluated", "seconds", "view", "source")
_WHERE_ANY = (
    *("masked", "coverage", "account", "assumed", "must", "never", "cut", "wishes"),
    "users_possible",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelDecision(Decision):
    """Which levels of some components stay within the budget.

    Attributes:
        components: What is shown at levels: see `Component`; the candidates of the policy are their
            APIs.
        allow, block, undecided, recommended, must, never: As in `Decision`, of levels as
            `screen=2`; nothing at all is allowed where `allow` is empty.
        utility, utility_bound: By the utilities of the components.
        proof: As in `Decision`; its limits are by the sum of the levels above the lowest.
    """

    components: tuple[Component, ...]

    promised: ClassVar = "every level vector on the allow list, like every coarser one,"

    @classmethod
    def of(
        cls, begun: Decision, components: Iterable[Component], design: DesignPart | None = None
    ) -> Self:
        """Return a decision that has no answer yet as one about levels."""
        members = {each.name: getattr(begun, each.name) for each in fields(begun)}
        return cls(**(members | {"design": design}), components=tuple(components))

    @property
    def fixed(self) -> str:
        """What must have been fixed before the users were seen."""
        designed = ", how others are designed" if self.design else ""
        return f"this question, its levels{designed} and its view of the users"

    @property
    def chains(self) -> Vector:
        """Levels of each component above its lowest."""
        return tuple(component.most - component.least for component in self.components)

    @property
    def lowest(self) -> ApiSet:
        """What is shown in any case."""
        return level_words(self.components, tuple(each.least for each in self.components))

    @property
    def beyond(self) -> ApiSet:
        """What is shown in no case: the next finer level than each component has."""
        return tuple(
            f"{each.name}={each.most + 1}"
            for each in self.components
            if each.most < len(each.levels)
        )

    @property
    def wished(self) -> str:
        """What was asked beside the policy: levels, what they are worth, and which must be."""
        wishes = {"must": self.must, "never": self.never, "components": untyped(self.components)}
        return json.dumps(wishes, sort_keys=True)

    @property
    def utilities(self) -> Mapping[str, float]:
        """What each level adds to the utility of the next coarser one."""
        return {
            f"{component.name}={level}": component.utility[level] - component.utility[level - 1]
            for component in self.components
            for level in range(1, len(component.levels) + 1)
        }

    def closed(self, apis: Iterable[str]) -> frozenset[str]:
        """Return levels with all coarser ones."""
        return coarser(apis)

    def levels(self, apis: ApiSet) -> list[tuple[Component, int]]:
        """Return each component with its level in a set."""
        shown = self.shown(apis)
        return [(component, shown.get(component.name, 0)) for component in self.components]

    def shown(self, apis: ApiSet) -> dict[str, int]:
        """Level of each component that is not withheld."""
        level_names = {*coarser(apis)}
        levels = {
            component.name: sum(
                f"{component.name}={level}" in level_names
                for level in range(1, len(component.levels) + 1)
            )
            for component in self.components
        }
        return {name: level for name, level in levels.items() if level}

    def spelled(self, apis: ApiSet) -> ApiSet:
        """Return the levels of a set in the order of the components."""
        return tuple(f"{name}={level}" for name, level in self.shown(apis).items())

    def utility_of(self, apis: ApiSet) -> float:
        """Sum of the utilities of the levels of a set."""
        return sum(component.utility[level] for component, level in self.levels(apis))

    def recommended_levels(self) -> list[tuple[Component, int]]:
        """Return each component with its recommended level.

        Raises:
            InputError: No vector is allowed.
        """
        if not self.allow:
            raise InputError("no level vector is allowed", hint="a larger --budget")
        return self.levels(self.recommended)

    def finished(self) -> LevelDecision:
        """Return the decision with the finest level of each component in its lists."""
        found: dict[str, Any] = {
            name: tuple(sorted({*map(finest, getattr(self, name))}, key=self._vector))
            for name in _LISTS
        }
        utility = self.utility_of(self.recommended) if self.allow else 0.0
        withheld = math.fsum(component.utility[0] for component in self.components)
        bound = utility if self.complete else max((self.utility_bound or 0.0) + withheld, utility)
        recommended = finest(self.recommended)
        found |= {"recommended": recommended, "utility": utility, "utility_bound": bound}
        return replace(self, **found)

    def _vector(self, apis: ApiSet) -> Vector:
        return tuple(level for _, level in self.levels(apis))

    def word(self, name: str, level: int) -> str:
        """Name a level of a component.

        Raises:
            InputError: A component or a level that there is not.
        """
        known = {component.name: len(component.levels) for component in self.components}
        if name not in known:
            raise UnknownNameError("component", name, [*known])
        if not 0 <= level <= known[name]:
            raise InputError(f"{name}: levels are 0 to {known[name]}, got {level}")
        return f"{name}={level}"

    def named(self, apis: Iterable[str]) -> set[str]:
        """Read COMPONENT=LEVEL; return these levels with all coarser ones.

        Raises:
            InputError: An entry without a level, or as of `word`.
        """
        found = []
        for entry in apis:
            name, equals, level = entry.rpartition("=")
            if not equals or not re.fullmatch(r"\s*[0-9]{1,9}\s*", level):
                raise InputError(
                    f"{entry!r} names no level", hint="the decision is about levels: NAME=LEVEL"
                )
            found.append(self.word(name.strip(), int(level)))
        return {*coarser(found)}

    def uncovered(self) -> str | None:
        """Return levels that no list settles, as NAME=LEVEL; null where none are.

        Raises:
            TooManyStepsError: There are too many vectors to look at each.
        """
        ranges = [range(each.least, each.most + 1) for each in self.components]
        if math.prod(map(len, ranges)) > _MOST_VECTORS:
            raise TooManyStepsError
        must, never = {*self.must}, {*self.never}
        allowed = [*map(coarser, self.allow)]
        refused = [{*apis} for apis in (*self.block, *self.undecided)]
        for vector in product(*ranges):
            words = level_words(self.components, vector)
            shown = coarser(words)
            if must <= shown and never.isdisjoint(shown):
                settled = any(shown <= each for each in allowed)
                if not settled and not any(each <= shown for each in refused):
                    return ", ".join(self.spelled(words))
        return None

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each listed vector with its verdict, the recommended one first."""
        listed = [("recommended", (self.recommended,) if self.allow else ())]
        listed += [(word, getattr(self, word)) for word in _LISTS]
        return [
            {"verdict": word, **{each.name: level for each, level in self.levels(apis)}}
            for word, sets in listed
            for apis in sets
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the decision as it stands in a file; sets by the names of their components."""
        content: dict[str, Any] = untyped(self)
        content |= {name: [*map(self.shown, getattr(self, name))] for name in _LISTS}
        content["recommended"] = self.shown(self.recommended) if self.allow else None
        content["policy"] = untyped(self.policy.to_json())
        for component, entry in zip(self.components, content["components"], strict=True):
            entry["shows"] = component.shows
        drawn = {} if self.drawn is None else {"drawn": untyped(self.drawn)}
        unit = {} if self.unit == "user" else {"unit": self.unit}
        return {
            **{name: content[name] for name in _FIRST},
            **unit,
            **{name: content[name] for name in (*_THEN, *_LAST)},
            **{name: content[name] for name in _WHERE_ANY if content[name]},
            "names": content["names"],
            **({} if self.design is None else {"design": content["design"]}),
            **drawn,
            "proof": content["proof"],
        }

    @classmethod
    def from_json(cls, content: Any) -> LevelDecision:
        """Read what `to_json` gave; other members are passed over.

        Raises:
            InputError: Not a decision about levels: a member is missing, or of the wrong kind.
        """
        named = typed(content, _Listed, _NAME)
        if named.proof is not None and len(named.proof) != 2:
            raise InputError(f"not {_NAME}: `proof` lacks a side")
        drawn: dict[str, Any] = {}
        if named.drawn is not None:
            drawn = {
                "observed": named.drawn.observed,
                "binding_stratum": named.drawn.binding,
                "unobserved_share": named.drawn.unobserved,
            }
        empty = dict.fromkeys((*_LISTS, "recommended"), ())
        drawn |= {"masked": named.masked}
        known = {name: value for name, value in content.items() if name in _MEMBERS}
        bare = typed({**known, **empty, **drawn}, cls, _NAME)
        check_components(bare.components)
        for component, entry in zip(bare.components, content["components"], strict=True):
            if entry.get("shows", component.shows) != component.shows:
                raise InputError(f"not {_NAME}: `shows` is not what {component.name} shows")
        if any(component.designed for component in bare.components):
            raise InputError(f"not {_NAME}: a level is still to be designed")

        def words(levels: Mapping[str, int]) -> ApiSet:
            return finest(bare.word(name, level) for name, level in levels.items() if level)

        lists: dict[str, Any] = {name: tuple(map(words, getattr(named, name))) for name in _LISTS}
        decision = replace(bare, **lists, recommended=words(named.recommended or {}))
        closed = {name: [*map(coarser, sets)] for name, sets in lists.items()}
        if contradicted := contradiction(closed, coarser(decision.recommended)):
            raise InputError(f"not {_NAME}: {contradicted}", hint="decide again")
        return decision


_MEMBERS = {*_FIRST, *_THEN, *_LAST, *_WHERE_ANY, "unit", "names", "design", "proof"}


class _Listed(msgspec.Struct):
    """Vectors and tests as they stand in a file."""

    allow: tuple[dict[str, int], ...]
    block: tuple[dict[str, int], ...]
    undecided: tuple[dict[str, int], ...]
    recommended: dict[str, int] | None
    names: dict[str, str]
    proof: dict[Literal["allow", "block"], ProofSide] | None = None
    drawn: Drawn | None = None
    masked: tuple[str, ...] = ()
