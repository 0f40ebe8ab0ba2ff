"""The README is true: its commands run, and what it shows is what they print."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import duckdb
import pytest

import fpmonitor
from fpmonitor.cli import run
from fpmonitor.cli.table import FIRST, GROUPS

ROOT = Path(__file__).parents[2]
DRAWN = (
    "Navigator.userAgent",
    "Screen.height,Screen.width",
    "Navigator.maxTouchPoints,Screen.height",
    "Navigator.hardwareConcurrency,Navigator.maxTouchPoints",
    "Navigator.hardwareConcurrency,Screen.height",
    "Navigator.userAgent,Screen.height",
)
# Commands whose exit code is an answer.
_CODES = {"gate": {0, 1, 3}}
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("readme")
    (path / "fixtures").symlink_to(ROOT / "fixtures")
    return path


def commands(page: str) -> list[tuple[str, str]]:
    """Commands of a page's console blocks in order, each with the output that is shown."""
    blocks = re.findall(r"```console\n(.*?)```", page, flags=re.DOTALL)
    parts = [part for block in blocks for part in block.split("$ ")[1:]]
    return [(part.split("\n", 1)[0], part.split("\n", 1)[1]) for part in parts]


def printed_by(command: str) -> str:
    """What a command prints; those of fpmonitor run in this process."""
    program, *arguments = shlex.split(command)
    if program != "fpmonitor":
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
        return done.stdout
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert run(arguments) in _CODES.get(arguments[0], {0}), command
    return printed.getvalue()


@pytest.fixture
def in_quickstart(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    if not Path("quickstart").exists():
        assert run(["quickstart", "--quiet"]) == 0


@pytest.mark.usefixtures("in_quickstart")
@pytest.mark.each
@pytest.mark.parametrize("name", ["README", "docs/open-database", "docs/tutorial"])
def test_pages_show_what_their_commands_print(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """FPMONITOR_RECORD=1 writes what is printed into the pages instead."""
    path = ROOT / f"{name}.md"
    page = path.read_text(encoding="utf-8")
    found = commands(page)
    assert len(found) >= 7, "examples went missing"
    for command, shown in found:
        if command.startswith("cd "):
            monkeypatch.chdir(command.removeprefix("cd "))
        elif command != "fpmonitor quickstart --quiet":
            if command.startswith("jq ") and shutil.which("jq") is None:
                pytest.skip("needs jq")
            printed = printed_by(command)
            if shown and "FPMONITOR_RECORD" in os.environ:
                page = page.replace(f"$ {command}\n{shown}", f"$ {command}\n{printed}", 1)
            elif shown:
                assert printed == shown, command
    path.write_text(page, encoding="utf-8")


@pytest.mark.usefixtures("in_quickstart")
def test_the_views_answer_as_fpmonitor_does() -> None:
    page = (ROOT / "docs" / "open-database.md").read_text(encoding="utf-8")
    assert run(["db", "views", "-o", "views.sql"]) == 0
    with duckdb.connect("quickstart/fpmonitor.duckdb", read_only=True) as logs:
        logs.execute(Path("views.sql").read_text())
        [block] = re.findall(r"```sql\n(.*?)```", page, flags=re.DOTALL)
        answers = [logs.execute(text).fetchall() for text in duckdb.extract_statements(block)]
        by_api = dict(logs.execute("SELECT api, users FROM apis").fetchall())
        [[users]] = logs.execute("SELECT count(*) FROM users").fetchall()
    assert answers[0][0] == ("1920", 4293)
    assert [len(rows) for rows in answers] == [5, 1, 3]
    with fpmonitor.Monitor("quickstart/fpmonitor.duckdb") as monitor:
        told = {line.api: line.users for line in monitor.apis(k=10) if line.users is not None}
        assert told.items() <= by_api.items()
        assert len(by_api) - len(told) == 1, "all but 8 users have it"
        assert users == monitor.population().users
    text = "\n".join(re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL))
    example = doctest.DocTestParser().get_doctest(text, {}, "page", "open-database.md", 0)
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.usefixtures("in_quickstart")
def test_the_picture_shows_what_quickstart_stored() -> None:
    arguments = [word for apis in DRAWN for word in ("--apis", apis)]
    options = ["--db", "quickstart/fpmonitor.duckdb", "--budget", "5%", "-o", "drawn.svg"]
    assert run(["exposure", "--plot", "exposure", *arguments, *options]) == 0
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
    for entry in (*FIRST, *GROUPS):
        assert f"fpmonitor {entry.name}" in pages, entry.name
        for below in entry.below:
            call = rf"fpmonitor {entry.name} ([a-z|-]+\|)?{below.name}\b"
            assert re.search(call, pages), (entry.name, below.name)
        for mode in entry.modes:
            assert re.search(rf"fpmonitor {entry.name}\b.*{mode.name}\b", pages), mode.name


def test_the_first_command_is_the_one_that_ci_runs() -> None:
    assert "pip install . && fpmonitor quickstart" in README


def test_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target


def test_changelog_speaks_of_the_version() -> None:
    assert f"## {fpmonitor.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert f'version = "{fpmonitor.__version__}"' in (ROOT / "pyproject.toml").read_text()
