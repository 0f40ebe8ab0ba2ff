"""A database file that somebody else made runs nothing: it holds tables, or it is refused."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import duckdb
import pytest

from fpmonitor.cli import run
from fpmonitor.cli.context import open_monitor
from fpmonitor.duckdb_connection import connect
from fpmonitor.sql import quote_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECRET = "planted-secret-4e1d"
RECORD = '{"user": "u", "Screen.width": "1"}\n'


def stored_record(folder: Path) -> Path:
    """Database of one record."""
    db, log = folder / "d.duckdb", folder / "log.jsonl"
    log.write_text(RECORD)
    assert run(["ingest", str(log), "--db", str(db)]) == 0
    return db


def with_view(connection: duckdb.DuckDBPyConnection, read: str) -> None:
    columns = connection.execute("DESCRIBE batch").fetchall()
    cells = [f"({read})" if kind == "VARCHAR" else f"NULL::{kind}" for _, kind, *_ in columns]
    names = ", ".join(f"{cell} AS {name}" for cell, (name, *_) in zip(cells, columns, strict=True))
    connection.execute("DROP TABLE batch CASCADE")
    connection.execute(f"CREATE VIEW batch AS SELECT {names}")


def with_macro(connection: duckdb.DuckDBPyConnection, read: str) -> None:
    connection.execute(f"CREATE MACRO replace(a, b, c) AS ({read})")


def with_macro_of_the_catalog(connection: duckdb.DuckDBPyConnection, read: str) -> None:
    for name in ("duckdb_views", "duckdb_functions", "duckdb_triggers"):
        connection.execute(f"CREATE MACRO {name}() AS TABLE SELECT 1 AS one LIMIT 0")
    connection.execute(f"CREATE MACRO current_setting(name) AS ({read})")


def with_trigger(connection: duckdb.DuckDBPyConnection, read: str) -> None:
    try:
        connection.execute(
            "CREATE TRIGGER t AFTER INSERT ON batch FOR EACH STATEMENT "
            f"INSERT INTO source SELECT 9, ({read})"
        )
    except duckdb.ParserException:
        pytest.skip("this DuckDB has no triggers")


@pytest.mark.parametrize("tamper", [with_view, with_macro, with_macro_of_the_catalog, with_trigger])
def test_a_file_with_anything_but_tables_is_refused_before_it_is_asked(
    tamper: Callable[[duckdb.DuckDBPyConnection, str], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    db, more = stored_record(tmp_path), tmp_path / "more.jsonl"
    more.write_text(RECORD.replace("u", "v"))
    secret = tmp_path / "secret.txt"
    secret.write_text(SECRET)
    with duckdb.connect(db) as connection:
        tamper(connection, f"SELECT content FROM read_text({quote_text(str(secret))})")
    capsys.readouterr()
    for command in (["db", "batches"], ["db", "apis"], ["ingest", str(more)], ["db", "compact"]):
        assert run([*command, "--db", str(db)]) == 2, command
        shown = capsys.readouterr()
        assert "tampered with" in shown.err
        assert SECRET not in shown.out + shown.err


@pytest.mark.parametrize("name", ["d.duckdb", "link.duckdb"])
def test_what_the_log_of_a_file_adds_is_looked_at_by_whichever_name_it_is_opened(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file itself stays as this process left it."""
    db, asked = stored_record(tmp_path), tmp_path / "other" / name
    asked.parent.mkdir()
    asked.symlink_to(db)
    assert run(["db", "apis", "--db", str(asked)]) == 0
    with duckdb.connect(db) as connection:
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        connection.execute("CREATE VIEW harmless AS SELECT 1")
    assert db.with_name(f"{db.name}.wal").exists()
    capsys.readouterr()
    assert run(["db", "apis", "--db", str(asked)]) == 2
    assert "tampered with" in capsys.readouterr().err


@pytest.mark.parametrize("column", ["meta.value", "batch.read"])
def test_a_file_that_lost_a_column_is_an_error_in_one_line(
    column: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = stored_record(tmp_path)
    table, name = column.split(".")
    with duckdb.connect(db) as connection:
        connection.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
    capsys.readouterr()
    failed = 0
    for command in (["db", "batches"], ["db", "apis"], ["db", "verify"]):
        code = run([*command, "--db", str(db)])
        told = capsys.readouterr().err
        assert code in {0, 2, 3}, told
        assert code != 2 or ("lacks a part of its schema" in told and told.count("\n") == 1)
        failed += code == 2
    assert failed


@pytest.mark.parametrize("version", ["x", "-5", "0", "", "1e3", "9" * 5000])
def test_a_schema_that_is_no_number_is_an_error_in_one_line(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = stored_record(tmp_path)
    with duckdb.connect(db) as connection:
        connection.execute(
            "UPDATE meta SET value = $version WHERE name = 'schema_version'", {"version": version}
        )
    capsys.readouterr()
    assert run(["db", "apis", "--db", str(db)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_no_connection_loads_an_extension_by_itself(tmp_path: Path) -> None:
    for database in (":memory:", tmp_path / "d.duckdb"):
        with connect(database) as connection:
            names = ("autoinstall_known_extensions", "autoload_known_extensions")
            for name in names:
                found = connection.execute(f"SELECT current_setting('{name}')").fetchall()
                assert found == [(False,)], name


def test_a_question_opens_no_other_file(tmp_path: Path) -> None:
    db = stored_record(tmp_path)
    with open_monitor(db) as monitor:
        with pytest.raises(duckdb.PermissionException):
            monitor.database._fetch(f"FROM read_text({quote_text(str(tmp_path / 'log.jsonl'))})")
        assert monitor.population().users == 1


def test_what_lies_in_place_of_an_undo_file_is_not_written_through_and_hangs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, log, other = tmp_path / "d.duckdb", tmp_path / "log.jsonl", tmp_path / "other"
    undo = tmp_path / "d.duckdb.undo"
    other.write_bytes(b"mine")
    for number in range(2):
        if number:
            undo.symlink_to(other)
        log.write_text(f'{{"user":"u{number}","a":1}}\n', encoding="utf-8")
        assert run(["ingest", str(log), "--db", str(path)]) == 0
        assert not undo.is_symlink()
    assert other.read_bytes() == b"mine"
    capsys.readouterr()
    os.mkfifo(undo)
    assert run(["db", "apis", "--db", str(path)]) == 2
    undo.unlink()
    undo.write_bytes(hashlib.sha256(b"x").digest() + b"x")
    assert run(["db", "apis", "--db", str(path)]) == 2
    told = capsys.readouterr().err.splitlines()
    assert ["named pipe" in told[0], "tampered" in told[1], len(told)] == [True, True, 2]
