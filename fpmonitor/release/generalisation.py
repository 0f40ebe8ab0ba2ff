"""Generalisation: values are shown coarser until every row has at least k users; none is withheld.

The users are cut in two, again and again, by the values of one API (Mondrian: LeFevre, DeWitt,
Ramakrishnan 2006), where both sides keep k users and the loss falls most. Where one side does not,
its users may wait: those of all such sides are cut anew, round after round, each less patient.
A row shows what the cuts allow, not what its users have: ranges as tight as the users would say
that somebody is at each end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec
import numpy as np
import polars as pl

from fpmonitor.errors import PolicyError, UndecidableError
from fpmonitor.release.ladders import UNKNOWN, Ladder, Ranges, TextLadder, ladders_of
from fpmonitor.release.suppression import USERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fpmonitor.population.levels import Component
    from fpmonitor.release.ladders import Leaves

# Added to the entropy of a cut that divides its gain: between gain alone and gain by entropy lies
# a flat optimum from 0.1 to 0.3.
_EVENNESS = 0.2
# Loss of a cell that is expected of users who wait, by round; on Adult, 8 columns, k = 5, 0.041 are
# lost in all, and 0.053 where nobody waits.
_WAITING = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
_SMALLEST = 1e-300  # probability of a row that none of the users has
_COARSER = 8  # times the users of a value of a sensitive attribute, from one trial to the next


@dataclass(frozen=True, slots=True)
class Protection:
    """What every class of a release keeps of a sensitive attribute.

    A class is the rows that agree in all APIs but that one.
    """

    api: str
    # Least number of different values in a class (l-diversity).
    diversity: Annotated[int, msgspec.Meta(ge=1)] = 1
    # Largest distance of a class from all users, as the share of them who would have to have
    # another value (t-closeness).
    closeness: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0

    def __post_init__(self) -> None:
        if self.diversity < 1:
            raise PolicyError("diversity", f"must be at least 1, got {self.diversity}")
        if not 0 <= self.closeness <= 1:
            raise PolicyError("closeness", f"must be a share from 0 to 1, got {self.closeness}")

    @property
    def demands(self) -> bool:
        """Whether there is a table that does not keep it."""
        return self.diversity > 1 or self.closeness < 1


@dataclass(frozen=True, slots=True, eq=False)
class Generalised:
    """Rows of at least k users, and which leaves of each ladder each row allows."""

    # A text column for each API, null where nothing is shown, and `users`, int64.
    table: pl.DataFrame
    ladders: tuple[Ladder, ...]  # How values are told apart.
    allowed: tuple[NDArray[np.bool_], ...]  # For each ladder: bool, shape (rows, leaves).
    # The round in which each row was made; int64, shape (rows,). Of rows that allow the values of a
    # user, that of the first round stands for it.
    turns: NDArray[np.int64]
    # Mean loss of a cell over the users: the normalised certainty penalty of the literature.
    loss: float
    hidden_cells: int  # Cells of users in which nothing is shown.

    def codes_of(self, values: pl.DataFrame) -> NDArray[np.int64]:
        """Return the leaf of each user, -1 for none; int64, shape (users, ladders)."""
        return _codes(self.ladders, values)

    def rows_of(self, values: pl.DataFrame) -> NDArray[np.int64]:
        """Return the row that stands for each user, -1 for none; int64, shape (users,)."""
        codes, _, inverse = _distinct_codes(self.ladders, values)
        found = np.full(len(codes), UNKNOWN, dtype=np.int64)
        known = (codes != UNKNOWN).all(axis=1)
        # Rows of one round allow different values; of several rounds the first has the user.
        for row in np.argsort(self.turns, kind="stable"):
            hit = known.copy()
            for place, allowed in enumerate(self.allowed):
                hit[hit] = allowed[row, codes[hit, place]]
            found[hit] = row
            known &= ~hit
        return found[inverse]

    def product_weights(self, values: pl.DataFrame) -> NDArray[np.float64]:
        """Return the probability of each row for a record of independent values of these users.

        Of rows that were not made in the first round it is no more than that of the values of these
        users: which other values would have come to an earlier row is too long to add up.
        """
        weights = np.ones(len(self.table))
        codes, _, inverse = _distinct_codes(self.ladders, values)
        single = np.ones(len(codes))
        for place, (ladder, allowed) in enumerate(zip(self.ladders, self.allowed, strict=True)):
            mine = codes[inverse, place]
            had = np.bincount(mine[mine != UNKNOWN], minlength=ladder.size)
            weights *= np.maximum(allowed @ had, 1) / (len(values) + 1)
            single *= had[codes[:, place]] / (len(values) + 1)
        later = self.turns > 0
        if later.any():
            rows = self.rows_of(values)
            _, first = np.unique(inverse, return_index=True)
            known = rows[first] != UNKNOWN
            seen = np.bincount(rows[first][known], single[known], minlength=len(weights))
            weights = np.where(later, np.minimum(np.maximum(seen, _SMALLEST), weights), weights)
        return weights


def generalise(
    users: pl.DataFrame,
    apis: Sequence[str],
    k: int,
    components: Sequence[Component] = (),
    protection: Protection | None = None,
) -> Generalised:
    """Show values coarser until every row has at least k users.

    Args:
        users: At least k, a row each: a text column per API without nulls.
        k: Threshold, users.
        components: Levels of some of the APIs; others are shown as ranges, or as lists of values.
        protection: Keeps the values of a sensitive attribute, the rare ones as one, and shows the
            others coarser until every class has what it demands. Of several ways to join values
            that which loses least is taken.

    Raises:
        UndecidableError: Not even all users together have what is demanded, or two values to show.
    """
    ladders = ladders_of(users, apis, k, components)
    if protection is None or not protection.demands:
        return _generalised(_Cutting(ladders, users, k, None), apis)
    place = [ladder.apis for ladder in ladders].index((protection.api,))
    counted = users.group_by(protection.api).len().rows()
    best: Generalised | None = None
    least = k
    while least <= len(users):
        mine = _joined(protection.api, counted, least, k)
        if mine.size < 2 + isinstance(mine, Ranges):  # the table would tell nothing of it
            break
        trial = (*ladders[:place], mine, *ladders[place + 1 :])
        cutting = _Cutting(trial, users, k, protection)
        if cutting.admits(cutting.sums(cutting.everybody)):
            found = _generalised(cutting, apis)
            best = found if best is None or found.loss < best.loss else best
        least *= _COARSER
    if best is None:
        raise UndecidableError(
            f"{protection.api}: not even all users together have so many values of {k} users each",
            hint="ask for less diversity, or lower k; rare values count as one",
        )
    return best


def _joined(api: str, counted: Sequence[tuple[str, int]], least: int, k: int) -> Ladder:
    """Tell values of a sensitive attribute apart, of `least` users or more; of the rest, k."""
    ranges = Ranges.of(api, counted, least)
    if ranges is not None and not ranges.others:
        return ranges
    rest = sum(users for _, users in counted if users < least)
    if 0 < rest < k:
        least = min((users for _, users in counted if users >= least), default=least) + 1
    return TextLadder.of(api, counted, least)


class _Cutting:
    """Users by the leaves of their values, and what every class of them must have."""

    def __init__(
        self,
        ladders: Sequence[Ladder],
        users: pl.DataFrame,
        k: int,
        protection: Protection | None,
    ) -> None:
        self.ladders = tuple(ladders)
        self.codes, self.counts, _ = _distinct_codes(ladders, users)
        self.everybody = np.arange(len(self.codes))
        self._k = k
        self._protection = protection
        # Each leaf of a sensitive attribute is a part of the users; without one, all are.
        self.sensitive = None
        self._parts, self._kinds = np.zeros(len(self.codes), dtype=np.int64), 1
        if protection is not None:
            self.sensitive = [ladder.apis for ladder in ladders].index((protection.api,))
            self._parts = self.codes[:, self.sensitive]
            self._kinds = ladders[self.sensitive].size
        self._shares = self.sums(self.everybody) / self.counts.sum()
        self.places = [place for place in range(len(ladders)) if place != self.sensitive]
        self._widths = [len(ladders[place].apis) for place in self.places]

    def sums(self, here: NDArray[np.intp]) -> NDArray[np.int64]:
        """Count the users of each part, int64."""
        found = np.bincount(self._parts[here], weights=self.counts[here], minlength=self._kinds)
        return found.astype(np.int64)

    def admits(self, sums: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether users may be a class; their number by part in the last axis."""
        enough = (sums.sum(axis=-1) > 0) & ((sums == 0) | (sums >= self._k)).all(axis=-1)
        if self._protection is not None:
            total = np.maximum(sums.sum(axis=-1, keepdims=True), 1)
            distance = np.abs(sums / total - self._shares).sum(axis=-1) / 2
            enough &= (sums > 0).sum(axis=-1) >= self._protection.diversity
            enough &= distance <= self._protection.closeness
        return np.asarray(enough)

    def best_cut(
        self, here: NDArray[np.intp], leaves: Sequence[Leaves], waiting: float | None
    ) -> tuple[int, tuple[Leaves, Leaves]] | None:
        """Return the ladder and the two sides of the best cut; None where none gains.

        `waiting` is the loss of a cell that is expected of a side that is no class; null where both
        sides must be.
        """
        sums = self.sums(here)
        users = int(sums.sum())
        losses = [self.ladders[place].loss(leaves[place]) for place in self.places]
        # What a user of a side that waits loses less than here; negative where that is more.
        patience = -np.inf
        if waiting is not None:
            patience = float(np.dot(losses, self._widths) - waiting * sum(self._widths))
        best, found = 0.0, None
        parts, weights = self._parts[here], self.counts[here]
        for place, loss, width in zip(self.places, losses, self._widths, strict=True):
            ladder, mine = self.ladders[place], leaves[place]
            if len(mine) < 2:
                continue
            flat = self.codes[here, place] * self._kinds + parts
            size = ladder.size * self._kinds
            on = np.bincount(flat, weights=weights, minlength=size).astype(np.int64)
            on = on.reshape(ladder.size, self._kinds)
            ordered, ends = ladder.cuts(mine, on[mine].sum(axis=1))
            before = np.cumsum(on[ordered], axis=0)[ends]
            first, second = self.admits(before), self.admits(sums - before)
            at_left = before.sum(axis=1)
            is_allowed = (first & second) if waiting is None else (first | second)
            is_allowed &= (at_left > 0) & (at_left < users)
            ends, at_left, first, second = (
                ends[is_allowed],
                at_left[is_allowed],
                first[is_allowed],
                second[is_allowed],
            )
            if not len(ends):
                continue
            left, right = ladder.losses(ordered, ends)
            share = at_left / users
            gain = share * np.where(first, (loss - left) * width, patience)
            gain += (1 - share) * np.where(second, (loss - right) * width, patience)
            even = -(share * np.log(share) + (1 - share) * np.log1p(-share))
            score = users * gain / (even + _EVENNESS)
            most = int(np.argmax(score))
            if score[most] > best:
                best = float(score[most])
                found = place, (ordered[: ends[most] + 1], ordered[ends[most] + 1 :])
        return found


