"""DuckDB in this process as an engine."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from fpmonitor.cluster.local import LocalEngine


def test_ctrl_c_ends_a_query_as_it_ends_others() -> None:
    """DuckDB raises an error of its own, which would be shown as a bug."""
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    long = "SELECT sum(hash(a.range + b.range)) FROM range(10000000) AS a, range(100000) AS b"
    with LocalEngine() as engine, pytest.raises(KeyboardInterrupt):
        engine.frame(long)
