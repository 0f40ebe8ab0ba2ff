"""Wide logs: one visit a record, and a column for each API."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import polars as pl

from fpmonitor.collectors import frames
from fpmonitor.collectors.codes import Coder
from fpmonitor.collectors.json_lines import ATTRIBUTES
from fpmonitor.collectors.readers import reader_of
from fpmonitor.collectors.tables import FIELDS, Column, too_many_apis
from fpmonitor.errors import InputError
from fpmonitor.logs import MAX_APIS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fpmonitor.collectors.tables import TextBatch, Values
    from fpmonitor.logs import CodedBatch, ColumnMap, LogFile


class WideCollector:
    """Reads one row a visit from JSON lines, CSV or Parquet.

    Columns other than `user`, `time`, `source` and the ignored ones are APIs; JSON records may
    hold them in a member `attributes` instead. A missing member, an empty CSV field that is not
    quoted, and a Parquet null are absent; a JSON null is a value unless the column map says
    otherwise.
    """

    name: ClassVar[str] = "wide"

    def recognises(self, log: LogFile, column_map: ColumnMap) -> bool:
        """Whether the log has a user and something else, and is not a long log."""
        columns = reader_of(log).head_columns(log)
        names = {column.name for column in columns if not column.nested}
        return (
            column_map.name_of("user") in names
            and column_map.name_of("api") not in names
            and bool(_api_columns(columns, column_map))
        )

    def read(self, log: LogFile, column_map: ColumnMap) -> Iterator[CodedBatch]:
        """Read the log.

        Raises
        ------
        InputError
            An API stands both beside and in `attributes`, or there is no API.
        """
        read = partial(reader_of(log).read, log)
        return self._coded(log.label, read, column_map, is_json=log.format == "jsonl")

    def read_frame(
        self, frame: pl.DataFrame, label: str, column_map: ColumnMap
    ) -> Iterator[CodedBatch]:
        """Read a frame as a log of its columns; errors as of `read`."""
        return self._coded(label, partial(frames.read, frame), column_map, is_json=False)

    def _coded(
        self,
        label: str,
        read: Callable[[Mapping[str, Column], Values], Iterator[TextBatch]],
        column_map: ColumnMap,
        *,
        is_json: bool,
    ) -> Iterator[CodedBatch]:
        null_is_absent = is_json and column_map.null == "absent"
        coder = Coder(values_are_json=is_json)
        fields = {field: Column(column_map.name_of(field)) for field in FIELDS}

        def apis_of(columns: Sequence[Column]) -> list[Column]:
            return _checked(label, _api_columns(columns, column_map))

        for batch in read(fields, apis_of):
            values = batch.values.rename(self.api_of)
            if null_is_absent:
                values = values.select(pl.when(pl.all() != "null").then(pl.all()))
            rows = batch.rows.with_columns(self.source_of(pl.col("source")))
            yield coder.wide(rows, values, batch.locate)
        if not coder.apis:
            raise InputError(f"{label}: no column is an API")

    def api_of(self, column: str) -> str:
        """Return the name of the API that a column holds."""
        return column

    def source_of(self, source: pl.Expr) -> pl.Expr:
        """Return where visits come from, by what the log says."""
        return source


def _api_columns(columns: Sequence[Column], column_map: ColumnMap) -> list[Column]:
    fields = {column_map.name_of(field) for field in FIELDS}
    no_apis = fields | column_map.ignore | {""}
    if any(column.nested for column in columns):
        no_apis = no_apis | {ATTRIBUTES}
    return [column for column in columns if column.nested or column.name not in no_apis]


def _checked(label: str, apis: list[Column]) -> list[Column]:
    """Check that a log has APIs, not too many, and none of them twice."""
    if len(apis) > MAX_APIS:
        raise too_many_apis(label)
    twice = sorted(name for name, times in Counter(api.name for api in apis).items() if times > 1)
    if twice:
        raise InputError(f"{label}: {twice[0]!r} stands both beside and in `{ATTRIBUTES}`")
    return apis
