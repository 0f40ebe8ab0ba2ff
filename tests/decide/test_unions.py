"""Two decisions on one database: what both let a site read is tested, noted, proved and carried."""

from __future__ import annotations

import hashlib
import json
import os
import random
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient

from fpmonitor.answers.standing import decide_again
from fpmonitor.assistant import Tools
from fpmonitor.cli import run
from fpmonitor.decide.files import read_decision
from fpmonitor.serve.app import service_app
from fpmonitor.serve.config import ServeConfig
from tests.export.test_export_gate import NODE, answers_in_javascript
from tests.stored import stored

if TYPE_CHECKING:
    from collections.abc import Callable

USERS = 3_000
ASKED = ["--k", "10", "-n", str(USERS), "--budget", "8%"]
# Four values each: two of them together are within the budget, three with `wide` are not.
NARROW, WIDE = ("language", "vendor", "colorDepth"), ("screenWidth", "hardwareConcurrency")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, draw = tmp_path_factory.mktemp("unions"), random.Random(8)
    rows = [
        {
            "time": "2026-03-01T10:00:00Z",
            **{name: f"{name}{draw.randrange(3)}" for name in NARROW},
            **{name: 1000 + draw.randrange(9) for name in WIDE},
        }
        for _ in range(USERS)
    ]
    stored(folder, rows)
    decided(folder, "narrow", "language")
    decided(folder, "wide", "screenWidth,hardwareConcurrency")
    decided(folder, "both", "vendor,colorDepth", *beside(folder, "narrow", "wide"))
    return folder


def command(folder: Path, name: str, candidates: str, *more: str) -> list[str]:
    return [
        *("decide", *ASKED, "--candidates", candidates, "--db", str(folder / "d.duckdb"), "-q"),
        *("-o", str(folder / f"{name}.json"), *more),
    ]


def decided(folder: Path, name: str, candidates: str, *more: str) -> dict[str, Any]:
    assert run(command(folder, name, candidates, *more)) == 0
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return found


def beside(folder: Path, *names: str) -> list[str]:
    return [word for name in names for word in ("--union-with", str(folder / f"{name}.json"))]


