"""By which ways pages read beside each list, measured in the products themselves.

    PYTHONPATH=. python benchmarks/evasion.py NAME [--product PATH] [--modules DIR/node_modules]
        [--version VERSION] [--write]

NAME is that of an entry in `fpmonitor/export/evasion.json`; what differs from it is printed, and
with `--write` added to it. `--product` is for uBlock Origin and JShelter in Firefox the extension,
for JShelter in Chromium the folder of one, for the scriptlets of uBlock Origin a checkout of its
source, for DuckDuckGo the script that content-scope-scripts injects on the platform chrome-mv3; for
AdGuard, `--modules` holds @adguard/scriptlets. All of them act on a list of all their controls.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from recollection import UBLOCK as UBLOCK_SCRIPTLETS
from recollection import DevTools, Marionette, firefox, scriptlets

from fpmonitor.export.chromium import CHROMIUM as POLICIES_OF_CHROMIUM
from fpmonitor.export.duckduckgo import DUCKDUCKGO
from fpmonitor.export.filters import ADGUARD, UBLOCK
from fpmonitor.export.firefox import POLICIES
from fpmonitor.export.jshelter import JSHELTER
from fpmonitor.export.permissions_policy import PERMISSIONS_POLICY
from tests.products.browsers import (
    PREFERENCES,
    SECONDS,
    STOCK,
    Stage,
    chromium_command,
    chromium_reads,
    displaying,
    firefox_reads,
    prefs,
    sites,
)
from tests.products.evasion import (
    adguard_extension,
    everything,
    extension_of,
    headers_of,
    node,
    record,
    recorded,
    tried,
    unlikely,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from fpmonitor.export.enforce import ControlExporter
    from tests.products.browsers import Reading

Readings = tuple["Reading", "Reading"]
BOTH = [Stage(), Stage(host="127.0.0.1")]  # the extensions of `extension_of` act on the second
IMPORT = """
document.getElementById("levels-storage-text").value = %s;
document.getElementById("levels-storage-save").click();
"""
JSHELTER_ID, ADDRESS = "jsr@javascriptrestrictor", "9d7a6b1e-5f0c-4b7e-8a55-3f1f2c4d6e70"
CALL = re.compile(r"##\+js\((.*)\)$")
# What the extension's own content script does: it answers the secret of the injected one.
REGISTER = """
addEventListener("ddg-secret", ({ detail: secret }) => {
  const site = { domain: location.hostname, enabledFeatures: %s, allowlisted: false };
  const args = { platform: { name: "extension" }, site, sessionKey: "key", featureSettings: %s };
  const detail = JSON.stringify({ type: "register", argumentsObject: args });
  dispatchEvent(new CustomEvent(secret, { detail }));
});
"""


@dataclass(frozen=True, kw_only=True)
class Given:
    """Where the products are."""

    folder: Path
    product: Path
    modules: Path


def headers(given: Given) -> Readings:
    """Chromium beside headers of a site."""
    stage = Stage(headers=headers_of(everything(PERMISSIONS_POLICY)))
    before, after = chromium_reads(given.folder, [Stage(), stage])
    return before, after


def managed(given: Given) -> Readings:
    """Chromium beside its policies."""
    [before] = chromium_reads(given.folder / "before", [Stage()])
    policies = everything(POLICIES_OF_CHROMIUM)
    [after] = chromium_reads(given.folder / "after", [Stage()], policies=policies)
    return before, after


def targets(given: Given, *, weaker: bool = False) -> Readings:
    """Firefox beside its policies."""
    (given.folder / "before").mkdir()
    (given.folder / "after").mkdir()
    with displaying() as display:
        before = firefox_reads(given.folder / "before", display=display, userjs=prefs(STOCK))
        policies = everything(POLICIES, weaker=weaker)
        after = firefox_reads(
            given.folder / "after", display=display, userjs=prefs(PREFERENCES), policies=policies
        )
    return before, after


def other_targets(given: Given) -> Readings:
    """Firefox beside the policies that do the same in another way."""
    return targets(given, weaker=True)


def by_extension(given: Given, extension: Path) -> Readings:
    """Chromium beside the script of an extension."""
    before, after = chromium_reads(given.folder, BOTH, extension=extension)
    return before, after


def adguard(given: Given) -> Readings:
    """AdGuard's scriptlets."""
    return by_extension(given, adguard_extension(given.folder / "extension", given.modules))


def ublock_scriptlets(given: Given) -> Readings:
    """Scriptlets of uBlock Origin in Chromium, which runs its extension no more."""
    calls = [unlikely(call) for call in scriptlets("ublock", everything(UBLOCK))]
    text = node(UBLOCK_SCRIPTLETS, calls, given.product)
    (given.folder / "extension").mkdir()
    return by_extension(given, extension_of(given.folder / "extension", text))


def duckduckgo(given: Given) -> Readings:
    """Return what DuckDuckGo's script leaves, given our features as its configuration."""
    features = json.loads(everything(DUCKDUCKGO))
    features = features.get("features", features)
    text = given.product.read_text(encoding="utf-8")
    settings = {name: feature.get("settings", {}) for name, feature in features.items()}
    register = REGISTER % (json.dumps(list(features)), json.dumps(settings))
    configured = text.replace("$BUNDLED_CONFIG$", json.dumps({"features": features}))
    configured = configured.replace("$TRACKER_LOOKUP$", "{}")
    (given.folder / "extension").mkdir()
    return by_extension(given, extension_of(given.folder / "extension", register + configured))


