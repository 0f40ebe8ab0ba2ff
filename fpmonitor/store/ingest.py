"""Ingest: one log file, one transaction, stored whole or not at all."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl

from fpmonitor.errors import InputError
from fpmonitor.logs import ColumnMap, Reject, describe_names, excerpt
from fpmonitor.plugins import COLLECTORS, load_plugin, plugin_names
from fpmonitor.store.sql import quote_name, statement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fpmonitor.logs import Collector, LogFile, Scan
    from fpmonitor.store.database import Database

LARGE_VALUE_BYTES = 256
_LISTED_REJECTS = 1000
_COLUMNS_AT_ONCE = 64
_BLOCK = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """What became of the records of one log: read = stored + duplicates + rejected."""

    source: str
    collector: str
    read: int
    stored: int
    duplicates: int
    rejected: int
    users: int
    apis: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Give the report as the CLI prints it."""
        return asdict(self)


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
    for known in plugin_names(COLLECTORS):
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
            with suppress(ValueError):
                record = json.loads(line)
                return describe_names([excerpt(str(name)) for name in record])
        return "no line that is a JSON object"
    if log.format == "csv":
        header = log.head.split(b"\n", 1)[0].decode("utf-8", "replace")
        return f"header {excerpt(header)!r}"
    return describe_names(list(pl.read_parquet_schema(log.path)))


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
    progress("hashing")
    digest = _digest(log, collector, column_map)
    known = database.rows("ingest/batch_by_digest", digest=digest)
    if known:
        _, _, name, read, users, apis = known[0]
        return BatchReport(
            source=log.label, collector=name, read=read, stored=0, duplicates=read, rejected=0,
            users=users, apis=apis, seconds=round(time.perf_counter() - started, 3),
        )  # fmt: skip
    progress("reading")
    scan = collector.scan(log, column_map)
    try:
        with database.transaction():
            return _store(database, log, collector, scan, digest, started, progress)
    except duckdb.Error as error:
        reason = excerpt(str(error).split("\n", 1)[0])
        raise InputError(
            f"{log.label}: cannot be read ({reason})", hint="nothing of this file was stored"
        ) from error


def _digest(log: LogFile, collector: Collector, column_map: ColumnMap) -> str:
    """Digest of the bytes and of how they are read: another column map makes another batch."""
    digest = hashlib.sha256()
    reading = [
        collector.name,
        sorted(column_map.columns.items()),
        sorted(column_map.ignore),
        column_map.null,
    ]
    digest.update(json.dumps(reading).encode())
    with log.path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _store(
    database: Database,
    log: LogFile,
    collector: Collector,
    scan: Scan,
    digest: str,
    started: float,
    progress: Callable[[str], None],
) -> BatchReport:
    _stage(database, scan)
    rejects, rejected_by_reader = _rejects(database, log, collector)
    apis = _number_apis(database, scan)
    progress("coding values")
    _number_values(database, scan, apis)
    progress("storing")
    batch = database.rows("ingest/next_batch_id")[0][0]
    _number_visits(database, batch, wide=scan.apis is not None)
    database.run("ingest/create_contested")
    if scan.apis is None:
        database.run("ingest/add_contested_long")
    else:
        _add_wide_observations(database, [apis[name] for name in scan.apis])
    database.run("ingest/create_kept")
    if database.rows("ingest/any_known")[0][0]:
        database.run("ingest/drop_stored")
    database.run("ingest/add_kept_observations")
    staged, problems, stored, users = database.rows("ingest/count_records")[0]
    report = BatchReport(
        source=log.label,
        collector=collector.name,
        read=staged + rejected_by_reader,
        stored=stored,
        duplicates=staged - problems - stored,
        rejected=problems + rejected_by_reader,
        users=users,
        apis=len(apis),
        seconds=round(time.perf_counter() - started, 3),
    )
    database.run(
        "ingest/add_batch",
        batch=batch,
        digest=digest,
        ingested_at=datetime.now(UTC).replace(tzinfo=None),
        **report.to_json(),
    )
    if rejects:
        frame = pl.DataFrame(
            [(reject.line, reject.reason, reject.excerpt) for reject in rejects],
            schema={"line": pl.Int64, "reason": pl.String, "excerpt": pl.String},
            orient="row",
        )
        with database.frame("rejects", frame):
            database.run("ingest/add_rejects", batch=batch)
    return report


