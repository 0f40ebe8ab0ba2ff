"""Commands that show: report, plot, compare."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fpmonitor.answers.compare import compare_decisions, compare_sets
from fpmonitor.answers.curve import report_curve
from fpmonitor.answers.decide import called_as
from fpmonitor.answers.exposure import ExposureDetails, report_exposures
from fpmonitor.answers.rank import rank_sets
from fpmonitor.cli.context import INVOCATION, open_monitor
from fpmonitor.cli.options import (
    BUDGET,
    FOLLOWED,
    NAMES,
    QUIET,
    SETS,
    ExposureOfSample,
    days_apart,
    share,
)
from fpmonitor.cli.output import Shown, emit, note, progress_line
from fpmonitor.cli.subject import UNIT
from fpmonitor.cli.users import UsersOfSource
from fpmonitor.decide.files import read_any_decision, read_decision
from fpmonitor.disclosure import Audience
from fpmonitor.errors import InputError, UnknownNameError, install
from fpmonitor.log import report_page
from fpmonitor.monitor import Monitor
from fpmonitor.policy import PLAIN_DRAWS, check_share
from fpmonitor.render import answers
from fpmonitor.render.figures import (
    Figure,
    of_curve,
    of_exposures,
    of_followed,
    of_ranking,
    of_trust,
)
from fpmonitor.safe_files import write_bytes
from fpmonitor.store.snapshot import Window
from fpmonitor.vocabulary import split_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.population.population import Population

Plot = Literal["exposure", "curve", "entropy", "trust", "followed"]

DRAWN_BUDGET = Annotated[
    float | None,
    typer.Option(
        "--budget",
        help="Draw this budget as a line across exposures: 0.05 or 5%.",
        parser=share,
        metavar="SHARE",
    ),
]


def report(
    *,
    decision: Annotated[
        Path | None,
        typer.Argument(
            help="Decision file.", show_default="make a decision now", metavar="DECISION.json"
        ),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="HTML file to write.")] = Path(
        "report.html"
    ),
    practice: Annotated[
        str | None,
        typer.Option(
            help="Of a decision about levels: what is shown today, to be drawn beside it.",
            metavar="NAME=LEVEL,...",
        ),
    ] = None,
    question_options: ExposureOfSample,
    budget: BUDGET = 0.05,
    users: UsersOfSource,
    quiet: QUIET = False,
) -> None:
    """Write an HTML report on a decision, with figures and their data."""
    read = None if decision is None else read_any_decision(decision)
    # A page is passed on: it hides what others may not see, whoever makes it.
    with users.open(audience=Audience.OTHERS) as monitor, progress_line(quiet) as progress:
        progress("deciding" if decision is None else "reading")
        question = question_options.question
        if read is not None and question.sample != PLAIN_DRAWS:
            raise InputError(
                "report: a decision says itself of what sample it was made",
                hint="omit --strata, --bias and --fake-share, or decide anew",
            )
        decided = (
            monitor.decide(
                k=question_options.k,
                population=question_options.population,
                budget=budget,
                delta=question_options.delta,
                sample=question.sample,
            )
            if read is None
            else read
        )
        page = report_page(monitor, decided, practice=practice, progress=progress)
    emit(page, output)
    note(f"written to {output}", quiet=quiet)


def plot(
    *,
    kind: Annotated[Plot, typer.Argument(help="What to draw.")],
    names: NAMES = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="SVG or PNG file to write.")],
    apis: SETS = None,
    budget: DRAWN_BUDGET = None,
    followed: FOLLOWED = "",
    question_options: ExposureOfSample,
    users: UsersOfSource,
    quiet: QUIET = False,
) -> None:
    """Draw exposures, a curve, entropy against exposure, the price of trust, or who is followed."""
    check_image(output)
    days = [days_apart(each) for each in split_names(followed)]
    if bool(days) != (kind == "followed"):
        raise InputError(
            "followed: days are drawn by `--plot followed` only, which needs some",
            hint="exposure --plot followed NAMES --followed 7d,28d -o followed.svg",
        )
    # Only the owner of a database is told of visits.
    audience = INVOCATION.get().audience if days else Audience.OTHERS
    with users.open(audience=audience) as monitor:
        figure = figure_of(
            monitor, kind, [*(names or ()), *(apis or ())], question_options, budget, days
        )
    emit_figure(figure, output, quiet=quiet)


def check_image(output: Path) -> None:
    """Refuse a file that is neither SVG nor PNG by its name."""
    if output.suffix not in {".svg", ".png"}:
        raise InputError(f"{output}: not an .svg or .png file")


def emit_figure(figure: Figure, output: Path, *, quiet: bool) -> None:
    """Write a figure as the file's name asks."""
    figure = figure.of(UNIT.get())
    drawn = figure.file
    if output.suffix == ".png":
        write_bytes(output, [_png(drawn)])
    else:
        emit(drawn, output)
    note(f"{figure.note} Written to {output}", quiet=quiet)


