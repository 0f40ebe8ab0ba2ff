"""Every statement that a page prints runs, and gives what the page says of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from fpmonitor.cluster.engine import DuckEngine
from fpmonitor.monitor import Monitor

if TYPE_CHECKING:
    from collections.abc import Callable

    Ask = Callable[[str, pl.DataFrame], pl.DataFrame]

PAGE = (Path(__file__).parents[2] / "docs" / "warehouse.md").read_text(encoding="utf-8")
STATEMENTS = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
# Users with a value that only an early visit has, equal times, no time, and none at all.
VISITS = pl.DataFrame(
    [
        ("a", 1, 1, "10", "de"),
        ("a", 2, 2, "20", None),
        ("a", 3, 3, None, None),
        ("b", 5, 4, "1", "fr"),
        ("b", 5, 5, "2", "en"),
        ("b", 4, 6, "3", None),
        ("c", None, 7, "7", "it"),
        ("c", 1, 8, None, "es"),
        ("d", 1, 9, None, None),
        ("d", 2, 10, "8", None),
    ],
    ["visitor", "seen", "visit", "width", "language"],
    orient="row",
)


@pytest.fixture(params=["duckdb", "sail"])
def ask(request: pytest.FixtureRequest, tmp_path: Path) -> Ask:
    """Run a statement on a frame, which is its table `visits`."""

    def asked(text: str, frame: pl.DataFrame) -> pl.DataFrame:
        frame.write_parquet(tmp_path / "visits.parquet")
        if request.param == "sail":
            engine = request.getfixturevalue("engine")
            return engine.frame(text.replace("visits", f"parquet.`{tmp_path}/visits.parquet`"))
        with DuckEngine() as engine:
            return engine.frame(text.replace("visits", f"'{tmp_path}/visits.parquet'"))

    return asked


def test_the_page_prints_the_statements_that_are_tried() -> None:
    assert len(STATEMENTS) == 2


def test_earlier_values_are_carried_as_a_database_file_keeps_them(ask: Ask, tmp_path: Path) -> None:
    """`last_value` over times that fall carries the oldest value, or by its default frame none."""
    found = sorted(ask(STATEMENTS[0], VISITS).select("visitor", "width", "language").rows())
    assert found == [("a", "20", "de"), ("b", "2", "en"), ("c", "7", "es"), ("d", "8", None)]
    timed = VISITS.filter(pl.col("seen").is_not_null()).sort("visit")
    log = timed.select("width", "language", user="visitor", time=pl.col("seen") + 1_700_000_000)
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        monitor.ingest(log)
        users = monitor.population()
        kept = {
            api: sorted(
                filter(None, (users.values(api).get(c) for c in users.column(api).tolist()))
            )
            for api in ("width", "language")
        }
    by_query = [row for row in found if row[0] != "c"]
    assert kept["width"] == sorted(row[1] for row in by_query if row[1])
    assert kept["language"] == sorted([*(row[2] for row in by_query if row[2]), "es"])


@pytest.mark.parametrize("limit", [1, 3])
def test_the_test_for_dbt_tells_of_exposed_users_above_a_share(ask: Ask, limit: int) -> None:
    people = pl.DataFrame({"width": ["1"] * 40 + ["2"] * limit, "language": ["de"] * (40 + limit)})
    text = STATEMENTS[1].replace("{{ ref('latest_visits') }}", "visits")
    assert ask(text, people).rows() == ([(limit,)] if limit / (40 + limit) > 0.05 else [])
