"""The page of `fpmonitor ui`, asked over HTTP as the application that the command runs."""

from __future__ import annotations

import csv
import html
import json
import os
import random
import re
import shlex
import subprocess
import sys
import zipfile
from io import BytesIO
from typing import TYPE_CHECKING, Any

import httpx2 as httpx
import pytest
from starlette.testclient import TestClient

from fpmonitor.cli import run
from fpmonitor.monitor import Monitor
from fpmonitor.serve.app import service_app
from fpmonitor.serve.config import ServeConfig
from fpmonitor.ui.app import create_app
from fpmonitor.ui.desk import Desk

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "a-token-of-the-test"
SITE = "http://127.0.0.1:8017"
OWN = {"Origin": SITE}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Users of three screens, a column that tells nothing, one of errors, and an id."""
    chance = random.Random(7)
    path = tmp_path / "visits.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["who", "userAgent", "screenWidth", "audio", "cpuClass", "<b>odd</b>"])
        for number in range(600):
            agent = f"Mozilla/5.0 rv:{chance.randrange(4)}"
            agent = f"only {number}" if number < 30 else agent
            width = chance.choice([390, 1280, 1920])
            rows.writerow([f"u{number}", agent, width, "ERR_TIMEOUT", "", number % 3])
    return path


def opened(desk: Desk) -> TestClient:
    client = TestClient(create_app(desk, TOKEN), base_url=SITE)
    client.get("/", params={"token": TOKEN})
    return client


@pytest.fixture
def client(log: Path, tmp_path: Path) -> TestClient:
    return opened(Desk([str(log)], tmp_path / "fp.duckdb"))


def store(client: TestClient) -> None:
    form = {"unit": "", "member:who": "user"}
    assert client.post("/store", data=form, headers=OWN, follow_redirects=False).status_code == 303


# Who may ask


def test_without_the_token_nothing_is_told(log: Path, tmp_path: Path) -> None:
    client = TestClient(create_app(Desk([str(log)], tmp_path / "fp.duckdb"), TOKEN), base_url=SITE)
    for path in ("/", "/account", "/account.json", "/apis.csv", "/exposure?api=a", "/lists"):
        assert client.get(path).status_code == 403
    assert client.get("/", params={"token": "another"}).status_code == 403
    assert client.get("/static/ui.js").status_code == 403


def test_the_token_is_taken_out_of_the_address(client: TestClient) -> None:
    answer = client.get("/", params={"token": TOKEN, "k": "7"}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/?k=7")
    assert "httponly" in answer.headers["set-cookie"].lower()
    away = client.get(f"//evil.example/?token={TOKEN}", follow_redirects=False)
    assert not away.headers.get("location", "").startswith("//")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8017", "127.0.0.1.evil.example"])
def test_a_name_of_a_stranger_that_points_here_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("site", ["http://127.0.0.1", "http://localhost", "http://[::1]"])
def test_at_the_port_that_browsers_do_not_name_the_page_opens(
    log: Path, tmp_path: Path, site: str
) -> None:
    """A browser leaves out port 80, and the page was refused as that of a stranger."""
    client = TestClient(create_app(Desk([str(log)], tmp_path / "fp.duckdb"), TOKEN), base_url=site)
    headers = {"Host": site.removeprefix("http://")}
    assert client.get("/", params={"token": TOKEN}, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "http://127.0.0.1:9", "http://["]
)
def test_forms_of_other_pages_change_nothing(
    client: TestClient, tmp_path: Path, origin: str | None
) -> None:
    headers = {} if origin is None else {"Origin": origin}
    for path in ("/store", "/decide"):
        assert client.post(path, data={"member:who": "user"}, headers=headers).status_code == 403
    assert not (tmp_path / "fp.duckdb").exists()


# Is this column the API, and is a row a user?


def test_nothing_is_stored_before_it_is_said(client: TestClient, tmp_path: Path) -> None:
    page = client.get("/account").text
    assert "userAgent" in page
    assert not (tmp_path / "fp.duckdb").exists()


def test_a_log_that_names_no_user_asks_who_a_row_is(client: TestClient) -> None:
    page = client.get("/account").text
    assert 'role="alert"' in page
    assert "<button disabled>Store" in page
    told = client.post("/account", data={"member:who": "user"}, headers=OWN).text
    assert 'role="alert"' not in told
    assert "<button>Store" in told


def test_the_account_tells_constants_errors_and_empty_columns(client: TestClient) -> None:
    client.post("/account", data={"member:who": "user"}, headers=OWN)
    [account] = client.get("/account.json").json().values()
    kinds = {member["path"]: member["kind"] for member in account["members"]}
    assert kinds["who"] == "user"
    assert kinds["audio"] == "errors"
    assert kinds["cpuClass"] == "empty"


def test_what_is_left_out_by_a_click_is_not_stored(client: TestClient, tmp_path: Path) -> None:
    form = {"member:who": "user", "member:audio": "ignore", "member:screenWidth": ""}
    client.post("/store", data=form, headers=OWN)
    with Monitor(tmp_path / "fp.duckdb") as monitor:
        apis = {line.api for line in monitor.apis()}
    assert "audio" not in apis
    assert "screenWidth" in apis


def test_a_name_of_several_apis_is_chosen_by_a_click(tmp_path: Path) -> None:
    log = tmp_path / "visits.csv"
    rows = "".join(f"u{n},{300 + n % 3},{'de' if n % 2 else 'fr'}\n" for n in range(60))
    log.write_text("who,viewportWidth,language\n" + rows)
    client = opened(Desk([str(log)], tmp_path / "fp.duckdb"))
    form = {"member:who": "user"}
    page = client.post("/account", data=form, headers=OWN).text
    assert '<option value="API Window.innerWidth">' in page
    assert '<option value="API Navigator.language">' not in page, "the name tells that"
    form |= {"member:viewportWidth": "API Window.innerWidth", "member:language": "API"}
    client.post("/store", data=form, headers=OWN)
    with Monitor(tmp_path / "fp.duckdb") as monitor:
        means = {line.api: line.means for line in monitor.apis()}
    assert means == {"viewportWidth": "Window.innerWidth", "language": "Navigator.language"}


def test_the_column_map_reads_as_the_page_does(
    client: TestClient, log: Path, tmp_path: Path
) -> None:
    form = {"member:who": "user", "member:audio": "ignore"}
    answer = client.post("/map.toml", data=form, headers=OWN)
    path = tmp_path / "columns.toml"
    path.write_bytes(answer.content)
    other = tmp_path / "other.duckdb"
    assert run(["ingest", str(log), "--columns", str(path), "--db", str(other)]) == 0
    client.post("/store", data=form, headers=OWN)
    with Monitor(other) as one, Monitor(tmp_path / "fp.duckdb") as two:
        assert one.population().digest == two.population().digest


def command_in(page: str) -> list[str]:
    """Words of the first command that a part of the page shows, without its program."""
    shown = re.findall(r"<pre[^>]*><code>(.*?)</code>", page, re.DOTALL)
    return shlex.split(html.unescape(shown[0]))[1:]


def test_the_commands_for_columns_with_commas_and_of_sources_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No option of `ingest` names a source, and a comma would divide a name in two."""
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "visits.csv"
    rows = "".join(f"u{n},{n % 3},shop\n" for n in range(60))
    log.write_text(f'who,"width, px",site\n{rows}')
    client = opened(Desk([str(log)], tmp_path / "fp.duckdb"))
    form = {"member:who": "user", "member:width, px": "API", "member:site": "source"}
    ingest = command_in(client.post("/account", data=form, headers=OWN).text)
    (tmp_path / "columns.toml").write_bytes(
        client.post("/map.toml", data=form, headers=OWN).content
    )
    assert run([*ingest, "--quiet"]) == 0
    with Monitor(tmp_path / "fp.duckdb") as monitor:
        assert [line.api for line in monitor.apis()] == ["width, px"]
        assert {row[3] for row in monitor.observations()} == {"shop"}
    exposure = command_in(client.get("/exposure", params={"api": "width, px"}).text)
    assert run(exposure) == 0
    asked = "k=10&budget=5&api=width%2C+px"
    client.post("/decide", data={"asked": asked}, headers=OWN)
    decide = next(
        shlex.split(html.unescape(shown))[1:]
        for shown in re.findall(r"<code>(fpmonitor decide.*?)</code>", client.get("/").text)
    )
    assert run(decide) == 0


