"""Snapshots on an engine: the users, codes, views and spectra of the database file."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.cluster.folder import FolderSnapshot
from fpmonitor.cluster.snapshot import take_engine_snapshot
from fpmonitor.cluster.spark import SparkEngine
from fpmonitor.decide.files import read_decision
from fpmonitor.errors import InputError
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.monitor import Monitor
from fpmonitor.population.changes import recoding_of
from fpmonitor.population.memory import MemorySource
from fpmonitor.population.population import Population
from fpmonitor.population.views import View
from fpmonitor.population.volatile import volatility_of
from fpmonitor.snapshots import SnapshotMonitor
from fpmonitor.store.convert import convert
from fpmonitor.store.transforms import Transform

ROOT = Path(__file__).parents[2]
AGENT, BRANDS, PLATFORM = "Navigator.userAgent", "NavigatorUAData.brands", "Navigator.platform"
CANVAS, HEIGHT, LANGUAGE = "HTMLCanvasElement.toDataURL", "Screen.height", "Navigator.language"
SECRET = "x:own:seed"  # new at every visit, of which no vocabulary knows
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:{0}.0) Gecko/20100101 Firefox/{0}.0"
CHROME = "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/{0}.0.0.0 Safari/537.36"
ROBOT = "Mozilla/5.0 (compatible; Somebot/2.0)"
VIEWS = [
    View(),
    View(volatile="left-out"),
    View(volatile="raw", transforms={HEIGHT: Transform(round=100), AGENT: Transform(major=True)}),
    View(
        drop_automation=True,
        transforms={CANVAS: Transform(constant="c"), LANGUAGE: Transform(lower=True)},
    ),
]


def latest(visits: str) -> str:
    """The query of docs/spark.md that keeps the latest visit of each user."""
    text = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    found = re.search(r"```sql\n(SELECT \* FROM \(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1].replace("FROM visits", f"FROM {visits}").strip().rstrip(";")


def wide_visits(users: int = 900, repeats: int = 300) -> pl.DataFrame:
    """Wide visits of one week: several browsers, robots, values that browsers randomise."""
    rng = np.random.default_rng(13)
    kind = rng.choice(6, users, p=[0.35, 0.2, 0.25, 0.12, 0.05, 0.03])
    agents = [FIREFOX.format(153), FIREFOX.format(140), *map(CHROME.format, (120, 121, 121)), ROBOT]
    fixed = {
        AGENT: [agents[i] if i < 5 else ROBOT for i in kind],
        BRANDS: ['[{"brand":"Brave"}]' if i == 3 else "[]" for i in kind],
        PLATFORM: ["Linux x86_64" if i in {0, 1, 4} else "Win32" for i in kind],
        "Navigator.webdriver": [
            ["false", "true", ""][i] for i in rng.choice(3, users, p=[0.8, 0.02, 0.18])
        ],
        HEIGHT: rng.choice([720, 768, 800, 900, 1080, 1111, 1112, 1440], users).tolist(),
        LANGUAGE: rng.choice(
            ["en-US", "en-us", "de", "fr", "ja"], users, p=[0.5, 0.2, 0.2, 0.08, 0.02]
        ).tolist(),
    }
    drawings = [f"firefox {i}" if i < 300 else f"machine {i % 7}" for i in range(users)]
    who = np.concatenate([np.arange(users), rng.choice(users, repeats)])
    start = datetime(2026, 3, 2, tzinfo=UTC)
    columns: dict[str, Any] = {
        "user": [f"u{i}" for i in who],
        "time": [start + timedelta(minutes=7 * i) for i in range(len(who))],
    }
    columns |= {api: [values[i] for i in who] for api, values in fixed.items()}
    columns[CANVAS] = [
        f"{drawings[i]} {n}" if kind[i] == 3 else drawings[i] for n, i in enumerate(who)
    ]
    columns[SECRET] = [f"s{n}" if kind[i] == 2 else "same" for n, i in enumerate(who)]
    return pl.DataFrame(columns)


def test_values_become_the_text_that_ingest_stores(engine: SparkEngine, tmp_path: Path) -> None:
    count = 200
    rng = np.random.default_rng(1)
    odd = [0.0, -0.0, 1e300, float("nan"), float("-inf"), 1e-7, 12345678.9, 5.0, 1e15, 0.00025]
    flat = pl.DataFrame(
        {
            "user": [f"u{i}" for i in range(count)],
            "int": rng.integers(0, 5, count),
            "double": rng.integers(0, 50, count) / 7 * 10.0 ** rng.integers(-6, 9, count),
            "odd": odd * (count // 10),
            "float": pl.Series(odd * (count // 10), dtype=pl.Float32),
            "text": ['{"b": 1, "a": [1.0, 2]}', "x" * 300, "", None, "é" * 200] * (count // 5),
            "list": [[1, 2], [None, 3], [], None] * (count // 4),
            'say."hi"': ["a", "b"] * (count // 2),
            "Text": [None] * (count - 1) + ["case"],
            "deep.struct.flag": rng.integers(0, 2, count).astype(bool),
            "deep.when": [datetime(2026, 1, 1, 1, 2, 3, i, tzinfo=UTC) for i in range(count)],
            "never": pl.Series([None] * count, dtype=pl.String),
        }
    )
    nested = flat.with_columns(
        pl.struct(
            pl.struct(pl.col("deep.struct.flag").alias("flag")).alias("struct"),
            pl.col("deep.when").alias("when"),
        ).alias("deep")
    ).drop("deep.struct.flag", "deep.when")
    flat.write_parquet(tmp_path / "flat.parquet")
    nested.write_parquet(tmp_path / "nested.parquet")
    with Monitor(tmp_path / "d", create=True) as monitor:
        times = ColumnMap(apis={"deep.when": ""})
        monitor.ingest([str(tmp_path / "flat.parquet")], column_map=times)
        here = monitor.population().snapshot
        stored = monitor.observations()
    taken = take_engine_snapshot(
        engine, str(tmp_path / "nested.parquet"), str(tmp_path / "snapshots")
    )
    there = FolderSnapshot(taken.folder, engine)
    for api in here.apis:
        values = {(status, text) for _, name, status, _, text in stored if name == api}
        assert set(there.values(api).values()) == values, api
    assert there.apis == here.apis
    assert (there.digest, there.users) == (here.digest, here.users)


def test_same_users_again_are_the_same_snapshot(engine: SparkEngine, tmp_path: Path) -> None:
    frame = wide_visits().unique("user", keep="last", maintain_order=True)
    frame.write_parquet(tmp_path / "users.parquet")
    frame.sample(fraction=1.0, shuffle=True, seed=1).with_columns(
        pl.col("user").str.replace("u", "v")
    ).write_parquet(tmp_path / "again.parquet")
    folder = str(tmp_path / "snapshots")
    first = take_engine_snapshot(engine, str(tmp_path / "users.parquet"), folder)
    files = sorted(Path(first.folder).rglob("*"))
    second = take_engine_snapshot(engine, str(tmp_path / "again.parquet"), folder)
    assert first.is_new
    assert not second.is_new
    assert (second.folder, second.manifest) == (first.folder, first.manifest)
    assert sorted(Path(first.folder).rglob("*")) == files
    here, there = FolderSnapshot(first.folder), FolderSnapshot(first.folder, engine)
    for one, other in zip(here.codes(here.apis), there.codes(there.apis), strict=True):
        assert np.array_equal(one, other)


def test_several_rows_of_a_user_are_an_error(engine: SparkEngine, tmp_path: Path) -> None:
    wide_visits().write_parquet(tmp_path / "visits.parquet")
    with pytest.raises(InputError, match=r"1,200 rows of 900 users"):
        take_engine_snapshot(engine, str(tmp_path / "visits.parquet"), str(tmp_path / "snapshots"))
    assert not (tmp_path / "snapshots").exists()


def test_wrong_tables_are_errors_in_one_line(engine: SparkEngine, tmp_path: Path) -> None:
    folder = str(tmp_path / "snapshots")
    pl.DataFrame({"user": ["a", None], "A": [1, 2]}).write_parquet(tmp_path / "nobody.parquet")
    pl.DataFrame({"user": ["a"], "A": [b"1"]}).write_parquet(tmp_path / "bytes.parquet")
    pl.DataFrame({"user": ["a"], "time": [1]}).write_parquet(tmp_path / "empty.parquet")
    for table, message in [
        ("/no/such/folder", "no table, query or Parquet files"),
        ("no_such_table", "no table, query or Parquet files"),
        (str(tmp_path / "nobody.parquet"), "1 of 2 rows have no user"),
        (str(tmp_path / "bytes.parquet"), "column 'A' is of type binary"),
        (str(tmp_path / "empty.parquet"), "no column of values"),
        ("SELECT 1 AS A", "no column 'user'; seen: A"),
    ]:
        with pytest.raises(InputError, match=message):
            take_engine_snapshot(engine, table, folder)


def test_ties_and_late_visits_are_those_of_the_database_file(
    engine: SparkEngine, tmp_path: Path
) -> None:
    rng = np.random.default_rng(5)
    count = 3000
    frame = pl.DataFrame(
        {
            "user": [f"u{i}" for i in rng.integers(0, 800, count)],
            "time": [datetime(2026, 3, 1 + int(i), tzinfo=UTC) for i in rng.integers(0, 4, count)],
            "A": rng.integers(0, 40, count),
            "B": rng.integers(0, 40, count),
        }
    )
    logs = [tmp_path / f"{i}.jsonl" for i in (1, 2)]
    day = pl.col("time").dt.day()
    frame.filter(day > 2).write_ndjson(logs[0])
    frame.filter(day < 4).write_ndjson(logs[1])  # late, and one day of it is known
    raw = View(volatile="raw")
    with Monitor(tmp_path / "d", create=True, view=raw) as monitor:
        monitor.ingest(list(map(str, logs)))
        here = monitor.population().snapshot
    parts = tmp_path / "parts"
    parts.mkdir()
    for log in logs:
        convert([str(log)], parts / f"{log.stem}.parquet")
    taken = take_engine_snapshot(engine, latest(f"parquet.`{parts}`"), str(tmp_path / "snapshots"))
    assert (taken.manifest.digest, taken.manifest.users) == (here.digest, here.users)


def test_converted_logs_hold_what_ingest_stores(engine: SparkEngine, tmp_path: Path) -> None:
    """Fixture logs of all formats, with undefined values, errors, and no user in two of them."""
    logs, parts = sorted((ROOT / "fixtures" / "logs").iterdir()), tmp_path / "parts"
    parts.mkdir()
    with Monitor(tmp_path / "d", create=True) as monitor:
        for log in logs:
            [converted] = convert([str(log)], parts / f"{log.name}.parquet")
            [stored] = monitor.ingest([str(log)])
            assert converted.stored == stored.stored, log
        here = monitor.population().snapshot
    taken = take_engine_snapshot(engine, latest(f"parquet.`{parts}`"), str(tmp_path / "snapshots"))
    assert (taken.manifest.digest, taken.manifest.users) == (here.digest, here.users)


@pytest.mark.parametrize(
    ("unit", "options"),
    [("visitor", {"visitor": True}), ("row", {"columns": {"user": "row"}}), ("user", {})],
)
def test_a_snapshot_knows_whom_converted_logs_count(
    engine: SparkEngine, tmp_path: Path, unit: str, options: dict[str, Any]
) -> None:
    """Whatever the operator's query makes of the table, and without an option."""
    log, part = tmp_path / "log.jsonl", tmp_path / "part.parquet"
    records = [
        {
            "time": f"2026-03-01T00:00:{i:02}Z",
            "remote_addr": f"192.0.2.{i % 20}",
            "http_user_agent": f"agent {i % 3}",
            "status": 200,
            **({"user": f"u{i % 20}"} if unit == "user" else {}),
        }
        for i in range(40)
    ]
    log.write_text("".join(f"{json.dumps(one)}\n" for one in records), encoding="utf-8")
    convert([str(log)], part, column_map=ColumnMap(**options), rows_are_users=True)
    query = f"""SELECT "user" AS who, max("http:user-agent") AS "http:user-agent"
        FROM parquet.`{part}` GROUP BY 1"""
    taken = take_engine_snapshot(
        engine, query.replace('"', "`"), str(tmp_path / "snapshots"), user="who"
    )
    assert taken.manifest.unit == unit


