"""Ingest: one log file, one transaction, stored whole or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any

import duckdb
import polars as pl

from fpmonitor.collectors.frames import as_polars
from fpmonitor.collectors.wide import WideCollector
from fpmonitor.disclosure import masked_quotes, masked_text
from fpmonitor.errors import InputError
from fpmonitor.logs import (
    MAX_APIS,
    CodedBatch,
    Collector,
    ColumnMap,
    LogFile,
    Reject,
    describe_names,
    excerpt,
)
from fpmonitor.plugins import COLLECTORS, load_plugin, plugin_names
from fpmonitor.store.database import Database
from fpmonitor.store.digests import digest_staged_values

LARGE_VALUE_BYTES = 256
_LISTED_REJECTS = 1000
_GENERIC = {"long", "wide"}  # tried last: logs of a known source may look like tables, too
_BLOCK = 1 << 18
_FRAME_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """What became of the records of one log: read = stored + duplicates + rejected.

    `rows_are_visits` where the log names no users, so that each record counts as one.
    """

    source: str
    collector: str
    read: int
    stored: int
    duplicates: int
    rejected: int
    users: int
    apis: int
    seconds: float
    rows_are_visits: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the report as the CLI prints it."""
        members = asdict(self)
        del members["rows_are_visits"]
        return members


def list_batches(database: Database) -> list[BatchReport]:
    """List the reports of the logs that were stored, in the order of ingest."""
    members = [field.name for field in fields(BatchReport)]
    return [
        BatchReport(**dict(zip(members, row, strict=False)))
        for row in database.rows("report/batches")
    ]


def choose_collector(log: LogFile, column_map: ColumnMap, name: str | None = None) -> Collector:
    """Load the collector of a name, or the one that recognises the log.

    Raises
    ------
    InputError
        None recognises it; the message says what was seen.
    """
    if name is not None:
        collector: Collector = load_plugin(COLLECTORS, name)()
        return collector
    for known in sorted(plugin_names(COLLECTORS), key=_GENERIC.__contains__):
        candidate: Collector = load_plugin(COLLECTORS, known)()
        if candidate.recognises(log, column_map):
            return candidate
    raise InputError(
        f"{log.label}: cannot tell what this {log.format} log holds; seen: {_seen(log)}",
        hint=(
            f"a log needs a column {column_map.name_of('user')!r}; name the columns with "
            "--user NAME or --columns MAP.toml"
        ),
    )


def _seen(log: LogFile) -> str:
    if log.format == "jsonl":
        for line in log.head.splitlines():
            with suppress(ValueError, RecursionError):
                record = json.loads(line)
                if isinstance(record, dict):
                    return describe_names([excerpt(name) for name in record])
        return "no line that is a JSON object"
    if log.format == "csv":
        header = log.head.split(b"\n", 1)[0].decode("utf-8", "replace")
        return f"header {masked_text(excerpt(header))!r}"
    return describe_names([name for name, _ in log.parquet_columns])


def ingest(
    database: Database,
    log: LogFile,
    collector: Collector,
    column_map: ColumnMap | None = None,
    *,
    progress: Callable[[str], None] = lambda _stage: None,
) -> BatchReport:
    """Store the observations of one log in one transaction.

    A file whose bytes were stored before adds nothing; its records count as duplicates.

    Raises
    ------
    InputError
        The log cannot be read; nothing of it is stored.
    """
    column_map = column_map or ColumnMap()
    started = time.perf_counter()
    try:
        progress("reading")
        before = log.path.stat()
        with ThreadPoolExecutor(max_workers=1) as beside:
            hashing = beside.submit(_digest, log, collector, column_map, before.st_size)
            if database.rows("ingest/batch_of_source", source=log.label)[0][0]:
                hashing.result()
            if hashing.done() and (
                repeated := _repeated(database, log.label, hashing.result(), started)
            ):
                return repeated
            staged = _staged(database, collector.read(log, column_map))
            digest = hashing.result()
        _check_same_file(log, before)
        batch = _Batch(
            log.label,
            collector.name,
            digest,
            started,
            rows_are_visits=getattr(collector, "rows_are_visits", False),
        )
        return _repeated(database, log.label, digest, started) or _store(
            database, batch, staged, progress
        )
    except (duckdb.Error, OSError) as error:
        raise _unreadable(log, error) from error
    finally:
        database.run("ingest/forget_staged")


