"""Scores of the API sets just above a set: what the border search asks of the data.

Two ways to the same numbers: rows in memory, refined one column at a time, and any other spectrum
source, asked set by set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from fpmonitor.engine.memory import DENSE, KEY_BITS, CodeTable, merge_keys, rank_keys, run_starts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fpmonitor.estimate.criterion import Criterion
    from fpmonitor.spectrum import CountSpectrum, SpectrumSource

SMALL = 4096
BATCH = 1 << 16  # cells refined by one call


class Steps(NamedTuple):
    """What each of some columns does to a base set when it joins.

    `scores` are those of the base with the column (float64); `splits` tells whether the column
    splits any group of the base (bool): one that does not adds nothing to any larger set either.
    """

    scores: NDArray[np.float64]
    splits: NDArray[np.bool_]


class Refinement(Protocol):
    """A base set, columns that may join it, and the data to score the sets in between."""

    def steps(self, columns: Sequence[int]) -> Steps:
        """Try each of `columns` alone with the base."""

    def union(self, columns: Sequence[int]) -> float:
        """Score of the base with all `columns`."""

    def joined(self, column: int) -> Refinement:
        """Let `column` join the base."""

    def narrowed(self, columns: Sequence[int]) -> tuple[Refinement, float | None]:
        """Keep only `columns` as those that may join.

        Where that leaves fewer rows to look at, the score of the union comes with it.
        """


class SourceRefinement:
    """Refinement by asking a spectrum source for each set."""

    def __init__(
        self, source: SpectrumSource, criterion: Criterion, base: Sequence[str], apis: Sequence[str]
    ) -> None:
        self._source, self._criterion, self._apis = source, criterion, apis
        self._base = [*base]

    def _spectrum(self, columns: Sequence[int]) -> CountSpectrum:
        return self._source.spectrum([*self._base, *(self._apis[column] for column in columns)])

    def steps(self, columns: Sequence[int]) -> Steps:
        """Try each of `columns` alone with the base."""
        spectra = [self._spectrum([column]) for column in columns]
        support = self._spectrum([]).support
        return Steps(
            np.array([self._criterion.score(spectrum) for spectrum in spectra]),
            np.array([spectrum.support > support for spectrum in spectra], dtype=np.bool_),
        )

    def union(self, columns: Sequence[int]) -> float:
        """Score of the base with all `columns`."""
        return self._criterion.score(self._spectrum(columns))

    def joined(self, column: int) -> SourceRefinement:
        """Let `column` join the base."""
        base = [*self._base, self._apis[column]]
        return SourceRefinement(self._source, self._criterion, base, self._apis)

    def narrowed(self, columns: Sequence[int]) -> tuple[SourceRefinement, float | None]:  # noqa: ARG002
        """Change nothing: a source has no rows to leave out."""
        return self, None


@dataclass(frozen=True)
class Gains:
    """A criterion's score as a sum over groups, made for whole numbers.

    The score is `floor` plus the sum of `of_group[min(c, cap)]` over the groups of `c` users; a
    group of `cap` or more adds nothing, so sizes may be cut to `cap`.

    Attributes
    ----------
    floor
        Score if all users were in groups of `cap` or more.
    of_group
        float64, what a group of `c` users adds, `c` from 0 to `cap`.
    weights
        float64, the criterion's weight of one user, `c` from 0 to `cap`.
    """

    floor: float
    of_group: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, criterion: Criterion, users: int) -> Gains:
        """Rewrite a criterion for `users` users in all."""
        least = criterion.weights[-1]
        cap = max(1, int(np.searchsorted(-criterion.weights, -least)))
        weights = criterion.weights[: cap + 1]
        return cls(least * users, (weights - least) * np.arange(cap + 1), weights)

    @property
    def cap(self) -> int:
        """Size of group from which on nothing is added."""
        return len(self.of_group) - 1


class TableRefinement:
    """Refinement of rows in memory.

    Column 0 of the table numbers the groups of the base, without gaps. Sizes are cut to the cap of
    the gains. Groups that can add nothing more, or only what they add now, are left out; what they
    add stands in `settled`.
    """

    def __init__(
        self, gains: Gains, table: CodeTable, columns: Sequence[int], settled: float
    ) -> None:
        self._gains, self._table, self._columns, self._settled = gains, table, columns, settled
        self.groups = table.cardinalities[0]

    @classmethod
    def of(
        cls, table: CodeTable, criterion: Criterion, base: Sequence[int], columns: Sequence[int]
    ) -> TableRefinement:
        """Begin at a set of columns of a table."""
        gains = Gains.of(criterion, int(table.weights.sum()))
        groups, count = rank_keys(*table.keys(base)[:2])
        grouped = CodeTable(
            (groups, *(table.columns[column] for column in columns)),
            (count, *(table.cardinalities[column] for column in columns)),
            np.minimum(table.weights, gains.cap),
        )
        return cls(gains, grouped, columns, gains.floor)

    def steps(self, columns: Sequence[int]) -> Steps:
        """Try each of `columns` alone with the base."""
        rows = len(self._table.weights)
        if not rows:
            settled = np.full(len(columns), self._settled)
            return Steps(settled, np.zeros(len(columns), dtype=np.bool_))
        step = max(1, BATCH // rows)
        places = self._places(columns)
        parts = [
            self._steps(places[start : start + step]) for start in range(0, len(places), step)
        ]
        if len(parts) == 1:
            return parts[0]
        scores, splits = zip(*parts, strict=True) if parts else ([np.empty(0)], [np.empty(0, bool)])
        return Steps(np.concatenate(scores), np.concatenate(splits))

    def _places(self, columns: Sequence[int]) -> list[int]:
        return [self._columns.index(column) + 1 for column in columns]

    def _steps(self, places: Sequence[int]) -> Steps:
        """Try the columns at `places`, all counted by one call."""
        table = self._table
        groups = table.cardinalities[0]
        keys = np.empty((len(places), len(table.weights)), dtype=np.int64)
        starts, size = [], 0
        for row, place in zip(keys, places, strict=True):
            starts.append(size)
            np.multiply(table.columns[place], groups, out=row, dtype=np.int64)
            row += table.columns[0]
            row += size
            size += groups * table.cardinalities[place]
        weights = np.broadcast_to(table.weights, keys.shape).ravel()
        found, sizes = _count(keys.ravel(), size, weights)
        if found is None:
            added = np.add.reduceat(self._gain(sizes), starts)
            return Steps(self._settled + added, np.add.reduceat(sizes > 0, starts, dtype=np.intp))
        starts = np.searchsorted(found, starts)
        added = np.add.reduceat(self._gain(sizes), starts)
        return Steps(self._settled + added, np.diff(starts, append=len(found)))

    def _gain(self, sizes: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
        return self._gains.of_group[np.minimum(sizes, self._gains.cap).astype(np.intp)]

    def union(self, columns: Sequence[int]) -> float:
        """Score of the base with all `columns`."""
        if not len(self._table.weights):
            return self._settled
        sizes = self._table.sizes([0, *self._places(columns)])
        return self._settled + float(self._gain(sizes).sum())

    def joined(self, column: int) -> TableRefinement:
        """Let `column` join the base."""
        table = self._table
        if not len(table.weights):
            return self
        place = self._columns.index(column) + 1
        keys, size, _ = table.keys([0, place])
        groups, count = rank_keys(keys, size)
        joined = CodeTable(
            (groups, *table.columns[1:]), (count, *table.cardinalities[1:]), table.weights
        )
        return TableRefinement(self._gains, joined, self._columns, self._settled)

    def narrowed(self, columns: Sequence[int]) -> tuple[TableRefinement, float | None]:
        """Keep only `columns` as those that may join."""
        places = [0, *self._places(columns)]
        if len(self._table.weights) <= SMALL or not self._table.fits(places):
            return self, None
        table = self._table.merged(places, cap=self._gains.cap)
        score = self._settled + float(self._gain(table.weights).sum())
        table, settled = self._unsettled(table)
        return TableRefinement(self._gains, table, columns, self._settled + settled), score

    def _unsettled(self, table: CodeTable) -> tuple[CodeTable, float]:
        """Leave out the groups in which every user has its final weight, and what they add."""
        starts = run_starts(table.columns[0])
        weights = self._gains.weights
        totals = np.minimum(np.add.reduceat(table.weights, starts), self._gains.cap)
        smallest = np.minimum.reduceat(table.weights, starts)
        changing = weights[smallest] != weights[totals]
        lengths = np.diff(starts, append=len(table.weights))
        keep = np.repeat(changing, lengths)
        groups = np.repeat(np.cumsum(changing) - 1, lengths)
        columns = (groups[keep], *(column[keep] for column in table.columns[1:]))
        cardinalities = (int(changing.sum()), *table.cardinalities[1:])
        kept = CodeTable(columns, cardinalities, table.weights[keep])
        return kept, float(self._gains.of_group[totals[~changing]].sum())


def _count(
    keys: NDArray[np.int64], size: int, weights: NDArray[np.int64]
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | NDArray[np.float64]]:
    """Total weight of each distinct key, in increasing order.

    Keys are below `size`. Where all keys below it have a place in the answer, even those that do
    not occur, the distinct keys are None.
    """
    if size <= DENSE * len(keys):
        return None, np.bincount(keys, weights, minlength=size)
    shift = int(weights.max()).bit_length()
    if size < 1 << (KEY_BITS - shift):
        return merge_keys(keys, weights, shift)
    distinct, ranks = np.unique(keys, return_inverse=True)
    return distinct, np.bincount(ranks, weights)
