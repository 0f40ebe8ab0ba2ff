"""The page on collectors says what each reads, how it was tested, and what it leaves out."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from fpmonitor.plugins import COLLECTORS, DEMAND, plugin_names

PAGE = (Path(__file__).parents[2] / "docs" / "collectors.md").read_text(encoding="utf-8")
COLUMNS = ["collector", "reads", "recognised by", "tested with", "not taken"]
LEFT_OUT = {
    "amiunique": "_NO_APIS",
    "clientjs": "_NOT_READ",
    "creepjs": "_NOT_READ",
    "fingerprint-generator": "_NOT_READ",
    "fingerprintjs": "_HASHES",
    "thumbmarkjs": "_NOT_READ",
}


def rows() -> dict[str, list[str]]:
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    assert cells.count(COLUMNS) == 2
    return {row[0].strip("` "): row for row in cells if len(row) == len(COLUMNS)}


@pytest.mark.parametrize("group", [COLLECTORS, DEMAND])
def test_every_collector_says_how_it_was_tested_and_what_it_does_not_take(group: str) -> None:
    told = rows()
    for name in plugin_names(group):
        assert name in told, f"no row of docs/collectors.md is of {name}"
        assert all(told[name]), name


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_a_collector_leaves_out_by_name_stands_in_its_row(name: str) -> None:
    module = importlib.import_module(f"fpmonitor.collectors.{name.replace('-', '_')}")
    cell = rows()[name][-1]
    assert [left for left in getattr(module, LEFT_OUT[name]) if f"`{left}`" not in cell] == []
