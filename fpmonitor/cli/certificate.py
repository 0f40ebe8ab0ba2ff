"""The command that proves a decision file again: audit certificate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fpmonitor.answers.questions import list_questions
from fpmonitor.answers.spectra import (
    count_spectra,
    departures,
    departures_of_tests,
    read_spectra,
)
from fpmonitor.cli.context import INVOCATION, open_monitor
from fpmonitor.cli.options import DECISION, DEFAULT_DB, SINCE, UNSAFE_COUNTS, UNTIL
from fpmonitor.cli.output import Shown, emit
from fpmonitor.decide.credible import departures_within
from fpmonitor.decide.deciding import tolerance_proofs
from fpmonitor.decide.decision import Decision, as_now
from fpmonitor.decide.files import read_any_decision, refuse_parts
from fpmonitor.disclosure import Audience
from fpmonitor.errors import InputError, install
from fpmonitor.render import decisions
from fpmonitor.render.output import to_json
from fpmonitor.safe_files import read_json
from fpmonitor.store.snapshot import Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fpmonitor.answers.spectra import DecisionSpectra, Facts
    from fpmonitor.decide.credible import Discrepancy
    from fpmonitor.proof.numbers import Answer, Finding

EXIT_NOT_PROVED = 1
EXIT_CANNOT_TELL = 3


DB = Annotated[
    Path | None,
    typer.Option(
        "--db",
        help="Also find each verdict again from this database.",
        metavar="PATH",
        rich_help_panel="Data",
    ),
]
SPECTRA = Annotated[
    Path | None,
    typer.Option(
        "--spectra",
        help="Also find each verdict again from count spectra: of --write-spectra, or the "
        "answer of a warehouse to `fpmonitor scale sql`.",
        metavar="FILE|FOLDER",
        rich_help_panel="Data",
    ),
]
WRITE_SPECTRA = Annotated[
    Path | None,
    typer.Option(
        "--write-spectra",
        help="Write the count spectra of the listed sets to this file, groups of fewer than k "
        "users pooled, and use them as they are written.",
        metavar="FILE",
        rich_help_panel="Output",
    ),
]


def certificate(
    *,
    decision: DECISION,
    db: DB = None,
    since: SINCE = None,
    until: UNTIL = None,
    spectra: SPECTRA = None,
    write_spectra: WRITE_SPECTRA = None,
    unsafe_counts: UNSAFE_COUNTS = False,
    shown: Shown,
) -> int:
    """Prove the certificate of a decision again, by a program of its own.

    Exit code 0: all is proved, 1: something is not, 3: it cannot be told, as without --db or
    --spectra, which the verdicts need.
    """
    try:
        from fpmonitor.proof import conditions, files  # noqa: PLC0415 -- an extra
    except ModuleNotFoundError as error:
        raise InputError(f"audit certificate needs {error.name}", hint=install("audit")) from error
    decided = read_any_decision(decision)
    again = "`fpmonitor private select CURATOR --decision FILE` finds it again"
    refuse_parts(decision, decided, hint=again)
    if not decided.proof or decided.setting == "sample" or decided.policy.delta is None:
        raise InputError(
            f"{decision}: holds no proof",
            hint="exact decisions, and files of earlier versions, hold none: decide again",
        )
    # A file of spectra may be passed on: in it groups are pooled for the owner, too.
    owned = write_spectra is None and INVOCATION.get().audience is Audience.OWNER
    counted = _counted(decided, db, spectra, Window(since, until), exact=unsafe_counts or owned)
    if counted is None and write_spectra is not None:
        raise InputError("--write-spectra: of which users?", hint="name them with --db")
    # The prover reads the file itself, and shares no code with what made it.
    content = as_now(read_json(decision, "decision"))
    findings = [*files.check_proofs(content), *conditions.check_conditions(content)]
    findings += _of_file(decided, content)
    findings += _of_verdicts(decided, content, counted)
    if counted is not None and write_spectra is not None:
        emit(to_json(counted.to_json()), write_spectra)
    if not decided.components:
        groups = None if counted is None else {one.apis: one.groups for one in counted.spectra}
        findings += files.check_tolerance(content, tolerance_proofs(decided), groups)
    shown.show(decisions.proved(findings))
    answers = {finding.answer for finding in findings}
    if "not proved" in answers:
        return EXIT_NOT_PROVED
    return EXIT_CANNOT_TELL if "cannot tell" in answers else 0


def _counted(
    decided: Decision, db: Path | None, spectra: Path | None, window: Window, *, exact: bool
) -> DecisionSpectra | None:
    """Return the spectra of a file, of a warehouse's answer or of a database; null without any."""
    # A folder or a CSV file is an answer of a warehouse; all else was written by this command.
    is_answer = spectra is not None and (spectra.is_dir() or spectra.suffix.casefold() == ".csv")
    answered = [spectra] if spectra is not None and is_answer else []
    if spectra is not None and not answered:
        return read_spectra(spectra, decided)
    if db is None and not answered:
        return None
    with open_monitor(db or DEFAULT_DB, window=window, spectra=answered) as monitor:
        return count_spectra(
            monitor.population_as(decided),
            decided,
            list_questions(monitor.listing),
            exact=exact,
            counters=("memory", monitor.counter),
        )


def _of_verdicts(
    decided: Decision, content: dict[str, Any], counted: DecisionSpectra | None
) -> list[Finding]:
    """Judge what a decision says of its users, and find its verdicts again from their spectra."""
    from fpmonitor.proof import conditions, declared, numbers, verdicts  # noqa: PLC0415 -- an extra

    if counted is None:
        return [numbers.Finding("verdicts", (), "cannot tell", "not checked: no --db")]
    groups = {one.apis: one.groups for one in counted.spectra}
    others = {one.apis: one.groups for one in counted.others}
    spectra_of = {one.apis: one for one in counted.spectra}
    tests = conditions.Conditions(content)

    def keeps(apis: tuple[str, ...], size: int) -> Any:
        one = spectra_of[apis]
        return tests.keep(size, whole=one.groups, cohorts=one.cohorts, beside=one.beside)

    found = _of_users(decided, counted.facts)
    exact = declared.finder(content)
    return [*found, *verdicts.check_sets(content, groups, others, keeps=keeps, declared=exact)]


def _of_file(decided: Decision, content: dict[str, Any]) -> Iterator[Finding]:
    """Judge what a decision says, by its other members."""
    said = content.get("guarantee") == decided.guarantee
    yield _finding("sentence", "" if said else f"it should be: {decided.guarantee}")
    yield from map(_departed, departures_within(decided, content))
    yield from map(_departed, departures_of_tests(decided))


def _of_users(decided: Decision, facts: Facts | None) -> Iterator[Finding]:
    """Judge what a decision says of its users."""
    if facts is None:
        yield _finding("names", "the spectra file does not hold them", "cannot tell")
        return
    yield from map(_departed, departures(decided, facts))


def _departed(found: Discrepancy) -> Finding:
    return _finding(found.claim, found.reason, "not proved" if found.is_certain else "cannot tell")


def _finding(claim: str, reason: str, otherwise: Answer = "not proved") -> Finding:
    from fpmonitor.proof.numbers import Finding  # noqa: PLC0415 -- an extra

    return Finding(claim, (), otherwise if reason else "proved", reason)
