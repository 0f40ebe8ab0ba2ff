"""Long logs: one observation a record, with a user, an API and a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import polars as pl

from fpmonitor.collectors.codes import Coder
from fpmonitor.collectors.readers import reader_of
from fpmonitor.collectors.tables import FIELDS, Column

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fpmonitor.logs import CodedBatch, ColumnMap, LogFile

_STATUSES = ("value", "undefined", "error")


class LongCollector:
    """Reads `user, api, value[, time, status, source]` from JSON lines, CSV or Parquet.

    A record with an API and neither value nor status says that the API returned `undefined`:
    JSON has no word for it and leaves the member out.
    """

    name: ClassVar[str] = "long"

    def recognises(self, log: LogFile, column_map: ColumnMap) -> bool:
        """Whether the log has a user and an API in each record."""
        columns = reader_of(log).head_columns(log)
        names = {column.name for column in columns if not column.nested}
        return column_map.name_of("user") in names and column_map.name_of("api") in names

    def read(self, log: LogFile, column_map: ColumnMap) -> Iterator[CodedBatch]:
        """Read the log."""
        coder = Coder(values_are_json=log.format == "jsonl")
        texts = {field: Column(column_map.name_of(field)) for field in (*FIELDS, "api", "status")}
        value = Column(column_map.name_of("value"))
        api, status = pl.col("api"), pl.col("status")
        for batch in reader_of(log).read(log, texts, [value]):
            rows = batch.rows.hstack(batch.values.select(pl.all().alias("value")))
            problem = (
                pl.when(pl.col("problem").is_not_null())
                .then(pl.col("problem"))
                .when(api.is_null() | (api == ""))
                .then(pl.lit("api is missing"))
                .when(status.is_in(_STATUSES).not_())
                .then(pl.lit("status is none of value, undefined, error"))
            )
            default = (
                pl.when(pl.col("value").is_null())
                .then(pl.lit("undefined"))
                .otherwise(pl.lit("value"))
            )
            rows = rows.with_columns(problem=problem, status=status.fill_null(default))
            yield coder.long(self.observations(rows), batch.locate)

    def observations(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Complete the records of a batch: columns as of `Coder.long`."""
        return rows
