"""Log files, and the contract between a log, its collector and the store."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import sys
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from glob import escape, has_magic
from itertools import count, takewhile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, Literal, Protocol, cast

import duckdb

from fpmonitor.duckdb_connection import (
    HOW_TO_GET_HTTPFS,
    connect,
    in_memory,
    keyboard_interrupts,
    load_httpfs,
)
from fpmonitor.errors import InputError, reason_of
from fpmonitor.safe_files import read_toml
from fpmonitor.sql import quote_path, quote_text

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    import polars as pl  # slow to load


Format = Literal["jsonl", "csv", "parquet"]
_HEAD_BYTES = 1 << 18
_BUFFER_BYTES = 1 << 20
MAX_RECORD_BYTES = 16_000_000
MAX_REFUSED = 100_000
MAX_APIS = 4000
NOT_UTF_8 = "not UTF-8"
RECODE = "a table of Excel is read by `iconv -f WINDOWS-1252 -t UTF-8 FILE | fpmonitor ingest -`"
LONG_LINE = f"longer than {MAX_RECORD_BYTES // 1_000_000} MB"
# Text that stands for a number in several ways: 1 is written 1.0, and 100000 is written 1e5.
NUMBER_IN_DOUBT = re.compile(r"-?[0-9]+\.0|-?[0-9.]+[eE][-+]?[0-9]+")
# Repetitive logs, with one observation a record, compress to a fiftieth of their size.
MAX_EXPANSION = 300
_FREE_EXPANSION_BYTES = 64_000_000
_BROKEN_FILE = (OSError, EOFError, zlib.error, zstd.ZstdError)
_ZIP, _OLD_EXCEL = b"PK\3\4", b"\xd0\xcf\x11\xe0"
_SIGNS_OF_SHEETS = (b"[Content_Types].xml", b"xl/", b"opendocument.spreadsheet")
_UNNAMED_INDEX = re.compile("__index_level_[0-9]+__")  # as pyarrow calls it
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_PARQUET = b"PAR1"
_MARKS_OF_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SEPARATOR_LINE = re.compile(rb"(\xef\xbb\xbf)?sep=.\r?\n")  # of Excel
_KEYS_OF_S3 = (
    "give DuckDB your keys once: python -c \"import duckdb; duckdb.sql('CREATE PERSISTENT SECRET "
    "(TYPE s3, ...)')\""
)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_QUERY = re.compile(r"\?[^\s'\"]*")  # of an address, which may hold a signature
_ENDINGS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
_COMPRESSED_ENDINGS = ("", ".gz", ".zst")
ROW = "log_row"
_FIELDS = ("user", "time", "api", "value", "status", "source", "weight")


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """Which columns of a log hold what.

    Attributes
    ----------
    columns
        Field (`user`, `time`, `api`, `value`, `status`, `source`) -> name in the log. `user` may
        be `row`: each record of a wide log is a user. `weight` is a number of such users.
    ignore
        Columns of a wide log that are no APIs.
    null
        What a JSON `null` in a wide record means: a value that the API returned, or absent.
    apis
        Column of a wide log, or name of an API in a long one -> the API of the vocabulary that it
        is, empty for none.
    flatten
        Whether nested members of a wide log are an API a leaf (`connection.rtt`), or one value.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    ignore: frozenset[str] = frozenset()
    null: Literal["value", "absent"] = "value"
    apis: Mapping[str, str] = field(default_factory=dict)
    flatten: bool = True

    def name_of(self, field_name: str) -> str:
        """Name of a field's column in the log."""
        return self.columns.get(field_name, field_name)

    @classmethod
    def from_toml(cls, path: Path) -> ColumnMap:
        """Read a column map: tables `[columns]` and `[apis]`, a list `ignore`, a word `null`.

        Raises
        ------
        InputError
            Not readable, not TOML, or with words that a column map does not have.
        """
        content = read_toml(path, "column map")
        columns = content.pop("columns", {})
        ignore = content.pop("ignore", [])
        null = content.pop("null", "value")
        apis = content.pop("apis", {})
        flatten = content.pop("flatten", True)
        if content:
            raise InputError(
                f"column map {path}: unknown {', '.join(sorted(content))}",
                hint="it has tables [columns] and [apis], a list `ignore`, `null` and `flatten`",
            )
        if not all(isinstance(table, dict) for table in (columns, apis)) or not isinstance(
            ignore, list
        ):
            raise InputError(
                f"column map {path}: `columns` and `apis` must be tables and `ignore` a list",
                hint="write [columns] and, below it, user = 'name'; before it, ignore = ['name']",
            )
        unknown = sorted(set(columns) - set(_FIELDS))
        if unknown:
            raise InputError(
                f"column map {path}: unknown field {', '.join(unknown)}",
                hint=f"fields are {', '.join(_FIELDS)}",
            )
        if not all(isinstance(name, str) for name in (*columns.values(), *apis.values(), *ignore)):
            raise InputError(f"column map {path}: names must be strings")
        if null not in ("value", "absent"):  # a list has no hash
            raise InputError(f'column map {path}: null must be "value" or "absent", got {null!r}')
        if not isinstance(flatten, bool):
            raise InputError(f"column map {path}: flatten must be true or false")
        return cls(columns, frozenset(ignore), null, apis, flatten)


