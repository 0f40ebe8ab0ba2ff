"""Long logs: one observation a record, with a user, an API and a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fpmonitor.collectors.readers import reader_of
from fpmonitor.collectors.tables import CLOCK, FIELDS, Column, field_names, hashed, with_clock
from fpmonitor.logs.contract import ABSENT, Refused, Reject, Scan
from fpmonitor.logs.missing import present

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.log_file import LogFile

_IDS = ("visit_id", "session_id")
_TEXTS = ("user", "time", "source", "api", "status", *_IDS)
_STATUSES = "('value', 'undefined', 'error')"


class LongCollector:
    """Reads `user, api, value[, time, status, source]` from JSON lines, CSV or Parquet.

    A record with an API and neither value nor status says that the API returned `undefined`:
    JSON has no word for it and leaves the member out, or writes null. With the status `value`, a
    JSON null is what the API returned. Where the value is a text that the column map calls absent,
    nothing is known of the API.
    `visit_id` names the visit: a record of one that is stored adds what is new of it, whatever its
    time. `session_id` names the session of the browser.
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
        seen = [column for column in reader.head_columns(log) if not column.path]
        known = None if log.format == "jsonl" else set(seen)
        columns = {field: Column(column_map.name_of(field)) for field in (*_TEXTS, "value")}
        times = column_map.names_of("time", [column.name for column in seen])
        columns |= dict(zip(("time", CLOCK), map(Column, times), strict=False))
        read = [field for field in columns if field != "value"]
        spare = [column for column in seen if column not in columns.values()]
        table = reader.read_table(
            [log],
            [*(columns[field] for field in read), *spare],
            [columns["value"]],
            with_nulls=column_map.null == "value",
        )

        def cell(field: str, cells: Mapping[Column, str]) -> str:
            is_there = known is None or columns[field] in known
            return cells[columns[field]] if is_there else "NULL::VARCHAR"

        texts = {field: present(cell(field, table.text), column_map, json=False) for field in read}
        value = cell("value", table.value)
        is_json = log.format == "jsonl"
        cells = [
            *(f'{text} AS "{field}"' for field, text in with_clock(texts).items()),
            f"{value} AS whole",
            f"{present(value, column_map, json=is_json)} AS value",
            *(f"{hashed(table.text[column])} AS s{i}" for i, column in enumerate(spare)),
        ]
        more = "".join(f", s{i}" for i in range(len(spare)))
        # A record that says that its value is one may hold a null that the API returned.
        found = "CASE WHEN status = 'value' THEN 'null' END" if is_json else "NULL"
        select = f"""
            SELECT
                CASE
                    WHEN api IS NULL OR api = '' THEN 'api is missing'
                    WHEN status NOT IN {_STATUSES}
                        THEN 'status is none of value, undefined, error'
                END AS problem,
                "user", "time", source, api,
                CASE
                    WHEN value IS NULL AND whole IS NOT NULL THEN '{ABSENT}'
                    ELSE COALESCE(status, CASE WHEN value IS NULL THEN 'undefined' ELSE 'value' END)
                END AS status,
                COALESCE(value, {found}) AS value,
                visit_id,
                session_id{more}
            FROM (SELECT {", ".join(cells)} FROM {table.relation})
        """  # noqa: S608 -- names are quoted where the table is made
        fields = {name: columns[name] for name in (*FIELDS, CLOCK) if columns.get(name) in seen}
        return Scan(
            select,
            None,
            values_are_json=is_json,
            fields=field_names(fields),
            spare={column.name: "no field of an observation" for column in spare},
            names_visits=True,
        )

    def locate(
        self, log: LogFile, rows: Mapping[int, str], refused: Sequence[Refused]
    ) -> list[Reject]:
        """Find the records that could not be stored."""
        return reader_of(log).locate(log.shortened, rows, refused)
