"""Search for the borders: all maximal allowed and all minimal blocked API sets.

Scores grow with the set and limits do not, so every subset of an allowed set is allowed and every
superset of a blocked one is blocked: the two borders say it all. The search goes depth-first,
the most exposing API first, and tries the union of all that may still join before it branches
(look-ahead, as in the mining of maximal frequent item sets: Burdick, Calimlim, Gehrke 2001,
"MAFIA"; Gouda, Zaki 2001, "GenMax"). What is known is never evaluated again.

Levels of an API are columns, too: who sees a finer one sees all coarser ones, so each column brings
those along, and a set has the limit of so many columns. Sets are closed in that sense throughout;
of the failing ones the families hold the finest columns alone, so that one column completes them.
A search of its own for level vectors found the same borders of 3.1 million in the same time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import chain, combinations
from operator import or_
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fpmonitor.decide.coherence import Family, Names, mask, positions
from fpmonitor.decide.effort import Effort
from fpmonitor.decide.refinement import SMALL, refinement_of
from fpmonitor.errors import InputError, UndecidableError, UnknownNameError
from fpmonitor.estimate.criterion import Criterion
from fpmonitor.population.memory import MemorySource
from fpmonitor.spectrum import SpectrumSource

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from fpmonitor.decide.decision import ApiSet
    from fpmonitor.decide.refinement import Refinement
    from fpmonitor.estimate.cohort_budget import Condition
    from fpmonitor.estimate.criterion import Refutation
    from fpmonitor.spectrum import CountSpectrum

# Of every size, as far as they are so few: that blocks 70 % on real tables, and 68 % without.
_MOST_REFUTED = 1023  # sets that are tested one by one: all of ten APIs
_REFUTED_TOGETHER = 20
_LEFT = 0.75  # of the score of a set that fails far off, what one column less mostly leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """Which sets are searched, and what they are worth; by default all of the APIs of a source."""

    # must, never: Only sets that hold all of the ones, and none of the others.
    must: Collection[str] = ()
    never: Collection[str] = ()
    max_size: int | None = None  # Largest number of APIs of a set that is looked at.
    # Returns a set with all that its APIs bring along, such as the coarser levels of one; those are
    # APIs of the source. What is known, and what is returned, holds them.
    along: Callable[[Iterable[str]], Collection[str]] = tuple
    weights: Mapping[str, float] = field(default_factory=dict)  # Of each API; 1 where not named.

    def free(self, apis: Iterable[str]) -> list[str]:
        """Those that a set may hold."""
        never = {*self.never}
        return [api for api in apis if never.isdisjoint(self.along([api]))]

    def allows(self, apis: Collection[str]) -> bool:
        """Whether a set, with all that comes along, is one of them."""
        small = self.max_size is None or len(apis) <= self.max_size
        return small and {*self.must} <= {*apis} and {*apis}.isdisjoint(self.never)


ALL_SETS = Sought()


@dataclass(frozen=True, slots=True, kw_only=True)
class Borders:
    """What a search has proven about the sets of APIs.

    Sets are sorted tuples of names, lists of sets are sorted.

    Attributes:
        allow: Allowed sets, none within another. If `complete`, all maximal ones. `[()]` when only
            the empty set is allowed, `[]` when not even that is.
        block: Blocked sets, none within another. If `complete`, all minimal ones.
        undecided: Sets proven not allowed and not proven blocked, none within another.
        complete: Whether every set is either within one of `allow` or contains one of the others.
        evaluated: Sets whose score was computed.
    """

    allow: list[ApiSet]
    block: list[ApiSet]
    undecided: list[ApiSet]
    complete: bool
    evaluated: int

    @classmethod
    def nothing(cls) -> Borders:
        """Return what is proven before any search."""
        return cls(allow=[], block=[], undecided=[], complete=False, evaluated=0)

    def proving(
        self, allow: Sequence[ApiSet], block: Sequence[ApiSet], *, evaluated: int
    ) -> Borders:
        """Return these with what was proven besides, of so many sets that were looked at."""
        allowed = largest({*self.allow, *allow})
        allowed_sets = [{*one} for one in allowed]
        return replace(
            self,
            allow=allowed,
            block=[*self.block, *block],
            undecided=[
                one for one in self.undecided if not any(map({*one}.issubset, allowed_sets))
            ],
            evaluated=self.evaluated + evaluated,
        )

    def keeping(self, condition: Borders) -> Borders:
        """Return what is allowed also by a condition, of which sets that fail here were known.

        What fails the condition, and is not blocked here, is undecided.
        """
        failing = condition.block
        if failing == [()]:  # nothing is allowed, whatever is read besides
            failing = [
                (api,) for api in sorted({*chain(*self.allow, *self.block, *self.undecided)})
            ]
        names = Names(self.allow, condition.allow, failing, self.block)
        here, blocked = names.family(self.allow), names.family(self.block)
        parts = set[int]()
        for other in map(names.mask, condition.allow):
            parts |= {other} if here.has_superset(other) else {other & one for one in here.sets}
        return replace(
            self,
            allow=names.sets(Family(len(names.of_columns), parts).maximal()),
            undecided=[one for one in failing if not blocked.has_subset(names.mask(one))],
            complete=self.complete and condition.complete,
            evaluated=self.evaluated + condition.evaluated,
        )

    def without(self, apis: Collection[str]) -> Borders:
        """Return what is proven about sets that hold none of some APIs."""
        if not apis:
            return self
        parts = {tuple(api for api in members if api not in apis) for members in self.allow}
        return replace(
            self,
            allow=largest(members for members in parts if members),
            block=[members for members in self.block if not {*apis} & {*members}],
            undecided=[members for members in self.undecided if not {*apis} & {*members}],
            complete=False,
        )


def largest(sets: Iterable[ApiSet]) -> list[ApiSet]:
    """Those of some sets that are within no other one, sorted."""
    listed = [*sets]
    names = Names(listed)
    return names.sets(names.family(listed).maximal())


def smallest(sets: Iterable[ApiSet]) -> list[ApiSet]:
    """Those of some sets that hold no other one, sorted."""
    listed = [*sets]
    names = Names(listed)
    return names.sets(names.family(listed).minimal())


class _Node(NamedTuple):
    """The sets between `base`, which passes, and `base` with all columns of `estimated_gains`.

    Attributes:
        core: The base without the columns that add nothing to it: it has the same score.
        base: Columns of every set of the node.
        score: Score of the base.
        estimated_gains: For each column that may join, in the order of the search, what it is known
            to add to the score of a part of the base: an estimate that mostly errs low.
        joining: Bit mask of the columns of `estimated_gains`.
        data: Gives the scores of these sets.
        expected_loss: What the score of the whole may be expected to be, by that of a larger set; 0
            without one.
    """

    core: int
    base: int
    score: float
    estimated_gains: dict[int, float]
    joining: int
    data: Refinement
    expected_loss: float = 0.0

    @property
    def whole(self) -> int:
        """The largest set of the node."""
        return self.base | self.joining

    def expected_loss_less(self, columns: int) -> float:
        """Return what is expected_loss of the whole without so many columns."""
        return self.expected_loss * _LEFT**columns

    def without(self, column: int) -> _Node:
        """Return the sets of the node that do not hold `column`."""
        estimated_gains = self.estimated_gains.copy()
        del estimated_gains[column]
        joining = self.joining ^ 1 << column
        expected_loss = self.expected_loss_less(1)
        return _Node(
            self.core, self.base, self.score, estimated_gains, joining, self.data, expected_loss
        )

    def narrowed(self) -> tuple[_Node, float | None]:
        """Return the node on fewer rows where that pays, and then the score of its whole."""
        data, whole = self.data.narrowed([*self.estimated_gains])
        return self if data is self.data else self._replace(data=data), whole


class _BorderSearch:
    """Search for one border: which sets pass (score within the limit) and which fail.

    The families hold what is proven, also when a stop or an interrupt ends the search early.
    """

    def __init__(
        self,
        criterion: Condition,
        order: Closures,
        max_size: int,
        effort: Effort,
        *,
        by_score: bool = True,
    ) -> None:
        limits, columns = criterion.limits, len(order.closed)
        self.order, self._closed = order, order.closed
        self.passed, self.failed = Family(columns), Family(columns)
        self.evaluated = 0
        self.complete = True
        self.max_size = max_size
        self._largest = columns if criterion.largest is None else criterion.largest
        self._limits, self._effort = limits.tolist(), effort
        # A column that adds nothing may join for free only where size itself costs nothing, and
        # no other test tells a set from one of the same score.
        self._absorb = by_score and limits[0] == limits[columns] and max_size == columns

    def judge(self, passing: int, failing: int, score: float) -> bool:
        """Note the score of a set; `failing` is what is proven to fail if the set does."""
        self.evaluated += 1
        if self.passed.has_superset(passing):  # also by another test than the score
            return True
        if score <= self._limits[passing.bit_count()]:
            self.passed.add(passing)
            return True
        if failing.bit_count() <= self._largest:
            self.fail(failing)
        return False

    def fail(self, members: int) -> None:
        """Note a set that fails."""
        self.failed.add(self.order.finest(members))

    def minimal(self) -> list[int]:
        """List the sets that fail and hold no other one that does."""
        closed = map(self.order.closure, self.failed.sets)
        return Family(len(self._closed), closed).minimal()

    def explore(self, node: _Node) -> None:
        """Explore all sets of a node, depth-first."""
        # Not by recursion: a set may have more APIs than Python allows calls within each other.
        open_nodes = [self._exploring(node)]
        while open_nodes:
            inner = next(open_nodes[-1], None)
            if inner is None:
                open_nodes.pop()
            else:
                open_nodes.append(self._exploring(inner))

    def _exploring(self, node: _Node) -> Iterator[_Node]:
        """Explore a node; yield those within it that are to be explored before it goes on."""
        self._effort.check(_told(self.evaluated))
        if node.estimated_gains and node.base.bit_count() >= self.max_size:
            self.complete = False
            self._keep(node.base)
            return
        if node.core.bit_count() >= self._largest:
            self._keep(node.base)
            return
        if node.data.rows > SMALL:  # of fewer, all are counted in no more time than a part
            node = self._hopeful(node)
        if not node.estimated_gains:
            self._keep(node.base)
            return
        node, score = node.narrowed()
        looked = self._look_ahead(node, score)
        if looked is None:
            return
        node = self._tried(looked)
        while not self._is_decided(node):
            column = next(iter(node.estimated_gains))
            rest = self._without(node, column)
            if (inner := self._taken(node, column, rest)) is not None:
                yield inner
            if self._is_decided(rest):
                node = rest
                break
            node, score = rest.narrowed()
            looked = node if score is None else self._look_ahead(node, score)
            if looked is None:
                return
            node = looked
        self._keep(node.whole)

    def _is_decided(self, node: _Node) -> bool:
        """Whether the whole is known to pass, as it does where one column joins: it was tried."""
        return len(node.estimated_gains) < 2 or self.passed.has_superset(node.whole)

    def _look_ahead(self, node: _Node, score: float | None) -> _Node | None:
        """Try all columns at once, only where that may pass: null when it does, else the node."""
        whole, limit = node.whole, self._limits[node.whole.bit_count()]
        if whole.bit_count() > self.max_size or self.failed.has_subset(whole):
            return node
        if node.score + sum(node.estimated_gains.values()) > limit:
            return node
        if score is None:
            columns = positions(self.order.finest(node.joining))
            if node.expected_loss > limit or not node.data.fits(columns):
                return node
            score = node.data.union(columns)
        if self.judge(whole, node.core | node.joining, score):
            return None
        return node._replace(expected_loss=score)

    def _hopeful(self, node: _Node) -> _Node:
        """Leave out the columns that fail with the base by what a part of the rows tells."""
        known = self.passed.extended(node.base, node.joining)
        untested_columns = [column for column in node.estimated_gains if not known >> column & 1]
        # The largest limit that a larger set may have, as limits do not increase.
        limit = self._limits[node.base.bit_count() + 1]
        for column in node.data.hopeless(untested_columns, limit):
            self.fail(node.core | self._closed[column])
            self.evaluated += 1
            node = self._without(node, column)
        return node

    def _without(self, node: _Node, column: int) -> _Node:
        """Return the sets of a node that do not hold `column`, and so none that brings it along."""
        for finer in positions(self.order.finer[column] & node.joining):
            node = node.without(finer)
        return node

    def _tried(self, node: _Node) -> _Node:
        """Try each column alone with the base; keep those that pass, the finest first.

        Columns that split no group add nothing to any set of the node, and join the base.
        """
        known = self.passed.extended(node.base, node.joining)
        untested_columns = [column for column in node.estimated_gains if not known >> column & 1]
        steps = node.data.steps(untested_columns)
        base, refused = node.base, 0
        estimated_gains, joining = {}, known
        tried = zip(untested_columns, steps.scores.tolist(), steps.groups.tolist(), strict=True)
        # The finest first: small sets that fail cut off most.
        for column, score, groups in sorted(tried, key=lambda step: -step[2]):
            limit = self._limits[(node.base | self._closed[column]).bit_count()]
            if self._absorb and groups == node.data.groups:
                base |= self._closed[column]
            elif score <= limit:
                estimated_gains[column] = score - node.score
                joining |= 1 << column
            else:
                self.fail(node.core | self._closed[column])
                refused |= self.order.finer[column]
        self.evaluated += len(untested_columns)
        estimated_gains |= {
            column: hope for column, hope in node.estimated_gains.items() if known >> column & 1
        }
        for column in positions(joining & (base | refused)):  # by what others bring along
            joining ^= 1 << column
            del estimated_gains[column]
        expected_loss = node.expected_loss_less(len(node.estimated_gains) - len(estimated_gains))
        return _Node(
            node.core, base, node.score, estimated_gains, joining, node.data, expected_loss
        )

    def _taken(self, node: _Node, column: int, rest: _Node) -> _Node | None:
        """Return the sets of the node that hold `column`; null where all of them are known.

        `rest` is the node without it.
        """
        core, base = node.core | self._closed[column], node.base | self._closed[column]
        refused = self.failed.completed(base, rest.joining)
        if core != base:
            # What the base fails with, its core fails with too: note it, it is the smaller set.
            for other in positions(refused & ~self.failed.completed(core, rest.joining)):
                self.fail(core | self._closed[other])
        joining = rest.joining & ~base
        for other in positions(refused):
            joining &= ~self.order.finer[other]
        if self.passed.has_superset(base | joining):
            return None
        if not joining:
            self.passed.add(base)
            return None
        estimated_gains = {
            other: hope for other, hope in rest.estimated_gains.items() if joining >> other & 1
        }
        if len(estimated_gains) == 1 and base.bit_count() < self.max_size:
            score = node.data.union(positions(self.order.finest(1 << column | joining)))
            if not self.judge(base | joining, core | joining, score):
                self._keep(base)
            return None
        score = node.score + node.estimated_gains[column]
        expected_loss = node.expected_loss_less(len(rest.estimated_gains) - len(estimated_gains))
        data = node.data.joined(column)
        return _Node(core, base, score, estimated_gains, joining, data, expected_loss)

    def _keep(self, passing: int) -> None:
        if not self.passed.has_superset(passing):
            self.passed.add(passing)


class Closures:
    """What columns bring along, as bit masks.

    Attributes:
        closed: For each column, itself and what it brings along.
        finer: For each column, itself and those that bring it along.
    """

    def __init__(self, closed: Sequence[int]) -> None:
        self.closed = closed
        self.finer = [
            mask(other for other, members in enumerate(closed) if members >> column & 1)
            for column in range(len(closed))
        ]
        self._is_plain = all(members == 1 << column for column, members in enumerate(closed))

    @classmethod
    def of(cls, apis: Sequence[str], along: Callable[[Iterable[str]], Collection[str]]) -> Closures:
        """Return what APIs bring along, as columns in their order."""
        place = {api: column for column, api in enumerate(apis)}
        return cls([mask({place[other] for other in along([api])}) for api in apis])

    def closure(self, members: int) -> int:
        """Return a set with all that its columns bring along."""
        if self._is_plain:
            return members
        return reduce(or_, map(self.closed.__getitem__, positions(members)), 0)

    def finest(self, members: int) -> int:
        """Return the columns of a set that no other one of it brings along."""
        if self._is_plain:
            return members
        return mask(c for c in positions(members) if self.finer[c] & members == 1 << c)


def search(
    source: SpectrumSource,
    *,
    allow: Condition,
    block: Condition,
    refute: Refutation | None = None,
    sought: Sought = ALL_SETS,
    known: Borders | None = None,
    effort: Effort | None = None,
) -> Borders:
    """Find all maximal allowed and all minimal blocked sets of the APIs of a source.

    Args:
        source: Where the spectra come from. Rows in memory (`MemorySource`) are searched many times
            faster than a source that is asked set by set.
        allow, block: A set is allowed when its score is within the limit of `allow`, and blocked
            when its score is above the limit of `block`. Where they are one, no set is undecided
            and one search finds both borders.
        refute: A test that blocks single sets, and with them all that hold one of them: the
            smallest of the refused sets and, where its score does not grow with the set, all sets
            of so few APIs that there are at most 1,023 of them.
        sought: Which sets are searched.
        known: Borders of an earlier search, perhaps not complete, over the same data and criteria:
            they are taken as proven.
        effort: When to end with what is proven by then, and whom to tell how far the search is.

    Returns:
        Borders: An interrupt (Ctrl-C) ends the search like the time limit, and so does the loss of
            the engine that holds the users: what is returned is proven.

    Raises:
        InputError: Criteria with too few limits.
    """
    check_names(source, sought)
    must, apis = sorted(sought.along({*sought.must})), sought.free(source.apis)
    effort, order = effort or Effort(), Closures.of(apis, sought.along)
    if min(len(allow.limits), len(block.limits)) <= len(apis):
        raise InputError(f"search: {len(apis)} APIs need {len(apis) + 1} limits")
    if isinstance(source, MemorySource):
        source = source.selected(apis)
    most = len(apis) if sought.max_size is None else sought.max_size
    # Sets that another test allows may score more than the limit: scores then tell not all.
    lower = _BorderSearch(allow, order, most, effort, by_score=known is None or not known.allow)
    upper = lower if block is allow else _BorderSearch(block, order, most, effort)
    if known is not None:
        allowed_sets = [members for members in known.allow if {*must} <= {*members}]
        _recall(apis, replace(known, allow=allowed_sets), lower, upper)
    least = source.least
    with effort.until_stopped():
        _run(lower, source, allow, apis, must)
        # What was known to fail by another test says nothing of sets with the same score.
        rows = source.table.weights.sum() if isinstance(source, MemorySource) else source.users
        if upper is not lower and not _always_holds(block, int(rows)):
            _run(upper, least or source, block, apis, must)
        if refute is not None and (least is None or refute.monotone):
            # 200,000 rows like those of UCI Adult take 1.0 s of processor, by plain counts 3.0.
            counted = _Nested(source) if isinstance(source, MemorySource) else least or source
            for sets in _tried_one_by_one(refute, lower, mask(map(apis.index, must))):
                _refute(upper, counted, refute, apis, sets, effort=effort, within=lower.passed)
    lower.complete &= not effort.stopped
    return _borders(apis, lower, upper)


def check_names(source: SpectrumSource, sought: Sought) -> None:
    """Check that a source has the APIs that a search must and must not use, and none is in both.

    Raises:
        UnknownNameError, InputError: It is not so.
    """
    for api in (*sought.must, *sought.never):
        if api not in source.apis:
            raise UnknownNameError("API", api, source.apis)
    both = sorted({*sought.must} & {*sought.never})
    if both:
        raise InputError(f"search: {', '.join(both)} both must and must not be in the sets")


def _always_holds(criterion: Condition, users: int) -> bool:
    """Whether no set of any users exceeds the limits."""
    if not isinstance(criterion, Criterion):
        return False
    # Weights do not increase with the count, so no users score more than all of them alone.
    alone = users * criterion.score.weights[:, 1]
    return bool(criterion.limits.min() >= criterion.score.of_sums(alone))


def _recall(
    apis: Sequence[str], known: Borders, lower: _BorderSearch, upper: _BorderSearch
) -> None:
    """Take the borders of an earlier search as proven."""
    column = {api: place for place, api in enumerate(apis)}
    for sets, families in (
        (known.allow, (lower.passed.add, upper.passed.add)),
        (known.block, (lower.fail, upper.fail)),
        (known.undecided, (lower.fail,)),
    ):
        for members in sets:
            if column.keys() >= set(members):
                for note in dict.fromkeys(families):
                    note(mask({column[api] for api in members}))


def _run(
    border: _BorderSearch,
    source: SpectrumSource,
    criterion: Condition,
    apis: Sequence[str],
    must: Sequence[str],
) -> None:
    """Search one border among the sets of `apis` that hold all of `must`."""
    base = mask(apis.index(api) for api in must)
    columns = [column for column in range(len(apis)) if not base >> column & 1]
    # Larger sets are not looked at, so the border is whole only where there are none.
    if len(must) >= border.max_size:
        border.complete, columns = not columns, []
    score = criterion.score(source.spectrum(must))
    if not border.judge(base, base, score):
        return
    alone = source.spectra([*must, apis[column]] for column in columns)
    spectra = dict(zip(columns, alone, strict=True))
    entropy = {column: _entropy(spectra[column]) for column in columns}
    closed = border.order.closed
    # a finer level before the coarser ones that it brings along, also where rounding errs
    columns.sort(
        key=lambda column: (
            -max(entropy.get(other, 0.0) for other in positions(closed[column])),
            -closed[column].bit_count(),
        )
    )
    estimated_gains = {}
    for column in columns:
        joint = criterion.score(spectra[column])
        if border.judge(base | closed[column], base | closed[column], joint):
            estimated_gains[column] = joint - score
    data = refinement_of(source, criterion, apis, positions(base))
    border.explore(_Node(base, base, score, estimated_gains, mask(estimated_gains), data))


def _told(evaluated: int) -> str:
    return f"{evaluated:,} sets evaluated"


def _tried_one_by_one(refute: Refutation, lower: _BorderSearch, base: int) -> Iterator[list[int]]:
    """Yield the sets that hold a base and are tested by themselves."""
    if not refute.monotone:
        yield _smallest_sets(lower.order, base, lower.max_size)
    yield sorted(lower.minimal(), key=int.bit_count)[:_MOST_REFUTED]


def _smallest_sets(order: Closures, base: int, largest: int) -> list[int]:
    """List the sets that hold a base, the smallest first, as long as there are not too many."""
    columns = [column for column in range(len(order.closed)) if not base >> column & 1]
    sets: dict[int, None] = {}
    for joining in range(len(columns) + 1):
        size, number = base.bit_count() + joining, math.comb(len(columns), joining)
        if size > largest or len(sets) + number > _MOST_REFUTED:
            break
        if size:
            some = (order.closure(base | mask(each)) for each in combinations(columns, joining))
            sets |= dict.fromkeys(some)
    return sorted(sets, key=int.bit_count)


def _refute(
    border: _BorderSearch,
    source: SpectrumSource,
    refutation: Refutation,
    apis: Sequence[str],
    sets: Sequence[int],
    *,
    within: Family,
    effort: Effort,
) -> None:
    """Note those of `sets`, which grow, that a test of single sets refutes."""
    for start in range(0, len(sets), _REFUTED_TOGETHER):
        effort.check(_told(border.evaluated))
        part = [
            members
            for members in sets[start : start + _REFUTED_TOGETHER]
            if not border.failed.has_subset(members) and not within.has_superset(members)
        ]
        # Coarser levels split no group further, so the finest ones alone give the spectrum.
        finest = map(border.order.finest, part)
        names = [[apis[column] for column in positions(members)] for members in finest]
        border.evaluated += len(part)
        for members, spectrum in zip(part, source.spectra(names), strict=True):
            if refutation.refutes(spectrum, members.bit_count()):
                border.fail(members)


class _Nested(SpectrumSource):
    """Rows in memory, merged without the finest API, the two finest, and so on.

    A set is counted over the rows of the APIs from its finest on, of which there are fewer.
    """

    def __init__(self, source: MemorySource) -> None:
        self._sources = [source]

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs that may be asked for, sorted."""
        return self._sources[0].apis

    @property
    def users(self) -> int:
        """Number of users."""
        return self._sources[0].users

    @cached_property
    def _order(self) -> list[str]:
        spectra = self._sources[0].spectra([[api] for api in self.apis])
        entropies = dict(zip(self.apis, map(_entropy, spectra), strict=True))
        return sorted(self.apis, key=lambda api: -entropies[api])

    def spectrum(self, apis: Sequence[str]) -> CountSpectrum:
        """Count spectrum of the tuples of the values of `apis`."""
        finest = min(map(self._order.index, apis), default=0)
        while len(self._sources) <= finest:
            fewer = self._order[len(self._sources) :]
            self._sources.append(self._sources[-1].selected(fewer))
        return self._sources[finest].spectrum(apis)


