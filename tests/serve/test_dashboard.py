"""The dashboard: what it shows, to whom, and that it never shows what k hides."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from fpmonitor.monitor import Monitor
from fpmonitor.policy import DOWN, UP
from fpmonitor.render.numbers import percent
from fpmonitor.serve.overview import History, Measurement, take_overview
from fpmonitor.serve.snippet import script_named
from tests.served import DashboardService, routes

if TYPE_CHECKING:
    from pathlib import Path

    from fpmonitor.decide.decision import Decision

HOME = "http://localhost"
TOKEN = "read-me-42"
HOSTILE = "x:mine:</span><script>alert(1)</script>"


class Service(DashboardService):
    """The dashboard in this process."""

    def client(self, address: str = HOME) -> TestClient:
        return TestClient(Starlette(routes=routes(self)), base_url=address)


def store(monitor: Monitor, folder: Path, users: dict[str, dict[str, Any]]) -> None:
    """Store users: name -> API -> value."""
    path = folder / f"{len(monitor.batches())}.jsonl"
    lines = [
        json.dumps({"user": user, "api": api, "value": value})
        for user, values in users.items()
        for api, value in values.items()
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    monitor.ingest([str(path)])


def crowd(size: int, start: int = 0) -> dict[str, dict[str, Any]]:
    """Users of whom every fourth has a width of its own."""
    return {
        f"u{i}": {
            "Screen.width": i if i % 4 == 0 else 1920,
            "Navigator.vendor": "one" if i % 2 else "two",
            HOSTILE: "",
        }
        for i in range(start, start + size)
    }


@pytest.fixture
def monitor(tmp_path: Path) -> Monitor:
    monitor = Monitor(tmp_path / "d.duckdb", create=True)
    store(monitor, tmp_path, crowd(200))
    return monitor


def decide(monitor: Monitor) -> Decision:
    return monitor.decide(
        k=10, budget=0.1, candidates=["Navigator.vendor", "Screen.width"], setting="sample"
    )


def test_a_page_shows_how_biased_the_sample_may_be_where_that_was_asked(monitor: Monitor) -> None:
    decided = decide(monitor)
    assert "How biased" not in Service(monitor, decided).client().get("/").text
    told = replace(decided, bias_tolerated=(1.25,) * len(decided.allow))
    page = Service(monitor, told).client().get("/").text
    assert "stays allowed up to a bias of 1.25" in page
    section = page[page.index("How biased the sample may be") :]
    assert 'aria-label="What stays allowed if the sample is biased"' in section
    assert "Navigator.vendor: up to 1.25" in section


def test_a_page_shows_counts_exposure_and_the_verdict(monitor: Monitor) -> None:
    page = Service(monitor, decide(monitor)).client().get("/")
    assert page.status_code == 200
    # The answer, the data, whether it holds, the list, the counts: in this order.
    places = [
        page.text.index(part)
        for part in (
            "A site may read 1 of 2 APIs together",
            '<ul class="chips"><li>Navigator.',
            "<summary>What is promised",
            "<p>Data: d.duckdb, 200 users",
            '<h2 id="status-title">All holds</h2>',
            '<td class="allow">holds</td>',
            "<dt>Users</dt><dd>200<",
        )
    ]
    assert places == sorted(places)
    assert "The set: Navigator.vendor" in page.text
    assert '<p class="verdict allow">' in page.text
    assert script_named("collector.js").integrity in page.text


def test_ticked_apis_are_answered_with_limits_and_verdict(monitor: Monitor) -> None:
    client = Service(monitor, decide(monitor)).client()
    answer = client.get("/dashboard/explore", params={"api": ["Screen.width"]}).text
    assert '<p class="verdict block"><strong>blocked</strong>' in answer
    [report] = monitor.exposure([["Screen.width"]], k=10)
    for share, away in ((report.lower, DOWN), (report.upper, UP), (report.empirical, "")):
        assert percent(share, away=away) in answer
    assert "nobody is exposed" in client.get("/dashboard/explore").text
    assert client.get("/dashboard/explore", params={"api": "Screen.depth"}).status_code == 404
    without_script = client.get("/", params={"api": "Screen.width"}).text
    assert '<p class="verdict block"><strong>blocked</strong>' in without_script


def test_numbers_follow_the_data_and_leave_a_reading(monitor: Monitor, tmp_path: Path) -> None:
    service = Service(monitor, decide(monitor))
    service.history_path = tmp_path / "history.jsonl"
    client = service.client()
    first = client.get("/dashboard/live").text
    assert client.get("/dashboard/live").text == first, "nothing new, nothing read again"
    store(monitor, tmp_path, {f"n{i}": {"Navigator.vendor": f"v{i}"} for i in range(100)})
    second = client.get("/dashboard/live").text
    assert re.search(r"<dt>Users</dt><dd>300<", second)
    assert '<h2 id="status-title">Violated</h2>' in second
    assert '<td class="block">violated</td>' in second
    assert "decide again" in second
    table = re.search(r"<tbody>(.*?)</tbody>", second[second.index("history") :], re.DOTALL)
    assert table is not None
    assert table.group(1).count("<tr>") == 2
    again = Service(monitor, service.decision)
    again.history_path = service.history_path
    shown = again.client().get("/dashboard/live").text
    assert shown.count('<th scope="row">') == 4, "readings outlive the service"


def test_records_are_told_in_hundreds_as_by_the_metrics(monitor: Monitor, tmp_path: Path) -> None:
    """Exact ones tell whoever looks twice what a sender sent in between."""
    log = tmp_path / "broken.jsonl"
    log.write_text('{"user": "a", "api": "Navigator.vendor", "value": "one"}\n' + "broken\n" * 57)
    monitor.ingest([str(log)])
    page = Service(monitor).client().get("/dashboard/live").text
    stored = sum(batch.stored for batch in monitor.batches())
    told = dict(re.findall(r"<dt>(\w+)[^<]*</dt><dd>([\d,]+)</dd>", page))
    assert told == {
        "Users": told["Users"],
        "Records": f"{stored // 100 * 100:,}",
        "Rejected": "100",
    }
    assert "More than 1 % of all records were rejected." in page


@pytest.mark.parametrize("users", [0, 9])
def test_below_k_users_nothing_is_shown(tmp_path: Path, users: int) -> None:
    monitor = Monitor(tmp_path / "few.duckdb", create=True)
    if users:
        store(monitor, tmp_path, crowd(users))
    client = Service(monitor).client()
    for path in ("/", "/dashboard/live", "/dashboard/apis", "/dashboard/explore?api=Screen.width"):
        page = client.get(path)
        assert page.status_code == 200
        assert "Screen.width" not in page.text
        assert not re.search(r"<dd>[1-9]</dd>", page.text)
    assert "fewer than 10" in client.get("/").text


def test_numbers_that_tell_of_fewer_than_k_users_are_hidden(
    monitor: Monitor, tmp_path: Path
) -> None:
    store(monitor, tmp_path, {f"u{i}": {"Navigator.oscpu": "rare"} for i in range(7)})
    page = Service(monitor).client().get("/dashboard/apis").text
    row = re.search(r"<tr><th[^>]*>Navigator\.<wbr/>oscpu.*?</tr>", page, re.DOTALL)
    assert row is not None
    assert "hidden" in row.group(0)
    assert not re.search(r">7<", row.group(0))


def test_names_of_apis_are_text_and_never_markup(monitor: Monitor) -> None:
    client = Service(monitor).client()
    for path in ("/", "/dashboard/apis"):
        page = client.get(path, params={"api": HOSTILE}).text
        assert "alert(1)" in page
        assert "<script>" not in page


def test_no_page_runs_or_loads_anything_foreign(monitor: Monitor) -> None:
    client = Service(monitor, decide(monitor)).client()
    for path in ("/", "/dashboard/live", "/dashboard/apis", "/dashboard/explore"):
        page = client.get(path)
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["cache-control"] == "no-store"
        assert not re.search(r"\sstyle=|\son[a-z]+=|<style|javascript:", page.text)
        assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=\"(?!/|data:,)", page.text)


def test_a_read_token_is_wanted_everywhere_when_one_is_configured(monitor: Monitor) -> None:
    client = Service(monitor, token=TOKEN).client("http://board.example")
    for path in ("/dashboard/live", "/dashboard/apis", "/dashboard/explore"):
        assert client.get(path).status_code == 401
        assert client.get(path, headers={"Authorization": "Bearer wrong"}).status_code == 401
        good = client.get(path, headers={"Authorization": f"Bearer {TOKEN}"})
        assert good.status_code == 200
    form = client.get("/")
    assert form.url.path == "/login"
    assert "Users" not in form.text
    wrong = client.post("/login", data={"token": "wrong"})
    assert wrong.status_code == 401
    assert not client.cookies
    opened = client.post("/login", data={"token": TOKEN}, follow_redirects=False)
    cookie = opened.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in cookie
    assert "Users" in client.get("/").text
    client.cookies.clear()
    client.cookies.set("fpmonitor_session", "guess")
    assert client.get("/dashboard/live").status_code == 401
    assert client.post("/login", content=b"token=" + b"x" * 5000).status_code == 413


def test_without_a_token_only_this_machine_by_its_own_name_is_answered(monitor: Monitor) -> None:
    for name in ("localhost", "127.0.0.1", "[::1]"):
        assert Service(monitor).client(f"http://{name}").get("/").status_code == 200
    client = Service(monitor).client("http://localhost")
    # Starlette takes the latter for no names, and the address of the server for the name.
    for name in ("rebound.example", "re{bound.example", "rebound.example:99999", "localhost:8.x"):
        foreign = client.get("/", headers={"host": name})
        assert foreign.status_code == 421, name
        assert "Users" not in foreign.text


@pytest.mark.parametrize("name", ["collector.js", "collector-ldp.js", "collector-sealed.js"])
def test_scripts_are_cached_for_ever_under_their_content_and_checked_otherwise(
    monitor: Monitor, name: str
) -> None:
    client = Service(monitor, token=TOKEN).client("https://logs.example")
    script = script_named(name)
    plain = client.get(f"/v1/{name}")
    assert (plain.content, plain.headers["cache-control"]) == (script.content, "no-cache")
    assert plain.headers["access-control-allow-origin"] == "*"
    assert "immutable" in client.get(script.path).headers["cache-control"]
    stale = client.get(f"/v1/{name}?v=0123456789abcdef")
    assert stale.headers["cache-control"] == "no-cache"
    tag = plain.headers["etag"]
    same = client.get(f"/v1/{name}", headers={"If-None-Match": tag})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert client.get(f"/v1/{name}", headers={"If-None-Match": '"old"'}).status_code == 200


def reading(hour: int, upper: float) -> Measurement:
    return Measurement(
        time=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hour), apis=("a",), k=10,
        population=1000, users=100, estimate=upper / 2, lower=upper / 4, upper=upper,
    )  # fmt: skip


def test_history_keeps_to_the_question_and_survives_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    kept = History(path, most=10)
    for hour in range(95):
        kept.add(reading(hour, 0.1))
    shown = kept.readings(reading(94, 0.1))
    assert 5 <= len(shown) <= 10
    assert shown[-1] == reading(94, 0.1)
    assert list(shown) == sorted(shown, key=lambda one: one.time)
    # Cut within a character, as names may have others than ASCII.
    path.write_bytes(path.read_bytes() + '\n{"time": "2026", "apis": ["é'.encode()[:-1])
    again = History(path, most=1000)
    assert again.readings(reading(94, 0.1)) == [reading(hour, 0.1) for hour in range(95)]
    again.add(reading(95, 0.1))
    assert len(History(path, most=1000).readings(reading(94, 0.1))) == 96, "the next is whole"


def test_the_history_of_a_year_is_no_larger_than_that_of_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it was kept: with a dashboard that stays open, 17,000 readings a day."""
    monkeypatch.setattr("fpmonitor.serve.overview._MOST_READINGS", 20)
    path = tmp_path / "history.jsonl"
    kept = History(path)
    for hour in range(1000):
        kept.add(reading(hour, 0.1))
        assert len(path.read_bytes().splitlines()) <= 21 + 1
    again = History(path).readings(reading(999, 0.1))
    assert again == kept.readings(reading(999, 0.1))
    assert again[-1] == reading(999, 0.1)


def test_an_overview_names_apis_that_change_at_will(monitor: Monitor, tmp_path: Path) -> None:
    overview = take_overview(monitor, None)
    assert overview.alerts[-1].text.startswith("No decision is loaded")
    lost = decide(monitor)
    empty = Monitor(tmp_path / "other.duckdb", create=True)
    store(empty, tmp_path, {f"u{i}": {"Screen.height": 1} for i in range(20)})
    overview = take_overview(empty, lost)
    assert any("differ" in alert.text for alert in overview.alerts)
    assert overview.check is None
