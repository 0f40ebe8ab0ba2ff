"""Parquet files as tables of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckdb.sqltypes import DuckDBPyType

from fpmonitor.collectors.tables import (
    MAX_DEPTH,
    MAX_MEMBERS,
    SAMPLE_ROWS,
    Column,
    LogTable,
    Reader,
)
from fpmonitor.duckdb_connection import in_memory
from fpmonitor.logs.contract import ROW
from fpmonitor.sql import quote_path, quote_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fpmonitor.logs.log_file import LogFile

_MOST_READ_ALONE = 256  # columns: every statement names all of them to DuckDB
_ROW_NUMBER = "file_row_number"


def _cells(log: LogFile, *, with_structs: bool = True) -> dict[Column, str]:
    """Text of each column and of each leaf of a struct in SQL, in the order of the schema."""
    cells: dict[Column, str] = {}
    for i, (name, kind) in enumerate(log.parquet_columns):
        for column, cell, leaf in _leaves(Column(name), f"c{i}", kind, with_structs=with_structs):
            cells[column] = value_sql(cell, leaf)
    return cells


def _leaves(
    column: Column, cell: str, kind: str, *, with_structs: bool
) -> Iterator[tuple[Column, str, str]]:
    fields = []
    if kind.startswith("STRUCT") and not kind.endswith("]") and len(column.steps) < MAX_DEPTH:
        fields = DuckDBPyType(kind).children
    is_nested = 0 < len(fields) <= MAX_MEMBERS
    if with_structs or not is_nested:
        yield column, cell, kind
    for name, field_kind in fields if is_nested else ():
        field_cell = f"struct_extract({cell}, {quote_text(name)})"
        yield from _leaves(
            column.within(name), field_cell, str(field_kind), with_structs=with_structs
        )


def value_sql(column: str, kind: str) -> str:
    """Return the text of a value, by the name that DuckDB has for its type; null for no number."""
    if kind in {"FLOAT", "DOUBLE"}:
        return (
            # What is no number is how pandas and numpy write that there is none.
            f"CASE WHEN {column} = trunc({column}) AND abs({column}) < 1e15 "
            f"THEN TRY_CAST({column} AS BIGINT)::VARCHAR "
            # Not `isnan`, which DuckDB takes for false by the bounds that a file notes.
            f"WHEN {column}::VARCHAR <> 'nan' THEN {column}::VARCHAR END"
        )
    if kind.endswith("]") or kind.startswith(("STRUCT", "MAP")):
        return f"to_json({column})::VARCHAR"
    return f"{column}::VARCHAR"


class ParquetReader(Reader):
    """Reads Parquet, which has no lines to show; a null is absent."""

    def head_columns(self, log: LogFile) -> list[Column]:
        """Columns of the schema."""
        return list(_cells(log))

    def sample(self, log: LogFile) -> dict[str, list[str]]:
        """Texts of the first rows."""
        table = self.table(log)
        columns = {column.name: cell for column, cell in table.text.items() if not column.path}
        cells = ", ".join(columns.values())
        with in_memory() as connection:
            rows = connection.execute(
                f"SELECT {cells} FROM {table.relation} LIMIT {SAMPLE_ROWS}"  # noqa: S608 -- quoted
            ).fetchall()
        return {
            name: [text for text in texts if text]
            for name, texts in zip(columns, zip(*rows, strict=True), strict=False)
        }

    def survey(self, log: LogFile, whole: Collection[str] | None = None) -> list[Column]:
        """Columns of the schema; a null is absent."""
        columns = [Column(name) for name, _ in log.parquet_columns]
        if whole is None:
            return columns
        whole_names = {column.name for column in columns} & set(whole)
        leaves = _cells(log, with_structs=False)
        return [column for column in columns if column.name in whole_names] + [
            column for column in leaves if column.steps[0] not in whole_names
        ]

    def table(self, log: LogFile) -> LogTable:
        """Read the columns, under names of ours as theirs may differ in case alone."""
        schema = log.parquet_columns
        names = [f"c{i}" for i in range(len(schema))]
        cells = _cells(log)
        read = f"read_parquet({quote_path(log.path)}"
        # DuckDB numbers the rows in a column of this name, and refuses where the file has one.
        numbered = len(schema) <= _MOST_READ_ALONE and all(
            name.casefold() != _ROW_NUMBER for name, _ in schema
        )
        if numbered:
            names.append(ROW)
            read += f", {_ROW_NUMBER} = true"
        whole = ", ".join(value_sql(f"c{i}", kind) for i, (_, kind) in enumerate(schema))
        return LogTable(
            f"{read}) AS records({', '.join(names)})",
            cells,
            cells,
            by_column=numbered,
            whole=f"[{whole}]::VARCHAR",
        )
