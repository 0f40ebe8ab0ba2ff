"""`decide --realised`: a stronger sentence, and what it cannot be combined with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from fpmonitor.cli import run
from fpmonitor.decide.files import read_decision
from tests.stored import stored

if TYPE_CHECKING:
    from pathlib import Path

USERS = 20_000


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Values of a user in a thousand each: exposed on average, in populations of 1,000."""
    return stored(
        tmp_path_factory.mktemp("realised"),
        (
            {"Screen.height": i % 1000 if i % 25 == 0 else -1, "Screen.orientation": i % 3}
            for i in range(USERS)
        ),
    )


def test_the_stronger_sentence_is_said_kept_and_paid_for(
    db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["decide", "--budget", "0.06", "--population", "1000", "--db", db]
    usual, realised = tmp_path / "usual.json", tmp_path / "realised.json"
    assert run([*asked, "-o", str(usual), "--quiet"]) == 0
    assert ("Screen.height", "Screen.orientation") in read_decision(usual).allow
    capsys.readouterr()
    assert run([*asked, "--realised", "-o", str(realised)]) == 0
    assert "--realised: on average at most 0.88 %" in capsys.readouterr().err
    decision = read_decision(realised)
    assert decision.policy.realised
    assert decision.allow == (("Screen.orientation",),)
    assert "in a population of 1,000" in decision.guarantee
    assert "average over populations" not in decision.guarantee
    assert run(["check", str(realised), "--db", db]) == 0
    assert run([*asked, "--resume", str(realised), "--quiet"]) == 2
    assert "differs in realised" in capsys.readouterr().err


@pytest.mark.long
def test_a_check_is_of_the_realised_share_as_well(db: str, tmp_path: Path) -> None:
    path = tmp_path / "decision.json"
    asked = ["decide", "--budget", "0.06", "--population", "1000", "--db", db, "--quiet"]
    assert run([*asked, "-o", str(path)]) == 0
    assert run(["check", str(path), "--db", db]) == 0
    average = json.loads(path.read_text())
    assert run([*asked, "--realised", "-o", str(path)]) == 0
    content = json.loads(path.read_text())
    content["data"]["digest"] = "of others"  # these users would not bear it out
    lists = ("allow", "block", "undecided", "recommended", "utility", "utility_bound")
    path.write_text(json.dumps(content | {name: average[name] for name in lists}))
    assert run(["check", str(path), "--db", db]) == 3


@pytest.mark.parametrize(
    ("option", "said"), [(["--setting", "sample"], "realised"), (["--forecast"], "forecast")]
)
def test_what_has_no_realised_share_refuses_it_by_name(
    option: list[str], said: str, db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["decide", "--budget", "0.06", "--realised", "--db", db, *option]) == 2
    assert said in capsys.readouterr().err
