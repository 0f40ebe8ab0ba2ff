"""What holds the rows, of any maker: it is asked in text of its dialect, and rows come back.

An engine runs queries and writes nothing: `asking.py` makes the text, and what an engine cannot say
in its dialect is done here.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from fpmonitor.closing import Closing
from fpmonitor.cluster.asking import macros, needs_extra
from fpmonitor.duckdb_connection import (
    ArrowStream,
    DuckDBError,
    connect,
    interrupt_and_close,
    keyboard_interrupts,
)
from fpmonitor.errors import EngineLostError, InputError, StoreError, excerpt, reason_of
from fpmonitor.masking import masked_quotes
from fpmonitor.sql import statement
from fpmonitor.store.staging import canonical_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_T = TypeVar("_T")
_LOOK_UP_SECONDS = 0.1
_ROWS_AT_ONCE = 1 << 15
# Objects of Python, which take ten times the memory: 2,000,000 visits of Postgres took 709 MB by as
# many rows at once as above, and take 497.
_ROWS_OF_DRIVER = 1 << 13
_HELD = (bool, bytes, date, datetime, float, int, str, time, timedelta, type(None))
# Scheme of an address, without what follows a plus -> the name of its SQL, as sqlglot knows it.
_DIALECT_OF = {
    "bigquery": "bigquery",
    "clickhouse": "clickhouse",
    "clickhousedb": "clickhouse",
    "databricks": "databricks",
    "duckdb": "duckdb",
    "postgresql": "postgres",
    "sc": "spark",
    "snowflake": "snowflake",
    "trino": "trino",
}
# Scheme -> `module:class`, which is made with the address; SQLAlchemy has all others.
ENGINES = {
    "duckdb": "fpmonitor.cluster.engine:DuckEngine",
    "sc": "fpmonitor.cluster.spark:SparkEngine",
}
_HINT = "an address looks like postgresql+psycopg://USER@HOST/DB, sc://HOST:PORT or duckdb:///FILE"


class Engine(Closing):
    """A connection to what holds rows; a new kind says what `frames` returns.

    Attributes:
        address: Where it is, without anything secret.
        dialect: The name of its SQL, as sqlglot knows it.
    """

    address: str
    dialect: str

    def frames(self, text: str) -> Iterator[pl.DataFrame]:
        """Rows of a query as they come, in one frame or several.

        Raises:
            EngineLostError: Nobody answers.
            StoreError: The engine refuses.
        """
        raise NotImplementedError

    def batches(self, text: str, rows: int) -> Iterator[pl.DataFrame]:
        """Rows of a query, about so many at once; errors as of `frames`."""
        waiting: list[pl.DataFrame] = []
        for frame in self.frames(text):
            waiting.append(frame)
            if sum(map(len, waiting)) >= rows:
                yield _together(waiting)
                waiting = []
        if waiting:
            yield _together(waiting)

    def frame(self, text: str) -> pl.DataFrame:
        """Return all rows of a query; errors as of `frames`."""
        return _together([*self.frames(text)])


def _together(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    try:
        # Where all values of a column are null, its type is that of another frame.
        return pl.concat(frames, how="vertical_relaxed")
    except pl.exceptions.PolarsError as error:
        raise StoreError("the engine answers with columns of several types") from error


def without_parameters(address: str) -> str:
    """Return an address without what follows it, which may hold a token."""
    return re.split("[?;]", address, maxsplit=1)[0]


def check_address(address: str) -> None:
    """Check that an address is one of an engine, by its scheme.

    Raises:
        InputError: It is not.
    """
    scheme, separator, _ = address.partition("://")
    if not separator or scheme.partition("+")[0] not in {*_DIALECT_OF, *ENGINES}:
        shown = excerpt(without_parameters(address.rpartition("@")[2]))
        raise InputError(f"--engine: {shown!r} is not an engine", hint=_HINT)


def open_engine(address: str | None = None) -> Engine:
    """Open the engine at an address; without one DuckDB in this process, which reads files."""
    address = address or "duckdb://"
    check_address(address)
    scheme = address.partition("://")[0]
    module, _, name = ENGINES.get(scheme, "fpmonitor.cluster.engine:Warehouse").partition(":")
    engine: Engine = getattr(import_module(module), name)(address)
    return engine


class DuckEngine(Engine):
    """DuckDB in this process: a file at `duckdb:///FILE`, which is only read, or none.

    Raises:
        InputError: There is no such file, or it is none of DuckDB.
    """

    dialect = "duckdb"

    def __init__(self, address: str = "duckdb://") -> None:
        path = address.partition("://")[2].removeprefix("/")
        self.address = without_parameters(address)
        # What it reads is kept nowhere: neither in memory nor, where that is full, on disk.
        settings = {"enable_external_file_cache": "false", "temp_directory": ""}
        settings |= {"access_mode": "READ_ONLY"} if path else {}
        try:
            self._connection = connect(path or ":memory:", **settings)
            for text in ("SET TimeZone = 'UTC'", *macros()):
                self._connection.execute(text)
            self._connection.create_function("canonical_json", canonical_json)
        except DuckDBError as error:
            raise InputError(
                f"{excerpt(self.address)}: no database of DuckDB that can be read "
                f"({excerpt(masked_quotes(reason_of(error)))})"
            ) from error
        self._thread = ThreadPoolExecutor(1)

    def close(self) -> None:
        """End what is under way."""
        interrupt_and_close(self._connection)
        self._thread.shutdown()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of DuckDB into ours, in one line and without values."""
        try:
            with keyboard_interrupts():
                yield
        # Polars panics at columns of types that it has no name for, such as intervals and unions.
        except (DuckDBError, pl.exceptions.ComputeError, pl.exceptions.PanicException) as error:
            raise _refused(self.address, error) from error

    def _elsewhere(self, work: Callable[..., _T], *given: Any) -> _T:
        """Work in another thread, so that Ctrl-C ends this one at once, whatever DuckDB calls.

        It looks up again and again, since Polars lets no signal wake up a thread that waits.
        """
        future = self._thread.submit(work, *given)
        while not wait([future], timeout=_LOOK_UP_SECONDS).done:
            pass
        return future.result()

    def frames(self, text: str) -> Iterator[pl.DataFrame]:
        """Rows of a query; see `Engine`."""
        with self._errors():
            stream, none = self._elsewhere(self._stream, text)
            batch = self._elsewhere(next, stream, none)  # no rows have their columns as well
            while batch is not None:
                yield batch
                batch = self._elsewhere(next, stream, None)

    def _stream(self, text: str) -> tuple[Iterator[pl.DataFrame], pl.DataFrame]:
        """Return the rows of a query in parts, and none of them."""
        rows = pl.scan_arrow_c_stream(ArrowStream(self._connection.sql(text)))
        parts = rows.collect_batches(chunk_size=_ROWS_AT_ONCE, maintain_order=False)
        return iter(parts), pl.DataFrame(schema=rows.collect_schema())

    def kinds(self, relation: str) -> dict[str, Any]:
        """Return the columns of a relation, and their types of DuckDB; errors as of `frames`."""
        with self._errors():
            found = self._connection.sql(statement("asked/no_rows", relation=relation))
        return dict(zip(found.columns, found.types, strict=True))

    def take(self, name: str, frame: pl.DataFrame) -> None:
        """Let `name` stand for rows that are not its own, until others take its place."""
        self._connection.register(name, ArrowStream(frame))


