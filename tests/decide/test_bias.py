"""`decide --bias`: a weaker assumption, what it costs, and how biased a sample may be."""

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
    """Every 30th user has a value of their own, all others share three."""
    return stored(
        tmp_path_factory.mktemp("bias"),
        ({"Screen.height": i if i % 30 == 0 else -1, "width": i % 3} for i in range(USERS)),
    )


@pytest.mark.long
def test_a_bias_is_assumed_said_checked_and_proved_and_its_limit_is_told(
    db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["decide", "--budget", "0.05", "--k", "10", "--db", db]
    usual, biased, more = (tmp_path / f"{name}.json" for name in ("usual", "biased", "more"))
    assert run([*asked, "--tolerance", "-o", str(usual), "--quiet"]) == 0
    plain = read_decision(usual)
    assert plain.allow == (("Screen.height", "width"),)
    assert plain.bias_tolerated is not None
    [tolerated] = plain.bias_tolerated
    assert 1 < tolerated < 1.5  # 3.33 % of the users are exposed
    assert json.loads(usual.read_text())["policy"]["sample"] == {"bias": 1, "look": "first"}
    assert run([*asked, "--bias", str(tolerated), "-o", str(biased)]) == 0
    capsys.readouterr()
    assert run(["audit", "certificate", str(usual), "--db", db]) == 0
    found = [row["claim"] for row in json.loads(capsys.readouterr().out)]
    assert found[-2:] == [f"{claim}, bias {tolerated:g}" for claim in ("proof of allow", "allow")]
    for claimed in (1.3, 1.03):  # more than the sample bears, and what was never tried
        content = json.loads(usual.read_text())
        content["bias_tolerated"] = [claimed]
        more.write_text(json.dumps(content))
        assert run(["audit", "certificate", str(more), "--db", db]) == 1
    capsys.readouterr()
    decision = read_decision(biased)
    assert decision.allow == plain.allow
    assert decision.policy.sample.bias == tolerated
    assert f"no kind of user is more than {tolerated:g} times as frequent" in decision.guarantee
    assert "one distribution" not in decision.guarantee
    assert run([*asked, "--bias", "1.6", "-o", str(more), "--quiet"]) == 0
    assert ("Screen.height", "width") not in read_decision(more).allow
    assert run(["check", str(biased), "--db", db]) == 0
    assert run([*asked, "--resume", str(biased), "--quiet"]) == 2
    assert "differs in sample" in capsys.readouterr().err
    assert run(["audit", "certificate", str(biased), "--db", db]) == 0
    for claimed in (1.0, tolerated * 1.001):  # less is proved, but is not what the sentence says
        content = json.loads(biased.read_text())
        content["policy"]["sample"]["bias"] = claimed
        for side in content["proof"].values():
            for design in side["designs"]:
                design["factors"] = [1 / claimed, claimed]
        more.write_text(json.dumps(content))
        assert run(["audit", "certificate", str(more)]) == 1
    for design in content["proof"]["allow"]["designs"]:
        design["factors"] = [1 / tolerated, tolerated]
    more.write_text(json.dumps(content))
    assert run(["audit", "certificate", str(more)]) == 1
    assert "another question: factors" in capsys.readouterr().out


def test_a_decision_of_before_is_tested_with_the_bias_that_its_policy_says(
    db: str, tmp_path: Path
) -> None:
    path = tmp_path / "decision.json"
    assert run(["decide", "--budget", "0.05", "--db", db, "-q", "-o", str(path)]) == 0
    content = json.loads(path.read_text())
    content["policy"]["sample"] = {"bias": 2.0}
    for side in content["proof"].values():
        for design in side["designs"]:
            design["bias"] = 2.0  # as files of before say it
    content["data"]["digest"] = "of others"  # these users would not bear it out
    for proof in (content["proof"], None):
        path.write_text(json.dumps(content | {"proof": proof}))
        assert run(["check", str(path), "--db", db]) == 3
        assert run(["check", str(path), "--db", db, "--new-users"]) == 3


def test_limits_of_an_exposure_widen_and_say_why(
    db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["exposure", "--apis", "Screen.height", "--db", db]
    found = []
    for option in ([], ["--bias", "1.5"]):
        assert run([*asked, *option, "--format", "json"]) == 0
        found += json.loads(capsys.readouterr().out)
    plain, biased = found
    assert biased["sample"] == {"bias": 1.5}
    assert biased["lower"] < plain["lower"]
    assert plain["upper"] * 1.4 < biased["upper"]
    assert run([*asked, "--bias", "1.5", "--format", "table"]) == 0
    assert "1.5 times as frequent" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("command", "option", "said"),
    [
        ("decide", ["--bias", "0.8"], "bias: must lie between 1 and 100"),
        ("decide", ["--bias", "nan"], "bias: must lie between 1 and 100"),
        ("decide", ["--bias", "2", "--setting", "sample"], "omit --bias"),
        ("decide", ["--bias", "2", "--forecast"], "not with --bias"),
        ("exposure", ["--bias", "2", "--given", "width"], "--given has no limits"),
        ("exposure", ["--bias", "2", "--trust", "pairs"], "--trust has no limits"),
        (
            "exposure",
            ["--fake-share", "1%", "--given", "width"],
            "--given has no limits with --fake-share;",
        ),
    ],
)
def test_what_cannot_be_had_with_a_bias_is_refused_by_name(
    command: str, option: list[str], said: str, db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"decide": ["--budget", "0.05"], "exposure": ["--apis", "Screen.height"]}[command]
    assert run([command, *asked, *option, "--db", db]) == 2
    assert said in capsys.readouterr().err
