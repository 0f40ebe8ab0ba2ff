"""Commands on users beyond one computer: convert, snapshot, sample."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fpmonitor.cli.data import LOGS, NAMES, ReadingOptions, assigned
from fpmonitor.cli.options import ENGINE, FORMAT, QUIET, ROWS_ARE_USERS, Exposure
from fpmonitor.cli.output import note, progress_line, show
from fpmonitor.cluster.engine import open_engine
from fpmonitor.cluster.snapshot import take_engine_snapshot
from fpmonitor.errors import InputError
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.render import store
from fpmonitor.render.numbers import percent
from fpmonitor.snapshots import SnapshotMonitor
from fpmonitor.spectrum import CountSpectrum
from fpmonitor.store.convert import convert
from fpmonitor.unit import Unit, weakest

PARQUET = Annotated[
    Path, typer.Option("-o", "--output", help="A Parquet file.", metavar="FILE.parquet")
]


def convert_logs(
    paths: LOGS,
    output: PARQUET,
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


def snapshot(
    table: Annotated[
        str,
        typer.Option(
            "--from",
            help="One row per user: a table, a query, or Parquet files, as the engine names them.",
            metavar="TABLE|QUERY|PATH",
        ),
    ],
    folder: Annotated[
        str,
        typer.Option("--to", help="Folder of snapshots, as the engine names it.", metavar="FOLDER"),
    ],
    engine: ENGINE = None,
    user: Annotated[
        str, typer.Option("--user", help="Column that names the user.", metavar="COLUMN")
    ] = "user",
    visits: Annotated[
        str | None,
        typer.Option(
            "--visits",
            help="One row per visit, to see what browsers randomise; named like --from.",
            metavar="TABLE|QUERY|PATH",
        ),
    ] = None,
    names: NAMES = None,
    unit: Annotated[
        Unit, typer.Option("--unit", help="What each row is: a user, a visitor by a rule, a row.")
    ] = "user",
    output_format: FORMAT = None,
    quiet: QUIET = False,
) -> None:
    """Turn a table of an engine, with one row per user, into a snapshot in a folder.

    The snapshot is named by its content: the same users again write nothing.
    """
    if engine is None:
        raise InputError("snapshot: name the server with --engine sc://HOST:PORT")
    with open_engine(engine) as session, progress_line(quiet) as progress:
        progress("reading")
        taken = take_engine_snapshot(
            session,
            table,
            folder,
            user=user,
            visits=visits,
            names=assigned(names or ()),
            unit=unit,
        )
    show(store.snapshot_output(taken).of(taken.manifest.unit), output_format, None)


def sample_snapshot(
    *,
    snapshot: Annotated[
        str, typer.Option("--snapshot", help="The snapshot to draw from.", metavar="FOLDER")
    ],
    users: Annotated[int, typer.Option("--users", help="How many users to draw.")],
    output: PARQUET,
    engine: ENGINE = None,
    asked: Exposure,
    quiet: QUIET = False,
) -> None:
    """Draw users of a snapshot for a database, and show what the certificate loses by it.

    The file is a long log with raw values: `fpmonitor ingest FILE.parquet` reads it.
    """
    with SnapshotMonitor(snapshot, engine) as monitor:
        everyone, unit = monitor.snapshot.users, monitor.unit
        drawn = monitor.snapshot.sample(users)
    try:
        drawn.write_parquet(output)
    except OSError as error:
        raise InputError(f"cannot write {output} ({error.strerror})") from error

    def smallest(number: int) -> str:
        """Return the upper limit of a set whose users all share one value."""
        limits = exposure_limits(
            users=number,
            k=asked.k,
            population=asked.population or everyone,
            delta=asked.delta,
        )
        return percent(limits.of(CountSpectrum.from_counts([number]))[1], 4)

    note(
        f"{users:,} of {everyone:,} users written to {output}. The price of sampling: the smallest "
        f"exposure that the certificate can prove is {smallest(users)} with the sample, "
        f"{smallest(everyone)} with all users.",
        quiet=quiet,
        unit=unit,
    )
