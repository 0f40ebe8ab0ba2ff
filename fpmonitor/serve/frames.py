"""Frames of the spool: what one request brought, typed, with its length and its checksum.

What was checked is framed, and what is framed is stored: no byte of a sender is parsed again as
text. A segment begins with a line of its own and a random number, so that no two segments are the
same file.
"""

from __future__ import annotations

import os
import secrets
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, ClassVar, Literal, get_args

import msgspec

Kind = Literal["observations", "fingerprintjs", "reports"]
KINDS: tuple[Kind, ...] = get_args(Kind)
ENDING = "frames"
REFUSED, PARTS = "refused", "parts"  # folders of a spool
MAGIC = b"fpmonitor spool 2\n"
_NONCE_BYTES = 16
START_BYTES = len(MAGIC) + _NONCE_BYTES
# 0xF5 is no byte of UTF-8, so no text that somebody sent holds a mark.
_MARK = b"\xf5FR\xf5"
_HEAD = struct.Struct("<4sII")  # mark, bytes of the content, CRC-32 of the content
# A damaged length must not ask for memory that nobody has.
_MOST_BYTES = 1 << 30


class Observation(msgspec.Struct, array_like=True, frozen=True):
    """What an API returned; `value` is canonical JSON text, null for `undefined`."""

    user: str
    api: str
    status: Literal["value", "undefined", "error"]
    value: str | None = None
    visit_id: str | None = None
    session_id: str | None = None


class FingerprintResult(msgspec.Struct, array_like=True, frozen=True):
    """A result of FingerprintJS: its values by API, as collectors say them."""

    user: str
    source: str
    values: dict[str, str]
    visit_id: str | None = None
    session_id: str | None = None


class PolicyReport(msgspec.Struct, array_like=True, frozen=True):
    """A script that read an API on a site, against a policy."""

    site: str
    script: str
    api: str


class Observations(msgspec.Struct, array_like=True, tag="observations", frozen=True):
    """Observations of one request; `headers` are values by API of each of the users.

    A user stands with the names of the visit and of the session.
    """

    kind: ClassVar[Kind] = "observations"
    source: str
    received: str
    records: list[Observation]
    headers: dict[str, str] = {}
    users: list[tuple[str, str | None, str | None]] = []

    @property
    def names(self) -> set[str]:
        """Names of APIs that the request brought."""
        return {one.api for one in self.records} | set(self.headers)


class Results(msgspec.Struct, array_like=True, tag="fingerprintjs", frozen=True):
    """Results of one request."""

    kind: ClassVar[Kind] = "fingerprintjs"
    source: str
    received: str
    records: list[FingerprintResult]

    @property
    def names(self) -> set[str]:
        """Names of APIs that the request brought."""
        return {name for one in self.records for name in one.values}


class Reports(msgspec.Struct, array_like=True, tag="reports", frozen=True):
    """Reports of one request."""

    kind: ClassVar[Kind] = "reports"
    source: str
    received: str
    records: list[PolicyReport]

    @property
    def names(self) -> set[str]:
        """Names of APIs that the request brought."""
        return {one.api for one in self.records}


Content = Observations | Results | Reports
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Content] = msgspec.msgpack.Decoder(Content)


class DamagedSegmentError(Exception):
    """Bytes of a segment that are no frame; `at` is the first of them."""

    def __init__(self, at: int) -> None:
        super().__init__(f"damaged at byte {at}")
        self.at = at


def frame_of(content: Content) -> bytes:
    """Return the frame of what a request brought."""
    payload = _ENCODER.encode(content)
    return _HEAD.pack(_MARK, len(payload), zlib.crc32(payload)) + payload


def content_of(raw: bytes) -> Content:
    """Return what a whole frame holds."""
    return _DECODER.decode(memoryview(raw)[_HEAD.size :])


def start_of_segment() -> bytes:
    """Return the first bytes of a new segment."""
    return MAGIC + secrets.token_bytes(_NONCE_BYTES)


def kind_of_segment(segment: Path) -> Kind:
    """Kind of the records of a segment, by its name."""
    name = segment.name.split(".")[1]
    return next(kind for kind in KINDS if kind == name)


def whole_frames(segment: Path) -> Iterator[Content]:
    """Read a segment up to where it is damaged."""
    yield from map(content_of, _whole_raw_frames(segment))


def _whole_raw_frames(path: Path) -> Iterator[bytes]:
    with suppress(DamagedSegmentError):
        yield from raw_frames(path)


def raw_frames(path: Path) -> Iterator[bytes]:
    """Read the bytes of each frame, up to a DamagedSegmentError."""
    with path.open("rb") as file:
        if file.read(START_BYTES)[: len(MAGIC)] != MAGIC:
            raise DamagedSegmentError(0)
        at = START_BYTES
        while found := _next_frame(file):
            at += len(found)
            yield found
        file.seek(at)
        if file.read(1):
            raise DamagedSegmentError(at)


def _next_frame(file: IO[bytes]) -> bytes:
    """Read the frame that begins here; empty where there is none."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return b""
    mark, size, checksum = _HEAD.unpack(head)
    if mark != _MARK or size > _MOST_BYTES:
        return b""
    payload = file.read(size)
    if len(payload) < size or zlib.crc32(payload) != checksum:
        return b""
    return head + payload


def sizes_by_source(path: Path) -> Counter[str]:
    """Bytes that each source has in a segment; those that no frame says are of nobody."""
    sizes: Counter[str] = Counter()
    for raw in _whole_raw_frames(path):
        sizes[content_of(raw).source] += len(raw)
    rest = path.stat().st_size - START_BYTES - sizes.total()
    return sizes + Counter({"": max(rest, 0)})


def damaged_part(path: Path) -> bytes:
    """Return what follows the last whole frame of a segment."""
    try:
        for _ in raw_frames(path):
            pass
    except DamagedSegmentError as error:
        with path.open("rb") as file:
            file.seek(error.at)
            return file.read()
    return b""


def cut_torn_frame(path: Path) -> bytes:
    """Cut off what follows the last whole frame; return it if it holds whole frames.

    A write that a crash cut short was never answered. Whole frames behind a damaged one are no such
    write, or not for sure: they are not stored, and not thrown away.
    """
    rest = damaged_part(path)
    if rest:
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - len(rest))
            os.fsync(file.fileno())  # with its new name it must not have another content
    return rest if _holds_frame(rest) else b""


def _holds_frame(rest: bytes) -> bool:
    at = rest.find(_MARK)
    while at >= 0:
        head = rest[at : at + _HEAD.size]
        if len(head) == _HEAD.size:
            _, size, checksum = _HEAD.unpack(head)
            payload = rest[at + _HEAD.size : at + _HEAD.size + size]
            if len(payload) == size and zlib.crc32(payload) == checksum:
                return True
        at = rest.find(_MARK, at + 1)
    return False


def write_all(file: int, data: bytes) -> None:
    """Write to a descriptor; the system may take a part at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def halve(segment: Path, folder: Path) -> list[Path]:
    """Copy the whole frames of a segment into two, if there are several.

    They are the same each time, so that one that was stored before a crash adds nothing.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    name, _, ending = segment.name.partition(".")
    paths = [folder / f"{name}-{part}.{ending}" for part in (1, 2)]
    frames = sum(1 for _ in _whole_raw_frames(segment))
    with segment.open("rb") as file:
        start = file.read(START_BYTES)
    found = _whole_raw_frames(segment)
    for part, path in enumerate(paths, start=1):
        with path.open("wb") as file:
            file.write(start)
            file.writelines(islice(found, frames // 2) if part == 1 else found)
    return paths if frames > 1 else []
