"""No evidence: an API that data say nothing about is in no set, on no list, and named as that."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cli import run
from fpmonitor.decide.files import read_decision
from fpmonitor.monitor import Monitor
from fpmonitor.population.evidence import Seen, find_lack
from fpmonitor.population.stored import StoredSnapshot
from fpmonitor.refusals import kind_of
from tests.stored import stored

if TYPE_CHECKING:
    from collections.abc import Callable

USERS, K = 2_400, 10
THROWN = "TypeError: undefined is not a function"
# API -> what a user has, and what is wrong with it.
LACKING: dict[str, tuple[Callable[[int], Any], str]] = {
    "x:app:nobody": (lambda i: i if i < K - 1 else None, "few users"),
    "OfflineAudioContext.startRendering": (lambda _: "ERR_TIMEOUT", "errors"),
    "x:app:canvas": (lambda i: ("blocked by extension", THROWN)[i % 2], "errors"),
    "x:app:voices": (lambda i: f"Error: timed out after {500 + i % 7} ms", "errors"),
    "x:app:battery": (lambda i: ("n/a", "not supported", "-")[i % 3], "errors"),
    "x:app:camera": (
        lambda i: f"d{i % 9}" if i % 3 == 0 else "NotAllowedError: Permission denied",
        "errors",
    ),
    "x:app:tone": (lambda _: "plain", "one value"),
    "x:app:odd": (lambda i: "plain" if i >= K - 1 else f"odd {i}", "one value"),
    "x:app:flag": (lambda i: "on" if i % 2 else None, "one value"),
    "Navigator.userAgent": (lambda i: f"Firefox {140 + i % 3}", "few values"),
    "Screen.width": (lambda i: (1300, 1900)[i % 2], "few values"),
}
EVIDENT: dict[str, Callable[[int], Any]] = {
    "Navigator.appName": lambda _: "Netscape",
    "Navigator.doNotTrack": lambda i: "1" if i % 4 == 0 else None,
    "Navigator.platform": lambda i: ("Win32", "MacIntel", "iPhone")[i % 3],
    "Permissions.query#camera": lambda i: ("denied", "prompt", "granted")[i % 3],
    "Navigator.vendorSub": lambda _: "",
    "x:app:theme": lambda i: ("dark", "light")[i % 2],
}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> str:
    columns = {api: fill for api, (fill, _) in LACKING.items()} | EVIDENT
    rows = (
        {api: value for api, fill in columns.items() if (value := fill(i)) is not None}
        for i in range(USERS)
    )
    return stored(tmp_path_factory.mktemp("evidence"), rows)


@pytest.fixture(scope="module")
def file(db: str) -> str:
    path = str(Path(db).with_name("decision.json"))
    assert run(["decide", "--k", str(K), "--budget", "5%", "--db", db, "-q", "-o", path]) == 0
    return path


def test_each_kind_of_no_evidence_is_told_by_its_values_and_is_in_no_set(file: str) -> None:
    decision = read_decision(Path(file))
    assert decision.no_evidence == {api: lack for api, (_, lack) in LACKING.items()}
    assert set(decision.recommended) == set(EVIDENT)
    listed = {api for sets in (decision.allow, decision.block, decision.undecided) for api in sets}
    assert not listed.intersection(LACKING)
    assert set(decision.policy.candidates) == {*LACKING, *EVIDENT}
    assert "There is no evidence about" in decision.guarantee
    assert decision.to_json() == json.loads(Path(file).read_text())
    rows = [row["apis"] for row in decision.rows() if row["verdict"] == "no evidence"]
    assert sorted(rows) == [[api] for api in sorted(LACKING)]


def test_a_gate_answers_no_evidence_and_a_blocked_part_blocks_all_the_same(
    file: str, db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def asked(path: str, *apis: str) -> dict[str, Any]:
        capsys.readouterr()
        assert run(["gate", path, "--want", ",".join(apis), "--format", "json"]) != 2
        return dict(json.loads(capsys.readouterr().out))

    for api in LACKING:
        answer = asked(file, "Navigator.appName", api)
        assert (answer["verdict"], answer["because"]) == ("no evidence", [api])
        assert f"no evidence about {api}: " in answer["reason"]
        live = ["gate", file, "--db", db, "--want", api, "--format", "json"]
        run(live)
        assert json.loads(capsys.readouterr().out)["verdict"] == "no evidence"
    content = json.loads(Path(file).read_text())
    others = sorted(EVIDENT.keys() - {"x:app:theme"})
    content |= {"allow": [others], "block": [["x:app:theme"]], "undecided": []}
    content |= {"recommended": others, "utility": len(others), "utility_bound": len(others)}
    blocking = tmp_path / "blocking.json"
    blocking.write_text(json.dumps(content))
    assert asked(str(blocking), "x:app:theme", "x:app:tone")["verdict"] == "block"


def test_every_list_withholds_it_and_says_why(
    file: str, db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def exported(to: str) -> str:
        capsys.readouterr()
        run(["export", file, "--to", to, "-q"])
        return capsys.readouterr().out

    rows = {row["api"]: row for row in csv.DictReader(io.StringIO(exported("csv")))}
    assert all("no evidence" in rows[api]["reason"] for api in LACKING)
    listed = json.loads(exported("json"))
    assert set(listed["no_evidence"]) == set(LACKING)
    assert not {*listed["exposed"]}.union(*listed["allowed_sets"]) & set(LACKING)
    for rule in json.loads(exported("brave")):
        assert not {"user-agent", "audio"}.intersection(rule["exceptions"])
    page = tmp_path / "report.html"
    assert run(["export", "--report", file, "--db", db, "-o", str(page), "-q"]) == 0
    assert "no evidence: it has a single value" in page.read_text()


@pytest.mark.node
def test_the_gate_in_a_page_answers_alike(file: str, tmp_path: Path) -> None:
    assert run(["export", file, "--to", "gate-js", "-q", "-o", str(tmp_path / "gate.mjs")]) == 0
    script = (
        "import { gate } from './gate.mjs';"
        "console.log(JSON.stringify(gate(['Navigator.appName'], ['Screen.width'])))"
    )
    command = ["node", "--input-type=module", "-e", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"verdict": "no evidence", "because": ["Screen.width"]}


def test_what_is_assumed_is_taken_in_and_the_sentence_and_the_file_say_so(
    db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "assumed.json"
    asked = ["decide", "--k", str(K), "--budget", "5%", "--db", db, "-o", str(path)]
    assert run([*asked, "--assume", "x:app:tone", "--assume", "Screen.width"]) == 0
    said = capsys.readouterr().err
    decision = read_decision(path)
    assert decision.assumed == {"x:app:tone": "one value", "Screen.width": "few values"}
    assert {"x:app:tone", "Screen.width"} <= set(decision.recommended)
    assert "Screen.width (it has far fewer values than browsers return)" in decision.guarantee
    assert "no evidence about x:app:tone" not in said
    assert "no evidence about x:app:canvas" in said.replace("\n", " ")
    assert run([*asked, "-q", "--assume", "Navigator.nothing"]) == 2
    assert run([*asked, "-q", "--must", "Screen.width"]) == 2
    assert "--assume Screen.width" in capsys.readouterr().err
    assert run([*asked, "-q", "--candidates", "x:app:theme", "--assume", "x:app:tone"]) == 2


@pytest.mark.long
def test_candidates_that_were_fixed_stay_what_they_are(db: str, file: str, tmp_path: Path) -> None:
    path = tmp_path / "fixed.json"
    asked = ["decide", "--k", str(K), "--budget", "5%", "--db", db, "-o", str(path), "-q"]
    assert run([*asked, "--fixed-question"]) == 0
    fixed, usual = read_decision(path), read_decision(Path(file))
    assert fixed.policy.candidates == usual.policy.candidates
    assert fixed.no_evidence == usual.no_evidence
    assert fixed.proof is not None
    assert len(fixed.proof["allow"]["nats"]) == len(fixed.policy.candidates) + 1
    assert run(["audit", "certificate", str(path), "--db", db, "-o", str(tmp_path / "a")]) == 0


def test_nothing_is_allowed_where_there_is_no_evidence_about_any(
    db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none.json"
    asked = ["decide", "--k", str(K), "--budget", "5%", "--db", db, "-o", str(path)]
    assert run([*asked, "--candidates", "x:app:tone,x:app:canvas"]) == 0
    assert "no evidence about any of them" in capsys.readouterr().err
    assert read_decision(path).recommended == ()
    assert run([*asked, "-q", "--search-users", "1000"]) == 0
    assert not set(LACKING) & set(read_decision(path).recommended)


def test_a_search_goes_on_from_a_file_without_the_evidence(db: str, tmp_path: Path) -> None:
    path, again = tmp_path / "all.json", tmp_path / "again.json"
    asked = ["decide", "--k", str(K), "--budget", "5%", "--db", db, "-q"]
    everything = [word for api in LACKING for word in ("--assume", api)]
    assert run([*asked, *everything, "-o", str(path)]) == 0
    assert set(LACKING) & set(read_decision(path).recommended)
    assert run([*asked, "--resume", str(path), "-o", str(again)]) == 0
    assert set(read_decision(again).recommended) == set(EVIDENT)


def test_queries_judge_as_rows_in_memory_do(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Monitor(db) as monitor:
        apis = monitor.population().apis
        rows = monitor.population().lacks(apis, K)
    monkeypatch.setattr(StoredSnapshot, "in_memory", lambda *_: False)
    with Monitor(db) as monitor:
        assert monitor.population().lacks(apis, K) == rows


def test_what_fewer_than_k_users_have_never_shows() -> None:
    """The answer is the same for 0 to k - 1 users of rare values, for the owner as for others."""
    for rare in range(K):
        alone = [Seen(1)] * rare
        assert find_lack([Seen(900), *alone], K) == "one value"
        assert find_lack([Seen(900), Seen(50), *alone], K) is None
    assert find_lack([Seen(900), *[Seen(1)] * K], K) is None


@pytest.mark.parametrize(
    "text",
    [
        "ERR_TIMEOUT", "timeout", "Request timed out", "NotAllowedError", "ETIMEDOUT",
        "DOMException: The operation is insecure.", "Uncaught ReferenceError: x is not defined",
        "Cannot read properties of undefined (reading 'x')", "Permission denied",
        "NS_ERROR_FAILURE", '{"error":"blocked"}', "Failed to execute 'toDataURL' on 'Canvas'",
        "blocked by extension", "access denied", "Illegal invocation", "[object Error]",
        "not allowed in this context", "403 Forbidden", "gateway timeout",
    ],
)  # fmt: skip
def test_errors_and_refusals_are_told_by_their_forms(text: str) -> None:
    assert kind_of("value", text) == "error"


@pytest.mark.parametrize(
    "text",
    [
        "denied", "prompt", "unknown", "none", "disallowed", "", "unspecified", "0", "false", "[]",
        "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "4g",
        "ANGLE (Intel, Mesa Intel(R) UHD Graphics 620 (KBL GT2), OpenGL 4.6)", "timeout=5, max=99",
        "Europe/Berlin", "no-preference", "en-US,en;q=0.5", "hidden camera", "Terror Pro",
        '{"ogg":"probably","mp3":""}',
    ],
)  # fmt: skip
def test_words_that_browsers_return_are_values(text: str) -> None:
    assert kind_of("value", text) == "value"


def test_texts_of_an_enemy_take_no_time() -> None:
    for text in ("_" * 9999, "a " * 9999, "." * 9999, "time" * 9999, "'" * 9999, "[" * 9999):
        kind_of("value", text)


def test_of_sets_of_equal_utility_the_one_that_exposes_least_is_recommended(
    tmp_path: Path,
) -> None:
    """Alone each is allowed, together they are not: the alphabet decides nothing."""
    rows = (
        {"A.a": f"a{i}" if i % 12 == 0 else "a", "Z.z": f"z{i}" if i % 20 == 1 else "z"}
        for i in range(USERS)
    )
    db, path = stored(tmp_path, rows), tmp_path / "d.json"
    for setting, budget in (("population", "13%"), ("sample", "10%")):
        asked = ["decide", "--k", str(K), "--budget", budget, "--db", db, "-q", "-o", str(path)]
        assert run([*asked, "--setting", setting]) == 0
        decision = read_decision(path)
        assert decision.allow == (("A.a",), ("Z.z",))
        assert decision.recommended == ("Z.z",)
