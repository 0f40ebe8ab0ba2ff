"""Upkeep: a sound database is told from a damaged one, and what is forgotten is gone."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from fpmonitor.cli import run
from fpmonitor.errors import StoreError
from fpmonitor.monitor import Monitor
from fpmonitor.store import database
from fpmonitor.store.database import Database
from fpmonitor.store.upkeep import compact_database, forget_before, forget_user

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW, GONE = "old-value-8f3a", "new-value-77d1", "gone-value-5c2e"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    rows = [
        {"user": "ann", "time": "2026-01-01T00:00:00Z", "A.a": OLD, "B.b": "both"},
        {"user": "ann", "time": "2026-03-01T00:00:00Z", "A.a": NEW, "B.b": "both"},
        {"user": "bob", "time": "2026-03-01T00:00:00Z", "A.a": GONE, "B.b": "both"},
        {"user": "eve", "A.a": "x", "B.b": "both"},
    ]
    log = tmp_path / "log.jsonl"
    broken = '{"user": "ann", "time": "when?", "A.a": "rejected-4b1c"}\n'
    log.write_text("".join(json.dumps(row) + "\n" for row in rows) + broken)
    path = tmp_path / "u.duckdb"
    with Monitor(path, create=True) as monitor:
        monitor.ingest([str(log)])
        monitor.population()
    return path


def values(path: Path) -> set[str | None]:
    with Monitor(path) as monitor:
        return {row[4] for row in monitor.observations()}


def test_a_new_database_is_for_its_owner_alone(db: Path) -> None:
    assert db.stat().st_mode & 0o777 == 0o600


def test_a_sound_database_has_no_flaw(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "verify", "--db", str(db), "--format", "json"]) == 0
    flaws = json.loads(capsys.readouterr().out)["flaws"]
    assert len(flaws) == 13
    assert not any(flaw["found"] for flaw in flaws)


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        ("DELETE FROM visit WHERE visit_id = 1", "observations without their visit"),
        ("DELETE FROM value WHERE text = 'x'", "observations without their value"),
        ("DELETE FROM user", "visits without their user"),
        ("DELETE FROM batch", "visits without their batch"),
        ("INSERT INTO observation FROM observation LIMIT 1", "observations that occur twice"),
        ("INSERT INTO visit FROM visit LIMIT 1", "visit numbers that occur twice"),
        ("UPDATE batch SET stored = 99", "batches whose counts do not add up"),
    ],
)
def test_what_contradicts_itself_is_found(
    damage: str, what: str, db: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with duckdb.connect(db) as connection:
        connection.execute(damage)
    assert run(["db", "verify", "--db", str(db), "--format", "json"]) == 1
    flaws = json.loads(capsys.readouterr().out)["flaws"]
    found = {flaw["what"] for flaw in flaws if flaw["found"]}
    assert what in found


def test_visits_before_a_time_are_forgotten_and_leave_no_byte(db: Path) -> None:
    assert OLD.encode() in db.read_bytes()
    assert run(["db", "forget", "--before", "2026-02-01", "--db", str(db), "--quiet"]) == 0
    assert values(db) == {NEW, GONE, "both", "x"}
    content = db.read_bytes()
    assert OLD.encode() not in content
    assert b"rejected-4b1c" not in content, "nor what was kept of rejected records"
    assert NEW.encode() in content
    assert run(["db", "verify", "--db", str(db)]) == 0


def test_a_user_is_forgotten_by_an_id_that_is_not_on_the_command_line(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FPMONITOR_FORGET_USER", "bob")
    assert run(["db", "forget", "--user", "--db", str(db), "--quiet"]) == 0
    assert values(db) == {OLD, NEW, "both", "x"}
    assert GONE.encode() not in db.read_bytes()
    with Monitor(db) as monitor:
        assert monitor.population().users == 2
        assert forget_user(monitor.database, "nobody") == 0
        assert forget_before(monitor.database, datetime(2020, 1, 1)) == 0  # noqa: DTZ001 -- UTC
    assert run(["db", "verify", "--db", str(db)]) == 0


@pytest.mark.long
def test_the_space_of_forgotten_rows_is_used_again_without_compacting(db: Path) -> None:
    def rows_held(database: Database) -> int:
        [(rows,)] = database._connection.execute(
            "SELECT sum(count) FROM pragma_storage_info('observation') "
            "WHERE column_name = 'visit_id' AND segment_type = 'INTEGER'"
        ).fetchall()
        return int(rows)

    with Database(db) as database:
        with database.transaction():
            database._connection.execute(
                "INSERT INTO observation SELECT o.* FROM observation AS o, range(40_000)"
            )
        before = rows_held(database)
        assert forget_user(database, "ann") == 2
    with Database(db) as database:
        assert 160_000 < rows_held(database) < before


def test_many_small_logs_do_not_take_a_block_of_each_table_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_MOST_PARTS", 4)
    path, log = tmp_path / "small", tmp_path / "log.jsonl"
    for number in range(8):
        log.write_text(f'{{"user": "u{number}", "a": "x"}}\n', encoding="utf-8")
        with Monitor(path, create=True) as monitor:
            monitor.ingest(log)
    with duckdb.connect(path, read_only=True) as connection:
        parts = connection.execute(
            "SELECT count(DISTINCT row_group_id) FROM pragma_storage_info('observation')"
        ).fetchall()
    assert parts[0][0] <= 4


def test_a_log_that_was_forgotten_is_not_stored_again_by_accident(db: Path) -> None:
    assert run(["db", "forget", "--before", "2026-02-01", "--db", str(db), "--quiet"]) == 0
    with Monitor(db) as monitor:
        [again] = monitor.ingest([str(db.with_name("log.jsonl"))])
    assert again.stored == 0
    assert OLD not in values(db)


def test_no_log_brings_a_forgotten_user_back_until_it_is_undone(
    db: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FPMONITOR_FORGET_USER", "bob")
    forget = ["db", "forget", "--user", "--db", str(db), "--quiet"]
    assert run(forget) == 0
    log = db.with_name("again.jsonl")
    rows = [{"user": user, "A.a": value} for user, value in (("bob", GONE), ("dora", "new"))]
    for name, kept in (("wide.jsonl", rows), ("more.jsonl", rows * 2), ("only.jsonl", rows[:1])):
        log = db.with_name(name)
        log.write_text("\n".join(map(json.dumps, kept)), encoding="utf-8")
        with Monitor(db) as monitor:
            [report] = monitor.ingest([str(log)])
        assert (report.rejected, report.read) == (0, len(kept))
        assert report.stored == (name == "wide.jsonl")
    assert values(db) >= {"new"}
    assert GONE.encode() not in db.read_bytes()
    capsys.readouterr()
    assert run(["db", "rejects", "--db", str(db)]) == 0
    assert "only.jsonl" not in capsys.readouterr().out
    assert run(["db", "verify", "--db", str(db)]) == 0
    assert run([*forget, "--undo"]) == 0
    log.write_text(json.dumps({"user": "bob", "A.a": GONE, "B.b": 1}), encoding="utf-8")
    with Monitor(db) as monitor:
        assert monitor.ingest([str(log)])[0].stored == 1


HOLD = """
import sys, time, duckdb
with duckdb.connect(sys.argv[1]):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize("seconds", [1, 60])
def test_who_opens_the_file_after_a_deletion_keeps_no_trace_of_it(
    db: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    seconds: int,
) -> None:
    """A service beside it may have the file before it is written anew."""
    held: list[subprocess.Popen[str]] = []

    def write_anew(path: Path, **how: Any) -> tuple[int, int]:
        command = [sys.executable, "-c", HOLD, str(path), str(seconds)]
        held.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert held[0].stdout is not None
        assert held[0].stdout.readline() == "held\n"
        return compact_database(path, **how)

    monkeypatch.setattr("fpmonitor.cli.upkeep.write_anew", write_anew)
    if seconds == 60:
        monkeypatch.setattr("fpmonitor.cli.upkeep._MOST_SECONDS_TO_REWRITE", 0.2)
    monkeypatch.setenv("FPMONITOR_FORGET_USER", "bob")
    code = run(["db", "forget", "--user", "--db", str(db), "--quiet"])
    said = capsys.readouterr().err
    if seconds == 60:
        held[0].kill()
    held[0].communicate()
    if seconds == 60:
        assert code == 2
        assert "1 visits are deleted, but the file still holds traces of them" in said
        compact_database(db)
    else:
        assert code == 0, said
        assert said.startswith("waiting for ")
    assert GONE.encode() not in db.read_bytes()


