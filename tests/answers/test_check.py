"""The check: what its formats say, which window it looks at, and how checks share one delta."""

from __future__ import annotations

import json
import random
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from fpmonitor.cli import run
from fpmonitor.monitor import Monitor
from fpmonitor.question import Question
from tests.asked import answer_of

START = datetime(2026, 3, 2, tzinfo=UTC)
# The members that the schema of SARIF 2.1.0 requires of what is written here.
SARIF: dict[str, Any] = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool"],
                "properties": {
                    "tool": {
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "required": ["name"],
                                "properties": {"rules": {"items": {"required": ["id"]}}},
                            }
                        },
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "results": {
                        "items": {
                            "required": ["message"],
                            "properties": {
                                "message": {
                                    "anyOf": [{"required": ["text"]}, {"required": ["id"]}]
                                },
                                "kind": {
                                    "enum": ["pass", "open", "fail", "review", "informational"]
                                },
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "partialFingerprints": {"additionalProperties": {"type": "string"}},
                            },
                        }
                    },
                },
            },
        },
    },
}


def day(folder: Path, number: int, *, split: int) -> str:
    """Log of one day: 3,000 users in `split` groups of each API, the first of two groups."""
    path = folder / f"{number}.jsonl"
    moment = (START + timedelta(days=number)).isoformat()
    path.write_text(
        "".join(
            json.dumps(
                {"user": f"{number}-{i}", "time": moment, "a,b: 1%": i % split, "c\nd": i % 2}
            )
            + "\n"
            for i in range(3000)
        ),
        encoding="utf-8",
    )
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decision made on the first day, and a database whose second day violates it."""
    folder = tmp_path_factory.mktemp("check")
    with Monitor(folder / "first", create=True) as monitor:
        monitor.ingest([day(folder, 0, split=3)])
        decided = monitor.decide(k=10, population=3000, budget=0.05)
    assert decided.allow == (("a,b: 1%", "c\nd"),)
    (folder / "decision.json").write_text(json.dumps(decided.to_json()), encoding="utf-8")
    with Monitor(folder / "second", create=True) as monitor:
        monitor.ingest([day(folder, 0, split=3), day(folder, 1, split=2500)])
    return folder


def check(folder: Path, database: str, *options: str) -> int:
    decision = str(folder / "decision.json")
    return run(["check", decision, "--db", str(folder / database), *options])


def test_the_newest_window_alone_can_violate(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(folder, "first", "--by", "day") == 0
    assert "holds; 3,000 users from 2026-03-02 on" in capsys.readouterr().err
    assert check(folder, "second", "--by", "day") == 1
    assert "violated; 3,000 users from 2026-03-03 on" in capsys.readouterr().err
    assert check(folder, "second", "--by", "day", "--until", "2026-03-03") == 0


def test_limits_hold_together_for_questions_that_were_fixed_too(folder: Path) -> None:
    question = Question(10, 3000, 0.05)
    with Monitor(folder / "first") as monitor:
        decided = monitor.decide(k=10, population=3000, budget=0.05, fixed_question=True)
        [limits] = monitor.check(decided).limits.values()
        users = monitor.population()
        together, alone = (
            users.sample(question, decided.allow, chosen=chosen).limits(decided.allow[0])
            for chosen in (True, False)
        )
    assert limits == together
    assert limits[1] > alone[1]


def test_an_api_that_vanished_counts_as_one_value(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a,b: 1%", "z"):
        log = folder / "log.jsonl"
        records = ({"user": f"u{i}", name: i % 3} for i in range(3000))
        log.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
        with Monitor(folder / f"only {name[0]}", create=True) as monitor:
            monitor.ingest([str(log)])
    assert check(folder, "only a", "--format", "json") == 0
    [found] = json.loads(capsys.readouterr().out)
    assert (found["apis"], found["verdict"]) == (["a,b: 1%", "c\nd"], "allow")
    assert 0 <= found["lower"] < found["upper"] < 0.05
    assert check(folder, "only a", "--format", "sarif") == 0
    assert "; fewer than 10 users have a value of c\\nd" in capsys.readouterr().out
    assert check(folder, "only z") == 2  # the log of something else


@pytest.mark.parametrize("coarsened", ["b", "other"])
def test_an_api_that_was_coarsened_and_vanished_counts_as_one_value(
    coarsened: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also one that is not on the list, which a change of values names all the same."""
    changes, decided = tmp_path / "changes.toml", str(tmp_path / "decided.json")
    changes.write_text(f'["{coarsened}"]\nconstant = "1"\n', encoding="utf-8")
    for name, apis in (("then", ("a", "b", "other")), ("now", ("a",))):
        log = tmp_path / f"{name}.jsonl"
        rows = ({"user": f"u{i}"} | dict.fromkeys(apis, i % 3) for i in range(3000))
        log.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        with Monitor(tmp_path / name, create=True) as monitor:
            monitor.ingest([str(log)])
    asked = ["--db", str(tmp_path / "then"), "--what-if", str(changes), "--budget", "5%"]
    assert run(["decide", *asked, "--candidates", "a,b", "--quiet", "-o", decided]) == 0
    db = ["--db", str(tmp_path / "now")]
    [found] = answer_of(capsys, "check", decided, *db)
    assert (found["apis"], found["verdict"]) == (["a", "b"], "allow")


