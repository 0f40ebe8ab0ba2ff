"""Defaults of options from `fpmonitor.toml`, checked against the options of the commands."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec
from typer.core import TyperGroup
from typer.models import OptionInfo

from fpmonitor.cli import options
from fpmonitor.cli.table import MERGED, MOVED
from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.safe_files import read_toml

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    import typer

SETTINGS_FILE = Path("fpmonitor.toml")
# A folder may come from anybody: its file says what is asked, and not what is run, written, told
# or sent.
_NOT_FROM_A_FILE = frozenset(
    ("command", "engine", "host", "output", "plot", "relay", "svg", "unsafe-counts", "verdicts")
) | {"webhook", "write", "write-spectra"}
_OF_SAMPLE = ("bias", "strata", "fake-share", "cluster")
_ALIKE: Mapping[tuple[str, ...], str] = {
    ("watch",): "ingest"
}  # a command that reads logs as another one does


def is_only_set(context: typer.Context, option: str) -> bool:
    """Whether an option has its value from the settings file alone.

    Where such an option does not apply, it is passed over: it was set for other commands.
    """
    source = context.get_parameter_source(option.replace("-", "_"))
    return source is not None and source.name == "DEFAULT_MAP"


@dataclass(frozen=True)
class Settings:
    """The settings file."""

    shared: Mapping[str, Any]  # Settings at the top, for all commands that have the option.
    tables: Mapping[str, Any]  # One table per command, or per group of commands.
    root: TyperGroup  # The command `fpmonitor`, with all commands below it.

    @classmethod
    def read(cls, root: TyperGroup) -> Settings:
        """Read the file of the working folder, if there is one.

        Raises:
            InputError: The file cannot be read, is not TOML, or has a table that is not a command.
        """
        try:
            content = read_toml(SETTINGS_FILE, "settings") if SETTINGS_FILE.is_file() else {}
        except OSError as error:
            raise InputError(
                f"cannot look for {SETTINGS_FILE} ({error.strerror})",
                hint="work in a folder that you may read",
            ) from error
        shared = {name: value for name, value in content.items() if not isinstance(value, dict)}
        tables = {name: value for name, value in content.items() if isinstance(value, dict)}
        for name in tables:
            if name in MOVED:
                raise InputError(f"{SETTINGS_FILE}: [{name}]: the command is now: {MOVED[name]}")
            _check_name("command", name, root.commands)
        return cls(_by_option(shared), tables, root)

    def root_defaults(self) -> dict[str, Any]:
        """Return the defaults of the options before the command."""
        return _defaults(_settable(self.root), self.shared)

    def defaults(
        self, command: Any, path: tuple[str, ...], modes: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return the defaults of a command, or of all commands of a group.

        Args:
            command: The command, loaded.
            path: Its name, after those of its groups.
            modes: Its modes, which have tables of their own within that of the command.
        """
        table: Any = self.tables
        path = tuple(name.removeprefix("--") for name in path)
        for name in path:
            table = table.get(name, {}) if isinstance(table, dict) else table
        if isinstance(table, dict):
            table = {name: value for name, value in table.items() if name not in modes}
        return self._of(command, path, table)

    def _of(self, command: Any, path: tuple[str, ...], table: Any) -> dict[str, Any]:
        title = f"[{'.'.join(path)}]"
        if not isinstance(table, dict):
            raise InputError(f"{SETTINGS_FILE}: {title} must be a table of settings")
        if isinstance(command, TyperGroup):
            for name in table:
                if now := MERGED.get(" ".join((*path, name))):
                    raise InputError(f"{SETTINGS_FILE}: [{'.'.join((*path, name))}]: now {now}")
                _check_name(f"command in {title}", name, command.commands)
            # A lazy command is checked when it is loaded.
            return {
                name: self._of(below, (*path, name), table.get(name, {}))
                for name, below in command.commands.items()
                if not hasattr(below, "load")
            }
        known = _settable(command)
        own = _by_option(table, f"{title} ")
        for name in own:
            _check_name(f"setting in {title}", name, known)
        for name in self.shared.keys() - known.keys() - _COMMON:
            _check_name("setting", name, self._known)
        if not known.keys().isdisjoint(("population", *_OF_SAMPLE)):
            self._check_sample(known, " ".join(path))
        alike = _ALIKE.get(path, "")
        return (
            # The later ones win: what is set for a command beats what is set for all.
            _defaults(known, self.shared)
            | _defaults(known, _by_option(self.tables.get(alike, {})), f"[{alike}] ")
            | _defaults(known, own, f"{title} ")
        )

    def _check_sample(self, known: Mapping[str, Any], command: str) -> None:
        """Refuse to tell of a population as if the users were no other sample than was said."""
        for name in _OF_SAMPLE:
            if name in self.shared and name not in known:
                raise InputError(
                    f"{SETTINGS_FILE}: {name} is set for all commands, and {command} cannot reckon "
                    "with it",
                    hint=f"set {name} in the tables of the commands that have it, as in [decide]",
                )

    @cached_property
    def _known(self) -> frozenset[str]:
        """Settings that may stand at the top: all commands are loaded for that, once."""
        return frozenset({*_COMMON, *_settable(self.root), *_all_settable(self.root)})


