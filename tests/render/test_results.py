"""Results: every one becomes a data frame, and shows itself, names as text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

import fpmonitor
from fpmonitor.answers.apart import UnionBound
from fpmonitor.answers.compare import compare_decisions, compare_sets
from fpmonitor.answers.withheld import Coarser, Withheld
from fpmonitor.monitor import Monitor

if TYPE_CHECKING:
    from pathlib import Path

    from fpmonitor.results import Result

HOSTILE = "x:a:<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    folder: Path = tmp_path_factory.mktemp("results")
    log = folder / "log.jsonl"
    rows = [
        {
            "user": f"u{i}",
            "time": f"2026-03-{2 + 7 * (i % 2):02}T10:00:00Z",
            "A.a": str(i % 3),
            HOSTILE: str(i % 40),
        }
        for i in range(400)
    ]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with Monitor(folder / "m.duckdb", create=True) as monitor:
        monitor.ingest([str(log)])
        exposures = monitor.exposure([["A.a", HOSTILE]], k=10, trust="joint", bounds=True)
        decision = monitor.decide(k=10, budget=0.3)
        return [
            *exposures,
            monitor.rank(k=10),
            monitor.curve([HOSTILE], k=10),
            monitor.trend(k=10),
            *monitor.apis(k=10),
            decision,
            compare_sets(exposures[0], exposures[0]),
            *compare_decisions(decision, decision),
            fpmonitor.exposure([20, 30, 1, 1], k=10),
        ]


def test_results_become_data_frames(results: list[Result]) -> None:
    for result in results:
        frame = result.to_polars()
        assert frame.height == len(result.rows()) > 0, type(result)
        assert frame.columns == list(result.rows()[0])


def test_results_show_themselves(results: list[Result]) -> None:
    for result in results:
        shown = result._repr_html_()
        assert "<img" not in shown, type(result)
        tables = ET.fromstring(f"<div>{shown}</div>").findall("table")
        assert all(table.findall("tbody/tr") for table in tables[:1]), type(result)
        assert tables, type(result)


def test_results_with_members_of_members_show_themselves() -> None:
    """A notebook showed a traceback in the place of each."""
    coarser = Coarser(words="rounded", transform={"round": 10}, lower=0.1, upper=0.2, fits=False)
    withheld = Withheld(
        api=HOSTILE,
        reason="r",
        lower=0.1,
        upper=0.2,
        coarser=(coarser,),
        is_undecided=False,
        users_needed=None,
    )
    union = UnionBound(
        apis=("a",),
        upper=0.1,
        kept=(3, 4),
        users=(50, 60),
        budget=0.1,
        k=10,
        population=100,
        delta=0.05,
    )
    assert "rounded" in withheld._repr_html_()
    assert "3, 4" in union._repr_html_()