class Warehouse(Engine):
    """What SQLAlchemy and the driver of a maker connect to, for each query anew.

    Nothing else is asked of SQLAlchemy, so no dialect of its is used: sqlglot writes the text.

    Raises:
        InputError: No address, or a driver that is not installed.
    """

    def __init__(self, address: str) -> None:
        try:
            import sqlalchemy  # noqa: PLC0415 -- an extra
        except ImportError as error:
            raise needs_extra("sqlalchemy", "warehouse") from error
        try:
            # No pool: between two questions nothing is held open, neither here nor at the server.
            self._engine = sqlalchemy.create_engine(address, poolclass=sqlalchemy.NullPool)
        except ImportError as error:
            raise InputError(
                f"--engine: the driver of this address is not installed ({error.name})", hint=_HINT
            ) from error
        except sqlalchemy.exc.ArgumentError as error:
            raise InputError("--engine: not an address of a warehouse", hint=_HINT) from error
        sqlalchemy.event.listen(self._engine, "handle_error", _close_lost)
        # Parameters may hold a token.
        self.address = self._engine.url.set(query={}).render_as_string(hide_password=True)
        self.dialect = _DIALECT_OF[address.partition("://")[0].partition("+")[0]]

    def close(self) -> None:
        """Do nothing: nothing is held open."""

    def frames(self, text: str) -> Iterator[pl.DataFrame]:
        """Rows of a query; see `Engine`."""
        from sqlalchemy import exc  # noqa: PLC0415 -- an extra

        try:
            with self._engine.connect() as connection:
                # Without parameters a percent sign is one.
                options = {"max_row_buffer": _ROWS_OF_DRIVER, "no_parameters": True}
                # Without the semicolon, which drivers of some warehouses refuse.
                asked = connection.execution_options(stream_results=True, **options)
                with asked.exec_driver_sql(text.rstrip().removesuffix(";")) as found:
                    names = [*found.keys()]
                    # Answers without rows have their columns, too.
                    yield pl.DataFrame(schema=dict.fromkeys(names, pl.Null))
                    for part in found.partitions(_ROWS_OF_DRIVER):
                        rows = [tuple(row) for row in part]
                        # Only where some value needs it: `_held` is a call for each value.
                        if not {type(value) for row in rows for value in row} <= {*_HELD}:
                            rows = [*zip(*map(_held_column, zip(*rows, strict=True)), strict=True)]
                        yield pl.DataFrame(rows, names, orient="row", infer_schema_length=None)
        except exc.OperationalError as error:
            reason = excerpt(masked_quotes(reason_of(error.orig or error)))
            raise EngineLostError(
                f"{self.address} does not answer ({reason})",
                hint="is it running, and are user and password right? answers so far are kept",
            ) from error
        except exc.SQLAlchemyError as error:
            raise _refused(self.address, getattr(error, "orig", None) or error) from error
        except (TypeError, ValueError, RecursionError, pl.exceptions.PolarsError) as error:
            raise _refused(self.address, error) from error


