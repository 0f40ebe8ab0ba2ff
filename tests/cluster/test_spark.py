"""Engines behind the commands: Sail, Spark on a cluster of two workers, and what goes wrong."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.cluster.engine import count_spectra
from fpmonitor.cluster.folder import FolderSnapshot
from fpmonitor.cluster.portable import transpile
from fpmonitor.cluster.snapshot import mixed, take_engine_snapshot
from fpmonitor.cluster.spark import SparkEngine
from fpmonitor.decide.guarantee import guarantee
from fpmonitor.errors import InputError, StoreError
from fpmonitor.monitor import Monitor
from fpmonitor.snapshots import SnapshotMonitor
from fpmonitor.sql import statement

ROOT = Path(__file__).parents[2]
if TYPE_CHECKING:
    from collections.abc import Iterator

CANDIDATES = [
    "Navigator.maxTouchPoints",
    "Navigator.userAgent",
    "Screen.colorDepth",
    "Screen.height",
    "Window.devicePixelRatio",
]
QUESTION: dict[str, Any] = {
    "k": 10,
    "budget": 0.05,
    "candidates": CANDIDATES,
    "population": 20_000,
}


@pytest.fixture(scope="session")
def users(fixture_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fixture users as a wide table, one row each."""
    folder = tmp_path_factory.mktemp("users")
    with Monitor(fixture_database) as monitor:
        rows = monitor.observations()
    names = ["user", "api", "status", "source", "value"]
    frame = pl.DataFrame(rows, schema=names, orient="row").filter(pl.col("status") == "value")
    wide = frame.pivot(on="api", index="user", values="value").cast({"user": pl.String})
    wide.select("user", *CANDIDATES, "http:accept-encoding").write_parquet(folder / "users.parquet")
    return folder / "users.parquet"


@pytest.fixture(scope="session")
def database(users: Path) -> Path:
    path = users.parent / "local.duckdb"
    with Monitor(path, create=True) as monitor:
        monitor.ingest([str(users)])
    return path


@pytest.fixture
def local(database: Path, tmp_path: Path) -> Iterator[Monitor]:
    """A copy: a database remembers what it was asked before, and a snapshot does not."""
    with Monitor(shutil.copy(database, tmp_path)) as monitor:
        yield monitor


@pytest.fixture(scope="session")
def folder(sail: str, users: Path) -> str:
    with SparkEngine(sail) as engine:
        return take_engine_snapshot(engine, str(users), str(users.parent / "snapshots")).folder


