"""The commands: panels, what each loads, completion, and the settings file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cli import command_tree, run
from fpmonitor.cli.commands import LazyCommand
from fpmonitor.cli.table import all_entries
from tests.decided import decided

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEAVY = ("duckdb", "polars", "scipy", "numpy", "pyspark")


def lazy_commands(group: Any) -> Iterator[LazyCommand]:
    for command in group.commands.values():
        if isinstance(command, LazyCommand):
            yield command
            below = command.load()
            if hasattr(below, "commands"):
                yield from lazy_commands(below)


def loaded_by(*arguments: str, folder: Path) -> set[str]:
    """Heavy packages that a command has loaded at its end."""
    script = (
        "import sys; from fpmonitor.cli import run; "
        f"code = run({list(arguments)!r}); "
        f"print(code, *({set(HEAVY)!r} & sys.modules.keys()), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, cwd=folder, check=True
    )
    code, *loaded = done.stderr.splitlines()[-1].split()
    assert code == "0", done.stderr
    return set(loaded)


def test_the_help_of_a_line_is_that_of_its_command() -> None:
    for command in lazy_commands(command_tree()):
        if not command.entry.about:
            whole = " ".join(command.load().help.split())
            assert whole.startswith(command.help), command.path
        assert command.help.endswith("."), command.path


def test_every_module_of_commands_is_in_the_table_once() -> None:
    homes = [entry.home for entry in all_entries() if entry.home]
    assert len(set(homes)) == len(homes)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["--version"],
        ["db", "--help"],
        ["lists", "schema"],
        ["collect", "log-line", "nginx"],
    ],
)
def test_help_and_version_load_no_library_of_numbers(arguments: list[str], tmp_path: Path) -> None:
    assert loaded_by(*arguments, folder=tmp_path) == set()


def test_a_gate_needs_a_decision_file_and_nothing_else(tmp_path: Path) -> None:
    decision = decided("ab", allow=["a"], block=["b"], recommended="a")
    (tmp_path / "decision.json").write_text(json.dumps(decision.to_json()), encoding="utf-8")
    assert loaded_by("gate", "decision.json", "--want", "a", folder=tmp_path) == set()


def test_without_a_command_the_help_is_printed_and_nothing_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for group in ([], ["db"], ["collect", "keys"], ["audit"]):
        assert run([*group, "--help"]) == 0
        asked = capsys.readouterr()
        assert run(group) == 0
        alone = capsys.readouterr()
        assert alone.out.strip() == asked.out.strip()
        assert alone.err == asked.err == ""
        assert "Usage: fpmonitor" in asked.out


_INSTALL_AND_PRESS_TAB = """
fpmonitor --show-completion > shown
fpmonitor --install-completion > installed
source .bashrc
complete -p fpmonitor > /dev/null
press_tab() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _fpmonitor_completion fpmonitor
    echo "${COMPREPLY[*]}"
}
press_tab fpmonitor db ve
press_tab fpmonitor gate --wa
press_tab fpmonitor decide --setting ""
"""


def test_bash_completes_commands_and_options_once_that_is_installed(tmp_path: Path) -> None:
    """The script that is installed is run by bash itself, as it does when somebody presses Tab."""
    done = subprocess.run(
        ["bash", "--norc", "-eu", "-c", _INSTALL_AND_PRESS_TAB],
        env={**os.environ, "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["verify", "--want", "population sample"]
    installed = (tmp_path / ".bash_completions" / "fpmonitor.sh").read_text(encoding="utf-8")
    assert (tmp_path / "shown").read_text(encoding="utf-8").strip() == installed.strip()


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("settings", "command", "message"),
    [
        ("[decide]\npopluation = 10000000", "decide", "'popluation'; nearest: population"),
        ("[decdie]\nk = 5", "db apis", "unknown command 'decdie'; nearest: decide"),
        ("popluation = 5", "gate", "unknown setting 'popluation'; nearest: population"),
        ("[db.verfiy]\nformat = 'json'", "db verify", "'verfiy'; nearest: verify"),
        ("[db.verify]\nfromat = 'json'", "db verify", "'fromat'; nearest: format"),
        ("[ldp.metrics]\nepsilom = 1.0", "ldp metrics", "'epsilom'; nearest: epsilon"),
        ("[ldp.metrcs]\nepsilon = 1.0", "ldp metrics", "'metrcs'; nearest: metrics"),
        ("[decide]\nmax-sets = 'ten'", "decide", "[decide] max-sets: expected int, got str"),
        ("[decide]\nquiet = 1", "decide", "[decide] quiet: expected bool, got int"),
        ("[decide]\ndb = 5", "decide", "[decide] db: expected str, got int"),
        ("[decide]\nsetting = 'smaple'", "decide", "[decide] setting: invalid enum value"),
        ("db = 5", "db apis", "db: expected str, got int"),
        ("wait = 'long'", "db apis", "wait: expected float, got str"),
        ("decide = 5", "db apis", "unknown setting 'decide'"),
        ("output = '/tmp/x'", "db apis", "output: a folder that may come from anybody"),
        ("[decide]\nengine = 'sc://h:1'", "decide", "[decide] engine: a folder that may come"),
        ("[watch]\ncommand = 'sh'", "watch", "[watch] command: a folder that may come"),
        ("[private.seal]\nto = 'https://h'", "private seal", "[private.seal] to: a folder"),
        ("unsafe-counts = true", "db apis", "unsafe-counts: a folder that may come from anybody"),
        ("[ldp]\nmetrics = 5", "ldp metrics", "[ldp.metrics] must be a table"),
        ("query-limit = '1'\nquery_limit = '2'", "db apis", "both spellings"),
        ("bias = 1.2", "exposure --curve --apis a", "and exposure curve cannot"),
        ("fake-share = 0.1", "ldp plan", "in the tables of the commands that have it"),
    ],
)
def test_a_bad_setting_is_an_error(
    settings: str, command: str, message: str, in_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (in_folder / "fpmonitor.toml").write_text(settings, encoding="utf-8")
    assert run(command.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("fpmonitor: error: fpmonitor.toml: ")
    assert message in printed.err


@pytest.mark.parametrize("name", ["query-limit", "query_limit"])
def test_settings_are_options_in_both_spellings(
    name: str, in_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{name} = 'many'\nreader = 'ann'\nformat = 'csv'\n[ldp.metrics]\nformat = 'json'\n"
    (in_folder / "fpmonitor.toml").write_text(text, encoding="utf-8")
    assert run(["lists", "schema"]) == 0, "a setting of other commands is none of this one"
    capsys.readouterr()
    assert run(["ldp", "metrics", "--mechanism", "grr", "--values", "3", "--epsilon", "1"]) == 0
    assert capsys.readouterr().out.startswith("{")
    assert run(["ldp", "compare", "--values", "3", "--users", "10"]) == 0
    assert "," in capsys.readouterr().out.splitlines()[0]


def test_a_settings_file_loads_every_command_once(
    in_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "query-limit = 'many'\nreader = 'ann'\npopulation = 5\n"
    (in_folder / "fpmonitor.toml").write_text(text, encoding="utf-8")
    loaded: list[tuple[str, ...]] = []
    load = LazyCommand.load
    monkeypatch.setattr(LazyCommand, "load", lambda self: loaded.append(self.path) or load(self))
    assert run(["ldp", "metrics", "--mechanism", "grr", "--values", "3", "--epsilon", "1"]) == 0
    assert len(loaded) == len({*loaded}) + 1, "only the one that runs was loaded before"


def test_times_and_lists_may_be_settings(
    in_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (in_folder / "log.csv").write_text(
        "user,time,a\n" + "".join(f"u{i},2026-01-{1 + i % 20:02},x\n" for i in range(100)),
        encoding="utf-8",
    )
    (in_folder / "fpmonitor.toml").write_text(
        "[exposure]\napis = 'a'\nsince = 2026-01-11\nformat = 'json'\n", encoding="utf-8"
    )
    assert run(["ingest", "log.csv"]) == 0
    capsys.readouterr()
    assert run(["exposure"]) == 0
    [report] = json.loads(capsys.readouterr().out)
    assert report["users"] == 50


def test_a_file_called_json_never_holds_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table that was asked for is on the screen."""
    db, output = str(tmp_path / "fp.duckdb"), tmp_path / "decision.json"
    log = tmp_path / "log.csv"
    log.write_text("user,a\n" + "".join(f"u{i},{i % 3}\n" for i in range(60)))
    assert run(["ingest", str(log), "--db", db, "-q"]) == 0
    capsys.readouterr()
    command = ["decide", "--db", db, "--budget", "5%", "-q", "-o", str(output)]
    assert run([*command, "--format", "table"]) == 0
    assert "largest sets are allowed" in capsys.readouterr().out
    assert json.loads(output.read_text())["policy"]["budget"] == 0.05
