"""Wide tables of known sources: columns have fixed meanings, and get the names of their APIs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING

from fpmonitor.collectors.readers import reader_of
from fpmonitor.collectors.wide import WideCollector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.contract import Scan
    from fpmonitor.logs.log_file import LogFile


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

    def scan(self, log: LogFile, column_map: ColumnMap) -> Scan:
        """How to read the log; errors as of the wide collector."""
        return self._renamed(super().scan(log, self.named(log, column_map)))

    def _renamed(self, scan: Scan) -> Scan:
        source = f"COALESCE(source, '{self.name}') AS source"
        select = f"SELECT * REPLACE ({source}) FROM ({scan.select})"  # noqa: S608 -- a statement of the wide collector
        exact = scan.exact
        return replace(
            scan,
            select=select,
            apis=tuple(self._api(column) for column in scan.apis or ()),
            exact=None if exact is None else lambda: self._renamed(exact()),
        )

    def _api(self, column: str) -> str:
        return self.api_of_column(column) or f"x:{self.name}:{column}"


def column_names(log: LogFile) -> list[str]:
    """Columns that the beginning of the log shows; none of one JSON array, which is no table."""
    if log.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"[":
        return []
    return [column.name for column in reader_of(log).head_columns(log) if not column.path]


def first_ending(names: Iterable[str], *endings: str) -> str | None:
    """Return the first name that ends in one of some endings."""
    return next((name for name in names if name.endswith(endings)), None)