@dataclass(frozen=True, slots=True)
class Reject:
    """A record that was not stored: its line (Parquet: row) from 1, why, and its beginning."""

    line: int
    reason: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that DuckDB's CSV reader refused: its first byte in the unpacked log, why, text."""

    offset: int
    reason: str
    text: str


class InexactReadingError(Exception):
    """A fast way of reading that cannot tell exactly what this log holds."""


class CodedRows(Protocol):
    """Rows of a wide log whose values become codes while they are read."""

    @property
    def columns(self) -> Sequence[str]:
        """For each API the column that holds its codes; several APIs may share one."""

    @property
    def select(self) -> str:
        """How the store reads one batch, the table `coded_batch`; see `Scan`."""

    def batches(self) -> Iterator[pl.DataFrame]:
        """Read the log; each batch has columns of text and columns of codes (UInt32).

        Raises
        ------
        InexactReadingError
            The log must be read in another way.
        """

    def dictionary(self, column: str) -> pl.DataFrame:
        """Return what the codes of a column stand for, once all batches have been read.

        Columns `position` (UInt32; which API), `code` (UInt32) and `raw` (String; the value in the
        log, or its JSON text); an API about which a code says nothing is absent.
        """


@dataclass(frozen=True, slots=True)
class Scan:
    """How the store reads the records of a log.

    Attributes
    ----------
    select
        A SELECT of DuckDB that yields one row a record, in the order of the log, with the text
        columns `problem` (null where the record can be used), `user`, `time`, `source`, and then
        `api`, `status`, `value` (long) or `v0`, `v1`, ... (wide; where values are JSON text, also
        `undefined` and `error:` followed by the message as JSON text or null).
    apis
        Wide logs: the API of each column `v0`, `v1`, ...; null for a long log.
    values_are_json
        Whether values are JSON text (strings in quotes) rather than plain text.
    plain
        Wide logs of JSON text: the columns `v0`, `v1`, ... that hold plain text nevertheless.
    exact
        Reads the same more slowly, for logs where this way raises `InexactReadingError`, or where
        the text of a plain column could be a number or a string.
    coded
        Wide logs: rows with codes instead of values; then `select` reads one batch of them, the
        table `coded_batch`, and yields `coded.columns` instead of `v0`, `v1`, ...
    by_column
        Wide logs: whether a column can be read without the others, as in Parquet. Then the store
        need not keep the values until it knows them all; `select` also yields `ROW`, the place of
        the record from 0.
    """

    select: str
    apis: tuple[str, ...] | None
    values_are_json: bool
    plain: frozenset[int] = frozenset()
    exact: Callable[[], Scan] | None = None
    coded: CodedRows | None = None
    by_column: bool = False


class Collector(Protocol):
    """Turns the logs of one source into records for the store."""

    name: ClassVar[str]

    def recognises(self, log: LogFile, column_map: ColumnMap) -> bool:
        """Whether the shape of the log is the one that this collector reads."""

    def scan(self, log: LogFile, column_map: ColumnMap) -> Scan:
        """How to read the log.

        Raises
        ------
        InputError
            The log is not what the collector reads.
        """

    def locate(
        self, log: LogFile, rows: Mapping[int, str], refused: Sequence[Refused]
    ) -> list[Reject]:
        """Find the records that could not be stored.

        Parameters
        ----------
        log
            The log that was scanned.
        rows
            Row of the scan, from 0 -> reason.
        refused
            Records that are no row of the scan, in their order.
        """


