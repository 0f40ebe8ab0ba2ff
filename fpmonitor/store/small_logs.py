"""Stores small logs that are alike together, as if one after the other."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb

from fpmonitor.errors import InputError
from fpmonitor.store.accounts import account_for, are_apart, set_aside
from fpmonitor.store.batches import BatchReport, add_batches, repeated_batch
from fpmonitor.store.observations import NotApartError, store_observations
from fpmonitor.store.readings import (
    Marks,
    StoredLog,
    beginning_of,
    logs_that_begin,
    marks_of,
    reading_of,
    stored_beginning,
)
from fpmonitor.store.staging import code_values, stage_all, stage_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.collectors.choosing import Recognised
    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.contract import Collector, Scan
    from fpmonitor.logs.log_file import LogFile
    from fpmonitor.store.database import Database

# 195 logs of 50 records take 2.6 s of the processor together, and 33 s one after the other: each of
# these costs a transaction of 36 statements.
_SMALL_BYTES = 1 << 16


def is_small(log: LogFile) -> bool:
    """Whether a log may be stored with others; one that has vanished is refused alone."""
    try:
        return log.compression == "uncompressed" and log.path.stat().st_size <= _SMALL_BYTES
    except OSError:
        return False


def ingest_group(database: Database, group: Sequence[Recognised]) -> list[BatchReport] | None:
    """Store small logs as if one after the other; null where that takes one after the other."""
    started = time.perf_counter()
    logs, (_, collector, column_map) = [one.log for one in group], group[0]
    are_alike = len({type(one.collector) for one in group}) == 1
    are_alike = are_alike and all(one.column_map == column_map for one in group)
    if not (are_alike and all(map(is_small, logs))) or any(log.left_out for log in logs):
        return None
    before = logs_that_begin(database, [beginning_of(log) for log in logs])
    marks: list[Marks] = []
    for log in logs:
        mark = _marks_of_head(log, reading_of(log, collector, column_map), before)
        if mark is None:
            return None
        marks.append(mark)
    digests = [digest for one in marks for digest in one.digests]
    known = {digest for (digest,) in database.rows("ingest/known_digests", digests=digests)}
    fresh: dict[Marks, LogFile] = {}
    for log, mark in zip(logs, marks, strict=True):
        if known.isdisjoint(mark.digests):
            fresh.setdefault(mark, log)
    stored = _ingest_together(database, fresh, collector, column_map, started=started)
    if stored is None:
        return None
    found = (
        stored[mark]
        if log is fresh.get(mark)
        else repeated_batch(database, log, mark.digests, started)
        for log, mark in zip(logs, marks, strict=True)
    )
    return [report for report in found if report is not None]


def _ingest_together(
    database: Database,
    logs: Mapping[Marks, LogFile],
    collector: Collector,
    column_map: ColumnMap,
    *,
    started: float,
) -> dict[Marks, BatchReport] | None:
    """Store logs, which their marks name, in one transaction; null where they interfere."""
    listed = list(logs.values())
    if not listed:
        return {}
    if not hasattr(collector, "scan_together"):
        return None
    try:
        joined = collector.scan_together(listed, column_map)
        if joined is None:
            return None
        scan, own = joined
        stage_all(database, scan)
        with database.transaction():
            return _store_together(
                database,
                logs,
                own,
                scan,
                collector=collector,
                column_map=column_map,
                started=started,
            )
    except (NotApartError, InputError, duckdb.Error, OSError):
        return None  # one after the other, it shows which log is to blame
    finally:
        database.run("ingest/forget_staged")


def _marks_of_head(log: LogFile, reading: bytes, before: Sequence[StoredLog]) -> Marks | None:
    """Return marks of a log whose head is the whole; null if it is not, as of one that has grown.

    Also of one that cannot be read any more, or that has to be refused by itself.
    """
    beginning = beginning_of(log)
    before = [stored for stored in before if stored.beginning == beginning]
    try:
        if log.path.read_bytes() != log.head:
            return None
        marks = marks_of(log, reading, len(log.head), before, as_earlier=True)
        stored_beginning(log, marks, before)
    except (OSError, InputError):
        return None
    return marks[-1]


def _store_together(
    database: Database,
    logs: Mapping[Marks, LogFile],
    own: Sequence[Sequence[str]],
    scan: Scan,
    *,
    collector: Collector,
    column_map: ColumnMap,
    started: float,
) -> dict[Marks, BatchReport]:
    rows = [_records_of(log) for log in logs.values()]
    first = database.rows("ingest/next_batch_id")[0][0]
    batches = list(range(first, first + len(logs)))
    database.run(
        "ingest/stage_logs", batches=batches, first_rows=[0, *itertools.accumulate(rows[:-1])]
    )
    if database.rows("ingest/problem_rows", most=1):
        raise NotApartError
    database.run("ingest/add_log_column")
    database.run("ingest/number_log_rows", first_rows=[0, *itertools.accumulate(rows[:-1])])
    staged = stage_values(database, list(logs.values()), scan)
    accounts = account_for(database, replace(staged, own=own), column_map)
    if not are_apart(accounts):
        raise NotApartError
    apis = set_aside(database, staged, accounts)
    database.run("ingest/join_logs")
    code_values(database)
    store_observations(database, scan, apis, None)
    counted = database.rows("ingest/count_records_of_logs")
    # A log of which DuckDB found another number of records would be divided at the wrong rows.
    if [read for _, read, _, _ in counted] != rows:
        raise NotApartError
    seconds = round((time.perf_counter() - started) / len(logs), 3)
    unordered = dict(database.rows("ingest/unordered_users_of_logs"))
    reports = {
        mark: BatchReport(
            source=log.label,
            collector=collector.name,
            read=read,
            stored=stored,
            duplicates=read - stored,
            rejected=0,
            users=users,
            apis=len(judged.taken),
            seconds=seconds,
            unordered=unordered.get(batch, 0),
            account=judged.account,
        )
        for (mark, log), judged, (batch, read, stored, users) in zip(
            logs.items(), accounts, counted, strict=True
        )
    }
    add_batches(database, first, [(logs[mark], mark, reports[mark]) for mark in logs])
    return reports


def _records_of(log: LogFile) -> int:
    """Count the lines of a log, of which the head is the whole, that are not blank."""
    return sum(bool(line.strip(b" \t\r\n")) for line in log.head.split(b"\n"))
