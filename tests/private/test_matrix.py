"""Any stochastic matrix in a sealed round: asked, drawn exactly, counted, and told apart again."""

from __future__ import annotations

import json
import math
import random
import shutil
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy import stats

from fpmonitor.cli import run as main
from fpmonitor.errors import InputError, PolicyError
from fpmonitor.estimate.exposure import statistical_exposure
from fpmonitor.ldp.mechanisms import RandomisedResponse, StochasticMatrix
from fpmonitor.monitor import Monitor
from fpmonitor.private.client import randomised
from fpmonitor.private.matrix_ask import foresee_matrix, matrix_randomisation
from fpmonitor.private.randomised import estimate, mechanism_of, randomised_ask
from fpmonitor.private.study import (
    MATRIX_BITS,
    MATRIX_TOTAL,
    MAX_MATRIX_CELLS,
    ROLES,
    CollectionRequest,
    Randomisation,
    Study,
    check_ask,
)
from fpmonitor.private.tokens import is_report

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


LISTED = ("=a", "=b", "redacted")
CELLS = np.array([[0.7, 0.1, 0.2], [0.2, 0.6, 0.1], [0.05, 0.2, 0.5], [0.05, 0.1, 0.2]])


def study_of(**terms: Any) -> Study:
    return Study(
        **({"name": "t", "apis": ("x",), "population": 5000, "k": 20, "budget": 0.1} | terms)
    )


def plan_of(cells: Any = CELLS, values: Sequence[str] = LISTED) -> Randomisation:
    return matrix_randomisation(StochasticMatrix(np.array(cells)), values, study=study_of())


def ask_with(plan: Randomisation, study: Study) -> CollectionRequest:
    return randomised_ask(study, {"x": plan}, epoch=1)


