"""JSON lines are read strictly, and where they are not so simple by pointers: alike."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fpmonitor.collectors import json_lines
from fpmonitor.collectors.readers import reader_of
from fpmonitor.collectors.tables import Column, LogTable
from fpmonitor.duckdb_connection import in_memory
from fpmonitor.logs.log_file import LogFile

if TYPE_CHECKING:
    from pathlib import Path

value = st.recursive(
    st.sampled_from(
        ["", "x", "null", "ä\n", '"', "1.0", 1, 1.0, 2.5, 1e22, -0.0, True, None, 10**18]
    ),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("pq"), inner),
    max_leaves=4,
)
record = st.fixed_dictionaries(
    {"user": st.sampled_from(["u", 1, None, "ü"])},
    optional={"a": value, "b.c": value, "d": st.dictionaries(st.sampled_from(["e", "f g"]), value)},
)
line = st.one_of(record.map(json.dumps), st.sampled_from(["", "{broken", "[1]", '"x"', "{}"]))


def cells(table: LogTable, texts: list[Column], values: list[Column]) -> list[tuple[Any, ...]]:
    listed = [
        *(table.text[column] for column in texts),
        *(table.value[column] for column in values),
    ]
    with in_memory() as connection:
        return connection.execute(f"SELECT {', '.join(listed)} FROM {table.relation}").fetchall()


def test_more_members_than_there_may_be_apis_are_shown_to_no_sniffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB took minutes to find the types of 100,000 members of one record."""
    many = json.dumps(dict.fromkeys(map(str, range(5_000)), 1))
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"user": "u", "a": "{"x" * 300_000}"}}\n{many}\n', encoding="utf-8")
    assert json_lines.plain_columns(LogFile(path, "a")) == [Column("a"), Column("user")]
    path.write_text(f"{many}\n", encoding="utf-8")
    monkeypatch.setattr(json_lines, "in_memory", pytest.fail)
    assert json_lines.plain_columns(LogFile(path, "a")) is None


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(lines=st.lists(line, min_size=1, max_size=6), late=st.lists(line, max_size=2))
def test_a_strict_reading_finds_the_same_or_none(
    tmp_path: Path, lines: list[str], late: list[str]
) -> None:
    """It sees some first records alone, of which `late` are none."""
    path, first = tmp_path / "a.jsonl", tmp_path / "first.jsonl"
    first.write_text("\n".join(lines) + "\n", encoding="utf-8")
    path.write_text("\n".join([*lines, *late]) + "\n", encoding="utf-8")
    columns = json_lines.plain_columns(LogFile(first, "a"))
    if columns is None or Column("user") not in columns:
        return
    log, texts = LogFile(path, "a"), [Column("user")]
    strict = json_lines.read_strictly([log], columns)
    relation = re.sub(r"sample_size = \d+", f"sample_size = {len(lines)}", strict.relation)
    try:
        found = cells(replace(strict, relation=relation), texts, columns)
    except duckdb.InvalidInputException:
        return
    assert set(reader_of(log).survey(log)) == set(columns)
    assert found == cells(reader_of(log).read_table([log], texts, columns), texts, columns)


def test_names_that_differ_in_case_alone_are_read_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"user":"u","A":1,"a":2,"b":{"C":3,"c":null}}\n')
    log = LogFile(path, "a")
    values = [Column("A"), Column("a"), Column("b").within("C"), Column("b").within("c")]
    table = reader_of(log).read_table([log], [Column("user")], values)
    assert cells(table, [Column("user")], values) == [("u", "1", "2", "3", None)]
