"""The outward contract: members of the JSON, exit codes, and errors that say what to do."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest

from fpmonitor.cli import run
from fpmonitor.vocabulary import join_names, split_names

ROOT = Path(__file__).parents[2]
LOGS = str(ROOT / "fixtures" / "logs")
CANDIDATES = "Navigator.maxTouchPoints,Navigator.userAgent,Screen.height,Window.devicePixelRatio"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("cli") / "logs.duckdb"
    assert run(["ingest", LOGS, "--db", str(path), "-o", str(path.with_suffix(".json"))]) == 0
    return str(path)


@pytest.fixture(scope="module")
def decision(database: str) -> str:
    path = Path(database).with_name("decision.json")
    arguments = ["decide", "--k", "10", "--population", "20000", "--budget", "0.05"]
    arguments += ["--candidates", CANDIDATES, "--db", database, "-o", str(path), "--quiet"]
    assert run(arguments) == 0
    return str(path)


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert run(arguments) == 0
    captured = capsys.readouterr()
    return json.loads(captured.out)


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    capsys.readouterr()
    assert run(arguments) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, "an error is one line"
    assert captured.err.startswith("fpmonitor: error: ")
    return captured.err


def test_ingest_reports_every_record_of_the_fixture_logs(database: str) -> None:
    batches = json.loads(Path(database).with_suffix(".json").read_text())["batches"]
    expected = json.loads((ROOT / "fixtures" / "logs.json").read_text())["files"]
    members = ["source", "collector", "read", "stored", "duplicates", "rejected"]
    members += ["users", "apis", "seconds", "unit", "unordered", "account", "set_aside"]
    assert [list(batch) for batch in batches] == [members] * 3
    for batch in batches:
        wanted = expected[Path(batch["source"]).name]
        for member in ("read", "stored", "duplicates", "rejected", "users"):
            assert batch[member] == wanted[member], (batch["source"], member)


def test_ingesting_the_same_files_again_stores_nothing(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = output_of(capsys, "db", "apis", "--db", database)
    answer = output_of(capsys, "ingest", LOGS, "--db", database)
    assert isinstance(answer, dict)
    assert [batch["stored"] for batch in answer["batches"]] == [0, 0, 0]
    assert all(batch["duplicates"] == batch["read"] for batch in answer["batches"])
    assert output_of(capsys, "db", "apis", "--db", database) == before


def test_batches_lists_what_ingest_reported(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    reported = json.loads(Path(database).with_suffix(".json").read_text())
    assert output_of(capsys, "db", "batches", "--db", database) == reported


def test_apis_has_the_members_of_the_contract(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    apis = output_of(capsys, "db", "apis", "--db", database)
    assert isinstance(apis, list)
    members = [
        "api",
        "users",
        "coverage",
        "values",
        "entropy_bits",
        "exposure",
        "volatile",
        "changes",
        "means",
    ]
    assert all(list(line) == members for line in apis)
    assert len(apis) == 22


def test_apis_hides_counts_of_fewer_than_k_users(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.csv"
    rows = "".join(f"u{i},v,{'x' if i < 3 else ''}\n" for i in range(50))
    log.write_text("user,common,Screen.height\n" + rows)
    path = str(tmp_path / "x.duckdb")
    assert run(["ingest", str(log), "--db", path]) == 0
    hidden = {
        line["api"]: line for line in output_of(capsys, "db", "apis", "--k", "10", "--db", path)
    }  # type: ignore[attr-defined]
    assert hidden["Screen.height"]["users"] is None
    assert hidden["Screen.height"]["coverage"] is None
    shown = output_of(capsys, "db", "apis", "--k", "10", "--unsafe-counts", "--db", path)
    assert {line["api"]: line["users"] for line in shown}["Screen.height"] == 3  # type: ignore[attr-defined]


def test_exposure_has_the_members_of_the_contract(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--apis", "Navigator.userAgent", "--apis", "Screen.height,Navigator.userAgent"]
    arguments += ["--k", "10", "--population", "1000000", "--delta", "0.05"]
    reports = output_of(capsys, "exposure", *arguments, "--db", database)
    assert isinstance(reports, list)
    assert [report["apis"] for report in reports] == [
        ["Navigator.userAgent"],
        ["Navigator.userAgent", "Screen.height"],
    ]
    wanted = {"apis", "users", "values", "k", "population", "delta", "empirical", "plug_in"}
    wanted |= {"unbiased", "lower", "upper", "paper", "entropy_bits", "naive_group_size"}
    for report in reports:
        assert wanted <= set(report)
        assert report["unbiased"] is None, "no unbiased estimate for a population above the sample"
        assert 0 <= report["lower"] <= report["upper"] <= 1
        assert set(report["paper"]) == {"theorem5", "theorem8"}
    assert run(["exposure", *arguments, "--db", database, "--format", "csv"]) == 0
    [first, _] = csv.DictReader(capsys.readouterr().out.splitlines())
    assert [float(first[f"paper.theorem5.{name}"]) for name in ("lower", "upper")] == reports[0][
        "paper"
    ]["theorem5"]


def test_the_same_question_has_one_answer(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("exposure", "--apis", "Screen.height,Screen.width", "--db", database)
    assert output_of(capsys, *arguments) == output_of(capsys, *arguments)


def test_decision_file_has_the_members_of_the_contract(decision: str) -> None:
    content = json.loads(Path(decision).read_text())
    wanted = {"policy", "guarantee", "allow", "block", "undecided", "recommended"}
    assert wanted | {"complete", "evaluated", "seconds"} <= set(content)
    for name in ("allow", "block", "undecided"):
        assert content[name] == sorted(sorted(apis) for apis in content[name])
    assert content["complete"] is True
    assert content["recommended"] in content["allow"]


def test_gate_answers_from_the_decision_file(
    decision: str, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(Path(decision).read_text())
    allowed, blocked = content["allow"][0], content["block"][0]
    answer = output_of(capsys, "gate", "--exit-zero", decision, "--want", ",".join(allowed))
    assert (answer["verdict"], answer["because"]) == ("allow", allowed)
    have, want = ",".join(blocked[:-1]), blocked[-1]
    answer = output_of(capsys, "gate", "--exit-zero", decision, "--have", have, "--want", want)
    assert (answer["verdict"], answer["because"]) == ("block", blocked)
    assert answer["reason"].startswith(f"{', '.join(blocked)}: exposes more than 5 % of the users")
    # A search that was stopped leaves sets that nothing settles.
    content |= {"block": [], "undecided": [allowed[:1]], "allow": [], "recommended": []}
    content |= {"utility": 0.0, "complete": False}
    open_file = Path(decision).with_name("open.json")
    open_file.write_text(json.dumps(content))
    answer = output_of(capsys, "gate", "--exit-zero", str(open_file), "--want", want)
    assert (answer["verdict"], answer["because"]) == ("unknown", [])
    assert answer["reason"].startswith("no listed set settles it, and not all sets are listed")
    answer = output_of(capsys, "gate", "--exit-zero", str(open_file), "--want", allowed[0])
    assert "users do not tell whether it exposes over 5 %" in answer["reason"]


def test_check_holds_on_the_data_that_was_decided_on(
    decision: str, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = output_of(capsys, "check", decision, "--db", database)
    assert isinstance(rows, list)
    assert {row["verdict"] for row in rows} == {"allow"}


def test_check_exits_1_when_the_data_of_now_violate_the_decision(
    decision: str, tmp_path: Path
) -> None:
    log = tmp_path / "unique.csv"
    rows = "".join(f"u{i}," + ",".join([str(i)] * 4) + "\n" for i in range(20_000))
    log.write_text(f"user,{CANDIDATES}\n{rows}")
    path = str(tmp_path / "unique.duckdb")
    assert run(["ingest", str(log), "--db", path]) == 0
    assert run(["check", decision, "--db", path]) == 1


def test_check_exits_3_when_too_few_users_can_tell(decision: str, tmp_path: Path) -> None:
    log = tmp_path / "few.csv"
    log.write_text(f"user,{CANDIDATES}\n" + "".join(f"u{i},a,b,c,d\n" for i in range(40)))
    path = str(tmp_path / "few.duckdb")
    assert run(["ingest", str(log), "--db", path]) == 0
    assert run(["check", decision, "--db", path]) == 3


def test_export_csv_gives_one_action_per_candidate(
    decision: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["export", decision, "--to", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["api"] for row in rows] == sorted(CANDIDATES.split(","))
    recommended = json.loads(Path(decision).read_text())["recommended"]
    assert [row["api"] for row in rows if row["outcome"] == "exposed"] == recommended


def test_export_json_lists_what_is_allowed_together(
    decision: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = output_of(capsys, "export", decision, "--to", "json")
    assert isinstance(answer, dict)
    assert sorted(answer["exposed"] + answer["withheld"]) == sorted(CANDIDATES.split(","))


def test_csv_and_table_are_printed_on_demand(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["db", "apis", "--db", database, "--format", "csv"]) == 0
    assert len(list(csv.DictReader(io.StringIO(capsys.readouterr().out)))) == 22
    assert run(["db", "apis", "--db", database, "--format", "table"]) == 0
    assert "Navigator.userAgent" in capsys.readouterr().out


def test_output_file_is_written_whole(database: str, tmp_path: Path) -> None:
    target = tmp_path / "apis.csv"
    assert run(["db", "apis", "--db", database, "-o", str(target)]) == 0
    assert target.read_text().startswith("api,users,")
    assert list(tmp_path.iterdir()) == [target], "no scratch file stays"


def test_settings_file_gives_defaults_and_flags_beat_it(
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "fpmonitor.toml").write_text(f'db = "{database}"\n[exposure]\nk = 7\n')
    monkeypatch.chdir(tmp_path)
    arguments = ("exposure", "--apis", "Screen.height")
    assert output_of(capsys, *arguments)[0]["k"] == 7  # type: ignore[index]
    assert output_of(capsys, *arguments, "--k", "9")[0]["k"] == 9  # type: ignore[index]


def test_environment_names_the_database(
    database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FPMONITOR_DB", database)
    assert len(output_of(capsys, "db", "apis")) == 22  # type: ignore[arg-type]


def test_sample_setting_counts_the_observed_users_exactly(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--setting", "sample", "--budget", "0.05", "--candidates", CANDIDATES]
    answer = output_of(capsys, "decide", *arguments, "--db", database)
    assert isinstance(answer, dict)
    assert answer["undecided"] == []
    assert answer["policy"]["delta"] is None
    for apis in answer["allow"]:
        report = output_of(capsys, "exposure", "--apis", ",".join(apis), "--db", database)
        assert report[0]["empirical"] <= 0.05  # type: ignore[index]
    for apis in answer["block"]:
        report = output_of(capsys, "exposure", "--apis", ",".join(apis), "--db", database)
        assert report[0]["empirical"] > 0.05  # type: ignore[index]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--k", "1"], ["k", "at least 2"]),
        (["--k", "10", "--population", "9"], ["population", "at least k"]),
        (["--budget", "0"], ["budget", "between 0 and 1"]),
        (["--budget", "1"], ["budget", "between 0 and 1"]),
        (["--budget", "nan"], ["budget", "between 0 and 1"]),
        (["--delta", "0"], ["delta", "between 0 and 1"]),
        (["--delta", "1.5"], ["delta", "between 0 and 1"]),
        (["--candidates", "Navigator.userAgnt"], ["Navigator.userAgnt", "Navigator.userAgent"]),
        (["--candidates", ","], ["candidates", "at least one"]),
        (["--must", "Screen.hight"], ["Screen.hight"]),
        (["--time-limit", "soon"], ["--time-limit"]),
    ],
)
def test_bad_numbers_and_names_of_decide_are_named(
    database: str, capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    given = ["--budget", "0.05", "--candidates", CANDIDATES, *arguments]
    message = error_of(capsys, "decide", "--db", database, *given)
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--apis", "navigator.useragnet"], ["nearest", "Navigator.userAgent"]),
        (["--apis", ""], ["at least one API"]),
        (["--apis", "Screen.height", "--k", "0"], ["k", "at least 2"]),
        (["--apis", "Screen.height", "--delta", "-1"], ["delta"]),
        (["--apis", "Screen.height", "--population", "99999999999"], ["population", "at most"]),
    ],
)
def test_bad_numbers_and_names_of_exposure_are_named(
    database: str, capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    message = error_of(capsys, "exposure", "--db", database, *arguments)
    for word in words:
        assert word in message


def test_a_missing_database_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = error_of(capsys, "db", "apis", "--db", str(tmp_path / "none.duckdb"))
    assert "none.duckdb" in message
    assert "--db" in message


def test_a_file_that_is_no_database_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database " * 1000)
    assert "notes.txt" in error_of(capsys, "db", "apis", "--db", str(path))
    assert path.read_text() == "not a database " * 1000


def test_a_foreign_duckdb_file_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "foreign.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE mine AS SELECT 1 AS one")
    assert "not a database of fpmonitor" in error_of(capsys, "ingest", LOGS, "--db", str(path))
    with duckdb.connect(path) as connection:
        assert connection.execute("SHOW TABLES").fetchall() == [("mine",)]


def test_a_database_of_a_newer_schema_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new.duckdb"
    log = tmp_path / "log.csv"
    log.write_text("user,a\nu,1\n")
    assert run(["ingest", str(log), "--db", str(path)]) == 0
    with duckdb.connect(path) as connection:
        connection.execute("UPDATE meta SET value = '999' WHERE name = 'schema_version'")
    message = error_of(capsys, "db", "apis", "--db", str(path))
    assert "999" in message
    assert "upgrade" in message


def test_an_empty_database_cannot_decide(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "empty.duckdb"
    log = tmp_path / "log.csv"
    log.write_text("user,a\n")
    assert run(["ingest", str(log), "--db", str(path)]) == 0
    message = error_of(capsys, "decide", "--budget", "0.1", "--db", str(path), code=3)
    assert "no observation" in message


def test_a_database_in_use_is_an_error_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "busy.duckdb"
    hold = (
        "import duckdb, sys; held = duckdb.connect(sys.argv[1]); "
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert "in use" in error_of(capsys, "--wait", "0", "db", "apis", "--db", str(path))
        holder.communicate()


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (None, "no readable decision file"),
        ("{", "no readable decision file"),
        ("[]", "not a decision"),
        ("{}", "missing"),
        (
            (
                '{"policy": {"k": 1, "population": 5, "budget": 0.1, "delta": 0.1, '
                '"candidates": ["a"]}, "setting": "population", "missing": "value", '
                '"data": {"users": 9, "digest": ""}, "guarantee": "", "allow": [], "block": [], '
                '"undecided": [], "recommended": [], "complete": true, "evaluated": 1, '
                '"seconds": 0}'
            ),
            "k: must be at least 2",
        ),
    ],
)
def test_a_bad_decision_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, word: str
) -> None:
    path = tmp_path / "decision.json"
    if content is not None:
        path.write_text(content)
    message = error_of(capsys, "gate", str(path), "--want", "a")
    assert "decision.json" in message
    assert word in message


def test_unknown_exporter_and_collector_list_the_known(
    decision: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "csv" in error_of(capsys, "export", decision, "--to", "cvs")
    arguments = ["ingest", LOGS, "--collector", "wid", "--db", str(tmp_path / "x.duckdb")]
    assert "wide" in error_of(capsys, *arguments)


def test_an_unknown_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--colour" in error_of(capsys, "db", "apis", "--colour")


@pytest.mark.each
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["exposure", "--delta", "snan%"], "not a share"),
        (["exposure", "--delta", "1e9999999%"], "not a share"),
        (["x" * 300], "No such command"),
        (["ui", "--no-browser", "--port", "99999"], "cannot listen"),
        (["quickstart", "file"], "file: "),
        (["quickstart", "file/in"], "file/in: "),
        (["lists", "import", "file", "--from", "ublock", "--site", "Example.com"], "domain name"),
    ],
)
def test_what_no_command_can_take_is_no_bug(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    assert says in error_of(capsys, *arguments)


def test_help_needs_no_wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in ("1", "20"):
        monkeypatch.setenv("COLUMNS", columns)
        assert run(["--help"]) == run(["exposure", "--help"]) == 0


def test_visits_without_a_time_are_counted_for_the_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of them may be of one user."""
    monkeypatch.chdir(tmp_path)
    users = [{"user": f"u{i}", "time": "2026-06-01T00:00:00Z"} for i in range(40)]
    rows = [*users, *({"user": "late", "visit_id": f"v{i}"} for i in range(30))]
    lines = [
        json.dumps(row | {"api": "Screen.width", "value": place}) for place, row in enumerate(rows)
    ]
    Path("log.jsonl").write_text("\n".join(lines))
    assert run(["ingest", "log.jsonl", "--quiet"]) == 0
    for words, said in (([], True), (["--for-others"], False)):
        capsys.readouterr()
        run([*words, "exposure", "--by", "month"])
        assert ("have no time" in capsys.readouterr().err) == said


