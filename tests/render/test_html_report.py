"""The report: complete, closed to the outside, safe with hostile names, fit for all readers."""

from __future__ import annotations

import csv
import json
import re
import shutil
from decimal import Decimal
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from fpmonitor.answers.compare import compare_sets
from fpmonitor.cli import run
from fpmonitor.monitor import Monitor
from fpmonitor.render.figures import of_curve, of_exposures, of_ranking, of_trust
from fpmonitor.render.tables import html_of_table
from tests.asked import answer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOSTILE = "x:a:</script><img src=x onerror=alert(1)>"
CANDIDATES = (
    "Navigator.hardwareConcurrency,Navigator.maxTouchPoints,Navigator.userAgent,"
    "Screen.height,Window.devicePixelRatio"
)


class Structure(HTMLParser):
    """Tags with their attributes, and the headings."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[str] = []
        self._in_heading = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in_heading = tag == "h2"

    def handle_data(self, data: str) -> None:
        if self._in_heading:
            self.headings.append(data)
            self._in_heading = False

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def folder(fixture_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    db = shutil.copy(fixture_database, str(folder))
    extra = folder / "extra.jsonl"
    rows = [{"user": f"e{i}", HOSTILE: "x", "planted": f"planted-{i}"} for i in range(30)]
    extra.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(["ingest", str(extra), "--as", "planted=", "--db", db, "--quiet"]) == 0
    decision = str(folder / "decision.json")
    options = ["--db", db, "--budget", "0.05", "--candidates", f'{CANDIDATES},"{HOSTILE}"']
    assert run(["decide", *options, "-o", decision, "--quiet"]) == 0
    content = json.loads(Path(decision).read_text())
    content["bias_tolerated"] = [1.25, *[1.5] * len(content["allow"])][: len(content["allow"])]
    Path(decision).write_text(json.dumps(content))  # as --tolerance would, which takes long
    assert (
        run(["export", "--report", decision, "--db", db, "-o", str(folder / "r.html"), "--quiet"])
        == 0
    )
    return folder


@pytest.fixture
def page(folder: Path) -> str:
    return (folder / "r.html").read_text(encoding="utf-8")


@pytest.fixture
def monitor(folder: Path) -> Iterator[Monitor]:
    with Monitor(folder / "logs.duckdb") as monitor:
        yield monitor


def parsed(page: str) -> Structure:
    structure = Structure()
    structure.feed(page)
    return structure


def test_the_report_has_all_its_parts_in_order(page: str, folder: Path) -> None:
    structure = parsed(page)
    assert structure.headings == [
        "What one site may read together",
        "The APIs one by one",
        "Exposure curves",
        "Entropy against exposure",
        "The price of trust",
        "What one more API would cost",
        "All that is allowed",
        "What is undecided, and what would decide it",
        "How biased the sample may be",
        "What products can carry out",
        "What the data cannot show",
    ]
    decision = json.loads((folder / "decision.json").read_text())
    first = [
        f"A site may read {len(decision['recommended'])} of ",
        '<ul class="chips"><li>',
        escape(decision["guarantee"]),
        "Data: logs.duckdb, 20,030 users, 2026-03-02 to 2026-03-08, ",
        "from 26 columns: 21 APIs, 1 user, 1 time, 3 constant.",
        "<h2",
    ]
    assert sorted(first, key=page.index) == first


def test_the_report_gives_the_reasons_that_the_list_gives(page: str, folder: Path) -> None:
    listed = folder / "list.csv"
    assert run(["export", str(folder / "decision.json"), "--to", "csv", "-o", str(listed)]) == 0
    plain = unescape(page).replace("<wbr/>", "")
    rows = list(csv.DictReader(listed.read_text(encoding="utf-8").splitlines()))
    assert len({row["reason"] for row in rows}) > 1
    assert all(f"<td>{row['reason']}</td>" in plain for row in rows)


def test_nothing_is_loaded_and_only_the_own_script_may_run(page: str) -> None:
    structure = parsed(page)
    policy = next(meta["content"] for meta in structure.all("meta") if "http-equiv" in meta)
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert not [tag for tag, attributes in structure.tags if {"src", "onerror"} & attributes.keys()]
    assert all((link["href"] or "").startswith("#") for link in structure.all("a"))
    assert "style=" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    assert "http" not in re.sub(r"http:[a-z-]+|http-equiv|http://www.w3.org/2000/svg", "", page)


def test_readers_of_screens_find_names_for_everything(page: str) -> None:
    structure = parsed(page)
    assert structure.all("html") == [{"lang": "en"}]
    for chart in structure.all("svg"):
        assert chart["role"] == "img"
        assert chart["aria-label"]
    assert len(structure.all("figure")) == len(structure.all("figcaption"))
    assert len(structure.all("details")) == len(structure.all("figure"))
    assert len(structure.all("table")) == len(structure.all("caption"))
    identifiers = {a["id"] for _, a in structure.tags if "id" in a}
    for section in structure.all("section"):
        assert section["aria-labelledby"] in identifiers
    for link in structure.all("a"):
        assert (link["href"] or "")[1:] in identifiers


def test_names_are_text_and_planted_values_stay_inside(page: str) -> None:
    assert HOSTILE not in page
    assert "&lt;/script&gt;&lt;img" in page
    assert "planted-" not in page


def test_several_weeks_are_shown_over_time(tmp_path: Path) -> None:
    """And a report needs no decision file."""
    rows = [
        {"user": f"{week}-{i}", "time": f"2026-03-{2 + 7 * week:02}T10:00:00Z", "A.a": str(i % 3)}
        for week in range(3)
        for i in range(200)
    ]
    log = tmp_path / "weeks.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    db = str(tmp_path / "w.duckdb")
    assert run(["ingest", str(log), "--db", db, "--quiet"]) == 0
    out = tmp_path / "r.html"
    assert (
        run(["export", "--report", "--db", db, "-o", str(out), "--budget", "0.3", "--quiet"]) == 0
    )
    page = out.read_text()
    assert "600 observed users" in page
    assert "Over time" in parsed(page).headings
    assert "2026-03-16" in page
    assert "No window differs from the one before by more than chance." in page


def test_figures_show_themselves_in_a_notebook(monitor: Monitor) -> None:
    reports = monitor.exposure(
        [["Screen.height"], ["Navigator.maxTouchPoints"]], k=10, trust="joint"
    )
    ranking = monitor.rank(candidates=["Screen.height", "Navigator.maxTouchPoints"], size=2)
    figures = [
        of_exposures(reports, title="Exposure", budget=0.05),
        of_curve(monitor.curve(["Screen.height"])),
        of_ranking(ranking),
        of_trust(reports[0]),
    ]
    for figure in figures:
        drawn = ElementTree.fromstring(figure._repr_svg_())
        assert drawn.tag.endswith("svg")
        table = ElementTree.fromstring(html_of_table(figure.table))
        assert len(table.findall("tbody/tr")) == len(figure.table.rows) > 0
    first = figures[0].table.rows[0]
    assert first[0] == "Screen.height"


@pytest.mark.parametrize(
    ("kind", "sets"),
    [("exposure", 2), ("entropy", 2), ("curve", 1), ("trust", 1)],
)
def test_plot_writes_svg(kind: str, sets: int, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "plot.svg"
    names = ["Screen.height", "Navigator.maxTouchPoints"][:sets]
    arguments = [word for name in names for word in ("--apis", name)]
    db = ["--db", str(folder / "logs.duckdb"), "--quiet"]
    assert run(["exposure", "--plot", kind, *arguments, *db, "-o", str(out)]) == 0
    assert ElementTree.parse(out).getroot().get("role") == "img"


def test_plot_writes_png(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    out = tmp_path / "plot.png"
    assert (
        run(["exposure", "--plot", "exposure", "--db", str(folder / "logs.duckdb"), "-o", str(out)])
        == 0
    )
    assert out.read_bytes().startswith(b"\x89PNG")
    assert len(out.read_bytes()) > 50_000, "with its text"


def test_plot_says_what_it_cannot_do(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = ["--db", str(folder / "logs.duckdb")]
    assert run(["exposure", "--plot", "exposure", *db, "-o", str(tmp_path / "a.pdf")]) == 2
    assert "not an .svg or .png file" in capsys.readouterr().err
    assert run(["exposure", "--plot", "curve", *db, "-o", str(tmp_path / "a.svg")]) == 2
    drawn = ["exposure", "--plot", "exposure", *db, "-o", str(tmp_path / "a.svg"), "--budget"]
    capsys.readouterr()
    assert run([*drawn, "5"]) == 2
    assert "budget: must lie strictly between 0 and 1" in capsys.readouterr().err
    assert run([*drawn, "5%"]) == 0
    assert "budget" in (tmp_path / "a.svg").read_text(encoding="utf-8")


@pytest.mark.long
def test_compare_tells_what_changed_for_sure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def database(name: str, unique: int, users: int = 3000) -> str:
        rows = [
            {"user": f"u{i}", "A.a": f"v{i}" if i < unique else "x", "B.b": str(i % 3)}
            for i in range(users)
        ]
        log = tmp_path / f"{name}.jsonl"
        log.write_text("".join(json.dumps(row) + "\n" for row in rows))
        db = str(tmp_path / f"{name}.duckdb")
        assert run(["ingest", str(log), "--db", db, "--quiet"]) == 0
        return db

    before, after = database("before", 0), database("after", 1500)
    capsys.readouterr()
    assert run(["check", "--compare", before, after, "--format", "json"]) == 0
    lines = {line["apis"][0]: line for line in json.loads(capsys.readouterr().out)}
    assert lines["A.a"]["change"] == "more"
    assert 0 < lines["A.a"]["difference_lower"] <= 0.5 <= lines["A.a"]["difference_upper"]
    assert lines["B.b"]["change"] == "cannot tell"
    assert run(["check", "--compare", after, before, "--format", "json"]) == 0
    lines = {line["apis"][0]: line for line in json.loads(capsys.readouterr().out)}
    assert lines["A.a"]["change"] == "less"
    # A population above the users of one side has no unbiased estimate there.
    few = database("few", 100, users=700)
    capsys.readouterr()
    assert run(["check", "--compare", after, few, "--format", "json"]) == 0
    line = {line["apis"][0]: line for line in json.loads(capsys.readouterr().out)}["A.a"]
    assert (line["estimator"], line["unbiased_after"]) == ("plug-in", None)
    assert line["estimate_after"] - line["estimate_before"] == line["difference"]
    assert run(["check", "--compare", after, few, "--format", "table"]) == 0
    [shown] = [line for line in capsys.readouterr().out.splitlines() if "A.a" in line]
    first, second, difference, *_ = re.findall(r"([+-]?[0-9.]+) %", shown)
    assert Decimal(second) - Decimal(first) == Decimal(difference)


def test_a_set_compared_with_itself_did_not_change(monitor: Monitor) -> None:
    [report] = monitor.exposure([["Screen.height"]], k=10)
    same = compare_sets(report, report)
    assert same.difference == 0
    assert same.lower <= 0 <= same.upper
    assert same.change == "cannot tell"


def test_two_policies_are_compared_set_by_set(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = ["--db", str(folder / "logs.duckdb"), "--candidates", CANDIDATES, "--quiet"]
    strict, loose = str(tmp_path / "strict.json"), str(tmp_path / "loose.json")
    assert run(["decide", *db, "--budget", "0.005", "-o", strict]) == 0
    assert run(["decide", *db, "--budget", "0.2", "-o", loose]) == 0
    lines = answer_of(capsys, "check", "--compare", strict, loose)
    assert lines[0]["before"] != lines[0]["after"]
    assert {(line["before"], line["after"]) for line in lines} >= {("block", "allow")}
    assert not [line for line in lines if (line["before"], line["after"]) == ("allow", "block")]
    assert run(["check", "--compare", strict, strict, "--format", "json"]) == 0
    assert all(line["before"] == line["after"] for line in json.loads(capsys.readouterr().out))
    assert run(["check", "--compare", strict, loose, "--format", "table"]) == 0


@pytest.fixture
def chromium() -> Iterator[Any]:
    sync_api: Any = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.browser
def test_the_page_works_in_chromium_without_complaints(folder: Path, chromium: Any) -> None:
    page = chromium.new_page(viewport={"width": 400, "height": 900}, color_scheme="dark")
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((folder / "r.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == 400, "fits a phone"
    rows = page.locator("#sets tbody tr:visible")
    whole = rows.count()
    page.get_by_label("Screen.height").check()
    held = rows.count()
    assert 0 <= held < whole
    assert page.locator("#shown").inner_text() == f"{held} of the {whole} shown"
    page.get_by_label("Screen.height").uncheck()
    assert rows.count() == whole
    page.locator("summary").first.click()
    assert page.locator("figure table").first.is_visible()
    page.emulate_media(media="print")
    assert not page.locator("#filter").is_visible()
    assert complaints == []


@pytest.mark.long
@pytest.mark.browser
def test_nothing_hinders_readers_of_a_report(
    folder: Path, chromium: Any, hindrances: Callable[[Any, str], Iterator[str]]
) -> None:
    assert list(hindrances(chromium, (folder / "r.html").as_uri())) == []
