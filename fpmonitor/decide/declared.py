"""Level vectors whose possible values were declared: exact limits beside the scores.

Which vectors these are follows from the components alone, and each has the same part of what exact
limits have of delta together: whatever is chosen after looking, all of their limits hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from fpmonitor.estimate.declared import Looked, declared_limits
from fpmonitor.policy import EXACT_PART
from fpmonitor.population.levels import level_words, levels_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fpmonitor.decide.decision import ApiSet, Decision, Verdict
    from fpmonitor.decide.search import Borders, Sought
    from fpmonitor.population.levels import Component, Vector
    from fpmonitor.spectrum import CountSpectrum, SpectrumSource

MOST_VALUES = 300  # of a vector: of more, scores say more
MOST_VECTORS = 255  # those of the fewest values


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredVectors:
    """Exact limits of the vectors of some components.

    Attributes:
        components, k, population, budget: The question.
        looked: What each vector has of delta.
        levels: By component those at which all users showed declared values: `LevelSource`.
        most: Largest number of values of a vector that is tested.
        vectors: How many have no more.
    """

    components: tuple[Component, ...]
    k: int
    population: int
    budget: float
    looked: Looked
    most: int
    vectors: int
    levels: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, decision: Decision) -> Self | None:
        """Return those of a question; null where it has none, or users are no plain draws."""
        policy, level = decision.policy, decision.tested_at
        conditions = policy.has_conditions or policy.by_visits or policy.realised
        plain = policy.sample.is_plain and not conditions and decision.missing != "exposed"
        if level is None or not plain or not decision.components:
            return None
        most, vectors = tested_values(decision.components)
        if not vectors:
            return None
        once = decision.design is not None
        return cls(
            components=decision.components,
            k=policy.k,
            population=policy.population,
            budget=policy.budget,
            looked=Looked.of(level * EXACT_PART / vectors, policy.sample.look, once=once),
            most=most,
            vectors=vectors,
        )

    def verdict(self, apis: Iterable[str], spectrum: CountSpectrum) -> Verdict | None:
        """Judge a vector by its exact limits; null where they do not tell."""
        support = self._support(levels_of(apis))
        if support is None or spectrum.support > support:
            return None
        lower, upper = declared_limits(
            spectrum,
            support,
            k=self.k,
            population=self.population,
            looked=self.looked,
            others=True,
        )
        if upper <= self.budget:
            return "allow"
        return "block" if lower > self.budget else None

    def _support(self, levels: Mapping[str, int]) -> int | None:
        support = 1
        for component in self.components:
            level = levels.get(component.name, 0)
            values = component.declared(level)
            if values is None or (level and level not in self.levels.get(component.name, ())):
                return None
            support *= values
        return support if 1 < support <= self.most else None

    def borders(self, source: SpectrumSource, sought: Sought, known: Borders) -> Borders:
        """Return what is known with what exact limits prove of the sets that are searched."""
        sets = [
            apis
            for vector in self._vectors(self.components)
            if self._support(levels_of(apis := level_words(self.components, vector)))
            and sought.allows({*sought.along(apis)})
        ]
        found: dict[Verdict | None, list[ApiSet]] = {"allow": [], "block": []}
        for apis, spectrum in zip(sets, source.spectra(sets), strict=True):
            # Searches hold sets with all coarser levels.
            closed = tuple(sorted(sought.along(apis)))
            found.setdefault(self.verdict(apis, spectrum), []).append(closed)
        return known.proving(found["allow"], found["block"], evaluated=len(sets))

    def _vectors(self, components: Sequence[Component], values: int = 1) -> Iterator[Vector]:
        if not components:
            yield ()
            return
        first, *rest = components
        for level in range(first.least, first.most + 1):
            more = first.declared(level)
            if more is not None and values * more <= self.most:
                yield from ((level, *others) for others in self._vectors(rest, values * more))

    def to_json(self) -> dict[str, Any]:
        """Tell what a stranger needs to find the verdicts again: all else is in the file."""
        delta, once = self.looked
        return {"delta": delta, "once": once, "vectors": self.vectors}


def tested_values(components: Iterable[Component]) -> tuple[int, int]:
    """Return the largest number of values of a vector that is tested, and how many have no more."""
    numbers = Counter([1])
    for component in components:
        more = Counter[int]()
        for level in range(component.least, component.most + 1):
            # Without an end it is out, whatever the other components show.
            declared = component.declared(level) or MOST_VALUES + 1
            for values, vectors in numbers.items():
                if values * declared <= MOST_VALUES:
                    more[values * declared] += vectors
        numbers = more
    del numbers[1]  # shows nothing
    most, total = 0, 0
    for values, vectors in sorted(numbers.items()):
        # All of one number of values or none: which are tested follows from components alone.
        if total + vectors > MOST_VECTORS:
            break
        most, total = values, total + vectors
    return most, total
