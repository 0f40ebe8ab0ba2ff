"""Every file in queries/ is one statement that something runs."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from fpmonitor.sql import parameters_of, quote_name, quote_text, schema_statements, statement
from fpmonitor.store.database import SCHEMA_VERSION

ROOT = Path(__file__).parents[2]
QUERIES = ROOT / "queries"
NAMES = sorted(
    path.relative_to(QUERIES).with_suffix("").as_posix() for path in QUERIES.rglob("*.sql")
)
HOLES = {
    "scan": "SELECT 1",
    "values": "SELECT 1",
    "cells": "SELECT 1",
    "ordered": "",
    "present": "a = 1",
    "joins": "",
    **dict.fromkeys(["told", "all_rows", "persons", "groups"], "SELECT 1"),
    "more": "",
    "name_of_place": "WHEN 1 THEN 'a'",
}


FRAGMENTS = {
    shared
    for path in QUERIES.rglob("*.sql")
    for shared in re.findall(r"\{([a-z_]+/[a-z_]+)\}", path.read_text(encoding="utf-8"))
}


def source_of(name: str) -> str:
    return (QUERIES / f"{name}.sql").read_text(encoding="utf-8")


def holes_of(name: str) -> set[str]:
    return set(re.findall(r"\{([a-z_]+)\}", source_of(name)))


def test_there_are_queries() -> None:
    assert len(NAMES) > 40


def private_store() -> sqlite3.Connection:
    """All tables of `private/`; one statement at a time is what `execute` takes."""
    connection = sqlite3.connect(":memory:")
    for name in NAMES:
        if name.startswith("private/create_"):
            connection.execute(statement(name))
    return connection


def test_queries_are_one_statement_with_its_parameters() -> None:
    with closing(private_store()) as store:
        for name in sorted({*NAMES} - FRAGMENTS):
            text = statement(name, **{hole: HOLES.get(hole, "dummy") for hole in holes_of(name)})
            if name.startswith("private/"):  # for SQLite
                store.execute(f"EXPLAIN {text}", dict.fromkeys(parameters_of(name)))
            else:
                statements = duckdb.extract_statements(text)
                assert len(statements) == 1, name
                assert statements[0].named_parameters == parameters_of(name), name


def test_queries_have_a_user() -> None:
    code = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("fpmonitor", "collectors", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
    )
    schema = {
        text.rstrip()
        for version in range(1, SCHEMA_VERSION + 1)
        for text in schema_statements(version)
    }
    for name in NAMES:
        used = f'"{name}"' in code or name in FRAGMENTS
        assert source_of(name).rstrip() in schema if name.startswith("schema/") else used, name


def test_queries_end_without_a_semicolon_and_have_no_python_formatting() -> None:
    for name in NAMES:
        text = source_of(name)
        assert ";" not in re.sub(r"--.*", "", text), name
        assert "%s" not in text, name


def test_an_unfilled_hole_is_an_error() -> None:
    with pytest.raises(KeyError):
        statement("ingest/stage", scan="SELECT 1")


@pytest.mark.parametrize("odd", ["plain", 'a"b', "a'b", "a b", "é", "select", '""', "{x}", "$x"])
def test_quoted_names_and_texts_come_back(odd: str) -> None:
    with duckdb.connect() as connection:
        result = connection.execute(f"SELECT {quote_text(odd)} AS {quote_name(odd)}")
        assert [column[0] for column in result.description] == [odd]
        assert result.fetchall() == [(odd,)]
