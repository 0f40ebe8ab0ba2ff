"""What a release tells of a sensitive attribute about somebody whose other values are known.

A class is the rows that agree in all APIs but the sensitive one. k-anonymity says nothing of it:
where all users of a class have one value, everybody in it is known to have it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fpmonitor.errors import InputError, UndecidableError, UnknownNameError
from fpmonitor.release.suppression import USERS


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitiveAttribute:
    """How much a table tells of a sensitive attribute. A class is alike in all other APIs.

    Attributes:
        api: The attribute.
        classes: Classes in which it is published.
        l, entropy_l: l-diversity: the least number of different values in a class; and the least
            exponential of the entropy of its values, which counts rare ones for less.
        t: t-closeness: the largest distance of a class from the whole table, as the share of users
            who would have to have another value.
        t_ordered: The same for values that are numbers: a user is moved over a share of the range
            of their ranks. Null where a value is none.
        beta: beta-likeness: by which share the probability of a value rises at most for who knows
            the class.
    """

    api: str
    classes: int
    l: int  # noqa: E741 -- as it is called
    entropy_l: float
    t: float
    t_ordered: float | None
    beta: float

    @property
    def gives_away(self) -> bool:
        """Whether all users of some class have one value, and not all users have it."""
        return self.l == 1 and self.t > 0


def sensitivity_of(table: pl.DataFrame, api: str) -> SensitiveAttribute:
    """Return how much a released table tells of one of its columns.

    Suppressed cells of the attribute are left out; those of the others are a value of their own,
    since a reader sees them.

    Args:
        table: A text column for each API, null where suppressed, and `users`.
        api: The sensitive attribute.

    Raises:
        UnknownNameError: The table has no such column.
        InputError: It has no other one.
        UndecidableError: The attribute is suppressed everywhere.

    Notes:
        Machanavajjhala et al. 2007 (l-diversity), Li, Li, Venkatasubramanian 2007 (t-closeness),
        Cao, Karras 2012 (basic beta-likeness); "Statistical anonymity", 2.2, and "singling out",
        footnote 22, name them.
    """
    apis = [column for column in table.columns if column != USERS]
    if api not in apis:
        raise UnknownNameError("released API", api, apis)
    known = [other for other in apis if other != api]
    if not known:
        raise InputError(f"sensitive: {api} is the only API of the table")
    shown = table.filter(pl.col(api).is_not_null())
    if not len(shown):
        raise UndecidableError(f"sensitive: {api} is suppressed everywhere")
    classes = shown.select(known).to_struct().rank("dense").to_numpy().astype(np.int64) - 1
    order = _in_order(shown[api].unique().to_list())
    columns = shown[api].replace_strict({value: i for i, value in enumerate(order)}).to_numpy()
    counts = np.zeros((int(classes.max()) + 1, len(order)))
    np.add.at(counts, (classes, columns), shown[USERS].to_numpy())
    return _measured(api, counts, ordered=_numbers(order) is not None)


def _measured(api: str, counts: NDArray[np.float64], *, ordered: bool) -> SensitiveAttribute:
    """Measure users by class (rows) and value (columns), values in their order."""
    whole = counts.sum(axis=0) / counts.sum()
    inside = counts / counts.sum(axis=1, keepdims=True)
    logs = np.log(np.where(inside > 0, inside, 1.0))
    # Earth mover's distance on a line: the mass that crosses each gap between neighbours.
    moved = np.abs(np.cumsum(inside - whole, axis=1)[:, :-1]).sum(axis=1)
    steps = max(counts.shape[1] - 1, 1)
    return SensitiveAttribute(
        api=api,
        classes=len(counts),
        l=int((counts > 0).sum(axis=1).min()),
        entropy_l=float(np.exp(-(inside * logs).sum(axis=1)).min()),
        t=float(np.abs(inside - whole).sum(axis=1).max() / 2),
        t_ordered=float(moved.max(initial=0.0) / steps) if ordered else None,
        beta=float((inside / whole - 1).max()),
    )


def _in_order(values: list[str]) -> list[str]:
    numbers = _numbers(values)
    if numbers is None:
        return sorted(values)
    return [value for _, value in sorted(zip(numbers, values, strict=True))]


def _numbers(values: list[str]) -> list[float] | None:
    """Return the values as numbers; None where one is none."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None
