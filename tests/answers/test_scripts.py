"""Scripts are judged by what they expose of a population, and listed in the forms of others."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from fpmonitor.cli import run
from fpmonitor.vocabulary import api_of_instrumented

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """
CREATE TABLE javascript (
    id INTEGER PRIMARY KEY, incognito INTEGER, browser_id INTEGER NOT NULL,
    visit_id INTEGER NOT NULL, extension_session_uuid TEXT, event_ordinal INTEGER,
    page_scoped_event_ordinal INTEGER, window_id INTEGER, tab_id INTEGER, frame_id INTEGER,
    script_url TEXT, script_line TEXT, script_col TEXT, func_name TEXT, script_loc_eval TEXT,
    document_url TEXT, top_level_url TEXT, call_stack TEXT, symbol TEXT, operation TEXT,
    value TEXT, arguments TEXT, time_stamp DATETIME NOT NULL)
"""
PLUGINS, AGENT = "window.navigator.plugins", "window.navigator.userAgent"
WIDTH, DEPTH = "window.screen.width", "window.screen.colorDepth"
TRACKER, QUIET = "https://cdn.t.example/fp.js", "https://quiet.example/q.js"
OWN, HOSTILE = "https://static.a.example/app.js", "https://evil.example/a$document,b|.js"
NEWER = {
    TRACKER: ({"a", "b", "c"}, [PLUGINS, AGENT]),
    QUIET: ({"a", "b"}, [DEPTH]),
    OWN: ({"a"}, [PLUGINS]),
    HOSTILE: ({"c"}, [PLUGINS]),
    "https://part.example/p.js": ({"b"}, [AGENT, "window.navigator.buildID"]),
}
OLDER = {
    TRACKER: ({"a"}, [DEPTH]),
    QUIET: ({"a", "b"}, [AGENT]),
    OWN: ({"a"}, [PLUGINS]),
    "https://gone.example/g.js": ({"c"}, [WIDTH]),
}


def crawl(path: Path, seen: dict[str, tuple[set[str], list[str]]]) -> str:
    rows = [
        (1, 1, script, f"https://www.{site}.example/?id=7", symbol, "get", "x")
        for script, (sites, symbols) in seen.items()
        for site in sorted(sites)
        for symbol in symbols
    ]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(SCHEMA)
        connection.executemany(
            "INSERT INTO javascript (browser_id, visit_id, script_url, top_level_url, symbol, "
            "operation, time_stamp) VALUES (?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        connection.commit()
    return str(path)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a database of users, two crawls in it, a decision and another list."""
    folder = tmp_path_factory.mktemp("scripts")
    draw = random.Random(5)
    users = [
        f"u{i},c{draw.randrange(400)},a{draw.randrange(5)},{draw.choice([1920, 1366])},24\n"
        for i in range(200)
    ]
    header = "user,Navigator.plugins,Navigator.userAgent,Screen.width,Screen.colorDepth\n"
    (folder / "users.csv").write_text(header + "".join(users))
    db = ["--db", str(folder / "x.duckdb"), "-q"]
    assert run(["ingest", str(folder / "users.csv"), *db]) == 0
    asked = ["--k", "3", "-n", "200", "--budget", "0.3", "-o", str(folder / "decision.json")]
    assert run(["decide", "--assume", "Screen.colorDepth", *asked, *db]) == 0
    logs = [crawl(folder / "new.sqlite", NEWER), crawl(folder / "old.sqlite", OLDER)]
    assert run(["lists", "demand", *logs, *db, "-o", str(folder / "sets.json")]) == 0
    listed = {
        "categories": {
            "FingerprintingInvasive": [{"T": {"https://t.example/": ["t.example"], "dnt": "eff"}}],
            "FingerprintingGeneral": [{"Q": {"https://quiet.example/": ["quiet.example"]}}],
            "Advertising": [{"E": {"https://evil.example/": ["evil.example"]}}],
        }
    }
    (folder / "services.json").write_text(json.dumps(listed))
    return folder


def scripts(place: Path, *options: str, crawl: str = "*new*") -> str:
    out = place / "out"
    common = ["--crawl", crawl, "--db", str(place / "x.duckdb"), "-o", str(out)]
    assert run(["lists", "scripts", str(place / "decision.json"), *common, *options]) == 0
    return out.read_text()


