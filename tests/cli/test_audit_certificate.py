"""A sceptic proves a decision again from its file, a database or count spectra."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.estimate import averaging, looks
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
    claims = ("proof of allow", "proof of block", "sentence", "weight of the view")
    proofs = [(claim, "proved") for claim in claims]
    assert audit(decision) == 0
    assert answers(capsys.readouterr().out) == proofs
    all_proved = [*proofs, *((verdict, "proved") for verdict in sets)]
    assert audit(decision, "--db", folder / "x.duckdb") == 0
    assert answers(capsys.readouterr().out) == all_proved
    users = ("--db", folder / "x.duckdb", "--write-spectra", spectra)
    assert audit(decision, *users, "--unsafe-counts") == 0
    assert audit(decision, "--spectra", spectra) == 0
    written, read = capsys.readouterr().out.split("]\n[")
    assert answers(written + "]") == answers("[" + read) == all_proved


def test_a_file_is_resumed_and_proved_by_its_own_weights_whoever_chose_them(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["decide", "--db", str(folder / "x.duckdb"), "--k", "10", "--budget", "0.1", "-q"]
    first, resumed = tmp_path / "first.json", tmp_path / "resumed.json"

    def otherwise(*arguments: Any, **options: Any) -> Any:
        weights = sharpest_weights(*arguments, **options)  # as an older SciPy might have ended
        return weights * np.linspace(1.02, 0.98, weights.size)

    with monkeypatch.context() as patch:
        patch.setattr(averaging, "sharpest_weights", otherwise)
        looks._base.cache_clear()
        assert run([*asked, "--max-size", "1", "-o", str(first)]) == 0
    looks._base.cache_clear()
    assert run([*asked, "--resume", str(first), "-o", str(resumed)]) == 0
    here, there, both = (
        json.loads(file.read_text(encoding="utf-8"))
        for file in (folder / "decision.json", first, resumed)
    )
    assert (there["complete"], both["complete"]) == (False, True)
    assert here["proof"] != there["proof"] == both["proof"]
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


def _move(listed: dict[str, Any], source: str, target: str) -> None:
    listed[target] = sorted([*listed[target], listed[source].pop()])


def _registered(listed: dict[str, Any], level: float) -> None:
    """Claim a level that nobody registered, by proofs that agree with it."""
    listed.update(registered=True, view_weight=None, level=level, allow=[], recommended=[])
    for side, never in (("allow", -1.0), ("block", float(USERS))):
        proof = listed["proof"][side]
        proof.update(delta=level, limits=[proof["limits"][0], *[never] * 4])


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
    lambda listed: listed["proof"]["allow"]["limits"].__setitem__(1, 6_000.0),
    lambda listed: listed["proof"].update(allow=listed["proof"]["block"]),
    lambda listed: listed.update(universe=None),
    lambda listed: listed["proof"]["block"].update(limits=[6_000.0, 6_000.0]),
    lambda listed: listed["proof"]["allow"].update(delta="x"),
    lambda listed: listed["proof"]["allow"].pop("clock"),
    lambda listed: listed.update(level=listed["level"] * 1.01),
    lambda listed: listed.update(view_weight=0.9, level=listed["policy"]["delta"] * 0.9),
    lambda listed: listed.update(registered=True, view_weight=None, level=0.02),
    lambda listed: _registered(listed, 1e-320),
    lambda listed: listed.update(guarantee="Nobody can be told from anybody."),
    lambda listed: _level(listed, 0.05, 1000, None),
    lambda listed: _level(listed, 0.025, 4, 0.5),
    lambda listed: listed["proof"]["allow"].update(starts=[]),
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
    assert audit(changed, "--db", folder / "x.duckdb") == 1
    assert "not proved" in dict(map(reversed, answers(capsys.readouterr().out)))


def test_a_view_has_no_more_weight_than_its_name(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = json.loads((folder / "decision.json").read_text(encoding="utf-8"))
    listed["missing"] = "exposed"
    listed["guarantee"] += " Users without a value of an API of a set count as exposed by it."
    other = tmp_path / "other.json"
    other.write_text(json.dumps(listed), encoding="utf-8")
    assert audit(other) == 1
    claims = dict(answers(capsys.readouterr().out))
    assert claims.pop("weight of the view") == "not proved"
    assert set(claims.values()) == {"proved"}


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
        ((decision, "--db", other), "made of other users"),
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
    assert "pip install 'fpmonitor[audit]'" in done.stderr
