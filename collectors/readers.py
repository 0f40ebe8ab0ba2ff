"""The reader of each file format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fpmonitor.collectors.csv_text import CsvReader
from fpmonitor.collectors.json_lines import JsonReader
from fpmonitor.collectors.parquet import ParquetReader

if TYPE_CHECKING:
    from fpmonitor.collectors.tables import Reader
    from fpmonitor.logs.log_file import Format, LogFile

_READERS: dict[Format, Reader] = {
    "csv": CsvReader(),
    "jsonl": JsonReader(),
    "parquet": ParquetReader(),
}


def reader_of(log: LogFile) -> Reader:
    """Choose the reader of the log's format."""
    return _READERS[log.format]