@pytest.fixture(scope="module")
def visited(sail: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Snapshot of users whose visits show what browsers randomise."""
    folder = tmp_path_factory.mktemp("visited")
    visits = wide_visits().with_columns(pl.when(pl.col(BRANDS) != "[]").then(BRANDS).alias(BRANDS))
    visits.write_parquet(folder / "visits.parquet")
    visits.unique("user", keep="last").write_parquet(folder / "users.parquet")
    with SparkEngine(sail) as engine:
        return take_engine_snapshot(
            engine,
            str(folder / "users.parquet"),
            str(folder / "snapshots"),
            visits=str(folder / "visits.parquet"),
        ).folder


def test_who_came_back_is_what_the_database_file_says(engine: SparkEngine, tmp_path: Path) -> None:
    visits = wide_visits()
    visits.write_parquet(tmp_path / "visits.parquet")
    visits.unique("user", keep="last").write_parquet(tmp_path / "users.parquet")
    taken = take_engine_snapshot(
        engine,
        str(tmp_path / "users.parquet"),
        str(tmp_path / "snapshots"),
        visits=str(tmp_path / "visits.parquet"),
    )
    there = Population(FolderSnapshot(taken.folder, engine))
    with Monitor(tmp_path / "d", create=True) as monitor:
        monitor.ingest([str(tmp_path / "visits.parquet")])
        here = monitor.population()
        repeats = [
            users.snapshot.repeats(users.snapshot.browser_groups()) for users in (here, there)
        ]
        assert repeats[0] == repeats[1]
        # Brave draws it anew, Firefox came back with the same: one is masked, one is not.
        assert here.volatile(1) == there.volatile(1) == {CANVAS}
        for users in (here, there):
            assert "'brave'" in users.digest
            assert "'firefox'" not in users.digest
        assert here.spectrum([CANVAS]).counts.tolist() == there.spectrum([CANVAS]).counts.tolist()


@pytest.mark.parametrize("view", VIEWS, ids=["shared", "left-out", "coarser", "human"])
@pytest.mark.parametrize("present", [(), (BRANDS, LANGUAGE)])
def test_engine_counts_what_rows_in_memory_say(
    engine: SparkEngine,
    visited: str,
    monkeypatch: pytest.MonkeyPatch,
    view: View,
    present: tuple[str, ...],
) -> None:
    here, there = FolderSnapshot(visited), FolderSnapshot(visited, engine)
    monkeypatch.setattr(there, "in_memory", lambda _: False)
    recodings = []
    for snapshot in (here, there):
        groups = snapshot.browser_groups()
        recodings.append(recoding_of(snapshot, view, groups, volatility_of(snapshot, groups)))
    assert recodings[0].groups.rows is not None
    assert recodings[1].groups.rows is None
    assert recodings[0].description == recodings[1].description
    keep = ~recodings[0].dropped[recodings[0].groups.rows]
    shown = {
        api: recodings[0].column(api, codes)
        for api, codes in zip(here.apis, here.codes(here.apis), strict=True)
    }
    for api in present:
        keep &= shown[api] != 0
    rows = MemorySource(list(shown), [codes[keep] for codes in shown.values()])
    queries = there.queries(recodings[1], present)
    assert queries.users == rows.users
    sets = [[], *([api] for api in here.apis), [CANVAS, AGENT], [SECRET, HEIGHT, LANGUAGE]]
    for apis, spectrum in zip(sets, queries.spectra(sets), strict=True):
        wanted = rows.spectrum(apis)
        assert spectrum.counts.tolist() == wanted.counts.tolist(), apis
        assert spectrum.values.tolist() == wanted.values.tolist(), apis
    cohorts = queries.cohorts([LANGUAGE], [HEIGHT, LANGUAGE])
    assert sum(cohort.spectrum.users for cohort in cohorts) == rows.users
    assert [c.codes for c in cohorts] == sorted((int(i),) for i in np.unique(shown[LANGUAGE][keep]))


@pytest.mark.parametrize("view", VIEWS, ids=["shared", "left-out", "coarser", "human"])
def test_evidence_is_judged_by_few_statements_as_rows_in_memory_are(
    engine: SparkEngine, visited: str, monkeypatch: pytest.MonkeyPatch, view: View
) -> None:
    """Each statement reads all users: they are as many for ten APIs as for one."""
    here, there = FolderSnapshot(visited), FolderSnapshot(visited, engine)
    monkeypatch.setattr(there, "in_memory", lambda _: False)
    expected = Population(here, view=view)
    users = Population(there, view=view)
    changed = users._recoding.changes
    apis = [api for api in expected.apis if api not in changed]
    assert len(apis) > 4
    asked: list[str] = []
    frame = type(engine).frame
    monkeypatch.setattr(
        type(engine), "frame", lambda self, text: (asked.append(text), frame(self, text))[1]
    )
    for k in (10, 400):
        assert users.lacks(apis, k) == expected.lacks(apis, k)
    assert 0 < len(asked) <= 5, "spectra are counted once, codes with each question"


@pytest.mark.parametrize("view", [VIEWS[0], VIEWS[3]], ids=["shared", "human"])
def test_an_engine_divides_users_and_keeps_values_whole(
    engine: SparkEngine, visited: str, monkeypatch: pytest.MonkeyPatch, view: View
) -> None:
    """Some users are searched among; of all others the values kept have all of their users."""
    users = Population(FolderSnapshot(visited, engine), view=view)
    whole = {api: Population(FolderSnapshot(visited), view=view).column(api) for api in users.apis}
    monkeypatch.setattr(users.snapshot, "in_memory", lambda _: False)
    apis = [AGENT, HEIGHT, LANGUAGE]
    searched, rest = users.searched_and_rest(200, apis)
    assert 130 < searched.users < 270
    assert rest.users == users.users - searched.users
    # Who is kept at level 0 are all others: both together are everybody.
    for api in apis:
        [others] = rest.kept_spectra([[api]], 0)
        assert others is not None
        assert others.users == rest.users
        both = searched.spectrum([api]).support + others.support
        assert both >= len(np.unique(whole[api]))
    [everything] = rest.kept_spectra([apis], 0)
    kept = [rest.kept_spectra([apis], level)[0] for level in (1, 2, 40)]
    assert kept[2] is None
    assert everything is not None
    known = dict(zip(everything.counts.tolist(), everything.values.tolist(), strict=True))
    for level, spectrum in enumerate(kept[:2], 1):
        assert spectrum is not None
        expected = everything.support / 2**level
        assert abs(spectrum.support - expected) <= 5 * np.sqrt(expected)
        found = zip(spectrum.counts.tolist(), spectrum.values.tolist(), strict=True)
        assert all(values <= known[count] for count, values in found)
    again = users.searched_and_rest(200, apis)[0]
    assert again.spectrum(apis).counts.tolist() == searched.spectrum(apis).counts.tolist()


def test_what_a_column_is_can_be_said_of_a_snapshot(
    sail: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, decision = tmp_path / "users.parquet", tmp_path / "decision.json"
    frame = pl.DataFrame({"user": range(300), "brw": [f"b{i % 3}" for i in range(300)]})
    frame.write_parquet(table)
    made = [
        "scale",
        "snapshot",
        "--engine",
        sail,
        "--from",
        str(table),
        "--to",
        str(tmp_path / "taken"),
    ]
    assert run([*made, "--as", "brv=ua"]) == 2
    assert "brw" in capsys.readouterr().err
    assert run([*made, "--as", "brw=ua"]) == 0
    folder = json.loads(capsys.readouterr().out)["snapshot"]
    asked = ["decide", "--budget", "5%", "--k", "10", "--candidates", "Navigator.userAgent"]
    assert run([*asked, "--snapshot", folder, "-o", str(decision), "-q"]) == 0
    assert json.loads(decision.read_text())["names"] == {"brw": "Navigator.userAgent"}


@pytest.mark.parametrize("unit", ["row", "visitor"])
def test_a_snapshot_knows_what_its_rows_are(
    unit: str, sail: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Limits are promises to users, on an engine as in a file."""
    table = tmp_path / "t.parquet"
    frame = pl.DataFrame({"user": range(300), "brw": [f"b{i % 3}" for i in range(300)]})
    frame.write_parquet(table)
    made = [
        "scale",
        "snapshot",
        "--engine",
        sail,
        "--from",
        str(table),
        "--to",
        str(tmp_path / "taken"),
    ]
    folders = []
    for options in ([], ["--unit", unit], ["--unit", "user"]):
        assert run([*made, *options, "--format", "json", "-q"]) == 0
        folders.append(json.loads(capsys.readouterr().out)["snapshot"])
    assert folders[0] == folders[2] != folders[1]
    for folder, counted in zip(folders, ("user", unit), strict=False):
        with SnapshotMonitor(folder) as monitor:
            assert monitor.unit == monitor.apis()[0].unit == counted
    asked = ["decide", "--snapshot", folders[1], "--budget", "50%", "--assume", "brw", "-q"]
    path = tmp_path / "d.json"
    code = run([*asked, "-o", str(path)])
    assert code == (2 if unit == "row" else 0)
    assert run([*asked, "--rows-are-users", "-o", str(path)]) == 0 or unit == "visitor"
    assert read_decision(path).unit == unit
    assert f"{unit}s" in path.read_text()
