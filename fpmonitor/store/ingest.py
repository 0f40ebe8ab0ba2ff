"""Ingest: one log file, one transaction, stored whole or not at all."""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import partial
from shlex import quote
from typing import Any

import duckdb

from fpmonitor.account import Account, Member, read_account
from fpmonitor.collectors.unfolding import one_record_a_line
from fpmonitor.errors import FpmonitorError, InputError, describe_names, excerpt, reason_of
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.logs.contract import (
    MAX_APIS,
    NOT_UTF_8,
    RECODE,
    ROW,
    Collector,
    Refused,
    Reject,
    Scan,
)
from fpmonitor.logs.finding import each_log
from fpmonitor.logs.log_file import LogFile
from fpmonitor.masking import masked_quotes, masked_text
from fpmonitor.plugins import COLLECTORS, load_plugin, plugin_names
from fpmonitor.sql import statement
from fpmonitor.store.accounts import (
    Judged,
    Staged,
    account_for,
    are_apart,
    refuse_asks,
    reject_members,
    set_aside,
)
from fpmonitor.store.database import Database
from fpmonitor.store.digests import digest_staged_values, keep_digests_only
from fpmonitor.store.names import say_names
from fpmonitor.store.readings import (
    Marks,
    StoredLog,
    beginning_of,
    check_names_of_rows,
    logs_that_begin,
    marks_of,
    reading_of,
    stored_beginning,
)
from fpmonitor.unit import VISITOR_RULE, Unit, holds_requests, refuse_requests
from fpmonitor.vocabulary import known_apis

