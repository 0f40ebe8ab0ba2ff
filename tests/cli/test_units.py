"""Rows are called rows wherever they are counted, and are promised nothing unless it is said."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from fpmonitor.cli import run
from fpmonitor.unit import spoken, weakest

USERS = re.compile(r"\busers?\b")
ROWS = 600


def write_table(path: Path, *, user: bool = False, time: str = "") -> Path:
    """A table of few values, one of which is rare, with or without a column that names users."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow([*["user"] * user, *["time"] * bool(time), "platform", "lang", "agent"])
    for i in range(ROWS):
        values = [f"p{i % 3}", f"l{i % 4}", f"a{i % 150}"]
        rows.writerow([*[f"u{i}"] * user, *[time] * bool(time), *values])
    path.write_text(text.getvalue())
    return path


@pytest.fixture
def rows(tmp_path: Path) -> str:
    """A database of rows."""
    database = str(tmp_path / "rows.duckdb")
    log = str(write_table(tmp_path / "t.csv"))
    assert run(["ingest", log, "--user", "row", "--db", database, "-q", "-o", "/dev/null"]) == 0
    return database


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """All that a command prints."""
    capsys.readouterr()
    assert run(arguments) == code
    captured = capsys.readouterr()
    return captured.out + captured.err


SET = ["--apis", "lang"]
CERTIFIED = {
    "exposure": ["exposure", *SET],
    "decide": ["decide", "--budget", "5%", "-o", "{out}/d.json"],
    "rank": ["exposure", "--rank"],
    "curve": ["exposure", "--curve", *SET],
    "plot": ["exposure", "--plot", "exposure", "-o", "{out}/a.svg"],
    "plot of a curve": ["exposure", "--plot", "curve", *SET, "-o", "{out}/b.svg"],
    "report": ["export", "--report", "-o", "{out}/r.html"],
    "audit": ["exposure", *SET, "--by", "batch"],
}


