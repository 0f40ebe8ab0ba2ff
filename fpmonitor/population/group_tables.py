"""Groups by increasing keys, whose users change: in tables, and packed into little room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]
    _Flags = NDArray[np.bool_]

_SMALL = 4096  # users; groups of fewer are counted by their size
_LATE = 4  # times as many groups as there may be late ones
_SIZE_BITS = 3
_FAR, _FEW, _BYTE = (1 << 13) - 1, (1 << _SIZE_BITS) - 1, 255  # what stands for all that is larger
_GONE = 16  # times as many groups as there may be that nobody is in any more


class GroupTables:
    """Groups in a table, and late ones in another: it costs the length of one to put keys into it.

    Parameters
    ----------
    keys, sizes
        Of each group, the keys increasing, and its users, int64.
    """

    def __init__(self, keys: Numbers, sizes: Numbers) -> None:
        self._tables = [_Table.of(keys, sizes), _Table.empty()]
        self._small = _small_sizes(sizes)

    def change(self, keys: Numbers, changes: Numbers) -> None:
        """Take in changes of the users of keys, which increase; none is 0."""
        for table in self._tables:
            if len(table.keys):
                before, after, new = table.change(keys, changes)
                self._small += _small_sizes(after) - _small_sizes(before)
                keys, changes = keys[new], changes[new]
        if not keys.size:
            return
        self._small += _small_sizes(changes)
        held, late = self._tables
        late.join(keys, changes)
        if len(late.keys) > len(held.keys) // _LATE:
            held.join(late.keys, late.sizes)
            self._tables[1] = _Table.empty()

    @property
    def size(self) -> int:
        """Bytes, also of groups that nobody is in any more."""
        held = sum(table.keys.nbytes + table.sizes.nbytes for table in self._tables)
        return held + self._small.nbytes

    def spectrum(self) -> CountSpectrum:
        """Count spectrum of the groups."""
        sizes = np.concatenate([table.large_sizes() for table in self._tables])
        return _spectrum(self._small, sizes)

    def packed(self) -> PackedGroups:
        """Return the same groups in less room."""
        held, late = self._tables
        held.join(late.keys, late.sizes)
        self._tables[1] = _Table.empty()
        return PackedGroups(held.keys, held.sizes)


class PackedGroups:
    """Groups in little room.

    Keys increase, so that one is told by how far it is above the one before it: that and the users
    of the group take 16 bits where both are small, and larger ones stand apart.

    Parameters
    ----------
    keys, sizes
        As of `GroupTables`.
    """

    def __init__(self, keys: Numbers, sizes: Numbers) -> None:
        self._small = _Few.of(_small_sizes(sizes))
        few = np.minimum(sizes, _FEW).astype(np.uint16)
        self._pack(keys, few, sizes[np.flatnonzero(few == _FEW)])

    def packed(self) -> PackedGroups:
        """Return themselves."""
        return self

    def change(self, keys: Numbers, changes: Numbers) -> None:
        """Take in changes of the users of keys, which increase; none is 0."""
        held, few = self._keys(), self._codes & _FEW
        sizes = np.empty(len(held), dtype=np.int64)  # only where they are not few
        sizes[np.flatnonzero(few == _FEW)] = self._many()
        places = held.searchsorted(keys)
        new = held.take(places, mode="clip") != keys
        known = places[~new]
        before = few[known].astype(np.int64)
        many = np.flatnonzero(before == _FEW)
        before[many] = sizes[known[many]]
        after = sizes[known] = before + changes[~new]
        few[known] = np.minimum(after, _FEW)
        fresh, at = changes[new], places[new]
        small = self._small.counts() + _small_sizes(after) - _small_sizes(before)
        self._small = _Few.of(small + _small_sizes(fresh))
        larger = np.flatnonzero(few == _FEW)
        large = np.flatnonzero(fresh >= _FEW)
        users = np.insert(sizes[larger], larger.searchsorted(at[large]), fresh[large])
        if len(fresh):
            held = np.insert(held, at, keys[new])
            few = np.insert(few, at, np.minimum(fresh, _FEW))
        if len(few) - np.count_nonzero(few) > len(few) // _GONE:
            left = np.flatnonzero(few)
            held, few = held[left], few[left]
        self._pack(held, few, users)

    @property
    def size(self) -> int:
        """Bytes, also of groups that nobody is in any more."""
        arrays = (self._codes, self._far, self._bytes, self._most)
        return sum(array.nbytes for array in arrays) + self._small.size

    def spectrum(self) -> CountSpectrum:
        """Count spectrum of the groups."""
        return _spectrum(self._small.counts(), self._most[self._most >= _SMALL])

    def _pack(self, keys: Numbers, few: NDArray[np.integer[Any]], many: Numbers) -> None:
        """Hold keys, their users where they are few, and all that are not."""
        gaps = keys.copy()
        gaps[:1] += 1
        gaps[1:] -= keys[:-1]
        near = np.minimum(gaps, _FAR).astype(np.uint16)
        self._codes = near << _SIZE_BITS | few
        far = gaps[np.flatnonzero(near == _FAR)]
        self._far = far.astype(np.min_scalar_type(int(far.max(initial=0))))
        self._bytes, self._most = np.minimum(many, _BYTE).astype(np.uint8), many[many >= _BYTE]

    def _keys(self) -> Numbers:
        near = self._codes >> _SIZE_BITS
        keys = near.astype(np.int64)
        keys[np.flatnonzero(near == _FAR)] = self._far
        np.cumsum(keys, out=keys)
        keys -= 1
        return keys

    def _many(self) -> Numbers:
        """Users of each group that has not few."""
        many = self._bytes.astype(np.int64)
        many[np.flatnonzero(self._bytes == _BYTE)] = self._most
        return many


@dataclass(frozen=True, slots=True, eq=False)
class _Few:
    """How many groups have so few users, below `_SMALL`, in the places where that is not 0."""

    places: NDArray[np.uint16]
    numbers: NDArray[np.uint32]

    @classmethod
    def of(cls, counts: Numbers) -> _Few:
        """Hold the numbers of groups of 0, 1, 2, ... users."""
        places = np.flatnonzero(counts)
        return cls(places.astype(np.uint16), counts[places].astype(np.uint32))

    @property
    def size(self) -> int:
        """Bytes."""
        return self.places.nbytes + self.numbers.nbytes

    def counts(self) -> Numbers:
        """Return the numbers of groups of 0, 1, 2, ... users."""
        counts = np.zeros(_SMALL, dtype=np.int64)
        counts[self.places] = self.numbers
        return counts


@dataclass(slots=True, eq=False)
class _Table:
    """Keys in increasing order, the users of each, and where large groups stand or once stood."""

    keys: Numbers
    sizes: Numbers
    large: NDArray[np.intp]

    @classmethod
    def of(cls, keys: Numbers, sizes: Numbers) -> _Table:
        """Hold keys in increasing order."""
        return cls(keys, sizes, np.flatnonzero(sizes >= _SMALL))

    @classmethod
    def empty(cls) -> _Table:
        """Hold no keys."""
        return cls.of(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

    def change(self, keys: Numbers, changes: Numbers) -> tuple[Numbers, Numbers, _Flags]:
        """Change the users of keys: how many those had that are here, have now, and who is not."""
        places = self.keys.searchsorted(keys)
        new = self.keys.take(places, mode="clip") != keys
        known = ~new
        places = places[known]
        before = self.sizes[places]
        after = self.sizes[places] = before + changes[known]
        grown = places[(after >= _SMALL) & (before < _SMALL)]
        if grown.size:
            self.large = np.union1d(self.large, grown)
        return before, after, new

    def join(self, keys: Numbers, sizes: Numbers) -> None:
        """Take in other keys, in increasing order."""
        places = self.keys.searchsorted(keys)
        self.keys = np.insert(self.keys, places, keys)
        self.sizes = np.insert(self.sizes, places, sizes)
        self.large = np.flatnonzero(self.sizes >= _SMALL)

    def large_sizes(self) -> Numbers:
        """Users of each large group."""
        sizes = self.sizes[self.large]
        return sizes[sizes >= _SMALL]


def _small_sizes(sizes: Numbers) -> Numbers:
    """Count the groups of 1, 2, ... users below `_SMALL`, in the places of their sizes."""
    found = np.bincount(sizes[sizes < _SMALL], minlength=_SMALL)
    found[0] = 0
    return found


def _spectrum(small: Numbers, sizes: Numbers) -> CountSpectrum:
    """Count spectrum of groups: how many have 0, 1, 2, ... users, and the users of larger ones."""
    counts = np.flatnonzero(small)
    large, values = np.unique(sizes, return_counts=True)
    return CountSpectrum(np.concatenate([counts, large]), np.concatenate([small[counts], values]))
