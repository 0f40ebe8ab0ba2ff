"""Sampling, sensitive attributes, and several releases: against enumerated worlds."""

from __future__ import annotations

import itertools
import json
import math
import shutil
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.errors import InputError, PolicyError, UndecidableError, UnknownNameError
from fpmonitor.release.histogram import (
    ReleaseTerms,
    make_release,
    manifest_path,
    read_release,
    write_release,
)
from fpmonitor.release.sampling import drawn_users, sampling_delta, sampling_of
from fpmonitor.release.sensitive import sensitivity_of
from fpmonitor.release.several import several_guarantee
from tests.asked import answer_of

PAPERS: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "reference" / "papers.json").read_text("utf-8")
)
MADE = datetime(2026, 3, 2, tzinfo=UTC)
HEIGHT, TOUCH = "Screen.height", "Navigator.maxTouchPoints"


@pytest.fixture(scope="module")
def db(fixture_database: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(shutil.copy(fixture_database, tmp_path_factory.mktemp("guarantees")))


# ---- Sampling -----------------------------------------------------------------------------------


def test_the_delta_of_sampling_is_the_largest_of_all_small_worlds() -> None:
    for figure in PAPERS["sampled"]:
        found = sampling_delta(figure["rate"], figure["k"], figure["epsilon"])
        assert found == pytest.approx(figure["delta"], rel=1e-6), figure
        assert found >= figure["delta"]
    for figure in PAPERS["sampled_worlds"]:
        found = sampling_delta(figure["rate"], figure["k"], figure["epsilon"])
        assert found >= figure["delta"], figure


def test_sampling_promises_more_for_a_larger_threshold_and_a_smaller_share() -> None:
    by_k = [sampling_delta(0.1, k, 1.0) for k in (2, 5, 20, 50)]
    assert by_k == sorted(by_k, reverse=True)
    by_rate = [sampling_delta(rate, 10, 1.0) for rate in (0.01, 0.1, 0.3, 0.6)]
    assert by_rate == sorted(by_rate)
    assert sampling_delta(0.1, 50, 1.0) < 1e-15
    assert sampling_delta(0.5, 20, math.log(2)) < 1
    with pytest.raises(PolicyError, match="at least"):
        sampling_delta(0.5, 20, 0.69)


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.5, math.nan])
def test_a_share_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(PolicyError):
        sampling_delta(rate, 5, 1.0)


def test_users_are_drawn_alone_and_as_often_as_said() -> None:
    sampling = sampling_of(0.2, 5, 1.0, seed=bytes(range(16)))
    drawn = drawn_users(100_000, sampling)
    assert abs(int(drawn.sum()) - 20_000) < 5 * math.sqrt(16_000)
    assert (drawn[:500] == drawn_users(500, sampling)).all(), "whoever else is there"
    other = drawn_users(100_000, sampling_of(0.2, 5, 1.0, seed=bytes(16)))
    assert abs(int((drawn & other).sum()) - 4_000) < 5 * math.sqrt(4_000)


