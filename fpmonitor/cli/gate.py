"""The command that answers whether a site may read more: gate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fpmonitor.cli.output import Shown
from fpmonitor.decide.decision import read_decision
from fpmonitor.render import decisions
from fpmonitor.vocabulary import split_names


def gate(
    *,
    decision: Annotated[Path, typer.Argument(help="Decision file.", metavar="DECISION.json")],
    want: Annotated[
        str, typer.Option("--want", help="APIs that the site asks for, separated by commas.")
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
    shown: Shown,
) -> None:
    """Answer whether a site that has read some APIs may read more."""
    asked = [*split_names(have), *split_names(want)]
    decided = read_decision(decision)
    if db is None:
        shown.show(decisions.gate(decided.answer(asked)))
        return
    from fpmonitor.answers.decide import answer_gate  # noqa: PLC0415 -- slow to load
    from fpmonitor.cli.context import open_monitor  # noqa: PLC0415

    with open_monitor(db) as monitor:
        answer = answer_gate(monitor.population_as(decided), decided, asked)
    shown.show(decisions.gate(answer))
