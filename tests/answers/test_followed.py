"""For how long users can be followed: pairs of visits, three kinds of sites, and their limits."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fpmonitor.answers.followed import report_followed
from fpmonitor.cli import run
from fpmonitor.estimate.linking import linked_probability
from fpmonitor.monitor import Monitor
from fpmonitor.population.pairs import DAY, Pairs, pairs, star_source
from fpmonitor.population.snapshot import MemorySnapshot
from fpmonitor.question import Question
from fpmonitor.store.visits import VisitRows
from tests.asked import answer_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

A, AGENT = "Screen.width", "Navigator.userAgent"
USERS, VALUES = 3_000, 300
AGENTS = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/{}.0.0.0 Safari/537.36",
    "Mozilla/5.0 (X11; Linux x86_64) Chrome/{}.0.0.0 Safari/537.36",
]


def stored(folder: Path, rows: Iterable[Sequence[object]], header: Sequence[str] = (A,)) -> str:
    """Store visits of `user, day of January, values`, at noon."""
    log, database = folder / "log.csv", str(folder / "log.duckdb")
    with log.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["user", "time", *header])
        for user, day, *values in rows:
            lines.writerow([f"u{user}", f"2026-01-{day:02d}T12:00:00Z", *values])
    assert run(["ingest", str(log), "--db", database, "-q"]) == 0
    return database


def asked(capsys: pytest.CaptureFixture[str], database: str, *words: str) -> list[Any]:
    return list(answer_of(capsys, "exposure", *words, "--db", database)[0]["followed"])


def drawn(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(VALUES, size=USERS)


TRUTH = float(linked_probability(1 / VALUES, USERS))  # of values that all stay


def test_values_that_stay_are_followed_as_far_as_any_method_can(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [(u, day, a) for u, a in enumerate(drawn(1)) for day in (1, 8, 29)]
    for line in asked(capsys, stored(tmp_path, rows), A, "--followed", "7d,24"):
        # the last day of the log is 28 days after the first: 28 needs four more to be over
        assert line["users"] == line["returned"] if line["days"] == 7 else not line["returned"]
        if line["returned"]:
            assert line["kept"] == 1
            assert line["same_lower"] <= TRUTH <= line["same_upper"] <= line["any_upper"]
            assert line["any_lower"] <= TRUTH <= line["parts_upper"] <= line["any_upper"]
            assert line["half"] == "more"


def test_values_that_change_hide_from_the_simplest_site_and_not_from_any_method(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All change by a rule, which a site may know: no limit of any method gives credit for it."""
    rows = [
        (u, day, (a + (day > 1)) % VALUES) for u, a in enumerate(drawn(2)) for day in (1, 8, 20)
    ]
    [line] = asked(capsys, stored(tmp_path, rows), A, "--followed", "7")
    assert line["kept"] == 0
    assert line["same_upper"] < 0.01
    assert line["parts_upper"] < 0.02
    assert line["any_lower"] <= TRUTH <= line["any_upper"]
    assert line["half"] == "fewer"


def test_who_keeps_a_value_hides_among_all_who_had_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One in twenty keeps it; among those alone each would seem to be one of a few."""
    values = 20
    rows = [
        (u, day, (u + (day > 1 and u // values % 20 > 0)) % values)
        for u in range(USERS)
        for day in (1, 8, 20)
    ]
    [line] = asked(capsys, stored(tmp_path, rows), A, "--followed", "7")
    truth = 0.05 * float(linked_probability(1 / values, USERS))
    assert line["kept"] == pytest.approx(0.05, abs=0.005)
    assert line["same_lower"] <= truth <= line["same_upper"]


def test_a_new_version_leaves_family_and_system_of_a_user_agent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text changes for all, and a site that compares its parts still follows the screen."""
    rows = [
        (u, day, AGENTS[u % 2].format(140 + (day > 1)), a)
        for u, a in enumerate(drawn(3))
        for day in (1, 8, 20)
    ]
    [line] = asked(capsys, stored(tmp_path, rows, (AGENT, A)), f"{AGENT},{A}", "--followed", "7d")
    both = float(linked_probability(1 / (2 * VALUES), USERS))
    assert line["kept"] == 0
    assert line["same_upper"] < 0.01
    assert line["parts_upper"] >= both


