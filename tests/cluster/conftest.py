"""Servers for the tests of engines: Sail in a process of its own, Spark where SPARK_HOME is set."""

from __future__ import annotations

import os
import runpy
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cluster.spark import SparkEngine

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
        yield server


@pytest.fixture
def engine(sail: str) -> Iterator[SparkEngine]:
    """A session on Sail."""
    with SparkEngine(sail) as opened:
        yield opened
