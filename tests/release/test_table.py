"""Releases of real tables: what is published, its manifest, and the attacks on it."""

from __future__ import annotations

import json
import math
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import opendp.prelude as dp
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fpmonitor.cli import run
from fpmonitor.errors import InputError, PolicyError, UndecidableError, UnknownNameError
from fpmonitor.logs.column_map import ColumnMap
from fpmonitor.monitor import Monitor
from fpmonitor.release.attacks import attack_groups
from fpmonitor.release.audit import record_words, weights_by_table, weights_of_rows
from fpmonitor.release.histogram import (
    ReleaseTerms,
    group_of_users,
    make_release,
    manifest_path,
    read_release,
    read_values,
    write_release,
)
from fpmonitor.release.partial_knowledge import value_guarantee
from fpmonitor.release.singling_out import best_baseline, dp_bound, isolation_baseline
from fpmonitor.release.stored import attack_records, attack_release, release_users
from fpmonitor.release.suppression import drop_apis, suppress_cells
from fpmonitor.store.database import Database
from fpmonitor.store.snapshot import take_snapshot
from fpmonitor.store.transforms import Transform
from tests.release.expected import expected_group_success

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conftest import FixtureDistribution
    from numpy.typing import NDArray

    from fpmonitor.release.histogram import Mechanism, Release

ROOT = Path(__file__).parents[2]
MADE = datetime(2026, 3, 2, tzinfo=UTC)
APIS = ("Navigator.maxTouchPoints", "Navigator.userAgent", "Screen.height")
WIDE = (
    *("Navigator.hardwareConcurrency", "Navigator.maxTouchPoints", "Navigator.userAgent"),
    *("Screen.height", "Screen.width", "Window.devicePixelRatio"),
    "NavigatorUAData.getHighEntropyValues#model",
    "WebGLRenderingContext.getParameter#UNMASKED_RENDERER_WEBGL",
)


@pytest.fixture(scope="module")
def database(fixture_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copy(fixture_database, tmp_path_factory.mktemp("release")))


def released(
    database: Path, apis: Sequence[str] = APIS, *, k: int = 50, mechanism: Mechanism = "histogram"
) -> Release:
    with Monitor(database) as monitor:
        return release_users(
            monitor.database, apis, ReleaseTerms(k=k, mechanism=mechanism, budget=0.2), made=MADE
        )


def values_of(database: Path, release: Release) -> pl.DataFrame:
    manifest = release.manifest
    with Database(database) as opened:
        snapshot = take_snapshot(opened)
        return read_values(opened, snapshot, manifest.policy.apis, manifest.transforms)


def words_of(database: Path) -> NDArray[np.uint64]:
    with Database(database) as opened:
        return record_words(opened, take_snapshot(opened))


def population_under(law: FixtureDistribution, apis: Sequence[str]) -> pl.DataFrame:
    """Distinct browsers of the law of the logs, in texts."""
    return pl.DataFrame(
        {
            api: pl.Series(api, [None, *law.values[api]], dtype=pl.String).gather(
                law.rows[api].to_numpy()
            )
            for api in apis
        }
    )


def weights_under(law: FixtureDistribution, release: Release) -> NDArray[np.float64]:
    """Exact weight of each row of a release under the law of the logs."""
    groups = group_of_users(release, population_under(law, release.manifest.policy.apis))
    weight = law.rows["weight"].cast(pl.Int64).to_numpy()
    inside = groups >= 0
    counts = np.bincount(groups[inside], weights=weight[inside], minlength=len(release.table))
    shares: NDArray[np.float64] = counts / weight.sum()
    return shares


def small(rows: Sequence[Sequence[str | None]], **choices: Any) -> Release:
    names = [f"api{i}" for i in range(len(rows[0]))]
    frame = pl.DataFrame(
        [list(row) for row in rows], schema=dict.fromkeys(names, pl.String), orient="row"
    )
    sampling = choices.pop("sampling", None)
    terms = ReleaseTerms(**{"k": 2} | choices)
    return make_release(frame, terms, digest="d", made=MADE, sampling=sampling)


