"""The command that bounds several recommended sets together: audit union."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from fpmonitor.cli.certificate import EXIT_CANNOT_TELL
from fpmonitor.cli.context import open_monitor
from fpmonitor.cli.output import Shown
from fpmonitor.decide.credible import read_credible_decision
from fpmonitor.decide.files import read_decision
from fpmonitor.errors import InputError
from fpmonitor.render import decisions

DECISIONS = Annotated[
    list[Path], typer.Argument(metavar="DECISION.json...", help="Decisions, two or more.")
]
DATABASES = Annotated[
    list[Path],
    typer.Option(
        "--db",
        help="Users of each decision, in the order of the decisions; once, if one has all.",
        metavar="PATH",
    ),
]


def union(*, files: DECISIONS, databases: DATABASES, shown: Shown) -> int:
    """Bound what the recommended sets of decisions expose together, whose users are apart.

    It counts values of each set, and needs no user with both. Exit code 0: within the smallest
    budget. 3: it cannot tell; where one database has all APIs, `decide --union-with` may.
    """
    from fpmonitor.answers.apart import bound_union  # noqa: PLC0415 -- not for --help

    paths = databases * len(files) if len(databases) == 1 else databases
    if len(files) < 2 or len(paths) != len(files):
        raise InputError(
            f"union: {len(files)} decisions and {len(databases)} databases",
            hint="name two decisions or more, and --db for each, or once",
        )
    with ExitStack() as opened:
        parts = []
        for file, path in zip(files, paths, strict=True):
            made = read_credible_decision(file, read_decision)
            monitor = opened.enter_context(open_monitor(path))
            parts.append((monitor.population_as(made), made))
        found = bound_union(parts)
    shown.show(decisions.union_bound(found))
    return 0 if found.is_within else EXIT_CANNOT_TELL
