"""What the rows of a table tell together: hidden values that are left over, values that are linked.

Both attackers know how the table was made, and nothing of its users but what is said. What they
find is compared with the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from fpmonitor.release.histogram import Release, group_of_users, with_absent
from fpmonitor.release.suppression import USERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_PAIRS = 2_000_000  # pairs of rows that are compared at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Downcoding:
    """Hidden cells that other rows tell more of: a user who fits an earlier row is in that one."""

    # Shares of the users: whose row hides or coarsens a value; of whom a cell is narrowed to fewer
    # values than it shows; and to a single one.
    hidden: float
    narrowed: float
    found: float
    # Share of the narrowed cells, weighted by users, in which the truth is left; null without any.
    right: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Linkage:
    """What is learnt of one API by who knows all other released values of a user."""

    api: str
    learnt: float  # Share of the users whose value is guessed rightly with the table.
    guessed: float  # The same without the table, by the most frequent value.


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Boxes:
    """Which values each row of a table allows, and the values of users."""

    axes: tuple[tuple[str, ...], ...]  # APIs of each axis, most often one.
    codes: NDArray[np.int64]  # shape (users, axes): leaf of each user.
    allowed: tuple[NDArray[np.bool_], ...]  # For each axis: shape (rows, leaves).
    single: tuple[NDArray[np.bool_], ...]  # For each axis: whether a leaf is one value.
    # The turn of each row: of those that allow a user's values, that of the first one has the user.
    turns: NDArray[np.int64]
    rows_of: NDArray[np.int64]  # Row of each user; -1 for none.


def boxes_of(release: Release, values: pl.DataFrame) -> Boxes:
    """Return the boxes of a release, and where the users are whom it was made of.

    Args:
        release: As `histogram.check_origin` returns it.
        values: Of all users, under the transforms of the manifest.
    """
    has_values = values.select(pl.any_horizontal(pl.all().is_not_null())).to_series().to_numpy()
    rows_of = group_of_users(release, values)[has_values]
    present = with_absent(values)
    if release.generalised is not None:
        made = release.generalised
        axes: list[tuple[str, ...]] = [ladder.apis for ladder in made.ladders]
        codes, allowed, turns = made.codes_of(present), list(made.allowed), made.turns
    else:
        table = release.table.drop(USERS)
        axes = [(api,) for api in table.columns]
        cells = [_cells(table[api], present[api]) for api in table.columns]
        codes = np.column_stack([mine for mine, _ in cells])
        allowed = [axis for _, axis in cells]
        order = {frozenset(pattern): turn for turn, pattern in enumerate(release.manifest.patterns)}
        shown = ([api for api in row if row[api] is not None] for row in table.rows(named=True))
        turns = np.array([order[frozenset(pattern)] for pattern in shown])
    return Boxes(
        axes=tuple(axes),
        codes=codes,
        allowed=tuple(allowed),
        single=tuple(
            _singles(present.select(apis), codes[:, place], allowed[place].shape[1])
            for place, apis in enumerate(axes)
        ),
        turns=turns,
        rows_of=rows_of,
    )


def _cells(shown: pl.Series, had: pl.Series) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the leaf of each user, and which leaves each row allows: a null allows all.

    The last leaf is all values that no row names.
    """
    named = {text: leaf for leaf, text in enumerate(shown.drop_nulls().unique())}
    codes = had.replace_strict(named, default=len(named), return_dtype=pl.Int64)
    leaves = shown.replace_strict(named, default=-1, return_dtype=pl.Int64).to_numpy()
    allowed = leaves[:, None] == np.arange(len(named) + 1)
    allowed[shown.is_null().to_numpy()] = True
    return codes.to_numpy(), allowed


def _singles(values: pl.DataFrame, codes: NDArray[np.int64], leaves: int) -> NDArray[np.bool_]:
    """Return whether users have one value at most of each leaf."""
    distinct = values.to_struct().rank("dense").to_numpy().astype(np.int64)
    pairs = np.unique(np.column_stack([codes, distinct]), axis=0)
    return np.asarray(np.bincount(pairs[:, 0], minlength=leaves) <= 1)


