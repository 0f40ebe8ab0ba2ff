"""Parquet files as tables of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from fpmonitor.collectors.frames import BATCH_ROWS, as_text, fetch_frame, text_batches, text_of
from fpmonitor.collectors.tables import Column
from fpmonitor.duckdb_connection import in_memory
from fpmonitor.errors import InputError
from fpmonitor.logs import excerpt
from fpmonitor.sql import quote_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import duckdb

    from fpmonitor.collectors.tables import TextBatch, Values
    from fpmonitor.logs import LogFile

_BATCH_BYTES = 1 << 25
_ROW = "row of the file"
_INTEGERS = {f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG")}
# What Polars and DuckDB read alike.
_PLAIN = _INTEGERS | {"INTEGER", "UINTEGER", "VARCHAR", "BOOLEAN", "FLOAT", "DOUBLE", "DATE"}
_TIMES = {"TIMESTAMP", "TIMESTAMP WITH TIME ZONE"}


def head_columns(log: LogFile) -> list[Column]:
    """Columns of the schema."""
    return [Column(name) for name, _ in log.parquet_columns]


def read(
    log: LogFile,
    texts: Mapping[str, Column],
    values: Values,
) -> Iterator[TextBatch]:
    """Read the columns; a null is absent. A Parquet file has rows, from 1, and no lines to show."""
    columns = head_columns(log)
    wanted = values(columns) if callable(values) else values
    names = {column.name for column in [*texts.values(), *wanted] if column in columns}
    yield from text_batches(_frames(log, names), columns, texts, wanted)


def _frames(log: LogFile, names: Iterable[str]) -> Iterator[pl.DataFrame]:
    """Read some columns as text."""
    try:
        lazy = pl.scan_parquet(log.path, glob=False, row_index_name=_ROW)
        kinds = lazy.collect_schema()
        plain = [
            name
            for name, kind in log.parquet_columns
            if name in names and _is_alike(kind, kinds[name])
        ]
        others = [name for name in names if name not in plain]
        with in_memory() as connection:
            for frame in _joined(lazy.select(_ROW, *plain).collect_batches(maintain_order=True)):
                texts = as_text(connection, frame.select(plain))
                if others:
                    texts = texts.hstack(_by_duckdb(connection, log, frame[_ROW], others))
                yield texts
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{log.label}: cannot be read ({excerpt(str(error))})") from error


def _is_alike(kind: str, in_polars: pl.DataType) -> bool:
    if kind in _TIMES:
        return isinstance(in_polars, pl.Datetime) and in_polars.time_unit != "ns"
    return kind in _PLAIN and in_polars.is_nested() is False


def _joined(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Put small frames together."""
    some: list[pl.DataFrame] = []
    for frame in frames:
        some.append(frame)
        if (
            sum(part.height for part in some) >= BATCH_ROWS
            or sum(part.estimated_size() for part in some) >= _BATCH_BYTES
        ):
            yield pl.concat(some)
            some = []
    if some:
        yield pl.concat(some)


def _by_duckdb(
    connection: duckdb.DuckDBPyConnection, log: LogFile, rows: pl.Series, names: Sequence[str]
) -> pl.DataFrame:
    """Read columns of other types, under names of ours as theirs may differ in case alone."""
    schema = log.parquet_columns
    ours = [f"c{i}" for i in range(len(schema))]
    texts = ", ".join(
        f"{text_of(column, kind)} AS {column}"
        for column, (name, kind) in zip(ours, schema, strict=True)
        if name in names
    )
    connection.execute("SET TimeZone = 'UTC'")
    frame = fetch_frame(
        connection,
        f"SELECT {texts} FROM read_parquet({quote_path(log.path)}, file_row_number = true) "  # noqa: S608 -- names of ours, the path is quoted
        f"AS records({', '.join(ours)}, number) "
        f"WHERE number BETWEEN {rows[0]} AND {rows[-1]} ORDER BY number",
    )
    return frame.rename({f"c{i}": name for i, (name, _) in enumerate(schema) if name in names})
