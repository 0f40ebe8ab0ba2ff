"""The best of all sets of many APIs, and a weight that none exceeds.

Sets that pass (score within the limit of their size) are closed under subsets. APIs are ordered,
and doll `i` is the greatest weight of a passing set of the first `i`: the search for the next one
is cut off by those before it (Russian dolls: Verfaillie, Lemaitre, Schiex 1996; for cliques
Östergård 2002). Dolls are made from both ends of the order: no passing set weighs more than one of
its beginning, one of its end, and all APIs between them.

Limits fall with the size of a set, and a part of a set that passes stays within the limit of the
whole. So to prove that no set weighs more than a target, all parts of sets may be held to the limit
of the fewest APIs that weigh more. The first target is the best set that is known. Where that is
too hard to prove, targets just below what is proven follow: they leave fewer sets to search.

Columns that bring others along, such as levels, are searched like all others, by the limit of what
they bring along: of a set that passes any part passes so. Of 2 billion vectors of 12 components it
proved the best, of 3.6, in 9 s of processor, where whole-number programmes stood at 3.6 to 12.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from fpmonitor.decide.coherence import mask, positions
from fpmonitor.decide.decision import Reached
from fpmonitor.decide.effort import OutOfTimeError
from fpmonitor.decide.refinement import refinement_of
from fpmonitor.decide.search import ALL_SETS, Closures, check_names
from fpmonitor.decide.utility import checked_weights
from fpmonitor.population.memory import MemorySource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fpmonitor.decide.decision import ApiSet
    from fpmonitor.decide.effort import Effort
    from fpmonitor.decide.refinement import Refinement
    from fpmonitor.decide.search import Sought
    from fpmonitor.estimate.criterion import Criterion
    from fpmonitor.spectrum import SpectrumSource

_DIVERSE = 10  # sets, each made to differ from those before it
_AGAIN = 0.6  # of its weight, what an API counts for each of them that holds it
_PLAIN = 2500  # sets evaluated for one doll, before dolls within it are made
_EXCHANGING = 0.1  # share of the time that is for exchanges
_PATIENCE = 2.0  # times the work up to the last gain, before the next target
_ROWS = 2000  # whose counting takes as long as the calls for it
_STEPS = 4  # in which later targets come near to the best set, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class BestSet:
    """What is proven about the passing sets of a source; sets are sorted tuples of names.

    Attributes:
        sets: Passing sets that differ, the one of the greatest weight first; empty when none is
            known.
        bound: Weight that no passing set exceeds.
        proven: Whether the first of `sets` weighs that.
        refused: Sets that do not pass, of at most two APIs beside those that must be held.
        evaluated: Sets whose score was computed.
        reached: From where to go on; null where weights are not whole.
    """

    sets: list[ApiSet]
    bound: float
    proven: bool
    refused: list[ApiSet]
    evaluated: int
    reached: Reached | None


def best_set(
    source: SpectrumSource,
    criterion: Criterion,
    limits: Sequence[float],
    *,
    sought: Sought = ALL_SETS,
    effort: Effort,
    share: float = 1.0,
    known: Iterable[ApiSet] = (),
    reached: Reached | None = None,
) -> BestSet:
    """Find the passing set of the greatest weight, or one that is proven not to be far from it.

    Args:
        criterion: Gives the scores.
        limits: A set of `s` APIs passes when its score, and that of each of its subsets by their
            sizes, is at most `limits[s]`. Where limits grow with the size, not all subsets may be
            looked at: then `bound` is one, but `sets` need not pass.
        sought: Which sets are searched, of any size, and weights that are finite and not negative.
        effort: When to stop, and whom to tell how far the search is.
        share: Of the time that is left, what this search may take.
        known: Sets that are known to pass.
        reached: How far an earlier search came, for the same source, criterion, limits and sets.
    """
    check_names(source, sought)
    checked, apis = checked_weights(sought.weights), sought.free(source.apis)
    base = mask(apis.index(api) for api in sought.must)
    exact = [Fraction(checked.get(api, 1.0)) for api in apis]
    # Whole weights: sums of floats would tie, or not, by their order.
    scale = math.lcm(*(weight.denominator for weight in exact))
    if isinstance(source, MemorySource):
        source = source.restricted(apis)
    root = refinement_of(source, criterion, apis, positions(base))
    place = {api: 1 << column for column, api in enumerate(apis)}
    passing = {sum(place.get(api, 0) for api in members) for members in known}
    search = _Search(
        root,
        base,
        closures=Closures.of(apis, sought.along),
        limits=limits,
        weights=[int(weight * scale) for weight in exact],
        scale=scale,
        effort=effort,
    )
    with effort.until_stopped():
        search.run(
            share,
            known=[members ^ base for members in passing if members & base == base],
            apis=apis,
            reached=reached if scale == 1 else None,
        )
    return BestSet(
        sets=search.named(search.found, apis),
        bound=float(Fraction(search.bound, scale)),
        proven=search.proven,
        refused=search.named(search.refused, apis),
        evaluated=search.evaluated,
        reached=search.reached(apis) if scale == 1 else None,
    )


class _Search:
    """What is proven of the columns that may join a base; sets are masks without the base."""

    def __init__(
        self,
        root: Refinement,
        base: int,
        *,
        closures: Closures,
        limits: Sequence[float],
        weights: Sequence[int],
        scale: int,
        effort: Effort,
    ) -> None:
        self.weights, self.found, self.refused = weights, list[int](), list[int]()
        self.closures = closures
        self.conflicts = [0] * len(weights)
        self._known: dict[int, float] = {}  # the scores of columns and pairs
        self.root, self.evaluated = root, 0
        self._given, self._base, self._scale = [*limits[base.bit_count() :]], base, scale
        self._limits, self._target = self._given, 0
        self._order = [column for column in range(len(weights)) if not base >> column & 1]
        self.work, self._most = 0, math.inf  # rows counted; how many before the next target
        self._bound = sum(weights[column] for column in self._order)
        self._dolls: list[_Dolls] = []
        self._effort, self._told = effort, "comparing pairs"

    def weight(self, members: int) -> int:
        """Total weight of a set."""
        return sum(self.weights[column] for column in positions(members))

    def limit(self, members: int) -> float:
        """Return the limit of a set with all that its columns bring along, beside the base."""
        return self._limits[(self.closures.closure(members) & ~self._base).bit_count()]

    @property
    def bound(self) -> int:
        """Weight that no passing set exceeds."""
        if 0 in self.refused:
            return 0
        return self.weight(self._base) + min(self._bound, max(self._aim, self._joining()))

    @property
    def proven(self) -> bool:
        """Whether no passing set weighs more than the first one that was found."""
        return bool(self.found) and self.weight(self._base | self.found[0]) == self.bound

    @property
    def _aim(self) -> int:
        """Weight above which sets are searched, beside the base."""
        return max(self._target, self.weight(self.found[0]) if self.found else 0)

    def _joining(self) -> int:
        """Weight that no columns of a passing set above the aim exceed."""
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

    def _needed(self, ends: _Dolls) -> int:
        """Count the dolls at one end that lower the bound if none weighs more than the last."""
        first, last = self._dolls
        other = (last if ends is first else first).values
        before = [0, *accumulate(self.weights[column] for column in ends.order)]
        columns, value, least = len(ends.order), ends.values[-1], self._joining()
        for made in range(len(ends.values), columns + 1):
            rest = (
                end + before[columns - place] - before[made]
                for place, end in enumerate(other[: columns - made + 1])
            )
            if value + min(rest) < least:
                return made - len(ends.values) + 1
        return columns

    def run(
        self, share: float, *, known: Sequence[int], apis: Sequence[str], reached: Reached | None
    ) -> None:
        """Search for so large a share of the time that is left; see `best_set`."""
        until = self._effort.after(share)
        if self.root.union([]) > self._limits[0]:
            self.refused.append(0)
            return
        self.found.append(0)
        self._compare()
        for members in sorted(known, key=self.weight, reverse=True)[:_DIVERSE]:
            self.note(members)
        # Whoever goes on has what these found among the known sets.
        if reached is None:
            self._diversify()
            self._exchange(self._effort.after(share * _EXCHANGING))
        weighing = [column for column in self._order if self.weights[column]]
        # Only where limits fall does a higher target allow sharper ones for parts.
        falling = self._given[-1] < self._given[0]
        known_order = {apis[column]: column for column in weighing}
        if reached is not None and known_order.keys() >= {*reached.order}:
            self._bound = min(self._bound, reached.bound)
            self._aim_at(reached.target, [])
            order = self._order = [known_order[api] for api in reached.order]
            self._dolls = [
                _Dolls(self, order, reached.first),
                _Dolls(self, order[::-1], reached.last),
            ]
            self._settle(until)
        else:
            self._aim_at(0, weighing)
            self._settle(until, _PATIENCE if falling and until < math.inf else math.inf)
        lightest, before = min(map(self.weights.__getitem__, weighing), default=0), math.inf
        while falling and not self.proven and self._bound < before:
            before = self._bound
            # Near the bound first: few sets weigh so much, so such a target is settled soon.
            gap = before - self.weight(self.found[0])
            self._aim_at(before - max(lightest, gap // _STEPS), weighing)
            self._settle(until)

    def named(self, sets: Iterable[int], apis: Sequence[str]) -> list[ApiSet]:
        """Name the APIs of sets, with the base and all that their columns bring along."""
        whole = (self.closures.closure(self._base | members) for members in sets)
        return [tuple(apis[column] for column in positions(members)) for members in whole]

    def reached(self, apis: Sequence[str]) -> Reached | None:
        """Return from where to go on; null where nothing is settled."""
        if not self._dolls:
            return None
        first, last = (tuple(dolls.values) for dolls in self._dolls)
        order = tuple(apis[column] for column in self._order)
        return Reached(bound=self._bound, target=self._aim, order=order, first=first, last=last)

    def _aim_at(self, target: int, order: list[int]) -> None:
        """Search sets above a target, or above the best one, of the columns of an order."""
        self._dolls, self._order, self._target = [], order, target
        self._tighten()
        above = self._above(1)
        order = self._order = [column for column in order if 1 << column not in above]
        self._dolls = [_Dolls(self, order), _Dolls(self, order[::-1])]

    def _settle(self, until: float, patience: float = math.inf) -> None:
        """Bound the weight of the sets above the aim."""
        dolls, least = self._dolls, self._joining()
        self._most = math.inf
        try:
            while least > self._aim and not any(ends.done for ends in dolls):
                min(dolls, key=lambda ends: ends.cost * self._needed(ends)).grow(until)
                self.tell()
                if self._joining() < least:
                    least, self._most = self._joining(), patience * self.work
        except OutOfTimeError:
            pass
        self._bound = min(self._bound, max(self._aim, self._joining()))

    def _compare(self) -> None:
        """Look at all columns and pairs; the most exposing columns come first from then on."""
        scores = self.scores(self.root, self._order)
        singles = [1 << column for column in self._order]
        self._known = dict(zip(singles, scores, strict=True))
        self.refused += self._above(1)
        self._order = [column for column in self._order if 1 << column not in self.refused]
        exposing = dict.fromkeys(self._order, 0.0)
        for place, column in enumerate(self._order[:-1], 1):
            others = self._order[place:]
            scores = self.scores(self.root.joined(column), others)
            for other, score in zip(others, scores, strict=True):
                self._known[1 << column | 1 << other] = score
                for one in (column, other):
                    exposing[one] += min(score, self._limits[2])
        self.refused += self._above(2)
        # The most exposing first: dolls of them stay small, and cut off most of those that follow.
        self._order.sort(key=lambda column: -exposing[column])
        self._tighten()

    def _above(self, size: int) -> list[int]:
        return [
            members
            for members, score in self._known.items()
            if members.bit_count() == size and score > self.limit(members)
        ]

    def _tighten(self) -> None:
        """Take no limit above that of the fewest columns that weigh more than the aim."""
        heaviest = sorted((self.weights[column] for column in self._order), reverse=True)
        # No set of fewer columns weighs more than the aim; parts keep the limit of the whole.
        least = 1 + sum(weight <= self._aim for weight in accumulate(heaviest))
        self._limits = [*accumulate(self._given[least::-1], min)][::-1] + self._given[least + 1 :]
        self.conflicts = [0] * len(self.weights)
        for members in self._above(2):
            for column in positions(members):
                self.conflicts[column] |= members ^ 1 << column

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
                self.offer(self.grown(tried ^ 1 << column, others, self.weights))
                if tried != self.found[0]:
                    break

    def grown(self, members: int, columns: Sequence[int], weights: Sequence[float]) -> int:
        """Let columns join a passing set, always the one that adds the least score by weight."""
        data, now = self.root, 0.0
        for column in positions(members):
            data = data.joined(column)
        left = self.compatible(members, columns)
        while left:
            scores = zip(self.scores(data, left), left, strict=True)
            passing = [
                (score, column)
                for score, column in scores
                if score <= self.limit(members | 1 << column)
            ]
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
        members = self.closures.closure(members) & ~self._base
        if members in self.found:
            return
        better = self.weight(members) > self.weight(self.found[0])
        self.found.insert(0 if better else len(self.found), members)
        if better and self._dolls:
            self._tighten()
        self.tell()

    def offer(self, members: int) -> None:
        """Keep a passing set if it is the best."""
        if self.weight(self.closures.closure(members) & ~self._base) > self.weight(self.found[0]):
            self.note(members)

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
        if self.work > self._most:
            raise OutOfTimeError
        self.evaluated += len(columns)
        self.work += len(columns) * (data.rows + _ROWS)
        scores: list[float] = data.steps(columns).scores.tolist()
        return scores

    def passing(self, data: Refinement, members: int, columns: Sequence[int]) -> list[int]:
        """Those of `columns` that pass alone with a set, the base of some data."""
        scores = zip(columns, self.scores(data, columns), strict=True)
        return [column for column, score in scores if score <= self.limit(members | 1 << column)]


class _TooHardError(Exception):
    """A doll takes more than a plain search."""


class _Part(NamedTuple):
    """The sets that hold `members`, a passing set and the base of `data`, and some of `columns`.

    `most` tells for each column what no passing set of it and the columns before it weighs more
    than, beside `members`.
    """

    data: Refinement
    members: int
    columns: list[int]
    most: Mapping[int, int]


# Asks what columns of a part gain between a floor and a top, and is told it.
_Gaining = Generator[tuple[_Part, int, int], int, int]


class _Dolls:
    """The greatest weights of passing sets of the first columns of an order, one after another."""

    def __init__(self, search: _Search, order: Sequence[int], values: Sequence[int] = (0,)) -> None:
        self.values = [*values]
        self._search, self.order = search, order
        self._heaviest, self._data = 0, search.root  # a passing set, and where it is the base
        self.cost = 0  # rows that the next doll may take, by those before it
        self._until = self._evaluations = math.inf

    @property
    def done(self) -> bool:
        """Whether there is one of all columns."""
        return len(self.values) > len(self.order)

    def grow(self, until: float) -> None:
        """Make one doll more."""
        self._until, before = until, self._search.work
        place = len(self.values) - 1
        self.values.append(self._made(self.order[place], self.order[:place]))
        self.cost = max(self._search.work - before, self.cost // 2)

    def _made(self, column: int, before: Sequence[int]) -> int:
        """Make the doll of one column more."""
        search, weight, last = self._search, self._search.weights[column], self.values[-1]
        # No doll weighs more than the one before with the new column: such a set proves it at once.
        fits = search.weight(self._heaviest) == last and search.compatible(self._heaviest, [column])
        if fits and search.passing(self._data, self._heaviest, fits):
            self._heaviest |= 1 << column
            self._data = self._data.joined(column)
            search.offer(self._heaviest)
            return last + weight
        free = search.compatible(1 << column, before)
        value, most = last, dict(zip(before, self.values[1:], strict=True))
        if value < last + weight and weight + self._ceilings(free, most)[-1] > value:
            members = search.grown(1 << column, free, search.weights)
            search.offer(members)
            value = max(value, search.weight(members))
            part = _Part(search.root.joined(column), 1 << column, free, most)
            floor, top = value - weight, last
            self._evaluations = search.evaluated + _PLAIN
            try:
                value = weight + self._gained(part, floor, top)
            except _TooHardError:
                self._evaluations = math.inf
                value = weight + self._gained(part, floor, top, by_dolls=True)
        return min(value, last + weight)

    def _gained(self, part: _Part, floor: int, top: int, *, by_dolls: bool = False) -> int:
        """Weight of the best columns that join, if it exceeds `floor`; `top` and more is enough."""
        # Not by recursion: a set may have more APIs than Python allows calls within each other.
        open_parts = [self._gaining(part, floor, top, by_dolls=by_dolls)]
        gained: int | None = None
        while open_parts:
            last = open_parts[-1]
            try:
                inner = next(last) if gained is None else last.send(gained)
            except StopIteration as end:
                open_parts.pop()
                gained = int(end.value)
            else:
                open_parts.append(self._gaining(*inner))
                gained = None
        return gained or 0

    def _gaining(self, part: _Part, floor: int, top: int, *, by_dolls: bool = False) -> _Gaining:
        """Yield what is to be gained by parts of the sets; return what `_gained` does."""
        if time.monotonic() >= self._until:
            raise OutOfTimeError
        search, weights = self._search, self._search.weights
        if floor >= top or not part.columns:
            return floor
        if search.evaluated > self._evaluations:
            raise _TooHardError
        data, _ = part.data.narrowed(part.columns)
        passing = search.passing(data, part.members, part.columns)
        part = _Part(data, part.members, passing, part.most)
        heaviest = max(passing, key=weights.__getitem__, default=None)
        if heaviest is not None:
            search.offer(part.members | 1 << heaviest)
            floor = max(floor, weights[heaviest])
        if by_dolls:
            return (yield from self._gaining_by_dolls(part, floor, top))
        # By the last column of a set: from where a ceiling is not above the floor, none before is.
        ceilings = self._ceilings(passing, part.most)
        for place in reversed(range(len(passing))):
            if floor >= top or ceilings[place + 1] <= floor:
                break
            floor = yield from self._gaining_with(part, place, floor, top)
        return floor

    def _gaining_by_dolls(self, part: _Part, floor: int, top: int) -> _Gaining:
        """Make dolls of the columns that join: they cut off far more, but all have to be made."""
        own: dict[int, int] = {}
        within, value = part._replace(most=own), 0
        for place, column in enumerate(part.columns):
            weight = self._search.weights[column]
            highest = min(value + weight, part.most[column])
            value = min(max(value, weight), highest)
            value = own[column] = yield from self._gaining_with(within, place, value, highest)
            rest = self._ceilings(part.columns[place + 1 :], part.most, value)
            if value >= top or rest[-1] <= floor:
                break
        return max(value, floor)

    def _gaining_with(self, part: _Part, place: int, floor: int, top: int) -> _Gaining:
        """Return what is gained by sets of which the column at a place is the last."""
        search, column = self._search, part.columns[place]
        weight = search.weights[column]
        rest = search.compatible(1 << column, part.columns[:place])
        if floor >= top or weight + self._ceilings(rest, part.most)[-1] <= floor:
            return floor
        joined = _Part(part.data.joined(column), part.members | 1 << column, rest, part.most)
        return weight + (yield joined, floor - weight, top - weight)

    def _ceilings(
        self, columns: Iterable[int], most: Mapping[int, int], value: int = 0
    ) -> list[int]:
        """Weights that no passing set of none, one, two... of `columns` exceeds, after `value`."""
        ceilings = [value]
        for column in columns:
            ceilings.append(min(ceilings[-1] + self._search.weights[column], most[column]))
        return ceilings
