"""Distributed engines: the same spectra, reports and decisions as DuckDB, from Sail and Spark."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.cluster.folder import FolderStore
from fpmonitor.cluster.portable import (
    EngineSource,
    portable_statement,
    spectra_statement,
    transpile,
)
from fpmonitor.cluster.spark import SparkEngine, timestamp_sql
from fpmonitor.decide.decision import read_decision
from fpmonitor.disclosure import FOR_OTHERS
from fpmonitor.errors import (
    EngineLostError,
    InputError,
    StoreError,
    UndecidableError,
    UnknownNameError,
)
from fpmonitor.estimate.mixing import splitmix64
from fpmonitor.monitor import Monitor
from fpmonitor.remote import RemoteMonitor
from fpmonitor.store.snapshot import Window

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CLUSTER = runpy.run_path(str(ROOT / "benchmarks" / "spark_cluster.py"), run_name="spark_cluster")
CANDIDATES = [
    "Navigator.maxTouchPoints",
    "Navigator.userAgent",
    "Screen.colorDepth",
    "Screen.height",
    "Window.devicePixelRatio",
]
QUESTION: dict[str, Any] = {"k": 10, "budget": 0.05, "candidates": CANDIDATES}


@pytest.fixture(scope="session")
def sail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with CLUSTER["sail"](tmp_path_factory.mktemp("sail")) as server:
        yield server.url


@pytest.fixture(scope="session")
def engine(sail: str) -> Iterator[SparkEngine]:
    with SparkEngine(sail) as engine:
        yield engine


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fixture logs as one Parquet file, long."""
    folder = tmp_path_factory.mktemp("log")
    with Monitor(folder / "fixtures.duckdb", create=True) as monitor:
        monitor.ingest([str(ROOT / "fixtures" / "logs")])
        rows = monitor.observations()
    names = ["user", "api", "status", "source", "value"]
    frame = pl.DataFrame(rows, schema=names, orient="row").drop("source").cast(pl.String)
    frame.write_parquet(folder / "long.parquet")
    return folder / "long.parquet"


@pytest.fixture(scope="session")
def local(log: Path) -> Iterator[Monitor]:
    with Monitor(log.parent / "local.duckdb", create=True) as monitor:
        monitor.ingest([str(log)])
        yield monitor


@pytest.fixture(scope="session")
def remote(sail: str, log: Path) -> Iterator[RemoteMonitor]:
    with RemoteMonitor(sail, str(log.parent / "store"), create=True) as monitor:
        monitor.ingest([str(log)])
        yield monitor


def answer_of(decision: Any) -> dict[str, Any]:
    """Decision without what tells where and how fast it was made."""
    content: dict[str, Any] = decision.to_json()
    return {name: value for name, value in content.items() if name not in {"seconds", "engine"}}


def test_snapshot_has_the_users_and_the_digest_of_the_local_one(
    local: Monitor, remote: RemoteMonitor
) -> None:
    here, there = local.snapshot(), remote.snapshot()
    assert (there.users, there.digest, there.apis) == (here.users, here.digest, here.apis)


@pytest.mark.parametrize(
    "question",
    [
        {"population": 20_000},
        {"setting": "sample"},
        {"population": 100_000, "missing": "drop", "must": ["Screen.height"]},
    ],
)
def test_decisions_are_those_of_duckdb(
    local: Monitor, remote: RemoteMonitor, question: dict[str, Any]
) -> None:
    here = local.decide(**QUESTION, **question)
    there = remote.decide(**QUESTION, **question)
    assert answer_of(there) == answer_of(here)
    assert remote.check(there) == dict.fromkeys(there.allow, "allow")


