"""Upkeep of a database: is it sound, forget what should not be kept, leave no trace in the file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from fpmonitor.errors import StoreError
from fpmonitor.store.sql import quote_text

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from fpmonitor.store.database import Database


_DELETIONS = (  # in this order: each looks at what the one before has left
    "upkeep/delete_observations",
    "upkeep/delete_visits",
    "upkeep/delete_users",
    "upkeep/delete_values",
    "upkeep/delete_excerpts",
)


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something that a sound database does not have, and how often it was found."""

    what: str
    found: int


def find_flaws(database: Database) -> list[Flaw]:
    """Look for rows that contradict each other; reads every table.

    Raises
    ------
    StoreError
        A part of the file cannot be read.
    """
    try:
        return [Flaw(what, found) for what, found in database.rows("upkeep/orphans")]
    except duckdb.Error as error:
        reason = " ".join(str(error).split())
        raise StoreError(
            f"{database.path} is damaged ({reason[:160]})", hint="restore a backup"
        ) from error


def forget_before(database: Database, before: datetime) -> int:
    """Forget all visits before a time (UTC without a zone); how many. Compact afterwards."""
    with database.transaction():
        database.run("upkeep/forget_visits_before", before=before)
        return _forget(database)


def forget_user(database: Database, user: str) -> int:
    """Forget all visits of the user with an id; how many. Compact afterwards."""
    with database.transaction():
        database.run("upkeep/forget_visits_of_user", key=database.meta("user_key"), user=user)
        return _forget(database)


def _forget(database: Database) -> int:
    """Delete the visits of the table `forgotten`, and all that only they had."""
    number = int(database.rows("upkeep/count_forgotten")[0][0])
    if number:
        for statement in _DELETIONS:
            database.run(statement)
        for (snapshot,) in database.rows("upkeep/snapshots"):
            database.run("snapshot/drop", fragments={"snapshot": f"snapshot_{snapshot}"})
            database.run("snapshot/forget", snapshot=snapshot)
    return number


def compact(path: Path) -> tuple[int, int]:
    """Write a database anew, without the room of what was deleted; bytes before and after.

    The old file stays until the new one is whole and on disk, and is replaced in one step.

    Raises
    ------
    StoreError
        The database is in use, or cannot be read or written.
    """
    before = path.stat().st_size
    made = path.with_name(f"{path.name}.compacting")
    made.unlink(missing_ok=True)
    try:
        with duckdb.connect() as connection:
            connection.execute(f"ATTACH {quote_text(str(path))} AS old")
            connection.execute(f"ATTACH {quote_text(str(made))} AS new")
            connection.execute("COPY FROM DATABASE old TO new")
            connection.execute("CHECKPOINT new")
            connection.execute("DETACH new")
            connection.execute("DETACH old")
        made.chmod(0o600)
        _sync(made)
        made.replace(path)
    except (duckdb.Error, OSError) as error:
        made.unlink(missing_ok=True)
        reason = " ".join(str(error).split())
        raise StoreError(
            f"{path} cannot be written anew ({reason[:160]})",
            hint="nothing was changed; another program may have it open",
        ) from error
    return before, path.stat().st_size


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
