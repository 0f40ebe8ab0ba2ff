"""JSON lines as tables of text, members of `attributes` included."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import duckdb

from fpmonitor.collectors.tables import (
    ATTRIBUTES,
    MAX_DEPTH,
    MAX_MEMBERS,
    SAMPLE_ROWS,
    Column,
    LogTable,
    Reader,
)
from fpmonitor.duckdb_connection import in_memory
from fpmonitor.errors import excerpt
from fpmonitor.logs.contract import MAX_APIS, NOT_UTF_8, Reject
from fpmonitor.logs.log_file import LONG_LINE, MAX_RECORD_BYTES
from fpmonitor.safe_files import json_or_none
from fpmonitor.sql import quote_name, quote_path, quote_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from fpmonitor.logs.contract import Refused
    from fpmonitor.logs.log_file import LogFile

_MOST_MEMBERS = 2 * MAX_APIS  # more than enough to refuse the log
_LEVELS = MAX_DEPTH + 2  # of a record that are looked at; what is deeper stays whole
_KEPT_BYTES = 1 << 19  # of a head; a first line may be 16 MB, whose objects take far more
_SNIFFED = 4096  # records in which members are looked for; a later one leads to the survey
_Shape: TypeAlias = "tuple[str | tuple[str, _Shape], ...]"


@lru_cache(maxsize=1)  # every collector asks the same of a log
def _columns_of(head: bytes) -> tuple[Column, ...]:
    columns: dict[Column, None] = {}
    shapes: set[_Shape] = set()
    for record in records_of(head):
        # Most records are alike: to name the members of all 521 wide ones took 23 ms, to tell
        # which are of a shape that was seen takes 2, and to read them 5.
        shape = _shape_of(record)
        if shape in shapes:
            continue
        shapes.add(shape)
        for column, value in cells_of(record):
            columns.update(dict.fromkeys(_nested_columns(column, value)))
    return tuple(columns)


def _shape_of(members: Mapping[str, object], levels: int = _LEVELS) -> _Shape:
    """Return the names of members, and what is within those that are objects."""
    return tuple(
        (name, _shape_of(value, levels - 1)) if levels and isinstance(value, dict) else name
        for name, value in members.items()
    )


def _nested_columns(column: Column, value: object) -> Iterator[Column]:
    yield column
    if isinstance(value, dict) and column.steps != (ATTRIBUTES,) and len(column.steps) < MAX_DEPTH:
        for name, inner in value.items():
            yield from _nested_columns(column.within(name), inner)


def plain_columns(log: LogFile) -> list[Column] | None:
    """Members of the first records, where those tell all that a strict reading needs to know.

    Null where a member is an object, or a name is none of DuckDB's. See `read_strictly`.
    """
    # The types of n members take DuckDB time with their square: of 20,000 it is 6 s.
    known = {column.name for column in _columns_of(log.head)}
    if _has_objects(log.head) or len(known) > MAX_APIS:
        return None
    try:
        with in_memory() as connection:
            found = connection.execute(
                f"DESCRIBE SELECT * FROM {_strict([log])}"  # noqa: S608 -- quoted
            ).fetchall()
    except duckdb.Error:
        return None
    names = sorted(name for name, *_ in found)
    is_plain = all(kind == "JSON" for _, kind, *_ in found) and ATTRIBUTES not in names
    # DuckDB takes names that differ in case alone for one.
    is_plain = is_plain and len({name.casefold() for name in names}) == len(names)
    # What DuckDB did not see in its sample would be left out without an error.
    return [Column(name) for name in names] if is_plain and known.issubset(names) else None


def read_strictly(logs: Sequence[LogFile], columns: Sequence[Column]) -> LogTable:
    """Read members of records that have no others than `plain_columns`, in one pass.

    DuckDB raises an error at the first record that is broken, or has another member.
    """
    cells = {column: quote_name(column.name) for column in columns}
    return LogTable(
        _strict(logs),
        text={column: _as_text(cell) for column, cell in cells.items()},
        value={column: f"{cell}::VARCHAR" for column, cell in cells.items()},
    )


def _strict(logs: Sequence[LogFile]) -> str:
    # Depth 1 detects no type within a record: values stay as they are written. And -1 makes no MAP
    # of an object with many members.
    options = "records = true", "maximum_depth = 1", "map_inference_threshold = -1"
    # In records of the head alone: one behind it may have a million members.
    sniffed = min(max(logs[0].head.count(b"\n"), 1), _SNIFFED)
    return _read("read_json", logs, *options, f"sample_size = {sniffed}", ignore_errors=False)


def _as_text(cell: str) -> str:
    """Text of a value as DuckDB reads a column of text: `->>` writes exponents in another way."""
    return f"json_transform({cell}, '\"VARCHAR\"')"


def _has_objects(head: bytes) -> bool:
    """Whether a member of the first records is nested: then names alone need not be read first."""
    return any(isinstance(value, dict) for record in records_of(head) for value in record.values())


def _columns_in(tree: _Member) -> list[Column]:
    """Members of records, and of their `attributes`, in a description of all records."""
    attributes = tree.members.get(ATTRIBUTES, _Member()).members
    return [
        *(Column(name) for name in sorted(tree.members)[:_MOST_MEMBERS]),
        *(Column(name, (ATTRIBUTES, name)) for name in sorted(attributes)[:_MOST_MEMBERS]),
    ]


def survey_of_records(
    records: Iterable[Mapping[str, object]], whole: Collection[str] | None
) -> list[Column]:
    """Members of these records, as of `survey`."""
    columns: dict[Column, None] = {}
    tree = _Member()
    for record in records:
        columns.update(dict.fromkeys(column for column, _ in cells_of(record)))
        tree.add(_structure_of(record))
    ordered = sorted(columns, key=lambda column: (column.is_attribute, column.name))
    return ordered if whole is None else _unfolded(ordered, tree, whole)


def _unfolded(columns: Sequence[Column], tree: _Member, whole: Collection[str]) -> list[Column]:
    """Columns, with their leaves in place of nested ones."""
    whole_names = {ATTRIBUTES, *whole}
    return [
        leaf
        for column in columns
        for leaf in (
            [column]
            if column.steps[0] in whole_names and not column.is_attribute
            else _leaves(column, tree)
        )
    ]


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
        # DuckDB calls an empty object JSON, and neither it nor a null says what the member is.
        elif structure not in ("NULL", "JSON"):
            self.is_value = True


def _structure(connection: duckdb.DuckDBPyConnection, log: LogFile) -> _Member:
    found = _Member()
    try:
        rows = connection.execute(
            "SELECT DISTINCT json_structure(json)::VARCHAR "  # noqa: S608 -- quoted
            f"FROM {_read('read_json_objects', [log])}"
        ).fetchall()
    except (duckdb.InternalException, duckdb.InvalidInputException):  # nested too deeply
        structures = (_structure_of(json_or_none(line)) for _, line in _lines(log))
    else:
        structures = (json_or_none(text) for (text,) in rows if text is not None)
    for structure in structures:
        found.add(structure)
    return found


def _structure_of(value: object, levels: int = _LEVELS) -> object:
    """Describe a value as `_Member.add` takes it."""
    if isinstance(value, dict) and value:
        inner = value.items() if levels else ()
        return {name: _structure_of(member, levels - 1) for name, member in inner}
    return "NULL" if value is None or isinstance(value, dict) else "VALUE"


def _leaves(column: Column, tree: _Member) -> Iterator[Column]:
    member = tree
    for step in column.steps:
        member = member.members.get(step, _Member())
    # An object in one record and a value in another is one API: it stays whole.
    is_nested = 0 < len(member.members) <= MAX_MEMBERS and not member.is_value
    if not is_nested or len(column.steps) == MAX_DEPTH + column.is_attribute:
        yield column
        return
    for name in sorted(member.members):
        yield from _leaves(column.within(name), tree)


def cells_of(record: Mapping[str, object]) -> Iterator[tuple[Column, object]]:
    """Members of a record and of its `attributes`."""
    for name, value in record.items():
        yield Column(name), value
    nested = record.get(ATTRIBUTES)
    if isinstance(nested, dict):
        for name, value in nested.items():
            yield Column(name, (ATTRIBUTES, name)), value


def _members(
    connection: duckdb.DuckDBPyConnection, log: LogFile, *, nested: bool
) -> tuple[list[Column], bool]:
    """Members, and whether any of them is an object."""
    path = f", '/{ATTRIBUTES}'" if nested else ""
    # Members that are objects are looked for by their beginning, which texts may hold, too: that
    # costs time alone.
    shapes = connection.execute(
        f"""
        SELECT any_value(names), bool_or(has_objects)
        FROM (
            SELECT
                json_keys(json{path}) AS names,
                regexp_matches(json, ':\\s*\\{{') AS has_objects
            FROM {_read("read_json_objects", [log])}
        )
        GROUP BY hash(names)
        """  # noqa: S608 -- the path is quoted where it is read
    ).fetchall()
    names = sorted({name for shape, _ in shapes for name in shape or ()})[:_MOST_MEMBERS]
    columns = [Column(name, (ATTRIBUTES, name) if nested else ()) for name in names]
    return columns, any(has_objects for _, has_objects in shapes)


def _read(function: str, logs: Sequence[LogFile], *options: str, ignore_errors: bool = True) -> str:
    settings = [
        f"[{', '.join(quote_path(log.path) for log in logs)}]",
        "format = 'newline_delimited'",
        f"ignore_errors = {str(ignore_errors).lower()}",
        f"maximum_object_size = {MAX_RECORD_BYTES}",
        f"compression = '{logs[0].compression}'",
        *options,
    ]
    return f"{function}({', '.join(settings)})"


def pointer(steps: Iterable[str]) -> str:
    """Return the JSON pointer (RFC 6901) of a column: any name can stand in it."""
    # The tilde first: that of an escaped slash must not be escaped again.
    escaped = (step.replace("~", "~0").replace("/", "~1") for step in steps)
    return "".join(f"/{step}" for step in escaped)


def _flaw(connection: duckdb.DuckDBPyConnection, line: bytes, form: str) -> str | None:
    """Why a line, which is to be of a form, is no JSON object; null if it is one."""
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
        return f"not {form}"
    return None if kind == "OBJECT" else "not a JSON object"


def _lines(log: LogFile) -> Iterator[tuple[int, bytes]]:
    with log.open() as file:
        for number, line in enumerate(file, start=1):
            if line.strip(b" \t\r\n"):
                yield number, line


def records_of(head: bytes) -> Iterator[Mapping[str, object]]:
    """Return the records at the beginning of a log, without lines that are none."""
    return iter(_kept_records(head)) if len(head) <= _KEPT_BYTES else _records_in(head)


# To choose who reads a log its head is asked for five times: 10 ms each for 4,000 records.
@lru_cache(maxsize=1)
def _kept_records(head: bytes) -> tuple[Mapping[str, object], ...]:
    return tuple(_records_in(head))


def _records_in(head: bytes) -> Iterator[dict[str, object]]:
    for line in head.splitlines():
        # Broken lines are rejected one by one when the whole log is read.
        record = json_or_none(line)
        if isinstance(record, dict):
            yield record


class JsonReader(Reader):
    """Reads JSON lines, members of `attributes` included."""

    def head_columns(self, log: LogFile) -> list[Column]:
        """Members of the first records."""
        return list(_columns_of(log.head))

    def sample(self, log: LogFile) -> dict[str, list[str]]:
        """Members of the first records that are text or numbers."""
        cells: dict[str, list[str]] = {}
        for record in islice(records_of(log.head), SAMPLE_ROWS):
            for name, value in record.items():
                if isinstance(value, str | int | float) and value != "":
                    cells.setdefault(name, []).append(str(value))
        return cells

    def survey(self, log: LogFile, whole: Collection[str] | None = None) -> list[Column]:
        """Members of all records; the log is read through, since any line may bring another.

        A member that is an object wherever it is not null is nested, unless it is too deep, or
        has so many members that their names are data.
        """
        with in_memory() as connection:
            columns: list[Column] = []
            has_objects = whole is not None and _has_objects(log.head)
            if not has_objects:
                columns, has_objects = _members(connection, log, nested=False)
                if Column(ATTRIBUTES) in columns:
                    columns += _members(connection, log, nested=True)[0]
            if not has_objects or whole is None:
                return columns
            tree = _structure(connection, log)
        return _unfolded(columns or _columns_in(tree), tree, whole)

    def read_table(
        self,
        logs: Sequence[LogFile],
        texts: Sequence[Column],
        values: Sequence[Column],
        *,
        with_nulls: bool = False,
    ) -> LogTable:
        """Pick the members out of the text of each record: takes any name, tells null from absent.

        A line that is no JSON object has none of them.
        """
        columns = [*texts, *values]
        pointers = ", ".join(quote_text(pointer(column.steps)) for column in columns)
        relation = (
            f"(SELECT json_extract(json, [{pointers}]) AS cells, json "  # noqa: S608 -- quoted
            f"FROM {_read('read_json_objects', logs)})"
        )
        cells = {column: f"cells[{i}]" for i, column in enumerate(columns, start=1)}
        # A member that is null is the JSON null here, one that is not there the null of SQL.
        text = "{}::VARCHAR" if with_nulls else "NULLIF({}::VARCHAR, 'null')"
        return LogTable(
            relation,
            text={column: _as_text(cells[column]) for column in texts},
            value={column: text.format(cells[column]) for column in values},
            whole="json::VARCHAR",
        )

    def locate(
        self,
        log: LogFile,
        rows: Mapping[int, str],
        refused: Sequence[Refused],  # noqa: ARG002 -- all readers take the same
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
                    number,
                    _flaw(connection, line, log.form) or reason,
                    excerpt(line.decode("utf-8", "replace")),
                )
                for number, line, reason in found
            ]
