"""The command that answers from a decision file alone: gate."""

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
    shown: Shown,
) -> None:
    """Answer whether a site that has read some APIs may read more."""
    asked = [*split_names(have), *split_names(want)]
    shown.show(decisions.gate(read_decision(decision).answer(asked)))
