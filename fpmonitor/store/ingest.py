"""Ingest: one log file, one transaction, stored whole or not at all."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import duckdb

from fpmonitor.collectors.choosing import Recognised, recognised
from fpmonitor.errors import FpmonitorError, InputError, excerpt, reason_of
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.logs.contract import NOT_UTF_8, RECODE, Collector, Refused, Reject, Scan
from fpmonitor.logs.finding import each_log
from fpmonitor.logs.log_file import LogFile
from fpmonitor.masking import masked_quotes, masked_text
from fpmonitor.store.accounts import (
    Judged,
    Staged,
    account_for,
    refuse_asks,
    reject_members,
    set_aside,
)
from fpmonitor.store.batches import BatchReport, add_batches, repeated_batch, seconds_since
from fpmonitor.store.database import Database
from fpmonitor.store.digests import keep_digests_only
from fpmonitor.store.names import say_names
from fpmonitor.store.observations import store_observations
from fpmonitor.store.readings import (
    Marks,
    StoredLog,
    beginning_of,
    check_names_of_rows,
    digested_before,
    logs_that_begin,
    marks_of,
    reading_of,
    stored_beginning,
    with_nulls_as_values,
)
from fpmonitor.store.small_logs import ingest_group, is_small
from fpmonitor.store.staging import code_values, stage_all, stage_users, stage_values
from fpmonitor.unit import VISITOR_RULE, Unit

_TOGETHER = 64  # logs that are stored in one transaction
_LISTED_REJECTS = 1000


def ingest_all(
    database: Database,
    logs: Iterable[Recognised],
    *,
    progress: Callable[[str, str], None] = lambda _source, _stage: None,
) -> Iterator[list[BatchReport]]:
    """Store logs in their order, each as `ingest_log` does; yield what became of each, once stored.

    What their column maps say that columns hold is said of the database, too. Small ones that are
    alike are stored together, which shares most of the cost.

    Raises:
        InputError: A log cannot be read; nothing of it is stored, and all before it were.
    """
    rest, group = iter(logs), list[Recognised]()
    said: dict[str, str] = {}
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
        if not is_over and len(group) < most and is_small(group[-1].log):
            continue
        names = names_said(group)
        if not names.items() <= said.items():
            say_names(database, names)
            said |= names
        parts = 0
        for reports in _in_parts(database, group, progress):
            parts += 1
            yield reports
        # Logs that had to be divided are followed by others of their kind.
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
    """Store files in their order as `ingest_all` does; each is recognised when its turn comes."""
    with each_log(files) as logs:
        if digest_values:
            keep_digests_only(database)
        yield from ingest_all(database, (recognised(log, column_map, collector) for log in logs))


def names_said(logs: Iterable[Recognised]) -> dict[str, str]:
    """Column -> the API that the maps of logs say it holds, by the names that the logs have."""
    return {name: api for one in logs for name, api in one.column_map.apis.items()}


def _in_parts(
    database: Database,
    group: Sequence[Recognised],
    progress: Callable[[str, str], None],
) -> Iterator[list[BatchReport]]:
    """Store logs together, or each half of them."""
    if len(group) == 1:
        [(log, collector, column_map)] = group
        report_progress = partial(progress, log.label)
        yield [ingest_log(database, log, collector, column_map, progress=report_progress)]
    elif group:
        progress(group[0].log.label, "reading")
        if reports := ingest_group(database, group):
            yield reports
            return
        middle = len(group) // 2
        for half in (group[:middle], group[middle:]):
            yield from _in_parts(database, half, progress)


def ingest_log(
    database: Database,
    log: LogFile,
    collector: Collector,
    column_map: ColumnMap | None = None,
    *,
    is_asked: bool = True,
    progress: Callable[[str], None] = lambda _stage: None,
) -> BatchReport:
    """Store the observations of one log in one transaction.

    A file whose bytes were stored before adds nothing; its records count as duplicates. Where
    nobody `is_asked` what a member is, one that only the user can tell of is set aside.

    Raises:
        InputError: The log cannot be read; nothing of it is stored.
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
        marking = partial(marks_of, as_earlier=digested_before(database))
        with ThreadPoolExecutor(max_workers=1) as beside:
            # Digests leave the lock of Python: they are taken while DuckDB reads.
            hashing = beside.submit(marking, log, reading, most, stored_before)
            # Only a log that may be known waits for its digests before it is read.
            if stored_before or database.rows("ingest/batch_of_source", source=log.label)[0][0]:
                marks = hashing.result()
                if repeated := repeated_batch(database, log, marks[-1].digests, started):
                    return repeated
                log, earlier = _continued(log, collector, column_map, marks, stored_before)
                if earlier is not None:
                    column_map, reading = earlier
                    hashing = beside.submit(marking, log, reading, most)
            scan = _staged(database, log, collector, column_map)
            _check_unit(database, log, collector, column_map)
            mark = hashing.result()[-1]
        _check_same_file(log, before)
        if repeated := repeated_batch(database, log, mark.digests, started):
            return repeated
        with database.transaction():
            report = _store(
                *(database, log, collector, scan),
                column_map=column_map,
                mark=mark,
                started=started,
                is_asked=is_asked,
                progress=progress,
            )
            if scan.by_column:  # the log was read until now
                _check_same_file(log, before, may_grow=False)
            return report
    except (duckdb.Error, OSError) as error:
        raise _unreadable(log, error) from error
    finally:
        database.run("ingest/forget_staged")


