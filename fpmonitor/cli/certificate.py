"""The command that proves a decision file again: audit certificate."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fpmonitor.answers.questions import list_questions
from fpmonitor.answers.spectra import count_spectra, departures, read_spectra
from fpmonitor.cli.context import INVOCATION, open_monitor
from fpmonitor.cli.options import DEFAULT_DB, SINCE, SNAPSHOT, UNSAFE_COUNTS, UNTIL
from fpmonitor.cli.output import Shown, emit
from fpmonitor.decide.coherence import TooManyStepsError, uncovered
from fpmonitor.decide.deciding import tolerance_proofs
from fpmonitor.decide.decision import Decision
from fpmonitor.decide.files import read_any_decision
from fpmonitor.decide.level_decision import LevelDecision
from fpmonitor.decide.utility import weight_bound
from fpmonitor.disclosure import Audience
from fpmonitor.errors import InputError, install
from fpmonitor.render import decisions
from fpmonitor.render.output import to_json
from fpmonitor.safe_files import read_json
from fpmonitor.store.snapshot import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fpmonitor.answers.spectra import Facts
    from fpmonitor.proof_check import Answer, Finding

EXIT_NOT_PROVED = 1
EXIT_CANNOT_TELL = 3
_ROUNDING = 1e-9
_PARTS = ("policy", "view", "data")  # members of a file that hold members of their own


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
            help="Also find each verdict again from count spectra: of --write-spectra, or the "
            "answer of a warehouse to `fpmonitor scale sql`.",
            metavar="FILE|FOLDER",
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

    Exit code 0: all is proved, 1: something is not, 3: it cannot be told, as without --db or
    --spectra, which the verdicts need.
    """
    try:
        from fpmonitor import proof_check, proof_cohorts  # noqa: PLC0415 -- an extra
    except ModuleNotFoundError as error:
        raise InputError(f"audit certificate needs {error.name}", hint=install("audit")) from error
    decided = read_any_decision(decision)
    if not decided.proof or decided.setting == "sample" or decided.policy.delta is None:
        raise InputError(
            f"{decision}: holds no proof",
            hint="exact decisions, and files of before, hold none: decide again",
        )
    counted = None
    is_answer = spectra is not None and (spectra.is_dir() or spectra.suffix.casefold() == ".csv")
    answered = [spectra] if spectra is not None and is_answer else []
    if spectra is not None and not answered:
        counted = read_spectra(spectra, decided)
    elif db is not None or snapshot is not None or answered:
        window = Window(since, until)
        with open_monitor(
            db or DEFAULT_DB, window=window, snapshot=snapshot, spectra=answered
        ) as monitor:
            owned = write_spectra is None and INVOCATION.get().audience is Audience.OWNER
            population = monitor.population_as(decided)
            asked = list_questions(monitor.database) if monitor.lists_questions else []
            counted = count_spectra(
                population,
                decided,
                asked,
                exact=unsafe_counts or owned,
                counters=("memory", monitor.counter),
            )
    content = read_json(decision, "decision")
    findings = [*proof_check.check_proofs(content), *proof_cohorts.check_cohorts(content)]
    findings += _of_file(decided, content)
    groups = None
    if counted is None:
        if write_spectra is not None:
            raise InputError("--write-spectra: of which users?", hint="name them with --db")
        findings.append(proof_check.Finding("verdicts", (), "cannot tell", "not checked: no --db"))
    else:
        groups = {one.apis: one.groups for one in counted.spectra}
        others = {one.apis: one.groups for one in counted.others}
        findings += _of_users(decided, counted.facts)
        spectra_of = {one.apis: one for one in counted.spectra}
        tests = proof_cohorts.Conditions(content)

        def keeps(apis: tuple[str, ...], size: int) -> Any:
            one = spectra_of[apis]
            return tests.keep(size, whole=one.groups, cohorts=one.cohorts, path=one.path)

        findings += proof_check.check_sets(content, groups, others, keeps=keeps)
        if write_spectra is not None:
            emit(to_json(counted.to_json()), write_spectra)
    if not isinstance(decided, LevelDecision):
        findings += proof_check.check_tolerance(content, tolerance_proofs(decided), groups)
    shown.show(decisions.proved(findings))
    answers = {finding.answer for finding in findings}
    if "not proved" in answers:
        return EXIT_NOT_PROVED
    return EXIT_CANNOT_TELL if "cannot tell" in answers else 0


