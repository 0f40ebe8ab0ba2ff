"""The names of the first log are noted with its users, and no others later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from fpmonitor.answers.spectra import departures, facts_of
from fpmonitor.disclosure import Audience
from fpmonitor.monitor import Monitor
from fpmonitor.proof.files import check_proofs

if TYPE_CHECKING:
    from pathlib import Path

WIDTH, LANGUAGE, HEIGHT = "Screen.width", "Navigator.language", "Screen.height"


def log(path: Path, apis: list[str], first: int = 0, users: int = 400) -> Path:
    rng = np.random.default_rng(first)
    names = {"user": [f"u{first + user}" for user in range(users)]}
    pl.DataFrame(names | {api: rng.choice(["1", "2"], users) for api in apis}).write_csv(path)
    return path


def two_logs(folder: Path) -> Path:
    db = folder / "users.duckdb"
    with Monitor(db, create=True) as monitor:
        monitor.ingest(log(folder / "a.csv", [WIDTH, LANGUAGE]))
        monitor.ingest(log(folder / "b.csv", [WIDTH, LANGUAGE, HEIGHT], first=400))
    return db


def test_only_names_of_the_first_log_have_their_price(tmp_path: Path) -> None:
    with Monitor(two_logs(tmp_path)) as monitor:
        users = monitor.population()
        assert users.first_of([WIDTH, LANGUAGE]) == 2
        assert users.first_of([WIDTH, HEIGHT]) == 0
        own = monitor.decide(k=10, budget=0.3, candidates=[WIDTH, LANGUAGE])
        others = monitor.decide(k=10, budget=0.3, candidates=[WIDTH, HEIGHT])
    assert own.proof is not None
    assert others.proof is not None
    assert own.proof["allow"]["nats"][2] < others.proof["allow"]["nats"][2] - 4
    assert "the names of APIs in the first log were fixed" in own.guarantee
    assert "first log" not in others.guarantee
    for decision in (own, others):
        content = decision.to_json()
        assert [found.answer for found in check_proofs(content)] == ["proved", "proved"]
    content = own.to_json()
    content["first_names"] = content["proof"]["allow"]["first_names"] = 1
    content["proof"]["block"]["first_names"] = 1
    assert {found.answer for found in check_proofs(content)} == {"not proved"}


def test_a_file_that_says_more_of_the_first_log_than_the_database_is_found(tmp_path: Path) -> None:
    with Monitor(two_logs(tmp_path)) as monitor:
        decision = monitor.decide(k=10, budget=0.3, candidates=[WIDTH, LANGUAGE])
        facts = facts_of(monitor.population_as(decision), decision, [])
        claims = {each.claim: each.reason for each in departures(decision, facts)}
        assert claims["names of the first log"] == claims["first look"] == ""
        monitor.ingest(log(tmp_path / "c.csv", [WIDTH], first=900))
        facts = facts_of(monitor.population_as(decision), decision, [])
        claims = {each.claim: each.reason for each in departures(decision, facts)}
        assert "looked at before" in claims["first look"]


def test_a_name_that_is_forgotten_and_comes_again_is_none_of_the_first(tmp_path: Path) -> None:
    db = two_logs(tmp_path)
    with Monitor(db) as monitor:
        noted = monitor.population().first_names
        assert noted is not None
        monitor.database._execute("DELETE FROM observation WHERE api_id = 2")
        for statement in ("upkeep/delete_apis", "looks/forget_names"):
            monitor.database.run(statement)
        left = monitor.population().first_names
    assert left is not None
    assert (left.number, len(left.names)) == (2, 1)


def test_no_name_is_told_of_where_nothing_is_kept(tmp_path: Path) -> None:
    with Monitor(tmp_path / "gone.duckdb", create=True, kept=False) as monitor:
        monitor.ingest(log(tmp_path / "a.csv", [WIDTH]))
        assert monitor.population().first_of([WIDTH]) is None


def test_others_are_not_told_how_many_names_few_users_have(tmp_path: Path) -> None:
    """They get the price of later names, and no audit for them tells the number either."""
    path, names = log(tmp_path / "a.csv", [WIDTH, LANGUAGE]), [WIDTH, LANGUAGE]
    users = pl.read_csv(path)
    rare = users.with_columns(pl.Series(HEIGHT, [1] * 9 + [None] * (len(users) - 9)))
    rare.write_csv(tmp_path / "rare.csv")
    found = []
    for log_path in (path, tmp_path / "rare.csv"):
        db = log_path.with_suffix(".duckdb")
        with Monitor(db, create=True, audience=Audience.OTHERS) as monitor:
            monitor.ingest(log_path)
            made = monitor.decide(k=10, budget=0.3, population=5000, candidates=names)
            ranked = monitor.rank([names], k=10, population=5000)
            of_others = facts_of(monitor.population_as(made), made, [])
            found.append((made.first_names, made.proof, ranked, of_others.first_names))
        with Monitor(db) as monitor:
            own = monitor.decide(k=10, budget=0.3, population=5000, candidates=names)
            facts = facts_of(monitor.population_as(made), made, [])
        assert not [each for each in departures(made, facts) if each.reason and each.is_certain]
        assert own.first_names
        of_own = {each.claim: each for each in departures(own, of_others)}
        assert not of_own["names of the first log"].is_certain
    assert found[0][0] == 0
    assert found[0] == found[1]
