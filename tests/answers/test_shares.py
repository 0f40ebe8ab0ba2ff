"""`fpmonitor collect shares`: from an access log or a survey to strata for `--strata`."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpmonitor.answers.shares import shares_of_counts
from fpmonitor.cli import run
from fpmonitor.decide.files import read_decision
from fpmonitor.policy import Strata
from fpmonitor.question import read_strata, strata_file
from fpmonitor.safe_files import typed
from tests.house.test_readme import ROOT, commands, printed_by
from tests.stored import stored

if TYPE_CHECKING:
    from pathlib import Path

AGENTS = {
    "chromium, Android": "(Linux; Android 10; K) AppleWebKit/537.36 Chrome/142.0.0.0 Mobile Safari",
    "chromium, Windows": "(Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/142.0.0.0 Safari",
    "firefox, Linux": "(X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0",
    "safari, iOS": "(iPhone; CPU iPhone OS 18_6 like Mac OS X) Version/26.0 Mobile/15E148 Safari",
}
VISITORS = {"chromium, Android": 2200, "safari, iOS": 1600, "chromium, Windows": 150}
USERS = {"chromium, Android": 1500, "safari, iOS": 900, "chromium, Windows": 4500}
STAFF = {**USERS, "firefox, Linux": 600}


def line(address: str, agent: str, *, day: int = 1) -> str:
    """A request in the combined log format."""
    when = f"{day:02}/Oct/2026:13:55:36 +0200"
    return f'{address} - - [{when}] "GET /a?b HTTP/1.1" 200 23 "-" "{agent}"\n'


def agent_of(kind: str) -> str:
    return f"Mozilla/5.0 {AGENTS[kind]}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An access log of visitors with phones, and a survey of staff at desks."""
    folder = tmp_path_factory.mktemp("shares")
    kinds = [kind for kind, number in VISITORS.items() for _ in range(number)]
    kinds += ["firefox, Linux"] * 50
    lines = [line(f"10.0.{i // 250}.{i % 250}", agent_of(kind)) for i, kind in enumerate(kinds)]
    robots = ["curl/8.14", "Mozilla/5.0 (compatible; Googlebot/2.1)"]
    lines += [line(f"10.1.0.{i}", robots[i % 2]) for i in range(120)]
    (folder / "access.log").write_text("".join(lines + lines[:200]), encoding="utf-8")
    staff = [kind for kind, number in STAFF.items() for _ in range(number)]
    stored(
        folder,
        (
            {
                "Navigator.userAgent": agent_of(kind),
                # one phone in fifteen has a size of its own
                "Screen.height": i if "Windows" not in kind and i % 15 == 0 else 800,
                "Screen.width": (360 if "Android" in kind else 1920) + i % 8,
            }
            for i, kind in enumerate(staff)
        ),
    )
    (folder / "d.duckdb").rename(folder / "fpmonitor.duckdb")
    return folder


