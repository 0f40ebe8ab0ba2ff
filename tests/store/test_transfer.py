"""Exported data come back as they were, once, and only if they are what was exported."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fpmonitor.cli import run
from fpmonitor.errors import InputError, StoreError
from fpmonitor.monitor import Monitor
from fpmonitor.store.content import read_content
from fpmonitor.store.database import SCHEMA_VERSION, Database
from fpmonitor.store.transfer import TABLES, export_data, import_data, read_export
from fpmonitor.store.upkeep import forget_user, verify_database

ROOT = Path(__file__).parents[2]
LOG = str(ROOT / "fixtures" / "logs" / "browsers-3.parquet")
FIRST = [
    {"user": "ann", "time": "2026-03-01T00:00:00Z", "source": "lib 1", "A.a": 1, "B.b": "x"},
    {"user": "bob", "time": "2026-03-01T00:00:00Z", "A.a": 2, "B.b": None},
    {"user": "eve", "A.a": 1},
]
SECOND = [
    {"user": "ann", "time": "2026-03-01T00:00:00Z", "source": "lib 1", "A.a": 3, "C.c": [1, 2]},
    {"user": "dan", "time": "2026-03-04T00:00:00Z", "source": "lib 2", "A.a": 4, "B.b": "x"},
]
THIRD = [
    {"user": "bob", "time": "2026-03-05T00:00:00Z", "A.a": 5, "D.d": True},
    {"user": "ann", "time": "2026-03-01T00:00:00Z", "source": "lib 1", "A.a": 4, "B.b": "x"},
]

Records = list[dict[str, Any]]


def write(path: Path, records: Records, *, broken: int = 0) -> str:
    lines = [json.dumps(record) for record in records] + ["broken"] * broken
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def store(path: Path, *logs: str) -> None:
    with Monitor(path, create=True) as monitor:
        for log in logs:
            monitor.ingest([log])


def export(path: Path, folder: Path) -> Path:
    with Monitor(path) as monitor:
        export_data(monitor.database, folder)
    return folder


def take(path: Path, folder: Path) -> dict[str, int]:
    with Monitor(path, create=True) as monitor:
        return import_data(monitor.database, folder, read_export(folder))


def digests(path: Path) -> tuple[str, str]:
    """Of all that is stored, and of the latest values of the users."""
    with Monitor(path) as monitor:
        content, flaws = verify_database(monitor.database)
        assert not any(flaws.values())
        return content.digest, monitor.population().digest


def observations(path: Path) -> list[tuple[Any, ...]]:
    """Everything that was observed, with users as the database keeps them."""
    with Database(path) as database:
        return database._fetch("""
            SELECT user.digest, visit."time", source.name, api.name, status, text
            FROM observation JOIN value USING (api_id, value_id) JOIN api USING (api_id)
            JOIN visit USING (visit_id) JOIN user USING (user_id) LEFT JOIN source USING (source_id)
            ORDER BY ALL""")


def test_visits_keep_their_names_and_are_found_by_them_again(tmp_path: Path) -> None:
    """A visit that is told of again, later, adds what is new of it: after a transfer, too."""
    view = {"user": "u", "visit_id": "v", "session_id": "s"}
    first = [{**view, "time": 1_700_000_000, "api": "A.a", "value": 1}]
    again = [
        {**view, "time": 1_700_000_060, "api": "A.a", "value": 1},
        {**view, "time": 1_700_000_060, "api": "B.b", "value": 2},
        {**view, "user": "w", "time": 1_700_000_060, "api": "A.a", "value": 1},
    ]
    store(tmp_path / "a.duckdb", write(tmp_path / "1.jsonl", first))
    folder = export(tmp_path / "a.duckdb", tmp_path / "export")
    take(tmp_path / "b.duckdb", folder)
    for name in "ab":
        path = tmp_path / f"{name}.duckdb"
        with Monitor(path) as monitor:
            [batch] = monitor.ingest([str(write(tmp_path / "2.jsonl", again))])
            assert (batch.stored, batch.duplicates) == (2, 1)
            assert monitor.population().snapshot.visits == 2
        assert {row[1].second for row in observations(path) if row[3] == "B.b"} == {20}
        assert take(path, folder)["visits"] == 0
    assert digests(tmp_path / "a.duckdb") == digests(tmp_path / "b.duckdb")
    merged = export(tmp_path / "a.duckdb", tmp_path / "both")
    assert take(tmp_path / "b.duckdb", merged)["visits"] == 0
    with Database(tmp_path / "b.duckdb") as database:
        assert len(database._fetch("SELECT * FROM page_view")) == 2
    assert (
        run(
            [
                "db",
                "forget",
                "--batch",
                str(tmp_path / "2.jsonl"),
                "--db",
                str(tmp_path / "b.duckdb"),
            ]
        )
        == 0
    )
    with Database(tmp_path / "b.duckdb") as database:
        assert len(database._fetch("SELECT * FROM page_view")) == 1


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database and its export, to be copied."""
    made = tmp_path_factory.mktemp("made")
    path = made / "a.duckdb"
    store(path, write(made / "1.jsonl", FIRST, broken=1), write(made / "2.jsonl", SECOND))
    export(path, made / "export")
    return made


