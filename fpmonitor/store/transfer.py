"""Backups and moves: the data of a database as a folder of Parquet files, and back."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import duckdb
import msgspec

from fpmonitor.errors import InputError, SchemaError, StoreError, reason_of
from fpmonitor.safe_files import read_bytes, sync
from fpmonitor.sql import quote_name, quote_path, quote_text
from fpmonitor.store.content import read_content
from fpmonitor.store.database import SCHEMA_VERSION
from fpmonitor.store.files import owner_only
from fpmonitor.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fpmonitor.store.database import Database

FORMAT = "fpmonitor data"
MANIFEST = "manifest.json"
# Every table but those of snapshots and of windows that are kept, which are made anew.
TABLES = (
    "meta",
    "batch",
    "reject",
    "api",
    "value",
    "user",
    "source",
    "visit",
    "observation",
    "demand_batch",
    "demand",
    "demand_reject",
    "checked_list",
    "checked_window",
    "answered_query",
    "watched_file",
    "watched_decision",
    "notice",
    "question",
    "forgotten_user",
    "page_view",
)
_FIRST_TABLES = TABLES[:9]  # those of schema 1; exports of older schemas may lack the others
_PAST_TABLES = frozenset({"certified_check"})  # that they may have
_FIRST_WITH_LOOKS = 10  # schema
_MANIFEST_BYTES = 1_000_000
# In this order: each uses what those before have made.
_MERGE_BATCHES = ("transfer/add_batches", "transfer/add_rejects", "transfer/add_forgotten")
_MERGE_OBSERVATIONS = (
    "transfer/take_visits",
    "transfer/add_users",
    "transfer/add_sources",
    "transfer/number_visits",
    "transfer/add_visits",
    "transfer/add_page_views",
    "transfer/take_observations",
    "transfer/add_apis",
    "transfer/add_values",
    "transfer/number_values",
    "transfer/add_observations",
)
_MERGE_REST = (
    "transfer/number_demand_batches",
    "transfer/add_demand_batches",
    "transfer/add_demand",
    "transfer/add_demand_rejects",
    "transfer/add_forgetting",
    "transfer/add_checked_lists",
    "transfer/add_checked_windows",
    "transfer/add_answers",
    "transfer/add_questions",
)
_SCRATCH = (
    "batch_number",
    "taken_visit",
    "visit_number",
    "taken_observation",
    "value_number",
    "demand_batch_number",
)


class ExportedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of an export: rows of its table, bytes, SHA-256 of the bytes as hexadecimal digits."""

    rows: int
    bytes: int
    sha256: str


class ExportManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an export holds."""

    format: str  # `FORMAT`.
    fpmonitor: str  # Version of the program that wrote it.
    schema: int  # Schema of the database.
    made: str  # When, ISO 8601, UTC.
    digest: str  # Digest of the data, from `read_content`.
    files: dict[str, ExportedFile]  # Table -> its file, which is named after it.


def export_data(database: Database, folder: Path) -> ExportManifest:
    """Write all data of a database into a new folder: whole or not at all.

    The folder holds the key of the user digests: it is as secret as the database, and only its
    owner may read it.

    Raises:
        StoreError: The folder exists already, or cannot be written; the database cannot be read.
    """
    if os.path.lexists(folder):
        raise StoreError(f"{folder} already exists", hint="name a new folder")
    scratch = folder.absolute().with_name(f".{folder.name}.exporting")
    try:
        with owner_only():
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(mode=0o700)
            manifest = _write(database, scratch)
        scratch.rename(folder)
        sync(folder.absolute().parent)
    except (duckdb.Error, OSError) as error:
        raise StoreError(f"cannot write {folder} ({reason_of(error)[:160]})") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return manifest


def _write(database: Database, folder: Path) -> ExportManifest:
    with database.transaction():
        content = read_content(database)
        files = {table: _write_table(database, table, folder) for table in TABLES}
    manifest = ExportManifest(
        format=FORMAT,
        fpmonitor=__version__,
        schema=SCHEMA_VERSION,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        digest=content.digest,
        files=files,
    )
    text = json.dumps(msgspec.to_builtins(manifest), indent=1) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    sync(folder / MANIFEST)
    sync(folder)
    return manifest


def _write_table(database: Database, table: str, folder: Path) -> ExportedFile:
    path = folder / f"{table}.parquet"
    # A path to write to is not a pattern.
    names = {"table": quote_name(table), "file": quote_text(str(path))}
    database.run("transfer/write_table", fragments=names)
    sync(path)
    return ExportedFile(
        rows=_count(database, table), bytes=path.stat().st_size, sha256=_sha256(path)
    )


def _count(database: Database, table: str) -> int:
    rows = database.rows("transfer/count_rows", fragments={"table": quote_name(table)})
    return int(rows[0][0])


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_export(folder: Path) -> ExportManifest:
    """Check that a folder is an export, and that its files are as they were written.

    The digests find mistakes and damage; they do not protect from anyone who can write there.

    Raises:
        InputError: Not an export; of a newer schema; a file is missing, changed, or does not belong
            there.
    """
    manifest = _read_manifest(folder / MANIFEST)
    if manifest.schema > SCHEMA_VERSION:
        raise InputError(
            f"{folder} has schema {manifest.schema}, this fpmonitor reads up to {SCHEMA_VERSION}",
            hint="upgrade fpmonitor",
        )
    _check_names(folder, manifest)
    for table, file in manifest.files.items():
        _check_file(folder / f"{table}.parquet", file)
    return manifest


def _check_names(folder: Path, manifest: ExportManifest) -> None:
    wanted = {f"{table}.parquet" for table in manifest.files}
    required = TABLES if manifest.schema == SCHEMA_VERSION else _FIRST_TABLES
    past = _PAST_TABLES if manifest.schema < SCHEMA_VERSION else frozenset()
    strange = {*manifest.files} - {*TABLES} - past | {*required} - {*manifest.files}
    if strange:
        raise _damaged(folder, f"its manifest is wrong about {min(strange)!r}")
    present = {entry.name for entry in folder.iterdir()} - {MANIFEST}
    for name in sorted(present - wanted):
        raise _damaged(folder, f"{name!r} does not belong there")
    for name in sorted(wanted - present):
        raise _damaged(folder, f"{name!r} is missing")


def _read_manifest(path: Path) -> ExportManifest:
    hint = "name a folder that `fpmonitor db copy-out` has written"
    content = read_bytes(path, "manifest", hint=hint, most=_MANIFEST_BYTES)
    try:
        manifest = msgspec.json.decode(content, type=ExportManifest)
    except (msgspec.DecodeError, ValueError) as error:
        raise _damaged(path.parent, f"{path.name!r} is not a manifest") from error
    if manifest.format != FORMAT:
        raise _damaged(path.parent, f"{path.name!r} is not a manifest of exported data")
    return manifest


def _check_file(path: Path, written: ExportedFile) -> None:
    try:
        # The size before the digest, which reads the file to its end.
        same = (
            path.is_file()
            and path.stat().st_size == written.bytes
            and _sha256(path) == written.sha256
        )
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from error
    if not same:
        raise _damaged(path.parent, f"{path.name!r} is not as it was written")


def _damaged(folder: Path, what: str) -> InputError:
    return InputError(f"{folder} is not an intact export: {what}", hint="nothing was stored")


def import_data(database: Database, folder: Path, manifest: ExportManifest) -> dict[str, int]:
    """Store data of a folder that `read_export` read in one transaction: all that is new, or none.

    An empty database becomes a copy, with the same keys of digests. Another one must have those
    keys, since its users could not be recognised otherwise. Batches that were stored there before
    add nothing: what was forgotten there stays forgotten. Returns new and known batches, and new
    rows.

    Raises:
        InputError: The database has other keys, or the tables do not fit together; nothing is
            stored.
        StoreError: The database cannot be written; nothing is stored.
    """
    with database.transaction(), _shown(database, folder, manifest):
        before = {table: _count(database, table) for table in ("user", "visit", "observation")}
        try:
            fresh, known = _take_all(database, folder, manifest)
        except (duckdb.Error, SchemaError) as error:
            # Its message may show values.
            what = f"its tables do not fit ({type(error).__name__})"
            raise _damaged(folder, what) from error
        after = {table: _count(database, table) - rows for table, rows in before.items()}
    return {"batches": fresh, "known_batches": known} | {
        f"{table}s": rows for table, rows in after.items()
    }


@contextmanager
def _shown(database: Database, folder: Path, manifest: ExportManifest) -> Iterator[None]:
    """Let statements read the files as views `arrived_<table>`."""
    for table in TABLES:
        names = {"arrived": f"arrived_{table}", "table": quote_name(table)}
        if table in manifest.files:
            file = quote_path(folder.absolute() / f"{table}.parquet")
            database.run("transfer/show_file", fragments=names | {"file": file})
        else:
            database.run("transfer/show_nothing", fragments=names)
    # No `finally`: after an error no statement runs, and the transaction takes the views along.
    yield
    for table in TABLES:
        database.run("transfer/hide", fragments={"arrived": f"arrived_{table}"})
    for table in _SCRATCH:
        database.run("transfer/drop_scratch", fragments={"scratch": table})


def _take_all(database: Database, folder: Path, manifest: ExportManifest) -> tuple[int, int]:
    """Store what is new; return the number of new batches and of known ones."""
    here, arrived = _settings(database, "meta"), _settings(database, "arrived_meta")
    is_empty = not any(_count(database, table) for table in TABLES if table != "meta")
    if here.keys() - arrived.keys() or not (is_empty or here == arrived):
        raise InputError(
            f"{database.path} and {folder} have different keys of digests: "
            "their users, or their values, cannot be matched",
            hint="import into a new database, or ingest the logs themselves",
        )
    if not is_empty:
        return _merge(database)
    _copy(database, folder, manifest)
    return _count(database, "batch"), 0


def _settings(database: Database, table: str) -> dict[str, str]:
    return dict(database.rows("transfer/settings", fragments={"table": table}))


def _copy(database: Database, folder: Path, manifest: ExportManifest) -> None:
    for table in TABLES[1:]:
        names = {"table": quote_name(table), "arrived": f"arrived_{table}"}
        database.run("transfer/copy_table", fragments=names)
    database.run("transfer/take_settings")
    if manifest.schema < _FIRST_WITH_LOOKS:
        database.run("transfer/note_old_looks")
    if read_content(database).digest != manifest.digest:
        raise _damaged(folder, "its data are not those that were exported")


def _merge(database: Database) -> tuple[int, int]:
    database.run("transfer/number_batches")
    fresh, known = database.rows("transfer/count_batches")[0]
    for statement in (*_MERGE_BATCHES, *_MERGE_OBSERVATIONS) if fresh else ():
        database.run(statement)
    if fresh:
        database.run("transfer/add_look")
    for statement in _MERGE_REST:
        database.run(statement)
    return fresh, known
