"""Filter lists, read by the parsers of uBlock Origin and AdGuard.

They need Node.js and, in the folder that FPMONITOR_NODE_MODULES names, the npm packages
@gorhill/ubo-core and @adguard/agtree.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fpmonitor.export.controls import controls_of
from fpmonitor.export.enforce import ControlExporter, ListSpec
from fpmonitor.export.exporter import ExportOptions
from fpmonitor.export.filters import ADGUARD, UBLOCK
from fpmonitor.render.script_lists import script_rule

NODE = shutil.which("node")
MODULES = os.environ.get("FPMONITOR_NODE_MODULES", "")
pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(
        not (NODE and MODULES), reason="needs Node.js and FPMONITOR_NODE_MODULES, see the module"
    ),
]

UBLOCK_PARSER = """
import { AstFilterParser } from "@gorhill/ubo-core/js/static-filtering-parser.js";
const parser = new AstFilterParser({ interactive: true });
const told = (line) => {
  parser.parse(line);
  return {
    error: parser.hasError(),
    comment: parser.isComment(),
    scriptlet: parser.isScriptletFilter() ? parser.getScriptletArgs() : null,
    network: parser.isNetworkFilter(),
  };
};
"""
ADGUARD_PARSER = """
import {
  FilterListParser, GenericPlatform, RuleParser, modifierValidator, scriptletsCompatibilityTable,
} from "@adguard/agtree";
const told = (line) => {
  const rule = RuleParser.parse(line);
  const scriptlet = rule.body?.children?.[0]?.children?.map((argument) => argument.value) ?? null;
  const name = scriptlet?.[0].slice(1, -1);
  return {
    category: rule.category,
    type: rule.type,
    scriptlet,
    known: Boolean(name && scriptletsCompatibilityTable.getFirst(name, GenericPlatform.AdgAny)),
    modifiers: rule.modifiers?.children.map((modifier) => modifier.name.value) ?? [],
  };
};
"""
READER = """
import { readFileSync } from "node:fs";
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf-8")).map(told)));
"""


def told(folder: Path, parser: str, lines: list[str]) -> list[dict[str, Any]]:
    """What a parser says of each line."""
    (folder / "node_modules").symlink_to(Path(MODULES).resolve())
    (folder / "read.mjs").write_text(parser + READER, encoding="utf-8")
    assert NODE is not None
    done = subprocess.run(
        [NODE, "read.mjs"],
        cwd=folder,
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def rules_of(exporter: ControlExporter, site: str | None) -> list[str]:
    """Every rule that the exporter can write."""
    order = ListSpec(
        controls=controls_of(exporter.families),
        allowed=(),
        decided=(),
        comments=("fpmonitor block list",),
        options=ExportOptions(site=site),
    )
    return exporter.write(order).splitlines()


@pytest.mark.parametrize("site", [None, "example.com"])
def test_ublock_parses_every_rule_that_we_write(tmp_path: Path, site: str | None) -> None:
    rules = rules_of(UBLOCK, site)
    answers = told(tmp_path, UBLOCK_PARSER, [*rules, "*##+js(set, x", "*$removeheader=request:a"])
    assert [answer["error"] for answer in answers] == [False] * len(rules) + [True, True]
    calls = [answer["scriptlet"] for answer in answers[:-2] if answer["scriptlet"]]
    names = [
        rule for control in controls_of(["scriptlet"]) for rule in (control.name, *control.also)
    ]
    assert calls == [name.replace("''", "").split(", ") for name in names]
    kinds = [(answer["comment"], answer["network"]) for answer in answers[:-2]]
    assert kinds[0] == (True, False)
    assert kinds[-1] == (False, True)


def test_both_parse_rules_for_scripts_and_hosts(tmp_path: Path) -> None:
    rules = [
        script_rule(name) for name in ("t.example", "cdn.t.example/a/fp-2.min.js", "x.y/@v1:~")
    ]
    ublock, adguard = (
        told(folder, parser, rules)
        for folder, parser in ((tmp_path / "u", UBLOCK_PARSER), (tmp_path / "a", ADGUARD_PARSER))
        if not folder.mkdir()
    )
    assert [(answer["error"], answer["network"]) for answer in ublock] == [(False, True)] * 3
    assert [answer["modifiers"] for answer in adguard] == [["script", "third-party"]] * 3


@pytest.mark.parametrize("site", [None, "example.com"])
def test_adguard_parses_every_rule_and_knows_its_scriptlets(
    tmp_path: Path, site: str | None
) -> None:
    rules = rules_of(ADGUARD, site)
    answers = told(tmp_path, ADGUARD_PARSER, [*rules, "#%#//scriptlet('no-such', 'a')"])
    assert answers[0]["category"] == "Comment"
    assert answers[-1]["known"] is False
    scriptlets = [answer for answer in answers[1:-1] if answer["scriptlet"]]
    assert len(scriptlets) == sum(1 + len(control.also) for control in controls_of(["scriptlet"]))
    assert all(answer["known"] for answer in scriptlets)
    assert all(answer["type"] == "ScriptletInjectionRule" for answer in scriptlets)
    network = [answer for answer in answers[1:-1] if answer["category"] == "Network"]
    assert [answer["modifiers"] for answer in network] == [["removeheader"]] * 5