def test_a_histogram_holds_exactly_the_values_of_k_users(database: Path) -> None:
    release = released(database)
    values = values_of(database, release)
    counted: dict[tuple[Any, ...], int] = {}
    for row in values.rows():
        if any(cell is not None for cell in row):
            key = tuple("(absent)" if cell is None else cell for cell in row)
            counted[key] = counted.get(key, 0) + 1
    expected = {(*row, users) for row, users in counted.items() if users >= 50}
    assert set(release.table.rows()) == expected
    assert release.manifest.published.users == sum(row[-1] for row in expected)
    assert release.manifest.suppressed.users == 20_000 - release.manifest.published.users


def test_users_without_values_are_not_counted_anywhere() -> None:
    rows = [("a",)] * 3 + [("b",)] + [(None,)] * 4
    release = small(rows)
    assert release.table.rows() == [("a", 3)]
    assert release.manifest.suppressed.users == 5, "suppressed and absent users are one number"
    assert small([("a",)] * 3 + [("b",)], k=3).manifest.suppressed.users is None, (
        "1 user is below k"
    )


def test_absent_is_a_value_where_others_are_there() -> None:
    release = small([("a", None)] * 2 + [(None, None)] * 9)
    assert release.table.rows() == [("a", "(absent)", 2)]


def test_transforms_are_applied_and_written_down(database: Path, tmp_path: Path) -> None:
    rounded = {"Screen.height": Transform(round=200)}
    with Monitor(database) as monitor:
        release = release_users(
            monitor.database, APIS, ReleaseTerms(k=50, transforms=rounded), made=MADE
        )
        write_release(release, tmp_path / "table.parquet")
        again = read_release(tmp_path / "table.parquet")
        heights = set(release.table["Screen.height"].to_list()) - {"(absent)"}
        assert all(int(height) % 200 == 0 for height in heights)
        assert again.manifest == release.manifest
        assert again.table.equals(release.table)
    with Monitor(database) as monitor:
        assert attack_release(monitor.database, again, trials=20).users == 20_000


def test_a_transform_of_an_api_that_is_not_released_is_refused(database: Path) -> None:
    rounded = {"Screen.width": Transform(round=200)}
    with Monitor(database) as monitor, pytest.raises(UnknownNameError):
        release_users(monitor.database, APIS, ReleaseTerms(k=50, transforms=rounded))


cells = st.lists(st.tuples(*[st.sampled_from("abc")] * 3), min_size=8, max_size=60)


@given(rows=cells, k=st.integers(2, 6))
@settings(deadline=None, max_examples=60)
def test_local_suppression_is_k_anonymous_and_never_worse_than_dropping_apis(
    rows: list[tuple[str, str, str]], k: int
) -> None:
    users = pl.DataFrame(rows, schema=["x", "y", "z"], orient="row")
    try:
        outcome = suppress_cells(users, ["x", "y", "z"], k, budget=0.4)
    except UndecidableError:
        assert drop_apis(users, ["x", "y", "z"], k, budget=0.4) is None
        return
    dropping = drop_apis(users, ["x", "y", "z"], k, budget=0.4)
    assert dropping is None or outcome.lost_cells <= dropping.lost_cells
    assert outcome.withheld <= 0.4 * len(rows)
    assert outcome.table["users"].min() >= k  # type: ignore[operator]
    assert outcome.table["users"].sum() + outcome.withheld == len(rows)
    kept = outcome.table.select(
        pl.sum_horizontal(pl.col("x", "y", "z").is_not_null()) * pl.col("users")
    )
    assert outcome.lost_cells == 3 * len(rows) - int(kept.sum().item())


