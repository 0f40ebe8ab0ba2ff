"""The README is true: its commands run, and what it shows is what they print."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
from pathlib import Path

import pytest

import fpmonitor
from fpmonitor.cli import command_tree, run
from fpmonitor.cli.commands import DATABASE

ROOT = Path(__file__).parents[2]
DRAWN = (
    "Navigator.userAgent",
    "Screen.height,Screen.width",
    "Navigator.maxTouchPoints,Screen.height",
    "Navigator.hardwareConcurrency,Navigator.maxTouchPoints",
    "Navigator.hardwareConcurrency,Screen.height",
    "Navigator.userAgent,Screen.height",
)
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("readme")
    (path / "fixtures").symlink_to(ROOT / "fixtures")
    return path


def commands() -> list[tuple[str, str]]:
    """Commands of the README's console blocks in order, each with the output that is shown."""
    blocks = re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL)
    parts = [part for block in blocks for part in block.split("$ ")[1:]]
    return [(part.split("\n", 1)[0], part.split("\n", 1)[1]) for part in parts]


def test_readme_commands_run_and_print_what_is_shown(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert "pip install . && fpmonitor quickstart" in README
    assert run(["quickstart", "--quiet"]) == 0
    assert len(commands()) >= 8, "examples went missing"
    for command, shown in commands():
        program, *arguments = shlex.split(command)
        assert program == "fpmonitor"
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            assert run(arguments) == 0, command
        if shown:
            assert printed.getvalue() == shown, command


def test_the_picture_shows_what_quickstart_stored(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    if not Path("quickstart").exists():
        assert run(["quickstart", "--quiet"]) == 0
    arguments = [word for apis in DRAWN for word in ("--apis", apis)]
    options = ["--db", "quickstart/fpmonitor.duckdb", "--budget", "5%", "-o", "drawn.svg"]
    assert run(["plot", "exposure", *arguments, *options]) == 0
    drawn = ROOT / "docs" / "exposure.svg"
    assert Path("drawn.svg").read_bytes() == drawn.read_bytes(), f"copy it to {drawn}"


def test_readme_python_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert run(["ingest", "fixtures/logs", "--quiet", "-o", "batches.json"]) == 0
    text = "\n".join(re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL))
    example = doctest.DocTestParser().get_doctest(text, {}, "README", "README.md", 0)
    assert len(example.examples) >= 5, "examples went missing"
    results = doctest.DocTestRunner().run(example)
    assert results.failed == 0


def test_every_command_is_described_in_the_readme_or_docs() -> None:
    pages = README + "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    for command in command_tree().commands:
        assert f"fpmonitor {command}" in pages, command
    for entry in DATABASE:
        assert re.search(rf"fpmonitor db ([a-z|-]+\|)?{entry.name}\b", pages), entry.name


def test_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target


def test_changelog_speaks_of_the_version() -> None:
    assert f"## {fpmonitor.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert f'version = "{fpmonitor.__version__}"' in (ROOT / "pyproject.toml").read_text()
