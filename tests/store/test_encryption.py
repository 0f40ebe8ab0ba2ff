"""Encrypted databases: all that is stored is unreadable without the key, and works with it.

Where DuckDB has its secure ciphers these tests use them. Elsewhere they let it encrypt with the
ones that it reads by, which fpmonitor itself never does: all other code on the way is the same.
"""

from __future__ import annotations

import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import duckdb
import pytest

from fpmonitor.cli import run
from fpmonitor.errors import BusyError, InputError, StoreError
from fpmonitor.monitor import Monitor
from fpmonitor.secret_files import make_key_file
from fpmonitor.store import checkpoint, encryption
from fpmonitor.store.database import Database
from fpmonitor.store.encryption import load_cipher, read_key_file
from fpmonitor.store.upkeep import verify_database

if TYPE_CHECKING:
    from pathlib import Path

PLANTED = "planted-value-zqxj"


def _has_cipher() -> bool:
    with duckdb.connect() as connection:
        try:
            load_cipher(connection)
        except StoreError:
            return False
    return True


HAS_CIPHER = _has_cipher()


def _load_any_cipher(connection: duckdb.DuckDBPyConnection) -> None:
    if HAS_CIPHER:
        load_cipher(connection)
    else:
        connection.execute("SET force_mbedtls_unsafe = 'true'")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key_file(tmp_path / "key")
    return tmp_path / "key"


