"""Long logs: one observation a record, with a user, an API and a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fpmonitor.collectors import tables
from fpmonitor.collectors.tables import Column
from fpmonitor.logs import Scan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.logs import ColumnMap, LogFile, Refused, Reject

_STATUSES = "('value', 'undefined', 'error')"


class LongCollector:
    """Reads `user, api, value[, time, status, source]` from JSON lines, CSV or Parquet.

    A record with an API and neither value nor status says that the API returned `undefined`:
    JSON has no word for it and leaves the member out.
    """

    name: ClassVar[str] = "long"

    def recognises(self, log: LogFile, column_map: ColumnMap) -> bool:
        """Whether the log has a user and an API in each record."""
        names = {column.name for column in tables.head_columns(log) if not column.nested}
        return column_map.name_of("user") in names and column_map.name_of("api") in names

    def scan(self, log: LogFile, column_map: ColumnMap) -> Scan:
        """How to read the log."""
        present = set(tables.head_columns(log)) if log.format != "jsonl" else None
        columns = {
            field: Column(column_map.name_of(field))
            for field in ("user", "time", "source", "api", "status", "value")
        }
        columns = {
            field: column
            for field, column in columns.items()
            if present is None or column in present
        }
        table = tables.read_table(log, list(columns.values()))

        def text(field: str) -> str:
            return table.text[columns[field]] if field in columns else "NULL::VARCHAR"

        value = table.value[columns["value"]] if "value" in columns else "NULL::VARCHAR"
        select = f"""
            SELECT
                COALESCE(
                    problem,
                    CASE
                        WHEN api IS NULL OR api = '' THEN 'api is missing'
                        WHEN status NOT IN {_STATUSES}
                            THEN 'status is none of value, undefined, error'
                    END
                ) AS problem,
                "user", "time", source, api,
                COALESCE(status, CASE WHEN value IS NULL THEN 'undefined' ELSE 'value' END)
                    AS status,
                value
            FROM (
                SELECT {table.problem} AS problem, {text("user")} AS "user", {text("time")} AS "time",
                    {text("source")} AS source, {text("api")} AS api, {text("status")} AS status,
                    {value} AS value
                FROM {table.relation}
            )
        """  # noqa: S608 -- names are quoted where the table is made
        return Scan(select, None, values_are_json=log.format == "jsonl")

    def locate(
        self, log: LogFile, rows: Mapping[int, str], refused: Sequence[Refused]
    ) -> list[Reject]:
        """Find the records that could not be stored."""
        return tables.locate(log, rows, refused)
