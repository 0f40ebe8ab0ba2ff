"""A watch of a decision about visits: windows that are over, each tested once, and no few shown."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cli import run

if TYPE_CHECKING:
    from collections.abc import Callable

USERS = 1_500
ASKED = ["--k", "10", "--budget", "20%", "-n", "1500", "--fixed-question", "--candidates"]
DAYS = ("02", "04", "06"), ("09", "11", "13"), ("16", "18", "20")  # of March, a week each


def written(path: Path, week: int, network: Callable[[int, int], int]) -> Path:
    """Write three visits of each user in a week, with a depth that stays and a network."""
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["user", "time", "network", "depth"])
        for user in range(USERS):
            for visit, day in enumerate(DAYS[week]):
                time = f"2026-03-{day}T10:00:00Z"
                lines.writerow([f"u{user}", time, f"n{network(user, visit)}", user % 2])
    return path


def steady(user: int, _visit: int) -> int:
    return user % 7


def changing(user: int, visit: int) -> int:
    """Nine values at each visit, and 729 paths of two users each."""
    return user // 9**visit % 9


@cache
def decided(*unit: str) -> bytes:
    """The decision of the first week."""
    with TemporaryDirectory() as folder:
        home = Path(folder)
        database, made = str(home / "first.duckdb"), home / "d.json"
        log = written(home / "first.csv", 0, steady)
        assert run(["ingest", str(log), "--db", database, "-q"]) == 0
        words = ["decide", *ASKED, "network,depth", "--db", database, "-q"]
        assert run([*words, *unit, "-o", str(made)]) == 0
        return made.read_bytes()


class Watched:
    """A folder that is watched by a decision of its first week."""

    def __init__(self, home: Path, *unit: str, first: Callable[[int, int], int] = steady) -> None:
        self.logs, self.decision = home / "in", home / "d.json"
        self.logs.mkdir(parents=True)
        self.database = str(home / "watched.duckdb")
        self.decision.write_bytes(decided(*unit))
        written(self.logs / "0.csv", 0, first)

    def look(self, *options: str) -> int:
        words = ["watch", str(self.logs), "--decision", str(self.decision), "--once", "--settle"]
        return run([*words, "0", "--db", self.database, *options])

    def said(self, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
        files = [json.loads(line)["details"] for line in capsys.readouterr().out.splitlines()]
        return [json.loads(Path(file).read_text(encoding="utf-8")) for file in files]


@pytest.mark.parametrize(("unit", "codes"), [("path", [1, 0]), ("visit", [0, 0]), ("both", [1, 0])])
def test_each_week_that_is_over_is_tested_once_by_visits(
    unit: str, codes: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Networks change in the second week: a visit hides its user still, and all visits do not."""
    watched = Watched(tmp_path, "--unit", unit)
    capsys.readouterr()
    assert watched.look("--by", "week") == 0
    [first] = watched.said(capsys)
    assert (first["state"], first["policy"]["visits"]) == ("holds", unit)
    assert ("all their visits of one week" in first["guarantee"]) == (unit != "visit")
    for week, network in ((1, changing), (2, steady)):
        written(watched.logs / f"{week}.csv", week, network)
        assert watched.look("--by", "week") == codes[week - 1]
        assert watched.look("--by", "week") == codes[week - 1]
    told = [(body["was"], body["state"]) for body in watched.said(capsys)]
    changed = [(was, state) for was, state in told if was != state]
    assert changed == ([("holds", "violated"), ("violated", "holds")] if unit != "visit" else [])


def own_at_first(user: int, visit: int) -> int:
    """Pairs of users have networks of their own, until the last visit of the week."""
    return user % 7 if visit == 2 else 100 + user // 2


