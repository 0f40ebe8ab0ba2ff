"""Command line of local differential privacy: members, refusals, files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from fpmonitor.cli import run
from fpmonitor.estimate.exposure import exposure_probability
from fpmonitor.ldp.exposure import ApiReports, randomised_limits
from fpmonitor.ldp.matrix_file import read_matrix
from fpmonitor.ldp.mechanisms import LocalHash, basic_rappor
from fpmonitor.ldp.planner import PROTOCOLS
from tests.asked import answer_of

MEMBERS = [
    *("ldp", "average_privacy", "worst_case_privacy", "asymptotic_utility", "participation"),
    *("participation_bound", "participation_bound_any_prior"),
    *("entropy_given_p", "rank", "classes", "distribution_utility_limit", "tally_utility_limit"),
    *("distribution_utility", "tally_utility", "digit_utility"),
]
GRR = ["--mechanism", "grr", "--values", "3", "--epsilon", "1"]


def metrics(
    capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0
) -> dict[str, float | None]:
    return dict(answer_of(capsys, "ldp", "metrics", *arguments, code=code))


def test_metrics_print_exactly_the_promised_members(capsys: pytest.CaptureFixture[str]) -> None:
    found = metrics(capsys, *GRR)
    assert list(found) == MEMBERS
    assert found["average_privacy"] == pytest.approx(0.8916329007274006, abs=1e-9)
    assert found["asymptotic_utility"] == pytest.approx(-1.567218685364348, abs=1e-9)
    assert found["entropy_given_p"] == pytest.approx(2 / 3)
    assert [found[name] for name in MEMBERS[-3:]] == [None, None, None]


def test_metrics_for_users_are_exact_for_few(capsys: pytest.CaptureFixture[str]) -> None:
    found = metrics(capsys, *GRR, "--users", "2")
    assert found["distribution_utility"] == pytest.approx(0.13879012931515405, abs=1e-9)
    assert found["tally_utility"] == pytest.approx(0.10135594418916878, abs=1e-9)
    assert found["digit_utility"] == pytest.approx(0.630717070236571, abs=1e-9)


@pytest.mark.parametrize("name", ["grr", "rappor", "oue", "blh", "lh"])
def test_every_mechanism_and_prior_has_metrics(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--mechanism", name, "--values", "3", "--epsilon", "1.5"]
    found = metrics(capsys, *arguments, "--prior", "dirichlet:2,2,2")
    assert found["ldp"] == pytest.approx(1.5)
    assert found["worst_case_privacy"] == pytest.approx(math.exp(-1.5))


def test_local_hashing_takes_a_hash_range(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--mechanism", "lh", "--values", "4", "--epsilon", "2", "--hash-range", "3"]
    assert metrics(capsys, *arguments)["average_privacy"] == pytest.approx(0.7671996040185205)


def test_a_matrix_is_read_with_reports_as_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "matrix.csv"
    path.write_text("0.5,0.1,0.2\n0.3,0.6,0.1\n0.2,0.2,0.4\n0,0.1,0.3\n")
    found = metrics(capsys, "--mechanism", str(path), "--prior", "dirichlet:1,2,0.5")
    assert found["average_privacy"] == pytest.approx(0.8223660582029575, abs=1e-9)
    assert found["ldp"] is None  # infinite
    assert found["worst_case_privacy"] == 0


@pytest.mark.long
def test_utilities_of_a_matrix_with_classes_tend_to_their_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Remark 7.9: value 0 is told apart from the others; exact figures by enumeration."""
    path = tmp_path / "classes.csv"
    path.write_text(f"1,0,0\n0,{2 / 3},{1 / 3}\n0,{1 / 3},{2 / 3}\n")
    arguments = ("--mechanism", str(path), "--prior", "dirichlet:1,1,1", "--quiet", "--users")
    for users, tally_utility in ((60, 0.584110), (300, 0.611)):
        found = metrics(capsys, *arguments, str(users))
        assert found["tally_utility"] == pytest.approx(tally_utility, abs=0.012)
    assert (found["rank"], found["classes"]) == (3, 2)
    assert found["distribution_utility_limit"] == 1
    assert found["tally_utility_limit"] == 0.75
    path.write_text("1,0,0\n0,1,1\n")
    found = metrics(capsys, "--mechanism", str(path))
    assert (found["rank"], found["classes"]) == (2, 2)
    assert (found["distribution_utility_limit"], found["tally_utility_limit"]) == (0.5, 0.5)


