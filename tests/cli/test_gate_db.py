"""Verdicts on demand: what a stopped search did not settle, the users that were decided on do."""

from __future__ import annotations

import itertools
import json
import random
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.answers.decide import answer_gate
from fpmonitor.cli import run
from fpmonitor.decide import best, deciding
from fpmonitor.decide.files import read_decision
from fpmonitor.monitor import Monitor
from fpmonitor.render import decisions
from tests.asked import answer_of
from tests.stored import stored

if TYPE_CHECKING:
    from pathlib import Path
    from types import CodeType

APIS = {"a": 2, "b": 3, "c": 4, "d": 8, "e": 20, "f": 60}  # and their numbers of values


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users, a decision on them, and what its file would be had the search been stopped at once."""
    folder, draw = tmp_path_factory.mktemp("gate"), random.Random(1)
    models = [{api: str(draw.randrange(most)) for api, most in APIS.items()} for _ in range(150)]
    rows = [
        {
            api: value if draw.random() < 0.6 else str(draw.randrange(APIS[api]))
            for api, value in models[int(150 * draw.random() ** 3)].items()
        }
        for _ in range(4000)
    ]
    db = stored(folder, rows)
    whole = folder / "whole.json"
    asked = ["--budget", "20%", "--k", "5", "--quiet", "-o", str(whole)]
    assert run(["decide", "--db", db, *asked]) == 0
    nothing = {name: [] for name in ("allow", "block", "undecided", "recommended")}
    nothing |= {"complete": False, "utility": 0.0}
    (folder / "stopped.json").write_text(json.dumps(json.loads(whole.read_text()) | nothing))
    return folder


def gate(capsys: pytest.CaptureFixture[str], decision: Path, *options: str) -> dict[str, Any]:
    return dict(answer_of(capsys, "gate", str(decision), *options, "--exit-zero"))


def test_a_gate_that_is_asked_for_nothing_lets_nobody_through(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script whose variable is empty asks for nothing; an address of the service refuses it."""
    for nothing in ("", ",", '""'):
        for options in ([], ["--have", "a"], ["--exit-zero"]):
            assert run(["gate", str(folder / "whole.json"), "--want", nothing, *options]) == 2
            [line] = capsys.readouterr().err.splitlines()
            assert "--want: name at least one API" in line


def test_verdicts_on_demand_are_those_of_the_complete_borders(folder: Path) -> None:
    whole, stopped = (read_decision(folder / f"{name}.json") for name in ("whole", "stopped"))
    assert (whole.complete, stopped.complete) == (True, False)
    known, found = [], []
    with Monitor(folder / "d.duckdb") as monitor:
        users = monitor.population_as(stopped)
        for size in range(1, len(APIS) + 1):
            for apis in itertools.combinations(APIS, size):
                truth = whole.verdict(apis)[0]
                alone, asked = stopped.verdict(apis)[0], answer_gate(users, stopped, apis)
                assert alone in {truth, "unknown"}
                # Whoever asks for a set has it tested by itself; the borders test a part of it.
                assert (asked["verdict"] == "allow") == (truth == "allow"), apis
                assert asked["verdict"] == alone or alone == "unknown"
                known.append(alone)
                found.append(asked["verdict"])
    assert known.count("unknown") > 30
    assert {"allow", "block"} <= set(found)
    assert "unknown" not in found


