"""Connections to DuckDB, which make no network traffic and which Ctrl-C ends."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING
from weakref import WeakSet

import duckdb

from fpmonitor.errors import install

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import polars as pl

# DuckDB would download an extension that a file or a statement seems to need, or load one that the
# user has, as for a path that is an address.
SETTINGS = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
DuckDBError = duckdb.Error
_HTTPFS_PACKAGE = "duckdb_extension_httpfs"
HOW_TO_GET_HTTPFS = (
    f"{install('encryption')}, which takes a DuckDB that it is packed for; or let "
    "DuckDB fetch it: python -c \"import duckdb; duckdb.sql('INSTALL httpfs')\""
)
# DuckDB 2 does not close what is in use; before, there was no such error.
_IN_USE = getattr(duckdb, "ResourceInUseException", duckdb.InterruptException)
_INTERRUPTED = "Query interrupted"
_connections: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()


class ArrowStream:
    """A frame of Polars or DuckDB that the other reads without pyarrow."""

    def __init__(self, frame: pl.DataFrame | duckdb.DuckDBPyRelation) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


def connect(database: Path | str, **settings: str | bool) -> duckdb.DuckDBPyConnection:
    """Open a database file, or `:memory:`, with settings of DuckDB."""
    return _quiet(duckdb.connect(database, config={**SETTINGS, **settings}))


def _quiet(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    # A progress bar would go to stdout. In a notebook that cannot show one it is off, and DuckDB
    # refuses even to turn it off.
    result = connection.execute("SELECT system.main.current_setting('enable_progress_bar')")
    if result.fetchall() == [
        (True,)
    ]:  # a result that was not fetched to its end would keep others waiting
        connection.execute("SET enable_progress_bar = false")
    _connections.add(connection)
    return connection


@contextmanager
def in_memory() -> Iterator[duckdb.DuckDBPyConnection]:
    """Hold a connection for the block, to read files by; temporary tables and frames end with it.

    All blocks share one instance of DuckDB, which takes longer to start than most of them last. So
    nothing is to be loaded or set there: see `connect`.
    """
    try:
        opened = _quiet(_shared().cursor())
    except duckdb.FatalException:  # an earlier block came upon a bug of DuckDB, which ends it
        _shared.cache_clear()
        opened = _quiet(_shared().cursor())
    with keyboard_interrupts(), opened as connection:
        yield connection


# An instance takes 17 ms to start, and half of them were for a single query.
@cache
def _shared() -> duckdb.DuckDBPyConnection:
    # What it read of a file it would keep, and trust.
    return connect(":memory:", enable_external_file_cache="false")


@contextmanager
def keyboard_interrupts() -> Iterator[None]:
    """Raise `KeyboardInterrupt` for what DuckDB raises on Ctrl-C in a query of the block."""
    try:
        yield
    except RuntimeError as error:
        if str(error) == _INTERRUPTED:
            raise KeyboardInterrupt from error
        raise


def interrupt_queries() -> None:
    """Stop what DuckDB works at in this process.

    On Ctrl-C it stops the thread that asked alone, and waits for the others, which read on to the
    end of their table.
    """
    for connection in list(_connections):
        with suppress(duckdb.ConnectionException):  # it was closed
            connection.interrupt()


def interrupt_and_close(connection: duckdb.DuckDBPyConnection) -> None:
    """Close a connection by which a thread of Polars may still read."""
    while True:
        connection.interrupt()
        try:
            connection.close()
        except _IN_USE:
            time.sleep(0.01)
        else:
            return


def load_httpfs(connection: duckdb.DuckDBPyConnection) -> None:
    """Load DuckDB's extension `httpfs` from its package, or as it is installed; no download."""
    version = f"v{duckdb.__version__}"
    with suppress(ModuleNotFoundError):
        extensions = resources.files(_HTTPFS_PACKAGE) / "extensions"
        packaged = extensions / version / "httpfs.duckdb_extension"
        if packaged.is_file():
            with resources.as_file(packaged) as file:
                connection.load_extension(str(file))
            return
    connection.load_extension("httpfs")
