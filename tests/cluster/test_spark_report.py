"""Views, cohorts and the HTML report of users on an engine: those of the database file."""

from __future__ import annotations

import re
import runpy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.errors import InputError, UndecidableError, UnknownNameError
from fpmonitor.monitor import Monitor
from fpmonitor.remote import UNTOLD, RemoteMonitor
from fpmonitor.store.transforms import Transform
from fpmonitor.store.views import View

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CLUSTER = runpy.run_path(str(ROOT / "benchmarks" / "spark_cluster.py"), run_name="spark_cluster")
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


def visits(users: int = 900, repeats: int = 300) -> pl.DataFrame:
    """Wide visits of one week: several browsers, robots, values that browsers randomise."""
    rng = np.random.default_rng(13)
    kind = rng.choice(6, users, p=[0.35, 0.2, 0.25, 0.12, 0.05, 0.03])
    agents = [FIREFOX.format(153), FIREFOX.format(140), *map(CHROME.format, (120, 121, 121)), ROBOT]
    fixed = {
        AGENT: [agents[i] if i < 5 else ROBOT for i in kind],
        BRANDS: ['[{"brand":"Brave"}]' if i == 3 else "[]" if i == 2 else None for i in kind],
        PLATFORM: ["Linux x86_64" if i in {0, 1, 4} else "Win32" for i in kind],
        "Navigator.webdriver": [
            ["false", "true", None][i] for i in rng.choice(3, users, p=[0.8, 0.02, 0.18])
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
        "source": [f"lib {1 + i % 2}" for i in who],
    }
    columns |= {api: [values[i] for i in who] for api, values in fixed.items()}
    columns[CANVAS] = [
        f"{drawings[i]} {n}" if kind[i] == 3 else drawings[i] for n, i in enumerate(who)
    ]
    columns[SECRET] = [f"s{n}" if kind[i] == 2 else "same" for n, i in enumerate(who)]
    return pl.DataFrame(columns)


@pytest.fixture(scope="module")
def sail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with CLUSTER["sail"](tmp_path_factory.mktemp("sail")) as server:
        yield server.url


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "visits.parquet"
    visits().write_parquet(path)
    return path


@pytest.fixture(scope="module")
def database(log: Path) -> Path:
    path = log.parent / "local.duckdb"
    with Monitor(path, create=True) as monitor:
        monitor.ingest([str(log)])
    return path


@pytest.fixture(scope="module")
def store(sail: str, log: Path) -> str:
    folder = str(log.parent / "store")
    with RemoteMonitor(sail, folder, create=True) as monitor:
        monitor.ingest([str(log)])
    return folder


def answer_of(decision: Any) -> dict[str, Any]:
    content: dict[str, Any] = decision.to_json()
    return {name: value for name, value in content.items() if name not in {"seconds", "engine"}}


@pytest.mark.parametrize("view", VIEWS, ids=["shared", "left-out", "coarser", "human"])
def test_views_show_what_the_database_file_shows(
    database: Path, sail: str, store: str, view: View
) -> None:
    sets = [[CANVAS], [AGENT, HEIGHT], [CANVAS, SECRET, LANGUAGE]]
    with Monitor(database, view=view) as monitor:
        here = monitor.snapshot()
        wanted = (here.users, here.digest, monitor.dropped, monitor.apis(k=5))
        present = monitor.snapshot(missing="drop", apis=[BRANDS, HEIGHT])
        reports = monitor.exposure(sets, k=5)
    with RemoteMonitor(sail, store, view=view) as monitor:
        there = monitor.snapshot()
        assert (there.users, there.digest, monitor.dropped, monitor.apis(k=5)) == wanted
        found = monitor.snapshot(missing="drop", apis=[BRANDS, HEIGHT])
        assert (found.users, found.digest) == (present.users, present.digest)
        there_reports = monitor.exposure(sets, k=5)
        assert [r.to_json() for r in there_reports] == [r.to_json() for r in reports]


def test_views_differ_where_values_are_random_or_users_are_robots(sail: str, store: str) -> None:
    seen = {}
    for view in (View(), View(volatile="raw"), View(drop_automation=True)):
        with RemoteMonitor(sail, store, view=view) as monitor:
            told = {line.api: line for line in monitor.apis(k=5)}
            volatile = [told[api].volatile for api in (CANVAS, SECRET, HEIGHT)]
            assert volatile == [True, True, False]
            seen[view.volatile, view.drop_automation] = (told[SECRET].users, told[SECRET].exposure)
    (users, shared), (_, raw), (human, _) = seen.values()
    assert (users, shared) == (900, 0)
    assert raw is not None
    assert raw > 0.2
    assert human is not None
    assert 700 < human < 880


def test_the_vocabulary_decides_without_repeat_visits(sail: str, tmp_path: Path) -> None:
    visits(400, 0).write_parquet(tmp_path / "once.parquet")
    with Monitor(tmp_path / "once.duckdb", create=True) as monitor:
        monitor.ingest([str(tmp_path / "once.parquet")])
        here = {line.api: line for line in monitor.apis(k=5)}
    with RemoteMonitor.of_source(sail, str(tmp_path / "once.parquet")) as monitor:
        assert {line.api: line for line in monitor.apis(k=5)} == here
    drawn = visits(400, 0)[CANVAS].n_unique()
    assert (here[CANVAS].volatile, here[SECRET].volatile) == (True, None)
    assert here[CANVAS].values is not None
    assert 100 < here[CANVAS].values < drawn - 100  # not those of Firefox 153 and Brave


def test_decision_is_checked_as_it_was_made(database: Path, sail: str, store: str) -> None:
    view = View(drop_automation=True, transforms={HEIGHT: Transform(constant="x")})
    question: dict[str, Any] = {"k": 5, "budget": 0.01, "candidates": [LANGUAGE, HEIGHT, SECRET]}
    with Monitor(database, view=view) as monitor:
        here = monitor.decide(**question)
    with RemoteMonitor(sail, store, view=view) as monitor:
        there = monitor.decide(**question)
    assert answer_of(there) == answer_of(here)
    assert there.allow == ((LANGUAGE, HEIGHT, SECRET),)
    with RemoteMonitor(sail, store) as monitor:
        assert monitor.check(here) == {there.allow[0]: "allow"}


def test_views_that_cannot_be_are_errors(sail: str, store: str, tmp_path: Path) -> None:
    unknown = View(transforms={"Screen.heigth": Transform(major=True)})
    with (
        RemoteMonitor(sail, store, view=unknown) as monitor,
        pytest.raises(UnknownNameError, match=r"Screen\.height"),
    ):
        monitor.snapshot()
    pl.DataFrame({"user": ["a", "b"], AGENT: [ROBOT] * 2}).write_parquet(tmp_path / "bots.parquet")
    bots = RemoteMonitor.of_source(
        sail, str(tmp_path / "bots.parquet"), view=View(drop_automation=True)
    )
    with bots as monitor, pytest.raises(UndecidableError, match="every user looks automated"):
        monitor.snapshot()


def test_cohorts_and_the_price_of_trust_are_those_of_the_database_file(
    database: Path, sail: str, store: str
) -> None:
    given = [CANVAS, "Navigator.webdriver"]  # one is volatile, one absent of some users
    sets = [[HEIGHT], [AGENT, HEIGHT, PLATFORM]]
    question: dict[str, Any] = {"k": 5, "population": 2000, "given": given, "trust": "pairs"}
    with Monitor(database) as monitor:
        here = monitor.exposure(sets, **question, supports=[500, 5000], bounds=True)
    with RemoteMonitor(sail, store) as monitor:
        there = monitor.exposure(sets, **question, supports=[500, 5000], bounds=True)
    assert [report.to_json() for report in there] == [report.to_json() for report in here]
    assert here[0].cohorts is not None
    assert len(here[0].cohorts.cohorts) > 2


def told_of(page: Path) -> str:
    """What a page tells, without when it was made and what an engine cannot tell."""
    text = page.read_text(encoding="utf-8").replace(f"<li>{UNTOLD}</li>", "")
    return re.sub(r"Made by fpmonitor on .*? UTC", "", text)


def test_report_is_the_page_of_the_database_file(
    database: Path, sail: str, store: str, tmp_path: Path
) -> None:
    here, there, later = (tmp_path / name for name in ("here.html", "there.html", "later.html"))
    decision = str(tmp_path / "decision.json")
    apis = ",".join([AGENT, HEIGHT, CANVAS, SECRET])
    question = ["--k", "5", "--budget", "0.1", "--population", "900", "--candidates", apis]
    assert run(["decide", "--db", str(database), *question, "--quiet", "-o", decision]) == 0
    assert run(["report", decision, "--db", str(database), "-o", str(here)]) == 0
    where = ["--engine", sail, "--source", store]
    assert run(["report", decision, *where, "-o", str(there)]) == 0
    assert UNTOLD in there.read_text(encoding="utf-8")
    assert told_of(there) == told_of(here)
    for words in ("lib 1, lib 2", "Users that look automated: 7", CANVAS, SECRET):
        assert words in told_of(here)
    remote = ["--engine", sail, "--store", store]
    assert run(["remote", "report", decision, *remote, "-o", str(later)]) == 0
    assert told_of(later) == told_of(here)


def test_reports_and_plots_take_servers_only(tmp_path: Path) -> None:
    output = ["-o", str(tmp_path / "x.svg")]
    for command in (["report"], ["plot", "exposure"]):
        for wrong in (
            ["--engine", "memory"],
            ["--engine", "sc://127.0.0.1:1"],  # no --source
            ["--engine", "sc://127.0.0.1:1/;token=x", "--source", "x"],
            ["--store", "x"],
        ):
            assert run([*command, *output, *wrong]) == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["exposure", "curve", "entropy", "trust"])
