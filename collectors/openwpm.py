"""OpenWPM: the table `javascript` of a crawl, in SQLite or as Parquet."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar

import duckdb

from fpmonitor.collectors.calls import script_of, site_of
from fpmonitor.duckdb_connection import in_memory
from fpmonitor.errors import InputError
from fpmonitor.logs.contract import Call
from fpmonitor.sql import quote_path, quote_text
from fpmonitor.vocabulary import api_of_instrumented

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fpmonitor.logs.log_file import LogFile

_SITES = ("top_level_url", "document_url", "top_url")  # the newest name first
_WRITES = ("set", "set(failed)", "set(prevented)")


class OpenwpmCollector:
    """Reads which symbol a script got or called on which page; writes do not count.

    Values are those of the crawler, and are not read. OpenWPM stops at 500 records of a script and
    a symbol on a page, so that large counts are lower limits. Visits that it calls incomplete are
    left out.
    """

    name: ClassVar[str] = "openwpm"

    def recognises(self, log: LogFile) -> bool:
        """Whether the file is an SQLite database, or a Parquet file with symbols of scripts."""
        if log.head[:4] == b"PAR1":
            names = {name for name, _ in log.parquet_columns}
            return {"symbol", "script_url", "operation"} <= names
        return log.head.startswith(b"SQLite format 3\0")

    def calls(self, log: LogFile) -> Iterator[Call]:
        """Read the calls, equal ones together.

        Raises
        ------
        InputError
            The database lacks the table, or cannot be read.
        """
        try:
            rows = _parquet_rows(log) if log.head[:4] == b"PAR1" else _sqlite_rows(log)
        except (sqlite3.Error, duckdb.Error, UnicodeDecodeError) as error:
            raise InputError(f"{log.label}: cannot be read as a log of OpenWPM") from error
        for site, script, symbol, calls in rows:
            api = api_of_instrumented("openwpm", symbol or "") if symbol else ""
            yield Call(site_of(site or ""), script_of(script or ""), api, calls)


def _parquet_rows(log: LogFile) -> list[tuple[Any, ...]]:
    relation = f"read_parquet({quote_path(log.path)})"
    columns = [name for name, _ in log.parquet_columns]
    with in_memory() as connection:
        return connection.execute(_statement(relation, columns, "")).fetchall()


def _sqlite_rows(log: LogFile) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"{log.path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(javascript)")]
        if not {"symbol", "script_url", "operation"} <= set(columns):
            raise InputError(f"{log.label}: no table `javascript` of OpenWPM")
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        complete = (
            "AND visit_id NOT IN (SELECT visit_id FROM incomplete_visits)"
            if "incomplete_visits" in tables
            else ""
        )
        return connection.execute(_statement("javascript", columns, complete)).fetchall()


def _statement(relation: str, columns: Sequence[str], complete: str) -> str:
    site = next((name for name in _SITES if name in columns), "NULL")
    writes = ", ".join(quote_text(word) for word in _WRITES)
    return (
        f"SELECT CAST({site} AS TEXT), CAST(script_url AS TEXT), CAST(symbol AS TEXT), count(*) "  # noqa: S608 -- fixed names, the relation is quoted
        f"FROM {relation} "
        f"WHERE operation NOT IN ({writes}) {complete} GROUP BY 1, 2, 3"
    )
