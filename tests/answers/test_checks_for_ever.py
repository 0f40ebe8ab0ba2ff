"""Checks without end: what is recorded of the windows, through the command and the database."""

from __future__ import annotations

import itertools
import json
import random
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.answers.window_check import _all_or_nothing
from fpmonitor.cli import run
from fpmonitor.decide.files import read_decision
from fpmonitor.monitor import Monitor
from fpmonitor.store.upkeep import forget_before
from fpmonitor.watch import Watch, WatchSettings

if TYPE_CHECKING:
    from fpmonitor.answers.check import CheckReport

START = date(2026, 3, 2)  # a Monday


def day_log(
    folder: Path, day: int | date, users: int, *, rare: float, prefix: str = "", first: int = 0
) -> str:
    """Users of a day; a share of them has values of their own."""
    when = START + timedelta(days=day) if isinstance(day, int) else day
    name = f"{when}-{prefix}{first}"
    rng = random.Random(name)
    path = folder / f"{name}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for i in range(first, first + users):
            user = f"{prefix or when}-{i}"
            value = user if rng.random() < rare else rng.choice("ab")
            record = {"user": user, "time": f"{when}T12:00:00Z", "a": value, "b": i % 2}
            file.write(json.dumps(record) + "\n")
    return str(path)


def store(path: Path, *logs: str) -> None:
    with Monitor(path, create=True) as monitor:
        monitor.ingest(list(logs))


