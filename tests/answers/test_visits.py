"""One visit and all visits of a user: no tuple that nobody showed, no repeats, no second draw."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fpmonitor.cli import run
from fpmonitor.estimate.exposure import statistical_exposure
from fpmonitor.estimate.limits import exposure_limits
from fpmonitor.population.visits import drawn_visits, path_words, tuple_ids
from fpmonitor.spectrum import CountSpectrum, DisclosedSpectra
from fpmonitor.store.visits import VisitRows
from tests.asked import answer_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

USERS = 2_000
A, B = "Screen.width", "NetworkInformation.rtt"


def stored(
    folder: Path, rows: Iterable[Sequence[object]], *, header: Sequence[str] = (A, B)
) -> str:
    """Store visits of `user, day, a, b`, in an order that is none of time."""
    log, database = folder / "log.csv", str(folder / "log.duckdb")
    lines = [[f"u{user}", f"2026-03-{day:02d}T12:00:00Z", *values] for user, day, *values in rows]
    np.random.default_rng(3).shuffle(lines)
    with log.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["user", "time", *header], *lines])
    assert run(["ingest", str(log), "--db", database, "-q"]) == 0
    return database


def asked(capsys: pytest.CaptureFixture[str], database: str, *words: str) -> list[Any]:
    return list(answer_of(capsys, "exposure", *words, "--visits", "--db", database))


def test_users_of_one_visit_are_the_same_by_every_unit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(1)
    database = stored(
        tmp_path, ((u, 1, a, 0) for u, a in enumerate(rng.zipf(1.5, USERS).clip(max=500)))
    )
    [found] = asked(capsys, database, A)
    for unit in ("visit", "path"):
        for member in ("empirical", "lower", "upper"):
            assert found["visits"][unit][member] == pytest.approx(found[member])
    assert found["visits"]["changing"] == {}


def test_no_tuple_counts_that_no_browser_showed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last value of each API is put together from two visits, and is all users' own."""
    rows = [row for u in range(USERS) for row in ((u, 1, u % 40, ""), (u, 2, "", u // 40))]
    [found] = asked(capsys, stored(tmp_path, rows), f"{A},{B}")
    assert found["empirical"] == 1
    assert found["visits"]["visit"]["empirical"] == 0
    assert found["visits"]["visit"]["upper"] < 0.1
    assert found["visits"]["path"]["empirical"] == 1  # who knows its users sees both


def test_values_that_change_single_out_by_all_visits_and_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(2)
    rows = [(u, 1 + day, u % 3, rng.integers(12)) for u in range(USERS) for day in range(5)]
    database = stored(tmp_path, rows)
    alone, both = asked(capsys, database, A, f"{A},{B}")
    assert alone["visits"]["path"]["empirical"] == 0
    assert both["visits"]["visit"]["empirical"] < 0.01
    assert both["visits"]["path"]["lower"] > 0.8
    assert both["visits"]["users"] == USERS
    assert both["visits"]["visits"] == 5 * USERS
    assert both["visits"]["days"] == pytest.approx(4)
    assert [*both["visits"]["changing"]] == [B, A]
    assert run(["exposure", f"{A},{B}", A, "--visits", "--db", database, "--format", "table"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"{B} changes between the visits of 100 % of those who came back" in said
    assert f"{A} changes" not in said


def test_who_comes_several_times_is_told_of_visits_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [(u, 1 + day, u % 4, 0) for u in range(200) for day in range(3)]
    database = stored(tmp_path, rows)
    for before, options, told in (
        ([], [], True),
        ([], ["--until", "2026-03-02"], False),
        ([], ["--missing", "exposed"], False),
        ([], ["--given", B], False),
        (["--for-others"], [], False),
    ):
        capsys.readouterr()
        words = [*before, "exposure", A, *options, "--db", database]
        assert run([*words, "--format", "json"]) == 0
        [found] = json.loads(capsys.readouterr().out)
        assert ("visits" in found) == told
        assert run([*words, "--format", "table"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert ("by one visit and by all visits" in shown) == told
        if told:
            assert shown.index("one visit") < shown.index("by last values")


def test_what_visits_tell_counts_for_a_reader(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = stored(tmp_path, [(u, 1 + day, u % 4, 0) for u in range(200) for day in range(2)])
    assert run(["exposure", A, "--reader", "ann", "--db", database]) == 0
    [reader] = answer_of(capsys, "audit", "queries", "--db", database)
    assert reader["answered"] == 3  # last values, one visit, all visits


def test_how_often_people_come_exposes_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Repeats are left out after the set is looked at alone, so another API's changes are, too."""
    often = [21 + u if u < 9 else 1 + u % 20 for u in range(USERS)]  # some as nobody else
    rows = [(u, 1 + day, u % 4, day) for u in range(USERS) for day in range(often[u])]
    [found] = asked(capsys, stored(tmp_path, rows), A)
    assert found["visits"]["path"]["empirical"] == 0


def test_order_in_time_is_told_by_all_visits_and_the_order_of_the_log_by_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nine users came in the other order: one visit hides them, the path does not."""
    rows = [(u, day, (day + (u < 9)) % 2, 0) for u in range(USERS) for day in (1, 2)]
    [found] = asked(capsys, stored(tmp_path, rows), A)
    assert found["visits"]["visit"]["empirical"] == 0
    assert found["visits"]["path"]["empirical"] == pytest.approx(9 / USERS)


@pytest.mark.parametrize(
    ("before", "options", "said"),
    [
        (["--for-others"], [], "owner"),
        ([], ["--missing", "exposed"], "--missing exposed"),
        ([], ["--given", B], "--given"),
        ([], ["--bias", "1.5"], "--bias"),
    ],
)
def test_what_has_no_limits_by_visits_is_refused_in_a_line(
    before: list[str],
    options: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    database = stored(tmp_path, ((u, 1, u % 4, u % 3) for u in range(200)))
    capsys.readouterr()
    assert run([*before, "exposure", A, "--visits", *options, "--db", database]) != 0
    assert said in capsys.readouterr().err


def test_view_and_window_are_those_of_the_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(5)
    rows = [(u, 1 + day, 1000 + rng.integers(12), 0) for u in range(USERS) for day in range(5)]
    database = stored(tmp_path, rows)
    [found] = asked(capsys, database, A, "--until", "2026-03-02")
    assert found["visits"]["visits"] == USERS
    assert found["visits"]["path"]["empirical"] == 0
    less = tmp_path / "less.toml"
    less.write_text(f'["{A}"]\nround = 100\n', encoding="utf-8")
    [coarse] = asked(capsys, database, A, "--what-if", str(less))
    assert coarse["visits"]["path"]["empirical"] == 0


def visit_rows(values: np.ndarray) -> VisitRows:
    """Visits of users with as many each, from values of shape (users, visits)."""
    users, visits = values.shape
    rows = np.repeat(np.arange(users), visits)
    return VisitRows(
        rows=rows,
        users=rows.astype(np.int64),
        times=np.tile(np.arange(visits), users),
        codes={A: values.ravel()},
    )


@pytest.mark.parametrize("keep", [0.0, 0.7])
def test_limits_from_the_mean_of_draws_hold_for_a_visit_of_a_user(keep: float) -> None:
    law = np.append(0.85, np.full(300, 0.15 / 300))
    truth = statistical_exposure(law, k=10, population=USERS)
    limits = exposure_limits(users=USERS, k=10, population=USERS, delta=0.2)
    rng, missed, runs = np.random.default_rng(9), np.zeros(2), 40
    for _ in range(runs):
        values = rng.choice(len(law), (USERS, 4), p=law)
        for visit in range(1, 4):
            again = rng.random(USERS) < keep
            values[again, visit] = values[again, visit - 1]
        visits = visit_rows(values + 1)
        ids = tuple_ids(visits, [A])
        drawn = [np.bincount(ids[at]) for at in drawn_visits(visits, 16)]
        lower, upper = limits.of_mean(
            [DisclosedSpectra.all_of(CountSpectrum.from_counts(np.concatenate(drawn)))], 16
        )
        missed += [lower > truth, upper < truth]
    assert (missed / runs <= 0.2).all()


def test_a_window_that_is_over_is_the_same_whatever_comes_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever comes back is in it with the visits of its days alone, and new users are not."""
    rng = np.random.default_rng(6)
    rows = [(u, day, rng.integers(3), 0) for u in range(300) for day in (1, 3)]
    database, window = stored(tmp_path, rows), ["--until", "2026-03-08"]
    [before] = asked(capsys, database, A, *window)
    later = tmp_path / "later"
    later.mkdir()
    stored(later, [(u, 9, rng.integers(99), 0) for u in range(200, 400)])
    assert run(["ingest", str(later / "log.csv"), "--db", database, "-q"]) == 0
    [after] = asked(capsys, database, A, *window)
    assert after["users"] == before["users"]
    for unit in ("visit", "path"):
        same = {each["visits"][unit]["empirical"] for each in (before, after)}
        assert len(same) == 1, unit
    assert after["visits"]["changing"] == before["visits"]["changing"]
    [whole] = asked(capsys, database, A)
    assert whole["visits"]["path"]["empirical"] > before["visits"]["path"]["empirical"]


def test_draws_follow_from_the_user_alone_and_take_each_visit_alike() -> None:
    visits = visit_rows(np.random.default_rng(4).integers(9, size=(3_000, 4)) + 1)
    other = VisitRows(
        rows=visits.rows, users=visits.users, times=visits.times, codes={A: visits.rows}
    )
    for place, same in zip(drawn_visits(visits, 3), drawn_visits(other, 3), strict=True):
        assert (place == same).all()
        assert np.bincount(place % 4, minlength=4) == pytest.approx(np.full(4, 750), abs=120)


def test_paths_have_one_word_where_they_are_equal_and_others_where_they_are_not() -> None:
    paths = [[1, 1, 2], [1, 2, 2], [2, 1, 1], [1, 2, 1], [2, 2, 2], [1, 1, 1]]
    visits = visit_rows(np.array(paths))
    words = path_words(visits, tuple_ids(visits, [A]), "key").tolist()
    assert words[0] == words[1]
    assert len({*words}) == 5


def test_what_last_values_hide_is_told_before_all_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each pair of users shared a screen with nobody else last week, and all share three today."""
    log, database = tmp_path / "log.csv", str(tmp_path / "log.duckdb")
    with log.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["user", "time", "screen", "depth"])
        for user in range(3_000):
            lines.writerow([f"u{user}", "2026-03-01T10:00:00Z", f"s{user // 2}", user % 2])
        for user in range(3_000):
            lines.writerow([f"u{user}", "2026-03-08T10:00:00Z", f"s{user % 3}", user % 2])
    assert run(["ingest", str(log), "--db", database, "-q", "--as", "screen=Screen.width"]) == 0

    def said(*words: str) -> str:
        capsys.readouterr()
        assert run([*words, "--db", database]) == 0
        return " ".join(capsys.readouterr().out.split())

    asked = ["--k", "10", "-n", "3000"]
    [line] = json.loads(said("exposure", "screen,depth", *asked, "--format", "json"))
    assert line["empirical"] == 0
    assert line["visits"]["visit"]["empirical"] == pytest.approx(0.5, abs=0.02)
    assert line["visits"]["path"]["empirical"] == 1
    told = "A site that knows its users again finds 100 % of those observed in such groups"
    output = tmp_path / "d.json"
    decided = ["decide", *asked, "--budget", "10%", "--fixed-question"]
    decided += ["--assume", "screen", "-q", "-o", str(output)]
    shown = said(*decided)
    content = json.loads(output.read_text(encoding="utf-8"))
    assert (content["recommended"], content["undecided"]) == (["depth"], [["screen"]])
    decided[1:1] = ["--unit", "last"]
    shown = said(*decided)
    content = json.loads(output.read_text(encoding="utf-8"))
    assert content["recommended"] == ["depth", "screen"]
    assert told in content["guarantee"]
    assert "--unit both" in content["guarantee"]
    shown = said(*decided[:-2], "--format", "table")
    assert shown.index(told) < shown.index("Assumes the 3,000 observed users")
    assert run(["audit", "certificate", str(output), "--db", database]) == 0
    # who counts visits has nothing hidden
    by_visits = tmp_path / "both.json"
    decided[2] = "both"
    said(*decided[:-1], str(by_visits))
    content = json.loads(by_visits.read_text(encoding="utf-8"))
    assert content["recommended"] == ["depth"]
    assert "by_visits" not in content


@pytest.mark.parametrize(("pairs", "noted"), [(4, False), (5, True)])
def test_exactly_k_users_more_by_visits_are_noted(tmp_path: Path, pairs: int, noted: bool) -> None:
    """`(0.03 - 0.02) * 1,000` is below 10."""
    # 20 users have values of their own, each the last; by visits so have `pairs` pairs more.
    rows: list[tuple[object, ...]] = [(user, 2, f"own{user}", 0) for user in range(20)]
    for user in range(20, 1_000):
        first = f"pair{user // 2}" if user < 20 + 2 * pairs else "usual"
        rows += [(user, 1, first, 0), (user, 2, "usual", 0)]
    assert (decided_by_last(tmp_path, rows).get("by_visits") is not None) is noted


def test_nobody_who_is_alone_by_one_visit_shows_as_fewer_than_k(tmp_path: Path) -> None:
    """A share of 0 told that no user is, where 1 to 9 of 400 are told as 9."""
    # By all visits each is nearly alone; each visit is one of 12 that 33 users make.
    rows = [
        (user, day, f"v{user // 12 ** (day - 1) % 12}", 0) for user in range(400) for day in (1, 2)
    ]
    found = decided_by_last(tmp_path, rows)["by_visits"]
    assert found["path"] > 0.9
    assert found["visit"] == 9 / 400


def decided_by_last(folder: Path, rows: Iterable[Sequence[object]]) -> dict[str, Any]:
    output = folder / "decision.json"
    asked = ["decide", "--k", "10", "--population", "1000", "--budget", "20%", "--unit", "last"]
    asked += ["--candidates", A, "--db", stored(folder, rows), "-o", str(output)]
    assert run(asked) in {0, 3}
    return dict(json.loads(output.read_text(encoding="utf-8")))
