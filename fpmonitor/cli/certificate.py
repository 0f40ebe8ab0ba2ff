"""The command that proves a decision file again: audit certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fpmonitor.answers.spectra import count_spectra, read_spectra
from fpmonitor.cli.context import INVOCATION, open_monitor
from fpmonitor.cli.options import DEFAULT_DB, SINCE, SNAPSHOT, UNSAFE_COUNTS, UNTIL
from fpmonitor.cli.output import Shown, emit
from fpmonitor.decide.deciding import tolerance_proofs
from fpmonitor.decide.decision import read_decision
from fpmonitor.decide.guarantee import guarantee
from fpmonitor.decide.questions import most_weight
from fpmonitor.disclosure import Audience
from fpmonitor.errors import InputError
from fpmonitor.render import decisions
from fpmonitor.render.output import to_json
from fpmonitor.safe_files import read_json
from fpmonitor.store.snapshot import Window

EXIT_NOT_PROVED = 1
EXIT_CANNOT_TELL = 3
_ROUNDING = 1e-9


def certificate(
    *,
    decision: Annotated[Path, typer.Argument(help="Decision file.", metavar="DECISION.json")],
    db: Annotated[
        Path | None,
        typer.Option(
            "--db",
            help="Also find each verdict again from this database.",
            metavar="PATH",
            rich_help_panel="Data",
        ),
    ] = None,
    since: SINCE = None,
    until: UNTIL = None,
    snapshot: SNAPSHOT = None,
    spectra: Annotated[
        Path | None,
        typer.Option(
            "--spectra",
            help="Also find each verdict again from count spectra in this file.",
            metavar="FILE",
            rich_help_panel="Data",
        ),
    ] = None,
    write_spectra: Annotated[
        Path | None,
        typer.Option(
            "--write-spectra",
            help="Write the count spectra of the listed sets to this file, groups of fewer than k "
            "users pooled, and use them as they are written.",
            metavar="FILE",
            rich_help_panel="Output",
        ),
    ] = None,
    unsafe_counts: UNSAFE_COUNTS = False,
    shown: Shown,
) -> int:
    """Prove the certificate of a decision again, by a program of its own.

    Exit code 0: all is proved, 1: something is not, 3: the spectra cannot tell.
    """
    try:
        from fpmonitor import proof_check  # noqa: PLC0415 -- an extra
    except ModuleNotFoundError as error:
        raise InputError(
            f"audit certificate needs {error.name}", hint="pip install 'fpmonitor[audit]'"
        ) from error
    decided = read_decision(decision)
    if not decided.proof or decided.setting == "sample" or decided.policy.delta is None:
        raise InputError(
            f"{decision}: holds no proof",
            hint="exact decisions, and files of before, hold none: decide again",
        )
    counted = None
    if decided.confirmation is not None and (spectra or db or snapshot):
        raise InputError(
            f"{decision}: its verdicts came from parts of the users",
            hint="leave --db, --snapshot and --spectra away: the tests are proved",
        )
    if spectra is not None:
        counted = read_spectra(spectra, decided)
    elif db is not None or snapshot is not None:
        window = Window(since, until)
        with open_monitor(db or DEFAULT_DB, window=window, snapshot=snapshot) as monitor:
            owned = write_spectra is None and INVOCATION.get().audience is Audience.OWNER
            population = monitor.population_as(decided)
            counted = count_spectra(population, decided, exact=unsafe_counts or owned)
    content = read_json(decision, "decision")
    findings = [*proof_check.check_proofs(content)]
    weight, said = decided.view_weight, guarantee(decided)
    for claim, holds, reason in (
        ("sentence", decided.guarantee == said, f"it should be: {said}"),
        (
            "weight of the view",
            weight is None or weight <= most_weight(decided) * (1 + _ROUNDING),
            "it is less by the name of the view",
        ),
    ):
        answer: proof_check.Answer = "proved" if holds else "not proved"
        findings.append(proof_check.Finding(claim, (), answer, "" if holds else reason))
    groups = None if counted is None else {one.apis: one.groups for one in counted.spectra}
    if groups is not None:
        findings += proof_check.check_sets(content, groups)
    findings += proof_check.check_tolerance(content, tolerance_proofs(decided), groups)
    if counted is not None:
        if write_spectra is not None:
            emit(to_json(counted.to_json()), write_spectra)
    elif write_spectra is not None:
        raise InputError("--write-spectra: of which users?", hint="name them with --db")
    shown.show(decisions.proved(findings))
    answers = {finding.answer for finding in findings}
    if "not proved" in answers:
        return EXIT_NOT_PROVED
    return EXIT_CANNOT_TELL if "cannot tell" in answers else 0