def _png(svg: str) -> bytes:
    try:
        import font_roboto  # noqa: PLC0415 -- an extra
        import resvg_py  # noqa: PLC0415 -- an extra
    except ImportError as error:
        raise InputError(
            f"plot: PNG needs {error.name}", hint=f"{install('png')}; or write .svg"
        ) from error
    # A machine may have no font at all, and text would be missing without a word.
    drawn = resvg_py.svg_to_bytes(
        svg_string=svg,
        background="#ffffff",
        zoom=2,
        skip_system_fonts=True,
        font_files=[font_roboto.Roboto],
        sans_serif_family="Roboto",
    )
    return bytes(drawn)


def figure_of(
    monitor: Monitor,
    kind: Plot,
    apis: Sequence[str],
    question_options: ExposureOfSample,
    budget: float | None,
    followed: Sequence[float],
) -> Figure:
    """Draw one figure of some API sets.

    Of exposures or entropy any number, a budget across exposures; else one set, and the days after
    which it is followed.
    """
    if budget is not None:
        check_share("budget", budget)
        if kind != "exposure":
            raise InputError(f"exposure --plot {kind}: --budget is drawn by `--plot exposure` only")
    sets = [split_names(names) for names in apis]
    users, question = monitor.population(), question_options.question
    if kind == "entropy":
        return of_ranking(rank_sets(users, question, sets, size=2))
    if kind == "exposure":
        wanted = sets or [(api,) for api in users.askable_apis(question)]
        reports = report_exposures(users, question, wanted)
        return of_exposures(reports, title="Exposure", budget=budget)
    if len(sets) != 1:
        raise InputError(f"exposure --plot {kind}: name exactly one set")
    if kind == "curve":
        return of_curve(report_curve(users, question, sets[0]))
    if kind == "followed":
        [found] = report_exposures(users, question, sets, ExposureDetails(followed=followed))
        return of_followed(found)
    [found] = report_exposures(users, question, sets, ExposureDetails(trust="joint"))
    return of_trust(found)


def _holds(population: Population, apis: Sequence[str]) -> bool:
    try:
        return bool(population.named(apis))
    except UnknownNameError:
        return False


def compare_command(
    *,
    before: Annotated[
        Path, typer.Argument(help="Database, or decision file (.json).", metavar="BEFORE")
    ],
    after: Annotated[
        Path,
        typer.Argument(help="Another one, or the same database with --split.", metavar="AFTER"),
    ],
    apis: SETS = None,
    decision: Annotated[
        Path | None,
        typer.Option(help="Compare the allowed sets of this decision.", metavar="DECISION.json"),
    ] = None,
    split: Annotated[
        datetime | None, typer.Option(help="Compare before and after this time (UTC).")
    ] = None,
    question_options: ExposureOfSample,
    shown: Shown,
) -> None:
    """Compare the exposure in two databases or before and after a time, or two decisions."""
    if before.suffix == after.suffix == ".json":
        if question_options.question.sample != PLAIN_DRAWS:
            raise InputError(
                "check --compare: a decision says itself of what sample it was made",
                hint="omit --strata, --bias and --fake-share",
            )
        lines = compare_decisions(read_decision(before), read_decision(after))
        shown.show(answers.compared_decisions(lines))
        return
    windows = (Window(until=split), Window(since=split))
    with open_monitor(before, window=windows[0]) as first:
        sets = [split_names(names) for names in apis or ()]
        observed = first.population()
        if decision is not None:
            sets += called_as(read_decision(decision), observed).allow
        # A population that nobody named has the size of the first users, for both: else answers to
        # two questions would be compared.
        question = observed.question(question_options.question)
        wanted = sets or [(api,) for api in observed.askable_apis(question)]
        earlier = report_exposures(observed, question, wanted)
    with open_monitor(after, window=windows[1]) as second:
        observed = second.population()
        shared = [
            (report, apis)
            for report, apis in zip(earlier, wanted, strict=True)
            if _holds(observed, apis)
        ]
        later = report_exposures(observed, question, [apis for _, apis in shared])
    compared = [compare_sets(a, b) for (a, _), b in zip(shared, later, strict=True)]
    if len(shared) < len(earlier):
        note(f"{len(earlier) - len(shared)} sets contain APIs never observed in the second one")
    compared.sort(key=lambda line: -abs(line.difference))
    shown.show(answers.comparison_output(compared, population=question.users, k=question_options.k))
