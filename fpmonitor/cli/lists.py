"""Commands that write lists for products: export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fpmonitor.cli.options import OUTPUT
from fpmonitor.cli.output import emit
from fpmonitor.decide.decision import read_decision
from fpmonitor.plugins import EXPORTERS, load_plugin


def export(
    decision: Annotated[Path, typer.Argument(help="A decision file.", metavar="DECISION.json")],
    to: Annotated[str, typer.Option("--to", help="Format: json, csv, or an installed one.")],
    output: OUTPUT = None,
) -> None:
    """Write a decision as the allow/block list of a product."""
    exporter = load_plugin(EXPORTERS, to)
    emit(exporter(read_decision(decision)), output)
