"""DuckDB in this process as an engine: Ctrl-C ends it, whatever it does."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cli import run
from fpmonitor.cluster.engine import open_engine
from fpmonitor.cluster.fetching import fetch_visits
from fpmonitor.errors import InputError, StoreError
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.monitor import Monitor

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.long
@pytest.mark.parametrize(
    "query",
    [
        # In a statement that DuckDB works at for hours.
        "SELECT sum(hash(a.range + b.range)) AS A FROM range(10000000) AS a, range(100000) AS b",
        # While a thread of Polars reads rows, and DuckDB calls Python for each.
        "SELECT '[' || repeat('1, ', 4000) || range || ']' AS A FROM range(60000)",
    ],
    ids=["statement", "rows"],
)
def test_ctrl_c_ends_what_an_engine_does(query: str, tmp_path: Path) -> None:
    assert run(["scale", "sketch", "key", str(tmp_path / "key")]) == 0
    process = subprocess.Popen(
        [
            *(
                sys.executable,
                "-m",
                "fpmonitor",
                "scale",
                "sketch",
                "make",
                "--apis",
                "A",
                "--from",
                query,
            ),
            *("--key-file", str(tmp_path / "key"), "-o", str(tmp_path / "sketch")),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=15)[1]
    assert process.returncode == 130
    assert said.endswith("fpmonitor: interrupted\n")
    assert not (tmp_path / "sketch").exists()


@pytest.mark.parametrize(
    ("value", "columns", "error", "said"),
    [
        ("INTERVAL 3 DAYS", {}, StoreError, "refused the statement"),
        ("'infinity'::TIMESTAMP", {"time": "seen"}, InputError, "holds no times"),
    ],
)
def test_what_polars_panics_at_is_refused(
    value: str, columns: dict[Any, str], error: type[Exception], said: str, tmp_path: Path
) -> None:
    table, named = f"SELECT 1 AS visitor, {value} AS seen", {"user": "visitor", **columns}
    with (
        open_engine() as engine,
        Monitor(tmp_path / "x.duckdb", create=True) as monitor,
        pytest.raises(error, match=said),
    ):
        fetch_visits(monitor.database, engine, table, ColumnMap(columns=named))