def test_output_to_a_pipe_or_device_leaves_it_in_place(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()), daemon=True)
    reader.start()
    assert run(["lists", "schema", "-o", str(pipe)]) == 0
    assert pipe.is_fifo()
    reader.join(10)
    assert json.loads(received[0])["$schema"]


def test_output_to_a_missing_folder_is_named(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "none" / "apis.json"
    assert str(target) in error_of(capsys, "db", "apis", "--db", database, "-o", str(target))


def test_a_bug_never_exits_1(
    database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("fpmonitor.cli.data.list_apis", fail)
    assert run(["db", "apis", "--db", database]) == 70
    assert "bug" in capsys.readouterr().err


def test_an_interrupt_exits_130(
    database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fpmonitor.cli.data.list_apis", interrupt)
    assert run(["db", "apis", "--db", database]) == 130
    assert capsys.readouterr().err == "fpmonitor: interrupted\n"


WITH_LONG_QUERY = """
import os, signal, threading
from fpmonitor.cli import main
from fpmonitor.cli import data
from fpmonitor.duckdb_connection import in_memory

def ask_for_hours(execute):
    execute("CREATE TABLE long AS SELECT unnest(range(1_000_000)) AS number")
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    execute("SELECT sum(a.number * b.number) FROM long a, long b")

def in_the_database(users, **_):
    ask_for_hours(users.snapshot.database._execute)

def beside_it(users, **_):
    with in_memory() as connection:
        ask_for_hours(connection.execute)

data.list_apis = {}
main()
"""


@pytest.mark.long
@pytest.mark.parametrize("where", ["in_the_database", "beside_it"])
def test_an_interrupt_ends_a_query_on_all_its_threads(database: str, where: str) -> None:
    command = [
        sys.executable,
        "-P",
        "-c",
        WITH_LONG_QUERY.format(where),
        "db",
        "apis",
        "--db",
        database,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, "fpmonitor: interrupted\n")


def test_quickstart_leaves_database_decision_and_lists(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "start"
    assert run(["quickstart", str(folder)]) == 0
    names = {"fpmonitor.duckdb", "decision.json", "allow-block-list.json", "allow-block-list.csv"}
    assert {file.name for file in folder.iterdir()} == names
    capsys.readouterr()
    assert "not empty" in error_of(capsys, "quickstart", str(folder))


def test_no_raw_value_or_user_id_reaches_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.csv"
    log.write_text("user,a\nsecret-user,secret-value\n,secret-other\n")
    path = str(tmp_path / "x.duckdb")
    assert run(["ingest", str(log), "--db", path]) == 0
    assert run(["exposure", "--apis", "b", "--db", path]) == 2
    assert "secret" not in capsys.readouterr().err
    assert b"secret-user" not in Path(path).read_bytes()


def test_console_script_runs_from_anywhere(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", "from fpmonitor.cli import main; main()", "--version"],
        cwd=tmp_path,
        env=os.environ | {"NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("fpmonitor ")


def test_names_with_commas_stand_in_quotes() -> None:
    assert split_names('a,"b,c", d ,') == ("a", "b,c", "d")
    names = ("a", "b,c", 'd"e', 'say "f", g', '"h"', '"', ',"",')
    assert split_names(join_names(names)) == names
