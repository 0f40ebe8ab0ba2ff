"""The help of a command: two examples, what it does, the options that matter; or all of them."""

from __future__ import annotations

import re
import shutil
import textwrap
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from fpmonitor.cli.examples import EXAMPLES, MATTER
from fpmonitor.cli.table import MERGED
from fpmonitor.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Rows = list[tuple[str, str]]

HELP_ALL = "--help-all"
_FEW = 5
_NARROWEST, _WIDEST = 40, 100
_COLUMN = 26
_DEFAULT = re.compile(r"default: \((.*)\)(?=[;\]])")


class _Plain:
    """Help without frames, which also a narrow terminal, a pipe and a screen reader can take."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        formatter.write("\n".join(_lines(self, ctx, whole=False)) + "\n")


class PlainCommand(_Plain, TyperCommand):
    """A command with such a help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the arguments; `--help-all` is not among the options, which it would only repeat."""
        if HELP_ALL in args[: args.index("--") if "--" in args else None]:
            _print_all(self, ctx)
        return super().parse_args(ctx, args)


class PlainGroup(_Plain, TyperGroup):
    """A group of commands with such a help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the arguments before the command, and its name."""
        if args[:1] == [HELP_ALL]:
            _print_all(self, ctx)
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit()
        path = " ".join([*ctx.command_path.split()[1:], *args[:1]])
        if path in MERGED:
            raise InputError(
                f"{path} is now part of another command", hint=f"`fpmonitor {MERGED[path]}`"
            )
        return super().parse_args(ctx, args)


def _print_all(command: Any, context: Any) -> None:
    typer.echo("\n".join(_lines(command, context, whole=True)))
    context.exit()


def _lines(command: Any, context: Any, *, whole: bool) -> Iterator[str]:
    words = context.command_path
    path = words.removeprefix("fpmonitor").strip()
    if examples := EXAMPLES.get(path):
        yield "Examples:"
        yield from (f"  fpmonitor {example}" for example in examples)
        yield ""
    yield f"Usage: {words} {' '.join(command.collect_usage_pieces(context))}"
    yield ""
    for paragraph in (command.help or "").split("\n\n"):
        yield from textwrap.wrap(" ".join(paragraph.split()), _width())
    records = [(one, one.get_help_record(context)) for one in command.params]
    known = [  # without the brackets around a default in words
        (one, (record[0], _DEFAULT.sub(r"default: \1", record[1])))
        for one, record in records
        if record is not None
    ]
    arguments = [(row[0].split(" <")[0], row[1]) for one, row in known if not _is_option(one)]
    options = {one: row for one, row in known if _is_option(one)}
    shown = list(options) if whole else _that_matter(path, options)
    yield from _table("Arguments", arguments)
    if isinstance(command, TyperGroup):
        yield from _commands(command, context, whole=whole)
    yield from _table("Options", [options[one] for one in shown])
    left = len(options) - len(shown)
    yield ""
    if isinstance(command, TyperGroup):
        yield f"More: {words} COMMAND --help" + (f"; {words} {HELP_ALL}" if not whole else "")
    elif left:
        yield f"{left} more options: {words} {HELP_ALL}"


def _is_option(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "option")


def _that_matter(path: str, options: Iterable[Any]) -> list[Any]:
    """Options that a command needs, and those that the examples name for it; else the first."""
    known = list(options)
    needed = [one for one in known if one.required]
    named = [one for name in MATTER.get(path, "").split() for one in known if name in one.opts]
    chosen = needed + [one for one in named or known if one not in needed]
    return chosen[: max(_FEW, len(needed))]


def _commands(group: Any, context: Any, *, whole: bool) -> Iterator[str]:
    titles: dict[str, Rows] = {}
    for name in group.list_commands(context):
        below = group.get_command(context, name)
        if whole:
            titles.setdefault("Commands", []).extend(_all_below(below, name))
        elif not below.hidden:
            title = getattr(below, "rich_help_panel", None) or "Commands"
            titles.setdefault(title, []).append((name, _first_sentence(below.help or "")))
    for title, rows in titles.items():
        yield from _table(title, rows)


def _all_below(command: Any, words: str) -> Rows:
    """Every command in a group, and the modes of each."""
    rows: Rows = []
    loaded = command.load() if hasattr(command, "load") else command
    if isinstance(loaded, TyperGroup):
        for name, one in loaded.commands.items():
            rows += _all_below(one, f"{words} {name}")
        return rows
    rows.append((words, _first_sentence(command.help or "")))
    for mode in command.modes() if hasattr(command, "modes") else ():
        rows.append((f"{words} {mode.entry.name}", _first_sentence(mode.help)))
    return rows


def _first_sentence(text: str) -> str:
    return " ".join(text.split("\n\n", maxsplit=1)[0].split())


def _table(title: str, rows: Rows) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield f"{title}:"
    widest = min(_COLUMN, max(len(name) for name, _ in rows))
    indent = " " * (widest + 4)
    for name, about in rows:
        lines = textwrap.wrap(about, _width() - len(indent)) or [""]
        if len(name) > widest:
            yield f"  {name}"
        else:
            yield f"  {name:{widest}}  {lines.pop(0)}".rstrip()
        yield from (indent + line for line in lines)


def _width() -> int:
    # A terminal may say that it has no columns, and the indented text needs some beside its indent.
    return min(_WIDEST, max(shutil.get_terminal_size().columns, _NARROWEST))
