"""The list of commands: where each stands, in which module it lives, and where it stood before."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ANYWHERE = re.MULTILINE | re.DOTALL


@dataclass(frozen=True, slots=True)
class Entry:
    """A command in the help of the group above it, or a mode of a command: `exposure --rank`."""

    name: str  # What the user types.
    # `module:name`, of a function or of a `typer.Typer` with commands; empty for a group of the
    # commands `below`.
    home: str = ""
    about: str = ""  # Its line in the help; by default the docstring of the function.
    below: tuple[Entry, ...] = ()  # Commands of the group.
    modes: tuple[Entry, ...] = ()  # Options of the command that stand for functions of their own.
    # Value of a mode's option, which its function takes as well; empty for a switch.
    takes: str = ""
    hidden: bool = False  # Not in the help: another line names it.

    @property
    def help(self) -> str:
        """What the command does, in one line; no module is imported for it."""
        return self.about or self.docstring

    @property
    def docstring(self) -> str:
        """First paragraph of the docstring of the function."""
        module, _, function = self.home.partition(":")
        [docstring] = re.findall(
            rf'^def {function}\(.*?^    """(.*?)"""', _source(module), _ANYWHERE
        )
        return " ".join(docstring.split("\n\n")[0].split())


@cache
def _source(module: str) -> str:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(module)
    return Path(spec.origin).read_text(encoding="utf-8")


FIRST: tuple[Entry, ...] = (
    Entry("ui", "fpmonitor.cli.ui:ui", "Open one page: the log, what it exposes, the list."),
    Entry("quickstart", "fpmonitor.cli.start:quickstart", "Try all of it on synthetic logs."),
    Entry("ingest", "fpmonitor.cli.data:ingest", "Store logs. The same file twice is stored once."),
    Entry(
        "exposure",
        "fpmonitor.cli.questions:exposure_command",
        "Show what each API, or a set of APIs, exposes.",
        modes=(
            Entry(
                "--plot", "fpmonitor.cli.report:plot", takes="exposure|curve|entropy|trust|followed"
            ),
            Entry("--rank", "fpmonitor.cli.statistics:rank"),
            Entry("--curve", "fpmonitor.cli.statistics:curve"),
            Entry("--by", "fpmonitor.cli.monitoring:trend", takes="day|week|month|batch|source"),
        ),
    ),
    Entry(
        "decide",
        "fpmonitor.cli.questions:decide_command",
        "Decide which APIs a site may read together.",
    ),
    Entry("gate", "fpmonitor.cli.gate:gate", "Ask a decision whether a site may read more."),
    Entry(
        "export",
        "fpmonitor.cli.lists:export",
        "Write the decision as a list for a browser or blocker.",
        modes=(
            Entry("--preview", "fpmonitor.cli.effects:preview"),
            Entry("--report", "fpmonitor.cli.report:report"),
        ),
    ),
    Entry(
        "check",
        "fpmonitor.cli.monitoring:check",
        "Test a decision or list on current data. `watch` repeats it.",
        modes=(Entry("--compare", "fpmonitor.cli.report:compare_command"),),
    ),
    Entry("watch", "fpmonitor.cli.watching:watch", hidden=True),
    Entry("look", "fpmonitor.cli.look:look", hidden=True),
    Entry("mcp", "fpmonitor.cli.ui:mcp", hidden=True),
)
GROUPS: tuple[Entry, ...] = (
    Entry(
        "lists",
        about="Plan a list, read one that is in use, rank scripts.",
        below=(
            Entry("plan", "fpmonitor.cli.effects:plan"),
            Entry("import", "fpmonitor.cli.effects:import_list"),
            Entry("scripts", "fpmonitor.cli.demand:scripts"),
            Entry("demand", "fpmonitor.cli.demand:demand"),
            Entry("targets", "fpmonitor.cli.lists:targets"),
            Entry("schema", "fpmonitor.cli.schemas:schema"),
        ),
    ),
    Entry(
        "collect",
        about="Collect from your own site: service, keys, snippet.",
        below=(
            Entry("serve", "fpmonitor.cli.serve:serve"),
            Entry(
                "keys",
                "fpmonitor.cli.serve:keys",
                "Manage the write keys and read tokens of the service.",
            ),
            Entry("snippet", "fpmonitor.private.commands.page:snippet"),
            Entry("log-line", "fpmonitor.cli.log_line:print_log_line"),
            Entry("shares", "fpmonitor.cli.shares:shares"),
        ),
    ),
    Entry(
        "db",
        about="Inspect, correct, check, move and encrypt the database.",
        below=(
            Entry("apis", "fpmonitor.cli.data:apis"),
            Entry("batches", "fpmonitor.cli.data:batches"),
            Entry("rejects", "fpmonitor.cli.data:rejects"),
            Entry("questions", "fpmonitor.cli.questions:questions"),
            Entry("automation", "fpmonitor.cli.demand:automation"),
            Entry("verify", "fpmonitor.cli.upkeep:verify"),
            Entry("forget", "fpmonitor.cli.upkeep:forget"),
            Entry("compact", "fpmonitor.cli.upkeep:compact"),
            Entry("views", "fpmonitor.cli.upkeep:views"),
            Entry("copy-out", "fpmonitor.cli.transfer:copy_out"),
            Entry("copy-in", "fpmonitor.cli.transfer:copy_in"),
            Entry("make-key", "fpmonitor.cli.sealing:make_key"),
            Entry("seal", "fpmonitor.cli.sealing:seal"),
            Entry("open", "fpmonitor.cli.sealing:open_sealed"),
        ),
    ),
    Entry(
        "scale",
        about="Users in a warehouse, or too many for one computer: SQL, Spark, sketches.",
        below=(
            Entry("sql", "fpmonitor.cli.warehouse:sql"),
            Entry("fetch", "fpmonitor.cli.warehouse:fetch"),
            Entry("convert", "fpmonitor.cli.warehouse:convert_logs"),
            Entry(
                "sketch",
                "fpmonitor.cli.sketch:app",
                "Keep few values by a secret hash, with all of their users.",
            ),
        ),
    ),
    Entry("release", "fpmonitor.cli.release:release", "Publish a k-anonymous table."),
    Entry(
        "audit",
        "fpmonitor.cli.release:audit",
        "Test a release or a decision's proof; count what readers asked.",
    ),
    Entry(
        "ldp",
        "fpmonitor.private.commands.ldp:app",
        "Randomise on the device (local differential privacy).",
    ),
    Entry(
        "private",
        about="Collect so that no party holds a whole record.",
        below=(
            Entry("init", "fpmonitor.private.commands.making:init"),
            Entry("seal", "fpmonitor.private.commands.users:seal_records"),
            Entry("shuffle", "fpmonitor.private.commands.roles:shuffle"),
            Entry("count", "fpmonitor.private.commands.roles:count_reports_of"),
            Entry("publish", "fpmonitor.private.commands.roles:publish"),
            Entry("close", "fpmonitor.private.commands.roles:close"),
            Entry("status", "fpmonitor.private.commands.roles:status"),
            Entry("backup", "fpmonitor.private.commands.roles:backup"),
            Entry("rotate", "fpmonitor.private.commands.roles:rotate"),
            Entry("serve", "fpmonitor.private.commands.roles:serve_role"),
            Entry("select", "fpmonitor.private.commands.selection:select"),
            Entry("simulate", "fpmonitor.private.commands.selection:simulate"),
        ),
    ),
)
# Where the commands of version 0.1 are: for one release, a note names that, and the command runs.
MOVED: Mapping[str, str] = {
    "apis": "db apis",
    "automation": "db automation",
    "compare": "check --compare",
    "convert": "scale convert",
    "curve": "exposure --curve",
    "demand": "lists demand",
    "import": "lists import",
    "keys": "collect keys",
    "log-line": "collect log-line",
    "plan": "lists plan",
    "plot": "exposure --plot",
    "preview": "export --preview",
    "questions": "db questions",
    "rank": "exposure --rank",
    "report": "export --report",
    "sample": "scale fetch --part",
    "schema": "lists schema",
    "scripts": "lists scripts",
    "serve": "collect serve",
    "shares": "collect shares",
    "sketch": "scale sketch",
    "snapshot": "scale fetch",
    "snippet": "collect snippet",
    "targets": "lists targets",
    "trend": "exposure --by week",
}


# Commands of before that are options of others: for one release, the error names these.
MERGED: Mapping[str, str] = {
    "ldp estimate": "private count --folder CURATOR",
    "private quickstart": "private simulate --pilot FOLDER",
    "private redact": "private select CURATOR --redact A,B",
    "private study": "private init FOLDER --curator-key FILE.pub --apis A,B --population N "
    "--budget SHARE",
}


def all_entries(among: tuple[Entry, ...] = FIRST + GROUPS) -> Iterator[Entry]:
    """Every entry with those below it and its modes."""
    for entry in among:
        yield entry
        yield from all_entries(entry.below)
        yield from all_entries(entry.modes)
