"""The explorer answers as the monitor does, for any set, from memory."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.errors import InputError, PolicyError, UnknownNameError
from fpmonitor.monitor import Monitor
from fpmonitor.population import memory
from fpmonitor.population.memory import MemorySource
from fpmonitor.population.population import Population
from fpmonitor.population.snapshot import MemorySnapshot
from fpmonitor.population.views import View
from fpmonitor.question import Question

if TYPE_CHECKING:
    from fpmonitor.spectrum import CountSpectrum

LOGS = Path(__file__).parents[2] / "fixtures" / "logs"
CANDIDATES = ["Navigator.maxTouchPoints", "Navigator.userAgent", "Screen.height", "Screen.width"]


@pytest.fixture(scope="module")
def monitor(tmp_path_factory: pytest.TempPathFactory) -> Monitor:
    monitor = Monitor(tmp_path_factory.mktemp("explorer") / "f.duckdb", create=True)
    monitor.ingest([str(LOGS / "browsers-3.parquet")])
    return monitor


@pytest.mark.long
@pytest.mark.parametrize("population", [4000, None, 1_000_000])
def test_every_set_has_the_numbers_of_the_monitor(monitor: Monitor, population: int | None) -> None:
    held = monitor.index(CANDIDATES, k=10, population=population)
    sets = [
        apis for size in range(1, 5) for apis in itertools.combinations(sorted(CANDIDATES), size)
    ]
    reports = monitor.exposure(sets, k=10, population=population)
    for apis, report in zip(sets, reports, strict=True):
        found = held.explore(apis)
        assert (found.lower, found.upper) == (report.lower, report.upper)
        assert (found.empirical, found.unbiased) == (report.empirical, report.unbiased)
    assert held.users == reports[0].users


def test_questions_that_make_no_sense_are_refused(monitor: Monitor) -> None:
    held = monitor.index(CANDIDATES, k=10)
    with pytest.raises(InputError, match="at least one"):
        held.explore([])
    with pytest.raises(UnknownNameError, match=r"Screen\.hight"):
        held.explore(["Screen.hight"])
    with pytest.raises(PolicyError, match="delta"):
        monitor.index(CANDIDATES, k=10, delta=2)


def same(one: CountSpectrum, other: CountSpectrum) -> bool:
    return np.array_equal(one.counts, other.counts) and np.array_equal(one.values, other.values)


@settings(deadline=None, max_examples=40)
@given(
    columns=st.integers(1, 6), values=st.integers(1, 5), users=st.integers(2, 60),
    seed=st.integers(0, 2**32), bits=st.integers(15, 63),
)  # fmt: skip
def test_spectra_are_exact_however_often_the_sort_is_split(
    columns: int, values: int, users: int, seed: int, bits: int
) -> None:
    """With fewer bits to a number, the groups are found in more steps; 60 users need 15 at most."""
    rng = np.random.default_rng(seed)
    apis = [f"a{i}" for i in range(columns)]
    codes = [rng.integers(values, size=users) for _ in apis]
    asked = rng.choice(apis, rng.integers(1, columns + 1), replace=False).tolist()
    source = MemorySource(apis, codes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "KEY_BITS", bits)
        patch.setattr(memory, "DENSE", 0)
        [full] = source.restricted(apis).spectra([asked])
    assert same(full, source.spectrum(asked))


@pytest.mark.parametrize(("volatile", "grows"), [("shared", True), ("raw", False)])
def test_upper_limits_grow_where_data_may_contradict_a_mask(
    volatile: Literal["shared", "raw"], *, grows: bool
) -> None:
    """Data that take a mask away split groups, which must not lower a limit."""
    canvas = "HTMLCanvasElement.toDataURL"
    codes = np.random.default_rng(4).integers(1, 40, (2, 600)).astype(np.uint16)
    snapshot = MemorySnapshot(
        columns={canvas: codes[0], "Screen.width": codes[1]}, texts=lambda _api: {}
    )
    users = Population(snapshot, view=View(volatile=volatile))
    sample = users.sample(Question(10), [[canvas, "Screen.width"]])
    for apis, expected in (
        ([canvas], grows),
        ([canvas, "Screen.width"], grows),
        (["Screen.width"], False),
    ):
        limits = sample.certificate(apis)
        upper = limits.sides[0].weights[:, 1:]
        falls = (np.diff(upper) <= 0).all(axis=1)
        assert falls.all() == expected
