"""JSON lines as tables of text, members of `attributes` included."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

import duckdb

from fpmonitor.collectors.tables import (
    ATTRIBUTES,
    MAX_DEPTH,
    MAX_MEMBERS,
    SAMPLE_ROWS,
    Column,
    Survey,
    Table,
)
from fpmonitor.duckdb_connection import in_memory
from fpmonitor.errors import excerpt
from fpmonitor.logs.contract import MAX_APIS, NOT_UTF_8, Reject
from fpmonitor.logs.log_file import LONG_LINE, MAX_RECORD_BYTES
from fpmonitor.sql import quote_name, quote_path, quote_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from fpmonitor.logs.contract import Refused
    from fpmonitor.logs.log_file import LogFile

_MOST_MEMBERS = 2 * MAX_APIS  # more than enough to refuse the log
_LEVELS = MAX_DEPTH + 2  # of a record that are looked at; what is deeper stays whole
_LIKE_A_NUMBER = re.compile(r"[-+0-9.eE]*[0-9][-+0-9.eE]*")


def head_columns(log: LogFile) -> list[Column]:
    """Members of the first records."""
    return list(_columns_of(log.head))


def sample(log: LogFile) -> dict[str, list[str]]:
    """Members of the first records that are text or numbers."""
    cells: dict[str, list[str]] = {}
    for record in islice(records_of(log.head), SAMPLE_ROWS):
        for name, value in record.items():
            if isinstance(value, str | int | float) and value != "":
                cells.setdefault(name, []).append(str(value))
    return cells


@lru_cache(maxsize=1)  # every collector asks the same of a log
def _columns_of(head: bytes) -> tuple[Column, ...]:
    columns: dict[Column, None] = {}
    for record in records_of(head):
        for column, value in _cells(record):
            columns.update(dict.fromkeys(_nested_columns(column, value)))
    return tuple(columns)


def _nested_columns(column: Column, value: object) -> Iterator[Column]:
    yield column
    if isinstance(value, dict) and column.steps != (ATTRIBUTES,) and len(column.steps) < MAX_DEPTH:
        for name, inner in value.items():
            yield from _nested_columns(column.within(name), inner)


def survey(log: LogFile, whole: Collection[str] | None = None) -> Survey:
    """Members of all records; the log is read through, since any line may bring another.

    A member that is an object wherever it is not null is nested, unless it is too deep, or has so
    many members that their names are data.
    """
    with in_memory() as connection:
        columns, uniform, has_null, has_objects = _members(connection, log, nested=False)
        if Column(ATTRIBUTES) in columns:
            inner, inner_uniform, _, _ = _members(connection, log, nested=True)
            columns, uniform = columns + inner, uniform and inner_uniform
        top = columns
        if has_objects and whole is not None:
            tree = _structure(connection, log)
            kept = {ATTRIBUTES, *whole}
            columns = [
                leaf
                for column in top
                for leaf in (
                    [column]
                    if column.steps[0] in kept and not column.is_attribute
                    else _leaves(column, tree)
                )
            ]
    if columns != top:
        return Survey(columns, None)
    plain = frozenset(columns) - _columns_in_doubt(log)
    if uniform:
        return Survey(columns, "null", plain)
    return Survey(columns, None if has_null else "absent", plain)


@dataclass
class _Member:
    """What a member is in some record: a value (neither null nor an empty object), an object."""

    is_value: bool = False
    members: dict[str, _Member] = field(default_factory=dict)

    def add(self, structure: object, levels: int = _LEVELS) -> None:
        """Note what it is in another record, as DuckDB describes it."""
        if isinstance(structure, dict):
            for name, inner in structure.items() if levels else ():
                self.members.setdefault(name, _Member()).add(inner, levels - 1)
        elif structure not in ("NULL", "JSON"):
            self.is_value = True


def _structure(connection: duckdb.DuckDBPyConnection, log: LogFile) -> _Member:
    found = _Member()
    try:
        rows = connection.execute(
            f"SELECT DISTINCT json_structure(json)::VARCHAR FROM {_read('read_json_objects', log)}"  # noqa: S608 -- quoted
        ).fetchall()
    except (duckdb.InternalException, duckdb.InvalidInputException):  # nested too deeply
        structures: Iterator[object] = map(structure_of, _parsed(line for _, line in _lines(log)))
    else:
        structures = _parsed(text for (text,) in rows if text is not None)
    for structure in structures:
        found.add(structure)
    return found


def _parsed(texts: Iterable[str | bytes]) -> Iterator[object]:
    for text in texts:
        with suppress(ValueError, RecursionError):
            yield json.loads(text)


def structure_of(value: object, levels: int = _LEVELS) -> object:
    """Describe a value as `_Member.add` takes it."""
    if isinstance(value, dict) and value:
        inner = value.items() if levels else ()
        return {name: structure_of(member, levels - 1) for name, member in inner}
    return "NULL" if value is None or isinstance(value, dict) else "VALUE"


def leaves_of(member: str, values: Iterable[object]) -> list[Column]:
    """Columns of a member that has these values in some records."""
    tree = _Member()
    for value in values:
        tree.add({member: structure_of(value)})
    return list(_leaves(Column(member), tree))


def _leaves(column: Column, tree: _Member) -> Iterator[Column]:
    member = tree
    for step in column.steps:
        member = member.members.get(step, _Member())
    is_nested = 0 < len(member.members) <= MAX_MEMBERS and not member.is_value
    if not is_nested or len(column.steps) == MAX_DEPTH + column.is_attribute:
        yield column
        return
    for name in sorted(member.members):
        yield from _leaves(column.within(name), tree)


def _columns_in_doubt(log: LogFile) -> set[Column]:
    """Members of the first records where plain text may not tell numbers from strings."""
    return {
        column
        for record in records_of(log.head)
        for column, value in _cells(record)
        if isinstance(value, float) or (isinstance(value, str) and _LIKE_A_NUMBER.fullmatch(value))
    }


def _cells(record: Mapping[str, object]) -> Iterator[tuple[Column, object]]:
    for name, value in record.items():
        yield Column(name), value
    nested = record.get(ATTRIBUTES)
    if isinstance(nested, dict):
        for name, value in nested.items():
            yield Column(name, (ATTRIBUTES, name)), value


def _members(
    connection: duckdb.DuckDBPyConnection, log: LogFile, *, nested: bool
) -> tuple[list[Column], bool, bool, bool]:
    """Members; whether each record has each once; whether null occurs; whether objects do."""
    path = f", '/{ATTRIBUTES}'" if nested else ""
    rows = connection.execute(
        f"""
        SELECT name, sum(records), sum(records) FILTER (place = 1), bool_or(has_null),
            bool_or(has_objects)
        FROM (
            SELECT * EXCLUDE (names), unnest(names) AS name, generate_subscripts(names, 1) AS place
            FROM (
                SELECT any_value(names) AS names, count(*) AS records,
                    bool_or(has_null) AS has_null, bool_or(has_objects) AS has_objects
                FROM (
                    SELECT json_keys(json{path}) AS names, contains(json, 'null') AS has_null,
                        regexp_matches(json, ':\\s*\\{{') AS has_objects
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
    records = sum(row[2] or 0 for row in rows)
    uniform = all(row[1] == records for row in rows)
    columns = [Column(row[0], (ATTRIBUTES, row[0]) if nested else ()) for row in rows]
    return columns, uniform, any(row[3] for row in rows), any(row[4] for row in rows)


def read_table(
    log: LogFile,
    texts: Sequence[Column],
    values: Sequence[Column],
    survey: Survey | None = None,
) -> Table:
    """Read the members; a line that is no JSON object has none of them."""
    columns = [*texts, *values]
    folded = [(column.name.casefold(), column.is_attribute) for column in columns]
    if survey is None or survey.empty is None or len(set(folded)) < len(folded):
        return _extracted(log, texts, values)
    return _typed(log, texts, values, survey)


def _extracted(log: LogFile, texts: Sequence[Column], values: Sequence[Column]) -> Table:
    """Pick the members out of the text of each record: takes any name, tells null from absent."""
    columns = [*texts, *values]
    pointers = ", ".join(quote_text(pointer(column.steps)) for column in columns)
    relation = (
        f"(SELECT json_extract(json, [{pointers}]) AS cells, json "  # noqa: S608 -- quoted
        f"FROM {_read('read_json_objects', log)})"
    )
    cells = {column: f"cells[{i}]" for i, column in enumerate(columns, start=1)}
    return Table(
        relation,
        # As DuckDB reads a column of text: `->>` writes the exponents of numbers in another way.
        text={column: f"json_transform({cells[column]}, '\"VARCHAR\"')" for column in texts},
        value={column: f"{cells[column]}::VARCHAR" for column in values},
        whole="json::VARCHAR",
    )


def _typed(
    log: LogFile, texts: Sequence[Column], values: Sequence[Column], survey: Survey
) -> Table:
    """Let DuckDB read the members as columns: two to four times as fast, null reads as absent."""
    kinds = dict.fromkeys(texts, "VARCHAR") | {
        column: "VARCHAR" if column in survey.plain else "JSON" for column in values
    }
    top = {column.name: kind for column, kind in kinds.items() if not column.is_attribute}
    nested = {column.name: kind for column, kind in kinds.items() if column.is_attribute}
    if nested:
        members = ", ".join(f"{quote_name(name)} {kind}" for name, kind in nested.items())
        top[ATTRIBUTES] = f"STRUCT({members})"
    columns = ", ".join(f"{quote_text(name)}: {quote_text(kind)}" for name, kind in top.items())
    names = ", ".join(f"c{i}" for i in range(len(top)))
    relation = f"{_read('read_json', log, f'columns = {{{columns}}}')} AS records({names})"
    places = {name: f"c{i}" for i, name in enumerate(top)}

    def cell(column: Column) -> str:
        if column.is_attribute:
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


def pointer(steps: Iterable[str]) -> str:
    """Return the JSON pointer (RFC 6901) of a column: any name can stand in it."""
    escaped = (step.replace("~", "~0").replace("/", "~1") for step in steps)
    return "".join(f"/{step}" for step in escaped)


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
        return NOT_UTF_8
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


def records_of(head: bytes) -> Iterator[dict[str, object]]:
    """Return the records at the beginning of a log, without lines that are none."""
    for line in head.splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue  # broken lines are rejected one by one when the whole log is read
        if isinstance(record, dict):
            yield record
