"""Every command that a message, a page or a document names exists, with its options."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.core import TyperGroup

from fpmonitor.cli import command_tree, run
from fpmonitor.cli.examples import EXAMPLES, MATTER
from fpmonitor.cli.table import FIRST, GROUPS, MERGED, MOVED

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = (
    *("README.md", "CONTRIBUTING.md", "SECURITY.md", "action.yml"),
    *("docs/*.md", "docs/certificate/*.md", "deploy/*", "fpmonitor/**/*.html", "fpmonitor/**/*.js"),
    *("fpmonitor/**/*.json", "collectors/browser/*.ts"),
)
SOURCES = ("fpmonitor/**/*.py", "collectors/*.py", "benchmarks/*.py", "scripts/*.py")
# Where an end of a command is: of the code, of the line, of the command in a shell.
_END = re.compile(r"[`\n<>|;#&)]|&&|\s\\\s")
_SEEN = re.compile(r"(`|\$ |<code>|^|: )fpmonitor ([a-z-][^\n`]*)", re.MULTILINE)
_WORD = re.compile(r"[a-z][a-z-]*")


def texts_of(path: Path) -> Iterator[str]:
    """The texts of a file in which commands may be named; of Python its strings."""
    content = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield content
        return
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
            yield "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def named_in(patterns: tuple[str, ...]) -> list[tuple[str, str]]:
    """Commands that files name, each with the file."""
    found = set()
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            if path.is_file() and "node_modules" not in path.parts:
                for text in texts_of(path):
                    for before, command in _SEEN.findall(text):
                        line = _END.split(command, maxsplit=1)[0].strip(" '\",.:")
                        if (before.strip(": ") and path.suffix != ".py") or _is_known(line):
                            found.add((path.relative_to(ROOT).as_posix(), line))
    return sorted(found)


def _is_known(line: str) -> bool:
    """Whether a line is a command at all, and not a sentence on fpmonitor."""
    first = next((word for word in line.split() if not word.startswith("-")), "")
    return first in command_tree().commands or first in MOVED


@cache
def loaded(path: tuple[str, ...]) -> Any:
    """A command, or a mode of one."""
    command: Any = command_tree()
    for word in path:
        if word.startswith("--"):
            [command] = [mode for mode in command.modes() if mode.entry.name == word]
        else:
            command = loaded_group(command)[word]
    return command


def loaded_group(command: Any) -> Any:
    return (command.load() if hasattr(command, "load") else command).commands


def flaw_of(line: str) -> str | None:
    """What is wrong with a command; options in brackets and alternatives are looked at, too."""
    words = re.sub(r"[\[\]]", " ", line).split()
    path: tuple[str, ...] = ()
    options = ["--help", "-h", "--help-all", "--debug", "--json", "--for-others"]
    options += [name for one in command_tree().params for name in one.opts]
    while words and words[0].startswith("-"):
        option = words.pop(0).partition("=")[0]
        if option not in options:
            return f"{option} is no option before the command"
        if option in {"--wait", "--key-file"}:
            words.pop(0)
    if words and words[0] in {"help", "version"}:
        return None
    while words and isinstance(_below(path), TyperGroup):
        if not _WORD.fullmatch(words[0].split("|")[0]):
            return None if words[0][0].isupper() or "." in words[0] else f"{words[0]}: no command"
        names = words.pop(0).split("|")
        for name in names:
            if name not in loaded_group(loaded(path)):
                return f"{' '.join((*path, name))} is no command"
        path = (*path, names[0])
    command = loaded(path)
    for mode in command.modes() if hasattr(command, "modes") else ():
        if any(word.partition("=")[0] == mode.entry.name for word in words):
            command = mode
            options.append(mode.entry.name)
            break
    known = _below(path) if command is loaded(path) else command.load()
    options += [name for one in known.params for name in (*one.opts, *one.secondary_opts)]
    for word in words:
        option = word.partition("=")[0].rstrip(".,:")
        if re.match(r"--?[a-z]", option) and option not in options:
            return f"{option} is no option of {' '.join(path)}"
    return None


def _below(path: tuple[str, ...]) -> Any:
    command = loaded(path)
    return command.load() if hasattr(command, "load") else command


@pytest.mark.parametrize("patterns", [PAGES, SOURCES], ids=["pages", "sources"])
def test_every_command_that_is_named_exists(patterns: tuple[str, ...]) -> None:
    found = named_in(patterns)
    assert len(found) > 15
    flaws = [f"{path}: fpmonitor {line}: {flaw}" for path, line in found if (flaw := flaw_of(line))]
    assert not flaws, "\n".join(flaws)


def test_a_command_that_is_none_is_found() -> None:
    for line in ("rank", "exposure --colour", "db apis --sets X", "lists lists", "--quiet gate"):
        assert flaw_of(line), line


def all_paths(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every group, command and mode."""
    command = command_tree() if command is None else command
    yield path
    below = command.load() if hasattr(command, "load") else command
    for name, one in getattr(below, "commands", {}).items():
        yield from all_paths(one, (*path, name))
    for mode in command.modes() if hasattr(command, "modes") else ():
        yield (*path, mode.entry.name)


