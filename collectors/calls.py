"""Calls as a plain table, and what collectors of demand logs share: names without queries."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

import duckdb

from fpmonitor.collectors.readers import reader_of
from fpmonitor.duckdb_connection import in_memory
from fpmonitor.errors import InputError
from fpmonitor.logs.contract import Call
from fpmonitor.vocabulary import api_of_instrumented, meaning
from fpmonitor.vocabulary.headers import folded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fpmonitor.collectors.tables import Column
    from fpmonitor.logs.log_file import LogFile

# What others call the columns; upper and lower case and punctuation aside.
_COLUMNS: dict[str, frozenset[str]] = {
    "site": frozenset({"site", "toplevelurl", "siteurl", "pageurl", "page", "domain"}),
    "script": frozenset({"script", "scripturl", "initiator"}),
    "api": frozenset({"api", "symbol", "apiname"}),
    "calls": frozenset({"calls", "count", "times"}),
}
_WRITES = "operation"  # tells reads from writes: the table of a crawler, which its own reader takes
_AT_ONCE = 10_000
_REFUSED = "SELECT line, 'not a record of the table' FROM reject_errors GROUP BY 1 ORDER BY 1"


def site_of(url: str) -> str:
    """Host of a page; empty where the URL has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def script_of(url: str) -> str:
    """Host and path of a script, without query and fragment; empty where the URL has no host."""
    host = site_of(url)
    return host + urlsplit(url).path if host else ""


def address_of(text: str) -> str:
    """Return a host, with or without a path, as an address; an address as it is."""
    return text if "://" in text or text.startswith("//") else f"//{text}"


class CallsCollector:
    """Reads `site, api` and, where they are there, `script` and `calls`: CSV, JSON lines, Parquet.

    Names such as `page`, `script_url` and `symbol` do as well.

    Sites and scripts are hosts or addresses; a call without a script counts for the site. An API
    has the name that fpmonitor gives it, or that an instrumented page does. Without `calls`, a
    record is one call.
    """

    name: ClassVar[str] = "calls"

    def recognises(self, log: LogFile) -> bool:
        """Whether the log has columns of these names."""
        if log.head.startswith((b"SQLite format 3\0", b"[")):
            return False
        head = reader_of(log).head_columns(log)
        is_of_crawler = any(column.name == _WRITES for column in head)
        return {"site", "api"} <= _known(head).keys() and not is_of_crawler

    def calls(self, log: LogFile) -> Iterator[Call]:
        """Read the calls, one a record.

        Raises:
            InputError: The log cannot be read.
        """
        known = _known(reader_of(log).head_columns(log))
        table = reader_of(log).read_table([log], list(known.values()), [])
        refuses = log.format == "csv"
        cells = ", ".join(table.text[known[name]] if name in known else "NULL" for name in _COLUMNS)
        try:
            with in_memory() as connection:
                found = connection.execute(f"SELECT {cells} FROM {table.relation}")  # noqa: S608 -- quoted
                rows = chain.from_iterable(iter(partial(found.fetchmany, _AT_ONCE), []))
                for line, row in enumerate(rows, start=1 + refuses):  # below a header
                    yield _call(line, row, counts="calls" in known)
                for line, reason in connection.execute(_REFUSED).fetchall() if refuses else ():
                    yield Call("", "", "", 0, line, problem=reason)
        except duckdb.Error as error:
            raise InputError(f"{log.label}: cannot be read as a table of calls") from error


def _known(head: Sequence[Column]) -> dict[str, Column]:
    """Say what each column is; of several the one of the usual name."""
    found: dict[str, Column] = {}
    for name, spelled in _COLUMNS.items():
        fitting = [column for column in head if folded(column.name) in spelled]
        if fitting:
            found[name] = min(fitting, key=lambda column: folded(column.name) != name)
    return found


def _call(line: int, row: Sequence[str | None], *, counts: bool) -> Call:
    site, script, api, calls = row
    host = site_of(address_of(site or ""))
    place = script_of(address_of(script)) if script else ""
    # Longer ones are above `MAX_CALLS`, and `int` has an error of its own from 4,300 digits on.
    times = int(calls) if calls and calls.isascii() and calls.isdigit() and len(calls) < 12 else 0
    return Call(
        host,
        place or host,
        _api(api or ""),
        times if counts else 1,
        line,
        f"{site} {script} {api} {calls}",
    )


def _api(name: str) -> str:
    found = api_of_instrumented(CallsCollector.name, name) if name else ""
    return (meaning(name, {}) or found) if found.startswith("x:") else found