def ublock(given: Given) -> Readings:
    """Return what the extension uBlock Origin leaves in Firefox, given our list by policy."""
    rules = [
        CALL.sub(lambda call: f"##+js({', '.join(unlikely(call[1].split(', ')))})", rule)
        for rule in everything(UBLOCK).splitlines()
    ]
    chosen = {"filters": rules, "filterLists": ["user-filters"]}
    settings = {"uBlock0@raymondhill.net": {"toOverwrite": chosen}}
    policies = json.dumps({"policies": {"3rdparty": {"Extensions": settings}}})
    return in_firefox(given, policies, lambda _: None)


def in_firefox(given: Given, policies: str, prepare: Callable[[Marionette], None]) -> Readings:
    """Firefox without and with an extension, which is prepared once it has started."""
    addresses = {"extensions.webextensions.uuids": json.dumps(json.dumps({JSHELTER_ID: ADDRESS}))}
    userjs = prefs(STOCK | addresses)
    with displaying() as display, firefox(given.folder, policies, userjs, display) as call:
        readings = []
        for extension in (None, given.product):
            if extension:
                call("Addon:Install", path=str(extension.resolve()), temporary=True)
                time.sleep(10)  # until it has compiled its lists
                prepare(call)
            with sites([Stage()]) as (address, done):
                call("WebDriver:Navigate", url=address)
                readings.append(done.get(timeout=SECONDS))
    before, after = readings
    return before, after


def jshelter_in_firefox(given: Given) -> Readings:
    """Return what JShelter leaves in Firefox, once our configuration is imported, twice."""

    def prepare(call: Marionette) -> None:
        call("WebDriver:Navigate", url=f"moz-extension://{ADDRESS}/options_advanced.html")
        for _ in range(2):
            time.sleep(2)
            script = IMPORT % json.dumps(everything(JSHELTER))
            call("WebDriver:ExecuteScript", script=script, args=[])
        time.sleep(2)

    return in_firefox(given, "", prepare)


def jshelter_in_chromium(given: Given) -> Readings:
    """Return what JShelter leaves in Chromium, once our configuration is imported, twice."""
    [before] = chromium_reads(given.folder / "before", [Stage()])
    command = chromium_command(given.folder / "profile", given.product.resolve())
    call = DevTools([*command, "--remote-debugging-pipe"], {"TZ": "America/New_York"})
    try:
        time.sleep(5)
        [host] = {
            target["url"].split("/")[2]
            for target in call("Target.getTargets")["targetInfos"]
            if target["url"].endswith("/service_worker.js")
        }
        page = call("Target.createTarget", url=f"chrome-extension://{host}/options_advanced.html")
        session = call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        time.sleep(2)
        for _ in range(2):
            script = IMPORT % json.dumps(everything(JSHELTER))
            call("Runtime.evaluate", session["sessionId"], expression=script)
            time.sleep(2)
        with sites([Stage()]) as (address, done):
            call("Target.createTarget", url=address)
            return before, done.get(timeout=SECONDS)
    finally:
        call.process.terminate()
        call.process.wait()


RUNS: dict[str, tuple[ControlExporter, Callable[[Given], Readings]]] = {
    "Chromium": (PERMISSIONS_POLICY, headers),
    "Chromium with policies": (POLICIES_OF_CHROMIUM, managed),
    "Firefox": (POLICIES, targets),
    "Firefox, other controls": (POLICIES, other_targets),
    "uBlock Origin in Firefox": (UBLOCK, ublock),
    "uBlock Origin: its scriptlets in Chromium": (UBLOCK, ublock_scriptlets),
    "AdGuard": (ADGUARD, adguard),
    "DuckDuckGo in Chromium": (DUCKDUCKGO, duckduckgo),
    "JShelter in Chromium": (JSHELTER, jshelter_in_chromium),
    "JShelter in Firefox": (JSHELTER, jshelter_in_firefox),
}


def main() -> None:
    """Read, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=RUNS)
    parser.add_argument("--product", type=Path, default=Path())
    parser.add_argument("--modules", type=Path, default=Path())
    parser.add_argument("--version", help="of the product, for the table")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    exporter, read = RUNS[options.name]
    with tempfile.TemporaryDirectory() as folder:
        given = Given(folder=Path(folder), product=options.product, modules=options.modules)
        before, after = read(given)
    found, known = tried(before, after, exporter.families), recorded(options.name)
    for api in sorted(found.keys() | known.keys()):
        if found.get(api) != known.get(api):
            print(f"{api}\n    table {known.get(api)}\n    found {found.get(api)}")
    held = sum("open" not in entry for entry in found.values())
    print(f"{options.name}: {len(found)} APIs, {held} held every way")
    if options.write:
        record(options.name, options.version, str(datetime.now(UTC).date()), found)


if __name__ == "__main__":
    main()
