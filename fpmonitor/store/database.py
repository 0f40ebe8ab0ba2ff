"""One DuckDB file: opening, schema, transactions, fetching."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import duckdb

from fpmonitor.errors import StoreError
from fpmonitor.store.sql import parameters_of, schema_statements, statement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

SCHEMA_VERSION = 3
_MEMORY_LIMIT = "1200MB"


class ArrowStream:
    """A polars frame that DuckDB scans without a copy and without pyarrow."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


class Database:
    """The store: observations, their dictionary, and the snapshots made of them.

    Parameters
    ----------
    path
        The database file.
    create
        Make the file when it is not there.

    Raises
    ------
    StoreError
        No such file, not a database of fpmonitor, of a newer schema, locked, or not readable.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        if not create and not path.exists():
            raise StoreError(
                f"no database at {path}",
                hint="make one with `fpmonitor ingest LOG...`, or name another with --db",
            )
        if not path.parent.is_dir():
            raise StoreError(f"no folder {path.parent}", hint="make it, or name another with --db")
        is_new = not path.exists()
        self._connection = self._open(path)
        if is_new:
            path.chmod(0o600)
        try:
            # A file without a table is one whose maker was killed before its first commit.
            self._prepare(is_new=is_new or create)
        except BaseException:
            self._connection.close()
            raise

    @staticmethod
    def _open(path: Path) -> duckdb.DuckDBPyConnection:
        try:
            return duckdb.connect(path, config={"memory_limit": _MEMORY_LIMIT})
        except duckdb.Error as error:
            reason = " ".join(str(error).split())
            if "lock" in reason.lower():
                raise StoreError(
                    f"{path} is in use by another process",
                    hint="wait until it has finished, or name another database with --db",
                ) from error
            raise StoreError(
                f"cannot open {path} as a database ({reason[:160]})",
                hint="check the path and its permissions, or name another with --db",
            ) from error

    def _prepare(self, *, is_new: bool) -> None:
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute("SET enable_progress_bar = false")  # it would go to stdout
        tables = {row[0] for row in self._connection.execute("SHOW TABLES").fetchall()}
        if not tables and is_new:
            self._create()
        elif "meta" not in tables:
            raise StoreError(
                f"{self.path} is a DuckDB file, but not a database of fpmonitor",
                hint="name another with --db",
            )
        self._migrate()

    def _create(self) -> None:
        with self.transaction():
            for text in schema_statements(1):
                self._connection.execute(text)
            self._connection.execute(
                "INSERT INTO meta VALUES ('schema_version', '1'), ('user_key', $key)",
                {"key": secrets.token_hex(16)},
            )

    def _migrate(self) -> None:
        version = int(self.meta("schema_version"))
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"{self.path} has schema {version}, this fpmonitor reads up to {SCHEMA_VERSION}",
                hint="upgrade fpmonitor",
            )
        for target in range(version + 1, SCHEMA_VERSION + 1):
            with self.transaction():
                for text in schema_statements(target):
                    self._connection.execute(text)
                self._connection.execute(
                    "UPDATE meta SET value = $version WHERE name = 'schema_version'",
                    {"version": str(target)},
                )

    def meta(self, name: str) -> str:
        """Give the value of a setting of the database."""
        row = self._connection.execute(
            "SELECT value FROM meta WHERE name = $name", {"name": name}
        ).fetchone()
        if row is None:
            raise StoreError(f"{self.path} lacks its setting {name!r}", hint="restore a backup")
        return str(row[0])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of the block is stored, or nothing of it."""
        self._connection.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @contextmanager
    def frame(self, name: str, frame: pl.DataFrame) -> Iterator[None]:
        """Let the statements of the block read a polars frame as table `name`."""
        self._connection.register(name, ArrowStream(frame))
        try:
            yield
        finally:
            self._connection.unregister(name)

    def run(self, name: str, *, fragments: dict[str, str] | None = None, **values: Any) -> None:
        """Run the statement `queries/<name>.sql`.

        Parameters
        ----------
        name
            Path of the statement below `queries/`, without its ending.
        fragments
            What fills its holes `{word}`: quoted names or statements.
        values
            What is bound to its parameters `$word`; those that it does not name are left out.
        """
        wanted = parameters_of(name)
        bound = {key: value for key, value in values.items() if key in wanted}
        self._connection.execute(statement(name, **(fragments or {})), bound)

    def rows(
        self, name: str, *, fragments: dict[str, str] | None = None, **values: Any
    ) -> list[tuple[Any, ...]]:
        """Rows that the statement `queries/<name>.sql` returns; arguments as in `run`."""
        self.run(name, fragments=fragments, **values)
        return self._connection.fetchall()

    def arrays(
        self, name: str, *, fragments: dict[str, str] | None = None, **values: Any
    ) -> dict[str, NDArray[np.generic]]:
        """Columns that the statement `queries/<name>.sql` returns, as numpy arrays."""
        self.run(name, fragments=fragments, **values)
        return self._connection.fetchnumpy()

    def has_table(self, name: str) -> bool:
        """Whether a table of this name exists, temporary ones included."""
        rows = self._connection.execute(
            "SELECT 1 FROM duckdb_tables() WHERE table_name = $name", {"name": name}
        ).fetchall()
        return bool(rows)

    def checkpoint(self) -> None:
        """Move what the log beside the file still holds into the file."""
        self._connection.execute("CHECKPOINT")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
