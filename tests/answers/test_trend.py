"""The trend: windows say what `exposure` says of them, and drift is named with care."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from fpmonitor.answers.exposure import report_exposures
from fpmonitor.cli import run
from fpmonitor.disclosure import Audience
from fpmonitor.errors import InputError, UndecidableError, UnknownNameError
from fpmonitor.monitor import Monitor
from fpmonitor.population.views import View
from fpmonitor.question import Question
from fpmonitor.render.figures import of_trend
from fpmonitor.store.snapshot import Window
from fpmonitor.store.transforms import read_transforms

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

START = datetime(2026, 3, 2, tzinfo=UTC)  # a Monday


def write(path: Path, records: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def browsers(
    users: int, *, day: int, seed: int, new_version: float = 0.0, first: int = 0
) -> list[dict[str, Any]]:
    """Wide records of one day: a user agent, a screen, a language that is often not asked."""
    moments = np.random.default_rng(seed).integers(86_400, size=users)
    records = []
    for user, second in zip(range(first, first + users), moments.tolist(), strict=True):
        rng = np.random.default_rng(user)
        updated, old = rng.random() < new_version, int(120 + rng.geometric(0.4))
        version = 150 if updated else old
        record = {
            "user": f"u{user}",
            "time": (START + timedelta(days=day, seconds=second)).isoformat(),
            "Navigator.userAgent": f"Mozilla/5.0 Firefox/{version}.0",
            "Screen.height": int(rng.choice([720, 900, 1080, 1440], p=[0.1, 0.2, 0.6, 0.1])),
        }
        if rng.random() < 0.6:
            record["Navigator.language"] = str(rng.choice(["en", "de", "fr"]))
        records.append(record)
    return records


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three weeks; in the third 3 % have a new version. Users return, some within a day."""
    folder = tmp_path_factory.mktemp("trend")
    days = [
        browsers(700, day=day, seed=day, first=100 * day, new_version=0.03 if day >= 14 else 0.0)
        for day in range(21)
    ]
    days[5] += browsers(60, day=5, seed=99, first=500)
    days[6] += [{"user": "quiet", "time": (START + timedelta(days=6)).isoformat()}]
    path = folder / "trend.duckdb"
    with Monitor(path, create=True) as monitor:
        for week in range(3):
            records = itertools.chain(*days[7 * week : 7 * week + 7])
            monitor.ingest([str(write(folder / f"{week}.jsonl", records))])
    return path


CANVAS = "HTMLCanvasElement.toDataURL"
SETS = [("Screen.height",), ("Navigator.language", "Navigator.userAgent", "Screen.height")]


@pytest.mark.long
@pytest.mark.parametrize("by", ["day", "week", "month"])
def test_a_window_says_what_exposure_says_of_it(database: Path, by: Any) -> None:
    with Monitor(database) as monitor:
        report = monitor.trend(SETS, by=by, k=5, population=900)
        assert len(report.windows) == {"day": 21, "week": 3, "month": 1}[by]
        for window in report.windows[:: 10 if by == "day" else 1]:
            asked = monitor.population(window=Window(window.since, window.until))
            for line, alone in zip(
                window.sets, report_exposures(asked, Question(5, 900), SETS), strict=True
            ):
                assert (line.apis, window.users) == (alone.apis, alone.users)
                assert line.values == alone.values
                for name in ("entropy_bits", "empirical", "plug_in", "unbiased"):
                    assert getattr(line, name) == pytest.approx(getattr(alone, name)), name
                assert line.lower <= line.plug_in <= line.upper
                assert (line.lower, line.upper) == (alone.lower, alone.upper)