def ingest_frame(
    database: Database,
    frame: object,
    column_map: ColumnMap | None = None,
    *,
    name: str = "frame",
    progress: Callable[[str], None] = lambda _stage: None,
) -> BatchReport:
    """Store the observations of a wide frame in one transaction.

    A frame whose content was stored before adds nothing; its records count as duplicates.

    Parameters
    ----------
    database
        Where to store them.
    frame
        A frame of Polars or pandas, or anything that has the Arrow C stream.
    column_map
        Which columns hold the user, the time and the source; all others are APIs.
    name
        What the batch is called.
    progress
        Called with each stage.

    Raises
    ------
    InputError
        The frame cannot be read; nothing of it is stored.
    """
    column_map = column_map or ColumnMap()
    started = time.perf_counter()
    try:
        progress("reading")
        table = as_polars(frame)
        batch = _Batch(name, "frame", _digest_of_frame(table, column_map), started)
        if repeated := _repeated(database, name, batch.digest, started):
            return repeated
        staged = _staged(database, WideCollector().read_frame(table, name, column_map))
        return _store(database, batch, staged, progress)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{name}: cannot be read ({excerpt(str(error))})") from error
    finally:
        database.run("ingest/forget_staged")


def _digest_of_frame(frame: pl.DataFrame, column_map: ColumnMap) -> str:
    digest = hashlib.sha256(_reading("frame", column_map))
    for part in frame.iter_slices(_FRAME_ROWS):
        written = io.BytesIO()
        part.write_ipc_stream(written, compat_level=pl.CompatLevel.oldest())
        digest.update(written.getbuffer())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class _Batch:
    """What is known of a log before it is stored."""

    source: str
    collector: str
    digest: str
    started: float
    rows_are_visits: bool = False


@dataclass(frozen=True, slots=True)
class _Staged:
    """A log that was read into the table of staged records.

    `apis` holds the API of each column of codes, and is null for a long log.
    """

    apis: tuple[str, ...] | None
    rejects: Sequence[Reject]


def _repeated(database: Database, source: str, digest: str, started: float) -> BatchReport | None:
    """Report on a log whose bytes were stored before; null for others."""
    known = database.rows("ingest/batch_by_digest", digest=digest)
    if not known:
        return None
    collector, read, users, apis = known[0]
    return BatchReport(
        source=source,
        collector=collector,
        read=read,
        stored=0,
        duplicates=read,
        rejected=0,
        users=users,
        apis=apis,
        seconds=_seconds_since(started),
    )


def _seconds_since(started: float) -> float:
    return round(time.perf_counter() - started, 3)


def _unreadable(log: LogFile, error: Exception) -> InputError:
    hint = "nothing of this file was stored"
    if log.format == "csv" and isinstance(error, duckdb.InvalidInputException):
        hint += "; CSV lines must all end alike, in LF or in CRLF"
    # The first line of a message of DuckDB tells the cause, the others show data.
    reason = excerpt(masked_quotes(str(error).split("\n", 1)[0]))
    return InputError(f"{log.label}: cannot be read ({reason})", hint=hint)


def _check_same_file(log: LogFile, before: os.stat_result) -> None:
    """Check that what was read is what was hashed; a log may grow meanwhile, at its end."""
    now = log.path.stat()
    if now.st_ino != before.st_ino or now.st_size < before.st_size:
        raise InputError(
            f"{log.label}: was replaced or cut while it was read",
            hint="nothing of this file was stored; ingest it again",
        )


def _digest(log: LogFile, collector: Collector, column_map: ColumnMap, size: int) -> str:
    """Digest of the bytes and of how they are read: another column map makes another batch.

    Only the bytes that were there at first count: a digest of lines that came too late to be
    stored would keep them from ever being stored.
    """
    digest = hashlib.sha256(_reading(collector.name, column_map))
    block = bytearray(_BLOCK)
    with log.path.open("rb", buffering=0) as file:
        while read := file.readinto(memoryview(block)[:size]):
            digest.update(memoryview(block)[:read])
            size -= read
    return digest.hexdigest()


def _reading(collector: str, column_map: ColumnMap) -> bytes:
    reading = [
        collector,
        sorted(column_map.columns.items()),
        sorted(column_map.ignore),
        column_map.null,
    ]
    return json.dumps(reading).encode()


def _staged(database: Database, batches: Iterator[CodedBatch]) -> _Staged:
    """Read a log into the tables of staged records and of what their codes stand for."""
    rejects: list[Reject] = []
    apis: tuple[str, ...] | None = ()
    width = 0
    database.run("ingest/create_staged")
    database.run("ingest/create_raw_value")
    for batch in batches:
        apis = batch.apis
        for column in batch.codes.columns[width:]:
            database.run("ingest/add_code_column", fragments={"column": column})
        width = batch.codes.width
        _stage(database, batch)
        if len(rejects) < _LISTED_REJECTS:
            rejects += _rejects_of(database, batch)
    if database.rows("ingest/count_problems")[0][0]:
        for place in range(width):
            fragments = {"column": f"c{place}"}
            database.run("ingest/drop_unused_values", fragments=fragments, place=place)
    return _Staged(apis, rejects[:_LISTED_REJECTS])


