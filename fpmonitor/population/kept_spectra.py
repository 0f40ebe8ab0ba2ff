"""Count spectra of some API sets that follow the users: only rows that changed are counted anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fpmonitor.errors import InputError
from fpmonitor.population.group_tables import GroupTables, PackedGroups
from fpmonitor.population.memory import run_starts, sort_numbers
from fpmonitor.population.shared_prefixes import PrefixTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from fpmonitor.spectrum import CountSpectrum

    Codes = NDArray[np.integer[Any]]
    _ApiSet = tuple[str, ...]
    _Numbers = NDArray[np.int64]

_KEY_BITS = 62  # one more says whether a row came or went
_RANK_BITS = 31
_CHANGED = 0.25  # share of the rows, from which on all are counted anew


class KeptSpectra:
    """Count spectra of some API sets, exact, while the users change.

    Rows are compared by their position, so that few differ where users keep theirs; whatever the
    order is, the spectra are those of the rows of now.

    Parameters
    ----------
    most
        Bytes of the groups that are kept, of all sets together: 16 a group or, where that is too
        much, about two, which takes longer. Sets that have no room are counted each time.
    beside
        Kept spectra whose groups count among them.

    Attributes
    ----------
    columns
        API -> codes, as they were followed last.
    size
        Bytes of the groups that are kept.
    """

    def __init__(self, most: int = 1 << 30, *, beside: KeptSpectra | None = None) -> None:
        self._most, self._beside, self.size = most, beside, 0
        self.columns: Mapping[str, Codes] = {}
        self._groups: dict[_ApiSet, _Groups] = {}
        self._packs = False

    def follow(
        self,
        columns: Mapping[str, Codes],
        sets: Iterable[_ApiSet],
        *,
        look: Callable[[int], None] = lambda _number: None,
    ) -> dict[_ApiSet, CountSpectrum]:
        """Return the count spectra of some sets, which are kept from now on, and no others.

        Parameters
        ----------
        columns
            API -> code of each user, from 0 to 2^31 - 1, which stands for the same value in every
            call.
        sets
            Not empty, of APIs among them.
        look
            Told before each set how many were counted; what it raises ends that, and those that
            were counted are kept.
        """
        changed = self._changed(columns)
        self.columns = dict(columns)
        before, self._groups = self._groups, {}
        found: dict[_ApiSet, CountSpectrum] = {}
        others = []
        self.size = 0
        for apis in dict.fromkeys(sets):
            look(len(found))
            groups = before.pop(apis, None)
            if groups is None or changed is None or not groups.change(changed):
                others.append(apis)
            else:
                found[apis] = groups.spectrum()
                self._keep(apis, groups)
        for apis, groups in _counted(columns, others):
            look(len(found))
            found[apis] = groups.spectrum()
            self._keep(apis, groups)
        return found

    def _keep(self, apis: _ApiSet, groups: _Groups) -> None:
        """Keep groups where they have room; once they have not, all are packed."""
        most = self._most - (0 if self._beside is None else self._beside.size)
        if self._packs:
            groups.pack()
        elif self.size + groups.size > most:
            self._packs = True
            for held in (*self._groups.values(), groups):
                held.pack()
            self.size = sum(held.size for held in self._groups.values())
        if self.size + groups.size <= most:
            self.size += groups.size
            self._groups[apis] = groups

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


def _counted(
    columns: Mapping[str, Codes], sets: Sequence[_ApiSet]
) -> Iterator[tuple[_ApiSet, _Groups]]:
    """Count sets from nothing."""
    named = {api for apis in sets for api in apis}
    largest = {api: int(columns[api].max()).bit_length() for api in named}
    if max(largest.values(), default=0) > _RANK_BITS:
        raise InputError("kept spectra: codes must be below 2^31")
    widths = {api: min(bits + 1, _RANK_BITS) for api, bits in largest.items()}
    narrow = [apis for apis in sets if sum(map(widths.__getitem__, apis)) <= _KEY_BITS]
    tree = PrefixTree(columns, narrow)
    together = {*narrow} if tree.pays else set()
    for apis, order, keys, sizes in tree.grouped(widths=widths) if together else ():
        yield apis, _Groups(_Keys(order, [widths[api] for api in order]), keys, sizes)
    for apis in (apis for apis in sets if apis not in together):
        # Ranks cost more than to count anew when a code has outgrown its place.
        bits = [largest[api] for api in apis]
        spare = int(not sum(bits) <= _KEY_BITS < sum(bits) + len(bits))
        naming = _Keys(apis, [min(each + spare, _RANK_BITS) for each in bits])
        keys = naming.of(columns)
        sort_numbers(keys)
        starts = run_starts(keys)
        sizes = np.diff(starts, append=len(keys)).astype(np.int64)
        yield apis, _Groups(naming, keys[starts], sizes)


class _Groups:
    """The groups of one set, by exact keys."""

    def __init__(self, naming: _Keys, keys: _Numbers, sizes: _Numbers) -> None:
        self._naming = naming
        self._held: GroupTables | PackedGroups = GroupTables(keys, sizes)

    def change(self, changed: _Changed) -> bool:
        """Take in rows that changed; false where a code is too large for the keys."""
        if not self._naming.has_room(changed.bits):
            return False
        if not changed.came.size:
            return True
        packed = self._naming.of(changed.rows) << 1 | changed.came
        sort_numbers(packed)
        keys, signs = packed >> 1, 2 * (packed & 1) - 1
        starts = run_starts(keys)
        changes = np.add.reduceat(signs, starts)
        differing = np.flatnonzero(changes)
        self._held.change(keys[starts[differing]], changes[differing])
        return True

    def pack(self) -> None:
        """Hold them in less room from now on."""
        self._held = self._held.packed()

    @property
    def size(self) -> int:
        """Bytes."""
        return self._held.size + self._naming.size

    def spectrum(self) -> CountSpectrum:
        """Count spectrum of the groups."""
        return self._held.spectrum()


class _Keys:
    """Names groups by numbers in which the codes stand side by side, the first API highest.

    Where they have no room in one number, those of the first columns are replaced by a rank, which
    a group keeps.
    """

    def __init__(self, order: Sequence[str], widths: Sequence[int]) -> None:
        self._widths = dict(zip(order, widths, strict=True))
        self._ranks: list[_Ranks] = []

    def has_room(self, bits: Mapping[str, int]) -> bool:
        """Whether codes of so many bits have room."""
        return all(bits[api] <= width for api, width in self._widths.items())

    def of(self, rows: Mapping[str, Codes]) -> _Numbers:
        """Return the key of each row."""
        keys = np.zeros(len(next(iter(rows.values()))), dtype=np.int64)
        ranked, room = 0, _KEY_BITS
        for api, width in self._widths.items():
            if width > room:
                if ranked == len(self._ranks):
                    self._ranks.append(_Ranks(keys))
                keys, room = self._ranks[ranked].of(keys), _KEY_BITS - _RANK_BITS
                ranked += 1
            keys <<= width
            keys |= rows[api].astype(np.int64, copy=False)
            room -= width
        return keys

    @property
    def size(self) -> int:
        """Bytes of ranks."""
        return sum(ranks.size for ranks in self._ranks)


class _Ranks:
    """Numbers of keys in the order in which they came."""

    def __init__(self, keys: _Numbers) -> None:
        self.keys = np.unique(keys)
        self._ranks = np.arange(len(self.keys))

    @property
    def size(self) -> int:
        """Bytes."""
        return self.keys.nbytes + self._ranks.nbytes

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
