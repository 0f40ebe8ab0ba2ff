"""Write-ahead spool: what was accepted is on disk before the answer leaves.

Frames are appended to one open segment per kind, by a thread that does nothing else. All requests
that wait together share one `fsync`, and are answered after it. A segment that is closed gets a
name of its own and is stored as one log: the database takes a file once, so a segment that is
stored and not yet deleted adds nothing when the service starts again. A frame that a crash cut
short was never answered, and is cut off. What the database refuses is kept in `refused/`.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import math
import os
import secrets
import shutil
import time
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from fpmonitor.errors import InputError, StoreError
from fpmonitor.safe_files import sync, write_bytes
from fpmonitor.serve.frames import (
    ENDING,
    KINDS,
    PARTS,
    REFUSED,
    START_BYTES,
    Content,
    Kind,
    cut_torn_frame,
    frame_of,
    sizes_by_source,
    start_of_segment,
    whole_frames,
    write_all,
)
from fpmonitor.serve.group_commit import GroupCommit

_OPEN = "open"
_GROUP_BYTES = 64_000_000
_PROBE_BYTES = 1 << 16
_FREE_SECONDS = 0.1


# What one request of a source brought, by kind.
_Arrived = tuple[str, Mapping[Kind, bytes]]


class Spool:
    """The folder of accepted records.

    It is created with mode 0700 if it does not exist, and belongs to one service until `close`;
    what a crash left in it is recovered.

    Raises:
        StoreError: Another service uses it, or it cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held = _locked(folder)
        self.close = weakref.finalize(self, os.close, self._held)
        self._queue = GroupCommit(self._commit, size=_size_of, most_bytes=_GROUP_BYTES)
        # Questions may take every thread of the loop: the spool has one that nobody else can have.
        self._writer = ThreadPoolExecutor(1, "fpmonitor-spool")
        self._lock = asyncio.Lock()
        self._open: dict[Kind, int] = {}
        self._free = (0, -math.inf)  # bytes, and until when they are believed
        self._failing = False
        self._is_robbed = False
        self._rejected = False
        for kind in KINDS:
            self._recover(kind)
        self._keep_unread()
        shutil.rmtree(self.folder / PARTS, ignore_errors=True)
        # Files that a kill cut short: in `refused` they would count for ever.
        for pattern in (".probe.*", ".accounts.json.*", f"{REFUSED}/.*"):
            for unfinished in folder.glob(pattern):
                unfinished.unlink()
        self._queued: Counter[str] = Counter()
        self._kept: Counter[str] = Counter()
        self._in_open: dict[Kind, Counter[str]] = {kind: Counter() for kind in KINDS}
        self._in_segment = {one.name: sizes_by_source(one) for one in self.ready()}
        for sizes in self._in_segment.values():
            self._kept += sizes
        self._refused_bytes = _size((self.folder / REFUSED).glob("*"))

    @property
    def waiting_bytes(self) -> int:
        """Bytes that are not in the database yet."""
        return self._queued.total() + self._kept.total()

    def waiting_of(self, source: str) -> int:
        """Bytes of one source that are not in the database yet."""
        return self._queued[source] + self._kept[source]

    @property
    def refused_bytes(self) -> int:
        """Bytes of records that the database refuses."""
        return self._refused_bytes

    @property
    def is_failing(self) -> bool:
        """Whether records cannot be kept, or some that were acknowledged are there no more.

        The former: since the last ones nothing could be written, or the folder is another one. The
        latter: files were removed, or the database rejected what was accepted.
        """
        return self._failing or self._is_robbed or self._rejected or not self._is_there()

    @property
    def free_bytes(self) -> int:
        """Bytes that others than root may still write on the disk, as of a tenth of a second."""
        now = time.monotonic()
        if now > self._free[1]:
            disk = os.statvfs(self._held)
            self._free = disk.f_bavail * disk.f_frsize, now + _FREE_SECONDS
        return self._free[0]

    def _is_there(self) -> bool:
        """Whether the folder is still the one that is locked."""
        try:
            return os.path.samestat(self.folder.stat(), os.fstat(self._held))
        except OSError:
            return False

    def _path(self, kind: Kind, name: str) -> Path:
        return self.folder / f"{name}.{kind}.{ENDING}"

    def _recover(self, kind: Kind) -> None:
        path = self._path(kind, _OPEN)
        if not path.exists():
            return
        rest = cut_torn_frame(path)
        name = _segment_name()
        if rest:  # whole frames stand behind a damaged one: somebody may have been told of them
            self._keep_refused(f"{name}.{kind}.damaged", rest)
        if path.stat().st_size > START_BYTES:
            path.replace(self._path(kind, name))
        else:
            path.unlink()

    def ready(self) -> list[Path]:
        """List the closed segments, the oldest first."""
        return sorted(self.folder.glob(f"[0-9]*.{ENDING}"))

    def names(self) -> dict[str, set[str]]:
        """Names of APIs that each source has sent and that wait, by source."""
        found: dict[str, set[str]] = {}
        for segment in [*self.ready(), *(self._path(kind, _OPEN) for kind in KINDS)]:
            if segment.exists():
                for content in whole_frames(segment):
                    found.setdefault(content.source, set()).update(content.names)
        return found

    async def append(self, source: str, contents: Iterable[Content]) -> None:
        """Append what one request of a source brought; returns when it is on disk."""
        one = source, {content.kind: frame_of(content) for content in contents}
        self._queued[source] += _size_of(one)
        try:
            await self._queue.put(one)
        finally:
            self._queued[source] -= _size_of(one)

    async def run(self) -> None:
        """Write what waits, in groups, until cancelled."""
        await self._queue.run()

    async def write_waiting(self) -> None:
        """Write all that waits now, and answer it."""
        await self._queue.write_waiting()

    async def _commit(self, group: list[_Arrived]) -> list[None]:
        async with self._lock:
            try:
                await asyncio.get_running_loop().run_in_executor(self._writer, self._write, group)
            except OSError:
                self._failing = True
                raise
            for source, frames in group:
                for kind, data in frames.items():
                    self._kept[source] += len(data)
                    self._in_open[kind][source] += len(data)
        self._failing = False
        return [None] * len(group)

    def _write(self, group: list[_Arrived]) -> None:
        data = {kind: [frames.get(kind, b"") for _, frames in group] for kind in KINDS}
        written = {kind: b"".join(parts) for kind, parts in data.items() if any(parts)}
        files = {kind: self._descriptor(kind) for kind in written}
        # A file that somebody removed can be written to as before, and nobody would find it again.
        found = {file: os.fstat(file) for file in files.values()}
        if not self._is_there() or not all(status.st_nlink for status in found.values()):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        try:
            for kind, block in written.items():
                write_all(files[kind], block)
                # It writes the new size as well, which is all that reading needs of the metadata.
                os.fdatasync(files[kind])
        except OSError:
            for file, status in found.items():
                os.ftruncate(file, status.st_size)  # what was not answered must not be stored
            raise

    def _descriptor(self, kind: Kind) -> int:
        if kind not in self._open:
            path = self._path(kind, _OPEN)
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
            try:
                write_all(file, start_of_segment())
                # A name that is lost with the power takes all acknowledged records with it.
                sync(self.folder)
            except OSError:
                os.close(file)
                path.unlink(missing_ok=True)
                raise
            self._open[kind] = file
        return self._open[kind]

    async def close_segments(self) -> list[Path]:
        """Close the open segments; return all closed ones, the oldest first.

        What was refused is counted again: somebody may have moved it away. So is what waits, which
        nobody may.
        """
        async with self._lock:
            loop = asyncio.get_running_loop()
            ready = await loop.run_in_executor(self._writer, self._close_segments)
        await asyncio.to_thread(sync, self.folder)  # senders do not wait for it
        return ready

    def _close_segments(self) -> list[Path]:
        for kind in KINDS:
            path = self._path(kind, _OPEN)
            if path.exists():  # else there is none, or somebody has removed it
                closed = self._path(kind, _segment_name())
                path.replace(closed)
                self._in_segment[closed.name] = self._in_open[kind]
                self._in_open[kind] = Counter()
            if kind in self._open:
                os.close(self._open.pop(kind))
        ready = self.ready()
        self._is_robbed = self._is_robbed or _size(ready) < self._kept.total()
        self._refused_bytes = _size((self.folder / REFUSED).glob("*"))
        if self._failing:
            self._probe()
        return ready

    def _probe(self) -> None:
        """Try whether the disk takes bytes again: where nobody sends any, nothing else tells."""
        path = self.folder / "probe"
        with suppress(InputError):
            write_bytes(path, [bytes(_PROBE_BYTES)], mode=0o600)
            path.unlink()
            self._failing = False

    async def forget(self, segment: Path, *, rejected: bool) -> None:
        """Delete a segment that is stored, but for what is refused.

        With `rejected`, the database took it without records that had been accepted: all of it is
        kept, and the spool is failing until the service starts again.
        """
        self._kept -= self._in_segment.pop(segment.name, Counter())
        if rejected:
            self._rejected = True
            self._keep_refused(segment.name, segment.read_bytes())
        await asyncio.to_thread(self._delete, segment)

    def _delete(self, segment: Path) -> None:
        segment.unlink()
        self._refused_bytes = _size((self.folder / REFUSED).glob("*"))
        shutil.rmtree(self.folder / PARTS, ignore_errors=True)

    def _keep_refused(self, name: str, content: bytes) -> None:
        (self.folder / REFUSED).mkdir(mode=0o700, exist_ok=True)
        write_bytes((self.folder / REFUSED) / name, [content], mode=0o600)

    def _keep_unread(self) -> None:
        """Keep segments of a form that no release wrote: their lines are those `ingest` reads."""
        for kind in KINDS:
            for left in self.folder.glob(f"*.{kind}.jsonl"):
                (self.folder / REFUSED).mkdir(mode=0o700, exist_ok=True)
                left.replace(self.folder / REFUSED / f"{_segment_name()}.{left.name}")


def _locked(folder: Path) -> int:
    """Make a folder and lock it; return the descriptor that holds the lock."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync(folder.absolute().parent)
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise StoreError(f"spool {folder}: {error.strerror}", hint="name another folder") from error
    try:
        # On the folder itself: a kill leaves no file of a lock behind.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise StoreError(
            f"spool {folder}: in use by another service, or cannot be locked ({error.strerror})",
            hint="stop the other one, or name another folder as `spool` in the settings",
        ) from error
    return descriptor


def _size_of(one: _Arrived) -> int:
    return sum(map(len, one[1].values()))


def _size(files: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in files)


def _segment_name() -> str:
    """Name that sorts by time and that no other segment has; it starts with a digit."""
    # A clock may start before 1970: nobody would look for a name that starts with a minus.
    return f"{max(time.time_ns(), 0):020d}-{secrets.token_hex(4)}"
