"""ClickHouse: the statements of a store run there, too, and give what the database file gives.

chdb is 900 MB and in no extra: where it is missing these tests are skipped, and what they run is
parsed in test_spark.py.
"""

from __future__ import annotations

import itertools
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from fpmonitor.decide.decision import decide
from fpmonitor.engine.clickhouse import ClickHouseEngine
from fpmonitor.engine.folder import FolderStore
from fpmonitor.engine.folder_views import SnapshotViews
from fpmonitor.engine.portable import EngineSource
from fpmonitor.errors import InputError, StoreError
from fpmonitor.estimate.mixing import mix
from fpmonitor.monitor import Monitor
from fpmonitor.policy import Policy
from fpmonitor.store.transforms import Transform
from fpmonitor.store.views import View

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
CANDIDATES = ("Navigator.maxTouchPoints", "Navigator.userAgent", "Screen.height")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseEngine]:
    pytest.importorskip("chdb", reason="chdb is not installed")
    with ClickHouseEngine(tmp_path_factory.mktemp("clickhouse")) as engine:
        yield engine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("local")


@pytest.fixture(scope="module")
def local(folder: Path) -> Iterator[Monitor]:
    with Monitor(folder / "local.duckdb", create=True) as monitor:
        monitor.ingest([str(ROOT / "fixtures" / "logs")])
        yield monitor


@pytest.fixture(scope="module")
def store(engine: ClickHouseEngine, local: Monitor, folder: Path) -> FolderStore:
    """Observations of the fixture logs, long."""
    path = folder / "long.parquet"
    names = ["user", "api", "status", "source", "value"]
    rows = pl.DataFrame(local.observations(), schema=names, orient="row")
    rows.drop("source").cast(pl.String).write_parquet(path)
    store = FolderStore(engine, "fixtures", create=True)
    store.ingest([str(path)])
    return store


def test_spectra_are_those_of_duckdb(store: FolderStore, local: Monitor) -> None:
    here, there = local.snapshot(), store.snapshot()
    assert (there.users, there.digest, there.apis) == (here.users, here.digest, here.apis)
    sets = [[api] for api in here.apis] + [list(p) for p in itertools.pairwise(here.apis)]
    counter = local._counter(here, here.apis, "duckdb")
    for apis, found in zip(sets, store.source(there).spectra(sets), strict=True):
        wanted = counter.spectrum(apis)
        assert found.counts.tolist() == wanted.counts.tolist(), apis
        assert found.values.tolist() == wanted.values.tolist(), apis


def test_decision_is_that_of_duckdb(store: FolderStore, local: Monitor) -> None:
    question: dict[str, Any] = {"k": 10, "budget": 0.05, "population": 20_000}
    here = local.decide(candidates=CANDIDATES, **question)
    snapshot = store.snapshot()
    there = decide(
        store.source(snapshot, CANDIDATES),
        Policy(delta=0.05, candidates=CANDIDATES, **question),
        words=None,
        digest=snapshot.digest,
    )
    for answer in ("allow", "block", "undecided", "recommended"):
        assert getattr(there, answer) == getattr(here, answer)


def test_wide_logs_and_late_data_are_those_of_duckdb(
    engine: ClickHouseEngine, tmp_path: Path
) -> None:
    day = datetime(2026, 3, 1, tzinfo=UTC)
    visits = pl.DataFrame(
        {
            "user": ["u1", "u2", "u3", "u1"],
            "time": [day, day, day, day + timedelta(days=2)],
            "Screen.width": [1920, 1280, None, 1366],
            'say "hi" \\ it\'s': [1.5, 2.0, 2.0, 2.0],
            "Window.screen": ["x", "", '{"b": 1, "a": 2}', "é" * 200],
            "Flag": [True, False, None, True],
        }
    )
    store = FolderStore(engine, "late", create=True)
    with Monitor(tmp_path / "local.duckdb", create=True) as monitor:
        for name, part in (("late", visits[:3]), ("first", visits[3:])):
            path = str(tmp_path / f"{name}.parquet")
            part.write_parquet(path)
            monitor.ingest([path])
            assert store.ingest([path]).report.stored == len(part)
            assert store.ingest([path]).report.stored == 0
        assert store.snapshot().digest == monitor.snapshot().digest


@pytest.mark.parametrize(
    "view",
    [
        View(drop_automation=True),
        View(volatile="left-out", transforms={"Screen.width": Transform(round=100)}),
    ],
)
def test_views_are_those_of_duckdb(engine: ClickHouseEngine, tmp_path: Path, view: View) -> None:
    agents = ["Firefox/153", "Chrome/120", "Somebot/1"]
    users = [i % 40 for i in range(60)]
    day = datetime(2026, 3, 1, tzinfo=UTC)
    columns = {
        "user": [f"u{i}" for i in users],
        "time": [day + timedelta(hours=visit) for visit in range(60)],
        "Navigator.userAgent": [agents[i % 3] for i in users],
        "Screen.width": [1900 + i % 7 for i in users],
        "HTMLCanvasElement.toDataURL": [f"c{visit}" for visit in range(60)],
    }
    path = str(tmp_path / "log.parquet")
    pl.DataFrame(columns).write_parquet(path)
    store = FolderStore(engine, f"views{view.drop_automation}", create=True)
    store.ingest([path])
    viewed = SnapshotViews(engine).look(store.snapshot(), view)
    found = store.source(viewed.snapshot)
    with Monitor(tmp_path / "local.duckdb", create=True, view=view) as monitor:
        monitor.ingest([path])
        here = monitor.snapshot()
        assert (viewed.snapshot.users, viewed.snapshot.digest) == (here.users, here.digest)
        assert viewed.dropped == monitor.dropped
        wanted = monitor._counter(here, here.apis, "duckdb")
        for apis in itertools.combinations(here.apis, 2):
            assert found.spectrum(apis).counts.tolist() == wanted.spectrum(apis).counts.tolist()


def test_an_alias_does_not_hide_a_column(engine: ClickHouseEngine) -> None:
    words = np.random.default_rng(1).integers(0, 2**64, 500, dtype=np.uint64)
    halves = {"high": words >> np.uint64(32), "low": words & np.uint64(2**32 - 1)}
    rows = pl.DataFrame({"row": np.arange(500)} | {n: h.astype(int) for n, h in halves.items()})
    engine.define_rows("words", rows)
    mixed = engine.rows("remote/mix", keep="row", words="SELECT row, high, low FROM words")
    high, low = (mixed.sort("row")[n].to_numpy().astype(np.uint64) for n in ("high", "low"))
    assert np.array_equal((high << np.uint64(32)) | low, mix(words))


def test_absent_and_empty_values_stay_apart(engine: ClickHouseEngine) -> None:
    engine.define_rows("holes", pl.DataFrame({"a": [None, None, "", "x"]}))
    spectrum = EngineSource(engine, "holes", {"A": "a"}, 4).spectrum(["A"])
    assert (spectrum.counts.tolist(), spectrum.values.tolist()) == ([1, 2], [2, 1])


def test_refused_statements_are_errors_in_one_line(engine: ClickHouseEngine) -> None:
    with pytest.raises(StoreError) as caught:
        engine.frame("SELECT nothing FROM nowhere")
    assert "\n" not in str(caught.value)


def test_without_chdb_a_message_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chdb", None)
    monkeypatch.setitem(sys.modules, "chdb.session", None)
    with pytest.raises(InputError, match="chdb"):
        ClickHouseEngine(tmp_path)