@dataclass(frozen=True, slots=True)
class Call:
    """A script that read an API on a site `calls` times; rejected where one of them is empty."""

    site: str
    script: str
    api: str
    calls: int


class DemandCollector(Protocol):
    """Turns the demand logs of one source into calls."""

    name: ClassVar[str]

    def recognises(self, log: LogFile) -> bool:
        """Whether the log is one of this source."""

    def calls(self, log: LogFile) -> Iterator[Call]:
        """Read the calls; a record that cannot be used yields one that names nothing.

        Raises
        ------
        InputError
            The log cannot be read.
        """


@dataclass(frozen=True)
class LogFile:
    """A file on disk, what its first bytes show, and the name to report it by."""

    path: Path
    label: str

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

        Raises
        ------
        InputError
            The file cannot be read, or its packing is broken.
        """
        try:
            with self.open() as file:
                head = file.read(_HEAD_BYTES)
                return head if b"\n" in head else head + file.readline(MAX_RECORD_BYTES)
        except _BROKEN_FILE as error:
            raise self._unreadable(error) from error

    def check_expansion(self) -> None:
        """Check that a packed log or Parquet file does not hold far more than its size suggests.

        Raises
        ------
        InputError
            It does, or its packing is broken.
        """
        packed = self.path.stat().st_size
        times = _most_expansion()
        most = max(_FREE_EXPANSION_BYTES, times * packed)
        hint = "if that is intended, set FPMONITOR_MAX_EXPANSION to more"
        if self.head[:4] == _PARQUET:
            cells = self.parquet_rows * len(self.parquet_columns)
            if cells > most:
                raise InputError(
                    f"{self.label}: more than {times} cells for each of its bytes ({cells:,})",
                    hint=hint,
                )
        if self.compression == "uncompressed":
            return
        try:
            with self.open() as file:
                while file.read(_BUFFER_BYTES):
                    if file.tell() > most:
                        raise InputError(
                            f"{self.label}: unpacks to more than {times} times its size", hint=hint
                        )
        except _BROKEN_FILE as error:
            raise self._unreadable(error) from error

    @cached_property
    def shortened(self) -> LogFile:
        """The log itself, or a copy with a mark for each line that is too long for any reader."""
        if not self._may_have_long_lines():
            return self
        folder = Path(tempfile.mkdtemp(prefix="fpmonitor-"))
        copy = LogFile(folder / "log", self.label)
        weakref.finalize(copy, shutil.rmtree, folder, ignore_errors=True)
        with self.open() as file, copy.path.open("wb") as target:
            while line := file.readline(MAX_RECORD_BYTES + 1):
                if len(line) <= MAX_RECORD_BYTES:
                    target.write(line)
                    continue
                while line and not line.endswith(b"\n"):
                    line = file.readline(_BUFFER_BYTES)
                target.write(LONG_LINE.encode() + (b"\r\n" if line.endswith(b"\r\n") else b"\n"))
        return copy

    def _may_have_long_lines(self) -> bool:
        """Whether some block of half the limit holds no end of a line."""
        if self.format == "parquet":
            return False
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

        Raises
        ------
        InputError
            The file cannot be read as Parquet.
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

        Raises
        ------
        InputError
            Empty, binary junk, or a form that no collector reads; the message says what was seen.
        """
        head = self.head
        if head[:4] == _PARQUET:
            return "parquet"
        if not head.strip():
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
        first = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        if first == b"[":
            raise InputError(
                f"{self.label}: a JSON array that is broken, or of something other than objects",
                hint="a log is an array of objects, or one object a line",
            )
        return "jsonl" if first == b"{" else "csv"

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the unpacked bytes for reading from the start."""
        if self.compression == "uncompressed":
            with self.path.open("rb", buffering=_BUFFER_BYTES) as file:
                yield file
            return
        opener = gzip.open if self.compression == "gzip" else zstd.open
        with cast("IO[bytes]", opener(self.path, "rb")) as file:
            yield file


def _has_line_end(file: IO[bytes], size: int) -> bool:
    """Whether a line ends within the next bytes of a file, which is read no further."""
    while size and (part := file.read(min(_BUFFER_BYTES, size))):
        if b"\n" in part:
            return True
        size -= len(part)
    return False


class Frame(Protocol):
    """A table with the Arrow C stream: frames of Polars and pandas, tables of pyarrow."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows as a capsule of the Arrow C stream interface."""