def _continued(
    log: LogFile,
    collector: Collector,
    column_map: ColumnMap,
    marks: Sequence[Marks],
    stored_before: Sequence[StoredLog],
) -> tuple[LogFile, tuple[ColumnMap, bytes] | None]:
    """Return the log as that whose beginning is stored, and how it was read if otherwise."""
    earlier = with_nulls_as_values(log, column_map)
    read_so = reading_of(log, collector, earlier) if earlier else None
    found = stored_beginning(log, marks, stored_before, read_so)
    if found is None:
        return log, None
    is_other = earlier and read_so and all(found.digest not in mark.digests for mark in marks)
    return (
        replace(log, stored_as=found.origin),
        (earlier, read_so) if is_other and earlier and read_so else None,
    )


def _staged(database: Database, log: LogFile, collector: Collector, column_map: ColumnMap) -> Scan:
    """Stage the log; what its copy lacks is accounted for with what the collector leaves."""
    scan = stage_all(database, collector.scan(log, column_map))
    return replace(scan, not_taken={**log.left_out, **scan.not_taken})


def _check_unit(
    database: Database, log: LogFile, collector: Collector, column_map: ColumnMap
) -> None:
    """Check that the collector tells visitors where they are to count, and rows as they were."""
    unit = unit_of(collector)
    if column_map.visitor and unit != "visitor":
        raise InputError(
            f"{log.label}: {collector.name} logs do not show visitors",
            hint=f"a visitor is {VISITOR_RULE}; omit --visitor",
        )
    if unit == "row":
        check_names_of_rows(database, log)


def unit_of(collector: Collector) -> Unit:
    """Return who a row is, of a log that was scanned."""
    unit: Unit = getattr(collector, "unit", "user")
    return unit


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


def plan_ingest(
    database: Database, log: LogFile, collector: Collector, column_map: ColumnMap
) -> Judged:
    """Tell what the members of a log are, and store nothing; errors as of `ingest_log`."""
    try:
        log.check_expansion()
        scan = _staged(database, log, collector, column_map)
        with database.transaction():
            judged = _judged(database, log, collector, scan, column_map)[1]
            rejects, refused = _rejects_of(database, log, collector)
            [(read, problems)] = database.rows("ingest/count_problems")
        if rejects and problems == read:
            raise _all_rejected(log, read + refused, rejects)
        return replace(judged, rejected=problems + refused, reason=_commonest_reason(rejects)[0])
    except (duckdb.Error, OSError) as error:
        raise _unreadable(log, error) from error
    finally:
        database.run("ingest/forget_staged")


def _judged(
    database: Database, log: LogFile, collector: Collector, scan: Scan, column_map: ColumnMap
) -> tuple[Staged, Judged]:
    staged = replace(stage_values(database, [log], scan), unit=unit_of(collector))
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
    is_asked: bool,
    progress: Callable[[str], None],
) -> BatchReport:
    progress("coding values")
    staged, judged = _judged(database, log, collector, scan, column_map)
    if is_asked:
        refuse_asks(log.label, judged.asks, scan.fields)
    apis = set_aside(database, staged, [judged])
    if scan.apis is None and len(apis) < len(staged.apis):
        reject_members(database, judged)
        stage_users(database)
    code_values(database)
    rejects, refused = _rejects_of(database, log, collector)
    progress("storing")
    batch = database.rows("ingest/next_batch_id")[0][0]
    any_known = store_observations(database, scan, apis, batch)
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
        seconds=seconds_since(started),
        unit=unit_of(collector),
        unordered=database.rows("ingest/unordered_users")[0][0],
        nulls_are_values=column_map.null == "value" and log.format == "jsonl",
        account=judged.account,
        reason=_commonest_reason(rejects)[0],
        corrects={source: visits for source, visits, _ in corrected},
        corrected_users={source: users for source, _, users in corrected},
    )
    if corrected:
        database.run("ingest/take_corrected_visits", batch=batch)
    add_batches(database, batch, [(log, mark, report)])
    if rejects:
        _store_rejects(database, batch, rejects)
    return report


def _commonest_reason(rejects: Sequence[Reject]) -> tuple[str, int]:
    """Return why most records were rejected, and how many; none for no records."""
    return next(iter(Counter(reject.reason for reject in rejects).most_common(1)), ("", 0))


def _all_rejected(log: LogFile, records: int, rejects: Sequence[Reject]) -> InputError:
    """Error of a log of which no record can be stored."""
    reason, times = _commonest_reason(rejects)
    first = next(reject.line for reject in rejects if reject.reason == reason)
    share = "" if times == len(rejects) else "most often "
    return InputError(
        f"{log.label}: every record ({records:,}) was rejected, {share}because: {reason}",
        hint=f"nothing of this file was stored; see its line {first}"
        + (f"; {RECODE}" if reason == NOT_UTF_8 else ""),
    )


def _rejects_of(database: Database, log: LogFile, collector: Collector) -> tuple[list[Reject], int]:
    """List the first rejects of the log; count the records that the reader itself refused."""
    refused = []
    if database.has_table("reject_errors"):
        found = database.rows("ingest/refused_records", listed=_LISTED_REJECTS)
        refused = [Refused(*row) for row in found]
    rows = dict(database.rows("ingest/problem_rows", most=_LISTED_REJECTS))
    listed = collector.locate(log, rows, refused) if rows or refused else []
    # Those of the reader and of the store come one after the other: the lines set the order.
    first = sorted(listed, key=lambda reject: reject.line)[:_LISTED_REJECTS]
    return [replace(one, line=one.line + log.lines_before) for one in first], len(refused)


def _store_rejects(database: Database, batch: int, rejects: Sequence[Reject]) -> None:
    """Keep the first rejects of a log, in masked form."""
    database.run(
        "ingest/add_rejects",
        batch=batch,
        lines=[reject.line for reject in rejects],
        reasons=[reject.reason for reject in rejects],
        excerpts=[masked_text(reject.excerpt) for reject in rejects],
    )
