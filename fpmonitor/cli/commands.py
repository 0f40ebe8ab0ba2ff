"""The commands by panel; the module of a command is loaded when the command is used."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from fpmonitor.cli.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Entry:
    """A command in the help of the group above it.

    Attributes
    ----------
    name
        What the user types.
    home
        `module:name`, of a function or of a `typer.Typer` with commands.
    help
        The docstring of the function, or the help of the group.
    """

    name: str
    home: str
    help: str


PANELS: Mapping[str, tuple[Entry, ...]] = {
    "Start": (
        Entry(
            "quickstart",
            "fpmonitor.cli.start:quickstart",
            "Run ingest, decide and export on bundled synthetic logs, into a new folder.",
        ),
        Entry(
            "ingest",
            "fpmonitor.cli.data:ingest",
            "Store logs in the database; a file that is already stored adds nothing.",
        ),
        Entry(
            "apis",
            "fpmonitor.cli.data:apis",
            "List the observed APIs with the users, values, entropy and exposure of each.",
        ),
        Entry(
            "decide",
            "fpmonitor.cli.questions:decide",
            "Classify API sets as allowed, blocked or undecided for an exposure budget.",
        ),
        Entry(
            "report",
            "fpmonitor.cli.report:report",
            "Write an HTML report on a decision, with figures and their data.",
        ),
    ),
    "Measure": (
        Entry(
            "exposure",
            "fpmonitor.cli.questions:exposure",
            "Estimate the exposure of API sets, with finite-sample confidence limits.",
        ),
        Entry(
            "rank",
            "fpmonitor.cli.statistics:rank",
            "Rank API sets by entropy and by exposure, and show where the two disagree.",
        ),
        Entry(
            "curve",
            "fpmonitor.cli.statistics:curve",
            "Show the exposure curve of an API set, with a simultaneous confidence band.",
        ),
        Entry(
            "demand",
            "fpmonitor.cli.demand:demand",
            "List the API sets that scripts read, most exposing first.",
        ),
        Entry(
            "automation",
            "fpmonitor.cli.demand:automation",
            "Count users that look automated, and compare the exposure with and without them.",
        ),
        Entry(
            "plot",
            "fpmonitor.cli.report:plot",
            "Draw exposures with limits, a curve, entropy against exposure, or the price of trust.",
        ),
    ),
    "Enforce": (
        Entry(
            "gate",
            "fpmonitor.cli.gate:gate",
            "Tell whether a site that has read some APIs may read more.",
        ),
        Entry(
            "export",
            "fpmonitor.cli.lists:export",
            "Write a decision as an allow/block list for a product.",
        ),
        Entry(
            "preview",
            "fpmonitor.cli.effects:preview",
            "Estimate the exposure before and after a list, and with all that its format can do.",
        ),
        Entry(
            "plan",
            "fpmonitor.cli.effects:plan",
            "Find the fewest controls of a format that leave only an allowed set readable.",
        ),
        Entry(
            "import",
            "fpmonitor.cli.effects:import_list",
            "Read a list that is already in use, and show what it leaves exposed.",
        ),
        Entry(
            "targets",
            "fpmonitor.cli.lists:targets",
            "List the fingerprinting targets of an installed Firefox, for `export --targets`.",
        ),
        Entry(
            "schema",
            "fpmonitor.cli.lists:schema",
            "Print the JSON Schema of decision files.",
        ),
    ),
    "Monitor": (
        Entry(
            "check",
            "fpmonitor.cli.monitoring:check",
            "Re-test the allow list of a decision on current data. "
            "Exit code 0: holds, 1: violated, 3: cannot tell.",
        ),
        Entry(
            "trend",
            "fpmonitor.cli.monitoring:trend",
            "Follow the exposure from window to window; alert when the users change.",
        ),
        Entry(
            "watch",
            "fpmonitor.cli.monitoring:watch",
            "Store new logs of a folder as they arrive; "
            "report when the verdict on a decision changes.",
        ),
        Entry(
            "compare",
            "fpmonitor.cli.report:compare",
            "Compare the exposure in two databases or before and after a time, or two decisions.",
        ),
    ),
    "Publish and protect": (
        Entry(
            "release",
            "fpmonitor.cli.release:release",
            "Write a k-anonymous table and its manifest, and print the manifest.",
        ),
        Entry(
            "audit",
            "fpmonitor.cli.release:audit",
            "What a release reveals: deltas under partial knowledge, and singling out.",
        ),
        Entry(
            "ldp",
            "fpmonitor.private.commands.ldp:app",
            "Local differential privacy: what randomised reports give away, and what they tell.",
        ),
        Entry(
            "private",
            "fpmonitor.private.commands.app:app",
            "Collection without a joint record: users, shuffler, curator, analyst.",
        ),
    ),
    "Collect": (
        Entry(
            "serve",
            "fpmonitor.cli.serve:serve",
            "Collect records over HTTP, answer questions, and show a dashboard.",
        ),
        Entry(
            "keys",
            "fpmonitor.cli.serve:keys",
            "Manage the write keys and read tokens of the service.",
        ),
        Entry(
            "snippet",
            "fpmonitor.private.commands.page:snippet",
            "Print the HTML that adds the page snippet to a page, with its integrity hash.",
        ),
        Entry(
            "log-line",
            "fpmonitor.cli.log_line:log_line",
            "Print the nginx or Apache log format that records fingerprintable request headers.",
        ),
    ),
    "Beyond one computer": (
        Entry(
            "convert",
            "fpmonitor.cli.snapshots:convert_logs",
            "Write the visits of logs as a Parquet file for other engines.",
        ),
        Entry(
            "snapshot",
            "fpmonitor.cli.snapshots:snapshot",
            "Turn a table of an engine, with one row a user, into a snapshot in a folder.",
        ),
        Entry(
            "sample",
            "fpmonitor.cli.snapshots:sample",
            "Draw users of a snapshot for a database, and say what the certificate loses by it.",
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
    Entry(
        "batches",
        "fpmonitor.cli.data:batches",
        "List the stored logs and what became of their records.",
    ),
    Entry(
        "rejects",
        "fpmonitor.cli.data:rejects",
        "List the records that could not be stored, with file, line and reason.",
    ),
    Entry(
        "verify",
        "fpmonitor.cli.upkeep:verify",
        "Read a whole database and look for contradictions. "
        "Exit code 0: sound, 1: contradictions found.",
    ),
    Entry(
        "forget",
        "fpmonitor.cli.upkeep:forget",
        "Delete visits, and every trace of them in the file.",
    ),
    Entry(
        "compact",
        "fpmonitor.cli.upkeep:compact",
        "Rewrite a database without the space of deleted data.",
    ),
    Entry(
        "copy-out",
        "fpmonitor.cli.transfer:copy_out",
        "Write all data of a database to a new folder of Parquet files. "
        "They are as confidential as the database.",
    ),
    Entry(
        "copy-in",
        "fpmonitor.cli.transfer:copy_in",
        "Add data written by `db copy-out`; a new database becomes a copy.",
    ),
    Entry(
        "make-key",
        "fpmonitor.cli.sealing:make_key",
        "Make the key of an encrypted database, for `fpmonitor --key-file`.",
    ),
    Entry(
        "seal",
        "fpmonitor.cli.sealing:seal",
        "Encrypt a file in the age format; the original stays.",
    ),
    Entry(
        "open",
        "fpmonitor.cli.sealing:open_sealed",
        "Decrypt a file made by `db seal` or by age.",
    ),
)


class LazyCommand(TyperCommand):
    """The line of a command in the help; loads the command itself to run it.

    Parameters
    ----------
    entry
        The command.
    group
        Names of the groups that it is in, from the outermost on.
    panel
        Panel of the help that shows it.
    """

    def __init__(self, entry: Entry, group: tuple[str, ...] = (), panel: str | None = None) -> None:
        super().__init__(entry.name, help=entry.help, rich_help_panel=panel)
        self.entry = entry
        self.path = (*group, entry.name)

    def load(self) -> Any:
        """Return the command, or the group of commands, with its options."""
        module, _, attribute = self.entry.home.partition(":")
        found = getattr(import_module(module), attribute)
        if isinstance(found, TyperGroup):
            return found
        if isinstance(found, typer.Typer):
            return typer.main.get_group(found)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(self.entry.name)(found)
        return typer.main.get_command(alone)

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Parse the arguments of the command, with the defaults of the settings file."""
        command = self.load()
        settings = None if parent is None else parent.find_object(Settings)
        if settings is not None:
            extra["default_map"] = settings.defaults(command, self.path)
        return command.make_context(info_name, args, parent, **extra)


database = TyperGroup(
    name="db",
    help="Inspect, check, move, encrypt and clean up a database.",
    commands=[LazyCommand(entry, ("db",)) for entry in DATABASE],
    no_args_is_help=True,
)
