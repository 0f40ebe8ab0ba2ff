"""From the spool to the database: segments are stored as logs, each once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fpmonitor.collectors.fingerprintjs import VIA
from fpmonitor.errors import FpmonitorError, StoreError
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.logs.contract import MAX_APIS
from fpmonitor.logs.log_file import LogFile
from fpmonitor.safe_files import write_bytes
from fpmonitor.serve.frames import (
    PARTS,
    REFUSED,
    Kind,
    damaged_part,
    halve,
    kind_of_segment,
    whole_frames,
)
from fpmonitor.serve.segments import ObservationSegment, ReportSegment, ResultSegment, as_lines
from fpmonitor.store.demand import store_demand
from fpmonitor.store.ingest import ingest_log, is_of_the_disk
from fpmonitor.vocabulary import known_apis

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from fpmonitor.monitor import Monitor


@dataclass(frozen=True, slots=True)
class Moved:
    """What became of a segment: `refused` were too many names, `rejected` should not have been."""

    kind: Kind
    stored: int
    rejected: int
    refused: int = 0


def move_segment(monitor: Monitor, segment: Path, spool: Path) -> list[Moved]:
    """Store a segment of a spool; what the database has no room for goes to its folder `refused`.

    Where the database refuses all of it, its halves are stored one by one, in the folder `parts`.

    Raises:
        StoreError: The database cannot be written now; what is stored already adds nothing the next
            time.
    """
    refused = spool / REFUSED
    try:
        return [_stored(monitor, segment, refused)]
    # Not the fault of the segment, which stays and is tried again.
    except StoreError:
        raise
    except FpmonitorError as error:
        if is_of_the_disk(error):
            raise StoreError("the database cannot be written now") from error
        kind = kind_of_segment(segment)
        damage = [Moved(kind, 0, 1)] if damaged_part(segment) else []  # which is kept by now
        if halves := halve(segment, spool / PARTS):
            return damage + [one for half in halves for one in move_segment(monitor, half, spool)]
        written = _keep(refused / f"{segment.name}.jsonl", as_lines(whole_frames(segment), None))
        return [*damage, Moved(kind, 0, 0, written)]


def _stored(monitor: Monitor, segment: Path, refused: Path) -> Moved:
    kind, database = kind_of_segment(segment), monitor.database
    log, written, damaged = LogFile(segment, str(segment)), 0, damaged_part(segment)
    if damaged:
        _keep(refused / f"{segment.name}.damaged", iter([damaged]))
    if kind == "reports":
        calls = store_demand(database, log, ReportSegment())
        return Moved(kind, calls.stored, calls.rejected + bool(damaged))
    # In the order of arrival, not of a set: tried again, the same names must find room.
    brought = dict.fromkeys(name for one in whole_frames(segment) for name in sorted(one.names))
    taken = _names_with_room(monitor, brought)
    if taken is not None:
        # Before the rest is stored: after a crash the segment adds nothing, and is looked at again.
        lines = as_lines(whole_frames(segment), taken)
        written = _keep(refused / f"{segment.name}.jsonl", lines)
    collector = ObservationSegment(taken) if kind == "observations" else ResultSegment(taken)
    # A sender says that its names are APIs, and nobody is there to be asked: values of which all
    # differ are what is to be watched, and what has the form of an id is set aside.
    named = ColumnMap(expected=frozenset(brought))
    batch = ingest_log(database, log, collector, named, is_asked=False)
    aside = sum(member.records for member in batch.set_aside)
    return Moved(kind, batch.stored, batch.rejected - aside + bool(damaged), written)


def _names_with_room(monitor: Monitor, brought: Iterable[str]) -> set[str] | None:
    """Names of APIs that the database takes of those of a segment; null for all of them."""
    known = {name for _, name in monitor.database.rows("snapshot/apis")}
    fresh = [name for name in brought if name not in known and name not in known_apis()]
    room = MAX_APIS - len(known - known_apis().keys())
    if len(fresh) <= room:
        return None
    return set(brought) - set(fresh[max(room, 0) :])


def _keep(path: Path, content: Iterator[bytes]) -> int:
    """Keep what is refused; of a segment that a crash interrupted it is kept already."""
    lines = list(content)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if not path.exists():
        write_bytes(path, lines, mode=0o600)
    return len(lines)


def names_of_keys(monitor: Monitor) -> dict[str, set[str]]:
    """Names of APIs beside those of the vocabulary that each key has brought to the database."""
    found: dict[str, set[str]] = {}
    known = list(known_apis())
    for key, name in monitor.database.rows("serve/names_of_keys", vocabulary=known, via=VIA):
        found.setdefault(key, set()).add(name)
    return found
