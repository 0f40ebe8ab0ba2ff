"""Records of a log that were rejected: which, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from fpmonitor.errors import InputError
from fpmonitor.logs.contract import NOT_UTF_8, RECODE, Collector, Refused, Reject
from fpmonitor.masking import masked_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.logs.log_file import LogFile
    from fpmonitor.store.database import Database

_LISTED_REJECTS = 1000


def commonest_reason(rejects: Sequence[Reject]) -> tuple[str, int]:
    """Return why most records were rejected, and how many; none for no records."""
    return next(iter(Counter(reject.reason for reject in rejects).most_common(1)), ("", 0))


def all_rejected(log: LogFile, records: int, rejects: Sequence[Reject]) -> InputError:
    """Error of a log of which no record can be stored."""
    reason, times = commonest_reason(rejects)
    first = next(reject.line for reject in rejects if reject.reason == reason)
    share = "" if times == len(rejects) else "most often "
    return InputError(
        f"{log.label}: every record ({records:,}) was rejected, {share}because: {reason}",
        hint=f"nothing of this file was stored; see its line {first}"
        + (f"; {RECODE}" if reason == NOT_UTF_8 else ""),
    )


def rejects_of(database: Database, log: LogFile, collector: Collector) -> tuple[list[Reject], int]:
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


def store_rejects(database: Database, batch: int, rejects: Sequence[Reject]) -> None:
    """Keep the first rejects of a log, in masked form."""
    database.run(
        "ingest/add_rejects",
        batch=batch,
        lines=[reject.line for reject in rejects],
        reasons=[reject.reason for reject in rejects],
        excerpts=[masked_text(reject.excerpt) for reject in rejects],
    )
