"""The watch: new logs are read, changes are told at least once, and nothing is lost by a kill."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fpmonitor.answers.check import CheckReport, RunAlarm
from fpmonitor.answers.notices import message
from fpmonitor.answers.standing import is_news, judged
from fpmonitor.cli import run
from fpmonitor.decide.files import read_decision
from fpmonitor.errors import InputError, StoreError
from fpmonitor.estimate import averaging, evalues, kept_weights, limits
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.lookout.delivery import post_to, run_command
from fpmonitor.monitor import Monitor
from fpmonitor.store.database import Database
from fpmonitor.store.upkeep import forget_batch
from fpmonitor.store.watching import Notice
from fpmonitor.watch import DeliveryError, Watch, WatchSettings
from tests.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fpmonitor.decide.decision import Decision


# Two users share a value that tells: a value of one user each looks like an id, and is no API.
WORLD = {
    "common": lambda _user: "x",
    "telling": lambda user: user // 2,
    "each": lambda user: f"{user * 7919:x}z",
}


def log(folder: Path, name: str, users: range, kind: str) -> Path:
    """A log whose users all share one value, or by two and two one of their own."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    lines = (json.dumps({"user": f"u{user}", "a": WORLD[kind](user)}) for user in users)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def decision(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The set {a} is allowed: at most 5 % of the observed users may be in groups below 5."""
    folder = tmp_path_factory.mktemp("decision")
    with Monitor(folder / "db", create=True) as monitor:
        monitor.ingest([str(log(folder, "log.jsonl", range(100), "common"))])
        decided = monitor.decide(k=5, budget=0.05, setting="sample", assume=["a"])
    assert decided.allow == (("a",),)
    path = folder / "decision.json"
    path.write_text(json.dumps(decided.to_json()), encoding="utf-8")
    return path


@pytest.fixture
def settings(decision: Path, tmp_path: Path) -> WatchSettings:
    (tmp_path / "in").mkdir()
    return WatchSettings(
        folder=tmp_path / "in",
        database=tmp_path / "db",
        decision=read_decision(decision),
        file=decision,
        settle=0,
    )


def collect(told: list[dict[str, Any]]) -> Callable[[Notice], None]:
    return lambda notice: told.append(dict(notice.body))


class Webhook:
    """One that fails until it is up again, and what was posted to it then."""

    def __init__(self) -> None:
        self.is_down = True
        self.posted: list[dict[str, Any]] = []

    def __call__(self, notice: Notice) -> None:
        if self.is_down:
            raise DeliveryError("example.org answered 500")
        collect(self.posted)(notice)


def test_a_changed_verdict_is_told_once_over_restarts(settings: WatchSettings) -> None:
    told: list[dict[str, Any]] = []
    Watch(settings, deliver=[collect(told)]).step()
    assert told == []  # nothing is there to check
    log(settings.folder, "1.jsonl", range(100), "common")
    for _ in range(2):
        Watch(settings, deliver=[collect(told)]).step()
    assert [(body["was"], body["outcome"]) for body in told] == [(None, "holds")]
    log(settings.folder, "2.jsonl", range(100, 120), "common")
    watch = Watch(settings, deliver=[collect(told)])
    watch.step()
    assert len(told) == 1  # checked again, and the verdict is the same
    log(settings.folder, "3.jsonl", range(1000, 1040), "telling")
    watch.step()
    watch.step()
    Watch(settings, deliver=[collect(told)]).step()
    assert [(body["was"], body["outcome"]) for body in told[1:]] == [("holds", "violated")]
    assert told[1]["sets"] == [{"verdict": "block", "apis": ["a"], "lower": 0.25, "upper": 0.25}]
    assert [body["id"] for body in told] == [1, 2]
    assert watch.outcome == "violated"


def test_values_that_all_differ_are_judged_and_not_set_aside_in_a_new_database(
    settings: WatchSettings,
) -> None:
    """Of its decision the watch knows what is an API: no value need have been seen before."""
    log(settings.folder, "first.jsonl", range(100), "each")
    told: list[dict[str, Any]] = []
    watch = Watch(settings, deliver=[collect(told)])
    watch.step()
    assert not watch.refused
    assert watch.outcome == "violated"


def sets_shown(body: dict[str, Any]) -> list[str]:
    return [one["what"] for one in body["problems"] if one["kind"] == "decide again"]


def test_to_decide_again_lasts_while_logs_cannot_be_judged(settings: WatchSettings) -> None:
    blocked = replace(settings.decision, allow=(), recommended=(), block=(("a",),))
    settings = replace(settings, decision=blocked, by="day")
    told: list[dict[str, Any]] = []
    for day in (0, 1):
        path = day_log(settings.folder, day, range(100), a=lambda _: "x")
        Watch(settings, deliver=[collect(told)]).step()
    path.unlink()
    with Monitor(settings.database) as monitor:
        forget_batch(monitor.database, str(path))
    day_log(settings.folder, 2, range(2), a=lambda _: "x")
    Watch(settings, deliver=[collect(told)]).step()
    assert [sets_shown(body) for body in told] == [[], ["sets"], ["sets"]]


def test_sets_that_one_window_alone_shows_are_no_reason_to_decide_again(
    settings: WatchSettings,
) -> None:
    """A wave of bots passes; who decided again by its command would decide on the bots."""
    blocked = replace(settings.decision, allow=(), recommended=(), block=(("a",),))
    settings = replace(settings, decision=blocked, by="day")
    told: list[dict[str, Any]] = []
    for day, kind in enumerate(("common", "telling", "common", "telling", "common", "common")):
        day_log(settings.folder, day, range(100), a=WORLD[kind])
        Watch(settings, deliver=[collect(told)]).step()
        assert (["sets"] in map(sets_shown, told)) == (day == 5), day


def test_a_release_that_is_taken_back_within_a_week_is_told_and_a_wave_of_bots_is_not(
    settings: WatchSettings,
) -> None:
    """Who came before and has a new browser is no bot; of others two weeks in a row must tell."""
    settings = replace(settings, by="week", decision=on_agents(settings.decision, week=0))
    told: list[dict[str, Any]] = []
    (settings.folder / "bots").mkdir(parents=True)
    for week, share in enumerate((0, 0, 3, 0)):
        users = range(400)
        agents_log(settings.folder, week, users, lambda user: 141 + (user % 20 < share))  # noqa: B023
        if week == 1:
            bots = range(5_000, 5_200)
            agents_log(settings.folder / "bots", week, bots, lambda _: 99)
        Watch(settings, deliver=[collect(told)]).step()
        assert (reasons(told) == [f"{AGENT}: chromium 142"]) == (week >= 2), week


def test_what_a_release_brings_and_who_has_left_is_told_in_the_first_week(
    decision: Path, tmp_path: Path, looked: Callable[..., Told]
) -> None:
    """Two weeks in a row had to show both, as they must where bots may have come."""
    path, named = tmp_path / "decision.json", []
    made = on_agents(read_decision(decision), "b", week=0)
    path.write_text(json.dumps(made.to_json()), encoding="utf-8")
    for week in range(4):
        come = np.flatnonzero(np.random.default_rng(week).random(6_000) < 0.4).tolist()
        users = [user for user in come if week < 2 or user % 10]
        updated = {user for user in users if week and user % 10 == 1}
        day_log(
            tmp_path / "in",
            7 * week,
            users,
            a=lambda user, has=updated: "z" if user in has else "x",
            b=lambda user: "p" if user % 10 == 0 else "q",
            **{AGENT: lambda user, has=updated: agent(141 + (user in has))[AGENT](user)},
        )
        named.append(sorted(reasons(looked(path, 7 * week + 4, "week")[1])))
    assert named == [[], [f"{AGENT}: chromium 142", "a"], ["b"], []]


@pytest.mark.parametrize("decides", [True, False], ids=["decided again", "decided once"])
def test_each_country_that_leaves_is_told_once_by_its_name(
    decides: bool, decision: Path, tmp_path: Path, looked: Callable[..., Told]
) -> None:
    """Where the first still stood, nobody heard of the others."""
    path, named, keys = tmp_path / "decision.json", [], set()
    countries = {0: "Portugal", 1: "Poland", 2: "Peru"}
    for week in range(6):
        come = np.flatnonzero(np.random.default_rng(week).random(6_000) < 0.4).tolist()
        day_log(
            tmp_path / "in",
            7 * week,
            [user for user in come if user % 10 >= min(week, 4) - 1],
            a=lambda _: "x",
            b=lambda user: countries.get(user % 10, "Spain"),
        )
        decided = max(week - 1, 0) if decides else 0
        made = on_agents(read_decision(decision), "b", week=decided)
        path.write_text(json.dumps(made.to_json()), encoding="utf-8")
        bodies = looked(path, 7 * week + 4, "week")[1]
        news = [one for body in bodies for one in body["problems"] if one["new"]]
        again = [one["text"] for one in news if one["kind"] == "decide again"]
        named.append([text.partition(" is gone")[0] for text in again])
        sent = [message(body, details=None) for body in bodies if week]
        keys |= {one["key"].partition("/")[2] for one in sent}
    assert named == [[], [], ["b Portugal"], ["b Poland"], ["b Peru"], []]
    assert decides or keys == {"decide again"}  # a new list has a first look


@pytest.mark.parametrize("had", [0, 3], ids=["not logged", "rolled out to a few"])
def test_what_changes_of_an_api_that_just_came_is_told(
    had: int, tmp_path: Path, looked: Callable[..., Told]
) -> None:
    """Days before the decision lack it; a later day as its reference hid what changed for good."""
    folder, path, told = tmp_path / "in", tmp_path / "decision.json", {}

    def log_of(day: int, value: str) -> str:
        few = {f"u{user}" for user in range(400 if day > 6 else had)}
        log = day_log(folder, day, range(400), a=lambda _: "x", b=lambda _: value)
        rows = map(json.loads, log.read_text(encoding="utf-8").splitlines())
        kept = [row if row["user"] in few else {**row, "b": None} for row in rows]
        lines = (json.dumps({k: v for k, v in row.items() if v is not None}) for row in kept)
        log.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return str(log)

    stored = ["--db", str(tmp_path / "db")]
    logs = [log_of(day, "p") for day in range(8)]
    assert run(["ingest", *logs, *stored]) == 0
    asked = ["decide", "-k", "5", "-n", "400", "--budget", "20%", "--candidates", "a,b"]
    assert run([*asked, *stored, "-o", str(path)]) == 0
    for day in range(8, 11):
        log_of(day, "r")
        again = reasons(looked(path, day)[1])
        told |= {day: again} if again else {}
    assert told == {9: ["b"]}


