"""Spark Connect: Sail, a cluster of two workers, and what goes wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.cluster.asking import transpile
from fpmonitor.cluster.engine import open_engine
from fpmonitor.cluster.spark import SparkEngine
from fpmonitor.errors import EngineLostError, InputError, StoreError
from tests.patience import wait
from tests.stored import looked_at_by_an_earlier_version


def test_untranslated_text_of_duckdb_would_group_by_a_constant(engine: SparkEngine) -> None:
    rows = "SELECT EXPLODE(ARRAY(1, 2, 2)) AS `a.b`"
    text = 'SELECT count(*) AS users FROM ({0}) AS t GROUP BY "a.b"'
    assert engine.frame(text.format(rows))["users"].to_list() == [3]
    right = transpile(text.format("SELECT 1"), "spark").replace("SELECT 1", rows)
    assert sorted(engine.frame(right)["users"].to_list()) == [1, 2]


def test_rows_come_in_parts_and_none_have_their_columns(engine: SparkEngine) -> None:
    frames = [*engine.batches("SELECT id, CAST(id AS STRING) AS b FROM range(70000)", 20_000)]
    assert len(frames) > 1
    assert sum(map(len, frames)) == 70_000
    assert engine.frame("SELECT 1 AS a, 'x' AS b LIMIT 0").columns == ["a", "b"]


def test_bad_addresses_are_usage_errors() -> None:
    for url in ("http://localhost:1", "sc://", "sc://127.0.0.1:word"):
        with pytest.raises(InputError, match=r"is not an address of Spark Connect|not an engine"):
            open_engine(url)


def test_a_password_in_an_address_is_not_shown() -> None:
    pytest.importorskip("pyspark")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"sc://ann:secret-7@127.0.0.1:{server.getsockname()[1]}/x/?token=secret-8"
        with pytest.raises(EngineLostError, match="cannot be reached") as told:
            SparkEngine(address)
    assert "secret" not in f"{told.value} {told.value.hint}"


def test_closed_port_answers_in_seconds(
    servers: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = servers["free_port"]()
    started = time.monotonic()
    address = f"sc://127.0.0.1:{port}"
    asked = ["--from", "t", "--engine", address, "--db", str(tmp_path / "x.duckdb")]
    assert run(["scale", "fetch", *asked]) == 2
    assert time.monotonic() - started < 5
    assert address in capsys.readouterr().err


def test_a_lost_server_is_told(
    servers: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fpmonitor.cluster.spark._RETRIES", 1)
    with servers["sail"](tmp_path) as server, SparkEngine(server.url) as engine:
        assert engine.frame("SELECT 1 AS one").item() == 1
        os.kill(server.processes[0], signal.SIGKILL)
        with pytest.raises(EngineLostError, match="does not answer"):
            engine.frame("SELECT 2 AS two")
        engine.close()  # it was told; nothing is left to be ended


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
        if name.split(".")[0] in {{"pyspark", "sqlglot", "grpc", "sqlalchemy"}}:
            raise ImportError(name)
sys.meta_path.insert(0, Hidden())
from fpmonitor.cli import run
import fpmonitor.warehouse
hidden = {{"pyspark", "sqlglot", "grpc", "pandas", "pyarrow", "sqlalchemy"}}
assert not hidden & set(sys.modules)
run(["scale", "fetch", "--engine", "postgresql://h/d", "--from", "t"])
sys.exit(run(["scale", "fetch", "--engine", "{sail}", "--from", "t"]))
"""
    done = run_program(script, tmp_path)
    assert done.returncode == 2
    assert ".[spark]" in done.stderr
    assert ".[warehouse]" in done.stderr
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


def worked(processes: set[int]) -> float:
    """Processor seconds of some processes."""
    stats = [Path(f"/proc/{process}/stat").read_text(encoding="utf-8") for process in processes]
    ticks = sum(int(ran) for text in stats for ran in text.rpartition(")")[2].split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


@pytest.mark.spark
def test_a_cluster_decides_as_before_also_when_a_worker_dies(
    spark_cluster: Any,
    servers: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with SparkEngine(spark_cluster.url) as engine:
        with pytest.raises(StoreError, match="refused"):
            engine.frame("SELECT 'secret' || nothing")
        assert "secret" not in capfd.readouterr().err  # the client would log it
    columns = {f"x{i}": [f"v{u * 7919 % (3 + i**4)}" for u in range(600)] for i in range(4)}
    frame = pl.DataFrame({"user": [f"u{i}" for i in range(600)], **columns})
    frame.write_parquet("users.parquet")
    asked = ["--from", str(tmp_path / "users.parquet"), "--user", "user"]
    asked += ["--candidates", ",".join(columns), "--dialect", "spark", "--to", "asks"]
    assert run(["scale", "sql", *asked]) == 0
    question = ["--budget", "20%", "-n", "10000", "--quiet"]
    worker = servers["family"]((spark_cluster.workers[0],))
    before, in_the_middle = worked(worker), []

    def kill() -> None:
        wait(lambda: worked(worker) > before + 0.5)
        in_the_middle.append(not (tmp_path / "asks" / "1.csv").exists())
        for process in worker:
            os.kill(process, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    there = ["--spectra", "asks", "--engine", spark_cluster.url]
    assert run(["decide", *there, *question, "-o", "told.json"]) == 0
    killer.join()
    assert in_the_middle == [True]
    assert run(["ingest", "users.parquet", "--db", "x.duckdb", "--quiet"]) == 0
    looked_at_by_an_earlier_version("x.duckdb")
    assert run(["decide", "--db", "x.duckdb", *question, "-o", "known.json"]) == 0
    told, known = (
        json.loads((tmp_path / name).read_text(encoding="utf-8"))
        for name in ("told.json", "known.json")
    )
    for name in ("allow", "block", "undecided", "recommended"):
        assert told[name] == known[name], name