@pytest.fixture
def cipher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "load_cipher", _load_any_cipher)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    lines = [f"u{user},{PLANTED}-{user % 7}" for user in range(500)]
    path.write_text("\n".join(["user,Screen.width", *lines]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def db(tmp_path: Path, key: Path, log: Path, cipher: None) -> Path:
    del cipher
    path = tmp_path / "store.duckdb"
    assert with_key(key, "ingest", str(log), "--db", str(path), "-q") == 0
    return path


def with_key(key: Path, *arguments: str) -> int:
    return run(["--key-file", str(key), *arguments])


def test_no_value_stands_in_the_file_and_questions_are_answered(
    db: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert PLANTED.encode() not in db.read_bytes()
    assert stat.S_IMODE(db.stat().st_mode) == 0o600
    capsys.readouterr()
    question = [
        "exposure",
        "--apis",
        "Screen.width",
        "--k",
        "2",
        "--db",
        str(db),
        "--format",
        "csv",
    ]
    assert with_key(key, *question) == 0
    assert ",500," in capsys.readouterr().out
    assert with_key(key, "db", "verify", "--db", str(db)) == 0


def test_the_log_of_a_killed_writer_is_encrypted_and_taken_in(db: Path, key: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; import fpmonitor.store.encryption as e\n"
        "from fpmonitor.store.database import Database\n"
        f"if not {HAS_CIPHER}:\n"
        "    e.load_cipher = lambda c: c.execute(\"SET force_mbedtls_unsafe = 'true'\")\n"
        "database = Database(Path(sys.argv[1]), key_file=Path(sys.argv[2]))\n"
        f"database._execute(\"INSERT INTO meta VALUES ('mark', '{PLANTED}')\")\n"
        "os._exit(0)\n"
    )
    command = [sys.executable, "-P", "-c", program, str(db), str(key)]
    subprocess.run(command, check=True, cwd=db.parent)
    written_ahead = db.with_name(f"{db.name}.wal").read_bytes()
    assert written_ahead
    assert PLANTED.encode() not in written_ahead
    with Database(db, key_file=key) as database:
        assert database.meta("mark") == PLANTED


def test_a_checkpoint_that_was_cut_short_is_undone(db: Path, key: Path, tmp_path: Path) -> None:
    """By the oldest and the newest DuckDB; all points of such runs: benchmarks/crashpoints.py."""
    undo, torn = tmp_path / "store.duckdb.undo", tmp_path / "torn.duckdb"
    with Database(db, key_file=key) as store:
        store._execute("INSERT INTO meta VALUES ('more', 'than before')")
        whole = db.read_bytes()
        held = checkpoint._descriptor_of(db)
        assert held is not None
        checkpoint._keep(store._connection, db, held)
        places = checkpoint._read(db, held).blocks  # type: ignore[union-attr]
        kept = undo.read_bytes()
    after = db.read_bytes()
    [changed, *_] = [p for p, b in places.items() if after[p : p + len(b)] != b]
    cut = changed + len(places[changed]) // 2
    torn.write_bytes(whole[:changed] + after[changed:cut] + whole[cut:])
    with pytest.raises(StoreError):
        Database(torn, key_file=key)
    torn.with_name("torn.duckdb.undo").write_bytes(kept)
    with Database(torn, key_file=key) as store:
        assert sum(verify_database(store)[1].values()) == 0
        assert store.rows("snapshot/apis") == [(1, "Screen.width")]


def test_without_the_key_there_is_an_error_that_names_the_option(
    db: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = db.read_bytes()
    assert run(["db", "apis", "--db", str(db)]) == 2
    assert "is encrypted; name its key" in capsys.readouterr().err
    assert run(["db", "compact", "--db", str(db)]) == 2
    assert db.read_bytes() == before


def test_another_key_is_an_error_and_changes_nothing(
    db: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_key_file(tmp_path / "other")
    before = db.read_bytes()
    for command in (["db", "apis"], ["db", "verify"], ["db", "compact"]):
        assert with_key(tmp_path / "other", *command, "--db", str(db)) == 2
        told = capsys.readouterr().err
        assert "another key" in told
        assert read_key_file(tmp_path / "other") not in told
    assert db.read_bytes() == before


@pytest.mark.parametrize("how", ["changed", "cut"])
def test_a_changed_or_cut_file_is_an_error_and_never_another_answer(
    how: str, db: Path, key: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A byte of any block: what a thief of the disk, or a bad one, may do without the key."""
    asked = ["exposure", "--apis", "Screen.width", "--k", "2", "--format", "csv", "--db"]
    capsys.readouterr()
    assert with_key(key, *asked, str(db)) == 0
    answer, whole = capsys.readouterr().out, db.read_bytes()
    codes = set()
    for part in range(4):
        torn, at = tmp_path / f"{part}.duckdb", part * len(whole) // 4 + 9000
        more = bytes([whole[at] ^ 1]) + whole[at + 1 :] if how == "changed" else b""
        torn.write_bytes(whole[:at] + more)
        before = torn.read_bytes()
        codes.add(with_key(key, *asked, str(torn)))
        told = capsys.readouterr()
        assert told.out in {"", answer}
        assert PLANTED not in told.err
        assert len(told.err.splitlines()) <= 1
        assert torn.read_bytes() == before
    assert 2 in codes <= {0, 2}


def test_the_log_of_changes_of_another_database_is_not_taken_in(
    db: Path, key: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even with the same key; nor without it."""
    other = tmp_path / "other.duckdb"
    with Database(other, key_file=key, create=True) as store:
        store._execute("INSERT INTO meta VALUES ('mark', 'of the other')")
        beside = other.with_name(f"{other.name}.wal").read_bytes()
    assert beside
    for content in (beside, beside[: len(beside) // 2], bytes(range(256)), b""):
        db.with_name(f"{db.name}.wal").write_bytes(content)
        assert with_key(key, "db", "apis", "--db", str(db)) in {0, 2}
        assert len(capsys.readouterr().err.splitlines()) <= 1
        db.with_name(f"{db.name}.wal").unlink(missing_ok=True)
        with (
            Database(db, key_file=key) as store,
            pytest.raises(StoreError, match="lacks its setting"),
        ):
            store.meta("mark")


def test_a_clear_database_is_not_taken_for_an_encrypted_one(
    tmp_path: Path, key: Path, log: Path, cipher: None, capsys: pytest.CaptureFixture[str]
) -> None:
    del cipher
    clear = tmp_path / "clear.duckdb"
    assert run(["ingest", str(log), "--db", str(clear), "-q"]) == 0
    assert with_key(key, "db", "apis", "--db", str(clear)) == 2
    assert "is not encrypted" in capsys.readouterr().err
    assert run(["db", "apis", "--db", str(clear)]) == 0


def test_compact_keeps_it_encrypted(db: Path, key: Path) -> None:
    assert with_key(key, "db", "forget", "--before", "2000-01-01", "--db", str(db)) == 0
    assert with_key(key, "db", "compact", "--db", str(db)) == 0
    assert PLANTED.encode() not in db.read_bytes()
    assert run(["db", "apis", "--db", str(db)]) == 2
    assert with_key(key, "db", "verify", "--db", str(db)) == 0


def test_an_encrypted_copy_of_a_clear_database_has_the_same_content(
    tmp_path: Path, key: Path, log: Path, cipher: None, capsys: pytest.CaptureFixture[str]
) -> None:
    del cipher
    clear, copy, folder = tmp_path / "clear.duckdb", tmp_path / "copy.duckdb", tmp_path / "moved"
    assert run(["ingest", str(log), "--db", str(clear), "-q"]) == 0
    assert run(["db", "copy-out", str(folder), "--db", str(clear)]) == 0
    assert with_key(key, "db", "copy-in", str(folder), "--db", str(copy)) == 0
    capsys.readouterr()
    assert run(["db", "verify", "--db", str(clear)]) == 0
    expected = capsys.readouterr().out
    assert with_key(key, "db", "verify", "--db", str(copy)) == 0
    assert capsys.readouterr().out == expected


def test_two_of_one_process_share_it_and_another_process_waits(db: Path, key: Path) -> None:
    with Database(db, key_file=key) as first, Database(db, key_file=key) as second:
        with first.transaction():
            first._execute("INSERT INTO meta VALUES ('mark', '1')")
        assert second.meta("mark") == "1"
        command = [sys.executable, "-P", "-m", "fpmonitor", "--wait", "0"]
        command += ["--key-file", str(key), "db", "apis", "--db", str(db)]
        other = subprocess.run(command, capture_output=True, text=True, cwd=db.parent, check=False)
        assert other.returncode == 2
        if HAS_CIPHER:
            assert "in use by process" in other.stderr
    with Database(db, key_file=key) as again:
        assert again.meta("mark") == "1"


def test_the_lock_of_an_encrypted_file_holds_against_a_clear_opening(db: Path, key: Path) -> None:
    with Database(db, key_file=key), pytest.raises((BusyError, StoreError)):
        Monitor(db)


@pytest.mark.skipif(HAS_CIPHER, reason="DuckDB has its secure ciphers here")
def test_without_secure_ciphers_nothing_is_written(
    tmp_path: Path, key: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none.duckdb"
    assert with_key(key, "ingest", str(log), "--db", str(path), "-q") == 2
    assert ".[encryption]" in capsys.readouterr().err
    assert not path.exists()


@pytest.mark.parametrize(
    ("content", "mode", "told"),
    [
        (b"0123456789abcdef" * 2, 0o644, "read by others"),
        (b"short\n", 0o600, "holds no key"),
        (b"", 0o600, "holds no key"),
        (b"\xff" * 40, 0o600, "holds no key"),
        (b"x" * 100_000, 0o600, "not a key file"),
    ],
)
def test_key_files_that_cannot_be_are_refused(
    tmp_path: Path, content: bytes, mode: int, told: str
) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(mode)
    with pytest.raises(InputError, match=told):
        read_key_file(path)


def test_no_key_is_written_over(key: Path, tmp_path: Path) -> None:
    before = key.read_bytes()
    with pytest.raises(InputError, match="cannot be made"):
        make_key_file(key)
    assert key.read_bytes() == before
    with pytest.raises(InputError, match="No such file"):
        read_key_file(tmp_path / "none")


def test_keys_differ_and_hold_256_bits(tmp_path: Path) -> None:
    made = set()
    for name in "abcdef":
        make_key_file(tmp_path / name)
        made.add(read_key_file(tmp_path / name))
    assert len(made) == 6
    assert {len(bytes.fromhex(key)) for key in made} == {32}
