"""CSV files as tables of text: comma, tab, semicolon or bar between the fields."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice

from fpmonitor.collectors.tables import SAMPLE_ROWS, Column, LogTable, Reader, too_many_apis
from fpmonitor.duckdb_connection import in_memory
from fpmonitor.errors import InputError, excerpt
from fpmonitor.logs.contract import MAX_APIS, MAX_REFUSED, NOT_UTF_8, RECODE, Refused, Reject
from fpmonitor.logs.log_file import LONG_LINE, MAX_RECORD_BYTES, LogFile
from fpmonitor.sql import quote_path, quote_text

_DELIMITERS = (",", "\t", ";", "|")
_BLOCK = 1 << 20
# A thread reads as much at a time as one record may have: 16 MB would not fill a row group of
# DuckDB, which then copies the rows once more.
_READ_BYTES = 2 * MAX_RECORD_BYTES
_HARMLESS_LINES = 1_000_000  # 800 MB if all are broken
_REASONS = {
    "missing columns": "too few fields",
    "too many columns": "too many fields",
    "invalid encoding": NOT_UTF_8,
    "unquoted value": "quotes do not match",
    "line size over maximum": LONG_LINE,
}


def _records_of_head(log: LogFile) -> Iterator[list[str]]:
    text = log.head.decode("utf-8-sig", "replace")
    # The last record of the head may be cut.
    whole = text[: text.rfind("\n") + 1] or text
    rows = csv.reader(io.StringIO(whole, newline=""), delimiter=delimiter_of(log))
    next(rows)
    with suppress(csv.Error):
        yield from rows


def _read(log: LogFile, width: int, on_error: str) -> str:
    # Nothing is detected, as that depends on the first rows. Without `allow_quoted_nulls = false` a
    # quoted empty field, which is a value, would be absent as an empty one is.
    columns = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(width))
    return (
        f"read_csv({quote_path(log.path)}, columns = {{{columns}}}, header = true, "
        f"auto_detect = false, delim = {quote_text(delimiter_of(log))}, quote = '\"', "
        f"escape = '\"', nullstr = '', allow_quoted_nulls = false, "
        f"max_line_size = {_READ_BYTES}, buffer_size = {_READ_BYTES}, "
        f"{on_error}, compression = '{log.compression}')"
    )


def _check_refusals(log: LogFile, width: int) -> None:
    """Check that not too many are broken: DuckDB takes 1 kB of memory to say of each record why."""
    lines = _count_lines(log)
    if lines <= _HARMLESS_LINES:
        return
    with in_memory() as connection:
        relation = _read(log, width, "ignore_errors = true")
        [(read,)] = connection.execute(f"SELECT count(*) FROM {relation}").fetchall()  # noqa: S608 -- quoted
    # Where it only counts, DuckDB loses whole parts of the log after a stray quote.
    if lines - read > MAX_REFUSED:
        _refuse_if_too_many(log, _broken_records(log, width))


def _refuse_if_too_many(log: LogFile, broken: int) -> None:
    if broken > MAX_REFUSED:
        raise InputError(
            f"{log.label}: more than {MAX_REFUSED:,} records cannot be split into fields",
            hint="look for a quote that is not closed",
        )


def _count_lines(log: LogFile) -> int:
    with log.open() as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK), b""))


def _broken_records(log: LogFile, width: int) -> int:
    broken = 0
    with _decoded(log) as text:
        reader = csv.reader(text, delimiter=delimiter_of(log), strict=True)
        while True:
            try:
                fields = next(reader, None)
            except csv.Error:
                broken += 1
                continue
            if fields is None:
                return broken
            broken += len(fields) not in {0, width} or any("\ufffd" in field for field in fields)


@contextmanager
def _decoded(log: LogFile) -> Iterator[io.TextIOWrapper]:
    """Open the text of a log; bytes that are not UTF-8 are marked."""
    # For the whole process: by default 131,072 characters, and a record may have more.
    csv.field_size_limit(_READ_BYTES)
    with log.open() as file:
        yield io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")


def _reason(record: Refused) -> str:
    if record.text == LONG_LINE:
        return LONG_LINE
    return _REASONS.get(record.reason, record.reason)


def _find_rows(log: LogFile, rows: Mapping[int, str], refused_lines: set[int]) -> list[Reject]:
    found: list[Reject] = []
    row, delimiter = 0, delimiter_of(log)
    for line, fields in records_below_header(log) if rows else ():
        # These are no rows of the scan, which numbers the others.
        if line in refused_lines:
            continue
        if row in rows:
            found.append(Reject(line, rows[row], excerpt(delimiter.join(fields))))
        if len(found) == len(rows):
            break
        row += 1
    return found


def _lines_at(log: LogFile, offsets: Sequence[int]) -> list[int]:
    """Line, from 1, of each of some ascending byte offsets of the unpacked log."""
    lines: list[int] = []
    line, start = 1, 0
    with log.open() as file:
        while len(lines) < len(offsets) and (block := file.read(_BLOCK)):
            place = 0
            while len(lines) < len(offsets) and offsets[len(lines)] <= start + len(block):
                line += block.count(b"\n", place, offsets[len(lines)] - start)
                place = offsets[len(lines)] - start
                lines.append(line)
            line += block.count(b"\n", place)
            start += len(block)
    return lines


def records_below_header(log: LogFile) -> Iterator[tuple[int, list[str]]]:
    """Return the fields of records, each with its first line; blank lines are skipped.

    Raises:
        InputError: A field is too long.
    """
    with _decoded(log) as text:
        reader = csv.reader(text, delimiter=delimiter_of(log))
        next(reader)
        line = reader.line_num + 1
        try:
            for fields in reader:
                if fields:
                    yield line, fields
                line = reader.line_num + 1
        except csv.Error as error:
            raise InputError(f"{log.label}: line {line}: a field is {LONG_LINE}") from error


def header(log: LogFile) -> list[str]:
    """Names of the columns.

    Raises:
        InputError: The first line is no header, or not UTF-8, or names too many columns, or one of
            them twice.
    """
    text = log.head.decode("utf-8-sig", "replace")
    try:
        header_row = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter_of(log)))
    except csv.Error as error:
        raise InputError(f"{log.label}: the first line is not a header ({error})") from error
    names = [name.strip() for name in header_row]
    if any("\ufffd" in name for name in names):
        raise InputError(f"{log.label}: the names of its columns are {NOT_UTF_8}", hint=RECODE)
    if len(names) > MAX_APIS:
        raise too_many_apis(log)
    # Spreadsheets end their lines with columns without a name; none of them is an API.
    twice = sorted(name for name, times in Counter(filter(None, names)).items() if times > 1)
    if twice:
        raise InputError(f"{log.label}: column {excerpt(twice[0])!r} occurs twice in the header")
    return names


def delimiter_of(log: LogFile) -> str:
    """Find what stands between the fields, by the header."""
    first = log.head.split(b"\n", 1)[0].decode("utf-8-sig", "replace")
    # Of equals the first: a header of one column is one of a table with commas.
    return max(_DELIMITERS, key=first.count)


class CsvReader(Reader):
    """Reads CSV; an empty field is absent, a quoted empty field the empty string."""

    def head_columns(self, log: LogFile) -> list[Column]:
        """Columns of the header."""
        # Each once: several may have no name.
        return [Column(name) for name in dict.fromkeys(header(log))]

    def sample(self, log: LogFile) -> dict[str, list[str]]:
        """Fields that are not empty in the first records."""
        names, rows = header(log), islice(_records_of_head(log), SAMPLE_ROWS)
        cells: dict[str, list[str]] = {name: [] for name in names}
        for row in rows:
            # A record that does not fit is rejected: its fields tell nothing of the columns.
            for name, cell in zip(names, row, strict=True) if len(row) == len(names) else ():
                if cell:
                    cells[name].append(cell)
        return cells

    def table(self, log: LogFile) -> LogTable:
        """Read the fields; records that do not fit the header go to DuckDB's reject table."""
        names = header(log)
        cells = {Column(name): f"c{i}" for i, name in enumerate(names)}
        _check_refusals(log, len(names))
        return LogTable(
            # 0 is no limit: all are counted, of which the first are listed.
            _read(log, len(names), "store_rejects = true, rejects_limit = 0"),
            cells,
            cells,
            # A list: fields that are joined as text could be divided in two ways.
            whole=f"[{', '.join(cells.values())}]::VARCHAR",
        )

    def locate(
        self, log: LogFile, rows: Mapping[int, str], refused: Sequence[Refused]
    ) -> list[Reject]:
        """Find the lines on which the records begin."""
        _refuse_if_too_many(log, len(refused))
        lines = _lines_at(log, [record.offset for record in refused])
        found = [
            Reject(line, _reason(record), excerpt(record.text))
            for line, record in zip(lines, refused, strict=True)
        ]
        return found + _find_rows(log, rows, set(lines))
