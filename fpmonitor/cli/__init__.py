"""Command line: one file per command family; parses, calls, prints."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from contextlib import suppress
from contextvars import Context, copy_context
from functools import cache
from typing import TYPE_CHECKING, Any

import typer

from fpmonitor.cli.commands import LazyCommand, name_values
from fpmonitor.cli.context import INVOCATION, Invocation
from fpmonitor.cli.help import PlainGroup
from fpmonitor.cli.options import (
    FOR_OTHERS_OPTION,
    HIDE_BELOW_OPTION,
    KEY_FILE_OPTION,
    VERSION,
    WAIT,
)
from fpmonitor.cli.settings import Settings
from fpmonitor.cli.spellings import position_of_command, understood
from fpmonitor.cli.subject import UNIT
from fpmonitor.cli.table import FIRST, GROUPS, MOVED
from fpmonitor.errors import FpmonitorError, UnitError
from fpmonitor.export.exporter import printable
from fpmonitor.policy import HIDE_BELOW_VARIABLE
from fpmonitor.unit import spoken

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from typer.core import TyperGroup

EXIT_USAGE = 2
EXIT_BUG = 70
EXIT_INTERRUPTED = 130


def _options(
    version: VERSION = False,
    wait: WAIT = 10.0,
    key_file: KEY_FILE_OPTION = None,
    for_others: FOR_OTHERS_OPTION = False,
    hide_below: HIDE_BELOW_OPTION = None,
) -> None:
    del version
    if hide_below is not None:
        os.environ[HIDE_BELOW_VARIABLE] = str(hide_below)
    INVOCATION.set(Invocation(for_others=for_others, key_file=key_file, wait=wait))


@cache
def command_tree() -> TyperGroup:
    """Return the command `fpmonitor`, with all commands below it."""
    app = typer.Typer(
        name="fpmonitor",
        help="Which browser APIs may a site read together, and how many users does that expose?",
        cls=PlainGroup,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    tree: TyperGroup = name_values(typer.main.get_command(app))
    for panel, among in (("Commands", FIRST), ("Groups", GROUPS)):
        for entry in among:
            tree.add_command(LazyCommand(entry, panel=panel))
    return tree


def main() -> None:
    """Entry point of the console script."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it may be ignored
        signal.signal(signal.SIGINT, _interrupt)
    sys.exit(run(sys.argv[1:]))


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Without it no query runs, and an import would be one more thing to interrupt.
    connections = sys.modules.get("fpmonitor.duckdb_connection")
    if connections is not None:
        connections.interrupt_queries()
    signal.default_int_handler(number, frame)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; without arguments, print the help.

    Every ending is mapped here: an exception that escaped, or typer's own way with an interrupt,
    would end with 1, which means that a gate failed.
    """
    context = copy_context()
    debug = "--debug" in arguments or bool(os.environ.get("FPMONITOR_DEBUG"))
    arguments = [argument for argument in arguments if argument != "--debug"] or ["--help"]
    try:
        outcome = _outcome(arguments, context)
    except (typer.Abort, KeyboardInterrupt):
        outcome = EXIT_INTERRUPTED
    except FpmonitorError as error:
        if debug:
            traceback.print_exc()
        unit = "user" if isinstance(error, UnitError) else context.get(UNIT, "user")
        said = spoken(str(error), unit)
        _tell(f"error: {printable(said)}")
        return error.exit_code
    except typer.TyperException as error:
        # pydantic, by which typer reads choices, begins its messages with the kind of its error.
        message = error.format_message().replace(": Value error, ", ": ", 1)
        if not message:  # a group without a command has printed its help
            return 0
        _tell(f"error: {printable(message)}")
        return EXIT_USAGE
    except BrokenPipeError:
        # Python flushes stdout as it ends, and would print here that nobody reads it.
        sys.stderr.close()
        return 0
    except Exception:  # noqa: BLE001 -- a bug must not exit 1, which means that a gate failed
        traceback.print_exc()
        print("fpmonitor: this is a bug in fpmonitor; please report it", file=sys.stderr)
        return EXIT_BUG
    if outcome == EXIT_INTERRUPTED:
        _tell("interrupted")
    return outcome if isinstance(outcome, int) else 0


def _tell(text: str) -> None:
    with suppress(BrokenPipeError):  # nobody reads it; the exit code says the same
        print(f"fpmonitor: {text}", file=sys.stderr)


def _outcome(arguments: Sequence[str], context: Context) -> Any:
    tree = command_tree()
    settings = Settings.read(tree)
    takes_value = {
        spelling: not getattr(option, "is_flag", False)
        for option in tree.params
        for spelling in option.opts
    }
    command = position_of_command(arguments, takes_value)
    for moved in {*arguments[command : command + 1]} & MOVED.keys():
        _tell(f"{moved} is now: fpmonitor {MOVED[moved]}")
    arguments = understood(arguments, tree.commands, takes_value)
    hidden = os.environ.get(HIDE_BELOW_VARIABLE)
    try:
        # In a context of its own: the patience of this command is not that of the next one.
        return context.run(
            tree.main,
            list(arguments),
            prog_name="fpmonitor",
            standalone_mode=False,
            obj=settings,
            default_map=settings.root_defaults(),
        )
    finally:  # nor is what it hides
        os.environ.pop(HIDE_BELOW_VARIABLE, None)
        if hidden is not None:
            os.environ[HIDE_BELOW_VARIABLE] = hidden