def test_a_wrong_log_that_is_corrected_is_no_reason_to_decide_again(
    settings: WatchSettings,
) -> None:
    decided = replace(settings.decision, days=(START.date(), START.date()))
    settings = replace(settings, by="week", decision=decided)
    told: list[dict[str, Any]] = []
    for week in range(4):
        wrong = "y" if week == 2 else "x"
        day_log(settings.folder, 7 * week, range(400), a=lambda _: wrong)  # noqa: B023
        Watch(settings, deliver=[collect(told)]).step()
    assert reasons(told) == []


AGENT = "Navigator.userAgent"


def on_agents(decision: Decision, *more: str, week: int) -> Decision:
    """The same, decided on the users of a week once it was over; what is added is never allowed."""
    day = (START + timedelta(days=7 * week)).date()
    policy = replace(decision.policy, candidates=("a", AGENT, *more))
    made = replace(decision, policy=policy, never=(AGENT, *more), users=1 + week)
    # Files of before have no scope.
    return replace(made, days=(day, day), made=day + timedelta(days=4), scope=None)


def agents_log(
    folder: Path, week: int, users: range, version: Callable[[int], int], a: str = "x"
) -> None:
    agents = {AGENT: lambda user: agent(version(user))[AGENT](user)}
    day_log(folder, 7 * week, users, a=lambda _: a, **agents)


def reasons(told: list[dict[str, Any]]) -> list[str]:
    """The new reasons to decide again that notices name."""
    problems = [one for body in told for one in body["problems"]]
    return [one["what"] for one in problems if one["kind"] == "decide again" and one["new"]]


def test_who_decides_again_hears_of_a_slow_change_when_it_doubles_or_after_four_weeks(
    settings: WatchSettings,
) -> None:
    """Each week brought a notice to who followed their advice; another browser is told at once."""
    settings = replace(settings, by="week", decision=on_agents(settings.decision, week=0))
    named = []
    for week in range(8):
        versions = {
            user: 142 if user % 20 < week else 143 if week >= 6 and user % 3 else 141
            for user in range(1_000)
        }
        agents_log(settings.folder, week, range(1_000), versions.__getitem__)
        told: list[dict[str, Any]] = []
        Watch(settings, deliver=[collect(told)]).step()
        named.append([one.removeprefix(f"{AGENT}: ") for one in reasons(told)])
        if named[-1]:
            settings = replace(settings, decision=on_agents(settings.decision, week=week))
    slow, other = ["chromium 142"], ["chromium 142, chromium 143"]
    assert named == [[], slow, [], slow, [], [], other, []]


def test_what_was_told_of_one_list_is_told_of_another_of_the_same_question_as_well(
    decision: Path, tmp_path: Path, looked: Callable[..., Told]
) -> None:
    """Its owner had decided after that notice, and heard of nothing for four weeks."""
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.json"
    newest = {ours: 0, theirs: 1}
    for path, week in newest.items():
        made = on_agents(read_decision(decision), week=week)
        path.write_text(json.dumps(made.to_json()), encoding="utf-8")
    named: dict[Path, list[str]] = {ours: [], theirs: []}
    for week in range(3):
        agents_log(tmp_path / "in", week, range(1_000), lambda user: 141 + (user % 20 < week))  # noqa: B023
        for path in named:
            if week >= newest[path]:
                named[path] += reasons(looked(path, 7 * week + 4, "week")[1])
    slow = [f"{AGENT}: chromium 142"]
    assert named == {ours: slow, theirs: slow}


def test_what_changes_on_the_day_after_a_decision_on_one_day_is_told(
    settings: WatchSettings, on_population: Path
) -> None:
    """The weekday that it is compared with may lie before the day that was decided on."""
    day = (START + timedelta(days=7)).date()
    decided = replace(read_decision(on_population), days=(day, day))
    settings = replace(settings, by="day", decision=decided)
    told: list[dict[str, Any]] = []
    for passed in range(10):
        day_log(
            settings.folder,
            passed,
            range(400),
            a=lambda user, at=passed: "y" if at > 7 and user % 2 else "x",
        )
        if passed >= 7:
            Watch(settings, deliver=[collect(told)]).step()
    assert reasons(told) == ["a"]


