"""The best of all sets of many APIs, and a weight that none exceeds.

Sets that pass (score within the limit of their size) are closed under subsets. APIs are ordered,
and doll `i` is the greatest weight of a passing set of the first `i`: the search for the next one
is cut off by those before it (Russian dolls: Verfaillie, Lemaitre, Schiex 1996; for cliques
Östergård 2002). Dolls are made from both ends of the order: no passing set weighs more than one of
its beginning, one of its end, and all APIs between them.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING

from fpmonitor.decide.effort import OutOfTimeError
from fpmonitor.decide.refinement import refinement_of
from fpmonitor.decide.search import mask, positions
from fpmonitor.errors import EngineLostError
from fpmonitor.population.memory import MemorySource

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from fpmonitor.decide.decision import ApiSet
    from fpmonitor.decide.effort import Effort
    from fpmonitor.decide.refinement import Refinement
    from fpmonitor.estimate.criterion import Criterion
    from fpmonitor.spectrum import SpectrumSource

_DIVERSE = 10  # sets, each made to differ from those before it
_AGAIN = 0.6  # of its weight, what an API counts for each of them that holds it
_EXCHANGING, _ENDING = 0.1, 0.15  # shares of the time: for exchanges, for the least exposing


@dataclass(frozen=True, slots=True, kw_only=True)
class BestSet:
    """What is proven about the passing sets of a source; sets are sorted tuples of names.

    Attributes
    ----------
    sets
        Passing sets that differ, the one of the greatest weight first; empty when none is known.
    bound
        Weight that no passing set exceeds.
    proven
        Whether the first of `sets` weighs that.
    refused
        Sets that do not pass, of at most two APIs beside those that must be held.
    evaluated
        Sets whose score was computed.
    """

    sets: list[ApiSet]
    bound: float
    proven: bool
    refused: list[ApiSet]
    evaluated: int


def best_set(
    source: SpectrumSource,
    criterion: Criterion,
    limits: Sequence[float],
    *,
    weights: Mapping[str, float],
    must: Collection[str] = (),
    never: Collection[str] = (),
    effort: Effort,
    share: float = 1.0,
) -> BestSet:
    """Find the passing set of the greatest weight, or one that is proven not to be far from it.

    Parameters
    ----------
    source
        Where the spectra come from.
    criterion
        Gives the scores.
    limits
        A set of `s` APIs passes when its score, and that of each of its subsets by their sizes, is
        at most `limits[s]`. Where limits grow with the size, not all subsets may be looked at: then
        `bound` is one, but `sets` need not pass.
    weights
        Utility of each API, finite and not negative; 1 where not named.
    must, never
        Only sets that hold all of `must` and none of `never` are searched.
    effort
        When to stop, and whom to tell how far the search is.
    share
        Of the time that is left, what this search may take.

    Raises
    ------
    EngineLostError
        The engine that holds the users was lost before anything was proven.
    """
    apis = [api for api in source.apis if api not in never]
    base = mask(apis.index(api) for api in must)
    exact = [Fraction(weights.get(api, 1.0)) for api in apis]
    scale = math.lcm(*(weight.denominator for weight in exact))
    if isinstance(source, MemorySource):
        source = source.restricted(apis)
    root = refinement_of(source, criterion, apis, positions(base))
    search = _Search(
        root,
        base,
        limits=limits,
        weights=[int(weight * scale) for weight in exact],
        scale=scale,
        effort=effort,
    )
    with effort.until_stopped():
        try:
            search.run(share)
        except EngineLostError:
            if not search.evaluated:
                raise
            effort.stopped = True

    def named(sets: Iterable[int]) -> list[ApiSet]:
        return [tuple(apis[column] for column in positions(base | members)) for members in sets]

    return BestSet(
        sets=named(search.found),
        bound=float(Fraction(search.bound, scale)),
        proven=search.proven,
        refused=named(search.refused),
        evaluated=search.evaluated,
    )


class _Search:
    """What is proven of the columns that may join a base; sets are masks without the base."""

    def __init__(
        self,
        root: Refinement,
        base: int,
        *,
        limits: Sequence[float],
        weights: Sequence[int],
        scale: int,
        effort: Effort,
    ) -> None:
        self.weights, self.found, self.refused = weights, list[int](), list[int]()
        self.conflicts = [0] * len(weights)
        self.root, self.evaluated = root, 0
        self._limits, self._base, self._scale = limits[base.bit_count() :], base, scale
        self._order = [column for column in range(len(weights)) if not base >> column & 1]
        self._dolls: list[_Dolls] = []
        self._effort, self._told = effort, "comparing pairs"

    def weight(self, members: int) -> int:
        """Total weight of a set."""
        return sum(self.weights[column] for column in positions(members))

    @property
    def bound(self) -> int:
        """Weight that no passing set exceeds."""
        if 0 in self.refused:
            return 0
        return self.weight(self._base) + self._joining()

    @property
    def proven(self) -> bool:
        """Whether no passing set weighs more than the first one that was found."""
        return bool(self.found) and self.weight(self.found[0]) == self._joining()

    def _joining(self) -> int:
        """Weight that no columns of a passing set exceed, beside the base."""
        before = [0, *accumulate(self.weights[column] for column in self._order)]
        if not self._dolls:
            return before[-1]
        first, last = (dolls.values for dolls in self._dolls)
        columns = len(before) - 1
        return min(
            weight + end + before[columns - j] - before[i]
            for i, weight in enumerate(first)
            for j, end in enumerate(last[: columns - i + 1])
        )

    def run(self, share: float) -> None:
        """Search for so large a share of the time that is left."""
        until = self._effort.after(share)
        if self.root.union([]) > self._limits[0]:
            self.refused.append(0)
            return
        self.found.append(0)
        self._compare()
        self._diversify()
        self._exchange(self._effort.after(share * _EXCHANGING))
        order = self._order = [column for column in self._order if self.weights[column]]
        first, last = self._dolls = [_Dolls(self, order), _Dolls(self, order[::-1])]
        last.run(self._effort.after(share * _ENDING))
        first.run(until)

    def _compare(self) -> None:
        """Look at all columns and pairs; the most exposing columns come first from then on."""
        scores = self.scores(self.root, self._order)
        joining = list(zip(self._order, scores, strict=True))
        self.refused += [1 << column for column, score in joining if score > self._limits[1]]
        self._order = [column for column, score in joining if score <= self._limits[1]]
        exposing = dict.fromkeys(self._order, 0.0)
        for place, column in enumerate(self._order[:-1], 1):
            others = self._order[place:]
            scores = self.scores(self.root.joined(column), others)
            for other, score in zip(others, scores, strict=True):
                for one in (column, other):
                    exposing[one] += min(score, self._limits[2])
                if score > self._limits[2]:
                    self.conflicts[column] |= 1 << other
                    self.conflicts[other] |= 1 << column
                    self.refused.append(1 << column | 1 << other)
        self._order.sort(key=lambda column: -exposing[column])

    def _diversify(self) -> None:
        """Find sets that differ."""
        weights = [float(weight) for weight in self.weights]
        for _ in range(_DIVERSE):
            members = self.grown(0, self._order, weights)
            for column in positions(members):
                weights[column] *= _AGAIN
            self.note(members)

    def _exchange(self, until: float) -> None:
        """Take one column out of the best set and let others join, as long as that gains."""
        tried = None
        while tried != self.found[0]:
            tried = self.found[0]
            for column in positions(tried):
                if time.monotonic() >= until:
                    return
                others = [other for other in self._order if other != column]
                members = self.grown(tried ^ 1 << column, others, self.weights)
                if self.weight(members) > self.weight(tried):
                    self.note(members)
                    break

    def grown(self, members: int, columns: Sequence[int], weights: Sequence[float]) -> int:
        """Let columns join a passing set, always the one that adds the least score by weight."""
        data, now = self.root, 0.0
        for column in positions(members):
            data = data.joined(column)
        left = self.compatible(members, columns)
        while left:
            limit = self._limits[members.bit_count() + 1]
            scores = zip(self.scores(data, left), left, strict=True)
            passing = [(score, column) for score, column in scores if score <= limit]
            if not passing:
                break
            now, column = min(
                passing, key=lambda step: ((step[0] - now) / (weights[step[1]] or 1e-9), *step)
            )
            members |= 1 << column
            left = self.compatible(1 << column, [other for _, other in passing])
            data = data.joined(column)
        return members

    def compatible(self, members: int, columns: Iterable[int]) -> list[int]:
        """Those of `columns` outside a set that are in conflict with none of it."""
        out = members
        for column in positions(members):
            out |= self.conflicts[column]
        return [column for column in columns if not out >> column & 1]

    def note(self, members: int) -> None:
        """Keep a passing set, in the first place if it is the best."""
        if members in self.found:
            return
        better = self.weight(members) > self.weight(self.found[0])
        self.found.insert(0 if better else len(self.found), members)
        self.tell()

    def tell(self) -> None:
        """Say anew how far the search is."""
        best, bound = (
            number / self._scale for number in (self.weight(self._base | self.found[0]), self.bound)
        )
        settled = min(len(self._order), sum(len(dolls.values) - 1 for dolls in self._dolls))
        words = f"best {best:.6g}, no set above {bound:.6g}"
        self._told = f"{words}, {settled} of {len(self._order)} APIs settled"

    def scores(self, data: Refinement, columns: Sequence[int]) -> list[float]:
        """Score of the base of some data with each of `columns` alone."""
        self._effort.check(self._told)
        self.evaluated += len(columns)
        scores: list[float] = data.steps(columns).scores.tolist()
        return scores

    def passing(self, data: Refinement, members: int, columns: Sequence[int]) -> list[int]:
        """Those of `columns` that pass alone with a set, the base of some data."""
        limit = self._limits[members.bit_count() + 1]
        scores = self.scores(data, columns)
        return [column for column, score in zip(columns, scores, strict=True) if score <= limit]


class _ReachedError(Exception):
    """A doll weighs as much as it can."""


class _Dolls:
    """The greatest weights of passing sets of the first columns of an order, one after another."""

    def __init__(self, search: _Search, order: Sequence[int]) -> None:
        self.values = [0]
        self._search, self._order = search, order
        self._place = {column: place for place, column in enumerate(order, 1)}
        self._until = self._most = 0.0
        self._value = self._best = 0

    def run(self, until: float) -> None:
        """Make dolls until they are done, or the best set is proven, or time is up."""
        self._until = until
        try:
            for place in range(len(self.values) - 1, len(self._order)):
                if self._search.proven:
                    return
                self._make(self._order[place], self._order[:place])
                self.values.append(self._value)
                self._search.tell()
        except OutOfTimeError:
            self._value = self.values[-1]

    def _make(self, column: int, before: Sequence[int]) -> None:
        search, weight = self._search, self._search.weights[column]
        self._most = self._value + weight
        held = mask([column, *before])
        free = search.compatible(1 << column, before)
        try:
            for members in search.found:
                self._note(members & held)
            if weight + self._ceilings(free)[-1] > self._value:
                self._note(search.grown(1 << column, free, search.weights))
                self._explore(search.root.joined(column), 1 << column, weight, free)
        except _ReachedError:
            pass

    def _note(self, members: int) -> None:
        """Take a passing set of the columns so far for the doll if it weighs more."""
        weight = self._search.weight(members)
        if weight > self._value:
            self._value = weight
            if weight > self._search.weight(self._search.found[0]):
                self._search.note(members)
            if weight >= self._most:
                raise _ReachedError

    def _ceilings(self, columns: Sequence[int]) -> list[int]:
        """Weights that no passing set of the first of `columns` exceeds, for none, one, two..."""
        ceilings = [0]
        for column in columns:
            weight = ceilings[-1] + self._search.weights[column]
            ceilings.append(min(weight, self.values[self._place[column]]))
        return ceilings

    def _explore(self, data: Refinement, members: int, weight: int, columns: list[int]) -> None:
        """Look for a set that weighs more than the doll: `members` and some of `columns`."""
        if time.monotonic() >= self._until:
            raise OutOfTimeError
        search, weights = self._search, self._search.weights
        data, _ = data.narrowed(columns)
        passing = search.passing(data, members, columns)
        heaviest = max(passing, key=weights.__getitem__, default=None)
        self._note(members if heaviest is None else members | 1 << heaviest)
        ceilings = self._ceilings(passing)
        for place in reversed(range(len(passing))):
            if weight + ceilings[place + 1] <= self._value:
                return
            column = passing[place]
            rest = search.compatible(1 << column, passing[:place])
            joined = weight + weights[column]
            if rest and joined + self._ceilings(rest)[-1] > self._value:
                self._explore(data.joined(column), members | 1 << column, joined, rest)
