"""Allow/block list as CSV, for spreadsheets and scripts."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from fpmonitor.export.exporter import PlainExporter
from fpmonitor.export.lists import api_actions

if TYPE_CHECKING:
    from fpmonitor.decide.decision import Decision

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_HEADER = ["api", "action", "reason"]


def write(decision: Decision) -> str:
    """Write the list as CSV, one API a row: `api,action,reason`."""
    output = io.StringIO()
    plain = csv.writer(output, lineterminator="\n")
    # Python before 3.13 does not quote a lone carriage return, which would end the row.
    quoted = csv.writer(output, lineterminator="\n", quoting=csv.QUOTE_ALL)
    plain.writerow(_HEADER)
    for entry in api_actions(decision):
        row = [_cell(entry.api), entry.action, _cell(entry.reason)]
        (quoted if "\r" in "".join(row) else plain).writerow(row)
    return output.getvalue()


def check(text: str) -> list[str]:
    """Problems of a list."""
    try:
        header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    except (csv.Error, ValueError) as error:
        return [f"not CSV: {error}"]
    problems = [] if header == _HEADER else [f"columns are not {', '.join(_HEADER)}"]
    for number, row in enumerate(rows, start=2):
        if len(row) != len(_HEADER) or row[1] not in {"allow", "block"}:
            problems.append(f"row {number}: not an API, allow or block, and a reason")
        problems += [f"row {number}: runs as a formula" for cell in row if cell != _cell(cell)]
    return problems


def _cell(text: str) -> str:
    """Keep spreadsheets from running a name as a formula."""
    return "'" + text if text.startswith(_FORMULA_STARTS) else text


CSV = PlainExporter(
    name="csv",
    summary="one action an API, for spreadsheets and scripts",
    write=write,
    check=check,
)
