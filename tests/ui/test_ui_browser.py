"""The page of `fpmonitor ui` in browsers: from a log to a list, by keyboard, for everybody."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import polars as pl
import pytest

from tests.firefox import ENTER, TAB, firefox
from tests.patience import patience
from tests.running import Running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


@dataclass(frozen=True)
class Walk:
    """Somebody's raw file, the member that names the users, and the file that they came for."""

    log: str
    user: str
    link: str
    ending: str
    holds: str

    @property
    def file(self) -> str:
        return self.link.removeprefix("list/") + self.ending


CHANCE = random.Random(5)
ROWS = [
    {
        "userAgent": f"Mozilla/5.0 rv:{CHANCE.randrange(5)}" if number > 30 else f"only {number}",
        "screenWidth": CHANCE.choice([390, 1280]),
        "hardwareConcurrency": CHANCE.choice([4, 8]),
        "NavigatorUAData.getHighEntropyValues#model": f"Model {number}" if number < 200 else "",
    }
    for number in range(400)
]
WALKS = {
    "vendor": Walk("telemetry.parquet", "client_id", "list/firefox-policies", ".txt", "policies"),
    "site": Walk(
        "visits.jsonl", "visitor", "list/permissions-policy", ".txt", "Permissions-Policy"
    ),
    "researcher": Walk("study.csv", "id", "apis.csv", "", "userAgent"),
    "extension author": Walk("users.jsonl", "uid", "list/webextension", ".zip", "PK"),
    "student": Walk("homework.csv", "client", "list/visitor-page", ".html", "Am I one of them?"),
}


def write_log(walk: Walk, folder: Path) -> Path:
    path = folder / walk.log
    frame = pl.DataFrame([{walk.user: f"c{number}"} | row for number, row in enumerate(ROWS)])
    kinds = {".csv": "csv", ".jsonl": "ndjson", ".parquet": "parquet"}
    getattr(frame, f"write_{kinds[path.suffix]}")(path)
    return path


@contextmanager
def opened(walk: Walk, folder: Path) -> Iterator[str]:
    """What the command prints, on the raw file."""
    command = [
        sys.executable,
        "-m",
        "fpmonitor",
        "ui",
        write_log(walk, folder).name,
        "--no-browser",
    ]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        try:
            yield re.findall(r"http\S+", running.stderr.readline())[0]
        finally:
            running.terminate()


