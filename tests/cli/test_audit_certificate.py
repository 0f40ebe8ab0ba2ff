"""A sceptic proves a decision again from its file, a database or count spectra."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.decide.decision import Decision
from fpmonitor.decide.guarantee import guarantee
from fpmonitor.estimate import averaging, limits, looks
from fpmonitor.estimate.looks import decision_criteria
from fpmonitor.estimate.programme import sharpest_weights
from fpmonitor.monitor import Monitor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

USERS = 6_000


def table() -> pl.DataFrame:
    rng = np.random.default_rng(4)
    return pl.DataFrame(
        {
            "user": [f"u{i}" for i in range(USERS)],
            "language": rng.zipf(2.2, USERS).clip(max=12),
            "width": rng.zipf(1.5, USERS).clip(max=40),
            "height": rng.integers(0, 25, USERS),
            "canvas": rng.integers(0, 3_000, USERS),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit")
    database = folder / "x.duckdb"
    with Monitor(database, create=True) as monitor:
        monitor.ingest(table())
    for name, population in (("decision", USERS), ("large", 40 * USERS)):
        asked = ["--k", "10", "--budget", "0.1", "--population", str(population)]
        output = str(folder / f"{name}.json")
        assert run(["decide", "--db", str(database), *asked, "-q", "-o", output]) == 0
    return folder


def audit(*arguments: object) -> int:
    return run(["audit", "certificate", *map(str, arguments)])


def answers(text: str) -> list[tuple[str, str]]:
    return [(row["claim"], row["answer"]) for row in json.loads(text)]


@pytest.mark.parametrize("name", ["decision.json", "large.json"])
def test_a_decision_is_proved_from_its_file_the_database_and_spectra(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    decision, spectra = folder / name, folder / "spectra.json"
    listed = json.loads(decision.read_text(encoding="utf-8"))
    sets = [verdict for verdict in ("allow", "block", "undecided") for _ in listed[verdict]]
    assert {"allow", "block"} <= set(sets)
    claims = ("proof of allow", "proof of block", "sentence", "lists", "utility", "members")
    proofs = [(claim, "proved") for claim in claims]
    assert audit(decision) == 3
    assert answers(capsys.readouterr().out) == [*proofs, ("verdicts", "cannot tell")]
    of_users = (
        "names",
        "coverage",
        "masked",
        "unit",
        "account",
        "made",
        "engine",
        "users_possible",
    )
    of_users = (*of_users, "registered", "level", "first look", "names of the first log")
    of_users = (*of_users, "asked before")
    all_proved = [(claim, "proved") for claim in (*claims, *of_users, *sets)]
    assert audit(decision, "--db", folder / "x.duckdb") == 0
    assert answers(capsys.readouterr().out) == all_proved
    users = ("--db", folder / "x.duckdb", "--write-spectra", spectra)
    assert audit(decision, *users, "--unsafe-counts") == 0
    assert audit(decision, "--spectra", spectra) == 0
    written, read = capsys.readouterr().out.split("]\n[")
    assert answers(written + "]") == answers("[" + read) == all_proved


def test_a_file_is_resumed_by_tests_made_anew_whoever_made_its_own(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["decide", "--db", str(folder / "x.duckdb"), "--k", "10", "--budget", "0.1", "-q"]
    first, resumed = tmp_path / "first.json", tmp_path / "resumed.json"

    def otherwise(*arguments: Any, **options: Any) -> Any:
        weights = sharpest_weights(*arguments, **options)  # as an older SciPy might have ended
        return weights * np.linspace(1.02, 0.98, weights.size)

    with monkeypatch.context() as patch:
        patch.setattr(averaging, "sharpest_weights", otherwise)
        for module, name in ((looks, "_menu"), (limits, "_menus")):
            patch.setattr(module, name, inspect.unwrap(getattr(module, name)))
        assert run([*asked, "--max-size", "1", "-o", str(first)]) == 0
    stopped = json.loads(first.read_text(encoding="utf-8"))
    # What it says to be allowed is blocked.
    whole = json.loads((folder / "decision.json").read_text(encoding="utf-8"))
    stopped.update(allow=whole["block"], block=[], undecided=[], recommended=[], utility=0.0)
    first.write_text(json.dumps(stopped), encoding="utf-8")
    assert run([*asked, "--resume", str(first), "-o", str(resumed)]) == 0
    found = json.loads(resumed.read_text(encoding="utf-8"))
    told = ("allow", "block", "undecided", "recommended", "complete", "proof")
    assert {name: found[name] for name in told} == {name: whole[name] for name in told}
    assert audit(resumed, "--db", folder / "x.duckdb") == 0


def test_spectra_that_may_be_handed_on_hold_no_count_below_k_and_say_nothing_wrong(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decision, spectra = folder / "decision.json", folder / "pooled.json"
    code = audit(decision, "--db", folder / "x.duckdb", "--write-spectra", spectra)
    found = answers(capsys.readouterr().out)
    assert code in {0, 3}
    assert {answer for _, answer in found} == {0: {"proved"}, 3: {"proved", "cannot tell"}}[code]
    assert ("allow", "proved") in found
    assert ("block", "proved") in found
    for one in json.loads(spectra.read_text(encoding="utf-8"))["spectra"]:
        assert sum(users for _, _, users in one["groups"]) == USERS
        for first, _, users in one["groups"]:
            assert users >= 10 or (first, users) == (1, 9)


@pytest.mark.parametrize(
    "facts", [{"asked_on": ["0001-01-01", "9999-12-31"]}, {"users_needed": [10**400]}]
)
def test_no_number_or_day_in_spectra_stops_the_audit(
    facts: dict[str, Any], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decision, spectra = folder / "decision.json", tmp_path / "spectra.json"
    assert audit(decision, "--db", folder / "x.duckdb", "--write-spectra", spectra) in {0, 3}
    content = json.loads(spectra.read_text(encoding="utf-8"))
    content["facts"].update(facts)
    spectra.write_text(json.dumps(content), encoding="utf-8")
    capsys.readouterr()
    assert audit(decision, "--spectra", spectra) in {0, 1, 3}
    assert "traceback" not in capsys.readouterr().err.lower()


def _move(listed: dict[str, Any], source: str, target: str) -> None:
    listed[target] = sorted([*listed[target], listed[source].pop()])


def _registered(listed: dict[str, Any], level: float) -> None:
    """Claim a level that nobody registered, by proofs that agree with it."""
    listed.update(registered=True, view_weight=None, level=level, allow=[], recommended=[])
    for side in ("allow", "block"):
        proof = listed["proof"][side]
        proof.update(delta=level, nats=[proof["nats"][0], *[1e300] * 4])


def _level(listed: dict[str, Any], delta: float, universe: int, weight: float | None) -> None:
    """Claim a larger level, or fewer APIs to choose from, by proofs that agree with it."""
    policy = listed["policy"]
    question = {name: policy[name] for name in ("k", "population", "budget")}
    criteria = decision_criteria(users=USERS, **question, delta=delta, universe=universe)
    proof = criteria.proofs(len(policy["candidates"]))
    listed.update(proof=proof, level=delta, universe=universe, view_weight=weight)
    listed.update(allow=[], recommended=[])


CHANGES: list[Callable[[dict[str, Any]], None]] = [
    lambda listed: _move(listed, "block", "allow"),
    lambda listed: _move(listed, "allow", "block"),
    lambda listed: _move(listed, "undecided", "allow"),
    lambda listed: _move(listed, "undecided", "block"),
    lambda listed: _move(listed, "block", "undecided"),
    lambda listed: listed["policy"].update(k=listed["policy"]["k"] + 1),
    lambda listed: listed["policy"].update(budget=listed["policy"]["budget"] * 0.99),
    lambda listed: listed["policy"].update(delta=listed["policy"]["delta"] * 0.99),
    lambda listed: listed["policy"].update(population=USERS + 1),
    lambda listed: listed["data"].update(users=USERS - 1),
    lambda listed: listed["proof"]["allow"]["nats"].__setitem__(1, 0.0),
    lambda listed: listed["proof"].update(allow=listed["proof"]["block"]),
    lambda listed: listed.update(universe=None),
    lambda listed: listed["proof"]["block"].update(nats=[0.0, 0.0]),
    lambda listed: listed["proof"]["allow"].update(delta="x"),
    lambda listed: listed["proof"]["allow"]["designs"][0].pop("clock"),
    lambda listed: listed.update(level=listed["level"] * 1.01),
    lambda listed: listed.update(view_weight=0.9, level=listed["policy"]["delta"] * 0.9),
    lambda listed: listed.update(registered=True, view_weight=None, level=0.02),
    lambda listed: _registered(listed, 1e-320),
    lambda listed: listed.update(guarantee="Nobody can be told from anybody."),
    lambda listed: _level(listed, 0.05, 1000, None),
    lambda listed: _level(listed, 0.025, 4, 0.5),
    lambda listed: listed["proof"]["allow"]["designs"][3].update(starts=[]),
]


def _said(listed: dict[str, Any], **members: Any) -> None:
    """Change members, and write the sentence that then follows."""
    listed.update(members)
    listed["scope"]["about"] = [*Decision.from_json(listed | {"scope": None}).about]
    listed["guarantee"] = guarantee(Decision.from_json(listed))


def _viewed(listed: dict[str, Any], **members: Any) -> None:
    listed["view"].update(members)
    _said(listed)


CHANGES += [
    lambda listed: _said(listed, names={"language": "Navigator.userAgent"}),
    lambda listed: _said(listed, coverage=dict.fromkeys(listed["coverage"], 0.999)),
    lambda listed: _said(listed, coverage={}),
    lambda listed: _viewed(listed, masked=["canvas"]),
    lambda listed: _viewed(listed, drop_automation=True),
    lambda listed: _said(listed, registered=True, level=listed["policy"]["delta"] / 2),
    lambda listed: listed.update(block=[]),
    lambda listed: listed.update(undecided=[]),
    lambda listed: listed.update(allow=[], recommended=[], utility=0.0),
]


CHANGES += [
    # What no test of a set looks at, and screens say all the same.
    lambda listed: listed.update(made="2000-01-01"),
    lambda listed: listed.update(made="2100-01-01"),
    lambda listed: listed["data"].update(days=["2020-01-01", "2020-01-02"]),
    lambda listed: listed["data"].update(account={"API": 400}),
    lambda listed: _said(listed, data=listed["data"] | {"unit": "visitor"}),
    lambda listed: listed.update(users_needed=[1] * len(listed["undecided"])),
    lambda listed: listed.update(users_range=[[1, 2]] * len(listed["undecided"])),
    lambda listed: listed["proof"]["block"].update(
        monotone=not listed["proof"]["block"]["monotone"]
    ),
    lambda listed: listed["proof"]["allow"].update(monotone=False),
    lambda listed: listed.update(utility_bound=listed["utility"] + 1),
    lambda listed: listed.update(utility=9.0, utility_bound=9.0),
    lambda listed: listed.update(weights={listed["recommended"][0]: 7.0}),
    lambda listed: listed.update(recommended=[], utility=0.0),
    lambda listed: listed.update(engine="http://elsewhere"),
    # Members of the format that stand where no reader looks for them.
    lambda listed: listed.update(source="fingerprintjs 5"),
    lambda listed: listed.update(masked=["canvas"]),
    lambda listed: listed.update(days=["2026-01-01", "2026-01-02"]),
    lambda listed: listed.update(confirmation=None),
    lambda listed: listed["policy"].update(note="checked by a lawyer"),
    lambda listed: listed["view"].update(certified=True),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_file_is_refused(
    change: Callable[[dict[str, Any]], None],
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    listed = json.loads((folder / "decision.json").read_text(encoding="utf-8"))
    change(listed)
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(listed), encoding="utf-8")
    code = audit(changed, "--db", folder / "x.duckdb")
    told = capsys.readouterr()
    assert code in {1, 2}
    if code == 1:
        assert "not proved" in dict(map(reversed, answers(told.out)))
    else:
        assert "not a decision" in told.err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda listed: listed.update(recommended=listed["block"][0]), "`recommended`"),
        (lambda listed: listed["allow"].append(listed["block"][0]), "`allow`"),
        (lambda listed: listed["undecided"].append(listed["allow"][0][:1]), "`undecided`"),
        (lambda listed: listed["block"].append([]), "`block`"),
        (lambda listed: listed["names"].update(stranger="Navigator.userAgent"), "stranger"),
        (lambda listed: listed.update(utility=99.0), "`utility`"),
        (lambda listed: listed["proof"]["allow"].update(links=["x"]), "links"),
        (
            lambda listed: listed["proof"]["allow"].update(links=[{"after": -3, "users": 5}]),
            "links",
        ),
        (lambda listed: listed["proof"]["allow"].update(factors=5), "factors"),
        (lambda listed: listed["proof"]["block"]["designs"][0].update(factors=None), "factors"),
        (lambda listed: listed["proof"]["allow"].update(cohorts=5), "cohorts"),
        (lambda listed: listed.update(universe=200_000), "`universe`"),
    ],
)
def test_a_file_that_contradicts_itself_is_read_by_no_command(
    change: Callable[[dict[str, Any]], object],
    said: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    listed = json.loads((folder / "decision.json").read_text(encoding="utf-8"))
    listed.setdefault("names", {})
    change(listed)
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(listed), encoding="utf-8")
    for command, options in (
        (["audit", "certificate"], []),
        (["check"], ["--db", str(folder / "x.duckdb")]),
        (["gate"], ["--want", "language"]),
        (["export"], ["--to", "csv"]),
    ):
        assert run([*command, str(changed), *options]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert said in told.err


def test_a_gate_with_its_database_believes_no_list(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = json.loads((folder / "decision.json").read_text(encoding="utf-8"))
    blocked = listed["block"][0]
    listed.update(allow=[blocked], block=[], undecided=[], recommended=blocked)
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(listed), encoding="utf-8")
    asked = ["gate", str(changed), "--want", ",".join(blocked), "--db", str(folder / "x.duckdb")]
    assert run(asked) == 2
    assert "not to be trusted" in capsys.readouterr().err
    listed = json.loads((folder / "decision.json").read_text(encoding="utf-8"))
    _viewed(listed, masked=["canvas"])
    changed.write_text(json.dumps(listed), encoding="utf-8")
    assert run(asked) == 2
    assert "`masked`" in capsys.readouterr().err


def test_a_list_carries_the_sentence_that_follows_whatever_the_file_says(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = json.loads((folder / "decision.json").read_text(encoding="utf-8"))
    right = listed["guarantee"]
    listed["guarantee"] = "Nobody can be told from anybody."
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(listed), encoding="utf-8")
    run(["export", str(changed), "--to", "json"])
    assert json.loads(capsys.readouterr().out)["guarantee"] == right


def test_the_sentence_counts_the_questions_that_were_asked_of_the_users_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = str(tmp_path / "x.duckdb")
    with Monitor(database, create=True) as monitor:
        monitor.ingest(table().head(400))
    made = tmp_path / "made.json"

    def said(*asked: str) -> int:
        options = ["--db", database, "-q", "-o", str(made)]
        assert run(["decide", "--budget", "0.2", *options, *asked]) == 0
        content = json.loads(made.read_text(encoding="utf-8"))
        number = int(content.get("asked_before", 0))
        assert ("other question" in content["guarantee"]) == (number > 0)
        return number

    assert said("--k", "10") == 0
    assert said("--k", "10") == 0  # the same again
    assert said("--k", "10", "--candidates", "language,width") == 0  # any choice is covered
    assert said("--k", "5") == 1
    assert said("--k", "5", "--fixed-question") == 2  # other candidates count
    assert audit(made, "--db", database) == 0
    content = json.loads(made.read_text(encoding="utf-8"))
    _said(content, asked_before=1)
    made.write_text(json.dumps(content), encoding="utf-8")
    capsys.readouterr()
    assert audit(made, "--db", database) == 1
    assert ("asked before", "not proved") in answers(capsys.readouterr().out)


def test_what_may_be_less_than_the_database_holds_is_not_believed_either(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = tmp_path / "changed.json"
    for claim, change in (
        ("complete", lambda listed: listed.update(complete=False)),
        ("account", lambda listed: listed["data"].update(account={"API": 1})),
    ):
        listed = json.loads((folder / "decision.json").read_text(encoding="utf-8"))
        change(listed)
        listed["guarantee"] = guarantee(Decision.from_json(listed))
        changed.write_text(json.dumps(listed), encoding="utf-8")
        assert audit(changed, "--db", folder / "x.duckdb") == 3
        assert (claim, "cannot tell") in answers(capsys.readouterr().out)


@pytest.mark.long
def test_a_forecast_and_weights_are_proved_with_the_decision(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, weights = tmp_path / "made.json", tmp_path / "weights.toml"
    weights.write_text("canvas = 3\nwidth = 0.5\n", encoding="utf-8")
    asked = ["decide", "--db", str(folder / "x.duckdb"), "--k", "10", "--budget", "0.2", "-q"]
    assert run([*asked, "--forecast", "--weights", str(weights), "-o", str(made)]) == 0
    listed = json.loads(made.read_text(encoding="utf-8"))
    assert listed["undecided"]
    assert listed["weights"] == {"canvas": 3.0, "width": 0.5}
    assert audit(made, "--db", folder / "x.duckdb") == 0
    assert {("users_needed", "proved"), ("utility", "proved")} <= {
        *answers(capsys.readouterr().out)
    }
    listed["weights"] = {"language": 5.0}
    made.write_text(json.dumps(listed), encoding="utf-8")
    assert audit(made, "--db", folder / "x.duckdb") == 1


def test_a_view_has_no_more_weight_than_its_name(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = json.loads((folder / "decision.json").read_text(encoding="utf-8"))
    listed["missing"] = "exposed"
    listed["guarantee"] += " Users without a value of an API of a set count as exposed by it."
    other = tmp_path / "other.json"
    other.write_text(json.dumps(listed), encoding="utf-8")
    assert audit(other) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "`view_weight` is more than its view may have" in printed.err


def test_a_view_has_a_weight_only_among_all_names(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = json.loads((folder / "decision.json").read_text(encoding="utf-8"))
    few = listed["policy"]["candidates"][:2]
    listed["view"]["transforms"] = {api: {"round": 10} for api in few}
    listed["universe"] = None
    other = tmp_path / "other.json"
    other.write_text(json.dumps(listed), encoding="utf-8")
    assert audit(other) == 2
    assert "`universe` is lacking" in capsys.readouterr().err


@pytest.mark.long
def test_the_average_behind_a_realised_share_is_proved_and_no_larger_one(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decision = tmp_path / "realised.json"
    asked = ["--k", "10", "--budget", "0.1", "--population", "100000", "--realised"]
    database = ["--db", str(folder / "x.duckdb")]
    assert run(["decide", *database, *asked, "-q", "-o", str(decision)]) == 0
    assert audit(decision, *database) == 0
    proved = answers(capsys.readouterr().out)
    assert ("average of a realised share", "proved") in proved
    assert ("allow", "proved") in proved
    changes: tuple[Callable[[dict[str, Any]], object], ...] = (
        lambda listed: listed["policy"].update(budget=listed["policy"]["budget"] * 0.98),
        lambda listed: listed["proof"]["allow"]["average"].update(slope=1.0),
        lambda listed: listed["proof"]["allow"]["average"].update(tilt=-1.0),
        lambda listed: listed["proof"]["allow"].pop("average"),
    )
    for change in changes:
        listed = json.loads(decision.read_text(encoding="utf-8"))
        change(listed)
        changed = tmp_path / "changed.json"
        changed.write_text(json.dumps(listed), encoding="utf-8")
        assert audit(changed) == 1
        found = answers(capsys.readouterr().out)
        assert ("average of a realised share", "not proved") in found


def test_other_users_other_spectra_and_exact_decisions_are_errors(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decision, other = folder / "decision.json", tmp_path / "other.duckdb"
    with Monitor(other, create=True) as monitor:
        monitor.ingest(table().head(5_000))
    exact, empty = tmp_path / "exact.json", tmp_path / "empty.json"
    asked = ["--db", str(other), "--k", "10", "--budget", "0.1", "--setting", "sample"]
    assert run(["decide", *asked, "-q", "-o", str(exact)]) == 0
    empty.write_text(json.dumps({"digest": "", "spectra": []}), encoding="utf-8")
    partly = tmp_path / "partly.json"
    users = ("--db", folder / "x.duckdb", "--write-spectra", partly)
    assert audit(decision, *users) in {0, 3}
    content = json.loads(partly.read_text(encoding="utf-8"))
    content["spectra"][0]["apis"] = ["another"]
    partly.write_text(json.dumps(content), encoding="utf-8")
    listed = json.loads(decision.read_text(encoding="utf-8"))
    listed["policy"]["delta"] = None
    without_delta = tmp_path / "without.json"
    without_delta.write_text(json.dumps(listed), encoding="utf-8")
    capsys.readouterr()
    for arguments, said in (
        ((decision, "--db", other), "does not hold the users"),
        ((decision, "--spectra", empty), "of another decision"),
        ((decision, "--spectra", partly), "of another decision"),
        ((decision, "--write-spectra", tmp_path / "x.json"), "of which users"),
        ((exact,), "holds no proof"),
        ((without_delta,), "holds no proof"),
    ):
        assert audit(*arguments) == 2
        assert said in capsys.readouterr().err


def test_without_its_extra_the_command_names_it(folder: Path) -> None:
    script = (
        "import sys; sys.modules['flint'] = None; from fpmonitor.cli import run; "
        f"sys.exit(run(['audit', 'certificate', {str(folder / 'decision.json')!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "pip install '.[audit]'" in done.stderr