def test_the_example_of_the_documentation_leads_from_an_access_log_to_a_decision(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    examples = commands((ROOT / "docs" / "strata.md").read_text(encoding="utf-8"))
    assert [command.split()[1] for command, _ in examples] == ["collect", "decide"]
    for command, shown in examples:
        assert printed_by(command) == shown, command
    strata = read_strata(folder / "shares.toml")
    assert strata.by == "browser family, operating system"
    counts = {**VISITORS, "firefox, Linux": 50}
    assert strata.shares == pytest.approx({name: n / 4000 for name, n in counts.items()})
    by_shares = read_decision(folder / "decision.json")
    plain = ["decide", "--budget", "5%", "--candidates", "Screen.height,Screen.width", "-q"]
    assert run([*plain, "-o", "plain.json"]) == 0
    assert read_decision(folder / "plain.json").allow == (("Screen.height", "Screen.width"),)
    assert by_shares.allow == (("Screen.width",),), "of visitors, more than 5 % are exposed"
    assert by_shares.binding_stratum == "safari, iOS"
    assert 0.9 < by_shares.users / (USERS["safari, iOS"] / 0.4) < 1.1


def test_a_visitor_is_an_address_with_a_user_agent_on_a_day_and_a_robot_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also in a log whose writers are hostile; nothing that they write reaches the screen."""
    phone, desk = agent_of("safari, iOS"), agent_of("chromium, Windows")
    lines = [line(f"10.0.0.{i}", phone, day=day) for i in range(20) for day in (1, 2)] * 2
    lines += [line("10.0.0.1", desk), *(line(f"10.0.1.{i}", desk) for i in range(59))]
    lines += [line("10.0.0.2", f"{desk} HeadlessChrome/142"), line("10.0.0.3", "-")]
    lines += [line(f"10.0.2.{i}", f"{agent_of('firefox, Linux')} \\x1b[31m") for i in range(4)]
    hostile = "".join(lines).encode() + b"x" * 10_000_000 + b"\n\0\0\n\xff\xfe [x]\n"
    hostile += line("10.0.3.1", "Mozilla/5.0 \0").replace("2026", "2099").encode()
    hostile += line("10.0.3.2", "Mozilla/5.0 \xe4\x9b").encode("latin-1")
    (tmp_path / "access.log").write_bytes(hostile)
    asked = ["collect", "shares", str(tmp_path / "access.log"), "--by", "family,os", "-o"]
    assert run([*asked, str(tmp_path / "shares.toml")]) == 0
    said = capsys.readouterr().err
    assert "104 visitors" in said
    assert "fewer than 10 look automated" in said
    assert "\x1b" not in said
    shares = read_strata(tmp_path / "shares.toml").shares
    assert set(shares) == {"chromium, Windows", "other"}, "4 users are in no group of their own"
    assert shares["other"] == pytest.approx(44 / 104)
    assert "one address" not in said
    long = [line(f"10.0.4.{i}", f"{desk} {'x' * 256}") for i in range(20)]  # stored as a digest
    (tmp_path / "long.log").write_text("".join(lines[:40] + long))
    assert run([*asked[:2], str(tmp_path / "long.log"), *asked[3:], str(tmp_path / "l.toml")]) == 0
    capsys.readouterr()
    assert set(read_strata(tmp_path / "l.toml").shares) == {"safari, iOS", "other"}
    proxy = [line("127.0.0.1", f"{phone}{i} {'Mobile' * (i % 2)}") for i in range(50)]
    proxy += [line("127.0.0.1", f"{desk}{i}") for i in range(50)]
    (tmp_path / "proxy.log").write_text("".join(proxy))
    assert run(["collect", "shares", str(tmp_path / "proxy.log"), "-q"]) == 0
    assert "one address" not in capsys.readouterr().err
    assert run(["collect", "shares", str(tmp_path / "proxy.log")]) == 0
    assert "100 % of the visitors come from one address" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("log", "options", "said"),
    [
        ("access.log", ["--by", "country"], "nothing but browser family"),
        ("access.log", ["--by", ","], "nothing but browser family"),
        ("access.log", ["--source", "x"], "in the whole access log"),
        ("access.log", ["--db", "fpmonitor.duckdb"], "in the whole access log"),
        ("access.log", ["--k", "5000"], "fewer than two strata have 5,000 users"),
        ("log.jsonl", [], "not an access log"),
        ("common.log", [], "lacks the user agent"),
        (None, ["--by", "sort"], "sort"),
        (None, ["--by", "Screen.width,Screen.height,os", "--k", "4000"], "two strata"),
    ],
)
def test_what_tells_no_shares_is_refused_by_name(
    *,
    log: str | None,
    options: list[str],
    said: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    (folder / "common.log").write_text(line("10.0.0.1", "").replace(' "-" ""', ""))
    assert run(["collect", "shares", *([] if log is None else [log]), *options]) in {2, 3}
    assert said in capsys.readouterr().err


def test_a_second_survey_names_strata_as_the_log_that_is_drawn_from_calls_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where values are hostile, one is called `other`, and few use Brave."""
    values = ["DE", 'a "b"\n\x1b[0m', "other", "", "\\"]
    agent = agent_of("chromium, Windows")
    brands = json.dumps([{"brand": "Brave", "version": "142"}])
    db = stored(
        tmp_path,
        (
            {
                "country": values[i % 5] if i % 7 else None,
                "Navigator.userAgent": agent if i % 3 else agent_of("firefox, Linux"),
                "NavigatorUAData.brands": brands if i % 100 == 1 else None,
                "Screen.width": i % 2,
            }
            for i in range(900)
        ),
    )
    capsys.readouterr()
    shares = str(tmp_path / "shares.toml")
    counted = ["--delta", "0", "-q"]
    for by in ("country", "family,os", "os,country"):
        for k in ("2", "10"):
            assert (
                run(["collect", "shares", "--db", db, "--by", by, "--k", k, "-o", shares, *counted])
                == 0
            )
            asked = [
                "exposure",
                "--curve",
                "--apis",
                "Screen.width",
                "--db",
                db,
                "--k",
                "2",
                "--format",
            ]
            assert run([*asked, "json", "--strata", shares]) == 0
            found = json.loads(capsys.readouterr().out)
            assert found["users"] > 700, "shares fit the users"
            strata = read_strata(tmp_path / "shares.toml")
            assert ("brave, Windows" in strata.shares) == (by == "family,os" and k == "2")
            assert min(low for low, _ in strata.limits.values()) * 900 >= int(k) - 1e-6
    assert run(["collect", "shares", "--db", db, "--by", "os", "-o", shares]) == 0
    assert "Limits that all hold with probability 0.99." in capsys.readouterr().err
    limits = read_strata(tmp_path / "shares.toml").limits["Linux"]
    assert 0.28 < limits[0] < 1 / 3 < limits[1] < 0.39


def test_limits_of_shares_all_hold_as_often_as_they_say_also_of_what_few_have() -> None:
    rng = np.random.default_rng(5)
    shares = np.array([0.6, 0.25, *[0.01] * 14, 0.01])
    names = [*(f"v{i}" for i in range(16)), None]
    wrong = 0
    for counts in rng.multinomial(1000, shares, size=1000):
        found = dict(zip(names, counts.tolist(), strict=True))
        limits = shares_of_counts(found, "country", 10, 0.05).limits
        told = {name: shares[names.index(name)] for name in limits if name != "other"}
        told["other"] = 1 - sum(told.values())
        wrong += any(not low <= told[name] <= high for name, (low, high) in limits.items())
    assert wrong <= 50, "five in a hundred"
    assert wrong > 0, "they are no wider than they have to be"


NAMES = st.text(st.characters(exclude_categories=["Cs"]))


@given(by=NAMES, names=st.sets(NAMES, min_size=2, max_size=2))
def test_any_name_is_read_as_it_was_written_and_commands_no_terminal(
    by: str, names: set[str]
) -> None:
    strata = Strata(by=by, shares=dict(zip(names, (0.25, (0.7, 0.8)), strict=True)))
    text = strata_file(strata, "about")
    assert typed(tomllib.loads(text), Strata, "shares") == strata
    assert text.replace("\n", "").isprintable()
