"""Commands on collection that shows nobody a joint record."""

from __future__ import annotations

import typer

app = typer.Typer(
    help="Collection without a joint record: users, shuffler, curator, analyst.",
    no_args_is_help=True,
)
