"""Printing: tables for people, JSON and CSV for programs, notes on stderr."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import get_terminal_size

from fpmonitor.cli.options import FORMAT, OUTPUT
from fpmonitor.cli.subject import UNIT
from fpmonitor.errors import StoppedError
from fpmonitor.export.csv import without_commands
from fpmonitor.export.exporter import printable
from fpmonitor.render.output import Form, Output
from fpmonitor.render.screen import LINES, one_screen
from fpmonitor.safe_files import write_bytes
from fpmonitor.unit import Unit, spoken


def note(text: str, *, quiet: bool = False, unit: Unit | None = None) -> None:
    """Print a note on stderr, in words for what is counted; names cannot control the terminal.

    Where nobody reads on, as behind `| head`, the command goes on: its file is not written yet.
    """
    if not quiet:
        said = spoken(text, UNIT.get() if unit is None else unit)
        shown = "\n".join(map(printable, said.split("\n")))
        with suppress(BrokenPipeError):
            print(without_commands(shown), file=sys.stderr)


def chosen_format(wanted: Form | None, output: Path | None) -> Form:
    """Form of output: as asked, else by the file's ending, else a table for a terminal."""
    if wanted is not None:
        return wanted
    if output is not None:
        return "csv" if output.suffix.lower() == ".csv" else "json"
    return "table" if sys.stdout.isatty() else "json"


def emit(text: str, output: Path | None) -> None:
    """Write data to stdout, or to a file: whole or not at all."""
    if output is None:
        sys.stdout.write(text)
        # Whoever has stopped reading is to be noticed here, and not as Python ends.
        sys.stdout.flush()
        return
    write_bytes(output, [text.encode()])


def show(answer: Output, wanted: Form | None, output: Path | None) -> None:
    """Write an answer in the form that was asked for, in words for what was counted.

    A terminal has one screen of it, unless a table was asked for. A file that is called JSON holds
    JSON: another form is printed beside it.
    """
    answer = answer.of(UNIT.get())
    if output is not None and output.suffix.lower() == ".json" and wanted not in {None, "json"}:
        emit(answer.text("json", to_file=True), output)
        output = None
    if output is not None and output.suffix.lower() == ".tex":
        from fpmonitor.render.latex import latex  # noqa: PLC0415 -- for papers alone

        emit(latex(answer), output)
        return
    form = chosen_format(wanted, output)
    if form == "table" and wanted is None:
        emit(on_screen(answer), None)
        return
    emit(answer.text(form, to_file=output is not None), output)


def on_screen(
    answer: Output, *, below: int = 0, more: str = "--format table", plain: bool = False
) -> str:
    """Return an answer as it fits on a terminal, above the prompt and so many lines; else whole."""
    if not sys.stdout.isatty():
        return answer.text("table")
    lines = max(get_terminal_size((80, LINES)).lines, LINES) - 1 - below
    return one_screen(answer, lines, more=more, to_file=plain)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Options for the form of an answer, and where it goes."""

    output_format: FORMAT = None
    output: OUTPUT = None

    def show(self, answer: Output) -> None:
        """Write an answer."""
        show(answer, self.output_format, self.output)

    def tells_sentences(self, *, quiet: bool) -> bool:
        """Whether more is shown than JSON or CSV: a table, a paper, or notes beside a file."""
        beside = self.output is not None and (not quiet or self.output.suffix.lower() == ".tex")
        return beside or chosen_format(self.output_format, self.output) == "table"


@contextmanager
def ending_as_interrupted() -> Iterator[None]:
    """Take the request to end (SIGTERM) as an interrupt (Ctrl-C): what is done by then is kept.

    Raises:
        StoppedError: Nothing is.
    """
    try:
        with _sigterm_interrupts():
            yield
    except KeyboardInterrupt as end:
        why = str(end) or "interrupted before the decision was made"
        raise StoppedError(why, hint="nothing is written") from end


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # which alone gets signals
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def progress_line(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show on stderr what is being done; only on a terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console  # noqa: PLC0415 -- slow to load
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting", total=None)
        yield lambda text: progress.update(task, description=text)
