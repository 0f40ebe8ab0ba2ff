"""The commands by panel; the module of a command is loaded when the command is used."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from fpmonitor.cli.settings import Settings
from fpmonitor.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping


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
_HELP = frozenset(("-h", "--help"))
_TELL_WITHOUT_DB = frozenset(("compare",))
_TELL_NOTHING = frozenset(("ingest", "convert", "db", "keys", "serve", "audit queries"))
_ANYWHERE = re.MULTILINE | re.DOTALL


@dataclass(frozen=True, slots=True)
class Entry:
    """A command in the help of the group above it.

    Attributes
    ----------
    name
        What the user types.
    home
        `module:name`, of a function or of a `typer.Typer` with commands.
    about
        Help of a group; that of a function is its docstring.
    """

    name: str
    home: str
    about: str = ""

    @property
    def help(self) -> str:
        """What the command does, in one line; no module is imported for it."""
        if self.about:
            return self.about
        module, _, function = self.home.partition(":")
        [docstring] = re.findall(
            rf'^def {function}\(.*?^    """(.*?)"""', _source(module), _ANYWHERE
        )
        return " ".join(docstring.split())


@cache
def _source(module: str) -> str:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(module)
    return Path(spec.origin).read_text(encoding="utf-8")


PANELS: Mapping[str, tuple[Entry, ...]] = {
    "Start": (
        Entry("ui", "fpmonitor.cli.ui:ui"),
        Entry("quickstart", "fpmonitor.cli.start:quickstart"),
        Entry("ingest", "fpmonitor.cli.data:ingest"),
        Entry("apis", "fpmonitor.cli.data:apis"),
        Entry("decide", "fpmonitor.cli.questions:decide"),
        Entry("report", "fpmonitor.cli.report:report"),
    ),
    "Measure": (
        Entry("exposure", "fpmonitor.cli.questions:exposure"),
        Entry("rank", "fpmonitor.cli.statistics:rank"),
        Entry("curve", "fpmonitor.cli.statistics:curve"),
        Entry("shares", "fpmonitor.cli.shares:shares"),
        Entry("questions", "fpmonitor.cli.questions:questions"),
        Entry("demand", "fpmonitor.cli.demand:demand"),
        Entry("automation", "fpmonitor.cli.demand:automation"),
        Entry("mcp", "fpmonitor.cli.ui:mcp"),
        Entry("plot", "fpmonitor.cli.report:plot"),
    ),
    "Enforce": (
        Entry("gate", "fpmonitor.cli.gate:gate"),
        Entry("export", "fpmonitor.cli.lists:export"),
        Entry("preview", "fpmonitor.cli.effects:preview"),
        Entry("plan", "fpmonitor.cli.effects:plan"),
        Entry("scripts", "fpmonitor.cli.demand:scripts"),
        Entry("import", "fpmonitor.cli.effects:import_list"),
        Entry("targets", "fpmonitor.cli.lists:targets"),
        Entry("schema", "fpmonitor.cli.schemas:schema"),
    ),
    "Monitor": (
        Entry("check", "fpmonitor.cli.monitoring:check"),
        Entry("trend", "fpmonitor.cli.monitoring:trend"),
        Entry("watch", "fpmonitor.cli.monitoring:watch"),
        Entry("compare", "fpmonitor.cli.report:compare"),
    ),
    "Publish and protect": (
        Entry("release", "fpmonitor.cli.release:release"),
        Entry(
            "audit",
            "fpmonitor.cli.release:audit",
            "What a release reveals, and whether a decision is proved.",
        ),
        Entry(
            "ldp",
            "fpmonitor.private.commands.ldp:app",
            "Local differential privacy: what randomised reports reveal, and how useful they are.",
        ),
        Entry(
            "private",
            "fpmonitor.private.commands.app:app",
            "Collection without a joint record: users, shuffler, curator, analyst.",
        ),
    ),
    "Collect": (
        Entry("serve", "fpmonitor.cli.serve:serve"),
        Entry(
            "keys",
            "fpmonitor.cli.serve:keys",
            "Manage the write keys and read tokens of the service.",
        ),
        Entry("snippet", "fpmonitor.private.commands.page:snippet"),
        Entry("log-line", "fpmonitor.cli.log_line:log_line"),
    ),
    "Beyond one computer": (
        Entry("convert", "fpmonitor.cli.snapshots:convert_logs"),
        Entry("snapshot", "fpmonitor.cli.snapshots:snapshot"),
        Entry("sample", "fpmonitor.cli.snapshots:sample"),
        Entry(
            "sketch",
            "fpmonitor.cli.sketch:app",
            "Sketches: few values by a secret hash, all of their users; for 10^8 users and more.",
        ),
    ),
    "Database": (
        Entry(
            "db",
            "fpmonitor.cli.commands:database",
            "Inspect, check, move, encrypt and clean up a database.",
        ),
    ),
}
DATABASE = (
    Entry("batches", "fpmonitor.cli.data:batches"),
    Entry("rejects", "fpmonitor.cli.data:rejects"),
    Entry("verify", "fpmonitor.cli.upkeep:verify"),
    Entry("forget", "fpmonitor.cli.upkeep:forget"),
    Entry("compact", "fpmonitor.cli.upkeep:compact"),
    Entry("views", "fpmonitor.cli.upkeep:views"),
    Entry("copy-out", "fpmonitor.cli.transfer:copy_out"),
    Entry("copy-in", "fpmonitor.cli.transfer:copy_in"),
    Entry("make-key", "fpmonitor.cli.sealing:make_key"),
    Entry("seal", "fpmonitor.cli.sealing:seal"),
    Entry("open", "fpmonitor.cli.sealing:open_sealed"),
)


class LazyCommand(TyperCommand):
    """The line of a command in the help; loads the command itself to run it.

    `group` names the groups that it is in, from the outermost on; `panel` of the help shows it.
    """

    def __init__(self, entry: Entry, group: tuple[str, ...] = (), panel: str | None = None) -> None:
        super().__init__(entry.name, help=entry.help, rich_help_panel=panel)
        self.entry = entry
        self.path = (*group, entry.name)

    def load(self) -> Any:
        """Return the command, or the group of commands, with its options."""
        module, _, attribute = self.entry.home.partition(":")
        found = getattr(import_module(module), attribute)
        if isinstance(found, typer.Typer):
            for command in found.registered_commands:
                command.callback = spread(command.callback)
            found = typer.main.get_group(found)
        if isinstance(found, TyperGroup):
            found.help = self.help
            for below in found.commands.values():
                name_values(below)
            return found
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(self.entry.name)(spread(found))
        return name_values(typer.main.get_command(alone))

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Parse the arguments of the command, with the defaults of the settings file."""
        command = self.load()
        settings = None if parent is None else parent.find_object(Settings)
        self._refuse_uncounted(command, args, settings)
        if settings is not None:
            extra["default_map"] = settings.defaults(command, self.path)
        return command.make_context(info_name, args, parent, **extra)

    def _refuse_uncounted(self, command: Any, args: list[str], settings: Settings | None) -> None:
        """Refuse exact figures to a named reader for whom they would not be counted.

        Raises
        ------
        RefusedError
            A reader is named for all commands, and this one opens a database and counts nothing.
        """
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
        counts = "reader" in names or said in _TELL_NOTHING or path[0] in _TELL_NOTHING
        if reader and tells and not counts and not _HELP.intersection(args):
            raise RefusedError(
                f"{said}: the exact figures of this command are not counted for {reader}",
                hint="unset FPMONITOR_READER, or `reader` in the settings, to ask as the owner",
            )


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
    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called


database = TyperGroup(
    name="db", commands=[LazyCommand(entry, ("db",)) for entry in DATABASE], no_args_is_help=True
)
