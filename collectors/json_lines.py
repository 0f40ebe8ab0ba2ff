"""JSON lines as tables of text, members of `attributes` included."""

from __future__ import annotations

import io
import json
from functools import lru_cache
from typing import TYPE_CHECKING

import duckdb
import polars as pl

from fpmonitor.collectors.frames import fetch_frame
from fpmonitor.collectors.tables import Column, TextBatch
from fpmonitor.duckdb_connection import ArrowStream, in_memory
from fpmonitor.logs import LONG_LINE, MAX_APIS
from fpmonitor.sql import quote_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fpmonitor.collectors.tables import Values
    from fpmonitor.logs import Block, LogFile

ATTRIBUTES = "attributes"
_MOST_MEMBERS = 2 * MAX_APIS  # more than enough to refuse the log
_BLANKS = " \t\r\n"
_BEFORE_A_COLON = [" :", "\t:", "\r:"]
_THREADS = 4


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


def _records_of(head: bytes) -> Iterator[dict[str, object]]:
    for line in head.splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue  # broken lines are rejected one by one when the whole log is read
        if isinstance(record, dict):
            yield record


def read(
    log: LogFile,
    texts: Mapping[str, Column],
    values: Values,
) -> Iterator[TextBatch]:
    """Read the members of each record; any record may bring others."""
    columns = _sorted(head_columns(log)) if callable(values) else list(values)
    with in_memory() as connection:
        for block in log.blocks():
            lines = _Lines(connection, block)
            wanted = dict.fromkeys([*texts.values(), *columns])
            cells = lines.extract(wanted)
            if callable(values) and lines.may_hold_more(cells, wanted):
                fresh = lines.columns().difference(columns)
                if fresh:
                    columns += _sorted(fresh)
                    wanted = dict.fromkeys([*texts.values(), *columns])
                    cells = lines.extract(wanted)
            chosen = values(columns) if callable(values) else values
            place = {column: f"column_{i}" for i, column in enumerate(wanted)}
            rows = cells.select(
                lines.plain(cells[place[column]]).alias(name) for name, column in texts.items()
            )
            yield TextBatch(
                rows.insert_column(0, lines.problems(rows)),
                cells.select(pl.col(place[column]).alias(column.name) for column in chosen),
                lines.locate,
            )


def _sorted(columns: Iterable[Column]) -> list[Column]:
    return sorted(columns, key=lambda column: (column.nested, column.name))


