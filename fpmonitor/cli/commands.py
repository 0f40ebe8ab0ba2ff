"""Commands by the table; the module of a command is loaded when the command is used."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache, wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from fpmonitor.cli.help import PlainCommand, PlainGroup
from fpmonitor.cli.settings import Settings
from fpmonitor.cli.table import Entry
from fpmonitor.errors import RefusedError

_WORDS = {bool: "", datetime: "TIME", float: "NUMBER", int: "N", Path: "FILE", str: "TEXT"}
_WORDS_BY_NAME = {
    **dict.fromkeys(
        ["--apis", "--candidates", "--given", "--have", "--must", "--never", "--want"], "A,B,..."
    ),
    **dict.fromkeys(["--every", "--settle", "--time-limit"], "SECONDS"),
    **dict.fromkeys(["--accuracy", "--alpha", "--false-alarms", "--suspicion"], "SHARE"),
    **dict.fromkeys(["--from", "--to"], "FORMAT"),
    "--address": "URL",
    "--host": "ADDRESS",
    "--report-to": "URL",
    "--site": "SITE",
    "name": "NAME",
    "paths": "LOG",
}
_HELP = frozenset(("-h", "--help", "--help-all"))
# `check --compare` opens databases that are arguments. Of commands with an option `db` those of
# `_TELL_NOTHING` give no exact figure of users, but for those of `_TELL` among them.
_TELL_WITHOUT_DB = frozenset(("check --compare",))
_KEPT = "--by"  # an option of the mode itself
_TELL = frozenset(("db apis", "db questions", "db automation"))
_TELL_NOTHING = frozenset(("ingest", "db", "scale convert", "collect keys", "collect serve")) | {
    "audit queries"
}


class LazyCommand(TyperCommand):
    """The line of a command in the help; loads the command itself to run it.

    `group` names the groups that it is in, from the outermost on; `panel` of the help shows it.
    """

    def __init__(self, entry: Entry, group: tuple[str, ...] = (), panel: str | None = None) -> None:
        super().__init__(entry.name, help=entry.help, hidden=entry.hidden, rich_help_panel=panel)
        self.entry = entry
        self.path = (*group, entry.name)

    def load(self) -> Any:
        """Return the command, or the group of commands, with its options."""
        return _made(self.entry, self.path)

    def modes(self) -> list[LazyCommand]:
        """Return the commands that an option of this one stands for."""
        return [LazyCommand(mode, self.path) for mode in self.entry.modes]

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Parse the arguments of the command, with the defaults of the settings file."""
        for mode in self.modes():
            rest = _without(mode.entry, args)
            if rest is not None:
                return mode.make_context(f"{info_name} {mode.entry.name}", rest, parent, **extra)
        command = self.load()
        settings = None if parent is None else parent.find_object(Settings)
        self._refuse_uncounted(command, args, settings)
        if settings is not None:
            modes = {mode.name.removeprefix("--") for mode in self.entry.modes}
            extra["default_map"] = settings.defaults(command, self.path, modes)
        return command.make_context(info_name, args, parent, **extra)

    def _refuse_uncounted(self, command: Any, args: list[str], settings: Settings | None) -> None:
        """Refuse exact figures to a named reader for whom they would not be counted."""
        shared = None if settings is None else settings.shared.get("reader")
        reader = os.environ.get("FPMONITOR_READER") or shared
        path = self.path
        while isinstance(command, TyperGroup):
            name = next((word for word in args if word in command.commands), None)
            if name is None:
                return
            command, path = command.commands[name], (*path, name)
        said = " ".join(path)
        names = {parameter.name for parameter in command.params}
        tells = "db" in names or said in _TELL_WITHOUT_DB
        silent = not _TELL_NOTHING.isdisjoint((said, path[0], " ".join(path[:2])))
        counts = "reader" in names or (silent and said not in _TELL)
        if reader and tells and not counts and not _HELP.intersection(args):
            raise RefusedError(
                f"{said}: the exact figures of this command are not counted for {reader}",
                hint="unset FPMONITOR_READER, or `reader` in the settings, to ask as the owner",
            )


@cache
def _made(entry: Entry, path: tuple[str, ...]) -> Any:
    if entry.below:
        return group_of(entry.name, entry.help, [LazyCommand(one, path) for one in entry.below])
    module, _, attribute = entry.home.partition(":")
    found = getattr(_loaded(module), attribute)
    if isinstance(found, typer.Typer):
        for command in found.registered_commands:
            command.callback = spread(command.callback)
            command.cls = PlainCommand
        commands = typer.main.get_group(found).commands.values()
        return group_of(entry.name, entry.help, [name_values(below) for below in commands])
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(entry.name, cls=PlainCommand)(marked(spread(found), entry.modes))
    return name_values(typer.main.get_command(alone))


def _loaded(module: str) -> ModuleType:
    """Load a module, and look for garbage later: there is none, and looking took an eighth."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return import_module(module)
    finally:
        if was_enabled:
            gc.enable()


def name_values(command: Any) -> Any:
    """Show a word for the values of options in the help, where an option names none itself."""
    for parameter in command.params:
        kind = parameter.type_descriptor.annotation
        kind = get_args(kind)[0] if get_origin(kind) is list else kind
        if parameter.metavar is None:
            if kind in {float, str}:
                parameter.metavar = _WORDS_BY_NAME.get(parameter.opts[0])
            if kind is Path or parameter.param_type_name == "option":
                parameter.metavar = parameter.metavar or _WORDS.get(kind)
    return command


def spread(command: Any) -> Any:
    """Return a command with an option for each field of its parameters that are dataclasses.

    So commands share groups of options: the fields are annotated as the options are.
    """
    hints = get_type_hints(command)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    if not groups:
        return command

    @wraps(command)
    def called(**given: Any) -> Any:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        return command(**given)

    parameters: list[Parameter] = []
    for parameter in signature(command, eval_str=True).parameters.values():
        if parameter.name in groups:
            group = signature(groups[parameter.name])
            hints = get_type_hints(groups[parameter.name], include_extras=True)
            parameters += [
                one.replace(annotation=hints[one.name]) for one in group.parameters.values()
            ]
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
    return _declared(called, parameters)


def marked(command: Any, modes: Sequence[Entry]) -> Any:
    """Return a command with an option for each of its modes, which is never given to it."""
    if not modes:
        return command

    @wraps(command)
    def called(**given: Any) -> Any:
        return command(**{name: value for name, value in given.items() if name not in names})

    names: set[str] = set()
    parameters = list(signature(command).parameters.values())
    for mode in modes:
        name = mode.name.removeprefix("--")
        option = typer.Option(mode.name, help=mode.docstring, metavar=mode.takes or None)
        kind: Any = Annotated[str | None if mode.takes else bool, option]
        default = None if mode.takes else False
        names.add(name)
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind))
    return _declared(called, parameters)


def _declared(command: Any, parameters: Sequence[Parameter]) -> Any:
    """Return a command with the parameters that typer is to read of it."""
    command.__signature__ = Signature(parameters)
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _without(mode: Entry, arguments: list[str]) -> list[str] | None:
    """Arguments of a mode of a command; None if they do not ask for it."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for place, word in enumerate(arguments[:end]):
        name, _, value = word.partition("=")
        if name == mode.name:
            replacement = [word] if mode.name == _KEPT else [value] if value else []
            return [*arguments[:place], *replacement, *arguments[place + 1 :]]
    return None


def group_of(name: str, about: str, commands: Sequence[TyperCommand]) -> PlainGroup:
    """Return a group of commands."""
    return PlainGroup(name=name, help=about, commands=list(commands), no_args_is_help=True)
