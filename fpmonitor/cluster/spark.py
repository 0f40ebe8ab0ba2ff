"""Spark Connect: a connection to a Spark cluster, or to Sail, which speaks the same protocol."""

from __future__ import annotations

import re
import socket
import sys
import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import polars as pl

from fpmonitor.closing import Closing
from fpmonitor.cluster.portable import needs_extra, sqlglot
from fpmonitor.errors import EngineLostError, InputError, StoreError, excerpt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_RETRIES = 5  # the client's own policy would try for ten minutes, silently
_LONGEST_PAUSE = 2000  # milliseconds between two tries
_CONNECT_SECONDS = 30
_LISTEN_SECONDS = 2.5
_PORT = 15002
_LOST = ("UNAVAILABLE", "RETRIES_EXCEEDED", "Connection refused", "SESSION_CLOSED")
# They would write statements, with the key of the user digests, and stacks to stderr.
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_GIVEN_UP = r".*RETRIES_EXCEEDED"
_NOTHING_THERE = ("NOT_FOUND", "NOT FOUND", "INFER", "NOT A DIRECTORY")
_QUERY = re.compile(r"\s*\(?\s*(SELECT|WITH|FROM)\s", re.IGNORECASE)


class SparkEngine(Closing):
    """A session on a server of Spark Connect.

    Parameters
    ----------
    url
        `sc://host:port`; further parameters as Spark Connect writes them.

    Raises
    ------
    InputError
        The extra `spark` is not installed, or the address is not one.
    EngineLostError
        The server does not answer.

    Attributes
    ----------
    address
        The address without its parameters.
    lost
        Whether the server was lost: an answer did not come.
    """

    dialect = "spark"

    def __init__(self, url: str) -> None:
        self.address = url.split(";", 1)[0]  # what follows may hold a token
        self.lost = False
        _check_port(self.address)
        sqlglot("spark")
        self._session = _session(url)
        with self._errors("connecting"):
            self._within(_CONNECT_SECONDS)
        self._session.conf.set("spark.sql.session.timeZone", "UTC")
        self._session.conf.set("spark.sql.caseSensitive", "true")

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
            raise EngineLostError(
                f"the engine at {self.address} does not answer within {seconds:g} s"
            )
        if outcome[0] is not None:
            raise outcome[0]

    def close(self) -> None:
        """End the session; a server that is gone has ended it already."""
        with self._errors("closing"):
            self._session.stop()

    def __exit__(self, *raised: object) -> None:
        try:
            self.close()
        except EngineLostError:
            if raised[0] is None:
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
                    f"the engine at {self.address} does not answer ({name})",
                    hint="is it running? what was stored there is kept; ask again",
                ) from error
            reason = excerpt(text.split("\n", 1)[0])
            raise StoreError(f"{doing}: the engine at {self.address} refused ({reason})") from error

    def frame(self, text: str) -> pl.DataFrame:
        """Return the rows of a query; see `Engine`."""
        with self._errors("query"):
            answer = pl.from_arrow(self._session.sql(text).toArrow())
        if not isinstance(answer, pl.DataFrame):
            raise StoreError(f"the engine at {self.address} did not answer with a table")
        return answer

    def define_table(self, name: str, table: str) -> Mapping[tuple[str, ...], str]:
        """Let `name` stand for a table, a query or files of Parquet; see `Engine`."""
        with self._errors(f"reading {excerpt(table)}"):
            frame = self._read(table)
            kinds = {} if frame is None else dict(_fields(frame.schema))
            if frame is None or not kinds:
                raise InputError(
                    f"{excerpt(table)}: no table, query or Parquet files that the engine at "
                    f"{self.address} can read",
                    hint="the engine reads the path, not this computer",
                )
            frame.createOrReplaceTempView(name)
        return kinds

    def _read(self, table: str) -> Any:
        """Return a frame whose schema is known; None where nothing is there."""
        from pyspark.errors import PySparkException  # noqa: PLC0415 -- an extra

        try:
            if _QUERY.match(table):
                frame = self._session.sql(table)
            elif set(table) & set("/\\:"):
                frame = self._session.read.parquet(table)
            else:
                parts = (part.replace("`", "``") for part in table.split("."))
                frame = self._session.table(".".join(f"`{part}`" for part in parts))
            _ = frame.schema
        except PySparkException as error:
            if any(word in str(error).upper() for word in _NOTHING_THERE):
                return None
            raise
        return frame

    def define_rows(self, name: str, rows: pl.DataFrame) -> None:
        """Let `name` stand for rows that are sent there; see `Engine`."""
        with self._errors("query"):
            frame = self._session.createDataFrame((rows if len(rows) else rows.clear(1)).to_arrow())
            # The client cannot send an empty table: a row of nulls is sent and left out again.
            (frame if len(rows) else frame.limit(0)).createOrReplaceTempView(name)

    def define(self, name: str, text: str) -> None:
        """Let `name` stand for a query; see `Engine`."""
        with self._errors("query"):
            self._session.sql(text).createOrReplaceTempView(name)

    def write(self, text: str, folder: str, *, add: bool = False) -> None:
        """Write the rows of a query into a folder of Parquet files; see `Engine`."""
        with self._errors(f"writing {excerpt(folder)}"):
            self._session.sql(text).write.mode("append" if add else "overwrite").parquet(folder)


def _fields(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Paths of the columns of a schema, which lead into structs, and their types."""
    for field in schema.fields:
        inner = (*path, field.name)
        if hasattr(field.dataType, "fields"):
            yield from _fields(field.dataType, inner)
        else:
            yield inner, field.dataType.simpleString()


def _check_port(address: str) -> None:
    """Refuse what is not an address, or where nobody listens: the client would try for minutes."""
    parts = urlsplit(address)
    try:
        host, port = parts.hostname, parts.port or _PORT
    except ValueError:
        host, port = None, _PORT
    if parts.scheme != "sc" or host is None:
        raise InputError(
            f"engine {excerpt(address)!r} is not an address of Spark Connect",
            hint=f"it looks like sc://host:{_PORT}",
        )
    try:
        socket.create_connection((host, port), timeout=_LISTEN_SECONDS).close()
    except OSError as error:
        raise EngineLostError(
            f"nothing listens at {address} ({error.strerror or error})",
            hint="is a server of Spark Connect running there?",
        ) from error


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

    The client takes one without (`python -c`) for its doctests, and then needs all of Spark.
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
