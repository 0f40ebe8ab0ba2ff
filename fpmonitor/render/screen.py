"""An answer on one screen: what comes first, as many rows as fit, and how to see the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fpmonitor.export.csv import without_commands
from fpmonitor.render.tables import paragraph, terminal

if TYPE_CHECKING:
    from fpmonitor.render.output import Output
    from fpmonitor.render.tables import Table

LINES = 24  # of a terminal that says nothing else
_LEAST_ROWS = 3  # of a table that is cut


def one_screen(
    answer: Output, lines: int, *, more: str = "--format table", to_file: bool = False
) -> str:
    """Return an answer in so many lines: the first paragraphs, and the first rows of its tables.

    Paragraphs have half of the lines where a table follows. `more` is what shows all of it.
    """
    whole = answer.text("table", to_file=to_file)
    if _height(whole) <= lines:
        return whole
    # The last line says what is left out.
    room, shown, gone = lines - 1, "", []
    most = room // 2 if answer.tables else room
    left = 0
    for text in map(paragraph, answer.preface):
        part = text if shown else _cut(text, most)
        fits = _height(shown + part) <= most
        shown += part if fits else ""
        left += not fits
    for table in answer.tables:
        drawn, rows = _fitting(table, room - _height(shown), to_file=to_file)
        shown += drawn
        if not drawn:
            gone.append(table.title or "a table")
        elif rows:
            gone.append(f"{rows:,} {'row' if rows == 1 else 'rows'}")
    if left:
        gone.append(f"{left} {'paragraph' if left == 1 else 'paragraphs'}")
    if not shown:  # a row that is higher than the screen
        return whole
    last = paragraph(f"More with {more}: {', '.join(gone)}.")
    return without_commands(shown + _cut(last, 1))


def _height(text: str) -> int:
    return text.count("\n")


def _cut(text: str, lines: int) -> str:
    """Return the first lines of a paragraph; its empty line stays where there is room."""
    found = text.split("\n")
    if len(found) - 1 <= lines:
        return text
    shown_lines = found[:lines]
    return "\n".join(shown_lines) + (" ...\n" if found[lines] else "\n")


def _fitting(table: Table, room: int, *, to_file: bool) -> tuple[str, int]:
    """Draw as many rows as fit, without the caption where few would; also tell how many do not."""
    drawn, rows = "", 0
    for one in (table, replace(table, caption="")):
        low, high = rows, min(len(one.rows), max(room, 0)) + 1  # low rows fit, high do not
        while high - low > 1:
            # By halves: whether rows fit is known only once they are drawn, as cells may be of
            # several lines.
            middle = (low + high) // 2
            text = terminal(replace(one, rows=one.rows[:middle]), to_file=to_file)
            if _height(text) <= room:
                low, drawn = middle, text
            else:
                high = middle
        rows = low
        if rows >= min(_LEAST_ROWS, len(table.rows)):
            break
    return drawn, len(table.rows) - rows
