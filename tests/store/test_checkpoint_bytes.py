"""The bytes that a checkpoint copies, and puts back after a kill, lie where DuckDB writes them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import duckdb

from fpmonitor.monitor import Monitor
from fpmonitor.store.checkpoint import _HEADERS_BYTES

if TYPE_CHECKING:
    from pathlib import Path

# The number of its format, by version of DuckDB: of the oldest that pyproject.toml allows, and of
# the newest, with which test_crashpoints.py tries kills.
KNOWN = {"1.5": 64, "2.0": 999}


def test_the_bytes_of_this_version_of_duckdb_are_where_they_were(tmp_path: Path) -> None:
    path = tmp_path / "d.duckdb"
    with Monitor(path, create=True):
        pass
    version = duckdb.__version__.rpartition(".")[0]
    assert version in KNOWN, (
        "nobody has looked where this DuckDB puts metadata: run benchmarks/crashpoints.py with it, "
        "and add it here if nothing is lost"
    )
    with path.open("rb") as file:
        headers = file.read(_HEADERS_BYTES)
    with duckdb.connect(path, read_only=True) as connection:
        [(size,)] = connection.execute("SELECT block_size FROM pragma_database_size()").fetchall()
    assert headers[8:12] == b"DUCK"
    assert struct.unpack("<Q", headers[12:20]) == (KNOWN[version],)
    assert (path.stat().st_size - _HEADERS_BYTES) % size == 0, "blocks follow the headers"