class Drawn(random.Random):
    """A generator whose next bits are known."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def getrandbits(self, k: int, /) -> int:
        assert k == MATRIX_BITS
        return self._number


# ---- The whole numbers of an ask


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), reports=st.integers(2, 40), values=st.integers(2, 6))
def test_the_asked_law_is_the_matrix_and_sums_exactly(seed: int, reports: int, values: int) -> None:
    rng = np.random.default_rng(seed)
    cells = rng.dirichlet(np.full(max(reports, values), 0.05), size=values).T
    cells[:values] += 2 * np.eye(values)  # dominant: faithful
    matrix = StochasticMatrix(cells / cells.sum(axis=0))
    plan = plan_of(matrix.probabilities, [f"={value}" for value in range(values)])
    assert plan.matrix is not None
    assert {sum(column) for column in zip(*plan.matrix, strict=True)} == {MATRIX_TOTAL}
    asked = mechanism_of(plan).matrix()
    assert np.abs(asked - matrix.probabilities).max() < 1e-10
    assert np.array_equal(asked > 0, matrix.probabilities > 0)


def test_a_positive_probability_never_becomes_impossible() -> None:
    plan = plan_of([[1e-30, 1 - 1e-30], [1, 1e-30]], ("=a", "=b"))
    assert plan.matrix == ((1, MATRIX_TOTAL - 1), (MATRIX_TOTAL - 1, 1))
    assert plan.epsilon == pytest.approx(52 * math.log(2))


def test_epsilon_is_the_level_of_the_matrix_and_may_be_infinite() -> None:
    protocol = RandomisedResponse(3, 1.2)
    assert plan_of(protocol.matrix()).epsilon == pytest.approx(1.2, abs=1e-12)
    erasing = plan_of([[0.5, 0, 0], [0, 0.5, 0], [0, 0, 0.5], [0.5, 0.5, 0.5]])
    assert erasing.epsilon is None
    assert erasing.level == math.inf
    with pytest.raises(InputError, match="epsilon must be the LDP level"):
        replace(erasing, epsilon=1.0)
    unused = plan_of([[0.7, 0.2], [0.3, 0.8], [0, 0]], ("=a", "=b"))
    assert unused.epsilon == pytest.approx(math.log(3.5))


@pytest.mark.parametrize("cells", [CELLS, np.eye(3), RandomisedResponse(3, 2.0).matrix()])
def test_an_ask_with_a_matrix_is_read_as_it_was_written(cells: Any) -> None:
    study = study_of()
    ask = ask_with(plan_of(cells), study)
    assert CollectionRequest.from_bytes(ask.to_bytes()) == ask
    check_ask(study, ask)


HALF = MATRIX_TOTAL // 2


@pytest.mark.parametrize(
    "change",
    [
        {"matrix": None}, {"matrix": ()}, {"matrix": ((HALF, HALF),)},
        {"matrix": ((MATRIX_TOTAL,), (0,))},
        {"matrix": ((HALF + 1, HALF), (HALF, HALF))},
        {"matrix": ((HALF, HALF), (HALF - 1, HALF))},
        {"matrix": ((-1, HALF), (MATRIX_TOTAL + 1, HALF))},
        {"matrix": ((float(HALF), HALF), (HALF, HALF))},
        {"matrix": ((True, HALF), (MATRIX_TOTAL - 1, HALF))},
        {"matrix": ((HALF, HALF), (HALF,))},
        {"epsilon": 0.5}, {"epsilon": math.nan}, {"hash_range": 4}, {"mechanism": "grr"},
        {"values": ("=a", "=a")}, {"values": ("=a",)}, {"values": ("=a", "=b", "=c")},
        {"matrix": ((HALF, HALF), (HALF, HALF), *(((0, 0),) * (MAX_MATRIX_CELLS // 2 - 1)))},
    ],
)  # fmt: skip
def test_what_is_no_matrix_is_refused(change: dict[str, Any]) -> None:
    given = {
        "mechanism": "matrix", "epsilon": math.log(3), "values": ("=a", "=b"),
        "matrix": ((3 * HALF // 2, HALF // 2), (HALF // 2, 3 * HALF // 2)),
    }  # fmt: skip
    Randomisation(**given)
    with pytest.raises(InputError, match="ask"):
        Randomisation(**(given | change))


# ---- What users draw


def test_each_draw_is_the_report_whose_whole_numbers_it_falls_among() -> None:
    """At all borders of all columns, so that each report has exactly its share of the draws."""
    plan = plan_of()
    assert plan.matrix is not None
    for value, token in enumerate(plan.values):
        first = 0
        for report, row in enumerate(plan.matrix):
            for drawn in (first, first + row[value] - 1):
                assert randomised(token, plan, Drawn(drawn)) == f"={report}"
            first += row[value]
        assert first == MATRIX_TOTAL
    shares = [Fraction(row[0], MATRIX_TOTAL) for row in plan.matrix]
    assert sum(shares) == 1


def test_reports_have_the_law_of_the_matrix_and_others_count_as_the_last() -> None:
    plan, rng = plan_of(), random.Random(4)
    for token, column in (("=a", 0), ("=b", 1), ("redacted", 2), ("=rare", 2), ("absent", 2)):
        counts = Counter(randomised(token, plan, rng) for _ in range(5000))
        assert all(is_report(report, plan) for report in counts)
        seen = [counts[f"={report}"] for report in range(4)]
        assert stats.chisquare(seen, 5000 * CELLS[:, column]).pvalue > 1e-4
        assert stats.chisquare(seen, 5000 * CELLS[:, (column + 1) % 3]).pvalue < 1e-4


@pytest.mark.parametrize("token", ["=4", "=-1", "=00", "=", "0", "=a", "=1.0", "=١", "absent"])
def test_the_curator_takes_numbers_of_rows_only(token: str) -> None:
    assert not is_report(token, plan_of())
    with pytest.raises(InputError, match="not a report"):
        estimate(study_of(), ask_with(plan_of(), study_of()), ("x",), {(token,): 50}, delta=0.1)


# ---- What the reports tell


LAW = {"=a": 0.5, "=b": 0.38, "=c": 0.08, "=d": 0.04}


def counts_of(ask: CollectionRequest, users: int, seed: int) -> Counter[tuple[str, ...]]:
    rng = random.Random(seed)
    held = rng.choices(list(LAW), list(LAW.values()), k=users)
    return Counter((randomised(token, ask.randomise["x"], rng),) for token in held)


def test_estimates_are_unbiased_and_limits_hold_in_repeated_collections(
    check_collections: Any,
) -> None:
    study = study_of()
    ask = ask_with(plan_of(), study)
    truth = [0.5, 0.38, 0.12]
    exposed = statistical_exposure(np.array(list(LAW.values())), k=20, population=5000)
    runs = [
        estimate(study, ask, ("x",), counts_of(ask, 1500, seed), delta=0.2) for seed in range(40)
    ]
    check_collections(runs, truth, exposed)
    assert np.mean([run.upper for run in runs]) < 0.35
    assert {(run.users, run.mechanism) for run in runs} == {(1500, "matrix")}


def test_the_foreseen_accuracy_is_what_the_answers_have() -> None:
    study = study_of()
    plan = plan_of()
    tokens = {token: round(10_000 * share) for token, share in LAW.items()}
    foreseen = foresee_matrix("x", plan, study=study, tokens=tokens, users=4000)
    ask = ask_with(plan, study)
    found = [
        estimate(study, ask, ("x",), counts_of(ask, 4000, seed), delta=0.05) for seed in range(10)
    ]
    gaps = [(one.upper - one.lower) / 2 for one in found]
    assert foreseen.accuracy is not None
    assert np.mean(gaps) == pytest.approx(foreseen.accuracy, rel=0.15)
    assert foreseen.epsilon == plan.epsilon
    assert foresee_matrix("x", plan, study=study).accuracy is None


def test_a_matrix_that_is_not_faithful_is_refused_when_asked_and_when_estimated() -> None:
    flat = np.array([[0.5, 0.3, 0.4], [0.5, 0.7, 0.6]])
    with pytest.raises(PolicyError, match="mechanism: is not faithful"):
        plan_of(flat)
    rows = tuple(tuple(int(cell) for cell in row) for row in (flat * 10).astype(int))
    scaled = tuple(
        tuple(cell * (MATRIX_TOTAL // 10) + (MATRIX_TOTAL % 10) * (place == 0) for cell in row)
        for place, row in enumerate(rows)
    )
    level = max(math.log(max(row) / min(row)) for row in scaled)
    plan = Randomisation(mechanism="matrix", epsilon=level, values=LISTED, matrix=scaled)
    study = study_of()
    with pytest.raises(PolicyError, match="mechanism: is not faithful"):
        estimate(study, ask_with(plan, study), ("x",), {("=0",): 50}, delta=0.1)


# ---- Room in a message


def test_an_ask_that_a_message_has_no_room_for_is_not_made() -> None:
    """Rather than digested by the users and refused by the curator."""
    study = study_of(report_bytes=60)
    room = 60 - 21
    listed = tuple(f"={value}" for value in range(room - 1))
    fits = Randomisation(mechanism="oue", epsilon=1.0, values=listed)
    assert ask_with(fits, study).randomise["x"].longest_report == room
    longer = replace(fits, values=(*listed, "=more"))
    with pytest.raises(InputError, match=f"take {room + 1} bytes, .* has room for {room}"):
        ask_with(longer, study)
    for mechanism in ("grr", "matrix"):
        values = ("=" + "v" * (room - 1), "redacted")
        plan = (
            plan_of(RandomisedResponse(2, 1.0).matrix(), values)
            if mechanism == "matrix"
            else Randomisation(mechanism="grr", epsilon=1.0, values=values)
        )
        ask_with(plan, study)
        with pytest.raises(InputError, match=f"take {room + 1} bytes"):
            ask_with(replace(plan, values=("=" + "v" * room, "redacted")), study)
    short = matrix_randomisation(
        StochasticMatrix(RandomisedResponse(2, 1.0).matrix()), ("=" + "v" * 80, "redacted"),
        study=study,
    )  # fmt: skip
    assert ask_with(short, study).randomise["x"].values[0].startswith("#")


def test_every_report_of_every_mechanism_is_as_long_as_was_said() -> None:
    rng = random.Random(1)
    values = tuple(f"={value}" for value in range(30))
    wide = plan_of(np.vstack([np.eye(30) / 2, np.full((100, 30), 0.005)]), values)
    plans = [
        wide,
        Randomisation(mechanism="lh", epsilon=1.0, values=values, hash_range=12),
        *(Randomisation(mechanism=name, epsilon=1.0, values=values) for name in ("grr", "blh")),
    ]
    for plan in plans:
        lengths = {len(randomised("=3", plan, rng)) for _ in range(600)}
        assert max(lengths) == plan.longest_report


# ---- The commands


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database of 300 users, a study of it, keys, and matrices."""
    monkeypatch.chdir(tmp_path)
    users = [{"user": f"u{i}", "x": "a" if i % 3 else "b", "y": f"v{i % 2}"} for i in range(300)]
    lines = "".join(json.dumps(user) + "\n" for user in users)
    (tmp_path / "log.jsonl").write_text(lines, encoding="utf-8")
    with Monitor(tmp_path / "d.duckdb", create=True) as monitor:
        monitor.ingest([str(tmp_path / "log.jsonl")])
    study = study_of(apis=("x", "y"), k=5, population=1000, minimum_batch=10)
    (tmp_path / "study.json").write_bytes(study.to_bytes())
    np.savetxt(tmp_path / "plain.csv", CELLS, delimiter=",")
    named = "=a,=b,redacted\n" + (tmp_path / "plain.csv").read_text(encoding="utf-8")
    (tmp_path / "named.csv").write_text(named, encoding="utf-8")
    return tmp_path


