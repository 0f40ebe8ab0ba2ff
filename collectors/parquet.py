"""Parquet files as tables of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fpmonitor.collectors.tables import Column, Survey, Table
from fpmonitor.logs import ROW, Reject
from fpmonitor.sql import quote_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.logs import LogFile, Refused

_ROW_NUMBER = "file_row_number"


def head_columns(log: LogFile) -> list[Column]:
    """Columns of the schema."""
    return [Column(name) for name, _ in log.parquet_columns]


def survey(log: LogFile) -> Survey:
    """Columns of the schema; a null is absent."""
    return Survey(head_columns(log))


def read_table(
    log: LogFile,
    texts: Sequence[Column],  # noqa: ARG001 -- all readers take the same
    values: Sequence[Column],  # noqa: ARG001
    survey: Survey | None = None,  # noqa: ARG001
) -> Table:
    """Read the columns, under names of ours as theirs may differ in case alone."""
    schema = log.parquet_columns
    names = [f"c{i}" for i in range(len(schema))]
    cells = {Column(name): _text(f"c{i}", kind) for i, (name, kind) in enumerate(schema)}
    read = f"read_parquet({quote_path(log.path)}"
    # DuckDB numbers the rows in a column of this name, and refuses where the file has one itself.
    numbered = all(name.casefold() != _ROW_NUMBER for name, _ in schema)
    if numbered:
        names.append(ROW)
        read += f", {_ROW_NUMBER} = true"
    return Table(f"{read}) AS records({', '.join(names)})", cells, cells, by_column=numbered)


def locate(
    log: LogFile,  # noqa: ARG001 -- all readers take the same
    rows: Mapping[int, str],
    refused: Sequence[Refused],  # noqa: ARG001
) -> list[Reject]:
    """Rows from 1; a Parquet file has no lines to show."""
    return [Reject(row + 1, reason, "") for row, reason in rows.items()]


def _text(column: str, kind: str) -> str:
    if kind in {"FLOAT", "DOUBLE"}:
        return (
            f"CASE WHEN {column} = trunc({column}) AND abs({column}) < 1e15 "
            f"THEN {column}::BIGINT::VARCHAR ELSE {column}::VARCHAR END"
        )
    if kind.endswith("]") or kind.startswith(("STRUCT", "MAP")):
        return f"to_json({column})::VARCHAR"
    return f"{column}::VARCHAR"
