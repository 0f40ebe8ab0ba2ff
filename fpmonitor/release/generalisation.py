"""Generalisation: values are shown coarser until every row has at least k users; none is withheld.

The users are cut in two, again and again, by the values of one API (Mondrian: LeFevre, DeWitt,
Ramakrishnan 2006), where both sides keep k users and the loss falls most. A row shows what the cuts
allow, not what its users have: ranges as tight as the users would say that somebody is at each end.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np
import polars as pl

from fpmonitor.population.levels import Component, Value, number_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    Leaves = NDArray[np.int64]
    Losses = NDArray[np.float64]

OTHER = "(other)"
MOST_LISTED = 64  # values in a cell; a longer list is suppressed, as nobody reads it
_LEAST_NUMBERS = 0.9  # share of the users whose values must be numbers, for ranges of an API
# Added to the entropy of a cut that divides its gain: between gain alone (0.058 lost on Adult) and
# gain by entropy (0.061) lies a flat optimum from 0.1 to 0.3 (0.0535).
_EVENNESS = 0.2
_UNKNOWN = -1
_NO_VALUES: Mapping[str, int] = {"(absent)": 1, "(undefined)": 2, "(error)": 3}


class Ladder(Protocol):
    """How the values of one API, or of a group, are told apart and shown coarser.

    A leaf is the finest that a cell may show. Losses are shares: 0 for one value, 1 for any.
    """

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs whose values it tells apart."""

    @property
    def size(self) -> int:
        """Leaves."""

    def leaves_of(self, rows: Sequence[tuple[str, ...]]) -> Leaves:
        """Return the leaf of each tuple of texts, -1 for one that none stands for."""

    def cuts(self, held: Leaves, users: NDArray[np.int64]) -> tuple[Leaves, NDArray[np.int64]]:
        """Return leaves in an order, and the places behind which they may be cut.

        `users` is the number of users of each held leaf.
        """

    def losses(self, ordered: Leaves, ends: NDArray[np.int64]) -> tuple[Losses, Losses]:
        """Return the loss of what is before, and of what is behind each cut."""

    def loss(self, held: Leaves) -> float:
        """Return the loss of a cell that allows these leaves."""

    def shown(self, held: Leaves) -> tuple[str | None, ...]:
        """Return the texts of a cell, one for each API; null where nothing is shown."""


@dataclass(frozen=True, slots=True, eq=False)
class Generalised:
    """Rows of at least k users, and which leaves of each ladder each row allows."""

    # A text column for each API, null where nothing is shown, and `users`, int64.
    table: pl.DataFrame
    ladders: tuple[Ladder, ...]  # How values are told apart.
    allowed: tuple[NDArray[np.bool_], ...]  # For each ladder: bool, shape (rows, leaves).
    # Mean loss of a cell over the users: the normalised certainty penalty of the literature.
    loss: float
    hidden_cells: int  # Cells of users in which nothing is shown.

    def rows_of(self, values: pl.DataFrame) -> NDArray[np.int64]:
        """Return the row that stands for each user, -1 for none; int64, shape (users,)."""
        codes, _, inverse = _distinct_codes(self.ladders, values)
        found = np.full(len(codes), _UNKNOWN, dtype=np.int64)
        known = (codes != _UNKNOWN).all(axis=1)
        for row in range(len(self.table)):
            hit = known.copy()
            for place, allowed in enumerate(self.allowed):
                hit[hit] = allowed[row, codes[hit, place]]
            found[hit] = row
            known &= ~hit
        return found[inverse]

    def product_weights(self, values: pl.DataFrame) -> NDArray[np.float64]:
        """Return the probability of each row for a record of independent values of these users."""
        weights = np.ones(len(self.table))
        columns = _codes(self.ladders, values).T
        for codes, ladder, allowed in zip(columns, self.ladders, self.allowed, strict=True):
            had = np.bincount(codes[codes != _UNKNOWN], minlength=ladder.size)
            weights *= np.maximum(allowed @ had, 1) / (len(values) + 1)
        return weights


def generalise(
    users: pl.DataFrame, apis: Sequence[str], k: int, components: Sequence[Component] = ()
) -> Generalised:
    """Show values coarser until every row has at least k users.

    Args:
        users: At least k, a row each: a text column per API without nulls.
        k: Threshold, users.
        components: Levels of some of the APIs; others are shown as ranges, or as lists of values.
    """
    ladders = ladders_of(users, apis, k, components)
    codes, counts, _ = _distinct_codes(ladders, users)
    had = tuple(np.unique(codes[:, place]) for place in range(len(ladders)))
    waiting = [(np.arange(len(codes)), had)]
    rows: list[tuple[tuple[Leaves, ...], int]] = []
    while waiting:
        here, held = waiting.pop()
        found = _best_cut(ladders, codes[here], counts[here], held, k)
        if found is None:
            rows.append((held, int(counts[here].sum())))
            continue
        place, sides = found
        for side in sides:
            inside = np.zeros(ladders[place].size, dtype=bool)
            inside[side] = True
            part = here[inside[codes[here, place]]]
            waiting.append((part, (*held[:place], np.sort(side), *held[place + 1 :])))
    return _table(ladders, rows, apis)


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


