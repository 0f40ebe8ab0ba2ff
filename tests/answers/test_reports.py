"""Bounds side by side, price of trust, cohorts, ranking and curve: what they promise and hide."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fpmonitor.answers.curve import curve_of
from fpmonitor.answers.rank import rank_sets
from fpmonitor.answers.sets import sets_up_to
from fpmonitor.answers.trust import price_of_trust
from fpmonitor.cli import run
from fpmonitor.disclosure import Audience, disclosed_spectra
from fpmonitor.errors import InputError, UnknownNameError
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.estimate.looks import Drawing
from fpmonitor.monitor import Monitor
from fpmonitor.population.population import Population
from fpmonitor.population.snapshot import MemorySnapshot
from fpmonitor.question import Question
from fpmonitor.render.answers import curve_output
from fpmonitor.render.figures import of_curve
from fpmonitor.spectrum import CountSpectrum

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

USERS, K = 2000, 10


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users of two large cohorts, one of 30, and two of fewer than k (6 and 7)."""
    folder = tmp_path_factory.mktemp("reports")
    rng = np.random.default_rng(4)
    families = ["large"] * 1200 + ["other"] * 757 + ["small"] * 30 + ["tiny"] * 6 + ["least"] * 7
    colour = rng.choice(5, size=USERS, p=[0.5, 0.3, 0.1, 0.05, 0.05])
    rare = np.where(rng.random(USERS) < 0.05, rng.integers(0, 60, size=USERS), 999)
    depth = colour % 2
    lines = ["user,family,colour,rare,depth"]
    lines += [
        f"u{i},{family},{c},{r},{d}"
        for i, (family, c, r, d) in enumerate(zip(families, colour, rare, depth, strict=True))
    ]
    log = folder / "log.csv"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    database = folder / "logs.duckdb"
    with Monitor(database, create=True) as monitor:
        monitor.ingest([str(log)])
    return database


@pytest.fixture
def monitor(path: Path) -> Iterator[Monitor]:
    with Monitor(path) as monitor:
        yield monitor


