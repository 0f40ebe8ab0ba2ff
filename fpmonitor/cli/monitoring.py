"""Commands on time: trend, check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fpmonitor.answers.check import of_recommended
from fpmonitor.answers.standing import called_anew, decide_again
from fpmonitor.answers.trend import Against, report_trend
from fpmonitor.cli.context import open_monitor
from fpmonitor.cli.deployed import CHECK_EXITS, NEW_USERS, NEWEST, WHOLE, Deployed
from fpmonitor.cli.options import (
    DECISION,
    DELTA,
    NAMES,
    OUTPUT,
    QUIET,
    ROWS_ARE_USERS,
    SETS,
    K,
    number_of_users,
)
from fpmonitor.cli.output import Shown, emit, note, progress_line, show
from fpmonitor.cli.subject import UNIT
from fpmonitor.cli.users import (
    DROP_AUTOMATION,
    SOURCE,
    VOLATILE,
    StoredUsers,
    check_borne_out,
    note_beside,
    note_coverage,
)
from fpmonitor.decide.credible import read_credible_decision
from fpmonitor.decide.files import read_decision
from fpmonitor.disclosure import Audience
from fpmonitor.export.exporter import printable
from fpmonitor.monitor import windows_that_decide
from fpmonitor.policy import SampleModel, disclosed_from
from fpmonitor.population.views import View
from fpmonitor.question import Question
from fpmonitor.render import answers
from fpmonitor.render.check_files import to_github, to_junit, to_sarif
from fpmonitor.render.figures import of_trend
from fpmonitor.store.snapshot import Window
from fpmonitor.store.windows import PARTS, Division
from fpmonitor.unit import spoken
from fpmonitor.vocabulary import split_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fpmonitor.answers.check import CheckReport, RunAlarm
    from fpmonitor.decide.decision import Decision

EXIT_CHANGED = 1
_NAMED = 3
CheckFormat = Literal["table", "json", "csv", "junit", "sarif", "github"]
CHECK_FORMAT = Annotated[
    CheckFormat | None,
    typer.Option(
        "--format", help="Output format.", show_default="a table on a terminal, JSON when piped"
    ),
]
_FILES = {"junit": to_junit, "sarif": to_sarif, "github": to_github}


BY = Annotated[
    Division,
    typer.Option(
        "--by", help="What a window is: a day, week or month (UTC), a batch, or a source."
    ),
]
POPULATION = Annotated[
    int | None,
    typer.Option(
        "--population",
        "-n",
        help="Size of the population that sites will see: 10000000 or 10M.",
        show_default="the users of the median window",
        parser=number_of_users,
        metavar="USERS",
    ),
]
AGAINST = Annotated[Against, typer.Option("--against", help="Which window each is compared with.")]
FALSE_ALARMS = Annotated[
    float,
    typer.Option("--false-alarms", help="Probability of any false alarm, if nothing changed."),
]
SVG = Annotated[
    Path | None, typer.Option("--svg", help="Also draw the exposure over time to this file.")
]


def trend(
    *,
    names: NAMES = None,
    apis: SETS = None,
    by: BY = "week",
    k: K = 10,
    population: POPULATION = None,
    delta: DELTA = 0.05,
    rows_are_users: ROWS_ARE_USERS = False,
    against: AGAINST = "previous",
    false_alarms: FALSE_ALARMS = 0.01,
    volatile: VOLATILE = "shared",
    drop_automation: DROP_AUTOMATION = False,
    source: SOURCE = None,
    users: StoredUsers,
    svg: SVG = None,
    shown: Shown,
    quiet: QUIET = False,
) -> int:
    """Follow the exposure from window to window; alert when the users change.

    Exit code 0: the users of the newest window are not known to differ from those that it is
    compared with, 1: they do.
    """
    window = Window(users.since, users.until, source)
    view = View(volatile=volatile, drop_automation=drop_automation)
    with (
        open_monitor(users.db, window=window, view=view) as monitor,
        progress_line(quiet) as progress,
    ):
        windows = monitor.windows(by)
        report = report_trend(
            windows,
            Question(k, population, delta, sample=SampleModel(rows_are_users=rows_are_users)),
            [split_names(one) for one in (*(names or ()), *(apis or ()))],
            against=against,
            false_alarms=false_alarms,
            progress=progress,
        )
        # Others are not told: all of them may be of one user.
        timeless = windows.timeless if monitor.audience is Audience.OWNER else 0
    if timeless >= k and by not in PARTS:
        note(f"{timeless:,} visits have no time and belong to no window", quiet=quiet)
    if svg is not None:
        emit(of_trend(report, headed=True).of(UNIT.get()).file, svg)
    shown.show(answers.trend_output(report))
    return EXIT_CHANGED if report.is_different else 0


def check(
    *,
    decision: DECISION,
    by: NEWEST = None,
    new_users: NEW_USERS = False,
    whole: WHOLE = False,
    users: StoredUsers,
    deployed: Deployed,
    output_format: CHECK_FORMAT = None,
    output: OUTPUT = None,
    quiet: QUIET = False,
) -> int:
    """Re-test the recommended set of a decision on current data, or a list that is in use.

    Exit code 0: holds, 1: violated, 3: cannot tell.
    """
    made = read_credible_decision(decision, read_decision)
    if deployed.file is not None:
        given: dict[str, object] = {"by": by, "new-users": new_users, "all": whole}
        given |= {"since": users.since, "until": users.until}
        report = deployed.check(made, users, given, quiet=quiet)
        return emit_check(report, decision, output_format, output)
    deployed.refuse_alone()
    with users.open() as monitor:
        check_borne_out(monitor, monitor.population_as(made), made, with_names=False)
        listed = made.with_unions_listed()
        decided = listed if whole else of_recommended(made)
        report = monitor.check(decided, by=by, new_users=new_users)
        # Windows of each length are read to say which decide: only where this check does not.
        is_open = by is not None and report.outcome == "cannot tell"
        longer = windows_that_decide(monitor, decided, by, new_users=new_users) if is_open else None
        note_beside(monitor, decided, quiet=quiet)
    if rest := len(listed.allow) - len(decided.allow):
        more = "1 more set is" if rest == 1 else f"{rest:,} more sets are"
        note(f"{more} allowed; --all tests all of them", quiet=quiet)
    note_coverage(report.coverage, decided.policy.k, missing=decided.missing, quiet=quiet)
    for text in [*_circumstances(report), *_renewal(report, made, users.db)]:
        note(text, quiet=quiet)
    if longer is not None:
        note(longer, quiet=quiet)
    return emit_check(report, decision, output_format, output)


def emit_check(
    report: CheckReport, decision: Path, output_format: CheckFormat | None, output: Path | None
) -> int:
    """Write a check in the chosen format, and return its exit code."""
    match output_format:
        case "junit" | "sarif" | "github":
            emit(spoken(_FILES[output_format](report, str(decision)), UNIT.get()), output)
        case _:
            show(answers.check_output(report), output_format, output)
    return CHECK_EXITS[report.outcome]


def _circumstances(report: CheckReport) -> Iterator[str]:
    """Describe which users were checked, which check this is, and what checks like it promise."""
    for window in report.left_out[:_NAMED]:
        yield f"left out: the {report.period} of {window.since:%Y-%m-%d}, which {window.why}"
    if len(report.left_out) > _NAMED:
        yield f"left out: {len(report.left_out) - _NAMED:,} windows more"
    sample = report.decision.policy.sample
    if sample.options or (report.visits_unread and report.place is None):
        yield report.guarantee
    if report.period is None and report.place is None:
        return
    few = f"fewer than {disclosed_from(report.decision.policy.k)}"
    users = few if report.users is None else f"{report.users:,}"
    since = "" if report.since is None else f" from {report.since:%Y-%m-%d} on"
    yield f"{report.outcome}; {users} users{since}"
    if report.new_users is not None:
        yield (
            "the list was decided on none of these users, as far as is known"
            if report.new_users
            else "the list may have been decided on some of these users: tested as strictly as then"
        )
    if report.late:
        named = " and ".join(", ".join(apis) for apis in report.late[:_NAMED])
        yield (
            "by all of its logs, of which some came after its first look, this window would be "
            f"above the budget: {named}"
        )
    for api, words in sorted(report.faults.items())[:_NAMED]:
        yield f"the logs look broken: {api} has {words}; no set with it passes"
    if report.broken_first is not None:
        day, faults = report.broken_first
        for api, words in sorted(faults.items())[:_NAMED]:
            yield f"the logs of {day:%Y-%m-%d} look broken beside those since: {api} has {words}"
    if report.doubted:
        yield (
            "users were forgotten on whom the list may have been decided; they would come again "
            "unrecognised, so windows are tested more strictly until it is decided again"
        )
    if report.alarm is not None and report.alarm.raised:
        yield _alarm(report.alarm)
    if not sample.options and report.place is not None:
        yield report.guarantee


def _alarm(alarm: RunAlarm) -> str:
    """Describe an alarm, and how often it is false."""
    said = "alarm: the windows so far are hardly all within the budget; while all are, "
    if alarm.after is None:
        return (
            f"{said}the first alarm comes after {alarm.run_length:,} windows on average, or later"
        )
    return (
        f"{said}one window in {alarm.run_length:,} at most begins a false alarm, on average; "
        f"windows up to {alarm.after:%Y-%m-%d %H:%M} do not count, as users were forgotten, or "
        "another database with runs of its own was copied in"
    )


def _renewal(report: CheckReport, made: Decision, database: Path) -> Iterator[str]:
    """Describe what the decision knows, what has changed since, and how to decide again."""
    renewal = report.renewal
    if renewal is None:
        return
    yield from map(printable, [renewal.known, *renewal.reasons])
    if renewal.tested < renewal.listed:
        yield (
            f"of {renewal.listed:,} sets that are not allowed the {renewal.tested:,} smallest "
            "were tested"
        )
    if renewal.wrong_by and renewal.moved:
        yield renewal.wrong_by
    if renewal.advised:
        asked = called_anew(made, report.decision)
        anew = decide_again(asked, database, vanished=report.vanished)
        yield f"to decide again: {anew}"
