"""A first look at logs, where no browser can show the page: one screen, and nothing is kept."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fpmonitor.account import summary
from fpmonitor.cli.context import INVOCATION, open_monitor
from fpmonitor.cli.output import progress_line
from fpmonitor.cli.reading import ReadingOptions
from fpmonitor.errors import PolicyError, some_of
from fpmonitor.policy import PLAIN_DRAWS, SampleModel
from fpmonitor.render.decisions import headline
from fpmonitor.render.numbers import between, percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fpmonitor.monitor import Monitor

_K, _BUDGET = 10, 0.05
_CANDIDATES = 12  # a decision on as many takes seconds
_NAMED = 3


def look(
    *,
    paths: Annotated[list[str], typer.Argument(help="Logs to look at; nothing is stored.")],
    reading: ReadingOptions,
) -> None:
    """Print on one screen what logs hold, what they expose, and which commands come next."""
    if INVOCATION.get().for_others:
        raise PolicyError("look", "is for the owner of the data only")
    with (
        # Gone in a moment, so that nobody need count the looks at its users (`kept=False`).
        tempfile.TemporaryDirectory() as folder,
        open_monitor(Path(folder) / "look.duckdb", create=True, kept=False) as monitor,
        progress_line(quiet=False) as progress,
    ):
        reports = monitor.ingest(
            paths,
            collector=reading.collector,
            column_map=reading.column_map(),
            progress=lambda _log, stage: progress(stage),
        )
        progress("deciding")
        lines = list(_answer(monitor))
    accounts = [report.account for report in reports if report.account is not None]
    lines += ["", f"The log: {summary(accounts[0].members)}."] if accounts else []
    aside = [member.path for account in accounts for member in account.set_aside]
    if aside:
        lines.append(f"Not stored: {some_of(aside, _NAMED)}.")
    lines += ["", "Next:", f"  fpmonitor ingest {shlex.join([*paths, *_given(reading)])}"]
    lines += ["  fpmonitor decide --budget 5% -o decision.json"]
    lines += ["  fpmonitor export decision.json ublock -o list.txt"]
    print("\n".join(lines))


def _answer(monitor: Monitor) -> Iterator[str]:
    """Say what the APIs of the log expose, and which may be read together."""
    sample = SampleModel(rows_are_users=True) if monitor.unit == "row" else PLAIN_DRAWS
    overview = monitor.apis(k=_K)
    apis = [line.api for line in overview]
    if not apis:
        yield "The log holds no API that 10 users share."
        return
    [whole] = monitor.exposure([apis], k=_K, sample=sample)
    decision = monitor.decide(k=_K, budget=_BUDGET, candidates=apis[:_CANDIDATES], sample=sample)
    tried = "" if len(apis) <= _CANDIDATES else f" (of the {_CANDIDATES} that expose most)"
    listed = f": {', '.join(decision.recommended)}" if decision.recommended else ""
    yield f"{headline(decision)}{tried}{listed}."
    if decision.no_evidence:
        yield f"The log holds no evidence about {', '.join(sorted(decision.no_evidence)[:_NAMED])}."
    yield (
        f"All {len(apis)} APIs expose {between(whole.lower, whole.upper)} of "
        f"{whole.users:,} {monitor.unit}s."
    )
    yield "Exposed: in a group of fewer than 10 with the same values."
    worst = [f"{line.api} {percent(line.exposure, 1)}" for line in overview[:_NAMED]]
    yield f"Most exposing alone: {', '.join(worst)}."
    if monitor.unit == "row":
        yield "No column names the users, so rows are counted; --user COLUMN of `ingest` names one."


def _given(reading: ReadingOptions) -> list[str]:
    """Return the options by which the logs were read, for the command that stores them."""
    one = {
        "--collector": reading.collector,
        "--columns": reading.columns,
        "--user": reading.user,
        "--time": reading.time,
        "--log-format": reading.log_format,
        "--weight": reading.weight,
    }
    several = {
        "--as": reading.names,
        "--ignore": reading.ignore,
        "--elements": reading.elements,
        "--null": reading.null,
    }
    options = [part for flag, value in one.items() if value for part in (flag, str(value))]
    options += ["--visitor"] * reading.visitor
    options += ["--no-flatten"] * (not reading.flatten)
    return options + [
        part for flag in several for text in several[flag] or () for part in (flag, text)
    ]
