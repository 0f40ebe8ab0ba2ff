"""Commands that compare: rank, curve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fpmonitor.answers.counted import counted_curve, counted_ranks
from fpmonitor.answers.curve import report_curve
from fpmonitor.answers.rank import rank_sets
from fpmonitor.cli.context import open_monitor
from fpmonitor.cli.options import (
    DB,
    DEFAULT_DB,
    DELTA,
    ENGINE,
    FORMAT,
    MISSING,
    OUTPUT,
    POPULATION,
    SINCE,
    SNAPSHOT,
    UNSAFE_COUNTS,
    UNTIL,
    K,
    split_names,
)
from fpmonitor.cli.output import show
from fpmonitor.cli.readers import DEFAULT_LIMIT, QUERY_LIMIT, READER, ask
from fpmonitor.cli.views import (
    DROP_AUTOMATION,
    SOURCE,
    VOLATILE,
    note_coverage,
    note_view,
    view_of,
)
from fpmonitor.errors import InputError
from fpmonitor.question import Question
from fpmonitor.render import answers
from fpmonitor.safe_files import read_text
from fpmonitor.store.snapshot import Window


def rank(
    apis: Annotated[
        list[str] | None,
        typer.Option(
            "--apis", help="APIs of a set to rank, separated by commas; repeat for further sets."
        ),
    ] = None,
    sets: Annotated[
        Path | None,
        typer.Option("--sets", help="File with one set per line, names separated by commas."),
    ] = None,
    candidates: Annotated[
        str | None,
        typer.Option("--candidates", help="Rank sets of these APIs.", show_default="all"),
    ] = None,
    size: Annotated[
        int, typer.Option("--size", help="Rank all sets of up to this many candidates.", min=1)
    ] = 1,
    k: K = 10,
    population: POPULATION = None,
    delta: DELTA = 0.05,
    missing: MISSING = "value",
    volatile: VOLATILE = "shared",
    drop_automation: DROP_AUTOMATION = False,
    source: SOURCE = None,
    reader: READER = None,
    query_limit: QUERY_LIMIT = DEFAULT_LIMIT,
    snapshot: SNAPSHOT = None,
    engine: ENGINE = None,
    db: DB = DEFAULT_DB,
    since: SINCE = None,
    until: UNTIL = None,
    output_format: FORMAT = None,
    output: OUTPUT = None,
) -> None:
    """Rank API sets by entropy and by exposure, and show where the two disagree."""
    named = [split_names(names) for names in apis or ()]
    if sets is not None:
        named += _read_sets(sets)
    view = view_of(volatile, drop_automation)
    with open_monitor(
        db, snapshot=snapshot, engine=engine, window=Window(since, until, source), view=view
    ) as monitor:
        users = monitor.population()
        note_view(users, k)
        question = Question(k, population, delta, missing)
        ranking = rank_sets(
            users,
            question,
            named,
            size=size,
            candidates=None if candidates is None else split_names(candidates),
        )
        ask(monitor, reader, query_limit, counted_ranks(ranking, question))
        ranked = {api for line in ranking.sets for api in line.apis}
        note_coverage(users.coverage(ranked, k), k, missing=missing)
    show(answers.ranking(ranking), output_format, output)


def _read_sets(path: Path) -> list[tuple[str, ...]]:
    """Read a set a line; empty lines and those that begin with `#` are skipped.

    Raises
    ------
    InputError
        The file cannot be read, or holds no set.
    """
    lines = read_text(path, "sets").splitlines()
    sets = [split_names(line) for line in lines if line.strip() and not line.startswith("#")]
    if not sets:
        raise InputError(f"sets {path}: contains no set", hint="one set per line: A,B")
    return sets


def curve(
    apis: Annotated[str, typer.Option("--apis", help="APIs read together, separated by commas.")],
    k: Annotated[int, typer.Option("--k", help="Smallest group size on the curve.")] = 10,
    delta: DELTA = 0.05,
    missing: MISSING = "value",
    unsafe_counts: UNSAFE_COUNTS = False,
    volatile: VOLATILE = "shared",
    drop_automation: DROP_AUTOMATION = False,
    source: SOURCE = None,
    reader: READER = None,
    query_limit: QUERY_LIMIT = DEFAULT_LIMIT,
    snapshot: SNAPSHOT = None,
    engine: ENGINE = None,
    db: DB = DEFAULT_DB,
    since: SINCE = None,
    until: UNTIL = None,
    output_format: FORMAT = None,
    output: OUTPUT = None,
) -> None:
    """Show the exposure curve of an API set, with a simultaneous confidence band."""
    view = view_of(volatile, drop_automation)
    with open_monitor(
        db, snapshot=snapshot, engine=engine, window=Window(since, until, source), view=view
    ) as monitor:
        users = monitor.population()
        note_view(users, k)
        question = Question(k, delta=delta, missing=missing)
        report = report_curve(
            users,
            question,
            split_names(apis),
            show_counts_below_k=unsafe_counts,
        )
        ask(monitor, reader, query_limit, counted_curve(report, question))
    show(answers.curve(report), output_format, output)
