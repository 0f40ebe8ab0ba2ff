"""A trend reads what has changed since the last one, and says what it would say from nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import duckdb

from fpmonitor.disclosure import Audience
from fpmonitor.monitor import Monitor
from fpmonitor.store.snapshot import Window
from fpmonitor.store.upkeep import compact, forget_batch, forget_before, forget_user

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
            "time": (START + timedelta(days=day, seconds=user)).isoformat(),
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


def told(path: Path, window: Window, turn: int = 0) -> dict[str, Any]:
    """All that a trend says: against the day before, and in turn to others against the first."""
    against: Literal["previous", "first"] = ("previous", "first")[turn % 2]
    audience = (Audience.OWNER, Audience.OTHERS)[turn % 2]
    with Monitor(path, window=window, audience=audience) as monitor:
        return monitor.trend(
            SETS, by="day", k=3, population=200, against=against, false_alarms=0.9
        ).to_json()


def kept_days(path: Path) -> list[int]:
    """Days of which something is kept."""
    with duckdb.connect(path) as connection:
        rows = connection.execute(
            "SELECT since FROM kept_window WHERE content IS NOT NULL ORDER BY since"
        ).fetchall()
    return [(since - START.replace(tzinfo=None)).days for (since,) in rows]


def forget(path: Path, what: str) -> None:
    with Monitor(path) as monitor:
        if what == "a user":
            forget_user(monitor.database, "u16")
        elif what == "days":
            forget_before(monitor.database, (START + timedelta(days=1)).replace(tzinfo=None))
        else:
            [source] = [b.source for b in monitor.batches() if b.source.endswith("late.jsonl")]
            forget_batch(monitor.database, source)


def test_whatever_happens_a_trend_says_what_it_would_say_from_nothing(tmp_path: Path) -> None:
    path = tmp_path / "db"
    came_back = [
        visit | {"time": (START + timedelta(days=day, hours=20)).isoformat()}
        for day in (1, 4)
        for visit in visits(9, range(600, 620))
    ]
    ingest(path, "days.jsonl", [visit for day in range(4) for visit in of_day(day)])
    told(path, Window())
    happenings = {
        "another day": lambda: ingest(path, "4.jsonl", of_day(4)),
        "late visits": lambda: ingest(path, "late.jsonl", visits(1, range(500, 520))),
        "a visit was told more": lambda: ingest(path, "more.jsonl", visits(2, [12, 16], size=7)),
        "a correction": lambda: ingest(path, "right.jsonl", visits(3, range(15, 55), size=8)),
        "the same noise": lambda: ingest(path, "noise.jsonl", came_back),
        "a user is forgotten": lambda: forget(path, "a user"),
        "a smaller file": lambda: compact(path),
        "more after that": lambda: ingest(path, "5.jsonl", of_day(5)),
        "a log is forgotten": lambda: forget(path, "a log"),
        "days are forgotten": lambda: forget(path, "days"),
    }
    for turn, (what, happens) in enumerate(happenings.items()):
        happens()
        assert told(path, Window(), turn) == told(path, EVERYTHING, turn), what


def test_days_that_have_not_changed_are_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "db"
    ingest(path, "days.jsonl", [visit for day in range(3) for visit in of_day(day)])
    before = told(path, Window())
    with duckdb.connect(path) as connection:  # behind its back
        connection.execute("DELETE FROM observation WHERE visit_id <= $visits", {"visits": USERS})
    assert told(path, Window()) == before


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