def _best_cut(
    ladders: Sequence[Ladder],
    codes: NDArray[np.int64],
    counts: NDArray[np.int64],
    held: Sequence[Leaves],
    k: int,
) -> tuple[int, tuple[Leaves, Leaves]] | None:
    """Return the ladder and the two sides of the best cut; None where none gains."""
    users = int(counts.sum())
    best, found = 0.0, None
    for place, (ladder, mine) in enumerate(zip(ladders, held, strict=True)):
        if len(mine) < 2 or users < 2 * k:
            continue
        on = np.bincount(codes[:, place], weights=counts, minlength=ladder.size).astype(np.int64)
        ordered, ends = ladder.cuts(mine, on[mine])
        before = np.cumsum(on[ordered])[ends]
        ends, before = (each[(before >= k) & (users - before >= k)] for each in (ends, before))
        if not len(ends):
            continue
        left, right = ladder.losses(ordered, ends)
        share = before / users
        gain = ladder.loss(mine) - share * left - (1 - share) * right
        even = -(share * np.log(share) + (1 - share) * np.log1p(-share))
        score = users * len(ladder.apis) * gain / (even + _EVENNESS)
        most = int(np.argmax(score))
        if score[most] > best:
            best = float(score[most])
            found = place, (ordered[: ends[most] + 1], ordered[ends[most] + 1 :])
    return found


def _table(
    ladders: Sequence[Ladder],
    rows: Sequence[tuple[tuple[Leaves, ...], int]],
    apis: Sequence[str],
) -> Generalised:
    names = [api for ladder in ladders for api in ladder.apis]
    texts = [
        [text for ladder, mine in zip(ladders, held, strict=True) for text in ladder.shown(mine)]
        for held, _ in rows
    ]
    users = np.array([count for _, count in rows], dtype=np.int64)
    width = np.array([len(ladder.apis) for ladder in ladders])
    lost = np.array(
        [[one.loss(mine) for one, mine in zip(ladders, held, strict=True)] for held, _ in rows]
    )
    table = pl.DataFrame(texts, schema=dict.fromkeys(names, pl.String), orient="row")
    # Rows stand in the order of what they show: that of the cuts would tell where users were cut.
    order = table.with_row_index("row").sort([*apis, "row"])["row"].to_numpy()
    allowed = []
    for place, ladder in enumerate(ladders):
        inside = np.zeros((len(rows), ladder.size), dtype=bool)
        for number, (held, _) in enumerate(rows):
            inside[number, held[place]] = True
        allowed.append(inside[order])
    hidden = table.select(pl.sum_horizontal(pl.all().is_null().cast(pl.Int64))).to_series()
    return Generalised(
        table=table.select(apis).with_columns(pl.Series("users", users))[order],
        ladders=tuple(ladders),
        allowed=tuple(allowed),
        loss=float(users @ (lost @ width) / (users.sum() * width.sum())),
        hidden_cells=int(users @ hidden.to_numpy()),
    )


def _codes(ladders: Sequence[Ladder], values: pl.DataFrame) -> NDArray[np.int64]:
    """Return the leaf of each user in each ladder; int64, shape (users, ladders)."""
    columns = []
    for ladder in ladders:
        mine = values.select(ladder.apis).fill_null("(absent)")
        distinct = mine.unique(maintain_order=True).with_row_index("number")
        leaves = ladder.leaves_of(distinct.drop("number").rows())
        numbers = mine.join(distinct, on=ladder.apis, how="left", maintain_order="left")["number"]
        columns.append(leaves[numbers.to_numpy()])
    return np.column_stack(columns)


