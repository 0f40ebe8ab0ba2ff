"""The first look at the users of a database is noted before it is answered, with its own tests."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.looks import Drawing, decision_criteria
from fpmonitor.monitor import Monitor
from fpmonitor.population.views import View
from fpmonitor.question import Question

if TYPE_CHECKING:
    from pathlib import Path


def log(path: Path, users: int, first: int = 0) -> Path:
    rng = np.random.default_rng(first)
    rows = {
        "user": [f"u{first + i}" for i in range(users)],
        "Screen.width": rng.choice(["800", "1024", "1280"], users),
        "Navigator.language": rng.choice(["de", "en", "fr"], users),
    }
    pl.DataFrame(rows).write_csv(path)
    return path


def looks_of(db: Path) -> str | None:
    with Monitor(db) as monitor:
        return monitor.population().look


def test_one_look_is_one_state_of_the_data(tmp_path: Path) -> None:
    db = tmp_path / "users.duckdb"
    with Monitor(db, create=True) as monitor:
        monitor.ingest(log(tmp_path / "a.csv", 400))
    assert [looks_of(db), looks_of(db)] == ["first", "first"]
    with Monitor(db) as monitor:
        monitor.ingest(log(tmp_path / "b.csv", 1, first=400))
    assert [looks_of(db), looks_of(db)] == ["later", "later"]


def test_another_view_of_the_same_users_is_the_same_look(tmp_path: Path) -> None:
    """Whoever is left out, an answer is tested by the share of delta of this look."""
    db, question = tmp_path / "users.duckdb", Question(10, None, 0.05)
    with Monitor(db, create=True) as monitor:
        monitor.ingest(log(tmp_path / "a.csv", 400))
        users = monitor.population()
        limits = [
            seen.sample(question, [["Screen.width", "Navigator.language"]], chosen=True).limits(
                ("Navigator.language", "Screen.width")
            )
            for seen in (users, users.seen_by(View(drop_automation=True)))
        ]
    assert limits[0] == limits[1]  # nobody looks automated


def test_users_may_come_in_many_logs_before_the_first_look(tmp_path: Path) -> None:
    db = tmp_path / "users.duckdb"
    for part in range(3):
        with Monitor(db, create=True) as monitor:
            monitor.ingest(log(tmp_path / f"{part}.csv", 50, first=50 * part))
    assert looks_of(db) == "first"


def test_a_look_whose_answer_nobody_saw_is_a_look(tmp_path: Path) -> None:
    db = tmp_path / "users.duckdb"
    with Monitor(db, create=True) as monitor:
        monitor.ingest(log(tmp_path / "a.csv", 400))
        monitor.population()
    with Monitor(db) as monitor:
        monitor.ingest(log(tmp_path / "b.csv", 5, first=400))
        assert monitor.population().look == "later"


def test_what_nobody_keeps_has_no_first_look(tmp_path: Path) -> None:
    with Monitor(tmp_path / "gone.duckdb", create=True, kept=False) as monitor:
        monitor.ingest(log(tmp_path / "a.csv", 400))
        assert monitor.population().look is None


def test_other_values_of_the_same_users_are_another_state(tmp_path: Path) -> None:
    db = tmp_path / "users.duckdb"
    with Monitor(db, create=True) as monitor:
        monitor.ingest(log(tmp_path / "a.csv", 400))
        assert monitor.population().look == "first"
        again = pl.read_csv(tmp_path / "a.csv").with_columns(pl.lit("1").alias("Screen.width"))
        again.write_csv(tmp_path / "c.csv")
        monitor.ingest(tmp_path / "c.csv")
        assert monitor.population().look == "later"


def test_a_copy_in_another_database_goes_on_where_the_first_one_was(tmp_path: Path) -> None:
    db, copy = tmp_path / "users.duckdb", tmp_path / "copy.duckdb"
    with Monitor(db, create=True) as monitor:
        monitor.ingest(log(tmp_path / "a.csv", 400))
        monitor.population()
    shutil.copy(db, copy)
    assert looks_of(copy) == "first"
    with Monitor(copy) as monitor:
        monitor.ingest(log(tmp_path / "b.csv", 5, first=400))
    assert looks_of(copy) == "later"


def test_both_halves_of_delta_are_for_one_promise() -> None:
    """The first look has half of what all looks had, and later ones share the other half."""
    question = {"users": 5_000, "k": 10, "population": 50_000, "delta": 0.05}
    every = exposure_limits(**question)
    first, later = (
        exposure_limits(**question, drawing=Drawing(look=look)) for look in ("first", "later")
    )
    assert first.bases == 2
    assert later.bases == 2 * every.bases
    criteria = decision_criteria(**question, budget=0.05, universe=1, drawing=Drawing(look="first"))
    assert criteria.allowing is not None
    assert criteria.allowing.scores[0].base.mean == pytest.approx(0.97 * 5_000)


def test_the_first_look_is_sharper_and_the_same_question_gets_the_same_answer(
    tmp_path: Path,
) -> None:
    db = tmp_path / "users.duckdb"
    with Monitor(db, create=True) as monitor:
        monitor.ingest(log(tmp_path / "a.csv", 2_000))
    sets = [["Screen.width"], ["Screen.width", "Navigator.language"]]
    with Monitor(db) as monitor:
        first = [one.upper for one in monitor.exposure(sets, k=300, population=200_000)]
        again = [one.upper for one in monitor.exposure(sets, k=300, population=200_000)]
        monitor.ingest(log(tmp_path / "b.csv", 1, first=2_000))
        later = [one.upper for one in monitor.exposure(sets, k=300, population=200_000)]
    assert first == again
    assert all(one < other for one, other in zip(first, later, strict=True))
