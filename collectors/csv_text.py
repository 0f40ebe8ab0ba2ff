"""CSV files as tables of text: comma, tab, semicolon or bar between the fields.

Polars reads blocks of records. It fills up short records and takes some broken ones, so what it
read is written again: where that gives the same bytes, there is no other way to read them. Any
other block is read by DuckDB, which tells what is wrong with a record.
"""

from __future__ import annotations

import csv
import io
import secrets
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import polars as pl

from fpmonitor.collectors.frames import fetch_frame
from fpmonitor.collectors.tables import Column, TextBatch, too_many_apis
from fpmonitor.duckdb_connection import in_memory
from fpmonitor.errors import InputError
from fpmonitor.logs import LONG_LINE, MAX_APIS, MAX_RECORD_BYTES, excerpt
from fpmonitor.sql import quote_path, quote_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fpmonitor.collectors.tables import Values
    from fpmonitor.logs import LogFile

_DELIMITERS = (",", "\t", ";", "|")
_STYLES: tuple[Literal["necessary", "non_numeric"], ...] = ("necessary", "non_numeric")
_MAX_REFUSED = 100_000
_MAX_OPEN_BYTES = 4 * MAX_RECORD_BYTES
_TAIL_BYTES = 1 << 20
_REASONS = {
    "missing columns": "too few fields",
    "too many columns": "too many fields",
    "invalid encoding": "not UTF-8",
    "unquoted value": "quotes do not match",
    "line size over maximum": LONG_LINE,
}


@dataclass(frozen=True, slots=True)
class _Form:
    """How a file is written: its header with the line end, and what stands between fields."""

    header: bytes
    names: tuple[str, ...]
    delimiter: str

    @property
    def columns(self) -> list[str]:
        """Names of ours for the fields."""
        return [f"c{i}" for i in range(len(self.names))]

    @property
    def line_end(self) -> bytes:
        """What ends a record."""
        return b"\r\n" if self.header.endswith(b"\r\n") else self.header[-1:]


@dataclass(frozen=True, slots=True)
class _Records:
    """Records of a block: a text column for each field, and what cannot be split into fields.

    `refused` holds the line, from 0, of each such record, why, and its text.
    """

    frame: pl.DataFrame
    refused: Sequence[tuple[int, str, str]] = ()


def head_columns(log: LogFile) -> list[Column]:
    """Columns of the header."""
    return [Column(name) for name in _form(log).names]


def _form(log: LogFile) -> _Form:
    line_end = b"\n" if b"\n" in log.head else b"\r"
    lines = log.head.split(line_end)
    texts = [line.decode("utf-8", "replace") + "\n" for line in lines]
    texts[0] = texts[0].removeprefix("\ufeff")
    delimiter = max(_DELIMITERS, key=texts[0].count)
    reader = csv.reader(texts, delimiter=delimiter)
    try:
        names = next(reader)
    except csv.Error as error:
        raise InputError(f"{log.label}: the first line is no header ({error})") from error
    if len(names) > MAX_APIS:
        raise too_many_apis(log.label)
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise InputError(f"{log.label}: column {excerpt(twice[0])!r} occurs twice in the header")
    header = line_end.join(lines[: reader.line_num]) + line_end
    return _Form(header, tuple(names), delimiter)


def read(
    log: LogFile,
    texts: Mapping[str, Column],
    values: Values,
) -> Iterator[TextBatch]:
    """Read the fields; an empty one is absent, a quoted empty one the empty string."""
    form = _form(log)
    places = dict(zip(map(Column, form.names), form.columns, strict=True))
    wanted = values(list(places)) if callable(values) else values
    absent = pl.lit(None, pl.String)

    def cell(column: Column) -> pl.Expr:
        return pl.col(places[column]) if column in places else absent

    text_cells = [cell(column).alias(name) for name, column in texts.items()]
    value_cells = [cell(column).alias(column.name) for column in wanted]
    refused = 0
    for line, data, records in _parts(log, form):
        refused += len(records.refused)
        if refused > _MAX_REFUSED:
            raise InputError(
                f"{log.label}: more than {_MAX_REFUSED:,} records cannot be split into fields",
                hint="look for a quote that is not closed",
            )
        nothing = records.frame.clear(len(records.refused))
        problems = pl.Series("problem", [why for _, why, _ in records.refused], pl.String)
        usable = pl.Series("problem", [None], pl.String).new_from_index(0, records.frame.height)
        frame = pl.concat([records.frame, nothing])
        yield TextBatch(
            frame.select(usable.append(problems), *text_cells),
            frame.select(value_cells),
            partial(_locate, form, line, data, records),
        )


def _parts(log: LogFile, form: _Form) -> Iterator[tuple[int, bytes, _Records]]:
    """Split a log into parts that begin and end between records: line, bytes, and records."""
    parser = _Parser(form)
    line, data, least = 1, b"", len(form.header)
    for block in log.blocks():
        data += block.data
        if len(data) < least:
            continue
        if line == 1:
            data = data[len(form.header) :]
            line += form.header.count(form.line_end[-1:])
        end = _end_of_records(data)
        records = parser.read(data[:end])
        if records is None:
            least = 2 * len(data)
            continue
        yield line, data[:end], records
        line, data, least = line + data.count(b"\n", 0, end), data[end:], 0
    if data and line > 1:
        yield line, data, parser.read(data) or parser.refuse(data)
    else:
        yield line, b"", parser.nothing