def downcode(boxes: Boxes) -> Downcoding:
    """Narrow the cells of each row by all earlier ones.

    What a row allows and an earlier row has taken whole is excluded from it. Values that several
    earlier rows have taken only together are not.
    """
    users = np.bincount(boxes.rows_of[boxes.rows_of >= 0], minlength=len(boxes.turns))
    left = [cells.copy() for cells in boxes.allowed]
    cells = [np.unique(axis, axis=0, return_inverse=True) for axis in boxes.allowed]
    numbers = [inverse.ravel() for _, inverse in cells]
    # inside[one, other]: whether what cell `one` allows, cell `other` allows, too. As float32:
    # BLAS multiplies no whole numbers; it counts up to 2^24 leaves exactly.
    inside = [(one.astype(np.float32) @ ~one.T) == 0 for one, _ in cells]
    size = max(1, _PAIRS // len(boxes.turns))
    for start in range(0, len(boxes.turns), size):
        rows = np.arange(start, min(start + size, len(boxes.turns)))
        outside = [
            ~each[number[rows][:, None], number[None, :]]
            for each, number in zip(inside, numbers, strict=True)
        ]
        # Alike in all axes but one: there the earlier row has taken whatever it allows.
        taken = np.sum(outside, axis=0) == 1
        taken &= boxes.turns[rows][:, None] > boxes.turns[None, :]
        for place, axis in enumerate(outside):
            by = (taken & axis).astype(np.float32) @ boxes.allowed[place]
            left[place][rows] &= by == 0
    return _narrowed(boxes, left, users)


def _narrowed(
    boxes: Boxes, left: Sequence[NDArray[np.bool_]], users: NDArray[np.int64]
) -> Downcoding:
    hidden = np.zeros(len(users), dtype=bool)
    narrowed, found = hidden.copy(), hidden.copy()
    right = guessed = 0
    placed = boxes.rows_of >= 0
    for place, (before, after) in enumerate(zip(boxes.allowed, left, strict=True)):
        single = boxes.single[place]
        coarse = (before.sum(axis=1) > 1) | ~single[before.argmax(axis=1)]
        fewer = after.sum(axis=1) < before.sum(axis=1)
        hidden |= coarse
        narrowed |= fewer
        found |= fewer & (after.sum(axis=1) == 1) & single[after.argmax(axis=1)]
        mine = boxes.rows_of[placed]
        about = fewer[mine]
        guessed += int(about.sum())
        right += int(after[mine, boxes.codes[placed, place]][about].sum())
    total = max(int(users.sum()), 1)
    return Downcoding(
        hidden=float(users[hidden].sum() / total),
        narrowed=float(users[narrowed].sum() / total),
        found=float(users[found].sum() / total),
        right=right / guessed if guessed else None,
    )


def link(boxes: Boxes, *, users: int, rng: np.random.Generator) -> tuple[Linkage, ...]:
    """Guess each value of some users by the rows that fit their other ones; most learnt first.

    The value is guessed that most users of these rows have, if values in a cell are as frequent as
    among all users, and independent.
    """
    some = boxes.codes[rng.permutation(len(boxes.codes))[:users]]
    shares = []
    for place, cells in enumerate(boxes.allowed):
        counts = np.bincount(boxes.codes[:, place], minlength=cells.shape[1])
        shares.append(cells * counts / np.maximum(cells @ counts, 1)[:, None])
    sizes = np.bincount(boxes.rows_of[boxes.rows_of >= 0], minlength=len(boxes.turns))
    found = [_linked(boxes, place, some, shares, sizes) for place in range(len(boxes.axes))]
    return tuple(sorted(found, key=lambda one: one.guessed - one.learnt))


def _linked(
    boxes: Boxes,
    place: int,
    users: NDArray[np.int64],
    shares: Sequence[NDArray[np.float64]],
    sizes: NDArray[np.int64],
) -> Linkage:
    counts = np.bincount(boxes.codes[:, place], minlength=shares[place].shape[1])
    learnt = 0
    for values in users:
        fitting = sizes.astype(np.float64)
        for axis, leaf in enumerate(values):
            if axis != place:
                fitting *= shares[axis][:, leaf]
        # Users of each row who have the known values, spread over those of the guessed one.
        scores = fitting @ shares[place]
        guess = int(scores.argmax()) if scores.max() > 0 else int(counts.argmax())
        learnt += int(guess == values[place])
    return Linkage(
        api=", ".join(boxes.axes[place]),
        learnt=learnt / len(users),
        guessed=float(counts.max() / len(boxes.codes)),
    )
