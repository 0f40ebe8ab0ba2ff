"""Allow/block list as CSV, for spreadsheets and scripts."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, get_args

from fpmonitor.export.exporter import PlainExporter
from fpmonitor.export.lists import Outcome, api_actions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fpmonitor.decide.decision import Decision

# Spreadsheets run a text with such a beginning; the wide forms are those of East Asian keyboards.
_FORMULA_STARTS = tuple("=+-@\t\r\n＝＋－＠")
_MARK = "'"
_HEADER = ["api", "outcome", "reason"]
_OUTCOMES = get_args(Outcome)


def csv_rows(rows: Iterable[Iterable[object]]) -> str:
    """Return CSV that spreadsheets do not run: texts that begin like a formula get a mark.

    The mark is an apostrophe; texts that begin with one get another, so that removing one
    apostrophe from the beginning of every text restores all texts.
    """
    output = io.StringIO()
    plain = csv.writer(output, lineterminator="\n")
    # Python before 3.13 does not quote a lone carriage return, which would end the row.
    quoted = csv.writer(output, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in rows:
        cells = [_marked(cell) if isinstance(cell, str) else cell for cell in row]
        has_return = any("\r" in cell for cell in cells if isinstance(cell, str))
        (quoted if has_return else plain).writerow(cells)
    return output.getvalue()


def _marked(text: str) -> str:
    return _MARK + text if text.startswith((*_FORMULA_STARTS, _MARK)) else text


def write(decision: Decision) -> str:
    """Write the list as CSV, one row per API: `api,outcome,reason`."""
    entries = api_actions(decision)
    return csv_rows([_HEADER, *([entry.api, entry.outcome, entry.reason] for entry in entries)])


def check(text: str) -> list[str]:
    """Problems of a list."""
    try:
        header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    except (csv.Error, ValueError) as error:
        return [f"not CSV: {error}"]
    problems = [] if header == _HEADER else [f"columns are not {', '.join(_HEADER)}"]
    for number, row in enumerate(rows, start=2):
        if len(row) != len(_HEADER) or row[1] not in _OUTCOMES:
            problems.append(f"row {number}: not an API, an outcome, and a reason")
        formulas = (cell for cell in row if cell.startswith(_FORMULA_STARTS))
        problems += [f"row {number}: runs as a formula" for _ in formulas]
    return problems


CSV = PlainExporter(
    name="csv",
    summary="one action per API, for spreadsheets and scripts",
    write=write,
    check=check,
)
