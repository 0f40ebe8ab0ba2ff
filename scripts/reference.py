"""Write the reference of commands, library, service, files and papers from their own texts.

`python scripts/reference.py` writes `docs/reference/*.md` and the man page; with `--check` it only
names the files that are not up to date, and ends with 1 if there are any.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import json
import pkgutil
import re
import sys
import textwrap
import tomllib
import types
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fpmonitor
import fpmonitor.answers
from fpmonitor.cli import command_tree
from fpmonitor.cli.table import FIRST, GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PAPERS = ROOT / "scripts" / "papers.toml"
ANSWERS_ELSEWHERE = (
    "ldp.summary.Metrics",
    "release.partial_knowledge.ValueGuarantee",
    "release.sensitive.SensitiveAttribute",
)
FILES = {
    "Settings of the service": "serve.config.ServeConfig",
    "A level": "population.levels.LevelMap",
    "A design of levels": "population.levels.Design",
    "A transform": "store.transforms.Transform",
}
MADE = "<!-- Made by scripts/reference.py; change the source of the text instead. -->"
_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Notes|Examples):\n", re.MULTILINE)


def cell(text: str) -> str:
    """A text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


# ---- The command line ---------------------------------------------------------------------------


def commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Every command below one, with the words that call it; groups come before what is in them."""
    loaded = command.load() if hasattr(command, "load") else command
    yield " ".join(words), loaded
    for name, below in getattr(loaded, "commands", {}).items():
        yield from commands(below, (*words, name))
    for mode in command.modes() if hasattr(command, "modes") else ():
        yield from commands(mode, (*words, mode.name))


def usage(words: str, command: Any) -> tuple[str, list[tuple[str, str]]]:
    """The line that calls a command, and its arguments and options, each with its help."""
    context = command.context_class(command, info_name=words)
    shown: list[tuple[str, str]] = []
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            # Arguments come with the name of their type in Python.
            is_option = parameter.param_type_name == "option"
            shown.append((record[0] if is_option else record[0].split(" <")[0], record[1]))
    return f"{words} {' '.join(command.collect_usage_pieces(context))}", shown


def panel_of_command() -> dict[str, str]:
    panels = {entry.name: "Commands" for entry in FIRST}
    return panels | {entry.name: entry.name for entry in GROUPS}


def command_line() -> str:
    """The reference of all commands as Markdown."""
    lines = [MADE, "", "# Command line", ""]
    panels = panel_of_command()
    panel = ""
    for words, command in commands(command_tree(), ("fpmonitor",)):
        parts = words.split(" ")
        if len(parts) > 1 and panels[parts[1]] != panel:
            panel = panels[parts[1]]
            lines += [f"## {panel}", ""]
        lines += [f"{'#' * (2 if len(parts) == 1 else 3)} {words}", "", command.help or "", ""]
        call, options = usage(words, command)
        lines += ["```text", call, "```", ""]
        if options:
            lines += ["| option | what it does |", "|---|---|"]
            lines += [f"| `{cell(option)}` | {cell(about)} |" for option, about in options]
            lines.append("")
    return "\n".join(lines)


def roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line[:1] in ".'" else line for line in escaped.split("\n"))


def manual_page() -> str:
    """All commands as a man page."""
    tree = command_tree()
    lines = [
        '.\\" Made by scripts/reference.py.',
        f'.TH FPMONITOR 1 "" "fpmonitor {fpmonitor.__version__}" "fpmonitor"',
        ".SH NAME",
        "fpmonitor \\- which browser APIs a site may read together",
        ".SH SYNOPSIS",
        ".B fpmonitor",
        "[OPTIONS] COMMAND [ARGS]...",
        ".SH DESCRIPTION",
        roff(tree.help or ""),
        ".SH COMMANDS",
    ]
    for words, command in commands(tree, ("fpmonitor",)):
        call, options = usage(words, command)
        lines += [f".SS {roff(words)}"]
        if words != "fpmonitor":
            lines += [roff(command.help or "").replace("\n\n", "\n.PP\n"), ".PP", roff(call)]
        for option, about in options:
            lines += [".TP", f".B {roff(option)}", roff(" ".join(about.split()))]
    lines += [
        ".SH EXIT STATUS",
        "0 success; 1 a test failed or an answer was refused; 2 usage, configuration or input",
        "error; 3 the data cannot decide; 130 interrupted.",
        ".SH FILES",
        "fpmonitor.duckdb, the database (\\-\\-db, FPMONITOR_DB);",
        "fpmonitor.toml, defaults of options.",
    ]
    return "\n".join(lines) + "\n"


# ---- The library --------------------------------------------------------------------------------


def sections_of(thing: object) -> tuple[str, dict[str, str]]:
    """What a docstring says first, and title -> text of its sections."""
    about, *parts = _SECTION.split(inspect.getdoc(thing) or "")
    bodies = [textwrap.dedent(body).strip("\n") for body in parts[1::2]]
    return about.strip(), dict(zip(parts[::2], bodies, strict=True))


def named(name: str) -> Any:
    """What a dotted name below `fpmonitor` stands for."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(f"fpmonitor.{module}"), attribute)


