"""What others are told is the same, byte for byte, whether a group has none or up to k - 1 users.

Databases are made that differ in one thing: so many users, from 0 to 9, moved from the largest
group to a value of their own. Everything that is made for others must be the same for all of them,
limits included; only times and what is counted of the logs themselves is taken out.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from fpmonitor.cli import run
from fpmonitor.decide.files import read_decision
from fpmonitor.disclosure import Audience
from fpmonitor.export.coverage import Coverage
from fpmonitor.monitor import Monitor
from fpmonitor.render.html import write_html
from fpmonitor.serve.app import service_app
from fpmonitor.serve.config import ServeConfig

PACKAGE = Path(__file__).parents[2] / "fpmonitor"
K = 10
USERS = 400
COVERAGE = Coverage(verdicts={}, together=(), missed=())
PLANTED = {"group": (0, 1, 5, K - 1), "singles": (0, 1, 4, K - 1)}
LANGUAGE, WIDTH, TOUCH = "Navigator.language", "Screen.width", "Navigator.maxTouchPoints"
_TIMES = re.compile(
    r"(?:\d{4}-\d\d-\d\d)?(?:T| at | )?\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?: UTC|Z|\+00:00)?"
)
COMMANDS = {
    "exposure": f"exposure --apis {WIDTH} --apis {WIDTH},{LANGUAGE} --bounds --entropies "
    "--trust joint",
    "exposure of a large population": f"exposure --apis {WIDTH} -n 1000000",
    "exposure of a small population": f"exposure --apis {WIDTH} -n 50",
    "exposure table": f"exposure --apis {WIDTH} --format table",
    "cohorts": f"exposure --apis {WIDTH} --given {LANGUAGE}",
    "rank": "exposure --rank --size 2",
    "rank of a large population": "exposure --rank --size 2 -n 1000000",
    "curve": f"exposure --curve --apis {WIDTH}",
    "apis": "db apis",
    "trend": f"exposure --apis {WIDTH} --apis {WIDTH},{LANGUAGE} --by week --svg drawn.svg",
    "automation": f"db automation --apis {WIDTH}",
    "preview": "export --preview decision.json --to permissions-policy",
    "check": "check decision.json",
}
PLOTS = {
    "exposure": "",
    "curve": f"--apis {WIDTH}",
    "entropy": "",
    "trust": f"--apis {WIDTH},{LANGUAGE}",
}


def write_log(path: Path, planted: int, where: str) -> None:
    """Write two weeks of users; the planted ones share a width, or have one each and lack an API.

    They come from the largest group.
    """
    lines = []
    for week in range(2):
        for i in range(USERS):
            is_planted = i < planted and week == 1
            record = {
                "user": f"u{i}-{week}",
                "time": f"2026-01-{5 + 7 * week:02}T12:00:00Z",
                LANGUAGE: "en" if i < 300 else "de",
                WIDTH: 1920 if i < 200 else 1366 if i < 320 else 360,
                TOUCH: 0,
            }
            if is_planted and where == "group":
                record[WIDTH] = 4711
            elif is_planted:
                record[WIDTH] = 5000 + i
                del record[TOUCH]
            lines.append(json.dumps(record))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="module", params=["group", "singles"])
def folders(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Make a folder for each number of planted users, with a database and the same decision."""
    made = []
    decision = None
    for planted in PLANTED[request.param]:
        folder = tmp_path_factory.mktemp(f"{request.param}-{planted}")
        write_log(folder / "log.jsonl", planted, request.param)
        with Monitor(folder / "x.duckdb", create=True) as monitor:
            monitor.ingest([str(folder / "log.jsonl")])
            if decision is None:
                # Of other users: that the data are those of the decision would be told.
                with Monitor(folder / "other.duckdb", create=True) as other:
                    write_log(folder / "other.jsonl", 30, "group")
                    other.ingest([str(folder / "other.jsonl")])
                    decision = other.decide(k=K, budget=0.05, population=1000)
        (folder / "decision.json").write_text(json.dumps(decision.to_json()), encoding="utf-8")
        made.append(folder)
    return made


