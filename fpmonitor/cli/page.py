"""Command on the page snippet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from fpmonitor.cli.options import FORMAT, OUTPUT, OutputFormat, split_names
from fpmonitor.cli.output import emit, to_json
from fpmonitor.decide.decision import read_decision
from fpmonitor.errors import InputError
from fpmonitor.serve.snippet import SCRIPTS, page_lines, script_named


def snippet(
    decision: Annotated[
        Path | None,
        typer.Argument(help="A decision file: the page reads the candidates of its policy."),
    ] = None,
    apis: Annotated[
        str | None, typer.Option("--apis", help="Read these APIs, separated by commas.")
    ] = None,
    address: Annotated[
        str, typer.Option("--address", help="Where `fpmonitor serve` can be reached.")
    ] = "http://127.0.0.1:8017",
    script: Annotated[str, typer.Option("--script", help=f"One of {', '.join(SCRIPTS)}.")] = (
        "collector.js"
    ),
    output_format: FORMAT = None,
    output: OUTPUT = None,
) -> None:
    """Print the lines of HTML that put the page snippet into a page, with its integrity."""
    if (decision is None) == (apis is None):
        raise InputError("name a decision file or --apis, one of the two")
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise InputError(f"--address: {address!r} is no address", hint="https://logs.example")
    wanted = split_names(apis) if apis else read_decision(decision or Path()).policy.candidates
    chosen = script_named(script)
    text = page_lines(address, wanted, chosen)
    if output_format is OutputFormat.JSON:
        content = {
            "path": chosen.path, "integrity": chosen.integrity, "apis": list(wanted), "html": text,
        }  # fmt: skip
        emit(to_json(content), output)
    elif output_format in {None, OutputFormat.TABLE}:
        emit(text, output)
    else:
        raise InputError("--format: html or JSON only", hint="leave --format out, or json")
