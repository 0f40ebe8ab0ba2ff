"""The exercises of CONTRIBUTING.md, done with toys: one file and one line each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

EXPORTER = '''
"""Allow list for a product that reads one API per line."""

from fpmonitor.export.exporter import PlainExporter
from fpmonitor.export.lists import api_actions


def write(decision):
    return "".join(f"{entry.api}\\n" for entry in api_actions(decision) if entry.action == "allow")


def check(text):
    return [f"not an API: {line}" for line in text.splitlines() if "." not in line]


LINES = PlainExporter(name="lines", summary="one API per line", write=write, check=check)
'''
COLLECTOR = '''
"""Lines such as `u1 platform=Linux memory=8`."""

import polars as pl

from fpmonitor.collectors.codes import Coder


class KeysCollector:
    name = "keys"

    def recognises(self, log, column_map):
        return log.head.startswith(b"#keys\\n")

    def read(self, log, column_map):
        coder = Coder()
        for block in log.blocks():
            records = [line.split() for line in block.data.decode().splitlines() if line[:1] != "#"]
            cells = [dict(cell.split("=") for cell in cells) for _, *cells in records]
            yield coder.wide(
                pl.DataFrame({"user": [user for user, *_ in records]}, schema={"user": pl.String}),
                pl.DataFrame({api: [c.get(name) for c in cells] for name, api in APIS.items()},
                             schema=dict.fromkeys(APIS.values(), pl.String)),
            )


APIS = {"platform": "Navigator.platform", "memory": "Navigator.deviceMemory"}
'''
DECISION = {
    "policy": {
        "k": 10,
        "population": 100,
        "budget": 0.1,
        "delta": None,
        "candidates": ["A.a", "B.b"],
    },
    "setting": "sample",
    "missing": "value",
    "data": {"users": 100, "digest": "none"},
    "guarantee": "none",
    "allow": [["A.a"]],
    "block": [["B.b"]],
    "undecided": [],
    "recommended": ["A.a"],
    "complete": True,
    "evaluated": 2,
    "seconds": 0.0,
}


class Toys:
    """An environment with a package beside fpmonitor, as `pip install` would leave it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, module: str, text: str, *, group: str, line: str) -> None:
        """Install one file, which one line of entry points names."""
        (self.folder / f"{module}.py").write_text(text, encoding="utf-8")
        metadata = self.folder / f"{module}-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Name: {module}\nVersion: 1\n", encoding="utf-8")
        (metadata / "entry_points.txt").write_text(f"[{group}]\n{line}\n", encoding="utf-8")

    def run(self, *arguments: str) -> str:
        """Output of a command of fpmonitor in that environment."""
        done = subprocess.run(
            [sys.executable, "-m", "fpmonitor", *arguments],
            env={**os.environ, "PYTHONPATH": str(self.folder)},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def toys(tmp_path: Path) -> Toys:
    return Toys(tmp_path)


def test_an_exporter_is_one_file_and_one_line(toys: Toys) -> None:
    toys.add("toy_lines", EXPORTER, group="fpmonitor.exporters", line="lines = toy_lines:LINES")

    (toys.folder / "decision.json").write_text(json.dumps(DECISION), encoding="utf-8")
    assert toys.run("export", "decision.json", "--to", "lines") == "A.a\n"


def test_a_collector_is_one_file_and_one_line(toys: Toys) -> None:
    toys.add(
        "toy_keys", COLLECTOR, group="fpmonitor.collectors", line="keys = toy_keys:KeysCollector"
    )
    log = "#keys\nu1 platform=Linux memory=8\nu2 platform=Win32\n"
    (toys.folder / "visits.log").write_text(log, encoding="utf-8")

    [batch] = json.loads(toys.run("ingest", "visits.log", "--format", "json"))["batches"]
    assert (batch["collector"], batch["stored"], batch["users"], batch["apis"]) == ("keys", 2, 2, 2)
    observed = json.loads(toys.run("apis", "--unsafe-counts", "--format", "json"))
    assert {row["api"]: row["users"] for row in observed} == {
        "Navigator.deviceMemory": 1,
        "Navigator.platform": 2,
    }
