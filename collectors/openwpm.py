"""OpenWPM: the table `javascript` of a crawl, in SQLite or as Parquet, or the folder of a crawl."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import duckdb

from fpmonitor.collectors.calls import script_of, site_of
from fpmonitor.duckdb_connection import in_memory
from fpmonitor.errors import InputError
from fpmonitor.logs.contract import Call
from fpmonitor.logs.log_file import LogFile
from fpmonitor.sql import quote_path, quote_text
from fpmonitor.vocabulary import api_of_instrumented

_SITES = ("top_level_url", "document_url", "top_url")  # the newest name first
_WRITES = ("set", "set(failed)", "set(prevented)")
_CALLS = "javascript"
_OTHERS = ("incomplete_visits", "site_visits")
_NEEDED = {"symbol", "script_url", "operation"}
_SUMMED = ("page", "script", "symbol", "incomplete", "calls")
_INCOMPLETE = "the crawler did not complete this visit"


class OpenwpmCollector:
    """Reads which symbol a script got or called on which page; writes do not count.

    Values are those of the crawler, and are not read. OpenWPM stops at 500 records of a script and
    a symbol on a page, so that large counts are lower limits. Visits that it calls incomplete are
    rejected. A script without an address of its own (inline, or named by a `sourceURL`) counts as
    one of the site.
    """

    name: ClassVar[str] = "openwpm"

    def recognises(self, log: LogFile) -> bool:
        """Whether the file is an SQLite database, or a Parquet file with symbols of scripts."""
        if log.head[:4] == b"PAR1":
            names = {name for name, _ in log.parquet_columns}
            return names >= _NEEDED
        return log.head.startswith(b"SQLite format 3\0")

    def log_of_folder(self, folder: Path, target: Path) -> LogFile | None:
        """Sum up a crawl in Parquet, `table/n.parquet`, in one file; null for other folders.

        Raises:
            InputError: A table cannot be read.
        """
        crawl = folder.resolve().parent if folder.resolve().name == _CALLS else folder
        if not _files(crawl, _CALLS):
            return None
        try:
            with in_memory() as connection:
                statement = _statement_of_crawl(connection, crawl, _files(crawl, _CALLS))
                connection.execute(
                    f"COPY ({statement} ORDER BY ALL) TO {quote_path(target)} (FORMAT parquet)"
                )
        except duckdb.Error as error:
            raise InputError(f"{folder}: cannot be read as a crawl of OpenWPM") from error
        return LogFile(target, str(folder))

    def calls(self, log: LogFile) -> Iterator[Call]:
        """Read the calls, equal ones together.

        Raises:
            InputError: The database lacks the table, or cannot be read.
        """
        try:
            rows = _parquet_rows(log) if log.head[:4] == b"PAR1" else _sqlite_rows(log)
        except (sqlite3.Error, duckdb.Error, UnicodeDecodeError) as error:
            raise InputError(f"{log.label}: cannot be read as a log of OpenWPM") from error
        for url, script, symbol, incomplete, calls in rows:
            api = api_of_instrumented("openwpm", symbol or "") if symbol else ""
            site = site_of(url or "")
            yield Call(
                site,
                script_of(script or "") or site,
                api,
                calls,
                text=f"{symbol} {script} {url}",
                problem=_INCOMPLETE if incomplete else "",
            )


def _files(crawl: Path, table: str) -> list[Path]:
    folder = crawl / table
    return sorted(folder.rglob("*.parquet")) if folder.is_dir() else []


def _relation(files: Sequence[Path]) -> str:
    listed = ", ".join(quote_path(file) for file in files)
    return f"read_parquet([{listed}], union_by_name = true)"


def _statement_of_crawl(
    connection: duckdb.DuckDBPyConnection, crawl: Path, calls: Sequence[Path]
) -> str:
    """Select the calls of some files of a crawl, whose other tables lie beside them."""
    tables = {_CALLS: list(calls)} | {table: _files(crawl, table) for table in _OTHERS}
    relations = {table: _relation(files) for table, files in tables.items() if files}
    described = connection.execute(f"DESCRIBE SELECT * FROM {relations[_CALLS]}").fetchall()  # noqa: S608 -- quoted
    return _statement(relations, [row[0] for row in described])


def _parquet_rows(log: LogFile) -> list[tuple[Any, ...]]:
    with in_memory() as connection:
        if [name for name, _ in log.parquet_columns] == list(_SUMMED):
            # As types of ours: anybody may write a file with columns of these names.
            cells = "page::TEXT, script::TEXT, symbol::TEXT, incomplete::INTEGER, calls::BIGINT"
            return connection.execute(f"SELECT {cells} FROM {_relation([log.path])}").fetchall()  # noqa: S608 -- quoted
        folder = log.path.resolve().parent
        crawl = folder.parent if folder.name == _CALLS else folder / _CALLS
        return connection.execute(_statement_of_crawl(connection, crawl, [log.path])).fetchall()


def _sqlite_rows(log: LogFile) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"{log.path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        # A view of whoever made the file would be run here, and may have no end.
        listed = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = {name for (name,) in listed}
        relations = {table: table for table in (_CALLS, *_OTHERS) if table in tables}
        columns = [row[1] for row in connection.execute("PRAGMA table_info(javascript)")]
        if _CALLS not in relations or not set(columns) >= _NEEDED:
            raise InputError(f"{log.label}: no table `javascript` of OpenWPM")
        return connection.execute(_statement(relations, columns)).fetchall()


def _statement(relations: Mapping[str, str], columns: Sequence[str]) -> str:
    """Select the calls, equal ones together, in SQL that DuckDB and SQLite read alike."""
    sites = [f"NULLIF(calls.{name}, '')" for name in _SITES if name in columns]
    beside, incomplete = "", "0"
    if "visit_id" in columns and "site_visits" in relations:
        sites.append("visits.site_url")
        beside = (
            "LEFT JOIN (SELECT CAST(visit_id AS TEXT) AS visit, max(site_url) AS site_url "  # noqa: S608 -- fixed names, relations are quoted
            f"FROM {relations['site_visits']} GROUP BY 1) AS visits "
            "ON visits.visit = CAST(calls.visit_id AS TEXT)"
        )
    if "visit_id" in columns and "incomplete_visits" in relations:
        incomplete = (
            "CASE WHEN CAST(calls.visit_id AS TEXT) IN "  # noqa: S608 -- as above
            f"(SELECT CAST(visit_id AS TEXT) FROM {relations['incomplete_visits']}) "
            "THEN 1 ELSE 0 END"
        )
    writes = ", ".join(quote_text(word) for word in _WRITES)
    # SQLite wants two arguments at least.
    site = f"COALESCE({', '.join([*sites, 'NULL', 'NULL'])})"
    return (
        f"SELECT CAST({site} AS TEXT) AS page, CAST(script_url AS TEXT) AS script, "  # noqa: S608 -- as above
        f"CAST(symbol AS TEXT) AS symbol, {incomplete} AS incomplete, count(*) AS calls "
        f"FROM {relations[_CALLS]} AS calls {beside} "
        f"WHERE COALESCE(operation, '') NOT IN ({writes}) GROUP BY 1, 2, 3, 4"
    )