def _stage(database: Database, scan: Scan) -> None:
    columns = (
        "api, status, value"
        if scan.apis is None
        else ", ".join(f"v{i}" for i in range(len(scan.apis)))
    )
    database.run(
        "ingest/stage",
        fragments={"scan": scan.select, "columns": columns},
        key=database.meta("user_key"),
    )


def _rejects(
    database: Database, log: LogFile, collector: Collector
) -> tuple[list[Reject], int]:
    """List the first rejects of the log; count those that the reader itself refused."""
    refused: list[tuple[int, str, str]] = []
    if database.has_table("reject_errors"):
        refused = database.rows("ingest/reader_rejects")
        database.run("ingest/forget_reader_rejects")
    listed = [Reject(line, reason, excerpt(text)) for line, reason, text in refused]
    problems = dict(database.rows("ingest/problem_rows", most=_LISTED_REJECTS))
    if problems:
        listed.extend(collector.locate(log, problems))
    listed.sort(key=lambda reject: reject.line or 0)
    return listed[:_LISTED_REJECTS], len(refused)


def _number_apis(database: Database, scan: Scan) -> dict[str, int]:
    names = (
        list(scan.apis)
        if scan.apis is not None
        else [row[0] for row in database.rows("ingest/staged_api_names")]
    )
    database.run("ingest/add_apis", names=names)
    return dict(database.rows("ingest/api_ids", names=names))


def _number_values(database: Database, scan: Scan, apis: dict[str, int]) -> None:
    database.run("ingest/create_raw_value")
    if scan.apis is None:
        database.run("ingest/add_raw_values_long")
    else:
        for i, name in enumerate(scan.apis):
            database.run(
                "ingest/add_raw_values_wide",
                fragments={"column": quote_name(f"v{i}")},
                api=apis[name],
            )
    database.run("ingest/read_values", json=scan.values_are_json)
    nested = [row[0] for row in database.rows("ingest/nested_values")]
    frame = pl.DataFrame(
        {"text": nested, "canonical": [canonical_json(text) for text in nested]},
        schema={"text": pl.String, "canonical": pl.String},
    )
    with database.frame("nested", frame):
        database.run("ingest/canonical_values", large=LARGE_VALUE_BYTES)
    database.run("ingest/add_values")
    database.run("ingest/code_values")


def canonical_json(text: str) -> str:
    """Give a JSON object or array with sorted members and no white space; other text as it is."""
    try:
        return json.dumps(
            json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
    except (ValueError, RecursionError):
        return text


def _number_visits(database: Database, batch: int, *, wide: bool) -> None:
    database.run("ingest/add_users")
    database.run("ingest/add_sources")
    database.run("ingest/stage_visits")
    database.run("ingest/add_visits", batch=batch)
    database.run("ingest/stage_record_visits", wide=wide)


def _add_wide_observations(database: Database, api_ids: Sequence[int]) -> None:
    # API by API: neighbouring rows then differ in the visit alone, which packs ten times better.
    for start in range(0, len(api_ids), _COLUMNS_AT_ONCE):
        block = list(enumerate(api_ids))[start : start + _COLUMNS_AT_ONCE]
        columns = ", ".join(f"d{i}.value_id AS a{i}" for i, _ in block)
        joins = "\n".join(
            statement(
                "ingest/code_wide_join", api=str(api), alias=f"d{i}", column=quote_name(f"v{i}")
            )
            for i, api in block
        )
        database.run("ingest/code_wide", fragments={"columns": columns, "joins": joins})
        for i, api in block:
            for name in ("ingest/add_fresh_observations", "ingest/add_contested_wide"):
                database.run(name, fragments={"column": quote_name(f"a{i}")}, api=api)
