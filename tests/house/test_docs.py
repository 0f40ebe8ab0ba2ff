"""The documentation is up to date, and leads somewhere."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_and_the_man_page_are_up_to_date() -> None:
    for path, text in script("reference").documents().items():
        assert path.read_text(encoding="utf-8") == text, (
            f"run: python scripts/reference.py ({path})"
        )


def test_the_man_page_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    placed: dict[str, list[str]] = project["tool"]["setuptools"]["data-files"]
    assert placed == {"share/man/man1": ["docs/fpmonitor.1"]}
    assert "COPY docs/fpmonitor.1 " in (ROOT / "deploy" / "Containerfile").read_text()