def test_dropping_apis_loses_as_little_as_any_choice_of_them() -> None:
    rng = np.random.default_rng(4)
    users = pl.DataFrame({f"a{i}": rng.integers(0, 2 + i, 200).astype(str) for i in range(4)})
    best = drop_apis(users, users.columns, 8, budget=0.3)
    assert best is not None
    for mask in range(1, 16):
        chosen = [api for i, api in enumerate(users.columns) if mask >> i & 1]
        sizes = users.group_by(chosen).len()["len"]
        withheld = int(sizes.filter(sizes < 8).sum())
        if withheld <= 60:
            assert best.lost_cells <= 200 * (4 - len(chosen)) + withheld * len(chosen)


@pytest.mark.parametrize("mechanism", ["histogram", "cells"])
def test_every_user_belongs_to_the_row_that_counts_it(database: Path, mechanism: Mechanism) -> None:
    release = released(database, k=20, mechanism=mechanism)
    groups = group_of_users(release, values_of(database, release))
    sizes = np.bincount(groups[groups >= 0], minlength=len(release.table))
    assert sizes.tolist() == release.table["users"].to_list()
    assert min(sizes) >= 20


def test_local_suppression_loses_less_than_dropping_apis_on_the_fixture_logs(
    database: Path,
) -> None:
    manifest = released(database, k=20, mechanism="cells").manifest
    assert manifest.suppressed.cells_share_by_dropping_apis is not None
    assert manifest.suppressed.cells_share < manifest.suppressed.cells_share_by_dropping_apis / 2


@pytest.mark.long
def test_the_hash_attack_succeeds_on_groups_of_low_weight_only(
    database: Path, fixture_law: FixtureDistribution
) -> None:
    limit = 5e-6  # a tenth of one user
    release = released(database, WIDE, k=2, mechanism="cells")
    groups = group_of_users(release, values_of(database, release))
    weights, words = weights_under(fixture_law, release), words_of(database)
    sizes = release.table["users"].to_numpy()
    low = weights / sizes <= limit
    assert 0.03 < low.mean() < 0.5
    exact = expected_group_success(groups, words, weights, weight=limit)
    distinct = np.array([len(np.unique(words[groups == row])) for row in np.flatnonzero(low)])
    as_printed = [
        isolation_baseline(int(size), 1 / size) for size in sizes[low][distinct == sizes[low]]
    ]
    assert exact[low][distinct == sizes[low]] == pytest.approx(as_printed)
    chance = best_baseline(20_000, limit)
    assert min(as_printed) > 1 / math.e > 4 * chance
    assert exact[low].mean() > 1 / math.e * (distinct == sizes[low]).mean()
    result = attack_groups(
        groups, words, weights, weight=limit, trials=4000, rng=np.random.default_rng(6)
    )
    expected = float(exact.mean())
    sigma = math.sqrt(4000 * expected * (1 - expected))
    assert abs(result.successes - 4000 * expected) <= 4 * sigma
    assert result.singles_out


@pytest.mark.long
def test_the_hash_attack_stays_at_the_baseline_on_a_private_histogram(
    database: Path, fixture_law: FixtureDistribution
) -> None:
    dp.enable_features("contrib")
    release = released(database, k=2)
    values = values_of(database, release)
    joined = ["\x1f".join(row) for row in release.table.drop("users").rows()]
    users = ["\x1f".join(cell or "(absent)" for cell in row) for row in values.rows()]
    meter = (
        (dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance())
        >> dp.t.then_count_by_categories(categories=joined)
        >> dp.m.then_laplace(scale=1.0)
    )
    noisy = np.array(meter(users))[: len(joined)]
    shown = np.flatnonzero(noisy >= 50)
    assert len(shown) > 50
    groups = group_of_users(release, values)
    position = np.full(len(joined) + 1, -1)
    position[shown] = np.arange(len(shown))
    weights, limit = weights_under(fixture_law, release)[shown], 5e-6
    result = attack_groups(
        position[groups],
        words_of(database),
        weights,
        weight=limit,
        trials=3000,
        rng=np.random.default_rng(7),
    )
    assert not result.singles_out
    assert result.lower <= dp_bound(20_000, limit, epsilon=meter.map(1))


