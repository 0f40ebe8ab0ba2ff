"""Users that sketches are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from fpmonitor.cluster.engine import DuckEngine
from fpmonitor.sketch.making import SketchPlan, sketch_table
from fpmonitor.sketch.words import SketchKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fpmonitor.sketch.file import Sketch

USERS = 3000


@pytest.fixture(scope="session")
def key() -> SketchKey:
    """A key."""
    return SketchKey(bytes(range(32)))


@pytest.fixture(scope="session")
def frame() -> pl.DataFrame:
    """Users with texts, numbers, JSON in two spellings, large values, and absent ones."""
    rng = np.random.default_rng(5)
    lists = ['{"b": 1, "a": [2]}', '{"a":[2],"b":1}', "x" * 300, "é", "it's", "[1, 2]"]
    return pl.DataFrame(
        {
            "user": [f"u{i}" for i in range(USERS)],
            "A": [f"text {i}" for i in np.minimum(rng.zipf(1.4, USERS), 800)],
            "B": [None if i < 4 else int(i) for i in rng.integers(0, 400, USERS)],
            "C": rng.integers(0, 60, USERS) / 8,
            "D": [lists[i] for i in rng.integers(0, len(lists), USERS)],
        }
    )


@pytest.fixture(scope="session")
def table(frame: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The users as a Parquet file."""
    path = tmp_path_factory.mktemp("users") / "users.parquet"
    frame.write_parquet(path)
    return path


@pytest.fixture(scope="session")
def sketched(key: SketchKey) -> Callable[..., Sketch]:
    """Make a sketch of a table by DuckDB."""

    def made(
        table: Path | str,
        *,
        sets: Any = (("A",), ("B",), ("A", "C"), ("A", "B", "C", "D")),
        level: int | None = None,
        entries: int | None = None,
        other_key: SketchKey | None = None,
        **more: Any,
    ) -> Sketch:
        level = 2 if level is None and entries is None else level
        plan = SketchPlan(key=other_key or key, sets=sets, entries=entries, level=level)
        with DuckEngine() as engine:
            return sketch_table(engine, str(table), plan, **more)

    return made
