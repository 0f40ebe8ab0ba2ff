"""Any view of the users may be chosen after looking; registered questions are decided sharper."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from fpmonitor.answers.questions import list_questions
from fpmonitor.cli import run
from fpmonitor.decide.files import read_decision
from fpmonitor.decide.questions import AskedQuestion, level_of, read_policy
from fpmonitor.decide.view_weight import BASE_WEIGHT
from fpmonitor.errors import InputError, UndecidableError
from fpmonitor.monitor import Monitor
from fpmonitor.policy import Policy
from fpmonitor.population.views import View
from fpmonitor.store.snapshot import Window
from fpmonitor.store.transfer import export_data, import_data, read_export
from fpmonitor.store.transforms import Transform
from fpmonitor.store.upkeep import forget_before

if TYPE_CHECKING:
    from fpmonitor.decide.decision import Decision

USERS, UNIVERSE, DELTA = 2000, 1000, 0.05
POLICY = Policy(k=10, population=USERS, budget=0.05, delta=DELTA, candidates=("A.a", "B.b"))
BASE = AskedQuestion(policy=POLICY)
TOML = """
k = 10
population = 2000
budget = 0.05
candidates = ["A.a", "B.b"]
"""


def weight(**differing: Any) -> float:
    """Of a view, beside that of the base view."""
    return level_of(replace(BASE, **differing), (), universe=UNIVERSE).view_weight / BASE_WEIGHT


def names(alphabet: list[str], length: int) -> list[str]:
    return ["".join(letters) for letters in product(alphabet, repeat=length)]


# ---- Weights ------------------------------------------------------------------------------------


def test_names_of_views_leave_the_base_view_half() -> None:
    """Whatever differs in one thing weighs 1/9 at most together; see the product below."""
    first = datetime(2000, 1, 1)  # noqa: DTZ001 -- as the store keeps times
    days = [first + timedelta(days=i) for i in range(36_525)]
    of_days = sum(weight(window=Window(since=day)) for day in days)
    second = weight(window=Window(since=first + timedelta(seconds=1)))
    instant = weight(window=Window(since=first + timedelta(microseconds=1)))
    other = weight(window=Window(since=datetime(1999, 1, 2)))  # noqa: DTZ001
    century = of_days + 36_525 * (86_399 * second + 86_400 * 999_999 * instant)
    assert other == pytest.approx(weight(window=Window(since=days[1])) / 100)
    since = century + 99 * century / 100
    both = (
        weight(window=Window(since=first, until=days[31])) / weight(window=Window(since=first)) ** 2
    )
    versions = [f" {a}.{b}" for a, b in product(range(60), repeat=2)]
    sources = ["", *(f" {a}" for a in range(60)), *versions]
    libraries = sum(weight(window=Window(source=f"har{version}")) for version in sources)
    texts = sum(256**n * weight(window=Window(source="x" * n)) for n in range(1, 60))
    rounded = [0, *range(1, 3000)]
    flags = ("brands", "major", "lower", "sort")
    transforms = sum(weight(view=View(transforms={"A.a": Transform(round=n)})) for n in rounded)
    all_of_one = 16 * transforms + weight(view=View(transforms={"A.a": Transform(constant="x")}))
    assert weight(view=View(transforms={"A.a": Transform(sort=True)})) == weight(
        view=View(transforms={"A.a": Transform(**dict.fromkeys(flags, True))})
    )
    for together in (
        weight(view=View(drop_automation=True)),
        weight(missing="drop") + weight(missing="exposed"),
        weight(view=View(volatile="raw")) + weight(view=View(volatile="left-out")),
        2 * since + both * since**2,
        13 * libraries + texts,
        UNIVERSE * all_of_one,
    ):
        assert 0.1 / 9 < together <= 1 / 9 + 1e-12
    assert weight() == 1
    assert (1 + 1 / 9) ** 6 < 2


CHANGES = {
    "missing": st.sampled_from(["value", "drop", "exposed"]),
    "window": st.builds(
        Window,
        since=st.none() | st.datetimes(),
        source=st.none() | st.text(min_size=1, max_size=5),
    ),
    "view": st.builds(
        View,
        volatile=st.sampled_from(["shared", "raw", "left-out"]),
        drop_automation=st.booleans(),
        transforms=st.dictionaries(
            st.sampled_from(["A.a", "B.b"]), st.builds(Transform, round=st.integers(0, 10**6))
        ),
    ),
}


@given(st.fixed_dictionaries(CHANGES))
def test_the_weight_of_a_view_is_a_product_and_none_outweighs_the_base(
    changes: dict[str, Any],
) -> None:
    whole = weight(**changes)
    assert whole == pytest.approx(
        math.prod(weight(**{name: change}) for name, change in changes.items())
    )
    assert whole == 1 if replace(BASE, **changes) == BASE else whole <= 1 / 9


@pytest.mark.parametrize(
    "source", ["har ", "har 01", "har 1.", "har +1", "har ١", "har 1١", "HAR 1"]
)
def test_only_versions_as_they_are_written_are_short_names(source: str) -> None:
    assert weight(window=Window(source=source)) < weight(window=Window(source="har 1")) / 100


def test_what_is_done_to_apis_that_are_no_candidates_costs_nothing() -> None:
    coarse = Transform(round=10)
    both, one = ({"A.a": coarse, "C.c": coarse}, {"A.a": coarse})
    assert weight(view=View(transforms=both)) == weight(view=View(transforms=one))
    assert weight(view=View(transforms={"C.c": coarse})) == 1


def test_all_that_may_be_asked_shares_delta() -> None:
    registered = [replace(BASE, policy=replace(POLICY, budget=b)) for b in (0.1, 0.2, 0.3)]
    levels = [level_of(question, registered, universe=UNIVERSE) for question in registered]
    other = level_of(BASE, registered, universe=UNIVERSE)
    assert [level.registered for level in levels] == [True] * 3
    assert other.level == DELTA / 4
    assert sum(level.level or 1 for level in levels) + 2 * (other.level or 1) <= DELTA + 1e-12
    assert level_of(BASE, (), universe=UNIVERSE).level == DELTA / 2
    assert level_of(BASE, (), universe=None).level == DELTA
    exact = replace(BASE, setting="sample", policy=replace(POLICY, delta=None))
    assert level_of(exact, registered, universe=None).level is None


def test_a_name_too_long_for_any_data_is_an_error_that_says_so() -> None:
    endless = replace(BASE, window=Window(source="x" * 500))
    with pytest.raises(UndecidableError, match="so long a name"):
        level_of(endless, (), universe=UNIVERSE)
    assert level_of(endless, [endless], universe=UNIVERSE).registered


# ---- The promise --------------------------------------------------------------------------------


def wrong_allows(decision: Decision, exposed: float) -> float:
    """Probability that one API is allowed when a share of the users has values of their own."""
    assert decision.proof is not None
    alone, others = np.arange(decision.users + 1), np.arange(decision.users, -1, -1)
    evidence = np.full(alone.size, -np.inf)
    for design in decision.proof["allow"]["designs"]:
        points = np.array(design["weights"])
        score = alone * points[1] + others * points[np.minimum(others, points.size - 1)]
        price = design["slope"] * design["budget"] + design["intercept"] + design["charge"]
        nats = np.log(design["share"]) - design["scale"] * score - price
        evidence = np.logaddexp(evidence, nats + design["clock"]["log_factor"])
    allowed = evidence >= decision.proof["allow"]["nats"][1]
    return float(binom.pmf(alone, decision.users, exposed)[allowed].sum())


@pytest.mark.long
def test_windows_tried_until_one_pleases_are_wrong_at_most_delta(database: Path) -> None:
    """Every window of days has a law of its own, above the budget: the mean number of allows."""
    day = datetime(2026, 3, 2, tzinfo=UTC)
    window = Window(since=day, until=day + timedelta(days=1))
    with Monitor(database, window=window) as monitor:
        decision = monitor.decide(k=10, population=USERS, budget=0.05, candidates=["A.a"])
    windows = 36_525**2 / 2
    assert decision.users == USERS
    assert windows * wrong_allows(decision, 0.05 * 1.005) < DELTA
    assert decision.proof is not None
    assert decision.proof["allow"]["delta"] == decision.level
    assert "whichever APIs and view of the users are chosen after looking" in decision.guarantee


def test_candidates_that_choose_the_users_are_not_said_to_be_free(database: Path) -> None:
    with Monitor(database) as monitor:
        decision = monitor.decide(k=10, population=USERS, budget=0.05, missing="drop")
    assert "whichever APIs" not in decision.guarantee
    assert "whichever view of the users is chosen after looking" in decision.guarantee
    assert (
        "and that the candidates, k, population, budget and the names of APIs in"
        in decision.guarantee
    )


# ---- Registering --------------------------------------------------------------------------------


def write_log(path: Path, users: int = USERS) -> str:
    lines = [
        {"user": f"u{i}", "time": "2026-03-02T10:00:00Z", "A.a": i % 5, "B.b": i % 7}
        for i in range(users)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "base.duckdb"
    with Monitor(path, create=True) as monitor:
        monitor.ingest([write_log(tmp_path / "log.jsonl")])
    return path


def kinds(path: Path) -> list[tuple[str, float | None]]:
    with Monitor(path) as monitor:
        listed = list_questions(monitor.database)
    return [
        ("registered", None) if entry.answer is None else ("asked", entry.answer.level)
        for entry in listed
    ]


def policy_file(path: Path, more: str = "", budget: str = "0.05") -> str:
    path.write_text(TOML.replace("0.05", budget) + more, encoding="utf-8")
    return str(path)


def test_a_question_registered_before_the_first_user_is_decided_as_registered(
    tmp_path: Path,
) -> None:
    db, made = tmp_path / "new.duckdb", tmp_path / "made.json"
    log, policy = write_log(tmp_path / "log.jsonl"), policy_file(tmp_path / "policy.toml")
    exposed = policy_file(tmp_path / "exposed.toml", 'missing = "exposed"\nsince = 2026-01-01\n')
    arguments = ["--db", str(db), "-q", "--format", "json"]
    assert run(["decide", "--register", policy, *arguments]) == 0
    assert run(["ingest", log, "--register", policy, "--register", exposed, *arguments]) == 0
    assert run(["ingest", log, "--register", exposed, *arguments]) == 0
    ask = ["decide", *arguments, "--population", "2000", "--budget", "0.05", "-o", str(made)]
    for more, level, registered in (
        ([], DELTA / 4, True),
        (["--missing", "exposed", "--since", "2026-01-01"], DELTA / 4, True),
        (["--max-size", "1", "--must", "A.a"], DELTA / 4, True),
        (["--candidates", "A.a"], DELTA / 4, False),
        (["--fixed-question", "--candidates", "A.a"], DELTA, False),
    ):
        assert run([*ask, *more]) == 0
        decision = read_decision(made)
        assert (decision.level, decision.registered) == (level, registered), more
        assert ("as registered before the first user" in decision.guarantee) == registered
        assert (decision.universe is None) == (registered or "--fixed-question" in more)
    assert kinds(db)[:3] == [("registered", None)] * 2 + [("asked", DELTA / 4)]


def test_a_column_that_is_said_to_be_an_api_after_a_look_was_not_registered(
    tmp_path: Path,
) -> None:
    policy, db, made = tmp_path / "policy.toml", tmp_path / "new.duckdb", tmp_path / "made.json"
    policy.write_text(TOML.replace('"A.a", "B.b"', '"Navigator.userAgent"'), encoding="utf-8")
    log = write_log(tmp_path / "log.jsonl")
    assert run(["ingest", log, "--register", str(policy), "--db", str(db), "-q"]) == 0
    columns = {"A.a": "", "B.b": "Navigator.userAgent"}
    said = [word for column, api in columns.items() for word in ("--set", f"{column}={api}")]
    assert run(["db", "apis", *said, "--db", str(db), "--format", "json"]) == 0
    ask = ["decide", "--db", str(db), "--population", "2000", "--budget", "0.05", "-q"]
    assert run([*ask, "--candidates", "Navigator.userAgent", "-o", str(made)]) == 0
    decision = read_decision(made)
    assert decision.policy.candidates == ("B.b",)
    assert (decision.registered, decision.level) == (False, DELTA / 4)


def test_names_of_the_vocabulary_are_those_of_foreign_columns(tmp_path: Path) -> None:
    policy, coarse = tmp_path / "policy.toml", tmp_path / "coarse.toml"
    db, made, log = tmp_path / "new.duckdb", tmp_path / "made.json", tmp_path / "log.jsonl"
    coarse.write_text('["Screen.width"]\nround = 100\n', encoding="utf-8")
    policy.write_text(
        TOML.replace('"A.a", "B.b"', '"Screen.width"')
        + "[transforms.'Screen.width']\nround = 100\n",
        encoding="utf-8",
    )
    lines = [{"user": f"u{i}", "screen.width": i % 900, "B.b": 1} for i in range(USERS)]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    arguments = ["--db", str(db), "-q", "--format", "json"]
    assert run(["ingest", str(log), "--register", str(policy), *arguments]) == 0
    ask = ["decide", *arguments, "--population", "2000", "--budget", "0.05", "-o", str(made)]
    for more, registered in ((["screen.width"], True), (["Screen.width,B.b"], False)):
        assert run([*ask, "--what-if", str(coarse), "--candidates", *more]) == 0
        decision = read_decision(made)
        assert decision.registered == registered
        assert "screen.width" in decision.policy.candidates
    assert decision.view_weight == pytest.approx(
        weight(view=View(transforms={"A.a": Transform(round=100)})) / 2
    )


def test_a_question_that_cannot_be_recorded_is_not_registered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The disk is full, or another process has the file: nobody gets the level of a record."""
    db, made = tmp_path / "new.duckdb", tmp_path / "made.json"
    log, policy = write_log(tmp_path / "log.jsonl"), policy_file(tmp_path / "policy.toml")
    with Monitor(db, create=True):
        pass
    register = ["decide", "--register", policy, "--db", str(db), "-q"]
    full = (  # with -B: Python would leave half of what it compiles, to be read by others
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); "
        "from fpmonitor.cli import run; sys.exit(run(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", full, *register], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    holds = (
        "import duckdb, sys; open_file = duckdb.connect(sys.argv[1]); print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holds, str(db)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdout.readline()
        assert run(["--wait", "0", *register]) == 2
        assert "in use by process" in capsys.readouterr().err
        holder.stdin.write(b"\n")
        holder.stdin.close()
    assert run(["ingest", log, "--db", str(db), "-q"]) == 0
    ask = ["--db", str(db), "-q", "--population", "2000", "--budget", "0.05", "-o", str(made)]
    assert run(["decide", *ask]) == 0
    decision = read_decision(made)
    assert (decision.level, decision.registered) == (DELTA / 2, False)
    assert kinds(db) == [("asked", DELTA / 2)]


def test_registering_after_the_first_user_changes_nothing_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db, log = tmp_path / "new.duckdb", write_log(tmp_path / "log.jsonl")
    early = policy_file(tmp_path / "early.toml")
    late = policy_file(tmp_path / "late.toml", budget="0.1")
    more = write_log(tmp_path / "more.jsonl", 40)
    assert run(["ingest", log, "--register", early, "--db", str(db), "-q"]) == 0
    capsys.readouterr()
    for command in (["ingest", more], ["decide", "--budget", "0.1"]):
        assert run([*command, "--register", late, "--register", early, "--db", str(db)]) == 2
        assert "before the first" in capsys.readouterr().err
    with Monitor(db) as monitor:
        assert [report.users for report in monitor.batches()] == [USERS]
        forget_before(monitor.database, datetime(2030, 1, 1, tzinfo=UTC))
    assert run(["ingest", more, "--register", late, "--db", str(db)]) == 2
    assert kinds(db) == [("registered", None)]


def test_the_policy_of_the_docs_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "outputs.md").read_text(encoding="utf-8")
    _, _, section = page.partition("## Policies and questions")
    _, _, example = section.partition("```toml\n")
    path = tmp_path / "policy.toml"
    path.write_text(example.partition("```")[0], encoding="utf-8")
    question = read_policy(path)
    assert question.window.since == datetime(2026, 3, 1)  # noqa: DTZ001 -- as the store keeps times
    assert question.view.transforms == {"Screen.height": Transform(round=100)}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("k = 10", "population"),
        (TOML + "budgets = 0.1", "budgets"),
        (TOML.replace("k = 10", "k = 1"), "k: must be at least 2"),
        (TOML + "since = 5", "since"),
        (TOML + "[transforms.'A.a']\nrond = 5", "rond"),
    ],
)
def test_a_policy_that_is_none_is_refused_before_anything_is_made(
    text: str, word: str, tmp_path: Path
) -> None:
    path, db = tmp_path / "policy.toml", tmp_path / "new.duckdb"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=word):
        read_policy(path)
    assert run(["decide", "--register", str(path), "--db", str(db)]) == 2
    assert not db.exists()


