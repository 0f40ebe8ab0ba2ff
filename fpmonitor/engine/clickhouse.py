"""ClickHouse inside this process, by the package chdb: a store on an engine of a third dialect."""

from __future__ import annotations

import importlib
import io
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from fpmonitor.engine.portable import SqlEngine, sqlglot
from fpmonitor.errors import InputError, StoreError
from fpmonitor.logs import excerpt
from fpmonitor.store.sql import quote_text, statement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType, TracebackType

    from fpmonitor.engine.spark_files import FileFormat
    from fpmonitor.logs import ColumnMap

# A name in a SELECT is a column first and not another column's alias, and an outer join leaves
# nulls: both are what SQL says, and not what ClickHouse does by itself.
_SETTINGS = ("prefer_column_name_to_alias = 1", "join_use_nulls = 1")
_KINDS = {"Float32": "float", "Float64": "double", "String": "string", "Bool": "boolean"}
_NESTED = {"Array": "array", "Tuple": "struct", "Map": "map", "FixedString": "binary"}


class ClickHouseEngine(SqlEngine):
    """A session of ClickHouse; what a store writes are tables, named by their paths.

    Parameters
    ----------
    folder
        Where the tables are kept.

    Raises
    ------
    InputError
        The package chdb is not installed.
    """

    dialect = "clickhouse"

    def __init__(self, folder: Path) -> None:
        sqlglot()
        self._session: Any = _chdb().Session(str(folder))
        for setting in _SETTINGS:
            self._run(f"SET {setting}")

    def close(self) -> None:
        """End the session; the tables stay in the folder."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, text: str, answer: str = "CSV") -> bytes:
        try:
            return bytes(self._session.query(text, answer).bytes())
        except RuntimeError as error:
            reason = excerpt(str(error).split("\n", 1)[0])
            raise StoreError(f"ClickHouse refused a statement ({reason})") from error

    def frame(self, text: str) -> pl.DataFrame:
        """Rows that a query in ClickHouse's dialect returns."""
        return pl.read_parquet(io.BytesIO(self._run(text, "Parquet")))

    def define(self, name: str, text: str) -> None:
        """Let `name` stand for a query."""
        self._run(f"CREATE OR REPLACE VIEW {name} AS {text}")

    def define_rows(self, name: str, rows: pl.DataFrame) -> None:
        """Let `name` stand for some rows."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            rows.write_parquet(path)
            self._run(_table(name, _whole(_parquet(str(path)))))

    def define_files(
        self,
        name: str,
        paths: Sequence[str],
        form: FileFormat = "parquet",
        column_map: ColumnMap | None = None,
    ) -> dict[str, str]:
        """Let `name` stand for tables that were written, or for Parquet; columns and types."""
        del column_map
        if form != "parquet":
            raise InputError(f"ClickHouse reads Parquet here, not {form}")
        relations = [_quoted(path) if self._exists(path) else _parquet(path) for path in paths]
        self.define(name, " UNION ALL ".join(map(_whole, relations)))
        return self._columns(name)

    def schema_of(self, paths: Sequence[str]) -> dict[str, str]:
        """Columns and types of tables that were written; empty when one is not there."""
        if not all(map(self._exists, paths)):
            return {}
        return {name: kind for path in paths for name, kind in self._columns(_quoted(path)).items()}

    def write(self, text: str, folder: str, *, add: bool = False) -> None:
        """Write what a query returns as the table of a path."""
        if add and self._exists(folder):
            self._run(f"INSERT INTO {_quoted(folder)} {text}")
        else:
            self._run(_table(_quoted(folder), text))

    def _exists(self, path: str) -> bool:
        return self._run(f"EXISTS TABLE {_quoted(path)}").strip() == b"1"

    def _columns(self, relation: str) -> dict[str, str]:
        described = io.BytesIO(self._run(f"DESCRIBE TABLE {relation}", "Parquet"))
        columns = pl.read_parquet(described).select("name", "type").cast(pl.String)
        return {name: _kind(kind) for name, kind in columns.rows()}


def _chdb() -> ModuleType:
    try:
        return importlib.import_module("chdb.session")  # large, and in no extra
    except ImportError as error:
        raise InputError(
            "ClickHouse needs the package chdb, which is not installed", hint="pip install chdb"
        ) from error


def _quoted(path: str) -> str:
    return "`" + path.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _whole(relation: str) -> str:
    return statement("remote/whole", relation=relation)


def _parquet(path: str) -> str:
    return f"file({quote_text(path)}, 'Parquet')"


def _table(name: str, text: str) -> str:
    return f"CREATE OR REPLACE TABLE {name} ENGINE = MergeTree ORDER BY tuple() AS {text}"


def _kind(kind: str) -> str:
    """Type as Spark names it, as far as the readers of values ask."""
    kind = kind.removeprefix("Nullable(").removesuffix(")")
    word = kind.split("(", 1)[0]
    if word.startswith("DateTime"):
        return "timestamp"
    return _KINDS.get(word) or _NESTED.get(word) or word.lower()
