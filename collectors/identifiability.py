"""Chromium's identifiability study: rows of a client, a metric's hash and a token."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import polars as pl

from fpmonitor.collectors.frames import fetch_frame
from fpmonitor.collectors.long import LongCollector
from fpmonitor.collectors.renamed import column_names
from fpmonitor.duckdb_connection import ArrowStream, in_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fpmonitor.logs import CodedBatch, ColumnMap, LogFile

_HASH = "metric_hash"
_NAME_APIS = """
    SELECT api, 'x:ukm:' || (hash & 255) || ':' || lower(to_hex(hash >> 8)) AS named
    FROM (
        SELECT api, TRY_CAST(
            number + CASE WHEN number < 0 THEN 18446744073709551616 ELSE 0 END AS UBIGINT
        ) AS hash
        FROM (SELECT api, TRY_CAST(api AS HUGEINT) AS number FROM hashes)
    )
"""


class IdentifiabilityCollector(LongCollector):
    """Reads `user, metric_hash, value` (other names by column map).

    The low 8 bits of a metric's hash are the type of the surface, the other 56 the hash of what it
    was asked for (`identifiable_surface.h` of Chromium): the API is `x:ukm:<type>:<hexadecimal>`.
    """

    name: ClassVar[str] = "identifiability"

    def recognises(self, log: LogFile, column_map: ColumnMap) -> bool:
        """Whether the log has a user and a metric's hash in each record."""
        return _HASH in column_names(log) and super().recognises(log, _named(column_map))

    def read(self, log: LogFile, column_map: ColumnMap) -> Iterator[CodedBatch]:
        """Read the log."""
        return super().read(log, _named(column_map))

    def observations(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Name the API of each record by the hash of its metric."""
        hashes = rows.select("api").unique()
        with in_memory() as connection:
            connection.register("hashes", ArrowStream(hashes))
            named = fetch_frame(connection, _NAME_APIS)
        problem, api = pl.col("problem"), pl.col("named")
        no_number = pl.when(api.is_null()).then(pl.lit("metric_hash is no 64-bit number"))
        return rows.join(
            named, on="api", how="left", nulls_equal=True, maintain_order="left"
        ).with_columns(
            problem=pl.coalesce(problem, no_number),
            api=api,
            source=pl.col("source").fill_null(self.name),
        )


def _named(column_map: ColumnMap) -> ColumnMap:
    return replace(column_map, columns={"api": _HASH, **column_map.columns})