def press_until(page: Any, selector: str, key: str = "Tab", *, most: int = 120) -> None:
    """Move the focus by keyboard alone."""
    for _ in range(most):
        if page.locator(selector).evaluate("one => one === document.activeElement"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{selector} is not reached by keyboard")


@pytest.mark.parametrize("who", WALKS)
def test_from_a_raw_file_to_the_right_one_in_five_steps_by_keyboard(
    chromium: Any, who: str, tmp_path: Path, hindrances: Callable[[Any, str], Iterator[str]]
) -> None:
    walk = WALKS[who]
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    with opened(walk, tmp_path) as address:
        page.goto(address)
        page.wait_for_selector("#account:not([aria-busy]) table")
        steps = 0
        # 1. The member that names the users is said by its first letters, where it is not known.
        if page.locator("#reading button[disabled]").count():
            press_until(page, f'select[name="member:{walk.user}"]')
            page.keyboard.type("who")
            page.wait_for_selector("#account:not([aria-busy]) #reading button:not([disabled])")
            # The focus stays where it was, in the table that was made anew.
            assert page.locator(f'select[name="member:{walk.user}"]').evaluate(
                "one => one === document.activeElement"
            )
            steps += 1
        # 2. Store.
        press_until(page, "#reading button >> nth=0")
        page.keyboard.press("Enter")
        page.wait_for_selector("#set")
        # 3. All is ticked, and the answer follows.
        press_until(page, "#all")
        page.keyboard.press("Enter")
        page.wait_for_selector("#answer:not([aria-busy]) .lead >> text=These 4 APIs together")
        # 4. Decide.
        press_until(page, "#decide button")
        page.keyboard.press("Enter")
        page.wait_for_selector("#products:not([aria-busy]) table")
        page.wait_for_selector("#why:not([aria-busy]) table")
        assert page.locator("#lists .lead").inner_text().startswith("A site may read")
        # 5. The file.
        with page.expect_download() as found:
            press_until(page, f'a[href="/{walk.link}"]', most=250)
            page.keyboard.press("Enter")
        steps += 4
        assert steps <= 5
        assert found.value.suggested_filename == walk.file
        assert walk.holds in Path(found.value.path()).read_text(encoding="latin-1")
        assert failures == []
        # The address holds the state: another tab shows the same.
        again = context.new_page()
        again.set_default_timeout(PATIENCE)
        again.goto(page.url)
        again.wait_for_selector("#answer:not([aria-busy]) .lead >> text=These 4 APIs together")
        query = again.url.partition("?")[2].partition("#")[0]
        context.close()
        if who == "student":
            shown = f"{address}&{query}&given=hardwareConcurrency"
            assert list(hindrances(chromium, shown)) == []


@pytest.mark.long
@pytest.mark.parametrize("who", WALKS)
def test_the_same_walk_in_firefox(who: str, tmp_path: Path) -> None:
    walk = WALKS[who]
    with opened(walk, tmp_path) as address, firefox(tmp_path) as browser:
        browser.open(address)

        def until(told: str) -> None:
            end = time.monotonic() + patience(60)
            while not browser.run(told):
                assert time.monotonic() < end, told
                time.sleep(0.1)

        def tab_to(selector: str) -> None:
            for _ in range(250):
                if browser.run(f"document.activeElement.matches({json.dumps(selector)})"):
                    return
                browser.press(TAB)
            raise AssertionError(f"{selector} is not reached by keyboard")

        until("!!document.querySelector('#account:not([aria-busy]) table')")
        steps = 0
        if browser.run("!!document.querySelector('#reading button[disabled]')"):
            tab_to(f'select[name="member:{walk.user}"]')
            browser.press("w")
            until("!!document.querySelector('#reading button:not([disabled])')")
            time.sleep(2)  # Firefox takes letters for one search a while, and then no Enter
            steps += 1
        tab_to("#reading button:not([formaction])")
        browser.press(ENTER)
        until("!!document.querySelector('#set')")
        tab_to("#all")
        browser.press(ENTER)
        until("/These 4 APIs/.test(document.querySelector('#answer .lead')?.textContent)")
        tab_to("#decide button")
        browser.press(ENTER)
        until("!!document.querySelector('#products:not([aria-busy]) table')")
        tab_to(f'a[href="/{walk.link}"]')
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        browser.press(ENTER)
        steps += 4
        assert steps <= 5
        saved = tmp_path / "Downloads" / walk.file
        end = time.monotonic() + patience(60)
        while not (saved.exists() and saved.stat().st_size) and time.monotonic() < end:
            time.sleep(0.1)
        assert walk.holds in saved.read_text(encoding="latin-1")


PICTURES = Path(__file__).with_name("pictures.json")
# What stands where, in shares of the width, and in which colours: the same whatever fonts a machine
# has, unlike pixels. Numbers are left out: they are tested elsewhere.
PICTURE = """() => {
    const share = (pixels) => 5 * Math.round((20 * pixels) / innerWidth);
    const read = "h1, h2, h3, .lead, summary, .buttons, .problem, legend";
    const shown = `${read}, nav, .field, .ticks, .wide, #answer svg, #answer p`;
    const coloured = ["body", "h1", ".lead", "a[download]", "button", ".small", ".wide th"];
    const boxes = [...document.querySelectorAll(shown)].map((one) => {
        const box = one.getBoundingClientRect();
        const text = one.matches(read) ? one.textContent.trim().replace(/\\s+/g, " ") : "";
        const named = one.className.baseVal ?? one.className;
        const kind = named ? `${one.localName}.${named}` : one.localName;
        const said = text.replace(/[\\d.,]+/g, "#").slice(0, 70);
        return box.width ? `${kind} ${share(box.left)} ${share(box.width)} ${said}`.trim() : "";
    });
    const colours = coloured.map((name) => {
        const style = getComputedStyle(document.querySelector(name));
        return `${name}: ${style.color} on ${style.backgroundColor}`;
    });
    return [...boxes.filter(Boolean), ...colours];
}"""


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_looks_as_it_was_seen_to_be_right(
    chromium: Any, width: int, scheme: str, tmp_path: Path
) -> None:
    """FPMONITOR_RECORD=1 writes what is on screen: look at it before you keep it."""
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    with opened(WALKS["site"], tmp_path) as address:
        page.goto(address)
        page.locator('#account:not([aria-busy]) select[name="member:visitor"]').select_option(
            "user"
        )
        page.locator("#account:not([aria-busy]) #reading button:not([disabled]) >> nth=0").click()
        page.locator("#all").click()
        page.wait_for_selector("#answer:not([aria-busy]) .lead >> text=These 4 APIs together")
        page.locator("#decide button").click()
        page.wait_for_selector("#products:not([aria-busy]) table")
        page.wait_for_selector("#why:not([aria-busy]) table")
        page.wait_for_selector("#answer:not([aria-busy]) .lead >> text=95 %")
        seen = page.evaluate(PICTURE)
        if "FPMONITOR_RECORD" in os.environ:
            page.screenshot(path=tmp_path / f"{width}-{scheme}.png", full_page=True)
    context.close()
    pictures = json.loads(PICTURES.read_text()) if PICTURES.exists() else {}
    name = f"{width} {scheme}"
    if "FPMONITOR_RECORD" in os.environ:
        PICTURES.write_text(json.dumps(pictures | {name: seen}, indent=1) + "\n")
    else:
        assert seen == pictures[name]


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
