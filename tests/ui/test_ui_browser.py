"""The page of `fpmonitor ui` in Chromium: from a log to a list, by keyboard, and for everybody."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

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