def _stage(database: Database, batch: CodedBatch) -> None:
    with database.frame("batch_rows", batch.rows.hstack(batch.codes)):
        database.run(
            "ingest/stage",
            fragments={"columns": ", ".join(batch.codes.columns)},
            key=database.meta("user_key"),
        )
    with database.frame("batch_values", batch.values):
        database.run("ingest/add_raw_values", json=batch.values_are_json)


def _rejects_of(database: Database, batch: CodedBatch) -> list[Reject]:
    """Rejects among the records that were staged last, in the order of their lines."""
    problems = dict(database.rows("ingest/problem_rows", records=batch.rows.height))
    places = batch.locate(list(problems)) if problems else []
    return sorted(
        (
            Reject(line, reason, masked_text(excerpt(text)))
            for (line, text), reason in zip(places, problems.values(), strict=True)
        ),
        key=lambda reject: reject.line,
    )


def _store(
    database: Database, batch: _Batch, staged: _Staged, progress: Callable[[str], None]
) -> BatchReport:
    with database.transaction():
        apis = _number_apis(database, batch.source, staged)
        progress("coding values")
        _number_values(database)
        progress("storing")
        number = database.rows("ingest/next_batch_id")[0][0]
        _store_observations(database, staged, apis, number)
        read, problems, stored, users = database.rows("ingest/count_records")[0]
        report = BatchReport(
            source=batch.source,
            collector=batch.collector,
            read=read,
            stored=stored,
            duplicates=read - problems - stored,
            rejected=problems,
            users=users,
            apis=len(apis),
            seconds=_seconds_since(batch.started),
            rows_are_visits=batch.rows_are_visits,
        )
        database.run(
            "ingest/add_batch",
            batch=number,
            digest=batch.digest,
            ingested_at=datetime.now(UTC).replace(tzinfo=None),
            **report.to_json(),
        )
        database.run(
            "ingest/add_rejects",
            batch=number,
            lines=[reject.line for reject in staged.rejects],
            reasons=[reject.reason for reject in staged.rejects],
            excerpts=[reject.excerpt for reject in staged.rejects],
        )
    return report


def _number_apis(database: Database, source: str, staged: _Staged) -> dict[str, int]:
    names = (
        list(staged.apis)
        if staged.apis is not None
        else [row[0] for row in database.rows("ingest/staged_api_names", most=MAX_APIS + 1)]
    )
    database.run("ingest/add_apis", names=names)
    if database.rows("ingest/count_apis")[0][0] > MAX_APIS:
        raise InputError(
            f"{source}: more than {MAX_APIS:,} APIs in one database",
            hint="nothing of this file was stored; does it name APIs where values should be?",
        )
    return dict(database.rows("ingest/api_ids", names=names))


def _number_values(database: Database) -> None:
    database.run("ingest/read_values")
    nested = [row[0] for row in database.rows("ingest/nested_values")]
    database.run(
        "ingest/canonical_values",
        large=LARGE_VALUE_BYTES,
        texts=nested,
        canonical=[canonical_json(text) for text in nested],
    )
    digest_staged_values(database)
    database.run("ingest/add_values")
    database.run("ingest/code_values")


def canonical_json(text: str) -> str:
    """Return a JSON object or array with sorted members and no white space; other text as it is."""
    try:
        canonical = json.dumps(
            json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        canonical.encode()  # half of a character, escaped in the text, cannot be stored
    except (ValueError, RecursionError):
        return text
    return canonical


def _store_observations(
    database: Database, staged: _Staged, apis: Mapping[str, int], batch: int
) -> None:
    wide = staged.apis is not None
    last = database.rows("ingest/last_visit_id")[0][0]
    database.run("ingest/stage_visits")
    database.run("ingest/stage_users")
    database.run("ingest/add_users")
    database.run("ingest/add_sources")
    database.run("ingest/number_visits", last=last, wide=wide)
    database.run("ingest/add_visits", batch=batch)
    database.run("ingest/find_repeats", wide=wide)
    database.run("ingest/create_kept")
    repeats, known = database.rows("ingest/count_repeats")[0]
    # API by API: neighbouring rows then differ in the visit alone, which packs ten times better.
    for place, api in enumerate(staged.apis if staged.apis is not None else (None,)):
        column = {"column": f"c{place}"}
        if api is not None:
            database.run(
                "ingest/add_fresh_observations",
                fragments=column,
                place=place,
                api=apis[api],
                last=last,
            )
        if repeats:
            database.run("ingest/contest", fragments=column, place=place)
            if known:
                database.run("ingest/drop_stored")
            database.run("ingest/add_kept_rows")
            database.run("ingest/add_kept_observations")
