"""Options of `check` and `watch`, for a list that is in use."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fpmonitor.cli.output import note
from fpmonitor.errors import InputError
from fpmonitor.safe_files import read_text
from fpmonitor.store.windows import Period

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fpmonitor.answers.check import CheckReport
    from fpmonitor.cli.users import StoredUsers
    from fpmonitor.decide.decision import Decision

CHECK_EXITS = {"holds": 0, "violated": 1, "cannot tell": 3, None: 3}
_MOST_BYTES = 64_000_000
_MOST_FILES = 50  # of a folder
_SHOWN = 5
NEWEST = Annotated[
    Period | None,
    typer.Option("--by", help="Only check the newest day, week or month (UTC) that is over."),
]
WHOLE = Annotated[
    bool,
    typer.Option("--all", help="Test every set on the allow list, not the recommended one alone."),
]
NEW_USERS = Annotated[
    bool,
    typer.Option(
        "--new-users",
        help="The list was decided on none of the users in the database: decides more.",
    ),
]


def list_text(path: Path) -> str:
    """Return the text of a list; of a folder, its files as the export of them is: name -> text.

    Raises:
        InputError: No such file or folder, too many or too large, or not text.
    """
    if not path.is_dir():
        return read_text(path, "list", most=_MOST_BYTES)
    try:
        files = sorted(entry for entry in path.iterdir() if entry.is_file())
    except OSError as error:
        raise InputError(f"list {path}: {error.strerror}") from error
    if len(files) > _MOST_FILES:
        raise InputError(f"{path}: {len(files):,} files are not a list", hint="name the list")
    return json.dumps({file.name: read_text(file, "list", most=_MOST_BYTES) for file in files})


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """Options that name a list."""

    file: Annotated[
        Path | None,
        typer.Option(
            "--list",
            help="List that is in use: test what it leaves readable.",
            metavar="FILE",
            rich_help_panel="Data",
        ),
    ] = None
    form: Annotated[
        str,
        typer.Option(
            "--from",
            help="Format of the list, such as ublock or json.",
            rich_help_panel="Data",
        ),
    ] = ""
    site: Annotated[
        str | None,
        typer.Option(
            "--site",
            help="Judge the list on this site, for example example.com; all sites by default.",
            rich_help_panel="Data",
        ),
    ] = None

    def refuse_alone(self) -> None:
        """Refuse what says nothing without a list."""
        if self.form or self.site is not None:
            given = "--from" if self.form else "--site"
            raise InputError(f"{given}: of which list?", hint="name it with --list FILE")

    def check(
        self, decision: Decision, users: StoredUsers, given: Mapping[str, object], *, quiet: bool
    ) -> CheckReport:
        """Test what the list leaves readable on the users of now.

        Raises:
            InputError: No format, no such list, or options for checks of the allow list; `given`
                are these.
        """
        # Formats are loaded only for whoever has a list.
        from fpmonitor.answers.check import check_list  # noqa: PLC0415
        from fpmonitor.cli.users import check_borne_out, note_beside  # noqa: PLC0415
        from fpmonitor.export.exporter import is_site, printable  # noqa: PLC0415
        from fpmonitor.export.in_use import read_in_use  # noqa: PLC0415
        from fpmonitor.plugins import EXPORTERS, load_plugin, plugin_names  # noqa: PLC0415

        if not self.form:
            formats = ", ".join(plugin_names(EXPORTERS))
            raise InputError("--list: which format?", hint=f"--from {formats}")
        if refused := [name for name, value in given.items() if value]:
            raise InputError(
                f"--list: not with --{refused[0]}", hint="a list is tested on all stored users"
            )
        if self.site is not None and not is_site(self.site):
            raise InputError(f"site {self.site!r} is not a domain name", hint="as in example.com")
        assert self.file is not None  # noqa: S101 -- as the caller found
        text = list_text(self.file)
        exporter = load_plugin(EXPORTERS, self.form)
        listed = decision.with_unions_listed()
        in_use = read_in_use(self.form, exporter, text, listed, self.site)
        notes = [*in_use.notes]
        notes += [f"{api}: exposed, and no candidate, so unknown" for api in in_use.strangers]
        for line in notes[:_SHOWN]:
            note(printable(line), quiet=quiet)
        if len(notes) > _SHOWN:
            note(f"... and {len(notes) - _SHOWN:,} notes more", quiet=quiet)
        with users.open() as monitor:
            check_borne_out(monitor, monitor.population_as(decision), decision, with_names=False)
            note_beside(monitor, decision, quiet=quiet)
            return check_list(monitor.population_as(listed), listed, in_use)
