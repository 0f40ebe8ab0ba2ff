"""Several processes and one database: they wait for each other, or say who is in the way."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from fpmonitor.cli import run
from fpmonitor.errors import BusyError, StoreError
from fpmonitor.monitor import Monitor
from fpmonitor.store.database import Database
from fpmonitor.store.files import Patience, owner_only
from fpmonitor.store.upkeep import compact_database, verify_database
from tests.patience import patience

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLD = """
import sys, time
from pathlib import Path
from fpmonitor.store.database import Database

with Database(Path(sys.argv[1]), create=True) as database:
    database._execute("CREATE TABLE held (number INTEGER)")
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
    database._execute("DROP TABLE held")
"""


@contextmanager
def held(db: Path, seconds: float) -> Iterator[int]:
    """Another process holds the database for some seconds; its number."""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", HOLD, str(db), str(seconds)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process.pid
        process.kill()


def fpmonitor(*arguments: object, wait: float = 60.0) -> subprocess.Popen[str]:
    """Start a command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "fpmonitor", *map(str, arguments)],
        env={**os.environ, "FPMONITOR_WAIT": str(wait)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def log_of(path: Path, users: range) -> Path:
    rows = [{"user": f"u{i}", "A.a": i % 7, "B.b": i % 3} for i in users]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "d.duckdb"
    with Monitor(path, create=True) as monitor:
        monitor.ingest([str(log_of(tmp_path / "0.jsonl", range(100)))])
    return path


def test_a_command_waits_for_the_holder_and_says_so_once(
    db: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with held(db, 0.5) as holder:
        assert run(["--wait", "60", "db", "apis", "--db", str(db)]) == 0
    printed = capsys.readouterr()
    assert printed.err == f"waiting for {db}, in use by process {holder}\n"
    assert len(json.loads(printed.out)) == 2


@pytest.mark.long
def test_after_the_wait_the_error_names_the_holder(
    db: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FPMONITOR_WAIT", "0.2")
    with held(db, 60) as holder:
        for command in (
            ["db", "apis"],
            ["db", "compact"],
            ["ingest", str(db.with_name("0.jsonl"))],
        ):
            began = time.monotonic()
            assert run([*command, "--db", str(db)]) == 2
            assert time.monotonic() - began > 0.2
            printed = capsys.readouterr()
            assert printed.out == ""
            last = printed.err.splitlines()[-1]
            assert last.startswith(f"fpmonitor: error: {db} is in use by process {holder}; ")
            assert "--wait SECONDS" in last


@pytest.mark.long
def test_patience_may_stand_in_the_settings_and_is_not_that_of_the_next_command(
    db: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(db.parent)
    Path("fpmonitor.toml").write_text("wait = 0.1\n")
    with held(db, 60):
        assert run(["db", "apis", "--db", str(db)]) == 2
        assert "waiting for" in capsys.readouterr().err
        with pytest.raises(BusyError):
            Database(db)


def test_two_ingests_and_a_reader_at_once_lose_and_double_nothing(db: Path, tmp_path: Path) -> None:
    logs = [log_of(tmp_path / f"{i}.jsonl", range(100 * i, 100 * i + 100)) for i in (1, 2)]
    commands = [fpmonitor("ingest", log, "--db", db) for log in logs]
    commands.append(fpmonitor("db", "apis", "--db", db))
    outcomes = [(command.communicate(), command.returncode) for command in commands]
    for (out, err), code in outcomes:
        assert code == 0, err
        assert "Traceback" not in err
        assert json.loads(out)
        told = rf"waiting for {db}, in use by process \d+|{tmp_path}/\d.jsonl: from 3 columns: .*"
        assert all(re.fullmatch(told, line) for line in err.splitlines()), err
    [seen] = {line["users"] for line in json.loads(outcomes[2][0][0])}
    assert seen in {100, 200, 300}, "whole batches are seen, no half ones"
    for i in (0, 1):
        assert json.loads(outcomes[i][0][0])["batches"][0]["stored"] == 100
    with Monitor(db) as monitor:
        assert monitor.population().users == 300
        assert not any(verify_database(monitor.database)[1].values())


@pytest.mark.long
def test_nobody_else_opens_a_database_that_is_written_anew(db: Path) -> None:
    """What another process stored between copy and replacement would be lost."""
    with Monitor(db) as monitor:
        for i in range(1, 4):
            monitor.ingest([str(log_of(db.with_name(f"{i}.jsonl"), range(100 * i, 100 * i + 50)))])
    log = log_of(db.with_name("9.jsonl"), range(1000, 1100))
    writer = fpmonitor("ingest", log, "--db", db)
    while writer.poll() is None:
        compact_database(db, patience=Patience(60))
    _, err = writer.communicate()
    assert writer.returncode == 0, err
    with Monitor(db) as monitor:
        assert monitor.population().users == 350
    assert not [path.name for path in db.parent.iterdir() if "compacting" in path.name]


def test_a_file_that_was_replaced_while_it_was_opened_is_opened_again(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, opened = duckdb.connect, []

    def replaced_meanwhile(path: Path, **options: object) -> duckdb.DuckDBPyConnection:
        connection = really(path, **options)
        if not opened:
            other = path.with_name("other")
            other.write_bytes(path.read_bytes())
            other.replace(path)
        opened.append(path)
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(duckdb, "connect", replaced_meanwhile)
        opened_again = Monitor(db)
    with opened_again as monitor:
        monitor.ingest([str(log_of(db.with_name("1.jsonl"), range(100, 150)))])
    assert len(opened) == 2
    with Monitor(db) as monitor:
        assert monitor.population().users == 150, "what was stored is in the file of that name"


@pytest.mark.long
def test_what_is_stored_in_a_file_that_was_replaced_meanwhile_is_told_and_kept(db: Path) -> None:
    """Written into the old file, which has no name any more, it would be lost."""
    other = db.with_name("other")
    other.write_bytes(db.read_bytes())
    monitor = Monitor(db)
    other.replace(db)
    monitor.ingest([str(log_of(db.with_name("1.jsonl"), range(100, 150)))])
    with pytest.raises(StoreError, match="no longer the file that is open"):
        monitor.close()
    with Monitor(db) as monitor:
        assert monitor.population().users == 150, "the log beside the file was kept"


def test_the_log_beside_an_open_database_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with Database(tmp_path / "d.duckdb", create=True) as database:
            assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
            for _ in range(2):
                database._execute("CREATE OR REPLACE TABLE x AS SELECT range FROM range(1000)")
                assert (tmp_path / "d.duckdb.wal").stat().st_mode & 0o777 == 0o600
                database._execute("CHECKPOINT")
        assert os.umask(0o022) == 0o022, "other files are as the user wants them"
        with owner_only(), owner_only():
            pass
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


@pytest.mark.long
def test_the_service_answers_beside_the_command_line(db: Path, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    service = fpmonitor("collect", "serve", "--db", db, "--port", port)
    try:
        address = f"http://127.0.0.1:{port}/v1/exposure?apis=A.a&k=2"
        deadline = time.monotonic() + patience(60)
        answers = 0
        ingest = None
        while answers < 5:
            assert time.monotonic() < deadline
            assert service.poll() is None, service.stderr and service.stderr.read()
            try:
                with urllib.request.urlopen(address, timeout=30) as answer:
                    assert json.load(answer)
            except urllib.error.URLError as error:  # it does not listen yet, or is busy
                code = getattr(error, "code", 503)
                time.sleep(0.1)
            else:
                code, answers = 200, answers + 1
            assert code in {200, 503}
            if not answers:
                continue
            ingest = ingest or fpmonitor(
                "ingest", log_of(tmp_path / "5.jsonl", range(200, 300)), "--db", db
            )
        assert ingest is not None
        _, err = ingest.communicate()
        assert ingest.returncode == 0, err
    finally:
        service.terminate()
        _, err = service.communicate()
    assert "Traceback" not in err
    with Monitor(db) as monitor:
        assert monitor.population().users == 200


@pytest.mark.parametrize("how", ["stdin", "fifo"])
def test_an_idle_pipe_holds_no_database(tmp_path: Path, how: str) -> None:
    """Else a stream that waits for its next record keeps everybody else out."""
    database, pipe = tmp_path / "x.duckdb", tmp_path / "pipe"
    os.mkfifo(pipe)
    program = "import sys; from fpmonitor.cli import run; sys.exit(run(sys.argv[1:]))"
    command = [sys.executable, "-c", program]
    arguments = ["ingest", "-" if how == "stdin" else str(pipe), "--db", str(database), "-q"]
    with subprocess.Popen(
        [*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as waiting:
        assert waiting.stdin is not None
        source = waiting.stdin if how == "stdin" else pipe.open("wb")
        source.write(b'{"user": "a", "Screen.width": 1}\n')
        source.flush()
        other = tmp_path / "log.jsonl"
        for number in range(3):  # while the other waits
            record = {"user": f"u{number}", "Screen.width": number % 2}
            other.write_text(json.dumps(record) + "\n", encoding="utf-8")
            assert run(["ingest", str(other), "--db", str(database), "-q"]) == 0
        assert waiting.poll() is None
        source.close()
        assert waiting.wait(120) == 0
    with Monitor(database) as monitor:
        assert monitor.population().users == 4
