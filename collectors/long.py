"""Long logs: one observation a record, with a user, an API and a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fpmonitor.collectors.readers import reader_of
from fpmonitor.collectors.tables import Column
from fpmonitor.logs.contract import Scan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.contract import Refused, Reject
    from fpmonitor.logs.log_file import LogFile

_IDS = ("visit_id", "session_id")
_TEXTS = ("user", "time", "source", "api", "status", *_IDS)
_STATUSES = "('value', 'undefined', 'error')"


class LongCollector:
    """Reads `user, api, value[, time, status, source]` from JSON lines, CSV or Parquet.

    A record with an API and neither value nor status says that the API returned `undefined`:
    JSON has no word for it and leaves the member out. `visit_id` names the visit: a record of one
    that is stored adds what is new of it, whatever its time. `session_id` names the session of the
    browser.
    """

    name: ClassVar[str] = "long"

    def recognises(self, log: LogFile, column_map: ColumnMap) -> bool:
        """Whether the log has a user and an API in each record."""
        columns = reader_of(log).head_columns(log)
        names = {column.name for column in columns if not column.path}
        return column_map.name_of("user") in names and column_map.name_of("api") in names

    def scan(self, log: LogFile, column_map: ColumnMap) -> Scan:
        """How to read the log."""
        log = log.shortened
        reader = reader_of(log)
        # Any line of JSON may bring another member; the other formats show theirs at once.
        present = None if log.format == "jsonl" else set(reader.head_columns(log))
        columns = {field: Column(column_map.name_of(field)) for field in (*_TEXTS, "value")}
        texts = [columns[field] for field in _TEXTS]
        table = reader.read_table(log, texts, [columns["value"]])

        def cell(field: str, cells: Mapping[Column, str]) -> str:
            found = present is None or columns[field] in present
            return f'{cells[columns[field]] if found else "NULL::VARCHAR"} AS "{field}"'

        cells = [*(cell(field, table.text) for field in _TEXTS), cell("value", table.value)]
        select = f"""
            SELECT
                CASE
                    WHEN api IS NULL OR api = '' THEN 'api is missing'
                    WHEN status NOT IN {_STATUSES}
                        THEN 'status is none of value, undefined, error'
                END AS problem,
                "user", "time", source, api,
                COALESCE(status, CASE WHEN value IS NULL THEN 'undefined' ELSE 'value' END)
                    AS status,
                value,
                visit_id,
                session_id
            FROM (SELECT {", ".join(cells)} FROM {table.relation})
        """  # noqa: S608 -- names are quoted where the table is made
        fields = {name: columns[name].name for name in ("user", "time", "source")}
        if present is not None:
            fields = {name: path for name, path in fields.items() if columns[name] in present}
        is_json = log.format == "jsonl"
        return Scan(select, None, values_are_json=is_json, fields=fields, names_visits=True)

    def locate(
        self, log: LogFile, rows: Mapping[int, str], refused: Sequence[Refused]
    ) -> list[Reject]:
        """Find the records that could not be stored."""
        return reader_of(log).locate(log.shortened, rows, refused)
