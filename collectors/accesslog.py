"""Logs of web servers, and of what stands before them: what each request said of the browser."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from fpmonitor.collectors import json_lines
from fpmonitor.collectors.log_forms import USER_AGENT
from fpmonitor.collectors.readers import reader_of
from fpmonitor.collectors.records import OF_NAVIGATIONS
from fpmonitor.collectors.request_members import are_requests, request_members
from fpmonitor.collectors.tables import (
    MAX_DEPTH,
    SAMPLE_ROWS,
    Column,
    hashed,
    select_fields,
    visitor_name,
    visitor_parts,
)
from fpmonitor.collectors.text_logs import (
    PROBLEM,
    forms_of,
    head_sample,
    locate_lines,
    read_text_log,
)
from fpmonitor.collectors.wrapped_logs import unwrapped
from fpmonitor.duckdb_connection import connect
from fpmonitor.errors import InputError
from fpmonitor.logs.contract import Scan
from fpmonitor.logs.missing import present
from fpmonitor.sql import quote_name, quote_text
from fpmonitor.unit import VISITOR_RULE, refuse_requests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fpmonitor.collectors.request_members import RequestMembers
    from fpmonitor.collectors.text_logs import TextTable
    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.contract import Refused, Reject
    from fpmonitor.logs.log_file import LogFile
    from fpmonitor.unit import Unit

_NO_HEADER = "the request has no header that tells the browser"
_NO_AGENT = (
    "the common log format lacks the user agent: log the combined one, or that of "
    "`fpmonitor collect log-line`; --log-format names fields that the log does not name"
)
_MODE = "http:sec-fetch-mode"
_FETCHED = 10_000
_RULE = VISITOR_RULE.replace("'", "''")


@dataclass(frozen=True, slots=True)
class _Requests:
    """A log of requests as SQL."""

    relation: str  # What stands behind FROM.
    members: RequestMembers  # What its columns are.
    # Column -> expression of its text; null where it is absent, empty or `-`.
    text: Mapping[Column, str]
    whole: str  # Expression of a text of the whole record.
    problem: str  # Expression of what is wrong with a line, if anything.
    lines: TextTable | None = None  # The table of a text log.


class AccesslogCollector:
    """Reads logs of requests: text of many forms, and JSON, CSV or Parquet by its members.

    A header that a request lacks is absent: browsers send most client hints only after the server
    has asked for them. Of requests that fetch no page, headers that tell the resource are left
    out. Users are those that the cookie `fpm` names, or as is said: see `fpmonitor.unit`.
    """

    name: ClassVar[str] = "accesslog"
    rows_are_requests: ClassVar[bool] = True

    def __init__(self) -> None:
        self.unit: Unit = "user"
        self._log: LogFile | None = None
        self._lines: TextTable | None = None

    def recognises(self, log: LogFile, column_map: ColumnMap) -> bool:
        """Whether the first lines are requests in a known form, or have members of requests.

        Or these are inside the lines: see `unwrapped`.
        """
        self._log = log
        if not _holds_requests(log, column_map):
            self._log = unwrapped(log)
            return self._log is not log and _holds_requests(self._log, column_map)
        return True

    def scan(self, log: LogFile, column_map: ColumnMap) -> Scan:
        """How to read the log."""
        requests = self._read(log, column_map)
        self._lines = requests.lines
        self.unit = self.unit_of(log, column_map)
        headers = {api: _header(requests, api) for api in requests.members.apis}
        fields = {"user": self._user(log, requests), "time": _time(requests)}
        problem = (
            f"COALESCE({requests.problem}, CASE WHEN COALESCE({', '.join(headers.values())}) "
            f"IS NULL THEN {quote_text(_NO_HEADER)} END"
        )
        if self.unit == "visitor":
            problem += f", CASE WHEN {fields['user']} IS NULL THEN 'does not tell {_RULE}' END"
        spare = requests.members.spare
        listed = ", ".join(
            [
                *(f"{value} AS v{i}" for i, value in enumerate(headers.values())),
                *(f"{hashed(requests.text[column])} AS s{i}" for i, column in enumerate(spare)),
            ]
        )
        fields["source"] = quote_text(self.name)
        return Scan(
            f"SELECT {problem}) AS problem, {select_fields(fields)}, {listed} "  # noqa: S608 -- quoted
            f"FROM {requests.relation}",
            tuple(headers),
            values_are_json=False,
            fields=_fields(requests.members),
            paths={api: api_columns[0].name for api, api_columns in requests.members.apis.items()},
            spare={column.name: why for column, why in spare.items()},
        )

    def _read(self, log: LogFile, column_map: ColumnMap) -> _Requests:
        return _read(self._inside(log, column_map), column_map)

    def _inside(self, log: LogFile, column_map: ColumnMap) -> LogFile:
        """Return the log, or that of the lines inside."""
        # A collector that was named, not chosen, has not looked at the log yet.
        if self._log is None or self._log.label != log.label:
            self.recognises(log, column_map)
        return self._log or log

    def unit_of(self, log: LogFile, column_map: ColumnMap) -> Unit:
        """Return who a row is.

        Raises:
            InputError: Nothing names users, and nobody said it; or the form of the lines is none.
        """
        if column_map.visitor:
            return "visitor"
        if column_map.columns.get("user") == "row":
            return "row"
        log = self._inside(log, column_map)
        if forms_of(log, column_map.log_format):
            sample = head_sample(log, column_map.log_format)
            columns = [Column(name) for name in sample]
        else:
            columns, sample = _head(log)
        if request_members(columns, sample, column_map).user is None:
            raise refuse_requests(log.label, self.name)
        return "user"

    def _user(self, log: LogFile, requests: _Requests) -> str:
        if self.unit == "row":
            name = quote_text(f"{log.origin}#")
            # DuckDB reads rows in the order of the log: a row keeps its number while the log grows.
            return f"{name} || row_number() OVER () || '#' || md5({requests.whole})"
        if self.unit == "visitor":
            whose, agent = _whose(requests), _header(requests, USER_AGENT)
            return visitor_name(time=_time(requests), whose=whose, agent=agent)
        return requests.text[requests.members.user] if requests.members.user else "NULL::VARCHAR"

    def visitors(
        self, log: LogFile, column_map: ColumnMap
    ) -> Iterator[tuple[str, str, str] | None]:
        """Tell of each request the day, the address or cookie, and the user agent; else null.

        Raises:
            InputError: No request has a user agent.
        """
        requests = self._read(log, column_map)
        if USER_AGENT not in requests.members.apis:
            raise InputError(f"{log.label}: no line has a user agent", hint=_NO_AGENT)
        parts = visitor_parts(
            time=_time(requests), whose=_whose(requests), agent=_header(requests, USER_AGENT)
        )
        # Not `in_memory`: the time zone would be set for all who share that instance.
        with connect(":memory:") as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute(f"SELECT {', '.join(parts)} FROM {requests.relation}")  # noqa: S608 -- quoted
            while rows := connection.fetchmany(_FETCHED):
                for row in rows:
                    yield None if None in row else row

    def locate(
        self, log: LogFile, rows: Mapping[int, str], refused: Sequence[Refused]
    ) -> list[Reject]:
        """Find the records that could not be stored."""
        log = self._log or log
        if self._lines is not None:
            return locate_lines(log, self._lines, rows)
        return reader_of(log).locate(log.shortened, rows, refused)


def _fields(members: RequestMembers) -> dict[str, str]:
    """Names of the members that tell the user and the time."""
    field_columns = {"user": [members.user] if members.user else [], "time": members.time}
    return {
        name: ", ".join(c.name for c in columns)
        for name, columns in field_columns.items()
        if columns
    }


def _holds_requests(log: LogFile, column_map: ColumnMap) -> bool:
    if forms_of(log, column_map.log_format):
        return True
    try:
        return are_requests(*_head(log))
    except InputError:  # a text log whose first line is no header
        return False


def _head(log: LogFile) -> tuple[list[Column], dict[str, list[str]]]:
    """Columns of a table, and texts of its first records."""
    reader = reader_of(log)
    if log.format == "jsonl":
        # Headers lie within objects, of which the sample of the reader tells nothing.
        sample, listed = _nested_sample(log)
        columns = [column for column in reader.head_columns(log) if column.name in sample]
        return [*columns, *_in_lists(columns, listed)], sample
    return reader.head_columns(log), reader.sample(log)


def _nested_sample(
    log: LogFile,
) -> tuple[dict[str, list[str]], dict[Column, dict[Column, None]]]:
    """Texts of the first records of JSON lines, nested ones by the names of their columns.

    And columns that are lists of headers, with the columns of these.
    """
    cells: dict[str, list[str]] = {}
    listed: dict[Column, dict[Column, None]] = {}

    def walk(column: Column, value: object) -> None:
        if isinstance(value, dict) and len(column.steps) < MAX_DEPTH:
            for name, inner in value.items():
                walk(column.within(name), inner)
        elif isinstance(value, list) and value and all(map(_is_header, value)):
            for header in value:
                inside = column.within(header["name"])
                # By list: a stranger's record may have thousands of them, and of other names.
                listed.setdefault(column, {})[inside] = None
                walk(inside, header["value"])
            cells.setdefault(column.name, []).append("[]")
        elif value is not None:
            is_text = isinstance(value, str | int | float)
            cells.setdefault(column.name, []).append(str(value) if is_text else json.dumps(value))

    for record in islice(json_lines.records_of(log.head), SAMPLE_ROWS):
        for column, value in json_lines.cells_of(record):
            walk(column, value)
    return cells, listed


def _is_header(value: object) -> bool:
    """Whether an element of a list is a header, as Amazon's firewall logs them."""
    return isinstance(value, dict) and all(isinstance(value.get(n), str) for n in ("name", "value"))


