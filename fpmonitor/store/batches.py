"""What became of each log that was stored: the reports of the batches."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from fpmonitor.account import Account, Member, read_account
from fpmonitor.logs.log_file import LogFile
from fpmonitor.store.database import Database, utc_now
from fpmonitor.store.readings import Marks
from fpmonitor.unit import Unit

_OF_MARKS = ("digest", "content", "bytes", "beginning")
_OF_REPORTS = (
    *("source", "collector", "read", "stored", "duplicates", "rejected", "users", "apis"),
    *("seconds", "unit", "unordered"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """What became of the records of one log: read = stored + duplicates + rejected.

    Records of users who were forgotten count as duplicates: they bring nothing that is stored.
    `unit` says who a row is, null where an earlier version did not; `unordered` counts users with
    rows without a time that tell different values, of which the last counts; `reason` is the
    commonest one for which records were rejected; `corrects` has the number of visits of each
    log stored before of which this one tells other values, `corrected_users` that of their users;
    `nulls_are_values` says that nulls of JSON count as values.
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
    nulls_are_values: bool = False

    @property
    def set_aside(self) -> list[Member]:
        """Members of the log that were not stored."""
        return self.account.set_aside if self.account else []

    def to_json(self) -> dict[str, Any]:
        """Return the report as the CLI prints it."""
        members = asdict(self)
        members["set_aside"] = len(self.set_aside) if self.account else None
        members |= {"account": self.account.to_json() if self.account else None}
        # The command line says these in sentences.
        for name in ("reason", "corrects", "corrected_users", "nulls_are_values"):
            del members[name]
        return members


def add_batches(
    database: Database, first: int, stored: Sequence[tuple[LogFile, Marks, BatchReport]]
) -> None:
    """Record logs that were stored, with numbers from `first` on, and what became of each."""
    logs, marks, reports = zip(*stored, strict=True)
    values: dict[str, Any] = {name: [getattr(mark, name) for mark in marks] for name in _OF_MARKS}
    values |= {name: [getattr(report, name) for report in reports] for name in _OF_REPORTS}
    database.run(
        "ingest/add_batches",
        batch=list(range(first, first + len(logs))),
        origin=[log.origin for log in logs],
        ingested_at=utc_now(),
        account=[report.account and report.account.to_text() for report in reports],
        **values,
    )
    database.run("looks/note_first_names")


def list_batches(database: Database) -> list[BatchReport]:
    """List the reports of the logs that were stored, in the order of ingest."""
    members = [member.name for member in fields(BatchReport)]
    return [
        BatchReport(**dict(zip(members, row, strict=False)), account=read_account(account))
        for *row, account in database.rows("report/batches")
    ]


def repeated_batch(
    database: Database, log: LogFile, digests: Sequence[str], started: float
) -> BatchReport | None:
    """Report on a log whose bytes were stored before; null for others."""
    known = database.rows("ingest/batch_by_digest", digests=digests)
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
        seconds=seconds_since(started),
        unit=unit,
        account=read_account(account),
    )


def seconds_since(started: float) -> float:
    """Return the seconds since a moment of the performance counter."""
    return round(time.perf_counter() - started, 3)