def test_the_union_is_tested_and_noted_proved_by_the_audit_and_answered_by_the_gate(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = json.loads((folder / "both.json").read_text())
    narrow, wide = file["union_with"]
    text = (folder / "narrow.json").read_bytes()
    assert narrow["digest"] == hashlib.sha256(text).hexdigest()
    assert (narrow["apis"], narrow["verdict"]) == (["language"], "allow")
    assert (wide["apis"], wide["verdict"]) == (["hardwareConcurrency", "screenWidth"], "block")
    assert narrow["digest"][:12] in file["guarantee"]
    assert "both together keep this promise, too" in file["guarantee"]
    assert "both together are above the budget" in file["guarantee"]
    path, db = str(folder / "both.json"), ["--db", str(folder / "d.duckdb")]
    capsys.readouterr()
    assert run(["audit", "certificate", path, *db, "--format", "json"]) == 0
    claims = {row["claim"] for row in json.loads(capsys.readouterr().out)}
    assert {"union: allow", "union: block"} <= claims
    every = "vendor,colorDepth,language"
    for more in ([], db):
        assert run(["gate", path, "--want", every, *more]) == 0
        assert run(["gate", path, "--want", f"vendor,colorDepth,{','.join(WIDE)}", *more]) == 1
        assert run(["gate", path, "--want", "screenWidth", *more]) in {0, 3}
    capsys.readouterr()
    assert run(["check", path, *db, "--format", "json"]) == 0
    tested = [{*row["apis"]} for row in json.loads(capsys.readouterr().out)]
    assert {*every.split(",")} in tested
    assert run(["export", path, "--to", "json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert written["union_with"] == file["union_with"]
    # Not any allowed set, which gates let sites choose: that was not tested.
    assert "without the list of another decision." in written["scope"]
    assert f"recommended set may be read with that of {narrow['digest'][:12]}." in written["scope"]


def test_the_digest_is_of_what_was_read(folder: Path) -> None:
    """A pipe gives its content once, as a file that is swapped meanwhile gives its old one once."""
    content, (end, begin) = (folder / "narrow.json").read_bytes(), os.pipe()
    with os.fdopen(begin, "wb") as pipe:
        writer = threading.Thread(target=lambda: (pipe.write(content), pipe.close()))
        writer.start()
        file = decided(folder, "piped", "vendor,colorDepth", "--union-with", f"/dev/fd/{end}")
        writer.join()
    os.close(end)
    assert file["union_with"][0]["digest"] == hashlib.sha256(content).hexdigest()


def test_a_watch_tests_the_union_as_a_check_does(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each list alone holds for the users who come: only what both let a site read does not."""
    draw, logs, db = random.Random(9), tmp_path / "in", ["--db", str(tmp_path / "w.duckdb")]
    logs.mkdir()
    rows = [
        {"user": f"w{i}", **{name: f"{name}{draw.randrange(3)}" for name in NARROW}}
        | {"language": f"language{draw.randrange(60)}", **dict.fromkeys(WIDE, 1000)}
        for i in range(USERS)
    ]
    (logs / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    alone = decided(folder, "alone", "vendor,colorDepth")
    assert alone["recommended"] == ["colorDepth", "vendor"]
    for name, outcome in (("alone", 0), ("narrow", 0), ("both", 1)):
        path = str(folder / f"{name}.json")
        words = ["watch", str(logs), "--once", "--settle", "0", "--decision", path, *db]
        capsys.readouterr()
        assert run(words) == outcome, name
        told = json.loads(capsys.readouterr().out)
        assert run(["check", path, *db]) == outcome, name
    assert [one["apis"] for one in detailed(told)["changed"] if one["now"] == "block"] == [
        ["colorDepth", "language", "vendor"]
    ]


def test_a_union_that_was_refused_does_not_make_up_for_logs_without_the_list(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody has an API of the list: that the other list's are there says nothing of it."""
    logs, db = tmp_path / "in", ["--db", str(tmp_path / "w.duckdb")]
    logs.mkdir()
    draw = random.Random(3)
    rows = [
        {"user": f"w{day}-{i}", "time": f"2026-03-0{day}T10:00:00Z"}
        | {name: f"{name}{draw.randrange(3)}" for name in NARROW if day == 1}
        | dict.fromkeys(WIDE, 1000)
        for day in (1, 2)
        for i in range(USERS)
    ]
    (logs / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, *more in (("alone",), ("refused", *beside(folder, "wide"))):
        decided(folder, name, "vendor,colorDepth", *more)
        path = str(folder / f"{name}.json")
        words = ["watch", str(logs), "--once", "--settle", "0", "--by", "day", "--decision", path]
        assert run([*words, *db]) == 3, name
        assert run(["check", path, "--by", "day", *db]) == 3, name
    capsys.readouterr()


def test_whatever_a_file_says_no_gate_allows_a_union_that_holds_a_refused_set(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "contradicting.json"
    words = ["vendor,colorDepth,language,screenWidth,hardwareConcurrency", "--must", "vendor"]
    file = decided(folder, "contradicting", *words, *beside(folder, "wide"))
    file["union_with"][0]["verdict"] = "allow"
    path.write_text(json.dumps(file))
    made = read_decision(path)
    union = {*made.union(made.union_with[0].apis)}
    refused = [apis for apis in (*file["block"], *file["undecided"]) if union >= {*apis}]
    assert refused
    verdicts = {made.gate(apis)["verdict"] for apis in refused}
    capsys.readouterr()
    assert run(["export", str(path), "--to", "gate-js"]) == 0
    module = capsys.readouterr().out
    if NODE is not None:
        cases = [[file, [], apis] for apis in refused]
        verdicts |= {one["verdict"] for one in answers_in_javascript(tmp_path, module, cases)}
    assert "allow" not in verdicts


def test_a_gate_in_use_is_checked_with_its_unions_and_who_decides_again_keeps_them(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both, db = str(folder / "both.json"), ["--db", str(folder / "d.duckdb")]
    assert run(["export", both, "--to", "gate-js", "-o", str(tmp_path / "gate.mjs")]) == 0
    in_use = ["--list", str(tmp_path / "gate.mjs"), "--from", "gate-js"]
    capsys.readouterr()
    assert run(["check", both, *in_use, *db]) == 0
    assert "no candidate" not in capsys.readouterr().err
    draw, later = random.Random(5), tmp_path / "later.jsonl"
    rows = [
        {"user": f"x{i}", **{name: f"{name}{draw.randrange(3)}" for name in NARROW[1:]}}
        | {"language": f"language{draw.randrange(60)}", **dict.fromkeys(WIDE, 1000)}
        for i in range(USERS)
    ]
    later.write_text("".join(json.dumps(row) + "\n" for row in rows))
    stored_later = ["--db", str(tmp_path / "later.duckdb")]
    assert run(["ingest", str(later), *stored_later, "-q"]) == 0
    assert run(["check", both, *stored_later, "--all"]) == 1
    [advice] = [line for line in capsys.readouterr().err.splitlines() if "decide again:" in line]
    assert advice.count("--union-with") == 2


def detailed(told: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(told["details"]).read_text())
    return found


def test_all_gates_answer_on_the_union_alike(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In Python, to assistants, over HTTP and in JavaScript, exported or with the file itself."""
    path, db = folder / "both.json", folder / "d.duckdb"
    made, content = read_decision(path), json.loads(path.read_text())
    asked = [
        ["vendor", "colorDepth", "language"],
        ["vendor", "colorDepth", *WIDE],
        ["language"],
        ["language", "screenWidth"],
        ["vendor"],
        ["who"],
    ]
    expected = ["allow", "block", "allow", "unknown", "allow", None]
    answers = [None if apis == ["who"] else made.gate(apis) for apis in asked]
    assert [answer and answer["verdict"] for answer in answers] == expected
    assert Tools(db=db, decision=path).may_read(asked[1])["verdict"] == "block"
    capsys.readouterr()
    assert run(["export", str(path), "--to", "gate-js"]) == 0
    module = capsys.readouterr().out
    config = ServeConfig(db=db, decision=path, spool=tmp_path / "spool")
    with TestClient(service_app(config), base_url="http://localhost") as client:
        for apis, verdict in zip(asked, expected, strict=True):
            answer = client.get("/v1/gate", params={"want": ",".join(apis)})
            if verdict is None:
                assert answer.status_code == 404
            elif verdict != "unknown":  # else the users tell
                assert answer.json()["verdict"] == verdict, apis
    if NODE is not None:
        own = json.loads(module.split("DECISION = ")[1].strip().removesuffix(";"))
        for lists in (content, own):
            cases = [[lists, [], apis] for apis in asked]
            found = answers_in_javascript(tmp_path, module, cases)
            for answer, told in zip(answers, found, strict=True):
                if answer is None:
                    assert told == "RangeError"
                else:
                    assert told == {name: answer[name] for name in ("verdict", "because")}


@pytest.mark.each
@pytest.mark.parametrize(
    ("change", "claim"),
    [
        (lambda file: file["union_with"][1].update(verdict="allow"), "union: allow"),
        (lambda file: file["union_with"][0].update(verdict="undecided"), "union: undecided"),
        (lambda file: file["union_with"][0].update(apis=["vendor"]), "scope, unions"),
        (lambda file: file["union_with"][0].update(digest="0" * 64), "scope, unions"),
        (lambda file: file["union_with"].pop(), "scope, unions"),
        (lambda file: file.pop("union_with"), "scope, unions"),
        (lambda file: file["scope"].update(vocabulary=3), "scope, unions"),
        (lambda file: file.pop("scope"), ""),
        (lambda file: [file.pop(name) for name in ("scope", "wishes")], ""),
        (lambda file: file["scope"].update(others="block"), ""),
        (lambda file: file["scope"].update(about=["Navigator.vendor"]), ""),
        (lambda file: file["scope"].update(window_days=7), ""),
        (lambda file: file.update(universe=None, view_weight=None, level=0.05), ""),
        (lambda file: file.update(missing="drop"), ""),
        (lambda file: file["view"].update(transforms={"language": {"constant": "x"}}), ""),
    ],
)
def test_what_is_changed_of_unions_and_of_what_a_file_is_about_is_refused(
    change: Callable[[dict[str, Any]], Any],
    claim: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = json.loads((folder / "both.json").read_text())
    change(file)
    altered = folder / "altered.json"
    altered.write_text(json.dumps(file))
    capsys.readouterr()
    db = ["--db", str(folder / "d.duckdb")]
    audited = run(["audit", "certificate", str(altered), *db, "--format", "json"])
    assert audited in {1, 2}
    said = capsys.readouterr()
    if audited == 1:
        assert claim
        refused = {row["claim"] for row in json.loads(said.out) if row["answer"] == "not proved"}
        assert any(one.endswith(claim) for one in refused), refused
    else:
        assert len(said.err.splitlines()) <= 2, said.err
    assert run(["gate", str(altered), "--want", "vendor", *db]) == 2


@pytest.mark.each
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--fixed-question"], "fixed before"),
        (["--missing", "drop"], "lack a candidate"),
        (["--realised"], "realised"),
        (["--setting", "sample"], "--union-with"),
        (["--search-users", "500"], "--union-with"),
        (["--what-if", "language"], "changes its values"),
    ],
)
def test_what_no_test_covers_is_not_joined(
    more: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "--what-if" in more:
        (folder / "coarser.toml").write_text('[language]\nconstant = "x"\n')
        more = ["--what-if", str(folder / "coarser.toml")]
    capsys.readouterr()
    assert run(command(folder, "no", "vendor", *beside(folder, "narrow"), *more)) == 2
    assert said in capsys.readouterr().err
    if "--fixed-question" in more:  # the way out that the hint names
        file = decided(folder, "no", "vendor,language", *beside(folder, "narrow"), *more)
        assert file["union_with"][0]["verdict"] == "allow"


def test_users_without_an_api_of_both_tell_nothing_and_one_line_says_so(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = stored(tmp_path, [{"vendor": f"v{i % 3}"} for i in range(USERS)])
    capsys.readouterr()
    words = ["decide", *ASKED, "--db", db, "-q", *beside(folder, "narrow")]
    assert run([*words, "-o", str(tmp_path / "no.json")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "language" in line
    assert "the APIs of both" in line


def test_a_union_that_lost_its_verdict_is_refused_by_the_audit_and_allowed_by_no_gate(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = json.loads((folder / "both.json").read_text())
    file["union_with"][0]["verdict"] = "unknown"
    (folder / "untested.json").write_text(json.dumps(file))
    db = ["--db", str(folder / "d.duckdb")]
    capsys.readouterr()
    words = ["audit", "certificate", str(folder / "untested.json"), *db, "--format", "json"]
    assert run(words) == 1
    open_claims = [one for one in json.loads(capsys.readouterr().out) if one["answer"] != "proved"]
    assert [(one["claim"], one["answer"]) for one in open_claims] == [
        ("sentence", "not proved"),
        ("union: unknown", "cannot tell"),
    ]
    assert read_decision(folder / "untested.json").gate(["vendor", "language"])["verdict"] == (
        "unknown"
    )


def test_values_that_one_of_two_lists_changes_are_not_joined(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other list lets sites read them as they are, also where they are candidates here."""
    (folder / "wider.toml").write_text('[screenWidth]\nconstant = "x"\n')
    changed = ["--what-if", str(folder / "wider.toml")]
    capsys.readouterr()
    words = command(folder, "no", "vendor,screenWidth", *beside(folder, "wide"), *changed)
    assert run(words) == 2
    assert "screenWidth, and the question changes its values" in capsys.readouterr().err
    decided(folder, "changed", "screenWidth", *changed)
    assert run(command(folder, "no", "vendor", *beside(folder, "changed"))) == 2
    assert "changes the values of screenWidth" in capsys.readouterr().err


def test_who_decides_again_does_so_together_with_the_same_lists(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = folder / "both.json"
    resumed = command(folder, "resumed", "vendor,colorDepth", "--resume", str(both))
    assert run(resumed) == 2
    assert "--union-with" in capsys.readouterr().err
    decided(folder, "raw", "vendor,colorDepth", "--volatile", "raw")
    assert run(command(folder, "mixed", "vendor", *beside(folder, "raw"))) == 2
    assert "browsers randomise" in capsys.readouterr().err
    asked_again = decide_again(read_decision(both), folder / "d.duckdb")
    assert asked_again.count("--union-with OTHER.json") == 2


def test_files_of_before_are_read_without_what_they_lack(folder: Path) -> None:
    file = decided(folder, "before", "vendor,colorDepth")
    del file["scope"], file["wishes"]
    (folder / "old.json").write_text(json.dumps(file))
    assert read_decision(folder / "old.json").scope is None
    db = ["--db", str(folder / "d.duckdb")]
    assert run(["gate", str(folder / "old.json"), "--want", "vendor", *db]) == 0
    assert run(["audit", "certificate", str(folder / "old.json"), *db]) in {0, 3}


def test_names_that_came_after_the_first_log_have_no_level_of_its_names(tmp_path: Path) -> None:
    """Half of delta is for sets of the names of the first log: a union with another is none."""
    db = ["--db", str(tmp_path / "d.duckdb"), "-q"]
    for name, api in (("first", "language"), ("second", "vendor")):
        lines = [f"u{i},v{i % 3}" for i in range(USERS)]
        (tmp_path / f"{name}.csv").write_text("\n".join([f"user,{api}", *lines]) + "\n")
        assert run(["ingest", str(tmp_path / f"{name}.csv"), *db]) == 0
    decided(tmp_path, "other", "vendor")
    assert decided(tmp_path, "alone", "language")["first_names"] == 1
    both = decided(tmp_path, "both", "language", *beside(tmp_path, "other"))
    assert both["first_names"] == 0
    assert both["union_with"][0]["verdict"] == "allow"
    assert run(["audit", "certificate", str(tmp_path / "both.json"), *db[:2]]) == 0
