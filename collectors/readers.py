"""The reader of each file format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fpmonitor.collectors import csv_text, json_lines, parquet

if TYPE_CHECKING:
    from fpmonitor.collectors.tables import Reader
    from fpmonitor.logs.log_file import Format, LogFile

_READERS: dict[Format, Reader] = {"csv": csv_text, "jsonl": json_lines, "parquet": parquet}


def reader_of(log: LogFile) -> Reader:
    """Choose the reader of the log's format."""
    return _READERS[log.format]
