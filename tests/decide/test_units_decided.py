"""Decisions by visits: whole tuples of one visit of each user, and all visits in their order."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from fpmonitor.cli import run
from fpmonitor.disclosure import publishable_draws
from fpmonitor.estimate.looks import decision_criteria
from fpmonitor.policy import DRAWS
from fpmonitor.population.visits import PathSource, VisitSource, drawn_visits, tuple_ids
from fpmonitor.serve.app import service_app
from fpmonitor.serve.config import ServeConfig
from fpmonitor.spectrum import CountSpectrum
from fpmonitor.store.visits import VisitRows

if TYPE_CHECKING:
    from collections.abc import Iterable

USERS = 2_500
ASKED = ["--k", "10", "--budget", "20%", "-n", "2500", "--fixed-question"]


def written(path: Path) -> str:
    """Write users of three visits: a network that changes, and two APIs never seen in pairs.

    `font` and `theme` come with visits of their own, 30 values each: of a chimera of both there are
    900, which nobody ever showed.
    """
    rng = np.random.default_rng(1)
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["user", "time", "network", "font", "theme", "depth"])
        for user in range(USERS):
            for visit in range(3):
                font = f"f{rng.integers(30)}" if visit == 0 else ""
                theme = f"t{rng.integers(30)}" if visit == 2 else ""
                time = f"2026-03-{1 + visit * 3:02}T10:00:00Z"
                row = [f"u{user}", time, f"n{rng.integers(9)}", font, theme, user % 2]
                lines.writerow(row)
    database = str(path.with_suffix(".duckdb"))
    assert run(["ingest", str(path), "--db", database, "-q"]) == 0
    return database


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("units") / "log.csv")


def made(database: str, output: Path, candidates: str, *options: str) -> dict[str, Any]:
    words = ["decide", *ASKED, "--candidates", candidates, "--db", database, "-q"]
    assert run([*words, *options, "-o", str(output)]) == 0
    return json.loads(output.read_text(encoding="utf-8"))


def test_what_changes_between_visits_is_allowed_for_one_visit_and_not_for_all(
    database: str, tmp_path: Path
) -> None:
    found = {
        unit: made(database, tmp_path / f"{unit}.json", "network,depth", "--unit", unit)
        for unit in ("last", "visit", "path", "both")
    }
    both = ["depth", "network"]
    allowed = {unit: one["recommended"] for unit, one in found.items()}
    assert allowed == {"last": both, "visit": both, "path": ["depth"], "both": ["depth"]}
    assert found["both"]["undecided"] == [["network"]]
    assert "visits" not in found["last"]["policy"]
    assert found["both"]["policy"]["visits"] == "both"
    assert "decided once" in found["visit"]["guarantee"]
    assert "knows no other of them" in found["visit"]["guarantee"]
    for unit in ("path", "both"):
        assert "Nothing is promised of more days" in found[unit]["guarantee"]


def test_one_visit_must_keep_the_budget_too_where_users_came_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default: a condition more, and none in the place of what holds at every look.

    The last `network` of each is one of nine; the first is nearly everybody's own.
    """
    log = tmp_path / "log.csv"
    with log.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["user", "time", "network", "depth"])
        for user in range(USERS):
            lines.writerow([f"u{user}", "2026-03-01", f"n{9 + user // 2}", user % 2])
            lines.writerow([f"u{user}", "2026-03-02", f"n{user % 9}", user % 2])
    changed = str(tmp_path / "log.duckdb")
    assert run(["ingest", str(log), "--db", changed, "-q"]) == 0
    output, old = tmp_path / "d.json", tmp_path / "old.json"
    words = ["decide", *ASKED, "--candidates", "network,depth", "--db", changed]
    assert run([*words, "-o", str(output)]) == 0
    assert "came back, so one visit of each must keep the budget, too" in capsys.readouterr().err
    found = json.loads(output.read_text(encoding="utf-8"))
    last = made(changed, old, "network,depth", "--unit", "last")
    assert last["recommended"] == ["depth", "network"]
    assert found["policy"]["visits"] == "last+visit"
    assert (found["recommended"], found["undecided"]) == (["depth"], [["network"]])
    assert found["proof"]["allow"] == last["proof"]["allow"]  # no price
    promise = last["guarantee"].split(" Last values")[0]
    assert found["guarantee"].startswith(promise)
    assert (
        "one visit of each user, and knows no other of them, exposes no more" in found["guarantee"]
    )
    for command in (["audit", "certificate"], ["check"]):
        for file in (str(output), str(old)):
            assert run([*command, file, "--db", changed]) == 0
    assert run(["gate", str(output), "--want", "network", "--db", changed]) == 3
    assert run(["gate", str(output), "--want", "depth", "--db", changed]) == 0
    config = ServeConfig(db=Path(changed), decision=output, spool=tmp_path / "spool")
    with TestClient(service_app(config), base_url="http://localhost") as client:
        answers = [client.get("/v1/gate", params={"want": api}) for api in ("depth", "network")]
        state = client.get("/v1/decision").json()["state"]
    # They are the users that were decided on: the file answers.
    assert [each.json()["verdict"] for each in answers] == ["allow", "undecided"]
    assert state["behind_seconds"] == 0
    allowed = found | {"allow": last["allow"], "undecided": [], "recommended": last["recommended"]}
    output.write_text(json.dumps(allowed), encoding="utf-8")
    assert run(["audit", "certificate", str(output), "--db", changed]) not in {0, 3}


