"""Commands on what scripts read, and on automation."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fpmonitor.answers.automation import report_automation
from fpmonitor.answers.scripts import listed_hosts, report_scripts
from fpmonitor.cli.context import open_monitor
from fpmonitor.cli.options import (
    COLLECTOR,
    DB,
    DECISION,
    DEFAULT_DB,
    QUIET,
    UNSAFE_COUNTS,
    ExposureOfSample,
    K,
)
from fpmonitor.cli.output import Shown, emit, note
from fpmonitor.cli.users import StoredUsers
from fpmonitor.decide.credible import read_credible_decision
from fpmonitor.decide.files import read_decision
from fpmonitor.disclosure import Audience
from fpmonitor.render import answers
from fpmonitor.render.script_lists import ScriptForm, script_list, unlisted
from fpmonitor.safe_files import read_json
from fpmonitor.store.demand import By, DemandReport, Reader, read_scripts
from fpmonitor.vocabulary import split_names


def demand(
    *,
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            help="Logs of API calls to store first: files, folders, glob patterns, or -."
        ),
    ] = None,
    by: Annotated[By, typer.Option(help="Group the calls by script, or by site.")] = "script",
    most: Annotated[int, typer.Option(help="Largest number of sets to list.", min=1)] = 50,
    question_options: ExposureOfSample,
    collector: COLLECTOR = None,
    db: DB = DEFAULT_DB,
    shown: Shown,
    quiet: QUIET = False,
) -> None:
    """List the API sets that scripts read, most exposing first."""
    # Logs of calls may be the first that a database stores.
    with open_monitor(db, create=bool(paths)) as monitor:
        for report in monitor.store_demand(paths, collector=collector) if paths else []:
            note(
                f"{report.source}: {report.collector}, {report.stored:,} of {report.read:,} "
                f"records of calls stored, {report.rejected:,} rejected{_why(report)}",
                quiet=quiet,
            )
        question = question_options.question
        lines = monitor.demand(
            by,
            k=question.k,
            population=question.population,
            delta=question.delta,
            sample=question.sample,
            most=most,
        )
    shown.show(answers.demand_output(lines, question_options.k))


def _why(report: DemandReport) -> str:
    if not report.rejected:
        return ""
    return f", most often because: {report.reason}; see `fpmonitor db rejects`"


BY = Annotated[
    Reader, typer.Option("--by", help="Judge each script, or each host that serves scripts.")
]
CRAWL = Annotated[
    str,
    typer.Option(
        "--crawl", help="Only stored logs of API calls whose path is like this.", metavar="GLOB"
    ),
]
BEFORE = Annotated[
    str | None,
    typer.Option(
        "--before", help="Compare the ranks with those of these earlier logs.", metavar="GLOB"
    ),
]
AGAINST = Annotated[
    Path | None, typer.Option("--against", help="Compare with Disconnect's list: services.json.")
]
TO = Annotated[
    ScriptForm | None, typer.Option("--to", help="Write a list in this form instead of the answer.")
]
MOST = Annotated[
    int,
    typer.Option("--most", help="Largest number of scripts, those on the most sites first.", min=1),
]


def scripts(
    *,
    decision: DECISION,
    by: BY = "script",
    crawl: CRAWL = "*",
    before: BEFORE = None,
    against: AGAINST = None,
    to: TO = None,
    most: MOST = 200,
    users: StoredUsers,
    shown: Shown,
    quiet: QUIET = False,
) -> None:
    """Rank scripts by what they expose, and by what a decision takes from them."""
    decided = read_credible_decision(decision, read_decision)
    listed = None if against is None else listed_hosts(read_json(against, "list"))
    with users.open() as monitor:
        read = partial(
            read_scripts,
            monitor.database,
            by,
            most=most,
            # A script that a browser reported may be that of one user.
            reports=monitor.audience is Audience.OWNER,
        )
        found = read(crawl=crawl)
        if len(found) == most:
            note(f"the {most:,} on the most sites; --most asks for more", quiet=quiet)
        report = report_scripts(
            monitor.population_as(decided),
            decided,
            found,
            before=() if before is None else read(crawl=before),
            listed=listed,
        )
    if to is None:
        shown.show(answers.scripts_output(report))
        return
    if left_out := unlisted(report):
        note(
            f"{left_out:,} scripts above the budget are in no list of rules: they run on sites of "
            "their own host alone, or have no plain name",
            quiet=quiet,
        )
    emit(script_list(report, to), shown.output)


def automation(
    *,
    apis: Annotated[
        list[str] | None,
        typer.Option(help="API set whose exposure to compare; repeat for further sets."),
    ] = None,
    k: K = 10,
    users: StoredUsers,
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
    shown.show(answers.automation_output(report))
