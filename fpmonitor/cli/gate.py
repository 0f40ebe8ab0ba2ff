"""The command that answers from a decision file alone: gate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from fpmonitor.cli.options import FORMAT, OUTPUT, split_names
from fpmonitor.cli.output import emit_rows, plain
from fpmonitor.decide.decision import read_decision


def gate(
    decision: Annotated[Path, typer.Argument(help="Decision file.", metavar="DECISION.json")],
    want: Annotated[
        str, typer.Option("--want", help="APIs that the site asks for, separated by commas.")
    ],
    have: Annotated[
        str, typer.Option("--have", help="APIs that the site has read before, separated by commas.")
    ] = "",
    output_format: FORMAT = None,
    output: OUTPUT = None,
) -> None:
    """Tell whether a site that has read some APIs may read more."""
    verdict, because = read_decision(decision).verdict([*split_names(have), *split_names(want)])
    answer = {"verdict": verdict, "because": list(because)}

    def table() -> Table:
        drawn = Table("verdict", "because of the set")
        drawn.add_row(verdict, plain(", ".join(because)) or "–")
        return drawn

    emit_rows([answer], table=table, wanted=output_format, output=output, document=answer)
