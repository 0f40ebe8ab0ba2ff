"""Encrypted databases: DuckDB's own encryption (AES-256 in GCM mode), with a key from a file."""

from __future__ import annotations

from pathlib import Path

import duckdb

from fpmonitor.duckdb_connection import HOW_TO_GET_HTTPFS, connect, load_httpfs
from fpmonitor.errors import InputError, StoreError
from fpmonitor.secret_files import read_secret_file
from fpmonitor.sql import quote_text
from fpmonitor.store.files import spill_folder

_ATTACHED = "store"
_LEAST_CHARACTERS = 16


def read_key_file(path: Path) -> str:
    """Read the key of a database.

    Raises:
        InputError: The file cannot be read, is open to others than its owner, or holds no key.
    """
    key = read_secret_file(path)
    if not key.isascii() or not key.isprintable() or len(key) < _LEAST_CHARACTERS:
        raise InputError(f"{path} holds no key", hint="make one with `fpmonitor db make-key FILE`")
    return key


def connect_encrypted(path: Path, key: str, **settings: str | bool) -> duckdb.DuckDBPyConnection:
    """Open an encrypted database, or make one; what DuckDB spills is encrypted as well.

    Raises:
        StoreError: DuckDB has no secure cipher here.
        duckdb.Error: It cannot be opened with this key.
    """
    # The name makes all connections of the process to this file share one instance of DuckDB.
    connection = connect(
        f":memory:{path.absolute()}",
        temp_directory=str(spill_folder(path)),
        temp_file_encryption="true",
        **settings,
    )
    try:
        _attach_encrypted(connection, path, key, _ATTACHED)
        connection.execute(f"USE {_ATTACHED}")
    except BaseException:
        connection.close()
        raise
    return connection


def attach(
    connection: duckdb.DuckDBPyConnection, path: Path, name: str, key_file: Path | None
) -> None:
    """Open a database under a name, with the key of a file where one is named."""
    if key_file is None:
        connection.execute(f"ATTACH {quote_text(str(path))} AS {name}")
    else:
        _attach_encrypted(connection, path, read_key_file(key_file), name)


def _attach_encrypted(
    connection: duckdb.DuckDBPyConnection, path: Path, key: str, name: str
) -> None:
    load_cipher(connection)
    # The key is bound, not written into the statement: messages of DuckDB show statements.
    connection.execute(
        f"ATTACH IF NOT EXISTS {quote_text(str(path))} AS {name} (ENCRYPTION_KEY $key)",
        {"key": key},
    )


def load_cipher(connection: duckdb.DuckDBPyConnection) -> None:
    """Load DuckDB's extension `httpfs`, which holds its secure ciphers; nothing is downloaded.

    Raises:
        StoreError: The extension is not installed for this version of DuckDB.
    """
    try:
        load_httpfs(connection)
    except duckdb.Error as error:
        raise StoreError(
            f"DuckDB {duckdb.__version__} lacks its ciphers here: they are in its extension httpfs",
            hint=HOW_TO_GET_HTTPFS,
        ) from error
