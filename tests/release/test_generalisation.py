"""Generalisation: rows of at least k users, nobody withheld, no value told that fewer share."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpmonitor.cli import run
from fpmonitor.errors import FpmonitorError
from fpmonitor.population.levels import Component, LevelMap, read_levels
from fpmonitor.release.generalisation import Protection, generalise
from fpmonitor.release.histogram import ReleaseTerms, make_release
from fpmonitor.release.ladders import shortest_between
from fpmonitor.release.sensitive import sensitivity_of
from fpmonitor.release.suppression import USERS, suppress_cells

if TYPE_CHECKING:
    from pathlib import Path

    from fpmonitor.release.generalisation import Generalised

NAMES = ("heights", "languages", "touch")


def users_of(seed: int, users: int = 600) -> pl.DataFrame:
    """Numbers with a long tail, texts with rare ones, and numbers that some lack."""
    rng = np.random.default_rng(seed)
    heights = rng.geometric(0.08, users) * 10 + rng.integers(0, 3, users)
    languages = [f"l{number}" for number in rng.geometric(0.4, users)]
    touch = [str(number) if number else "(absent)" for number in rng.integers(0, 4, users)]
    return pl.DataFrame(
        {"heights": map(str, heights), "languages": languages, "touch": touch},
        schema=dict.fromkeys(NAMES, pl.String),
    )


def named(text: str | None) -> set[str]:
    """The values that a cell names."""
    if text is None:
        return set()
    return set(json.loads(text)) if text.startswith('["') else {text}


def check(users: pl.DataFrame, made: Generalised, k: int) -> None:
    assert int(made.table[USERS].sum()) == len(users)
    assert int(made.table[USERS].min()) >= k  # type: ignore[arg-type]
    rows = made.rows_of(users)
    assert np.bincount(rows, minlength=len(made.table)).tolist() == made.table[USERS].to_list()
    for api in made.table.drop(USERS).columns:
        shared = users.group_by(api).len().filter(pl.col("len") >= k)[api].to_list()
        had = set(users[api])
        for cell in made.table[api]:
            assert not (named(cell) & had) - set(shared), "a value that fewer than k users have"


@given(st.integers(0, 10_000), st.integers(1, 60))
def test_every_row_has_k_users_nobody_is_withheld_and_no_rare_value_is_told(
    seed: int, k: int
) -> None:
    users = users_of(seed, 200)
    check(users, generalise(users, NAMES, k), k)


def test_it_loses_at_most_a_third_of_what_suppressed_cells_lose() -> None:
    users = users_of(1, 3000)
    cells = suppress_cells(users, NAMES, 5, budget=0.5)
    made = generalise(users, NAMES, 5)
    assert made.loss <= cells.lost_cells / (3 * len(users)) / 3
    assert made.hidden_cells < cells.lost_cells


def test_a_row_shows_what_the_cuts_allow_and_not_what_its_users_have() -> None:
    # Both values of b are common, and all who have a = 2 have b = y: the cut between them could
    # not be made among these users, so their row must not say that all of them have y.
    users = pl.DataFrame({"a": ["1"] * 10 + ["2"] * 5, "b": ["x"] * 5 + ["y"] * 10})
    table = generalise(users, ("a", "b"), 5).table
    assert table.filter(pl.col("a") == "2")["b"].to_list() in ([None], ['["x", "y"]'])


@pytest.mark.parametrize(
    ("low", "high", "edge"),
    [("30", "37", "31"), ("38", "52", "40"), ("99", "4000", "1000"), ("-12", "-7", "-10"),
     ("0.25", "0.251", "0.251"), ("0", "0.4", "0.1"), ("1", "2", "2"), ("999", "1000", "1000")],
)  # fmt: skip
def test_edges_are_the_shortest_numbers_between(low: str, high: str, edge: str) -> None:
    assert shortest_between(Decimal(low), Decimal(high)) == edge


def test_numbers_that_differ_beyond_the_digits_of_doubles_keep_their_rows() -> None:
    """From 2^53 on neighbours are one double: the table told the one as the other."""
    low, high = "9007199254740992", "9007199254740993"
    users = pl.DataFrame({"memory": ["5"] * 6 + [low] * 5 + [high] * 8})
    made = generalise(users, ["memory"], 5)
    assert sorted(made.table.rows()) == [("5", 6), (">=1000000000000000", 13)]
    check(users, made, 5)
    digits = "123456789012345678901.00000000000000000000000000000"
    edge = shortest_between(Decimal(f"{digits}1"), Decimal(f"{digits}2"))
    assert edge == f"{digits}2"


LEVELS = """
[[component]]
name = "window"
apis = ["width", "height"]
levels = [{raw = true}, {step = [100, 100]}, {step = [1000, 1000]}]
"""


def windows() -> pl.DataFrame:
    rng = np.random.default_rng(3)
    return pl.DataFrame(
        {
            "height": [str(number) for number in rng.integers(700, 1200, 500)],
            "width": [str(number) for number in rng.integers(700, 1200, 500)],
            "touch": [str(number) for number in rng.integers(0, 3, 500)],
        }
    )


def store_windows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    numbered = windows().with_row_index("user")
    numbered.with_columns(pl.format("u{}", "user").alias("user")).write_csv("log.csv")
    (folder / "levels.toml").write_text(LEVELS)
    assert run(["ingest", "log.csv", "--user", "user", "-q"]) == 0


def test_levels_are_shown_together_and_only_as_declared(tmp_path: Path) -> None:
    (tmp_path / "levels.toml").write_text(LEVELS)
    users = windows()
    made = generalise(users, users.columns, 5, read_levels(tmp_path / "levels.toml"))
    assert np.bincount(made.rows_of(users)).tolist() == made.table[USERS].to_list()
    assert min(made.table[USERS]) >= 5
    for height, width in made.table.select("height", "width").rows():
        assert (height is None) == (width is None)
    shown = {int(height) for height in made.table["height"].drop_nulls()}
    assert {height for height in shown if height % 1000} <= {700, 800, 900, 1100}
    assert len(shown) > 3


def test_the_command_releases_and_the_audit_makes_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store_windows(tmp_path, monkeypatch)
    capsys.readouterr()
    table = ["release", "--apis", "width,height,touch", "--k", "5", "-o", "table.csv"]
    made = [*table, "--mechanism", "generalisation", "--levels", "levels.toml"]
    assert run([*made, "--format", "json"]) == 0
    manifest = json.loads(capsys.readouterr().out)
    assert 0 < manifest["information_loss"] < 1
    assert manifest["published"]["users"] == 500
    assert run(["audit", "singling-out", "--release", "table.csv", "--format", "json"]) in (0, 1, 3)
    capsys.readouterr()
    changed = (tmp_path / "table.csv").read_text().replace('"0"', '"1"', 1)
    (tmp_path / "table.csv").write_text(changed)
    assert run(["audit", "singling-out", "--release", "table.csv"]) == 2
    assert "differs from what its manifest describes" in capsys.readouterr().err
    assert run([*table, "--mechanism", "cells", "--levels", "levels.toml"]) == 2
    assert "--mechanism generalisation" in capsys.readouterr().err
    assert run([*made, "--sample", "10%"]) == 2
    assert run(["release", "--apis", "touch", "--k", "5", "-o", "t.csv", *made[-4:]]) == 2
    assert run(["release", "--apis", "touch", "--k", "501", "-o", "t.csv", *made[-4:-2]]) == 3


def test_texts_among_numbers_are_texts_whatever_they_say() -> None:
    ages = ["below 18"] * 20 + [str(20 + number % 9) for number in range(200)]
    users = pl.DataFrame({"age": ages})
    check(users, generalise(users, ("age",), 5), 5)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [("a", "a", "'a' is named twice"), ("a", "c", "unknown"), ("a most 0", "b", "nowhere")],
)
def test_levels_that_cannot_be_shown_are_refused(first: str, second: str, words: str) -> None:
    users = pl.DataFrame({"a": ["1", "2"] * 50, "b": ["x", "y"] * 50})
    levels = []
    for number, text in enumerate((first, second)):
        api, _, most = text.partition(" most ")
        levels.append(
            Component(
                name=f"component {number}", apis=(api,), levels=(LevelMap(raw=True),),
                utility=(0.0, 1.0), least=0, most=int(most or 1),
            )
        )  # fmt: skip
    with pytest.raises(FpmonitorError, match=words):
        make_release(
            users,
            ReleaseTerms(k=5, mechanism="generalisation", levels=levels),
            digest="",
            made=datetime(2026, 3, 2, tzinfo=UTC),
        )


# ---- Sensitive attributes -----------------------------------------------------------------------


def classes(table: pl.DataFrame, sensitive: str) -> list[dict[str, int]]:
    """Users by value of the sensitive attribute, for each class of the other cells."""
    found: dict[object, dict[str, int]] = {}
    for row in table.rows(named=True):
        others = tuple(row[name] for name in table.columns if name not in {sensitive, USERS})
        values = found.setdefault(others, {})
        values[row[sensitive]] = values.get(row[sensitive], 0) + row[USERS]
    return list(found.values())


@pytest.mark.parametrize("sensitive", NAMES)
@given(
    seed=st.integers(0, 10_000),
    k=st.integers(1, 12),
    diversity=st.integers(1, 3),
    closeness=st.sampled_from([0.05, 0.2, 0.6, 1.0]),
)
def test_every_class_keeps_what_is_demanded_of_a_sensitive_attribute(
    sensitive: str, seed: int, k: int, diversity: int, closeness: float
) -> None:
    users = users_of(seed, 300)
    made = generalise(users, NAMES, k, (), Protection(sensitive, diversity, closeness))
    check(users, made, k)
    values: dict[str, int] = {}
    for one in classes(made.table, sensitive):
        for value, count in one.items():
            values[value] = values.get(value, 0) + count
    for one in classes(made.table, sensitive):
        assert len(one) >= diversity
        size = sum(one.values())
        distance = sum(abs(one.get(value, 0) / size - had / 300) for value, had in values.items())
        assert distance / 2 <= closeness + 1e-9
    measured = sensitivity_of(made.table, sensitive)
    assert measured.l >= diversity
    assert measured.t <= closeness + 1e-9


def test_demands_cost_and_none_costs_nothing() -> None:
    users = users_of(2, 3000)
    plain = generalise(users, NAMES, 5)
    assert generalise(users, NAMES, 5, (), Protection("touch")).table.equals(plain.table)
    demanded = [Protection("touch", 2), Protection("touch", 4), Protection("touch", 4, 0.05)]
    losses = [generalise(users, NAMES, 5, (), one).loss for one in demanded]
    assert plain.loss < min(losses)
    assert losses[2] == max(losses)


def test_a_sensitive_api_of_several_columns_is_to_be_named_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"height": "screen_height", "width": "screenHeight"}
    users = windows().with_row_index("user").rename(names)
    users.with_columns(pl.format("u{}", "user").alias("user")).write_csv("log.csv")
    assert run(["ingest", "log.csv", "--user", "user", "-q"]) == 0
    capsys.readouterr()
    table = ["release", "--apis", "Screen.height,touch", "--k", "5", "-o", "table.csv"]
    table += ["--mechanism", "generalisation", "--sensitive"]
    assert run([*table, "Screen.height"]) == 2
    told = capsys.readouterr().err
    assert "several columns of the log are Screen.height" in told
    assert "screenHeight, screen_height" in told
    assert run([*table, "screenHeight"]) == 0


def test_what_no_table_keeps_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store_windows(tmp_path, monkeypatch)
    table = ["release", "--apis", "width,height,touch", "--k", "5", "-o", "table.csv"]
    coarse = [*table, "--mechanism", "generalisation"]
    for code, words, options in (
        (2, "--sensitive", [*coarse, "--diversity", "2"]),
        (2, "--mechanism generalisation", [*table, "--sensitive", "touch", "--diversity", "2"]),
        (2, "0.05 or 5%", [*coarse, "--sensitive", "touch", "--closeness", "near"]),
        (2, "closeness", [*coarse, "--sensitive", "touch", "--closeness", "120%"]),
        (2, "diversity", [*coarse, "--sensitive", "touch", "--diversity", "0"]),
        (2, "colour", [*coarse, "--sensitive", "colour", "--diversity", "2"]),
        (2, "touch", ["release", "--apis", "width,height", *coarse[3:],
                      "--sensitive", "touch", "--diversity", "2"]),
        (2, "--what-if", [*coarse, "--sensitive", "width", "--closeness", "5%",
                          "--levels", "levels.toml"]),
        (3, "touch", [*coarse, "--sensitive", "touch", "--diversity", "4"]),
    ):  # fmt: skip
        capsys.readouterr()
        assert run(options) == code, options
        assert words in capsys.readouterr().err
        assert not (tmp_path / "table.csv").exists()
    kept = [*coarse, "--sensitive", "touch", "--diversity", "3", "--closeness", "20%"]
    assert run([*kept, "--format", "json"]) == 0
    manifest = json.loads(capsys.readouterr().out)
    assert manifest["policy"]["protection"] == {
        "api": "touch", "diversity": 3, "closeness": 0.2
    }  # fmt: skip
    assert manifest["sensitive"]["l"] == 3
    assert manifest["sensitive"]["t"] <= 0.2
    assert run(["audit", "singling-out", "--release", "table.csv", "--format", "json"]) in (0, 1, 3)