def test_others_are_told_of_no_correction_of_fewer_than_k_users(settings: WatchSettings) -> None:
    told: list[dict[str, Any]] = []
    notes: list[str] = []
    watch = Watch(settings, deliver=[collect(told)], note=notes.append)
    few, many = range(3), range(100, 120)
    for name, users, value in (
        ("many", many, "x"),
        ("few", few, "x"),
        ("few again", few, "y"),
        ("many again", many, "y"),
    ):
        rows = [
            {"user": f"u{user}", "time": f"2026-01-0{day}T12:00:00Z", "a": value}
            for user in users
            for day in range(1, 5)
        ]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (settings.folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
        (settings.folder / f"news {name}.jsonl").write_text("[1, 2]\n", encoding="utf-8")
        watch.step()
    assert [body["corrected"] for body in told] == [[], [], [], ["many.jsonl"]]
    assert any("few again.jsonl corrects 12 visits of" in note for note in notes)


def test_a_notice_that_was_not_delivered_is_kept_and_told_again(settings: WatchSettings) -> None:
    told: list[dict[str, Any]] = []

    def refuse(_notice: Notice) -> None:
        raise DeliveryError("nobody at home")

    log(settings.folder, "1.jsonl", range(100), "common")
    watch = Watch(settings, deliver=[refuse])
    for _ in range(2):
        with pytest.raises(DeliveryError, match="will be sent again: nobody at home"):
            watch.step()
    log(settings.folder, "2.jsonl", range(1000, 1040), "telling")
    Watch(settings, deliver=[collect(told)]).step()
    assert [body["outcome"] for body in told] == ["holds", "violated"]


def test_a_look_at_a_new_log_opens_the_database_once(
    settings: WatchSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Monitor] = []
    open_monitor = WatchSettings.open_monitor

    def counted(settings: WatchSettings) -> Monitor:
        opened.append(open_monitor(settings))
        return opened[-1]

    monkeypatch.setattr(WatchSettings, "open_monitor", counted)
    watch = Watch(settings, deliver=[])
    for number in (1, 2):
        log(settings.folder, f"{number}.jsonl", range(100 * number), "common")
        watch.step()
    assert len(opened) == 2
    for number in (3, 4, 5):
        log(settings.folder, f"{number}.jsonl", range(100 * number), "common")
    monkeypatch.setattr("fpmonitor.watch._TURN", 0.01)  # others may use it between slow logs
    monkeypatch.setattr("fpmonitor.store.ingest._TOGETHER", 1)
    watch.step()
    assert len(opened) == 5
    assert watch.outcome == "holds"


def test_a_look_in_a_new_process_opens_the_database_once(
    settings: WatchSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(settings.folder, "1.jsonl", range(100), "common")
    Watch(settings, deliver=[]).step()
    log(settings.folder, "2.jsonl", range(200), "common")
    opened: list[Path] = []
    connect = Database._connect
    monkeypatch.setattr(
        Database, "_connect", lambda self, path: opened.append(path) or connect(self, path)
    )
    watch = Watch(settings, deliver=[])
    watch.step()
    assert (watch.outcome, len(opened)) == ("holds", 1)


def test_a_broken_file_among_many_keeps_none_of_them_from_being_read(
    settings: WatchSettings,
) -> None:
    for number in range(30):
        log(
            settings.folder, f"{number:02d}.jsonl", range(100 * number, 100 * number + 10), "common"
        )
    (settings.folder / "17.jsonl").write_text("[1, 2]\n", encoding="utf-8")
    (settings.folder / "18.jsonl").write_text("{broken\n{broken\n", encoding="utf-8")
    (settings.folder / "19.jsonl").write_text("", encoding="utf-8")
    (settings.folder / "20.jsonl").unlink()
    (settings.folder / "20.jsonl").symlink_to(settings.folder / "03.jsonl")
    notes: list[str] = []
    watch = Watch(settings, deliver=[], note=notes.append)
    for _ in range(2):
        watch.step()
    assert watch.refused == ["17.jsonl", "18.jsonl", "19.jsonl"]
    assert watch.outcome == "holds"
    read = [note for note in notes if note.startswith(str(settings.folder))]
    # Those that were refused are tried once more, as the database has learnt names of APIs.
    read, again = read[:30], read[30:]
    assert len(again) == 3
    assert [Path(note.split(":")[0]).stem for note in read] == [f"{i:02d}" for i in range(30)]
    assert [": not read, until" in note for note in read] == [i in {17, 18, 19} for i in range(30)]
    assert sum(": 10 stored, 0 rejected" in note for note in read) == 26
    assert ": 0 stored, 0 rejected" in read[20]


def test_a_log_of_the_same_size_in_the_place_of_a_forgotten_one_is_checked(
    settings: WatchSettings,
) -> None:
    told: list[dict[str, Any]] = []
    watch = Watch(settings, deliver=[collect(told)])
    path = log(settings.folder, "1.jsonl", range(100), "common")
    watch.step()
    assert run(["db", "forget", "--batch", str(path), "--db", str(settings.database)]) == 0
    log(settings.folder, "2.jsonl", range(100), "telling")
    watch.step()
    assert [body["state"] for body in told] == ["holds", "violated"]


def test_a_folder_that_vanishes_is_an_error_and_its_return_is_no_news(
    settings: WatchSettings,
) -> None:
    told: list[dict[str, Any]] = []
    log(settings.folder, "1.jsonl", range(100), "common")
    watch = Watch(settings, deliver=[collect(told)])
    watch.step()
    away = settings.folder.rename(settings.folder.with_name("away"))
    with pytest.raises(InputError, match="no such folder"):
        watch.step()
    away.rename(settings.folder)
    watch.step()
    assert len(told) == 1


@pytest.mark.long
@pytest.mark.parametrize("how", ["put back", "copied back", "removed", "replaced"])
def test_what_a_database_in_the_place_of_another_lacks_is_read_again(
    settings: WatchSettings, how: str
) -> None:
    told: list[dict[str, Any]] = []
    notes: list[str] = []
    backup = settings.database.with_name("backup")
    log(settings.folder, "1.jsonl", range(100), "common")
    watch = Watch(settings, deliver=[collect(told)], note=notes.append)
    watch.step()
    shutil.copy(settings.database, backup)
    log(settings.folder, "2.jsonl", range(1000, 1040), "telling")
    watch.step()
    if how == "replaced":
        backup.unlink()
        Monitor(backup, create=True).close()
    if how == "copied back":  # into the same file, as `cp` does
        shutil.copy(backup, settings.database)
    elif how == "removed":
        settings.database.unlink()
    else:
        backup.replace(settings.database)
    log(settings.folder, "3.jsonl", range(100, 120), "common")
    watch.step()
    watch.step()
    with Monitor(settings.database) as monitor:
        assert sorted(batch.stored for batch in monitor.batches()) == [20, 40, 100]
    is_other = how in {"removed", "replaced"}
    assert any("is another database now" in note for note in notes) == is_other
    again = (None if is_other else "holds", "violated")
    changes = [(body["was"], body["state"]) for body in told]
    assert changes == [(None, "holds"), ("holds", "violated"), again]


@pytest.mark.long
def test_a_running_watch_goes_by_the_decision_that_its_file_holds(
    decision: Path, tmp_path: Path
) -> None:
    watched, told, folder = tmp_path / "watched.json", tmp_path / "told", tmp_path / "in"
    document = json.loads(decision.read_text(encoding="utf-8"))
    stricter = document | {"policy": document["policy"] | {"budget": 0.01}}
    log(folder, "1.jsonl", range(100), "common")
    log(folder, "2.jsonl", range(1000, 1003), "telling")  # 3 of 103 users: 2.9 %
    shutil.copy(decision, watched)
    arguments = ["watch", str(folder), "--decision", str(watched), "--every", "0.1"]
    arguments += ["--settle", "0", "--db", str(tmp_path / "db")]
    command = [sys.executable, "-P", "-c", f"from fpmonitor.cli import run; run({arguments!r})"]

    def states(number: int) -> list[str]:
        deadline = time.monotonic() + patience(60)
        while time.monotonic() < deadline:
            lines = told.read_text(encoding="utf-8").splitlines()
            if len(lines) >= number:
                return [json.loads(line)["state"] for line in lines]
            time.sleep(0.05)
        raise TimeoutError

    with told.open("wb") as output, (tmp_path / "said").open("wb") as said:
        running = subprocess.Popen(command, stdout=output, stderr=said)
        try:
            assert states(1) == ["holds"]
            watched.write_text("{broken", encoding="utf-8")
            time.sleep(0.3)
            log(folder, "3.jsonl", range(2000, 2040), "telling")
            assert states(2) == ["holds", "violated"]  # it goes on by the one of before
            watched.write_text(json.dumps(stricter), encoding="utf-8")
            assert states(3) == ["holds", "violated", "violated"]
        finally:
            running.terminate()
            running.wait()
    told_by = detailed(told.read_text(encoding="utf-8"))
    assert [body["policy"]["budget"] for body in told_by] == [0.05, 0.05, 0.01]
    notes = (tmp_path / "said").read_text(encoding="utf-8")
    assert notes.count("the earlier decision is watched, until it can be read") == 1
    assert "holds another decision now, which is watched" in notes


def test_a_webhook_that_fails_for_a_day_floods_nobody_else(settings: WatchSettings) -> None:
    told: list[dict[str, Any]] = []
    webhook = Webhook()
    log(settings.folder, "1.jsonl", range(100), "common")
    watch = Watch(settings, deliver=[collect(told), webhook])
    for _ in range(3):
        with pytest.raises(DeliveryError):
            watch.step()
    log(settings.folder, "2.jsonl", range(1000, 1040), "telling")
    with pytest.raises(DeliveryError):
        watch.step()
    assert [body["id"] for body in told] == [1, 2]
    webhook.is_down = False
    watch.step()
    assert [body["id"] for body in told] == [1, 2]
    assert [body["id"] for body in webhook.posted] == [1, 2]


def test_notices_on_the_decision_of_before_are_still_delivered(settings: WatchSettings) -> None:
    told: list[dict[str, Any]] = []
    webhook = Webhook()
    log(settings.folder, "1.jsonl", range(100), "common")
    log(settings.folder, "2.jsonl", range(1000, 1040), "telling")
    watch = Watch(settings, deliver=[collect(told), webhook])
    with pytest.raises(DeliveryError, match="will be sent again"):
        watch.step()
    looser = replace(settings.decision.policy, budget=0.9)
    watch.go_over_to(replace(settings.decision, policy=looser))
    with pytest.raises(DeliveryError, match="will be sent again"):
        watch.step()
    webhook.is_down = False
    watch.step()
    watch.step()
    for where in (told, webhook.posted):
        assert [(body["id"], body["state"]) for body in where] == [(1, "violated"), (2, "holds")]


def test_names_of_files_end_no_watch_and_forge_no_line(
    settings: WatchSettings, decision: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever may put logs into the folder chooses their names."""
    folder = os.fsencode(settings.folder)
    for name, text in (
        (b"\xff.jsonl", '{"user": "new", "a": "x"}\n'),
        (b"\xfe.jsonl", "[1, 2]\n"),
        (b"x\nviolated: a exposes all.jsonl", "[1, 2]\n"),
    ):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:  # noqa: PTH118, PTH123 -- bytes
            file.write(text)
    log(settings.folder, "1.jsonl", range(100), "common")
    arguments = ["watch", str(settings.folder), "--decision", str(decision), "--once"]
    arguments += ["--settle", "0", "--db", str(settings.database)]
    for turn in range(3):
        assert run(arguments) == 2  # some cannot be read
        printed = capsys.readouterr()
        assert not any(line.startswith("violated") for line in printed.err.splitlines())
        told = [problem["what"] for body in detailed(printed.out) for problem in body["problems"]]
        forged = "x\\nviolated: a exposes all.jsonl"
        assert told == ([] if turn else [forged, "\\udcfe.jsonl"])
    with Monitor(settings.database) as monitor:
        assert sorted(batch.stored for batch in monitor.batches()) == [1, 100]


def test_a_file_that_is_still_written_to_is_left_alone(settings: WatchSettings) -> None:
    settings = replace(settings, settle=0.4)
    path = log(settings.folder, "1.jsonl", range(50), "common")
    for name in (".hidden.jsonl", "2.jsonl.tmp"):
        log(settings.folder, name, range(50, 60), "common")
    watch = Watch(settings, deliver=[])
    watch.step()
    assert watch.waiting
    with path.open("a", encoding="utf-8") as file:
        file.write('{"user": "late", "a": "x"}\n')
    watch.step()
    deadline = time.monotonic() + patience(20)
    while watch.waiting and time.monotonic() < deadline:
        time.sleep(0.1)
        watch.step()
    with Monitor(settings.database) as monitor:
        [batch] = monitor.batches()
    assert batch.stored == 51


def test_a_file_moved_in_with_an_old_date_is_read_at_once(settings: WatchSettings) -> None:
    settings = replace(settings, settle=60)
    path = log(settings.folder.parent, "1.jsonl", range(100), "common")
    os.utime(path, (1e9, 1e9))
    path.rename(settings.folder / "1.jsonl")
    watch = Watch(settings, deliver=[])
    watch.step()
    assert not watch.waiting
    assert watch.outcome == "holds"


def test_a_broken_file_is_refused_once_and_read_when_it_is_mended(settings: WatchSettings) -> None:
    (settings.folder / "1.jsonl").write_text("[1, 2]\n", encoding="utf-8")
    notes: list[str] = []
    watch = Watch(settings, deliver=[], note=notes.append)
    watch.step()
    watch.step()
    Watch(settings, deliver=[], note=notes.append).step()
    assert len([text for text in notes if "not read" in text]) == 1
    log(settings.folder, "1.jsonl", range(100), "common")
    watch.step()
    assert watch.outcome == "holds"


@pytest.mark.long
def test_what_nobody_may_read_is_told_and_read_once_it_may_be(
    settings: WatchSettings, decision: Path
) -> None:
    as_a_user: list[str] = []
    if os.geteuid() == 0:  # who may read everything
        as_a_user = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
        if shutil.which("setpriv") is None:
            pytest.skip("root needs setpriv to give up its rights")
    arguments = ["watch", str(settings.folder), "--decision", str(decision), "--once"]
    arguments += ["--settle", "0", "--db", str(settings.database)]
    command = f"from fpmonitor.cli import run; raise SystemExit(run({arguments!r}))"

    def watch() -> tuple[int, list[str]]:
        done = subprocess.run(
            [*as_a_user, sys.executable, "-P", "-c", command], capture_output=True, check=False
        )
        told = detailed(done.stdout.decode())
        return done.returncode, [p["what"] for body in told for p in body["problems"]]

    log(settings.folder, "1.jsonl", range(100), "common")
    file = log(settings.folder, "2.jsonl", range(100, 120), "common")
    within = log(settings.folder / "sub", "3.jsonl", range(200, 220), "common")
    for folder_mode in (0, 0o400):  # the names in it are then hidden, or known
        file.chmod(0)
        within.parent.chmod(folder_mode)
        code, told = watch()
        assert (code, told) == (2, [] if folder_mode else ["2.jsonl", "sub"])
    file.chmod(0o600)
    within.parent.chmod(0o700)
    assert watch() == (0, [])
    with Monitor(settings.database) as monitor:
        assert [batch.stored for batch in monitor.batches()] == [100, 20, 20]


@pytest.mark.long
def test_a_refused_file_is_read_once_logs_are_read_in_another_way(
    settings: WatchSettings,
    decision: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(settings.folder.parent)
    path = log(settings.folder, "1.jsonl", range(100), "common")
    path.write_text(path.read_text(encoding="utf-8").replace("user", "uid"), encoding="utf-8")
    database = ["--db", str(settings.database)]
    once = ["watch", str(settings.folder), "--decision", str(decision), "--settle", "0", *database]

    def watch(*options: str) -> tuple[int, str]:
        code = run([*once, "--once", *options])
        return code, capsys.readouterr().err

    code, said = watch()
    assert code == 2
    assert "--user uid" in said
    assert "such as 1.jsonl" in said
    code, said = watch()
    assert code == 2
    assert "--user uid" not in said  # it is not tried again, and still said
    Path("fpmonitor.toml").write_text('[ingest]\nuser = "uid"\n', encoding="utf-8")
    assert watch()[0] == 0
    # A name that looks like an id, until the database knows it for an API.
    session = json.dumps({"uid": "new", "sessionId": "s1"})
    lines = [session.replace("new", f"n{i}").replace("s1", f"s{i}") for i in range(100)]
    (settings.folder / "2.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert "no column is an API (100 different values in 100 records)" in watch()[1]
    Path("other.jsonl").write_text(lines[0], encoding="utf-8")
    assert run(["ingest", "other.jsonl", "--as", "sessionId=", *database]) == 0
    assert "99 stored" in watch()[1]
    # What is said of names may change what is read: tried again, once.
    (settings.folder / "3.jsonl").write_text("[1, 2]\n", encoding="utf-8")
    assert "not read" in watch()[1]
    assert run(["db", "apis", "--set", "a=Navigator.userAgent", *database]) == 0
    assert ["not read" in watch()[1] for _ in range(2)] == [True, False]


def test_a_running_watch_sees_that_its_column_map_changed(
    settings: WatchSettings, tmp_path: Path
) -> None:
    path, columns = log(settings.folder, "1.jsonl", range(100), "common"), tmp_path / "map.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("user", "uid"), encoding="utf-8")
    columns.write_text('[columns]\nuser = "id"\n', encoding="utf-8")
    settings = replace(settings, column_map=lambda: ColumnMap.from_toml(columns))
    watch = Watch(settings, deliver=[])
    watch.step()
    assert watch.outcome == "cannot tell"
    columns.write_text('[columns]\nuser = "uid"\n', encoding="utf-8")
    watch.step()
    assert watch.outcome == "holds"


def test_a_watch_says_why_it_cannot_tell(
    settings: WatchSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Monitor(tmp_path / "first", create=True) as monitor:
        monitor.ingest([str(log(tmp_path / "first-log", "log.jsonl", range(2000), "common"))])
        decided = monitor.decide(k=5, population=10_000, budget=0.05, assume=["a"])
    path = tmp_path / "on-population.json"
    path.write_text(json.dumps(decided.to_json()), encoding="utf-8")
    log(settings.folder, "1.jsonl", range(60), "common")
    arguments = ["watch", str(settings.folder), "--decision", str(path), "--once", "--settle", "0"]
    assert run([*arguments, "--db", str(settings.database)]) == 3
    printed = capsys.readouterr()
    [body] = detailed(printed.out)
    [found] = body["sets"]
    assert found["upper"] > 0.05
    assert "cannot tell: a may or may not expose more than 5 %" in printed.err
    assert f"to {100 * found['upper']:.1f} %" in printed.err
    assert "budget 5 %); more users would decide it" in printed.err


def test_a_database_in_use_costs_nothing_but_time(settings: WatchSettings) -> None:
    holder = subprocess.Popen(
        [
            *(sys.executable, "-P", "-c"),
            "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print(1, flush=True); input()",
            str(settings.database),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    log(settings.folder, "1.jsonl", range(100), "common")
    watch = Watch(settings, deliver=[])
    try:
        with pytest.raises(StoreError):
            watch.step()
    finally:
        holder.communicate(b"\n")
    settings.database.unlink()  # made by the holder, and not a database of fpmonitor
    watch.step()
    assert watch.outcome == "holds"


@pytest.mark.parametrize("moment", [0.0, 0.02, 0.3])
def test_kill_at_any_moment_loses_nothing(
    settings: WatchSettings, decision: Path, tmp_path: Path, moment: float
) -> None:
    log(settings.folder, "1.jsonl", range(300), "common")
    log(settings.folder, "2.jsonl", range(1000, 1300), "telling")
    told = tmp_path / "told.jsonl"
    arguments = ["watch", str(settings.folder), "--decision", str(decision), "--every", "0.1"]
    arguments += ["--settle", "0", "--db", str(settings.database)]
    with told.open("wb") as output:
        running = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from fpmonitor.cli import run; run({arguments!r})"],
            stdout=output,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + patience(60)
        while not settings.database.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(moment)
        running.send_signal(signal.SIGKILL)
        running.wait()
    again: list[dict[str, Any]] = []
    watch = Watch(settings, deliver=[collect(again)])
    watch.step()
    before = [json.loads(line) for line in told.read_text(encoding="utf-8").splitlines()]
    assert watch.outcome == "violated"
    assert "violated" in [body["outcome"] for body in before + again]
    ids = [body["id"] for body in before + again]
    assert sorted(set(ids)) == list(range(1, len(set(ids)) + 1))
    assert len(ids) - len(set(ids)) <= 1  # at most the one that it was telling
    with Monitor(settings.database) as monitor:
        assert sum(batch.stored for batch in monitor.batches()) == 600


class Receiver(BaseHTTPRequestHandler):
    """Keeps what is posted; answers as its server is told to."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append((dict(self.headers), json.loads(body)))  # type: ignore[attr-defined]
        self.send_response(self.server.answer)  # type: ignore[attr-defined]
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[Any]:
    server: Any = HTTPServer(("127.0.0.1", 0), Receiver)
    server.posted, server.answer = [], 204
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_webhook_gets_the_verdict_and_no_value(
    settings: WatchSettings,
    decision: Path,
    receiver: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = log(settings.folder, "1.jsonl", range(1000, 1100), "common")
    path.write_text(path.read_text(encoding="utf-8").replace('"x"', '"secret"'), encoding="utf-8")
    url = f"http://127.0.0.1:{receiver.server_port}/token-in-path"
    monkeypatch.setenv("FPMONITOR_WEBHOOK", url)
    arguments = ["watch", str(settings.folder), "--decision", str(decision), "--once"]
    arguments += ["--settle", "0", "--db", str(settings.database)]
    assert run(arguments) == 0
    assert run(arguments) == 0
    [(headers, body)] = receiver.posted
    assert headers["Idempotency-Key"].endswith("-1")
    assert body["outcome"] == "holds"
    assert body["users"] == 100
    printed = capsys.readouterr()
    assert json.loads(printed.out) == body
    for text in (json.dumps(body), printed.out, printed.err):
        assert "secret" not in text
        assert "token-in-path" not in text
        assert "u1000" not in text


@pytest.mark.parametrize("answer", [302, 404, 500])
def test_webhook_that_does_not_accept_gets_the_notice_again(
    settings: WatchSettings, receiver: Any, answer: int
) -> None:
    log(settings.folder, "1.jsonl", range(100), "common")
    url = f"http://127.0.0.1:{receiver.server_port}/hook"
    watch = Watch(settings, deliver=[post_to(url)])
    receiver.answer = answer
    with pytest.raises(DeliveryError, match=f"127.0.0.1 answered {answer}"):
        watch.step()
    receiver.answer = 200
    watch.step()
    watch.step()
    assert [body["id"] for _, body in receiver.posted] == [1, 1]


@pytest.fixture
def odd_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that answers something, or bit by bit without an end; its address."""
    stop = threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.recv(1 << 20)
            connection.sendall(request.param)
            while request.param.startswith(b"HTTP") and not stop.wait(0.02):
                connection.sendall(b"a")

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=answer, args=[connection]).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/secret"
        stop.set()
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("odd_server", [b"\0garbage\r\n\r\n"], indirect=True)
def test_an_answer_that_is_no_http_ends_no_watch_and_hides_no_violation(
    settings: WatchSettings, decision: Path, odd_server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log(settings.folder, "1.jsonl", range(1000, 1040), "telling")
    arguments = ["watch", str(settings.folder), "--decision", str(decision), "--once"]
    arguments += ["--settle", "0", "--db", str(settings.database), "--webhook", odd_server]
    assert run(arguments) == 1
    said = capsys.readouterr().err
    assert "notices are kept, and will be sent again: 127.0.0.1 gave no answer of HTTP" in said
    assert "secret" not in said


@pytest.mark.long
@pytest.mark.parametrize("odd_server", [b"HTTP/1.1 200 OK\r\nX-Header: "], indirect=True)
def test_a_webhook_that_answers_without_an_end_holds_nobody_up(
    settings: WatchSettings, odd_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fpmonitor.lookout.delivery._TIMEOUT", 0.2)
    told: list[dict[str, Any]] = []
    log(settings.folder, "1.jsonl", range(100), "common")
    watch = Watch(settings, deliver=[collect(told), post_to(odd_server)])
    for _ in range(3):
        with pytest.raises(DeliveryError, match="did not answer within"):
            watch.step()
    # It is left in peace until one of its answers ends, and others are still told.
    log(settings.folder, "2.jsonl", range(1000, 1040), "telling")
    with pytest.raises(DeliveryError, match="has not yet answered earlier notices"):
        watch.step()
    assert [body["state"] for body in told] == ["holds", "violated"]


def test_command_reads_the_notice_and_a_failure_is_told_again(
    settings: WatchSettings, tmp_path: Path
) -> None:
    log(settings.folder, "1.jsonl", range(100), "common")
    told = tmp_path / "told"
    script = "import sys; open(sys.argv[1], 'ab').write(sys.stdin.buffer.read() + b'\\n')"
    with pytest.raises(DeliveryError, match="ended with 3"):
        Watch(settings, deliver=[run_command(f'{sys.executable} -c "raise SystemExit(3)"')]).step()
    Watch(settings, deliver=[run_command(f'{sys.executable} -c "{script}" {told}')]).step()
    [body] = [json.loads(line) for line in told.read_text(encoding="utf-8").splitlines()]
    assert (body["id"], body["outcome"]) == (1, "holds")
    with pytest.raises(DeliveryError, match="did not run"):
        run_command("/no/such/program")(NOTICE)


NOTICE = Notice(
    number=1,
    body={
        "id": 1,
        "decision": "x" * 64,
        "state": "holds",
        "was": None,
        "outcome": "holds",
        "changed": [],
        "problems": [],
        "next": [],
    },
)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x/y",
        "file:///etc/passwd",
        "https://?token=1",
        "my-hook",
        "https://[::1/x",
        "https://x:port/y",
        "https://x:99999/y",
        "https://x/a b",
        "https://x/ä",
    ],
)
def test_addresses_that_are_no_webhooks_are_refused(url: str) -> None:
    with pytest.raises(InputError, match="webhook") as caught:
        post_to(url)
    assert url not in str(caught.value)


@pytest.mark.parametrize("command", ["", "  ", 'a "b'])
def test_commands_that_are_none_are_refused(command: str) -> None:
    with pytest.raises(InputError, match="command"):
        run_command(command)


def test_watch_needs_a_folder(settings: WatchSettings, decision: Path) -> None:
    assert run(["watch", "/no/such/folder", "--decision", str(decision), "--once"]) == 2
    with pytest.raises(InputError, match="no such folder"):
        Watch(replace(settings, folder=Path("/no/such")), deliver=[])


def test_once_ends_as_check_does(
    settings: WatchSettings, decision: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["watch", str(settings.folder), "--decision", str(decision), "--once"]
    arguments += ["--settle", "0", "--db", str(settings.database)]
    assert run(arguments) == 3  # nothing is known yet
    log(settings.folder, "1.jsonl", range(1000, 1100), "telling")
    assert run(arguments) == 1
    assert run(arguments) == 1
    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line)["outcome"] == "violated"


# ---- A year in small: what somebody on call is told, and what not

START = datetime(2026, 1, 1, tzinfo=UTC)


def day_log(
    folder: Path, day: int | str, users: Iterable[int], **apis: Callable[[int], Any]
) -> Path:
    """A log of one day, counted from the first; or of a date."""
    date = day if isinstance(day, str) else f"{START + timedelta(days=day):%Y-%m-%d}"
    path = folder / f"{date}.jsonl"
    rows = [
        {"user": f"u{user}", "time": f"{date}T12:00:00Z"}
        | {api: value(user) for api, value in apis.items()}
        for user in users
    ]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def on_population(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The set {a, b} is allowed for a population, decided on 2,000 users."""
    folder = tmp_path_factory.mktemp("on-population")
    log_of = day_log(folder, 0, range(2000), a=lambda u: u % 3, b=lambda u: u % 2)
    with Monitor(folder / "db", create=True) as monitor:
        monitor.ingest([str(log_of)])
        decided = monitor.decide(k=5, population=2000, budget=0.05)
    assert decided.allow == (("a", "b"),)
    path = folder / "decision.json"
    path.write_text(json.dumps(decided.to_json()), encoding="utf-8")
    return path


Told = tuple[int, list[dict[str, Any]], str]


@pytest.fixture
def looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Told]:
    """Run the command on a list at the end of a day: its exit code, notices and stderr."""
    folder = tmp_path / "in"
    folder.mkdir()

    class Clock(datetime):
        today = START

        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return cls.today.astimezone(tz)

    for module in ("fpmonitor.watch", "fpmonitor.monitor"):
        monkeypatch.setattr(f"{module}.datetime", Clock)
    arguments = ["watch", str(folder), "--once", "--settle", "0", "--new-users"]
    arguments += ["--db", str(tmp_path / "db"), "--metrics", str(tmp_path / "watch.prom")]

    def at_the_end_of(path: Path, day: int, by: str = "day") -> Told:
        Clock.today = START + timedelta(days=day + 1, hours=3)
        output, said = io.StringIO(), io.StringIO()
        with redirect_stdout(output), redirect_stderr(said):
            code = run([*arguments, "--by", by, "--decision", str(path)])
        return code, detailed(output.getvalue()), said.getvalue()

    return at_the_end_of


@pytest.fixture
def daily(on_population: Path, looked: Callable[..., Told]) -> Callable[..., Told]:
    return partial(looked, on_population)


def detailed(printed: str) -> list[dict[str, Any]]:
    """All that is known of the notices that were printed."""
    files = [Path(json.loads(line)["details"]) for line in printed.splitlines()]
    assert {file.stat().st_mode & 0o777 for file in files} <= {0o600}
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def agent(release: int) -> dict[str, Callable[[int], str]]:
    text = f"Mozilla/5.0 (X11; Linux x86_64) Chrome/{release}.0.0.0 Safari/537.36"
    return {"Navigator.userAgent": lambda _: text}


def good(folder: Path, day: int, *, users: int = 1000, **more: Callable[[int], Any]) -> None:
    first = 10_000 * day
    day_log(folder, day, range(first, first + users), a=lambda u: u % 3, b=lambda u: u % 2, **more)


@pytest.mark.long
def test_days_that_cannot_be_told_are_no_news_and_recovery_is(
    daily: Callable[[int], tuple[int, list[dict[str, Any]], str]], tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    codes, told = [], []
    for day in range(8):
        if day == 4:
            alike = {"b": lambda u: u % 2, **agent(141)}
            day_log(folder, day, range(40_000, 41_000), a=lambda u: u, **alike)
        else:
            good(folder, day, users=30 if day in {1, 2, 6} else 1000, **agent(140))
        code, notices, _ = daily(day)
        codes.append(code)
        told += [(day, notice) for notice in notices]
    assert codes == [0, 3, 3, 0, 1, 0, 3, 0]
    assert [(day, body["was"], body["state"]) for day, body in told] == [
        (0, None, "holds"),
        (4, "holds", "violated"),
        (5, "violated", "holds"),
    ]
    violated, recovered = told[1][1], told[2][1]
    # Each user has a value of `a` now, and all have a new release: of the causes, the likely ones.
    causes = {cause["api"]: cause for cause in violated["causes"]}
    assert causes.keys() == {"a", "Navigator.userAgent"}
    assert causes["a"]["moved"] > 0.9
    assert (causes["a"]["new_values"], causes["a"]["releases"]) == (0, [])
    named = causes["Navigator.userAgent"]
    assert (named["new_values"], named["releases"]) == (1, ["chromium 141"])
    assert recovered["causes"] == []
    [change] = violated["changed"]
    assert (change["apis"], change["was"], change["now"]) == (["a", "b"], "allow", "block")
    assert change["since"] == "2026-01-05T00:00:00"
    assert 0.5 < change["lower"] <= change["upper"] <= 1
    assert change["without_automation"] == [change["lower"], change["upper"]]
    assert (
        violated["next"][0]
        == f"fpmonitor exposure --by day --apis a,b --k 5 --db {tmp_path / 'db'}"
    )
    assert [found["now"] for found in recovered["changed"]] == ["allow"]
    assert daily(7)[:2] == (0, [])


@pytest.mark.long
def test_each_thing_in_the_way_is_told_once(
    daily: Callable[[int], tuple[int, list[dict[str, Any]], str]], tmp_path: Path
) -> None:
    folder = tmp_path / "in"

    def problems(day: int) -> tuple[int, list[tuple[str, str]]]:
        code, notices, _ = daily(day)
        return code, [(p["kind"], p["what"]) for body in notices for p in body["problems"]]

    (folder / "broken.jsonl").write_text("[1, 2]\n", encoding="utf-8")
    assert problems(0) == (2, [("refused", "broken.jsonl")])
    assert problems(0) == (2, [])
    (folder / "broken.jsonl").unlink()
    good(folder, 0)
    assert problems(0) == (0, [])
    # Clocks of the future: of few users others learn nothing.
    day_log(folder, "2099-01-01", range(900, 903), a=lambda _: 0, b=lambda _: 0)
    code, notices, said = daily(0)
    assert (code, notices) == (0, [])
    assert "3 users have visits of the future" in said
    day_log(folder, "2099-01-02", range(903, 910), a=lambda _: 0, b=lambda _: 0)
    assert problems(0) == (0, [("future", "*-*-*.jsonl")])
    day_log(folder, "2099-01-03", range(910, 917), a=lambda _: 0, b=lambda _: 0)
    assert problems(0) == (0, []), "the same host, another day"
    (folder / "edge").mkdir()
    day_log(folder / "edge", "2099-01-04", range(917, 924), a=lambda _: 0, b=lambda _: 0)
    code, [notice], _ = daily(0)
    [new] = [p for p in notice["problems"] if p["kind"] == "future" and p["new"]]
    assert (code, new["what"]) == (0, "edge/*-*-*.jsonl"), "another host, while the first is wrong"
    assert "edge/2099-01-04.jsonl" in new["text"]
    (folder / "far").mkdir()
    for part in range(4):  # of two users each, and of k together
        users = range(930 + 2 * part, 932 + 2 * part)
        day_log(folder / "far", f"2099-01-0{part + 1}", users, a=lambda _: 0, b=lambda _: 0)
    code, [notice], _ = daily(0)
    [new] = [p for p in notice["problems"] if p["kind"] == "future" and p["new"]]
    assert (code, new["what"]) == (0, "far/*-*-*.jsonl")
    assert "2099" not in new["text"], "a log of fewer than k users is not named"
    good(folder, 1)
    assert problems(1) == (0, [])
    # A source falls silent: told when a whole day is missing, once.
    assert problems(2) == (0, [])
    hosts = [
        ("future", "*-*-*.jsonl"),
        ("future", "far/*-*-*.jsonl"),
        ("future", "edge/*-*-*.jsonl"),
    ]
    assert problems(3) == (0, [*hosts, ("no logs", "2026-01-03")])
    assert problems(4) == (0, [])
    # An API comes under another name.
    rename = {"a": lambda u: u % 3, "B": lambda u: u % 2}
    day_log(folder, 5, range(50_000, 51_000), **rename)
    code, found = problems(5)
    assert {kind: what for kind, what in found if kind != "future"} == {
        "vanished": "b",
        "appeared": "B",
        "no logs": "2026-01-03",
    }
    day_log(folder, 6, range(60_000, 61_000), **rename)
    assert problems(6)[1] == []


@pytest.mark.long
def test_a_watch_that_was_away_tells_of_days_without_logs_and_of_no_others(
    daily: Callable[[int], tuple[int, list[dict[str, Any]], str]], tmp_path: Path
) -> None:
    good(tmp_path / "in", 0)
    assert len(daily(0)[1]) == 1
    for day in (1, 2, 3):
        good(tmp_path / "in", day)
    assert daily(3)[:2] == (0, [])  # it was away for two days, which have logs
    for day in (4, 6):
        good(tmp_path / "in", day, users=10 if day == 4 else 1000)
    [notice] = daily(6)[1]  # one day has too few users, the next none
    assert [(one["kind"], one["what"]) for one in notice["problems"]] == [("no logs", "2026-01-05")]


@pytest.mark.long
def test_a_watch_that_was_away_judges_the_days_that_it_missed(
    daily: Callable[[int], tuple[int, list[dict[str, Any]], str]], tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    for day in (0, 1):
        good(folder, day)
    assert [body["since"] for body in daily(1)[1]] == ["2026-01-02T00:00:00"]  # the newest alone
    for day in range(2, 11):
        if day == 5:
            first = 10_000 * day
            day_log(folder, day, range(first, first + 1000), a=lambda u: u, b=lambda u: u % 2)
        elif day != 7:
            good(folder, day, users=10 if day == 3 else 1000)
    code, notices, said = daily(10)
    assert code == 0
    assert [(body["was"], body["state"], body["since"][:10]) for body in notices] == [
        ("holds", "holds", "2026-01-05"),
        ("holds", "violated", "2026-01-06"),
        ("violated", "holds", "2026-01-07"),
        ("holds", "holds", "2026-01-09"),
    ]
    without_logs = [[problem["what"] for problem in body["problems"]] for body in notices]
    assert without_logs == [["2026-01-04"], [], [], ["2026-01-08"]]
    assert "violated: a, b exposes more than 5 %" in said
    assert daily(10)[:2] == (0, [])


def test_an_api_that_has_another_name_at_the_first_look_is_told(
    daily: Callable[[int], tuple[int, list[dict[str, Any]], str]], tmp_path: Path
) -> None:
    day_log(tmp_path / "in", 0, range(1000), a=lambda u: u % 3, B=lambda u: u % 2)
    _, [notice], _ = daily(0)
    told = {problem["kind"]: problem["what"] for problem in notice["problems"]}
    assert told == {"vanished": "b", "appeared": "B"}


@pytest.mark.long
def test_a_day_on_which_all_apis_have_other_names_is_not_judged(
    daily: Callable[[int], tuple[int, list[dict[str, Any]], str]], tmp_path: Path
) -> None:
    renamed = {"A": lambda u: u % 3, "B": lambda u: u % 2, "C": lambda u: u % 2}
    why = {
        *(("vanished", api) for api in "ab"),
        *(("appeared", api) for api in "ABC"),
        ("cannot judge", "apis"),
    }

    def told(day: int) -> tuple[int, list[tuple[str, str, set[tuple[str, str]]]]]:
        code, notices, _ = daily(day)
        return code, [
            (body["state"], body["outcome"], {(p["kind"], p["what"]) for p in body["problems"]})
            for body in notices
        ]

    # No log holds an API of the list, at first; then some did, and those of a day do not.
    day_log(tmp_path / "in", 0, range(1000), **renamed)
    assert told(0) == (3, [("cannot tell", "cannot tell", why)])
    good(tmp_path / "in", 1)
    assert told(1) == (0, [("holds", "holds", set())])
    day_log(tmp_path / "in", 2, range(20_000, 21_000), **renamed, D=lambda u: u % 2)
    assert told(2) == (3, [("holds", "cannot tell", {*why, ("appeared", "D")})])
    day_log(tmp_path / "in", 3, range(30_000, 31_000), **renamed)
    assert told(3) == (3, [])
    with Monitor(tmp_path / "db") as monitor:
        passed = monitor.database._fetch("SELECT passed FROM checked_window ORDER BY since")
    assert passed == [(True,), (False,), (False,)]


def test_users_who_count_as_exposed_by_what_they_lack_are_a_violation_and_no_riddle(
    settings: WatchSettings, on_population: Path
) -> None:
    exposed = replace(read_decision(on_population), missing="exposed")
    settings = replace(settings, decision=exposed, by="day", new_users=True)
    told: list[dict[str, Any]] = []
    renamed: dict[str, Callable[[int], Any]] = {"A": lambda u: u % 3, "B": lambda u: u % 2}
    for day, users in ((0, 1000), (1, 1000), (2, 25)):
        first, names = 10_000 * day, renamed if day else {"a": renamed["A"], "b": renamed["B"]}
        day_log(settings.folder, day, range(first, first + users), **names)
        Watch(settings, deliver=[collect(told)]).step()
    kinds = [{problem["kind"] for problem in body["problems"]} for body in told]
    said = [(body["state"], body["outcome"], kind) for body, kind in zip(told, kinds, strict=True)]
    assert said == [
        ("holds", "holds", {"no logs"}),
        ("violated", "violated", {"vanished", "appeared", "no logs"}),
        ("violated", "cannot tell", {"vanished", "no logs"}),
    ]
    vanished = [p["text"] for p in told[1]["problems"] if p["kind"] == "vanished"]
    assert vanished == [
        f"fewer than 5 users have a value of {api}; the others count as exposed by it"
        for api in "ab"
    ]


@pytest.mark.long
def test_a_violation_that_comes_after_logs_without_an_api_of_the_list_is_told(
    daily: Callable[[int], tuple[int, list[dict[str, Any]], str]], tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    good(folder, 0)
    daily(0)
    path = day_log(folder, 1, range(20_000, 21_000), A=lambda u: u % 3)
    path = path.rename(path.with_name("renamed.jsonl"))
    assert daily(1)[0] == 3
    day_log(folder, 1, range(30_000, 33_000), a=lambda u: u, b=lambda u: u % 2)
    code, [notice], _ = daily(1)
    assert (code, notice["state"]) == (1, "violated")


@pytest.mark.long
def test_late_logs_that_would_be_a_violation_are_told(
    daily: Callable[[int], tuple[int, list[dict[str, Any]], str]], tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    good(folder, 0)
    good(folder, 1)
    assert daily(1)[0] == 0
    path = folder / "2026-01-02.jsonl"
    first = path.rename(folder / "first.jsonl")
    late = day_log(folder, 1, range(30_000, 33_000), a=lambda u: u, b=lambda u: u % 2)
    code, [notice], _ = daily(1)
    assert (code, notice["state"], notice["outcome"]) == (3, "holds", "cannot tell")
    assert notice["late"] == [["a", "b"]]
    [problem] = notice["problems"]
    assert (problem["kind"], problem["what"]) == ("late logs", "2026-01-02")
    assert "the day from 2026-01-02 on would be above the budget: a, b" in problem["text"]
    assert daily(1)[:2] == (3, [])
    for log_of in (first, late):
        log_of.unlink()
    good(folder, 2)
    assert daily(2)[:2] == (0, [])


def test_a_look_reads_the_users_of_a_window_once_and_writes_none_of_them(
    settings: WatchSettings, on_population: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, ...]] = []
    arrays, rows = Database.arrays, Database.rows

    def counted(database: Database, name: str, **values: Any) -> Any:
        if name == "snapshot/observations_of_api":
            asked.append(tuple(values.values()))
        return arrays(database, name, **values)

    def told(database: Database, name: str, **values: Any) -> Any:
        assert name != "snapshot/last_observation", "it reads all that was ever stored"
        return rows(database, name, **values)

    monkeypatch.setattr(Database, "arrays", counted)
    monkeypatch.setattr(Database, "rows", told)
    watch = Watch(replace(settings, decision=read_decision(on_population), by="day"), deliver=[])
    for date in ("1996-01-01", "1996-01-02"):
        day_log(settings.folder, date, range(1000), a=lambda u: u % 3, b=lambda u: u % 2)
        asked.clear()
        watch.step()
        assert len(asked) == len({*asked}) >= 2
    with settings.open_database() as database:
        assert not [table for table in database.tables() if table.startswith("snapshot_")]


def test_a_look_in_a_new_process_takes_the_designs_of_earlier_ones_and_says_the_same(
    settings: WatchSettings, on_population: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are kept in the database; damaged ones are searched for again."""
    settings = replace(settings, decision=read_decision(on_population), by="day")
    search, searches = averaging.sharpest_weights, []
    monkeypatch.setattr(
        averaging, "sharpest_weights", lambda *a, **k: searches.append(1) or search(*a, **k)
    )
    for module, name in ((limits, "_menus"), (evalues, "_design")):  # without what tests keep
        monkeypatch.setattr(module, name, getattr(module, name).__wrapped__.__wrapped__)

    def look() -> tuple[int, str]:
        limits.exposure_limits.cache_clear()
        monkeypatch.setattr(kept_weights, "_KNOWN", OrderedDict())
        searches.clear()
        Watch(settings, deliver=[]).step()
        with settings.open_database() as database:
            [(standing,)] = database._fetch("SELECT standing FROM watched_decision")
        return len(searches), standing

    def store(date: str, first: int) -> None:
        users = range(first, first + 1000)
        day_log(settings.folder, date, users, a=lambda u: u % 3, b=lambda u: u % 2)

    store("1996-01-01", 0)
    assert look()[0] > 0
    store("1996-01-02", 1000)
    look()  # the first look at the users of a database has designs of its own
    backup = shutil.copy(settings.database, settings.database.with_name("backup"))
    store("1996-01-03", 2000)
    made, standing = look()
    assert made == 0
    for change in (
        "DELETE FROM meta WHERE name = 'designs'",
        "UPDATE meta SET value = replace(value, '1', '2') WHERE name = 'designs'",
        "UPDATE meta SET value = '[' WHERE name = 'designs'",
    ):
        shutil.copy(backup, settings.database)
        with settings.open_database() as database:
            database._execute(change)
        made, anew = look()
        assert (made > 0, anew) == (True, standing)


@pytest.mark.long
def test_what_a_look_costs_does_not_follow_from_the_age_of_the_logs(
    settings: WatchSettings, on_population: Path
) -> None:
    settings = replace(settings, decision=read_decision(on_population), by="day")
    watch = Watch(settings, deliver=[])
    spent = []
    for date in ("1996-01-01", "1996-01-02"):
        day_log(settings.folder, date, range(1000), a=lambda u: u % 3, b=lambda u: u % 2)
        began = time.process_time()
        watch.step()
        spent.append(time.process_time() - began)
    assert spent[1] < spent[0] + 3  # a look at each of 11,000 days without logs took 50 s


def test_an_api_that_users_lacked_when_it_was_decided_has_not_vanished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {"a": lambda u: u % 3, "b": lambda u: u % 2}
    few = day_log(tmp_path, "2026-01-02", range(3), c=lambda u: u, **values)
    many = day_log(tmp_path, 0, range(3, 2000), **values)
    decided = tmp_path / "decision.json"
    with Monitor(tmp_path / "then", create=True) as monitor:
        monitor.ingest([str(few), str(many)])
        decision = monitor.decide(k=5, population=2000, budget=0.05, assume=["c"])
    assert decision.allow == (("a", "b", "c"),)
    decided.write_text(json.dumps(decision.to_json()), encoding="utf-8")
    folder = tmp_path / "in"
    folder.mkdir()
    good(folder, 3)
    asked = ["watch", str(folder), "--decision", str(decided), "--by", "day", "--once"]
    assert run([*asked, "--settle", "0", "--new-users", "--db", str(tmp_path / "now")]) == 0
    [notice] = detailed(capsys.readouterr().out)
    assert notice["lacking"] == ["c"]
    assert "vanished" not in {problem["kind"] for problem in notice["problems"]}
    assert notice["renewal"]["vanished"] == []


@pytest.mark.long
def test_a_watch_that_cannot_judge_says_so(
    daily: Callable[[int], tuple[int, list[dict[str, Any]], str]], tmp_path: Path
) -> None:
    day_log(tmp_path / "in", 3, range(1000), a=lambda u: u % 3, b=lambda u: u % 2)
    code, [notice], said = daily(0)  # all visits are of the future
    assert code == 3
    assert {problem["kind"] for problem in notice["problems"]} == {"cannot judge", "future"}
    assert (notice["outcome"], notice["sets"]) == ("cannot tell", [])
    assert "cannot be checked: no day that is over has enough users" in said
    assert daily(0)[:2] == (3, [])
    code, [notice], _ = daily(3)
    assert (code, notice["was"], notice["state"]) == (0, "cannot tell", "holds")


def test_a_violation_is_not_hidden_by_a_failed_delivery_or_a_broken_file(
    settings: WatchSettings, decision: Path
) -> None:
    log(settings.folder, "1.jsonl", range(1000, 1040), "telling")
    (settings.folder / "2.jsonl").write_text("[1, 2]\n", encoding="utf-8")
    arguments = ["watch", str(settings.folder), "--decision", str(decision), "--once"]
    arguments += ["--settle", "0", "--db", str(settings.database), "--command", "/no/such/program"]
    assert run(arguments) == 1


YEAR = Path(__file__).with_name("year.json")


@pytest.mark.long
def test_a_year_in_small_is_told_as_recorded(
    daily: Callable[[int], tuple[int, list[dict[str, Any]], str]], tmp_path: Path
) -> None:
    """Each event is told on the day on which it can be known, with its cause, and nothing twice.

    FPMONITOR_RECORD=1 writes the messages into `year.json` instead.
    """
    folder, told = tmp_path / "in", {}
    broken = folder / "broken.jsonl"
    for day in range(10):
        values: dict[str, Callable[[int], Any]] = {"a": lambda u: u % 3, "b": lambda u: u % 2}
        if day == 1:
            broken.write_text("[1, 2]\n", encoding="utf-8")
        if day == 2:
            broken.unlink()
        if day >= 4:
            values["new"] = lambda user: user % 2
        if day == 5:  # a wave of bots, each with a value of its own, and a new release
            day_log(folder, 4, range(40_000, 41_000), **values, **agent(139))  # corrected
            values["a"] = lambda user: user if user % 2 else user % 3
        if day == 6:
            day_log(folder, "2099-01-01", range(900, 910), **values)
        if day == 7:  # the log of another day comes again
            text = (folder / "2026-01-07.jsonl").read_text(encoding="utf-8")
            (folder / "again.jsonl").write_text(text, encoding="utf-8")
        if day in {7, 8}:  # users move for good
            values["a"] = lambda user: max(user % 5 - 2, 0)
        if day == 9:
            del values["b"]
        if day != 2:
            first = 10_000 * day
            more = agent(141 if day >= 5 else 140)
            day_log(folder, day, range(first, first + 1000), **values, **more)
        told[str(day)] = [recorded(notice, str(tmp_path)) for notice in daily(day)[1]]
    if "FPMONITOR_RECORD" in os.environ:
        YEAR.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert told == json.loads(YEAR.read_text(encoding="utf-8"))


def recorded(told: Any, folder: str) -> Any:
    """What is told, but for the clock and the key of the decision, digits, and the folder."""
    if isinstance(told, dict):
        untold = {"decision", "list", "made", "age_days", "guarantee", "policy"}
        return {name: recorded(one, folder) for name, one in told.items() if name not in untold}
    if isinstance(told, list):
        return [recorded(one, folder) for one in told]
    if isinstance(told, str):
        return told.replace(folder, ".")
    return round(told, 1) if isinstance(told, float) else told


def test_an_alarm_stands_where_a_window_adds_nothing(on_population: Path) -> None:
    decision = read_decision(on_population)
    raised = RunAlarm(raised=True, log_evidence=9.0)
    report = CheckReport(
        decision=decision,
        verdicts=dict.fromkeys(decision.allow, "allow"),
        limits=dict.fromkeys(decision.allow, (0.0, 0.01)),
        coverage=dict.fromkeys(decision.policy.candidates, 1.0),
        users=1000,
        since=None,
        until=None,
        place=None,
        alarm=raised,
    )
    before = judged(None, report, now="")
    assert before.alarm
    after = judged(before, replace(report, alarm=None), now="")
    assert after.alarm
    assert not is_news(before, after)
    over = replace(report, alarm=replace(raised, raised=False))
    assert is_news(before, judged(before, over, now=""))


def test_users_of_other_names_are_too_few_where_a_decision_drops_them(
    settings: WatchSettings, on_population: Path
) -> None:
    told: list[dict[str, Any]] = []
    decision = replace(read_decision(on_population), missing="drop")
    settings = replace(settings, decision=decision, by="day")
    good(settings.folder, 0)
    for day in (1, 2):
        day_log(settings.folder, day, range(1000), A=lambda u: u % 3, B=lambda u: u % 2)
    Watch(settings, deliver=[collect(told)]).step()
    [notice] = told
    problems = [(one["kind"], one["what"]) for one in notice["problems"]]
    assert (notice["outcome"], problems) == ("holds", [("no logs", "2026-01-02")])


def test_a_broken_log_passes_nothing_and_what_was_said_is_taken_back(
    daily: Callable[[int], tuple[int, list[dict[str, Any]], str]], tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    good(folder, 0)
    assert daily(0)[0] == 0
    day_log(folder, 1, range(10_000, 11_000), a=lambda _: 0, b=lambda u: u % 2)
    code, [notice], _ = daily(1)
    assert (code, notice["state"], notice["outcome"]) == (3, "holds", "cannot tell")
    [problem] = [one for one in notice["problems"] if one["kind"] == "fault"]
    assert problem["what"] == "a"
    assert "a has the same value for all" in problem["text"]
    day_log(folder, 2, range(20_000, 21_000), a=lambda _: 0, b=lambda u: u % 2)
    assert daily(2)[1] == [], "no news of users, though two days in a row show it"
    (folder / "2026-01-03.jsonl").unlink()
    good(folder, 2)
    day_log(tmp_path, 1, range(10_000, 11_000), a=lambda u: u % 3, b=lambda u: u % 2).rename(
        folder / "mended.jsonl"
    )
    code, [notice], _ = daily(2)
    assert (code, notice["mended"], notice["corrected"]) == (
        0,
        ["2026-01-02T00:00:00", "2026-01-03T00:00:00"],
        ["2026-01-02.jsonl", "2026-01-03.jsonl"],
    )
    assert [one["kind"] for one in notice["problems"]] == []
    assert daily(2)[:2] == (0, [])


def test_mended_logs_are_told_to_each_who_watches_whoever_stores_them(
    on_population: Path, looked: Callable[..., Told], tmp_path: Path
) -> None:
    """The watch that read them told it alone, and none did of logs that `ingest` had stored."""
    folder, theirs = tmp_path / "in", tmp_path / "theirs.json"
    other = replace(read_decision(on_population), users=1999)
    theirs.write_text(json.dumps(other.to_json()), encoding="utf-8")
    mended: dict[Path, list[list[str]]] = {on_population: [], theirs: []}
    for day in range(4):
        good(folder, day)
        if day == 1:
            day_log(folder, day, range(10_000, 11_000), a=lambda _: 0, b=lambda _: 0)
        if day >= 2:  # the first correction mends the half of it
            values = (lambda _: 0) if day == 2 else (lambda u: u % 3)
            log_of = day_log(tmp_path, 1, range(10_000, 11_000), a=values, b=lambda u: u % 2)
            assert run(["ingest", str(log_of), "--quiet", "--db", str(tmp_path / "db")]) == 0
        for path, told in mended.items():
            told += [notice["mended"] for notice in looked(path, day)[1]]
    assert mended[on_population] == mended[theirs] == [[], [], ["2026-01-02T00:00:00"]]


@pytest.mark.long
@pytest.mark.parametrize("by", ["week", "month"])
def test_a_broken_log_is_told_at_the_end_of_its_day_however_long_windows_are(
    by: str, daily: Callable[..., tuple[int, list[dict[str, Any]], str]], tmp_path: Path
) -> None:
    """Also that it was mended, and that it was before its window was over."""
    folder = tmp_path / "in"
    for day in (-40, -7, -6, 0):
        good(folder, day)
    assert "fault" not in {one["kind"] for one in daily(0, by)[1][0]["problems"]}
    day_log(folder, 1, range(10_000, 11_000), a=lambda _: 0, b=lambda u: u % 2)
    _, [notice], _ = daily(1, by)
    [problem] = [one for one in notice["problems"] if one["kind"] == "fault"]
    assert problem["what"] == "a"
    assert "the logs of 2026-01-02 look broken: a has the same value for all" in problem["text"]
    good(folder, 2)
    assert daily(2, by)[1] == []
    good(tmp_path, 1)
    (tmp_path / "2026-01-02.jsonl").rename(folder / "mended.jsonl")
    _, [notice], _ = daily(3, by)
    assert notice["mended"] == ["2026-01-02T00:00:00"]
    assert daily(3, by)[1] == []
    assert "fault" not in {one["kind"] for told in daily(5, by)[1] for one in told["problems"]}


def test_the_source_of_a_broken_day_of_a_week_is_named_until_the_next_day_is_judged(
    daily: Callable[..., Told], tmp_path: Path
) -> None:
    folder, gauges = tmp_path / "in", []
    source = {"source": lambda user: ("main", "shop")[user % 2]}
    for day in (-7, -6, 0):
        good(folder, day, **source)
    daily(0, "week")
    broken = {"a": lambda user: "x-1" if user % 2 else user % 3, "b": lambda user: user % 2}
    day_log(folder, 1, range(10_000, 11_000), **broken, **source)
    _, [notice], _ = daily(1, "week")
    [problem] = [one for one in notice["problems"] if one["kind"] == "fault"]
    assert ", from shop, not from main;" in problem["text"]
    for today, stored in ((1, -5), (2, 2)):
        good(folder, stored, **source)
        daily(today, "week")
        written = (tmp_path / "watch.prom").read_text(encoding="utf-8")
        gauges.append('source="shop"} 1.0' in written)
    assert gauges == [True, False]


@pytest.mark.parametrize("by", ["week", "month"])
def test_days_without_logs_are_told_once_however_long_windows_are(
    by: str, daily: Callable[..., tuple[int, list[dict[str, Any]], str]], tmp_path: Path
) -> None:
    """But not a Sunday on which nobody ever comes; a few users are as good as nobody."""
    told = {}
    for day in range(20):
        if day % 7 != 3 and day != 13:
            good(tmp_path / "in", day, users=3 if day == 12 else 200)
        if day not in {9, 12, 13, 14, 19}:  # the first look is at more than a week of logs
            continue
        notices = daily(day, by)[1]
        found = [one for notice in notices for one in notice["problems"] if one["new"]]
        named = [one["what"] for one in found if one["kind"] == "no logs"]
        told |= {day: named} if named else {}
    assert told == {13: ["2026-01-13"]}


def test_a_fault_that_lasts_is_told_once_and_never_as_mended(on_population: Path) -> None:
    decision, known, news = read_decision(on_population), None, 0
    for day in range(40):
        begin = datetime(2026, 1, 1) + timedelta(days=day)  # noqa: DTZ001 -- UTC, as stored
        report = CheckReport(
            decision=decision,
            verdicts=dict.fromkeys(decision.allow, "undecided"),
            limits=dict.fromkeys(decision.allow, (0.0, 0.5)),
            coverage=dict.fromkeys(decision.policy.candidates, 1.0),
            users=1000,
            since=begin,
            until=begin + timedelta(days=1),
            place=None,
            faults={"a": "far fewer values"},
        )
        after = judged(known, report, now="")
        assert known is None or {*known.faulty} <= {*after.faulty}
        news += is_news(known, after)
        known = after
    assert news == 1


def test_a_violation_ends_though_no_window_is_certain_to_hold(on_population: Path) -> None:
    decision = read_decision(on_population)
    [apis] = decision.allow
    known, states = None, []
    for day, verdict in enumerate(["allow", "block", "undecided", "undecided", "block", "allow"]):
        begin = datetime(2026, 1, 1) + timedelta(days=day)  # noqa: DTZ001 -- UTC, as stored
        report = CheckReport(
            decision=decision,
            verdicts={apis: verdict},
            limits={apis: (0.0, 0.5)},
            coverage=dict.fromkeys(decision.policy.candidates, 1.0),
            users=1000,
            since=begin,
            until=begin + timedelta(days=1),
            place=None,
        )
        after = judged(known, report, now="")
        states.append((after.state, after.sets[0].since[:10], is_news(known, after)))
        known = judged(after, report, now="")  # another look at the same window counts once
        assert known == after
    assert states == [
        ("holds", "2026-01-01", True),
        ("violated", "2026-01-02", True),
        ("violated", "2026-01-02", False),
        ("cannot tell", "2026-01-04", True),
        ("violated", "2026-01-05", True),
        ("holds", "2026-01-06", True),
    ]


def test_a_source_that_vanishes_comes_or_sends_less_is_named(
    daily: Callable[[int], tuple[int, list[dict[str, Any]], str]], tmp_path: Path
) -> None:
    folder, told = tmp_path / "in", {}
    sources = {0: {"main": 1000, "shop": 400}, 7: {"main": 1000, "shop": 150, "shop2": 300}}
    sources |= {14: {"main": 1000, "shop2": 300}, 21: {"main": 1000, "shop": 400, "few": 3}}
    for day, sizes in sources.items():
        rows = [
            {"user": f"{day}{name}{u}", "source": name, "a": u % 3, "b": u % 2}
            | {"time": (START + timedelta(days=day, hours=9)).isoformat()}
            for name, users in sizes.items()
            for u in range(users)
        ]
        path = folder / f"{day}.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
        _, notices, _ = daily(day)
        problems = [one for body in notices for one in body["problems"]]
        told[day] = {one["what"]: one["text"] for one in problems if one["kind"] == "source"}
    assert told[0] == told[21] == {}
    assert "shop sends" in told[7]["shop"]
    assert "% fewer users than on 2026-01-01" in told[7]["shop"]
    assert "shop2 is new since" in told[7]["shop2"]
    assert "has sent fewer than 5 users" in told[14]["shop"]


def titles(told: Told) -> list[str]:
    return [message(body, details=None)["title"] for body in told[1]]


def test_each_new_value_is_told_once_by_its_name_and_its_end(
    decision: Path, tmp_path: Path, looked: Callable[..., Told]
) -> None:
    """Where a notice of the API stood, nobody heard of others; one week alone may be of bots."""
    path, told = tmp_path / "decision.json", {}
    made = on_agents(read_decision(decision), "b", week=0)
    path.write_text(json.dumps(made.to_json()), encoding="utf-8")
    few, weeks = {20_000, 20_001, 20_002}, {"Japan": range(1, 9), "Peru": range(3, 6)}
    weeks["Crawler"] = range(4, 5)
    for week in range(9):
        come = np.flatnonzero(np.random.default_rng(week).random(6_000) < 0.4).tolist()
        users = dict.fromkeys(come, "Spain") | dict.fromkeys(few, "Tonga")
        for place, (country, at) in enumerate(weeks.items()):
            first = 30_000 + 10_000 * place + 1_000 * week
            users |= dict.fromkeys(range(first, first + 200 * (week in at)), country)
        day_log(tmp_path / "in", 7 * week, users, a=lambda _: "x", b=users.__getitem__)
        found = titles(looked(path, 7 * week + 4, "week"))
        told |= {week: found} if week and found else {}
    peru = "b Peru is new: many users have it, fewer than 5 had on 2025-12-29"
    assert told.keys() == {2, 4, 7}
    assert told[2][0].startswith("users who come now are others than on 2025-12-29, by b (about ")
    assert told[2][0].endswith(" %: now Japan)")
    assert told | {2: []} == {2: [], 4: [peru], 7: [f"Over: {peru}"]}


def test_a_week_that_is_looked_at_each_day_is_one_window(
    decision: Path, tmp_path: Path, looked: Callable[..., Told]
) -> None:
    """Each look counted as a window: a value that stays was over and new again, week by week."""
    path, told = tmp_path / "decision.json", {}
    made = on_agents(read_decision(decision), "b", week=0)
    path.write_text(json.dumps(made.to_json()), encoding="utf-8")
    for day in (7 * week + at for week in range(5) for at in range(3)):
        came, lacks_shop = day >= 7, day // 7 in {1, 3}
        source = (lambda _: "main") if lacks_shop else (lambda user: ("main", "shop")[user % 2])
        country = (lambda user: ("Spain", "Japan")[user % 2]) if came else (lambda _: "Spain")
        users = range(10_000 * day, 10_000 * day + 400)
        day_log(tmp_path / "in", day, users, a=lambda _: "x", b=country, source=source)
        found = titles(looked(path, day, "week")) if day >= 7 else []
        told |= {day: found} if day >= 14 and found else {}
    moved = "users who come now are others than on 2025-12-29, by b (about 50 %: now Japan)"
    gone = "the source shop has sent fewer than 5 users, and many on 2025-12-29"
    assert told == {14: [gone], 21: [moved]}


def test_each_source_that_breaks_an_api_is_told_once_by_its_name_and_its_end(
    daily: Callable[[int], Told], tmp_path: Path
) -> None:
    """Nobody heard of the second, nor that a fault had ended but for mended logs."""
    told, broken = {}, {1: {"shop"}, 2: {"shop", "edge"}, 3: {"shop"}, 4: {"shop", "edge"}}
    broken |= {5: {"shop"}, 6: {"shop"}}
    for day in range(9):
        bad = {
            at for at, name in enumerate(("main", "shop", "edge")) if name in broken.get(day, ())
        }
        good_or_bad = {
            "source": lambda user: ("main", "shop", "edge")[user % 3],
            "a": lambda user, bad=bad: "x-1" if user % 3 in bad else user % 4,
            "b": lambda user: user % 2,
        }
        first = 10_000 * day
        day_log(tmp_path / "in", day, range(first, first + 1500), **good_or_bad)
        bodies = daily(day)
        found = [message(body, details=None) for body in bodies[1]]
        told |= {day: [(one["title"], one["ended"]) for one in found]} if found and day else {}
        if day == 2:
            texts = [one["text"] for body in bodies[1] for one in body["problems"] if one["new"]]
    [text] = texts
    assert text.startswith(
        "the logs of 2026-01-03 look broken: a from edge has values of a form that nobody had; "
    )
    look = "The logs look broken: a"
    assert told == {
        1: [(look, False)],
        2: [(f"{look} from edge", False)],
        6: [(f"Over: {look} from edge", False)],
        8: [(f"Over: {look}", True)],
    }


def test_a_broken_first_day_is_named_once_three_days_agree_and_breaks_no_later_one(
    daily: Callable[[int], Told], tmp_path: Path
) -> None:
    """Each later day looked broken beside it, and passed no set until it was decided again."""
    told, codes = {}, []
    values: dict[str, Callable[[int], Any]] = {"a": lambda u: u % 3, "b": lambda u: u % 2}
    for day in range(10):
        form = {0: "x-{}", 6: "[{}]"}.get(day, "{}")
        if day == 8:
            mended = day_log(tmp_path, 0, range(1000), **values)
            mended.rename(tmp_path / "in" / "mended.jsonl")
        values["a"] = lambda user, form=form: form.format(user % 3)
        day_log(tmp_path / "in", day, range(10_000 * day, 10_000 * day + 1000), **values)
        code, bodies, _ = daily(day)
        codes.append(code)
        found = [message(body, details=None) for body in bodies]
        told |= {day: [(one["title"], one["ended"]) for one in found]} if found and day else {}
    look = "The logs look broken: a"
    assert told == {
        1: [(look, False)],
        3: [(f"{look} on 2026-01-01", False)],
        4: [(f"Over: {look}", False)],
        6: [(look, False)],
        8: [("Mended logs were stored of 2026-01-01: what was said of them is taken back", True)],
    }
    assert codes == [0, 3, 3, 0, 0, 0, 3, 0, 0, 0]


def test_a_key_is_open_while_one_window_alone_does_not_show_another_fault(
    daily: Callable[[int], Told], tmp_path: Path
) -> None:
    """Its return is no news, so that nobody would have heard of it again."""
    told, broken = {}, {1: "ab", 2: "b", 4: "b", 5: "b"}
    for day in range(8):
        bad = {api: lambda user: f"x-{user % 2}" for api in broken.get(day, "")}
        values: dict[str, Callable[[int], Any]] = {"a": lambda u: u % 3, "b": lambda u: u % 2}
        day_log(tmp_path / "in", day, range(10_000 * day, 10_000 * day + 500), **(values | bad))
        found = [message(body, details=None) for body in daily(day)[1]]
        told |= {day: [(one["title"], one["ended"]) for one in found]} if found and day else {}
    assert told == {
        1: [("The logs look broken: a", False)],
        3: [("Over: The logs look broken: a", False)],
        7: [("Over: The logs look broken: b", True)],
    }


def test_a_source_that_sends_less_and_then_nothing_is_told_twice_and_its_return(
    daily: Callable[[int], Told], tmp_path: Path
) -> None:
    told, shop = {}, {7: 150, 8: 0}
    for day in range(12):
        sizes = {"main": 1000, "shop": shop.get(day, 400)}
        rows = [
            {"user": f"{day}{name}{u}", "source": name, "a": u % 3, "b": u % 2}
            | {"time": (START + timedelta(days=day, hours=9)).isoformat()}
            for name, users in sizes.items()
            for u in range(users)
        ]
        text = "\n".join(map(json.dumps, rows)) + "\n"
        (tmp_path / "in" / f"{day}.jsonl").write_text(text, encoding="utf-8")
        if day >= 6:
            found = titles(daily(day))
            told |= {day: found} if found and day > 6 else {}
    fewer = "the source shop sends 54 % fewer users than on 2026-01-01"
    assert told == {
        7: [fewer],
        8: ["the source shop has sent fewer than 5 users, and many on 2026-01-02"],
        10: ["Over: the source shop has sent fewer than 5 users, and many on 2026-01-02"],
    }


def test_an_api_that_is_gone_and_comes_back_is_told_once_with_its_end(
    daily: Callable[[int], Told], tmp_path: Path
) -> None:
    told = {}
    for day in range(7):
        values: dict[str, Callable[[int], Any]] = {"a": lambda u: u % 3, "b": lambda u: u % 2}
        if day in {1, 3}:
            del values["b"]
        day_log(tmp_path / "in", day, range(10_000 * day, 10_000 * day + 1000), **values)
        found = [message(body, details=None) for body in daily(day)[1]]
        told |= {day: [(one["title"], one["ended"]) for one in found]} if found and day else {}
    gone = "An API of the list is gone from the logs: b"
    assert told == {1: [(gone, False)], 5: [(f"Over: {gone}", True)]}


@pytest.mark.long
def test_where_days_cannot_tell_the_length_that_can_is_named(
    daily: Callable[[int], tuple[int, list[dict[str, Any]], str]],
    on_population: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for day in range(-3, 4):  # a week from Monday on
        date = f"{START + timedelta(days=day):%Y-%m-%d}"
        users = range(1000 * (day + 5), 1000 * (day + 5) + 200)
        day_log(tmp_path / "in", date, users, a=lambda u: u % 3, b=lambda u: u % 2)
    code, _, said = daily(4)
    assert code == 3
    wanted = "days of 200 users cannot confirm the set, weeks of 1,400 can: use `--by week`"
    assert wanted in said
    assert wanted not in daily(5)[2]
    asked = ["check", str(on_population), "--db", str(tmp_path / "db"), "--new-users", "--by"]
    assert run([*asked, "week"]) == 0
    assert "confirm" not in capsys.readouterr().err
