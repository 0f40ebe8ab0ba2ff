"""Options that several commands on private collection share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

STUDY = Annotated[
    Path, typer.Option("--study", help="File of the study: the terms of the collection.")
]
STUDY_OR_NONE = Annotated[
    Path | None,
    typer.Option("--study", help="File of the study, if it is not that of the folder."),
]
FOLDER = Annotated[
    Path | None,
    typer.Option("--folder", help="Folder of `private init`, for the files and addresses."),
]
ASK = Annotated[Path, typer.Option("--ask", help="File of the request that is answered.")]
EPOCH = Annotated[
    int,
    typer.Option("--epoch", help="Number of the collection; users may answer once in each.", min=0),
]
CURATOR_STORE = Annotated[
    Path,
    typer.Argument(help="SQLite file of the curator, or its folder.", metavar="STORE", exists=True),
]
