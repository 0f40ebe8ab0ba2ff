"""User agents of robots: what a published list knows is found, and few phones are taken for one."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from typing import TYPE_CHECKING

import apify_fingerprint_datapoints
import pytest
from crawleruseragents import CRAWLER_USER_AGENTS_DATA

from fpmonitor.cli import run
from tests.asked import answer_of
from tests.stored import stored

if TYPE_CHECKING:
    from pathlib import Path


ANDROID = (
    "Mozilla/5.0 (Linux; Android 8.1.0; {}) AppleWebKit/537.36 Chrome/87.0 Mobile Safari/537.36"
)
ROBOTS = {
    "link preview": "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
    "another link preview": "TelegramBot (like TwitterBot)",
    "feed fetcher": "Feedly/1.0 (+http://www.feedly.com/fetcher.html; like FeedFetcher-Google)",
    "library": "Go-http-client/2.0",
    "another library": "python-httpx/0.27.0",
    "library of phones": "okhttp/4.9.0",
    "library of Java": "Java/1.8.0_201",
    "download": "Wget/1.21",
    "monitoring": "Mozilla/5.0 (compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)",
    "archive": "Mozilla/5.0 (compatible; archive.org_bot +http://archive.org/details/archive.org_bot)",
    "crawler of a model": "Mozilla/5.0 AppleWebKit/537.36 (compatible; GPTBot/1.2)",
    "phone of a crawler": ANDROID.format("Nexus 5X Build/MMB29P") + " (compatible; Googlebot/2.1)",
    "on no list": "Mozilla/5.0 (compatible; Inventedbot/1.0)",
    "on no list, with its page": "Mozilla/5.0 (compatible; Invented/1.0; +https://invented.example/)",
}
DRIVEN = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 HeadlessChrome/142.0 Safari/537.36"
PEOPLE = {
    "desk": "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0",
    **{
        f"phone called {name}": ANDROID.format(name)
        for name in ("CUBOT", "XBot Junior", "C Bot Tab 70", "Spider 8", "ViewSonic V500")
    },
    "phone in small letters": ANDROID.format("cubot echo").lower(),
    "phone and its page": ANDROID.format("M bot 54 Build/O11019; wv"),
}


def signs(folder: Path, agents: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    db = stored(folder, ({"userAgent": agent, "a": i % 2} for i, agent in enumerate(agents)))
    asked = ["db", "automation", "--db", db, "--format", "json", "--unsafe-counts"]
    report = answer_of(capsys, *asked)
    assert report["robots_by"].startswith("crawler-user-agents 1.")
    assert report["robots_by"].split(" of ")[1] >= "2026-10-22", "the date of the list is said"
    return {"automated": report["automated"], **report["signs"]}


def test_robots_of_all_kinds_are_found_and_people_with_phones_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "robots").mkdir()
    found = signs(tmp_path / "robots", [*ROBOTS.values(), DRIVEN], capsys)
    assert (found["robot"], found["headless"]) == (len(ROBOTS), 1)
    assert signs(tmp_path, list(PEOPLE.values()), capsys)["automated"] == 0


def test_a_spreadsheet_has_a_row_for_each_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cell held a list in the spelling of Python, which no spreadsheet reads."""
    agents = [*ROBOTS.values(), *PEOPLE.values()] * 10
    db = stored(tmp_path, ({"userAgent": agent, "a": i % 2} for i, agent in enumerate(agents)))
    asked = ["db", "automation", "--db", db, "--apis", "a", "--apis", "a,userAgent"]
    shares = answer_of(capsys, *asked)["exposure"]
    assert run([*asked, "--format", "csv"]) == 0
    found = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["apis"] for row in found] == ["a", "a,userAgent"]
    assert [float(row["all"]) for row in found] == [share["all"] for share in shares]
    assert {row["users"] for row in found} == {str(len(agents))}


@pytest.mark.long
def test_what_the_list_knows_is_found_and_browsers_of_real_people_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = [agent for entry in CRAWLER_USER_AGENTS_DATA for agent in entry["instances"]]
    short = [agent for agent in known if 0 < len(agent.encode()) <= 256]  # others are digests
    (tmp_path / "robots").mkdir()
    assert signs(tmp_path / "robots", short, capsys)["automated"] >= 0.998 * len(short)
    with apify_fingerprint_datapoints.get_header_network().open("rb") as file:
        people = agents_of(file.read())
    assert len(people) > 200
    assert signs(tmp_path, people, capsys)["automated"] == 0


def agents_of(packed: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        network = json.loads(archive.read(archive.namelist()[0]))
    nodes = (node for node in network["nodes"] if node["name"].lower() == "user-agent")
    return sorted({agent for node in nodes for agent in node["possibleValues"]})


def test_a_visitor_of_an_access_log_is_no_robot_of_the_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = '10.0.{}.{} - - [01/Mar/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "{}"\n'
    agents = [*PEOPLE.values(), *ROBOTS.values(), DRIVEN, "collectd/5.5"]
    lines = [line.format(i, user, agent) for i, agent in enumerate(agents) for user in range(20)]
    (tmp_path / "access.log").write_text("".join(lines))
    asked = ["collect", "shares", str(tmp_path / "access.log"), "--by", "family", "-o"]
    assert run([*asked, str(tmp_path / "shares.toml")]) == 0
    said = capsys.readouterr().err
    assert f"{20 * len(PEOPLE):,} visitors" in said
    assert f"{20 * (len(ROBOTS) + 2):,} look automated" in said
    assert "crawler-user-agents 1." in said