def test_a_window_of_volatile_values_says_what_exposure_says_of_it(tmp_path: Path) -> None:
    records = [
        {
            "user": f"u{user}",
            "time": (START + timedelta(days=day, hours=hour)).isoformat(),
            CANVAS: f"noise {user} {day} {hour}",
            "Navigator.userAgent": f"Mozilla/5.0 Firefox/{153 + user % 3}.0",
            "Navigator.webdriver": user % 20 == 0,
        }
        for day in range(2)
        for user in range(60)
        for hour in (1, 2)
    ]
    log = write(tmp_path / "log.jsonl", records)
    for view in (
        View(),
        View(volatile="left-out"),
        View(volatile="raw"),
        View(drop_automation=True),
    ):
        with Monitor(tmp_path / "db", create=True, view=view) as monitor:
            monitor.ingest([str(log)])
            [first, second] = monitor.trend([[CANVAS]], by="day", k=5).windows
            for window in (first, second):
                asked = monitor.population(window=Window(window.since, window.until))
                [alone] = report_exposures(asked, Question(5, 60), [[CANVAS]])
                assert (window.users, window.sets[0].values) == (alone.users, alone.values)
                assert window.sets[0].empirical == alone.empirical
            if view.volatile == "shared":
                # One token in both windows: noise is no drift.
                assert monitor.trend([[CANVAS]], by="day", k=5).alarms == ()
                assert first.sets[0].values == 1


def test_what_the_visits_of_all_windows_contradict_is_masked_in_none(tmp_path: Path) -> None:
    records = [
        {
            "user": f"u{user}",
            "time": (START + timedelta(days=day)).isoformat(),
            CANVAS: f"machine {user}",
            "Navigator.userAgent": "Mozilla/5.0 Firefox/153.0",
        }
        for day in range(2)
        for user in range(60)
    ]
    with Monitor(tmp_path / "db", create=True) as monitor:
        monitor.ingest([str(write(tmp_path / "log.jsonl", records))])
        report = monitor.trend([[CANVAS]], by="day", k=5)
    assert report.masked == ()
    assert [window.sets[0].values for window in report.windows] == [60, 60]


def test_a_change_is_found_and_named_where_it_happened(database: Path) -> None:
    with Monitor(database) as monitor:
        report = monitor.trend(SETS, by="week", k=10)
        later = START.replace(tzinfo=None) + timedelta(days=14)
        assert {alarm.since for alarm in report.alarms} == {later}
        alarms = {alarm.apis: alarm for alarm in report.alarms if alarm.compared == "values"}
        alarm = alarms["Navigator.userAgent",]
        assert alarm.p_value < 1e-4
        assert alarm.moved == pytest.approx(0.03, abs=0.02)
        assert ("Screen.height",) not in alarms
        # A new value is named where k users have it now; how many had it before is not told.
        [value] = [value for value in alarm.values if value.grew]
        assert value.value == "Mozilla/5.0 Firefox/150.0"
        assert value.before is None
        assert value.after == pytest.approx(0.03, abs=0.02)
        assert value.p_value is not None
        assert report.tests == 2 * 9
    with Monitor(database, audience=Audience.OTHERS) as monitor:
        told = monitor.trend(SETS, by="week", k=10).to_json()["drift"]["alarms"]
    values = [value for alarm in told for value in alarm["values"]]
    assert {value["p_value"] is None for value in values if value["before"] is None} <= {True}


@pytest.mark.parametrize("rare", [(8, 14), (14, 8)])
def test_others_are_told_no_change_where_one_of_two_days_hides_its_rare_values(
    tmp_path: Path, rare: tuple[int, int]
) -> None:
    def day_log(day: int, users: int, rare_users: int) -> list[dict[str, Any]]:
        time = (START + timedelta(weeks=day)).isoformat()
        own = [*range(rare_users), *[-1 - user % 3 for user in range(users - rare_users)]]
        return [
            {"user": f"{day}-{user}", "time": time, "A.size": value}
            for user, value in enumerate(own)
        ]

    days = [*day_log(0, 600, rare[0]), *day_log(1, 600, rare[1]), *day_log(2, 600, 90)]
    log = write(tmp_path / "log.jsonl", days)
    with Monitor(tmp_path / "db", create=True, audience=Audience.OTHERS) as monitor:
        monitor.ingest([str(log)])
        alarms = monitor.trend([["A.size"]], by="day", k=10).alarms
    assert {alarm.window for alarm in alarms} == {"2026-03-16"}
    assert {alarm.compared for alarm in alarms} == {"values", "rarity"}


