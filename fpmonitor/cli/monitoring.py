"""Commands on time: trend, check, watch."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fpmonitor.answers.check import of_recommended
from fpmonitor.answers.notices import message
from fpmonitor.answers.standing import decide_again
from fpmonitor.answers.trend import Against, report_trend
from fpmonitor.cli.context import INVOCATION, open_monitor
from fpmonitor.cli.data import Storing
from fpmonitor.cli.deployed import Deployed
from fpmonitor.cli.options import (
    DB,
    DECISION,
    DEFAULT_DB,
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
    Users,
    check_borne_out,
    note_coverage,
)
from fpmonitor.decide.credible import read_credible_decision
from fpmonitor.decide.files import read_decision
from fpmonitor.errors import FpmonitorError, InputError, StoreError
from fpmonitor.export.exporter import printable
from fpmonitor.lookout.delivery import post_to, run_command
from fpmonitor.monitor import windows_that_decide
from fpmonitor.policy import SampleModel, disclosed_from
from fpmonitor.population.views import View
from fpmonitor.question import Question
from fpmonitor.render import answers
from fpmonitor.render.check_files import check_sentences, to_github, to_junit, to_sarif
from fpmonitor.render.figures import of_trend
from fpmonitor.store.snapshot import Window
from fpmonitor.store.windows import PARTS, Division, Period
from fpmonitor.unit import spoken
from fpmonitor.vocabulary import split_names
from fpmonitor.watch import DeliveryError, Watch, WatchSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fpmonitor.answers.check import CheckReport, RunAlarm
    from fpmonitor.decide.decision import Decision
    from fpmonitor.store.watching import Notice

EXIT_VIOLATED = EXIT_CHANGED = 1
_NAMED = 3
EXIT_UNDECIDED = 3
_EXITS = {
    "holds": 0,
    "violated": EXIT_VIOLATED,
    "cannot tell": EXIT_UNDECIDED,
    None: EXIT_UNDECIDED,
}
CheckFormat = Literal["table", "json", "csv", "junit", "sarif", "github"]
CHECK_FORMAT = Annotated[
    CheckFormat | None,
    typer.Option(
        "--format", help="Output format.", show_default="a table on a terminal, JSON when piped"
    ),
]
_FILES = {"junit": to_junit, "sarif": to_sarif, "github": to_github}


NEWEST = Annotated[
    Period | None,
    typer.Option("--by", help="Only check the newest day, week or month (UTC) that is over."),
]
WHOLE = Annotated[
    bool,
    typer.Option("--all", help="Test every set on the allow list, not the recommended one alone."),
]
NEW_USERS = Annotated[
    bool,
    typer.Option(
        "--new-users",
        help="The list was decided on none of the users in the database: decides more.",
    ),
]


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
        timeless = windows.timeless
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
    users: Users,
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
        is_open = by is not None and report.outcome == "cannot tell"
        longer = windows_that_decide(monitor, decided, by, new_users=new_users) if is_open else None
        users.note_beside(monitor, decided, quiet=quiet)
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
    return _EXITS[report.outcome]


def _circumstances(report: CheckReport) -> Iterator[str]:
    """Describe which users were checked, which check this is, and what checks like it promise."""
    for window in report.left_out[:_NAMED]:
        yield f"left out: the {report.period} of {window.since:%Y-%m-%d}, which {window.why}"
    if len(report.left_out) > _NAMED:
        yield f"left out: {len(report.left_out) - _NAMED:,} windows more"
    sample = report.decision.policy.sample
    if sample.options:
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
        asked = made if made.union_with else report.decision  # whose sets hold APIs of others
        anew = decide_again(asked, database, vanished=report.vanished)
        yield f"to decide again: {anew}"


FOLDER = Annotated[Path, typer.Argument(help="Folder that receives the logs.", metavar="DIR")]
WATCHED = Annotated[
    Path, typer.Option("--decision", help="Decision to check.", metavar="DECISION.json")
]
COMMAND = Annotated[
    str | None,
    typer.Option(
        "--command", help="Command to run when a verdict changes; it gets JSON on standard input."
    ),
]
WEBHOOK = Annotated[
    str | None,
    typer.Option(
        "--webhook",
        envvar="FPMONITOR_WEBHOOK",
        help="Address to post JSON to when a verdict changes; if it is secret, set the "
        "variable instead.",
        metavar="URL",
    ),
]
METRICS = Annotated[
    Path | None,
    typer.Option(
        "--metrics",
        help="Write the limits, verdicts and problems to this file for Prometheus, such as "
        "fpmonitor.prom in the folder of node_exporter's textfile collector.",
        metavar="FILE.prom",
    ),
]
ONCE = Annotated[bool, typer.Option("--once", help="Check the folder once and exit, for cron.")]
EVERY = Annotated[
    float, typer.Option("--every", help="Seconds between checks of the folder.", min=0.1)
]
SETTLE = Annotated[
    float,
    typer.Option(
        "--settle", help="Seconds for which a file must not have changed before it is read.", min=0
    ),
]


def watch(
    *,
    folder: FOLDER,
    decision: WATCHED,
    command: COMMAND = None,
    webhook: WEBHOOK = None,
    by: NEWEST = None,
    new_users: NEW_USERS = False,
    whole: WHOLE = False,
    metrics: METRICS = None,
    once: ONCE = False,
    every: EVERY = 10,
    settle: SETTLE = 2,
    reading: Storing,
    db: DB = DEFAULT_DB,
    quiet: QUIET = False,
) -> int:
    """Store new logs of a folder as they arrive; report when the verdict on a decision changes."""
    deliver: list[Callable[[Notice], None]] = [_print_notice]
    if command is not None:
        deliver.append(run_command(command))
    if webhook is not None:
        deliver.append(post_to(webhook))
    invocation = INVOCATION.get()
    settings = WatchSettings(
        folder=folder,
        database=db,
        decision=read_decision(decision),
        file=decision,
        by=by,
        new_users=new_users,
        whole=whole,
        collector=reading.collector,
        column_map=reading.column_map,
        digest_values=reading.digest_values,
        settle=settle,
        key_file=invocation.key_file,
        patience=invocation.patience,
        metrics=metrics,
    )

    UNIT.set(settings.decision.unit)
    reading.column_map()  # what is wrong with the settings is said at once
    watching = Watch(
        settings,
        deliver=deliver,
        note=lambda text: note(printable(text), quiet=quiet),  # also names are on one line
        checked=lambda report: _note_check(report, quiet=quiet),
    )
    if once:
        return _watch_once(watching, settle, quiet=quiet)
    _keep_watching(watching, settings.decision, decision, every, quiet=quiet)
    return 0


def _watch_once(watching: Watch, settle: float, *, quiet: bool) -> int:
    """Do what there is to do; a violation is never hidden by a failed delivery or a broken file."""
    failed: DeliveryError | None = None
    try:
        watching.step()
        if watching.waiting:
            time.sleep(settle)
            watching.step()
    except DeliveryError as error:
        failed = error
    outcome, refused = watching.outcome, watching.refused
    code = _EXITS[outcome]
    if outcome is None:
        note("cannot tell: no log has been stored yet", quiet=quiet)
    if failed is not None:
        if code != EXIT_VIOLATED:
            raise failed
        note(str(failed), quiet=quiet)
    if code != EXIT_VIOLATED and refused:
        raise InputError(
            f"not all files of the folder can be read, such as {refused[0]}",
            hint="mend it, say how logs are read, or take it out of the folder",
        )
    return code


def _note_check(report: CheckReport, *, quiet: bool) -> None:
    """Note why a check did not pass."""
    open_sets = [text for _, verdict, text in check_sentences(report) if verdict != "allow"]
    for text in open_sets[:_NAMED]:
        note(f"{report.outcome}: {text}", quiet=quiet)
    if len(open_sets) > _NAMED:
        note(f"... and {len(open_sets) - _NAMED:,} sets more", quiet=quiet)


def _keep_watching(
    watching: Watch, decided: Decision, file: Path, every: float, *, quiet: bool
) -> None:
    """Check the folder until interrupted, by the decision that its file holds at that time."""
    said: list[str] = []
    while True:
        # What fails now may succeed the next time; it is noted once.
        failed: list[tuple[str, bool]] = []
        try:
            now = read_decision(file)
            if now != decided:
                decided = now
                watching.go_over_to(now)
                note(f"{file} holds another decision now, which is watched", quiet=quiet)
        except InputError as error:
            failed.append(
                (f"the earlier decision is watched, until it can be read: {error}", False)
            )
        try:
            watching.step()
        except FpmonitorError as error:
            failed.append((f"will try again: {error}", quiet and isinstance(error, StoreError)))
        for text, is_quiet in failed:
            if text not in said:
                note(text, quiet=is_quiet)
        said = [text for text, _ in failed]
        time.sleep(every)


def _print_notice(notice: Notice) -> None:
    payload = message(notice.body, details=notice.details)
    if not sys.stdout.isatty():
        emit(json.dumps(payload, ensure_ascii=False) + "\n", None)
        return
    lines = [f"{payload['severity']}: {payload['title']}"]
    lines += [f"  also: {title}" for title in payload["also"]]
    lines += [f"  to do: {payload['todo']}"]
    lines += [f"  next: {command}" for command in notice.body["next"]]
    lines += [] if payload["details"] is None else [f"  details: {payload['details']}"]
    emit("\n".join(map(printable, lines)) + "\n", None)
