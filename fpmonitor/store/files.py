"""The file of a database: waiting for it, whose it is, and what DuckDB's errors say about it."""

from __future__ import annotations

import glob
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import duckdb

from fpmonitor.errors import BusyError, SchemaError, StoreError, reason_of
from fpmonitor.safe_files import beside, state_of_file, sync
from fpmonitor.sql import statement

_RETRY_SECONDS = 0.05
_UNFINISHED = ".unfinished"
_HOLDER = re.compile(r"\(PID (\d+)\)")
_UNWRITTEN = re.compile(
    r"No space left|File too large|quota exceeded|Could not write|to offload"
    r"|Read-only file system|Failed to commit: Cannot open"
)
_FILE = re.compile(r'file \\?"([^"\\]+)\\?": ([\w -]+)')
# A tag differs where a block was changed: a file of another key is refused before it is read.
_DAMAGE = re.compile(
    r"Corrupt (?:database|WAL) file|replaying WAL|enough bytes from file|AES tag differs"
)
_LOST = re.compile(r"database has been invalidated")
_WANTS_KEY = re.compile(r"Cannot open encrypted database|is encrypted, but|without a key")
_WRONG_KEY = re.compile(r"Wrong encryption key")
_CLEAR = re.compile(r"is not encrypted")
_NEWER = re.compile(r"read a database file with version number")

Opened = TypeVar("Opened")
# Size and times of files as this process left them, by what `identity_of_file` says of them.
_left: dict[tuple[int, int], tuple[int, int, int]] = {}


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a database that another process holds, and whom to notify.

    Attributes:
        seconds: 0 does not wait.
        tell: Called with one line of text when the wait begins.
    """

    seconds: float = 0.0
    tell: Callable[[str], None] = lambda _text: None


NO_PATIENCE = Patience()


def open_patiently(
    path: Path,
    connect: Callable[[], Opened],
    close: Callable[[Opened], object],
    patience: Patience = NO_PATIENCE,
) -> Opened:
    """Open a database file; while another process holds it, try again until patience ends.

    The file opened is the one that has the name then, not one that `compact` has just replaced.

    Raises:
        BusyError: It was in use the whole time.
        StoreError: It cannot be opened.
    """
    deadline = time.monotonic() + patience.seconds
    is_noted = False
    while True:
        try:
            return _opened(path, connect, close)
        except BusyError as busy:
            if time.monotonic() >= deadline:
                raise
            if not is_noted:
                patience.tell(f"waiting for {path}, in use by {busy.holder}")
                is_noted = True
            time.sleep(_RETRY_SECONDS)


def _opened(path: Path, connect: Callable[[], Opened], close: Callable[[Opened], object]) -> Opened:
    try:
        with owner_only():
            while True:
                before = identity_of_file(path)
                opened = connect()
                # Whoever replaces a file holds it: after this look nobody can.
                if before in {None, identity_of_file(path)}:
                    return opened
                close(opened)
    except duckdb.Error as error:
        reason = reason_of(error)
        if "already attached" in reason:
            raise BusyError(path, "another thread of this program") from error
        if "Could not set lock" in reason:
            found = _HOLDER.search(reason)
            holder = f"process {found[1]}" if found else "another process"
            raise BusyError(path, holder) from error
        raise (
            _trouble_at_opening(path, reason)
            or trouble_with(path, error)
            or StoreError(
                f"cannot open {path} as a database ({reason[:160]})",
                hint="check the path and its permissions, or name another with --db",
            )
        ) from error


def refuse_programs(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Check that a file that was just opened holds base tables only.

    Views, macros and triggers of a file that somebody else made would run with the rights of
    whoever opens it, and could read any file of theirs. So this must be the first question.

    Raises:
        StoreError: It holds something else.
    """
    found = connection.execute(statement("content/programs")).fetchall()
    with suppress(duckdb.CatalogException):  # DuckDB before 2.0 has no triggers
        found += connection.execute(statement("content/triggers")).fetchall()
    if found:
        kind, name = min(found)
        raise StoreError(
            f"{path} was tampered with: it holds the {kind} {name!r}, and fpmonitor makes none",
            hint="drop it if it is yours; else restore a backup, or ingest the logs anew",
        )


def remember(path: Path) -> None:
    """Note how a file that holds no programs looks now that this process has closed it."""
    state = _state_of(path)
    if state is not None:
        identity, looks = state
        _left[identity] = looks


def is_as_left(path: Path) -> bool:
    """Whether a file is what `remember` saw, so that nobody can have put programs into it since."""
    state = _state_of(path)
    return state is not None and _left.get(state[0]) == state[1]


def _state_of(path: Path) -> tuple[tuple[int, int], tuple[int, int, int]] | None:
    """Identity, size and times of a file; null where its log holds more than the file."""
    try:
        status = path.stat()
    except OSError:
        return None
    if beside(path, ".wal"):
        return None
    looks = status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return (status.st_dev, status.st_ino), looks


