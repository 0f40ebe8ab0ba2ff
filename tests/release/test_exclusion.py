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
from fpmonitor.release.exclusion import boxes_of, downcode, link
from fpmonitor.release.histogram import Release, ReleaseTerms, make_release

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


def database(folder: Path) -> None:
    rng = np.random.default_rng(11)
    users = 1500
    frame = pl.DataFrame({"user": [f"u{i}" for i in range(users)]})
    for j in range(6):
        frame = frame.with_columns(
            pl.Series(f"Navigator.n{j}", rng.geometric(0.25, users).astype(str))
        )
    # Who has the rare colour has one illness; all others have any.
    ill = np.where(rng.random(users) < 0.05, "rare", rng.choice(["a", "b", "c"], users))
    frame = frame.with_columns(
        pl.Series("Screen.ill", np.where(ill == "rare", "cold", ill)),
        pl.Series("Screen.colour", np.where(ill == "rare", "violet", "grey")),
    )
    frame.write_csv(folder / "log.csv")


WEAK = [
    *(
        [mechanism, k, apis]
        for mechanism in ("histogram", "cells", "generalisation")
        for k, apis in (
            ("2", "n0,n1,n2,n3,n4,n5"), ("2", "n0,n1,n2"), ("3", "n0,n1,n2,n3"),
            ("4", "n1,n3,n5"), ("5", "n2,n4"),
        )
    ),
    *(
        [mechanism, k, "Screen.ill,Screen.colour", "--sensitive", "Screen.ill"]
        for mechanism, k in (
            ("histogram", "5"), ("histogram", "50"), ("histogram", "70"), ("cells", "20"),
            ("cells", "60"),
        )
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted")
    database(folder)
    log = str(folder / "log.csv")
    assert run(["ingest", log, "--user", "user", "-q", "--db", str(folder / "p.duckdb")]) == 0
    return folder


@pytest.mark.each
@pytest.mark.parametrize("weak", WEAK, ids=" ".join)
def test_no_release_with_a_planted_weakness_is_called_harmless(
    planted: Path, capsys: pytest.CaptureFixture[str], weak: list[str]
) -> None:
    mechanism, k, apis, *more = weak
    named = ",".join(name if "." in name else f"Navigator.{name}" for name in apis.split(","))
    db = ["--db", str(planted / "p.duckdb")]
    table = str(planted / "weak.parquet")
    options = ["--mechanism", mechanism, "--budget", "99%", *more, *db]
    assert run(["release", "--apis", named, "-k", k, "-o", table, "-q", *options]) == 0
    capsys.readouterr()
    audit = ["audit", "singling-out", "--release", table, "--trials", "200", *db]
    code = run([*audit, "--format", "json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["verdict"] != "within chance"
    assert code == {"could not be tested": 3}.get(found["verdict"], 1)
    if more:
        assert found["sensitive"]["l"] == 1
        assert code == 1
        assert run(["audit", "sensitive", "--release", table, "--api", "Screen.ill"]) == 1
    assert found["downcoding"]["found"] == 0
    assert {one["api"] for one in found["linkage"]} == set(named.split(","))
