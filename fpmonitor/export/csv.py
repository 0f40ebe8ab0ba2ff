"""List as CSV, for spreadsheets and scripts: what is exposed, what withheld."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, get_args

from fpmonitor.errors import InputError
from fpmonitor.export.exporter import PlainExporter, PlainList, printable
from fpmonitor.export.lists import Outcome, api_actions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fpmonitor.decide.decision import Decision

# Spreadsheets run a text with such a beginning; the wide forms are those of East Asian keyboards.
_FORMULA_STARTS = tuple("=+-@\t\r\n＝＋－＠")
# What runs jobs for a repository takes a line of a log that begins so as a command of the job.
_COMMAND_OF_A_JOB = re.compile(r"\s*(::|##\[)")
_LINES_OF_COMMANDS = re.compile(r"(?m)^([^\S\n]*)(::|##\[)")
_MARK = "'"
_HEADER = ["api", "outcome", "reason"]
_OUTCOMES = get_args(Outcome)
_OLD_HEADER = ["api", "action", "reason"]
_OLD_WORDS = {"allow": "exposed", "block": "withheld"}


def csv_rows(rows: Iterable[Iterable[object]], *, escaped: bool = False) -> str:
    """Return CSV that spreadsheets do not run: texts that begin like a formula get a mark.

    So do those that begin like a command of a job. The mark is an apostrophe; texts that begin with
    one get another, so that removing one apostrophe from the beginning of every text restores all
    texts. With `escaped`, for a terminal or a log, characters that command one are written as in
    Python's strings, and in texts that hold a backslash that is written twice.
    """
    output = io.StringIO()
    plain = csv.writer(output, lineterminator="\n")
    # Python before 3.13 does not quote a lone carriage return, which would end the row.
    quoted = csv.writer(output, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in rows:
        texts = (_escaped(cell) if escaped and isinstance(cell, str) else cell for cell in row)
        cells = [_marked(cell) if isinstance(cell, str) else cell for cell in texts]
        has_return = any("\r" in cell for cell in cells if isinstance(cell, str))
        (quoted if has_return else plain).writerow(cells)
    return output.getvalue()


def _marked(text: str) -> str:
    runs = text.startswith((*_FORMULA_STARTS, _MARK)) or _COMMAND_OF_A_JOB.match(text)
    return _MARK + text if runs else text


def _escaped(text: str) -> str:
    return text if text.isprintable() and "\\" not in text else printable(text.replace("\\", r"\\"))


def without_commands(text: str) -> str:
    """Mark lines that would be commands of the job in whose log they are."""
    return _LINES_OF_COMMANDS.sub(rf"\1{_MARK}\2", text)


def _write(decision: Decision) -> str:
    """Write the list as CSV, one row per API: `api,outcome,reason`."""
    entries = api_actions(decision)
    return csv_rows([_HEADER, *([entry.api, entry.outcome, entry.reason] for entry in entries)])


def _check(text: str) -> list[str]:
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


def _read(text: str) -> PlainList:
    """Read a list, also one of before, which had `action` for `outcome`."""
    try:
        header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    except (csv.Error, ValueError) as error:
        raise InputError(f"not CSV: {error}") from error
    if header not in (_HEADER, _OLD_HEADER):
        raise InputError(f"not a list in CSV: columns are not {', '.join(_HEADER)}")
    said: dict[str, set[str]] = {}
    for number, row in enumerate(rows, start=2):
        outcome = _OLD_WORDS.get(row[1], row[1]) if len(row) == len(_HEADER) else ""
        if outcome not in _OUTCOMES:
            raise InputError(f"not a list in CSV: row {number} is not an API, outcome and reason")
        said.setdefault(row[0].removeprefix(_MARK), set()).add(outcome)
    exposed = sorted(api for api, outcomes in said.items() if "exposed" in outcomes)
    return PlainList(
        together=(tuple(exposed),),
        named=frozenset(said),
        problems=tuple(
            f"{api}: in several rows, {' and '.join(sorted(outcomes))}"
            for api, outcomes in said.items()
            if len(outcomes) > 1
        ),
    )


CSV = PlainExporter(
    name="csv",
    summary="one outcome per API, for spreadsheets and scripts",
    write=_write,
    check=_check,
    read=_read,
)
