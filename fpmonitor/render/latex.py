"""Tables for papers: LaTeX with booktabs, limits included, and what they rest on as a caption."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fpmonitor.render.numbers import DASH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fpmonitor.render.output import Output
    from fpmonitor.render.tables import Table

_SIGNS = {
    "\\": r"\textbackslash{}",
    **{sign: rf"\{sign}" for sign in "#$%&_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "–": "--",
    "−": "$-$",
    "δ": r"$\delta$",
    "`": "",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
}
# Beyond Latin letters (up to U+017F) LaTeX ends in an error: question marks stand for these.
_OTHERS = re.compile(r"[^ -~\u00a0-\u017f]")
_BREAKS = re.compile(r"(?<=[A-Za-z])([.#])(?=[A-Za-z])")


def latex(answer: Output) -> str:
    """Return the tables of an answer, to be included in a paper that loads `booktabs`."""
    return "\n".join(map(_table, answer.tables))


def _table(table: Table) -> str:
    form = "".join(
        "r" if column.is_number or column.kind == "right" else "l" for column in table.columns
    )
    rows = [_row(cells) for cells in table.texts()]
    head = [_row([column.name for column in table.columns]), r"\midrule"] if table.headed else []
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_escaped(_sentences(table))}}}",
            rf"\begin{{tabular}}{{{form}}}",
            r"\toprule",
            *head,
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _sentences(table: Table) -> str:
    title = f"{table.title}." if table.title and not table.title.endswith(".") else table.title
    return f"{title} {table.caption}".strip()


def _row(cells: Sequence[str]) -> str:
    row = " & ".join(_escaped(cell.replace("\n", ", ")) for cell in cells) + r" \\"
    # The line above ends in a command that takes either sign for its option, also a line later.
    return f"{{}}{row}" if row.startswith(("[", "*")) else row


def _escaped(text: str) -> str:
    """Return text that TeX prints as it is; what its fonts lack is a question mark."""
    if text == DASH:
        return "--"
    # NUL as the mark: no sign of `_SIGNS` holds it, and one in a name only allows a break.
    marked = _BREAKS.sub("\\1\0", text)  # a long name may be broken here
    written = "".join(_SIGNS.get(sign, sign) for sign in marked)
    plain = _OTHERS.sub(lambda found: r"\allowbreak{}" if found[0] == "\0" else "?", written)
    # An empty line in a caption would end the paragraph, and TeX the run.
    return " ".join(plain.split())
