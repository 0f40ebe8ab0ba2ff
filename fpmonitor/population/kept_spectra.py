"""Count spectra of some API sets that follow the users: only rows that changed are counted anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fpmonitor.errors import InputError
from fpmonitor.population.memory import MemorySource, run_starts, sort_numbers
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    Codes = NDArray[np.integer[Any]]
    _ApiSet = tuple[str, ...]
    _Numbers = NDArray[np.int64]

# After a batch of 1 % of 1,000,000 users x 20 APIs, 50 sets take 0.12 of the time of a count from
# nothing. Packing groups into two bytes, sharing what sets begin with, and ranks for long keys were
# tried: the first count takes as long without them, and 50 sets 74 ms in place of 65 ms.
_KEY_BITS = 62  # one more says whether a row came or went
_CODE_BITS = 31
_CHANGED = 0.25  # share of the rows, from which on all are counted anew
_LATE = 4  # times as many groups as there may be late ones: each insertion copies a whole table


class KeptSpectra:
    """Count spectra of some API sets, exact, while the users change.

    Rows are compared by their position, so that few differ where users keep theirs; whatever the
    order is, the spectra are those of the rows of now.

    Args:
        most: Bytes of the groups that are kept, of all sets together: 16 a group. Sets that have no
            room, or whose codes have none in one number, are counted each time.

    Attributes:
        columns: API -> codes, as they were followed last.
        size: Bytes of the groups that are kept.
    """

    def __init__(self, most: int = 1 << 29) -> None:
        self._most, self.size = most, 0
        self.columns: Mapping[str, Codes] = {}
        self._groups: dict[_ApiSet, _Groups] = {}

    def follow(
        self,
        columns: Mapping[str, Codes],
        sets: Iterable[_ApiSet],
        *,
        look: Callable[[int], None] = lambda _number: None,
    ) -> dict[_ApiSet, CountSpectrum]:
        """Return the count spectra of some sets, which are kept from now on, and no others.

        Args:
            columns: API -> code of each user, from 0 to 2^31 - 1, which stands for the same value
                in every call.
            sets: Not empty, of APIs among them.
            look: Told before each set how many were counted; what it raises ends that, and those
                that were counted are kept.
        """
        # Before the columns are replaced: what went is known from the old ones alone.
        changed = self._changed(columns)
        self.columns = dict(columns)
        before, self._groups, self.size = self._groups, {}, 0
        found: dict[_ApiSet, CountSpectrum] = {}
        for apis in dict.fromkeys(sets):
            look(len(found))
            # Taken out: what an interrupt leaves half changed is kept by nobody.
            groups = before.pop(apis, None)
            if groups is None or changed is None or not groups.change(*changed):
                groups = _Groups.of(columns, apis)
            if groups is None:
                found[apis] = MemorySource(apis, [columns[api] for api in apis]).spectrum(apis)
                continue
            found[apis] = groups.spectrum
            if self.size + groups.size <= self._most:
                self.size += groups.size
                self._groups[apis] = groups
        return found

    def _changed(
        self, columns: Mapping[str, Codes]
    ) -> tuple[Mapping[str, _Numbers], Mapping[str, int], _Numbers] | None:
        """Find rows that went (0 in the last array) and that came (1); None where too many did.

        Also the bits of the largest code of each API, which all sets ask for.
        """
        if not self.columns or self.columns.keys() != columns.keys():
            return None
        lengths = [
            len(next(iter(codes_by_api.values()))) for codes_by_api in (self.columns, columns)
        ]
        shared = min(lengths)
        differ, other = np.zeros((2, shared), dtype=np.bool_)
        for api, codes in columns.items():
            np.not_equal(codes[:shared], self.columns[api][:shared], out=other)
            differ |= other
        # Where there are more rows, or fewer, those at the end came or went.
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
        return rows, bits, np.repeat(np.array([0, 1]), [len(went), len(came)])


@dataclass(slots=True, eq=False)
class _Groups:
    """The groups of one set by exact keys, in which the codes stand side by side.

    `widths` are the bits of each API in a key, the first highest. `tables` are keys that increase
    and the users of each, those of late groups apart.
    """

    widths: Mapping[str, int]
    tables: list[tuple[_Numbers, _Numbers]]
    spectrum: CountSpectrum

    @classmethod
    def of(cls, columns: Mapping[str, Codes], apis: _ApiSet) -> _Groups | None:
        """Count from nothing; None where the codes have no room in a key."""
        bits = {api: int(columns[api].max()).bit_length() for api in apis}
        if max(bits.values()) > _CODE_BITS:
            raise InputError("kept spectra: codes must be below 2^31")
        if sum(bits.values()) > _KEY_BITS:
            return None
        # One bit to spare for codes that grow, where there is room.
        spare = int(sum(bits.values()) + len(bits) <= _KEY_BITS)
        widths = {api: min(width + spare, _CODE_BITS) for api, width in bits.items()}
        keys = _keys(widths, columns)
        sort_numbers(keys)
        starts = run_starts(keys)
        sizes = np.diff(starts, append=len(keys)).astype(np.int64)
        none = np.empty(0, dtype=np.int64)
        return cls(widths, [(keys[starts], sizes), (none, none)], CountSpectrum.from_counts(sizes))

    def change(self, rows: Mapping[str, _Numbers], bits: Mapping[str, int], came: _Numbers) -> bool:
        """Take in rows that changed; false where a code is too large for the keys."""
        if any(bits[api] > width for api, width in self.widths.items()):
            return False
        if not came.size:
            return True
        # The sign rides in the lowest bit: one sort brings goers and comers of a group together.
        packed = _keys(self.widths, rows) << 1 | came
        sort_numbers(packed)
        keys, signs = packed >> 1, 2 * (packed & 1) - 1
        starts = run_starts(keys)
        changes = np.add.reduceat(signs, starts)
        differing = np.flatnonzero(changes)
        self._add(keys[starts[differing]], changes[differing])
        return True

    def _add(self, keys: _Numbers, changes: _Numbers) -> None:
        """Change the users of keys, which increase; none is 0."""
        counts, values = [self.spectrum.counts], [self.spectrum.values]
        for table_keys, sizes in self.tables:
            if not table_keys.size:
                continue
            places = table_keys.searchsorted(keys)
            known = table_keys.take(places, mode="clip") == keys
            places = places[known]
            before = sizes[places]
            after = sizes[places] = before + changes[known]
            counts += [before, after]
            # The spectrum by differences: one group fewer of the old size, one more of the new.
            values += [np.full(len(before), -1), np.full(len(after), 1)]
            keys, changes = keys[~known], changes[~known]
        if keys.size:
            counts.append(changes)
            values.append(np.ones(len(changes), dtype=np.int64))
            self.tables[1] = _joined(self.tables[1], (keys, changes))
            if len(self.tables[1][0]) > len(self.tables[0][0]) // _LATE:
                none = np.empty(0, dtype=np.int64)
                self.tables = [_joined(*self.tables), (none, none)]
        self.spectrum = _sum(np.concatenate(counts), np.concatenate(values))

    @property
    def size(self) -> int:
        """Bytes, also of groups that nobody is in any more."""
        return sum(keys.nbytes + sizes.nbytes for keys, sizes in self.tables)


def _keys(widths: Mapping[str, int], rows: Mapping[str, Codes]) -> _Numbers:
    """Return the key of each row."""
    keys = np.zeros(len(next(iter(rows.values()))), dtype=np.int64)
    for api, width in widths.items():
        keys <<= width
        keys |= rows[api].astype(np.int64, copy=False)
    return keys


def _joined(
    table: tuple[_Numbers, _Numbers], other: tuple[_Numbers, _Numbers]
) -> tuple[_Numbers, _Numbers]:
    """Put the groups of another table, which are not in this one, between those of it."""
    places = table[0].searchsorted(other[0])
    return np.insert(table[0], places, other[0]), np.insert(table[1], places, other[1])


def _sum(counts: _Numbers, values: _Numbers) -> CountSpectrum:
    """Count spectrum of numbers of users, in any order, and of how many groups have so many."""
    distinct, places = np.unique(counts, return_inverse=True)
    totals = np.bincount(places, values).astype(np.int64)
    # Groups that nobody is in any more stay in the tables, and are no values.
    some = np.flatnonzero((totals > 0) & (distinct > 0))
    return CountSpectrum(distinct[some], totals[some])
