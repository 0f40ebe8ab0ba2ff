"""Search for the borders: all maximal allowed and all minimal blocked API sets.

Scores grow with the set and limits do not, so every subset of an allowed set is allowed and every
superset of a blocked one is blocked: the two borders say it all. The search goes depth-first,
the most exposing API first, and tries the union of all that may still join before it branches
(look-ahead, as in the mining of maximal frequent item sets: Burdick, Calimlim, Gehrke 2001,
"MAFIA"; Gouda, Zaki 2001, "GenMax"). What is known is never evaluated again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from fpmonitor.decide.refinement import SourceRefinement, TableRefinement
from fpmonitor.engine.memory import MemorySource
from fpmonitor.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from fpmonitor.decide.refinement import Refinement
    from fpmonitor.estimate.criterion import Criterion
    from fpmonitor.spectrum import SpectrumSource

ApiSet = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Borders:
    """What a search has proven about the sets of APIs.

    Sets are sorted tuples of names, lists of sets are sorted.

    Attributes
    ----------
    allow
        Allowed sets, none within another. If `complete`, all maximal ones. `[()]` when only the
        empty set is allowed, `[]` when not even that is.
    block
        Blocked sets, none within another. If `complete`, all minimal ones.
    undecided
        Sets proven not allowed and not proven blocked, none within another.
    complete
        Whether every set is either within one of `allow` or contains one of the others.
    evaluated
        Sets whose score was computed.
    """

    allow: list[ApiSet]
    block: list[ApiSet]
    undecided: list[ApiSet]
    complete: bool
    evaluated: int


class Family:
    """A growing family of sets of columns, held as bit masks, that answers containment fast.

    For each column one whole number tells by its bits which of the sets hold that column; a
    question is then a few logical operations, whatever the number of sets.
    """

    def __init__(self, columns: int) -> None:
        self.sets: list[int] = []
        self._holders = [0] * columns

    def add(self, members: int) -> None:
        """Add one set."""
        bit = 1 << len(self.sets)
        self.sets.append(members)
        for column in positions(members):
            self._holders[column] |= bit

    def covers(self, members: int) -> bool:
        """Whether some set of the family contains `members`."""
        holders = (1 << len(self.sets)) - 1
        for column in positions(members):
            holders &= self._holders[column]
        return holders != 0

    def within(self, members: int) -> bool:
        """Whether `members` contains some set of the family."""
        others = 0
        for column, holders in enumerate(self._holders):
            if not members >> column & 1:
                others |= holders
        return others != (1 << len(self.sets)) - 1

    def maximal(self) -> list[int]:
        """List the sets that are within no other one."""
        kept = Family(len(self._holders))
        for members in sorted(self.sets, key=int.bit_count, reverse=True):
            if not kept.covers(members):
                kept.add(members)
        return kept.sets

    def minimal(self) -> list[int]:
        """List the sets that contain no other one."""
        kept = Family(len(self._holders))
        for members in sorted(self.sets, key=int.bit_count):
            if not kept.within(members):
                kept.add(members)
        return kept.sets


def positions(members: int) -> Iterator[int]:
    """Columns of a bit mask, in increasing order."""
    while members:
        lowest = members & -members
        yield lowest.bit_length() - 1
        members ^= lowest


def mask(columns: Iterable[int]) -> int:
    """Bit mask of some columns."""
    return sum(1 << column for column in columns)


class _StopError(Exception):
    """The search ran out of its time."""


class _BorderSearch:
    """Search for one border: which sets pass (score within the limit) and which fail."""

    def __init__(self, limits: Sequence[float], columns: int, bounds: _Bounds) -> None:
        self.passed, self.failed = Family(columns), Family(columns)
        self.evaluated = 0
        self.complete = True
        self._limits, self._bounds = limits, bounds

    def run(self, base: int, columns: Sequence[int], data: Refinement) -> None:
        """Explore all sets that hold `base` and otherwise only `columns`.

        The families keep what is proven even where a stop or an interrupt ends the run early.
        """
        self.complete = False
        cut = self._explore(base, columns, data)
        self.complete = not cut

    def judge(self, members: int, score: float) -> bool:
        """Note the score of a set; whether it passes."""
        self.evaluated += 1
        passes = bool(score <= self._limits[members.bit_count()])
        (self.passed if passes else self.failed).add(members)
        return passes

    def _explore(self, base: int, columns: Sequence[int], data: Refinement) -> bool:
        """Explore the sets between `base`, which passes, and `base` with all `columns`.

        Returns whether sets were left out because of their size.
        """
        self._bounds.check(self.evaluated)
        whole = base | mask(columns)
        if base.bit_count() >= self._bounds.max_size:
            self._keep(base)
            return True
        if data.score is not None and whole.bit_count() <= self._bounds.max_size:
            if self.judge(whole, data.score):
                return False
        fitting = self._fitting(base, columns, data)
        cut = False
        for place, column in enumerate(fitting):
            child = base | 1 << column
            rest = [
                other
                for other in fitting[place + 1 :]
                if not self.failed.within(child | 1 << other)
            ]
            if self.passed.covers(child | mask(rest)):
                continue
            if rest:
                cut |= self._explore(child, rest, data.below(column, rest))
            else:
                self.passed.add(child)
        self._keep(base)
        return cut

    def _keep(self, passing: int) -> None:
        if not self.passed.covers(passing):
            self.passed.add(passing)

    def _fitting(self, base: int, columns: Sequence[int], data: Refinement) -> list[int]:
        """Columns that pass with the base, those with the highest score first."""
        open_columns, known = [], []
        for column in columns:
            if self.passed.covers(base | 1 << column):
                known.append(column)
            elif not self.failed.within(base | 1 << column):
                open_columns.append(column)
        scores = data.scores(open_columns)
        fitting = []
        for place in np.argsort(-scores, kind="stable"):
            child = base | 1 << open_columns[place]
            self.evaluated += 1
            if scores[place] <= self._limits[child.bit_count()]:
                fitting.append(open_columns[place])
            else:
                self.failed.add(child)
        return fitting + known


@dataclass(frozen=True, slots=True)
class _Bounds:
    """When a search must stop, and whom it tells how far it is."""

    deadline: float
    max_size: int
    progress: Callable[[int], None] | None

    def check(self, evaluated: int) -> None:
        if self.progress is not None:
            self.progress(evaluated)
        if time.monotonic() >= self.deadline:
            raise _StopError


def search(
    source: SpectrumSource,
    *,
    allow: Criterion,
    block: Criterion,
    must: Iterable[str] = (),
    never: Iterable[str] = (),
    time_limit: float | None = None,
    max_size: int | None = None,
    progress: Callable[[int], None] | None = None,
    known: Borders | None = None,
) -> Borders:
    """Find all maximal allowed and all minimal blocked sets of the APIs of a source.

    Parameters
    ----------
    source
        Where the spectra come from. Rows in memory (`MemorySource`) are searched many times
        faster than a source that is asked set by set.
    allow, block
        A set is allowed when its score is within the limit of `allow`, and blocked when its score
        is above the limit of `block`. When both are the same, no set is undecided and one search
        finds both borders.
    must, never
        Only sets that hold all of `must` and none of `never` are searched.
    time_limit
        Seconds after which the search ends with what is proven by then.
    max_size
        Largest number of APIs of a set that is looked at.
    progress
        Called now and then with the number of sets evaluated so far.
    known
        Borders of an earlier search, perhaps not complete, over the same data and criteria: they
        are taken as proven.

    Returns
    -------
    Borders
        An interrupt (Ctrl-C) ends the search like the time limit: what is returned is proven.

    Raises
    ------
    UnknownNameError
        An API that the source does not have.
    InputError
        An API both in `must` and `never`, or criteria with too few limits.
    """
    deadline = float("inf") if time_limit is None else time.monotonic() + time_limit
    never, must = set(never), sorted(set(must))
    _check_names(source, must, never)
    apis = [api for api in source.apis if api not in never]
    bounds = _Bounds(deadline, len(apis) if max_size is None else max_size, progress)
    for criterion in (allow, block):
        if len(criterion.limits) <= len(apis):
            raise InputError(f"search: {len(apis)} APIs need {len(apis) + 1} limits")
    lower = _border(source, allow, apis, must, bounds, known)
    upper = lower
    if not _same(allow, block):
        upper = _border(source, block, apis, must, bounds, known)
    return _borders(apis, lower, upper)


def _check_names(source: SpectrumSource, must: Iterable[str], never: Iterable[str]) -> None:
    for api in (*must, *never):
        if api not in source.apis:
            raise UnknownNameError("API", api, source.apis)
    both = sorted(set(must) & set(never))
    if both:
        raise InputError(f"search: {', '.join(both)} both must and must not be in the sets")


def _same(one: Criterion, other: Criterion) -> bool:
    """Whether two criteria give every set the same score and limit."""
    return np.array_equal(one.weights, other.weights) and np.array_equal(one.limits, other.limits)


def _border(
    source: SpectrumSource,
    criterion: Criterion,
    apis: Sequence[str],
    must: Sequence[str],
    bounds: _Bounds,
    known: Borders | None,
) -> _BorderSearch:
    """Search one border, as far as time and interrupts let it."""
    found = _BorderSearch(criterion.limits.tolist(), len(apis), bounds)
    base = mask(apis.index(api) for api in must)
    if known is not None:
        _recall(found, known, apis)
    try:
        if found.judge(base, criterion.score(source.spectrum(must))):
            columns = [column for column in range(len(apis)) if not base >> column & 1]
            found.run(base, columns, _refinement(source, criterion, apis, must, columns))
    except (_StopError, KeyboardInterrupt):
        found.complete = False
    return found
