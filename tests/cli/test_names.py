"""A stranger's column names: said once, kept everywhere, known to lists and to every command."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.decide.files import read_decision
from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.monitor import Monitor
from fpmonitor.plugins import EXPORTERS, load_plugin
from fpmonitor.store.names import say_names
from tests.cli import foreign

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).parents[2]
AGENT = "Navigator.userAgent"
FONT_PREFERENCES = "Element.getBoundingClientRect#fingerprintjs.fontPreferences"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def fpmonitor(line: str, code: int = 0) -> None:
    assert run(shlex.split(line)) == code, line


def shown(capsys: pytest.CaptureFixture[str], line: str) -> Any:
    capsys.readouterr()
    fpmonitor(line)
    return json.loads(capsys.readouterr().out)


def said(capsys: pytest.CaptureFixture[str], line: str, code: int = 0) -> str:
    capsys.readouterr()
    fpmonitor(line, code)
    return capsys.readouterr().err


def user_agents(database: str = "a.duckdb") -> str:
    """Store a table as of npm user-agents; return the option that names the database."""
    foreign.write_csv(Path("ua.csv"), foreign.user_agents())
    fpmonitor(f"ingest ua.csv --db {database} -q -o batches.json")
    return f"--db {database}"


# ---- Six tables, and no rename by hand ----------------------------------------------------------

TABLES: dict[str, tuple[Callable[[], Sequence[dict[str, Any]]], str]] = {
    "user-agents": (foreign.nested_user_agents, "--user row --ignore weight"),
    "screens": (foreign.screens, "--weight count"),
    "fingerprintjs": (foreign.nested_fingerprintjs, "--user row --ignore visitorId"),
    "thumbmarkjs": (foreign.thumbmarkjs, ""),
}


def stored(table: str) -> None:
    if table == "excel":
        Path("excel.csv").write_bytes(foreign.excel())
        fpmonitor("ingest excel.csv --user Käufer --ignore Datum -q -o batches.json")
    elif table == "polars":
        with Monitor("fpmonitor.duckdb", create=True) as monitor:
            monitor.ingest(pl.DataFrame(foreign.user_agents()))
    else:
        rows, options = TABLES[table]
        Path("rows.json").write_text(json.dumps(rows()))
        fpmonitor(f"ingest rows.json {options} -q -o batches.json")


@pytest.mark.parametrize("table", [*TABLES, "excel", "polars"])
def test_foreign_tables_become_lists_that_are_not_empty_and_true(
    table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(table)
    fpmonitor("decide --budget 10% --setting sample -q -o d.json")
    decision = read_decision(Path("d.json"))
    agent = next(name for name in decision.policy.candidates if decision.means(name) == AGENT)
    assert agent != AGENT
    nested = {
        "user-agents": ("connection.rtt", "NetworkInformation.rtt"),
        "fingerprintjs": ("fontPreferences.apple", FONT_PREFERENCES),
        "thumbmarkjs": ("speech.details.voiceCount", "SpeechSynthesis.getVoices"),
    }
    if table in nested:
        column, api = nested[table]
        assert decision.names[column] == api
    assert agent not in decision.recommended
    assert decision.recommended
    for product in ("brave", "firefox-policies", "ublock"):
        capsys.readouterr()
        replaced = "--replace-protection" * (product != "ublock")
        fpmonitor(f"export d.json --partial {replaced} --to {product} --verdicts v.json")
        text = capsys.readouterr().out
        verdicts = {row["api"]: row for row in json.loads(Path("v.json").read_text())}
        assert verdicts[agent]["means"] == AGENT
        assert verdicts[agent]["verdict"] != "unknown"
        exporter = load_plugin(EXPORTERS, product)
        in_force = exporter.read(text, None)
        assert not in_force.problems
        for name, row in verdicts.items():
            means = decision.means(name)
            hidden = any(control.hides(means) for control in in_force.controls)
            if row["outcome"] != "exposed":
                hidden |= exporter.product.lacks(means)
                assert hidden or row["verdict"] not in {"exact", "over-blocking", "untried"}
            elif row["verdict"] == "exact" and product != "brave":
                assert not hidden, (product, name)
        if product == "brave":
            assert json.loads(text)[0]["exceptions"]
            assert "user-agent" not in json.loads(text)[0]["exceptions"]
        if product == "firefox-policies":
            assert "+NavigatorUserAgent" in text


@pytest.mark.long
def test_a_table_in_the_encoding_of_windows_is_refused_with_a_way_that_works(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = foreign.excel(encoding="cp1252")
    Path("named.csv").write_bytes(table)
    Path("values.csv").write_bytes(table.replace("Käufer".encode("cp1252"), b"id"))
    some = foreign.excel(encoding="utf-8").replace("Käufer".encode(), b"id")
    Path("some.csv").write_bytes(some.replace("Müller 7;".encode(), "Müller 7;".encode("cp1252")))
    for name, code in (("named", 2), ("values", 2), ("some", 0)):
        told = said(capsys, f"ingest {name}.csv --user id --ignore Datum", code)
        assert "not UTF-8" in told
        way = re.search(r"`(iconv [^`]+ ingest -)`", told)
        assert way
    recode = (
        way[1].replace("FILE", "named.csv").replace("fpmonitor", f"{sys.executable} -m fpmonitor")
    )
    subprocess.run(
        f"{recode} --user Käufer --ignore Datum --db b.duckdb -q", shell=True, check=True
    )
    batch = shown(capsys, "db batches --db b.duckdb")["batches"][-1]
    assert (batch["stored"], batch["rejected"]) == (600, 0)


def test_a_list_for_ublock_sets_what_the_vocabulary_names() -> None:
    db = user_agents()
    fpmonitor(f"decide {db} --budget 10% --setting sample --never screen.width -q -o d.json")
    fpmonitor("export d.json --partial --to ublock -q -o list.txt")
    assert "set-constant, screen.width" in Path("list.txt").read_text()
    fpmonitor("export d.json --partial --to ublock --verdicts v.json -q -o list.txt")
    rows = {row["api"]: row for row in json.loads(Path("v.json").read_text())}
    assert (rows["screenWidth"]["verdict"], rows["screenWidth"]["collateral"]) == (
        "by-passable",
        [],
    )


# ---- Said once ----------------------------------------------------------------------------------


def test_ingest_says_once_what_the_columns_are(capsys: pytest.CaptureFixture[str]) -> None:
    foreign.write_csv(Path("ua.csv"), [row | {"usrAgent": 1} for row in foreign.user_agents(20)])
    told = said(capsys, "ingest ua.csv")
    assert "8 of 10 names are known" in told
    assert "pluginsLength is Navigator.plugins#length" in told
    assert "not known to fpmonitor: deviceCategory, usrAgent (nearest: Navigator.userAgent)" in told
    assert "names are known" not in said(capsys, "ingest ua.csv")
    assert "names are known" not in said(capsys, "ingest ua.csv -q --db other.duckdb")


def test_ingest_asks_where_a_name_is_not_clear(capsys: pytest.CaptureFixture[str]) -> None:
    foreign.write_lines(Path("a.jsonl"), [{"user": 1, "timezone": "UTC", "ua": "x"}])
    told = said(capsys, "ingest a.jsonl")
    assert "timezone may be Intl.DateTimeFormat.resolvedOptions#timeZone or Date" in told
    assert "db apis --set" in told
    [row] = [row for row in shown(capsys, "db apis") if row["api"] == "timezone"]
    assert row["means"] is None


def test_names_as_of_the_vocabulary_are_not_talked_about(
    capsys: pytest.CaptureFixture[str],
) -> None:
    foreign.write_lines(Path("a.jsonl"), [{"user": 1, AGENT: "x", "http:user-agent": "x"}])
    assert "names are known" not in said(capsys, "ingest a.jsonl --collector wide")


def test_the_user_says_what_a_name_is_in_four_ways(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"user": i, "tz": "UTC", "w": i % 2} for i in range(20)]
    foreign.write_lines(Path("a.jsonl"), rows)
    Path("map.toml").write_text('[apis]\ntz = "Intl.DateTimeFormat.resolvedOptions#timeZone"\n')
    fpmonitor("ingest a.jsonl --columns map.toml --as w=screen.width -o b.json")
    means = {row["api"]: row["means"] for row in shown(capsys, "db apis")}
    assert means == {"tz": "Intl.DateTimeFormat.resolvedOptions#timeZone", "w": "Screen.width"}
    assert shown(capsys, "db apis --set w=innerHeight") == [
        {"name": "w", "means": "Window.innerHeight"}
    ]
    fpmonitor("db apis --set w= -o s.json")
    assert {row["api"]: row["means"] for row in shown(capsys, "db apis")}["w"] is None
    assert {row["api"]: row["means"] for row in shown(capsys, "db apis")}["tz"] == means["tz"]


def test_a_converted_log_is_read_as_was_said(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"id": i, "tz": "UTC", "ua": "x", "device": {"w": i % 2}} for i in range(20)]
    foreign.write_lines(Path("a.jsonl"), rows)
    options = "--user row --ignore id --ignore ua --as device.w=screen.width -q"
    assert "--rows-are-users" in said(capsys, f"scale convert a.jsonl {options} -o part.parquet", 2)
    options += " --rows-are-users"
    zone = "Intl.DateTimeFormat.resolvedOptions#timeZone"
    fpmonitor(f"scale convert a.jsonl {options} --as tz={zone} -o part.parquet")
    assert set(pl.read_parquet("part.parquet").columns[5:]) == {"Screen.width", zone}
    fpmonitor("ingest part.parquet --ignore batch --ignore visit -q -o b.json")
    assert {row["means"] for row in shown(capsys, "db apis")} == {"Screen.width", zone}
    told = said(capsys, f"scale convert a.jsonl {options} --as tz=Screen.width -o b.parquet", 2)
    assert "'tz' would be called 'Screen.width', and so is another column" in told


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("nothing=Screen.width", "unknown name in the logs"),
        ("ua=Screen.widht", r"Screen\.width"),
        ("ua=timezone", "may be"),
        ("ua", "NAME=API"),
        ("Screen.height=Screen.width", "is the name of an API"),
    ],
)
def test_what_cannot_be_said_is_refused(
    assignment: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign.write_lines(Path("a.jsonl"), [{"user": 1, "ua": "x", "Screen.height": 1}])
    fpmonitor("ingest a.jsonl -q -o b.json")
    assert re.search(message, said(capsys, f"db apis --set {assignment}", 2))


def test_what_was_said_is_in_the_settings_of_a_copy(capsys: pytest.CaptureFixture[str]) -> None:
    db = user_agents()
    fpmonitor(f"db apis {db} --set deviceCategory=NavigatorUAData.mobile -o s.json")
    fpmonitor(f"db copy-out copy {db} -o m.json")
    fpmonitor("db copy-in copy --db b.duckdb -o i.json")
    means = {row["api"]: row["means"] for row in shown(capsys, "db apis --db b.duckdb")}
    assert means["deviceCategory"] == "NavigatorUAData.mobile"


# ---- Either name --------------------------------------------------------------------------------


@pytest.mark.long
def test_every_command_takes_either_name(capsys: pytest.CaptureFixture[str]) -> None:
    db = user_agents()
    both = [
        f"exposure {db} --apis NAME --k 10",
        f"exposure {db} --apis screenWidth,NAME --given NAME --k 10",
        f"exposure --rank {db} --candidates NAME,platform",
        f"exposure --curve {db} --apis NAME",
        f"db automation {db} --apis NAME",
        f"exposure {db} --apis platform,NAME --what-if less.toml",
        f"ldp plan {db} --candidates NAME --accuracy 0.5",
    ]
    for line in both:
        Path("less.toml").write_text('["userAgent"]\nconstant = "x"\n')
        own = shown(capsys, line.replace("NAME", "userAgent"))
        Path("less.toml").write_text('["Navigator.userAgent"]\nconstant = "x"\n')
        assert shown(capsys, line.replace("NAME", AGENT)) == own, line
        assert shown(capsys, line.replace("NAME", "navigator.userAgent")) == own, line
    fpmonitor(f"release {db} --apis userAgent,platform --k 10 -q -o own.parquet")
    fpmonitor(f"release {db} --apis {AGENT},platform --k 10 -q -o other.parquet")
    assert pl.read_parquet("own.parquet").equals(pl.read_parquet("other.parquet"))


def test_a_decision_is_asked_by_either_name_and_on_logs_with_other_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    db = user_agents()
    options = "--budget 40% --setting sample -q"
    fpmonitor(f"decide {db} {options} --candidates {AGENT},Screen.width -o d.json")
    decision = read_decision(Path("d.json"))
    assert decision.policy.candidates == ("screenWidth", "userAgent")
    for names in ("userAgent", AGENT):
        assert shown(capsys, f"gate d.json --exit-zero --want {names}")["verdict"] == "allow"
    rows = [
        {"user": row["user"], AGENT: row["userAgent"], "Screen.width": row["screenWidth"]}
        for row in foreign.user_agents()
    ]
    foreign.write_lines(Path("canonical.jsonl"), rows)
    fpmonitor("ingest canonical.jsonl --db b.duckdb -q -o b.json")
    own = shown(capsys, f"check d.json {db} -q --format json")
    there = shown(capsys, "check d.json --db b.duckdb -q --format json")
    assert [row["verdict"] for row in own] == [row["verdict"] for row in there]
    assert {api for row in there for api in row["apis"]} == {AGENT, "Screen.width"}


def test_an_index_takes_either_name() -> None:
    with Monitor("a.duckdb", create=True) as monitor:
        monitor.ingest(pl.DataFrame(foreign.user_agents()))
        index = monitor.index(["userAgent", "Screen.width"], k=10)
        assert index.apis == ("screenWidth", "userAgent")
        assert index.explore([AGENT]) == index.explore(["userAgent"])
        with pytest.raises(UnknownNameError):
            index.explore(["Navigator.platform"])


def test_a_decision_is_not_checked_on_a_column_of_the_same_name_that_is_something_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    db = user_agents()
    fpmonitor(f"decide {db} --budget 40% --setting sample --candidates screenWidth -q -o d.json")
    fpmonitor(f"db apis {db} --set screenWidth=window.innerWidth -o s.json")
    told = said(capsys, f"check d.json {db}", 2)
    assert "screenWidth is Screen.width in the decision, and Window.innerWidth in the log" in told
    fpmonitor(f"db apis {db} --set screenWidth= -o s.json")
    fpmonitor(f"check d.json {db} -q -o c.json")


def test_misspelt_names_get_the_nearest_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    db = user_agents()
    for line in (
        f"exposure {db} --apis usrAgent",
        f"decide {db} --budget 0.1 --candidates usrAgent",
        f"decide {db} --budget 0.1 --must usrAgent",
        f"exposure --rank {db} --candidates usrAgent",
        f"exposure --curve {db} --apis usrAgent",
        f"release {db} --apis usrAgent --k 10 -o r.parquet",
        f"ldp plan {db} --candidates usrAgent --accuracy 0.5",
    ):
        assert re.search(r"unknown API 'usrAgent'.*\buserAgent", said(capsys, line, 2)), line


@pytest.mark.long
def test_several_columns_of_one_api_are_read_and_blocked_together(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [row | {"ua": ("one", "two")[row["user"] % 2]} for row in foreign.user_agents()]
    foreign.write_lines(Path("a.jsonl"), rows)
    assert f"ua and userAgent are {AGENT}" in said(capsys, "ingest a.jsonl")
    [report] = shown(capsys, f"exposure --apis {AGENT}")
    assert report["apis"] == ["ua", "userAgent"]
    fpmonitor("decide --budget 10% --setting sample --candidates ua,userAgent -q -o d.json")
    assert read_decision(Path("d.json")).recommended == ("ua",)
    assert shown(capsys, f"gate d.json --exit-zero --want {AGENT}")["verdict"] == "block"
    fpmonitor(
        "export d.json --partial --replace-protection --to brave --verdicts v.json -q -o brave.json"
    )
    assert "user-agent" not in Path("brave.json").read_text()
    fpmonitor("export d.json --partial --to firefox-policies --verdicts v.json -q -o policies.json")
    verdicts = {row["api"]: row["verdict"] for row in json.loads(Path("v.json").read_text())}
    assert verdicts["ua"] != "unknown"
    assert "+NavigatorUserAgent" in Path("policies.json").read_text()


def test_demand_is_joined_by_what_the_columns_are(capsys: pytest.CaptureFixture[str]) -> None:
    db = user_agents()
    calls = {"Navigator.prototype.userAgent": 1, "Screen.prototype.width": 2}
    crawl = {
        "initialUrl": "https://a.example/",
        "finalUrl": "https://a.example/",
        "data": {"apis": {"callStats": {"https://t.example/x.js": calls}, "savedCalls": []}},
    }
    Path("crawl.json").write_text(json.dumps(crawl))
    fpmonitor(f"lists demand crawl.json {db} -q -o stored.json")
    [line] = shown(capsys, f"lists demand {db}")
    assert line["observed"] == ["screenWidth", "userAgent"]
    assert line["unobserved"] == []


# ---- Unknown names ------------------------------------------------------------------------------


def unknown_table() -> None:
    rows = [
        {"user": row["user"], "agnt": row["userAgent"], "kind": 1} for row in foreign.user_agents()
    ]
    foreign.write_lines(Path("a.jsonl"), rows)
    fpmonitor("ingest a.jsonl -q -o b.json")
    fpmonitor("decide --budget 10% --setting sample -q -o d.json")


@pytest.mark.parametrize("product", ["brave", "firefox-policies", "ublock", "permissions-policy"])
def test_a_list_of_names_that_nobody_knows_is_refused_and_the_format_not_blamed(
    product: str, capsys: pytest.CaptureFixture[str]
) -> None:
    unknown_table()
    told = said(capsys, f"export d.json --partial --to {product} -o list.txt", 2)
    assert "agnt (name not known to fpmonitor" in told
    assert "db apis --set NAME=API" in told
    assert "format" not in told
    assert not Path("list.txt").exists()


def test_an_unknown_name_is_a_verdict_of_its_own_beside_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [row | {"agnt": row["userAgent"]} for row in foreign.user_agents()]
    foreign.write_lines(Path("a.jsonl"), rows)
    fpmonitor("ingest a.jsonl -q -o b.json")
    fpmonitor("decide --budget 10% --setting sample --never screenWidth -q -o d.json")
    told = said(capsys, "export d.json --partial --to ublock --verdicts v.json -o list.txt")
    assert "withheld: agnt, unknown (name not known to fpmonitor)" in told
    assert "Names not known to fpmonitor" in Path("list.txt").read_text()
    capsys.readouterr()
    assert run(["export", "d.json", "--to", "ublock", "--strict"]) == 1
    fpmonitor("export --report d.json -o report.html -q")
    page = Path("report.html").read_text()
    assert "Names not known to fpmonitor (?): agnt" in page
    assert "userAgent (Navigator.userAgent)" in page.replace("<wbr/>", "")
    assert "known as" in page
    missed = re.search(r"No format hides ([^.]*(?:\.\w[^.]*)*)\.", page)
    assert missed is None or "agnt" not in missed[1]


def test_a_resolution_of_both_dimensions_is_not_hidden_by_one_of_them() -> None:
    foreign.write_lines(Path("f.jsonl"), foreign.fingerprintjs())
    fpmonitor("ingest f.jsonl -q -o b.json")
    fpmonitor("decide --budget 40% --setting sample --never screenResolution -q -o d.json")
    fpmonitor("export d.json --partial --to ublock --verdicts v.json -q -o list.txt")
    rows = {row["api"]: row["verdict"] for row in json.loads(Path("v.json").read_text())}
    assert rows["screenResolution"] == "impossible"


def test_lists_for_programs_hold_both_names(capsys: pytest.CaptureFixture[str]) -> None:
    db = user_agents()
    fpmonitor(f"decide {db} --budget 10% --setting sample -q -o d.json")
    listed = shown(capsys, "export d.json --partial --to json -q")
    assert "userAgent" in listed["withheld"]
    assert listed["names"]["userAgent"] == AGENT
    snippet = shown(capsys, "collect snippet d.json --address https://example.com --format json")
    assert AGENT in snippet["apis"]


def test_automation_is_seen_in_columns_that_are_called_otherwise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [{"user": i, "ua": "HeadlessChrome/1" if i < 12 else "x"} for i in range(40)]
    foreign.write_lines(Path("a.jsonl"), rows)
    fpmonitor("ingest a.jsonl -q -o b.json")
    assert shown(capsys, "db automation --apis ua")["signs"]["headless"] == 12


# ---- A name never lowers an exposure ------------------------------------------------------------

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0"


def exposure_of_canvas(capsys: pytest.CaptureFixture[str], canvas: str, options: str = "") -> Any:
    rows = [{"user": i, "ua": FIREFOX, canvas: f"picture {i // 2}"} for i in range(50)]
    foreign.write_lines(Path("c.jsonl"), rows)
    fpmonitor(f"ingest c.jsonl --db {canvas}.duckdb -q -o b.json {options}")
    [report] = shown(capsys, f"exposure --db {canvas}.duckdb --apis {canvas} --k 10")
    return report["empirical"]


@pytest.mark.parametrize(
    "canvas", ["canvas", "canvasHash", "canvas.text", "toDataURL", "htmlcanvaselement.todataurl"]
)
def test_what_a_name_suggests_masks_nothing(
    canvas: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exposure_of_canvas(capsys, canvas) == 1.0


def test_what_the_user_says_is_masked_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    said_so = "--as drawing=HTMLCanvasElement.toDataURL"
    assert exposure_of_canvas(capsys, "drawing", said_so) == 0.0
    [report] = shown(capsys, "exposure --db drawing.duckdb --apis drawing --k 10")
    assert report["masked"] == ["drawing"]
    fpmonitor(
        "db apis --db drawing.duckdb --set drawing=HTMLCanvasElement.toDataURL#mine -o s.json"
    )
    [report] = shown(capsys, "exposure --db drawing.duckdb --apis drawing --k 10")
    assert report["empirical"] == 1.0


def test_a_name_of_the_vocabulary_cannot_be_given_another_meaning() -> None:
    with Monitor("a.duckdb", create=True) as monitor:
        monitor.ingest(pl.DataFrame({"user": [1, 2], "Navigator.plugins": ["a", "b"]}))
        with pytest.raises(InputError):
            say_names(monitor.database, {"Navigator.plugins": "HTMLCanvasElement.toDataURL"})


def test_others_are_not_told_what_a_log_calls_its_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [{"user": i, "screen.width": 1} for i in range(30)]
    rows.append({"user": 99, "s-c-r-e-e-n---h-e-i-g-h-t": 1})
    foreign.write_lines(Path("a.jsonl"), rows)
    fpmonitor("ingest a.jsonl -q -o b.json")
    told = said(capsys, "--for-others exposure --apis screen.hight", 2)
    assert "s-c-r" not in told


# ---- Shares and numbers of users ----------------------------------------------------------------


def test_shares_and_numbers_are_written_as_people_write_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    db = user_agents()
    fpmonitor(f"decide {db} --candidates platform --budget 5% --delta 1% -n 10K -q -o d.json")
    policy = read_decision(Path("d.json")).policy
    assert (policy.budget, policy.delta, policy.population) == (0.05, 0.01, 10_000)
    Path("fpmonitor.toml").write_text('population = "1.5M"\n[decide]\nbudget = "7.5%"\n')
    fpmonitor(f"decide {db} --candidates platform -q -o d.json")
    policy = read_decision(Path("d.json")).policy
    assert (policy.budget, policy.population) == (0.075, 1_500_000)
    Path("fpmonitor.toml").unlink()
    for options in ("--budget 5", "--budget 500%", "--budget x", "--budget 5% -n 10X"):
        assert said(capsys, f"decide {db} --candidates platform {options}", 2), options
    for number in ("1e999999999", "1.5", "nan", "K", "-1e30M"):
        assert said(capsys, f"decide {db} --candidates platform --budget 0.1 -n={number}", 2)


# ---- The pages ----------------------------------------------------------------------------------


def test_the_first_steps_run_as_they_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "first-steps.md").read_text()
    users = foreign.user_agents(2_000)
    telemetry = [{"client_id": row.pop("user"), **row} for row in foreign.user_agents(2_000)]
    foreign.write_csv(Path("telemetry.csv"), telemetry)
    visits = [{"visitor": row["user"], **row} for row in users]
    for row in visits:
        del row["user"]
    foreign.write_lines(Path("visits.jsonl"), visits)
    study = [{"id": row.pop("user"), "tz": "UTC", **row} for row in foreign.fingerprintjs(2_000)]
    foreign.write_csv(Path("study.csv"), study)
    sections = re.findall(r"```console\n(.*?)```", page, flags=re.DOTALL)
    assert len(sections) == 3
    for section in sections:
        commands = [line.removeprefix("$ ") for line in section.splitlines()]
        assert 0 < len(commands) <= 5
        Path("fpmonitor.duckdb").unlink(missing_ok=True)
        for command in commands:
            program, *arguments = shlex.split(command)
            assert program == "fpmonitor"
            codes = {0, 1, 3} if arguments[0] == "gate" else {0}
            assert run(arguments) in codes, (command, capsys.readouterr().err)
        decision = read_decision(Path("decision.json"))
        assert decision.recommended
        assert decision.names
