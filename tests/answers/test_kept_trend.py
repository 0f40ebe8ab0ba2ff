"""A trend reads what has changed since the last one, and says what it would say from nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import duckdb
import msgspec
import pytest

from fpmonitor.answers.trend import report_trend
from fpmonitor.disclosure import Audience
from fpmonitor.errors import StoreError
from fpmonitor.monitor import Monitor
from fpmonitor.question import Question
from fpmonitor.store import kept_windows
from fpmonitor.store.snapshot import Window
from fpmonitor.store.upkeep import compact_database, forget_batch, forget_before, forget_user

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

START = datetime(2026, 3, 2, tzinfo=UTC)
CANVAS = "HTMLCanvasElement.toDataURL"
SETS = [("A.size", CANVAS)]
USERS = 40
EVERYTHING = Window(since=datetime(2000, 1, 1, tzinfo=UTC))  # within limits nothing is kept


def visits(day: int, users: Iterable[int], *, size: int | None = None) -> list[dict[str, Any]]:
    """Visits of a day; some browsers draw the canvas anew, and some visits lack a size."""
    return [
        {
            "user": f"u{user}",
            "time": (START + timedelta(weeks=day, seconds=user)).isoformat(),
            "Navigator.userAgent": f"Mozilla/5.0 Firefox/{150 + user % 5}.0",
            CANVAS: f"noise {day} {user}",
        }
        | ({} if user % 4 == 0 and size is None else {"A.size": size or (user + day) % 3})
        for user in users
    ]


def of_day(day: int) -> list[dict[str, Any]]:
    return visits(day, range(5 * day, 5 * day + USERS))


def ingest(path: Path, name: str, records: Iterable[dict[str, Any]]) -> None:
    log = path.with_name(name)
    log.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    with Monitor(path, create=True) as monitor:
        monitor.ingest(log)


def told(path: Path, *windows: Window, turn: int = 0) -> list[dict[str, Any]]:
    """All that a trend says: against the day before, or to others against the first."""
    against: Literal["previous", "first"] = ("previous", "first")[turn]
    audience = (Audience.OWNER, Audience.OTHERS)[turn]
    with Monitor(path, audience=audience) as monitor:
        return [
            report_trend(
                monitor.windows("day", window=window),
                Question(3, 200),
                SETS,
                against=against,
                false_alarms=0.9,
            ).to_json()
            for window in windows
        ]


def kept_days(path: Path) -> list[int]:
    """Days of which something is kept."""
    with duckdb.connect(path) as connection:
        rows = connection.execute(
            "SELECT since FROM kept_window WHERE content IS NOT NULL ORDER BY since"
        ).fetchall()
    return [(since - START.replace(tzinfo=None)).days // 7 for (since,) in rows]


def forget_more_than_comes(path: Path) -> None:
    """Rows of another day then have numbers that other rows had."""
    with Monitor(path) as monitor:
        forget_user(monitor.database, "u46")  # of the last day
    compact_database(path)
    ingest(path, "few.jsonl", visits(0, [28], size=7))


def forget_log_and_day(path: Path) -> None:
    with Monitor(path) as monitor:
        [source] = [b.source for b in monitor.batches() if b.source.endswith("late.jsonl")]
        forget_batch(monitor.database, source)
        forget_before(monitor.database, (START + timedelta(weeks=1)).replace(tzinfo=None))


@pytest.mark.long
def test_whatever_happens_a_trend_says_what_it_would_say_from_nothing(tmp_path: Path) -> None:
    path = tmp_path / "db"
    late = of_day(3) + visits(1, range(500, 520))
    mended = visits(0, [4, 8], size=7) + visits(2, range(10, 50), size=8)
    came_back = [
        visit | {"time": (START + timedelta(weeks=day, hours=20)).isoformat()}
        for day in (1, 3)
        for visit in visits(9, range(600, 620))
    ]
    ingest(path, "days.jsonl", [visit for day in range(3) for visit in of_day(day)])
    for turn in (0, 1):
        told(path, Window(), turn=turn)
    for what, turn, happens in (  # each changes days of which something is kept
        ("visits told more, and corrected", 0, lambda: ingest(path, "mended.jsonl", mended)),
        ("more is forgotten than comes", 0, lambda: forget_more_than_comes(path)),
        ("the same noise", 0, lambda: ingest(path, "noise.jsonl", came_back)),
        ("late visits, and another day", 1, lambda: ingest(path, "late.jsonl", late)),
        ("a log and a day are forgotten", 1, lambda: forget_log_and_day(path)),
    ):
        happens()
        kept, from_nothing = told(path, Window(), EVERYTHING, turn=turn)
        assert kept == from_nothing, what


def test_a_day_is_compared_again_where_the_one_before_counts_otherwise_now(tmp_path: Path) -> None:
    """Only browsers of the first day draw noise; that it was none shows in who comes back later."""
    path = tmp_path / "db"
    chromium = "Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0.0.0 Safari/537.36"
    plain = [visit | {"Navigator.userAgent": chromium, CANVAS: "drawn"} for visit in of_day(1)]
    ingest(path, "days.jsonl", [*of_day(0), *plain])
    [masked] = told(path, Window())
    back = [
        visit | {"time": (START + timedelta(weeks=day)).isoformat()}
        for day in (4, 6)
        for visit in visits(9, range(600, 620))
    ]
    ingest(path, "back.jsonl", back)
    kept, from_nothing = told(path, Window(), EVERYTHING)
    assert kept == from_nothing
    assert masked["masked"] == [CANVAS]
    assert kept["masked"] == []


def test_questions_asked_last_are_kept_also_where_they_read_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_windows, "_QUESTIONS", 2)
    path = tmp_path / "db"
    ingest(path, "days.jsonl", of_day(0))

    def kept_after(k: int) -> set[str]:
        with Monitor(path) as monitor:
            monitor.trend([("A.size",)], by="day", k=k)
        with duckdb.connect(path) as connection:
            rows = connection.execute("SELECT DISTINCT question FROM kept_window").fetchall()
        return {question for (question,) in rows}

    [first] = kept_after(3)
    [second] = kept_after(4) - {first}
    assert kept_after(3) == {first, second}
    ingest(path, "1.jsonl", of_day(1))
    kept = kept_after(5)
    assert len(kept) == 2
    assert first in kept


def test_days_that_have_not_changed_are_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "db"
    ingest(path, "days.jsonl", [visit for day in range(3) for visit in of_day(day)])
    before = told(path, Window())
    with duckdb.connect(path) as connection:  # behind its back
        connection.execute("DELETE FROM observation WHERE visit_id <= $visits", {"visits": USERS})
    assert told(path, Window()) == before


def test_a_day_is_compared_again_when_the_day_before_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "db"
    ingest(path, "days.jsonl", [visit for day in range(3) for visit in of_day(day)])
    before = told(path, Window())
    ingest(path, "late.jsonl", visits(1, range(500, 560), size=9))
    kept, from_nothing = told(path, Window(), EVERYTHING)
    assert kept == from_nothing
    assert kept["drift"]["alarms"] != before[0]["drift"]["alarms"]
    assert kept_days(path) == [0, 1, 2]


def test_a_damaged_spectrum_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "db"
    ingest(path, "days.jsonl", of_day(0))
    told(path, Window())
    for bad_counts in (b"\1\0\0", b"", bytes(8)):
        with duckdb.connect(path) as connection:
            [(content,)] = connection.execute("SELECT content FROM kept_window").fetchall()
            found = msgspec.msgpack.decode(content)
            found["spectra"][0][0] = bad_counts
            bad = msgspec.msgpack.encode(found)
            connection.execute("UPDATE kept_window SET content = $bad", {"bad": bad})
        with pytest.raises(StoreError, match="tampered"):
            told(path, Window())
        with duckdb.connect(path) as connection:
            connection.execute("UPDATE kept_window SET content = $good", {"good": content})


def test_nothing_is_kept_of_the_days_of_a_forgotten_user_or_compared_with_them(
    tmp_path: Path,
) -> None:
    path = tmp_path / "db"
    ingest(path, "days.jsonl", [visit for day in range(5) for visit in of_day(day)])
    told(path, Window())
    assert kept_days(path) == [0, 1, 2, 3, 4]
    with Monitor(path) as monitor:
        forget_user(monitor.database, "u2")  # of the first day
    assert kept_days(path) == [2, 3, 4]


@pytest.mark.long
def test_which_apis_others_are_told_of_takes_no_look_at_the_whole_history(tmp_path: Path) -> None:
    path, k = tmp_path / "db", 3
    rows = [
        {
            "user": f"u{user}",
            "time": (START + timedelta(weeks=day, seconds=user)).isoformat(),
            "common": user % 2,
        }
        | ({"of two users": 1} if user in {7, 8} else {})
        | ({"of one, often": 1} if user == 5 else {})
        | ({"of few, late": 1} if day == 399 and user < k else {})
        for day in range(400)
        for user in range(10)
    ]
    ingest(path, "days.jsonl", rows)
    with Monitor(path, audience=Audience.OTHERS) as monitor:
        report = monitor.trend(by="month", k=k)
        told = {apis.apis for window in report.windows for apis in window.sets}
        assert monitor.database._fetch("SELECT count(*) FROM snapshot") == [(0,)]
        nameable = monitor.population().publishable_apis(k)
        assert told == {(api,) for api in nameable} == {("common",), ("of few, late",)}
        limited = monitor.windows("month", window=EVERYTHING).nameable_apis(k)
        assert limited == nameable
    with Monitor(path) as monitor:
        assert len(monitor.windows("month").nameable_apis(k)) == 4
