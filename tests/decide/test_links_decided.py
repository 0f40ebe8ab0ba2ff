"""Decisions that limit how many users may be linked: by what stays some days, or by any means."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fpmonitor.cli import run
from fpmonitor.decide import deciding
from fpmonitor.decide.asked import Search
from fpmonitor.decide.decision import Decision
from fpmonitor.estimate.linking import LinkedFunction, linked_probability
from fpmonitor.estimate.looks import decision_criteria
from fpmonitor.policy import LinkBudget, Policy
from fpmonitor.population.beside import USERS, SourceBeside
from fpmonitor.population.memory import MemorySource
from fpmonitor.proof.conditions import check_conditions
from tests.asked import refused
from tests.decided import allowed_as_tested

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

PEOPLE, VALUES = 3_000, 120
DAYS = (1, 8, 29)  # of the visits, and the log ends on day 40
ASKED = ["--k", "10", "--budget", "90%", "-n", "3000", "--fixed-question", "--unit", "last"]
STAYS = float(linked_probability(1 / VALUES, PEOPLE))  # who is linked by a value that stays: 4 %


def stored(
    folder: Path, rows: Iterable[Sequence[object]], header: Sequence[str], *, times: bool = True
) -> str:
    """Store visits of `user, day, values`."""
    log, database = folder / "log.csv", str(folder / "log.duckdb")
    with log.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["user", *(["time"] if times else []), *header])
        for user, day, *values in rows:
            time = f"2026-{1 + (day - 1) // 31:02d}-{1 + (day - 1) % 31:02d}T12:00:00Z"
            lines.writerow([f"u{user}", *([time] if times else []), *values])
    assert run(["ingest", str(log), "--db", database, "-q"]) == 0
    return database


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A screen that stays, a network that is drawn anew each day, and a depth of two values."""
    rng = np.random.default_rng(1)
    screens = rng.integers(VALUES, size=PEOPLE)
    rows = [
        (user, day, f"s{screens[user]}", f"n{rng.integers(VALUES)}", user % 2)
        for user in range(PEOPLE)
        for day in DAYS
    ]
    rows.append((0, 40, "s0", "n0", 0))
    return stored(tmp_path_factory.mktemp("links"), rows, ["screen", "network", "depth"])


def made(database: str, output: Path, *options: str) -> dict[str, Any]:
    words = ["decide", *ASKED, "--candidates", "screen,network,depth", "--db", database, "-q"]
    assert run([*words, *options, "-o", str(output)]) == 0
    return dict(json.loads(output.read_text(encoding="utf-8")))


def test_what_stays_is_refused_and_what_changes_is_not(database: str, tmp_path: Path) -> None:
    plain = made(database, tmp_path / "plain.json")
    assert ["depth", "screen"] in plain["allow"]
    assert "links" not in plain["policy"]
    found = made(database, tmp_path / "d.json", "--link-budget", "3%", "--after", "28d,7,28")
    assert found["policy"]["links"] == {"budget": 0.03, "after": [7, 28]}
    assert found["allow"] == [["depth", "network"]]
    assert found["undecided"] == [["screen"]]
    said = found["guarantee"]
    assert "at most 3 % of the users who come back after 7 and 28 days" in said
    assert "One that knows how values change may link more." in said
    assert "decided once" in said
    first, last = found["data"]["days"]
    assert f"unlike those of the log, from {first} to {last}: on days without a release" in said
    # by any means, ever: a network that changes is as good as one that stays
    ever = made(database, tmp_path / "e.json", "--link-budget", "3%")
    assert ever["policy"]["links"] == {"budget": 0.03, "after": []}
    assert ever["allow"] == [["depth"]]
    assert "by any means" in ever["guarantee"]


