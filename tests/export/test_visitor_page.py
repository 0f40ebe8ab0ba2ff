"""The page for visitors: it holds what at least k users share, and sends nothing."""

from __future__ import annotations

import json
import random
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cli import run
from fpmonitor.export.visitor_page import VISITOR_PAGE

if TYPE_CHECKING:
    from pathlib import Path

K = 5
HOSTILE = "</script><img src=x onerror=window.ran=1>"
AGENTS = ["Mozilla/5.0 common", f"also common {HOSTILE}", "{{SCRIPT}} <!-- table -->"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users of whom few are rare: alone with a value, or with a combination of common ones."""
    folder = tmp_path_factory.mktemp("visitors")
    chance = random.Random(11)
    lines = []
    for number in range(400):
        agent, cores = chance.choice(AGENTS), chance.choice(["2", "8"])
        if number < 4:
            agent = f"rare-{number}"
        elif number < 8:
            agent = "four share this"
        if number == 8:
            agent, cores = AGENTS[0], "64"
        lines.append(
            {"user": f"who-{number}", "Navigator.userAgent": agent}
            | {"Navigator.hardwareConcurrency": int(cores), "users": number % 2, HOSTILE: "x"}
        )
    log, db = folder / "log.jsonl", str(folder / "x.duckdb")
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run(["ingest", str(log), "--as", "users=", "--db", db, "-q"]) == 0
    made = str(folder / "d.json")
    names = f'Navigator.userAgent,Navigator.hardwareConcurrency,users,"{HOSTILE}"'
    asked = ["--k", str(K), "--budget", "20%", "--candidates", names, "--setting", "sample"]
    assert run(["decide", *asked, "--db", db, "-o", made, "-q"]) == 0
    page = str(folder / "page.html")
    assert run(["export", made, "--to", "visitor-page", "--db", db, "-o", page, "-q"]) == 0
    return folder


@pytest.fixture
def text(folder: Path) -> str:
    return (folder / "page.html").read_text(encoding="utf-8")


def table_of(text: str) -> Any:
    [found] = re.findall(r'id="table">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


def test_only_values_that_k_users_share_are_in_it(text: str) -> None:
    table = table_of(text)
    assert table["apis"]["Navigator.userAgent"]["values"] == sorted(f"v{one}" for one in AGENTS)
    assert table["apis"]["Navigator.hardwareConcurrency"]["values"] == ["v2", "v8"]
    for gone in ("rare-", "four share", "who-", '"v64"'):
        assert gone not in text


def test_only_combinations_that_k_users_share_are_in_it(folder: Path, text: str) -> None:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    sets = table_of(text)["sets"]
    assert sets
    for one in sets:
        tuples = [tuple(f"v{line[api]}" for api in one["apis"]) for line in lines]
        assert {tuple(found) for found in one["values"]} == {
            found for found in tuples if tuples.count(found) >= K
        }


def test_it_tells_no_counts_but_that_of_all(text: str) -> None:
    numbers = set(re.findall(r"\d+", json.dumps(table_of(text)["apis"])))
    assert numbers <= {"2", "8", "0", "1", "5"}
    assert "400" in text


def test_names_of_a_hostile_log_are_text(text: str) -> None:
    assert HOSTILE not in text
    assert text.count("<script") == 2
    assert VISITOR_PAGE.validate(text) == []


def test_a_page_that_was_changed_is_no_page_of_ours(text: str) -> None:
    assert VISITOR_PAGE.validate(text.replace("default-src 'none'", "default-src *"))
    assert VISITOR_PAGE.validate(text.replace("Nothing was sent", "All was sent"))
    assert VISITOR_PAGE.validate(text.replace('"values":[', '"values":"'))


def test_without_users_and_of_rows_there_is_no_page(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", str(folder / "d.json"), "--to", "visitor-page"]) == 2
    assert "--db" in capsys.readouterr().err
    log = tmp_path / "rows.csv"
    log.write_text("Navigator.userAgent\n" + "one user came often\n" * 50)
    db, made = str(tmp_path / "x.duckdb"), str(tmp_path / "d.json")
    assert run(["ingest", str(log), "--user", "row", "--db", db, "-q"]) == 0
    asked = ["--budget", "5%", "--setting", "sample", "--candidates", "Navigator.userAgent"]
    assert run(["decide", *asked, "--db", db, "-o", made, "-q"]) == 0
    capsys.readouterr()
    assert run(["export", made, "--to", "visitor-page", "--db", db]) == 2
    assert "came often" not in capsys.readouterr().out


@pytest.mark.browser
def test_it_reads_the_browser_and_sends_nothing(folder: Path) -> None:
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("needs Chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        for agent, said in ((AGENTS[1], "In a crowd of at least 5"), ("rare-1", "Fewer than 5")):
            context = browser.new_context(user_agent=agent)
            page = context.new_page()
            sent: list[str] = []
            faults: list[str] = []
            page.on("request", lambda request, sent=sent: sent.append(request.url))
            page.on("pageerror", lambda error, faults=faults: faults.append(str(error)))
            page.goto((folder / "page.html").as_uri())
            assert page.locator(".answer").all_inner_texts() == [""] * 5
            page.keyboard.press("Tab")
            page.keyboard.press("Enter")
            page.wait_for_selector("#done >> text=compared", timeout=120_000)
            row = page.locator('[data-api="Navigator.userAgent"] .answer')
            assert row.inner_text().startswith(said)
            # Not even a script that got in could send: the policy of the page refuses it.
            blocked = page.evaluate(
                "fetch('https://example.com/').then(() => 'sent', () => 'refused')"
            )
            assert blocked == "refused"
            assert page.evaluate("window.ran") is None
            assert [one for one in sent if not one.startswith("file:")] in (
                [],
                ["https://example.com/"],
            )
            assert faults == []
            context.close()
        browser.close()
