"""Tables for papers: what TeX prints is what the table says, and names cannot run anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from fpmonitor.cli import run
from fpmonitor.render.latex import latex
from fpmonitor.render.output import Output
from fpmonitor.render.tables import Table, columns

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = r"\input{/etc/passwd} & 50% $x$ #1 ~^_{} | <b> " + '"' + " \u202e é\x00"


def test_exposure_writes_a_table_with_both_limits(fixture_database: Path, tmp_path: Path) -> None:
    path = tmp_path / "table.tex"
    asked = ["exposure", "Screen.width", "Screen.height", "--k", "10", "-n", "100000"]
    assert run([*asked, "--db", str(fixture_database), "-o", str(path)]) == 0
    text = path.read_text()
    assert text.startswith(r"\begin{table}")
    for word in ("lower", "upper", "100,000", r"\toprule", r"\bottomrule"):
        assert word in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len({row.replace(r"\&", "").count("&") for row in rows}) == 1
    assert not re.search(r"(?<!\\)[%#_]", text)


@pytest.mark.parametrize("where", ["title", "caption", "cell", "head"])
def test_names_are_text_for_tex(where: str) -> None:
    name = HOSTILE if where == "head" else "API"
    table = Table(
        title=HOSTILE if where == "title" else "",
        caption=HOSTILE if where == "caption" else "",
        columns=columns("text", (name, "api")),
        rows=[[HOSTILE if where == "cell" else "x"]],
    )
    text = latex(Output(tables=[table], rows=[]))
    assert r"\input" not in text
    assert r"\textbackslash{}input\{/etc/passwd\} \& 50\% \$x\$ \#1" in text
    assert "\u202e" not in text
    assert "\x00" not in text


@pytest.mark.parametrize("value", ["[object Object]", "*"])
def test_a_row_begins_with_no_option_of_the_line_above(value: str) -> None:
    r"""TeX takes a bracket or an asterisk behind `\\` and `\midrule` for their option."""
    table = Table(columns=columns("text", ("languages", "value")), rows=[["x"], [value]])
    lines = latex(Output(tables=[table], rows=[])).splitlines()
    [row] = [line for line in lines if value in line]
    assert not row.startswith(value)
