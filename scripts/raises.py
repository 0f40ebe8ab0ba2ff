"""Finds docstrings whose `Raises` section repeats what is raised below; `--mend` takes it out.

A function says which errors it raises itself. What a function that it calls raises stands there.
Contracts (protocols, methods that are a docstring alone) say what others must raise, and stay.

    python scripts/raises.py fpmonitor/store fpmonitor/population
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SECTION = re.compile(r"\n *\n( *)Raises:(?:\n\1 {4}.*)+")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def repeating(tree: ast.AST) -> Iterator[ast.Constant]:
    """Docstrings with a section on errors, of functions that raise none."""
    for node in ast.walk(tree):
        if not isinstance(node, Function) or len(node.body) == 1:
            continue
        first = node.body[0]
        if (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Constant)
            and isinstance(first.value.value, str)
            and SECTION.search(first.value.value)
            and not any(isinstance(below, ast.Raise) for below in ast.walk(node))
        ):
            yield first.value


def mended(text: str) -> str:
    """Text of a module without these sections."""
    lines = text.split("\n")
    for said in sorted(repeating(ast.parse(text)), key=lambda said: -said.lineno):
        start, end = said.lineno - 1, said.end_lineno or said.lineno
        whole = SECTION.sub("", "\n".join(lines[start:end]), count=1)
        if re.fullmatch(r' *r?"""[^\n]*\n *"""', whole):  # one line is left
            whole = re.sub(r'\n *"""$', '"""', whole)
        lines[start:end] = whole.split("\n")
    return "\n".join(lines)


def main() -> None:
    mend = "--mend" in sys.argv
    for folder in [argument for argument in sys.argv[1:] if argument != "--mend"]:
        root = Path(folder)
        for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
            text = path.read_text(encoding="utf-8")
            if mend:
                path.write_text(mended(text), encoding="utf-8")
            else:
                for said in repeating(ast.parse(text)):
                    print(f"{path}:{said.lineno}")


if __name__ == "__main__":
    main()
