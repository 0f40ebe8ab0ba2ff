"""Whether a log, or its beginning, is stored: under this name or another, read so or otherwise."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING

from fpmonitor.errors import InputError
from fpmonitor.logs.log_file import BUFFER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.contract import Collector
    from fpmonitor.logs.log_file import LogFile
    from fpmonitor.store.database import Database


@dataclass(frozen=True, slots=True)
class Marks:
    """What a log, or its first bytes, is known by."""

    content: str  # Digest of the bytes, unpacked.
    reading: str  # Digest of how they are read.
    bytes: int  # Their number.
    # Digest of the first line, with the one below a header: what a log keeps while it grows.
    beginning: str
    # One digest of reading and bytes, as earlier versions stored it, where a stored log has one.
    earlier: str = ""

    @property
    def digest(self) -> str:
        """What the log is stored by."""
        return f"{self.content}+{self.reading}"

    @property
    def digests(self) -> list[str]:
        """All that the log may be stored by."""
        return [self.digest, *filter(None, [self.earlier])]


@dataclass(frozen=True, slots=True)
class StoredLog:
    """A stored log that may be another one's beginning; `origin` is the name of its rows."""

    beginning: str
    source: str
    digest: str
    content: str
    bytes: int
    origin: str


def reading_of(log: LogFile, collector: Collector, column_map: ColumnMap) -> bytes:
    """Return how a log is read, as text; what is left at its default is not in it, for all time."""
    reading = [
        collector.name,
        sorted(column_map.columns.items()),
        sorted(column_map.ignore),
        # No other format has nulls that may be values; it was the default once.
        column_map.null if log.head.lstrip()[:1] == b"{" else "value",
        *([] if column_map.flatten else ["whole"]),
        *([["absent", *sorted(column_map.absent)]] if column_map.absent else []),
        *(["visitor"] if column_map.visitor else []),
        *([column_map.log_format] if column_map.log_format else []),
    ]
    return json.dumps(reading).encode()


def beginning_of(log: LogFile) -> str:
    """Digest of the first lines: see `Marks`."""
    lines = log.head.split(b"\n", 2)[: 2 if log.head[:1] not in b"{[" else 1]
    return hashlib.sha256(b"\n".join(lines)).hexdigest()


def logs_that_begin(database: Database, beginnings: Sequence[str]) -> list[StoredLog]:
    """Return stored logs with some first lines, as of `beginning_of`, the longest first."""
    found = database.rows("ingest/logs_that_begin", beginnings=beginnings)
    return [StoredLog(*row) for row in found]


def digested_before(database: Database) -> bool:
    """Whether a log was stored by a version that took other digests."""
    return bool(database.rows("ingest/digested_before")[0][0])


def marks_of(
    log: LogFile,
    reading: bytes,
    most: int | None,
    stored: Iterable[StoredLog] = (),
    *,
    as_earlier: bool,
) -> list[Marks]:
    """Read a log once: marks of its beginnings as long as stored logs, and last of the whole.

    Args:
        log, reading: The log, and what `reading_of` says of it.
        most: Bytes that count: those that were there at first, as a digest of lines that came too
            late to be stored would keep them from ever being stored. None for a packed log.
        stored: Those that it may continue.
        as_earlier: Whether the digest of earlier versions is wanted, too: it costs as much again.
    """
    alone, earlier, place = hashlib.sha256(), hashlib.sha256(reading), 0
    read_so, beginning = hashlib.sha256(reading).hexdigest()[:32], beginning_of(log)
    found = []
    sizes = {one.bytes for one in stored}
    stops = sorted(size for size in sizes if most is None or size < most)
    with log.open() as file:
        for stop in [*stops, most]:
            while stop is None or place < stop:
                part = file.read(BUFFER_BYTES if stop is None else min(BUFFER_BYTES, stop - place))
                if not part:
                    break
                alone.update(part)
                if as_earlier:
                    earlier.update(part)
                place += len(part)
            one = earlier.hexdigest() if as_earlier else ""
            found.append(Marks(alone.hexdigest(), read_so, place, beginning, one))
    return found


def with_nulls_as_values(log: LogFile, column_map: ColumnMap) -> ColumnMap | None:
    """Return how earlier versions read a log of JSON; null where that makes no difference.

    A null was a value unless the column map said otherwise: a log that they stored goes on so.
    """
    if log.head.lstrip()[:1] != b"{" or column_map.null == "value":
        return None
    return replace(column_map, null="value")


def stored_beginning(
    log: LogFile,
    marks: Sequence[Marks],
    before: Sequence[StoredLog],
    earlier: bytes | None = None,
) -> StoredLog | None:
    """Return the longest stored log that is this one or its beginning; null for a new one.

    Args:
        log, marks: The log, and what `marks_of` found.
        before: Stored logs that it may continue.
        earlier: How earlier versions read such logs, as of `reading_of`; null for no other way.

    Raises:
        InputError: That one was read under other options: read so, its records would be stored
            twice.
    """
    # The longest first: of two stored beginnings the shorter is part of the other.
    digests = {mark.content: mark.digests for mark in marks}
    for stored in before:
        if stored.content in digests:
            if stored.digest in digests[stored.content]:
                return stored
            if earlier and stored.digest in _digests_so(log, earlier, stored):
                return stored
            raise _read_otherwise(log, stored.source)
    return None


def _digests_so(log: LogFile, reading: bytes, stored: StoredLog) -> list[str]:
    """All that the beginning of a log may be stored by, if it was read so."""
    return marks_of(log, reading, stored.bytes, as_earlier=True)[-1].digests


def check_names_of_rows(database: Database, log: LogFile) -> None:
    """Check that rows of this log are not stored under names that earlier versions gave them.

    Raises:
        InputError: They may be.
    """
    if database.rows("ingest/rows_named_before", source=log.label)[0][0]:
        raise _read_otherwise(log, log.label, "by an earlier version, which named rows otherwise")


def _read_otherwise(log: LogFile, source: str, how: str = "under other options") -> InputError:
    named = "" if source == log.label else f" as {source}"
    return InputError(
        f"{log.label}: is stored already{named}, {how}; nothing of this file was stored",
        hint=f"to read it anew: `fpmonitor db forget --batch {quote(source)}`, and ingest it again",
    )
