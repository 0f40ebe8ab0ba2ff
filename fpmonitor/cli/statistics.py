"""Commands that compare: rank, curve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fpmonitor.answers.counted import counted_curve, counted_ranks
from fpmonitor.answers.curve import report_curve
from fpmonitor.answers.rank import rank_sets
from fpmonitor.cli.options import (
    CLUSTER,
    DELTA,
    MISSING,
    NAMES,
    ROWS_ARE_USERS,
    STRATA,
    UNSAFE_COUNTS,
    AskedOfSample,
)
from fpmonitor.cli.output import Shown
from fpmonitor.cli.readers import ReaderOptions
from fpmonitor.cli.users import ViewedUsers, note_coverage, note_view
from fpmonitor.errors import InputError
from fpmonitor.policy import SampleModel
from fpmonitor.question import Question, read_strata
from fpmonitor.render import answers
from fpmonitor.safe_files import read_text
from fpmonitor.vocabulary import split_names


def rank(
    *,
    names: NAMES = None,
    apis: Annotated[
        list[str] | None,
        typer.Option(help="APIs of a set to rank, separated by commas; repeat for further sets."),
    ] = None,
    sets: Annotated[
        Path | None, typer.Option(help="File with one set per line, names separated by commas.")
    ] = None,
    candidates: Annotated[
        str | None, typer.Option(help="Rank sets of these APIs.", show_default="all")
    ] = None,
    size: Annotated[
        int, typer.Option(help="Rank all sets of up to this many candidates.", min=1)
    ] = 1,
    question_options: AskedOfSample,
    users: ViewedUsers,
    reader: ReaderOptions,
    shown: Shown,
) -> None:
    """Rank API sets by entropy and by exposure, and show where the two disagree."""
    named = [split_names(one) for one in (*(names or ()), *(apis or ()))]
    if sets is not None:
        named += _read_sets(sets)
    with users.open() as monitor:
        population = monitor.population()
        note_view(population, question_options.k)
        ranking = rank_sets(
            population,
            question_options.question,
            named,
            size=size,
            candidates=None if candidates is None else split_names(candidates),
        )
        reader.ask(monitor, counted_ranks(ranking, question_options.question))
        ranked = {api for line in ranking.sets for api in line.apis}
        note_coverage(
            population.coverage(ranked, question_options.k),
            question_options.k,
            missing=question_options.missing,
        )
    shown.show(answers.ranking(ranking))


def _read_sets(path: Path) -> list[tuple[str, ...]]:
    """Read one set per line; empty lines and those that begin with `#` are skipped."""
    lines = read_text(path, "sets").splitlines()
    sets = [split_names(line) for line in lines if line.strip() and not line.startswith("#")]
    if not sets:
        raise InputError(f"sets {path}: contains no set", hint="one set per line: A,B")
    return sets


def curve(
    *,
    name: Annotated[
        str | None, typer.Argument(help="APIs read together, separated by commas.", metavar="SET")
    ] = None,
    apis: Annotated[
        str | None, typer.Option(help="The same as an option.", show_default="none")
    ] = None,
    k: Annotated[int, typer.Option("--k", "-k", help="Smallest group size on the curve.")] = 10,
    delta: DELTA = 0.05,
    missing: MISSING = "value",
    strata: STRATA = None,
    cluster: CLUSTER = None,
    rows_are_users: ROWS_ARE_USERS = False,
    unsafe_counts: UNSAFE_COUNTS = False,
    users: ViewedUsers,
    reader: ReaderOptions,
    shown: Shown,
) -> None:
    """Show the exposure curve of an API set, with a simultaneous confidence band."""
    wanted = name or apis
    if wanted is None or (name and apis):
        raise InputError(
            "exposure --curve: name exactly one set", hint="as in: exposure --curve Screen.height"
        )
    with users.open() as monitor:
        population = monitor.population()
        note_view(population, k)
        # No --bias and no --fake-share: a curve has no limits with them.
        known = None if strata is None else read_strata(strata)
        sample = SampleModel(strata=known, cluster=cluster, rows_are_users=rows_are_users)
        question = Question(k, delta=delta, missing=missing, sample=sample)
        report = report_curve(
            population,
            question,
            split_names(wanted),
            show_counts_below_k=unsafe_counts,
        )
        reader.ask(monitor, counted_curve(report, question))
    shown.show(answers.curve_output(report))
