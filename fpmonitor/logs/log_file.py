"""A log file on disk: how it is packed, what it is, and how large it may be."""

from __future__ import annotations

import gzip
import os
import shutil
import sys
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from glob import escape
from itertools import count
from pathlib import Path
from typing import IO, Literal, cast

import duckdb

from fpmonitor.duckdb_connection import in_memory
from fpmonitor.errors import InputError, excerpt, reason_of

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Format = Literal["jsonl", "csv", "parquet"]
_HEAD_BYTES = 1 << 18
BUFFER_BYTES = 1 << 20
MAX_RECORD_BYTES = 16_000_000
LONG_LINE = f"longer than {MAX_RECORD_BYTES // 1_000_000} MB"
# Repetitive logs, with one observation a record, compress to a fiftieth of their size.
MAX_EXPANSION = 300
_FREE_EXPANSION_BYTES = 64_000_000
_FREE_CELLS = 8_000_000  # of a Parquet file; so many are read in some seconds
_BROKEN_PACKING = (EOFError, gzip.BadGzipFile, zlib.error, zstd.ZstdError)
_ZIP, _OLD_EXCEL = b"PK\3\4", b"\xd0\xcf\x11\xe0"
_SIGNS_OF_SHEETS = (b"[Content_Types].xml", b"xl/", b"opendocument.spreadsheet")
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_PARQUET = b"PAR1"


@dataclass(frozen=True, slots=True)
class NotTaken:
    """A member that a collector leaves out: why, and the records that have it."""

    why: str
    records: int


