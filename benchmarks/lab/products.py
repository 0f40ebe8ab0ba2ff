"""Products that carry out lists, each list on a host of its own or while a page of it is read."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from fpmonitor.export.chromium import CHROMIUM as CHROMIUM_POLICIES
from fpmonitor.export.controls import controls_of
from fpmonitor.export.enforce import ListSpec
from fpmonitor.export.exporter import ExportOptions
from fpmonitor.export.filters import ADGUARD, UBLOCK
from fpmonitor.export.firefox import USERJS, preferences
from fpmonitor.export.permissions_policy import PERMISSIONS_POLICY
from fpmonitor.export.webextension import WEBEXTENSION
from fpmonitor.vocabulary import known_apis

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from benchmarks.lab.site import Headers
    from fpmonitor.export.controls import Control
    from fpmonitor.export.enforce import ControlExporter

How = Literal["headers", "scriptlets", "extension", "filters", "preferences", "policies"]
Lists = dict[str, tuple["Control", ...]]  # host -> controls
READY = "compiled.localhost"  # where a list of its own says that lists are compiled
UBLOCK_ID = "uBlock0@raymondhill.net"
_SCRIPTLETS = """
import { scriptlets } from "@adguard/scriptlets";
import { readFileSync } from "node:fs";
const found = {};
for (const [host, calls] of Object.entries(JSON.parse(readFileSync(0, "utf-8"))))
  found[host] = calls.map(([name, ...args]) => {
    const source = { name, args, engine: "extension", version: "1", verbose: false };
    const given = `${JSON.stringify(source)}, ${JSON.stringify(args)}`;
    return `(${scriptlets.getScriptletFunction(name)})(${given});`;
  }).join("\\n");
console.log(JSON.stringify(found));
"""


@dataclass(frozen=True, kw_only=True)
class Product:
    """A product in a browser.

    Attributes
    ----------
    name, exporter, browser
        What is measured, the exporters that write its lists, and where it runs.
    how
        By what means a list comes into force.
    """

    name: str
    exporter: ControlExporter
    exporters: tuple[str, ...]
    browser: Literal["chromium", "firefox"]
    how: How

    @property
    def controls(self) -> tuple[Control, ...]:
        """The controls that the laboratory can put in force."""
        every = controls_of(self.exporter.families)
        if self.how in {"scriptlets", "filters"}:  # header rules need the whole blocker
            return tuple(control for control in every if control.family == "scriptlet")
        return every

    def text(self, controls: Sequence[Control], site: str | None = None) -> str:
        """Write a list of controls."""
        return self.exporter.write(spec_of(self.exporter, controls, site))


PRODUCTS = (
    Product(
        name="Permissions-Policy", exporter=PERMISSIONS_POLICY, exporters=("permissions-policy",),
        browser="chromium", how="headers",
    ),
    Product(
        name="policies of Chromium", exporter=CHROMIUM_POLICIES, exporters=("chromium-policies",),
        browser="chromium", how="policies",
    ),
    Product(
        name="AdGuard's scriptlets", exporter=ADGUARD, exporters=("adguard",),
        browser="chromium", how="scriptlets",
    ),
    Product(
        name="web extension in Chromium", exporter=WEBEXTENSION, exporters=("webextension",),
        browser="chromium", how="extension",
    ),
    Product(
        name="Firefox's preferences", exporter=USERJS,
        exporters=("firefox-userjs", "firefox-policies"), browser="firefox", how="preferences",
    ),
    Product(
        name="uBlock Origin", exporter=UBLOCK, exporters=("ublock",),
        browser="firefox", how="filters",
    ),
    Product(
        name="web extension in Firefox", exporter=WEBEXTENSION, exporters=("webextension",),
        browser="firefox", how="extension",
    ),
)  # fmt: skip


def spec_of(exporter: ControlExporter, controls: Sequence[Control], site: str | None) -> ListSpec:
    """Return what a list of controls is written from: all is decided, nothing is exposed."""
    options = ExportOptions(site=site, replace_protection=bool(exporter.own_protection))
    return ListSpec(
        controls=tuple(controls),
        allowed=(),
        decided=tuple(known_apis()),
        comments=("laboratory",),
        options=options,
    )


def headers_of(text: str) -> Headers:
    """Return the headers of an exported list."""
    return tuple((n, v) for n, v in (line.split(": ", 1) for line in text.splitlines()))


def preferences_of(controls: Sequence[Control]) -> dict[str, Any]:
    """Return the preferences of an exported list, without Firefox's own protection."""
    return preferences(spec_of(USERJS, controls, None))