def test_gate_asks_the_users_for_what_the_file_does_not_settle(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, stopped, db = folder / "whole.json", folder / "stopped.json", str(folder / "d.duckdb")
    pair = max(read_decision(whole).allow, key=len)
    asked = ["--want", ",".join(pair)]
    answer = gate(capsys, stopped, *asked)
    assert (answer["verdict"], answer["because"]) == ("unknown", [])
    assert "gate --db asks the users" in answer["reason"]
    answer = gate(capsys, stopped, *asked, "--db", db)
    assert (answer["verdict"], answer["because"]) == ("allow", list(pair))
    with Monitor(db) as monitor:
        users, decision = monitor.population_as(read_decision(stopped)), read_decision(stopped)
        answer_gate(users, decision, pair)
        began = time.process_time()
        for _ in range(20):
            answer_gate(users, decision, pair)
        assert time.process_time() - began < 20 * 0.1


def test_a_cut_list_does_not_say_that_the_search_was_stopped(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut, whole = tmp_path / "cut.json", read_decision(folder / "whole.json")
    db = str(folder / "d.duckdb")
    asked = ["--budget", "20%", "--k", "5", "--quiet", "-o", str(cut)]
    assert run(["decide", "--db", db, *asked, "--max-sets", "1"]) == 0
    left_out = next(apis for apis in whole.allow if read_decision(cut).verdict(apis)[1] == ())
    answer = gate(capsys, cut, "--want", ",".join(left_out))
    assert answer["verdict"] == "unknown"
    reason = "no listed set settles it, and not all sets are listed; gate --db asks the users"
    assert answer["reason"] == reason
    assert gate(capsys, cut, "--want", ",".join(left_out), "--db", db)["verdict"] == "allow"
    found = read_decision(cut)
    assert found.cut is not None
    assert (found.cut.allow, found.cut.undecided) == (len(whole.allow), len(whole.undecided))
    words = f"The lists hold 1 of {len(whole.allow)} allowed sets and 1 of "
    report = tmp_path / "report.html"
    assert run(["export", "--report", str(cut), "--db", db, "-o", str(report)]) == 0
    told = (decisions.decision(found).text("table", to_file=True), report.read_text())
    for text in (" ".join(text.split()) for text in told):
        assert words in text
        assert "stopped early" not in text
    assert "--max-sets lists more." in " ".join(told[0].split())
    assert run(["decide", "--db", db, *asked, "--max-sets", "1", "--time-limit", "0"]) == 0
    assert "stopped early" in decisions.counted(read_decision(cut))


def test_users_that_were_not_decided_on_answer_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for apis, why in ((APIS, ""), (["a", "b"], ""), (["strange"], "no log holds a")):
        rows = [{api: str(i % 3) for api in apis} for i in range(100)]
        (tmp_path / str(len(apis))).mkdir()
        other = stored(tmp_path / str(len(apis)), rows)
        assert run(["gate", str(folder / "stopped.json"), "--want", "a,b", "--db", other]) == 2
        told = capsys.readouterr().err
        assert f"does not hold the users that were decided on{why and f': {why};'}" in told
        assert "decide anew" in told


def end_in(code: CodeType, after: float) -> None:
    """Tell this process to end, some seconds after this thread was seen to run a function."""
    main = threading.get_ident()

    def end() -> None:
        while not any(
            frame.f_code is code for frame, _ in traceback.walk_stack(sys._current_frames()[main])
        ):
            time.sleep(0.01)
        time.sleep(after)
        signal.raise_signal(signal.SIGTERM)

    threading.Thread(target=end, daemon=True).start()


@pytest.mark.long
def test_what_is_told_of_a_decision_may_be_interrupted_and_it_is_kept(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, whole = tmp_path / "decision.json", read_decision(folder / "whole.json")
    monkeypatch.setattr(deciding, "_BIASES", deciding._BIASES[:1])
    options = ["--budget", "20%", "--k", "5", "--quiet", "-o", str(file), "--tolerance"]
    asked = ["decide", "--db", str(folder / "d.duckdb"), *options]
    end_in(deciding._bias_tolerated.__code__, 0.0)
    assert run(asked) == 0
    assert "--tolerance: interrupted, so not shown" in capsys.readouterr().err
    kept = read_decision(file)
    assert (kept.allow, kept.complete, kept.bias_tolerated) == (whole.allow, True, None)
    assert run([*asked, "--resume", str(file)]) == 0
    assert "interrupted" not in capsys.readouterr().err
    assert len(read_decision(file).bias_tolerated or ()) == len(whole.allow)


@pytest.mark.long
def test_a_search_that_is_told_to_end_writes_what_it_has_proven_and_goes_on_there(
    tmp_path: Path,
) -> None:
    draw = random.Random(2)
    name = "navigator.userAgentData.highEntropyValues.member{:02d}".format
    rows = [{name(i): str(draw.randrange(3)) for i in range(100)} for _ in range(800)]
    db, file = stored(tmp_path, rows), tmp_path / "decision.json"
    asked = ["--budget", "40%", "--k", "5", "--setting", "sample", "--quiet", "-o", str(file)]

    end_in(best._Dolls.grow.__code__, 0.2)
    assert run(["decide", "--db", db, *asked, "--time-limit", "9"]) == 0
    decision = read_decision(file)
    assert not decision.complete
    assert file.stat().st_size < 2_000_000
    assert decision.seconds < 9
    assert decision.utility is not None
    assert decision.utility_bound is not None
    assert 0 < decision.utility <= decision.utility_bound
    assert decision.search is not None
    assert decision.search.allow is not None
    assert run(["decide", "--db", db, *asked, "--time-limit", "0.5", "--resume", str(file)]) == 0
    resumed = read_decision(file)
    assert resumed.utility is not None
    assert resumed.utility_bound is not None
    assert decision.utility <= resumed.utility <= resumed.utility_bound <= decision.utility_bound
    with Monitor(db) as monitor:
        users = monitor.population_as(resumed)
        for apis in [*resumed.allow[:3], *resumed.block[:3], (name(0), name(1), name(2))]:
            judged = answer_gate(users, replace(resumed, allow=(), block=()), apis)["verdict"]
            assert resumed.verdict(apis)[0] in {judged, "unknown"}


def test_a_site_that_chooses_by_what_it_read_gets_at_most_the_sum_of_what_it_was_granted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of two sets is allowed, their union is not, and a gate that remembers grants one."""
    draw, rows = random.Random(2), []
    for _ in range(4000):
        system, rare = draw.choice("xy"), str(draw.randrange(10**6))
        other = {"x": "b", "y": "c"}[system]
        rows.append(
            {"a": system, "b": "0", "c": "0"} | ({other: rare} if draw.random() < 0.06 else {})
        )
    db, made = stored(tmp_path, rows), tmp_path / "two.json"
    asked = ["-k", "10", "-n", "4000", "--budget", "5%", "--fixed-question", "-q"]
    assert run(["decide", "--db", db, "--candidates", "a,b,c", *asked, "-o", str(made)]) == 0
    capsys.readouterr()
    verdicts = [
        gate(capsys, made, "--have", have, "--want", want)["verdict"]
        for have, want in (("a", "b"), ("a", "c"), ("a,b", "c"))
    ]
    assert verdicts[:2] == ["allow", "allow"]
    assert verdicts[2] != "allow"

    def exposed(groups: list[tuple[str, ...]]) -> float:
        sizes = Counter(groups)
        return sum(sizes[group] < 10 for group in groups) / len(groups)

    sets = [exposed([(row["a"], row[api]) for row in rows]) for api in "bc"]
    chosen = [(row["a"], row["b" if row["a"] == "x" else "c"]) for row in rows]
    assert max(sets) < 0.05 < exposed(chosen) <= sum(sets)
