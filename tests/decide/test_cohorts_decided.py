"""Decisions that must keep a budget in every cohort: what is allowed, refused, told and proved."""

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
from fpmonitor.decide.files import read_decision
from fpmonitor.estimate.cohort_budget import CohortTest
from fpmonitor.policy import CohortBudget, Policy
from fpmonitor.population.memory import CohortSource
from fpmonitor.proof.conditions import check_conditions
from tests.asked import refused
from tests.decided import allowed_as_tested

if TYPE_CHECKING:
    from pathlib import Path

AGENTS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/140.0.0.0",
    "Mozilla/5.0 (Windows NT 10.0; rv:143.0) Gecko Firefox/143.0",
    "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko Firefox/143.0",
)
SHARES = (0.86, 0.07, 0.07)
USERS, SMALL = 8_000, 120
ASKED = ["--k", "10", "--budget", "12%", "-n", "8000", "--fixed-question"]
EACH = ["--budget-each", "30%", "--least-share", "4%"]


def written(path: Path, *, seed: int = 1, users: int = USERS, header: str = "agent") -> Path:
    """Write users of whom those of Linux alone have many fonts; all others have four."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(len(AGENTS), users, p=SHARES)
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["user", header, "fonts", "depth", "clock", "code"])
        for user, kind in enumerate(kinds.tolist()):
            fonts = rng.integers(SMALL) if kind == 2 else rng.integers(4)
            row = [f"u{user}", AGENTS[kind], f"f{fonts}", 8 + user % 3, user % 2]
            lines.writerow([*row, f"c{user % 1500}"])
    return path


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("cohorts")
    log, found = written(folder / "log.csv"), str(folder / "d.duckdb")
    said = ["--db", found, "-q"]
    assert run(["ingest", str(log), *said]) == 0
    assert run(["db", "apis", "--set", "agent=Navigator.userAgent", "--db", found]) == 0
    return found


def made(database: str, output: Path, *options: str) -> dict[str, Any]:
    words = ["decide", *ASKED, "--candidates", "fonts,depth,clock", *options]
    assert run([*words, "--db", database, "-q", "-o", str(output)]) == 0
    return json.loads(output.read_text(encoding="utf-8"))


def test_a_set_within_the_budget_is_refused_for_one_of_its_cohorts(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = made(database, tmp_path / "plain.json")
    assert plain["recommended"] == ["clock", "depth", "fonts"]
    repaired = made(database, tmp_path / "each.json", "--given", "family,system", *EACH)
    assert repaired["recommended"] == ["clock", "depth"]
    assert repaired["undecided"] == [["fonts"]]
    assert repaired["policy"]["cohorts"] == {
        "given": ["browser family", "operating system"],
        "budget": 0.3,
        "least_share": 0.04,
    }
    said = repaired["guarantee"]
    assert "at most 30 % of the users of each cohort that has 4 % of the users or more" in said
    assert "Nothing is promised to smaller cohorts" in said
    # by the family alone Linux hides among the Firefoxes of Windows, by less than the budget
    capsys.readouterr()
    assert run(["export", str(tmp_path / "each.json"), "--to", "json"]) in {0, 1}
    assert "each cohort that has 4 %" in capsys.readouterr().out


def test_cohorts_are_fixed_beforehand_where_apis_are_chosen_after_looking(
    database: str, tmp_path: Path
) -> None:
    """Of many that may be given one passes by luck: what is chosen freely names no cohorts."""
    asked = [word for word in ASKED if word != "--fixed-question"]
    words = ["decide", *asked, "--candidates", "depth", "--given", "family,system", *EACH]
    output = tmp_path / "free.json"
    assert run([*words, "--db", database, "-q", "-o", str(output)]) == 0
    said = json.loads(output.read_text(encoding="utf-8"))["guarantee"]
    free, fixed = said.split("whichever APIs and view of the users are chosen after looking")
    assert "cohorts with" not in free
    assert "and the cohorts with their budget and least share were fixed before" in fixed


@pytest.mark.parametrize("options", [["--worst-share"], []])
def test_cohorts_are_tested_at_the_levels_that_the_file_tells(
    database: str, tmp_path: Path, options: list[str]
) -> None:
    """By others an honest file failed its audit: they had the levels of every look, not of one."""
    output = tmp_path / "d.json"
    made(database, output, "--given", "system", *EACH, *options)
    decision = read_decision(output)
    [(_, cohorts)] = deciding.tests_of(decision, USERS).conditions
    assert isinstance(cohorts, CohortTest)
    assert decision.policy.sample.look == "first"
    assert cohorts.log_terms == pytest.approx(decision.proof["allow"]["nats"], rel=1e-8)


def test_a_watch_says_at_once_that_it_tests_no_cohorts(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "d.json"
    made(database, output, "--given", "system", *EACH)
    asked = ["watch", str(tmp_path), "--decision", str(output), "--db", database, "--once"]
    assert "others, who are told nothing of cohorts" in refused(capsys, *asked)


def level(content: dict[str, Any]) -> float:
    return content["proof"]["allow"]["delta"]


def test_cohorts_are_chosen_of_a_menu_after_looking_for_the_share_of_the_level_that_it_costs(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All choices of one or two of four have 1/2 and 1/6 of the level together."""
    menu = ["--given-menu", "family,system,code,clock", *EACH]
    fixed = made(database, tmp_path / "fixed.json", "--given", "system", *EACH)
    output = tmp_path / "one.json"
    one = made(database, output, "--given", "system", *menu)
    two = made(database, tmp_path / "two.json", "--given", "system,family", *menu)
    assert level(one) == pytest.approx(level(fixed) / (1 * 2 * 4))
    assert level(two) == pytest.approx(level(fixed) / (2 * 3 * 6))
    assert one["level"] == fixed["level"]
    assert two["asked_before"] == one["asked_before"], "another choice is no other question"
    more = ["--candidates", "fonts,depth,clock,code", "--given", "system", *menu]
    other = made(database, tmp_path / "other.json", *more)
    assert other["asked_before"] > one["asked_before"], "other candidates are another question"
    assert "operating system, chosen of a menu of 4, which sites see" in one["guarantee"]
    assert "this question, up to what is chosen of the menu, and its view" in one["guarantee"]
    capsys.readouterr()
    assert run(["audit", "certificate", str(output), "--db", database]) == 0, capsys.readouterr()
    gate = ["gate", str(output), "--want", "depth", "--db", database]
    assert run(gate) == 0
    told = one["policy"]["cohorts"]
    for change in (
        {"menu": []},
        {"menu": told["menu"][:-1]},
        {"menu": [*told["menu"], "depth"]},
        {"menu": [*told["menu"][:-1], "z"]},
        {"given": ["browser family"]},
        {"given": ["fonts"]},
    ):
        altered = one | {"policy": one["policy"] | {"cohorts": told | change}}
        output.write_text(json.dumps(altered), encoding="utf-8")
        assert run(["audit", "certificate", str(output), "--db", database]) in {1, 2}, change
        assert run(gate) == 2, change
    words = ["decide", *ASKED, "--candidates", "fonts", "--db", database, *EACH]
    said = refused(capsys, *words, "--given", "depth", "--given-menu", "family,system")
    assert "depth is not of the menu" in said