def test_what_to_forget_must_be_said(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FPMONITOR_FORGET_USER", raising=False)
    assert run(["db", "forget", "--db", str(db)]) == 2
    assert run(["db", "forget", "--user", "--db", str(db)]) == 2
    assert run(["db", "forget", "--user", "--before", "2026-01-01", "--db", str(db)]) == 2
    assert run(["db", "forget", "--before", "2026-01-01", "--undo", "--db", str(db)]) == 2


def test_compacting_keeps_everything_and_needs_the_file_for_itself(db: Path) -> None:
    with Monitor(db) as monitor:
        before, digest = monitor.observations(), monitor.population().digest
        with pytest.raises(StoreError, match="in use by another thread"):
            compact_database(db)
    assert run(["db", "compact", "--db", str(db), "--quiet"]) == 0
    with Monitor(db) as monitor:
        assert sorted(monitor.observations(), key=repr) == sorted(before, key=repr)
        assert monitor.population().digest == digest
        [again] = monitor.ingest([str(db.with_name("log.jsonl"))])
    assert again.duplicates == again.read, "the digest of the log was kept"
    assert [path.name for path in db.parent.glob("*compacting*")] == []


def test_a_file_of_another_duckdb_is_named_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Database(tmp_path / "d.duckdb", create=True):
        pass

    # As DuckDB 1.5 puts it about a file of DuckDB 2.0.
    def refuse(_database: Database, _path: Path) -> None:
        raise duckdb.IOException(
            "IO Error: Trying to read a database file with version number 999, but we can only "
            "read versions between 64 and 68."
        )

    monkeypatch.setattr(Database, "_connect", refuse)
    assert run(["db", "apis", "--db", str(tmp_path / "d.duckdb")]) == 2
    assert "another version of DuckDB" in capsys.readouterr().err


# ---- What is deleted is said before


def forget_on_terminal(answer: str, *arguments: str) -> tuple[int, str]:
    """Run the command on a terminal of its own, and answer its question."""
    main, other = pty.openpty()
    command = [sys.executable, "-P", "-m", "fpmonitor", "db", "forget", *arguments]
    process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other)
    os.write(main, f"{answer}\n".encode())
    os.close(other)
    told = b""
    with suppress(OSError):  # the other end is closed
        while part := os.read(main, 4096):
            told += part
    os.close(main)
    return process.wait(60), told.decode()