class LazyFrame(Protocol):
    """A frame that is computed when it is collected, as in Polars."""

    def collect(self) -> Any:
        """Compute the frame."""


@contextmanager
def frame_log(frame: Frame | LazyFrame, name: str) -> Iterator[LogFile]:
    """Write a frame as a Parquet log, there for the block; equal frames give equal bytes.

    Parameters
    ----------
    frame
        Its index is left out where it has no name (pandas).
    name
        What the log is reported by.

    Raises
    ------
    InputError
        It is no frame, or has columns that Parquet cannot hold.
    """
    import polars as pl  # noqa: PLC0415 -- slow to load

    rows: Any = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
    if not hasattr(rows, "__arrow_c_stream__"):
        raise InputError(
            f"{name}: a {type(frame).__name__} is neither a path nor a frame",
            hint="give paths, or a frame of Polars, pandas or anything with the Arrow C stream",
        )
    with tempfile.TemporaryDirectory(prefix="fpmonitor-") as folder:
        log = LogFile(Path(folder) / "frame.parquet", name)
        try:
            table = pl.DataFrame(rows)
            table = table.select([name for name in table.columns if not is_unnamed_index(name)])
            texts = table.cast({pl.Categorical: pl.String, pl.Enum: pl.String})
            texts.rechunk().write_parquet(log.path)
        except (ImportError, OSError, TypeError, ValueError, pl.exceptions.PolarsError) as error:
            raise InputError(
                f"{name}: not a frame that can be stored ({excerpt(str(error))})",
                hint="columns must be text, numbers, times or lists; pandas needs pyarrow for this",
            ) from error
        yield log


def is_unnamed_index(column: str) -> bool:
    """Whether a column numbers the rows of a frame of pandas."""
    return _UNNAMED_INDEX.fullmatch(column) is not None


