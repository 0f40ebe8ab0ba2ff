"""Whether to decide again: what a decision knows, and what the users of now show."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.answers import renewal
from fpmonitor.answers.panel import NamedValue, PanelFinding
from fpmonitor.answers.standing import (
    SetStanding,
    Standing,
    called_anew,
    decide_again,
    next_steps,
)
from fpmonitor.cli import run
from fpmonitor.decide.decision import Confirmation, Decision
from fpmonitor.decide.evidence import identity_of
from fpmonitor.decide.files import read_decision
from fpmonitor.disclosure import Audience
from fpmonitor.errors import InputError
from fpmonitor.monitor import Monitor
from fpmonitor.policy import SampleModel
from fpmonitor.store.digests import keep_digests_only
from fpmonitor.vocabulary import split_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
Values = dict[str, "Callable[[int], Any]"]
BEFORE: Values = {"a": lambda u: u % 3, "c": lambda u: u % 400}
AFTER: Values = {
    "a": lambda u: max(u % 5 - 2, 0),
    "c": lambda _: 0,
    "new\nfpmonitor: holds": lambda _: 1,
}


CONFIRMED = Confirmation(searched=500, level=0, chains=(), confirmed=(), refuted=(), proof={})


def sampled(decision: Decision, **members: Any) -> Decision:
    return replace(decision, policy=replace(decision.policy, sample=SampleModel(**members)))


def stored(path: Path, days: dict[int, tuple[Iterable[int], Values]]) -> Path:
    """A database with some users on each day, counted from the first."""
    log = path.with_suffix(".jsonl")
    rows = [
        {"user": f"u{user}", "time": (START + timedelta(days=day)).isoformat()}
        | {api: value(user) for api, value in values.items()}
        for day, (users, values) in days.items()
        for user in users
    ]
    log.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    with Monitor(path, create=True) as monitor:
        monitor.ingest([str(log)])
    return path


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days before a decision, of which one has 3 visits, and two such days after it."""
    path = tmp_path_factory.mktemp("renewal") / "db"
    days = {0: (range(3), BEFORE), 1: (range(3, 2000), BEFORE)}
    later = {8: (range(3000, 4500), BEFORE), 15: (range(5000, 6500), AFTER)}
    return stored(path, days | later)


@pytest.fixture(scope="module")
def decision(tmp_path_factory: pytest.TempPathFactory) -> Decision:
    path = tmp_path_factory.mktemp("decided") / "db"
    stored(path, {0: (range(3), BEFORE), 1: (range(3, 2000), BEFORE)})
    with Monitor(path) as monitor:
        decided = monitor.decide(k=10, population=2000, budget=0.05)
    assert (decided.allow, decided.block) == ((("a",),), (("c",),))
    return replace(decided, made=date(2026, 1, 3))


def proof_of_before(decision: Decision) -> dict[str, Any]:
    """Return the proof as earlier versions wrote it, which does not tell the days."""
    sides = dict(decision.proof or {})
    return {name: {k: v for k, v in side.items() if k != "days"} for name, side in sides.items()}


def test_a_decision_knows_its_day_and_the_days_of_its_users(decision: Decision) -> None:
    assert decision.days == (date(2026, 1, 2), date(2026, 1, 2))  # 3 users show no day
    content = decision.to_json()
    assert content["data"]["days"] == ["2026-01-02", "2026-01-02"]
    assert Decision.from_json(content) == decision
    assert identity_of(replace(decision, made=date(2026, 2, 1))) == identity_of(decision)
    assert identity_of(replace(decision, days=None)) == identity_of(decision)
    before = content | {"data": {"users": 1, "digest": ""}, "proof": proof_of_before(decision)}
    before.pop("made")
    assert (Decision.from_json(before).days, Decision.from_json(before).made) == (None, None)
    content["data"]["days"] = ["2026-01-03", "2026-01-02"]
    with pytest.raises(InputError, match="days"):
        Decision.from_json(content)