def _held_column(column: Sequence[Any]) -> list[Any]:
    _check_objects(column)
    return [*map(_held, column)]


def _check_objects(values: Sequence[Any]) -> None:
    """Refuse objects of JSON beside other values, also in a member of objects."""
    objects = [value for value in values if isinstance(value, dict)]
    if objects and len(objects) < sum(value is not None for value in values):
        # Polars would leave the others out.
        raise TypeError("objects of JSON and other values in one column")
    members: dict[str, list[Any]] = defaultdict(list)
    for name, value in chain.from_iterable(map(dict.items, objects)):
        members[name].append(value)
    for inner in members.values():
        _check_objects(inner)


def _held(value: Any) -> Any:
    """Return a value as a frame holds it, with a text that does not follow from other rows.

    Polars would find one scale for all decimals, and one type for all lists; it has no UUIDs.
    """
    if isinstance(value, dict):  # JSON
        return {name: _held(member) for name, member in value.items()}
    if isinstance(value, list):
        return json.dumps(value, default=str, ensure_ascii=False)
    if isinstance(value, Decimal):
        return None if value.is_nan() else format(value, "f")
    if isinstance(value, memoryview):
        return bytes(value)
    return value if isinstance(value, _HELD) else str(value)


def _close_lost(context: Any) -> None:
    """Close the cursor of a server that is lost, which SQLAlchemy leaves open."""
    if context.is_disconnect and context.execution_context is not None:
        with suppress(context.dialect.loaded_dbapi.Error):
            context.execution_context.cursor.close()


def _refused(address: str, error: BaseException) -> StoreError:
    reason = excerpt(masked_quotes(reason_of(Exception(str(error)))))
    return StoreError(
        f"{address} refused the statement ({reason})",
        hint="does the table have these columns, letter for letter? give JSON and lists as text",
    )