def described(thing: object) -> list[str]:
    """A docstring as Markdown."""
    about, sections = sections_of(thing)
    lines = [about, ""]
    for title, body in sections.items():
        lines += [f"*{'Parameters' if title == 'Args' else title}*", ""]
        if title in {"Args", "Attributes", "Raises"}:
            for entry in re.split(r"\n(?=\S)", body):
                name, _, rest = re.split(r"(: |\n)", entry, maxsplit=1)
                lines.append(f"* `{name}`: {' '.join(rest.split())}")
        else:
            lines.append(body)
        lines.append("")
    return lines


def signature_of(thing: Any) -> str:
    try:
        found = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return "()"
    found = re.sub(r"<function .*? at 0x\w+>", "...", found)  # an address is another one each time
    found = (
        re.sub(r"<\w+\.(\w+): .*?>", r"\1", found).replace("(self, ", "(").replace("(self)", "()")
    )
    found = re.sub(r"(: |-> )(['\"])(.*?)\2", r"\1\3", found)  # annotations are texts
    return re.sub(r"\bfpmonitor\.[\w.]+\.", "", found).replace("<factory>", "...")


def layers(kind: type) -> list[type]:
    """A class and those of the same room that it is made of, the lowest first."""
    room = kind.__module__.rpartition(".")[0]
    same = [one for one in kind.__mro__ if one.__module__.rpartition(".")[0] == room]
    return same[::-1] if room != "fpmonitor" else [kind]


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class and of those it is made of, in their order."""
    for name, member in chain.from_iterable(vars(one).items() for one in layers(kind)):
        if not name.startswith("_"):
            if isinstance(member, (classmethod, staticmethod)):
                yield name, member.__func__
            elif isinstance(member, (property, types.FunctionType)):
                yield name, member


def library() -> str:
    """The reference of what `import fpmonitor` offers as Markdown."""
    lines = [
        MADE,
        "",
        "# Python",
        "",
        "All that `import fpmonitor` offers. Whatever the command line does can be done with it.",
        "",
    ]
    for name in sorted(fpmonitor.__all__, key=lambda name: (name != "Monitor", name.lower())):
        thing = getattr(fpmonitor, name)
        lines += [f"## {name}", ""]
        if inspect.isfunction(thing) or (
            inspect.isclass(thing)
            and not issubclass(thing, Exception)
            and any("__init__" in vars(one) for one in layers(thing))
        ):
            lines += ["```text", f"{name}{signature_of(thing)}", "```", ""]
        lines += described(thing)
        for member, function in members(thing) if inspect.isclass(thing) else ():
            if isinstance(function, property):
                lines += [f"### {name}.{member}", "", *described(function)]
            elif inspect.getdoc(function):
                call = f"{member}{signature_of(function)}"
                lines += [
                    f"### {name}.{member}",
                    "",
                    "```text",
                    call,
                    "```",
                    "",
                    *described(function),
                ]
    return "\n".join(lines)


def answers() -> str:
    """What each answer holds as Markdown, from the docstrings of their dataclasses."""
    lines = [MADE, "", "# Answers", ""]
    lines += ["What questions return, in Python and, under the same names, in JSON."]
    lines += ["[Answers](../outputs.md#answers) says where JSON differs.", ""]
    for module in pkgutil.iter_modules(fpmonitor.answers.__path__, "fpmonitor.answers."):
        kinds = vars(importlib.import_module(module.name)).values()
        for kind in filter(inspect.isclass, kinds):
            own = kind.__module__ == module.name and dataclasses.is_dataclass(kind)
            if own and "Attributes" in (kind.__doc__ or "") and not kind.__name__.startswith("_"):
                lines += [f"## {kind.__name__}", "", *described(kind)]
    for name in ANSWERS_ELSEWHERE:
        kind = named(name)
        lines += [f"## {kind.__name__}", "", *described(kind)]
    return "\n".join(lines)


# ---- The service --------------------------------------------------------------------------------


def service() -> str:
    """The addresses of `fpmonitor collect serve` as Markdown, from its OpenAPI document."""
    text = (resources.files("fpmonitor.serve") / "openapi.json").read_text(encoding="utf-8")
    document = json.loads(text)
    parts = document["components"]

    def at(entry: dict[str, Any]) -> dict[str, Any]:
        if "$ref" not in entry:
            return entry
        found: dict[str, Any] = document
        for step in entry["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        return found

    lines = [MADE, "", "# HTTP", "", document["info"].get("description", ""), ""]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            lines += [f"## {method.upper()} {path}", "", operation["summary"], ""]
            if operation.get("description"):
                lines += [operation["description"], ""]
            lines += ["| part | what it holds |", "|---|---|"]
            for parameter in map(at, operation.get("parameters", [])):
                lines.append(
                    f"| {parameter['in']} `{parameter['name']}` "
                    f"| {cell(parameter.get('description', ''))} |"
                )
            if "requestBody" in operation:
                kinds = "`, `".join(at(operation["requestBody"])["content"])
                lines.append(f"| body | `{kinds}` |")
            for status, answer in operation["responses"].items():
                lines.append(f"| answer {status} | {cell(at(answer)['description'])} |")
            lines.append("")
    lines += ["## Objects", ""]
    for name, schema in parts["schemas"].items():
        lines += [f"### {name}", "", schema.get("description", ""), ""]
        properties = schema.get("properties", {})
        if properties:
            lines += ["| member | type | what it is |", "|---|---|---|"]
            for member, entry in properties.items():
                kind = entry.get("type", entry.get("enum", ""))
                shown = ", ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
                lines.append(
                    f"| `{member}` | {cell(shown)} | {cell(entry.get('description', ''))} |"
                )
            lines.append("")
    return "\n".join(lines)


# ---- Files that people write --------------------------------------------------------------------


def defaults_of(kind: Any) -> dict[str, object]:
    """Defaults of the fields of a class that are neither null nor empty."""
    found = {name: one.default for name, one in inspect.signature(kind).parameters.items()}
    return {
        name: value
        for name, value in found.items()
        if value is not inspect.Parameter.empty and value not in (None, (), {}, False)
    }


def files() -> str:
    """The members of files that people write as Markdown, from the classes that read them."""
    lines = [MADE, "", "# Files that you write", ""]
    lines += ["`fpmonitor lists schema columns|levels|policy|settings|shares|transforms` prints"]
    lines += ["JSON Schemas. Editors check a TOML file whose first line names one, such as"]
    lines += ["`#:schema levels.schema.json`.", ""]
    for title, name in FILES.items():
        kind = named(name)
        defaults = defaults_of(kind)
        lines += [f"## {title}", ""]
        for line in described(kind):
            member = re.match(r"\* `(\w+)`: ", line)
            default = defaults.get(member[1]) if member else None
            shown = f"{default:_}" if isinstance(default, int) and default > 9_999 else default
            lines.append(line if default is None else f"{line} Default: `{shown}`.")
    return "\n".join(lines)


# ---- The decision file --------------------------------------------------------------------------


def rows_of(schema: dict[str, Any], kinds: dict[str, Any], above: str = "") -> Iterator[str]:
    """A row for each member that a schema describes, and for those below it."""
    for name, entry in schema.get("properties", {}).items():
        of = kinds.get(entry.get("$ref", "").rpartition("/")[2], {}) | entry
        yield f"| `{above}{name}` | {cell(of.get('description', ''))} |"
        yield from rows_of(of, kinds, f"{above}{name}.")


def decision_file() -> str:
    """The members of a decision file as Markdown, from its JSON Schema."""
    text = (resources.files("fpmonitor.export") / "decision.schema.json").read_text("utf-8")
    schema = json.loads(text)
    kinds = schema["$defs"]
    lines = [MADE, "", "# Decision files", "", schema["description"], ""]
    lines += ["`fpmonitor lists schema` prints the JSON Schema that this page is made from.", ""]
    lines += ["| member | what it is |", "|---|---|", *rows_of(schema, kinds)]
    lines += ["", "## One side of a proof", "", "| member | what it is |", "|---|---|"]
    lines += rows_of(kinds["proof"], kinds)
    lines += ["", "## One design of a proof", "", "| member | what it is |", "|---|---|"]
    return "\n".join([*lines, *rows_of(kinds["design"], kinds)])


# ---- The papers ---------------------------------------------------------------------------------


def read_papers() -> list[dict[str, Any]]:
    """The papers and their statements, of scripts/papers.toml."""
    found: list[dict[str, Any]] = tomllib.loads(PAPERS.read_text(encoding="utf-8"))["paper"]
    return found


def notes_of(name: str) -> str:
    """What the docstring of a function says of its source, and of what is wrong as published."""
    return sections_of(named(name))[1].get("Notes", "")


def papers() -> str:
    """Every statement of the source papers as Markdown, with what answers it."""
    lines = [MADE, "", "# The papers, item by item", ""]
    lines += ["The function (below `fpmonitor.`) and the command that answer each statement."]
    lines += ["What is wrong in the published version is beside it, and in the notes.", ""]
    lines += ["Reference numbers are in `fixtures/reference/`. `papers.json` is computed from the"]
    lines += ["definitions alone by `fixtures/make_reference.py`.", ""]
    for paper in read_papers():
        lines += [f"## {paper['name']}", "", f"{paper['source']}.", ""]
        lines += [
            "| item | function | command | holds if | published |",
            "|---|---|---|---|---|",
        ]
        for one in paper["items"]:
            called = f"`{one['command']}`" if one["command"] else "–"
            cells = [one["item"], f"`{one['function']}`", called, one["holds"] or "–"]
            lines.append(f"| {' | '.join([*cells, one['print'] or '–'])} |")
        told = [(one["function"], notes_of(one["function"])) for one in paper["items"]]
        notes = [f"**`{name}`** {note}" for name, note in dict(told).items() if note]
        corrections = [f"* {text}" for text in paper.get("corrections", ())]
        lines += ["", "### Notes", "", "\n\n".join(notes), "", *corrections, ""]
    return "\n".join(lines)


def documents() -> dict[Path, str]:
    """Every generated file, with what it should hold."""
    folder = ROOT / "docs" / "reference"
    pages = {"cli": command_line(), "python": library(), "http": service()}
    pages |= {"decision": decision_file(), "papers": papers(), "answers": answers()}
    pages["files"] = files()
    made = {folder / f"{name}.md": text for name, text in pages.items()}
    made = {path: re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n" for path, text in made.items()}
    return made | {ROOT / "docs" / "fpmonitor.1": manual_page()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = {
        path: text
        for path, text in documents().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    for path, text in stale.items():
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    main()