@pytest.mark.parametrize("seed", range(3))
def test_limits_hold_for_what_sites_link_of_a_population(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two screens in three stay; the simplest site and the best of equal parts are tried."""

    def people(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        before = rng.zipf(1.4, USERS).clip(max=900)
        stays = rng.random(USERS) < 2 / 3
        return before, np.where(stays, before, 1_000 + rng.integers(50, size=USERS))

    def share_linked(before: np.ndarray, after: np.ndarray) -> float:
        same = before == after
        return float((same / np.bincount(before)[before]).mean())

    rng = np.random.default_rng(seed)
    before, after = people(rng)
    rows = [(u, day, v) for day, values in ((1, before), (8, after)) for u, v in enumerate(values)]
    rows += [(0, 20, 1)]
    [line] = asked(capsys, stored(tmp_path, rows), A, "--followed", "7d")
    truth = np.mean([share_linked(*people(rng)) for _ in range(40)])
    assert line["kept"] == pytest.approx(2 / 3, abs=0.05)
    assert line["same_lower"] - 0.002 <= truth <= line["same_upper"] + 0.002
    assert line["same_lower"] > 0
    assert truth <= line["parts_upper"] <= line["any_upper"]


def visits_at(days: dict[int, list[float]]) -> VisitRows:
    rows = np.repeat(np.arange(len(days)), [len(each) for each in days.values()])
    times = np.array(
        [time * DAY * 1_000_000 for each in days.values() for time in each], dtype=np.int64
    )
    return VisitRows(rows=rows, users=rows.astype(np.int64), times=times, codes={A: rows + 1})


def test_first_visit_is_paired_with_the_nearest_and_nobody_counts_before_it_is_over() -> None:
    visits = visits_at(
        {
            0: [0.0, 6.4, 7.5, 30.0],  # 7.5 is nearer to 7
            1: [0.0, 6.5, 7.5],  # both as near: the earlier one
            2: [0.0, 5.9, 8.2],  # came back too early and too late
            3: [25.0, 32.0],  # might still come back until day 33
            4: [3.0],
            5: [24.0, 31.0],
        }
    )
    first, later, users = pairs(visits, 7 * DAY, DAY, 32 * DAY * 1_000_000)
    assert users == 5
    assert (visits.rows[first] == visits.rows[later]).all()
    found = dict(
        zip(
            visits.rows[first].tolist(),
            (visits.times[later] / DAY / 1_000_000).tolist(),
            strict=True,
        )
    )
    assert found == {0: 7.5, 1: 6.5, 5: 31.0}


def test_pairs_of_everybody_follow_from_their_own_visits_alone() -> None:
    rng = np.random.default_rng(7)
    days = {
        u: sorted((rng.integers(0, 40 * 48, rng.integers(1, 9)) / 48).tolist()) for u in range(400)
    }
    visits = visits_at(days)
    first, later, users = pairs(visits, 7 * DAY, DAY, 40 * DAY * 1_000_000)
    found = dict(
        zip(visits.rows[first].tolist(), (visits.times[later] // 1_000_000).tolist(), strict=True)
    )
    wanted, over = {}, 0
    for user, times in days.items():
        moments = [int(time * DAY) for time in times]
        if moments[0] + 8 * DAY > 40 * DAY:
            continue
        over += 1
        near = [m for m in moments if abs(m - moments[0] - 7 * DAY) <= DAY]
        if near:
            wanted[user] = min(near, key=lambda m: (abs(m - moments[0] - 7 * DAY), m))
    assert users == over
    assert found == wanted


def test_a_star_keeps_which_part_changed_and_larger_sets_tell_no_less() -> None:
    """One star for a user in whom anything changed would hide who kept the other part."""
    first, later = np.array([[0, 0], [0, 0], [0, 0], [1, 1]]), [[1, 0], [0, 1], [1, 1], [1, 1]]
    both = np.concatenate([first, later])
    visits = VisitRows(
        rows=np.arange(8) % 4,
        users=np.arange(8, dtype=np.int64) % 4,
        times=np.repeat([0, 1], 4),
        codes={"a": both[:, 0], "b": both[:, 1]},
    )
    found = Pairs(days=1, visits=visits, first=np.arange(4), later=np.arange(4, 8), users=4)
    nobody = MemorySnapshot(columns={}, texts=lambda _api: {}, digest="")
    source = star_source(found, ["a", "b"], {}, nobody)
    sizes = {apis: sorted(source.spectrum([*apis]).counts) for apis in ("a", "b", "ab")}
    # of a: user 0 and 2 changed, 1 kept 0, 3 kept 1; of both all differ
    assert sizes == {"a": [1, 2], "b": [1, 2], "ab": [1]}


@pytest.mark.parametrize(
    ("before", "options", "said"),
    [
        ([], ["--followed", "90d"], "the log covers 19 days"),
        ([], ["--followed", "10d"], "nobody came back after 10 days (8.57 to 11.4)"),
        ([], ["--followed", "soon"], "not a number of days"),
        ([], ["--followed", "-3"], "not a number of days"),
        ([], ["--followed", "0.000001d"], "less than a second"),  # else each visit is its own
        ([], ["--followed", "7d", "--given", A], "--given"),
        ([], ["--followed", "7d", "--missing", "exposed"], "--missing exposed"),
        (["--for-others"], ["--followed", "7d"], "owner"),
    ],
)
def test_what_cannot_be_followed_is_refused_in_a_line(
    before: list[str],
    options: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    database = stored(tmp_path, [(u, day, u % 5) for u in range(200) for day in (1, 8, 20)])
    capsys.readouterr()
    assert run([*before, "exposure", A, *options, "--db", database]) != 0
    assert said in capsys.readouterr().err


def test_a_log_without_times_cannot_be_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, database = tmp_path / "log.csv", str(tmp_path / "log.duckdb")
    log.write_text("user,Screen.width\n" + "".join(f"u{u},{u % 5}\n" for u in range(200)))
    assert run(["ingest", str(log), "--db", database, "-q"]) == 0
    capsys.readouterr()
    assert run(["exposure", A, "--followed", "7d", "--db", database]) != 0
    assert "no times" in capsys.readouterr().err


def test_screen_has_a_line_for_each_time_and_says_who_came_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [(u, day, a) for u, a in enumerate(drawn(5)) for day in (1, 8, 15, 29)]
    database = stored(tmp_path, rows)
    asked = ["exposure", A, "--followed", "14d,7d", "--db", database, "--format", "table"]
    assert run(asked) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Linked later" in said
    assert said.index("7 days") < said.index("14 days")
    assert "After 14 days the same value links more than half of those linked at once" in said
    # measured in a week without a release, values stay that change in others
    assert "They were seen from 2026-01-01 to 2026-01-29: on days without a release" in said


def test_a_spreadsheet_has_a_row_for_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cell held a list in the spelling of Python, which no spreadsheet reads."""
    rows = [(u, day, a) for u, a in enumerate(drawn(5)) for day in (1, 8, 15, 29)]
    database = stored(tmp_path, rows)
    lines = asked(capsys, database, A, "--followed", "7d,14d")
    command = ["exposure", A, "--followed", "7d,14d", "--db", database, "--format", "csv"]
    assert run(command) == 0
    found = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    for row, line in zip(found, lines, strict=True):
        assert row["apis"] == A
        assert {name: float(row[name]) for name in ("days", "any_upper")} == {
            name: line[name] for name in ("days", "any_upper")
        }


def test_a_week_without_a_release_links_more_and_each_answer_names_its_days(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A version that comes on day 10 breaks each link by the same value, and none by parts."""
    sizes = drawn(6)
    rows = [
        (user, day, AGENTS[user % 2].format(140 + (day > 10)), size)
        for user, size in enumerate(sizes)
        for day in ((1, 8, 9, 15, 16) if user == 0 else (1, 8, 15))  # until all had their time
    ]
    database = stored(tmp_path, rows, (AGENT, A))
    found = {}
    for name, since, until in (("quiet", "01", "10"), ("release", "08", "17")):
        window = ["--since", f"2026-01-{since}", "--until", f"2026-01-{until}"]
        words = ["exposure", f"{AGENT},{A}", "--followed", "7d", *window, "--db", database]
        [answer] = answer_of(capsys, *words)
        [found[name]] = answer["followed"]
        days = [int(day[-2:]) for day in answer["days"]]
        assert days == ([1, 9] if name == "quiet" else [8, 16])
    quiet, release = found["quiet"], found["release"]
    assert (quiet["kept"], release["kept"]) == (1, 0)
    assert quiet["same_lower"] > 10 * release["same_upper"]
    # family and system stay, so a site that compares parts, or knows the versions, links as before
    for limit in ("parts_upper", "any_upper"):
        assert release[limit] == pytest.approx(quiet[limit], rel=0.05)


def test_figure_draws_today_and_the_days_after(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [(u, day, a) for u, a in enumerate(drawn(4)) for day in (1, 8, 29)]
    database, output = stored(tmp_path, rows), tmp_path / "followed.svg"
    words = ["exposure", "--plot", "followed", A, "--db", database, "-o", str(output)]
    assert run([*words, "--followed", "7d,14d"]) == 0
    figure = output.read_text(encoding="utf-8")
    for word in ("today", ">7<", "any method", "same value", "parts that stayed, at most"):
        assert word in figure
    assert ">14<" not in figure  # nobody came back then
    for refused in (words, ["exposure", "--plot", "curve", *words[3:], "--followed", "7d"]):
        capsys.readouterr()
        assert run(refused) == 2
        assert "--plot followed" in capsys.readouterr().err


def test_each_number_of_days_is_a_figure_of_its_own_for_a_reader(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Numbers that print alike take in other visits: a reader could ask for any number of them."""
    rows = [(u, day, a) for u, a in enumerate(drawn(3)[:400]) for day in (1, 8, 29)]
    database = stored(tmp_path, rows)
    answered = []
    for days in ("7", "7.0000001", "7"):
        asked = ["exposure", A, "--followed", days, "--reader", "ann", "--db", database]
        assert run(asked) == 0
        capsys.readouterr()
        [reader] = answer_of(capsys, "audit", "queries", "--db", database)
        answered.append(reader["answered"])
    assert answered[1] == answered[0] + 1
    assert answered[2] == answered[1]


def test_the_three_upper_limits_of_a_time_share_delta(tmp_path: Path) -> None:
    """Each had a half of it, so that all of them held with probability 1 - 1.5 delta."""
    rows = [(u, day, a % 40) for u, a in enumerate(drawn(4)) for day in (1, 8, 29)]
    with Monitor(stored(tmp_path, rows)) as monitor:
        population, question = monitor.population(), Question(10)
        sample = population.sample(question, [(A,)])
        [line] = report_followed(population, sample, (A,), [7.0])
    limits = sample.certificate((A,), question.delta / 3, linked=True, users=line.returned)
    assert line.any_upper == limits.of(sample.disclosed((A,)).most)[1]