def scriptlet_extension(folder: Path, product: Product, lists: Lists, modules: Path) -> Path:
    """Make an extension that runs a list of scriptlets on each host before its page."""
    calls = {}
    for host, controls in lists.items():
        rules = [line for line in product.text(controls).splitlines() if "scriptlet(" in line]
        calls[host] = [re.findall(r"'((?:[^'\\]|\\.)*)'", rule) for rule in rules]
    folder.mkdir()
    (folder / "node_modules").symlink_to(modules.resolve())
    (folder / "lab.mjs").write_text(_SCRIPTLETS, encoding="utf-8")
    done = subprocess.run(
        ["node", "lab.mjs"], cwd=folder, input=json.dumps(calls), capture_output=True, text=True,
        check=True, timeout=120,
    )  # fmt: skip
    (folder / "node_modules").unlink()
    texts: dict[str, str] = json.loads(done.stdout)
    entries = [_entry(f"*://{host}/*", f"{host}.js") for host in texts]
    return _extension(folder, entries, {f"{host}.js": text for host, text in texts.items()}, [])


def merged_extension(folder: Path, product: Product, lists: Lists) -> Path:
    """Make one extension of those that are exported for each host."""
    entries, texts, rules = [], {}, []
    for host, controls in lists.items():
        files = json.loads(product.text(controls, host))
        texts[f"{host}.js"] = files["page.js"]
        entries.append(_entry(f"*://{host}/*", f"{host}.js"))
        rules += json.loads(files["rules.json"])
    folder.mkdir()
    numbered = [rule | {"id": number} for number, rule in enumerate(rules, start=1)]
    return _extension(folder, entries, texts, numbered)


def ublock_policies(product: Product, lists: Lists) -> str:
    """Return policies of Firefox that give uBlock Origin a list for each host."""
    rules = [
        rule
        for host, controls in lists.items()
        for rule in product.text(controls, host).splitlines()
        if "##" in rule
    ]
    rules.append(f"{READY}##+js(set-constant, {READY.partition('.')[0]}, true)")
    chosen = {"filters": rules, "filterLists": ["user-filters"]}
    settings = {UBLOCK_ID: {"toOverwrite": chosen}}
    return json.dumps({"policies": {"3rdparty": {"Extensions": settings}}})


def version_of_adguard(modules: Path) -> str:
    """Return the version of AdGuard's scriptlets."""
    text = (modules / "@adguard" / "scriptlets" / "package.json").read_text(encoding="utf-8")
    return str(json.loads(text)["version"])


def _entry(matches: str, script: str) -> dict[str, Any]:
    return {
        "matches": [matches], "js": [script], "run_at": "document_start", "all_frames": True,
        "match_origin_as_fallback": True, "world": "MAIN",
    }  # fmt: skip


def _extension(
    folder: Path,
    entries: Sequence[Mapping[str, Any]],
    texts: Mapping[str, str],
    rules: Sequence[Any],
) -> Path:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "rules.json").write_text(json.dumps(rules), encoding="utf-8")
    manifest = {
        "manifest_version": 3, "name": "lab", "version": "1",
        "browser_specific_settings": {"gecko": {"id": "lab@lab.invalid"}},
        "permissions": ["declarativeNetRequest"], "host_permissions": ["<all_urls>"],
        "content_scripts": list(entries),
        "declarative_net_request": {
            "rule_resources": [{"id": "headers", "enabled": True, "path": "rules.json"}]
        },
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder
