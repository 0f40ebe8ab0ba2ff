"""The documentation is up to date, and leads somewhere."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def loaded(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_and_the_man_page_are_up_to_date() -> None:
    for path, text in loaded("scripts/reference.py").documents().items():
        assert path.read_text(encoding="utf-8") == text, (
            f"run: python scripts/reference.py ({path})"
        )


def test_the_man_page_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    placed: dict[str, list[str]] = project["tool"]["setuptools"]["data-files"]
    assert placed == {"share/man/man1": ["docs/fpmonitor.1"]}
    assert "COPY docs/fpmonitor.1 " in (ROOT / "deploy" / "Containerfile").read_text()


def test_the_drawing_shows_the_rooms_on_their_floors() -> None:
    drawing = (DOCS / "architecture.svg").read_text(encoding="utf-8")
    drawn = re.findall(r'<text class="room" x="[\d.]+" y="([\d.]+)".*?>(\w+)</text>', drawing)
    height = {room: -float(y) for y, room in drawn}
    folders = {path.parent.name for path in (ROOT / "fpmonitor").glob("*/__init__.py")}
    assert folders - height.keys() == {"fixtures", "queries"}, "folders that are not drawn"
    floors: dict[str, int] = loaded("tests/house/test_imports.py").FLOOR_OF
    order = [floors[room] for room in sorted(height, key=lambda room: (height[room], floors[room]))]
    assert order == sorted(order), "a room is drawn below one that it may not import"


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8").split("## All pages")[1]
    theorems = (DOCS / "certificate.md").read_text(encoding="utf-8").split("## Theorems")[1]
    listed = set(re.findall(r"\]\(([\w./-]+\.md)", index + theorems))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"index.md"}
    assert listed - {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"} == pages


def test_every_door_names_a_test_that_exists() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    doors = text.split("## Attack surface")[1].split("## ")[0]
    rows = [line for line in doors.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    for row in rows:
        path, _, name = row.rstrip(" |").rpartition("| ")[2].strip("`").partition("::")
        assert f"\ndef {name}(" in (ROOT / path).read_text(encoding="utf-8"), row
