"""Shares of strata of the visitors of a site, or of stored users."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fpmonitor.answers.shares import SharesReport, shares_of_logs, shares_of_users
from fpmonitor.cli.context import open_monitor
from fpmonitor.cli.options import LOG_FORMAT, QUIET, K, is_named, share
from fpmonitor.cli.output import emit, note
from fpmonitor.cli.users import DROP_AUTOMATION, UsersOfSource
from fpmonitor.errors import InputError
from fpmonitor.logs.finding import log_files
from fpmonitor.policy import disclosed_from, sureness
from fpmonitor.population.robots import robots_list
from fpmonitor.population.views import View
from fpmonitor.question import strata_file
from fpmonitor.render.numbers import percent
from fpmonitor.unit import VISITOR_RULE
from fpmonitor.vocabulary import split_names

if TYPE_CHECKING:
    from collections.abc import Collection

_DELTA = 0.01
_SHORT = {"family": "browser family", "os": "operating system"}


PATHS = Annotated[
    list[str] | None,
    typer.Argument(
        help="Access logs: files, folders, glob patterns, or -.",
        metavar="LOG",
        show_default="the users of the database",
    ),
]
BY = Annotated[
    str,
    typer.Option(
        "--by",
        help="What defines the strata: family, os, or a column of the database; several, "
        "separated by commas, make joint strata.",
        metavar="A,B,...",
    ),
]
DELTA = Annotated[
    float | None,
    typer.Option(
        "--delta",
        help="Write limits of the shares, which all hold with probability 1 - DELTA, as the "
        "users are a sample; 0 writes what was counted.",
        parser=share,
        metavar="SHARE",
        show_default="0.01 for stored users, 0 for an access log",
        rich_help_panel="Question",
    ),
]
SHARES_FILE = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="TOML file to write.", rich_help_panel="Output"),
]


def shares(
    context: typer.Context,
    *,
    paths: PATHS = None,
    by: BY = "family",
    k: K = 10,
    delta: DELTA = None,
    log_format: LOG_FORMAT = "",
    users: UsersOfSource,
    drop_automation: DROP_AUTOMATION = False,
    output: SHARES_FILE = None,
    quiet: QUIET = False,
) -> None:
    """Count shares of strata for `--strata`: the visitors of an access log, or stored users.

    A visitor is an address, or the cookie that `collect log-line` logs, with a user agent on a day.
    """
    if paths:
        # The environment may name a database for all commands: that one is passed over.
        if is_named(context, "db") or drop_automation or users != UsersOfSource(db=users.db):
            raise InputError(
                "shares: visitors are counted in the whole access log",
                hint="omit the options for users of a database",
            )
        with log_files(paths) as logs:
            report = shares_of_logs(
                logs, _in_full(by), k=k, delta=delta or 0.0, log_format=log_format
            )
    else:
        view = View(drop_automation=drop_automation)
        with open_monitor(users.db, window=users.window, view=view) as monitor:
            population = monitor.population()
            delta = _DELTA if delta is None else delta
            report = shares_of_users(population, _in_full(by, population.apis), k=k, delta=delta)
    about = _about(report, k)
    if delta:
        about += f" Limits that all hold with probability {sureness(delta)}."
    emit(strata_file(report.strata, about), output)
    note(about, quiet=quiet or output is None)
    note(f"robots by {robots_list()}", quiet=quiet or report.automated == 0)
    if report.busiest is not None:
        note(
            f"{percent(report.busiest)} of the visitors come from one address: a proxy whose own "
            "address is logged, or somebody with many user agents",
            quiet=quiet,
        )


def _in_full(by: str, columns: Collection[str] = ()) -> str:
    """Write out the short names of what no column is called by."""
    names = [name if name in columns else _SHORT.get(name, name) for name in split_names(by)]
    return ", ".join(f'"{name}"' if "," in name else name for name in names)


def _about(report: SharesReport, k: int) -> str:
    """Say who was counted, and who was not."""
    number = (
        f"fewer than {disclosed_from(k)}" if report.automated is None else f"{report.automated:,}"
    )
    dropped = f"; {number} look automated and are left out" * (report.automated != 0)
    if report.days is None:
        return f"{report.users:,} users{dropped}."
    rejected = f"; lines without a visitor: {report.rejected:,}" * bool(report.rejected)
    first, last = report.days
    return f"{report.users:,} visitors, each {VISITOR_RULE}, {first} to {last}{dropped}{rejected}."