def test_by_default_one_visit_is_a_condition_only_with_what_it_goes_with(
    database: str, tmp_path: Path
) -> None:
    output = tmp_path / "d.json"
    for expected, options in (
        ("last+visit", []),
        ("last+visit", ["--until", "2999-01-01"]),
        (None, ["--unit", "last"]),
        (None, ["--given", "font"]),
        (None, ["--setting", "sample"]),
        ("last+visit", ["--engine", "duckdb"]),
        (None, ["--until", "2026-03-02"]),  # one visit each
    ):
        found = made(database, output, "network,depth", *options)
        assert found["policy"].get("visits") == expected, options


def test_only_what_last_values_promise_lets_candidates_be_chosen_after_looking(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Visits count that brought a candidate: another list of candidates draws other visits."""
    output, free = tmp_path / "d.json", "whichever APIs and view of the users are chosen"
    audit = ["audit", "certificate", str(output), "--db", database]
    for options in (
        *(["--unit", unit] for unit in ("visit", "path", "both")),
        ["--link-budget", "90%", "--after", "3d"],
    ):
        words = ["decide", *ASKED[:-1], "--candidates", "network,depth", "--db", database, "-q"]
        assert run([*words, *options, "-o", str(output)]) == 0
        content = json.loads(output.read_text(encoding="utf-8"))
        said = content["guarantee"]
        assert "whichever view of the users is chosen after looking" in said, options
        assert "the candidates, k, population" in said, options
        assert run(audit) == 0
        more = said.replace("whichever view of the users is chosen", free)
        more = more.replace("the candidates, k, population", "k, population")
        output.write_text(json.dumps(content | {"guarantee": more}), encoding="utf-8")
        assert run(audit) == 1, options
        capsys.readouterr()
        assert run([*words, *options, "--format", "table"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "Filters may be chosen after looking; all else before." in shown
        assert "APIs and filters" not in shown
    assert run([*words, "-o", str(output)]) == 0
    said = json.loads(output.read_text(encoding="utf-8"))["guarantee"]
    assert free in said
    assert "for candidates that were chosen before it" in said
    capsys.readouterr()
    assert run([*words, "--format", "table"]) == 0
    assert "By last values, APIs and filters" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "options",
    [["--forecast"], ["--tolerance"], ["--search-users", "1200"], ["--given", "network"]],
)
def test_where_last_values_alone_are_tested_screen_and_file_say_so(
    options: list[str], database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "d.json"
    told = "only their last values were tested: one visit may show more"
    words = ["decide", *ASKED, "--candidates", "depth", "--db", database, *options]
    assert run([*words, "-o", str(output)]) == 0
    content = json.loads(output.read_text(encoding="utf-8"))
    assert "visits" not in content["policy"]
    assert content["came_back"] is True
    assert told in content["guarantee"]
    assert told in " ".join(capsys.readouterr().err.split())
    assert run([*words, "--until", "2026-03-02", "-o", str(tmp_path / "once.json")]) == 0
    once = json.loads((tmp_path / "once.json").read_text(encoding="utf-8"))
    assert "came_back" not in once
    assert told not in once["guarantee"]
    audit = ["audit", "certificate", str(output), "--db", database]
    assert run(audit) == 0
    del content["came_back"]
    before, _, after = content["guarantee"].partition(" Users came back")
    content["guarantee"] = before + after.partition("tests visits.")[2]
    output.write_text(json.dumps(content), encoding="utf-8")
    capsys.readouterr()
    assert run(audit) == 3
    assert "came back" in capsys.readouterr().out
    # whoever asks for visits beside them hears that these do not go together
    assert run([*words, "--unit", "last+visit"]) not in {0, 1, 3}
    [said] = capsys.readouterr().err.strip().splitlines()
    assert f"--unit: not with {options[0]}" in said


def test_what_visits_showed_that_are_forgotten_is_no_lie(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database, output = str(tmp_path / "v.duckdb"), tmp_path / "d.json"
    for day in (1, 9):
        log = tmp_path / f"{day}.csv"
        rows = [f"u{user},2026-03-{day:02}T10:00:00Z,{user % 2}" for user in range(300)]
        log.write_text("\n".join(["user,time,depth", *rows]) + "\n", encoding="utf-8")
        assert run(["ingest", str(log), "--db", database, "-q"]) == 0
    asked = ["--k", "10", "--budget", "50%", "-n", "300", "--forecast", "--db", database, "-q"]
    assert run(["decide", *asked, "-o", str(output)]) == 0
    claims = ("came back", "days", "first look")
    for forgotten, expected in ((False, "proved"), (True, "cannot tell")):
        if forgotten:
            assert run(["db", "forget", "--before", "2026-03-05", "--db", database, "-q"]) == 0
        capsys.readouterr()
        run(["audit", "certificate", str(output), "--db", database])
        told = {one["claim"]: one for one in json.loads(capsys.readouterr().out)}
        assert {told[claim]["answer"] for claim in claims} == {expected}
    for claim in claims[1:]:  # an honest file, of which the audit said that it is wrong
        assert told[claim]["reason"] == "it cannot be proved any more: visits were forgotten since"
    assert run(["check", str(output), "--db", database, "-q"]) == 0


def test_by_default_sets_that_are_searched_keep_last_values_alone(
    tmp_path: Path,
) -> None:
    """Of 40 candidates the condition left a set of utility 3 where 8 was possible, and late."""
    log, names = tmp_path / "log.csv", [f"api{number}" for number in range(26)]
    with log.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["user", "time", *names])
        for user in range(200):
            for day in (1, 2):
                lines.writerow([f"u{user}", f"2026-03-0{day}", *(day,) * 26])
    database, output = str(tmp_path / "v.duckdb"), tmp_path / "d.json"
    assert run(["ingest", str(log), "--db", database]) == 0
    for number, expected in ((26, None), (25, "last+visit")):
        found = made(database, output, ",".join(names[:number]), "--max-size", "1")
        assert found["policy"].get("visits") == expected


def test_lists_tell_nobody_that_fewer_than_k_users_came_back(tmp_path: Path) -> None:
    log, output = tmp_path / "log.csv", tmp_path / "d.json"
    for returning, expected in ((9, None), (10, "last+visit")):
        with log.open("w", encoding="utf-8", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(["user", "time", "network"])
            for user in range(300):
                days = 20 if user < returning else 1
                rows = [f"2026-03-{1 + day:02}T10:00:00Z" for day in range(days)]
                lines.writerows([f"u{user}", time, f"n{user % 2}"] for time in rows)
        database = str(tmp_path / f"{returning}.duckdb")
        assert run(["ingest", str(log), "--db", database, "-q"]) == 0
        asked = ["--k", "10", "--budget", "50%", "-n", "300", "--db", database, "-q"]
        assert run(["decide", *asked, "-o", str(output)]) == 0
        content = json.loads(output.read_text(encoding="utf-8"))
        assert content["policy"].get("visits") == expected


def test_a_union_is_tested_by_all_units_that_the_other_decision_keeps(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also of an API that is no candidate: its visits are among those that are drawn."""
    other, output = tmp_path / "other.json", tmp_path / "d.json"
    beside = ["--union-with", str(other)]
    asked = [*ASKED[:-1], "--db", database, "-q", "-o", str(output), *beside]
    for theirs, ours in (("visit", "last"), ("last+visit", "last"), ("visit", None)):
        made(database, other, "network", "--unit", theirs)
        capsys.readouterr()
        unit = [] if ours is None else ["--unit", ours]
        code = run(["decide", *asked, "--candidates", "depth", *unit])
        assert (code == 2) == (ours == "last"), (theirs, ours)
        said = capsys.readouterr().err.strip()
        if code == 2:
            assert len(said.splitlines()) == 1
            assert f"`visits` = {theirs}" in said
    content = json.loads(output.read_text(encoding="utf-8"))
    assert content["policy"]["visits"] == "last+visit"
    assert [each["verdict"] for each in content["union_with"]] == ["allow"]
    assert run(["audit", "certificate", str(output), "--db", database]) == 0


@pytest.mark.parametrize("unit", ["last", "path"])
def test_a_question_that_was_registered_keeps_its_unit(unit: str, tmp_path: Path) -> None:
    """One visit more to test is no other question; all visits in place of last values are."""
    database, policy = str(tmp_path / "log.duckdb"), tmp_path / "policy.toml"
    asked = 'k = 10\npopulation = 2500\nbudget = 0.2\ncandidates = ["network", "depth"]\n'
    policy.write_text(f'{asked}unit = "{unit}"\n', encoding="utf-8")
    assert run(["decide", "--register", str(policy), "--db", database]) == 0
    written(tmp_path / "log.csv")
    output = tmp_path / "d.json"
    words = ["decide", *ASKED[:-1], "--candidates", "network,depth", "--db", database, "-q"]
    assert run([*words, "-o", str(output)]) == 0
    found = json.loads(output.read_text(encoding="utf-8"))
    assert (found["registered"], found["policy"]["visits"]) == (unit == "last", "last+visit")


def test_windows_are_checked_by_visits(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The network changes within a month, and nobody comes twice within a day."""
    output = tmp_path / "d.json"
    first = ["--until", "2026-03-02", "--unit", "both"]
    assert made(database, output, "network,depth", *first)["allow"] == [["depth", "network"]]
    found = {}
    for by in ("day", "month"):
        capsys.readouterr()
        words = ["check", str(output), "--by", by, "--db", database, "--format", "json"]
        code = run(words)
        [line] = json.loads(capsys.readouterr().out)
        found[by] = (code, line["verdict"], line["upper"] < 0.2)
    assert found == {"day": (0, "allow", True), "month": (1, "block", False)}


def test_visits_of_another_window_are_other_data(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the same last values an honest file was called one that is not to be trusted."""
    output, window = tmp_path / "d.json", ["--since", "2026-03-05"]
    assert made(database, output, "network", "--unit", "path", *window)["allow"] == [["network"]]
    audit = ["audit", "certificate", str(output), "--db", database]
    assert run([*audit, *window]) == 0
    capsys.readouterr()
    assert run(audit) == 2
    assert "does not hold the users that were decided on" in capsys.readouterr().err


def test_no_tuple_counts_that_no_browser_showed(database: str, tmp_path: Path) -> None:
    chimera = made(database, tmp_path / "a.json", "font,theme")
    assert chimera["recommended"] != ["font", "theme"]
    whole = made(database, tmp_path / "b.json", "font,theme", "--unit", "visit")
    assert whole["recommended"] == ["font", "theme"]


def rows_of(visits: Iterable[tuple[int, int, int]]) -> VisitRows:
    users, first, second = (np.array(column) for column in zip(*visits, strict=True))
    _, rows = np.unique(users, return_inverse=True)
    times = np.arange(len(users), dtype=np.int64)
    return VisitRows(rows=rows, users=users, times=times, codes={"a": first, "b": second})


def test_the_score_is_the_mean_over_draws_and_the_draw_is_the_same_for_all_sets() -> None:
    rng = np.random.default_rng(3)
    visits = rows_of(
        (user, int(rng.integers(1, 30)), int(rng.integers(1, 4)))
        for user in range(400)
        for _ in range(1 + user % 4)
    )
    source, paths = VisitSource(visits), PathSource(visits, "key")
    criterion = decision_criteria(users=400, k=5, population=400, budget=0.3, delta=0.05).allow
    assert source.users == paths.users == 400
    places = drawn_visits(visits, DRAWS)
    for apis in (["a"], ["b"], ["a", "b"]):
        ids = tuple_ids(visits, apis)
        drawn = [CountSpectrum.from_counts(np.bincount(ids[place])) for place in places]
        sums = [
            criterion.score.weights.take(one.counts, axis=1, mode="clip") @ one.members
            for one in drawn
        ]
        mean = float(criterion.score.of_sums(np.mean(sums, axis=0)))
        told = criterion.score.mean_of(DRAWS)(source.spectrum(apis))
        assert told == pytest.approx(mean)
        assert source.selected(apis).spectrum(apis).users == DRAWS * 400
    assert source.spectrum([]).counts.tolist() == [400]
    assert paths.spectrum([]).counts.tolist() == [400]


def test_a_visit_is_never_put_together_of_two() -> None:
    visits = rows_of([(1, 1, 1), (1, 2, 2), (2, 1, 1), (2, 2, 2)])
    source = VisitSource(visits)
    # a1 with b2 would be a second value of b beside each value of a
    assert source.spectrum(["a", "b"]).groups() == source.spectrum(["a"]).groups()


def test_pooled_groups_of_visits_prove_what_exact_ones_do_and_nothing_else(
    database: str, tmp_path: Path
) -> None:
    """A user is in all draws: k members of pools of several draws may be one and the same."""
    output, pooled = tmp_path / "d.json", tmp_path / "pooled.json"
    content = made(database, output, "network,font", "--unit", "both")
    audit = ["audit", "certificate", str(output)]
    assert run([*audit, "--db", database, "--write-spectra", str(pooled)]) in {0, 3}
    assert run([*audit, "--spectra", str(pooled)]) in {0, 3}
    told = json.loads(pooled.read_text(encoding="utf-8"))["spectra"]
    [fonts] = [each for each in told if each["apis"] == ["font"]]
    assert sum(users for *_, users in fonts["groups"]) == DRAWS * USERS
    assert all(users % (10 * DRAWS) == 0 for *_, users in fonts["groups"])
    for groups in (fonts["groups"], fonts["beside"]["path"]):
        assert all(users >= 9 for least, _, users in groups if least < 10)
    content |= {"allow": [["font", "network"]], "undecided": [], "recommended": []}
    output.write_text(json.dumps(content), encoding="utf-8")
    assert run([*audit, "--spectra", str(pooled)]) not in {0, 3}


def test_what_is_written_of_visits_is_the_same_for_fewer_than_k_users_whose_visits_differ(
    tmp_path: Path,
) -> None:
    """Exact sizes, and numbers that are no multiples of the draws, showed that a user did."""
    found = []
    for moving in (0, 1, 3, 9, 600):
        log, database = tmp_path / f"{moving}.csv", str(tmp_path / f"{moving}.duckdb")
        with log.open("w", encoding="utf-8", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(["user", "time", "network"])
            for user in range(USERS):
                for day in (1, 2):
                    network = f"n{user % 5 if user < 2_000 else user % 50}"
                    own = day == 1 and user < moving
                    lines.writerow([f"u{user}", f"2026-03-0{day}", f"x{user}" if own else network])
        assert run(["ingest", str(log), "--db", database, "-q"]) == 0
        output, pooled = tmp_path / "d.json", tmp_path / "pooled.json"
        made(database, output, "network")
        audit = ["audit", "certificate", str(output)]
        assert run([*audit, "--db", database, "--write-spectra", str(pooled)]) in {0, 3}
        assert run([*audit, "--spectra", str(pooled)]) in {0, 3}
        [told] = json.loads(pooled.read_text(encoding="utf-8"))["spectra"]
        groups = told["beside"]["visit"]
        assert sum(users for *_, users in groups) == DRAWS * USERS
        found.append(groups)
    assert found[0] == found[1] == found[2] == found[3] != found[4]


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 10), st.integers(1, 200))
def test_ranges_that_are_written_of_visits_hold_whoever_moves(
    seed: int, k: int, users: int
) -> None:
    """Between any two sizes there are as many users as the ranges within them say, or more."""
    rng, true = np.random.default_rng(seed), Counter[int]()
    values = rng.integers(0, rng.integers(1, 40), users)
    for _ in range(DRAWS):
        moved = rng.random(users) < rng.choice([0, 0.01, 0.5])
        seen = np.where(moved, rng.permutation(values), values)
        for size in np.bincount(seen).tolist():
            true[size] += size
    sizes = np.array(sorted(size for size in true if size))
    groups = np.array([true[size] // size for size in sizes.tolist()])
    told = publishable_draws(CountSpectrum(sizes, groups), DRAWS, k)
    assert sum(members for *_, members in told) == DRAWS * users
    assert all(members >= DRAWS * min(k, users) for *_, members in told)
    assert sum(members % (DRAWS * k) > 0 for *_, members in told) <= 1
    for begin in {first for first, *_ in told}:
        for end in {last for _, last, _ in told}:
            said = sum(each for first, last, each in told if begin <= first and last <= end)
            assert said <= sum(true[size] for size in sizes.tolist() if begin <= size <= end)


@pytest.mark.parametrize("unit", ["both", "visit", "path"])
def test_gate_check_and_checker_judge_by_visits(
    unit: str, database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / f"{unit}.json"
    content = made(database, output, "network,depth,font", "--unit", unit)
    for apis, allowed in (("depth", True), ("network", unit == "visit")):
        code = run(["gate", str(output), "--want", apis, "--db", database])
        assert (code == 0) == allowed
    assert run(["check", str(output), "--db", database]) == 0
    capsys.readouterr()
    assert run(["audit", "certificate", str(output), "--db", database]) == 0
    spectra = tmp_path / "spectra.json"
    words = ["audit", "certificate", str(output), "--db", database]
    assert run([*words, "--write-spectra", str(spectra), "--unsafe-counts"]) == 0
    assert run(["audit", "certificate", str(output), "--spectra", str(spectra)]) == 0
    for other in {"visit", "path", "both", "last"} - {unit}:
        broken = tmp_path / "broken.json"
        policy = content["policy"] | {"visits": other}
        broken.write_text(json.dumps(content | {"policy": policy}), encoding="utf-8")
        assert run(["audit", "certificate", str(broken), "--db", database]) not in {0, 3}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--given", "depth"], "not with --"),
        (["--cluster", "depth"], "not with --"),
        (["--missing", "drop"], "not with --missing drop"),
        (["--setting", "sample"], "not with --setting sample"),
        (["--realised"], "not with --realised"),
        (["--until", "2999-01-01"], "is not over"),
    ],
)
def test_what_cannot_be_asked_of_visits_is_said_in_a_line(
    database: str, options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    asked = ["decide", *ASKED, "--candidates", "network", "--db", database, "-q"]
    assert run([*asked, "--unit", "path", *options]) not in {0, 1}
    said = capsys.readouterr().err
    assert words in said
    assert len(said.strip().splitlines()) == 1


def test_others_are_not_told_of_visits(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["decide", *ASKED, "--candidates", "network", "--db", database, "-q"]
    assert run(["--for-others", *asked, "--unit", "visit"]) not in {0, 1}
    assert "for the owner" in capsys.readouterr().err