def test_scripts_are_ranked_by_what_they_expose_and_what_a_decision_takes(place: Path) -> None:
    report = json.loads(
        scripts(place, "--before", "*old*", "--against", str(place / "services.json"))
    )
    lines = {line["script"]: line for line in report["scripts"]}
    tracker, quiet = lines["cdn.t.example/fp.js"], lines["quiet.example/q.js"]
    part = lines["part.example/p.js"]
    assert [line["place"] for line in report["scripts"]] == [1, 2, 2, 4, 4]
    assert (tracker["verdict"], tracker["sites"], tracker["listed"]) == (
        "block",
        3,
        ["FingerprintingInvasive"],
    )
    assert tracker["reads"]["lower"] > 0.3
    assert tracker["beyond"]["apis"] == tracker["taken"]["apis"] == ["Navigator.plugins"]
    assert tracker["left"] == lines["part.example/p.js"]["reads"] | {
        "upper": tracker["left"]["upper"]
    }
    assert tracker["left"]["upper"] <= 0.3 < tracker["taken"]["lower"]
    assert (quiet["verdict"], quiet["taken"]["upper"], quiet["place_before"]) == ("allow", 0.0, 2)
    # What the log of users lacks could expose anybody.
    assert part["unobserved"] == ["Navigator.buildID"]
    assert (part["verdict"], part["reads"]["upper"]) == ("undecided", None)
    assert report["stability"] == {"common": 3, "new": 2, "gone": 1, "kendall_tau": 0.0}
    # The script of the site itself is no host to compare; the tracker is in both lists.
    assert report["agreement"] | {"kappa": None} == {
        "both": 1, "ours": 1, "theirs": 1, "neither": 1, "kappa": None
    }  # fmt: skip
    assert report["agreement"]["kappa"] == 0.0
    assert report["weights"]["Navigator.plugins"] == lines["static.a.example/app.js"]["exposure"]
    assert report["basis"] == "unbiased"


def test_lists_of_scripts_hold_what_is_above_the_budget_and_no_foreign_rule(place: Path) -> None:
    rules = scripts(place, "--to", "adblock").splitlines()
    assert rules == [
        "! Title: Scripts above the budget of a decision",
        "||cdn.t.example/fp.js^$script,third-party",
    ]
    assert "||evil.example^$script,third-party" in scripts(
        place, "--to", "adblock", "--by", "domain"
    )
    services = json.loads(scripts(place, "--to", "disconnect"))
    assert services["categories"]["FingerprintingInvasive"] == [
        {"cdn.t.example": {"https://cdn.t.example/": ["cdn.t.example"]}}
    ]
    (place / "ours.json").write_text(json.dumps(services))
    again = json.loads(scripts(place, "--against", str(place / "ours.json")))["agreement"]
    assert (again["both"], again["theirs"]) == (1, 0)
    radar = {
        entry["domain"]: entry for entry in json.loads(scripts(place, "--to", "tracker-radar"))
    }
    assert radar["cdn.t.example"]["fingerprinting"] == 3
    [resource] = radar["cdn.t.example"]["resources"]
    assert resource["rule"] == r"cdn\.t\.example\/fp\.js"
    assert {api_of_instrumented("trackerradar", name) for name in resource["apis"]} == {
        "Navigator.plugins", "Navigator.userAgent"
    }  # fmt: skip
    assert radar["quiet.example"]["fingerprinting"] == 1
    weights = json.loads(scripts(place, "--to", "api-weights"))
    assert next(iter(weights)) == "Navigator.prototype.plugins"
    pages = [json.loads(line) for line in scripts(place, "--to", "custom-metrics").splitlines()]
    told: dict[str, Any] = {
        page["page"]: page["custom_metrics"]["privacy"]["fingerprinting"] for page in pages
    }
    assert told["https://www.b.example/"] == {
        "counts": {
            "Navigator.plugins": 1, "Navigator.buildID": 1, "Navigator.userAgent": 2,
            "Screen.colorDepth": 1,
        },
        "likelyFingerprintingScripts": ["https://cdn.t.example/fp.js"],
    }  # fmt: skip


def test_a_script_that_browsers_of_users_reported_is_for_the_owner_alone(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = {"policyId": "local-fonts", "sourceFile": "chrome-extension://secretextension/x.js"}
    report = {"type": "permissions-policy-violation", "url": "https://a.example/", "body": body}
    (tmp_path / "reports.json").write_text(json.dumps([report]))
    db = tmp_path / "x.duckdb"
    shutil.copy(place / "x.duckdb", db)
    decision, out = str(place / "decision.json"), tmp_path / "out.csv"
    assert run(["lists", "demand", str(tmp_path / "reports.json"), "--db", str(db), "-q"]) == 0
    for_owner = ["lists", "scripts", decision, "--db", str(db), "-o", str(out)]
    assert run(for_owner) == 0
    assert "secretextension" in out.read_text()
    assert run(["--for-others", *for_owner]) == 0
    assert "secretextension" not in out.read_text()
    assert run([*for_owner, "--crawl", "nothing"]) == 3
    capsys.readouterr()
    assert run([*for_owner, "--most", "2"]) == 0
    assert "the 2 on the most sites" in capsys.readouterr().err


def test_scripts_are_ranked_by_limits_where_the_sample_may_be_biased(
    place: Path, tmp_path: Path
) -> None:
    """As sets are by `rank`: an estimate is right on average for plain draws alone."""
    decision, out, db = tmp_path / "d.json", tmp_path / "out.json", str(place / "x.duckdb")
    asked = ["--k", "3", "-n", "200", "--budget", "0.3", "--bias", "1.25", "-o", str(decision)]
    assert run(["decide", "--assume", "Screen.colorDepth", *asked, "--db", db, "-q"]) == 0
    asked = ["lists", "scripts", str(decision), "--crawl", "*new*", "--db", db, "-o", str(out)]
    assert run(asked) == 0
    report = json.loads(out.read_text())
    assert report["basis"] == "upper"
    for line in report["scripts"]:
        if line["reads"]["upper"] is not None:
            assert line["exposure"] == line["reads"]["upper"]