@pytest.mark.parametrize("audience", Audience)
def test_a_check_says_what_a_new_decision_would_know(
    database: Path, decision: Decision, audience: Audience
) -> None:
    with Monitor(database, audience=audience) as monitor:
        found = monitor.check(decision, by="day").renewal
    assert found is not None
    assert found.unknown == ("new\nfpmonitor: holds",)
    assert found.vanished == ()
    assert found.moved is not None
    assert {one.api for one in found.moved} == {"a", "c"}
    assert found.moved_since == date(2026, 1, 2)
    assert found.would_allow == (("c",),)
    assert found.would_block == ()
    assert found.advised


def others(
    folder: Path, days: dict[int, tuple[Iterable[int], Values]], decision: Decision
) -> list[tuple[str, bool]]:
    """APIs that have moved in the last of some days, and whether a value is gone."""
    with Monitor(stored(folder / "db", days)) as monitor:
        found = monitor.check(decision, by="day").renewal
    assert found is not None
    return [(one.api, one.gone) for one in found.moved or ()]


def test_a_value_of_which_there_is_more_among_fewer_users_is_not_gone(
    decision: Decision, tmp_path: Path
) -> None:
    """Fewer than k users had it on a day on which few came."""

    def values(first: int, k_or_not: int) -> Values:
        names = {first + i: "yz"[i % 2] for i in range(2 * k_or_not)}
        return BEFORE | {"a": lambda user: names.get(user, "x")}

    days = {1: (range(9_000), values(0, 12)), 8: (range(10_000, 10_300), values(10_000, 9))}
    assert others(tmp_path, days, decision) == [("a", False)]


def test_a_value_that_those_of_both_windows_still_have_is_not_gone(
    decision: Decision, tmp_path: Path
) -> None:
    """A campaign is over; regulars have the value as before."""

    def values(of: range) -> Values:
        return BEFORE | {"a": lambda user: "y" if user in of else "x"}

    # 0 to 499 come on both days, all with y; of those of one day alone only the first had it.
    days = {
        1: (range(3_000), values(range(800))),
        8: ([*range(500), *range(10_000, 12_500)], values(range(800))),
    }
    assert others(tmp_path, days, decision) == [("a", False)]


@pytest.mark.each
@pytest.mark.parametrize("left", [0, 3])
def test_who_has_left_is_named_and_not_how_many_are_left(
    left: int, decision: Decision, tmp_path: Path
) -> None:
    """Nor is a value that fewer than k users had, in either window."""

    def values(lisbon: int, few: int) -> Values:
        names = ["Europe/Lisbon"] * lisbon + ["Antarctica/Troll"] * few
        return BEFORE | {"a": lambda user: dict(enumerate(names)).get(user % 10_000, "x")}

    days = {1: (range(3_000), values(240, 9)), 8: (range(10_000, 13_000), values(left, 0))}
    with Monitor(stored(tmp_path / "db", days), audience=Audience.OTHERS) as monitor:
        found = monitor.check(decision, by="day").renewal
    assert found is not None
    assert found.reasons == [
        "a Europe/Lisbon is gone: fewer than 10 users have it, many had on 2026-01-02"
    ]
    [moved] = found.to_json()["moved"]
    assert (moved["gone"], moved["lost"]) == (True, ["Europe/Lisbon"])
    assert "Troll" not in json.dumps(found.to_json())


def test_who_has_left_is_named_where_others_have_changed_the_same_api(
    decision: Decision, tmp_path: Path
) -> None:
    def values(changed: range) -> Values:
        names = dict(enumerate(["Europe/Lisbon"] * 240)) | dict.fromkeys(changed, "y")
        return BEFORE | {"a": lambda user: names.get(user, "x")}

    later = [*range(1000, 3000), *range(10_000, 12_500)]
    days = {1: (range(3_000), values(range(0))), 8: (later, values(range(1000, 1100)))}
    with Monitor(stored(tmp_path / "db", days)) as monitor:
        found = monitor.check(decision, by="day").renewal
    assert found is not None
    [moved] = found.moved or ()
    assert (moved.changed, moved.gone, moved.lost) == (True, True, ("Europe/Lisbon",))
    [reason] = found.reasons
    assert reason.startswith("users who had come on 2026-01-02 have changed a (about ")
    assert reason.endswith("; Europe/Lisbon is gone)")


