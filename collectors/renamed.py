"""Wide tables of known sources: columns have fixed meanings, and get the names of their APIs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING

from fpmonitor.collectors.readers import reader_of
from fpmonitor.collectors.wide import WideCollector
from fpmonitor.sql import quote_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

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
        return known >= 4 and self.recognises_named(log, column_map)

    def recognises_named(self, log: LogFile, column_map: ColumnMap) -> bool:
        """Whether the log is wide, by the names that the source uses."""
        return super().recognises(log, self.named(log, column_map))

    @property
    def source(self) -> str:
        """What made the values, where the log does not say."""
        return self.name

    def unknown(self, column: str) -> str:
        """Return what a column is called that the source does not have."""
        return f"x:{self.name}:{column}"

    @abstractmethod
    def why_left_out(self, column: str) -> str:
        """Why the source's own names leave a column out."""

    def scan(self, log: LogFile, column_map: ColumnMap) -> Scan:
        """How to read the log; errors as of the wide collector."""
        named = self.named(log, column_map)
        return self._renamed(super().scan(log, named), named.ignore - column_map.ignore)

    def _renamed(self, scan: Scan, left_out: Collection[str]) -> Scan:
        source = f"COALESCE(source, {quote_text(self.source)}) AS source"
        select = f"SELECT * REPLACE ({source}) FROM ({scan.select})"  # noqa: S608 -- a statement of the wide collector
        otherwise = scan.otherwise
        spare = {
            name: self.why_left_out(name) if name in left_out else why
            for name, why in scan.spare.items()
        }
        columns = scan.apis or ()
        apis = self._apis(columns)
        paths = dict(zip(apis, columns, strict=True))
        return replace(
            scan,
            select=select,
            apis=apis,
            spare=spare,
            paths=paths,
            # The exact reading has other columns, which are renamed as well.
            otherwise=otherwise and (lambda: self._renamed(otherwise(), left_out)),
        )

    def _apis(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Names of columns; of two columns that are one API, the second keeps its own."""
        names: dict[str, None] = {}
        for column in columns:
            api = self.api_of_column(column)
            names[api if api and api not in names else self.unknown(column)] = None
        return tuple(names)


def column_names(log: LogFile) -> list[str]:
    """Columns that the beginning of the log shows; none of one JSON array, which is no table."""
    if log.first_byte == b"[":
        return []
    return [column.name for column in reader_of(log).head_columns(log) if not column.path]


def first_ending(names: Iterable[str], ending: str) -> str | None:
    """Return the first name that ends so."""
    return next((name for name in names if name.endswith(ending)), None)
