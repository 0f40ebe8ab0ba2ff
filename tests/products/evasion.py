"""What a page still reads beside a list, by every way that a browser has.

The table `fpmonitor/export/evasion.json` holds what was found. `record` writes an entry anew.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fpmonitor.export import controls
from fpmonitor.export.controls import HIDING, controls_of
from fpmonitor.export.enforce import ListSpec
from fpmonitor.export.exporter import ExportOptions
from fpmonitor.export.filters import ADGUARD

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fpmonitor.export.enforce import ControlExporter
    from tests.products.browsers import Headers, Reading

TABLE = Path(controls.__file__).with_name("evasion.json")
WAYS = (
    "window", "getter", "iframe", "later-iframe", "data-frame", "popup", "worker", "nested-worker",
    "shared-worker", "service-worker", "offscreen", "transfer", "alias", "css", "subresource",
    "navigation",
)  # fmt: skip
# Controls of Firefox that others which hide the same APIs are tried without.
WEAKER = {
    "CanvasExtractionBeforeUserInputIsBlocked", "CanvasImageExtractionPrompt",
    "EfficientCanvasRandomization", "MaxTouchPointsCollapse", "NavigatorHWConcurrencyTiered",
    "WebGLVendorRandomize", "WebGLVendorSanitize", "dom.gamepad.enabled", "dom.webaudio.enabled",
    "webgl.disabled",
}  # fmt: skip
_SCRIPTLETS = """
import { scriptlets } from "@adguard/scriptlets";
import { readFileSync } from "node:fs";
for (const [name, ...args] of JSON.parse(readFileSync(0, "utf-8"))) {
  const source = JSON.stringify({ name, args, engine: "extension", version: "1", verbose: false });
  console.log(`(${scriptlets.getScriptletFunction(name)})(${source}, ${JSON.stringify(args)});`);
}
"""


def tried(before: Reading, after: Reading, families: Iterable[str]) -> dict[str, dict[str, str]]:
    """API that a control should hide -> the ways that were tried, and those that are open.

    An API that the page itself reads as before may have had the value of the control already:
    nothing is said about it.
    """
    every = controls_of(families)
    found = {}
    for api in sorted(before):
        if not {control.effect_on(api) for control in every} & {*HIDING, "evaded"}:
            continue
        ways = [way for way in WAYS if way in before[api]]
        is_open = [way for way in ways if after.get(api, {}).get(way) == before[api][way]]
        if ways[0] not in is_open:
            found[api] = {"tried": " ".join(ways)}
            if is_open:
                found[api]["open"] = " ".join(is_open)
    return found


def recorded(product: str) -> dict[str, dict[str, str]]:
    """Return the entry of the product in the table."""
    content = json.loads(TABLE.read_text(encoding="utf-8"))
    [run] = [run for run in content["runs"] if run["name"] == product]
    apis: dict[str, dict[str, str]] = run["apis"]
    return apis


def record(product: str, version: str, date: str, found: dict[str, dict[str, str]]) -> None:
    """Write what was found into the table, beside what was found earlier in the same version.

    Whether a script comes too late for a frame differs from run to run.
    """
    content = json.loads(TABLE.read_text(encoding="utf-8"))
    [run] = [run for run in content["runs"] if run["name"] == product]
    known = run["apis"] if run["version"] == version else {}
    apis = {
        api: _united(known.get(api, {}), found.get(api, {}))
        for api in sorted(known.keys() | found.keys())
    }
    run |= {"version": version, "date": date, "apis": apis}
    TABLE.write_text(laid_out(content), encoding="utf-8")


def _united(one: dict[str, str], other: dict[str, str]) -> dict[str, str]:
    ways = {
        key: {*one.get(key, "").split(), *other.get(key, "").split()} for key in ("tried", "open")
    }
    return {key: " ".join(way for way in WAYS if way in ways[key]) for key in ways if ways[key]}


def laid_out(content: dict[str, Any]) -> str:
    """Return the table as JSON, one line an API."""
    text = json.dumps(content, indent=1)
    return re.sub(r'\{\s+("tried".*?")\s+\}', _on_one_line, text, flags=re.DOTALL) + "\n"


def _on_one_line(found: re.Match[str]) -> str:
    return "{" + re.sub(r"\s*\n\s*", " ", found[1]) + "}"


def everything(exporter: ControlExporter, *, weaker: bool = False) -> str:
    """Return a list of all controls that a product can be told to use at once, or of the others."""
    chosen = [c for c in controls_of(exporter.families) if (c.name in WEAKER) == weaker]
    return exporter.write(
        ListSpec(
            controls=tuple(chosen),
            allowed=(),
            decided=tuple({api for control in chosen for api in control.effects}),
            comments=("all",),
            options=ExportOptions(),
        )
    )


def headers_of(text: str) -> Headers:
    """Headers of an exported list."""
    return tuple(
        (name, value) for name, value in (line.split(": ", 1) for line in text.splitlines())
    )


def adguard_extension(folder: Path, modules: Path) -> Path:
    """Make an extension that runs AdGuard's scriptlets on 127.0.0.1, with values nobody has."""
    rules = [line for line in everything(ADGUARD).splitlines() if "scriptlet(" in line]
    calls = [unlikely(re.findall(r"'((?:[^'\\\\]|\\\\.)*)'", rule)) for rule in rules]
    folder.mkdir()
    (folder / "node_modules").symlink_to(modules.resolve())
    text = node(_SCRIPTLETS, calls, folder)
    (folder / "node_modules").unlink()
    return extension_of(folder, text)


def node(program: str, given: object, folder: Path) -> str:
    """Return what a program for Node.js makes of JSON, run in a folder."""
    command = shutil.which("node")
    assert command is not None
    script = folder / "fpmonitor.mjs"
    script.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [command, script.name], cwd=folder, input=json.dumps(given), capture_output=True,
        text=True, check=True, timeout=120,
    )  # fmt: skip
    script.unlink()
    return done.stdout


def extension_of(folder: Path, text: str) -> Path:
    """Make an extension of Chromium that runs a script before all else in pages on 127.0.0.1."""
    (folder / "script.js").write_text(text, encoding="utf-8")
    script: dict[str, Any] = {
        "matches": ["http://127.0.0.1/*"],
        "js": ["script.js"],
        "run_at": "document_start",
        "all_frames": True,
        "match_about_blank": True,
        "match_origin_as_fallback": True,
        "world": "MAIN",
    }
    manifest = {
        "manifest_version": 3, "name": "script", "version": "1", "content_scripts": [script],
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder


def unlikely(call: list[str]) -> list[str]:
    """Turn constants into some that no browser returns: a scriptlet sets any of them alike."""
    others = {"trueFunc": "falseFunc"} | ({"emptyArr": "emptyObj"} if "asFunction" in call else {})
    return ["77" if part.isdecimal() else others.get(part, part) for part in call]


def rows() -> list[str]:
    """Return a line of Markdown for each entry of the table, as the documentation shows it."""
    lines = []
    for run in json.loads(TABLE.read_text(encoding="utf-8"))["runs"]:
        found = run["apis"].values()
        ways = [way for way in WAYS if any(way in entry.get("open", "").split() for entry in found)]
        held = sum("open" not in entry for entry in found)
        words = [run["name"], run["version"], run["date"], len(found), held, ", ".join(ways) or "–"]
        lines.append(f"| {' | '.join(map(str, words))} |")
    return lines
