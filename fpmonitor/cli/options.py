"""Options that several commands share."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

import fpmonitor

OutputFormat = Literal["table", "json", "csv"]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"fpmonitor {fpmonitor.__version__}")
        raise typer.Exit


WAIT = Annotated[
    float,
    typer.Option(
        "--wait",
        envvar="FPMONITOR_WAIT",
        help="Wait so long for a database that another process has open.",
        metavar="SECONDS",
        min=0,
    ),
]
KEY_FILE_OPTION = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        envvar="FPMONITOR_KEY_FILE",
        help="The database is encrypted, with the key in this file, mode 600.",
        metavar="FILE",
    ),
]
FOR_OTHERS_OPTION = Annotated[
    bool,
    typer.Option(
        "--for-others",
        help="Withhold also what gives counts below k away, as reports and the service do.",
    ),
]
VERSION = Annotated[
    bool,
    typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True),
]
DB = Annotated[
    Path, typer.Option("--db", envvar="FPMONITOR_DB", help="The database file.", metavar="PATH")
]
FORMAT = Annotated[
    OutputFormat | None,
    typer.Option("--format", help="Form of output: a table on a terminal, JSON when piped."),
]
OUTPUT = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Write to this file.", metavar="FILE"),
]
QUIET = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")]
K = Annotated[int, typer.Option("--k", help="A user is exposed in a group of fewer than K users.")]
POPULATION = Annotated[
    int | None,
    typer.Option(
        "--population", "-n", help="Users that sites will see. [default: the observed users]"
    ),
]
DELTA = Annotated[
    float, typer.Option("--delta", help="Tolerated probability that a guarantee fails.")
]
MISSING = Annotated[
    Literal["value", "drop"],
    typer.Option("--missing", help="An absent observation is a value; or drop such users."),
]
SINCE = Annotated[
    datetime | None, typer.Option("--since", help="Only observations from this time on (UTC).")
]
UNTIL = Annotated[
    datetime | None, typer.Option("--until", help="Only observations before this time (UTC).")
]
UNSAFE_COUNTS = Annotated[
    bool, typer.Option("--unsafe-counts", help="Show counts below k as well.")
]
DEFAULT_DB = Path("fpmonitor.duckdb")


def split_names(text: str) -> tuple[str, ...]:
    """Split API names separated by commas; a name with a comma stands in double quotes."""
    names: list[str] = []
    name, quoted = "", False
    for character in text:
        if character == '"' and (quoted or not name):
            quoted = not quoted
        elif character == "," and not quoted:
            names.append(name.strip())
            name = ""
        else:
            name += character
    names.append(name.strip())
    return tuple(name for name in names if name)
