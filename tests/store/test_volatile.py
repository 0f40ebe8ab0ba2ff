"""Numbers are not fooled: randomised values, automation, several sources, coarser values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.answers.automation import report_automation
from fpmonitor.cli import run
from fpmonitor.decide.files import read_decision
from fpmonitor.disclosure import Audience
from fpmonitor.errors import InputError, UndecidableError, UnknownNameError
from fpmonitor.monitor import Monitor
from fpmonitor.population.views import View
from fpmonitor.question import Question
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
        users = monitor.population().for_question(Question(5), apis)
        return users.source(apis).spectrum(apis).users_below(5) / users.users


def decided(path: Path, *options: str, k: int = 10, budget: float = 0.05) -> dict[str, Any]:
    """Decide by the real command; gives the decision file."""
    out = path.parent / "decision.json"
    command = ["decide", "--k", str(k), "--budget", str(budget), "--db", str(path), "-o", str(out)]
    assert run([*command, *options, "--quiet"]) == 0
    content: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return content


def test_users_who_come_back_with_a_new_release_do_not_hide_unique_user_agents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def visit(user: int, release: int) -> dict[str, Any]:
        agent = f"Mozilla/5.0 (X11; Linux x86_64) Chrome/{release}.0.{user}.0 Safari/537.36"
        cores = (2, 4, 6, 8, 10, 12, 16, 20)[user % 8]
        return {"user": f"u{user}", "time": 1_700_000_000 + release, AGENT: agent, "cores": cores}

    path = database(
        tmp_path, [*(visit(i, 120) for i in range(5000)), *(visit(i, 124) for i in range(3))]
    )
    decision = decided(path)
    assert decision["allow"] == [["cores"]]
    assert [AGENT] in decision["block"]
    assert decision["view"]["masked"] == []
    assert "randomise" not in decision["guarantee"]
    assert run(["db", "apis", "--db", str(path), "--format", "json"]) == 0
    lines = {line["api"]: line for line in json.loads(capsys.readouterr().out)}
    assert (lines[AGENT]["volatile"], lines[AGENT]["changes"]) == (False, 1.0)
    assert lines[AGENT]["exposure"] == 1.0


def test_nobody_who_comes_back_on_purpose_lowers_an_exposure(tmp_path: Path) -> None:
    agent = FIREFOX.format(140)  # a version that the vocabulary does not name
    crowded = crowd(60, agent=agent, canvas="single-{}")
    before = exposure_of(database(tmp_path, crowded), [CANVAS])
    # Of their own, and in the name of every user: a new value each time.
    made_up = [v for i in range(50) for v in sessions(f"m{i}", 9, agent=agent, canvas=f"{i}-{{}}")]
    stolen = [
        visit
        for user in crowded
        for visit in sessions(user["user"], 4, agent=agent, canvas=user["user"] + "-{}")
    ]
    path = database(tmp_path, [*made_up, *stolen], "hostile")
    assert exposure_of(path, [CANVAS]) == before == 1.0
    assert decided(path, k=5)["view"]["masked"] == []


def test_a_corrected_file_that_changes_values_lowers_no_exposure(tmp_path: Path) -> None:
    agent = FIREFOX.format(140)
    first = [visit | {"source": "lib 1"} for visit in crowd(40, agent=agent, canvas="c{}")]
    database(tmp_path, first)
    path = database(tmp_path, [visit | {CANVAS: f"{visit[CANVAS]}!"} for visit in first], "again")
    assert exposure_of(path, [CANVAS]) == 1.0


def test_corrections_do_not_bring_a_contradicted_mask_back(tmp_path: Path) -> None:
    agent = FIREFOX.format(153)
    stays = [
        {"user": f"u{i}", "time": 1_600_000_000 + day, AGENT: agent, CANVAS: f"machine {i}"}
        for i in range(30)
        for day in (1, 2)
    ]
    assert exposure_of(database(tmp_path, stays), [CANVAS]) == 1.0
    moved = [visit | {CANVAS: f"other {n}"} for n, visit in enumerate(stays) if n % 2]
    assert exposure_of(database(tmp_path, moved, "again"), [CANVAS]) == 1.0


def test_the_vocabulary_says_who_is_masked(tmp_path: Path) -> None:
    records = (
        crowd(10, agent=FIREFOX.format(153), canvas="f{}")
        + crowd(10, agent=CHROME.format(150), canvas="c{}")
        + crowd(10, agent=FIREFOX.format(152), canvas="old-f{}")
    )
    path = database(tmp_path, records)
    assert exposure_of(path, [CANVAS]) == pytest.approx(2 / 3)
    with Monitor(path) as monitor:
        lines = {line.api: (line.volatile, line.changes) for line in monitor.apis()}
    assert lines == {AGENT: (False, None), CANVAS: (True, None)}


def test_values_that_come_back_contradict_the_vocabulary_for_good(tmp_path: Path) -> None:
    agent = FIREFOX.format(153)
    path = database(tmp_path, crowd(30, agent=agent, canvas="c{}"))
    for user in range(3):
        assert exposure_of(path, [CANVAS]) == 0.0
        visits = sessions(f"back{user}", 2, agent=agent, canvas=f"same {user}")
        path = database(tmp_path, visits, f"back{user}")
    assert exposure_of(path, [CANVAS]) == 1.0
    changing = [
        visit
        for i in range(60)
        for visit in sessions(f"hostile{i}", 3, agent=agent, canvas=f"noise {i} {{}}")
    ]
    path = database(tmp_path, changing, "hostile")
    assert exposure_of(path, [CANVAS]) == 1.0
    assert decided(path, k=5)["view"]["masked"] == []


def long_visits(user: str, visits: list[tuple[str, str | None, str]]) -> list[dict[str, Any]]:
    """Observations of one user of Firefox; a visit is its name, its session and its canvas."""
    return [
        {
            "user": user,
            "time": 1_700_000_000 + place,
            "api": api,
            "value": value,
            **({} if session is None else {"session_id": session}),
            "visit_id": name,
        }
        for place, (name, session, canvas) in enumerate(visits)
        for api, value in ((AGENT, FIREFOX.format(153)), (CANVAS, canvas))
    ]


@pytest.mark.parametrize(
    ("sessions_of_visits", "masked"),
    [
        (("s", "s"), True),  # two page views
        (("s", "s", "s"), True),
        (("s", "t"), False),  # it came back in another session
        (("s", "s", "t"), False),
        ((None, None), False),  # nothing says that it was one
        (("s", None), False),
    ],
)
def test_masks_are_judged_between_sessions(
    tmp_path: Path, sessions_of_visits: tuple[str | None, ...], masked: bool
) -> None:
    records = crowd(30, agent=FIREFOX.format(153), canvas="c{}")
    path = database(tmp_path, records)
    told = [
        record
        for user in range(3)
        for record in long_visits(
            f"back{user}",
            [(f"v{i}", session, f"n{user}") for i, session in enumerate(sessions_of_visits)],
        )
    ]
    database(tmp_path, told, "told")
    assert exposure_of(path, [CANVAS]) == (0.0 if masked else 1.0)


def test_sessions_of_the_same_name_join_no_two_users(tmp_path: Path) -> None:
    path = database(tmp_path, crowd(30, agent=FIREFOX.format(153), canvas="c{}"))
    told = [
        record
        for user in range(3)
        for record in long_visits(f"u{user}", [("v", "s", f"n{user}"), ("w", "t", f"n{user}")])
    ]
    database(tmp_path, told, "told")
    assert exposure_of(path, [CANVAS]) == 1.0
    with Monitor(path) as monitor:
        assert len(monitor.database._fetch("SELECT DISTINCT session FROM page_view")) == 6


def test_other_versions_contradict_nothing(tmp_path: Path) -> None:
    records = crowd(30, agent=FIREFOX.format(153), canvas="c{}")
    for i in range(30):
        records += sessions(f"old{i}", 2, agent=FIREFOX.format(140), canvas="same")
    assert exposure_of(database(tmp_path, records), [CANVAS]) == 0.0


@pytest.mark.parametrize(
    "claims",
    [
        {AGENT: "something"},
        {AGENT: "Mozilla/5.0 (Android 15; Mobile; rv:153.0) Gecko/153.0 Firefox/153.0"},
        {AGENT: FIREFOX.format(153), "Navigator.vendor": "Google Inc."},
        {AGENT: FIREFOX.format(153), "NavigatorUAData.brands": '[{"brand":"Chromium"}]'},
        {AGENT: FIREFOX.format(120), "NavigatorUAData.brands": '[{"brand":"Brave"}]'},
        {AGENT: FIREFOX.format(153), "Navigator.platform": "Win32"},
        {AGENT: CHROME.format(132), "http:sec-ch-ua": '"Brave";v="132", "Chromium";v="132"'},
    ],
)
def test_an_unknown_or_inconsistent_browser_is_counted_as_logged(
    tmp_path: Path, claims: dict[str, str]
) -> None:
    records = [record | claims for record in crowd(20, agent="any", canvas="c{}")]
    assert exposure_of(database(tmp_path, records), [CANVAS]) == 1.0


def test_what_is_no_value_is_not_masked(tmp_path: Path) -> None:
    records = [
        {"user": f"{canvas}{i}", "api": api, **told}
        for canvas, number in (("noise", 20), ("none", 3))
        for i in range(number)
        for api, told in (
            (AGENT, {"value": FIREFOX.format(153)}),
            (CANVAS, {"value": f"n{i}"} if canvas == "noise" else {"status": "undefined"}),
        )
    ]
    assert exposure_of(database(tmp_path, records), [CANVAS]) == pytest.approx(3 / 23)


@pytest.mark.parametrize(
    "brands",
    [
        {"http:sec-ch-ua": '"Not A;Brand";v="8", "Chromium";v="120", "Brave";v="120"'},
        {"NavigatorUAData.brands": [{"brand": "Brave", "version": "120"}]},
        {"NavigatorUAData.brands": ["Brave"]},
    ],
)
def test_brave_is_told_by_its_brands(tmp_path: Path, brands: dict[str, Any]) -> None:
    records = crowd(10, agent=CHROME.format(120), canvas="b{}")
    path = database(tmp_path, [record | brands for record in records])
    assert exposure_of(path, [CANVAS]) == 0.0


def test_the_shared_token_keeps_browser_families_apart(tmp_path: Path) -> None:
    firefox = crowd(6, agent=FIREFOX.format(153), canvas="f{}")
    brave = crowd(3, agent=CHROME.format(120), canvas="b{}")
    brands = {"NavigatorUAData.brands": ["Brave"]}
    path = database(tmp_path, [*firefox, *(record | brands for record in brave)])
    assert exposure_of(path, [CANVAS]) == pytest.approx(3 / 9)
    assert exposure_of(path, [CANVAS], volatile="left-out") == 0.0


def test_a_decision_names_what_it_masked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = database(tmp_path, crowd(3000, agent=FIREFOX.format(153), canvas="f{}"))
    decision = decided(path, "--assume", AGENT)
    assert decision["allow"] == [[CANVAS, AGENT]]
    assert decision["view"]["masked"] == [CANVAS]
    assert CANVAS in decision["guarantee"]
    assert "a site that removes the noise learns more" in decision["guarantee"]
    out = str(tmp_path / "decision.json")
    assert run(["check", out, "--db", str(path), "--format", "table"]) == 0
    assert f"randomise them by design: {CANVAS}" in " ".join(capsys.readouterr().out.split())
    left_out = decided(path, "--volatile", "left-out", "--assume", AGENT)
    assert (left_out["view"]["masked"], left_out["allow"]) == ([CANVAS], [[CANVAS, AGENT]])
    assert "left out of every set" in left_out["guarantee"]
    raw = decided(path, "--volatile", "raw", "--assume", AGENT)
    assert (raw["view"]["masked"], raw["allow"]) == ([], [[AGENT]])
    # A decision with masks of another vocabulary is another question.
    old = decision | {"data": decision["data"] | {"digest": "old/volatile shared, all users, []"}}
    (tmp_path / "old.json").write_text(json.dumps(old))
    command = ["decide", "--k", "10", "--budget", "0.05", "--assume", AGENT, "--db", str(path)]
    assert run([*command, "--resume", str(tmp_path / "old.json")]) == 2
    del old["view"]["masked"]
    (tmp_path / "old.json").write_text(json.dumps(old))
    assert read_decision(tmp_path / "old.json").masked is None
    assert run(["gate", str(tmp_path / "old.json"), "--want", CANVAS, "--exit-zero"]) == 0


@pytest.mark.long
def test_every_answer_names_what_it_masked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(database(tmp_path, crowd(30, agent=FIREFOX.format(153), canvas="f{}")))
    (tmp_path / "calls.json").write_text(
        json.dumps({"initialUrl": "https://a.example/", "data": {}}), encoding="utf-8"
    )
    for command in (
        ["exposure", "--apis", CANVAS],
        ["exposure", "--rank"],
        ["exposure", "--curve", "--apis", CANVAS],
        ["exposure", "--by", "week"],
        ["db", "automation", "--apis", CANVAS],
        ["check", "--compare", path, path],
    ):
        where = [] if "--compare" in command else ["--db", path]
        for form in ("json", "table"):
            assert run([*command, *where, "--format", form]) == 0, command
            out = capsys.readouterr().out
            if form == "table":
                assert f"by design: {CANVAS}" in " ".join(out.split()), command
                continue
            answer = json.loads(out)
            lines = answer if isinstance(answer, list) else [answer]
            assert any(line["masked"] == [CANVAS] for line in lines if "masked" in line), command


@pytest.mark.parametrize("kind", ["exposure", "curve", "entropy", "trust"])
def test_figures_name_what_they_masked(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(database(tmp_path, crowd(60, agent=FIREFOX.format(153), canvas="f{}")))
    sets = ["--apis", f"{CANVAS},{AGENT}"] if kind in {"curve", "trust"} else []
    out = tmp_path / "figure.svg"
    assert run(["exposure", "--plot", kind, *sets, "--db", path, "-o", str(out)]) == 0
    assert f"by design: {CANVAS}." in " ".join(capsys.readouterr().err.split())
    assert f"by design: {CANVAS}.</desc>" in out.read_text(encoding="utf-8")


@pytest.mark.long
def test_what_is_handed_on_names_what_it_masked(tmp_path: Path) -> None:
    path = database(tmp_path, crowd(600, agent=FIREFOX.format(153), canvas="f{}"))
    decided(path)
    report = tmp_path / "report.html"
    decision = str(tmp_path / "decision.json")
    assert (
        run(["export", "--report", decision, "--db", str(path), "-o", str(report), "--quiet"]) == 0
    )
    text = report.read_text(encoding="utf-8")
    assert f"Values that browsers randomise by design ({CANVAS}) count as one" in text
    assert f"Values that browsers randomise by design ({CANVAS}) count as one for each" in text
    assert "changes between visits" in text
    with Monitor(path, audience=Audience.OTHERS) as monitor:
        found = monitor.index([CANVAS], k=5).explore([CANVAS])
        assert (found.masked, found.empirical) == ((CANVAS,), 4 / 600)


def test_others_are_told_of_masks_and_changes_of_at_least_k_users(tmp_path: Path) -> None:
    few = crowd(4, agent=FIREFOX.format(153), canvas="f{}")
    many = crowd(40, agent=CHROME.format(150), canvas="c")
    back = [
        visit
        for i in range(12)
        for visit in sessions(f"b{i}", 2, agent=CHROME.format(150), canvas="c{}" if i < 6 else "c")
    ]
    path = database(tmp_path, [*few, *many, *back])
    with Monitor(path) as monitor:
        for audience, volatile, changes in (
            (Audience.OWNER, {CANVAS}, {AGENT: 0.0, CANVAS: 0.5}),
            (Audience.OTHERS, set(), {CANVAS: 0.5}),
        ):
            users = monitor.population(audience=audience)
            assert users.volatile(5) == volatile
            assert users.changes(5) == changes
        assert monitor.population(audience=Audience.OTHERS).changes(7) == {}


def test_both_readings_are_shown_and_the_raw_one_only_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = crowd(6, agent=FIREFOX.format(153), canvas="f{}")
    path = str(database(tmp_path, [*records, *crowd(3, agent=CHROME.format(150), canvas="x")]))
    question = ["exposure", "--apis", CANVAS, "--k", "5", "--db", path, "--format", "json"]
    assert run(question) == 0
    [report] = json.loads(capsys.readouterr().out)
    assert report["masked"] == [CANVAS]
    assert report["empirical"] == pytest.approx(3 / 9)
    assert report["without_volatile"]["empirical"] == 0.0
    assert run([*question, "--volatile", "raw"]) == 0
    captured = capsys.readouterr()
    [report] = json.loads(captured.out)
    assert report["empirical"] == 1.0
    assert "masked" not in report
    assert "logged" in captured.err


def test_sets_without_volatile_apis_are_answered_as_ever(tmp_path: Path) -> None:
    records = crowd(30, agent=FIREFOX.format(153), canvas="f{}")
    with Monitor(database(tmp_path, records)) as monitor:
        [report] = monitor.exposure([[AGENT]], k=5)
    assert report.left_out is None
    assert report.masked == ()


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
    path = database(tmp_path, [{"user": f"u{i}", "big": "x" * (1000 + i % 10)} for i in range(40)])
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
    agents = {"f": FIREFOX.format(153), "c": CHROME.format(150)}
    rows: list[dict[str, object]] = [
        {"user": f"a{i}", "time": f"2026-01-0{day}T00:00:00Z"} for i in range(7) for day in (1, 2)
    ]
    rows += [
        {
            "user": f"{kind}{i}",
            "time": f"2026-01-0{day}T00:00:00Z",
            AGENT: agent,
            CANVAS: f"{i}/{day}" if kind == "f" else "same",
        }
        for kind, agent in agents.items()
        for i in range(8)
        for day in (1, 2, 3)
    ]
    path = database(tmp_path, rows)
    with Monitor(path) as monitor:
        assert monitor.population().users == 16
        [report] = monitor.exposure([[CANVAS]], k=5)
        assert {line.api: line.changes for line in monitor.apis()} == {AGENT: 0.0, CANVAS: 0.5}
    assert report.values == 2, "one token for Firefox, one value in Chrome"
    assert report.empirical == 0