def _distinct_codes(
    ladders: Sequence[Ladder], values: pl.DataFrame
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct rows of `_codes`, the users of each, and the row of each user."""
    codes, inverse, counts = np.unique(
        _codes(ladders, values), axis=0, return_inverse=True, return_counts=True
    )
    return codes, counts, inverse.ravel()


# ---- Ladders


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
        told = sum(users for _, _, users in values)
        if len({found for found, _, _ in values}) < max(len(values), 2):  # 1 and 1.0 are texts
            return None
        if told < _LEAST_NUMBERS * sum(users for _, users in counted):
            return None
        groups: list[list[tuple[float, str, int]]] = [[]]
        for found, text, users in values:
            if sum(each[2] for each in groups[-1]) >= k:
                groups.append([])
            groups[-1].append((float(found), text, users))
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
        edges = np.array([float(edge) for edge in self.edges])
        found = np.zeros(len(rows), dtype=np.int64)
        for place, (text,) in enumerate(rows):
            number = _number(text)
            if number is not None:
                found[place] = 1 + np.searchsorted(edges, float(number), side="right")
        return found

    def cuts(self, held: Leaves, users: NDArray[np.int64]) -> tuple[Leaves, NDArray[np.int64]]:
        """See `Ladder`: anywhere, in the order of the numbers."""
        del users
        return held, np.arange(len(held) - 1)

    def losses(self, ordered: Leaves, ends: NDArray[np.int64]) -> tuple[Losses, Losses]:
        """See `Ladder`: the share of the whole range."""
        mixed = ordered[0] == 0
        low, high = self.low[ordered], self.high[ordered]
        before = (high[ends] - low[0]) / self._span
        if mixed:
            before = np.where(ends == 0, self.loss(ordered[:1]), 1.0)
        return before, (high[-1] - low[ends + 1]) / self._span

    def loss(self, held: Leaves) -> float:
        """See `Ladder`."""
        if held[0] == 0:
            return float(len(held) > 1 or len(self.others) > 1)
        return float((self.high[held[-1]] - self.low[held[0]]) / self._span)

    @property
    def _span(self) -> float:
        return float(max(self.high[-1] - self.low[1], np.finfo(float).tiny))

    def shown(self, held: Leaves) -> tuple[str | None, ...]:
        """See `Ladder`: a number, `[a, b)`, `<b`, or `>=a`."""
        first, last = int(held[0]), int(held[-1])
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
    for exponent in range(max(high.adjusted(), low.adjusted()) + 1, -40, -1):
        unit = Decimal(1).scaleb(exponent)
        found = ((low / unit).to_integral_value(ROUND_CEILING)) * unit
        found += unit if found == low else 0
        if found <= high:
            return f"{found.normalize() + 0:f}"
    return f"{high:f}"


@dataclass(frozen=True, slots=True, eq=False)
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
        rare = numbers.get(OTHER, _UNKNOWN)
        return np.array([numbers.get(text, rare) for (text,) in rows], dtype=np.int64)

    def cuts(self, held: Leaves, users: NDArray[np.int64]) -> tuple[Leaves, NDArray[np.int64]]:
        """See `Ladder`: frequent values first, as those that stay together cost."""
        return held[np.argsort(-users, kind="stable")], np.arange(len(held) - 1)

    def losses(self, ordered: Leaves, ends: NDArray[np.int64]) -> tuple[Losses, Losses]:
        """See `Ladder`: the share of the other values that are allowed, too."""
        upto = np.cumsum(self.members[ordered])
        before, behind = upto[ends], upto[-1] - upto[ends]
        return (
            np.where(ends + 1 > MOST_LISTED, 1.0, (before - 1) / self._others),
            np.where(len(ordered) - ends - 1 > MOST_LISTED, 1.0, (behind - 1) / self._others),
        )

    def loss(self, held: Leaves) -> float:
        """See `Ladder`."""
        if len(held) > MOST_LISTED:
            return 1.0
        return float((self.members[held].sum() - 1) / self._others)

    @property
    def _others(self) -> int:
        return max(int(self.members.sum()) - 1, 1)

    def shown(self, held: Leaves) -> tuple[str | None, ...]:
        """See `Ladder`: a value, or several as a list in JSON."""
        if len(held) == 1:
            return (self.texts[held[0]],)
        if len(held) > MOST_LISTED or len(held) == self.size:
            return (None,)
        return (json.dumps([self.texts[leaf] for leaf in held], ensure_ascii=False),)


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
            [numbers.get(self.component.shown(most, _values(row)), _UNKNOWN) for row in rows],
            dtype=np.int64,
        )

    def _level(self, held: Leaves) -> int:
        """Return the finest level at which all look alike, 0 for the coarsest; -1 for none."""
        alike = (self.paths[:, held] == self.paths[:, held[:1]]).all(axis=1)
        return int(np.flatnonzero(alike).max(initial=-1))

    def cuts(self, held: Leaves, users: NDArray[np.int64]) -> tuple[Leaves, NDArray[np.int64]]:
        """See `Ladder`: between looks of the next finer level, frequent ones first."""
        looks = self.paths[self._level(held) + 1][held]
        sums = np.bincount(looks, weights=users)
        order = np.lexsort((looks, -sums[looks]))
        ordered = looks[order]
        return held[order], np.flatnonzero(ordered[1:] != ordered[:-1])

    def losses(self, ordered: Leaves, ends: NDArray[np.int64]) -> tuple[Losses, Losses]:
        """See `Ladder`: only what looks alike at a level is shown more finely than the whole."""
        return (
            np.array([self.loss(ordered[: end + 1]) for end in ends]),
            np.array([self.loss(ordered[end + 1 :]) for end in ends]),
        )

    def loss(self, held: Leaves) -> float:
        """See `Ladder`: the share of the other leaves that look alike."""
        level = self._level(held)
        if level < 0:
            return 1.0
        alike = int((self.paths[level] == self.paths[level, held[0]]).sum())
        return (alike - 1) / max(self.size - 1, 1)

    def shown(self, held: Leaves) -> tuple[str | None, ...]:
        """See `Ladder`."""
        level = self._level(held)
        if level < 0:
            return (None,) * len(self.apis)
        texts = {code: text for text, code in _NO_VALUES.items()}
        look = self.nodes[level][self.paths[level, held[0]]]
        return tuple(texts[value] if isinstance(value, int) else value for value in look)


def _values(row: tuple[str, ...]) -> tuple[Value, ...]:
    return tuple(_NO_VALUES.get(text, text) for text in row)
