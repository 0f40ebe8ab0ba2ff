"""Logs as tables of text: what the readers of JSON lines, CSV and Parquet give the collectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fpmonitor.errors import InputError
from fpmonitor.logs.contract import MAX_APIS, Refused, Reject
from fpmonitor.sql import statement

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from fpmonitor.logs.log_file import LogFile


ATTRIBUTES = "attributes"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a log; `path` leads to one within a JSON member or a struct of Parquet."""

    name: str
    path: tuple[str, ...] = ()

    @property
    def steps(self) -> tuple[str, ...]:
        """Names that lead to the column."""
        return self.path or (self.name,)

    @property
    def is_attribute(self) -> bool:
        """Whether it is a member of a JSON record's `attributes`, or within one."""
        return self.path[:1] == (ATTRIBUTES,)

    def within(self, name: str) -> Column:
        """Return the column of a member."""
        return Column(f"{self.name}.{name}", (*self.steps, name))


@dataclass(frozen=True, slots=True)
class LogTable:
    """Columns of a log as SQL."""

    relation: str  # What stands behind FROM.
    # Column -> expression of its plain text, or null where the record lacks it.
    text: Mapping[Column, str]
    # Column -> expression of its value as it stands in the log (JSON text for JSON lines).
    value: Mapping[Column, str]
    # Whether a column can be read without the others; then the relation also has `ROW`.
    by_column: bool = False
    # Expression of a text of the whole record, whichever columns were asked for.
    whole: str = "''"


MAX_DEPTH = 4
MAX_MEMBERS = 100  # of one object: more are no APIs, but names that are data
SAMPLE_ROWS = 1000
FIELDS = ("user", "time", "source")
CLOCK = "clock"  # the time of day, in a column beside that of the day


def with_clock(texts: Mapping[str, str]) -> dict[str, str]:
    """Return SQL of the fields, day and time of day joined where these are two columns.

    Tables write a day as its first moment.
    """
    joined = dict(texts)
    if clock := joined.pop(CLOCK, None):
        joined["time"] = f"regexp_replace({texts['time']}, '[T ]00:00:00.*$', '') || ' ' || {clock}"
    return joined


def field_names(columns: Mapping[str, Column]) -> dict[str, str]:
    """Names of the columns that the fields are in, as `ColumnMap.names_of` takes them."""
    names = {field: column.name for field, column in columns.items()}
    if clock := names.pop(CLOCK, None):
        names["time"] += f",{clock}"
    return names


def select_fields(expressions: Mapping[str, str]) -> str:
    """Select the text of each field of a visit in SQL; null for those without an expression."""
    return ", ".join(f'{expressions.get(field, "NULL::VARCHAR")} AS "{field}"' for field in FIELDS)


def hashed(text: str) -> str:
    """Return SQL for the hash of a text: a column that nobody wants may hold whole pages."""
    return f"CASE WHEN {text} IS NOT NULL THEN hash({text}) END"


def visitor_parts(*, time: str, whose: str, agent: str) -> tuple[str, str, str]:
    """Return SQL for the day, the address or cookie, and the user agent of a visitor.

    Args:
        time, whose, agent: SQL of texts; null or empty where they are not known.
    """
    parsed = statement("ingest/parse_time").replace('"time"', time)
    written = f"regexp_extract({time}, '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}')"
    day = f"COALESCE(NULLIF({written}, ''), left(({parsed})::VARCHAR, 10))"
    return day, f"NULLIF({whose}, '')", f"NULLIF({agent}, '')"


def visitor_name(*, time: str, whose: str, agent: str) -> str:
    """Return SQL for the name of a visitor, as `unit.visitor_of` tells it; null where it does not.

    An address goes no further than its digest.
    """
    parts = visitor_parts(time=time, whose=whose, agent=agent)
    return f"sha256({' || chr(31) || '.join(parts)})"


def too_many_apis(log: LogFile) -> InputError:
    """Error of a wide log with more columns than a table can have."""
    return InputError(
        f"{log.label}: more than {MAX_APIS:,} columns in a wide log",
        hint="write one observation a record: user, api, value",
    )


class Reader:
    """What reads one file format."""

    def head_columns(self, log: LogFile) -> list[Column]:
        """Columns that the beginning of the log shows, nested ones whole and by their leaves."""
        raise NotImplementedError

    def sample(self, log: LogFile) -> dict[str, list[str]]:
        """Texts of the columns that are not nested in some of the first records."""
        raise NotImplementedError

    def survey(
        self,
        log: LogFile,
        whole: Collection[str] | None = None,  # noqa: ARG002 -- what has no nested columns
    ) -> list[Column]:
        """Columns of the whole log; nested ones by their leaves, but for those in `whole`.

        Without `whole` all columns stay whole.
        """
        return self.head_columns(log)

    def table(self, log: LogFile) -> LogTable:
        """Read all columns, in SQL, where a format has them apart."""
        raise NotImplementedError

    def read_table(
        self,
        logs: Sequence[LogFile],
        texts: Sequence[Column],  # noqa: ARG002 -- what has its columns apart
        values: Sequence[Column],  # noqa: ARG002
        *,
        with_nulls: bool = False,  # noqa: ARG002
    ) -> LogTable:
        """Read some columns as text and others as values, in SQL.

        Args:
            logs: A log; of JSON lines also several, which are packed alike, as if they were one.
            with_nulls: Whether a JSON null is the value `null`, rather than absent.
        """
        [log] = logs
        return self.table(log)

    def locate(
        self,
        log: LogFile,  # noqa: ARG002 -- what has no lines to show
        rows: Mapping[int, str],
        refused: Sequence[Refused],  # noqa: ARG002
    ) -> list[Reject]:
        """Find the records that could not be stored, by rows from 1; see `Collector.locate`."""
        return [Reject(row + 1, reason, "") for row, reason in rows.items()]