def test_an_audit_says_what_it_found_in_numbers_and_words(database: Path) -> None:
    with Monitor(database) as monitor:
        release = release_users(monitor.database, APIS, ReleaseTerms(k=50), made=MADE)
        audit = attack_release(monitor.database, release, trials=300, seed=1)
        again = attack_release(monitor.database, release, trials=300, seed=1)
        assert audit == again, "same seed, same answer"
    assert audit.baseline == best_baseline(20_000, audit.weight)
    by_name = {one.distribution: one for one in audit.distributions}
    shares = by_name["the shares of the users of the release"]
    assert shares.verdict == "could not be tested"
    assert not shares.attack.singles_out
    assert all(attack.singles_out for attack in audit.counts), "exact counts compose"
    assert audit.counts[2].success > 0.95, "and nearly always when begun anew"
    assert audit.k_max == release.table["users"].max()
    assert "20,000 users" in audit.in_plain_words
    assert [*shares.predicate_weights.values()] == pytest.approx([1 / 20_000] * 3, rel=0.05)


@pytest.mark.long
def test_the_failure_of_k_anonymity_shows_on_a_release_of_independent_values(
    database: Path, fixture_law: FixtureDistribution
) -> None:
    """Shares of whole records are never below 1/n; of a product or a given law, rows can be."""
    release = released(database, WIDE, k=2, mechanism="cells")
    with Monitor(database) as monitor:
        audit = attack_release(monitor.database, release, trials=1000, seed=1)
    product, shares = audit.distributions
    assert shares.low_weight_share == 0
    assert shares.verdict == "could not be tested"
    assert product.low_weight_share > 0.5
    assert product.attack.success == pytest.approx(product.low_weight_share / math.e, rel=0.5)
    assert product.verdict == "singles out"
    assert audit.worst is product, "the worst is the verdict"
    assert "taken as independent" in audit.in_plain_words
    table = population_under(fixture_law, WIDE).with_columns(fixture_law.rows["weight"])
    by_table = weights_by_table(release, table)
    assert by_table == pytest.approx(np.maximum(weights_under(fixture_law, release), 1e-300))
    with pytest.raises(InputError, match="weight"):
        weights_by_table(release, table.with_columns(pl.lit("nan").alias("weight")))


def test_records_under_pseudonyms_single_out_many_users_at_once(database: Path) -> None:
    """Claim 4.8: each record with enough bits is its own predicate."""
    with Monitor(database) as monitor:
        few, many = (attack_records(monitor.database, apis) for apis in (APIS, WIDE))
        values = read_values(monitor.database, take_snapshot(monitor.database), WIDE, {})
    assert 0 < few.isolated < many.isolated
    alone = values.fill_null("(absent)").group_by(WIDE).len().filter(pl.col("len") == 1)
    assert many.isolated <= len(alone) / len(values)
    assert many.isolated > 10 * many.baseline / len(values)
    with pytest.raises(PolicyError, match="weight"), Monitor(database) as monitor:
        attack_records(monitor.database, APIS, weight=2.0)


