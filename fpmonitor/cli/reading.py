"""Options that say how logs are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from fpmonitor.cli.options import COLLECTOR, COLUMNS, LOG_FORMAT
from fpmonitor.errors import InputError
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.unit import VISITOR_RULE

if TYPE_CHECKING:
    from collections.abc import Iterable

NAMES = Annotated[
    list[str] | None,
    typer.Option(
        "--as",
        help="A column, or an API of a long log, is this API; repeat for further ones.",
        metavar="NAME=API",
    ),
]
DIGEST_VALUES = Annotated[
    bool,
    typer.Option(
        "--digest-values",
        help="Store keyed digests instead of values; only for a new database, and permanent.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """Options for how logs are read."""

    collector: COLLECTOR = None
    columns: COLUMNS = None
    user: Annotated[
        str | None,
        typer.Option(
            help="Column with the user id; row: no user is known, and rows are counted.",
            metavar="COLUMN",
        ),
    ] = None
    visitor: Annotated[
        bool,
        typer.Option("--visitor", help=f"Count visitors of a log of requests: {VISITOR_RULE}."),
    ] = False
    time: Annotated[
        str | None,
        typer.Option(
            help="Column with the time; DATE,TIME: two columns that make it up.", metavar="COLUMN"
        ),
    ] = None
    log_format: LOG_FORMAT = ""
    weight: Annotated[
        str | None,
        typer.Option(
            help="Column with the number of users that a record represents.", metavar="COLUMN"
        ),
    ] = None
    names: NAMES = None
    ignore: Annotated[
        list[str] | None,
        typer.Option(help="A column that is not an API; repeat for others.", metavar="COLUMN"),
    ] = None
    elements: Annotated[
        list[str] | None,
        typer.Option(
            help="A column of lists, such as fonts, each element of which is an API; repeat for "
            "further ones.",
            metavar="COLUMN",
        ),
    ] = None
    null: Annotated[
        list[str] | None,
        typer.Option(
            help="A text that means a missing value, such as NA; repeat for further ones.",
            metavar="TEXT",
        ),
    ] = None
    flatten: Annotated[
        bool,
        typer.Option(
            "--flatten/--no-flatten", help="Whether each leaf of a nested column is an API."
        ),
    ] = True

    def column_map(self) -> ColumnMap:
        """Read the column map as it is now, with what the options say in place of its own."""
        column_map = ColumnMap.from_toml(self.columns) if self.columns else ColumnMap()
        options = {"user": self.user, "time": self.time, "weight": self.weight}
        named = {field: name for field, name in options.items() if name is not None}
        return replace(
            column_map,
            columns={**column_map.columns, **named},
            apis={**column_map.apis, **assigned(self.names or ())},
            ignore=column_map.ignore | set(self.ignore or ()),
            elements=column_map.elements | set(self.elements or ()),
            flatten=column_map.flatten and self.flatten,
            absent=column_map.absent | set(self.null or ()),
            visitor=column_map.visitor or self.visitor,
            log_format=self.log_format or column_map.log_format,
        )


def assigned(assignments: Iterable[str]) -> dict[str, str]:
    """Read `NAME=API`; without an API the name is none of the vocabulary.

    Raises:
        InputError: One has another form.
    """
    found = {}
    for text in assignments:
        # At the last sign: a column may be called `a=b`.
        name, equals, api = text.rpartition("=")
        if not (name and equals):
            raise InputError(f"{text!r} is not of the form NAME=API")
        found[name] = api.strip()
    return found
