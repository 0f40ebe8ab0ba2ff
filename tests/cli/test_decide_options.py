"""Options of decide: how users are looked at, what counts them, going on from an earlier file."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from fpmonitor.answers.demand import weigh_by_demand
from fpmonitor.answers.preview import preview_sets
from fpmonitor.cli import run
from fpmonitor.decide import deciding
from fpmonitor.decide.decision import Decision
from fpmonitor.decide.files import read_decision
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.export.lists import api_actions
from fpmonitor.monitor import Monitor
from fpmonitor.population.memory import has_room_for
from fpmonitor.population.views import View
from fpmonitor.store.demand import read_sites
from fpmonitor.store.snapshot import Window
from fpmonitor.store.transforms import Transform
from tests.stored import stored

if TYPE_CHECKING:
    from collections.abc import Sequence

CANDIDATES = (
    "Navigator.hardwareConcurrency",
    "Navigator.maxTouchPoints",
    "Navigator.userAgent",
    "Screen.height",
    "Screen.width",
    "Window.devicePixelRatio",
)
SCHEMA = json.loads(
    (Path(__file__).parents[2] / "fpmonitor" / "export" / "decision.schema.json").read_text()
)


@pytest.fixture(scope="module")
def database(fixture_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copy(fixture_database, tmp_path_factory.mktemp("options")))


def decide(path: Path, *, view: View | None = None, **options: Any) -> Decision:
    with Monitor(path, view=view) as monitor:
        settings = {"k": 10, "population": 20_000, "budget": 0.05, "candidates": CANDIDATES}
        return monitor.decide(**{**settings, **options})


def facts(decision: Decision) -> Decision:
    return replace(decision, seconds=0.0, engine=None, evaluated=0)


def write_users(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_list_says_what_was_left_out_on_request(database: Path) -> None:
    decision = decide(database, never=["Screen.height"], must=["Navigator.maxTouchPoints"])
    reasons = {entry.api: entry.reason for entry in api_actions(decision)}
    assert [api for api, reason in reasons.items() if "--never" in reason] == ["Screen.height"]


def test_a_must_that_is_blocked_leaves_nothing_out_on_request(database: Path) -> None:
    candidates = ["FontFaceSet.check", "Screen.height"]
    decision = decide(database, candidates=candidates, must=["FontFaceSet.check"])
    assert decision.block == (("FontFaceSet.check",),)
    reasons = [entry.reason for entry in api_actions(decision)]
    assert reasons == ["above the budget alone", "undecided alone"]


def test_a_source_that_is_no_text_is_refused(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    apis = ["--apis", "Screen.height"]
    assert run(["exposure", *apis, "--db", str(database), "--source", "\udcff"]) == 2
    assert "not a text" in capsys.readouterr().err


# ---- The view -----------------------------------------------------------------------------------


def test_a_decision_keeps_how_its_users_were_looked_at(database: Path, tmp_path: Path) -> None:
    view = View(
        volatile="left-out",
        drop_automation=True,
        transforms={"Screen.height": Transform(round=100), "Screen.width": Transform(constant="0")},
    )
    made = decide(database, view=view)
    path = tmp_path / "decision.json"
    path.write_text(json.dumps(made.to_json()))
    jsonschema.validate(made.to_json(), SCHEMA)
    assert read_decision(path) == made
    assert made.view == view


def test_a_decision_file_without_a_view_is_read_as_before(database: Path) -> None:
    content = decide(database).to_json()
    for member in ("view", "utility", "utility_bound", "engine"):
        del content[member]
    read = Decision.from_json(content)
    assert read.view == View()
    assert read.source is None


@pytest.mark.parametrize("volatile", ["sometimes", 3, None])
def test_a_decision_file_with_another_view_is_refused(database: Path, volatile: object) -> None:
    content = decide(database).to_json()
    content["view"]["volatile"] = volatile
    with pytest.raises(InputError, match="volatile"):
        Decision.from_json(content)


def test_check_looks_at_the_users_as_the_decision_did(tmp_path: Path) -> None:
    # Every canvas differs, as in a browser that randomises it; the version alone is harmless.
    rng = random.Random(5)
    rows = [
        {
            "user": f"u{i}",
            "Navigator.userAgent": f"Mozilla/5.0 Firefox/{rng.randrange(100, 102)}.{i}",
        }
        for i in range(400)
    ]
    path = tmp_path / "users.duckdb"
    with Monitor(path, create=True) as monitor:
        monitor.ingest([str(write_users(tmp_path / "users.jsonl", rows))])
    coarse = View(transforms={"Navigator.userAgent": Transform(major=True)})
    options = {"candidates": ["Navigator.userAgent"], "setting": "sample", "population": None}
    exact, made = decide(path, **options), decide(path, view=coarse, **options)
    assert (exact.allow, made.allow) == ((), (("Navigator.userAgent",),))
    with Monitor(path) as monitor:
        assert monitor.check(made).verdicts == {("Navigator.userAgent",): "allow"}
        [seen] = preview_sets(monitor.population_as(made), made, [["Navigator.userAgent"]])
    assert seen.empirical == 0


def test_decide_takes_one_source_and_check_the_same(tmp_path: Path) -> None:
    rows = [
        {"user": f"{source}{i}", "source": source, "A.a": str(i % 2) if source == "old" else str(i)}
        for source in ("old", "new")
        for i in range(50)
    ]
    path = tmp_path / "sources.duckdb"
    with Monitor(path, create=True) as monitor:
        monitor.ingest([str(write_users(tmp_path / "sources.jsonl", rows))])
    made = tmp_path / "made.json"
    arguments = ["--db", str(path), "--setting", "sample", "--budget", "0.05", "--quiet"]
    assert run(["decide", *arguments, "--source", "old", "-o", str(made)]) == 0
    decision = read_decision(made)
    assert (decision.source, decision.users, decision.allow) == ("old", 50, (("A.a",),))
    assert run(["check", str(made), "--db", str(path)]) == 0
    with Monitor(path, window=Window(source="new")) as monitor:
        assert monitor.check(replace(decision, source=None)).verdicts == {("A.a",): "block"}


@pytest.mark.parametrize("command", ["--rank", "--curve"])
def test_rank_and_curve_take_a_view(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people = [{"user": f"u{i}", "A.a": "x", "Navigator.userAgent": "Firefox"} for i in range(30)]
    bots = [
        {"user": f"b{i}", "A.a": "y", "Navigator.userAgent": "HeadlessChrome"} for i in range(9)
    ]
    path = tmp_path / "bots.duckdb"
    with Monitor(path, create=True) as monitor:
        monitor.ingest([str(write_users(tmp_path / "bots.jsonl", [*people, *bots]))])
    arguments = ["exposure", command, "--apis", "A.a", "--db", str(path), "--format", "json"]
    users = []
    for extra in ([], ["--drop-automation"]):
        capsys.readouterr()
        assert run([*arguments, *extra]) == 0
        captured = capsys.readouterr()
        users.append(json.loads(captured.out)["users"])
    assert users == [39, 30]
    assert "look automated" in captured.err


# ---- What counts the groups ---------------------------------------------------------------------


@pytest.mark.parametrize("setting", ["population", "sample"])
def test_memory_and_duckdb_decide_alike(database: Path, setting: str) -> None:
    made = {
        engine: decide(database, setting=setting, engine=engine) for engine in ("memory", "duckdb")
    }
    assert {engine: decision.engine for engine, decision in made.items()} == {
        "memory": "memory",
        "duckdb": "duckdb",
    }
    assert facts(made["memory"]) == facts(made["duckdb"])


def test_rows_go_to_memory_only_where_they_have_room(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert has_room_for(20_000, 20)
    assert not has_room_for(10**12, 20)
    monkeypatch.setattr("fpmonitor.population.stored.has_room_for", lambda *_: False)
    assert decide(database).engine == "duckdb"


# ---- Any choice ---------------------------------------------------------------------------------


@pytest.mark.long
def test_the_command_covers_any_choice_unless_the_question_was_fixed(
    database: Path, tmp_path: Path
) -> None:
    made = tmp_path / "made.json"
    arguments = ["decide", "--budget", "0.05", "--population", "20000", "--db", str(database)]
    arguments += ["--candidates", ",".join(CANDIDATES), "-o", str(made)]
    for option, universe, words in (
        ([], 1000, "whichever APIs and view of the users are chosen after looking"),
        (
            ["--fixed-question"],
            None,
            "this question and its view of the users were fixed",
        ),
    ):
        assert run([*arguments, *option]) == 0
        decision = read_decision(made)
        assert decision.universe == universe
        assert words in decision.guarantee
        assert decision.proof is not None
        assert set(decision.proof) == {"allow", "block"}


# ---- Going on from a file -----------------------------------------------------------------------


def test_a_search_that_was_stopped_goes_on_to_the_same_decision(
    database: Path, tmp_path: Path
) -> None:
    whole = decide(database)
    first = decide(database, max_size=1)
    assert not first.complete
    assert first.utility is not None
    assert first.utility_bound is not None
    assert first.utility <= len(whole.recommended) <= first.utility_bound
    path = tmp_path / "first.json"
    path.write_text(json.dumps(first.to_json()))
    resumed = decide(database, known=read_decision(path))
    assert facts(resumed) == facts(whole)
    assert resumed.evaluated <= whole.evaluated
    assert (whole.utility, whole.utility_bound) == (len(whole.recommended),) * 2


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"budget": 0.06}, "budget"),
        ({"population": 10_000}, "population"),
        ({"candidates": CANDIDATES[:4]}, "candidates"),
        ({"setting": "sample"}, "setting"),
        ({"view": View(drop_automation=True, volatile="raw")}, "data"),
    ],
)
def test_only_the_same_question_can_be_resumed(
    database: Path, changed: dict[str, Any], word: str
) -> None:
    known = decide(database, max_size=1)
    with pytest.raises(InputError, match=word):
        decide(database, known=known, **changed)


INTERRUPTED = """
import os, signal, sys
from fpmonitor.cli import run
from fpmonitor.decide.search import _BorderSearch

