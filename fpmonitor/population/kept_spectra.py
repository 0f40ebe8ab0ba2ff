"""Count spectra of some API sets that follow the users: only rows that changed are counted anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fpmonitor.errors import InputError
from fpmonitor.population.memory import run_starts, sort_numbers
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    Codes = NDArray[np.integer[Any]]
    _Numbers = NDArray[np.int64]
    _Flags = NDArray[np.bool_]
    _Rows = Sequence[_Numbers]

_KEY_BITS = 62  # one more says whether a row came or went
_RANK_BITS = 31
_SMALL = 4096  # users; groups of fewer are counted by their size
_LATE = 4  # times as many groups as there may be late ones
_CHANGED = 0.25  # share of the rows, from which on all are counted anew


class KeptSpectra:
    """Count spectra of some API sets, exact, while the users change.

    Rows are compared by their position, so that few differ where users keep theirs; whatever the
    order is, the spectra are those of the rows of now.

    Parameters
    ----------
    most
        Groups that are kept, of all sets together, 16 bytes each; other sets are counted each time.
    beside
        Kept spectra whose groups count among them.

    Attributes
    ----------
    columns
        API -> codes, as they were followed last.
    number
        Groups that are kept.
    """

    def __init__(self, most: int = 1 << 26, *, beside: KeptSpectra | None = None) -> None:
        self._most, self._beside, self.number = most, beside, 0
        self.columns: Mapping[str, Codes] = {}
        self._groups: dict[tuple[str, ...], _Groups] = {}

    def follow(
        self, columns: Mapping[str, Codes], sets: Iterable[tuple[str, ...]]
    ) -> dict[tuple[str, ...], CountSpectrum]:
        """Return the count spectra of some sets, which are kept from now on, and no others.

        Parameters
        ----------
        columns
            API -> code of each user, from 0 to 2^31 - 1, which stands for the same value in every
            call.
        sets
            Not empty, of APIs among them.

        Raises
        ------
        InputError
            A code is too large.
        """
        changed = self._changed(columns)
        self.columns = dict(columns)
        before, self._groups = self._groups, {}
        found = dict[tuple[str, ...], CountSpectrum]()
        most = self._most - (0 if self._beside is None else self._beside.number)
        self.number = 0
        for apis in sets:
            groups = before.get(apis)
            if groups is None or changed is None or not groups.change(changed, apis):
                groups = _Groups([columns[api] for api in apis])
            found[apis] = groups.spectrum()
            if self.number + groups.number <= most:
                self.number += groups.number
                self._groups[apis] = groups
        return found

    def _changed(self, columns: Mapping[str, Codes]) -> _Changed | None:
        """Find the rows that went and those that came; None where they are too many."""
        if not self.columns or self.columns.keys() != columns.keys():
            return None
        lengths = [len(next(iter(held.values()))) for held in (self.columns, columns)]
        shared = min(lengths)
        differ, other = np.zeros((2, shared), dtype=np.bool_)
        for api, codes in columns.items():
            np.not_equal(codes[:shared], self.columns[api][:shared], out=other)
            differ |= other
        went, came = (
            np.concatenate([np.flatnonzero(differ), np.arange(shared, length)])
            for length in lengths
        )
        if len(went) + len(came) > _CHANGED * max(lengths):
            return None
        rows = {
            api: np.concatenate([self.columns[api][went], codes[came]]).astype(np.int64)
            for api, codes in columns.items()
        }
        bits = {api: int(codes.max(initial=0)).bit_length() for api, codes in rows.items()}
        return _Changed(rows, bits, np.repeat(np.array([0, 1]), [len(went), len(came)]))


@dataclass(frozen=True, slots=True, eq=False)
class _Changed:
    """Rows that went (0 in `came`) and that came (1): API -> codes, and bits of the largest."""

    rows: Mapping[str, _Numbers]
    bits: Mapping[str, int]
    came: _Numbers


class _Groups:
    """The groups of one set, by exact keys that have room for twice as large codes if it is there.

    A key has the codes side by side. Where they have no room in one number, those of the first
    columns are replaced by a rank, which a group keeps. Groups of late wait in a table of their
    own, as it costs the length of a table to put keys into it.
    """

    def __init__(self, columns: Sequence[Codes]) -> None:
        largest = [int(codes.max()).bit_length() for codes in columns]
        if max(largest) > _RANK_BITS:
            raise InputError("kept spectra: codes must be below 2^31")
        # Ranks cost more than to count anew when a code has outgrown its place.
        spare = int(not sum(largest) <= _KEY_BITS < sum(largest) + len(largest))
        self._widths = [min(bits + spare, _RANK_BITS) for bits in largest]
        self._ranks: list[_Ranks] = []
        keys = self._keys_of(columns)
        sort_numbers(keys)
        starts = run_starts(keys)
        sizes = np.diff(starts, append=len(keys)).astype(np.int64)
        self._tables = [_Table.of(keys[starts], sizes), _Table.empty()]
        self._small = _small_sizes(sizes)

    def change(self, changed: _Changed, apis: Sequence[str]) -> bool:
        """Take in rows that changed; false where a code is too large for the keys."""
        if any(changed.bits[api] > width for api, width in zip(apis, self._widths, strict=True)):
            return False
        if not changed.came.size:
            return True
        packed = self._keys_of([changed.rows[api] for api in apis]) << 1 | changed.came
        sort_numbers(packed)
        keys, signs = packed >> 1, 2 * (packed & 1) - 1
        starts = run_starts(keys)
        changes = np.add.reduceat(signs, starts)
        differing = np.flatnonzero(changes)
        keys, changes = keys[starts[differing]], changes[differing]
        for table in self._tables:
            if len(table.keys):
                before, after, new = table.change(keys, changes)
                self._small += _small_sizes(after) - _small_sizes(before)
                keys, changes = keys[new], changes[new]
        if not keys.size:
            return True
        self._small += _small_sizes(changes)
        held, late = self._tables
        late.join(keys, changes)
        if len(late.keys) > len(held.keys) // _LATE:
            held.join(late.keys, late.sizes)
            self._tables[1] = _Table.empty()
        return True

    def _keys_of(self, rows: Sequence[Codes]) -> _Numbers:
        keys = np.zeros(len(rows[0]), dtype=np.int64)
        ranked, room = 0, _KEY_BITS
        for codes, width in zip(rows, self._widths, strict=True):
            if width > room:
                if ranked == len(self._ranks):
                    self._ranks.append(_Ranks(keys))
                keys, room = self._ranks[ranked].of(keys), _KEY_BITS - _RANK_BITS
                ranked += 1
            keys <<= width
            keys |= codes.astype(np.int64, copy=False)
            room -= width
        return keys

    @property
    def number(self) -> int:
        """Groups, also those that nobody is in any more, and ranks."""
        ranks = sum(len(ranks.keys) for ranks in self._ranks)
        return ranks + sum(len(table.keys) for table in self._tables)

    def spectrum(self) -> CountSpectrum:
        """Count spectrum of the groups."""
        counts = np.flatnonzero(self._small)
        sizes = np.concatenate([table.large_sizes() for table in self._tables])
        large, values = np.unique(sizes, return_counts=True)
        return CountSpectrum(
            np.concatenate([counts, large]), np.concatenate([self._small[counts], values])
        )


@dataclass(slots=True, eq=False)
class _Table:
    """Keys in increasing order, the users of each, and where large groups stand or once stood."""

    keys: _Numbers
    sizes: _Numbers
    large: NDArray[np.intp]

    @classmethod
    def of(cls, keys: _Numbers, sizes: _Numbers) -> _Table:
        """Hold keys in increasing order."""
        return cls(keys, sizes, np.flatnonzero(sizes >= _SMALL))

    @classmethod
    def empty(cls) -> _Table:
        """Hold no keys."""
        return cls.of(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

    def change(self, keys: _Numbers, changes: _Numbers) -> tuple[_Numbers, _Numbers, _Flags]:
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

    def join(self, keys: _Numbers, sizes: _Numbers) -> None:
        """Take in other keys, in increasing order."""
        joint = np.concatenate([self.keys, keys])
        order = np.argsort(joint, kind="stable")
        self.keys = joint[order]
        self.sizes = np.concatenate([self.sizes, sizes])[order]
        self.large = np.flatnonzero(self.sizes >= _SMALL)

    def large_sizes(self) -> _Numbers:
        """Users of each large group."""
        sizes = self.sizes[self.large]
        return sizes[sizes >= _SMALL]


class _Ranks:
    """Numbers of keys in the order in which they came."""

    def __init__(self, keys: _Numbers) -> None:
        self.keys = np.unique(keys)
        self._ranks = np.arange(len(self.keys))

    def of(self, keys: _Numbers) -> _Numbers:
        """Return the ranks of keys, which are learnt where they are new."""
        places = self.keys.searchsorted(keys)
        fresh = np.unique(keys[self.keys.take(places, mode="clip") != keys])
        if len(fresh):
            at, known = self.keys.searchsorted(fresh), len(self.keys)
            self._ranks = np.insert(self._ranks, at, np.arange(known, known + len(fresh)))
            self.keys = np.insert(self.keys, at, fresh)
            places = self.keys.searchsorted(keys)
        return self._ranks[places]


def _small_sizes(sizes: _Numbers) -> _Numbers:
    """Count the groups of 1, 2, ... users below `_SMALL`, in the places of their sizes."""
    found = np.bincount(sizes[sizes < _SMALL], minlength=_SMALL)
    found[0] = 0
    return found
