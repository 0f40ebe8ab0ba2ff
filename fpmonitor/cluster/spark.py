"""Spark Connect: a connection to a Spark cluster, or to Sail, which speaks the same protocol."""

from __future__ import annotations

import socket
import sys
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import polars as pl

from fpmonitor.calls import begun
from fpmonitor.cluster.asking import needs_extra
from fpmonitor.cluster.engine import Engine, without_parameters
from fpmonitor.errors import EngineLostError, InputError, StoreError, excerpt
from fpmonitor.masking import masked_quotes

if TYPE_CHECKING:
    from collections.abc import Iterator

_RETRIES = 5  # the client's own policy would try for ten minutes, silently
_LONGEST_PAUSE = 2000  # milliseconds between two tries
_CONNECT_SECONDS = 30
_LISTEN_SECONDS = 2.5
_PORT = 15002
_LOST = ("UNAVAILABLE", "RETRIES_EXCEEDED", "Connection refused", "SESSION_CLOSED")
# They would write statements, with the key of the user digests, and stacks to stderr.
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_GIVEN_UP = r".*RETRIES_EXCEEDED"


class SparkEngine(Engine):
    """A session on a server at `sc://host:port`; further parameters as Spark Connect writes them.

    Raises:
        InputError: The extra `spark` is not installed, or the address is not one.
        EngineLostError: The server does not answer.
    """

    dialect = "spark"

    def __init__(self, url: str) -> None:
        scheme, mark, rest = without_parameters(url).partition("://")
        # Spark Connect knows no password here; who writes one does not want it shown.
        self.address = f"{scheme}{mark}{rest.rpartition('@')[2]}"
        _check_port(self.address)
        self._session = _session(url, self.address)
        with self._errors():
            self._within(_CONNECT_SECONDS)
        # The zone of the server would make other texts of the same moments.
        self._session.conf.set("spark.sql.session.timeZone", "UTC")
        self._session.conf.set("spark.sql.caseSensitive", "true")

    def _within(self, seconds: float) -> None:
        """Wait for a first answer, no longer than this: some addresses swallow all questions."""
        try:
            begun(lambda: self._session.sql("SELECT 1").toArrow()).result(seconds)
        except TimeoutError as error:
            raise EngineLostError(
                f"the engine at {self.address} does not answer within {seconds:g} s"
            ) from error

    def close(self) -> None:
        """End the session; a server that is gone has ended it already."""
        with suppress(EngineLostError), self._errors():
            self._session.stop()

    @contextmanager
    def _errors(self) -> Iterator[None]:
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
                # The client tries once more when the process ends, and would warn then.
                warnings.filterwarnings("ignore", _GIVEN_UP, UserWarning)
                raise EngineLostError(
                    f"the engine at {self.address} does not answer ({name})",
                    hint="is it running? answers so far are kept; ask again",
                ) from error
            reason = excerpt(masked_quotes(text.split("\n", 1)[0]))
            raise StoreError(f"the engine at {self.address} refused ({reason})") from error

    def frames(self, text: str) -> Iterator[pl.DataFrame]:
        """Rows of a query; see `Engine`."""
        with self._errors():
            spark_frame = self._session.sql(text.rstrip().removesuffix(";"))
            client, any_rows = self._session.client, False
            # Part by part, where `toArrow` would hold all of them.
            for part in client.to_table_as_iterator(spark_frame._plan.to_proto(client), {}):  # noqa: SLF001
                if hasattr(part, "num_rows"):
                    any_rows = True
                    yield pl.DataFrame(part)
            if not any_rows:
                yield pl.DataFrame(spark_frame.toArrow())


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


def _session(url: str, address: str) -> Any:
    """Open a session; one process may hold several. `address` is what errors show."""
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
            f"the engine at {address} cannot be reached ({type(error).__name__})",
            hint="an address looks like sc://host:15002; is a server of Spark Connect running?",
        ) from error
    session.client.set_retry_policies(
        [DefaultPolicy(max_retries=_RETRIES, max_backoff=_LONGEST_PAUSE)]
    )
    return session