@pytest.fixture(scope="module")
def decision(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The set {a, b} is allowed: 1 % of the users have values of their own, 5 % may."""
    folder = tmp_path_factory.mktemp("decision")
    store(folder / "db", day_log(folder, 0, 6000, rare=0.01, prefix="elsewhere"))
    with Monitor(folder / "db") as monitor:
        decided = monitor.decide(k=10, population=6000, budget=0.05)
    assert decided.allow == (("a", "b"),)
    path = folder / "decision.json"
    path.write_text(json.dumps(decided.to_json()), encoding="utf-8")
    return path


def test_a_decision_says_which_windows_can_confirm_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = tmp_path / "db"
    store(db, *(day_log(tmp_path, day, 400, rare=0.01) for day in range(14)))
    asked = ["decide", "--budget", "5%", "--db", str(db), "-o", str(tmp_path / "made.json")]
    assert run(asked) == 0
    said = "days of 400 users cannot confirm the set, weeks of 2,800 can: use `--by week`"
    assert said in capsys.readouterr().err
    for more in (["--quiet"], ["--setting", "sample"], ["--realised"]):
        assert run([*asked, *more]) == 0
        assert "confirm" not in capsys.readouterr().err


def by_day(path: Path, decision: Path) -> CheckReport:
    with Monitor(path) as monitor:
        return monitor.check(read_decision(decision), by="day")


def command(path: Path, decision: Path, *options: str) -> int:
    return run(["check", str(decision), "--db", str(path), *options])


def test_users_that_did_not_make_the_list_pass_it_without_a_price(
    decision: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = tmp_path / "db"
    store(db, day_log(tmp_path, 0, 500, rare=0.01, prefix="old"))
    by_day(db, decision)
    # As many users and as few rare ones, on whom the list may, and cannot, have been decided.
    new = day_log(tmp_path, 1, 600, rare=0.015, prefix="new")
    store(db, new)
    assert command(db, decision, "--by", "day") == 0
    said = capsys.readouterr().err
    assert "decided on none of these users" in said
    assert "Of all passes of this list by day, on average at most 5 % are wrong" in said
    store(tmp_path / "other", new)
    assert command(tmp_path / "other", decision, "--by", "day") == 3
    assert "may have been decided on some of these users" in capsys.readouterr().err
    store(tmp_path / "third", new)
    assert command(tmp_path / "third", decision, "--by", "day", "--new-users") == 0
    store(db, day_log(tmp_path, 2, 600, rare=0.015, prefix="new"))
    report = by_day(db, decision)
    assert report.new_users, "who came after the list is new, although not for the first time"
    assert report.alarm is None, "but adds nothing to the runs"


def forget(path: Path, *options: str) -> None:
    assert run(["db", "forget", "--quiet", "--db", str(path), *options]) == 0


@pytest.mark.long
@pytest.mark.parametrize("when", ["before the first check", "after it", "after it, by batch"])
def test_users_who_were_forgotten_and_come_again_are_not_new(
    decision: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], when: str
) -> None:
    db = tmp_path / "db"
    old = day_log(tmp_path, 0, 500, rare=0.01, prefix="old")
    store(db, old)
    if when != "before the first check":
        by_day(db, decision)
    forget(db, *(["--batch", old] if "batch" in when else ["--before", "2026-03-04"]))
    store(db, day_log(tmp_path, 3, 600, rare=0.015, prefix="old"))
    report = by_day(db, decision)
    assert (report.new_users, report.outcome, report.doubted) == (False, "cannot tell", True)
    assert report.alarm is not None
    assert not report.alarm.raised
    assert command(db, decision, "--by", "day") == 3
    said = capsys.readouterr().err
    assert "may have been decided on some of these users" in said
    assert "users were forgotten on whom the list may have been decided" in said
    # That lasts in copies, alone and with others.
    assert run(["db", "copy-out", str(tmp_path / "out"), "--db", str(db)]) == 0
    for path in (tmp_path / "copy", db):
        assert run(["db", "copy-in", str(tmp_path / "out"), "--db", str(path)]) == 0
        store(path, day_log(tmp_path, 5, 600, rare=0.0, prefix="five"))
        assert not by_day(path, decision).new_users


@pytest.mark.long
def test_users_stay_new_where_nobody_of_the_list_was_forgotten(
    decision: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = tmp_path / "db"
    logs = [day_log(tmp_path, day, 600, rare=0.01, prefix=f"p{day}") for day in range(6)]
    store(db, logs[0])
    by_day(db, decision)
    store(db, logs[1])
    forget(db, "--batch", logs[1])  # who came after the list was made
    store(db, logs[2])
    assert by_day(db, decision).new_users
    monkeypatch.setenv("FPMONITOR_FORGET_USER", "p0-3")
    forget(db, "--user")  # who is kept out
    store(db, logs[3])
    assert by_day(db, decision).new_users
    forget(db, "--user", "--undo")
    store(db, logs[4])
    assert not by_day(db, decision).new_users
    with Monitor(db) as monitor:
        declared = monitor.check(read_decision(decision), by="day", new_users=True)
    assert declared.new_users


def test_a_list_that_was_made_after_users_were_forgotten_knows_all_of_its_own(
    decision: Path, tmp_path: Path
) -> None:
    db, later = tmp_path / "db", tmp_path / "later.json"
    store(db, day_log(tmp_path, 0, 500, rare=0.01, prefix="old"))
    forget(db, "--before", "2026-03-04")
    document = json.loads(decision.read_text(encoding="utf-8"))
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    later.write_text(json.dumps(document | {"made": f"{tomorrow}"}), encoding="utf-8")
    store(db, day_log(tmp_path, 1, 500, rare=0.01, prefix="one"))
    by_day(db, later)
    store(db, day_log(tmp_path, 2, 500, rare=0.01, prefix="two"))
    assert by_day(db, later).new_users


def test_a_second_look_at_a_window_buys_no_second_chance(
    decision: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = tmp_path / "db"
    store(db, day_log(tmp_path, 0, 200, rare=0.01))
    assert command(db, decision, "--by", "day", "--format", "github") == 3
    assert "5 %25); more users would decide it, in a later day" in capsys.readouterr().out
    store(db, day_log(tmp_path, 0, 5000, rare=0.0, first=1000))
    assert command(db, decision, "--by", "day", "--format", "github") == 3
    said = capsys.readouterr().out  # its limits alone would let it pass
    assert (
        "budget 5 %25); windows are tested more strictly, by their first look; more users" in said
    )
    first = by_day(db, decision)
    assert first.place is not None
    assert (first.outcome, first.place["check"]) == ("cannot tell", 0)
    store(db, day_log(tmp_path, 1, 5000, rare=0.0))
    assert command(db, decision, "--by", "day") == 0
    # What arrives later can take the pass away.
    store(db, day_log(tmp_path, 1, 3000, rare=0.9, first=9000))
    assert command(db, decision, "--by", "day") != 0


def test_the_same_data_give_the_same_answer_and_number(decision: Path, tmp_path: Path) -> None:
    db = tmp_path / "db"
    store(db, day_log(tmp_path, 0, 3000, rare=0.01))
    assert by_day(db, decision) == by_day(db, decision)
    with Monitor(db) as monitor:
        assert len(monitor.database._fetch("FROM checked_window")) == 1


def test_a_window_has_its_share_of_delta_by_the_calendar(decision: Path, tmp_path: Path) -> None:
    """Which window is asked about first, after a look at all of them, gains nothing."""
    db = tmp_path / "db"
    store(db, *(day_log(tmp_path, day, 400, rare=0.01) for day in range(0, 20, 4)))
    decided = read_decision(decision)
    places = {}
    for until in (8, 16, 40, 4, 12):
        assert command(
            db, decision, "--by", "day", "--until", f"{START + timedelta(days=until + 1):%F}"
        ) in {0, 3}
    with Monitor(db) as monitor:
        rows = monitor.database._fetch("SELECT since, number, terms FROM checked_window")
        places = {since.date(): number for since, number, _ in rows}
        needs = {number: json.loads(terms)[1] for _, number, terms in rows}
        assert decided.policy.delta == 0.05
    assert places == {START + timedelta(days=day): day - 16 for day in (4, 8, 12, 16)}
    assert needs[0] < needs[-4] < needs[-8] < needs[-12]


def test_windows_to_come_and_those_not_over_do_not_blind_the_check(
    decision: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db, today = tmp_path / "db", datetime.now(UTC).date()
    store(
        db,
        day_log(tmp_path, 0, 3000, rare=0.0),
        day_log(tmp_path, 1, 9, rare=0.0),
        day_log(tmp_path, today, 50, rare=0.0),
        day_log(tmp_path, today + timedelta(days=900), 1, rare=0.0),
    )
    assert command(db, decision, "--by", "day") == 0
    said = capsys.readouterr().err
    assert "holds; 3,000 users from 2026-03-02 on" in said
    for day, why in (
        (today + timedelta(days=900), "lies in the future"),
        (today, "is not over"),
        (START + timedelta(days=1), "has too few users"),
    ):
        assert f"left out: the day of {day}, which {why}" in said
    watch = Watch(watched(tmp_path, db, decision), deliver=[])
    watch.step()
    assert watch.outcome == "holds"
    assert command(db, decision, "--by", "day", "--since", "2026-03-03") == 3
    assert "no day that is over has enough users: that of" in capsys.readouterr().err


def watched(folder: Path, db: Path, decision: Path, **options: object) -> WatchSettings:
    (folder / "in").mkdir(exist_ok=True)
    settings = {"by": "day", **options}
    return WatchSettings(
        folder=folder / "in",
        database=db,
        decision=read_decision(decision),
        file=decision,
        settle=0,
        **settings,  # type: ignore[arg-type]
    )


def test_a_watch_forgets_an_outcome_that_is_no_longer_true(decision: Path, tmp_path: Path) -> None:
    db = tmp_path / "db"
    store(db, day_log(tmp_path, 0, 9000, rare=0.0), day_log(tmp_path, 7, 40, rare=0.0))
    outcomes = {}
    for by in (None, "month", "day"):
        watch = Watch(watched(tmp_path, db, decision, by=by), deliver=[])
        watch.step()
        outcomes[by] = watch.outcome
    assert outcomes == {None: "holds", "month": "holds", "day": "cannot tell"}
    with Monitor(db) as monitor:
        assert forget_before(monitor.database, datetime(2026, 3, 5)) == 9000  # noqa: DTZ001
    watch = Watch(watched(tmp_path, db, decision, by=None), deliver=[])
    watch.step()
    assert watch.outcome == "cannot tell"
    with Monitor(db) as monitor:
        forget_before(monitor.database, datetime(2027, 1, 1))  # noqa: DTZ001
    told: list[dict[str, Any]] = []
    watch = Watch(
        watched(tmp_path, db, decision, by=None),
        deliver=[lambda notice: told.append(dict(notice.body))],
    )
    watch.step()
    assert watch.outcome == "cannot tell"
    assert [problem["kind"] for problem in told[-1]["problems"]] == ["cannot judge"]


def test_an_alarm_sees_what_no_window_shows(decision: Path, tmp_path: Path) -> None:
    db = tmp_path / "db"
    store(db, day_log(tmp_path, 0, 500, rare=0.01))
    by_day(db, decision)
    found = []
    for day in range(1, 9):
        store(db, day_log(tmp_path, day, 500, rare=0.075))
        report = by_day(db, decision)
        assert report.alarm is not None
        found.append((report.outcome, report.alarm.raised))
        if report.alarm.raised:
            assert json.loads(json.dumps(report.to_json()))["alarm"]["run_length"] == 3650
            break
    assert found[0] == ("cannot tell", False)
    assert found[-1] == ("cannot tell", True)


def test_a_user_who_is_forgotten_and_comes_again_counts_once_in_the_runs(
    decision: Path, tmp_path: Path
) -> None:
    db = tmp_path / "db"
    store(db, day_log(tmp_path, 0, 500, rare=0.01))
    by_day(db, decision)
    found: list[float] = []
    for day in (1, 2, 3):
        log = Path(day_log(tmp_path, day, 500, rare=0.075))
        if day == 2:  # those of the day before, under the numbers of others
            text = Path(day_log(tmp_path, 1, 500, rare=0.075)).read_text(encoding="utf-8")
            log.write_text(text.replace("T12", "T13").replace("03T13", "04T13"), encoding="utf-8")
        store(db, str(log))
        report = by_day(db, decision)
        assert report.alarm is not None
        found.append(report.alarm.log_evidence)
        if day == 1:
            forget(db, "--batch", str(log))
    first, again, more = found
    assert first > 0.5
    assert again == pytest.approx(first, abs=1e-6)
    assert more > again + 0.5
    with Monitor(db) as monitor:  # a list whose windows were looked at before all of that was kept
        monitor.database._execute("DELETE FROM meta WHERE name = 'runs_after'")
    assert by_day(db, decision).alarm is None


@pytest.mark.long
@pytest.mark.parametrize("retention", [False, True])
def test_an_alarm_stays_on_where_users_are_forgotten(
    decision: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], retention: bool
) -> None:
    db = tmp_path / "db"
    store(db, day_log(tmp_path, 0, 500, rare=0.01))
    by_day(db, decision)
    for day in range(1, 9):
        if day == 1 or (retention and day > 5):  # the first are those that were decided on
            forget(db, "--before", f"{START + timedelta(days=max(1, day - 5)):%F}")
        store(db, day_log(tmp_path, day, 500, rare=0.09))
        report = by_day(db, decision)
        assert report.alarm is not None
        if report.alarm.raised:
            break
    assert report.alarm.raised
    assert report.doubted
    assert day > 2  # the choice of the list has its price
    assert command(db, decision, "--by", "day") == 3
    said = " ".join(capsys.readouterr().err.split())
    assert "one window in 3,650 at most begins a false alarm, on average" in said
    assert "do not count, as users were forgotten, or" in said
    told = json.loads(json.dumps(report.to_json()))
    assert told["doubted"]
    assert told["alarm"]["after"].startswith("2026-03-0")


@pytest.mark.long
def test_a_visit_without_a_time_that_is_forgotten_ends_no_alarm(
    decision: Path, tmp_path: Path
) -> None:
    db, timeless = tmp_path / "db", tmp_path / "timeless.jsonl"
    store(db, day_log(tmp_path, 0, 500, rare=0.01))
    by_day(db, decision)
    timeless.write_text('{"user": "somebody", "a": "a", "b": 1}\n', encoding="utf-8")
    store(db, day_log(tmp_path, 1, 500, rare=0.09), str(timeless))
    before = by_day(db, decision).alarm
    assert before is not None
    forget(db, "--batch", str(timeless))
    assert by_day(db, decision).alarm == before
    forget(db, "--before", "2026-03-03")
    store(db, day_log(tmp_path, 2, 500, rare=0.09))
    after = by_day(db, decision).alarm
    assert after is not None
    assert after.after == datetime.fromisoformat("2026-03-02T12:00:00")


@pytest.mark.long
@pytest.mark.parametrize("other", ["a copy of itself", "one that checks", "one that does not"])
def test_runs_begin_anew_only_where_a_copy_brings_other_runs(
    decision: Path, tmp_path: Path, other: str
) -> None:
    db, second = tmp_path / "db", tmp_path / "second"
    store(db, day_log(tmp_path, -9, 500, rare=0.01))
    copy(db, second)
    for day in range(1, 5):
        store(db, day_log(tmp_path, day, 500, rare=0.09))
        alarm = by_day(db, decision).alarm
    assert alarm is not None
    assert alarm.raised
    if other == "a copy of itself":
        copy(db, db)
    else:
        for day in (-2, -1):
            store(second, day_log(tmp_path, day, 300, rare=0.01))
            if other == "one that checks":
                by_day(second, decision)
        copy(second, db)
    assert by_day(db, decision).alarm == (None if other == "one that checks" else alarm)


def copy(path: Path, to: Path) -> None:
    folder = str(to.with_suffix(".copy"))
    assert run(["db", "copy-out", folder, "--quiet", "--db", str(path)]) == 0
    assert run(["db", "copy-in", folder, "--db", str(to)]) == 0


@pytest.mark.long
def test_windows_move_with_the_data(decision: Path, tmp_path: Path) -> None:
    """A copy of the data buys no second chance, and users that come with it are not new."""
    db, other = tmp_path / "db", tmp_path / "other"
    store(db, day_log(tmp_path, 0, 200, rare=0.01))
    first = by_day(db, decision)
    assert run(["db", "copy-out", str(tmp_path / "out"), "--db", str(db)]) == 0
    assert run(["db", "copy-in", str(tmp_path / "out"), "--db", str(other)]) == 0
    assert by_day(other, decision) == first
    store(other, day_log(tmp_path, 0, 5000, rare=0.0, first=1000))
    assert by_day(other, decision).outcome == "cannot tell"
    store(other, day_log(tmp_path, 1, 5000, rare=0.0))
    assert run(["db", "copy-out", str(tmp_path / "later"), "--db", str(other)]) == 0
    assert run(["db", "copy-in", str(tmp_path / "later"), "--db", str(db)]) == 0
    assert by_day(other, decision).new_users
    assert not by_day(db, decision).new_users


def test_others_learn_nothing_from_a_single_visit(decision: Path, tmp_path: Path) -> None:
    told: list[list[dict[str, Any]]] = []
    for visits in (0, 1):
        folder = tmp_path / str(visits)
        folder.mkdir()
        db, bodies = folder / "db", []
        store(db, day_log(folder, 0, 3000, rare=0.0))
        if visits:
            store(db, day_log(folder, 1, visits, rare=0.0))
        settings = watched(folder, db, decision)
        Watch(settings, deliver=[lambda notice, to=bodies: to.append(notice.body)]).step()
        store(db, day_log(folder, 2, 3000, rare=0.0))
        if visits:
            store(db, day_log(folder, 0, 1, rare=0.0))
        Watch(settings, deliver=[lambda notice, to=bodies: to.append(notice.body)]).step()
        told.append(bodies)
    for notice in itertools.chain(*told):
        del notice["next"]  # it names the database
    assert told[0] == told[1]
    assert (told[0][0]["outcome"], told[0][0]["left_out"]) == ("holds", [])
    assert told[0][0]["new_users"] is None


@pytest.mark.long
def test_a_promise_about_one_population_is_checked_for_ever(tmp_path: Path) -> None:
    db = tmp_path / "db"
    store(db, day_log(tmp_path, 0, 6000, rare=0.005))
    with Monitor(db) as monitor:
        decided = monitor.decide(k=10, population=6000, budget=0.05, realised=True)
    assert decided.allow == (("a", "b"),)
    path = tmp_path / "realised.json"
    path.write_text(json.dumps(decided.to_json()), encoding="utf-8")
    assert command(db, path, "--by", "day") == 0
    store(db, day_log(tmp_path, 1, 500, rare=0.05))
    assert command(db, path, "--by", "day") == 3


def test_a_promise_about_one_population_is_tested_at_the_share_of_its_check(
    tmp_path: Path,
) -> None:
    store(tmp_path / "db", day_log(tmp_path, 0, 6000, rare=0.01))
    with Monitor(tmp_path / "db") as monitor:
        made = monitor.decide(k=10, population=10**6, budget=0.05, realised=True, candidates=["a"])
        assert made.allow == (("a",),)
        for delta, passes in ((0.05, True), (1e-40, False)):
            [within] = _all_or_nothing(monitor.population(), made, delta).within
            assert (within > 0) == passes