def state_of_database(path: Path) -> tuple[tuple[int, ...] | None, ...]:
    """Say what changes when a database does."""
    # What was committed may still be in the log alone, and another file may have the old one's
    # size and time, but not its inode.
    return tuple(map(state_of_file, (path, *beside(path, ".wal"))))


def identity_of_file(path: Path) -> tuple[int, int] | None:
    """Return the identity of a file, whatever its name; null without a file.

    Raises:
        StoreError: Its folder cannot be read.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(
            f"cannot open {path} ({error.strerror})", hint="check its folder and its permissions"
        ) from error
    return status.st_dev, status.st_ino


def trouble_with(path: Path, error: duckdb.Error) -> StoreError | None:
    """Explain an error of DuckDB about a database; null where its file is not to blame."""
    reason = reason_of(error)
    if _UNWRITTEN.search(reason):
        of_file = _FILE.search(reason)
        what = f"{of_file[1]} ({of_file[2]})" if of_file else f"({reason[-160:]})"
        return StoreError(
            f"cannot write {what}",
            hint="what was stored before is unharmed; "
            "free some disk space, or check its permissions, and try again",
        )
    if _DAMAGE.search(reason):
        of_log = "replaying WAL" in reason
        aside = f"move {path}.wal away to continue without what it holds, or " if of_log else ""
        return StoreError(
            f"{path} is damaged ({reason[:160]})",
            hint=f"{aside}restore a backup with `fpmonitor db copy-in FOLDER --db NEW.duckdb`, "
            "or ingest its logs into a new database",
        )
    if isinstance(error, duckdb.BinderException | duckdb.CatalogException):
        return SchemaError(
            f"{path} lacks a part of its schema ({reason[:160]})",
            hint="another program changed it; restore a backup, or ingest the logs anew",
        )
    if _LOST.search(reason):
        return StoreError(
            f"{path} was lost while it was in use ({reason[:160]})",
            hint="try again; `fpmonitor db verify` checks whether it is sound",
        )
    return None


def _trouble_at_opening(path: Path, reason: str) -> StoreError | None:
    if _NEWER.search(reason):
        return StoreError(
            f"{path} was written by another version of DuckDB than {duckdb.__version__}",
            hint="install that version; or run `fpmonitor db copy-out FOLDER` with it, and here "
            "`fpmonitor db copy-in FOLDER --db NEW.duckdb`",
        )
    if _WANTS_KEY.search(reason):
        return StoreError(
            f"{path} is encrypted", hint="name its key: `fpmonitor --key-file FILE COMMAND ...`"
        )
    if _WRONG_KEY.search(reason):
        return StoreError(
            f"{path} is encrypted with another key", hint="name its own key file with --key-file"
        )
    if _CLEAR.search(reason):
        return StoreError(
            f"{path} is not encrypted",
            hint="omit --key-file; or make an encrypted copy: `fpmonitor db copy-out FOLDER`"
            ", then `fpmonitor --key-file FILE db copy-in FOLDER --db NEW.duckdb`",
        )
    return None


class _OwnerOnly:
    """The umask of the process while any of its threads creates files for its owner only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0

    def enter(self) -> None:
        with self._lock:
            if self._users == 0:
                self._before = os.umask(0o077)
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                os.umask(self._before)


_MASK = _OwnerOnly()


@contextmanager
def owner_only() -> Iterator[None]:
    """Give mode 0600 to files that the block creates.

    DuckDB makes the log beside a database, and the files it spills to, when a statement runs.
    """
    _MASK.enter()
    try:
        yield
    finally:
        _MASK.leave()


def spill_folder(path: Path) -> Path:
    """Return the folder that DuckDB spills to while it has a database open."""
    return path.with_name(f"{path.name}.tmp")


def make_file(path: Path, make: Callable[[Path], object]) -> bool:
    """Make a file under another name and give it its own once it is whole; return whether it did.

    A maker that is killed thus leaves no half-made database under the name. Where another process
    is faster, its file stays.
    """
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}{_UNFINISHED}")
    try:
        make(unfinished)
        # Fails where another process was faster, or where a file system has no links: there
        # DuckDB makes the file in place.
        with suppress(OSError):
            os.link(unfinished, path)
            sync(path.absolute().parent)
            return True
        return False
    finally:
        unfinished.unlink(missing_ok=True)


def remove_spills(path: Path) -> None:
    """Remove what killed processes left behind; only the holder of the database can.

    DuckDB itself removes spills only when it spills again, and the files hold values of users.
    """
    for unfinished in path.parent.glob(f"{glob.escape(path.name)}.*{_UNFINISHED}"):
        unfinished.unlink(missing_ok=True)
    own = f"duckdb_temp_{os.getpid()}_"
    folder = spill_folder(path)
    for spill in folder.glob("duckdb_temp_*"):
        if not spill.name.startswith(own):
            spill.unlink(missing_ok=True)
    with suppress(OSError):  # where nothing is left
        folder.rmdir()