def _entropy(spectrum: CountSpectrum) -> float:
    """Entropy of the values, nats: how much a column can be expected to split."""
    shares = spectrum.counts / spectrum.users
    return -float(spectrum.values @ (shares * np.log(shares)))


def _borders(apis: Sequence[str], lower: _BorderSearch, upper: _BorderSearch) -> Borders:
    """Put the proven sets into words."""
    allowed, blocked = lower.passed.maximal(), upper.minimal()
    undecided = []
    if upper is not lower:
        # Each side is wrong with probability delta at most: users who are no draws are likelier.
        if any(map(Family(len(apis), blocked).has_subset, allowed)):
            raise UndecidableError(
                "one set is certified both within and above the budget",
                hint="that is rarer than delta if the users are independent draws: check for bots "
                "and for users with several ids",
            )
        refused = lower.minimal()
        undecided = [members for members in refused if not upper.failed.has_subset(members)]
    return Borders(
        allow=_names(apis, allowed),
        block=_names(apis, blocked),
        undecided=_names(apis, undecided),
        complete=lower.complete and upper.complete,
        evaluated=lower.evaluated + (0 if upper is lower else upper.evaluated),
    )


def _names(apis: Sequence[str], sets: Iterable[int]) -> list[ApiSet]:
    return sorted(tuple(map(apis.__getitem__, positions(members))) for members in sets)
