"""Numbers are not fooled: randomised values, automation, several sources, coarser values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.answers.automation import report_automation
from fpmonitor.cli import run
from fpmonitor.errors import InputError, UndecidableError, UnknownNameError
from fpmonitor.monitor import Monitor
from fpmonitor.population.views import View
from fpmonitor.store.snapshot import Window
from fpmonitor.store.transforms import Transform, read_transforms

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CANVAS = "HTMLCanvasElement.toDataURL"
AGENT = "Navigator.userAgent"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:{0}.0) Gecko/20100101 Firefox/{0}.0"
CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/{0}.0.0.0 Safari/537.36"


def database(folder: Path, records: Iterable[dict[str, Any]], name: str = "log") -> Path:
    """Store wide records."""
    log = folder / f"{name}.jsonl"
    log.write_text("".join(json.dumps(record) + "\n" for record in records))
    with Monitor(folder / "x.duckdb", create=True) as monitor:
        monitor.ingest([str(log)])
    return folder / "x.duckdb"


def sessions(user: str, count: int, *, agent: str, canvas: str) -> list[dict[str, Any]]:
    """Visits of one user; `{}` in the canvas becomes the number of the session."""
    return [
        {"user": user, "time": 1_700_000_000 + i, AGENT: agent, CANVAS: canvas.format(i)}
        for i in range(count)
    ]


def crowd(count: int, *, agent: str, canvas: str) -> list[dict[str, Any]]:
    return [
        {"user": f"{agent}{i}", "time": 1_600_000_000, AGENT: agent, CANVAS: canvas.format(i)}
        for i in range(count)
    ]


def exposure_of(path: Path, apis: list[str], **view: Any) -> float:
    with Monitor(path, view=View(**view)) as monitor:
        return monitor.exposure([apis], k=5)[0].empirical


def test_six_sessions_with_a_randomised_canvas_do_not_make_a_browser_unique(tmp_path: Path) -> None:
    agent = FIREFOX.format(140)  # a version of which the vocabulary knows nothing
    records = crowd(20, agent=agent, canvas="single-{}") + sessions(
        "six", 6, agent=agent, canvas="six-{}"
    )
    path = database(tmp_path, records)
    assert exposure_of(path, [CANVAS]) == 0.0
    assert exposure_of(path, [CANVAS, AGENT]) == 0.0
    assert exposure_of(path, [CANVAS], volatile="raw") == 1.0
    with Monitor(path) as monitor:
        assert {line.api: line.volatile for line in monitor.apis()} == {AGENT: False, CANVAS: True}


def test_a_canvas_that_stays_is_read_as_it_is(tmp_path: Path) -> None:
    agent = FIREFOX.format(153)  # repeat visits outweigh the vocabulary
    records = crowd(30, agent=agent, canvas="c{}") + sessions("u", 6, agent=agent, canvas="same")
    path = database(tmp_path, records)
    assert exposure_of(path, [CANVAS]) == 1.0
    with Monitor(path) as monitor:
        assert {line.api: line.volatile for line in monitor.apis()}[CANVAS] is False


def test_the_vocabulary_decides_without_repeat_visits(tmp_path: Path) -> None:
    records = (
        crowd(10, agent=FIREFOX.format(153), canvas="f{}")
        + crowd(10, agent=CHROME.format(150), canvas="c{}")
        + crowd(10, agent=FIREFOX.format(152), canvas="old-f{}")
    )
    path = database(tmp_path, records)
    assert exposure_of(path, [CANVAS]) == pytest.approx(2 / 3)
    with Monitor(path) as monitor:
        volatile = {line.api: line.volatile for line in monitor.apis()}
    assert volatile == {AGENT: None, CANVAS: True}


def test_brave_is_told_by_its_brands(tmp_path: Path) -> None:
    brands = '"Brave";v="150", "Chromium";v="150"'
    records = crowd(10, agent=CHROME.format(150), canvas="b{}")
    path = database(tmp_path, [record | {"http:sec-ch-ua": brands} for record in records])
    assert exposure_of(path, [CANVAS]) == 0.0


def test_the_shared_token_keeps_browser_families_apart(tmp_path: Path) -> None:
    firefox = crowd(6, agent=FIREFOX.format(153), canvas="f{}")
    brave = crowd(3, agent=CHROME.format(150), canvas="b{}")
    brands = {"NavigatorUAData.brands": ["Brave"]}
    path = database(tmp_path, [*firefox, *(record | brands for record in brave)])
    assert exposure_of(path, [CANVAS]) == pytest.approx(3 / 9)
    assert exposure_of(path, [CANVAS], volatile="left-out") == 0.0


def test_both_readings_are_shown_and_the_raw_one_only_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = crowd(6, agent=FIREFOX.format(153), canvas="f{}")
    path = str(database(tmp_path, [*records, *crowd(3, agent=CHROME.format(150), canvas="x")]))
    question = ["exposure", "--apis", CANVAS, "--k", "5", "--db", path, "--format", "json"]
    assert run(question) == 0
    [report] = json.loads(capsys.readouterr().out)
    assert report["volatile"] == [CANVAS]
    assert report["empirical"] == pytest.approx(3 / 9)
    assert report["without_volatile"]["empirical"] == 0.0
    assert run([*question, "--volatile", "raw"]) == 0
    captured = capsys.readouterr()
    [report] = json.loads(captured.out)
    assert report["empirical"] == 1.0
    assert "volatile" not in report
    assert "logged" in captured.err


def test_sets_without_volatile_apis_are_answered_as_ever(tmp_path: Path) -> None:
    records = crowd(30, agent=FIREFOX.format(153), canvas="f{}")
    with Monitor(database(tmp_path, records)) as monitor:
        [report] = monitor.exposure([[AGENT]], k=5)
    assert report.left_out is None
    assert report.volatile == ()


def test_absent_stays_absent_where_values_are_masked(tmp_path: Path) -> None:
    records = crowd(40, agent=FIREFOX.format(153), canvas="f{}")
    del records[0][CANVAS]
    assert exposure_of(database(tmp_path, records), [CANVAS]) == pytest.approx(1 / 40)


def test_automation_is_counted_by_sign_and_left_out_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chrome, headless = CHROME.format(150), CHROME.replace("Chrome", "HeadlessChrome").format(150)
    windows = chrome.replace("X11; Linux x86_64", "Windows NT 10.0; Win64; x64")
    records: list[dict[str, Any]] = [
        *({AGENT: chrome, "Navigator.webdriver": False, "Navigator.platform": "Linux"},) * 10,
        *({AGENT: headless, "Navigator.platform": "Linux"},) * 2,
        *({AGENT: chrome, "Navigator.webdriver": True, "Navigator.platform": "Linux"},) * 2,
        {AGENT: windows, "Navigator.platform": "Linux x86_64"},
        {AGENT: "Googlebot/2.1"},
    ]
    path = database(tmp_path, [record | {"user": f"u{i}"} for i, record in enumerate(records)])
    with Monitor(path) as monitor:
        report = report_automation(monitor.population(), [[AGENT]], k=3, show_counts_below_k=True)
        hidden = report_automation(monitor.population(), [[AGENT]], k=3)
    signs = {"headless": 2, "robot": 1, "webdriver": 2, "impossible": 1}
    assert report.signs == signs
    assert (report.users, report.automated) == (16, 6)
    assert report.exposures == {(AGENT,): (4 / 16, 0.0)}
    assert hidden.signs == dict.fromkeys(signs)
    assert exposure_of(path, [AGENT], drop_automation=True) == 0.0
    question = ["exposure", "--apis", AGENT, "--k", "3", "--db", str(path), "--drop-automation"]
    assert run(question) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)[0]["users"] == 10
    assert "6 users that look automated are excluded" in captured.err


def test_a_population_of_robots_decides_nothing(tmp_path: Path) -> None:
    path = database(tmp_path, [{"user": "u", AGENT: "HeadlessChrome/1"}])
    with pytest.raises(UndecidableError, match="automated"):
        exposure_of(path, [AGENT], drop_automation=True)


def test_several_sources_are_named_and_one_can_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [{"user": f"u{i}", "source": f"lib {i % 2}", "a": 1 + i % 2 / 2} for i in range(20)]
    path = database(tmp_path, records)
    with Monitor(path) as monitor:
        assert monitor.population().mixed_sources(10) == {"a": ["lib 0", "lib 1"]}
    with Monitor(path, window=Window(source="lib 1")) as monitor:
        assert monitor.population().mixed_sources(10) == {}
        assert monitor.population().users == 10
        assert monitor.exposure([["a"]], k=2)[0].values == 1
    assert run(["exposure", "--apis", "a", "--k", "2", "--db", str(path)]) == 0
    assert "lib 0, lib 1" in capsys.readouterr().err
    assert run(["exposure", "--apis", "a", "--db", str(path), "--source", "lib 2"]) == 3


def test_what_if_an_api_returned_less(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = [
        {"user": f"u{i}", AGENT: f"Browser/{i % 2}.{i}.0", "Screen.width": 1900 + i}
        for i in range(20)
    ]
    path = database(tmp_path, records)
    what_if = tmp_path / "less.toml"
    what_if.write_text(f'["{AGENT}"]\nmajor = true\n["Screen.width"]\nround = 100\n')
    question = ["exposure", "--apis", f"{AGENT},Screen.width", "--k", "5", "--db", str(path)]
    assert run(question) == 0
    assert json.loads(capsys.readouterr().out)[0]["empirical"] == 1.0
    assert run([*question, "--what-if", str(what_if)]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)[0]["values"] == 2
    assert json.loads(captured.out)[0]["empirical"] == 0.0
    assert f"value transforms applied to: {AGENT}, Screen.width" in captured.err


def test_what_if_leaves_undefined_and_absent_alone(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    lines = [{"user": "a", "api": "x", "value": "1"}, {"user": "b", "api": "x"}]
    lines += [{"user": "c", "api": "y", "value": "1"}, {"user": "d", "api": "x", "value": "2"}]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with Monitor(tmp_path / "x.duckdb", create=True) as monitor:
        monitor.ingest([str(log)])
    view = View(transforms={"x": Transform(constant="same")})
    with Monitor(tmp_path / "x.duckdb", view=view) as monitor:
        assert monitor.exposure([["x"]], k=2)[0].values == 3


def test_what_if_says_what_it_cannot_do(tmp_path: Path) -> None:
    path = database(tmp_path, [{"user": f"u{i}", "big": "x" * (1000 + i)} for i in range(40)])
    with pytest.raises(InputError, match="big: a large value"):
        exposure_of(path, ["big"], transforms={"big": Transform(lower=True)})
    assert exposure_of(path, ["big"], transforms={"big": Transform(constant="")}) == 0.0
    with pytest.raises(UnknownNameError):
        exposure_of(path, ["big"], transforms={"bug": Transform(lower=True)})


@pytest.mark.parametrize(
    ("transform", "before", "after"),
    [
        (Transform(major=True), "Chrome/150.0.7204.1 Safari/537.36", "Chrome/150 Safari/537"),
        (Transform(major=True), "iPhone OS 18_6_1", "iPhone OS 18"),
        (Transform(round=100), "1366x768x24", "1300x700x0"),
        (Transform(round=1), "1.25", "1"),
        (Transform(round=100), "-0.5 -100 -101 0.9", "-100 -100 -200 0"),
        (Transform(round=1), "9007199254740993", "9007199254740993"),
        (Transform(round=100), "9" * 5000, "9" * 4998 + "00"),
        (Transform(lower=True), "EN-us", "en-us"),
        (
            Transform(brands=True),
            '"Not:A-Brand";v="8", "Chromium";v="150", "Brave";v="150"',
            '"Brave";v="150", "Chromium";v="150"',
        ),
        (Transform(brands=True), '[{"brand":"Not)A;Brand"},{"brand":"B"}]', '[{"brand":"B"}]'),
        (Transform(brands=True, major=True), '"B";v="1.2.3"', '"B";v="1"'),
        (Transform(sort=True), '["b","a"]', '["a","b"]'),
        (Transform(sort=True), "b, a", "a,b"),
        (Transform(constant=""), "anything", ""),
    ],
)
def test_transforms_return_less(transform: Transform, before: str, after: str) -> None:
    assert transform(before) == after


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "a = 1",
        "[a]\n",
        '[a]\nmajor = "yes"',
        "[a]\nround = 0",
        "[a]\nfoo = true",
        "[a]\nround = true",
    ],
)
def test_transforms_that_cannot_be_read_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "less.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"less\.toml"):
        read_transforms(path)


def test_users_whose_visits_brought_nothing_do_not_shift_the_others(tmp_path: Path) -> None:
    # The first users have empty visits alone; behind them Firefox randomises and Chrome does not.
    agents = {"f": "Mozilla/5.0 Gecko/20100101 Firefox/150.0", "c": "Mozilla/5.0 Chrome/150.0.0.0"}
    rows: list[dict[str, object]] = [
        {"user": f"a{i}", "time": f"2026-01-0{day}T00:00:00Z"} for i in range(7) for day in (1, 2)
    ]
    for kind, agent in agents.items():
        for i in range(8):
            for day in (1, 2, 3):
                canvas = f"{i}/{day}" if kind == "f" else "same"
                rows.append(
                    {
                        "user": f"{kind}{i}",
                        "time": f"2026-01-0{day}T00:00:00Z",
                        "Navigator.userAgent": agent,
                        "mine": canvas,
                    }
                )
    log = tmp_path / "visits.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with Monitor(tmp_path / "v.duckdb", create=True) as monitor:
        monitor.ingest([str(log)])
        assert monitor.population().users == 16
        [report] = monitor.exposure([["mine"]], k=5)
    assert report.values == 2, "one token for Firefox, one value in Chrome"
    assert report.empirical == 0
