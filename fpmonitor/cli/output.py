"""Printing: tables for people, JSON and CSV for programs, notes on stderr."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from fpmonitor.cli.options import OutputFormat
from fpmonitor.errors import InputError
from fpmonitor.export.exporter import printable
from fpmonitor.render import numbers
from fpmonitor.render.output import Output, Row, to_csv, to_json


def note(text: str, *, quiet: bool = False) -> None:
    """Say something on stderr, where names cannot command the terminal."""
    if not quiet:
        print("\n".join(map(printable, text.split("\n"))), file=sys.stderr)


def plain(text: str) -> str:
    """Text for the cell of a table: neither markup nor characters that command the terminal."""
    return escape(printable(text))


def chosen_format(wanted: OutputFormat | None, output: Path | None) -> OutputFormat:
    """Form of output: as asked, else by the file's ending, else a table for a terminal."""
    if wanted is not None:
        return wanted
    if output is not None:
        return "csv" if output.suffix.lower() == ".csv" else "json"
    return "table" if sys.stdout.isatty() else "json"


def emit(text: str, output: Path | None) -> None:
    """Write data to stdout, or to a file that is there whole or not at all."""
    if output is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        descriptor, scratch = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(scratch).chmod(0o644)
        Path(scratch).replace(output)
    except OSError as error:
        raise InputError(f"cannot write {output} ({error.strerror})") from error


def show(answer: Output, wanted: OutputFormat | None, output: Path | None) -> None:
    """Write an answer in the form that was asked for."""
    emit(answer.text(chosen_format(wanted, output), to_file=output is not None), output)


def emit_rows(
    rows: Sequence[Row],
    *,
    table: Callable[[], Table],
    wanted: OutputFormat | None,
    output: Path | None,
    document: Any = None,
) -> None:
    """Write rows as table, JSON (`document` if given, else the rows) or CSV."""
    match chosen_format(wanted, output):
        case "json":
            emit(to_json(rows if document is None else document), output)
        case "csv":
            emit(to_csv(rows), output)
        case "table":
            emit(render(table(), to_file=output is not None), output)


class _Console(Console):
    """A console on which no text of a table commands the terminal, wherever it comes from."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str("\n".join(map(printable, text.split("\n"))), **options)


def render(table: Table, *, to_file: bool = False) -> str:
    """Draw a table; as wide as the terminal, in colour only on one."""
    on_terminal = sys.stdout.isatty() and not to_file
    buffer = io.StringIO()
    console = _Console(
        file=buffer,
        force_terminal=on_terminal,
        no_color=bool(os.environ.get("NO_COLOR")) or not on_terminal,
        width=None if on_terminal else 120,
    )
    console.print(table)
    return buffer.getvalue()


def percent(share: float | None, digits: int = 2) -> str:
    """Return a share as per cent; a dash where there is none."""
    return numbers.percent(share, digits)


@contextmanager
def progress_line(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Line on stderr that shows what is being done; only on a terminal."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _text: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=None)
        yield lambda text: progress.update(task, description=text)