def _in_lists(columns: Sequence[Column], listed: Mapping[Column, Iterable[Column]]) -> list[Column]:
    """Columns of headers that are elements of a list, below the column of the list."""
    known = {column.name for column in columns}
    return [
        header
        for column in columns
        for header in listed.get(column, ())
        if header.name not in known
    ]


def _read(log: LogFile, column_map: ColumnMap) -> _Requests:
    """Read a log of requests.

    Raises:
        InputError: It has no header that tells the browser.
    """
    if forms_of(log, column_map.log_format):
        requests = _read_text(log, column_map)
    else:
        requests = _read_table(log.shortened, column_map)
    if not requests.members.apis:
        raise InputError(f"{log.label}: no field is a header of the request", hint=_NO_AGENT)
    return requests


def _read_text(log: LogFile, column_map: ColumnMap) -> _Requests:
    table = read_text_log(log, column_map.log_format)
    columns = [Column(name) for name in table.names]
    cells = {column: quote_name(column.name) for column in columns}
    return _Requests(
        table.relation,
        request_members(columns, head_sample(log, column_map.log_format), column_map),
        {column: _present(cell, column_map) for column, cell in cells.items()},
        f"concat_ws(chr(31), {', '.join(cells.values())})",
        quote_name(PROBLEM),
        table,
    )


