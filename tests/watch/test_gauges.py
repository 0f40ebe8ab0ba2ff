"""Numbers of a watch for Prometheus, the board and the rules that are shipped with them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fpmonitor.answers.gauges import gauges
from fpmonitor.answers.standing import SetStanding, Standing
from fpmonitor.cli import run
from fpmonitor.decide.files import read_decision
from fpmonitor.monitor import Monitor
from tests.patience import patience

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPLOY = Path(__file__).parents[2] / "deploy"


def log(path: Path, day: int, users: range, values: int) -> Path:
    rows = (
        {"user": f"u{u}", "time": f"2026-01-{day:02}T12:00:00Z", "source": "main"}
        | {'a"\\b': u % values, "c": u % 2}
        for u in users
    )
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """What a watch writes of a day that is above the budget, and a log that cannot be read."""
    folder = tmp_path_factory.mktemp("gauges")
    with Monitor(folder / "then", create=True) as monitor:
        monitor.ingest([str(log(folder / "then.jsonl", 1, range(2000), 3))])
        decided = monitor.decide(k=5, population=2000, budget=0.05)
    decision, told = folder / "decision.json", folder / "told"
    decision.write_text(json.dumps(decided.to_json()), encoding="utf-8")
    for name in ("in", "told"):
        (folder / name).mkdir()
    log(folder / "in" / "1.jsonl", 2, range(5000, 7000), 2000)
    (folder / "in" / "broken.jsonl").write_text("[1, 2]\n", encoding="utf-8")
    asked = ["watch", str(folder / "in"), "--decision", str(decision), "--by", "day", "--once"]
    asked += ["--settle", "0", "--new-users", "--db", str(folder / "db"), "--quiet"]
    assert run([*asked, "--metrics", str(told / "fpmonitor.prom")]) == 1
    return told, (told / "fpmonitor.prom").read_text(encoding="utf-8")


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_a_watch_writes_what_is_known_and_when_it_looked(written: tuple[Path, str]) -> None:
    found = samples(written[1])
    [(labels, above)] = found["fpmonitor_set_above_budget"]
    assert (labels["set"], above) == ('a"\\b + c', 1)
    [(_, lower)], [(_, upper)] = (
        found[f"fpmonitor_set_exposure_{side}"] for side in ("lower", "upper")
    )
    assert 0.05 < lower < upper
    assert [value for _, value in found["fpmonitor_exposure_budget"]] == [0.05]
    assert [value for _, value in found["fpmonitor_window_users"]] == [2000]
    problems = {(labels["kind"], labels["what"]) for labels, _ in found["fpmonitor_problem"]}
    assert ("refused", "broken.jsonl") in problems
    assert [value for _, value in found["fpmonitor_undelivered_notices"]] == [0]
    [(_, looked)] = found["fpmonitor_watch_last_look_seconds"]
    assert abs(looked - time.time()) < 3600


def test_no_two_samples_have_the_same_labels(written: tuple[Path, str]) -> None:
    """Prometheus refuses the whole file, and with it all alerts."""
    decision = read_decision(written[0].parent / "decision.json")
    sets = [
        ("a + b",),
        ("a", "b"),
        ("a +", "b"),
        ("a", "+ b"),
        ('"a + b"',),
        ("a\x07",),
        ("a\\x07",),
    ]
    standing = Standing(
        outcome="violated",
        sets=tuple(
            SetStanding(apis=apis, verdict="block", since="2026-01-02", limits=(i / 10, 0.9))
            for i, apis in enumerate(sets)
        ),
        source_users={"s\x07": 10, "s\\x07": 20, '"s\\u0007"': 30},
        faulty_sources={"s\x07": ("a",), "s\\x07": ()},
    )
    found = samples(gauges(decision, standing, identity="0" * 64))
    for name, told in found.items():
        labels = [tuple(each.items()) for each, _ in told]
        assert len({*labels}) == len(labels), name
    told = [labels["set"] for labels, _ in found["fpmonitor_set_exposure_lower"]]
    assert "a + b" in told  # of two APIs, as ever


def test_the_board_and_the_rules_ask_for_numbers_that_there_are(written: tuple[Path, str]) -> None:
    board = json.loads((DEPLOY / "grafana-watch.json").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked.append((DEPLOY / "alerts.yaml").read_text(encoding="utf-8"))
    named = {name for text in asked for name in re.findall(r"fpmonitor_\w+", text)}
    # Sources are judged where logs are broken: see the test of users and faults by source.
    assert named <= samples(written[1]).keys() | {"fpmonitor_source_faults"}
    assert "fpmonitor_watch_last_look_seconds" in named
    runbook = (DEPLOY.parent / "docs" / "runbook.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", runbook, re.MULTILINE)
    sections = {heading.lower().replace(" ", "-") for heading in headings}
    assert {*re.findall(r"runbook\.md#(\S+)", asked[-1])} <= sections


@pytest.fixture
def prometheus(written: tuple[Path, str], tmp_path: Path) -> Iterator[str]:
    """A real Prometheus that reads what the watch wrote, with the rules; its address."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("Prometheus is not installed (Debian: apt-get install prometheus)")
    handler = partial(SimpleHTTPRequestHandler, directory=str(written[0]))
    handler.extensions_map = {".prom": "text/plain"}  # type: ignore[attr-defined]
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as free:
        port = free.server_port
    rules = (DEPLOY / "alerts.yaml").read_text(encoding="utf-8")
    (tmp_path / "alerts.yaml").write_text(rules, encoding="utf-8")
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["alerts.yaml"],
        "scrape_configs": [
            {
                "job_name": "watch",
                "metrics_path": "/fpmonitor.prom",
                "static_configs": [{"targets": [f"127.0.0.1:{server.server_port}"]}],
            }
        ],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
    running = subprocess.Popen(
        [
            program,
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        running.kill()
        running.wait()
        server.shutdown()
        server.server_close()


@pytest.mark.long
def test_a_real_prometheus_raises_the_alerts(prometheus: str) -> None:
    def asked(path: str) -> Any:
        with urllib.request.urlopen(f"{prometheus}{path}") as answer:
            return json.load(answer)["data"]

    wanted = {"FpmonitorAboveBudget", "FpmonitorProblem"}
    deadline, firing = time.monotonic() + patience(60), set()
    while not wanted <= firing and time.monotonic() < deadline:
        time.sleep(0.5)
        try:
            firing = {one["labels"]["alertname"] for one in asked("/api/v1/alerts")["alerts"]}
        except OSError:  # it begins
            continue
    assert wanted <= firing
    assert "FpmonitorWatchIsSilent" not in firing
    query = urllib.parse.quote("topk(5, fpmonitor_set_exposure_upper)")
    [found] = asked(f"/api/v1/query?query={query}")["result"]
    assert float(found["value"][1]) > 0.05


AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/14{}.0.0.0"


def logs_of_sources(
    path: Path, day: int, sources: dict[str, int], cut: str | None = None, both: int = 0
) -> None:
    """A day of users of some sources, one of which may send values that are cut short.

    Some of the users of shop come by main, too.
    """
    rows = [
        {
            "user": f"{day}{'main' if name == 'shop' and u < both else name}{u}",
            "source": name,
            "time": f"2026-01-{day:02}T12:00:00Z",
        }
        | {"agent": AGENT.format(u % 2)[: 40 if name == cut else None], "c": u % 2}
        for name, users in sources.items()
        for u in range(users)
    ]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")


@pytest.mark.each
@pytest.mark.parametrize(
    ("few", "both", "told"),
    [
        ({"la\x07b": 7}, 0, {"main": 1000, "shop": 600, r'"la\u0007b"': 7}),
        ({"lab": 3}, 0, {"main": 1000}),
        ({}, 3, {"main": 1000}),
    ],
)
def test_users_and_faults_are_told_by_source_and_of_few_users_nothing(
    tmp_path: Path, few: dict[str, int], both: int, told: dict[str, int]
) -> None:
    """Where k is 5, all users less those of two sources would be the 3 of the third, or of both.

    So few as 7 are not judged.
    """
    folder, sources = tmp_path / "in", {"main": 1000, "shop": 600, **few}
    folder.mkdir()
    logs_of_sources(folder / "1.jsonl", 1, sources, both=both)
    with Monitor(tmp_path / "then", create=True) as monitor:
        monitor.ingest([str(folder / "1.jsonl")])
        decided = monitor.decide(k=5, population=2000, budget=0.05)
    decision = tmp_path / "decision.json"
    decision.write_text(json.dumps(decided.to_json()), encoding="utf-8")
    asked = ["watch", str(folder), "--decision", str(decision), "--by", "day", "--once"]
    asked += ["--settle", "0", "--db", str(tmp_path / "db"), "--metrics", str(tmp_path / "m.prom")]
    run(asked)
    logs_of_sources(folder / "2.jsonl", 2, sources, cut="shop", both=both)
    run(asked)
    found = samples((tmp_path / "m.prom").read_text(encoding="utf-8"))
    users, faults = (
        {labels["source"]: value for labels, value in found[f"fpmonitor_source_{kind}"]}
        for kind in ("users", "faults")
    )
    assert users == told
    assert faults == {"main": 0, "shop": 1}
    [notice] = (tmp_path / "db.notices").glob("2.json")
    texts = [one["text"] for one in json.loads(notice.read_text())["problems"]]
    assert any("values that are cut short, from shop, not from main;" in text for text in texts)
