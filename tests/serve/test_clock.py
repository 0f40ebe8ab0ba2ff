"""The clock of the machine is set forward and back: nothing is lost, opened or given for free."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient

from fpmonitor.monitor import Monitor
from fpmonitor.serve import app, door
from fpmonitor.serve.app import service_app
from fpmonitor.serve.config import ServeConfig
from fpmonitor.serve.keys import add_key

if TYPE_CHECKING:
    from pathlib import Path

YEAR = 365 * 86_400.0
HOME = "http://localhost"
BEFORE_1970 = -3e9


class Clock:
    """The time of day of the service, which the test sets; the monotonic clock goes on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = datetime(2026, 5, 1, tzinfo=UTC).timestamp()
        clock = self

        class Days(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
                return datetime.fromtimestamp(clock.now, tz)

        monkeypatch.setattr(time, "time", lambda: self.now)
        monkeypatch.setattr(time, "time_ns", lambda: int(self.now * 1e9))
        monkeypatch.setattr(app, "datetime", Days)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def client_of(folder: Path, **settings: Any) -> TestClient:
    config = ServeConfig(db=folder / "s.duckdb", flush_seconds=3600.0, **settings)
    return TestClient(service_app(config), base_url=HOME)


def send(client: TestClient, *users: str) -> int:
    lines = [json.dumps({"user": user, "api": "A.a", "value": user}) for user in users]
    headers = {"content-type": "text/plain"}
    return client.post("/v1/observations", content="\n".join(lines), headers=headers).status_code


def test_what_is_taken_at_any_time_is_stored_once(clock: Clock, tmp_path: Path) -> None:
    """Also if it goes back between two starts, so that new segments sort before old ones."""
    sent, start = [], clock.now
    for at in (0.0, -YEAR, 30 * YEAR, -YEAR, BEFORE_1970, 0.0):
        clock.now = start + at
        with client_of(tmp_path) as client:
            for step in (0.0, -3600.0, 3600.0):
                clock.now = start + at + step
                sent.append(f"u{len(sent)}")
                assert send(client, sent[-1]) == 202
        assert not list((tmp_path / "s.duckdb.spool").glob("*.frames"))
    with Monitor(tmp_path / "s.duckdb") as monitor:
        assert sorted(row[4] for row in monitor.observations()) == sorted(sent)


def test_jumps_of_the_clock_give_a_key_one_minute_more_and_close_it_for_no_longer(
    clock: Clock, tmp_path: Path
) -> None:
    start = clock.now
    with client_of(tmp_path, records_per_minute=6) as client:
        assert send(client, *"abcdef") == 202
        for jump in (-YEAR, -2 * YEAR, -2 * YEAR - 1):
            clock.now = start + jump
            assert send(client, "g") == 429, "the past refills nothing"
        clock.now += 61
        assert send(client, *"abcdef") == 202, "and what it took back is not waited for"
        assert send(client, "g") == 429
        clock.now += 50 * YEAR
        assert send(client, *"abcdef") == 202
        assert send(client, "g") == 429, "fifty years are one minute"
    clock.now -= 50 * YEAR  # and the service was off meanwhile
    with client_of(tmp_path, records_per_minute=6) as client:
        assert send(client, "g") == 429
        clock.now += 61
        assert send(client, *"abcdef") == 202


def test_a_session_lasts_as_long_as_its_hours_whatever_the_clock_says(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = add_key(tmp_path / "s.duckdb.keys.json", "read", "ann")
    passed = [0.0]
    mono = time.monotonic
    monkeypatch.setattr(door, "time", SimpleNamespace(monotonic=lambda: mono() + passed[0]))
    with client_of(tmp_path) as client:
        client.post("/login", data={"token": token})
        cookie = {"cookie": f"{door.COOKIE}={client.cookies[door.COOKIE]}"}
        for jump in (0.0, -YEAR, YEAR, BEFORE_1970):
            clock.now += jump
            opened = client.get("/", headers=cookie, follow_redirects=False)
            assert opened.status_code != 303, "signed in"
        clock.now -= 50 * YEAR
        passed[0] = door.SESSION_SECONDS + 1.0
        assert client.get("/", headers=cookie, follow_redirects=False).status_code == 303
