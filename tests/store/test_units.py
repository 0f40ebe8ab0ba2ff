"""Who a row is: what is refused until it is said, what is counted then, and no row twice."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from fpmonitor import Monitor
from fpmonitor.answers.automation import report_automation
from fpmonitor.answers.compare import ComparedSet, compare_sets
from fpmonitor.cli import run
from fpmonitor.collectors.request_members import are_named_as_requests
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.policy import SampleModel
from fpmonitor.sql import schema_statements

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

VISITORS, REQUESTS = 12, 4


def requests() -> list[tuple[str, str, str, str]]:
    """Address, time, path and user agent, of visitors with an agent of their own."""
    return [
        (f"10.0.7.{visitor}", f"2026-11-01T00:{minute:02}:00", f"/p{minute}", f"Browser {visitor}")
        for visitor in range(VISITORS)
        for minute in range(REQUESTS)
    ]


def combined() -> str:
    return "".join(
        f'{ip} - - [01/Nov/2026:{time[11:]} +0000] "GET {path} HTTP/1.1" 200 5 "-" "{agent}"\n'
        for ip, time, path, agent in requests()
    )


def har() -> str:
    entries = [
        {
            "startedDateTime": f"{time}Z",
            "request": {"url": path, "headers": [{"name": "User-Agent", "value": agent}]},
        }
        for _, time, path, agent in requests()
        if agent == "Browser 1"
    ]
    return json.dumps({"log": {"entries": entries}})


def library() -> str:
    """Results of a library that a server logged with each request."""
    return "".join(
        json.dumps(
            {
                "ip": ip,
                "path": path,
                "components": {"platform": {"value": agent, "duration": 1}},
                "version": "5.0.0",
            }
        )
        + "\n"
        for ip, _, path, agent in requests()
    )


def unknown() -> str:
    return "".join(
        json.dumps({"ip": ip, "url": path, "ua": agent}) + "\n" for ip, _, path, agent in requests()
    )


def table() -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["client_ip", "time", "user_agent", "lang"])
    rows.writerows((ip, time, agent, "en") for ip, time, _, agent in requests())
    return text.getvalue()


def json_lines() -> str:
    return "".join(
        json.dumps({"remote_addr": ip, "time": time, "userAgent": agent, "lang": "en"}) + "\n"
        for ip, time, _, agent in requests()
    )


@pytest.fixture
def ingest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Ingest a text under a name; return the exit code, the batches and what was noted."""

    def ingested(name: str, text: str | bytes, *options: str) -> tuple[int, list[Any], str]:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        database = str(tmp_path / "x.duckdb")
        capsys.readouterr()
        code = run(["ingest", str(path), "--db", database, "--format", "json", *options])
        told = capsys.readouterr()
        return code, json.loads(told.out)["batches"] if told.out else [], told.err

    return ingested


@pytest.mark.parametrize(
    ("name", "log"),
    [("access.log", combined), ("a.har", har), ("results.jsonl", library), ("a.jsonl", unknown)],
)
def test_a_log_of_requests_is_refused_until_somebody_says_who_a_row_is(
    name: str, log: Callable[[], str], ingest: Callable[..., Any], tmp_path: Path
) -> None:
    code, batches, told = ingest(name, log())
    assert (code, batches) == (2, [])
    assert told.count("\n") == 1
    for way in ("--user COLUMN", "--visitor", "--user row"):
        assert way in told
    with Monitor(tmp_path / "x.duckdb") as monitor:
        assert monitor.batches() == []
    code, [batch], told = ingest(name, log(), "--user", "row")
    assert (code, batch["unit"], batch["users"]) == (0, "row", batch["read"])
    assert "rows are counted" in told


@pytest.mark.parametrize(
    ("name", "log"), [("access.log", combined), ("a.csv", table), ("a.jsonl", json_lines)]
)
def test_visitors_are_told_by_the_rule_and_their_addresses_are_not_stored(
    name: str, log: Callable[[], str], ingest: Callable[..., Any], tmp_path: Path
) -> None:
    code, [batch], told = ingest(name, log(), "--visitor")
    assert (code, batch["unit"], batch["users"]) == (0, "visitor", VISITORS)
    assert "an address" in told
    with Monitor(tmp_path / "x.duckdb") as monitor:
        assert [one.unit for one in monitor.batches()] == ["visitor"]
        [agents] = [api for api in monitor.apis(k=2) if "ser" in api.api and "gent" in api.api]
        assert (agents.users, agents.exposure) == (VISITORS, 1.0)
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        for (name_of_table,) in connection.execute("SHOW TABLES").fetchall():
            rows = connection.execute(f'SELECT * FROM "{name_of_table}"').fetchall()
            assert "10.0.7" not in repr(rows), name_of_table


