"""The command that watches a folder: watch."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fpmonitor.answers.notices import message
from fpmonitor.cli.context import INVOCATION
from fpmonitor.cli.deployed import CHECK_EXITS, NEW_USERS, NEWEST, WHOLE
from fpmonitor.cli.options import DB, DEFAULT_DB, QUIET
from fpmonitor.cli.output import emit, note
from fpmonitor.cli.reading import DIGEST_VALUES, ReadingOptions
from fpmonitor.cli.subject import UNIT
from fpmonitor.decide.credible import read_credible_decision
from fpmonitor.decide.files import read_decision
from fpmonitor.errors import FpmonitorError, InputError, StoreError
from fpmonitor.export.exporter import printable
from fpmonitor.lookout.delivery import post_to, run_command
from fpmonitor.render.check_files import check_sentences
from fpmonitor.watch import DeliveryError, Watch, WatchSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from fpmonitor.answers.check import CheckReport
    from fpmonitor.decide.decision import Decision
    from fpmonitor.store.watching import Notice

_VIOLATED = CHECK_EXITS["violated"]
_NAMED = 3

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
    reading: ReadingOptions,
    digest_values: DIGEST_VALUES = False,
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
        decision=read_credible_decision(decision, read_decision),
        file=decision,
        by=by,
        new_users=new_users,
        whole=whole,
        collector=reading.collector,
        column_map=reading.column_map,
        digest_values=digest_values,
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
            # Files that were written to just now are looked at once more.
            time.sleep(settle)
            watching.step()
    except DeliveryError as error:
        failed = error
    outcome, refused = watching.outcome, watching.refused
    code = CHECK_EXITS[outcome]
    if outcome is None:
        note("cannot tell: no log has been stored yet", quiet=quiet)
    if failed is not None:
        if code != _VIOLATED:
            raise failed
        note(str(failed), quiet=quiet)
    if code != _VIOLATED and refused:
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
            now = read_credible_decision(file, read_decision)
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
