"""The laboratory of distinguishers: what pages still tell apart while a list is in force.

    PYTHONPATH=. python benchmarks/lab.py chromium --modules DIR/node_modules
    PYTHONPATH=. python benchmarks/lab.py firefox --ublock DIR
        [--secrets "cores,time zone" | --pages] [--products "web extension"] [--write]

Two environments differ in one secret. A page calls every reader in each of them, first without a
list, then beside the lists of each product; what tells the two apart beside a list is a way round
it. Readers are in `benchmarks/lab/readers.js`, one line each; secrets in `secrets.py`.
With `--write` what was found replaces its part of `fpmonitor/export/evidence.json`, from which
verdicts, headlines, `preview` and `plan` follow.

`--modules` holds @adguard/scriptlets; `--ublock` is the folder of the extension in Debian's package
`webext-ublock-origin-firefox`, which need not be installed (`apt download`, `dpkg -x`).
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.lab.browsers import CHROMIUM, FIREFOX, version_of
from benchmarks.lab.measure import Bench, breakage, measure
from benchmarks.lab.products import PRODUCTS, version_of_adguard
from benchmarks.lab.record import write, write_breakage
from benchmarks.lab.secrets import SECRETS


def main() -> int:
    """Measure, tell, write; 1 where a secret could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("browser", choices=["chromium", "firefox"])
    parser.add_argument("--secrets", default="", help="some of them, separated by commas")
    parser.add_argument("--products", default="", help="those whose name begins so")
    parser.add_argument("--modules", type=Path, default=Path("node_modules"))
    parser.add_argument("--ublock", type=Path, default=Path("ublock"))
    parser.add_argument("--pages", action="store_true", help="which ordinary pages stop")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    known = [secret for secret, pairs in SECRETS.items() if options.browser in pairs]
    chosen = [name.strip() for name in options.secrets.split(",") if name.strip()] or known
    if unknown := set(chosen) - set(known):
        parser.error(f"no such secret in {options.browser}: {', '.join(sorted(unknown))}")
    products = [
        product
        for product in PRODUCTS
        if product.browser == options.browser and product.name.startswith(options.products)
    ]
    if not products:
        parser.error(f"no such product in {options.browser}: {options.products}")
    program = str(CHROMIUM) if options.browser == "chromium" else str(FIREFOX / "firefox-esr")
    version, date, failed = version_of(program), str(datetime.now(UTC).date()), 0
    of = {"uBlock Origin": _version_of(options.ublock)}
    if options.browser == "chromium":
        of["AdGuard's scriptlets"] = version_of_adguard(options.modules)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder=Path(folder), modules=options.modules, ublock=options.ublock)
        if options.pages:
            stopped = breakage(bench, products, _tell)
            for product, controls in stopped.items():
                for control, pages in controls.items():
                    _tell(f"  {product}: {control} stops {', '.join(pages)}")
            if options.write:
                write_breakage(stopped)
            return 0
        start = time.monotonic()
        for secret in chosen:
            print(f"{time.strftime('%H:%M:%S')} {secret}", flush=True)
            try:
                found = measure(bench, SECRETS[secret][options.browser], products, _tell)
            except (queue.Empty, OSError, RuntimeError, pytest.fail.Exception) as error:
                print(f"  not measured: {error!r}", file=sys.stderr, flush=True)
                failed += 1
                continue
            for (product, controls), closed in found.closed.items():
                told = len(found.told)
                _tell(f"  {product}: {len(controls)} controls close {len(closed)} of {told}")
            if options.write:
                when = {"browser": options.browser.capitalize(), "version": version, "date": date}
                write(when, secret, found, of)
        print(f"{len(chosen)} secrets in {(time.monotonic() - start) / 60:.0f} minutes", flush=True)
    return 1 if failed else 0


def _version_of(extension: Path) -> str:
    manifest = extension / "manifest.json"
    return str(json.loads(manifest.read_text())["version"]) if manifest.is_file() else ""


def _tell(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