def test_batches_and_sources_are_windows_like_others(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Monitor(database) as monitor:
        weeks, batches = (monitor.trend(SETS, by=by, k=10) for by in ("week", "batch"))
    assert [window.sets for window in batches.windows] == [window.sets for window in weeks.windows]
    assert [window.name[:2] for window in batches.windows] == ["1:", "2:", "3:"]
    assert {alarm.window for alarm in batches.alarms} == {batches.windows[2].name}
    records = [
        {"user": f"u{i}", "source": f"library {i % 3}", "Screen.width": i % 3 // 2}
        for i in range(90)
    ]
    with Monitor(tmp_path / "db", create=True) as monitor:
        monitor.ingest([str(write(tmp_path / "log.jsonl", records))])
    asked = ["exposure", "--db", str(tmp_path / "db"), "--by", "source", "--svg"]
    assert run([*asked, str(tmp_path / "drawn.svg"), "--format", "table"]) == 0
    printed = capsys.readouterr().out.replace("\n", " ")
    assert printed.startswith(
        "3 windows by source, library 0 to library 2. In 1 the users changed against the previous "
        "window: library 2, in Screen.width."
    )
    assert run(["--for-others", *asked, str(tmp_path / "drawn.svg")]) == 0
    assert "library" not in capsys.readouterr().out + (tmp_path / "drawn.svg").read_text()


def test_a_value_is_named_where_k_users_have_it_now(database: Path) -> None:
    with Monitor(database) as monitor:
        monitor_sets = [["Navigator.userAgent"]]
        by_day = monitor.trend(monitor_sets, by="day", k=2, against="first", false_alarms=0.5)
        named = [value for alarm in by_day.alarms for value in alarm.values if value.value]
        assert None not in [value.after for value in named]
    assert by_day.against == "first"
    # A day is compared with the first of its weekday.
    assert by_day.alarms
    for alarm in by_day.alarms:
        assert alarm.before < START.replace(tzinfo=None) + timedelta(days=7)
        assert alarm.before.weekday() == alarm.since.weekday()


@pytest.mark.long
def test_the_order_of_ingest_does_not_matter(database: Path, tmp_path: Path) -> None:
    logs = sorted(database.parent.glob("*.jsonl"), reverse=True)
    together = "".join(log.read_text(encoding="utf-8") for log in logs).splitlines(keepends=True)
    np.random.default_rng(5).shuffle(together)
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_text("".join(together), encoding="utf-8")
    with Monitor(tmp_path / "db", create=True) as monitor, Monitor(database) as ordered:
        monitor.ingest([str(mixed)])
        one, other = (m.trend(SETS, by="day", k=5).to_json() for m in (monitor, ordered))
    assert one["windows"] == other["windows"]


def test_windows_of_fewer_than_k_users_tell_nothing(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", browsers(40, day=0, seed=1) + browsers(9, day=1, seed=2))
    with Monitor(tmp_path / "db", create=True) as monitor:
        monitor.ingest([str(log)])
        [full, small] = monitor.trend([["Screen.height"]], by="day", k=10).windows
        assert (small.users, small.sets) == (None, ())
        assert full.users == 40
        with pytest.raises(UndecidableError, match="no day has 50 users"):
            monitor.trend([["Screen.height"]], by="day", k=50)


def test_questions_that_cannot_be_asked_are_refused(database: Path, tmp_path: Path) -> None:
    with Monitor(database) as monitor:
        with pytest.raises(UnknownNameError):
            monitor.trend([["Screen.heigth"]])
        with pytest.raises(InputError, match="false_alarms"):
            monitor.trend(SETS, false_alarms=0)
    what_if = tmp_path / "what_if.toml"
    what_if.write_text('"Screen.height" = { round = 100 }\n', encoding="utf-8")
    with (
        Monitor(database, view=View(transforms=read_transforms(what_if))) as monitor,
        pytest.raises(InputError, match="coarser"),
    ):
        monitor.trend(SETS)
    timeless = write(tmp_path / "timeless.jsonl", [{"user": "a", "Screen.height": 1}])
    with Monitor(tmp_path / "db", create=True) as monitor:
        monitor.ingest([str(timeless)])
        assert monitor.windows("week").timeless == 1
        with pytest.raises(UndecidableError, match="no visit with a time"):
            monitor.trend()


def test_trend_command_prints_and_draws(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "exposure",
        "--by",
        "week",
        "--db",
        str(database),
        "--apis",
        "Navigator.userAgent,Screen.height",
    ]
    picture = tmp_path / "trend.svg"
    assert run([*arguments, "--by", "day", "--svg", str(picture)]) in {0, 1}
    document = json.loads(capsys.readouterr().out)
    assert len(document["windows"]) == 21
    assert document["drift"]["tests"] == 14 * 6
    assert {line["since"] for line in document["drift"]["alarms"]} >= {"2026-03-16T00:00:00"}
    root = ET.fromstring(picture.read_text(encoding="utf-8"))
    assert "changed" in root.attrib["aria-label"]
    assert len(root.findall(".//{*}circle")) == 21
    assert run([*arguments, "--format", "table"]) == 1
    assert "What changed" in capsys.readouterr().out
    assert run([*arguments, "--until", "2026-03-16", "--format", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert run([*arguments, "--format", "csv"]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_a_change_that_lasts_is_told_once_and_an_api_appears_or_vanishes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def visit(day: int, user: int) -> dict[str, Any]:
        agent = "new" if day > 2 and user % 3 else "old"
        values = {"A.agent": agent, "B.new": user % 2 if day > 3 else None, "C.same": user % 4}
        values |= {"D.old": user % 5 if day < 5 else None}
        time = (START + timedelta(weeks=day)).isoformat()
        told = {name: value for name, value in values.items() if value is not None}
        return {"user": f"u{day} {user}", "time": time, **told}

    visits = (visit(day, user) for day in range(6) for user in range(300))
    log = write(tmp_path / "log.jsonl", visits)
    db = str(tmp_path / "db")
    assert run(["ingest", str(log), "--db", db, "--quiet"]) == 0
    days = [(START + timedelta(weeks=day)).date().isoformat() for day in range(6)]
    asked = ["exposure", "--db", db, "--by", "day", "--against", "first", "--format", "table"]
    capsys.readouterr()
    assert run(asked) == 1
    printed = " ".join(capsys.readouterr().out.split())
    said, _, table = printed.partition("What changed against the first window")
    said = said.partition("By day")[0]
    assert f"A.agent since {days[3]}, still so; B.new since {days[4]}, still so" in said
    assert f"D.old since {days[5]}, still so" in said
    assert "C.same" not in said
    assert table.count("│ A.agent │ values │") == 1
    assert "the API appeared" in table
    assert "the API vanished" in table
    assert run([*asked, "--until", days[3]]) == 0


def test_picture_shows_the_most_exposing_sets_and_escapes_names(tmp_path: Path) -> None:
    records = [
        {"user": f"u{i}", "time": START.isoformat()}
        | {f"a<{api}>": i % (api + 2) for api in range(10)}
        for i in range(40)
    ]
    with Monitor(tmp_path / "db", create=True) as monitor:
        monitor.ingest([str(write(tmp_path / "log.jsonl", records))])
        root = ET.fromstring(of_trend(monitor.trend(by="day")).svg)
    names = {text.text for text in root.findall(".//{*}text")} & {f"a<{api}>" for api in range(10)}
    assert names == {f"a<{api}>" for api in range(2, 10)}


def test_a_picture_by_source_counts_each_source_that_differs(tmp_path: Path) -> None:
    """Sources begin at no time, and all of them counted as one window."""
    records = [
        {"user": f"{source}-{i}", "time": START.isoformat(), "source": source, "A.a": value}
        for source, value in (("one", "1"), ("three", "3"), ("two", "2"))
        for i in range(200)
    ]
    with Monitor(tmp_path / "db", create=True) as monitor:
        monitor.ingest([str(write(tmp_path / "log.jsonl", records))])
        trend = monitor.trend(by="source")
    assert len({alarm.window for alarm in trend.alarms}) == 2
    assert "users changed in 2 of 3 windows" in of_trend(trend, headed=True).svg
