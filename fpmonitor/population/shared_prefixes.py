"""Groups of many API sets at once: sets that begin alike share what they begin with.

Sets are the leaves of a tree whose edges are APIs, those of the most values first, so that few
branches share the long way. Rows are numbered by the groups of a branch, and merged where they
agree on it and on all that may still follow, if enough sets follow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fpmonitor.population.memory import CodeTable, count_keys, is_dense

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Codes = NDArray[np.integer[Any]]
    Numbers = NDArray[np.int64]

_MERGED_FOR = 10  # sets that follow, from which on it pays to merge rows
_FEW_ROWS = 4096  # that are not worth it
_BRANCHES = 1.5  # times as many as sets, from which on it pays to count each set by itself


class Grouped(NamedTuple):
    """The groups of a set: its APIs in the order of the keys, these increasing, and their users.

    Without widths, keys are of no meaning.
    """

    apis: tuple[str, ...]
    order: tuple[str, ...]
    keys: Numbers
    sizes: Numbers


@dataclass(slots=True, eq=False)
class _Branch:
    """What follows a branch: APIs by their place in the order; whether it is a set itself."""

    following: dict[int, _Branch] = field(default_factory=dict)
    apis: tuple[str, ...] | None = None

    @property
    def sets(self) -> int:
        """Number of sets that begin like this."""
        return (self.apis is not None) + sum(branch.sets for branch in self.following.values())

    @property
    def branches(self) -> int:
        """Number of beginnings of sets that begin like this and go on, this one among them."""
        deeper = sum(branch.branches for branch in self.following.values())
        return deeper + bool(self.following)

    @property
    def places(self) -> set[int]:
        """Places of all APIs that may follow."""
        return {*self.following}.union(*(branch.places for branch in self.following.values()))


class _Rows(NamedTuple):
    """Rows by their group in a branch, the keys of these, and the codes of what may follow.

    `users` of each row are null where they are one each.
    """

    groups: Numbers
    keys: Numbers
    columns: Mapping[int, Codes]
    users: Numbers | None


class PrefixTree:
    """Some sets, by what they begin with.

    Parameters
    ----------
    columns
        API -> code of each row, at least 0.
    sets
        Not empty, of APIs among them, each once.
    """

    def __init__(self, columns: Mapping[str, Codes], sets: Iterable[tuple[str, ...]]) -> None:
        self._sets = [*sets]
        named = {api for apis in self._sets for api in apis}
        most = {api: int(columns[api].max()) + 1 for api in named}
        self._order = sorted(named, key=lambda api: (-most[api], api))
        self._cardinalities = [most[api] for api in self._order]
        self._columns = {at: columns[api] for at, api in enumerate(self._order)}
        self._widths: list[int] | None = None
        place = {api: at for at, api in enumerate(self._order)}
        self._root = _Branch()
        for apis in self._sets:
            branch = self._root
            for at in sorted(map(place.__getitem__, apis)):
                branch = branch.following.setdefault(at, _Branch())
            branch.apis = apis

    @property
    def pays(self) -> bool:
        """Whether so many sets begin alike that they are counted faster together."""
        return self._root.branches <= _BRANCHES * len(self._sets)

    def grouped(
        self, *, widths: Mapping[str, int] | None = None, users: Numbers | None = None
    ) -> Iterator[Grouped]:
        """Group the rows by each set.

        Parameters
        ----------
        widths
            API -> bits of its codes in a key, where those of a set stand side by side, at most 62.
        users
            Of each row, one each where null.
        """
        if not self._sets:
            return
        self._widths = None if widths is None else [widths[api] for api in self._order]
        rows = len(next(iter(self._columns.values())))
        nobody = np.zeros(rows, dtype=np.int64)
        alone = np.zeros(1, dtype=np.int64)
        yield from self._visit(self._root, (), _Rows(nobody, alone, self._columns, users))

    def _visit(self, branch: _Branch, path: tuple[int, ...], rows: _Rows) -> Iterator[Grouped]:
        """Group by all sets that begin like a branch."""
        if len(rows.groups) > _FEW_ROWS and path and branch.sets >= _MERGED_FOR:
            rows = self._merged(rows, sorted(branch.places))
        for at, following in branch.following.items():
            cardinality = self._cardinalities[at]
            numbers = rows.groups * cardinality + rows.columns[at]
            size = len(rows.keys) * cardinality
            found, sizes = _counted(numbers, size, rows.users)
            keys = found
            if self._widths is not None:
                groups, codes = np.divmod(found, cardinality)
                keys = rows.keys[groups] << self._widths[at] | codes
            beyond = (*path, at)
            if following.apis is not None:
                order = tuple(self._order[place] for place in beyond)
                yield Grouped(following.apis, order, keys, sizes)
            if following.following:
                ranks = _ranks(numbers, found, size)
                deeper = _Rows(ranks, keys, rows.columns, rows.users)
                yield from self._visit(following, beyond, deeper)

    def _merged(self, rows: _Rows, places: Sequence[int]) -> _Rows:
        """Merge rows that agree on their group and on what may follow."""
        users = np.ones(len(rows.groups), dtype=np.int64) if rows.users is None else rows.users
        table = CodeTable(
            (rows.groups, *(rows.columns[at] for at in places)),
            (len(rows.keys), *(self._cardinalities[at] for at in places)),
            users,
        )
        columns = range(len(places) + 1)
        if not table.fits(columns):
            return rows
        merged = table.merged(columns)
        groups, *codes = merged.columns
        return _Rows(
            groups.astype(np.int64, copy=False),
            rows.keys,
            dict(zip(places, codes, strict=True)),
            merged.weights,
        )


def _counted(numbers: Numbers, size: int, users: Numbers | None) -> tuple[Numbers, Numbers]:
    """Distinct numbers below `size`, increasing, and the users of each."""
    if users is None and is_dense(size, len(numbers)):
        counts = np.bincount(numbers, minlength=size)
        found = np.flatnonzero(counts)
        return found, counts[found]
    weights = np.ones(len(numbers), dtype=np.int64) if users is None else users
    found, sizes = count_keys(numbers.copy(), size, weights)  # they are asked for again
    return found, sizes.astype(np.int64)


def _ranks(numbers: Numbers, found: Numbers, size: int) -> Numbers:
    """Places of numbers below `size` among the distinct ones."""
    if not is_dense(size, len(numbers)):
        return found.searchsorted(numbers)
    ranks = np.empty(size, dtype=np.int64)
    ranks[found] = np.arange(len(found))
    return ranks[numbers]