def test_screens_say_what_cohorts_keep(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["decide", *ASKED, "--candidates", "fonts,depth,clock", "--given", "system", *EACH]
    capsys.readouterr()
    assert run([*words, "--db", database, "--format", "table"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "nor more than 30 % of the users of each cohort that has 4 % of the users" in said
    assert "Cohorts are defined by operating system, which sites see with every set." in said


@pytest.mark.long
def test_sites_see_what_is_given_with_every_set(tmp_path: Path) -> None:
    """Neither the values nor the cohorts tell anybody alone; both together tell all."""
    path = tmp_path / "log.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["user", "edition", "screen", "depth"])
        for user in range(6_000):
            edition = user % 60
            lines.writerow([f"u{user}", f"e{edition}", f"s{(user // 60) % 50}", user % 2])
    db = str(tmp_path / "d.duckdb")
    assert run(["ingest", str(path), "--db", db, "-q"]) == 0
    words = ["decide", "--k", "10", "--budget", "20%", "-n", "6000", "--fixed-question"]
    words += ["--candidates", "screen,depth", "--db", db, "-q", "-o"]
    for options, allowed in (
        ([], ["depth", "screen"]),
        (["--given", "edition", "--least-share", "90%", "--budget-each", "90%"], ["depth"]),
    ):
        output = tmp_path / f"{len(options)}.json"
        assert run([*words, str(output), *options]) == 0
        assert read_decision(output).recommended == tuple(allowed)


@pytest.mark.long(
    guard="estimate/test_cohort_budget.py::test_cohorts_that_are_above_together_pass_seldom"
)
def test_many_small_cohorts_do_not_hide_where_the_worst_share_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sixteen editions of 0.5 % each, all of whose users have a font of their own."""
    log, database, output = tmp_path / "log.csv", str(tmp_path / "d.duckdb"), tmp_path / "d.json"
    with log.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["user", "edition", "fonts", "depth"])
        for user in range(USERS):
            small = user % 200 < 16
            edition = f"e{user % 200}" if small else "usual"
            lines.writerow([f"u{user}", edition, f"f{user if small else user % 4}", user % 2])
    assert run(["ingest", str(log), "--db", database, "-q"]) == 0
    words = [
        "decide",
        *ASKED,
        "--candidates",
        "fonts,depth",
        "--given",
        "edition",
        "--db",
        database,
    ]
    words += ["--budget-each", "30%", "--least-share", "6%", "-q", "-o", str(output)]
    assert run(words) == 0
    assert read_decision(output).recommended == ("depth", "fonts")
    assert run([*words, "--worst-share"]) == 0
    found = json.loads(output.read_text(encoding="utf-8"))
    assert (found["allow"], found["undecided"]) == ([["depth"]], [["fonts"]])
    said = "30 % of the users of any cohorts that together have 6 % of the users or more"
    assert said in found["guarantee"]
    audit = ["audit", "certificate", str(output), "--db", database]
    capsys.readouterr()
    assert run(audit) == 0, capsys.readouterr().out
    assert run(["gate", str(output), "--want", "depth", "--db", database]) == 0
    assert run(["gate", str(output), "--want", "fonts", "--db", database]) == 3
    assert run(["check", str(output), "--db", database, "--new-users"]) == 0
    del found["policy"]["cohorts"]["worst_share"]
    output.write_text(json.dumps(found), encoding="utf-8")
    assert run(audit) == 2
    allowed = {"allow": [["depth", "fonts"]], "undecided": [], "recommended": ["depth", "fonts"]}
    found["policy"]["cohorts"]["worst_share"] = True
    allowed |= {"utility": 2.0, "utility_bound": 2.0}
    output.write_text(json.dumps(found | allowed), encoding="utf-8")
    capsys.readouterr()
    assert run(audit) == 1
    rows = json.loads(capsys.readouterr().out)
    assert "allow" in {row["claim"] for row in rows if row["answer"] == "not proved"}


@pytest.mark.parametrize("seed", range(6))
def test_lists_are_those_of_every_set_tested_by_itself(seed: int) -> None:
    """Random tables: the border search by conditions against brute force."""
    rng, apis, users = np.random.default_rng(seed), "abcdef", 4_000
    cohorts = rng.choice(4, users, p=[0.5, 0.3, 0.12, 0.08])
    codes = [rng.zipf(2.0, users).clip(max=rng.integers(2, 40)) for _ in apis]
    worse = int(rng.integers(2, 4))
    codes[0] = np.where(cohorts == worse, rng.integers(0, 150, users), codes[0] % 3)
    source = CohortSource(apis, codes, always=cohorts)
    asked = CohortBudget(given=("family",), budget=0.3, least_share=0.05)
    policy = Policy(
        k=5, population=users, budget=0.15, delta=0.05, candidates=tuple(apis), cohorts=asked
    )
    found = deciding.decide(source, Decision.begun(policy), Search())
    allowed_as_tested(found, source, deciding.tests_of(found, users))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--candidates", "fonts", "--given", "fonts"], "no candidate beside fonts"),
        (["--budget-each", "20%"], "of which cohorts?"),
        (["--least-share", "2%"], "of which cohorts?"),
        (["--worst-share"], "of which cohorts?"),
        (["--given", "family", "--least-share", "0.05%"], "cannot be told apart from absent ones"),
        (["--given", "family", "--budget-each", "100%"], "budget_each"),
        # It named a share that nobody had given: "budget_each: ..., got 2.0".
        (["--given", "family", "--budget", "50%"], "--budget-each SHARE"),
        (["--given", "family", "--bias", "1.2"], "not with --bias"),
        (["--given", "family", "--missing", "exposed"], "not with --missing exposed"),
        (["--given", "family", "--setting", "sample"], "not with --setting sample"),
        (["--given", "family", "--realised"], "not with --realised"),
        (["--given", "family", "--tolerance"], "not with --tolerance"),
        (["--given", "family", "--engine", "duckdb"], "counted in memory"),
        (["--given", "planet"], "planet"),
        (["--given", "code"], "code alone exposes more than 12 % of the users"),
    ],
)
def test_what_cannot_be_asked_of_cohorts_is_said_in_a_line(
    database: str, options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["decide", *ASKED, "--db", database, "-q", *options]
    assert words in refused(capsys, *asked)


def test_what_is_given_is_no_candidate(database: str, tmp_path: Path) -> None:
    found = made(database, tmp_path / "x.json", "--candidates", "fonts,depth", "--given", "depth")
    assert found["policy"]["candidates"] == ["fonts"]
    # by default, of a budget of 12 %
    assert found["policy"]["cohorts"]["budget"] == pytest.approx(0.48)
    assert found["policy"]["cohorts"]["least_share"] == 0.05


def test_gate_and_check_judge_cohorts(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "d.json"
    made(database, output, "--given", "system", *EACH)
    for apis, verdict, code in (("clock", "allow", 0), ("fonts", "undecided", 3)):
        capsys.readouterr()
        assert run(["gate", str(output), "--want", apis, "--db", database]) == code
        answer = json.loads(capsys.readouterr().out)
        assert answer["verdict"] == verdict
    assert "or over 30 % of a cohort" in answer["reason"]
    # one list, other users: of these some of Linux stand out by their depth
    content = json.loads(output.read_text(encoding="utf-8"))
    changed = tmp_path / "worse.csv"
    with (tmp_path / "log.csv").open("w", encoding="utf-8"):
        pass
    written(tmp_path / "log.csv", seed=2)
    with (tmp_path / "log.csv").open(encoding="utf-8") as before, changed.open("w") as after:
        for place, line in enumerate(before):
            cells = line.rstrip("\n").split(",")
            cells[3] = f"d{place}" if "X11" in line else cells[3]
            after.write(",".join(cells) + "\n")
    for log, code in ((tmp_path / "log.csv", 0), (changed, 3)):
        other = str(log.with_suffix(".duckdb"))
        assert run(["ingest", str(log), "--db", other, "-q"]) == 0
        assert run(["db", "apis", "--set", "agent=Navigator.userAgent", "--db", other]) == 0
        assert run(["check", str(output), "--db", other]) == code
        # as one window of many, at its share of delta
        assert run(["check", str(output), "--db", other, "--new-users"]) == code
    assert content["recommended"] == ["clock", "depth"]


def test_a_decision_is_resumed_with_its_cohorts(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, again = tmp_path / "a.json", tmp_path / "b.json"
    whole = made(database, first, "--given", "system", *EACH)
    resumed = made(database, again, "--given", "system", *EACH, "--resume", str(first))
    for name in ("allow", "block", "undecided", "recommended", "guarantee"):
        assert resumed[name] == whole[name]
    words = ["decide", *ASKED, "--candidates", "fonts,depth,clock", "--db", database, "-q"]
    said = refused(capsys, *words, "--resume", str(first))
    assert "given" in said


@pytest.mark.parametrize("part", [slice(2), slice(2, None)], ids=["few", "others"])
def test_the_checker_proves_cohorts_and_refuses_what_was_changed(
    part: slice, database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "d.json"
    content = made(database, output, "--given", "system", *EACH)
    assert run(["audit", "certificate", str(output), "--db", database]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"proof of cohorts"} <= {each["claim"] for each in found}
    spectra = tmp_path / "spectra.json"
    to_file = ["--db", database, "--write-spectra", str(spectra)]
    assert run(["audit", "certificate", str(output), *to_file, "--unsafe-counts"]) == 0
    assert run(["audit", "certificate", str(output), "--spectra", str(spectra)]) == 0
    assert "tests of cohorts do not read" in refused(
        capsys, "audit", "certificate", str(output), *to_file
    )
    cohorts = content["proof"]["allow"]["cohorts"]
    changes: list[tuple[list[Any], str, Any]] = [
        (cohorts["parts"], "lowered", cohorts["parts"][0]["lowered"] * 0.999),
        (cohorts["parts"], "by_user", cohorts["parts"][0]["by_user"] * 1.01),
        (cohorts["parts"], "scale", cohorts["parts"][0]["scale"] * 0.9),
        (cohorts["parts"], "slope", cohorts["parts"][0]["slope"] * 1.05),
        (cohorts["parts"], "capped", True),
        (cohorts["parts"], "share", 0.9),
        ([cohorts["unseen"]], "bonus", cohorts["unseen"]["bonus"] * 1.01),
        ([cohorts["unseen"]], "by_user", cohorts["unseen"]["by_user"] * 0.9),
        ([cohorts["unseen"]], "tilt", cohorts["unseen"]["tilt"] * 0.9),
        ([content["policy"]["cohorts"]], "least_share", 0.02),
        ([content["policy"]["cohorts"]], "budget", 0.2),
        ([content["policy"]["cohorts"]], "given", ["browser family"]),
        ([content["policy"]["cohorts"]], "given", ["depth"]),
    ]
    for [holder, *_], name, value in changes[part]:
        before = holder.get(name)
        holder[name] = value
        broken = tmp_path / "broken.json"
        broken.write_text(json.dumps(content), encoding="utf-8")
        assert run(["audit", "certificate", str(broken), "--db", database]) not in {0, 3}, name
        holder[name] = before
        if before is None:
            del holder[name]
    policy = content["policy"]  # cohorts are judged by averages of draws from the population
    for other in ({"sample": {"bias": 1.5}}, {"realised": True}):
        [finding] = check_conditions(content | {"policy": policy | other})
        assert finding.answer == "not proved"
    del content["proof"]["allow"]["cohorts"]
    broken.write_text(json.dumps(content), encoding="utf-8")
    assert run(["audit", "certificate", str(broken), "--db", database]) not in {0, 3}
    del content["policy"]["cohorts"]
    broken.write_text(json.dumps(content), encoding="utf-8")
    assert run(["audit", "certificate", str(broken), "--db", database]) not in {0, 3}
