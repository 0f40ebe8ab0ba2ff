"""Commands on what scripts read, and on automation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from fpmonitor.cli.options import (
    COLLECTOR,
    DB,
    DEFAULT_DB,
    DELTA,
    FORMAT,
    OUTPUT,
    POPULATION,
    QUIET,
    SINCE,
    UNSAFE_COUNTS,
    UNTIL,
    K,
    split_names,
)
from fpmonitor.cli.output import emit_rows, note, percent, plain
from fpmonitor.monitor import Monitor
from fpmonitor.store.demand import By
from fpmonitor.store.snapshot import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.answers.automation import AutomationReport
    from fpmonitor.answers.demand import DemandLine


def demand(
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
    k: K = 10,
    population: POPULATION = None,
    delta: DELTA = 0.05,
    collector: COLLECTOR = None,
    db: DB = DEFAULT_DB,
    output_format: FORMAT = None,
    output: OUTPUT = None,
    quiet: QUIET = False,
) -> None:
    """List the API sets that scripts read, most exposing first."""
    with Monitor(db, create=bool(paths)) as monitor:
        for report in monitor.store_demand(paths, collector=collector) if paths else []:
            note(
                f"{report.source}: {report.collector}, {report.stored:,} of {report.read:,} "
                f"records of calls stored, {report.rejected:,} rejected",
                quiet=quiet,
            )
        lines = monitor.demand(by, k=k, population=population, delta=delta, most=most)
    emit_rows(
        [line.to_json() for line in lines],
        table=lambda: _demand_table(lines, k),
        wanted=output_format,
        output=output,
    )


def _demand_table(lines: Sequence[DemandLine], k: int) -> Table:
    table = Table(
        title=f"What scripts read together, and the users that it puts in groups of fewer than {k}",
        caption="Without an upper limit: the population log lacks an API of the set.",
        caption_justify="left",
    )
    table.add_column("API set", overflow="fold")
    for name in ("scripts", "sites", "lower", "plug-in", "upper"):
        table.add_column(name, justify="right")
    for line in lines:
        row = line.to_json()
        table.add_row(
            "\n".join(map(plain, line.demand.apis)),
            f"{line.demand.scripts:,}",
            f"{line.demand.sites:,}",
            *(percent(row[name]) for name in ("lower", "plug_in", "upper")),
        )
    return table


def automation(
    apis: Annotated[
        list[str] | None,
        typer.Option("--apis", help="API set whose exposure to compare; repeat for further sets."),
    ] = None,
    k: K = 10,
    db: DB = DEFAULT_DB,
    since: SINCE = None,
    until: UNTIL = None,
    unsafe_counts: UNSAFE_COUNTS = False,
    output_format: FORMAT = None,
    output: OUTPUT = None,
) -> None:
    """Count users that look automated, and compare the exposure with and without them."""
    with Monitor(db, window=Window(since, until)) as monitor:
        report = monitor.automation(
            [split_names(names) for names in apis or []], k=k, show_counts_below_k=unsafe_counts
        )
    row = report.to_json()
    emit_rows(
        [row],
        table=lambda: _automation_table(report),
        wanted=output_format,
        output=output,
        document=row,
    )


def _automation_table(report: AutomationReport) -> Table:
    table = Table("", "users", title="Users that look automated")
    table.add_row("observed", f"{report.users:,}")
    for name, count in (("any sign", report.automated), *report.signs.items()):
        table.add_row(name, "–" if count is None else f"{count:,}")
    for apis, (everybody, human) in report.exposures.items():
        table.add_row(
            plain(f"exposure of {', '.join(apis)}"),
            f"{percent(everybody)}, without automation {percent(human)}",
        )
    return table
