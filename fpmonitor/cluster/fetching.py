"""Fetches the visits of a table of an engine into a database: all at first, then what is new.

The database notes the newest moment of each table that was fetched whole. An attempt that was
killed begins at the same moment again, and what it stored already is known by then: a visit is told
by user, time and source.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from fpmonitor.cluster.asking import is_query, newest, visits
from fpmonitor.collectors.choosing import choose_collector, named_as_in
from fpmonitor.errors import InputError, excerpt
from fpmonitor.logs.frames import frame_log
from fpmonitor.sql import quote_name, quote_text
from fpmonitor.store.convert import SEPARATOR
from fpmonitor.store.ingest import ingest_log
from fpmonitor.store.names import say_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from fpmonitor.cluster.asking import UserPart
    from fpmonitor.cluster.engine import Engine
    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.store.batches import BatchReport
    from fpmonitor.store.database import Database

# So many are stored at once. 2,000,000 visits of Postgres took 497 MB and 33.4 s of the processor;
# 709 MB and 31.6 s at 2^18, with 2^15 rows of a driver.
_ROWS_A_LOG = 1 << 17


def fetch_visits(
    database: Database,
    engine: Engine,
    table: str,
    column_map: ColumnMap,
    *,
    part: UserPart | None = None,
    progress: Callable[[str], None] = lambda _stage: None,
) -> list[BatchReport]:
    """Store the visits of a table, as `ingest` would store them of a file with its rows.

    Args:
        table: A table, a query or files of Parquet, as the engine names them.
        column_map: Names the columns. With one of the time, rows before the newest moment that is
            known are not read again; without, all are, and nothing that is known is stored twice.
    """
    label = _label(engine, table, part)
    conditions, latest = [], ""
    if part is not None:
        user = f"v.{quote_name(column_map.name_of('user'))}"
        conditions.append(part.holds(user))
    if (time := column_map.columns.get("time")) is not None:
        # Before the rows are read: what comes in meanwhile is read again the next time.
        found = engine.frame(newest(table, engine.dialect, time))
        try:
            [moment] = found.row(0)
        except pl.exceptions.PanicException:  # `infinity` is no time of Python
            raise _no_times(time) from None
        latest, kind = _text_and_type(moment, time)
        [since] = [*database.rows("fetched/newest", label=label), ("",)][0]
        if since:
            literal = f"CAST({quote_text(since)} AS {kind})"
            # Not `>`: more rows of the same moment may come; those that are known add nothing.
            conditions.append(f"v.{quote_name(time)} >= {literal}")
    text = visits(table, engine.dialect, condition=" AND ".join(conditions) or "TRUE")
    reports = []
    for number, rows in enumerate(engine.batches(text, _ROWS_A_LOG), 1):
        if len(rows):
            progress(f"{label}: part {number}")
            reports.append(_stored(database, rows, label, column_map))
    # Last: an attempt that ends early begins at the old moment again.
    if latest:
        database.run("fetched/note", label=label, newest=latest)
    return reports


def _label(engine: Engine, table: str, part: UserPart | None) -> str:
    """Return what the visits of a table are called, without what a query may tell."""
    text = table.strip()
    name = f"query {hashlib.sha256(text.encode()).hexdigest()[:8]}" if is_query(text) else text
    of_part = "" if part is None else f" part {part}"
    return f"{name}{of_part} of {engine.address}"


def _stored(
    database: Database, rows: pl.DataFrame, label: str, column_map: ColumnMap
) -> BatchReport:
    texts = rows.select(pl.col(pl.String).str.starts_with(SEPARATOR).any())
    if any(texts.row(0)) if texts.width else False:
        raise InputError(
            f"{label}: these are rows of `fpmonitor scale convert`",
            hint="ingest the logs that they were converted from",
        )
    # A column of which this part has no value would have no type that a log can have.
    with frame_log(rows.with_columns(pl.col(pl.Null).cast(pl.String)), label) as log:
        named = named_as_in(log, column_map)
        say_names(database, named.apis)
        return ingest_log(database, log, choose_collector(log, named), named)


def _text_and_type(moment: Any, column: str) -> tuple[str, str]:
    """Return the text of the newest moment of a table, empty where there is none, and its type.

    It is not in the future, or the clock of one visitor would hide all new rows.
    """
    if moment is None:
        return "", "DATE"
    now = datetime.now(UTC)
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            return str(min(moment, now.replace(tzinfo=None))), "TIMESTAMP"
        return str(min(moment.astimezone(UTC), now)), "TIMESTAMPTZ"
    if isinstance(moment, date):
        return str(min(moment, now.date())), "DATE"
    raise _no_times(column)


def _no_times(column: str) -> InputError:
    return InputError(
        f"--time: the column {excerpt(column)!r} holds no times of the engine",
        hint="turn it into a timestamp in a query, so that new rows can be recognised",
    )
