"""Write-ahead spool: what was accepted is on disk before the answer leaves.

Records are appended to one open segment per kind. All requests that wait together share one
`fsync`, and are answered after it. A segment that is closed gets a name of its own and is stored as
one log: the database takes a file once, so a segment that is stored and not yet deleted adds
nothing when the service starts again. A line that a crash cut short was never answered, and is cut
off. Records that the database refuses are kept in `refused/`.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import secrets
import shutil
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Literal, get_args

from fpmonitor.errors import InputError, StoreError
from fpmonitor.safe_files import sync, write_bytes
from fpmonitor.serve.group_commit import GroupCommit

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Kind = Literal["observations", "fingerprintjs", "reports"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_ENDING = "jsonl"
_OPEN = "open"
_TAIL_BYTES = 1 << 16
_GROUP_BYTES = 64_000_000
_PROBE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class _Lines:
    kind: Kind
    data: bytes


class Spool:
    """The folder of accepted records.

    It is created with mode 0700 if it does not exist, and belongs to one service until `close`;
    what a crash left in it is recovered.

    Raises
    ------
    StoreError
        Another service uses it, or it cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held = _locked(folder)
        self.close = weakref.finalize(self, os.close, self._held)
        self._queue = GroupCommit(
            self._commit, size=lambda lines: len(lines.data), most_bytes=_GROUP_BYTES
        )
        self._lock = asyncio.Lock()
        self._open: dict[Kind, int] = {}
        self._failing = False
        self._is_robbed = False
        for kind in KINDS:
            self._recover(kind)
        shutil.rmtree(self._parts, ignore_errors=True)
        for unfinished in self._refused.glob(".*"):  # else they would count for ever
            unfinished.unlink()
        self._queued_bytes = 0
        self._kept_bytes = _size(self.ready())
        self._refused_bytes = _size(self._refused.glob("*"))

    @property
    def waiting_bytes(self) -> int:
        """Bytes that are not in the database yet."""
        return self._queued_bytes + self._kept_bytes

    @property
    def refused_bytes(self) -> int:
        """Bytes of records that the database refuses."""
        return self._refused_bytes

    @property
    def is_failing(self) -> bool:
        """Whether records cannot be kept, or some that were acknowledged are there no more.

        The former: since the last ones nothing could be written, or the folder is another one.
        """
        return self._failing or self._is_robbed or not self._is_there()

    @property
    def free_bytes(self) -> int:
        """Bytes that others than root may still write on the disk."""
        disk = os.statvfs(self._held)
        return disk.f_bavail * disk.f_frsize

    @property
    def _refused(self) -> Path:
        return self.folder / "refused"

    @property
    def _parts(self) -> Path:
        return self.folder / "parts"

    def _is_there(self) -> bool:
        """Whether the folder is still the one that is locked."""
        try:
            return os.path.samestat(self.folder.stat(), os.fstat(self._held))
        except OSError:
            return False

    def _path(self, kind: Kind, name: str) -> Path:
        return self.folder / f"{name}.{kind}.{_ENDING}"

    def _recover(self, kind: Kind) -> None:
        path = self._path(kind, _OPEN)
        if not path.exists():
            return
        _cut_torn_line(path)
        if path.stat().st_size:
            path.replace(self._path(kind, _segment_name()))
        else:
            path.unlink()

    def ready(self) -> list[Path]:
        """List the closed segments, the oldest first."""
        found = self.folder.glob(f"[0-9]*.{_ENDING}")
        return sorted(path for path in found if not path.name.startswith(_OPEN))

    async def append(self, kind: Kind, data: bytes) -> None:
        """Append whole lines; returns when they are on disk.

        Raises
        ------
        OSError
            They could not be written; nothing of them counts.
        """
        self._queued_bytes += len(data)
        try:
            await self._queue.put(_Lines(kind, data))
        finally:
            self._queued_bytes -= len(data)

    async def run(self) -> None:
        """Write what waits, in groups, until cancelled."""
        await self._queue.run()

    async def write_waiting(self) -> None:
        """Write all that waits now, and answer it."""
        await self._queue.write_waiting()

    async def _commit(self, group: list[_Lines]) -> list[None]:
        async with self._lock:
            try:
                await asyncio.to_thread(self._write, group)
            except OSError:
                self._failing = True
                raise
            self._kept_bytes += sum(len(one.data) for one in group)
        self._failing = False
        return [None] * len(group)

    def _write(self, group: list[_Lines]) -> None:
        data = {kind: [one.data for one in group if one.kind == kind] for kind in KINDS}
        written = {kind: b"".join(parts) for kind, parts in data.items() if parts}
        files = {kind: self._descriptor(kind) for kind in written}
        found = {file: os.fstat(file) for file in files.values()}
        if not self._is_there() or not all(status.st_nlink for status in found.values()):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        try:
            for kind, block in written.items():
                _write_all(files[kind], block)
                os.fdatasync(files[kind])
        except OSError:
            for file, status in found.items():
                os.ftruncate(file, status.st_size)  # what was not answered must not be stored
            raise

    def _descriptor(self, kind: Kind) -> int:
        if kind not in self._open:
            path = self._path(kind, _OPEN)
            self._open[kind] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            sync(self.folder)
        return self._open[kind]

    async def close_segments(self) -> list[Path]:
        """Close the open segments; return all closed ones, the oldest first.

        What was refused is counted again: somebody may have moved it away. So is what waits, which
        nobody may.
        """
        async with self._lock:
            return await asyncio.to_thread(self._close_segments)

    def _close_segments(self) -> list[Path]:
        for kind in KINDS:
            path = self._path(kind, _OPEN)
            if path.exists():  # else there is none, or somebody has removed it
                path.replace(self._path(kind, _segment_name()))
            if kind in self._open:
                os.close(self._open.pop(kind))
        sync(self.folder)
        kept, self._kept_bytes = self._kept_bytes, _size(self.ready())
        self._is_robbed = self._is_robbed or self._kept_bytes < kept
        self._refused_bytes = _size(self._refused.glob("*"))
        if self._failing:
            self._probe()
        return self.ready()

    def _probe(self) -> None:
        """Try whether the disk takes bytes again: where nobody sends any, nothing else tells."""
        path = self.folder / "probe"
        with suppress(InputError):
            write_bytes(path, [bytes(_PROBE_BYTES)], mode=0o600)
            path.unlink()
            self._failing = False

    def halves(self, segment: Path) -> list[Path]:
        """Copy a segment of several records into two; a single record has no halves.

        They are the same each time, so that one that was stored before a crash adds nothing.
        """
        self._parts.mkdir(mode=0o700, exist_ok=True)
        name, _, ending = segment.name.partition(".")
        paths = [self._parts / f"{name}-{part}.{ending}" for part in (1, 2)]
        with segment.open("rb") as lines, paths[0].open("wb") as one, paths[1].open("wb") as two:
            records = sum(1 for _ in lines)
            lines.seek(0)
            one.writelines(islice(lines, records // 2))
            two.writelines(lines)
        return paths if records > 1 else []

    def forget(self, segment: Path, refused: Iterable[bytes] = ()) -> None:
        """Delete a segment that is stored, but for the records that the database refuses."""
        kept = b"".join(refused)
        if kept:
            self._refused.mkdir(mode=0o700, exist_ok=True)
            write_bytes(self._refused / segment.name, [kept], mode=0o600)
            self._refused_bytes += len(kept)
        self._kept_bytes -= segment.stat().st_size
        segment.unlink()
        shutil.rmtree(self._parts, ignore_errors=True)


def _locked(folder: Path) -> int:
    """Make a folder and lock it; return the descriptor that holds the lock."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync(folder.absolute().parent)
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise StoreError(f"spool {folder}: {error.strerror}", hint="name another folder") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise StoreError(
            f"spool {folder}: in use by another service, or cannot be locked ({error.strerror})",
            hint="stop the other one, or name another folder as `spool` in the settings",
        ) from error
    return descriptor


def _size(files: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in files)


def kind_of(segment: Path) -> Kind:
    """Kind of the records of a segment."""
    name = segment.name.split(".")[1]
    return next(kind for kind in KINDS if kind == name)


def _segment_name() -> str:
    """Name that sorts by time and that no other segment has."""
    return f"{time.time_ns():020d}-{secrets.token_hex(4)}"


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _cut_torn_line(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        end = size
        while end:
            start = max(0, end - _TAIL_BYTES)
            file.seek(start)
            place = file.read(end - start).rfind(b"\n")
            if place >= 0:
                file.truncate(start + place + 1)
                os.fsync(file.fileno())  # with its new name it must not have another content
                return
            end = start
        file.truncate(0)
