"""Spark Connect: a connection to a Spark cluster, or to Sail, which speaks the same protocol."""

from __future__ import annotations

import sys
import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from fpmonitor.cluster.portable import SqlEngine, needs_extra, sqlglot
from fpmonitor.cluster.spark_files import read_files
from fpmonitor.errors import EngineLostError, InputError, StoreError
from fpmonitor.logs import excerpt
from fpmonitor.sql import quote_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from fpmonitor.cluster.spark_files import FileFormat
    from fpmonitor.logs import ColumnMap

_RETRIES = 5  # the client's own policy would try for ten minutes, silently
_LONGEST_PAUSE = 2000  # milliseconds between two tries
_CONNECT_SECONDS = 30
_LOST = ("UNAVAILABLE", "RETRIES_EXCEEDED", "Connection refused", "SESSION_CLOSED")
_NOTHING_THERE = ("NOT_FOUND", "NOT FOUND", "INFER", "NOT A DIRECTORY")
# They would write statements, with the key of the user digests, and stacks to stderr.
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_GIVEN_UP = r".*RETRIES_EXCEEDED"
# Lists of these are the same JSON in all engines.
_LISTS = [f"array<{kind}>" for kind in ("string", "smallint", "int", "bigint", "boolean")]
_TIMES = ("timestamp", "timestamp_ntz")


class SparkEngine(SqlEngine):
    """A session on a server of Spark Connect.

    Parameters
    ----------
    url
        `sc://host:port`; further parameters as Spark Connect writes them.

    Raises
    ------
    InputError
        The extra `spark` is not installed, or the address is none.
    EngineLostError
        Nobody answers there.

    Attributes
    ----------
    lost
        Whether an answer failed to come because nobody is there any more.
    """

    dialect = "spark"

    def __init__(self, url: str) -> None:
        if not url.startswith("sc://"):
            raise InputError(
                f"engine {excerpt(url)!r} is no address of Spark Connect",
                hint="it looks like sc://host:15002",
            )
        self.url = url.split(";", 1)[0]  # what follows may hold a token
        self.lost = False
        sqlglot()
        self._session = _session(url)
        with self._errors("connecting"):
            self._within(_CONNECT_SECONDS)
        self._session.conf.set("spark.sql.session.timeZone", "UTC")

    def _within(self, seconds: float) -> None:
        """Wait for a first answer, no longer than this: some addresses swallow all questions."""
        outcome: list[Exception | None] = []

        def ask() -> None:
            try:
                self._session.sql("SELECT 1").toArrow()
            except Exception as error:  # noqa: BLE001 -- raised again in the caller's thread
                outcome.append(error)
            else:
                outcome.append(None)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(seconds)
        if not outcome:
            raise EngineLostError(f"the engine at {self.url} does not answer within {seconds:g} s")
        if outcome[0] is not None:
            raise outcome[0]

    def close(self) -> None:
        """End the session; a server that is gone has ended it already."""
        with self._errors("closing"):
            self._session.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except EngineLostError:
            if error is None:
                raise

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        """Turn errors of the engine into ours, in one line and without rows of data."""
        import grpc  # noqa: PLC0415 -- an extra
        from pyspark.errors import PySparkException  # noqa: PLC0415

        try:
            with _quiet():
                yield
        except (PySparkException, grpc.RpcError) as error:
            text = str(error)
            name = type(error).__name__
            if name == "RetriesExceeded" or any(word in text for word in _LOST):
                self.lost = True
                # The client tries once more when the process ends, and would warn then.
                warnings.filterwarnings("ignore", _GIVEN_UP, UserWarning)
                raise EngineLostError(
                    f"the engine at {self.url} does not answer ({name})",
                    hint="is it running? what was stored there is kept; ask again",
                ) from error
            reason = excerpt(text.split("\n", 1)[0])
            raise StoreError(f"{doing}: the engine at {self.url} refused ({reason})") from error

    def frame(self, text: str) -> pl.DataFrame:
        """Rows that a query in Spark's dialect returns."""
        with self._errors("query"):
            answer = pl.from_arrow(self._session.sql(text).toArrow())
        if not isinstance(answer, pl.DataFrame):
            raise StoreError("the engine did not answer with a table")
        return answer

    def define(self, name: str, text: str) -> None:
        """Let `name` stand for a query in the statements of this session."""
        with self._errors("query"):
            self._session.sql(text).createOrReplaceTempView(name)

    def define_rows(self, name: str, rows: pl.DataFrame) -> None:
        """Let `name` stand for some rows in the statements of this session."""
        with self._errors("query"):
            frame = self._session.createDataFrame((rows if len(rows) else rows.clear(1)).to_arrow())
            # The client cannot send an empty table: a row of nulls is sent and left out again.
            (frame if len(rows) else frame.limit(0)).createOrReplaceTempView(name)

    def define_files(
        self,
        name: str,
        paths: Sequence[str],
        form: FileFormat = "parquet",
        column_map: ColumnMap | None = None,
    ) -> dict[str, str]:
        """Let `name` stand for files, folders or a table; their columns and types.

        Parameters
        ----------
        name
            Of the view.
        paths, form, column_map
            As in `spark_files.read_files`.

        Raises
        ------
        InputError
            Nothing is there, or it has no column.
        """
        with self._errors(f"reading {excerpt(', '.join(paths))}"):
            frame, kinds = self._read(paths, form, column_map)
            if not kinds:
                raise InputError(
                    f"{excerpt(', '.join(paths))}: nothing that the engine can read as {form}",
                    hint="the engine reads the path, not this computer; --input names what it is",
                )
            frame.createOrReplaceTempView(name)
        return kinds

    def schema_of(self, paths: Sequence[str]) -> dict[str, str]:
        """Columns and types of folders of Parquet; empty when nothing is there."""
        with self._errors("query"):
            return self._read(paths, "parquet", None)[1]

    def _read(
        self, paths: Sequence[str], form: FileFormat, column_map: ColumnMap | None
    ) -> tuple[Any, dict[str, str]]:
        """Return a frame of Spark, its columns and their types; none when nothing is there."""
        from pyspark.errors import PySparkException  # noqa: PLC0415 -- an extra

        try:
            frame = read_files(self._session, paths, form, column_map)
            fields = frame.schema.fields
        except PySparkException as error:
            if "DATA_SOURCE_NOT_FOUND" in str(error):
                raise InputError(
                    f"the engine at {self.url} cannot read {form}",
                    hint="Spark reads Delta with the package delta-spark of its version",
                ) from error
            if any(word in str(error).upper() for word in _NOTHING_THERE):
                return None, {}
            raise
        return frame, {field.name: field.dataType.simpleString() for field in fields}

    def write(self, text: str, folder: str, *, add: bool = False) -> None:
        """Write what a query returns into a folder of Parquet."""
        with self._errors(f"writing {folder}"):
            self._session.sql(text).write.mode("append" if add else "overwrite").parquet(folder)


