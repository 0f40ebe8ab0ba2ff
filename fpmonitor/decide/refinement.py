"""Scores of the API sets just above a set: what the border search asks of the data.

Two ways to the same numbers: rows in memory, refined one column at a time, and any other spectrum
source, asked set by set.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, compress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fpmonitor.estimate.criterion import Criterion
from fpmonitor.population.memory import (
    CodeTable,
    MemorySource,
    count_keys,
    is_dense,
    rank_keys,
    run_starts,
    smallest_type,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fpmonitor.estimate.cohort_budget import Condition
    from fpmonitor.estimate.criterion import Score
    from fpmonitor.spectrum import CountSpectrum, SpectrumSource

    _Sizes = NDArray[np.float64] | NDArray[np.integer]

SMALL = 8192  # rows up to which a look at a part, or fewer rows, cost more than they save
BATCH = 1 << 16  # cells refined by one call
THREADS = 2  # that refine a table of more rows than that
# Most columns fail, as the finest are tried first: of 200,000 rows of 12 columns a look at parts,
# with rows in order, took 0.6 of the time.
_PARTS = (16, 4)  # one of so many rows is looked at before all are
_SPARSE = 4  # times the groups: where sizes are not counted first
_WORTH = 8  # settled rows are left out where they are one of so many


class Steps(NamedTuple):
    """What each of some columns does to a base set when it joins.

    `scores` (float64) are those of the base with the column, `groups` (int64) the numbers of its
    groups. A column that leaves their number as it is adds nothing to any larger set either.
    """

    scores: NDArray[np.float64]
    groups: NDArray[np.intp]


class SourceRefinement:
    """Refinement by asking a spectrum source for each set: a base, and columns that may join it."""

    def __init__(
        self, source: SpectrumSource, criterion: Condition, apis: Sequence[str], base: Sequence[str]
    ) -> None:
        self._source, self._criterion, self._apis, self._base = source, criterion, apis, base
        self.rows = 1

    @cached_property
    def groups(self) -> int:
        """Number of groups of the base."""
        return self._spectrum([]).support

    def _spectrum(self, columns: Sequence[int]) -> CountSpectrum:
        return self._source.spectrum([*self._base, *(self._apis[column] for column in columns)])

    def steps(self, columns: Sequence[int]) -> Steps:
        """Try each of `columns` alone with the base."""
        sets = [[*self._base, self._apis[column]] for column in columns]
        spectra = self._source.spectra(sets)
        return Steps(
            np.array([self._criterion.score(spectrum) for spectrum in spectra]),
            np.array([spectrum.support for spectrum in spectra], dtype=np.intp),
        )

    def hopeless(self, columns: Sequence[int], limit: float) -> list[int]:  # noqa: ARG002
        """Every set costs one question: none is cheaper than another."""
        return []

    def union(self, columns: Sequence[int]) -> float:
        """Score of the base with all `columns`."""
        return self._criterion.score(self._spectrum(columns))

    def fits(self, columns: Sequence[int]) -> bool:  # noqa: ARG002
        """Every set costs one question."""
        return True

    def joined(self, column: int) -> SourceRefinement:
        """Let `column` join the base."""
        base = [*self._base, self._apis[column]]
        return SourceRefinement(self._source, self._criterion, self._apis, base)

    def narrowed(self, columns: Sequence[int]) -> tuple[SourceRefinement, float | None]:  # noqa: ARG002
        """Change nothing: a source has no rows to leave out."""
        return self, None


@dataclass(frozen=True)
class Gains:
    """A criterion's sums as sums over groups, so that large groups need not be counted out.

    Each is its `floor` plus the sum of its `of_group[min(c, cap)]` over the groups of `c` users; a
    group of `cap` or more adds nothing, so sizes may be cut to `cap`. Weights are multiples of a
    small power of two, which makes the sums exact.
    """

    # float64, shape (I,): sums if all users were in groups of `cap` or more.
    floor: NDArray[np.float64]
    # float64, shape (cap + 1, I): what a group of `c` users adds to each, `c` from 0 to `cap`.
    of_group: NDArray[np.float64]
    # intp, shape (cap + 1,): alike for two counts where all their weights are.
    steps: NDArray[np.intp]
    score: Score  # Puts the sums together.

    @classmethod
    def of(cls, criterion: Criterion, users: int) -> Gains:
        """Rewrite a criterion for `users` users in all."""
        weights = criterion.score.weights
        least = weights[:, -1]
        changing = (weights != least[:, np.newaxis]).any(axis=0)
        # One more than the last count whose weight is not the final one.
        cap = weights.shape[1] - int(changing[::-1].argmax()) if changing.any() else 1
        weights = weights[:, : cap + 1]
        of_group = (weights - least[:, np.newaxis]) * np.arange(cap + 1)
        steps = np.append(0, (np.diff(weights, axis=1) != 0).any(axis=0).cumsum())
        return cls(least * users, np.ascontiguousarray(of_group.T), steps, criterion.score)

    @property
    def cap(self) -> int:
        """Size of group from which on nothing is added."""
        return len(self.of_group) - 1

    def sums(self, sizes: _Sizes) -> NDArray[np.float64]:
        """Return what groups of these sizes add together, shape (I,)."""
        found: NDArray[np.float64] = self.sums_of_runs(sizes, np.zeros(1, dtype=np.intp))[0]
        return found

    def sums_of_runs(self, sizes: _Sizes, starts: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return what the groups of each run of these sizes add together, shape (runs, I)."""
        places, runs = np.minimum(sizes.astype(np.intp, copy=False), self.cap), starts.size
        if not places.size:
            return np.zeros((runs, len(self.floor)))
        cells = runs * len(self.of_group)
        # A table of more cells than groups, by far, would mostly count zeros.
        if cells > _SPARSE * places.size:
            found: NDArray[np.float64] = np.add.reduceat(self.of_group.take(places, axis=0), starts)
            return found
        # To count the sizes first costs one pass over the groups, however many sums there are.
        lengths = np.diff(starts, append=places.size)
        places += np.repeat(np.arange(runs) * len(self.of_group), lengths)
        counts = np.bincount(places, minlength=cells).astype(np.float64)
        return counts.reshape(runs, -1) @ self.of_group


