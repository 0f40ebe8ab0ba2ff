"""Command line: one file per command family; parses, calls, prints."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from contextvars import copy_context
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import typer

from fpmonitor.cli import (
    data,
    demand,
    effects,
    lists,
    monitoring,
    questions,
    release,
    report,
    sealing,
    serve,
    start,
    statistics,
    transfer,
    upkeep,
)
from fpmonitor.cli.options import FOR_OTHERS_OPTION, KEY_FILE_OPTION, VERSION, WAIT
from fpmonitor.cli.output import note
from fpmonitor.disclosure import FOR_OTHERS
from fpmonitor.duckdb_connection import interrupt_queries
from fpmonitor.errors import FpmonitorError, InputError
from fpmonitor.export.exporter import printable
from fpmonitor.safe_files import read_toml
from fpmonitor.store.encryption import KEY_FILE
from fpmonitor.store.files import PATIENCE, Patience

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

EXIT_USAGE = 2
EXIT_BUG = 70
EXIT_INTERRUPTED = 130
SETTINGS_FILE = "fpmonitor.toml"

app = typer.Typer(
    name="fpmonitor",
    help="Which combinations of browser APIs stay k-anonymous, with a guarantee.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("quickstart")(start.quickstart)
app.command("ingest")(data.ingest)
app.command("batches")(data.batches)
app.command("rejects")(data.rejects)
app.command("apis")(data.apis)
app.command("exposure")(questions.exposure)
app.command("demand")(demand.demand)
app.command("automation")(demand.automation)
app.command("log-line")(demand.log_line)
app.command("rank")(statistics.rank)
app.command("curve")(statistics.curve)
app.command("decide")(questions.decide)
app.command("gate")(questions.gate)
app.command("check")(monitoring.check)
app.command("trend")(monitoring.trend)
app.command("watch")(monitoring.watch)
app.command("report")(report.report)
app.command("plot")(report.plot)
app.command("compare")(report.compare)
app.command("export")(lists.export)
app.command("preview")(effects.preview)
app.command("plan")(effects.plan)
app.command("import")(effects.import_list)
app.command("targets")(lists.targets)
app.command("schema")(lists.schema)
app.command("snippet")(resolve_name("fpmonitor.private.commands.page:snippet"))
app.command("release")(release.release)
app.add_typer(release.audit, name="audit")
app.command("verify")(upkeep.verify)
app.command("forget")(upkeep.forget)
app.command("compact")(upkeep.compact)
app.command("make-key")(sealing.make_key)
app.command("seal-file")(sealing.seal_file)
app.command("open-file")(sealing.open_file)
app.command("export-data")(transfer.export_data)
app.command("import-data")(transfer.import_data)
app.command("serve")(serve.serve)
app.add_typer(serve.keys, name="keys")

# Of the room above: named, as nothing here knows it.
app.add_typer(resolve_name("fpmonitor.private.commands.ldp:app"), name="ldp")
app.add_typer(resolve_name("fpmonitor.private.commands.app:app"), name="private")


@app.callback()
def _main(
    version: VERSION = False,
    wait: WAIT = 10.0,
    key_file: KEY_FILE_OPTION = None,
    for_others: FOR_OTHERS_OPTION = False,
) -> None:
    del version
    KEY_FILE.set(key_file)
    if for_others:
        FOR_OTHERS.set(True)
    PATIENCE.set(Patience(wait, note))


def main() -> None:
    """Entry point of the console script."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it may be ignored
        signal.signal(signal.SIGINT, _interrupt)
    sys.exit(run(sys.argv[1:]))


def _interrupt(number: int, frame: FrameType | None) -> None:
    interrupt_queries()
    signal.default_int_handler(number, frame)


def run(arguments: Sequence[str]) -> int:
    """Run one command and give its exit code.

    Every ending is mapped here: an exception that escaped, or typer's own way with an interrupt,
    would end with 1, which means that a gate failed.
    """
    arguments = list(arguments)
    debug = "--debug" in arguments or bool(os.environ.get("FPMONITOR_DEBUG"))
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        outcome = _outcome(arguments)
    except (typer.Abort, KeyboardInterrupt):
        outcome = EXIT_INTERRUPTED
    except FpmonitorError as error:
        if debug:
            traceback.print_exc()
        print(f"fpmonitor: error: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    except typer.TyperException as error:
        print(f"fpmonitor: error: {printable(error.format_message())}", file=sys.stderr)
        return EXIT_USAGE
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception:  # noqa: BLE001 -- a bug must not exit 1, which means that a gate failed
        traceback.print_exc()
        print("fpmonitor: this is a bug of fpmonitor; please report it", file=sys.stderr)
        return EXIT_BUG
    if outcome == EXIT_INTERRUPTED:
        print("fpmonitor: interrupted", file=sys.stderr)
    return outcome if isinstance(outcome, int) else 0


def _outcome(arguments: Sequence[str]) -> Any:
    # In a context of its own: the patience of this command is not that of the next one.
    context = copy_context()
    return context.run(app, arguments, standalone_mode=False, default_map=_settings())


def _settings() -> dict[str, Any]:
    """Defaults from `fpmonitor.toml` in the working folder; `db`, `format` hold for all commands.

    Raises
    ------
    InputError
        The file is not TOML.
    """
    path = Path(SETTINGS_FILE)
    try:
        if not path.is_file():
            return {}
    except OSError as error:
        raise InputError(
            f"cannot look for {path} ({error.strerror})", hint="work in a folder that you may read"
        ) from error
    settings = read_toml(path, "settings")
    shared = {name: value for name, value in settings.items() if not isinstance(value, dict)}
    commands = {command.name or "" for command in app.registered_commands}
    commands |= {group.name or "" for group in app.registered_groups}
    unknown = sorted(
        name for name, value in settings.items() if isinstance(value, dict) and name not in commands
    )
    if unknown:
        raise InputError(
            f"{path}: no command {unknown[0]!r}", hint=f"commands: {', '.join(sorted(commands))}"
        )
    defaults = {command: shared | settings.get(command, {}) for command in commands}
    for group in app.registered_groups:
        within = group.typer_instance.registered_commands if group.typer_instance else []
        table = settings.get(group.name or "", {})
        defaults[group.name or ""] = {
            command.name: shared | table.get(command.name, {}) for command in within
        }
    return shared | defaults
