"""Options that several commands on private collection share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