def test_other_days_than_those_of_the_sentence_are_read_by_no_command(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "d.json"
    content = made(database, output, "--link-budget", "3%", "--after", "7d")
    for days in (["2020-01-01", content["data"]["days"][1]], None):
        data = {name: value for name, value in content["data"].items() if name != "days"}
        data |= {} if days is None else {"days": days}
        output.write_text(json.dumps(content | {"data": data}), encoding="utf-8")
        for command in (
            ["export", str(output), "--to", "json"],
            ["check", str(output), "--db", database],
        ):
            assert "`data.days`" in refused(capsys, *command)


def test_all_visits_of_these_days_are_not_those_of_any(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without its days a file promised "all their visits of these days"."""
    output = tmp_path / "d.json"
    content = made(database, output, "--unit", "path")
    del content["data"]["days"], content["scope"]["window_days"]
    output.write_text(json.dumps(content), encoding="utf-8")
    assert "`data.days`" in refused(capsys, "export", str(output), "--to", "json")
    for side in (content["proof"]["allow"], *content["proof"]["allow"].get("links", ())):
        side.pop("days", None)  # as in files of before
    output.write_text(json.dumps(content), encoding="utf-8")
    assert run(["export", str(output), "--to", "json"]) == 0


@pytest.mark.parametrize("options", [[], ["--after", "7d,28d", "--unit", "both"]])
def test_gate_check_and_checker_judge_links(
    options: list[str], database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "d.json"
    content = made(database, output, "--link-budget", "3%", *options)
    for apis, verdict in (("depth", "allow"), ("screen", "undecided")):
        capsys.readouterr()
        run(["gate", str(output), "--want", apis, "--db", database])
        answer = json.loads(capsys.readouterr().out)
        assert answer["verdict"] == verdict
    assert "or lets over 3 % be linked" in answer["reason"]
    assert run(["check", str(output), "--db", database]) == 0
    spectra = tmp_path / "spectra.json"
    words = ["audit", "certificate", str(output), "--db", database]
    assert run([*words, "--write-spectra", str(spectra), "--unsafe-counts"]) == 0
    words[-2:] = ["--spectra", str(spectra)]
    assert run(words) == 0
    policy, allow = content["policy"], content["proof"]["allow"]
    first, *others = allow["links"]
    changed = [
        {"policy": policy | {"links": {"budget": 0.03, "after": [7, 14]}}},
        {"policy": policy | {"links": {"budget": 0.02, "after": policy["links"]["after"]}}},
        {"policy": {name: value for name, value in policy.items() if name != "links"}},
        *(
            {"proof": content["proof"] | {"allow": allow | {"links": links}}}
            for links in (
                others,
                [first | {"after": 14}, *others],
                [first | {"function": None}, *others],
                [first | {"users": first["users"] + 1}, *others],
                [first | {"nats": [nats / 2 for nats in first["nats"]]}, *others],
                [first | {"designs": allow["designs"]}, *others],
            )
        ),
    ]
    for change in changed:
        output.write_text(json.dumps(content | change), encoding="utf-8")
        assert run(words) not in {0, 3}, change
    # Links are designed for draws from the population.
    for other in ({"sample": {"bias": 1.5}}, {"realised": True}):
        found = check_conditions(content | {"policy": policy | other})
        assert {finding.answer for finding in found} == {"not proved"}


def test_a_report_for_others_is_written_of_links_and_visits_without_telling_of_visits(
    database: str, tmp_path: Path
) -> None:
    output, page = tmp_path / "d.json", tmp_path / "report.html"
    made(database, output, "--link-budget", "3%", "--after", "7d,28d", "--unit", "both")
    assert run(["export", "--report", str(output), "--db", database, "-o", str(page)]) == 0
    told = page.read_text(encoding="utf-8")
    assert "The decision was made on other data" not in told
    assert "Linked later" not in told


def test_windows_are_checked_for_links_where_users_can_come_back_within_one(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "d.json"
    check = ["check", str(output), "--by", "month", "--db", database]
    (tmp_path / "in").mkdir()
    watch = ["watch", str(tmp_path / "in"), "--decision", *check[1:], "--once"]
    made(database, output, "--link-budget", "3%", "--after", "7d")
    assert run(check) == 0
    assert run(watch) == 0
    made(database, output, "--link-budget", "3%", "--after", "28d")
    for command in (check, watch):
        assert "nobody can come back after 28 days within a month" in refused(capsys, *command)


@pytest.mark.long
@pytest.mark.parametrize("days", [(63,), (63, 85)], ids=["too short", "nobody back"])
def test_a_window_in_which_nobody_can_be_followed_has_too_few_users(
    days: tuple[int, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The window before is checked, and why this one is not is said."""
    rows = [
        (user, day, f"s{user % 9}", user % 2)
        for user in range(300)
        for day in (1, 8, 20, 32, 39, 51, days[user % len(days)])
    ]
    database, output = stored(tmp_path, rows, ["screen", "depth"]), tmp_path / "d.json"
    asked = ["--k", "10", "--budget", "90%", "-n", "300", "--unit", "last", "--db", database]
    links = ["--link-budget", "60%", "--after", "7d", "--candidates", "screen,depth"]
    assert run(["decide", *asked, *links, "-q", "-o", str(output)]) == 0
    capsys.readouterr()
    assert run(["check", str(output), "--by", "month", "--db", database]) == 0
    said = capsys.readouterr().err
    assert "left out: the month of 2026-03-01, which has too few users" in said
    assert "from 2026-02-01 on" in said


@pytest.mark.parametrize("seed", range(4))
def test_lists_are_those_of_every_set_tested_by_itself(seed: int) -> None:
    """Random tables: the border search by units beside the users against brute force."""
    rng, apis, users = np.random.default_rng(seed), "abcde", 3_000
    sources = [
        MemorySource(apis, [rng.zipf(1.8, some).clip(max=rng.integers(2, 60)) for _ in apis])
        for some in (users, 2_000, 1_500)
    ]
    source = SourceBeside(dict(zip((USERS, "7d", "28d"), sources, strict=True)))
    policy = Policy(
        k=5,
        population=users,
        budget=0.15,
        delta=0.05,
        candidates=tuple(apis),
        links=LinkBudget(budget=0.04, after=(28, 7)),
    )
    found = deciding.decide(source, Decision.begun(policy), Search())
    assert allowed_as_tested(found, source, deciding.tests_of(found, source)) > 0


def test_a_limit_of_links_is_no_limit_of_groups() -> None:
    """The line is of the share linked: proved by its own function, refused by the other one."""
    proof = pytest.importorskip("fpmonitor.proof.design")
    asked = {"users": 2_000, "population": 2_000, "budget": 0.03, "delta": 0.05, "universe": 3}
    linked = decision_criteria(k=None, **asked).proofs(3)["allow"] | {"function": "linked"}
    groups = decision_criteria(k=2, **asked).proofs(3)["allow"]
    assert proof.check_proof(linked, kind=proof.LinkedProof) == ""
    assert proof.check_proof(groups) == ""
    for side, kind in (
        (linked, proof.DesignProof),
        (groups, proof.LinkedProof),
        # said to be of the other function
        (groups | {"function": "linked"}, proof.LinkedProof),
    ):
        assert proof.check_proof(side, kind=kind) != ""
    from flint import arb  # noqa: PLC0415 -- an extra

    one = proof.LinkedProof({**proof.designs_of(linked)[0]})
    for p in (1e-9, 1e-4, 0.01, 0.7, 1.0):
        value = float(one._exposed(arb(p)).mid())
        assert value == pytest.approx(float(linked_probability(p, 2_000)), rel=1e-9)
    function = LinkedFunction(population=2_000)
    low, high = np.array([1e-4]), np.array([2e-3])
    mine = float(one._bend(arb(1e-4), arb(2e-3), arb(1e9)).mid() / one.mean.mid())
    assert mine == pytest.approx(float(function.bend(low, high, -1)[0]), rel=1e-4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--after", "7d"], "of which share?"),
        (["--link-budget", "3%", "--after", "0d"], "is not a number of days"),
        (["--link-budget", "3%", "--after", "-7d"], "is not a number of days"),
        (["--link-budget", "3%", "--after", "soon"], "is not a number of days"),
        (["--link-budget", "3%", "--after", "7d,90d"], "too few to follow anybody for 90"),
        (["--link-budget", "3%", "--after", "17d"], "nobody came back after 17 days"),
        (["--link-budget", "0%"], "link_budget"),
        (["--link-budget", "100%", "--after", "7d"], "link_budget"),
        (["--link-budget", "3%", "--after", "7d", "--given", "depth"], "not with --given"),
        (["--link-budget", "3%", "--after", "7d", "--missing", "drop"], "not with --missing drop"),
        (["--link-budget", "3%", "--bias", "1.1"], "not with --bias"),
        (["--link-budget", "3%", "--realised"], "not with --realised"),
        (["--link-budget", "3%", "--setting", "sample"], "not with --setting sample"),
        (["--link-budget", "3%", "--forecast"], "not with --forecast"),
    ],
)
def test_what_cannot_be_asked_of_links_is_said_in_a_line(
    database: str, options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refused(capsys, "decide", *ASKED, "--db", database, "-q", *options)


@pytest.mark.parametrize(
    ("days", "times", "words"),
    [
        ((1,), False, "the log has no times"),
        ((1,), True, "the log covers 0 days"),
        ((1, 20), True, "nobody came back after 7 days"),
    ],
)
def test_logs_that_tell_nothing_of_later_visits(
    days: tuple[int, ...],
    times: bool,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [(user, day, user % 5) for user in range(100) for day in days]
    database = stored(tmp_path, rows, ["screen"], times=times)
    asked = ["decide", *ASKED, "--db", database, "-q", "--link-budget", "3%", "--after", "7d"]
    assert words in refused(capsys, *asked)
