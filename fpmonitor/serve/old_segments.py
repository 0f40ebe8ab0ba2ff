"""Segments that earlier versions left in a spool: a record a line, read as logs are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

OLD_ENDING = "jsonl"
OLD_COLLECTORS = {"observations": "long", "fingerprintjs": "fingerprintjs", "reports": "reporting"}
_TAIL_BYTES = 1 << 16


def is_old(segment: Path) -> bool:
    """Whether an earlier version wrote a segment."""
    return segment.name.endswith(f".{OLD_ENDING}")


def recover_old_segments(folder: Path, new_name: Callable[[], str]) -> None:
    """Close the segments that an earlier version left open, without a line that was cut short."""
    for kind in OLD_COLLECTORS:
        path = folder / f"open.{kind}.{OLD_ENDING}"
        if path.exists():
            _cut_torn_line(path)
            if path.stat().st_size:
                path.replace(folder / f"{new_name()}.{kind}.{OLD_ENDING}")
            else:
                path.unlink()


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
