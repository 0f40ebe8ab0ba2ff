"""What a watch must remember: the files it has read, and whom it has notified of what."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from fpmonitor.store.names import known_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fpmonitor.logs import ColumnMap
    from fpmonitor.store.database import Database


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
    """A change of the verdict on a decision.

    Attributes
    ----------
    number
        Its number in the database; the same when it is delivered again.
    body
        What is told; its member `id` is the number.
    """

    number: int
    body: Mapping[str, Any]


def reading_of(database: Database, collector: str | None, column_map: ColumnMap) -> str:
    """Digest of all that decides how a log is read: options, and what the database calls APIs."""
    parts = [collector, asdict(column_map), known_names(database)]
    content = json.dumps(parts, sort_keys=True, default=sorted)
    return hashlib.sha256(content.encode()).hexdigest()


def read_files(database: Database, reading: str) -> dict[str, FileState]:
    """Files that were read, or refused while logs were read in this way, by their paths."""
    rows = database.rows("watch/files", reading=reading)
    return {
        path: FileState(size=size, modified=modified, refused=refused)
        for path, size, modified, refused in rows
    }


def remember_file(
    database: Database, path: str, state: FileState, *, reading: str, refusal: str | None = None
) -> None:
    """Record that a file was read, or refused: why, and how logs were read then."""
    database.run(
        "watch/remember_file",
        path=path,
        size=state.size,
        modified=state.modified,
        refusal=refusal and f"{reading} {refusal}",
    )


def stored_data(database: Database) -> str | None:
    """Return a name of the stored data; it changes with each batch, and when users are forgotten.

    None where there is none yet.
    """
    [numbers] = database.rows("watch/stored")
    return "/".join(map(str, numbers)) if numbers[0] else None


def last_checked(database: Database, watched: str) -> str | None:
    """Return the data that were checked last; None where there were none."""
    rows = database.rows("watch/last_data", decision=watched)
    return rows[0][0] if rows else None


def last_verdict(database: Database, watched: str) -> dict[str, Any] | None:
    """Return the verdict on a decision that was noticed last."""
    rows = database.rows("watch/last_verdict", decision=watched)
    return None if not rows else dict(json.loads(rows[0][0]))


def record_check(
    database: Database,
    watched: str,
    *,
    decision: str,
    data: str,
    verdict: Mapping[str, Any],
    body: Mapping[str, Any],
) -> bool:
    """Record that a decision was checked on some data, and a notice if its verdict has changed.

    Parameters
    ----------
    database
        The open database; both are kept, or neither.
    watched, decision
        What is watched, and the digest of its decision.
    data
        Name of the data, as of `stored_data`.
    verdict
        What is compared with the last verdict.
    body
        What a notice tells; the number is added as `id`, the outcome of before as `was`.

    Returns
    -------
    bool
        Whether there is a new notice.
    """
    before = last_verdict(database, watched)
    with database.transaction():
        database.run("watch/remember_data", decision=watched, data=data)
        if before == verdict:
            return False
        number = int(database.rows("watch/next_notice_id")[0][0])
        was = None if before is None else before["outcome"]
        database.run(
            "watch/add_notice",
            notice=number,
            decision=watched,
            verdict=json.dumps(verdict),
            body=json.dumps({"id": number, "decision": decision, "was": was, **body}),
        )
    return True


def undelivered_notices(database: Database, watched: str) -> list[Notice]:
    """Notices whose delivery is not certain, in their order."""
    rows = database.rows("watch/undelivered", decision=watched)
    return [Notice(number=number, body=json.loads(body)) for number, body in rows]


def mark_delivered(database: Database, notice: Notice) -> None:
    """Keep that a notice has been delivered."""
    database.run("watch/delivered", notice=notice.number)