def test_users_without_any_api_of_the_list_pass_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    renamed = Path(day(tmp_path, 1, split=3))
    text = renamed.read_text(encoding="utf-8").replace("a,b: 1%", "A").replace(r"c\nd", "C")
    renamed.write_text(text, encoding="utf-8")
    with Monitor(tmp_path / "db", create=True) as monitor:
        monitor.ingest([day(tmp_path, 0, split=3), str(renamed)])
    for options in (["--by", "day"], ["--since", "2026-03-03"]):
        assert check(folder, str(tmp_path / "db"), *options, "--format", "sarif") == 3
        printed = capsys.readouterr()
        [result] = json.loads(printed.out)["runs"][0]["results"]
        assert result["kind"] == "open"
        assert "0.0 to 100.0 %" in result["message"]["text"]
        assert (
            "fewer than 10 users have a value of any API of the list" in result["message"]["text"]
        )
        assert "a,b: 1% has vanished" in printed.err
        assert "it does not cover A, C" in printed.err
        assert "cannot tell; 3,000 users" in printed.err
    with Monitor(tmp_path / "db") as monitor:
        recorded = monitor.database._fetch("SELECT passed, violated, run FROM checked_window")
    assert recorded == [(False, False, None)] * 2
    # The log comes again, with the names that the list has.
    day(tmp_path, 1, split=3)
    with Monitor(tmp_path / "db") as monitor:
        monitor.ingest([str(renamed)])
    assert check(folder, str(tmp_path / "db"), "--by", "day") == 0


