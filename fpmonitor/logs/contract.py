"""The contract between a log, its collector and the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

from fpmonitor.logs.log_file import LogFile, NotTaken

if TYPE_CHECKING:
    from fpmonitor.logs.column_map import ColumnMap

MAX_REFUSED = 100_000
MAX_CALLS = 10**9  # that one record may tell
MAX_APIS = 4000
LARGE_VALUE_BYTES = 256  # of a value that is kept; of a larger one its digest is
NOT_UTF_8 = "not UTF-8"
RECODE = "a table of Excel is read by `iconv -f WINDOWS-1252 -t UTF-8 FILE | fpmonitor ingest -`"
ROW = "log_row"
ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Reject:
    """A record that was not stored: its line (Parquet: row) from 1, why, and its beginning."""

    line: int
    reason: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that DuckDB's CSV reader refused: its first byte in the unpacked log, why, text."""

    offset: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Scan:
    """How the store reads the records of a log."""

    # A SELECT of DuckDB that yields one row a record, in the order of the log, with the text
    # columns `problem` (null where the record can be used), `user`, `time`, `source`, and then
    # `api`, `status`, `value` (long) or `v0`, `v1`, ... (wide; where values are JSON text, also
    # `undefined` and `error:` followed by the message as JSON text or null).
    select: str
    # Wide logs: the API of each column `v0`, `v1`, ...; null for a long log.
    apis: tuple[str, ...] | None
    # Whether values are JSON text (strings in quotes) rather than plain text.
    values_are_json: bool
    # Wide logs: whether a column can be read without the others, as in Parquet. Then the store need
    # not keep the values until it knows them all; `select` also yields `ROW`, the place of the
    # record from 0.
    by_column: bool = False
    # Fields of a record (`user`, `time`, `source`, `weight`) -> their names in the log.
    fields: Mapping[str, str] = field(default_factory=dict)
    # Members that are not taken -> why. `select` also yields hashes of their values as `s0`, `s1`,
    # ..., so that the store can count them.
    spare: Mapping[str, str] = field(default_factory=dict)
    # Members that the collector leaves out, where it counts them itself.
    not_taken: Mapping[str, NotTaken] = field(default_factory=dict)
    # APIs -> the columns of the log, where they are called otherwise.
    paths: Mapping[str, str] = field(default_factory=dict)
    # Whether `select` also yields the texts `visit_id` and `session_id`, null where a record has
    # none.
    names_visits: bool = False
    # Where `select` takes the log for simpler than it may be, and then raises an error of DuckDB:
    # makes the scan that reads it whatever it holds.
    otherwise: Callable[[], Scan] | None = None


class Collector(Protocol):
    """Turns the logs of one source into records for the store."""

    name: ClassVar[str]

    def recognises(self, log: LogFile, column_map: ColumnMap) -> bool:
        """Whether the shape of the log is the one that this collector reads."""

    def scan(self, log: LogFile, column_map: ColumnMap) -> Scan:
        """How to read the log.

        Raises:
            InputError: The log is not what the collector reads.
        """

    def locate(
        self, log: LogFile, rows: Mapping[int, str], refused: Sequence[Refused]
    ) -> list[Reject]:
        """Find the records that could not be stored.

        Args:
            log: The log that was scanned.
            rows: Row of the scan, from 0 -> reason.
            refused: Records that are no row of the scan, in their order.
        """


@dataclass(frozen=True, slots=True)
class Call:
    """A script that read an API on a site `calls` times; rejected where one of them is empty."""

    # site, script, api, calls: Host of the page, host and path of the script, what it read, how
    # often.
    site: str
    script: str
    api: str
    calls: int
    line: int = 0  # Of the record, from 1; 0 where the log has no lines.
    text: str = ""  # Its beginning, by which somebody finds it again.
    problem: str = ""  # Why it cannot be used, where that is not what it lacks.

    @property
    def reason(self) -> str:
        """Why it is rejected; empty where it is not."""
        if self.problem:
            return self.problem
        lacks = {"the page": self.site, "the script": self.script, "what was read": self.api}
        lacking = [name for name, text in lacks.items() if not text]
        if lacking:
            return f"does not tell {', '.join(lacking)}"
        return "" if 0 < self.calls <= MAX_CALLS else "the number of calls is not a whole number"


class DemandCollector(Protocol):
    """Turns the demand logs of one source into calls."""

    name: ClassVar[str]

    def recognises(self, log: LogFile) -> bool:
        """Whether the log is one of this source."""

    def calls(self, log: LogFile) -> Iterator[Call]:
        """Read the calls; a record that cannot be used yields one that names nothing.

        Raises:
            InputError: The log cannot be read.
        """
