"""What a push leaves out, another test guards, which a push does not leave out."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
LEFT_OUT = {"long", "spark", "warehouse"}


@cache
def marked_tests(path: Path) -> dict[str, tuple[set[str], str]]:
    """Each test of a file: its marks, and the guard that a mark `long` names by its beginning."""
    found = {}
    for one in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(one, ast.FunctionDef) and one.name.startswith("test_"):
            marks, guard = set(), ""
            for mark in one.decorator_list:
                call = mark if isinstance(mark, ast.Call) else None
                marks.add(ast.unparse(call.func if call else mark).rpartition(".")[2])
                for word in call.keywords if call else ():
                    guard = ast.literal_eval(word.value) if word.arg == "guard" else guard
            found[one.name] = (marks, guard)
    return found


def test_each_guard_is_a_test_that_a_push_runs() -> None:
    guards = 0
    for path in TESTS.glob("*/test_*.py"):
        for name, (_, guard) in marked_tests(path).items():
            if guard:
                file, _, test = guard.rpartition("::")
                there = marked_tests(TESTS / file if file else path)
                [marks] = [marks for one, (marks, _) in there.items() if one.startswith(test)]
                assert not marks & LEFT_OUT, f"{path.name}: {name} is guarded by {guard}"
                guards += 1
    assert guards
