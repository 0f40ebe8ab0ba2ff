"""JSON lines as tables of text, members of `attributes` included."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from fpmonitor.collectors.tables import Column, Survey, Table
from fpmonitor.duckdb_connection import in_memory
from fpmonitor.logs import LONG_LINE, MAX_APIS, MAX_RECORD_BYTES, Reject, excerpt
from fpmonitor.sql import quote_name, quote_path, quote_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb

    from fpmonitor.logs import LogFile, Refused

ATTRIBUTES = "attributes"
_MOST_MEMBERS = 2 * MAX_APIS  # more than enough to refuse the log
_LIKE_A_NUMBER = re.compile(r"[-+0-9.eE]*[0-9][-+0-9.eE]*")


def head_columns(log: LogFile) -> list[Column]:
    """Members of the first records."""
    return list(_columns_of(log.head))


@lru_cache(maxsize=1)  # every collector asks the same of a log
def _columns_of(head: bytes) -> tuple[Column, ...]:
    columns: dict[Column, None] = {}
    for record in _records_of(head):
        columns.update(dict.fromkeys(Column(name) for name in record))
        nested = record.get(ATTRIBUTES)
        if isinstance(nested, dict):
            columns.update(dict.fromkeys(Column(name, nested=True) for name in nested))
    return tuple(columns)


def survey(log: LogFile) -> Survey:
    """Members of all records; the log is read through, since any line may bring another."""
    with in_memory() as connection:
        columns, uniform, has_null = _members(connection, log, nested=False)
        if Column(ATTRIBUTES) in columns:
            nested, nested_uniform, _ = _members(connection, log, nested=True)
            columns, uniform = columns + nested, uniform and nested_uniform
    plain = frozenset(columns) - _columns_in_doubt(log)
    if uniform:
        return Survey(columns, "null", plain)
    return Survey(columns, None if has_null else "absent", plain)


def _columns_in_doubt(log: LogFile) -> set[Column]:
    """Members of the first records where plain text may not tell numbers from strings."""
    return {
        column
        for record in _records_of(log.head)
        for column, value in _cells(record)
        if isinstance(value, float) or (isinstance(value, str) and _LIKE_A_NUMBER.fullmatch(value))
    }


def _cells(record: Mapping[str, object]) -> Iterator[tuple[Column, object]]:
    for name, value in record.items():
        yield Column(name), value
    nested = record.get(ATTRIBUTES)
    if isinstance(nested, dict):
        for name, value in nested.items():
            yield Column(name, nested=True), value


def _members(
    connection: duckdb.DuckDBPyConnection, log: LogFile, *, nested: bool
) -> tuple[list[Column], bool, bool]:
    """Members; whether each record has each of them once; whether the word null occurs."""
    path = f", '/{ATTRIBUTES}'" if nested else ""
    rows = connection.execute(
        f"""
        SELECT name, sum(records), sum(records) FILTER (place = 1), bool_or(has_null)
        FROM (
            SELECT unnest(names) AS name, generate_subscripts(names, 1) AS place, records, has_null
            FROM (
                SELECT any_value(names) AS names, count(*) AS records, bool_or(has_null) AS has_null
                FROM (
                    SELECT json_keys(json{path}) AS names, contains(json, 'null') AS has_null
                    FROM {_read("read_json_objects", log)}
                )
                GROUP BY hash(names)
            )
        )
        GROUP BY name
        ORDER BY name
        LIMIT {_MOST_MEMBERS}
        """  # noqa: S608 -- the path is quoted where it is read
    ).fetchall()
    records = sum(first or 0 for _, _, first, _ in rows)
    uniform = all(count == records for _, count, _, _ in rows)
    return [Column(row[0], nested=nested) for row in rows], uniform, any(row[3] for row in rows)


def read_table(
    log: LogFile,
    texts: Sequence[Column],
    values: Sequence[Column],
    survey: Survey | None = None,
) -> Table:
    """Read the members; a line that is no JSON object has none of them."""
    columns = [*texts, *values]
    folded = [(column.name.casefold(), column.nested) for column in columns]
    if survey is None or survey.empty is None or len(set(folded)) < len(folded):
        return _extracted(log, texts, values)
    return _typed(log, texts, values, survey)


def _extracted(log: LogFile, texts: Sequence[Column], values: Sequence[Column]) -> Table:
    """Pick the members out of the text of each record: takes any name, tells null from absent."""
    columns = [*texts, *values]
    pointers = ", ".join(quote_text(_pointer(column)) for column in columns)
    relation = (
        f"(SELECT json_extract(json, [{pointers}]) AS cells "  # noqa: S608 -- quoted
        f"FROM {_read('read_json_objects', log)})"
    )
    cells = {column: f"cells[{i}]" for i, column in enumerate(columns, start=1)}
    return Table(
        relation,
        text={column: f"({cells[column]} ->> '$')" for column in texts},
        value={column: f"{cells[column]}::VARCHAR" for column in values},
    )


def _typed(
    log: LogFile, texts: Sequence[Column], values: Sequence[Column], survey: Survey
) -> Table:
    """Let DuckDB read the members as columns: two to four times as fast, null reads as absent."""
    kinds = dict.fromkeys(texts, "VARCHAR") | {
        column: "VARCHAR" if column in survey.plain else "JSON" for column in values
    }
    top = {column.name: kind for column, kind in kinds.items() if not column.nested}
    nested = {column.name: kind for column, kind in kinds.items() if column.nested}
    if nested:
        members = ", ".join(f"{quote_name(name)} {kind}" for name, kind in nested.items())
        top[ATTRIBUTES] = f"STRUCT({members})"
    columns = ", ".join(f"{quote_text(name)}: {quote_text(kind)}" for name, kind in top.items())
    names = ", ".join(f"c{i}" for i in range(len(top)))
    relation = f"{_read('read_json', log, f'columns = {{{columns}}}')} AS records({names})"
    places = {name: f"c{i}" for i, name in enumerate(top)}

    def cell(column: Column) -> str:
        if column.nested:
            return f"struct_extract({places[ATTRIBUTES]}, {quote_text(column.name)})"
        return places[column.name]

    empty = quote_text("null") if survey.empty == "null" else "NULL"
    return Table(
        relation,
        text={column: cell(column) for column in texts},
        value={column: f"COALESCE({cell(column)}::VARCHAR, {empty})" for column in values},
        plain=survey.plain,
    )


def _read(function: str, log: LogFile, *options: str) -> str:
    settings = [
        quote_path(log.path),
        "format = 'newline_delimited'",
        "ignore_errors = true",
        f"maximum_object_size = {MAX_RECORD_BYTES}",
        f"compression = '{log.compression}'",
        *options,
    ]
    return f"{function}({', '.join(settings)})"


def _pointer(column: Column) -> str:
    """JSON pointer (RFC 6901) of a column: any name can stand in it."""
    escaped = column.name.replace("~", "~0").replace("/", "~1")
    return f"/{ATTRIBUTES}/{escaped}" if column.nested else f"/{escaped}"


def locate(
    log: LogFile,
    rows: Mapping[int, str],
    refused: Sequence[Refused],  # noqa: ARG001 -- all readers take the same
) -> list[Reject]:
    """Find the lines; one that is no JSON object at all gets that as its reason."""
    found: list[tuple[int, bytes, str]] = []
    for row, (number, line) in enumerate(_lines(log)):
        if row in rows:
            found.append((number, line, rows[row]))
        if len(found) == len(rows):
            break
    with in_memory() as connection:
        return [
            Reject(
                number, _flaw(connection, line) or reason, excerpt(line.decode("utf-8", "replace"))
            )
            for number, line, reason in found
        ]


def _flaw(connection: duckdb.DuckDBPyConnection, line: bytes) -> str | None:
    """Why a line is no JSON object, or null if it is one."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return "not UTF-8"
    if text.rstrip("\r\n") == LONG_LINE:
        return LONG_LINE
    kind = connection.execute(
        "SELECT CASE WHEN json_valid($text) THEN json_type($text) END", {"text": text}
    ).fetchall()[0][0]
    if kind is None:
        return "not JSON"
    return None if kind == "OBJECT" else "not a JSON object"


def _lines(log: LogFile) -> Iterator[tuple[int, bytes]]:
    with log.open() as file:
        for number, line in enumerate(file, start=1):
            if line.strip(b" \t\r\n"):
                yield number, line


def _records_of(head: bytes) -> Iterator[dict[str, object]]:
    for line in head.splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue  # broken lines are rejected one by one when the whole log is read
        if isinstance(record, dict):
            yield record
