"""Tables: one model for terminal and HTML, in which no number is cut and no text commands."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from fpmonitor.cli import run
from fpmonitor.errors import InputError
from fpmonitor.render.answers import bar
from fpmonitor.render.output import Output, to_csv
from fpmonitor.render.screen import one_screen
from fpmonitor.render.store import listing, members
from fpmonitor.render.tables import (
    Kind,
    Marked,
    Table,
    TableColumn,
    columns,
    html_of_table,
    terminal,
)

HOSTILE = "[red]a[/]\x1b[31m</td>"


def table(name: str = "Interface.member") -> Table:
    return Table(
        title="Title",
        caption="Caption",
        columns=[
            *columns("text", "API"),
            *columns("count", "users of the API"),
            *columns("share", "lower", "upper"),
            *columns("short share", "short"),
            *columns("decimal", "bits", digits=3),
            *columns("significant", "digits"),
            *columns("right", "sign"),
            *columns("outcome", "outcome"),
        ],
        rows=[
            (name, 1_234_567, 0.123456, None, 0.5, 1234.5, 0.0012345, "+1", "exposed"),
            (["a", "b"], None, 0, 1, None, None, None, None, "withheld"),
            ("short",),
        ],
        sections=frozenset({0}),
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(monkeypatch: pytest.MonkeyPatch, shown: Table, width: int) -> str:
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    return terminal(shown)


def test_cells_are_written_as_their_columns_say() -> None:
    texts = table().texts()
    assert texts[0] == [
        *("Interface.member", "1,234,567", "12.34 %", "–", "50 %"),
        *("1,234.500", "0.0012", "+1", "exposed"),
    ]
    assert texts[1] == ["a\nb", "–", "0.00 %", "100.00 %", "–", "–", "–", "–", "withheld"]
    assert texts[2] == ["short", *[""] * 8]


@pytest.mark.parametrize(
    ("kind", "said", "words"),
    [
        ("verdict", ["allow", "block", "undecided"], ["allowed", "blocked", "undecided"]),
        ("outcome", ["exposed", "withheld", "no evidence"], ["exposed", "withheld", "no evidence"]),
        ("check", ["allow", "block", "undecided"], ["holds", "violated", "cannot tell"]),
    ],
)
def test_sets_apis_and_checks_have_words_of_their_own(
    kind: Kind, said: list[str], words: list[str]
) -> None:
    """One word for all three made a list say `block` of an API and `allow` of its set."""
    rows = [(verdict,) for verdict in said]
    [column] = zip(*Table(columns=columns(kind, "it"), rows=rows).marked(), strict=True)
    assert [(cell.text, cell.verdict) for cell in column] == [*zip(words, said, strict=True)]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_no_number_is_cut_however_narrow_the_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = drawn(monkeypatch, table("Interface.member" * 5), width)
    for number in ("1,234,567", "12.34 %", "100.00 %", "1,234.500", "0.0012", "+1"):
        assert number in text
    assert "…" not in text
    if width == 200:
        assert max(len(re.sub("\x1b\\[[0-9;]*m", "", line)) for line in text.splitlines()) <= width


@pytest.mark.parametrize("width", [30, 45, 60, 80, 110])
def test_wide_tables_stack_and_no_name_is_broken_within_a_word(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    wide = Table(
        title="Title",
        caption="Caption",
        columns=[
            *columns("text", "API set"),
            *columns("count", "values"),
            *columns("share", "observed", "plug-in", "unbiased", "lower", "upper"),
            *columns("right", "off by", "worst 5 %", "worst 1 %"),
        ],
        rows=[
            ("Navigator.userAgent", 1_234_567, *[0.123456] * 5, "1,234×", "12×", "374×"),
            ("more",),
        ],
    )
    text = re.sub("\x1b\\[[0-9;]*m", "", drawn(monkeypatch, wide, width))
    assert all(len(line) <= width for line in text.splitlines())
    for word in ("values", "observed", "plug-in", "unbiased", "lower", "upper", "5 %", "1 %"):
        assert word in text
    assert (text.count("12.34 %"), text.count("12.35 %")) == (1, 4)
    assert text.count("Title") == text.count("Caption") == 1
    assert all(number in text for number in ("1,234,567", "1,234×", "374×"))
    if width < 90:
        lines = text.splitlines()
        assert [line.split() for line in lines if line.startswith("values:")] == [
            ["values:", "1,234,567"]
        ]
        assert sum(line.startswith("API set:") for line in lines) == 2
        assert "┃" not in text


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[" not in terminal(table())
    assert "\x1b[32mexposed" in drawn(monkeypatch, table(), 100)
    assert "\x1b[" not in terminal(table(), to_file=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[32m" not in drawn(monkeypatch, table(), 100)


def test_text_is_text_in_every_form() -> None:
    shown = Table(
        title=HOSTILE, caption=HOSTILE, columns=columns("text", HOSTILE), rows=[(HOSTILE,)]
    )
    text = terminal(shown)
    assert "\x1b" not in text
    assert text.count("[red]a[/]") == 4
    root = ET.fromstring(html_of_table(shown).replace("\x1b", ""))
    assert root.findtext("caption") == HOSTILE.replace("\x1b", "")
    assert root.findtext("tbody/tr/th") == HOSTILE.replace("\x1b", "")


def test_html_has_a_head_and_the_class_of_a_verdict() -> None:
    root = ET.fromstring(html_of_table(table()))
    assert [cell.text for cell in root.findall("thead/tr/th")][:2] == ["API", "users of the API"]
    assert [cell.attrib.get("class") for cell in root.findall("tbody/tr/td[8]")] == [
        "exposed",
        "withheld",
        None,
    ]
    assert root.find("tbody/tr[2]/th/br") is not None
    headless = Table(columns=columns("text", "", ""), rows=[("a", "b")], headed=False)
    assert ET.fromstring(html_of_table(headless)).find("thead") is None


def test_one_answer_has_three_forms() -> None:
    answer = Output(
        preface=["A sentence."],
        tables=[table()],
        rows=[{"a": 1, "b": {"c": [1, 2]}}],
        document={"all": "\u200b"},
    )
    assert answer.text("table").startswith("A sentence.\n\n")
    assert max(map(len, replace(answer, preface=["word " * 99]).text("table").split("\n"))) <= 120
    assert answer.text("csv").split() == ["a,b.c", '1,"1,2"']
    assert json.loads(answer.text("json")) == {"all": "\u200b"}
    assert "\u200b" not in answer.text("json")
    assert answer.html() == html_of_table(table())
    refused = Output(tables=[], rows=[], no_csv=("no rows", "ask for JSON"))
    with pytest.raises(InputError, match="no rows"):
        refused.text("csv")
    assert refused.text("json") == "[]\n"


def test_rows_become_tables_by_their_members() -> None:
    [listed] = listing(
        [{"name": "a", "epsilon": 0.12345}, {"name": "b", "apis": ["x", "y"]}]
    ).tables
    assert [(column.name, column.kind) for column in listed.columns] == [
        ("name", "text"),
        ("epsilon", "significant"),
        ("apis", "text"),
    ]
    assert listed.texts() == [["a", "0.123", "–"], ["b", "–", "x, y"]]
    [one] = members({"delta_low": 1e-9, "k": 10, "none": None}).tables
    assert one.texts() == [["delta low", "1e-09"], ["k", "10"], ["none", "–"]]
    assert TableColumn("x").written(()) == "–"


def test_a_marked_text_has_the_colour_of_its_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Table(columns=columns("text", "", "limit"), rows=[("a", Marked("5 % rule", "block"))])
    assert "\x1b[31m5 % rule" in drawn(monkeypatch, shown, 80)
    assert '<td class="block">5 % rule</td>' in html_of_table(shown)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_screens_are_as_they_were_looked_at(
    width: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A file from a terminal is as wide as it; what differs on purpose is looked at and copied."""
    monkeypatch.chdir(tmp_path)
    records = (
        {
            "user": i,
            "time": f"2026-01-{1 + i % 28:02}",
            "userAgent": i % 40,
            "screen.angle": i % 3,
            "Navigator.vendor": i * i % 700,
        }
        for i in range(3000)
    )
    Path("log.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("COLUMNS", str(width))
    assert run(["ingest", "log.jsonl", "-q", "-o", "batches.json"]) == 0
    assert run(["decide", "--k", "10", "--budget", "5%", "-o", "decision.json"]) == 0
    drawn = re.sub(r"in \d+\.\d s", "in 0.0 s", capsys.readouterr().err)
    shown = [
        ["exposure", "--k", "10", "--apis", "userAgent,screen.angle", "--apis", "Navigator.vendor"],
        ["check", "decision.json"],
        ["exposure", "--by", "batch", "--apis", "screen.angle"],
        ["gate", "decision.json", "--want", "Navigator.vendor,userAgent", "--exit-zero"],
    ]
    for command in shown:
        assert run([*command, "--format", "table", "-o", "screen.txt"]) == 0
        screen = Path("screen.txt").read_text(encoding="utf-8")
        drawn += f"$ fpmonitor {' '.join(command)}\n{screen}\n"
    assert [line for line in drawn.splitlines() if len(line) > width and line[0] != "$"] == []
    Path("drawn.txt").write_text(drawn, encoding="utf-8")
    golden = Path(__file__).with_name(f"screen-{width}.txt")
    assert drawn == golden.read_text(encoding="utf-8"), (
        f"{Path('drawn.txt').absolute()}: look at it"
    )


@pytest.mark.parametrize("lines", [24, 40])
def test_a_terminal_has_the_answer_on_one_screen_and_how_to_see_the_rest(
    lines: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What was asked for by --format, for a file or a pipe is whole."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    names = [f"Window.api{number:02}" for number in range(30)]
    records = ({name: i * i % (2 + place) for place, name in enumerate(names)} for i in range(300))
    log = [json.dumps({"user": number, **record}) for number, record in enumerate(records)]
    Path("log.jsonl").write_text("\n".join(log), encoding="utf-8")
    assert run(["ingest", "log.jsonl", "-q", "-o", "batches.json"]) == 0
    for command in (["exposure"], ["exposure", "--rank"], ["db", "apis"], ["decide", "-q"]):
        if command == ["decide", "-q"]:
            command += ["--budget", "5%", "--candidates", ",".join(names[:9])]
        screen = Terminal()
        monkeypatch.setattr("sys.stdout", screen)
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("LINES", str(lines))
        assert run(command) == 0
        shown = screen.getvalue()
        capsys.readouterr()
        assert shown.count("\n") <= lines - 1, command
        assert "Window.api" in shown
        whole = Terminal()
        monkeypatch.setattr("sys.stdout", whole)
        assert run([*command, "--format", "table"]) == 0
        assert whole.getvalue().count("\n") >= shown.count("\n")
        assert whole.getvalue().startswith(shown[:60])
        if whole.getvalue().count("\n") >= lines:
            assert shown.splitlines()[-1].startswith("More with --format table: ")
        else:
            assert whole.getvalue() == shown


def test_a_row_that_is_higher_than_the_screen_is_shown_whole() -> None:
    tall = Output(tables=[Table(columns=[TableColumn("text")], rows=[["a\n" * 50]])], rows=[])
    assert one_screen(tall, 24) == tall.text("table")
    shown = one_screen(replace(tall, preface=["word " * 900]), 24)
    assert shown.count("\n") <= 24
    assert shown.endswith("More with --format table: a table.\n")


@pytest.mark.parametrize(("found", "dot"), [(0.02, 1), (0.0886, 0), (0.0, 0)])
def test_a_bar_has_the_observed_share_only_between_its_limits(found: float, dot: int) -> None:
    """Of a larger population it may be far outside: at the end of the line it would look right."""
    drawn = bar(0.005, found, 0.033, 0.033)
    assert drawn.count("●") == dot
    assert drawn[-1] == "┤"


def test_csv_calls_two_numbers_no_limits_unless_they_are_named_so() -> None:
    row = {"alpha": [0.5, 2.0], "paper": {"lower": 0.1, "upper": 0.2}}
    assert to_csv([row]).splitlines() == ["alpha,paper.lower,paper.upper", '"0.5,2.0",0.1,0.2']


@pytest.mark.parametrize(("width", "gone"), [(120, 0), (76, 1), (70, 2), (60, 3)])
def test_spare_columns_give_way_before_a_table_stacks(
    width: int, gone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 80 columns a table stays a table; what it does not show is named, and never a number."""
    monkeypatch.setenv("NO_COLOR", "1")
    wide = Table(
        caption="Caption.",
        columns=[
            *columns("text", "API set"),
            *columns("share", "observed"),
            *columns("share", "plug-in", spare=True),
            *columns("count", "values", spare=True),
            *columns("share", "lower", "upper"),
            *columns("right", "off by", spare=True),
        ],
        rows=[
            ("WebGLContext.parameters#RENDERER_OF_WEBGL", 0.5, 0.25, 1_234_567, 0.1, 0.9, "9×"),
            ("... and 7 more",),
        ],
    )
    text = re.sub("\x1b\\[[0-9;]*m", "", drawn(monkeypatch, wide, width))
    lines = text.splitlines()
    assert "┃" in text
    assert max(map(len, lines)) <= width
    named = ["plug-in", "values", "off by"][3 - gone :]
    said = " ".join(text.split())
    assert ("More with --format csv" in said) == bool(gone)
    assert not gone or f"csv: {', '.join(named)}." in said
    for number, column in (("9×", "off by"), ("1,234,567", "values"), ("25.00 %", "plug-in")):
        assert (number in text) == (column not in named)
    cells = [line.split("│")[1].strip() for line in lines if line.startswith("│")]
    whole = "".join(cells[:-1]) if cells[-1] == "... and 7 more" else "".join(cells)
    assert whole.startswith("WebGLContext.parameters#RENDERER_OF_WEBGL")
    assert all(cell.endswith((".", "#", "_", "WEBGL", "more")) for cell in cells)


@pytest.mark.parametrize("kind", ["share", "short share", "decimal"])
def test_a_column_that_is_called_a_limit_rounds_away_from_what_it_limits(kind: Kind) -> None:
    """Also where only the member is called so, as the upper limit of what was observed."""
    names = ("at least", ("left", "lower"), "at most", ("observed", "observed_upper"), "estimate")
    cells = [column.written(0.123454999) for column in columns(kind, *names)]
    shown = [float(cell.removesuffix(" %")) for cell in cells]
    exact = 0.123454999 * (1 if kind == "decimal" else 100)
    assert shown[0] == shown[1] < exact < shown[2] == shown[3]
    assert shown[4] in {shown[0], shown[2]}
