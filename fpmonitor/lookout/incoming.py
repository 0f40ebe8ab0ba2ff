"""Logs that arrive in a folder: which are new, and which were read."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fpmonitor.errors import InputError
from fpmonitor.export.exporter import printable
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.logs.finding import is_log
from fpmonitor.store.files import identity_of_file
from fpmonitor.store.ingest import ingest_files
from fpmonitor.store.watching import (
    FileState,
    digest_of_reading,
    read_files,
    remember_files,
)

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable

    from fpmonitor.lookout.settings import WatchSettings
    from fpmonitor.monitor import Monitor
    from fpmonitor.store.batches import BatchReport
    from fpmonitor.store.database import Database

_UNKNOWN_SIZE = -1


class Incoming:
    """The logs of a folder, and what the database knows of them.

    Args:
        note: Called with remarks: files read or refused.
        on_other: Called where another database is in the place of the one before.

    Raises:
        InputError: The folder does not exist.
    """

    def __init__(
        self,
        settings: WatchSettings,
        *,
        note: Callable[[str], None],
        on_other: Callable[[], None],
    ) -> None:
        self.settings, self._note, self._on_other = settings, note, on_other
        self.seen: dict[str, tuple[FileState, float]] = {}
        self.corrected: set[str] = set()  # logs, of k users or more, since the last check
        self._known: dict[str, FileState] | None = None
        self._file: tuple[int, int] | None = None  # of the database that knows them
        self._key: str | None = None
        self._column_map = ColumnMap()
        self._reading = ""
        self._require_folder()

    @property
    def waiting(self) -> bool:
        """Whether there are files that may still be written to."""
        known = self._known or {}
        return any(known.get(path) != state for path, (state, _) in self.seen.items())

    @property
    def refused(self) -> list[str]:
        """Files in the folder that could not be read, as they can be printed."""
        known = self._known or {}
        refused = [path for path in sorted(self.seen) if path in known and known[path].refused]
        names = (str(Path(path).relative_to(self.settings.folder)) for path in refused)
        return list(map(printable, names))

    def _require_folder(self) -> None:
        folder = self.settings.folder
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder")
        if not _is_readable(folder):
            raise InputError(f"{folder}: cannot be read", hint="check its permissions")

    def settled(self) -> list[str]:
        """Find logs in the folder that are no longer written to, in the order of their names."""
        self._require_folder()
        now, settle = time.monotonic(), self.settings.settle
        present: dict[str, tuple[FileState, float]] = {}
        settled = []
        for path in sorted(self.settings.folder.rglob("*")):
            try:
                state = _state_of(path)
            except (FileNotFoundError, PermissionError):  # moved away; in a folder that is told
                continue
            if state is None:
                continue
            before, since = self.seen.get(str(path), (state, now))
            since = since if before == state else now
            present[str(path)] = state, since
            # By the time of the file, or by how long it was seen so: one look is enough for old
            # files, and a clock that is ahead holds none back.
            if now - since >= settle or time.time() - state.modified / 1e9 >= settle:
                settled.append(str(path))
        self.seen = present
        return settled

    @property
    def is_recalled(self) -> bool:
        """Whether it is known which files are done, and nothing has changed that.

        Refused ones are not done once logs are read otherwise, and none is in another database.
        """
        known, settings = self._known, self.settings
        return (
            known is not None
            and settings.column_map() == self._column_map
            and identity_of_file(settings.database) == self._file
            and not any(known[path].refused for path in self.seen if path in known)
        )

    def recall(self, database: Database) -> None:
        """Look up which files are done."""
        settings = self.settings
        self._column_map = settings.column_map()
        self._reading = digest_of_reading(database, settings.collector, self._column_map)
        self._known = read_files(database, self._reading)
        self._file, key = identity_of_file(settings.database), database.meta("user_key")
        if self._key not in {None, key}:
            self._note(f"{settings.database} is another database now: what it lacks is read again")
            self._on_other()
        self._key = key

    def is_fresh(self, path: str) -> bool:
        """Whether a file is not read yet as it is now."""
        return (self._known or {}).get(path) != self.seen[path][0]

    def ingest(self, monitor: Monitor, rest: deque[str], *, until: float) -> None:
        """Read files until a moment; one that cannot be read keeps no other from being read."""
        settings = self.settings
        while rest and time.monotonic() < until:
            stored = ingest_files(
                monitor.database,
                tuple(rest),
                collector=settings.collector,
                column_map=replace(
                    self._column_map, expected=frozenset(settings.checked.policy.candidates)
                ),
                digest_values=settings.digest_values,
            )
            try:
                for reports in stored:
                    paths = [rest.popleft() for _ in reports]
                    for path, report in zip(paths, reports, strict=True):
                        self._note_stored(path, report)
                    self._remember(monitor, paths)
                    if time.monotonic() >= until:
                        break
            except InputError as error:
                path = rest.popleft()
                self._note(f"{path}: not read, until it or how logs are read changes: {error}")
                self._remember(monitor, [path], refusal=str(error))
            finally:
                stored.close()

    def _note_stored(self, path: str, report: BatchReport) -> None:
        self._note(f"{path}: {report.stored:,} stored, {report.rejected:,} rejected")
        for source, visits in report.corrects.items():
            self._note(f"{path} corrects {visits:,} visits of {source}")
            if report.corrected_users[source] >= self.settings.decision.policy.k:
                self.corrected.add(printable(Path(source).name))

    def _remember(
        self, monitor: Monitor, paths: Iterable[str], *, refusal: str | None = None
    ) -> None:
        files = {path: self.seen[path][0] for path in paths}
        remember_files(monitor.database, files, reading=self._reading, refusal=refusal)
        known = {} if self._known is None else self._known
        for path, state in files.items():
            known[path] = replace(state, refused=refusal is not None)
        self._known = known


def _state_of(path: Path) -> FileState | None:
    """Return the state of a log, or of a folder that cannot be read; None for all else.

    The size of what cannot be read is not known, so that it is another state once it can.
    """
    if path.name.startswith(".") or not (path.is_dir() or is_log(path)):
        return None
    status, is_readable = path.stat(), _is_readable(path)
    if path.is_dir() and is_readable:
        return None
    size = status.st_size if is_readable else _UNKNOWN_SIZE
    return FileState(size=size, modified=status.st_mtime_ns)


def _is_readable(path: Path) -> bool:
    return os.access(path, os.R_OK | os.X_OK if path.is_dir() else os.R_OK)
