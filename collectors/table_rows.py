"""Rows of CSV and Parquet as records, for results of libraries that lie in a column."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import duckdb

from fpmonitor.collectors.csv_text import delimiter_of, header, records_below_header
from fpmonitor.collectors.records import Record, first_records
from fpmonitor.duckdb_connection import in_memory
from fpmonitor.errors import InputError
from fpmonitor.logs.contract import NOT_UTF_8
from fpmonitor.sql import quote_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fpmonitor.logs.log_file import LogFile

_FIRST = 5
_AT_ONCE = 1000
_NESTED = ("STRUCT", "MAP", "VARCHAR", "JSON")  # types of cells that may hold a result


def first_of(log: LogFile) -> tuple[Any, ...]:
    """Contents of the first good records of a log; none of a table whose cells hold no results."""
    if first := first_records(log):
        return first
    if not _may_hold_results(log):
        return ()
    return _first_rows(log, log.path.stat().st_mtime_ns)


def _may_hold_results(log: LogFile) -> bool:
    if log.head[:4] == b"PAR1":
        return any(kind.startswith(_NESTED) for _, kind in log.parquet_columns)
    # A look at the bytes: most tables hold no JSON, and every collector asks.
    return b"{" in log.head and b"\0" not in log.head and log.head[:1] not in {b"{", b"["}


@lru_cache(maxsize=1)  # every collector asks the same of a log
def _first_rows(log: LogFile, _changed: int) -> tuple[Any, ...]:
    try:
        found = list(islice(rows_of(log), _FIRST))
    except InputError:
        return ()
    return tuple(record.content for record in found if record.problem is None)


def rows_of(log: LogFile) -> Iterator[Record]:
    """Read a table row by row; a cell that is empty, or null, is absent."""
    return _parquet_rows(log) if log.head[:4] == b"PAR1" else _csv_rows(log)


def _csv_rows(log: LogFile) -> Iterator[Record]:
    names, delimiter = header(log), delimiter_of(log)
    for line, fields in records_below_header(log):
        present = {name: cell for name, cell in zip(names, fields, strict=False) if cell}
        begin = delimiter.join(fields)[:200]
        yield Record(line, present, _problem(fields, len(names)), begin)


def _problem(fields: list[str], width: int) -> str | None:
    if len(fields) != width:
        return "too few fields" if len(fields) < width else "too many fields"
    return NOT_UTF_8 if any("\ufffd" in field for field in fields) else None


def _parquet_rows(log: LogFile) -> Iterator[Record]:
    names = [name for name, _ in log.parquet_columns]
    # By number: DuckDB renames columns that differ in case alone.
    columns = ", ".join(f"c{i}" for i in range(len(names)))
    try:
        with in_memory() as connection:
            found = connection.execute(
                f"SELECT {columns} FROM read_parquet({quote_path(log.path)}) AS records({columns})"  # noqa: S608 -- quoted
            )
            row = 0
            while rows := found.fetchmany(_AT_ONCE):
                for cells in rows:
                    row += 1
                    content = _present(dict(zip(names, cells, strict=True)))
                    yield Record(row, content, None, str(content)[:200])
    # Python has no time span of so many days as a file may hold.
    except (duckdb.Error, OSError, OverflowError) as error:
        raise InputError(f"{log.label}: not a readable Parquet file") from error


def _present(value: Any) -> Any:
    """Return a value as JSON has it, without members that are null."""
    if isinstance(value, dict):
        return {str(name): _present(inner) for name, inner in value.items() if not _is_none(inner)}
    if isinstance(value, list | tuple):
        return [_present(inner) for inner in value]
    # Dates, decimals and UUIDs have no form of their own in JSON.
    return value if isinstance(value, str | int | float | None) else str(value)


def _is_none(value: Any) -> bool:
    # Frames write what is missing as NaN, also within structs.
    return value is None or (isinstance(value, float) and math.isnan(value))
