"""One DuckDB file: opening, schema, transactions, fetching."""

from __future__ import annotations

import re
import secrets
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl

from fpmonitor.closing import Closing
from fpmonitor.duckdb_connection import ArrowStream, connect, in_memory, keyboard_interrupts
from fpmonitor.errors import SchemaError, StoreError
from fpmonitor.sql import parameters_of, quote_name, quote_text, schema_statements, statement
from fpmonitor.store.checkpoint import by_hand_only, checkpoint, log_bytes, undo_unfinished
from fpmonitor.store.encryption import connect_encrypted, read_key_file
from fpmonitor.store.files import (
    NO_PATIENCE,
    Patience,
    identity_of_file,
    is_as_left,
    make_file,
    open_patiently,
    owner_only,
    refuse_programs,
    remember,
    remove_spills,
    trouble_with,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

SCHEMA_VERSION = 10
_MEMORY_LIMIT = "1200MB"
_MOST_PARTS = 16  # of small logs, each of which takes a block of every table
_LOG_BYTES = 1 << 24
_VERSION = re.compile(r"[1-9][0-9]{0,8}")


def _bound(name: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return those of some values that a statement names."""
    wanted = parameters_of(name)
    return {key: value for key, value in values.items() if key in wanted}


def utc_now() -> datetime:
    """Return the moment in UTC without its zone, as the store keeps times."""
    return datetime.now(UTC).replace(tzinfo=None)


def _is_text(name: str) -> bool:
    """Whether DuckDB can be given a file name: it must be UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class Database(Closing):
    """The store: observations, their dictionary, and the snapshots made of them.

    Args:
        path: The database file.
        create: Make the file when it is not there.
        key_file: Holds the key of an encrypted database.
        patience: How long to wait for a database that another process has open.

    Raises:
        StoreError: No such file, not a database of fpmonitor, of a newer schema, in use, or not
            readable; or encrypted with another key than the file holds.
        InputError: The key file cannot be read or holds no key.
    """

    def __init__(
        self,
        path: Path,
        *,
        create: bool = False,
        key_file: Path | None = None,
        patience: Patience = NO_PATIENCE,
    ) -> None:
        self.path = path
        self._key_file = key_file
        if not _is_text(str(path)):
            raise StoreError(f"{str(path)!r} cannot name a database", hint="name another with --db")
        is_new = identity_of_file(path) is None
        if is_new and not create:
            raise StoreError(
                f"no database at {path}",
                hint="make one with `fpmonitor ingest LOG...`, or name another with --db",
            )
        if not path.parent.is_dir():
            raise StoreError(f"no folder {path.parent}", hint="make it, or name another with --db")
        self._connection = open_patiently(
            path, self._open, duckdb.DuckDBPyConnection.close, patience
        )
        remove_spills(path)
        try:
            # A file without a table is one whose maker was killed before its first commit.
            self._prepare(is_new=is_new or create)
        except BaseException:
            self._connection.close()
            raise

    def _open(self) -> duckdb.DuckDBPyConnection:
        self._is_made = identity_of_file(self.path) is None and make_file(self.path, self._make)
        undo_unfinished(self.path)
        return self._connect(self.path)

    def _make(self, path: Path) -> None:
        if self._key_file is not None:
            self._connect(path).close()
            return
        name = quote_name(path.name)
        with in_memory() as connection:
            try:
                connection.execute(f"ATTACH {quote_text(str(path))} AS {name}")
            finally:
                connection.execute(f"DETACH DATABASE IF EXISTS {name}")

    def _connect(self, path: Path) -> duckdb.DuckDBPyConnection:
        if self._key_file is None:
            connection = connect(path, memory_limit=_MEMORY_LIMIT)
        else:
            key = read_key_file(self._key_file)
            connection = connect_encrypted(path, key, memory_limit=_MEMORY_LIMIT)
        by_hand_only(connection)
        connection.execute(statement("upkeep/leave_gaps"))
        return connection

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Make files for the owner alone; turn what goes wrong into a `StoreError`."""
        try:
            with keyboard_interrupts(), owner_only():
                yield
        except duckdb.Error as error:
            trouble = trouble_with(self.path, error)
            if trouble is None:
                raise
            raise trouble from error

    def _execute(self, text: str, values: dict[str, Any] | None = None) -> None:
        with self._watched():
            self._connection.execute(text, values)

    def _fetch(self, text: str, values: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        with self._watched():
            return self._connection.execute(text, values).fetchall()

    def _prepare(self, *, is_new: bool) -> None:
        # The look at DuckDB's functions takes longer than opening.
        if not self._is_made and not is_as_left(self.path):
            with self._watched():
                refuse_programs(self._connection, self.path)
        self._execute("SET TimeZone = 'UTC'")
        if self._is_made or not self._has_settings():
            if not self._is_made and (not is_new or self.tables()):
                raise StoreError(
                    f"{self.path} is a DuckDB file, but not a database of fpmonitor",
                    hint="name another with --db",
                )
            self._create()
        self._migrate()

    def _has_settings(self) -> bool:
        try:  # a list of all tables takes ten times as long
            self._fetch("SELECT 1 FROM main.meta LIMIT 0")
        except SchemaError:
            return False
        return True

    def _create(self) -> None:
        with self.transaction():
            # Through all versions: a new file is what an old one becomes.
            for version in range(1, SCHEMA_VERSION + 1):
                for text in schema_statements(version):
                    self._execute(text)
            self._execute(
                "INSERT INTO meta VALUES ('schema_version', $version), ('user_key', $key)",
                {"version": str(SCHEMA_VERSION), "key": secrets.token_hex(16)},
            )

    def _migrate(self) -> None:
        written = self.meta("schema_version")
        if not _VERSION.fullmatch(written):
            raise StoreError(f"{self.path} has no schema of fpmonitor", hint="restore a backup")
        version = int(written)
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"{self.path} has schema {version}, this fpmonitor reads up to {SCHEMA_VERSION}",
                hint="upgrade fpmonitor",
            )
        for target in range(version + 1, SCHEMA_VERSION + 1):
            with self.transaction():
                for text in schema_statements(target):
                    self._execute(text)
                self._execute(
                    "UPDATE meta SET value = $version WHERE name = 'schema_version'",
                    {"version": str(target)},
                )

    def meta(self, name: str) -> str:
        """Return the value of a setting of the database."""
        found = self._fetch("SELECT value FROM meta WHERE name = $name", {"name": name})
        if not found:
            raise StoreError(f"{self.path} lacks its setting {name!r}", hint="restore a backup")
        return str(found[0][0])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Store all that the block writes, or nothing."""
        self._execute("BEGIN")
        try:
            yield
        except BaseException:
            # Without a working connection there is no transaction left to undo.
            with suppress(duckdb.Error, StoreError):
                self._execute("ROLLBACK")
            raise
        self._execute("COMMIT")
        self._take_in_log(_LOG_BYTES)

    def _take_in_log(self, most: int = 0) -> None:
        """Write what is committed into the file itself, where its log has more bytes."""
        if log_bytes(self.path) > most:
            if self.rows("upkeep/parts_of_batches")[0][0] > _MOST_PARTS:
                self.run("upkeep/fill_gaps")
            with suppress(duckdb.TransactionException), self._watched():
                # Another connection of this process writes, and will do it.
                checkpoint(self._connection, self.path)
            self.run("upkeep/leave_gaps")

    @contextmanager
    def frame(self, name: str, frame: pl.DataFrame) -> Iterator[None]:
        """Let the statements of the block read a polars frame as table `name`."""
        self._connection.register(name, ArrowStream(frame))
        try:
            yield
        finally:
            # After an error nothing runs in its transaction; the next frame takes the place.
            with suppress(duckdb.TransactionException):
                self._connection.unregister(name)

    def run(self, name: str, *, fragments: dict[str, str] | None = None, **values: Any) -> None:
        """Run the statement `queries/<name>.sql`.

        Args:
            name: Path of the statement below `queries/`, without its ending.
            fragments: What fills its holes `{word}`: quoted names or statements.
            values: What is bound to its parameters `$word`; those that it does not name are left
                out.
        """
        self._execute(statement(name, **(fragments or {})), _bound(name, values))

    def rows(
        self, name: str, *, fragments: dict[str, str] | None = None, **values: Any
    ) -> list[tuple[Any, ...]]:
        """Rows that the statement `queries/<name>.sql` returns; arguments as in `run`."""
        self.run(name, fragments=fragments, **values)
        with self._watched():
            return self._connection.fetchall()

    def arrays(
        self, name: str, *, fragments: dict[str, str] | None = None, **values: Any
    ) -> dict[str, NDArray[np.generic]]:
        """Columns that the statement `queries/<name>.sql` returns, as numpy arrays.

        Numbers must not be null; times that are, are `NaT`. DuckDB itself makes an array of numpy
        value by value, which takes twice as long as to let Polars read the columns.
        """
        text = statement(name, **(fragments or {}))
        with self._watched():
            found = self._connection.sql(text, params=_bound(name, values))
            frame = pl.DataFrame(ArrowStream(found))
        return {column.name: column.to_numpy() for column in frame}

    def tables(self) -> list[str]:
        """Tables of the file, by name."""
        return [name for (name,) in self._fetch("SHOW TABLES")]

    def has_table(self, name: str) -> bool:
        """Whether a table of this name exists, temporary ones included."""
        return bool(
            self._fetch("SELECT 1 FROM duckdb_tables() WHERE table_name = $name", {"name": name})
        )

    def bar_other_files(self) -> None:
        """Let DuckDB open no file but this one and its own, until it is closed."""
        self._execute("SET enable_external_access = false")

    def close(self) -> None:
        """Close the file, with all that is committed in itself."""
        try:
            self._take_in_log()
        finally:
            with self._watched():
                self._connection.close()
        remember(self.path)
