"""Plans, and accounts as commands and databases tell them."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.monitor import Monitor


def write(frame: pl.DataFrame, log: Path, kind: str) -> None:
    {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[kind](log)


LOG = pl.DataFrame(
    {
        "who": [f"u{i}" for i in range(40)],
        "seen": [f"2026-01-{i % 28 + 1:02}T10:00:00Z" for i in range(40)],
        "born": [f"19{i + 50}-01-01" for i in range(40)],
        "zone": [f"{i * 7919 % 1000}x" for i in range(40)],
        "ip": [f"203.0.113.{i}" for i in range(40)],
        "userAgent": [f"agent {i % 3}" for i in range(40)],
        "hidden": ["x"] * 40,
    }
)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_plan_stores_nothing_and_its_map_is_taken_by_the_next_ingest(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    log = Path(f"log.{kind}")
    write(LOG, log, kind)
    asked = ["ingest", str(log), "--user", "who", "--ignore", "hidden"]
    assert run(asked) == 2
    assert "'zone' looks like an id" in capsys.readouterr().err
    assert run([*asked, "--plan", "map.toml", "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)["accounts"][str(log)]["members"]
    assert {member["path"]: member["kind"] for member in listed} == {
        "who": "user",
        "seen": "time",
        "born": "time",
        "zone": "identifier",
        "ip": "identifier",
        "userAgent": "API",
        "hidden": "not taken",
    }
    said = tomllib.loads(Path("map.toml").read_text(encoding="utf-8"))
    assert said["columns"]["user"] == "who"
    assert said["columns"]["time"] == "seen"
    assert {"zone", "ip", "hidden"} < set(said["ignore"])
    assert said["apis"] == {"userAgent": "Navigator.userAgent"}
    assert run(["ingest", str(log), "--columns", "map.toml"]) == 0
    assert run(["ingest", str(log), "--columns", "map.toml", "--strict"]) == 1
    capsys.readouterr()
    assert run(["db", "apis", "--format", "json", "--k", "2"]) == 0
    assert [api["api"] for api in json.loads(capsys.readouterr().out)] == ["userAgent"]


def test_a_plan_keeps_the_time_of_the_records_beside_other_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last column of times was named, and the one that ingest reads was ignored."""
    monkeypatch.chdir(tmp_path)
    LOG.select(user="who", time="seen", created="born", userAgent="userAgent").write_csv("log.csv")
    assert run(["ingest", "--plan", "log.csv", "map.toml"]) == 0
    said = tomllib.loads(Path("map.toml").read_text(encoding="utf-8"))
    assert said["columns"] == {"user": "user", "time": "time"}
    assert said["ignore"] == ["created"]


def test_what_is_no_api_of_the_first_log_stops_no_later_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job a day is not refused for a column of which its few rows leave open what it is."""
    db = ["--db", str(tmp_path / "x.duckdb")]
    first = LOG.select("who", "userAgent", visit=pl.int_range(1, 41), sent=pl.lit("x"))
    later = first.with_columns(visit=pl.col("visit") * 7919 % 1000 + 100)
    for name, log in [("first", first), ("later", later), ("last", later.reverse())]:
        log.write_csv(tmp_path / f"{name}.csv")
    assert run(["ingest", str(tmp_path / "later.csv"), "--user", "who", *db]) == 2
    assert "'visit' looks like an id" in capsys.readouterr().err
    for name in ("first", "later", "last"):
        assert run(["ingest", str(tmp_path / f"{name}.csv"), "--user", "who", *db]) == 0
        assert "not stored: visit" in capsys.readouterr().err
    assert run(["db", "apis", "--format", "json", "--k", "2", *db]) == 0
    assert {api["api"] for api in json.loads(capsys.readouterr().out)} == {"sent", "userAgent"}
    # Whom a row is of stays a question.
    renamed = later.rename({"who": "client_id", "visit": "who"})
    renamed.write_csv(tmp_path / "renamed.csv")
    assert run(["ingest", str(tmp_path / "renamed.csv"), *db]) == 2


@pytest.mark.parametrize(("column", "look"), [("seen", "a time"), ("visits", "a number of users")])
def test_only_what_looks_like_an_id_is_answered_by_an_earlier_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], column: str, look: str
) -> None:
    """A time that was set aside once would be lost in silence of all later logs."""
    log = LOG.select("who", "userAgent", "seen", visits=pl.int_range(40) % 7)
    log = log.select("userAgent", column, "who")
    log.write_csv(tmp_path / "first.csv")
    log.reverse().write_csv(tmp_path / "later.csv")
    options = ["--user", "who", "--db", str(tmp_path / "x.duckdb")]
    assert run(["ingest", str(tmp_path / "first.csv"), "--ignore", column, *options]) == 0
    capsys.readouterr()
    assert run(["ingest", str(tmp_path / "later.csv"), *options]) == 2
    assert f"'{column}' looks like {look}" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["Browserkennung", "agent", "navegador", "浏览器", "metrics._ua"])
def test_user_agents_are_known_by_their_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Also where each user has another one, which else looks like an id."""
    agents = [f"Mozilla/5.0 (X11; Linux) Firefox/{i}.0" for i in range(40)]
    log, plan = tmp_path / "log.csv", tmp_path / "map.toml"
    LOG.select("who", pl.Series(name, agents)).write_csv(log)
    asked = ["ingest", str(log), "--user", "who", "--db", str(tmp_path / "x.duckdb")]
    assert run([*asked, "--plan", str(plan)]) == 0
    assert tomllib.loads(plan.read_text("utf-8"))["apis"] == {name: "Navigator.userAgent"}
    capsys.readouterr()
    assert run(asked) == 0
    assert f"{name}: user agents, under an unknown name; " in capsys.readouterr().err