@pytest.mark.parametrize(
    ("grown", "code", "whole"), [("", 0, 0), ("c", 0, 1), ("a", 1, 1)], ids=["none", "c", "a"]
)
def test_a_check_judges_the_recommended_set_in_one_line_and_the_rest_on_request(
    grown: str, code: int, whole: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A set that nobody deployed neither fails a gate nor fills a screen."""
    for name, unique in (("then", ""), ("now", grown)):
        values = ({"a": i // 40 % 2, "b": i // 80 % 2, "c": i % 40} for i in range(800))
        rows = (
            {"user": f"u{i}"} | row | ({unique: i // 2} if unique else {})
            for i, row in enumerate(values)
        )
        log = tmp_path / f"{name}.jsonl"
        log.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        with Monitor(tmp_path / name, create=True) as monitor:
            monitor.ingest([str(log)])
            if name == "then":
                decided = monitor.decide(k=15, setting="sample", budget=0.05)
    assert (decided.recommended, {*decided.allow}) == (("a", "b"), {("a", "b"), ("c",)})
    made = tmp_path / "made.json"
    made.write_text(json.dumps(decided.to_json()), encoding="utf-8")
    command = ["check", str(made), "--db", str(tmp_path / "now"), "--format"]
    assert run([*command, "table"]) == code
    printed = capsys.readouterr()
    [line] = printed.out.strip().split("\n\n")
    assert line.startswith("violated: a, b " if code else "holds: a, b ")
    assert "1 more set" in printed.err
    for form in ("json", "csv", "github", "sarif", "junit"):
        assert run([*command, form]) == code
        assert "c" not in re.findall(r'"c"|name="c"|::c ', capsys.readouterr().out)
    assert run([*command, "table", "--all"]) == whole
    assert {"a, b", "c"} <= {cell.strip() for cell in capsys.readouterr().out.split("│")}
    folder = tmp_path / "in"
    folder.mkdir()
    watch = ["watch", str(folder), "--decision", str(made), "--db", str(tmp_path / "now"), "--once"]
    assert run([*watch, "--settle", "0", "--quiet"]) == code
    assert run([*watch, "--settle", "0", "--quiet", "--all"]) == whole


@pytest.mark.long
def test_what_does_not_hold_comes_first_and_of_what_holds_not_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    apis = [f"A.a{i:02}" for i in range(45)]
    halves = [random.Random(i).sample(range(64), 32) for i in range(45)]
    for name, grown in (("then", ""), ("now", apis[-1])):
        rows = (
            {"user": f"u{i}"}
            | {a: i // 2 if a == grown else i in half for a, half in zip(apis, halves, strict=True)}
            for i in range(64)
        )
        log = tmp_path / f"{name}.jsonl"
        log.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        with Monitor(tmp_path / name, create=True) as monitor:
            monitor.ingest([str(log)])
            if not grown:
                decided = monitor.decide(k=20, setting="sample", budget=0.1)
    assert len(decided.allow) > 40
    made = tmp_path / "made.json"
    made.write_text(json.dumps(decided.to_json()), encoding="utf-8")
    command = ["check", str(made), "--db", str(tmp_path / "now"), "--all"]
    assert run([*command, "--format", "table"]) == 1
    lines = [line.split()[1:] for line in capsys.readouterr().out.splitlines() if "A.a" in line]
    assert [line[0] for line in lines] == ["violated"] + ["holds"] * (len(lines) - 1)
    assert 40 <= len(lines) < len(decided.allow)
    assert run([*command, "--format", "csv"]) == 1
    assert capsys.readouterr().out.count("A.a44") == 1


def test_junit_counts_and_names_what_failed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(folder, "first", "--format", "junit") == 0
    suites = ET.fromstring(capsys.readouterr().out)
    assert (suites.tag, suites.attrib["tests"], suites.attrib["failures"]) == (
        "testsuites",
        "1",
        "0",
    )
    assert check(folder, "second", "--by", "day", "--format", "junit") == 1
    suites = ET.fromstring(capsys.readouterr().out)
    [case] = suites.findall("testsuite/testcase")
    assert case.attrib["name"] == "a,b: 1%, c\nd"
    [failure] = case.findall("failure")
    assert "exposes more than 5 % of the users" in failure.attrib["message"]
    assert [suites.attrib[name] for name in ("tests", "failures", "errors")] == ["1", "1", "0"]


def test_sarif_has_what_its_schema_requires(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = []
    for database in ("first", "second"):
        check(folder, database, "--by", "day", "--format", "sarif")
        document = json.loads(capsys.readouterr().out)
        jsonschema.validate(document, SARIF)
        [result] = document["runs"][0]["results"]
        outcomes.append((result["kind"], result["level"]))
        assert result["ruleId"] == document["runs"][0]["tool"]["driver"]["rules"][0]["id"]
        [location] = result["locations"]
        assert location["physicalLocation"]["artifactLocation"]["uri"].startswith("file:///")
    # A kind other than `fail` has the level `none`.
    assert outcomes == [("pass", "none"), ("fail", "error")]


def test_github_commands_are_one_escaped_line_a_set_that_does_not_hold(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(folder, "second", "--by", "day", "--format", "github") == 1
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("::error file=")
    assert re.search(
        "::a,b: 1%25, c%0Ad exposes more than 5 %25 of the users on average, in groups of fewer "
        r"than 10 \([89]\d\.\d to 100\.0 %25, budget 5 %25\)$",
        line,
    )
    assert check(folder, "first", "--format", "github") == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("::notice ")
    assert line.endswith("::1 of 1 sets hold")


def test_too_few_users_are_skipped_in_junit_and_open_in_sarif(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = tmp_path / "few.jsonl"
    lines = (folder / "0.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    few.write_text("".join(lines[:12]), encoding="utf-8")
    with Monitor(tmp_path / "few", create=True) as monitor:
        monitor.ingest([str(few)])
    arguments = ["check", str(folder / "decision.json"), "--db", str(tmp_path / "few"), "--format"]
    assert run([*arguments, "junit"]) == 3
    suites = ET.fromstring(capsys.readouterr().out)
    assert [suites.attrib[name] for name in ("errors", "skipped")] == ["0", "1"]
    assert len(suites.findall("testsuite/testcase/skipped")) == 1
    assert run([*arguments, "sarif"]) == 3
    [result] = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert (result["kind"], result["level"]) == ("open", "none")


@pytest.mark.parametrize("command", ["check", "watch"])
def test_a_count_of_checks_is_no_option_any_more(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "x", "--horizon", "12"]) == 2
    assert "--horizon" in capsys.readouterr().err