def test_values_that_a_broken_log_lacks_are_not_gone(decision: Decision, tmp_path: Path) -> None:
    def values(letters: int | None) -> Values:
        return BEFORE | {"a": lambda user: ("Europe/Lisbon", "Asia/Tokyo")[user % 2][:letters]}

    days = {1: (range(3_000), values(None)), 8: (range(10_000, 13_000), values(9))}
    with Monitor(stored(tmp_path / "db", days)) as monitor:
        found = monitor.check(decision, by="day")
    assert found.faults == {"a": "values that are cut short"}
    assert found.renewal is not None
    assert (found.renewal.moved, found.renewal.reasons) == ((), [])


def test_versions_of_browsers_are_not_said_to_be_gone() -> None:
    """Who had them has others now, and may have another identifier."""
    lost = (NamedValue("Mozilla/5.0 (X11; Linux x86_64) Chrome/141.0.0.0 Safari/537.36", 0.0),)
    finding = PanelFinding(
        apis=("Navigator.userAgent",), compared="values", p_value=0.0, gone=True, lost=lost
    )
    [moved] = renewal._moved([finding])
    assert (moved.gone, moved.lost) == (True, ())


def test_values_that_are_kept_as_digests_are_not_named(decision: Decision, tmp_path: Path) -> None:
    def values(lisbon: int) -> Values:
        return BEFORE | {"a": lambda user: "Europe/Lisbon" if user % 10_000 < lisbon else "x"}

    path = tmp_path / "db"
    with Monitor(path, create=True) as monitor:
        keep_digests_only(monitor.database)
    stored(path, {1: (range(3_000), values(240)), 8: (range(10_000, 13_000), values(0))})
    with Monitor(path) as monitor:
        found = monitor.check(decision, by="day").renewal
    assert found is not None
    [reason] = found.reasons
    assert reason.startswith("users who come now are others than on 2026-01-02, by a (about ")
    assert reason.endswith(" %; a value is gone)")


def test_values_are_named_on_one_line() -> None:
    assert renewal._value_name("x\ny\u202e\x1b[31m " + "z" * 99) == f"x y[31m {'z' * 31}…"


def test_a_share_that_is_estimated_as_none_is_not_told() -> None:
    """A notice said "about 0 %" of a country of which it was certain that it had come."""
    moved = renewal.MovedApi(api="a", moved=0.0, changed=False, came=("Asia/Tokyo",))
    assert renewal._one(moved) == "a (now Asia/Tokyo)"
    assert renewal._one(replace(moved, moved=0.026)) == "a (about 2.6 %: now Asia/Tokyo)"
    assert renewal._one(replace(moved, came=(), gone=True)) == "a (a value is gone)"
    assert renewal._one(replace(moved, came=())) == "a"


def test_users_who_stay_as_they_were_are_no_reason_to_decide_again(
    database: Path, decision: Decision
) -> None:
    window = {"until": START + timedelta(days=8, hours=12)}
    with Monitor(database) as monitor:
        monitor.window = replace(monitor.window, **window)
        found = monitor.check(decision, by="day").renewal
        assert found is not None
        assert (found.moved, found.would_allow, found.advised) == ((), (), False)
        monitor.window = replace(monitor.window, until=None)
        found = monitor.check(decision).renewal
    assert found is not None
    assert found.moved is None  # looks at all users are not numbered


def test_fewer_than_k_users_on_the_days_of_a_decision_are_as_none(
    decision: Decision, tmp_path: Path
) -> None:
    told = []
    for few in (0, 3):
        path = tmp_path / f"{few}"
        for day in (5, 12):  # the first check is what the second is compared with
            later = range(10_000 * day, 10_000 * day + 200)
            stored(path, {1: (range(few), BEFORE), day: (later, BEFORE)})
            with Monitor(path, audience=Audience.OTHERS) as monitor:
                found = monitor.check(decision, by="day").renewal
        assert found is not None
        told.append(found.to_json())
    assert told[0] == told[1]
    assert (told[0]["moved"], told[0]["moved_since"]) == ([], "2026-01-06")