judge, questions = _BorderSearch.judge, []

def interrupted(*arguments):
    questions.append(1)
    if len(questions) == 30:  # as if Ctrl-C was pressed in the middle of the search
        os.kill(os.getpid(), signal.SIGINT)
    return judge(*arguments)

_BorderSearch.judge = interrupted
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.long
def test_an_interrupt_leaves_a_valid_decision_file(tmp_path: Path) -> None:
    rng = random.Random(3)
    rows = [
        {"user": f"u{i}"} | {f"I{j:02}.a": str(int(rng.paretovariate(0.9))) for j in range(24)}
        for i in range(1000)
    ]
    db, made = tmp_path / "wide.duckdb", tmp_path / "made.json"
    with Monitor(db, create=True) as monitor:
        monitor.ingest([str(write_users(tmp_path / "wide.jsonl", rows))])
    script = tmp_path / "interrupted.py"
    script.write_text(INTERRUPTED, encoding="utf-8")
    arguments = ["--db", str(db), "--setting", "sample", "--budget", "0.6", "-o", str(made)]
    done = subprocess.run(
        [sys.executable, "-P", script, "decide", *arguments, "--quiet"],
        cwd=tmp_path,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    decision = read_decision(made)
    jsonschema.validate(decision.to_json(), SCHEMA)
    assert not decision.complete
    assert decision.allow
    assert decision.utility is not None
    assert decision.utility_bound is not None
    assert 0 < decision.utility <= decision.utility_bound <= 24


# ---- Weights from demand ------------------------------------------------------------------------


def test_weights_of_demand_count_the_sites_on_which_an_api_is_read(tmp_path: Path) -> None:
    rows = [
        {"user": f"u{i}", "Screen.width": str(i % 2), "Screen.height": str(i)} for i in range(30)
    ]
    db = tmp_path / "demand.duckdb"
    crawl = [
        {
            "initialUrl": f"https://site{i}.example/",
            "data": {
                "apis": {
                    "callStats": {
                        "https://tracker.example/t.js": {
                            "Screen.prototype.width": 3,
                            **({"Screen.prototype.height": 1} if i == 0 else {}),
                        }
                    }
                }
            },
        }
        for i in range(3)
    ]
    with Monitor(db, create=True) as monitor:
        monitor.ingest([str(write_users(tmp_path / "users.jsonl", rows))])
        with pytest.raises(UndecidableError, match="API calls"):
            weigh_by_demand(monitor.population(), read_sites(monitor.database))
        for i, result in enumerate(crawl):
            path = tmp_path / f"site{i}.json"
            path.write_text(json.dumps(result))
            monitor.store_demand([str(path)])
        weights = weigh_by_demand(monitor.population(), read_sites(monitor.database))
        assert weights == {"Screen.height": 1.0, "Screen.width": 3.0}
    made = tmp_path / "made.json"
    arguments = ["--db", str(db), "--setting", "sample", "--budget", "0.05", "--quiet"]
    assert run(["decide", *arguments, "--weights", "demand", "-o", str(made)]) == 0
    assert (read_decision(made).recommended, read_decision(made).utility) == (("Screen.width",), 3)


def test_settings_that_do_not_apply_are_passed_over_and_flags_are_refused(
    database: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["decide", "--db", str(database), "--budget", "5%", "--quiet", "-o", "d.json"]
    few = ["--candidates", "Screen.height,Screen.width", "--search-users", "1000"]
    monkeypatch.setattr(deciding, "_BIASES", deciding._BIASES[:1])
    settings = "[decide]\nconfirm = 5\ndesign-share = '30%'\nmax-sets = 9\ntolerance = true\n"
    Path("fpmonitor.toml").write_text(settings, encoding="utf-8")
    assert run([*asked, *few[:2]]) == 0
    assert run([*asked, *few]) == 0
    assert read_decision(Path("d.json")).confirmation is not None
    for flags in (
        [*few[:2], "--confirm", "5"],
        [*few[:2], "--design-share", "30%"],
        [*few, "--max-sets", "9"],
    ):
        assert run([*asked, *flags]) == 2
        assert flags[-2].lstrip("-") in capsys.readouterr().err
    Path("fpmonitor.toml").write_text("[decide]\nmust = 'Screen.height'\n", encoding="utf-8")
    assert run([*asked, *few]) == 2, "what must hold of the answer is not passed over"


@pytest.mark.each
@pytest.mark.parametrize("name", ["last", "auto"])
def test_a_column_called_like_a_default_is_asked_for(name: str, tmp_path: Path) -> None:
    rows = ({name: f"{i % 2}", "vendor": f"{i % 3}", "platform": f"{i % 4}"} for i in range(600))
    db, made = stored(tmp_path, rows), tmp_path / "made.json"
    asked = ["decide", "--db", db, "--budget", "20%", "--k", "5", "-q", "-o", str(made)]
    exact = [*asked, "--setting", "sample"]
    assert run([*exact, "--candidates", name]) == 0
    assert read_decision(made).allow == ((name,),)
    assert run([*exact, "--must", name]) == 0
    assert read_decision(made).must == (name,)
    assert run([*exact, "--never", name]) == 0
    assert read_decision(made).never == (name,)
    assert run([*asked, "-n", "600", "--candidates", "vendor", "--given", name]) == 0
    assert read_decision(made).policy.cohorts.given == (name,)