def same(texts: list[str]) -> None:
    """Compare what is left without times."""
    [first, *others] = [_TIMES.sub("TIME", text) for text in texts]
    for place, other in enumerate(others, 1):
        assert other == first, place


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_for_others(
    name: str,
    folders: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = []
    for folder in folders:
        monkeypatch.chdir(folder)
        code = run(["--for-others", *COMMANDS[name].split(), "--db", "x.duckdb"])
        captured = capsys.readouterr()
        assert code in {0, 1, 3}, captured.err
        drawn = (folder / "drawn.svg").read_text() if "--svg" in COMMANDS[name] else ""
        told.append(f"{code}\n{captured.out}\n{captured.err}\n{drawn}")
    same(told)


def test_a_comparison_for_others(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for folder in folders:
        monkeypatch.chdir(folder)
        command = ["check", "--compare", "x.duckdb", "x.duckdb", "--split", "2026-01-10"]
        assert run(["--for-others", *command]) == 0
        captured = capsys.readouterr()
        told.append(captured.out + captured.err)
    same(told)


@pytest.mark.long
@pytest.mark.parametrize("kind", PLOTS)
def test_plots(
    kind: str,
    folders: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = []
    for folder in folders:
        monkeypatch.chdir(folder)
        assert (
            run(
                [
                    "exposure",
                    "--plot",
                    kind,
                    *PLOTS[kind].split(),
                    "--db",
                    "x.duckdb",
                    "-o",
                    "x.svg",
                ]
            )
            == 0
        )
        told.append((folder / "x.svg").read_text(encoding="utf-8") + capsys.readouterr().err)
    same(told)


def test_the_report_from_python_and_from_the_command(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: tuple[list[str], list[str]] = ([], [])
    for folder in folders:
        monkeypatch.chdir(folder)
        decision = read_decision(folder / "decision.json")
        with Monitor(folder / "x.duckdb") as monitor:
            written[0].append(write_html(monitor.findings(decision, coverage=COVERAGE)))
        assert (
            run(["export", "--report", "decision.json", "--db", "x.duckdb", "-o", "r.html", "-q"])
            == 0
        )
        written[1].append((folder / "r.html").read_text(encoding="utf-8"))
    for texts in written:
        same(texts)


@pytest.mark.parametrize("with_decision", [True, False])
def test_the_service(folders: list[Path], with_decision: bool) -> None:
    told = []
    for folder in folders:
        config = ServeConfig(
            db=folder / "x.duckdb",
            decision=folder / "decision.json" if with_decision else None,
            spool=folder / f"spool-{with_decision}",
        )
        answers = []
        with TestClient(service_app(config), base_url="http://localhost") as client:
            for _ in range(1000 * with_decision):  # until then the lists are those of the file
                if client.get("/v1/decision").json()["state"]["is_now"]:
                    break
                time.sleep(0.01)
            for address in (
                f"/v1/exposure?apis={WIDTH}",
                f"/v1/exposure?apis={WIDTH},{LANGUAGE}",
                f"/v1/exposure?apis={TOUCH}",
                f"/v1/gate?want={WIDTH}",
                "/v1/decision",
                f"/?api={WIDTH}",
                f"/dashboard/explore?api={WIDTH}&api={LANGUAGE}",
                f"/dashboard/explore?api={TOUCH}",
                "/dashboard/live",
                "/dashboard/apis",
                "/metrics",
            ):
                answer = client.get(address)
                text = answer.text
                if address == "/metrics":  # seconds of requests and of the process
                    text = "\n".join(
                        x
                        for x in text.splitlines()
                        if x.startswith("fpmonitor_stored_records_total")
                    )
                text = re.sub(r'"seconds":[0-9.e-]+', '"seconds":0', text)
                answers.append(f"{address} {answer.status_code}\n{text}")
        told.append("\n".join(answers))
    same(told)


def test_pairs_may_be_told_coarser_than_their_apis(tmp_path: Path) -> None:
    """Five large groups are told as if k - 1 users were alone; 12 in small groups as they are."""
    users = [
        {"user": f"u{i}", "a": i % 5, "b": i // 5 % 2 if i % 5 == 0 and i < 60 else 2, "c": "same"}
        for i in range(USERS)
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(user) + "\n" for user in users), encoding="utf-8")
    with Monitor(tmp_path / "d.duckdb", create=True, audience=Audience.OTHERS) as monitor:
        monitor.ingest([str(log)])
        [whole] = monitor.exposure([["a", "b", "c"]], k=K, trust="joint")
        [within] = monitor.exposure([["b"]], k=K, given=["a"])
    assert [level.knowledge for level in whole.trust] == ["marginals", "pairs", "joint"]
    assert within.cohorts is not None
    assert within.cohorts.conditional_entropy_bits == 0.0
    assert within.cohorts.average_min_entropy_bits is None


def test_a_check_for_others_tells_no_number_of_few_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of one user no test is made, whose refusal told that there is one."""
    monkeypatch.chdir(tmp_path)
    told = []
    for name, number in (("many", 40), ("one", 1), ("two", 2), ("nine", 9)):
        users = [{"user": i, "ua": i % 2, "width": 1} for i in range(number)]
        Path("log.jsonl").write_text("\n".join(map(json.dumps, users)), encoding="utf-8")
        assert run(["ingest", "log.jsonl", "--db", f"{name}.duckdb", "-q"]) == 0
        if name == "many":
            asked = ["decide", "--budget", "50%", "--k", "10", "-o", "decision.json", "-q"]
            assert run([*asked, "--db", "many.duckdb"]) == 0
            continue
        capsys.readouterr()
        code = run(["--for-others", "check", "decision.json", "--db", f"{name}.duckdb"])
        captured = capsys.readouterr()
        told.append(f"{code}\n{captured.out}\n{captured.err}".replace(f"{name}.", "x."))
    same(told)


def test_others_are_not_told_the_day_of_a_few_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    users = [{"user": i, "time": f"2026-01-0{5 + i % 2}", "ua": i % 2} for i in range(40)]
    users[0]["time"], users[1]["time"] = "2025-03-01", "2026-09-09"
    Path("log.jsonl").write_text("\n".join(map(json.dumps, users)), encoding="utf-8")
    assert run(["ingest", "log.jsonl", "-q"]) == 0
    asked = ["decide", "--budget", "5%", "--k", "10", "--format", "table", "-q"]
    columns = "from 3 columns: 1 API, 1 user, 1 time"
    capsys.readouterr()
    assert run(asked) == 0
    assert f"40 users, 2025-03-01 to 2026-09-09, {columns}." in capsys.readouterr().out
    assert run(["--for-others", *asked]) == 0
    assert "40 users, 2026-01-05 to 2026-01-06." in capsys.readouterr().out
    assert run(["export", "--report", "-o", "r.html", "-q"]) == 0
    assert "40 users, 2026-01-05 to 2026-01-06." in Path("r.html").read_text(encoding="utf-8")
    assert run([*asked[:-3], "-o", "decision.json", "-q"]) == 0
    Path("more.jsonl").write_text('{"user": "late", "ua": 1}', encoding="utf-8")
    assert run(["ingest", "more.jsonl", "-q"]) == 0
    assert run(["export", "--report", "decision.json", "-o", "r.html", "-q"]) == 0
    said = "41 users, 2026-01-05 to 2026-01-06. The decision was made on other data, of 40 users."
    assert said in Path("r.html").read_text(encoding="utf-8")
