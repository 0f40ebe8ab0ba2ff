"""Whether the lists of a decision agree with each other: what no data are needed to see."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

# Steps of `uncovered`, about 30 µs each: lists of 12 candidates take some hundreds.
_MOST_STEPS = 100_000
_DEEPEST = 800  # calls within each other, of which Python allows 1,000


class TooManyStepsError(Exception):
    """The lists are too long to be compared."""


class SetList:
    """Sets that are compared with many others: for each element those that hold it, as bits.

    5,000 sets beside 500 then take 5 ms, one by one 500.
    """

    def __init__(self, sets: Iterable[Iterable[Hashable]]) -> None:
        self._holding: dict[Hashable, int] = {}
        self._all = 0
        for place, elements in enumerate(sets):
            self._all |= 1 << place
            for element in elements:
                self._holding[element] = self._holding.get(element, 0) | 1 << place

    def has_over(self, elements: Iterable[Hashable]) -> bool:
        """Whether one of the sets holds all of these elements."""
        found = self._all
        for element in elements:
            found &= self._holding.get(element, 0)
        return found != 0

    def has_within(self, elements: AbstractSet[Hashable]) -> bool:
        """Whether one of the sets holds none but these elements."""
        found = self._all
        for element, sets in self._holding.items():
            if element not in elements:
                found &= ~sets
        return found != 0


def contradiction(
    lists: Mapping[str, Sequence[AbstractSet[Hashable]]], recommended: AbstractSet[Hashable]
) -> str | None:
    """Return what in the lists of a decision contradicts the rest, in words; null for nothing.

    Args:
        lists: `allow`, `block` and `undecided`: what a site reads, for level vectors each level
            with all coarser ones of its component.
        recommended: As the sets of the lists.
    """
    allowed = SetList(lists["allow"])
    if recommended and not allowed.has_over(recommended):
        return "`recommended` is within no set of `allow`"
    for name in ("block", "undecided"):
        for refused in lists[name]:
            if not refused:
                return f"`{name}` holds the empty set"
            if allowed.has_over(refused):
                return f"a set of `allow` holds one of `{name}`"
    return None


def uncovered(
    elements: Iterable[str],
    allowed: Iterable[Iterable[str]],
    refused: Iterable[Iterable[str]],
    most_steps: int | None = None,
) -> set[str] | None:
    """Return a set that holds no refused one and is within no allowed one; null where none is.

    Fredman and Khachiyan 1996, "On the complexity of dualization of monotone disjunctive normal
    forms", algorithm A: each step divides by an element that many of the smallest sets hold.
    """
    places = {element: place for place, element in enumerate(dict.fromkeys(elements))}
    names = list(places)
    search = _Search(len(names), _MOST_STEPS if most_steps is None else most_steps)
    found = search.uncovered(
        (1 << len(names)) - 1,
        [_mask(apis, places) for apis in allowed],
        [_mask(apis, places) for apis in refused],
    )
    return None if found is None else {name for name in names if found >> places[name] & 1}


def _mask(apis: Iterable[str], places: Mapping[str, int]) -> int:
    return sum({1 << places[api] for api in apis})


class _Search:
    def __init__(self, elements: int, most_steps: int) -> None:
        self._all, self.steps, self.most_steps = elements, 0, most_steps

    def uncovered(self, left: int, allowed: list[int], refused: list[int]) -> int | None:
        """Return a set of the elements that are `left`, bits of a number; lists hold no others."""
        self.steps += 1
        # Each call within another leaves one element fewer.
        if self.steps > self.most_steps or self._all - left.bit_count() > _DEEPEST:
            raise TooManyStepsError
        refused = _minimal(refused)
        lacking = _minimal([left & ~apis for apis in allowed])
        if refused[:1] == [0]:
            return None
        if not refused:
            return None if lacking[:1] == [0] else left
        if not lacking:
            return 0
        if lacking[0] == 0:
            return None
        chosen = _commonest([*refused, *lacking])
        rest = left & ~chosen
        without = self.uncovered(
            rest,
            [rest & ~lacks for lacks in lacking],
            [apis for apis in refused if not apis & chosen],
        )
        if without is not None:
            return without
        found = self.uncovered(
            rest,
            [rest & ~lacks for lacks in lacking if not lacks & chosen],
            [apis & rest for apis in refused],
        )
        return None if found is None else found | chosen


def _minimal(sets: Iterable[int]) -> list[int]:
    """Return the sets that hold no other one, the smallest first."""
    found: list[int] = []
    # None holds another of its size: 1,000 pairs of APIs took 24 s, compared with each other.
    for _, alike in groupby(sorted(set(sets), key=int.bit_count), key=int.bit_count):
        found += [apis for apis in alike if not any(least & apis == least for least in found)]
    return found


def _commonest(sets: Sequence[int]) -> int:
    """Return the bit that most of the smallest sets hold."""
    least = min(apis.bit_count() for apis in sets)
    counts: Counter[int] = Counter()
    for apis in sets:
        if apis.bit_count() <= least + 1:
            bits = apis
            while bits:
                bit = bits & -bits
                counts[bit] += 1
                bits ^= bit
    # By the bit as well: the same lists name the same set.
    return max(counts, key=lambda bit: (counts[bit], bit))
