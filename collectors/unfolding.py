"""Logs whose records are within one JSON object, or in texts: copied to one record a line."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

import duckdb
import msgspec

from fpmonitor.collectors.documents import unfolded
from fpmonitor.collectors.elements import with_elements
from fpmonitor.collectors.har import is_har
from fpmonitor.collectors.json_lines import records_of
from fpmonitor.collectors.logfmt import as_json, is_logfmt
from fpmonitor.collectors.readers import reader_of
from fpmonitor.collectors.records import document, text_lines
from fpmonitor.collectors.tables import MAX_DEPTH
from fpmonitor.collectors.text_logs import forms_of
from fpmonitor.collectors.wrappers import WHY, unwrapped_lines, visits_at, wrapped_at
from fpmonitor.duckdb_connection import in_memory
from fpmonitor.errors import InputError
from fpmonitor.logs.forms import write_json_lines
from fpmonitor.logs.log_file import MAX_RECORD_BYTES, NotTaken, copy_of
from fpmonitor.safe_files import json_or_none
from fpmonitor.sql import quote_text
from fpmonitor.vocabulary import meanings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.log_file import LogFile

_Texts: TypeAlias = "dict[str, _Texts | None]"  # null where the text is
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_MOST_TIMES = 3  # texts in texts
_NO_OBJECT = b"no JSON object\n"


def one_record_a_line(log: LogFile, column_map: ColumnMap) -> LogFile:
    """Return the log, or a copy in which each record is a line, and texts of JSON are objects."""
    if is_logfmt(log, column_map):
        log = copy_of(log, as_json(log), form="logfmt")
    start = log.head.lstrip()[:1]
    if start == b"[" or not (start == b"{" or log.format in {"csv", "parquet"}):
        return log
    user = column_map.name_of("user")
    fields = {*map(column_map.name_of, ("user", "time", "source", "api", "value"))}
    others = fields | column_map.ignore | {*column_map.apis}
    if start == b"{" and _is_one_value(log):
        content = _content(log)
        rows = None
        if isinstance(content, dict) and not is_har(content):  # whose collector reads it whole
            rows = unfolded(content, user, log.label)
        if rows is not None:
            found, left_out = rows
            lines = (json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in found)
            beside = {name: NotTaken(WHY, times) for name, times in left_out.items()}
            log = copy_of(log, lines, lambda: beside)
    elif start != b"{" and not forms_of(log, column_map.log_format):
        columns = _columns_of_json(log, others)
        if columns or column_map.elements:
            log = _from_table(log, columns)
    # In this order: lists and texts of JSON may be within what wraps the records.
    if log.format == "jsonl":
        log = _unwrapped(log, user, fields - {user}, others)
    if column_map.elements and log.format == "jsonl":
        log = copy_of(log, with_elements(log, column_map.elements))
    if log.format == "jsonl":
        for _ in range(_MOST_TIMES):
            texts = _texts_of_json(records_of(log.head), others)
            if not texts:
                break
            log = copy_of(log, _read_texts(log, texts))
    return log


def _unwrapped(log: LogFile, user: str, named: Collection[str], others: Collection[str]) -> LogFile:
    """Copy a log of lines that wrap a record or list several; return any other as it is."""
    if path := wrapped_at(records_of(log.head), user):
        retained: Collection[str] | None = named
    elif name := visits_at(records_of(log.head), others, log.label):
        path, retained = (name,), None
    else:
        return log
    left_out: Counter[str] = Counter()
    with log.open() as file:
        return copy_of(
            log,
            unwrapped_lines(file, path, retained, left_out),
            lambda: {name: NotTaken(WHY, lines) for name, lines in left_out.items()},
        )


def _is_one_value(log: LogFile) -> bool:
    """Whether a log that begins with an object is not one object a line."""
    lines = text_lines(log)
    first = next(lines, (0, b""))[1]
    if len(first) <= MAX_RECORD_BYTES and next(records_of(first), None) is None:
        return not log.head.rstrip().endswith(b"}") or len(log.head.splitlines()) > 1
    return next(lines, None) is None


def _content(log: LogFile) -> Any:
    """Parse a log of one value; null where it is none."""
    content = document(log, whole=True)
    if content is None and log.path.stat().st_size > MAX_RECORD_BYTES:
        raise InputError(
            f"{log.label}: one JSON object that is too large, or broken",
            hint="write one record a line: `jq -c '.NAME[]' FILE`, of pandas "
            "`to_json(orient='records', lines=True)`",
        )
    return content


def _columns_of_json(log: LogFile, others: Collection[str]) -> dict[str, str]:
    """Columns of a table whose texts are JSON -> its type, as far as the beginning shows.

    All are objects, or lists of visits. An API of the vocabulary may return an object: such a
    column stays one API.
    """
    sample = reader_of(log).sample(log)
    found = {
        name: "OBJECT"
        for name, texts in sample.items()
        if name not in others and texts and all(map(_is_object, texts)) and not meanings(name)
    }
    rows = ({name: text} for name, texts in sample.items() for text in texts)
    visits = visits_at(rows, others, log.label)
    return found if visits is None else {**found, visits: "ARRAY"}


def _is_object(text: object) -> bool:
    if not (isinstance(text, str) and text.lstrip()[:1] == "{"):
        return False
    return isinstance(json_or_none(text), dict)


def _holds_object(text: object) -> bool:
    """Whether a text is an object, or a text in JSON that is one."""
    if isinstance(text, str) and text.lstrip()[:1] == '"':
        text = json_or_none(text)
    return _is_object(text)


def _from_table(log: LogFile, columns: Mapping[str, str]) -> LogFile:
    """Copy a table to JSON lines; a line without an object stands for what is broken in it.

    Args:
        columns: Columns whose texts are JSON -> the type of it.
    """
    reader = reader_of(log)
    found = [column for column in reader.head_columns(log) if not column.path and column.name]
    table = reader.read_table([log], found, [])
    cells, problems = [], []
    for column in found:
        cell = table.text[column]
        if column.name in columns:
            text = f"COALESCE(NULLIF(trim({cell}), ''), 'null')"
            kind = f"json_type(CASE WHEN json_valid({text}) THEN {text} ELSE '0' END)"
            problems.append(f"{kind} NOT IN ('NULL', {quote_text(columns[column.name])})")
            cell = f"TRY_CAST({text} AS JSON)"
        cells.append(f"{quote_text(column.name)}, {cell}")
    broken = " OR ".join(problems) or "false"
    line = f"CASE WHEN {broken} THEN {quote_text(_NO_OBJECT.decode().strip())} "
    # Not of a struct, which has no two members that differ in case alone.
    line += f"ELSE json_object({', '.join(cells)})::VARCHAR END"
    copy = copy_of(log, ())
    try:
        with in_memory() as connection:
            write_json_lines(connection, line, table.relation, copy.path)
            refused = []
            if log.format == "csv":
                refused = connection.execute("SELECT line FROM reject_errors").fetchall()
    except (duckdb.Error, OSError) as error:
        raise InputError(f"{log.label}: texts of JSON that cannot be read") from error
    if log.format == "parquet":
        return copy
    return copy_of(log, _with_broken(copy, sorted({int(line) for (line,) in refused})))


def _with_broken(log: LogFile, broken: list[int]) -> Iterator[bytes]:
    """Lines of the copy of a table below its header, with one for each that is broken."""
    # In the place of the header: lines keep the numbers that they have in the table.
    yield b"\n"
    place, rest = 2, iter(broken)
    following = next(rest, None)
    with log.open() as file:
        for line in file:
            while following is not None and following <= place:
                yield _NO_OBJECT
                place, following = place + 1, next(rest, None)
            yield line
            place += 1
    for _ in (following, *rest) if following is not None else ():
        yield _NO_OBJECT


def _texts_of_json(records: Iterable[Mapping[str, Any]], others: Collection[str]) -> _Texts:
    """Members, at any depth, of which every text is a JSON object, as far as these records show."""
    seen: dict[str, list[Any]] = {}
    for record in records:
        for name, value in record.items():
            if value is not None and name not in others:
                seen.setdefault(name, []).append(value)
    return _texts_of(seen, 1)


def _texts_of(seen: Mapping[str, list[Any]], depth: int) -> _Texts:
    found: _Texts = {}
    for name, values in seen.items():
        if all(map(_holds_object, values)) and not meanings(name):
            found[name] = None
        elif depth < MAX_DEPTH and all(isinstance(value, dict) for value in values):
            inner: dict[str, list[Any]] = {}
            for value in values:
                for key, member in value.items():
                    if member is not None:
                        inner.setdefault(key, []).append(member)
            if below := _texts_of(inner, depth + 1):
                found[name] = below
    return found


def _read_texts(log: LogFile, texts: _Texts) -> Iterator[bytes]:
    with log.open() as file:
        for line in file:
            try:
                yield _with_objects(line, texts) + b"\n" if line.strip() else b"\n"
            except (msgspec.DecodeError, RecursionError):
                yield line if not _is_object(line.decode("utf-8", "replace")) else _NO_OBJECT


def _with_objects(record: bytes, texts: _Texts) -> bytes:
    """Put objects in the place of the texts that hold them; errors as of msgspec."""
    members = _MEMBERS.decode(record)
    for name, inner in texts.items():
        raw = members.get(name, b"null")
        if bytes(raw) == b"null":
            continue
        if inner is None:
            # A text may have line ends between its members; the copy has one record a line.
            content = _TEXT.decode(raw).encode().translate(None, b"\r\n") or b"null"
            if content.lstrip()[:1] == b'"':  # encoded twice
                content = _TEXT.decode(content).encode().translate(None, b"\r\n")
            if content != b"null":
                _MEMBERS.decode(content)
        else:
            content = _with_objects(bytes(raw), inner)
        members[name] = msgspec.Raw(content)
    return msgspec.json.encode(members)