def asked(*arguments: str) -> int:
    return main(["ldp", "ask", "--study", "study.json", "-o", "ask.json", *arguments])


def test_a_matrix_that_hides_next_to_nothing_is_asked_with_its_epsilon(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of levels above 30 what a shuffler adds was asked for, and refused."""
    (folder / "strong.csv").write_text(
        "=a,redacted\n0.99999999999999,0.00000000000001\n0.00000000000001,0.99999999999999\n",
        encoding="utf-8",
    )
    assert asked("--matrix", "x=strong.csv", "--users", "100000", "--format", "json") == 0
    assert "epsilon of a user: 32.3 in all" in capsys.readouterr().err
    assert (folder / "ask.json").exists()


def test_from_a_matrix_over_sealed_answers_to_estimates(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked("--matrix", "x=named.csv", "--format", "json") == 0
    captured = capsys.readouterr()
    [row] = json.loads(captured.out)
    told = [row[name] for name in ("api", "values", "mechanism", "accuracy")]
    assert told == ["x", 3, "matrix", None]
    assert row["epsilon"] == pytest.approx(math.log(10))
    assert "1 of 2 APIs" in captured.err
    ask = CollectionRequest.from_bytes((folder / "ask.json").read_bytes())
    assert ask.randomise["x"].values == LISTED

    for role in ROLES[:2]:
        assert main(["private", "init", f"pilot/{role}", "--role", role]) == 0
        shutil.copy("study.json", f"pilot/{role}")
    common = ["--ask", "ask.json", "--folder", "pilot"]
    assert main(["private", "seal", "--from", "d.duckdb", *common, "-o", "up"]) == 0
    assert main(["private", "shuffle", "up", *common, "--close", "-o", "batches"]) == 0
    batches = [str(path) for path in (folder / "batches").iterdir()]
    counted = ["private", "count", *batches, *common[:-1], "pilot/curator", "--format"]
    capsys.readouterr()
    assert main([*counted, "json"]) == 0
    [one] = json.loads(capsys.readouterr().out)["asks"][0]["sets"]
    assert (one["apis"], one["randomised"]) == (["x"], "matrix")
    found = one["estimate"]
    assert main([*counted, "table"]) == 0
    assert "x (matrix)" in capsys.readouterr().out
    shares = {value["token"]: value for value in found["values"]}
    assert (found["users"], found["mechanism"]) == (300, "matrix")
    assert shares["=a"]["lower"] < 2 / 3 < shares["=a"]["upper"]
    assert shares["=b"]["lower"] < 1 / 3 < shares["=b"]["upper"]
    assert shares["redacted"]["lower"] == 0
    assert sum(value["share"] for value in found["values"]) == pytest.approx(1)


def test_columns_without_names_are_the_values_of_k_users_or_more_and_the_rest(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--matrix", "x=plain.csv", "--db", "d.duckdb", "--format", "json")
    assert asked(*options, "--accuracy", "0.3", "--users", "5000") == 0
    rows = {row["api"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == {"x", "y"}
    assert rows["x"]["mechanism"] == "matrix"
    assert 0 < rows["x"]["accuracy"] < 0.2
    assert rows["y"]["mechanism"] != "matrix"
    assert CollectionRequest.read(folder / "ask.json").randomise["x"].values == LISTED


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "no database at fpmonitor.duckdb"),
        (("--matrix", "named.csv"), "name an API and a file; API=FILE.csv"),
        (("--matrix", "x="), "name an API and a file"),
        (("--matrix", "x=words.csv"), "may name these, for example =24"),
        (("--matrix", "w=named.csv"), "unknown API of the study"),
        (("--matrix", "x=missing.csv"), "missing.csv"),
        (("--matrix", "x=study.json"), "not a matrix"),
        (("--matrix", "x=flat.csv"), "not faithful"),
        (("--matrix", "x=short.csv"), "3 names for 2 columns"),
        (("--matrix", "x=odd.csv"), "odd.csv: matrix: column 2 must sum to 1"),
        (("--matrix", "x=twice.csv"), "distinct tokens"),
        (("--matrix", "x=large.csv"), "too large; at most 65,536 cells"),
        (("--matrix", "x=two.csv", "--db", "d.duckdb"), "2 columns for 3 values of x"),
    ],
)
def test_a_matrix_that_cannot_be_asked_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: Sequence[str], reason: str
) -> None:
    files = {
        "flat.csv": "=a,redacted\n0.5,0.5\n0.5,0.5\n",
        "short.csv": "=a,=b,redacted\n0.5,0.4\n0.5,0.6\n",
        "odd.csv": "=a,redacted\n0.5,0.4\n0.5,0.5\n",
        "twice.csv": "=a,=a\n0.5,0.4\n0.5,0.6\n",
        "words.csv": "a,b\n0.5,0.4\n0.5,0.6\n",
        "two.csv": "0.7,0.4\n0.3,0.6\n",
        "large.csv": "=a,=b,=c\n1,0,0\n0,1,0\n0,0,1\n" + "0,0,0\n" * 22_000,
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    assert asked(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert reason in captured.err
    assert not (tmp_path / "ask.json").exists()


def test_metrics_take_the_file_of_an_ask(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for name in ("plain.csv", "named.csv"):
        assert main(["ldp", "metrics", "--mechanism", str(folder / name), "--format", "json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1]
