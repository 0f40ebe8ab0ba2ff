"""Commands on what scripts read, and on automation."""

from __future__ import annotations

from typing import Annotated

import typer

from fpmonitor.answers.automation import report_automation
from fpmonitor.cli.context import open_monitor
from fpmonitor.cli.options import (
    COLLECTOR,
    DB,
    DEFAULT_DB,
    QUIET,
    UNSAFE_COUNTS,
    Exposure,
    K,
    split_names,
)
from fpmonitor.cli.output import Shown, note
from fpmonitor.cli.users import Users
from fpmonitor.render import answers
from fpmonitor.store.demand import By


def demand(
    *,
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Logs of API calls to store first: files, folders, glob patterns, or -."
        ),
    ] = None,
    by: Annotated[
        By, typer.Option("--by", help="Group the calls by script, or by site.")
    ] = "script",
    most: Annotated[
        int, typer.Option("--most", help="Largest number of sets to list.", min=1)
    ] = 50,
    asked: Exposure,
    collector: COLLECTOR = None,
    db: DB = DEFAULT_DB,
    shown: Shown,
    quiet: QUIET = False,
) -> None:
    """List the API sets that scripts read, most exposing first."""
    with open_monitor(db, create=bool(paths)) as monitor:
        for report in monitor.store_demand(paths, collector=collector) if paths else []:
            note(
                f"{report.source}: {report.collector}, {report.stored:,} of {report.read:,} "
                f"records of calls stored, {report.rejected:,} rejected",
                quiet=quiet,
            )
        lines = monitor.demand(
            by, k=asked.k, population=asked.population, delta=asked.delta, most=most
        )
    shown.show(answers.demand(lines, asked.k))


def automation(
    *,
    apis: Annotated[
        list[str] | None,
        typer.Option("--apis", help="API set whose exposure to compare; repeat for further sets."),
    ] = None,
    k: K = 10,
    users: Users,
    unsafe_counts: UNSAFE_COUNTS = False,
    shown: Shown,
) -> None:
    """Count users that look automated, and compare the exposure with and without them."""
    with users.open() as monitor:
        report = report_automation(
            monitor.population(),
            [split_names(names) for names in apis or []],
            k=k,
            show_counts_below_k=unsafe_counts,
        )
    shown.show(answers.automation(report))
