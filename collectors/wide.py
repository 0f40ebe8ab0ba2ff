"""Wide logs: one visit of a user a record, with one column (or member) an API."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from fpmonitor.collectors import json_lines
from fpmonitor.collectors.readers import reader_of
from fpmonitor.collectors.request_members import visitor_members
from fpmonitor.collectors.tables import (
    ATTRIBUTES,
    CLOCK,
    FIELDS,
    Column,
    field_names,
    hashed,
    select_fields,
    too_many_apis,
    visitor_name,
    with_clock,
)
from fpmonitor.duckdb_connection import in_memory
from fpmonitor.errors import InputError, excerpt
from fpmonitor.logs.contract import MAX_APIS, ROW, Scan
from fpmonitor.logs.frames import is_unnamed_index
from fpmonitor.logs.missing import present
from fpmonitor.sql import quote_text
from fpmonitor.unit import VISITOR_RULE
from fpmonitor.value_forms import is_share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.logs.column_map import ColumnMap
    from fpmonitor.logs.contract import Refused, Reject
    from fpmonitor.logs.log_file import LogFile
    from fpmonitor.unit import Unit


_NO_WEIGHT = "the number of users is not a whole number"
_HUNDRED = 100
_MAX_WEIGHTS = 50_000_000
_RULE = VISITOR_RULE.replace("'", "''")


class WideCollector:
    """Reads one row a visit from JSON lines, CSV or Parquet.

    Columns other than `user`, `time`, `source` and the ignored ones are APIs; JSON records may
    hold them in a member `attributes` instead. Members that are objects, and structs of Parquet,
    are an API a leaf unless the column map says otherwise. A missing member, an empty CSV field
    that is not quoted, a null of Parquet or JSON, and texts that the column map calls absent are
    absent, and so are the leaves of a null. The column map may take other JSON nulls for values.
    """

    name: ClassVar[str] = "wide"

    def __init__(self) -> None:
        self._users_of_rows: Sequence[int] = ()
        self.unit: Unit = "user"

    def recognises(self, log: LogFile, column_map: ColumnMap) -> bool:
        """Whether the log has a user and something else, and is not a long log."""
        columns = _head_columns(log)
        names = {column.name for column in columns if not column.is_attribute}
        return (
            (
                column_map.name_of("user") in names
                or _is_user_a_row(columns, column_map)
                or column_map.visitor
            )
            and column_map.name_of("api") not in names
            and bool(_api_columns(columns, column_map))
        )

    def scan(self, log: LogFile, column_map: ColumnMap) -> Scan:
        """How to read the log."""
        log = log.shortened
        if column_map.visitor:
            self.unit = "visitor"
            address = _told_by(log, column_map)["address"].name
            column_map = replace(column_map, ignore=column_map.ignore | {address})
        elif "weight" in column_map.columns or _is_user_a_row(_head_columns(log), column_map):
            self.unit = "row"
        if "weight" in column_map.columns:
            self._users_of_rows = _users_of_rows(log, column_map)
        whole = _whole(column_map) if column_map.flatten else None
        read = partial(_scan, [log], column_map)
        surveyed = partial(reader_of(log).survey, log, whole)
        # One pass, tried first: DuckDB raises an error at a record of another shape.
        if self.unit == "user" and (columns := _plain_columns(log, column_map)):
            return replace(read(columns, strictly=True), otherwise=lambda: read(surveyed()))
        return read(surveyed())

    def scan_together(
        self, logs: Sequence[LogFile], column_map: ColumnMap
    ) -> tuple[Scan, list[list[str]]] | None:
        """How to read small logs as one, in their order, and the APIs of each.

        Null where that could be another reading: an object would be nested in one log and a value
        in another.

        Args:
            logs: Logs of which the head is the whole.
        """
        said = column_map.columns
        if self.name != WideCollector.name or "weight" in said or column_map.visitor:
            return None
        if any(log.format != "jsonl" for log in logs):
            return None
        surveys = [_survey_of_head(log, column_map) for log in logs]
        columns = list(dict.fromkeys(column for survey in surveys for column in survey))
        # Rows are named by their log, and here are several.
        if _is_user_a_row(columns, column_map):
            return None
        firsts = {column.steps[0] for column in columns if column.path}
        whole = {column.name for column in columns if not column.path}
        if firsts & whole or len({column.name for column in columns}) < len(columns):
            return None
        apis = [[column.name for column in _api_columns(one, column_map)] for one in surveys]
        return (_scan(logs, column_map, columns), apis) if all(apis) else None

    def locate(
        self, log: LogFile, rows: Mapping[int, str], refused: Sequence[Refused]
    ) -> list[Reject]:
        """Find the records that could not be stored."""
        if self._users_of_rows:
            # Rows of the scan are users: the record is the one among whose users the row is.
            ends = list(accumulate(self._users_of_rows))
            rows = {bisect_right(ends, row): reason for row, reason in rows.items()}
        return reader_of(log).locate(log.shortened, rows, refused)


def _whole(column_map: ColumnMap) -> set[str]:
    """Columns that stay whole: fields, and those that are no APIs."""
    times = (part.strip() for part in column_map.name_of("time").split(","))
    named = {*map(column_map.name_of, FIELDS), *column_map.columns.values(), *times}
    return named | column_map.ignore


def _head_columns(log: LogFile) -> list[Column]:
    return reader_of(log).head_columns(log)


def _survey_of_head(log: LogFile, column_map: ColumnMap) -> list[Column]:
    """Columns of JSON lines of which the head is the whole."""
    whole = _whole(column_map) if column_map.flatten else None
    return json_lines.survey_of_records(json_lines.records_of(log.head), whole)


def _field_columns(columns: Sequence[Column], column_map: ColumnMap) -> dict[str, Column]:
    names = {column.name: column for column in columns if not column.is_attribute}
    fields = (*FIELDS, "weight") if "weight" in column_map.columns else FIELDS
    named = {field: names.get(column_map.name_of(field)) for field in fields}
    named.update(_times(names, column_map))
    return {field: column for field, column in named.items() if column is not None}


def _times(names: Mapping[str, Column], column_map: ColumnMap) -> dict[str, Column]:
    time_columns = (names[name] for name in column_map.names_of("time", names))
    return dict(zip(("time", CLOCK), time_columns, strict=False))


def _plain_columns(log: LogFile, column_map: ColumnMap) -> list[Column] | None:
    """Columns of JSON lines that need no survey; null where one is needed.

    Reading all names before the values took a third of the processor time.
    """
    if log.format != "jsonl" or column_map.null == "value":
        return None
    columns = json_lines.plain_columns(log)
    return columns if columns and _api_columns(columns, column_map) else None


def _scan(
    logs: Sequence[LogFile],
    column_map: ColumnMap,
    columns: Sequence[Column],
    *,
    strictly: bool = False,
) -> Scan:
    """How to read some columns; `strictly`, DuckDB raises an error if there are others."""
    log = logs[0]
    apis = _api_columns(columns, column_map)
    names = [column.name for column in apis]
    _check_names(log, names)
    fields, spare = _field_columns(columns, column_map), _spare_columns(columns, column_map)
    tells = _told_by(log, column_map) if column_map.visitor else {}
    is_json, is_row = log.format == "jsonl", _is_user_a_row(columns, column_map)
    plain = [*fields.values(), *tells.values(), *spare]
    if strictly:
        table = json_lines.read_strictly(logs, [*plain, *apis])
    else:
        table = reader_of(log).read_table(logs, plain, apis, with_nulls=column_map.null == "value")
    texts = with_clock(
        {
            field: present(table.text[column], column_map, json=False)
            for field, column in fields.items()
        }
    )
    values = [present(table.value[column], column_map, json=is_json) for column in apis]
    problem, weight = "NULL::VARCHAR", ""
    if strictly and column_map.flatten:
        # A strict reading takes an object for a value: this error leads to `otherwise`.
        nested = " OR ".join(f"starts_with({table.value[column]}, '{{')" for column in apis)
        problem = f"CASE WHEN {nested} THEN error('a member is an object')::VARCHAR END"
    if is_row:
        problem = f"CASE WHEN COALESCE({', '.join(values)}) IS NULL THEN 'no value of an API' END"
        texts["user"] = _row_as_user(log, table.whole)
    elif tells:
        visitor_texts = with_clock({part: table.text[column] for part, column in tells.items()})
        whose, agent = visitor_texts["address"], visitor_texts["agent"]
        texts["user"] = visitor_name(time=visitor_texts["time"], whose=whose, agent=agent)
        problem = f"CASE WHEN {texts['user']} IS NULL THEN 'does not tell {_RULE}' END"
    if "weight" in column_map.columns:
        users = _users(texts.pop("weight"))
        problem = f"COALESCE({problem}, CASE WHEN {users} IS NULL THEN '{_NO_WEIGHT}' END)"
        weight = f", {users} AS weight"
    listed = ", ".join(f"{value} AS v{i}" for i, value in enumerate(values))
    listed += "".join(f", {hashed(table.text[column])} AS s{i}" for i, column in enumerate(spare))
    # Copies of a row have no place of their own in the file.
    by_column = table.by_column and not weight
    row = f", {ROW}" if by_column else ""
    select = (
        f"SELECT {problem} AS problem, {select_fields(texts)}, {listed}{weight}{row} "  # noqa: S608 -- names are quoted where the table is made
        f"FROM {table.relation}"
    )
    return Scan(
        _each_user(select) if weight else select,
        tuple(names),
        values_are_json=is_json,
        by_column=by_column,
        fields=field_names(fields),
        spare={column.name: why for column, why in spare.items()},
    )


def _check_names(log: LogFile, names: Sequence[str]) -> None:
    """Refuse a log without an API, with too many, or with one twice."""
    if not names:
        raise InputError(f"{log.label}: no column is an API")
    if len(names) > MAX_APIS:
        raise too_many_apis(log)
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise InputError(
            f"{log.label}: two columns are called {excerpt(twice[0])!r}",
            hint=f"one is nested, or in `{ATTRIBUTES}`; --no-flatten leaves nested members whole",
        )


def _each_user(select: str) -> str:
    """Return a row for each of the users that a row with a weight stands for."""
    # A row whose number is none stays one row, to be rejected.
    return (
        'SELECT * EXCLUDE (weight, copy) REPLACE ("user" || \'#\' || copy AS "user") FROM '  # noqa: S608
        f"(SELECT *, unnest(range(COALESCE(weight, 1))) AS copy FROM ({select}))"
    )


def _is_user_a_row(columns: Sequence[Column], column_map: ColumnMap) -> bool:
    """Whether each record is a user of its own, or as many users as it says."""
    if "weight" in column_map.columns and "user" not in column_map.columns:
        return True
    return column_map.name_of("user") == "row" and Column("row") not in columns


def _row_as_user(log: LogFile, whole: str) -> str:
    """Name a row by its place and all it holds: those of a log that has grown stay who they are.

    What is ignored counts as well: a row is the same whatever is taken of it.
    """
    return f"{quote_text(f'{log.origin}#')} || row_number() OVER () || '#' || md5({whole})"


def _told_by(log: LogFile, column_map: ColumnMap) -> Mapping[str, Column]:
    """Columns that tell visitors: `address`, `agent` and `time`.

    Raises:
        InputError: One of them is missing.
    """
    columns = [column for column in _head_columns(log) if not column.is_attribute]
    found = visitor_members(columns, reader_of(log).sample(log))
    found |= _times({column.name: column for column in columns}, column_map)
    time = column_map.name_of("time")
    words = {"address": "an address", "agent": "a user agent", "time": f"the time ({time!r})"}
    lacking = [word for part, word in words.items() if part not in found]
    if lacking:
        raise InputError(
            f"{log.label}: tells no visitors, as no column has {', '.join(lacking)}",
            hint=f"a visitor is {VISITOR_RULE}; --user row counts the rows themselves",
        )
    return found


def _users(weight: str) -> str:
    """Count the users that a record stands for in SQL; null where it does not say."""
    number = f"CASE WHEN regexp_full_match({weight}, '[0-9]{{1,9}}(\\.0+)?') THEN {weight} END"
    return f"({number})::DOUBLE::BIGINT"


def _users_of_rows(log: LogFile, column_map: ColumnMap) -> list[int]:
    """Return the number of users of each record; one where it does not say, to be rejected.

    Raises:
        InputError: There is no such column, it holds shares, or the users are too many to be stored
            one by one.
    """
    weight = Column(column_map.name_of("weight"))
    if weight not in _head_columns(log):
        raise InputError(f"{log.label}: no column {weight.name!r}")
    table = reader_of(log).read_table([log], [weight], [])
    share = f"TRY_CAST(rtrim({table.text[weight]}, ' %') AS DOUBLE)"
    with in_memory() as connection:
        found = connection.execute(
            f"SELECT COALESCE({_users(table.text[weight])}, 1), {share} <> trunc({share}) "  # noqa: S608
            f"FROM {table.relation}"
        ).fetchall()
    users = [number for number, _ in found]
    # Whole per cents add up to 100 but for what was rounded.
    are_shares = is_share(weight.name) and 0.9 * _HUNDRED <= sum(users) <= 1.1 * _HUNDRED
    if are_shares or any(is_part for _, is_part in found):
        raise InputError(
            f"{log.label}: {excerpt(weight.name)!r} holds shares, not numbers of users; "
            "nothing of this file was stored",
            hint="limits depend on how many users were counted, which shares do not tell: multiply "
            "each by that number, round, and name the new column",
        )
    if sum(users) > _MAX_WEIGHTS:
        raise InputError(f"{log.label}: stands for more than {_MAX_WEIGHTS:,} users")
    return users


def _spare_columns(columns: Sequence[Column], column_map: ColumnMap) -> dict[Column, str]:
    """Columns that are neither fields nor APIs, and why."""
    taken = {*_api_columns(columns, column_map), *_field_columns(columns, column_map).values()}
    reasons = {"": "a column without a name"}
    return {
        column: reasons.get(column.name, "numbers the rows of a frame")
        if column.name not in column_map.ignore
        else "--ignore"
        for column in columns
        if column not in taken and column.name != ATTRIBUTES
    }


def _api_columns(columns: Sequence[Column], column_map: ColumnMap) -> list[Column]:
    no_apis = _whole(column_map) | {""}
    if any(column.is_attribute for column in columns):
        no_apis = no_apis | {ATTRIBUTES}
    return [
        column
        for column in columns
        if column.is_attribute or not (column.name in no_apis or is_unnamed_index(column.name))
    ]
