"""The command that answers whether a site may read more: gate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fpmonitor.cli.options import DECISION
from fpmonitor.cli.output import Shown
from fpmonitor.cli.subject import UNIT
from fpmonitor.decide.credible import read_credible_decision
from fpmonitor.decide.files import refuse_parts
from fpmonitor.errors import InputError
from fpmonitor.render import decisions
from fpmonitor.vocabulary import split_names

EXIT_UNDECIDED = 3
_EXITS = {"allow": 0, "block": 1}


def gate(
    *,
    decision: DECISION,
    want: Annotated[
        str,
        typer.Option(
            "--want",
            help="APIs that the site asks for, separated by commas; of a decision about levels, "
            "COMPONENT=LEVEL.",
        ),
    ],
    have: Annotated[
        str, typer.Option("--have", help="APIs that the site has read before, separated by commas.")
    ] = "",
    db: Annotated[
        Path | None,
        typer.Option(
            "--db",
            help="Database that was decided on: answers for sets that the file does not settle.",
            metavar="PATH",
        ),
    ] = None,
    exit_zero: Annotated[
        bool,
        typer.Option("--exit-zero", help="Exit with 0 whatever the verdict is."),
    ] = False,
    shown: Shown,
) -> int:
    """Answer whether a site that has read some APIs may read more.

    Exit codes: 0 allowed; 1 blocked; 3 undecided, or no evidence.
    """
    apis = _read_then(have, want)
    decided = read_credible_decision(decision)
    UNIT.set(decided.unit)
    if db is None:
        answer = decided.answer(apis)
    else:
        refuse_parts(decision, decided, hint="omit --db: the file answers by its lists")
        from fpmonitor.answers.decide import answer_gate  # noqa: PLC0415 -- slow
        from fpmonitor.cli.context import open_monitor  # noqa: PLC0415
        from fpmonitor.cli.users import check_borne_out  # noqa: PLC0415

        with open_monitor(db) as monitor:
            users = monitor.population_as(decided)
            check_borne_out(monitor, users, decided)
            answer = answer_gate(users, decided.with_unions_listed(), apis)
    shown.show(decisions.gate_output(answer))
    return 0 if exit_zero else _EXITS.get(answer["verdict"], EXIT_UNDECIDED)


def _read_then(have: str, want: str) -> list[str]:
    """Return all that a site has read if it is let through."""
    wanted = split_names(want)
    if not wanted:  # as where the variable of a script is empty
        raise InputError("--want: name at least one API", hint="as in --want Screen.width")
    return [*split_names(have), *wanted]