def _of_file(decided: Decision, content: dict[str, Any]) -> Iterator[Finding]:
    """Judge what a decision says, by its other members."""
    said = content.get("guarantee") == decided.guarantee
    yield _finding("sentence", "" if said else f"it should be: {decided.guarantee}")
    try:
        found = _uncovered(decided)
    except TooManyStepsError:
        yield _finding("lists", "too long to compare", "cannot tell")
    else:
        unsettled = "" if found is None or not decided.complete else f"none settles {found}"
        yield _finding("lists", unsettled)
        if found is None and not decided.complete and getattr(decided, "cut", None) is None:
            yield _finding("complete", "the lists settle every set, and may be all", "cannot tell")
    strangers = [*_strangers(content, decided.to_json())]
    yield _finding("members", f"{strangers[0]} is read by nobody" if strangers else "")
    if not isinstance(decided, LevelDecision) and decided.utility is not None:
        yield _utility(decided)


def _strangers(content: dict[str, Any], known: dict[str, Any], of: str = "") -> Iterator[str]:
    """Yield members that no reader of the file looks at, so that nobody proves them."""
    for name, value in content.items():
        if name not in known:
            yield f"`{of}{name}`"
        elif not of and name in _PARTS and isinstance(value, dict):
            yield from _strangers(value, known[name], f"{name}.")


def _utility(decided: Decision) -> Finding:
    """Judge the weight of the recommended set, and what no allowed set is said to exceed."""
    utility, bound = decided.utility or 0.0, decided.utility_bound

    def weight(apis: Iterable[str]) -> float:
        return math.fsum(decided.weights.get(api, 1.0) for api in apis)

    def alike(told: float, found: float) -> bool:
        return math.isclose(told, found, rel_tol=_ROUNDING)

    must, never = {*decided.must}, {*decided.never}
    best = max((weight({*apis} - never) for apis in decided.allow if must <= {*apis}), default=0.0)
    if not alike(utility, weight(decided.recommended)):
        return _finding("utility", "it is not the weight of `recommended`")
    if not (alike(utility, best) or decided.cut):
        return _finding("utility", "a set of `allow` has more than `recommended`")
    if decided.complete and bound is not None:
        return _finding("utility", "" if alike(bound, utility) else "`utility_bound` is not met")
    if bound is None:
        return _finding("utility", "")
    refused = [*decided.block, *decided.undecided]
    free = [api for api in decided.evident if api not in decided.never]
    most = weight_bound(free, refused, weights=decided.weights, must=decided.must)
    short = bound < most * (1 - _ROUNDING)
    return _finding("utility", "the lists give a higher bound" * short, "cannot tell")


def _uncovered(decided: Decision) -> str | None:
    """Return what no list settles."""
    if isinstance(decided, LevelDecision):
        return decided.uncovered()
    must, never = set(decided.must), {*decided.never, *decided.no_evidence}
    found = uncovered(
        [api for api in decided.policy.candidates if api not in must | never],
        [set(apis) - must for apis in decided.allow or [()] if must <= {*apis} or not apis],
        [
            set(apis) - must
            for apis in (*decided.block, *decided.undecided)
            if never.isdisjoint(apis)
        ],
    )
    return None if found is None else ", ".join(sorted(found | must)) or "nothing"


def _of_users(decided: Decision, facts: Facts | None) -> Iterator[Finding]:
    """Judge what a decision says of its users."""
    if facts is None:
        yield _finding("names", "the spectra file does not hold them", "cannot tell")
        return
    for claim, reason, is_certain in departures(decided, facts):
        yield _finding(claim, reason, "not proved" if is_certain else "cannot tell")


def _finding(claim: str, reason: str, otherwise: Answer = "not proved") -> Finding:
    from fpmonitor.proof_check import Finding  # noqa: PLC0415 -- an extra

    return Finding(claim, (), otherwise if reason else "proved", reason)
