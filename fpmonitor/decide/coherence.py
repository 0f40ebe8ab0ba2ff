"""Families of sets, and whether the lists of a decision agree: what no data are needed to see."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import chain, groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

# Steps of `uncovered`, about 30 µs each: lists of 12 candidates take some hundreds.
_MOST_STEPS = 100_000
_DEEPEST = 800  # calls within each other, of which Python allows 1,000
# Of all masks of the sets of lists: those of 25 candidates, searched to the end, have a tenth.
_MOST_BITS = 3_000_000_000


class TooManyStepsError(Exception):
    """The lists are too long to be compared."""


class Names:
    """Sets of names as bit masks, of all names that some of them hold."""

    def __init__(self, *lists: Iterable[Collection[str]]) -> None:
        self.of_columns = sorted({*chain(*chain(*lists))})
        self._columns = {name: column for column, name in enumerate(self.of_columns)}

    def mask(self, members: Collection[str]) -> int:
        """Bit mask of a set."""
        # A file may hold a name twice in one set, whose bits would add up to that of another name.
        return mask({self._columns[name] for name in members})

    def family(self, sets: Iterable[Collection[str]]) -> Family:
        """Return sets as a family; of equal ones all but the first are left out."""
        return Family(len(self.of_columns), dict.fromkeys(map(self.mask, sets)))

    def sets(self, masks: Iterable[int]) -> list[tuple[str, ...]]:
        """Return the sets of some masks, sorted."""
        return sorted(tuple(map(self.of_columns.__getitem__, positions(one))) for one in masks)


class Family:
    """A growing family of sets of columns, held as bit masks, that answers containment fast.

    For each column one whole number tells by its bits which of the sets hold that column; a
    question is then a few logical operations, whatever the number of sets: 5,000 sets beside 500
    take 5 ms, one by one 500.
    """

    def __init__(self, columns: int, sets: Iterable[int] = ()) -> None:
        self.sets: list[int] = []
        self._holders = [0] * columns
        self._columns = (1 << columns) - 1
        for members in sets:
            self.add(members)

    def add(self, members: int) -> None:
        """Add one set."""
        bit = 1 << len(self.sets)
        self.sets.append(members)
        for column in positions(members):
            self._holders[column] |= bit

    def has_superset(self, members: int) -> bool:
        """Whether some set of the family contains `members`."""
        return self._covering(members) != 0

    def extended(self, members: int, columns: int) -> int:
        """Those of `columns` with which `members` is still within some set."""
        covering, found = self._covering(members), 0
        for column in positions(columns):
            if covering & self._holders[column]:
                found |= 1 << column
        return found

    def _covering(self, members: int) -> int:
        covering = (1 << len(self.sets)) - 1
        for column in positions(members):
            covering &= self._holders[column]
        return covering

    def has_subset(self, members: int) -> bool:
        """Whether `members` contains some set of the family."""
        return self._beyond(members) != (1 << len(self.sets)) - 1

    def completed(self, members: int, columns: int) -> int:
        """Those of `columns` that make `members`, which contains no set, contain one."""
        # Sets that two columns would have to complete, or one from outside, are completed by none.
        once, twice, found = 0, self._beyond(members | columns), 0
        for column in positions(columns):
            twice |= once & self._holders[column]
            once |= self._holders[column]
        for column in positions(columns):
            if self._holders[column] & ~twice:
                found |= 1 << column
        return found

    def _beyond(self, members: int) -> int:
        """Find the sets of the family that hold a column outside `members`."""
        beyond = 0
        for column in positions(self._columns & ~members):
            beyond |= self._holders[column]
        return beyond

    def maximal(self) -> list[int]:
        """List the sets that are within no other one."""
        maximal_sets = Family(len(self._holders))
        for members in sorted(self.sets, key=int.bit_count, reverse=True):
            if not maximal_sets.has_superset(members):
                maximal_sets.add(members)
        return maximal_sets.sets

    def minimal(self) -> list[int]:
        """List the sets that contain no other one."""
        minimal_sets = Family(len(self._holders))
        for members in sorted(self.sets, key=int.bit_count):
            if not minimal_sets.has_subset(members):
                minimal_sets.add(members)
        return minimal_sets.sets


@lru_cache(maxsize=1 << 16)
def positions(members: int) -> tuple[int, ...]:
    """Columns of a bit mask, in increasing order."""
    columns = []
    while members:
        lowest = members & -members
        columns.append(lowest.bit_length() - 1)
        members ^= lowest
    return tuple(columns)


def mask(columns: Iterable[int]) -> int:
    """Bit mask of some columns, each given once."""
    return sum(map((1).__lshift__, columns))


def contradiction(
    lists: Mapping[str, Sequence[Collection[str]]], recommended: Collection[str]
) -> str | None:
    """Return what in the lists of a decision contradicts the rest, in words; null for nothing.

    Args:
        lists: `allow`, `block` and `undecided`: what a site reads, for level vectors each level
            with all coarser ones of its component.
        recommended: As the sets of the lists.
    """
    names = Names(*lists.values(), [recommended])
    # 300,000 names in a set each, a file of 6 MB, would take all of the memory.
    if sum(map(len, chain(*lists.values()))) * len(names.of_columns) > _MOST_BITS:
        return "its lists are too long to be compared"
    allowed = names.family(lists["allow"])
    if recommended and not allowed.has_superset(names.mask(recommended)):
        return "`recommended` is within no set of `allow`"
    for name in ("block", "undecided"):
        for refused in lists[name]:
            if not refused:
                return f"`{name}` holds the empty set"
            if allowed.has_superset(names.mask(refused)):
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
        *([mask({places[api] for api in apis}) for apis in sets] for sets in (allowed, refused)),
    )
    return None if found is None else {name for name in names if found >> places[name] & 1}


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
