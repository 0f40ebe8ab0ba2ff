"""Maintenance of a database: verify it, forget users, and leave no trace of them in the file."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb

from fpmonitor.duckdb_connection import connect, keyboard_interrupts
from fpmonitor.errors import StoreError, UnknownNameError, reason_of
from fpmonitor.safe_files import sync
from fpmonitor.sql import quote_name
from fpmonitor.store.batches import list_batches
from fpmonitor.store.checkpoint import by_hand_only, checkpoint, undo_unfinished
from fpmonitor.store.checks import doubt_lists
from fpmonitor.store.content import read_content
from fpmonitor.store.database import utc_now
from fpmonitor.store.encryption import attach
from fpmonitor.store.files import (
    NO_PATIENCE,
    Patience,
    open_patiently,
    owner_only,
    refuse_programs,
    spill_folder,
)
from fpmonitor.store.kept_windows import drop_forgotten, look_until_now

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from fpmonitor.store.content import Content
    from fpmonitor.store.database import Database


_DELETIONS = (  # in this order: each looks at what the one before has left
    "upkeep/delete_observations",
    "upkeep/delete_visits",
    "upkeep/delete_page_views",
    "upkeep/delete_users",
    "upkeep/delete_values",
    "upkeep/delete_apis",
    "looks/forget_names",
    "upkeep/delete_excerpts",
)


def verify_database(database: Database) -> tuple[Content, dict[str, int]]:
    """Read every row of a database, its snapshots included, and look for contradictions.

    Returns:
        The content, and how often each contradiction was found: 0 times if sound.

    Raises:
        StoreError: A part of the file cannot be read; it says which table cannot.
    """
    # Before any statement on several of them: an error then names the damaged table.
    for table in database.tables():
        try:
            database.rows("upkeep/read_table", fragments={"table": quote_name(table)})
        except StoreError as error:
            raise StoreError(f"table {table}: {error.message}", hint=error.hint) from error
    content = read_content(database)
    apis = [api for api, _ in database.rows("snapshot/apis")]
    twice = sum(database.rows("upkeep/repeated_observations", api=api)[0][0] for api in apis)
    flaws = dict(database.rows("upkeep/orphans"))
    return content, flaws | {"observations that occur twice": twice}


def would_forget(
    database: Database,
    *,
    before: datetime | None = None,
    user: str | None = None,
    key: str | None = None,
    batch: str | None = None,
) -> tuple[int, int, int, datetime | None, datetime | None]:
    """Tell what the function for one of these would delete; nothing is deleted.

    Returns:
        Visits, their users, all visits, and the first and the last time of those.
    """
    if before is not None:
        database.run("upkeep/forget_visits_before", before=before)
    elif user is not None:
        known = database.meta("user_key")
        database.run("upkeep/forget_visits_of_user", key=known, user=user)
    elif key is not None:
        database.run("upkeep/forget_visits_of_key", key=key)
    else:
        database.run("upkeep/forget_visits_of_batch", source=batch)
    [(visits, users, of_visits, first, last)] = database.rows("upkeep/describe_forgotten")
    return visits, users, of_visits, first, last


def forget_before(database: Database, before: datetime) -> int:
    """Delete all visits before a time (UTC without a zone); return how many. Compact afterwards."""
    with database.transaction():
        database.run("upkeep/forget_visits_before", before=before)
        return _forget(database)


def forget_user(database: Database, user: str) -> int:
    """Delete all visits of the user with an id, and store none again; return how many.

    Compact afterwards. A keyed digest of the id stays.
    """
    key = database.meta("user_key")
    with database.transaction():
        database.run("upkeep/forget_visits_of_user", key=key, user=user)
        database.run("upkeep/keep_out", key=key, user=user)
        return _forget(database, may_return=False)


def let_in(database: Database, user: str) -> None:
    """Let a user who was forgotten be stored again."""
    with database.transaction():
        database.run("upkeep/let_in", key=database.meta("user_key"), user=user)
        doubt_lists(database, first=0, last=utc_now())


def forget_key(database: Database, key: str) -> int:
    """Delete all visits that a write key sent; return how many. Compact afterwards."""
    with database.transaction():
        database.run("upkeep/forget_visits_of_key", key=key)
        return _forget(database)


def forget_batch(database: Database, source: str) -> int:
    """Delete all visits of the logs of a name, as `list_batches` has it; return how many.

    Its file may then be stored again. Compact afterwards.

    Raises:
        UnknownNameError: There is no such log.
    """
    known = {batch.source for batch in list_batches(database)}
    if source not in known:
        raise UnknownNameError("log", source, known)
    with database.transaction():
        database.run("upkeep/forget_visits_of_batch", source=source)
        number = _forget(database)
        database.run("upkeep/delete_rejects_of_batch", source=source)
        database.run("upkeep/delete_batch", source=source)
        _drop_snapshots(database)  # its number may be that of the next log
        return number


def _forget(database: Database, *, may_return: bool = True) -> int:
    """Delete the visits of the table `forgotten`, and all that only they had.

    Users of whom nothing is left may return, as others, unless they are kept out.
    """
    [(number, first, last)] = database.rows("upkeep/count_forgotten")
    if number:
        if may_return:
            doubt_lists(database, first=first, last=last)
        # Before they go: their times tell which windows change.
        drop_forgotten(database)
        for statement in _DELETIONS:
            database.run(statement)
        look_until_now(database)
        database.run("upkeep/fill_gaps")
        _drop_snapshots(database)
    return int(number)


def _drop_snapshots(database: Database) -> None:
    for (snapshot,) in database.rows("upkeep/snapshots"):
        database.run("snapshot/drop", fragments={"snapshot": f"snapshot_{snapshot}"})
        database.run("snapshot/forget", snapshot=snapshot)


def compact_database(
    path: Path, *, key_file: Path | None = None, patience: Patience = NO_PATIENCE
) -> tuple[int, int]:
    """Rewrite a database without the space of deleted data; return the bytes before and after.

    The old file stays until the new one is whole and on disk, and is replaced in one step. Nobody
    else can open it meanwhile. Arguments as for `Database`.

    Raises:
        StoreError: The database is in use, or cannot be read or written.
    """
    before = path.stat().st_size
    made = path.with_name(f"{path.name}.compacting")
    remains = (made, path.with_name(f"{path.name}.compacting.wal"))
    for remain in remains:
        remain.unlink(missing_ok=True)
    try:
        with _attached(path, key_file, patience) as connection, owner_only():
            refuse_programs(connection, path)
            connection.execute("USE old")
            checkpoint(connection, path)  # the log of the old file must not outlive it
            attach(connection, made, "new", key_file)
            connection.execute("COPY FROM DATABASE old TO new")
            connection.execute("CHECKPOINT new")
            connection.execute("DETACH new")
            # On disk before it takes the name: a power failure leaves the old file or this one.
            sync(made)
            made.replace(path)
            sync(path.absolute().parent)
    except (duckdb.Error, OSError) as error:
        for remain in remains:
            remain.unlink(missing_ok=True)
        raise StoreError(
            f"{path} cannot be rewritten ({reason_of(error)[:160]})",
            hint="nothing was changed; another program may have it open",
        ) from error
    return before, path.stat().st_size


@contextmanager
def _attached(
    path: Path, key_file: Path | None, patience: Patience
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Hold a database that no connection of this process has open, under the name `old`."""
    settings: dict[str, str | bool] = {
        "temp_directory": str(spill_folder(path)),
        "temp_file_encryption": key_file is not None,
    }
    with keyboard_interrupts(), connect(":memory:", **settings) as connection:
        by_hand_only(connection)

        def connect_old() -> None:
            undo_unfinished(path)
            attach(connection, path, "old", key_file)

        open_patiently(
            path,
            connect_old,
            lambda _: connection.execute("DETACH old"),
            patience,
        )
        yield connection
