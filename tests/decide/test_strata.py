"""`--strata`: users drawn by known shares, what is said of them, and what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from fpmonitor.cli import run
from fpmonitor.decide.files import read_decision
from tests.asked import answer_of
from tests.stored import stored

if TYPE_CHECKING:
    from pathlib import Path

USERS = 20_000
RARE = 50  # one in so many users of phones has a value of their own


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quarter of the users have phones; on phones many values are rare, on desktops none is."""
    folder = tmp_path_factory.mktemp("strata")
    stored(
        folder,
        (
            {
                "kind": "desktop" if i % 4 else "phone",
                "Screen.height": -1 if i % (4 * RARE // 5) else i,
                "Screen.orientation": i % 3,
            }
            for i in range(USERS)
        ),
    )
    (folder / "shares.toml").write_text('by = "kind"\n[shares]\nphone = 0.95\nother = 0.05\n')
    return folder


def test_what_is_within_the_budget_for_the_sample_alone_is_not_allowed_by_its_shares(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["decide", "--budget", "0.05", "-n", "20000", "--db", str(folder / "d.duckdb")]
    asked += ["--candidates", "Screen.height,Screen.orientation"]
    usual, drawn = folder / "usual.json", folder / "drawn.json"
    assert run([*asked, "-q", "-o", str(usual)]) == 0
    assert read_decision(usual).allow == (("Screen.height", "Screen.orientation"),)
    by_shares = [*asked, "--strata", str(folder / "shares.toml")]
    assert run([*by_shares, "-o", str(drawn)]) == 0
    decision = read_decision(drawn)
    assert decision.allow == (("Screen.orientation",),)
    assert ("Screen.height",) in (*decision.block, *decision.undecided)
    assert decision.observed == USERS
    assert decision.binding_stratum == "phone"
    assert abs(decision.users / (USERS / 4 / 0.95) - 1) < 0.02
    assert "within each of the 2 strata of kind, whose shares are taken as given" in (
        decision.guarantee
    )
    assert "however often" not in decision.guarantee
    assert "could be drawn" in capsys.readouterr().err
    (folder / "turned.toml").write_text('by = "kind"\n[shares]\nother = 0.05\nphone = 0.95\n')
    turned = [*asked, "--strata", str(folder / "turned.toml"), "-q", "-o", str(folder / "turned")]
    assert run(turned) == 0
    assert read_decision(folder / "turned").digest == decision.digest, "nobody draws again"
    assert run([*by_shares, "-q", "--resume", str(drawn)]) == 0
    assert run([*asked, "-q", "--resume", str(drawn)]) == 2
    assert "differs in sample" in capsys.readouterr().err
    assert run(["check", str(drawn), "--db", str(folder / "d.duckdb")]) == 0
    assert run(["audit", "certificate", str(drawn), "--db", str(folder / "d.duckdb")]) == 0
    assert run(["check", str(drawn), "--db", str(folder / "d.duckdb"), "--new-users"]) == 2
    assert "looked at once" in capsys.readouterr().err
    report = folder / "report.html"
    assert (
        run(["export", "--report", str(drawn), "--db", str(folder / "d.duckdb"), "-o", str(report)])
        == 0
    )
    assert "users could be drawn by the shares of the strata" in report.read_text()


def test_exposures_are_those_of_the_users_who_were_drawn(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [
        "exposure",
        "--apis",
        "Screen.height",
        "--db",
        str(folder / "d.duckdb"),
        "--format",
        "json",
    ]
    assert run([*asked, "--strata", str(folder / "shares.toml")]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["users"] < USERS / 3
    assert found["lower"] < 0.95 * 5 / RARE < found["upper"]
    assert found["sample"]["strata"]["shares"] == {"phone": 0.95, "other": 0.05}
    assert found["population"] == found["sample"]["strata"]["expected"] != found["users"], (
        "a number that nobody named must not follow from the draw"
    )


@pytest.mark.long
def test_shares_within_limits_and_nobody_of_a_stratum_cost_what_the_file_proves(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shares, path = tmp_path / "shares.toml", tmp_path / "decision.json"
    shares.write_text('by = "kind"\n[shares]\nphone = [0.2, 0.24]\nTV = 0.01\nother = [0.7, 0.8]\n')
    asked = ["decide", "--budget", "0.05", "--db", str(folder / "d.duckdb"), "-n", "20000"]
    asked += ["--candidates", "Screen.height,Screen.orientation", "--strata", str(shares)]
    assert run([*asked, "-o", str(path)]) == 0
    assert "leave 80 % of the budget" in capsys.readouterr().err
    decision = read_decision(path)
    assert decision.allow == (("Screen.height", "Screen.orientation"),)
    assert decision.unobserved_share == pytest.approx(0.01)
    assert decision.policy.sample.strata is not None
    assert decision.policy.sample.strata.left_out == ("TV",)
    assert "within each of the 2 strata of kind, whose shares are taken to be within" in (
        decision.guarantee
    )
    assert "Nobody of TV was drawn: all of these, up to 1 % of" in decision.guarantee
    assert run(["audit", "certificate", str(path), "--db", str(folder / "d.duckdb")]) == 0
    capsys.readouterr()
    said = json.loads(path.read_text())
    known = said["policy"]["sample"]["strata"]["shares"]
    for wider in (
        {"phone": [0.2, 0.24], "TV": 0.011, "other": [0.7, 0.8]},
        {"phone": [0.18, 0.24], "TV": 0.01, "other": [0.7, 0.81]},
    ):
        said["policy"]["sample"]["strata"]["shares"] = wider
        path.write_text(json.dumps(said))
        assert run(["audit", "certificate", str(path)]) == 1
        assert "another question" in capsys.readouterr().out
    said["policy"]["sample"]["strata"] |= {"shares": known, "expected": None}
    path.write_text(json.dumps(said))
    assert run(["audit", "certificate", str(path)]) == 1, "at every look delta is shared"
    assert '"reason": "form"' in capsys.readouterr().out
    shares.write_text('by = "kind"\nleft_out = ["phone"]\n[shares]\nphone = 0.2\nother = 0.8\n')
    assert run([*asked, "-o", str(path)]) == 0
    assert read_decision(path).allow == ()
    assert "leave 0 % of the budget" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("shares", "option", "said"),
    [
        ('by = "kind"\n[shares]\nphone = 0.5\nother = 0.4', [], "must add up to 1, got 0.9"),
        ('by = "kind"\n[shares]\nphone = 1.5\nother = -0.5', [], "strictly between 0 and 1"),
        ('by = "kind"\n[shares]\nphone = 1', [], "at least two"),
        ('by = "kind"\n[shares]\nphone = 0.5\ntablet = 0.5', [], "users are in none, as desktop"),
        ('by = "kind"\n[shares]\nphone = [0.5, 0.6]\nother = 0.3', [], "got 0.8 to 0.9"),
        ('by = "kind"\n[shares]\nphone = [0.6, 0.5]\nother = 0.5', [], "0.6 to 0.5 is empty"),
        ('by = "kind"\n[shares]\nphone = [0, 0.5]\nother = 0.5', [], "between 0 and 1, got 0"),
        ('by = "kind"\nleft_out = ["TV"]\n[shares]\nphone = 0.5\nother = 0.5', [], "'TV' is left"),
        ('by = "Screen.orientation"\n[shares]\n7 = 0.5\n8 = 0.5', [], "users are in none"),
        ('by = "sort"\n[shares]\nphone = 0.5\nother = 0.5', [], "sort"),
        ("[shares]\nphone = 0.5\nother = 0.5", [], "shares"),
        (None, ["--setting", "sample"], "omit --strata"),
        (None, ["--forecast"], "not with --strata"),
        (None, ["--engine", "duckdb"], "drawn in memory"),
    ],
)
def test_what_are_no_shares_of_these_users_is_refused_by_name(
    *,
    shares: str | None,
    option: list[str],
    said: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = folder / "shares.toml"
    if shares is not None:
        path = tmp_path / "shares.toml"
        path.write_text(shares)
    asked = ["decide", "--budget", "0.05", "--db", str(folder / "d.duckdb"), "--strata", str(path)]
    assert run([*asked, *option]) in {2, 3, 4}
    assert said in capsys.readouterr().err


def test_others_learn_no_size_of_a_stratum_below_k(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shares = tmp_path / "shares.toml"
    shares.write_text('by = "Screen.height"\n[shares]\n0 = 0.1\nother = 0.9')
    asked = ["exposure", "--apis", "Screen.orientation", "--db", str(folder / "d.duckdb")]
    asked += ["--strata", str(shares), "--k", "2"]
    [found] = answer_of(capsys, "--for-others", *asked)
    assert found["sample"]["strata"]["left_out"] == ["0"]
    assert run([*asked, "--format", "json"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert "left_out" not in found["sample"]["strata"]
