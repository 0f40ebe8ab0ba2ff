"""Every statement that a page prints runs, and gives what the page says of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from fpmonitor.monitor import Monitor

if TYPE_CHECKING:
    from fpmonitor.cluster.spark import SparkEngine

DOCS = Path(__file__).parents[2] / "docs"
STATEMENTS = {
    page: re.findall(r"```sql\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    for page in ("spark.md", "warehouse.md")
}
# Users with a value that only an early visit has, equal times, no time, and none at all.
VISITS = pl.DataFrame(
    [
        ("a", 1, 1, 1, "10", "de"),
        ("a", 2, 1, 2, "20", None),
        ("a", 3, 2, 1, None, None),
        ("b", 5, 1, 4, "1", "fr"),
        ("b", 5, 1, 5, "2", "en"),
        ("b", 4, 3, 1, "3", None),
        ("c", None, 1, 1, "7", "it"),
        ("c", 1, 1, 1, None, "es"),
        ("d", 1, 1, 1, None, None),
        ("d", 2, 1, 1, "8", None),
    ],
    ["user", "time", "batch", "visit", "width", "language"],
    orient="row",
)


def rows_of(engine: SparkEngine, text: str) -> list[tuple[str | None, ...]]:
    engine.define_rows("visits", VISITS)
    return sorted(engine.frame(text).select("user", "width", "language").rows())


def test_pages_print_the_statements_that_are_tried() -> None:
    assert {page: len(found) for page, found in STATEMENTS.items()} == {
        "spark.md": 2,
        "warehouse.md": 1,
    }


def test_the_latest_visit_of_each_user_is_kept_whole(engine: SparkEngine) -> None:
    assert rows_of(engine, STATEMENTS["spark.md"][0]) == [
        ("a", None, None),
        ("b", "2", "en"),
        ("c", None, "es"),
        ("d", "8", None),
    ]


def test_earlier_values_are_carried_as_a_database_file_keeps_them(
    engine: SparkEngine, tmp_path: Path
) -> None:
    """`last_value` over times that fall carries the oldest value, or by its default frame none."""
    found = rows_of(engine, STATEMENTS["spark.md"][1])
    assert found == [("a", "20", "de"), ("b", "2", "en"), ("c", "7", "es"), ("d", "8", None)]
    timed = VISITS.filter(pl.col("time").is_not_null()).sort("batch", "visit")
    log = timed.select("user", pl.col("time") + 1_700_000_000, "width", "language")
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
def test_the_test_for_dbt_tells_of_exposed_users_above_a_share(
    engine: SparkEngine, limit: int
) -> None:
    people = pl.DataFrame({"width": ["1"] * 40 + ["2"] * limit, "language": ["de"] * (40 + limit)})
    engine.define_rows("latest_visits", people)
    text = STATEMENTS["warehouse.md"][0].replace("{{ ref('latest_visits') }}", "latest_visits")
    assert engine.frame(text).rows() == ([(limit,)] if limit / (40 + limit) > 0.05 else [])