@contextmanager
def log_files(paths: Sequence[str], *, allow_network: bool = False) -> Iterator[list[LogFile]]:
    """Find the logs that are named by files, folders, glob patterns and `-` (standard input).

    Folders are searched for files with a known ending.

    Parameters
    ----------
    paths
        Names, or addresses of one file each.
    allow_network
        Whether DuckDB may fetch what addresses name.

    Raises
    ------
    InputError
        Nothing there, a folder without logs, or an address that may not or cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="fpmonitor-") as folder:
        found: dict[Path, LogFile] = {}
        for text in paths:
            for log in _expand(text, Path(folder), allow_network=allow_network):
                found.setdefault(log.path.resolve(), log)
        yield list(found.values())


@contextmanager
def each_log(files: Iterable[str]) -> Iterator[Iterator[LogFile]]:
    """Find the logs of files, one after the other; errors, at the turn of each, as of `log_files`.

    Two names of one file are two logs.
    """
    with tempfile.TemporaryDirectory(prefix="fpmonitor-") as folder:
        yield (_log_of(text, Path(folder)) for text in files)


def _log_of(file: str, scratch: Path) -> LogFile:
    logs = _expand(file, scratch, allow_network=False)
    if Path(file).is_dir() or len(logs) != 1:
        raise InputError(f"{file}: not a file")
    return logs[0]


def _expand(text: str, scratch: Path, *, allow_network: bool) -> list[LogFile]:
    if text == "-":
        spooled = scratch / "stdin"
        with spooled.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        return [_log_file(spooled, "<stdin>", scratch)]
    if _ADDRESS.match(text):
        if not allow_network:
            raise InputError(
                f"{excerpt(text)}: fpmonitor reads nothing from the network of its own accord",
                hint="download it first, pipe it in (`curl ADDRESS | fpmonitor ingest -`), or let "
                "DuckDB fetch it with --allow-network",
            )
        return [_log_file(_fetched(text, scratch), _QUERY.sub("", text), scratch)]
    path = Path(text)
    try:
        is_there = path.exists()
    except OSError as error:
        raise InputError(f"{excerpt(text)}: {error.strerror}") from error
    if path.is_dir():
        try:
            found = [file for file in sorted(path.rglob("*")) if is_log(file)]
        except PermissionError as error:
            raise InputError(
                f"{error.filename}: cannot be read", hint="check the permissions of its folder"
            ) from error
        logs = [_log_file(file, str(file), scratch) for file in found]
        if not logs:
            raise InputError(
                f"{path}: no logs in this folder",
                hint=f"logs end in {', '.join(_ENDINGS)}, also with .gz or .zst",
            )
        return logs
    if not is_there and has_magic(text):
        matches = [file for file in sorted(_matches(path)) if file.is_file()]
        if not matches:
            raise InputError(f"{text}: no file matches")
        return [_log_file(file, str(file), scratch) for file in matches]
    if not is_there:
        raise InputError(f"{str(path)[:300]}: no such file or folder")
    if path.is_fifo():  # such as the output of a command, which can be read once only
        spooled = _new_file(scratch)
        with path.open("rb") as source, spooled.open("wb") as target:
            shutil.copyfileobj(source, target)
        return [_log_file(spooled, str(path), scratch)]
    if not path.is_file():
        raise InputError(f"{path}: neither a file nor a folder")
    return [_log_file(path, str(path), scratch)]


def _fetched(address: str, scratch: Path) -> Path:
    """Copy what an address names, which is held in memory meanwhile, to a new file."""
    label = excerpt(_QUERY.sub("", address))
    try:
        # An instance of its own: with the extension, any path that is an address would be fetched.
        with keyboard_interrupts(), connect(":memory:") as connection:
            load_httpfs(connection)
            found = "SELECT content FROM read_blob($address)"
            contents = connection.execute(found, {"address": address}).fetchall()
    except duckdb.Error as error:
        reason = _QUERY.sub("", reason_of(error))
        hint = _KEYS_OF_S3 if address.startswith("s3:") else ""
        hint = HOW_TO_GET_HTTPFS if "httpfs" in reason else hint
        raise InputError(f"{label}: cannot be fetched ({reason})", hint=hint) from error
    if len(contents) != 1:
        raise InputError(f"{label}: {len(contents):,} files", hint="name them one by one")
    target = _new_file(scratch)
    target.write_bytes(contents[0][0])
    return target


def _matches(pattern: Path) -> list[Path]:
    """Files that match, hidden ones left out; `**` follows no links, which may lead in circles."""
    plain = list(takewhile(lambda part: not has_magic(part), pattern.parts))
    folder = Path(*plain)
    try:
        found = list(folder.glob(str(Path(*pattern.parts[len(plain) :]))))
    except (ValueError, OSError) as error:
        raise InputError(f"{pattern}: no pattern of files ({error})") from error
    return [file for file in found if not _is_hidden(file.relative_to(folder))]


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _log_file(path: Path, label: str, scratch: Path) -> LogFile:
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
    copy = LogFile(_new_file(scratch), log.label)
    try:
        with log.open() as file, copy.path.open("w", encoding="utf-8", newline="") as target:
            text = io.TextIOWrapper(file, encoding=encoding, newline="")
            if separator:
                text.readline()
            shutil.copyfileobj(text, target, _BUFFER_BYTES)
    except (*_BROKEN_FILE, UnicodeError) as error:
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
    copy = LogFile(_new_file(scratch), log.label)
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
        while block := file.read(_BUFFER_BYTES):
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


def _new_file(scratch: Path) -> Path:
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


def is_log(file: Path) -> bool:
    """Whether a file of a folder counts as a log, by its ending."""
    name = file.name.lower()
    return file.is_file() and any(
        name.endswith(ending + packed) for ending in _ENDINGS for packed in _COMPRESSED_ENDINGS
    )


def excerpt(text: str) -> str:
    """Return the beginning of a record, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= 80 else line[:79] + "…"


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


def describe_names(names: Sequence[Any]) -> str:
    """List names for a message, the first dozen."""
    shown = ", ".join(str(name) for name in names[:12])
    return shown + (f", ... ({len(names)} in all)" if len(names) > 12 else "")
