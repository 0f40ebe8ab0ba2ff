"""Scores of the API sets just above a set: what the border search asks of the data.

Two ways to the same numbers: rows in memory, refined one column at a time, and any other spectrum
source, asked set by set.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from fpmonitor.engine.memory import KEY_BITS, CodeTable, merge_keys, rank_keys, run_starts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fpmonitor.estimate.criterion import Criterion
    from fpmonitor.spectrum import SpectrumSource

SMALL = 4096  # rows up to which narrowing a table costs more than it saves
BATCH = 1 << 16  # cells refined by one call


class Refinement(Protocol):
    """A base set, columns that may join it, and the data to score the sets in between.

    `score` is the score of the base with all columns, where it is known, else None.
    """

    score: float | None

    def scores(self, columns: Sequence[int]) -> NDArray[np.float64]:
        """Score of the base with one more column, for each of `columns`."""

    def below(self, column: int, columns: Sequence[int]) -> Refinement:
        """Let `column` join the base, and keep only `columns` as those that may join."""


class SourceRefinement:
    """Refinement by asking a spectrum source for each set."""

    def __init__(
        self, source: SpectrumSource, criterion: Criterion, base: Sequence[str], apis: Sequence[str]
    ) -> None:
        self._source, self._criterion, self._base, self._apis = source, criterion, base, apis
        self.score: float | None = None

    def scores(self, columns: Sequence[int]) -> NDArray[np.float64]:
        """Score of the base with one more column, for each of `columns`."""
        sets = ([*self._base, self._apis[column]] for column in columns)
        return np.array([self._criterion.score(self._source.spectrum(apis)) for apis in sets])

    def below(self, column: int, columns: Sequence[int]) -> SourceRefinement:
        """Let `column` join the base, and keep only `columns` as those that may join."""
        base = [*self._base, self._apis[column]]
        child = SourceRefinement(self._source, self._criterion, base, self._apis)
        whole = [*base, *(self._apis[column] for column in columns)]
        child.score = self._criterion.score(self._source.spectrum(whole))
        return child


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

    Column 0 of the table numbers the groups of the base; sizes are cut to the cap of the gains,
    rows of groups whose contribution cannot change any more are left out and stand in `settled`.
    """

    def __init__(
        self, gains: Gains, table: CodeTable, columns: Sequence[int], settled: float
    ) -> None:
        self._gains, self._table, self._settled = gains, table, settled
        self._place = {column: place for place, column in enumerate(columns, start=1)}
        self.score: float | None = None

    @classmethod
    def of(
        cls, table: CodeTable, criterion: Criterion, base: Sequence[int], columns: Sequence[int]
    ) -> TableRefinement:
        """Begin at a set of columns of a table."""
        gains = Gains.of(criterion, int(table.weights.sum()))
        groups, count = rank_keys(*table.keys(base)[:2])
        weights = np.minimum(table.weights, gains.cap)
        grouped = CodeTable(
            (groups, *(table.columns[column] for column in columns)),
            (count, *(table.cardinalities[column] for column in columns)),
            weights,
        )
        return cls(gains, grouped, columns, gains.floor)

    def scores(self, columns: Sequence[int]) -> NDArray[np.float64]:
        """Score of the base with one more column, for each of `columns`."""
        self.spl=[]
        if not len(self._table.weights):
            self.spl=[False]*len(columns)
            return np.full(len(columns), self._settled)
        step = max(1, BATCH // len(self._table.weights))
        parts = [
            self._score(columns[start : start + step]) for start in range(0, len(columns), step)
        ]
        return self._settled + np.concatenate([np.empty(0), *parts])

    def union(self, columns: Sequence[int]) -> float:
        if not len(self._table.weights): return self._settled
        sizes=self._table.sizes([0,*(self._place[c] for c in columns)])
        return self._settled+float(self._gain(sizes).sum())

    def _score(self, columns: Sequence[int]) -> NDArray[np.float64]:
        """Gains of all groups after each of `columns`, all columns counted by one call."""
        places = [self._place[column] for column in columns]
        cardinalities = [self._table.cardinalities[place] for place in places]
        ends = np.cumsum(cardinalities)
        groups = self._table.cardinalities[0]
        keys = np.empty((len(places), len(self._table.weights)), dtype=np.int64)
        for row, place, end, cardinality in zip(keys, places, ends, cardinalities, strict=True):
            np.add(self._table.columns[place], end - cardinality, out=row)
        keys *= groups
        keys += self._table.columns[0]
        keys = keys.ravel()
        weights = np.tile(self._table.weights, len(places))
        size = int(ends[-1]) * groups
        if size <= 2 * len(keys):
            sizes = np.bincount(keys, weights, minlength=size)
            gains = self._gain(sizes)
            self.spl.extend(np.add.reduceat((sizes>0).astype(np.int64), (ends - cardinalities) * groups)>groups)
            return np.add.reduceat(gains, (ends - cardinalities) * groups)
        found, sizes = _count(keys, size, weights)
        starts = np.searchsorted(found, (ends - cardinalities) * groups)
        self.spl.extend(np.diff(starts,append=len(found))>groups)
        return np.add.reduceat(self._gain(sizes), starts)

    def _gain(self, sizes: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
        return self._gains.of_group[np.minimum(sizes, self._gains.cap).astype(np.intp)]

    def below(self, column: int, columns: Sequence[int]) -> TableRefinement:
        """Let `column` join the base, and keep only `columns` as those that may join."""
        places = [0, self._place[column], *(self._place[other] for other in columns)]
        table = self._table.merged(places, cap=self._gains.cap)
        gained = float(self._gain(table.weights).sum())
        pairs = table.columns[0] * self._table.cardinalities[places[1]] + table.columns[1]
        starts = run_starts(pairs)
        table, settled = self._unsettled(table, starts)
        child = TableRefinement(self._gains, table, columns, self._settled + settled)
        child.score = self._settled + gained
        return child

    def _unsettled(
        self, table: CodeTable, starts: NDArray[np.intp]
    ) -> tuple[CodeTable, float]:
        """Leave out the groups in which every user has its final weight.

        The groups begin at `starts`; columns 0 and 1 become one, the number of the group.
        """
        weights = self._gains.weights
        totals = np.minimum(np.add.reduceat(table.weights, starts), self._gains.cap)
        smallest = np.minimum.reduceat(table.weights, starts)
        settled = weights[smallest] == weights[totals]
        lengths = np.diff(starts, append=len(table.weights))
        keep = np.repeat(~settled, lengths)
        groups = np.repeat(np.cumsum(~settled) - 1, lengths)
        columns = (groups[keep], *(column[keep] for column in table.columns[2:]))
        cardinalities = (int((~settled).sum()), *table.cardinalities[2:])
        kept = CodeTable(columns, cardinalities, table.weights[keep])
        return kept, float(self._gains.of_group[totals[settled]].sum())


def _count(
    keys: NDArray[np.int64], size: int, weights: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct keys (all below `size`) in increasing order, and the total weight of each."""
    shift = int(weights.max()).bit_length()
    if size < 1 << (KEY_BITS - shift):
        return merge_keys(keys, weights, shift)
    distinct, ranks = np.unique(keys, return_inverse=True)
    return distinct, np.bincount(ranks, weights).astype(np.int64)
