"""The sets that a decision is about: of APIs, or of the levels that components are shown at.

An API set is the case of one level, which nothing comes along with. Of components a set names the
level of each that is not withheld, as `screen=2`, and whoever sees it sees all coarser ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.population.levels import Component, Vector, coarser, finest, level_words, levels_of

ApiSet = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lattice:
    """What brings what along, and what it is worth.

    Attributes:
        components: What is shown at levels; empty where sets are of APIs as they are.
        weights: Utility of each API, 1 where not named; of levels their components say it.
    """

    components: tuple[Component, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def chains(self) -> Vector | None:
        """Levels of each component above its lowest; null where sets have none."""
        return tuple(each.most - each.least for each in self.components) or None

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
    def utilities(self) -> Mapping[str, float]:
        """What each member of a set adds to its utility, 1 where not named."""
        # Steps from level to level: with all coarser ones they add up to the utility of the level.
        return {**self.weights} | {
            f"{component.name}={level}": component.utility[level] - component.utility[level - 1]
            for component in self.components
            for level in range(1, len(component.levels) + 1)
        }

    @property
    def withheld(self) -> float:
        """Utility of the components where all of them are withheld."""
        return math.fsum(component.utility[0] for component in self.components)

    def closed(self, apis: Iterable[str]) -> frozenset[str]:
        """Return a set with all that whoever reads it has read, too."""
        return coarser(apis) if self.components else frozenset(apis)

    def finest(self, apis: Iterable[str]) -> ApiSet:
        """Return a set without what comes along, sorted."""
        return finest(apis) if self.components else tuple(sorted({*apis}))

    def listed(self, sets: Iterable[ApiSet]) -> tuple[ApiSet, ...]:
        """Return sets as a decision lists them, in its order."""
        # By levels, not by their words: "screen=10" would come before "screen=2".
        return tuple(sorted({*map(self.finest, sets)}, key=self._place))

    def _place(self, apis: ApiSet) -> tuple[Any, ...]:
        return tuple(level for _, level in self.levels(apis)) or apis

    def levels(self, apis: ApiSet) -> list[tuple[Component, int]]:
        """Return each component with its level in a set."""
        if not self.components:
            return []
        found = levels_of(apis)
        return [(component, found.get(component.name, 0)) for component in self.components]

    def told(self, apis: ApiSet) -> Any:
        """Return a listed set as files and gates tell it: names, or the level of each component."""
        if not self.components:
            return list(apis)
        return {component.name: level for component, level in self.levels(apis) if level}

    def read(self, levels: Mapping[str, int]) -> ApiSet:
        """Read the level of each component as `told` gave it."""
        return finest(self.level(name, level) for name, level in levels.items() if level)

    def spelled(self, apis: ApiSet) -> ApiSet:
        """Return the names of a listed set in the order in which they are read."""
        return tuple(f"{each.name}={level}" for each, level in self.levels(apis) if level) or apis

    def utility_of(self, apis: ApiSet) -> float:
        """Sum of the utilities of the members of a set."""
        if self.components:
            return sum(component.utility[level] for component, level in self.levels(apis))
        return math.fsum(self.weights.get(api, 1.0) for api in apis)

    def level(self, name: str, level: int) -> str:
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
            InputError: An entry without a level.
        """
        found = []
        for entry in apis:
            name, equals, level = entry.rpartition("=")
            # `int` takes more than digits, and a text of 5,000 of them ends in its own error.
            if not equals or not re.fullmatch(r"\s*[0-9]{1,9}\s*", level):
                raise InputError(
                    f"{entry!r} names no level", hint="the decision is about levels: NAME=LEVEL"
                )
            found.append(self.level(name.strip(), int(level)))
        return {*coarser(found)}
