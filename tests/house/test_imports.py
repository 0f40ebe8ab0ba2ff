"""The rooms: who may import whom, checked on the source of every room."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import fpmonitor

PACKAGE = Path(__file__).parents[2] / "fpmonitor"
# From the ground up: a room imports from floors below it, and from itself.
FLOORS = [
    {"errors", "proof", "queries", "results", "version"},
    {
        "calls",
        "duckdb_connection",
        "plugins",
        "closing",
        "masking",
        "policy",
        "refusals",
        "safe_files",
        "spectrum",
        "sql",
        "value_forms",
        "unit",
    },
    {"account", "question", "secret_files"},
    {"estimate", "vocabulary"},
    {"disclosure", "judgement", "ldp", "sealing"},
    {"logs"},
    {"collectors"},
    {"store"},
    {"population"},
    {"cluster"},
    {"sketch"},
    {"decide"},
    {"release", "export"},
    {"answers"},
    {"render"},
    {"monitor"},
    {"log", "lookout", "planning", "warehouse"},
    {"serve", "watch"},
    {"assistant", "ui"},
    {"cli"},
    # Registers its commands by their names; nothing knows of it.
    {"private"},
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
NO_CODE = {"__init__", "__main__", "fixtures"}
# What is still to be moved; nothing may be added here, and what is mended is taken out.
OPEN_IMPORTS: set[tuple[str, str]] = set()
OPEN_CIRCLES: set[tuple[str, str]] = set()


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join([fpmonitor.__name__, *(part for part in parts if part != "__init__")])


MODULES = {
    module_of(path): path
    # Links to folders are not followed by `rglob` before Python 3.13.
    for folder in [PACKAGE, PACKAGE / "collectors", PACKAGE / "queries"]
    for path in sorted(folder.rglob("*.py"))
    if "fixtures" not in path.parts
}


@cache
def imported_modules(path: Path) -> set[str]:
    """Modules of ours that a file imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            # Who imports a module of a package does not ask the package for a name.
            found.update(inner if inner <= MODULES.keys() else {node.module, *inner})
    return {name for name in found if name in MODULES}


def room_of(module: str) -> str:
    """Part of the package that a module belongs to; the package itself is `__init__`."""
    return ([*module.split("."), "__init__"])[1]


def test_every_room_has_a_floor() -> None:
    rooms = {room_of(module) for module in MODULES}
    assert rooms - NO_CODE == set(FLOOR_OF)


def test_rooms_import_from_floors_below_only() -> None:
    upward = {
        (room_of(module), room_of(imported)): module
        for module, path in MODULES.items()
        if room_of(module) not in NO_CODE
        for imported in imported_modules(path)
        if room_of(imported) not in {*NO_CODE, room_of(module)}
        and FLOOR_OF[room_of(imported)] >= FLOOR_OF[room_of(module)]
    }
    assert set(upward) == OPEN_IMPORTS, upward


@pytest.mark.parametrize(
    ("wing", "rooms"),
    [("private", {"private"}), ("ldp", {"ldp"}), ("cluster", {"cluster", "sketch"})],
)
def test_a_wing_is_entered_by_the_doors_that_its_readme_names(wing: str, rooms: set[str]) -> None:
    doors = (PACKAGE / wing / "README.md").read_text(encoding="utf-8")
    doors = doors[doors.index("**The door") : doors.index("| to understand")]
    entered = {
        imported.rpartition(".")[2]
        for module, path in MODULES.items()
        if room_of(module) not in rooms
        for imported in imported_modules(path)
        if room_of(imported) in rooms and imported.count(".") > 1
    }
    assert {name for name in entered if f"`{name}.py`" not in doors} == set()


def test_no_circle_of_modules() -> None:
    """Imports for type checkers count: a circle of types is a circle."""
    graph = {module: imported_modules(path) - {module} for module, path in MODULES.items()}
    reached: dict[str, set[str]] = defaultdict(set)
    for module, imported in graph.items():
        open_ends = [*imported]
        while open_ends:
            following = open_ends.pop()
            if following not in reached[module]:
                reached[module].add(following)
                open_ends += graph[following]
    circles = {module for module in graph if module in reached[module]}
    assert circles == {module for circle in OPEN_CIRCLES for module in circle}


def test_estimates_know_words_only() -> None:
    for module, path in MODULES.items():
        if room_of(module) == "estimate":
            rooms = {room_of(imported) for imported in imported_modules(path)}
            assert rooms <= {"errors", "policy", "spectrum", "estimate"}, module


def test_what_proves_decisions_again_shares_no_code_with_what_made_them() -> None:
    for module, path in MODULES.items():
        if room_of(module) == "proof":
            assert {room_of(imported) for imported in imported_modules(path)} <= {"proof"}, module


def test_only_store_logs_and_collectors_touch_duckdb() -> None:
    for module, path in MODULES.items():
        if room_of(module) not in {"duckdb_connection", "store", "logs", "collectors"}:
            assert "import duckdb" not in path.read_text(encoding="utf-8"), module


def test_only_the_command_line_prints() -> None:
    for module, path in MODULES.items():
        calls = [
            node.func.id
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        ]
        assert room_of(module) == "cli" or "print" not in calls, module


def test_commands_and_the_service_do_not_wait_for_scipy() -> None:
    slow = "special", "optimize", "sparse", "stats"
    script = (
        "import sys, fpmonitor.cli, fpmonitor.answers.decide, fpmonitor.watch; "
        f"print([m for m in {slow} if f'scipy.{{m}}' in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_a_look_at_drift_does_not_wait_for_the_distributions_of_scipy() -> None:
    script = (
        "import sys; from fpmonitor.estimate.drift import compare_laws; "
        "compare_laws([500, 400, 9], [300, 600, 30], seed=1); print('scipy.stats' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_logs_are_stored_without_numpy() -> None:
    script = "import sys, fpmonitor.store.ingest; print('numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_what_lies_in_a_window_is_said_once() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in PACKAGE.glob("queries/*/*.sql")}
    said = [path.name for path, text in texts.items() if "ltrim($source" in text]
    assert said == ["inside.sql"]


def test_only_the_command_line_has_ambient_variables() -> None:
    for module, path in MODULES.items():
        assert room_of(module) == "cli" or "ContextVar" not in path.read_text("utf-8"), module


def test_a_monitor_has_fewer_than_twenty_public_methods() -> None:
    methods = [
        name
        for name in dir(fpmonitor.Monitor)
        if name[0] != "_" and callable(getattr(fpmonitor.Monitor, name))
    ]
    assert len(methods) < 20, methods


def test_no_function_has_more_than_60_lines() -> None:
    long = [
        f"{path.relative_to(PACKAGE)}: {function.name}"
        for path in PACKAGE.rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and (function.end_lineno or 0) - function.lineno > 60
    ]
    assert not long
