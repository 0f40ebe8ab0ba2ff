"""Demand logs say what scripts read; exposure comes from the population alone."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.collectors.calls import script_of, site_of
from fpmonitor.errors import InputError
from fpmonitor.monitor import Monitor
from fpmonitor.sql import schema_statements
from fpmonitor.store.database import SCHEMA_VERSION, Database

if TYPE_CHECKING:
    from pathlib import Path

OPENWPM = [
    # visit, site, script, symbol, operation
    (1, "https://a.example/?id=7", "https://t.example/fp.js", "window.navigator.userAgent", "get"),
    (1, "https://a.example/x", "https://t.example/fp.js", "HTMLCanvasElement.toDataURL", "call"),
    (1, "https://a.example/x", "https://t.example/fp.js", "window.document.title", "set"),
    (2, "https://b.example/", "https://t.example/fp.js", "window.navigator.userAgent", "get"),
    (2, "https://b.example/", "https://t.example/fp.js", "HTMLCanvasElement.toDataURL", "call"),
    (2, "https://b.example/", "https://b.example/own.js", "window.screen.width", "get"),
    (3, "https://c.example/", "https://t.example/fp.js", "window.screen.width", "get"),
    (1, "https://a.example/x", "", "window.screen.width", "get"),
]  # fmt: skip
SETS = {
    ("HTMLCanvasElement.toDataURL", "Navigator.userAgent"): (1, 2),
    ("Screen.width",): (2, 2),
}


def sqlite_crawl(path: Path, *, site: str = "top_level_url", incomplete: bool = True) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            f"CREATE TABLE javascript (visit_id, {site}, script_url, symbol, operation, value)"
        )
        connection.executemany("INSERT INTO javascript VALUES (?, ?, ?, ?, ?, 'secret')", OPENWPM)
        if incomplete:
            connection.execute("CREATE TABLE incomplete_visits (visit_id)")
            connection.execute("INSERT INTO incomplete_visits VALUES (3)")
        connection.commit()
    return path


def sets_of(monitor: Monitor, by: Any = "script") -> dict[tuple[str, ...], tuple[int, int]]:
    return {line.apis: (line.scripts, line.sites) for line in monitor.demand(by)}


@pytest.mark.parametrize("site", ["top_level_url", "document_url"])
def test_openwpm_in_sqlite_is_read_under_old_and_new_names(tmp_path: Path, site: str) -> None:
    log = sqlite_crawl(tmp_path / "crawl.sqlite", site=site)
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        [report] = monitor.store_demand([str(log)])
        assert (report.collector, report.rejected) == ("openwpm", 1)
        assert report.read == report.stored + report.rejected
        assert sets_of(monitor) == SETS


def test_openwpm_in_parquet_says_the_same(tmp_path: Path) -> None:
    log = tmp_path / "part-0.parquet"
    names = ["visit_id", "top_level_url", "script_url", "symbol", "operation"]
    complete = [row for row in OPENWPM if row[0] != 3]
    pl.DataFrame(complete, schema=names, orient="row").write_parquet(log)
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        monitor.store_demand([str(log)])
        assert sets_of(monitor) == SETS


def test_a_file_with_the_columns_of_a_summed_crawl_may_hold_anything(tmp_path: Path) -> None:
    log = tmp_path / "summed.parquet"
    cells = {"page": [1], "script": [2], "symbol": [3.5], "incomplete": [0], "calls": [1]}
    pl.DataFrame(cells).write_parquet(log)
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        [report] = monitor.store_demand([str(log)], collector="openwpm")
        assert (report.stored, report.rejected) == (0, 1)
        pl.DataFrame(cells | {"calls": ["many"]}).write_parquet(log)
        with pytest.raises(InputError, match="as a log of OpenWPM"):
            monitor.store_demand([str(log)], collector="openwpm")


def test_scripts_of_a_site_can_join_what_they_read(tmp_path: Path) -> None:
    log = sqlite_crawl(tmp_path / "crawl.sqlite")
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        monitor.store_demand([str(log)])
        assert sets_of(monitor, "site") == {
            ("HTMLCanvasElement.toDataURL", "Navigator.userAgent", "Screen.width"): (4, 2),
        }


def test_storing_a_log_twice_adds_nothing(tmp_path: Path) -> None:
    log = sqlite_crawl(tmp_path / "crawl.sqlite")
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        monitor.store_demand([str(log)])
        before = sets_of(monitor)
        assert monitor.store_demand([str(log)])[0].stored == 0
        assert sets_of(monitor) == before


def test_neither_values_nor_queries_of_a_crawl_are_kept(tmp_path: Path) -> None:
    log = sqlite_crawl(tmp_path / "crawl.sqlite")
    path = tmp_path / "x.duckdb"
    with Monitor(path, create=True) as monitor:
        monitor.store_demand([str(log)])
    assert b"secret" not in path.read_bytes()
    assert b"id=7" not in path.read_bytes()


def test_tracker_radar_files_are_read_with_their_counts(tmp_path: Path) -> None:
    stats = {
        "https://t.example/fp.js": {"Navigator.prototype.userAgent": 12, "Nothing.known": 1},
        "https://u.example/broken.js": 3,
    }
    site = {"initialUrl": "https://a.example/", "data": {"apis": {"callStats": stats}}}
    log = tmp_path / "a.json"
    log.write_text(json.dumps(site, indent=1))
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        [report] = monitor.store_demand([str(log)])
        assert (report.collector, report.read, report.rejected) == ("trackerradar", 3, 1)
        assert sets_of(monitor) == {("Navigator.userAgent", "x:trackerradar:Nothing.known"): (1, 1)}


@pytest.mark.parametrize("form", ["batches a line", "one array", "reports a line"])
def test_violation_reports_are_read_in_every_form(tmp_path: Path, form: str) -> None:
    def violation(feature: str, key: str = "policyId") -> dict[str, Any]:
        body = {key: feature, "sourceFile": "https://t.example/fp.js?q=1"}
        return {
            "type": "permissions-policy-violation",
            "url": "https://a.example/?u=1",
            "body": body,
        }

    reports = [
        violation("ch-ua-high-entropy-values"),
        violation("local-fonts", "featureId"),
        {"type": "deprecation", "url": "https://a.example/", "body": {}},
    ]
    lines = {
        "batches a line": [json.dumps(reports[:1]), json.dumps(reports[1:])],
        "one array": [json.dumps(reports, indent=1)],
        "reports a line": [json.dumps(report) for report in reports],
    }[form]
    log = tmp_path / "reports.json"
    log.write_text("\n".join(lines) + "\n")
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        [report] = monitor.store_demand([str(log)])
        assert (report.collector, report.stored, report.rejected) == ("reporting", 2, 1)
        assert sets_of(monitor) == {
            ("NavigatorUAData.getHighEntropyValues", "Window.queryLocalFonts"): (1, 1)
        }


def test_demand_joins_the_population_and_shows_the_worst_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    users = tmp_path / "users.jsonl"
    users.write_text(
        "".join(
            json.dumps(
                {
                    "user": f"u{i}",
                    "Screen.width": 1900,
                    "Navigator.userAgent": f"UA{i % 2}",
                    "HTMLCanvasElement.toDataURL#fingerprintjs.text": f"c{i}",
                }
            )
            + "\n"
            for i in range(40)
        )
    )
    path = str(tmp_path / "x.duckdb")
    assert run(["ingest", str(users), "--db", path]) == 0
    capsys.readouterr()
    log = sqlite_crawl(tmp_path / "crawl.sqlite")
    assert run(["lists", "demand", str(log), "--k", "5", "--db", path, "--format", "json"]) == 0
    captured = capsys.readouterr()
    worst, best = json.loads(captured.out)
    assert worst["apis"] == ["HTMLCanvasElement.toDataURL", "Navigator.userAgent"]
    assert worst["observed"] == [
        "HTMLCanvasElement.toDataURL#fingerprintjs.text",
        "Navigator.userAgent",
    ]
    assert (worst["empirical"], best["empirical"]) == (1.0, 0.0)
    assert "1 rejected" in captured.err
    assert run(["lists", "demand", "--k", "5", "--db", path, "--format", "table"]) == 0
    assert "100.00 %" in capsys.readouterr().out


def test_without_a_population_there_is_no_exposure(tmp_path: Path) -> None:
    log = sqlite_crawl(tmp_path / "crawl.sqlite")
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        monitor.store_demand([str(log)])
        rows = [line.to_json() for line in monitor.demand()]
    assert all(row["empirical"] is row["lower"] is row["upper"] is None for row in rows)


def test_an_api_that_the_population_lacks_leaves_no_upper_limit(tmp_path: Path) -> None:
    users = tmp_path / "users.csv"
    users.write_text("user,Navigator.userAgent\n" + "".join(f"u{i},x\n" for i in range(40)))
    log = sqlite_crawl(tmp_path / "crawl.sqlite")
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        monitor.ingest([str(users)])
        monitor.store_demand([str(log)])
        rows = {tuple(line.apis): line.to_json() for line in monitor.demand(k=5)}
    partly = rows["HTMLCanvasElement.toDataURL", "Navigator.userAgent"]
    assert partly["unobserved"] == ["HTMLCanvasElement.toDataURL"]
    assert partly["upper"] is None
    assert partly["lower"] == 0.0
    assert rows[("Screen.width",)]["lower"] is None


@pytest.mark.parametrize(
    "header",
    ["site;script;api;calls", "Page;Script_URL;Symbol;Count", "top_level_url;scriptUrl;api_name;n"],
)
def test_a_table_of_calls_is_read_under_names_of_others(tmp_path: Path, header: str) -> None:
    log = tmp_path / "calls.csv"
    rows = [
        "https://a.example/x;https://t.example/fp.js?q=1;Navigator.userAgent;3",
        "https://a.example/y;https://t.example/fp.js;window.screen.width;1",
        "b.example;;Screen.width;2",
    ]
    log.write_bytes("\r\n".join(["\ufeff" + header, *rows]).encode())
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        [report] = monitor.store_demand([str(log)])
        assert (report.collector, report.stored, report.rejected) == ("calls", 3, 0)
        assert sets_of(monitor) == {
            ("Navigator.userAgent", "Screen.width"): (1, 1),
            ("Screen.width",): (1, 1),
        }


def test_a_foreign_file_is_refused_with_what_is_read(tmp_path: Path) -> None:
    other = tmp_path / "log.csv"
    other.write_text("user,a\nu,1\n")
    wrong = tmp_path / "wrong.sqlite"
    with closing(sqlite3.connect(wrong)) as connection:
        connection.execute("CREATE TABLE a (b)")
        connection.commit()
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        with pytest.raises(InputError, match="blacklight, calls, openwpm, reporting, trackerradar"):
            monitor.store_demand([str(other)])
        with pytest.raises(InputError, match="no table `javascript`"):
            monitor.store_demand([str(wrong)])
        assert monitor.demand() == []


@pytest.mark.parametrize(
    ("url", "site", "script"),
    [
        ("https://a.example:8080/x.js?q#f", "a.example", "a.example/x.js"),
        ("inline", "", ""),
        ("https://[broken", "", ""),
        ("data:text/javascript,1", "", ""),
    ],
)
def test_urls_lose_what_could_name_people(url: str, site: str, script: str) -> None:
    assert (site_of(url), script_of(url)) == (site, script)


def test_a_database_of_schema_1_is_led_to_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    with duckdb.connect(path) as connection:
        for text in schema_statements(1):
            connection.execute(text)
        connection.execute("INSERT INTO meta VALUES ('schema_version', '1'), ('user_key', 'k')")
        connection.execute("INSERT INTO snapshot VALUES (7, NULL, NULL, 0, 1, 1, 'd')")
        connection.execute("CREATE TABLE snapshot_7 (word UBIGINT)")
    with Database(path) as database:
        assert database.meta("schema_version") == str(SCHEMA_VERSION)
        assert database.meta("user_key") == "k"
        assert database.has_table("demand")
    users = tmp_path / "users.csv"
    users.write_text("user,a\n" + "".join(f"u{i},x\n" for i in range(40)))
    with Monitor(path) as monitor:
        monitor.ingest([str(users)])
        assert monitor.exposure([["a"]], k=5)[0].empirical == 0.0
        assert monitor.demand() == []
