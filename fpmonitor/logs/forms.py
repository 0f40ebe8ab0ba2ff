"""Copies of logs in a form that every reader takes."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import tempfile
from pathlib import Path

import duckdb

from fpmonitor.duckdb_connection import in_memory
from fpmonitor.errors import InputError
from fpmonitor.logs.log_file import BROKEN_FILE, BUFFER_BYTES, MAX_RECORD_BYTES, LogFile
from fpmonitor.sql import quote_path, quote_text

_MARKS_OF_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SEPARATOR_LINE = re.compile(rb"(\xef\xbb\xbf)?sep=.\r?\n")  # of Excel


def readable_log(path: Path, label: str, scratch: Path) -> LogFile:
    """Return the log, or a copy in a form that every reader takes.

    That is UTF-8 without a byte order mark before JSON, and one JSON object a line in place of an
    array or of objects over several lines.
    """
    return _one_record_a_line(_in_utf_8(_named(path, label, scratch), scratch), scratch)


def _in_utf_8(log: LogFile, scratch: Path) -> LogFile:
    separator = _SEPARATOR_LINE.match(log.head)
    encoding = _encoding(log.head) or ("utf-8-sig" if separator else None)
    if encoding is None:
        return log
    copy = LogFile(new_file(scratch), log.label)
    try:
        with log.open() as file, copy.path.open("w", encoding="utf-8", newline="") as target:
            text = io.TextIOWrapper(file, encoding=encoding, newline="")
            if separator:
                text.readline()
            shutil.copyfileobj(text, target, BUFFER_BYTES)
    except (*BROKEN_FILE, UnicodeError) as error:
        raise InputError(f"{log.label}: cannot be read as {encoding} ({error})") from error
    return copy


def _encoding(head: bytes) -> str | None:
    """Return the encoding to read a log by; null where its bytes can be taken as they are."""
    if head[:2] in _MARKS_OF_UTF_16:
        return "utf-16"
    if head[:3] == _BYTE_ORDER_MARK and head[3:].lstrip()[:1] in {b"{", b"["}:
        return "utf-8-sig"
    if head[1:2] == b"\0" and head[:1].isascii() and head[:1] > b"\x08":
        return "utf-16-le"
    return "utf-16-be" if head[:1] == b"\0" and head[1:2] > b"\x08" else None


def _one_record_a_line(log: LogFile, scratch: Path) -> LogFile:
    first_line = log.head.lstrip(b" \t\r\n").split(b"\n", 1)[0]
    shape = {b"[": "array", b"{": "unstructured"}.get(first_line[:1])
    if shape is None or (shape == "unstructured" and _is_json(first_line)):
        return log
    if shape == "array" and _last_byte(log) != b"]":  # DuckDB takes one that breaks off at a comma
        return log
    copy = LogFile(new_file(scratch), log.label)
    records = (
        f"read_json_objects({quote_path(log.path)}, format = '{shape}', "
        f"compression = '{log.compression}', maximum_object_size = {MAX_RECORD_BYTES})"
    )
    try:
        with in_memory() as connection:
            connection.execute(
                f"COPY (SELECT translate(json, chr(10) || chr(13), '  ') FROM {records}) "  # noqa: S608 -- quoted
                f"TO {quote_text(str(copy.path))} "
                "(FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\x01')"
            )
    except duckdb.InvalidInputException:
        return log  # lines of which the first is broken, or for readers of other forms
    return copy if copy.head[:1] in {b"{", b""} else log


def _last_byte(log: LogFile) -> bytes:
    last = b""
    with log.open() as file:
        while block := file.read(BUFFER_BYTES):
            last = block.rstrip(b" \t\r\n")[-1:] or last
    return last


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


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
