"""Collectors of what libraries return, which a site logs beside members of its own."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from fpmonitor.collectors.nested import Found, Reading, beside, find
from fpmonitor.collectors.records import RecordCollector, RecordError, Visit

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.contract import Scan
    from fpmonitor.logs.log_file import LogFile

SAYS_TWICE = "a result says it too"


@dataclass(frozen=True, slots=True)
class Result:
    """What a library returned.

    Attributes
    ----------
    values
        As of a visit.
    source
        The library and its version.
    own
        Members of the result that are the library's, whether they are taken or not.
    not_taken
        Of those, what is left out, by name within the result, and why.
    """

    values: Mapping[str, str]
    source: str
    own: Collection[str]
    not_taken: Mapping[str, str] = field(default_factory=dict)


class ResultCollector(RecordCollector):
    """Reads results of a library, at any depth of a record and in texts that are JSON.

    Whatever else a record holds is kept under its own name, as the wide collector keeps it.
    """

    title: ClassVar[str]
    left_out: ClassVar[Mapping[str, str]] = {}  # wherever it lies beside a result

    def __init__(self) -> None:
        super().__init__()
        self._reading = Reading(self.is_result, left_out=self.left_out)

    @abstractmethod
    def is_result(self, content: Any) -> bool:
        """Whether this is a result, by what only this library has."""

    @abstractmethod
    def result(self, content: Any) -> Result:
        """Tell what a result says.

        Raises
        ------
        RecordError
            It holds a value that cannot be kept.
        """

    def recognises_record(self, record: Any) -> bool:
        """Whether the record is or holds a result."""
        return find(record, self.is_result) is not None

    def visit(self, record: Any) -> Visit:
        """Tell what a record's first result says, and what lies beside it."""
        found = find(record, self.is_result)
        if found is None:
            raise RecordError(f"no result of {self.title}")
        return self.told(record, found, self.result(found.content))

    def told(self, record: Any, found: Found, result: Result) -> Visit:
        """Put together what a result says, and what lies beside it in its record."""
        told = beside(record, found, result.own, self._reading)
        own = {found.name_of(name): reason for name, reason in result.not_taken.items()}
        twice = dict.fromkeys(told.values.keys() & result.values.keys(), SAYS_TWICE)
        return Visit(
            told.values | dict(result.values),
            result.source,
            not_taken=own | told.not_taken | twice,
        )

    def prepare(self, column_map: ColumnMap) -> None:
        """Take from a column map what is no API."""
        fields = {column_map.name_of("source"): "the library tells the source"}
        fields |= dict.fromkeys(column_map.ignore, "--ignore")
        fields |= dict.fromkeys(map(column_map.name_of, ("user", "time")), "")
        self._reading = Reading(self.is_result, fields, self.left_out, flatten=column_map.flatten)

    def scan(self, log: LogFile, column_map: ColumnMap) -> Scan:
        """How to read the log; errors as of every collector that reads record by record."""
        self.prepare(column_map)
        return super().scan(log, column_map)
