"""List what browsers let pages read and the vocabulary lacks; for developers, needs npm.

    python scripts/vocabulary.py                 # all that `vocabulary.toml` does not judge
    python scripts/vocabulary.py --new           # what has come since the vocabulary was built
    python scripts/vocabulary.py --packages DIR  # of packages in DIR/node_modules

It compares with `@webref/idl` (readonly attributes and methods) and `@mdn/browser-compat-data`
(those that a browser ships), which it fetches into a temporary folder and does not keep. With
`--new`, judgements are not asked: what is new has not been judged. Exit code 1: something is
lacking.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
VOCABULARY = ROOT / "fpmonitor" / "vocabulary" / "apis.json"
JUDGED = Path(__file__).with_suffix(".toml")
PACKAGES = ("@mdn/browser-compat-data", "@webref/idl")
PARSER = "webidl2"
_READ_IDL = """
import { parse } from "webidl2";
import { readdirSync, readFileSync } from "node:fs";
const folder = process.argv[1] + "/@webref/idl/";
const members = {}, mixed = [];
for (const file of readdirSync(folder).filter((name) => name.endsWith(".idl")))
  for (const part of parse(readFileSync(folder + file, "utf8"))) {
    if (part.type === "includes") mixed.push([part.target, part.includes]);
    if (!/^(interface|interface mixin|namespace)$/.test(part.type)) continue;
    for (const { name, type, readonly, special } of part.members)
      if (name && (type === "attribute" ? readonly : type === "operation" && special !== "setter"))
        (members[part.name] ??= new Set()).add(name);
  }
for (const [target, mixin] of mixed)
  for (const name of members[mixin] ?? []) (members[target] ??= new Set()).add(name);
for (const [, mixin] of mixed) delete members[mixin];
console.log(JSON.stringify(members, (_, value) => (value instanceof Set ? [...value] : value)));
"""


def fetched(versions: dict[str, str], folder: Path) -> Path:
    """Install the packages into a folder; return its `node_modules`."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [f"{name}@{version}" for name, version in versions.items()]
    npm = shutil.which("npm") or "npm"
    command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
    subprocess.run([*command, "--prefix", str(folder), *wanted, PARSER], check=True)
    return folder / "node_modules"


def readable(packages: Path) -> set[str]:
    """Names of what pages can read, `Interface.member`."""
    node = shutil.which("node") or "node"
    command = [node, "--input-type=module", "-e", _READ_IDL, str(packages.resolve())]
    done = subprocess.run(command, cwd=packages, capture_output=True, text=True, check=True)
    interfaces: dict[str, list[str]] = json.loads(done.stdout)
    found = {f"{name}.{member}" for name, members in interfaces.items() for member in members}
    text = (packages / "@mdn/browser-compat-data/data.json").read_text(encoding="utf-8")
    compat: dict[str, Any] = json.loads(text)
    for name, members in compat["api"].items():
        found |= {f"{name}.{member}" for member in _shipped(members)}
    builtins = compat["javascript"]["builtins"]
    for name in ("Date", "Intl", "Math", "Temporal"):
        found |= {f"{name}.{member}" for member in _shipped(builtins[name])}
        for inner in _shipped(builtins[name]):
            members = _shipped(builtins[name][inner])
            found |= {f"{name}.{inner}.{member}" for member in members}
    return {name for name in found if not _says_nothing(name)}


def _shipped(members: dict[str, Any]) -> list[str]:
    """Members that a browser has ever shipped."""
    return [
        name
        for name, entry in members.items()
        if name.isidentifier()
        and "_" not in name  # events, parameters, notes on support
        and any(
            version["version_added"]
            for versions in entry.get("__compat", {}).get("support", {}).values()
            for version in (versions if isinstance(versions, list) else [versions])
        )
    ]


def _says_nothing(name: str) -> bool:
    """Whether a name is a handler, a constructor, or a part of WebIDL that no page reads."""
    interface, _, member = name.rpartition(".")
    own = interface.rpartition(".")[2]
    return member in {own, "toJSON", "toString"} or member.startswith("on")


def lacking(packages: Path) -> set[str]:
    """Names that the vocabulary lacks."""
    known = {name.partition("#")[0] for name in json.loads(VOCABULARY.read_text("utf-8"))["apis"]}
    return readable(packages) - known


def judged(names: set[str], packages: Path) -> set[str]:
    """Those of some names that are left out for a reason, or that no browser has shipped."""
    rules = tomllib.loads(JUDGED.read_text("utf-8"))
    watched = set(rules.pop("watched"))
    text = (packages / "@mdn/browser-compat-data/data.json").read_text(encoding="utf-8")
    compat: dict[str, Any] = json.loads(text)["api"]
    patterns = [pattern for rule in rules.values() for pattern in rule["names"]]
    exact = {pattern for pattern in patterns if "*" not in pattern}
    wide = sorted(set(patterns) - exact)
    found = names & exact
    for name in names - exact:
        interface, _, member = name.rpartition(".")
        is_built_in = "." in interface or interface in {"Date", "Intl", "Math"}
        is_shipped = is_built_in or member in _shipped(compat.get(interface, {}))
        is_judged = interface not in watched and any(fnmatchcase(name, one) for one in wide)
        if is_judged or not is_shipped:
            found.add(name)
    return found


def main() -> int:
    """Print what is lacking, an interface a line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--new", action="store_true", help="only what came since the last build")
    parser.add_argument("--packages", type=Path, help="folder with node_modules; by default, fetch")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        newest = (
            options.packages / "node_modules"
            if options.packages
            else fetched(dict.fromkeys(PACKAGES, "latest"), Path(scratch) / "newest")
        )
        missing = lacking(newest)
        if options.new:
            built = json.loads(VOCABULARY.read_text("utf-8"))["made_from"]
            missing -= readable(fetched(built, Path(scratch) / "built"))
        else:
            missing -= judged(missing, newest)
    lines = defaultdict(list)
    for name in sorted(missing):
        interface, _, member = name.rpartition(".")
        lines[interface].append(member)
    for interface, members in lines.items():
        print(f"{interface}: {', '.join(members)}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