LARGE_VALUE_BYTES = 256
_LISTED_REJECTS = 1000
_GENERIC = {"long", "wide"}  # tried last: logs of a known source may look like tables, too
_TOGETHER = 64  # logs that are stored in one transaction, and the bytes of such a one
_SMALL_BYTES = 1 << 16
_NAME_OF_USERS = re.compile(
    r"(?i)(?:^|columns |, )"
    r"((?:user|visitor|client|device)[ _-]?(?:id|uuid)|uid|visitor|client)(?=,|$)"
)
_NAME = re.compile(r"[^\W\d][\w .:/#()-]{0,60}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """What became of the records of one log: read = stored + duplicates + rejected.

    Records of users who were forgotten count as duplicates: they bring nothing that is stored.
    `unit` says who a row is, null where an earlier version did not; `unordered` counts users with
    rows without a time that tell different values, of which the last counts; `reason` is the
    commonest one for which records were rejected; `corrects` has the number of visits of each
    log stored before of which this one tells other values, `corrected_users` that of their users.
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
    unit: Unit | None = "user"
    unordered: int = 0
    account: Account | None = None
    reason: str = ""
    corrects: Mapping[str, int] = field(default_factory=dict)
    corrected_users: Mapping[str, int] = field(default_factory=dict)

    @property
    def set_aside(self) -> list[Member]:
        """Members of the log that were not stored."""
        return self.account.set_aside if self.account else []

    def to_json(self) -> dict[str, Any]:
        """Return the report as the CLI prints it."""
        members = asdict(self)
        members["set_aside"] = len(self.set_aside) if self.account else None
        members |= {"account": self.account.to_json() if self.account else None}
        for name in ("reason", "corrects", "corrected_users"):
            del members[name]
        return members


def list_batches(database: Database) -> list[BatchReport]:
    """List the reports of the logs that were stored, in the order of ingest."""
    members = [member.name for member in fields(BatchReport)]
    return [
        BatchReport(**dict(zip(members, row, strict=False)), account=read_account(account))
        for *row, account in database.rows("report/batches")
    ]


def choose_collector(log: LogFile, column_map: ColumnMap, name: str | None = None) -> Collector:
    """Load the collector of a name, or the one that recognises the log.

    Raises
    ------
    InputError
        None recognises it, and the message says what was seen; or its rows are requests.
    """
    if name is not None:
        return _checked(load_plugin(COLLECTORS, name)(), log, column_map)
    for known in sorted(plugin_names(COLLECTORS), key=_GENERIC.__contains__):
        candidate: Collector = load_plugin(COLLECTORS, known)()
        if candidate.recognises(log, column_map):
            return _checked(candidate, log, column_map)
    seen = _seen(log)
    likely = _NAME_OF_USERS.search(seen)
    if holds_requests(_names(log)):
        raise refuse_requests(log.label, "wide", quote(likely[1]) if likely else "COLUMN")
    raise InputError(
        f"{log.label}: cannot tell what this {log.format} log holds; seen: {seen}",
        hint=(
            f"a log needs a column {column_map.name_of('user')!r}; name the columns with "
            f"--user {quote(likely[1]) if likely else 'NAME'} "
            "or --columns MAP.toml, in Python with ColumnMap({'user': NAME}); "
            "--user row where rows are to be counted, --weight NAME where it tells how many"
        ),
    )


def _checked(collector: Collector, log: LogFile, column_map: ColumnMap) -> Collector:
    """Return the collector; refuse requests of which nobody said who a row is, before any log."""
    if hasattr(collector, "unit_of"):
        collector.unit_of(log, column_map)
    return collector


def _seen(log: LogFile) -> str:
    if log.format == "jsonl":
        for line in log.head.splitlines():
            with suppress(ValueError, RecursionError):
                record = json.loads(line)
                if isinstance(record, dict):
                    return describe_names([excerpt(name) for name in record])
        return "no line that is a JSON object"
    if log.format == "csv":
        header, *records = log.head.decode("utf-8-sig", "replace").splitlines()[:100]
        names = list(filter(None, _cells(header)))
        values = {cell for record in records for cell in _cells(record)}
        # A first record in place of a header would show values.
        if all(map(_NAME.fullmatch, names)) and values.isdisjoint(names):
            return f"columns {describe_names(names)}"
        return f"header {masked_text(excerpt(header))!r}"
    return describe_names([name for name, _ in log.parquet_columns])


def _names(log: LogFile) -> list[str]:
    """Names of columns, or of members of the first object, as far as the beginning shows."""
    if log.format == "parquet":
        return [name for name, _ in log.parquet_columns]
    first = next(iter(log.head.splitlines()), b"")
    if log.format == "csv":
        return _cells(first.decode("utf-8-sig", "replace"))
    with suppress(ValueError, RecursionError):
        record = json.loads(first)
        return list(record) if isinstance(record, dict) else []
    return []


def _cells(line: str) -> list[str]:
    return [cell.strip(' "') for cell in re.split(r"[,;\t|]", line)]


def ingest_all(
    database: Database,
    logs: Iterable[tuple[LogFile, Collector]],
    column_map: ColumnMap,
    *,
    progress: Callable[[str, str], None] = lambda _source, _stage: None,
) -> Iterator[list[BatchReport]]:
    """Store logs in their order, each as `ingest` does; yield what became of each, once stored.

    Small ones that are alike are stored together, which shares most of the cost.

    Raises
    ------
    InputError
        A log cannot be read; nothing of it is stored, and all before it were.
    """
    rest, group = iter(logs), list[tuple[LogFile, Collector]]()
    most = _TOGETHER
    refusal: InputError | None = None
    is_over = False
    while not is_over:
        try:
            group.append(next(rest))
        except StopIteration:
            is_over = True
        except InputError as error:  # those before it are stored all the same
            is_over, refusal = True, error
        if not is_over and len(group) < most and _is_small(group[-1][0]):
            continue
        parts = 0
        for reports in _in_parts(database, group, column_map, progress):
            parts += 1
            yield reports
        most = min(2 * most, _TOGETHER) if parts < 2 else max(most // 2, 2)
        group.clear()
    if refusal is not None:
        raise refusal


def ingest_files(
    database: Database,
    files: Iterable[str],
    *,
    collector: str | None = None,
    column_map: ColumnMap,
    digest_values: bool = False,
) -> Generator[list[BatchReport]]:
    """Store files as `ingest_all` does; each is recognised when its turn comes.

    Parameters
    ----------
    database, files
        The open database, and the files in their order.
    collector, column_map, digest_values
        As of `Monitor.ingest`.

    Raises
    ------
    InputError
        The next file cannot be read; nothing of it is stored, and all before it were.
    """
    with each_log(files) as logs:
        lined = (one_record_a_line(log, column_map) for log in logs)
        recognised = ((log, choose_collector(log, column_map, collector)) for log in lined)
        say_names(database, column_map.apis)
        if digest_values:
            keep_digests_only(database)
        yield from ingest_all(database, recognised, column_map)


def _in_parts(
    database: Database,
    group: Sequence[tuple[LogFile, Collector]],
    column_map: ColumnMap,
    progress: Callable[[str, str], None],
) -> Iterator[list[BatchReport]]:
    """Store logs together, or each half of them."""
    if len(group) == 1:
        [(log, collector)] = group
        told = partial(progress, log.label)
        yield [ingest(database, log, collector, column_map, progress=told)]
    elif group:
        progress(group[0][0].label, "reading")
        if reports := _ingest_group(database, group, column_map):
            yield reports
            return
        middle = len(group) // 2
        for half in (group[:middle], group[middle:]):
            yield from _in_parts(database, half, column_map, progress)


def _is_small(log: LogFile) -> bool:
    """Whether a log may be stored with others; one that has vanished is refused alone."""
    try:
        return log.compression == "uncompressed" and log.path.stat().st_size <= _SMALL_BYTES
    except OSError:
        return False


def _ingest_group(
    database: Database, group: Sequence[tuple[LogFile, Collector]], column_map: ColumnMap
) -> list[BatchReport] | None:
    """Store small logs as if one after the other; null where that takes one after the other."""
    started = time.perf_counter()
    logs, collector = [log for log, _ in group], group[0][1]
    if not (all(map(_is_small, logs)) and len({type(one) for _, one in group}) == 1):
        return None
    before = logs_that_begin(database, [beginning_of(log) for log in logs])
    marks: list[Marks] = []
    for log in logs:
        mark = _marks_of_head(log, reading_of(log, collector, column_map), before)
        if mark is None:
            return None
        marks.append(mark)
    digests = [one.digest for one in marks]
    known = {digest for (digest,) in database.rows("ingest/known_digests", digests=digests)}
    fresh: dict[Marks, LogFile] = {}
    for log, mark in zip(logs, marks, strict=True):
        if mark.digest not in known:
            fresh.setdefault(mark, log)
    stored = _ingest_together(database, fresh, collector, column_map, started=started)
    if stored is None:
        return None
    found = (
        stored[mark] if log is fresh.get(mark) else _repeated(database, log, mark.digest, started)
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
        _stage_all(database, scan)
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
    except (_NotApartError, InputError, duckdb.Error, OSError):
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
        marks = marks_of(log, reading, len(log.head), before)
        stored_beginning(log, marks, before)
    except (OSError, InputError):
        return None
    return marks[-1]


class _NotApartError(Exception):
    """What one of several logs brings follows from what another one brings."""


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
        raise _NotApartError
    database.run("ingest/add_log_column")
    database.run("ingest/number_log_rows", first_rows=[0, *itertools.accumulate(rows[:-1])])
    staged = _with_values(database, list(logs.values()), scan)
    accounts = account_for(database, replace(staged, own=own), column_map)
    if not are_apart(accounts):
        raise _NotApartError
    apis = set_aside(database, staged, accounts)
    database.run("ingest/join_logs")
    _code_values(database)
    _store_observations(database, scan, apis, None)
    counted = database.rows("ingest/count_records_of_logs")
    if [read for _, read, _, _ in counted] != rows:
        raise _NotApartError
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
    _add_batches(database, batches, reports)
    return reports


def _records_of(log: LogFile) -> int:
    """Count the lines of a log, of which the head is the whole, that are not blank."""
    return sum(bool(line.strip(b" \t\r\n")) for line in log.head.split(b"\n"))


def _add_batches(
    database: Database, batches: Sequence[int], reports: Mapping[Marks, BatchReport]
) -> None:
    """Record logs that were stored together: their numbers, and by marks what was stored."""
    listed = list(reports.values())
    database.run(
        "ingest/add_batches",
        batches=batches,
        digests=[mark.digest for mark in reports],
        contents=[mark.content for mark in reports],
        bytes=[mark.bytes for mark in reports],
        beginnings=[mark.beginning for mark in reports],
        unordered=[report.unordered for report in listed],
        sources=[report.source for report in listed],
        collector=listed[0].collector,
        ingested_at=datetime.now(UTC).replace(tzinfo=None),
        read=[report.read for report in listed],
        stored=[report.stored for report in listed],
        duplicates=[report.duplicates for report in listed],
        users=[report.users for report in listed],
        apis=[report.apis for report in listed],
        seconds=listed[0].seconds,
        accounts=[report.account and report.account.to_text() for report in listed],
    )


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
        log.check_expansion()
        stored_before = logs_that_begin(database, [beginning_of(log)])
        reading = reading_of(log, collector, column_map)
        most = before.st_size if log.compression == "uncompressed" else None
        with ThreadPoolExecutor(max_workers=1) as beside:
            hashing = beside.submit(marks_of, log, reading, most, stored_before)
            if stored_before or database.rows("ingest/batch_of_source", source=log.label)[0][0]:
                marks = hashing.result()
                repeated = _repeated(database, log, marks[-1].digest, started)
                if repeated:
                    return repeated
                if continued := stored_beginning(log, marks, stored_before):
                    log = replace(log, stored_as=continued.origin)
            scan = collector.scan(log, column_map)
            _stage_all(database, scan)
            _check_unit(database, log, collector, column_map)
            mark = hashing.result()[-1]
        _check_same_file(log, before)
        repeated = _repeated(database, log, mark.digest, started)
        if repeated:
            return repeated
        with database.transaction():
            report = _store(
                database,
                log,
                collector,
                scan,
                column_map=column_map,
                mark=mark,
                started=started,
                progress=progress,
            )
            if scan.by_column:  # the log was read until now
                _check_same_file(log, before, may_grow=False)
            return report
    except (duckdb.Error, OSError) as error:
        raise _unreadable(log, error) from error
    finally:
        database.run("ingest/forget_staged")


def _check_unit(
    database: Database, log: LogFile, collector: Collector, column_map: ColumnMap
) -> None:
    """Check that the collector tells visitors where they are to count, and rows as they were."""
    unit = unit_of(collector)
    if column_map.visitor and unit != "visitor":
        raise InputError(
            f"{log.label}: {collector.name} logs do not tell visitors",
            hint=f"a visitor is {VISITOR_RULE}; leave --visitor away",
        )
    if unit == "row":
        check_names_of_rows(database, log)


def unit_of(collector: Collector) -> Unit:
    """Return who a row is, of a log that was scanned."""
    unit: Unit = getattr(collector, "unit", "user")
    return unit


def _repeated(database: Database, log: LogFile, digest: str, started: float) -> BatchReport | None:
    """Report on a log whose bytes were stored before; null for others."""
    known = database.rows("ingest/batch_by_digest", digest=digest)
    if not known:
        return None
    collector, read, users, apis, unit, account = known[0]
    return BatchReport(
        source=log.label,
        collector=collector,
        read=read,
        stored=0,
        duplicates=read,
        rejected=0,
        users=users,
        apis=apis,
        seconds=_seconds_since(started),
        unit=unit,
        account=read_account(account),
    )


def _seconds_since(started: float) -> float:
    return round(time.perf_counter() - started, 3)


def is_of_the_disk(error: FpmonitorError) -> bool:
    """Whether a log could not be stored for the machine's sake, and not for what it holds."""
    return isinstance(error.__cause__, OSError | duckdb.IOException)


def _unreadable(log: LogFile, error: Exception) -> InputError:
    hint = "nothing of this file was stored"
    if isinstance(error, duckdb.InvalidInputException) and log.format == "csv":
        hint += "; CSV lines must all end alike, in LF or in CRLF"
    if isinstance(error, duckdb.OutOfMemoryException):
        hint += "; divide it into several files"
    # The first line of a message of DuckDB tells the cause, the others show data.
    reason = excerpt(masked_quotes(reason_of(error)))
    return InputError(f"{log.label}: cannot be read ({reason})", hint=hint)


def _check_same_file(log: LogFile, before: os.stat_result, *, may_grow: bool = True) -> None:
    """Check that what was read is what was hashed; a log may grow meanwhile, at its end."""
    now = log.path.stat()
    if (
        now.st_ino != before.st_ino
        or now.st_size < before.st_size
        or (not may_grow and now.st_mtime_ns != before.st_mtime_ns)
    ):
        raise InputError(
            f"{log.label}: was replaced or cut while it was read",
            hint="nothing of this file was stored; ingest it again",
        )


def plan(database: Database, log: LogFile, collector: Collector, column_map: ColumnMap) -> Judged:
    """Tell what the members of a log are, and store nothing; errors as of `ingest`."""
    try:
        log.check_expansion()
        scan = collector.scan(log, column_map)
        _stage_all(database, scan)
        with database.transaction():
            return _judged(database, log, collector, scan, column_map)[1]
    except (duckdb.Error, OSError) as error:
        raise _unreadable(log, error) from error
    finally:
        database.run("ingest/forget_staged")


def _judged(
    database: Database, log: LogFile, collector: Collector, scan: Scan, column_map: ColumnMap
) -> tuple[Staged, Judged]:
    staged = replace(_with_values(database, [log], scan), unit=unit_of(collector))
    [judged] = account_for(database, staged, column_map)
    return staged, judged


def _store(
    database: Database,
    log: LogFile,
    collector: Collector,
    scan: Scan,
    *,
    column_map: ColumnMap,
    mark: Marks,
    started: float,
    progress: Callable[[str], None],
) -> BatchReport:
    progress("coding values")
    staged, judged = _judged(database, log, collector, scan, column_map)
    refuse_asks(log.label, judged.asks, scan.fields)
    apis = set_aside(database, staged, [judged])
    if scan.apis is None and len(apis) < len(staged.apis):
        reject_members(database, judged)
        _stage_users(database)
    _code_values(database)
    rejects, refused = _rejects(database, log, collector)
    progress("storing")
    batch = database.rows("ingest/next_batch_id")[0][0]
    any_known = _store_observations(database, scan, apis, batch)
    read, problems, stored, users = database.rows("ingest/count_records")[0]
    if rejects and problems == read:
        raise _all_rejected(log, read + refused, rejects)
    corrected = database.rows("ingest/corrected_logs") if any_known else []
    report = BatchReport(
        source=log.label,
        collector=collector.name,
        read=read + refused,
        stored=stored,
        duplicates=read - problems - stored,
        rejected=problems + refused,
        users=users,
        apis=len(apis),
        seconds=_seconds_since(started),
        unit=unit_of(collector),
        unordered=database.rows("ingest/unordered_users")[0][0],
        account=judged.account,
        reason=_commonest_reason(rejects)[0],
        corrects={source: visits for source, visits, _ in corrected},
        corrected_users={source: users for source, _, users in corrected},
    )
    if corrected:
        database.run("ingest/take_corrected_visits", batch=batch)
    database.run(
        "ingest/add_batch",
        batch=batch,
        origin=log.origin,
        ingested_at=datetime.now(UTC).replace(tzinfo=None),
        **asdict(mark),
        **report.to_json() | {"account": judged.account.to_text()},
    )
    if rejects:
        _store_rejects(database, batch, rejects)
    return report


def _commonest_reason(rejects: Sequence[Reject]) -> tuple[str, int]:
    """Return why most records were rejected, and how many; none for no records."""
    return next(iter(Counter(reject.reason for reject in rejects).most_common(1)), ("", 0))


def _all_rejected(log: LogFile, records: int, rejects: Sequence[Reject]) -> InputError:
    reason, times = _commonest_reason(rejects)
    first = next(reject.line for reject in rejects if reject.reason == reason)
    share = "" if times == len(rejects) else "most often "
    return InputError(
        f"{log.label}: every record ({records:,}) was rejected, {share}because: {reason}",
        hint=f"nothing of this file was stored; see its line {first}"
        + (f"; {RECODE}" if reason == NOT_UTF_8 else ""),
    )


def _stage_all(database: Database, scan: Scan) -> None:
    _forget_refused(database)
    with database.transaction():
        _stage(database, scan)
        if database.rows("ingest/any_forgotten")[0][0]:
            database.run("ingest/mark_forgotten")


def _forget_refused(database: Database) -> None:
    """Forget which records of an earlier log, stored or not, the reader refused."""
    if database.has_table("reject_errors"):
        database.run("ingest/forget_refused")


def _stage(database: Database, scan: Scan) -> None:
    columns: Sequence[str] = ["api", "status", "value"]
    if scan.apis is not None:
        columns = _value_columns(scan)
    columns = [*columns, *(f"s{place}" for place in range(len(scan.spare)))]
    if scan.by_column:
        columns = [ROW]
    named = "ingest/name_visits" if scan.names_visits else "ingest/name_no_visits"
    fragments = {"scan": statement(named, scan=scan.select), "columns": ", ".join(columns)}
    database.run("ingest/stage", key=database.meta("user_key"), fragments=fragments)


def _values_of(scan: Scan, column: str, *, together: bool = False) -> dict[str, str]:
    """Fragments of statements on one column: its values in records that can be stored, by place.

    A view of all columns would be bound anew for each of them, in seconds where they are many.
    """
    log = "log" if together else "0"
    staged = f"SELECT rowid AS log_row, {log} AS log, {column} FROM staged WHERE problem IS NULL"  # noqa: S608 -- numbered
    return {"column": column, "values": "FROM log_value" if scan.by_column else staged}


def _value_columns(scan: Scan) -> Sequence[str]:
    """Columns of a staged wide log that hold the values of its APIs."""
    return [f"v{i}" for i in range(len(scan.apis or ()))]


def _rejects(database: Database, log: LogFile, collector: Collector) -> tuple[list[Reject], int]:
    """List the first rejects of the log; count the records that the reader itself refused."""
    refused = []
    if database.has_table("reject_errors"):
        found = database.rows("ingest/refused_records", listed=_LISTED_REJECTS)
        refused = [Refused(*row) for row in found]
    rows = dict(database.rows("ingest/problem_rows", most=_LISTED_REJECTS))
    listed = collector.locate(log, rows, refused) if rows or refused else []
    return sorted(listed, key=lambda reject: reject.line)[:_LISTED_REJECTS], len(refused)


def _store_rejects(database: Database, batch: int, rejects: Sequence[Reject]) -> None:
    database.run(
        "ingest/add_rejects",
        batch=batch,
        lines=[reject.line for reject in rejects],
        reasons=[reject.reason for reject in rejects],
        excerpts=[masked_text(reject.excerpt) for reject in rejects],
    )


def _number_apis(database: Database, log: LogFile, scan: Scan) -> dict[str, int]:
    most = MAX_APIS + len(known_apis())
    names = (
        list(scan.apis)
        if scan.apis is not None
        else [row[0] for row in database.rows("ingest/staged_api_names", most=most + 1)]
    )
    database.run("ingest/add_apis", names=names)
    if database.rows("ingest/count_apis", vocabulary=list(known_apis()))[0][0] > MAX_APIS:
        raise InputError(
            f"{log.label}: more than {MAX_APIS:,} APIs in one database",
            hint="nothing of this file was stored; does it name APIs where values should be?",
        )
    return dict(database.rows("ingest/api_ids", names=names))


def _with_values(database: Database, logs: Sequence[LogFile], scan: Scan) -> Staged:
    """Stage the different values of logs whose records are staged."""
    known = frozenset(name for _, name in database.rows("snapshot/apis"))
    apis = _number_apis(database, logs[0], scan)
    _stage_users(database)
    together = len(logs) > 1
    database.run("ingest/create_raw_value")
    numbers = [apis[name] for name in scan.apis or ()]
    if scan.by_column:
        database.run("ingest/find_unusable")
        database.run("ingest/view_values", fragments={"values": scan.select})
    if scan.apis is None:
        database.run("ingest/add_raw_values_long", json=scan.values_are_json)
    else:
        _add_raw_values(database, scan, numbers, together=together)
    database.run("ingest/read_values")
    nested = [row[0] for row in database.rows("ingest/nested_values")]
    database.run(
        "ingest/canonical_values",
        large=LARGE_VALUE_BYTES,
        texts=nested,
        canonical=[canonical_json(text) for text in nested],
    )
    return Staged(
        labels=[log.label for log in logs],
        scan=scan,
        apis=apis,
        known=known,
        values_of=partial(_values_of, scan),
    )


def _stage_users(database: Database) -> None:
    database.run("ingest/stage_visits")
    database.run("ingest/stage_users")


def _code_values(database: Database) -> None:
    """Give numbers to the values that are to be stored."""
    digest_staged_values(database)
    database.run("ingest/add_values")
    database.run("ingest/code_values")


def _add_raw_values(database: Database, scan: Scan, apis: Sequence[int], *, together: bool) -> None:
    for api, column in zip(apis, _value_columns(scan), strict=True):
        database.run(
            "ingest/add_raw_values_wide",
            fragments=_values_of(scan, column, together=together),
            api=api,
            json=scan.values_are_json,
        )


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
    database: Database, scan: Scan, apis: Mapping[str, int], batch: int | None
) -> bool:
    """Store what each visit shows; whether any of the visits was stored before.

    Parameters
    ----------
    database, scan, apis
        The open database, in which the records are staged, and the numbers of the APIs.
    batch
        Number of the log; null for those of `ingest/stage_logs`.

    Raises
    ------
    _NotApartError
        Of several logs, one tells of a visit that another one, or one before, tells of.
    """
    wide = scan.apis is not None
    last = database.rows("ingest/last_visit_id")[0][0]
    database.run("ingest/add_users")
    database.run("ingest/add_sources")
    database.run("ingest/number_visits", last=last, wide=wide)
    if batch is None:
        database.run("ingest/add_visits_of_logs")
    else:
        database.run("ingest/add_visits", batch=batch)
    database.run("ingest/add_page_views")
    database.run("ingest/find_repeats", wide=wide)
    database.run("ingest/create_kept")
    database.run("ingest/create_unordered_visit")
    repeats, known, undated = database.rows("ingest/count_repeats")[0]
    contested = partial(
        _store_contested, database, any_known=bool(known), any_undated=bool(undated)
    )
    if batch is None and any(database.rows("ingest/count_mixed_visits")[0]):
        raise _NotApartError
    if known:
        database.run("ingest/create_corrected_visit")
    if scan.apis is None:
        database.run("ingest/contest_long")
        contested()
        return bool(known)
    # API by API: neighbouring rows then differ in the visit alone, which packs ten times better.
    for name, column in zip(scan.apis, _value_columns(scan), strict=True):
        if name not in apis:
            continue
        value = _values_of(scan, column)
        database.run("ingest/add_fresh_observations", fragments=value, api=apis[name], last=last)
        if repeats:
            database.run("ingest/contest_wide", fragments=value, api=apis[name])
            contested()
    return bool(known)


def _store_contested(database: Database, *, any_known: bool, any_undated: bool) -> None:
    if any_undated:
        database.run("ingest/add_unordered_visits")
    if any_known:
        database.run("ingest/find_corrected")
        database.run("ingest/add_corrected_visits")
        database.run("ingest/drop_stored")
    database.run("ingest/add_kept_rows")
    database.run("ingest/add_kept_observations")