class _Lines:
    """The lines of a block that are not blank; what is no JSON becomes null when it is found."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, block: Block) -> None:
        self._connection = connection
        self._block = block
        try:
            lines = pl.read_lines(io.BytesIO(block.data), name="line")
        except pl.exceptions.ComputeError:  # not UTF-8
            lines = pl.DataFrame(
                {"line": [_decoded(line) for line in block.data.split(b"\n")[:-1]]},
                schema={"line": pl.String},
            )
        is_blank = pl.col("line").str.strip_chars(_BLANKS) == ""
        self._frame = lines.with_row_index("number").filter(is_blank.not_() | is_blank.is_null())
        self._problem = pl.Series("problem", [None], pl.String).new_from_index(
            0, self._frame.height
        )
        self._has_flaws = False
        if self._frame["line"].null_count():
            self._find_flaws()

    def extract(self, columns: Iterable[Column]) -> pl.DataFrame:
        """Values of some members as JSON text; null where a record lacks one."""
        pointers = ", ".join(quote_text(_pointer(column)) for column in columns)
        query = f"SELECT json_extract(line, [{pointers}]) AS cells FROM lines"  # noqa: S608 -- quoted
        try:
            lists = self._query(query)
        except duckdb.InvalidInputException:
            if self._has_flaws:
                raise
            self._find_flaws()
            lists = self._query(query)
        return lists.select(
            pl.col("cells").list.get(i).cast(pl.String).alias(f"column_{i}")
            for i, _ in enumerate(columns)
        )

    def _query(self, query: str) -> pl.DataFrame:
        # DuckDB reads the parts of a frame with several threads.
        size = -(-self._frame.height // _THREADS) or 1
        parts = pl.concat([*self._frame.select("line").iter_slices(size)] or [self._frame])
        self._connection.register("lines", ArrowStream(parts))
        return fetch_frame(self._connection, query)

    def _find_flaws(self) -> None:
        self._has_flaws = True
        valid = self._query("SELECT json_valid(line) AS valid FROM lines")["valid"]
        line = pl.col("line")
        flaw = (
            pl.when(line.is_null())
            .then(pl.lit("not UTF-8"))
            .when(line == LONG_LINE)
            .then(pl.lit(LONG_LINE))
            .when(~valid)
            .then(pl.lit("not JSON"))
        )
        self._problem = self._frame.select(flaw.alias("problem"))["problem"]
        self._frame = self._frame.with_columns(pl.when(valid).then(line).alias("line"))

    def may_hold_more(self, cells: pl.DataFrame, columns: Iterable[Column]) -> bool:
        """Whether a record may have other members than those whose values were found.

        Each member of a record has a colon right behind the quote that ends its name, if no colon
        stands behind a blank. So where there are as many of these as values, there is no other.
        """
        if Column(ATTRIBUTES) in columns:
            return True
        line = pl.col("line").str
        colons, spaced = self._frame.select(
            line.count_matches('":', literal=True).sum(),
            spaced=line.contains_any(_BEFORE_A_COLON).any(),
        ).row(0)
        found = int(cells.count().sum_horizontal().item())
        return bool(spaced) or colons != found

    def columns(self) -> set[Column]:
        """Members of all records."""
        found = {Column(name) for name in self._members("")}
        if Column(ATTRIBUTES) in found:
            members = self._members(f", '/{ATTRIBUTES}'")
            found.update(Column(name, nested=True) for name in members)
        return found

    def _members(self, path: str) -> list[str]:
        query = f"""
            SELECT DISTINCT unnest(names) AS name
            FROM (
                SELECT any_value(names) AS names
                FROM (SELECT json_keys(line{path}) AS names FROM lines)
                GROUP BY hash(names)
            )
            ORDER BY name
            LIMIT {_MOST_MEMBERS}
        """  # noqa: S608 -- a fixed path
        return self._query(query)["name"].to_list()

    def plain(self, cells: pl.Series) -> pl.Series:
        """Plain text of some JSON texts; none of null."""
        if cells.str.contains("\\", literal=True).any():
            self._connection.register("cells", ArrowStream(cells.to_frame("cell")))
            query = "SELECT json_extract_string(cell, '$') AS cell FROM cells"
            return fetch_frame(self._connection, query)["cell"]
        cell = pl.col(cells.name)
        unquoted = cell.str.strip_prefix('"').str.strip_suffix('"')
        return cells.to_frame().select(pl.when(cell != "null").then(unquoted)).to_series()

    def problems(self, rows: pl.DataFrame) -> pl.Series:
        """Why each line cannot be read, or null."""
        no_user = rows["user"].is_null() & self._problem.is_null()
        if no_user.any():
            kinds = self._query("SELECT json_type(line) AS kind FROM lines")["kind"]
            is_other = no_user & (kinds != "OBJECT")
            self._problem = (
                pl.select(
                    pl.when(is_other).then(pl.lit("not a JSON object")).otherwise(self._problem)
                )
                .to_series()
                .alias("problem")
            )
        return self._problem

    def locate(self, rows: Sequence[int]) -> list[tuple[int, str]]:
        """Numbers and texts of some lines."""
        lines = self._block.data.split(b"\n")
        numbers = self._frame["number"].gather(list(rows))
        return [
            (self._block.line + number, lines[number].decode("utf-8", "replace"))
            for number in numbers
        ]


def _decoded(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None


def _pointer(column: Column) -> str:
    """JSON pointer (RFC 6901) of a column: any name can stand in it."""
    escaped = column.name.replace("~", "~0").replace("/", "~1")
    return f"/{ATTRIBUTES}/{escaped}" if column.nested else f"/{escaped}"