@pytest.mark.parametrize("for_others", [False, True])
def test_candidates_by_default_are_those_of_duckdb(
    sail: str, tmp_path: Path, for_others: bool
) -> None:
    users = [f"u{i}" for i in range(40)]
    rare = ["x"] * 9 + [None] * 31
    log = pl.DataFrame({"user": users, "Screen.width": [1, 2] * 20, "x:rare": rare, "x:none": None})
    log.with_columns(pl.col("x:none").cast(pl.String)).write_parquet(tmp_path / "log.parquet")
    token = FOR_OTHERS.set(for_others)
    with Monitor(tmp_path / "local.duckdb", create=True) as monitor:
        monitor.ingest([str(tmp_path / "log.parquet")])
        here = monitor.decide(k=10, budget=0.05, setting="sample")
    with RemoteMonitor.of_source(sail, str(tmp_path / "log.parquet")) as monitor:
        there = monitor.decide(k=10, budget=0.05, setting="sample")
    FOR_OTHERS.reset(token)
    assert answer_of(there) == answer_of(here)
    names = ("Screen.width",) if for_others else ("Screen.width", "x:none", "x:rare")
    assert there.policy.candidates == names


def test_reports_are_those_of_duckdb(local: Monitor, remote: RemoteMonitor) -> None:
    sets = [*([api] for api in CANDIDATES), CANDIDATES]
    arguments: dict[str, Any] = {"k": 10, "population": 100_000, "bounds": True, "entropies": True}
    here, there = local.exposure(sets, **arguments), remote.exposure(sets, **arguments)
    assert [report.to_json() for report in there] == [report.to_json() for report in here]


def test_resumed_decision_is_the_whole_one(remote: RemoteMonitor) -> None:
    whole = remote.decide(**QUESTION, population=20_000)
    begun = remote.decide(**QUESTION, population=20_000, max_size=1)
    resumed = remote.decide(**QUESTION, population=20_000, known=begun)
    assert not begun.complete
    assert (resumed.allow, resumed.block) == (whole.allow, whole.block)
    with pytest.raises(InputError, match="population"):
        remote.decide(**QUESTION, population=30_000, known=begun)


def test_same_batch_again_adds_nothing(sail: str, log: Path, tmp_path: Path) -> None:
    half = pl.read_parquet(log).head(5000)
    half.write_parquet(tmp_path / "a.parquet")
    half.reverse().write_parquet(tmp_path / "b.parquet")
    with RemoteMonitor(sail, str(tmp_path / "store"), create=True) as monitor:
        first = monitor.ingest([str(tmp_path / "a.parquet")])
        again = monitor.ingest([str(tmp_path / "b.parquet")])
        assert (first.stored, first.duplicates) == (5000, 0)
        assert (again.stored, again.duplicates) == (0, 5000)
        assert [batch.stored for batch in monitor.batches()] == [5000]


