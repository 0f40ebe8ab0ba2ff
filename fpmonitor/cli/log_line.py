"""The line of a web server's settings that logs its visitors."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from fpmonitor.cli.options import OUTPUT
from fpmonitor.cli.output import emit
from fpmonitor.collectors.log_forms import log_line


def print_log_line(
    server: Annotated[Literal["nginx", "apache"], typer.Argument(help="The web server.")],
    output: OUTPUT = None,
) -> None:
    """Print the nginx or Apache log format that records fingerprintable request headers."""
    emit(log_line(server), output)