def test_strict_is_content_with_a_log_of_which_all_is_taken(tmp_path: Path) -> None:
    LOG.select("who", "userAgent").write_csv(tmp_path / "log.csv")
    options = ["--user", "who", "--db", str(tmp_path / "x.duckdb"), "--strict"]
    assert run(["ingest", str(tmp_path / "log.csv"), *options]) == 0


def test_a_plan_writes_over_no_log_and_no_map_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.csv"
    LOG.write_csv(log)
    before = log.read_bytes()
    monkeypatch.chdir(tmp_path)
    asked = ["ingest", "--plan", "log.csv", "--user", "who"]
    assert run(asked) == 0
    written = (tmp_path / "log.toml").read_bytes()
    (tmp_path / "log.toml").write_bytes(written + b"# mine")
    assert run(asked) == 2
    assert "--plan log.csv log.toml" in capsys.readouterr().err
    assert (tmp_path / "log.toml").read_bytes() == written + b"# mine"
    assert run([*asked, "log.toml"]) == 0
    assert (tmp_path / "log.toml").read_bytes() == written
    assert log.read_bytes() == before
    for wrong in (["a.toml"], ["log.csv", "a.toml", "b.toml"]):
        assert run(["ingest", "--plan", *wrong]) == 2
    capsys.readouterr()


def test_a_plan_lists_the_records_that_a_document_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("doc.json").write_text(json.dumps({"data": LOG.to_dicts()}, indent=1), encoding="utf-8")
    assert run(["ingest", "--plan", "doc.json", "--user", "who", "--format", "json"]) == 0
    [account] = json.loads(capsys.readouterr().out)["accounts"].values()
    assert account["records"] == LOG.height
    assert {member["path"] for member in account["members"]} == set(LOG.columns)


def test_per_cents_are_no_numbers_of_users(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = ["--db", str(tmp_path / "x.duckdb")]
    shares = {
        "percent": [40, 35, 25],
        "share": [0.4, 0.35, 0.25],
        "Market Share Perc.": [40.5, 34.5, 25.0],
    }
    for name, cells in shares.items():
        log = tmp_path / "log.csv"
        pl.DataFrame({"userAgent": ["a", "b", "c"], name: cells}).write_csv(log)
        assert run(["ingest", str(log), "--weight", name, *db]) == 2
        assert "multiply each by that number" in capsys.readouterr().err
    pl.DataFrame({"userAgent": ["a", "b", "c"], "percent": [4000, 35, 2]}).write_csv(log)
    assert run(["ingest", str(log), "--weight", "percent", *db]) == 0


def test_an_old_database_has_batches_without_an_account(tmp_path: Path) -> None:
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        monitor.ingest(LOG.select(pl.col("who").alias("user"), "userAgent"))
        monitor.database._execute("UPDATE batch SET account = NULL")
        [batch] = monitor.batches()
    assert batch.account is None
    assert batch.set_aside == []


WEIGHTS = ["share", "percent", "visitors", "n", "user_count", "Market Share Perc.", "weight"]


@pytest.mark.parametrize("name", WEIGHTS)
def test_shares_are_no_weights_even_where_one_is_whole(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.csv"
    shares = [1.0, *(0.01 * i for i in range(2, 40))]
    pl.DataFrame({"userAgent": [f"a{i % 5}" for i in range(39)], name: shares}).write_csv(log)
    database = ["--db", str(tmp_path / "x.duckdb")]
    assert run(["ingest", str(log), "--user", "row", *database]) == 2
    assert f"{name!r} looks like a share of the users" in capsys.readouterr().err
    assert run(["ingest", str(log), "--weight", name, *database]) == 2
    said = capsys.readouterr().err
    assert "multiply each by that number" in said
    with Monitor(tmp_path / "x.duckdb") as monitor:
        assert monitor.batches() == []


def test_decision_report_and_screen_say_what_the_columns_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    frame = LOG.select("who", "ip", "userAgent", "hidden")
    pl.concat([frame, frame.with_columns(pl.col("who") + "b")]).write_csv("log.csv")
    assert run(["ingest", "log.csv", "--user", "who"]) == 0
    assert "from 4 columns: 1 API, 1 user, 1 identifier, 1 constant" in capsys.readouterr().err
    asked = ["decide", "--k", "5", "--budget", "50%", "--setting", "sample", "-o", "d.json"]
    assert run(asked) == 0
    told = json.loads(Path("d.json").read_text(encoding="utf-8"))["data"]["account"]
    assert told == {"API": 1, "user": 1, "identifier": 1, "constant": 1}
    assert run(["export", "--report", "d.json", "-o", "r.html"]) == 0
    assert "from 4 columns: 1 API, 1 user" in Path("r.html").read_text(encoding="utf-8")


def test_others_are_told_nothing_of_what_one_user_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A member of one user, however many records it is in, would count among the members."""
    log, db = tmp_path / "log.jsonl", str(tmp_path / "d.duckdb")
    rows = [{"user": f"u{i}", "theme": f"t{i % 3}"} for i in range(60)]
    rows += [{"user": "u0", "theme": "t0", "own": f"o{i % 2}"} for i in range(12)]
    log.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert run(["ingest", str(log), "--db", db, "-q", "-o", os.devnull]) == 0
    capsys.readouterr()
    asked = ["decide", "--k", "5", "--budget", "5%", "--setting", "sample", "--db", db]
    for options in (["--format", "json"], ["--format", "table"]):
        assert run(["--for-others", *asked, *options]) == 0
        told = capsys.readouterr()
        assert "account" not in told.out
        assert "columns:" not in told.out + told.err
    assert run([*asked, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["account"]
