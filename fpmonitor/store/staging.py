"""Stages the records of logs and their different values, in one form."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import duckdb

from fpmonitor.errors import InputError
from fpmonitor.logs.contract import LARGE_VALUE_BYTES, MAX_APIS, ROW, Scan
from fpmonitor.safe_files import canonical_text
from fpmonitor.sql import statement
from fpmonitor.store.accounts import Staged
from fpmonitor.store.digests import digest_staged_values
from fpmonitor.vocabulary import known_apis

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fpmonitor.logs.log_file import LogFile
    from fpmonitor.store.database import Database

_AT_ONCE = 64  # columns of a statement
_RECORDS_A_COLUMN = 10


def stage_all(database: Database, scan: Scan) -> Scan:
    """Stage the records of a log in a transaction of their own; those of forgotten users go.

    Returns how they were read, in the end.
    """
    _forget_refused(database)
    try:
        with database.transaction():
            _stage(database, scan)
            if database.rows("ingest/any_forgotten")[0][0]:
                database.run("ingest/mark_forgotten")
    except duckdb.InvalidInputException:
        if scan.otherwise is None:
            raise
        return stage_all(database, scan.otherwise())
    return scan


def _forget_refused(database: Database) -> None:
    """Forget which records of an earlier log, stored or not, the reader refused."""
    if database.has_table("reject_errors"):
        database.run("ingest/forget_refused")


def _stage(database: Database, scan: Scan) -> None:
    columns: Sequence[str] = ["api", "status", "value"]
    if scan.apis is not None:
        columns = value_columns(scan)
    columns = [*columns, *(f"s{place}" for place in range(len(scan.spare)))]
    # Values that can be read by column stay in the log until it is known which are stored.
    if scan.by_column:
        columns = [ROW]
    named = "ingest/name_visits" if scan.names_visits else "ingest/name_no_visits"
    fragments = {"scan": statement(named, scan=scan.select), "columns": ", ".join(columns)}
    database.run("ingest/stage", key=database.meta("user_key"), fragments=fragments)


def values_of_column(scan: Scan, column: str, *, together: bool = False) -> dict[str, str]:
    """Fragments of statements on one column: its values in records that can be stored, by place.

    A view of all columns would be bound anew for each of them, in seconds where they are many.
    """
    # With one, a CSV of 60 rows and 2,000 columns took 192 s in place of 21 s.
    log = "log" if together else "0"
    staged = f"SELECT rowid AS log_row, {log} AS log, {column} FROM staged WHERE problem IS NULL"  # noqa: S608 -- numbered
    return {"column": column, "values": "FROM log_value" if scan.by_column else staged}


def cells_of_columns(
    database: Database, scan: Scan, apis: Mapping[str, int], *, together: bool = False
) -> Iterator[dict[str, str]]:
    """Yield fragments of statements on the columns of some APIs, one or several at once.

    Args:
        database, scan: The open database, in which a wide log is staged.
        apis: APIs that count -> their numbers.
        together: Whether the records are those of several logs.
    """
    columns = [
        (apis[name], column)
        for name, column in zip(scan.apis or (), value_columns(scan), strict=True)
        if name in apis
    ]
    at_once = 1
    # A statement binds all columns of the table, 2 µs each: two for each of 3,000 took 37 s. With
    # several columns in one a cell takes 0.2 to 0.7 µs more: 0.3 s for 20,000 records x 100.
    if len(columns) > _AT_ONCE and not scan.by_column:
        [(records, _)] = database.rows("ingest/count_problems")
        at_once = _AT_ONCE if records <= _RECORDS_A_COLUMN * len(columns) else 1
    for start in range(0, len(columns), at_once):
        numbers, names = zip(*columns[start : start + at_once], strict=True)
        listed, numbered = ", ".join(names), ", ".join(map(str, numbers))
        values = values_of_column(scan, listed, together=together)["values"]
        cells, order = f"{numbered} AS api_id, {listed} AS raw", ""
        if at_once > 1:
            cells = f"unnest([{numbered}]) AS api_id, unnest([{listed}]) AS raw"
            cells += f", unnest(range({len(names)})) AS place"
            order = "ORDER BY place, log_row"
        yield {
            "cells": f"SELECT log_row, log, {cells} FROM ({values})",  # noqa: S608 -- numbered
            "apis": numbered,
            "ordered": order,
        }


def value_columns(scan: Scan) -> Sequence[str]:
    """Columns of a staged wide log that hold the values of its APIs."""
    return [f"v{i}" for i in range(len(scan.apis or ()))]


def _number_apis(database: Database, log: LogFile, scan: Scan) -> dict[str, int]:
    most = MAX_APIS + len(known_apis())
    names = (
        list(scan.apis)
        if scan.apis is not None
        else [row[0] for row in database.rows("ingest/staged_api_names", most=most + 1)]
    )
    database.run("ingest/add_apis", names=names)
    if database.rows("ingest/count_apis", vocabulary=list(known_apis()))[0][0] > MAX_APIS:
        raise InputError(
            f"{log.label}: more than {MAX_APIS:,} APIs in one database",
            hint="nothing of this file was stored; does it name APIs where values should be?",
        )
    numbers = {name: number for number, name in database.rows("snapshot/apis")}
    return {name: numbers[name] for name in names}


def stage_values(database: Database, logs: Sequence[LogFile], scan: Scan) -> Staged:
    """Stage the different values of logs whose records are staged."""
    known = frozenset(name for _, name in database.rows("snapshot/apis"))
    apis = _number_apis(database, logs[0], scan)
    stage_users(database)
    database.run("ingest/create_raw_value")
    if scan.by_column:
        database.run("ingest/find_unusable")
        database.run("ingest/view_values", fragments={"values": scan.select})
    if scan.apis is None:
        database.run("ingest/add_raw_values_long", json=scan.values_are_json)
    else:
        for cells in cells_of_columns(database, scan, apis, together=len(logs) > 1):
            json_values = scan.values_are_json
            database.run("ingest/add_raw_values_wide", fragments=cells, json=json_values)
    database.run("ingest/read_values")
    nested = [row[0] for row in database.rows("ingest/nested_values")]
    database.run(
        "ingest/canonical_values",
        large=LARGE_VALUE_BYTES,
        texts=nested,
        canonical=[canonical_json(text) for text in nested],
    )
    return Staged(
        labels=[log.label for log in logs],
        scan=scan,
        apis=apis,
        known=known,
        values_of=partial(values_of_column, scan),
    )


def stage_users(database: Database) -> None:
    """Stage the visits and the users of the records that can be stored."""
    database.run("ingest/stage_visits")
    database.run("ingest/stage_users")


def code_values(database: Database) -> None:
    """Give numbers to the values that are to be stored."""
    digest_staged_values(database)
    database.run("ingest/add_values")
    database.run("ingest/code_values")


def canonical_json(text: str) -> str:
    """Return a JSON object or array with sorted members and no white space; other text as it is."""
    try:
        canonical = canonical_text(json.loads(text))
        canonical.encode()  # half of a character, escaped in the text, cannot be stored
    except (ValueError, RecursionError):
        return text
    return canonical