@pytest.mark.long
def test_a_copy_keeps_what_was_registered_and_another_database_does_not_take_it(
    tmp_path: Path,
) -> None:
    first, copy, other = (tmp_path / f"{name}.duckdb" for name in ("first", "copy", "other"))
    policy, log = policy_file(tmp_path / "policy.toml"), write_log(tmp_path / "log.jsonl")
    with Monitor(first, create=True) as monitor:
        export_data(monitor.database, tmp_path / "empty")
    assert run(["ingest", log, "--register", policy, "--db", str(first), "-q"]) == 0
    with Monitor(first) as monitor:
        monitor.decide(k=10, population=USERS, budget=0.05)
        export_data(monitor.database, tmp_path / "dump")
    for path, begin in ((copy, "dump"), (other, "empty")):
        with Monitor(path, create=True) as monitor:
            import_data(monitor.database, tmp_path / begin, read_export(tmp_path / begin))
            monitor.ingest([write_log(tmp_path / "more.jsonl", 40)])
        for _ in range(2):
            with Monitor(path) as monitor:
                dump = tmp_path / "dump"
                import_data(monitor.database, dump, read_export(dump))
    assert kinds(copy) == [("registered", None), ("asked", DELTA / 2)]
    assert kinds(other) == [("asked", DELTA / 2)]


# ---- The list -----------------------------------------------------------------------------------


def test_every_question_that_is_decided_is_listed(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["decide", "--db", str(database), "--budget", "0.05", "-q"]
    for more in ([], ["--setting", "sample"], ["--drop-automation", "--since", "2026-03-01"]):
        assert run([*ask, *more]) == 0
    capsys.readouterr()
    assert run(["db", "questions", "--db", str(database)]) == 0
    listed = json.loads(capsys.readouterr().out)["questions"]
    assert [entry["kind"] for entry in listed] == ["asked"] * 3
    assert [entry["answer"]["level"] for entry in listed][:2] == [DELTA / 2, None]
    assert listed[2]["window"]["since"] == "2026-03-01T00:00:00"
    assert listed[2]["view"]["drop_automation"]
    assert listed[2]["answer"] | {"allow": 1, "users": USERS} == listed[2]["answer"]
    assert run(["db", "questions", "--db", str(database), "--format", "table"]) == 0
    assert "without automation" in capsys.readouterr().out
    assert run(["--for-others", "db", "questions", "--db", str(database)]) == 2