def test_a_sampled_release_says_what_it_proves_and_can_be_made_again(
    db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table.parquet"
    asked = ["release", "--apis", f"{HEIGHT},{TOUCH}", "--k", "20", "--sample", "20%"]
    asked += ["--epsilon", "0.8", "-o", str(table), "--db", db]
    assert run([*asked, "--format", "json"]) == 0
    printed = capsys.readouterr()
    told = json.loads(printed.out)["sampling"]
    assert told == {"rate": 0.2, "epsilon": 0.8, "delta": sampling_delta(0.2, 20, 0.8)}
    assert "differentially private" in printed.err
    kept = json.loads(manifest_path(table).read_text())["sampling"]
    assert kept["seed"] not in printed.out, "who was drawn stays in the file"
    users = read_release(table).table["users"]
    assert users.min() >= 20
    assert 2_000 < users.sum() < 6_000
    attack = ["audit", "singling-out", "--release", str(table), "--trials", "5", "--db", db]
    assert run(attack) in {0, 1, 3}, "the audit makes it again from the manifest"
    assert run(asked) == 0
    assert json.loads(manifest_path(table).read_text())["sampling"]["seed"] != kept["seed"]


def test_users_are_not_drawn_for_what_depends_on_all(
    db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["release", "--apis", HEIGHT, "--k", "20", "-o", str(tmp_path / "t.parquet")]
    assert run([*asked, "--db", db, "--sample", "0.2", "--mechanism", "cells"]) == 2
    assert "sample" in capsys.readouterr().err
    assert run([*asked, "--db", db, "--sample", "0.9", "--epsilon", "1"]) == 2
    assert "at least 2.30" in capsys.readouterr().err


# ---- Sensitive attributes -----------------------------------------------------------------------


@pytest.mark.parametrize("figure", PAPERS["sensitive"], ids=str)
def test_what_a_table_tells_of_a_sensitive_attribute(figure: dict[str, Any]) -> None:
    table = pl.DataFrame(figure["rows"], schema=["known", "secret", "users"], orient="row")
    found = sensitivity_of(table, "secret")
    for name in ("l", "entropy_l", "t", "t_ordered", "beta"):
        assert getattr(found, name) == pytest.approx(figure[name], abs=1e-12), name


def test_l_and_t_agree_with_their_definitions_on_random_tables() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        rows = {
            (f"g{g}", f"h{h}", f"s{s}"): int(rng.integers(2, 30))
            for g, h, s in itertools.product(range(3), range(2), range(4))
            if rng.random() < 0.6
        }
        frame = pl.DataFrame([(*key, n) for key, n in rows.items()], orient="row")
        frame.columns = ["g", "h", "s", "users"]
        total = sum(rows.values())
        groups: dict[Any, dict[str, int]] = {}
        for (g, h, s), n in rows.items():
            groups.setdefault((g, h), {})[s] = n
        shares = {
            s: sum(group.get(s, 0) for group in groups.values()) / total
            for s in {key[2] for key in rows}
        }
        found = sensitivity_of(frame, "s")
        assert found.classes == len(groups)
        assert found.l == min(map(len, groups.values()))
        distances = [
            sum(abs(group.get(s, 0) / sum(group.values()) - p) for s, p in shares.items()) / 2
            for group in groups.values()
        ]
        assert found.t == pytest.approx(max(distances))
        gains = [
            group[s] / sum(group.values()) / shares[s] - 1
            for group in groups.values()
            for s in group
        ]
        assert found.beta == pytest.approx(max(gains))


def test_suppressed_cells_of_the_attribute_are_left_out() -> None:
    rows = [("a", "x", 3), ("a", None, 9), (None, "y", 4), (None, "x", 4)]
    table = pl.DataFrame(rows, schema=["known", "secret", "users"], orient="row")
    found = sensitivity_of(table, "secret")
    assert (found.classes, found.l) == (2, 1), "what is suppressed of the others is seen"
    with pytest.raises(UndecidableError):
        sensitivity_of(table.filter(pl.col("secret").is_null()), "secret")
    with pytest.raises(UnknownNameError):
        sensitivity_of(table, "users")
    with pytest.raises(InputError, match="only API"):
        sensitivity_of(table.select("secret", "users"), "secret")


def test_manifest_and_audit_say_what_is_told_of_a_sensitive_attribute(
    db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table.csv"
    manifest = answer_of(
        capsys,
        *("release", "--apis", f"{HEIGHT},{TOUCH}", "--k", "10", "--db", db),
        *("--sensitive", "maxTouchPoints", "-o", str(table)),
    )
    audit = ["audit", "sensitive", "--release", str(table), "--api", TOUCH, "--format", "json"]
    assert run(audit) == 1, "some class has one value"
    audited = json.loads(capsys.readouterr().out)
    assert manifest["sensitive"] == audited
    assert audited["l"] == 1
    assert 0 < audited["t"] <= 1
    assert audited["t_ordered"] <= audited["t"]


def test_a_release_may_be_csv_and_is_read_again(tmp_path: Path) -> None:
    values = pl.DataFrame({"a": ["", "=x", 'b"', None] * 3, "n": ["", "1", "", "1"] * 3})
    release = make_release(values, ReleaseTerms(k=3), digest="d", made=MADE)
    path = tmp_path / "rel.csv"
    write_release(release, path)
    assert path.read_text().startswith('"a","n","users"')
    assert read_release(path).table.equals(release.table)
    cells = make_release(
        values, ReleaseTerms(k=6, mechanism="cells", budget=0.9), digest="d", made=MADE
    )
    write_release(cells, path)
    assert read_release(path).table.equals(cells.table)


@pytest.mark.parametrize("name", ["t.tsv", "t.csv.gz", "t.xlsx", "t.json", "t.CSV.zip"])
def test_a_name_of_another_format_is_refused(
    db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    asked = ["release", "--apis", HEIGHT, "--k", "5", "--db", db, "-o", str(tmp_path / name)]
    assert run(asked) == 2
    assert "is written as CSV or Parquet" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_what_proves_nothing_is_not_told_as_a_proof(
    db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sampled table with a large delta; and an attribute that is the same for all."""
    table = tmp_path / "t.csv"
    asked = ["release", "--apis", HEIGHT, "--k", "2", "--db", db, "-o", str(table)]
    assert run([*asked, "--sample", "90%", "--epsilon", "20"]) == 0
    assert "so large a delta proves next to nothing" in capsys.readouterr().err
    values = pl.DataFrame({"a": ["x", "y"] * 9, "same": ["1"] * 18})
    write_release(make_release(values, ReleaseTerms(k=3), digest="d", made=MADE), table)
    assert run(["audit", "sensitive", "--release", str(table), "--api", "same"]) == 3
    assert "all users have one value" in capsys.readouterr().err


def test_budgets_are_shares_in_either_form(
    db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--apis", f"{HEIGHT},{TOUCH}", "--k", "5", "--mechanism", "cells", "--db", db]
    manifest = answer_of(
        capsys, "release", *asked, "--budget", "5%", "-o", str(tmp_path / "t.parquet")
    )
    assert manifest["policy"]["budget"] == 0.05


# ---- Several releases ---------------------------------------------------------------------------


@pytest.mark.parametrize("figure", PAPERS["several"], ids=lambda figure: figure["name"])
def test_what_several_histograms_guarantee_together_holds(figure: dict[str, Any]) -> None:
    law = {value: float(Fraction(p)) for value, p in figure["law"].items()}
    values = [value for value in law if value != "--"]
    rows = [
        [
            sum(p for other, p in law.items() if other[part] == value[part])
            if value[part] != "-"
            else 0.0
            for value in values
        ]
        for part in (0, 1)
    ]
    found = several_guarantee(
        figure["users"],
        [law[value] for value in values],
        rows,
        ks=[figure["k"]] * 2,
        epsilon=figure["epsilon"],
    )
    assert found.delta >= figure["together"] - 1e-12
    assert found.delta >= max(figure["alone"]) - 1e-12


def test_guarantees_of_several_histograms_do_not_add_up() -> None:
    """Why nothing better is told: each alone hides a record that both together show."""
    figure = PAPERS["several"][0]
    assert figure["together"] > 2 * sum(figure["alone"])


def test_rare_values_add_up() -> None:
    rows = np.array([[1e-6, 1e-6], [2e-6, 2e-6], [1e-6, 1e-6]])
    one, three = (
        several_guarantee(10_000, [1e-6, 1e-6], rows[:count], ks=[5] * count, epsilon=1.0)
        for count in (1, 3)
    )
    assert one.delta < three.delta < 40 * one.delta < 1e-7


def test_the_command_estimates_several_histograms(
    db: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["audit", "several", "--k", "100", "--epsilon", "1", "--db", db]
    found = answer_of(capsys, *asked, "--apis", HEIGHT, "--apis", f"{HEIGHT},{TOUCH}")
    assert len(found["delta_each"]) == 2
    assert found["delta_together"] >= max(found["delta_each"]) - 1e-12
