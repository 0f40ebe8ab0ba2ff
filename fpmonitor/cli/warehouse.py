"""Commands on users beyond one computer: scale sql, fetch, convert."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

from fpmonitor.cli.context import INVOCATION, open_monitor
from fpmonitor.cli.data import LOGS, note_accounts
from fpmonitor.cli.options import DB, DEFAULT_DB, ENGINE, FORMAT, PART, QUIET, ROWS_ARE_USERS
from fpmonitor.cli.output import Shown, emit, note, progress_line, show
from fpmonitor.cli.reading import NAMES, ReadingOptions, assigned
from fpmonitor.cluster.asking import AT_ONCE, Asked, Dialect, UserPart, all_sets, statement_of
from fpmonitor.cluster.engine import open_engine
from fpmonitor.cluster.fetching import fetch_visits
from fpmonitor.cluster.rounds import begin
from fpmonitor.disclosure import Audience
from fpmonitor.errors import InputError, PolicyError
from fpmonitor.render import store
from fpmonitor.store.convert import convert
from fpmonitor.store.names import apis_of
from fpmonitor.unit import Unit, weakest
from fpmonitor.vocabulary import split_names

# Tests run statements in these; those of other dialects are parsed alone.
_RUN = frozenset(("clickhouse", "duckdb", "postgres", "spark"))


TABLE = Annotated[
    str,
    typer.Option(
        "--from",
        help="A table or a query, as you would write it after FROM.",
        metavar="TABLE|QUERY",
    ),
]
USER = Annotated[
    str | None,
    typer.Option(
        "--user", help="Column that names the user.", show_default="rows count", metavar="COLUMN"
    ),
]
TIME = Annotated[
    str | None,
    typer.Option(
        "--time",
        help="Column of the time: the latest row of each user counts.",
        show_default="one row per user",
        metavar="COLUMN",
    ),
]
CANDIDATES = Annotated[
    str,
    typer.Option(
        "--candidates",
        help="Columns to decide on, separated by commas: asks what `decide` needs.",
        metavar="COLUMNS",
    ),
]
SETS = Annotated[
    list[str] | None,
    typer.Option(
        "--sets",
        help="Columns read together, separated by commas: asks what `exposure` needs; repeat "
        "for further sets.",
        metavar="COLUMNS",
    ),
]
DIALECT = Annotated[Dialect, typer.Option("--dialect", help="Whose SQL to write.")]
MASK = Annotated[
    int | None,
    typer.Option(
        "--mask", help="Give groups of fewer than K users as one sum in the answer.", metavar="K"
    ),
]
ROUNDS = Annotated[
    Path | None,
    typer.Option(
        "--to",
        help=f"Folder for the statements and answers of several rounds. More than {AT_ONCE} "
        "candidates need it.",
        metavar="FOLDER",
    ),
]
UNIT = Annotated[
    Unit, typer.Option("--unit", help="With --to: what a user is; a visitor or a row is less.")
]
STATEMENT = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Write the statement here.", metavar="FILE.sql"),
]


def sql(
    *,
    table: TABLE,
    user: USER = None,
    time: TIME = None,
    candidates: CANDIDATES = "",
    sets: SETS = None,
    dialect: DIALECT = "postgres",
    mask: MASK = None,
    folder: ROUNDS = None,
    names: NAMES = None,
    unit: UNIT = "user",
    output: STATEMENT = None,
    quiet: QUIET = False,
) -> None:
    """Print one SQL statement that counts users in a warehouse, without connecting to it.

    Its answer, saved as CSV, holds counts and no values. `exposure`, `decide` and
    `audit certificate` read it by --spectra.
    """
    decided, read = split_names(candidates), [split_names(one) for one in sets or ()]
    question = Asked(
        table=table,
        apis=tuple(sorted({*decided, *(column for one in read for column in one)})),
        dialect=dialect,
        user=user,
        time=time,
        mask=mask,
        names=apis_of(assigned(names or ())),
        unit=unit,
        # All rounds of a folder have one key; a single statement keeps none.
        key="" if folder is None else secrets.token_hex(),
    )
    if folder is not None:
        if read:
            raise InputError("--sets: not with --to", hint="name columns by --candidates")
        text = begin(folder, question)
        note(
            f"run {folder / '1.sql'} in {dialect}, and save its answer as {folder / '1.csv'}; then "
            f"`fpmonitor decide --spectra {folder}`",
            quiet=quiet,
        )
        if output is not None:
            emit(text, output)
    else:
        if question.names or unit != "user":
            raise InputError("--as and --unit: are kept in a folder", hint="name one: --to FOLDER")
        if len(decided) > AT_ONCE:
            raise InputError(
                f"--candidates: {len(decided)} columns have too many sets for one statement",
                hint="ask in rounds: --to FOLDER",
            )
        emit(statement_of(question, [*all_sets(sorted({*decided})), *read]), output)
    if dialect not in _RUN:
        note(f"we never ran this statement in {dialect}: check it first", quiet=quiet)


def fetch(
    *,
    table: Annotated[
        str,
        typer.Option(
            "--from",
            help="The visits: a table, a query or Parquet files, as the engine names them.",
            metavar="TABLE|QUERY|PATH",
        ),
    ],
    engine: ENGINE = None,
    db: DB = DEFAULT_DB,
    part: PART = None,
    reading: ReadingOptions,
    shown: Shown,
    quiet: QUIET = False,
) -> None:
    """Fetch the visits of a table of a warehouse into a database; again, those that are new.

    With `--time`, rows before the newest known moment are not read again.
    """
    if INVOCATION.get().audience is Audience.OTHERS:
        raise PolicyError("scale fetch", "is for the owner of the data only")
    with (
        open_engine(engine) as opened,
        open_monitor(db, create=True) as monitor,
        progress_line(quiet) as progress,
    ):
        reports = fetch_visits(
            monitor.database,
            opened,
            table,
            reading.column_map(),
            part=None if part is None else UserPart.from_text(part),
            progress=progress,
        )
    shown.show(store.batches_output(reports))
    note_accounts(reports, quiet)


def convert_logs(
    paths: LOGS,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="A Parquet file.", metavar="FILE.parquet")
    ],
    *,
    reading: ReadingOptions,
    rows_are_users: ROWS_ARE_USERS = False,
    output_format: FORMAT = None,
    quiet: QUIET = False,
) -> None:
    """Write the visits of logs as a Parquet file for other engines."""
    with progress_line(quiet) as progress:
        reports = convert(
            paths,
            output,
            collector=reading.collector,
            column_map=reading.column_map(),
            rows_are_users=rows_are_users,
            progress=lambda source, stage: progress(f"{source}: {stage}"),
        )
    unit = weakest(report.unit for report in reports)
    if unit != "user":
        note(f"each user of {output} is a {unit}, and is called so there", unit="user")
    show(store.batches_output(reports), output_format, None)
