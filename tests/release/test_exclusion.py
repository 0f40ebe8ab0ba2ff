"""What rows tell together, compared with the truth; releases with planted weaknesses."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from fpmonitor.cli import run
from fpmonitor.release.audit import audit_release, weights_of_rows
from fpmonitor.release.exclusion import boxes_of, downcode, link
from fpmonitor.release.histogram import Release, ReleaseTerms, group_of_users, make_release

if TYPE_CHECKING:
    from pathlib import Path

    from fpmonitor.release.histogram import Mechanism

MADE = datetime(2026, 3, 2, tzinfo=UTC)


def made_of(values: pl.DataFrame, mechanism: Mechanism, k: int = 5) -> Release:
    return make_release(
        values, ReleaseTerms(k=k, mechanism=mechanism, budget=0.9), digest="d", made=MADE
    )


def test_a_hidden_value_that_other_rows_leave_over_is_found() -> None:
    # Whoever has p = a and q = x is in the first row, so those of the second have q = y; the rows
    # of p = b tell nothing of each other.
    values = pl.DataFrame({"p": [*"aaaaaaaaaabbbbbb"], "q": [*"xxxxxyyyyyxyxyxy"]})
    honest = made_of(values, "cells")
    rows = [("a", "x", 5), ("a", None, 5), ("b", None, 6)]
    table = pl.DataFrame(rows, schema=honest.table.schema, orient="row")
    weak = Release(table, replace(honest.manifest, patterns=(("p", "q"), ("p",))))
    found = downcode(boxes_of(weak, values))
    assert (found.hidden, found.narrowed, found.found) == (11 / 16, 5 / 16, 5 / 16)
    assert found.right == 1
    assert downcode(boxes_of(honest, values)).found == 0


@pytest.mark.parametrize("mechanism", ["cells", "generalisation"])
def test_what_is_left_over_is_the_truth_and_never_a_value_of_a_row_of_ours(
    mechanism: Mechanism,
) -> None:
    rng = np.random.default_rng(7)
    columns = {f"n{j}": [str(v) for v in rng.geometric(0.3, 800)] for j in range(4)}
    values = pl.DataFrame(columns).with_columns(c=pl.Series(["x", "y"] * 400))
    found = downcode(boxes_of(made_of(values, mechanism, k=2), values))
    assert (found.narrowed > 0, found.right, found.found) == (True, 1, 0)


def test_a_value_that_follows_from_the_others_is_learnt_and_one_that_does_not_is_not() -> None:
    rng = np.random.default_rng(3)
    first = rng.integers(0, 6, 3000)
    texts = {
        "a": [str(v) for v in first],
        "b": [f"b{v}" for v in first],
        "c": [str(v) for v in rng.integers(0, 4, 3000)],
    }
    values = pl.DataFrame(texts)
    mechanisms: tuple[Mechanism, ...] = ("histogram", "cells", "generalisation")
    for mechanism in mechanisms:
        table = boxes_of(made_of(values, mechanism), values)
        found = {one.api: one for one in link(table, users=400, rng=np.random.default_rng(1))}
        assert abs(found["c"].learnt - 0.25) < 0.1
        assert found["a"].guessed == found["b"].guessed < 0.2
        # Lists of values that differ from row to row tell less than the values, and not nothing.
        least = 0.25 if mechanism == "generalisation" else 1
        assert min(found["a"].learnt, found["b"].learnt) >= least


def audited(folder: Path, frame: pl.DataFrame, apis: str, *options: str) -> tuple[int, Any]:
    """Release some columns of users with their names by the command, and attack that."""
    frame.with_row_index("user").write_csv(folder / "log.csv")
    db = ("--db", str(folder / "p.duckdb"))
    assert run(["ingest", str(folder / "log.csv"), "--user", "user", "-q", *db]) == 0
    table = str(folder / "weak.parquet")
    assert run(["release", "--apis", apis, "-o", table, "-q", *options, *db]) == 0
    output = ("-o", str(folder / "audit.json"))
    audit = ["audit", "singling-out", "--release", table, "--trials", "400", *output, *db]
    code = run(audit)
    return code, json.loads((folder / "audit.json").read_text(encoding="utf-8"))


LONG = pytest.mark.long
# Each has rows of k users, all of whom fit a predicate of the weight 9^-6, whatever mechanism.
RARE: list[Any] = [("histogram", 2), *(
    pytest.param(mechanism, k, marks=LONG)
    for mechanism, k in (
        ("histogram", 3), ("histogram", 5), ("histogram", 10), ("cells", 2), ("cells", 3),
        ("cells", 5), ("generalisation", 2), ("generalisation", 3), ("generalisation", 5),
    )
)]  # fmt: skip


@pytest.mark.each
@pytest.mark.parametrize(("mechanism", "k"), RARE)
def test_a_release_of_rows_that_are_rare_is_never_called_harmless(
    tmp_path: Path, mechanism: Mechanism, k: int
) -> None:
    """Records are drawn from 9^6 equally probable ones, each for k users who differ in another API.

    So each row has the weight 9^-6, which is low, and its users are isolated as Theorem 6.1 says.
    """
    rng = np.random.default_rng(k)
    columns = np.repeat(rng.integers(0, 9, (600 // k, 6)), k, axis=0).astype(str)
    frame = pl.DataFrame({f"Navigator.n{place}": columns[:, place] for place in range(6)})
    rows = range(len(frame))
    other = {"Screen.m": [i % 25 for i in rows], "Screen.n": [i // 25 for i in rows]}
    frame = frame.with_columns(pl.DataFrame(other))
    apis = ",".join(name for name in frame.columns if name not in other)
    code, found = audited(tmp_path, frame, apis, "-k", str(k), "--mechanism", mechanism)
    assert (code, found["verdict"]) == (1, "singles out")
    attack = found["distributions"][0]["attack"]
    assert found["weight"] >= 9**-6
    if mechanism == "histogram":  # other mechanisms show some of the rows coarser
        assert attack["success"] == pytest.approx((1 - 1 / k) ** (k - 1), abs=0.1)
    assert attack["lower"] > 2 * found["baseline"]


TOLD: list[Any] = [("histogram", 5, 40), *(
    pytest.param(mechanism, k, alike, marks=LONG)
    for mechanism, k, alike in (
        ("histogram", 20, 30), ("histogram", 50, 50), ("cells", 5, 40), ("cells", 20, 60),
        ("cells", 60, 60),
    )
)]  # fmt: skip


@pytest.mark.each
@pytest.mark.parametrize(("mechanism", "k", "alike"), TOLD)
def test_a_release_that_tells_what_some_users_have_is_never_called_harmless(
    tmp_path: Path, mechanism: Mechanism, k: int, alike: int
) -> None:
    """All users of the rare colour have one illness, and no others have only one."""
    rng = np.random.default_rng(alike)
    ill = ["cold"] * alike + rng.choice(["a", "b", "cold"], 900).tolist()
    colour = ["violet"] * alike + rng.choice(["grey", "red"], 900).tolist()
    frame = pl.DataFrame({"Screen.ill": ill, "Screen.colour": colour})
    options = ("--mechanism", mechanism, "--sensitive", "Screen.ill")
    apis = "Screen.ill,Screen.colour"
    code, found = audited(tmp_path, frame, apis, "-k", str(k), *options)
    assert code == 1
    assert found["verdict"] in ("singles out", "gives values away")
    assert (found["sensitive"]["l"], found["sensitive"]["classes"]) == (1, 3)
    table = str(tmp_path / "weak.parquet")
    assert run(["audit", "sensitive", "--release", table, "--api", "Screen.ill"]) == 1


@pytest.mark.each
@pytest.mark.parametrize(
    ("named", "hidden", "others"), [(5, 5, 6), (40, 7, 9), (7, 40, 9), (9, 9, 90)]
)
def test_a_release_that_leaves_a_hidden_value_over_is_never_called_harmless(
    named: int, hidden: int, others: int
) -> None:
    """Who has p = a and q = x is in the first row, so that all of the second have q = y."""
    values = pl.DataFrame(
        {
            "p": ["a"] * (named + hidden) + ["b"] * others,
            "q": ["x"] * named + ["y"] * hidden + ["x", "y"] * (others // 2) + ["x"] * (others % 2),
        }
    )
    honest = made_of(values, "cells")
    rows = [("a", "x", named), ("a", None, hidden), ("b", None, others)]
    table = pl.DataFrame(rows, schema=honest.table.schema, orient="row")
    weak = Release(table, replace(honest.manifest, patterns=(("p", "q"), ("p",))))
    groups = group_of_users(weak, values)
    audit = audit_release(
        groups,
        np.arange(len(values), dtype=np.uint64),
        {"the shares of the users": weights_of_rows(groups, len(rows))},
        boxes_of(weak, values),
        trials=50,
        rng=np.random.default_rng(0),
    )
    assert audit.verdict == "gives values away"
    assert audit.downcoding.found == hidden / len(values)


def test_a_release_of_common_rows_is_not_called_weak(tmp_path: Path) -> None:
    """Three values that a third of the users have each: no predicate of a row is of low weight."""
    frame = pl.DataFrame({"Screen.ill": ["a", "b", "c"] * 300})
    code, found = audited(tmp_path, frame, "Screen.ill", "-k", "200")
    assert (code, found["verdict"]) == (3, "could not be tested")
