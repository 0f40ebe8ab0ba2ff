"""Spectra from other engines: Sail in its own process, DuckDB behind the same interface."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pytest

from fpmonitor.cluster.portable import EngineSource, spectra_statement, transpile
from fpmonitor.cluster.spark import SparkEngine
from fpmonitor.errors import EngineLostError, InputError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CLUSTER = runpy.run_path(str(ROOT / "benchmarks" / "spark_cluster.py"), run_name="spark_cluster")


@pytest.fixture(scope="session")
def sail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with CLUSTER["sail"](tmp_path_factory.mktemp("sail")) as server:
        yield server.url


@pytest.fixture(scope="session")
def engine(sail: str) -> Iterator[SparkEngine]:
    with SparkEngine(sail) as opened:
        yield opened


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


def test_answer_that_does_not_count_everybody_is_an_error(engine: SparkEngine) -> None:
    engine.define_rows("few", pl.DataFrame({"a": [1, 2, 2]}))
    with pytest.raises(StoreError, match="counted 3 of 4 users"):
        EngineSource(engine, "few", {"A": "a"}, 4).spectrum(["A"])


def test_many_sets_go_in_one_statement_without_grouping_sets() -> None:
    text = spectra_statement("t", [['"a"'], ['"a"', '"b.c"']], "spark")
    assert text.count("UNION ALL") == 1
    assert "GROUPING" not in text
    assert "`b.c`" in text


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


@pytest.mark.parametrize("url", ["http://localhost:1", "sc://", "sc://127.0.0.1:word"])
def test_bad_addresses_are_usage_errors(url: str) -> None:
    with pytest.raises((InputError, EngineLostError)):
        SparkEngine(url)


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
from fpmonitor.cluster.spark import SparkEngine
assert not {"pyspark", "sqlglot", "grpc", "pandas", "pyarrow"} & set(sys.modules)
try:
    SparkEngine("sc://127.0.0.1:1")
except Exception as error:
    print(type(error).__name__, error, error.hint)
"""
    done = run_program(script, tmp_path)
    assert done.stdout.startswith("InputError")
    assert "fpmonitor[spark]" in done.stdout


def test_a_program_without_a_file_needs_no_spark_of_its_own(tmp_path: Path) -> None:
    script = """
from fpmonitor.cluster import spark
spark._RETRIES = 1
try:
    spark.SparkEngine("sc://127.0.0.1:1")
except Exception as error:
    print(type(error).__name__, error)
"""
    clean = {name: text for name, text in os.environ.items() if name != "SPARK_HOME"}
    done = run_program(script, tmp_path, clean)
    assert done.stdout.startswith("EngineLostError")
    assert "127.0.0.1:1" in done.stdout
    assert "SPARK_HOME" not in done.stdout + done.stderr
