"""The page of `fpmonitor ui` in Chromium: from a log to a list, by keyboard, and for everybody."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import pytest

from tests.running import Running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.browser
PATIENCE = 120_000  # milliseconds; the machine may be busy


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("needs Chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """What the command prints, on a log whose users a column of another name tells."""
    chance = random.Random(5)
    lines = [
        f"c{i},Mozilla/5.0 rv:{chance.randrange(5)},{chance.choice([390, 1280])},{i % 3}"
        for i in range(400)
    ]
    (tmp_path / "log.csv").write_text("\n".join(["client,userAgent,screenWidth,x", *lines]))
    command = [sys.executable, "-m", "fpmonitor", "ui", "log.csv", "--no-browser"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        yield re.findall(r"http\S+", running.stderr.readline())[0]
        running.terminate()


def press_until(page: Any, selector: str, key: str = "Tab", *, most: int = 120) -> None:
    """Move the focus by keyboard alone."""
    for _ in range(most):
        if page.locator(selector).evaluate("one => one === document.activeElement"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{selector} is not reached by keyboard")


def test_from_a_log_to_a_list_by_keyboard_alone(
    chromium: Any, address: str, hindrances: Callable[[Any, str], Iterator[str]]
) -> None:
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.goto(address)
    # 1. The member that names the users is said by its first letters.
    page.wait_for_selector("#account:not([aria-busy]) table")
    press_until(page, 'select[name="member:client"]')
    page.keyboard.type("who")
    ready = "#account:not([aria-busy]) #reading button:not([disabled])"
    page.wait_for_selector(ready)
    # The focus stays where it was, in the table that was made anew.
    assert page.locator('select[name="member:client"]').evaluate(
        "one => one === document.activeElement"
    )
    press_until(page, "#reading button >> nth=0")
    page.keyboard.press("Enter")
    # 2. and 3. Two APIs are ticked, and the answer follows.
    page.wait_for_selector("#set")
    for api in ("userAgent", "screenWidth"):
        press_until(page, f'input[value="{api}"]')
        page.keyboard.press("Space")
    page.wait_for_selector("#answer:not([aria-busy]) .lead >> text=These 2 APIs together")
    press_until(page, "#decide button")
    page.keyboard.press("Enter")
    # 4. Every product says what it would hide.
    page.wait_for_selector("#products:not([aria-busy]) table")
    assert page.locator("#lists .lead").inner_text().startswith("A site may read")
    assert "readable" in page.locator("#products").inner_text()
    with page.expect_download() as found:
        press_until(page, 'a[href="/list/ublock"]')
        page.keyboard.press("Enter")
    assert found.value.suggested_filename == "ublock.txt"
    assert failures == []
    # The address holds the state: another tab shows the same.
    again = context.new_page()
    again.goto(page.url)
    again.wait_for_selector(
        "#answer:not([aria-busy]) .lead >> text=These 2 APIs together", timeout=PATIENCE
    )
    query = again.url.partition("?")[2].partition("#")[0]
    context.close()
    assert list(hindrances(chromium, f"{address}&{query}")) == []


MARK = "window.ran=1"
HOSTILE = (
    f"<img src=x onerror={MARK}>",
    f'"><script>{MARK}</script>',
    f"' autofocus onfocus={MARK} x='",
    f"javascript:{MARK}//",
    "</select></form><form action=//evil.example><button>Store",
    "<base href=//evil.example/><link rel=stylesheet href=//evil.example/x.css>",
    "{{ 7 * 7 }}${7*7}",
    "asked",
    "__proto__",
    "\u202egnp.x",
)


def foreign_in(page: Any) -> list[str]:
    """Elements that no template of ours has, and whether a script of a name ran."""
    return list(
        page.evaluate(
            """() => [...document.querySelectorAll(
                "img, iframe, object, base, form[action*='evil'], script:not([src]), "
                + "[onerror], [onfocus], [onclick], [autofocus]:not(#token), "
                + "a[href^='javascript:']")]
                .map(one => one.outerHTML).concat(window.ran ? ["it ran"] : [])"""
        )
    )


@pytest.mark.long
def test_hostile_names_run_nothing_and_reach_nobody(chromium: Any, tmp_path: Path) -> None:
    """Names of columns, values and files, in every part of the page and in its address."""
    log = tmp_path / "<img src=x onerror=1>.jsonl"
    chance = random.Random(3)
    with log.open("w", encoding="utf-8") as file:
        for user in range(300):
            values = {name: f"{HOSTILE[0]}{chance.randrange(3)}" for name in HOSTILE}
            file.write(json.dumps({"client": f"{HOSTILE[1]}{user}", **values}) + "\n")
    command = [sys.executable, "-m", "fpmonitor", "ui", log.name, "--no-browser"]
    context = chromium.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    asked: list[str] = []
    faults: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: (faults.append("dialog"), dialog.dismiss()))
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        try:
            address = re.findall(r"http\S+", running.stderr.readline())[0]
            page.goto(address)
            page.wait_for_selector("#account:not([aria-busy]) table")
            assert foreign_in(page) == []
            page.locator('select[name="member:client"]').select_option("user")
            page.locator(
                "#account:not([aria-busy]) #reading button:not([disabled]) >> nth=0"
            ).click()
            page.wait_for_selector("#set")
            page.locator("#all").click()
            page.wait_for_selector("#answer:not([aria-busy]) .lead")
            assert foreign_in(page) == []
            assert page.locator("[name=api]").count() >= len(HOSTILE) - 1
            page.locator("#decide button").click()
            page.wait_for_selector("#lists")
            page.wait_for_selector("#products:not([aria-busy])")
            assert foreign_in(page) == []
            site = address.partition("?")[0]
            for query in ("api", "k", "n", "budget", "decision", "problem"):
                page.goto(f"{site}?{urlencode({query: HOSTILE[0]})}")
                page.wait_for_timeout(200)
                assert foreign_in(page) == [], query
        finally:
            running.terminate()
    context.close()
    assert faults == []
    assert {urlsplit(one).netloc for one in asked} == {urlsplit(address).netloc}


@pytest.mark.long
def test_hostile_names_in_the_dashboard_run_nothing_and_reach_nobody(
    chromium: Any, tmp_path: Path
) -> None:
    """As a sender sends them, and as a reader is led to ask for them."""
    lines = [
        json.dumps({"user": f"u{user}", "api": name, "value": f"{HOSTILE[0]}{user % 3}"})
        for user in range(100)
        for name in HOSTILE
    ]
    context = chromium.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    asked: list[str] = []
    faults: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: (faults.append("dialog"), dialog.dismiss()))
    with Running(tmp_path, "page") as service:
        assert service.post("\n".join(lines), "page").status_code == 202
        service.settled()
        page.goto(f"{service.address}/")
        page.locator("[name=token]").fill(service.keys["ann"])
        page.keyboard.press("Enter")
        page.wait_for_selector("[name=api]")
        for path in ("/", "/dashboard/apis", "/dashboard/live", "/dashboard/explore", "/login"):
            for query in ("", *(f"?{urlencode({'api': name})}" for name in HOSTILE[:6])):
                page.goto(f"{service.address}{path}{query}")
                assert foreign_in(page) == [], (path, query)
        page.goto(f"{service.address}/")
        shown = page.locator("[name=api]")
        assert shown.count() == len(HOSTILE)
        for number in range(len(HOSTILE)):
            shown.nth(number).check()
        page.wait_for_timeout(1_000)
        assert foreign_in(page) == []
        assert {urlsplit(one).netloc for one in asked} == {f"localhost:{service.port}"}
    context.close()
    assert faults == []
