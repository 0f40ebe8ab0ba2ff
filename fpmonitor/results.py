"""What all results have in common: rows for data frames, HTML and figures for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl  # slow to load


class Members:
    """What becomes JSON member by member."""

    __slots__ = ()
    # Names of members, in the order of the JSON; `name=path` where it calls one otherwise, which is
    # null where it leads through null. All members by default.
    JSON: ClassVar[str] = ""
    # Names of fields that the JSON has only where they are not as by default.
    RARE: ClassVar[str] = ""

    def to_json(self) -> Any:
        """Return the result as the CLI prints it."""
        pairs = (each.partition("=") for each in self.JSON.split() or _names(self))
        # `MISSING` equals nothing that a member may hold, so those that are not rare stay.
        usual = _defaults(self, self.RARE.split())
        return {
            name: _plain(value)
            for name, _, path in pairs
            if (value := _at(self, path or name)) != usual.get(name, MISSING)
        }


def _names(value: Any) -> list[str]:
    return [each.name for each in fields(value)]


def _defaults(value: Any, names: Collection[str]) -> dict[str, Any]:
    return {each.name: each.default for each in fields(value) if each.name in names}


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return value


def _plain(value: Any) -> Any:
    # First: what says itself how it is told is a dataclass as well.
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name in _names(value)}
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, date):
        return value.isoformat()
    return [*map(_plain, value)] if isinstance(value, tuple | list) else value


class Result(Members):
    """A result that becomes a data frame, and shows itself in a notebook."""

    __slots__ = ()
    # The package sets these: a room that computes results does not know how they are drawn, nor
    # what becomes of them.
    to_html: ClassVar[Callable[[Result], str]]
    plot: ClassVar[Callable[[Result], Any]]
    do: ClassVar[Callable[..., Any]]

    def rows(self) -> list[dict[str, Any]]:
        """Return the result as rows, those that the CLI writes as CSV."""
        return [self.to_json()]

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a data frame of Polars."""
        import polars as pl  # noqa: PLC0415 -- see above

        return pl.DataFrame(self.rows(), infer_schema_length=None)

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a data frame of pandas."""
        import pandas as pd  # noqa: PLC0415 -- of the user

        return pd.DataFrame(self.rows())

    def _repr_html_(self) -> str:
        return self.to_html()


Line = TypeVar("Line", bound=Result)


class Answers(list[Line], Result):
    """Several results of one kind, which show themselves as one table."""

    __slots__ = ()

    def to_json(self) -> list[Any]:
        """Return the results as the CLI prints them."""
        return [one.to_json() for one in self]

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of all results."""
        return list(chain.from_iterable(one.rows() for one in self))
