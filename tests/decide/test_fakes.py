"""`decide --fake-share`: rows that are no users, what they cost, and how a reader proves it."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest

from fpmonitor.cli import run
from fpmonitor.decide.files import read_decision
from fpmonitor.decide.questions import read_policy
from fpmonitor.estimate.looks import design_size
from tests.stored import stored

if TYPE_CHECKING:
    from pathlib import Path

USERS = 20_000


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Every 30th user has a value of their own, all others share three."""
    return stored(
        tmp_path_factory.mktemp("fakes"),
        (
            {"Screen.height": i if i % 30 == 0 else -1, "Screen.orientation": i % 3}
            for i in range(USERS)
        ),
    )


@pytest.mark.long
def test_what_rows_that_are_no_users_may_hide_is_paid_for_said_and_proved(
    db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["decide", "--budget", "0.1", "--db", db]
    few, many, changed = (tmp_path / f"{name}.json" for name in ("few", "many", "changed"))
    assert run([*asked, "--fake-share", "20%", "-q", "-o", str(many)]) == 0
    assert ("Screen.height",) not in read_decision(many).allow
    asked += ["--realised", "--bias", "1.02", "--missing", "exposed"]
    assert run([*asked, "--fake-share", "0.1%", "-o", str(few)]) == 0
    decision = read_decision(few)
    assert decision.allow == (("Screen.height", "Screen.orientation"),)
    assert decision.policy.sample.fake_share == 0.001
    assert "decided once, provided that" in decision.guarantee
    assert "up to 0.1 % of those observed may be no users" in decision.guarantee
    capsys.readouterr()
    assert run(["check", str(few), "--db", db, "--format", "table"]) == 0
    printed = capsys.readouterr()
    assert "one of other users is another test" in " ".join((printed.out + printed.err).split())
    assert run(["audit", "certificate", str(few), "--db", db]) == 0
    capsys.readouterr()
    assert run(["check", str(few), "--db", db, "--new-users"]) == 2
    assert "looked at once" in capsys.readouterr().err
    said = json.loads(few.read_text())
    for share, most, users in ((0.002, 20, 0), (0.001, 19, 0), (0.001, 20, 7), (0, 20, 0)):
        content = json.loads(few.read_text())
        content["policy"]["sample"]["fake_share"] = share
        for side in content["proof"].values():
            for part in (side, *side["designs"]):
                part["users"] += users
            for design in side["designs"]:
                design["fakes"]["most"] = most
        changed.write_text(json.dumps(content))
        assert run(["audit", "certificate", str(changed)]) == 1
        assert "fakes" in capsys.readouterr().out
    # Each design is held to the rows of the file: the first one alone was.
    content = json.loads(few.read_text())
    content["proof"]["allow"]["designs"][-1]["fakes"] = {"rows": USERS - 1, "most": 19}
    changed.write_text(json.dumps(content))
    assert run(["audit", "certificate", str(changed)]) == 1
    assert "another question: users" in capsys.readouterr().out
    for design in said["proof"]["allow"]["designs"]:
        assert design["fakes"] == {"rows": USERS, "most": 20}


def test_limits_of_an_exposure_widen_and_say_why(
    db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["exposure", "--apis", "Screen.height", "--db", db]
    found = []
    for option in ([], ["--fake-share", "1%"]):
        assert run([*asked, *option, "--format", "json"]) == 0
        found += json.loads(capsys.readouterr().out)
    plain, robust = found
    assert robust["sample"] == {"bias": 1.0, "fake_share": 0.01}
    listed = math.floor(design_size(USERS, 0.01) * 0.99)
    assert robust["population"] == listed, "whoever adds rows must not choose it"
    assert robust["lower"] < plain["lower"] - 0.005
    assert plain["upper"] < robust["upper"] < plain["upper"] + 0.03


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--fake-share", "0.6"], "must be 0 or lie between 0.000001 and 0.5"),
        (["--fake-share", "nan"], "share"),
        (["--fake-share", "1%", "--missing", "drop"], "missing: drop leaves another share"),
        (["--fake-share", "1%", "--setting", "sample"], "omit --fake-share"),
        (["--fake-share", "1%", "--forecast"], "not with --fake-share"),
        (["--fake-share", "1%", "--strata", "shares.toml"], "nothing is proved of strata"),
    ],
)
def test_what_cannot_be_had_with_fakes_is_refused_by_name(
    option: list[str], said: str, db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shares = tmp_path / "shares.toml"
    shares.write_text('by = "Screen.orientation"\n[shares]\n0 = 0.5\nother = 0.5\n')
    option = [str(shares) if part == "shares.toml" else part for part in option]
    assert run(["decide", "--budget", "0.05", "--db", db, *option]) == 2
    assert said in capsys.readouterr().err


def test_a_registered_question_says_how_many_may_be_no_users(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('k = 10\npopulation = 100\nbudget = 0.1\ncandidates = ["a"]\nfake_share = 0.01')
    assert read_policy(path).policy.sample.fake_share == 0.01