def _read_table(log: LogFile, column_map: ColumnMap) -> _Requests:
    reader = reader_of(log)
    columns = reader.survey(log, frozenset())  # nothing stays whole: any member may hold headers
    sample, in_lists = _nested_sample(log) if log.format == "jsonl" else (reader.sample(log), {})
    listed = _in_lists(columns, in_lists)
    by_steps = {column.steps: column for column in reversed(columns)}
    lists = {column: by_steps[column.steps[:-1]] for column in listed}
    members = request_members([*columns, *listed], sample, column_map)
    read = [
        *(column for api_columns in members.apis.values() for column in api_columns),
        *members.time,
    ]
    read += [column for column in (members.user, members.address) if column is not None]
    read += members.spare
    whole = dict.fromkeys(lists.get(column, column) for column in read)
    table = reader.read_table([log], list(whole), [])
    inner = {c: _in_list(table.text[lists[c]], c) for c in read if c in lists}
    cells = {**table.text, **inner}
    text = {column: _present(cell, column_map) for column, cell in cells.items()}
    if log.format == "jsonl":
        text = {column: _of_list(cell) for column, cell in text.items()}
    return _Requests(table.relation, members, text, table.whole, "NULL::VARCHAR")


def _present(cell: str, column_map: ColumnMap) -> str:
    # Servers write `-` for what a request lacks.
    return present(f"NULLIF(NULLIF({cell}, ''), '-')", column_map, json=False)


def _in_list(cell: str, header: Column) -> str:
    """Value of a header that is an element of a list."""
    listed = f'json_transform({cell}, \'[{{"name": "VARCHAR", "value": "VARCHAR"}}]\')'
    name = quote_text(header.steps[-1].lower())
    return f"list_filter({listed}, lambda header: lower(header.name) = {name})[1].value"


def _of_list(cell: str) -> str:
    """Text of a list of texts, as of headers in Caddy and Go."""
    # A user agent may begin with a bracket, too: only what is JSON is a list.
    listed = f"array_to_string(json_transform({cell}, '[\"VARCHAR\"]'), ', ')"
    return (
        f"CASE WHEN starts_with({cell}, '[') AND json_valid({cell}) THEN {listed} ELSE {cell} END"
    )


def _first_of(cells: Sequence[str]) -> str:
    return cells[0] if len(cells) == 1 else f"COALESCE({', '.join(cells)})"


def _header(requests: _Requests, api: str) -> str:
    """Value of a header; what tells the resource only of a request for a page."""
    value = _first_of([requests.text[column] for column in requests.members.apis[api]])
    if api.removeprefix("http:") not in OF_NAVIGATIONS:
        return value
    mode = requests.members.apis.get(_MODE)
    if mode is None:
        return "NULL::VARCHAR"
    fetch_mode = _first_of([requests.text[column] for column in mode])
    return f"CASE WHEN {fetch_mode} = 'navigate' THEN {value} END"


def _time(requests: _Requests) -> str:
    return " || ' ' || ".join(requests.text[c] for c in requests.members.time) or "NULL::VARCHAR"


def _whose(requests: _Requests) -> str:
    """Cookie or address of a request; of the list of proxies, the first."""
    members = requests.members
    cells = [requests.text[column] for column in (members.user, members.address) if column]
    if not cells:
        return "NULL::VARCHAR"
    first = f"split_part({_first_of(cells)}, ',', 1)"
    return f"regexp_replace({first}, '^([0-9.]+|\\[.*\\]):[0-9]+$', '\\1')"  # Envoy's has a port
