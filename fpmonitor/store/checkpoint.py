"""Checkpoints that may be cut short at any moment.

DuckDB writes a checkpoint to free blocks, and last the header that names them. Blocks of metadata
are the exception: each holds 64 parts, and one of which a part is free is written again where it
stands, parts that the old header names included. A kill or a power failure within that write leaves
neither the old block nor the new one. So these blocks are copied beside the database before, and
are put back where the header is still the old one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from fpmonitor.errors import StoreError
from fpmonitor.safe_files import beside, read_bytes, sync
from fpmonitor.sql import statement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import duckdb

# That of the file, and two of which the newer counts. DuckDB promises no such places: a test of
# them fails on a version that nobody has looked at.
_HEADERS_BYTES = 3 * 4096
_DIGEST_BYTES = 32
_LOCK = threading.Lock()


class _Before(msgspec.Struct, frozen=True):
    """Headers before a checkpoint, and its blocks of metadata by their place, bytes."""

    headers: bytes
    blocks: dict[int, bytes]


def log_bytes(path: Path) -> int:
    """Count the bytes of what is committed and in no checkpoint yet; 0 for none."""
    return max((log.stat().st_size for log in beside(path, ".wal")), default=0)


def _undo_of(path: Path) -> Path:
    return path.resolve().with_name(f"{path.resolve().name}.undo")


def checkpoint(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Write what is committed into the database file itself.

    The connection must be one that `by_hand_only` was called for.

    Raises:
        StoreError, duckdb.Error: It could not be written; what was committed is in the file and its
            log, as before.
    """
    with _LOCK, _told(path):
        file = _descriptor_of(path)
        if file is None:
            raise StoreError(
                f"{path} is no longer the file that is open",
                hint=f"put it back: what was stored since is in {path}.wal, which fits it alone",
            )
        if _read(path, file) is None:
            _keep(connection, path, file)
        connection.execute("CHECKPOINT")
        _undo_of(path).unlink(missing_ok=True)


def by_hand_only(connection: duckdb.DuckDBPyConnection) -> None:
    """Let DuckDB make no checkpoint by itself, neither for the size of its log nor at the end."""
    connection.execute("SET checkpoint_threshold = '1TB'")
    connection.execute("PRAGMA disable_checkpoint_on_shutdown")


def undo_unfinished(path: Path) -> None:
    """Undo a checkpoint that was cut short; call it before DuckDB opens the file."""
    undo = _undo_of(path)
    with _LOCK, _told(path):
        if not (undo.exists() and path.exists()) or _descriptor_of(path) is not None:
            return
        with path.open("r+b", buffering=0) as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # its holder is at a checkpoint now
                return
            before = _read(path, file.fileno())
            for place, block in before.blocks.items() if before else ():
                os.pwrite(file.fileno(), block, place)
            # In this order: cut short in between, all is put back once more.
            os.fsync(file.fileno())
            undo.unlink(missing_ok=True)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot write beside {path} ({error.strerror})",
            hint="what was stored before is unharmed; free some disk space, and try again",
        ) from error


def _keep(connection: duckdb.DuckDBPyConnection, path: Path, file: int) -> None:
    places = connection.execute(statement("upkeep/metadata_blocks")).fetchall()
    blocks = {
        _HEADERS_BYTES + number * size: os.pread(file, size, _HEADERS_BYTES + number * size)
        for number, size in places
    }
    before = msgspec.msgpack.encode(_Before(os.pread(file, _HEADERS_BYTES, 0), blocks))
    undo = _undo_of(path)
    undo.unlink(missing_ok=True)  # never write through a link that somebody left there
    with os.fdopen(os.open(undo, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as undo_file:
        undo_file.write(hashlib.sha256(before).digest() + before)
        undo_file.flush()
        os.fsync(undo_file.fileno())
    sync(undo.parent)


def _read(path: Path, file: int) -> _Before | None:
    """Read what was kept before a checkpoint of this state of the file; null without any.

    What is not whole was kept for a checkpoint that never began.
    """
    undo = _undo_of(path)
    if not undo.exists():
        return None
    content = read_bytes(undo, "undo file", most=_DIGEST_BYTES + 2 * os.fstat(file).st_size)
    digest, written = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if hashlib.sha256(written).digest() != digest:
        return None
    try:
        before = msgspec.msgpack.decode(written, type=_Before)
    except msgspec.MsgspecError as error:
        raise StoreError(f"{undo} was tampered with", hint="remove it") from error
    return before if before.headers == os.pread(file, _HEADERS_BYTES, 0) else None


def _descriptor_of(path: Path) -> int | None:
    """Return the descriptor by which this process has a file open.

    Closing another one, of whoever's, would give up the lock that DuckDB has on the file.
    """
    wanted = path.stat()
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 (numbers, not paths)
        try:
            found = os.fstat(int(name))
        except OSError:  # that of the listing itself
            continue
        if os.path.samestat(found, wanted):
            return int(name)
    return None
