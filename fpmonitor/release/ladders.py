"""Ladders: how the values of an API are told apart, and shown coarser by a generalisation.

Numbers become ranges, texts lists, and components what their levels show (docs/levels.md). A leaf
is the finest that a cell may show. Losses are shares: 0 for one value, 1 for any. Each `Ladder` has

* `apis`, whose values it tells apart, and its `size`, the number of leaves;
* `leaves_of`: the leaf of each tuple of texts, -1 for one that none stands for;
* `cuts`: leaves in an order, and the places behind which they may be cut, by the users of each;
* `losses`: of what is before, and of what is behind each cut; `loss`: of a cell that allows leaves;
* `shown`: the texts of a cell, one for each API; null where nothing is shown.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from fpmonitor.population.levels import Component, Value, number_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl
    from numpy.typing import NDArray

    Leaves = NDArray[np.int64]
    Losses = NDArray[np.float64]

OTHER = "(other)"
UNKNOWN = -1  # the leaf of a value that no leaf stands for
MOST_LISTED = 64  # values in a cell; a longer list is suppressed, as nobody reads it
_LEAST_NUMBERS = 0.9  # share of the users whose values must be numbers, for ranges of an API
_NO_VALUES: Mapping[str, int] = {"(absent)": 1, "(undefined)": 2, "(error)": 3}


def ladders_of(
    users: pl.DataFrame, apis: Sequence[str], k: int, components: Sequence[Component]
) -> tuple[Ladder, ...]:
    """Make the ladder of each component, and of each other API, from the values of users."""
    ladders: list[Ladder] = []
    left = list(apis)
    for component in components:
        for api in component.apis:
            left.remove(api)
        ladders.append(LevelLadder.of(component, users.select(component.apis).unique().rows()))
    for api in left:
        counted = users.group_by(api).len().rows()
        ladders.append(Ranges.of(api, counted, k) or TextLadder.of(api, counted, k))
    return tuple(ladders)


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """Numbers, shown as they are where k users share one, and else as ranges.

    The first leaf is all that is no number. Edges of ranges are the shortest numbers between values
    of users, so that no rare value is told; the outer ranges are open.
    """

    apis: tuple[str, ...]
    others: frozenset[str]
    exact: tuple[str | None, ...]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    edges: tuple[str, ...]

    @classmethod
    def of(cls, api: str, counted: Sequence[tuple[str, int]], k: int) -> Ranges | None:
        """Make leaves of at least k users; None where values are no numbers, or too few of them."""
        numbers = [(_number(text), text, users) for text, users in counted]
        values = sorted((found, text, users) for found, text, users in numbers if found is not None)
        numeric_users = sum(users for _, _, users in values)
        if len({found for found, _, _ in values}) < max(len(values), 2):  # 1 and 1.0 are texts
            return None
        if numeric_users < _LEAST_NUMBERS * sum(users for _, users in counted):
            return None
        groups: list[list[tuple[float, str, int]]] = [[]]
        for found, text, users in values:
            if sum(each[2] for each in groups[-1]) >= k:
                groups.append([])
            groups[-1].append((float(found), text, users))
        # What is left at the end is fewer than k users, and joins the range before.
        if len(groups) > 1 and sum(each[2] for each in groups[-1]) < k:
            last = groups.pop()
            groups[-1] += last
        ends = [(Decimal(one[-1][1]), Decimal(two[0][1])) for one, two in pairwise(groups)]
        return cls(
            apis=(api,),
            others=frozenset(text for found, text, _ in numbers if found is None),
            exact=(None, *(group[0][1] if len(group) == 1 else None for group in groups)),
            low=np.array([np.nan, *(group[0][0] for group in groups)]),
            high=np.array([np.nan, *(group[-1][0] for group in groups)]),
            edges=tuple(shortest_between(low, high) for low, high in ends),
        )

    @property
    def size(self) -> int:
        """Leaves."""
        return len(self.exact)

    def leaves_of(self, rows: Sequence[tuple[str, ...]]) -> Leaves:
        """See `Ladder`."""
        # Not as doubles: 2^53 and 2^53 + 1 are one, and the row of one would show the other.
        edges = [Fraction(edge) for edge in self.edges]
        found = np.zeros(len(rows), dtype=np.int64)
        for place, (text,) in enumerate(rows):
            number = _number(text)
            if number is not None:
                found[place] = 1 + bisect_right(edges, number)
        return found

    def cuts(self, leaves: Leaves, users: NDArray[np.int64]) -> tuple[Leaves, NDArray[np.int64]]:
        """See `Ladder`: anywhere, in the order of the numbers."""
        del users
        return leaves, np.arange(len(leaves) - 1)

    def losses(self, ordered: Leaves, ends: NDArray[np.int64]) -> tuple[Losses, Losses]:
        """See `Ladder`: the share of the whole range."""
        mixed = ordered[0] == 0
        low, high = self.low[ordered], self.high[ordered]
        before = (high[ends] - low[0]) / self._span
        if mixed:
            before = np.where(ends == 0, self.loss(ordered[:1]), 1.0)
        return before, (high[-1] - low[ends + 1]) / self._span

    def loss(self, leaves: Leaves) -> float:
        """See `Ladder`."""
        if leaves[0] == 0:
            return float(len(leaves) > 1 or len(self.others) > 1)
        return float((self.high[leaves[-1]] - self.low[leaves[0]]) / self._span)

    @property
    def _span(self) -> float:
        return float(max(self.high[-1] - self.low[1], np.finfo(float).tiny))

    def shown(self, leaves: Leaves) -> tuple[str | None, ...]:
        """See `Ladder`: a number, `[a, b)`, `<b`, or `>=a`."""
        first, last = int(leaves[0]), int(leaves[-1])
        if first == 0:
            one = next(iter(self.others)) if len(self.others) == 1 else OTHER
            return (one if last == 0 else None,)
        if first == last and self.exact[first] is not None:
            return (self.exact[first],)
        low = None if first == 1 else self.edges[first - 2]
        high = None if last == self.size - 1 else self.edges[last - 1]
        if low is None:
            return (None if high is None else f"<{high}",)
        return (f">={low}" if high is None else f"[{low}, {high})",)


def _number(text: str) -> Fraction | None:
    """Read a number; what a level calls `below` one is a text here."""
    return None if text.startswith("below") else number_of(text)


def shortest_between(low: Decimal, high: Decimal) -> str:
    """Return the number of the fewest digits that is above `low` and not above `high`."""
    # Numbers have up to 51 digits, of which the context of 28 would round some away.
    with localcontext(prec=60):
        for exponent in range(max(high.adjusted(), low.adjusted()) + 1, -40, -1):
            unit = Decimal(1).scaleb(exponent)
            found = ((low / unit).to_integral_value(ROUND_CEILING)) * unit
            # Above `low`: it is an edge, from which on the next range begins.
            found += unit if found == low else 0
            if found <= high:
                return f"{found.normalize() + 0:f}"
    return f"{high:f}"


@dataclass(frozen=True, eq=False)
class TextLadder:
    """Texts, shown as they are, or as a list of a few; those of fewer than k users are one leaf."""

    apis: tuple[str, ...]
    texts: tuple[str, ...]
    members: NDArray[np.int64]

    @classmethod
    def of(cls, api: str, counted: Sequence[tuple[str, int]], k: int) -> TextLadder:
        """Make a leaf of each value that k users share, and one of all others."""
        frequent = sorted(text for text, users in counted if users >= k)
        rare = len(counted) - len(frequent)
        texts, members = [*frequent], [1] * len(frequent)
        if rare:
            texts, members = [*texts, OTHER], [*members, rare]
        return cls((api,), tuple(texts), np.array(members, dtype=np.int64))

    @property
    def size(self) -> int:
        """Leaves."""
        return len(self.texts)

    def leaves_of(self, rows: Sequence[tuple[str, ...]]) -> Leaves:
        """See `Ladder`."""
        numbers = {text: number for number, text in enumerate(self.texts)}
        rare = numbers.get(OTHER, UNKNOWN)
        return np.array([numbers.get(text, rare) for (text,) in rows], dtype=np.int64)

    def cuts(self, leaves: Leaves, users: NDArray[np.int64]) -> tuple[Leaves, NDArray[np.int64]]:
        """See `Ladder`: frequent values first, as those that stay together cost."""
        return leaves[np.argsort(-users, kind="stable")], np.arange(len(leaves) - 1)

    def losses(self, ordered: Leaves, ends: NDArray[np.int64]) -> tuple[Losses, Losses]:
        """See `Ladder`: the share of the other values that are allowed, too."""
        upto = np.cumsum(self.members[ordered])
        before, behind = upto[ends], upto[-1] - upto[ends]
        return (
            np.where(ends + 1 > MOST_LISTED, 1.0, (before - 1) / self._others),
            np.where(len(ordered) - ends - 1 > MOST_LISTED, 1.0, (behind - 1) / self._others),
        )

    def loss(self, leaves: Leaves) -> float:
        """See `Ladder`."""
        if len(leaves) > MOST_LISTED:
            return 1.0
        return float((self.members[leaves].sum() - 1) / self._others)

    @cached_property  # Of each cut that is tried.
    def _others(self) -> int:
        return max(int(self.members.sum()) - 1, 1)

    def shown(self, leaves: Leaves) -> tuple[str | None, ...]:
        """See `Ladder`: a value, or several as a list in JSON."""
        if len(leaves) == 1:
            return (self.texts[leaves[0]],)
        if len(leaves) > MOST_LISTED or len(leaves) == self.size:
            return (None,)
        return (json.dumps([self.texts[leaf] for leaf in leaves], ensure_ascii=False),)


@dataclass(frozen=True, slots=True, eq=False)
class LevelLadder:
    """Values of a component, shown at one of its levels (docs/levels.md)."""

    apis: tuple[str, ...]
    component: Component
    leaves: tuple[tuple[Value, ...], ...]
    paths: NDArray[np.int64]  # levels from coarse to fine, by leaves: which leaves look alike
    nodes: tuple[tuple[tuple[Value, ...], ...], ...]  # what each looks like, by level

    @classmethod
    def of(cls, component: Component, rows: Sequence[tuple[str, ...]]) -> LevelLadder:
        """Make the leaves of the values that users have."""
        levels = range(max(component.least, 1), component.most + 1)
        shown = sorted(
            {tuple(component.shown(level, _values(row)) for level in levels) for row in rows},
            key=repr,
        )
        paths, nodes = [], []
        for place in range(len(levels)):
            looks = sorted({path[place] for path in shown}, key=repr)
            numbers = {look: number for number, look in enumerate(looks)}
            paths.append([numbers[path[place]] for path in shown])
            nodes.append(tuple(looks))
        leaves = tuple(path[-1] for path in shown)
        return cls(component.apis, component, leaves, np.array(paths), tuple(nodes))

    @property
    def size(self) -> int:
        """Leaves."""
        return len(self.leaves)

    def leaves_of(self, rows: Sequence[tuple[str, ...]]) -> Leaves:
        """See `Ladder`."""
        numbers = {leaf: number for number, leaf in enumerate(self.leaves)}
        most = self.component.most
        return np.array(
            [numbers.get(self.component.shown(most, _values(row)), UNKNOWN) for row in rows],
            dtype=np.int64,
        )

    def _level(self, leaves: Leaves) -> int:
        """Return the finest level at which all look alike, 0 for the coarsest; -1 for none."""
        alike = (self.paths[:, leaves] == self.paths[:, leaves[:1]]).all(axis=1)
        return int(np.flatnonzero(alike).max(initial=-1))

    def cuts(self, leaves: Leaves, users: NDArray[np.int64]) -> tuple[Leaves, NDArray[np.int64]]:
        """See `Ladder`: between looks of the next finer level, frequent ones first."""
        looks = self.paths[self._level(leaves) + 1][leaves]
        sums = np.bincount(looks, weights=users)
        order = np.lexsort((looks, -sums[looks]))
        ordered = looks[order]
        return leaves[order], np.flatnonzero(ordered[1:] != ordered[:-1])

    def losses(self, ordered: Leaves, ends: NDArray[np.int64]) -> tuple[Losses, Losses]:
        """See `Ladder`: only what looks alike at a level is shown more finely than the whole."""
        return (
            np.array([self.loss(ordered[: end + 1]) for end in ends]),
            np.array([self.loss(ordered[end + 1 :]) for end in ends]),
        )

    def loss(self, leaves: Leaves) -> float:
        """See `Ladder`: the share of the other leaves that look alike."""
        level = self._level(leaves)
        if level < 0:
            return 1.0
        alike = int((self.paths[level] == self.paths[level, leaves[0]]).sum())
        return (alike - 1) / max(self.size - 1, 1)

    def shown(self, leaves: Leaves) -> tuple[str | None, ...]:
        """See `Ladder`."""
        level = self._level(leaves)
        if level < 0:
            return (None,) * len(self.apis)
        texts = {code: text for text, code in _NO_VALUES.items()}
        look = self.nodes[level][self.paths[level, leaves[0]]]
        return tuple(texts[value] if isinstance(value, int) else value for value in look)


Ladder = Ranges | TextLadder | LevelLadder


def _values(row: tuple[str, ...]) -> tuple[Value, ...]:
    return tuple(_NO_VALUES.get(text, text) for text in row)
