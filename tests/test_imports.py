"""The rooms: who may import whom, checked on the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fpmonitor

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "fpmonitor"
ROOMS = [
    *("estimate", "store", "engine", "decide", "release"),
    *("private", "export", "report", "serve", "cli"),
]
WORDS = {*("disclosure", "documents", "errors", "policy", "secret_files", "spectrum", "vocabulary")}
ABOVE_WORDS = {"plugins", "logs", "queries", "collectors", "fixtures"}


def imported_rooms(path: Path) -> set[str]:
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
        elif isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
    return {module.split(".")[1] for module in modules if module.startswith("fpmonitor.")}


def files_of(room: str) -> list[Path]:
    return sorted((PACKAGE / room).rglob("*.py"))


@pytest.mark.parametrize("room", [room for room in ROOMS if (PACKAGE / room).is_dir()])
def test_rooms_import_downward_only(room: str) -> None:
    allowed = {*ROOMS[: ROOMS.index(room) + 1], *WORDS, *ABOVE_WORDS}
    allowed |= {"monitor"} if room in {"cli", "serve"} else set()
    allowed |= {"watch"} if room == "cli" else set()
    allowed |= {"remote", "sealing"} if room == "cli" else set()
    for path in files_of(room):
        assert imported_rooms(path) <= allowed, path


def test_estimates_import_words_only() -> None:
    for path in files_of("estimate"):
        assert imported_rooms(path) <= {*WORDS, "estimate"} - {"vocabulary"}, path


@pytest.mark.parametrize(
    "path", [path for path in sorted(PACKAGE.rglob("*.py")) if "store" not in path.parts]
)
def test_only_store_logs_and_collectors_touch_duckdb(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    if path.name != "logs.py":
        assert "import duckdb" not in source


@pytest.mark.parametrize(
    "path", [path for path in sorted(PACKAGE.rglob("*.py")) if "cli" not in path.parts]
)
def test_only_the_command_line_prints(path: Path) -> None:
    calls = [
        node.func.id
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    assert "print" not in calls


def test_every_public_name_is_there() -> None:
    for name in fpmonitor.__all__:
        assert getattr(fpmonitor, name).__name__ == name
    with pytest.raises(AttributeError, match="nothing"):
        getattr(fpmonitor, "nothing")  # noqa: B009 -- the name is not there on purpose


def test_commands_that_estimate_nothing_do_not_wait_for_scipy() -> None:
    slow = "special", "optimize", "sparse", "stats"
    script = (
        f"import sys, fpmonitor.cli; print([m for m in {slow} if f'scipy.{{m}}' in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
