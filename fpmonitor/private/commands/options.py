"""Options that several commands on private collection share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fpmonitor.cli.context import INVOCATION
from fpmonitor.errors import InputError

if TYPE_CHECKING:
    from fpmonitor.private.folder import RoleFolder
    from fpmonitor.private.study import Role

STUDY = Annotated[
    Path, typer.Option("--study", help="File of the study: the terms of the collection.")
]
FOLDER = Annotated[
    Path, typer.Option("--folder", help="Folder of the role, or of a pilot, by `private init`.")
]
ROLE_FOLDER = Annotated[
    Path, typer.Option("--folder", help="Folder of the curator or the analyst, as pilot/analyst.")
]
CURATOR_FOLDER = Annotated[
    Path, typer.Argument(help="Folder of the curator, or of a pilot, by `private init`.")
]
SHUFFLER_KEY = Annotated[
    Path | None,
    typer.Option("--shuffler-key", help="Public keys of the shuffler.", metavar="FILE.pub"),
]
RECIPIENT_KEY = Annotated[
    Path | None,
    typer.Option(
        "--recipient-key",
        help="Public keys of the role that opens the answers.",
        metavar="FILE.pub",
    ),
]
ASK = Annotated[Path, typer.Option("--ask", help="File of the request that is answered.")]
EPOCH = Annotated[
    int,
    typer.Option("--epoch", help="Number of the collection; users may answer once in each.", min=0),
]


def folder_of(path: Path, role: Role | None = None) -> RoleFolder:
    """Return the folder of a role, itself or in a pilot; without a role, of whichever it is."""
    from fpmonitor.private.folder import RoleFolder  # noqa: PLC0415 -- an extra

    return RoleFolder(path) if role is None else RoleFolder.of(path, role)


def check_role(address: str, found: Role, wanted: Role) -> None:
    """Refuse the answer of another role, as where role.json names one in the place of the other."""
    if found != wanted:
        raise InputError(f"{address}: is the {found}, not the {wanted}", hint="see role.json")


def check_owner(command: str) -> None:
    """Refuse to print for others: the users of a set less its groups are a count below k."""
    if INVOCATION.get().for_others:
        raise InputError(f"{command}: this is for who holds the answers", hint="omit --for-others")
