"""DuckDB in this process as an engine: tables and files that this computer reads."""

from __future__ import annotations

import glob
import re
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from fpmonitor.closing import Closing
from fpmonitor.cluster.portable import OWN, macros
from fpmonitor.duckdb_connection import (
    ArrowStream,
    DuckDBError,
    connect,
    interrupt_and_close,
    keyboard_interrupts,
)
from fpmonitor.errors import InputError, StoreError, excerpt, reason_of
from fpmonitor.masking import masked_quotes
from fpmonitor.sql import quote_text, statement
from fpmonitor.store.staging import canonical_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_T = TypeVar("_T")
_LOOK_UP_SECONDS = 0.1
_QUERY = re.compile(r"\s*\(?\s*(SELECT|WITH|FROM)\s", re.IGNORECASE)
# Types as Spark names them, by DuckDB's names; whole numbers of any size have one text.
_KINDS = {
    "boolean": "boolean",
    "date": "date",
    "decimal": "decimal",
    "double": "double",
    "enum": "string",
    "float": "float",
    "hugeint": "decimal",
    "time": "date",
    "timestamp": "timestamp_ntz",
    "timestamp with time zone": "timestamp_ntz",  # whose text has the zone here
    "uhugeint": "decimal",
    "uuid": "date",
    "varchar": "string",
}
_WHOLE = re.compile(r"u?(tiny|small|big)?int(eger)?")


class LocalEngine(Closing):
    """Statements as they are written, on DuckDB in memory: see `engine.Engine`."""

    dialect = OWN
    address = "duckdb"
    lost = False

    def __init__(self) -> None:
        # What it reads is kept nowhere: neither in memory nor, where that is full, on disk.
        settings = {"enable_external_file_cache": "false", "temp_directory": ""}
        self._connection = connect(":memory:", **settings)
        self._has_json = False
        self._thread = ThreadPoolExecutor(1)
        for text in ("SET TimeZone = 'UTC'", *macros()):
            self._connection.execute(text)

    def close(self) -> None:
        """End the session."""
        interrupt_and_close(self._connection)
        self._thread.shutdown()

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        """Turn errors of DuckDB into ours, in one line and without values."""
        try:
            with keyboard_interrupts():
                yield
        except DuckDBError as error:
            reason = excerpt(masked_quotes(reason_of(error)))
            raise StoreError(f"{doing}: DuckDB refuses ({reason})") from error

    def frame(self, text: str) -> pl.DataFrame:
        """Return the rows of a query; see `Engine`."""
        with self._errors("query"):
            return self._elsewhere(self._read, text)

    def _elsewhere(self, work: Callable[..., _T], *given: Any) -> _T:
        """Work in another thread, so that Ctrl-C ends this one at once, whatever DuckDB calls.

        It looks up again and again, since Polars lets no signal wake up a thread that waits.
        """
        future = self._thread.submit(work, *given)
        while not wait([future], timeout=_LOOK_UP_SECONDS).done:
            pass
        return future.result()

    def _read(self, text: str) -> pl.DataFrame:
        return pl.DataFrame(ArrowStream(self._connection.sql(text)))

    def batches(self, text: str, most: int) -> Iterator[pl.DataFrame]:
        """Rows of a query in any order, about so many at once."""
        with self._errors("query"):
            try:
                stream = self._elsewhere(self._stream, text, most)
                while (batch := self._elsewhere(next, stream, None)) is not None:
                    yield batch
            except pl.exceptions.ComputeError as error:
                raise DuckDBError(str(error)) from error

    def _stream(self, text: str, most: int) -> Iterator[pl.DataFrame]:
        stream = pl.scan_arrow_c_stream(ArrowStream(self._connection.sql(text)))
        return iter(stream.collect_batches(chunk_size=most, maintain_order=False))

    def define_codes(self, kind: str, texts: Sequence[str]) -> None:
        """Let `kind` be a type of texts, whose codes are their places; no texts, no type."""
        if texts:
            quoted = ", ".join(map(quote_text, texts))
            with self._errors("query"):
                self._connection.execute(statement("cluster/codes", kind=kind, texts=quoted))

    def define_table(self, name: str, table: str) -> Mapping[tuple[str, ...], str]:
        """Let `name` stand for a query or files of Parquet; see `Engine`."""
        try:
            self.define(name, _rows_of(table))
            with self._errors("reading"):
                found = self._connection.table(name)
        except StoreError as error:
            raise InputError(
                f"{excerpt(table)}: no query or Parquet files that can be read here "
                f"({error.message})",
                hint="name Parquet files, a folder of them, or a query, such as FROM 'users.csv'; "
                "or --engine, for a table",
            ) from error
        return dict(_fields(zip(found.columns, found.types, strict=True)))

    def canonical(self, text: str, condition: str) -> str:
        """Return the expression of a text, on a condition as `store.staging.canonical_json`."""
        if not self._has_json:
            self._connection.create_function(
                "canonical_json", canonical_json, ["VARCHAR"], "VARCHAR"
            )
            self._has_json = True
        return f"CASE WHEN {condition} THEN canonical_json({text}) ELSE {text} END"

    def define_rows(self, name: str, rows: pl.DataFrame) -> None:
        """Let `name` stand for rows that are sent there; see `Engine`."""
        with self._errors("query"):
            self._connection.register("sent", ArrowStream(rows))
            self._connection.execute(statement("cluster/take_rows", relation=name))
            self._connection.unregister("sent")

    def define(self, name: str, text: str) -> None:
        """Let `name` stand for a query; see `Engine`."""
        with self._errors("query"):
            self._connection.execute(statement("cluster/define", view=name, scan=text))

    def write(self, text: str, folder: str, *, add: bool = False) -> None:
        """Refuse: snapshots of this computer are database files."""
        raise NotImplementedError


def _rows_of(table: str) -> str:
    """Return the query for a query, a Parquet file, a folder or a pattern of them."""
    if _QUERY.match(table):
        return table
    path = Path(table)
    if path.is_file():
        pattern = glob.escape(table)
    elif path.is_dir():
        pattern = f"{glob.escape(str(path))}/**/*.parquet"
    else:
        pattern = table
    return statement("cluster/files", pattern=quote_text(pattern))


def _fields(
    columns: Iterable[tuple[str, Any]], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Paths of columns, which lead into structs, and their types."""
    for name, kind in columns:
        inner = (*path, name)
        if kind.id == "struct":
            yield from _fields(kind.children, inner)
        elif kind.id in {"list", "array"}:
            yield inner, f"array<{kind.children[0][1]}>".lower()
        elif kind.id == "map":
            yield inner, f"map<{kind.children[1][1]}>".lower()
        elif _WHOLE.fullmatch(kind.id):
            yield inner, "bigint"
        else:
            yield inner, _KINDS.get(kind.id, kind.id)
