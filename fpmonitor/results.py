"""What all results have in common: rows for data frames, and HTML for notebooks."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import polars as pl  # slow to load


class Members:
    """What becomes JSON member by member."""

    __slots__ = ()
    # Names of members, in the order of the JSON; `name=path` where it calls one otherwise.
    JSON: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Return the result as the CLI prints it."""
        pairs = (each.partition("=") for each in self.JSON.split())
        return {name: _plain(attrgetter(path or name)(self)) for name, _, path in pairs}


def _plain(value: Any) -> Any:
    if hasattr(value, "to_json"):
        return value.to_json()
    return [*map(_plain, value)] if isinstance(value, tuple) else value


class Result(Members):
    """A result that becomes a data frame, and shows itself in a notebook."""

    __slots__ = ()
    # The package sets this: a room that computes results does not know how they are drawn.
    to_html: ClassVar[Callable[[Result], str]]

    def rows(self) -> list[dict[str, Any]]:
        """Return the result as rows, those that the CLI writes as CSV."""
        return [self.to_json()]

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a data frame of Polars."""
        import polars as pl  # noqa: PLC0415 -- see above

        return pl.DataFrame(self.rows(), infer_schema_length=None)

    def _repr_html_(self) -> str:
        return self.to_html()