def test_plots_are_those_of_the_database_file(
    database: Path, sail: str, store: str, tmp_path: Path, kind: str
) -> None:
    sets = ["--apis", f"{AGENT},{HEIGHT},{LANGUAGE}"] if kind in {"curve", "trust"} else []
    question = [kind, *sets, "--k", "5", "--quiet", "-o"]
    assert run(["plot", *question, str(tmp_path / "a.svg"), "--db", str(database)]) == 0
    where = ["--engine", sail, "--source", store]
    assert run(["plot", *question, str(tmp_path / "b.svg"), *where]) == 0
    assert (tmp_path / "a.svg").read_text() == (tmp_path / "b.svg").read_text()


def test_exported_data_of_library_collectors_are_logs_of_an_engine(
    sail: str, database: Path, tmp_path: Path
) -> None:
    local, folder = tmp_path / "local.duckdb", tmp_path / "data"
    records = ROOT / "fixtures" / "records"
    with Monitor(local, create=True) as monitor:
        [batch] = monitor.ingest([str(records / "fingerprintjs-3.json")])
        assert batch.collector == "fingerprintjs"
        here = monitor.snapshot()
        monitor.export_data(folder)
    with RemoteMonitor.of_source(sail, str(folder)) as remote:
        there = remote.snapshot()
    assert (there.users, there.digest, there.apis) == (here.users, here.digest, here.apis)
    with Monitor(database) as monitor:  # repeat visits, sources, times
        monitor.export_data(tmp_path / "visits")
        decision = monitor.decide(k=5, budget=0.05, candidates=[CANVAS, HEIGHT, SECRET])
        mixed = monitor.mixed_sources(k=5)
    with RemoteMonitor.of_source(sail, str(tmp_path / "visits")) as remote:
        found = remote.decide(k=5, budget=0.05, candidates=[CANVAS, HEIGHT, SECRET])
        assert remote.mixed_sources(k=5) == mixed
    assert answer_of(found) == answer_of(decision)


def test_exported_digests_are_refused(sail: str, tmp_path: Path) -> None:
    visits(30, 0).write_parquet(tmp_path / "log.parquet")
    with Monitor(tmp_path / "digests.duckdb", create=True) as monitor:
        monitor.ingest([str(tmp_path / "log.parquet")], digest_values=True)
        monitor.export_data(tmp_path / "data")
    with pytest.raises(InputError, match="digests instead of values"):
        RemoteMonitor.of_source(sail, str(tmp_path / "data"))
