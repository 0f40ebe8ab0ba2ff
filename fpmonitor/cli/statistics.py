"""Commands that compare: rank, curve."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from fpmonitor.cli.options import (
    DB,
    DEFAULT_DB,
    DELTA,
    FORMAT,
    MISSING,
    OUTPUT,
    POPULATION,
    SINCE,
    UNSAFE_COUNTS,
    UNTIL,
    K,
    split_names,
)
from fpmonitor.cli.output import emit_rows, percent, plain
from fpmonitor.cli.readers import DEFAULT_LIMIT, QUERY_LIMIT, READER, ask
from fpmonitor.cli.views import (
    DROP_AUTOMATION,
    SOURCE,
    VOLATILE,
    note_view,
    view_of,
)
from fpmonitor.errors import InputError
from fpmonitor.monitor import Monitor
from fpmonitor.release.query_audit import name_exposure
from fpmonitor.safe_files import read_text
from fpmonitor.store.snapshot import Window

if TYPE_CHECKING:
    from fpmonitor.answers.curve import CurveReport
    from fpmonitor.answers.rank import Ranking

_SHOWN_SETS = 40
_SHOWN_POINTS = 30


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
    with Monitor(db, window=Window(since, until, source), view=view) as monitor:
        note_view(monitor, k)
        ranking = monitor.rank(
            named,
            size=size,
            candidates=None if candidates is None else split_names(candidates),
            k=k,
            population=population,
            delta=delta,
            missing=missing,
        )
        ask(monitor, reader, query_limit, [name_exposure(line.apis, k) for line in ranking.sets])
    emit_rows(
        [asdict(line) for line in ranking.sets],
        table=lambda: _ranking_table(ranking),
        wanted=output_format,
        output=output,
        document=ranking.to_json(),
    )


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


def _ranking_table(ranking: Ranking) -> Table:
    basis = "unbiased estimate" if ranking.basis == "unbiased" else "upper limit, each for its set"
    table = Table(
        title=(
            f"Share of users in groups of fewer than {ranking.k}, in a population of "
            f"{ranking.population:,}, against entropy"
        ),
        caption=(
            f"{ranking.users:,} observed users. Exposure: {basis}. Of {ranking.pairs:,} pairs of "
            f"sets that differ, entropy orders {ranking.disagreeing_pairs:,} the other way. "
            "`places`: how much further up the set stands by exposure than by entropy. `off by`: "
            "how far n/2^H overstates the group of a typical user."
        ),
        caption_justify="left",
    )
    table.add_column("API set", overflow="fold")
    for name in ("exposure", "place", "bits", "place", "places", "n/2^H", "off by"):
        table.add_column(name, justify="right")
    for line in ranking.sets[:_SHOWN_SETS]:
        table.add_row(
            plain(", ".join(line.apis)),
            percent(line.exposure),
            f"{line.place_by_exposure}",
            f"{line.entropy_bits:.2f}",
            f"{line.place_by_entropy}",
            f"{line.places_apart:+d}" if line.places_apart else "0",
            f"{line.naive_group_size:,.0f}",
            f"{line.misleading_factor:.2g}×",
        )
    if len(ranking.sets) > _SHOWN_SETS:
        table.add_row(f"... and {len(ranking.sets) - _SHOWN_SETS:,} more: --format csv")
    return table


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
    db: DB = DEFAULT_DB,
    since: SINCE = None,
    until: UNTIL = None,
    output_format: FORMAT = None,
    output: OUTPUT = None,
) -> None:
    """Show the exposure curve of an API set, with a simultaneous confidence band."""
    view = view_of(volatile, drop_automation)
    with Monitor(db, window=Window(since, until, source), view=view) as monitor:
        note_view(monitor, k)
        report = monitor.curve(
            split_names(apis),
            k=k,
            delta=delta,
            missing=missing,
            show_counts_below_k=unsafe_counts,
        )
        points = [name_exposure(report.apis, point.threshold) for point in report.points]
        ask(monitor, reader, query_limit, points)
    emit_rows(
        [asdict(point) for point in report.points],
        table=lambda: _curve_table(report),
        wanted=output_format,
        output=output,
        document=report.to_json(),
    )


def _curve_table(report: CurveReport) -> Table:
    step = -(-len(report.points) // _SHOWN_POINTS)
    left_out = f" One point of {step} is shown: --format csv for all." if step > 1 else ""
    table = Table(
        title=plain(f"Exposure curve: {', '.join(report.apis)}"),
        caption=(
            f"{report.users:,} observed users. Lower and upper limit the share of the population "
            f"whose value is rarer than the threshold, all together with probability "
            f"{1 - report.delta:.6g}.{left_out}"
        ),
        caption_justify="left",
    )
    for name in ("groups below", "share", "observed", "lower", "upper"):
        table.add_column(name, justify="right")
    for point in report.points[::step]:
        table.add_row(
            f"{point.threshold:,}",
            percent(point.share, 4),
            *(percent(share) for share in (point.empirical, point.lower, point.upper)),
        )
    return table
