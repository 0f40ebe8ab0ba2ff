"""Servers for the tests of engines: Sail in a process of its own, Spark where SPARK_HOME is set."""

from __future__ import annotations

import importlib.util
import os
import runpy
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cluster.spark import SparkEngine
from fpmonitor.errors import EngineLostError
from tests.cluster import warehouses
from tests.patience import wait

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CLUSTER = runpy.run_path(str(ROOT / "benchmarks" / "spark_cluster.py"), run_name="spark_cluster")


@pytest.fixture(scope="session")
def servers() -> dict[str, Any]:
    """Functions that start servers."""
    return CLUSTER


@pytest.fixture(scope="session")
def sail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a Sail."""
    with CLUSTER["sail"](tmp_path_factory.mktemp("sail")) as server:
        yield server.url


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Master, two workers and a server of Spark Connect."""
    home = os.environ.get("SPARK_HOME")
    if not home or not shutil.which("java"):
        pytest.skip("SPARK_HOME or Java is not there")
    quick_to_start = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    folder = tmp_path_factory.mktemp("spark")
    with CLUSTER["spark"](folder, Path(home), memory="1g", java=quick_to_start) as server:
        wait(lambda: answers(server.url), 240)  # the first answer of all takes long
        yield server


def answers(url: str) -> bool:
    """Whether somebody answers."""
    try:
        with SparkEngine(url) as opened:
            return len(opened.frame("SELECT 1 AS one")) == 1
    except EngineLostError:
        return False


@pytest.fixture
def engine(sail: str) -> Iterator[SparkEngine]:
    """A session on Sail."""
    with SparkEngine(sail) as opened:
        yield opened


@pytest.fixture(scope="session")
def postgres() -> Iterator[warehouses.Postgres]:
    """A server of Postgres."""
    with warehouses.postgres() as psql:
        yield warehouses.Postgres(psql)


@pytest.fixture(scope="session")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[warehouses.ClickHouse]:
    """ClickHouse in a process."""
    if importlib.util.find_spec("chdb") is None:
        pytest.skip("chdb is not there")
    house = warehouses.ClickHouse(tmp_path_factory.mktemp("clickhouse"))
    yield house
    house.close()


@pytest.fixture(
    params=[
        "duckdb",
        "sail",
        pytest.param("postgres", marks=pytest.mark.warehouse),
        pytest.param("clickhouse", marks=pytest.mark.warehouse),
        pytest.param("spark", marks=pytest.mark.spark),
    ]
)
def house(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> warehouses.House:
    """Each warehouse that can be had here."""
    name = request.param
    if name == "duckdb":
        return warehouses.Duck(tmp_path_factory.mktemp("duckdb"))
    if name in {"sail", "spark"}:
        server = request.getfixturevalue("sail" if name == "sail" else "spark_cluster")
        address = server if name == "sail" else server.url
        return warehouses.Spark(address, tmp_path_factory.mktemp(name))
    found: warehouses.House = request.getfixturevalue(name)
    if name == "postgres":
        pytest.importorskip("psycopg")
    return found
