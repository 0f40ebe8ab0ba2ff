"""The command `schema`: JSON Schemas of the files that people write, and of decisions.

They are made from the types that read the files, so that an editor says what a command would.
"""

from __future__ import annotations

import json
from importlib import import_module, resources
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from fpmonitor.cli.options import OUTPUT
from fpmonitor.cli.output import emit
from fpmonitor.cli.settings import settable_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typer.core import TyperGroup

Name = Literal["decision", "columns", "levels", "policy", "settings", "shares", "transforms"]
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
# By name: the schema of decisions needs none of them.
_ABOUT: Mapping[str, tuple[str, str]] = {
    "columns": ("logs.column_map:MapFile", "Column map of `fpmonitor ingest --columns`."),
    "levels": ("population.levels:LevelsFile", "Levels of `fpmonitor decide --levels`."),
    "policy": (
        "decide.questions:PolicyFile",
        "A question that is registered before the first user.",
    ),
    "shares": ("question:SharesFile", "Known shares of strata, of `--strata`."),
    "transforms": (
        "store.transforms:Transforms",
        "What APIs could return instead, of `--what-if`.",
    ),
}


def schema(
    name: Annotated[Name, typer.Argument(help="Whose schema.", metavar="FILE")] = "decision",
    *,
    context: typer.Context,
    output: OUTPUT = None,
) -> None:
    """Print the JSON Schema of decision files, or of a file that people write."""
    if name == "decision":
        found = resources.files("fpmonitor.export") / "decision.schema.json"
        emit(found.read_text(encoding="utf-8"), output)
        return
    content = _settings(context.find_root().command) if name == "settings" else _of(name)
    emit(json.dumps({"$schema": _DIALECT, **content}, indent=2) + "\n", output)


def _of(name: str) -> dict[str, Any]:
    home, about = _ABOUT[name]
    module, _, attribute = home.partition(":")
    kind = getattr(import_module(f"fpmonitor.{module}"), attribute)
    made = json.loads(json.dumps(msgspec.json.schema(kind)))
    reference = made.pop("$ref", None)
    if reference is not None:  # the file itself, rather than a name for it
        made |= made["$defs"].pop(reference.rpartition("/")[2])
    return {**made, "title": name, "description": about}


def _settings(root: Any) -> dict[str, Any]:
    """Return the schema of fpmonitor.toml: options, at the top and in a table for each command."""
    tables = _tables(root)
    shared = _flat(tables)
    return {
        "title": "settings",
        "description": "Defaults of options, in fpmonitor.toml.",
        "type": "object",
        # `db` is an option, and a group of commands.
        "properties": {
            **shared,
            **{
                name: {"anyOf": [shared[name], table]} if name in shared else table
                for name, table in tables["properties"].items()
            },
        },
        "additionalProperties": False,
    }


def _tables(group: TyperGroup) -> dict[str, Any]:
    found = {}
    for name, below in group.commands.items():
        command: Any = below.load() if hasattr(below, "load") else below
        if hasattr(command, "commands"):
            found[name] = _tables(command)
        else:
            # Modes have tables of their own within that of the command.
            own = _spelled(settable_of(command))
            for mode in below.modes() if hasattr(below, "modes") else ():
                inner = _spelled(settable_of(mode.load()))
                own[mode.name.removeprefix("--")] = {
                    "type": "object",
                    "properties": inner,
                    "additionalProperties": False,
                }
            found[name] = {"type": "object", "properties": own, "additionalProperties": False}
    return {"type": "object", "properties": found, "additionalProperties": False}


def _flat(table: dict[str, Any]) -> dict[str, Any]:
    """Return all options of all tables, which may stand at the top."""
    found: dict[str, Any] = {}
    for name, below in table["properties"].items():
        found |= _flat(below) if below.get("type") == "object" else {name: below}
    return found


def _spelled(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings in both spellings, as files may have them."""
    return {
        spelling: kind
        for name, kind in settings.items()
        for spelling in dict.fromkeys((name, name.replace("-", "_")))
    }