@dataclass(frozen=True)
class LogFile:
    """A file on disk, what its first bytes show, and the name to report it by.

    `stored_as` is the name of a stored log of which this one is the continuation; rows keep it.
    `left_out` has the members of the file that its records, of which this is a copy, lack; `form`
    is what the lines were, of which this is a copy as JSON; `lines_before` of the file are not in
    this copy.
    """

    path: Path
    label: str
    stored_as: str = ""
    left_out: Mapping[str, NotTaken] = field(default_factory=dict, compare=False)
    form: str = "JSON"
    lines_before: int = field(default=0, compare=False)

    @property
    def origin(self) -> str:
        """What rows are named by: the first name under which the log was stored."""
        return self.stored_as or self.label

    @cached_property
    def compression(self) -> Literal["uncompressed", "gzip", "zstd"]:
        """How the file is packed, by its first bytes."""
        with self.path.open("rb") as file:
            magic = file.read(4)
        if magic[:2] == _GZIP:
            return "gzip"
        return "zstd" if magic == _ZSTD else "uncompressed"

    @cached_property
    def head(self) -> bytes:
        """The first bytes, unpacked.

        Raises:
            InputError: The file cannot be read, or its packing is broken.
        """
        try:
            with self.open() as file:
                head = file.read(_HEAD_BYTES)
                # A longer first line is needed whole: it is a header, or the one record.
                return head if b"\n" in head else head + file.readline(MAX_RECORD_BYTES)
        except OSError as error:
            raise self._unreadable(error) from error

    @property
    def first_byte(self) -> bytes:
        """The first byte that is neither white space nor of a byte order mark; empty for none."""
        return self.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]

    def check_expansion(self) -> None:
        """Check that a packed log or Parquet file does not hold far more than its size suggests.

        Raises:
            InputError: It does, or its packing is broken.
        """
        _ = self._is_no_bomb

    @cached_property
    def _is_no_bomb(self) -> bool:
        # Kept, as a packed log is looked through by whoever is the first to copy or to read it.
        packed = self.path.stat().st_size
        times = _most_expansion()
        most = max(_FREE_EXPANSION_BYTES, times * packed)
        hint = "if that is intended, set FPMONITOR_MAX_EXPANSION to more"
        if self.head[:4] == _PARQUET:
            cells = self.parquet_rows * len(self.parquet_columns)
            if cells > max(_FREE_CELLS, times * packed):
                raise InputError(
                    f"{self.label}: more than {times} cells for each of its bytes ({cells:,})",
                    hint=hint,
                )
        if self.compression != "uncompressed":
            with self.open() as file:
                # Read to the end, as what a packed file says of its size is anybody's to write.
                while file.read(BUFFER_BYTES):
                    if file.tell() > most:
                        raise InputError(
                            f"{self.label}: unpacks to more than {times} times its size", hint=hint
                        )
        return True

    @cached_property
    def shortened(self) -> LogFile:
        """The log itself, or a copy with a mark for each line that is too long for any reader."""
        return copy_of(self, self._shortened_lines()) if self._may_have_long_lines() else self

    def _shortened_lines(self) -> Iterator[bytes]:
        with self.open() as file:
            while line := file.readline(MAX_RECORD_BYTES + 1):
                if len(line) <= MAX_RECORD_BYTES:
                    yield line
                    continue
                while line and not line.endswith(b"\n"):
                    line = file.readline(BUFFER_BYTES)
                yield LONG_LINE.encode() + (b"\r\n" if line.endswith(b"\r\n") else b"\n")

    def _may_have_long_lines(self) -> bool:
        """Whether some block of half the limit holds no end of a line."""
        if self.format == "parquet":
            return False
        # A line beyond the limit covers a whole block of half its size: one end in each is enough.
        size = MAX_RECORD_BYTES // 2
        with self.open() as file:
            for start in count(0, size):
                file.seek(start)
                if not _has_line_end(file, size):
                    return file.tell() == start + size
        return False

    def _unreadable(self, error: Exception) -> InputError:
        reason = excerpt(reason_of(error))
        return InputError(f"{self.label}: cannot be read ({reason})")

    @property
    def parquet_rows(self) -> int:
        """Number of rows, from the footer of a Parquet file; errors as of `parquet_columns`."""
        try:
            with in_memory() as connection:
                [(rows,)] = connection.execute(
                    "SELECT num_rows FROM parquet_file_metadata($path)",
                    {"path": escape(str(self.path))},
                ).fetchall()
        except (duckdb.Error, OSError) as error:
            raise InputError(f"{self.label}: not a readable Parquet file") from error
        return int(rows)

    @cached_property
    def parquet_columns(self) -> list[tuple[str, str]]:
        """Names and DuckDB's types of the columns of a Parquet file.

        Raises:
            InputError: The file cannot be read as Parquet.
        """
        try:
            with in_memory() as connection:
                names = _parquet_names(connection, self.path)
                types = connection.execute(
                    "DESCRIBE SELECT * FROM read_parquet($path)", {"path": escape(str(self.path))}
                ).fetchall()
        except (duckdb.Error, OSError) as error:
            raise InputError(f"{self.label}: not a readable Parquet file") from error
        return [(name, row[1]) for name, row in zip(names, types, strict=True)]

    @cached_property
    def format(self) -> Format:
        """What the bytes are.

        Raises:
            InputError: Empty, binary junk, or a form that no collector reads; the message says what
                was seen.
        """
        head = self.head
        if head[:4] == _PARQUET:
            return "parquet"
        if not head.removeprefix(b"\xef\xbb\xbf").strip():
            raise InputError(f"{self.label}: the file is empty")
        if head[:2] == _GZIP or head[:4] == _ZSTD:
            raise InputError(f"{self.label}: packed twice", hint="unpack it once")
        if head[:4] in {_ZIP, _OLD_EXCEL}:
            is_sheet = head[:4] == _OLD_EXCEL or any(sign in head for sign in _SIGNS_OF_SHEETS)
            raise InputError(
                f"{self.label}: a {'spreadsheet' if is_sheet else 'ZIP archive'}",
                hint="save its sheet as CSV in UTF-8"
                if is_sheet
                else "unpack it: `unzip -p FILE | fpmonitor ingest -`",
            )
        if b"\0" in head:
            raise InputError(
                f"{self.label}: binary data, neither JSON lines, CSV nor Parquet",
                hint="logs may be packed with gzip or zstd",
            )
        text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        first = text[:1]
        if first == b"[" and text[1:].lstrip()[:1] in b'{["]-0123456789tfn':
            raise InputError(
                f"{self.label}: a JSON array that is broken, or of something other than objects",
                hint="a log is an array of objects, or one object a line; of pandas, "
                "`to_json(orient='records')`",
            )
        return "jsonl" if first == b"{" else "csv"

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the unpacked bytes for reading from the start.

        Raises:
            InputError: The packing breaks off, or is broken, where the block reads it.
        """
        if self.compression == "uncompressed":
            with self.path.open("rb", buffering=BUFFER_BYTES) as file:
                yield file
            return
        opener = gzip.open if self.compression == "gzip" else zstd.open
        try:
            with cast("IO[bytes]", opener(self.path, "rb")) as file:
                yield file
        except _BROKEN_PACKING as error:
            raise self._unreadable(error) from error


def copy_of(
    log: LogFile,
    lines: Iterable[bytes],
    left_out: Callable[[], Mapping[str, NotTaken]] = dict,
    form: str = "",
) -> LogFile:
    """Write lines, which were of some `form`, to a copy of a log, and then ask what they lack.

    Its file goes with the copy itself: what `replace` makes of that does not keep it.
    """
    folder = Path(tempfile.mkdtemp(prefix="fpmonitor-"))
    try:
        with (folder / "log").open("wb") as file:
            file.writelines(lines)
    # Until the copy is made nothing else removes the folder.
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    left = {**log.left_out, **left_out()}
    copy = replace(log, path=folder / "log", left_out=left, form=form or log.form)
    weakref.finalize(copy, shutil.rmtree, folder, ignore_errors=True)
    return copy


def _has_line_end(file: IO[bytes], size: int) -> bool:
    """Whether a line ends within the next bytes of a file, which is read no further."""
    while size and (part := file.read(min(BUFFER_BYTES, size))):
        if b"\n" in part:
            return True
        size -= len(part)
    return False


def _most_expansion() -> int:
    """How many times larger than packed a log may be: as the environment says, else 300."""
    text = os.environ.get("FPMONITOR_MAX_EXPANSION", str(MAX_EXPANSION))
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise InputError("FPMONITOR_MAX_EXPANSION: must be a whole number")
    return int(text)


def _parquet_names(connection: duckdb.DuckDBPyConnection, path: Path) -> list[str]:
    """Names of the columns as the file has them, where DuckDB renames those alike but for case."""
    elements = connection.execute(
        "SELECT name, COALESCE(num_children, 0) FROM parquet_schema($path)",
        {"path": escape(str(path))},
    ).fetchall()
    names = []
    open_children = [int(elements[0][1])]
    for name, children in elements[1:]:
        if len(open_children) == 1:
            names.append(name)
        open_children[-1] -= 1
        open_children.append(int(children))
        while len(open_children) > 1 and not open_children[-1]:
            open_children.pop()
    return names