def test_batch_without_its_row_in_the_ledger_does_not_count(
    sail: str, log: Path, tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    pl.read_parquet(log).head(2000).write_parquet(path)
    with RemoteMonitor(sail, str(tmp_path / "store"), create=True) as monitor:
        monitor.ingest([str(path)])
        users = monitor.snapshot().users
        shutil.rmtree(tmp_path / "store" / "batch")  # as if the writer had died before it
        with pytest.raises(UndecidableError):
            monitor.snapshot()
        assert monitor.ingest([str(path)]).stored == 2000
        assert monitor.snapshot().users == users


def wide_visits() -> pl.DataFrame:
    day = datetime(2026, 3, 1, tzinfo=UTC)
    return pl.DataFrame(
        {
            "user": ["u1", "u2", "u3", "u1"],
            "time": [day, day, day, day + timedelta(days=2)],
            "Screen.width": [1920, 1280, None, 1366],
            'say "hi" \\ it\'s': [1.5, 2.0, 2.0, 2.0],
            "Window.screen": ["x", "", '{"b": 1, "a": 2}', "é" * 200],
            "Flag": [True, False, None, True],
        }
    )


def test_wide_logs_late_data_and_windows_are_those_of_duckdb(sail: str, tmp_path: Path) -> None:
    fonts = pl.Series("Fonts", [["b", 'é "x" / y'], [], None, ["z", None]])
    visits = wide_visits().with_columns(fonts, pl.Series("Sizes", [[1, 2], [3], None, []]))
    visits[:3].write_parquet(tmp_path / "late.parquet")
    visits[3:].write_parquet(tmp_path / "first.parquet")
    windows = [None, Window(until=datetime(2026, 3, 2)), Window(since=datetime(2026, 3, 2))]  # noqa: DTZ001 -- as the options read it
    paths = [str(tmp_path / name) for name in ("first.parquet", "late.parquet")]
    with Monitor(tmp_path / "local.duckdb", create=True) as monitor:
        monitor.ingest(paths)
    with RemoteMonitor(sail, str(tmp_path / "store"), create=True) as monitor:
        for path in paths:
            monitor.ingest([path])
    for window in windows:
        with Monitor(tmp_path / "local.duckdb", window=window) as here:
            wanted = here.snapshot()
        with RemoteMonitor(sail, str(tmp_path / "store"), window=window) as there:
            found = there.snapshot()
        assert (found.users, found.digest) == (wanted.users, wanted.digest)
    future = Window(since=datetime(2030, 1, 1))  # noqa: DTZ001
    with (
        RemoteMonitor(sail, str(tmp_path / "store"), window=future) as there,
        pytest.raises(UndecidableError, match="widen the window"),
    ):
        there.snapshot()


@pytest.mark.parametrize("ending", ["jsonl", "csv", "delta"])
def test_logs_of_other_formats_are_those_of_duckdb(
    sail: str, engine: SparkEngine, tmp_path: Path, ending: str
) -> None:
    visits = wide_visits().with_columns(pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
    visits = visits.drop("Window.screen")  # Sail reads an empty text in quotes as absent
    path = tmp_path / f"log.{ending}"
    if ending == "jsonl":
        visits.write_ndjson(path)
        path.write_text(
            path.read_text()
            + 'broken\n{"user": "u4", "attributes": {"Other": null, "Number": -0.0}}\n\n'
            + '{"user": "u5", "attributes": {"Other": "5.0", "Number": 5.0}}\n'
        )
    elif ending == "csv":
        visits.write_csv(path)
    else:
        engine.define_rows("delta_rows", visits)
        engine._session.table("delta_rows").write.format("delta").save(str(path))
    with Monitor(tmp_path / "local.duckdb", create=True) as monitor:
        if ending == "delta":
            visits.write_parquet(tmp_path / "log.parquet")
        here_path = path if ending != "delta" else tmp_path / "log.parquet"
        [here] = monitor.ingest([str(here_path)])
        wanted = monitor.snapshot()
    with RemoteMonitor(sail, str(tmp_path / "store"), create=True) as monitor:
        form = "delta" if ending == "delta" else None
        there = monitor.ingest([str(path)], form=form)
        found = monitor.snapshot()
    assert (there.read, there.stored, there.rejected) == (here.read, here.stored, here.rejected)
    assert (found.users, found.digest, found.apis) == (wanted.users, wanted.digest, wanted.apis)


def test_any_number_of_apis_is_coded_some_at_a_time(
    sail: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fpmonitor.cluster.folder_snapshot._APIS_A_STATEMENT", 2)
    path = str(tmp_path / "log.parquet")
    more = [pl.lit(f"value {i}").alias(f"Api.member{i}") for i in range(3)]
    wide_visits().with_columns(more).write_parquet(path)
    with Monitor(tmp_path / "local.duckdb", create=True) as monitor:
        monitor.ingest([path])
        here = monitor.snapshot()
    with RemoteMonitor(sail, str(tmp_path / "store"), create=True) as monitor:
        monitor.ingest([path])
        there = monitor.snapshot()
    assert len(there.apis) == 7
    assert (there.users, there.digest) == (here.users, here.digest)


def test_broken_records_are_counted_not_stored(sail: str, tmp_path: Path) -> None:
    pl.DataFrame(
        {
            "user": ["a", "", "c", None, "e"],
            "api": ["X", "X", None, "X", "X"],
            "value": ["1", "2", "3", "4", None],
            "time": ["2026-03-01T00:00:00Z", "1772323200", "1772323200", "1772323200", "soon"],
        }
    ).write_parquet(tmp_path / "broken.parquet")
    with RemoteMonitor(sail, str(tmp_path / "store"), create=True) as monitor:
        report = monitor.ingest([str(tmp_path / "broken.parquet")])
    assert (report.read, report.stored, report.rejected) == (5, 1, 4)


def test_user_ids_are_not_stored(sail: str, tmp_path: Path) -> None:
    pl.DataFrame({"user": ["alice@example.org"], "api": ["X"], "value": ["1"]}).write_parquet(
        tmp_path / "log.parquet"
    )
    with RemoteMonitor(sail, str(tmp_path / "store"), create=True) as monitor:
        monitor.ingest([str(tmp_path / "log.parquet")])
        monitor.snapshot()
    kept = b"".join(path.read_bytes() for path in (tmp_path / "store").rglob("*.parquet"))
    assert b"alice" not in kept


def test_sample_is_uniform_reproducible_and_fit_for_the_local_database(
    remote: RemoteMonitor, tmp_path: Path
) -> None:
    sample = remote.sample(500)
    again = remote.sample(500)
    order = ["api", "status", "value"]
    assert sample.select(order).sort(order).equals(again.select(order).sort(order))
    sample.write_parquet(tmp_path / "sample.parquet")
    with Monitor(tmp_path / "sample.duckdb", create=True) as monitor:
        monitor.ingest([str(tmp_path / "sample.parquet")])
        assert monitor.snapshot().users == 500
    price = remote.price_of_sample(500)
    assert price.limit < price.limit_of_sample < 1


# What surprises between engines


def test_names_with_dots_quotes_and_cases_are_columns_not_texts(engine: SparkEngine) -> None:
    names = ["navigator.userAgent", 'say "hi"', "back`tick"]
    rows = pl.DataFrame({name: ["x", "y", "y"] for name in names})
    engine.define_rows("odd_names", rows)
    source = EngineSource(engine, "odd_names", {name: name for name in names}, 3)
    for spectrum in source.spectra([[name] for name in names]):
        assert (spectrum.counts.tolist(), spectrum.values.tolist()) == ([1, 2], [1, 1])


def test_untranslated_text_of_duckdb_would_group_by_a_constant(engine: SparkEngine) -> None:
    engine.define_rows("plain", pl.DataFrame({"a.b": [1, 2, 2]}))
    wrong = engine.frame('SELECT count(*) AS users FROM plain GROUP BY "a.b"')
    assert wrong["users"].to_list() == [3]
    right = engine.frame(transpile('SELECT count(*) AS users FROM plain GROUP BY "a.b"', "spark"))
    assert sorted(right["users"].to_list()) == [1, 2]


def test_absent_and_empty_values_stay_apart(engine: SparkEngine) -> None:
    engine.define_rows("holes", pl.DataFrame({"a": [None, None, "", "x"]}))
    spectrum = EngineSource(engine, "holes", {"A": "a"}, 4).spectrum(["A"])
    assert (spectrum.counts.tolist(), spectrum.values.tolist()) == ([1, 2], [2, 1])


def test_names_that_differ_by_case_alone_are_two_apis(sail: str, tmp_path: Path) -> None:
    pl.DataFrame(
        {"user": ["a", "a", "b"], "api": ["window.screen", "window.Screen", "window.Screen"]}
    ).with_columns(pl.lit("v").alias("value")).write_parquet(tmp_path / "log.parquet")
    with RemoteMonitor(sail, str(tmp_path / "store"), create=True) as monitor:
        monitor.ingest([str(tmp_path / "log.parquet")])
        assert monitor.snapshot().apis == ("window.Screen", "window.screen")


def test_answer_that_does_not_count_everybody_is_an_error(engine: SparkEngine) -> None:
    engine.define_rows("few", pl.DataFrame({"a": [1, 2, 2]}))
    with pytest.raises(StoreError, match="counted 3 of 4 users"):
        EngineSource(engine, "few", {"A": "a"}, 4).spectrum(["A"])


def test_many_sets_go_in_one_statement_without_grouping_sets() -> None:
    text = spectra_statement("t", [['"a"'], ['"a"', '"b.c"']], "spark")
    assert text.count("UNION ALL") == 1
    assert "GROUPING" not in text
    assert "`b.c`" in text


def test_mixing_of_words_is_the_local_one(engine: SparkEngine) -> None:
    rng = np.random.default_rng(1)
    ends = np.array([0, 2**64 - 1, 2**63], dtype=np.uint64)
    words = np.append(rng.integers(0, 2**64, 500, dtype=np.uint64), ends)
    frame = pl.DataFrame(
        {
            "row": np.arange(len(words)),
            "high": (words >> np.uint64(32)).astype(np.int64),
            "low": (words & np.uint64(2**32 - 1)).astype(np.int64),
        }
    )
    engine.define_rows("words", frame)
    holes = {"keep": "row", "words": "SELECT row, high, low FROM words"}
    mixed = engine.frame(portable_statement("remote/mix", "spark", fragments=holes)).sort("row")
    high, low = (mixed[name].to_numpy().astype(np.uint64) for name in ("high", "low"))
    assert np.array_equal((high << np.uint64(32)) | low, splitmix64(words))


def test_operators_keep_their_order_in_every_dialect() -> None:
    for dialect in ("spark", "bigquery"):
        assert "(a ^ b) + 1" in transpile("SELECT xor(a, b) + 1 FROM t", dialect)


@pytest.mark.parametrize("dialect", ["clickhouse", "bigquery", "spark", "duckdb"])
def test_spectra_and_mixing_are_valid_sql_in_other_dialects(dialect: str) -> None:
    sqlglot = pytest.importorskip("sqlglot")
    holes = {"keep": "a", "words": "SELECT a, high, low FROM t"}
    texts = [
        spectra_statement("t", [['"a"'], ['"a"', '"b"']], dialect),
        portable_statement("remote/mix", dialect, fragments=holes),
    ]
    for text in texts:
        assert sqlglot.parse_one(text, read=dialect).find(sqlglot.exp.Select)


class DuckEngine:
    """The same interface over DuckDB: a second engine that is executed."""

    dialect = "duckdb"

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def arrays(self, text: str) -> Any:
        return self._connection.execute(text).fetchnumpy()


def test_spectrum_source_runs_on_any_engine_that_answers_in_its_dialect() -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT i % 3 AS a, i % 2 AS b FROM range(12) r(i)")
        source = EngineSource(DuckEngine(connection), "t", {"A": "a", "B": "b"}, 12)
        spectra = source.spectra([["A"], ["A", "B"], []])
    assert [s.counts.tolist() for s in spectra] == [[4], [2], [12]]


# Errors


def test_wrong_sources_are_errors_in_one_line(
    sail: str, engine: SparkEngine, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="no store of fpmonitor"):
        FolderStore(engine, str(tmp_path / "none"))
    pl.DataFrame({"id": ["a"], "X": ["1"]}).write_parquet(tmp_path / "nouser.parquet")
    pl.DataFrame({"user": ["a"], "X": [[1.5, 2]]}).write_parquet(tmp_path / "nested.parquet")
    with RemoteMonitor(sail, str(tmp_path / "store"), create=True) as monitor:
        with pytest.raises(InputError, match="nothing that the engine can read"):
            monitor.ingest([str(tmp_path / "nothing")])
        with pytest.raises(InputError, match="no column 'user'"):
            monitor.ingest([str(tmp_path / "nouser.parquet")])
        with pytest.raises(InputError, match="of type array"):
            monitor.ingest([str(tmp_path / "nested.parquet")])
        with pytest.raises(UndecidableError):
            monitor.snapshot()


def test_unknown_api_names_the_nearest(remote: RemoteMonitor) -> None:
    with pytest.raises(UnknownNameError, match=r"Screen\.height"):
        remote.exposure([["Screen.heigth"]], k=10)


@pytest.mark.parametrize("url", ["http://localhost:1", "sc://", "sc://127.0.0.1:word"])
def test_bad_addresses_are_usage_errors(url: str) -> None:
    with pytest.raises((InputError, EngineLostError)):
        SparkEngine(url)


def test_lost_engine_leaves_what_is_proven(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fpmonitor.cluster.spark._RETRIES", 1)
    pl.read_parquet(log).head(8_000).write_parquet(tmp_path / "log.parquet")
    with (
        CLUSTER["sail"](tmp_path) as server,
        RemoteMonitor(server.url, str(tmp_path / "store"), create=True) as monitor,
    ):
        monitor.ingest([str(tmp_path / "log.parquet")])
        with RemoteMonitor(server.url, str(tmp_path / "store")) as other:
            whole = other.decide(**QUESTION, population=20_000)
        asked = []

        def kill(_evaluated: int) -> None:
            asked.append(1)
            if len(asked) == 1:
                os.kill(server.processes[0], signal.SIGKILL)

        decision = monitor.decide(**QUESTION, population=20_000, progress=kill)
    assert monitor.lost
    assert not decision.complete
    assert all(whole.verdict(apis)[0] == "allow" for apis in decision.allow)


def test_command_line_decides_on_an_engine(
    sail: str, remote: RemoteMonitor, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--engine", sail, "--store", str(log.parent / "store")]
    remote.snapshot()
    path = tmp_path / "decision.json"
    question = ["--budget", "0.05", "--population", "20000", "--candidates", ",".join(CANDIDATES)]
    assert run(["remote", "decide", *where, *question, "-o", str(path), "--quiet"]) == 0
    assert run(["export", str(path), "--to", "csv"]) == 0
    assert run(["remote", "batches", *where]) == 0
    assert run(["remote", "exposure", *where, "--apis", "Screen.height"]) == 0
    drawn = str(tmp_path / "sample.parquet")
    assert run(["remote", "sample", *where, "--users", "200", "-o", drawn]) == 0
    assert "price of sampling" in capsys.readouterr().err
    assert run(["remote", "batches", "--engine", "nowhere", "--store", "x"]) == 2


def test_decide_on_logs_that_an_engine_reads(
    sail: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    observed = pl.read_parquet(log)
    observed.head(8_000).write_parquet(tmp_path / "log.parquet")
    with Monitor(tmp_path / "local.duckdb", create=True) as monitor:
        monitor.ingest([str(tmp_path / "log.parquet")])
        here = monitor.decide(**QUESTION, population=20_000)
    source, store = str(tmp_path / "log.parquet"), str(tmp_path / "log.parquet.fpmonitor")
    with RemoteMonitor(sail, store, create=True) as monitor:  # another log in the same store
        observed.tail(500).write_parquet(tmp_path / "other.parquet")
        monitor.ingest([str(tmp_path / "other.parquet")])
    path = tmp_path / "decision.json"
    where = ["--engine", sail, "--source", source]
    question = ["--budget", "0.05", "--population", "20000", "--candidates", ",".join(CANDIDATES)]
    assert run(["decide", *where, *question, "-o", str(path), "--quiet"]) == 0
    assert answer_of(read_decision(path)) == answer_of(here)
    assert run(["remote", "check", str(path), "--engine", sail, "--store", store]) == 0
    for wrong in (
        ["--engine", sail],
        ["--engine", f"{sail}/;token=secret", "--source", source],
        ["--engine", "elsewhere"],
        [*where, "--weights", "demand"],
        ["--engine", sail, "--source", str(tmp_path / "nothing")],
        ["--engine", sail, "--source", "a_table_that_is_not_there"],
        ["--store", store],
    ):
        assert run(["decide", *question, *wrong]) == 2, wrong
    errors = capsys.readouterr().err
    assert "Traceback" not in errors
    assert "secret" not in errors
    assert not (tmp_path / "nothing.fpmonitor").exists()


def test_check_ends_with_1_when_the_users_of_now_are_above_the_budget(
    sail: str, local: Monitor, tmp_path: Path
) -> None:
    decision = local.decide(k=10, budget=0.05, candidates=["Screen.height"])
    assert decision.allow == (("Screen.height",),)
    (tmp_path / "decision.json").write_text(json.dumps(decision.to_json()))
    users = [f"u{i}" for i in range(1000)]
    frame = pl.DataFrame({"user": users, "Screen.height": range(1000)})
    frame.write_parquet(tmp_path / "now.parquet")
    store = str(tmp_path / "store")
    with RemoteMonitor(sail, store, create=True) as monitor:
        monitor.ingest([str(tmp_path / "now.parquet")])
    where = ["--engine", sail, "--store", store]
    assert run(["remote", "check", str(tmp_path / "decision.json"), *where]) == 1


def test_store_of_another_version_is_a_usage_error(engine: SparkEngine, tmp_path: Path) -> None:
    folder = str(tmp_path / "store")
    engine.write("SELECT 1 AS version, 'x' AS user_key", f"{folder}/meta")
    with pytest.raises(InputError, match="another version"):
        FolderStore(engine, folder)


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


def test_without_the_extra_a_message_names_it_and_nothing_is_imported(tmp_path: Path) -> None:
    script = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"pyspark", "sqlglot", "grpc"}:
            raise ImportError(name)
sys.meta_path.insert(0, Hidden())
from fpmonitor.cli import run
from fpmonitor.decide.decision import read_decision
import fpmonitor.remote
assert not {"pyspark", "sqlglot", "grpc", "pandas", "pyarrow"} & set(sys.modules)
sys.exit(run(["remote", "batches", "--engine", "sc://127.0.0.1:1", "--store", "x"]))
"""
    done = run_program(script, tmp_path)
    assert done.returncode == 2
    assert "fpmonitor[spark]" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_program_without_a_file_needs_no_spark_of_its_own(tmp_path: Path) -> None:
    script = """
import sys
from fpmonitor.cli import run
from fpmonitor.cluster import spark
spark._RETRIES = 1
sys.exit(run(["remote", "batches", "--engine", "sc://127.0.0.1:1", "--store", "x"]))
"""
    clean = {name: text for name, text in os.environ.items() if name != "SPARK_HOME"}
    done = run_program(script, tmp_path, clean)
    assert done.returncode == 2
    assert "127.0.0.1:1" in done.stderr
    assert "SPARK_HOME" not in done.stderr


# A real cluster


@contextmanager
def cluster(folder: Path) -> Iterator[Any]:
    home = os.environ.get("SPARK_HOME")
    if not home or not shutil.which("java"):
        pytest.skip("SPARK_HOME or Java is not there")
    quick_to_start = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    with CLUSTER["spark"](folder, Path(home), memory="1g", java=quick_to_start) as server:
        yield server


def check_times_without_a_zone(engine: SparkEngine, folder: Path) -> None:
    """Read times as exported data hold them, which Sail and Spark take for different types."""
    times = wide_visits()["time"].dt.replace_time_zone(None)
    times.to_frame().write_parquet(folder / "times.parquet")
    kinds = engine.define_files("times", [str(folder / "times.parquet")])
    moment, _ = timestamp_sql("time", kinds["time"])
    read = engine.frame(transpile(f"SELECT {moment} AS moment FROM times", "spark"))["moment"]
    assert sorted(read) == sorted(times.dt.epoch("us"))


@pytest.mark.spark
def test_cluster_gives_the_decision_of_duckdb_also_when_a_worker_dies(
    log: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    few = str(tmp_path / "few.parquet")
    pl.read_parquet(log).filter(pl.col("api").is_in(CANDIDATES)).write_parquet(few)
    with Monitor(tmp_path / "few.duckdb", create=True) as local:
        local.ingest([few])
        digest = local.snapshot().digest
        here = local.decide(**QUESTION, population=20_000)
    with (
        cluster(tmp_path) as server,
        RemoteMonitor(server.url, str(tmp_path / "store"), create=True) as monitor,
    ):
        with SparkEngine(server.url) as engine:
            check_times_without_a_zone(engine, tmp_path)
            with pytest.raises(StoreError, match="refused"):
                engine.frame("SELECT 'secret' || nothing")
        assert "secret" not in capfd.readouterr().err  # the client would log statement and stack
        monitor.ingest([few])
        assert monitor.snapshot().digest == digest

        killed = threading.Event()

        def kill() -> None:
            for process in CLUSTER["family"]((server.workers[0],)):
                os.kill(process, signal.SIGKILL)
            killed.set()

        timer = threading.Timer(1.0, kill)
        timer.start()
        there = monitor.decide(**QUESTION, population=20_000)
        assert killed.is_set()
        timer.join()
    assert answer_of(there) == answer_of(here)
    assert there.complete
