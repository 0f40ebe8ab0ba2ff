"""Commands on sketches of values: sketch key, make, merge, info, exposure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fpmonitor.answers.sketch import report_sketch
from fpmonitor.cli.context import INVOCATION
from fpmonitor.cli.options import ENGINE, PART, QUIET, Exposure, number_of_users
from fpmonitor.cli.output import Shown, note, progress_line
from fpmonitor.cli.users import TransformedUsers, note_view
from fpmonitor.cluster.asking import UserPart
from fpmonitor.cluster.engine import open_engine
from fpmonitor.disclosure import Audience
from fpmonitor.errors import InputError
from fpmonitor.estimate.value_sample import ENTRIES
from fpmonitor.render import sketches
from fpmonitor.secret_files import make_key_file
from fpmonitor.sketch.file import Sketch, read_sketch, write_sketch
from fpmonitor.sketch.making import SketchPlan, share_level, sketch_population, sketch_table
from fpmonitor.sketch.merge import merge_sketches
from fpmonitor.sketch.words import read_sketch_key
from fpmonitor.unit import check_limits
from fpmonitor.vocabulary import split_names

app = typer.Typer()
SKETCH = Annotated[Path, typer.Argument(help="A sketch.", metavar="FILE")]
TO_SKETCH = Annotated[
    Path, typer.Option("-o", "--output", help="Sketch to write, for you alone.", metavar="FILE")
]
SKETCH_KEY = Annotated[
    Path, typer.Option("--key-file", help="Key of the sketches (mode 600): see `scale sketch key`.")
]
TABLE = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="In place of a database: Parquet files or a query, as DuckDB names them. With "
        "--engine: a table, a query or Parquet files, as the engine names them.",
        metavar="TABLE|QUERY|PATH",
        rich_help_panel="Data",
    ),
]
USER = Annotated[
    str | None,
    typer.Option(
        "--user",
        help="Column of --from that names the user.",
        show_default="each row is another user",
        metavar="COLUMN",
        rich_help_panel="Data",
    ),
]
TIME = Annotated[
    str | None,
    typer.Option(
        "--time",
        help="Column of --from with the time: the latest row of each user counts.",
        show_default="one row per user",
        metavar="COLUMN",
        rich_help_panel="Data",
    ),
]
SETS = Annotated[
    list[str],
    typer.Option(
        "--apis", help="APIs read together, separated by commas; repeat for further sets."
    ),
]


@dataclass(frozen=True, kw_only=True)
class SketchedUsers(TransformedUsers):
    """Options for the users of a sketch."""

    table: TABLE = None
    user: USER = None
    time: TIME = None
    part: PART = None
    engine: ENGINE = None

    def sketch(self, plan: SketchPlan, *, quiet: bool) -> Sketch:
        """Make a sketch of them."""
        if self.table is None:
            if self.user or self.time or self.part or self.engine:
                raise InputError("sketch: --engine, --user, --time and --part are for --from")
            with self.open() as monitor:
                population = monitor.population()
                if not quiet:
                    # The owner alone makes sketches: no number is hidden.
                    note_view(population, 1)
                check_limits(population.snapshot.units, rows_are_users=None)
                return sketch_population(population, plan)
        if any(self.window.bounds.values()):
            raise InputError(
                "sketch: --since, --until and --source are not for --from",
                hint="choose rows in a query",
            )
        if self.drop_automation or self.what_if is not None or self.volatile == "left-out":
            raise InputError(
                "sketch: values of --from are taken as they are",
                hint="omit --volatile, --drop-automation and --what-if",
            )
        if self.volatile != "raw":
            note(
                "values of --from count as they are, also those that browsers randomise",
                quiet=quiet,
            )
        part = None if self.part is None else UserPart.from_text(self.part)
        with open_engine(self.engine) as engine:
            return sketch_table(engine, self.table, plan, user=self.user, time=self.time, part=part)


@app.command("key")
def key(
    path: Annotated[Path, typer.Argument(help="Key file to create.")], quiet: QUIET = False
) -> None:
    """Make the key that chooses the values of sketches."""
    make_key_file(path)
    note(
        f"{path} serves for good: sketches of two keys do not merge, and limits do not hold for a "
        "key that was chosen by its results",
        quiet=quiet,
    )


@app.command("make")
def make(
    *,
    apis: SETS,
    key_file: SKETCH_KEY,
    output: TO_SKETCH,
    share: Annotated[
        str | None,
        typer.Option(
            "--share",
            help="Share of the values to keep, fixed before they are seen: 1, 1/2, 1/4, ...",
            show_default="what --entries leads to",
            metavar="1/1024",
        ),
    ] = None,
    entries: Annotated[
        int | None,
        typer.Option(
            "--entries",
            help="Values to keep at most per set: 1000000 or 1M.",
            show_default=f"{ENTRIES:,} without --share",
            parser=number_of_users,
            metavar="N",
        ),
    ] = None,
    users: SketchedUsers,
    quiet: QUIET = False,
) -> None:
    """Keep few values of API sets, and count all of their users: for 10^8 users and more.

    The file is as secret as the users.
    """
    _check_owner()
    if share is not None and entries is not None:
        raise InputError("sketch: --share or --entries, not both")
    plan = SketchPlan(
        key=read_sketch_key(key_file),
        sets=tuple(tuple(split_names(names)) for names in apis),
        entries=ENTRIES if share is None and entries is None else entries,
        level=None if share is None else share_level(share),
    )
    with progress_line(quiet) as progress:
        progress("counting")
        sketch = users.sketch(plan, quiet=quiet)
    write_sketch(sketch, output)
    value_count = sum(len(values.words) for values in sketch.sets)
    note(f"{value_count:,} values of {sketch.users:,} users kept in {output}", quiet=quiet)


@app.command("merge")
def merge(
    *,
    paths: Annotated[list[Path], typer.Argument(help="Sketches.", metavar="FILE...")],
    output: TO_SKETCH,
    disjoint: Annotated[
        bool,
        typer.Option(
            "--disjoint",
            help="You know that no user is in two of them, as of users of different regions.",
        ),
    ] = False,
    quiet: QUIET = False,
) -> None:
    """Merge sketches of different users; needs no key."""
    found = ((str(path), read_sketch(path)) for path in paths)
    merged = merge_sketches(found, disjoint=disjoint)
    write_sketch(merged, output)
    note(f"{len(merged.parts):,} parts with {merged.users:,} users in {output}", quiet=quiet)


@app.command("info")
def info(*, path: SKETCH, shown: Shown) -> None:
    """Show what a sketch holds: sets, users, parts, the id of its key."""
    _check_owner()
    shown.show(sketches.sketch(read_sketch(path)))


@app.command("exposure")
def sketch_exposure(
    *,
    path: SKETCH,
    apis: Annotated[
        list[str] | None,
        typer.Option(
            "--apis",
            help="A set of the sketch, APIs separated by commas; repeat for further sets.",
            show_default="all its sets",
        ),
    ] = None,
    question_options: Exposure,
    shown: Shown,
) -> None:
    """Limit the exposure of the API sets of a sketch; needs no key."""
    reports = report_sketch(
        read_sketch(path),
        question_options.question,
        [split_names(names) for names in apis or ()],
        audience=INVOCATION.get().audience,
    )
    shown.show(sketches.sketch_exposures(reports))


def _check_owner() -> None:
    if INVOCATION.get().audience is not Audience.OWNER:
        raise InputError("sketch: this is for the owner of the users", hint="omit --for-others")
