"""Commands on users that a distributed engine holds: the same questions, answers and files."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from fpmonitor.cli.data import emit_overview
from fpmonitor.cli.engines import note_lost
from fpmonitor.cli.monitoring import CHECK_FORMAT, emit_check
from fpmonitor.cli.options import (
    DELTA,
    FORMAT,
    MISSING,
    OUTPUT,
    POPULATION,
    QUIET,
    SINCE,
    UNTIL,
    K,
    Missing,
    Setting,
    split_names,
)
from fpmonitor.cli.output import emit, emit_rows, note, percent, plain, progress_line
from fpmonitor.cli.questions import (
    BOUNDS,
    ENTROPIES,
    GIVEN,
    SUPPORT,
    TRUST,
    emit_decision,
    emit_reports,
    read_weights,
)
from fpmonitor.cli.report import PLOTTED, Plot, check_image, emit_figure, figure_of, page_of
from fpmonitor.cli.views import (
    DROP_AUTOMATION,
    SOURCE,
    VOLATILE,
    WHAT_IF,
    Volatile,
    note_view,
    view_of,
)
from fpmonitor.decide.decision import read_decision
from fpmonitor.disclosure import FOR_OTHERS
from fpmonitor.errors import InputError
from fpmonitor.logs import ColumnMap
from fpmonitor.remote import RemoteMonitor
from fpmonitor.store.snapshot import Window

if TYPE_CHECKING:
    from fpmonitor.store.ingest import BatchReport

ENGINE = Annotated[
    str,
    typer.Option(
        "--engine",
        envvar="FPMONITOR_ENGINE",
        help="A server of Spark Connect: Spark, or Sail.",
        metavar="sc://HOST:PORT",
    ),
]
STORE = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="FPMONITOR_STORE",
        help="Folder of the store, as the engine names it: a path, s3a://...",
        metavar="FOLDER",
    ),
]


class InputFormat(StrEnum):
    """What paths hold."""

    PARQUET = "parquet"
    JSONL = "jsonl"
    CSV = "csv"
    DELTA = "delta"
    TABLE = "table"


app = typer.Typer(
    name="remote",
    help="Ask a Spark cluster, or Sail, instead of the database file.",
    no_args_is_help=True,
)


@app.command()
def ingest(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Files or folders that the engine reads, or one table; together one batch.",
            metavar="PATH...",
        ),
    ],
    engine: ENGINE,
    store: STORE,
    form: Annotated[
        InputFormat | None,
        typer.Option(
            "--input", help="What the paths hold. [default: by their endings; a folder is Parquet]"
        ),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", help="Column of the user.", metavar="COLUMN")
    ] = None,
    time: Annotated[
        str | None, typer.Option("--time", help="Column of the time.", metavar="COLUMN")
    ] = None,
    columns: Annotated[
        Path | None, typer.Option("--columns", help="Column map, TOML.", metavar="MAP.toml")
    ] = None,
    output_format: FORMAT = None,
    output: OUTPUT = None,
) -> None:
    """Store a batch of long or wide logs in the folder; the same batch again adds nothing."""
    column_map = ColumnMap() if columns is None else ColumnMap.from_toml(columns)
    named = {field: name for field, name in (("user", user), ("time", time)) if name}
    column_map = replace(column_map, columns={**column_map.columns, **named})
    with RemoteMonitor(engine, store, create=True) as monitor:
        report = monitor.ingest(paths, column_map, None if form is None else form.value)
    _emit_batches([report], output_format, output)


@app.command()
def batches(
    engine: ENGINE, store: STORE, output_format: FORMAT = None, output: OUTPUT = None
) -> None:
    """List the batches that are stored."""
    with RemoteMonitor(engine, store) as monitor:
        reports = monitor.batches()
    _emit_batches(reports, output_format, output)


def _emit_batches(reports: list[BatchReport], output_format: FORMAT, output: OUTPUT) -> None:
    rows = [report.to_json() for report in reports]

    def table() -> Table:
        drawn = Table("batch", "collector", title="Batches, by number of records")
        counts = ("read", "stored", "duplicates", "rejected", "users", "apis")
        for name in counts:
            drawn.add_column(name, justify="right")
        for row in rows:
            numbers = (f"{row[name]:,}" for name in counts)
            drawn.add_row(plain(row["source"]), row["collector"], *numbers)
        return drawn

    emit_rows(rows, table=table, wanted=output_format, output=output)


@app.command()
def apis(
    engine: ENGINE,
    store: STORE,
    k: K = 10,
    volatile: VOLATILE = Volatile.SHARED,
    drop_automation: DROP_AUTOMATION = False,
    source: SOURCE = None,
    since: SINCE = None,
    until: UNTIL = None,
    output_format: FORMAT = None,
    output: OUTPUT = None,
) -> None:
    """List the observed APIs: users, values, entropy and exposure of each alone."""
    view, window = view_of(volatile, drop_automation), Window(since, until, source)
    with RemoteMonitor(engine, store, window=window, view=view) as monitor:
        note_view(monitor, k)
        overview = monitor.apis(k=k)
        unnamed = len(monitor.snapshot().apis) - len(overview)
    emit_overview(overview, unnamed, k, output_format, output)


@app.command()
def exposure(
    apis: Annotated[
        list[str],
        typer.Option(
            "--apis", help="APIs read together, separated by commas; again for another set."
        ),
    ],
    engine: ENGINE,
    store: STORE,
    k: K = 10,
    population: POPULATION = None,
    delta: DELTA = 0.05,
    missing: MISSING = Missing.VALUE,
    given: GIVEN = "",
    bounds: BOUNDS = False,
    support: SUPPORT = None,
    trust: TRUST = None,
    entropies: ENTROPIES = False,
    volatile: VOLATILE = Volatile.SHARED,
    drop_automation: DROP_AUTOMATION = False,
    what_if: WHAT_IF = None,
    source: SOURCE = None,
    since: SINCE = None,
    until: UNTIL = None,
    output_format: FORMAT = None,
    output: OUTPUT = None,
) -> None:
    """Estimate the exposure of API sets, with limits that hold."""
    view, window = view_of(volatile, drop_automation, what_if), Window(since, until, source)
    with RemoteMonitor(engine, store, window=window, view=view) as monitor:
        note_view(monitor, k)
        reports = monitor.exposure(
            [split_names(names) for names in apis],
            k=k,
            population=population,
            delta=delta,
            missing=missing.value,
            given=split_names(given),
            bounds=bounds,
            supports=support or (),
            trust=None if trust is None else trust.value,
            entropies=entropies,
        )
    emit_reports(reports, output_format, output)


@app.command()
def decide(
    budget: Annotated[
        float, typer.Option("--budget", help="Largest tolerated exposure, a share of the users.")
    ],
    engine: ENGINE,
    store: STORE,
    k: K = 10,
    population: POPULATION = None,
    delta: DELTA = 0.05,
    candidates: Annotated[
        str | None,
        typer.Option("--candidates", help="APIs to decide on, separated by commas. [default: all]"),
    ] = None,
    setting: Annotated[
        Setting,
        typer.Option("--setting", help="Certify for a population, or count the observed users."),
    ] = Setting.POPULATION,
    missing: MISSING = Missing.VALUE,
    must: Annotated[str, typer.Option("--must", help="APIs that every set must hold.")] = "",
    never: Annotated[str, typer.Option("--never", help="APIs that no set may hold.")] = "",
    weights: Annotated[
        Path | None,
        typer.Option("--weights", help="TOML file: utility of each API.", metavar="FILE"),
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option("--time-limit", help="Stop the search after these seconds.")
    ] = None,
    max_size: Annotated[
        int | None, typer.Option("--max-size", help="Only sets of at most so many APIs.")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            help="Go on from this decision of the same question, which was stopped early.",
            metavar="DECISION.json",
        ),
    ] = None,
    volatile: VOLATILE = Volatile.SHARED,
    drop_automation: DROP_AUTOMATION = False,
    what_if: WHAT_IF = None,
    source: SOURCE = None,
    since: SINCE = None,
    until: UNTIL = None,
    output_format: FORMAT = None,
    output: OUTPUT = None,
    quiet: QUIET = False,
) -> None:
    """Decide which API sets stay k-anonymous; the same decision as of a database file."""
    known = None if resume is None else read_decision(resume)
    view, window = view_of(volatile, drop_automation, what_if), Window(since, until, source)
    with (
        RemoteMonitor(engine, store, window=window, view=view) as monitor,
        progress_line(quiet) as progress,
    ):
        progress("preparing")
        if not quiet:
            note_view(monitor, k)
        decision = monitor.decide(
            k=k,
            budget=budget,
            population=population,
            delta=delta,
            candidates=None if candidates is None else split_names(candidates),
            setting=setting.value,
            missing=missing.value,
            weights=None if weights is None else read_weights(weights),
            must=split_names(must),
            never=split_names(never),
            time_limit=time_limit,
            max_size=max_size,
            known=known,
            progress=lambda evaluated: progress(f"{evaluated:,} sets evaluated"),
        )
    emit_decision(decision, output_format, output, quiet=quiet)
    note_lost(monitor)


@app.command()
def check(
    decision: Annotated[Path, typer.Argument(help="A decision file.", metavar="DECISION.json")],
    engine: ENGINE,
    store: STORE,
    source: SOURCE = None,
    since: SINCE = None,
    until: UNTIL = None,
    output_format: CHECK_FORMAT = None,
    output: OUTPUT = None,
) -> int:
    """Test the allow list of a decision on the data of now: 0 holds, 1 violated, 3 cannot tell."""
    made = read_decision(decision)
    window = Window(since, until, source or made.source)
    with RemoteMonitor(engine, store, window=window) as monitor:
        report = monitor.check_report(made)
    return emit_check(report, decision, output_format, output)


@app.command()
def report(
    decision: Annotated[Path, typer.Argument(help="A decision file.", metavar="DECISION.json")],
    engine: ENGINE,
    store: STORE,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The report, HTML.", metavar="FILE")
    ] = Path("report.html"),
    source: SOURCE = None,
    since: SINCE = None,
    until: UNTIL = None,
    quiet: QUIET = False,
) -> None:
    """Write the report on a decision, as of a database file; the page says what it cannot tell."""
    FOR_OTHERS.set(True)
    made = read_decision(decision)
    with (
        RemoteMonitor(engine, store, window=Window(since, until, source)) as monitor,
        progress_line(quiet) as progress,
    ):
        progress("measuring")
        page = page_of(monitor, made)
    emit(page, output)
    note(f"written to {output}", quiet=quiet)


@app.command()
def plot(
    kind: Annotated[Plot, typer.Argument(help="What to draw.")],
    engine: ENGINE,
    store: STORE,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="An SVG or PNG file.", metavar="FILE")
    ],
    apis: PLOTTED = None,
    k: K = 10,
    population: POPULATION = None,
    delta: DELTA = 0.05,
    source: SOURCE = None,
    since: SINCE = None,
    until: UNTIL = None,
    quiet: QUIET = False,
) -> None:
    """Draw exposures with limits, a curve, entropy against exposure, or the price of trust."""
    check_image(output)
    FOR_OTHERS.set(True)
    with RemoteMonitor(engine, store, window=Window(since, until, source)) as monitor:
        figure = figure_of(monitor, kind, apis, k, population, delta)
    emit_figure(figure, output, quiet=quiet)


@app.command()
def sample(
    users: Annotated[int, typer.Option("--users", help="How many users to draw.")],
    engine: ENGINE,
    store: STORE,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="A Parquet file.", metavar="FILE.parquet")
    ],
    k: K = 10,
    population: POPULATION = None,
    delta: DELTA = 0.05,
    source: SOURCE = None,
    since: SINCE = None,
    until: UNTIL = None,
    quiet: QUIET = False,
) -> None:
    """Draw users for the local database, and say what the certificate loses by it.

    The file is a long log with raw values: `fpmonitor ingest FILE.parquet` reads it.
    """
    with RemoteMonitor(engine, store, window=Window(since, until, source)) as monitor:
        drawn = monitor.sample(users)
        price = monitor.price_of_sample(users, k=k, population=population, delta=delta)
    try:
        drawn.write_parquet(output)
    except OSError as error:
        raise InputError(f"cannot write {output} ({error.strerror})") from error
    note(
        f"{price.sampled:,} of {price.users:,} users written to {output}. The price of sampling: "
        "the smallest exposure that the certificate can prove is "
        f"{percent(price.limit_of_sample, 4)} with the sample, {percent(price.limit, 4)} with all "
        "users.",
        quiet=quiet,
    )
