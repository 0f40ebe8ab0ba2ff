"""Frames with columns of any type as text: values as in JSON, but strings without quotes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import duckdb
import polars as pl

from fpmonitor.collectors.tables import Column, TextBatch
from fpmonitor.duckdb_connection import ArrowStream, in_memory
from fpmonitor.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fpmonitor.collectors.tables import Values

BATCH_ROWS = 1 << 16


def as_polars(frame: object) -> pl.DataFrame:
    """Return a frame of Polars, pandas or anything that has the Arrow C stream as one of Polars.

    Raises
    ------
    InputError
        It is none of these.
    """
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if isinstance(frame, pl.DataFrame):
        return frame
    try:
        if hasattr(frame, "__arrow_c_stream__"):
            return pl.DataFrame(ArrowStream(cast("Any", frame)))
    except ImportError:  # pandas makes the stream by pyarrow
        pass
    if not (hasattr(frame, "columns") and hasattr(frame, "__getitem__")):
        raise InputError(
            f"cannot read a {type(frame).__name__} as a frame",
            hint="give a frame of Polars, pandas or anything that has `__arrow_c_stream__`",
        )
    columns = {str(name): frame[name].tolist() for name in frame.columns}
    return pl.DataFrame(columns, strict=False).fill_nan(None)


def read(frame: pl.DataFrame, texts: Mapping[str, Column], values: Values) -> Iterator[TextBatch]:
    """Read a frame as readers read logs; a null is absent."""
    columns = [Column(name) for name in frame.columns]
    wanted = values(columns) if callable(values) else values
    with in_memory() as connection:
        parts = (as_text(connection, part) for part in frame.iter_slices(BATCH_ROWS))
        yield from text_batches(parts, columns, texts, wanted)


def text_batches(
    frames: Iterable[pl.DataFrame],
    columns: Sequence[Column],
    texts: Mapping[str, Column],
    values: Sequence[Column],
) -> Iterator[TextBatch]:
    """Make batches of frames of text, whose rows are numbered from 1 and have no text to show."""

    def cell(column: Column) -> pl.Expr:
        return pl.col(column.name) if column in columns else pl.lit(None, pl.String)

    first = 1
    for frame in frames:
        yield TextBatch(
            frame.select(
                pl.lit(None, pl.String).alias("problem"),
                *(cell(column).alias(name) for name, column in texts.items()),
            ),
            frame.select(cell(column).alias(column.name) for column in values),
            partial(_locate, first),
        )
        first += frame.height


def fetch_frame(connection: duckdb.DuckDBPyConnection, query: str) -> pl.DataFrame:
    """Return the rows of a query.

    Raises
    ------
    duckdb.Error
        It fails.
    """
    try:
        return pl.DataFrame(ArrowStream(connection.sql(query)))
    except pl.exceptions.ComputeError as error:  # what goes wrong while DuckDB hands out rows
        reason = str(error).removeprefix("got external error: ")
        raise duckdb.InvalidInputException(reason) from error


def _locate(first: int, rows: Sequence[int]) -> list[tuple[int, str]]:
    return [(first + row, "") for row in rows]


def as_text(connection: duckdb.DuckDBPyConnection, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the texts of all columns; whole numbers have no fraction, times are in UTC."""
    return pl.DataFrame([_texts(connection, column) for column in frame])


def _texts(connection: duckdb.DuckDBPyConnection, column: pl.Series) -> pl.Series:
    kind = column.dtype
    if kind.is_integer() or isinstance(kind, pl.String | pl.Boolean | pl.Categorical | pl.Enum):
        return column.cast(pl.String)
    if not kind.is_float() and not kind.is_temporal():
        return _told(connection, column)
    distinct = column.unique()
    texts = pl.DataFrame({"value": distinct, "text": _told(connection, distinct)})
    joined = column.to_frame("value").join(
        texts, on="value", how="left", nulls_equal=True, maintain_order="left"
    )
    return joined["text"].alias(column.name)


def _told(connection: duckdb.DuckDBPyConnection, column: pl.Series) -> pl.Series:
    """Texts that DuckDB makes of some values."""
    connection.register("typed", ArrowStream(column.to_frame("value")))
    connection.execute("SET TimeZone = 'UTC'")
    kind = str(connection.table("typed").types[0])
    query = f"SELECT {text_of('value', kind)} AS text FROM typed"  # noqa: S608 -- a fixed name
    return fetch_frame(connection, query)["text"].alias(column.name)


def text_of(column: str, kind: str) -> str:
    """Text of a column in DuckDB's SQL, by the type that it has there."""
    if kind in {"FLOAT", "DOUBLE"}:
        return (
            f"CASE WHEN {column} = trunc({column}) AND abs({column}) < 1e15 "
            f"THEN {column}::BIGINT::VARCHAR ELSE {column}::VARCHAR END"
        )
    if kind.endswith("]") or kind.startswith(("STRUCT", "MAP")):
        return f"to_json({column})::VARCHAR"
    return f"{column}::VARCHAR"