@pytest.mark.parametrize(
    ("host", "address", "agent"),
    [
        ("host", "src_ip", "UA"),
        ("host", "request.clientIp", "request.user_agent"),
        ("client", "IP address", "User-Agent"),
    ],
)
def test_the_address_of_a_visitor_is_the_column_that_holds_addresses(
    host: str, address: str, agent: str, ingest: Callable[..., Any]
) -> None:
    """As in a log of a server: a column that is only called so tells nobody apart."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow([host, address, "time", agent, "lang"])
    for ip, time, _, _ in requests():
        rows.writerow(["shop.example", ip, time, "Mozilla/5.0", "en"])
    code, [batch], _ = ingest("a.csv", text.getvalue(), "--visitor")
    assert (code, batch["users"]) == (0, VISITORS)


def test_a_table_that_tells_no_visitors_is_refused(ingest: Callable[..., Any]) -> None:
    code, _, told = ingest("a.csv", "user,lang\nu1,en\nu2,de\n", "--visitor")
    assert code == 2
    assert "an address" in told


def test_two_answers_to_who_a_row_is_are_refused(ingest: Callable[..., Any]) -> None:
    assert ingest("access.log", combined(), "--visitor", "--user", "host")[0] == 2


def test_users_whom_the_log_names_are_users(ingest: Callable[..., Any]) -> None:
    code, [batch], told = ingest("a.csv", "user,lang\nu1,en\nu2,de\n")
    assert (code, batch["unit"], batch["users"]) == (0, "user", 2)
    assert "rows" not in told


ROWS = [("Win32", f"UA{i % 8}", f"n{i % 30}") for i in range(60)]


def as_csv(rows: Sequence[tuple[str, ...]]) -> str:
    return "platform,userAgent,note\n" + "".join(f"{','.join(row)}\n" for row in rows)


def as_json(rows: Sequence[tuple[str, ...]]) -> str:
    names = ("platform", "userAgent", "note")
    return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)


OTHERWISE = {
    "ignored": ["--user", "row", "--ignore", "note"],
    "a column that names users": ["--user", "userAgent"],
    "a time": ["--user", "row", "--time", "note"],
    "a weight": ["--weight", "note"],
    "a map": ["--columns", "map.toml"],
}


@pytest.mark.parametrize("form", [as_csv, as_json])
@pytest.mark.parametrize("how", OTHERWISE)
@pytest.mark.parametrize(
    "log", ["the same", "another name", "grown", "grown and renamed", "packed"]
)
def test_no_row_is_stored_again_under_other_options(
    form: Callable[..., str], how: str, log: str, ingest: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "map.toml").write_text("ignore = ['note']\n[columns]\nuser = 'row'\n")
    assert ingest("a.txt", form(ROWS), "--user", "row")[0] == 0
    name = "b.txt" if "name" in log else "a.txt"
    text: str | bytes = form([*ROWS, *ROWS[:3]]) if "grown" in log else form(ROWS)
    if log == "packed":
        name, text = "a.gz", gzip.compress(form(ROWS).encode())
    options = [str(tmp_path / one) if one == "map.toml" else one for one in OTHERWISE[how]]
    code, _, told = ingest(name, text, *options)
    assert code == 2
    assert "is stored already" in told
    assert "db forget --batch" in told
    with Monitor(tmp_path / "x.duckdb") as monitor:
        assert monitor.population().users == len(ROWS)


@pytest.mark.parametrize("form", [as_csv, as_json])
@pytest.mark.parametrize("name", ["a.txt", "b.txt", "b.txt.gz"])
def test_rows_of_a_log_that_has_grown_are_stored_once_under_any_name(
    form: Callable[..., str], name: str, ingest: Callable[..., Any], tmp_path: Path
) -> None:
    assert ingest("a.txt", form(ROWS), "--user", "row")[0] == 0
    grown: str | bytes = form([*ROWS, *ROWS[:5]])
    if name.endswith(".gz"):
        grown = gzip.compress(form([*ROWS, *ROWS[:5]]).encode())
    code, [batch], _ = ingest(name, grown, "--user", "row")
    assert (code, batch["stored"], batch["duplicates"]) == (0, 5, 60)
    code, [batch], _ = ingest("third", form([*ROWS, *ROWS[:7]]), "--user", "row")
    assert (code, batch["stored"], batch["duplicates"]) == (0, 2, 65)
    with Monitor(tmp_path / "x.duckdb") as monitor:
        assert monitor.population().users == 67


NULLS = '{"user": "%s", "time": "2026-03-0%dT00:00:00Z", "lang": null, "platform": "p%d"}\n'


@pytest.mark.parametrize("log", ["the same", "grown", "grown and renamed", "grown and packed"])
@pytest.mark.parametrize("user", ["user", "row"])
def test_a_log_of_json_that_was_stored_with_nulls_as_values_goes_on_so(
    user: str, log: str, ingest: Callable[..., Any], tmp_path: Path
) -> None:
    lines = [NULLS % (f"u{i}", i % 9 + 1, i) for i in range(30)]
    (tmp_path / "before.toml").write_text(f"null = 'value'\n[columns]\nuser = '{user}'\n")
    columns = ["--columns", str(tmp_path / "before.toml")]
    ignored = ["--ignore", "user"] if user == "row" else []
    assert ingest("a.jsonl", "".join(lines[:20]), *columns, *ignored)[0] == 0
    name = {"grown and renamed": "b.jsonl", "grown and packed": "a.jsonl.gz"}.get(log, "a.jsonl")
    text: Any = "".join(lines[:20] if log == "the same" else lines)
    text = gzip.compress(text.encode()) if name.endswith("gz") else text
    code, [batch], told = ingest(name, text, "--user", user, *ignored)
    grown = 0 if log == "the same" else 10
    assert (code, batch["stored"], batch["duplicates"]) == (0, grown, 20)
    assert ("nulls count as values" in told) == bool(grown)
    with Monitor(tmp_path / "x.duckdb") as monitor:
        nulls = [row for row in monitor.observations() if row[1] == "lang"]
        assert len(nulls) == monitor.population().users == 20 + grown
    code, [batch], _ = ingest(name, text, "--user", user, *ignored)
    assert (code, batch["stored"]) == (0, 0)


def test_a_table_that_was_replaced_keeps_the_rows_that_it_still_has_whatever_is_ignored(
    ingest: Callable[..., Any], tmp_path: Path
) -> None:
    assert ingest("a.csv", as_csv(ROWS), "--user", "row")[0] == 0
    other = [("MacIntel", "UA9", "n99"), *ROWS[1:]]
    code, [batch], _ = ingest("a.csv", as_csv(other), "--user", "row", "--ignore", "note")
    assert (code, batch["stored"]) == (0, 1)
    with Monitor(tmp_path / "x.duckdb") as monitor:
        assert monitor.population().users == len(ROWS) + 1


def test_forgetting_the_batch_is_the_way_on(ingest: Callable[..., Any], tmp_path: Path) -> None:
    assert ingest("a.csv", as_csv(ROWS), "--user", "row")[0] == 0
    batch = str(tmp_path / "a.csv")
    assert run(["db", "forget", "--batch", batch, "--db", str(tmp_path / "x.duckdb")]) == 0
    code, [batch], _ = ingest("a.csv", as_csv(ROWS), "--user", "row", "--ignore", "note")
    assert (code, batch["stored"], batch["apis"]) == (0, 60, 2)


def test_named_users_are_not_read_again_by_another_column(
    ingest: Callable[..., Any], tmp_path: Path
) -> None:
    text = "client,session,lang\n" + "".join(f"c{i % 5},s{i},en\n" for i in range(20))
    assert ingest("a.csv", text, "--user", "client", "--ignore", "session")[0] == 0
    assert ingest("a.csv", text, "--user", "session", "--ignore", "client")[0] == 2
    with Monitor(tmp_path / "x.duckdb") as monitor:
        assert monitor.population().users == 5


@pytest.mark.parametrize("form", ["wide", "long"])
def test_users_with_several_rows_without_a_time_are_counted_and_the_last_one_counts(
    form: str, ingest: Callable[..., Any], tmp_path: Path
) -> None:
    if form == "wide":
        text = "user,lang\n" + "a,en\na,de\nb,en\nb,en\nc,fr\nd,en\nd,it\n"
    else:
        text = "user,api,value\n" + "".join(
            f"{user},lang,{lang}\n"
            for user, lang in zip(
                "aabbcdd", ["en", "de", "en", "en", "fr", "en", "it"], strict=True
            )
        )
    code, [batch], told = ingest("a.csv", text)
    assert (code, batch["users"], batch["unordered"]) == (0, 4, 2)
    assert "2 users have several rows without a time, with different values" in told
    assert "--time" in told
    with Monitor(tmp_path / "x.duckdb") as monitor:
        assert [one.unordered for one in monitor.batches()] == [2]
    code, [batch], told = ingest("b.csv", text.replace("fr", "es") + "e,en\n" * (form == "wide"))
    assert batch["unordered"] == 3  # c came before, with another value


def test_rows_with_a_time_are_ordered_by_it(ingest: Callable[..., Any]) -> None:
    text = "user,time,lang\na,2026-01-02,en\na,2026-01-01,de\n"
    code, [batch], told = ingest("a.csv", text)
    assert (code, batch["unordered"]) == (0, 0)
    assert "without a time" not in told


OLD = {  # what an earlier version noted of a log, and who a row must have been
    "user": ("wide", 100, 40, 0),
    "visitor": ("har", 100, 1, 0),
    "row": ("accesslog", 100, 98, 2),
    "row of a weight": ("wide", 10, 12, 0),
    "not known": ("wide", 100, 100, 0),
}


def test_logs_of_an_earlier_version_get_the_unit_that_can_be_known(
    ingest: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "x.duckdb"
    with duckdb.connect(str(path)) as connection:
        for version in range(1, 7):
            for text in schema_statements(version):
                connection.execute(text)
        connection.execute("INSERT INTO meta VALUES ('schema_version', '6'), ('user_key', 'k')")
        for number, (collector, read, users, rejected) in enumerate(OLD.values()):
            connection.execute(
                "INSERT INTO batch VALUES (?, ?, ?, ?, now(), ?, ?, 0, ?, ?, 1, 0.1)",
                [
                    number,
                    f"d{number}",
                    str(tmp_path / f"{number}.csv"),
                    collector,
                    read,
                    read - rejected,
                    rejected,
                    users,
                ],
            )
    with Monitor(path) as monitor:
        units = [batch.unit for batch in monitor.batches()]
    assert units == ["user", "visitor", "row", "row", None]
    # Rows bore other names then: read again, they would be doubled.
    code, _, told = ingest("4.csv", as_csv(ROWS), "--user", "row")
    assert code == 2
    assert "db forget --batch" in told
    assert ingest("new.csv", as_csv(ROWS), "--user", "row")[0] == 0


def test_a_copy_keeps_who_a_row_is(ingest: Callable[..., Any], tmp_path: Path) -> None:
    assert ingest("a.csv", as_csv(ROWS), "--user", "row")[0] == 0
    copied, folder = str(tmp_path / "y.duckdb"), str(tmp_path / "copy")
    assert run(["db", "copy-out", folder, "--db", str(tmp_path / "x.duckdb")]) == 0
    assert run(["db", "copy-in", folder, "--db", copied]) == 0
    options = ["--user", "row", "--ignore", "note", "-q", "--db", copied]
    assert run(["ingest", str(tmp_path / "a.csv"), *options]) == 2
    with Monitor(tmp_path / "y.duckdb") as monitor:
        assert [batch.unit for batch in monitor.batches()] == ["row"]
        assert monitor.population().unit == "row"


def test_of_several_logs_none_is_stored_where_one_is_of_requests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("user,lang\nu1,en\nu2,de\n")
    (tmp_path / "z.log").write_text(combined())
    database = tmp_path / "x.duckdb"
    logs = [str(tmp_path / name) for name in ("a.csv", "z.log")]
    assert run(["ingest", *logs, "--db", str(database)]) == 2
    assert "each row is a request" in capsys.readouterr().err
    with Monitor(database) as monitor:
        assert monitor.batches() == []


def test_every_result_of_rows_calls_them_rows_in_a_notebook_and_in_python(tmp_path: Path) -> None:
    """What is shown beside a figure is what was counted, wherever it is shown."""
    log = tmp_path / "log.jsonl"
    with log.open("w") as lines:
        for i in range(400):
            row = {"A.a": str(i % 3), "B.b": str(i % 7), "time": f"2026-03-{2 + i % 2 * 7:02}"}
            lines.write(json.dumps(row) + "\n")
    said = SampleModel(rows_are_users=True)
    with Monitor(tmp_path / "d.duckdb", create=True) as monitor:
        monitor.ingest(log, column_map=ColumnMap({"user": "row"}))
        exposures = monitor.exposure([["A.a"]], k=10, sample=said, bounds=True)
        results = [
            *exposures,
            compare_sets(exposures[0], exposures[0]),
            monitor.rank(k=10, sample=said),
            monitor.curve(["A.a"], k=10, sample=said),
            monitor.trend(k=10, rows_are_users=True),
            report_automation(monitor.population(), [["A.a"]], k=10),
            *monitor.apis(k=10),
        ]
    for result in results:
        assert result.unit == "row", type(result)
        shown = re.sub("user agents?|taken for users?", "", result._repr_html_())
        assert "row" in shown, type(result)
        assert not re.search(r"\busers?\b", shown, re.IGNORECASE), (type(result), shown)
        if not isinstance(result, ComparedSet):
            assert result.to_json()["unit"] == "row", type(result)


@pytest.mark.parametrize(
    ("names", "are_requests"),
    [
        (["remote_addr", "status"], True),
        (["c-ip", "cs-uri-stem"], True),
        (["http_status_code", "verb"], True),
        (["event.src_ip", "event.request_path"], True),
        (["ClientIP", "RequestURI"], True),
        (["ip", "url", "ua"], True),
        (["ip", "page_url"], False),
        (["client", "url"], False),
        (["ip", "adblock_status"], False),
        (["screen.width", "language"], False),
    ],
)
def test_names_tell_of_requests_by_two_signs(names: list[str], are_requests: bool) -> None:
    assert are_named_as_requests(names) == are_requests