@pytest.fixture
def db(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made / "a.duckdb", tmp_path))


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "export", tmp_path / "export"))


def test_every_table_is_exported_or_made_anew(db: Path) -> None:
    with Monitor(db) as monitor:
        monitor.population()
    with Database(db) as database:
        tables = {name for name in database.tables() if not name.startswith(("snapshot", "kept"))}
    assert tables == set(TABLES)


@pytest.mark.long
def test_thousands_of_browsers_come_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, folder = tmp_path / "a.duckdb", tmp_path / "b.duckdb", tmp_path / "export"
    assert run(["ingest", LOG, "--db", str(first), "--quiet"]) == 0
    capsys.readouterr()
    assert run(["db", "copy-out", str(folder), "--db", str(first), "--quiet"]) == 0
    manifest = json.loads(capsys.readouterr().out)
    assert manifest == json.loads((folder / "manifest.json").read_text())
    rows = manifest["files"]["observation"]["rows"]
    assert rows > 100_000
    assert run(["db", "copy-in", str(folder), "--db", str(second)]) == 0
    assert json.loads(capsys.readouterr().out)["observations"] == rows
    before = digests(first)
    assert digests(second) == before
    assert before[0] == manifest["digest"]
    assert run(["db", "copy-in", str(folder), "--db", str(second)]) == 0
    assert set(json.loads(capsys.readouterr().out).values()) == {0, 1}
    assert digests(second) == before


values = st.one_of(st.none(), st.integers(0, 3), st.text(max_size=3), st.lists(st.integers(0, 1)))
records = st.fixed_dictionaries(
    {"user": st.sampled_from("abcd"), "A.a": values},
    optional={
        "time": st.sampled_from(["2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"]),
        "source": st.sampled_from(["s", "t"]),
        "B'b\"": values,
        "ü": values,
    },
)


@pytest.mark.long
@settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(logs=st.lists(st.lists(records, min_size=1, max_size=6), min_size=1, max_size=4))
def test_any_data_come_back(logs: list[Records], tmp_path_factory: pytest.TempPathFactory) -> None:
    tmp_path = tmp_path_factory.mktemp("any")
    paths = [write(tmp_path / f"{i}.jsonl", log, broken=i % 2) for i, log in enumerate(logs)]
    store(tmp_path / "a.duckdb", *paths)
    folder = export(tmp_path / "a.duckdb", tmp_path / "export")
    take(tmp_path / "copy.duckdb", folder)
    with Database(tmp_path / "a.duckdb") as first, Database(tmp_path / "copy.duckdb") as second:
        assert read_content(first) == read_content(second)
    assert observations(tmp_path / "a.duckdb") == observations(tmp_path / "copy.duckdb")
    take(tmp_path / "copy.duckdb", folder)
    assert observations(tmp_path / "a.duckdb") == observations(tmp_path / "copy.duckdb")