@pytest.mark.parametrize("command", CERTIFIED)
def test_rows_get_no_limits_of_users_unless_it_is_said(
    command: str, rows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [word.format(out=tmp_path) for word in CERTIFIED[command]]
    refused = told(capsys, *arguments, "--db", rows, code=2)
    assert refused.count("\n") == 1
    for way in ("--rows-are-users", "--setting sample", "--visitor", "--user COLUMN"):
        assert way in refused
    said = (
        told(capsys, *arguments, "--db", rows, "--rows-are-users", "--format", "table")
        if ("-o" not in arguments)
        else told(capsys, *arguments, "--db", rows, "--rows-are-users")
    )
    assert not USERS.search(said.replace("taken for a user", "").replace("user agent", ""))


def test_a_decision_of_rows_says_what_each_is_taken_for(
    rows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "d.json"
    options = ["decide", "--db", rows, "--budget", "5%", "-n", "10000", "-o", str(file)]
    said = told(capsys, *options, "--rows-are-users")
    decision = json.loads(file.read_text())
    assert decision["data"]["unit"] == "row"
    assert decision["policy"]["sample"]["rows_are_users"] is True
    assert "each row is taken for a user" in decision["guarantee"]
    assert f"the {ROWS} observed rows" in decision["guarantee"]
    assert "each row is taken for a user" in " ".join(said.split())
    assert "each row is taken for a user" in told(capsys, "check", str(file), "--db", rows)
    for command in (
        ["gate", str(file), "--exit-zero", "--want", "agent", "--format", "table"],
        ["gate", str(file), "--exit-zero", "--want", "agent", "--db", rows, "--format", "table"],
        ["check", str(file), "--db", rows, "--format", "table"],
    ):
        printed = told(capsys, *command)
        assert not USERS.search(printed.replace("taken for a user", ""))
    told(capsys, "export", "--report", str(file), "--db", rows, "-o", str(tmp_path / "r.html"))
    page = re.sub(r"<style>.*?</style>|<script>.*?</script>", "", (tmp_path / "r.html").read_text())
    assert "each row is taken for a user" in page
    assert not USERS.search(page.replace("taken for a user", "").replace("user agent", ""))


def test_the_observed_rows_themselves_are_decided_on_without_a_promise(
    rows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "d.json"
    options = ["decide", "--db", rows, "--budget", "5%", "--setting", "sample", "-o", str(file)]
    said = told(capsys, *options)
    assert not USERS.search(said)
    assert f"Among the {ROWS} observed rows" in json.loads(file.read_text())["guarantee"]
    assert not USERS.search(told(capsys, "check", str(file), "--db", rows, "--format", "table"))
    assert not USERS.search(
        told(capsys, "gate", str(file), "--exit-zero", "--want", "agent", "--db", rows)
    )


def test_a_decision_of_users_promises_nothing_of_rows(
    rows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    users, file = str(tmp_path / "users.duckdb"), str(tmp_path / "d.json")
    log = str(write_table(tmp_path / "u.csv", user=True))
    told(capsys, "ingest", log, "--db", users)
    told(capsys, "decide", "--db", users, "--budget", "5%", "-o", file)
    assert "unit" not in json.loads(Path(file).read_text())["data"]
    assert "--rows-are-users" in told(capsys, "check", file, "--db", rows, code=2)
    assert "--rows-are-users" in told(capsys, "export", "--report", file, "--db", rows, code=2)


def test_lists_of_rows_call_them_so_and_json_says_what_they_are(
    rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = json.loads(told(capsys, "db", "apis", "--db", rows, "--format", "json"))
    assert {line["unit"] for line in listed} == {"row"}
    header = told(capsys, "db", "apis", "--db", rows, "--format", "csv").split("\n", 1)[0]
    assert "rows" in header.split(",")
    assert "users" not in header.split(",")
    assert not USERS.search(told(capsys, "db", "apis", "--db", rows, "--format", "table"))


def test_what_is_mixed_counts_as_rows_and_users_alone_may_be_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = str(tmp_path / "x.duckdb")
    named = write_table(tmp_path / "u.csv", user=True, time="2026-01-01T00:00:00Z")
    unnamed = write_table(tmp_path / "t.csv", time="2026-02-01T00:00:00Z")
    told(capsys, "ingest", str(named), "--db", database)
    told(capsys, "ingest", str(unnamed), "--user", "row", "--db", database)
    said = told(capsys, "db", "apis", "--db", database, "--format", "table")
    assert "the logs hold rows and users: all count as rows" in said
    refused = told(capsys, "exposure", *SET, "--db", database, code=2)
    assert "beside users" in refused
    alone = [*SET, "--db", database, "--until", "2026-01-15"]
    said = " ".join(told(capsys, "exposure", *alone, "--format", "table").split())
    assert "observed users" in said


def test_visitors_are_called_so_and_the_rule_is_in_the_guarantee(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database, log = str(tmp_path / "x.duckdb"), tmp_path / "access.log"
    log.write_text(
        "".join(
            f'10.0.{i // 250}.{i % 250} - - [01/Nov/2026:00:00:0{j} +0000] "GET / HTTP/1.1" '
            f'200 5 "-" "Browser {i % 3}"\n'
            for i in range(ROWS)
            for j in range(2)
        )
    )
    told(capsys, "ingest", str(log), "--visitor", "--db", database)
    said = told(capsys, "db", "apis", "--db", database, "--format", "table")
    assert "visitors" in said
    assert not USERS.search(said.replace("user-agent", "").replace("user agent", ""))
    file = tmp_path / "d.json"
    told(capsys, "decide", "--db", database, "--budget", "5%", "-o", str(file))
    promise = json.loads(file.read_text())["guarantee"]
    assert f"the {ROWS} observed visitors" in promise
    assert "Each visitor is an address" in promise


def test_a_database_of_an_earlier_version_says_what_can_be_known() -> None:
    assert weakest([None]) == "user"
    assert weakest([None, "visitor"]) == "visitor"
    assert weakest(["user", "row", "visitor"]) == "row"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Users of a user", "Rows of a row"),
        ("10 users.", "10 rows."),
        ("users: 5, the user's", "rows: 5, the row's"),
        ("users who have it", "rows that have it"),
        ("http:user-agent, Navigator.userAgent", "http:user-agent, Navigator.userAgent"),
        ("the user agent", "the user agent"),
        ("--user COLUMN, --search-users", "--user COLUMN, --search-users"),
        ("`user` and x.user", "`user` and x.user"),
        ("each row is taken for a user", "each row is taken for a user"),
        ("user.id", "user.id"),
    ],
)
def test_words_for_rows_leave_names_alone(text: str, wanted: str) -> None:
    assert spoken(text, "row") == wanted
    assert spoken(text, "user") == text


def test_a_watch_of_rows_speaks_of_rows(
    rows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, folder = str(tmp_path / "d.json"), tmp_path / "logs"
    folder.mkdir()
    write_table(folder / "t.csv")
    told(capsys, "decide", "--db", rows, "--budget", "5%", "--rows-are-users", "-o", file)
    watched = ["watch", str(folder), "--decision", file, "--db", str(tmp_path / "w.duckdb")]
    capsys.readouterr()
    run([*watched, "--once", "--settle", "0", "--user", "row"])
    captured = capsys.readouterr()
    [line, *_] = captured.out.splitlines()
    notice = json.loads(Path(json.loads(line)["details"]).read_text(encoding="utf-8"))
    assert "each row is taken for a user" in notice["guarantee"]
    sent = json.loads(line)
    for text in (
        *(sent["title"], sent["todo"], *sent["also"]),
        captured.err,
        notice["guarantee"],
        *(one["text"] for one in notice["problems"]),
    ):
        assert not USERS.search(text.replace("taken for a user", ""))
