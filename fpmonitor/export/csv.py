"""Allow/block list as CSV, for spreadsheets and scripts."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from fpmonitor.export.lists import api_actions

if TYPE_CHECKING:
    from fpmonitor.decide.decision import Decision

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def export_csv(decision: Decision) -> str:
    """Write the list as CSV, one API a row: `api,action,reason`."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(["api", "action", "reason"])
    for entry in api_actions(decision):
        writer.writerow([_cell(entry.api), entry.action, _cell(entry.reason)])
    return output.getvalue()


def _cell(text: str) -> str:
    """Keep spreadsheets from running a name as a formula."""
    return "'" + text if text.startswith(_FORMULA_STARTS) else text
