"""Wide tables of known sources: columns have fixed meanings, and get the names of their APIs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from fpmonitor.collectors.readers import reader_of
from fpmonitor.collectors.wide import WideCollector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import polars as pl

    from fpmonitor.logs import CodedBatch, ColumnMap, LogFile


class RenamedCollector(WideCollector, ABC):
    """Reads a wide log by a column map of its own; what the user's column map says comes first."""

    @abstractmethod
    def api_of_column(self, column: str) -> str | None:
        """Return the API of a column; null where the source has no such column."""

    @abstractmethod
    def named(self, log: LogFile, column_map: ColumnMap) -> ColumnMap:
        """Complete a column map by the names that the source uses."""

    def recognises(self, log: LogFile, column_map: ColumnMap) -> bool:
        """Whether four or more columns bear names that the source uses."""
        names = column_names(log)
        known = sum(self.api_of_column(name) is not None for name in names)
        return known >= 4 and super().recognises(log, self.named(log, column_map))

    def read(self, log: LogFile, column_map: ColumnMap) -> Iterator[CodedBatch]:
        """Read the log; errors as of the wide collector."""
        return super().read(log, self.named(log, column_map))

    def api_of(self, column: str) -> str:
        """Return the name of the API that a column holds."""
        return self.api_of_column(column) or f"x:{self.name}:{column}"

    def source_of(self, source: pl.Expr) -> pl.Expr:
        """Return where visits come from: the name of the source, where the log tells none."""
        return source.fill_null(self.name)


def column_names(log: LogFile) -> list[str]:
    """Columns that the beginning of the log shows; none of one JSON array, which is no table."""
    if log.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"[":
        return []
    return [column.name for column in reader_of(log).head_columns(log) if not column.nested]


def first_ending(names: Iterable[str], *endings: str) -> str | None:
    """Return the first name that ends in one of some endings."""
    return next((name for name in names if name.endswith(endings)), None)