def _check_name(kind: str, name: str, known: Any) -> None:
    if name not in known:
        unknown = UnknownNameError(kind, name, known)
        raise InputError(f"{SETTINGS_FILE}: {unknown.message}", hint=unknown.hint)


def _by_option(table: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Return settings by the names of their options: `query_limit` is `query-limit`."""
    found = {name.replace("_", "-"): value for name, value in table.items()}
    if len(found) < len(table):
        raise InputError(f"{SETTINGS_FILE}: {where}has a setting in both spellings")
    return found


def _settable(command: Any) -> dict[str, Any]:
    """Parameters of a command by the names of their options, or of the arguments."""
    found = {}
    for parameter in command.params:
        if not parameter.is_eager:
            names = [name[2:] for name in parameter.opts if name.startswith("--")]
            for name in names or [parameter.name.replace("_", "-")]:
                found[name] = parameter
    return found


def settable_of(command: Any) -> dict[str, Any]:
    """Return the JSON Schema of each setting of a command, as `_value` takes it."""
    found = {}
    for name, parameter in _settable(command).items():
        if name in _NOT_FROM_A_FILE:
            continue
        described = parameter.type_descriptor
        kind = described.annotation
        made = msgspec.json.schema(kind, schema_hook=lambda _kind: {"type": "string"})
        if described.is_list or described.parameter_info.parser is not None:
            made = {"anyOf": [made, {"type": "string"}]}
        found[name] = made
    return found


def _all_settable(group: Any) -> Iterator[str]:
    below: Any
    for below in group.commands.values():
        if hasattr(below, "modes"):
            for mode in below.modes():
                yield from _settable(mode.load())
        command: Any = below.load() if hasattr(below, "load") else below
        if isinstance(command, TyperGroup):
            yield from _all_settable(command)
        else:
            yield from _settable(command)


def _defaults(
    known: Mapping[str, Any], settings: Mapping[str, Any], where: str = ""
) -> dict[str, Any]:
    return {
        known[name].name: _value(known[name], value, f"{where}{name}")
        for name, value in settings.items()
        if name in known
    }


def _value(parameter: Any, value: Any, what: str) -> Any:
    """Check the type of a value; its range is checked like that of an option."""
    name = what.rpartition(" ")[2]
    # Whatever the option: an address is where something is fetched from, or sent to.
    if name in _NOT_FROM_A_FILE or (isinstance(value, str) and "://" in value):
        raise InputError(
            f"{SETTINGS_FILE}: {what}: a folder that may come from anybody does not set this",
            hint=f"give --{name} on the command line",
        )
    kind = parameter.type_descriptor.annotation
    if kind is datetime and isinstance(value, date):
        return value.isoformat()
    if parameter.type_descriptor.is_list and isinstance(value, str):
        return [value]
    if parameter.type_descriptor.parameter_info.parser is not None and isinstance(value, str):
        return value  # as on the command line
    try:
        msgspec.convert(value, str if kind in {Path, datetime} else kind)
    except msgspec.ValidationError as error:
        message = str(error).replace("`", "")
        raise InputError(f"{SETTINGS_FILE}: {what}: {message[0].lower()}{message[1:]}") from error
    return value


def _names_of(alias: Any) -> Iterator[str]:
    for part in get_args(alias)[1:]:
        if isinstance(part, OptionInfo):
            # In an annotation typer takes the first name for the default.
            names = (part.default, *(part.param_decls or ()))
            yield from (str(name)[2:] for name in names if str(name).startswith("--"))


# Options that many commands have: a command that lacks one need not load the others to know it.
_COMMON = frozenset(name for alias in vars(options).values() for name in _names_of(alias))
