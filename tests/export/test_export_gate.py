"""The gate in JavaScript gives the answers of the gate in Python."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.errors import UnknownNameError
from fpmonitor.export.exporter import ExportOptions
from fpmonitor.export.gate_js import GATE_JS
from tests.decided import decided

if TYPE_CHECKING:
    from pathlib import Path

    from fpmonitor.decide.decision import Decision

NODE = shutil.which("node")
NAMES = ["Navigator.userAgent", "Screen.width", "a", 'quo"te', "</script>", "ü\u2028", "𝔘.b", "zz"]
# Answers, for each line of input [decision, have, want], what the module says with it.
DRIVER = """
import { gate } from "./gate.mjs";
import { readFileSync } from "node:fs";
const cases = JSON.parse(readFileSync(0, "utf-8"));
const answer = ([decision, have, want]) => {
  try { return gate(have, want, decision); } catch (error) { return error.name; }
};
console.log(JSON.stringify(cases.map(answer)));
"""

needs_node = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")


def decision_of(
    allow: list[list[str]], block: list[list[str]], undecided: list[list[str]]
) -> Decision:
    return decided(NAMES, allow=allow, block=block, undecided=undecided)


@needs_node
def test_the_module_takes_either_name_as_the_gate_does(tmp_path: Path) -> None:
    decision = replace(
        decision_of([["a"]], [["Screen.width", "zz"]], []),
        names={"a": "Navigator.language", "zz": "Navigator.platform", "𝔘.b": "Navigator.platform"},
    )
    wanted = [["Navigator.language"], ["Navigator.platform", "Screen.width"], ["nothing"]]
    module = GATE_JS.export(decision, ExportOptions()).text
    cases = [[decision.to_json(), [], want] for want in wanted]
    expected = [answer_in_python(decision, [], want) for want in wanted]
    assert answers_in_javascript(tmp_path, module, cases) == expected


def answer_in_python(decision: Decision, have: list[str], want: list[str]) -> Any:
    try:
        verdict, because = decision.verdict([*have, *want])
    except UnknownNameError:
        return "RangeError"
    return {"verdict": verdict, "because": list(because)}


def answers_in_javascript(folder: Path, module: str, cases: list[Any]) -> Any:
    (folder / "gate.mjs").write_text(module, encoding="utf-8")
    (folder / "driver.mjs").write_text(DRIVER, encoding="utf-8")
    assert NODE is not None
    done = subprocess.run(
        [NODE, "driver.mjs"],
        cwd=folder,
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout)


SETS = st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True), max_size=4)
ASKED = st.lists(st.sampled_from([*NAMES, "nobody knows it"]), max_size=4)
CASES = st.tuples(st.builds(decision_of, SETS, SETS, SETS), ASKED, ASKED)


@needs_node
@settings(deadline=None, max_examples=5)
@given(cases=st.lists(CASES, min_size=40, max_size=80))
def test_javascript_and_python_answer_alike(
    tmp_path_factory: pytest.TempPathFactory, cases: list[tuple[Decision, list[str], list[str]]]
) -> None:
    module = GATE_JS.export(cases[0][0], ExportOptions()).text
    given_cases = [[decision.to_json(), have, want] for decision, have, want in cases]
    answers = answers_in_javascript(tmp_path_factory.mktemp("gate"), module, given_cases)
    assert answers == [answer_in_python(*case) for case in cases]


@needs_node
def test_the_module_answers_from_the_decision_that_it_was_written_from(tmp_path: Path) -> None:
    decision = decision_of([["a", "zz"]], [["Screen.width"]], [["</script>"]])
    module = GATE_JS.export(decision, ExportOptions()).text
    asked = [["a"], ["a", "zz"], ["a", "Screen.width"], ["</script>"], [], ["who"], ["ü\u2028"]]
    driver = DRIVER.replace("[decision, have, want]", "have").replace(
        "have, want, decision", "have, []"
    )
    (tmp_path / "gate.mjs").write_text(module, encoding="utf-8")
    (tmp_path / "driver.mjs").write_text(driver, encoding="utf-8")
    assert NODE is not None
    done = subprocess.run(
        [NODE, "driver.mjs"], cwd=tmp_path, input=json.dumps(asked), capture_output=True,
        text=True, check=True, timeout=60,
    )  # fmt: skip
    assert json.loads(done.stdout) == [answer_in_python(decision, apis, []) for apis in asked]


def test_the_code_of_the_gate_is_small_and_needs_nothing() -> None:
    code = (resources.files("fpmonitor.export") / "gate.js").read_text(encoding="utf-8")
    assert len(code.encode()) <= 2048
    assert "import" not in code
    assert "require(" not in code


def test_lists_in_the_module_cannot_end_a_script_element() -> None:
    module = GATE_JS.export(decision_of([["</script>"]], [], []), ExportOptions()).text
    assert "</script" not in module
    assert module.isascii()
    assert GATE_JS.validate(module) == []
    assert GATE_JS.validate(module.replace("block", "blok", 1))
