"""`--cluster`: one user of each household counts, whatever the others make it look like."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from fpmonitor.cli import run
from fpmonitor.decide.files import read_decision
from tests.stored import stored

if TYPE_CHECKING:
    from pathlib import Path

LARGE, MEMBERS, SMALL = 400, 20, 5600
USERS, HOUSEHOLDS = LARGE * MEMBERS + SMALL, LARGE + SMALL


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One household in fifteen is large and has a height that no other has."""
    large = (
        {"household": f"l{i}", "Screen.height": i, "width": i % 3}
        for i in range(LARGE)
        for _ in range(MEMBERS)
    )
    # Every other small one is not told; who is in none is in none with others.
    small = (
        {"Screen.height": -1, "width": i % 3} | ({"household": f"s{i}"} if i % 2 else {})
        for i in range(SMALL)
    )
    return stored(tmp_path_factory.mktemp("clusters"), [*large, *small])


@pytest.mark.long
def test_users_who_came_together_hide_nobody(
    db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, drawn = tmp_path / "plain.json", tmp_path / "drawn.json"
    asked = ["decide", "--budget", "5%", "-n", "20000", "--db", db, "-o"]
    candidates = ["--candidates", "Screen.height,width", "-q"]
    assert run([*asked, str(plain), *candidates]) == 0
    assert read_decision(plain).allow == (("Screen.height", "width"),)
    capsys.readouterr()
    assert run([*asked, str(drawn), "--cluster", "household", "--bias", "1.1"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert f"{HOUSEHOLDS:,} of {USERS:,} users could be drawn, one of each household." in said
    decision = read_decision(drawn)
    assert decision.policy.candidates == ("Screen.height", "width"), "and not household"
    assert decision.allow == (("width",),)
    assert (decision.users, decision.observed) == (HOUSEHOLDS, USERS)
    assert "are independent draws, one of each household, and no kind" in decision.guarantee
    assert (
        "budget, bias, clusters and the names of APIs in the first log were" in decision.guarantee
    )
    assert run(["audit", "certificate", str(drawn), "--db", db]) == 0
    capsys.readouterr()
    assert run(["check", str(drawn), "--db", db, "--format", "table"]) == 0
    printed = capsys.readouterr()
    checked = " ".join((printed.out + printed.err).split())
    assert "one of other users is another test" in checked
    assert f"{HOUSEHOLDS:,} of {USERS:,}" in checked
    assert run(["check", str(drawn), "--db", db, "--new-users"]) == 2
    changed = json.loads(drawn.read_text())
    changed["policy"]["sample"] |= {"fake_share": 0.01}
    drawn.write_text(json.dumps(changed))
    assert run(["audit", "certificate", str(drawn)]) != 0


def test_strata_are_drawn_of_one_of_each_cluster(
    db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shares = tmp_path / "shares.toml"
    shares.write_text('by = "width"\n[shares]\n0 = 0.5\nother = 0.5\n')
    asked = ["exposure", "--apis", "Screen.height", "--db", db, "--cluster", "household"]
    assert run([*asked, "--strata", str(shares), "--format", "json"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["sample"]["cluster"] == "household"
    assert (found["observed"], found["binding_stratum"]) == (USERS, "0")
    assert found["users"] == pytest.approx(HOUSEHOLDS / 3 * 2, rel=0.03)
    assert found["empirical"] == pytest.approx(LARGE / HOUSEHOLDS, rel=0.2)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--cluster", "houshold"], "nearest: household"),
        (["--cluster", ","], "cluster: name what defines them"),
        (["--cluster", "household", "--candidates", "household"], "share a value of household"),
        (["--cluster", "household", "--fake-share", "1%"], "may take its user's place"),
        (["--cluster", "household", "--setting", "sample"], "omit --cluster"),
        (["--cluster", "household", "--forecast"], "not with --cluster"),
    ],
)
def test_what_tells_no_clusters_is_refused_by_name(
    option: list[str], said: str, db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["decide", "--budget", "0.05", "--db", db, *option]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
