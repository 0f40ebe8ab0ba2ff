"""The one model of a table, drawn for terminals and as HTML.

Cells are numbers, which their column says how to write, or texts, which are taken as they are: what
draws a table escapes them.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from operator import attrgetter
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from fpmonitor.export.exporter import printable
from fpmonitor.policy import DOWN, UP
from fpmonitor.render.numbers import count, decimal, percent, significant
from fpmonitor.unit import Unit, spoken

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table as RichTable
    from rich.text import Text


_Point = TypeVar("_Point")
Kind = Literal[
    "text",
    "verdict",
    "outcome",
    "check",
    "right",
    "count",
    "share",
    "short share",
    "decimal",
    "significant",
    "bar",
]
# People read what is said of a set, of an API in a list and of an earlier list in words of its own.
_WORDS: Mapping[str, Mapping[str, str]] = {
    "verdict": {"allow": "allowed", "block": "blocked", "unknown": "undecided"},
    "outcome": {},
    "check": {"allow": "holds", "block": "violated", "undecided": "cannot tell"},
}
_COLOURS = {
    "allow": "green",
    "block": "red",
    "exposed": "green",
    "withheld": "red",
    "no evidence": "yellow",
    "undecided": "yellow",
    "unknown": "yellow",
    "!": "red",
}
_IN_NAME = re.compile(r"(?<=[A-Za-z])[.#](?=[A-Za-z])")
_PIECES = re.compile(r"\s*[^\s.#_/]*(?:[.#_/](?=\w)|\s|[.#_/]+|$)")
_BETWEEN_WORDS = re.compile(r" (?!%)")  # "5 %" is one word
_LIMITS = {"lower": DOWN, "at least": DOWN, "upper": UP, "at most": UP}
_FILE_WIDTH = 120
_LEAST_TEXT, _ROOM_FOR_TEXT = (8, 16), 24  # letters; the least by the width of the terminal


@dataclass(frozen=True, slots=True)
class Marked:
    """A text in the colour of a verdict."""

    text: str
    verdict: str


Cell = str | float | Marked | Sequence[str] | None


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table."""

    name: str  # Its header.
    # Text, a verdict in its words and colour (on a set, on an API in a list, of a check), text at
    # the right, or how numbers are written: counts with commas, shares per cent, with fixed
    # decimals, or with significant digits. A bar is for terminals alone.
    kind: Kind = "text"
    digits: int = 2  # Decimals, or significant digits.
    # Member of an item that is the cell, with dots for members of members, or a function of it.
    of: str | Callable[[Any], Cell] = ""
    spare: bool = False  # Whether it gives way where a terminal is too narrow for all columns.

    def cell(self, item: Any) -> Cell:
        """Return the cell of an item: see `Table.of`."""
        if not isinstance(self.of, str):
            return self.of(item)
        found: Cell = item[self.of] if isinstance(item, Mapping) else attrgetter(self.of)(item)
        return found

    @property
    def is_number(self) -> bool:
        """Whether cells are right-aligned and never cut."""
        return self.kind != "text" and self.kind not in _WORDS

    def written(self, cell: Cell) -> str:
        """Return a cell as text: several lines for several texts, a dash for none."""
        match cell:
            case str():
                return _WORDS.get(self.kind, {}).get(cell, cell)
            case Marked():
                return cell.text
            case None | int() | float():
                return self._number(cell)
            case _:
                return "\n".join(cell) or self._number(None)

    def verdict(self, cell: Cell) -> str:
        """Return the verdict whose colour a cell has; empty for none."""
        if isinstance(cell, Marked):
            return cell.verdict
        return cell if self.kind in _WORDS and isinstance(cell, str) else ""

    @property
    def _away(self) -> str:
        """How limits are rounded, by what the header or the member says that they are."""
        said = f"{self.name} {self.of if isinstance(self.of, str) else ''}".lower()
        return next((away for word, away in _LIMITS.items() if word in said), "")

    def _number(self, number: float | None) -> str:
        match self.kind:
            case "share":
                return percent(number, self.digits, away=self._away)
            case "short share":
                return percent(number, away=self._away)
            case "decimal":
                return decimal(number, self.digits, away=self._away)
            case "significant":
                return significant(number, self.digits)
            case _:
                return count(None if number is None else int(number))


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under named columns."""

    # columns, rows: A row may be shorter than the columns.
    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[Cell]]
    # title, caption: Above and below; empty for none.
    title: str = ""
    caption: str = ""
    sections: frozenset[int] = frozenset()  # Places of the rows that a line follows.
    headed: bool = True  # Whether the names of the columns are shown.

    @classmethod
    def of(cls, items: Iterable[Any], columns: Sequence[TableColumn], **given: Any) -> Table:
        """Return a table with one row per item; further arguments are attributes of the table."""
        rows = [[column.cell(item) for column in columns] for item in items]
        return cls(columns=columns, rows=rows, **given)

    def of_unit(self, unit: Unit) -> Table:
        """Return the table in words for visitors or rows; what may be a name stays."""

        def said(cell: Cell) -> Cell:
            # A cell of one word may be a name, such as a column that is called `user`.
            return spoken(cell, unit) if isinstance(cell, str) and " " in cell else cell

        return replace(
            self,
            columns=[replace(column, name=spoken(column.name, unit)) for column in self.columns],
            rows=[[said(cell) for cell in row] for row in self.rows],
            title=spoken(self.title, unit),
            caption=spoken(self.caption, unit),
        )

    def texts(self) -> list[list[str]]:
        """Return all cells as text, as many in each row as there are columns."""
        return [[cell.text for cell in row] for row in self.marked()]

    def marked(self) -> list[list[Marked]]:
        """Return all cells as text with verdicts, as many in each row as there are columns."""
        missing = [Marked("", "")] * len(self.columns)
        return [
            [
                Marked(column.written(cell), column.verdict(cell))
                for column, cell in zip(self.columns, row, strict=False)
            ]
            + missing[len(row) :]
            for row in self.rows
        ]


def columns(
    kind: Kind,
    *names: str | tuple[str, str | Callable[[Any], Cell]],
    digits: int = 2,
    spare: bool = False,
) -> list[TableColumn]:
    """Return columns of one kind, by their names or with what they show.

    A column that is given by its name shows the member of this name: `rows_read` for "rows read".
    """
    pairs = [(name, _member_of(name)) if isinstance(name, str) else name for name in names]
    return [TableColumn(name, kind, digits, of, spare) for name, of in pairs]


def thinned(points: Sequence[_Point], most: int) -> tuple[Sequence[_Point], int]:
    """Return one of every so many points, the last as well, so that all fit; and how many that is.

    Without its last point a curve would seem to end where it does not.
    """
    if len(points) <= most:
        return points, 1
    step = -(-(len(points) - 1) // (most - 1))
    return [*points[:-1:step], points[-1]], step


def _member_of(name: str) -> str:
    return name.lower().replace(" ", "_").replace("-", "_")


def terminal(table: Table, *, to_file: bool = False) -> str:
    """Draw a table; as wide as the terminal, also for a file, and in colour only on one.

    Where the terminal is too narrow for all columns, spare ones give way, the last one first. Where
    that is not enough, each row becomes a block of lines, one per column. No number is cut: it may
    make the lines wider than the terminal.
    """
    from rich.console import Console  # noqa: PLC0415 -- slow to load

    is_coloured, file = sys.stdout.isatty() and not to_file, io.StringIO()
    console = Console(
        file=file,
        force_terminal=is_coloured,
        no_color=bool(os.environ.get("NO_COLOR")) or not is_coloured,
        width=_width(),
    )
    drawn: RenderableType
    drawn, least = _rich_table(_fitting(table, console.width), console.width)
    if table.headed and least > console.width:
        drawn, least = _stacked(table)
    # A number that is cut looks like another number: lines become longer instead.
    console.width = max(console.width, least)
    console.print(drawn)
    return file.getvalue()


def _fitting(table: Table, width: int) -> Table:
    """Return the table without as many spare columns as do not fit, and with their names below."""
    shown = list(range(len(table.columns)))
    for place in reversed(shown.copy()):
        if _rich_table(_only(table, shown), width)[1] <= width:
            break
        if table.columns[place].spare:
            shown.remove(place)
    if len(shown) == len(table.columns):
        return table
    gone = [column.name for place, column in enumerate(table.columns) if place not in shown]
    more = f"More with --format csv: {', '.join(gone)}."
    return replace(_only(table, shown), caption=f"{table.caption} {more}".strip())


def _only(table: Table, places: Sequence[int]) -> Table:
    rows = [[row[place] for place in places if place < len(row)] for row in table.rows]
    return replace(table, columns=[table.columns[place] for place in places], rows=rows)


def paragraph(text: str) -> str:
    """Return a paragraph in lines as wide as the terminal, and an empty line."""
    lines = wrap(printable(text), _width(), break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) + "\n\n"


def _width() -> int:
    return get_terminal_size().columns if sys.stdout.isatty() else _FILE_WIDTH


def _stacked(table: Table) -> tuple[Group, int]:
    """Return a block of lines per row, and the least width that cuts no number."""
    from rich.console import Group  # noqa: PLC0415 -- slow to load
    from rich.table import Table as RichTable  # noqa: PLC0415

    lines = RichTable.grid(padding=(0, 2, 0, 0))
    lines.add_column(no_wrap=True)
    lines.add_column(overflow="fold")
    longest = _LEAST_TEXT[0]
    for row in table.marked():
        for column, cell in zip(table.columns, row, strict=True):
            text = _plain(cell.text, _COLOURS.get(cell.verdict, ""))
            if column.is_number:
                text.no_wrap = True
                longest = max(longest, *map(len, cell.text.split("\n")))
            if cell.text:
                lines.add_row(_plain(f"{column.name}:"), text)
        lines.add_row()
    around = [
        [_plain(f"{text}\n", style)] if text else []
        for text, style in ((table.title, "table.title"), (table.caption, "table.caption"))
    ]
    names = max(len(column.name) for column in table.columns)
    return Group(*around[0], lines, *around[1]), names + len(":  ") + longest


def _rich_table(table: Table, width: int) -> tuple[RichTable, int]:
    """Return a table to draw in `width` columns, and the least width at which no number is cut."""
    from rich.table import Table as RichTable  # noqa: PLC0415 -- slow to load

    rows = table.marked()
    widest = [
        max((len(line) for row in rows for line in row[place].text.split("\n")), default=0)
        for place in range(len(table.columns))
    ]
    names = [column.name for column in table.columns]
    if not table.headed:
        names = [""] * len(names)
    # Only where room is short: a header of one line is easier to read.
    if _least_width(table.columns, names, widest, _ROOM_FOR_TEXT) > width:
        names = [
            _BETWEEN_WORDS.sub("\n", name) if column.is_number and len(name) > cells else name
            for column, name, cells in zip(table.columns, names, widest, strict=True)
        ]
    drawn = RichTable(
        title=_plain(table.title, "table.title") if table.title else None,
        caption=_plain(table.caption, "table.caption") if table.caption else None,
        caption_justify="left",
        show_header=table.headed,
    )
    for column, name in zip(table.columns, names, strict=True):
        drawn.add_column(
            _plain(name),
            justify="right" if column.is_number else "left",
            no_wrap=column.is_number,
            overflow="fold",
        )
    texts = [place for place, column in enumerate(table.columns) if not column.is_number]
    # With several columns of text rich divides the room, and folds names anywhere.
    room = width - _least_width(table.columns, names, widest, 0) if len(texts) == 1 else 0
    for place, row in enumerate(rows):
        said = [cell.text for cell in row]
        if room >= _LEAST_TEXT[0]:
            said[texts[0]] = _folded(said[texts[0]], room)
        styles = (_COLOURS.get(cell.verdict, "") for cell in row)
        drawn.add_row(*map(_plain, said, styles))
        if place in table.sections:
            drawn.add_section()
    few, enough = _LEAST_TEXT
    least = max(few, min(enough, width // 3))
    return drawn, _least_width(table.columns, names, widest, least)


def _folded(text: str, room: int) -> str:
    """Return text in lines of `room` letters, where names are broken behind a dot, `#` or `_`."""
    lines = []
    for line in text.split("\n"):
        joined = ""
        for piece in _PIECES.findall(line):
            if joined and len(joined) + len(piece.rstrip()) > room:
                lines.append(joined.rstrip())
                joined = ""
            joined += piece
        lines.append(joined.rstrip())
    return "\n".join(lines)


def _least_width(
    columns: Sequence[TableColumn], names: Sequence[str], widest: Sequence[int], text: int
) -> int:
    """Return the width of a table whose columns of text have `text` letters at most."""
    # Each column has a border and a space on either side, and the table one border more.
    total = 1
    for column, name, letters in zip(columns, names, widest, strict=True):
        whole = max(letters, *map(len, name.split("\n")))
        total += 3 + (whole if column.is_number else min(whole, text))
    return total


def _plain(text: str, style: str = "") -> Text:
    """Return text that cannot command the terminal, wherever it comes from."""
    from rich.text import Text  # noqa: PLC0415 -- slow to load

    # `Text`, not a string: rich would take square brackets in a name for its markup.
    return Text("\n".join(map(printable, text.split("\n"))), style=style)


def html_of_table(table: Table) -> str:
    """Draw a table as HTML; a verdict is the class of its cell."""
    bars = {place for place, column in enumerate(table.columns) if column.kind == "bar"}
    shown = [column for column in table.columns if column.kind != "bar"]
    head = "".join(f'<th scope="col">{escape(column.name)}</th>' for column in shown)
    lines = []
    for row in table.marked():
        first, *others = (cell for place, cell in enumerate(row) if place not in bars)
        cells = "".join(map(_html_cell, others))
        lines.append(f'<tr><th scope="row">{_html_text(first.text)}</th>{cells}</tr>')
    caption = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    header = f"<thead><tr>{head}</tr></thead>" if table.headed else ""
    return f"<table>{caption}{header}<tbody>{''.join(lines)}</tbody></table>"


def _html_cell(cell: Marked) -> str:
    kind = f' class="{escape(cell.verdict)}"' if cell.verdict else ""
    return f"<td{kind}>{_html_text(cell.text)}</td>"


def _html_text(text: str) -> str:
    return broken_at_dots(text).replace("\n", "<br/>")


def broken_at_dots(text: str) -> str:
    """Return text as HTML in which names of APIs may be broken at their dots."""
    return _IN_NAME.sub("\\g<0><wbr/>", escape(text))
