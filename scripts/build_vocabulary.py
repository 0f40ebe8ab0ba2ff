"""Build `apis.json` from `apis.toml` and two npm packages; for developers, needs Node.js.

    npm install --prefix DIR @mdn/browser-compat-data@8 @webref/idl@3 webidl2
    python scripts/build_vocabulary.py DIR/node_modules

@mdn/browser-compat-data (CC0) says which APIs browsers have, @webref/idl (MIT) which of them are
attributes and which are methods. A name that neither knows is kept and marked `standard: false`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

VOCABULARY = Path(__file__).parents[1] / "fpmonitor" / "vocabulary"
GROUPS = ("hardware", "software", "locale", "preference", "network")
# Methods that WebIDL writes as `maplike` and `setlike`.
_OF_MAPS = frozenset({"entries", "forEach", "get", "has", "keys", "values"})
_READ_IDL = """
import { parse } from "webidl2";
import { readdirSync, readFileSync } from "node:fs";
const folder = process.argv[1] + "/@webref/idl/";
const members = {}, mixed = [];
for (const file of readdirSync(folder).filter((name) => name.endsWith(".idl")))
  for (const part of parse(readFileSync(folder + file, "utf8"))) {
    if (part.type === "includes") mixed.push([part.target, part.includes]);
    for (const member of part.members ?? [])
      if (member.name) (members[part.name] ??= {})[member.name] = member.type;
  }
for (const [target, mixin] of mixed) members[target] = { ...members[mixin], ...members[target] };
console.log(JSON.stringify(members));
"""


def build(node_modules: Path) -> dict[str, Any]:
    """Vocabulary as `apis.json` holds it.

    Args:
        node_modules: Folder in which npm has installed the packages.
    """
    source = tomllib.loads((VOCABULARY / "apis.toml").read_text(encoding="utf-8"))
    compat = _package(node_modules, "@mdn/browser-compat-data/data.json")
    idl = _idl_members(node_modules)
    apis = {
        f"{namespace}{':' if namespace in {'http', 'css', 'transport'} else '.'}{member}": {
            **_kind(namespace, member.partition("#")[0], compat, idl),
            "group": group,
        }
        for group in GROUPS
        for namespace, members in source[group].items()
        for member in members
    }
    for api in source["methods"]:
        apis[api]["kind"] = "method"
    randomised: dict[str, dict[str, Any]] = {}
    for entry in source["randomised"]:
        for api in entry["apis"]:
            known = {name: entry[name] for name in ("since", "until", "source") if name in entry}
            randomised.setdefault(api, {})[entry["browser"]] = known
    return {
        "made_from": {
            "@mdn/browser-compat-data": compat["__meta"]["version"],
            "@webref/idl": _package(node_modules, "@webref/idl/package.json")["version"],
        },
        "apis": dict(sorted(apis.items())),
        "randomised": dict(sorted(randomised.items())),
        **{
            table: source[table]
            for table in ("information", "words", "objects", "inherited", "columns", "aliases")
        },
    }


def _package(node_modules: Path, path: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((node_modules / path).read_text(encoding="utf-8"))
    return content


def _idl_members(node_modules: Path) -> dict[str, dict[str, str]]:
    node = shutil.which("node") or "node"
    command = [node, "--input-type=module", "-e", _READ_IDL, str(node_modules.resolve())]
    done = subprocess.run(command, cwd=node_modules, capture_output=True, text=True, check=True)
    members: dict[str, dict[str, str]] = json.loads(done.stdout)
    return members


def _kind(
    namespace: str, member: str, compat: dict[str, Any], idl: dict[str, dict[str, str]]
) -> dict[str, Any]:
    if namespace == "http":
        headers = {name.lower() for name in compat["http"]["headers"]}
        return {"kind": "header", "standard": member in headers}
    if namespace == "css":
        return {"kind": "media", "standard": member in compat["css"]["at-rules"]["media"]}
    if namespace == "transport":
        return {"kind": "connection", "standard": False}
    builtin = compat["javascript"]["builtins"]
    for part in namespace.split("."):
        builtin = builtin.get(part, {})
    known = member in compat["api"].get(namespace, {}) or member in builtin
    kind = idl.get(namespace, {}).get(member)
    is_method = kind == "operation" or (kind is None and (member in builtin or member in _OF_MAPS))
    return {"kind": "method" if is_method else "attribute", "standard": known or kind is not None}


if __name__ == "__main__":
    text = json.dumps(build(Path(sys.argv[1])), indent=1, ensure_ascii=False) + "\n"
    (VOCABULARY / "apis.json").write_text(text, encoding="utf-8")