def test_a_mechanism_that_merges_values_has_no_asymptotic_utility(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "merge.csv"
    path.write_text("0.7,0.7,0.2\n0.3,0.3,0.8\n")
    found = metrics(capsys, "--mechanism", str(path))
    assert found["asymptotic_utility"] is None
    assert found["participation"] == 0


def test_monte_carlo_states_its_error_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--mechanism", "oue", "--values", "6", "--epsilon", "1", "--format", "json"]
    assert run(["ldp", "metrics", *arguments]) == 0
    assert "standard error" in capsys.readouterr().err
    assert run(["ldp", "metrics", *arguments, "--users", "50", "--values", "40"]) == 0
    printed = capsys.readouterr()
    assert "no utilities for this number of users" in printed.err
    assert json.loads(printed.out)["digit_utility"] is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--mechanism", "grr", "--values", "3", "--epsilon", "0"], "epsilon"),
        (["--mechanism", "grr", "--values", "3"], "epsilon"),
        (["--mechanism", "grr", "--epsilon", "1"], "values"),
        (["--mechanism", "grr", "--values", "1", "--epsilon", "1"], "values"),
        (["--mechanism", "gr", "--values", "3", "--epsilon", "1"], "nearest: grr"),
        ([*GRR, "--prior", "dirichlet:1,2"], "prior"),
        ([*GRR, "--prior", "dirichlet:1,2,x"], "prior"),
        ([*GRR, "--prior", "uniform"], "prior"),
        ([*GRR, "--prior", "dirichlet:1,2,-1"], "prior"),
        ([*GRR, "--users", "0"], "users"),
        ([*GRR, "--hash-range", "3"], "hash-range"),
        (["--mechanism", "missing.csv"], "missing.csv"),
    ],
)
def test_wrong_options_end_with_one_line_and_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ldp", "metrics", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("fpmonitor: error: ")
    assert words in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("content", ["0.5,0.5\n0.4,0.5\n", "a,b\n", "1,0\n0\n", ""])
