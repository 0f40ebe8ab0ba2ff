"""Wide logs: one visit of a user a record, with one column (or member) an API."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from fpmonitor.collectors.readers import reader_of
from fpmonitor.collectors.tables import ATTRIBUTES, FIELDS, Column, select_fields, too_many_apis
from fpmonitor.errors import InputError
from fpmonitor.logs import MAX_APIS, ROW, Scan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fpmonitor.collectors.tables import Survey
    from fpmonitor.logs import ColumnMap, LogFile, Refused, Reject


class WideCollector:
    """Reads one row a visit from JSON lines, CSV or Parquet.

    Columns other than `user`, `time`, `source` and the ignored ones are APIs; JSON records may
    hold them in a member `attributes` instead. Members that are objects, and structs of Parquet,
    are an API a leaf unless the column map says otherwise. A missing member, an empty CSV field
    that is not quoted, and a Parquet null are absent, and so are the leaves of a null; any other
    JSON null is a value unless the column map says otherwise.
    """

    name: ClassVar[str] = "wide"

    def recognises(self, log: LogFile, column_map: ColumnMap) -> bool:
        """Whether the log has a user and something else, and is not a long log."""
        columns = reader_of(log).head_columns(log)
        names = {column.name for column in columns if not column.is_attribute}
        return (
            column_map.name_of("user") in names
            and column_map.name_of("api") not in names
            and bool(_api_columns(columns, column_map))
        )

    def scan(self, log: LogFile, column_map: ColumnMap) -> Scan:
        """How to read the log.

        Raises
        ------
        InputError
            An API stands both beside and in `attributes`, or there is no API.
        """
        log = log.shortened
        return _coded(log, column_map) or _surveyed(log, column_map)

    def locate(
        self, log: LogFile, rows: Mapping[int, str], refused: Sequence[Refused]
    ) -> list[Reject]:
        """Find the records that could not be stored."""
        return reader_of(log).locate(log.shortened, rows, refused)


def _surveyed(log: LogFile, column_map: ColumnMap) -> Scan:
    whole = {*map(column_map.name_of, FIELDS), *column_map.ignore}
    survey = reader_of(log).survey(log, whole if column_map.flatten else None)
    if column_map.null == "absent":
        survey = replace(survey, plain=frozenset())  # plain text hides which null is a string
    return _scan(log, column_map, survey)


def _coded(log: LogFile, column_map: ColumnMap) -> Scan | None:
    """Read JSON lines whose values become codes while they are read; null for other logs."""
    if log.compression != "uncompressed" or log.format != "jsonl":
        return None
    from fpmonitor.collectors import json_pieces  # noqa: PLC0415 -- slow to load

    if column_map.flatten and any(c.path for c in reader_of(log).head_columns(log)):
        return None
    columns = [Column(name) for name in json_pieces.first_members(log)]
    apis = sorted(column.name for column in _api_columns(columns, column_map))
    fields = {field: column.name for field, column in _field_columns(columns, column_map).items()}
    if "user" not in fields or not 0 < len(apis) <= MAX_APIS:
        return None
    keeps_null = column_map.null == "value"
    coded = json_pieces.JsonPieces(
        log, fields, apis, null_is_value=keeps_null, objects_are_values=not column_map.flatten
    )
    exact = partial(_surveyed, log, column_map)
    return Scan(coded.select, tuple(apis), values_are_json=True, exact=exact, coded=coded)


def _field_columns(columns: Sequence[Column], column_map: ColumnMap) -> dict[str, Column]:
    names = {column.name: column for column in columns if not column.is_attribute}
    named = {field: names.get(column_map.name_of(field)) for field in FIELDS}
    return {field: column for field, column in named.items() if column is not None}


def _scan(log: LogFile, column_map: ColumnMap, survey: Survey) -> Scan:
    apis = _api_columns(survey.columns, column_map)
    names = [column.name for column in apis]
    if not names:
        raise InputError(f"{log.label}: no column is an API")
    if len(names) > MAX_APIS:
        raise too_many_apis(log)
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise InputError(
            f"{log.label}: two columns are called {twice[0]!r}",
            hint=f"one is nested, or in `{ATTRIBUTES}`; --no-flatten leaves nested members whole",
        )
    fields = _field_columns(survey.columns, column_map)
    table = reader_of(log).read_table(log, list(fields.values()), apis, survey)
    texts = select_fields({field: table.text[column] for field, column in fields.items()})
    values = ", ".join(
        f"{_value(table.value[column], log, column_map)} AS v{i}" for i, column in enumerate(apis)
    )
    row = f", {ROW}" if table.by_column else ""
    return Scan(
        f"SELECT NULL::VARCHAR AS problem, {texts}, {values}{row} FROM {table.relation}",  # noqa: S608 -- names are quoted where the table is made
        tuple(names),
        values_are_json=log.format == "jsonl",
        plain=frozenset(i for i, column in enumerate(apis) if column in table.plain),
        exact=partial(_scan, log, column_map, survey.exact),
        by_column=table.by_column,
    )


def _api_columns(columns: Sequence[Column], column_map: ColumnMap) -> list[Column]:
    fields = {column_map.name_of(field) for field in FIELDS}
    no_apis = fields | column_map.ignore | {""}
    if any(column.is_attribute for column in columns):
        no_apis = no_apis | {ATTRIBUTES}
    return [column for column in columns if column.is_attribute or column.name not in no_apis]


def _value(expression: str, log: LogFile, column_map: ColumnMap) -> str:
    if log.format == "jsonl" and column_map.null == "absent":
        return f"NULLIF({expression}, 'null')"
    return expression