@pytest.fixture
def by_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing fits into memory."""
    monkeypatch.setattr(FolderSnapshot, "in_memory", lambda _self, _apis: False)


def answer_of(decision: Any) -> dict[str, Any]:
    """Decision without what tells where and how fast it was made, and of which keeper.

    A snapshot was taken of columns that somebody chose: it has no account of the log, and no list
    of the questions that were asked of these users before.
    """
    alone = replace(decision, asked_before=0)
    content: dict[str, Any] = replace(alone, guarantee=guarantee(alone)).to_json()
    content["data"].pop("digest")
    content["data"].pop("account", None)
    return {name: value for name, value in content.items() if name not in {"seconds", "engine"}}


# The same answers


@pytest.mark.usefixtures("by_query")
@pytest.mark.parametrize(
    "question",
    [
        {},
        {"setting": "sample"},
        {"missing": "drop", "must": ["Screen.height"]},
        {"missing": "exposed", "setting": "sample"},
        {"missing": "exposed", "realised": True},
    ],
)
def test_decisions_are_those_of_the_database_file(
    local: Monitor, folder: str, sail: str, question: dict[str, Any]
) -> None:
    here = local.decide(**QUESTION, **question)
    with SnapshotMonitor(folder, sail) as monitor:
        there = monitor.decide(**QUESTION, **question)
        assert answer_of(there) == answer_of(here)
        assert there.engine == sail
        assert monitor.check(there).verdicts == local.check(here).verdicts


def test_commands_answer_as_on_the_database_file(
    folder: str, sail: str, database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decision, encodings = tmp_path / "decision.json", "http:accept-encoding"
    there = ["--snapshot", folder, "--engine", sail]
    where = {"file": ["--db", str(database)], "here": there[:2], "engine": there}
    names = ",".join(CANDIDATES)
    made = ["decide", "--budget", "0.05", "--population", "20000", "--candidates", names, "-q"]
    assert run([*made, *there, "-o", str(decision)]) == 0
    commands = [
        ["exposure", "--apis", "Screen.height,Navigator.userAgent", "--given", CANDIDATES[0]],
        ["exposure", "--apis", f"Screen.height,{encodings}", "--bounds", "--trust", "joint"],
        ["exposure", "--rank", "--size", "2", "--candidates", names],
        ["exposure", "--curve", "--apis", "Screen.height", "--volatile", "raw"],
        ["db", "apis"],
        ["db", "automation", "--apis", "Screen.height"],
        ["check", str(decision)],
        ["export", "--preview", str(decision), "--to", "ublock"],
    ]
    for command in commands:
        told = {}
        for name, options in where.items():
            assert run([*command, *options]) == 0
            told[name] = json.loads(capsys.readouterr().out)
        assert told["here"] == told["file"], command
        assert told["engine"] == told["file"], command
    for command in (
        ["export", "--report", str(decision)],
        ["exposure", "--plot", "entropy", "--apis", "Screen.height"],
    ):
        output = tmp_path / ("page.html" if "--report" in command else "plot.svg")
        assert run([*command, *there, "-o", str(output)]) == 0
        assert output.stat().st_size > 1000
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"Data: {Path(folder).name}, 20,000 users" in page
    assert "held in a snapshot" in page


def test_sample_is_a_log_for_the_database(
    folder: str, sail: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = FolderSnapshot(folder).sample(300)
    with SparkEngine(sail) as engine:
        monkeypatch.setattr(FolderSnapshot, "in_memory", lambda _self, _apis: False)
        there = FolderSnapshot(folder, engine).sample(300)
    digests = []
    for number, frame in enumerate((here, there)):
        frame.write_parquet(tmp_path / f"{number}.parquet")
        with Monitor(tmp_path / f"{number}.duckdb", create=True) as monitor:
            monitor.ingest([str(tmp_path / f"{number}.parquet")])
            digests.append(monitor.population().digest)
            assert monitor.population().users == 300
    assert digests[0] == digests[1]
    with pytest.raises(InputError, match="0 of 20,000 users"):
        FolderSnapshot(folder).sample(0)


# What surprises between engines


def test_untranslated_text_of_duckdb_would_group_by_a_constant(engine: SparkEngine) -> None:
    engine.define_rows("plain", pl.DataFrame({"a.b": [1, 2, 2]}))
    wrong = engine.frame('SELECT count(*) AS users FROM plain GROUP BY "a.b"')
    assert wrong["users"].to_list() == [3]
    right = engine.frame(transpile('SELECT count(*) AS users FROM plain GROUP BY "a.b"', "spark"))
    assert sorted(right["users"].to_list()) == [1, 2]


def test_answer_that_does_not_count_everybody_is_an_error(engine: SparkEngine) -> None:
    engine.define_rows("few", pl.DataFrame({"a": [1, 2, 2]}))
    with pytest.raises(StoreError, match="counted 3 of 4 users"):
        count_spectra(engine, [("few", ["a"])], 4)


def test_operators_keep_their_order_in_every_dialect() -> None:
    for dialect in ("spark", "bigquery"):
        assert "(a ^ b) + 1" in transpile("SELECT xor(a, b) + 1 FROM t", dialect)


@pytest.mark.parametrize("dialect", ["bigquery", "snowflake", "spark", "duckdb"])
def test_spectra_and_mixing_are_valid_sql_in_other_dialects(dialect: str) -> None:
    sqlglot = pytest.importorskip("sqlglot")
    texts = [
        statement("cluster/spectrum", place="0", rows="t", columns='"a", "b"'),
        mixed(["a"], "SELECT a, high, low FROM t"),
    ]
    for text in texts:
        told = transpile(text, dialect)
        assert sqlglot.parse_one(told, read=dialect).find(sqlglot.exp.Select)


# What goes wrong


def test_bad_addresses_are_usage_errors() -> None:
    for url in ("http://localhost:1", "sc://", "sc://127.0.0.1:word"):
        with pytest.raises(InputError, match="is not an address of Spark Connect"):
            SparkEngine(url)


def test_closed_port_answers_in_seconds(
    folder: str, servers: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    port = servers["free_port"]()
    started = time.monotonic()
    assert run(["db", "apis", "--snapshot", folder, "--engine", f"sc://127.0.0.1:{port}"]) == 2
    assert time.monotonic() - started < 5
    assert f"sc://127.0.0.1:{port}" in capsys.readouterr().err


@pytest.mark.usefixtures("by_query")
def test_lost_engine_leaves_what_is_proven_and_is_no_success(
    folder: str,
    servers: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("fpmonitor.cluster.spark._RETRIES", 1)
    path = tmp_path / "decision.json"
    ask = ["decide", "--budget", "0.05", "--population", "20000", "--snapshot", folder]
    ask += ["--candidates", ",".join(CANDIDATES), "-o", str(path), "-q"]
    asked: list[int] = []
    with servers["sail"](tmp_path) as server:
        count = count_spectra

        def killing(*arguments: Any) -> Any:
            found = count(*arguments)
            asked.append(1)
            if len(asked) == 6:  # the first five ask which APIs there is evidence about
                os.kill(server.processes[0], signal.SIGKILL)
            return found

        monkeypatch.setattr("fpmonitor.cluster.folder.count_spectra", killing)
        assert run([*ask, "--engine", server.url]) == 3
    assert "the engine was lost" in capsys.readouterr().err
    decision = json.loads(path.read_text(encoding="utf-8"))
    assert not decision["complete"]
    assert decision["engine"] == server.url


def test_what_a_snapshot_cannot_answer_is_told_in_one_line(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decision = tmp_path / "decision.json"
    names = ",".join(CANDIDATES[:2])
    there = ["--snapshot", folder]
    decide = ["decide", "--budget", "0.05", "--candidates", names, "-q"]
    assert run([*decide, *there, "-o", str(decision)]) == 0
    for arguments in (
        ["exposure", "--by", "week", *there],
        ["lists", "demand", *there],
        ["db", "rejects", *there],
        ["check", str(decision), "--by", "week", *there],
        [*decide, "--weights", "demand", *there],
        [*decide, "--since", "2026-01-01", *there],
        [*decide, "--source", "x", *there],
        [*decide, "--engine", "sc://127.0.0.1:1"],
        [*decide, *there, "--engine", "sc://127.0.0.1:1/;token=x"],
        ["db", "apis", *there, "--engine", "duckdb"],
        ["db", "apis", "--snapshot", str(tmp_path)],
    ):
        capsys.readouterr()
        assert run(arguments) == 2, arguments
        told = capsys.readouterr().err
        assert told.startswith("fpmonitor: error: "), arguments
        assert told.count("\n") == 1, arguments


def run_program(
    script: str, folder: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program that has no file."""
    return subprocess.run(
        [sys.executable, "-P", "-c", script],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        check=False,
    )


