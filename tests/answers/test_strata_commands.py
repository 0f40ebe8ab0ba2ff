"""Every command that gives limits gives them by the shares of strata, says so, or refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cli import run
from fpmonitor.decide.files import read_decision
from fpmonitor.monitor import Monitor
from fpmonitor.question import read_strata
from tests.serve.test_dashboard import Service
from tests.stored import stored

if TYPE_CHECKING:
    from pathlib import Path

USERS, PHONES = 4000, 1000
RARE = 0.2  # of those with phones have a value of their own
DRAWN = "of 4,000 users could be drawn by the shares of the strata, until phone had none left."
SHARES = 'by = "kind"\n[shares]\nphone = 0.9\nother = 0.1\n'


def made_up(users: int) -> list[dict[str, Any]]:
    return [
        {
            "kind": "desktop" if i % 4 else "phone",
            "Screen.height": i if i % round(4 / RARE) == 0 else 800,
            "Screen.orientation": i % 3,
        }
        for i in range(users)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quarter of the users have phones, in the population nine tenths."""
    folder = tmp_path_factory.mktemp("strata")
    stored(folder, made_up(USERS))
    (folder / "d.duckdb").rename(folder / "fpmonitor.duckdb")
    (folder / "shares.toml").write_text(SHARES)
    return folder