def test_a_list_that_one_visit_must_keep_is_violated_by_one_visit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also by all users of now, and by windows that raise an alarm together.

    Last values show nobody, so a watch that went by these alone said that the list holds.
    """
    watched = Watched(tmp_path)
    assert json.loads(watched.decision.read_text(encoding="utf-8"))["policy"]["visits"] == (
        "last+visit"
    )
    capsys.readouterr()
    assert watched.look("--by", "week") == 0
    written(watched.logs / "1.csv", 1, own_at_first)
    assert watched.look("--by", "week") == 1
    [*_, told] = watched.said(capsys)
    assert (told["state"], told["sets"][0]["verdict"]) == ("violated", "block")
    assert told["sets"][0]["lower"] > 0.2
    log = written(tmp_path / "now.csv", 1, own_at_first)
    database = str(tmp_path / "now.duckdb")
    assert run(["ingest", str(log), "--db", database, "-q"]) == 0
    capsys.readouterr()
    assert run(["check", str(watched.decision), "--db", database, "--format", "table"]) == 1
    assert "violated" in capsys.readouterr().out
    words = ["check", str(watched.decision), "--db", database, "--by", "week", "--new-users"]
    assert run(words) == 1


def test_visits_that_are_too_many_to_read_are_not_read_and_check_and_watch_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """300,000 users of ten APIs took 715 MB, though nobody had asked for their visits."""
    watched = Watched(tmp_path)
    written(watched.logs / "1.csv", 1, steady)
    monkeypatch.setattr("fpmonitor.population.people.MOST_CELLS", USERS * 16)  # of one API
    monkeypatch.setattr("fpmonitor.population.stored.read_visits", None)
    capsys.readouterr()
    assert watched.look("--by", "week") == 0
    [told] = watched.said(capsys)
    assert "Last values alone were tested" in told["guarantee"]
    assert "one visit of each user" not in told["guarantee"]
    for options in ([], ["--by", "week"]):
        words = ["check", str(watched.decision), "--db", watched.database, *options]
        assert run([*words, "--format", "table"]) == 0
        said = capsys.readouterr()
        assert "; last values alone were tested" in " ".join(said.out.split())
        assert "too many to read at once" in said.err


def test_a_first_look_that_cannot_tell_reads_no_more_visits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts what longer windows can confirm, of the users of a month as well."""
    watched = Watched(tmp_path)
    log = watched.logs / "0.csv"
    few = log.read_text(encoding="utf-8").splitlines(keepends=True)[: 1 + 3 * 60]
    log.write_text("".join(few), encoding="utf-8")
    monkeypatch.setattr("fpmonitor.population.people.MOST_CELLS", 60 * 16)  # of one API
    monkeypatch.setattr("fpmonitor.population.stored.read_visits", None)
    capsys.readouterr()
    assert watched.look("--by", "week") == 3
    assert "users cannot confirm the set" in capsys.readouterr().err


def test_by_default_a_watch_says_what_one_of_last_values_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where values change between days: one visit of each user hides it as the last does."""
    found = []
    for unit in ((), ("--unit", "last")):
        watched, codes = Watched(tmp_path / str(len(unit)), *unit), []
        policy = json.loads(watched.decision.read_text(encoding="utf-8"))["policy"]
        assert policy.get("visits") == (None if unit else "last+visit")
        capsys.readouterr()
        for week, network, by in ((0, steady, "day"), (1, changing, "week")):
            written(watched.logs / f"{week}.csv", week, network)
            codes.append(watched.look("--by", by))
        told = [(body["state"], body["since"]) for body in watched.said(capsys)]
        found.append((codes, told))
    assert found[0] == found[1]
    assert found[0][0][0] == 0


def test_others_are_told_the_same_of_fewer_than_k_users_whose_visits_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Users of the largest group who show a value of their own at one visit, which paths keep."""
    found = []
    for users in (0, 9, 60):
        odd = range(0, 8 * users, 8)

        def network(user: int, visit: int, odd: range = odd) -> int:
            return user + 100 if visit == 1 and user in odd else int(user % 4 == 1)

        watched = Watched(tmp_path / str(users), "--unit", "both", first=network)
        capsys.readouterr()
        watched.look("--by", "week")
        [body] = watched.said(capsys)
        found.append((body["sets"], body["state"], body["users"], body["lacking"]))
    assert found[0] == found[1] != found[2]


def test_a_watch_of_visits_names_the_length_of_its_windows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Later visits change what all visits of a user tell, so no log without an end is tested."""
    watched = Watched(tmp_path, "--unit", "path")
    capsys.readouterr()
    assert watched.look() == 2
    [said] = capsys.readouterr().err.strip().splitlines()
    assert "--by day, week or month" in said