class _Tried(NamedTuple):
    """What counting the base with each of some columns leaves behind.

    Row `i` of `keys` names the groups of the base with the column at `places[i]`, by numbers from
    `starts[i]` to `ends[i]`; `present` tells which of all numbers there are.
    """

    places: Sequence[int]
    keys: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: Sequence[int]
    present: NDArray[np.bool_]

    def ranked(self, place: int) -> tuple[NDArray[np.intp], int]:
        """Rank the groups of the base with one column: that of each row, and how many."""
        row = self.places.index(place)
        start = self.starts[row]
        ranks = self.present[start : self.ends[row]].cumsum()
        ranks -= 1
        return ranks.take(self.keys[row] - start), int(ranks[-1]) + 1


def _repeated(weights: NDArray[np.int64], columns: int) -> NDArray[np.float64]:
    """Weights as often as rows are counted by one call."""
    times = min(columns, BATCH // len(weights)) if len(weights) else 0
    return np.tile(weights.astype(np.float64), max(times, 1))


def _ready(table: CodeTable) -> CodeTable:
    """Hold short columns as they are counted: that costs less than to convert them at each use."""
    if len(table.weights) > SMALL:
        return table
    columns = tuple(column.astype(np.int64, copy=False) for column in table.columns)
    return CodeTable(columns, table.cardinalities, table.weights)


class TableRefinement:
    """Refinement of rows in memory.

    Column 0 of the table numbers the groups of the base, without gaps. Sizes are cut to the cap of
    the gains. Groups in which no set of the search can change a user's weight may be left out;
    what they add stands in `settled`. `distinct` tells whether the rows are merged, `ordered`
    whether they also stand in the order of all columns of the table. `weights`, those of the table
    again and again in float64, are what counting takes without a conversion.
    """

    def __init__(
        self,
        gains: Gains,
        table: CodeTable,
        columns: Sequence[int],
        *,
        settled: NDArray[np.float64],
        distinct: bool = False,
        ordered: bool = False,
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        self._gains, self._table, self._columns = gains, table, columns
        self._settled, self._distinct, self._ordered = settled, distinct, ordered
        self._weights = _repeated(table.weights, len(columns)) if weights is None else weights
        self._tried: _Tried | None = None

    @property
    def rows(self) -> int:
        """Number of rows, merged or not."""
        return len(self._table.weights)

    @classmethod
    def of(cls, table: CodeTable, criterion: Criterion, base: Sequence[int]) -> TableRefinement:
        """Begin at a set of columns of a table; all others may join."""
        gains = Gains.of(criterion, int(table.weights.sum()))
        columns = [column for column in range(len(table.columns)) if column not in base]
        groups, count = rank_keys(*table.keys(base))
        grouped = CodeTable(
            (groups, *(table.columns[column] for column in columns)),
            (count, *(table.cardinalities[column] for column in columns)),
            np.minimum(table.weights, gains.cap),
        )
        return cls(gains, _ready(grouped), columns, settled=gains.floor)

    @property
    def groups(self) -> int:
        """Number of groups of the base, without those that are settled."""
        return self._table.cardinalities[0]

    def steps(self, columns: Sequence[int]) -> Steps:
        """Try each of `columns` alone with the base."""
        rows = len(self._table.weights)
        if not rows or not columns:
            settled = np.full(len(columns), self._number(self._settled))
            return Steps(settled, np.zeros(len(columns), dtype=np.intp))
        step = max(1, BATCH // rows)
        places = self._places(columns)
        if len(places) <= step:
            return self._steps(places)
        batches = [places[start : start + step] for start in range(0, len(places), step)]
        if rows < BATCH:
            parts = [*map(self._steps, batches)]
        else:
            with ThreadPoolExecutor(THREADS) as threads:
                parts = [*threads.map(self._steps, batches)]
        return Steps(*map(np.concatenate, zip(*parts, strict=True)))

    def _places(self, columns: Sequence[int]) -> list[int]:
        return [self._columns.index(column) + 1 for column in columns]

    def _steps(self, places: Sequence[int]) -> Steps:
        """Try the columns at `places`, all counted by one call."""
        table = self._table
        ends = [*accumulate([self.groups * table.cardinalities[place] for place in places])]
        size, starts = ends[-1], np.array([0, *ends[:-1]])
        keys = np.array([table.columns[place] for place in places], dtype=np.int64)
        keys *= self.groups
        keys += table.columns[0]
        # Each column counts in a range of its own, so that one call counts all.
        keys += starts[:, None]
        if keys.size <= BATCH and is_dense(size, keys.size):
            sizes = np.bincount(keys.ravel(), self._weights[: keys.size], size).astype(np.intp)
            present = sizes != 0
            groups = np.add.reduceat(present, starts, dtype=np.intp)
            # The step that is taken is one of those tried: 15 columns of 33,000 users are searched
            # in 19 ms in place of 26.
            self._tried = _Tried(places, keys, starts, ends, present)
            return Steps(self._scores(sizes, starts), groups)
        weights = np.concatenate([table.weights] * len(places))
        found, counts = count_keys(keys.ravel(), size, weights)
        first = found.searchsorted(starts)
        return Steps(self._scores(counts, first), np.diff(first, append=len(found)))

    def _scores(self, sizes: _Sizes, starts: NDArray[np.intp]) -> NDArray[np.float64]:
        sums = self._gains.sums_of_runs(sizes, starts)
        sums += self._settled
        return self._gains.score.of_sums(sums)

    def _score(self, sizes: _Sizes) -> float:
        return self._number(self._settled + self._gains.sums(sizes))

    def _number(self, sums: NDArray[np.float64]) -> float:
        return float(self._gains.score.of_sums(sums))

    def hopeless(self, columns: Sequence[int], limit: float) -> list[int]:
        """Find some of `columns` with each of which the base scores more than a limit, by few rows.

        A group of the base adds to the score what it adds, whatever the other rows are. Those of
        few rows are looked at first: there most users are exposed.
        """
        if not columns:
            return []
        rows = np.bincount(self._table.columns[0], minlength=self.groups)
        order = rows.argsort()
        ends = rows[order].cumsum()
        ranks = np.empty(self.groups, dtype=smallest_type(self.groups))
        ranks[order] = np.arange(self.groups)
        ranked = ranks.take(self._table.columns[0])
        found: list[int] = []
        for part in _PARTS:
            groups = int(ends.searchsorted(self.rows // part, side="right"))
            if not (groups and columns):
                continue
            scores = self._part(ranked, groups, columns).steps(columns).scores
            found += compress(columns, scores > limit)
            # Only those past a quarter of the limit are looked at by a larger part.
            near = (scores <= limit) & (scores * _PARTS[-1] > limit)
            columns = [*compress(columns, near)]
        return found

    def _part(
        self, ranks: NDArray[np.integer], groups: int, columns: Sequence[int]
    ) -> TableRefinement:
        """Keep only the rows whose group has one of the first ranks, and only `columns`."""
        table, places = self._table, self._places(columns)
        rows = np.flatnonzero(ranks < groups)
        part = CodeTable(
            (ranks[rows], *(table.columns[place][rows] for place in places)),
            (groups, *(table.cardinalities[place] for place in places)),
            table.weights[rows],
        )
        return TableRefinement(self._gains, part, columns, settled=self._settled)

    def union(self, columns: Sequence[int]) -> float:
        """Score of the base with all `columns`."""
        if not len(self._table.weights):
            return self._number(self._settled)
        keys, size = self._table.keys([0, *self._places(columns)])
        return self._score(self._sizes(keys, size))

    def _sizes(self, keys: NDArray[np.int64], size: int) -> _Sizes:
        """Users of each group, also of none where that is cheaper: none adds nothing."""
        if is_dense(size, len(keys)):
            return np.bincount(keys, self._weights[: len(keys)], size)
        return count_keys(keys, size, self._table.weights)[1]

    def fits(self, columns: Sequence[int]) -> bool:
        """Whether the groups of the union have keys of 63 bits, so that one sort counts them."""
        return not len(self._table.weights) or self._table.fits([0, *self._places(columns)])

    def joined(self, column: int) -> TableRefinement:
        """Let `column` join the base."""
        table = self._table
        if not len(table.weights):
            return self
        place = self._columns.index(column) + 1
        if self._tried is not None and place in self._tried.places:
            groups, count = self._tried.ranked(place)
        else:
            groups, count = rank_keys(*table.keys([0, place]))
        joined = CodeTable(
            (groups, *table.columns[1:place], *table.columns[place + 1 :]),
            (count, *table.cardinalities[1:place], *table.cardinalities[place + 1 :]),
            table.weights,
        )
        columns = [other for other in self._columns if other != column]
        return TableRefinement(
            self._gains,
            joined,
            columns,
            settled=self._settled,
            distinct=self._distinct,
            weights=self._weights,
        )

    def narrowed(self, columns: Sequence[int]) -> tuple[TableRefinement, float | None]:
        """Keep only `columns` as those that may join, on merged rows where there are many.

        The first of `columns` ends the order of the rows: when it is dropped, they stay in order.
        """
        merged = self._distinct and len(columns) == len(self._columns)
        if merged or len(self._table.weights) <= SMALL or not self.fits(columns):
            return self, None
        columns = columns[::-1]
        if self._ordered and self._columns[: len(columns)] == columns:
            table = self._table.leading(1 + len(columns), cap=self._gains.cap)
        else:
            table = self._table.merged([0, *self._places(columns)], cap=self._gains.cap)
        score = self._score(table.weights)
        table, settled = self._unsettled(table)
        settled = settled + self._settled
        narrowed = TableRefinement(
            self._gains, _ready(table), columns, settled=settled, distinct=True, ordered=True
        )
        return narrowed, score

    def _unsettled(self, table: CodeTable) -> tuple[CodeTable, NDArray[np.float64]]:
        """Leave out the groups in which every user has its final weight, and what they add."""
        starts = run_starts(table.columns[0])
        steps = self._gains.steps
        totals = np.minimum(np.add.reduceat(table.weights, starts), self._gains.cap)
        # A user shares a value with its row at least, and with all of its group at most.
        smallest = np.minimum.reduceat(table.weights, starts)
        changing = steps[smallest] != steps[totals]
        lengths = np.diff(starts, append=len(table.weights))
        if int(lengths[~changing].sum()) * _WORTH < len(table.weights):
            return table, np.zeros(len(self._settled))
        keep = np.repeat(changing, lengths)
        groups = np.repeat(np.cumsum(changing) - 1, lengths)
        columns = (groups[keep], *(column[keep] for column in table.columns[1:]))
        cardinalities = (int(changing.sum()), *table.cardinalities[1:])
        unsettled_rows = CodeTable(columns, cardinalities, table.weights[keep])
        return unsettled_rows, self._gains.sums(totals[~changing])


Refinement = SourceRefinement | TableRefinement


def refinement_of(
    source: SpectrumSource, criterion: Condition, apis: Sequence[str], base: Sequence[int]
) -> Refinement:
    """Begin at a set of the columns, which are the `apis` of a source; all others may join."""
    if isinstance(source, MemorySource) and isinstance(criterion, Criterion):
        return TableRefinement.of(source.table, criterion, [*base, *source.always])
    return SourceRefinement(source, criterion, apis, [apis[column] for column in base])