@pytest.fixture(autouse=True)
def within(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What a command prints on both streams, in one line."""
    capsys.readouterr()
    assert run([*arguments]) == code, capsys.readouterr().err
    return " ".join("".join(capsys.readouterr()).split())


@pytest.mark.long
def test_exposures_curves_and_ranks_are_of_those_who_were_drawn(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    sets = ["--apis", "Screen.height"]
    for command in (
        ["exposure", *sets, "--format", "table"],
        ["exposure", *sets, "--format", "table", "--given", "Screen.orientation"],
        ["exposure", "--curve", *sets, "--format", "table"],
        ["exposure", "--rank", "-n", "10000", "--format", "table"],
        ["exposure", "--plot", "curve", *sets, "-o", "drawn.svg"],
        ["exposure", "--plot", "exposure", "-o", "drawn.svg"],
        ["exposure", "--plot", "entropy", "-o", "drawn.svg"],
    ):
        assert DRAWN in told(capsys, *command, "--strata", "shares.toml"), command
    for command in (["exposure"], ["exposure", "--curve"]):
        asked = [*command, *sets, "--strata", "shares.toml", "--format", "json"]
        found = json.loads(told(capsys, *asked))
        found = found[0] if isinstance(found, list) else found
        assert (found["observed"], found["binding_stratum"]) == (USERS, "phone")
        assert abs(found["users"] * 0.9 / PHONES - 1) < 0.05
    share = next(p["empirical"] for p in found["points"] if p["threshold"] == 10)
    assert abs(share - 0.9 * RARE) < 0.03, "of those observed it is a quarter of that"
    (folder / "fpmonitor.toml").write_text('strata = "shares.toml"\n')
    assert DRAWN in told(capsys, "exposure", "--rank", "-n", "10000", "--format", "table")
    told(capsys, "exposure", "--by", "week", "--apis", "Screen.orientation", code=2)
    (folder / "fpmonitor.toml").unlink()
    asked = [
        "check",
        "--compare",
        "fpmonitor.duckdb",
        "fpmonitor.duckdb",
        *sets,
        "--fake-share",
        "1%",
    ]
    assert "up to 1 % of those observed may be no users" in told(
        capsys, *asked, "--format", "table"
    )
    asked = [
        "check",
        "--compare",
        "fpmonitor.duckdb",
        "fpmonitor.duckdb",
        *sets,
        "--strata",
        "shares.toml",
    ]
    [line] = json.loads(told(capsys, *asked, "--format", "json"))
    assert (line["observed_before"], line["binding_stratum_after"]) == (USERS, "phone")
    drawn = told(capsys, "exposure", "--plot", "exposure", "--bias", "1.5", "-o", "drawn.svg")
    assert "no kind of user is more than 1.5 times as frequent" in drawn
    biased = told(capsys, "exposure", "--rank", "--bias", "1.5", "--format", "json")
    assert json.loads(biased)["basis"] == "upper", "an estimate knows nothing of a bias"


@pytest.mark.long
def test_decisions_by_shares_are_registered_reported_shown_and_checked_as_such(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path
) -> None:
    asked = ["decide", "--budget", "5%", "--strata", "shares.toml", "-n", "1000"]
    asked += ["--candidates", "Screen.height,Screen.orientation"]
    (folder / "policy.toml").write_text(
        'k = 10\npopulation = 1000\nbudget = 0.05\nstrata = "shares.toml"\n'
        'candidates = ["Screen.height", "Screen.orientation"]\n'
    )
    assert run(["ingest", "log.jsonl", "--register", "policy.toml", "--db", "r.duckdb"]) == 0
    assert run([*asked, "--db", "r.duckdb", "-o", "decision.json"]) == 0
    decision = read_decision(folder / "decision.json")
    assert decision.registered
    assert decision.policy.sample.strata is not None
    assert decision.policy.sample.strata.shares == read_strata(folder / "shares.toml").shares
    assert decision.allow == (("Screen.orientation",),)
    told(capsys, "export", "--report", "--strata", "shares.toml")
    page = " ".join((folder / "report.html").read_text().split())
    assert page.count(DRAWN) >= 2, "the guarantee, and the curves"
    refused = told(capsys, "export", "--report", "decision.json", "--strata", "shares.toml", code=2)
    assert "decision says itself" in refused
    checked = told(capsys, "check", "decision.json", "-o", "check.json")
    assert DRAWN in checked
    assert "another test" in checked
    assert "however often" not in checked
    assert "the 2 strata of kind" in checked
    [width] = json.loads((folder / "check.json").read_text())
    assert width["upper"] < 0.03, "by all who were drawn"
    with Monitor(folder / "fpmonitor.duckdb") as monitor:
        dashboard = Service(monitor, decision).client().get("/").text
    assert DRAWN in " ".join(dashboard.split())
    assert "<dt>Users</dt><dd>4,000<" in dashboard
    # Of a stratum that nobody is in any more, all users count as exposed.
    stored(tmp_path, (row for row in made_up(USERS) if row["kind"] == "phone"))
    gone = told(capsys, "check", "decision.json", "--db", str(tmp_path / "d.duckdb"), code=3)
    assert '"undecided"' in gone


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["exposure", "--curve", "--apis", "Screen.orientation", "--strata", "limits.toml"],
            "curve: has no limits",
        ),
        (
            [
                "exposure",
                "--plot",
                "curve",
                "--apis",
                "Screen.orientation",
                "--bias",
                "2",
                "-o",
                "x.svg",
            ],
            "no limits",
        ),
        (
            [
                "exposure",
                "--plot",
                "trust",
                "--apis",
                "Screen.orientation",
                "--bias",
                "2",
                "-o",
                "x.svg",
            ],
            "no limits",
        ),
        (["exposure", "--by", "week", "--strata", "shares.toml"], "--strata"),
        (["export", "--report", "--strata", "none.toml"], "none.toml"),
        (
            ["exposure", "--apis", "Screen.orientation", "--strata", "os.toml"],
            "of no user is known",
        ),
        (["exposure", "--apis", "Screen.orientation", "--strata", "text.toml"], "got `str`"),
        (
            ["exposure", "--apis", "Screen.orientation", "--strata", "nothing.toml"],
            "name what defines",
        ),
    ],
)
def test_what_has_no_limits_for_the_sample_refuses(
    *, arguments: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, before, after in (
        ("limits", "0.9", "[0.85, 0.95]"),
        ("os", "kind", "operating system"),
        ("text", "0.9", '"0.9"'),
        ("nothing", "kind", ","),
    ):
        (folder / f"{name}.toml").write_text(SHARES.replace(before, after))
    assert said in told(capsys, *arguments, code=2)
