"""Demand logs of other forms: a crawl's folder, plain tables of calls, inspections."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.errors import InputError
from fpmonitor.monitor import Monitor

if TYPE_CHECKING:
    from pathlib import Path

CALLS = [
    # visit, page, script, symbol, operation
    (1, "https://a.example/?id=7", "https://t.example/x.js", "window.navigator.userAgent", "get"),
    (1, "https://a.example/", "webpack:///./lib.js", "window.navigator.language", "get"),
    (1, "https://a.example/", "", "window.navigator.vendor", "get"),
    (1, "https://a.example/", "https://t.example/x.js", "window.document.title", "set"),
    (2, "https://b.example/", "https://u.example/y.js", "window.navigator.platform", "get"),
    (4, "", "https://v.example/z.js", "window.screen.width", "get"),
    (5, "", "https://v.example/z.js", "window.screen.width", "get"),
]
COLUMNS = ["visit_id", "top_level_url", "script_url", "symbol", "operation"]
STORED = {
    ("a.example", "t.example/x.js", "Navigator.userAgent"),
    ("a.example", "a.example", "Navigator.language"),
    ("a.example", "a.example", "Navigator.vendor"),
    ("d.example", "v.example/z.js", "Screen.width"),
}
REASONS = ["does not tell the page", "the crawler did not complete this visit"]


def parquet_crawl(folder: Path, *, parts: int = 2) -> Path:
    tables: dict[str, pl.DataFrame] = {
        "javascript": pl.DataFrame(CALLS, schema=COLUMNS, orient="row"),
        "incomplete_visits": pl.DataFrame({"visit_id": [2]}),
        "site_visits": pl.DataFrame({"visit_id": [1, 2, 4], "site_url": ["https://a.example/",
            "https://b.example/", "https://d.example/"]}),
        "http_requests": pl.DataFrame({"visit_id": [1], "url": ["https://a.example/"]}),
    }  # fmt: skip
    for name, table in tables.items():
        place = folder / name
        place.mkdir(parents=True)
        step = -(-len(table) // parts)
        for i in range(0, len(table), step):
            table[i : i + step].write_parquet(place / f"{i}.parquet")
    return folder


def calls_of(monitor: Monitor) -> set[tuple[str, ...]]:
    rows = monitor.database._fetch("SELECT DISTINCT site, script, api FROM demand")
    return set(rows)


@pytest.mark.parametrize("named", [".", "javascript"])
def test_the_folder_of_a_crawl_is_one_log(
    tmp_path: Path, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = parquet_crawl(tmp_path / "crawl") / named
    database = str(tmp_path / "x.duckdb")
    assert run(["lists", "demand", str(crawl), "--db", database]) == 0
    assert "4 of 6 records of calls stored, 2 rejected" in capsys.readouterr().err
    assert run(["db", "rejects", "--db", database, "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert sorted(row["reason"] for row in listed) == REASONS
    with Monitor(database) as monitor:
        assert calls_of(monitor) == STORED
        [again] = monitor.store_demand([str(crawl)])
        assert (again.stored, calls_of(monitor)) == (0, STORED)


def test_a_part_of_a_crawl_and_a_database_leave_out_the_same_visits(tmp_path: Path) -> None:
    crawl = parquet_crawl(tmp_path / "crawl", parts=1)
    sqlite = tmp_path / "crawl.sqlite"
    with closing(sqlite3.connect(sqlite)) as connection:
        for folder in ("javascript", "incomplete_visits", "site_visits"):
            table = pl.read_parquet(crawl / folder / "*.parquet")
            connection.execute(f"CREATE TABLE {folder} ({', '.join(table.columns)})")
            cells = ", ".join("?" * table.width)
            connection.executemany(f"INSERT INTO {folder} VALUES ({cells})", table.rows())
        connection.commit()
    for number, log in enumerate([crawl / "javascript" / "0.parquet", sqlite]):
        with Monitor(tmp_path / f"{number}.duckdb", create=True) as monitor:
            [report] = monitor.store_demand([str(log)])
            assert (report.rejected, calls_of(monitor)) == (2, STORED)


def test_a_folder_of_other_files_is_read_file_by_file(tmp_path: Path) -> None:
    folder = tmp_path / "sites"
    folder.mkdir()
    for name in "ab":
        record = {"site": f"{name}.example", "api": "Navigator.userAgent"}
        (folder / f"{name}.jsonl").write_text(json.dumps(record) + "\n")
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        assert [report.stored for report in monitor.store_demand([str(folder)])] == [1, 1]


ROWS: list[dict[str, Any]] = [
    {"site": "a.example", "script": "https://t.example/x.js?q=1", "api": "Navigator.userAgent",
     "calls": 3},
    {"site": "https://b.example/p?u=1", "script": "t.example/x.js", "api": "window.screen.width",
     "calls": 1},
    {"site": "b.example", "script": None, "api": "Navigator.prototype.platform", "calls": 2},
    {"site": "b.example", "script": "t.example/x.js", "api": "my.own", "calls": 2},
    {"site": None, "script": "t.example/x.js", "api": "Navigator.userAgent", "calls": 1},
    {"site": "c.example", "script": "t.example/x.js", "api": "Navigator.userAgent", "calls": 0},
]  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_plain_table_of_calls_is_demand(tmp_path: Path, form: str) -> None:
    table, log = pl.DataFrame(ROWS), tmp_path / f"calls.{form}"
    {"csv": table.write_csv, "jsonl": table.write_ndjson, "parquet": table.write_parquet}[form](log)
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        [report] = monitor.store_demand([str(log)])
        assert (report.collector, report.stored, report.rejected) == ("calls", 4, 2)
        assert calls_of(monitor) == {
            ("a.example", "t.example/x.js", "Navigator.userAgent"),
            ("b.example", "t.example/x.js", "Screen.width"),
            ("b.example", "b.example", "Navigator.platform"),
            ("b.example", "t.example/x.js", "x:calls:my.own"),
        }
        rejects = monitor.rejects()
        assert [(row.line, row.reason) for row in rejects] == [
            (5 + (form == "csv"), "does not tell the page"),
            (6 + (form == "csv"), "the number of calls is not a whole number"),
        ]
        assert not any("example" in row.excerpt for row in rejects)


def test_records_that_do_not_fit_a_table_of_calls_are_listed(tmp_path: Path) -> None:
    log = tmp_path / "calls.csv"
    log.write_text("site,api\na.example,Navigator.userAgent\nb.example,x,y,z\n")
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        [report] = monitor.store_demand([str(log)])
        assert (report.read, report.stored, report.rejected) == (2, 1, 1)
        assert [row.reason for row in monitor.rejects()] == ["not a record of the table"]


def test_inspections_of_blacklight_are_read(tmp_path: Path) -> None:
    inspection = {
        "uri_ins": "https://a.example",
        "uri_dest": "https://www.a.example/?x=1",
        "reports": {
            "cookies": [{"name": "secret"}],
            "canvas_fingerprinters": {
                "data_url": {"https://t.example/c.js": ["data:,x"]},
                "fingerprinters": ["https://t.example/c.js"],
                "texts": {},
                "styles": {},
            },
            "canvas_font_fingerprinters": {"canvas_font": {}, "text_measure": {}},
            "fingerprintable_api_calls": {
                "NAVIGATOR": {"https://t.example/n.js?v=2": ["window.navigator.userAgent"]},
                "WEBRTC": {"https://t.example/n.js?v=2": ["RTCPeerConnection"]},
                "SCREEN": {"": ["window.screen.colorDepth"]},
            },
        },
    }
    log = tmp_path / "inspection.json"
    log.write_text(json.dumps(inspection, indent=2))
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        [report] = monitor.store_demand([str(log)])
        assert (report.collector, report.rejected) == ("blacklight", 0)
        assert calls_of(monitor) == {
            ("www.a.example", "t.example/c.js", "HTMLCanvasElement.toDataURL"),
            ("www.a.example", "t.example/n.js", "Navigator.userAgent"),
            ("www.a.example", "t.example/n.js", "RTCPeerConnection.createOffer"),
            ("www.a.example", "www.a.example", "Screen.colorDepth"),
        }
    assert b"secret" not in (tmp_path / "x.duckdb").read_bytes()


def test_a_crawl_with_a_broken_table_is_refused(tmp_path: Path) -> None:
    crawl = parquet_crawl(tmp_path / "crawl")
    (crawl / "javascript" / "9.parquet").write_bytes(b"PAR1broken")
    with (
        Monitor(tmp_path / "x.duckdb", create=True) as monitor,
        pytest.raises(InputError, match="crawl of OpenWPM"),
    ):
        monitor.store_demand([str(crawl)])
