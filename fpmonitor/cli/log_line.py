"""The command that prints a line of configuration for a web server: log-line."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from fpmonitor.cli.options import OUTPUT
from fpmonitor.cli.output import emit
from fpmonitor.collectors.accesslog import log_line as make_log_line


def print_log_line(
    server: Annotated[Literal["nginx", "apache"], typer.Argument(help="The web server.")],
    output: OUTPUT = None,
) -> None:
    """Print the nginx or Apache log format that records fingerprintable request headers."""
    emit(make_log_line(server), output)