# Leaves that a row allows, by ladder; its users, and the round in which it was made.
_Row: TypeAlias = "tuple[tuple[Leaves, ...], int, int]"


def _generalised(cutting: _Cutting, apis: Sequence[str]) -> Generalised:
    rows: list[_Row] = []
    left = cutting.everybody
    for turn, waiting in enumerate((*_WAITING, None)):
        made, after = _round(cutting, left, turn, waiting)
        # Those who waited are no class even together: nobody may wait then.
        if len(after) and not cutting.admits(cutting.sums(after)):
            made, after = _round(cutting, left, turn, None)
        rows += made
        left = after
        if not len(left):
            break
    return _table(cutting.ladders, rows, apis)


def _round(
    cutting: _Cutting, users: NDArray[np.intp], turn: int, waiting: float | None
) -> tuple[list[_Row], NDArray[np.intp]]:
    """Cut users as often as that gains; return the rows, and the users who wait."""
    codes = cutting.codes
    had = tuple(np.unique(codes[:, place]) for place in range(len(cutting.ladders)))
    uncut, rows, after = [(users, had)], [], [users[:0]]
    while uncut:
        here, leaves = uncut.pop()
        if not cutting.admits(cutting.sums(here)):
            after.append(here)
            continue
        found = cutting.best_cut(here, leaves, waiting)
        if found is None:
            rows += _rows_of_class(cutting, here, leaves, turn)
            continue
        place, sides = found
        for side in sides:
            inside = np.zeros(cutting.ladders[place].size, dtype=bool)
            inside[side] = True
            part = here[inside[codes[here, place]]]
            uncut.append((part, (*leaves[:place], np.sort(side), *leaves[place + 1 :])))
    return rows, np.concatenate(after)