@pytest.mark.long
def test_without_the_extra_a_message_names_it_and_nothing_is_imported(
    tmp_path: Path, sail: str
) -> None:
    script = f"""
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {{"pyspark", "sqlglot", "grpc"}}:
            raise ImportError(name)
sys.meta_path.insert(0, Hidden())
from fpmonitor.cli import run
import fpmonitor.snapshots
assert not {{"pyspark", "sqlglot", "grpc", "pandas", "pyarrow"}} & set(sys.modules)
sys.exit(run(["scale", "snapshot", "--engine", "{sail}", "--from", "t", "--to", "x"]))
"""
    done = run_program(script, tmp_path)
    assert done.returncode == 2
    assert ".[spark]" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_a_program_without_a_file_needs_no_spark_of_its_own(tmp_path: Path, sail: str) -> None:
    script = f"""
from fpmonitor.cluster import spark
with spark.SparkEngine("{sail}") as engine:
    print(engine.frame("SELECT 1 AS one").item())
"""
    clean = {name: text for name, text in os.environ.items() if name != "SPARK_HOME"}
    done = run_program(script, tmp_path, clean)
    assert done.stdout == "1\n", done.stderr


# A real cluster


@pytest.mark.spark
@pytest.mark.parametrize(
    "promise",
    [
        "values_become_the_text_that_ingest_stores",
        "ties_and_late_visits_are_those_of_the_database_file",
    ],
)
def test_spark_takes_the_snapshots_that_sail_takes(
    promise: str, spark_cluster: Any, tmp_path: Path
) -> None:
    """In this file, so that one cluster is started: the tests of `test_snapshot.py` themselves."""
    tests = runpy.run_path(str(Path(__file__).with_name("test_snapshot.py")))
    with SparkEngine(spark_cluster.url) as engine:
        tests[f"test_{promise}"](engine, tmp_path)


@pytest.mark.usefixtures("by_query")
@pytest.mark.spark
def test_cluster_gives_the_decision_of_the_file_also_when_a_worker_dies(
    users: Path,
    local: Monitor,
    spark_cluster: Any,
    servers: dict[str, Any],
    capfd: pytest.CaptureFixture[str],
) -> None:
    here = local.decide(**QUESTION)
    with SparkEngine(spark_cluster.url) as engine:
        with pytest.raises(StoreError, match="refused"):
            engine.frame("SELECT 'secret' || nothing")
        assert "secret" not in capfd.readouterr().err  # the client would log it
        taken = take_engine_snapshot(engine, str(users), str(users.parent / "on-spark"))
    assert taken.manifest.digest == local.population().snapshot.digest
    killed = threading.Event()

    def kill() -> None:
        for process in servers["family"]((spark_cluster.workers[0],)):
            os.kill(process, signal.SIGKILL)
        killed.set()

    with SnapshotMonitor(taken.folder, spark_cluster.url) as monitor:
        timer = threading.Timer(1.0, kill)
        timer.start()
        there = monitor.decide(**QUESTION)
        assert killed.is_set()
        timer.join()
    assert answer_of(there) == answer_of(here)
    assert there.complete
