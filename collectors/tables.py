"""Logs as tables of text: what the readers of JSON lines, CSV and Parquet give the collectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from fpmonitor.errors import InputError
from fpmonitor.logs import MAX_APIS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import polars as pl

    from fpmonitor.logs import LogFile


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a log; nested ones are members of a JSON record's `attributes`."""

    name: str
    nested: bool = False


@dataclass(frozen=True, slots=True)
class TextBatch:
    """Some records of a log as text.

    Attributes
    ----------
    rows
        A row a record: text columns `problem` (why it cannot be read, or null) and those asked for.
    values
        For the same records the values of the columns asked for, as they stand in the log (JSON
        text for JSON lines); null where one is absent.
    locate
        Line of the log and text of each of some rows.
    """

    rows: pl.DataFrame
    values: pl.DataFrame
    locate: Callable[[Sequence[int]], list[tuple[int, str]]]


Values: TypeAlias = "Sequence[Column] | Callable[[Sequence[Column]], Sequence[Column]]"
FIELDS = ("user", "time", "source")


def too_many_apis(label: str) -> InputError:
    """Error of a wide log with more columns than a table can have."""
    return InputError(
        f"{label}: more than {MAX_APIS:,} columns in a wide log",
        hint="write one observation a record: user, api, value",
    )


class Reader(Protocol):
    """What a module that reads one file format holds."""

    def head_columns(self, log: LogFile) -> list[Column]:
        """Columns that the beginning of the log shows."""

    def read(
        self,
        log: LogFile,
        texts: Mapping[str, Column],
        values: Values,
    ) -> Iterator[TextBatch]:
        """Read a log once, in batches that fit into memory.

        Parameters
        ----------
        log
            The log.
        texts
            Name of a text column of the rows -> column of the log; null where the log lacks it.
        values
            Columns that hold values; or a function that chooses them of all that the log has, which
            is asked again when a record brings another.

        Raises
        ------
        InputError
            The log cannot be read.
        """