def _rows_of_class(
    cutting: _Cutting, here: NDArray[np.intp], leaves: tuple[Leaves, ...], turn: int
) -> list[_Row]:
    """Return a row, or one for each value of the sensitive attribute."""
    sums, place = cutting.sums(here), cutting.sensitive
    if place is None:
        return [(leaves, int(sums.sum()), turn)]
    return [
        ((*leaves[:place], np.array([leaf]), *leaves[place + 1 :]), int(sums[leaf]), turn)
        for leaf in np.flatnonzero(sums)
    ]


def _table(ladders: Sequence[Ladder], rows: Sequence[_Row], apis: Sequence[str]) -> Generalised:
    names = [api for ladder in ladders for api in ladder.apis]
    texts = [
        [text for ladder, mine in zip(ladders, held, strict=True) for text in ladder.shown(mine)]
        for held, _, _ in rows
    ]
    users = np.array([counted for _, counted, _ in rows], dtype=np.int64)
    width = np.array([len(ladder.apis) for ladder in ladders])
    lost = np.array(
        [[one.loss(mine) for one, mine in zip(ladders, held, strict=True)] for held, _, _ in rows]
    )
    table = pl.DataFrame(texts, schema=dict.fromkeys(names, pl.String), orient="row")
    # Rows stand in the order of what they show: that of the cuts would tell where users were cut.
    order = table.with_row_index("row").sort([*apis, "row"])["row"].to_numpy()
    allowed = []
    for place, ladder in enumerate(ladders):
        inside = np.zeros((len(rows), ladder.size), dtype=bool)
        for number, (held, _, _) in enumerate(rows):
            inside[number, held[place]] = True
        allowed.append(inside[order])
    hidden = table.select(pl.sum_horizontal(pl.all().is_null().cast(pl.Int64))).to_series()
    return Generalised(
        table=table.select(apis).with_columns(pl.Series(USERS, users))[order],
        ladders=tuple(ladders),
        allowed=tuple(allowed),
        turns=np.array([turn for _, _, turn in rows])[order],
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