def test_what_would_be_deleted_is_said_before_and_asked_on_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, log = tmp_path / "d.duckdb", tmp_path / "log.jsonl"
    rows = [{"user": f"u{i}", "A.a": 1, "time": f"2026-01-{i + 1:02}"} for i in range(20)]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def visits() -> int:
        with Monitor(path) as monitor:
            return len(monitor.observations())

    on = ("--db", str(path))
    assert run(["ingest", str(log), *on]) == 0
    for what in (["--before", "2062-01-01"], ["--batch", str(log)], ["--key", "shop"]):
        capsys.readouterr()
        assert run(["db", "forget", *what, "--dry-run", *on]) == 0
        number = 0 if "--key" in what else 20
        assert f"this deletes {number} of 20 visits, of {number} users" in capsys.readouterr().err
        assert visits() == 20
    code, told = forget_on_terminal("n", "--before", "2062-01-01", *on)
    assert (code, visits()) == (1, 20), told
    assert "2026-01-01 to 2026-01-20" in told
    assert forget_on_terminal("", "--before", "2026-01-06", "--yes", *on)[0] == 0
    assert visits() == 15
    assert forget_on_terminal("y", "--before", "2026-01-11", *on)[0] == 0
    assert visits() == 10
    assert run(["db", "forget", "--before", "2026-01-16", *on]) == 0, "a script is not asked"
    assert visits() == 5


def test_to_forget_nobody_is_said_with_another_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, log = tmp_path / "d.duckdb", tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps({"user": f"u{i}", "A.a": 1}) + "\n" for i in range(3)))
    assert run(["ingest", str(log), "--db", str(path)]) == 0
    for user, code in (("u1", 0), ("u1", 1), ("typo", 1)):
        monkeypatch.setenv("FPMONITOR_FORGET_USER", user)
        capsys.readouterr()
        assert run(["db", "forget", "--user", "--db", str(path)]) == code
        told = capsys.readouterr().err
        assert ("nothing is stored of this user" in told) == bool(code)
        assert user not in told
