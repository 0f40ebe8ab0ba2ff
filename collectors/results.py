"""Collectors of what libraries return, which a site logs beside members of its own."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from fpmonitor.collectors.nested import Library, Reading, holds, read_record
from fpmonitor.collectors.records import IDS, RecordCollector, RecordError, Visit
from fpmonitor.collectors.table_rows import first_of, rows_of
from fpmonitor.plugins import COLLECTORS, load_plugin, plugin_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fpmonitor.collectors.records import Record
    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.contract import Scan
    from fpmonitor.logs.log_file import LogFile


class ResultCollector(RecordCollector, Library):
    """Reads results of a library, at any depth of a record and in texts that are JSON.

    Results of other libraries in the record are read as theirs. Whatever else it holds is kept
    under its own name, as the wide collector keeps it.
    """

    # Libraries that tell less: a log with a result of another one as well is one of the other.
    is_minor: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.prepared: Reading | None = None

    def recognises_record(self, record: Any) -> bool:
        """Whether the record is or holds a result, and none of a library that tells more."""
        return holds(record, self.is_result) and not any(
            holds(record, other.is_result)
            for other in _libraries()
            if self.is_minor and not other.is_minor
        )

    def first(self, log: LogFile) -> Sequence[Any]:
        """Contents of the first good records, which may be rows of a table."""
        return first_of(log)

    def records(self, log: LogFile) -> Iterator[Record]:
        """Split the log into records, which may be rows of a table."""
        is_json = log.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"{", b"["}
        return super().records(log) if is_json else rows_of(log)

    @property
    def reading(self) -> Reading:
        """How records are read: as `scan` was told, or with the default names."""
        return self.prepared or Reading(_libraries())

    def visit(self, record: Any) -> Visit:
        """Tell what the results of a record say, and what lies beside them."""
        contents = read_record(record, self.reading)
        if not contents.sources:
            raise RecordError(f"no result of {self.name}")
        order = [library.name for library in self.reading.libraries]
        source = contents.sources[min(contents.sources, key=order.index)]
        return Visit(contents.values, source, not_taken=contents.not_taken, paths=contents.paths)

    def scan(self, log: LogFile, column_map: ColumnMap) -> Scan:
        """How to read the log; errors as of every collector that reads record by record."""
        self.prepare(column_map)
        return super().scan(log, column_map)

    def prepare(self, column_map: ColumnMap) -> None:
        """Take from a column map what is no API."""
        fields = {column_map.name_of("source"): "the library tells the source"}
        fields |= dict.fromkeys(column_map.ignore, "--ignore")
        fields |= dict.fromkeys(map(column_map.name_of, ("user", "time", *IDS)), "")
        self.prepared = Reading(_libraries(), fields, flatten=column_map.flatten)


def holds_result(record: object) -> bool:
    """Whether a record is or holds a result of some library."""
    return any(holds(record, library.is_result) for library in _libraries())


@cache
def _libraries() -> tuple[ResultCollector, ...]:
    """All libraries whose results can be read; those that tell less are the last."""
    loaded = [load_plugin(COLLECTORS, name)() for name in plugin_names(COLLECTORS)]
    found = [one for one in loaded if isinstance(one, ResultCollector)]
    return tuple(sorted(found, key=lambda one: one.is_minor))
