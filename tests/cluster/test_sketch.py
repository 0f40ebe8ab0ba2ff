"""Sketches on an engine: the words and users that this computer counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from fpmonitor.cluster.local import LocalEngine
from fpmonitor.cluster.spark import SparkEngine
from fpmonitor.sketch.file import UserPart
from fpmonitor.sketch.making import sketch_table
from fpmonitor.sketch.plan import SketchPlan
from fpmonitor.sketch.words import SketchKey

if TYPE_CHECKING:
    from pathlib import Path

KEY = SketchKey(bytes(range(32)))
PLAN = SketchPlan(key=KEY, sets=(("A",), ("A", "B", "C"), ("B", "D")), level=1)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Visits of users with texts, numbers, JSON in two spellings, large values, absent ones."""
    rng = np.random.default_rng(5)
    rows = 400
    lists = ['{"b": 1, "a": [2]}', '{"a":[2],"b":1}', "x" * 300, "é", "it's", "[1, 2]"]
    path = tmp_path_factory.mktemp("users") / "visits.parquet"
    pl.DataFrame(
        {
            "user": [f"u{i}" for i in rng.integers(0, 300, rows)],
            "seen": rng.permutation(rows),
            "A": [f"text {i}" for i in np.minimum(rng.zipf(1.4, rows), 800)],
            "B": [None if i < 4 else int(i) for i in rng.integers(0, 40, rows)],
            "C": rng.integers(0, 60, rows) / 7,
            "D": [lists[i] for i in rng.integers(0, len(lists), rows)],
        }
    ).write_parquet(path)
    return path


WAYS: list[dict[str, Any]] = [
    {},
    {"user": "user", "time": "seen"},
    {"user": "user", "time": "seen", "part": UserPart(2, 3, 4)},
]


def heads(engine: Any, table: Path) -> list[bytes]:
    return [sketch_table(engine, str(table), PLAN, **way).head for way in WAYS]


def test_an_engine_and_this_computer_give_the_same_bytes(engine: SparkEngine, table: Path) -> None:
    with LocalEngine() as local:
        assert heads(engine, table) == heads(local, table)


@pytest.mark.spark
def test_spark_and_this_computer_give_the_same_bytes(spark_cluster: Any, table: Path) -> None:
    with SparkEngine(spark_cluster.url) as engine, LocalEngine() as local:
        assert heads(engine, table) == heads(local, table)