def test_audits_take_apis_of_any_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.csv"
    log.write_text(
        "user,len,count,weight,literal\n"
        + "".join(f"u{i},{i % 7},{i % 3},{i % 2},{i % 5}\n" for i in range(400))
    )
    apis = ["--apis", "len,count,weight,literal", "--db", str(tmp_path / "any.duckdb")]
    with Monitor(tmp_path / "any.duckdb", create=True) as monitor:
        monitor.ingest([str(log)], column_map=ColumnMap(apis={"count": "", "weight": ""}))
    least = answer(capsys, "audit", "smallest-k", *apis, "--epsilon", "1", "--delta", "0.1")
    assert set(least) == {"k_estimated", "k_certified"}
    audit = answer(capsys, "audit", "histogram", *apis, "--k", "2", "--epsilon", "1")
    assert audit["values"] == 210
    assert answer(capsys, "audit", "pseudonymous", *apis, "--weight", "0.5")["isolated"] == 0.05
    table = str(tmp_path / "table.parquet")
    answer(capsys, "release", *apis, "--k", "2", "-o", table)
    attack = ("audit", "singling-out", "--release", table, "--trials", "200")
    assert run([*attack, *apis[2:], "--format", "json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["users"], found["verdict"]) == (400, "could not be tested")
    assert run([*attack, *apis[2:], "--distribution", "product"]) == 2
    assert "always among the distributions" in capsys.readouterr().err


def test_other_users_may_weigh_the_predicates(database: Path) -> None:
    with Monitor(database) as monitor, Monitor(database.parent / "2", create=True) as others:
        others.ingest([str(ROOT / "fixtures" / "logs" / "browsers-1.jsonl.gz")])
        release = release_users(monitor.database, APIS, ReleaseTerms(k=50), made=MADE)
        audit = attack_release(monitor.database, release, trials=20, control=others.database)
    shares = next(one for one in audit.distributions if "the shares of" in one.distribution)
    assert shares.predicate_weights["least"] < 0.8 / 20_000
    assert np.all(weights_of_rows(np.array([-1, 0]), 3) > 0)


def test_releases_that_are_none_or_of_other_data_are_refused(
    database: Path, tmp_path: Path
) -> None:
    release = released(database)
    path = tmp_path / "table.parquet"
    with pytest.raises(InputError, match="no readable release"):
        read_release(path)
    write_release(release, path)
    with Monitor(tmp_path / "other", create=True) as other:
        other.ingest([str(ROOT / "fixtures" / "logs" / "browsers-2.csv.gz")])
        with pytest.raises(InputError, match="not made of the data"):
            attack_release(other.database, read_release(path))
    release.table.with_columns(pl.col("users").reverse()).write_parquet(path)
    with Monitor(database) as monitor, pytest.raises(InputError, match="differs"):
        attack_release(monitor.database, read_release(path))
    release.table.head(5).write_parquet(path)  # a crash between the two files leaves this
    with pytest.raises(InputError, match="not the table that its manifest describes"):
        read_release(path)
    release.table.head(0).write_parquet(path)
    with pytest.raises(InputError, match="empty"):
        read_release(path)
    release.table.drop("users").write_parquet(path)
    with pytest.raises(InputError, match="columns"):
        read_release(path)
    manifest_path(path).write_text("{}")
    with pytest.raises(InputError, match="missing required"):
        read_release(path)


@pytest.mark.parametrize("users", [None, -1, 0, 2**62])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_release_of_impossible_numbers_of_users_is_refused(
    users: int | None, ending: str, database: Path, tmp_path: Path
) -> None:
    release, path = released(database), tmp_path / f"table.{ending}"
    write_release(release, path)
    changed = release.table.with_columns(users=pl.lit(users, pl.Int64))
    changed.write_csv(path) if ending == "csv" else changed.write_parquet(path)
    with pytest.raises(InputError, match="holds more than numbers of users"):
        read_release(path)


def test_releases_that_cannot_be_are_refused(database: Path) -> None:
    with pytest.raises(UndecidableError, match="empty"):
        small([("a",), ("b",)])
    with pytest.raises(PolicyError, match="k:"):
        released(database, k=1)
    with pytest.raises(UnknownNameError, match=r"Screen\.height"):
        released(database, ["Screen.heigth"])
    with pytest.raises(InputError, match="at most 10"):
        small([("a",) * 11] * 3, mechanism="cells")
    with pytest.raises(PolicyError, match="budget"):
        small([("a",)] * 3, mechanism="cells", budget=1.5)
    with pytest.raises(UndecidableError, match="above the budget"):
        small([("a",)] * 3 + [("b",)] * 2, k=3, mechanism="cells", budget=0.1)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert run(arguments) == 0
    return json.loads(capsys.readouterr().out)


def test_the_command_line_keeps_its_contract(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = ["--users", "1000", "--probability", "0.001", "--k", "10", "--epsilon", "0.5"]
    deltas = answer(capsys, "audit", "partial-knowledge", *question, "--format", "json")
    assert list(deltas) == [
        *("delta_threshold", "delta_count", "delta_histogram", "delta_active", "delta")
    ]
    expected = value_guarantee(1000, 0.001, k=10, epsilon=0.5)
    assert deltas["delta"] == expected.delta == 2 * deltas["delta_threshold"]
    known = answer(capsys, "audit", "partial-knowledge", *question, "--known", "500")
    assert known["delta_count"] > 0.6 > deltas["delta_count"]
    without = answer(capsys, "audit", "baseline", "--users", "1000", "--weight", "0.001")
    assert without["baseline"] == pytest.approx(0.36806348825922)
    assert without["dp_bound"] is None
    private = answer(
        capsys,
        *("audit", "baseline", "--users", "1000", "--weight", "1e-6"),
        *("--epsilon", "1", "--delta", "1e-9"),
    )
    assert private["dp_bound"] == pytest.approx(1000 * (math.e * 1e-6 + 1e-9))
    curve = answer(capsys, "audit", "curve", *question[:6], "--points", "5")
    assert [list(row) for row in curve] == [["epsilon", "delta"]] * 5
    least = answer(
        capsys, *("audit", "smallest-k", *question[:4]), *("--epsilon", "0.5", "--delta", "1e-6")
    )
    assert least["k"] == 11
    table = str(tmp_path / "table.parquet")
    common = ["--db", str(database)]
    manifest = answer(
        capsys, "release", "--apis", ",".join(APIS), "--k", "50", "-o", table, *common
    )
    assert manifest == json.loads(manifest_path(Path(table)).read_text())
    assert {"policy", "date", "suppressed"} <= set(manifest)
    assert pl.read_parquet(table).columns == [*APIS, "users"]
    attack = ["audit", "singling-out", "--release", table, "--trials", "50", *common]
    code = run([*attack, "--format", "json"])
    audit = json.loads(capsys.readouterr().out)
    assert {"baseline", "distributions", "counts", "k_max", "in_plain_words"} <= set(audit)
    verdicts = {"within chance": 0, "singles out": 1, "could not be tested": 3}
    assert code == verdicts[audit["verdict"]]
    assert run([*attack, "--format", "table"]) == code
    capsys.readouterr()
    for name in ("http://127.0.0.1:9/x.csv", str(tmp_path), table):
        attack = ["audit", "singling-out", "--release", table, "--distribution", name, *common]
        assert run(attack) == 2, "no address is opened, no folder, no table without weights"
        assert "distribution" in capsys.readouterr().err
    records = answer(capsys, "audit", "pseudonymous", "--apis", ",".join(APIS), *common)
    assert {"isolated", "baseline", "distribution"} <= set(records)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["partial-knowledge", "-n", "10", "-p", "2", "--k", "5", "--epsilon", "1"], "probability"),
        (["partial-knowledge", "-n", "10", "-p", ".2", "--k", "1", "--epsilon", "1"], "k:"),
        (["baseline", "-n", "10", "-w", "-1"], "weight"),
        (["baseline", "-n", "10", "-w", ".1", "--delta", ".1"], "epsilon"),
        (["singling-out", "--release", "nowhere.parquet"], "nowhere.parquet"),
    ],
)
def test_bad_input_is_one_line_that_names_it(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["audit", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert named in captured.err


def test_settings_reach_the_commands_of_the_audit(
    database: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_release(released(database), tmp_path / "table.parquet")
    Path("fpmonitor.toml").write_text(
        f'db = "{database.as_posix()}"\n[audit.singling-out]\ntrials = 7\n', encoding="utf-8"
    )
    run(["audit", "singling-out", "--release", "table.parquet", "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    assert found["distributions"][0]["attack"]["trials"] == 7