def test_a_window_in_which_no_candidate_may_be_named_shows_no_moves(
    decision: Decision, tmp_path: Path
) -> None:
    before = BEFORE | {"c": lambda u: u % 50}
    path = stored(tmp_path / "db", {1: (range(100), before), 2: (range(300, 303), before)})
    stored(path, {2: (range(400, 600), {"another": lambda u: u % 2})})
    with Monitor(path, audience=Audience.OTHERS) as monitor:
        found = monitor.check(decision, by="day").renewal
    assert found is not None
    assert (found.vanished, found.moved, found.moved_since) == (("a", "c"), None, None)


@pytest.mark.long
def test_a_second_look_at_a_window_finds_no_set_that_the_first_did_not(
    decision: Decision, tmp_path: Path
) -> None:
    path = stored(tmp_path / "db", {2: (range(5000, 5030), AFTER)})
    for _ in range(2):
        with Monitor(path) as monitor:
            found = monitor.check(decision, by="day", new_users=True)
        assert found.others == {("c",): "undecided"}
        stored(path, {2: (range(5000, 6500), AFTER)})
    with Monitor(stored(tmp_path / "new", {2: (range(5000, 6500), AFTER)})) as monitor:
        assert monitor.check(decision, by="day", new_users=True).others == {("c",): "allow"}


