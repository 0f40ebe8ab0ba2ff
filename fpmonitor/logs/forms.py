"""Copies of logs in a form that every reader takes."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import msgspec

from fpmonitor.duckdb_connection import in_memory
from fpmonitor.errors import InputError
from fpmonitor.logs.log_file import BUFFER_BYTES, MAX_RECORD_BYTES, LogFile
from fpmonitor.sql import quote_path, quote_text

if TYPE_CHECKING:
    from collections.abc import Callable

_MARKS_OF_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_AROUND = b" \t\r\n"
_BEGINS_RECORD = b"\x1e"  # in JSON text sequences (RFC 7464), whose texts have it escaped
_FIRST_LINES = 20
_RECORDS = msgspec.json.Decoder(list[msgspec.Raw])
_NAMES = msgspec.json.Decoder(list[str])
# Above a table in a sheet: empty cells are separators alone.
_BLANK_LINES = re.compile(rb"(\xef\xbb\xbf)?([ \t\r,;|]*\n)*")
_SEPARATOR_LINE = re.compile(rb"(\xef\xbb\xbf)?sep=.\r?\n")  # of Excel
# Of exported reports; `#Fields:` of servers is none.
_REMARKS = re.compile(rb"(\xef\xbb\xbf)?#(?!\w).*\n((#(?!\w).*|[ \t\r]*)\n)*")
_BETWEEN_NAMES = re.compile(rb"[,;\t|]")


def readable_log(path: Path, label: str, scratch: Path) -> LogFile:
    """Return the log, or a copy in a form that every reader takes.

    That is UTF-8 without a byte order mark before JSON, and one JSON object a line in place of an
    array, parts of one, or objects over several lines.
    """
    log = _below_remarks(_in_utf_8(_named(path, label, scratch), scratch), scratch)
    if log.head.lstrip(_AROUND)[:1] == _BEGINS_RECORD:
        log = _changed(log, scratch, lambda line: line.replace(_BEGINS_RECORD, b" "))
    return _one_record_a_line(log, scratch)


def _in_utf_8(log: LogFile, scratch: Path) -> LogFile:
    encoding = _encoding(log.head)
    if encoding is None:
        return log
    # Bytes that are not UTF-8 stay, so that their record alone is rejected.
    errors = "surrogateescape" if encoding == "utf-8-sig" else "strict"
    copy = LogFile(_file_of_copy(log, scratch), log.label)
    try:
        with (
            log.open() as file,
            copy.path.open("w", encoding="utf-8", errors=errors, newline="") as target,
        ):
            text = io.TextIOWrapper(file, encoding=encoding, errors=errors, newline="")
            shutil.copyfileobj(text, target, BUFFER_BYTES)
    except (OSError, UnicodeError) as error:
        raise InputError(f"{log.label}: cannot be read as {encoding} ({error})") from error
    return copy


def _below_remarks(log: LogFile, scratch: Path) -> LogFile:
    """Return the log, or a copy without the lines before its table."""
    before = _lines_before_names(log.head)
    if not before:
        return log
    copy = replace(log, path=_file_of_copy(log, scratch), lines_before=before)
    with log.open() as file, copy.path.open("wb") as target:
        for _ in range(before):
            file.readline()
        shutil.copyfileobj(file, target, BUFFER_BYTES)
    return copy


def _lines_before_names(head: bytes) -> int:
    """Count the lines before a table: blank ones, remarks, and which separator it has."""
    blank = _BLANK_LINES.match(head)
    if blank is None or not (below := head[blank.end() :].lstrip()) or below[:1] in b"{[":
        return 0
    return blank[0].count(b"\n") + _remarks_before_names(head[blank.end() :])


def _remarks_before_names(head: bytes) -> int:
    if _SEPARATOR_LINE.match(head):
        return 1
    found = _REMARKS.match(head)
    if found is None or not (names := head[found.end() :].split(b"\n", 1)[0].strip()):
        return 0
    # A line without a separator is the first record below the one name `# platform`.
    if found[0].count(b"\n") == 1 and not _BETWEEN_NAMES.search(names):
        return 0
    last = found[0].split(b"\n")[-2]
    # Names may be such a line as well; taken for a remark, they would leave a record as names.
    return 0 if _BETWEEN_NAMES.search(last.strip()) else found[0].count(b"\n")


def _encoding(head: bytes) -> str | None:
    """Return the encoding to read a log by; null where its bytes can be taken as they are."""
    if head[:2] in _MARKS_OF_UTF_16:
        return "utf-16"
    if head[:3] == _BYTE_ORDER_MARK and head[3:].lstrip()[:1] in {b"{", b"["}:
        return "utf-8-sig"
    # UTF-16 without a mark: of ASCII, every second byte is 0.
    if head[1:2] == b"\0" and head[:1].isascii() and head[:1] > b"\x08":
        return "utf-16-le"
    return "utf-16-be" if head[:1] == b"\0" and head[1:2] > b"\x08" else None


def _one_record_a_line(log: LogFile, scratch: Path) -> LogFile:
    first_line = log.head.lstrip(_AROUND).split(b"\n", 1)[0]
    shape = {b"[": "array", b"{": "unstructured"}.get(first_line[:1])
    if shape is None:
        return log
    # DuckDB takes an array that breaks off at a comma.
    if shape == "array" and _last_byte(log) != b"]":
        return log
    if shape == "unstructured" and _is_json(first_line):
        return _by_line(log, scratch) if _is_listed(log.head) else log
    copy = LogFile(_file_of_copy(log, scratch), log.label)
    records = (
        f"read_json_objects({quote_path(log.path)}, format = '{shape}', "
        f"compression = '{log.compression}', maximum_object_size = {MAX_RECORD_BYTES})"
    )
    try:
        with in_memory() as connection:
            write_json_lines(connection, "json", records, copy.path)
    except duckdb.InvalidInputException:  # or lines of which the first is broken
        copy = _by_line(log, scratch) if _is_listed(log.head) else log
    copy = _with_names(copy, scratch)
    return copy if copy.head.lstrip()[:1] in {b"{", b""} else log


def write_json_lines(
    connection: duckdb.DuckDBPyConnection, text: str, relation: str, target: Path
) -> None:
    """Write a text of JSON for each row of a relation, in SQL, as a line."""
    # In JSON a U+0001, and line ends within texts, are escaped: nothing has to be quoted, and other
    # line ends are white space.
    connection.execute(
        f"COPY (SELECT translate({text}, chr(10) || chr(13), '  ') FROM {relation}) "  # noqa: S608 -- quoted
        f"TO {quote_text(str(target))} "
        "(FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\x01')"
    )


def _is_listed(head: bytes) -> bool:
    """Whether lines are records, of which one is within an array, or has a separator beside it."""
    lines = [line for line in head.split(b"\n", _FIRST_LINES)[:_FIRST_LINES] if line.strip()]
    found = [_records_in(line) for line in lines]
    others = (one and one != [line.strip()] for one, line in zip(found, lines, strict=True))
    return bool(found and found[0]) and any(others)


def _by_line(log: LogFile, scratch: Path) -> LogFile:
    """Copy a log of lines that are parts of an array, or arrays; any other line stays as it is."""

    def records(line: bytes) -> bytes:
        found = _records_in(line)
        return line if found is None else b"\n".join(found) + b"\n"

    return _changed(log, scratch, records)


def _records_in(line: bytes) -> list[bytes] | None:
    """Return the records of a line without what is beside them; null where it is another."""
    text = line.strip(_AROUND + b",")
    if text[:1] != b"[" or text == b"[":
        text = b"[" + text.strip(b"[], \t") + b"]"
    try:
        found = [bytes(record) for record in _RECORDS.decode(text)]
    except (msgspec.DecodeError, RecursionError):
        return None
    starts = {record[:1] for record in found}
    if starts <= {b"{"} or starts == {b"["}:
        return found
    return [text] if text in line else None


def _with_names(log: LogFile, scratch: Path) -> LogFile:
    """Copy a log of rows that are arrays, of which the first names the columns."""
    lines = [line for line in log.head.split(b"\n", _FIRST_LINES)[:-1] if line.strip()]
    try:
        first, *others = lines
        names, rows = _NAMES.decode(first), [json.loads(line) for line in others]
    except (ValueError, RecursionError):
        return log
    if not rows or not all(isinstance(row, list) for row in rows):
        return log
    texts = {cell for row in rows for cell in row if isinstance(cell, str)}
    are_names = len({*names}) == len(names) and texts.isdisjoint(names)
    if not are_names or any(len(row) != len(names) for row in rows):
        return log

    def record(line: bytes) -> bytes:
        if line == first + b"\n":
            return b"\n"
        try:
            row = dict(zip(names, _RECORDS.decode(line), strict=True))
        except (ValueError, RecursionError):
            return line
        return msgspec.json.encode(row) + b"\n"

    return _changed(log, scratch, record)


def _changed(log: LogFile, scratch: Path, change: Callable[[bytes], bytes]) -> LogFile:
    """Copy a log line by line; the parts of one that is too long come by themselves."""
    copy = replace(log, path=_file_of_copy(log, scratch))
    with log.open() as file, copy.path.open("wb") as target:
        while line := file.readline(MAX_RECORD_BYTES + 1):
            target.write(change(line))
    return copy


def _last_byte(log: LogFile) -> bytes:
    last = b""
    # To the end: a packed log cannot be read from there.
    with log.open() as file:
        while block := file.read(BUFFER_BYTES):
            last = block.rstrip(b" \t\r\n")[-1:] or last
    return last


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    # Too deep for this parser: it is the record that is rejected, not the form of the log.
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def _file_of_copy(log: LogFile, scratch: Path) -> Path:
    """Make an empty file for the unpacked copy of a log, of which nobody could tell a bomb."""
    log.check_expansion()
    return new_file(scratch)


def new_file(scratch: Path) -> Path:
    """Make an empty file in a folder."""
    descriptor, name = tempfile.mkstemp(dir=scratch)
    os.close(descriptor)
    return Path(name)


def _named(path: Path, label: str, scratch: Path) -> LogFile:
    """Return the log of a file; one whose name is no text, which SQL could not take, by a link."""
    try:
        label.encode()
    except UnicodeEncodeError:
        link = Path(tempfile.mkdtemp(dir=scratch)) / "log"
        link.symlink_to(path.resolve())
        return LogFile(link, label.encode("utf-8", "backslashreplace").decode())
    return LogFile(path, label)
