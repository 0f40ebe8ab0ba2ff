"""Cut short at any operation on a file, a run loses and doubles nothing."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")


@pytest.mark.long
def test_every_point_of_a_flush_leaves_what_was_acknowledged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills within a write and failures of the power; other runs: benchmarks/crashpoints.py."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    crashpoints = importlib.import_module("crashpoints")
    found = crashpoints.try_all(
        crashpoints.SCENARIOS["flush"], tmp_path, ways=("first page", "unnamed")
    )
    assert found["wrong"] == {}
    assert found["acknowledged"] == 3
    assert found["first page"] > 10, "the run was not written down"
    assert found["unnamed"] > 40