def _end_of_records(data: bytes) -> int:
    """Where to end a part of a file: not within quotes, if a line end nearby is outside."""
    if data.count(b'"') % 2 == 0:
        return len(data)
    end = len(data)
    while (start := data.rfind(b"\n", 0, end - 1) + 1) and len(data) - start < _TAIL_BYTES:
        if data.count(b'"', start, end) % 2:
            return start
        end = start
    return len(data)


class _Parser:
    """Reads parts of a file of one form."""

    def __init__(self, form: _Form) -> None:
        self._form = form
        self._schema = dict.fromkeys(form.columns, pl.String())
        self._styles = list(_STYLES)

    @property
    def nothing(self) -> _Records:
        """No records."""
        return _Records(pl.DataFrame(schema=self._schema))

    def read(self, data: bytes) -> _Records | None:
        """Read records; none if the last one may go on behind them."""
        return self._read_regular(data) or self._read_any(data)

    def refuse(self, data: bytes) -> _Records:
        """Read records of which the last one does not end."""
        frame, refused = self._read_by_duckdb(data)
        return _Records(frame, refused)

    def _read_regular(self, data: bytes) -> _Records | None:
        """Read records that are written as they are most of the time; none for others."""
        returns = data.count(b"\r")
        if b"\0" in data or self._form.line_end == b"\r":
            return None
        if returns and (self._form.line_end == b"\n" or returns != data.count(b"\r\n")):
            return None
        try:
            frame = pl.read_csv(
                data,
                has_header=False,
                separator=self._form.delimiter,
                schema=self._schema,
            )
        except pl.exceptions.PolarsError:
            return None
        return _Records(frame) if self._is_all(frame, data) else None

    def _is_all(self, frame: pl.DataFrame, data: bytes) -> bool:
        """Whether some records are all that the bytes hold."""
        if b'"' not in data:
            between = data.count(self._form.delimiter.encode())
            ends = {data.count(b"\n"), data.count(self._form.line_end)}
            return ends == {frame.height} and between == frame.height * (frame.width - 1)
        for style in self._styles:
            written = io.BytesIO()
            frame.write_csv(
                written,
                include_header=False,
                separator=self._form.delimiter,
                line_terminator=self._form.line_end.decode(),
                quote_style=style,
            )
            if written.getvalue() == data:
                self._styles = [style, *(other for other in _STYLES if other != style)]
                return True
        return False

    def _read_any(self, data: bytes) -> _Records | None:
        """Read any records; none if a record behind them is not read as one."""
        mark = secrets.token_hex(8)
        behind = self._form.delimiter.join([mark] * len(self._schema)).encode()
        frame, refused = self._read_by_duckdb(data + behind + self._form.line_end)
        if frame.height and {*frame.row(-1)} == {mark}:
            return _Records(frame.head(-1), refused)
        return self.refuse(data) if len(data) > _MAX_OPEN_BYTES else None

    def _read_by_duckdb(self, data: bytes) -> tuple[pl.DataFrame, list[tuple[int, str, str]]]:
        if self._form.line_end == b"\r":
            data = data.removesuffix(b"\n")
        columns = ", ".join(f"'{name}': 'VARCHAR'" for name in self._schema)
        with tempfile.TemporaryDirectory(prefix="fpmonitor-") as folder, in_memory() as connection:
            path = Path(folder) / "part.csv"
            path.write_bytes(self._form.header + data)
            frame = fetch_frame(
                connection,
                f"FROM read_csv({quote_path(path)}, columns = {{{columns}}}, header = true, "
                f"auto_detect = false, delim = {quote_text(self._form.delimiter)}, "
                f"quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = false, "
                f"max_line_size = {MAX_RECORD_BYTES}, buffer_size = {2 * MAX_RECORD_BYTES}, "
                f"store_rejects = true, rejects_limit = 0)",
            )
            found = connection.execute(
                "SELECT line_byte_position, lower(any_value(error_type)), any_value(csv_line[:200])"
                " FROM reject_errors GROUP BY line_byte_position ORDER BY line_byte_position"
            ).fetchall()
        start = len(self._form.header)
        return frame, [
            (
                data.count(self._form.line_end[-1:], 0, place - start),
                LONG_LINE if text == LONG_LINE else _REASONS.get(reason, reason),
                text,
            )
            for place, reason, text in found
        ]


def _locate(
    form: _Form, line: int, data: bytes, records: _Records, rows: Sequence[int]
) -> list[tuple[int, str]]:
    """Line and text of some rows: first those that were read, then those that were refused."""
    read = records.frame.height
    refused_lines = {number for number, _, _ in records.refused}
    wanted = {row for row in rows if row < read}
    found: dict[int, tuple[int, str]] = {}
    row = 0
    for number, text in _texts(form, data) if wanted else ():
        if number in refused_lines:
            continue
        if row in wanted:
            found[row] = line + number, text
            if len(found) == len(wanted):
                break
        row += 1
    for row in {*rows} - wanted:
        number, _, text = records.refused[row - read]
        found[row] = line + number, text
    return [found[row] for row in rows]


def _texts(form: _Form, data: bytes) -> Iterator[tuple[int, str]]:
    """Lines, from 0, on which records begin, and their texts; blank lines are skipped."""
    csv.field_size_limit(MAX_RECORD_BYTES)
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="replace", newline="")
    reader = csv.reader(text, delimiter=form.delimiter)
    line = 0
    for fields in reader:
        if fields:
            yield line, form.delimiter.join(fields)
        line = reader.line_num
