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
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.decide.refinement import SourceRefinement, TableRefinement
from fpmonitor.engine.memory import MemorySource
from fpmonitor.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from fpmonitor.decide.refinement import Refinement
    from fpmonitor.estimate.criterion import Criterion
    from fpmonitor.spectrum import SpectrumSource

FACT=1
ORD=3
FACT2=1
STAT=[0,0,0]
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

    def extended(self, members: int, columns: Sequence[int]) -> list[int]:
        """Those of `columns` with which `members` is within some set of the family."""
        holders = (1 << len(self.sets)) - 1
        for column in positions(members):
            holders &= self._holders[column]
        return [column for column in columns if holders & self._holders[column]]

    def completed(self, members: int, columns: Sequence[int]) -> set[int]:
        """Those of `columns` with which `members` contains some set, as it does not by itself."""
        others = 0
        chosen = members | mask(columns)
        for column, holders in enumerate(self._holders):
            if not chosen >> column & 1:
                others |= holders
        once, twice = 0, others
        for column in columns:
            twice |= once & self._holders[column]
            once |= self._holders[column]
        return {column for column in columns if self._holders[column] & ~twice}

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


class _BorderSearch:
    """Search for one border: which sets pass (score within the limit) and which fail.

    The families hold what is proven, also when a stop or an interrupt ends the search early.
    """

    def __init__(self, limits: NDArray[np.float64], columns: int, bounds: _Bounds) -> None:
        self.passed, self.failed = Family(columns), Family(columns)
        self.evaluated = 0; self.sc={}
        self.complete = True
        self._limits, self._bounds = limits.tolist(), bounds

    def judge(self, members: int, score: float) -> bool:
        """Note the score of a set; whether it passes."""
        self.evaluated += 1
        passes = bool(score <= self._limits[members.bit_count()])
        (self.passed if passes else self.failed).add(members)
        return passes

    def explore(
        self, core: int, base: int, hopes: dict[int, float], score: float, data: Refinement
    ) -> None:
        """Explore the sets between `base`, which passes, and `base` with all columns of `hopes`.

        `core` is the part of the base without columns that add nothing to it. `hopes` estimates,
        errring low, what each column adds to the score of the base, which is `score`.
        """
        self._bounds.check(self.evaluated)
        limit = self._limits[-1]
        columns = [*hopes]
        m = mask(columns)
        data, whole = data.narrowed(columns)
        if whole is None and (len(columns)==1 or score + sum(hopes.values()) <= limit):
            whole = data.union(columns)
        if whole is not None:
            self.evaluated += 1
            if whole <= limit:
                self.passed.add(base | m)
                return
            self.failed.add(core | m)
            if len(columns) == 1:
                self._keep(base)
                return
        self._probe(core, base, hopes, score, data)
        known = self.passed.extended(base, columns)
        asked = [column for column in columns if column not in known]
        steps = data.steps(asked)
        self.evaluated += len(asked)
        good = set(known)
        if ORD==1 and base==0 or ORD==2 or ORD==3 and base:
            gg={**dict.fromkeys(known,0),**dict(zip(asked,steps.splits.tolist()))}
            columns=sorted(columns,key=lambda c:-gg[c])
        det = 0
        sc = dict(hopes)
        for c, x, sp in zip(asked, steps.scores.tolist(), steps.splits.tolist()):
            if sp <= data.groups:
                det |= 1 << c
            elif x > limit:
                self.failed.add(core | 1 << c)
            else:
                good.add(c)
                sc[c] = x-score
        base |= det
        fitting = [c for c in columns if c in good]
        for place, column in enumerate(fitting):
            child = base | 1 << column
            rest = fitting[place + 1 :]
            bad = self.failed.completed(child, rest)
            if core != base:
                for o in bad:
                    if not self.failed.within(core | 1 << column | 1 << o):
                        self.failed.add(core | 1 << column | 1 << o)
            rest = [o for o in rest if o not in bad]
            if self.passed.covers(child | mask(rest)):
                continue
            if not rest:
                self.passed.add(child)
            else:
                self.explore(core | 1 << column, child, {o: sc[o] for o in rest}, score+sc[column], data.joined(column))
        self._keep(base)

    def _probe(self, core, base, hopes, score, data):
        limit = self._limits[-1]
        group = []
        for column in sorted(hopes, key=hopes.get):
            score += hopes[column]
            if score > limit:
                break
            group.append(column)
        m=mask(group)
        if 3 <= len(group) < len(hopes) and not self.passed.covers(base | m) and not self.failed.within(base|m):
            self.evaluated += 1
            if data.union(group) <= limit:
                self.passed.add(base | m)
            else:
                self.failed.add(core | m)

    def _keep(self, passing: int) -> None:
        if not self.passed.covers(passing):
            self.passed.add(passing)


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
        An API both in `must` and `never`, criteria with too few limits, or criteria that allow
        and block the same set.
    """
    must, never = sorted(set(must)), set(never)
    _check_names(source, must, never)
    apis = [api for api in source.apis if api not in never]
    if min(len(allow.limits), len(block.limits)) <= len(apis):
        raise InputError(f"search: {len(apis)} APIs need {len(apis) + 1} limits")
    deadline = float("inf") if time_limit is None else time.monotonic() + time_limit
    bounds = _Bounds(deadline, len(apis) if max_size is None else max_size, progress)
    lower = _BorderSearch(allow.limits, len(apis), bounds)
    upper = lower if _same(allow, block) else _BorderSearch(block.limits, len(apis), bounds)
    if known is not None:
        _recall(apis, known, lower, upper)
    try:
        _run(lower, source, allow, apis, must)
        if upper is not lower:
            _run(upper, source, block, apis, must)
    except (_StopError, KeyboardInterrupt):
        lower.complete = False
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


def _recall(
    apis: Sequence[str], known: Borders, lower: _BorderSearch, upper: _BorderSearch
) -> None:
    """Take the borders of an earlier search as proven."""
    column = {api: place for place, api in enumerate(apis)}
    for sets, families in (
        (known.allow, (lower.passed, upper.passed)),
        (known.block, (lower.failed, upper.failed)),
        (known.undecided, (lower.failed,)),
    ):
        for members in sets:
            if column.keys() >= set(members):
                for family in dict.fromkeys(families):
                    family.add(mask(column[api] for api in members))


def _run(
    border: _BorderSearch,
    source: SpectrumSource,
    criterion: Criterion,
    apis: Sequence[str],
    must: Sequence[str],
) -> None:
    """Search one border among the sets of `apis` that hold all of `must`."""
    base = [place for place, api in enumerate(apis) if api in must]
    columns = [place for place, api in enumerate(apis) if api not in must]
    if not border.judge(mask(base), criterion.score(source.spectrum(must))):
        return
    data: Refinement
    def ent(c):
        x=source.table_of(apis); b=np.bincount(x.columns[c],x.weights); b=b[b>0]/b.sum(); return float(b@np.log(b))
    if ORD in (0,3): columns.sort(key=ent)
    if isinstance(source, MemorySource):
        data = TableRefinement.of(source.table_of(apis), criterion, base, columns)
    else:
        data = SourceRefinement(source, criterion, must, apis)
    border.explore(mask(base), mask(base), dict.fromkeys(columns,0.), 0., data)


def _borders(apis: Sequence[str], lower: _BorderSearch, upper: _BorderSearch) -> Borders:
    """Put the proven sets into words."""
    blocked = Family(len(apis))
    for members in upper.failed.minimal():
        blocked.add(members)
    allowed = lower.passed.maximal()
    if any(blocked.within(members) for members in allowed):
        raise InputError("search: the criteria allow and block the same set")
    refused = [members for members in lower.failed.minimal() if not blocked.within(members)]
    return Borders(
        allow=_names(apis, allowed),
        block=_names(apis, blocked.sets),
        undecided=_names(apis, refused),
        complete=lower.complete and upper.complete,
        evaluated=lower.evaluated + (0 if upper is lower else upper.evaluated),
    )


def _names(apis: Sequence[str], sets: Iterable[int]) -> list[ApiSet]:
    return sorted(tuple(apis[column] for column in positions(members)) for members in sets)