def test_every_command_has_two_examples_that_exist_and_no_other_has() -> None:
    assert {" ".join(path) for path in all_paths()} == set(EXAMPLES)
    for path, examples in EXAMPLES.items():
        for example in examples:
            words = example.split()
            assert path == "" or set(path.split()) <= set(words), example
            assert flaw_of(example) is None, (example, flaw_of(example))


def test_the_examples_can_be_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All arguments that a command needs are there, and their values are of their kind."""
    monkeypatch.chdir(tmp_path)
    for examples in EXAMPLES.values():
        for example in examples:
            context = command_tree().make_context("fpmonitor", example.split())
            command: Any = command_tree()
            words = [*context._protected_args, *context.args]
            while isinstance(command, TyperGroup):
                name, found, words = command.resolve_command(context, words)
                context = found.make_context(name, words, parent=context)  # type: ignore[union-attr]
                command = context.command
                words = [*context._protected_args, *context.args]


def test_the_options_that_matter_exist() -> None:
    for path, options in MATTER.items():
        for option in options.split():
            assert flaw_of(f"{path} {option}") is None, (path, option)
        assert len(options.split()) == 5, path


def test_the_first_screen_of_help_has_eighteen_commands_at_most(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [entry.name for entry in (*FIRST, *GROUPS) if not entry.hidden]
    shown = [line for line in lines if line.startswith("  ") and line.split()[0] in names]
    assert [line.split()[0] for line in shown] == names
    assert len(names) <= 18
    assert len([entry for entry in FIRST if not entry.hidden]) == 8
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("path", [path for path in all_paths() if path], ids=" ".join)
def test_help_begins_with_two_examples_and_shows_few_options(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    called = [*path, *(["week"] if path[-1] == "--by" else [])]
    assert run([*called, "--help"]) == 0
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert lines[0] == "Examples:"
    assert all(line.startswith("  fpmonitor ") for line in lines[1:3])
    assert f"Usage: fpmonitor {' '.join(path)}" in said
    assert run([*called, "--help-all"]) == 0
    whole = capsys.readouterr().out
    options = [line for line in lines if re.match(r"  -", line)]
    command = loaded(path)
    needed = [one for one in _params(command) if one.required and one.param_type_name == "option"]
    assert len(options) <= max(5, len(needed))
    for one in _params(command):
        if one.param_type_name == "option":
            assert one.opts[0] in whole, one.opts


def _params(command: Any) -> list[Any]:
    return list((command.load() if hasattr(command, "load") else command).params)


@pytest.mark.parametrize("name", MOVED)
def test_a_name_of_before_does_the_same_and_says_where_it_is(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [word for word in MOVED[name].split() if not word.startswith("-")]
    assert run([*command, "--help"]) == 0
    printed = capsys.readouterr().out
    assert run([name, "--help"]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == (printed, f"fpmonitor: {name} is now: fpmonitor {MOVED[name]}\n")
    assert flaw_of(MOVED[name]) is None
    assert name not in command_tree().commands


@pytest.mark.each
@pytest.mark.parametrize("name", MERGED)
def test_a_command_that_became_an_option_is_named_by_that_also_to_a_settings_file(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert flaw_of(MERGED[name]) is None
    assert run(name.split()) == 2
    assert f"`fpmonitor {MERGED[name]}`" in capsys.readouterr().err
    group, _, command = name.partition(" ")
    monkeypatch.chdir(tmp_path)
    Path("fpmonitor.toml").write_text(f"[{group}.{command}]\nk = 5\n", encoding="utf-8")
    assert run([group, next(iter(loaded_group(loaded((group,)))))]) == 2
    assert f"[{group}.{command}]: now {MERGED[name]}" in capsys.readouterr().err