def text_cell(column: str, kind: str) -> str:
    """Text of a column, as the Parquet reader of the collectors writes it.

    Raises
    ------
    InputError
        A nested column, other than a list of texts, whole numbers or truth values.
    """
    name = quote_name(column)
    if kind in _LISTS:
        return f"to_json({name})"
    if kind.startswith(("array", "struct", "map", "binary", "variant")):
        raise InputError(
            f"column {excerpt(column)!r} is of type {excerpt(kind)}",
            hint="write it as JSON text, or leave it out with `ignore` in the column map",
        )
    if kind in {"float", "double"}:
        return (
            f"CASE WHEN {name} = floor({name}) AND abs({name}) < 1e15 "
            f"THEN {name}::BIGINT::VARCHAR ELSE {name}::VARCHAR END"
        )
    return f"{name}::VARCHAR"


def timestamp_sql(column: str, kind: str) -> tuple[str, str]:
    """Microseconds since 1970 (UTC) of a column, and the condition that it is no time."""
    name = quote_name(column)
    if kind in _TIMES:
        return f"microseconds({name})", "FALSE"
    text = f"({text_cell(column, kind)})"
    # The rules of `ingest/stage`: seconds, milliseconds, or a text in ISO 8601.
    moment = (
        f"CASE WHEN regexp_matches({text}, '^[0-9]{{1,11}}([.][0-9]+)?$') "
        f"THEN ({text}::DOUBLE * 1000000)::BIGINT "
        f"WHEN regexp_matches({text}, '^[0-9]{{12,14}}([.][0-9]+)?$') "
        f"THEN ({text}::DOUBLE * 1000)::BIGINT "
        f"ELSE microseconds(TRY_CAST({text} AS TIMESTAMPTZ)) END"
    )
    return moment, f"{name} IS NOT NULL AND ({moment}) IS NULL"


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep warnings of the client away: pandas 3 is not used here, and lost engines are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.filterwarnings("ignore", _GIVEN_UP, UserWarning)
        yield


@contextmanager
def _main_with_file() -> Iterator[None]:
    """Let the main module have a file.

    The client takes one without, as of `python -c`, for its doctests, and then wants all of Spark.
    """
    main = sys.modules["__main__"]
    if hasattr(main, "__file__"):
        yield
        return
    main.__file__ = "<string>"
    try:
        yield
    finally:
        del main.__file__


def _session(url: str) -> Any:
    """Open a session; one process may hold several."""
    try:
        with _quiet(), _main_with_file():
            from pyspark.logger import PySparkLogger  # noqa: PLC0415 -- an extra
            from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415
            from pyspark.sql.connect.session import SparkSession  # noqa: PLC0415
    except ImportError as error:
        raise needs_extra("pyspark-client") from error
    for name in _LOGGERS:
        PySparkLogger.getLogger(name).disabled = True
    try:
        with _quiet():
            session = SparkSession.builder.remote(url).create()
    except Exception as error:  # the client raises many kinds for one bad address
        raise EngineLostError(
            f"the engine at {url.split(';', 1)[0]} cannot be reached ({type(error).__name__})",
            hint="an address looks like sc://host:15002; is a server of Spark Connect running?",
        ) from error
    session.client.set_retry_policies(
        [DefaultPolicy(max_retries=_RETRIES, max_backoff=_LONGEST_PAUSE)]
    )
    return session
