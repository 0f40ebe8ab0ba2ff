"""Exports of analytics products: their columns are APIs, ids or metadata, as the products say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from fpmonitor.collectors.readers import reader_of
from fpmonitor.collectors.renamed import RenamedCollector
from fpmonitor.collectors.results import holds_result
from fpmonitor.collectors.table_rows import first_of
from fpmonitor.vocabulary.products import ExportProduct, product_of

if TYPE_CHECKING:
    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.contract import Scan
    from fpmonitor.logs.log_file import LogFile

_ROLES = {"identifier": "an id", "metadata": "metadata"}


class AnalyticsCollector(RenamedCollector):
    """Reads tables and events of the products that the vocabulary knows.

    What a product does not list keeps its name, as of the wide collector. A log that holds results
    of libraries is none of these.
    """

    name: ClassVar[str] = "analytics"

    def __init__(self) -> None:
        super().__init__()
        self._product: ExportProduct | None = None
        self._said: frozenset[str] = frozenset()

    def recognises(self, log: LogFile, column_map: ColumnMap) -> bool:
        """Whether the columns are those of a product, and some of them APIs."""
        if log.first_byte == b"[":
            return False
        columns = _columns(log)
        self._product = product_of(columns)
        return (
            any(self.api_of_column(column) for column in columns)
            and self.recognises_named(log, column_map)
            and not any(map(holds_result, first_of(log)))
        )

    def scan(self, log: LogFile, column_map: ColumnMap) -> Scan:
        """How to read the log; errors as of the wide collector."""
        self._product = product_of(_columns(log))
        return super().scan(log, column_map)

    @property
    def source(self) -> str:
        """Name of the product."""
        return self._product.name if self._product else self.name

    def api_of_column(self, column: str) -> str | None:
        """Return the API of a column of the product."""
        if self._product is None or column in self._said:
            return None
        return self._product.api_of(column)

    def unknown(self, column: str) -> str:
        """Return what a column is called that the product does not list."""
        return column

    def why_left_out(self, column: str) -> str:
        """Say what a column is by the product."""
        role = self._product.role_of(column) if self._product else None
        return f"{_ROLES.get(role or '', 'a column')} of {self.source}"

    def named(self, log: LogFile, column_map: ColumnMap) -> ColumnMap:
        """Complete a column map by what the product says of its columns."""
        product, columns = self._product, _columns(log)
        self._said = frozenset({*column_map.apis, *column_map.columns.values()})
        if product is None:
            return column_map
        found = {
            "user": product.first_of(product.users, columns),
            "time": product.first_of(product.times, columns),
        }
        fields = {field: name for field, name in found.items() if name} | dict(column_map.columns)
        said = self._said.union(fields.values())
        # An object in which something is said to be stays no whole.
        within = {name[:end] for name in said for end, sign in enumerate(name) if sign == "."}
        spare = {name for name in columns if product.role_of(name)} - said - within
        return replace(column_map, columns=fields, ignore=column_map.ignore | spare)


def _columns(log: LogFile) -> list[str]:
    return [column.name for column in reader_of(log).head_columns(log)]