@pytest.mark.long
@settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    shared=st.lists(records, min_size=1, max_size=5),
    left=st.lists(records, min_size=1, max_size=5),
    right=st.lists(records, min_size=1, max_size=5),
)
def test_two_databases_of_one_key_become_what_one_would_be(
    shared: Records, left: Records, right: Records, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tmp_path = tmp_path_factory.mktemp("two")
    logs = [write(tmp_path / f"{i}.jsonl", log) for i, log in enumerate((shared, left, right))]
    one, two, three = (tmp_path / f"{name}.duckdb" for name in ("one", "two", "three"))
    store(one, logs[0])
    for path in (two, three):
        take(path, export(one, tmp_path / f"to-{path.stem}"))
    store(one, logs[1], logs[2])
    store(two, logs[1])
    store(three, logs[2])
    take(two, export(three, tmp_path / "back"))
    assert observations(two) == observations(one)
    assert digests(two)[1] == digests(one)[1], "and of equal times the last log counts"
    take(two, tmp_path / "back")
    assert observations(two) == observations(one)


def test_a_merge_adds_what_is_new_and_keeps_what_is_there(
    db: Path, folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "b.duckdb"
    take(other, folder)
    store(other, write(tmp_path / "3.jsonl", THIRD, broken=2))
    report = take(db, export(other, tmp_path / "later"))
    rows = {"users": 0, "visits": 1, "observations": 3}
    assert report == {"batches": 1, "known_batches": 2} | rows
    assert observations(db) == observations(other)
    digests(db)
    with Database(db) as database:
        assert len(database.rows("report/rejects", most=9)) == 3


def test_what_was_forgotten_stays_forgotten(db: Path, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "b.duckdb"
    take(other, folder)
    store(other, write(tmp_path / "3.jsonl", THIRD))
    later = export(other, tmp_path / "later")
    with Monitor(db) as monitor:
        assert forget_user(monitor.database, "ann") == 1
    take(db, later)
    found = {(str(row[1])[:10], row[3], row[5]) for row in observations(db)}
    assert ("2026-03-05", "A.a", "5") in found, "of the new batch all"
    assert not {row for row in found if row[0] == "2026-03-01" and row[1] == "C.c"}
    with Database(db) as database:
        texts = {text for (text,) in database._fetch("SELECT text FROM value")}
    assert "[1,2]" not in texts, "nor comes their value back"
    digests(db)


def test_demand_answers_and_watches_move_with_the_data(tmp_path: Path) -> None:
    path, other = tmp_path / "a.duckdb", tmp_path / "b.duckdb"
    with Database(path, create=True) as database:
        for text in (
            "INSERT INTO demand_batch VALUES (1, 'd', 's', 'c', '2026-03-01', 1, 1, 0)",
            "INSERT INTO demand VALUES (1, 'site', 'script', 'A.a', 2)",
            "INSERT INTO answered_query VALUES ('r', 'q', '2026-03-01')",
            "INSERT INTO watched_file VALUES ('/x', 1, 2, NULL)",
            "INSERT INTO notice VALUES (1, 'd', '{}', '{}', false)",
        ):
            database._execute(text)
    folder = export(path, tmp_path / "export")
    take(other, folder)
    take(other, folder)
    with Database(path) as first, Database(other) as second:
        assert read_content(first) == read_content(second)
        for table in ("demand", "answered_query", "watched_file", "notice"):
            [rows] = {len(base._fetch(f"FROM {table}")) for base in (first, second)}
            assert rows == 1


def test_an_export_is_for_its_owner_alone(db: Path, tmp_path: Path) -> None:
    folder = export(db, tmp_path / "export")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    with duckdb.connect(db) as connection:
        [(key,)] = connection.execute("SELECT value FROM meta WHERE name = 'user_key'").fetchall()
    assert key not in (folder / "manifest.json").read_text()


def test_an_export_is_there_whole_or_not_at_all(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "export"
    with monkeypatch.context() as patched:
        patched.setattr(
            "fpmonitor.store.transfer._sha256", lambda _path: (_ for _ in ()).throw(OSError("full"))
        )
        with pytest.raises(StoreError, match="cannot write"):
            export(db, folder)
    assert [path.name for path in tmp_path.iterdir() if "export" in path.name] == []
    (tmp_path / ".export.exporting").mkdir()  # of one that was killed
    (tmp_path / ".export.exporting" / "value.parquet").write_text("half")
    export(db, folder)
    assert not (tmp_path / ".export.exporting").exists()
    read_export(folder)
    with pytest.raises(StoreError, match="already exists"):
        export(db, folder)


def tamper_byte(folder: Path) -> None:
    path = folder / "observation.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def put(path: Path, target: str | None) -> None:
    """Put a link, or a pipe that nobody writes to, in the place of a file."""
    path.unlink()
    if target is None:
        os.mkfifo(path)
    else:
        path.symlink_to(target)


def empty_pipe(folder: Path, table: str) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    put(folder / f"{table}.parquet", None)
    manifest["files"][table]["bytes"] = 0
    tamper_manifest(folder, files=manifest["files"])


def tamper_manifest(folder: Path, **members: object) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | members))


DAMAGES = {
    "changed": (tamper_byte, "'observation.parquet' is not as it was written"),
    "cut": (lambda f: (f / "user.parquet").write_bytes(b"PAR1"), "'user.parquet' is not as"),
    "missing": (lambda f: (f / "visit.parquet").unlink(), "'visit.parquet' is missing"),
    "extra": (lambda f: (f / "more.parquet").touch(), "'more.parquet' does not belong"),
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "No such file"),
    "endless manifest": (lambda f: put(f / "manifest.json", "/dev/zero"), "larger than 1 MB"),
    "piped manifest": (lambda f: put(f / "manifest.json", None), "a named pipe"),
    "piped table": (lambda f: empty_pipe(f, "visit"), "not as it was written"),
    "no JSON": (lambda f: (f / "manifest.json").write_text("{"), "not a manifest"),
    "other JSON": (lambda f: (f / "manifest.json").write_text("[1]"), "not a manifest"),
    "other kind": (lambda f: tamper_manifest(f, format="x"), "not a manifest of exported"),
    "newer": (lambda f: tamper_manifest(f, schema=SCHEMA_VERSION + 1), "upgrade fpmonitor"),
    "no tables": (lambda f: tamper_manifest(f, files={}), "its manifest is wrong about"),
    "other digest": (lambda f: tamper_manifest(f, digest="0" * 64), "not those that were exported"),
    "swapped": (
        lambda f: shutil.copy(f / "api.parquet", f / "source.parquet"),
        "'source.parquet' is not as",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_not_as_it_was_written_is_refused_and_stores_nothing(
    damage: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, message = DAMAGES[damage]
    change(folder)
    other = tmp_path / "b.duckdb"
    assert run(["db", "copy-in", str(folder), "--db", str(other)]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told
    assert len(told.splitlines()) == 1
    if other.exists():
        with Database(other) as database:
            assert not any(database._fetch(f"FROM {table}") for table in TABLES if table != "meta")


def test_tables_that_do_not_fit_are_refused_although_their_digests_are_right(
    folder: Path, tmp_path: Path
) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT 1 AS nothing) TO '{folder / 'visit.parquet'}'")
    manifest = json.loads((folder / "manifest.json").read_text())
    content = (folder / "visit.parquet").read_bytes()
    manifest["files"]["visit"] |= {
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    tamper_manifest(folder, files=manifest["files"])
    with pytest.raises(InputError, match="not an intact export"):
        take(tmp_path / "b.duckdb", folder)


def test_users_of_another_key_are_not_mixed_in(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "b.duckdb"
    store(other, write(tmp_path / "3.jsonl", THIRD))
    before = digests(other)
    with pytest.raises(InputError, match="different keys"):
        take(other, folder)
    assert digests(other) == before


def test_a_database_that_only_exists_takes_the_key(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "b.duckdb"
    store(other)
    take(other, folder)
    with Monitor(other) as monitor:
        assert forget_user(monitor.database, "bob") == 1


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE observation SET value_id = 1 WHERE value_id = 2 AND api_id = 1",
        "UPDATE visit SET time = time + INTERVAL 1 SECOND WHERE visit_id = 1",
        "UPDATE visit SET source_id = NULL",
        "INSERT INTO page_view SELECT 1, 2, 3",
        "UPDATE value SET text = text || 'x' WHERE text = 'x'",
        "UPDATE user SET digest = digest + 1 WHERE user_id = 2",
        "UPDATE reject SET reason = 'other'",
        "UPDATE batch SET source = 'other' WHERE batch_id = 1",
        "DELETE FROM observation WHERE visit_id = 3",
        "INSERT INTO observation FROM observation LIMIT 1",
    ],
)
def test_the_digest_tells_every_change(change: str, db: Path) -> None:
    with Database(db) as database:
        before = verify_database(database)[0].digest
        database._execute(change)
        assert verify_database(database)[0].digest != before


def test_a_database_that_digests_values_takes_none_in_clear(db: Path, tmp_path: Path) -> None:
    with Database(tmp_path / "b.duckdb", create=True) as database:
        database._execute("INSERT INTO meta VALUES ('value_key', 'k')")
    with pytest.raises(InputError, match="different keys"):
        take(tmp_path / "b.duckdb", export(db, tmp_path / "clear"))
    with Database(db) as database:
        database._execute("INSERT INTO meta VALUES ('value_key', 'other')")
    digested = export(db, tmp_path / "digested")
    take(tmp_path / "c.duckdb", digested)
    with Database(tmp_path / "c.duckdb") as database:
        assert database.meta("value_key") == "other", "which later ingests need"


def test_an_export_of_an_older_schema_is_taken(db: Path, folder: Path, tmp_path: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    for table in ("notice", "answered_query"):
        (folder / f"{table}.parquet").unlink()
        del manifest["files"][table]
    # Schemas up to 8 counted checks.
    shutil.copy(folder / "checked_list.parquet", folder / "certified_check.parquet")
    manifest["files"]["certified_check"] = manifest["files"]["checked_list"]
    tamper_manifest(folder, schema=SCHEMA_VERSION - 1, files=manifest["files"])
    take(tmp_path / "b.duckdb", folder)
    assert digests(tmp_path / "b.duckdb") == digests(db)
    assert take(db, folder)["batches"] == 0