def test_names_of_a_hostile_log_are_text(client: TestClient) -> None:
    page = client.post("/account", data={"member:who": "user"}, headers=OWN).text
    assert "<b>odd</b>" not in page
    store(client)
    assert "<b>odd</b>" not in client.get("/").text
    assert "<b>odd</b>" not in client.get("/exposure", params={"api": "<b>odd</b>"}).text


# What does a set expose?


def test_the_exposure_is_that_of_the_command(
    client: TestClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(client)
    asked = {"api": ["userAgent", "screenWidth"], "k": "5", "n": "100,000"}
    shown = client.get("/exposure.json", params=asked).json()
    db = str(tmp_path / "fp.duckdb")
    command = ["exposure", "--apis", "userAgent,screenWidth", "--k", "5"]
    assert run([*command, "--population", "100000", "--db", db, "--format", "json"]) == 0
    told: Any = json.loads(capsys.readouterr().out)
    told = told[0] if isinstance(told, list) else told
    assert shown["exposure"]["lower"] == told["lower"]
    assert shown["exposure"]["upper"] == told["upper"]
    assert shown["alone"] == 30


@pytest.mark.long
def test_page_command_and_python_look_at_the_same_users_alike(
    client: TestClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One look is one state: reloads and repeats change nothing, and new users are a later look."""
    store(client)
    db, sets = tmp_path / "fp.duckdb", [["userAgent", "screenWidth"]]
    asked = {"api": sets[0], "k": "5", "n": "100,000"}
    command = ["exposure", "--apis", ",".join(sets[0]), "--k", "5", "--population", "100000"]

    def page() -> tuple[float, float]:
        told = client.get("/exposure.json", params=asked).json()["exposure"]
        return told["lower"], told["upper"]

    def screen() -> tuple[float, float]:
        assert run([*command, "--db", str(db), "--format", "json"]) == 0
        told: Any = json.loads(capsys.readouterr().out)
        told = told[0] if isinstance(told, list) else told
        return told["lower"], told["upper"]

    def python() -> tuple[str | None, tuple[float, float]]:
        with Monitor(db) as monitor:
            [told] = monitor.exposure(sets, k=5, population=100_000)
            return told.sample.look, (told.lower, told.upper)

    def service() -> list[tuple[float, float]]:
        with TestClient(service_app(ServeConfig(db=db)), base_url="http://localhost") as served:
            told = [served.get("/v1/exposure", params={"apis": "screenWidth"}) for _ in range(2)]
        return [(each.json()["lower"], each.json()["upper"]) for each in told]

    first, of_service = page(), service()
    assert [page(), screen(), screen(), page()] == [first] * 4
    assert python() == ("first", first)
    assert service() == of_service
    assert of_service[0] == of_service[1]
    more = tmp_path / "more.csv"
    more.write_text("user,userAgent,screenWidth\nnew,Mozilla/5.0 rv:1,390\n")
    with Monitor(db) as monitor:
        monitor.ingest(str(more))
    later = screen()
    assert later[1] > first[1]
    assert [page(), page(), screen()] == [later] * 3
    assert python() == ("later", later)


def test_an_api_without_evidence_is_not_called_harmless(client: TestClient) -> None:
    store(client)
    assert "no evidence" in client.get("/").text
    for api in ("audio", "cpuClass"):
        page = client.get("/exposure", params={"api": api}).text
        assert f"No evidence about {api}" in page
        assert api in client.get("/exposure.json", params={"api": api}).json()["no_evidence"]


def test_a_log_stored_by_another_program_is_seen(client: TestClient, tmp_path: Path) -> None:
    store(client)
    before = client.get("/exposure.json", params={"api": "userAgent"}).json()
    more = tmp_path / "more.csv"
    more.write_text("user,userAgent\n" + "".join(f"x{i},again\n" for i in range(50)))
    with Monitor(tmp_path / "fp.duckdb") as monitor:
        monitor.ingest(str(more))
    after = client.get("/exposure.json", params={"api": "userAgent"}).json()
    assert (before["users"], after["users"]) == (600, 650)


def test_groups_are_those_of_the_command(
    client: TestClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(client)
    asked = {"api": "userAgent", "given": "screenWidth", "whole": "1"}
    page = client.get("/exposure", params=asked).text
    shown = client.get("/exposure.json", params=asked).json()["cohorts"]["cohorts"]
    command = ["exposure", "--apis", "userAgent", "--given", "screenWidth", "--k", "10"]
    db = str(tmp_path / "fp.duckdb")
    assert run([*command, "--db", db, "--format", "json"]) == 0
    told: Any = json.loads(capsys.readouterr().out)
    told = told[0] if isinstance(told, list) else told
    assert shown == told["cohorts"]
    assert "Within the groups of screenWidth" in page
    for cohort in shown:
        assert f"{cohort['users']:,}" in page


def test_each_k_and_each_log_has_its_own_answer(client: TestClient, tmp_path: Path) -> None:
    """Users are read once and held: neither a question nor a log of another program is missed."""
    store(client)
    limits = set()
    for k in ("2", "10", "40", "10"):
        found = client.get("/exposure.json", params={"api": "userAgent", "k": k}).json()
        limits.add((k, found["exposure"]["empirical"]))
    assert len(limits) == 3
    log = tmp_path / "gone.csv"
    log.write_text("user,userAgent\n" + "".join(f"y{i},again\n" for i in range(20)))
    with Monitor(tmp_path / "fp.duckdb") as monitor:
        monitor.ingest(str(log))
    assert client.get("/exposure.json", params={"api": "userAgent"}).json()["users"] == 620
    assert run(["db", "forget", "--batch", str(log), "--db", str(tmp_path / "fp.duckdb")]) == 0
    assert client.get("/exposure.json", params={"api": "userAgent"}).json()["users"] == 600


def test_what_was_counted_is_told_at_once_and_limits_follow(client: TestClient) -> None:
    """Designs of a new question take up to a second; nothing that is told first is taken back."""
    store(client)
    asked = {"api": ["userAgent", "screenWidth"], "k": "7", "n": "60,000"}
    first = client.get("/exposure", params=asked).text
    [then] = re.findall(r'data-then="([^"]+)"', first)
    whole = client.get(html.unescape(then)).text
    assert "data-then" not in whole
    assert "95 % confidence" in whole
    assert "95 %" not in first
    assert "of the 600 observed users" in first
    groups = re.findall(r"<p>Among.*</p>", first)
    assert groups == re.findall(r"<p>Among.*</p>", whole)
    # The designs are there now, for any set.
    assert "data-then" not in client.get("/exposure", params=asked | {"api": "screenWidth"}).text


def test_the_shares_beside_the_apis_follow_k(client: TestClient) -> None:
    store(client)
    told = {k: client.get("/alone.json", params={"k": k}).json() for k in ("2", "10", "250")}
    assert len({one["screenWidth"] for one in told.values()}) > 1
    assert {one["audio"] for one in told.values()} == {"no evidence"}
    for k, beside in told.items():
        page = client.get("/", params={"k": k}).text
        shown = re.findall(r'name="api" value="([^"]+)".*?class="small">([^<]+)<', page)
        assert dict(shown) == {html.escape(api): text for api, text in beside.items()}


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({"api": "userAgent", "given": "nowhere", "whole": "1"}, "nowhere"),
        ({"api": "nowhere"}, "nowhere"),
        ({"api": "userAgent", "k": "word"}, "a number"),
        ({"api": "userAgent", "budget": "200"}, "percentage"),
        ({"api": "userAgent", "n": "-5"}, "above 0"),
    ],
)
def test_what_cannot_be_asked_is_one_line(
    client: TestClient, asked: dict[str, str], word: str
) -> None:
    store(client)
    answer = client.get("/exposure", params=asked)
    assert answer.status_code == 422
    assert word in answer.text
    assert client.get("/", params=asked).status_code == 200


def test_rows_are_called_rows(client: TestClient) -> None:
    client.post("/store", data={"unit": "row", "member:who": "ignore"}, headers=OWN)
    assert "600 rows" in client.get("/").text
    refused = client.get("/exposure", params={"api": "userAgent"})
    assert refused.status_code == 422
    taken = client.get("/exposure", params={"api": "userAgent", "rows": "1"})
    assert taken.status_code == 200
    assert "fewer than 10 rows" in taken.text


def test_the_python_that_is_shown_of_rows_gives_the_same_limits(client: TestClient) -> None:
    """`Log.exposure` is for users: its answer was a refusal of what the page had answered."""
    client.post("/store", data={"unit": "row", "member:who": "ignore"}, headers=OWN)
    asked = {"api": "userAgent", "rows": "1", "n": "10000"}
    page = client.get("/exposure", params=asked).text
    shown = re.findall(r"<pre[^>]*><code>(import fpmonitor.*?)</code>", page, re.DOTALL)
    *before, last = html.unescape(shown[0]).splitlines()
    names: dict[str, Any] = {}
    exec("\n".join([*before, f"found = {last}"]), names)
    told = client.get("/exposure.json", params=asked).json()["exposure"]
    [found] = names["found"]
    assert (found.lower, found.upper) == (told["lower"], told["upper"])
    assert found.population == 10_000


# What follows?


def decided(client: TestClient) -> None:
    store(client)
    form = {"asked": "k=10&budget=5&api=userAgent&api=screenWidth"}
    answer = client.post("/decide", data=form, headers=OWN, follow_redirects=False)
    assert answer.headers["location"] == "/?k=10&budget=5&api=userAgent&api=screenWidth#lists"


def test_the_decision_is_that_of_the_command_and_listed(
    client: TestClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decided(client)
    file = tmp_path / "fp.decision.json"
    made = json.loads(file.read_text())
    assert client.get("/decision.json").json() == made
    db = str(tmp_path / "fp.duckdb")
    command = ["decide", "--k", "10", "--budget", "5%", "--candidates", "userAgent,screenWidth"]
    assert run([*command, "--population", "600", "--db", db, "-q", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["allow"], told["block"]) == (made["allow"], made["block"])
    assert run(["db", "questions", "--db", db]) == 0


def test_each_list_says_what_it_hides_and_is_the_file_of_export(
    client: TestClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decided(client)
    page = client.get("/lists").text
    rows = {row["name"]: row for row in client.get("/lists.json").json()}
    assert {"brave", "ublock", "firefox-policies", "webextension"} <= rows.keys()
    for name, row in rows.items():
        assert name in page
        if "hidden" in row:
            assert f"{row['hidden']} of {row['withheld']}" in page
    run(["export", str(tmp_path / "fp.decision.json"), "--to", "ublock", "-q", "--partial"])
    assert client.get("/list/ublock").text == capsys.readouterr().out
    archive = zipfile.ZipFile(BytesIO(client.get("/list/webextension").content))
    assert json.loads(archive.read("manifest.json"))["manifest_version"] == 3
    assert client.get("/list/nowhere").status_code == 422


def test_each_withheld_api_says_why_and_what_would_change_that(log: Path, tmp_path: Path) -> None:
    chance = random.Random(3)
    lines = ["who,userAgent,screenWidth,cores"]
    for number in range(800):
        width = 1000 + chance.randrange(300)
        lines.append(f"u{number},Agent/{number % 90}.{number},{width},{number % 4}")
    log.write_text("\n".join(lines))
    client = opened(Desk([str(log)], tmp_path / "fp.duckdb"))
    store(client)
    form = {"asked": "k=10&budget=10&api=userAgent&api=screenWidth&api=cores"}
    client.post("/decide", data=form, headers=OWN)
    rows = {row["api"]: row for row in client.get("/why.json").json()}
    decision = client.get("/decision.json").json()
    assert rows.keys() == {"userAgent", "screenWidth", "cores"} - {*decision["recommended"]}
    widths = rows["screenWidth"]["coarser"]
    assert [one["words"] for one in widths] == ["to multiples of 10", "to multiples of 100"]
    # Rounding is what `--what-if` does, and can only lower the exposure.
    assert widths[1]["upper"] < widths[0]["upper"] <= rows["screenWidth"]["upper"]
    assert [one["transform"] for one in rows["userAgent"]["coarser"]] == [{"major": True}]
    page = client.get("/why").text
    for row in rows.values():
        assert row["reason"] in page


def test_the_page_for_visitors_is_the_file_of_export(
    client: TestClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decided(client)
    assert "/visitor" in client.get("/").text
    page = client.get("/visitor")
    assert "only 1" not in page.text
    made, db = str(tmp_path / "fp.decision.json"), str(tmp_path / "fp.duckdb")
    assert run(["export", made, "--to", "visitor-page", "--db", db, "-q"]) == 0
    assert page.text == capsys.readouterr().out
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]


def test_lists_of_a_changed_decision_file_are_refused(client: TestClient, tmp_path: Path) -> None:
    decided(client)
    file = tmp_path / "fp.decision.json"
    made = json.loads(file.read_text())
    made["recommended"] = ["userAgent", "screenWidth"]
    file.write_text(json.dumps(made))
    assert client.get("/lists").status_code == 422


def test_another_file_of_the_same_size_and_time_is_read(log: Path, tmp_path: Path) -> None:
    """As a restored backup may be: the page told of the users of the file before."""
    db, other = tmp_path / "fp.duckdb", tmp_path / "other.duckdb"
    lines = log.read_text().splitlines(keepends=True)
    for path, rows in ((db, lines), (other, lines[:-1])):
        log.write_text("".join(rows))
        store(opened(Desk([str(log)], path)))
    size = max(db.stat().st_size, other.stat().st_size)
    for path in (db, other):
        os.truncate(path, size)
        os.utime(path, ns=(0, 0))
    desk = Desk([], db)
    assert (before := desk.stored(10)) is not None
    os.utime(db, ns=(0, 0))
    other.replace(db)
    assert (after := desk.stored(10)) is not None
    assert (before.users, after.users) == (600, 599)


@pytest.mark.long
def test_a_correction_that_leaves_the_number_of_users_is_told(
    client: TestClient, tmp_path: Path
) -> None:
    decided(client)
    changed = "The data have changed since"
    assert changed not in client.get("/lists").text
    log = tmp_path / "later.csv"
    log.write_text("user,time,userAgent\nu100,2030-01-01,another\n")
    with Monitor(tmp_path / "fp.duckdb") as monitor:
        monitor.ingest(str(log))
        assert monitor.population().users == 600
    assert changed in client.get("/lists").text


def test_a_spreadsheet_runs_no_name_of_a_column(
    client: TestClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "visits.csv").write_text(
        "who,userAgent,=1+1\n" + "".join(f"u{i},a{i % 3},{i % 2}\n" for i in range(60))
    )
    store(client)
    told = client.get("/apis.csv").text
    assert run(["db", "apis", "--db", str(tmp_path / "fp.duckdb"), "--format", "csv"]) == 0
    assert told == capsys.readouterr().out
    assert "\n=1+1" not in told


# The command


@pytest.mark.parametrize("words", [["ui"], []])
def test_the_command_prints_an_address_with_a_token_that_opens(
    log: Path, tmp_path: Path, words: list[str]
) -> None:
    command = [sys.executable, "-m", "fpmonitor", *words, str(log), "--no-browser"]
    with subprocess.Popen(
        [*command, "--db", str(tmp_path / "fp.duckdb")], stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        line = running.stderr.readline()
        try:
            [address] = re.findall(r"http://127\.0\.0\.1:\d+/\?token=\S+", line)
            with httpx.Client(follow_redirects=True) as client:
                assert "Is this column the API?" in client.get(address).text
                plain = address.partition("?")[0]
                assert httpx.get(plain).status_code == 403
        finally:
            running.terminate()


def test_others_have_no_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--for-others", "ui", "--no-browser"]) == 2
    assert "owner" in capsys.readouterr().err
