"""Reading JSON lines, CSV and Parquet as tables of text, for the long and the wide collector."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import polars as pl

from fpmonitor.errors import InputError
from fpmonitor.logs import Reject, excerpt
from fpmonitor.store.sql import quote_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fpmonitor.logs import LogFile

ATTRIBUTES = "attributes"
_MAX_RECORD_BYTES = 16_000_000
_DELIMITERS = (",", "\t", ";", "|")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a log; nested ones are members of a JSON record's `attributes`."""

    name: str
    nested: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of a log as SQL.

    Attributes
    ----------
    relation
        What stands behind FROM.
    problem
        Expression: why the record cannot be read, or null.
    text
        Column -> expression of its plain text, or null where the record lacks it.
    value
        Column -> expression of its value as it stands in the log (JSON text for JSON lines).
    """

    relation: str
    problem: str
    text: Mapping[Column, str]
    value: Mapping[Column, str]


def head_columns(log: LogFile) -> list[Column]:
    """Columns that the beginning of the log shows."""
    if log.format == "csv":
        return [Column(name) for name in _csv_header(log)]
    if log.format == "parquet":
        return [Column(name) for name, _ in _parquet_schema(log)]
    columns: dict[Column, None] = {}
    for record in _head_records(log):
        columns.update(dict.fromkeys(Column(name) for name in record))
        nested = record.get(ATTRIBUTES)
        if isinstance(nested, dict):
            columns.update(dict.fromkeys(Column(name, nested=True) for name in nested))
    return list(columns)


def all_columns(log: LogFile) -> list[Column]:
    """Columns of the whole log; JSON lines are read once for it, since any line may bring another."""
    if log.format != "jsonl":
        return head_columns(log)
    with duckdb.connect() as connection:
        return [
            Column(name, nested=nested)
            for nested, expression in (
                (False, "json_keys(json)"),
                (True, f"json_keys(json, '/{ATTRIBUTES}')"),
            )
            for (name,) in connection.execute(
                f"SELECT DISTINCT unnest({expression}) AS name FROM {_read_json(log)} ORDER BY name"  # noqa: S608 -- fixed expressions
            ).fetchall()
        ]


def read_table(log: LogFile, columns: Sequence[Column]) -> Table:
    """SQL that reads some columns of a log."""
    if log.format == "jsonl":
        return _jsonl_table(log, columns)
    if log.format == "csv":
        return _csv_table(log)
    return _parquet_table(log)


def locate(log: LogFile, rows: Mapping[int, str]) -> list[Reject]:
    """Find records of a log by their row in the scan: line (or row of a Parquet file), beginning."""
    if log.format == "parquet":
        return [Reject(row + 1, reason, "") for row, reason in rows.items()]
    records = _csv_records(log) if log.format == "csv" else _json_lines(log)
    found = []
    for row, (line, text) in enumerate(records):
        if row in rows:
            found.append(Reject(line, rows[row], excerpt(text)))
            if len(found) == len(rows):
                break
    return found


def _head_records(log: LogFile) -> Iterator[dict[str, object]]:
    for line in log.head.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue  # broken lines are rejected one by one when the whole log is read
        if isinstance(record, dict):
            yield record


def _json_lines(log: LogFile) -> Iterator[tuple[int, str]]:
    with log.open() as file:
        for number, line in enumerate(file, start=1):
            if line.strip(b" \t\r\n"):
                yield number, line.decode("utf-8", "replace")


def _csv_records(log: LogFile) -> Iterator[tuple[int, str]]:
    """Records that the CSV reader accepts, counted as it counts them."""
    width = len(_csv_header(log))
    delimiter = _delimiter(log)
    with log.open() as file:
        reader = csv.reader(
            io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline=""),
            delimiter=delimiter,
        )
        next(reader)
        line = reader.line_num + 1
        for fields in reader:
            if len(fields) == width:
                yield line, delimiter.join(fields)
            line = reader.line_num + 1


def _read_json(log: LogFile) -> str:
    return (
        f"read_json_objects({quote_text(str(log.path))}, format = 'newline_delimited', "
        f"ignore_errors = true, maximum_object_size = {_MAX_RECORD_BYTES}, "
        f"compression = '{log.compression}')"
    )


def _jsonl_table(log: LogFile, columns: Sequence[Column]) -> Table:
    pointers = ", ".join(quote_text(_pointer(column)) for column in columns) or "'/'"
    return Table(
        relation=(
            f"(SELECT json, json_extract(json, [{pointers}]) AS cells FROM {_read_json(log)})"
        ),
        problem=(
            "CASE WHEN json IS NULL THEN 'not JSON' "
            "WHEN json_type(json) <> 'OBJECT' THEN 'not a JSON object' END"
        ),
        text={column: f"(cells[{i}] ->> '$')" for i, column in enumerate(columns, start=1)},
        value={column: f"cells[{i}]::VARCHAR" for i, column in enumerate(columns, start=1)},
    )


def _pointer(column: Column) -> str:
    """JSON pointer (RFC 6901) of a column: any name can stand in it."""
    escaped = column.name.replace("~", "~0").replace("/", "~1")
    return f"/{ATTRIBUTES}/{escaped}" if column.nested else f"/{escaped}"


def _csv_table(log: LogFile) -> Table:
    names = _csv_header(log)
    columns = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(names)))
    # An empty field is absent, a quoted empty field is the empty string.
    relation = (
        f"read_csv({quote_text(str(log.path))}, columns = {{{columns}}}, header = true, "
        f"auto_detect = false, delim = {quote_text(_delimiter(log))}, quote = '\"', "
        f"escape = '\"', nullstr = '', allow_quoted_nulls = false, "
        f"max_line_size = {_MAX_RECORD_BYTES}, store_rejects = true, rejects_limit = 0, "
        f"compression = '{log.compression}')"
    )
    cells = {Column(name): f"c{i}" for i, name in enumerate(names)}
    return Table(relation, "NULL", cells, cells)


def _csv_header(log: LogFile) -> list[str]:
    text = log.head.decode("utf-8-sig", "replace")
    try:
        names = next(csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(log)))
    except csv.Error as error:
        raise InputError(f"{log.label}: the first line is no header ({error})") from error
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{log.label}: column {excerpt(twice[0])!r} occurs twice in the header")
    return names


def _delimiter(log: LogFile) -> str:
    header = log.head.split(b"\n", 1)[0].decode("utf-8-sig", "replace")
    return max(_DELIMITERS, key=header.count)


def _parquet_schema(log: LogFile) -> list[tuple[str, str]]:
    """Names and types of DuckDB; polars gives the names, as DuckDB renames those alike but for case."""
    try:
        names = list(pl.read_parquet_schema(log.path))
        with duckdb.connect() as connection:
            types = connection.execute(
                f"DESCRIBE SELECT * FROM read_parquet({quote_text(str(log.path))})"  # noqa: S608 -- quoted
            ).fetchall()
    except (duckdb.Error, pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"{log.label}: not a readable Parquet file") from error
    return [(name, row[1]) for name, row in zip(names, types, strict=True)]


def _parquet_table(log: LogFile) -> Table:
    schema = _parquet_schema(log)
    aliases = ", ".join(f"c{i}" for i in range(len(schema)))
    cells = {
        Column(name): _parquet_text(f"c{i}", kind) for i, (name, kind) in enumerate(schema)
    }
    relation = f"read_parquet({quote_text(str(log.path))}) AS records({aliases})"
    return Table(relation, "NULL", cells, cells)


def _parquet_text(column: str, kind: str) -> str:
    if kind in {"FLOAT", "DOUBLE"}:
        return (
            f"CASE WHEN {column} = trunc({column}) AND abs({column}) < 1e15 "
            f"THEN {column}::BIGINT::VARCHAR ELSE {column}::VARCHAR END"
        )
    if kind.endswith("[]") or kind.startswith(("STRUCT", "MAP")):
        return f"to_json({column})::VARCHAR"
    return f"{column}::VARCHAR"
