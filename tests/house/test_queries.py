"""Every file in queries/ is one statement that something runs."""

from __future__ import annotations

import re
import sqlite3
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
    "present": "a = 1",
    "having": "HAVING true",
    "joins": "",
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


@pytest.mark.parametrize("name", NAMES)
def test_query_is_one_statement_with_its_parameters(name: str) -> None:
    text = statement(name, **{hole: HOLES.get(hole, "dummy") for hole in holes_of(name)})
    if name.startswith("private/"):  # for SQLite
        private_store().execute(f"EXPLAIN {text}", dict.fromkeys(parameters_of(name)))
        return
    statements = duckdb.extract_statements(text)
    assert len(statements) == 1
    assert statements[0].named_parameters == parameters_of(name)


@pytest.mark.parametrize("name", NAMES)
def test_query_has_a_user(name: str) -> None:
    if name.startswith("schema/"):
        assert source_of(name).rstrip() in {
            text.rstrip()
            for version in range(1, SCHEMA_VERSION + 1)
            for text in schema_statements(version)
        }
        return
    users = [
        path
        for folder in ("fpmonitor", "collectors", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        if f'"{name}"' in path.read_text(encoding="utf-8")
    ]
    assert users


@pytest.mark.parametrize("name", NAMES)
def test_query_ends_without_a_semicolon_and_has_no_python_formatting(name: str) -> None:
    text = source_of(name)
    assert ";" not in re.sub(r"--.*", "", text)
    assert "%s" not in text


def test_an_unfilled_hole_is_an_error() -> None:
    with pytest.raises(KeyError):
        statement("ingest/stage", scan="SELECT 1")


@pytest.mark.parametrize("odd", ["plain", 'a"b', "a'b", "a b", "é", "select", '""', "{x}", "$x"])
def test_quoted_names_and_texts_come_back(odd: str) -> None:
    with duckdb.connect() as connection:
        result = connection.execute(f"SELECT {quote_text(odd)} AS {quote_name(odd)}")
        assert [column[0] for column in result.description] == [odd]
        assert result.fetchall() == [(odd,)]