def test_check_prints_what_the_decision_knows(
    database: Path,
    decision: Decision,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "decision.json"
    file.write_text(json.dumps(decision.to_json()), encoding="utf-8")
    assert run(["check", str(file), "--by", "day", "--db", str(database)]) in {0, 3}
    said = capsys.readouterr().err
    days = (datetime.now(UTC).date() - date(2026, 1, 3)).days
    assert f"decided {days:,} days ago on 2,000 users of 2026-01-02 to 2026-01-02" in said
    assert r"it does not cover new\nfpmonitor: holds" in said  # one line
    assert "users who come now are others than on 2026-01-02, by c (about" in said
    assert "within the budget: c" in said
    assert f"to decide again: {decide_again(decision, database)}" in said


def test_a_decision_of_an_earlier_version_is_checked_without_its_day(
    database: Path, decision: Decision, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "decision.json"
    earlier = replace(decision, made=None, days=None, proof=proof_of_before(decision))
    file.write_text(json.dumps(earlier.to_json()), encoding="utf-8")
    assert run(["check", str(file), "--db", str(database)]) in {0, 1, 3}
    assert "decided on 2,000 users; it does not cover new" in capsys.readouterr().err


def test_the_command_asks_the_same_question(decision: Decision) -> None:
    asked = decide_again(decision, Path("my db"))
    question = "--k 10 --budget 0.05 -n 2000 --delta 0.05"
    unit = "--unit last"  # by default users who came back since would ask for more
    assert asked == f"fpmonitor decide {question} {unit} --candidates a,c --db 'my db' -o new.json"
    policy = replace(decision.policy, sample=SampleModel(bias=1.25))
    asked = decide_again(replace(decision, policy=policy, missing="drop"), Path("db"))
    assert "--missing drop --bias 1.25" in asked


def test_the_command_keeps_what_was_wished(decision: Decision) -> None:
    """Who pasted it got lists without the APIs that every set must contain."""
    wished = replace(decision, must=("a",), never=("c",), weights={"a": 2})
    assert "--must a --never c --weights WEIGHTS.toml" in decide_again(wished, Path("db"))
    assert "--never" not in decide_again(wished, Path("db"), vanished=["c"])


def test_the_command_keeps_what_was_assumed_and_what_was_fixed(decision: Decision) -> None:
    """Else the new list lacks an API, or is of another question, and nobody was told."""
    fixed = replace(decision, universe=None)
    assert decision.universe is not None
    for asked, words in (
        (replace(decision, assumed={"c": "never observed"}), "--assume c "),
        (fixed, "--fixed-question"),
        (replace(fixed, confirmation=CONFIRMED), "--search-users 500"),
        (sampled(decision, rows_are_users=True), "--rows-are-users"),
    ):
        command = decide_again(asked, Path("db"))
        assert words in command
        assert ("--fixed-question" in command) is (words == "--fixed-question")
    assert "--assume" not in decide_again(
        replace(decision, assumed={"c": "never observed"}), Path("db"), vanished=["c"]
    )
    # Chosen after a look at the users.
    for changed in ({"vanished": ["c"]}, {"appeared": ["new"]}):
        assert "--fixed-question" not in decide_again(fixed, Path("db"), **changed)
    assert "--fixed-question" not in decide_again(replace(fixed, registered=True), Path("db"))


def test_the_command_on_a_set_above_quotes_names_with_commas(decision: Decision) -> None:
    above = SetStanding(apis=("a,b", "c"), verdict="block", since="2026-01-01")
    standing = Standing(outcome="violated", sets=(above,))
    folder, database = Path("logs"), Path("db")
    [look, _] = next_steps(decision, standing, by="day", folder=folder, database=database)
    words = shlex.split(look)
    assert split_names(words[words.index("--apis") + 1]) == ("a,b", "c")


def test_the_command_quotes_names_with_commas(decision: Decision) -> None:
    policy = replace(decision.policy, candidates=("a,b: 1%", "c"))
    words = shlex.split(decide_again(replace(decision, policy=policy), Path("db")))
    assert split_names(words[words.index("--candidates") + 1]) == ("a,b: 1%", "c")


def test_the_command_asks_by_the_names_of_the_new_log(tmp_path: Path) -> None:
    """Who pasted it was told that no log holds the API that must be in every set."""
    for name, calls in (("then", ("width", "zone", "language")), ("now", ("w", "z", "l"))):
        log = tmp_path / f"{name}.jsonl"
        rows = ({"user": f"u{u}", **{calls[i]: u % (i + 2) for i in range(3)}} for u in range(2000))
        log.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
        with Monitor(tmp_path / name, create=True) as monitor:
            monitor.ingest([str(log)])
        apis = (
            "Screen.width",
            "Intl.DateTimeFormat.resolvedOptions#timeZone",
            "Navigator.language",
        )
        said = [f"{call}={api}" for call, api in zip(calls, apis, strict=True)]
        words = ["db", "apis", *(word for each in said for word in ("--set", each))]
        assert run([*words, "--db", str(tmp_path / name)]) == 0
    asked = ["--k", "10", "-n", "2000", "--budget", "5%", "--candidates", "width,zone", "-q"]
    asked += ["--must", "width", "--never", "zone", "--given", "language", "--fixed-question"]
    asked += ["--assume", "width", "--assume", "zone"]
    made = tmp_path / "made.json"
    assert run(["decide", *asked, "--db", str(tmp_path / "then"), "-o", str(made)]) == 0
    with Monitor(tmp_path / "now") as monitor:
        report = monitor.check(read_decision(made))
    command = decide_again(called_anew(read_decision(made), report.decision), tmp_path / "now")
    for words in (
        "--assume w ",
        "--must w ",
        "--never z ",
        "--given l ",
        "--candidates w,z ",
    ):
        assert words in command
    command = command.replace("new.json", str(tmp_path / "new.json"))
    assert run(shlex.split(command)[1:]) == 0
    assert read_decision(tmp_path / "new.json").recommended == ("w",)


def test_an_api_that_nobody_has_any_more_is_not_unknown(decision: Decision, tmp_path: Path) -> None:
    days = {2: (range(3000, 4500), AFTER), 3: (range(5000, 6500), BEFORE)}
    with Monitor(stored(tmp_path / "db", days)) as monitor:
        found = monitor.check(decision, by="day", new_users=True).renewal
    assert found is not None
    assert found.unknown == ()