def spectrum_of(monitor: Monitor, api: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    told = monitor.population().sample(Question(K), [[api]]).disclosed([api]).most
    return told.counts, told.counts * told.values


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert run(arguments) == 0
    return capsys.readouterr().out


def test_bounds_stand_side_by_side_and_say_why_they_are_vacuous(monitor: Monitor) -> None:
    [report] = monitor.exposure([["colour", "rare"]], k=K, bounds=True)
    content = report.to_json()
    names = [line["bound"] for line in content["bounds"]]
    assert names == ["certificate", "theorem 8", "theorem 5", "proposition 9", "proposition 9"]
    for line in content["bounds"]:
        assert line["width"] == line["upper"] - line["lower"]
        assert bool(line["reason"]) == (line["width"] == 1)
    assert content["bounds"][0]["upper"] == content["upper"]
    assert content["theorem6_floor"] == 1 / 32


def test_the_entropy_reading_is_held_against_the_groups_of_the_worst_users(
    monitor: Monitor, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of the users are in groups of 3,000 while the worst 1 % are nearly alone."""
    [report] = monitor.exposure([["rare"]], k=K)
    sizes = np.sort(np.repeat(*spectrum_of(monitor, "rare")))
    share = sizes / USERS
    naive = USERS / 2 ** -np.mean(np.log2(share))
    for place, member in ((0.5, ""), (0.05, "_worst_5"), (0.01, "_worst_1")):
        factor = naive / sizes[int(place * USERS)]
        assert report.to_json()[f"misleading_factor{member}"] == pytest.approx(factor)
        [line] = monitor.rank([["rare"]], k=K).rows()
        assert line[f"misleading_factor{member}"] == pytest.approx(factor)
    assert report.misleading_factor < 1
    assert report.misleading_factor_worst_1 > 100
    for command in (["exposure", "--entropies"], ["exposure", "--rank"]):
        shown = printed(
            capsys, *command, "--apis=rare", "--k=10", "--db", str(path), "--format=table"
        )
        assert f"{report.misleading_factor_worst_1:,.0f}×" in shown


def test_a_declared_support_sharpens_the_bounds_of_the_paper(monitor: Monitor) -> None:
    without, declared = (
        monitor.exposure([["colour"]], k=K, bounds=True, supports=supports)[0].to_json()
        for supports in ((), (5,))
    )
    assert without["paper"]["theorem8"] == [0, 1]
    assert declared["paper"]["theorem8"][1] < 0.5
    assert declared["bounds"][1]["upper"] == declared["paper"]["theorem8"][1]
    assert declared["support"] == 5


def test_supports_that_do_not_fit_are_refused(monitor: Monitor) -> None:
    with pytest.raises(InputError, match="support: 4 is smaller"):
        monitor.exposure([["colour"]], k=K, supports=[4])
    with pytest.raises(InputError, match="supports: 2 given for 1 sets"):
        monitor.exposure([["colour"]], k=K, supports=[5, 5])


def test_less_knowledge_never_promises_more_about_the_observed_users(monitor: Monitor) -> None:
    [report] = monitor.exposure([["colour", "depth", "rare"]], k=K, trust="joint")
    levels = report.to_json()["trust"]
    assert [level["knowledge"] for level in levels] == ["marginals", "pairs", "joint"]
    observed = [level["observed_upper"] for level in levels]
    assert observed[0] >= observed[1] >= observed[2] == report.empirical
    assert levels[0]["entropy_upper_bits"] >= levels[1]["entropy_upper_bits"]
    assert levels[1]["entropy_upper_bits"] >= report.entropy_bits - 1e-9
    assert levels[2]["upper"] == report.upper
    assert all(level["upper"] >= report.empirical / 2 for level in levels)


def test_marginals_promise_what_the_curator_of_a_study_promises(monitor: Monitor) -> None:
    """Exposed joint values have at most k - 1 users: top-r pays (k - 1) / m for each, not k / m."""
    [report] = monitor.exposure([["colour", "depth"]], k=K, trust="marginals")
    sample = monitor.population().sample(Question(K), [["colour"], ["depth"]])
    tails = []
    for api in ("colour", "depth"):
        told = sample.disclosed([api]).most
        counts = np.sort(np.repeat(told.counts, told.values))[::-1]
        tails.append(1 - np.cumsum(counts) / USERS)
    least = min(
        first + second + (K - 1) / USERS * (i + 1) * (j + 1)
        for i, first in enumerate(tails[0])
        for j, second in enumerate(tails[1])
    )
    assert report.trust[0].observed_rule == "top-r"
    assert report.trust[0].observed_upper == pytest.approx(least, rel=1e-8)


def test_k_users_who_are_all_alike_are_safe() -> None:
    for users, upper in ((10, 0.0), (9, 1.0)):
        alike = population_of(dict.fromkeys("ab", np.zeros(users, dtype=np.int64)))
        sample = alike.sample(Question(10, 1_000), [["a", "b"]])
        [level] = price_of_trust(sample, ("a", "b"), "marginals")
        assert level.observed_upper == upper


def test_trust_ends_at_the_level_that_is_asked_for(monitor: Monitor) -> None:
    [report] = monitor.exposure([["colour", "rare", "depth"]], k=K, trust="marginals")
    assert [level.knowledge for level in report.trust] == ["marginals"]


def test_a_single_api_and_a_pair_need_no_more_knowledge(monitor: Monitor) -> None:
    single, pair = monitor.exposure([["rare"], ["colour", "rare"]], k=K, trust="pairs")
    assert [level.rule for level in single.trust] == ["certificate", "certificate"]
    assert pair.trust[0].rule != "certificate"
    assert pair.trust[1].rule == "certificate"


def test_the_promise_of_the_marginals_is_the_same_each_time(monitor: Monitor) -> None:
    first, second = (
        monitor.exposure([["colour", "rare"]], k=K, trust="marginals")[0].trust for _ in range(2)
    )
    assert first == second


def test_cohorts_of_fewer_than_k_users_are_pooled(monitor: Monitor) -> None:
    [report] = monitor.exposure([["colour"]], k=K, given=["family"])
    content = report.to_json()
    users = {cohort["given"]["family"]: cohort["users"] for cohort in content["cohorts"]}
    assert users == {"large": 1200, "other": 757, "small": 30}
    assert content["others"] == {"cohorts": 2, "users": 13, "empirical": 1.0}
    assert content["worst"] == content["cohorts"][0]
    assert sum(users.values()) + content["others"]["users"] == content["users"]


def test_pooled_users_cannot_be_counted_by_subtraction(monitor: Monitor) -> None:
    [report] = monitor.exposure([["colour"]], k=7, given=["family"])
    content = report.to_json()
    assert content["others"]["users"] == 13, "6 users alone would be told by the sum of the others"
    assert min(cohort["users"] for cohort in content["cohorts"]) >= 7


def test_cohorts_mix_to_the_exposure_of_both_sets_together(monitor: Monitor) -> None:
    [report] = monitor.exposure([["colour", "rare"]], k=K, given=["family"])
    [together] = monitor.exposure([["colour", "family", "rare"]], k=K)
    assert (report.lower, report.upper) == (together.lower, together.upper)
    assert report.empirical == together.empirical
    assert report.cohorts is not None
    assert report.cohorts.others is not None
    parts = [*report.cohorts.cohorts, report.cohorts.others]
    exposed = sum(part.users * (part.empirical or 0) for part in parts)
    assert exposed == pytest.approx(report.empirical * report.users)
    for cohort in report.cohorts.cohorts:
        assert cohort.empirical is not None
        assert cohort.lower <= cohort.empirical <= cohort.upper
        assert cohort.estimate == pytest.approx(cohort.empirical), "n = m"


def test_an_api_that_follows_from_the_cohort_adds_nothing(monitor: Monitor) -> None:
    [report] = monitor.exposure([["depth"]], k=K, given=["colour"])
    assert report.cohorts is not None
    assert report.cohorts.conditional_entropy_bits == pytest.approx(0, abs=1e-12)
    assert report.cohorts.average_min_entropy_bits == pytest.approx(0, abs=1e-12)
    assert all(cohort.empirical == 0 for cohort in report.cohorts.cohorts)


def test_several_given_apis_make_finer_cohorts(monitor: Monitor) -> None:
    [report] = monitor.exposure([["rare"]], k=K, given=["family", "depth"])
    assert report.cohorts is not None
    assert all(list(cohort.given) == ["family", "depth"] for cohort in report.cohorts.cohorts)
    assert len({tuple(cohort.given.values()) for cohort in report.cohorts.cohorts}) == 6


def test_an_unknown_given_api_is_named(monitor: Monitor) -> None:
    with pytest.raises(UnknownNameError, match="famly"):
        monitor.exposure([["rare"]], k=K, given=["famly"])


def population_of(columns: dict[str, NDArray[np.int64]]) -> Population:
    """Users whose codes are given."""
    codes = {api: column.astype(np.uint32) for api, column in columns.items()}
    return Population(MemorySnapshot(columns=codes, texts=lambda _api: {}))


def test_ranking_shows_where_entropy_and_exposure_disagree() -> None:
    # Many middle-sized groups: 8 bits and nobody exposed. A few loners: 0.2 bits, all exposed.
    spread = np.arange(25_600) % 256
    loners = np.where(np.arange(25_600) < 100, np.arange(25_600) + 1, 0)
    constant = np.zeros(25_600, dtype=np.int64)
    users = population_of({"spread": spread, "loners": loners, "constant": constant})
    ranking = rank_sets(users, Question(10), [["spread"], ["loners"], ["constant"]])
    assert [line.apis for line in ranking.sets] == [("loners",), ("constant",), ("spread",)]
    places = {
        line.apis[0]: (line.place_by_entropy, line.place_by_exposure, line.places_apart)
        for line in ranking.sets
    }
    assert places == {"loners": (2, 1, 1), "spread": (1, 2, -1), "constant": (3, 2, 1)}
    assert (ranking.pairs, ranking.disagreeing_pairs) == (2, 1)
    assert ranking.basis == "unbiased"


def test_ranking_for_a_population_above_the_users_uses_the_upper_limit(monitor: Monitor) -> None:
    ranking = monitor.rank([["rare"], ["colour"]], k=K, population=100 * USERS)
    assert ranking.basis == "upper"
    reports = monitor.exposure([["rare"], ["colour"]], k=K, population=100 * USERS)
    limits = {report.apis: report.upper for report in reports}
    users = monitor.population()
    together = exposure_limits(
        users=ranking.users,
        k=K,
        population=100 * USERS,
        delta=0.05,
        universe=1000,
        drawing=Drawing(look=users.look, first=users.first_of(["rare", "colour"])),
    )
    for line in ranking.sets:
        assert line.exposure == together.of(monitor.population().spectrum(line.apis))[1]
        assert line.exposure > limits[line.apis], "the choice after looking is paid for"


@pytest.mark.long
def test_the_share_of_one_population_has_limits_of_its_own(
    path: Path, monitor: Monitor, capsys: pytest.CaptureFixture[str]
) -> None:
    [plain] = monitor.exposure([["rare"]], k=K, population=500)
    asked = ("exposure", "--apis", "rare", "--k", str(K), "--population", "500", "--db", str(path))
    [told] = json.loads(printed(capsys, *asked, "--realised"))
    assert (told["lower"], told["upper"]) == (plain.lower, plain.upper)
    assert told["realised_lower"] < plain.lower
    assert told["realised_upper"] > plain.upper
    assert {told[f"realised_{side}"] * 500 % 1 for side in ("lower", "upper")} == {0}
    assert "realised_lower" not in plain.to_json()
    table = printed(capsys, *asked, "--realised", "--format", "table")
    assert "one population of 500" in " ".join(table.split())
    assert "which varies about the average" in " ".join(table.split())


def test_asking_again_and_asking_a_little_otherwise_tell_the_same(monitor: Monitor) -> None:
    """A draw by a seed of the question gave other limits for another tenth digit of delta."""
    limits = {
        (report.lower, report.upper)
        for delta in (0.05, 0.05 + 1e-10)
        for [report] in [monitor.exposure([["rare"]], k=K, delta=delta)]
    }
    lowers, uppers = zip(*limits, strict=True)
    assert max(lowers) - min(lowers) < 1e-6
    assert max(uppers) - min(uppers) < 1e-6


def test_ranking_takes_all_sets_up_to_a_size(monitor: Monitor) -> None:
    ranking = monitor.rank(size=2, candidates=["rare", "colour", "depth"], k=K)
    assert len(ranking.sets) == 6
    assert len(monitor.rank(k=K).sets) == 4
    assert len(monitor.rank(size=10**18, k=K).sets) == 15


def test_more_sets_than_a_day_has_time_for_are_not_ranked() -> None:
    names = [str(place) for place in range(4_000)]
    with pytest.raises(InputError, match="more than 1,000,000 sets of up to 2"):
        sets_up_to(2, names)
    with pytest.raises(InputError, match="of up to 10"):
        sets_up_to(10, names[:100])


def test_curve_hides_thresholds_below_k(monitor: Monitor) -> None:
    curve = monitor.curve(["rare"], k=K)
    thresholds = [point.threshold for point in curve.points]
    assert thresholds[0] == K
    assert thresholds == sorted(set(thresholds))
    assert curve.points[0].empirical == monitor.exposure([["rare"]], k=K)[0].empirical
    assert curve.points[-1].empirical == 1
    shown = monitor.curve(["rare"], k=K, show_counts_below_k=True)
    assert shown.points[0].threshold < K
    assert shown.points[-len(thresholds) :] == curve.points


def test_a_long_curve_is_shown_to_its_last_point() -> None:
    """Of more steps than fit some are left out: where the curve ends, all users are exposed."""
    for steps in (*range(28, 70), 299, 302, 641):
        spectrum = CountSpectrum.from_counts(range(K, K + steps))
        curve = curve_of(("a",), disclosed_spectra(spectrum, K, Audience.OWNER), Question(K))
        last = curve.points[-1].threshold
        [on_screen], figure = curve_output(curve).tables, of_curve(curve)
        for table, most in ((on_screen, 30), (figure.table, 40)):
            thresholds = [row[0] for row in table.rows]
            assert (thresholds[0], thresholds[-1]) == (K, last)
            assert thresholds == sorted({*thresholds})
            assert min(most // 2, steps) <= len(thresholds) <= most


def test_curve_lies_in_its_band_and_all_three_rise(monitor: Monitor) -> None:
    points = monitor.curve(["colour"], k=2).points
    for name in ("empirical", "lower", "upper"):
        assert np.all(np.diff([getattr(point, name) for point in points]) >= 0)
    assert all(point.lower <= point.empirical <= point.upper for point in points)


@pytest.mark.parametrize(
    ("option", "columns"),
    [
        ("--bounds", ["apis", "bound", "concerns", "lower", "upper", "width", "reason"]),
        ("--trust=pairs", ["apis", "knowledge", "upper", "rule", "observed_upper"]),
        ("--entropies", ["apis", "measure", "estimator", "value", "unit"]),
        ("--given=family", ["apis", "given.family", "users", "share", "empirical", "estimate"]),
    ],
)
def test_csv_holds_the_lines_of_the_detail(
    path: Path, option: str, columns: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("exposure", "--apis", "colour,rare", "--k", "10", "--db", str(path), option)
    rows = list(csv.DictReader(io.StringIO(printed(capsys, *arguments, "--format", "csv"))))
    assert list(rows[0])[: len(columns)] == columns
    assert len(rows) > 1
    assert {row["apis"] for row in rows} == {"colour,rare"}
    assert "colour, rare" in printed(capsys, *arguments, "--format", "table")


def test_csv_of_two_details_is_refused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["exposure", "--apis", "colour", "--bounds", "--entropies", "--format", "csv"]
    assert run([*arguments, "--db", str(path)]) == 2
    assert "--bounds, --entropies" in capsys.readouterr().err


def test_rank_reads_sets_from_a_file(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = tmp_path / "sets.txt"
    sets.write_text("# two sets\nrare,colour\n\ndepth\n", encoding="utf-8")
    arguments = ("exposure", "--rank", "--sets", str(sets), "--db", str(path))
    content: dict[str, Any] = json.loads(printed(capsys, *arguments))
    assert [line["apis"] for line in content["sets"]] == [["colour", "rare"], ["depth"]]
    assert content["pairs"] >= content["disagreeing_pairs"] == 0
    sets.write_text("# none\n", encoding="utf-8")
    assert run(list(arguments)) == 2
    assert run(["exposure", "--rank", "--sets", str(tmp_path / "no"), "--db", str(path)]) == 2


@pytest.mark.parametrize("output_format", ["table", "csv", "json"])
def test_curve_and_rank_print_every_format(
    path: Path, output_format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ("--db", str(path), "--format", output_format)
    assert "rare" in printed(capsys, "exposure", "--rank", "--size", "2", *common)
    assert "upper" in printed(capsys, "exposure", "--curve", "--apis", "rare", *common)


@pytest.mark.parametrize("users", [2, 3, 6])
def test_a_handful_of_users_is_answered_with_limits_that_say_little(
    tmp_path: Path, users: int
) -> None:
    log = tmp_path / "few.csv"
    log.write_text("user,a,b\n" + "".join(f"u{i},x,{i}\n" for i in range(users)))
    with Monitor(tmp_path / "few.duckdb", create=True) as monitor:
        monitor.ingest([str(log)])
        for delta in (0.05, 0.1, 0.3):
            reports = monitor.exposure(
                [["a"], ["b"]], k=2, population=1000, delta=delta, given=["a"], bounds=True
            )
            assert [report.empirical for report in reports] == [0.0, 1.0]
            assert all(report.lower <= report.upper for report in reports)
