"""What a watch must remember: the files it has read, and whom it has notified of what."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from fpmonitor.store.names import known_names
from fpmonitor.store.snapshot import naive_utc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.store.database import Database


_BYTES = "///bytes/"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """A file as a watch saw it: bytes, and when it was changed last, nanoseconds.

    `refused` where it could not be read in that state.
    """

    size: int
    modified: int
    refused: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A change of the verdict on a decision."""

    number: int  # Its number in the database; the same when it is delivered again.
    body: Mapping[str, Any]  # What is told; its member `id` is the number.
    details: str | None = None  # File that holds it; null where there is none.


def digest_of_reading(database: Database, collector: str | None, column_map: ColumnMap) -> str:
    """Digest of all that decides how a log is read: options, and what the database calls APIs."""
    parts = [collector, asdict(column_map), known_names(database)]
    # Sets, such as the ignored columns, have another order in each process.
    content = json.dumps(parts, sort_keys=True, default=sorted)
    return hashlib.sha256(content.encode()).hexdigest()


def read_files(database: Database, reading: str) -> dict[str, FileState]:
    """Files that were read, or refused while logs were read in this way, by their paths."""
    rows = database.rows("watch/files", reading=reading)
    return {
        _path_of(text): FileState(size=size, modified=modified, refused=refused)
        for text, size, modified, refused in rows
    }


def remember_files(
    database: Database,
    files: Mapping[str, FileState],
    *,
    reading: str,
    refusal: str | None = None,
) -> None:
    """Record that files were read, or refused: why, and how logs were read then."""
    database.run(
        "watch/remember_files",
        paths=list(map(_text_of, files)),
        sizes=[state.size for state in files.values()],
        modified=[state.modified for state in files.values()],
        refusal=refusal and f"{reading} {refusal}",
    )


def _text_of(path: str) -> str:
    """Return a path as text; one that is no UTF-8 as its bytes, after what begins no path."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return _BYTES + os.fsencode(path).hex()
    return path


def _path_of(text: str) -> str:
    if text.startswith(_BYTES):
        return os.fsdecode(bytes.fromhex(text.removeprefix(_BYTES)))
    return text


def stored_data(database: Database) -> str | None:
    """Return a name of the stored data; it changes with each batch, and when users are forgotten.

    None where there is none yet.
    """
    [parts] = database.rows("watch/stored")
    return "/".join(map(str, parts)) if parts[0] else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredUntil:
    """The last visit and the last log of a look, and when that was stored, UTC without a zone."""

    visit: int
    batch: int
    moment: datetime


def stored_until(database: Database) -> StoredUntil:
    """Return what was stored last."""
    [(visit, batch, moment)] = database.rows("watch/newest")
    return StoredUntil(visit=visit, batch=batch, moment=moment)


def corrected_users(
    database: Database, since: datetime, until: datetime, known: StoredUntil
) -> int:
    """Count users of a window of whom logs that came after what is known have corrected visits."""
    [(users,)] = database.rows("watch/corrected", since=since, until=until, **asdict(known))
    return int(users)


def users_of_the_future(
    database: Database, now: datetime
) -> tuple[int, list[tuple[int, Mapping[str, int]]]]:
    """Count users of visits whose time is more than a day ahead: all, and by host.

    A host has logs whose names differ in numbers alone: its users, and log -> those, most first.
    """
    moment = naive_utc(now + timedelta(days=1))
    [(_, _, users), *counted] = database.rows("watch/future", moment=moment)
    hosts = {host: count for host, log, count in counted if log is None and host is not None}
    logs: dict[str, dict[str, int]] = {host: {} for host in hosts}
    for host, log, count in counted:
        if log is not None:
            logs[host][log] = count
    return users, [(count, logs[host]) for host, count in hosts.items()]


def last_checked(database: Database, watched: str) -> tuple[str | None, str | None]:
    """Return the data that were checked last, and what was known then as JSON; null before."""
    rows = database.rows("watch/last", decision=watched)
    return rows[0] if rows else (None, None)


def record_check(
    database: Database,
    watched: str,
    *,
    decision: str,
    data: str,
    standing: str,
    body: Mapping[str, Any] | None,
) -> None:
    """Record that a decision was checked on some data, and a notice if there is news.

    Args:
        database: The open database; both are kept, or neither.
        watched, decision: What is watched, and the digest of its decision.
        data: Name of the data, as of `stored_data`.
        standing: What is known now, as JSON.
        body: What a notice tells, to which its number is added as `id`; null where there is no
            news.
    """
    with database.transaction():
        database.run("watch/remember", decision=watched, data=data, standing=standing)
        if body is None:
            return
        number = int(database.rows("watch/next_notice_id")[0][0])
        database.run(
            "watch/add_notice",
            notice=number,
            decision=watched,
            verdict=standing,
            body=json.dumps({"id": number, "decision": decision, **body}),
        )


def undelivered_notices(database: Database, watched: str) -> list[Notice]:
    """Notices whose delivery is not certain, in their order."""
    rows = database.rows("watch/undelivered", decision=watched)
    return [Notice(number=number, body=json.loads(body)) for number, body in rows]


def latest_notices(database: Database, list_key: str, *, most: int) -> list[Mapping[str, Any]]:
    """Return what the newest notices on a list tell, however often it was decided, newest first.

    Those of before name no list: what they told may be told again, once.
    """
    found = database.rows("watch/latest", list_key=list_key, most=most)
    return [json.loads(body) for (body,) in found]


def mark_delivered(database: Database, notice: Notice) -> None:
    """Keep that a notice has been delivered."""
    database.run("watch/delivered", notice=notice.number)


def kept_designs(database: Database) -> str:
    """Return what earlier looks kept of designs, as text; empty where that is nothing."""
    rows = database.rows("watch/designs")
    return str(rows[0][0]) if rows else ""


def keep_designs(database: Database, text: str) -> None:
    """Keep designs for the next look."""
    database.run("watch/keep_designs", text=text)