def test_a_file_that_is_no_mechanism_is_refused(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "matrix.csv"
    path.write_text(content)
    assert run(["ldp", "metrics", "--mechanism", str(path)]) == 2
    assert "matrix" in capsys.readouterr().err


def test_compare_lists_the_protocols_and_draws_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chart = tmp_path / "chart.svg"
    arguments = ["--values", "3", "--users", "1000", "--privacy", "0.7", "--format", "json"]
    assert run(["ldp", "compare", *arguments, "--plot", str(chart)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["mechanism"] for row in rows] == ["grr", "rappor", "oue", "blh", "lh"]
    assert [row["average_privacy"] for row in rows] == pytest.approx([0.7] * 5, abs=1e-6)
    drawn = ElementTree.parse(chart).getroot()
    assert len(drawn.findall(".//{http://www.w3.org/2000/svg}polyline")) == 5


def test_compare_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ldp", "compare", "--values", "3", "--users", "10", "--format", "table"]) == 0
    printed = capsys.readouterr().out
    assert "rappor" in printed
    assert "equivalent" in printed
    assert "…" not in printed, "no heading is cut"


def test_plan_picks_a_mechanism_for_each_api(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, db = tmp_path / "log.csv", str(tmp_path / "log.duckdb")
    heights = ["1080"] * 600 + ["900"] * 250 + ["768"] * 100 + ["720"] * 50
    lines = [f"u{number},{height},de" for number, height in enumerate(heights)]
    log.write_text("\n".join(["user,Screen.height,Navigator.language", *lines]) + "\n")
    assert run(["ingest", str(log), "--db", db, "--quiet"]) == 0
    capsys.readouterr()
    policy = ["--k", "50", "--population", "1000", "--users", "50000", "--accuracy", "0.03"]
    assert run(["ldp", "plan", "--db", db, *policy, "--format", "json"]) == 0
    rows = {row["api"]: row for row in json.loads(capsys.readouterr().out)}
    height = rows["Screen.height"]
    assert list(height) == [
        *("api", "values", "mechanism", "epsilon", "hash_range"),
        *("average_privacy", "accuracy", "participation", "best_participation"),
    ]
    assert 0 < height["participation"] <= height["best_participation"] * (1 + 1e-3)
    assert height["values"] == 4
    assert height["mechanism"] in {"grr", "rappor", "oue", "blh", "lh"}
    assert height["accuracy"] <= 0.03
    assert rows["Navigator.language"]["mechanism"] is None  # one value: nothing to randomise
    policy = ["--k", "50", "--population", "10000", "--accuracy", "0.03"]
    assert run(["ldp", "plan", "--db", db, *policy, "--candidates", "Screen.height"]) == 0
    assert "any epsilon will do" in capsys.readouterr().err
    assert run(["ldp", "plan", "--db", db, "--accuracy", "2"]) == 2
    assert "accuracy" in capsys.readouterr().err


def test_plan_says_how_many_users_prove_an_api_within_a_budget(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So many users do, simulated; a quarter of them does not; few values need no answers."""
    log, db = tmp_path / "log.csv", str(tmp_path / "log.duckdb")
    shares = np.array([0.4, 0.3, 0.15, 0.1, 0.049, 0.001])
    heights = np.repeat(np.arange(6), (1000 * shares).astype(int))
    lines = [f"u{number},{height},{number % 2}" for number, height in enumerate(heights)]
    log.write_text("\n".join(["user,Screen.height,Navigator.doNotTrack", *lines]) + "\n")
    assert run(["ingest", str(log), "--db", db, "--quiet"]) == 0
    question = ["--k", "50", "--population", "1000", "--db", db, "--format", "json"]
    capsys.readouterr()
    assert run(["ldp", "plan", *question, "--epsilon", "2", "--budget", "15%"]) == 0
    rows = {row["api"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["Navigator.doNotTrack"]["users"] == 0
    assert rows["Navigator.doNotTrack"]["mechanism"] is None
    height = rows["Screen.height"]
    mechanism = (LocalHash if height["mechanism"] == "lh" else PROTOCOLS[height["mechanism"]])(6, 2)
    rng = np.random.default_rng(5)

    def upper(users: int) -> float:
        counts = mechanism.support_counts(mechanism.sample(rng.choice(6, users, p=shares), rng))
        reports = ApiReports(mechanism=mechanism, support_counts=counts, users=users)
        return randomised_limits(*reports.limits(0.05), k=50, population=1000)[1]

    assert np.median([upper(height["users"]) for _ in range(9)]) < 0.17
    assert np.median([upper(height["users"] // 4) for _ in range(9)]) > 0.17
    # Six values expose less than 26 % on average, though 29.4 % in one population.
    assert run(["ldp", "plan", *question, "--epsilon", "2", "--budget", "26%"]) == 0
    rows = {row["api"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["Screen.height"]["mechanism"], rows["Screen.height"]["users"]) == (None, 0)
    worst = max(
        exposure_probability(np.array([share]), k=50, population=1000)[0] * min(6 * share, 1)
        for share in np.linspace(1e-3, 0.2, 400)
    )
    assert worst <= 0.26
    assert run(["ldp", "plan", *question, "--accuracy", "0.1", "--budget", "15%"]) == 2
    assert "needs --epsilon" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize(
    ("epsilon", "chosen", "protocol"), [(0.5, "matrix", "oue"), (2.0, "grr", "grr")]
)
def test_plan_at_an_epsilon_chooses_what_tells_most(
    epsilon: float,
    chosen: str,
    protocol: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log, db = tmp_path / "log.csv", str(tmp_path / "log.duckdb")
    lines = [f"u{number},{number % 8},{number % 12}" for number in range(600)]
    log.write_text("\n".join(["user,Screen.height,Screen.width", *lines]) + "\n")
    assert run(["ingest", str(log), "--db", db, "--quiet"]) == 0
    capsys.readouterr()
    level = ["--epsilon", str(epsilon)]
    assert run(["ldp", "plan", "--db", db, *level, "--format", "json"]) == 0
    rows = {row["api"]: row for row in json.loads(capsys.readouterr().out)}
    assert run(["ldp", "compare", "--values", "8", "--users", "1", *level]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert run(["ldp", "optimal", "--values", "8", *level, "--format", "json"]) == 0
    best = json.loads(capsys.readouterr().out)["mechanisms"][0]
    height = rows["Screen.height"]
    assert (height["mechanism"], height["epsilon"], height["accuracy"]) == (chosen, epsilon, None)
    assert height["participation"] >= max(row["participation"] for row in compared) * (1 - 1e-9)
    assert height["participation"] == pytest.approx(best["participation"], rel=1e-3)
    assert rows["Screen.width"]["mechanism"] == protocol  # 12 values: no best matrix
    assert run(["ldp", "plan", "--db", db, *level, "--accuracy", "0.1"]) == 2
    assert run(["ldp", "plan", "--db", db]) == 2


def test_settings_may_hold_a_table_for_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fpmonitor.toml").write_text('[ldp.metrics]\nprior = "dirichlet:2,2,2"\n')
    found = metrics(capsys, *GRR)
    assert found["entropy_given_p"] == pytest.approx(0.95)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, float]]:
    return list(answer_of(capsys, "ldp", "reports", *arguments))


def test_reports_from_elsewhere_tell_shares_limits_and_the_posterior(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(3)
    shares = np.array([0.6, 0.3, 0.1])
    codes = rng.choice(3, size=5000, p=shares)
    path, matrix = tmp_path / "reports.csv", tmp_path / "matrix.csv"
    matrix.write_text("0.7,0.1,0.2\n0.2,0.8,0.2\n0.1,0.1,0.6\n")
    by_matrix = read_matrix(matrix)[0].sample(codes, rng)
    path.write_text("report\n" + "".join(f"{report}\n" for report in by_matrix))
    once = told(capsys, str(path), "--mechanism", str(matrix))
    path.write_text("".join(f"{y},{n}\n" for y, n in enumerate(np.bincount(by_matrix))))
    assert told(capsys, str(path), "--mechanism", str(matrix)) == once
    bits = basic_rappor(3, 2.0).sample(codes, rng)
    path.write_text("".join("".join("01"[bit] for bit in row) + "\n" for row in bits.astype(int)))
    rappor = told(capsys, str(path), "--mechanism", "rappor", "--values", "3", "--epsilon", "2")
    for rows in (once, rappor):
        for row, share in zip(rows, shares, strict=True):
            assert abs(row["estimate"] - share) < 4 * row["standard_error"]
            assert row["lower"] < share < row["upper"]
            assert abs(row["posterior_mean"] - row["estimate"]) < 2 * row["standard_error"]
            assert row["posterior_lower"] < row["posterior_mean"] < row["posterior_upper"]


@pytest.mark.parametrize("text", ["3\n", "-1\n", "x\n", "1,2,3\n", "1,-2\n", "", "0,0\n", "1.5\n"])
def test_lines_that_are_no_reports_are_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "reports.csv"
    path.write_text(text)
    assert run(["ldp", "reports", str(path), *GRR]) == 2
    assert "reports" in capsys.readouterr().err


def test_a_prior_may_be_a_file_of_hypotheses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "two.csv"
    path.write_text("0.5,0.2,0.3,0.5\n0.5,0.6,0.2,0.2\n")
    found = metrics(capsys, *GRR, "--prior", str(path), "--users", "5")
    assert 0 < (found["average_privacy"] or 0) < 1
    assert 0 < (found["distribution_utility"] or 0) < 1
    assert found["participation"] is None
    path.write_text("0.5,0.2,0.3,0.5\n0.4,0.6,0.2,0.2\n")
    assert run(["ldp", "metrics", *GRR, "--prior", str(path)]) == 2
    assert "sum to 1" in capsys.readouterr().err


@pytest.mark.long
def test_the_best_matrix_at_an_average_privacy(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["ldp", "optimal", "--values", "3", "--privacy", "0.8", "--users", "10"]
    assert run([*asked, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["mechanisms"]
    protocols = {"grr", "rappor", "oue", "blh"}
    assert {row["mechanism"] for row in rows} == {"best", "many users"} | protocols
    best, of_many = rows[:2]
    assert all(row["average_privacy"] == pytest.approx(0.8, abs=1e-3) for row in rows)
    assert all(of_many["participation"] >= row["participation"] for row in rows[2:])
    utilities = [row["distribution_utility"] for row in rows]
    assert best["distribution_utility"] == max(utilities)
    assert max(utilities[1:]) < best["distribution_utility"] - 0.005
    two = ["ldp", "optimal", "--values", "2", "--privacy", "0.8", "--users", "400"]
    assert run([*two, "--format", "json"]) == 0
    told = capsys.readouterr()
    assert "best: for many users" in told.err
    assert json.loads(told.out)["mechanisms"][0]["mechanism"] == "best"
    assert run([*asked, "--epsilon", "1"]) == 2


def test_a_comparison_says_what_the_best_promises_least(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["ldp", "compare", "--values", "12", "--users", "100000"]
    assert run([*asked, "--privacy", "0.8"]) == 0
    assert "grr is the most informative here, with epsilon 2.19" in capsys.readouterr().err
    assert run([*asked, "--epsilon", "1"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.long
def test_sets_are_compared_at_equal_epsilon_and_asked_for_as_a_matrix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terms = ["--users", "1000", "--epsilon", "1", "--format", "json"]
    assert run(["ldp", "compare", "--values", "40", *terms]) == 0
    rows = {row["mechanism"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == ["grr", "rappor", "oue", "blh", "lh", "ss", "hr"]
    assert rows["ss"]["frequency_error"] < min(
        rows[name]["frequency_error"] for name in ("grr", "oue")
    )
    assert rows["ss"]["participation"] is None, "too many sets to add up"
    assert 0 < rows["ss"]["average_privacy"] < rows["grr"]["average_privacy"]
    for name in ("ss", "hr"):
        file = tmp_path / f"{name}.csv"
        made = ["--values", "6", "--epsilon", "1", "--matrix", str(file), "--format", "json"]
        assert run(["ldp", "metrics", "--mechanism", name, *made]) == 0
        own = json.loads(capsys.readouterr().out)
        assert own["ldp"] == pytest.approx(1)
        assert run(["ldp", "metrics", "--mechanism", str(file), "--format", "json"]) == 0
        of_file = json.loads(capsys.readouterr().out)
        assert of_file["average_privacy"] == pytest.approx(own["average_privacy"])
    assert run(["ldp", "metrics", "--mechanism", "ss", "--values", "100000", "--epsilon", "1"]) == 2
    assert "100,000 values is too large" in capsys.readouterr().err
    assert run(["ldp", "compare", "--values", "100000", *terms]) == 2
    assert run(["ldp", "compare", "--values", "1", *terms]) == 2
    assert "values" in capsys.readouterr().err
