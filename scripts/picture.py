"""Draw the picture of the README: the page of `fpmonitor ui` on the quickstart's database.

`python scripts/picture.py` needs Chromium and Playwright, and writes docs/ui.png.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
TICKED = ("Navigator.hardwareConcurrency", "Screen.height")


def main() -> None:
    """Open the page, tick two APIs, and write what is on the screen."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fpmonitor"]
        subprocess.run([*command, "quickstart", "--quiet"], cwd=folder, check=True)
        asked = [*command, "ui", "--db", "quickstart/fpmonitor.duckdb", "--no-browser"]
        with subprocess.Popen(asked, cwd=folder, stderr=subprocess.PIPE, text=True) as running:
            try:
                assert running.stderr is not None
                [address] = re.findall(r"http\S+", running.stderr.readline())
                (ROOT / "docs" / "ui.png").write_bytes(photographed(address))
            finally:
                running.terminate()


def photographed(address: str) -> bytes:
    """PNG of the answer of the page."""
    ticked = "".join(f"&api={api}" for api in TICKED)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1100, "height": 900}, color_scheme="light")
        page.goto(address)
        page.goto(
            f"{address.split('?', maxsplit=1)[0]}?k=10&budget=5&n=20000{ticked}",
            wait_until="networkidle",
        )
        page.locator("#set").evaluate("part => part.scrollIntoView()")
        found = page.screenshot()
        browser.close()
    return found


if __name__ == "__main__":
    main()
